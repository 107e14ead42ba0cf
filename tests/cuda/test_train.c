/* Training on a GPU: it learns as the CPU does, step by step and from graphs with the same bits, repeats, resumes,
 * stops where it diverges, and needs no more memory after ten thousand steps. */
#include "cuda/gpu.h"
#include "support/training.h"

#include <unistd.h>

#include "train/trainer.h"
#include "dlcore/loss.h"

static const char *const mlp = "flatten -> linear 32 -> batchnorm -> relu -> dropout 0.1 -> head: linear 10";
static const char *const conv = "conv 4 k=3 pad=1 -> relu -> maxpool 2 -> flatten -> linear 10";

/* A trainer on a device, with the same weights each time. */
static dl_trainer *trainer_on(int device, dl_trainer_spec s, const char *net, const char *opt, dl_dataset *d) {
    dl_seed(7);
    s.device = device;
    return trainer(s, net, opt, d);
}

static void assert_near_weights(dl_trainer *a, dl_trainer *b, double most) {
    long n, k;
    double *x = weights(a, &n), *y = weights(b, &k), off = 0, all = 0;
    assert_int_equal(n, k);
    for (long i = 0; i < n; i++) off += (x[i] - y[i]) * (x[i] - y[i]), all += y[i] * y[i];
    if (!(sqrt(off / all) <= most)) fail_msg("weights differ by %g of their norm", sqrt(off / all));
    free(x);
    free(y);
}

/* ---- as on the CPU */

static const struct {
    const char *net, *opt;
    dl_trainer_spec spec;
} plans[] = {
    {"flatten -> linear 32 -> relu -> linear 10", "sgd lr=0.05", {.loader.batch = 64}},
    {"flatten -> linear 32 -> relu -> linear 10", "sgd lr=0.05 momentum=0.9", {.loader.batch = 64, .clip_norm = 0.5}},
    {"flatten -> linear 32 -> tanh -> linear 10",
     "sgd lr=0.02 momentum=0.9 nesterov=true weight_decay=0.01",
     {.loader.batch = 100, .clip_value = 0.02}},
    {"flatten -> linear 32 -> tanh -> linear 10", "adam lr=1e-3", {.loader.batch = 64, .accumulate = 2}},
    {"flatten -> linear 32 -> tanh -> linear 10", "adamw lr=1e-3 weight_decay=0.1", {.loader.batch = 64, .ema = 0.9}},
    {"flatten -> linear 32 -> tanh -> linear 10", "adam lr=1e-3 amsgrad=true", {.loader.batch = 64}},
    {"flatten -> linear 32 -> batchnorm -> relu -> dropout 0.2 -> linear 10", "adam lr=1e-3", {.loader.batch = 64}},
    {"conv 4 k=3 pad=1 -> batchnorm -> relu -> maxpool 2 -> flatten -> linear 10",
     "adam lr=1e-3",
     {.loader.batch = 64}},
};

/* Steps op by op and from graphs; figures of every step agree with the CPU's. */
static void follows_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("448");
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        dl_trainer *a = trainer_on(0, plans[i].spec, plans[i].net, plans[i].opt, d);
        double want[20][3];
        for (int k = 0; k < 20; k++) {
            ok(dl_trainer_step(a));
            want[k][0] = get(a).loss, want[k][1] = get(a).acc, want[k][2] = get(a).grad_norm;
        }
        dl_eval_result x, y;
        ok(dl_trainer_eval(a, DL_TEST, &x));
        dl_trainer *b = trainer_on(GPU, plans[i].spec, plans[i].net, plans[i].opt, d);
        for (int k = 0; k < 20; k++) {
            ok(dl_trainer_step(b));
            dl_trainer_state s = get(b);
            bool near = fabs(s.loss - want[k][0]) < 2e-3 * want[k][0] && fabs(s.acc - want[k][1]) < 0.04 &&
                        fabs(s.grad_norm - want[k][2]) < 1e-2 * want[k][2];
            if (!near)
                fail_msg("plan %zu step %d: loss %g acc %g norm %g, on the CPU %g %g %g", i, k, s.loss, s.acc,
                         s.grad_norm, want[k][0], want[k][1], want[k][2]);
            assert_int_equal(s.step, k + 1);
        }
        ok(dl_trainer_eval(b, DL_TEST, &y));
        if (fabs(x.loss - y.loss) > 5e-3 * x.loss || fabs(x.acc - y.acc) > 0.04)
            fail_msg("plan %zu evaluation: loss %g acc %g, on the CPU %g %g", i, y.loss, y.acc, x.loss, x.acc);
        assert_near_weights(b, a, 5e-3);
        if (strcmp(dl_trainer_capture(b), "captured")) fail_msg("plan %zu: %s", i, dl_trainer_capture(b));
        dl_trainer_free(a);
        dl_trainer_free(b);
    }
    dl_dataset_unref(d);
}

/* The gradients of a net, one after the other; their number goes to *n. */
static double *gradients_of(dl_trainer *t, long *n) {
    dl_module_list *l = dl_module_tensors(dl_trainer_model(t), 1);
    double *all = NULL;
    *n = 0;
    for (long i = 0; i < l->n; i++) {
        dl_tensor *g = must(dl_to_device(dl_grad(l->entries[i].tensor), 0));
        double *v = values(g);
        all = realloc(all, (size_t)(*n + dl_numel(g)) * sizeof *all);
        assert_non_null(all);
        memcpy(all + *n, v, (size_t)dl_numel(g) * sizeof *all);
        *n += dl_numel(g);
        free(v);
        dl_unref(g);
    }
    dl_module_list_free(l);
    return all;
}

/* After a step .grad is what the limits have left, op by op and from a graph, as on the CPU. */
static void limits_show(void **state) {
    (void)state;
    NEEDS_GPU();
    static const dl_trainer_spec specs[] = {{.loader.batch = 64, .clip_norm = 0.01},
                                            {.loader.batch = 64, .clip_value = 1e-3}};
    dl_dataset *d = digits("448");
    for (int i = 0; i < 2; i++) {
        dl_trainer *t[2];
        for (int k = 0; k < 2; k++)
            t[k] = trainer_on(k ? GPU : 0, specs[i], "flatten -> linear 32 -> tanh -> linear 10", "sgd lr=0.01", d);
        for (int step = 0; step < 6; step++) {
            double *g[2], off = 0, all = 0, largest = 0;
            long n;
            for (int k = 0; k < 2; k++) {
                ok(dl_trainer_step(t[k]));
                g[k] = gradients_of(t[k], &n);
            }
            for (long k = 0; k < n; k++) {
                off += (g[0][k] - g[1][k]) * (g[0][k] - g[1][k]), all += g[1][k] * g[1][k];
                largest = fmax(largest, fabs(g[1][k]));
            }
            if (!(sqrt(off) <= 1e-4 * sqrt(all))) fail_msg("step %d: gradients differ by %g", step, sqrt(off / all));
            if (i ? largest > 1.001e-3 : fabs(sqrt(all) - 0.01) > 1e-5) fail_msg("step %d: norm %g", step, sqrt(all));
            free(g[0]), free(g[1]);
        }
        assert_string_equal(dl_trainer_capture(t[1]), "captured");
        dl_trainer_free(t[0]), dl_trainer_free(t[1]);
    }
    dl_dataset_unref(d);
}

/* Targets that are not classes; a single score, whose sign answers. */
static void other_tasks(void **state) {
    (void)state;
    NEEDS_GPU();
    static const struct {
        const char *data, *net, *loss;
    } tasks[] = {{"regression", "linear 16 -> tanh -> linear 1", "mse_loss"},
                 {"moons", "linear 16 -> tanh -> linear 1", "binary_cross_entropy_with_logits"},
                 {"spirals", "linear 16 -> tanh -> linear 2", "cross_entropy"}};
    for (int i = 0; i < 3; i++) {
        const char *options[] = {"n", "500", "test", "100", NULL};
        dl_dataset *d = dl_dataset_open(tasks[i].data, options);
        if (!d) fail_msg("%s", dl_errmsg());
        dl_eval_result r[2];
        dl_trainer_state end[2];
        for (int device = 0; device < 2; device++) {
            dl_trainer_spec s = {.loader.batch = 50, .loss = tasks[i].loss};
            dl_trainer *t = trainer_on(device, s, tasks[i].net, "adam lr=1e-2", d);
            ok(dl_trainer_train(t, 3, 0, NULL, NULL));
            ok(dl_trainer_eval(t, DL_TEST, &r[device]));
            end[device] = get(t);
            dl_trainer_free(t);
        }
        bool same = fabs(r[0].loss - r[1].loss) < 1e-3 * r[0].loss && isnan(r[0].acc) == isnan(r[1].acc) &&
                    (isnan(r[0].acc) || fabs(r[0].acc - r[1].acc) < 0.02) &&
                    fabs(end[0].loss - end[1].loss) < 1e-3 * end[0].loss;
        if (!same)
            fail_msg("%s: loss %g acc %g, on the CPU %g %g", tasks[i].data, r[1].loss, r[1].acc, r[0].loss, r[0].acc);
        dl_dataset_unref(d);
    }
}

/* A parameter that stops learning makes another step of it. */
static void frozen_parameters(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("448");
    dl_trainer *t[2];
    for (int k = 0; k < 2; k++) {
        dl_capture_set(k);
        t[k] = trainer_on(GPU, (dl_trainer_spec){.loader.batch = 64}, mlp, "adam lr=1e-3", d);
        ok(dl_trainer_train(t[k], 0, 7, NULL, NULL));
        dl_module_list *l = dl_module_tensors(dl_trainer_model(t[k]), 1);
        ok(dl_set_requires_grad(l->entries[0].tensor, 0));
        dl_set_grad(l->entries[0].tensor, NULL);
        double *before = values(l->entries[0].tensor);
        ok(dl_trainer_train(t[k], 0, 7, NULL, NULL));
        double *after = values(l->entries[0].tensor);
        assert_memory_equal(before, after, (size_t)dl_numel(l->entries[0].tensor) * sizeof *before);
        free(before), free(after);
        ok(dl_set_requires_grad(l->entries[0].tensor, 1));
        ok(dl_trainer_train(t[k], 0, 7, NULL, NULL));
        dl_module_list_free(l);
    }
    dl_capture_set(1);
    assert_same_weights(t[0], t[1]);
    assert_string_equal(dl_trainer_capture(t[1]), "parameters have made different numbers of steps");
    dl_trainer_free(t[0]), dl_trainer_free(t[1]);
    dl_dataset_unref(d);
}

/* ---- batches are the loader's, to the bit */

static void batches_are_the_loaders(void **state) {
    (void)state;
    NEEDS_GPU();
    static const char *const lists[] = {
        NULL, "crop 2, flip, vflip p=0.3",
        "rotate 20, shift 3 fill=0.5, cutout 9, normalize 0.3 std=0.7, noise 0.2, crop 3"};
    dl_dataset *d = digits("150");
    for (int i = 0; i < 3; i++) {
        dl_trainer_spec s = {.loader = {.batch = 64, .transforms = lists[i]}};
        dl_trainer *t = trainer_on(GPU, s, "flatten -> linear 10", "sgd lr=0", d);
        dl_loader_spec ls = {.batch = 64, .shuffle = 1, .transforms = lists[i], .workers = -1};
        dl_loader *l = dl_loader_new(d, DL_TRAIN, &ls);
        for (int k = 0; k < 7; k++) {
            dl_tensor *x, *y;
            ok(dl_loader_next(l, &x, &y));
            if (!x) ok(dl_loader_next(l, &x, &y));
            ok(dl_trainer_step(t));
            dl_tensor *gx = must(dl_to_device(dl_trainer_x(t), 0)), *gy = must(dl_to_device(dl_trainer_y(t), 0));
            assert_int_equal(dl_numel(gx), dl_numel(x));
            if (memcmp(dl_data(gx), dl_data(x), (size_t)dl_numel(x) * sizeof(float)))
                fail_msg("batch %d with %s differs by %g", k, lists[i] ? lists[i] : "no transforms", distance(gx, x));
            assert_memory_equal(dl_data(gy), dl_data(y), (size_t)dl_numel(y) * sizeof(long));
            dl_unref(x), dl_unref(y), dl_unref(gx), dl_unref(gy);
        }
        dl_loader_free(l);
        dl_trainer_free(t);
    }
    dl_dataset_unref(d);
}

static void integers_arrive(void **state) {
    (void)state;
    NEEDS_GPU();
    assert_integers_arrive(GPU);
}

/* ---- the same bits */

static dl_trainer *trained(const char *net, const char *opt, dl_trainer_spec s, dl_dataset *d, int captured, long steps,
                           const char *note) {
    dl_capture_set(captured);
    dl_trainer *t = trainer_on(GPU, s, net, opt, d);
    ok(dl_trainer_train(t, 0, steps, NULL, NULL));
    assert_string_equal(dl_trainer_capture(t), note);
    dl_capture_set(1);
    return t;
}

static void graphs_end_in_the_same_bits(void **state) {
    (void)state;
    NEEDS_GPU();
    static const char *const opts[] = {"sgd lr=0.05 momentum=0.9", "adam lr=1e-3"};
    dl_dataset *d = digits("350"); /* the last of six batches is short */
    for (int i = 0; i < 4; i++) {
        const char *net = i & 1 ? conv : mlp, *opt = opts[i / 2];
        dl_trainer_spec s = {.loader = {.batch = 64, .transforms = "crop 2, flip"}, .clip_norm = 1, .ema = 0.9};
        dl_trainer *a = trained(net, opt, s, d, 1, 60, "captured"), *b = trained(net, opt, s, d, 1, 60, "captured");
        dl_trainer *c = trained(net, opt, s, d, 0, 60, "capture is off");
        assert_same_weights(a, b);
        assert_same_weights(a, c);
        assert_true(get(a).loss == get(c).loss && get(a).grad_norm == get(c).grad_norm);
        dl_trainer_free(a), dl_trainer_free(b), dl_trainer_free(c);
    }
    dl_dataset_unref(d);
}

/* What a step has shown and someone keeps does not change when its graph runs again. */
static void what_is_kept_stays(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("320");
    dl_tensor *kept[2][3];
    dl_trainer *t[2];
    for (int k = 0; k < 2; k++) {
        t[k] = trained(mlp, "adam lr=1e-3", (dl_trainer_spec){.loader.batch = 64}, d, k, 8,
                       k ? "captured" : "capture is off");
        dl_tensor *now[3] = {dl_ref(dl_trainer_output(t[k])), dl_ref(t[k]->param[0]->grad),
                             must(dl_detach(dl_trainer_loss(t[k])))};
        memcpy(kept[k], now, sizeof now);
        dl_capture_set(k);
        ok(dl_trainer_train(t[k], 0, 6, NULL, NULL));
        dl_capture_set(1);
    }
    for (int i = 0; i < 3; i++) {
        dl_tensor *a = must(dl_to_device(kept[0][i], 0)), *b = must(dl_to_device(kept[1][i], 0));
        near(b, a, 0, (const char *[]){"output", "gradient", "loss"}[i]);
        dl_unref(a), dl_unref(b), dl_unref(kept[0][i]), dl_unref(kept[1][i]);
    }
    assert_same_weights(t[0], t[1]);
    dl_trainer_free(t[0]), dl_trainer_free(t[1]);
    dl_dataset_unref(d);
}

/* Training on a second GPU, where there is one, ends in the bits of the first. */
static void on_another_gpu(void **state) {
    (void)state;
    NEEDS_GPU();
    if (dl_device_count() <= GPU + 1) {
        print_message("skipped: one GPU\n");
        skip();
    }
    dl_dataset *d = digits("350");
    dl_trainer_spec s = {.loader = {.batch = 64, .transforms = "crop 2, flip"}};
    dl_trainer *t[2];
    for (int k = 0; k < 2; k++) {
        t[k] = trainer_on(GPU + k, s, conv, "adam lr=1e-3", d);
        ok(dl_trainer_train(t[k], 4, 0, NULL, NULL));
        assert_string_equal(dl_trainer_capture(t[k]), "captured");
    }
    assert_same_weights(t[0], t[1]);
    dl_trainer_free(t[0]), dl_trainer_free(t[1]);
    dl_dataset_unref(d);
}

/* A graph holds the seed of dropout and those of transforms; another one makes another graph. */
static void seeds_may_change(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("350");
    dl_trainer_spec s = {.loader = {.batch = 64, .transforms = "crop 2, flip"}};
    dl_trainer *a = trained(mlp, "sgd lr=0.05", s, d, 1, 20, "captured");
    dl_seed(99);
    ok(dl_trainer_train(a, 0, 20, NULL, NULL));
    assert_string_equal(dl_trainer_capture(a), "captured");
    dl_trainer *b = trained(mlp, "sgd lr=0.05", s, d, 0, 20, "capture is off");
    dl_seed(99);
    dl_capture_set(0);
    ok(dl_trainer_train(b, 0, 20, NULL, NULL));
    dl_capture_set(1);
    assert_same_weights(a, b);
    dl_trainer_free(a), dl_trainer_free(b);
    dl_dataset_unref(d);
}

/* Batches that the host makes travel beside the step and are the same. */
static void batches_from_the_host(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("350");
    dl_trainer_spec s = {.loader = {.batch = 64, .transforms = "crop 2"}};
    dl_trainer *a = trained(mlp, "adam lr=1e-3", s, d, 1, 60, "captured");
    dl_trainer *b = trainer_on(GPU, s, mlp, "adam lr=1e-3", d);
    b->resident_asked[DL_TRAIN] = true; /* and found too large */
    ok(dl_trainer_train(b, 0, 60, NULL, NULL));
    assert_string_equal(dl_trainer_capture(b), "captured");
    assert_same_weights(a, b);
    dl_trainer_free(a), dl_trainer_free(b);
    dl_dataset_unref(d);
}

/* Parts of steps by hand, and schedules. */
static dl_status falling(void *ctx, long step, double *lr) {
    (void)ctx;
    *lr = 0.01 / (1 + (double)step);
    return DL_OK;
}

static void by_hand(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("350");
    dl_schedule *f = dl_schedule_function(falling, NULL, NULL);
    dl_trainer_spec s = {.loader.batch = 64, .schedule = f};
    dl_trainer *a = trained(mlp, "adam lr=1e-3", s, d, 1, 15, "captured");
    dl_trainer *b = trainer_on(GPU, s, mlp, "adam lr=1e-3", d);
    for (int i = 0; i < 15; i++)
        if (i % 4 == 3) {
            ok(dl_trainer_forward(b));
            assert_true(get(b).loss > 0);
            ok(dl_trainer_backward(b));
            ok(dl_trainer_update(b));
        } else
            ok(dl_trainer_step(b));
    assert_same_weights(a, b);
    assert_true(get(a).lr == get(b).lr && get(b).lr == 0.01 / 15);
    dl_trainer_free(a), dl_trainer_free(b);
    dl_schedule_unref(f);
    dl_dataset_unref(d);
}

/* ---- going on from a checkpoint */

static void resumes(void **state) {
    (void)state;
    NEEDS_GPU();
    char path[64];
    snprintf(path, sizeof path, "/tmp/dlsh-test-%d.safetensors", (int)getpid());
    dl_dataset *d = digits("350");
    dl_trainer_spec s = {.loader.batch = 64};
    dl_trainer *a = trained(mlp, "adam lr=1e-3", s, d, 1, 11, "captured");
    ok(dl_trainer_save(a, path));
    ok(dl_trainer_train(a, 0, 20, NULL, NULL));
    dl_trainer *b = trainer_on(GPU, s, mlp, "adam lr=1e-3", d);
    ok(dl_trainer_load(b, path));
    ok(dl_trainer_train(b, 0, 20, NULL, NULL));
    assert_same_weights(a, b);
    ok(dl_trainer_load(a, path)); /* into one that has graphs */
    ok(dl_trainer_train(a, 0, 20, NULL, NULL));
    assert_same_weights(a, b);
    assert_int_equal(get(a).step, 31);
    unlink(path);
    dl_trainer_free(a), dl_trainer_free(b);
    dl_dataset_unref(d);
}

/* Back to earlier steps and forward again, with captured steps: the same bits. */
static void rewinds(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("350");
    dl_trainer_spec s = {.loader.batch = 64, .ema = 0.9};
    dl_trainer *a = trainer_on(GPU, s, mlp, "adam lr=1e-3", d);
    char end[65], middle[65], hash[65];
    long from, checked;
    ok(dl_trainer_train(a, 0, 40, NULL, NULL));
    ok(dl_trainer_hash(a, middle));
    ok(dl_trainer_train(a, 0, 60, NULL, NULL));
    ok(dl_trainer_hash(a, end));
    for (int i = 0; i < 3; i++) {
        ok(dl_trainer_rewind(a, 40, &from, NULL, NULL));
        assert_int_equal(get(a).step, 40);
        ok(dl_trainer_hash(a, hash));
        assert_string_equal(hash, middle);
        ok(dl_trainer_replay(a, i ? -1 : 77, &checked, NULL, NULL));
        if (!i) ok(dl_trainer_replay(a, -1, &checked, NULL, NULL));
        assert_true(checked > 0);
        ok(dl_trainer_hash(a, hash));
        assert_string_equal(hash, end);
    }
    dl_trainer_free(a);
    dl_dataset_unref(d);
}

/* ---- divergence */

static void stops_where_it_diverges(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("640");
    dl_trainer_spec s = {.loader.batch = 64};
    dl_trainer *t[2];
    long step[2];
    for (int k = 0; k < 2; k++) {
        t[k] = trainer_on(GPU, s, "flatten -> linear 32 -> batchnorm -> softplus -> linear 10", "sgd lr=0.1", d);
        ok(dl_trainer_train(t[k], 0, 12, NULL, NULL));
        ok(dl_trainer_set_lr(t[k], 1e38)); /* the next steps blow up */
        dl_status st = DL_OK;
        if (k == 0)
            st = dl_trainer_train(t[k], 0, 30, NULL, NULL);
        else
            while (st == DL_OK) st = dl_trainer_step(t[k]);
        assert_int_equal(st, DL_ERR_VALUE);
        assert_non_null(strstr(dl_errmsg(), "training diverged"));
        step[k] = get(t[k]).step;
        assert_true(get(t[k]).diverged);
    }
    assert_int_equal(step[0], step[1]); /* under way or one by one: the same step, the same weights and statistics */
    assert_same_weights(t[0], t[1]);
    assert_int_equal(get(t[0]).batch, get(t[1]).batch);
    assert_int_equal(dl_optimizer_steps(dl_trainer_optimizer(t[0])), step[0]);
    dl_trainer_free(t[0]), dl_trainer_free(t[1]);
    dl_dataset_unref(d);
}

/* Under f16 a scale that is too large is lowered, and the steps it spoils are left out. */
static void scales_the_loss(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("640");
    dl_trainer_spec s = {.loader.batch = 64};
    ok(dl_precision_set(DL_PRECISION_F16));
    dl_trainer *t = trainer_on(GPU, s, "flatten -> linear 64 -> relu -> linear 10", "sgd lr=0.05 momentum=0.9", d);
    double large[2] = {ldexp(1, 30), 0}, scale;
    ok(dl_device_copy(&t->control->scale, GPU, large, 0, sizeof large));
    ok(dl_trainer_train(t, 8, 0, NULL, NULL));
    ok(dl_device_copy(&scale, 0, &t->control->scale, GPU, sizeof scale));
    assert_true(scale < large[0] && scale >= 1);
    assert_int_equal(get(t).step, 80);
    long done = dl_optimizer_steps(dl_trainer_optimizer(t));
    if (scale != ldexp(large[0], -(int)(80 - done))) fail_msg("scale %g after %ld updates", scale, done);
    dl_eval_result r;
    ok(dl_trainer_eval(t, DL_TRAIN, &r));
    if (!(r.loss < 0.8)) fail_msg("loss %g", r.loss);
    assert_string_equal(dl_trainer_capture(t), "captured");
    ok(dl_precision_set(DL_PRECISION_F32));
    dl_trainer_free(t);
    dl_dataset_unref(d);
}

/* ---- reports of every step, in order */

typedef struct seen {
    long calls, step, ends;
    double loss[200];
} seen;

static int look(void *ctx, const dl_train_progress *p) {
    seen *s = ctx;
    if (s->calls < 200) s->loss[s->calls] = p->loss;
    if (p->step != ++s->step) return 1;
    s->calls++, s->ends += p->epoch_end;
    return 0;
}

static void every_step_is_told(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("350");
    dl_trainer_spec s = {.loader.batch = 64};
    dl_trainer *a = trainer_on(GPU, s, mlp, "adam lr=1e-3", d), *b;
    seen all = {0};
    ok(dl_trainer_train(a, 4, 0, look, &all));
    assert_int_equal(all.calls, 24);
    assert_int_equal(all.ends, 4);
    b = trainer_on(GPU, s, mlp, "adam lr=1e-3", d);
    for (int i = 0; i < 24; i++) {
        ok(dl_trainer_step(b));
        assert_true(get(b).loss == all.loss[i]);
    }
    dl_trainer_free(a), dl_trainer_free(b);
    dl_dataset_unref(d);
}

static void memory_stays(void **state) {
    (void)state;
    NEEDS_GPU();
    static const char *const nets[] = {mlp, conv,
                                       "conv 8 k=3 pad=1 -> relu -> maxpool 2 -> conv 16 k=3 pad=1 -> relu -> maxpool "
                                       "2 -> flatten -> linear 32 -> relu "
                                       "-> linear 10",
                                       "flatten -> linear 20 -> repeat 2 { residual { linear 10 -> batchnorm -> relu "
                                       "-> linear 20 } -> relu } -> linear 10"};
    dl_dataset *d = digits("640");
    for (int i = 0; i < 5; i++) { /* the last one op by op */
        dl_capture_set(i < 4);
        dl_trainer *t =
            trainer_on(GPU, (dl_trainer_spec){.loader.batch = 64, .clip_norm = i % 2}, nets[i % 4], "adam lr=1e-3", d);
        dl_device_memory before, after;
        ok(dl_trainer_train(t, 0, 100, NULL, NULL));
        ok(dl_device_memory_get(GPU, &before));
        ok(dl_trainer_train(t, 0, i < 4 ? 10000 : 1000, NULL, NULL));
        ok(dl_device_memory_get(GPU, &after));
        assert_int_equal(before.used, after.used);
        assert_int_equal(before.cached, after.cached);
        dl_trainer_free(t);
    }
    dl_capture_set(1);
    dl_dataset_unref(d);
}

/* Losses of the caller are computed op by op, and the trainer says so. */
static dl_tensor *own_loss(void *ctx, const dl_pack *output, const dl_pack *target) {
    (void)ctx;
    return dl_cross_entropy(dl_pack_tensor(output, 0), dl_pack_tensor(target, 0), NULL, "mean", -100, 0.1);
}

static void functions_run_eagerly(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_dataset *d = digits("350");
    dl_trainer_spec s = {.loader.batch = 64, .loss_fn = own_loss, .loss = "own"};
    dl_trainer *t = trainer_on(GPU, s, mlp, "adam lr=1e-3", d);
    ok(dl_trainer_train(t, 3, 0, NULL, NULL));
    assert_string_equal(dl_trainer_capture(t), "the loss is a function");
    dl_trainer_free(t);
    dl_dataset_unref(d);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_cpu),
        cmocka_unit_test(limits_show),
        cmocka_unit_test(other_tasks),
        cmocka_unit_test(frozen_parameters),
        cmocka_unit_test(batches_are_the_loaders),
        cmocka_unit_test(integers_arrive),
        cmocka_unit_test(graphs_end_in_the_same_bits),
        cmocka_unit_test(seeds_may_change),
        cmocka_unit_test(on_another_gpu),
        cmocka_unit_test(what_is_kept_stays),
        cmocka_unit_test(batches_from_the_host),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(resumes),
        cmocka_unit_test(rewinds),
        cmocka_unit_test(stops_where_it_diverges),
        cmocka_unit_test(scales_the_loss),
        cmocka_unit_test(every_step_is_told),
        cmocka_unit_test(memory_stays),
        cmocka_unit_test(functions_run_eagerly),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
