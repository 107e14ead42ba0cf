/* Masks with more zeros: the smallest or any elements, or whole slices, and masks of layers. */
#include "nn/reparam.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "dlcore/where.h"

/* How many of n are to become 0; -1: failed. */
static long count_of(double amount, int whole, long n) {
    if (!(amount >= 0) || (!whole && amount > 1) || (whole && amount != floor(amount)))
        return dl_fail_hint(DL_ERR_VALUE, "amount=0.3 is a share, amount=3 a number",
                            "amount is a number from 0.0 to 1.0, or a whole one from 0 on, not %g", amount),
               -1;
    if (whole && amount > (double)n) return dl_fail(DL_ERR_VALUE, "%.0f cannot be pruned: %ld are left", amount, n), -1;
    return whole ? (long)amount : (long)nearbyint(amount * (double)n);
}

/* mask [n] with further zeros where scores [n] are smallest. */
static dl_tensor *without_smallest(dl_tensor *mask, dl_tensor *scores, double amount, int whole) {
    double left = 0;
    DL_OWNED dl_tensor *zero = dl_scalar_f(0), *inf = dl_scalar_f(INFINITY), *open = dl_ne(mask, zero),
                       *number = open ? dl_to_dtype(open, DL_F64) : NULL,
                       *all = number ? dl_sum(number, NULL, 0, 0) : NULL;
    if (!all || dl_item_f(all, &left) != DL_OK) return NULL;
    const long k = count_of(amount, whole, (long)left);
    if (k <= 0) return k ? NULL : dl_clone(mask);
    dl_tensor *places = NULL;
    DL_OWNED dl_tensor *own = dl_where(open, scores, inf), *least = own ? dl_topk(own, k, 0, 0, &places) : NULL;
    dl_tensor *out = least ? dl_index_fill(mask, places, zero, 0) : NULL;
    dl_unref(places);
    return out;
}

static dl_tensor *random_like(const dl_tensor *t) {
    return dl_rand(t->shape, t->ndim, dl_dtype_is_float(t->dtype) ? t->dtype : DL_F32, dl_device_of(t));
}

static dl_tensor *prune_elements(dl_tensor *mask, dl_tensor *scores, double amount, int whole) {
    const long flat = -1;
    DL_OWNED dl_tensor *size = scores ? dl_abs(scores) : random_like(mask);
    DL_OWNED dl_tensor *s = size ? dl_reshape(size, &flat, 1) : NULL, *m = s ? dl_reshape(mask, &flat, 1) : NULL,
                       *out = m ? without_smallest(m, s, amount, whole) : NULL;
    return out ? dl_reshape(out, mask->shape, mask->ndim) : NULL;
}

static dl_tensor *prune_slices(dl_tensor *mask, dl_tensor *scores, double amount, int whole, long dim, double p) {
    long others[DL_MAX_DIM], shape[DL_MAX_DIM];
    int n = 0, at;
    if (mask->ndim < 2)
        return dl_fail(DL_ERR_SHAPE, "slices of a tensor of one dimension are elements: prune it unstructured"), NULL;
    if (dl_dim_norm(dim, mask->ndim, &at) != DL_OK) return NULL;
    for (int i = 0; i < mask->ndim; i++) {
        shape[i] = i == at ? mask->shape[i] : 1;
        if (i != at) others[n++] = i;
    }
    DL_OWNED dl_tensor *open = dl_amax(mask, others, n, 0), *norm = NULL;
    if (!open) return NULL;
    norm = scores ? dl_norm(scores, others, n, 0, p) : random_like(open);
    DL_OWNED dl_tensor *kept = norm ? without_smallest(open, norm, amount, whole) : NULL,
                       *wide = kept ? dl_reshape(kept, shape, mask->ndim) : NULL;
    return wide ? dl_mul(mask, wide) : NULL;
}

dl_tensor *dl_prune(dl_tensor *mask, dl_tensor *scores, double amount, int whole, const long *dim, double p) {
    if (!mask) return dl_fail_null("the mask"), NULL;
    if (scores && !dl_shape_eq(scores, mask))
        return dl_fail(DL_ERR_SHAPE, "importance has shape %s, what is pruned %s", dl_shape_of(scores),
                       dl_shape_of(mask)),
               NULL;
    DL_SCOPED_GRAD_MODE(0);
    return dim ? prune_slices(mask, scores, amount, whole, *dim, p) : prune_elements(mask, scores, amount, whole);
}

dl_status dl_module_mask(dl_module *m, const char *name, dl_tensor *mask) {
    if (!m || !name || !mask) return dl_fail_null(!m ? "the layer" : !name ? "the name of a tensor" : "the mask");
    DL_SCOPED_GRAD_MODE(0);
    char path[DL_PATH_MAX];
    snprintf(path, sizeof path, "%.100s_mask", name);
    DL_OWNED dl_tensor *value = dl_module_value(m, name);
    if (value && !dl_shape_eq(value, mask))
        return dl_fail(DL_ERR_SHAPE, "the mask has shape %s, %s has %s", dl_shape_of(mask), name, dl_shape_of(value));
    if (!dl_module_is_parametrized(m, name, "mask")) DL_TRY(dl_module_parametrize(m, name, "mask", NULL, 0));
    dl_tensor *own = dl_module_tensor(m, path);
    if (!own) return dl_fail(DL_ERR_STATE, "%s has no mask yet: its layer was not called", name);
    DL_OWNED dl_tensor *here = dl_to_device(mask, dl_device_of(own)),
                       *cast = here ? dl_to_dtype(here, dl_dtype_of(own)) : NULL,
                       *both = cast ? dl_mul(own, cast) : NULL;
    return both ? dl_assign(own, both) : dl_failed();
}
