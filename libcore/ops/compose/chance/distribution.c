/* Densities, entropies and divergences of probability distributions, as torch.distributions has them. Parameters
 * broadcast. */
#include "ops/compose/chance/words.h"
#include "ops/matrices.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/distribution.h"

#include <math.h>

static const long last = -1;

#define SUM(x) K(dl_sum((x), &last, 1, 0))

/* ---- normal: loc, scale */

POOLED_RULE(normal_log_prob) {
    dl_tensor *z = DIV(SUB(IN(0), IN(1)), IN(2));
    RESULT(SUB(SUB(MUL(SQUARE(z), N(-0.5)), LOG(IN(2))), N(LN_2PI / 2)));
}
POOLED_RULE(normal_entropy) { RESULT(ADD(ADD(LOG(IN(1)), MUL(IN(0), N(0))), N(0.5 + LN_2PI / 2))); }
POOLED_RULE(normal_kl) {
    dl_tensor *ratio = SQUARE(DIV(IN(1), IN(3))), *gap = SQUARE(DIV(SUB(IN(0), IN(2)), IN(3)));
    RESULT(MUL(SUB(SUB(ADD(ratio, gap), LOG(ratio)), N(1)), N(0.5)));
}

/* ---- Laplace: loc, scale */

POOLED_RULE(laplace_log_prob) {
    RESULT(SUB(K(dl_neg(LOG(MUL(IN(2), N(2))))), DIV(K(dl_abs(SUB(IN(0), IN(1)))), IN(2))));
}
POOLED_RULE(laplace_entropy) { RESULT(ADD(ADD(LOG(MUL(IN(1), N(2))), MUL(IN(0), N(0))), N(1))); }
POOLED_RULE(laplace_kl) {
    dl_tensor *ratio = DIV(IN(1), IN(3)), *gap = K(dl_abs(SUB(IN(0), IN(2))));
    dl_tensor *near = MUL(ratio, K(dl_exp(K(dl_neg(DIV(gap, IN(1)))))));
    RESULT(SUB(ADD(SUB(DIV(gap, IN(3)), LOG(ratio)), near), N(1)));
}

/* ---- uniform: low, high */

POOLED_RULE(uniform_log_prob) {
    dl_tensor *inside = K(dl_logical_and(K(dl_le(IN(1), IN(0))), K(dl_gt(IN(2), IN(0)))));
    dl_tensor *value = K(dl_neg(LOG(SUB(IN(2), IN(1)))));
    return dl_finish(c, inside && value ? dl_where(inside, value, N(-INFINITY)) : NULL);
}
POOLED_RULE(uniform_entropy) { return dl_finish(c, dl_log(SUB(IN(1), IN(0)))); }
POOLED_RULE(uniform_kl) {
    dl_tensor *value = LOG(DIV(SUB(IN(3), IN(2)), SUB(IN(1), IN(0))));
    dl_tensor *out = K(dl_logical_or(K(dl_gt(IN(2), IN(0))), K(dl_lt(IN(3), IN(1)))));
    return dl_finish(c, out && value ? dl_where(out, N(INFINITY), value) : NULL);
}

/* ---- exponential: rate */

POOLED_RULE(exponential_log_prob) { RESULT(SUB(LOG(IN(1)), MUL(IN(1), IN(0)))); }
POOLED_RULE(exponential_entropy) { RESULT(SUB(N(1), LOG(IN(0)))); }
POOLED_RULE(exponential_kl) {
    dl_tensor *ratio = DIV(IN(1), IN(0));
    RESULT(SUB(SUB(ratio, LOG(ratio)), N(1)));
}

/* ---- gamma: concentration, rate */

POOLED_RULE(gamma_log_prob) {
    dl_tensor *x = IN(0), *a = IN(1), *rate = IN(2);
    dl_tensor *power = ADD(K(dl_xlogy(a, rate)), K(dl_xlogy(SUB(a, N(1)), x)));
    RESULT(SUB(SUB(power, MUL(rate, x)), LGAMMA(a)));
}
POOLED_RULE(gamma_entropy) {
    dl_tensor *a = IN(0);
    RESULT(ADD(ADD(SUB(a, LOG(IN(1))), LGAMMA(a)), MUL(SUB(N(1), a), DIGAMMA(a))));
}
POOLED_RULE(gamma_kl) {
    dl_tensor *a = IN(0), *rate = IN(1), *b = IN(2), *other = IN(3);
    dl_tensor *first = MUL(b, LOG(DIV(rate, other))), *second = SUB(LGAMMA(b), LGAMMA(a));
    dl_tensor *third = MUL(SUB(a, b), DIGAMMA(a)), *fourth = MUL(SUB(other, rate), DIV(a, rate));
    RESULT(ADD(ADD(first, second), ADD(third, fourth)));
}

/* ---- beta: concentration1, concentration0 */

POOLED_RULE(beta_log_prob) {
    dl_tensor *x = IN(0), *a = IN(1), *b = IN(2);
    dl_tensor *power = ADD(K(dl_xlogy(SUB(a, N(1)), x)), K(dl_xlogy(SUB(b, N(1)), SUB(N(1), x))));
    RESULT(ADD(power, SUB(SUB(LGAMMA(ADD(a, b)), LGAMMA(a)), LGAMMA(b))));
}
POOLED_RULE(beta_entropy) {
    dl_tensor *a = IN(0), *b = IN(1), *both = ADD(a, b);
    dl_tensor *size = SUB(ADD(LGAMMA(a), LGAMMA(b)), LGAMMA(both));
    dl_tensor *own = ADD(MUL(SUB(a, N(1)), DIGAMMA(a)), MUL(SUB(b, N(1)), DIGAMMA(b)));
    RESULT(ADD(SUB(size, own), MUL(SUB(both, N(2)), DIGAMMA(both))));
}
POOLED_RULE(beta_kl) {
    dl_tensor *a = IN(0), *b = IN(1), *qa = IN(2), *qb = IN(3), *p0 = ADD(a, b), *q0 = ADD(qa, qb);
    dl_tensor *first = SUB(ADD(ADD(LGAMMA(qa), LGAMMA(qb)), LGAMMA(p0)), ADD(ADD(LGAMMA(a), LGAMMA(b)), LGAMMA(q0)));
    dl_tensor *second = ADD(MUL(SUB(a, qa), DIGAMMA(a)), MUL(SUB(b, qb), DIGAMMA(b)));
    RESULT(ADD(ADD(first, second), MUL(SUB(q0, p0), DIGAMMA(p0))));
}

/* ---- Dirichlet: concentration, [..., k] */

POOLED_RULE(dirichlet_log_prob) {
    dl_tensor *a = IN(1);
    RESULT(SUB(ADD(SUM(K(dl_xlogy(SUB(a, N(1)), IN(0)))), LGAMMA(SUM(a))), SUM(LGAMMA(a))));
}
POOLED_RULE(dirichlet_entropy) {
    dl_tensor *a = IN(0), *all = SUM(a);
    if (!all) return dl_failed();
    dl_tensor *rest = SUB(N((double)a->shape[a->ndim - 1]), all);
    dl_tensor *size = SUB(SUB(SUM(LGAMMA(a)), LGAMMA(all)), MUL(rest, DIGAMMA(all)));
    RESULT(SUB(size, SUM(MUL(SUB(a, N(1)), DIGAMMA(a)))));
}
POOLED_RULE(dirichlet_kl) {
    dl_tensor *a = IN(0), *b = IN(1), *sum = K(dl_sum(a, &last, 1, 1));
    dl_tensor *first = SUB(LGAMMA(SUM(a)), LGAMMA(SUM(b))), *second = SUM(SUB(LGAMMA(a), LGAMMA(b)));
    RESULT(ADD(SUB(first, second), SUM(MUL(SUB(a, b), SUB(DIGAMMA(a), DIGAMMA(sum))))));
}

/* ---- Bernoulli: logits */

#define SOFTPLUS(x) K(dl_softplus((x), 1, INFINITY))

POOLED_RULE(bernoulli_log_prob) { RESULT(SUB(MUL(IN(0), IN(1)), SOFTPLUS(IN(1)))); }
POOLED_RULE(bernoulli_entropy) { RESULT(SUB(SOFTPLUS(IN(0)), MUL(K(dl_sigmoid(IN(0))), IN(0)))); }
POOLED_RULE(bernoulli_kl) {
    dl_tensor *p1 = K(dl_sigmoid(IN(0))), *p0 = K(dl_sigmoid(K(dl_neg(IN(0)))));
    dl_tensor *one = SUB(SOFTPLUS(K(dl_neg(IN(1)))), SOFTPLUS(K(dl_neg(IN(0)))));
    dl_tensor *zero = SUB(SOFTPLUS(IN(1)), SOFTPLUS(IN(0)));
    RESULT(ADD(MUL(p1, one), MUL(p0, zero)));
}

/* ---- categorical: logits, [..., k] */

POOLED_RULE(categorical_log_prob) {
    dl_tensor *index = IN(0), *logits = K(dl_log_softmax(IN(1), -1));
    long shape[DL_MAX_DIM + 1];
    int n;
    DL_TRY(dl_check_index(index));
    if (!logits) return dl_failed();
    DL_TRY(dl_broadcast(index->ndim, index->shape, logits->ndim - 1, logits->shape, &n, shape));
    dl_tensor *at = K(dl_expand(index, shape, n));
    shape[n] = 1;
    at = at ? K(dl_reshape(at, shape, n + 1)) : NULL;
    shape[n] = logits->shape[logits->ndim - 1];
    dl_tensor *all = at ? K(dl_expand(logits, shape, n + 1)) : NULL, *found = all ? K(dl_gather(all, at, -1)) : NULL;
    return dl_finish(c, found ? dl_select(found, -1, 0) : NULL);
}

/* Sum of p * value over the classes, where p = 0 counts as 0. */
static dl_tensor *expected(dl_pool *p, dl_tensor *logits, dl_tensor *value) {
    dl_tensor *share = K(dl_exp(logits)), *none = share ? K(dl_eq(share, N(0))) : NULL;
    return none ? SUM(MUL(share, K(dl_where(none, N(0), value)))) : NULL;
}
POOLED_RULE(categorical_entropy) {
    dl_tensor *logits = K(dl_log_softmax(IN(0), -1));
    return dl_finish(c, dl_neg(expected(p, logits, logits)));
}
POOLED_RULE(categorical_kl) {
    dl_tensor *a = K(dl_log_softmax(IN(0), -1)), *b = K(dl_log_softmax(IN(1), -1));
    RESULT(expected(p, a, SUB(a, b)));
}

/* ---- normal of several dimensions: loc, [..., k], and the triangle L of the covariance L L^T */

static dl_tensor *half_logdet(dl_pool *p, dl_tensor *l) { return SUM(LOG(K(dl_diagonal(l, 0, -2, -1)))); }

/* |L^-1 x|**2 of vectors x that broadcast against the batch of L. */
static dl_tensor *mahalanobis(dl_pool *p, dl_tensor *l, dl_tensor *x) {
    dl_tensor *y = dl_mat_triangle(p, l, K(dl_with_dim(x, -1)), false, false, false);
    return y ? SUM(SQUARE(K(dl_select(y, -1, 0)))) : NULL;
}

POOLED_RULE(multivariate_normal_log_prob) {
    dl_tensor *l = IN(2), *far = mahalanobis(p, l, SUB(IN(0), IN(1)));
    const double k = (double)dl_mat_width(l);
    RESULT(SUB(MUL(ADD(far, N(k * LN_2PI)), N(-0.5)), half_logdet(p, l)));
}
POOLED_RULE(multivariate_normal_entropy) {
    dl_tensor *l = IN(1), *none = SUM(MUL(IN(0), N(0)));
    RESULT(ADD(ADD(half_logdet(p, l), none), N(0.5 * (double)dl_mat_width(l) * (1 + LN_2PI))));
}
POOLED_RULE(multivariate_normal_kl) {
    dl_tensor *pl = IN(1), *ql = IN(3), *ratio = dl_mat_triangle(p, ql, pl, false, false, false);
    dl_tensor *spread = SUM(SUM(SQUARE(ratio))), *far = mahalanobis(p, ql, SUB(IN(2), IN(0)));
    dl_tensor *size = SUB(half_logdet(p, ql), half_logdet(p, pl));
    RESULT(ADD(size, MUL(SUB(ADD(spread, far), N((double)dl_mat_width(pl))), N(0.5))));
}
