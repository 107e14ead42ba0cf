/* Kernels of layer_norm and rms_norm, and their fused gradients. A task is some rows or, for the gradients of weight
 * and bias, a band of columns, so that results do not depend on the number of threads. */
#include "core/scope.h"
#include "cpu/kernels/norm/layer_norm.h"
#include "cpu/runtime/iter.h"
#include "ops/compose/norm.h"
#include "ops/rules/norm.h"

#include <string.h>

enum { BAND = 64, SOME = 4096, ROWS = 64 }; /* columns; elements of a task's rows, and rows, unless a row is longer */

typedef struct rows {
    dl_dtype t;
    long n, d, some; /* some: rows of a task */
    const dl_layer_norm_loops *f;
    char *x, *w, *b, *y, *g;  /* y: the result, or dx; w and b may be NULL */
    double eps, *mean, *rstd; /* mean: NULL for rms_norm */
    dl_tensor *mean_out, *rstd_out;
    double *dw, *db;
} rows;

static void rows_of(rows *r, const dl_tensor *x, const dl_aval *sizes) {
    *r = (rows){.t = x->dtype, .d = 1, .x = dl_ptr(x)};
    for (int i = 0; i < sizes->n; i++) r->d *= sizes->u.v[i];
    r->n = r->d ? x->numel / r->d : 0;
    r->some = r->d >= SOME ? 1 : r->d * ROWS <= SOME ? ROWS : SOME / r->d;
    r->f = &DL_SIMD_PICK(dl_layer_norm_rows)[r->t];
}

/* Runs the task for all rows. */
static void for_rows(rows *r, void (*task)(void *arg, long k)) {
    dl_cpu_for((r->n + r->some - 1) / r->some, dl_cpu_threads(r->n * r->d), task, r);
}

static long first_row(const rows *r, long k, long *n) {
    const long from = k * r->some;
    *n = r->n - from < r->some ? r->n - from : r->some;
    return from;
}

static void store(dl_tensor *to, long at, const double *from, long n) {
    float *f = (float *)dl_ptr(to) + at;
    if (to->dtype == DL_F32)
        for (long i = 0; i < n; i++) f[i] = (float)from[i];
    else
        for (long i = 0; i < n; i++)
            dl_store_f64((char *)dl_ptr(to) + (at + i) * (long)dl_esize(to), (dl_dtype)to->dtype, from[i]);
}

static void normalise(void *arg, long k) {
    const rows *r = arg;
    double mean[ROWS], rstd[ROWS];
    long n, from = first_row(r, k, &n), at = from * r->d * dl_dtype_size(r->t);
    r->f->rows(r->x + at, r->w, r->b, r->y + at, n, r->d, r->eps, r->mean_out ? mean : NULL, rstd);
    if (r->mean_out) store(r->mean_out, from, mean, n);
    store(r->rstd_out, from, rstd, n);
}

/* Input i, contiguous and of dtype t; NULL: there is none, or an error. */
static dl_tensor *operand(const dl_call *c, int i, dl_dtype t, dl_status *s) {
    if (c->nin <= i || !c->in[i]) return NULL;
    dl_tensor *of = c->in[i];
    const bool same = (dl_dtype)of->dtype == t;
    dl_tensor *as = same ? dl_cpu_contiguous(of) : dl_tensor_empty(of->ndim, of->shape, t, 0);
    if (!as) *s = dl_failed();
    if (as && !same) dl_cpu_copy(as, of);
    return as;
}

static dl_status layer_norm_run(dl_call *c) {
    const bool centred = c->op->id == dl_id_layer_norm;
    const dl_dtype t = c->in[0]->dtype, wide = DL_BIT(t) & DL_HALVES ? DL_F32 : t;
    dl_status s = DL_OK;
    DL_OWNED dl_tensor *x = operand(c, 0, t, &s), *w = operand(c, 1, wide, &s), *b = operand(c, 2, wide, &s);
    if (s != DL_OK) return s;
    rows r;
    rows_of(&r, x, ATTR(c, LAYERNORM_NORMALIZED_SHAPE));
    r.w = w ? dl_ptr(w) : NULL, r.b = b ? dl_ptr(b) : NULL, r.y = dl_ptr(c->out[0]);
    r.eps = centred ? ATTR_F(c, LAYERNORM_EPS) : dl_rms_eps(ATTR(c, LAYERNORM_EPS), wide);
    r.mean_out = centred ? c->out[1] : NULL, r.rstd_out = c->out[c->op->out - 1];
    for_rows(&r, normalise);
    return DL_OK;
}

/* ---- gradient */

static void grad_rows(void *arg, long k) {
    const rows *r = arg;
    long n, from = first_row(r, k, &n), at = from * r->d * dl_dtype_size(r->t);
    r->f->grad_rows(r->x + at, r->g + at, r->w, r->y + at, n, r->d, r->mean ? r->mean + from : NULL, r->rstd + from);
}

static void grad_band(void *arg, long k) {
    const rows *r = arg;
    long c0 = k * BAND, nc = r->d - c0 < BAND ? r->d - c0 : BAND, at = c0 * dl_dtype_size(r->t);
    memset(r->dw + c0, 0, (size_t)nc * sizeof *r->dw);
    memset(r->db + c0, 0, (size_t)nc * sizeof *r->db);
    r->f->columns(r->x + at, r->g + at, r->n, r->d, nc, r->mean, r->rstd, r->dw + c0, r->db + c0);
}

/* The gradient of input i, weight or bias, from sums by column. */
static dl_status give_columns(dl_back *b, int i, dl_dtype t, const double *sums) {
    if (b->nin <= i || !DL_NEED(i)) return DL_OK;
    dl_tensor *d =
        T(dl_tensor_empty(ATTR(b, LAYERNORM_NORMALIZED_SHAPE)->n, ATTR(b, LAYERNORM_NORMALIZED_SHAPE)->u.v, t, 0));
    if (!d) return dl_failed();
    store(d, 0, sums, d->numel);
    return dl_give(b, i, dl_ref(d));
}

/* Saved statistics as f64. */
static void load(double *to, const dl_tensor *from, long n) {
    const float *f = dl_ptr(from);
    if (from->dtype == DL_F32)
        for (long i = 0; i < n; i++) to[i] = (double)f[i];
    else
        for (long i = 0; i < n; i++) to[i] = dl_load_f64((char *)dl_ptr(from) + i * (long)dl_esize(from), from->dtype);
}

static dl_status norm_fused(dl_back *b, bool centred) {
    bool weight = b->nin > DL_IN_LAYERNORM_WEIGHT && META(LAYERNORM_WEIGHT)->ndim;
    dl_tensor *x = IN_(LAYERNORM_INPUT), *w = weight ? IN_(LAYERNORM_WEIGHT) : NULL;
    dl_tensor *mean = centred ? OUT_(LAYER_NORM_MEAN) : NULL;
    dl_tensor *rstd = centred ? OUT_(LAYER_NORM_RSTD) : OUT_(RMS_NORM_RSTD);
    if (!x || (centred && !mean) || !rstd || (weight && !w)) return dl_fail_null("the input");
    dl_tensor *flat = T(dl_contiguous(x)), *g = flat ? T(dl_contiguous(G0)) : NULL;
    dl_tensor *dx = g ? T(dl_tensor_empty(x->ndim, x->shape, x->dtype, 0)) : NULL;
    const dl_dtype wide = DL_BIT(x->dtype) & DL_HALVES ? DL_F32 : (dl_dtype)x->dtype;
    if (!dx || (w && !(w = T(dl_contiguous(T(dl_to_dtype(w, wide))))))) return dl_failed();
    rows r;
    rows_of(&r, flat, ATTR(b, LAYERNORM_NORMALIZED_SHAPE));
    r.g = dl_ptr(g), r.w = w ? dl_ptr(w) : NULL, r.y = dl_ptr(dx);
    dl_tensor *work = T(dl_tensor_empty(1, (long[]){2 * (r.n + r.d) + 1}, DL_F64, 0));
    if (!work) return dl_failed();
    r.mean = dl_ptr(work), r.rstd = r.mean + r.n, r.dw = r.rstd + r.n, r.db = r.dw + r.d;
    load(r.rstd, rstd, r.n);
    if (centred)
        load(r.mean, mean, r.n);
    else
        r.mean = NULL;
    if (DL_NEED(0)) {
        for_rows(&r, grad_rows);
        DL_TRY(dl_give(b, 0, dl_ref(dx)));
    }
    if (b->nin < 2) return DL_OK;
    dl_cpu_for((r.d + BAND - 1) / BAND, dl_cpu_threads(r.n * r.d), grad_band, &r);
    DL_TRY(give_columns(b, 1, wide, r.dw));
    return give_columns(b, 2, wide, r.db);
}

static dl_status centred_fused(dl_back *b) { return norm_fused(b, true); }
static dl_status plain_fused(dl_back *b) { return norm_fused(b, false); }

static dl_status grad_of(dl_back *b, dl_status (*fused)(dl_back *)) {
    return G0->dtype == META(LAYERNORM_INPUT)->dtype ? fused(b) : dl_cpu_grad_via_f32(b, fused);
}

static dl_status layer_norm_fused(dl_back *b) { return grad_of(b, centred_fused); }
static dl_status rms_norm_fused(dl_back *b) { return grad_of(b, plain_fused); }

const dl_kernel dl_cpu_layer_norm = {.run = layer_norm_run, .fused_grad = layer_norm_fused, .dtypes = DL_FLOATS};
const dl_kernel dl_cpu_rms_norm = {.run = layer_norm_run, .fused_grad = rms_norm_fused, .dtypes = DL_FLOATS};
