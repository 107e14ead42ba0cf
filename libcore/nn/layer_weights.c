/* Layers with weights: linear, conv, convtranspose, batchnorm, layernorm, rmsnorm, groupnorm, embedding; and pooling,
 * which shares conv's geometry. */
#include <string.h>

#include "core/scope.h"
#include "nn/layers.h"
#include "ops/conv.h"
#include "dlcore/all.h"

/* ---------------------------------------------------------------- options that several rows share */

/* A list option of one number, or one for each direction, all at least `low`. */
static dl_status check_sizes(const dl_module *m, const char *name, long low) {
    const dl_optval *v = dl_m_opt(m, name);
    const int dims = m->row->dims;
    static const char *const each[] = {"", "", " or two, [height, width]", " or three, [depth, height, width]"};
    if (!v->given) return DL_OK;
    if (v->n != 1 && v->n != dims)
        return dl_fail(DL_ERR_VALUE, "layer %s: %s is one number%s, not %d", m->row->kind.name, name, each[dims], v->n);
    for (int i = 0; i < v->n; i++)
        if (v->u.v[i] < low)
            return dl_fail(DL_ERR_VALUE, "layer %s: %s must be at least %ld, not %ld", m->row->kind.name, name, low,
                           v->u.v[i]);
    return DL_OK;
}

/* What a layer of examples takes, for messages. */
static const char *batch_of(const dl_module *m) {
    static const char *const text[] = {"", "rows [N,C,L]", "images [N,C,H,W]", "volumes [N,C,D,H,W]"};
    return text[m->row->dims];
}

/* The shape of a weight: two sizes, then those of the kernel. */
static int weight_shape(const dl_module *m, long first, long second, long shape[5]) {
    const dl_optval *k = dl_m_opt(m, "kernel_size");
    const int dims = m->row->dims;
    shape[0] = first, shape[1] = second;
    for (int i = 0; i < dims; i++) shape[2 + i] = k->u.v[k->n == 1 ? 0 : i];
    return dims + 2;
}

/* How many inputs an output has, if every input channel of the weight counts. */
static double fan_in(const long *shape, int n) {
    double fan = 1;
    for (int i = 1; i < n; i++) fan *= (double)shape[i];
    return fan;
}

static dl_status check_positive(const dl_module *m, const char *name) {
    const dl_optval *v = dl_m_opt(m, name);
    if (!v->given || v->u.i > 0) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: %s must be at least 1, not %ld", m->row->kind.name, name, v->u.i);
}

/* The size of dimension `dim` of an input that should have at least `ndim` dimensions; -1 when it has fewer. */
static long input_size(const dl_module *m, const dl_tensor *x, int ndim, int dim, const char *wants) {
    if (x->ndim >= ndim) return x->shape[dim < 0 ? x->ndim + dim : dim];
    dl_fail(DL_ERR_SHAPE, "layer %s takes %s, not %s", m->row->kind.name, wants, dl_shape_of(x));
    return -1;
}

/* Size `dim` of a stored tensor that should have `ndim` dimensions; -1 when it has not. */
static long stored_size(const dl_module *m, int slot, const dl_tensor *t, int ndim, int dim) {
    if (t->ndim == ndim) return t->shape[dim];
    dl_fail(DL_ERR_SHAPE, "layer %s: its %s has %d dimensions, not the shape %s", m->row->kind.name,
            m->row->tensors[slot], ndim, dl_shape_of(t));
    return -1;
}

/* The bias of linear and conv starts uniform in 1 / sqrt(fan_in) of the weight. */
static dl_status make_bias(dl_module *m, long out, double inputs) {
    if (!dl_m_int(m, "bias")) return DL_OK;
    double root = __builtin_sqrt(inputs > 0 ? inputs : 1);
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

static bool is_same(const dl_optval *padding) { return padding->n == 1 && padding->u.v[0] == DL_PADDING_SAME; }

static dl_status check_padding(const dl_module *m) {
    const dl_optval *s = dl_m_opt(m, "stride");
    if (!is_same(dl_m_opt(m, "padding"))) return check_sizes(m, "padding", 0);
    for (int i = 0; i < s->n; i++)
        if (s->u.v[i] != 1)
            return dl_fail_hint(DL_ERR_VALUE, "give padding as a number",
                                "layer %s: padding=\"same\" is for a stride of 1, not %ld", m->row->kind.name,
                                s->u.v[i]);
    return DL_OK;
}

/* The option, one number for all directions or one for each, at direction i. */
static long along(const dl_optval *v, int i) { return v->u.v[v->n == 1 ? 0 : i]; }

bool dl_layer_conv_padding(const dl_module *m, long pad[3], long more[3]) {
    const dl_optval *p = dl_m_opt(m, "padding"), *k = dl_m_opt(m, "kernel_size"), *d = dl_m_opt(m, "dilation");
    bool odd = false;
    for (int i = 0; i < m->row->dims; i++) {
        more[i] = 0;
        if (is_same(p))
            odd |= more[i] = dl_same_padding(along(k, i), along(d, i), &pad[i]);
        else
            pad[i] = along(p, i);
    }
    return !odd;
}

/* Of all convolutions. */
static dl_status check_filters(dl_module *m) {
    DL_TRY(check_positive(m, "out_channels"));
    DL_TRY(check_positive(m, "groups"));
    DL_TRY(check_sizes(m, "kernel_size", 1));
    DL_TRY(check_sizes(m, "stride", 1));
    DL_TRY(check_padding(m));
    DL_TRY(check_sizes(m, "dilation", 1));
    long out = dl_m_int(m, "out_channels"), groups = dl_m_int(m, "groups");
    if (out % groups)
        return dl_fail(DL_ERR_VALUE, "layer %s: %ld output channels cannot be split into %ld groups", m->row->kind.name,
                       out, groups);
    return dl_init_check(dl_m_opt(m, "init")->u.s);
}

dl_status dl_layer_conv_check(dl_module *m) {
    static const char *const modes[] = {"zeros", "reflect", "replicate", "circular"};
    const char *mode = dl_m_opt(m, "padding_mode")->u.s;
    DL_TRY(check_filters(m));
    for (int i = 0; i < 4; i++)
        if (!strcmp(mode, modes[i])) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: padding_mode is zeros, reflect, replicate or circular, not '%s'",
                   m->row->kind.name, mode);
}

long dl_layer_conv_input(const dl_module *m, const dl_tensor *x) {
    long c = input_size(m, x, m->row->dims + 2, 1, batch_of(m)), groups = dl_m_int(m, "groups");
    if (c < 0 || c % groups == 0) return c;
    dl_fail(DL_ERR_SHAPE, "layer %s: %ld input channels cannot be split into %ld groups", m->row->kind.name, c, groups);
    return -1;
}

long dl_layer_conv_stored(const dl_module *m, int slot, const dl_tensor *t) {
    if (slot != 0) return -2;
    long c = stored_size(m, slot, t, m->row->dims + 2, 1);
    return c < 0 ? c : c * dl_m_int(m, "groups");
}

dl_status dl_layer_conv_build(dl_module *m, long channels) {
    long shape[5];
    const int n = weight_shape(m, dl_m_int(m, "out_channels"), channels / dl_m_int(m, "groups"), shape);
    DL_TRY(dl_module_make(m, 0, n, shape, dl_m_opt(m, "init")->u.s, 0));
    return make_bias(m, shape[0], fan_in(shape, n));
}

/* x continued as padding_mode says, by the widths of padding. */
static dl_tensor *continued(dl_module *m, dl_tensor *x, const char *mode) {
    const int dims = m->row->dims;
    long width[6], pad[3], more[3];
    dl_layer_conv_padding(m, pad, more);
    for (int i = 0; i < dims; i++) {
        width[2 * i] = pad[dims - 1 - i];
        width[2 * i + 1] = width[2 * i] + more[dims - 1 - i];
    }
    return dl_pad(x, width, 2 * dims, 0, mode);
}

dl_tensor *dl_layer_conv(dl_module *m, dl_tensor *x) {
    static __typeof__(dl_conv2d) *const op[] = {NULL, dl_conv1d, dl_conv2d, dl_conv3d};
    static const long none = 0;
    const dl_optval *s = dl_m_opt(m, "stride"), *p = dl_m_opt(m, "padding"), *d = dl_m_opt(m, "dilation");
    const char *mode = dl_m_opt(m, "padding_mode")->u.s;
    const bool zeros = !strcmp(mode, "zeros");
    DL_OWNED dl_tensor *in = zeros ? dl_ref(x) : continued(m, x, mode);
    if (!in) return NULL;
    return op[m->row->dims](in, m->tensor[0], m->tensor[1], s->u.v, s->n, zeros ? p->u.v : &none, zeros ? p->n : 1,
                            d->u.v, d->n, dl_m_int(m, "groups"));
}

/* ---------------------------------------------------------------- convtranspose */

/* The weight is [in, out / groups, and the kernel]. */

dl_status dl_layer_convtranspose_check(dl_module *m) {
    DL_TRY(check_sizes(m, "output_padding", 0));
    return check_filters(m);
}

long dl_layer_convtranspose_input(const dl_module *m, const dl_tensor *x) { return dl_layer_conv_input(m, x); }

long dl_layer_convtranspose_stored(const dl_module *m, int slot, const dl_tensor *t) {
    return slot == 0 ? stored_size(m, slot, t, m->row->dims + 2, 0) : -2;
}

dl_status dl_layer_convtranspose_build(dl_module *m, long channels) {
    long shape[5], out = dl_m_int(m, "out_channels");
    const int n = weight_shape(m, channels, out / dl_m_int(m, "groups"), shape);
    DL_TRY(dl_module_make(m, 0, n, shape, dl_m_opt(m, "init")->u.s, 0));
    return make_bias(m, out, fan_in(shape, n));
}

dl_tensor *dl_layer_convtranspose(dl_module *m, dl_tensor *x) {
    const dl_optval *s = dl_m_opt(m, "stride"), *p = dl_m_opt(m, "padding"), *d = dl_m_opt(m, "dilation"),
                    *more = dl_m_opt(m, "output_padding");
    if (m->row->dims == 2)
        return dl_conv_transpose2d(x, m->tensor[0], m->tensor[1], s->u.v, s->n, p->u.v, p->n, more->u.v, more->n,
                                   dl_m_int(m, "groups"), d->u.v, d->n, NULL, 0);
    return (m->row->dims == 1 ? dl_conv_transpose1d : dl_conv_transpose3d)(x, m->tensor[0], m->tensor[1], s->u.v, s->n,
                                                                           p->u.v, p->n, more->u.v, more->n,
                                                                           dl_m_int(m, "groups"), d->u.v, d->n);
}

/* ---------------------------------------------------------------- maxpool */

dl_status dl_layer_maxpool_check(dl_module *m) {
    DL_TRY(check_sizes(m, "kernel_size", 1));
    DL_TRY(check_sizes(m, "stride", 1));
    DL_TRY(check_sizes(m, "padding", 0));
    return check_sizes(m, "dilation", 1);
}

dl_pack *dl_layer_maxpool_call(dl_module *m, dl_pack *in) {
    const dl_optval *k = dl_m_opt(m, "kernel_size"), *s = dl_m_opt(m, "stride"), *p = dl_m_opt(m, "padding"),
                    *d = dl_m_opt(m, "dilation");
    static __typeof__(dl_max_pool2d) *const op[] = {NULL, dl_max_pool1d, dl_max_pool2d, dl_max_pool3d};
    static __typeof__(dl_max_pool2d_with_indices) *const both[] = {
        NULL, dl_max_pool1d_with_indices, dl_max_pool2d_with_indices, dl_max_pool3d_with_indices};
    const int ceil_mode = (int)dl_m_int(m, "ceil_mode"), ns = s->given ? s->n : 0;
    const long *step = s->given ? s->u.v : NULL;
    dl_tensor *x = dl_pack_tensor(in, 0), *y[2] = {NULL};
    if (!dl_m_int(m, "return_indices")) {
        y[0] = op[m->row->dims](x, k->u.v, k->n, step, ns, p->u.v, p->n, d->u.v, d->n, ceil_mode);
        return dl_layer_results(y, 1);
    }
    y[0] = both[m->row->dims](x, k->u.v, k->n, step, ns, p->u.v, p->n, d->u.v, d->n, ceil_mode, &y[1]);
    return dl_layer_results(y, 2);
}

/* ---------------------------------------------------------------- maxunpool */

dl_status dl_layer_maxunpool_check(dl_module *m) {
    DL_TRY(check_sizes(m, "kernel_size", 1));
    DL_TRY(check_sizes(m, "stride", 1));
    return check_sizes(m, "padding", 0);
}

/* The sizes that an input tensor holds; their count, -1 with an error recorded. */
static int sizes_of(const dl_module *m, const dl_tensor *t, long size[DL_MAX_DIM]) {
    if (!t) return 0;
    DL_OWNED dl_tensor *here = dl_to_device((dl_tensor *)t, 0);
    DL_OWNED dl_tensor *whole = here && here->ndim == 1 && here->numel <= DL_MAX_DIM ? dl_to_dtype(here, DL_I64) : NULL;
    if (!here) return -1;
    if (!whole) return dl_fail(DL_ERR_VALUE, "layer %s: output_size is a list of sizes", m->row->kind.name), -1;
    for (int i = 0; i < whole->numel; i++) {
        DL_OWNED dl_tensor *one = dl_select(whole, 0, i);
        if (!one || dl_item_i(one, &size[i]) != DL_OK) return -1;
    }
    return (int)whole->numel;
}

dl_pack *dl_layer_maxunpool_call(dl_module *m, dl_pack *in) {
    const dl_optval *k = dl_m_opt(m, "kernel_size"), *s = dl_m_opt(m, "stride"), *p = dl_m_opt(m, "padding");
    static __typeof__(dl_max_unpool2d) *const op[] = {NULL, dl_max_unpool1d, dl_max_unpool2d, dl_max_unpool3d};
    dl_tensor *at = dl_pack_tensor(in, 1), *y = NULL;
    long size[DL_MAX_DIM];
    if (!at)
        return dl_fail_hint(DL_ERR_VALUE, "y, i = pool(x), of a maxpool with return_indices=true, then unpool(y, i)",
                            "layer %s needs the indices of its values", m->row->kind.name),
               NULL;
    const int n = sizes_of(m, dl_pack_tensor(in, 2), size);
    if (n < 0) return NULL;
    y = op[m->row->dims](dl_pack_tensor(in, 0), at, k->u.v, k->n, s->given ? s->u.v : NULL, s->given ? s->n : 0, p->u.v,
                         p->n, n ? size : NULL, n);
    return dl_layer_results(&y, 1);
}

/* ---------------------------------------------------------------- batchnorm */

dl_status dl_layer_batchnorm_check(dl_module *m) {
    double momentum = dl_m_float(m, "momentum");
    if (dl_m_opt(m, "momentum")->given && !(momentum >= 0 && momentum <= 1))
        return dl_fail(DL_ERR_VALUE, "layer %s: momentum must be between 0 and 1, not %g", m->row->kind.name, momentum);
    return check_positive(m, "num_features");
}

static long check_channels(const dl_module *m, long c) {
    const dl_optval *want = dl_m_opt(m, "num_features");
    if (c < 0 || !want->given || want->u.i == c) return c;
    dl_fail_hint(DL_ERR_SHAPE, "leave the number out: it is inferred",
                 "layer %s: num_features is %ld, but the input has %ld channels", m->row->kind.name, want->u.i, c);
    return -1;
}

long dl_layer_batchnorm_input(const dl_module *m, const dl_tensor *x) {
    return check_channels(m, input_size(m, x, 2, 1, "[N,C] or [N,C,...]"));
}

long dl_layer_batchnorm_stored(const dl_module *m, int slot, const dl_tensor *t) {
    return check_channels(m, stored_size(m, slot, t, 1, 0));
}

/* A whole number that begins with 0. */
static dl_status make_counter(dl_module *m, int slot) {
    const int dtype = m->dtype;
    m->dtype = DL_I64;
    dl_status st = dl_module_make(m, slot, 0, NULL, NULL, 0);
    m->dtype = dtype;
    return st;
}

dl_status dl_layer_batchnorm_build(dl_module *m, long channels) {
    if (dl_m_int(m, "affine")) {
        DL_TRY(dl_module_make(m, 0, 1, &channels, "ones", 0));
        DL_TRY(dl_module_make(m, 1, 1, &channels, NULL, 0));
    }
    if (dl_m_int(m, "track_running_stats")) {
        DL_TRY(dl_module_make(m, 2, 1, &channels, NULL, 0));
        DL_TRY(dl_module_make(m, 3, 1, &channels, "ones", 0));
        if (!dl_m_opt(m, "momentum")->given) return make_counter(m, 4);
    }
    return DL_OK;
}

/* value += (other - value) / n */
static dl_status approach(dl_tensor *value, dl_tensor *other, dl_tensor *n) {
    DL_OWNED dl_tensor *off = dl_sub(other, value), *part = off ? dl_div(off, n) : NULL,
                       *now = part ? dl_add(value, part) : NULL;
    return now ? dl_assign(value, now) : dl_failed();
}

/* Training whose running statistics are the means of those of all batches. */
static dl_tensor *batchnorm_of_all(dl_module *m, dl_tensor *x) {
    DL_OWNED dl_tensor *mean = dl_clone(m->tensor[2]), *var = mean ? dl_clone(m->tensor[3]) : NULL;
    dl_tensor *y = var ? dl_batch_norm(x, mean, var, m->tensor[0], m->tensor[1], 1, 1, dl_m_float(m, "eps")) : NULL;
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *one = dl_scalar_i(1), *n = one ? dl_add(m->tensor[4], one) : NULL;
    if (y && n && dl_assign(m->tensor[4], n) == DL_OK && approach(m->tensor[2], mean, n) == DL_OK &&
        approach(m->tensor[3], var, n) == DL_OK)
        return y;
    dl_unref(y);
    return NULL;
}

dl_tensor *dl_layer_batchnorm(dl_module *m, dl_tensor *x) {
    int training = dl_m_training(m) || !m->tensor[2];
    if (m->tensor[4] && dl_m_training(m)) return batchnorm_of_all(m, x);
    return dl_batch_norm(x, m->tensor[2], m->tensor[3], m->tensor[0], m->tensor[1], training, dl_m_float(m, "momentum"),
                         dl_m_float(m, "eps"));
}

dl_tensor *dl_layer_instancenorm(dl_module *m, dl_tensor *x) {
    const int own = dl_m_training(m) || !m->tensor[2];
    return dl_instance_norm(x, m->tensor[2], m->tensor[3], m->tensor[0], m->tensor[1], own, dl_m_float(m, "momentum"),
                            dl_m_float(m, "eps"));
}

/* ---------------------------------------------------------------- prelu */

dl_status dl_layer_prelu_check(dl_module *m) { return check_positive(m, "num_parameters"); }

/* Its size does not follow from its input. */
long dl_layer_prelu_input(const dl_module *m, const dl_tensor *x DL_UNUSED) { return dl_m_int(m, "num_parameters"); }

long dl_layer_prelu_stored(const dl_module *m, int slot, const dl_tensor *t) {
    long n = stored_size(m, slot, t, 1, 0), want = dl_m_int(m, "num_parameters");
    if (n < 0 || n == want) return n;
    dl_fail(DL_ERR_SHAPE, "layer prelu: %ld slopes are stored, not %ld", n, want);
    return -1;
}

dl_status dl_layer_prelu_build(dl_module *m, long n) {
    return dl_module_make(m, 0, 1, &n, "constant", dl_m_float(m, "init"));
}

dl_tensor *dl_layer_prelu(dl_module *m, dl_tensor *x) { return dl_prelu(x, m->tensor[0]); }

/* ---------------------------------------------------------------- avgpool, adaptiveavgpool */

dl_status dl_layer_avgpool_check(dl_module *m) {
    DL_TRY(check_sizes(m, "kernel_size", 1));
    DL_TRY(check_sizes(m, "stride", 1));
    return check_sizes(m, "padding", 0);
}

dl_tensor *dl_layer_avgpool(dl_module *m, dl_tensor *x) {
    const dl_optval *k = dl_m_opt(m, "kernel_size"), *s = dl_m_opt(m, "stride"), *p = dl_m_opt(m, "padding");
    static __typeof__(dl_avg_pool2d) *const op[] = {NULL, dl_avg_pool1d, dl_avg_pool2d, dl_avg_pool3d};
    return op[m->row->dims](x, k->u.v, k->n, s->given ? s->u.v : NULL, s->given ? s->n : 0, p->u.v, p->n,
                            (int)dl_m_int(m, "ceil_mode"), (int)dl_m_int(m, "count_include_pad"));
}

dl_status dl_layer_adaptiveavgpool_check(dl_module *m) { return check_sizes(m, "output_size", 1); }

dl_tensor *dl_layer_adaptiveavgpool(dl_module *m, dl_tensor *x) {
    const dl_optval *size = dl_m_opt(m, "output_size");
    static __typeof__(dl_adaptive_avg_pool2d) *const op[] = {NULL, dl_adaptive_avg_pool1d, dl_adaptive_avg_pool2d,
                                                             dl_adaptive_avg_pool3d};
    return op[m->row->dims](x, size->u.v, size->n);
}

dl_pack *dl_layer_adaptivemaxpool_call(dl_module *m, dl_pack *in) {
    const dl_optval *size = dl_m_opt(m, "output_size");
    static __typeof__(dl_adaptive_max_pool2d) *const op[] = {NULL, dl_adaptive_max_pool1d, dl_adaptive_max_pool2d,
                                                             dl_adaptive_max_pool3d};
    static __typeof__(dl_adaptive_max_pool2d_with_indices) *const both[] = {NULL, dl_adaptive_max_pool1d_with_indices,
                                                                            dl_adaptive_max_pool2d_with_indices,
                                                                            dl_adaptive_max_pool3d_with_indices};
    dl_tensor *x = dl_pack_tensor(in, 0), *y[2] = {NULL};
    const bool places = dl_m_int(m, "return_indices");
    y[0] = places ? both[m->row->dims](x, size->u.v, size->n, &y[1]) : op[m->row->dims](x, size->u.v, size->n);
    return dl_layer_results(y, places ? 2 : 1);
}

dl_status dl_layer_lppool_check(dl_module *m) {
    DL_TRY(check_sizes(m, "kernel_size", 1));
    return check_sizes(m, "stride", 1);
}

dl_tensor *dl_layer_lppool(dl_module *m, dl_tensor *x) {
    const dl_optval *k = dl_m_opt(m, "kernel_size"), *s = dl_m_opt(m, "stride");
    return (m->row->dims == 1 ? dl_lp_pool1d : dl_lp_pool2d)(x, dl_m_float(m, "norm_type"), k->u.v, k->n,
                                                             s->given ? s->u.v : NULL, s->given ? s->n : 0,
                                                             (int)dl_m_int(m, "ceil_mode"));
}

/* ---------------------------------------------------------------- layernorm */

dl_status dl_layer_layernorm_check(dl_module *m) {
    const dl_optval *v = dl_m_opt(m, "normalized_shape");
    for (int i = 0; v->given && i < v->n; i++)
        if (v->u.v[i] < 1)
            return dl_fail(DL_ERR_VALUE, "layer %s: normalized_shape must be at least 1, not %ld", m->row->kind.name,
                           v->u.v[i]);
    return DL_OK;
}

/* Checks the last size; the op checks those before it. */
static long check_last(const dl_module *m, long size) {
    const dl_optval *v = dl_m_opt(m, "normalized_shape");
    if (size < 0 || !v->given || v->u.v[v->n - 1] == size) return size;
    dl_fail_hint(DL_ERR_SHAPE, "leave normalized_shape out: the last dimension is normalised",
                 "layer %s: the last size is %ld, not %ld", m->row->kind.name, size, v->u.v[v->n - 1]);
    return -1;
}

long dl_layer_layernorm_input(const dl_module *m, const dl_tensor *x) {
    return check_last(m, input_size(m, x, 1, -1, "at least one dimension"));
}

long dl_layer_layernorm_stored(const dl_module *m, int slot, const dl_tensor *t) {
    const dl_optval *v = dl_m_opt(m, "normalized_shape");
    int n = v->given ? v->n : 1;
    return check_last(m, stored_size(m, slot, t, n, n - 1));
}

dl_status dl_layer_layernorm_build(dl_module *m, long size) {
    const dl_optval *v = dl_m_opt(m, "normalized_shape");
    const long *shape = v->given ? v->u.v : &size;
    int n = v->given ? v->n : 1;
    if (dl_m_int(m, "elementwise_affine")) DL_TRY(dl_module_make(m, 0, n, shape, "ones", 0));
    return dl_m_int(m, "elementwise_affine") && dl_m_int(m, "bias") ? dl_module_make(m, 1, n, shape, NULL, 0) : DL_OK;
}

dl_tensor *dl_layer_layernorm(dl_module *m, dl_tensor *x) {
    const dl_optval *v = dl_m_opt(m, "normalized_shape");
    long last = x->ndim ? x->shape[x->ndim - 1] : 1;
    return dl_layer_norm(x, m->tensor[0], m->tensor[1], v->given ? v->u.v : &last, v->given ? v->n : 1,
                         dl_m_float(m, "eps"));
}

/* ---------------------------------------------------------------- rmsnorm */

long dl_layer_rmsnorm_input(const dl_module *m, const dl_tensor *x) { return dl_layer_layernorm_input(m, x); }

long dl_layer_rmsnorm_stored(const dl_module *m, int slot, const dl_tensor *t) {
    return dl_layer_layernorm_stored(m, slot, t);
}

dl_status dl_layer_rmsnorm_build(dl_module *m, long size) {
    const dl_optval *v = dl_m_opt(m, "normalized_shape");
    if (!dl_m_int(m, "elementwise_affine")) return DL_OK;
    return dl_module_make(m, 0, v->given ? v->n : 1, v->given ? v->u.v : &size, "ones", 0);
}

dl_tensor *dl_layer_rmsnorm(dl_module *m, dl_tensor *x) {
    const dl_optval *v = dl_m_opt(m, "normalized_shape"), *eps = dl_m_opt(m, "eps");
    long last = x->ndim ? x->shape[x->ndim - 1] : 1;
    return dl_rms_norm(x, m->tensor[0], v->given ? v->u.v : &last, v->given ? v->n : 1, eps->given ? &eps->u.f : NULL);
}

/* ---------------------------------------------------------------- groupnorm */

dl_status dl_layer_groupnorm_check(dl_module *m) { return check_positive(m, "num_groups"); }

static long check_divides(const dl_module *m, long channels) {
    long groups = dl_m_int(m, "num_groups");
    if (channels < 0 || channels % groups == 0) return channels;
    dl_fail(DL_ERR_SHAPE, "layer groupnorm: %ld channels cannot be split into %ld groups", channels, groups);
    return -1;
}

long dl_layer_groupnorm_input(const dl_module *m, const dl_tensor *x) {
    return check_divides(m, input_size(m, x, 2, 1, "[N,C] or [N,C,...]"));
}

long dl_layer_groupnorm_stored(const dl_module *m, int slot, const dl_tensor *t) {
    return check_divides(m, stored_size(m, slot, t, 1, 0));
}

dl_status dl_layer_groupnorm_build(dl_module *m, long channels) {
    if (!dl_m_int(m, "affine")) return DL_OK;
    DL_TRY(dl_module_make(m, 0, 1, &channels, "ones", 0));
    return dl_module_make(m, 1, 1, &channels, NULL, 0);
}

dl_tensor *dl_layer_groupnorm(dl_module *m, dl_tensor *x) {
    return dl_group_norm(x, m->tensor[0], m->tensor[1], dl_m_int(m, "num_groups"), dl_m_float(m, "eps"));
}

/* ---------------------------------------------------------------- embedding */

/* Its size does not follow from its input. */

dl_status dl_layer_embedding_check(dl_module *m) {
    DL_TRY(check_positive(m, "num_embeddings"));
    DL_TRY(check_positive(m, "embedding_dim"));
    DL_TRY(dl_init_check(dl_m_opt(m, "init")->u.s));
    const dl_optval *pad = dl_m_opt(m, "padding_idx");
    long n = dl_m_int(m, "num_embeddings");
    if (dl_m_opt(m, "max_norm")->given && !(dl_m_float(m, "max_norm") > 0))
        return dl_fail(DL_ERR_VALUE, "layer %s: max_norm must be above 0, not %g", m->row->kind.name,
                       dl_m_float(m, "max_norm"));
    if (!pad->given || (pad->u.i >= -n && pad->u.i < n)) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: padding_idx %ld is none of the %ld rows", m->row->kind.name, pad->u.i, n);
}

long dl_layer_embedding_input(const dl_module *m, const dl_tensor *x DL_UNUSED) {
    return dl_m_int(m, "num_embeddings");
}

long dl_layer_embedding_stored(const dl_module *m, int slot, const dl_tensor *t) {
    long n = stored_size(m, slot, t, 2, 0), want = dl_m_int(m, "num_embeddings");
    if (n < 0 || n == want) return n;
    dl_fail(DL_ERR_SHAPE, "layer %s: the table stored has %ld rows, not %ld", m->row->kind.name, n, want);
    return -1;
}

dl_status dl_layer_embedding_build(dl_module *m, long rows) {
    const dl_optval *pad = dl_m_opt(m, "padding_idx");
    const char *init = dl_m_opt(m, "init")->u.s;
    bool own = !strcmp(init, "default"); /* PyTorch's: deviation 1 */
    DL_TRY(dl_module_make(m, 0, 2, (long[]){rows, dl_m_int(m, "embedding_dim")}, own ? "deviation" : init, 1));
    if (!pad->given) return DL_OK;
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *row = dl_select(m->tensor[0], 0, pad->u.i), *zero = dl_scalar_f(0);
    return row && zero ? dl_assign(row, zero) : dl_failed();
}

/* The rows that x selects, scaled to at most max_norm, in place. */
static dl_status limit_rows(dl_module *m, dl_tensor *x) {
    if (!dl_m_opt(m, "max_norm")->given || dl_m_dry() || !x->numel) return DL_OK;
    DL_SCOPED_GRAD_MODE(0);
    dl_tensor *w = m->tensor[0];
    DL_OWNED dl_tensor *flat = dl_reshape(x, (long[]){-1}, 1), *rows = flat ? dl_index_select(w, flat, 0) : NULL;
    DL_OWNED dl_tensor *scaled =
        rows ? dl_renorm(rows, dl_m_float(m, "norm_type"), 0, dl_m_float(m, "max_norm")) : NULL;
    DL_OWNED dl_tensor *whole = scaled ? dl_index_copy(w, flat, scaled, 0) : NULL;
    return whole ? dl_assign(w, whole) : dl_failed();
}

/* y as it is, whose gradient is divided by how often x selects its row. */
static dl_tensor *by_frequency(dl_tensor *y, dl_tensor *x) {
    DL_OWNED dl_tensor *plain = dl_detach(y), *flat = dl_reshape(x, (long[]){-1}, 1);
    DL_OWNED dl_tensor *number = flat ? dl_bincount(flat, NULL, 0) : NULL;
    DL_OWNED dl_tensor *each = number ? dl_index_select(number, flat, 0) : NULL;
    DL_OWNED dl_tensor *typed = each ? dl_to_dtype(each, y->dtype) : NULL;
    long shape[DL_MAX_DIM + 1];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[x->ndim] = 1;
    DL_OWNED dl_tensor *column = typed ? dl_reshape(typed, shape, x->ndim + 1) : NULL;
    DL_OWNED dl_tensor *zero = plain && column ? dl_sub(y, plain) : NULL;
    DL_OWNED dl_tensor *part = zero ? dl_div(zero, column) : NULL;
    return part ? dl_add(plain, part) : NULL;
}

dl_tensor *dl_layer_embedding(dl_module *m, dl_tensor *x) {
    const dl_optval *pad = dl_m_opt(m, "padding_idx");
    if (limit_rows(m, x) != DL_OK) return NULL;
    dl_tensor *y = dl_embedding(x, m->tensor[0], pad->given ? &pad->u.i : NULL);
    if (!dl_m_int(m, "scale_grad_by_freq") || !y || !x->numel) return y;
    DL_OWNED dl_tensor *whole = y;
    return by_frequency(whole, x);
}

dl_tensor *dl_layer_embeddingbag(dl_module *m, dl_tensor *x) {
    const dl_optval *pad = dl_m_opt(m, "padding_idx");
    if (limit_rows(m, x) != DL_OK) return NULL;
    return dl_embedding_bag(x, m->tensor[0], NULL, NULL, dl_m_opt(m, "mode")->u.s, 0, pad->given ? &pad->u.i : NULL);
}
