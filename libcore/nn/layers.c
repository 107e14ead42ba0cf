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
#define WEIGHTS(f)                                                                                                     \
    .size_of_input = dl_layer_##f##_input, .size_of_stored = dl_layer_##f##_stored, .build = dl_layer_##f##_build,
#define TENSORS(n, ...) .nparams = n, .tensors = {__VA_ARGS__},
#define FLAGS(bits) .flags = bits,
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

dl_tensor *dl_layer_identity(dl_module *m, dl_tensor *x) {
    (void)m;
    return dl_ref(x);
}

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
