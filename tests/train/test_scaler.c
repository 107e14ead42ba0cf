/* Loss scaling under f16 on the CPU: a scale that is too large is lowered, the steps it spoils change nothing, and a
 * checkpoint keeps it. */
#include "support/tensors.h"

#include <stdio.h>
#include <unistd.h>

#include "train/trainer.h"

static dl_trainer *make(dl_dataset *d) {
    dl_seed(3);
    dl_trainer_spec s = {.model = dl_net_parse("flatten -> linear 32 -> relu -> linear 10"),
                         .opt = dl_optimizer_parse("sgd lr=0.1 momentum=0.9"),
                         .data = d,
                         .loader.batch = 64};
    dl_trainer *t = dl_trainer_new(&s);
    if (!t) fail_msg("%s", dl_errmsg());
    dl_module_unref(s.model);
    dl_optimizer_unref(s.opt);
    return t;
}

static dl_dataset *digits(void) {
    const char *options[] = {"n", "640", "test", "64", NULL};
    dl_dataset *d = dl_dataset_open("digits", options);
    if (!d) fail_msg("%s", dl_errmsg());
    return d;
}

static void scales_the_loss(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/dlsh-scaler-%d.safetensors", (int)getpid());
    ok(dl_precision_set(DL_PRECISION_F16));
    dl_dataset *d = digits();
    dl_trainer *t = make(d), *u = make(d);
    double large = ldexp(1, 30);
    t->control->scale = large;
    ok(dl_trainer_step(t));
    assert_int_equal(dl_optimizer_steps(t->opt), 0); /* left out */
    assert_true(t->control->scale == large / 2);
    double *a = values(t->param[0]), *b = values(u->param[0]);
    assert_memory_equal(a, b, (size_t)dl_numel(t->param[0]) * sizeof *a);
    free(a), free(b);
    ok(dl_trainer_train(t, 0, 99, NULL, NULL));
    long done = dl_optimizer_steps(t->opt);
    assert_true(done > 60 && t->control->scale == ldexp(large, -(int)(100 - done)));
    dl_eval_result r;
    ok(dl_trainer_eval(t, DL_TRAIN, &r));
    if (!(r.loss < 0.7)) fail_msg("loss %g", r.loss);
    ok(dl_trainer_save(t, path));
    ok(dl_trainer_load(u, path));
    assert_true(u->loss_scale == t->loss_scale && u->loss_scale_good == t->loss_scale_good);
    unlink(path);
    dl_trainer_free(t), dl_trainer_free(u);
    dl_dataset_unref(d);
    ok(dl_precision_set(DL_PRECISION_F32));
}

/* Gradients, limits and norms are those of the loss itself. */
static void limits_mean_the_loss(void **state) {
    (void)state;
    ok(dl_precision_set(DL_PRECISION_F16));
    dl_dataset *d = digits();
    double norm[2];
    for (int k = 0; k < 2; k++) {
        dl_trainer *t = make(d);
        t->control->scale = k ? 1024 : 1;
        t->clip_norm = 0.5;
        ok(dl_trainer_step(t));
        dl_trainer_state s;
        dl_trainer_get(t, &s);
        norm[k] = s.grad_norm;
        double after;
        ok(dl_clip_grad_norm(t->param, t->nparam, 0, &after));
        assert_true(fabs(after - 0.5) < 1e-3);
        dl_trainer_free(t);
    }
    if (fabs(norm[0] - norm[1]) > 1e-2 * norm[0]) fail_msg("norms %g and %g", norm[0], norm[1]);
    dl_dataset_unref(d);
    ok(dl_precision_set(DL_PRECISION_F32));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scales_the_loss), cmocka_unit_test(limits_mean_the_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
