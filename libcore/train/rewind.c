/* Going back to earlier steps of a trainer, and forward again: states that are kept now and then, and training between
 * them, which gives the same bits. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "core/scope.h"
#include "train/trainer.h"

enum {
    ORIGINS = 4096, /* changes of the statement that trains, that are remembered */
    SHARE = 300,    /* seconds of training for each second that keeping a state takes */
    MOST = 100,     /* states of a trainer */
    AT_ONCE = 10    /* states that are kept without waiting, after changes between steps */
};

static size_t budget = (size_t)64 << 20;

void dl_rewind_budget_set(unsigned long bytes) { budget = bytes; }
unsigned long dl_rewind_budget_get(void) { return budget; }

typedef struct kept {
    dl_checkpoint *state;
    long step;
    size_t bytes;
    long reach; /* the last step that can be made again from here: behind it something was changed between two steps */
} kept;

/* From a step on, steps are made by train, which evaluates, or one by one. */
typedef struct turn {
    long step;
    bool train;
} turn;

/* From a step on, steps are made by a statement there. */
typedef struct origin {
    long step;
    dl_source source;
} origin;

struct dl_past {
    kept *kept;     /* steps rising */
    turn *turn;     /* steps rising */
    origin *origin; /* steps rising */
    long n, cap, turns, turncap, origins, origincap;
    size_t bytes, full; /* full: the budget for which a single state was too large; 0 */
    dl_checkpoint *end; /* the furthest step, where it was left; NULL: it is the trainer's own */
    double cost, last;
    bool replaying, stepped;
    int at_once;
    /* after the last step */
    unsigned long writes, seed;
    dl_rng_at rng;
    double base_lr;
};

static void drop(dl_past *p, long i) {
    p->bytes -= p->kept[i].bytes;
    dl_checkpoint_free(p->kept[i].state);
}

void dl_past_forget(dl_trainer *t) {
    dl_past *p = t->past;
    t->past = NULL;
    if (!p) return;
    for (long i = 0; i < p->n; i++) drop(p, i);
    dl_checkpoint_free(p->end);
    free(p->kept);
    free(p->turn);
    free(p->origin);
    free(p);
}

/* ---------------------------------------------------------------- keeping */

/* Forgets the states after a step: training goes another way from there. */
static void forget_after(dl_past *p, long step) {
    while (p->n && p->kept[p->n - 1].step > step) drop(p, --p->n);
    while (p->turns && p->turn[p->turns - 1].step > step) p->turns--;
    while (p->origins && p->origin[p->origins - 1].step > step) p->origins--;
    dl_checkpoint_free(p->end);
    p->end = NULL;
}

static bool fits(const dl_past *p) { return p->bytes <= budget && p->n <= MOST; }

/* Every second state goes, but the first and the last, until they fit; if that is not enough, the first. */
static void thin(dl_past *p) {
    while (!fits(p) && p->n > 2) {
        long left = 1;
        for (long i = 1; i < p->n; i++)
            if (i % 2 == 0 || i == p->n - 1)
                p->kept[left++] = p->kept[i];
            else
                drop(p, i);
        p->n = left;
    }
    if (fits(p) || p->n < 2) return;
    drop(p, 0);
    p->kept[0] = p->kept[--p->n];
}

static unsigned long writes_of(const dl_trainer *t) {
    unsigned long sum = 0;
    for (long i = 0; i < t->state->n; i++) sum += (unsigned long)t->state->entries[i].tensor->st->version;
    return sum;
}

/* Training goes on also where a state cannot be kept. */
static void keep(dl_trainer *t, dl_past *p) {
    double began = dl_seconds();
    dl_checkpoint *c = dl_checkpoint_take(t);
    size_t bytes = c ? dl_checkpoint_bytes(c) : 0;
    if (c && bytes <= budget && DL_LIST_ROOM(p->kept, p->n, p->cap) == DL_OK) {
        if (p->n && p->kept[p->n - 1].step == t->step) drop(p, --p->n);
        p->kept[p->n++] = (kept){c, t->step, bytes, LONG_MAX};
        p->bytes += bytes;
        thin(p);
        p->last = dl_seconds();
        p->cost = p->last - began;
        return;
    }
    dl_error_clear();
    dl_checkpoint_free(c);
    p->full = budget;
}

/* Weights, rate and random streams are as the last step has left them. */
static bool untouched(const dl_trainer *t, const dl_past *p) {
    const dl_rng_at here = dl_rng_here();
    return p->writes == writes_of(t) && !(fabs(p->base_lr - t->base_lr) > 0) && p->seed == dl_seed_get() &&
           !memcmp(&p->rng, &here, sizeof here);
}

/* Something was changed since the last step: what was kept before leads no further than to the step before that. */
static bool notice_change(dl_trainer *t, dl_past *p) {
    if (!p->stepped || untouched(t, p)) return false;
    kept *k = p->n ? &p->kept[p->n - 1] : NULL;
    if (k && k->step < t->step && k->reach >= t->step) k->reach = t->step - 1;
    return true;
}

static dl_past *past_of(dl_trainer *t) {
    if (!t->past) t->past = calloc(1, sizeof *t->past);
    return t->past;
}

/* Which statement makes the steps from here on. */
static void note_origin(const dl_trainer *t, dl_past *p) {
    const dl_source here = *dl_source_here();
    const origin *last = p->origins ? &p->origin[p->origins - 1] : NULL;
    if (last && last->source.line == here.line && last->source.file == here.file) return;
    if (p->origins == ORIGINS) return;
    if (DL_LIST_ROOM(p->origin, p->origins, p->origincap) != DL_OK)
        dl_error_clear();
    else
        p->origin[p->origins++] = (origin){t->step + t->issued - t->taken, here};
}

dl_source dl_past_source(const dl_trainer *t, long step) {
    const dl_past *p = t->past;
    dl_source found = {0};
    for (long i = 0; p && i < p->origins && p->origin[i].step < step; i++) found = p->origin[i].source;
    return found;
}

bool dl_past_replaying(const dl_trainer *t) { return t->past && t->past->replaying; }

bool dl_past_before_step(dl_trainer *t) {
    dl_past *p = budget ? past_of(t) : NULL;
    if (!p || p->replaying) return false;
    if (p->end) forget_after(p, t->step);
    note_origin(t, p);
    const bool changed = notice_change(t, p), late = !p->n || dl_seconds() - p->last >= SHARE * p->cost;
    if (p->full == budget || (!late && !(changed && p->at_once < AT_ONCE))) return false;
    if (t->taken != t->issued) return true;
    p->at_once += !late;
    keep(t, p);
    return false;
}

void dl_past_after_step(dl_trainer *t) {
    dl_past *p = t->past;
    if (!p) return;
    p->stepped = true;
    p->writes = writes_of(t);
    p->base_lr = t->base_lr;
    p->rng = dl_rng_here();
    p->seed = dl_seed_get();
}

void dl_past_turn(dl_trainer *t, bool train) {
    dl_past *p = budget ? past_of(t) : NULL;
    if (!p || p->replaying) return;
    if (p->turns && p->turn[p->turns - 1].train == train && !*t->stopped) return;
    if (p->end) forget_after(p, t->step);
    if (DL_LIST_ROOM(p->turn, p->turns, p->turncap) != DL_OK) {
        dl_error_clear();
        return;
    }
    p->turn[p->turns++] = (turn){t->step, train};
}

/* ---------------------------------------------------------------- the state now */

/* Between steps, all work done. The net gets the weights of the last step where it shows the best ones. */
static dl_checkpoint *take(dl_trainer *t) {
    if (t->micro || t->phase == DL_PHASE_BACKWARD) {
        dl_fail_hint(DL_ERR_STATE, "update t first", "the state is taken between steps, not within one");
        return NULL;
    }
    if (dl_trainer_check_net(t) != DL_OK || dl_report_drain(t) != DL_OK || dl_best_leave(t) != DL_OK) return NULL;
    return dl_checkpoint_take(t);
}

dl_status dl_trainer_hash(dl_trainer *t, char out[65]) {
    if (!t) return dl_fail_null("the trainer");
    const bool shows_best = dl_best_shows(t);
    dl_checkpoint *now = take(t);
    dl_status st = now ? dl_checkpoint_hash(now, out) : dl_failed();
    dl_checkpoint_free(now);
    return st == DL_OK && shows_best ? dl_best_enter(t) : st;
}

/* ---------------------------------------------------------------- going */

/* As the steps up to there were made the first time; *to: the last one made that way. */
static bool was_trained(const dl_past *p, long step, long *to) {
    bool train = true;
    for (long i = 0; i < p->turns; i++) {
        if (p->turn[i].step <= step)
            train = p->turn[i].train;
        else if (p->turn[i].step < *to) {
            *to = p->turn[i].step;
            break;
        }
    }
    return train;
}

static dl_status some_steps(dl_trainer *t, long step, dl_train_fn *fn, void *ctx) {
    long to = step;
    if (was_trained(t->past, t->step, &to)) return dl_trainer_train(t, 0, to - t->step, fn, ctx);
    while (t->step < to) {
        if (dl_interrupt_get()) return dl_fail(DL_ERR_INTERRUPT, "interrupted after step %ld", t->step);
        DL_TRY(dl_trainer_step(t));
    }
    return DL_OK;
}

static dl_status train_to(dl_trainer *t, long step, dl_train_fn *fn, void *ctx) {
    t->past->replaying = true;
    dl_status st = DL_OK;
    for (long before = -1; st == DL_OK && t->step < step && t->step != before;) {
        before = t->step;
        st = some_steps(t, step, fn, ctx);
    }
    t->past->replaying = false;
    if (st != DL_OK || t->step >= step) return st;
    return dl_fail(DL_ERR_STATE, "training stopped at step %ld of %ld: %s", t->step, step, t->stopped);
}

static const kept *nearest(const dl_past *p, long step) {
    const kept *found = NULL;
    for (long i = 0; i < p->n && p->kept[i].step <= step; i++) found = &p->kept[i];
    return found;
}

dl_status dl_past_none(const dl_trainer *t, long step) {
    if (t->past && t->past->full && !t->past->n)
        return dl_fail_hint(DL_ERR_STATE, "set rewind 1GB before training",
                            "no state was kept: one takes more than the setting rewind allows");
    if (!t->past || !t->past->n)
        return dl_fail_hint(DL_ERR_STATE, "states are kept while it trains, unless the setting rewind is 0",
                            "no state of this trainer was kept");
    return dl_fail(DL_ERR_VALUE, "step %ld was not kept; the first is step %ld", step, t->past->kept[0].step);
}

/* The state from which a step can be made again; NULL: a failure. */
static const kept *way_to(const dl_trainer *t, long step) {
    const kept *k = t->past ? nearest(t->past, step) : NULL;
    if (k && k->reach >= step) return k;
    if (!k)
        dl_past_none(t, step);
    else
        dl_fail(DL_ERR_STATE,
                "step %ld cannot be made again: after step %ld weights, rate or random streams were changed between "
                "steps, and the "
                "states behind that were not kept",
                step, k->reach);
    return NULL;
}

/* ---------------------------------------------------------------- visits */

static dl_status differs(const dl_checkpoint *state, const char *what) {
    return dl_fail_hint(DL_ERR_STATE,
                        "something outside of the trainer has a part in it: a variable that a function reads, changed "
                        "weights, options or data",
                        "step %ld is not what it was: %s differs", dl_checkpoint_step(state), what);
}

long dl_past_kept(const dl_trainer *t, long i) { return t->past && i < t->past->n ? t->past->kept[i].step : -1; }

/* From where a step is made again; NULL: from nowhere. */
static const kept *start_of(const dl_past *p, long step) {
    const kept *k = nearest(p, step - 1);
    return k && k->reach >= step ? k : NULL;
}

static const kept *kept_at(const dl_past *p, long step) {
    const kept *k = nearest(p, step);
    return k && k->step == step ? k : NULL;
}

bool dl_past_reaches(const dl_trainer *t, long step) {
    return t->past && (start_of(t->past, step) || kept_at(t->past, step));
}

bool dl_past_touched(const dl_trainer *t) { return t->past && t->past->stepped && !untouched(t, t->past); }

void dl_past_home(dl_trainer *t, bool touched) {
    if (t->past && !touched) dl_past_after_step(t);
}

dl_status dl_past_compare(dl_trainer *t, const dl_checkpoint *state, bool random) {
    dl_checkpoint *now = take(t);
    if (!now) return dl_failed();
    const char *what = dl_checkpoint_difference(state, now, random);
    dl_checkpoint_free(now);
    return what ? differs(state, what) : DL_OK;
}

dl_status dl_past_visit(dl_trainer *t, long step, long *made) {
    dl_past *p = t->past;
    const kept *from = start_of(p, step), *there = kept_at(p, step);
    if (!from && !there) return dl_past_none(t, step);
    DL_TRY(dl_best_leave(t));
    if (!from) return dl_checkpoint_put_back(t, there->state);
    if (t->step < from->step || t->step >= step) DL_TRY(dl_checkpoint_put_back(t, from->state));
    const long before = t->step;
    dl_status st = train_to(t, step, NULL, NULL);
    *made += t->step - before;
    DL_TRY(st);
    DL_TRY(dl_best_leave(t));
    return there ? dl_past_compare(t, there->state, true) : DL_OK;
}

/* ---------------------------------------------------------------- rewind and replay */

dl_status dl_trainer_rewind(dl_trainer *t, long step, long *from, dl_train_fn *fn, void *ctx) {
    if (!t) return dl_fail_null("the trainer");
    DL_TRY(dl_report_drain(t));
    if (step < 0 || step > t->step)
        return dl_fail(DL_ERR_VALUE, "the trainer has made %ld steps; rewind goes to one of them, not to %ld", t->step,
                       step);
    if (dl_mark_stands(t)) { /* within a step that was begun in parts */
        DL_TRY(dl_mark_return(t));
        *from = step;
        if (step == t->step) return DL_OK;
    }
    dl_past *p = t->past;
    const kept *to = way_to(t, step);
    if (!to) return dl_failed();
    if (!p->end && !(p->end = take(t))) return dl_failed();
    *from = to->step;
    DL_TRY(dl_best_leave(t));
    DL_TRY(dl_checkpoint_put_back(t, to->state));
    return train_to(t, step, fn, ctx);
}

/* Trains to the step of a state that was kept, and compares. Where steps made again do not lead there, the state itself
 * is restored. When the end was kept, something else may have drawn random numbers since the last step. */
static dl_status go_to(dl_trainer *t, const dl_checkpoint *state, long *checked, dl_train_fn *fn, void *ctx) {
    const bool end = state == t->past->end;
    const kept *from = nearest(t->past, dl_checkpoint_step(state) - 1);
    if (!from || from->reach < dl_checkpoint_step(state)) return dl_checkpoint_put_back(t, state);
    DL_TRY(train_to(t, dl_checkpoint_step(state), fn, ctx));
    dl_checkpoint *now = take(t);
    if (!now) return dl_failed();
    const char *what = dl_checkpoint_difference(state, now, !end);
    dl_checkpoint_free(now);
    ++*checked;
    if (!what) return end ? dl_checkpoint_put_back(t, state) : DL_OK;
    return differs(state, what);
}

dl_status dl_trainer_replay(dl_trainer *t, long step, long *checked, dl_train_fn *fn, void *ctx) {
    if (!t) return dl_fail_null("the trainer");
    DL_TRY(dl_report_drain(t));
    dl_past *p = t->past;
    *checked = 0;
    if (!p || !p->end)
        return dl_fail_hint(DL_ERR_STATE, "rewind t STEP", "the trainer was not rewound; there is nothing to replay");
    const long end = dl_checkpoint_step(p->end);
    if (step < 0) step = end;
    if (step <= t->step || step > end)
        return dl_fail(DL_ERR_VALUE,
                       "the trainer stands after step %ld and had made %ld: replay goes on to one of these", t->step,
                       end);
    if (step < end && !way_to(t, step)) return dl_failed();
    for (long i = 0; i < p->n && p->kept[i].step <= step; i++)
        if (p->kept[i].step > t->step) DL_TRY(go_to(t, p->kept[i].state, checked, fn, ctx));
    if (step < end) return train_to(t, step, fn, ctx);
    if (t->step < end) DL_TRY(go_to(t, p->end, checked, fn, ctx));
    dl_checkpoint_free(p->end);
    p->end = NULL;
    return DL_OK;
}
