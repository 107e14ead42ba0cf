/* Products of 16 bits, large ones by instructions for bf16 where the processor has them: against f64 of the same,
 * rounded operands, by one to three threads. */
#include "support/halves.h"

#include <omp.h>

/* The matrix of a tensor that is dense, transposed, part of a wider one, or without elements side by side. */
static dl_tensor *matrix(unsigned seed, int how, long rows, long cols, dl_dtype t) {
    const long zero = 0;
    dl_tensor *x = how == 0   ? drawn(seed, 2, SHAPE(rows, cols), t)
                   : how == 1 ? drawn(seed, 2, SHAPE(cols, rows), t)
                   : how == 2 ? drawn(seed, 2, SHAPE(rows, cols + 5), t)
                              : drawn(seed, 2, SHAPE(rows, 2 * cols), t);
    if (!how) return x;
    dl_tensor *y = must(how == 1   ? dl_permute(x, SHAPE(1, 0), 2)
                        : how == 2 ? dl_slice(x, 1, &zero, &cols, 1)
                                   : dl_slice(x, 1, &zero, NULL, 2));
    dl_unref(x);
    return y;
}

/* The product of all operands that there are, with gradients. */
static void check(dl_tensor **in, int n, const char *what) {
    dl_tensor *wide[3] = {0}, *own[3] = {0}, *slopes[3], *wide_slopes[3];
    for (int i = 0; i < n; i++) own[i] = leaf(must(dl_detach(in[i]))), wide[i] = leaf(in_f64(in[i]));
    dl_tensor *want = must(n == 3 ? dl_linear(wide[0], wide[1], wide[2]) : dl_matmul(wide[0], wide[1]));
    dl_tensor *seed = drawn(9, dl_ndim(want), dl_shape(want), dl_dtype_of(in[0])), *as_f64 = in_f64(seed);
    gradients(want, as_f64, wide, n, 0, wide_slopes);
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        dl_tensor *got = must(n == 3 ? dl_linear(own[0], own[1], own[2]) : dl_matmul(own[0], own[1]));
        rounded_once(got, want, 2e-4, what);
        gradients(got, seed, own, n, 0, slopes);
        for (int i = 0; i < n; i++) rounded_once(slopes[i], wide_slopes[i], 2e-4, what), dl_unref(slopes[i]);
        dl_unref(got);
    }
    for (int i = 0; i < n; i++) dl_unref(own[i]), dl_unref(wide[i]), dl_unref(wide_slopes[i]);
    dl_unref(want), dl_unref(seed), dl_unref(as_f64);
}

static void products(void **state) {
    (void)state;
    static const long sizes[][3] = {{300, 257, 300}, {257, 19, 4001}, {16, 4099, 300}, {15, 4099, 300}, {17, 5, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 16; how += i ? 5 : 1) {
            const long m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            dl_tensor *in[2] = {matrix(1, how & 3, m, k, DL_BF16), matrix(2, how >> 2, k, n, DL_BF16)};
            check(in, 2, "a product");
            dl_unref(in[0]), dl_unref(in[1]);
        }
}

/* With vectors from the left and the right, and of two. */
static void products_with_vectors(void **state) {
    (void)state;
    static const long sizes[][2] = {{1, 100000}, {70, 64},  {70, 63}, {300, 257}, {9, 9000},
                                    {5, 4096},   {5000, 1}, {3, 0},   {515, 300}};
    const long zero = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 16; how++) {
            const long m = sizes[i][0], k = sizes[i][1];
            const dl_dtype t = how & 8 ? DL_F16 : DL_BF16;
            dl_tensor *a = matrix(1, how & 3, m, k, t), *all = drawn(2, 1, SHAPE(2 * k), t), *in[2];
            dl_tensor *x = must(dl_slice(all, 0, &zero, how & 4 ? NULL : &k, how & 4 ? 2 : 1));
            in[0] = a, in[1] = x;
            check(in, 2, "a matrix and a vector");
            dl_tensor *turned = must(dl_permute(a, SHAPE(1, 0), 2));
            in[0] = x, in[1] = turned;
            check(in, 2, "a vector and a matrix");
            dl_tensor *row = must(dl_select(a, 0, m - 1));
            in[0] = row, in[1] = x;
            check(in, 2, "two vectors");
            dl_unref(a), dl_unref(all), dl_unref(x), dl_unref(turned), dl_unref(row);
        }
}

/* Up to eight rows and a few more, with and without a bias, of rows and weights that lie in four ways. */
static void products_of_few_rows(void **state) {
    (void)state;
    static const long sizes[][3] = {{1, 70, 300}, {2, 61, 129}, {4, 300, 4099}, {8, 257, 65},
                                    {9, 257, 65}, {3, 1, 5000}, {1, 515, 70},   {7, 600, 300}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 32; how++) {
            const long m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            const dl_dtype t = how & 16 ? DL_F16 : DL_BF16;
            dl_tensor *in[3] = {matrix(1, how & 3, m, k, t), matrix(2, how >> 2 & 3, n, k, t),
                                drawn(3, 1, SHAPE(n), t)};
            check(in, 3, "linear of few rows");
            dl_tensor *turned = must(dl_permute(in[1], SHAPE(1, 0), 2)), *two[2] = {in[0], turned};
            check(two, 2, "a product of few rows");
            dl_unref(in[0]), dl_unref(in[1]), dl_unref(in[2]), dl_unref(turned);
        }
}

static void products_in_batches(void **state) {
    (void)state;
    dl_tensor *in[3] = {drawn(1, 3, SHAPE(3, 260, 260), DL_BF16), drawn(2, 3, SHAPE(3, 260, 261), DL_BF16), NULL};
    check(in, 2, "products in batches");
    dl_unref(in[0]), dl_unref(in[1]);
    in[0] = drawn(1, 3, SHAPE(3, 100, 260), DL_BF16), in[1] = drawn(2, 2, SHAPE(261, 260), DL_BF16);
    in[2] = drawn(3, 1, SHAPE(261), DL_BF16);
    check(in, 3, "linear");
    dl_unref(in[0]), dl_unref(in[1]), dl_unref(in[2]);
}

/* The numbers of x, of which one is put in its place, times those of y: a NaN is seen although no flag is raised. */
static void nan_is_seen(void **state) {
    (void)state;
    for (int what = 0; what < 2; what++) {
        dl_tensor *x = drawn(1, 2, SHAPE(300, 300), DL_BF16), *y = drawn(2, 2, SHAPE(300, 300), DL_BF16);
        dl_nan_event e = {0};
        dl_nan_forget();
        dl_store_f64((char *)dl_data(x) + 2 * 300 * 7, DL_BF16, what ? 0 : INFINITY);
        dl_store_f64((char *)dl_data(y) + 2 * 11, DL_BF16, what ? INFINITY : 0);
        dl_tensor *z = must(dl_matmul(x, y));
        ok(dl_nan_event_at(0, 0, &e));
        assert_string_equal(e.op, "matmul");
        assert_true(e.at[0] == 7 && e.at[1] == 11);
        dl_unref(x), dl_unref(y), dl_unref(z);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(products_with_vectors),
                                       cmocka_unit_test(products_of_few_rows), cmocka_unit_test(products_in_batches),
                                       cmocka_unit_test(nan_is_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
