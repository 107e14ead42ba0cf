/* Training by epochs or steps. */
#include "train/trainer.h"

#include "core/scope.h"

typedef struct course {
    long epochs, steps; /* wanted; one of them is 0 */
    long ended, done;   /* so far */
    long issued;        /* done or under way */
    double began, samples;
    bool epoch_end;
} course;

/* Has the loader returned the last batch of an epoch? */
static bool at_end(const dl_trainer *t) {
    long epoch, batch;
    dl_loader_position(t->loader, &epoch, &batch);
    return batch >= dl_loader_len(t->loader);
}

/* The schedule hears of the samples held out, else of the test split. */
static dl_status evaluate(dl_trainer *t) {
    const dl_split splits[] = {DL_VAL, DL_TEST};
    const bool there[] = {t->held != NULL, dl_dataset_len(t->data, DL_TEST) > 0};
    for (int i = 0; i < 2; i++) {
        dl_eval_result r;
        if (!there[i]) continue;
        DL_TRY(dl_trainer_eval(t, splits[i], &r));
        DL_TRY(dl_watch_see(t, splits[i], &r));
        if (t->schedule && there[0] == (i == 0)) dl_schedule_report(t->schedule, r.loss);
    }
    return DL_OK;
}

/* When the last step completed an epoch, an evaluation may be due. */
static dl_status after_step(dl_trainer *t, course *c) {
    long epoch, batch;
    dl_loader_position(t->loader, &epoch, &batch);
    c->epoch_end = at_end(t);
    c->done++;
    c->samples += t->samples;
    if (!c->epoch_end) return DL_OK;
    c->ended++;
    return t->eval_every > 0 && (epoch + 1) % t->eval_every == 0 ? evaluate(t) : DL_OK;
}

static long total_steps(const dl_trainer *t, const course *c) {
    if (c->steps) return c->steps;
    long len = dl_loader_len(t->loader), per = (len + t->accumulate - 1) / t->accumulate, epoch, batch;
    dl_loader_position(t->loader, &epoch, &batch);
    long left = (len - batch + t->accumulate - 1) / t->accumulate;
    if (left <= 0) left = per;
    return left + (c->epochs - 1) * per;
}

static int report_progress(dl_trainer *t, const course *c, long total, bool last, dl_train_fn *fn, void *ctx) {
    if (!fn) return 0;
    dl_train_progress p = {.step = t->step,
                           .done = c->done,
                           .total = total,
                           .epochs = c->epochs,
                           .loss = t->last_loss,
                           .acc = t->last_acc,
                           .lr = t->lr,
                           .grad_norm = t->grad_norm,
                           .test_loss = t->test_loss,
                           .test_acc = t->test_acc,
                           .val_loss = t->val_loss,
                           .val_acc = t->val_acc,
                           .epoch_end = c->epoch_end,
                           .last = last};
    dl_loader_position(t->loader, &p.epoch, &p.batch);
    p.epoch = c->epochs ? c->ended + !c->epoch_end : p.epoch + 1;
    p.batches = dl_loader_len(t->loader);
    p.seconds = dl_now() - c->began;
    p.samples_per_s = p.seconds > 0 ? c->samples / p.seconds : 0;
    return fn(ctx, &p);
}

static dl_status stopped(const dl_trainer *t) {
    return dl_fail(DL_ERR_INTERRUPT, "training was interrupted after step %ld", t->step);
}

/* Progress of a step is reported when its report has come. At the end of an epoch or of the call all are waited for. */
static dl_status train(dl_trainer *t, course *c, long total, dl_train_fn *fn, void *ctx) {
    for (bool last = false, stop = false; !last;) {
        if (stop || dl_interrupt_get()) return stopped(t);
        DL_TRY(dl_record_failure(t, dl_step_issue(t)));
        bool wait = ++c->issued == c->steps || at_end(t) || t->drain_first, got = true;
        wait |= dl_saving_is_due(t, t->step + t->issued - t->taken, false);
        while (got) {
            DL_TRY(dl_record_failure(t, dl_report_take(t, wait || t->issued - t->taken > DL_LATE, &got)));
            if (!got) break;
            if (wait && t->taken == t->issued) {
                DL_TRY(after_step(t, c));
                if (dl_saving_is_due(t, t->step, c->epoch_end)) DL_TRY(dl_saving_save(t));
                last = (c->epochs ? c->ended >= c->epochs : c->done >= c->steps) || *t->stopped;
            } else
                c->done++, c->samples += t->samples, c->epoch_end = false;
            stop |= report_progress(t, c, total, last, fn, ctx) && !last;
        }
        if (wait) t->report_time = 0;
        if (t->broke) break;
    }
    return DL_OK;
}

/* Steps still under way when training stops are counted too. */
static dl_status finish(dl_trainer *t, course *c, long total, dl_status st, dl_train_fn *fn, void *ctx) {
    dl_error e;
    bool late = t->taken < t->issued;
    if (st == DL_OK) return st;
    dl_error_take(&e);
    for (bool got = true; got;) {
        dl_status taken = dl_report_take(t, true, &got);
        if (taken != DL_OK) return dl_record_failure(t, taken);
        if (!got) break;
        c->done++;
        report_progress(t, c, total, false, fn, ctx);
    }
    return e.code == DL_ERR_INTERRUPT && late ? stopped(t) : dl_error_put(&e);
}

/* At a breakpoint the net keeps the weights of the last step. */
static dl_status end(dl_trainer *t) {
    DL_TRY(dl_saving_save(t));
    return t->broke ? DL_OK : dl_best_enter(t);
}

dl_status dl_trainer_train(dl_trainer *t, long epochs, long steps, dl_train_fn *fn, void *ctx) {
    if (!t) return dl_fail_null("the trainer");
    if (epochs < 0 || steps < 0 || (epochs > 0) == (steps > 0))
        return dl_fail_hint(DL_ERR_VALUE, "train t epochs=2, or train t steps=100",
                            "training needs a number of epochs or of steps, and not both");
    course c = {.epochs = epochs, .steps = steps, .began = dl_now()};
    long total = total_steps(t, &c);
    dl_past_turn(t, true);
    dl_watch_begin(t);
    t->broke = 0;
    dl_status st = finish(t, &c, total, train(t, &c, total, fn, ctx), fn, ctx);
    if (st == DL_OK) return end(t);
    DL_SCOPED_ERROR;
    if (st == DL_ERR_INTERRUPT) end(t);
    return st;
}
