/* The size of updates, and what makes it too small or too large: rate, schedule, clipping, decay. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "debug/doctor/checks.h"

/* What is known of the steps of an optimizer. */
typedef struct steps {
    const dl_journal_row *row, *rate, *clip, *pass; /* the last two may be NULL */
    dl_optimizer *o;
    dl_trainer *t;
    const char *file; /* where the rate was set last, or the optimizer made */
    int line;
} steps;

static const dl_journal_row *last_row(const dlsh_examination *e, dl_journal_kind kind, const void *what) {
    const dl_journal_row *r, *found = NULL;
    for (long i = 0; (r = dlsh_row_next(e, kind, &i));)
        if ((!what || r->what == what) && (!found || r->till > found->till)) found = r;
    return found;
}

/* Did the loss fall by that share? */
static int fell(const dl_journal_row *pass, double share) {
    if (!pass || pass->count < 5 || isnan(pass->first)) return 1;
    return pass->first - pass->low > share * fabs(pass->first);
}

/* Is the loss of the last quarter of the passes that much lower than at first? */
static int settled_lower(const dl_journal_row *pass, double share) {
    int n = pass ? pass->ncurve : 0, part = n / 4;
    double sum = 0;
    if (n < 8) return 0;
    for (int i = n - part; i < n; i++) sum += pass->curve[i];
    return pass->first - sum / part > share * fabs(pass->first);
}

/* ---------------------------------------------------------------- causes */

static int clipped(dlsh_examination *e, const steps *s) {
    double limit = s->clip ? s->clip->limit : NAN, norm = s->clip ? s->clip->first : NAN;
    dl_trainer_state st = {0};
    if (s->t) dl_trainer_get(s->t, &st);
    if (s->t && st.clip_norm > 0) limit = st.clip_norm, norm = st.grad_norm;
    const char *kind = dl_optimizer_kind(s->o);
    if (!(limit * 50 < norm) || strstr(kind, "ada") || strstr(kind, "rms")) return 0;
    dlsh_finding *f = dlsh_find_at(e, s->clip ? s->clip->file : s->file, s->clip ? s->clip->line : s->line,
                                   "a limit near the usual norm of the gradients");
    if (!f) return 1;
    dlsh_cause(f, "clipping cuts gradients to %.3g of their size: almost nothing is learned", limit / norm);
    dlsh_evidence(f, "the limit is %.3g, their norm %.4g; an update is %.2g of the size of the weights", limit, norm,
                  s->row->ratio[1]);
    return 1;
}

/* The share of its largest value that the rate had over all steps. */
static double mean_rate(const steps *s) {
    return s->row->high > 0 ? s->row->sum / (double)s->row->count / s->row->high : 1;
}

static int scheduled(dlsh_examination *e, const steps *s) {
    double share = mean_rate(s);
    if (s->row->count < 8 || share > 0.08 || s->row->low == s->row->high) return 0;
    dlsh_finding *f = dlsh_find_at(e, s->file, s->line, "let the schedule last as long as the training");
    if (!f) return 1;
    dlsh_cause(f, "the schedule keeps the learning rate near 0 for most of the training");
    dlsh_evidence(f, "from %.3g to %.3g; over %ld steps it was %.2g of its largest value on average%s%s", s->row->first,
                  s->row->last, s->row->count, share, s->t ? ": " : "",
                  s->t && dl_trainer_schedule(s->t) ? dl_schedule_text(dl_trainer_schedule(s->t)) : "");
    return 1;
}

static int decayed(dlsh_examination *e, const steps *s) {
    const char *kind = dl_optimizer_kind(s->o);
    double decay = dl_optimizer_option(s->o, "weight_decay", 0), lr = s->row->high;
    int coupled = strstr(kind, "ada") && strcmp(kind, "adamw");
    if (!(decay > 0) || !(lr * decay > 0.01 || decay >= (coupled ? 0.1 : 2) || (!strcmp(kind, "sgd") && decay >= 0.2)))
        return 0;
    dlsh_finding *f = dlsh_find_at(e, dl_optimizer_source(s->o).file, dl_optimizer_source(s->o).line,
                                   "weight_decay from 1e-4 to 1e-2");
    if (!f) return 1;
    dlsh_cause(f, "weight_decay=%.3g pulls the weights to 0 faster than the loss can hold them", decay);
    if (coupled)
        dlsh_evidence(f, "%s adds it to the gradient, where it outweighs that of the loss", kind);
    else
        dlsh_evidence(f, "each step takes away %.3g of every weight, besides the gradient: half in %.0f steps",
                      lr * decay, log(2) / (lr * decay));
    return 1;
}

static int too_large(dlsh_examination *e, const steps *s) {
    double ratio = s->row->ratio[3];
    int grows = s->pass && s->pass->count > 4 && (isnan(s->pass->last) || s->pass->last > 1.5 * fabs(s->pass->first));
    if (!(ratio > 3) && !(ratio > 0.5 && !settled_lower(s->pass, 0.3)) && !(grows && ratio > 0.02)) return 0;
    dlsh_finding *f = dlsh_find_at(e, s->file, s->line,
                                   "a rate that gives updates of about a thousandth, here 10 to 1000 times smaller");
    if (!f) return 1;
    dlsh_cause(f, "the learning rate, %.3g, is too large", s->row->high);
    if (s->pass)
        dlsh_evidence(f, "an update was %.2g of the size of the weights; the loss went from %.4g to %.4g", ratio,
                      s->pass->first, s->pass->last);
    else
        dlsh_evidence(f, "an update was %.2g of the size of the weights", ratio);
    return 1;
}

static int too_small(dlsh_examination *e, const steps *s) {
    double ratio = s->row->ratio[3];
    if (s->row->high > 0 && (!(ratio < 2e-4) || fell(s->pass, 0.05))) return 0;
    dlsh_finding *f = dlsh_find_at(e, s->file, s->line, "a larger rate: updates of about a thousandth of the weights");
    if (!f) return 1;
    dlsh_cause(f, "the learning rate, %.3g, is too small", s->row->last);
    dlsh_evidence(
        f, "updates are at most %.2g of the size of the weights; after %ld steps the loss is %.4g, at first %.4g",
        ratio, s->row->count, s->pass ? s->pass->last : NAN, s->pass ? s->pass->first : NAN);
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
static int (*const causes[])(dlsh_examination *, const steps *) = {decayed, clipped, scheduled, too_large, too_small};

static void examine(dlsh_examination *e, const dl_journal_row *r, dl_optimizer *o) {
    steps s = {.row = r, .o = o, .t = trainer_of(e, o)};
    const dl_journal_row *rate = last_row(e, DL_DID_RATE, o);
    s.rate = rate && !s.t ? rate : NULL;
    s.clip = last_row(e, DL_DID_CLIP, NULL);
    s.pass = last_row(e, DL_DID_BACKWARD, NULL);
    s.file = s.rate ? s.rate->file : dl_optimizer_source(o).file;
    s.line = s.rate ? s.rate->line : dl_optimizer_source(o).line;
    for (size_t i = 0; i < DLSH_COUNT(causes); i++)
        if (causes[i](e, &s)) return;
    if (!isnan(r->ratio[1]))
        dlsh_passed(e, "%.2g of the size of the weights at first, %.2g at last", r->ratio[0], r->ratio[1]);
}

dl_status dlsh_check_update(dlsh_examination *e) {
    const dl_journal_row *r;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_STEP, &i));) {
        dl_optimizer *o = dlsh_live_optimizer(e, r->what, NULL);
        if (o && r->empty < r->count) examine(e, r, o);
    }
    return DL_OK;
}
