/* The loss: what it is given, its sign, what it begins with, whether it falls. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

/* ---------------------------------------------------------------- what the loss is given */

/* A loss, as the last op that its name stands for on the tape, and an op whose result it must not be given. `text`: the
 * line that ran it holds this, too; NULL: it need not. */
static const struct {
    const char *loss, *given, *text, *cause, *remedy;
} pairs[] = {
    {"cross_entropy", "softmax", NULL, "softmax before cross_entropy, which applies it itself: gradients almost vanish",
     "leave softmax out: cross_entropy takes scores"},
    {"cross_entropy", "sigmoid", NULL,
     "sigmoid before cross_entropy, which takes scores of any size: from 0 to 1 they hardly differ",
     "leave sigmoid out, or take binary_cross_entropy with one target a class"},
    {"cross_entropy", "tanh|hardtanh", NULL,
     "tanh before cross_entropy, which takes scores of any size: from -1 to 1 they cannot become sure",
     "leave tanh out of the last layer"},
    {"cross_entropy", "relu|batch_norm_relu|clamp", NULL,
     "relu before cross_entropy: scores cannot become negative, and a dead unit never wins again",
     "leave relu out after the last layer"},
    {"cross_entropy", "exp", NULL,
     "exp before cross_entropy, which takes scores or their logarithms: gradients almost vanish",
     "leave exp out: cross_entropy takes scores"},
    {"logit_loss", "sigmoid", NULL, "sigmoid before binary_cross_entropy_with_logits, which applies it itself",
     "leave sigmoid out, or take binary_cross_entropy"},
    {"logit_loss", "softmax", NULL, "softmax before binary_cross_entropy_with_logits, which takes scores",
     "leave softmax out"},
    {"logit_loss", "relu|batch_norm_relu", NULL,
     "relu before binary_cross_entropy_with_logits: a probability below one half cannot come out",
     "leave relu out after the last layer"},
    {"nll_picked|gather", "softmax", "nll_loss", "nll_loss was given probabilities: it takes their logarithms",
     "log_softmax instead of softmax, or cross_entropy of the scores"},
    {"nll_picked|gather", "sigmoid", "nll_loss", "nll_loss was given probabilities: it takes their logarithms",
     "log_softmax of the scores, or cross_entropy"},
    {"nll_picked|gather", "linear|matmul|conv2d|add|relu|tanh|mean|mul", "nll_loss",
     "nll_loss was given scores: it takes logarithms of probabilities, and falls without end",
     "cross_entropy, or log_softmax before nll_loss"},
    {"cross_entropy|logit_loss|probability_loss", "dropout", NULL,
     "dropout after the last layer: scores are set to 0 at random, and no training makes them right",
     "leave dropout out after the last layer; it belongs between layers"},
    {"divergence|log_divergence", "softmax|sigmoid", NULL,
     "kl_div was given probabilities: its first argument is their logarithm",
     "kl_div(log_softmax(scores, -1), target)"},
};

static int runs_loss(const dlsh_examination *e, const dl_journal_node *n, const char *text) {
    if (!text || dlsh_op_is(n, "nll_picked")) return 1;
    if (e->trainer && dl_trainer_loss_name(e->trainer) && strstr(dl_trainer_loss_name(e->trainer), text)) return 1;
    return dlsh_script_has(e, n->file, n->line, text);
}

/* exp(x) / sum(exp(x)), which has no op of its own. */
static int is_softmax_by_hand(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *top = dlsh_op_is(n, "div") ? dlsh_pass_source(p, n, 0) : NULL;
    const dl_journal_node *sum = dlsh_op_is(top, "exp") ? dlsh_pass_source(p, n, 1) : NULL;
    return dlsh_op_is(sum, "sum") && dlsh_pass_source(p, sum, 0) == top;
}

static int is_given(dlsh_pass p, const dl_journal_node *n, const char *ops) {
    return dlsh_op_is(n, ops) || (!strcmp(ops, "softmax") && is_softmax_by_hand(p, n));
}

/* The record or tuple that the function around a line returns; NULL: another value. */
static const dlsh_node *returned_around(const char *file, int line) {
    const dlsh_node *root = dlsh_text_root(file), *around[DLSH_AROUND], *at = dlsh_statement_at(file, line);
    const int depth = root && at ? dlsh_functions_around(root, at->span.start, around) : 0;
    const dlsh_node *back = depth ? dlsh_last_return(around[depth - 1]) : NULL;
    return back && back->nkids && (dlsh_is_record(back->kids[0]) || back->kids[0]->kind == DLSH_N_TUPLE) ? back->kids[0]
                                                                                                         : NULL;
}

/* What a net returns beside the result that the loss is given, and that was given to the op which made that: the field
 * of the scores, or which of several values, as a remedy. NULL: it returns no such thing. */
static const char *returned_before(dlsh_examination *e, const dl_journal_node *from) {
    const dlsh_node *all = returned_around(from->file, from->line), *made = dlsh_statement_at(from->file, from->line);
    const dlsh_node *value = made && made->kind == DLSH_N_ASSIGN ? made->kids[made->nkids - 1] : NULL;
    for (int i = 0; all && value && i < all->nkids; i++) {
        const dlsh_node *item = all->kids[i]->kind == DLSH_N_KWARG ? all->kids[i]->kids[0] : all->kids[i];
        if (item->kind != DLSH_N_NAME || !dlsh_mentions(value, item->text)) continue;
        return all->kind != DLSH_N_TUPLE
                   ? dlsh_kept(e, "give the loss .%s, which the net returns beside the result of %s",
                               all->kids[i]->text, from->op)
                   : dlsh_kept(e, "give the loss item %d of what the net returns: that is not yet given to %s", i,
                               from->op);
    }
    return NULL;
}

/* Where a net has the function around a line as a layer: leaving it out is done there; 0: it is none. */
static int line_of_layer(const dlsh_node *n, const char *function) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_LAYER && !strcmp(t.n->text, function)) return t.n->span.line;
    return 0;
}

static int count_calls(const dlsh_node *n, const char *name) {
    int count = 0;
    DLSH_EACH_BELOW (t, n) count += dlsh_is_call_of(t.n, name);
    return count;
}

static dlsh_property calls_helper(void *ctx, const dlsh_step *at) {
    return at->n->kids && dlsh_is_call_of(at->n, ctx) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* A function that gives probabilities to others, too, as to an accuracy: where the loss is given what it returns; 0: it
 * is none. */
static int line_of_helper(const dl_journal_node *from, const dl_journal_node *loss) {
    const dlsh_node *root = dlsh_text_root(from->file), *around[DLSH_AROUND];
    const dlsh_node *at = *from->layer ? NULL : dlsh_statement_at(from->file, from->line);
    const int depth =
        root && at && !strcmp(from->file, loss->file) ? dlsh_functions_around(root, at->span.start, around) : 0;
    const char *name = depth ? around[depth - 1]->text : NULL;
    const dlsh_node *s = dlsh_statement_at(loss->file, loss->line);
    if (!name || !s || count_calls(root, name) < 2) return 0;
    const dlsh_node *by = dlsh_call_on_line(loss->file, loss->line, "loss|entropy|kl_div");
    const dlsh_node *given = by ? dlsh_argument_of(by, 0, "input") : NULL;
    const dlsh_node *call = dlsh_origin(loss->file, given ? given : s, calls_helper, (void *)name);
    return call ? call->span.line : 0;
}

/* Does a function compute with weights? */
static int has_weights(const dlsh_examination *e, const char *file, const dlsh_node *fn) {
    DLSH_EACH_BELOW (t, fn) {
        const dlsh_value *v = t.n->kind == DLSH_N_NAME ? dlsh_value_of(e, file, t.n) : NULL;
        if (v && v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor)) return 1;
        if (t.n->kind == DLSH_N_CALL && dlsh_uses_net(e, file, t.n)) return 1;
    }
    return 0;
}

/* The only call of a function of the script that makes probabilities of what it is given, and nothing else; 0: it is
 * none. */
static int line_of_normaliser(const dlsh_examination *e, const dl_journal_node *from) {
    const dlsh_node *root = dlsh_text_root(from->file), *around[DLSH_AROUND];
    const dlsh_node *at = dlsh_statement_at(from->file, from->line);
    const int depth = root && at ? dlsh_functions_around(root, at->span.start, around) : 0;
    const dlsh_node *fn = depth && around[depth - 1]->text ? around[depth - 1] : NULL;
    const dlsh_node *call = fn && !dlsh_net_around(root, fn->span.start) && !has_weights(e, from->file, fn)
                                ? dlsh_only_call(root, fn)
                                : NULL;
    return call ? call->span.line : 0;
}

static int line_to_leave_out(const dl_journal_node *from) {
    const dlsh_node *root = dlsh_text_root(from->file), *around[DLSH_AROUND];
    const dlsh_node *at = *from->layer && !*from->layer_file ? dlsh_statement_at(from->file, from->line) : NULL;
    const int depth = root && at ? dlsh_functions_around(root, at->span.start, around) : 0;
    const char *function = depth ? around[depth - 1]->text : NULL;
    const int line = function ? line_of_layer(root, function) : 0;
    return line ? line : dlsh_node_line(from);
}

/* Are scores of a loss of classes probabilities already, by their numbers: rows that add up to 1? */
static int are_probabilities(const dl_journal_value *v) {
    const double even = v->ndim == 2 ? 1 / (double)v->shape[1] : 0;
    return even && v->shape[1] > 1 && v->n > 15 && v->low >= 0 && v->high <= 1 + 1e-5 && v->std > 0 &&
           fabs(v->mean - even) < 1e-5 * even;
}

/* ... made by other ops than softmax alone, as a sum of several nets' answers. */
static void look_at_probabilities(dlsh_examination *e, dlsh_pass first, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *then = first.n == p.n ? &first.at[n - p.at] : n;
    if (!dlsh_op_is(n, "cross_entropy|log_softmax") || !are_probabilities(&n->in[0]) ||
        !are_probabilities(&then->in[0]))
        return;
    if (e->bad) return;
    dlsh_found(e, n->file, n->line, "nll_loss(log(p), y) of probabilities p, or scores that no softmax was made of",
               "%s is given probabilities: it takes softmax itself, and a second one makes all classes alike\n"
               "what it is given lies between %.3g and %.3g, and each row adds up to 1",
               n->op, n->in[0].low, n->in[0].high);
}

static void look_at_operand(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    for (size_t i = 0; i < DLSH_COUNT(pairs); i++) {
        const dl_journal_node *from = dlsh_op_is(n, pairs[i].loss) ? dlsh_pass_source(p, n, 0) : NULL;
        if (!from || !is_given(p, from, pairs[i].given) || !runs_loss(e, n, pairs[i].text)) continue;
        const char *beside = *from->layer ? NULL : returned_before(e, from);
        const int softmax = strstr(pairs[i].given, "softmax") != NULL, by = softmax ? line_of_helper(from, n) : 0;
        const int helper = softmax && !by ? line_of_normaliser(e, from) : by;
        dlsh_finding *f = beside   ? dlsh_find_at(e, n->file, n->line, beside)
                          : helper ? dlsh_find_at(e, n->file, helper,
                                                  dlsh_kept(e,
                                                            "give the loss scores, as they are before line %d; others "
                                                            "may go on with probabilities",
                                                            from->line))
                                   : dlsh_find_at(e, dlsh_node_file(from), line_to_leave_out(from), pairs[i].remedy);
        char a[300];
        if (!f) continue;
        dlsh_cause(f, "%s", pairs[i].cause);
        dlsh_evidence(f, "the loss at %s:%d is given the result of %s", n->file, n->line,
                      dlsh_node_text(from, a, sizeof a));
    }
}

/* Targets of a loss of probabilities that are none. */
static void look_at_targets(dlsh_examination *e, const dl_journal_node *n) {
    const dl_journal_value *y = &n->in[1];
    dlsh_traced used[DLSH_TRACED];
    if (!dlsh_op_is(n, "logit_loss|probability_loss") || !y->there || !y->constant || !y->n) return;
    if (y->low >= 0 && y->high <= 1) return;
    int line = n->line, k = dlsh_trace(e, n->file, n->line, used);
    for (int i = 0; i < k; i++)
        if (used[i].role == DLSH_ROLE_TARGET && used[i].name_line) line = used[i].name_line;
    const dlsh_node *loss = dlsh_call_on_line(n->file, n->line, "loss|entropy");
    const dlsh_node *target = loss ? dlsh_argument_of(loss, 1, "target") : NULL;
    for (int i = 0; target && target->kind == DLSH_N_NAME && i < 4; i++) { /* of a function for the loss */
        const dlsh_definition d = dlsh_define(dlsh_text_root(n->file), target->text, target->span.start);
        if (!d.param || !d.value) break;
        target = d.value;
    }
    const dlsh_node *data = loss || !e->trainer ? NULL : dlsh_trainer_option(e, n->file, 1, "data");
    if (dlsh_is_call_of(data, "dataset") && data->nkids > 2) target = dlsh_argument_of(data, 1, "y");
    const dlsh_node *set = dlsh_data_set_behind(n->file, target);
    if (target && !set) line = dlsh_line_of_making(n->file, target, data ? target->span.line : line);
    const int shares = y->low >= 0 && y->high != floor(y->high);
    dlsh_finding *f =
        dlsh_found(e, n->file, set ? set->span.line : line,
                   set      ? "pixels from 0 to 1: dataset(..., normalize=\"unit\")"
                   : shares ? "shares from 0 to 1: divide by the largest value"
                            : "targets of 0 and 1: (y > 0).float()",
                   "the targets of a loss of probabilities go from %.4g to %.4g: they must lie between 0 and 1\n"
                   "the loss at %s:%d has no floor with them: it falls without end",
                   y->low, y->high, n->file, n->line);
    if (y->low > -0.15 && y->high < 1.15) dlsh_only_note(e, f); /* noise on what lies between */
}

/* A loss of classes that smoothing leaves almost nothing to learn. */
static void look_at_smoothing(dlsh_examination *e, const dl_journal_node *n) {
    const char *at = dlsh_op_is(n, "cross_entropy") ? strstr(n->attrs, "label_smoothing=") : NULL;
    const double share = at ? strtod(at + strlen("label_smoothing="), NULL) : 0;
    const double k = n->in[0].ndim > 1 ? (double)n->in[0].shape[1] : n->in[0].ndim ? (double)n->in[0].shape[0] : 0;
    const double other = share / k, own = 1 - share + other;
    const double lowest = -(own * log(own) + (k - 1) * other * log(other));
    if (!at || k < 2 || !(lowest > 0.7 * log(k))) return;
    dlsh_found(e, n->file, n->line, "label_smoothing from 0.05 to 0.2",
               "label_smoothing=%.4g leaves almost nothing to learn: all classes have nearly the same target\n"
               "the right class of %.0f has target %.3g, each other one %.3g; the loss cannot fall below %.4g, and a "
               "net that knows nothing has ln %.0f = %.4g",
               share, k, own, other, lowest, k, log(k));
}

/* Differences that are cut long before they are small. */
static void look_at_delta(dlsh_examination *e, const dl_journal_node *n) {
    const char *at = dlsh_op_is(n, "huber|huber_difference") ? strstr(n->attrs, "delta=") : NULL;
    const double delta = at ? strtod(at + strlen("delta="), NULL) : 1;
    const double size = sqrt(n->in[0].mean * n->in[0].mean + n->in[0].std * n->in[0].std);
    if (!at || !n->in[0].n || !(delta < 0.01 * size)) return;
    dlsh_found(e, n->file, n->line, "a delta about as large as usual errors",
               "delta=%.3g of the loss cuts gradients to %.2g of their size: almost nothing is learned\n"
               "errors have size %.4g; beyond delta each has the same gradient, delta",
               delta, delta / size, size);
}

/* The target where the prediction belongs. */
static void look_at_order(dlsh_examination *e, const dl_journal_node *n) {
    if (!dlsh_op_is(n, "probability_loss|logit_loss|cross_entropy|divergence|log_divergence")) return;
    if (!n->in[0].there || !n->in[0].constant || n->in[1].constant || !n->in[1].there) return;
    const int fits = dlsh_op_is(n, "divergence|log_divergence"); /* a divergence may go the other way */
    if (fits && !(n->in[0].n && n->in[0].low >= 0)) return;
    dlsh_found(e, n->file, n->line, "the prediction first: loss(prediction, target)",
               "the arguments of the loss are swapped: the target stands where the prediction belongs\n"
               "the first argument of %s%s has no history, the second one is what the net computes",
               n->op, n->in[0].n ? ", which is from data," : "");
}

/* Classes that the loss leaves out, by a weight of 0 or as a label that is ignored; of words it may be the padding. */
static void look_at_left_out(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_value *w = &n->in[2], *y = &n->in[1];
    const char *at = strstr(n->attrs, "ignore_index=");
    const long ignored = at ? strtol(at + strlen("ignore_index="), NULL, 10) : -100;
    const long classes = n->in[0].ndim > 1 ? n->in[0].shape[1] : 0;
    if (!dlsh_op_is(n, "cross_entropy|nll_picked") || n->in[0].ndim != 2) return;
    for (long k = 0; k < p.n; k++)
        if (dlsh_op_is(&p.at[k], "index_select|index|embedding") && p.at[k].in[0].leaf) return;
    const int weighed = n->nin > 2 && w->there && w->constant && w->n && w->zeros;
    const int skipped = ignored >= 0 && ignored < classes && y->n && y->low <= (double)ignored && y->high >= ignored;
    dlsh_finding *f = weighed || skipped ? dlsh_find_at(e, n->file, n->line,
                                                        "a weight above 0 for each class that is "
                                                        "there; ignore_index=-100 ignores none")
                                         : NULL;
    if (!f) return;
    dlsh_cause(f, "%s leaves a class out: it is never learned", weighed ? "weight=" : "ignore_index=");
    if (weighed)
        dlsh_evidence(f, "%ld of %ld classes have weight 0", w->zeros, classes);
    else
        dlsh_evidence(f, "ignore_index=%ld is one of the %ld classes, and targets go from %.0f to %.0f", ignored,
                      classes, y->low, y->high);
}

/* The dimension in attributes, counted from the front; 1 where there is none. */
static int dim_of(const dl_journal_node *n) {
    const char *at = strstr(n->attrs, "dim=");
    const int d = at ? (int)strtol(at + strlen("dim="), NULL, 10) : 1;
    return d < 0 ? d + n->in[0].ndim : d;
}

/* One class alone: its probability is always 1. */
static void look_at_single(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_value *x = &n->in[0];
    const int d = dim_of(n);
    int summed;
    if (dlsh_weighs_across(p, n, &summed) > 0) return; /* told as what it means (check_habits.c) */
    if (!dlsh_op_is(n, "softmax|log_softmax|cross_entropy") || !x->there || d >= x->ndim || x->shape[d] != 1) return;
    const dl_journal_node *by = dlsh_pass_source(p, n, 0);
    dlsh_finding *f = dlsh_find_at(e, dlsh_node_file(n), dlsh_node_line(n),
                                   "with one score a sample binary_cross_entropy_with_logits, or sigmoid; else a score "
                                   "for each class");
    dlsh_cause(f, "%s runs over a dimension of size 1: its result is always %s, and no gradient gets through", n->op,
               dlsh_op_is(n, "softmax") ? "1" : "0");
    if (by)
        dlsh_evidence(f, "dimension %d of what goes in has size 1; line %d gives it so", d, dlsh_node_line(by));
    else
        dlsh_evidence(f, "dimension %d of what goes in has size 1", d);
}

/* Over samples in place of classes. */
static void look_at_dim(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n) {
    const int rows = dlsh_op_is(n, "softmax|log_softmax") && n->out.ndim == 2 && n->out.shape[0] > 1;
    if (!rows || (!strstr(n->attrs, "dim=0") && !strstr(n->attrs, "dim=-2")))
        return dlsh_find_other_dimension(e, r, p, n);
    if (n->out.shape[0] == n->out.shape[1] && dlsh_is_picked_along(p, n)) return; /* pairs, told both ways */
    dlsh_found(e, dlsh_node_file(n), dlsh_node_line(n), "dim=1, or dim=-1",
               "%s over dimension 0, the samples of the batch: what one sample gets depends on the others\n"
               "its result has shape [%ld,%ld]: each column adds up to 1 over the samples, not each sample's row",
               n->op, n->out.shape[0], n->out.shape[1]);
}

/* ---------------------------------------------------------------- a mean that is divided again */

/* The number of samples or elements that a node is the mean of; 0: it is none. */
static double mean_over(dlsh_pass p, const dl_journal_node *n) {
    const dl_journal_node *of = n ? dlsh_pass_source(p, n, 0) : NULL;
    if (dlsh_op_is(n, "cross_entropy|nll_picked|logit_loss|probability_loss"))
        return strstr(n->attrs, "sum") || n->out.ndim ? 0 : (double)n->in[0].shape[0];
    if (dlsh_op_is(n, "mean")) return n->in[0].ndim ? (double)n->in[0].shape[0] : 0;
    if (dlsh_op_is(n, "div") && dlsh_op_is(of, "square_sum|sum") && of->in[0].ndim && n->in[1].constant)
        return (double)of->in[0].shape[0];
    return 0;
}

double dlsh_samples_averaged(dlsh_pass p) {
    const dl_journal_node *n = p.n ? p.at : NULL;
    double samples = mean_over(p, n);
    for (int i = 0; !(samples > 0) && dlsh_op_is(n, "div|mul|add|sub|neg") && i < 8; i++)
        n = dlsh_pass_source(p, n, 0), samples = mean_over(p, n);
    return samples;
}

/* Passes whose gradients add up before a step: then a loss is divided by their number. */
static int accumulates(const dlsh_examination *e, const dl_journal_row *pass) {
    long steps = 0;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) steps = r->count > steps ? r->count : steps;
    return steps && 2 * pass->count > 3 * steps;
}

/* Does an optimizer that takes gradients as large as they are take the steps? *most: its largest update; NaN: by hand.
 */
static int scales_with_gradient(const dlsh_examination *e, double *most) {
    int plain = 0;
    *most = NAN;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) {
        const dl_optimizer *o = dlsh_live_optimizer(e, r->what, NULL);
        if (r->what && !(o && !strcmp(dl_optimizer_kind(o), "sgd"))) return 0;
        if (!r->what && dlsh_is_scale_free(e, r->file, r->line)) return 0;
        if (r->what) *most = r->ratio[3];
        plain = 1;
    }
    return plain;
}

/* A mean that a number makes far smaller or larger, beside a rate for means. */
static void look_at_scale(dlsh_examination *e, const dl_journal_row *r, const dl_journal_node *n,
                          const dl_journal_node *of, double by) {
    double most;
    if ((by < 16 && by > 1 / 16.0) || !scales_with_gradient(e, &most)) return;
    if (dlsh_line_of_scaled_gradients(r->file)) return; /* it divides gradients by the scale */
    if (by > 1 && most > 2e-3) return;
    if (by < 1 && !isnan(most) && most < 0.3 && !(r->last > r->first)) return;
    if (by < 1 && isnan(most) && r->last < r->first) return;
    dlsh_found(e, n->file, n->line, "the mean as it is; the rate sets the size of steps",
               "the loss is a mean already and is %s by %.4g once more: gradients are that many times too %s\n"
               "%s at line %d is a mean over samples; the loss went from %.4g to %.4g in %ld passes",
               by > 1 ? "divided" : "multiplied", by > 1 ? by : 1 / by, by > 1 ? "small" : "large", of->op, of->line,
               r->first, r->last, r->count);
}

/* Is a factor of several numbers, as weights of samples or advantages, 0 by chance: was it another one at first? */
static int became_zero(const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n) {
    const dlsh_pass first = dlsh_pass_of(r, 0);
    const dl_journal_value *then = first.n == p.n ? &first.at[n - p.at].in[1] : NULL;
    return then && then->n > 1 && (then->low != 0 || then->high != 0);
}

static void look_at_divisor(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    const dl_journal_node *n = p.n ? p.at : NULL;
    for (int i = 0; n && i < 8; i++) {
        const int divides = dlsh_op_is(n, "div|mul") && n->in[1].there && n->in[1].constant && n->in[1].n &&
                            n->in[1].low == n->in[1].high && n->in[1].low > 0;
        const double by = divides ? dlsh_op_is(n, "div") ? n->in[1].low : 1 / n->in[1].low : 0;
        const dl_journal_node *of = dlsh_pass_source(p, n, 0);
        const int none = dlsh_op_is(n, "mul") && n->in[1].constant && n->in[1].n && n->in[1].low == 0 &&
                         !n->in[1].high && !became_zero(r, p, n);
        dlsh_finding *zero = none ? dlsh_find_at(e, n->file, n->line, "a factor above 0 for these steps") : NULL;
        if (zero) dlsh_cause(zero, "the loss is multiplied by 0: no gradient is left");
        if (zero) dlsh_evidence(zero, "the factor was 0 in the last pass that was looked at, of %ld", r->count);
        const double samples = mean_over(p, of);
        if (divides && samples > 0 && fabs(by - samples) >= 1e-4 * samples && !accumulates(e, r))
            look_at_scale(e, r, n, of, by);
        if (by >= 4 && samples > 0 && fabs(by - samples) < 1e-4 * samples && !accumulates(e, r)) {
            dlsh_found(e, n->file, n->line, "divide once: the mean is enough",
                       "the loss is divided by the number of samples twice: gradients are %.0f times too small\n"
                       "%s at line %d is a mean over %.0f samples already; here it is divided by %.4g again",
                       by, of->op, of->line, samples, by);
            return;
        }
        n = dlsh_op_is(n, "div|mul|add|sub|neg|mean|sum") ? of : NULL;
    }
}

const dl_journal_node *dlsh_compares(dlsh_pass p) {
    for (long k = 0; k < p.n; k++)
        if (dlsh_op_is(&p.at[k], "cross_entropy|nll_picked|logit_loss|probability_loss|divergence|log_divergence|"
                                 "huber_difference|sub") &&
            p.at[k].in[0].constant != p.at[k].in[1].constant && p.at[k].in[1].there &&
            p.at[k].in[p.at[k].in[1].constant].ndim) /* 1 - x compares nothing */
            return &p.at[k];
    return NULL;
}

dl_status dlsh_check_loss_operand(dlsh_examination *e) {
    const dl_journal_node *known = NULL;
    long losses = 0, compared = 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 1), before = dlsh_pass_of(r, 0);
        for (long k = 0; k < before.n; k++) dlsh_find_out_of_reach(e, before, &before.at[k]);
        for (long k = 0; k < p.n; k++)
            look_at_operand(e, p, &p.at[k]), look_at_probabilities(e, before, p, &p.at[k]),
                dlsh_find_scores_for_logs(e, p, &p.at[k]), dlsh_find_scaled_scores(e, p, &p.at[k]),
                dlsh_find_overlap_of_scores(e, p, &p.at[k]), look_at_targets(e, &p.at[k]),
                look_at_dim(e, r, p, &p.at[k]), look_at_single(e, p, &p.at[k]), dlsh_find_out_of_reach(e, p, &p.at[k]),
                look_at_smoothing(e, &p.at[k]), look_at_left_out(e, p, &p.at[k]),
                dlsh_find_flat_targets(e, p, &p.at[k]), look_at_delta(e, &p.at[k]), look_at_order(e, &p.at[k]);
        look_at_divisor(e, r, p);
        const dl_journal_node *n = p.n ? dlsh_compares(p) : NULL;
        losses += p.n > 0, compared += n != NULL;
        if (n && !known) known = n;
    }
    if (known)
        dlsh_passed(e, "scores and targets of %s (line %d) are of a kind that it takes%s", known->op, known->line,
                    compared < losses ? "; other losses have none that is known" : "");
    else if (losses)
        dlsh_unchecked(e, "the loss has no op that compares results with targets");
    return DL_OK;
}

/* ---------------------------------------------------------------- which losses train */

/* Did a step come behind the last pass at that place, before any other one? Others only ask for gradients, as an attack
 * on inputs does, or go on when the training is over. */
static int is_followed_by_step(const dlsh_examination *e, const dl_journal_row *pass) {
    unsigned long next = ULONG_MAX;
    DLSH_EACH_ROW (b, e, DL_DID_BACKWARD)
        if (b->till > pass->till && b->till < next) next = b->till;
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->till > pass->till && r->till < next) return 1;
    return 0;
}

/* Do passes of that place go on behind all steps, where those of another one train? */
static int is_beside_training(const dlsh_examination *e, const dl_journal_row *pass) {
    int others = 0;
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->till > pass->till) return 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) others |= r != pass && is_followed_by_step(e, r);
    return others;
}

/* ---------------------------------------------------------------- sign and floor */

static int constant_sign(const dl_journal_value *v) {
    if (!v->constant || !v->n || (v->low == 0 && v->high == 0)) return 0;
    return v->low >= 0 ? 1 : v->high <= 0 ? -1 : 0;
}

/* The node that turns the sign: of the ways down from the root the first that is negated. */
static const dl_journal_node *turner(dlsh_pass p, const dl_journal_node *n) {
    for (int i = 0; n && i < DLSH_DEEP; i++) {
        const int taken = dlsh_op_is(n, "sub") && n->in[0].constant && dlsh_sign_of(p, n) < 0;
        int by = dlsh_op_is(n, "neg") || taken ||
                 (dlsh_op_is(n, "mul|div") && (constant_sign(&n->in[0]) | constant_sign(&n->in[1])) < 0);
        if (by) return n;
        n = dlsh_pass_source(p, n, n->in[0].from ? 0 : 1);
    }
    return NULL;
}

/* The loss is a mean or sum of differences: it has no lowest value. */
static const dl_journal_node *difference(dlsh_pass p, const dl_journal_node *n) {
    for (int i = 0; n && i < DLSH_DEEP; i++) {
        if (dlsh_op_is(n, "sub")) return n;
        int constant = n->in[1].there ? n->in[1].constant : 1;
        if (!dlsh_op_is(n, "sum|mean|neg") && !(dlsh_op_is(n, "mul|div") && constant)) return NULL;
        n = dlsh_pass_source(p, n, 0);
    }
    return NULL;
}

/* Is a result never negative, or, but for a number that was added to it, without a highest value alone? */
static int grows_alone(dlsh_pass p, const dl_journal_node *n) {
    const dlsh_bounds of = dlsh_bounds_of(p, n);
    return dlsh_sign_of(p, n) > 0 || (of.about && isfinite(of.low) && isinf(of.high));
}

/* -1: a node has no lowest value, as minus a square or an exp of what is trained; 0: not known. */
static const dl_journal_node *bottomless(dlsh_pass p, const dl_journal_node *n, int sign, int depth) {
    if (!n || depth > DLSH_DEEP) return NULL;
    const dl_journal_node *a = dlsh_pass_source(p, n, 0), *b = dlsh_pass_source(p, n, 1), *found = NULL;
    if (sign < 0 && (grows_alone(p, n) || dlsh_op_is(n, "logsumexp")) &&
        !dlsh_op_is(n, "sum|mean|add|mul|div|sigmoid|softmax"))
        return n;
    if (dlsh_op_is(n, "neg")) {
        found = bottomless(p, a, -sign, depth + 1);
        while (dlsh_op_is(a, "mean|sum")) a = dlsh_pass_source(p, a, 0);
        return found && !dlsh_op_is(a, "add|sub") ? n : found; /* of several parts the one */
    }
    if (dlsh_op_is(n, "add|sub")) {
        found = bottomless(p, b, dlsh_op_is(n, "sub") ? -sign : sign, depth + 1);
        if (found && dlsh_op_is(n, "sub")) found = n;
        return found ? found : bottomless(p, a, sign, depth + 1);
    }
    if (dlsh_op_is(n, "mul|div")) {
        const int k = n->in[1].constant ? 1 : 0, by = n->in[k].constant ? constant_sign(&n->in[k]) : 0;
        const int other = by || !b ? 0 : dlsh_sign_of(p, b); /* of a factor that is computed, as a deviation */
        found = by ? bottomless(p, k ? a : b, sign * by, depth + 1) : NULL;
        if (other) found = bottomless(p, a, sign * other, depth + 1);
        return found && by < 0 ? n : found;
    }
    return dlsh_op_is(n, "sum|mean|select|index|gather") ? bottomless(p, a, sign, depth + 1) : NULL;
}

static void look_at_sign(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, const dl_optimizer *up) {
    enum { OPEN_BELOW = 1 };
    const dlsh_bounds range = dlsh_bounds_of(p, p.at);
    const int sign = dlsh_sign_of(p, p.at);
    const dl_journal_node *by = sign < 0 && !up ? turner(p, p.at) : NULL;
    const dl_journal_node *d =
        sign || !(range.open & OPEN_BELOW) || bottomless(p, p.at, 1, 0) ? NULL : difference(p, p.at);
    if (dlsh_has_rivals(e)) d = NULL; /* a critic, as of a game */
    if (by) {
        if (!dlsh_found(e, by->file, by->line, "minimise the loss itself, without the minus",
                        "the loss has the wrong sign: each step makes the error larger\n"
                        "%s turns a value that is never negative; the loss went from %.4g to %.4g",
                        by->op, r->first, r->last))
            return;
    } else if (sign < 0 && !up) {
        if (!dlsh_found(
                e, p.at->file, p.at->line, "a minus before it, or nll_loss, cross_entropy",
                "the loss has the wrong sign: a value that is never positive is made smaller, without end\n"
                "it is a mean or sum of logarithms of probabilities, to be made larger; it went from %.4g to %.4g",
                r->first, r->last))
            return;
    } else if (d) {
        if (!dlsh_found(e, d->file, d->line, "square the difference, or mse_loss; or take its abs()",
                        "the loss has no floor: a sum of plain differences falls without end\n"
                        "parameters can take it below every bound: neither a square nor an absolute value stands "
                        "between the difference and the loss, which went from %.4g to %.4g",
                        r->first, r->last))
            return;
    } else if (sign > 0 && up) {
        dl_source made = dlsh_optimizer_source(up);
        if (!dlsh_found(e, made.file, made.line, "leave maximize=true out",
                        "the optimizer maximises the loss: maximize=true\n"
                        "the loss of line %d is never negative and went from %.4g to %.4g",
                        r->line, r->first, r->last))
            return;
    }
}

/* ---------------------------------------------------------------- a loss that falls for ever */

/* The mean of a part of the curve. */
static double mean_of(const double *v, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    return sum / n;
}

/* Did the loss fall far below 0, and by no less at last than before? Where a part without a floor is known, it may have
 * become slower. */
static int falls_for_ever(const dl_journal_row *r, const dl_journal_node *by) {
    const int n = r->ncurve, part = n / 4;
    if (n < 8) return isinf(r->last) && r->last < 0;
    const double middle = mean_of(r->curve + n / 2 - part / 2, part), end = mean_of(r->curve + n - part, part);
    if (!(end < (by ? -5 : -10) * (fabs(r->first) + 0.1))) return isinf(r->last) && r->last < 0;
    return middle - end > (by ? 0.3 : 0.6) * (r->curve[0] - middle);
}

/* Is such a part that of some samples, chosen by 0 and 1, and the loss falls below 0? Nothing else then holds it. */
static int falls_for_some(const dl_journal_row *r, dlsh_pass p, const dl_journal_node *by) {
    const dl_journal_node *user = dlsh_pass_user(p, by);
    const int n = r->ncurve, part = n / 4, k = user && user->in[0].constant ? 0 : 1;
    if (n < 8 || !dlsh_op_is(user, "mul") || !user->in[k].n || user->in[k].low != 0 || user->in[k].high != 1) return 0;
    const double end = mean_of(r->curve + n - part, part);
    return end < 0 && end < mean_of(r->curve, part);
}

/* Does such a part fall until a limit that was set for it is met? */
static int falls_to_limit(const dl_journal_row *r, const dl_journal_node *by) {
    const dlsh_pass p = dlsh_pass_of(r, 1);
    const double fallen = (r->first - r->last) / (fabs(r->first) + 0.1);
    if (!by || r->ncurve < 8 || !(r->last < 0)) return 0;
    if (dlsh_op_is(by, "exp") && fallen > 100) return 1;
    return fallen > 5 && isfinite(dlsh_bounds_of(p, p.at).low) && isinf(dlsh_bounds_unclamped(p, p.at).low);
}

/* Is a node, or what it is computed from, one of the ops? */
static int is_made_by(dlsh_pass p, const dl_journal_node *n, const char *ops) {
    DLSH_FREED char *way = n ? dlsh_sources_of(p, n, NULL) : NULL;
    for (long k = 0; way && k < p.n; k++)
        if (way[k] && dlsh_op_is(&p.at[k], ops)) return 1;
    return 0;
}

static void look_at_bottom(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    const dl_journal_node *by = bottomless(p, p.at, 1, 0),
                          *at = by && (dlsh_exp_falls_alone(p, by) || !dlsh_is_turned_whole(p)) ? by : p.at;
    const int taken = dlsh_op_is(by, "sub") && at == by; /* margin - distance */
    if (!falls_for_ever(r, by) && !falls_to_limit(r, by) && !(taken && falls_for_some(r, p, by))) return;
    if (!by && dlsh_has_rivals(e)) return; /* a critic has no floor */
    if (!by && dlsh_find_labels_beyond(e, r, p, 1)) return;
    const int divergence = taken && is_made_by(p, dlsh_pass_node(p, by->in[1].from), "exp|log|divergence");
    dlsh_finding *f =
        dlsh_find_at(e, at->file, at->line,
                     divergence ? "turn the sign: a divergence, as that of a code from its prior, is added"
                     : taken ? "clamp(margin - distance, min=0), clamp(near - far + margin, min=0), if it is a margin: "
                               "beyond it nothing is to be gained; else turn the sign"
                     : at != by ? "turn the sign: of the logarithm of a likelihood minus the mean is the loss"
                     : by       ? "turn the sign of this part: what is to be small is added, not taken away; of the "
                                  "logarithm of a likelihood turn all: loss = -log_p.mean()"
                                : "look for a part with the wrong sign, or one that has no limit");
    dlsh_cause(f, taken            ? "the loss has no floor: what this line takes away grows without limit"
                  : at != by && by ? "the loss has the wrong sign: all parts of it fall without end"
                  : by             ? "the loss has no floor: a part of it has the wrong sign, and falls without end"
                                   : "the loss has no floor: it falls without end");
    dlsh_evidence(f, "it went from %.4g to %.4g%s%s%s%s", r->first, r->last,
                  falls_to_limit(r, by) && !falls_for_ever(r, by) ? ", to a limit that was set" : ", without an end",
                  by ? "; here " : "", by ? by->op : "", by ? " takes away what grows without limit" : "");
}

int dlsh_loss_is_negated(const dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (r->nnodes[1] && dlsh_sign_of(dlsh_pass_of(r, 1), r->nodes[1]) < 0) return 1;
    return 0;
}

/* The optimizer that maximises; NULL: none does. */
static const dl_optimizer *goes_up(const dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_STEP) {
        dl_optimizer *o = dlsh_live_optimizer(e, r->what, NULL);
        if (o && dl_optimizer_option(o, "maximize", 0) > 0) return o;
    }
    return NULL;
}

/* What the ops of the losses say of their signs. */
static void tell_sign(dlsh_examination *e) {
    const dl_journal_row *known = NULL, *open = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        const int floor = p.n && isfinite(dlsh_bounds_of(p, p.at).low) && isfinite(r->last);
        const dl_journal_row **which = floor ? &known : &open;
        if (p.n && (!*which || is_followed_by_step(e, r))) *which = r;
    }
    const dlsh_pass p = known ? dlsh_pass_of(known, 1) : (dlsh_pass){NULL, 0};
    if (open)
        dlsh_unchecked(e,
                       "the ops of the loss (line %d) leave open whether it has a floor; it went from %.4g to %.4g%s",
                       open->line, dlsh_first_loss(open), open->last, open->low < 0 ? " and has been below 0" : "");
    else if (known)
        dlsh_passed(e, "by its ops the loss (line %d) %s; it went from %.4g to %.4g%s", known->line,
                    dlsh_sign_of(p, p.at) > 0 && known->low >= 0 ? "is never below 0 and has a floor" : "has a floor",
                    dlsh_first_loss(known), known->last,
                    known->last > dlsh_first_loss(known) ? ", which its sign does not explain" : "");
}

dl_status dlsh_check_loss_sign(dlsh_examination *e) {
    long seen = 0;
    if (dlsh_was_found(e, "what the loss is given", "") || dlsh_was_found(e, "targets of the loss", "twice"))
        return DL_OK;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 1);
        if (!p.n) continue;
        if (dlsh_find_variance_sign(e, r, p) || dlsh_find_trained_factor(e, r)) continue;
        look_at_sign(e, r, p, goes_up(e));
        if (!e->bad) dlsh_find_labels_beyond(e, r, p, 0);
        if (!e->bad) look_at_bottom(e, r, p);
        if (!e->bad) dlsh_find_fall_to_limit(e, r);
        if (!e->bad) dlsh_find_moved_away(e, r);
        seen++;
    }
    if (seen) tell_sign(e);
    return DL_OK;
}

/* ---------------------------------------------------------------- the trend */

/* The deviation of a part of the curve. */
static double deviation_of(const double *v, int n, double mean) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (v[i] - mean) * (v[i] - mean);
    return sqrt(sum / n);
}

/* Nothing else was found: then somebody is to know at least that nothing is learned. */
static void tell_flat(dlsh_examination *e, const dl_journal_row *r, double before, double after) {
    dlsh_finding *f =
        dlsh_found(e, r->nodes[1]->file, r->nodes[1]->line,
                   dlsh_same_batch(e) ? "not even one batch is learned by heart: look at the net, the loss and the "
                                        "rate; layers shows what flows, gradcheck whether gradients are right"
                                      : "train on one batch again and again: if that is not learned by heart, the "
                                        "net or the loss is wrong, else the data or the rate",
                   "the loss does not fall, and no check says why\n"
                   "it is %.4g on average at first and %.4g at last, over %ld passes",
                   before, after, r->count);
    dlsh_only_note(e, f);
}

/* Is the loss a mean of what weights of both signs multiply, as advantages do? Then its value is no error. */
static int is_weighed_both_ways(dlsh_pass p) {
    const dl_journal_node *n = p.n ? p.at : NULL;
    for (int i = 0; dlsh_op_is(n, "mean|sum|neg|add|sub|mul|div") && i < DLSH_DEEP; i++) {
        for (int k = 0; k < 2 && dlsh_op_is(n, "mul"); k++)
            if (n->in[k].constant && n->in[k].n > 3 && n->in[k].low < 0 && n->in[k].high > 0) return 1;
        n = dlsh_pass_source(p, n, n->in[0].from ? 0 : 1);
    }
    return 0;
}

/* May the loss stay, or rise, although all is well? */
static int may_stay(const dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_pass p = dlsh_pass_of(r, 1);
    const int balance = r->low < 0 && p.n && dlsh_sign_of(p, p.at) <= 0; /* of what pulls both ways: no error */
    return balance || dlsh_targets_move(e, r) || is_weighed_both_ways(p);
}

static int has_several_optimizers(const dlsh_examination *e) {
    const dl_journal_row *r;
    const void *first = NULL;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_STEP, &i)); first = r->what)
        if (first && r->what != first) return 1;
    return 0;
}

dl_status dlsh_check_trend(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        int n = r->ncurve, part = n / 4;
        if (r->count < 20 || part < 2 || has_several_optimizers(e) || is_beside_training(e, r)) continue;
        double before = mean_of(r->curve, part), after = mean_of(r->curve + n - part, part);
        const double noise = fmax(deviation_of(r->curve, part, before), deviation_of(r->curve + n - part, part, after));
        const int free = may_stay(e, r);
        if (isnan(after) || (!free && after > before + 0.2 * fabs(before) && after > before + 2 * noise)) {
            dlsh_found(e, r->file, r->line, "a smaller learning rate, or layers and why nan",
                       "the loss %s\n"
                       "from %.4g to %.4g in %ld passes",
                       isnan(after) ? "became nan" : "grows", before, after, r->count);
        } else if (r->low < 0 && before > after && isinf(dlsh_bounds_of(dlsh_pass_of(r, 1), r->nodes[1]).low))
            dlsh_unchecked(e,
                           "it falls, from %.4g to %.4g in %ld passes, and is below 0: whether there is a floor that "
                           "it comes near to is not known",
                           dlsh_first_loss(r), r->last, r->count - r->since);
        else if (before - after > 0.02 * fabs(before))
            dlsh_passed(e, "from %.4g on average at first to %.4g at last, in %ld passes", before, after, r->count);
        else if (free)
            dlsh_unchecked(e, "its value tells no error, as its targets move, or its parts pull both ways");
        else if (r->count >= 40 && before > 1e-3 && r->nnodes[1])
            tell_flat(e, r, before, after);
    }
    return DL_OK;
}
