/* Kernel of continued: the rows with what is added at both of their ends, then line by line what is added around it,
 * the last but one dimension first. */
#include "core/scope.h"
#include "cpu/kernels/pointwise/pointwise.h"
#include "cpu/runtime/loop_types.h"
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

/* ---- rows: the last dimension, in one pass */

typedef struct ends {
    const widths *k;
    const char *x;
    char *out;
    const long *x_stride, *out_stride, *from; /* from: where the elements before and behind a row come from */
    long size, before, behind, n, rows, band, bands;
} ends;

#define ADD_ENDS(size, T)                                                                                              \
    static void add_ends_##size(const ends *e, const char *x, char *out) {                                             \
        const T *in = (const T *)x;                                                                                    \
        T *to = (T *)out;                                                                                              \
        for (long i = 0; i < e->before; i++) to[i - e->before] = in[e->from[i]];                                       \
        for (long i = 0; i < e->behind; i++) to[e->n + i] = in[e->from[e->before + i]];                                \
    }
ADD_ENDS(1, unsigned char)
ADD_ENDS(2, unsigned short)
ADD_ENDS(4, unsigned)
ADD_ENDS(8, unsigned long)
ADD_ENDS(16, c128)

/* Some rows that follow each other along the last but one dimension. */
static void run_ends(void *arg, long task) {
    static void (*const add[17])(const ends *, const char *, char *) = {
        [1] = add_ends_1, [2] = add_ends_2, [4] = add_ends_4, [8] = add_ends_8, [16] = add_ends_16};
    const ends *e = arg;
    const int across = e->k->ndim - 2; /* -1: there is one row */
    const long lo = task % e->bands * e->band, hi = lo + e->band < e->rows ? lo + e->band : e->rows;
    const long x_step = across < 0 ? 0 : e->x_stride[across] * e->size,
               out_step = across < 0 ? 0 : e->out_stride[across] * e->size;
    const char *x = e->x + lo * x_step;
    char *out = e->out + lo * out_step;
    long rest = task / e->bands;
    for (int d = across - 1; d >= 0; d--) {
        x += rest % e->k->inner[d] * e->x_stride[d] * e->size;
        out += rest % e->k->inner[d] * e->out_stride[d] * e->size;
        rest /= e->k->inner[d];
    }
    for (long r = lo; r < hi; r++, x += x_step, out += out_step) {
        memcpy(out, x, (size_t)(e->n * e->size));
        add[e->size](e, x, out);
    }
}

/* Rows of x into the middle of `out`, and what is added at their ends. */
static dl_status copy_rows(const widths *k, const dl_tensor *x, dl_tensor *out) {
    const int last = k->ndim - 1;
    ends e = {.k = k, .size = (long)dl_esize(x), .before = k->w[0], .behind = k->w[1], .n = k->inner[last]};
    const size_t bytes = (size_t)(e.before + e.behind + 1) * sizeof(long);
    long *from = dl_host_alloc(bytes);
    if (!from) return dl_failed();
    for (long i = 0; i < e.before; i++) from[i] = dl_pad_place(i - e.before, e.n, k->mode);
    for (long i = 0; i < e.behind; i++) from[e.before + i] = dl_pad_place(e.n + i, e.n, k->mode);
    e.x = dl_ptr(x), e.out = (char *)dl_ptr(out) + inside(k, out, k->ndim) * e.size, e.from = from;
    e.x_stride = x->stride, e.out_stride = out->stride, e.rows = last ? k->inner[last - 1] : 1;
    e.band = DL_ITER_GRAIN / out->shape[last] + 1, e.bands = (e.rows + e.band - 1) / e.band;
    const long outer = x->numel ? x->numel / (e.n * e.rows) : 0;
    dl_cpu_for(outer * e.bands, dl_cpu_threads(out->numel), run_ends, &e);
    dl_host_free(from, bytes);
    return DL_OK;
}

static dl_status continued_run(dl_call *c) {
    dl_tensor *out = c->out[0];
    DL_OWNED dl_tensor *x = dl_cpu_contiguous(c->in[0]);
    if (!x) return dl_failed();
    const widths k = widths_of(ATTR(c, CONTINUED_PAD), ATTR_S(c, CONTINUED_MODE), x->ndim, x->shape);
    if (!out->numel) return DL_OK;
    DL_TRY(copy_rows(&k, x, out));
    for (int i = 1; i < k.dims; i++) lines(&k, out, k.ndim - 1 - i, copy_line);
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
