/* Kernels of linear algebra: LAPACK for each matrix of a batch. Results lie column by column, and most are computed
 * where they are to be. */
#include "core/scope.h"
#include "cpu/runtime/iter.h"
#include "cpu/lapack/lapack.h"
#include "cpu/lapack/lu.h"
#include "cpu/runtime/team.h"
#include "ops/rules/linalg.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { ANY = DL_BIT(DL_F32) | DL_BIT(DL_F64) | DL_BIT(DL_C64) | DL_BIT(DL_C128) };

/* One call for a batch of matrices of the same shape. */
typedef struct batch {
    const dl_lapack *l;
    dl_dtype t;
    long count, esize;
    int m, n, k; /* rows, columns, the smaller of them */
    int lwork, liwork, lrwork;
    size_t elements; /* of work */
    void *work;
    int *iwork;
    void *rwork; /* of complex matrices: real numbers */
    size_t rwork_bytes;
    char *operand;   /* another operand, or a copy of the matrices */
    bool by_columns; /* it lies so */
    char *rows;      /* results, row by row */
    dl_stop *stop;   /* while it runs */
} batch;

static long count_of(const dl_tensor *t) {
    long n = 1;
    for (int i = 0; i < t->ndim - 2; i++) n *= t->shape[i];
    return n;
}

/* DL_OK with b->l NULL: there is nothing to compute. */
static dl_status begin(const dl_tensor *t, batch *b) {
    const long m = t->shape[t->ndim - 2], n = t->shape[t->ndim - 1];
    *b = (batch){.t = (dl_dtype)t->dtype, .count = count_of(t), .esize = (long)dl_esize(t)};
    if (m > INT_MAX || n > INT_MAX)
        return dl_fail(DL_ERR_SHAPE, "a matrix of %ld by %ld is too large for LAPACK", m, n);
    b->m = (int)m, b->n = (int)n, b->k = (int)(m < n ? m : n);
    if (!b->count) return DL_OK;
    if (!(b->l = dl_lapack_get(b->t))) return dl_failed();
    return DL_OK;
}

static void end(batch *b) {
    dl_host_free(b->work, b->elements * (size_t)b->esize);
    dl_host_free(b->iwork, (size_t)b->liwork * sizeof(int));
    dl_host_free(b->rwork, b->rwork_bytes);
}

static dl_status take_elements(batch *b, size_t n) {
    b->elements = n;
    return (b->work = dl_host_alloc(n * (size_t)b->esize)) ? DL_OK : dl_failed();
}

/* Memory of the size that a query left in `want`. */
static dl_status take_work(batch *b, const double *want, int liwork) {
    b->liwork = liwork;
    b->lwork = dl_lapack_room(b->t, want);
    DL_TRY(take_elements(b, (size_t)b->lwork));
    b->iwork = liwork ? dl_host_alloc((size_t)liwork * sizeof(int)) : NULL;
    return !liwork || b->iwork ? DL_OK : dl_failed();
}

/* Room for n real numbers of the precision. */
static dl_status take_reals(batch *b, size_t n) {
    b->rwork_bytes = (n + 1) * (size_t)b->esize / 2;
    return (b->rwork = dl_host_alloc(b->rwork_bytes)) ? DL_OK : dl_failed();
}

static bool is_complex(const batch *b) { return dl_dtype_is_complex(b->t); }

typedef dl_status (*step)(batch *b, dl_call *c, long i);

/* Matrices shared among threads, each with work space of its own; within, OpenBLAS uses one. */
typedef struct shares {
    batch *own; /* one a thread */
    dl_call *c;
    step one;
    long each;
    int failed;
} shares;

static void run_share(void *arg, long t) {
    shares *s = arg;
    batch *b = &s->own[t];
    const long last = (t + 1) * s->each < b->count ? (t + 1) * s->each : b->count;
    for (long i = t * s->each; i < last && !dl_stop_asked(b->stop); i++)
        if (s->one(b, s->c, i) != DL_OK) __atomic_store_n(&s->failed, 1, __ATOMIC_RELAXED);
}

static dl_status copy_work(batch *to, const batch *b) {
    *to = *b;
    to->work = b->work ? dl_host_alloc(b->elements * (size_t)b->esize) : NULL;
    to->iwork = b->iwork ? dl_host_alloc((size_t)b->liwork * sizeof(int)) : NULL;
    to->rwork = b->rwork ? dl_host_alloc(b->rwork_bytes) : NULL;
    return (b->work && !to->work) || (b->iwork && !to->iwork) || (b->rwork && !to->rwork) ? dl_failed() : DL_OK;
}

static dl_status run_shares(batch *b, dl_call *c, step one, int threads) {
    const size_t bytes = (size_t)threads * sizeof(batch);
    shares s = {.own = dl_host_alloc(bytes), .c = c, .one = one, .each = (b->count + threads - 1) / threads};
    dl_status st = s.own ? DL_OK : dl_failed();
    int made = 0;
    for (; made < threads && st == DL_OK; made++) st = copy_work(&s.own[made], b);
    if (st == DL_OK) dl_cpu_for((b->count + s.each - 1) / s.each, threads, run_share, &s);
    for (int i = 0; i < made; i++) end(&s.own[i]);
    dl_host_free(s.own, bytes);
    return st == DL_OK && s.failed ? dl_fail(DL_ERR_INTERNAL, "LAPACK refuses an argument") : st;
}

enum { LAPACK_WORK = 8 }; /* multiplications that LAPACK's steps for a small matrix take as long as */

/* Sides of matrices from which a second thread of OpenBLAS saves time in a step. Below, what it gains in products is
 * less than what the many short calls lose that it takes part in. Reductions by reflectors are such calls for the most
 * part: f32 of 256 by 256 takes 0.52 ms on one thread and 1.16 on two, of 1,024 by 1,024 22.7 and 24.7. */
enum { PRODUCTS = 96, CHOLESKY = 640, EIGENVALUES = 896, REFLECTORS = 1536 };

/* The step for each matrix, with room for what OpenBLAS needs; `alone`: the side below which it has one thread. */
static dl_status run_batch(batch *b, dl_call *c, step one, int alone) {
    const double work = (double)b->m * (double)b->n * (double)b->k * LAPACK_WORK;
    const int threads = dl_cpu_threads_product(work * (double)b->count);
    dl_status s = dl_blas_begin();
    if (s != DL_OK) return end(b), s;
    const bool single = (double)b->m * b->n * b->k < pow(alone, 3);
    dl_stop stop = dl_stop_begin();
    b->stop = &stop;
    if (threads > 1 && b->count >= threads &&
        (b->count >= 4 * threads || single || dl_cpu_threads_product(work) == 1)) {
        s = run_shares(b, c, one, threads);
    } else {
        const int had = single ? dl_cpu_team_limit(1) : 0;
        for (long i = 0; i < b->count && s == DL_OK && !dl_stop_asked(&stop); i++) s = one(b, c, i);
        if (had) dl_cpu_team_limit(had);
    }
    dl_stop_end(&stop);
    dl_blas_end();
    end(b);
    return s;
}

/* Matrix i of a tensor whose matrices lie side by side, or row i of one of vectors. */
static void *at(const dl_tensor *t, int dims, long i) {
    long size = (long)dl_esize(t);
    for (int k = 1; k <= dims; k++) size *= t->shape[t->ndim - k];
    return (char *)dl_ptr(t) + i * size;
}

static dl_status wrong_call(const char *name, int info) {
    return dl_fail(DL_ERR_INTERNAL, "LAPACK refuses argument %d of %s", -info, name);
}

static int at_least_one(int n) { return n > 1 ? n : 1; }

/* ---- LU */

/* Swaps become the order in which rows of A are those of L U. */
static void order_rows(const int *pivots, int k, long *order, int m) {
    for (int i = 0; i < m; i++) order[i] = i;
    for (int i = 0; i < k; i++) {
        long row = order[i];
        order[i] = order[pivots[i] - 1], order[pivots[i] - 1] = row;
    }
}

enum { HALVES = 64 }; /* smaller matrices are as fast in getrf */

static dl_status lu_step(batch *b, dl_call *c, long i) {
    int *pivots = at(OUTPUT(c, FACTOR_LU_PIVOTS), 1, i), *info = at(OUTPUT(c, FACTOR_LU_INFO), 0, i);
    *info = 0;
    void *lu = at(OUTPUT(c, FACTOR_LU_LU), 2, i);
    if (!is_complex(b) && b->k >= HALVES)
        *info = dl_lapack_lu(b->l, b->t, b->m, b->n, lu, pivots, b->stop);
    else if (b->k)
        b->l->getrf(&b->m, &b->n, lu, &b->m, pivots, info);
    order_rows(pivots, b->k, at(OUTPUT(c, FACTOR_LU_ORDER), 1, i), b->m);
    return *info < 0 ? wrong_call("getrf", *info) : DL_OK;
}

static dl_status run_lu(dl_call *c) {
    batch b;
    DL_TRY(begin(c->in[0], &b));
    dl_cpu_copy(c->out[0], c->in[0]);
    return run_batch(&b, c, lu_step, PRODUCTS);
}
const dl_kernel dl_cpu_factor_lu = {.run = run_lu, .dtypes = ANY};

/* ---- Cholesky: the part above the triangle becomes 0 */

static void clear_above(void *a, long n, long esize) {
    for (long j = 1; j < n; j++) memset((char *)a + j * n * esize, 0, (size_t)(j * esize));
}

static dl_status cholesky_step(batch *b, dl_call *c, long i) {
    int *info = at(c->out[1], 0, i);
    void *a = at(c->out[0], 2, i);
    *info = 0;
    if (b->n) b->l->potrf("L", &b->n, a, &b->n, info, 1);
    clear_above(a, b->n, b->esize);
    return *info < 0 ? wrong_call("potrf", *info) : DL_OK;
}

static dl_status run_cholesky(dl_call *c) {
    batch b;
    DL_TRY(begin(c->in[0], &b));
    dl_cpu_copy(c->out[0], c->in[0]);
    return run_batch(&b, c, cholesky_step, CHOLESKY);
}
const dl_kernel dl_cpu_factor_cholesky = {.run = run_cholesky, .dtypes = ANY};

/* ---- triangles */

/* Do the matrices of t lie densely side by side, column by column? */
static bool dense_by_columns(const dl_tensor *t) {
    const int d = t->ndim;
    long next = t->shape[d - 2] * t->shape[d - 1];
    bool dense = t->stride[d - 2] == 1 && t->stride[d - 1] == t->shape[d - 2];
    for (int i = d - 3; i >= 0; next *= t->shape[i--]) dense = dense && (t->shape[i] == 1 || t->stride[i] == next);
    return dense;
}

/* OpenBLAS solves twice as fast from the right, with rows of X: X^T A^T = B^T. Up to here that pays for turning X. */
enum { ROWS = 128 };

static dl_status triangle_step(batch *b, dl_call *c, long i) {
    const bool upper = ATTR_I(c, SOLVE_TRIANGLE_UPPER) != 0, unit = ATTR_I(c, SOLVE_TRIANGLE_UNITRIANGULAR) != 0;
    const int columns = (int)c->out[0]->shape[c->out[0]->ndim - 1];
    const double one[2] = {1, 0};
    const float one_f32[2] = {1, 0};
    if (!b->n || !columns) return DL_OK;
    void *x = b->rows ? b->rows + i * b->n * columns * b->esize : at(c->out[0], 2, i);
    b->l->trsm(b->rows ? "R" : "L", upper == b->by_columns ? "U" : "L", !b->rows == b->by_columns ? "N" : "T",
               unit ? "U" : "N", b->rows ? &columns : &b->n, b->rows ? &b->n : &columns,
               dl_dtype_of_parts(b->t) == DL_F64 ? (const void *)one : one_f32, b->operand + i * b->n * b->n * b->esize,
               &b->n, x, b->rows ? &columns : &b->n, 1, 1, 1, 1);
    return DL_OK;
}

static dl_status run_triangle(dl_call *c) {
    dl_tensor *out = c->out[0];
    batch b;
    DL_TRY(begin(c->in[0], &b));
    b.by_columns = dense_by_columns(c->in[0]);
    const bool by_rows = b.n <= ROWS && out->shape[out->ndim - 1] > 1;
    DL_OWNED dl_tensor *a = b.by_columns ? dl_ref(c->in[0]) : dl_cpu_contiguous(c->in[0]);
    DL_OWNED dl_tensor *rows = by_rows ? dl_tensor_empty(out->ndim, out->shape, (dl_dtype)out->dtype, 0) : dl_ref(out);
    if (!a || !rows) return dl_failed();
    dl_cpu_copy(rows, c->in[1]);
    b.operand = dl_ptr(a), b.rows = by_rows ? dl_ptr(rows) : NULL;
    DL_TRY(run_batch(&b, c, triangle_step, PRODUCTS));
    if (by_rows) dl_cpu_copy(out, rows);
    return DL_OK;
}
const dl_kernel dl_cpu_solve_triangle = {.run = run_triangle, .dtypes = ANY};

/* ---- QR */

static dl_qr qr_of(const batch *b, const dl_call *c, long i, void *tau) {
    return (dl_qr){b->l, b->t, b->m, b->n, b->k, at(c->out[0], 2, i), tau, b->work};
}

static dl_status geqrf_step(batch *b, dl_call *c, long i) {
    const dl_qr q = qr_of(b, c, i, at(c->out[1], 1, i));
    dl_lapack_qr(&q, b->stop);
    return DL_OK;
}

static dl_status run_geqrf(dl_call *c) {
    batch b;
    DL_TRY(begin(c->in[0], &b));
    dl_cpu_copy(c->out[0], c->in[0]);
    if (!b.l || !b.k) return DL_OK;
    const dl_status s = take_elements(&b, dl_lapack_qr_room(b.m, b.n));
    return s == DL_OK ? run_batch(&b, c, geqrf_step, REFLECTORS) : (end(&b), s);
}
const dl_kernel dl_cpu_geqrf = {.run = run_geqrf, .dtypes = ANY};

static dl_status product_step(batch *b, dl_call *c, long i) {
    const dl_qr q = qr_of(b, c, i, b->operand + i * b->k * b->esize);
    dl_lapack_make_q(&q, b->stop);
    return DL_OK;
}

static dl_status run_product(dl_call *c) {
    batch b;
    DL_TRY(begin(c->in[0], &b));
    dl_cpu_copy(c->out[0], c->in[0]);
    b.k = (int)c->in[1]->shape[c->in[1]->ndim - 1];
    if (!b.l || !b.n) return DL_OK;
    DL_OWNED dl_tensor *tau = dl_cpu_contiguous(c->in[1]);
    if (!tau) return dl_failed();
    const dl_status s = take_elements(&b, dl_lapack_qr_room(b.m, b.n));
    if (s != DL_OK) return end(&b), s;
    b.operand = dl_ptr(tau);
    return run_batch(&b, c, product_step, REFLECTORS);
}
const dl_kernel dl_cpu_householder_product = {.run = run_product, .dtypes = ANY};

/* ---- eigenvalues */

static dl_status eigh_step(batch *b, dl_call *c, long i) {
    int *info = at(c->out[2], 0, i);
    *info = 0;
    if (b->n && is_complex(b))
        b->l->heevd("V", ATTR_I(c, FACTOR_EIGH_UPPER) ? "U" : "L", &b->n, at(c->out[1], 2, i), &b->n,
                    at(c->out[0], 1, i), b->work, &b->lwork, b->rwork, &b->lrwork, b->iwork, &b->liwork, info, 1, 1);
    else if (b->n)
        b->l->syevd("V", ATTR_I(c, FACTOR_EIGH_UPPER) ? "U" : "L", &b->n, at(c->out[1], 2, i), &b->n,
                    at(c->out[0], 1, i), b->work, &b->lwork, b->iwork, &b->liwork, info, 1, 1);
    return *info < 0 ? wrong_call("syevd", *info) : DL_OK;
}

static dl_status run_eigh(dl_call *c) {
    batch b;
    double want[2] = {0}, reals = 0;
    int query = -1, liwork = 0, info = 0;
    DL_TRY(begin(c->in[0], &b));
    dl_cpu_copy(c->out[1], c->in[0]);
    if (!b.l) return DL_OK;
    const int lda = at_least_one(b.n);
    if (is_complex(&b))
        b.l->heevd("V", "L", &b.n, NULL, &lda, NULL, want, &query, &reals, &query, &liwork, &query, &info, 1, 1);
    else
        b.l->syevd("V", "L", &b.n, NULL, &lda, NULL, want, &query, &liwork, &query, &info, 1, 1);
    dl_status s = take_work(&b, want, at_least_one(liwork));
    if (s == DL_OK && is_complex(&b)) {
        b.lrwork = dl_lapack_room(b.t, &reals);
        s = take_reals(&b, (size_t)b.lrwork);
    }
    return s == DL_OK ? run_batch(&b, c, eigh_step, EIGENVALUES) : (end(&b), s);
}
const dl_kernel dl_cpu_factor_eigh = {.run = run_eigh, .dtypes = ANY};

/* ---- singular values: the copy of the matrix is destroyed */

static void make_identity(void *a, long n, dl_dtype t) {
    memset(a, 0, (size_t)(n * n) * (size_t)dl_dtype_size(t));
    for (long i = 0; i < n; i++) dl_store_f64((char *)a + i * (n + 1) * dl_dtype_size(t), dl_dtype_of_parts(t), 1);
}

static dl_status svd_step(batch *b, dl_call *c, long i) {
    dl_tensor *u = OUTPUT(c, FACTOR_SVD_U), *s = OUTPUT(c, FACTOR_SVD_S), *vh = OUTPUT(c, FACTOR_SVD_VH);
    const bool full = ATTR_I(c, FACTOR_SVD_FULL_MATRICES) != 0;
    int *info = at(OUTPUT(c, FACTOR_SVD_INFO), 0, i);
    const int ldu = at_least_one(b->m), ldvt = at_least_one(full ? b->n : b->k);
    *info = 0;
    if (is_complex(b) && b->k) {
        b->l->gesdd_complex(full ? "A" : "S", &b->m, &b->n, b->operand + i * b->m * b->n * b->esize, &b->m, at(s, 1, i),
                            at(u, 2, i), &ldu, at(vh, 2, i), &ldvt, b->work, &b->lwork, b->rwork, b->iwork, info, 1);
    } else if (!is_complex(b) && dl_lapack_svd_has_steps(b->m, b->n)) {
        const dl_svd q = {
            b->l,        b->t,        full,         b->m,    b->n, b->operand + i * b->m * b->n * b->esize,
            at(s, 1, i), at(u, 2, i), at(vh, 2, i), b->iwork};
        DL_TRY(dl_lapack_svd(&q, b->stop, info));
    } else if (b->k) {
        b->l->gesdd(full ? "A" : "S", &b->m, &b->n, b->operand + i * b->m * b->n * b->esize, &b->m, at(s, 1, i),
                    at(u, 2, i), &ldu, at(vh, 2, i), &ldvt, b->work, &b->lwork, b->iwork, info, 1);
    } else if (full) {
        make_identity(at(u, 2, i), b->m, b->t);
        make_identity(at(vh, 2, i), b->n, b->t);
    }
    return *info < 0 ? wrong_call("gesdd", *info) : DL_OK;
}

/* A copy of t that lies column by column. */
static dl_tensor *by_columns(const dl_tensor *t) {
    dl_tensor *copy = dl_tensor_empty(t->ndim, t->shape, (dl_dtype)t->dtype, 0);
    if (!copy) return NULL;
    copy->stride[t->ndim - 2] = 1, copy->stride[t->ndim - 1] = t->shape[t->ndim - 2];
    dl_cpu_copy(copy, t);
    return copy;
}

static dl_status run_svd(dl_call *c) {
    const bool full = ATTR_I(c, FACTOR_SVD_FULL_MATRICES) != 0;
    batch b;
    double want[2] = {0};
    int query = -1, info = 0;
    DL_TRY(begin(c->in[0], &b));
    if (!b.l) return DL_OK;
    DL_OWNED dl_tensor *copy = by_columns(c->in[0]);
    if (!copy) return dl_failed();
    b.operand = dl_ptr(copy);
    const int lda = at_least_one(b.m), ldvt = at_least_one(full ? b.n : b.k);
    if (is_complex(&b))
        b.l->gesdd_complex(full ? "A" : "S", &b.m, &b.n, NULL, &lda, NULL, NULL, &lda, NULL, &ldvt, want, &query, NULL,
                           NULL, &info, 1);
    else if (!dl_lapack_svd_has_steps(b.m, b.n)) /* which has work space of its own */
        b.l->gesdd(full ? "A" : "S", &b.m, &b.n, NULL, &lda, NULL, NULL, &lda, NULL, &ldvt, want, &query, NULL, &info,
                   1);
    dl_status s = take_work(&b, want, at_least_one(8 * b.k));
    const size_t k = (size_t)b.k, longer = (size_t)(b.m > b.n ? b.m : b.n);
    if (s == DL_OK && is_complex(&b))
        s = take_reals(&b, k * (5 * k + 7 > 2 * longer + 2 * k + 1 ? 5 * k + 7 : 2 * longer + 2 * k + 1));
    return s == DL_OK ? run_batch(&b, c, svd_step, EIGENVALUES) : (end(&b), s);
}
const dl_kernel dl_cpu_factor_svd = {.run = run_svd, .dtypes = ANY};

/* ---- eigenvalues or singular values alone: the copy of the matrix is destroyed */

static dl_status spectrum_of(const batch *b, const dl_call *c, void *a, void *values, void *work, const int *lwork,
                             int *iwork, const int *liwork, int *info) {
    const int one = 1, lda = at_least_one(b->m);
    if (ATTR_I(c, SPECTRUM_SYMMETRIC))
        b->l->syevd("N", ATTR_I(c, SPECTRUM_UPPER) ? "U" : "L", &b->n, a, &lda, values, work, lwork, iwork, liwork,
                    info, 1, 1);
    else
        b->l->gesdd("N", &b->m, &b->n, a, &lda, values, NULL, &one, NULL, &one, work, lwork, iwork, info, 1);
    return *info < 0 ? wrong_call(ATTR_I(c, SPECTRUM_SYMMETRIC) ? "syevd" : "gesdd", *info) : DL_OK;
}

static dl_status spectrum_step(batch *b, dl_call *c, long i) {
    int *info = at(c->out[1], 0, i);
    *info = 0;
    return b->k ? spectrum_of(b, c, b->operand + i * b->m * b->n * b->esize, at(c->out[0], 1, i), b->work, &b->lwork,
                              b->iwork, &b->liwork, info)
                : DL_OK;
}

static dl_status run_spectrum(dl_call *c) {
    batch b;
    double want[2] = {0};
    int query = -1, liwork = 0, info = 0;
    DL_TRY(begin(c->in[0], &b));
    if (!b.l) return DL_OK;
    DL_OWNED dl_tensor *copy = by_columns(c->in[0]);
    if (!copy) return dl_failed();
    b.operand = dl_ptr(copy);
    DL_TRY(spectrum_of(&b, c, NULL, NULL, want, &query, &liwork, &query, &info));
    const dl_status s = take_work(&b, want, at_least_one(ATTR_I(c, SPECTRUM_SYMMETRIC) ? liwork : 8 * b.k));
    return s == DL_OK ? run_batch(&b, c, spectrum_step, EIGENVALUES) : (end(&b), s);
}
const dl_kernel dl_cpu_spectrum = {.run = run_spectrum, .dtypes = DL_BIT(DL_F32) | DL_BIT(DL_F64)};

/* ---- eigenvalues of any matrices: results are complex */

/* Real matrices have numbers and vectors in pairs: re + i im and re - i im, of two columns. */
#define PAIRS(T)                                                                                                       \
    do {                                                                                                               \
        const T *re = b->rwork, *im = re + n, *v = im + n;                                                             \
        T *w = values, *x = vectors;                                                                                   \
        for (long j = 0; j < n; j++) {                                                                                 \
            w[2 * j] = re[j], w[2 * j + 1] = im[j];                                                                    \
            const long first = im[j] < 0 ? j - 1 : j;                                                                  \
            const T sign = im[j] > 0 ? 1 : im[j] < 0 ? -1 : 0;                                                         \
            for (long r = 0; r < n; r++) {                                                                             \
                x[2 * (j * n + r)] = v[first * n + r];                                                                 \
                x[2 * (j * n + r) + 1] = sign == 0 ? 0 : sign * v[(first + 1) * n + r];                                \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

static dl_status eig_step(batch *b, dl_call *c, long i) {
    int *info = at(OUTPUT(c, FACTOR_EIG_INFO), 0, i);
    void *values = at(OUTPUT(c, FACTOR_EIG_VALUES), 1, i), *vectors = at(OUTPUT(c, FACTOR_EIG_VECTORS), 2, i);
    char *a = b->operand + i * b->n * b->n * b->esize, *reals = b->rwork;
    const long n = b->n;
    *info = 0;
    if (!n) return DL_OK;
    if (is_complex(b)) {
        b->l->geev_complex("N", "V", &b->n, a, &b->n, values, NULL, &b->n, vectors, &b->n, b->work, &b->lwork, b->rwork,
                           info, 1, 1);
    } else {
        b->l->geev("N", "V", &b->n, a, &b->n, reals, reals + n * b->esize, NULL, &b->n, reals + 2 * n * b->esize, &b->n,
                   b->work, &b->lwork, info, 1, 1);
        if (b->t == DL_F64)
            PAIRS(double);
        else
            PAIRS(float);
    }
    return *info < 0 ? wrong_call("geev", *info) : DL_OK;
}

static dl_status run_eig(dl_call *c) {
    batch b;
    double want[2] = {0}, reals[2] = {0};
    int query = -1, info = 0;
    DL_TRY(begin(c->in[0], &b));
    if (!b.l) return DL_OK;
    DL_OWNED dl_tensor *copy = by_columns(c->in[0]);
    if (!copy) return dl_failed();
    b.operand = dl_ptr(copy);
    const int lda = at_least_one(b.n);
    const size_t n = (size_t)b.n;
    if (is_complex(&b))
        b.l->geev_complex("N", "V", &b.n, NULL, &lda, NULL, NULL, &lda, NULL, &lda, want, &query, reals, &info, 1, 1);
    else
        b.l->geev("N", "V", &b.n, NULL, &lda, NULL, NULL, NULL, &lda, NULL, &lda, want, &query, &info, 1, 1);
    dl_status s = take_work(&b, want, 0);
    if (s == DL_OK) s = take_reals(&b, is_complex(&b) ? 2 * n : 2 * n * (n + 2)); /* half an element a number */
    return s == DL_OK ? run_batch(&b, c, eig_step, EIGENVALUES) : (end(&b), s);
}
const dl_kernel dl_cpu_factor_eig = {.run = run_eig, .dtypes = ANY};
