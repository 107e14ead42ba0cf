/* The project's own convolution kernels: f32, square kernels of 3, 5 or 7, stride 1 or 2, one group; operands are dense
 * with channels first. cuda/conv/sums.c is their table; cuda/conv/plan.c measures which one is fastest for a shape. */
#pragma once

#include "cuda/conv/conv.h"

DL_C_BEGIN

/* Weights: elements between result channels and between image channels; `turned`: taps are read flipped. */
typedef struct dl_conv_weight {
    const float *p;
    long out, in;
    bool turned;
} dl_conv_weight;

/* Forward, and with flipped weights the gradient of the images with stride 1: by strips of columns
 * (cuda/conv/strips.cu), and for 3x3 kernels with stride 1 by Winograd's algorithm (cuda/conv/winograd.cu). */
bool dl_conv_strips_take(const dl_conv *g);
dl_status dl_conv_strips(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight *weight, const float *x, float *y);
bool dl_conv_winograd_take(const dl_conv *g);
dl_status dl_conv_winograd(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight *weight, const float *x, float *y);

/* Gradient of the weights: by strips, with few channels; by bands of an image in shared memory (cuda/conv/bands.cu);
 * for 3x3 kernels with stride 1 by Winograd's algorithm (cuda/conv/winograd_weights.cu). */
bool dl_conv_strip_weights_take(const dl_conv *g);
dl_status dl_conv_strip_weights(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw);
bool dl_conv_bands_take(const dl_conv *g);
dl_status dl_conv_bands(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw);
bool dl_conv_winograd_weights_take(const dl_conv *g);
dl_status dl_conv_winograd_weights(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw);

/* cuda/conv/join.cu. The number of shares into which n units of work are divided, with `chunks` blocks for each share,
 * so that all resident blocks have equal work. */
dl_status dl_conv_shares(dl_gpu *gpu, const void *kernel, int threads, long bytes, long chunks, long n, long *shares);
/* dw = sum of part[share][weight] over shares; a sum that is not finite is computed again from x and grad. */
dl_status dl_conv_join(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, const float *part, long shares,
                       float *dw);
/* The sum of part[share][n + more] over shares: n go to dw, the others to db unless it is NULL. */
dl_status dl_conv_join_two(dl_gpu *gpu, const float *part, long shares, long n, float *dw, long more, float *db);

DL_C_END
