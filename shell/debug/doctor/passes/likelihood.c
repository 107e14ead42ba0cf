/* Likelihoods: what must be a logarithm of probabilities, and logarithms of variances that both parts of a loss pull
 * the same way. */
#include "debug/doctor/passes/passes.h"

#include <math.h>
#include <string.h>

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
    if (!f) return;
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

static int is_never_negative(const dl_journal_node *n) {
    const char *at = dlsh_op_is(n, "pow") ? n->attrs : NULL;
    return dlsh_op_is(n, "square|abs") || (at && dlsh_is_number_in(&n->in[1]) && fmod(n->in[1].low, 2) == 0);
}

/* exp(v) times an error, or times what it is made of: the node of the product. */
static const dl_journal_node *weighed_error(dlsh_pass p, const dl_journal_node *x) {
    const dl_journal_node *u = dlsh_pass_user(p, x);
    for (int i = 0; u && i < 3 && dlsh_op_is(u, "mul"); i++) {
        const int k = dlsh_pass_source(p, u, 0) == x;
        if (is_never_negative(dlsh_pass_source(p, u, k))) return u;
        if (!dlsh_is_number_in(&u->in[k])) return NULL;
        x = u, u = dlsh_pass_user(p, u);
    }
    return NULL;
}

int dlsh_find_variance_sign(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    for (long i = 0; i < p.n; i++) {
        const dl_journal_node *x = &p.at[i];
        const dl_journal_node *v = dlsh_op_is(x, "exp") ? dlsh_pass_source(p, x, 0) : NULL;
        const dl_journal_node *product = v ? weighed_error(p, x) : NULL;
        if (!product || dlsh_op_is(v, "neg") || sign_in_root(p, product) <= 0) continue;
        for (long k = 0; k < p.n; k++) {
            const dl_journal_node *sum = &p.at[k];
            if (!dlsh_op_is(sum, "add") || (dlsh_pass_source(p, sum, 0) != v && dlsh_pass_source(p, sum, 1) != v))
                continue;
            if (sign_in_root(p, sum) <= 0) continue;
            dlsh_finding *f = dlsh_find_at(e, x->file, x->line, "exp(-log_var) weighs the error, log_var is added");
            if (!f) return 1;
            dlsh_cause(f, "the logarithm of the variance goes into both parts of the loss with the same sign: nothing "
                          "holds it, and the loss falls without end");
            dlsh_evidence(f,
                          "exp of it multiplies the error, and line %d adds it: both become smaller with it, whatever "
                          "the error is; the loss went from %.4g to %.4g",
                          sum->line, r->first, r->last);
            return 1;
        }
    }
    return 0;
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
