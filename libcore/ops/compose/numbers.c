/* Limits that are tensors; numbers as mantissa and exponent. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/complex.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/rounding.h"
#include "dlcore/unary.h"
#include "dlcore/where.h"
#include "ops/rules/binary.h"
#include "ops/rules/compare.h"
#include "ops/rules/rounding.h"

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

/* ---- mantissas and exponents */

/* t 2^-e, exact: in two steps, since 2^e alone may be too large. */
static dl_tensor *scaled_down(dl_pool *p, dl_tensor *t, dl_tensor *e) {
    dl_tensor *half = K(dl_floor(K(dl_mul(e, N(0.5))))), *rest = half ? K(dl_sub(half, e)) : NULL;
    dl_tensor *part = K(dl_mul(t, K(dl_exp2(K(dl_neg(half))))));
    return part && rest ? K(dl_mul(part, K(dl_exp2(rest)))) : NULL;
}

/* 1 where a number is, 0 elsewhere, in the dtype of the call. */
static dl_tensor *ones_where(dl_pool *p, const dl_call *c, dl_tensor *is) {
    return is ? K(dl_to_dtype(is, c->dtype)) : NULL;
}

/* The exponent from the logarithm, which may be off by one, then corrected; 0 of 0, infinities and NaN. */
POOLED_RULE(frexp) {
    dl_tensor *x = c->in[0], *zero = N(0), *one = N(1), *fixed = K(dl_detach(x));
    dl_tensor *size = K(dl_abs(fixed)), *has = NULL, *used = NULL, *e = NULL;
    if (size) has = K(dl_logical_and(K(dl_isfinite(size)), K(dl_gt(size, zero))));
    if (has) used = K(dl_where(has, size, one));
    if (used) e = K(dl_add(K(dl_floor(K(dl_log2(used)))), one));
    dl_tensor *m = e ? scaled_down(p, used, e) : NULL;
    if (!m) return dl_failed();
    e = K(dl_sub(K(dl_add(e, ones_where(p, c, K(dl_ge(m, one))))), ones_where(p, c, K(dl_lt(m, N(0.5))))));
    e = e ? K(dl_where(has, e, zero)) : NULL;
    dl_tensor *mantissa = e ? scaled_down(p, x, e) : NULL;
    if (!mantissa) return dl_failed();
    c->out[0] = dl_ref(mantissa);
    c->out[1] = dl_to_dtype(e, DL_I32);
    return c->out[1] ? DL_OK : dl_failed();
}

POOLED_RULE(isreal) {
    dl_tensor *x = c->in[0];
    if (dl_dtype_is_complex(c->dtype)) return dl_finish(c, dl_eq(K(dl_imag(x)), N(0)));
    return dl_finish(c, dl_full(x->shape, x->ndim, 1, DL_BOOL, x->st->device));
}
