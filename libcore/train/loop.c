/* Training by epochs or steps, and evaluation. */
#include <math.h>

#include "optim/optimizer.h"
#include "train/ahead.h"
#include "train/trainer.h"

/* ---------------------------------------------------------------- evaluation */

enum { EVAL_BATCH = 256 };

/* The loader of a split, in order, at its beginning. */
static dl_loader *eval_loader(dl_trainer *t, dl_split split) {
    dl_loader **l = &t->eval_loader[split];
    if (!*l) {
        long batch = dl_loader_batch(t->loader);
        dl_loader_spec s = {.batch = batch > EVAL_BATCH ? batch : EVAL_BATCH, .seed = &t->data_seed};
        *l = dl_loader_new(t->data, split, &s);
    }
    if (*l && dl_loader_seek(*l, 0, 0) != DL_OK) return NULL;
    return *l;
}

typedef struct sums {
    double loss, correct, counted;
    long n;
} sums;

static dl_status eval_batch(dl_trainer *t, dl_tensor **x, dl_tensor **y, sums *s) {
    DL_TRY(dl_trainer_place(t, x, y));
    dl_tensor *out = dl_module_forward(t->model, *x), *loss = NULL;
    double value = 0, correct = 0, of = 0;
    long n = dl_shape(*x)[0];
    dl_status st = out ? dl_trainer_loss_of(t, out, *y, &loss) : dl_failed();
    if (st == DL_OK) st = dl_item_f(loss, &value);
    if (st == DL_OK) st = dl_trainer_correct(t, out, *y, &correct, &of);
    s->loss += value * (double)n;
    s->correct += correct, s->counted += of, s->n += n;
    dl_unref(loss);
    dl_unref(out);
    return st;
}

static dl_status eval_all(dl_trainer *t, dl_loader *l, sums *s) {
    if (t->ahead) {
        dl_control c;
        DL_TRY(dl_ahead_eval(t, l, &c));
        *s = (sums){c.loss, c.correct, c.counted, (long)c.weight};
        return DL_OK;
    }
    for (;;) {
        dl_tensor *x, *y;
        if (dl_interrupt_get()) return dl_fail(DL_ERR_INTERRUPT, "the evaluation was interrupted");
        DL_TRY(dl_loader_next(l, &x, &y));
        if (!x) return DL_OK;
        dl_status st = eval_batch(t, &x, &y, s);
        dl_unref(x);
        dl_unref(y);
        DL_TRY(st);
    }
}

dl_status dl_trainer_eval(dl_trainer *t, dl_split split, dl_eval_result *out) {
    if (!t) return dl_fail_null("the trainer");
    if (dl_dataset_len(t->data, split) < 1)
        return dl_fail_hint(DL_ERR_VALUE, split == DL_TEST ? "eval t split=train" : "",
                            "dataset %s has no samples in its %s split", dl_dataset_name(t->data),
                            split == DL_TEST ? "test" : "training");
    DL_TRY(dl_ahead_drain(t));
    dl_loader *l = eval_loader(t, split);
    if (!l) return dl_failed();
    double began = dl_now();
    sums s = {0};
    int mode = dl_grad_mode(0), training = dl_module_training(t->model);
    dl_module_train(t->model, 0);
    dl_trainer_swap_ema(t);
    dl_status st = eval_all(t, l, &s);
    dl_trainer_swap_ema(t);
    dl_module_train(t->model, training);
    dl_grad_mode(mode);
    if (st == DL_ERR_INTERRUPT) return dl_fail(st, "the evaluation was interrupted");
    DL_TRY(st);
    *out = (dl_eval_result){s.loss / (double)s.n, s.counted > 0 ? s.correct / s.counted : NAN, s.n, dl_now() - began};
    if (split == DL_TEST) t->test_loss = out->loss, t->test_acc = out->acc;
    dl_record_eval(t, split, out);
    return DL_OK;
}

/* ---------------------------------------------------------------- training */

typedef struct course {
    long epochs, steps; /* wanted; one of them is 0 */
    long ended, done;   /* so far */
    long issued;        /* on an accelerator: done or under way */
    double began, samples;
    bool epoch_end;
} course;

/* Has the loader dealt out the last batch of an epoch? */
static bool at_end(const dl_trainer *t) {
    long epoch, batch;
    dl_loader_position(t->loader, &epoch, &batch);
    return batch >= dl_loader_len(t->loader);
}

/* When the last step completed an epoch, the test split is evaluated if it is due. */
static dl_status after_step(dl_trainer *t, course *c) {
    long epoch, batch;
    dl_loader_position(t->loader, &epoch, &batch);
    c->epoch_end = at_end(t);
    c->done++;
    c->samples += t->samples;
    if (!c->epoch_end) return DL_OK;
    c->ended++;
    bool due = t->eval_every > 0 && (epoch + 1) % t->eval_every == 0 && dl_dataset_len(t->data, DL_TEST) > 0;
    if (!due) return DL_OK;
    dl_eval_result r;
    DL_TRY(dl_trainer_eval(t, DL_TEST, &r));
    if (t->schedule) dl_schedule_report(t->schedule, r.loss);
    return DL_OK;
}

static long total_steps(const dl_trainer *t, const course *c) {
    if (c->steps) return c->steps;
    long len = dl_loader_len(t->loader), per = (len + t->accumulate - 1) / t->accumulate, epoch, batch;
    dl_loader_position(t->loader, &epoch, &batch);
    long left = (len - batch + t->accumulate - 1) / t->accumulate;
    if (left <= 0) left = per;
    return left + (c->epochs - 1) * per;
}

static int tell(dl_trainer *t, const course *c, long total, bool last, dl_train_fn *fn, void *ctx) {
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

static dl_status train(dl_trainer *t, course *c, dl_train_fn *fn, void *ctx) {
    long total = total_steps(t, c);
    for (bool last = false; !last;) {
        if (dl_interrupt_get()) return stopped(t);
        DL_TRY(dl_trainer_step(t));
        DL_TRY(after_step(t, c));
        last = c->epochs ? c->ended >= c->epochs : c->done >= c->steps;
        if (tell(t, c, total, last, fn, ctx) && !last) return stopped(t);
    }
    return DL_OK;
}

/* The same with steps under way: each is told of when its report has come. Where an epoch or the call ends, all are
 * waited for. */
static dl_status train_ahead(dl_trainer *t, course *c, dl_train_fn *fn, void *ctx) {
    long total = total_steps(t, c);
    for (bool last = false, stop = false; !last;) {
        if (stop || dl_interrupt_get()) return stopped(t);
        DL_TRY(dl_record_failure(t, dl_ahead_step(t)));
        bool wait = ++c->issued == c->steps || at_end(t) || t->ahead->quiet, got = true;
        while (got) {
            DL_TRY(
                dl_record_failure(t, dl_ahead_take(t, wait || t->ahead->launched - t->ahead->taken > DL_LATE, &got)));
            bool newest = t->ahead->taken == t->ahead->launched;
            if (!got) break;
            if (wait && newest) {
                DL_TRY(after_step(t, c));
                last = c->epochs ? c->ended >= c->epochs : c->done >= c->steps;
            } else
                c->done++, c->samples += t->samples, c->epoch_end = false;
            stop |= tell(t, c, total, last, fn, ctx) && !last;
        }
        t->ahead->time = wait ? 0 : t->ahead->time;
    }
    return DL_OK;
}

/* Steps still under way when training stops are part of it. */
static dl_status finish(dl_trainer *t, course *c, long total, dl_status st, dl_train_fn *fn, void *ctx) {
    dl_error e;
    if (st == DL_OK) return st;
    dl_error_take(&e);
    for (bool got = true; got;) {
        dl_status late = dl_ahead_take(t, true, &got);
        if (late != DL_OK) return dl_record_failure(t, late);
        if (!got) break;
        c->done++;
        tell(t, c, total, false, fn, ctx);
    }
    return e.code == DL_ERR_INTERRUPT ? stopped(t) : dl_error_put(&e);
}

dl_status dl_trainer_train(dl_trainer *t, long epochs, long steps, dl_train_fn *fn, void *ctx) {
    if (!t) return dl_fail_null("the trainer");
    if (epochs < 0 || steps < 0 || (epochs > 0) == (steps > 0))
        return dl_fail_hint(DL_ERR_VALUE, "train t epochs=2, or train t steps=100",
                            "training needs a number of epochs or of steps, and not both");
    course c = {.epochs = epochs, .steps = steps, .began = dl_now()};
    if (!t->ahead) return train(t, &c, fn, ctx);
    long total = total_steps(t, &c);
    return finish(t, &c, total, train_ahead(t, &c, fn, ctx), fn, ctx);
}
