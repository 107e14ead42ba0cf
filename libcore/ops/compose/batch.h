/* Composites of batches [N,C,...] that also take one example, [C,...]. */
#pragma once

#include "ops/compose/compose.h"
#include "dlcore/view.h"

/* t as a batch of ndim dimensions, owned by the pool; NULL: an error. */
static inline dl_tensor *dl_with_batch(dl_pool *p, dl_tensor *t, int ndim) {
    long shape[DL_MAX_DIM] = {1};
    if (t && t->ndim != ndim && t->ndim != ndim - 1)
        dl_fail_hint(DL_ERR_SHAPE, "dimensions are [N,C] and those of an example; N may be absent",
                     "the input must have %d or %d dimensions, not %d", ndim, ndim - 1, t->ndim);
    if (!t || (t->ndim != ndim && t->ndim != ndim - 1)) return NULL;
    if (t->ndim == ndim) return K(dl_ref(t));
    for (int i = 1; i < ndim; i++) shape[i] = t->shape[i - 1];
    return K(dl_reshape(t, shape, ndim));
}

/* The result y, a new reference, with a batch dimension if `like` has one; shape: of a batch. */
static inline dl_tensor *dl_as_given(dl_tensor *y, const dl_tensor *like, const long *shape, int ndim) {
    const bool single = like->ndim == ndim - 1;
    return y ? dl_reshape(y, shape + single, ndim - single) : NULL;
}

/* A list attribute of one number for all of `dims` directions, or of one for each. */
static inline dl_status dl_sizes(const dl_aval *a, const char *what, int dims, long min, long *out) {
    if (a->n != 1 && a->n != dims)
        return dl_fail(DL_ERR_VALUE, "%s takes one number%s, not %d", what, dims == 1 ? "" : " or one a direction",
                       a->n);
    for (int i = 0; i < dims; i++) {
        out[i] = a->u.v[a->n == 1 ? 0 : i];
        if (out[i] < min) return dl_fail(DL_ERR_VALUE, "%s must be at least %ld, not %ld", what, min, out[i]);
    }
    return DL_OK;
}
