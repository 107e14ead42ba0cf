/* A penalty on weights in the loss that outweighs the rest of it. */
#include <math.h>

#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"

/* Where the factor of a penalty on weights is set; the line of the penalty itself where it has none with a name. */
static int line_of_penalty(const dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *at = n;
    for (int i = 0; at && i < DLSH_DEEP; i++, at = dlsh_pass_user(p, at)) {
        if (at == n || !dlsh_op_is(at, "mul")) continue;
        const int first = dlsh_is_number_in(&at->in[0]);
        const double factor = first || dlsh_is_number_in(&at->in[1]) ? at->in[!first].low : NAN;
        const int line = dlsh_line_of_factor(e, at->file, dlsh_statement_at(at->file, at->line), factor);
        if (line) return line;
    }
    return n->line;
}

/* The part of the loss that a penalty is at first: k times a sum; 0: not known. */
static double value_of_part(dlsh_pass p, const dl_journal_node *n) {
    for (int i = 0; n && i < DLSH_DEEP; i++, n = dlsh_pass_user(p, n))
        for (int k = 0; k < 2 && dlsh_op_is(n, "mul") && !n->out.ndim; k++)
            if (dlsh_is_number_in(&n->in[k]) && n->in[!k].n == 1) return n->in[k].low * n->in[!k].mean;
    return 0;
}

/* Is a weight with a penalty far smaller in the last pass than in the first one? */
static int shrank_by_penalty(const dl_journal_row *r, const dl_journal_value *v) {
    const dlsh_pass q = dlsh_pass_of(r, 1);
    const double before = hypot(v->mean, v->std);
    for (long k = 0; k < q.n; k++) {
        const dl_journal_value *w = &q.at[k].in[0];
        if (dlsh_op_is(&q.at[k], "square|square_sum|root_square_sum|pow|norm") && w->there && w->leaf == v->leaf &&
            w->n)
            return r->count > 20 && hypot(w->mean, w->std) < 0.5 * before;
    }
    return 0;
}

void dlsh_find_heavy_penalty(dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass p = dlsh_pass_of(r, 0);
    for (long k = 0; k < p.n; k++) {
        const dl_journal_node *n = &p.at[k];
        const dl_journal_value *v = &n->in[0];
        if (!dlsh_op_is(n, "mul|square|square_sum|root_square_sum|pow|abs|norm") || !v->there || !v->leaf ||
            v->ndim < 2)
            continue;
        double other = -1;
        for (long i = 0; i < p.n; i++)
            for (int j = 0; j < p.at[i].nin && j < 8; j++)
                if (i != k && p.at[i].in[j].leaf == v->leaf) other = fmax(other, p.at[i].in[j].gradient);
        const double size = sqrt(v->mean * v->mean + v->std * v->std);
        const int outweighs = other > 0 && v->gradient > 5 * other && v->gradient >= 0.05 * size;
        if (!v->n || (!outweighs && !(value_of_part(p, n) > 0.5 * r->first && shrank_by_penalty(r, v)))) continue;
        dlsh_found(e, n->file, line_of_penalty(e, p, n), "a smaller factor, such as 1e-4, or weight_decay=",
                   "the penalty on weights outweighs the loss: it pulls the weights to 0\n"
                   "its gradient of %s is %.3g at first, that of the rest of the loss %.3g%s",
                   *v->name ? v->name : "a weight", v->gradient, other,
                   outweighs ? "" : "; it is most of the loss, and the weight has shrunk to less than half");
        return;
    }
}
