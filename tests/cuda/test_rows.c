/* Functions along rows and copies on the GPU where their kernels take other paths: odd and long rows, many and few of
 * them, memory off 16-byte boundaries, dimensions in other orders. Against the CPU in f64; sums repeat bit for bit. */
#include "cuda/gpu.h"

#include "core/device/device.h"
#include "dlcore/all.h"

enum { PLAIN, SHIFTED, TURNED, LAYOUTS, CHANNELS_LAST = LAYOUTS };
static const char *const layouts[] = {"plain", "one element off", "other order"};

/* The values of x on the GPU, laid out so. */
static dl_tensor *laid_out(dl_tensor *x, int layout) {
    int n = dl_ndim(x);
    dl_tensor *there = must(dl_to_device(x, GPU)), *out = NULL;
    if (layout == PLAIN) return there;
    if (layout == CHANNELS_LAST) {
        const long *s = dl_shape(x), stride[4] = {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]};
        out = must(dl_restride(there, stride, 4));
        dl_unref(there);
        return out;
    }
    if (layout == SHIFTED) {
        long size = dl_numel(x) + 1, one = 1;
        dl_tensor *flat = must(dl_tensor_zeros(1, &size, dl_dtype_of(x), GPU));
        dl_tensor *rest = must(dl_slice(flat, 0, &one, NULL, 1));
        out = must(dl_reshape(rest, dl_shape(x), n));
        dl_unref(flat), dl_unref(rest);
    } else {
        long shape[DL_MAX_DIM], order[DL_MAX_DIM];
        for (int i = 0; i < n; i++) shape[i] = dl_shape(x)[n - 1 - i], order[i] = n - 1 - i;
        dl_tensor *other = must(dl_tensor_zeros(n, shape, dl_dtype_of(x), GPU));
        out = must(dl_permute(other, order, n));
        dl_unref(other);
    }
    ok(dl_assign(out, there));
    dl_tensor *d = must(dl_detach(out));
    dl_unref(out), dl_unref(there);
    return d;
}

static dl_tensor *host(dl_tensor *t) {
    dl_tensor *h = must(dl_to_device(must(t), 0));
    dl_unref(t);
    return h;
}

/* ---- functions of rows */

static dl_tensor *sum_of(dl_tensor *x, long dim) { return dl_sum(x, &dim, 1, 0); }
static dl_tensor *mean_of(dl_tensor *x, long dim) { return dl_mean(x, &dim, 1, 1); }
static dl_tensor *most_of(dl_tensor *x, long dim) { return dl_amax(x, &dim, 1, 0); }
static dl_tensor *place_of(dl_tensor *x, long dim) { return dl_argmin(x, &dim, 0); }
static dl_tensor *top_of(dl_tensor *x, long dim) { return dl_argmax(x, &dim, 0); }
static dl_tensor *var_of(dl_tensor *x, long dim) { return dl_var(x, &dim, 1, 1, 0); }
static dl_tensor *lse_of(dl_tensor *x, long dim) { return dl_logsumexp(x, &dim, 1, 0); }

static const struct {
    const char *name;
    dl_tensor *(*run)(dl_tensor *x, long dim);
    bool differentiable;
} functions[] = {{"sum", sum_of, false},      {"mean", mean_of, false},      {"amax", most_of, false},
                 {"argmin", place_of, false}, {"argmax", top_of, false},     {"var", var_of, true},
                 {"logsumexp", lse_of, true}, {"softmax", dl_softmax, true}, {"log_softmax", dl_log_softmax, true}};

static const struct {
    dl_dtype dtype;
    double tolerance;
} kinds[] = {{DL_F32, 3e-7}, {DL_F64, 1e-13}, {DL_BF16, 1e-2}};

/* Of sums of k numbers. */
static void compare(dl_tensor *got, dl_tensor *want, int f, int kind, const char *what, long k, long dim, int layout) {
    double d = distance(got, want), root = sqrt((double)k) / 10;
    if (d <= kinds[kind].tolerance * (root > 1 ? root : 1)) return;
    fail_msg("%s of %s along %ld of [%ld, %ld, ...], %s, %s: off by %g", what, functions[f].name, dim,
             dl_shape(want)[0], dl_ndim(want) > 1 ? dl_shape(want)[1] : 1, dl_dtype_name(kinds[kind].dtype),
             layouts[layout], d);
}

static void one(int f, dl_tensor *narrow, int kind, long dim, int layout) {
    dl_tensor *cast = must(dl_to_dtype(narrow, DL_F64)), *x = leaf(must(dl_clone(cast))), *v = laid_out(narrow, layout);
    dl_tensor *want = must(functions[f].run(x, dim)), *y = NULL;
    if (functions[f].differentiable) leaf(v);
    y = must(functions[f].run(v, dim));
    dl_tensor *flat = must(dl_detach(y)), *got = host(flat);
    compare(got, want, f, kind, "result", dl_shape(x)[dim], dim, layout);
    if (functions[f].differentiable) {
        dl_tensor *seed = drawn(9, dl_ndim(want), dl_shape(want), kinds[kind].dtype),
                  *wide = must(dl_to_dtype(seed, DL_F64));
        dl_tensor *there = must(dl_to_device(seed, GPU)), *dx = NULL, *dv = NULL;
        gradients(want, wide, &x, 1, 0, &dx);
        gradients(y, there, &v, 1, 0, &dv);
        dv = host(dv);
        compare(dv, dx, f, kind, "gradient", 900 + dl_shape(x)[dim], dim, layout);
        dl_unref(seed), dl_unref(wide), dl_unref(there), dl_unref(dx), dl_unref(dv);
    }
    dl_unref(cast), dl_unref(x), dl_unref(v), dl_unref(want), dl_unref(y), dl_unref(got);
}

static void all_of(int ndim, const long *shape, bool every_kind) {
    for (int kind = 0; kind < (every_kind ? 3 : 1); kind++) {
        dl_tensor *x = drawn(3, ndim, shape, kinds[kind].dtype);
        for (unsigned f = 0; f < sizeof functions / sizeof *functions; f++)
            for (int layout = 0; layout < LAYOUTS; layout++)
                for (long dim = 0; dim < ndim; dim++) one((int)f, x, kind, dim, layout);
        dl_unref(x);
    }
}

static void short_rows(void **state) {
    (void)state;
    NEEDS_GPU();
    for (long d = 1; d <= 40; d++) all_of(2, SHAPE(7, d), d % 8 < 3);
}

static void many_and_few(void **state) {
    (void)state;
    NEEDS_GPU();
    all_of(2, SHAPE(20011, 3), false);
    all_of(2, SHAPE(20000, 10), true);
    all_of(2, SHAPE(600, 129), false);
    all_of(2, SHAPE(20000, 64), false);
    all_of(3, SHAPE(3, 130, 36), true);
    all_of(3, SHAPE(4, 21, 100), true);
    all_of(3, SHAPE(3, 70, 64), true);
}

static void long_rows(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long sizes[] = {1023, 1024, 1025, 4096, 8200, 16388, 65537};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) all_of(2, SHAPE(2, sizes[i]), true);
    all_of(2, SHAPE(1, 300001), false);
    all_of(2, SHAPE(300, 16400), false);
}

/* NaN and infinities affect only their own row. */
static void odd_values(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long widths[] = {5, 32, 1024, 20000};
    for (unsigned k = 0; k < sizeof widths / sizeof *widths; k++) {
        long w = widths[k];
        dl_tensor *x = drawn(1, 2, SHAPE(4, w), DL_F32);
        float *v = dl_data(x);
        v[w / 2] = NAN;
        v[w + w / 3] = INFINITY;
        for (long i = 0; i < w; i++) v[2 * w + i] = -INFINITY;
        v[3 * w] = -INFINITY;
        for (unsigned f = 0; f < sizeof functions / sizeof *functions; f++) {
            dl_tensor *want = must(functions[f].run(x, 1)), *there = laid_out(x, PLAIN);
            dl_tensor *got = host(functions[f].run(there, 1));
            compare(got, want, (int)f, 0, "odd values", w, 1, PLAIN);
            dl_unref(want), dl_unref(there), dl_unref(got);
        }
        dl_unref(x);
    }
}

/* ---- determinism */

static void same_bits(dl_tensor *a, dl_tensor *b, const char *what) {
    a = host(a), b = host(b);
    if (memcmp(dl_data(a), dl_data(b), (size_t)dl_numel(a) * (size_t)dl_dtype_size(dl_dtype_of(a))))
        fail_msg("%s: other bits the second time", what);
    dl_unref(a), dl_unref(b);
}

static void repeats(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_tensor *host_x = drawn(4, 2, SHAPE(1027, 2052), DL_F32), *x = must(dl_to_device(host_x, GPU));
    for (int k = 0; k < 20; k++)
        for (long dim = 0; dim < 2; dim++) {
            same_bits(sum_of(x, dim), sum_of(x, dim), "sum of a dimension");
            same_bits(dl_sum(x, NULL, 0, 0), dl_sum(x, NULL, 0, 0), "sum");
            same_bits(lse_of(x, dim), lse_of(x, dim), "logsumexp");
            same_bits(dl_softmax(x, dim), dl_softmax(x, dim), "softmax");
        }
    dl_unref(host_x), dl_unref(x);
    host_x = drawn(5, 2, SHAPE(20000, 64), DL_F32), x = must(dl_to_device(host_x, GPU));
    for (int k = 0; k < 20; k++) same_bits(sum_of(x, 0), sum_of(x, 0), "sum of many rows");
    dl_unref(host_x), dl_unref(x);
}

/* ---- copies and broadcasting */

static void turned_copies(void **state) {
    (void)state;
    NEEDS_GPU();
    static const dl_dtype types[] = {DL_U8, DL_BF16, DL_F32, DL_F64};
    static const long shapes[][4] = {{1, 1, 17, 33},   {1, 1, 64, 64}, {1, 2, 65, 130},
                                     {3, 5, 16, 200},  {2, 3, 96, 40}, {1, 1, 300, 16},
                                     {1, 1, 2100, 68}, {2, 64, 7, 9},  {0, 2, 20, 30}};
    static const long orders[][4] = {{0, 1, 3, 2}, {3, 2, 1, 0}, {0, 2, 3, 1}, {2, 3, 0, 1}, {3, 0, 2, 1}};
    for (int t = 0; t < 4; t++)
        for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (unsigned o = 0; o < sizeof orders / sizeof *orders; o++)
                for (int layout = 0; layout < LAYOUTS; layout++) {
                    dl_tensor *raw = drawn(s, 4, shapes[s], DL_F64), *big = must(dl_mul(raw, raw));
                    dl_tensor *x = must(dl_to_dtype(big, types[t])), *v = laid_out(x, layout);
                    dl_tensor *p = must(dl_permute(x, orders[o], 4)), *q = must(dl_permute(v, orders[o], 4));
                    dl_tensor *want = must(dl_contiguous(p)), *got = host(dl_contiguous(q));
                    near(got, want, 0, "a copy in another order");
                    dl_unref(raw), dl_unref(big), dl_unref(x), dl_unref(v), dl_unref(p), dl_unref(q);
                    dl_unref(want), dl_unref(got);
                }
}

static void broadcasting(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][2][3] = {{{4, 7, 32}, {1, 1, 32}}, {{4, 7, 33}, {1, 1, 33}}, {{5, 1, 8}, {1, 4, 1}},
                                        {{3, 6, 8}, {3, 1, 8}},   {{2, 3, 40}, {2, 3, 1}},  {{9, 16, 24}, {1, 16, 1}}};
    static const dl_dtype types[] = {DL_F32, DL_BF16, DL_I64, DL_U8};
    for (int t = 0; t < 4; t++)
        for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int layout = 0; layout < LAYOUTS; layout++) {
                dl_tensor *a = drawn(1, 3, shapes[s][0], DL_F64), *b = drawn(2, 3, shapes[s][1], DL_F64);
                dl_tensor *sa = must(dl_mul(a, a)), *sb = must(dl_mul(b, b));
                dl_tensor *x = must(dl_to_dtype(sa, types[t])), *y = must(dl_to_dtype(sb, types[t]));
                dl_tensor *v = laid_out(x, layout), *w = laid_out(y, layout);
                dl_tensor *want = must(dl_add(x, y)), *got = host(dl_add(v, w));
                near(got, want, 0, "a sum of two shapes");
                dl_tensor *more = must(dl_lt(x, y)), *got_more = host(dl_lt(v, w));
                near(got_more, more, 0, "a comparison of two shapes");
                dl_unref(a), dl_unref(b), dl_unref(sa), dl_unref(sb), dl_unref(x), dl_unref(y), dl_unref(v),
                    dl_unref(w);
                dl_unref(want), dl_unref(got), dl_unref(more), dl_unref(got_more);
            }
}

/* ---- batch norm */

static void norm_case(const long *shape, int layout, dl_dtype dtype, double tolerance) {
    long c = shape[1];
    dl_tensor *raw = drawn(5, 4, shape, DL_F64), *far = dl_scalar_f(30), *moved = must(dl_add(raw, far));
    dl_tensor *x = must(dl_to_dtype(moved, dtype)), *cpu[3], *gpu[3], *dc[3] = {0}, *dg[3] = {0};
    dl_tensor *cast = must(dl_to_dtype(x, DL_F64));
    cpu[0] = leaf(must(dl_clone(cast))), gpu[0] = leaf(laid_out(x, layout));
    for (int i = 1; i < 3; i++) {
        dl_tensor *w = drawn(6 + (unsigned)i, 1, &c, dtype), *wide = must(dl_to_dtype(w, DL_F64));
        cpu[i] = leaf(must(dl_clone(wide))), gpu[i] = leaf(must(dl_to_device(w, GPU)));
        dl_unref(w), dl_unref(wide);
    }
    dl_tensor *want = must(dl_batch_norm(cpu[0], NULL, NULL, cpu[1], cpu[2], 1, 0.1, 1e-5));
    dl_tensor *y = must(dl_batch_norm(gpu[0], NULL, NULL, gpu[1], gpu[2], 1, 0.1, 1e-5));
    dl_tensor *flat = must(dl_detach(y)), *got = host(flat);
    near(got, want, tolerance, "batch_norm");
    dl_tensor *seed = drawn(8, 4, shape, dtype), *wide = must(dl_to_dtype(seed, DL_F64)),
              *there = must(dl_to_device(seed, GPU));
    gradients(want, wide, cpu, 3, 0, dc);
    gradients(y, there, gpu, 3, 0, dg);
    for (int i = 0; i < 3; i++) {
        dg[i] = host(dg[i]);
        near(dg[i], dc[i], tolerance, i == 0 ? "gradient of batch_norm" : "gradient of its weight or bias");
        dl_unref(dg[i]), dl_unref(dc[i]), dl_unref(cpu[i]), dl_unref(gpu[i]);
    }
    dl_unref(raw), dl_unref(far), dl_unref(moved), dl_unref(cast), dl_unref(x), dl_unref(want), dl_unref(y),
        dl_unref(got);
    dl_unref(seed), dl_unref(wide), dl_unref(there);
}

static void batch_norms(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][4] = {{4, 3, 5, 7},   {8, 64, 14, 14}, {33, 10, 1, 1},
                                     {2, 5, 64, 65}, {16, 16, 8, 8},  {24, 64, 32, 32}};
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int layout = 0; layout <= CHANNELS_LAST; layout++) {
            norm_case(shapes[s], layout, DL_F32, 4e-6); /* numbers around 30 have that much less to spare */
            norm_case(shapes[s], layout, DL_F64, 1e-12);
        }
}

/* ---- losses */

static void loss_case(int ndim, const long *shape, const char *how, double smooth, bool weighted, dl_dtype dtype) {
    long classes = shape[1], n = shape[0], places[2] = {shape[0], ndim > 2 ? shape[2] : 1};
    double tolerance = dtype == DL_F64 ? 1e-12 : dtype == DL_F32 ? 6e-7 : 2e-2;
    dl_tensor *x = drawn(1, ndim, shape, dtype), *cast = must(dl_to_dtype(x, DL_F64)),
              *cpu = leaf(must(dl_clone(cast)));
    dl_tensor *gpu = leaf(laid_out(x, PLAIN)), *dc = NULL, *dg = NULL;
    if (ndim > 2) n *= shape[2];
    long *label = calloc((size_t)n, sizeof *label);
    for (long i = 0; i < n; i++) label[i] = i % 7 == 3 ? -100 : i * 31 % classes;
    dl_tensor *y = must(dl_tensor_from(ndim - 1, places, DL_I64, 0, label)), *there = must(dl_to_device(y, GPU));
    dl_tensor *raw = drawn(2, 1, &classes, dtype), *w = must(dl_mul(raw, raw)), *wc = must(dl_to_dtype(w, DL_F64));
    dl_tensor *wg = must(dl_to_device(w, GPU));
    dl_tensor *want = must(dl_cross_entropy(cpu, y, weighted ? wc : NULL, how, -100, smooth));
    dl_tensor *loss = must(dl_cross_entropy(gpu, there, weighted ? wg : NULL, how, -100, smooth));
    dl_tensor *flat = must(dl_detach(loss)), *got = host(flat);
    near(got, want, tolerance, "cross_entropy");
    dl_tensor *seed = drawn(8, dl_ndim(want), dl_shape(want), dtype), *wide = must(dl_to_dtype(seed, DL_F64));
    dl_tensor *seed_there = must(dl_to_device(seed, GPU));
    gradients(want, wide, &cpu, 1, 0, &dc);
    gradients(loss, seed_there, &gpu, 1, 0, &dg);
    dg = host(dg);
    near(dg, dc, tolerance, "gradient of cross_entropy");
    dl_tensor *all[] = {x, cast, cpu, gpu, dc, dg, y, there, raw, w, wc, wg, want, loss, got, seed, wide, seed_there};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) dl_unref(all[i]);
    free(label);
}

static void losses(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][3] = {{64, 10, 0},    {5000, 10, 0}, {3, 8192, 0},
                                     {300, 1001, 0}, {9, 64, 0},    {2, 21, 300}};
    static const char *const how[] = {"mean", "sum", "none"};
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int h = 0; h < 3; h++)
            for (int k = 0; k < 4; k++) {
                int ndim = shapes[s][2] ? 3 : 2;
                loss_case(ndim, shapes[s], how[h], k & 1 ? 0.1 : 0, k & 2, DL_F32);
                if (!h) loss_case(ndim, shapes[s], how[h], k & 1 ? 0.1 : 0, k & 2, k & 1 ? DL_F64 : DL_BF16);
            }
}

/* Each of these to the power of each, and to those that have a way of their own as numbers of the language. */
static void powers(void **state) {
    (void)state;
    NEEDS_GPU();
    static const float v[] = {0,        -0.0f,    1,        -1,        2,         -2,     0.5f,    -0.5f,
                              3,        -3,       INFINITY, -INFINITY, NAN,       1e-40f, -1e-40f, 3e38f,
                              16777216, 16777215, 1.5f,     -7.25f,    0.999999f, 100,    -41,     1e-3f};
    static const double numbers[] = {2, 3, 0.5, -1, -2, -0.5, 0, 1, 1.7, -3};
    const long n = sizeof v / sizeof *v, column[2] = {n, 1};
    dl_tensor *a = must(dl_tensor_from(1, &n, DL_F32, 0, v)), *b = must(dl_reshape(a, column, 2));
    dl_tensor *ga = must(dl_to_device(a, GPU)), *gb = must(dl_to_device(b, GPU));
    dl_tensor *want = must(dl_pow(a, b)), *got = host(dl_pow(ga, gb));
    for (long i = 0; i < n * n; i++) {
        float w = ((float *)dl_data(want))[i], g = ((float *)dl_data(got))[i];
        if (!(g == w || fabsf(g - w) <= 3e-7f * fabsf(w) || (isnan(g) && isnan(w))) || signbit(g) != signbit(w))
            if (!isnan(w) || !isnan(g)) fail_msg("%g ** %g is %g, not %g", v[i % n], v[i / n], g, w);
    }
    dl_unref(want), dl_unref(got);
    for (unsigned k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        dl_tensor *e = must(dl_scalar_f(numbers[k]));
        want = must(dl_pow(a, e)), got = host(dl_pow(ga, e));
        for (long i = 0; i < n; i++) {
            float w = ((float *)dl_data(want))[i], g = ((float *)dl_data(got))[i];
            if (!(g == w || fabsf(g - w) <= 3e-7f * fabsf(w) || (isnan(g) && isnan(w))))
                fail_msg("%g ** %g is %g, not %g", v[i], numbers[k], g, w);
        }
        dl_unref(e), dl_unref(want), dl_unref(got);
    }
    dl_unref(a), dl_unref(b), dl_unref(ga), dl_unref(gb);
}

/* Given the name of a test, that one alone. */
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_rows),   cmocka_unit_test(many_and_few), cmocka_unit_test(long_rows),
        cmocka_unit_test(odd_values),   cmocka_unit_test(repeats),      cmocka_unit_test(turned_copies),
        cmocka_unit_test(broadcasting), cmocka_unit_test(batch_norms),  cmocka_unit_test(losses),
        cmocka_unit_test(powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
