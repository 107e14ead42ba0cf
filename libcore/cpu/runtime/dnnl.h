/* oneDNN, loaded when it is first needed; the two generations of its C API look alike from here. */
#pragma once

#include "ops/conv.h"
#include "ops/matmul.h"

typedef enum dl_dnnl_kind { DL_DNNL_FORWARD, DL_DNNL_DX, DL_DNNL_DW } dl_dnnl_kind;

/* A convolution made ready: of f32, or of bf16 where the processor multiplies such numbers, with sums in f32 that are
 * rounded once, flushed and silent as those of products below; images and results [N,H,W,C] in memory, volumes
 * [N,D,H,W,C], weights contiguous. The gradient of weights is f32. */
typedef struct dl_dnnl_conv dl_dnnl_conv;

/* *out stays NULL when the library is absent or has no such convolution: that is not a failure. DL_ERR_MEMORY. */
dl_status dl_dnnl_conv_new(dl_dnnl_kind kind, const dl_conv_nd *g, dl_dtype t, bool bias, dl_dnnl_conv **out);
void dl_dnnl_conv_free(dl_dnnl_conv *c);
/* image, weight and result are operands and output as the kind has them; bias for FORWARD only. fresh_weight: the
 * weights are not those of the last run. Not for two threads at once. DL_ERR_MEMORY, DL_ERR_INTERNAL. */
dl_status dl_dnnl_conv_run(dl_dnnl_conv *c, dl_tensor *image, dl_tensor *weight, dl_tensor *bias, dl_tensor *result,
                           bool fresh_weight);

/* y = a @ b, of bf16: a is m x k, b k x n; bias: n elements that are added to each row, or NULL. */
typedef struct dl_dnnl_matrices {
    long m, n, k;
    dl_mat a, b, y;
    const void *bias;
} dl_dnnl_matrices;

/* Sums are f32 and rounded once; numbers below the normal ones count as 0, and no flag is raised. *done stays false
 * when the library, or the processor, has no such product of matrices that lie so. DL_ERR_MEMORY, DL_ERR_INTERNAL. */
dl_status dl_dnnl_product(const dl_dnnl_matrices *p, bool *done);
