/* Convolution on the GPU: what its parts share. conv.c holds the rows, cuda/conv/plan.c finds the fastest way for a
 * shape, cuda/runtime/cudnn.c runs cuDNN's engines, cuda/conv/gemm.c and cuda/conv/cols.cu make products of matrices of
 * it, cuda/conv/sums.c sums up. */
#ifndef DL_CUDA_CONV_H
#define DL_CUDA_CONV_H

#include "cuda/runtime/cudnn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One convolution or gradient, operands by role; one of them is written (kind). Nothing is empty. */
typedef struct dl_conv_job {
    dl_gpu *gpu;
    dl_conv_kind kind;
    dl_conv g;
    dl_dtype t;
    dl_tensor *image, *weight, *result;
} dl_conv_job;

/* By the fastest way known for these shapes, measured on first use. */
dl_status dl_conv_run(const dl_conv_job *job);

/* Operands laid out densely, all with channels last or none. Serves every dtype, and every shape up to 2^31 elements in
 * the patches of one image (DL_ERR_UNSUPPORTED). */
dl_status dl_conv_gemm(const dl_conv_job *job, bool last);
/* Elements of the matrix of patches of the whole call; 0: the images are one. */
long dl_conv_gemm_size(const dl_conv *g, dl_conv_kind kind, bool last);

/* With stride 1 the result is the gradient of an image under weights that are turned round, and the other way: what is
 * called image there is the result here. False: it is not so. */
bool dl_conv_opposite(const dl_conv *g, dl_conv *o);

/* cuda/conv/sums.c. Plain sums in f32, in one of several ways; operands densely with channels first. */
enum { DL_CONV_SUMS = 4 };
bool dl_conv_sums_take(const dl_conv *g, dl_conv_kind kind, dl_dtype t, int which);
dl_status dl_conv_sums(const dl_conv_job *job, int which);

/* cuda/conv/cols.cu. The matrix of patches of the images, which lie densely with channels last or not: with `last` it
 * is [groups][pixels][taps, channels of a group], else [channels, taps][pixels]. */
dl_status dl_cols_make(dl_gpu *gpu, const dl_conv *g, dl_dtype t, const void *image, void *cols, bool last);
/* The transpose: each pixel is the sum of its copies, added up in f32 or f64 and in fixed order. */
dl_status dl_cols_sum(dl_gpu *gpu, const dl_conv *g, dl_dtype t, const void *cols, void *image, bool last);
/* The weight of the opposite convolution: out[c,o,i,j] = w[o,c,kh-1-i,kw-1-j], out dense with channels last or not. */
dl_status dl_conv_flip(dl_gpu *gpu, const dl_tensor *w, void *out, bool last);
/* y += x, laid out alike. */
dl_status dl_conv_add(dl_gpu *gpu, dl_tensor *y, const dl_tensor *x);

/* What follows a convolution, by channel; each vector of any floating dtype, or NULL. */
typedef struct dl_channel_norm {
    const dl_tensor *bias, *mean, *var, *weight, *shift;
    double eps;
    bool relu;
} dl_channel_norm;
/* channels.cu. y = (y + bias - mean) / sqrt(var + eps) * weight + shift, then max(y, 0) with relu; mean and var come
 * together. In place; y [N,C,H,W] lies densely, channels last or not. */
dl_status dl_channels_normalise(dl_gpu *gpu, dl_tensor *y, const dl_channel_norm *n);

#ifdef __cplusplus
}
#endif
#endif
