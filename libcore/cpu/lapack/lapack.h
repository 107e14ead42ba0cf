/* LAPACK, which comes with OpenBLAS: matrices lie column by column. There is a table of functions for each of f32, f64,
 * c64 and c128; numbers are given by address, as Fortran does, and lengths of texts stand at the end. */
#ifndef DL_CPU_LAPACK_H
#define DL_CPU_LAPACK_H

#include "core/interrupt.h"
#include "cpu/runtime/blas.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dl_lapack {
    void (*getrf)(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
    void (*laswp)(const int *n, void *a, const int *lda, const int *from, const int *to, const int *pivots,
                  const int *step);
    void (*potrf)(const char *part, const int *n, void *a, const int *lda, int *info, size_t);
    void (*geqrf)(const int *m, const int *n, void *a, const int *lda, void *tau, void *work, const int *lwork,
                  int *info);
    void (*syevd)(const char *job, const char *part, const int *n, void *a, const int *lda, void *values, void *work,
                  const int *lwork, int *iwork, const int *liwork, int *info, size_t, size_t);
    void (*gesdd)(const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
                  const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, int *iwork, int *info,
                  size_t);
    void (*trsm)(const char *side, const char *part, const char *trans, const char *unit, const int *m, const int *n,
                 const void *alpha, const void *a, const int *lda, void *b, const int *ldb, size_t, size_t, size_t,
                 size_t);
    /* of real matrices: wr and wi, the parts of eigenvalues; of complex ones the same with more work space */
    void (*geev)(const char *left, const char *right, const int *n, void *a, const int *lda, void *wr, void *wi,
                 void *vl, const int *ldvl, void *vr, const int *ldvr, void *work, const int *lwork, int *info, size_t,
                 size_t);
    void (*geev_complex)(const char *left, const char *right, const int *n, void *a, const int *lda, void *w, void *vl,
                         const int *ldvl, void *vr, const int *ldvr, void *work, const int *lwork, void *rwork,
                         int *info, size_t, size_t);
    void (*heevd)(const char *job, const char *part, const int *n, void *a, const int *lda, void *values, void *work,
                  const int *lwork, void *rwork, const int *lrwork, int *iwork, const int *liwork, int *info, size_t,
                  size_t);
    void (*gesdd_complex)(const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
                          const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, void *rwork,
                          int *iwork, int *info, size_t);
    /* parts of gesdd, of real matrices */
    void (*labrd)(const int *m, const int *n, const int *nb, void *a, const int *lda, void *d, void *e, void *tauq,
                  void *taup, void *x, const int *ldx, void *y, const int *ldy);
    void (*gebrd)(const int *m, const int *n, void *a, const int *lda, void *d, void *e, void *tauq, void *taup,
                  void *work, const int *lwork, int *info);
    void (*bdsdc)(const char *part, const char *job, const int *n, void *d, void *e, void *u, const int *ldu, void *vt,
                  const int *ldvt, void *q, int *iq, void *work, int *iwork, int *info, size_t, size_t);
    void (*ormbr)(const char *which, const char *side, const char *trans, const int *m, const int *n, const int *k,
                  const void *a, const int *lda, const void *tau, void *c, const int *ldc, void *work, const int *lwork,
                  int *info, size_t, size_t, size_t);
    void (*gemm)(const char *ta, const char *tb, const int *m, const int *n, const int *k, const void *alpha,
                 const void *a, const int *lda, const void *b, const int *ldb, const void *beta, void *c,
                 const int *ldc, size_t, size_t);
} dl_lapack;

/* The functions for one dtype. NULL, with DL_ERR_UNSUPPORTED recorded, when the library lacks them. */
const dl_lapack *dl_lapack_get(dl_dtype t);

/* The elements of work space that a query has answered, a number of the dtype; at least 1, at most INT_MAX. */
int dl_lapack_room(dl_dtype t, const void *answer);

/* One matrix for dl_lapack_svd: A, which is finite and is destroyed; its singular values, and with `full` square U and
 * V^T, else their first columns and rows. iwork: 8 ints for each singular value. */
typedef struct dl_svd {
    const dl_lapack *l;
    dl_dtype t;
    bool full;
    int m, n;
    void *a, *s, *u, *vt;
    int *iwork;
} dl_svd;

/* Does dl_lapack_svd serve matrices of this size? Others are small, or faster in gesdd. */
bool dl_lapack_svd_has_steps(int m, int n);
/* What gesdd computes, in steps between which `stop` is asked; *info as gesdd has it. */
dl_status dl_lapack_svd(const dl_svd *q, dl_stop *stop, int *info);

/* One matrix of m by n numbers with k reflectors, whose factors are tau. */
typedef struct dl_qr {
    const dl_lapack *l;
    dl_dtype t;
    int m, n, k;
    void *a, *tau, *work; /* of dl_lapack_qr_room elements */
} dl_qr;

/* Elements of work space for matrices of m by n. */
size_t dl_lapack_qr_room(int m, int n);
/* What geqrf computes, k the smaller of m and n: R, the reflectors below its diagonal, and tau. */
void dl_lapack_qr(const dl_qr *q, dl_stop *stop);
/* What orgqr computes, k <= n <= m: the first n columns of the product of the reflectors in their place. */
void dl_lapack_make_q(const dl_qr *q, dl_stop *stop);

#endif
