/* Kernel of continued: the tensor, then line by line what is added around it, the last dimension first. */
#include "core/scope.h"
#include "cpu/kernels/pointwise/pointwise.h"
#include "dlcore/copy.h"
#include "ops/pad.h"
#include "ops/rules/index.h"

#include <string.h>

typedef void (*line_step)(dl_tensor *t, int ndim, const long *shape, long to, long from);

static void copy_line(dl_tensor *t, int ndim, const long *shape, long to, long from) {
    char *p = dl_ptr(t);
    const long size = (long)dl_esize(t);
    const dl_dtype dtype = (dl_dtype)t->dtype;
    dl_cpu_copy_strided(ndim, shape, p + to * size, dtype, t->stride, p + from * size, dtype, t->stride);
}

/* The line that was added goes to the one that it was taken from. */
static void add_line(dl_tensor *t, int ndim, const long *shape, long to, long from) {
    char *p = dl_ptr(t);
    const long size = (long)dl_esize(t), at[3] = {from, from, to};
    const dl_dtype dtype = (dl_dtype)t->dtype;
    dl_iter it;
    dl_iter_begin(&it, ndim, shape);
    for (int i = 0; i < 3; i++) dl_iter_operand(&it, p + at[i] * size, dtype, ndim, shape, t->stride);
    dl_iter_end(&it);
    dl_iter_run_f32(&it, 1, DL_LOOP_OF(add, dtype), NULL);
}

typedef struct widths {
    int ndim, dims; /* the last `dims` dimensions grow */
    const long *w;  /* before and after, of the last dimension first */
    const char *mode;
    long inner[DL_MAX_DIM]; /* sizes of the tensor inside */
} widths;

static widths widths_of(const dl_aval *pad, const char *mode, int ndim, const long *inner) {
    widths k = {.ndim = ndim, .dims = pad->n / 2, .w = pad->u.v, .mode = mode};
    memcpy(k.inner, inner, sizeof k.inner);
    return k;
}

/* Where the tensor inside begins, by the dimensions up to d. */
static long inside(const widths *k, const dl_tensor *t, int d) {
    long at = 0;
    for (int i = 0; i < k->dims; i++)
        if (k->ndim - 1 - i <= d) at += k->w[2 * i] * t->stride[k->ndim - 1 - i];
    return at;
}

/* The lines outside along dimension d: dimensions before it are as inside, those behind it have grown. */
static void lines(const widths *k, dl_tensor *t, int d, line_step step) {
    const long *w = k->w + 2 * (k->ndim - 1 - d), n = k->inner[d], first = inside(k, t, d);
    long shape[DL_MAX_DIM];
    for (int i = 0; i < k->ndim; i++) shape[i] = i < d ? k->inner[i] : i == d ? 1 : t->shape[i];
    for (long at = -w[0]; at < n + w[1]; at++) {
        if (at == 0) at = n;
        if (at == n + w[1]) break;
        step(t, k->ndim, shape, first + at * t->stride[d], first + dl_pad_place(at, n, k->mode) * t->stride[d]);
    }
}

static dl_status continued_run(dl_call *c) {
    dl_tensor *x = c->in[0], *out = c->out[0];
    const widths k = widths_of(ATTR(c, CONTINUED_PAD), ATTR_S(c, CONTINUED_MODE), x->ndim, x->shape);
    if (!out->numel) return DL_OK;
    dl_cpu_copy_strided(x->ndim, x->shape, (char *)dl_ptr(out) + inside(&k, out, x->ndim) * (long)dl_esize(out),
                        (dl_dtype)out->dtype, out->stride, dl_ptr(x), (dl_dtype)x->dtype, x->stride);
    for (int i = 0; i < k.dims; i++) lines(&k, out, k.ndim - 1 - i, copy_line);
    return DL_OK;
}

static dl_status continued_back(dl_back *b) {
    const dl_meta *m = dl_in_meta(b, 0);
    const widths k = widths_of(ATTR(b, CONTINUED_PAD), ATTR_S(b, CONTINUED_MODE), m->ndim, m->shape);
    dl_tensor *g = dl_tmp(b, dl_clone(b->g[0])), *t = g ? dl_tmp(b, dl_cpu_contiguous(g)) : NULL;
    dl_tensor *dx = t ? dl_tensor_empty(m->ndim, m->shape, t->dtype, 0) : NULL;
    if (!dx) return dl_failed();
    if (dx->numel) {
        for (int i = k.dims - 1; i >= 0; i--) lines(&k, t, k.ndim - 1 - i, add_line);
        dl_cpu_copy_strided(k.ndim, m->shape, dl_ptr(dx), (dl_dtype)dx->dtype, dx->stride,
                            (char *)dl_ptr(t) + inside(&k, t, k.ndim) * (long)dl_esize(t), (dl_dtype)t->dtype,
                            t->stride);
    }
    return dl_give(b, 0, dx);
}
static dl_status continued_fused(dl_back *b) { return dl_cpu_grad_via_f32(b, continued_back); }

const dl_kernel dl_cpu_continued = {.run = continued_run, .fused_grad = continued_fused, .dtypes = DL_ALL};
