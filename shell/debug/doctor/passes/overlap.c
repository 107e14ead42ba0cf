/* Overlaps, such as dice and the share of an intersection in a union: they take probabilities, of which each is between
 * 0 and 1, beside masks of 0 and 1. */
#include "debug/doctor/passes/passes.h"

#include <math.h>

/* Elements of 0 and 1 alone, some of each. */
static int is_mask(const dl_journal_value *v) {
    return v->there && v->constant && v->n > 3 && v->low == 0 && v->high == 1 &&
           fabs(v->std * v->std - v->mean * (1 - v->mean)) < 1e-6;
}

/* The operand of an op that is added up, scaled or moved by numbers; NULL: it does something else. */
static const dl_journal_node *within_sum(dlsh_pass p, const dl_journal_node *n) {
    const int scales = dlsh_op_is(n, "add|sub|mul|div") && (n->in[0].constant || n->in[1].constant) &&
                       n->in[n->in[1].constant].ndim == 0;
    return scales || dlsh_op_is(n, "sum|mean") ? dlsh_pass_source(p, n, scales && n->in[0].constant) : NULL;
}

/* A product of a mask and of what is computed, in the numerator; NULL: there is none. *k: which operand is computed. */
static const dl_journal_node *product_with_mask(dlsh_pass p, const dl_journal_node *n, int *k) {
    for (int i = 0; n && i < DLSH_DEEP; i++) {
        *k = is_mask(&n->in[0]);
        if (dlsh_op_is(n, "mul") && is_mask(&n->in[!*k]) && !n->in[*k].constant && n->in[*k].ndim) return n;
        n = within_sum(p, n);
    }
    return NULL;
}

/* Is the sum of a node a part of a denominator? */
static int adds_up(dlsh_pass p, const dl_journal_node *n, unsigned long node, int depth) {
    for (int i = 0; n && i < DLSH_DEEP; i++) {
        if (n->in[0].there && n->in[0].from == node && dlsh_op_is(n, "sum|mean")) return 1;
        const dl_journal_node *next = within_sum(p, n);
        if (!next && dlsh_op_is(n, "add|sub") && depth < 4)
            return adds_up(p, dlsh_pass_source(p, n, 0), node, depth + 1) ||
                   adds_up(p, dlsh_pass_source(p, n, 1), node, depth + 1);
        n = next;
    }
    return 0;
}

void dlsh_find_overlap_of_scores(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    int k = 0;
    const dl_journal_node *product = dlsh_op_is(n, "div") ? product_with_mask(p, dlsh_pass_source(p, n, 0), &k) : NULL;
    const dl_journal_value *x = product ? &product->in[k] : NULL;
    if (!x || !x->n || (x->low >= -0.01 && x->high <= 1.01)) return;
    if (!adds_up(p, dlsh_pass_source(p, n, 1), x->from, 0)) return;
    const dl_journal_node *from = dlsh_pass_source(p, product, k);
    dlsh_finding *f = dlsh_find_at(e, n->file, n->line, "p = sigmoid(scores) first, or softmax over classes");
    char what[300] = "a parameter";
    if (from) dlsh_node_text(from, what, sizeof what);
    dlsh_cause(f, "an overlap, as dice, is computed of scores: it takes probabilities, from 0 to 1");
    dlsh_evidence(
        f,
        "the result of %s goes from %.4g to %.4g beside a mask of 0 and 1; so the quotient is no share, and can "
        "have any value",
        what, x->low, x->high);
}
