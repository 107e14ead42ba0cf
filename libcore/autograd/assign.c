/* Writing in place, always by dl_assign: the op as_strided_set writes a region of a storage, and its output replaces
 * the tensor, or the view's base, in the history. Views renew their history when they are next used. */
#include "autograd/journal.h"
#include "autograd/tape.h"
#include "core/scope.h"
#include "dlcore/copy.h"
#include "dlcore/view.h"

#include <string.h>

static dl_status check_leaf(dl_tensor *base, bool view) {
    if (!dl_recording() || base->node || !base->requires_grad) return DL_OK;
    return dl_fail_hint(DL_ERR_AUTOGRAD, "wrap the change in no_grad { }, or compute a new tensor",
                        "%sa leaf that needs a gradient cannot be changed in place while recording",
                        view ? "a view of " : "");
}

/* The value in dst's dtype, expanded to its shape; a copy where it shares memory with dst. */
static dl_tensor *prepare(dl_tensor *dst, dl_tensor *value) {
    long shape[DL_MAX_DIM];
    int ndim;
    bool fits = dl_broadcast(dst->ndim, dst->shape, value->ndim, value->shape, &ndim, shape) == DL_OK &&
                dl_sizes_eq(ndim, shape, dst->ndim, dst->shape);
    if (!fits) {
        dl_fail_hint(DL_ERR_SHAPE, "the value must have the same shape, or sizes of 1 where it is to be repeated",
                     "a value of shape %s cannot be written into shape %s", dl_shape_of(value), dl_shape_of(dst));
        return NULL;
    }
    if (dl_dtype_is_complex(value->dtype) && !dl_dtype_is_complex(dst->dtype)) {
        dl_fail_hint(DL_ERR_DTYPE, "write its real() or its abs()", "a complex number cannot be written into %s",
                     dl_type_of(dst));
        return NULL;
    }
    DL_OWNED dl_tensor *cast = dl_to_dtype(value, dst->dtype);
    DL_OWNED dl_tensor *own = cast && cast->st == dst->st ? dl_clone(cast) : dl_ref(cast);
    return own ? dl_expand(own, dst->shape, dst->ndim) : NULL;
}

/* Gives `base` the history of the write and makes its views stale. */
static void rebase(dl_tensor *base, dl_tensor *written) {
    base->st->rebased++;
    base->rebased = base->st->rebased;
    dl_node_unref(base->node);
    base->node = dl_node_ref(written->node);
    base->out = written->out;
}

dl_status dl_assign(dl_tensor *dst, dl_tensor *value) {
    if (!dst) return dl_fail_null("the tensor to write to");
    if (!value) return dl_fail_null("the value to write");
    dl_tensor *base = dst->base ? dst->base : dst;
    DL_TRY(check_leaf(base, dst->base));
    if (base->dtype != dst->dtype) { /* the parts of complex numbers, whose places are counted otherwise */
        if (dl_recording() && (dl_requires_grad(base) || dl_requires_grad(value)))
            return dl_fail_hint(DL_ERR_AUTOGRAD, "compute a new tensor, with complex(re, im)",
                                "the parts of complex numbers cannot be changed in place while recording");
        base = dst;
    }
    if (!dl_strides_are_dense(dst->ndim, dst->shape, dst->stride))
        return dl_fail_hint(DL_ERR_AUTOGRAD, "clone() it first",
                            "an expanded tensor cannot be changed in place: several of its elements share memory");
    DL_TRY(dl_history_renew(dst));
    DL_OWNED dl_tensor *full = prepare(dst, value);
    if (!full) return dl_failed();
    dl_journal_step step;
    const bool trains = !dl_recording() && (base->grad || (dl_journal_gifts && dl_journal_takes_gift(base)));
    const bool looked_at = trains && dl_journal_change_begin(&step, base);
    DL_OWNED dl_tensor *written =
        dl_as_strided_set(base, full, dst->shape, dst->ndim, dst->stride, dst->ndim, dst->offset);
    if (!written) return dl_failed();
    if (dl_recording() && (written->node || base->node)) rebase(base, written);
    if (looked_at) dl_journal_step_end(&step);
    return dl_history_renew(dst);
}
