/* Means, variances and modes of distributions, by formulas of their parameters. */
#include "commands/chance/moments.h"
#include "commands/chance/pool.h"

#include <math.h>
#include <string.h>

#include "dlcore/compare.h"
#include "dlcore/distribution.h"
#include "dlcore/where.h"
#include "dlcore/loss.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"

#define FORMULA(name) static dl_tensor *name(pool *p)

static dl_tensor *total(pool *p, dl_tensor *a) {
    const long last = -1;
    return a ? keep(p, dl_sum(a, &last, 1, 1)) : NULL;
}
static dl_tensor *shares(pool *p, dl_tensor *logits) { return keep(p, dl_softmax(logits, -1)); }
static dl_tensor *times_rest(pool *p, dl_tensor *x) { return MUL(x, SUB(N(1), x)); }
static dl_tensor *inverse(pool *p, dl_tensor *x) { return DIV(N(1), x); }

FORMULA(first) { return P(0); }
FORMULA(located) { return BESIDE(P(0), P(1)); }
FORMULA(second_squared) { return BESIDE(SQUARE(P(1)), P(0)); }
FORMULA(laplace_variance) { return MUL(N(2), second_squared(p)); }
FORMULA(uniform_mean) { return MUL(ADD(P(0), P(1)), N(0.5)); }
FORMULA(uniform_variance) { return DIV(SQUARE(SUB(P(1), P(0))), N(12)); }
FORMULA(exponential_mean) { return inverse(p, P(0)); }
FORMULA(exponential_variance) { return SQUARE(inverse(p, P(0))); }
FORMULA(gamma_mean) { return DIV(P(0), P(1)); }
FORMULA(gamma_variance) { return DIV(P(0), SQUARE(P(1))); }
FORMULA(beta_mean) { return DIV(P(0), ADD(P(0), P(1))); }
FORMULA(beta_variance) {
    dl_tensor *sum = ADD(P(0), P(1));
    return DIV(MUL(P(0), P(1)), MUL(SQUARE(sum), ADD(sum, N(1))));
}
FORMULA(dirichlet_mean) { return DIV(P(0), total(p, P(0))); }
FORMULA(dirichlet_variance) {
    dl_tensor *sum = total(p, P(0));
    return DIV(MUL(P(0), SUB(sum, P(0))), MUL(SQUARE(sum), ADD(sum, N(1))));
}
FORMULA(coin) { return SIGMOID(P(0)); }
FORMULA(coin_variance) { return times_rest(p, SIGMOID(P(0))); }
FORMULA(classes) { return shares(p, P(0)); }
FORMULA(classes_variance) { return times_rest(p, shares(p, P(0))); }
FORMULA(triangle_variance) {
    const long last = -1;
    dl_tensor *squares = SQUARE(P(1)), *sum = squares ? keep(p, dl_sum(squares, &last, 1, 0)) : NULL;
    return BESIDE(sum, P(0));
}
FORMULA(multivariate_mean) {
    const long last = -1;
    dl_tensor *sum = keep(p, dl_sum(P(1), &last, 1, 0));
    return sum ? BESIDE(P(0), sum) : NULL;
}
FORMULA(log_normal_mean) { return EXP(ADD(P(0), MUL(SQUARE(P(1)), N(0.5)))); }
FORMULA(log_normal_variance) {
    dl_tensor *square = SQUARE(P(1));
    return MUL(one(p, dl_expm1, square), EXP(ADD(MUL(N(2), P(0)), square)));
}
FORMULA(half_normal_mean) { return MUL(P(0), N(sqrt(2 / M_PI))); }
FORMULA(half_normal_variance) { return MUL(SQUARE(P(0)), N(1 - 2 / M_PI)); }
FORMULA(gumbel_mean) { return ADD(P(0), MUL(P(1), N(0.57721566490153286))); }
FORMULA(gumbel_variance) { return MUL(second_squared(p), N(M_PI * M_PI / 6)); }
FORMULA(twice) { return MUL(N(2), P(0)); }
FORMULA(geometric_mean) { return EXP(one(p, dl_neg, P(0))); }
FORMULA(geometric_variance) { return DIV(geometric_mean(p), SIGMOID(P(0))); }
FORMULA(binomial_mean) { return MUL(P(0), SIGMOID(P(1))); }
FORMULA(binomial_variance) { return MUL(P(0), times_rest(p, SIGMOID(P(1)))); }
FORMULA(negative_binomial_mean) { return MUL(P(0), EXP(P(1))); }
FORMULA(negative_binomial_variance) { return DIV(negative_binomial_mean(p), SIGMOID(one(p, dl_neg, P(1)))); }
/* x where a parameter is above a bound, else NaN or another number */
static dl_tensor *above_or(pool *p, dl_tensor *a, double bound, dl_tensor *x, double other) {
    dl_tensor *least = N(bound), *good = a ? keep(p, dl_gt(a, least)) : NULL, *none = N(other);
    return good && x && none ? keep(p, dl_where(good, x, none)) : NULL;
}
static dl_tensor *above(pool *p, dl_tensor *a, double bound, dl_tensor *x) { return above_or(p, a, bound, x, NAN); }
/* x where a parameter is above a bound, else infinity */
static dl_tensor *finite_above(pool *p, dl_tensor *a, double bound, dl_tensor *x) {
    return above_or(p, a, bound, x, INFINITY);
}
FORMULA(fisher_mean) { return BESIDE(above(p, P(1), 2, DIV(P(1), SUB(P(1), N(2)))), P(0)); }
FORMULA(fisher_variance) {
    dl_tensor *a = P(0), *b = P(1), *less = SUB(b, N(2));
    dl_tensor *top = MUL(MUL(N(2), SQUARE(b)), SUB(ADD(a, b), N(2)));
    return above(p, b, 4, DIV(top, MUL(MUL(a, SQUARE(less)), SUB(b, N(4)))));
}
FORMULA(inverse_gamma_mean) { return finite_above(p, P(0), 1, DIV(P(1), SUB(P(0), N(1)))); }
FORMULA(inverse_gamma_variance) {
    dl_tensor *less = SUB(P(0), N(1));
    return finite_above(p, P(0), 2, DIV(SQUARE(P(1)), MUL(SQUARE(less), SUB(P(0), N(2)))));
}
FORMULA(student_mean) { return BESIDE(above(p, P(0), 1, BESIDE(P(1), P(0))), P(2)); }
FORMULA(student_variance) {
    dl_tensor *wide = MUL(SQUARE(P(2)), DIV(P(0), SUB(P(0), N(2))));
    return BESIDE(above(p, P(0), 1, above_or(p, P(0), 2, wide, INFINITY)), P(1));
}
FORMULA(located_vector) { return BESIDE(P(0), P(2)); }
FORMULA(low_rank_variance) {
    const long last = -1;
    dl_tensor *squares = SQUARE(P(1)), *sum = squares ? keep(p, dl_sum(squares, &last, 1, 0)) : NULL;
    return BESIDE(ADD(sum, P(2)), P(0));
}

FORMULA(pareto_mean) { return finite_above(p, P(1), 1, DIV(MUL(P(1), P(0)), SUB(P(1), N(1)))); }
FORMULA(pareto_variance) {
    dl_tensor *less = SQUARE(SUB(P(1), N(1)));
    return finite_above(p, P(1), 2, DIV(MUL(SQUARE(P(0)), P(1)), MUL(less, SUB(P(1), N(2)))));
}
FORMULA(generalized_pareto_mean) {
    dl_tensor *rest = SUB(N(1), P(2));
    return above(p, rest, 0, ADD(P(0), DIV(P(1), rest)));
}
FORMULA(generalized_pareto_variance) {
    dl_tensor *rest = SUB(N(1), P(2)), *twice = SUB(rest, P(2));
    return BESIDE(above(p, twice, 0, DIV(SQUARE(P(1)), MUL(SQUARE(rest), twice))), P(0));
}
FORMULA(generalized_pareto_mode) { return BESIDE(located(p), P(2)); }
FORMULA(continuous_bernoulli_mean) { return one(p, dl_continuous_bernoulli_mean, P(0)); }
FORMULA(continuous_bernoulli_variance) { return one(p, dl_continuous_bernoulli_variance, P(0)); }
/* gamma(1 + n / k) */
static dl_tensor *weibull_power(pool *p, double n) { return EXP(one(p, dl_lgamma, ADD(N(1), DIV(N(n), P(1))))); }
FORMULA(weibull_mean) { return MUL(P(0), weibull_power(p, 1)); }
FORMULA(weibull_variance) { return MUL(SQUARE(P(0)), SUB(weibull_power(p, 2), SQUARE(weibull_power(p, 1)))); }
/* E[x**n]: b beta(1 + n / a, b) */
static dl_tensor *kumaraswamy_power(pool *p, double n) {
    dl_tensor *a = ADD(N(1), DIV(N(n), P(0))), *b = P(1);
    return MUL(b, EXP(SUB(ADD(one(p, dl_lgamma, a), one(p, dl_lgamma, b)), one(p, dl_lgamma, ADD(a, b)))));
}
FORMULA(kumaraswamy_mean) { return kumaraswamy_power(p, 1); }
FORMULA(kumaraswamy_variance) { return SUB(kumaraswamy_power(p, 2), SQUARE(kumaraswamy_power(p, 1))); }
FORMULA(undefined) { return BESIDE(N(NAN), ADD(P(0), P(1))); }
FORMULA(boundless) { return BESIDE(N(INFINITY), ADD(P(0), P(1))); }
FORMULA(unbounded) { return BESIDE(N(INFINITY), MUL(P(0), N(0))); }
FORMULA(von_mises_variance) { return BESIDE(SUB(N(1), DIV(one(p, dl_i1e, P(1)), one(p, dl_i0e, P(1)))), P(0)); }

/* ---- modes */

FORMULA(none_of_first) { return MUL(P(0), N(0)); }
static dl_tensor *not_below_0(pool *p, dl_tensor *x) {
    const double zero = 0;
    return x ? keep(p, dl_clamp(x, &zero, NULL)) : NULL;
}
FORMULA(gamma_mode) { return DIV(not_below_0(p, SUB(P(0), N(1))), P(1)); }
/* Where both are below 1 the larger end. */
FORMULA(beta_mode) {
    dl_tensor *a = not_below_0(p, SUB(P(0), N(1))), *b = not_below_0(p, SUB(P(1), N(1))), *x = DIV(a, ADD(a, b));
    dl_tensor *bound = N(1), *low = keep(p, dl_lt(P(0), bound)), *flat = keep(p, dl_lt(P(1), bound));
    dl_tensor *both = low && flat ? keep(p, dl_logical_and(low, flat)) : NULL, *upper = keep(p, dl_ge(P(0), P(1)));
    dl_tensor *end = upper && x ? keep(p, dl_to_dtype(upper, dl_dtype_of(x))) : NULL;
    return both && end ? keep(p, dl_where(both, end, x)) : NULL;
}
FORMULA(coin_mode) {
    dl_tensor *zero = N(0), *yes = keep(p, dl_gt(P(0), zero)), *fair = keep(p, dl_eq(P(0), zero));
    dl_tensor *one_ = N(1), *none = N(NAN), *side = yes && one_ ? keep(p, dl_where(yes, one_, zero)) : NULL;
    return fair && side && none ? keep(p, dl_where(fair, none, side)) : NULL;
}
FORMULA(classes_mode) {
    const long last = -1;
    return keep(p, dl_argmax(P(0), &last, 0));
}
FORMULA(one_hot_mode) {
    dl_tensor *best = classes_mode(p);
    dl_tensor *marks = best ? keep(p, dl_one_hot(best, dl_shape(P(0))[dl_ndim(P(0)) - 1])) : NULL;
    return marks ? keep(p, dl_to_dtype(marks, dl_dtype_of(P(0)))) : NULL;
}
FORMULA(log_normal_mode) { return EXP(SUB(P(0), SQUARE(P(1)))); }
FORMULA(whole_part) { return one(p, dl_floor, P(0)); }
FORMULA(chi2_mode) { return not_below_0(p, SUB(P(0), N(2))); }
FORMULA(weibull_mode) {
    return MUL(P(0), two(p, dl_pow, DIV(not_below_0(p, SUB(P(1), N(1))), P(1)), inverse(p, P(1))));
}
FORMULA(kumaraswamy_mode) {
    dl_tensor *a = SUB(P(0), N(1)), *x = two(p, dl_pow, DIV(a, SUB(MUL(P(0), P(1)), N(1))), inverse(p, P(0)));
    return above(p, P(0), 1, above(p, P(1), 1, x));
}
FORMULA(inverse_gamma_mode) { return DIV(P(1), ADD(P(0), N(1))); }
FORMULA(binomial_mode) { return one(p, dl_floor, MUL(ADD(P(0), N(1)), SIGMOID(P(1)))); }
FORMULA(negative_binomial_mode) {
    dl_tensor *failures = not_below_0(p, SUB(P(0), N(1)));
    return one(p, dl_floor, MUL(failures, EXP(P(1))));
}
FORMULA(student_mode) { return BESIDE(P(1), P(0)); }
FORMULA(pareto_mode) { return BESIDE(P(0), P(1)); }

typedef dl_tensor *formula(pool *p);
static const struct row {
    const char *of;
    formula *mean, *variance, *mode;
} rows[] = {
    {"normal", located, second_squared, located},
    {"laplace", located, laplace_variance, located},
    {"uniform", uniform_mean, uniform_variance, NULL},
    {"exponential", exponential_mean, exponential_variance, none_of_first},
    {"gamma", gamma_mean, gamma_variance, gamma_mode},
    {"beta", beta_mean, beta_variance, beta_mode},
    {"dirichlet", dirichlet_mean, dirichlet_variance, NULL},
    {"bernoulli", coin, coin_variance, coin_mode},
    {"multivariate_normal", multivariate_mean, triangle_variance, multivariate_mean},
    {"log_normal", log_normal_mean, log_normal_variance, log_normal_mode},
    {"half_normal", half_normal_mean, half_normal_variance, none_of_first},
    {"gumbel", gumbel_mean, gumbel_variance, located},
    {"chi2", first, twice, chi2_mode},
    {"geometric", geometric_mean, geometric_variance, none_of_first},
    {"poisson", first, first, whole_part},
    {"binomial", binomial_mean, binomial_variance, binomial_mode},
    {"negative_binomial", negative_binomial_mean, negative_binomial_variance, negative_binomial_mode},
    {"one_hot_categorical", classes, classes_variance, one_hot_mode},
    {"fisher_snedecor", fisher_mean, fisher_variance, NULL},
    {"inverse_gamma", inverse_gamma_mean, inverse_gamma_variance, inverse_gamma_mode},
    {"low_rank_multivariate_normal", located_vector, low_rank_variance, located_vector},
    {"student_t", student_mean, student_variance, student_mode},
    {"cauchy", undefined, boundless, located},
    {"half_cauchy", unbounded, unbounded, none_of_first},
    {"pareto", pareto_mean, pareto_variance, pareto_mode},
    {"generalized_pareto", generalized_pareto_mean, generalized_pareto_variance, generalized_pareto_mode},
    {"continuous_bernoulli", continuous_bernoulli_mean, continuous_bernoulli_variance, NULL},
    {"weibull", weibull_mean, weibull_variance, weibull_mode},
    {"kumaraswamy", kumaraswamy_mean, kumaraswamy_variance, kumaraswamy_mode},
    {"von_mises", located, von_mises_variance, located},
    {"categorical", NULL, NULL, classes_mode},
};

static dl_tensor *computed(formula *f, dl_tensor *const *param) {
    pool p = {.param = param};
    dl_tensor *out = f(&p);
    return end_pool(&p, out);
}

/* The formula of a field of distributions of that kind; NULL: there is none. */
static formula *formula_of(const char *kind, const char *field) {
    for (size_t i = 0; i < DLSH_COUNT(rows); i++)
        if (!strcmp(rows[i].of, kind))
            return !strcmp(field, "mean") ? rows[i].mean : !strcmp(field, "mode") ? rows[i].mode : rows[i].variance;
    return NULL;
}

dl_status dlsh_moment(const char *kind, dl_tensor *const *param, const char *field, dlsh_value *out) {
    const int deviation = !strcmp(field, "stddev");
    static const char *const fields[] = {"mean", "variance", "stddev", "mode"};
    int known = 0;
    for (size_t i = 0; i < DLSH_COUNT(fields); i++) known |= !strcmp(fields[i], field);
    if (!known) return DL_ERR_NAME;
    formula *f = formula_of(kind, field);
    if (!f) return DL_ERR_NAME;
    DLSH_OWNED dl_tensor *t = computed(f, param);
    if (!t) return dl_failed();
    return dlsh_give(dlsh_tensor(deviation ? dl_sqrt(t) : dl_ref(t)), out);
}

dl_tensor *dlsh_shares_of(dl_tensor *logits, int of_classes) { return computed(of_classes ? classes : coin, &logits); }
