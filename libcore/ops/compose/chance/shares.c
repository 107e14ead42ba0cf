/* Shares of distributions up to a value, and the values up to which there are shares, as torch.distributions has them:
 * their methods cdf and icdf. */
#include "ops/compose/chance/words.h"
#include "dlcore/distribution.h"
#include "dlcore/rounding.h"
#include "ops/rules/distribution.h"

#include <math.h>

#define NEG(x) K(dl_neg(x))
#define EXP(x) K(dl_exp(x))
#define LOG1P(x) K(dl_log1p(x))
#define POW(a, b) K(dl_pow((a), (b)))
#define INVERSE(x) K(dl_reciprocal(x))
#define SIGN(x) K(dl_sign(x))
#define ABS(x) K(dl_abs(x))
/* 1 - e**-x, of how long one waits, and the inverse */
#define WAITED(x) NEG(K(dl_expm1(NEG(x))))
#define WAITING(v) NEG(LOG1P(NEG(v)))

/* ---- loc, scale */

static dl_tensor *standard(dl_call *c, dl_pool *p) { return DIV(SUB(IN(0), IN(1)), IN(2)); }
#define PLACED(x) RESULT(ADD(IN(1), MUL(IN(2), (x))))

POOLED_RULE(normal_cdf) { RESULT(MUL(ADD(K(dl_erf(MUL(standard(c, p), N(M_SQRT1_2)))), N(1)), N(0.5))); }
POOLED_RULE(normal_icdf) { PLACED(MUL(K(dl_erfinv(SUB(MUL(IN(0), N(2)), N(1)))), N(M_SQRT2))); }
POOLED_RULE(laplace_cdf) {
    dl_tensor *z = standard(c, p);
    RESULT(SUB(N(0.5), MUL(MUL(SIGN(z), K(dl_expm1(NEG(ABS(z))))), N(0.5))));
}
POOLED_RULE(laplace_icdf) {
    dl_tensor *u = SUB(IN(0), N(0.5));
    PLACED(NEG(MUL(SIGN(u), LOG1P(MUL(ABS(u), N(-2))))));
}
POOLED_RULE(cauchy_cdf) { RESULT(ADD(MUL(K(dl_atan(standard(c, p))), N(M_1_PI)), N(0.5))); }
POOLED_RULE(cauchy_icdf) { PLACED(K(dl_tan(MUL(SUB(IN(0), N(0.5)), N(M_PI))))); }
POOLED_RULE(gumbel_cdf) { RESULT(EXP(NEG(EXP(NEG(standard(c, p)))))); }
POOLED_RULE(gumbel_icdf) { PLACED(NEG(LOG(NEG(LOG(IN(0)))))); }
POOLED_RULE(log_normal_cdf) { return dl_finish(c, dl_normal_cdf(LOG(IN(0)), IN(1), IN(2))); }
POOLED_RULE(log_normal_icdf) { return dl_finish(c, dl_exp(K(dl_normal_icdf(IN(0), IN(1), IN(2))))); }

/* ---- low, high */

POOLED_RULE(uniform_cdf) {
    const double least = 0, most = 1;
    return dl_finish(c, dl_clamp(DIV(SUB(IN(0), IN(1)), SUB(IN(2), IN(1))), &least, &most));
}
POOLED_RULE(uniform_icdf) { RESULT(ADD(IN(1), MUL(IN(0), SUB(IN(2), IN(1))))); }

/* ---- rate or scale */

POOLED_RULE(exponential_cdf) { RESULT(WAITED(MUL(IN(1), IN(0)))); }
POOLED_RULE(exponential_icdf) { RESULT(DIV(WAITING(IN(0)), IN(1))); }
POOLED_RULE(half_cauchy_cdf) { RESULT(MUL(K(dl_atan(DIV(IN(0), IN(1)))), N(2 * M_1_PI))); }
POOLED_RULE(half_cauchy_icdf) { RESULT(MUL(IN(1), K(dl_tan(MUL(IN(0), N(M_PI / 2)))))); }
POOLED_RULE(half_normal_cdf) { return dl_finish(c, dl_erf(MUL(DIV(IN(0), IN(1)), N(M_SQRT1_2)))); }
POOLED_RULE(half_normal_icdf) { RESULT(MUL(IN(1), MUL(K(dl_erfinv(IN(0))), N(M_SQRT2)))); }

/* ---- two shapes */

POOLED_RULE(weibull_cdf) { RESULT(WAITED(POW(DIV(IN(0), IN(1)), IN(2)))); }
POOLED_RULE(weibull_icdf) { RESULT(MUL(IN(1), POW(WAITING(IN(0)), INVERSE(IN(2))))); }
POOLED_RULE(pareto_cdf) { RESULT(SUB(N(1), POW(DIV(IN(1), IN(0)), IN(2)))); }
POOLED_RULE(pareto_icdf) { RESULT(MUL(IN(1), EXP(DIV(WAITING(IN(0)), IN(2))))); }
POOLED_RULE(kumaraswamy_cdf) { RESULT(NEG(K(dl_expm1(MUL(IN(2), LOG1P(NEG(POW(IN(0), IN(1))))))))); }
POOLED_RULE(kumaraswamy_icdf) {
    dl_tensor *rest = WAITED(DIV(WAITING(IN(0)), IN(2)));
    RESULT(POW(rest, INVERSE(IN(1))));
}
