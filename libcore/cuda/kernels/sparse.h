/* Patterns of sparse matrices on the device, as the kernels want them. */
#ifndef DL_CUDA_SPARSE_H
#define DL_CUDA_SPARSE_H

#include "cuda/runtime/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* crow[rows + 1] and col[nnz] of a matrix of `cols` columns, i64 or, where all numbers fit, i32; valid in any case:
 * what is wrong with the given ones is reported as a fault, and the pattern is then another. */
typedef struct dl_pattern {
    void *crow, *col;
    bool wide; /* i64 */
    long rows, cols, nnz;
} dl_pattern;

/* Of i64 or i32 tensors; dl_pattern_end gives the memory back, also after a failure. */
dl_status dl_pattern_begin(dl_gpu *g, const dl_op *op, dl_tensor *crow, dl_tensor *col, long cols, dl_pattern *p);
void dl_pattern_end(dl_gpu *g, dl_pattern *p);

/* *out = t, a matrix whose rows are dense, `step` elements apart: t itself (a new reference) or a copy. */
dl_status dl_pattern_rows(dl_gpu *g, dl_tensor *t, dl_tensor **out, long *step);

#ifdef __cplusplus
}
#endif
#endif
