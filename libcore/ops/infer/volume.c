/* Shapes of convolutions of volumes. */
#include "ops/conv.h"
#include "ops/compose/batch.h"
#include "ops/rules/conv.h"

enum { DIMS = 3, RANK = DIMS + 2 };

dl_conv_nd dl_conv_of_images(const dl_conv *g) {
    dl_conv_nd r = {.dims = 2, .N = g->N, .C = g->C, .O = g->O, .groups = g->groups};
    for (int i = 0; i < 2; i++) {
        r.in[i] = g->in[i], r.out[i] = g->out[i], r.k[i] = g->k[i];
        r.stride[i] = g->stride[i], r.pad[i] = g->pad[i], r.dil[i] = g->dil[i];
    }
    return r;
}

static dl_status read_attrs(const dl_call *c, dl_conv_nd *g) {
    *g = (dl_conv_nd){.dims = DIMS, .groups = ATTR_I(c, CONV_GROUPS)};
    DL_TRY(dl_sizes(ATTR(c, CONV_STRIDE), "stride", DIMS, 1, g->stride));
    DL_TRY(dl_sizes(ATTR(c, CONV_PADDING), "padding", DIMS, 0, g->pad));
    DL_TRY(dl_sizes(ATTR(c, CONV_DILATION), "dilation", DIMS, 1, g->dil));
    if (g->groups < 1) return dl_fail(DL_ERR_VALUE, "groups must be at least 1, not %ld", g->groups);
    for (int i = 0; i < 2; i++)
        if (c->in[i]->ndim != RANK)
            return dl_fail(DL_ERR_SHAPE, "volumes and their weights have %d dimensions, not %d", RANK, c->in[i]->ndim);
    return DL_OK;
}

static void copy_sizes(long *to, const dl_tensor *t) {
    for (int i = 0; i < DIMS; i++) to[i] = t->shape[2 + i];
}

/* in and k are known: finds out. */
static dl_status find_result(dl_conv_nd *g, long channels_of_group) {
    int64_t channels = channels_of_group;
    if (!dl_count_mul(&channels, g->groups) || channels != g->C || g->O % g->groups)
        return dl_fail(DL_ERR_SHAPE, "%ld and %ld channels do not fit a weight for %ld channels in %ld groups", g->C,
                       g->O, channels_of_group, g->groups);
    for (int i = 0; i < DIMS; i++) {
        int64_t taps = g->k[i] - 1;
        if (g->k[i] < 1) return dl_fail(DL_ERR_SHAPE, "the kernel is empty");
        if (!dl_count_mul(&taps, g->dil[i])) return dl_fail(DL_ERR_SHAPE, "the kernel is too large to address");
        const long room = g->in[i] + 2 * g->pad[i] - taps - 1;
        if (room < 0)
            return dl_fail_hint(DL_ERR_SHAPE, "use more padding or a smaller kernel",
                                "a kernel that spans %ld does not fit %ld", (long)taps + 1, g->in[i] + 2 * g->pad[i]);
        g->out[i] = room / g->stride[i] + 1;
    }
    return DL_OK;
}

static dl_status check_grad(const dl_tensor *t, const dl_conv_nd *g) {
    bool fits = t->shape[0] == g->N && t->shape[1] == g->O;
    for (int i = 0; i < DIMS; i++) fits = fits && t->shape[2 + i] == g->out[i];
    return fits ? DL_OK
                : dl_fail(DL_ERR_SHAPE, "the gradient must have shape [%ld,%ld,%ld,%ld,%ld]", g->N, g->O, g->out[0],
                          g->out[1], g->out[2]);
}

dl_status dl_conv_volume_of(const dl_call *c, dl_conv_nd *g) {
    const dl_tensor *first = c->in[0], *second = c->in[1];
    const bool dx = c->op->id == dl_id_conv_volume_dx, dw = c->op->id == dl_id_conv_volume_dw;
    DL_TRY(read_attrs(c, g));
    const dl_tensor *w = dw ? NULL : second, *x = dw ? second : first;
    g->N = first->shape[0], g->O = dw ? first->shape[1] : w->shape[0];
    g->C = dx ? w->shape[1] * g->groups : x->shape[1];
    if (dw)
        DL_TRY(dl_sizes(ATTR(c, CONV_VOLUME_DW_SIZE), "size", DIMS, 1, g->k));
    else
        copy_sizes(g->k, w);
    if (dx)
        DL_TRY(dl_sizes(ATTR(c, CONV_VOLUME_DX_SIZE), "size", DIMS, 0, g->in));
    else
        copy_sizes(g->in, x);
    if (dw && second->shape[0] != g->N) return dl_fail(DL_ERR_SHAPE, "the batches differ");
    DL_TRY(find_result(g, dw ? g->C / g->groups : w->shape[1]));
    if (dx || dw) return check_grad(first, g);
    const dl_tensor *bias = INPUT(c, CONV_VOLUME_BIAS);
    if (!bias || (bias->ndim == 1 && bias->shape[0] == g->O)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "the bias must have shape [%ld], one number an output channel", g->O);
}

static dl_status volumes(const dl_call *c, long channels, const long *size, const dl_conv_nd *g, dl_meta *out) {
    *out = dl_meta_like(c->in[0], RANK, (long[]){g->N, channels, size[0], size[1], size[2]});
    dl_conv_layout(c, out);
    return DL_OK;
}

INFER_RULE(conv_volume) {
    dl_conv_nd g;
    DL_TRY(dl_conv_volume_of(c, &g));
    return volumes(c, g.O, g.out, &g, out);
}

INFER_RULE(conv_volume_dx) {
    dl_conv_nd g;
    DL_TRY(dl_conv_volume_of(c, &g));
    return volumes(c, g.C, g.in, &g, out);
}

INFER_RULE(conv_volume_dw) {
    dl_conv_nd g;
    DL_TRY(dl_conv_volume_of(c, &g));
    *out = dl_meta_like(c->in[0], RANK, (long[]){g.O, g.C / g.groups, g.k[0], g.k[1], g.k[2]});
    out->dtype = (int8_t)c->dtype;
    return DL_OK;
}

FLOPS_RULE(conv_volume) {
    dl_conv_nd g;
    if (dl_conv_volume_of(c, &g) != DL_OK) return 0;
    double n = 2.0 * (double)(g.N * g.O * (g.C / g.groups));
    for (int i = 0; i < DIMS; i++) n *= (double)(g.out[i] * g.k[i]);
    return n;
}
FLOPS_RULE(conv_volume_dx) { return dl_flops_conv_volume(c); }
FLOPS_RULE(conv_volume_dw) { return dl_flops_conv_volume(c); }
