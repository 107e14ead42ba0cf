/* Densities, entropies, divergences and draws of more distributions: of waiting times, of largest values, with heavy
 * tails, of counts; as torch.distributions has them. */
#include "ops/compose/chance/draw.h"
#include "ops/compose/chance/words.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/distribution.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/distribution.h"

#include <math.h>

static const double EULER = 0.57721566490153286061;
static const long last = -1;

#define FLOATING(x) K(dl_to_dtype((x), c->dtype)) /* counts, in the dtype of the result */
#define NEG(x) K(dl_neg(x))
#define LOG1P(x) K(dl_log1p(x))
#define EXP(x) K(dl_exp(x))
#define SOFTPLUS(x) K(dl_softplus((x), 1, INFINITY))

/* t where `inside` holds, else `out`. */
static dl_tensor *within(dl_pool *p, dl_tensor *inside, dl_tensor *t, double out) {
    return inside && t ? K(dl_where(inside, t, K(dl_to_dtype(N(out), t->dtype)))) : NULL;
}

/* Uniform noise u from 0 to 1 in the shape of a draw, and -ln(1 - u). */
static dl_tensor *uniform(dl_call *c, dl_pool *p) { return dl_draw_noise(c, p, dl_rand, 0, 0); }
static dl_tensor *waiting(dl_call *c, dl_pool *p) { return NEG(LOG1P(NEG(uniform(c, p)))); }

/* ---- log-normal: loc, scale */

POOLED_RULE(log_normal_log_prob) {
    dl_tensor *x = LOG(IN(0));
    RESULT(SUB(K(dl_normal_log_prob(x, IN(1), IN(2))), x));
}
POOLED_RULE(log_normal_entropy) { RESULT(ADD(ADD(LOG(IN(1)), IN(0)), N(0.5 + LN_2PI / 2))); }
COMPOSE_RULE(log_normal_kl) { return dl_finish(c, dl_normal_kl(IN(0), IN(1), IN(2), IN(3))); }
POOLED_RULE(log_normal_sample) {
    return dl_finish(c, dl_exp(ADD(IN(0), MUL(IN(1), dl_draw_noise(c, p, dl_randn, 0, 0)))));
}

/* ---- Cauchy: loc, scale; the half of it: scale */

static dl_tensor *cauchy(dl_pool *p, dl_tensor *x, dl_tensor *scale, double size) {
    return SUB(SUB(N(-log(size)), LOG(scale)), LOG1P(SQUARE(DIV(x, scale))));
}
POOLED_RULE(cauchy_log_prob) { RESULT(cauchy(p, SUB(IN(0), IN(1)), IN(2), M_PI)); }
POOLED_RULE(cauchy_entropy) { RESULT(ADD(ADD(LOG(IN(1)), MUL(IN(0), N(0))), N(log(4 * M_PI)))); }
POOLED_RULE(cauchy_kl) {
    dl_tensor *both = ADD(SQUARE(ADD(IN(1), IN(3))), SQUARE(SUB(IN(0), IN(2))));
    RESULT(SUB(LOG(both), LOG(MUL(MUL(IN(1), IN(3)), N(4)))));
}
POOLED_RULE(cauchy_sample) {
    dl_tensor *far = K(dl_tan(MUL(SUB(uniform(c, p), N(0.5)), N(M_PI))));
    return dl_finish(c, dl_add(IN(0), MUL(IN(1), far)));
}
POOLED_RULE(half_cauchy_log_prob) {
    RESULT(within(p, K(dl_ge(IN(0), N(0))), cauchy(p, IN(0), IN(1), M_PI / 2), -INFINITY));
}
POOLED_RULE(half_cauchy_entropy) { RESULT(ADD(LOG(IN(0)), N(log(2 * M_PI)))); }
POOLED_RULE(half_cauchy_sample) { return dl_finish(c, dl_mul(IN(0), K(dl_tan(MUL(uniform(c, p), N(M_PI / 2)))))); }

/* ---- half of the normal distribution: scale */

POOLED_RULE(half_normal_log_prob) {
    dl_tensor *value = ADD(K(dl_normal_log_prob(IN(0), N(0), IN(1))), N(M_LN2));
    RESULT(within(p, K(dl_ge(IN(0), N(0))), value, -INFINITY));
}
POOLED_RULE(half_normal_entropy) { RESULT(ADD(LOG(IN(0)), N(0.5 + LN_2PI / 2 - M_LN2))); }
POOLED_RULE(half_normal_kl) {
    dl_tensor *ratio = SQUARE(DIV(IN(0), IN(1)));
    RESULT(MUL(SUB(SUB(ratio, LOG(ratio)), N(1)), N(0.5)));
}
POOLED_RULE(half_normal_sample) { return dl_finish(c, dl_mul(IN(0), K(dl_abs(dl_draw_noise(c, p, dl_randn, 0, 0))))); }

/* ---- Gumbel, of largest values: loc, scale */

POOLED_RULE(gumbel_log_prob) {
    dl_tensor *z = DIV(SUB(IN(0), IN(1)), IN(2));
    RESULT(SUB(NEG(ADD(z, EXP(NEG(z)))), LOG(IN(2))));
}
POOLED_RULE(gumbel_entropy) { RESULT(ADD(ADD(LOG(IN(1)), MUL(IN(0), N(0))), N(1 + EULER))); }
POOLED_RULE(gumbel_kl) {
    dl_tensor *ratio = DIV(IN(1), IN(3)), *gap = DIV(SUB(IN(0), IN(2)), IN(3));
    dl_tensor *rest = EXP(SUB(LGAMMA(ADD(ratio, N(1))), gap));
    RESULT(SUB(ADD(ADD(SUB(gap, LOG(ratio)), MUL(ratio, N(EULER))), rest), N(1 + EULER)));
}
POOLED_RULE(gumbel_sample) { return dl_finish(c, dl_sub(IN(0), MUL(IN(1), LOG(waiting(c, p))))); }

/* ---- Weibull: scale, concentration */

POOLED_RULE(weibull_log_prob) {
    dl_tensor *ratio = DIV(IN(0), IN(1)), *k = IN(2);
    dl_tensor *power = MUL(SUB(k, N(1)), LOG(ratio));
    RESULT(SUB(ADD(LOG(DIV(k, IN(1))), power), K(dl_pow(ratio, k))));
}
POOLED_RULE(weibull_entropy) {
    dl_tensor *rest = MUL(SUB(N(1), K(dl_reciprocal(IN(1)))), N(EULER));
    RESULT(ADD(ADD(rest, LOG(DIV(IN(0), IN(1)))), N(1)));
}
POOLED_RULE(weibull_sample) { return dl_finish(c, dl_mul(IN(0), EXP(DIV(LOG(waiting(c, p)), IN(1))))); }

/* ---- Pareto: scale, alpha */

POOLED_RULE(pareto_log_prob) {
    dl_tensor *x = IN(0), *low = IN(1), *a = IN(2);
    dl_tensor *value = SUB(ADD(LOG(a), MUL(a, LOG(low))), MUL(ADD(a, N(1)), LOG(x)));
    RESULT(within(p, K(dl_ge(x, low)), value, -INFINITY));
}
POOLED_RULE(pareto_entropy) { RESULT(ADD(ADD(LOG(DIV(IN(0), IN(1))), K(dl_reciprocal(IN(1)))), N(1))); }
POOLED_RULE(pareto_kl) {
    dl_tensor *ratio = DIV(IN(3), IN(1)), *low = LOG(DIV(IN(0), IN(2)));
    dl_tensor *value = SUB(ADD(SUB(MUL(IN(3), low), LOG(ratio)), ratio), N(1));
    RESULT(within(p, K(dl_ge(IN(0), IN(2))), value, INFINITY));
}
POOLED_RULE(pareto_sample) { return dl_finish(c, dl_mul(IN(0), EXP(DIV(waiting(c, p), IN(1))))); }

/* ---- Student's t: df, loc, scale */

POOLED_RULE(student_t_log_prob) {
    dl_tensor *df = IN(1), *y = DIV(SUB(IN(0), IN(2)), IN(3)), *half = MUL(df, N(0.5)), *more = ADD(half, N(0.5));
    dl_tensor *size = ADD(LOG(IN(3)), MUL(ADD(LOG(df), N(log(M_PI))), N(0.5)));
    size = ADD(size, SUB(LGAMMA(half), LGAMMA(more)));
    RESULT(SUB(NEG(MUL(more, LOG1P(DIV(SQUARE(y), df)))), size));
}
POOLED_RULE(student_t_entropy) {
    dl_tensor *df = IN(0), *half = MUL(df, N(0.5)), *more = ADD(half, N(0.5));
    dl_tensor *beta = SUB(ADD(LGAMMA(half), N(0.5 * log(M_PI))), LGAMMA(more));
    dl_tensor *slope = MUL(more, SUB(DIGAMMA(more), DIGAMMA(half)));
    dl_tensor *size = ADD(LOG(IN(2)), MUL(LOG(df), N(0.5)));
    RESULT(ADD(ADD(ADD(size, slope), beta), MUL(IN(1), N(0))));
}
POOLED_RULE(student_t_sample) {
    dl_tensor *x = dl_draw_noise(c, p, dl_randn, 0, 0), *half = MUL(IN(0), N(0.5));
    dl_tensor *g = x && half ? dl_gamma_of(p, half, x->shape, x->ndim) : NULL;
    return dl_finish(c, dl_add(IN(1), MUL(IN(2), MUL(x, K(dl_sqrt(DIV(half, g)))))));
}

/* ---- chi-squared: df; gamma of shape df / 2 and rate 1 / 2 */

static dl_tensor *half_rate(dl_pool *p, dl_tensor *df) { return ADD(MUL(K(dl_detach(df)), N(0)), N(0.5)); }

POOLED_RULE(chi2_log_prob) { return dl_finish(c, dl_gamma_log_prob(IN(0), MUL(IN(1), N(0.5)), half_rate(p, IN(1)))); }
POOLED_RULE(chi2_entropy) { return dl_finish(c, dl_gamma_entropy(MUL(IN(0), N(0.5)), half_rate(p, IN(0)))); }
POOLED_RULE(chi2_kl) {
    return dl_finish(c, dl_gamma_kl(MUL(IN(0), N(0.5)), half_rate(p, IN(0)), MUL(IN(1), N(0.5)), half_rate(p, IN(1))));
}
POOLED_RULE(chi2_sample) {
    dl_tensor *like = uniform(c, p), *half = MUL(IN(0), N(0.5));
    return dl_finish(c, like && half ? dl_mul(dl_gamma_of(p, half, like->shape, like->ndim), N(2)) : NULL);
}

/* ---- Kumaraswamy: concentration1, concentration0 */

POOLED_RULE(kumaraswamy_log_prob) {
    dl_tensor *x = IN(0), *a = IN(1), *b = IN(2);
    dl_tensor *power = ADD(K(dl_xlogy(SUB(a, N(1)), x)), MUL(SUB(b, N(1)), LOG1P(NEG(K(dl_pow(x, a))))));
    RESULT(ADD(ADD(LOG(a), LOG(b)), power));
}
POOLED_RULE(kumaraswamy_entropy) {
    dl_tensor *a = IN(0), *b = IN(1), *harmonic = ADD(DIGAMMA(ADD(b, N(1))), N(EULER));
    dl_tensor *ta = SUB(N(1), K(dl_reciprocal(a))), *tb = SUB(N(1), K(dl_reciprocal(b)));
    RESULT(SUB(SUB(ADD(tb, MUL(ta, harmonic)), LOG(a)), LOG(b)));
}
POOLED_RULE(kumaraswamy_sample) {
    dl_tensor *rest = K(dl_expm1(NEG(DIV(waiting(c, p), IN(1))))); /* (1 - u)**(1 / b) - 1 */
    return dl_finish(c, dl_exp(DIV(LOG(NEG(rest)), IN(0))));
}

/* ---- counts. Geometric: logits */

POOLED_RULE(geometric_log_prob) { RESULT(SUB(NEG(MUL(IN(0), SOFTPLUS(IN(1)))), SOFTPLUS(NEG(IN(1))))); }
POOLED_RULE(geometric_entropy) { RESULT(SUB(DIV(SOFTPLUS(IN(0)), K(dl_sigmoid(IN(0)))), IN(0))); }
POOLED_RULE(geometric_kl) {
    dl_tensor *share = K(dl_sigmoid(IN(0)));
    RESULT(SUB(ADD(DIV(SUB(SOFTPLUS(IN(1)), SOFTPLUS(IN(0))), share), IN(0)), IN(1)));
}
POOLED_RULE(geometric_sample) { return dl_finish(c, dl_floor(DIV(waiting(c, p), SOFTPLUS(IN(0))))); }

/* ---- negative binomial: total_count, logits */

POOLED_RULE(negative_binomial_log_prob) {
    dl_tensor *x = FLOATING(IN(0)), *n = FLOATING(IN(1)), *l = IN(2);
    dl_tensor *shares = NEG(ADD(MUL(n, SOFTPLUS(l)), MUL(x, SOFTPLUS(NEG(l)))));
    RESULT(SUB(SUB(ADD(shares, LGAMMA(ADD(n, x))), LGAMMA(ADD(x, N(1)))), LGAMMA(n)));
}
POOLED_RULE(negative_binomial_sample) {
    dl_tensor *like = uniform(c, p), *g = like ? dl_gamma_of(p, IN(0), like->shape, like->ndim) : NULL;
    return dl_finish(c, dl_poisson(MUL(g, EXP(IN(1)))));
}

/* ---- Poisson: rate */

POOLED_RULE(poisson_log_prob) {
    RESULT(SUB(SUB(K(dl_xlogy(IN(0), IN(1))), IN(1)), LGAMMA(ADD(FLOATING(IN(0)), N(1)))));
}
POOLED_RULE(poisson_kl) { RESULT(SUB(MUL(IN(0), SUB(LOG(IN(0)), LOG(IN(1)))), SUB(IN(0), IN(1)))); }
POOLED_RULE(poisson_sample) {
    dl_tensor *like = uniform(c, p), *rate = like ? K(dl_expand(IN(0), like->shape, like->ndim)) : NULL;
    return dl_finish(c, rate ? dl_poisson(rate) : NULL);
}

/* ---- binomial: total_count, logits */

POOLED_RULE(binomial_log_prob) {
    dl_tensor *x = FLOATING(IN(0)), *n = FLOATING(IN(1)), *l = IN(2);
    dl_tensor *ways = SUB(SUB(LGAMMA(ADD(n, N(1))), LGAMMA(ADD(x, N(1)))), LGAMMA(ADD(SUB(n, x), N(1))));
    RESULT(ADD(ways, SUB(MUL(x, l), MUL(n, SOFTPLUS(l)))));
}
POOLED_RULE(binomial_kl) {
    dl_tensor *share = K(dl_sigmoid(IN(1))), *rest = SUB(SOFTPLUS(IN(3)), SOFTPLUS(IN(1)));
    dl_tensor *each = MUL(IN(0), ADD(MUL(share, SUB(IN(1), IN(3))), rest));
    each = within(p, K(dl_ge(IN(0), IN(2))), each, NAN); /* of more trials there is no closed form */
    RESULT(within(p, K(dl_le(IN(0), IN(2))), each, INFINITY));
}
POOLED_RULE(binomial_sample) {
    dl_tensor *like = uniform(c, p), *n = like ? K(dl_expand(IN(0), like->shape, like->ndim)) : NULL;
    return dl_finish(c, n ? dl_binomial(n, K(dl_sigmoid(IN(1)))) : NULL);
}

/* ---- classes as rows of zeros and a 1: logits, [..., k] */

POOLED_RULE(one_hot_categorical_log_prob) {
    return dl_finish(c, dl_sum(MUL(IN(0), K(dl_log_softmax(IN(1), -1))), &last, 1, 0));
}
COMPOSE_RULE(one_hot_categorical_entropy) { return dl_finish(c, dl_categorical_entropy(IN(0))); }
COMPOSE_RULE(one_hot_categorical_kl) { return dl_finish(c, dl_categorical_kl(IN(0), IN(1))); }
POOLED_RULE(one_hot_categorical_sample) {
    const dl_aval *shape = ATTR(c, DRAW_SHAPE);
    const long k = IN(0)->shape[IN(0)->ndim - 1];
    dl_tensor *at = K(dl_categorical_sample(IN(0), shape->u.v, shape->n));
    dl_tensor *each = K(dl_arange(0, &(double){(double)k}, 1, DL_I64, c->device));
    return dl_finish(c, dl_to_dtype(K(dl_eq(K(dl_with_dim(at, -1)), each)), c->dtype));
}
