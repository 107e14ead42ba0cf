/* Neighbours in a chain of layers that run as one: batch norm and relu; in evaluation without gradients a convolution
 * with what follows it; where the device says so, relu and max pooling, with a convolution before them or its bias.
 * Results are the same, memory is passed over less often. */
#include <string.h>

#include "autograd/tape.h"
#include "core/aside.h"
#include "core/device/device.h"
#include "core/mode.h"
#include "nn/module.h"
#include "ops/api.h"
#include "dlcore/conv.h"
#include "dlcore/norm.h"
#include "ops/names/conv.h"

static bool is(const dl_child *c, const char *kind) { return c && !strcmp(c->m->row->kind.name, kind); }

/* A convolution of images with zeros around them, as many on both sides. */
static bool is_conv(const dl_child *c) {
    long pad[3], more[3];
    return is(c, "conv") && !strcmp(dl_m_opt(c->m, "padding_mode")->u.s, "zeros") &&
           dl_layer_conv_padding(c->m, pad, more);
}

/* Would anything that takes part want a gradient? */
static bool wants_gradient(const dl_module *a, const dl_module *b, dl_tensor *x) {
    if (!dl_recording()) return false;
    bool wants = dl_requires_grad(x);
    for (int i = 0; i < DL_LAYER_TENSORS; i++)
        wants = wants || (a->tensor[i] && dl_requires_grad(a->tensor[i])) ||
                (b->tensor[i] && dl_requires_grad(b->tensor[i]));
    return wants;
}

static dl_tensor *norm_relu(dl_module *n, dl_tensor *x) {
    int training = dl_m_training(n) || !n->tensor[2];
    return dl_batch_norm_relu(x, n->tensor[2], n->tensor[3], n->tensor[0], n->tensor[1], training,
                              dl_m_float(n, "momentum"), dl_m_float(n, "eps"));
}

static dl_tensor *conv_norm(dl_module *m, dl_module *n, bool relu, dl_tensor *x) {
    const dl_optval *s = dl_m_opt(m, "stride"), *d = dl_m_opt(m, "dilation");
    long pad[3], more[3];
    dl_layer_conv_padding(m, pad, more);
    dl_dtype t = dl_mixed_dtype(dl_op_row(dl_id_conv2d), x->dtype);
    dl_tensor *in = dl_to_dtype(x, t), *w = in ? dl_to_dtype(m->tensor[0], t) : NULL, *y = NULL;
    if (w)
        y = dl_conv2d_norm(in, w, n->tensor[2], n->tensor[3], m->tensor[1], n->tensor[0], n->tensor[1], s->u.v, s->n,
                           pad, 2, d->u.v, d->n, dl_m_int(m, "groups"), dl_m_float(n, "eps"), relu);
    dl_unref(in);
    dl_unref(w);
    return y;
}

/* conv and batchnorm that have their tensors, in evaluation, and numbers of one dtype. */
static bool may_join(const dl_module *m, const dl_module *n, dl_tensor *x) {
    return m->built && n->built && n->tensor[2] && !dl_m_training(n) && x->dtype == m->tensor[0]->dtype &&
           !wants_gradient(m, n, x);
}

static dl_tensor *relu_pool(dl_module *m, dl_tensor *x, dl_tensor *bias) {
    const dl_optval *k = dl_m_opt(m, "kernel_size"), *s = dl_m_opt(m, "stride"), *p = dl_m_opt(m, "padding"),
                    *d = dl_m_opt(m, "dilation");
    return dl_relu_max_pool2d(x, bias, k->u.v, k->n, s->given ? s->u.v : NULL, s->given ? s->n : 0, p->u.v, p->n,
                              d->u.v, d->n, (int)dl_m_int(m, "ceil_mode"));
}

/* Are both numbers of the option n? One that is not given counts as n, too. */
static bool all(const dl_module *m, const char *option, long n) {
    const dl_optval *v = dl_m_opt(m, option);
    for (int i = 0; i < v->n; i++)
        if (v->u.v[i] != n) return false;
    return true;
}

/* Do the windows tile the images? */
static bool tiles(const dl_module *pool) {
    const dl_optval *k = dl_m_opt(pool, "kernel_size"), *s = dl_m_opt(pool, "stride");
    bool whole = all(pool, "padding", 0) && all(pool, "dilation", 1) && !dl_m_int(pool, "ceil_mode");
    for (int i = 0; i < 2 && s->given; i++) whole = whole && s->u.v[i % s->n] == k->u.v[i % k->n];
    return whole;
}

static dl_tensor *conv_relu_pool(dl_module *m, dl_module *pool, dl_tensor *x, dl_beside *b) {
    const dl_op *op = dl_op_row(dl_id_conv2d_relu_max_pool2d);
    const dl_optval *s = dl_m_opt(m, "stride"), *d = dl_m_opt(m, "dilation"), *k = dl_m_opt(pool, "kernel_size");
    long pad[3], unused[3];
    dl_layer_conv_padding(m, pad, unused);
    dl_tensor *in[] = {x, m->tensor[0], m->tensor[1]}, **more[] = {NULL};
    dl_aval attr[DL_MAX_ATTR];
    dl_attr_defaults(op, attr);
    dl_api_ints(&attr[DL_A_CONV2D_RELU_MAX_POOL2D_STRIDE], s->u.v, s->n);
    dl_api_ints(&attr[DL_A_CONV2D_RELU_MAX_POOL2D_PADDING], pad, 2);
    dl_api_ints(&attr[DL_A_CONV2D_RELU_MAX_POOL2D_DILATION], d->u.v, d->n);
    dl_api_int(&attr[DL_A_CONV2D_RELU_MAX_POOL2D_GROUPS], dl_m_int(m, "groups"));
    dl_api_ints(&attr[DL_A_CONV2D_RELU_MAX_POOL2D_POOL_SIZE], k->u.v, k->n);
    if (tiles(pool) && dl_device_supports(op, in, 3, attr)) return dl_api_run(op, in, 3, attr, more);
    dl_tensor *y = dl_conv2d(x, m->tensor[0], NULL, s->u.v, s->n, pad, 2, d->u.v, d->n, dl_m_int(m, "groups")),
              *out = NULL;
    if (y) out = relu_pool(pool, y, m->tensor[1]);
    b->conv = y;
    return out;
}

static long number_at(const dl_optval *v, int dim) { return v->u.v[dim % v->n]; }

/* The size of a dimension behind a convolution with so many zeros on both sides. */
static long size_behind(const dl_module *conv, long size, long pad, int dim) {
    const long k = number_at(dl_m_opt(conv, "kernel_size"), dim), s = number_at(dl_m_opt(conv, "stride"), dim),
               d = number_at(dl_m_opt(conv, "dilation"), dim);
    return (size + 2 * pad - d * (k - 1) - 1) / s + 1;
}

/* Do the windows of a pooling reach every element of a dimension? */
static bool reaches(const dl_module *pool, long size, int dim) {
    const dl_optval *stride = dl_m_opt(pool, "stride");
    const long k = number_at(dl_m_opt(pool, "kernel_size"), dim), p = number_at(dl_m_opt(pool, "padding"), dim),
               s = stride->given ? number_at(stride, dim) : k, windows = (size + 2 * p - k) / s + 1;
    return s <= k && (dl_m_int(pool, "ceil_mode") || (windows - 1) * s + k - p >= size);
}

bool dl_module_is_relu(const dl_child *c) { return is(c, "relu"); }

bool dl_module_is_relu_pool(const dl_child *c) { return is(c, "relu") && is(c + 1, "maxpool"); }

bool dl_module_fused_peaks(const dl_child *c, int n, const dl_tensor *x) {
    const bool conv = n == 3;
    long pad[3] = {0}, more[3];
    if (n < 2 || x->ndim != 4 || !is(&c[n - 2], "relu") || !is(&c[n - 1], "maxpool") || (conv && !is_conv(c)) ||
        !all(c[n - 1].m, "dilation", 1))
        return false;
    if (conv) dl_layer_conv_padding(c->m, pad, more);
    for (int dim = 0; dim < 2; dim++) {
        const long size = x->shape[2 + dim];
        if (!reaches(c[n - 1].m, conv ? size_behind(c->m, size, pad[dim], dim) : size, dim)) return false;
    }
    return true;
}

int dl_module_fused(dl_child *c, int n, dl_tensor *x, dl_beside *b, dl_tensor **y) {
    dl_child *second = n > 1 ? c + 1 : NULL, *third = n > 2 ? c + 2 : NULL;
    if (is_conv(c) && is(second, "batchnorm") && may_join(c->m, second->m, x)) {
        bool relu = is(third, "relu");
        *y = conv_norm(c->m, second->m, relu, x);
        return 2 + relu;
    }
    if (is(c, "batchnorm") && is(second, "relu") && c->m->built && dl_m_opt(c->m, "momentum")->given) {
        *y = norm_relu(c->m, x);
        return 2;
    }
    bool conv = is_conv(c);
    bool pooled = conv ? is(second, "relu") && is(third, "maxpool") && c->m->built
                       : is(c, "relu") && is(second, "maxpool") && dl_dtype_is_float(x->dtype);
    if (!pooled || x->ndim != 4 || !dl_device_supports(dl_op_row(dl_id_relu_max_pool2d), &x, 1, NULL)) return 0;
    if (b->squares) dl_squares_want(&b->sums);
    *y = conv ? conv_relu_pool(c->m, third->m, x, b) : relu_pool(second->m, x, NULL);
    dl_squares_want(NULL);
    return conv ? 3 : 2;
}
