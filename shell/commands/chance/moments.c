/* Means and variances of distributions, by formulas of their parameters. */
#include "commands/chance/moments.h"
#include "commands/chance/pool.h"

#include <math.h>
#include <string.h>

#include "dlcore/compare.h"
#include "dlcore/where.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"

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
FORMULA(fisher_mean) { return BESIDE(above(p, P(1), 2, DIV(P(1), SUB(P(1), N(2)))), P(0)); }
FORMULA(fisher_variance) {
    dl_tensor *a = P(0), *b = P(1), *less = SUB(b, N(2));
    dl_tensor *top = MUL(MUL(N(2), SQUARE(b)), SUB(ADD(a, b), N(2)));
    return above(p, b, 4, DIV(top, MUL(MUL(a, SQUARE(less)), SUB(b, N(4)))));
}
FORMULA(inverse_gamma_mean) { return above(p, P(0), 1, DIV(P(1), SUB(P(0), N(1)))); }
FORMULA(inverse_gamma_variance) {
    dl_tensor *less = SUB(P(0), N(1));
    return above(p, P(0), 2, DIV(SQUARE(P(1)), MUL(SQUARE(less), SUB(P(0), N(2)))));
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

typedef dl_tensor *formula(pool *p);
static const struct row {
    const char *of;
    formula *mean, *variance;
} rows[] = {
    {"normal", located, second_squared},
    {"laplace", located, laplace_variance},
    {"uniform", uniform_mean, uniform_variance},
    {"exponential", exponential_mean, exponential_variance},
    {"gamma", gamma_mean, gamma_variance},
    {"beta", beta_mean, beta_variance},
    {"dirichlet", dirichlet_mean, dirichlet_variance},
    {"bernoulli", coin, coin_variance},
    {"multivariate_normal", multivariate_mean, triangle_variance},
    {"log_normal", log_normal_mean, log_normal_variance},
    {"half_normal", half_normal_mean, half_normal_variance},
    {"gumbel", gumbel_mean, gumbel_variance},
    {"chi2", first, twice},
    {"geometric", geometric_mean, geometric_variance},
    {"poisson", first, first},
    {"binomial", binomial_mean, binomial_variance},
    {"negative_binomial", negative_binomial_mean, negative_binomial_variance},
    {"one_hot_categorical", classes, classes_variance},
    {"fisher_snedecor", fisher_mean, fisher_variance},
    {"inverse_gamma", inverse_gamma_mean, inverse_gamma_variance},
    {"low_rank_multivariate_normal", located_vector, low_rank_variance},
    {"student_t", student_mean, student_variance},
};

static dl_tensor *computed(formula *f, dl_tensor *const *param) {
    pool p = {.param = param};
    dl_tensor *out = f(&p);
    return end_pool(&p, out);
}

/* The formula of a field of distributions of that kind; NULL: there is none. */
static formula *formula_of(const char *kind, const char *field) {
    for (size_t i = 0; i < DLSH_COUNT(rows); i++)
        if (!strcmp(rows[i].of, kind)) return !strcmp(field, "mean") ? rows[i].mean : rows[i].variance;
    return NULL;
}

dl_status dlsh_moment(const char *kind, dl_tensor *const *param, const char *field, dlsh_value *out) {
    const int deviation = !strcmp(field, "stddev");
    if (!deviation && strcmp(field, "mean") != 0 && strcmp(field, "variance") != 0) return DL_ERR_NAME;
    formula *f = formula_of(kind, field);
    if (!f) return DL_ERR_NAME;
    DLSH_OWNED dl_tensor *t = computed(f, param);
    if (!t) return dl_failed();
    return dlsh_give(dlsh_tensor(deviation ? dl_sqrt(t) : dl_ref(t)), out);
}

dl_tensor *dlsh_shares_of(dl_tensor *logits, int of_classes) { return computed(of_classes ? classes : coin, &logits); }
