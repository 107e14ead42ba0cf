/* Convolution on the GPU: declarations that its files share. conv.c holds the kernels of the ops, plan.c measures which
 * algorithm is fastest for a shape, cuda/runtime/cudnn.c runs cuDNN's engines, gemm.c and cols.cu compute a convolution
 * as products of matrices, sums.c lists the project's own kernels. */
#pragma once

#include "cuda/runtime/cudnn.h"

DL_C_BEGIN

/* One convolution or gradient, with operands by role; `kind` says which of them is written. None is empty. */
typedef struct dl_conv_job {
    dl_gpu *gpu;
    dl_conv_kind kind;
    dl_conv g;
    dl_dtype t;
    dl_tensor *image, *weight, *result;
    /* NULL: images. Else the geometry of volumes, which g does not hold, and the call, without its bias. */
    const dl_conv_nd *volume;
    const dl_call *call;
} dl_conv_job;

/* Fills a dense tensor with zeros. */
dl_status dl_conv_clear(dl_gpu *g, dl_tensor *t);
/* Runs the fastest algorithm for these shapes, which is measured on first use. */
dl_status dl_conv_run(const dl_conv_job *job);

/* A job of volumes by the rows of images that it is made of elsewhere. */
dl_status dl_conv_by_images(const dl_conv_job *job);

/* By products of matrices. Operands are dense, all with channels last or all with channels first. Any dtype; patches of
 * one image of more than 2^31 elements are DL_ERR_UNSUPPORTED. */
dl_status dl_conv_gemm(const dl_conv_job *job, bool last);
/* Elements of the matrix of patches of the whole call; 0: the images themselves are that matrix. */
long dl_conv_gemm_size(const dl_conv *g, dl_conv_kind kind, bool last);

/* With stride 1, a forward convolution equals an image gradient under flipped weights, and the reverse. Sets *o to that
 * opposite problem, in which image and result change roles. False: there is none. */
bool dl_conv_opposite(const dl_conv *g, dl_conv *o);

/* cuda/conv/sums.c. The project's own kernels, in f32; operands are dense with channels first. */
enum { DL_CONV_SUMS = 3 };
bool dl_conv_sums_take(const dl_conv *g, dl_conv_kind kind, dl_dtype t, int which);
dl_status dl_conv_sums(const dl_conv_job *job, int which);
/* The name of a way, NULL when there is none of that number; and the number of a name, negative when there is none. */
const char *dl_conv_sums_name(dl_conv_kind kind, int which);
int dl_conv_sums_find(dl_conv_kind kind, const char *name);

/* cuda/conv/pool.cu. Do the kernels there take this call of conv2d_relu_max_pool2d and its gradient? */
bool dl_cuda_pools_at_once(const dl_call *c);

/* cuda/conv/cols.cu. The matrix of patches of dense images: [groups][pixels][taps, channels of a group] if `last`, for
 * channels last, else [channels, taps][pixels]. */
dl_status dl_cols_make(dl_gpu *gpu, const dl_conv *g, dl_dtype t, const void *image, void *cols, bool last);
/* The transpose: each pixel is the sum of its copies, in f32 or f64 and in a fixed order. */
dl_status dl_cols_sum(dl_gpu *gpu, const dl_conv *g, dl_dtype t, const void *cols, void *image, bool last);
/* The weight of the opposite problem: out[c,o,i,j] = w[o,c,kh-1-i,kw-1-j]; out is dense, channels last if `last`. */
dl_status dl_conv_flip(dl_gpu *gpu, const dl_tensor *w, void *out, bool last);
/* y += x; both have the same strides. */
dl_status dl_conv_add(dl_gpu *gpu, dl_tensor *y, const dl_tensor *x);

/* Bias, norm and relu after a convolution, by channel; each vector has any floating dtype, or is NULL. */
typedef struct dl_channel_norm {
    const dl_tensor *bias, *mean, *var, *weight, *shift;
    double eps;
    bool relu;
} dl_channel_norm;
/* cuda/kernels/norm/channels.cu. In place: y = (y + bias - mean) / sqrt(var + eps) * weight + shift, then max(y, 0) if
 * relu; mean and var are both given or both NULL. y [N,C,H,W] is dense, channels first or last. */
dl_status dl_channels_normalise(dl_gpu *gpu, dl_tensor *y, const dl_channel_norm *n);

DL_C_END
