/* Pooling of rows and volumes, made of that of images: a row is an image of height 1; a volume is pooled in its planes,
 * then along its depth, which gives the same, as the windows are boxes. */
#include "ops/compose/batch.h"
#include "dlcore_ops.h"
#include "dlcore/arithmetic.h"
#include "dlcore/conv.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "ops/names/conv.h"
#include "ops/rules/conv.h"

/* Windows of one to three directions, the depth first. */
typedef struct windows {
    int dims;
    long k[3], stride[3], pad[3], dil[3];
    bool ceil, count_pad, adaptive; /* adaptive: k are sizes of the result */
} windows;

/* Two directions of them, from `at` on; from -1: none, then the first. */
typedef struct plane {
    long k[2], stride[2], pad[2], dil[2];
} plane;

static plane plane_of(const windows *w, int first, int second) {
    plane q = {{1, 1}, {1, 1}, {0, 0}, {1, 1}};
    const int from[2] = {first, second};
    for (int i = 0; i < 2; i++)
        if (from[i] >= 0)
            q.k[i] = w->k[from[i]], q.stride[i] = w->stride[from[i]], q.pad[i] = w->pad[from[i]],
            q.dil[i] = w->dil[from[i]];
    return q;
}

static dl_status read(const dl_aval *k, const dl_aval *stride, const dl_aval *pad, const dl_aval *dil, windows *w) {
    static const dl_aval zero = {.n = 1}, one = {.n = 1, .u.v = {1}};
    DL_TRY(dl_sizes(k, "kernel_size", w->dims, 1, w->k));
    DL_TRY(dl_sizes(stride->given && stride->n ? stride : k, "stride", w->dims, 1, w->stride));
    DL_TRY(dl_sizes(pad ? pad : &zero, "padding", w->dims, 0, w->pad));
    return dl_sizes(dil ? dil : &one, "dilation", w->dims, 1, w->dil);
}

/* [N,C,L] as images of height 1, [N,C,D,H,W] as those of N * D examples of C channels one after another, images as
 * they are. */
static dl_tensor *planes(dl_pool *p, dl_tensor *x) {
    const long *s = x->shape;
    if (x->ndim == 4) return x;
    if (x->ndim == 3) return K(dl_reshape(x, (long[]){s[0], s[1], 1, s[2]}, 4));
    return K(dl_reshape(x, (long[]){s[0], s[1] * s[2], s[3], s[4]}, 4));
}

/* The pooled planes of a volume x, as images of its depth by the pixels of a plane. */
static dl_tensor *columns(dl_pool *p, dl_tensor *y, const dl_tensor *x) {
    return K(dl_reshape(y, (long[]){x->shape[0], x->shape[1], x->shape[2], y->shape[2] * y->shape[3]}, 4));
}

/* The shape of the result: like x, `size` its last directions. */
static dl_tensor *shaped(dl_tensor *y, const dl_tensor *given, const dl_tensor *x, const long *size) {
    long shape[DL_MAX_DIM] = {x->shape[0], x->shape[1]};
    for (int i = 0; i < x->ndim - 2; i++) shape[2 + i] = size[i];
    return dl_as_given(y, given, shape, x->ndim);
}

/* ---- means */

static dl_tensor *means(dl_pool *p, dl_tensor *x, const windows *w, plane q) {
    return K(dl_avg_pool2d(x, q.k, 2, q.stride, 2, q.pad, 2, w->ceil, w->count_pad));
}

static dl_tensor *means_of(dl_pool *p, dl_tensor *given, const windows *w) {
    dl_tensor *x = dl_with_batch(p, given, w->dims + 2), *in = x ? planes(p, x) : NULL;
    dl_tensor *y = in ? means(p, in, w, plane_of(w, w->dims - 2, w->dims - 1)) : NULL;
    if (!y) return NULL;
    long size[3] = {0, y->shape[2], y->shape[3]};
    if (w->dims == 3) {
        dl_tensor *deep = columns(p, y, x);
        y = deep ? means(p, deep, w, plane_of(w, 0, -1)) : NULL;
        if (!y) return NULL;
        size[0] = y->shape[2];
    }
    return shaped(y, given, x, size + 3 - w->dims);
}

/* Windows that are all alike are parts of each direction, which a GPU reduces at once; NULL: they are not, or it
 * failed.
 */
static dl_tensor *equal_windows(dl_pool *p, dl_tensor *x, const long *size, int dims) {
    long shape[DL_MAX_DIM] = {x->shape[0] * x->shape[1]}, inner[3];
    for (int i = 0; i < dims; i++) {
        if (x->shape[2 + i] < 1 || x->shape[2 + i] % size[i]) return NULL;
        shape[1 + 2 * i] = size[i], shape[2 + 2 * i] = x->shape[2 + i] / size[i], inner[i] = 2 + 2 * i;
    }
    dl_tensor *parts = K(dl_reshape(x, shape, 1 + 2 * dims));
    return parts ? K(dl_mean(parts, inner, dims, 0)) : NULL;
}

/* Do windows divide each direction of x? out: how many there are. */
static bool divides(const windows *w, const dl_tensor *x, long *out) {
    for (int i = 0; i < w->dims; i++) {
        const long n = x->shape[x->ndim - w->dims + i];
        if (w->k[i] != w->stride[i] || w->pad[i] || n < 1 || n % w->k[i]) return false;
        out[i] = n / w->k[i];
    }
    return true;
}

static dl_status average(dl_call *c, int dims) {
    POOL;
    long out[3];
    windows w = {.dims = dims, .ceil = ATTR_I(c, AVGPOOL_CEIL_MODE), .count_pad = ATTR_I(c, AVGPOOL_COUNT_INCLUDE_PAD)};
    DL_TRY(read(ATTR(c, AVGPOOL_KERNEL_SIZE), ATTR(c, AVGPOOL_STRIDE), ATTR(c, AVGPOOL_PADDING), NULL, &w));
    dl_tensor *x = dims == 3 && c->device ? dl_with_batch(p, c->in[0], dims + 2) : NULL, *equal = NULL;
    if (x && divides(&w, x, out) && (equal = equal_windows(p, x, out, dims)))
        return dl_finish(c, shaped(equal, c->in[0], x, out));
    return dl_finish(c, means_of(p, c->in[0], &w));
}
COMPOSE_RULE(avg_pool1d) { return average(c, 1); }
COMPOSE_RULE(avg_pool3d) { return average(c, 3); }

/* How many zeros behind the padding let windows reach over the edge without being cut there, in direction i: a window
 * begins inside the input or the padding before it. */
static long reach(const windows *w, int i, long size) {
    const long before = w->pad[i], whole = size + 2 * before - w->k[i];
    long last = whole < 0 ? 0 : (whole + w->stride[i] - 1) / w->stride[i];
    if (last && last * w->stride[i] >= size + before) last--;
    const long more = last * w->stride[i] - whole;
    return more > 0 ? more : 0;
}

/* Sums of windows by a divisor of their own: all windows have their full size, so that means tell sums. */
static dl_status divided(dl_call *c, int dims) {
    POOL;
    windows w = {.dims = dims, .count_pad = true};
    const long divisor = ATTR_I(c, AVGDIVIDED_DIVISOR_OVERRIDE);
    if (!divisor) return dl_fail(DL_ERR_VALUE, "divisor_override must not be 0");
    DL_TRY(read(ATTR(c, AVGDIVIDED_KERNEL_SIZE), ATTR(c, AVGDIVIDED_STRIDE), ATTR(c, AVGDIVIDED_PADDING), NULL, &w));
    dl_tensor *x = c->in[0];
    long more[6] = {0}, any = 0;
    double pixels = 1;
    for (int i = 0; i < dims; i++) {
        pixels *= (double)w.k[i];
        if (ATTR_I(c, AVGDIVIDED_CEIL_MODE) && x->ndim >= dims)
            any |= more[2 * (dims - 1 - i) + 1] = reach(&w, i, x->shape[x->ndim - dims + i]);
    }
    dl_tensor *mean = K(means_of(p, any ? K(dl_pad(x, more, 2 * dims, 0, "constant")) : x, &w));
    return dl_finish(c, dl_mul(mean, K(dl_scalar_f(pixels / (double)divisor))));
}
COMPOSE_RULE(avg_pool2d_divided) { return divided(c, 2); }
COMPOSE_RULE(avg_pool3d_divided) { return divided(c, 3); }

static dl_status power_mean(dl_call *c, int dims) {
    POOL;
    windows w = {.dims = dims, .ceil = ATTR_I(c, LPPOOL_CEIL_MODE), .count_pad = true};
    const double power = ATTR_F(c, LPPOOL_NORM_TYPE);
    if (!(power > 0 || power < 0)) return dl_fail(DL_ERR_VALUE, "norm_type must not be %g", power);
    DL_TRY(read(ATTR(c, LPPOOL_KERNEL_SIZE), ATTR(c, LPPOOL_STRIDE), NULL, NULL, &w));
    double pixels = 1;
    for (int i = 0; i < dims; i++) pixels *= (double)w.k[i];
    dl_tensor *mean = K(means_of(p, K(dl_pow(c->in[0], K(dl_scalar_f(power)))), &w));
    dl_tensor *sum = K(dl_mul(mean, K(dl_scalar_f(pixels))));
    return dl_finish(c, dl_pow(sum, K(dl_scalar_f(1 / power))));
}
COMPOSE_RULE(lp_pool1d) { return power_mean(c, 1); }
COMPOSE_RULE(lp_pool2d) { return power_mean(c, 2); }
COMPOSE_RULE(lp_pool3d) { return power_mean(c, 3); }

static dl_status adaptive_average(dl_call *c, const dl_aval *wanted, int dims) {
    POOL;
    long out[3] = {1, 1, 1}, *size = out + 3 - dims;
    DL_TRY(dl_sizes(wanted, "output_size", dims, 1, size));
    dl_tensor *x = dl_with_batch(p, c->in[0], dims + 2), *equal = NULL;
    if (x && x->st->device && (equal = equal_windows(p, x, size, dims)))
        return dl_finish(c, shaped(equal, c->in[0], x, size));
    dl_tensor *in = x ? planes(p, x) : NULL, *y = in ? K(dl_adaptive_avg_pool2d(in, out + 1, 2)) : NULL;
    if (y && dims == 3) {
        dl_tensor *deep = columns(p, y, x);
        y = deep ? K(dl_adaptive_avg_pool2d(deep, (long[]){out[0], deep->shape[3]}, 2)) : NULL;
    }
    return dl_finish(c, y ? shaped(y, c->in[0], x, size) : NULL);
}
COMPOSE_RULE(adaptive_avg_pool1d) { return adaptive_average(c, ATTR(c, ADAPTIVE_AVG_POOL1D_OUTPUT_SIZE), 1); }
COMPOSE_RULE(adaptive_avg_pool3d) { return adaptive_average(c, ATTR(c, ADAPTIVE_AVG_POOL3D_OUTPUT_SIZE), 3); }

/* ---- largest values */

COMPOSE_RULE(max_pool_values) {
    dl_tensor *out[2] = {NULL};
    DL_TRY(dl_invoke(dl_op_row(DL_OP_max_pool2d), c->in, c->nin, c->attr, out));
    dl_unref(out[1]);
    return dl_finish(c, out[0]);
}

/* A row that gives values and perhaps places. */
static dl_tensor *chosen(dl_pool *p, const dl_op *op, dl_tensor *x, const dl_aval *attr, dl_tensor **places) {
    dl_tensor *out[2] = {NULL, NULL};
    if (dl_invoke(op, &x, 1, attr, out) != DL_OK) return NULL;
    dl_tensor *at = K(out[1]);
    if (places) *places = at;
    return K(out[0]);
}

/* places NULL: they are not wanted. */
static dl_tensor *largest(dl_pool *p, dl_tensor *x, const windows *w, plane q, dl_tensor **places) {
    const bool plain = !places && !dl_requires_grad(x);
    const dl_op *op = dl_op_row(w->adaptive ? DL_OP_adaptive_largest
                                : plain     ? DL_OP_max_pool_values
                                            : DL_OP_max_pool2d);
    dl_aval attr[DL_MAX_ATTR];
    dl_attr_defaults(op, attr);
    if (w->adaptive) {
        attr[DL_A_ADAPTIVE_LARGEST_SIZE] = (dl_aval){.given = true, .is_int = true, .n = 2, .u.v = {q.k[0], q.k[1]}};
        return chosen(p, op, x, attr, places);
    }
    const struct {
        int at;
        const long *v;
    } lists[] = {{DL_A_MAXPOOL_KERNEL_SIZE, q.k},
                 {DL_A_MAXPOOL_STRIDE, q.stride},
                 {DL_A_MAXPOOL_PADDING, q.pad},
                 {DL_A_MAXPOOL_DILATION, q.dil}};
    for (int i = 0; i < 4; i++)
        attr[lists[i].at] = (dl_aval){.given = true, .is_int = true, .n = 2, .u.v = {lists[i].v[0], lists[i].v[1]}};
    attr[DL_A_MAXPOOL_CEIL_MODE].u.i = w->ceil;
    return chosen(p, op, x, attr, places);
}

static dl_status pooled(dl_call *c, const windows *w) {
    POOL;
    const int dims = w->dims;
    dl_tensor *x = dl_with_batch(p, c->in[0], dims + 2), *in = x ? planes(p, x) : NULL, *at = NULL;
    const bool placed = c->op->out > 1;
    dl_tensor *y = in ? largest(p, in, w, plane_of(w, dims - 2, dims - 1), placed ? &at : NULL) : NULL;
    if (!y) return dl_failed();
    long size[3] = {0, y->shape[2], y->shape[3]};
    if (dims == 3) {
        dl_tensor *deep = columns(p, y, x), *along = NULL;
        plane depth = plane_of(w, 0, -1);
        if (deep && w->adaptive) depth.k[1] = deep->shape[3];
        y = deep ? largest(p, deep, w, depth, placed ? &along : NULL) : NULL;
        if (!y) return dl_failed();
        size[0] = y->shape[2];
        if (placed && (at = columns(p, at, x))) at = K(dl_volume_places(at, along, x->shape[3] * x->shape[4]));
    }
    DL_TRY(dl_finish(c, shaped(y, c->in[0], x, size + 3 - dims)));
    if (!placed) return DL_OK;
    c->out[1] = at ? shaped(at, c->in[0], x, size + 3 - dims) : NULL;
    return c->out[1] ? DL_OK : dl_failed();
}

static dl_status maximum(dl_call *c, int dims) {
    windows w = {.dims = dims, .ceil = ATTR_I(c, MAXPOOL_CEIL_MODE)};
    DL_TRY(read(ATTR(c, MAXPOOL_KERNEL_SIZE), ATTR(c, MAXPOOL_STRIDE), ATTR(c, MAXPOOL_PADDING),
                ATTR(c, MAXPOOL_DILATION), &w));
    return pooled(c, &w);
}
COMPOSE_RULE(max_pool1d) { return maximum(c, 1); }
COMPOSE_RULE(max_pool3d) { return maximum(c, 3); }
COMPOSE_RULE(max_pool1d_with_indices) { return maximum(c, 1); }
COMPOSE_RULE(max_pool2d_with_indices) { return maximum(c, 2); }
COMPOSE_RULE(max_pool3d_with_indices) { return maximum(c, 3); }

/* Windows that divide each direction. */
static dl_status adaptive_maximum(dl_call *c, int dims) {
    windows w = {.dims = dims, .adaptive = true};
    DL_TRY(dl_sizes(ATTR(c, ADAPTIVEMAX_OUTPUT_SIZE), "output_size", dims, 1, w.k));
    return pooled(c, &w);
}
COMPOSE_RULE(adaptive_max_pool1d) { return adaptive_maximum(c, 1); }
COMPOSE_RULE(adaptive_max_pool2d) { return adaptive_maximum(c, 2); }
COMPOSE_RULE(adaptive_max_pool3d) { return adaptive_maximum(c, 3); }
COMPOSE_RULE(adaptive_max_pool1d_with_indices) { return adaptive_maximum(c, 1); }
COMPOSE_RULE(adaptive_max_pool2d_with_indices) { return adaptive_maximum(c, 2); }
COMPOSE_RULE(adaptive_max_pool3d_with_indices) { return adaptive_maximum(c, 3); }
