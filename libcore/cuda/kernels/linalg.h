/* Launches beside the calls of cuSOLVER, for batches of matrices that lie column by column. */
#ifndef DL_CUDA_LINALG_H
#define DL_CUDA_LINALG_H

#include "cuda/runtime/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* list[i] = the address `step` bytes times i behind `first`. */
dl_status dl_cuda_list_matrices(dl_gpu *g, void **list, void *first, long step, long count);
/* From swaps, [count, k] from 1, i64 or, not wide, i32, the pivots of LAPACK and the order, [count, m], in which rows
 * of A are those of L U. */
dl_status dl_cuda_order_rows(dl_gpu *g, const void *swaps, bool wide, int *pivots, long *order, long count, long m,
                             long k);
/* cuSOLVER's LU of a matrix with a NaN has zeros, as if it were singular. What LAPACK gives: find_nan says before which
 * matrices have one, each a run of `each` elements; spread_nan fills their factors with NaN and takes back their info.
 */
dl_status dl_cuda_find_nan(dl_gpu *g, const void *a, dl_dtype t, bool *found, long count, long each);
dl_status dl_cuda_spread_nan(dl_gpu *g, void *a, dl_dtype t, const bool *found, int *info, long count, long each);
/* Zeros above the diagonal of count matrices of n rows and columns. */
dl_status dl_cuda_clear_above(dl_gpu *g, void *a, dl_dtype t, long count, long n);
/* Matrices of zeros with ones on their diagonals. */
dl_status dl_cuda_identities(dl_gpu *g, void *a, dl_dtype t, long count, long n);

/* Do the matrices of a batch lie evenly, `step` elements apart? A step of 0: all are one. */
bool dl_cuda_batch_step(const dl_tensor *t, long *step);
/* LU of count real matrices of at most DL_SMALL_SIDE rows and columns that lie evenly, into all results of the row
 * factor_lu. */
enum { DL_SMALL_SIDE = 32 };
dl_status dl_cuda_small_lu(dl_gpu *g, const dl_tensor *a, long count, dl_tensor *lu, int *pivots, long *order,
                           int *info);
/* Cholesky factors of such square matrices, whose lower triangle is read, column by column with zeros above. */
dl_status dl_cuda_small_cholesky(dl_gpu *g, const dl_tensor *a, long count, dl_tensor *l, int *info);
/* X, column by column, with A X = B, of triangles A of at most DL_SMALL_SIDE rows; both lie evenly. */
dl_status dl_cuda_small_triangle(dl_gpu *g, const dl_tensor *a, const dl_tensor *b, long count, dl_tensor *x,
                                 bool upper, bool unit);

#ifdef __cplusplus
}
#endif
#endif
