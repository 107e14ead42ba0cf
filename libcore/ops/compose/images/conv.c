/* Transposed convolution, made of conv2d's gradient. */
#include "ops/compose/compose.h"
#include "ops/conv.h"
#include "dlcore/arithmetic.h"
#include "dlcore/conv.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "ops/rules/conv.h"

/* A call, as the gradient of a convolution of this geometry. */
typedef struct transposed {
    dl_conv g; /* in: the result here; out: the input here */
    long more[2];
} transposed;

static dl_status check_operands(const dl_call *c, transposed *t) {
    const dl_tensor *x = c->in[0], *w = c->in[1], *b = INPUT(c, CONV_TRANSPOSE2D_BIAS);
    if (x->ndim != 4)
        return dl_fail_hint(DL_ERR_SHAPE, "give a single image a batch dimension, x[none]",
                            "the input must have 4 dimensions, [N,C,H,W], not %d", x->ndim);
    if (w->ndim != 4)
        return dl_fail(DL_ERR_SHAPE,
                       "the weight must have 4 dimensions, [in channels, out channels / groups, height, width], not %d",
                       w->ndim);
    if (x->shape[1] != w->shape[0])
        return dl_fail_hint(DL_ERR_SHAPE, "the weight is [in channels, out channels / groups, height, width]",
                            "images of %ld channels do not fit a weight for %ld", x->shape[1], w->shape[0]);
    if (x->shape[1] % t->g.groups)
        return dl_fail(DL_ERR_SHAPE, "%ld channels cannot be divided into %ld groups", x->shape[1], t->g.groups);
    if (b && (b->ndim != 1 || b->shape[0] != w->shape[1] * t->g.groups))
        return dl_fail(DL_ERR_SHAPE, "the bias must have shape [%ld], one number an output channel",
                       w->shape[1] * t->g.groups);
    return DL_OK;
}

/* The size of the result: by output_padding, or as given. */
static dl_status result_size(const dl_call *c, transposed *t) {
    dl_conv *g = &t->g;
    const dl_aval *given = ATTR(c, CONV_TRANSPOSE2D_OUTPUT_SIZE);
    long want[2] = {0};
    if (given->given && given->n) DL_TRY(dl_pair(given, "output_size", 1, want));
    for (int i = 0; i < 2; i++) {
        g->k[i] = c->in[1]->shape[2 + i], g->out[i] = c->in[0]->shape[2 + i];
        int64_t starts = g->out[i] > 0 ? g->out[i] - 1 : 0, taps = g->k[i] > 0 ? g->k[i] - 1 : 0;
        if (!dl_count_mul(&starts, g->stride[i]) || !dl_count_mul(&taps, g->dil[i]))
            return dl_fail(DL_ERR_SHAPE, "stride %ld or dilation %ld makes a result too large to address", g->stride[i],
                           g->dil[i]);
        long least = (g->out[i] > 0 ? starts : -g->stride[i]) - 2 * g->pad[i] + (g->k[i] > 0 ? taps : -g->dil[i]) + 1;
        if (given->given && given->n) t->more[i] = want[i] - least;
        if (given->given && given->n && (t->more[i] < 0 || t->more[i] >= g->stride[i]))
            return dl_fail(DL_ERR_VALUE, "a %s of %ld gives results of %ld to %ld, not %ld", i ? "width" : "height",
                           g->out[i], least, least + g->stride[i] - 1, want[i]);
        if (t->more[i] >= g->stride[i] && t->more[i] >= g->dil[i])
            return dl_fail(DL_ERR_VALUE, "output_padding must be smaller than stride or dilation, %ld or %ld, not %ld",
                           g->stride[i], g->dil[i], t->more[i]);
        g->in[i] = least + t->more[i];
        if (g->in[i] < 1)
            return dl_fail_hint(DL_ERR_SHAPE, "use less padding or larger images", "the result would be empty");
    }
    return DL_OK;
}

/* y + bias of each channel, in y's dtype. */
static dl_tensor *biased(dl_tensor *y, dl_tensor *bias) {
    DL_OWNED dl_tensor *b = dl_to_dtype(bias, y->dtype);
    DL_OWNED dl_tensor *column = b ? dl_reshape(b, (long[]){1, b->shape[0], 1, 1}, 4) : NULL;
    return column ? dl_add(y, column) : NULL;
}

/* With an output_padding of at least the stride, no convolution over an image of that size gives this output: the
 * result without padding is made, and cut or filled up to the size. */
static dl_tensor *cut_to_size(const dl_call *c, const dl_conv *g) {
    long whole[2], width[4];
    for (int i = 0; i < 2; i++) {
        whole[i] = (g->out[i] - 1) * g->stride[i] + g->dil[i] * (g->k[i] - 1) + 1;
        width[2 * (1 - i)] = -g->pad[i];
        width[2 * (1 - i) + 1] = g->in[i] + g->pad[i] - whole[i];
    }
    DL_OWNED dl_tensor *y =
        dl_conv2d_dx(c->in[0], c->in[1], whole, 2, g->stride, 2, (long[]){0, 0}, 2, g->dil, 2, g->groups);
    return y ? dl_pad(y, width, 4, 0, "constant") : NULL;
}

COMPOSE_RULE(conv_transpose2d) {
    transposed t = {0};
    DL_TRY(dl_conv_attrs(c->attr, &t.g));
    DL_TRY(dl_pair(ATTR(c, CONV_TRANSPOSE2D_OUTPUT_PADDING), "output_padding", 0, t.more));
    DL_TRY(check_operands(c, &t));
    DL_TRY(result_size(c, &t));
    dl_conv *g = &t.g;
    bool beyond = t.more[0] >= g->stride[0] || t.more[1] >= g->stride[1];
    dl_tensor *bias = INPUT(c, CONV_TRANSPOSE2D_BIAS);
    DL_OWNED dl_tensor *y =
        beyond ? cut_to_size(c, g)
               : dl_conv2d_dx(c->in[0], c->in[1], g->in, 2, g->stride, 2, g->pad, 2, g->dil, 2, g->groups);
    return dl_finish(c, y && bias ? biased(y, bias) : dl_ref(y));
}
