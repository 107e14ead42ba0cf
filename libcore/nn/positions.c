/* Layers that tell the places of sequences. */
#include "nn/layers.h"
#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/matmul.h"
#include "dlcore/norm.h"
#include "dlcore/view.h"

static dl_status check_dropout(const dl_module *m) {
    double p = dl_m_float(m, "dropout");
    if (p >= 0 && p <= 1) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: dropout is a probability, between 0 and 1, not %g", m->row->kind.name, p);
}

/* The dimension of places of x: [T,N,size], [N,T,size] or [T,size]; -1: x has another shape. */
static int places_of(const dl_module *m, const dl_tensor *x) {
    if (x->ndim == 2) return 0;
    if (x->ndim == 3) return dl_m_int(m, "batch_first") ? 1 : 0;
    dl_fail(DL_ERR_SHAPE, "layer %s takes %s or [T,size], not %s", m->row->kind.name,
            dl_m_int(m, "batch_first") ? "[N,T,size]" : "[T,N,size]", dl_shape_of(x));
    return -1;
}

/* y, whose reference it takes, with dropout in training. */
static dl_tensor *dropped(const dl_module *m, dl_tensor *y) {
    double p = dl_m_training(m) ? dl_m_float(m, "dropout") : 0;
    if (!y || p == 0) return y;
    DL_OWNED dl_tensor *whole = y;
    return dl_dropout(whole, p, 1);
}

dl_status dl_layer_positionalencoding_check(dl_module *m) { return check_dropout(m); }

dl_tensor *dl_layer_positionalencoding(dl_module *m, dl_tensor *x) {
    int dim = places_of(m, x);
    return dim < 0 ? NULL : dropped(m, dl_positional_encoding(x, dl_m_float(m, "base"), dim));
}

/* ---------------------------------------------------------------- trained rows */

dl_status dl_layer_positionalembedding_check(dl_module *m) {
    long n = dl_m_int(m, "max_len");
    if (n < 1) return dl_fail(DL_ERR_VALUE, "layer %s: max_len must be at least 1, not %ld", m->row->kind.name, n);
    DL_TRY(check_dropout(m));
    return dl_init_check(dl_m_opt(m, "init")->u.s);
}

long dl_layer_positionalembedding_input(const dl_module *m, const dl_tensor *x) {
    return places_of(m, x) < 0 ? -1 : x->shape[x->ndim - 1];
}

long dl_layer_positionalembedding_stored(const dl_module *m, int slot DL_UNUSED, const dl_tensor *t) {
    if (t->ndim == 2 && t->shape[0] == dl_m_int(m, "max_len")) return t->shape[1];
    dl_fail(DL_ERR_SHAPE, "layer %s: its weight has shape [%ld,size], not %s", m->row->kind.name,
            dl_m_int(m, "max_len"), dl_shape_of(t));
    return -1;
}

dl_status dl_layer_positionalembedding_build(dl_module *m, long size) {
    return dl_module_make(m, 0, 2, (long[]){dl_m_int(m, "max_len"), size}, dl_m_opt(m, "init")->u.s, 0);
}

dl_tensor *dl_layer_positionalembedding(dl_module *m, dl_tensor *x) {
    int dim = places_of(m, x);
    long n = dim < 0 ? 0 : x->shape[dim], first = 0, shape[3];
    if (dim < 0) return NULL;
    if (n > dl_m_int(m, "max_len"))
        return dl_fail_hint(DL_ERR_SHAPE, "make max_len larger",
                            "layer %s: a sequence of %ld is longer than max_len, %ld", m->row->kind.name, n,
                            dl_m_int(m, "max_len")),
               NULL;
    for (int i = 0; i < x->ndim; i++) shape[i] = i == dim || i == x->ndim - 1 ? x->shape[i] : 1;
    DL_OWNED dl_tensor *rows = dl_slice(m->tensor[0], 0, &first, &n, 1);
    DL_OWNED dl_tensor *placed = rows ? dl_reshape(rows, shape, x->ndim) : NULL;
    return placed ? dropped(m, dl_add(x, placed)) : NULL;
}
