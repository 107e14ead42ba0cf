/* The first value of a loss of classes, beside that of a net that knows nothing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

/* What the loss multiplies the mean of a node's elements by; NaN: it has other parts, too. */
static double weight_in_loss(dlsh_pass p, const dl_journal_node *n) {
    double weight = 1;
    for (int i = 0; n != p.at && i < DLSH_DEEP; i++) {
        const dl_journal_node *u = dlsh_pass_user(p, n);
        if (!u || (dlsh_op_is(u, "add|sub") && !u->in[0].constant && !u->in[1].constant)) return NAN;
        if (dlsh_op_is(u, "nll_picked") && strstr(u->attrs, "sum")) weight *= (double)u->in[0].shape[0];
        if (dlsh_op_is(u, "sum")) weight *= dlsh_elements_in(&u->in[0]) / fmax(dlsh_elements_in(&u->out), 1);
        if (dlsh_op_is(u, "div|mul") && dlsh_is_number_in(&u->in[1]))
            weight *= dlsh_op_is(u, "mul") ? u->in[1].low : 1 / u->in[1].low;
        n = u;
    }
    return weight;
}

/* Classes of a loss that compares scores with classes; 0: it is none. *per: how many samples the value is a sum of. */
static long classes_of(dlsh_pass p, const dl_journal_node *n, double *per) {
    double weight = weight_in_loss(p, n);
    const int large = n->in[0].n && n->in[0].std > 4; /* then scores are, whatever else the loss has */
    *per = isnan(weight) && large && !dlsh_op_is(n, "logit_loss") ? 1 : weight;
    if (dlsh_op_is(n, "cross_entropy") && n->in[0].ndim > 1) {
        if (strstr(n->attrs, "sum")) *per *= (double)n->in[0].shape[0];
        return n->in[0].shape[1];
    }
    if (dlsh_op_is(n, "log_softmax") && n->out.ndim == 2) return n->out.shape[1];
    return dlsh_op_is(n, "logit_loss") ? 2 : 0;
}

/* A weight that a product takes transposed, or times a number: the node at which it goes in. *w: as a leaf, *factor: of
 * its numbers. */
static const dl_journal_node *leaf_behind(dlsh_pass p, const dl_journal_node *n, const dl_journal_value **w,
                                          double *factor) {
    static const char turning[] = "transpose|permute|t|restride|reshape";
    const dl_journal_node *u = n->in[1].there ? dlsh_pass_node(p, n->in[1].from) : NULL;
    *factor = 1, *w = NULL;
    for (int i = 0; u && i < 4; i++) {
        const int first = dlsh_op_is(u, "mul") && dlsh_is_number_in(&u->in[0]); /* 3 * w */
        const int number = first || (dlsh_op_is(u, "mul|div") && dlsh_is_number_in(&u->in[1]));
        if (!number && !dlsh_op_is(u, turning)) return NULL;
        if (number) *factor *= dlsh_op_is(u, "mul") ? fabs(u->in[!first].low) : 1 / fabs(u->in[1].low);
        *w = &u->in[first];
        if ((*w)->leaf) return (*w)->ndim == 2 && !dlsh_op_is(u, "reshape") ? u : NULL;
        u = dlsh_pass_node(p, (*w)->from);
    }
    return NULL;
}

/* The first weight that is too large for the number of its inputs; behind what holds results within limits, where one
 * is. */
static const dl_journal_node *large_weight(dlsh_pass p, double *gain) {
    const dl_journal_node *found = NULL;
    int held = 0;
    DLSH_EACH_OP_UP (n, p) {
        int unit;
        const dl_journal_value *w = dlsh_node_weight(n, &unit);
        held |= dlsh_op_is(n, "tanh|sigmoid|softmax");
        if (!w || !w->n || (found && !held)) continue;
        double inputs = 1;
        for (int d = 0; d < w->ndim; d++) inputs *= d == unit ? 1 : (double)w->shape[d];
        const double by = sqrt(w->std * w->std + w->mean * w->mean) * sqrt(inputs);
        if (by > 5) *gain = by, found = n, held = 0;
    }
    if (found) return found;
    for (long i = p.n - 1; i >= 0; i--) {
        const dl_journal_value *w = NULL;
        double factor = 1;
        const dl_journal_node *u = dlsh_op_is(&p.at[i], "matmul") ? leaf_behind(p, &p.at[i], &w, &factor) : NULL;
        *gain = u && w->n ? factor * sqrt((w->std * w->std + w->mean * w->mean) * (double)w->shape[1]) : 0;
        if (*gain > 5) return u;
    }
    return NULL;
}

typedef struct trainee {
    const dlsh_examination *e;
    const dl_optimizer *by;
} trainee;

static int trains(const dl_optimizer *o, dl_module *m) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
    int has = 0;
    for (long k = 0; l && !has && k < l->n; k++) has = dlsh_optimizer_has(o, l->entries[k].tensor);
    return has;
}

static dlsh_property is_trainee(void *ctx, const dlsh_step *at) {
    const trainee *t = ctx;
    const int name = at->n->kind == DLSH_N_NAME;
    return name && trains(t->by, dlsh_object_of(t->e, at->file, at->n, &dlsh_net_class)) ? DLSH_HAS_FIRST
                                                                                         : DLSH_MAY_HAVE;
}

/* Does an optimizer train a net that is run at a line of the pass, of which parts may be frozen by now, or one that it
 * is a copy of? */
static int has_net_of(const dlsh_examination *e, const dl_optimizer *o, dlsh_pass p) {
    trainee t = {e, o};
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (!dlsh_is_in_pass(p, r)) continue;
        const dlsh_node *call = dlsh_call_of_net_at(e, r->file, r->line);
        if (trains(o, dlsh_live_net(e, r->what, NULL)) || (call && dlsh_origin(r->file, call->kids[0], is_trainee, &t)))
            return 1;
    }
    return 0;
}

/* Had steps changed weights of the pass before it ran first, as of a net that gets a new head? */
static int knows_something(const dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass p = dlsh_pass_of(r, 0);
    DLSH_EACH_ROW (step, e, DL_DID_STEP) {
        const dl_optimizer *o = step->till < r->at ? dlsh_live_optimizer(e, step->what, NULL) : NULL;
        if (o && has_net_of(e, o, p)) return 1;
        for (long k = 0; o && k < p.n; k++)
            for (int j = 0; j < p.at[k].nin && j < 8; j++)
                if (p.at[k].in[j].leaf && dlsh_optimizer_has(o, p.at[k].in[j].leaf)) return 1;
        if (step->till < r->at && step->what && !o && step->count > 8) return 1;
    }
    return 0;
}

/* Is the weight of a node one that no step before the pass could change, as of a new head? */
static int is_new(const dlsh_examination *e, const dl_journal_row *r, const dl_journal_node *n) {
    const dl_journal_value *w = dlsh_node_weight(n, NULL);
    DLSH_EACH_ROW_WHILE (w, step, e, DL_DID_STEP) {
        const dl_optimizer *o = step->till < r->at ? dlsh_live_optimizer(e, step->what, NULL) : NULL;
        if (step->till < r->at && (!o || dlsh_optimizer_has(o, w->leaf))) return 0;
    }
    return w != NULL;
}

const char dlsh_fixed_remedy[] =
    "divide it by the sums of its rows, a / a.sum(dim=1, keepdim=true), or take the mean over neighbours";

const dl_journal_node *dlsh_fixed_gain(dlsh_pass p, double *gain, long *times) {
    const dl_journal_node *found = NULL;
    *times = 0;
    DLSH_EACH_OP_UP (n, p) {
        const dl_journal_value *a = &n->in[0];
        if (strstr(n->op, "norm")) return NULL;
        if (!dlsh_op_is(n, "matmul|bmm") || !a->constant || !a->n || a->ndim < 2 || a->low < 0) continue;
        const double by = a->mean * (double)a->shape[a->ndim - 1];
        if (a->shape[a->ndim - 1] != a->shape[a->ndim - 2] || by < 3 || (found && found->in[0].hash != a->hash))
            continue;
        if (!found) found = n;
        *gain = by, ++*times;
    }
    return *times > 1 ? found : NULL;
}

/* Do such products make the first scores large? */
static int blame_fixed(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, double expected) {
    double gain = 1;
    long times = 0;
    const dl_journal_node *n = dlsh_fixed_gain(p, &gain, &times);
    if (!n || pow(gain, (double)times) < r->first / expected) return 0;
    const dl_source made = n->in[0].made.file ? n->in[0].made : (dl_source){n->file, n->line};
    dlsh_found(e, made.file, made.line, dlsh_fixed_remedy,
               "activations grow from layer to layer: a fixed matrix multiplies them by about %.3g, %ld times\n"
               "matmul (line %d) takes it, and its rows add up to %.3g on average; the initial loss is %.4g where a "
               "net that knows nothing has %.4g",
               gain, times, n->line, gain, r->first, expected);
    return 1;
}

/* Is the weight of a node that of an embedding, too, whose numbers have another size? */
static int is_tied(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_value *w = dlsh_node_weight(n, NULL);
    for (long i = 0; w && i < p.n; i++)
        for (int k = 0; k < 2 && dlsh_op_is(&p.at[i], "embedding|index_select|gather"); k++)
            if (p.at[i].in[k].there && p.at[i].in[k].leaf == w->leaf) return 1;
    return 0;
}

/* A number between the last weights and the loss that makes scores so large; NULL: there is none. */
static const dl_journal_node *scaling_of_scores(dlsh_pass p, double *factor) {
    const dl_journal_node *n = NULL;
    for (long k = 0; k < p.n && !n; k++)
        if (dlsh_op_is(&p.at[k], "cross_entropy|log_softmax|logit_loss")) n = dlsh_pass_source(p, &p.at[k], 0);
    for (int i = 0; n && i < 6; i++) {
        const int first = dlsh_op_is(n, "mul") && dlsh_is_number_in(&n->in[0]);
        const int number = first || (dlsh_op_is(n, "mul|div") && dlsh_is_number_in(&n->in[1]));
        *factor = number ? dlsh_op_is(n, "mul") ? fabs(n->in[!first].low) : 1 / fabs(n->in[1].low) : 1;
        if (*factor > 2) return n;
        if (!number && !dlsh_op_is(n, "add|reshape|view|transpose|permute")) return NULL;
        n = dlsh_pass_source(p, n, first);
    }
    return NULL;
}

/* Does such a number make the loss large, as is told where it is no temperature? */
static int blame_scaling(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, double expected) {
    double factor = 1;
    const dl_journal_node *n = scaling_of_scores(p, &factor);
    if (n && dlsh_scales_cosines(p, n)) return 1; /* a temperature: nothing is wrong */
    if (!n || r->first < 2 * expected) return 0;
    dlsh_found(e, n->file, n->line, "leave the factor out, or divide by the root of the length: x @ w.T / n ** 0.5",
               "the initial loss is %.4g where a net that knows nothing has %.4g\n"
               "%s multiplies the scores by %.3g: they are so large that the net begins sure and wrong",
               r->first, expected, n->op, factor);
    return 1;
}

static void blame_initial(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, double expected, const char *how) {
    double gain = 0;
    const dl_journal_node *by = large_weight(p, &gain), *loss = p.at;
    if (knows_something(e, r) && !(by && is_new(e, r, by))) return;
    if (blame_scaling(e, r, p, expected) || (!by && blame_fixed(e, r, p, expected))) return;
    dl_source made = by ? dlsh_weight_source(e, by) : (dl_source){0};
    const dl_source set = by ? dlsh_weight_set_at(e, p, by) : made;
    if (set.file) made = set;
    const dl_journal_value *of = by && made.file ? dlsh_node_weight(by, NULL) : NULL;
    if (of) made.line = dlsh_line_of_spread(e, made.file, made.line, of->std);
    const int tied = by && is_tied(p, by);
    char name[120] = "";
    if (of && !*by->layer && !dlsh_live_leaf(e, of->leaf, name, sizeof name)) *name = 0;
    dlsh_finding *f =
        by ? dlsh_find_at(e, made.file, made.line,
                          tied ? "a smaller initialisation of the table, as init=\"normal(std=0.02)\", or scores "
                                 "divided by sqrt(inputs)"
                               : "a smaller initialisation: deviation about 1 / sqrt(inputs)")
           : dlsh_find_at(
                 e, loss->file, loss->line,
                 "scores of about -1 to 1 at first: init=\"zeros\" for the last layer, or a norm layer before it");
    if (!f) return;
    const int mended = by ? tied && r->first < 4 * expected : dlsh_settled_lower(r, 1 - 0.6 * expected / r->first);
    if (mended && r->last < 0.6 * expected) dlsh_only_note(e, f); /* steps mended it */
    dlsh_cause(f, "the initial loss is %.4g where a net that knows nothing has %.4g", r->first, expected);
    if (by)
        dlsh_evidence(f,
                      "the weights %s%s%s (line %d)%s multiply the size of their input by %.1f: outputs begin sure "
                      "and wrong (%s)",
                      *name ? name : "of ",
                      *name        ? ""
                      : *by->layer ? "layer "
                                   : "",
                      *name        ? ""
                      : *by->layer ? by->layer
                                   : by->op,
                      dlsh_node_line(by), tied ? ", which are those of an embedding," : "", gain, how);
    else
        dlsh_evidence(
            f,
            "the first scores are so large that the net is sure of wrong classes before it has learned anything (%s)",
            how);
}

dl_status dlsh_check_initial_loss(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 0);
        double per = 1;
        long classes = 0;
        for (long k = 0; k < p.n && k < 12 && !classes; k++) classes = classes_of(p, &p.at[k], &per);
        if (classes < 2 || isnan(r->first) || isnan(per) || dlsh_sign_of(p, p.at) < 0) continue;
        double expected = log((double)classes) * per;
        char how[64];
        if (fabs(per - 1) < 1e-3)
            snprintf(how, sizeof how, "ln %ld = %.4g", classes, expected);
        else
            snprintf(how, sizeof how, "%.4g times ln %ld = %.4g", per, classes, expected);
        if (r->first > 1.6 * expected + 0.8 * per)
            blame_initial(e, r, p, expected, how);
        else if (r->first < 1.6 * expected + 0.8 * per && r->first > 0.7 * expected)
            dlsh_passed(e, "it begins at %.4g, %s", r->first, how);
    }
    return DL_OK;
}
