/* Distributions with a parameter near 0 of which their formulas are quotients of small numbers: the continuous
 * Bernoulli distribution and the generalised Pareto distribution; and shares that are normal numbers, folded; as
 * torch.distributions has them. */
#include "ops/compose/chance/draw.h"
#include "ops/compose/chance/words.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/distribution.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/distribution.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const long last = -1;

#define NEG(x) K(dl_neg(x))
#define EXP(x) K(dl_exp(x))
#define EXPM1(x) K(dl_expm1(x))
#define LOG1P(x) K(dl_log1p(x))
#define ABS(x) K(dl_abs(x))
#define SUM(x) K(dl_sum((x), &last, 1, 0))
#define KNOWN(n) (int)(sizeof(n) / sizeof *(n))

/* ---- functions with a removable quotient: a series near 0 */

static dl_tensor *number_like(dl_tensor *t, double v) {
    DL_OWNED dl_tensor *number = dl_scalar_f(v);
    return t && number ? dl_to_dtype(number, t->dtype) : NULL;
}

/* t where `inside` holds, else `out`. */
static dl_tensor *within(dl_pool *p, dl_tensor *inside, dl_tensor *t, double out) {
    return inside && t ? K(dl_where(inside, t, K(number_like(t, out)))) : NULL;
}

/* a[0] + a[1] u + a[2] u**2 + ... */
static dl_tensor *series(dl_tensor *u, const double *a, int n) {
    POOL;
    dl_tensor *sum = N(a[n - 1]);
    while (n-- > 1) sum = ADD(MUL(sum, u), N(a[n - 1]));
    return dl_ref(sum);
}

/* near(u) where |u| is below `limit`, else far(u); both get numbers of their own side alone, so that gradients are
 * finite. */
typedef dl_tensor *part(dl_pool *p, dl_tensor *u);
static dl_tensor *joined(dl_tensor *u, double limit, part *near, part *far) {
    POOL;
    dl_tensor *small = K(dl_lt(ABS(u), N(limit))), *large = small ? K(dl_logical_not(small)) : NULL;
    dl_tensor *a = near(p, within(p, small, u, 0)), *b = far(p, within(p, large, u, 1));
    return a && b ? dl_where(small, a, b) : NULL;
}

/* Below SMALL few terms are enough; from WIDE on the parts of a difference are no longer much larger than it. */
static const double SMALL = 0.0625, WIDE = 1;

static dl_tensor *log1p_near(dl_pool *p, dl_tensor *u) {
    static const double a[] = {1,        -1.0 / 2, 1.0 / 3,   -1.0 / 4, 1.0 / 5,   -1.0 / 6, 1.0 / 7,
                               -1.0 / 8, 1.0 / 9,  -1.0 / 10, 1.0 / 11, -1.0 / 12, 1.0 / 13};
    return K(series(u, a, KNOWN(a)));
}
static dl_tensor *log1p_far(dl_pool *p, dl_tensor *u) { return DIV(LOG1P(u), u); }
#define LOG1P_BY(u) K(joined((u), SMALL, log1p_near, log1p_far)) /* ln(1 + u) / u */

static dl_tensor *expm1_near(dl_pool *p, dl_tensor *u) {
    static const double a[] = {1,         1.0 / 2,    1.0 / 6,     1.0 / 24,     1.0 / 120,
                               1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800};
    return K(series(u, a, KNOWN(a)));
}
static dl_tensor *expm1_far(dl_pool *p, dl_tensor *u) { return DIV(EXPM1(u), u); }
#define EXPM1_BY(u) K(joined((u), SMALL, expm1_near, expm1_far)) /* (e**u - 1) / u */

/* ---- continuous Bernoulli: logits, whose half is y */

#define HALF(l) MUL((l), N(0.5))

/* The sum of factor(n) b[n] y**(2 n - 2), where coth(y) - 1 / y = the sum of b[n] y**(2 n - 1), n from 1 on. What
 * follows from this series has other factors; those of the terms fall by pi**2. */
static dl_tensor *coth_series(dl_tensor *y, double (*factor)(int n)) {
    static const double b[] = {1.0 / 3,
                               -1.0 / 45,
                               2.0 / 945,
                               -1.0 / 4725,
                               2.1377799155576935e-05,
                               -2.1644042808063972e-06,
                               2.1925947851873778e-07,
                               -2.2214608789979678e-08,
                               2.2507846516808994e-09,
                               -2.2805151204592183e-10,
                               2.3106432599002624e-11,
                               -2.3411706819824882e-12,
                               2.3721017400233653e-13,
                               -2.4034415333307705e-14,
                               2.4351954029183367e-15,
                               -2.4673688045172075e-16,
                               2.499967277122081e-17};
    const int terms = !y || y->dtype == DL_F64 ? KNOWN(b) : KNOWN(b) / 2;
    double a[KNOWN(b)];
    for (int n = 1; n <= terms; n++) a[n - 1] = factor(n) * b[n - 1];
    POOL;
    return series(SQUARE(y), a, terms);
}

static double of_norm(int n) { return -0.5 / n; }
static dl_tensor *norm_near(dl_pool *p, dl_tensor *y) { return MUL(SQUARE(y), K(coth_series(y, of_norm))); }
static dl_tensor *norm_far(dl_pool *p, dl_tensor *y) {
    dl_tensor *a = ABS(y), *twice = MUL(a, N(2));
    return SUB(SUB(LOG(twice), a), LOG(NEG(EXPM1(NEG(twice)))));
}
#define NORM(l) K(joined(HALF(l), WIDE, norm_near, norm_far)) /* ln(y / sinh(y)) */

static double of_tilt(int n) { return n * 0.5 / n; }
static dl_tensor *tilt_near(dl_pool *p, dl_tensor *y) { return MUL(y, K(coth_series(y, of_tilt))); }
static dl_tensor *tilt_far(dl_pool *p, dl_tensor *y) {
    return HALF(SUB(K(dl_reciprocal(K(dl_tanh(y)))), K(dl_reciprocal(y))));
}
#define TILT(l) K(joined(HALF(l), WIDE, tilt_near, tilt_far)) /* the mean, less 1/2 */

static double of_spread(int n) { return (2 * n - 1) * 0.25; }
static dl_tensor *spread_near(dl_pool *p, dl_tensor *y) {
    (void)p;
    return K(coth_series(y, of_spread));
}
static dl_tensor *spread_far(dl_pool *p, dl_tensor *y) {
    dl_tensor *twice = MUL(ABS(y), N(-2)), *ratio = DIV(EXP(twice), SQUARE(EXPM1(twice)));
    return SUB(MUL(K(dl_reciprocal(SQUARE(y))), N(0.25)), ratio);
}

/* E of ln q(x) of a mean that lies `tilt` above 1/2. */
static dl_tensor *expected(dl_pool *p, dl_tensor *logits, dl_tensor *tilt) {
    return ADD(MUL(logits, tilt), NORM(logits));
}

POOLED_RULE(continuous_bernoulli_log_prob) {
    const double least = 0, most = 1;
    dl_tensor *x = IN(0), *inside = K(dl_eq(x, K(dl_clamp(x, &least, &most))));
    RESULT(within(p, inside, expected(p, IN(1), SUB(x, N(0.5))), -INFINITY));
}
POOLED_RULE(continuous_bernoulli_entropy) { RESULT(NEG(expected(p, IN(0), TILT(IN(0))))); }
POOLED_RULE(continuous_bernoulli_kl) {
    dl_tensor *tilt = TILT(IN(0));
    RESULT(SUB(expected(p, IN(0), tilt), expected(p, IN(1), tilt)));
}
POOLED_RULE(continuous_bernoulli_mean) { RESULT(ADD(TILT(IN(0)), N(0.5))); }
POOLED_RULE(continuous_bernoulli_variance) { return dl_finish(c, joined(HALF(IN(0)), WIDE, spread_near, spread_far)); }

/* Of logits above 0 those of 1 - x, so that nothing overflows. */
typedef struct side {
    dl_tensor *below, *logits, *x;
} side;

static side side_of(dl_pool *p, dl_tensor *x, dl_tensor *logits) {
    dl_tensor *below = K(dl_lt(logits, N(0)));
    dl_tensor *other = below ? NEG(logits) : NULL, *rest = SUB(N(1), x);
    return (side){below, other ? K(dl_where(below, logits, other)) : NULL,
                  rest && below ? K(dl_where(below, x, rest)) : NULL};
}

static dl_tensor *of_side(dl_pool *p, const side *s, dl_tensor *t) {
    const double least = 0, most = 1;
    t = t ? K(dl_clamp(t, &least, &most)) : NULL;
    dl_tensor *rest = t ? SUB(N(1), t) : NULL;
    return rest ? K(dl_where(s->below, t, rest)) : NULL;
}

POOLED_RULE(continuous_bernoulli_cdf) {
    const double least = 0, most = 1;
    side s = side_of(p, K(dl_clamp(IN(0), &least, &most)), IN(1));
    RESULT(of_side(p, &s, MUL(s.x, DIV(EXPM1_BY(MUL(s.logits, s.x)), EXPM1_BY(s.logits)))));
}

static dl_tensor *coin_quantile(dl_pool *p, dl_tensor *v, dl_tensor *logits) {
    side s = side_of(p, v, logits);
    return of_side(p, &s, MUL(MUL(s.x, EXPM1_BY(s.logits)), LOG1P_BY(MUL(s.x, EXPM1(s.logits)))));
}
POOLED_RULE(continuous_bernoulli_icdf) { RESULT(coin_quantile(p, IN(0), IN(1))); }
POOLED_RULE(continuous_bernoulli_sample) { RESULT(coin_quantile(p, dl_draw_noise(c, p, dl_rand, 0, 0), IN(0))); }

/* ---- generalised Pareto: loc, scale, concentration k */

/* How far a number lies, z, and -ln of the share above it, h = z ln(1 + k z) / (k z); 0 outside of the support. */
typedef struct far_off {
    dl_tensor *above, *inside, *h;
} far_off;

static far_off far_of(dl_call *c, dl_pool *p) {
    dl_tensor *z = DIV(SUB(IN(0), IN(1)), IN(2)), *u = MUL(IN(3), z);
    far_off f = {.above = K(dl_ge(z, N(0)))};
    f.inside = f.above ? K(dl_logical_and(f.above, K(dl_gt(u, N(-1))))) : NULL;
    f.h = f.inside ? MUL(within(p, f.inside, z, 0), LOG1P_BY(within(p, f.inside, u, 0))) : NULL;
    return f;
}

POOLED_RULE(generalized_pareto_log_prob) {
    far_off f = far_of(c, p);
    dl_tensor *value = ADD(LOG(IN(2)), MUL(f.h, ADD(IN(3), N(1))));
    RESULT(within(p, f.inside, NEG(value), -INFINITY));
}
POOLED_RULE(generalized_pareto_entropy) { RESULT(ADD(ADD(ADD(LOG(IN(1)), IN(2)), N(1)), MUL(IN(0), N(0)))); }
POOLED_RULE(generalized_pareto_cdf) {
    far_off f = far_of(c, p);
    dl_tensor *share = within(p, f.inside, NEG(EXPM1(NEG(f.h))), 1);
    RESULT(within(p, f.above, share, 0));
}

static dl_tensor *pareto_quantile(dl_pool *p, dl_tensor *v, dl_tensor *const *param) {
    dl_tensor *wait = NEG(LOG1P(NEG(v)));
    return ADD(param[0], MUL(MUL(param[1], wait), EXPM1_BY(MUL(param[2], wait))));
}
POOLED_RULE(generalized_pareto_icdf) { RESULT(pareto_quantile(p, IN(0), c->in + 1)); }
POOLED_RULE(generalized_pareto_sample) { RESULT(pareto_quantile(p, dl_draw_noise(c, p, dl_rand, 0, 0), c->in)); }

/* ---- logistic normal: loc, scale, [..., k]; values [..., k + 1]: each the share sigmoid(y - ln(n)) of what those
 * before it left, n of them being to come */

static dl_tensor *log_of_coming(dl_call *c, dl_pool *p, long k) {
    return LOG(K(dl_arange((double)k, &(double){0}, -1, c->dtype, c->device)));
}

POOLED_RULE(logistic_normal_log_prob) {
    dl_tensor *x = IN(0);
    const long k = x->ndim ? x->shape[x->ndim - 1] - 1 : 0;
    if (k < 1)
        return dl_fail_hint(DL_ERR_SHAPE, "a value has one share more than there are normal numbers",
                            "shares that add up to 1 are two or more, not of shape %s", dl_shape_of(x));
    const double least = c->dtype == DL_F64 ? DBL_MIN : FLT_MIN;
    dl_tensor *own = K(dl_narrow(x, -1, 0, k)), *left = SUB(N(1), own ? K(dl_cumsum(own, -1)) : NULL);
    left = LOG(left ? K(dl_clamp(left, &least, NULL)) : NULL);
    dl_tensor *logit = SUB(LOG(own), left), *coming = log_of_coming(c, p, k);
    dl_tensor *slope = ADD(left, K(dl_logsigmoid(logit)));
    dl_tensor *density = K(dl_normal_log_prob(ADD(logit, coming), IN(1), IN(2)));
    RESULT(SUM(SUB(density, slope)));
}
POOLED_RULE(logistic_normal_kl) { RESULT(SUM(K(dl_normal_kl(IN(0), IN(1), IN(2), IN(3))))); }
POOLED_RULE(logistic_normal_sample) {
    dl_tensor *noise = dl_draw_noise(c, p, dl_randn, 0, 0);
    if (!noise) return dl_failed();
    if (!noise->ndim) noise = K(dl_reshape(noise, (long[]){1}, 1));
    dl_tensor *y = ADD(IN(0), MUL(IN(1), noise)),
              *logit = y ? SUB(y, log_of_coming(c, p, y->shape[y->ndim - 1])) : NULL;
    dl_tensor *left = logit ? K(dl_cumprod(K(dl_sigmoid(NEG(logit))), -1)) : NULL,
              *own = logit ? K(dl_sigmoid(logit)) : NULL;
    if (!left || !own) return dl_failed();
    long shape[DL_MAX_DIM];
    memcpy(shape, left->shape, sizeof shape);
    shape[left->ndim - 1] = 1;
    dl_tensor *one = K(dl_full(shape, left->ndim, 1, left->dtype, c->device));
    dl_tensor *shares = one ? K(dl_cat((dl_tensor *[]){own, one}, 2, -1)) : NULL;
    dl_tensor *rest = one ? K(dl_cat((dl_tensor *[]){one, left}, 2, -1)) : NULL;
    RESULT(MUL(shares, rest));
}
