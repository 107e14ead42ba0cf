/* Steps that run ahead of their device, and steps from graphs, on a device made of the host's memory: what a graph
 * takes for granted is noticed when it changes, and a capture that fails leaves training as it would be without. */
#include "support/fake_device.h"
#include "support/training.h"

#include <unistd.h>

#include "train/trainer.h"
#include "dlcore/loss.h"
#include "dlcore/view.h"

static const char mlp[] = "flatten -> linear 32 -> batchnorm -> relu -> dropout 0.1 -> head: linear 10";

static dl_trainer *fresh(dl_trainer_spec s, const char *opt, dl_dataset *d) {
    dl_seed(7);
    s.device = FAKE, s.loader.batch = 64;
    return trainer(s, mlp, opt, d);
}

/* `steps` more, from graphs where they are allowed. */
static void go_on(dl_trainer *t, long steps, int captured) {
    dl_capture_set(captured);
    ok(dl_trainer_train(t, 0, steps, NULL, NULL));
    dl_capture_set(1);
}

static void expect_note(dl_trainer *t, const char *part) {
    if (!strstr(dl_trainer_capture(t), part)) fail_msg("'%s' is not in: %s", part, dl_trainer_capture(t));
}

/* As the CPU by itself; the last of the batches of an epoch is short and has a graph of its own. */
static void graphs_end_in_the_same_bits(void **state) {
    (void)state;
    dl_dataset *d = digits("350");
    for (int host = 0; host < 2; host++) {
        dl_trainer_spec s = {.clip_norm = 0.5, .ema = 0.9, .accumulate = host ? 1 : 2};
        dl_trainer *a = fresh(s, "adam lr=1e-3", d), *b;
        fake.captures = fake.replays = 0;
        a->resident_asked[DL_TRAIN] = host; /* and found too large */
        go_on(a, 40, 1);
        assert_int_equal(fake.captures, 2);
        assert_true(fake.replays > 25);
        expect_note(a, "captured");
        b = fresh(s, "adam lr=1e-3", d);
        b->resident_asked[DL_TRAIN] = host;
        go_on(b, 40, 0);
        assert_same_weights(a, b);
        assert_true(get(a).loss == get(b).loss && get(a).acc == get(b).acc && get(a).grad_norm == get(b).grad_norm);
        dl_trainer_free(a), dl_trainer_free(b);
    }
    dl_dataset_unref(d);
    assert_int_equal(fake.used, 0);
}

/* Dropout draws from the seed of the process, which may change. */
static void seeds_may_change(void **state) {
    (void)state;
    dl_dataset *d = digits("320");
    dl_trainer *t[2];
    for (int k = 0; k < 2; k++) {
        t[k] = fresh((dl_trainer_spec){0}, "adam lr=1e-3", d);
        go_on(t[k], 12, k);
        dl_seed(99);
        go_on(t[k], 12, k);
    }
    assert_same_weights(t[0], t[1]);
    dl_trainer_free(t[0]), dl_trainer_free(t[1]);
    dl_dataset_unref(d);
}

/* A checkpoint brings its own seeds into a trainer that has graphs, and whose tensors stay where they are. */
static void checkpoints_bring_their_seeds(void **state) {
    (void)state;
    char path[64];
    unsigned long other = 123;
    snprintf(path, sizeof path, "/tmp/dlsh-ahead-%d.safetensors", (int)getpid());
    dl_dataset *d = digits("320");
    dl_trainer_spec s = {.loader.transforms = "crop 2, flip"}, t = s;
    t.loader.seed = &other;
    dl_trainer *b = fresh(s, "sgd lr=0.05", d), *a;
    go_on(b, 12, 1);
    a = fresh(t, "sgd lr=0.05", d);
    dl_seed(5);
    go_on(a, 12, 1);
    ok(dl_trainer_save(a, path));
    go_on(a, 12, 1);
    ok(dl_trainer_load(b, path));
    go_on(b, 12, 1);
    assert_same_weights(a, b);
    unlink(path);
    dl_trainer_free(a), dl_trainer_free(b);
    dl_dataset_unref(d);
}

/* What is shown of a step. */
static dl_tensor *shown(dl_trainer *t, int i) {
    return i < 3 ? (dl_tensor *[]){t->batch.x[0], t->output, t->loss_tensor}[i] : dl_grad(t->param[i - 3]);
}

/* One trainer whose captures fail beside one that has none, step by step. */
static void expect_as_without(dl_dataset *d, bool host, const char *note) {
    dl_trainer *a = fresh((dl_trainer_spec){0}, "adam lr=1e-3", d), *b = fresh((dl_trainer_spec){0}, "adam lr=1e-3", d);
    a->resident_asked[DL_TRAIN] = b->resident_asked[DL_TRAIN] = host;
    for (int i = 0; i < 9; i++) {
        for (int k = 0; k < 2; k++) {
            dl_rng_seek(DL_STREAM_DROPOUT, (unsigned long)i);
            go_on(k ? b : a, 1, !k);
        }
        for (int j = 0; j < 3 + a->nparam; j++) {
            dl_tensor *x = must(dl_to_device(shown(a, j), 0)), *y = must(dl_to_device(shown(b, j), 0));
            near(x, y, 0, "what the step shows");
            dl_unref(x), dl_unref(y);
        }
        assert_same_weights(a, b);
        assert_int_equal(get(a).batch, get(b).batch);
    }
    expect_note(a, note);
    dl_trainer_free(a), dl_trainer_free(b);
}

static void refused_captures(void **state) {
    (void)state;
    dl_dataset *d = digits("320");
    for (int host = 0; host < 2; host++) {
        fake.no_capture = true;
        expect_as_without(d, host, "the device captures nothing");
        fake.no_capture = false, fake.wrong = true;
        expect_as_without(d, host, "a replay did not end in the same bits");
        fake.wrong = false;
    }
    dl_dataset_unref(d);
}

/* Where copies of the state or a graph's memory do not fit, training continues op by op. */
static void no_room_for_a_capture(void **state) {
    (void)state;
    dl_dataset *d = digits("320");
    dl_trainer *b = fresh((dl_trainer_spec){.eval_every = -1}, "adam lr=1e-3", d);
    long refused = 0, captured = 0;
    go_on(b, 6, 0);
    for (size_t more = 20000; more < 1500000; more += 60000) {
        dl_trainer *a = fresh((dl_trainer_spec){.eval_every = -1}, "adam lr=1e-3", d);
        go_on(a, 2, 1);
        fake.room = fake.used + more;
        dl_capture_set(0);
        dl_status eager = dl_trainer_train(a, 0, 2, NULL, NULL);
        dl_capture_set(1);
        dl_status st = eager == DL_OK ? dl_trainer_train(a, 0, 2, NULL, NULL) : eager;
        fake.room = 0;
        if (st != eager) fail_msg("with %zu bytes more: %s", more, dl_errmsg());
        if (eager == DL_OK) {
            assert_same_weights(a, b);
            bool note = !strcmp(dl_trainer_capture(a), "captured");
            captured += note, refused += !note;
            if (!note) expect_note(a, "the device has no room");
        }
        dl_trainer_free(a);
    }
    assert_true(refused > 2 && captured > 2);
    dl_trainer_free(b);
    dl_dataset_unref(d);
}

/* A split that finds no block large enough stays on the host, and its batches travel. */
static void no_block_for_a_split(void **state) {
    (void)state;
    dl_dataset *d = digits("350");
    fake.block = 250000;
    dl_trainer *a = fresh((dl_trainer_spec){0}, "adam lr=1e-3", d), *b;
    go_on(a, 20, 1);
    assert_null(a->resident[DL_TRAIN].x);
    fake.block = 0;
    b = fresh((dl_trainer_spec){0}, "adam lr=1e-3", d);
    go_on(b, 20, 1);
    assert_non_null(b->resident[DL_TRAIN].x);
    assert_same_weights(a, b);
    dl_trainer_free(a), dl_trainer_free(b);
    dl_dataset_unref(d);
}

/* What a step has shown and someone keeps does not change when the next one is made from the same graph. */
static void what_is_kept_stays(void **state) {
    (void)state;
    dl_dataset *d = digits("320");
    enum { KEPT = 6 };
    for (int host = 0; host < 2; host++) {
        dl_tensor *kept[2][3][KEPT];
        dl_trainer *t[2];
        for (int k = 0; k < 2; k++) {
            t[k] = fresh((dl_trainer_spec){.eval_every = -1}, "adam lr=1e-3", d);
            t[k]->resident_asked[DL_TRAIN] = host;
            go_on(t[k], 8, k);
            for (int i = 0; i < 3; i++) {
                long one = 1, three = 3;
                dl_tensor *all[KEPT] = {
                    dl_ref(t[k]->batch.x[0]),     must(dl_slice(t[k]->batch.y[0], 0, &one, &three, 1)),
                    dl_ref(t[k]->output),         must(dl_detach(t[k]->loss_tensor)),
                    dl_ref(t[k]->param[0]->grad), must(dl_slice(t[k]->param[2]->grad, 0, &one, &three, 1))};
                memcpy(kept[k][i], all, sizeof all);
                go_on(t[k], 1, k);
            }
            go_on(t[k], 2, k);
            fake.allocs = 0;
            go_on(t[k], 3, k);
            if (k) assert_int_equal(fake.allocs, 0); /* nothing is kept any more */
        }
        assert_same_weights(t[0], t[1]);
        for (int j = 0; j < 3 * KEPT; j++) {
            dl_tensor *a = must(dl_to_device(kept[0][j / KEPT][j % KEPT], 0)),
                      *b = must(dl_to_device(kept[1][j / KEPT][j % KEPT], 0));
            near(b, a, 0, (const char *[]){"x", "y", "output", "loss", "a gradient", "part of one"}[j % KEPT]);
            dl_unref(a), dl_unref(b);
            for (int k = 0; k < 2; k++) dl_unref(kept[k][j / KEPT][j % KEPT]);
        }
        dl_trainer_free(t[0]), dl_trainer_free(t[1]);
    }
    dl_dataset_unref(d);
    assert_int_equal(fake.used, 0);
}

/* ---- reports that come late */

typedef struct seen {
    long calls, stop;
    double loss[64];
} seen;

static int look(void *ctx, const dl_train_progress *p) {
    seen *s = ctx;
    if (s->calls < 64) s->loss[s->calls] = p->loss;
    return ++s->calls == s->stop || p->step != s->calls;
}

/* Every step is reported, in order, with the same figures as when the host waits for each. */
static void late_reports(void **state) {
    (void)state;
    dl_dataset *d = digits("350");
    seen all[2] = {{0}};
    for (int k = 0; k < 2; k++) {
        fake.late = k ? DL_LATE + 2 : 0;
        dl_trainer *t = fresh((dl_trainer_spec){.eval_every = 2}, "adam lr=1e-3", d);
        ok(dl_trainer_train(t, 5, 0, look, &all[k]));
        assert_int_equal(all[k].calls, 30);
        assert_int_equal(get(t).step, 30);
        dl_trainer_free(t);
    }
    assert_memory_equal(all[0].loss, all[1].loss, 30 * sizeof(double));
    fake.late = 0;
    dl_dataset_unref(d);
}

/* After a stop weights, counters and data agree, and training can continue. */
static void stopped_and_taken_up(void **state) {
    (void)state;
    dl_dataset *d = digits("350");
    fake.late = 5;
    for (long stop = 1; stop < 20; stop += 4) {
        seen s = {.stop = stop};
        dl_trainer *a = fresh((dl_trainer_spec){0}, "adam lr=1e-3", d);
        assert_int_equal(dl_trainer_train(a, 0, 20, look, &s), DL_ERR_INTERRUPT);
        long done = get(a).step;
        assert_true(done >= stop && done <= stop + DL_LATE + 1);
        assert_int_equal(s.calls, done);
        assert_int_equal(dl_optimizer_steps(dl_trainer_optimizer(a)), done);
        ok(dl_trainer_train(a, 0, 20 - done, NULL, NULL));
        dl_trainer *b = fresh((dl_trainer_spec){0}, "adam lr=1e-3", d);
        ok(dl_trainer_train(b, 0, 20, NULL, NULL));
        assert_same_weights(a, b);
        dl_trainer_free(a), dl_trainer_free(b);
    }
    fake.late = 0;
    dl_dataset_unref(d);
}

/* Steps that were under way when one diverged have changed nothing. */
static void diverged(void **state) {
    (void)state;
    dl_dataset *d = digits("640");
    dl_trainer *t[2];
    for (int k = 0; k < 2; k++) {
        fake.late = k ? DL_LATE : 0;
        dl_seed(7);
        t[k] = trainer((dl_trainer_spec){.device = FAKE, .loader.batch = 64},
                       "flatten -> linear 32 -> softplus -> linear 10", "sgd lr=0.1", d);
        ok(dl_trainer_train(t[k], 0, 12, NULL, NULL));
        ok(dl_trainer_set_lr(t[k], 1e38));
        assert_int_equal(dl_trainer_train(t[k], 0, 30, NULL, NULL), DL_ERR_VALUE);
        assert_non_null(strstr(dl_errmsg(), "training diverged"));
        assert_true(get(t[k]).diverged);
        assert_int_equal(dl_optimizer_steps(dl_trainer_optimizer(t[k])), get(t[k]).step);
    }
    assert_int_equal(get(t[0]).step, get(t[1]).step);
    assert_int_equal(get(t[0]).batch, get(t[1]).batch);
    assert_same_weights(t[0], t[1]);
    dl_trainer_free(t[0]), dl_trainer_free(t[1]);
    fake.late = 0;
    dl_dataset_unref(d);
}

/* Every part of a trainer says so, and it can be let go without hiding what was said before. */
static void the_device_is_lost(void **state) {
    (void)state;
    dl_dataset *d = digits("320");
    for (int captured = 0; captured < 2; captured++) {
        dl_trainer *a = fresh((dl_trainer_spec){0}, "adam lr=1e-3", d);
        dl_eval_result r;
        go_on(a, 8, captured);
        fake.lost = true;
        assert_int_equal(dl_trainer_train(a, 1, 0, NULL, NULL), DL_ERR_DEVICE);
        assert_int_equal(dl_trainer_step(a), DL_ERR_DEVICE);
        assert_int_equal(dl_trainer_eval(a, DL_TEST, &r), DL_ERR_DEVICE);
        assert_int_equal(dl_trainer_save(a, "/tmp/dlsh-never"), DL_ERR_DEVICE);
        dl_fail(DL_ERR_VALUE, "said before");
        dl_trainer_free(a);
        assert_string_equal(dl_errmsg(), "said before");
        dl_error_clear();
        fake.lost = false;
    }
    dl_dataset_unref(d);
    assert_int_equal(fake.used, 0);
}

static int begin(void **state) {
    (void)state;
    fake_register();
    return 0;
}

static void integers_arrive(void **state) {
    (void)state;
    assert_integers_arrive(FAKE);
}

/* ---- the step of the CPU */

/* A net without hidden state but its weights, in a dtype. */
static dl_trainer *made(dl_trainer_spec s, const char *net, const char *opt, dl_dataset *d, dl_dtype dtype,
                        int groups) {
    dl_seed(7);
    s.model = dl_net_parse(net), s.opt = dl_optimizer_parse(opt), s.data = d, s.loader.batch = 64;
    ok(dl_module_build(s.model, 4, (long[]){1, 1, 28, 28}, DL_F32, 0));
    ok(dl_module_to(s.model, dtype, 0));
    for (int g = 0; g < groups; g++) {
        char pattern[40];
        snprintf(pattern, sizeof pattern, "linear%d.*", g % 2);
        dl_arg rate = {.name = "lr", .kind = DL_ARG_FLOAT, .f = 1e-3 * (g + 1)};
        ok(dl_optimizer_group(s.opt, pattern, &rate, 1, NULL));
    }
    dl_trainer *t = dl_trainer_new(&s);
    if (!t) fail_msg("%s", dl_errmsg());
    dl_module_unref(s.model), dl_optimizer_unref(s.opt);
    return t;
}

/* A loss that the host computes. */
static dl_tensor *loss_on_host(void *ctx, const dl_pack *output, const dl_pack *target) {
    (void)ctx;
    dl_tensor *y = must(dl_to_device(dl_pack_tensor(output, 0), 0)),
              *z = must(dl_to_device(dl_pack_tensor(target, 0), 0));
    dl_tensor *loss = must(dl_cross_entropy(y, z, NULL, "mean", -100, 0));
    dl_unref(y), dl_unref(z);
    return loss;
}

static const struct {
    const char *net, *opt;
    dl_trainer_spec spec;
    dl_dtype dtype;
    int groups;
} plans[] = {
    {"flatten -> linear 32 -> relu -> dropout 0.1 -> linear 10",
     "sgd lr=0.05 momentum=0.9",
     {.clip_norm = 0.5},
     DL_F32,
     0},
    {"flatten -> linear 32 -> tanh -> linear 10", "adam amsgrad=true", {.clip_value = 0.01, .ema = 0.9}, DL_F32, 0},
    {"flatten -> linear 32 -> tanh -> linear 10", "adamw lr=1e-3", {.accumulate = 3, .allow_nan = 1}, DL_F32, 0},
    {"flatten -> linear 32 -> tanh -> linear 10", "sgd lr=0.1", {.accumulate = 3}, DL_F64, 0},
    {"flatten -> linear 32 -> tanh -> linear 10", "sgd lr=0.1", {.accumulate = 2, .loss_fn = loss_on_host}, DL_F32, 0},
    {"flatten -> linear 32 -> tanh -> linear 10", "adam lr=1e-3", {.clip_norm = 1}, DL_F32, 20},
};

static bool close_to(double a, double b, double most) { return fabs(a - b) <= most * fabs(b); }

/* One step for all devices: figures and weights are those of the CPU, but for how some gradients are laid out. */
static void as_on_the_cpu(void **state) {
    (void)state;
    dl_dataset *d = digits("350");
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        dl_trainer_state s[2];
        dl_eval_result r[2];
        double *w[2], most = plans[i].dtype == DL_F64 ? 1e-13 : 1e-6;
        long n = 0;
        for (int k = 0; k < 2; k++) {
            dl_trainer_spec spec = plans[i].spec;
            spec.device = k ? FAKE : 0;
            dl_trainer *t = made(spec, plans[i].net, plans[i].opt, d, plans[i].dtype, plans[i].groups);
            ok(dl_trainer_train(t, 0, 14, NULL, NULL));
            ok(dl_trainer_eval(t, DL_TEST, &r[k]));
            s[k] = get(t), w[k] = weights(t, &n);
            dl_trainer_free(t);
        }
        bool same = close_to(s[1].loss, s[0].loss, most) && s[1].acc == s[0].acc && s[1].lr == s[0].lr &&
                    close_to(s[1].grad_norm, s[0].grad_norm, most) && close_to(r[1].loss, r[0].loss, most) &&
                    r[1].acc == r[0].acc;
        if (!same)
            fail_msg("plan %zu: loss %.15g acc %g norm %.15g, on the CPU %.15g %g %.15g", i, s[1].loss, s[1].acc,
                     s[1].grad_norm, s[0].loss, s[0].acc, s[0].grad_norm);
        for (long j = 0; j < n; j++) assert_true(fabs(w[1][j] - w[0][j]) <= 10 * most);
        free(w[0]), free(w[1]);
    }
    dl_dataset_unref(d);
}

/* A step whose optimizer fails is none; its gradients are there for another try. */
static void an_update_tried_again(void **state) {
    (void)state;
    dl_dataset *d = digits("320");
    dl_trainer *t[2];
    for (int k = 0; k < 2; k++) {
        t[k] = fresh((dl_trainer_spec){0}, "adam lr=1e-3", d);
        ok(dl_trainer_forward(t[k]));
        ok(dl_trainer_backward(t[k]));
        if (k) {
            fake.room = fake.used + 1; /* none for the states of the optimizer */
            assert_int_equal(dl_trainer_update(t[k]), DL_ERR_MEMORY);
            fake.room = 0;
            assert_int_equal(get(t[k]).step, 0);
        }
        ok(dl_trainer_update(t[k]));
        go_on(t[k], 3, 0);
        assert_int_equal(get(t[k]).step, 4);
        assert_int_equal(dl_optimizer_steps(dl_trainer_optimizer(t[k])), 4);
    }
    assert_same_weights(t[0], t[1]);
    dl_trainer_free(t[0]), dl_trainer_free(t[1]);
    dl_dataset_unref(d);
}

/* The scale of the loss outlives steps in another precision, on every device. */
static void scales_outlive_other_precisions(void **state) {
    (void)state;
    dl_dataset *d = digits("320");
    for (int device = 0; device <= FAKE; device++) {
        ok(dl_precision_set(DL_PRECISION_F16));
        dl_trainer *t = trainer((dl_trainer_spec){.device = device, .loader.batch = 64}, mlp, "sgd lr=0.01", d);
        double scale[2] = {256, 3}, now[2];
        ok(dl_device_copy(&t->control->scale, device, scale, 0, sizeof scale));
        go_on(t, 2, 0);
        ok(dl_precision_set(DL_PRECISION_F32));
        go_on(t, 1, 0);
        ok(dl_precision_set(DL_PRECISION_F16));
        go_on(t, 1, 0);
        ok(dl_device_copy(now, 0, &t->control->scale, device, sizeof now));
        assert_true(now[0] == 256 && now[1] == 6);
        ok(dl_precision_set(DL_PRECISION_F32));
        dl_trainer_free(t);
    }
    dl_dataset_unref(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_on_the_cpu),
        cmocka_unit_test(an_update_tried_again),
        cmocka_unit_test(scales_outlive_other_precisions),
        cmocka_unit_test(graphs_end_in_the_same_bits),
        cmocka_unit_test(seeds_may_change),
        cmocka_unit_test(checkpoints_bring_their_seeds),
        cmocka_unit_test(refused_captures),
        cmocka_unit_test(no_room_for_a_capture),
        cmocka_unit_test(the_device_is_lost),
        cmocka_unit_test(what_is_kept_stays),
        cmocka_unit_test(no_block_for_a_split),
        cmocka_unit_test(late_reports),
        cmocka_unit_test(stopped_and_taken_up),
        cmocka_unit_test(diverged),
        cmocka_unit_test(integers_arrive),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
