/* Random numbers written into a tensor, or made in its shape. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lang/eval/interp.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/rounding.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"

#define TENSOR_PARAM                                                                                                   \
    { .name = "input", .want = "tensor", .doc = "the tensor" }

/* t, which it takes, through a function of one operand; through one of t and a number. */
static dl_tensor *then(dl_tensor *t, dl_tensor *(*fn)(dl_tensor *)) {
    dl_tensor *y = t ? fn(t) : NULL;
    dl_unref(t);
    return y;
}
static dl_tensor *with(dl_tensor *t, dl_tensor *(*fn)(dl_tensor *, dl_tensor *), double number) {
    dl_tensor *n = dl_scalar_f(number), *y = t && n ? fn(t, n) : NULL;
    DLSH_UNREF(t, n);
    return y;
}

/* Writes t, which it takes, into the tensor. */
static dl_status write_drawn(const dlsh_args *a, dl_tensor *t, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    dl_status st = t ? dl_assign(dlsh_arg_tensor(a, "input"), t) : dl_failed();
    dl_unref(t);
    if (!st) *result = dlsh_ref(*dlsh_arg(a, "input"));
    return st;
}

static double number_of(const dlsh_args *a, const char *name, double dflt) {
    return dlsh_given(a, name) ? dlsh_number(*dlsh_arg(a, name)) : dflt;
}

static dl_status check_drawn(const dlsh_args *a) {
    dl_dtype t = dl_dtype_of(dlsh_arg_tensor(a, "input"));
    return dl_dtype_is_float(t) ? DL_OK
                                : dlsh_arg_fail(a, "input", DL_ERR_DTYPE, "convert it with .to(f32)",
                                                "random numbers are floating, the tensor is %s", dl_dtype_name(t));
}

/* An argument that must be above 0. */
static dl_status positive(const dlsh_args *a, const char *name, double dflt, double *out) {
    *out = number_of(a, name, dflt);
    return *out > 0 ? DL_OK : dlsh_arg_fail(a, name, DL_ERR_VALUE, NULL, "%s must be above 0, not %g", name, *out);
}

/* Normal numbers, or uniform ones from 0 to 1, in the shape of the tensor and its dtype if that is floating, else f32.
 */
static dl_tensor *drawn(const dlsh_args *a, dl_tensor *(*from)(const long *, int, int, int)) {
    const dl_tensor *x = dlsh_arg_tensor(a, "input");
    const dl_dtype own = dl_dtype_of(x);
    return from(dl_shape(x), dl_ndim(x), dl_dtype_is_float(own) ? own : DL_F32, dl_device_of(x));
}

/* ln(1 - u), of uniform u: below 0 or 0, never -inf. */
static dl_tensor *log_uniform(const dlsh_args *a) { return then(then(drawn(a, dl_rand), dl_neg), dl_log1p); }

static dl_status normal_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    double mean = number_of(a, "mean", 0), std = number_of(a, "std", 1);
    DLSH_TRY(check_drawn(a));
    if (!(std >= 0)) return dlsh_arg_fail(a, "std", DL_ERR_VALUE, NULL, "std must be 0 or more, not %g", std);
    return write_drawn(a, with(with(drawn(a, dl_randn), dl_mul, std), dl_add, mean), result);
}

static dl_status log_normal_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    double std;
    DLSH_TRY(check_drawn(a));
    DLSH_TRY(positive(a, "std", 2, &std));
    dl_tensor *t = with(with(drawn(a, dl_randn), dl_mul, std), dl_add, number_of(a, "mean", 1));
    return write_drawn(a, then(t, dl_exp), result);
}

static dl_status uniform_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    double from = number_of(a, "from", 0), to = number_of(a, "to", 1);
    DLSH_TRY(check_drawn(a));
    if (!(from <= to)) return dlsh_arg_fail(a, "to", DL_ERR_VALUE, NULL, "numbers from %g to %g", from, to);
    return write_drawn(a, with(with(drawn(a, dl_rand), dl_mul, to - from), dl_add, from), result);
}

static dl_status exponential_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    double rate;
    DLSH_TRY(check_drawn(a));
    DLSH_TRY(positive(a, "lambd", 1, &rate));
    return write_drawn(a, with(then(log_uniform(a), dl_neg), dl_div, rate), result);
}

static dl_status cauchy_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    double sigma;
    DLSH_TRY(check_drawn(a));
    DLSH_TRY(positive(a, "sigma", 1, &sigma));
    dl_tensor *t = then(with(with(drawn(a, dl_rand), dl_sub, 0.5), dl_mul, M_PI), dl_tan);
    return write_drawn(a, with(with(t, dl_mul, sigma), dl_add, number_of(a, "median", 0)), result);
}

/* floor(ln(1 - u) / ln(1 - p)) + 1 */
static dl_status geometric_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    double p = number_of(a, "p", 0);
    if (!(p > 0 && p <= 1))
        return dlsh_arg_fail(a, "p", DL_ERR_VALUE, NULL, "p must be above 0 and at most 1, not %g", p);
    return write_drawn(a, with(then(with(log_uniform(a), dl_div, log1p(-p)), dl_floor), dl_add, 1), result);
}

/* 1 with probability p, a number or a tensor that is broadcast, else 0; of every dtype, as in PyTorch. */
static dl_status bernoulli_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    dl_tensor *x = dlsh_arg_tensor(a, "input"), *drawn = NULL;
    DLSH_OWNED dl_tensor *p = NULL, *there = NULL, *wide = NULL;
    const dl_dtype own = dl_dtype_of(x);
    DLSH_OWNED dl_tensor *given = dlsh_given(a, "p") ? dlsh_operand(*dlsh_arg(a, "p")) : dl_scalar_f(0.5);
    if (given) p = dl_to_dtype(given, dl_dtype_is_float(own) ? own : DL_F32);
    if (p) there = dl_to_device(p, dl_device_of(x));
    if (there) wide = dl_expand(there, dl_shape(x), dl_ndim(x));
    if (wide) drawn = dl_bernoulli(wide);
    return write_drawn(a, drawn, result);
}

/* ---- whole numbers */

/* One past the largest whole number up to which a dtype has all of them; of i64 the largest itself. */
static long end_of(dl_dtype t) {
    switch (t) {
    case DL_BOOL: return 2;
    case DL_U8: return 256;
    case DL_I32: return 1L << 31;
    case DL_BF16: return (1L << 8) + 1;
    case DL_F16: return (1L << 11) + 1;
    case DL_F32: return (1L << 24) + 1;
    case DL_F64: return (1L << 53) + 1;
    default: return INT64_MAX;
    }
}

static dl_status check_range(const dlsh_args *a, long low, long high) {
    if (low < high) return DL_OK;
    return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL, "there are no numbers from %ld to below %ld", low, high);
}

/* random_(), random_(TO), random_(FROM, TO) */
static dl_status random_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    const dl_tensor *x = dlsh_arg_tensor(a, "input");
    const dl_dtype own = dl_dtype_of(x);
    const int one = dlsh_given(a, "from") && !dlsh_given(a, "to");
    long low = one || !dlsh_given(a, "from") ? 0 : dlsh_arg_int(a, "from"), high = one ? dlsh_arg_int(a, "from")
                                                                                   : dlsh_given(a, "to")
                                                                                       ? dlsh_arg_int(a, "to")
                                                                                       : end_of(own);
    if (dl_dtype_is_complex(own))
        return dlsh_arg_fail(a, "input", DL_ERR_DTYPE, NULL, "random_ does not take complex numbers");
    DLSH_TRY(check_range(a, low, high));
    if (!dl_dtype_is_float(own) && (high > end_of(own) || low < (own == DL_I32 ? INT32_MIN : own == DL_I64 ? low : 0)))
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL, "%s does not have all numbers from %ld to below %ld",
                             dl_dtype_name(own), low, high);
    return write_drawn(a, dl_randint(low, high, dl_shape(x), dl_ndim(x), DL_I64, dl_device_of(x)), result);
}

/* randint_like(X, HIGH), randint_like(X, LOW, HIGH) */
static dl_status randint_like_run(const dlsh_args *a, dlsh_value *result) {
    const dl_tensor *x = dlsh_arg_tensor(a, "input");
    const int one = !dlsh_given(a, "high");
    long low = one ? 0 : dlsh_arg_int(a, "low"), high = dlsh_arg_int(a, one ? "low" : "high");
    dl_dtype dtype = dl_dtype_of(x);
    if (dlsh_arg_str(a, "dtype")) DLSH_TRY(dl_dtype_parse(dlsh_arg_str(a, "dtype"), &dtype));
    DLSH_TRY(check_range(a, low, high));
    *result = dlsh_tensor(dl_randint(low, high, dl_shape(x), dl_ndim(x), dtype, dl_device_of(x)));
    return dlsh_failed(*result) ? dl_failed() : DL_OK;
}

/* ---- rows */

#define NUMBER(name_, doc_)                                                                                            \
    { .name = name_, .want = "number", .flags = DLSH_OPTIONAL, .doc = doc_ }
#define WHOLE(name_, doc_)                                                                                             \
    { .name = name_, .want = "int", .flags = DLSH_OPTIONAL, .doc = doc_ }

/* ---------------------------------------------------------------- weights */

/* The initialisation of the row's name, with the arguments that are given. */
static dl_status init_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_command *row = dlsh_arg_command(a);
    DLSH_SCOPED_BUF text = {0};
    int given = 0;
    dlsh_buf_printf(&text, "%.*s", (int)strlen(row->name) - 1, row->name);
    for (const dlsh_param *p = row->params + 1; p->name; p++) {
        if (!dlsh_given(a, p->name)) continue;
        const dlsh_value *v = dlsh_arg(a, p->name);
        dlsh_buf_printf(&text, "%s%s=", given++ ? ", " : "(", p->name);
        if (v->type == DLSH_STR)
            dlsh_buf_puts(&text, v->as.str->s);
        else if (v->type == DLSH_INT)
            dlsh_buf_printf(&text, "%ld", v->as.i);
        else
            dlsh_buf_printf(&text, "%.17g", dlsh_number(*v));
    }
    if (given) dlsh_buf_puts(&text, ")");
    DLSH_TRY(dl_init_tensor(dlsh_arg_tensor(a, "input"), dlsh_buf_text(&text)));
    *result = dlsh_ref(*dlsh_arg(a, "input"));
    return DL_OK;
}

static dl_status gain_run(const dlsh_args *a, dlsh_value *result) {
    double gain;
    DLSH_TRY(dl_init_gain(dlsh_arg_str(a, "nonlinearity"), dlsh_given(a, "param") ? dlsh_arg_float(a, "param") : 0.01,
                          &gain));
    return *result = dlsh_float(gain), DL_OK;
}

#define INIT_ROW(name, what, ...)                                                                                      \
    DLSH_FN_ROW(name, init_run, name "(W, ...)", "Fills a weight, see help init: " what ".",                           \
                DLSH_PARAMS(TENSOR_PARAM, ##__VA_ARGS__))
#define WORD(name_, doc_)                                                                                              \
    { .name = (name_), .want = "string", .flags = DLSH_OPTIONAL, .doc = (doc_) }
#define GAIN NUMBER("gain", "factor of all numbers (1)")
#define KAIMING                                                                                                        \
    NUMBER("a", "slope of a leaky relu below 0 (0)"), WORD("mode", "fan_in or fan_out"),                               \
        WORD("nonlinearity", "gives the gain: leaky_relu, relu, ...")

const dlsh_command dlsh_draw_rows[] = {
    DLSH_FN_ROW("normal_", normal_run, "x.normal_([MEAN [, STD]])", "Writes normal numbers.",
                DLSH_PARAMS(TENSOR_PARAM, NUMBER("mean", "their mean (0)"), NUMBER("std", "their deviation (1)"))),
    DLSH_FN_ROW("log_normal_", log_normal_run, "x.log_normal_([MEAN [, STD]])",
                "Writes numbers whose logarithms are normal.",
                DLSH_PARAMS(TENSOR_PARAM, NUMBER("mean", "mean of the logarithms (1)"),
                            NUMBER("std", "deviation of the logarithms (2)")),
                .examples = "zeros(3).log_normal_(0, 0.5)"),
    DLSH_FN_ROW("uniform_", uniform_run, "x.uniform_([FROM [, TO]])", "Writes numbers that are uniform in a range.",
                DLSH_PARAMS(TENSOR_PARAM, NUMBER("from", "the lower end (0)"), NUMBER("to", "the upper end (1)"))),
    DLSH_FN_ROW(
        "exponential_", exponential_run, "x.exponential_([LAMBD])", "Writes numbers of the exponential distribution.",
        DLSH_PARAMS(TENSOR_PARAM, NUMBER("lambd", "the rate: 1 / mean (1)")), .examples = "zeros(3).exponential_(2)"),
    DLSH_FN_ROW("cauchy_", cauchy_run, "x.cauchy_([MEDIAN [, SIGMA]])", "Writes numbers of the Cauchy distribution.",
                DLSH_PARAMS(TENSOR_PARAM, NUMBER("median", "the middle (0)"),
                            NUMBER("sigma", "half of the width at half of the height (1)")),
                .examples = "zeros(3).cauchy_()"),
    DLSH_FN_ROW("geometric_", geometric_run, "x.geometric_(P)",
                "Writes how many attempts the first success takes, each with probability P.",
                DLSH_PARAMS(TENSOR_PARAM, {"p", .want = "number", .doc = "the probability of a success"}),
                .examples = "zeros(3).geometric_(0.2)"),
    DLSH_FN_ROW("bernoulli_", bernoulli_run, "x.bernoulli_([P])", "Writes 1 with probability P, else 0.",
                DLSH_PARAMS(TENSOR_PARAM, {"p", .want = "number|tensor", .flags = DLSH_OPTIONAL,
                                           .doc = "the probability of 1, broadcast (0.5)"})),
    DLSH_FN_ROW("random_", random_run, "x.random_([[FROM, ] TO])",
                "Writes whole numbers from FROM (0) to below TO, unless given all that the dtype has from 0 on.",
                DLSH_PARAMS(TENSOR_PARAM, WHOLE("from", "the smallest; alone it is one past the largest"),
                            WHOLE("to", "one past the largest")),
                .examples = "zeros(3, dtype=i64).random_(10)\nzeros(3).random_(-5, 5)"),
    DLSH_FN_ROW(
        "randint_like", randint_like_run, "randint_like(X, [LOW, ] HIGH, dtype=)",
        "Whole numbers from LOW (0) to below HIGH in the shape of a tensor.",
        DLSH_PARAMS(TENSOR_PARAM, {"low", .want = "int", .doc = "the smallest; alone it is one past the largest"},
                    WHOLE("high", "one past the largest")),
        DLSH_OPTIONS({"dtype", DLSH_OPT_WORD, NULL, .doc = "that of the input unless given", .complete = "dtype"}),
        .examples = "randint_like(zeros(2, 3), 10)"),
    INIT_ROW("xavier_uniform_", "uniform, by the numbers of inputs and outputs", GAIN),
    INIT_ROW("xavier_normal_", "normal, by the numbers of inputs and outputs", GAIN),
    INIT_ROW("kaiming_uniform_", "uniform, by the number of inputs or outputs", KAIMING),
    INIT_ROW("kaiming_normal_", "normal, by the number of inputs or outputs", KAIMING),
    INIT_ROW("trunc_normal_", "normal, without what lies outside a and b", NUMBER("mean", "their mean (0)"),
             NUMBER("std", "their deviation (1)"), NUMBER("a", "least number (-2)"), NUMBER("b", "largest number (2)")),
    INIT_ROW("orthogonal_", "rows or columns at right angles", GAIN),
    INIT_ROW("sparse_", "normal, with zeros in each column", NUMBER("sparsity", "share of zeros"),
             NUMBER("std", "deviation of the others (0.01)")),
    INIT_ROW("dirac_", "convolutions that hand on their inputs",
             NUMBER("groups", "groups of outputs that do this (1)")),
    INIT_ROW("eye_", "1 on the diagonal, else 0"),
    INIT_ROW("constant_", "one number", NUMBER("val", "the number")),
    INIT_ROW("ones_", "ones"),
    INIT_ROW("zeros_", "zeros"),
    DLSH_PURE_ROW("calculate_gain", gain_run, "calculate_gain(NONLINEARITY [, PARAM])",
                  "The gain= of an initialisation that keeps the variance through a nonlinearity: sqrt(2) of relu.",
                  DLSH_PARAMS({"nonlinearity", .want = "string",
                               .doc = "relu, leaky_relu, tanh, sigmoid, selu, linear, "
                                      "conv2d, ..."},
                              NUMBER("param", "slope of a leaky relu below 0 (0.01)")),
                  .examples = "xavier_uniform_(zeros(3, 4), gain=calculate_gain(\"relu\"))"),
    {0}};
