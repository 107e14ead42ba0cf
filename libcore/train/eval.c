/* Evaluation of a split. */
#include "core/scope.h"
#include "train/trainer.h"

#include <math.h>

enum { EVAL_BATCH = 256 };

/* A loader of a split, in order. */
static dl_loader *new_loader(dl_trainer *t, dl_split split, long batch) {
    const bool held = split == DL_VAL;
    dl_loader_spec s = {.batch = batch, .seed = &t->data_seed, .collate = t->loader_spec.collate};
    return dl_loader_new(held ? t->held : t->data, held ? DL_TEST : split, &s);
}

/* The loader of evaluations of a split, at its beginning. */
static dl_loader *eval_loader(dl_trainer *t, dl_split split) {
    dl_loader **l = &t->eval_loader[split];
    const long batch = dl_loader_batch(t->loader);
    if (!*l) *l = new_loader(t, split, batch > EVAL_BATCH ? batch : EVAL_BATCH);
    if (*l && dl_loader_seek(*l, 0, 0) != DL_OK) return NULL;
    return *l;
}

/* Is there something to evaluate? */
static dl_status check_split(dl_trainer *t, dl_split split) {
    if (split == DL_VAL && !t->held)
        return dl_fail_hint(DL_ERR_VALUE, "trainer(m, d, val=0.1)", "the trainer holds no samples out");
    if (split != DL_VAL && dl_dataset_len(t->data, split) < 1)
        return dl_fail_hint(DL_ERR_VALUE, split == DL_TEST ? "eval t split=train" : "",
                            "dataset %s has no samples in its %s split", dl_dataset_name(t->data),
                            split == DL_TEST ? "test" : "training");
    return dl_trainer_check_net(t);
}

/* What an evaluation does with a batch; `with` is that of its caller. */
typedef dl_status each_batch(dl_trainer *t, const dl_batch *b, long number, void *with);

/* Goes through all batches of a loader in evaluation mode, with the averaged weights where the trainer keeps them, and
 * reads the sums: all of it has run before the weights are put back. */
static dl_status go_through(dl_trainer *t, dl_loader *l, each_batch *each, void *with, dl_control *sums) {
    static const long start[2] = {0, 0}; /* the device may read it later */
    DL_SCOPED_GRAD_MODE(0);
    const int training = dl_module_training(t->model);
    dl_module_train(t->model, 0);
    dl_trainer_swap_ema(t);
    dl_status st = dl_batch_make_resident(t, dl_batch_split(t, l));
    if (st == DL_OK) st = dl_control_write(t, &t->eval_control->epoch, start, sizeof start);
    for (long number = 0; st == DL_OK; number++) {
        DL_SCOPED_BATCH b = {0};
        st = dl_interrupt_get() ? DL_ERR_INTERRUPT : dl_batch_fetch_eval(t, l, &b);
        if (st == DL_OK && !b.x[0]) break;
        if (st == DL_OK) st = each(t, &b, number, with);
    }
    if (st == DL_OK) st = dl_control_read(t, t->eval_control, sums);
    dl_trainer_swap_ema(t);
    dl_module_train(t->model, training);
    return st == DL_ERR_INTERRUPT ? dl_fail(st, "the evaluation was interrupted") : st;
}

/* ---------------------------------------------------------------- sums over a split */

/* Adds the loss to the sums and goes on to the next batch, whose place is kept on the device. */
static dl_status add_batch(dl_trainer *t, const dl_batch *b, long number, dl_tensor *loss, dl_tensor *out) {
    const long n = b->n;
    dl_batch_rule rule = {.weight = (double)n, .batches = 1, .advance = n, .first = number == 0, .lenient = true};
    return dl_step_accumulate(t, t->eval_control, loss, out, b->y[0], &rule);
}

static dl_status sum_batch(dl_trainer *t, const dl_batch *b, long number, void *all) {
    DL_OWNED dl_tensor *out = NULL, *loss = NULL;
    dl_pack *result = dl_step_run_net(t, b);
    dl_status st = result ? dl_trainer_loss_of(t, result, b, &loss) : dl_failed();
    if (result && dl_pack_count(result) == 1) out = dl_ref(dl_pack_tensor(result, 0));
    if (st == DL_OK) st = dl_metrics_keep(t, all, result, b);
    dl_pack_unref(result);
    return st == DL_OK ? add_batch(t, b, number, loss, out) : st;
}

dl_status dl_trainer_eval(dl_trainer *t, dl_split split, dl_eval_result *out) {
    if (!t) return dl_fail_null("the trainer");
    DL_TRY(check_split(t, split));
    DL_TRY(dl_report_drain(t));
    dl_loader *l = eval_loader(t, split);
    if (!l) return dl_failed();
    double began = dl_now();
    dl_control s;
    dl_collected all[DL_EVAL_METRICS] DL_SCOPE(dl_metrics_drop) = {{.n = 0}};
    DL_TRY(go_through(t, l, sum_batch, all, &s));
    double acc = s.counted > 0 ? s.correct / s.counted : NAN;
    *out = (dl_eval_result){.loss = s.loss / s.weight, .acc = acc, .n = (long)s.weight};
    DL_TRY(dl_metrics_compute(t, all, out));
    out->seconds = dl_now() - began;
    if (split == DL_TEST) t->test_loss = out->loss, t->test_acc = out->acc;
    if (split == DL_VAL) t->val_loss = out->loss, t->val_acc = out->acc;
    dl_record_eval(t, split, out);
    return DL_OK;
}

/* ---------------------------------------------------------------- batches for the caller */

typedef struct visitor {
    dl_evaluated_fn *fn;
    void *ctx;
    long seen;
} visitor;

static dl_status visit(dl_trainer *t, const dl_batch *b, long number, void *with) {
    visitor *v = with;
    DL_OWNED dl_tensor *loss = NULL;
    dl_evaluated e = {.first = v->seen, .n = b->n, .target = b->y, .targets = t->form.targets};
    dl_pack *result = dl_step_run_net(t, b);
    dl_status st = result ? dl_trainer_loss_of(t, result, b, &loss) : dl_failed();
    e.result = result;
    v->seen += b->n;
    if (st == DL_OK) st = dl_item_f(loss, &e.loss);
    if (st == DL_OK) st = v->fn(v->ctx, &e);
    dl_pack_unref(result);
    return st == DL_OK ? add_batch(t, b, number, loss, NULL) : st;
}

dl_status dl_trainer_eval_batches(dl_trainer *t, dl_split split, long batch, dl_evaluated_fn *fn, void *ctx) {
    if (!t) return dl_fail_null("the trainer");
    DL_TRY(check_split(t, split));
    DL_TRY(dl_report_drain(t));
    dl_loader *l = new_loader(t, split, batch);
    dl_control sums;
    dl_status st = l ? go_through(t, l, visit, &(visitor){fn, ctx, 0}, &sums) : dl_failed();
    dl_loader_free(l);
    return st;
}
