/* Matrix products over strided memory, for the kernels of matmul, linear and convolution. */
#pragma once

#include "cpu/runtime/simd.h"
#include "ops/matmul.h"

/* c[m,n] = a[m,k] @ b[k,n], added to c when `add` is set; f32 or f64. One stride of c must be 1. An operand is copied
 * only when neither of its strides is 1. k = 0 gives zeros. DL_ERR_MEMORY, or DL_ERR_UNSUPPORTED without OpenBLAS. */
dl_status dl_cpu_gemm(dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add);

/* y = a @ b + bias, of 16 bits, with sums in f32 that are rounded once: b is k x n, rows of y are dense, bias has n
 * dense elements or is NULL. *done stays false where this is no faster than by way of f32. DL_ERR_MEMORY,
 * DL_ERR_INTERNAL. */
dl_status dl_cpu_gemm_half(dl_dtype t, long m, long n, long k, dl_mat a, dl_mat b, const void *bias, dl_mat y,
                           bool *done);

/* The loops for small products; false: this one is not small enough, and nothing is done. */
DL_SIMD_DECL(bool, dl_tiny_gemm_f32, (long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add));
DL_SIMD_DECL(bool, dl_tiny_gemm_f64, (long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add));
/* Sums of products for few rows or few columns: rows of a and columns of b lie densely. */
DL_SIMD_DECL(void, dl_dots_f32, (long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add));
DL_SIMD_DECL(void, dl_dots_f64, (long m, long n, long k, dl_mat a, dl_mat b, dl_mat c, bool add));
