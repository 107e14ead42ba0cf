/* Trainers of small nets on drawn digits, for tests. */
#ifndef TESTS_SUPPORT_TRAINING_H
#define TESTS_SUPPORT_TRAINING_H

#include "support/tensors.h"

static inline dl_dataset *digits(const char *n) {
    const char *options[] = {"n", n, "test", "64", "seed", "5", NULL};
    dl_dataset *d = dl_dataset_open("digits", options);
    if (!d) fail_msg("%s", dl_errmsg());
    return d;
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

#endif
