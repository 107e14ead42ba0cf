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

typedef struct job {
    dl_rows_shape r;
    const dl_row_loops *f;
    char *x, *g, *y; /* input, NULL, result; or result, incoming gradient, gradient */
    long esize;
    bool log;
} job;

static void run_block(void *arg, long i) {
    const job *j = arg;
    long nc, at = dl_rows_at(&j->r, i, &nc) * j->esize;
    if (j->g)
        j->f->softmax_grad(j->x + at, j->g + at, j->y + at, j->r.d, j->r.inner, nc, j->log);
    else
        j->f->softmax(j->x + at, j->y + at, j->r.d, j->r.inner, nc, j->log);
}

/* x, g (NULL: forward) and y have one dense memory order. */
static void run_blocks(const dl_tensor *x, const dl_tensor *g, dl_tensor *y, long along, bool log) {
    int dim;
    dl_dim_norm(along, y->ndim, &dim); /* checked by infer */
    job j = {rows_shape_of(y, dim),
             dl_rows_of(y->dtype),
             dl_ptr(x),
             g ? dl_ptr(g) : NULL,
             dl_ptr(y),
             (long)dl_esize(y),
             log};
    dl_cpu_for(j.r.outer * j.r.blocks, dl_cpu_threads(g ? y->numel : 4 * y->numel), run_block, &j);
}

static dl_status run(dl_call *c, bool log) {
    dl_tensor *x = dl_cpu_strided_like(c->in[0], c->out[0]);
    if (!x) return dl_failed();
    run_blocks(x, NULL, c->out[0], ATTR_I(c, ALONG_DIM), log);
    dl_unref(x);
    return DL_OK;
}

static dl_status fused(dl_back *b, bool log) {
    dl_tensor *y = OUT_(ALONG_OUT), *g = y ? T(dl_cpu_strided_like(G0, y)) : NULL;
    if (!g) return dl_fail_null("the gradient");
    dl_tensor *dx = dl_cpu_empty_like(y);
    if (!dx) return dl_failed();
    run_blocks(y, g, dx, ATTR_I(b, ALONG_DIM), log);
    return dl_give(b, 0, dx);
}

static dl_status softmax_float(dl_call *c) { return run(c, false); }
static dl_status log_softmax_float(dl_call *c) { return run(c, true); }
static dl_status softmax_grad(dl_back *b) { return fused(b, false); }
static dl_status log_softmax_grad(dl_back *b) { return fused(b, true); }
static dl_status softmax_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, softmax_grad); }
static dl_status log_softmax_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, log_softmax_grad); }

DL_CPU_KERNEL(softmax, softmax_float, false, DL_FLOATS, .fused_grad = softmax_fused)
DL_CPU_KERNEL(log_softmax, log_softmax_float, false, DL_FLOATS, .fused_grad = log_softmax_fused)
