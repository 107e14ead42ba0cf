/* Trainers of small nets on drawn digits, for tests. */
#ifndef TESTS_SUPPORT_TRAINING_H
#define TESTS_SUPPORT_TRAINING_H

#include "dlcore/create.h"
#include "support/tensors.h"
#include "train/trainer.h"

static inline dl_dataset *digits(const char *n) {
    const char *options[] = {"n", n, "test", "64", "seed", "5", NULL};
    dl_dataset *d = dl_dataset_open("digits", options);
    if (!d) fail_msg("%s", dl_errmsg());
    return d;
}

/* Rows of four tokens below 10, and targets [n, 2] of integers that no float holds, or classes. */
static inline dl_dataset *tokens(long n, int classes) {
    dl_seed(3);
    dl_tensor *x = must(dl_randint(0, 10, (long[]){n, 4}, 2, DL_I64, 0)),
              *y = must(classes ? dl_randint(0, 10, (long[]){n}, 1, DL_I64, 0)
                                : dl_randint(1L << 53, 1L << 54, (long[]){n, 2}, 2, DL_I64, 0));
    dl_dataset *d = dl_dataset_from(x, y, NULL, NULL, "tokens");
    if (!d) fail_msg("%s", dl_errmsg());
    dl_unref(x), dl_unref(y);
    return d;
}

/* Batches of the training split on the device are the loader's, bit for bit. */
static inline void assert_batches(dl_trainer *t, dl_dataset *d, long batch, int count) {
    dl_loader_spec s = {.batch = batch, .shuffle = 1, .workers = -1};
    dl_loader *l = dl_loader_new(d, DL_TRAIN, &s);
    for (int k = 0; k < count; k++) {
        dl_tensor *x, *y;
        ok(dl_loader_next(l, &x, &y));
        if (!x) ok(dl_loader_next(l, &x, &y));
        ok(dl_trainer_step(t));
        dl_tensor *gx = must(dl_to_device(dl_trainer_x(t), 0)), *gy = must(dl_to_device(dl_trainer_y(t), 0));
        assert_int_equal(dl_dtype_of(gx), dl_dtype_of(x));
        assert_int_equal(dl_dtype_of(gy), dl_dtype_of(y));
        assert_int_equal(dl_numel(gx), dl_numel(x));
        assert_int_equal(dl_numel(gy), dl_numel(y));
        assert_memory_equal(dl_data(gx), dl_data(x), (size_t)(dl_numel(x) * dl_dtype_size(dl_dtype_of(x))));
        assert_memory_equal(dl_data(gy), dl_data(y), (size_t)(dl_numel(y) * dl_dtype_size(dl_dtype_of(y))));
        dl_unref(x), dl_unref(y), dl_unref(gx), dl_unref(gy);
    }
    dl_loader_free(l);
}

/* Makes a trainer from text; fields of `s` not set here are the caller's. */
static inline dl_trainer *trainer(dl_trainer_spec s, const char *net, const char *opt, dl_dataset *d) {
    s.model = dl_net_parse(net);
    s.opt = dl_optimizer_parse(opt);
    if (!s.model || !s.opt) fail_msg("%s", dl_errmsg());
    s.data = d;
    dl_trainer *t = dl_trainer_new(&s);
    if (!t) fail_msg("%s", dl_errmsg());
    dl_module_unref(s.model);
    dl_optimizer_unref(s.opt);
    return t;
}

/* All weights, buffers and averages, one after another. */
static inline double *weights(dl_trainer *t, long *n) {
    dl_module_list *l = dl_module_tensors(dl_trainer_model(t), 3);
    double *all = NULL;
    *n = 0;
    for (long i = 0; i < l->n; i++) {
        long k = dl_numel(l->entries[i].tensor);
        all = realloc(all, (size_t)(*n + k) * sizeof *all);
        ok(dl_read_f64(l->entries[i].tensor, all + *n));
        *n += k;
    }
    dl_module_list_free(l);
    return all;
}

static inline void assert_same_weights(dl_trainer *a, dl_trainer *b) {
    long n, k;
    double *x = weights(a, &n), *y = weights(b, &k);
    assert_int_equal(n, k);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
    free(x);
    free(y);
}

static inline dl_trainer_state get(dl_trainer *t) {
    dl_trainer_state s;
    dl_trainer_get(t, &s);
    return s;
}

/* Tokens and integer targets arrive unchanged, from a resident split and from the host, and train an embedding. */
static inline void assert_integers_arrive(int device) {
    static const char token_net[] = "embedding 10 8 -> flatten -> linear %d";
    for (int host = 0; host < 2; host++)
        for (int classes = 0; classes < 2; classes++) {
            char net[64];
            snprintf(net, sizeof net, token_net, classes ? 10 : 2);
            dl_dataset *d = tokens(150, classes);
            dl_trainer_spec s = {.device = device, .loader.batch = 64, .allow_nan = 1};
            dl_seed(7);
            dl_trainer *t = trainer(s, net, "sgd lr=0.01", d);
            t->resident_asked[DL_TRAIN] = host;
            dl_seed(7);
            assert_batches(t, d, 64, 14);
            if (classes) assert_true(isfinite(get(t).loss));
            dl_trainer_free(t);
            dl_dataset_unref(d);
        }
}

#endif
