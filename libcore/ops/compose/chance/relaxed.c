/* Densities and draws of relaxed coins and classes, of quotients of gamma numbers, and of counts of classes; as
 * torch.distributions has them. */
#include "ops/compose/chance/draw.h"
#include "ops/compose/chance/words.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/distribution.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/where.h"
#include "dlcore/rounding.h"
#include "ops/rules/distribution.h"

#include <math.h>
#include <string.h>

static const long last = -1;

#define SUM(x) K(dl_sum((x), &last, 1, 0))
#define NEG(x) K(dl_neg(x))
#define LOG1P(x) K(dl_log1p(x))
#define SOFTPLUS(x) K(dl_softplus((x), 1, INFINITY))

/* Uniform noise in the shape of a draw, neither 0 nor 1. */
static dl_tensor *uniform(dl_call *c, dl_pool *p) {
    const double low = c->dtype == DL_F64 ? 0x1p-52 : 0x1p-23, high = 1 - low;
    return K(dl_clamp(dl_draw_noise(c, p, dl_rand, 0, 0), &low, &high));
}
static dl_tensor *logit(dl_pool *p, dl_tensor *x) { return SUB(LOG(x), LOG1P(NEG(x))); }

/* ---- relaxed Bernoulli: temperature, logits */

POOLED_RULE(relaxed_bernoulli_log_prob) {
    dl_tensor *t = IN(1), *y = logit(p, IN(0)), *d = SUB(IN(2), MUL(y, t));
    dl_tensor *size = SUB(ADD(LOG(t), d), MUL(SOFTPLUS(d), N(2)));
    RESULT(ADD(size, ADD(SOFTPLUS(y), SOFTPLUS(NEG(y)))));
}
POOLED_RULE(relaxed_bernoulli_sample) {
    return dl_finish(c, dl_sigmoid(DIV(ADD(IN(1), logit(p, uniform(c, p))), IN(0))));
}

/* ---- relaxed one-hot categorical: temperature, logits, [..., k] */

POOLED_RULE(relaxed_one_hot_categorical_log_prob) {
    dl_tensor *t = IN(1), *y = LOG(IN(0)), *s = SUB(IN(2), MUL(y, t));
    if (!s || !s->ndim) return s ? dl_fail(DL_ERR_SHAPE, "logits need a dimension of classes") : dl_failed();
    const double k = (double)s->shape[s->ndim - 1];
    dl_tensor *each = SUB(K(dl_log_softmax(s, -1)), y);
    RESULT(ADD(SUM(each), ADD(MUL(LOG(t), N(k - 1)), N(lgamma(k)))));
}
POOLED_RULE(relaxed_one_hot_categorical_sample) {
    dl_tensor *less = K(dl_less_gumbel(uniform(c, p)));
    return dl_finish(c, dl_softmax(DIV(SUB(IN(1), less), IN(0)), -1));
}

/* ---- F: df1, df2 */

POOLED_RULE(fisher_snedecor_log_prob) {
    dl_tensor *x = IN(0), *a = MUL(IN(1), N(0.5)), *b = MUL(IN(2), N(0.5)), *both = ADD(a, b), *ratio = DIV(a, b);
    dl_tensor *size = SUB(SUB(LGAMMA(both), LGAMMA(a)), LGAMMA(b));
    dl_tensor *power = ADD(MUL(a, LOG(ratio)), K(dl_xlogy(SUB(a, N(1)), x)));
    RESULT(SUB(ADD(size, power), MUL(both, LOG1P(MUL(ratio, x)))));
}
POOLED_RULE(fisher_snedecor_sample) {
    dl_tensor *like = uniform(c, p), *a = MUL(IN(0), N(0.5)), *b = MUL(IN(1), N(0.5));
    dl_tensor *g = like && a && b ? dl_gamma_of(p, a, like->shape, like->ndim) : NULL,
              *h = g ? dl_gamma_of(p, b, like->shape, like->ndim) : NULL;
    return dl_finish(c, h ? dl_div(DIV(g, a), DIV(h, b)) : NULL);
}

/* ---- inverse gamma: concentration, rate */

POOLED_RULE(inverse_gamma_log_prob) {
    dl_tensor *density = K(dl_gamma_log_prob(K(dl_reciprocal(IN(0))), IN(1), IN(2)));
    RESULT(SUB(density, MUL(LOG(IN(0)), N(2))));
}
POOLED_RULE(inverse_gamma_entropy) {
    dl_tensor *a = IN(0);
    RESULT(SUB(ADD(ADD(a, LOG(IN(1))), LGAMMA(a)), MUL(ADD(a, N(1)), DIGAMMA(a))));
}
COMPOSE_RULE(inverse_gamma_kl) { return dl_finish(c, dl_gamma_kl(IN(0), IN(1), IN(2), IN(3))); }
POOLED_RULE(inverse_gamma_sample) {
    dl_tensor *like = uniform(c, p), *g = like ? dl_gamma_of(p, IN(0), like->shape, like->ndim) : NULL;
    return dl_finish(c, g ? dl_div(IN(1), g) : NULL);
}

/* ---- counts of classes: logits, [..., k] */

POOLED_RULE(multinomial_log_prob) {
    dl_tensor *x = K(dl_to_dtype(IN(0), c->dtype)), *share = K(dl_log_softmax(IN(1), -1)), *none = K(dl_eq(x, N(0)));
    if (!x || !share || !none) return dl_failed();
    dl_tensor *each = K(dl_where(none, K(dl_to_dtype(N(0), c->dtype)), MUL(x, share)));
    RESULT(ADD(SUB(LGAMMA(ADD(SUM(x), N(1))), SUM(LGAMMA(ADD(x, N(1))))), SUM(each)));
}
POOLED_RULE(multinomial_sample) {
    const dl_aval *shape = ATTR(c, MULTINOMIAL_SAMPLE_SHAPE);
    const long first = 0;
    long sizes[DL_MAX_DIM] = {ATTR_I(c, MULTINOMIAL_SAMPLE_TOTAL_COUNT)};
    if (sizes[0] < 0) return dl_fail(DL_ERR_VALUE, "total_count must be at least 0, not %ld", sizes[0]);
    if (shape->n + 1 > DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions", DL_MAX_DIM);
    memcpy(sizes + 1, shape->u.v, (size_t)shape->n * sizeof *sizes);
    dl_tensor *each = K(dl_one_hot_categorical_sample(IN(0), sizes, shape->n + 1));
    return dl_finish(c, each ? dl_sum(each, &first, 1, 0) : NULL);
}
