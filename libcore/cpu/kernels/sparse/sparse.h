/* Loops over the rows of sparse matrices: sparse_simd.c makes them for each instruction set, sparse.c runs them. */
#ifndef DL_CPU_SPARSE_H
#define DL_CPU_SPARSE_H

#include "cpu/runtime/simd.h"

#include <stdbool.h>

/* A matrix of `cols` columns in compressed rows, and two dense ones whose rows lie left_step and right_step elements
 * apart and have n elements each. Indices of columns are not checked before the loops run. */
typedef struct dl_csr_job {
    const long *crow, *col;
    long cols, n, left_step, right_step;
    const void *values, *left, *right; /* spmm: values, right; sddmm: left, right (the transpose of mat2) */
    void *out;                         /* spmm: [rows, n]; sddmm: [nnz] */
} dl_csr_job;

/* Rows `from` to `to`. False: a column is out of range; the results are then not complete. */
typedef bool dl_csr_loop(const dl_csr_job *j, long from, long to);
typedef struct dl_csr_loops {
    dl_csr_loop *spmm, *sddmm;
} dl_csr_loops;

DL_SIMD_DECL(extern const dl_csr_loops, dl_csr, [2]); /* of f32 and f64 */

#endif
