/* Likelihoods: what must be a logarithm of probabilities, and logarithms of variances that both parts of a loss pull
 * the same way. */
#include "debug/doctor/passes/passes.h"

#include <math.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "view/elements.h"

/* ---------------------------------------------------------------- divergences */

/* What a value is made of, but for numbers that it is scaled or moved by. */
static const dl_journal_node *unscaled(dlsh_pass p, const dl_journal_node *n) {
    for (int i = 0; n && i < 4 && dlsh_op_is(n, "mul|div|add|sub") && n->in[1].constant; i++)
        n = dlsh_pass_source(p, n, 0);
    return n;
}

void dlsh_find_scores_for_logs(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    static const char scores[] = "linear|matmul|conv2d|conv1d|relu|tanh|add|embedding|batch_norm_relu|layer_norm";
    const dl_journal_node *from =
        dlsh_op_is(n, "divergence|log_divergence") ? unscaled(p, dlsh_pass_source(p, n, 0)) : NULL;
    if (!dlsh_op_is(from, scores)) return;
    dlsh_finding *f = dlsh_find_at(e, n->file, n->line, "kl_div(log_softmax(scores, -1), target)");
    char what[300];
    dlsh_cause(f, "kl_div was given scores: its first argument is the logarithm of probabilities, without which it has "
                  "no floor");
    dlsh_evidence(f, "it is given the result of %s; a divergence is never negative, but this one falls as scores grow",
                  dlsh_node_text(from, what, sizeof what));
}

/* ---------------------------------------------------------------- logarithms of variances */

/* 1: a constant has no element below 0, -1: none above, 0: it is none, or not known. */
static int sign_of_constant(const dl_journal_value *v) {
    return !v->there || !v->constant || !v->n ? 0 : v->low >= 0 ? 1 : v->high <= 0 ? -1 : 0;
}

/* The sign with which a node goes into the root; 0: not known. */
static int sign_in_root(dlsh_pass p, const dl_journal_node *n) {
    int sign = 1;
    for (int i = 0; n && n != p.at && i < DLSH_DEEP; i++) {
        const dl_journal_node *u = dlsh_pass_user(p, n);
        if (!u) return n == p.at ? sign : 0;
        const int second = dlsh_pass_source(p, u, 1) == n && dlsh_pass_source(p, u, 0) != n;
        const dl_journal_value *other = &u->in[!second];
        if (dlsh_op_is(u, "neg") || (second && dlsh_op_is(u, "sub"))) {
            sign = -sign;
        } else if (dlsh_op_is(u, "mul|div") && !(second && dlsh_op_is(u, "div"))) {
            sign *= sign_of_constant(other);
            if (!sign) return 0;
        } else if (!dlsh_op_is(u, "add|sub|sum|mean|reshape|view|squeeze|flatten")) {
            return 0;
        }
        n = u;
    }
    return n ? sign : 0;
}

/* A node without the factors above 0 that it has. */
static const dl_journal_node *without_factor(dlsh_pass p, const dl_journal_node *n) {
    for (int i = 0; dlsh_op_is(n, "mul") && i < DLSH_DEEP; i++) {
        const int k = n->in[0].constant;
        if (sign_of_constant(&n->in[!k]) <= 0) break;
        n = dlsh_pass_source(p, n, k);
    }
    return n;
}

static int is_never_negative(dlsh_pass p, const dl_journal_node *n) {
    const char *at = dlsh_op_is(n, "pow") ? n->attrs : NULL;
    const dl_journal_node *a = dlsh_op_is(n, "mul") ? without_factor(p, dlsh_pass_source(p, n, 0)) : NULL;
    if (a && a == without_factor(p, dlsh_pass_source(p, n, 1))) return 1; /* r * r */
    return dlsh_op_is(n, "square|abs") || (at && dlsh_is_number_in(&n->in[1]) && fmod(n->in[1].low, 2) == 0);
}

/* exp(v) times an error, or times what it is made of: the node of the product. */
static const dl_journal_node *weighed_error(dlsh_pass p, const dl_journal_node *x) {
    const dl_journal_node *u = dlsh_pass_user(p, x);
    for (int i = 0; u && i < 3 && dlsh_op_is(u, "mul"); i++) {
        const int k = dlsh_pass_source(p, u, 0) == x;
        if (is_never_negative(p, without_factor(p, dlsh_pass_source(p, u, k)))) return u;
        if (!dlsh_is_number_in(&u->in[k])) return NULL;
        x = u, u = dlsh_pass_user(p, u);
    }
    return NULL;
}

/* What an exp is of, with minus signs and factors left out, and the sign that it has there. */
static const dl_journal_node *exponent_of(dlsh_pass p, const dl_journal_node *x, int *sign) {
    const dl_journal_node *v = dlsh_op_is(x, "exp") ? dlsh_pass_source(p, x, 0) : NULL;
    *sign = 1;
    for (int i = 0; dlsh_op_is(v, "neg|mul") && i < DLSH_DEEP; i++) {
        const int k = dlsh_op_is(v, "mul") && v->in[0].constant;
        const int own = dlsh_op_is(v, "neg") ? -1 : sign_of_constant(&v->in[!k]);
        if (!own) break;
        *sign *= own, v = dlsh_pass_source(p, v, k);
    }
    return v;
}

/* The node by which a number goes into the root with that sign by sums and factors alone; NULL: there is none. */
static const dl_journal_node *goes_in(dlsh_pass p, const dl_journal_node *v, int sign) {
    DLSH_EACH_OP (n, p)
        for (int i = 0; i < 2 && dlsh_op_is(n, "mul|add|sub|neg"); i++) {
            if (dlsh_pass_source(p, n, i) != v) continue;
            const int own = dlsh_op_is(n, "mul")                                  ? sign_of_constant(&n->in[!i])
                            : dlsh_op_is(n, "neg") || (dlsh_op_is(n, "sub") && i) ? -1
                                                                                  : 1;
            if (own && own * sign_in_root(p, n) == sign) return n;
        }
    return NULL;
}

int dlsh_find_variance_sign(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    DLSH_EACH_OP (x, p) {
        int sign;
        const dl_journal_node *v = exponent_of(p, x, &sign), *product = v ? weighed_error(p, x) : NULL;
        const dl_journal_node *sum = product && sign_in_root(p, product) > 0 ? goes_in(p, v, sign) : NULL;
        if (!sum) continue;
        dlsh_found(
            e, x->file, sign > 0 ? x->line : sum->line,
            sign > 0 ? "exp(-log_var) weighs the error, log_var is added"
                     : "log_var is added, + 0.5 * log_var, where exp(-log_var) weighs the error",
            "the logarithm of the variance goes into both parts of the loss with the same sign: nothing "
            "holds it, and the loss falls without end\n"
            "%s multiplies the error, and line %d %s: both become smaller as log_var %s, whatever the error is; the "
            "loss went from %.4g to %.4g",
            sign > 0 ? "exp(log_var)" : "exp(-log_var)", sum->line, sign > 0 ? "adds log_var" : "takes log_var away",
            sign > 0 ? "falls" : "grows", r->first, r->last);
        return 1;
    }
    return dlsh_find_jacobian_sign(e, r, p);
}

int dlsh_exp_falls_alone(dlsh_pass p, const dl_journal_node *x) {
    const dl_journal_node *v = dlsh_op_is(x, "exp") ? dlsh_pass_source(p, x, 0) : NULL;
    const int sign = v ? sign_in_root(p, x) : 0;
    for (long k = 0; sign && k < p.n; k++) {
        const dl_journal_node *n = &p.at[k];
        for (int i = 0; i < 2 && dlsh_op_is(n, "mul|add|sub"); i++) {
            if (n == x || dlsh_pass_source(p, n, i) != v) continue;
            const int own = dlsh_op_is(n, "mul") ? sign_of_constant(&n->in[!i]) : dlsh_op_is(n, "sub") && i ? -1 : 1;
            if (own * sign_in_root(p, n) == sign) return 1;
        }
    }
    return 0;
}
/* ---------------------------------------------------------------- targets that tell nothing */

static dlsh_property is_softmax(void *ctx, const dlsh_step *s) {
    (void)ctx;
    return dlsh_is_call_of(s->n, "softmax") ? DLSH_HAS : DLSH_MAY_HAVE;
}

/* Has a variable in an expression rows that add up to 1? */
static int holds_probabilities(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_value *v = n->kind == DLSH_N_NAME ? dlsh_value_of(e, file, n) : NULL;
    const dl_tensor *t = v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) == 2 ? v->as.tensor : NULL;
    dlsh_stats s;
    if (t && dl_shape(t)[1] > 1 && !dlsh_stats_of(t, &s) && s.min >= 0 && s.std > 0 &&
        fabs(s.mean * (double)dl_shape(t)[1] - 1) < 1e-5)
        return 1;
    for (int i = 0; i < n->nkids; i++)
        if (n->kids[i] && holds_probabilities(e, file, n->kids[i])) return 1;
    return 0;
}

/* Are targets made by a softmax of probabilities? */
static int is_softmax_of_probabilities(const dlsh_examination *e, const dl_journal_node *loss) {
    const dlsh_node *call = dlsh_call_on_line(loss->file, loss->line, "kl_div|loss|entropy");
    const dlsh_node *y = call ? dlsh_argument_of(call, 1, "target") : NULL;
    const dlsh_node *by = y ? dlsh_origin(loss->file, y, is_softmax, NULL) : NULL;
    return by && by->nkids > 1 && !dlsh_is_call_of(by->kids[1], "log") &&
           holds_probabilities(e, loss->file, by->kids[1]);
}

/* Targets in rows that sum to 1, made of data, which hardly tell classes apart. */
void dlsh_find_flat_targets(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const int by_hand = dlsh_op_is(n, "mul"), k = by_hand && n->in[0].constant ? 0 : 1;
    const dl_journal_value *y = &n->in[k];
    if (!by_hand && !dlsh_op_is(n, "cross_entropy|divergence")) return;
    if (by_hand && !dlsh_op_is(dlsh_pass_source(p, n, 1 - k), "log_softmax")) return;
    if (!y->there || !y->constant || y->ndim != 2 || !y->n || !(y->low > 0)) return;
    const double classes = (double)y->shape[1], even = 1 / classes;
    if (classes < 2 || fabs(y->mean - even) > 1e-3 * even || y->std > 0.06 * sqrt(even - even * even)) return;
    const int twice = is_softmax_of_probabilities(e, n);
    dlsh_found(e, n->file, dlsh_line_of_target(n),
               twice ? "softmax of scores, or of logarithms of probabilities: softmax(log(p) / T)"
                     : "less smoothing: the right class keeps 0.8 or more",
               "%sthe targets leave almost nothing to learn: all classes have nearly the same target\n"
               "they go from %.4g to %.4g over %.0f classes; a net that knows nothing gives %.4g to each",
               twice ? "softmax of what is a softmax already: " : "", y->low, y->high, classes, even);
}
