/* Training: it learns, repeats bit for bit, resumes exactly, and says what goes wrong. */
#include "support/folder.h"
#include "support/training.h"
#include "dlcore/create.h"
#include "dlcore/loss.h"
#include "dlcore/matmul.h"

static const char *const mlp = "flatten -> linear 32 -> batchnorm -> relu -> dropout 0.1 -> head: linear 10";

static void it_learns(void **state) {
    (void)state;
    dl_seed(1);
    dl_dataset *d = digits("512");
    dl_trainer *t =
        trainer((dl_trainer_spec){.loader.batch = 64}, "flatten -> linear 64 -> relu -> linear 10", "adam lr=3e-3", d);
    ok(dl_trainer_step(t));
    double first = get(t).loss;
    assert_true(first > 1.8 && first < 3.5); /* about ln(10) */
    ok(dl_trainer_train(t, 12, 0, NULL, NULL));
    dl_eval_result r;
    ok(dl_trainer_eval(t, DL_TRAIN, &r));
    assert_int_equal(r.n, 512);
    if (r.loss > 0.5 || r.acc < 0.85) fail_msg("loss %g, accuracy %g", r.loss, r.acc);
    ok(dl_trainer_eval(t, DL_TEST, &r));
    assert_int_equal(r.n, 64);
    assert_int_equal(get(t).step, 96);
    dl_trainer_free(t);
    dl_dataset_unref(d);
}

static void it_repeats_bit_for_bit(void **state) {
    (void)state;
    dl_dataset *d = digits("160");
    dl_trainer *t[2];
    for (int i = 0; i < 2; i++) {
        dl_seed(11);
        t[i] = trainer((dl_trainer_spec){.loader.batch = 32, .loader.workers = i ? 3 : -1, .clip_norm = 1}, mlp,
                       "adamw lr=1e-2", d);
        ok(dl_trainer_train(t[i], 3, 0, NULL, NULL));
    }
    assert_same_weights(t[0], t[1]);
    for (int i = 0; i < 2; i++) dl_trainer_free(t[i]);
    dl_dataset_unref(d);
}

static void checkpoints_resume_exactly(void **state) {
    (void)state;
    const char *opts[] = {"adam lr=1e-2 amsgrad=true", "sgd lr=0.05 momentum=0.9"};
    dl_dataset *d = digits("160");
    for (int k = 0; k < 2; k++) {
        const char *path = temp_path("check.safetensors");
        dl_schedule *s = dl_schedule_parse("cosine 20 warmup=3");
        dl_trainer_spec spec = {.loader.batch = 32, .schedule = s, .ema = 0.9, .accumulate = 1 + k};
        dl_seed(21);
        dl_trainer *whole = trainer(spec, mlp, opts[k], d);
        ok(dl_trainer_train(whole, 0, 7, NULL, NULL)); /* into the second epoch */
        ok(dl_trainer_save(whole, path));
        ok(dl_trainer_train(whole, 0, 6, NULL, NULL));
        dl_eval_result a, b;
        ok(dl_trainer_eval(whole, DL_TEST, &a));
        /* elsewhere: other seed, other weights, and on from the file */
        dl_seed(99);
        dl_trainer *part = trainer(spec, mlp, opts[k], d);
        ok(dl_trainer_train(part, 0, 2, NULL, NULL));
        ok(dl_trainer_load(part, path));
        assert_int_equal(get(part).step, 7);
        ok(dl_trainer_train(part, 0, 6, NULL, NULL));
        ok(dl_trainer_eval(part, DL_TEST, &b));
        assert_same_weights(whole, part);
        assert_true(get(whole).loss == get(part).loss && get(whole).lr == get(part).lr);
        assert_true(a.loss == b.loss); /* the averaged weights too */
        dl_trainer_free(whole);
        dl_trainer_free(part);
        dl_schedule_unref(s);
    }
    dl_dataset_unref(d);
}

static void unlike_checkpoints_are_refused(void **state) {
    (void)state;
    const char *path = temp_path("check.safetensors");
    dl_dataset *d = digits("64");
    dl_trainer *t = trainer((dl_trainer_spec){.loader.batch = 32}, mlp, "adam", d);
    ok(dl_trainer_step(t));
    ok(dl_trainer_save(t, path));
    const struct {
        const char *net, *opt;
        long batch;
        dl_status code;
    } cases[] = {
        {mlp, "sgd", 32, DL_ERR_VALUE},
        {mlp, "adam", 16, DL_ERR_VALUE},
        {"flatten -> linear 16 -> batchnorm -> relu -> dropout 0.1 -> head: linear 10", "adam", 32, DL_ERR_SHAPE},
        {"flatten -> linear 10", "adam", 32, DL_ERR_VALUE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_trainer *u = trainer((dl_trainer_spec){.loader.batch = cases[i].batch}, cases[i].net, cases[i].opt, d);
        assert_int_equal(dl_trainer_load(u, path), cases[i].code);
        dl_trainer_free(u);
    }
    ok(dl_trainer_forward(t));
    ok(dl_trainer_backward(t));
    assert_int_equal(dl_trainer_save(t, path), DL_ERR_STATE);
    ok(dl_module_save(dl_trainer_model(t), path, NULL));
    assert_int_equal(dl_trainer_load(t, path), DL_ERR_FORMAT); /* weights alone */
    dl_trainer_free(t);
    dl_dataset_unref(d);
}

static void parts_make_a_step(void **state) {
    (void)state;
    dl_dataset *d = digits("128");
    dl_trainer *t[2];
    for (int i = 0; i < 2; i++) { /* one after the other: they draw from the same streams */
        dl_seed(31);
        t[i] = trainer((dl_trainer_spec){.loader.batch = 32}, mlp, "sgd lr=0.1 momentum=0.9", d);
        assert_int_equal(dl_trainer_backward(t[i]), DL_ERR_STATE);
        assert_int_equal(dl_trainer_update(t[i]), DL_ERR_STATE);
        for (int k = 0; k < 3; k++) {
            if (i) {
                ok(dl_trainer_step(t[i]));
                continue;
            }
            ok(dl_trainer_forward(t[i]));
            assert_non_null(dl_trainer_loss(t[i]));
            dl_tensor *w = dl_module_tensor(dl_trainer_model(t[i]), "head.weight");
            assert_null(dl_grad(w)); /* forward zeroes the gradients */
            ok(dl_trainer_backward(t[i]));
            assert_non_null(dl_grad(w));
            assert_int_equal(dl_trainer_backward(t[i]), DL_ERR_STATE);
            ok(dl_trainer_update(t[i]));
        }
    }
    assert_same_weights(t[0], t[1]);
    assert_int_equal(get(t[0]).step, 3);
    for (int i = 0; i < 2; i++) dl_trainer_free(t[i]);
    dl_dataset_unref(d);
}

/* Four batches of 16 with their mean gradient are one batch of 64. */
static void accumulation_is_a_larger_batch(void **state) {
    (void)state;
    dl_dataset *d = digits("128");
    dl_trainer *t[2];
    for (int i = 0; i < 2; i++) {
        dl_seed(41);
        dl_trainer_spec s = {.loader.batch = i ? 16 : 64, .accumulate = i ? 4 : 1, .in_order = 1};
        t[i] = trainer(s, "flatten -> linear 16 -> tanh -> linear 10", "sgd lr=0.1", d);
        ok(dl_trainer_train(t[i], 1, 0, NULL, NULL));
        assert_int_equal(get(t[i]).step, 2);
    }
    long n, k;
    double *a = weights(t[0], &n), *b = weights(t[1], &k);
    for (long i = 0; i < n; i++) assert_true(fabs(a[i] - b[i]) < 1e-5);
    free(a);
    free(b);
    for (int i = 0; i < 2; i++) dl_trainer_free(t[i]);
    dl_dataset_unref(d);
}

static void divergence_stops(void **state) {
    (void)state;
    dl_dataset *d = digits("128");
    dl_trainer *t = trainer((dl_trainer_spec){.loader.batch = 32}, "flatten -> linear 32 -> linear 32 -> linear 10",
                            "sgd lr=1e12", d);
    dl_status st = DL_OK;
    for (int i = 0; i < 20 && st == DL_OK; i++) st = dl_trainer_step(t);
    assert_int_equal(st, DL_ERR_VALUE);
    assert_non_null(strstr(dl_errmsg(), "training diverged: the "));
    assert_true(get(t).diverged);
    long n, bad = 0;
    double *w = weights(t, &n);
    for (long i = 0; i < n; i++) bad += !isfinite(w[i]);
    assert_int_equal(bad, 0); /* the weights before the step that failed */
    free(w);
    dl_trainer_free(t);
    dl_dataset_unref(d);
}

static int stop_after_three(void *ctx, const dl_train_progress *p) {
    ++*(long *)ctx;
    assert_int_equal(p->done, *(long *)ctx);
    return p->done == 3;
}

static void interruptions_leave_whole_steps(void **state) {
    (void)state;
    dl_dataset *d = digits("160");
    dl_trainer *t = trainer((dl_trainer_spec){.loader.batch = 32}, mlp, "adam", d);
    long calls = 0;
    assert_int_equal(dl_trainer_train(t, 2, 0, stop_after_three, &calls), DL_ERR_INTERRUPT);
    assert_int_equal(get(t).step, 3);
    dl_interrupt_set(1);
    assert_int_equal(dl_trainer_train(t, 2, 0, NULL, NULL), DL_ERR_INTERRUPT);
    dl_interrupt_set(0);
    assert_int_equal(get(t).step, 3);
    assert_int_equal(dl_trainer_train(t, 1, 1, NULL, NULL), DL_ERR_VALUE);
    ok(dl_trainer_train(t, 1, 0, NULL, NULL)); /* the rest of the epoch */
    assert_int_equal(get(t).step, 5);
    dl_trainer_free(t);
    dl_dataset_unref(d);
}

static dl_tensor *interrupting(void *ctx, const dl_pack *output, const dl_pack *target) {
    bool before = ctx && *(bool *)ctx;
    if (before) dl_interrupt_set(1);
    dl_tensor *loss = dl_cross_entropy(dl_pack_tensor(output, 0), dl_pack_tensor(target, 0), NULL, "mean", -100, 0);
    dl_interrupt_set(1);
    return loss;
}

static void a_step_begun_is_finished(void **state) {
    (void)state;
    dl_dataset *d = digits("64");
    dl_trainer *t = trainer((dl_trainer_spec){.loss_fn = interrupting}, mlp, "adam", d);
    assert_int_equal(dl_trainer_train(t, 0, 5, NULL, NULL), DL_ERR_INTERRUPT);
    dl_interrupt_set(0);
    assert_int_equal(get(t).step, 1);
    assert_int_equal(get(t).phase, 0);
    assert_string_equal(get(t).error, ""); /* no failure of the run */
    dl_trainer_free(t);
    dl_dataset_unref(d);
}

/* A loss function that is still running ends its step, which has changed nothing. */
static void a_loss_function_is_interrupted(void **state) {
    (void)state;
    bool before = false;
    dl_dataset *d = digits("64");
    dl_trainer *t = trainer((dl_trainer_spec){.loss_fn = interrupting, .loss_ctx = &before}, mlp, "adam", d);
    for (int step = 1; step <= 3; step++) { /* the second one in the function */
        before = step == 2;
        assert_int_equal(dl_trainer_train(t, 0, 5, NULL, NULL), DL_ERR_INTERRUPT);
        dl_interrupt_set(0);
        assert_int_equal(get(t).step, step == 1 ? 1 : step - 1);
        assert_string_equal(get(t).error, "");
    }
    dl_trainer_free(t);
    dl_dataset_unref(d);
}

static dl_tensor *mine(void *ctx, const dl_pack *output, const dl_pack *target) {
    ++*(int *)ctx;
    return dl_cross_entropy(dl_pack_tensor(output, 0), dl_pack_tensor(target, 0), NULL, "mean", -100, 0);
}
static dl_tensor *per_sample(void *ctx, const dl_pack *output, const dl_pack *target) {
    (void)ctx;
    return dl_cross_entropy(dl_pack_tensor(output, 0), dl_pack_tensor(target, 0), NULL, "none", -100, 0);
}

static void losses(void **state) {
    (void)state;
    int calls = 0;
    dl_dataset *d = digits("64");
    dl_trainer *t = trainer((dl_trainer_spec){.loss_fn = mine, .loss_ctx = &calls}, mlp, "adam", d);
    ok(dl_trainer_step(t));
    assert_int_equal(calls, 1);
    dl_trainer_free(t);
    t = trainer((dl_trainer_spec){.loss_fn = per_sample}, mlp, "adam", d);
    assert_int_equal(dl_trainer_step(t), DL_ERR_SHAPE);
    assert_string_not_equal(get(t).error, "");
    dl_trainer_free(t);
    dl_trainer_spec s = {
        .model = dl_net_parse(mlp), .data = d, .opt = dl_optimizer_parse("adam"), .loss = "no_such_loss"};
    assert_null(dl_trainer_new(&s));
    assert_int_equal(dl_failed(), DL_ERR_NAME);
    dl_module_unref(s.model);
    dl_optimizer_unref(s.opt);
    dl_dataset_unref(d);
}

/* Targets [N] against outputs [N,1] must not broadcast. */
static void regression(void **state) {
    (void)state;
    dl_seed(51);
    dl_tensor *x = dl_randn((long[]){256, 3}, 2, DL_F32, 0),
              *w = dl_tensor_from(1, (long[]){3}, DL_F32, 0, (float[]){1, -2, 0.5});
    dl_tensor *y = dl_matmul(x, w);
    dl_dataset *d = dl_dataset_from(x, y, NULL, NULL, "plane");
    dl_trainer *t = trainer((dl_trainer_spec){.loader.batch = 32}, "linear 1", "sgd lr=0.1", d);
    ok(dl_trainer_train(t, 20, 0, NULL, NULL));
    assert_string_equal(dl_trainer_loss_name(t), "mse_loss");
    dl_trainer_state s = get(t);
    if (!(s.loss < 1e-6)) fail_msg("loss %g", s.loss);
    assert_true(isnan(s.acc));
    dl_eval_result r;
    assert_int_equal(dl_trainer_eval(t, DL_TEST, &r), DL_ERR_VALUE);
    dl_trainer_free(t);
    dl_dataset_unref(d);
    dl_unref(x), dl_unref(y), dl_unref(w);
}

static const dl_series_info *series(const dl_run_info *r, const char *key) {
    for (long i = 0; i < r->nseries; i++)
        if (!strcmp(r->series[i].key, key)) return &r->series[i];
    fail_msg("no metric %s", key);
    return NULL;
}

/* What is known of run `id` while it is open. */
static void check_recorded(dl_store *store, long id) {
    dl_run_list *l = dl_run_show(store, id);
    assert_string_equal(l->runs->name, "first");
    assert_int_equal(l->runs->status, DL_RUN_RUNNING);
    assert_int_equal(l->runs->seed, 61);
    assert_int_equal(series(l->runs, "train/loss")->n, 12);
    assert_int_equal(series(l->runs, "train/loss")->last_step, 12);
    assert_int_equal(series(l->runs, "grad_norm")->n, 12);
    assert_int_equal(series(l->runs, "test/acc")->n, 2);
    assert_string_equal(l->runs->dataset, "digits");
    assert_non_null(strstr(l->runs->model_text, "head: linear 10"));
    int lr = 0, opt = 0;
    for (long i = 0; i < l->runs->nparam; i++) {
        lr |= !strcmp(l->runs->params[i].key, "lr") && l->runs->params[i].num == 2e-3;
        opt |= !strcmp(l->runs->params[i].key, "opt") && !strcmp(l->runs->params[i].value, "adam");
    }
    assert_true(lr && opt);
    dl_run_list_free(l);
}

static void check_status(dl_store *store, long id, dl_run_status status) {
    dl_run_list *l = dl_run_show(store, id);
    assert_int_equal(l->runs->status, status);
    dl_run_list_free(l);
}

static void runs_are_recorded(void **state) {
    (void)state;
    const char *check = temp_path("c.safetensors");
    dl_store *store = dl_store_open(temp_path("e.db"));
    if (!store) fail_msg("%s", dl_errmsg());
    dl_dataset *d = digits("160");
    dl_run_spec run = {.name = "first", .note = "a note"};
    dl_trainer_spec spec = {.loader.batch = 32, .store = store, .run = &run};
    dl_seed(61);
    dl_trainer *t = trainer(spec, mlp, "adam lr=2e-3", d);
    assert_int_equal(get(t).run, 0);
    ok(dl_trainer_train(t, 2, 0, NULL, NULL));
    ok(dl_trainer_save(t, check));
    ok(dl_trainer_train(t, 0, 2, NULL, NULL));
    long id = get(t).run;
    assert_true(id > 0);
    ok(dl_store_flush(store));
    check_recorded(store, id);
    dl_trainer_free(t);
    check_status(store, id, DL_RUN_FINISHED);
    /* the run continues where the checkpoint was taken */
    t = trainer(spec, mlp, "adam lr=2e-3", d);
    ok(dl_trainer_load(t, check));
    assert_int_equal(get(t).run, id);
    ok(dl_trainer_step(t));
    ok(dl_store_flush(store));
    dl_run_list *l = dl_run_show(store, id);
    assert_int_equal(series(l->runs, "train/loss")->last_step, 11);
    assert_int_equal(series(l->runs, "train/loss")->n, 11);
    dl_run_list_free(l);
    dl_trainer_free(t);
    /* one that diverges says so */
    t = trainer(spec, "flatten -> linear 32 -> linear 10", "sgd lr=1e20", d);
    dl_status st = DL_OK;
    for (int i = 0; i < 20 && st == DL_OK; i++) st = dl_trainer_step(t);
    long bad = get(t).run;
    dl_trainer_free(t);
    check_status(store, bad, DL_RUN_DIVERGED);
    dl_dataset_unref(d);
    ok(dl_store_close(store));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns),
        cmocka_unit_test(it_repeats_bit_for_bit),
        cmocka_unit_test(checkpoints_resume_exactly),
        cmocka_unit_test(unlike_checkpoints_are_refused),
        cmocka_unit_test(parts_make_a_step),
        cmocka_unit_test(accumulation_is_a_larger_batch),
        cmocka_unit_test(divergence_stops),
        cmocka_unit_test(interruptions_leave_whole_steps),
        cmocka_unit_test(a_step_begun_is_finished),
        cmocka_unit_test(a_loss_function_is_interrupted),
        cmocka_unit_test(losses),
        cmocka_unit_test(regression),
        cmocka_unit_test(runs_are_recorded),
    };
    return cmocka_run_group_tests(tests, temp_make, temp_remove);
}
