/* Layers with weights: linear, conv, batchnorm; and maxpool, which shares conv's geometry. */
#include <string.h>

#include "nn/module.h"

/* ---------------------------------------------------------------- options that several rows share */

/* A list option of one or two numbers, all at least `low`. */
static dl_status check_pair(const dl_module *m, const char *name, long low) {
    const dl_optval *v = dl_m_opt(m, name);
    if (!v->given) return DL_OK;
    if (v->n != 1 && v->n != 2)
        return dl_fail(DL_ERR_VALUE, "layer %s: %s is one number or two, [height, width], not %d", m->row->kind.name,
                       name, v->n);
    for (int i = 0; i < v->n; i++)
        if (v->u.v[i] < low)
            return dl_fail(DL_ERR_VALUE, "layer %s: %s must be at least %ld, not %ld", m->row->kind.name, name, low,
                           v->u.v[i]);
    return DL_OK;
}

static dl_status check_positive(const dl_module *m, const char *name) {
    const dl_optval *v = dl_m_opt(m, name);
    if (!v->given || v->u.i > 0) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: %s must be at least 1, not %ld", m->row->kind.name, name, v->u.i);
}

/* The size of dimension `dim` of an input that should have at least `ndim` dimensions; -1 when it has fewer. */
static long input_size(const dl_module *m, const dl_tensor *x, int ndim, int dim, const char *wants) {
    if (x->ndim >= ndim) return x->shape[dim < 0 ? x->ndim + dim : dim];
    char shape[160];
    dl_fail(DL_ERR_SHAPE, "layer %s takes %s, not %s", m->row->kind.name, wants,
            dl_shape_text(x->ndim, x->shape, shape, sizeof shape));
    return -1;
}

/* Size `dim` of a stored tensor that should have `ndim` dimensions; -1 when it has not. */
static long stored_size(const dl_module *m, int slot, const dl_tensor *t, int ndim, int dim) {
    if (t->ndim == ndim) return t->shape[dim];
    char shape[160];
    dl_fail(DL_ERR_SHAPE, "layer %s: its %s has %d dimensions, not the shape %s", m->row->kind.name,
            m->row->tensors[slot], ndim, dl_shape_text(t->ndim, t->shape, shape, sizeof shape));
    return -1;
}

/* The bias of linear and conv starts uniform in 1 / sqrt(fan_in) of the weight. */
static dl_status make_bias(dl_module *m, long out, double fan_in) {
    if (!dl_m_int(m, "bias")) return DL_OK;
    double root = __builtin_sqrt(fan_in > 0 ? fan_in : 1);
    return dl_module_make(m, 1, 1, &out, "bound", 1 / root);
}

/* ---------------------------------------------------------------- linear */

dl_status dl_layer_linear_check(dl_module *m) {
    DL_TRY(check_positive(m, "out_features"));
    return dl_init_check(dl_m_opt(m, "init")->u.s);
}

long dl_layer_linear_input(const dl_module *m, const dl_tensor *x) {
    return input_size(m, x, 1, -1, "at least one dimension");
}

long dl_layer_linear_stored(const dl_module *m, int slot, const dl_tensor *t) {
    return slot == 0 ? stored_size(m, slot, t, 2, 1) : -2;
}

dl_status dl_layer_linear_build(dl_module *m, long in) {
    long shape[] = {dl_m_int(m, "out_features"), in};
    DL_TRY(dl_module_make(m, 0, 2, shape, dl_m_opt(m, "init")->u.s, 0));
    return make_bias(m, shape[0], (double)in);
}

dl_tensor *dl_layer_linear(dl_module *m, dl_tensor *x) { return dl_linear(x, m->tensor[0], m->tensor[1]); }

/* ---------------------------------------------------------------- conv */

dl_status dl_layer_conv_check(dl_module *m) {
    DL_TRY(check_positive(m, "out_channels"));
    DL_TRY(check_positive(m, "groups"));
    DL_TRY(check_pair(m, "kernel_size", 1));
    DL_TRY(check_pair(m, "stride", 1));
    DL_TRY(check_pair(m, "padding", 0));
    DL_TRY(check_pair(m, "dilation", 1));
    long out = dl_m_int(m, "out_channels"), groups = dl_m_int(m, "groups");
    if (out % groups)
        return dl_fail(DL_ERR_VALUE, "layer conv: %ld filters cannot be split into %ld groups", out, groups);
    return dl_init_check(dl_m_opt(m, "init")->u.s);
}

long dl_layer_conv_input(const dl_module *m, const dl_tensor *x) {
    long c = input_size(m, x, 4, 1, "images [N,C,H,W]");
    long groups = dl_m_int(m, "groups");
    if (c < 0 || c % groups == 0) return c;
    dl_fail(DL_ERR_SHAPE, "layer conv: %ld input channels cannot be split into %ld groups", c, groups);
    return -1;
}

long dl_layer_conv_stored(const dl_module *m, int slot, const dl_tensor *t) {
    if (slot != 0) return -2;
    long c = stored_size(m, slot, t, 4, 1);
    return c < 0 ? c : c * dl_m_int(m, "groups");
}

dl_status dl_layer_conv_build(dl_module *m, long channels) {
    const dl_optval *k = dl_m_opt(m, "kernel_size");
    long shape[] = {dl_m_int(m, "out_channels"), channels / dl_m_int(m, "groups"), k->u.v[0], k->u.v[k->n - 1]};
    DL_TRY(dl_module_make(m, 0, 4, shape, dl_m_opt(m, "init")->u.s, 0));
    return make_bias(m, shape[0], (double)(shape[1] * shape[2] * shape[3]));
}

dl_tensor *dl_layer_conv(dl_module *m, dl_tensor *x) {
    const dl_optval *s = dl_m_opt(m, "stride"), *p = dl_m_opt(m, "padding"), *d = dl_m_opt(m, "dilation");
    return dl_conv2d(x, m->tensor[0], m->tensor[1], s->u.v, s->n, p->u.v, p->n, d->u.v, d->n, dl_m_int(m, "groups"));
}

/* ---------------------------------------------------------------- maxpool */

dl_status dl_layer_maxpool_check(dl_module *m) {
    DL_TRY(check_pair(m, "kernel_size", 1));
    DL_TRY(check_pair(m, "stride", 1));
    DL_TRY(check_pair(m, "padding", 0));
    return check_pair(m, "dilation", 1);
}

dl_tensor *dl_layer_maxpool(dl_module *m, dl_tensor *x) {
    const dl_optval *k = dl_m_opt(m, "kernel_size"), *s = dl_m_opt(m, "stride"), *p = dl_m_opt(m, "padding"),
                    *d = dl_m_opt(m, "dilation");
    return dl_max_pool2d(x, k->u.v, k->n, s->given ? s->u.v : NULL, s->given ? s->n : 0, p->u.v, p->n, d->u.v, d->n,
                         (int)dl_m_int(m, "ceil_mode"));
}

/* ---------------------------------------------------------------- batchnorm */

dl_status dl_layer_batchnorm_check(dl_module *m) {
    double momentum = dl_m_float(m, "momentum");
    if (!(momentum >= 0 && momentum <= 1))
        return dl_fail(DL_ERR_VALUE, "layer batchnorm: momentum must be between 0 and 1, not %g", momentum);
    return check_positive(m, "num_features");
}

static long check_channels(const dl_module *m, long c) {
    const dl_optval *want = dl_m_opt(m, "num_features");
    if (c < 0 || !want->given || want->u.i == c) return c;
    dl_fail_hint(DL_ERR_SHAPE, "leave the number out: it is inferred",
                 "layer batchnorm: num_features is %ld, but the input has %ld channels", want->u.i, c);
    return -1;
}

long dl_layer_batchnorm_input(const dl_module *m, const dl_tensor *x) {
    return check_channels(m, input_size(m, x, 2, 1, "[N,C] or [N,C,...]"));
}

long dl_layer_batchnorm_stored(const dl_module *m, int slot, const dl_tensor *t) {
    return check_channels(m, stored_size(m, slot, t, 1, 0));
}

dl_status dl_layer_batchnorm_build(dl_module *m, long channels) {
    if (dl_m_int(m, "affine")) {
        DL_TRY(dl_module_make(m, 0, 1, &channels, "ones", 0));
        DL_TRY(dl_module_make(m, 1, 1, &channels, NULL, 0));
    }
    if (dl_m_int(m, "track_running_stats")) {
        DL_TRY(dl_module_make(m, 2, 1, &channels, NULL, 0));
        DL_TRY(dl_module_make(m, 3, 1, &channels, "ones", 0));
    }
    return DL_OK;
}

dl_tensor *dl_layer_batchnorm(dl_module *m, dl_tensor *x) {
    int training = dl_m_training(m) || !m->tensor[2];
    return dl_batch_norm(x, m->tensor[2], m->tensor[3], m->tensor[0], m->tensor[1], training, dl_m_float(m, "momentum"),
                         dl_m_float(m, "eps"));
}
