/* What the nodes of a pass can give, whatever the parameters are, by interval arithmetic from the oldest one on: a loss
 * has a floor where its range ends below, and none where the end is open. */
#include "debug/doctor/passes/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOW = 1, HIGH = 2 };
static const dlsh_bounds all = {-INFINITY, INFINITY, 0, 0}, any = {-INFINITY, INFINITY, LOW | HIGH, 0};

/* ---------------------------------------------------------------- rules */

static double logsigmoid(double x) { return x < -30 ? x : -log1p(exp(-x)); }
static double softplus(double x) { return x > 30 ? x : log1p(exp(x)); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double relu(double x) { return fmax(x, 0); }
static double logarithm(double x) { return x > 0 ? log(x) : -INFINITY; }
static double logarithm1(double x) { return x > -1 ? log1p(x) : -INFINITY; }
static double root(double x) { return x > 0 ? sqrt(x) : 0; }

/* Functions that rise. */
static const struct {
    const char *ops;
    double (*at)(double x);
} rising[] = {
    {"exp", exp},
    {"expm1", expm1},
    {"log", logarithm},
    {"log1p", logarithm1},
    {"sqrt", root},
    {"sigmoid", sigmoid},
    {"tanh", tanh},
    {"softplus", softplus},
    {"relu", relu},
    {"atan", atan},
    {"logsigmoid", logsigmoid},
    {"sinh", sinh},
};

/* Ops whose results lie between two numbers whatever they are given; open: at the ends that they reach with scores of
 * any size. */
static const struct {
    const char *ops;
    dlsh_bounds range;
} fixed[] = {
    {"square_sum|root_square_sum|square|abs|magnitude_sum|square_difference|huber|huber_difference|cross_entropy|logit_"
     "loss|"
     "probability_loss|batch_norm_relu|var",
     {0, INFINITY, HIGH, 0}},
    {"softmax|hardsigmoid", {0, 1, 0, 0}},
    {"softsign|hardtanh|sin|cos|sign|erf", {-1, 1, 0, 0}},
    {"log_softmax", {-INFINITY, 0, LOW, 0}},
};

/* Ops whose results are some of the elements that they are given, or lie between these. */
static const char picking[] = "mean|gather|index|index_select|select|amax|amin|diagonal|diag|masked_select|clone|to|"
                              "view|reshape|restride|transfer|"
                              "expand|permute|transpose|squeeze|unsqueeze|flatten|as_strided|narrow|slice|contiguous|"
                              "flip|max_dim|min_dim|topk|sort|"
                              "avg_pool2d|max_pool2d|dropout_mask";
/* Ops that weigh what they are given. */
static const char weighing[] = "linear|matmul|conv2d|conv2d_norm|embedding|logsumexp";

static dlsh_bounds ends(double low, double high, int open) {
    return (dlsh_bounds){low, high, open & ((isinf(low) ? LOW : 0) | (isinf(high) ? HIGH : 0)), 0};
}

static dlsh_bounds flipped(dlsh_bounds a) {
    return ends(-a.high, -a.low, (a.open & LOW ? HIGH : 0) | (a.open & HIGH ? LOW : 0));
}

/* 0 times infinity counts as 0: a bound that is met as the other factor grows. */
static double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

/* Two that are computed may move together: their end is open where one of them alone has it. */
static dlsh_bounds sum_of(dlsh_bounds a, dlsh_bounds b) {
    const int low = (a.open & LOW && isfinite(b.high)) || (b.open & LOW && isfinite(a.high));
    const int high = (a.open & HIGH && isfinite(b.low)) || (b.open & HIGH && isfinite(a.low));
    return ends(a.low + b.low, a.high + b.high, (low ? LOW : 0) | (high ? HIGH : 0));
}

static dlsh_bounds times(dlsh_bounds a, double low, double high, int open) {
    const double p[4] = {product(a.low, low), product(a.low, high), product(a.high, low), product(a.high, high)};
    return ends(fmin(fmin(p[0], p[1]), fmin(p[2], p[3])), fmax(fmax(p[0], p[1]), fmax(p[2], p[3])), open);
}

/* The end that is open stays so where a fixed factor has an element of one sign. */
static dlsh_bounds product_of(dlsh_bounds a, dlsh_bounds b, int fixed_factor) {
    int open = 0;
    if (fixed_factor && b.high > 0) open |= a.open;
    if (fixed_factor && b.low < 0) open |= flipped(a).open;
    return times(a, b.low, b.high, open);
}

static dlsh_bounds quotient_of(dlsh_bounds a, dlsh_bounds b, int fixed_factor) {
    if (b.low > 0 || b.high < 0) return product_of(a, ends(1 / b.high, 1 / b.low, 0), fixed_factor);
    if (b.low == 0 && a.low >= 0) return ends(0, INFINITY, 0);
    if (b.low == 0 && a.high <= 0) return ends(-INFINITY, 0, 0);
    if (b.low == 0) return ends(-INFINITY, INFINITY, a.open);
    return all;
}

static double number_of(const dl_journal_node *n, const char *attribute, double otherwise) {
    const char *at = strstr(n->attrs, attribute);
    return at ? strtod(at + strlen(attribute), NULL) : otherwise;
}

/* ---------------------------------------------------------------- nodes */

typedef struct ranges {
    dlsh_pass p;
    dlsh_bounds *of; /* [p.n] */
    int unclamped;
} ranges;

static dlsh_bounds operand(const ranges *r, const dl_journal_node *n, int k) {
    const dl_journal_value *v = &n->in[k];
    if (k >= n->nin || k >= 8 || !v->there) return ends(0, 0, 0);
    if (v->constant && !v->n) return (dlsh_bounds){0, 0, 0, 1}; /* a number, but which? */
    if (v->constant) return v->nans ? all : ends(v->low, v->high, 0);
    const dl_journal_node *from = dlsh_pass_node(r->p, v->from);
    return from ? r->of[from - r->p.at] : v->from ? all : any;
}

static int has_open_operand(const ranges *r, const dl_journal_node *n) {
    int open = 0;
    for (int k = 0; k < n->nin && k < 8; k++) open |= n->in[k].there && !n->in[k].constant && operand(r, n, k).open;
    return open;
}

static dlsh_bounds union_of(const ranges *r, const dl_journal_node *n, int from) {
    dlsh_bounds u = {INFINITY, -INFINITY, 0, 0};
    for (int k = from; k < n->nin && k < 8; k++) {
        const dlsh_bounds a = operand(r, n, k);
        if (n->in[k].there) u = ends(fmin(u.low, a.low), fmax(u.high, a.high), u.open | a.open);
    }
    return n->nin > 8 || u.low > u.high ? all : u;
}

static dlsh_bounds power(const dl_journal_node *n, dlsh_bounds a, dlsh_bounds exponent) {
    const int even = n->in[1].constant && exponent.low == exponent.high && fmod(exponent.low, 2) == 0;
    if (even && exponent.low > 0) return ends(0, INFINITY, a.open ? HIGH : 0);
    return a.low >= 0 ? ends(0, INFINITY, 0) : all;
}

static dlsh_bounds summed(const dl_journal_node *n, dlsh_bounds a) {
    double from = 1, to = 1;
    for (int d = 0; d < n->in[0].ndim; d++) from *= (double)n->in[0].shape[d];
    for (int d = 0; d < n->out.ndim; d++) to *= (double)n->out.shape[d];
    return times(a, to ? from / to : 1, to ? from / to : 1, a.open);
}

static dlsh_bounds arithmetic(const ranges *r, const dl_journal_node *n) {
    const dlsh_bounds a = operand(r, n, 0), b = operand(r, n, 1);
    if (dlsh_op_is(n, "neg|nll_picked")) return flipped(a);
    if (dlsh_op_is(n, "add")) return sum_of(a, b);
    if (dlsh_op_is(n, "sub")) return sum_of(a, flipped(b));
    if (dlsh_op_is(n, "mul") && n->in[0].from && n->in[0].from == n->in[1].from)
        return ends(0, INFINITY, a.open ? HIGH : 0);
    if (dlsh_op_is(n, "mul|div") && ((n->in[0].constant && a.about) || (n->in[1].constant && b.about))) return all;
    if (dlsh_op_is(n, "mul")) return n->in[0].constant ? product_of(b, a, 1) : product_of(a, b, n->in[1].constant);
    if (dlsh_op_is(n, "div")) return quotient_of(a, b, n->in[1].constant);
    if (dlsh_op_is(n, "pow")) return power(n, a, b);
    if (dlsh_op_is(n, "sum")) return summed(n, a);
    if (dlsh_op_is(n, "maximum"))
        return ends(fmax(a.low, b.low), fmax(a.high, b.high), a.open & b.open ? LOW | HIGH : HIGH & (a.open | b.open));
    if (dlsh_op_is(n, "minimum"))
        return ends(fmin(a.low, b.low), fmin(a.high, b.high), a.open & b.open ? LOW | HIGH : LOW & (a.open | b.open));
    if (dlsh_op_is(n, "clamp") && r->unclamped) return a;
    if (dlsh_op_is(n, "clamp"))
        return ends(fmax(a.low, number_of(n, "min=", -INFINITY)), fmin(a.high, number_of(n, "max=", INFINITY)), a.open);
    return all;
}

static dlsh_bounds result_of(const ranges *r, const dl_journal_node *n) {
    const dlsh_bounds a = operand(r, n, 0);
    for (size_t i = 0; i < DLSH_COUNT(fixed); i++)
        if (dlsh_op_is(n, fixed[i].ops)) return ends(fixed[i].range.low, fixed[i].range.high, fixed[i].range.open);
    for (size_t i = 0; i < DLSH_COUNT(rising); i++)
        if (dlsh_op_is(n, rising[i].ops)) { /* a logarithm of what comes near 0 has no lowest value */
            const double low = rising[i].at(a.low), high = rising[i].at(a.high);
            return ends(low, high, a.open | (isinf(low) && isfinite(a.low) ? LOW : 0));
        }
    if (dlsh_op_is(n, picking)) return a;
    if (dlsh_op_is(n, "where|cat|stack")) return union_of(r, n, dlsh_op_is(n, "where"));
    if (dlsh_op_is(n, weighing)) return ends(-INFINITY, INFINITY, has_open_operand(r, n) ? LOW | HIGH : 0);
    return arithmetic(r, n);
}

static dlsh_bounds range_of(const ranges *r, const dl_journal_node *n) {
    dlsh_bounds of = result_of(r, n);
    for (size_t i = 0; i < DLSH_COUNT(fixed); i++)
        if (dlsh_op_is(n, fixed[i].ops)) return of;
    for (int k = 0; k < n->nin && k < 8; k++) of.about |= operand(r, n, k).about;
    return of;
}

static dlsh_bounds bounds_of(dlsh_pass p, const dl_journal_node *n, int unclamped) {
    DLSH_FREED dlsh_bounds *of = n ? calloc((size_t)p.n, sizeof *of) : NULL;
    const ranges r = {p, of, unclamped};
    if (!of) return all;
    for (long i = p.n - 1; &p.at[i] >= n; i--) of[i] = range_of(&r, &p.at[i]);
    return of[n - p.at];
}

dlsh_bounds dlsh_bounds_of(dlsh_pass p, const dl_journal_node *n) { return bounds_of(p, n, 0); }
dlsh_bounds dlsh_bounds_unclamped(dlsh_pass p, const dl_journal_node *n) { return bounds_of(p, n, 1); }

int dlsh_sign_of(dlsh_pass p, const dl_journal_node *n) {
    const dlsh_bounds r = dlsh_bounds_of(p, n);
    if (isinf(r.low)) return r.open & LOW && r.high <= 0 ? -1 : 0;
    return r.low >= 0 && r.high > 0 && !r.about ? 1 : 0;
}
