/* What batch rules are made of. */
#include "ops/batch/batch.h"
#include "dlcore/view.h"

#include <string.h>

dl_status dl_samples_put(dl_batched *b, int i, dl_tensor *t) {
    if (!t) return dl_failed();
    dl_unref(b->in[i]);
    b->in[i] = t;
    return DL_OK;
}

dl_status dl_samples_reshape(dl_batched *b, int i, const long *shape, int ndim) {
    return dl_samples_put(b, i, dl_reshape(b->in[i], shape, ndim));
}

dl_status dl_samples_spread(dl_batched *b, int i) {
    long size[DL_MAX_DIM + 1] = {b->size};
    if (!dl_samples_given(b, i) || b->mapped[i]) return DL_OK;
    const dl_tensor *t = b->in[i];
    for (int d = 0; d < t->ndim; d++) size[d + 1] = t->shape[d];
    DL_TRY(dl_samples_put(b, i, dl_expand(b->in[i], size, t->ndim + 1)));
    b->mapped[i] = true;
    return DL_OK;
}

dl_status dl_samples_spread_all(dl_batched *b) {
    for (int i = 0; i < b->nin; i++) DL_TRY(dl_samples_spread(b, i));
    return DL_OK;
}

dl_status dl_samples_deepen(dl_batched *b, int i, int ndim) {
    long shape[2 * DL_MAX_DIM + 1] = {b->size};
    const dl_tensor *t = b->in[i];
    int more = ndim + 1 - t->ndim, n = 1;
    if (more <= 0) return DL_OK;
    for (int k = 0; k < more; k++) shape[n++] = 1;
    for (int d = 1; d < t->ndim; d++) shape[n++] = t->shape[d];
    return dl_samples_reshape(b, i, shape, n);
}

dl_status dl_samples_fold(dl_batched *b, int i) {
    long shape[DL_MAX_DIM];
    const dl_tensor *t = b->in[i];
    shape[0] = t->shape[0] * t->shape[1];
    for (int d = 2; d < t->ndim; d++) shape[d - 1] = t->shape[d];
    return dl_samples_reshape(b, i, shape, t->ndim - 1);
}

dl_status dl_samples_invoke(dl_batched *b) { return dl_invoke(b->op, b->in, b->nin, b->attr, b->out); }

static dl_status shift_one(long *dim, int ndim) {
    int d;
    DL_TRY(dl_dim_norm(*dim, ndim, &d));
    *dim = d + 1;
    return DL_OK;
}

static dl_status shift_list(dl_aval *a, int ndim, bool all) {
    if (all && (!a->given || !a->n)) {
        *a = (dl_aval){.given = true, .n = (int8_t)ndim};
        for (int i = 0; i < ndim; i++) a->u.v[i] = i;
    }
    for (int i = 0; i < a->n; i++) DL_TRY(shift_one(&a->u.v[i], ndim));
    return DL_OK;
}

dl_status dl_samples_shift(dl_batched *b, int ndim, bool all) {
    static const char *const names[] = {"dim", "dims", "dim1", "dim2"};
    for (unsigned k = 0; k < sizeof names / sizeof *names; k++) {
        int i = dl_attr_index(b->op, names[k]);
        if (i < 0) continue;
        if (b->op->attrs[i].kind == DL_A_INTS)
            DL_TRY(shift_list(&b->attr[i], ndim, all));
        else if (b->attr[i].given)
            DL_TRY(shift_one(&b->attr[i].u.i, ndim));
    }
    return DL_OK;
}
