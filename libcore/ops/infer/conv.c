/* Shapes of convolution and pooling. Results keep channels-last memory order when the images have it; convolutions
 * always make it where it is the order in which they are fastest. */
#include "ops/conv.h"

#include <string.h>

#include "core/device/device.h"
#include "ops/rules/conv.h"

dl_status dl_pair(const dl_aval *a, const char *what, long min, long out[2]) {
    if (a->n != 1 && a->n != 2)
        return dl_fail(DL_ERR_VALUE, "%s takes one size or two (height and width), not %d", what, a->n);
    out[0] = a->u.v[0], out[1] = a->u.v[a->n - 1];
    for (int i = 0; i < 2; i++)
        if (out[i] < min) return dl_fail(DL_ERR_VALUE, "%s must be at least %ld, not %ld", what, min, out[i]);
    return DL_OK;
}

dl_status dl_conv_attrs(const dl_aval *attr, dl_conv *g) {
    DL_TRY(dl_pair(&attr[DL_A_CONV_STRIDE], "stride", 1, g->stride));
    DL_TRY(dl_pair(&attr[DL_A_CONV_PADDING], "padding", 0, g->pad));
    DL_TRY(dl_pair(&attr[DL_A_CONV_DILATION], "dilation", 1, g->dil));
    g->groups = attr[DL_A_CONV_GROUPS].u.i;
    if (g->groups < 1) return dl_fail(DL_ERR_VALUE, "groups must be at least 1, not %ld", g->groups);
    return DL_OK;
}

bool dl_channels_last(int ndim, const long *shape, const long *stride) {
    if (ndim < 4 || shape[1] < 2) return false;
    long step = 1, places = 1;
    for (int d = 2; d < ndim; d++) places *= shape[d];
    for (int i = 0; i < ndim; i++) {
        int d = dl_conv_order(ndim, true, i);
        if (shape[d] > 1 && stride[d] != step) return false;
        step *= shape[d];
    }
    return places > 1;
}

void dl_meta_channels_last(dl_meta *m) {
    int64_t step = 1;
    m->strided = true;
    for (int i = 0; i < m->ndim && m->strided; i++) {
        int d = dl_conv_order(m->ndim, true, i);
        m->stride[d] = step;
        m->strided = dl_count_mul(&step, m->shape[d]); /* too large a shape is refused when the tensor is made */
    }
}

void dl_conv_layout(const dl_call *c, dl_meta *m) {
    const dl_tensor *x = c->in[0];
    int index;
    m->dtype = (int8_t)c->dtype;
    if (dl_channels_last(x->ndim, x->shape, x->stride) ||
        dl_backend_of(m->device, &index)->prefers_layout(index, c) == DL_LAYOUT_CHANNELS_LAST)
        dl_meta_channels_last(m);
}

dl_status dl_four_dims(const dl_tensor *t, const char *what, const char *dims) {
    if (t->ndim == 4) return DL_OK;
    return dl_fail_hint(DL_ERR_SHAPE,
                        t->ndim == 3 ? "give a single image a batch dimension, x[none]" : "see its shape with x.shape",
                        "the %s must have 4 dimensions, %s, not %d", what, dims, t->ndim);
}

dl_status dl_window_sizes(dl_conv *g, bool ceil_mode, const char *what) {
    for (int i = 0; i < 2; i++) {
        if (g->k[i] < 1) return dl_fail(DL_ERR_SHAPE, "the %s must not be empty", what);
        int64_t taps = g->k[i] - 1;
        if (!dl_count_mul(&taps, g->dil[i]))
            return dl_fail(DL_ERR_SHAPE, "the %s of %ld with dilation %ld is too large to address", what, g->k[i],
                           g->dil[i]);
        long span = taps + 1, room = g->in[i] + 2 * g->pad[i] - span;
        if (room < 0)
            return dl_fail_hint(DL_ERR_SHAPE, "use more padding, a smaller window or larger images",
                                "the %s spans %ld of %s, more than the padded image's %ld", what, span,
                                i ? "width" : "height", g->in[i] + 2 * g->pad[i]);
        g->out[i] = (room + (ceil_mode ? g->stride[i] - 1 : 0)) / g->stride[i] + 1;
        /* the last window starts inside the image or its left padding */
        if (ceil_mode && (g->out[i] - 1) * g->stride[i] >= g->in[i] + g->pad[i]) g->out[i]--;
    }
    return DL_OK;
}

static dl_status check_groups(const dl_conv *g, long per_group) {
    int64_t channels = per_group;
    if (!dl_count_mul(&channels, g->groups) || g->C != channels)
        return dl_fail_hint(DL_ERR_SHAPE, "the weight is [out channels, in channels / groups, height, width]",
                            "images of %ld channels do not fit a weight for %ld channels in %ld group%s", g->C,
                            per_group, g->groups, g->groups == 1 ? "" : "s");
    if (g->O % g->groups)
        return dl_fail(DL_ERR_SHAPE, "%ld output channels cannot be divided into %ld groups", g->O, g->groups);
    return DL_OK;
}

static dl_status geometry_forward(const dl_call *c, dl_conv *g) {
    const dl_tensor *x = c->in[0], *w = c->in[1], *b = INPUT(c, CONV2D_BIAS);
    DL_TRY(dl_conv_attrs(c->attr, g));
    DL_TRY(dl_four_dims(x, "input", "[N,C,H,W]"));
    DL_TRY(dl_four_dims(w, "weight", "[out channels, in channels / groups, height, width]"));
    g->N = x->shape[0], g->C = x->shape[1], g->O = w->shape[0];
    for (int i = 0; i < 2; i++) g->in[i] = x->shape[2 + i], g->k[i] = w->shape[2 + i];
    DL_TRY(check_groups(g, w->shape[1]));
    if (b && (b->ndim != 1 || b->shape[0] != g->O))
        return dl_fail(DL_ERR_SHAPE, "the bias must have shape [%ld], one number an output channel", g->O);
    return dl_window_sizes(g, false, "kernel");
}

/* A gradient must have the shape that the convolution would have made. */
static dl_status check_grad(const dl_tensor *gr, dl_conv *g) {
    DL_TRY(dl_window_sizes(g, false, "kernel"));
    if (gr->shape[0] != g->N || gr->shape[1] != g->O || gr->shape[2] != g->out[0] || gr->shape[3] != g->out[1])
        return dl_fail(DL_ERR_SHAPE, "the gradient must have shape [%ld,%ld,%ld,%ld]", g->N, g->O, g->out[0],
                       g->out[1]);
    return DL_OK;
}

static dl_status geometry_dx(const dl_call *c, dl_conv *g) {
    const dl_tensor *gr = c->in[0], *w = c->in[1];
    DL_TRY(dl_pair(ATTR(c, CONV2D_DX_SIZE), "size", 0, g->in));
    DL_TRY(dl_conv_attrs(c->attr, g));
    DL_TRY(dl_four_dims(gr, "gradient", "[N,O,H,W]"));
    DL_TRY(dl_four_dims(w, "weight", "[out channels, in channels / groups, height, width]"));
    int64_t channels = w->shape[1];
    if (!dl_count_mul(&channels, g->groups))
        return dl_fail(DL_ERR_SHAPE, "%ld groups are too many to address", g->groups);
    g->N = gr->shape[0], g->C = channels, g->O = w->shape[0];
    for (int i = 0; i < 2; i++) g->k[i] = w->shape[2 + i];
    DL_TRY(check_groups(g, w->shape[1]));
    return check_grad(gr, g);
}

static dl_status geometry_dw(const dl_call *c, dl_conv *g) {
    const dl_tensor *gr = c->in[0], *x = c->in[1];
    DL_TRY(dl_pair(ATTR(c, CONV2D_DW_SIZE), "size", 0, g->k));
    DL_TRY(dl_conv_attrs(c->attr, g));
    DL_TRY(dl_four_dims(gr, "gradient", "[N,O,H,W]"));
    DL_TRY(dl_four_dims(x, "input", "[N,C,H,W]"));
    g->N = x->shape[0], g->C = x->shape[1], g->O = gr->shape[1];
    for (int i = 0; i < 2; i++) g->in[i] = x->shape[2 + i];
    if (g->C % g->groups)
        return dl_fail(DL_ERR_SHAPE, "%ld input channels cannot be divided into %ld groups", g->C, g->groups);
    DL_TRY(check_groups(g, g->C / g->groups));
    return check_grad(gr, g);
}

dl_status dl_conv_of(const dl_call *c, dl_conv *g) {
    if (c->op->id == dl_id_conv2d) return geometry_forward(c, g);
    return c->op->id == dl_id_conv2d_dx ? geometry_dx(c, g) : geometry_dw(c, g);
}

INFER_RULE(conv2d) {
    dl_conv g;
    DL_TRY(dl_conv_of(c, &g));
    *out = dl_meta_like(c->in[0], 4, (long[]){g.N, g.O, g.out[0], g.out[1]});
    dl_conv_layout(c, out);
    return DL_OK;
}

INFER_RULE(conv2d_dx) {
    dl_conv g;
    DL_TRY(dl_conv_of(c, &g));
    *out = dl_meta_like(c->in[0], 4, (long[]){g.N, g.C, g.in[0], g.in[1]});
    dl_conv_layout(c, out);
    return DL_OK;
}

INFER_RULE(conv2d_dw) {
    dl_conv g;
    DL_TRY(dl_conv_of(c, &g));
    *out = dl_meta_like(c->in[0], 4, (long[]){g.O, g.C / g.groups, g.k[0], g.k[1]});
    out->dtype = (int8_t)c->dtype;
    return DL_OK;
}

void dl_conv_norm_inner(const dl_call *c, dl_call *sub) {
    *sub = *c;
    sub->op = dl_op_row(dl_id_conv2d);
    sub->nin = 2;
}

static dl_status one_a_channel(const dl_tensor *t, long channels) {
    if (!t || (t->ndim == 1 && t->shape[0] == channels)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "bias, statistics and parameters must have shape [%ld], one number an output channel",
                   channels);
}

INFER_RULE(conv2d_norm) {
    dl_call sub;
    dl_conv_norm_inner(c, &sub);
    DL_TRY(dl_infer_conv2d(&sub, out));
    for (int i = 2; i < c->nin; i++) DL_TRY(one_a_channel(c->in[i], c->in[1]->shape[0]));
    if (c->in[0]->dtype == c->in[1]->dtype) return DL_OK;
    return dl_fail(DL_ERR_DTYPE, "the input is %s, the weight %s", dl_type_of(c->in[0]), dl_type_of(c->in[1]));
}

FLOPS_RULE(conv2d) {
    dl_conv g;
    if (dl_conv_of(c, &g) != DL_OK) return 0;
    return 2.0 * g.N * g.O * g.out[0] * g.out[1] * (g.C / g.groups) * g.k[0] * g.k[1];
}
FLOPS_RULE(conv2d_dx) { return dl_flops_conv2d(c); }
FLOPS_RULE(conv2d_dw) { return dl_flops_conv2d(c); }

/* ---- pooling */

dl_status dl_pool_of(const dl_call *c, dl_conv *g) {
    const dl_tensor *x = c->in[0];
    const dl_aval *window = ATTR(c, MAXPOOL_KERNEL_SIZE), *stride = ATTR(c, MAXPOOL_STRIDE);
    DL_TRY(dl_four_dims(x, "input", "[N,C,H,W]"));
    DL_TRY(dl_pair(window, "kernel_size", 1, g->k));
    DL_TRY(dl_pair(stride->given && stride->n ? stride : window, "stride", 1, g->stride));
    DL_TRY(dl_pair(ATTR(c, MAXPOOL_PADDING), "padding", 0, g->pad));
    DL_TRY(dl_pair(ATTR(c, MAXPOOL_DILATION), "dilation", 1, g->dil));
    g->N = x->shape[0], g->C = g->O = x->shape[1], g->groups = g->C;
    for (int i = 0; i < 2; i++) {
        g->in[i] = x->shape[2 + i];
        if (2 * g->pad[i] > g->k[i])
            return dl_fail(DL_ERR_VALUE, "padding %ld is more than half of the window's %ld", g->pad[i], g->k[i]);
        if (g->in[i] < 1) return dl_fail(DL_ERR_SHAPE, "the images are empty");
    }
    return dl_window_sizes(g, ATTR_I(c, MAXPOOL_CEIL_MODE), "window");
}

INFER_RULE(max_pool2d) {
    dl_conv g;
    const dl_tensor *x = c->in[0];
    DL_TRY(dl_pool_of(c, &g));
    out[0] = dl_meta_like(x, 4, (long[]){g.N, g.C, g.out[0], g.out[1]});
    if (dl_channels_last(x->ndim, x->shape, x->stride)) dl_meta_channels_last(&out[0]);
    out[1] = out[0];
    out[1].dtype = DL_I64;
    return DL_OK;
}

INFER_RULE(max_pool_values) {
    dl_meta both[2];
    DL_TRY(dl_infer_max_pool2d(c, both));
    return *out = both[0], DL_OK;
}

/* Indices take half the memory: they are its own gradient's. */
INFER_RULE(relu_max_pool2d) {
    DL_TRY(dl_infer_max_pool2d(c, out));
    out[1].dtype = DL_I32;
    const dl_tensor *bias = INPUT(c, RELU_MAX_POOL2D_BIAS);
    if (bias && (bias->ndim != 1 || bias->shape[0] != out->shape[1]))
        return dl_fail(DL_ERR_SHAPE, "bias must have one number for each of the %ld channels", out->shape[1]);
    if (c->in[0]->shape[2] * c->in[0]->shape[3] > 0x7fffffff)
        return dl_fail(DL_ERR_SHAPE, "image planes must have fewer than 2^31 pixels");
    return DL_OK;
}

static dl_status check_indices(const dl_tensor *x, const dl_tensor *index) {
    DL_TRY(dl_four_dims(x, "input", "[N,C,H,W]"));
    DL_TRY(dl_four_dims(index, "indices", "[N,C,H,W]"));
    if (index->dtype != DL_I64) return dl_fail(DL_ERR_DTYPE, "the indices must be i64, not %s", dl_type_of(index));
    if (x->shape[0] != index->shape[0] || x->shape[1] != index->shape[1])
        return dl_fail(DL_ERR_SHAPE, "input and indices must agree in their first two sizes");
    return DL_OK;
}

INFER_RULE(adaptive_largest) {
    const dl_tensor *x = c->in[0];
    long size[2] = {0};
    DL_TRY(dl_four_dims(x, "input", "[N,C,H,W]"));
    DL_TRY(dl_pair(ATTR(c, ADAPTIVE_LARGEST_SIZE), "size", 1, size));
    if (x->shape[2] < 1 || x->shape[3] < 1) return dl_fail(DL_ERR_SHAPE, "the input is empty");
    out[0] = out[1] = dl_meta_like(x, 4, (long[]){x->shape[0], x->shape[1], size[0], size[1]});
    out[1].dtype = DL_I64;
    return DL_OK;
}

INFER_RULE(volume_places) {
    const dl_tensor *in = c->in[0], *chosen = c->in[1];
    DL_TRY(check_indices(in, in));
    DL_TRY(check_indices(in, chosen));
    if (in->dtype != chosen->dtype) return dl_fail(DL_ERR_DTYPE, "places must be of one dtype");
    *out = dl_meta_like(chosen, 4, chosen->shape);
    return DL_OK;
}

INFER_RULE(pool_scatter) {
    const dl_tensor *x = c->in[0];
    long size[2] = {0};
    DL_TRY(dl_pair(ATTR(c, POOL_SCATTER_SIZE), "size", 0, size));
    DL_TRY(check_indices(x, c->in[1]));
    if (!dl_shape_eq(x, c->in[1])) return dl_fail(DL_ERR_SHAPE, "input and indices must have one shape");
    *out = dl_meta_like(x, 4, (long[]){x->shape[0], x->shape[1], size[0], size[1]});
    if (dl_channels_last(4, c->in[1]->shape, c->in[1]->stride)) dl_meta_channels_last(out);
    return DL_OK;
}

INFER_RULE(pool_gather) {
    const dl_tensor *x = c->in[0], *index = c->in[1];
    DL_TRY(check_indices(x, index));
    *out = dl_meta_like(x, 4, index->shape);
    if (dl_channels_last(4, index->shape, index->stride)) dl_meta_channels_last(out);
    return DL_OK;
}

/* ---- convolution and pooling in one */

/* The two calls, y yet to come. */
static void two_calls(const dl_call *c, dl_conv_pool *p) {
    dl_conv_norm_inner(c, &p->conv);
    p->conv.out = &p->y, p->conv.nout = 1;
    p->pool = *c;
    p->pool.op = dl_op_row(dl_id_relu_max_pool2d);
    dl_attr_defaults(p->pool.op, p->attr);
    p->attr[DL_A_RELU_MAX_POOL2D_KERNEL_SIZE] = *ATTR(c, CONV2D_RELU_MAX_POOL2D_POOL_SIZE);
    p->in[1] = INPUT(c, CONV2D_RELU_MAX_POOL2D_BIAS);
    p->pool.in = p->in, p->pool.nin = p->in[1] ? 2 : 1, p->pool.attr = p->attr;
}

dl_status dl_conv_pool_begin(const dl_call *c, dl_conv_pool *p) {
    dl_meta m;
    two_calls(c, p);
    DL_TRY(dl_infer_conv2d(&p->conv, &m));
    p->y = p->in[0] = dl_tensor_empty(4, m.shape, m.dtype, c->device);
    if (!p->y) return dl_failed();
    if (m.strided) memcpy(p->y->stride, m.stride, sizeof m.stride);
    return DL_OK;
}

void dl_conv_pool_end(dl_conv_pool *p) { dl_unref(p->y); }

INFER_RULE(conv2d_relu_max_pool2d) {
    dl_conv_pool p;
    dl_meta m;
    two_calls(c, &p);
    DL_TRY(dl_infer_conv2d(&p.conv, &m));
    dl_tensor y = *c->in[0]; /* shape, order and dtype are all that is asked of it */
    if (!m.strided) dl_strides_contiguous(4, m.shape, m.stride);
    memcpy(y.shape, m.shape, sizeof y.shape), memcpy(y.stride, m.stride, sizeof y.stride);
    y.dtype = m.dtype, p.in[0] = &y;
    return dl_infer_relu_max_pool2d(&p.pool, out);
}

FLOPS_RULE(conv2d_relu_max_pool2d) {
    dl_call sub;
    dl_conv_norm_inner(c, &sub);
    return dl_flops_conv2d(&sub);
}
