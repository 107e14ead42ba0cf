/* LU of real matrices that lie column by column. */
#pragma once

#include "core/interrupt.h"
#include "cpu/lapack/lapack.h"
#include "cpu/runtime/simd.h"

enum { DL_LU_COLUMNS = 16 };

/* L X = B for c columns, B in place; L is n by n, at most DL_LU_COLUMNS, lower, with ones on its diagonal, which is not
 * read. By its inverse, whose numbers are small when L comes from pivots. */
typedef void (*dl_lu_solve)(long n, long c, const void *l, long ldl, void *b, long ldb);
/* LU of a panel of n columns, at most DL_LU_COLUMNS, and m >= n rows; pivots and result as of getrf. */
typedef int (*dl_lu_panel)(long m, long n, void *a, long lda, int *pivots);
typedef struct dl_lu_loops {
    dl_lu_solve solve;
    dl_lu_panel panel;
} dl_lu_loops;
DL_SIMD_DECL(extern const dl_lu_loops, dl_lu, [2]); /* f32, f64 */

/* What getrf computes, and its info; for f32 and f64. */
int dl_lapack_lu(const dl_lapack *l, dl_dtype t, int m, int n, void *a, int *pivots, dl_stop *stop);
