/* Kernels of softmax and log_softmax, along any dimension of any dense memory order. */
#include "cpu/runtime/iter.h"
#include "cpu/runtime/rows.h"
#include "ops/rules/loss.h"

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

/* Elements of 16 bits that are converted on the stack: of columns so many together, and at most. */
enum { HALF_PANEL = 1 << 13, HALF_BLOCK = 1 << 14 };

typedef struct job {
    dl_rows_shape r;
    const dl_row_loops *f;
    char *x, *g, *y; /* input, NULL, result; or result, incoming gradient, gradient */
    long esize;
    bool log;
    dl_dtype t;
    long panel, panels; /* columns that are converted together, and how often */
} job;

/* Is a block small enough to be converted in the cache, or needs it no conversion? */
static bool as_it_is(const dl_tensor *y, const dl_rows_shape *r) {
    const long nc = r->inner < DL_COLUMNS ? r->inner : DL_COLUMNS;
    return !(DL_BIT(y->dtype) & DL_HALVES) || r->d * nc <= HALF_BLOCK;
}

/* nc columns, between memory and a dense panel. */
static void widen(const job *j, const char *from, long nc, float *to) {
    const bool all = nc == j->r.inner;
    const long n = all ? j->r.d * nc : nc, times = all ? 1 : j->r.d;
    for (long i = 0; i < times; i++) dl_cpu_half_to_f32(n, from + i * j->r.inner * j->esize, j->t, to + i * nc);
}

static void narrow(const job *j, const float *from, long nc, char *to) {
    const bool all = nc == j->r.inner;
    const long n = all ? j->r.d * nc : nc, times = all ? 1 : j->r.d;
    for (long i = 0; i < times; i++) dl_cpu_f32_to_half(n, from + i * nc, to + i * j->r.inner * j->esize, j->t);
}

static void run_panel(void *arg, long i) {
    const job *j = arg;
    _Alignas(64) float x[HALF_BLOCK], g[HALF_BLOCK], y[HALF_BLOCK];
    const long col = i % j->panels * j->panel, left = j->r.inner - col, nc = left < j->panel ? left : j->panel;
    const long at = (i / j->panels * j->r.d * j->r.inner + col) * j->esize;
    widen(j, j->x + at, nc, x);
    if (j->g) widen(j, j->g + at, nc, g);
    for (long c = 0; c < nc; c += DL_COLUMNS) {
        const long some = nc - c < DL_COLUMNS ? nc - c : DL_COLUMNS;
        if (j->g)
            j->f->softmax_grad(x + c, g + c, y + c, j->r.d, nc, some, j->log);
        else
            j->f->softmax(x + c, y + c, j->r.d, nc, some, j->log);
    }
    narrow(j, y, nc, j->y + at);
}

static void run_block(void *arg, long i) {
    const job *j = arg;
    long nc, at = dl_rows_at(&j->r, i, &nc) * j->esize;
    if (j->g)
        j->f->softmax_grad(j->x + at, j->g + at, j->y + at, j->r.d, j->r.inner, nc, j->log);
    else
        j->f->softmax(j->x + at, j->y + at, j->r.d, j->r.inner, nc, j->log);
}

static dl_rows_shape rows_along(const dl_tensor *t, long along) {
    int dim;
    dl_dim_norm(along, t->ndim, &dim); /* checked by infer */
    return rows_shape_of(t, dim);
}

/* x, g (NULL: forward) and y have one dense memory order. */
static void run_blocks(const dl_tensor *x, const dl_tensor *g, dl_tensor *y, const dl_rows_shape *r, bool log) {
    job j = {*r, dl_rows_of(y->dtype), dl_ptr(x), g ? dl_ptr(g) : NULL, dl_ptr(y), (long)dl_esize(y), log, y->dtype, 0,
             0};
    const bool half = DL_BIT(j.t) & DL_HALVES;
    const long most = r->d ? HALF_PANEL / r->d / DL_COLUMNS * DL_COLUMNS : 0;
    j.panel = most < DL_COLUMNS ? DL_COLUMNS : most, j.panels = (r->inner + j.panel - 1) / j.panel;
    dl_cpu_for(r->outer * (half ? j.panels : r->blocks), dl_cpu_threads(g ? y->numel : 4 * y->numel),
               half ? run_panel : run_block, &j);
}

static dl_status run(dl_call *c, bool log);
static dl_status softmax_run(dl_call *c) { return run(c, false); }
static dl_status log_softmax_run(dl_call *c) { return run(c, true); }

static dl_status run(dl_call *c, bool log) {
    const dl_rows_shape r = rows_along(c->out[0], ATTR_I(c, ALONG_DIM));
    if (!as_it_is(c->out[0], &r)) return dl_cpu_via_f32(c, log ? log_softmax_run : softmax_run, false);
    dl_tensor *x = dl_cpu_strided_like(c->in[0], c->out[0]);
    if (!x) return dl_failed();
    run_blocks(x, NULL, c->out[0], &r, log);
    dl_unref(x);
    return DL_OK;
}

static dl_status fused(dl_back *b, bool log);
static dl_status softmax_fused(dl_back *b) { return fused(b, false); }
static dl_status log_softmax_fused(dl_back *b) { return fused(b, true); }

static dl_status fused(dl_back *b, bool log) {
    dl_tensor *y = OUT_(ALONG_OUT);
    if (!y) return dl_fail_null("the result");
    const dl_rows_shape r = rows_along(y, ATTR_I(b, ALONG_DIM));
    if (!as_it_is(y, &r)) return dl_cpu_grad_via_f32(b, log ? log_softmax_fused : softmax_fused);
    dl_tensor *g = T(dl_cpu_strided_like(G0, y)), *dx = g ? dl_cpu_empty_like(y) : NULL;
    if (!dx) return dl_failed();
    run_blocks(y, g, dx, &r, log);
    return dl_give(b, 0, dx);
}

const dl_kernel dl_cpu_softmax = {.run = softmax_run, .dtypes = DL_FLOATS, .fused_grad = softmax_fused};
const dl_kernel dl_cpu_log_softmax = {.run = log_softmax_run, .dtypes = DL_FLOATS, .fused_grad = log_softmax_fused};
