/* Functions of single elements, made of other ops. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/elementary.h"
#include "dlcore/loss.h"
#include "dlcore/unary.h"
#include "ops/rules/binary.h"
#include "ops/rules/compare.h"
#include "ops/rules/elementary.h"
#include "ops/rules/norm.h"
#include "ops/rules/unary.h"

#include <math.h>

static dl_tensor *scaled(dl_pool *p, dl_tensor *t, double by) { return K(dl_mul(t, N(by))); }

/* ---- two operands */

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

/* ---- one operand */

COMPOSE_RULE(positive) {
    if (c->in[0]->dtype == DL_BOOL) return dl_fail(DL_ERR_DTYPE, "bools have no sign");
    return dl_finish(c, dl_ref(c->in[0]));
}

POOLED_RULE(isposinf) { return dl_finish(c, dl_eq(c->in[0], N(INFINITY))); }
POOLED_RULE(isneginf) { return dl_finish(c, dl_eq(c->in[0], N(-INFINITY))); }

POOLED_RULE(deg2rad) { RESULT(scaled(p, c->in[0], M_PI / 180)); }
POOLED_RULE(rad2deg) { RESULT(scaled(p, c->in[0], 180 / M_PI)); }

POOLED_RULE(ndtr) { RESULT(scaled(p, K(dl_erfc(scaled(p, c->in[0], -M_SQRT1_2))), 0.5)); }

/* ---- along a dimension */

POOLED_RULE(softmin) { return dl_finish(c, dl_softmax(K(dl_neg(c->in[0])), ATTR_I(c, SOFTMIN_DIM))); }
