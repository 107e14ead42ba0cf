/* Products, softmax, normalisation and dropout, beyond the samples of the op table: fused gradients against the rules,
 * NaN and infinities, statistics, masks, sizes of zero, and results that do not depend on the number of threads. */
#include "support/tensors.h"

#include "core/random/rng.h"
#include "cpu/runtime/iter.h"
#include "dlcore/all.h"

#include <omp.h>

/* ---- products */

static void linear_rules_agree(void **state) {
    (void)state;
    static const long sizes[][3] = {{3, 4, 5}, {64, 78, 10}, {1, 1, 1}, {200, 33, 40}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const long *n = sizes[i];
        dl_tensor *x = drawn(1, 3, SHAPE(2, n[1], n[0]), DL_F64), *xt = must(dl_permute(leaf(x), SHAPE(0, 2, 1), 3));
        dl_tensor *w = leaf(drawn(2, 2, SHAPE(n[2], n[1]), DL_F64)), *b = leaf(drawn(3, 1, &n[2], DL_F64));
        dl_tensor *y = must(dl_linear(xt, w, b));
        rules_agree(y, (dl_tensor *[]){x, w, b}, 3, 1e-12, "linear");
        dl_unref(x), dl_unref(xt), dl_unref(w), dl_unref(b), dl_unref(y);
    }
}

/* Rows by columns, rows by rows, columns by columns, columns by rows: as `turned` says. */
static void check_product(long m, long k, long n, int turned, dl_dtype t) {
    dl_tensor *a = drawn(1, 2, turned & 1 ? SHAPE(k, m) : SHAPE(m, k), t), *at = dl_ref(a);
    dl_tensor *b = drawn(2, 2, turned & 2 ? SHAPE(n, k) : SHAPE(k, n), t), *bt = dl_ref(b);
    if (turned & 1) dl_unref(at), at = must(dl_permute(a, SHAPE(1, 0), 2));
    if (turned & 2) dl_unref(bt), bt = must(dl_permute(b, SHAPE(1, 0), 2));
    dl_tensor *y = must(dl_matmul(at, bt)), *want = must(dl_tensor_zeros(2, SHAPE(m, n), DL_F64, 0));
    double *x = values(a), *w = values(b);
    for (long i = 0; i < m * n; i++)
        for (long l = 0; l < k; l++)
            ((double *)dl_data(want))[i] +=
                x[turned & 1 ? l * m + i / n : i / n * k + l] * w[turned & 2 ? i % n * k + l : l * n + i % n];
    near(y, want, t == DL_F64 ? 1e-14 : 1e-6, "product");
    free(x), free(w);
    dl_unref(a), dl_unref(at), dl_unref(b), dl_unref(bt), dl_unref(y), dl_unref(want);
}

/* Below, at and above the sizes where BLAS takes over, and where threads share a product; against sums in order. */
static void products_of_all_sizes(void **state) {
    (void)state;
    static const long sizes[] = {0, 1, 3, 7, 16, 17, 40, 70, 130};
    enum { N = sizeof sizes / sizeof *sizes };
    int had = omp_get_max_threads();
    omp_set_num_threads(3);
    long grain = dl_cpu_grain(1);
    for (int c = 0; c < N * N * N; c++)
        for (int turned = 0; turned < 4; turned++)
            check_product(sizes[c % N], sizes[c / N % N], sizes[c / N / N], turned, (c + turned) & 1 ? DL_F32 : DL_F64);
    dl_cpu_grain(grain);
    omp_set_num_threads(had);
}

/* Vectors, batches, and batches that are folded into rows, at sizes for own loops and for BLAS; a[b,i,l] and b[l,j]. */
static void vectors_and_batches(void **state) {
    (void)state;
    static const long sizes[][4] = {{3, 1, 5, 4}, {3, 1, 150, 160}, {1, 150, 160, 1}, {2, 150, 160, 1}, {4, 9, 40, 41}};
    for (unsigned c = 0; c < 2 * sizeof sizes / sizeof *sizes; c++) {
        const long *n = sizes[c / 2], B = n[0], M = n[1], K = n[2], N = n[3];
        dl_tensor *own = drawn(1, 3, c % 2 ? SHAPE(B, K, M) : SHAPE(M, B, K), DL_F64);
        dl_tensor *a = must(dl_permute(own, c % 2 ? SHAPE(0, 2, 1) : SHAPE(1, 0, 2), 3));
        dl_tensor *b = drawn(2, N > 1 ? 2 : 1, SHAPE(K, N), DL_F64), *y = must(dl_matmul(a, b));
        double *x = values(a), *w = values(b), *got = values(y);
        for (long i = 0; i < B * M * N; i++) {
            double want = 0;
            for (long l = 0; l < K; l++) want += x[i / N * K + l] * w[l * N + i % N];
            assert_true(fabs(got[i] - want) < 1e-11);
        }
        free(x), free(w), free(got);
        dl_unref(own), dl_unref(a), dl_unref(b), dl_unref(y);
    }
}

static void nan_goes_through_products(void **state) {
    (void)state;
    for (long n = 4; n < 100; n += 45) {
        dl_tensor *a = drawn(1, 2, SHAPE(n, n), DL_F32), *b = must(dl_tensor_zeros(2, SHAPE(n, n), DL_F32, 0));
        ((float *)dl_data(a))[n + 2] = NAN;
        dl_tensor *y = must(dl_matmul(a, b));
        double *v = values(y);
        for (long i = 0; i < n * n; i++) assert_true(i / n == 1 ? isnan(v[i]) : v[i] == 0);
        free(v);
        dl_unref(a), dl_unref(b), dl_unref(y);
    }
}

/* ---- softmax */

static void softmax_rules_agree(void **state) {
    (void)state;
    for (long dim = 0; dim < 4; dim++)
        for (int log = 0; log < 2; log++) {
            dl_tensor *x = leaf(drawn(1, 4, SHAPE(3, 70, 2, 5), DL_F64)),
                      *v = must(dl_permute(x, SHAPE(0, 2, 3, 1), 4));
            dl_tensor *y = must(log ? dl_log_softmax(v, dim) : dl_softmax(v, dim));
            rules_agree(y, &x, 1, 1e-12, log ? "log_softmax" : "softmax");
            dl_unref(x), dl_unref(v), dl_unref(y);
        }
}

static void softmax_of_infinities(void **state) {
    (void)state;
    enum { N = 20 }; /* more than one vector */
    for (int how = 0; how < 3; how++) {
        dl_tensor *x = must(dl_tensor_zeros(1, SHAPE(N), DL_F32, 0));
        float *v = dl_data(x);
        for (int i = 0; i < N; i++) v[i] = how == 0 || i == 3 ? -INFINITY : 1000.0f;
        if (how == 2) v[7] = NAN;
        dl_tensor *y = must(dl_softmax(x, 0)), *l = must(dl_log_softmax(x, 0));
        double *p = values(y), *q = values(l);
        for (int i = 0; i < N; i++) {
            double want = how != 1 ? NAN : i == 3 ? 0 : 1.0 / (N - 1);
            assert_true(isnan(want) ? isnan(p[i]) && isnan(q[i]) : fabs(p[i] - want) < 1e-7);
            if (how == 1) assert_true(i == 3 ? q[i] == -INFINITY : fabs(q[i] + log(N - 1)) < 1e-6);
        }
        free(p), free(q);
        dl_unref(x), dl_unref(y), dl_unref(l);
    }
}

/* ---- batch norm */

/* Planes, columns, channels-last and another memory order; training and evaluation; with and without weights. */
static void batch_norm_rules_agree(void **state) {
    (void)state;
    static const long orders[][4] = {{0, 1, 2, 3}, {0, 3, 1, 2}, {3, 1, 0, 2}};
    for (int c = 0; c < 3 * 2 * 2; c++) {
        int training = c % 2, weights = c / 2 % 2;
        const long *o = orders[c / 4], shape[] = {4, 5, 3, 7};
        long own[4];
        for (int i = 0; i < 4; i++) own[o[i]] = shape[i];
        dl_tensor *x = leaf(drawn(1, 4, own, DL_F64)), *v = must(dl_permute(x, o, 4));
        dl_tensor *rm = drawn(2, 1, SHAPE(5), DL_F64), *d = drawn(3, 1, SHAPE(5), DL_F64), *rv = must(dl_exp(d));
        dl_tensor *w = leaf(drawn(4, 1, SHAPE(5), DL_F64)), *b = leaf(drawn(5, 1, SHAPE(5), DL_F64));
        dl_tensor *y = must(dl_batch_norm(v, rm, rv, weights ? w : NULL, weights ? b : NULL, training, 0.1, 1e-5));
        rules_agree(y, (dl_tensor *[]){x, w, b}, weights ? 3 : 1, 1e-11, "batch_norm");
        dl_unref(x), dl_unref(v), dl_unref(rm), dl_unref(d), dl_unref(rv), dl_unref(w), dl_unref(b), dl_unref(y);
    }
}

static void running_statistics(void **state) {
    (void)state;
    const double v[] = {1, 10, 2, 30, 6, 20};
    dl_tensor *x = must(dl_tensor_from(2, SHAPE(3, 2), DL_F64, 0, v)),
              *m = must(dl_tensor_zeros(1, SHAPE(2), DL_F64, 0));
    dl_tensor *var = must(dl_tensor_full(1, SHAPE(2), DL_F64, 0, 1));
    long before = dl_tensor_version(m);
    dl_unref(must(dl_batch_norm(x, m, var, NULL, NULL, 0, 0.25, 1e-5)));
    double *a = values(m);
    assert_true(a[0] == 0 && a[1] == 0); /* evaluation leaves them alone */
    free(a);
    dl_unref(must(dl_batch_norm(x, m, var, NULL, NULL, 1, 0.25, 1e-5)));
    a = values(m);
    double *b = values(var);
    assert_true(fabs(a[0] - 0.75) < 1e-15 && fabs(a[1] - 5) < 1e-15);
    assert_true(fabs(b[0] - (0.75 + 0.25 * 7)) < 1e-14 && fabs(b[1] - (0.75 + 0.25 * 100)) < 1e-13); /* of n - 1 */
    assert_true(dl_tensor_version(m) > before);
    free(a), free(b);
    dl_tensor *one = drawn(1, 2, SHAPE(1, 2), DL_F64);
    fails(dl_batch_norm(one, m, var, NULL, NULL, 1, 0.1, 1e-5), DL_ERR_SHAPE, "more than one value a channel");
    fails(dl_batch_norm(x, NULL, NULL, NULL, NULL, 0, 0.1, 1e-5), DL_ERR_VALUE, "are needed");
    fails(dl_batch_norm(x, m, NULL, NULL, NULL, 1, 0.1, 1e-5), DL_ERR_VALUE, "come together");
    dl_unref(x), dl_unref(m), dl_unref(var), dl_unref(one);
}

/* Of planes and of columns that take several pieces, and of few columns: variances far below the mean lose nothing in
 * f32, and with the first values far from the others little. */
static void variances_beside_large_means(void **state) {
    (void)state;
    static const long shapes[][4] = {{3, 2, 70, 90}, {9000, 70}, {9000, 10}};
    for (int c = 0; c < 3 * 2; c++) {
        const int k = c / 2;
        dl_tensor *d = drawn(1, k ? 2 : 4, shapes[k], DL_F32), *by = must(dl_scalar_f(0.01)),
                  *at = must(dl_scalar_f(3000));
        dl_tensor *small = must(dl_mul(d, by)), *x = must(dl_add(small, at));
        for (long i = 0; c % 2 && i < 630; i++) ((float *)dl_data(x))[i] = 1e6f;
        dl_tensor *wide = must(dl_to(x, DL_F64));
        dl_tensor *m[2], *v[2];
        for (int i = 0; i < 2; i++) {
            m[i] = must(dl_tensor_zeros(1, &shapes[k][1], i ? DL_F64 : DL_F32, 0));
            v[i] = must(dl_tensor_zeros(1, &shapes[k][1], i ? DL_F64 : DL_F32, 0));
            dl_unref(must(dl_batch_norm(i ? wide : x, m[i], v[i], NULL, NULL, 1, 1, 1e-5)));
        }
        near(m[0], m[1], 1e-7, "mean"), near(v[0], v[1], 2e-6, "variance");
        for (int i = 0; i < 2; i++) dl_unref(m[i]), dl_unref(v[i]);
        dl_unref(d), dl_unref(by), dl_unref(at), dl_unref(small), dl_unref(x), dl_unref(wide);
    }
}

/* ---- layer norm, embedding */

/* Rows shorter and longer than the loops' stretches, one dimension or two, contiguous and not. */
static void layer_norm_rules_agree(void **state) {
    (void)state;
    static const long last[] = {1, 5, 16, 300, 1000};
    for (int c = 0; c < 5 * 2 * 2; c++) {
        long d = last[c / 4], own[] = {c % 2 ? d : 6, c % 2 ? 6 : d, 3};
        int two = c / 2 % 2;
        dl_tensor *x = leaf(drawn(1, 3, own, DL_F64)),
                  *v = must(dl_permute(x, c % 2 ? SHAPE(1, 2, 0) : SHAPE(0, 2, 1), 3));
        dl_tensor *w = leaf(drawn(2, two ? 2 : 1, two ? SHAPE(3, d) : &d, DL_F64));
        dl_tensor *b = leaf(drawn(3, two ? 2 : 1, two ? SHAPE(3, d) : &d, DL_F64));
        dl_tensor *y = must(dl_layer_norm(v, w, b, two ? SHAPE(3, d) : &d, two ? 2 : 1, 1e-5));
        rules_agree(y, (dl_tensor *[]){x, w, b}, 3, d == 1 && !two ? 1e-9 : 1e-11, "layer_norm");
        dl_tensor *z = must(dl_rms_norm(v, w, two ? SHAPE(3, d) : &d, two ? 2 : 1, (double[]){0.1}));
        rules_agree(z, (dl_tensor *[]){x, w}, 2, d == 1 && !two ? 1e-9 : 1e-11, "rms_norm");
        dl_unref(z);
        dl_unref(x), dl_unref(v), dl_unref(w), dl_unref(b), dl_unref(y);
    }
    dl_tensor *x = drawn(1, 2, SHAPE(3, 4), DL_F32);
    fails(dl_layer_norm(x, NULL, NULL, SHAPE(5), 1, 1e-5), DL_ERR_SHAPE, "does not end in [5]");
    fails(dl_layer_norm(x, x, NULL, SHAPE(4), 1, 1e-5), DL_ERR_SHAPE, "weight must have the shape [4]");
    fails(dl_group_norm(x, NULL, NULL, 3, 1e-5), DL_ERR_VALUE, "4 channels cannot be divided into 3 groups");
    dl_unref(x);
}

/* Every use of a row adds to its gradient; the padding row has none. */
static void rows_of_a_table(void **state) {
    (void)state;
    long padding = -3;
    dl_tensor *i = must(dl_tensor_from(2, SHAPE(2, 3), DL_I64, 0, (long[]){0, 2, 2, 4, 2, 0}));
    dl_tensor *w = leaf(drawn(4, 2, SHAPE(5, 2), DL_F64)), *y = must(dl_embedding(i, w, &padding));
    assert_true(dl_ndim(y) == 3 && dl_shape(y)[0] == 2 && dl_shape(y)[1] == 3 && dl_shape(y)[2] == 2);
    dl_tensor *sum = must(dl_sum(y, NULL, 0, 0));
    ok(dl_backward(sum, NULL, 0, 0));
    const double want[] = {2, 2, 0, 0, 0, 0, 0, 0, 1, 1};
    double *g = values(dl_grad(w)), *v = values(y), *t = values(w);
    for (int k = 0; k < 10; k++) assert_true(g[k] == want[k]);
    assert_true(v[2] == t[4] && v[3] == t[5]); /* the value is there */
    free(g), free(v), free(t);
    long far = 5;
    fails(dl_embedding(i, w, &far), DL_ERR_INDEX, "padding_idx 5 is out of range for a table of 5 rows");
    fails(dl_embedding(w, w, NULL), DL_ERR_DTYPE, "indices must be i64 or i32");
    dl_unref(i), dl_unref(w), dl_unref(y), dl_unref(sum);
}

/* ---- dropout */

static void the_mask_is_the_generators(void **state) {
    (void)state;
    const long shape[] = {3, 7, 50, 11}, n = 3 * 7 * 50 * 11;
    dl_tensor *x = must(dl_tensor_full(4, shape, DL_F32, 0, 1)), *last = must(dl_restride(x, SHAPE(3850, 1, 77, 7), 4));
    dl_seed(99);
    dl_tensor *y = must(dl_dropout(x, 0.3, 1));
    dl_seed(99);
    dl_tensor *z = must(dl_dropout(last, 0.3, 1)), *next = must(dl_dropout(x, 0.3, 1));
    near(z, y, 0, "memory order");
    assert_true(distance(next, y) > 0.1);
    double *v = values(y);
    for (long i = 0; i < n; i++) {
        uint32_t w = dl_philox_block(99, DL_STREAM_DROPOUT, 0, (uint64_t)i / 4).v[i % 4];
        assert_true(v[i] == (w < (uint32_t)(0.3 * 4294967296.0) ? 0 : (float)(1 / 0.7)));
    }
    free(v);
    dl_unref(x), dl_unref(last), dl_unref(y), dl_unref(z), dl_unref(next);
}

static void dropout_at_its_ends(void **state) {
    (void)state;
    dl_tensor *x = leaf(drawn(1, 2, SHAPE(30, 7), DL_F64)), *zero = must(dl_tensor_zeros(2, SHAPE(30, 7), DL_F64, 0));
    dl_tensor *all = must(dl_dropout(x, 0, 1)), *none = must(dl_dropout(x, 1, 1)), *off = must(dl_dropout(x, 0.5, 0)),
              *g;
    near(all, x, 0, "p = 0");
    near(none, zero, 0, "p = 1");
    assert_ptr_equal(dl_data(off), dl_data(x));
    dl_tensor *seed = drawn(2, 2, SHAPE(30, 7), DL_F64);
    gradients(off, seed, &x, 1, 0, &g);
    near(g, seed, 0, "gradient of the identity");
    dl_unref(g);
    gradients(none, seed, &x, 1, 0, &g);
    near(g, zero, 0, "gradient at p = 1");
    fails(dl_dropout(x, 1.5, 1), DL_ERR_VALUE, "between 0 and 1");
    fails(dl_dropout(x, NAN, 1), DL_ERR_VALUE, "between 0 and 1");
    dl_unref(x), dl_unref(zero), dl_unref(all), dl_unref(none), dl_unref(off), dl_unref(seed), dl_unref(g);
}

/* ---- threads */

typedef dl_tensor *(*job)(dl_tensor *x, dl_tensor *y);

static dl_tensor *do_softmax(dl_tensor *x, dl_tensor *y) {
    (void)y;
    return dl_softmax(x, 1);
}
static dl_tensor *do_entropy(dl_tensor *x, dl_tensor *y) { return dl_cross_entropy(x, y, NULL, "mean", -100, 0.1); }
static dl_tensor *do_norm(dl_tensor *x, dl_tensor *y) {
    (void)y;
    return dl_batch_norm(x, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5);
}
static dl_tensor *do_pool(dl_tensor *x, dl_tensor *y) {
    (void)y;
    return dl_max_pool2d(x, SHAPE(2), 1, NULL, 0, NULL, 0, NULL, 0, 0);
}
static dl_tensor *do_dropout(dl_tensor *x, dl_tensor *y) {
    (void)y;
    dl_seed(3);
    return dl_dropout(x, 0.4, 1);
}

/* Results and gradients with one thread and with two, bit by bit. */
static void threads_change_nothing(void **state) {
    (void)state;
    static const job jobs[] = {do_softmax, do_entropy, do_norm, do_pool, do_dropout};
    int had = omp_get_max_threads();
    long grain = dl_cpu_grain(1);
    dl_tensor *y = must(dl_tensor_full(3, SHAPE(16, 20, 22), DL_I64, 0, 3));
    for (int last = 0; last < 2; last++)
        for (unsigned i = 0; i < sizeof jobs / sizeof *jobs; i++) {
            dl_tensor *out[2], *g[2];
            for (int t = 0; t < 2; t++) {
                omp_set_num_threads(t + 1);
                dl_tensor *own = drawn(1, 4, SHAPE(16, 33, 20, 22), DL_F32);
                dl_tensor *x = last ? must(dl_restride(own, SHAPE(14520, 1, 726, 33), 4)) : dl_ref(own);
                out[t] = must(jobs[i](leaf(x), y));
                dl_tensor *seed = drawn(2, dl_ndim(out[t]), dl_shape(out[t]), DL_F32);
                gradients(out[t], seed, &x, 1, 0, &g[t]);
                dl_unref(own), dl_unref(x), dl_unref(seed);
            }
            near(out[1], out[0], 0, "result");
            near(g[1], g[0], 0, "gradient");
            for (int t = 0; t < 2; t++) dl_unref(out[t]), dl_unref(g[t]);
        }
    omp_set_num_threads(had);
    dl_cpu_grain(grain);
    dl_unref(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_rules_agree),         cmocka_unit_test(products_of_all_sizes),
        cmocka_unit_test(vectors_and_batches),        cmocka_unit_test(nan_goes_through_products),
        cmocka_unit_test(softmax_rules_agree),        cmocka_unit_test(softmax_of_infinities),
        cmocka_unit_test(layer_norm_rules_agree),     cmocka_unit_test(rows_of_a_table),
        cmocka_unit_test(batch_norm_rules_agree),     cmocka_unit_test(running_statistics),
        cmocka_unit_test(the_mask_is_the_generators), cmocka_unit_test(dropout_at_its_ends),
        cmocka_unit_test(threads_change_nothing),     cmocka_unit_test(variances_beside_large_means),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
