/* Convolutions of bf16, by instructions for such numbers where the processor has them: against f64 of the same, rounded
 * operands, by one to three threads, in any memory order. */
#include "support/halves.h"

#include <omp.h>

typedef struct geometry {
    long N, C, O, in[3], k[3], stride, pad, dil, groups;
} geometry;

/* The last of `in` and `k` is 0 for images. */
static const geometry cases[] = {
    {2, 3, 16, {19, 18}, {3, 3}, 1, 1, 1, 1},      {3, 1, 16, {28, 28}, {7, 7}, 2, 3, 1, 1},
    {2, 17, 19, {7, 9}, {3, 2}, 2, 1, 1, 1},       {2, 8, 6, {11, 11}, {3, 3}, 1, 2, 2, 2},
    {1, 40, 40, {6, 6}, {3, 3}, 1, 1, 1, 40},      {2, 32, 48, {5, 5}, {1, 1}, 1, 0, 1, 1},
    {2, 32, 48, {5, 6}, {1, 1}, 2, 0, 1, 1},       {2, 3, 5, {9, 5}, {1, 1}, 3, 0, 1, 1},
    {1, 4, 3, {5, 5}, {5, 5}, 1, 0, 1, 1},         {2, 64, 64, {14, 13}, {3, 3}, 1, 1, 1, 1},
    {2, 1, 1, {1, 1}, {1, 1}, 1, 0, 1, 1},         {3, 11, 17, {18, 15}, {1, 1}, 3, 0, 1, 1},
    {3, 29, 21, {4, 15}, {1, 1}, 1, 0, 1, 1},      {2, 12, 32, {10, 2}, {2, 2}, 3, 1, 1, 1},
    {1, 8, 40, {8, 3}, {4, 4}, 4, 1, 1, 1},        {0, 3, 4, {5, 5}, {3, 3}, 1, 0, 1, 1},
    {2, 16, 16, {5, 9, 8}, {3, 3, 3}, 1, 1, 1, 1}, {1, 5, 8, {4, 6, 7}, {2, 3, 1}, 2, 0, 1, 1},
};

static dl_tensor *convolved(const geometry *g, dl_tensor *const in[3]) {
    const long *s = &g->stride, *p = &g->pad, *d = &g->dil;
    return must(g->k[2] ? dl_conv3d(in[0], in[1], in[2], s, 1, p, 1, d, 1, g->groups)
                        : dl_conv2d(in[0], in[1], in[2], s, 1, p, 1, d, 1, g->groups));
}

enum { PLAIN, CHANNELS_LAST, BATCH_LAST, NORDER };

/* Image, weight and bias; the image in such an order in memory. */
static void operands(const geometry *g, int order, dl_tensor *in[3]) {
    const int n = g->k[2] ? 5 : 4;
    const long shape[5] = {g->N, g->C, g->in[0], g->in[1], g->in[2]};
    const long weight[5] = {g->O, g->C / g->groups, g->k[0], g->k[1], g->k[2]};
    const long last[2][5] = {{0, n - 1, 1, 2, 3}, {n - 1, 0, 1, 2, 3}};
    long held[5];
    for (int i = 0; i < n; i++) held[order ? last[order - 1][i] : i] = shape[i];
    dl_tensor *x = drawn(1, n, held, DL_BF16);
    in[0] = order ? must(dl_permute(x, last[order - 1], n)) : dl_ref(x);
    in[1] = drawn(2, n, weight, DL_BF16), in[2] = drawn(3, 1, &g->O, DL_BF16);
    dl_unref(x);
}

static void check(const geometry *g, int order, double lost) {
    dl_tensor *in[3], *own[3], *wide[3], *slopes[3], *want_slopes[3];
    operands(g, order, in);
    for (int i = 0; i < 3; i++) own[i] = leaf(must(dl_detach(in[i]))), wide[i] = leaf(in_f64(in[i]));
    dl_tensor *want = convolved(g, wide), *seed = drawn(9, dl_ndim(want), dl_shape(want), DL_BF16);
    dl_tensor *wide_seed = in_f64(seed);
    gradients(want, wide_seed, wide, 3, 0, want_slopes);
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        dl_tensor *got = convolved(g, own);
        rounded_once(got, want, lost, "a convolution");
        gradients(got, seed, own, 3, 0, slopes);
        for (int i = 0; i < 3; i++)
            rounded_once(slopes[i], want_slopes[i], lost, "a gradient of a convolution"), dl_unref(slopes[i]);
        dl_unref(got);
    }
    for (int i = 0; i < 3; i++) dl_unref(in[i]), dl_unref(own[i]), dl_unref(wide[i]), dl_unref(want_slopes[i]);
    dl_unref(want), dl_unref(seed), dl_unref(wide_seed);
}

static void convolutions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int order = 0; order < NORDER; order++) check(&cases[i], order, 2e-4);
}

/* So large that some examples make a call. */
static void parts(void **state) {
    (void)state;
    check(&(geometry){40, 64, 64, {56, 40}, {3, 3}, 1, 1, 1, 1}, PLAIN, 2e-3);
}

/* A NaN is seen although no flag is raised. */
static void nan_is_seen(void **state) {
    (void)state;
    const geometry g = {2, 64, 64, {14, 14}, {3, 3}, 1, 1, 1, 1};
    for (int what = 0; what < 2; what++) {
        dl_tensor *in[3];
        dl_nan_event e = {0};
        operands(&g, PLAIN, in);
        dl_nan_forget();
        dl_store_f64(dl_data(in[0]), DL_BF16, what ? 0 : INFINITY);
        dl_store_f64((char *)dl_data(in[1]) + 2 * 4, DL_BF16, what ? INFINITY : 0);
        dl_tensor *y = convolved(&g, in);
        ok(dl_nan_event_at(0, 0, &e));
        assert_string_equal(e.op, "conv2d");
        for (int i = 0; i < 3; i++) dl_unref(in[i]);
        dl_unref(y);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(parts),
                                       cmocka_unit_test(nan_is_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
