/* Breakpoints of trainings, on the CPU and on a device made of the host's memory whose reports are late: a step is
 * stopped before its update, from graphs and op by op, and training goes on as if it had never been. */
#include "support/fake_device.h"
#include "support/training.h"

#include "core/mode.h"
#include "nn/module.h"
#include "train/trainer.h"
#include "dlcore/compare.h"
#include "dlcore/elementary.h"
#include "dlcore/reduce.h"

static const char mlp[] = "flatten -> linear 32 -> batchnorm -> relu -> dropout 0.1 -> head: linear 10";
enum { STEPS = 40 };

static dl_trainer *fresh(int device, dl_dataset *d) {
    dl_seed(7);
    return trainer(
        (dl_trainer_spec){.device = device, .loader.batch = 64, .eval_every = -1, .ema = 0.9, .clip_norm = 0.5}, mlp,
        "adam lr=1e-2", d);
}

static const char *hash_of(dl_trainer *t) {
    static char hash[4][65];
    static int at;
    ok(dl_trainer_hash(t, hash[at = (at + 1) % 4]));
    return hash[at];
}

/* The loss is below a limit; kind 1: its value is read by the host. */
typedef struct condition {
    double limit;
    int host, compared, asked; /* compared: where the step ends */
} condition;

static dl_status below(void *ctx, dl_trainer *t, dl_break_value *out) {
    condition *c = ctx;
    c->asked++;
    if (c->compared) {
        *out = (dl_break_value){dl_ref(dl_trainer_loss(t)), DL_BREAK_LESS, c->limit, DL_BREAK_VALUE};
        return DL_OK;
    }
    dl_tensor *limit = must(dl_scalar_f(c->limit)), *less = must(dl_lt(dl_trainer_loss(t), limit));
    out->is = c->host ? must(dl_to_device(less, 0)) : dl_ref(less);
    dl_unref(limit), dl_unref(less);
    return DL_OK;
}

static dl_status same_key(void *ctx, unsigned long *out) { return (void)ctx, *out = 1, DL_OK; }

static int stop_below(dl_trainer *t, condition *c, long ignore) {
    int number = -1;
    ok(dl_trainer_break(
        t,
        &(dl_breakpoint){
            .text = "loss < limit", .fn = below, .key = c->host ? NULL : same_key, .ctx = c, .ignore = ignore},
        &number));
    return number;
}

/* Losses of a straight run, and its states before and after `step`. */
typedef struct straight {
    double loss[STEPS];
    char before[65], end[65];
} straight;

static straight run_straight(int device, dl_dataset *d, long step) {
    straight s;
    dl_trainer *t = fresh(device, d);
    for (long i = 0; i < STEPS; i++) {
        if (i == step) strcpy(s.before, hash_of(t));
        ok(dl_trainer_step(t));
        s.loss[i] = get(t).loss;
    }
    strcpy(s.end, hash_of(t));
    dl_trainer_free(t);
    return s;
}

/* The step of index `from` or later at which the loss first begins to be below the limit. */
static long first_below(const straight *s, double limit, long from) {
    for (long i = 0; i < STEPS; i++)
        if (s->loss[i] < limit && (!i || !(s->loss[i - 1] < limit)) && i >= from) return i;
    fail_msg("the loss is never below %g", limit);
    return -1;
}

static void check_stop(int device, int host, int captured, long late, dl_dataset *d) {
    const straight plain = run_straight(device, d, STEPS);
    const double limit = 0.5 * (plain.loss[0] + plain.loss[STEPS - 1]);
    const long at = first_below(&plain, limit, 6);
    const straight s = run_straight(device, d, at);
    condition c = {.limit = limit, .host = host, .compared = !host && late};
    long step;
    dl_capture_set(captured);
    fake.late = late, fake.replays = 0;
    dl_trainer *t = fresh(device, d);
    stop_below(t, &c, 0);
    long reached = 0;
    for (int stops = 0; stops < STEPS && reached <= at; stops++) {
        ok(dl_trainer_train(t, 0, STEPS - get(t).step, NULL, NULL));
        assert_true(dl_trainer_broke(t, &step) == 1);
        reached = step - 1;
        if (reached == at) break;
    }
    assert_int_equal(reached, at);
    assert_int_equal(get(t).step, at);
    assert_non_null(strstr(get(t).stopped, "loss < limit holds in step"));
    assert_string_equal(hash_of(t), s.before);
    assert_int_equal(dl_optimizer_steps(dl_trainer_optimizer(t)), at);
    double loss;
    dl_tensor *l = must(dl_to_device(dl_trainer_loss(t), 0));
    ok(dl_item_f(l, &loss));
    dl_unref(l);
    assert_true(loss == s.loss[at]); /* of the step that was stopped */
    while (get(t).step < STEPS) ok(dl_trainer_train(t, 0, STEPS - get(t).step, NULL, NULL));
    assert_string_equal(hash_of(t), s.end);
    if (device && captured) assert_true((fake.replays > STEPS / 2) == !host);
    if (host && device) assert_non_null(strstr(dl_trainer_capture(t), captured ? "evaluated on the host" : "off"));
    dl_capture_set(1);
    fake.late = 0;
    dl_trainer_free(t);
}

static void stops_before_the_update(void **state) {
    (void)state;
    dl_dataset *d = digits("350");
    check_stop(0, 0, 1, 0, d);
    for (int host = 0; host < 2; host++)
        for (int captured = 0; captured < 2; captured++)
            for (long late = 0; late <= DL_LATE; late += DL_LATE) check_stop(FAKE, host, captured, late, d);
    dl_dataset_unref(d);
    assert_int_equal(fake.used, 0);
}

/* Where it is never true nothing changes; a condition of the device is asked while steps run op by op alone. */
static void never_fires(void **state) {
    (void)state;
    dl_dataset *d = digits("350");
    for (int device = 0; device <= FAKE; device++) {
        const straight s = run_straight(device, d, STEPS);
        condition c = {.limit = -1};
        dl_trainer *t = fresh(device, d);
        const int number = stop_below(t, &c, 0);
        long step, hits;
        int host;
        ok(dl_trainer_train(t, 0, STEPS, NULL, NULL));
        assert_int_equal(dl_trainer_broke(t, &step), 0);
        assert_string_equal(hash_of(t), s.end);
        if (device) assert_true(c.asked < 12);
        ok(dl_trainer_break_hits(t, number, &hits, &host));
        assert_int_equal(hits, 0);
        assert_int_equal(host, 0);
        ok(dl_trainer_unbreak(t, number));
        assert_int_equal(dl_trainer_unbreak(t, number), DL_ERR_INDEX);
        dl_trainer_free(t);
    }
    dl_dataset_unref(d);
    assert_int_equal(fake.used, 0);
}

/* The first two times are passed over. */
static void passed_over(void **state) {
    (void)state;
    dl_dataset *d = digits("350");
    const straight s = run_straight(FAKE, d, STEPS);
    double limit = s.loss[12];
    long at = -1, begins = 0;
    for (long i = 0; i < STEPS && begins < 3; i++)
        if (s.loss[i] < limit && (!i || !(s.loss[i - 1] < limit))) begins++, at = i;
    condition c = {.limit = limit};
    dl_trainer *t = fresh(FAKE, d);
    long step, hits;
    int host, number = stop_below(t, &c, begins - 1);
    ok(dl_trainer_train(t, 0, STEPS, NULL, NULL));
    assert_int_equal(dl_trainer_broke(t, &step), 1);
    assert_int_equal(step, at + 1);
    ok(dl_trainer_break_hits(t, number, &hits, &host));
    assert_int_equal(hits, begins);
    dl_trainer_free(t);
    dl_dataset_unref(d);
}

/* A NaN in gradients stops before the loss that follows from it is an error, and weights are as before. */
static void nan_in_gradients(void **state) {
    (void)state;
    dl_dataset *d = digits("640");
    for (int device = 0; device <= FAKE; device++)
        for (int wanted = 2; wanted >= 0; wanted--) {
            const int part = wanted == 2; /* gradients of all but one, which are looked at; else the norm tells */
            dl_seed(7);
            dl_trainer *t = trainer((dl_trainer_spec){.device = device, .loader.batch = 64},
                                    "flatten -> linear 32 -> softplus -> linear 10", "sgd lr=0.1", d);
            int number;
            long step;
            if (wanted)
                ok(dl_trainer_break(
                    t,
                    &(dl_breakpoint){
                        .text = "nan", .param = t->param, .nparam = t->nparam - part, .test = DL_BREAK_NAN},
                    &number));
            fake.late = DL_LATE;
            ok(dl_trainer_train(t, 0, 12, NULL, NULL));
            assert_int_equal(dl_trainer_broke(t, &step), 0);
            ok(dl_trainer_set_lr(t, 1e38));
            const dl_status st = dl_trainer_train(t, 0, 30, NULL, NULL);
            if (wanted) {
                assert_int_equal(st, DL_OK);
                assert_int_equal(dl_trainer_broke(t, &step), 1);
                assert_false(get(t).diverged);
                assert_int_equal(get(t).step, step - 1);
            } else
                assert_int_equal(st, DL_ERR_VALUE);
            dl_trainer_free(t);
            fake.late = 0;
        }
    dl_dataset_unref(d);
}

static dl_status broken(void *ctx, dl_trainer *t, dl_break_value *out) {
    (void)ctx, (void)t, (void)out;
    return dl_fail(DL_ERR_TYPE, "no condition");
}

/* A condition that fails is an error of the step, and changes nothing; rewound steps have no breakpoints. */
static void failures_and_rewinds(void **state) {
    (void)state;
    dl_dataset *d = digits("350");
    for (int device = 0; device <= FAKE; device++) {
        dl_trainer *t = fresh(device, d);
        condition c = {.limit = 1e9};
        long from, step, checked;
        ok(dl_trainer_train(t, 0, 10, NULL, NULL));
        char end[65];
        strcpy(end, hash_of(t));
        int number;
        ok(dl_trainer_break(t, &(dl_breakpoint){.text = "broken", .fn = broken, .key = same_key}, &number));
        assert_int_equal(dl_trainer_step(t), DL_ERR_TYPE);
        ok(dl_trainer_unbreak(t, number));
        stop_below(t, &c, 0);
        ok(dl_trainer_rewind(t, 4, &from, NULL, NULL));
        assert_int_equal(get(t).step, 4);
        ok(dl_trainer_replay(t, 10, &checked, NULL, NULL));
        assert_int_equal(dl_trainer_broke(t, &step), 0);
        assert_int_equal(c.asked, 0);
        ok(dl_trainer_step(t));
        assert_int_equal(dl_trainer_broke(t, &step), 1);
        dl_trainer_free(t);
    }
    dl_dataset_unref(d);
    assert_int_equal(fake.used, 0);
}

enum { UNWATCHED = -1 };
/* A measure of a gradient, or of the result of a layer, taken where the step ends. */
typedef struct measuring {
    int of; /* dl_break_measure, or UNWATCHED */
    dl_break_test test;
    double limit, by_ops; /* what ops make of it in the last step that ran op by op */
    dl_module *layer;     /* NULL: the gradient of the first parameter */
    long side;            /* of the pictures that it was last measured of */
    int beside;           /* what it was last measured of was computed without a history */
    int alone, squares;   /* its norm is all that is asked of the layer; sums of squares were given instead */
    char hash[65];        /* of the trainer at the end */
} measuring;

static double by_ops(dl_tensor *x, dl_break_measure of) {
    const long over[] = {0, 2, 3};
    double v;
    dl_tensor *zero = must(dl_scalar_f(0)), *low = must(dl_le(x, zero)), *nan = must(dl_isnan(x)), *one = NULL;
    dl_tensor *dead = must(dl_all(low, over, dl_ndim(x) > 2 ? 3 : 1, 0)), *f = must(dl_to_dtype(dead, DL_F32));
    if (of == DL_BREAK_NORM) one = must(dl_norm(x, NULL, 0, 0, 2));
    if (of == DL_BREAK_DEAD) one = must(dl_mean(f, NULL, 0, 0));
    if (!one) one = must(dl_any(nan, NULL, 0, 0));
    dl_tensor *there = must(dl_to_device(one, 0));
    ok(dl_item_f(there, &v));
    dl_unref(zero), dl_unref(low), dl_unref(nan), dl_unref(dead), dl_unref(f), dl_unref(one), dl_unref(there);
    return v;
}

static dl_status measure(void *ctx, dl_trainer *t, dl_break_value *out) {
    measuring *m = ctx;
    dl_tensor *x = m->layer ? dl_module_kept(m->layer) : t->param[0]->grad;
    m->squares = m->layer && dl_module_kept_squares(m->layer);
    if (!dl_deferred_get() && !m->squares) m->by_ops = by_ops(x, m->of);
    m->side = x->ndim == 4 ? x->shape[3] : 0, m->beside = !dl_requires_grad(x);
    *out = (dl_break_value){dl_ref(x), m->test, m->limit, m->squares ? DL_BREAK_SQUARES : (dl_break_measure)m->of};
    return DL_OK;
}

/* How many of 12 steps are made before the measure is on the wrong side of the limit. */
static long measured_steps(int device, const char *net, measuring *m, const char *layer, double clip_value,
                           dl_dataset *d) {
    dl_seed(7);
    dl_trainer *t =
        trainer((dl_trainer_spec){.device = device, .loader.batch = 64, .eval_every = -1, .clip_value = clip_value},
                net, "sgd lr=1e-3", d);
    for (int i = 0; strstr(net, "maxpool") && i < 3; i++) ((float *)dl_ptr(t->param[1]))[i] = -100; /* dead channels */
    m->layer = layer ? dl_module_find(dl_trainer_model(t), layer) : NULL;
    int number;
    if (m->of != UNWATCHED)
        ok(dl_trainer_break(
            t,
            &(dl_breakpoint){
                .text = "m", .fn = measure, .key = same_key, .ctx = m, .layer = &m->layer, .nlayers = m->layer != NULL},
            &number));
    if (m->layer && m->of == DL_BREAK_DEAD) dl_module_keep(m->layer, DL_KEEPS_PEAKS);
    if (m->layer && m->alone) dl_module_keep(m->layer, DL_KEEPS_NORM);
    ok(dl_trainer_train(t, 0, 12, NULL, NULL));
    long steps = get(t).step;
    strcpy(m->hash, hash_of(t));
    dl_trainer_free(t);
    return steps;
}

/* What the end of the step measures is what ops compute: it is between limits just below and above that. A layer that
 * ends a fused pair stays in it. */
static void measures(void **state) {
    (void)state;
    static const char conv[] = "conv 6 3 stride=2 -> batchnorm -> relu -> flatten -> linear 10";
    static const char sparse[] = "flatten -> linear 32 -> dropout 0.98 -> relu -> linear 10"; /* about half are dead */
    static const char pooled[] = "conv 6 3 -> relu -> maxpool 2 -> flatten -> linear 10";     /* of 26 x 26 */
    static const char skipped[] = "conv 6 2 -> relu -> maxpool 2 -> flatten -> linear 10"; /* a row is left out of 27 */
    static const struct {
        const char *net, *layer;
        dl_break_measure of;
        double clip_value;
    } rows[] = {{mlp, NULL, DL_BREAK_NORM, 0},        {mlp, NULL, DL_BREAK_NORM, 1e-3},
                {mlp, "relu0", DL_BREAK_NORM, 0},     {mlp, "relu0", DL_BREAK_DEAD, 0},
                {conv, "relu0", DL_BREAK_DEAD, 0},    {sparse, "relu0", DL_BREAK_DEAD, 0},
                {conv, "relu0", DL_BREAK_ANY_NAN, 0}, {pooled, "relu0", DL_BREAK_DEAD, 0},
                {skipped, "relu0", DL_BREAK_DEAD, 0}, {pooled, "relu0", DL_BREAK_NORM, 0}};
    dl_dataset *d = digits("350");
    for (int device = 0; device <= FAKE; device++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            measuring m = {.of = rows[i].of, .test = DL_BREAK_GREATER_EQUAL, .limit = -1};
            assert_int_equal(measured_steps(device, rows[i].net, &m, rows[i].layer, rows[i].clip_value, d), 0);
            if (rows[i].net == pooled && m.of == DL_BREAK_DEAD) assert_true(m.by_ops == 0.5);
            const double v = m.by_ops, near = 1e-5 * v + 1e-9;
            m.limit = v - near;
            assert_int_equal(measured_steps(device, rows[i].net, &m, rows[i].layer, rows[i].clip_value, d), 0);
            m.test = DL_BREAK_LESS_EQUAL, m.limit = v + near;
            assert_int_equal(measured_steps(device, rows[i].net, &m, rows[i].layer, rows[i].clip_value, d), 0);
            m.test = DL_BREAK_LESS, m.limit = -1;
            const long side = rows[i].net == skipped  ? 27
                              : rows[i].net == pooled ? 26
                                                      : m.side,
                       half = device && rows[i].net == pooled && m.of == DL_BREAK_DEAD ? side / 2 : side;
            assert_int_equal(measured_steps(device, rows[i].net, &m, rows[i].layer, rows[i].clip_value, d), 12);
            assert_int_equal(m.side, half); /* such a relu runs as one with the pooling behind it, where both can */
            const int within = device && (rows[i].net == pooled || rows[i].net == skipped);
            if (rows[i].layer && side != half) assert_false(m.beside);
            if (within && side == half) assert_true(m.beside); /* it does so also when its own result is looked at */
            measuring none = {.of = UNWATCHED};
            assert_int_equal(measured_steps(device, rows[i].net, &none, rows[i].layer, rows[i].clip_value, d), 12);
            assert_string_equal(m.hash, none.hash);
            if (!rows[i].layer || m.of != DL_BREAK_NORM) continue;
            measuring alone = {.of = m.of, .test = DL_BREAK_LESS_EQUAL, .limit = v + near, .alone = 1};
            assert_int_equal(measured_steps(device, rows[i].net, &alone, rows[i].layer, 0, d), 0);
            assert_int_equal(alone.squares, within); /* what runs as one gives them beside */
            alone.test = DL_BREAK_GREATER_EQUAL, alone.limit = v - near;
            assert_int_equal(measured_steps(device, rows[i].net, &alone, rows[i].layer, 0, d), 0);
            alone.test = DL_BREAK_GREATER, alone.limit = 2 * v + 1;
            assert_int_equal(measured_steps(device, rows[i].net, &alone, rows[i].layer, 0, d), 12);
            assert_string_equal(alone.hash, none.hash);
        }
    dl_dataset_unref(d);
    assert_int_equal(fake.used, 0);
}

static int begin(void **state) {
    (void)state;
    fake_register();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_before_the_update),
        cmocka_unit_test(never_fires),
        cmocka_unit_test(passed_over),
        cmocka_unit_test(nan_in_gradients),
        cmocka_unit_test(failures_and_rewinds),
        cmocka_unit_test(measures),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
