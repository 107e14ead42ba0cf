/* Limits that are tensors; which numbers are real. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/complex.h"
#include "dlcore/create.h"
#include "dlcore/rounding.h"
#include "dlcore/where.h"
#include "ops/names/binary.h"
#include "ops/rules/binary.h"
#include "ops/rules/compare.h"
#include "ops/rules/rounding.h"

#include <string.h>

/* ---- limits */

/* x where it keeps the limit, or is NaN, else the limit; NaN where that is NaN. Pooled; without a limit x itself. */
static dl_tensor *limited(dl_pool *p, dl_tensor *x, dl_tensor *limit, bool least) {
    if (!x || !limit) return x;
    if (!dl_grad_mode_get() ||
        !(dl_requires_grad(x) || dl_requires_grad(limit))) /* else equal ones would share the gradient */
        return K(least ? dl_maximum(x, limit) : dl_minimum(x, limit));
    dl_tensor *nan = K(dl_ne(x, x)), *keeps = K(least ? dl_ge(x, limit) : dl_le(x, limit));
    dl_tensor *either = nan && keeps ? K(dl_logical_or(keeps, nan)) : NULL;
    return either ? K(dl_where(either, x, limit)) : NULL;
}

/* The first, or a reference of it, as the result. */

POOLED_RULE(clamp_min) { RESULT(limited(p, c->in[0], c->in[1], true)); }
POOLED_RULE(clamp_max) { RESULT(limited(p, c->in[0], c->in[1], false)); }
POOLED_RULE(clamp_bounds) {
    dl_tensor *least = c->nin > 1 ? c->in[1] : NULL, *most = c->nin > 2 ? c->in[2] : NULL;
    if (!least && !most) return dl_fail(DL_ERR_VALUE, "needs min, max or both");
    dl_tensor *x = limited(p, limited(p, c->in[0], least, true), most, false);
    RESULT(x);
}

/* ---- quotients */

POOLED_RULE(div_rounded) {
    const char *mode = ATTR_S(c, DIV_ROUNDED_ROUNDING_MODE);
    dl_tensor *a = c->in[0], *b = c->in[1];
    if (!strcmp(mode, "floor")) return dl_finish(c, dl_floor_divide(a, b));
    if (strcmp(mode, "trunc")) return dl_fail(DL_ERR_VALUE, "rounding_mode is trunc or floor, not '%s'", mode);
    if (dl_dtype_is_float(c->dtype)) return dl_finish(c, dl_trunc(K(dl_div(a, b))));
    return dl_finish(c, dl_floor_divide(K(dl_sub(a, K(dl_fmod(a, b)))), b));
}

POOLED_RULE(isreal) {
    dl_tensor *x = c->in[0];
    if (dl_dtype_is_complex(c->dtype)) return dl_finish(c, dl_eq(K(dl_imag(x)), N(0)));
    return dl_finish(c, dl_full(x->shape, x->ndim, 1, DL_BOOL, x->st->device));
}
