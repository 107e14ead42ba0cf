/* Kernels of layer_norm and rms_norm, and their fused gradients. A task is a row or, for the gradients of weight and
 * bias, a band of columns, so that results do not depend on the number of threads. */
#include "cpu/kernels/norm/layer_norm.h"
#include "cpu/runtime/iter.h"
#include "ops/compose/norm.h"
#include "ops/rules/norm.h"

#include <string.h>

enum { BAND = 64, HALF_ROW = 1 << 14 }; /* HALF_ROW: elements of 16 bits that are converted on the stack */

typedef struct rows {
    dl_dtype t;
    long n, d;
    const dl_layer_norm_loops *f;
    char *x, *w, *b, *y, *g;  /* y: the result, or dx; w and b may be NULL */
    double eps, *mean, *rstd; /* mean: NULL for rms_norm */
    double *dw, *db;
} rows;

static void rows_of(rows *r, const dl_tensor *x, const dl_aval *sizes) {
    *r = (rows){.t = x->dtype, .d = 1, .x = dl_ptr(x)};
    for (int i = 0; i < sizes->n; i++) r->d *= sizes->u.v[i];
    r->n = r->d ? x->numel / r->d : 0;
    r->f = &DL_SIMD_PICK(dl_layer_norm_rows)[r->t == DL_F64];
}

static void normalise_row(void *arg, long i) {
    const rows *r = arg;
    long at = i * r->d * dl_dtype_size(r->t);
    r->f->row(r->x + at, r->w, r->b, r->y + at, r->d, r->eps, r->mean ? &r->mean[i] : NULL, &r->rstd[i]);
}

static void normalise_half_row(void *arg, long i) {
    const rows *r = arg;
    _Alignas(64) float x[HALF_ROW], y[HALF_ROW];
    const long at = i * r->d * dl_dtype_size(r->t);
    dl_cpu_half_to_f32(r->d, r->x + at, r->t, x);
    r->f->row((char *)x, r->w, r->b, (char *)y, r->d, r->eps, r->mean ? &r->mean[i] : NULL, &r->rstd[i]);
    dl_cpu_f32_to_half(r->d, y, r->y + at, r->t);
}

static void *pointer(dl_tensor *const *in, int nin, int i) { return nin > i && in[i] ? dl_ptr(in[i]) : NULL; }

static void store(dl_tensor *to, const double *from) {
    for (long i = 0; i < to->numel; i++) dl_store_f64((char *)dl_ptr(to) + i * (long)dl_esize(to), to->dtype, from[i]);
}

/* All inputs are contiguous, in f32 or f64; or x in 16 bits with weight and bias in f32. */
static dl_status layer_norm_float(dl_call *c) {
    rows r;
    bool centred = c->op->id == dl_id_layer_norm;
    rows_of(&r, c->in[0], ATTR(c, LAYERNORM_NORMALIZED_SHAPE));
    r.w = pointer(c->in, c->nin, 1), r.b = pointer(c->in, c->nin, 2), r.y = dl_ptr(c->out[0]);
    const bool half = DL_BIT(r.t) & DL_HALVES;
    r.eps = centred ? ATTR_F(c, LAYERNORM_EPS) : dl_rms_eps(ATTR(c, LAYERNORM_EPS), half ? DL_F32 : r.t);
    size_t bytes = (size_t)(2 * r.n + 1) * sizeof(double);
    double *work = dl_host_alloc(bytes);
    if (!work) return dl_failed();
    r.mean = centred ? work : NULL, r.rstd = work + r.n;
    dl_cpu_for(r.n, dl_cpu_threads(r.n * r.d), half ? normalise_half_row : normalise_row, &r);
    if (r.d && centred) store(c->out[1], r.mean);
    if (r.d) store(c->out[c->op->out - 1], r.rstd);
    dl_host_free(work, bytes);
    return DL_OK;
}

/* x stays as it is. */
static dl_status layer_norm_half(dl_call *c) {
    dl_tensor *in[3] = {c->in[0]};
    dl_call f = *c;
    dl_status s = DL_OK;
    f.in = in;
    for (int i = 1; i < c->nin && s == DL_OK; i++) {
        if (!c->in[i]) continue;
        if ((in[i] = dl_tensor_empty(c->in[i]->ndim, c->in[i]->shape, DL_F32, 0)))
            dl_cpu_copy(in[i], c->in[i]);
        else
            s = dl_failed();
    }
    if (s == DL_OK) s = layer_norm_float(&f);
    dl_unref(in[1]), dl_unref(in[2]);
    return s;
}

static dl_status layer_norm_run(dl_call *c) {
    bool plain = !(DL_BIT(c->dtype) & DL_HALVES);
    rows r;
    rows_of(&r, c->in[0], ATTR(c, LAYERNORM_NORMALIZED_SHAPE));
    if (!plain && r.d <= HALF_ROW && dl_is_contiguous(c->in[0])) return layer_norm_half(c);
    for (int i = 0; i < c->nin; i++) plain = plain && (!c->in[i] || dl_is_contiguous(c->in[i]));
    return plain ? layer_norm_float(c) : dl_cpu_via_f32(c, layer_norm_float, true);
}

/* ---- gradient */

static void grad_row(void *arg, long i) {
    const rows *r = arg;
    long at = i * r->d * dl_dtype_size(r->t);
    r->f->grad_row(r->x + at, r->g + at, r->w, r->y + at, r->d, r->mean ? &r->mean[i] : NULL, r->rstd[i]);
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
    store(d, sums);
    return dl_give(b, i, dl_ref(d));
}

/* Saved statistics as f64. */
static void load(double *to, const dl_tensor *from, long n) {
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
    if (!dx || (w && !(w = T(dl_contiguous(w))))) return dl_failed();
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
        dl_cpu_for(r.n, dl_cpu_threads(r.n * r.d), grad_row, &r);
        DL_TRY(dl_give(b, 0, dl_ref(dx)));
    }
    if (b->nin < 2) return DL_OK;
    dl_cpu_for((r.d + BAND - 1) / BAND, dl_cpu_threads(r.n * r.d), grad_band, &r);
    DL_TRY(give_columns(b, 1, x->dtype, r.dw));
    return give_columns(b, 2, x->dtype, r.db);
}

static dl_status centred_fused(dl_back *b) { return norm_fused(b, true); }
static dl_status plain_fused(dl_back *b) { return norm_fused(b, false); }
static dl_status layer_norm_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, centred_fused); }
static dl_status rms_norm_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, plain_fused); }

const dl_kernel dl_cpu_layer_norm = {.run = layer_norm_run, .fused_grad = layer_norm_fused, .dtypes = DL_FLOATS};
const dl_kernel dl_cpu_rms_norm = {.run = layer_norm_run, .fused_grad = rms_norm_fused, .dtypes = DL_FLOATS};
