/* The first step of a training after which a condition holds: found by going back to states that were kept and making
 * steps again. */
#include <string.h>

#include "core/scope.h"
#include "train/trainer.h"

typedef struct search {
    dl_trainer *t;
    dl_bisect_fn *fn;
    void *ctx;
    dl_bisection *out;
    long last;                  /* the step of the trainer */
    const dl_checkpoint *state; /* then; NULL: changed since its last step */
} search;

/* Does it hold after the step? 1, 0; -1: a recorded failure. */
static int holds(search *s, long step) {
    if (dl_interrupt_get()) return dl_fail(DL_ERR_INTERRUPT, "interrupted at step %ld", step), -1;
    const long before = s->out->made;
    if (dl_past_visit(s->t, step, &s->out->made) != DL_OK) return -1;
    if (step == s->last && s->state && s->out->made > before && dl_past_compare(s->t, s->state, false) != DL_OK)
        return -1;
    s->out->looked++;
    return s->fn(s->ctx, s->t, s->out->made > before);
}

static void found(search *s, long step) {
    dl_bisection *o = s->out;
    o->first = step;
    o->source = dl_past_source(s->t, step);
    dl_loader_position(s->t->loader, &o->epoch, &o->batch);
}

/* Every step from `from` to `to`, to the first at which it holds, or, for `all`, on to the end. */
static dl_status scan(search *s, long from, long to, bool all) {
    dl_bisection *o = s->out;
    int before = 0;
    for (long step = from; step <= to && (all || o->first < 0); step++) {
        if (!dl_past_reaches(s->t, step)) {
            o->skipped++;
            continue;
        }
        int now = holds(s, step);
        if (now < 0) return dl_failed();
        if (now && o->first < 0) found(s, step);
        o->held += now;
        o->stretches += now && !before;
        before = now;
    }
    return DL_OK;
}

/* The first state that was kept after whose next step it holds, *at, by halving; n: behind all of them. */
static dl_status halve(search *s, long n, long *at) {
    long low = 0, high = n; /* it does not hold at low, or is not known; it holds at high */
    while (high - low > 1) {
        const long middle = low + (high - low) / 2, next = dl_past_kept(s->t, middle) + 1;
        int now = holds(s, next < s->last ? next : s->last);
        if (now < 0) return dl_failed();
        if (now)
            high = middle;
        else
            low = middle;
    }
    *at = high;
    return DL_OK;
}

static dl_status search_steps(search *s) {
    dl_bisection *o = s->out;
    long n = 0, at = 0;
    while (dl_past_kept(s->t, n) >= 0 && dl_past_kept(s->t, n) <= s->last) n++;
    o->from = dl_past_kept(s->t, 0);
    if (o->all) return scan(s, o->from, s->last, true);
    if (!o->holds_now) return DL_OK;
    DL_TRY(halve(s, n, &at));
    const long to = at < n ? dl_past_kept(s->t, at) + 1 : s->last;
    return scan(s, dl_past_kept(s->t, at - 1), to < s->last ? to : s->last, false);
}

/* The trainer as it was, verified. */
static dl_status come_back(search *s, dl_away *away, bool touched, bool shows_best) {
    dl_trainer *t = s->t;
    dl_checkpoint *now = NULL;
    char hash[65];
    DL_TRY(dl_checkpoint_hash(dl_away_state(away), s->out->hash));
    DL_TRY(dl_away_end(t, away));
    dl_past_home(t, touched);
    dl_status st = (now = dl_checkpoint_take(t)) ? dl_checkpoint_hash(now, hash) : dl_failed();
    dl_checkpoint_free(now);
    if (st == DL_OK && strcmp(hash, s->out->hash) != 0)
        st = dl_fail(DL_ERR_INTERNAL, "the trainer is not as it was before bisect: its hash is %.16s, not %.16s", hash,
                     s->out->hash);
    return st == DL_OK && shows_best ? dl_best_enter(t) : st;
}

dl_status dl_trainer_bisect(dl_trainer *t, dl_bisect_fn *fn, void *ctx, dl_bisection *out) {
    if (!t) return dl_fail_null("the trainer");
    *out = (dl_bisection){.all = out->all, .first = -1, .from = -1};
    search s = {t, fn, ctx, out, t->step, NULL};
    if (t->micro || t->phase != DL_PHASE_IDLE)
        return dl_fail_hint(DL_ERR_STATE, "backward t; update t", "a search begins between steps, not within one");
    DL_TRY(dl_trainer_check_net(t));
    DL_TRY(dl_report_drain(t));
    if (dl_past_kept(t, 0) < 0 || dl_past_kept(t, 0) > t->step) return dl_past_none(t, t->step);
    const bool began = t->diverged; /* a step has taken a batch and is not counted */
    const bool shows_best = dl_best_shows(t), touched = dl_past_touched(t);
    DL_TRY(dl_best_leave(t));
    int now = fn(ctx, t, true);
    if (now < 0) return dl_failed();
    out->holds_now = now;
    dl_away *away = dl_away_begin(t);
    if (!away) return dl_failed();
    if (!touched && !began) s.state = dl_away_state(away);
    dl_status st = search_steps(&s);
    dl_error e;
    if (st != DL_OK) dl_error_take(&e);
    dl_status back = come_back(&s, away, touched, shows_best);
    if (back != DL_OK) return back;
    return st != DL_OK ? dl_error_put(&e) : DL_OK;
}
