/* Sums of thousands of f32 terms of both signs, against f64, when most of them cancels. `share`: the allowed error, as
 * a share of one term's, in the root mean square; a single f32 accumulator has 1e-6 and more, blocks of f32 1.2e-7, f64
 * from four terms on 3.5e-8. */
#include "support/tensors.h"
#include "dlcore/all.h"

enum { CHANNELS = 24 };

static dl_tensor *in_f64(dl_tensor *x) { return must(dl_to(x, DL_F64)); }

static void close_to(dl_tensor *got, dl_tensor *want, double terms, double share, const char *what) {
    double *x = values(must(got)), *y = values(must(want)), square = 0, n = (double)dl_numel(got);
    assert_int_equal(dl_numel(got), dl_numel(want));
    for (long i = 0; i < dl_numel(got); i++) square += (x[i] - y[i]) * (x[i] - y[i]);
    double error = sqrt(square / n), limit = share * sqrt(terms);
    if (!(error <= limit)) fail_msg("%s: off by %g, at most %g allowed", what, error, limit);
    free(x), free(y);
    dl_unref(got), dl_unref(want);
}

/* The dimension `kept` of x is. */
static void sum_keeping(dl_tensor *x, int kept, const char *what) {
    long dims[DL_MAX_DIM];
    int n = 0;
    for (int d = 0; d < dl_ndim(x); d++)
        if (d != kept) dims[n++] = d;
    dl_tensor *wide = in_f64(x);
    close_to(dl_sum(x, dims, n, 0), dl_sum(wide, dims, n, 0), (double)dl_numel(x) / CHANNELS, 7e-8, what);
    dl_unref(wide);
}

static void sums(void **state) {
    (void)state;
    dl_tensor *planes = drawn(1, 4, SHAPE(2, CHANNELS, 49, 58), DL_F32),
              *flat = drawn(2, 2, SHAPE(9000, CHANNELS), DL_F32);
    dl_tensor *rows = drawn(3, 2, SHAPE(CHANNELS, 9000), DL_F32),
              *last = must(dl_permute(planes, SHAPE(0, 2, 3, 1), 4));
    dl_tensor *own = must(dl_contiguous(last)), *small = drawn(4, 4, SHAPE(200, CHANNELS, 5, 5), DL_F32);
    sum_keeping(planes, 1, "planes");
    sum_keeping(last, 3, "permuted planes");
    sum_keeping(own, 3, "channels innermost");
    sum_keeping(flat, 1, "columns");
    sum_keeping(rows, 0, "rows");
    sum_keeping(small, 1, "small planes");
    dl_unref(planes), dl_unref(flat), dl_unref(rows), dl_unref(last), dl_unref(own), dl_unref(small);
}

static dl_tensor *convolve(dl_tensor **in, bool transposed) {
    if (transposed) return dl_conv_transpose2d(in[0], in[1], in[2], SHAPE(3), 1, NULL, 0, NULL, 0, 1, NULL, 0, NULL, 0);
    return dl_conv2d(in[0], in[1], in[2], NULL, 0, NULL, 0, NULL, 0, 1);
}

static void bias_of(bool transposed, const char *what) {
    dl_tensor *in[3] = {drawn(5, 4, SHAPE(2, 4, 17, 20), DL_F32),
                        drawn(6, 4, transposed ? SHAPE(4, CHANNELS, 1, 1) : SHAPE(CHANNELS, 4, 1, 1), DL_F32),
                        leaf(drawn(7, 1, SHAPE(CHANNELS), DL_F32))};
    dl_tensor *y = must(convolve(in, transposed)), *seed = drawn(8, 4, dl_shape(y), DL_F32), *wide = in_f64(seed), *got;
    ok(dl_gradients(y, seed, &in[2], 1, 0, 0, &got));
    close_to(got, dl_sum(wide, SHAPE(0, 2, 3), 3, 0), (double)dl_numel(y) / CHANNELS, 7e-8, what);
    for (int i = 0; i < 3; i++) dl_unref(in[i]);
    dl_unref(y), dl_unref(seed), dl_unref(wide);
}

static void gradients_of_bias(void **state) {
    (void)state;
    bias_of(false, "the bias of conv2d");
    bias_of(true, "the bias of conv_transpose2d");
    dl_tensor *x = drawn(9, 2, SHAPE(9000, 2), DL_F32), *w = drawn(10, 2, SHAPE(CHANNELS, 2), DL_F32);
    dl_tensor *b = leaf(drawn(11, 1, SHAPE(CHANNELS), DL_F32)), *y = must(dl_linear(x, w, b)), *got;
    dl_tensor *seed = drawn(12, 2, dl_shape(y), DL_F32), *wide = in_f64(seed);
    ok(dl_gradients(y, seed, &b, 1, 0, 0, &got));
    close_to(got, dl_sum(wide, SHAPE(0), 1, 0), 9000, 7e-8, "the bias of linear");
    dl_unref(x), dl_unref(w), dl_unref(b), dl_unref(y), dl_unref(seed), dl_unref(wide);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(gradients_of_bias)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
