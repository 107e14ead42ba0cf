/* What evaluations during training decide: when to stop, and which weights to keep. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "dlcore/copy.h"
#include "nn/options.h"
#include "nn/parse.h"

/* ---------------------------------------------------------------- their texts */

/* Both options read the same way; what their words are is in these rows. */
#define METRIC O(metric, "monitor", STR, "none", "the figure of evaluations: val/loss, val/acc, test/loss, ...")
#define MODE O(mode, "", STR, "auto", "which is better: min, max; auto: as the name tells")
static const dl_kind_row rows[] = {
    {"stop", "", "Ends the training when a figure of evaluations no longer improves.", "stop val/loss patience=5",
     OPTIONS(1, METRIC MODE O(patience, "", INT, "3", "evaluations in a row without a better one before the end")
                    O(min_delta, "", FLOAT, "0", "what is better by no more than this counts as none"))},
    {"best", "", "Keeps the weights of the best evaluation.", "best val/acc", OPTIONS(1, METRIC MODE)},
};
enum { STOP, BEST, LONGEST = 400 };

static const char *const prefixes[] = {[DL_TRAIN] = "train/eval_", [DL_TEST] = "test/", [DL_VAL] = "val/"};
const char *dl_watch_prefix(dl_split split) { return prefixes[split]; }

typedef struct reading {
    const dl_kind_row *row;
    dl_optval val[DL_OPT_MAX];
} reading;

static reading *read_args(const dl_kind_row *row, const dl_arg *args, int nargs) {
    reading *r = calloc(1, sizeof *r);
    if (!r) return dl_fail(DL_ERR_MEMORY, "no memory for a trainer"), NULL;
    r->row = row;
    if (dl_options_read("trainer's", row, args, nargs, r->val, NULL) == DL_OK) return r;
    free(r);
    return NULL;
}

static void *read_stop(const char *kind, const dl_arg *args, int nargs) {
    (void)kind;
    return read_args(&rows[STOP], args, nargs);
}

static void *read_best(const char *kind, const dl_arg *args, int nargs) {
    if (!strcmp(kind, "best")) return read_args(&rows[BEST], args, nargs);
    dl_fail_hint(DL_ERR_VALUE, "keep=\"best\", keep=\"best val/acc\"", "keep=\"%s\": what is kept is the best", kind);
    return NULL;
}

/* Names of the figures that evaluations of a split give, one after the other; NULL past the last. */
static const char *figure_at(const dl_trainer *t, int i) {
    static const char *const own[] = {"loss", "acc"};
    return i < 2 ? own[i] : i - 2 < t->nfigures ? t->figure_name[i - 2] : NULL;
}

static bool has_split(const dl_trainer *t, dl_split split) {
    return split == DL_VAL ? t->held != NULL : split == DL_TEST && dl_dataset_len(t->data, DL_TEST) > 0;
}

/* The full name of a figure: "acc" is that of what is held out, else of the test split. */
static dl_status find_metric(const dl_trainer *t, const char *option, const char *name, dl_watch *w) {
    enum { MOST = 64 };
    static const dl_split order[] = {DL_VAL, DL_TEST};
    const char *names[MOST];
    char room[MOST][sizeof w->metric];
    int n = 0;
    for (size_t s = 0; s < 2; s++)
        for (int i = 0; has_split(t, order[s]) && figure_at(t, i) && n < MOST; i++, n++) {
            snprintf(room[n], sizeof room[n], "%s%s", prefixes[order[s]], figure_at(t, i));
            names[n] = room[n];
            if (strcmp(name, room[n]) && strcmp(name, figure_at(t, i))) continue;
            snprintf(w->metric, sizeof w->metric, "%s", room[n]);
            w->split = order[s], w->figure = i;
            return DL_OK;
        }
    return dl_fail_unknown(name, names, n, n ? "metrics=[...] adds others" : "val=0.1 holds samples out",
                           "%s: evaluations of this trainer have no '%s'", option, name);
}

static const char *mode_of(const dl_watch *w) { return w->direction > 0 ? "max" : "min"; }

/* What both have: metric and direction. `other`: whose metric counts where none is named; NULL: val/loss. */
static dl_status take_metric(const dl_trainer *t, const reading *r, const char *option, const dl_watch *other,
                             dl_watch *w) {
    const dl_optval *name = dl_option(r->row, r->val, "metric");
    const char *mode = dl_option(r->row, r->val, "mode")->u.s;
    if (!name->given && !other && !t->held)
        return dl_fail_hint(DL_ERR_VALUE, "val=0.1 holds a tenth of the training samples out",
                            "%s needs samples that are held out, or the name of a figure of the test split", option);
    DL_TRY(find_metric(t, option, name->given ? name->u.s : other ? other->metric : "val/loss", w));
    if (strcmp(mode, "auto") && strcmp(mode, "min") && strcmp(mode, "max"))
        return dl_fail(DL_ERR_VALUE, "%s: mode is min, max or auto, not '%s'", option, mode);
    w->direction = !strcmp(mode, "min") ? -1 : !strcmp(mode, "max") ? 1 : dl_metric_direction(w->metric);
    return DL_OK;
}

static dl_status take_patience(const reading *r, dl_watch *w) {
    w->patience = dl_option_i(r->row, r->val, "patience");
    w->min_delta = dl_option_f(r->row, r->val, "min_delta");
    if (w->patience < 1 || !(w->min_delta >= 0))
        return dl_fail(DL_ERR_VALUE, "stop: patience is at least 1 and min_delta at least 0, not %ld and %g",
                       w->patience, w->min_delta);
    snprintf(w->text, sizeof w->text, "%s mode=%s patience=%ld min_delta=%g", w->metric, mode_of(w), w->patience,
             w->min_delta);
    return DL_OK;
}

static dl_status check_text(const dl_trainer *t, const char *option, const char *text) {
    if (t->eval_every < 0) return dl_fail_hint(DL_ERR_VALUE, "leave out eval_every=0", "%s needs evaluations", option);
    if (strlen(text) > LONGEST) return dl_fail(DL_ERR_VALUE, "%s: '%.40s...' is too long", option, text);
    return DL_OK;
}

static dl_status take_stop(dl_trainer *t, const char *text) {
    char call[LONGEST + 8];
    DL_TRY(check_text(t, "stop", text));
    snprintf(call, sizeof call, "stop %s", text);
    reading *r = dl_parse_call(call, read_stop);
    dl_status st = r ? take_metric(t, r, "stop", NULL, &t->stop) : dl_failed();
    if (st == DL_OK) st = take_patience(r, &t->stop);
    free(r);
    t->stop.on = st == DL_OK;
    return st;
}

static dl_status take_keep(dl_trainer *t, const char *text) {
    DL_TRY(check_text(t, "keep", text));
    dl_watch *w = &t->keep;
    reading *r = dl_parse_call(text, read_best);
    dl_status st = r ? take_metric(t, r, "keep", t->stop.on ? &t->stop : NULL, w) : dl_failed();
    free(r);
    snprintf(w->text, sizeof w->text, "best %s mode=%s", w->metric, mode_of(w));
    w->on = st == DL_OK;
    return st;
}

dl_status dl_watch_take(dl_trainer *t, const char *stop, const char *keep) {
    t->stop.best = t->keep.best = NAN;
    if (stop) DL_TRY(take_stop(t, stop));
    return keep ? take_keep(t, keep) : DL_OK;
}

/* ---------------------------------------------------------------- the figures */

static double figure_of(const dl_watch *w, const dl_eval_result *r) {
    return w->figure == 0 ? r->loss : w->figure == 1 ? r->acc : r->metric[w->figure - 2];
}

/* *better: it is the best so far. */
static dl_status see(dl_trainer *t, dl_watch *w, dl_split split, const dl_eval_result *r, bool *better) {
    *better = false;
    if (!w->on || w->split != split) return DL_OK;
    double v = figure_of(w, r);
    if (isnan(v) && w->figure > 0)
        return dl_fail_hint(DL_ERR_VALUE, "choose another figure, as val/loss",
                            "%s cannot be computed, and stop or keep needs it", w->metric);
    *better = !isnan(v) && (isnan(w->best) || (v - w->best) * w->direction > w->min_delta);
    w->bad = *better ? 0 : w->bad + 1;
    if (*better) w->best = v, w->best_step = t->step;
    return DL_OK;
}

static void say_stopped(dl_trainer *t) {
    const dl_watch *w = &t->stop;
    snprintf(t->stopped, sizeof t->stopped, "%s has not improved on %.6g of step %ld in %ld evaluation%s", w->metric,
             w->best, w->best_step, w->bad, w->bad == 1 ? "" : "s");
    dl_record_stop(t);
}

dl_status dl_watch_see(dl_trainer *t, dl_split split, const dl_eval_result *r) {
    bool better, kept;
    DL_TRY(see(t, &t->stop, split, r, &better));
    DL_TRY(see(t, &t->keep, split, r, &kept));
    if (kept) DL_TRY(dl_best_keep(t));
    if (t->keep.on ? kept : better) dl_record_best(t);
    if (t->stop.on && t->stop.split == split && t->stop.bad >= t->stop.patience) say_stopped(t);
    return DL_OK;
}

void dl_watch_begin(dl_trainer *t) {
    if (*t->stopped) t->stop.bad = 0; /* who trains on after the end wants to be patient again */
    *t->stopped = 0;
}

/* ---------------------------------------------------------------- the best weights */

/* Weights, buffers and averaged weights, one after the other; NULL past the last. */
static dl_tensor *part_at(const dl_trainer *t, long i) {
    if (i < t->state->n) return t->state->entries[i].tensor;
    i -= t->state->n;
    return t->ema && i < t->nparam ? t->ema[i] : NULL;
}

long dl_best_count(const dl_trainer *t) { return t->state->n + (t->ema ? t->nparam : 0); }

void dl_best_name(const dl_trainer *t, long i, char *out, size_t size) {
    bool average = i >= t->state->n;
    snprintf(out, size, "best.%s.%s", average ? "ema" : "model",
             average ? t->params->entries[i - t->state->n].path : t->state->entries[i].path);
}

/* Copies all parts into `to`, which is made where there is none. */
static dl_status copy_parts(const dl_trainer *t, dl_tensor ***to) {
    DL_SCOPED_GRAD_MODE(0);
    const long n = dl_best_count(t);
    if (!*to && !(*to = calloc((size_t)n + 1, sizeof **to))) return dl_fail(DL_ERR_MEMORY, "no memory for weights");
    for (long i = 0; i < n; i++) {
        if ((*to)[i])
            DL_TRY(dl_assign((*to)[i], part_at(t, i)));
        else if (!((*to)[i] = dl_clone(part_at(t, i))))
            return dl_failed();
    }
    return DL_OK;
}

static dl_status put_parts(dl_trainer *t, dl_tensor **from) {
    DL_SCOPED_GRAD_MODE(0);
    for (long i = 0; i < dl_best_count(t); i++) DL_TRY(dl_assign(part_at(t, i), from[i]));
    return DL_OK;
}

static void drop_parts(const dl_trainer *t, dl_tensor ***parts) {
    for (long i = 0; *parts && i < dl_best_count(t); i++) dl_unref((*parts)[i]);
    free(*parts);
    *parts = NULL;
}

/* Changes whenever any of the parts is written to. */
static uint64_t writes_of(const dl_trainer *t) {
    uint64_t sum = 0;
    for (long i = 0; i < dl_best_count(t); i++) sum += part_at(t, i)->st->version;
    return sum;
}

dl_status dl_best_keep(dl_trainer *t) { return copy_parts(t, &t->best); }

bool dl_best_shows(const dl_trainer *t) { return t->latest && t->best_writes == writes_of(t); }

dl_status dl_best_enter(dl_trainer *t) {
    if (!t->best || t->latest) return DL_OK;
    DL_TRY(copy_parts(t, &t->latest));
    DL_TRY(put_parts(t, t->best));
    t->best_writes = writes_of(t);
    return DL_OK;
}

dl_status dl_best_leave(dl_trainer *t) {
    if (!t->latest) return DL_OK;
    /* weights that were changed since then are those to go on with */
    dl_status st = dl_best_shows(t) ? put_parts(t, t->latest) : DL_OK;
    drop_parts(t, &t->latest);
    return st;
}

void dl_best_drop(dl_trainer *t) {
    if (!t->state) return;
    drop_parts(t, &t->latest);
    drop_parts(t, &t->best);
}
