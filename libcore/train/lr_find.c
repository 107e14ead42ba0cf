/* A range test of the learning rate. It trains the trainer itself from a checkpoint in memory, to which it goes back.
 */
#include "train/trainer.h"

#include <math.h>

#include "core/scope.h"

/* ---------------------------------------------------------------- the steps */

static dl_status one_step(dl_trainer *t, double lr) {
    DL_SCOPED_INTERRUPT_HOLD(1);
    t->base_lr = lr;
    DL_TRY(dl_control_align(t));
    DL_TRY(dl_step_issue_eagerly(t));
    return dl_report_drain(t);
}

static dl_status go_through(dl_trainer *t, dl_lr_range *r) {
    double sum = 0, weight = 0, least = INFINITY;
    for (r->n = 0; r->n < r->steps;) {
        double lr = r->from * pow(r->to / r->from, (double)r->n / (double)(r->steps - 1));
        if (dl_interrupt_get()) return dl_fail(DL_ERR_INTERRUPT, "the range test was interrupted");
        DL_TRY(one_step(t, lr));
        if (!isfinite(t->last_loss)) return DL_OK;
        sum = r->smooth * sum + (1 - r->smooth) * t->last_loss;
        weight = r->smooth * weight + (1 - r->smooth);
        r->lr[r->n] = lr, r->loss[r->n] = t->last_loss, r->mean[r->n] = sum / weight;
        least = fmin(least, r->mean[r->n]);
        /* of a loss that goes below 0 the distance from its beginning counts */
        double bound = least > 0 ? r->diverge * least : least + r->diverge * (r->mean[0] - least);
        if (++r->n > 5 && r->mean[r->n - 1] > bound && r->mean[r->n - 1] > r->mean[0]) return DL_OK;
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- what it says */

/* The slope of the mean around step i over the logarithm of the rate, by least squares over 2 w + 1 steps. */
static double slope_at(const dl_lr_range *r, long i, long w) {
    double sum = 0, square = 0;
    for (long k = -w; k <= w; k++) sum += (double)k * r->mean[i + k], square += (double)(k * k);
    return sum / square;
}

static void suggest(dl_lr_range *r) {
    long least = 0, w = r->steps / 25 < 1 ? 1 : r->steps / 25;
    double steepest = 0;
    r->suggestion = r->lowest = NAN;
    for (long i = 1; i < r->n; i++)
        if (r->mean[i] < r->mean[least]) least = i;
    for (long i = w; i + w < r->n && i <= least; i++) {
        double slope = slope_at(r, i, w);
        if (slope < steepest) steepest = slope, r->suggestion = r->lr[i];
    }
    if (least > 0 && !isnan(r->suggestion)) r->lowest = r->lr[least];
}

dl_status dl_trainer_lr_find(dl_trainer *t, dl_lr_range *r) {
    if (!t) return dl_fail_null("the trainer");
    if (!(r->from > 0 && r->to > r->from && isfinite(r->to)))
        return dl_fail(DL_ERR_VALUE, "rates go from a number above 0 to a larger one, not from %g to %g", r->from,
                       r->to);
    if (r->steps < 10 || !(r->smooth >= 0 && r->smooth < 1) || !(r->diverge > 1))
        return dl_fail(DL_ERR_VALUE, "steps is at least 10, smooth from 0 to below 1, diverge above 1; not %ld, %g, %g",
                       r->steps, r->smooth, r->diverge);
    if (t->micro || t->phase == DL_PHASE_BACKWARD)
        return dl_fail_hint(DL_ERR_STATE, "update t first", "a range test begins between steps, not within one");
    DL_TRY(dl_trainer_check_net(t));
    DL_TRY(dl_report_drain(t));
    const bool shows_best = dl_best_shows(t);
    DL_TRY(dl_best_leave(t));
    dl_away *away = dl_away_begin(t);
    if (!away) return dl_failed();
    t->schedule = NULL;
    t->allow_nan = true;
    dl_status st = go_through(t, r);
    dl_error e;
    if (st != DL_OK) dl_error_take(&e);
    dl_status back = dl_away_end(t, away);
    if (back == DL_OK && shows_best) back = dl_best_enter(t);
    if (back != DL_OK) return back;
    if (st != DL_OK) return dl_error_put(&e);
    suggest(r);
    return DL_OK;
}
