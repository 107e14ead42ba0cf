/* Kernels of matmul and linear. */
#include "cpu/runtime/gemm.h"
#include "cpu/runtime/iter.h"
#include "ops/rules.h"

#include <string.h>

/* A batch of products: operands and result over the same batch dimensions, those of an operand repeated by stride 0. */
typedef struct batch {
    long m, n, k, count;
    int ndim;
    long shape[DL_MAX_DIM], stride[3][DL_MAX_DIM];
    dl_mat mat[3];
    dl_stop *stop;
} batch;

/* Takes the matrix dimensions of operand `which` off t; what remains are batches. */
static int take_matrix(const dl_tensor *t, bool left, dl_mat *m) {
    int d = t->ndim;
    *m = (dl_mat){dl_ptr(t), 0, 0};
    if (d == 1) {
        *(left ? &m->cs : &m->rs) = t->stride[0];
        return 0;
    }
    m->rs = t->stride[d - 2], m->cs = t->stride[d - 1];
    return d - 2;
}

static void batch_of(const dl_call *c, batch *p) {
    const dl_tensor *a = c->in[0], *b = c->in[1], *o = c->out[0];
    int nb[2] = {take_matrix(a, true, &p->mat[0]), take_matrix(b, false, &p->mat[1])};
    p->k = a->shape[a->ndim - 1];
    p->m = a->ndim > 1 ? a->shape[a->ndim - 2] : 1;
    p->n = b->ndim > 1 ? b->shape[b->ndim - 1] : 1;
    p->mat[2] = (dl_mat){dl_ptr(o), p->n, 1}; /* the output is contiguous */
    p->ndim = nb[0] > nb[1] ? nb[0] : nb[1];
    p->count = 1;
    long block = p->m * p->n;
    for (int i = p->ndim - 1; i >= 0; i--) {
        p->shape[i] = o->shape[i];
        for (int w = 0; w < 2; w++) {
            const dl_tensor *t = c->in[w];
            int d = i - (p->ndim - nb[w]);
            p->stride[w][i] = d >= 0 && t->shape[d] > 1 ? t->stride[d] : 0;
        }
        p->stride[2][i] = block * p->count;
        p->count *= p->shape[i];
    }
}

/* Batches of the left operand that lie like further rows are rows, when the right operand has none. */
static void fold_rows(batch *p) {
    while (p->ndim > 0) {
        int i = p->ndim - 1;
        if (p->stride[1][i] || (p->shape[i] > 1 && p->m > 1 && p->stride[0][i] != p->m * p->mat[0].rs)) return;
        if (p->m == 1) p->mat[0].rs = p->stride[0][i];
        p->m *= p->shape[i];
        p->count = p->shape[i] ? p->count / p->shape[i] : 1;
        p->ndim--;
    }
}

static void matrices_at(const batch *p, long index, long esize, dl_mat m[3]) {
    memcpy(m, p->mat, sizeof p->mat);
    for (int i = p->ndim - 1; i >= 0; i--) {
        long x = index % p->shape[i];
        index /= p->shape[i];
        for (int w = 0; w < 3; w++) m[w].p = (char *)m[w].p + x * p->stride[w][i] * esize;
    }
}

typedef struct products {
    const batch *p;
    dl_dtype t;
    dl_first_error failed;
} products;

static void run_product(void *arg, long i) {
    products *j = (products *)arg;
    const batch *p = j->p;
    dl_mat m[3];
    matrices_at(p, i, dl_dtype_size(j->t), m);
    if (dl_cpu_gemm(j->t, p->m, p->n, p->k, m[0], m[1], m[2], false) != DL_OK) dl_first_error_note(&j->failed);
}

static dl_status matmul_float(dl_call *c) {
    batch p;
    if (!c->out[0]->numel) return DL_OK;
    batch_of(c, &p);
    fold_rows(&p);
    products j = {&p, (dl_dtype)c->out[0]->dtype, {0}};
    /* many small products: one a thread; few large ones: threads inside each */
    double each = (double)p.m * (double)p.n * (double)p.k;
    bool split = p.count > 1 && each < 1 << 21;
    dl_cpu_for(p.count, split ? dl_cpu_threads_product(each * (double)p.count) : 1, run_product, &j);
    return dl_first_error_raise(&j.failed);
}

#define INTEGER_PRODUCT(T, NAME)                                                                                       \
    static void NAME(const batch *p, const dl_mat m[3]) {                                                              \
        const T *a = m[0].p, *b = m[1].p;                                                                              \
        T *o = m[2].p;                                                                                                 \
        for (long i = 0; i < p->m && !dl_stop_asked(p->stop); i++)                                                     \
            for (long j = 0; j < p->n; j++) {                                                                          \
                unsigned long sum = 0; /* wraps around like the type */                                                \
                for (long l = 0; l < p->k; l++)                                                                        \
                    sum += (unsigned long)a[i * m[0].rs + l * m[0].cs] * (unsigned long)b[l * m[1].rs + j * m[1].cs];  \
                o[i * m[2].rs + j] = (T)sum;                                                                           \
            }                                                                                                          \
    }
INTEGER_PRODUCT(long, product_i64)
INTEGER_PRODUCT(int, product_i32)
INTEGER_PRODUCT(unsigned char, product_u8)

static dl_status matmul_integer(dl_call *c) {
    batch p;
    batch_of(c, &p);
    int t = c->out[0]->dtype;
    dl_stop stop = dl_stop_begin();
    p.stop = &stop;
    for (long i = 0; i < p.count; i++) {
        dl_mat m[3];
        matrices_at(&p, i, dl_dtype_size((dl_dtype)t), m);
        (t == DL_I64 ? product_i64 : t == DL_I32 ? product_i32 : product_u8)(&p, m);
    }
    dl_stop_end(&stop);
    return DL_OK;
}

static dl_status matmul_run(dl_call *c) {
    if (DL_BIT(c->dtype) & DL_INTS) return matmul_integer(c);
    if (DL_BIT(c->dtype) & DL_HALVES) return dl_cpu_via_f32(c, matmul_float, false);
    return matmul_float(c);
}

const dl_kernel dl_cpu_matmul = {.run = matmul_run, .dtypes = DL_NUMBERS};

/* ---- linear */

/* t as a matrix of all its rows; a contiguous copy where strides do not allow it. *copy is to be released. */
static dl_status as_rows(dl_tensor *t, dl_mat *m, long *rows, dl_tensor **copy) {
    long cols = t->shape[t->ndim - 1], step = t->ndim > 1 ? t->stride[t->ndim - 2] : cols;
    bool regular = true;
    *rows = 1;
    for (int i = t->ndim - 2; i >= 0; i--) {
        regular = regular && (t->shape[i] == 1 || t->stride[i] == step * *rows);
        *rows *= t->shape[i];
    }
    *copy = NULL;
    if (!regular) {
        *copy = dl_tensor_empty(t->ndim, t->shape, (dl_dtype)t->dtype, 0);
        if (!*copy) return dl_failed();
        dl_cpu_copy(*copy, t);
        t = *copy;
        step = cols;
    }
    *m = (dl_mat){dl_ptr(t), step, t->stride[t->ndim - 1]};
    return DL_OK;
}

static dl_mat matrix(const dl_tensor *t) { return (dl_mat){dl_ptr(t), t->stride[0], t->stride[1]}; }
static dl_mat flipped(dl_mat m) { return (dl_mat){m.p, m.cs, m.rs}; }

/* Every row of y becomes the bias. */
static void fill_rows(dl_tensor *y, const dl_tensor *bias) {
    long n = bias->shape[0], rows = n ? y->numel / n : 0;
    dl_cpu_copy_strided(2, (long[]){rows, n}, dl_ptr(y), (dl_dtype)y->dtype, (long[]){n, 1}, dl_ptr(bias),
                        (dl_dtype)bias->dtype, (long[]){0, bias->stride[0]});
}

static dl_status linear_float(dl_call *c) {
    dl_tensor *x = c->in[0], *w = c->in[1], *bias = INPUT(c, LINEAR_BIAS), *y = c->out[0], *copy;
    dl_mat mx = {0}, my = {dl_ptr(y), w->shape[0], 1};
    long rows = 0;
    DL_TRY(as_rows(x, &mx, &rows, &copy));
    if (bias) fill_rows(y, bias);
    dl_status s = dl_cpu_gemm((dl_dtype)y->dtype, rows, w->shape[0], w->shape[1], mx, flipped(matrix(w)), my, bias);
    dl_unref(copy);
    return s;
}

static dl_status linear_run(dl_call *c) {
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, linear_float, false) : linear_float(c);
}

static dl_tensor *fresh_like(const dl_meta *m) { return dl_tensor_empty(m->ndim, m->shape, (dl_dtype)m->dtype, 0); }

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
    dl_dtype t = (dl_dtype)b->g[0]->dtype;
    if (NEED(LINEAR_INPUT)) {
        dl_tensor *w = IN_(LINEAR_WEIGHT), *dx = fresh_like(META(LINEAR_INPUT));
        if (!w || !T(dx)) return dl_fail_null("the weight");
        DL_TRY(dl_cpu_gemm(t, rows, k, n, g, matrix(w), (dl_mat){dl_ptr(dx), k, 1}, false));
        DL_TRY(dl_give(b, DL_IN_LINEAR_INPUT, dl_ref(dx)));
    }
    if (NEED(LINEAR_WEIGHT)) {
        dl_tensor *x = IN_(LINEAR_INPUT), *dw = fresh_like(META(LINEAR_WEIGHT)), *copy;
        dl_mat mx;
        long same;
        if (!x || !T(dw)) return dl_fail_null("the input");
        DL_TRY(as_rows(x, &mx, &same, &copy));
        if (copy) T(copy);
        DL_TRY(dl_cpu_gemm(t, n, k, rows, flipped(g), mx, (dl_mat){dl_ptr(dw), k, 1}, false));
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
    dl_tensor *copy;
    dl_mat g = {0};
    long rows = 0;
    if (DL_BIT(G0->dtype) & DL_HALVES) return dl_grad_linear(b);
    DL_TRY(as_rows(G0, &g, &rows, &copy));
    if (copy) T(copy);
    return linear_products(b, g, rows, w->shape[0], w->shape[1]);
}

const dl_kernel dl_cpu_linear = {.run = linear_run, .fused_grad = linear_fused, .dtypes = DL_FLOATS};
