/* The table of layers, and those without weights. */
#include <string.h>

#include "nn/layers.h"
#include "dlcore/all.h"

/* Layers that are one op. */
#define OPTIONS(...)
#define NO_OPTIONS
#define OP(f, ...)                                                                                                     \
    dl_tensor *dl_layer_##f(dl_module *m, dl_tensor *x) {                                                              \
        (void)m;                                                                                                       \
        return dl_##f(x __VA_OPT__(, ) __VA_ARGS__);                                                                   \
    }
#include "nn/layers.def"

#define OPTIONS(npos, ...) .kind.options = (const dl_option_row[]){__VA_ARGS__{0}}, .kind.positional = npos,
#define NO_OPTIONS .kind.options = (const dl_option_row[]){{0}},
#define FORWARD(f) .forward = dl_layer_##f,
#define OP(f, ...) FORWARD(f)
#define CHECK(f) .check = dl_layer_##f##_check,
#define PARTS(f) .parts = dl_layer_##f##_parts,
#define CALL(f, ...) .call = dl_layer_##f##_call, .inputs = {__VA_ARGS__},
#define WEIGHTS(f)                                                                                                     \
    .size_of_input = dl_layer_##f##_input, .size_of_stored = dl_layer_##f##_stored, .build = dl_layer_##f##_build,
#define TENSORS(n, ...) .nparams = n, .tensors = {__VA_ARGS__},
#define FLAGS(bits) .flags = bits,
#define DIMS(n) .dims = n,
#define LAYER(id, other, text, how, ...)                                                                               \
    {.kind.name = #id, .kind.alias = other, .kind.doc = text, .kind.example = how, __VA_ARGS__},

static const dl_layer_row rows[] = {
#include "nn/layers.def"
};
enum { NLAYERS = sizeof rows / sizeof *rows };

const dl_kind_row *dl_layer_kind_at(int i) {
    for (int k = 0; k < NLAYERS; k++)
        if (!(rows[k].flags & DL_L_HIDDEN) && i-- == 0) return &rows[k].kind;
    return NULL;
}

const dl_layer_row *dl_layer_row_find(const char *name) {
    int i = dl_kind_find(&rows[0].kind, NLAYERS, sizeof *rows, name);
    return i < 0 ? NULL : &rows[i];
}

const dl_kind_row *dl_layer_kind(const char *name) {
    const dl_layer_row *r = name ? dl_layer_row_find(name) : NULL;
    return r && !(r->flags & DL_L_HIDDEN) ? &r->kind : NULL;
}

dl_status dl_layer_unknown(const char *name) {
    return dl_kind_unknown("layer", &rows[0].kind, NLAYERS, sizeof *rows, name);
}

/* ---------------------------------------------------------------- layers with functions of their own */

dl_tensor *dl_layer_identity(dl_module *m DL_UNUSED, dl_tensor *x) { return dl_ref(x); }

dl_status dl_layer_dropout_check(dl_module *m) {
    double p = dl_m_float(m, "p");
    if (p >= 0 && p < 1) return DL_OK;
    return dl_fail_hint(DL_ERR_VALUE, "p is a probability below 1: dropout 0.1", "layer dropout: p cannot be %g", p);
}

dl_tensor *dl_layer_dropout(dl_module *m, dl_tensor *x) {
    if (!dl_m_training(m)) return dl_ref(x);
    return dl_dropout(x, dl_m_float(m, "p"), 1);
}

dl_tensor *dl_layer_flatten(dl_module *m, dl_tensor *x) {
    int from, to;
    if (dl_dim_norm(dl_m_int(m, "start_dim"), x->ndim, &from) != DL_OK) {
        dl_error_hint("flatten joins dimensions from start_dim=1: the input is a batch, [N, ...]");
        return NULL;
    }
    if (dl_dim_norm(dl_m_int(m, "end_dim"), x->ndim, &to) != DL_OK) return NULL;
    if (to < from) {
        dl_fail(DL_ERR_VALUE, "layer flatten: end_dim %d comes before start_dim %d", to, from);
        return NULL;
    }
    if (from == to) return dl_ref(x);
    long shape[DL_MAX_DIM], joined = 1;
    int n = 0;
    for (int i = 0; i < from; i++) shape[n++] = x->shape[i];
    for (int i = from; i <= to; i++) joined *= x->shape[i];
    shape[n++] = joined;
    for (int i = to + 1; i < x->ndim; i++) shape[n++] = x->shape[i];
    return dl_reshape(x, shape, n);
}

/* ---------------------------------------------------------------- dropout of other kinds */

#define DROPOUT(name, op)                                                                                              \
    dl_tensor *dl_layer_##name(dl_module *m, dl_tensor *x) {                                                           \
        return dl_m_training(m) ? op(x, dl_m_float(m, "p"), 1) : dl_ref(x);                                            \
    }
DROPOUT(dropout1d, dl_dropout1d)
DROPOUT(dropout2d, dl_dropout2d)
DROPOUT(dropout3d, dl_dropout3d)
DROPOUT(alphadropout, dl_alpha_dropout)
DROPOUT(featurealphadropout, dl_feature_alpha_dropout)

/* ---------------------------------------------------------------- shapes */

dl_tensor *dl_layer_unflatten(dl_module *m, dl_tensor *x) {
    const dl_optval *sizes = dl_m_opt(m, "unflattened_size");
    long shape[DL_MAX_DIM + DL_OPT_LIST];
    int dim, n = 0;
    if (dl_dim_norm(dl_m_int(m, "dim"), x->ndim, &dim) != DL_OK) return NULL;
    if (x->ndim - 1 + sizes->n > DL_MAX_DIM) {
        dl_fail(DL_ERR_SHAPE, "layer unflatten: the result would have more than %d dimensions", DL_MAX_DIM);
        return NULL;
    }
    for (int i = 0; i < dim; i++) shape[n++] = x->shape[i];
    for (int i = 0; i < sizes->n; i++) shape[n++] = sizes->u.v[i];
    for (int i = dim + 1; i < x->ndim; i++) shape[n++] = x->shape[i];
    return dl_reshape(x, shape, n);
}

dl_tensor *dl_layer_upsample(dl_module *m, dl_tensor *x) {
    const dl_optval *size = dl_m_opt(m, "size"), *factor = dl_m_opt(m, "scale_factor"),
                    *corners = dl_m_opt(m, "align_corners");
    const int in_place = (int)corners->u.i;
    return dl_interpolate(x, size->given ? size->u.v : NULL, size->given ? size->n : 0,
                          factor->given ? &factor->u.f : NULL, dl_m_opt(m, "mode")->u.s,
                          corners->given ? &in_place : NULL, NULL, 0);
}

dl_tensor *dl_layer_upsamplingbilinear2d(dl_module *m, dl_tensor *x) {
    const dl_optval *size = dl_m_opt(m, "size"), *factor = dl_m_opt(m, "scale_factor");
    const int in_place = 1;
    return dl_interpolate(x, size->given ? size->u.v : NULL, size->given ? size->n : 0,
                          factor->given ? &factor->u.f : NULL, "bilinear", &in_place, NULL, 0);
}

dl_tensor *dl_layer_unfold(dl_module *m, dl_tensor *x) {
    const dl_optval *k = dl_m_opt(m, "kernel_size"), *d = dl_m_opt(m, "dilation"), *p = dl_m_opt(m, "padding"),
                    *s = dl_m_opt(m, "stride");
    return dl_unfold(x, k->u.v, k->n, d->u.v, d->n, p->u.v, p->n, s->u.v, s->n);
}

dl_tensor *dl_layer_fold(dl_module *m, dl_tensor *x) {
    const dl_optval *k = dl_m_opt(m, "kernel_size"), *d = dl_m_opt(m, "dilation"), *p = dl_m_opt(m, "padding"),
                    *s = dl_m_opt(m, "stride"), *out = dl_m_opt(m, "output_size");
    return dl_fold(x, k->u.v, k->n, d->u.v, d->n, p->u.v, p->n, s->u.v, s->n, out->u.v, out->n);
}

dl_status dl_layer_localresponsenorm_check(dl_module *m) {
    const long n = dl_m_int(m, "size");
    return n > 0 ? DL_OK : dl_fail(DL_ERR_VALUE, "layer localresponsenorm: size must be at least 1, not %ld", n);
}

dl_tensor *dl_layer_localresponsenorm(dl_module *m, dl_tensor *x) {
    return dl_local_response_norm(x, dl_m_int(m, "size"), dl_m_float(m, "alpha"), dl_m_float(m, "beta"),
                                  dl_m_float(m, "k"));
}

dl_status dl_layer_rrelu_check(dl_module *m) {
    const double lower = dl_m_float(m, "lower"), upper = dl_m_float(m, "upper");
    return lower <= upper
               ? DL_OK
               : dl_fail(DL_ERR_VALUE, "layer rrelu: lower must be at most upper, not %g and %g", lower, upper);
}

dl_tensor *dl_layer_rrelu(dl_module *m, dl_tensor *x) {
    return dl_rrelu(x, dl_m_float(m, "lower"), dl_m_float(m, "upper"), dl_m_training(m));
}

/* ---------------------------------------------------------------- padding */

dl_status dl_layer_pad_check(dl_module *m) {
    const dl_optval *v = dl_m_opt(m, "padding");
    if (v->n == 1 || v->n == 2 || v->n == 4 || v->n == 6) return DL_OK;
    return dl_fail_hint(DL_ERR_VALUE, "widths are of the last dimension first: left, right, top, bottom",
                        "layer %s: padding is one width or two for each dimension, not %d", m->row->kind.name, v->n);
}

static dl_tensor *padded(dl_module *m, dl_tensor *x, const char *mode, double value) {
    const dl_optval *v = dl_m_opt(m, "padding");
    long width[2 * DL_MAX_DIM];
    int n = v->n == 1 ? 2 * (x->ndim - 2) : v->n;
    if (n > 2 * (x->ndim - 2) || n < 2) {
        dl_fail(DL_ERR_SHAPE, "layer %s: %d widths do not fit an input of shape %s, [N,C] and the dimensions padded",
                m->row->kind.name, v->n, dl_shape_of(x));
        return NULL;
    }
    for (int i = 0; i < n; i++) width[i] = v->u.v[v->n == 1 ? 0 : i];
    return dl_pad(x, width, n, value, mode);
}
dl_tensor *dl_layer_reflectionpad(dl_module *m, dl_tensor *x) { return padded(m, x, "reflect", 0); }
dl_tensor *dl_layer_replicationpad(dl_module *m, dl_tensor *x) { return padded(m, x, "replicate", 0); }
dl_tensor *dl_layer_circularpad(dl_module *m, dl_tensor *x) { return padded(m, x, "circular", 0); }
dl_tensor *dl_layer_zeropad(dl_module *m, dl_tensor *x) { return padded(m, x, "constant", 0); }
dl_tensor *dl_layer_constantpad(dl_module *m, dl_tensor *x) { return padded(m, x, "constant", dl_m_float(m, "value")); }
