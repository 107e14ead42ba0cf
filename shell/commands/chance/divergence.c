/* kl_divergence(p, q). Of two distributions of one kind an op computes it. Of two kinds it is -H(p) - E[ln q(x)], x
 * drawn from p: a row of p has expectations of functions of x, a row of q says which ones ln q(x) is made of. It is
 * infinite where p has values outside of those of q. */
#include <math.h>
#include <stdio.h>

#include "commands/chance/kind.h"
#include "commands/chance/moments.h"
#include "commands/chance/pool.h"

#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/distribution.h"
#include "dlcore/index.h"
#include "dlcore/linalg.h"
#include "dlcore/matmul.h"
#include "dlcore/where.h"

/* What is expected of x; the last two by the parameters (m, s) of q: of exp((m - x) / s) and of |x - m|. */
typedef enum expectation { MEAN, VARIANCE, LOG_X, LOG_REST, DECAY, DISTANCE, LOG_FACTORIAL, EXPECTATIONS } expectation;

/* The parameters of a formula: those of p, of q, and what is expected. */
enum { OF_Q = MAX_PARAMS, EXPECTED = 2 * MAX_PARAMS, OPERANDS = EXPECTED + EXPECTATIONS };
#define Q(i) P(OF_Q + (i))
#define E(what) P(EXPECTED + (what))
#define LOG(a) one(p, dl_log, a)
#define NEG(a) one(p, dl_neg, a)
#define LGAMMA(a) one(p, dl_lgamma, a)
#define DIGAMMA(a) one(p, dl_digamma, a)
#define XLOGX(a) two(p, dl_xlogy, a, a)
typedef dl_tensor *formula(pool *p);
#define FORMULA(name) static dl_tensor *name(pool *p)
static const double euler = 0.57721566490153286;

/* ---- the least and the greatest value; of q by its own parameters, which then stand for those of p */

FORMULA(minus_infinity) { return N(-INFINITY); }
FORMULA(infinity) { return N(INFINITY); }
FORMULA(zero) { return N(0); }
FORMULA(one_) { return N(1); }
FORMULA(first) { return P(0); }
FORMULA(second) { return P(1); }
FORMULA(above_zero) { return P(0); }

/* ---- expectations */

FORMULA(beta_log) { return SUB(DIGAMMA(P(0)), DIGAMMA(ADD(P(0), P(1)))); }
FORMULA(beta_log_rest) { return SUB(DIGAMMA(P(1)), DIGAMMA(ADD(P(0), P(1)))); }
FORMULA(exponential_log) { return SUB(N(-euler), LOG(P(0))); }
FORMULA(gamma_log) { return SUB(DIGAMMA(P(0)), LOG(P(1))); }
FORMULA(chi2_log) { return ADD(DIGAMMA(MUL(P(0), N(0.5))), N(M_LN2)); }
FORMULA(pareto_log) { return ADD(LOG(P(0)), DIV(N(1), P(1))); }
FORMULA(weibull_log) { return SUB(LOG(P(0)), DIV(N(euler), P(1))); }
FORMULA(uniform_log) { return SUB(DIV(SUB(XLOGX(P(1)), XLOGX(P(0))), SUB(P(1), P(0))), N(1)); }
FORMULA(uniform_log_rest) {
    dl_tensor *low = SUB(N(1), P(1)), *high = SUB(N(1), P(0));
    return SUB(DIV(SUB(XLOGX(high), XLOGX(low)), SUB(high, low)), N(1));
}
FORMULA(exponential_decay) { return DIV(MUL(P(0), EXP(DIV(Q(0), Q(1)))), ADD(P(0), DIV(N(1), Q(1)))); }
FORMULA(chi2_decay) { return EXP(SUB(DIV(Q(0), Q(1)), MUL(MUL(P(0), N(0.5)), one(p, dl_log1p, DIV(N(2), Q(1)))))); }
FORMULA(gamma_decay) { return EXP(SUB(DIV(Q(0), Q(1)), MUL(P(0), one(p, dl_log1p, DIV(N(1), MUL(Q(1), P(1))))))); }
FORMULA(normal_decay) { return EXP(ADD(DIV(SUB(Q(0), P(0)), Q(1)), MUL(N(0.5), SQUARE(DIV(P(1), Q(1)))))); }
FORMULA(uniform_decay) {
    dl_tensor *low = EXP(DIV(SUB(Q(0), P(0)), Q(1))), *high = EXP(DIV(SUB(Q(0), P(1)), Q(1)));
    return MUL(DIV(Q(1), SUB(P(1), P(0))), SUB(low, high));
}
FORMULA(normal_distance) {
    dl_tensor *gap = SUB(P(0), Q(0)), *z = DIV(gap, MUL(P(1), N(M_SQRT2)));
    return ADD(MUL(MUL(P(1), N(sqrt(2 / M_PI))), EXP(NEG(SQUARE(z)))), MUL(gap, one(p, dl_erf, z)));
}

/* The distributions over numbers: the rows of p. */
static const struct values {
    const char *name;
    int discrete;
    formula *low, *high, *expected[EXPECTATIONS]; /* the moments are those of moments.c */
} values[] = {
    {"normal", 0, minus_infinity, infinity, {[DECAY] = normal_decay, [DISTANCE] = normal_distance}},
    {"laplace", 0, minus_infinity, infinity, {NULL}},
    {"gumbel", 0, minus_infinity, infinity, {NULL}},
    {"exponential", 0, zero, infinity, {[LOG_X] = exponential_log, [DECAY] = exponential_decay}},
    {"gamma", 0, zero, infinity, {[LOG_X] = gamma_log, [DECAY] = gamma_decay}},
    {"chi2", 0, zero, infinity, {[LOG_X] = chi2_log, [DECAY] = chi2_decay}},
    {"log_normal", 0, zero, infinity, {[LOG_X] = first}},
    {"weibull", 0, zero, infinity, {[LOG_X] = weibull_log}},
    {"pareto", 0, above_zero, infinity, {[LOG_X] = pareto_log}},
    {"beta", 0, zero, one_, {[LOG_X] = beta_log, [LOG_REST] = beta_log_rest}},
    {"continuous_bernoulli", 0, zero, one_, {NULL}},
    {"uniform", 0, first, second, {[LOG_X] = uniform_log, [LOG_REST] = uniform_log_rest, [DECAY] = uniform_decay}},
    {"bernoulli", 1, zero, one_, {[LOG_FACTORIAL] = zero}},
    {"geometric", 1, zero, infinity, {NULL}},
    {"poisson", 1, zero, infinity, {NULL}},
    {"binomial", 1, zero, first, {NULL}},
    {"negative_binomial", 1, zero, infinity, {NULL}},
};

/* ---- E[ln q(x)] */

FORMULA(in_normal) {
    dl_tensor *spread = ADD(E(VARIANCE), SQUARE(SUB(E(MEAN), Q(0))));
    return SUB(N(-0.91893853320467274), ADD(LOG(Q(1)), DIV(spread, MUL(N(2), SQUARE(Q(1))))));
}
FORMULA(in_exponential) { return SUB(LOG(Q(0)), MUL(Q(0), E(MEAN))); }
FORMULA(in_gamma) {
    dl_tensor *power = ADD(MUL(Q(0), LOG(Q(1))), MUL(SUB(Q(0), N(1)), E(LOG_X)));
    return SUB(SUB(power, LGAMMA(Q(0))), MUL(Q(1), E(MEAN)));
}
FORMULA(in_chi2) {
    dl_tensor *half = MUL(Q(0), N(0.5)), *power = SUB(MUL(SUB(half, N(1)), E(LOG_X)), MUL(half, N(M_LN2)));
    return SUB(SUB(power, LGAMMA(half)), MUL(N(0.5), E(MEAN)));
}
FORMULA(in_beta) {
    dl_tensor *power = ADD(MUL(SUB(Q(0), N(1)), E(LOG_X)), MUL(SUB(Q(1), N(1)), E(LOG_REST)));
    return ADD(power, SUB(LGAMMA(ADD(Q(0), Q(1))), ADD(LGAMMA(Q(0)), LGAMMA(Q(1)))));
}
FORMULA(in_uniform) { return NEG(LOG(SUB(Q(1), Q(0)))); }
FORMULA(in_pareto) { return SUB(ADD(LOG(Q(1)), MUL(Q(1), LOG(Q(0)))), MUL(ADD(Q(1), N(1)), E(LOG_X))); }
/* The logarithm of this density is a line. */
FORMULA(in_continuous_bernoulli) { return two(p, dl_continuous_bernoulli_log_prob, E(MEAN), Q(0)); }
FORMULA(in_gumbel) { return SUB(NEG(ADD(LOG(Q(1)), DIV(SUB(E(MEAN), Q(0)), Q(1)))), E(DECAY)); }
FORMULA(in_laplace) { return NEG(ADD(LOG(MUL(N(2), Q(1))), DIV(E(DISTANCE), Q(1)))); }
FORMULA(in_poisson) { return SUB(SUB(MUL(E(MEAN), LOG(Q(0))), Q(0)), E(LOG_FACTORIAL)); }

#define NEEDS(what) (1 << (what))
static const struct density {
    const char *name;
    int needs;
    formula *expected_log;
} densities[] = {
    {"normal", NEEDS(MEAN) | NEEDS(VARIANCE), in_normal},
    {"exponential", NEEDS(MEAN), in_exponential},
    {"gamma", NEEDS(MEAN) | NEEDS(LOG_X), in_gamma},
    {"chi2", NEEDS(MEAN) | NEEDS(LOG_X), in_chi2},
    {"beta", NEEDS(LOG_X) | NEEDS(LOG_REST), in_beta},
    {"uniform", 0, in_uniform},
    {"pareto", NEEDS(LOG_X), in_pareto},
    {"continuous_bernoulli", NEEDS(MEAN), in_continuous_bernoulli},
    {"gumbel", NEEDS(MEAN) | NEEDS(DECAY), in_gumbel},
    {"laplace", NEEDS(DISTANCE), in_laplace},
    {"poisson", NEEDS(MEAN) | NEEDS(LOG_FACTORIAL), in_poisson},
};

static const struct values *values_of(const distribution *d) {
    for (size_t i = 0; i < DLSH_COUNT(values); i++)
        if (!strcmp(values[i].name, d->is->name)) return &values[i];
    return NULL;
}

static const struct density *density_of(const distribution *d) {
    for (size_t i = 0; i < DLSH_COUNT(densities); i++)
        if (!strcmp(densities[i].name, d->is->name)) return &densities[i];
    return NULL;
}

/* The result of a formula, a new reference. */
static dl_tensor *computed(formula *f, dl_tensor *const *operands) {
    pool p = {.param = operands};
    dl_tensor *out = f(&p);
    return end_pool(&p, out);
}

/* What is expected of x, a new reference; NULL with *known 0: there is no formula for it. */
static dl_tensor *expected_of(const distribution *d, const struct values *v, int what, dl_tensor *const *operands,
                              int *known) {
    static const char *const moments[] = {[MEAN] = "mean", [VARIANCE] = "variance"};
    if (what > VARIANCE) {
        *known = v->expected[what] != NULL;
        return *known ? computed(v->expected[what], operands) : NULL;
    }
    dlsh_value t = dlsh_void();
    const dl_status st = dlsh_moment(d->is->name, d->param, moments[what], &t);
    *known = st != DL_ERR_NAME;
    return st ? NULL : t.as.tensor;
}

static dl_status unknown(const distribution *p, const distribution *q) {
    return dlsh_fail(DL_ERR_UNSUPPORTED, "the mean of p.log_prob(x) - q.log_prob(x) over x = p.sample(n) estimates it",
                     "the divergence of %s from %s is not known in closed form", p->is->name, q->is->name);
}

/* Has p values below or above all of q, whatever the parameters? */
static int always_outside(const struct values *p, const struct values *q) {
    return (p->low == minus_infinity && q->low != minus_infinity) || (p->high == infinity && q->high != infinity) ||
           (p->low == zero && q->low == above_zero);
}

/* -H(p) - E[ln q(x)]; NULL with *known 0: it is not known. */
static dl_tensor *divergence(const distribution *p, const distribution *q, const struct values *v, dl_tensor **operands,
                             int *known) {
    const struct density *density = density_of(q);
    DLSH_DROPPED dlsh_value entropy = dlsh_void();
    char name[64];
    dl_op_info row;
    snprintf(name, sizeof name, "%s_entropy", p->is->name);
    *known = density && dl_op_describe_name(name, &row);
    for (int i = 0; i < EXPECTATIONS && *known; i++)
        if (density->needs >> i & 1 && !(operands[EXPECTED + i] = expected_of(p, v, i, operands, known))) return NULL;
    if (!*known || dlsh_distribution_call(p->is, "entropy", (dl_tensor **)p->param, p->is->nparams, NULL, &entropy))
        return NULL;
    DLSH_OWNED dl_tensor *log_q = computed(density->expected_log, operands),
                         *cross = log_q ? dl_add(log_q, entropy.as.tensor) : NULL;
    return dl_neg(cross);
}

/* 0 in the shape that the parameters have in common. */
FORMULA(nothing) {
    dl_tensor *sum = N(0);
    for (int i = 0; i < 2 * MAX_PARAMS; i++)
        if (P(i)) sum = ADD(sum, MUL(P(i), N(0)));
    return sum;
}

/* Bounds of q are formulas of its own parameters. */
static dl_tensor *is_inside(const struct values *v, const struct values *w, dl_tensor *const *operands) {
    DLSH_OWNED dl_tensor *low = computed(v->low, operands), *high = computed(v->high, operands),
                         *least = computed(w->low, operands + OF_Q), *most = computed(w->high, operands + OF_Q);
    DLSH_OWNED dl_tensor *above = dl_ge(low, least), *below = dl_le(high, most);
    return dl_logical_and(above, below);
}

static dl_status kl_of_kinds(const distribution *p, const distribution *q, dlsh_value *result) {
    const struct values *v = values_of(p), *w = values_of(q);
    dl_tensor *operands[OPERANDS] = {NULL};
    int known = 1;
    if (!v || !w || v->discrete != w->discrete) return unknown(p, q);
    for (int i = 0; i < MAX_PARAMS; i++) operands[i] = p->param[i], operands[OF_Q + i] = q->param[i];
    const int never = always_outside(v, w);
    DLSH_OWNED dl_tensor *finite = never ? computed(nothing, operands) : divergence(p, q, v, operands, &known),
                         *inside = finite ? is_inside(v, w, operands) : NULL, *most = dl_scalar_f(INFINITY),
                         *out = inside && most ? dl_where(inside, finite, most) : NULL;
    for (int i = EXPECTED; i < OPERANDS; i++) dl_unref(operands[i]);
    if (!known) return unknown(p, q);
    return out ? dlsh_give(dlsh_tensor(dl_ref(out)), result) : dl_failed();
}

/* ---- Gaussian vectors: W W^T + diag(D) as the triangle of a covariance */

static dl_tensor *triangle_of_low_rank(const distribution *d) {
    DLSH_OWNED dl_tensor *turned = dl_adjoint(d->param[1]), *square = turned ? dl_matmul(d->param[1], turned) : NULL,
                         *diagonal = square ? dl_diag_embed(d->param[2], 0, -2, -1) : NULL,
                         *covariance = diagonal ? dl_add(square, diagonal) : NULL;
    return covariance ? dl_cholesky(covariance, 0) : NULL;
}

static int is_called(const distribution *d, const char *name) { return !strcmp(d->is->name, name); }

/* The two of them, one of low rank; 0: something else. */
static int are_gaussian(const distribution *p, const distribution *q) {
    static const char full[] = "multivariate_normal", low[] = "low_rank_multivariate_normal";
    return (is_called(p, full) && is_called(q, low)) || (is_called(p, low) && is_called(q, full));
}

static dl_status kl_of_gaussian(const distribution *p, const distribution *q, dlsh_value *result) {
    const int first = p->is->nparams > 2;
    DLSH_OWNED dl_tensor *made = triangle_of_low_rank(first ? p : q);
    if (!made) return dl_failed();
    dl_tensor *in[4] = {p->param[0], first ? made : p->param[1], q->param[0], first ? q->param[1] : made};
    return dlsh_distribution_call(first ? q->is : p->is, "kl", in, 4, NULL, result);
}

/* ---- distributions made of others */

/* By the same bijectors, which leave the divergence as it is. */
static int same_transforms(const distribution *p, const distribution *q) {
    const dlsh_list *a = p->part[1].as.list, *b = q->part[1].as.list;
    int same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++) same = a->items[i].as.handle == b->items[i].as.handle;
    return same;
}

static dl_status kl_of_made(const distribution *p, const distribution *q, dlsh_value *result) {
    if (p->is->form == TRANSFORMED && same_transforms(p, q))
        return dlsh_distribution_kl(part_of(p, 0), part_of(q, 0), result);
    if (p->is->form != INDEPENDENT || p->whole != q->whole) return unknown(p, q);
    DLSH_DROPPED dlsh_value each = dlsh_void();
    DLSH_TRY(dlsh_distribution_kl(part_of(p, 0), part_of(q, 0), &each));
    return dlsh_give(dlsh_tensor(dlsh_sum_of_last(each.as.tensor, (int)p->whole)), result);
}

dl_status dlsh_distribution_kl(const distribution *p, const distribution *q, dlsh_value *result) {
    dl_tensor *in[2 * MAX_PARAMS];
    if (p->is->form != q->is->form) return unknown(p, q);
    if (p->is->form) return kl_of_made(p, q, result);
    if (strcmp(ops_of(p->is), ops_of(q->is)) != 0)
        return are_gaussian(p, q) ? kl_of_gaussian(p, q, result) : kl_of_kinds(p, q, result);
    for (int i = 0; i < p->is->nparams; i++) in[i] = p->param[i], in[p->is->nparams + i] = q->param[i];
    return dlsh_distribution_call(p->is, "kl", in, 2 * p->is->nparams, NULL, result);
}
