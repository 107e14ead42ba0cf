/* Functions of single elements, made of other ops. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/elementary.h"
#include "dlcore/rounding.h"
#include "dlcore/loss.h"
#include "dlcore/unary.h"
#include "dlcore/where.h"
#include "ops/rules/binary.h"
#include "ops/rules/compare.h"
#include "ops/rules/norm.h"
#include "ops/rules/unary.h"

#include <math.h>

static dl_tensor *scaled(dl_pool *p, dl_tensor *t, double by) { return K(dl_mul(t, N(by))); }

/* ---- two operands */

/* The first where `better` holds or the second is NaN, else the second. */
static dl_status without_nan(dl_call *c, dl_pool *p, dl_tensor *better) {
    dl_tensor *a = c->in[0], *b = c->in[1];
    if (dl_dtype_is_float(c->dtype)) better = K(dl_logical_or(better, K(dl_isnan(b))));
    return dl_finish(c, better ? dl_where(better, a, b) : NULL);
}
POOLED_RULE(fmax) { return without_nan(c, p, K(dl_ge(c->in[0], c->in[1]))); }
POOLED_RULE(fmin) { return without_nan(c, p, K(dl_le(c->in[0], c->in[1]))); }

POOLED_RULE(heaviside) {
    dl_tensor *x = c->in[0], *zero = K(dl_scalar_i(0)), *right = K(dl_to(K(dl_gt(x, zero)), c->dtype));
    return dl_finish(c, right ? dl_where(K(dl_eq(x, zero)), c->in[1], right) : NULL);
}

/* In f64. A number of the language follows the other operand, of f64 as well. */
POOLED_RULE(float_power) {
    dl_tensor *x = c->in[0], *y = c->in[1];
    if (!x->weak || y->weak) x = K(dl_to_dtype(x, DL_F64));
    if (!y->weak) y = K(dl_to_dtype(y, DL_F64));
    return dl_finish(c, dl_pow(x, y));
}

POOLED_RULE(mvlgamma) {
    const long n = ATTR_I(c, MVLGAMMA_P);
    if (n < 1 || n > 60) return dl_fail(DL_ERR_VALUE, "p must be 1 to 60, not %ld", n);
    dl_tensor *sum = N((double)(n * (n - 1)) / 4 * 1.14472988584940017414); /* ln(pi) */
    for (long i = 0; i < n; i++) {
        POOL;
        dl_tensor *more = dl_add(sum, K(dl_lgamma(K(dl_sub(c->in[0], N((double)i / 2))))));
        if (i) dl_unref(sum);
        if (!(sum = more)) return dl_failed();
    }
    return dl_finish(c, sum);
}

POOLED_RULE(rsub) {
    const dl_aval *alpha = ATTR(c, RSUB_ALPHA);
    if (dl_aval_number(alpha) == 1) return dl_finish(c, dl_sub(c->in[1], c->in[0]));
    dl_tensor *factor = K(alpha->is_int ? dl_scalar_i(alpha->u.i) : dl_scalar_f(alpha->u.f));
    return dl_finish(c, dl_sub(c->in[1], K(dl_mul(c->in[0], factor))));
}

POOLED_RULE(logaddexp2) {
    dl_tensor *sum = K(dl_logaddexp(scaled(p, c->in[0], M_LN2), scaled(p, c->in[1], M_LN2)));
    return dl_finish(c, dl_mul(sum, N(1 / M_LN2)));
}

POOLED_RULE(xlog1py) {
    dl_tensor *x = c->in[0], *y = c->in[1], *zero = K(dl_to_dtype(K(dl_scalar_i(0)), c->dtype));
    dl_tensor *none = K(dl_logical_and(K(dl_eq(x, zero)), K(dl_logical_not(K(dl_isnan(y))))));
    return dl_finish(c, none ? dl_where(none, zero, K(dl_mul(x, K(dl_log1p(y))))) : NULL);
}

/* ---- one operand */

POOLED_RULE(logit) {
    dl_tensor *x = c->in[0];
    if (ATTR(c, LOGIT_EPS)->given) {
        const double low = ATTR_F(c, LOGIT_EPS), high = 1 - low;
        x = K(dl_clamp(x, &low, &high));
    }
    return dl_finish(c, dl_log(K(dl_div(x, K(dl_sub(N(1), x))))));
}

POOLED_RULE(sinc) {
    dl_tensor *one = N(1), *zero = K(dl_eq(c->in[0], N(0)));
    dl_tensor *z = zero ? K(dl_where(zero, one, scaled(p, c->in[0], M_PI))) : NULL;
    return dl_finish(c, z ? dl_where(zero, one, K(dl_div(K(dl_sin(z)), z))) : NULL);
}

POOLED_RULE(signbit) {
    if (!dl_dtype_is_float(c->dtype)) return dl_finish(c, dl_lt(c->in[0], K(dl_scalar_i(0))));
    return dl_finish(c, dl_lt(K(dl_copysign(N(1), K(dl_detach(c->in[0])))), N(0)));
}
POOLED_RULE(isposinf) { return dl_finish(c, dl_eq(c->in[0], N(INFINITY))); }
POOLED_RULE(isneginf) { return dl_finish(c, dl_eq(c->in[0], N(-INFINITY))); }

POOLED_RULE(deg2rad) { RESULT(scaled(p, c->in[0], M_PI / 180)); }
POOLED_RULE(rad2deg) { RESULT(scaled(p, c->in[0], 180 / M_PI)); }

POOLED_RULE(entr) {
    dl_tensor *x = c->in[0], *value = K(dl_neg(K(dl_xlogy(x, x))));
    return dl_finish(c, value ? dl_where(K(dl_lt(x, N(0))), N(-INFINITY), value) : NULL);
}

POOLED_RULE(ndtr) { RESULT(scaled(p, K(dl_erfc(scaled(p, c->in[0], -M_SQRT1_2))), 0.5)); }
POOLED_RULE(ndtri) { RESULT(scaled(p, K(dl_erfinv(K(dl_sub(scaled(p, c->in[0], 2), N(1))))), M_SQRT2)); }

/* ---- along a dimension */

POOLED_RULE(softmin) { return dl_finish(c, dl_softmax(K(dl_neg(c->in[0])), ATTR_I(c, SOFTMIN_DIM))); }
