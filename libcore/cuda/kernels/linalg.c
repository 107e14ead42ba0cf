/* Kernels of linear algebra: cuSOLVER and cuBLAS, for a batch of small matrices in one call, else for one matrix after
 * the other. Results lie column by column, and most are computed where they are to be. */
#include "cuda/kernels/linalg.h"
#include "core/scope.h"
#include "cuda/runtime/cusolver.h"
#include "ops/names/linalg.h"

#include <string.h>

enum { ANY = DL_BIT(DL_F32) | DL_BIT(DL_F64) | DL_BIT(DL_C64) | DL_BIT(DL_C128) };
/* Sides of square matrices up to which a batch is one call. Matrices of up to ROTATE_SIDE rows have their singular
 * values found by rotations, whose errors grow with the side: of larger ones those of f32 are 20 times the others'. */
enum { LU_SIDE = 128, CHOLESKY_SIDE = 512, TRIANGLE_SIDE = 512, EIGH_SIDE = 512, SVD_SIDE = 32, ROTATE_SIDE = 512 };

/* One call for a batch of matrices of the same shape. */
typedef struct batch {
    dl_gpu *g;
    dl_solver s;
    dl_dtype t;
    cudaDataType type, real; /* of elements, and of eigenvalues of symmetric matrices and singular values */
    long count, esize;
    int64_t m, n, k; /* rows, columns, the smaller of them */
    void *work, *host;
    size_t work_bytes, host_bytes;
    char *operand; /* another operand, or a copy of the matrices */
} batch;

static bool is_complex(const batch *b) { return dl_dtype_is_complex(b->t); }

static void describe(dl_gpu *g, const dl_tensor *t, batch *b) {
    *b = (batch){.g = g, .t = (dl_dtype)t->dtype, .count = 1, .esize = (long)dl_esize(t)};
    b->real = dl_dtype_of_parts(b->t) == DL_F64 ? CUDA_R_64F : CUDA_R_32F;
    b->type = !is_complex(b) ? b->real : b->t == DL_C128 ? CUDA_C_64F : CUDA_C_32F;
    b->m = t->shape[t->ndim - 2], b->n = t->shape[t->ndim - 1], b->k = b->m < b->n ? b->m : b->n;
    for (int i = 0; i < t->ndim - 2; i++) b->count *= t->shape[i];
}
static dl_status begin(dl_gpu *g, const dl_tensor *t, batch *b) {
    describe(g, t, b);
    return dl_solver_begin(g, &b->s);
}

static dl_status take_work(batch *b) {
    b->work = dl_gpu_take(b->g, b->work_bytes + 1);
    b->host = malloc(b->host_bytes + 1);
    if (!b->work) return dl_failed();
    return b->host ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a factorisation");
}

static dl_status end(batch *b, dl_status s) {
    if (b->work) dl_gpu_drop(b->g, b->work);
    free(b->host);
    dl_solver_end();
    return s;
}

/* Matrix i of a tensor whose matrices lie side by side, or row i of one of vectors. */
static void *at(const dl_tensor *t, int dims, long i) {
    long size = (long)dl_esize(t);
    for (int k = 1; k <= dims; k++) size *= t->shape[t->ndim - k];
    return (char *)dl_ptr(t) + i * size;
}

static bool together(const batch *b, int side) {
    return b->count > 1 && b->m == b->n && b->n <= side && !is_complex(b);
}

/* Matrices that a warp can have. *even: t, or a copy whose matrices lie evenly; a new reference. */
static bool small(const batch *b, int64_t m, int64_t n) {
    return m <= DL_SMALL_SIDE && n <= DL_SMALL_SIDE && !is_complex(b);
}
static dl_status evenly(dl_gpu *g, dl_tensor *t, dl_tensor **even) {
    long step;
    *even = dl_cuda_batch_step(t, &step) ? dl_ref(t) : dl_cuda_contiguous(g, t);
    return *even ? DL_OK : dl_failed();
}

/* Addresses of square matrices that lie side by side from `first` on, on the device; dl_gpu_drop gives them back. */
static void **list_of(batch *b, void *first, long step) {
    void **list = dl_gpu_take(b->g, sizeof(void *) * (size_t)b->count);
    if (list && dl_cuda_list_matrices(b->g, list, first, step * b->esize, b->count) == DL_OK) return list;
    if (list) dl_gpu_drop(b->g, list);
    return NULL;
}

/* A step for each matrix. */
typedef dl_status (*step)(batch *b, dl_call *c, long i);
static dl_status each(batch *b, dl_call *c, step one) {
    dl_status s = take_work(b);
    for (long i = 0; i < b->count && s == DL_OK; i++) s = one(b, c, i);
    return s;
}

#define DENSE b->s.f
#define WORK b->work, b->work_bytes, b->host, b->host_bytes
#define SIZES &b->work_bytes, &b->host_bytes

/* ---- LU */

static dl_status lu_step(batch *b, dl_call *c, long i) {
    return dl_solver_check(
        DENSE->cusolverDnXgetrf(b->s.dense, b->s.params, b->m, b->n, b->type, at(OUTPUT(c, FACTOR_LU_LU), 2, i), b->m,
                                (int64_t *)b->operand + i * b->k, b->type, WORK, at(OUTPUT(c, FACTOR_LU_INFO), 0, i)),
        "getrf");
}

static dl_status lu_each(batch *b, dl_call *c) {
    DL_TRY(dl_solver_check(DENSE->cusolverDnXgetrf_bufferSize(b->s.dense, b->s.params, b->m, b->n, b->type,
                                                              dl_ptr(OUTPUT(c, FACTOR_LU_LU)), b->m, b->type, SIZES),
                           "getrf"));
    return each(b, c, lu_step);
}

static dl_status lu_together(batch *b, dl_call *c) {
    const int n = (int)b->n, count = (int)b->count;
    int *swaps = (int *)b->operand, *info = dl_ptr(OUTPUT(c, FACTOR_LU_INFO));
    void **list = list_of(b, dl_ptr(OUTPUT(c, FACTOR_LU_LU)), b->n * b->n);
    if (!list) return dl_failed();
    cublasStatus_t s = b->t == DL_F64
                           ? DENSE->cublasDgetrfBatched(b->s.blas, n, (double *const *)list, n, swaps, info, count)
                           : DENSE->cublasSgetrfBatched(b->s.blas, n, (float *const *)list, n, swaps, info, count);
    dl_gpu_drop(b->g, list);
    return dl_blas_check(s, "getrf");
}

static dl_status lu_all(batch *b, dl_call *c) {
    dl_tensor *lu = OUTPUT(c, FACTOR_LU_LU), *pivots = OUTPUT(c, FACTOR_LU_PIVOTS), *order = OUTPUT(c, FACTOR_LU_ORDER),
              *info = OUTPUT(c, FACTOR_LU_INFO);
    dl_status s = DL_OK;
    const bool one_call = together(b, LU_SIDE);
    const size_t swaps = (size_t)(b->count * b->k) * sizeof(int64_t);
    if (!(b->operand = dl_gpu_take(b->g, swaps + (size_t)b->count + 1))) return dl_failed();
    bool *nan = (bool *)(b->operand + swaps);
    if (b->k && b->count) {
        s = dl_cuda_find_nan(b->g, dl_ptr(lu), b->t, nan, b->count, b->m * b->n);
        if (s == DL_OK) s = (one_call ? lu_together : lu_each)(b, c);
        if (s == DL_OK) s = dl_cuda_spread_nan(b->g, dl_ptr(lu), b->t, nan, dl_ptr(info), b->count, b->m * b->n);
    }
    if (s == DL_OK)
        s = dl_cuda_order_rows(b->g, b->operand, !one_call, dl_ptr(pivots), dl_ptr(order), b->count, b->m, b->k);
    dl_gpu_drop(b->g, b->operand);
    return s;
}

static dl_status lu_small(dl_gpu *g, const batch *b, dl_call *c) {
    DL_OWNED dl_tensor *a = NULL;
    DL_TRY(evenly(g, c->in[0], &a));
    return dl_cuda_small_lu(g, a, b->count, OUTPUT(c, FACTOR_LU_LU), dl_ptr(OUTPUT(c, FACTOR_LU_PIVOTS)),
                            dl_ptr(OUTPUT(c, FACTOR_LU_ORDER)), dl_ptr(OUTPUT(c, FACTOR_LU_INFO)));
}

static dl_status run_lu(dl_call *c) {
    batch b;
    DL_USE_GPU(g, c->device);
    describe(g, c->in[0], &b);
    if (b.k && small(&b, b.m, b.n)) return lu_small(g, &b, c);
    DL_TRY(dl_cuda_clear(g, OUTPUT(c, FACTOR_LU_INFO)));
    DL_TRY(dl_cuda_copy(g, c->out[0], c->in[0]));
    DL_TRY(begin(g, c->in[0], &b));
    return end(&b, lu_all(&b, c));
}
const dl_kernel dl_cuda_factor_lu = {.run = run_lu, .dtypes = ANY};

/* ---- Cholesky */

static dl_status cholesky_step(batch *b, dl_call *c, long i) {
    return dl_solver_check(DENSE->cusolverDnXpotrf(b->s.dense, b->s.params, CUBLAS_FILL_MODE_LOWER, b->n, b->type,
                                                   at(c->out[0], 2, i), b->n, b->type, WORK, at(c->out[1], 0, i)),
                           "potrf");
}

static dl_status cholesky_each(batch *b, dl_call *c) {
    DL_TRY(dl_solver_check(DENSE->cusolverDnXpotrf_bufferSize(b->s.dense, b->s.params, CUBLAS_FILL_MODE_LOWER, b->n,
                                                              b->type, dl_ptr(c->out[0]), b->n, b->type, SIZES),
                           "potrf"));
    return each(b, c, cholesky_step);
}

static dl_status cholesky_together(batch *b, dl_call *c) {
    const int n = (int)b->n, count = (int)b->count;
    int *info = dl_ptr(c->out[1]);
    const cublasFillMode_t part = CUBLAS_FILL_MODE_LOWER;
    void **list = list_of(b, dl_ptr(c->out[0]), b->n * b->n);
    if (!list) return dl_failed();
    cusolverStatus_t s = b->t == DL_F64
                             ? DENSE->cusolverDnDpotrfBatched(b->s.dense, part, n, (double **)list, n, info, count)
                             : DENSE->cusolverDnSpotrfBatched(b->s.dense, part, n, (float **)list, n, info, count);
    dl_gpu_drop(b->g, list);
    return dl_solver_check(s, "potrf");
}

static dl_status cholesky_all(batch *b, dl_call *c) {
    if (!b->n || !b->count) return DL_OK;
    DL_TRY((together(b, CHOLESKY_SIDE) ? cholesky_together : cholesky_each)(b, c));
    return dl_cuda_clear_above(b->g, dl_ptr(c->out[0]), b->t, b->count, b->n);
}

static dl_status cholesky_small(dl_gpu *g, const batch *b, dl_call *c) {
    DL_OWNED dl_tensor *a = NULL;
    DL_TRY(evenly(g, c->in[0], &a));
    return dl_cuda_small_cholesky(g, a, b->count, c->out[0], dl_ptr(c->out[1]));
}

static dl_status run_cholesky(dl_call *c) {
    batch b;
    DL_USE_GPU(g, c->device);
    describe(g, c->in[0], &b);
    if (b.n && small(&b, b.n, b.n)) return cholesky_small(g, &b, c);
    DL_TRY(dl_cuda_clear(g, c->out[1]));
    DL_TRY(dl_cuda_copy(g, c->out[0], c->in[0]));
    DL_TRY(begin(g, c->in[0], &b));
    return end(&b, cholesky_all(&b, c));
}
const dl_kernel dl_cuda_factor_cholesky = {.run = run_cholesky, .dtypes = ANY};

/* ---- triangles: A that lies row by row is A^T column by column */

/* Right sides of few columns, more than one, for which trsm takes up to four times as long with A^T: 2 columns of 2048
 * rows 610 us, not 165. A is copied then; of fewer rows than LONG the gain ends at half as many columns. */
enum { FEW_COLUMNS = 16, LONG = 512 };

/* What of the arguments of trsm is the same for all matrices. */
typedef struct triangles {
    cublasOperation_t op;
    cublasFillMode_t part;
    cublasDiagType_t diagonal;
    int n, columns;
} triangles;

static dl_status triangle_each(batch *b, dl_call *c, const triangles *t) {
    const cuDoubleComplex one = {1, 0};
    const cuComplex one_f32 = {1, 0};
    const int n = t->n;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
#define TRSM(letter, factor)                                                                                           \
    DENSE->cublas##letter##trsm_v2(b->s.blas, CUBLAS_SIDE_LEFT, t->part, t->op, t->diagonal, n, t->columns,            \
                                   (const void *)factor, (const void *)a, n, x, n)
    for (long i = 0; i < b->count && s == CUBLAS_STATUS_SUCCESS; i++) {
        const char *a = b->operand + i * b->n * b->n * b->esize;
        void *x = at(c->out[0], 2, i);
        s = b->t == DL_F64   ? TRSM(D, &one)
            : b->t == DL_F32 ? TRSM(S, &one_f32)
            : b->t == DL_C64 ? TRSM(C, &one_f32)
                             : TRSM(Z, &one);
    }
    return dl_blas_check(s, "trsm");
}

static dl_status triangle_together(batch *b, dl_call *c, const triangles *t) {
    const double one = 1;
    const float one_f32 = 1;
    const int n = t->n, count = (int)b->count;
    void **a = list_of(b, b->operand, b->n * b->n), **x = a ? list_of(b, dl_ptr(c->out[0]), b->n * t->columns) : NULL;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (x)
        s = b->t == DL_F64
                ? DENSE->cublasDtrsmBatched(b->s.blas, CUBLAS_SIDE_LEFT, t->part, t->op, t->diagonal, n, t->columns,
                                            &one, (const double *const *)a, n, (double *const *)x, n, count)
                : DENSE->cublasStrsmBatched(b->s.blas, CUBLAS_SIDE_LEFT, t->part, t->op, t->diagonal, n, t->columns,
                                            &one_f32, (const float *const *)a, n, (float *const *)x, n, count);
    const dl_status st = x ? dl_blas_check(s, "trsm") : dl_failed();
    if (a) dl_gpu_drop(b->g, a);
    if (x) dl_gpu_drop(b->g, x);
    return st;
}

static dl_status triangle_all(batch *b, dl_call *c, bool turned) {
    const triangles t = {
        turned ? CUBLAS_OP_T : CUBLAS_OP_N,
        !ATTR_I(c, SOLVE_TRIANGLE_UPPER) == turned ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER,
        ATTR_I(c, SOLVE_TRIANGLE_UNITRIANGULAR) ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT,
        (int)b->n,
        (int)c->out[0]->shape[c->out[0]->ndim - 1],
    };
    if (!t.n || !t.columns || !b->count) return DL_OK;
    return (together(b, TRIANGLE_SIDE) ? triangle_together : triangle_each)(b, c, &t);
}

static dl_status triangle_small(dl_gpu *g, const batch *b, dl_call *c) {
    DL_OWNED dl_tensor *left = NULL;
    DL_OWNED dl_tensor *right = NULL;
    DL_TRY(evenly(g, c->in[0], &left));
    DL_TRY(evenly(g, c->in[1], &right));
    return dl_cuda_small_triangle(g, left, right, b->count, c->out[0], ATTR_I(c, SOLVE_TRIANGLE_UPPER) != 0,
                                  ATTR_I(c, SOLVE_TRIANGLE_UNITRIANGULAR) != 0);
}

/* A, or a copy, row by row, then *turned, or column by column. */
static dl_tensor *laid_out(dl_gpu *g, dl_tensor *a, long columns, bool *turned) {
    dl_tensor by_columns = *a; /* its shape and strides */
    long *step = by_columns.stride + a->ndim - 1, n = a->shape[a->ndim - 1], size = n * n;
    bool lies = n > 1;
    step[0] = n, step[-1] = 1;
    for (int i = a->ndim - 3; i >= 0; size *= a->shape[i--]) by_columns.stride[i] = size;
    for (int i = 0; i < a->ndim; i++) lies = lies && (a->shape[i] < 2 || a->stride[i] == by_columns.stride[i]);
    *turned = !lies && (columns < 2 || columns > (n < LONG ? FEW_COLUMNS / 2 : FEW_COLUMNS));
    return *turned ? dl_cuda_contiguous(g, a) : dl_cuda_strided_like(g, a, &by_columns);
}

static dl_status run_triangle(dl_call *c) {
    batch b;
    bool turned;
    DL_USE_GPU(g, c->device);
    describe(g, c->in[0], &b);
    if (b.n && small(&b, b.n, b.n)) return triangle_small(g, &b, c);
    DL_TRY(dl_cuda_copy(g, c->out[0], c->in[1]));
    dl_tensor *a = laid_out(g, c->in[0], c->in[1]->shape[c->in[1]->ndim - 1], &turned);
    if (!a) return dl_failed();
    dl_status s = begin(g, c->in[0], &b);
    b.operand = dl_ptr(a);
    if (s == DL_OK) s = end(&b, triangle_all(&b, c, turned));
    dl_unref(a);
    return s;
}
const dl_kernel dl_cuda_solve_triangle = {.run = run_triangle, .dtypes = ANY};

/* ---- QR */

/* cuSOLVER tells by an int on the device whether the call was right. */
static dl_status geqrf_step(batch *b, dl_call *c, long i) {
    return dl_solver_check(DENSE->cusolverDnXgeqrf(b->s.dense, b->s.params, b->m, b->n, b->type, at(c->out[0], 2, i),
                                                   b->m, b->type, at(c->out[1], 1, i), b->type, WORK,
                                                   (int *)b->operand),
                           "geqrf");
}

static dl_status geqrf_all(batch *b, dl_call *c) {
    if (!b->k || !b->count) return DL_OK;
    DL_TRY(dl_solver_check(DENSE->cusolverDnXgeqrf_bufferSize(b->s.dense, b->s.params, b->m, b->n, b->type,
                                                              dl_ptr(c->out[0]), b->m, b->type, dl_ptr(c->out[1]),
                                                              b->type, SIZES),
                           "geqrf"));
    if (!(b->operand = dl_gpu_take(b->g, sizeof(int)))) return dl_failed();
    dl_status s = each(b, c, geqrf_step);
    dl_gpu_drop(b->g, b->operand);
    return s;
}

static dl_status run_geqrf(dl_call *c) {
    batch b;
    DL_USE_GPU(g, c->device);
    DL_TRY(dl_cuda_copy(g, c->out[0], c->in[0]));
    DL_TRY(begin(g, c->in[0], &b));
    return end(&b, geqrf_all(&b, c));
}
const dl_kernel dl_cuda_geqrf = {.run = run_geqrf, .dtypes = ANY};

static dl_status product_all(batch *b, dl_call *c) {
    int want = 0, m = (int)b->m, n = (int)b->n, k = (int)b->k;
    void *a = dl_ptr(c->out[0]), *tau = b->operand;
    if (!n || !b->count) return DL_OK;
#define BY_TYPE(call) (b->t == DL_F64 ? call(Dor) : b->t == DL_F32 ? call(Sor) : b->t == DL_C64 ? call(Cun) : call(Zun))
#define ROOM(letters) DENSE->cusolverDn##letters##gqr_bufferSize(b->s.dense, m, n, k, a, m, tau, &want)
#define PRODUCT(letters) DENSE->cusolverDn##letters##gqr(b->s.dense, m, n, k, q, m, t, b->work, want, info)
    DL_TRY(dl_solver_check(BY_TYPE(ROOM), "orgqr"));
    b->work_bytes = (size_t)want * (size_t)b->esize + sizeof(double);
    DL_TRY(take_work(b));
    int *info = (int *)((char *)b->work + (size_t)want * (size_t)b->esize);
    cusolverStatus_t s = CUSOLVER_STATUS_SUCCESS;
    for (long i = 0; i < b->count && s == CUSOLVER_STATUS_SUCCESS; i++) {
        void *q = at(c->out[0], 2, i), *t = (char *)tau + i * b->k * b->esize;
        s = BY_TYPE(PRODUCT);
    }
    return dl_solver_check(s, "orgqr");
}

static dl_status run_product(dl_call *c) {
    batch b;
    DL_USE_GPU(g, c->device);
    DL_TRY(dl_cuda_copy(g, c->out[0], c->in[0]));
    dl_tensor *tau = dl_cuda_contiguous(g, c->in[1]);
    if (!tau) return dl_failed();
    dl_status s = begin(g, c->in[0], &b);
    b.k = tau->shape[tau->ndim - 1];
    b.operand = dl_ptr(tau);
    if (s == DL_OK) s = end(&b, product_all(&b, c));
    dl_unref(tau);
    return s;
}
const dl_kernel dl_cuda_householder_product = {.run = run_product, .dtypes = ANY};

/* ---- eigenvalues */

static cublasFillMode_t part_of(const dl_call *c) {
    return ATTR_I(c, FACTOR_EIGH_UPPER) ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
}

static dl_status eigh_step(batch *b, dl_call *c, long i) {
    return dl_solver_check(DENSE->cusolverDnXsyevd(b->s.dense, b->s.params, CUSOLVER_EIG_MODE_VECTOR, part_of(c), b->n,
                                                   b->type, at(c->out[1], 2, i), b->n, b->real, at(c->out[0], 1, i),
                                                   b->type, WORK, at(c->out[2], 0, i)),
                           "syevd");
}

static dl_status eigh_each(batch *b, dl_call *c) {
    DL_TRY(dl_solver_check(DENSE->cusolverDnXsyevd_bufferSize(b->s.dense, b->s.params, CUSOLVER_EIG_MODE_VECTOR,
                                                              part_of(c), b->n, b->type, dl_ptr(c->out[1]), b->n,
                                                              b->real, dl_ptr(c->out[0]), b->type, SIZES),
                           "syevd"));
    return each(b, c, eigh_step);
}

static dl_status eigh_together(batch *b, dl_call *c) {
    void *values = dl_ptr(c->out[0]), *vectors = dl_ptr(c->out[1]);
    const cusolverEigMode_t both = CUSOLVER_EIG_MODE_VECTOR;
    DL_TRY(dl_solver_check(DENSE->cusolverDnXsyevBatched_bufferSize(b->s.dense, b->s.params, both, part_of(c), b->n,
                                                                    b->type, vectors, b->n, b->type, values, b->type,
                                                                    SIZES, b->count),
                           "syevBatched"));
    DL_TRY(take_work(b));
    return dl_solver_check(DENSE->cusolverDnXsyevBatched(b->s.dense, b->s.params, both, part_of(c), b->n, b->type,
                                                         vectors, b->n, b->type, values, b->type, WORK,
                                                         dl_ptr(c->out[2]), b->count),
                           "syevBatched");
}

static dl_status eigh_all(batch *b, dl_call *c) {
    if (!b->n || !b->count) return DL_OK;
    return (together(b, EIGH_SIDE) ? eigh_together : eigh_each)(b, c);
}

static dl_status run_eigh(dl_call *c) {
    batch b;
    DL_USE_GPU(g, c->device);
    DL_TRY(dl_cuda_clear(g, c->out[2]));
    DL_TRY(dl_cuda_copy(g, c->out[1], c->in[0]));
    DL_TRY(begin(g, c->in[0], &b));
    return end(&b, eigh_all(&b, c));
}
const dl_kernel dl_cuda_factor_eigh = {.run = run_eigh, .dtypes = ANY};

/* ---- singular values: cuSOLVER takes matrices that are at least as high as wide, so that of a wide one A^T = V S U^T
 * is factored. Then U and Vh come out row by row. The copy of the matrix is destroyed. */

typedef struct svd_job {
    batch b;
    dl_tensor *u, *s, *vh; /* of the matrix that is factored */
    signed char job;
} svd_job;

static dl_status svd_each(svd_job *j, dl_call *c) {
    batch *b = &j->b;
    const int64_t m = b->m, n = b->n, columns = j->job == 'A' ? m : n; /* of U */
    DL_TRY(dl_solver_check(DENSE->cusolverDnXgesvd_bufferSize(
                               b->s.dense, b->s.params, j->job, j->job, m, n, b->type, b->operand, m, b->real,
                               dl_ptr(j->s), b->type, dl_ptr(j->u), m, b->type, dl_ptr(j->vh), n, b->type, SIZES),
                           "gesvd"));
    DL_TRY(take_work(b));
    for (long i = 0; i < b->count; i++)
        DL_TRY(dl_solver_check(DENSE->cusolverDnXgesvd(b->s.dense, b->s.params, j->job, j->job, m, n, b->type,
                                                       b->operand + i * m * n * b->esize, m, b->real, at(j->s, 1, i),
                                                       b->type, (char *)dl_ptr(j->u) + i * m * columns * b->esize, m,
                                                       b->type, (char *)dl_ptr(j->vh) + i * n * n * b->esize, n,
                                                       b->type, WORK, at(OUTPUT(c, FACTOR_SVD_INFO), 0, i)),
                               "gesvd"));
    return DL_OK;
}

/* By rotations (Jacobi), of real matrices: all square ones in one call, or one after the other. They give V, whose
 * transpose is wanted. */
#define JACOBI(call, ...)                                                                                              \
    (b->t == DL_F64 ? DENSE->cusolverDnDgesvdj##call(b->s.dense, both, __VA_ARGS__)                                    \
                    : DENSE->cusolverDnSgesvdj##call(b->s.dense, both, __VA_ARGS__))
static cusolverStatus_t rotate_together(svd_job *j, void *v, int *info, int size) {
    batch *b = &j->b;
    const int n = (int)b->n;
    const cusolverEigMode_t both = CUSOLVER_EIG_MODE_VECTOR;
    return JACOBI(Batched, n, n, (void *)b->operand, n, dl_ptr(j->s), dl_ptr(j->u), n, v, n, b->work, size, info,
                  b->s.jacobi, (int)b->count);
}

static cusolverStatus_t rotate_each(svd_job *j, void *v, int *info, int size) {
    batch *b = &j->b;
    const int m = (int)b->m, n = (int)b->n, columns = j->job == 'A' ? m : n; /* of U */
    const cusolverEigMode_t both = CUSOLVER_EIG_MODE_VECTOR;
    cusolverStatus_t r = CUSOLVER_STATUS_SUCCESS;
    for (long i = 0; i < b->count && r == CUSOLVER_STATUS_SUCCESS; i++) {
        void *a = b->operand + i * m * n * b->esize, *u = (char *)dl_ptr(j->u) + i * m * columns * b->esize;
        void *to = (char *)v + i * n * n * b->esize;
        r = JACOBI(, j->job == 'S', m, n, a, m, at(j->s, 1, i), u, m, to, n, b->work, size, info + i, b->s.jacobi);
    }
    return r;
}

static dl_status svd_jacobi(svd_job *j, dl_call *c, bool all) {
    batch *b = &j->b;
    const int m = (int)b->m, n = (int)b->n, count = (int)b->count;
    const long shape[3] = {b->count, b->n, b->n}, from[3] = {b->n * b->n, 1, b->n}, to[3] = {b->n * b->n, b->n, 1};
    const cusolverEigMode_t both = CUSOLVER_EIG_MODE_VECTOR;
    void *a = b->operand, *s = dl_ptr(j->s), *u = dl_ptr(j->u);
    int *info = dl_ptr(OUTPUT(c, FACTOR_SVD_INFO)), size = 0;
    DL_TRY(dl_solver_check(all ? JACOBI(Batched_bufferSize, n, n, a, n, s, u, n, u, n, &size, b->s.jacobi, count)
                               : JACOBI(_bufferSize, j->job == 'S', m, n, a, m, s, u, m, u, n, &size, b->s.jacobi),
                           "gesvdj"));
    b->work_bytes = (size_t)size * (size_t)b->esize;
    DL_TRY(take_work(b));
    void *v = dl_gpu_take(b->g, (size_t)(b->count * b->n * b->n * b->esize));
    if (!v) return dl_failed();
    dl_status st = dl_solver_check((all ? rotate_together : rotate_each)(j, v, info, size), "gesvdj");
    if (st == DL_OK) st = dl_cuda_copy_strided(b->g, 3, shape, dl_ptr(j->vh), b->t, to, v, b->t, from);
    dl_gpu_drop(b->g, v);
    return st;
}

static dl_status svd_all(svd_job *j, dl_call *c) {
    if (is_complex(&j->b) || j->b.m > ROTATE_SIDE) return svd_each(j, c);
    return svd_jacobi(j, c, together(&j->b, SVD_SIDE));
}

/* A copy of t, column by column or row by row. */
static dl_tensor *copy_of(dl_gpu *g, const dl_tensor *t, bool columns) {
    dl_tensor *copy = dl_tensor_empty(t->ndim, t->shape, (dl_dtype)t->dtype, t->st->device);
    if (copy && columns) copy->stride[t->ndim - 2] = 1, copy->stride[t->ndim - 1] = t->shape[t->ndim - 2];
    if (!copy || dl_cuda_copy(g, copy, t) == DL_OK) return copy;
    dl_unref(copy);
    return NULL;
}

static dl_status svd_wide(dl_gpu *g, svd_job *j, dl_call *c) {
    dl_tensor *u = OUTPUT(c, FACTOR_SVD_U), *vh = OUTPUT(c, FACTOR_SVD_VH);
    dl_tensor *rows_u = dl_tensor_empty(u->ndim, u->shape, (dl_dtype)u->dtype, u->st->device);
    dl_tensor *rows_vh = rows_u ? dl_tensor_empty(vh->ndim, vh->shape, (dl_dtype)vh->dtype, vh->st->device) : NULL;
    dl_status s = rows_vh ? DL_OK : dl_failed();
    const int64_t m = j->b.m;
    j->b.m = j->b.n, j->b.n = m;
    j->u = rows_vh, j->vh = rows_u;
    if (s == DL_OK) s = svd_all(j, c);
    if (s == DL_OK) s = dl_cuda_copy(g, u, rows_u);
    if (s == DL_OK) s = dl_cuda_copy(g, vh, rows_vh);
    dl_unref(rows_u);
    dl_unref(rows_vh);
    return s;
}

static dl_status run_svd(dl_call *c) {
    dl_tensor *x = c->in[0];
    svd_job j = {.u = OUTPUT(c, FACTOR_SVD_U), .s = OUTPUT(c, FACTOR_SVD_S), .vh = OUTPUT(c, FACTOR_SVD_VH)};
    DL_USE_GPU(g, c->device);
    j.job = ATTR_I(c, FACTOR_SVD_FULL_MATRICES) ? 'A' : 'S';
    DL_TRY(dl_cuda_clear(g, OUTPUT(c, FACTOR_SVD_INFO)));
    DL_TRY(begin(g, x, &j.b));
    if (!j.b.k && j.job == 'A') {
        dl_status s = dl_cuda_identities(g, dl_ptr(j.u), j.b.t, j.b.count, j.b.m);
        return end(&j.b, s == DL_OK ? dl_cuda_identities(g, dl_ptr(j.vh), j.b.t, j.b.count, j.b.n) : s);
    }
    if (!j.b.k || !j.b.count) return end(&j.b, DL_OK);
    const bool wide = j.b.m < j.b.n;
    dl_tensor *copy = copy_of(g, x, !wide);
    if (!copy) return end(&j.b, dl_failed());
    j.b.operand = dl_ptr(copy);
    dl_status s = end(&j.b, wide ? svd_wide(g, &j, c) : svd_all(&j, c));
    dl_unref(copy);
    return s;
}
const dl_kernel dl_cuda_factor_svd = {.run = run_svd, .dtypes = ANY};

/* ---- eigenvalues of any matrices: of real ones as of complex ones. The copy of the matrix is destroyed. */

#ifdef DL_HAVE_GEEV
static dl_status eig_all(batch *b, dl_call *c) {
    dl_tensor *values = OUTPUT(c, FACTOR_EIG_VALUES), *vectors = OUTPUT(c, FACTOR_EIG_VECTORS);
    const int64_t n = b->n;
    if (!n || !b->count) return DL_OK;
    DL_TRY(dl_solver_check(DENSE->cusolverDnXgeev_bufferSize(b->s.dense, b->s.params, CUSOLVER_EIG_MODE_NOVECTOR,
                                                             CUSOLVER_EIG_MODE_VECTOR, n, b->type, b->operand, n,
                                                             b->type, dl_ptr(values), b->type, NULL, n, b->type,
                                                             dl_ptr(vectors), n, b->type, SIZES),
                           "geev"));
    DL_TRY(take_work(b));
    for (long i = 0; i < b->count; i++)
        DL_TRY(dl_solver_check(DENSE->cusolverDnXgeev(b->s.dense, b->s.params, CUSOLVER_EIG_MODE_NOVECTOR,
                                                      CUSOLVER_EIG_MODE_VECTOR, n, b->type,
                                                      b->operand + i * n * n * b->esize, n, b->type, at(values, 1, i),
                                                      b->type, NULL, n, b->type, at(vectors, 2, i), n, b->type, WORK,
                                                      at(OUTPUT(c, FACTOR_EIG_INFO), 0, i)),
                               "geev"));
    return DL_OK;
}

static dl_status run_eig(dl_call *c) {
    batch b;
    DL_USE_GPU(g, c->device);
    DL_OWNED dl_tensor *x = dl_to_dtype(c->in[0], dl_dtype_to_complex(c->in[0]->dtype));
    DL_OWNED dl_tensor *copy = x ? copy_of(g, x, true) : NULL;
    if (!copy) return dl_failed();
    DL_TRY(dl_cuda_clear(g, OUTPUT(c, FACTOR_EIG_INFO)));
    DL_TRY(begin(g, x, &b));
    b.operand = dl_ptr(copy);
    return end(&b, eig_all(&b, c));
}
const dl_kernel dl_cuda_factor_eig = {.run = run_eig, .dtypes = ANY};
#else
DL_NONE(factor_eig, "cuSOLVER of this CUDA toolkit has no eigenvalues of general matrices; 12.8 has")
#endif
