/* Convolution and pooling: the path by oneDNN against the generic one, weights that change, memory orders, errors. */
#include "cpu/runtime/simd.h"
#include "support/tensors.h"

#include "cpu/conv/conv.h"
#include "dlcore/all.h"

typedef struct geometry {
    long N, C, H, W, O, kh, kw, stride[2], pad[2], dil[2], groups;
} geometry;

static const geometry cases[] = {
    {2, 3, 9, 8, 16, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1},   {3, 1, 28, 28, 16, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 17, 7, 9, 19, 3, 2, {2, 1}, {0, 1}, {1, 1}, 1},  {2, 8, 11, 11, 6, 3, 3, {1, 2}, {2, 2}, {2, 2}, 2},
    {1, 20, 6, 6, 20, 3, 3, {1, 1}, {1, 1}, {1, 1}, 20}, {2, 32, 5, 5, 48, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 32, 5, 5, 48, 1, 1, {2, 2}, {0, 0}, {1, 1}, 1},  {1, 4, 5, 5, 3, 5, 5, {1, 1}, {0, 0}, {1, 1}, 1},
};

/* Output and gradients, by one path; with `stretch` the operands are views in a memory order of their own. */
static void run(const geometry *c, dl_dtype t, bool fast, bool stretch, dl_tensor *out[4]) {
    bool was = dl_conv_dnnl_enable(fast);
    dl_tensor *x = drawn(1, 4, stretch ? SHAPE(c->W, c->N, c->C, c->H) : SHAPE(c->N, c->C, c->H, c->W), t);
    dl_tensor *w = drawn(2, 4, SHAPE(c->O, c->C / c->groups, c->kh, c->kw), t), *b = drawn(3, 1, &c->O, t);
    if (stretch) {
        dl_tensor *base = drawn(1, 4, SHAPE(c->N, c->C, c->H, c->W), t), *p = must(dl_permute(x, SHAPE(1, 2, 3, 0), 4));
        ok(dl_assign(p, base));
        dl_unref(x), dl_unref(base);
        x = dl_detach(p);
        dl_unref(p);
    }
    dl_tensor *in[] = {leaf(x), leaf(w), leaf(b)};
    out[0] = must(dl_conv2d(x, w, b, c->stride, 2, c->pad, 2, c->dil, 2, c->groups));
    dl_tensor *g = drawn(4, 4, dl_shape(out[0]), t);
    gradients(out[0], g, in, 3, 0, out + 1);
    dl_unref(x), dl_unref(w), dl_unref(b), dl_unref(g);
    dl_conv_dnnl_enable(was);
}

static void paths_agree(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_tensor *fast[4], *slow[4], *wide[4], *view[4];
        run(&cases[i], DL_F32, true, false, fast);
        run(&cases[i], DL_F32, false, false, slow);
        run(&cases[i], DL_F32, true, true, view);
        run(&cases[i], DL_F64, false, false, wide);
        for (int k = 0; k < 4; k++) {
            near(fast[k], wide[k], 2e-6, "fast against f64");
            near(slow[k], wide[k], 2e-6, "generic against f64");
            near(view[k], fast[k], 1e-6, "view against contiguous");
            dl_unref(fast[k]), dl_unref(slow[k]), dl_unref(wide[k]), dl_unref(view[k]);
        }
    }
}

static dl_tensor *conv(dl_tensor *x, dl_tensor *w) {
    return must(dl_conv2d(x, w, NULL, NULL, 0, SHAPE(1), 1, NULL, 0, 1));
}

/* The reordered copy of the weights must not outlive their values. */
static void changed_weights_are_seen(void **state) {
    (void)state;
    dl_tensor *x = drawn(1, 4, SHAPE(2, 32, 6, 6), DL_F32), *w = drawn(2, 4, SHAPE(32, 32, 3, 3), DL_F32);
    dl_tensor *lr = dl_scalar_f(0.5), *g = drawn(3, 4, dl_shape(w), DL_F32), *other = drawn(4, 4, dl_shape(w), DL_F32);
    dl_tensor *count = dl_scalar_i(1);
    for (int step = 0; step < 3; step++) {
        dl_tensor *y = conv(x, w);
        dl_conv_dnnl_enable(false);
        dl_tensor *want = conv(x, w);
        dl_conv_dnnl_enable(true);
        near(y, want, 2e-6, "after a change");
        dl_unref(y), dl_unref(want);
        if (step == 0) ok(dl_assign(w, other));
        if (step == 1) ok(dl_sgd_step(lr, count, (dl_tensor *[]){w, g}, 2, 0, 0, 0, 0, 0, 0));
    }
    dl_unref(w);
    w = drawn(9, 4, SHAPE(32, 32, 3, 3), DL_F32); /* likely at the address of the former */
    dl_tensor *y = conv(x, w);
    dl_conv_dnnl_enable(false);
    dl_tensor *want = conv(x, w);
    dl_conv_dnnl_enable(true);
    near(y, want, 2e-6, "another tensor");
    dl_unref(x), dl_unref(w), dl_unref(lr), dl_unref(g), dl_unref(other), dl_unref(y), dl_unref(want), dl_unref(count);
}

static void same_bits_again(void **state) {
    (void)state;
    dl_tensor *a[4], *b[4];
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(&cases[i], DL_F32, true, false, a);
        run(&cases[i], DL_F32, true, false, b);
        for (int k = 0; k < 4; k++) {
            near(a[k], b[k], 0, "repeated");
            dl_unref(a[k]), dl_unref(b[k]);
        }
    }
}

/* More shapes than the cache holds. */
static void many_shapes(void **state) {
    (void)state;
    dl_tensor *w = drawn(2, 4, SHAPE(4, 3, 3, 3), DL_F32);
    for (long h = 3; h < 150; h++) {
        dl_tensor *x = drawn((unsigned)h, 4, SHAPE(1, 3, h, 3), DL_F32), *y = conv(x, w);
        dl_unref(x), dl_unref(y);
    }
    dl_unref(w);
}

static void errors(void **state) {
    (void)state;
    dl_tensor *x = drawn(1, 4, SHAPE(1, 4, 8, 8), DL_F32), *w = drawn(2, 4, SHAPE(6, 2, 3, 3), DL_F32);
    dl_tensor *odd = drawn(2, 4, SHAPE(5, 2, 3, 3), DL_F32);
    dl_tensor *one = drawn(3, 3, SHAPE(4, 8, 8), DL_F32), *b = drawn(4, 1, SHAPE(3), DL_F32);
    fails(dl_conv2d(one, w, NULL, NULL, 0, NULL, 0, NULL, 0, 2), DL_ERR_SHAPE, "4 dimensions");
    assert_string_equal(dl_error_last()->hint, "give a single image a batch dimension, x[none]");
    fails(dl_conv2d(x, w, NULL, NULL, 0, NULL, 0, NULL, 0, 1), DL_ERR_SHAPE, "images of 4 channels");
    fails(dl_conv2d(x, odd, NULL, NULL, 0, NULL, 0, NULL, 0, 2), DL_ERR_SHAPE, "cannot be divided into 2 groups");
    fails(dl_conv2d(x, w, b, NULL, 0, NULL, 0, NULL, 0, 2), DL_ERR_SHAPE, "bias must have shape [6]");
    fails(dl_conv2d(x, w, NULL, SHAPE(0), 1, NULL, 0, NULL, 0, 2), DL_ERR_VALUE, "stride must be at least 1");
    fails(dl_conv2d(x, w, NULL, SHAPE(1, 2, 3), 3, NULL, 0, NULL, 0, 2), DL_ERR_VALUE, "not 3");
    fails(dl_conv2d(x, w, NULL, NULL, 0, NULL, 0, SHAPE(5), 1, 2), DL_ERR_SHAPE, "spans 11 of height");
    fails(dl_max_pool2d(x, SHAPE(2), 1, NULL, 0, SHAPE(2), 1, NULL, 0, 0), DL_ERR_VALUE, "more than half");
    fails(dl_max_pool2d(x, SHAPE(9), 1, NULL, 0, NULL, 0, NULL, 0, 0), DL_ERR_SHAPE, "window spans 9");
    dl_tensor *i = must(dl_tensor_full(4, SHAPE(1, 4, 8, 8), DL_I64, 0, 64));
    fails(dl_pool_scatter(x, i, SHAPE(8, 8), 2), DL_ERR_INDEX, "outside the 64 pixels");
    fails(dl_pool_gather(x, i), DL_ERR_INDEX, "outside the 64 pixels");
    dl_unref(i);
    i = must(dl_tensor_full(4, SHAPE(1, 4, 8, 8), DL_I64, 0, -2));
    fails(dl_pool_scatter(x, i, SHAPE(8, 8), 2), DL_ERR_INDEX, "outside the 64 pixels");
    fails(dl_pool_gather(x, i), DL_ERR_INDEX, "outside the 64 pixels");
    dl_unref(x), dl_unref(w), dl_unref(odd), dl_unref(one), dl_unref(b), dl_unref(i);
}

/* Taps of these windows lie on either side of the image. */
static void windows_without_pixels(void **state) {
    (void)state;
    const long C = 21, W = 5, dilation[] = {3, 1}, s[] = {1, 1}, k[] = {2, 3}, pad[] = {1, 0};
    for (int i = 0; i < 4; i++) {
        dl_dtype dtype = i < 2 ? DL_F32 : DL_F64;
        dl_tensor *x = drawn(7, 4, SHAPE(2, C, 2, W), dtype);
        dl_tensor *in = leaf(i % 2 ? must(dl_restride(x, SHAPE(C * 2 * W, 1, W * C, C), 4)) : dl_ref(x)), *g;
        dl_tensor *y = must(dl_max_pool2d(in, k, 2, s, 2, pad, 2, dilation, 2, 0));
        dl_tensor *seed = drawn(6, 4, dl_shape(y), dtype);
        gradients(y, seed, &in, 1, 0, &g);
        double *of = values(y), *to = values(g);
        for (long j = 0; j < dl_numel(y); j++) assert_true(of[j] == -INFINITY);
        for (long j = 0; j < dl_numel(g); j++) assert_true(to[j] == 0);
        free(of), free(to);
        dl_unref(x), dl_unref(in), dl_unref(y), dl_unref(seed), dl_unref(g);
    }
}

/* By the definition, cell by cell: planes and channels-last images, windows over the edge, NaN. */
static void pool_in_both_orders(dl_dtype dtype, long W, long stride) {
    const long C = 21, H = 7, k[] = {3, 2}, s[] = {2, stride}, pad[] = {1, 1};
    dl_tensor *x = drawn(5, 4, SHAPE(2, C, H, W), dtype);
    char *data = dl_data(x);
    const long size = dl_dtype_size(dtype);
    dl_store_f64(data + ((3 * H + 2) * W + 5) * size, dtype, NAN);
    for (long i = 0; i < H * W; i++) dl_store_f64(data + (5 * H * W + i) * size, dtype, -INFINITY);
    double *v = values(x);
    dl_tensor *last = must(dl_restride(x, SHAPE(C * H * W, 1, W * C, C), 4)), *in[] = {leaf(x), leaf(last)}, *y[2],
              *g[2];
    for (int i = 0; i < 2; i++) {
        y[i] = must(dl_max_pool2d(in[i], k, 2, s, 2, pad, 2, NULL, 0, 1));
        dl_tensor *seed = drawn(6, 4, dl_shape(y[i]), dtype);
        gradients(y[i], seed, &in[i], 1, 0, &g[i]);
        dl_unref(seed);
    }
    near(y[1], y[0], 0, "values");
    near(g[1], g[0], 0, "gradients");
    double *got = values(y[0]);
    const long *o = dl_shape(y[0]);
    for (long i = 0; i < dl_numel(y[0]); i++) {
        long xo = i % o[3], yo = i / o[3] % o[2], nc = i / (o[3] * o[2]);
        double best = -INFINITY;
        for (long a = yo * s[0] - pad[0]; a < yo * s[0] - pad[0] + k[0]; a++)
            for (long b = xo * s[1] - pad[1]; b < xo * s[1] - pad[1] + k[1]; b++) {
                if (a < 0 || a >= H || b < 0 || b >= W) continue;
                double cell = v[(nc * H + a) * W + b];
                if (cell > best || isnan(cell)) best = cell;
            }
        assert_true(got[i] == best || (isnan(got[i]) && isnan(best)));
    }
    free(got), free(v);
    for (int i = 0; i < 2; i++) dl_unref(in[i]), dl_unref(y[i]), dl_unref(g[i]);
}

static void pooling_in_both_orders(void **state) {
    (void)state;
    static const long widths[] = {9, 40, 1100}; /* the last one in several stretches */
    for (int level = 1; level <= 4; level += 3) {
        dl_simd_limit(level);
        for (int i = 0; i < 3; i++)
            for (long stride = 1; stride <= 3; stride++)
                for (int f64 = 0; f64 < 2; f64++) pool_in_both_orders(f64 ? DL_F64 : DL_F32, widths[i], stride);
    }
    dl_simd_limit(4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_agree),
        cmocka_unit_test(changed_weights_are_seen),
        cmocka_unit_test(same_bits_again),
        cmocka_unit_test(many_shapes),
        cmocka_unit_test(errors),
        cmocka_unit_test(windows_without_pixels),
        cmocka_unit_test(pooling_in_both_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
