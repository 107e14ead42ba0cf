/* The size of updates, and what makes it too small or too large: rate, schedule, clipping, decay. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/trace.h"
#include "view/elements.h"

/* What is known of the steps of an optimizer. */
typedef struct steps {
    const dl_journal_row *row, *rate, *clip, *pass; /* the last two may be NULL */
    dl_optimizer *o;
    dl_trainer *t;
    const char *file; /* where the rate was set last, or the optimizer made */
    int line;
} steps;

static const dl_journal_row *last_row(const dlsh_examination *e, dl_journal_kind kind, const void *what) {
    const dl_journal_row *found = NULL;
    DLSH_EACH_ROW (r, e, kind)
        if ((!what || r->what == what) && (!found || r->till > found->till)) found = r;
    return found;
}

/* Did the loss fall by that share? Of batches that differ the mean of several counts. */
static int fell(const dl_journal_row *pass, double share) {
    if (!pass || pass->count < 5 || isnan(pass->first)) return 1;
    const int n = pass->ncurve, part = n / 4;
    double before = 0, after = 0;
    for (int i = 0; i < part; i++) before += pass->curve[i], after += pass->curve[n - 1 - i];
    if (part > 1) return before - after > share * fabs(before);
    return dlsh_first_loss(pass) - pass->low > share * fabs(dlsh_first_loss(pass));
}

int dlsh_settled_lower(const dl_journal_row *pass, double share) {
    int n = pass ? pass->ncurve : 0, part = n / 4;
    double sum = 0;
    if (n < 8) return 0;
    for (int i = n - part; i < n; i++) sum += pass->curve[i];
    return pass->curve[0] - sum / part > share * fabs(pass->curve[0]);
}

/* ---------------------------------------------------------------- causes */

/* The largest root of the mean square of a parameter's gradient in a pass; NaN: not known. */
static double size_of_gradients(const dl_journal_row *pass) {
    dlsh_pass p = pass ? dlsh_pass_of(pass, 1) : (dlsh_pass){0};
    double size = NAN;
    DLSH_EACH_OP (m, p)
        DLSH_EACH_OPERAND (v, m)
            if (v->leaf && v->gradient >= 0) size = fmax(size, v->gradient);
    return size;
}

/* Did each of many steps lose nine tenths of its gradient, so that the loss hardly fell? */
static int cuts_each_step(const steps *s, double limit) {
    return s->clip && !s->t && s->clip->count >= 50 && s->clip->low > 10 * limit && s->row->ratio[3] < 1e-3 &&
           s->pass && s->pass->ncurve >= 8 && !dlsh_settled_lower(s->pass, 0.3);
}

static int clipped(dlsh_examination *e, const steps *s) {
    double limit = s->clip ? s->clip->limit : NAN, norm = s->clip ? s->clip->first : NAN;
    dl_trainer_state st = {0};
    if (s->t) dl_trainer_get(s->t, &st);
    if (s->t && st.clip_norm > 0) limit = st.clip_norm, norm = st.grad_norm;
    if (s->t && st.clip_value > 0) limit = st.clip_value, norm = NAN;
    if (isnan(norm)) norm = size_of_gradients(s->pass);
    if (dlsh_was_found(e, "mixed precision", "")) return 0;
    const char *kind = dl_optimizer_kind(s->o);
    const int scaled = strstr(kind, "ada") || strstr(kind, "rms"); /* by the size of gradients, above eps */
    if (!scaled && s->pass && dlsh_find_clipped_by_hand(e, s->pass)) return 1;
    if (!(limit * 50 < norm) && !cuts_each_step(s, limit)) return 0;
    if (scaled && limit > 10 * dl_optimizer_option(s->o, "eps", 1e-8)) return 0;
    const char *file = s->clip ? s->clip->file : s->file;
    const dlsh_written max = s->clip ? dlsh_written_option(e, file, s->clip->line, "clip_grad", 1, "max")
                                     : dlsh_written_option(e, file, s->line, "trainer", INT_MAX - 1,
                                                           st.clip_value > 0 ? "clip_value" : "clip_norm");
    dlsh_finding *f = dlsh_find_at(e, file, max.line,
                                   dlsh_kept(e, "a limit near the usual norm of the gradients, which is %.2g", norm));
    if (!f) return 1;
    f->effect = dlsh_was_found(e, "the initial loss", "a fixed matrix"); /* the size of gradients follows from it */
    dlsh_cause(f, "clipping cuts gradients to %.3g of their size: almost nothing is learned", limit / norm);
    dlsh_evidence(f, "the limit is %.3g, their size %.4g; an update is %.2g times the size of the weights", limit, norm,
                  s->row->ratio[1]);
    dlsh_tell_use(f, &max);
    return 1;
}

/* An option that the optimizer was made with. */
static dlsh_written option_of(const dlsh_examination *e, const steps *s, const char *name) {
    const dl_source made = dlsh_optimizer_source(s->o);
    return dlsh_written_option(e, made.file, made.line, dl_optimizer_kind(s->o), 1, name);
}

/* Where the rate of a step is computed: what a function of the trainer's schedule returns. */
static const dlsh_node *rate_returned(const dlsh_examination *e, const steps *s) {
    const dlsh_node *fn = s->t ? dlsh_trainer_option(e, s->file, INT_MAX - 1, "schedule") : NULL;
    return fn && fn->kind == DLSH_N_FN ? dlsh_last_return(fn) : NULL;
}

/* sched.step() of a schedule object, in a statement: the call that made it; NULL: there is none. */
static const dlsh_node *stepped_schedule(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n)
        if (dlsh_is_method(t.n, "step") && dlsh_object_of(e, file, t.n->kids[0]->kids[0], &dlsh_scheduler_class))
            return dlsh_made(file, t.n->kids[0]->kids[0]);
    return NULL;
}

/* The highest rate that a schedule was given, or else the rate of its optimizer. line 0: no schedule set the rate. */
static dlsh_written rate_of_schedule(const dlsh_examination *e, const steps *s) {
    const dlsh_node *made = s->t      ? dlsh_trainer_option(e, s->file, INT_MAX - 1, "schedule")
                            : s->rate ? stepped_schedule(e, s->file, dlsh_statement_at(s->file, s->line))
                                      : NULL;
    if (!made || made->kind != DLSH_N_CALL) return (dlsh_written){0};
    const int place = dlsh_names(made->kids[0], "cyclic") ? 0 : INT_MAX - 1;
    if (dlsh_argument_of(made, place, "max_lr"))
        return dlsh_written_option(e, s->file, made->span.line, "scheduler|onecycle|cyclic", place, "max_lr");
    return s->t ? (dlsh_written){0} : option_of(e, s, "lr");
}

/* The rate: as a function of the schedule gives it, as schedule or optimizer were given it, or else where it was set
 * last. */
static dlsh_written rate_of(const dlsh_examination *e, const steps *s) {
    const dlsh_node *by = rate_returned(e, s);
    if (by) return (dlsh_written){by->span.line, s->line, "the rate itself, no factor"};
    const dlsh_written of_schedule = rate_of_schedule(e, s);
    if (of_schedule.line) return of_schedule;
    return s->rate ? (dlsh_written){.line = s->line, .use = s->line} : option_of(e, s, "lr");
}

/* The share of its largest value that the rate had over all steps. */
static double mean_rate(const steps *s) {
    return s->row->high > 0 ? s->row->sum / (double)s->row->count / s->row->high : 1;
}

/* Where the schedule was made. */
static int schedule_line(const dlsh_examination *e, const steps *s) {
    const dlsh_node *made = s->t ? dlsh_trainer_option(e, s->file, INT_MAX - 1, "schedule") : NULL;
    return made ? made->span.line : s->line;
}

/* Does a line stand in a loop over batches within another loop, those around calls included? A loop without the steps
 * is none of these, as over groups of parameters. */
static int is_in_inner_loop(const char *file, int line, int step) {
    const dlsh_node *around[64], *root = dlsh_text_root(file);
    int places[DLSH_LEVELS], loops = 0;
    const int n = root ? dlsh_places_of(file, line, places) : 0;
    for (int i = 0; i < n; i++) {
        const int depth = dlsh_nodes_around(root, places[i], around, 64);
        for (int k = 0; k < depth; k++) loops += dlsh_is_loop(around[k]) && dlsh_runs_within(file, step, around[k]);
    }
    return loops > 1;
}

/* Is the schedule a trainer's that counts steps, of which an epoch has several? */
static int counts_batches(const steps *s) {
    dl_trainer_state st = {0};
    if (!s->t || !dl_trainer_schedule(s->t)) return 0;
    dl_trainer_get(s->t, &st);
    return st.epoch > 1 && st.batches > 1 && !strstr(dl_schedule_text(dl_trainer_schedule(s->t)), "epoch");
}

static int compounded(dlsh_examination *e, const steps *s) {
    return s->rate && !s->t && s->rate->count > 2 && dlsh_find_compounded_rate(e, s->file, s->line);
}

static int scheduled(dlsh_examination *e, const steps *s) {
    double share = mean_rate(s);
    if (s->row->count < 8 || share > 0.08 || s->row->low == s->row->high) return 0;
    const int inner = s->rate && !s->t && is_in_inner_loop(s->file, s->line, s->row->line), batches = counts_batches(s);
    dlsh_found(e, s->file, s->rate ? s->line : schedule_line(e, s),
               inner     ? "step it once an epoch, behind the loop over batches, or give it the number "
                           "of all steps, epochs * batches"
               : batches ? "schedule(..., by=\"epoch\") counts epochs; or let the schedule last as long as the training"
                         : "let the schedule last as long as the training",
               "the schedule keeps the learning rate near 0 for most of the training%s\n"
               "from %.3g to %.3g; over %ld steps it was %.2g of its largest value on average%s%s",
               inner     ? ": it is stepped after each batch, as if each were an epoch"
               : batches ? ": a trainer steps it after each batch"
                         : "",
               s->row->first, s->row->last, s->row->count, share, s->t ? ": " : "",
               s->t && dl_trainer_schedule(s->t) ? dl_schedule_text(dl_trainer_schedule(s->t)) : "");
    return 1;
}

/* A function gave 0 at each step. */
static int stays_zero(dlsh_examination *e, const steps *s) {
    const dlsh_node *by = s->row->high == 0 ? rate_returned(e, s) : NULL;
    if (!by) return 0;
    const int whole = dlsh_script_has(e, s->file, by->span.line, "//");
    dlsh_found(e, s->file, by->span.line,
               whole ? "divide by /, which keeps fractions" : "a rate above 0 for these steps",
               "the schedule gives a learning rate of 0%s\n"
               "it was 0 at all %ld steps: the weights have not changed",
               whole ? ": // rounds the quotient down" : "", s->row->count);
    return 1;
}

/* The rate has not risen yet: a warmup that is longer than the training. */
static int not_risen(dlsh_examination *e, const steps *s) {
    double factor = 1;
    dl_schedule *by = s->t ? dl_trainer_schedule(s->t) : NULL;
    if (!by || fell(s->pass, 0.05) || dl_schedule_lr(by, 1, s->row->count - 1, 0, &factor)) return dl_error_clear(), 0;
    if (!(factor < 0.05) || !(s->row->last >= s->row->high)) return 0;
    dlsh_found(e, s->file, schedule_line(e, s), "a warmup of a few hundred steps",
               "the schedule has not let the learning rate rise: it is %.3g\n"
               "after %ld steps it is %.2g of the rate that was set: %s",
               s->row->last, s->row->count, factor, dl_schedule_text(by));
    return 1;
}

/* Averages of gradients that are longer than those of their squares. */
static int reversed_betas(dlsh_examination *e, const steps *s) {
    const char *at = strstr(dl_optimizer_text(s->o), "betas=[");
    double first = 0, second = 1;
    if (!at || sscanf(at, "betas=[%lf, %lf", &first, &second) != 2 || first <= second || first < 0.98) return 0;
    const dl_source made = dlsh_optimizer_source(s->o);
    dlsh_found(e, made.file, made.line, "betas=[0.9, 0.999]",
               "betas are the wrong way round: the average of gradients is longer than that of their squares\n"
               "gradients are averaged over some %.0f steps, their squares over %.0f",
               1 / (1 - first), 1 / (1 - second));
    return 1;
}

/* Did the loss fall by far and come back to where it began? Means of eighths of its course are compared. */
static int relapsed(const dl_journal_row *pass) {
    enum { PARTS = 8 };
    const int n = pass ? pass->ncurve : 0, part = n / PARTS;
    double mean[PARTS] = {0}, low = INFINITY;
    for (int i = 0; part > 1 && i < PARTS; i++) {
        for (int k = 0; k < part; k++) mean[i] += pass->curve[i * part + k] / part;
        low = fmin(low, mean[i]);
    }
    const double fall = mean[0] - low;
    return part > 1 && fall > 0.3 * fabs(mean[0]) && mean[PARTS - 1] - low > 0.6 * fall;
}

/* Is nothing known that spoils the training but what a rate that is too large does itself, too? */
static int is_unexplained(const dlsh_examination *e) {
    for (int i = 0; i < e->nfindings; i++) {
        const dlsh_finding *f = &e->findings[i];
        const int follows = !strcmp(f->check, "gradients by depth") || !strcmp(f->check, "dead and saturated units");
        if (!f->effect && !f->note && !follows) return 0;
    }
    return 1;
}

int dlsh_momentum_swings(dlsh_examination *e, const dl_journal_row *step, const dl_journal_row *pass, double momentum,
                         double rate) {
    if (!(momentum > 0.9) || !(momentum < 1) || !(rate / (1 - momentum) >= 1) || !pass || !(step->ratio[0] < 0.2))
        return 0;
    if (dlsh_has_rivals(e) || dlsh_targets_move(e, pass) || dlsh_settled_lower(pass, 0.3) || !is_unexplained(e))
        return 0;
    int died = 0;
    for (int i = 0; i < e->nfindings; i++)
        died |=
            !strcmp(e->findings[i].check, "dead and saturated units") && strstr(e->findings[i].evidence, "since some");
    return relapsed(pass) || died || !(pass->last < 1.5 * fabs(dlsh_first_loss(pass)));
}

void dlsh_tell_swings(dlsh_examination *e, dlsh_finding *f, const dl_journal_row *step, const dl_journal_row *pass,
                      double momentum, double rate) {
    dlsh_cause(f, "momentum=%.4g adds up %.0f steps of rate %.3g, as a rate of %.3g would: the training is unstable",
               momentum, 1 / (1 - momentum), rate, rate / (1 - momentum));
    dlsh_evidence(
        f,
        "an update is %.2g times the size of the weights at last; the loss began at %.4g, was %.4g at best, and "
        "is %.4g now",
        step->ratio[1], pass->first, pass->low, pass->last);
    dlsh_mark_effects(e, "gradients by depth");
    dlsh_mark_effects(e, "dead and saturated units");
}

/* Options that leave nothing of the gradient: momentum that never fades, a number in the denominator that outweighs. */
static int odd_option(dlsh_examination *e, const steps *s) {
    double momentum = dl_optimizer_option(s->o, "momentum", 0), eps = dl_optimizer_option(s->o, "eps", 0);
    const int swinging = dlsh_momentum_swings(e, s->row, s->pass, momentum, s->row->high),
              heavy = swinging || momentum >= 0.995, wide = eps > 0.1 && s->row->ratio[3] < 2e-3;
    if (reversed_betas(e, s)) return 1;
    const dlsh_written given = option_of(e, s, heavy ? "momentum" : "eps");
    dlsh_finding *f = heavy || wide ? dlsh_find_at(e, dlsh_optimizer_source(s->o).file, given.line,
                                                   heavy ? "momentum=0.9, or a smaller rate" : "eps=1e-8")
                                    : NULL;
    if (!f) return 0;
    if (heavy)
        dlsh_cause(f, "momentum=%.4g keeps all former gradients: the weights swing and do not settle", momentum);
    else
        dlsh_cause(f, "eps=%.3g outweighs the gradients that updates are divided by: they are too small", eps);
    dlsh_evidence(f, "an update is %.2g times the size of the weights; the loss went from %.4g to %.4g",
                  s->row->ratio[1], s->pass ? s->pass->first : NAN, s->pass ? s->pass->last : NAN);
    if (swinging) dlsh_tell_swings(e, f, s->row, s->pass, momentum, s->row->high);
    dlsh_tell_use(f, &given);
    return 1;
}

/* The largest decay of a group, and the smallest rate. */
static void options_of(const dl_optimizer *o, double *decay, double *rate) {
    dl_arg v;
    const dl_kind_row *kind = dlsh_optimizer_kind(o);
    for (long i = 0; dl_optimizer_param((dl_optimizer *)o, i, NULL); i++)
        for (int k = 0; kind && kind->options[k].name; k++) {
            if (dl_optimizer_group_get(o, dl_optimizer_group_of(o, i), k, &v)) return dl_error_clear();
            if (!strcmp(v.name, "lr")) *rate = fmin(*rate, v.f);
            if (!strcmp(v.name, "weight_decay")) *decay = fmax(*decay, v.f);
        }
}

static void mark_effects_of_decay(dlsh_examination *e) {
    static const char *const checks[] = {"gradients by depth", "the net uses its input", "gradients get through"};
    for (size_t i = 0; i < DLSH_COUNT(checks); i++) dlsh_mark_effects(e, checks[i]);
}

static double size_of(const dl_journal_value *v) { return v->n ? hypot(v->mean, v->std) : NAN; }

/* A weight of a pass; NULL: it is not in it. */
static const dl_journal_value *weight_in(dlsh_pass p, const void *leaf) {
    DLSH_EACH_OP_UP (m, p)
        DLSH_EACH_OPERAND (v, m)
            if (v->leaf == leaf && v->n) return v;
    return NULL;
}

/* By what ran: the decay of most weights was larger than their gradient, and they have shrunk. */
static int shrank(dlsh_examination *e, const steps *s) {
    const dlsh_pass first = s->pass ? dlsh_pass_of(s->pass, 0) : (dlsh_pass){0}, last = dlsh_pass_of(s->pass, 1);
    double decay = 0, rate = INFINITY, before = NAN, after = NAN, gradient = NAN;
    long all = 0, lost = 0;
    const int apart = !strcmp(dl_optimizer_kind(s->o), "adamw"); /* its decay is no part of the gradient */
    options_of(s->o, &decay, &rate);
    if (!(decay > 0) || !first.n || (decay < 1 && dlsh_settled_lower(s->pass, 0.75))) return 0;
    for (long k = first.n - 1; k >= 0; k--) {
        const dl_journal_value *w = dlsh_node_weight(&first.at[k], NULL), *now = w ? weight_in(last, w->leaf) : NULL;
        if (!now || !dlsh_optimizer_has(s->o, w->leaf)) continue;
        const int outweighs = apart ? s->row->sum * decay > 1.5 : decay * size_of(w) > w->gradient;
        all++;
        if (!outweighs || !(size_of(now) < 0.35 * size_of(w))) continue;
        if (!lost++) before = size_of(w), after = size_of(now), gradient = w->gradient;
    }
    if (!lost || 2 * lost < all) return 0;
    const dlsh_written given = option_of(e, s, "weight_decay");
    dlsh_finding *f = dlsh_found(e, dlsh_optimizer_source(s->o).file, given.line,
                                 apart ? "weight_decay from 1e-4 to 1e-2"
                                       : "weight_decay from 1e-6 to 1e-4; or adamw, which keeps it apart from the "
                                         "gradient",
                                 "weight_decay=%.3g pulls the weights to 0 faster than the loss can hold them\n"
                                 "%ld of %ld weights have shrunk, one from a size of %.3g to %.3g; at first the decay "
                                 "of it was %.2g of each step, beside a gradient of %.2g",
                                 decay, lost, all, before, after, decay * before, gradient);
    if (!f) return 1;
    dlsh_tell_use(f, &given);
    mark_effects_of_decay(e);
    return 1;
}

static int decayed(dlsh_examination *e, const steps *s) {
    const char *kind = dl_optimizer_kind(s->o);
    double decay = dl_optimizer_option(s->o, "weight_decay", 0), lr = s->row->high;
    int coupled = strstr(kind, "ada") && strcmp(kind, "adamw");
    if (!(decay > 0) || !(lr * decay > 0.01 || decay >= (coupled ? 0.1 : 2) || (!strcmp(kind, "sgd") && decay >= 0.2)))
        return 0;
    const dlsh_written given = option_of(e, s, "weight_decay");
    dlsh_finding *f = dlsh_find_at(e, dlsh_optimizer_source(s->o).file, given.line, "weight_decay from 1e-4 to 1e-2");
    if (!f) return 1;
    dlsh_cause(f, "weight_decay=%.3g pulls the weights to 0 faster than the loss can hold them", decay);
    double before = 0, after = 0, gradient = 0;
    const dlsh_pass first = s->pass ? dlsh_pass_of(s->pass, 0) : (dlsh_pass){0};
    DLSH_EACH_OP_UP (n, first) {
        const dl_journal_value *w = dlsh_node_weight(n, NULL),
                               *now = w ? weight_in(dlsh_pass_of(s->pass, 1), w->leaf) : NULL;
        if (now && w->n && size_of(w) > before) before = size_of(w), after = size_of(now), gradient = w->gradient;
    }
    if (coupled && before > 0)
        dlsh_evidence(f,
                      "%s adds it to the gradient: at first %.2g of weights of size %.3g, beside a gradient of %.2g of "
                      "the loss; the weights are of size %.3g at last",
                      kind, decay * before, before, gradient, after);
    else if (coupled)
        dlsh_evidence(f, "%s adds it to the gradient, where it outweighs that of the loss", kind);
    else
        dlsh_evidence(f, "each step takes away %.3g of every weight, besides the gradient: half in %.0f steps",
                      lr * decay, log(2) / (lr * decay));
    dlsh_tell_use(f, &given);
    mark_effects_of_decay(e);
    return 1;
}

/* By name, as an argument of a function that hands both on. */
static int exchanged_by_name(dlsh_examination *e, const steps *s, double decay) {
    const dl_source made = dlsh_optimizer_source(s->o);
    const dlsh_node *call = dlsh_call_within(made.file, made.line, dl_optimizer_kind(s->o));
    const char *given = NULL;
    const int line = call ? dlsh_line_of_exchange(e, made.file, call, &given) : 0;
    return line && dlsh_found(e, made.file, line, "each in the place of the other one",
                              "rate and weight_decay are exchanged: the learning rate is given what is called %s\n"
                              "the rate is %.3g, weight_decay %.3g; an update was at most %.2g of the size of the "
                              "weights; after %ld steps the loss is %.4g, at first %.4g",
                              given, s->row->high, decay, s->row->ratio[3], s->row->count,
                              s->pass ? s->pass->last : NAN, s->pass ? s->pass->first : NAN) != NULL;
}

/* A rate far below the decay, and updates that hardly change anything: each was given for the other. */
static int exchanged(dlsh_examination *e, const steps *s) {
    const int plain = strcmp(dl_optimizer_kind(s->o), "sgd") == 0;
    const double most = plain ? 10 : 1000; /* as AdamW has it: 1e-4 and 1e-2 */
    double decay = 0, rate = INFINITY;
    options_of(s->o, &decay, &rate);
    if (decay > 0 && exchanged_by_name(e, s, decay)) return 1;
    const double way = fmin(s->row->sum, rate * (double)s->row->count);               /* of a group */
    const int without_effect = plain && s->row->ratio[3] < 5e-3 && way * decay < 0.1; /* of the decay, too */
    if (!(s->row->ratio[3] < 2e-4 || without_effect) ||
        dlsh_settled_lower(s->pass, s->row->ratio[3] < 2e-4 ? 0.3 : 0.5))
        return 0;
    const dlsh_written lr = option_of(e, s, "lr");
    dlsh_finding *f = decay >= 0.02 && decay > most * rate
                          ? dlsh_find_at(e, dlsh_optimizer_source(s->o).file, lr.line,
                                         "the larger number as the rate, the smaller one as weight_decay")
                          : NULL;
    if (!f) return 0;
    char now[40] = "hardly anything by now";
    if (rate > 0) snprintf(now, sizeof now, "%.3g", rate);
    dlsh_cause(f, "rate and weight_decay seem to be exchanged: weight_decay is %.3g, the learning rate %s", decay, now);
    dlsh_evidence(
        f,
        "updates are at most %.2g times the size of the weights, and the decay is far larger than the rate; after "
        "%ld steps the loss is %.4g, at first %.4g",
        s->row->ratio[3], s->row->count, s->pass ? s->pass->last : NAN, s->pass ? s->pass->first : NAN);
    dlsh_tell_use(f, &lr);
    return 1;
}

/* Rates of groups that are so far apart that one of them stands still; a rate of 0 is meant. */
static int group_stands_still(dlsh_examination *e, const steps *s) {
    double low = INFINITY, high = 0;
    dl_arg lr;
    for (long i = 0; dl_optimizer_param(s->o, i, NULL); i++) {
        if (dl_optimizer_group_get(s->o, dl_optimizer_group_of(s->o, i), 0, &lr)) return dl_error_clear(), 0;
        if (!strcmp(lr.name, "lr") && lr.f > 0) low = fmin(low, lr.f), high = fmax(high, lr.f);
    }
    return high > 1e5 * low &&
           dlsh_found(e, dlsh_optimizer_source(s->o).file, dlsh_optimizer_source(s->o).line,
                      "rates of groups within a factor of 1000, or lr=0",
                      "the learning rate of a group, %.3g, is too small beside %.3g: its parameters stand still\n"
                      "an update of that group is %.2g of one of the others, at equal gradients",
                      low, high, low / high) != NULL;
}

long dlsh_samples_added(const dl_journal_row *pass) {
    dlsh_pass p = pass ? dlsh_pass_of(pass, 1) : (dlsh_pass){0};
    const dl_journal_node *n = p.n ? p.at : NULL;
    if (!n || n->out.ndim || !n->in[0].ndim) return 0;
    const int adds = dlsh_op_is(n, "sum|square_sum") ||
                     (dlsh_op_is(n, "cross_entropy|nll_picked|logit_loss") && strstr(n->attrs, "sum"));
    return adds && n->in[0].shape[0] >= 16 ? n->in[0].shape[0] : 0;
}

/* Did a function meet the end of its domain, as log and sqrt at 0, although the first update was of a usual size? */
static int leaves_domain(const steps *s) {
    static dl_nan_event event;
    if (!(s->row->ratio[0] < 1) || dlsh_nan_event_at(1, 0, &event)) {
        dl_error_clear();
        if (!(s->row->ratio[0] < 1) || dlsh_nan_event_at(0, 0, &event)) return dl_error_clear(), 0;
    }
    const char *op = event.backward ? event.forward : event.op;
    return dlsh_is_word("sqrt|log|norm|cdist", op);
}

/* Did units die or saturate after the first steps, and was nothing found that they may follow from? */
static int units_died(const dlsh_examination *e) {
    int died = 0;
    for (int i = 0; i < e->nfindings; i++) {
        const dlsh_finding *f = &e->findings[i];
        if (!f->effect && !f->note) return 0;
        died |= f->effect && !strcmp(f->check, "dead and saturated units");
    }
    return died;
}

/* Does each step of an optimizer that divides by the size of gradients move the many weights of a net by more than they
 * are large at first, so that what they began with is gone, and is the loss not small for all that? */
static int overruns_start(const steps *s) {
    enum { MANY = 1000 };
    const char *kind = dl_optimizer_kind(s->o);
    dl_tensor *p;
    long n = 0;
    if (!(strstr(kind, "adam") || strstr(kind, "rms")) || !(s->row->high >= 0.1)) return 0;
    for (long i = 0; (p = dl_optimizer_param(s->o, i, NULL)); i++) n += dl_ndim(p) > 1 ? dl_numel(p) : 0;
    return n >= MANY && s->row->ratio[0] > 0.7 && isfinite(s->row->ratio[0]) && s->pass &&
           !dlsh_settled_lower(s->pass, 0.9);
}

/* Is the loss far above what it was at first, at last and, of batches with rare large errors, mostly so? */
static int has_grown(const dl_journal_row *pass) {
    const double far = 1.5 * fabs(dlsh_first_loss(pass));
    const int n = pass->ncurve, part = n >= 16 ? n / 4 : 0;
    int above = 0;
    for (int i = n - part; i < n; i++) above += !(pass->curve[i] <= far);
    return isnan(pass->last) || (pass->last > far && 2 * above >= part);
}

/* Data that are too large make updates so. */
static int too_large(dlsh_examination *e, const steps *s) {
    double ratio = s->row->ratio[3];
    if (dlsh_was_found(e, "the data", "scale") || dlsh_was_found(e, "sign and floor of the loss", "") ||
        dlsh_was_found(e, "mixed precision", "") || dlsh_was_found(e, "hooks keep the direction", "") ||
        dlsh_was_found(e, "gradients are zeroed", ""))
        return 0;
    if (s->pass && fabs(s->pass->first) > 1e5 && dlsh_was_found(e, "gradients by depth", ""))
        return 0; /* before any step */
    int grows =
        s->pass && s->pass->count > 4 && !dlsh_has_rivals(e) && !dlsh_targets_move(e, s->pass) && has_grown(s->pass);
    /* the first update of weights that begin near 0 is large beside them */
    const int leaps = ratio > 3 && !(s->row->ratio[1] <= 0.05 && dlsh_settled_lower(s->pass, 0.3));
    int restless = ratio > 0.5 && s->row->ratio[1] > 0.05 && !dlsh_settled_lower(s->pass, 0.3);
    if (!grows && dlsh_was_found(e, "parameters and optimizers", "")) return 0;
    const int killed = ratio > 0.1 && s->row->ratio[0] > 0.03 && !dlsh_settled_lower(s->pass, 0.3) && units_died(e);
    if (!leaps && !restless && !(grows && ratio > 0.02) && !killed && !overruns_start(s)) return 0;
    if (leaves_domain(s) || dlsh_was_found(e, "the data", "not finite") ||
        dlsh_was_found(e, "gradients of own functions", ""))
        return 0;
    const long added = dlsh_samples_added(s->pass);
    const dl_journal_node *root = added ? dlsh_pass_of(s->pass, 1).at : NULL;
    const dlsh_written lr = root ? (dlsh_written){0} : rate_of(e, s);
    dlsh_finding *f =
        root ? dlsh_find_at(e, root->file, root->line, "the mean over samples, or a rate that many times smaller")
             : dlsh_find_at(e, s->file, lr.line,
                            dlsh_kept(e, "about %.1g: updates of a hundredth of the weights or less",
                                      0.01 * s->row->high / ratio));
    if (!f) return 1;
    f->effect = (!added && !(ratio > 3) && dlsh_was_found(e, "shapes that are broadcast", "")) ||
                dlsh_was_found(e, "the data", "order of their classes") ||
                dlsh_was_found(e, "what the loss is given", "never reached") ||
                dlsh_was_found(e, "the initial loss", "a fixed matrix");
    if (added)
        dlsh_cause(f, "the learning rate, %.3g, is too large for a loss that is the sum over %ld samples", s->row->high,
                   added);
    else
        dlsh_cause(f, "the learning rate, %.3g, is too large", s->row->high);
    char course[80] = "";
    if (s->pass) snprintf(course, sizeof course, "; the loss went from %.4g to %.4g", s->pass->first, s->pass->last);
    dlsh_evidence(f, "an update was %.2g times the size of the weights%s%s", ratio, course,
                  killed ? "; units died on the way" : "");
    dlsh_tell_use(f, &lr);
    return 1;
}

/* Then no rate is large enough. */
static int no_gradient(dlsh_examination *e, const steps *s) {
    if (s->pass)
        dlsh_found(e, s->pass->file, s->pass->line, "why zero W tells at which op the gradient of a parameter W ends",
                   "all gradients are exactly 0: updates change nothing, whatever the rate\n"
                   "after %ld steps the loss is %.4g, at first %.4g",
                   s->row->count, s->pass->last, s->pass->first);
    return 1;
}

/* Have weights hardly moved in a whole training, though much of the loss is left? */
static int moved_little(const dl_journal_row *step, const dl_journal_row *pass) {
    return step->count >= 200 && step->ratio[3] * (double)step->count < 0.1 && !dlsh_settled_lower(pass, 0.6);
}

int dlsh_stands_still(const dlsh_examination *e, const dl_journal_row *step, const dl_journal_row *pass) {
    static const char *const other[] = {
        "dead and saturated units",  "gradients by depth",     "the net uses its input", "gradients get through",
        "parameters and optimizers", "what the loss is given", "mixed precision"};
    for (size_t i = 0; i < DLSH_COUNT(other); i++)
        if (dlsh_was_found(e, other[i], "")) return 0;
    if (dlsh_was_found(e, "the data", "scaled to")) return 0; /* then gradients are as small */
    return step->high <= 0 || (step->ratio[3] < 2e-4 && (!fell(pass, 0.05) || moved_little(step, pass)));
}

/* Is the loss small beside the spread of its targets from the first pass on? Then weights begin where a training ends,
 * as those that equations gave. */
static int is_at_end(const dlsh_examination *e, const dl_journal_row *pass) {
    dlsh_pass p = pass && pass->first >= 0 ? dlsh_pass_of(pass, 1) : (dlsh_pass){0};
    DLSH_EACH_OP (m, p) {
        dlsh_traced used[DLSH_TRACED];
        const int n = dlsh_op_is(m, "sub") ? dlsh_trace(e, m->file, m->line, used) : 0;
        dlsh_stats s;
        for (int k = 0; k < n; k++)
            if (used[k].role == DLSH_ROLE_TARGET && used[k].whole && !dlsh_stats_of(used[k].whole, &s) &&
                pass->first < 1e-3 * s.std * s.std)
                return 1;
    }
    return 0;
}

static int too_small(dlsh_examination *e, const steps *s) {
    const double ratio = s->row->ratio[3];
    if (!dlsh_stands_still(e, s->row, s->pass) || is_at_end(e, s->pass)) return 0;
    if (s->row->high > 0 && !(size_of_gradients(s->pass) > 0)) return no_gradient(e, s);
    if (dlsh_find_clipped_by_hand(e, s->pass) || dlsh_find_cut_by_hand(e, s->pass)) return 1;
    const dlsh_written lr = rate_of(e, s);
    dlsh_finding *f = dlsh_found(
        e, s->file, lr.line,
        ratio > 0 ? dlsh_kept(e, "about %.1g: updates of a thousandth of the weights", 1e-3 * s->row->high / ratio)
                  : "a rate above 0",
        "the learning rate, %.3g, is too small\n"
        "updates are at most %.2g times the size of the weights; after %ld steps the loss is %.4g, at first %.4g",
        s->row->last, ratio, s->row->count, s->pass ? s->pass->last : NAN, s->pass ? s->pass->first : NAN);
    if (!f) return 1;
    dlsh_tell_use(f, &lr);
    return 1;
}

/* ---------------------------------------------------------------- the check */

static dl_trainer *trainer_of(const dlsh_examination *e, const dl_optimizer *o) {
    dl_trainer *t = NULL;
    dl_optimizer *at;
    for (int i = 0; (at = dlsh_optimizer_at(e, i, &t)); i++)
        if (at == o && t) return t;
    return NULL;
}

/* In this order: what makes updates small also when the rate is right comes first. */
static int (*const causes[])(dlsh_examination *, const steps *) = {
    odd_option, exchanged,  group_stands_still, decayed,   shrank,    stays_zero,
    clipped,    compounded, scheduled,          not_risen, too_large, too_small};

/* The statement of the script that set the rate last, not the steps of a trainer with a schedule. */
static const dl_journal_row *rate_set_for(const dlsh_examination *e, const dl_optimizer *o) {
    const dl_journal_row *found = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_RATE) {
        int of_step = r->what != o;
        DLSH_EACH_ROW_WHILE (!of_step, step, e, DL_DID_STEP)
            of_step = step->what == o && step->line == r->line && !strcmp(step->file, r->file);
        if (!of_step && (!found || r->till > found->till)) found = r;
    }
    return found;
}

/* Of gradients of its parameters, or of what is not known. */
static const dl_journal_row *clip_of(const dlsh_examination *e, const dl_optimizer *o) {
    const dl_journal_row *found = NULL;
    dl_optimizer *other;
    DLSH_EACH_ROW (r, e, DL_DID_CLIP) {
        int elsewhere = 0;
        for (int k = 0; (other = dlsh_optimizer_at(e, k, NULL)); k++) elsewhere |= dlsh_optimizer_has(other, r->what);
        if ((dlsh_optimizer_has(o, r->what) || !elsewhere) && (!found || r->till > found->till)) found = r;
    }
    return found;
}

int dlsh_are_wild(dlsh_examination *e, const dl_journal_row *r) {
    const int wild = !(r->ratio[0] > 0 && r->ratio[1] > 0 && fmax(r->ratio[0], r->ratio[1]) < 1);
    if (wild)
        dlsh_unchecked(
            e, "updates of %.2g times the size of the weights at first and %.2g at last tell nothing of the rate",
            r->ratio[0], r->ratio[1]);
    return wild;
}

static void examine(dlsh_examination *e, const dl_journal_row *r, dl_optimizer *o) {
    steps s = {.row = r, .o = o, .t = trainer_of(e, o)};
    s.rate = s.t ? rate_set_for(e, o) : last_row(e, DL_DID_RATE, o);
    s.clip = clip_of(e, o);
    s.pass = last_row(e, DL_DID_BACKWARD, NULL);
    s.file = s.rate ? s.rate->file : dlsh_optimizer_source(o).file;
    s.line = s.rate ? s.rate->line : dlsh_optimizer_source(o).line;
    for (size_t i = 0; i < DLSH_COUNT(causes); i++)
        if (causes[i](e, &s)) return;
    const double first = r->ratio[0], last = r->ratio[1];
    if (dlsh_are_wild(e, r)) return;
    if (r->ratio[3] >= 2e-4 || dlsh_settled_lower(s.pass, 0.5)) {
        const double now = r->high > 0 ? r->ratio[3] * r->last / r->high : last; /* looked at by ever fewer passes */
        double decay = 0, rate = INFINITY;
        options_of(o, &decay, &rate);
        const char *with = decay > 0 ? dlsh_kept(e, ", weight_decay %.3g", decay) : "";
        if (now < 0.1 * last)
            dlsh_passed(
                e,
                "%.2g times the size of the weights at first, about %.1g at last, where the rate has fallen from "
                "%.2g to %.2g%s",
                first, now, r->high, r->last, with);
        else
            dlsh_passed(e, "%.2g times the size of the weights at first, %.2g at last; rate %.3g%s", first, last,
                        fmin(rate, r->last), with);
    }
}

/* Of an optimizer that stepped at several places the largest update comes first: of findings at one line the first
 * counts. */
static int has_larger(const dlsh_examination *e, const dl_journal_row *than) {
    DLSH_EACH_ROW (r, e, DL_DID_STEP)
        if (r->what == than->what && r->empty < r->count && r->ratio[3] > than->ratio[3]) return 1;
    return 0;
}

dl_status dlsh_check_update(dlsh_examination *e) {
    long steps = 0, measured = 0;
    for (int larger = 0; larger < 2; larger++)
        DLSH_EACH_ROW (r, e, DL_DID_STEP) {
            dl_optimizer *o = dlsh_live_optimizer(e, r->what, NULL);
            if (o && r->empty < r->count && has_larger(e, r) == larger) examine(e, r, o), measured++;
            if (!r->what && !larger) measured += dlsh_judge_own_update(e, r);
            steps++;
        }
    long i = 0;
    if (!dlsh_row_next(e, DL_DID_BACKWARD, &i)) return DL_OK;
    if (!steps)
        dlsh_unchecked(e, "no step of an optimizer was seen, and no parameter that the script changes itself");
    else if (!measured)
        dlsh_unchecked(e, "the optimizers that took the steps are gone, or no parameter of a step could be read");
    else
        dlsh_unchecked(e, "updates are small, and the loss has not told whether they are enough");
    return DL_OK;
}
