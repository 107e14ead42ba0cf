/* Cases of attention that span several blocks, for tests of every device: against attention made of other ops in f64.
 */
#ifndef TESTS_SUPPORT_ATTENTION_H
#define TESTS_SUPPORT_ATTENTION_H

#include "dlcore/all.h"
#include "ops/attention.h"
#include "support/tensors.h"

/* SHARED_MASKS hold for all sequences and heads, OF_KEYS for all queries, of one sequence each. */
enum { NO_MASK, BOOLS, ADDED, SHARED_MASKS, OF_KEYS };

typedef struct attention_case {
    const char *name;
    long batch, heads, kv_heads, rows, keys, size, value_size;
    int mask;
    bool causal, lengths;
    double dropout;
} attention_case;

static const attention_case attention_cases[] = {
    {"one block", 2, 2, 2, 5, 7, 8, 8, NO_MASK, false, false, 0},
    {"blocks of keys", 1, 2, 2, 9, 600, 16, 16, NO_MASK, false, false, 0},
    {"blocks of both", 1, 2, 2, 300, 520, 32, 24, NO_MASK, false, false, 0},
    {"causal", 2, 3, 3, 400, 400, 64, 64, NO_MASK, true, false, 0},
    {"causal, more keys", 1, 2, 2, 130, 530, 16, 16, NO_MASK, true, false, 0},
    {"causal, more queries", 1, 2, 2, 530, 130, 16, 16, NO_MASK, true, false, 0},
    {"lengths", 3, 2, 2, 130, 300, 16, 16, NO_MASK, false, true, 0},
    {"lengths, causal", 3, 2, 2, 300, 300, 64, 64, NO_MASK, true, true, 0},
    {"bools", 2, 2, 2, 140, 300, 16, 16, BOOLS, false, false, 0},
    {"numbers", 2, 2, 2, 140, 300, 16, 16, ADDED, false, false, 0},
    {"shared mask", 2, 2, 2, 140, 300, 16, 16, SHARED_MASKS, false, true, 0},
    {"mask of keys", 2, 2, 2, 140, 300, 16, 16, OF_KEYS, false, false, 0},
    {"mask of keys, lengths", 3, 2, 2, 64, 300, 64, 64, OF_KEYS, true, true, 0},
    {"mask of keys, dropout", 2, 2, 2, 140, 300, 64, 64, OF_KEYS, false, false, 0.2},
    {"groups", 2, 8, 2, 140, 300, 64, 64, NO_MASK, false, false, 0},
    {"one head of keys", 2, 4, 1, 140, 300, 16, 16, BOOLS, false, true, 0},
    {"dropout", 2, 2, 2, 140, 300, 64, 64, NO_MASK, false, false, 0.3},
    {"dropout, causal, groups", 2, 4, 2, 140, 140, 64, 64, NO_MASK, true, true, 0.1},
    {"odd sizes", 1, 3, 3, 67, 131, 7, 9, NO_MASK, true, false, 0},
};
enum { ATTENTION_CASES = sizeof attention_cases / sizeof *attention_cases };

/* Operands on the CPU in f64 of values that `dtype` has: query, key, value, mask, lengths, seed; absent ones NULL. */
static inline void attention_operands(const attention_case *c, dl_dtype dtype, dl_tensor *in[6]) {
    const long shape[3][4] = {{c->batch, c->heads, c->rows, c->size},
                              {c->batch, c->kv_heads, c->keys, c->size},
                              {c->batch, c->kv_heads, c->keys, c->value_size}};
    memset(in, 0, 6 * sizeof *in);
    for (int i = 0; i < 3; i++) {
        dl_tensor *t = drawn(3 + (unsigned)i, 4, shape[i], dtype);
        in[i] = must(dl_to_dtype(t, DL_F64));
        dl_unref(t);
    }
    if (c->mask) {
        bool shared = c->mask == SHARED_MASKS, of_keys = c->mask == OF_KEYS;
        const long *shape_of =
            SHAPE(shared ? 1 : c->batch, shared || of_keys ? 1 : c->heads, of_keys ? 1 : c->rows, c->keys);
        dl_tensor *t = drawn(9, 4, shape_of, dtype);
        dl_tensor *zero = must(dl_scalar_f(-0.5));
        in[3] = c->mask == ADDED || of_keys ? must(dl_to_dtype(t, DL_F64)) : must(dl_gt(t, zero));
        dl_unref(t), dl_unref(zero);
    }
    if (c->lengths) {
        in[4] = must(dl_arange(c->keys - 3, &(double){(double)(c->keys - 3 - 60 * c->batch)}, -60, DL_I64, 0));
        assert_int_equal(dl_numel(in[4]), c->batch);
    }
    if (c->dropout > 0) in[5] = labels(2, (long[]){1234567, 89l << 33});
}

/* The case on a device, in a dtype: the result, and the gradients of query, key and value. `whole`: by the rule that
 * stores all scores. All on the CPU. */
static inline void attention_run(const attention_case *c, dl_tensor *const given[6], dl_dtype dtype, int device,
                                 int whole, dl_tensor *out[4]) {
    dl_tensor *in[6] = {NULL}, *g[3] = {NULL};
    for (int i = 0; i < 6; i++) {
        bool real = given[i] && dl_dtype_is_float(dl_dtype_of(given[i]));
        dl_tensor *t = !given[i] ? NULL : real ? must(dl_to_dtype(given[i], dtype)) : dl_ref(given[i]);
        in[i] = t ? must(dl_to_device(t, device)) : NULL;
        dl_unref(t);
        if (i < 3) leaf(in[i]);
    }
    dl_tensor *y = must(dl_attention(in[0], in[1], in[2], in[3], in[4], in[5], c->dropout, c->causal, 0.2));
    dl_tensor *s = drawn(11, 4, dl_shape(y), DL_F32), *cast = must(dl_to_dtype(s, dtype)),
              *seed = must(dl_to_device(cast, device));
    gradients(y, seed, in, 3, whole, g);
    out[0] = must(dl_to_device(y, 0));
    for (int i = 0; i < 3; i++) out[1 + i] = must(dl_to_device(must(g[i]), 0)), dl_unref(g[i]);
    for (int i = 0; i < 6; i++) dl_unref(in[i]);
    dl_unref(y), dl_unref(s), dl_unref(cast), dl_unref(seed);
}

/* The same by ops that store all scores, on the CPU in f64; without dropout. */
static inline void attention_want(const attention_case *c, dl_tensor *const given[6], dl_tensor *out[4]) {
    dl_attention_sizes a = {
        c->batch, c->heads, c->kv_heads, c->heads / c->kv_heads, c->rows, c->keys, c->size, c->value_size, c->causal,
        0.2,      0};
    dl_tensor *in[3], *g[3] = {NULL};
    for (int i = 0; i < 3; i++) in[i] = leaf(must(dl_clone(given[i])));
    dl_tensor *y = must(dl_attention_by_parts(&a, in[0], in[1], in[2], given[3], given[4], NULL));
    dl_tensor *s = drawn(11, 4, dl_shape(y), DL_F32), *seed = must(dl_to_dtype(s, DL_F64));
    gradients(y, seed, in, 3, 0, g);
    out[0] = dl_ref(y);
    for (int i = 0; i < 3; i++) out[1 + i] = must(g[i]), dl_unref(in[i]);
    dl_unref(y), dl_unref(s), dl_unref(seed);
}

static inline void attention_near(const attention_case *c, dl_tensor *got[4], dl_tensor *want[4], double tol,
                                  const char *how) {
    static const char *const names[] = {"result", "gradient of query", "gradient of key", "gradient of value"};
    for (int i = 0; i < 4; i++) {
        double d = distance(got[i], want[i]);
        if (!(d <= tol)) fail_msg("%s, %s: %s: off by %g, at most %g allowed", c->name, how, names[i], d, tol);
    }
}

static inline void attention_drop(dl_tensor **t, int n) {
    for (int i = 0; i < n; i++) dl_unref(t[i]);
}

#endif
