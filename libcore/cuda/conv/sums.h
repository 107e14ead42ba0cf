/* Convolutions in f32 as plain sums, for square kernels of 3, 5 or 7 with stride 1 or 2 and one group; everything lies
 * densely with channels first. cuda/conv/sums.c lists the ways; which one is the fastest is measured, see
 * cuda/conv/plan.c. */
#ifndef DL_CUDA_CONV_SUMS_H
#define DL_CUDA_CONV_SUMS_H

#include "cuda/conv/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights: steps from a channel of the results to the next one, and of the image; taps turned round or not. */
typedef struct dl_conv_weight {
    const float *p;
    long out, in;
    bool turned;
} dl_conv_weight;

/* Results, and with turned weights gradients of images with stride 1. By strips of columns (cuda/conv/strips.cu); of
 * 3x3 kernels with stride 1 by windows in shared memory (cuda/conv/windows.cu) or Winograd's tiles
 * (cuda/conv/winograd.cu). */
bool dl_conv_strips_take(const dl_conv *g);
dl_status dl_conv_strips(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight *weight, const float *x, float *y);
bool dl_conv_windows_take(const dl_conv *g);
dl_status dl_conv_windows(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight *weight, const float *x, float *y);
bool dl_conv_winograd_take(const dl_conv *g);
dl_status dl_conv_winograd(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight *weight, const float *x, float *y);

/* Gradients of weights. By strips, with few channels; by bands of an image in shared memory (cuda/conv/bands.cu); of
 * 3x3 kernels between many channels by bands of both (cuda/conv/tiles.cu) or Winograd's tiles
 * (cuda/conv/winograd_weights.cu). */
bool dl_conv_strip_weights_take(const dl_conv *g);
dl_status dl_conv_strip_weights(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw);
bool dl_conv_bands_take(const dl_conv *g);
dl_status dl_conv_bands(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw);
bool dl_conv_tiles_take(const dl_conv *g);
dl_status dl_conv_tiles(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw);
bool dl_conv_winograd_weights_take(const dl_conv *g);
dl_status dl_conv_winograd_weights(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw);

/* cuda/conv/join.cu. In how many shares n pieces of work go, for `chunks` blocks each, so that all that fit on the
 * device have as much to do. */
dl_status dl_conv_shares(dl_gpu *gpu, const void *kernel, int threads, long bytes, long chunks, long n, long *shares);
/* The sum over shares of part[share][weight]; where it is not finite, the gradient is made again from x and grad. */
dl_status dl_conv_join(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, const float *part, long shares,
                       float *dw);
/* The sum over shares of part[share][n + more]; the last ones go to db, or if it is NULL nowhere. */
dl_status dl_conv_join_two(dl_gpu *gpu, const float *part, long shares, long n, float *dw, long more, float *db);

#ifdef __cplusplus
}
#endif
#endif
