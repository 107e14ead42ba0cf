/* Evaluation of a split. */
#include "core/scope.h"
#include "train/trainer.h"

#include <math.h>

enum { EVAL_BATCH = 256 };

/* The loader of a split, in order, at its beginning. */
static dl_loader *eval_loader(dl_trainer *t, dl_split split) {
    const bool held = split == DL_VAL;
    dl_loader **l = &t->eval_loader[split];
    if (!*l) {
        long batch = dl_loader_batch(t->loader);
        dl_loader_spec s = {
            .batch = batch > EVAL_BATCH ? batch : EVAL_BATCH, .seed = &t->data_seed, .collate = t->loader_spec.collate};
        *l = dl_loader_new(held ? t->held : t->data, held ? DL_TEST : split, &s);
    }
    if (*l && dl_loader_seek(*l, 0, 0) != DL_OK) return NULL;
    return *l;
}

static dl_status eval_batch(dl_trainer *t, const dl_batch *b, bool first, dl_collected *all) {
    DL_OWNED dl_tensor *out = NULL, *loss = NULL;
    dl_pack *result = dl_step_run_net(t, b);
    dl_status st = result ? dl_trainer_loss_of(t, result, b, &loss) : dl_failed();
    if (result && dl_pack_count(result) == 1) out = dl_ref(dl_pack_tensor(result, 0));
    if (st == DL_OK) st = dl_metrics_keep(t, all, result, b);
    dl_pack_unref(result);
    DL_TRY(st);
    long n = b->n;
    dl_batch_rule rule = {.weight = (double)n, .batches = 1, .advance = n, .first = first, .lenient = true};
    return dl_step_accumulate(t, t->eval_control, loss, out, b->y[0], &rule);
}

/* Sums over all batches of a loader. */
static dl_status eval_all(dl_trainer *t, dl_loader *l, dl_control *sums, dl_collected *all) {
    long where[2] = {0, 0};
    DL_TRY(dl_batch_make_resident(t, dl_batch_split(t, l)));
    DL_TRY(dl_control_write(t, &t->eval_control->epoch, where, sizeof where));
    for (bool first = true;; first = false) {
        DL_SCOPED_BATCH b = {0};
        if (dl_interrupt_get()) return dl_fail(DL_ERR_INTERRUPT, "the evaluation was interrupted");
        DL_TRY(dl_batch_fetch_eval(t, l, &b));
        if (!b.x[0]) return dl_control_read(t, t->eval_control, sums);
        DL_TRY(eval_batch(t, &b, first, all));
    }
}

dl_status dl_trainer_eval(dl_trainer *t, dl_split split, dl_eval_result *out) {
    if (!t) return dl_fail_null("the trainer");
    if (split == DL_VAL && !t->held)
        return dl_fail_hint(DL_ERR_VALUE, "trainer(m, d, val=0.1)", "the trainer holds no samples out");
    if (split != DL_VAL && dl_dataset_len(t->data, split) < 1)
        return dl_fail_hint(DL_ERR_VALUE, split == DL_TEST ? "eval t split=train" : "",
                            "dataset %s has no samples in its %s split", dl_dataset_name(t->data),
                            split == DL_TEST ? "test" : "training");
    DL_TRY(dl_trainer_check_net(t));
    DL_TRY(dl_report_drain(t));
    dl_loader *l = eval_loader(t, split);
    if (!l) return dl_failed();
    double began = dl_now();
    dl_control s;
    DL_SCOPED_GRAD_MODE(0);
    int training = dl_module_training(t->model);
    dl_module_train(t->model, 0);
    dl_trainer_swap_ema(t);
    dl_collected all[DL_EVAL_METRICS] DL_SCOPE(dl_metrics_drop) = {{.n = 0}};
    dl_status st = eval_all(t, l, &s, all);
    dl_trainer_swap_ema(t);
    dl_module_train(t->model, training);
    if (st == DL_ERR_INTERRUPT) return dl_fail(st, "the evaluation was interrupted");
    DL_TRY(st);
    double acc = s.counted > 0 ? s.correct / s.counted : NAN;
    *out = (dl_eval_result){.loss = s.loss / s.weight, .acc = acc, .n = (long)s.weight};
    DL_TRY(dl_metrics_compute(t, all, out));
    out->seconds = dl_now() - began;
    if (split == DL_TEST) t->test_loss = out->loss, t->test_acc = out->acc;
    if (split == DL_VAL) t->val_loss = out->loss, t->val_acc = out->acc;
    dl_record_eval(t, split, out);
    return DL_OK;
}
