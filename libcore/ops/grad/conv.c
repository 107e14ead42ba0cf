/* Gradient rules of convolution and pooling. conv2d, conv2d_dx and conv2d_dw are each linear in both operands, and the
 * gradients of each are the other two, so derivatives of any order exist. */
#include "ops/conv.h"
#include "dlcore/compare.h"
#include "dlcore/conv.h"
#include "dlcore/copy.h"
#include "dlcore/reduce.h"
#include "dlcore/where.h"
#include "ops/rules/conv.h"

/* The attributes of every convolution as arguments. */
#define CONV_ARGS ATTR_V(b, CONV_STRIDE), ATTR_V(b, CONV_PADDING), ATTR_V(b, CONV_DILATION), ATTR_I(b, CONV_GROUPS)

/* The sizes of the images or windows that an input is a batch of. */
#define SIZE(name) META(name)->shape + 2, 2
#define PIXELS (long[]){0, 2, 3}, 3

GRAD_RULE(conv2d) {
    GIVE(CONV2D_INPUT, dl_conv2d_dx(G0, IN_(CONV2D_WEIGHT), SIZE(CONV2D_INPUT), CONV_ARGS));
    GIVE(CONV2D_WEIGHT, dl_conv2d_dw(G0, IN_(CONV2D_INPUT), SIZE(CONV2D_WEIGHT), CONV_ARGS));
    GIVE(CONV2D_BIAS, dl_sum(G0, PIXELS, 0));
    return DL_OK;
}

GRAD_RULE(conv2d_dx) {
    GIVE(CONV2D_DX_GRAD, dl_conv2d(G0, IN_(CONV2D_DX_WEIGHT), NULL, CONV_ARGS));
    GIVE(CONV2D_DX_WEIGHT, dl_conv2d_dw(IN_(CONV2D_DX_GRAD), G0, SIZE(CONV2D_DX_WEIGHT), CONV_ARGS));
    return DL_OK;
}

GRAD_RULE(conv2d_dw) {
    GIVE(CONV2D_DW_GRAD, dl_conv2d(IN_(CONV2D_DW_INPUT), G0, NULL, CONV_ARGS));
    GIVE(CONV2D_DW_INPUT, dl_conv2d_dx(IN_(CONV2D_DW_GRAD), G0, SIZE(CONV2D_DW_INPUT), CONV_ARGS));
    return DL_OK;
}

/* The same of volumes. */
#define VOLUME(name) META(name)->shape + 2, 3

GRAD_RULE(conv_volume) {
    GIVE(CONV_VOLUME_INPUT, dl_conv_volume_dx(G0, IN_(CONV_VOLUME_WEIGHT), VOLUME(CONV_VOLUME_INPUT), CONV_ARGS));
    GIVE(CONV_VOLUME_WEIGHT, dl_conv_volume_dw(G0, IN_(CONV_VOLUME_INPUT), VOLUME(CONV_VOLUME_WEIGHT), CONV_ARGS));
    GIVE(CONV_VOLUME_BIAS, dl_sum(G0, (long[]){0, 2, 3, 4}, 4, 0));
    return DL_OK;
}

GRAD_RULE(conv_volume_dx) {
    GIVE(CONV_VOLUME_DX_GRAD, dl_conv_volume(G0, IN_(CONV_VOLUME_DX_WEIGHT), NULL, CONV_ARGS));
    GIVE(CONV_VOLUME_DX_WEIGHT,
         dl_conv_volume_dw(IN_(CONV_VOLUME_DX_GRAD), G0, VOLUME(CONV_VOLUME_DX_WEIGHT), CONV_ARGS));
    return DL_OK;
}

GRAD_RULE(conv_volume_dw) {
    GIVE(CONV_VOLUME_DW_GRAD, dl_conv_volume(IN_(CONV_VOLUME_DW_INPUT), G0, NULL, CONV_ARGS));
    GIVE(CONV_VOLUME_DW_INPUT,
         dl_conv_volume_dx(IN_(CONV_VOLUME_DW_GRAD), G0, VOLUME(CONV_VOLUME_DW_INPUT), CONV_ARGS));
    return DL_OK;
}

GRAD_RULE(max_pool2d) {
    return dl_give(b, DL_IN_MAX_POOL2D_INPUT, dl_pool_scatter(G0, OUT_(MAX_POOL2D_INDICES), SIZE(MAX_POOL2D_INPUT)));
}

GRAD_RULE(adaptive_largest) {
    return dl_give(b, DL_IN_ADAPTIVE_LARGEST_INPUT,
                   dl_pool_scatter(G0, OUT_(ADAPTIVE_LARGEST_INDICES), SIZE(ADAPTIVE_LARGEST_INPUT)));
}

/* The gradient where the result is positive, or NaN. */
static dl_tensor *where_positive(dl_back *b, dl_tensor *out) {
    dl_tensor *zero = T(dl_scalar_f(0));
    return T(dl_where(T(dl_le(out, zero)), zero, G0));
}

GRAD_RULE(relu_max_pool2d) {
    dl_tensor *g = where_positive(b, OUT_(RELU_MAX_POOL2D_OUT));
    GIVE(RELU_MAX_POOL2D_INPUT,
         dl_pool_scatter(g, T(dl_to(OUT_(RELU_MAX_POOL2D_INDICES), DL_I64)), SIZE(RELU_MAX_POOL2D_INPUT)));
    GIVE(RELU_MAX_POOL2D_BIAS, dl_sum(g, PIXELS, 0));
    return DL_OK;
}

/* Height and width of what was pooled. */
static dl_status pooled_size(dl_back *b, long size[2]) {
    const long *x = META(CONV2D_RELU_MAX_POOL2D_INPUT)->shape, *w = META(CONV2D_RELU_MAX_POOL2D_WEIGHT)->shape;
    dl_conv g;
    DL_TRY(dl_conv_attrs(b->attr, &g));
    for (int i = 0; i < 2; i++) g.in[i] = x[2 + i], g.k[i] = w[2 + i];
    DL_TRY(dl_window_sizes(&g, false, "kernel"));
    size[0] = g.out[0], size[1] = g.out[1];
    return DL_OK;
}

/* Inputs stand in the same places as those of conv2d. */
GRAD_RULE(conv2d_relu_max_pool2d) {
    long size[2];
    DL_TRY(pooled_size(b, size));
    dl_tensor *g = where_positive(b, OUT_(CONV2D_RELU_MAX_POOL2D_OUT));
    dl_tensor *index = T(dl_to(OUT_(CONV2D_RELU_MAX_POOL2D_INDICES), DL_I64)),
              *y = T(dl_pool_scatter(g, index, size, 2));
    if (!y) return dl_failed();
    GIVE(CONV2D_INPUT, dl_conv2d_dx(y, IN_(CONV2D_WEIGHT), SIZE(CONV2D_INPUT), CONV_ARGS));
    GIVE(CONV2D_WEIGHT, dl_conv2d_dw(y, IN_(CONV2D_INPUT), SIZE(CONV2D_WEIGHT), CONV_ARGS));
    GIVE(CONV2D_BIAS, dl_sum(g, PIXELS, 0));
    return DL_OK;
}

GRAD_RULE(pool_scatter) { return dl_give(b, DL_IN_POOL_SCATTER_INPUT, dl_pool_gather(G0, IN_(POOL_SCATTER_INDICES))); }

GRAD_RULE(pool_gather) {
    return dl_give(b, DL_IN_POOL_GATHER_INPUT, dl_pool_scatter(G0, IN_(POOL_GATHER_INDICES), SIZE(POOL_GATHER_INPUT)));
}
