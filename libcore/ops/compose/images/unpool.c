/* The opposite of max pooling: max_unpool. */
#include "ops/compose/batch.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "ops/grad.h"
#include "ops/names/conv.h"
#include "ops/rules/conv.h"

#include <string.h>

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
    dl_tensor *zero = K(dl_full((long[]){1, 1, 1}, 3, 0, x->dtype, x->st->device));
    dl_tensor *zeros = zero ? K(dl_expand(zero, (long[]){shape[0], shape[1], pixels}, 3)) : NULL;
    dl_tensor *source = K(dl_reshape(x, (long[]){shape[0], shape[1], values}, 3));
    dl_tensor *index = K(dl_reshape(at, (long[]){shape[0], shape[1], values}, 3));
    dl_tensor *y = K(zeros && source && index ? dl_scatter(zeros, index, source, 2, NULL) : NULL);
    return dl_finish(c, y ? dl_as_given(y, c->in[0], shape, dims + 2) : NULL);
}
COMPOSE_RULE(max_unpool1d) { return unpool(c, 1); }
COMPOSE_RULE(max_unpool2d) { return unpool(c, 2); }
COMPOSE_RULE(max_unpool3d) { return unpool(c, 3); }

/* Every value has the gradient of the place that it was put to. */
GRAD_RULE(unpool) {
    const dl_meta *x = META(UNPOOL_INPUT);
    dl_tensor *index = IN_(UNPOOL_INDICES), *g = G0;
    const int dims = b->op->id == dl_id_max_unpool1d ? 1 : b->op->id == dl_id_max_unpool2d ? 2 : 3;
    long rows = 1, values = 1, pixels = 1;
    if (!index) return dl_failed();
    for (int i = 0; i < x->ndim; i++) *(i < x->ndim - dims ? &rows : &values) *= x->shape[i];
    for (int i = x->ndim - dims; i < x->ndim; i++) pixels *= g->shape[i];
    dl_tensor *from = T(dl_reshape(g, (long[]){rows, pixels}, 2));
    dl_tensor *at = from ? T(dl_reshape(index, (long[]){rows, values}, 2)) : NULL;
    dl_tensor *picked = at ? T(dl_gather(from, at, 1)) : NULL;
    return dl_give(b, 0, picked ? dl_reshape(picked, x->shape, x->ndim) : NULL);
}
