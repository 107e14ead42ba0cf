/* Matrix products through cuBLASLt. Of its epilogues only the bias is used: with relu some of its algorithms turn NaN
 * into 0 (seen with tf32 and bf16), gelu is the approximation by tanh, and the gradient of the bias takes as long as a
 * sum of its own. */
#pragma once

#include "cuda/runtime/base.h"
#include "ops/matmul.h"

DL_C_BEGIN

typedef struct dl_gemm {
    dl_dtype t;
    long m, n, k;
    dl_mat a, b;                /* m x k, k x n; each with rows or columns side by side, see dl_gemm_ready */
    void *out;                  /* m x n, contiguous */
    long count, step_a, step_b; /* batches, and how far operands are apart */
    long step_out;              /* how far results are apart; 0: they follow each other */
    const void *bias;           /* n numbers added to each row, or NULL */
    bool accumulate;            /* out += the product; without a bias */
} dl_gemm;

/* Can cuBLASLt read the matrix as it is? */
bool dl_gemm_ready(const dl_mat *m, long rows, long cols);
/* The version of cuBLASLt at run time; 0: there is none. */
long dl_gemm_version(void);
dl_status dl_gemm_run(dl_gpu *g, const dl_gemm *p);
/* matmul of integers (cuda/kernels/matmul_integer.cu); any strides. */
dl_status dl_product_run(dl_gpu *g, const dl_gemm *p);

DL_C_END
