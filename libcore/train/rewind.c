/* Going back to earlier steps of a trainer, and forward again: states that are kept now and then, and training between
 * them, which gives the same bits. */
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "core/scope.h"
#include "train/trainer.h"

enum {
    SHARE = 300, /* seconds of training for each second that keeping a state takes */
    MOST = 100,  /* states of a trainer */
};

static size_t budget = (size_t)64 << 20;

void dl_rewind_budget_set(unsigned long bytes) { budget = bytes; }
unsigned long dl_rewind_budget_get(void) { return budget; }

struct dl_past {
    dl_checkpoint **kept; /* steps rising */
    long n, cap;
    size_t bytes;
    dl_checkpoint *end; /* the furthest step, where it was left; NULL: it is the trainer's own */
    double cost, last;
    bool replaying, full; /* full: a single state is larger than the budget */
};

void dl_past_forget(dl_trainer *t) {
    dl_past *p = t->past;
    t->past = NULL;
    if (!p) return;
    for (long i = 0; i < p->n; i++) dl_checkpoint_free(p->kept[i]);
    dl_checkpoint_free(p->end);
    free(p->kept);
    free(p);
}

/* ---------------------------------------------------------------- keeping */

/* Forgets the states after a step: training goes another way from there. */
static void forget_after(dl_past *p, long step) {
    while (p->n && dl_checkpoint_step(p->kept[p->n - 1]) > step) {
        p->bytes -= dl_checkpoint_bytes(p->kept[p->n - 1]);
        dl_checkpoint_free(p->kept[--p->n]);
    }
    dl_checkpoint_free(p->end);
    p->end = NULL;
}

/* Of the states but the first every second one goes, until they fit. */
static void thin(dl_past *p) {
    while ((p->bytes > budget || p->n > MOST) && p->n > 1) {
        long left = 1;
        for (long i = 1; i < p->n; i++)
            if (i % 2 == 0)
                p->kept[left++] = p->kept[i];
            else
                p->bytes -= dl_checkpoint_bytes(p->kept[i]), dl_checkpoint_free(p->kept[i]);
        p->n = left;
    }
}

/* Training goes on also where a state cannot be kept. */
static void keep(dl_trainer *t, dl_past *p) {
    double began = dl_seconds();
    dl_checkpoint *c = dl_checkpoint_take(t);
    size_t bytes = c ? dl_checkpoint_bytes(c) : 0;
    if (!c || bytes > budget || DL_LIST_ROOM(p->kept, p->n, p->cap) != DL_OK) {
        dl_error_clear();
        dl_checkpoint_free(c);
        p->full = true;
        return;
    }
    p->kept[p->n++] = c;
    p->bytes += bytes;
    thin(p);
    p->last = dl_seconds();
    p->cost = p->last - began;
}

bool dl_past_before_step(dl_trainer *t) {
    dl_past *p = t->past;
    if (!budget || (p && p->full)) return false;
    if (!p && !(p = t->past = calloc(1, sizeof *p))) return false;
    if (p->replaying) return false;
    if (p->end) forget_after(p, t->step);
    if (p->n && dl_seconds() - p->last < SHARE * p->cost) return false;
    if (t->taken != t->issued) return true;
    keep(t, p);
    return false;
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

static dl_status train_to(dl_trainer *t, long step, dl_train_fn *fn, void *ctx) {
    if (step <= t->step) return DL_OK;
    t->past->replaying = true;
    dl_status st = dl_trainer_train(t, 0, step - t->step, fn, ctx);
    t->past->replaying = false;
    return st;
}

static const dl_checkpoint *nearest(const dl_past *p, long step) {
    const dl_checkpoint *found = NULL;
    for (long i = 0; i < p->n && dl_checkpoint_step(p->kept[i]) <= step; i++) found = p->kept[i];
    return found;
}

static dl_status nothing_kept(const dl_trainer *t, long step) {
    if (t->past && t->past->full)
        return dl_fail_hint(DL_ERR_STATE, "set rewind 1GB before training",
                            "no state was kept: one takes more than the setting rewind allows");
    if (!t->past || !t->past->n)
        return dl_fail_hint(DL_ERR_STATE, "states are kept while it trains, unless the setting rewind is 0",
                            "no state of this trainer was kept");
    return dl_fail(DL_ERR_VALUE, "step %ld was not kept; the first is step %ld", step,
                   dl_checkpoint_step(t->past->kept[0]));
}

dl_status dl_trainer_rewind(dl_trainer *t, long step, long *from, dl_train_fn *fn, void *ctx) {
    if (!t) return dl_fail_null("the trainer");
    DL_TRY(dl_report_drain(t));
    if (step < 0 || step > t->step)
        return dl_fail(DL_ERR_VALUE, "the trainer has made %ld steps; rewind goes to one of them, not to %ld", t->step,
                       step);
    dl_past *p = t->past;
    const dl_checkpoint *to = p ? nearest(p, step) : NULL;
    if (!to) return nothing_kept(t, step);
    if (!p->end && !(p->end = take(t))) return dl_failed();
    *from = dl_checkpoint_step(to);
    DL_TRY(dl_best_leave(t));
    DL_TRY(dl_checkpoint_put_back(t, to));
    return train_to(t, step, fn, ctx);
}

/* Trains to the step of a state that was kept, and compares. */
static dl_status check_at(dl_trainer *t, const dl_checkpoint *kept, dl_train_fn *fn, void *ctx) {
    DL_TRY(train_to(t, dl_checkpoint_step(kept), fn, ctx));
    dl_checkpoint *now = take(t);
    if (!now) return dl_failed();
    const char *what = dl_checkpoint_difference(kept, now);
    dl_checkpoint_free(now);
    if (!what) return DL_OK;
    return dl_fail_hint(DL_ERR_STATE,
                        "something outside of the trainer has a part in it: a variable that a function reads, changed "
                        "weights, options or data",
                        "step %ld is not what it was: %s differs", dl_checkpoint_step(kept), what);
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
    for (long i = 0; i < p->n && dl_checkpoint_step(p->kept[i]) <= step; i++) {
        if (dl_checkpoint_step(p->kept[i]) <= t->step) continue;
        DL_TRY(check_at(t, p->kept[i], fn, ctx));
        ++*checked;
    }
    if (step < end) return train_to(t, step, fn, ctx);
    DL_TRY(check_at(t, p->end, fn, ctx));
    ++*checked;
    dl_checkpoint_free(p->end);
    p->end = NULL;
    return DL_OK;
}
