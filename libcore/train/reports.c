/* Steps under way: reading their reports, and undoing the steps issued after one that diverged. */
#include "train/trainer.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "core/random/rng.h"
#include "core/scope.h"

/* Waits for the report of step `number`. */
static dl_status await(dl_trainer *t, const dl_report *r, long number) {
    for (long spins = 0; __atomic_load_n(&r->number, __ATOMIC_ACQUIRE) != number; spins++) {
        if (spins < 4000) {
            sched_yield();
            continue;
        }
        bool idle = false;
        DL_TRY(t->backend->idle(t->index, &idle));
        if (idle && __atomic_load_n(&r->number, __ATOMIC_ACQUIRE) != number)
            return dl_fail(DL_ERR_INTERNAL, "the device has ended step %ld without a report", number);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return DL_OK;
}

/* Takes back the counts of a step that changed nothing. States that no step has filled are freed. */
static void uncount(dl_trainer *t, const dl_issued *after) {
    if (after->failed) return;
    t->opt->steps--;
    for (int g = 0; g < t->groups; g++) t->rates[g].steps--;
    for (long i = 0; i < t->opt->n; i++) {
        dl_opt_param *p = &t->opt->param[i];
        if (!p->p->grad) continue;
        p->steps--;
        for (int s = 0; s < DL_OPTIM_STATES && !p->steps && t->issued == t->taken; s++) {
            dl_unref(p->state[s]);
            p->state[s] = NULL;
        }
    }
}

/* NaN in what is learned from: all of it where that is quickly read. */
static long nan_in_data(dl_trainer *t) {
    long x = 0, y = 0;
    if (!dl_dataset_slow(t->data) && dl_dataset_count_nan(t->data, DL_TRAIN, &x, &y) != DL_OK) dl_error_clear();
    return x + y;
}

dl_status dl_report_check(dl_trainer *t, double v, const char *what) {
    if (isfinite(v) || t->allow_nan) return DL_OK;
    t->diverged = true;
    t->phase = DL_PHASE_IDLE;
    t->micro = 0;
    char text[64], hint[200];
    const long missing = nan_in_data(t);
    snprintf(text, sizeof text, "%s is %s", what, isnan(v) ? "nan" : "infinite");
    if (missing)
        snprintf(hint, sizeof hint, "the training data have %ld NaN: x.isnan() finds them, nan_to_num(x) replaces them",
                 missing);
    else
        snprintf(hint, sizeof hint, "lower the learning rate, limit gradients with clip_norm=1, or look for the cause");
    dl_status st = dl_fail_hint(
        DL_ERR_VALUE, hint, "training diverged: %s at step %ld; the weights were left as they are", text, t->step + 1);
    DL_SCOPED_ERROR;
    dl_record_divergence(t, text);
    return st;
}

/* Takes back the random numbers of steps that are discarded, of each stream that nobody else has drawn from since. */
static void rewind_streams(const dl_rng_at *last, const dl_rng_at *to) {
    dl_rng_at at = dl_rng_here();
    for (int s = 0; s < DL_RNG_STREAMS; s++)
        if (at.call[s] == last->call[s]) at.call[s] = to->call[s];
    dl_rng_go(&at);
}

/* The step just read has halted: those issued after it changed nothing, and are discarded. */
static dl_status discard(dl_trainer *t, const dl_issued *after) {
    while (t->taken < t->issued) {
        DL_TRY(await(t, &t->report[t->taken % DL_REPORTS], t->taken + 1));
        dl_updates_take(t, t->taken, false);
        uncount(t, &t->after[t->taken++ % DL_REPORTS]);
    }
    uncount(t, after);
    return DL_OK;
}

/* It halted at a breakpoint: the next step is the same one again. */
static dl_status broke(dl_trainer *t, const dl_report *r, const dl_issued *after) {
    const dl_rng_at last = t->after[(t->issued - 1) % DL_REPORTS].rng;
    const dl_step_start start = after->start;
    const unsigned fired = r->fired;
    const long index = r->number - 1;
    DL_TRY(discard(t, after));
    DL_TRY(dl_loader_seek(t->loader, start.epoch, start.batch));
    rewind_streams(&last, &start.rng);
    return dl_breaks_stop(t, fired, index, &start);
}

/* It diverged: its batch is passed over. */
static dl_status halted(dl_trainer *t, const dl_report *r, const dl_issued *after) {
    bool loss = r->end == DL_END_LOSS;
    const dl_rng_at last = t->after[(t->issued - 1) % DL_REPORTS].rng;
    const dl_step_start start = after->start;
    t->last_loss = r->loss;
    if (!loss) t->grad_norm = r->norm;
    DL_TRY(discard(t, after));
    DL_TRY(dl_loader_seek(t->loader, after->epoch, after->batch));
    rewind_streams(&last, &after->rng);
    dl_step_explain(t, &start);
    DL_TRY(dl_control_resume(t));
    return loss ? dl_report_check(t, r->loss, "the loss") : dl_report_check(t, r->norm, "the norm of the gradient");
}

/* Samples a second: between reports where the device has a clock, else since the step began. */
static double speed_of(const dl_trainer *t, const dl_report *r, double samples) {
    double took = !r->time ? dl_now() - t->step_began : t->report_time ? 1e-9 * (double)(r->time - t->report_time) : 0;
    return took > 0 ? samples / took : 0;
}

dl_status dl_report_take(dl_trainer *t, bool wait, bool *got) {
    dl_report *r = &t->report[t->taken % DL_REPORTS];
    const dl_issued *after = &t->after[t->taken % DL_REPORTS];
    *got = false;
    if (t->taken == t->issued) return DL_OK;
    if (wait)
        DL_TRY(await(t, r, t->taken + 1));
    else if (__atomic_load_n(&r->number, __ATOMIC_ACQUIRE) != t->taken + 1)
        return DL_OK;
    const long number = t->taken++;
    if (r->end != DL_END_DONE || after->failed) dl_updates_take(t, number, false);
    if (r->end == DL_END_LOSS || r->end == DL_END_NORM) return halted(t, r, after);
    if (r->end == DL_END_BREAK) return broke(t, r, after);
    if (after->failed) return DL_OK;
    if (r->end == DL_END_SKIPPED) uncount(t, after);
    *got = true;
    t->step++;
    t->last_loss = r->loss, t->last_acc = r->acc, t->grad_norm = r->norm, t->lr = after->lr;
    t->speed = speed_of(t, r, after->samples), t->report_time = r->time;
    t->samples = after->samples;
    dl_record_step(t, after);
    dl_updates_take(t, number, true);
    return DL_OK;
}

dl_status dl_report_drain(dl_trainer *t) {
    while (t->taken < t->issued) {
        bool got;
        DL_TRY(dl_report_take(t, true, &got));
    }
    t->report_time = 0;
    return DL_OK;
}
