/* Losses that nothing but a limit holds, and labels that take the floor of a likelihood away. */
#include <math.h>
#include <stdlib.h>

#include "debug/doctor/passes/passes.h"
#include "debug/doctor/trace.h"

/* ---------------------------------------------------------------- a floor that clamp() sets */

/* Can a node fall, or with sign -1 rise, without end? */
static int is_open(dlsh_pass p, const dl_journal_node *n, int sign) {
    const dlsh_bounds of = dlsh_bounds_unclamped(p, n);
    return isinf(sign > 0 ? of.low : of.high);
}

/* Where the sign is wrong: the last op that joins what can fall with what cannot; the root, where all can. */
static const dl_journal_node *turned_at(dlsh_pass p) {
    const dl_journal_node *n = p.at, *by = NULL;
    int sign = 1;
    for (int i = 0; n && i < DLSH_DEEP; i++) {
        const dl_journal_node *a = dlsh_pass_source(p, n, 0), *b = n->nin > 1 ? dlsh_pass_source(p, n, 1) : NULL;
        const int takes = dlsh_op_is(n, "sub") ? -sign : sign;
        if (dlsh_op_is(n, "add|sub") && a && b) {
            if (is_open(p, a, sign) && is_open(p, b, takes)) return p.at;
            if (is_open(p, b, takes) && takes != sign) return n;
            sign = is_open(p, a, sign) ? sign : takes;
            n = is_open(p, a, sign) ? a : b;
            continue;
        }
        const dl_journal_value *c = &n->in[!b];
        const int turns = dlsh_op_is(n, "neg") || (dlsh_op_is(n, "sub") && !a) ||
                          (dlsh_op_is(n, "mul|div") && dlsh_is_number_in(c) && c->low < 0);
        if (turns) sign = -sign, by = n;
        if (!dlsh_op_is(n, "neg|mul|div|add|sub|sum|mean|clamp|reshape|view|squeeze")) break;
        n = a ? a : b;
    }
    return by ? by : p.at;
}

/* Can both operands of the first sum on the way down fall without end? Then all of the loss is to be turned. */
int dlsh_is_turned_whole(dlsh_pass p) { return turned_at(p) == p.at && !dlsh_op_is(p.at, "add|sub"); }

/* The size of a node's result, as what uses it was given it; NaN: not known. */
static double size_of(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *user = n ? dlsh_pass_user(p, n) : NULL;
    const dl_journal_value *v = n && n->out.n ? &n->out : NULL;
    for (int k = 0; !v && user && k < user->nin && k < 8; k++)
        if (user->in[k].from == n->seq && user->in[k].n) v = &user->in[k];
    return v ? hypot(v->mean, v->std) : NAN;
}

int dlsh_came_near(dlsh_pass first, dlsh_pass last) {
    const dl_journal_node *n = dlsh_compares(last);
    if (!n || first.n != last.n) return 1;
    return !(size_of(last, n) > 0.3 * size_of(first, &first.at[n - last.at]));
}

/* Where the text gives the loss of a pass its value; the line of the pass where it has no name. */
static int line_of_loss(const dl_journal_row *r) {
    const dlsh_node *s = dlsh_statement_at(r->file, r->line);
    while (s && s->kind != DLSH_N_NAME && s->nkids) s = s->kids[0]; /* backward l, l.backward() */
    const dlsh_node *made = dlsh_defined(r->file, s);
    return made ? made->span.line : r->line;
}

void dlsh_find_moved_away(dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass first = dlsh_pass_of(r, 0), last = dlsh_pass_of(r, 1);
    const dl_journal_node *n = dlsh_compares(last);
    if (!dlsh_op_is(n, "sub|square_difference|huber_difference") || first.n != last.n || r->count < 10) return;
    if (!isinf(dlsh_bounds_of(last, last.at).low) || dlsh_targets_move(e, r)) return;
    const double before = size_of(first, &first.at[n - last.at]), after = size_of(last, n);
    if (!(after > 2 * before) || !(r->last < r->first) || !dlsh_settled_lower(r, 0.5) || dlsh_has_rivals(e)) return;
    dlsh_found(e, r->file, line_of_loss(r), "turn the sign: what is to be large is -x as a loss",
               "the loss has the wrong sign: as it falls, what is computed moves away from the data\n"
               "the difference of line %d went from a size of %.3g to %.3g, the loss from %.4g to %.4g",
               n->line, before, after, r->first, r->last);
}

int dlsh_find_fall_to_limit(dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass p = dlsh_pass_of(r, 1);
    const dlsh_bounds with = dlsh_bounds_of(p, p.at), without = dlsh_bounds_unclamped(p, p.at);
    if (!isfinite(with.low) || isfinite(without.low) || r->count < 10) return 0;
    if (!(r->last - with.low < 0.05 * (r->first - with.low)) || dlsh_came_near(dlsh_pass_of(r, 0), p)) return 0;
    const dl_journal_node *at = turned_at(p);
    dlsh_found(
        e, at->file, at->line,
        "turn the sign: of the logarithm of a likelihood minus the mean is the loss, and in "
        "it the logarithm of the deviation is added",
        "the loss has the wrong sign: it falls to the limit that clamp() sets, and nothing else holds it\n"
        "it went from %.4g to %.4g, and cannot be less than %.4g; what is computed has come no nearer to the data",
        r->first, r->last, with.low);
    return 1;
}

/* ---------------------------------------------------------------- weights of parts that are trained */

/* Is all of a node's result, at most times numbers above 0, a part of the loss? */
static int is_part_of_loss(dlsh_pass p, const dl_journal_node *n) {
    for (int i = 0; n && n != p.at && i < DLSH_DEEP; i++) {
        n = dlsh_pass_user(p, n);
        const dl_journal_value *c = n ? &n->in[n->in[0].constant ? 0 : 1] : NULL;
        const int scales = n && dlsh_op_is(n, "mul|div") && dlsh_is_number_in(c) && c->low > 0;
        if (!scales && !dlsh_op_is(n, "add|sum|mean|reshape|stack|cat|select|squeeze")) return 0;
    }
    return n == p.at;
}

/* The product in which a parameter, after what makes one number above 0 of it or takes one, weighs a part of the loss
 * that is never negative; NULL: it does not. *k: which operand it is. */
static const dl_journal_node *weighs(dlsh_pass p, const dl_journal_node *n, const dl_journal_value *v, int *k) {
    while (dlsh_op_is(n, "select|index|exp|softplus|sigmoid|abs|square|reshape|squeeze")) {
        const dl_journal_node *user = dlsh_pass_user(p, n);
        v = NULL;
        for (int i = 0; user && i < 2; i++)
            if (user->in[i].from == n->seq) v = &user->in[i];
        if (!v) return NULL;
        n = user;
    }
    *k = v == &n->in[1];
    const dl_journal_value *part = &n->in[!*k];
    const int one = dlsh_elements_in(v) == 1 && !part->constant && !part->leaf;
    if (!one || !dlsh_op_is(n, "mul") || dlsh_sign_of(p, dlsh_pass_source(p, n, !*k)) <= 0) return NULL;
    return is_part_of_loss(p, n) ? n : NULL;
}

/* A parameter that does nothing but weigh parts of the loss: smaller, or negative, it lowers the loss. */
int dlsh_find_trained_factor(dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass first = dlsh_pass_of(r, 0), p = dlsh_pass_of(r, 1);
    char name[120];
    DLSH_EACH_OP (n, p)
        DLSH_EACH_OPERAND (v, n) {
            int k = 0, alone = 1;
            const dl_journal_node *by = v->there && v->leaf ? weighs(p, n, v, &k) : NULL;
            if (!by || first.n != p.n) continue;
            DLSH_EACH_OP (m, p)
                DLSH_EACH_OPERAND (w, m) {
                    int other;
                    if (w->there && w->leaf == v->leaf) alone &= weighs(p, m, w, &other) != NULL;
                }
            const double before = first.at[by - p.at].in[k].mean, now = by->in[k].mean;
            dl_tensor *t = alone && now < before ? dlsh_live_leaf(e, v->leaf, name, sizeof name) : NULL;
            if (!t || !dlsh_is_being_trained(e, t)) continue;
            const dl_source place = v->made.file ? v->made : (dl_source){by->file, by->line},
                            at = dlsh_constant_in_net(name, place);
            dlsh_found(e, at.file, at.line, "a number that is not trained; or exp(-s) * part + s, which has a floor",
                       "%s, which weighs a part of the loss, is trained by that loss: nothing keeps it from 0, or from "
                       "what is below\n"
                       "the factor that it gives line %d went from %.4g to %.4g, the loss from %.4g to %.4g",
                       name, by->line, before, now, r->first, r->last);
            return 1;
        }
    return 0;
}

/* ---------------------------------------------------------------- labels beyond 0 and 1 */

typedef struct labels {
    const dlsh_examination *e;
    double low, high;
} labels;

/* Has a tensor whole numbers alone, from low to high? */
static int has_range(const dl_tensor *t, const labels *l) {
    DLSH_FREED double *v = malloc(((size_t)dl_numel(t) + 1) * sizeof *v);
    double low = INFINITY, high = -INFINITY;
    if (!v || dl_requires_grad(t) || dl_numel(t) > 1 << 20 || dl_read_f64(t, v)) return dl_error_clear(), 0;
    for (long i = 0; i < dl_numel(t); i++) {
        if (v[i] != floor(v[i])) return 0;
        low = fmin(low, v[i]), high = fmax(high, v[i]);
    }
    return low == l->low && high == l->high;
}

static dlsh_property is_labels(void *ctx, const dlsh_step *s) {
    const labels *l = ctx;
    const dlsh_value *v = s->n->kind == DLSH_N_NAME ? dlsh_value_of(l->e, s->file, s->n) : NULL;
    if (!v || v->type != DLSH_TENSOR) return DLSH_MAY_HAVE;
    return has_range(v->as.tensor, l) ? DLSH_HAS : DLSH_HAS_NOT;
}

/* Is the rest of the labels to 1 a factor, too, as in y * log(p) + (1 - y) * log(1 - p)? */
static int has_rest(dlsh_pass p, const dl_journal_value *y) {
    for (long k = 0; k < p.n; k++)
        for (int i = 0; i < 2 && dlsh_op_is(&p.at[k], "mul"); i++) {
            const dl_journal_value *v = &p.at[k].in[i];
            if (v->constant && v->n == y->n && v->low == 1 - y->high && v->high == 1 - y->low) return 1;
        }
    return 0;
}

int dlsh_find_labels_beyond(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, int endless) {
    int likelihood = 0;
    for (long k = 0; k < p.n; k++)
        likelihood |= dlsh_op_is(&p.at[k], "softplus|logsigmoid|log|log1p|sigmoid|log_softmax|exp");
    for (long k = 0; likelihood && k < p.n; k++) {
        const dl_journal_node *n = &p.at[k];
        const dl_journal_value *y = &n->in[n->in[0].constant ? 0 : 1], *z = &n->in[n->in[0].constant ? 1 : 0];
        if (!dlsh_op_is(n, "mul") || !y->constant || z->constant || y->n < 4 || (y->low >= 0 && y->high <= 1)) continue;
        if (!endless && !(r->last < 0 && has_rest(p, y))) continue;
        if (y->low != floor(y->low) || y->high != floor(y->high) || y->high - y->low > 255) continue;
        labels l = {e, y->low, y->high};
        const dlsh_node *by = dlsh_origin(n->file, dlsh_statement_at(n->file, n->line), is_labels, &l);
        const dlsh_node *made = dlsh_defined(n->file, by);
        if (!by ||
            !dlsh_found(e, n->file, made ? made->span.line : by->span.line, "targets of 0 and 1: (y > 0).float()",
                        "the targets of a loss of probabilities go from %.4g to %.4g: they must lie between 0 and 1\n"
                        "the loss of line %d falls below 0 with them: it went from %.4g to %.4g",
                        y->low, y->high, n->line, r->first, r->last))
            continue;
        return 1;
    }
    return 0;
}
