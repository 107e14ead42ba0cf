/* Kernels of softmax and log_softmax, along any dimension of any dense memory order. */
#include "cpu/runtime/iter.h"
#include "cpu/runtime/rows.h"
#include "ops/rules.h"

#include <string.h>

static dl_rows_shape rows_shape_of(const dl_tensor *t, int dim) {
    dl_rows_shape r = {.d = t->ndim ? t->shape[dim] : 1, .inner = 1};
    if (r.d > 1) {
        r.inner = t->stride[dim];
    } else { /* the stride of a single element says nothing; any split will do */
        r.inner = t->numel < DL_COLUMNS ? 1 : DL_COLUMNS;
        if (t->numel % r.inner) r.inner = 1;
    }
    r.outer = t->numel ? t->numel / (r.d * r.inner) : 0;
    r.blocks = (r.inner + DL_COLUMNS - 1) / DL_COLUMNS;
    return r;
}

dl_tensor *dl_cpu_strided_like(dl_tensor *t, const dl_tensor *like) {
    bool same = t->dtype == like->dtype;
    for (int i = 0; i < t->ndim; i++) same = same && (t->shape[i] < 2 || t->stride[i] == like->stride[i]);
    if (same) return dl_ref(t);
    dl_tensor *c = dl_tensor_empty(like->ndim, like->shape, (dl_dtype)like->dtype, 0);
    if (!c) return NULL;
    memcpy(c->stride, like->stride, sizeof c->stride);
    dl_cpu_copy(c, t);
    return c;
}

static dl_status run(dl_call *c, bool log) {
    dl_tensor *y = c->out[0], *x = dl_cpu_strided_like(c->in[0], y);
    int dim;
    if (!x) return dl_failed();
    dl_dim_norm(ATTR_I(c, ALONG_DIM), y->ndim, &dim); /* checked by infer */
    dl_rows_shape r = rows_shape_of(y, dim);
    const dl_row_loops *f = dl_rows_of((dl_dtype)y->dtype);
    long es = (long)dl_esize(y);
    char *xp = dl_ptr(x), *yp = dl_ptr(y);
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(4 * y->numel))
    for (long i = 0; i < r.outer * r.blocks; i++) {
        if (dl_stop_asked(&stop)) continue;
        long nc, at = dl_rows_at(&r, i, &nc) * es;
        f->softmax(xp + at, yp + at, r.d, r.inner, nc, log);
    }
    dl_stop_end(&stop);
    dl_unref(x);
    return DL_OK;
}

static dl_status fused(dl_back *b, bool log) {
    dl_tensor *y = OUT_(ALONG_OUT), *g = y ? T(dl_cpu_strided_like(G0, y)) : NULL;
    if (!g) return dl_fail_null("the gradient");
    dl_tensor *dx = dl_tensor_empty(y->ndim, y->shape, (dl_dtype)y->dtype, 0);
    if (!dx) return dl_failed();
    memcpy(dx->stride, y->stride, sizeof dx->stride);
    int dim;
    dl_dim_norm(ATTR_I(b, ALONG_DIM), y->ndim, &dim);
    dl_rows_shape r = rows_shape_of(y, dim);
    const dl_row_loops *f = dl_rows_of((dl_dtype)y->dtype);
    long es = (long)dl_esize(y);
    char *yp = dl_ptr(y), *gp = dl_ptr(g), *dp = dl_ptr(dx);
    dl_stop stop = dl_stop_begin();
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(y->numel))
    for (long i = 0; i < r.outer * r.blocks; i++) {
        if (dl_stop_asked(&stop)) continue;
        long nc, at = dl_rows_at(&r, i, &nc) * es;
        f->softmax_grad(yp + at, gp + at, dp + at, r.d, r.inner, nc, log);
    }
    dl_stop_end(&stop);
    return dl_give(b, 0, dx);
}

static dl_status softmax_float(dl_call *c) { return run(c, false); }
static dl_status log_softmax_float(dl_call *c) { return run(c, true); }
static dl_status softmax_run(dl_call *c) {
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, softmax_float, false) : run(c, false);
}
static dl_status log_softmax_run(dl_call *c) {
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, log_softmax_float, false) : run(c, true);
}
static dl_status softmax_grad(dl_back *b) { return fused(b, false); }
static dl_status log_softmax_grad(dl_back *b) { return fused(b, true); }
static dl_status softmax_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, softmax_grad); }
static dl_status log_softmax_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, log_softmax_grad); }

const dl_kernel dl_cpu_softmax = {.run = softmax_run, .fused_grad = softmax_fused, .dtypes = DL_FLOATS};
const dl_kernel dl_cpu_log_softmax = {.run = log_softmax_run, .fused_grad = log_softmax_fused, .dtypes = DL_FLOATS};
