/* Kernels of matmul and linear. */
#include "cpu/runtime/gemm.h"
#include "core/scope.h"
#include "cpu/runtime/iter.h"
#include "ops/rules/matmul.h"

/* EVEN: products a thread from which it matters little that one thread has one more. ALONE: multiplications from which
 * products of 16 bits follow each other, each by all threads. */
enum { EVEN = 8, ALONE = 1 << 18 };

typedef struct job {
    dl_products p;
    dl_dtype t;
    dl_stop *stop;
    dl_first_error failed;
} job;

static long count_of(const dl_products *p) {
    long n = 1;
    for (int i = 0; i < p->ndim; i++) n *= p->shape[i];
    return n;
}

/* Left, right and result of one product. */
static void matrices_at(const job *j, long index, dl_mat m[3]) {
    const dl_products *p = &j->p;
    long esize = dl_dtype_size(j->t);
    m[0] = p->a, m[1] = p->b, m[2] = (dl_mat){(char *)p->out + index * p->m * p->n * esize, p->n, 1};
    for (int i = p->ndim - 1; i >= 0; index /= p->shape[i--])
        for (int w = 0; w < 2; w++) m[w].p = (char *)m[w].p + index % p->shape[i] * p->stride[w][i] * esize;
}

static void run_product(void *arg, long i) {
    job *j = arg;
    dl_mat m[3];
    matrices_at(j, i, m);
    if (dl_cpu_gemm(j->t, j->p.m, j->p.n, j->p.k, m[0], m[1], m[2], false) != DL_OK) dl_first_error_keep(&j->failed);
}

/* Threads that take a product each. Few large products, and those that would leave threads without one at the end, have
 * threads inside each, which wait for one another. */
static int threads_of(long count, double each) {
    const int threads = count > 1 && each < 1 << 26 ? dl_cpu_threads_product(each * (double)count) : 1;
    return each < 1 << 21 || count % threads == 0 || count >= EVEN * threads ? threads : 1;
}

static dl_status matmul_float(dl_call *c) {
    job j;
    if (!c->out[0]->numel) return DL_OK;
    j.t = c->out[0]->dtype, j.failed = (dl_first_error){0};
    dl_products_of(c->in[0], c->in[1], c->out[0], &j.p);
    dl_products_fold(&j.p, NULL);
    double each = (double)j.p.m * (double)j.p.n * (double)j.p.k;
    long count = count_of(&j.p);
    dl_cpu_for(count, threads_of(count, each), run_product, &j);
    return dl_first_error_raise(&j.failed);
}

#define INTEGER_PRODUCT(T, NAME)                                                                                       \
    static void NAME(const job *j, const dl_mat m[3]) {                                                                \
        const T *a = m[0].p, *b = m[1].p;                                                                              \
        T *o = m[2].p;                                                                                                 \
        for (long i = 0; i < j->p.m && !dl_stop_asked(j->stop); i++)                                                   \
            for (long k = 0; k < j->p.n; k++) {                                                                        \
                unsigned long sum = 0; /* wraps around like the type */                                                \
                for (long l = 0; l < j->p.k; l++)                                                                      \
                    sum += (unsigned long)a[i * m[0].rs + l * m[0].cs] * (unsigned long)b[l * m[1].rs + k * m[1].cs];  \
                o[i * m[2].rs + k] = (T)sum;                                                                           \
            }                                                                                                          \
    }
INTEGER_PRODUCT(long, product_i64)
INTEGER_PRODUCT(int, product_i32)
INTEGER_PRODUCT(unsigned char, product_u8)

static dl_status matmul_integer(dl_call *c) {
    dl_stop stop = dl_stop_begin();
    job j = {.t = c->out[0]->dtype, .stop = &stop};
    dl_products_of(c->in[0], c->in[1], c->out[0], &j.p);
    for (long i = 0, n = count_of(&j.p); i < n; i++) {
        dl_mat m[3];
        matrices_at(&j, i, m);
        (j.t == DL_I64 ? product_i64 : j.t == DL_I32 ? product_i32 : product_u8)(&j, m);
    }
    dl_stop_end(&stop);
    return DL_OK;
}

/* Of 16 bits, where that is faster than by way of f32. */
static dl_status matmul_half(const dl_call *c, bool *done) {
    job j = {.t = c->dtype};
    *done = false;
    if (!c->out[0]->numel) return DL_OK;
    dl_products_of(c->in[0], c->in[1], c->out[0], &j.p);
    dl_products_fold(&j.p, NULL);
    const long n = count_of(&j.p);
    if (n > 1 && (double)j.p.m * (double)j.p.n * (double)j.p.k < ALONE) return DL_OK;
    for (long i = 0; i < n && (!i || *done); i++) {
        dl_mat m[3];
        matrices_at(&j, i, m);
        DL_TRY(dl_cpu_gemm_half(j.t, j.p.m, j.p.n, j.p.k, m[0], m[1], NULL, m[2], done));
    }
    return DL_OK;
}

static dl_status matmul_any(dl_call *c) { return DL_BIT(c->dtype) & DL_INTS ? matmul_integer(c) : matmul_float(c); }
static dl_status run_matmul(dl_call *c) {
    bool done = false;
    if (DL_BIT(c->dtype) & DL_HALVES) DL_TRY(matmul_half(c, &done));
    return done ? DL_OK : dl_cpu_via_f32(c, matmul_any, false);
}
const dl_kernel dl_cpu_matmul = {.run = run_matmul, .dtypes = DL_NUMBERS};

/* ---- linear */

/* t (a new reference) or a contiguous copy, as one matrix of all its rows. */
static dl_tensor *as_rows(dl_tensor *t, dl_mat *m, long *rows) {
    long cols = t->shape[t->ndim - 1], step = t->ndim > 1 ? t->stride[t->ndim - 2] : cols;
    bool regular = true;
    *rows = 1;
    for (int i = t->ndim - 2; i >= 0; i--) {
        regular = regular && (t->shape[i] == 1 || t->stride[i] == step * *rows);
        *rows *= t->shape[i];
    }
    dl_tensor *own = regular ? dl_ref(t) : dl_cpu_contiguous(t);
    if (own) *m = (dl_mat){dl_ptr(own), regular ? step : cols, own->stride[t->ndim - 1]};
    return own;
}

static dl_mat matrix(const dl_tensor *t) { return (dl_mat){dl_ptr(t), t->stride[0], t->stride[1]}; }

/* Every row of y becomes the bias. */
static void fill_rows(dl_tensor *y, const dl_tensor *bias) {
    long n = bias->shape[0], rows = n ? y->numel / n : 0;
    dl_cpu_copy_strided(2, (long[]){rows, n}, dl_ptr(y), y->dtype, (long[]){n, 1}, dl_ptr(bias), bias->dtype,
                        (long[]){0, bias->stride[0]});
}

static dl_status linear_float(dl_call *c) {
    dl_tensor *w = c->in[1], *bias = INPUT(c, LINEAR_BIAS), *y = c->out[0];
    dl_mat mx = {0}, my = {dl_ptr(y), w->shape[0], 1};
    long rows = 0;
    DL_OWNED dl_tensor *x = as_rows(c->in[0], &mx, &rows);
    if (!x) return dl_failed();
    if (bias) fill_rows(y, bias);
    return dl_cpu_gemm(y->dtype, rows, w->shape[0], w->shape[1], mx, dl_mat_transposed(matrix(w)), my, bias);
}

static dl_tensor *fresh_like(const dl_meta *m) { return dl_tensor_empty(m->ndim, m->shape, m->dtype, 0); }

/* Sums of columns, rows in order, in f64. */
#define COLUMN_SUMS(T, NAME)                                                                                           \
    static void NAME(long rows, long cols, dl_mat g, T *sum) {                                                         \
        const T *p = g.p;                                                                                              \
        for (long j0 = 0; j0 < cols; j0 += 64) {                                                                       \
            long n = cols - j0 < 64 ? cols - j0 : 64;                                                                  \
            double total[64] = {0};                                                                                    \
            for (long i = 0; i < rows; i++)                                                                            \
                for (long j = 0; j < n; j++) total[j] += p[i * g.rs + (j0 + j) * g.cs];                                \
            for (long j = 0; j < n; j++) sum[j0 + j] = (T)total[j];                                                    \
        }                                                                                                              \
    }
COLUMN_SUMS(float, column_sums_f32)
COLUMN_SUMS(double, column_sums_f64)

/* The products of the rule, without making tensors for views and transposes. */
static dl_status linear_products(dl_back *b, dl_mat g, long rows, long n, long k) {
    dl_dtype t = b->g[0]->dtype;
    if (NEED(LINEAR_INPUT)) {
        dl_tensor *w = IN_(LINEAR_WEIGHT), *dx = fresh_like(META(LINEAR_INPUT));
        if (!w || !T(dx)) return dl_fail_null("the weight");
        DL_TRY(dl_cpu_gemm(t, rows, k, n, g, matrix(w), (dl_mat){dl_ptr(dx), k, 1}, false));
        DL_TRY(dl_give(b, DL_IN_LINEAR_INPUT, dl_ref(dx)));
    }
    if (NEED(LINEAR_WEIGHT)) {
        dl_tensor *x = IN_(LINEAR_INPUT), *dw = fresh_like(META(LINEAR_WEIGHT));
        dl_mat mx;
        long same;
        if (!x || !T(dw)) return dl_fail_null("the input");
        if (!T(as_rows(x, &mx, &same))) return dl_failed();
        DL_TRY(dl_cpu_gemm(t, n, k, rows, dl_mat_transposed(g), mx, (dl_mat){dl_ptr(dw), k, 1}, false));
        DL_TRY(dl_give(b, DL_IN_LINEAR_WEIGHT, dl_ref(dw)));
    }
    if (NEED(LINEAR_BIAS)) {
        dl_tensor *db = fresh_like(META(LINEAR_BIAS));
        if (!db) return dl_failed();
        if (t == DL_F32)
            column_sums_f32(rows, n, g, dl_ptr(db));
        else
            column_sums_f64(rows, n, g, dl_ptr(db));
        DL_TRY(dl_give(b, DL_IN_LINEAR_BIAS, db));
    }
    return DL_OK;
}

static dl_status linear_fused(dl_back *b) {
    const dl_meta *w = META(LINEAR_WEIGHT);
    dl_mat g = {0};
    long rows = 0;
    if (DL_BIT(G0->dtype) & DL_HALVES) return dl_grad_linear(b);
    if (!T(as_rows(G0, &g, &rows))) return dl_failed();
    return linear_products(b, g, rows, w->shape[0], w->shape[1]);
}

static dl_status linear_half(const dl_call *c, bool *done) {
    dl_tensor *w = c->in[1], *bias = INPUT(c, LINEAR_BIAS), *y = c->out[0];
    dl_mat mx = {0}, my = {dl_ptr(y), w->shape[0], 1};
    long rows = 0;
    DL_OWNED dl_tensor *x = as_rows(c->in[0], &mx, &rows);
    DL_OWNED dl_tensor *dense = x && bias ? dl_cpu_contiguous(bias) : NULL;
    if (!x || (bias && !dense)) return dl_failed();
    return dl_cpu_gemm_half(c->dtype, rows, w->shape[0], w->shape[1], mx, dl_mat_transposed(matrix(w)),
                            dense ? dl_ptr(dense) : NULL, my, done);
}

static dl_status run_linear(dl_call *c) {
    bool done = false;
    if (DL_BIT(c->dtype) & DL_HALVES) DL_TRY(linear_half(c, &done));
    return done ? DL_OK : dl_cpu_via_f32(c, linear_float, false);
}
const dl_kernel dl_cpu_linear = {.run = run_linear, .dtypes = DL_FLOATS, .fused_grad = linear_fused};
