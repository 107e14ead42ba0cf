/* Units and layers: units that are dead or saturated, gradients that vanish or explode. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/syntax.h"

/* ---------------------------------------------------------------- dead and saturated */

/* Of probabilities in rows: 1 where all are alike, 0 where one is 1 and the others are 0. */
static double softness(const dl_journal_node *n) {
    const double k = n->out.ndim ? (double)n->out.shape[n->out.ndim - 1] : 1, even = 1 / k;
    if (k < 4 || fabs(n->out.mean - even) > 1e-3 * even) return 1; /* along another dimension */
    return 1 - n->out.std * n->out.std / (even - even * even);
}

/* The mean derivative of an op with limits, from mean and deviation of its results; 1: it has none. */
static double mean_slope(const dl_journal_node *n) {
    const dl_journal_value *y = &n->out;
    double squares = y->mean * y->mean + y->std * y->std;
    if (!y->n) return 1;
    if (dlsh_op_is(n, "softmax")) return softness(n);
    if (dlsh_op_is(n, "sigmoid")) return 4 * (y->mean - squares);
    return dlsh_op_is(n, "tanh") ? 1 - squares : 1;
}

/* The node at the same place of the first pass. */
static const dl_journal_node *counterpart(dlsh_pass first, dlsh_pass last, const dl_journal_node *n) {
    long i = n - last.at;
    return first.n == last.n && !strcmp(first.at[i].op, n->op) ? &first.at[i] : NULL;
}

static double gain_of(const dl_journal_node *n, const dl_journal_value *w) {
    int unit;
    double inputs = 1;
    dlsh_node_weight(n, &unit);
    for (int d = 0; d < w->ndim; d++) inputs *= d == unit ? 1 : (double)w->shape[d];
    return w->n ? sqrt((w->std * w->std + w->mean * w->mean) * inputs) : NAN;
}

/* Of the products that an op is given, added up, the one with the largest weights; *gain: how much they multiply. */
static const dl_journal_node *product_before(dlsh_pass p, const dl_journal_node *n, double *gain, int depth) {
    const dl_journal_node *found = NULL;
    for (int k = *gain = 0; k < n->nin && k < 2; k++) {
        const dl_journal_node *by = dlsh_pass_source(p, n, k);
        const dl_journal_value *w = by ? dlsh_node_weight(by, NULL) : NULL;
        double own = w ? gain_of(by, w) : 0;
        if (!w && dlsh_op_is(by, "add") && depth < 4) by = product_before(p, by, &own, depth + 1);
        if (own > *gain) *gain = own, found = by;
    }
    return found;
}

int dlsh_is_relu(dlsh_pass p, const dl_journal_node *n) {
    const int zero = dlsh_op_is(n, "where") || (dlsh_op_is(n, "clamp") && !strcmp(n->attrs, "min=0"));
    for (int k = 0; dlsh_op_is(n, "maximum") && k < 2; k++)
        if (dlsh_is_number_in(&n->in[k]) && n->in[k].low == 0) return dlsh_is_hidden(p, n);
    return strstr(n->op, "relu") || (zero && dlsh_is_hidden(p, n));
}

/* The bias before an op that holds its units below 0: where it was made; 0: there is none. */
static int line_of_bias(const dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *by = dlsh_pass_source(p, n,
                                                 dlsh_op_is(n, "where") && !n->in[1].from ? 2
                                                 : n->in[0].from                          ? 0
                                                                                          : 1);
    for (int k = 0; by && dlsh_op_is(by, "add|sub|linear") && k < by->nin && k < 8; k++) {
        const dl_journal_value *v = &by->in[k];
        const double mean = dlsh_op_is(by, "sub") ? -v->mean : v->mean;
        if (v->there && v->leaf && v->ndim < 2 && v->n && mean < -1 && v->std < -0.5 * mean)
            return dlsh_leaf_source(e, v, v->made).line;
    }
    return 0;
}

/* What is added to the products that an op is given, as a bias; NULL: nothing, or it is not a leaf. */
static const dl_journal_value *added_before(dlsh_pass p, const dl_journal_node *n, const dl_journal_node *product) {
    for (int i = 0; n && n != product && i < 4; i++) {
        n = dlsh_pass_source(p, n, 0);
        for (int k = 0; k < 2 && dlsh_op_is(n, "add"); k++)
            if (n->in[k].leaf) return &n->in[k];
    }
    return product && product->nin > 2 && product->in[2].there && product->in[2].leaf ? &product->in[2] : NULL;
}

/* Is no weight of a product above 0, and nothing that it weighs below? */
static int is_all_below(const dl_journal_node *n) {
    const dl_journal_value *w = dlsh_node_weight(n, NULL), *x = w ? &n->in[w == &n->in[0]] : NULL;
    return w && w->n && w->high <= 0 && x->n && x->low >= 0;
}

/* From the first pass on: weights, or what is added to them, that the script set, or that are large. */
static void blame_weights(dlsh_examination *e, dlsh_pass first, const dl_journal_node *n, dlsh_finding *f) {
    double gain = 0;
    const dl_journal_node *by = product_before(first, n, &gain, 0);
    const dl_journal_value *added = added_before(first, n, by);
    const int large = added && fabs(added->mean) > fmax(1, gain);
    const dl_source set = large ? dlsh_set_at(e, first, added) : by ? dlsh_weight_set_at(e, first, by) : (dl_source){0};
    dl_source made = set;
    const int below = by && !large && is_all_below(by);
    if (!set.file && by && (gain > 4 || below) && !large && !*n->layer_file) made = dlsh_weight_source(e, by);
    if (made.file) f->file = made.file, f->line = made.line;
    if (below) f->remedy = "weights on both sides of 0: here none is above 0, and no input is below";
    const int bias = set.file || *n->layer_file ? 0 : line_of_bias(e, first, n);
    if (bias) f->line = bias;
    for (int i = 0; i < e->nfindings; i++) /* of the same weights */
        f->effect |= !strcmp(e->findings[i].check, "the initial loss") && e->findings[i].line == f->line;
    if (set.file && large)
        f->remedy = dlsh_kept(e, "begin near 0: here the script adds %.3g, so that nothing else counts", added->mean);
}

/* Is its result what the loss compares with targets, as of a regression? */
static int is_last_of_differences(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *u = dlsh_pass_user(p, n);
    for (int i = 0; u && i < 4 && dlsh_op_is(u, "reshape|select|slice|squeeze|index|flatten|view"); i++)
        u = dlsh_pass_user(p, u);
    return dlsh_op_is(u, "sub|huber_difference") && u->in[0].constant != u->in[1].constant;
}

/* Does its result only add to the loss, as a limit that is kept, or a margin that is reached? Then 0 is the aim. */
static int is_penalty(dlsh_pass p, const dl_journal_node *n) {
    while ((n = dlsh_pass_user(p, n)))
        if (!dlsh_op_is(n, "mean|sum|add|mul|div|square|square_sum|pow|sqrt|reshape")) return 0;
    return 1;
}

/* Was something found that makes units so from the first pass on? */
static int is_explained(const dlsh_examination *e) {
    static const struct {
        const char *check, *word;
    } why[] = {{"the data", "scale"}, /* not scaled, scaled to, differ in scale */
               {"the data", "nearly 0"},
               {"training and evaluation mode", "is trained in evaluation mode: batchnorm"},
               {"dead and saturated units", "the root of their length"}};
    for (size_t i = 0; i < DLSH_COUNT(why); i++)
        if (dlsh_was_found(e, why[i].check, why[i].word)) return 1;
    return 0;
}

/* Is the last finding one that was told of another layer at the same line? Then the first one names both. */
static int is_told(dlsh_examination *e, const char *what) {
    const dlsh_finding *f = &e->findings[e->nfindings - 1];
    for (int i = 0; i < e->nfindings - 1; i++) {
        dlsh_finding *former = &e->findings[i];
        if (former->check != f->check || former->line != f->line || strcmp(former->file, f->file) != 0) continue;
        const size_t used = strlen(former->evidence);
        if (!strstr(former->evidence, what) && !strstr(former->cause, what))
            snprintf(former->evidence + used, sizeof former->evidence - used, "; the same of %s", what);
        e->bad -= !f->note, e->nnotes -= f->note, e->nfindings--;
        return 1;
    }
    return 0;
}

/* Units in functions of the script that large weights drive outwards, from the first pass on. */
static int is_driven(const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n, const dl_journal_node *then) {
    double gain = 0;
    if (!dlsh_op_is(n, "tanh|sigmoid") || *n->layer_file || !then || dlsh_settled_lower(r, 0.95)) return 0;
    return fmax(mean_slope(n), mean_slope(then)) < 0.2 && product_before(p, n, &gain, 0) && gain > 4;
}

static void look_at_unit(dlsh_examination *e, const dl_journal_row *r, const dl_journal_node *n) {
    const dlsh_pass first = dlsh_pass_of(r, 0), p = dlsh_pass_of(r, 1);
    const dl_journal_node *then = counterpart(first, p, n);
    const int driven = is_driven(r, p, n, then);
    int dead = n->out.dead > 0.75 && dlsh_is_relu(p, n),
        flat = !dead && (driven || mean_slope(n) < 0.12) && dlsh_is_hidden(p, n);
    if ((!dead && !flat) || (dead && is_penalty(p, n))) return;
    const dl_journal_node *user = dlsh_pass_user(p, n);
    const int gate = dlsh_op_is(n, "sigmoid") && dlsh_op_is(user, "mul|split|chunk") && !user->in[1].constant;
    if ((gate || dlsh_op_is(n, "softmax")) && !(then && mean_slope(then) < 0.12)) return; /* they may become sure */
    int before = then && (dead ? then->out.dead > 0.75 : driven || mean_slope(then) < 0.12);
    if (flat && !before && dlsh_settled_lower(r, 0.55)) return; /* it has become sure while it learned */
    const dl_source at = dlsh_source_of_use(e, p, n);
    dlsh_finding *f =
        dlsh_find_at(e, at.file, at.line,
                     dead && before ? "an initialisation around 0: look at the bias and the scale of what goes in"
                     : dead         ? "a smaller learning rate, or leaky_relu"
                     : dlsh_op_is(n, "softmax") ? "divide the scores by the root of their length: q @ k.T / sqrt(d)"
                     : before ? "a smaller initialisation, of deviation 1 / sqrt(inputs), or normalise what goes in"
                              : "a smaller learning rate, or a norm layer before it");
    char what[300];
    if (!f) return;
    f->effect = !before || is_explained(e);
    const int enough = dead && !before && n->out.dead < 0.95 && dlsh_settled_lower(r, 0.5);
    if (enough) dlsh_only_note(e, f);
    if (before && then) blame_weights(e, first, then, f);
    dlsh_node_text(n, what, sizeof what);
    if (is_told(e, what)) return;
    const char *since = before ? "from the first pass on" : "since some step: they were not at first";
    if (dead && is_last_of_differences(p, n)) {
        f->remedy = "leave it out after the last layer: targets below 0 are never reached with it";
        dlsh_cause(f, "%s after the last layer: all that comes out is 0, and no gradient gets through any more", what);
        dlsh_evidence(f, "%s; its result is compared with the targets (line %d)", since, dlsh_pass_user(p, n)->line);
    } else if (dead) {
        dlsh_cause(f, "%.0f%% of the units of %s are dead: 0 for all samples, without gradient", 100 * n->out.dead,
                   what);
        dlsh_evidence(f, "%s%s", since, enough ? "; the others are enough, the loss has fallen by more than half" : "");
    } else {
        dlsh_cause(f, "%s is saturated: its results lie near its limits, where its slope is %.2g%% of the steepest",
                   what, 100 * fmax(mean_slope(n), 0));
        dlsh_evidence(f, "its results have mean %.3g and deviation %.3g, %s", n->out.mean, n->out.std, since);
    }
}

/* A dropout that leaves hardly any unit. */
static void look_at_dropout(dlsh_examination *e, const dl_journal_node *n) {
    const char *at = strstr(n->op, "dropout") ? strstr(n->attrs, "p=") : NULL;
    const double p = at ? strtod(at + strlen("p="), NULL) : 0;
    if (p >= 0.9)
        dlsh_found(e, dlsh_node_file(n), dlsh_node_line(n), "p from 0.1 to 0.5",
                   "dropout takes away %.3g %% of the units: almost nothing of the input gets through\n"
                   "p is the probability that an element becomes zero, not that it stays",
                   100 * p);
}

dl_status dlsh_check_units(dlsh_examination *e) {
    long nodes = 0, nans = 0;
    double dead = 0, slope = 1;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 1);
        for (long k = p.n - 1; k >= 0; k--) /* what is dropped looks dead, and what grew saturated */
            look_at_dropout(e, &p.at[k]), dlsh_find_grown_attention(e, p, &p.at[k]);
        for (long k = p.n - 1; k >= 0; k--) {
            look_at_unit(e, r, &p.at[k]);
            nodes += p.at[k].out.dead >= 0 || mean_slope(&p.at[k]) < 1;
            nans += p.at[k].out.nans;
            if (dlsh_is_relu(p, &p.at[k])) dead = fmax(dead, p.at[k].out.dead);
            if (dlsh_is_hidden(p, &p.at[k])) slope = fmin(slope, mean_slope(&p.at[k]));
        }
    }
    if (nans) return DL_OK; /* nothing is known of units without numbers */
    if (nodes && dead > 0.5)
        dlsh_passed(e, "of %ld activations at most %.0f%% of the units are dead", nodes, 100 * dead);
    else if (nodes && slope < 0.12)
        dlsh_passed(e, "of %ld activations the flattest has %.2g of its steepest slope, and the loss has fallen", nodes,
                    fmax(slope, 0));
    else if (nodes)
        dlsh_passed(e, "%ld activations are neither dead nor saturated", nodes);
    return DL_OK;
}

/* ---------------------------------------------------------------- gradients by depth */

enum { DEPTH = 256 };

/* Marks the nodes that the newest one with a weight is computed from: other branches have gradients of other sizes. */
static char *chain_of(dlsh_pass p) {
    DLSH_EACH_OP (n, p)
        if (dlsh_node_weight(n, NULL)) return dlsh_sources_of(p, n, NULL);
    return dlsh_sources_of(p, NULL, NULL);
}

/* Has the same optimizer both weights, or none of them? */
static int are_trained_together(const dlsh_examination *e, const void *a, const void *b) {
    dl_optimizer *o;
    for (int i = 0; (o = dlsh_optimizer_at(e, i, NULL)); i++)
        if (dlsh_optimizer_has(o, a) != dlsh_optimizer_has(o, b)) return 0;
    return 1;
}

/* Weights of a pass from the input on, of one chain, as far as they are trained together: a critic behind a generator
 * has gradients of another size. */
static int find_weights(const dlsh_examination *e, dlsh_pass p, const dl_journal_node **node,
                        const dl_journal_value **w) {
    DLSH_FREED char *on = chain_of(p);
    int n = 0;
    for (long k = p.n - 1; on && k >= 0 && n < DEPTH; k--)
        if (on[k] && (w[n] = dlsh_node_weight(&p.at[k], NULL)) && w[n]->gradient >= 0 &&
            are_trained_together(e, w[0]->leaf, w[n]->leaf))
            node[n++] = &p.at[k];
    return n;
}

/* How often a weight is used in a pass. */
static long uses_of(dlsh_pass p, const void *leaf) {
    long n = 0;
    for (long k = 0; k < p.n; k++) {
        const dl_journal_value *w = dlsh_node_weight(&p.at[k], NULL);
        n += w && w->leaf == leaf;
    }
    return n;
}

/* A square weight that a recurrence uses again and again. */
static const dl_journal_node *repeated(dlsh_pass p, const dl_journal_node **node, const dl_journal_value **w, int n,
                                       int vanish, char *why, size_t size) {
    for (int i = 0; i < n; i++) {
        const long uses = w[i]->ndim == 2 && w[i]->shape[0] == w[i]->shape[1] ? uses_of(p, w[i]->leaf) : 0;
        const double gain = gain_of(node[i], w[i]);
        if (uses < 4 || !(vanish ? gain < 0.8 : gain > 1.2)) continue;
        snprintf(why, size, "the weight of line %d is used %ld times in a pass, and each time multiplies sizes by %.2g",
                 node[i]->line, uses, gain);
        return node[i];
    }
    return NULL;
}

/* How much all calls of an op with limits in one line make gradients smaller: the sum of logarithms of mean slopes. */
static double flatness(dlsh_pass p, const dl_journal_node *n, long *times) {
    double sum = 0;
    *times = 0;
    DLSH_EACH_OP (m, p) {
        if (strcmp(m->op, n->op) != 0 || dlsh_node_line(m) != dlsh_node_line(n)) continue;
        const double slope = mean_slope(m) * (dlsh_op_is(m, "sigmoid") ? 0.25 : 1);
        sum -= log(fmax(slope, 1e-6)), ++*times;
    }
    return sum;
}

/* The line of such ops that takes away most of the gradients. */
static const dl_journal_node *flattest(dlsh_pass p, char *why, size_t size) {
    const dl_journal_node *found = NULL;
    double most = 0;
    long times = 0, count = 0;
    for (long k = p.n - 1; k >= 0; k--) {
        const double sum = dlsh_op_is(&p.at[k], "sigmoid|tanh") ? flatness(p, &p.at[k], &times) : 0;
        if (sum > most) most = sum, found = &p.at[k], count = times;
    }
    if (found)
        snprintf(why, size,
                 "a gradient goes through %ld layer%s of %s, and each of them makes it smaller: the slope of %s is %s",
                 count, count > 1 ? "s" : "", found->op, found->op,
                 !strcmp(found->op, "sigmoid") ? "at most 1/4" : "below 1");
    return found;
}

/* Why gradients change in size on the way to the input. */
static const dl_journal_node *culprit(dlsh_pass p, const dl_journal_node **node, const dl_journal_value **w, int n,
                                      int vanish, char *why, size_t size) {
    const dl_journal_node *first = repeated(p, node, w, n, vanish, why, size);
    if (first) return first;
    for (int i = 0; i < n; i++) {
        const double gain = gain_of(node[i], w[i]);
        if (!w[i]->n || (vanish ? gain > 0.3 : gain < 2.5)) continue;
        snprintf(why, size, "the weights of %s%s multiply the size of what passes by %.2g",
                 *node[i]->layer ? "layer " : "", *node[i]->layer ? node[i]->layer : node[i]->op, gain);
        return node[i];
    }
    return vanish ? flattest(p, why, size) : NULL;
}

/* The size of what a layer is given, as far as its figures are known; NaN: they are not. */
static double size_before(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *by = dlsh_pass_source(p, n, 0);
    if (n->in[0].n) return hypot(n->in[0].mean, n->in[0].std);
    return by && by->out.n ? hypot(by->out.mean, by->out.std) : NAN;
}

/* Behind the first weight; a recurrence may begin with zeros. */
static double size_at_first(dlsh_pass p, const dl_journal_node **node, int n) {
    double size = 0;
    for (int i = 1; i < n && size == 0; i++) size = size_before(p, node[i]);
    return size;
}

/* The number that branches are multiplied by before they are added to what goes past them; how often. */
static long branch_factor(dlsh_pass p, const dl_journal_node **at, double *factor) {
    long count = 0;
    for (long k = 0; k < p.n; k++) {
        const dl_journal_node *n = &p.at[k], *user = dlsh_pass_user(p, n);
        const int which = dlsh_op_is(n, "mul") && dlsh_is_number_in(&n->in[0]) ? 0 : 1;
        const int one = dlsh_op_is(n, "mul") && dlsh_is_number_in(&n->in[which]);
        if (!one || !(fabs(n->in[which].low) > 1.5) || !dlsh_op_is(user, "add") || user->in[0].constant ||
            user->in[1].constant || (*at && (*at)->line != n->line))
            continue;
        *at = n, *factor = n->in[which].low, count++;
    }
    return count;
}

/* The last op with a weight in a branch that a sum adds to what goes past it; NULL: it is no such sum. */
static const dl_journal_node *end_of_branch(dlsh_pass p, const dl_journal_node *sum, int branch) {
    const dl_journal_node *n = dlsh_pass_source(p, sum, branch);
    for (int i = 0; n && !dlsh_node_weight(n, NULL) && i < 4; i++) {
        const int bias = dlsh_op_is(n, "add") && (n->in[0].leaf || n->in[1].leaf);
        n = bias || dlsh_op_is(n, "mul|relu|tanh|gelu|silu|dropout") ? dlsh_pass_source(p, n, 0) : NULL;
    }
    return n && dlsh_node_weight(n, NULL) ? n : NULL;
}

/* Branches that are added to what goes past them as large as they are; *at: the end of the first one, or the sum, where
 * one weight serves all branches. */
static long full_branches(dlsh_pass p, const dl_journal_node **at) {
    long count = 0, again = 0;
    const dl_journal_node *sum_again = NULL;
    const void *leaf = NULL;
    for (long k = 0; k < p.n; k++) {
        const dl_journal_node *n = &p.at[k], *end = NULL;
        const int sum = dlsh_op_is(n, "add") && !n->in[0].constant && !n->in[1].constant;
        for (int i = 0; sum && i < 2 && !end; i++)
            if (!n->in[1 - i].leaf && dlsh_pass_source(p, n, 1 - i)) end = end_of_branch(p, n, i);
        if (!end) continue;
        const dl_journal_value *w = dlsh_node_weight(end, NULL);
        if (w && w->leaf == leaf) again++, sum_again = n;
        leaf = w ? w->leaf : NULL, count++, *at = end;
    }
    if (2 * again > count) *at = sum_again;
    return count;
}

/* A function of the script that a statement calls for a number, as for a deviation: what it returns; else the line. */
static int line_of_number(const char *file, const dlsh_node *n, int line) {
    const dlsh_node *by = n && n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_NAME ? n->kids[0] : NULL;
    const dlsh_node *fn = by ? dlsh_function_of(file, by->text) : NULL, *back = fn ? dlsh_last_return(fn) : NULL;
    const dlsh_node *value = back && back->nkids ? back->kids[0] : NULL;
    if (value && (value->kind == DLSH_N_BINARY || value->kind == DLSH_N_FLOAT)) return back->span.line;
    for (int i = 0; n && i < n->nkids; i++) {
        const int found = line_of_number(file, n->kids[i], line);
        if (found != line) return found;
    }
    return line;
}

enum { VANISH, EXPLODE, GROW, SHRINK, WELL, OTHER };

static const struct {
    const char *cause, *remedy;
} depths[] = {
    [VANISH] = {"gradients vanish on the way to the input",
                "relu in place of sigmoid and tanh, a norm layer, residual connections, or a larger initialisation"},
    [EXPLODE] = {"gradients explode on the way to the input", "a smaller initialisation, a norm layer, or clipping"},
    [GROW] = {"activations grow from layer to layer, and gradients with them",
              "a smaller initialisation, a norm layer, or clipping"},
    [SHRINK] = {"activations vanish on the way to the output, and gradients with them",
                "a larger initialisation: deviation about 1 / sqrt(inputs), or a norm layer"},
};

static void tell_depth(dlsh_examination *e, dlsh_pass first, dlsh_pass p, const dl_journal_node **node,
                       const dl_journal_value **w, int n, int what) {
    const double low = w[0]->gradient, high = w[n - 1]->gradient;
    char why[200] = "";
    const dl_journal_node *by = culprit(p, node, w, n, what == VANISH || what == SHRINK, why, sizeof why), *at = NULL;
    double factor = 1;
    const long branches = what == GROW ? branch_factor(p, &at, &factor) : 0;
    const dl_journal_node *end = NULL;
    const long growing = what == GROW && !by && branches < 3 ? full_branches(p, &end) : 0;
    if (growing > 3) factor = pow(size_before(p, node[n - 1]) / size_at_first(p, node, n), 1 / (double)growing);
    if (growing > 3) by = end;
    double gain = 1;
    long times = 0;
    const dl_journal_node *fixed = what == GROW && !by && branches < 3 ? dlsh_fixed_gain(p, &gain, &times) : NULL;
    if (fixed)
        snprintf(why, sizeof why, "a fixed matrix (line %d) multiplies them by about %.3g, %ld times", fixed->line,
                 gain, times);
    if (!by) by = node[0];
    dl_source made = fixed          ? fixed->in[0].made.file ? fixed->in[0].made : (dl_source){fixed->file, fixed->line}
                              : branches > 2 ? (dl_source){at->file, at->line}
                                    : dlsh_weight_source(e, by);
    if (growing > 3)
        snprintf(why, sizeof why,
                 "each of %ld residual branches is added at full size, which makes the sum %.2g times as large",
                 growing, factor);
    if (branches > 2)
        snprintf(why, sizeof why, "%ld branches are multiplied by %.3g before they are added to what goes past them",
                 branches, factor);
    const dl_source set = !fixed && strstr(why, "the weight") ? dlsh_weight_set_at(e, first, by) : (dl_source){0};
    if (set.file) made = set;
    if (!set.file && !fixed && made.file)
        made.line = line_of_number(made.file, dlsh_statement_at(made.file, made.line), made.line);
    const int small = strstr(why, "the weights") != NULL;
    long flat = 0;
    DLSH_EACH_OP (m, p) flat += what == VANISH && small && dlsh_op_is(m, "sigmoid");
    const dl_journal_value *of = small && made.file ? dlsh_node_weight(by, NULL) : NULL;
    if (of) made.line = dlsh_line_of_spread(e, made.file, made.line, of->std);
    int own = 0;
    const int blocks = what == VANISH && made.file && !small ? dlsh_line_of_blocks(made.file, made.line, &own) : 0;
    dlsh_finding *f = dlsh_find_at(
        e, made.file, own && !strstr(why, "sigmoid") ? blocks : made.line,
        fixed                                  ? dlsh_fixed_remedy
        : branches > 2                         ? "a factor of 1 / sqrt(depth), or a norm layer in each branch"
        : growing > 3 && dlsh_op_is(by, "add") ? "a small factor for what is added, as the step of time: h + dt * f(h)"
        : growing > 3                          ? "a layernorm at the head of each branch, and init=\"zeros\" for its "
                                                 "last layer"
        : flat > 2 ? "relu in place of sigmoid, with a deviation of sqrt(2 / inputs); or a norm layer in front "
                     "of each sigmoid"
        : what == VANISH && small ? "a larger initialisation: deviation about sqrt(2 / inputs), or a norm layer"
        : blocks                  ? dlsh_kept(e,
                                              "h = h + b(h) in line %d, relu in place of sigmoid and tanh, "
                                                               "a norm layer, or a larger initialisation",
                                              blocks)
                                  : depths[what].remedy);
    if (!f) return;
    if (what == GROW) dlsh_mark_effects(e, "the initial loss");
    f->effect =
        !*why || dlsh_was_found(e, "initial weights differ", "") || dlsh_was_found(e, "all of the input counts", "");
    dlsh_cause(f, "%s%s%s", depths[what].cause, *why ? ": " : "", why);
    if (what == GROW || what == SHRINK)
        dlsh_evidence(
            f,
            "behind the first of %d layers they have size %.2g, before the last %.2g; the largest gradient of "
            "a weight is %.2g",
            n, size_at_first(p, node, n), size_before(p, node[n - 1]), fmax(low, high));
    else
        dlsh_evidence(
            f, "the gradient of a weight is %.2g in the first of %d layers and %.2g in the last%s", low, n, high,
            flat > 2 ? dlsh_kept(e, "; each of %ld sigmoids, too, makes it 4 times as small or less", flat) : "");
}

/* The norm of the gradient of a node's result; NaN: not known. */
static double norm_at(const dl_journal_node *n) {
    double elements = 1;
    for (int d = 0; d < n->out.ndim; d++) elements *= (double)n->out.shape[d];
    return n->out.gradient >= 0 ? n->out.gradient * sqrt(elements) : NAN;
}

/* Did the loss fall by half, and half of that in good time? Where gradients vanish it stays as it is for long first. */
static int learned_in_time(const dl_journal_row *r) {
    const int n = r->ncurve, part = n / 4;
    double end = 0;
    int i = 0;
    for (int k = n - part; k < n; k++) end += r->curve[k] / fmax(part, 1);
    while (i < n && r->curve[i] > (r->curve[0] + end) / 2) i++;
    return dlsh_settled_lower(r, 0.5) && 5 * i < 2 * n;
}

static void look_at_depth(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    const dl_journal_node *node[DEPTH + 1];
    const dl_journal_value *w[DEPTH + 1];
    const int n = find_weights(e, p, node, w);
    if (n < 3) return;
    const double low = w[0]->gradient, high = w[n - 1]->gradient;
    const double begin = size_at_first(p, node, n), end = size_before(p, node[n - 1]);
    int what = WELL;
    if (low > 0 && low < 1e-3 * high)
        what = VANISH;
    else if ((high >= 0 && low > 1e3 * high && low > 1) || low > 1e4)
        what = low > 10 * high ? EXPLODE : end > 30 * begin ? GROW : OTHER;
    else if (p.at == r->nodes[0] && end > 1e3 * begin && high > 1)
        what = GROW;
    else if (low > 0 && low < 1e-4 && norm_at(node[0]) < 1e-3 * norm_at(node[n - 1]))
        what = SHRINK;
    else if (n > 3 && end > 0 && end < 1e-3 * begin && fmax(low, high) < 1e-3)
        what = SHRINK;
    if (what == VANISH && learned_in_time(r)) return; /* it learned all the same */
    if (what == SHRINK && dlsh_settled_lower(r, 0.5)) return;
    if (what == WELL && low > 0)
        dlsh_passed(e, "%.2g in the first of %d layers, %.2g in the last", low, n, high);
    else if (what != WELL && what != OTHER)
        tell_depth(e, dlsh_pass_of(r, 0), p, node, w, n, what);
}

dl_status dlsh_check_depth(dlsh_examination *e) {
    if (dlsh_was_found(e, "initial weights differ", "") || dlsh_was_found(e, "sign and floor of the loss", ""))
        return DL_OK;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        for (int last = 0; last < 2 && !e->bad; last++) look_at_depth(e, r, dlsh_pass_of(r, last));
    return DL_OK;
}
