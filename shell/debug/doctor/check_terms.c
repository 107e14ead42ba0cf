/* A loss that is a sum of parts: one that has a factor so large that the others are never made small, or so small that
 * it is not. */
#include <math.h>
#include <stdlib.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trace.h"

enum { DEEPEST = 12, PASSES = 30 };

/* A part with a factor: factor * value. */
typedef struct part {
    double factor, value;
    const dl_journal_node *at;
} part;

/* The value of a node that is a number multiplied by a part that is one number; a mean is none. */
static int part_of(dlsh_pass p, const dl_journal_node *n, part *out) {
    const int divides = dlsh_op_is(n, "div");
    if (divides && dlsh_op_is(dlsh_pass_source(p, n, 0), "square_sum|sum")) return 0;
    if (!n || n->out.ndim || (!divides && !dlsh_op_is(n, "mul"))) return 0;
    for (int k = 0; k < 2; k++) {
        const dl_journal_value *c = &n->in[k], *v = &n->in[1 - k];
        if (!c->constant || c->n != 1 || v->constant || v->n != 1 || (divides && !k)) continue;
        *out = (part){divides ? 1 / c->low : c->low, v->mean, n};
        return 1;
    }
    return 0;
}

/* The parts with a factor of a sum, down from its root; how many. */
static int parts_of(dlsh_pass p, const dl_journal_node *n, part *out, int max, int depth) {
    if (!n || depth > DEEPEST || max < 1) return 0;
    if (depth && part_of(p, n, out)) return 1;
    if (!dlsh_op_is(n, "add") || n->out.ndim) return 0;
    const int had = parts_of(p, dlsh_pass_source(p, n, 0), out, max, depth + 1);
    return had + parts_of(p, dlsh_pass_source(p, n, 1), out + had, max - had, depth + 1);
}

int dlsh_line_of_factor(const dlsh_examination *e, const char *file, const dlsh_node *n, double factor) {
    DLSH_EACH_BELOW (t, n)
        for (int k = 0; t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_MUL && k < 2; k++) {
            const dlsh_node *by = dlsh_origin_of_number(e, file, t.n->kids[k], factor);
            if (by && by != t.n->kids[k]) return by->span.line;
        }
    return 0;
}

/* The loss in the last quarter of the passes. */
static double settled(const dl_journal_row *r) {
    const int n = r->ncurve, part = n / 4;
    double sum = 0;
    for (int i = n - part; i < n; i++) sum += r->curve[i];
    return part ? sum / part : r->last;
}

static int has_leaf(dlsh_pass p, const char *met, const void *leaf) {
    for (long i = 0; i < p.n; i++)
        for (int k = 0; met[i] && k < p.at[i].nin && k < 8; k++)
            if (p.at[i].in[k].there && p.at[i].in[k].leaf == leaf) return 1;
    return 0;
}

/* A parameter with a gradient from the part alone; NULL: none. */
static const dl_tensor *of_part_alone(const dlsh_examination *e, dlsh_pass p, const dl_journal_node *at) {
    char own[120];
    DLSH_FREED char *met = dlsh_sources_of(p, at, NULL), *rest = dlsh_sources_of(p, p.at, at);
    const dl_tensor *found = NULL;
    if (!met || !rest) return NULL;
    for (long i = p.n - 1; i >= 0 && !found; i--)
        for (int k = 0; met[i] && k < p.at[i].nin && k < 8 && !found; k++) {
            const void *leaf = p.at[i].in[k].there ? p.at[i].in[k].leaf : NULL;
            if (leaf && !has_leaf(p, rest, leaf)) found = dlsh_live_leaf(e, leaf, own, sizeof own);
        }
    return found;
}

/* The rest of the loss is not made small since its way to what the part trains is cut off. */
static int find_cut_rest(dlsh_examination *e, const dl_journal_row *r, const part *last) {
    const char *file = NULL;
    if (dlsh_was_found(e, "gradients get through", "codes that were chosen")) return 1;
    const dl_tensor *p = of_part_alone(e, dlsh_pass_of(r, 1), last->at);
    const int cut = p ? dlsh_cut_by_trial(e, p, &file) : 0;
    const int drawn = cut && dlsh_line_of_sample(file) == cut;
    dlsh_finding *f =
        cut ? dlsh_find_at(e, file, cut, drawn ? DLSH_DRAW_WITH_HISTORY : "use the result itself, which has a history")
            : NULL;
    char name[120] = "";
    if (!f) return 0;
    dlsh_live_leaf(e, p, name, sizeof name);
    dlsh_mark_effects(e, "layers reach the data");
    dlsh_cause(f, "a part of the loss does not train %s: this line cuts its history off", name);
    dlsh_evidence(f, "the part of line %d alone gives it a gradient; the rest of the loss is not made small",
                  last->at->line);
    return 1;
}

/* Is the rest of the loss measured by other targets at last, as by those of a teacher that learns meanwhile? Then its
 * figures do not tell whether it became small. */
static int has_moved(dlsh_pass first, dlsh_pass last, const dl_journal_node *part) {
    DLSH_FREED char *rest = first.n == last.n ? dlsh_sources_of(last, last.at, part) : NULL;
    for (long i = 0; rest && i < last.n; i++)
        for (int k = 0; rest[i] && k < last.at[i].nin && k < 8; k++) {
            const dl_journal_value *a = &first.at[i].in[k], *b = &last.at[i].in[k];
            if (dlsh_node_weight(&last.at[i], NULL)) continue; /* what goes into a layer is no target */
            if (!a->constant || !b->constant || a->n < 8 || b->n < 8) continue;
            if (b->std > 2 * a->std || a->std > 2 * b->std) return 1;
        }
    return 0;
}

static void look_at_part(dlsh_examination *e, const dl_journal_row *r, const part *first, const part *last) {
    const double rest = r->first - first->factor * first->value, left = settled(r) - last->factor * last->value;
    if (!(first->factor > 0) || !(first->value > 0) || !(last->value >= 0)) return;
    if (!(last->value < 0.1 * first->value) || !(rest > 0) || !(left > 0.5 * rest)) return;
    if (rest < 0.02 * r->first && left > 2 * rest) return; /* it began at its least, as what a code costs */
    if (has_moved(dlsh_pass_of(r, 0), dlsh_pass_of(r, 1), last->at)) return;
    if (find_cut_rest(e, r, last) || dlsh_was_found(e, "parameters and optimizers", "the penalty on weights")) return;
    if (first->factor * first->value < 0.005 * r->first) return; /* which is next to nothing, and was so at first */
    const char *file = last->at->file;
    const int made = dlsh_line_of_factor(e, file, dlsh_statement_at(file, last->at->line), last->factor);
    dlsh_found(e, file, made ? made : last->at->line, "a much smaller factor, so that both parts become smaller",
               "one part of the loss, with the factor %.4g, outweighs the rest: it alone becomes small\n"
               "in %ld passes that part (line %d) went from %.3g to %.3g, the rest of the loss from %.4g to %.4g",
               last->factor, r->count, last->at->line, first->value, last->value, rest, left);
}

/* Does a part compare results with targets, whatever is done to the differences? */
static int compares(dlsh_pass p, const dl_journal_node *n) {
    static const char pairs[] =
        "sub|square_difference|huber_difference|cross_entropy|nll_picked|logit_loss|probability_loss";
    for (int i = 0; n && i < DEEPEST; i++) {
        if (dlsh_op_is(n, pairs)) return n->in[0].constant != n->in[1].constant;
        const int k = n->in[0].constant ? 1 : 0;
        n = dlsh_op_is(n, "mul|div|mean|sum|square_sum|root_square_sum|square|pow|abs|sqrt|reshape|huber")
                ? dlsh_pass_source(p, n, k)
                : NULL;
    }
    return 0;
}

/* A part that is so small a share of the loss that it is never learned, while the rest is. */
static void look_at_faint_part(dlsh_examination *e, const dl_journal_row *r, const part *first, const part *last) {
    const double rest = r->first - first->factor * first->value, end = settled(r);
    const double left = end - last->factor * last->value;
    if (!(first->factor > 0) || !(first->factor <= 0.01) || !(first->value > 0) || e->bad) return;
    if (!(first->factor * first->value < 0.02 * r->first) || !compares(dlsh_pass_of(r, 1), last->at)) return;
    if (!(last->value > 0.5 * first->value) || !(left < 0.3 * rest) || !(last->value > 3 * left)) return;
    if (has_moved(dlsh_pass_of(r, 0), dlsh_pass_of(r, 1), last->at)) return;
    const char *file = last->at->file;
    const int made = dlsh_line_of_factor(e, file, dlsh_statement_at(file, last->at->line), last->factor);
    dlsh_found(e, file, made ? made : last->at->line, "a factor with which both parts count: about 1, or larger",
               "one part of the loss counts for almost nothing, with the factor %.3g: it is not learned\n"
               "in %ld passes that part (line %d) went from %.3g to %.3g before the factor, the rest of the loss from "
               "%.4g to %.4g",
               last->factor, r->count, last->at->line, first->value, last->value, rest, left);
}

/* ---------------------------------------------------------------- a mean beside a sum */

/* How a part becomes one number. */
typedef struct reduction {
    double averaged, summed; /* over how many elements of a sample; 1: none */
    const dl_journal_node *of;
} reduction;

/* The sum that a node divides by the number of what it adds up, so that both are a mean; NULL: it is none. */
static const dl_journal_node *sum_of_mean(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *of = dlsh_op_is(n, "div") && dlsh_is_number_in(&n->in[1]) ? dlsh_pass_source(p, n, 0) : NULL;
    if (!dlsh_op_is(of, "sum|square_sum") || !of->in[0].there) return NULL;
    const double many = dlsh_elements_in(&of->in[0]) / dlsh_elements_in(&of->out);
    return fabs(n->in[1].low - many) < 1e-4 * many ? of : NULL;
}

/* Down from a part, one number or one a sample, to what is averaged and added up; the samples of the batch do not
 * count.
 */
static reduction reduction_of(dlsh_pass p, const dl_journal_node *n) {
    reduction r = {1, 1, NULL};
    const int each = n && n->out.ndim == 1;
    double samples = 1;
    for (int i = 0; n && i < DEEPEST; i++) {
        const dl_journal_node *sum = sum_of_mean(p, n);
        if (sum) n = sum;
        const int scaled = dlsh_op_is(n, "mul|div|neg") && (n->in[1].there ? n->in[1].constant : 1);
        const int scaled_first = !scaled && dlsh_op_is(n, "mul") && n->in[0].constant;
        const double share = n->in[0].there ? dlsh_elements_in(&n->in[0]) / dlsh_elements_in(&n->out) : 1;
        const int loss = dlsh_op_is(n, "logit_loss|probability_loss") && !n->out.ndim;
        if (sum || dlsh_op_is(n, "mean") || loss)
            r.averaged *= share, samples = n->in[0].ndim && !each ? (double)n->in[0].shape[0] : 1;
        else if (dlsh_op_is(n, "sum|square_sum"))
            r.summed *= share;
        else if (!scaled && !scaled_first)
            break;
        r.of = n;
        if (loss || dlsh_op_is(n, "square_sum")) break;
        n = dlsh_pass_source(p, n, scaled_first);
    }
    r.averaged /= samples;
    return r;
}

/* The exp that a node is a sum with, as the variances in a divergence from a normal distribution; NULL: there is none.
 */
static const dl_journal_node *exp_in(dlsh_pass p, const dl_journal_node *n, int depth) {
    if (!n || depth > 6) return NULL;
    if (dlsh_op_is(n, "exp")) return n;
    if (!dlsh_op_is(n, "add|sub|mul|neg|sum|mean|div")) return NULL;
    const dl_journal_node *a = exp_in(p, dlsh_pass_source(p, n, 0), depth + 1);
    return a ? a : exp_in(p, dlsh_pass_source(p, n, 1), depth + 1);
}

/* Are variances all 1, so that codes are noise? */
static int is_noise(const dl_journal_node *variance) {
    return variance && variance->out.n && fabs(variance->out.mean - 1) < 0.1 && variance->out.std < 0.15;
}

/* The divergence of the codes, summed over them, beside a mean over all elements of what is rebuilt: it came to 0. */
static void look_at_reductions(dlsh_examination *e, dlsh_pass p) {
    enum { MANY = 16 };
    const int each = dlsh_op_is(p.at, "mean") && !p.at->out.ndim; /* a sum for each sample */
    const dl_journal_node *n = each ? dlsh_pass_source(p, p.at, 0) : p.at;
    if (!dlsh_op_is(n, "add") || n->out.ndim != each) return;
    const dl_journal_node *side[2] = {dlsh_pass_source(p, n, 0), dlsh_pass_source(p, n, 1)};
    for (int k = 0; k < 2; k++) {
        const reduction a = reduction_of(p, side[k]), b = reduction_of(p, side[!k]);
        if (!a.of || !b.of || a.averaged < MANY || a.summed > 1 || b.summed < 2 || b.averaged > 1) continue;
        const dl_journal_node *variance = exp_in(p, b.of, 0);
        if (!is_noise(variance) || exp_in(p, a.of, 0)) continue;
        dlsh_found(e, a.of->file, a.of->line,
                   "the same for both parts: the sum over the elements of a sample, and the mean over samples",
                   "a part of the loss is a mean over the elements of a sample, the divergence beside it a sum: "
                   "that outweighs it %.0f times\n"
                   "line %d takes the mean over %.0f elements, line %d the sum over %.0f; variances are %.3g on "
                   "average, deviation %.2g: codes are noise, and what is rebuilt does not depend on the input",
                   a.averaged, a.of->line, a.averaged, b.of->line, b.summed, variance->out.mean, variance->out.std);
    }
}

/* ---------------------------------------------------------------- a sum over the batch beside a mean */

/* How samples become one number in a part. */
typedef struct batching {
    double factor, samples; /* samples 0: not known */
    int averaged;           /* else they are added up */
    const dl_journal_node *at;
} batching;

/* Down from a part to the op that takes the samples together. */
static batching batching_of(dlsh_pass p, const dl_journal_node *n, double factor) {
    batching b = {.factor = factor};
    double by = 1;
    for (int i = 0; n && i < DEEPEST && !b.samples; i++) {
        int k = 0;
        const int number = n->in[1].there && dlsh_is_number_in(&n->in[1]);
        const dl_journal_value *v = &n->in[0];
        const int loss = dlsh_op_is(n, "logit_loss|probability_loss|cross_entropy|nll_picked");
        if (dlsh_op_is(n, "div") && number)
            by *= n->in[1].low;
        else if (dlsh_op_is(n, "mul") && (number || dlsh_is_number_in(v)))
            k = !number, b.factor *= fabs(n->in[!k].low);
        else if ((loss || dlsh_op_is(n, "mean|sum|square_sum")) && v->ndim &&
                 (!n->out.ndim || v->shape[0] != n->out.shape[0]))
            b.samples = (double)v->shape[0], b.at = n,
            b.averaged = dlsh_op_is(n, "mean") || (loss && !strstr(n->attrs, "sum"));
        else if (!dlsh_op_is(n, "neg|mean|sum|square_sum"))
            break;
        n = dlsh_pass_source(p, n, k);
    }
    if (b.samples && by > 1 && fmod(by, b.samples) == 0)
        b.averaged = 1;
    else
        b.factor /= by;
    return b;
}

/* Is it computed from data, as no penalty on weights is? */
static int is_of_data(dlsh_pass p, const dl_journal_node *n) {
    DLSH_FREED char *met = dlsh_sources_of(p, n, NULL);
    for (long i = 0; met && i < p.n; i++)
        for (int k = 0; met[i] && k < p.at[i].nin && k < 8; k++)
            if (p.at[i].in[k].there && p.at[i].in[k].constant && p.at[i].in[k].ndim &&
                dlsh_elements_in(&p.at[i].in[k]) > 1)
                return 1;
    return 0;
}

/* The parts of a sum, factors and numbers left out; how many. */
static int batchings(dlsh_pass p, const dl_journal_node *n, double factor, batching *out, int max, int depth) {
    const dl_journal_node *next = n ? dlsh_pass_source(p, n, 0) : NULL;
    if (!n || depth > DEEPEST || max < 1) return 0;
    if (!n->out.ndim && dlsh_op_is(n, "add|sub")) {
        const int had = next ? batchings(p, next, factor, out, max, depth + 1) : 0;
        next = dlsh_pass_source(p, n, 1);
        return had + (next ? batchings(p, next, factor, out + had, max - had, depth + 1) : 0);
    }
    return *out = batching_of(p, n, factor), out->samples > 0;
}

static void look_at_batching(dlsh_examination *e, dlsh_pass p) {
    enum { PARTS = 8 };
    batching all[PARTS];
    const int n = batchings(p, p.at, 1, all, PARTS, 0);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            const batching *mean = &all[i], *sum = &all[k];
            if (!mean->averaged || sum->averaged || sum->samples < 4 || fmod(mean->samples, sum->samples) != 0)
                continue;
            if (sum->factor < 0.2 || mean->factor > 3 * sum->factor || !is_of_data(p, sum->at)) continue;
            dlsh_found(
                e, sum->at->file, sum->at->line,
                dlsh_kept(e, "the mean over the samples of the batch for both: divide this sum by %.0f", sum->samples),
                "a part of the loss is summed over the batch, another one is a mean over it: the sum weighs %.0f "
                "times too much\n"
                "%s adds up [%.0f] samples, line %d takes their mean",
                sum->samples, sum->at->op, sum->samples, mean->at->line);
        }
}

/* ---------------------------------------------------------------- parts of different size */

/* Is a part compared with data of its own? */
static int has_data(dlsh_pass p, const char *met) {
    static const char pairs[] = "cross_entropy|logit_loss|probability_loss|huber_difference|sub|square_difference|nll_"
                                "picked|divergence|log_divergence";
    for (long i = 0; i < p.n; i++)
        if (met[i] && dlsh_op_is(&p.at[i], pairs) && p.at[i].in[1].there &&
            p.at[i].in[0].constant != p.at[i].in[1].constant && p.at[i].in[p.at[i].in[1].constant].ndim)
            return 1;
    return 0;
}

/* The size of the gradients that a part alone gives to what both parts are made of. */
static double size_given(dlsh_pass p, const char *own, const char *other) {
    double squares = 0;
    for (long i = 0; i < p.n; i++)
        for (int k = 0; own[i] && !other[i] && k < p.at[i].nin && k < 8; k++) {
            const dl_journal_value *v = &p.at[i].in[k];
            const dl_journal_node *from = v->there ? dlsh_pass_node(p, v->from) : NULL;
            if (from && own[from - p.at] && other[from - p.at] && v->gradient > 0)
                squares += v->gradient * v->gradient * dlsh_elements_in(v);
        }
    return sqrt(squares);
}

/* By how much the gradients of one operand of a sum are larger than those of the other one; 0: not known. */
static double outweighs(dlsh_pass p, const dl_journal_node *sum, int large) {
    DLSH_FREED char *own = dlsh_sources_of(p, dlsh_pass_source(p, sum, large), NULL);
    DLSH_FREED char *other = dlsh_sources_of(p, dlsh_pass_source(p, sum, !large), NULL);
    if (!own || !other) return 0;
    const double less = has_data(p, own) && has_data(p, other) ? size_given(p, other, own) : 0;
    return less > 0 ? size_given(p, own, other) / less : 0;
}

/* Two losses with data of their own, of one body: the gradients of one are nothing beside those of the other, from the
 * first pass to the last. A factor that a part has is meant. */
static void look_at_sizes(dlsh_examination *e, dlsh_pass p, dlsh_pass q) {
    enum { TIMES = 300 };
    part factor;
    for (long i = 0; i < q.n && p.n == q.n; i++) {
        const dl_journal_node *n = &q.at[i];
        const dl_journal_node *side[2] = {dlsh_pass_source(q, n, 0), dlsh_pass_source(q, n, 1)};
        if (!dlsh_op_is(n, "add") || n->out.ndim || !side[0] || !side[1]) continue;
        for (int k = 0; k < 2; k++) {
            if (part_of(q, side[!k], &factor) && fabs(factor.factor) < 1) continue;
            const double last = outweighs(q, n, k), first = last > TIMES ? outweighs(p, &p.at[i], k) : 0;
            if (first > TIMES)
                dlsh_found(e, side[k]->file, side[k]->line,
                           "bring both to one size: divide the targets by their "
                           "deviation, or give the larger part a small factor",
                           "one part of the loss outweighs another one, which counts for nothing\n"
                           "what both are computed from gets gradients %.2g times as large from this part as from that "
                           "of line %d, in the last pass still %.2g times",
                           first, side[!k]->line, last);
        }
    }
}

/* Has no other part as large a factor? */
static int has_largest_factor(const part *all, int n, int k) {
    for (int i = 0; i < n; i++)
        if (i != k && all[i].factor >= all[k].factor) return 0;
    return 1;
}

dl_status dlsh_check_terms(dlsh_examination *e) {
    enum { PARTS = 8 };
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        part a[PARTS], b[PARTS];
        const dlsh_pass p = dlsh_pass_of(r, 0), q = dlsh_pass_of(r, 1);
        if (r->count < PASSES || !p.n || !q.n) continue;
        look_at_reductions(e, q);
        look_at_batching(e, q);
        look_at_sizes(e, p, q);
        const int n = parts_of(p, p.at, a, PARTS, 0);
        if (parts_of(q, q.at, b, PARTS, 0) != n) continue;
        for (int k = 0; k < n; k++) {
            if (has_largest_factor(b, n, k)) look_at_part(e, r, &a[k], &b[k]);
            look_at_faint_part(e, r, &a[k], &b[k]);
        }
    }
    return DL_OK;
}
