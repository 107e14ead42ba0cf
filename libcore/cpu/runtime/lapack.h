/* LAPACK, which comes with OpenBLAS: matrices lie column by column. Functions take f32 or f64 by place, as DL_REAL
 * says, and numbers by address, as Fortran does; lengths of texts stand at the end. */
#ifndef DL_CPU_LAPACK_H
#define DL_CPU_LAPACK_H

#include "cpu/runtime/blas.h"

#include <stddef.h>

typedef struct dl_lapack {
    void (*getrf)(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
    void (*potrf)(const char *part, const int *n, void *a, const int *lda, int *info, size_t);
    void (*geqrf)(const int *m, const int *n, void *a, const int *lda, void *tau, void *work, const int *lwork,
                  int *info);
    void (*orgqr)(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau, void *work,
                  const int *lwork, int *info);
    void (*syevd)(const char *job, const char *part, const int *n, void *a, const int *lda, void *values, void *work,
                  const int *lwork, int *iwork, const int *liwork, int *info, size_t, size_t);
    void (*gesdd)(const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
                  const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, int *iwork, int *info,
                  size_t);
    void (*trsm)(const char *side, const char *part, const char *trans, const char *unit, const int *m, const int *n,
                 const void *alpha, const void *a, const int *lda, void *b, const int *ldb, size_t, size_t, size_t,
                 size_t);
} dl_lapack;

/* The functions for one dtype, f32 or f64. NULL, with DL_ERR_UNSUPPORTED recorded, when the library lacks them. */
const dl_lapack *dl_lapack_get(dl_dtype t);

/* The elements of work space that a query has answered, a number of the dtype; at least 1, at most INT_MAX. */
int dl_lapack_room(dl_dtype t, const void *answer);

#endif
