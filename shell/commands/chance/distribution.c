/* distribution(...): probability distributions as values, which draw, and compute densities, entropies and divergences.
 * Each is computed by an op, NAME_log_prob and so on; here are their parameters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/chance/kind.h"
#include "commands/chance/mixture.h"
#include "commands/chance/moments.h"
#include "commands/chance/bijector.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/elementary.h"
#include "dlcore/linalg.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"

/* ---- conversions: NULL passes through */

static dl_tensor *inside(dl_tensor *p) {
    const double low = dl_dtype_of(p) == DL_F64 ? 0x1p-52 : 0x1p-23, high = 1 - low;
    return dl_clamp(p, &low, &high);
}

static dl_tensor *logits_of_coin(dl_tensor *probs) {
    dl_tensor *p = inside(probs), *log = dl_log(p), *minus = dl_neg(p), *rest = dl_log1p(minus),
              *out = dl_sub(log, rest);
    DLSH_UNREF(p, log, minus, rest);
    return out;
}

static dl_tensor *logits_of_classes(dl_tensor *probs) {
    const long last = -1;
    DLSH_OWNED dl_tensor *sum = dl_sum(probs, &last, 1, 1), *share = dl_div(probs, sum),
                         *p = share ? inside(share) : NULL;
    return dl_log(p);
}

static dl_tensor *triangle_of(dl_tensor *covariance) { return dl_cholesky(covariance, 0); }

static dl_tensor *triangle_of_inverse(dl_tensor *precision) {
    DLSH_OWNED dl_tensor *covariance = dl_inv(precision);
    return covariance ? triangle_of(covariance) : NULL;
}

/* Fields of what is kept as the triangle of a covariance. */
static dl_tensor *covariance_of(dl_tensor *l) {
    DLSH_OWNED dl_tensor *turned = dl_adjoint(l);
    return turned ? dl_matmul(l, turned) : NULL;
}
static dl_tensor *precision_of(dl_tensor *l) {
    DLSH_OWNED dl_tensor *covariance = covariance_of(l);
    return covariance ? dl_inv(covariance) : NULL;
}
static const struct derived {
    const char *of, *name;
    dl_tensor *(*compute)(dl_tensor *);
} derived[] = {{"scale_tril", "covariance_matrix", covariance_of}, {"scale_tril", "precision_matrix", precision_of}};

#define FREE(name_)                                                                                                    \
    { .name = name_ }
#define ABOVE_0(name_)                                                                                                 \
    { .name = name_, .limit = POSITIVE }
#define SHARES_BY(f)                                                                                                   \
    { .name = "probs", .limit = SHARES, .kept = "logits", .convert = f }
#define SUCCESS SHARES_BY(logits_of_coin)
#define CLASSES SHARES_BY(logits_of_classes)
#define COVARIANCE                                                                                                     \
    {                                                                                                                  \
        .name = "covariance_matrix", .kept = "scale_tril", .convert = triangle_of, .also = "precision_matrix",         \
        .from = triangle_of_inverse                                                                                    \
    }
/* KIND(name, description, parameters, (each of them), more) */
#define EACH(...) __VA_ARGS__
#define KIND(name_, doc_, n, each, ...) {.name = name_, .doc = doc_, .nparams = n, .params = {EACH each}, __VA_ARGS__},
#define SMOOTH .differentiable = 1
static const kind kinds[] = {
    /* clang-format off */
    KIND("normal", "loc, scale", 2, (FREE("loc"), ABOVE_0("scale")), SMOOTH)
    KIND("laplace", "loc, scale", 2, (FREE("loc"), ABOVE_0("scale")), SMOOTH)
    KIND("uniform", "low, high", 2, (FREE("low"), FREE("high")), SMOOTH)
    KIND("exponential", "rate", 1, (ABOVE_0("rate")), SMOOTH)
    KIND("gamma", "concentration, rate", 2, (ABOVE_0("concentration"), ABOVE_0("rate")), SMOOTH)
    KIND("beta", "concentration1, concentration0", 2, (ABOVE_0("concentration1"), ABOVE_0("concentration0")), SMOOTH)
    KIND("dirichlet", "concentration", 1, (ABOVE_0("concentration")), SMOOTH, .values = VECTORS)
    KIND("bernoulli", "probs, or logits=", 1, (SUCCESS), .values = NUMBERS)
    KIND("continuous_bernoulli", "probs, or logits=", 1, (SUCCESS), SMOOTH)
    KIND("categorical", "probs, or logits=", 1, (CLASSES), .values = INDICES)
    KIND("multivariate_normal", "loc, covariance_matrix, or precision_matrix= or scale_tril=", 2, (FREE("loc"), COVARIANCE), SMOOTH, .values = VECTORS)
    KIND("log_normal", "loc, scale", 2, (FREE("loc"), ABOVE_0("scale")), SMOOTH)
    KIND("logistic_normal", "loc, scale", 2, (FREE("loc"), ABOVE_0("scale")), SMOOTH, .values = VECTORS, .more = 1)
    KIND("cauchy", "loc, scale", 2, (FREE("loc"), ABOVE_0("scale")), SMOOTH)
    KIND("half_cauchy", "scale", 1, (ABOVE_0("scale")), SMOOTH)
    KIND("half_normal", "scale", 1, (ABOVE_0("scale")), SMOOTH)
    KIND("gumbel", "loc, scale", 2, (FREE("loc"), ABOVE_0("scale")), SMOOTH)
    KIND("weibull", "scale, concentration", 2, (ABOVE_0("scale"), ABOVE_0("concentration")), SMOOTH)
    KIND("pareto", "scale, alpha", 2, (ABOVE_0("scale"), ABOVE_0("alpha")), SMOOTH)
    KIND("generalized_pareto", "loc, scale, concentration", 3, (FREE("loc"), ABOVE_0("scale"), FREE("concentration")), SMOOTH)
    KIND("student_t", "df, loc, scale", 3, (ABOVE_0("df"), FREE("loc"), ABOVE_0("scale")), SMOOTH)
    KIND("chi2", "df", 1, (ABOVE_0("df")), SMOOTH)
    KIND("kumaraswamy", "concentration1, concentration0", 2, (ABOVE_0("concentration1"), ABOVE_0("concentration0")), SMOOTH)
    KIND("geometric", "probs, or logits=", 1, (SUCCESS), .values = NUMBERS)
    KIND("negative_binomial", "total_count, probs, or logits=", 2, (ABOVE_0("total_count"), SUCCESS), .values = NUMBERS)
    KIND("poisson", "rate", 1, (ABOVE_0("rate")), .values = NUMBERS)
    KIND("binomial", "total_count, probs, or logits=", 2, (ABOVE_0("total_count"), SUCCESS), .values = NUMBERS)
    KIND("one_hot_categorical", "probs, or logits=", 1, (CLASSES), .values = VECTORS)
    KIND("one_hot_categorical_straight_through", "probs, or logits=", 1, (CLASSES), SMOOTH, .values = VECTORS, .ops = "one_hot_categorical")
    KIND("von_mises", "loc, concentration", 2, (FREE("loc"), ABOVE_0("concentration")), .values = NUMBERS)
    KIND("relaxed_bernoulli", "temperature, probs, or logits=", 2, (ABOVE_0("temperature"), SUCCESS), SMOOTH)
    KIND("relaxed_one_hot_categorical", "temperature, probs, or logits=", 2, (ABOVE_0("temperature"), CLASSES), SMOOTH, .values = VECTORS)
    KIND("fisher_snedecor", "df1, df2", 2, (ABOVE_0("df1"), ABOVE_0("df2")), SMOOTH)
    KIND("inverse_gamma", "concentration, rate", 2, (ABOVE_0("concentration"), ABOVE_0("rate")), SMOOTH)
    KIND("low_rank_multivariate_normal", "loc, cov_factor, cov_diag", 3, (FREE("loc"), FREE("cov_factor"), ABOVE_0("cov_diag")), SMOOTH, .values = VECTORS)
    KIND("wishart", "df, covariance_matrix, or precision_matrix= or scale_tril=", 2, (ABOVE_0("df"), COVARIANCE), SMOOTH, .values = MATRICES)
    KIND("lkj_cholesky", "dim, concentration", 1, (ABOVE_0("concentration")), SMOOTH, .values = MATRICES, .whole = "dim")
    KIND("multinomial", "total_count, probs, or logits=", 1, (CLASSES), .values = VECTORS, .whole = "total_count")
    KIND("mixture_same_family", "a categorical distribution and one of the components", 0, (FREE(NULL)), .form = MIXTURE)
    KIND("independent", "a distribution and how many dimensions of it count as one value", 0, (FREE(NULL)), .form = INDEPENDENT,
         .whole = "reinterpreted_batch_ndims")
    KIND("transformed_distribution", "a distribution and a bijector or a list of them", 0, (FREE(NULL)), .form = TRANSFORMED)
    /* clang-format on */
};
enum { KINDS = DLSH_COUNT(kinds) };

static const char *const part_names[4][2] = {[MIXTURE] = {"mixture_distribution", "component_distribution"},
                                             [INDEPENDENT] = {"base_dist", NULL},
                                             [TRANSFORMED] = {"base_dist", "transforms"}};
static const char *kept_name(const param *p) { return p->kept ? p->kept : p->name; }

/* Are draws functions of the parameters and of noise? */
static int is_smooth(const distribution *d) {
    while (d->is->form > MIXTURE) d = part_of(d, 0);
    return d->is->differentiable;
}

/* ---- the value */

static void destroy(void *self) {
    distribution *d = self;
    for (int i = 0; i < MAX_PARAMS; i++) dl_unref(d->param[i]);
    for (int i = 0; i < 2; i++) dlsh_drop(d->part[i]);
    free(d);
}

static dl_status text(void *self, dlsh_buf *out) {
    const distribution *d = self;
    dlsh_buf_printf(out, "<distribution %s(", d->is->name);
    for (int i = 0; i < d->is->nparams; i++) dlsh_buf_printf(out, "%s%s", i ? ", " : "", kept_name(&d->is->params[i]));
    if (d->is->form) dlsh_buf_puts(out, part_of(d, 0)->is->name);
    if (is_mixture(d)) dlsh_buf_printf(out, ", %s", part_of(d, 1)->is->name);
    dlsh_buf_puts(out, ")>");
    return DL_OK;
}

static int is_moment(const char *name) {
    return !strcmp(name, "mean") || !strcmp(name, "variance") || !strcmp(name, "stddev") || !strcmp(name, "mode");
}

/* Of counts: total_count times the moments of one trial; of the deviation its root. */
static dl_status counts_moment(const distribution *d, const char *name, dlsh_value *out) {
    DLSH_DROPPED dlsh_value each = dlsh_void();
    DLSH_TRY(dlsh_moment("one_hot_categorical", d->param, name, &each));
    const double n = (double)d->whole;
    DLSH_OWNED dl_tensor *factor = dl_scalar_f(!strcmp(name, "stddev") ? sqrt(n) : n);
    return dlsh_give(dlsh_tensor(factor ? dl_mul(each.as.tensor, factor) : NULL), out);
}

static dl_status get(void *self, const char *name, dlsh_value *out) {
    const distribution *d = self;
    for (int i = 0; i < d->is->nparams; i++)
        if (!strcmp(kept_name(&d->is->params[i]), name)) return *out = dlsh_tensor(dl_ref(d->param[i])), DL_OK;
    for (int i = 0; i < 2 && part_names[d->is->form][i]; i++)
        if (!strcmp(part_names[d->is->form][i], name)) return *out = dlsh_ref(d->part[i]), DL_OK;
    if (d->is->whole && !strcmp(d->is->whole, name)) return *out = dlsh_int(d->whole), DL_OK;
    if (!strcmp(name, "batch_shape")) return dlsh_distribution_shapes(d, out, NULL);
    if (!strcmp(name, "event_shape")) return dlsh_distribution_shapes(d, NULL, out);
    if (!strcmp(name, "has_rsample")) return *out = dlsh_bool(is_smooth(d)), DL_OK;
    for (size_t k = 0; k < DLSH_COUNT(derived); k++)
        for (int i = 0; i < d->is->nparams && !strcmp(name, derived[k].name); i++)
            if (d->is->params[i].kept && !strcmp(d->is->params[i].kept, derived[k].of))
                return dlsh_give(dlsh_tensor(derived[k].compute(d->param[i])), out);
    for (int i = 0; i < d->is->nparams && !strcmp(name, "probs"); i++)
        if (d->is->params[i].kept && !strcmp(d->is->params[i].kept, "logits"))
            return dlsh_give(dlsh_tensor(dlsh_shares_of(d->param[i], d->is->params[i].convert == logits_of_classes)),
                             out);
    if (!strcmp(d->is->name, "multinomial")) return counts_moment(d, name, out);
    if (d->is->form == INDEPENDENT && is_moment(name)) return get(part_of(d, 0), name, out);
    return d->is->form ? DL_ERR_NAME : dlsh_moment(ops_of(d->is), d->param, name, out);
}

dl_tensor *dlsh_distribution_param(const void *self, int i) {
    const distribution *d = self;
    while (d->is->form > MIXTURE) d = part_of(d, 0);
    if (!is_mixture(d)) return i < d->is->nparams ? d->param[i] : NULL;
    const int chooser = part_of(d, 0)->is->nparams;
    return i < chooser ? part_of(d, 0)->param[i] : dlsh_distribution_param(part_of(d, 1), i - chooser);
}

static dl_status names(void *self, dlsh_value *out) {
    const distribution *d = self;
    DLSH_DROPPED dlsh_value list = dlsh_new_list(0);
    for (int i = 0; i < d->is->nparams; i++) DLSH_TRY(dlsh_append(list, dlsh_string(kept_name(&d->is->params[i]))));
    for (int i = 0; i < 2 && part_names[d->is->form][i]; i++)
        DLSH_TRY(dlsh_append(list, dlsh_string(part_names[d->is->form][i])));
    return dlsh_hand_over(&list, out);
}

/* A tensor of any value that can be one; numbers and lists become f32, or with `whole` i64, on the device. */
static dl_tensor *tensor_of(dlsh_value v, int whole, int device) {
    dlsh_value made;
    const dl_dtype dtype = whole ? DL_I64 : DL_F32;
    if (v.type == DLSH_TENSOR) return dl_ref(v.as.tensor);
    if (v.type == DLSH_LIST) return dlsh_list_to_tensor(v, dtype, device, &made) ? NULL : made.as.tensor;
    return dl_tensor_full(0, (long[]){0}, dtype, device, dlsh_number(v));
}

/* ---- methods: each calls the op of its name */

dl_status dlsh_distribution_call(const kind *is, const char *what, dl_tensor **in, int n, const char *attrs,
                                 dlsh_value *result) {
    char name[64];
    dl_op_info row;
    dl_tensor *out[8] = {0};
    int nout;
    snprintf(name, sizeof name, "%s_%s", ops_of(is), what);
    if (!dl_op_describe_name(name, &row))
        return dlsh_fail(DL_ERR_UNSUPPORTED,
                         strstr(what, "cdf") ? "sorted samples estimate it"
                                             : "a mean of log_prob over samples estimates it",
                         "the %s of a %s distribution is not known in closed form",
                         strcmp(what, "kl") ? what : "divergence", is->name);
    DLSH_TRY(dl_op_call(name, in, n, attrs, out, &nout));
    *result = dlsh_tensor(out[0]);
    return DL_OK;
}

static dl_status plain_log_prob(const distribution *d, dl_tensor *value, dlsh_value *result) {
    dl_tensor *in[1 + MAX_PARAMS] = {value, d->param[0], d->param[1], d->param[2]};
    return dlsh_distribution_call(d->is, "log_prob", in, 1 + d->is->nparams, NULL, result);
}

static dl_status log_prob_of(const distribution *d, dl_tensor *value, dlsh_value *result);

static dl_status mixture_log_prob(const distribution *d, dl_tensor *value, dlsh_value *result) {
    const distribution *mixture = part_of(d, 0), *each = part_of(d, 1);
    DLSH_DROPPED dlsh_value density = dlsh_void();
    dl_tensor *wide = dlsh_mixture_value(value, event_of(each)), *t = NULL;
    dl_status st = wide ? log_prob_of(each, wide, &density) : dl_failed();
    if (!st && !(t = dlsh_mixture_log_prob(mixture->param[0], density.as.tensor))) st = dl_failed();
    dl_unref(wide);
    return dlsh_give_filled(st, dlsh_tensor(t), result);
}

dl_tensor *dlsh_sum_of_last(dl_tensor *t, int n) {
    long dims[8];
    for (int i = 0; i < n; i++) dims[i] = -1 - i;
    if (n <= dl_ndim(t)) return n ? dl_sum(t, dims, n, 0) : dl_ref(t);
    return dlsh_fail(DL_ERR_SHAPE, NULL, "a value of %d dimensions cannot be made of a tensor of %d", n, dl_ndim(t)),
           NULL;
}

static dl_status independent_log_prob(const distribution *d, dl_tensor *value, dlsh_value *result) {
    DLSH_DROPPED dlsh_value each = dlsh_void();
    DLSH_TRY(log_prob_of(part_of(d, 0), value, &each));
    return dlsh_give(dlsh_tensor(dlsh_sum_of_last(each.as.tensor, (int)d->whole)), result);
}

/* Back through the bijectors, whose slopes the density is divided by. */
static dl_status transformed_log_prob(const distribution *d, dl_tensor *value, dlsh_value *result) {
    const dlsh_list *by = d->part[1].as.list;
    const int taken = taken_of(d), event = event_of(part_of(d, 0)) + taken;
    DLSH_DROPPED dlsh_value density = dlsh_void();
    DLSH_OWNED dl_tensor *x = dlsh_bijectors_apply(by, value, 1),
                         *slopes = x ? dlsh_bijectors_slope(by, x, value, event) : NULL;
    DLSH_TRY(slopes ? log_prob_of(part_of(d, 0), x, &density) : dl_failed());
    DLSH_OWNED dl_tensor *sum = dlsh_sum_of_last(density.as.tensor, taken);
    return sum ? dlsh_give(dlsh_tensor(dl_sub(sum, slopes)), result) : dl_failed();
}

static dl_status log_prob_of(const distribution *d, dl_tensor *value, dlsh_value *result) {
    static dl_status (*const of[])(const distribution *, dl_tensor *,
                                   dlsh_value *) = {[PLAIN] = plain_log_prob,
                                                    [MIXTURE] = mixture_log_prob,
                                                    [INDEPENDENT] = independent_log_prob,
                                                    [TRANSFORMED] = transformed_log_prob};
    return of[d->is->form](d, value, result);
}

static dl_status log_prob_run(const dlsh_args *a, dlsh_value *result) {
    const distribution *d = dlsh_arg_self(a), *plain = plain_of(d);
    DLSH_OWNED dl_tensor *value =
        tensor_of(*dlsh_arg(a, "value"), plain->is->values == INDICES, dl_device_of(plain->param[0]));
    if (!value) return dl_failed();
    return log_prob_of(d, value, result);
}

static dl_status entropy_of(distribution *d, dlsh_value *result) {
    if (d->is->form != INDEPENDENT)
        return dlsh_distribution_call(d->is, "entropy", d->param, d->is->nparams, NULL, result);
    DLSH_DROPPED dlsh_value each = dlsh_void();
    DLSH_TRY(entropy_of(part_of(d, 0), &each));
    return dlsh_give(dlsh_tensor(dlsh_sum_of_last(each.as.tensor, (int)d->whole)), result);
}

static dl_status entropy_run(const dlsh_args *a, dlsh_value *result) { return entropy_of(dlsh_arg_self(a), result); }

/* cdf and icdf: the row's data says which. */
static dl_status share_run(const dlsh_args *a, dlsh_value *result) {
    distribution *d = dlsh_arg_self(a);
    dl_tensor *in[1 + MAX_PARAMS] = {NULL, d->param[0], d->param[1], d->param[2]};
    DLSH_OWNED dl_tensor *value = tensor_of(*dlsh_arg(a, "value"), 0, dl_device_of(plain_of(d)->param[0]));
    if (!value) return dl_failed();
    in[0] = value;
    return dlsh_distribution_call(d->is, dlsh_arg_data(a), in, 1 + d->is->nparams, NULL, result);
}

/* The attribute shape= of sizes that are given one after another or as a list. */
static dl_status shape_text(const dlsh_args *a, dlsh_buf *out) {
    const dlsh_value *first = dlsh_arg_at(a, "shape", 0);
    const int list = first && first->type == DLSH_LIST, n = list ? first->as.list->n : dlsh_arg_count(a, "shape");
    dlsh_buf_puts(out, "shape=[");
    for (int i = 0; i < n; i++) {
        dlsh_value v = list ? first->as.list->items[i] : *dlsh_arg_at(a, "shape", i);
        if (v.type != DLSH_INT || v.as.i < 0)
            return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "sizes are ints from 0, unlike %s", dlsh_a(v));
        dlsh_buf_printf(out, i ? ",%ld" : "%ld", v.as.i);
    }
    dlsh_buf_puts(out, "]");
    return DL_OK;
}

static dl_status draw(distribution *d, const char *shape, dlsh_value *result);

static dl_status draw_mixture(distribution *d, const char *shape, dlsh_value *result) {
    distribution *mixture = part_of(d, 0), *each = part_of(d, 1);
    DLSH_DROPPED dlsh_value index = dlsh_void(), all = dlsh_void();
    const dl_tensor *logits = mixture->param[0];
    dl_tensor *t = NULL;
    dl_status st = draw(mixture, shape, &index);
    if (!st) st = draw(each, shape, &all);
    if (!st && !(t = dlsh_mixture_chosen(all.as.tensor, index.as.tensor, dl_shape(logits)[dl_ndim(logits) - 1],
                                         event_of(each))))
        st = dl_failed();
    return dlsh_give_filled(st, dlsh_tensor(t), result);
}

static dl_status draw_transformed(distribution *d, const char *shape, dlsh_value *result) {
    DLSH_DROPPED dlsh_value x = dlsh_void();
    DLSH_TRY(draw(part_of(d, 0), shape, &x));
    return dlsh_give(dlsh_tensor(dlsh_bijectors_apply(d->part[1].as.list, x.as.tensor, 0)), result);
}

/* The draw with the gradient of the shares: t + shares - shares without history. Takes t. */
static dl_status straight_through(const distribution *d, dlsh_value t, dlsh_value *result) {
    DLSH_DROPPED dlsh_value drawn = t;
    DLSH_OWNED dl_tensor *shares = dlsh_shares_of(d->param[0], 1), *constant = shares ? dl_detach(shares) : NULL,
                         *zero = constant ? dl_sub(shares, constant) : NULL;
    return zero ? dlsh_give(dlsh_tensor(dl_add(drawn.as.tensor, zero)), result) : dl_failed();
}

static dl_status draw(distribution *d, const char *shape, dlsh_value *result) {
    if (is_mixture(d)) return draw_mixture(d, shape, result);
    if (d->is->form == INDEPENDENT) return draw(part_of(d, 0), shape, result);
    if (d->is->form == TRANSFORMED) return draw_transformed(d, shape, result);
    DLSH_SCOPED_BUF attrs = {0};
    if (d->is->whole) dlsh_buf_printf(&attrs, "%s=%ld ", d->is->whole, d->whole);
    dlsh_buf_puts(&attrs, shape);
    dlsh_value drawn = dlsh_void();
    DLSH_TRY(dlsh_distribution_call(d->is, "sample", d->param, d->is->nparams, dlsh_buf_text(&attrs), &drawn));
    return d->is->ops ? straight_through(d, drawn, result) : dlsh_give(drawn, result);
}

/* sample; rsample where data is set. */
static dl_status sample_run(const dlsh_args *a, dlsh_value *result) {
    distribution *d = dlsh_arg_self(a);
    DLSH_SCOPED_BUF shape = {0};
    DLSH_TRY(shape_text(a, &shape));
    if (dlsh_arg_data(a) && is_smooth(d)) return draw(d, dlsh_buf_text(&shape), result);
    if (dlsh_arg_data(a))
        return dlsh_arg_fail(a, NULL, DL_ERR_UNSUPPORTED, "sample() draws without a gradient",
                             "draws from a %s distribution have no gradient for its parameters", d->is->name);
    DLSH_SCOPED_GRAD_MODE(0);
    return draw(d, dlsh_buf_text(&shape), result);
}

/* exp of the entropy */
static dl_status perplexity_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_DROPPED dlsh_value h = dlsh_void();
    DLSH_TRY(entropy_of(dlsh_arg_self(a), &h));
    return dlsh_give(dlsh_tensor(dl_exp(h.as.tensor)), result);
}

static dl_status expand_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *first = dlsh_arg_at(a, "shape", 0);
    const int list = first && first->type == DLSH_LIST, n = list ? first->as.list->n : dlsh_arg_count(a, "shape");
    long sizes[DLSH_MIXTURE_DIM];
    if (n > DLSH_MIXTURE_DIM)
        return dlsh_arg_fail(a, NULL, DL_ERR_SHAPE, NULL, "%d sizes; a tensor has at most %d dimensions", n,
                             DLSH_MIXTURE_DIM);
    for (int i = 0; i < n; i++) {
        const dlsh_value v = list ? first->as.list->items[i] : *dlsh_arg_at(a, "shape", i);
        if (v.type != DLSH_INT || v.as.i < -1)
            return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "sizes are ints from 0, unlike %s", dlsh_a(v));
        sizes[i] = v.as.i;
    }
    return dlsh_distribution_expand(dlsh_arg_self(a), sizes, n, result);
}

static dl_status support_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_distribution_support(dlsh_arg_self(a), dlsh_arg_bool(a, "expand"), result);
}

static const dlsh_param shape_params[] = {
    {"shape", .want = "int|list", .flags = DLSH_VARIADIC, .doc = "sizes in front of those of the parameters"}, {0}};
static const dlsh_command methods[] = {
    DLSH_FN_ROW("sample", sample_run, "d.sample([SIZE...])", "Draws without a gradient.", .params = shape_params,
                .examples = "distribution(\"normal\", 0, 1).sample(2, 3)"),
    DLSH_FN_ROW("rsample", sample_run, "d.rsample([SIZE...])",
                "Draws with a gradient for the parameters, of distributions over floating numbers.",
                .params = shape_params, .data = "r"),
    DLSH_FN_ROW("log_prob", log_prob_run, "d.log_prob(VALUE)", "Logarithm of the density at each value.",
                DLSH_PARAMS({"value", .want = "number|bool|list|tensor", .doc = "where"})),
    DLSH_FN_ROW("entropy", entropy_run, "d.entropy()", "Entropy, in nats."),
    DLSH_FN_ROW("enumerate_support", support_run, "d.enumerate_support()",
                "All values of a bernoulli, binomial, categorical or one_hot_categorical distribution, along a first "
                "dimension.",
                DLSH_OPTIONS({"expand", DLSH_OPT_BOOL, "true", .doc = "for each of the batch; false: once"}),
                .examples = "distribution(\"categorical\", [0.2, 0.8]).enumerate_support()"),
    DLSH_FN_ROW("perplexity", perplexity_run, "d.perplexity()", "The exponential of the entropy."),
    DLSH_FN_ROW(
        "expand", expand_run, "d.expand(SIZE...)",
        "The same distribution for a larger batch: its parameters are repeated without being copied.",
        DLSH_PARAMS({"shape", .want = "int|list", .flags = DLSH_VARIADIC, .doc = "the new batch_shape; -1: as it is"}),
        .examples = "distribution(\"normal\", zeros(3), 1).expand(2, 3).batch_shape"),
    DLSH_FN_ROW("cdf", share_run, "d.cdf(VALUE)", "The probability of a draw up to each value.",
                DLSH_PARAMS({"value", .want = "number|bool|list|tensor", .doc = "where"}), .data = "cdf",
                .examples = "distribution(\"normal\", 0, 1).cdf(1.96)"),
    DLSH_FN_ROW("icdf", share_run, "d.icdf(VALUE)", "The value that draws do not exceed with each probability.",
                DLSH_PARAMS({"value", .want = "number|bool|list|tensor", .doc = "a probability"}), .data = "icdf",
                .examples = "distribution(\"normal\", 0, 1).icdf(0.975)"),
    {0}};

const dlsh_class dlsh_distribution_class = {.name = "distribution",
                                            .doc =
                                                "A probability distribution. Its parameters are its fields, and so are "
                                                "mean, variance, stddev and mode, batch_shape, event_shape and "
                                                "has_rsample, and probs beside logits.",
                                            .destroy = destroy,
                                            .text = text,
                                            .get = get,
                                            .names = names,
                                            .methods = methods};

/* ---- making */

distribution *dlsh_distribution_new(const kind *is) {
    distribution *d = calloc(1, sizeof *d);
    if (!d) return dlsh_no_memory("a distribution"), NULL;
    d->is = is;
    for (int i = 0; i < 2; i++) d->part[i] = dlsh_void();
    return d;
}

dlsh_value dlsh_distribution_value(distribution *d) { return dlsh_new_handle(&dlsh_distribution_class, d); }

static dl_status check(const dlsh_args *a, const param *p, dl_tensor *t) {
    if (p->limit == ANY) return DL_OK;
    DLSH_OWNED dl_tensor *zero = dl_scalar_i(0), *good = p->limit == POSITIVE ? dl_gt(t, zero) : dl_ge(t, zero);
    DLSH_OWNED dl_tensor *all = dl_all(good, NULL, 0, 0);
    long yes = 0;
    dl_status st = all ? dl_item_i(all, &yes) : dl_failed();
    if (st || yes) return st;
    return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL, "%s must be %s", p->name,
                         p->limit == POSITIVE ? "above 0" : "0 or more");
}

static const char *given_name(const dlsh_args *a, const param *p) {
    return dlsh_given(a, p->name)              ? p->name
           : p->kept && dlsh_given(a, p->kept) ? p->kept
           : p->also && dlsh_given(a, p->also) ? p->also
                                               : NULL;
}

/* Where the parameters live: where the first tensor among them does. */
static int device_of(const dlsh_args *a, const kind *is) {
    for (int i = 0; i < is->nparams; i++) {
        const char *name = given_name(a, &is->params[i]);
        const dlsh_value *v = name ? dlsh_arg(a, name) : dlsh_arg_at(a, "params", i);
        if (v && v->type == DLSH_TENSOR) return dl_device_of(v->as.tensor);
    }
    return dlsh_default_device();
}

/* Parameter i of d: by its name, by its other name, or the next by position. */
static dl_status read_param(const dlsh_args *a, distribution *d, int i, int *next) {
    const param *p = &d->is->params[i];
    const char *name = given_name(a, p);
    const dlsh_value *v = name ? dlsh_arg(a, name) : dlsh_arg_at(a, "params", *next);
    if (!v)
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "%s needs %s; its parameters are %s", d->is->name, p->name,
                             d->is->doc);
    if (!name) ++*next;
    if (v->type != DLSH_TENSOR && v->type != DLSH_LIST && !dlsh_is_number(*v))
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "%s must be a number, a list or a tensor, got %s", p->name,
                             dlsh_a(*v));
    DLSH_OWNED dl_tensor *t = tensor_of(*v, 0, device_of(a, d->is));
    const int plain = !p->kept || (name && !strcmp(name, p->kept));
    DLSH_TRY(!t ? dl_failed() : plain && p->kept ? DL_OK : check(a, p, t));
    const int also = name && p->also && !strcmp(name, p->also);
    d->param[i] = plain ? dl_ref(t) : also ? p->from(t) : p->convert(t);
    return d->param[i] ? DL_OK : dl_failed();
}

/* A value given by a name, or as the next by position; NULL: it is not. */
static const dlsh_value *given_value(const dlsh_args *a, const char *name, int *next) {
    return dlsh_given(a, name) ? dlsh_arg(a, name) : dlsh_arg_at(a, "params", (*next)++);
}

static dl_status read_whole(const dlsh_args *a, distribution *d, int *next) {
    const char *name = d->is->whole;
    const dlsh_value *v = given_value(a, name, next);
    if (!v || v->type != DLSH_INT || v->as.i < 0)
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "%s of %s must be an int from 0, got %s", name, d->is->name,
                             v ? dlsh_a(*v) : "nothing");
    d->whole = v->as.i;
    return DL_OK;
}

/* Part i, which must be a distribution, of a mixture a plain one. */
static dl_status read_part(const dlsh_args *a, distribution *d, int i, int *next) {
    const char *name = part_names[d->is->form][i];
    const dlsh_value *v = given_value(a, name, next);
    const int fits = v && v->type == DLSH_HANDLE && v->as.handle->cls == &dlsh_distribution_class;
    if (!fits || (is_mixture(d) && ((distribution *)v->as.handle->self)->is->form == MIXTURE))
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "distribution(\"normal\", 0, 1) is one",
                             "%s of %s must be a %sdistribution, got %s", name, d->is->name,
                             is_mixture(d) ? "plain " : "",
                             fits ? "a mixture"
                             : v  ? dlsh_a(*v)
                                  : "nothing");
    d->part[i] = dlsh_ref(*v);
    return DL_OK;
}

static dl_status read_transforms(const dlsh_args *a, distribution *d, int *next) {
    const dlsh_value *v = given_value(a, "transforms", next);
    const int list = v && v->type == DLSH_LIST, n = list ? v->as.list->n : v ? 1 : 0;
    if (dlsh_failed(d->part[1] = dlsh_new_list(n))) return dl_failed();
    for (int i = 0; i < n; i++) {
        const dlsh_value t = list ? v->as.list->items[i] : *v;
        if (!dlsh_unwrap(t, &dlsh_bijector_class))
            return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "bijector(\"tanh\") is one",
                                 "transforms must be bijectors, got %s", dlsh_a(t));
        DLSH_TRY(dlsh_append(d->part[1], dlsh_ref(t)));
    }
    return n ? DL_OK
             : dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "bijector(\"tanh\") is one",
                             "a transformed distribution needs a bijector");
}

/* The distributions that one is made of, and what goes with them. */
static dl_status read_parts(const dlsh_args *a, distribution *d, int *next) {
    DLSH_TRY(read_part(a, d, 0, next));
    if (d->is->form == TRANSFORMED) return read_transforms(a, d, next);
    if (d->is->form == INDEPENDENT) return read_whole(a, d, next);
    DLSH_TRY(read_part(a, d, 1, next));
    if (!strcmp(part_of(d, 0)->is->name, "categorical")) return DL_OK;
    return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL, "what chooses among components is categorical, not %s",
                         part_of(d, 0)->is->name);
}

static dl_status distribution_run(const dlsh_args *a, dlsh_value *result) {
    const char *name = dlsh_arg_str(a, "name"), *known[KINDS];
    int k = 0, next = 0;
    while (k < KINDS && strcmp(kinds[k].name, name)) known[k] = kinds[k].name, k++;
    if (k == KINDS) {
        const char *near = dlsh_nearest(name, known, KINDS);
        char hint[96];
        snprintf(hint, sizeof hint, "did you mean %s?", near ? near : "normal");
        return dlsh_arg_fail(a, "name", DL_ERR_NAME, near ? hint : "help distribution lists them",
                             "there is no distribution '%s'", name);
    }
    distribution *d = dlsh_distribution_new(&kinds[k]);
    if (!d) return dl_failed();
    dl_status st = DL_OK;
    if (d->is->whole && !d->is->form) st = read_whole(a, d, &next);
    for (int i = 0; i < d->is->nparams && !st; i++) st = read_param(a, d, i, &next);
    if (d->is->form) st = read_parts(a, d, &next);
    if (!st && next < dlsh_arg_count(a, "params"))
        st = dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "%s takes %s", d->is->name, d->is->doc);
    if (st) return destroy(d), st;
    return dlsh_give(dlsh_distribution_value(d), result);
}

/* Formulas of the session, a record by two kinds; a variable that nobody can name. */
static const char registered[] = "formulas of divergences";

static dlsh_value *formulas_of(dlsh_session *s) {
    const int slot = dlsh_global_slot(s, registered);
    if (slot < 0) return NULL;
    dlsh_value *v = &s->globals[slot].builtin;
    if (v->type == DLSH_VOID) *v = dlsh_new_record();
    return dlsh_failed(*v) ? NULL : v;
}

/* By name or alias, as distribution() knows them; NULL: a recorded failure. */
static const char *kind_arg(const dlsh_args *a, const char *name) {
    const dlsh_value v = *dlsh_arg(a, name);
    const distribution *d = dlsh_unwrap(v, &dlsh_distribution_class);
    if (d) return d->is->name;
    for (size_t i = 0; v.type == DLSH_STR && i < DLSH_COUNT(kinds); i++)
        if (!strcmp(kinds[i].name, v.as.str->s)) return kinds[i].name;
    dlsh_arg_fail(a, name, DL_ERR_NAME, "register_kl(\"normal\", \"laplace\", fn (p, q) { ... })",
                  "%s is a kind of distribution, as a word or a distribution of that kind", name);
    return NULL;
}

static dl_status register_run(const dlsh_args *a) {
    const char *p = kind_arg(a, "p"), *q = p ? kind_arg(a, "q") : NULL;
    dlsh_value *all = q ? formulas_of(dlsh_arg_session(a)) : NULL, fn = *dlsh_arg(a, "function");
    if (!all) return dl_failed();
    if (!dlsh_callable(fn))
        return dlsh_arg_fail(a, "function", DL_ERR_TYPE, "fn (p, q) { ... }", "a formula is a function, got %s",
                             dlsh_a(fn));
    DLSH_SCOPED_BUF key = {0};
    dlsh_buf_printf(&key, "%s|%s", p, q);
    return dlsh_record_set(all->as.record, dlsh_buf_text(&key), dlsh_ref(fn));
}

static dl_status kl_run(const dlsh_args *a, dlsh_value *result) {
    const distribution *p = dlsh_arg_handle(a, "p", &dlsh_distribution_class),
                       *q = dlsh_arg_handle(a, "q", &dlsh_distribution_class);
    const dlsh_value *all = formulas_of(dlsh_arg_session(a));
    if (!all) return dl_failed();
    char key[128];
    snprintf(key, sizeof key, "%.60s|%.60s", p->is->name, q->is->name);
    for (int i = 0; i < all->as.record->n; i++) {
        if (strcmp(all->as.record->keys[i], key) != 0) continue;
        const dlsh_value in[2] = {*dlsh_arg(a, "p"), *dlsh_arg(a, "q")};
        return dlsh_call(dlsh_arg_session(a), all->as.record->values[i], &(dlsh_callargs){2, in, NULL}, result);
    }
    return dlsh_distribution_kl(dlsh_arg_handle(a, "p", &dlsh_distribution_class),
                                dlsh_arg_handle(a, "q", &dlsh_distribution_class), result);
}

#define OPTION(name, text)                                                                                             \
    { name, DLSH_OPT_VALUE, NULL, .doc = text }
const dlsh_command distribution_commands[] = {
    DLSH_FN_ROW(
        "distribution", distribution_run, "distribution(NAME, PARAMETER...)",
        "A probability distribution: normal, laplace, uniform, exponential, gamma, beta, dirichlet, bernoulli, "
        "categorical, multivariate_normal, log_normal, cauchy, half_cauchy, half_normal, gumbel, weibull, "
        "pareto, student_t, chi2, kumaraswamy, geometric, negative_binomial, poisson, binomial, "
        "one_hot_categorical, one_hot_categorical_straight_through, von_mises, relaxed_bernoulli, "
        "relaxed_one_hot_categorical, fisher_snedecor, "
        "inverse_gamma, low_rank_multivariate_normal, wishart, lkj_cholesky, continuous_bernoulli, logistic_normal, "
        "generalized_pareto or multinomial. Parameters are "
        "numbers, lists or tensors, which broadcast. A mixture_same_family is made of a categorical distribution "
        "and one whose last dimension counts the components, an independent one of another whose last dimensions "
        "become one value, a transformed_distribution of another and bijectors.",
        DLSH_PARAMS({"name", .want = "string", .doc = "which"},
                    {"params", .flags = DLSH_VARIADIC, .doc = "its parameters in the order below"}),
        DLSH_OPTIONS(OPTION("loc", "the middle"),
                     OPTION("base_dist", "independent, transformed_distribution: of what it is made"),
                     OPTION("reinterpreted_batch_ndims", "independent: dimensions that become one value"),
                     OPTION("transforms", "transformed_distribution: a bijector or a list of them"),
                     OPTION("temperature", "relaxed_...: above 0; the draws of small ones are near 0 and 1"),
                     OPTION("df1", "fisher_snedecor: degrees of freedom above"),
                     OPTION("df2", "fisher_snedecor: degrees of freedom below"),
                     OPTION("cov_factor", "low_rank_multivariate_normal: W of W W^T + diag(cov_diag)"),
                     OPTION("cov_diag", "low_rank_multivariate_normal: the diagonal beside it"),
                     OPTION("dim", "lkj_cholesky: size of the matrices"),
                     OPTION("precision_matrix", "instead of covariance_matrix: its inverse"),
                     OPTION("mixture_distribution", "mixture_same_family: a categorical distribution"),
                     OPTION("component_distribution", "mixture_same_family: the components"),
                     OPTION("scale", "the width: normal: standard deviation; laplace: mean distance"),
                     OPTION("df", "student_t, chi2, wishart: degrees of freedom"),
                     OPTION("alpha", "pareto: how fast the tail falls"),
                     OPTION("total_count", "binomial, multinomial: trials; negative_binomial: failures that end it"),
                     OPTION("low", "uniform: lower end"), OPTION("high", "uniform: upper end"),
                     OPTION("concentration", "gamma, weibull, generalized_pareto, ...: shape; von_mises: how narrow"),
                     OPTION("concentration1", "beta, kumaraswamy: power of x, plus 1"),
                     OPTION("concentration0", "beta: power of 1 - x, plus 1"),
                     OPTION("rate", "gamma, exponential: inverse scale; poisson: mean"),
                     OPTION("probs", "of success; categorical: of classes, in proportion"),
                     OPTION("logits", "instead of probs"),
                     OPTION("covariance_matrix", "multivariate_normal: covariances"),
                     OPTION("scale_tril", "multivariate_normal: instead of them a triangle L of L L^T")),
        .examples = "d = distribution(\"normal\", loc=0, scale=[1, 2])\nd.log_prob(0.5)\nd.sample(3)\n"
                    "m = distribution(\"mixture_same_family\", distribution(\"categorical\", [0.3, 0.7]), d)\n"
                    "m.log_prob(0.5)"),
    DLSH_FN_ROW("kl_divergence", kl_run, "kl_divergence(P, Q)",
                "Kullback-Leibler divergence of two distributions, in nats: of one kind, or of two that PyTorch has a "
                "formula for, such as beta and uniform, normal and laplace; inf where p gives what q never does.",
                DLSH_PARAMS({"p", .want = "distribution", .doc = "from which values come"},
                            {"q", .want = "distribution", .doc = "by which they are coded"}),
                .examples = "kl_divergence(distribution(\"normal\", 0, 1), distribution(\"normal\", 1, 2))"),
    DLSH_ACT_ROW(
        "register_kl", register_run, "register_kl(P, Q, FUNCTION)",
        "Lets kl_divergence(p, q) of two kinds of distributions call a function, fn (p, q), which goes before the "
        "formula that is built in.",
        DLSH_PARAMS({"p", .want = "string|distribution", .doc = "a kind: \"normal\""},
                    {"q", .want = "string|distribution", .doc = "another, or the same"},
                    {"function", .doc = "of the two distributions"}),
        .examples = "register_kl(\"normal\", \"cauchy\", fn (p, q) { return -p.entropy() - "
                    "q.log_prob(p.sample(10000)).mean(0) })\n"
                    "kl_divergence(distribution(\"normal\", 0, 1), distribution(\"cauchy\", 0, 1)).shape"),
    {0}};
