/* distribution(...): probability distributions as values, which draw, and compute densities, entropies and divergences.
 * Each is computed by an op, NAME_log_prob and so on; here are their parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/chance/distribution.h"
#include "commands/chance/mixture.h"
#include "commands/chance/moments.h"
#include "lang/eval/interp.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/elementary.h"
#include "dlcore/linalg.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"

enum { MAX_PARAMS = 3 };
typedef enum limit { ANY, POSITIVE, SHARES } limit;

/* A parameter, as it is given by position, and under another name, as the ops take it: `convert` leads there. */
typedef struct param {
    const char *name;
    limit limit;
    const char *kept;
    dl_tensor *(*convert)(dl_tensor *);
} param;

typedef struct kind {
    const char *name, *doc;
    int nparams;
    param params[MAX_PARAMS];
    int differentiable; /* draws are functions of the parameters and of noise */
    enum { NUMBERS, INDICES, VECTORS } values;
} kind;

typedef struct distribution {
    const kind *is;
    dl_tensor *param[MAX_PARAMS];
    dlsh_value part[2]; /* of a mixture, which has no parameters: a categorical distribution, and the components */
} distribution;

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

static const kind kinds[] = {
    {"normal", "loc, scale", 2, {{"loc", ANY, NULL, NULL}, {"scale", POSITIVE, NULL, NULL}}, 1, 0},
    {"laplace", "loc, scale", 2, {{"loc", ANY, NULL, NULL}, {"scale", POSITIVE, NULL, NULL}}, 1, 0},
    {"uniform", "low, high", 2, {{"low", ANY, NULL, NULL}, {"high", ANY, NULL, NULL}}, 1, 0},
    {"exponential", "rate", 1, {{"rate", POSITIVE, NULL, NULL}}, 1, 0},
    {"gamma",
     "concentration, rate",
     2,
     {{"concentration", POSITIVE, NULL, NULL}, {"rate", POSITIVE, NULL, NULL}},
     1,
     0},
    {"beta",
     "concentration1, concentration0",
     2,
     {{"concentration1", POSITIVE, NULL, NULL}, {"concentration0", POSITIVE, NULL, NULL}},
     1,
     0},
    {"dirichlet", "concentration", 1, {{"concentration", POSITIVE, NULL, NULL}}, 1, VECTORS},
    {"bernoulli", "probs, or logits=", 1, {{"probs", SHARES, "logits", logits_of_coin}}, 0, 0},
    {"categorical", "probs, or logits=", 1, {{"probs", SHARES, "logits", logits_of_classes}}, 0, INDICES},
    {"multivariate_normal",
     "loc, covariance_matrix, or scale_tril=",
     2,
     {{"loc", ANY, NULL, NULL}, {"covariance_matrix", ANY, "scale_tril", triangle_of}},
     1,
     VECTORS},
#define LOC                                                                                                            \
    { "loc", ANY, NULL, NULL }
#define ABOVE_0(name)                                                                                                  \
    { name, POSITIVE, NULL, NULL }
#define SUCCESS                                                                                                        \
    { "probs", SHARES, "logits", logits_of_coin }
    {"log_normal", "loc, scale", 2, {LOC, ABOVE_0("scale")}, 1, 0},
    {"cauchy", "loc, scale", 2, {LOC, ABOVE_0("scale")}, 1, 0},
    {"half_cauchy", "scale", 1, {ABOVE_0("scale")}, 1, 0},
    {"half_normal", "scale", 1, {ABOVE_0("scale")}, 1, 0},
    {"gumbel", "loc, scale", 2, {LOC, ABOVE_0("scale")}, 1, 0},
    {"weibull", "scale, concentration", 2, {ABOVE_0("scale"), ABOVE_0("concentration")}, 1, 0},
    {"pareto", "scale, alpha", 2, {ABOVE_0("scale"), ABOVE_0("alpha")}, 1, 0},
    {"student_t", "df, loc, scale", 3, {ABOVE_0("df"), LOC, ABOVE_0("scale")}, 1, 0},
    {"chi2", "df", 1, {ABOVE_0("df")}, 1, 0},
    {"kumaraswamy", "concentration1, concentration0", 2, {ABOVE_0("concentration1"), ABOVE_0("concentration0")}, 1, 0},
    {"geometric", "probs, or logits=", 1, {SUCCESS}, 0, 0},
    {"negative_binomial", "total_count, probs, or logits=", 2, {ABOVE_0("total_count"), SUCCESS}, 0, 0},
    {"poisson", "rate", 1, {ABOVE_0("rate")}, 0, 0},
    {"binomial", "total_count, probs, or logits=", 2, {ABOVE_0("total_count"), SUCCESS}, 0, 0},
    {"one_hot_categorical", "probs, or logits=", 1, {{"probs", SHARES, "logits", logits_of_classes}}, 0, VECTORS},
    {"von_mises", "loc, concentration", 2, {LOC, ABOVE_0("concentration")}, 0, NUMBERS},
    {"mixture_same_family", "a categorical distribution and one of the components", 0, {LOC}, 0, NUMBERS},
};
enum { KINDS = DLSH_COUNT(kinds) };

static const char *const part_names[2] = {"mixture_distribution", "component_distribution"};
static int is_mixture(const distribution *d) { return !d->is->nparams; }
static distribution *part_of(const distribution *d, int i) { return d->part[i].as.handle->self; }

static const char *kept_name(const param *p) { return p->kept ? p->kept : p->name; }

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
    if (is_mixture(d)) dlsh_buf_printf(out, "%s, %s", part_of(d, 0)->is->name, part_of(d, 1)->is->name);
    dlsh_buf_puts(out, ")>");
    return DL_OK;
}

static dl_status get(void *self, const char *name, dlsh_value *out) {
    const distribution *d = self;
    for (int i = 0; i < d->is->nparams; i++)
        if (!strcmp(kept_name(&d->is->params[i]), name)) return *out = dlsh_tensor(dl_ref(d->param[i])), DL_OK;
    for (int i = 0; i < 2 && is_mixture(d); i++)
        if (!strcmp(part_names[i], name)) return *out = dlsh_ref(d->part[i]), DL_OK;
    for (int i = 0; i < d->is->nparams && !strcmp(name, "probs"); i++)
        if (d->is->params[i].kept && !strcmp(d->is->params[i].kept, "logits"))
            return dlsh_give(dlsh_tensor(dlsh_shares_of(d->param[i], d->is->params[i].convert == logits_of_classes)),
                             out);
    return is_mixture(d) ? DL_ERR_NAME : dlsh_moment(d->is->name, d->param, name, out);
}

dl_tensor *dlsh_distribution_param(const void *self, int i) {
    const distribution *d = self;
    if (!is_mixture(d)) return i < d->is->nparams ? d->param[i] : NULL;
    const int chooser = part_of(d, 0)->is->nparams;
    return i < chooser ? part_of(d, 0)->param[i] : dlsh_distribution_param(part_of(d, 1), i - chooser);
}

static dl_status names(void *self, dlsh_value *out) {
    const distribution *d = self;
    DLSH_DROPPED dlsh_value list = dlsh_new_list(0);
    for (int i = 0; i < d->is->nparams; i++) DLSH_TRY(dlsh_append(list, dlsh_string(kept_name(&d->is->params[i]))));
    for (int i = 0; i < 2 && is_mixture(d); i++) DLSH_TRY(dlsh_append(list, dlsh_string(part_names[i])));
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

static dl_status call(const kind *is, const char *what, dl_tensor **in, int n, const char *attrs, dlsh_value *result) {
    char name[64];
    dl_op_info row;
    dl_tensor *out[8] = {0};
    int nout;
    snprintf(name, sizeof name, "%s_%s", is->name, what);
    if (!dl_op_describe_name(name, &row))
        return dlsh_fail(DL_ERR_UNSUPPORTED, "a mean of log_prob over samples estimates it",
                         "the %s of a %s distribution is not known in closed form",
                         strcmp(what, "kl") ? what : "divergence", is->name);
    DLSH_TRY(dl_op_call(name, in, n, attrs, out, &nout));
    *result = dlsh_tensor(out[0]);
    return DL_OK;
}

static dl_status plain_log_prob(const distribution *d, dl_tensor *value, dlsh_value *result) {
    dl_tensor *in[1 + MAX_PARAMS] = {value, d->param[0], d->param[1], d->param[2]};
    return call(d->is, "log_prob", in, 1 + d->is->nparams, NULL, result);
}

static dl_status log_prob_of(const distribution *d, dl_tensor *value, dlsh_value *result) {
    if (!is_mixture(d)) return plain_log_prob(d, value, result);
    const distribution *mixture = part_of(d, 0), *each = part_of(d, 1);
    DLSH_DROPPED dlsh_value density = dlsh_void();
    dl_tensor *wide = dlsh_mixture_value(value, each->is->values == VECTORS), *t = NULL;
    dl_status st = wide ? plain_log_prob(each, wide, &density) : dl_failed();
    if (!st && !(t = dlsh_mixture_log_prob(mixture->param[0], density.as.tensor))) st = dl_failed();
    dl_unref(wide);
    return dlsh_give_filled(st, dlsh_tensor(t), result);
}

static dl_status log_prob_run(const dlsh_args *a, dlsh_value *result) {
    const distribution *d = dlsh_arg_self(a), *plain = is_mixture(d) ? part_of(d, 1) : d;
    DLSH_OWNED dl_tensor *value =
        tensor_of(*dlsh_arg(a, "value"), plain->is->values == INDICES, dl_device_of(plain->param[0]));
    if (!value) return dl_failed();
    return log_prob_of(d, value, result);
}

static dl_status entropy_run(const dlsh_args *a, dlsh_value *result) {
    distribution *d = dlsh_arg_self(a);
    return call(d->is, "entropy", d->param, d->is->nparams, NULL, result);
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

static dl_status draw(distribution *d, const char *shape, dlsh_value *result) {
    if (!is_mixture(d)) return call(d->is, "sample", d->param, d->is->nparams, shape, result);
    distribution *mixture = part_of(d, 0), *each = part_of(d, 1);
    DLSH_DROPPED dlsh_value index = dlsh_void(), all = dlsh_void();
    const dl_tensor *logits = mixture->param[0];
    dl_tensor *t = NULL;
    dl_status st = draw(mixture, shape, &index);
    if (!st) st = draw(each, shape, &all);
    if (!st && !(t = dlsh_mixture_chosen(all.as.tensor, index.as.tensor, dl_shape(logits)[dl_ndim(logits) - 1],
                                         each->is->values == VECTORS)))
        st = dl_failed();
    return dlsh_give_filled(st, dlsh_tensor(t), result);
}

/* sample; rsample where data is set. */
static dl_status sample_run(const dlsh_args *a, dlsh_value *result) {
    distribution *d = dlsh_arg_self(a);
    DLSH_SCOPED_BUF shape = {0};
    DLSH_TRY(shape_text(a, &shape));
    if (dlsh_arg_data(a) && d->is->differentiable) return draw(d, dlsh_buf_text(&shape), result);
    if (dlsh_arg_data(a))
        return dlsh_arg_fail(a, NULL, DL_ERR_UNSUPPORTED, "sample() draws without a gradient",
                             "draws from a %s distribution have no gradient for its parameters", d->is->name);
    DLSH_SCOPED_GRAD_MODE(0);
    return draw(d, dlsh_buf_text(&shape), result);
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
    {0}};

const dlsh_class dlsh_distribution_class = {.name = "distribution",
                                            .doc =
                                                "A probability distribution. Its parameters are its fields, and so are "
                                                "mean, variance and stddev, and probs beside logits.",
                                            .destroy = destroy,
                                            .text = text,
                                            .get = get,
                                            .names = names,
                                            .methods = methods};

/* ---- making */

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
    return dlsh_given(a, p->name) ? p->name : p->kept && dlsh_given(a, p->kept) ? p->kept : NULL;
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
    d->param[i] = plain ? dl_ref(t) : p->convert(t);
    return d->param[i] ? DL_OK : dl_failed();
}

/* The two distributions of a mixture. */
static dl_status read_parts(const dlsh_args *a, distribution *d, int *next) {
    for (int i = 0; i < 2; i++) {
        const dlsh_value *v = dlsh_given(a, part_names[i]) ? dlsh_arg(a, part_names[i]) : NULL;
        if (!v) v = dlsh_arg_at(a, "params", (*next)++);
        const int fits = v && v->type == DLSH_HANDLE && v->as.handle->cls == &dlsh_distribution_class;
        if (!fits || is_mixture(v->as.handle->self))
            return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "distribution(\"categorical\", [0.3, 0.7]) is a mixture of two",
                                 "%s of a mixture must be a plain distribution, got %s", part_names[i],
                                 fits ? "a mixture"
                                 : v  ? dlsh_a(*v)
                                      : "nothing");
        d->part[i] = dlsh_ref(*v);
    }
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
    distribution *d = calloc(1, sizeof *d);
    if (!d) return dlsh_no_memory("a distribution");
    d->is = &kinds[k];
    dl_status st = DL_OK;
    for (int i = 0; i < 2; i++) d->part[i] = dlsh_void();
    for (int i = 0; i < d->is->nparams && !st; i++) st = read_param(a, d, i, &next);
    if (is_mixture(d)) st = read_parts(a, d, &next);
    if (!st && next < dlsh_arg_count(a, "params"))
        st = dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "%s takes %s", d->is->name, d->is->doc);
    if (st) return destroy(d), st;
    return dlsh_give(dlsh_new_handle(&dlsh_distribution_class, d), result);
}

static dl_status kl_run(const dlsh_args *a, dlsh_value *result) {
    const distribution *p = dlsh_arg_handle(a, "p", &dlsh_distribution_class),
                       *q = dlsh_arg_handle(a, "q", &dlsh_distribution_class);
    dl_tensor *in[2 * MAX_PARAMS];
    if (p->is == q->is && is_mixture(p)) return call(p->is, "kl", NULL, 0, NULL, result); /* it says what is known */
    if (p->is != q->is)
        return dlsh_arg_fail(a, NULL, DL_ERR_UNSUPPORTED, NULL,
                             "the divergence is known of two distributions of one kind, not of %s and %s", p->is->name,
                             q->is->name);
    for (int i = 0; i < p->is->nparams; i++) in[i] = p->param[i], in[p->is->nparams + i] = q->param[i];
    return call(p->is, "kl", in, 2 * p->is->nparams, NULL, result);
}

#define OPTION(name, text)                                                                                             \
    { name, DLSH_OPT_VALUE, NULL, .doc = text }
const dlsh_command distribution_commands[] = {
    DLSH_FN_ROW("distribution", distribution_run, "distribution(NAME, PARAMETER...)",
                "A probability distribution: normal, laplace, uniform, exponential, gamma, beta, dirichlet, bernoulli, "
                "categorical, multivariate_normal, log_normal, cauchy, half_cauchy, half_normal, gumbel, weibull, "
                "pareto, student_t, chi2, kumaraswamy, geometric, negative_binomial, poisson, binomial, "
                "one_hot_categorical or von_mises. Parameters are numbers, lists or tensors, which broadcast. A "
                "mixture_same_family of a categorical distribution and one whose last dimension counts the components.",
                DLSH_PARAMS({"name", .want = "string", .doc = "which"},
                            {"params", .flags = DLSH_VARIADIC, .doc = "its parameters in the order below"}),
                DLSH_OPTIONS(OPTION("loc", "the middle"),
                             OPTION("mixture_distribution", "mixture_same_family: a categorical distribution"),
                             OPTION("component_distribution", "mixture_same_family: the components"),
                             OPTION("scale", "the width: normal: standard deviation; laplace: mean distance"),
                             OPTION("df", "student_t, chi2: degrees of freedom"),
                             OPTION("alpha", "pareto: how fast the tail falls"),
                             OPTION("total_count", "binomial: trials; negative_binomial: failures that end it"),
                             OPTION("low", "uniform: lower end"), OPTION("high", "uniform: upper end"),
                             OPTION("concentration", "gamma, dirichlet, weibull: shape; von_mises: how narrow"),
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
                "Kullback-Leibler divergence of two distributions of one kind, in nats.",
                DLSH_PARAMS({"p", .want = "distribution", .doc = "from which values come"},
                            {"q", .want = "distribution", .doc = "by which they are coded"}),
                .examples = "kl_divergence(distribution(\"normal\", 0, 1), distribution(\"normal\", 1, 2))"),
    {0}};
