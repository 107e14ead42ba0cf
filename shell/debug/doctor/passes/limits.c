/* Results of a last layer that never come near their targets: never negative ones, or ones within limits. */
#include <math.h>

#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "view/elements.h"

/* The range of the targets that a loss is given, from its operand, from a trainer's data or from variables; 0: not
 * known. */
static int range_of_targets(const dlsh_examination *e, const dl_journal_node *n, const dl_journal_value *y, double *low,
                            double *high) {
    dlsh_stats s;
    int known = y->n > 0;
    *low = y->low, *high = y->high;
    dl_dataset *d = e->trainer && !known ? dl_trainer_dataset(e->trainer) : NULL;
    long index[64];
    const long len = d ? dl_dataset_len(d, DL_TRAIN) : 0, m = len < 64 ? len : 64;
    dl_tensor *x[DL_NET_INPUTS] = {NULL}, *t[DL_NET_INPUTS] = {NULL};
    for (long i = 0; i < m; i++) index[i] = i * len / m;
    if (m && !dl_dataset_slow(d) && !dl_dataset_gather(d, DL_TRAIN, index, m, x, t) && t[0] && !t[1])
        known = !dlsh_stats_of(t[0], &s) && s.n, *low = s.min, *high = s.max;
    for (int i = 0; i < DL_NET_INPUTS; i++) dl_unref(x[i]), dl_unref(t[i]);
    const dlsh_node *loss = d || known ? NULL : dlsh_call_on_line(n->file, n->line, "loss|entropy");
    const dlsh_node *target = loss ? dlsh_argument_of(loss, 1, "target") : NULL;
    while (target && target->kind == DLSH_N_INDEX) target = target->kids[0];
    const dlsh_value *v = target ? dlsh_value_of(e, n->file, target) : NULL;
    if (v && v->type == DLSH_TENSOR && !dlsh_stats_of(v->as.tensor, &s) && s.n) known = 1, *low = s.min, *high = s.max;
    return dl_error_clear(), known;
}

/* A limit below alone: a difference that is larger than the largest result means a target below 0. */
static void look_at_floor(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n, const dl_journal_node *d) {
    static const char ops[] = "relu|batch_norm_relu|softplus|exp|square|abs|sqrt";
    const int of = d->in[0].constant;
    const dl_journal_node *from = dlsh_pass_source(p, d, of);
    const dl_journal_value *far = &n->in[0], *y = &d->in[1 - of];
    if (!dlsh_op_is(from, ops) || from->out.dead > 0.9) return;
    const double highest = from->out.n ? from->out.high : 0;
    double most = n == d ? highest - y->low : of ? -far->low : far->high; /* the largest difference */
    double low, top;
    const int below = range_of_targets(e, n, y, &low, &top) && low < -0.25 * (top - low);
    if (!below && ((n != d && !from->out.n) || !(most > highest + 0.05 * (highest + most)))) return;
    if (below) most = highest - low;
    const dl_source at = dlsh_source_of_use(e, p, from);
    dlsh_finding *f =
        dlsh_find_at(e, at.file, at.line, "leave it out after the last layer: its results are never negative");
    char what[300];
    dlsh_cause(f, "the results of %s are never negative, but targets are: they are never reached", from->op);
    dlsh_evidence(f,
                  "a target lies at %.4g or below; the result of %s that the loss at %s:%d compares it with is at "
                  "least 0",
                  highest - most, dlsh_node_text(from, what, sizeof what), n->file, n->line);
}

/* Targets whose figures are known, beyond the limits of the results that they are compared with. */
static void look_at_limits(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const int k = n->in[0].constant ? 0 : 1;
    const dl_journal_value *y = &n->in[k];
    const dl_journal_node *from = dlsh_pass_source(p, n, 1 - k);
    char what[300];
    const dlsh_bounds of = from && y->n ? dlsh_bounds_of(p, from) : (dlsh_bounds){-INFINITY, INFINITY, 0, 0};
    const double apart = of.high - of.low;
    if (!isfinite(apart) || of.about || !(fmax(y->high - of.high, of.low - y->low) >= 0.1 * apart)) return;
    const dl_source at = dlsh_source_of_use(e, p, from);
    dlsh_found(e, at.file, at.line, "leave it out after the last layer, or scale the targets into its limits",
               "the results of %s lie between %.4g and %.4g, the targets do not: they are never reached\n"
               "targets go from %.4g to %.4g; the loss at %s:%d compares them with the result of %s",
               from->op, of.low, of.high, y->low, y->high, n->file, n->line, dlsh_node_text(from, what, sizeof what));
}

/* Targets that results cannot come near: a difference is larger than the limits are apart. */
void dlsh_find_out_of_reach(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    if (dlsh_op_is(n, "huber_difference") && n->in[0].constant != n->in[1].constant && n->in[!n->in[0].constant].n)
        look_at_floor(e, p, n, n), look_at_limits(e, p, n);
    const dl_journal_node *d = dlsh_op_is(n, "square_sum|square|abs|pow|huber|mul") ? dlsh_pass_source(p, n, 0) : NULL;
    const dl_journal_value *far = &n->in[0];
    if (!dlsh_op_is(d, "sub") || !far->n || d->in[0].constant == d->in[1].constant) return;
    if (dlsh_op_is(n, "mul") && n->in[0].from != n->in[1].from) return;
    look_at_floor(e, p, n, d);
    const int of = d->in[0].constant, target_above = of ? far->high > -far->low : -far->low > far->high;
    const dl_journal_node *from = dlsh_pass_source(p, d, of);
    const dlsh_bounds limits = from ? dlsh_bounds_of(p, from) : (dlsh_bounds){-INFINITY, INFINITY, 0, 0};
    const double most = fmax(-far->low, far->high), apart = limits.high - limits.low;
    if (!isfinite(apart) || limits.about || !(apart > 0) || most < 1.1 * apart) return;
    dlsh_finding *f = dlsh_find_at(e, dlsh_node_file(from), dlsh_node_line(from),
                                   "leave it out after the last layer, or scale the targets into its limits");
    char what[300];
    dlsh_cause(f, "the results of %s lie between %.4g and %.4g, the targets do not: they are never reached", from->op,
               limits.low, limits.high);
    dlsh_evidence(f, "a target lies %.4g %s the result of %s that the loss at %s:%d compares it with", most,
                  target_above ? "above" : "below", dlsh_node_text(from, what, sizeof what), n->file, n->line);
}
