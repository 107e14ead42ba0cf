/* Average pooling: shapes, gradients, and the choice of an op for an output size. An op and the one of its gradient are
 * linear and each other's gradients, so derivatives of any order exist. */
#include "ops/avg_pool.h"
#include "ops/compose/compose.h"
#include "ops/conv.h"
#include "dlcore/conv.h"
#include "dlcore/reduce.h"
#include "ops/rules/conv.h"

static dl_status windows_of(const dl_call *c, dl_average *g) {
    const dl_aval *window = ATTR(c, AVGPOOL_KERNEL_SIZE), *stride = ATTR(c, AVGPOOL_STRIDE);
    dl_conv w = {.dil = {1, 1}};
    DL_TRY(dl_pair(window, "kernel_size", 1, w.k));
    DL_TRY(dl_pair(stride->given && stride->n ? stride : window, "stride", 1, w.stride));
    DL_TRY(dl_pair(ATTR(c, AVGPOOL_PADDING), "padding", 0, w.pad));
    for (int i = 0; i < 2; i++) {
        w.in[i] = g->in[i];
        if (2 * w.pad[i] > w.k[i])
            return dl_fail(DL_ERR_VALUE, "padding %ld is more than half of the window's %ld", w.pad[i], w.k[i]);
    }
    DL_TRY(dl_window_sizes(&w, ATTR_I(c, AVGPOOL_CEIL_MODE), "window"));
    g->count_pad = ATTR_I(c, AVGPOOL_COUNT_INCLUDE_PAD);
    for (int i = 0; i < 2; i++)
        g->k[i] = w.k[i], g->stride[i] = w.stride[i], g->pad[i] = w.pad[i], g->out[i] = w.out[i];
    return DL_OK;
}

/* The input is the image for a forward row, the averages' gradient for the others, which have the image's size as an
 * attribute. */
dl_status dl_average_of(const dl_call *c, dl_average *g) {
    const dl_tensor *x = c->in[0];
    int id = c->op->id;
    bool back = id == dl_id_avg_pool2d_dx || id == dl_id_adaptive_pool2d_dx;
    *g = (dl_average){.adaptive = id == dl_id_adaptive_pool2d || id == dl_id_adaptive_pool2d_dx};
    DL_TRY(dl_four_dims(x, back ? "gradient" : "input", "[N,C,H,W]"));
    g->N = x->shape[0], g->C = x->shape[1];
    if (back)
        DL_TRY(dl_pair(g->adaptive ? ATTR(c, ADAPTIVE_POOL2D_DX_SIZE) : ATTR(c, AVG_POOL2D_DX_SIZE), "size", 0, g->in));
    else
        g->in[0] = x->shape[2], g->in[1] = x->shape[3];
    if (g->in[0] < 1 || g->in[1] < 1) return dl_fail(DL_ERR_SHAPE, "the images are empty");
    if (!g->adaptive)
        DL_TRY(windows_of(c, g));
    else if (!back)
        DL_TRY(dl_pair(ATTR(c, ADAPTIVE_POOL2D_OUTPUT_SIZE), "output_size", 1, g->out));
    else
        g->out[0] = x->shape[2], g->out[1] = x->shape[3];
    if (back && (x->shape[2] != g->out[0] || x->shape[3] != g->out[1]))
        return dl_fail(DL_ERR_SHAPE, "the gradient must have shape [%ld,%ld,%ld,%ld]", g->N, g->C, g->out[0],
                       g->out[1]);
    return DL_OK;
}

/* Images of g.out, or of g.in for the gradient, in the layout of the input. */
static dl_status infer(const dl_call *c, bool back, dl_meta *out) {
    dl_average g;
    const dl_tensor *x = c->in[0];
    DL_TRY(dl_average_of(c, &g));
    const long *size = back ? g.in : g.out;
    *out = dl_meta_like(x, 4, (long[]){g.N, g.C, size[0], size[1]});
    if (dl_channels_last(4, x->shape, x->stride)) dl_meta_channels_last(out);
    return DL_OK;
}

INFER_RULE(average) { return infer(c, false, out); }
INFER_RULE(average_dx) { return infer(c, true, out); }

/* The attributes of windows as arguments, and the size of images. */
#define WINDOWS                                                                                                        \
    ATTR_V(b, AVGPOOL_KERNEL_SIZE), ATTR_V(b, AVGPOOL_STRIDE), ATTR_V(b, AVGPOOL_PADDING),                             \
        (int)ATTR_I(b, AVGPOOL_CEIL_MODE), (int)ATTR_I(b, AVGPOOL_COUNT_INCLUDE_PAD)
#define SIZE dl_in_meta(b, 0)->shape + 2, 2

RULE(avg_pool2d, dl_avg_pool2d_dx(G0, SIZE, WINDOWS))
RULE(avg_pool2d_dx, dl_avg_pool2d(G0, WINDOWS))
RULE(adaptive_pool2d, dl_adaptive_pool2d_dx(G0, SIZE))
RULE(adaptive_pool2d_dx, dl_adaptive_pool2d(G0, SIZE))

/* A single average is a mean, equal windows are those of avg_pool2d. */
COMPOSE_RULE(adaptive_avg_pool2d) {
    dl_tensor *x = c->in[0];
    long out[2];
    DL_TRY(dl_pair(ATTR(c, ADAPTIVE_AVG_POOL2D_OUTPUT_SIZE), "output_size", 1, out));
    DL_TRY(dl_four_dims(x, "input", "[N,C,H,W]"));
    const long *in = x->shape + 2;
    if (in[0] < 1 || in[1] < 1) return dl_fail(DL_ERR_SHAPE, "the images are empty");
    if (out[0] == 1 && out[1] == 1) return dl_finish(c, dl_mean(x, (long[]){2, 3}, 2, 1));
    if (in[0] % out[0] || in[1] % out[1]) return dl_finish(c, dl_adaptive_pool2d(x, out, 2));
    return dl_finish(c, dl_avg_pool2d(x, (long[]){in[0] / out[0], in[1] / out[1]}, 2, NULL, 0, NULL, 0, 0, 1));
}
