/* Running products of complex numbers, and running largest values. Products in log2(n) steps, of which each multiplies
 * every element by the one that lies 1, 2, 4, ... before it. */
#include "core/device/device.h"
#include "core/scope.h"
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "ops/names/index.h"
#include "ops/names/sort.h"
#include "ops/rules/reduce.h"

/* The first `by` elements of t, then those of `joined`. */
static dl_tensor *behind_head(dl_tensor *t, int d, long by, dl_tensor *joined) {
    DL_OWNED dl_tensor *head = dl_slice(t, d, NULL, &by, 1);
    return head && joined ? dl_cat((dl_tensor *[]){head, joined}, 2, d) : NULL;
}

COMPOSE_RULE(cumprod) {
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, CUMPROD_DIM), c->in[0]->ndim, &d));
    const long n = c->in[0]->ndim ? c->in[0]->shape[d] : 1;
    dl_tensor *t = dl_clone(c->in[0]);
    for (long by = 1; by < n && t; by *= 2) {
        DL_OWNED dl_tensor *old = t;
        const long rest = n - by;
        DL_OWNED dl_tensor *left = dl_slice(old, d, NULL, &rest, 1);
        DL_OWNED dl_tensor *right = dl_slice(old, d, &by, NULL, 1);
        DL_OWNED dl_tensor *joined = left && right ? dl_mul(left, right) : NULL;
        t = behind_head(old, d, by, joined);
    }
    return dl_finish(c, t);
}

/* Values are gathered, so that the gradient goes to the element that won. */
static dl_status best_so_far(dl_call *c, long dim, bool largest) {
    int d;
    dl_tensor *x = c->in[0];
    DL_TRY(dl_dim_norm(dim, x->ndim, &d));
    const dl_kernel *k = dl_kernel_of(dl_op_row(dl_id_best_place), c->device);
    DL_OWNED dl_tensor *plain = k && k->dtypes & DL_BIT(x->dtype) ? dl_detach(x) : dl_ordered(x);
    DL_OWNED dl_tensor *at = plain ? dl_best_place(plain, d, largest) : NULL;
    dl_tensor *values = at ? dl_gather(x, at, d) : NULL, *places = values ? dl_ref(at) : NULL;
    if (!places) return dl_unref(values), dl_failed();
    c->out[0] = values, c->out[1] = places;
    return DL_OK;
}

COMPOSE_RULE(cummax) { return best_so_far(c, ATTR_I(c, CUMMAX_DIM), true); }
COMPOSE_RULE(cummin) { return best_so_far(c, ATTR_I(c, CUMMIN_DIM), false); }
