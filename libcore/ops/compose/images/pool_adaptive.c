/* Adaptive max pooling, direction by direction; and its opposite, max_unpool. */
#include "ops/compose/batch.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "ops/names/conv.h"
#include "ops/rules/conv.h"

#include <string.h>

/* ---- windows that divide a direction */

/* The first places of n / out windows, or one past the last: ceil((i + 1) n / out), by negative numbers rounded down.
 */
static dl_tensor *edges(dl_pool *p, long n, long out, bool ends, int device) {
    const double stop = ends ? -(double)out - 1 : (double)out;
    dl_tensor *i = K(dl_arange(ends ? -1 : 0, &stop, ends ? -1 : 1, DL_I64, device));
    dl_tensor *q = K(dl_floor_divide(K(dl_mul(i, K(dl_scalar_i(n)))), K(dl_scalar_i(out))));
    return ends ? K(dl_neg(q)) : q;
}

static long widest(long n, long out) {
    if (n % out == 0) return n / out;
    long most = 1;
    for (long i = 0; i < out; i++) {
        long size = ((i + 1) * n + out - 1) / out - i * n / out;
        if (size > most) most = size;
    }
    return most;
}

/* The windows of x, [a, n, b], as [a, out, widest, b]; shorter ones have their last element again. */
static dl_tensor *divided(dl_pool *p, dl_tensor *x, long out, dl_tensor *from) {
    const long *s = x->shape, k = widest(s[1], out), flat = -1;
    const long shape[] = {s[0], out, k, s[2]};
    if (s[1] % out == 0) return K(dl_reshape(x, shape, 4));
    const double count = (double)k;
    dl_tensor *column = K(dl_reshape(from, (long[]){out, 1}, 2)),
              *step = K(dl_arange(0, &count, 1, DL_I64, x->st->device));
    dl_tensor *to = K(dl_sub(edges(p, s[1], out, true, x->st->device), K(dl_scalar_i(1))));
    dl_tensor *last = to ? K(dl_reshape(to, (long[]){out, 1}, 2)) : NULL;
    dl_tensor *at = K(dl_minimum(K(dl_add(column, step)), last)), *index = at ? K(dl_reshape(at, &flat, 1)) : NULL;
    dl_tensor *all = index ? K(dl_index_select(x, index, 1)) : NULL;
    return all ? K(dl_reshape(all, shape, 4)) : NULL;
}

/* The largest of each window of x, [a, n, b], and their places; with those of the directions within, `inner` of them,
 * the places in all. New references; NULL: an error. */
static dl_tensor *largest(dl_tensor *x, long out, dl_tensor *within, long inner, dl_tensor **places) {
    POOL;
    dl_tensor *from = edges(p, x->shape[1], out, false, x->st->device), *at = NULL;
    dl_tensor *in = from ? divided(p, x, out, from) : NULL, *y = in ? K(dl_max_dim(in, 2, 0, &at)) : NULL;
    K(at);
    dl_tensor *column = y ? K(dl_reshape(from, (long[]){out, 1}, 2)) : NULL,
              *here = column ? K(dl_add(at, column)) : NULL;
    if (here && within) here = K(dl_add(K(dl_mul(here, K(dl_scalar_i(inner)))), K(dl_gather(within, here, 1))));
    if (!here) return NULL;
    *places = dl_ref(here);
    return dl_ref(y);
}

/* Direction by direction, the last first: shape becomes that of the result, *at its places. */
static dl_tensor *all_largest(dl_tensor *x, int dims, const long *size, long *shape, dl_tensor **at) {
    dl_tensor *y = dl_ref(x);
    long after = 1, inner = 1;
    for (int i = dims - 1; i >= 0 && y; i--) {
        const long n = shape[2 + i], before = shape[0] * shape[1] * (i > 0 ? shape[2] : 1) * (i > 1 ? shape[3] : 1);
        DL_OWNED dl_tensor *old = y, *old_at = *at;
        DL_OWNED dl_tensor *rows = dl_reshape(old, (long[]){before, n, after}, 3);
        DL_OWNED dl_tensor *within = old_at ? dl_reshape(old_at, (long[]){before, n, after}, 3) : NULL;
        *at = NULL;
        y = rows ? largest(rows, size[i], within, inner, at) : NULL;
        shape[2 + i] = size[i], after *= size[i], inner *= n;
    }
    return y;
}

static dl_status adaptive(dl_call *c, const dl_aval *wanted, int dims) {
    POOL;
    long size[3] = {0}, shape[5] = {0};
    DL_TRY(dl_sizes(wanted, "output_size", dims, 1, size));
    dl_tensor *x = dl_with_batch(p, c->in[0], dims + 2), *at = NULL;
    if (!x) return dl_failed();
    memcpy(shape, x->shape, (size_t)(dims + 2) * sizeof *shape);
    for (int i = 0; i < dims; i++)
        if (shape[2 + i] < 1) return dl_fail(DL_ERR_SHAPE, "the input is empty");
    dl_tensor *y = K(all_largest(x, dims, size, shape, &at));
    K(at);
    DL_TRY(dl_finish(c, dl_as_given(y, c->in[0], shape, dims + 2)));
    if (c->op->out == 1) return DL_OK;
    c->out[1] = dl_as_given(at, c->in[0], shape, dims + 2);
    return c->out[1] ? DL_OK : dl_failed();
}
COMPOSE_RULE(adaptive_max_pool1d) { return adaptive(c, ATTR(c, ADAPTIVEMAX_OUTPUT_SIZE), 1); }
COMPOSE_RULE(adaptive_max_pool2d) { return adaptive(c, ATTR(c, ADAPTIVEMAX_OUTPUT_SIZE), 2); }
COMPOSE_RULE(adaptive_max_pool3d) { return adaptive(c, ATTR(c, ADAPTIVEMAX_OUTPUT_SIZE), 3); }
COMPOSE_RULE(adaptive_max_pool1d_with_indices) { return adaptive(c, ATTR(c, ADAPTIVEMAX_OUTPUT_SIZE), 1); }
COMPOSE_RULE(adaptive_max_pool2d_with_indices) { return adaptive(c, ATTR(c, ADAPTIVEMAX_OUTPUT_SIZE), 2); }
COMPOSE_RULE(adaptive_max_pool3d_with_indices) { return adaptive(c, ATTR(c, ADAPTIVEMAX_OUTPUT_SIZE), 3); }

/* ---- values back in their places */

static dl_status unpooled_size(const dl_call *c, const dl_tensor *x, int dims, long *size) {
    const dl_aval *k = ATTR(c, UNPOOL_KERNEL_SIZE), *s = ATTR(c, UNPOOL_STRIDE), *given = ATTR(c, UNPOOL_OUTPUT_SIZE);
    long kernel[3] = {0}, stride[3] = {0}, pad[3] = {0};
    DL_TRY(dl_sizes(k, "kernel_size", dims, 1, kernel));
    DL_TRY(dl_sizes(s->given && s->n ? s : k, "stride", dims, 1, stride));
    DL_TRY(dl_sizes(ATTR(c, UNPOOL_PADDING), "padding", dims, 0, pad));
    if (given->given && given->n && given->n != dims && given->n != x->ndim)
        return dl_fail(DL_ERR_VALUE, "output_size takes %d sizes, not %d", dims, given->n);
    for (int i = 0; i < dims; i++) {
        const long least = (x->shape[2 + i] - 1) * stride[i] - 2 * pad[i] + kernel[i];
        size[i] = given->given && given->n ? given->u.v[given->n - dims + i] : least;
        if (size[i] < 1 || size[i] <= least - stride[i] || size[i] >= least + stride[i])
            return dl_fail(DL_ERR_VALUE, "output_size %ld must lie between %ld and %ld", size[i], least - stride[i],
                           least + stride[i]);
    }
    return DL_OK;
}

static dl_status unpool(dl_call *c, int dims) {
    POOL;
    if (!dl_shape_eq(c->in[0], c->in[1]))
        return dl_fail(DL_ERR_SHAPE, "input and indices must have one shape, not %s and %s", dl_shape_of(c->in[0]),
                       dl_shape_of(c->in[1]));
    dl_tensor *x = dl_with_batch(p, c->in[0], dims + 2), *at = dl_with_batch(p, c->in[1], dims + 2);
    if (!x || !at) return dl_failed();
    long shape[5] = {x->shape[0], x->shape[1]}, pixels = 1, values = 1;
    DL_TRY(unpooled_size(c, x, dims, shape + 2));
    for (int i = 0; i < dims; i++) pixels *= shape[2 + i], values *= x->shape[2 + i];
    dl_tensor *zeros = K(dl_full((long[]){shape[0], shape[1], pixels}, 3, 0, x->dtype, x->st->device));
    dl_tensor *source = K(dl_reshape(x, (long[]){shape[0], shape[1], values}, 3));
    dl_tensor *index = K(dl_reshape(at, (long[]){shape[0], shape[1], values}, 3));
    dl_tensor *y = K(zeros && source && index ? dl_scatter(zeros, index, source, 2, NULL) : NULL);
    return dl_finish(c, y ? dl_as_given(y, c->in[0], shape, dims + 2) : NULL);
}
COMPOSE_RULE(max_unpool1d) { return unpool(c, 1); }
COMPOSE_RULE(max_unpool2d) { return unpool(c, 2); }
COMPOSE_RULE(max_unpool3d) { return unpool(c, 3); }
