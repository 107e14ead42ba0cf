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
    dl_tensor *mean_out, *rstd_out;
    double *dw, *db;
} rows;

static void rows_of(rows *r, const dl_tensor *x, const dl_aval *sizes) {
    *r = (rows){.t = x->dtype, .d = 1, .x = dl_ptr(x)};
    for (int i = 0; i < sizes->n; i++) r->d *= sizes->u.v[i];
    r->n = r->d ? x->numel / r->d : 0;
    r->f = &DL_SIMD_PICK(dl_layer_norm_rows)[r->t == DL_F64];
}

static void store_at(dl_tensor *to, long i, double v) {
    dl_store_f64((char *)dl_ptr(to) + i * (long)dl_esize(to), (dl_dtype)to->dtype, v);
}

static void normalise(const rows *r, long i, const void *x, void *y) {
    double mean, rstd;
    r->f->row(x, r->w, r->b, y, r->d, r->eps, r->mean_out ? &mean : NULL, &rstd);
    if (r->mean_out) store_at(r->mean_out, i, mean);
    store_at(r->rstd_out, i, rstd);
}

static void normalise_row(void *arg, long i) {
    const rows *r = arg;
    const long at = i * r->d * dl_dtype_size(r->t);
    normalise(r, i, r->x + at, r->y + at);
}

static void normalise_half_row(void *arg, long i) {
    const rows *r = arg;
    _Alignas(64) float x[HALF_ROW], y[HALF_ROW];
    const long at = i * r->d * dl_dtype_size(r->t);
    dl_cpu_half_to_f32(r->d, r->x + at, r->t, x);
    normalise(r, i, x, y);
    dl_cpu_f32_to_half(r->d, y, r->y + at, r->t);
}

static void *pointer(dl_tensor *const *in, int nin, int i) { return nin > i && in[i] ? dl_ptr(in[i]) : NULL; }

/* All inputs are contiguous, in f32 or f64; or x in 16 bits with weight and bias in f32. */
static dl_status layer_norm_float(dl_call *c) {
    rows r;
    bool centred = c->op->id == dl_id_layer_norm;
    rows_of(&r, c->in[0], ATTR(c, LAYERNORM_NORMALIZED_SHAPE));
    r.w = pointer(c->in, c->nin, 1), r.b = pointer(c->in, c->nin, 2), r.y = dl_ptr(c->out[0]);
    const bool half = DL_BIT(r.t) & DL_HALVES;
    r.eps = centred ? ATTR_F(c, LAYERNORM_EPS) : dl_rms_eps(ATTR(c, LAYERNORM_EPS), half ? DL_F32 : r.t);
    r.mean_out = centred ? c->out[1] : NULL, r.rstd_out = c->out[c->op->out - 1];
    dl_cpu_for(r.n, dl_cpu_threads(r.n * r.d), half ? normalise_half_row : normalise_row, &r);
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

/* The same of rows of 16 bits, and w in f32. */
static void grad_half_row(void *arg, long i) {
    const rows *r = arg;
    _Alignas(64) float x[HALF_ROW], g[HALF_ROW], dx[HALF_ROW];
    const long at = i * r->d * dl_dtype_size(r->t);
    dl_cpu_half_to_f32(r->d, r->x + at, r->t, x);
    dl_cpu_half_to_f32(r->d, r->g + at, r->t, g);
    r->f->grad_row(x, g, r->w, dx, r->d, r->mean ? &r->mean[i] : NULL, r->rstd[i]);
    dl_cpu_f32_to_half(r->d, dx, r->y + at, r->t);
}

static void grad_half_band(void *arg, long k) {
    const rows *r = arg;
    _Alignas(64) float x[BAND * BAND], g[BAND * BAND];
    const long c0 = k * BAND, nc = r->d - c0 < BAND ? r->d - c0 : BAND, size = dl_dtype_size(r->t);
    memset(r->dw + c0, 0, (size_t)nc * sizeof *r->dw);
    memset(r->db + c0, 0, (size_t)nc * sizeof *r->db);
    for (long from = 0; from < r->n; from += BAND) {
        const long some = r->n - from < BAND ? r->n - from : BAND;
        for (long i = 0; i < some; i++) {
            const long at = ((from + i) * r->d + c0) * size;
            dl_cpu_half_to_f32(nc, r->x + at, r->t, x + i * BAND);
            dl_cpu_half_to_f32(nc, r->g + at, r->t, g + i * BAND);
        }
        r->f->columns(x, g, some, BAND, nc, r->mean ? r->mean + from : NULL, r->rstd + from, r->dw + c0, r->db + c0);
    }
}

/* The gradient of input i, weight or bias, from sums by column. */
static dl_status give_columns(dl_back *b, int i, dl_dtype t, const double *sums) {
    if (b->nin <= i || !DL_NEED(i)) return DL_OK;
    dl_tensor *d =
        T(dl_tensor_empty(ATTR(b, LAYERNORM_NORMALIZED_SHAPE)->n, ATTR(b, LAYERNORM_NORMALIZED_SHAPE)->u.v, t, 0));
    if (!d) return dl_failed();
    for (long k = 0; k < d->numel; k++) store_at(d, k, sums[k]);
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
    const bool half = DL_BIT(x->dtype) & DL_HALVES;
    const dl_dtype wide = half ? DL_F32 : (dl_dtype)x->dtype;
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
        dl_cpu_for(r.n, dl_cpu_threads(r.n * r.d), half ? grad_half_row : grad_row, &r);
        DL_TRY(dl_give(b, 0, dl_ref(dx)));
    }
    if (b->nin < 2) return DL_OK;
    dl_cpu_for((r.d + BAND - 1) / BAND, dl_cpu_threads(r.n * r.d), half ? grad_half_band : grad_band, &r);
    DL_TRY(give_columns(b, 1, wide, r.dw));
    return give_columns(b, 2, wide, r.db);
}

static dl_status centred_fused(dl_back *b) { return norm_fused(b, true); }
static dl_status plain_fused(dl_back *b) { return norm_fused(b, false); }

/* Rows of 16 bits are converted in the cache. */
static dl_status grad_of(dl_back *b, dl_status (*fused)(dl_back *)) {
    const dl_aval *sizes = ATTR(b, LAYERNORM_NORMALIZED_SHAPE);
    long d = 1;
    for (int i = 0; i < sizes->n; i++) d *= sizes->u.v[i];
    return d <= HALF_ROW && G0->dtype == META(LAYERNORM_INPUT)->dtype ? fused(b) : dl_cpu_grad_via_f32(b, fused);
}

static dl_status layer_norm_fused(dl_back *b) { return grad_of(b, centred_fused); }
static dl_status rms_norm_fused(dl_back *b) { return grad_of(b, plain_fused); }

const dl_kernel dl_cpu_layer_norm = {.run = layer_norm_run, .fused_grad = layer_norm_fused, .dtypes = DL_FLOATS};
const dl_kernel dl_cpu_rms_norm = {.run = layer_norm_run, .fused_grad = rms_norm_fused, .dtypes = DL_FLOATS};
