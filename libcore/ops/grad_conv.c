/* Gradient rules of convolution and pooling. conv2d, conv2d_dx and conv2d_dw are each linear in both operands, and the
 * gradients of each are the other two, so derivatives of any order exist. */
#include "ops/conv.h"
#include "ops/rules.h"

/* stride, padding and dilation from attribute k on, as arguments; then groups. */
#define CONV_ARGS(k)                                                                                                   \
    b->attr[k].u.v, b->attr[k].n, b->attr[(k) + 1].u.v, b->attr[(k) + 1].n, b->attr[(k) + 2].u.v, b->attr[(k) + 2].n,  \
        b->attr[(k) + 3].u.i

GRAD_RULE(conv2d) {
    DL_GIVE(0, dl_conv2d_dx(G0, IN_(1), dl_in_meta(b, 0)->shape + 2, 2, CONV_ARGS(0)));
    DL_GIVE(1, dl_conv2d_dw(G0, IN_(0), dl_in_meta(b, 1)->shape + 2, 2, CONV_ARGS(0)));
    if (b->nin > 2) DL_GIVE(2, dl_sum(G0, (long[]){0, 2, 3}, 3, 0));
    return DL_OK;
}

/* Inputs: gradient, weight. */
GRAD_RULE(conv2d_dx) {
    DL_GIVE(0, dl_conv2d(G0, IN_(1), NULL, CONV_ARGS(1)));
    DL_GIVE(1, dl_conv2d_dw(IN_(0), G0, dl_in_meta(b, 1)->shape + 2, 2, CONV_ARGS(1)));
    return DL_OK;
}

/* Inputs: gradient, input. */
GRAD_RULE(conv2d_dw) {
    DL_GIVE(0, dl_conv2d(IN_(1), G0, NULL, CONV_ARGS(1)));
    DL_GIVE(1, dl_conv2d_dx(IN_(0), G0, dl_in_meta(b, 1)->shape + 2, 2, CONV_ARGS(1)));
    return DL_OK;
}

GRAD_RULE(max_pool2d) { return dl_give(b, 0, dl_pool_scatter(G0, OUT_(1), dl_in_meta(b, 0)->shape + 2, 2)); }

/* Where the result is positive, or NaN. */
GRAD_RULE(relu_max_pool2d) {
    dl_tensor *zero = T(dl_scalar_f(0)), *g = T(dl_where(T(dl_le(OUT_(0), zero)), zero, G0));
    DL_GIVE(0, dl_pool_scatter(g, T(dl_to(OUT_(1), DL_I64)), dl_in_meta(b, 0)->shape + 2, 2));
    if (b->nin > 1) DL_GIVE(1, dl_sum(g, (long[]){0, 2, 3}, 3, 0));
    return DL_OK;
}

/* Height and width of what was pooled. */
static dl_status pooled_size(dl_back *b, long size[2]) {
    dl_conv g;
    DL_TRY(dl_conv_attrs(b->attr, &g));
    for (int i = 0; i < 2; i++) g.in[i] = dl_in_meta(b, 0)->shape[2 + i], g.k[i] = dl_in_meta(b, 1)->shape[2 + i];
    DL_TRY(dl_window_sizes(&g, false, "kernel"));
    size[0] = g.out[0], size[1] = g.out[1];
    return DL_OK;
}

GRAD_RULE(conv2d_relu_max_pool2d) {
    long size[2];
    DL_TRY(pooled_size(b, size));
    dl_tensor *zero = T(dl_scalar_f(0)), *g = T(dl_where(T(dl_le(OUT_(0), zero)), zero, G0));
    dl_tensor *y = T(dl_pool_scatter(g, T(dl_to(OUT_(1), DL_I64)), size, 2));
    if (!y) return dl_failed();
    DL_GIVE(0, dl_conv2d_dx(y, IN_(1), dl_in_meta(b, 0)->shape + 2, 2, CONV_ARGS(0)));
    DL_GIVE(1, dl_conv2d_dw(y, IN_(0), dl_in_meta(b, 1)->shape + 2, 2, CONV_ARGS(0)));
    if (b->nin > 2) DL_GIVE(2, dl_sum(g, (long[]){0, 2, 3}, 3, 0));
    return DL_OK;
}

GRAD_RULE(pool_scatter) { return dl_give(b, 0, dl_pool_gather(G0, IN_(1))); }

GRAD_RULE(pool_gather) { return dl_give(b, 0, dl_pool_scatter(G0, IN_(1), dl_in_meta(b, 0)->shape + 2, 2)); }
