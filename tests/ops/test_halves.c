/* Gradients in 16 bits against f64 of the same, rounded inputs: computed in f32, they differ by one rounding. Seeds
 * with equal elements, for which some gradients are zero, are tested, too. */
#include "support/tensors.h"
#include "dlcore/all.h"

enum { WIDTH = 150 }; /* more than one band of columns */

typedef dl_tensor *(*call)(dl_tensor **in);

static dl_tensor *batch_norm(dl_tensor **in) { return dl_batch_norm(in[0], NULL, NULL, in[1], in[2], 1, 0.1, 1e-2); }
static dl_tensor *layer_norm(dl_tensor **in) { return dl_layer_norm(in[0], in[1], in[2], SHAPE(WIDTH), 1, 1e-2); }
static dl_tensor *rms_norm(dl_tensor **in) { return dl_rms_norm(in[0], in[1], SHAPE(WIDTH), 1, (double[]){1e-2}); }
static dl_tensor *softmax(dl_tensor **in) { return dl_softmax(in[0], 1); }

static void one(call f, int n, const char *what, bool same_rows) {
    const long shape[2] = {70, WIDTH}, first = 0, stop = 1;
    dl_tensor *in[3], *wide[3], *got[3], *want[3];
    for (int i = 0; i < n; i++) {
        dl_tensor *x = drawn((unsigned)i + 1, i ? 1 : 2, i ? &shape[1] : shape, DL_F32),
                  *half = must(dl_to(x, DL_BF16));
        wide[i] = leaf(must(dl_to(half, DL_F64))), in[i] = leaf(half);
        dl_unref(x);
    }
    dl_tensor *seed = drawn(9, 2, shape, DL_BF16);
    if (same_rows) {
        dl_tensor *row = must(dl_slice(seed, 0, &first, &stop, 1));
        dl_unref(seed);
        seed = must(dl_expand(row, shape, 2));
        dl_unref(row);
    }
    dl_tensor *as_f64 = must(dl_to(seed, DL_F64)), *y = must(f(in)), *z = must(f(wide));
    gradients(y, seed, in, n, 0, got);
    gradients(z, as_f64, wide, n, 0, want);
    for (int i = 0; i < n; i++) {
        double *a = values(got[i]), *b = values(want[i]), num = 0, den = 0, count = (double)dl_numel(got[i]);
        for (long k = 0; k < dl_numel(got[i]); k++) num += (a[k] - b[k]) * (a[k] - b[k]), den += b[k] * b[k];
        double limit = 0x1p-8 * (sqrt(den) + 0.05 * sqrt(count));
        if (!(sqrt(num) <= limit)) fail_msg("%s: gradient %d off by %g, at most %g allowed", what, i, sqrt(num), limit);
        free(a), free(b);
        dl_unref(in[i]), dl_unref(wide[i]), dl_unref(got[i]), dl_unref(want[i]);
    }
    dl_unref(seed), dl_unref(as_f64), dl_unref(y), dl_unref(z);
}

static void gradients_round_once(void **state) {
    (void)state;
    for (int same = 0; same < 2; same++) {
        one(batch_norm, 3, "batch_norm", same);
        one(layer_norm, 3, "layer_norm", same);
        one(rms_norm, 2, "rms_norm", same);
        one(softmax, 1, "softmax", same);
    }
}

/* Intermediate squares do not overflow, and small values do not vanish. */
static void lengths_of_large_and_small_vectors(void **state) {
    (void)state;
    static const double sizes[] = {100, 1, 1e-3};
    for (int i = 0; i < 3; i++)
        for (double p = 1; p < 4; p++) {
            const double v[2] = {3 * sizes[i], 4 * sizes[i]}, want = pow(pow(v[0], p) + pow(v[1], p), 1 / p);
            dl_tensor *wide = must(dl_tensor_from(1, SHAPE(2), DL_F64, 0, v)), *x = leaf(must(dl_to(wide, DL_F16)));
            dl_tensor *n = must(dl_norm(x, NULL, 0, 0, p)), *unit = must(dl_normalize(x, p, 0, 1e-12)), *g;
            gradients(n, NULL, &x, 1, 0, &g);
            double got = 0, *u = values(unit), *slope = values(g);
            ok(dl_item_f(n, &got));
            assert_true(dl_dtype_of(n) == DL_F16 && dl_dtype_of(g) == DL_F16);
            if (!(fabs(got - want) <= 1e-3 * want)) fail_msg("norm of %g, p=%g: %g, not %g", v[0], p, got, want);
            assert_true(fabs(u[0] - v[0] / want) <= 2e-3 && fabs(slope[1] - pow(v[1] / want, p - 1)) <= 2e-3);
            free(u), free(slope);
            dl_unref(wide), dl_unref(x), dl_unref(n), dl_unref(unit), dl_unref(g);
        }
}

/* Rows of a wider tensor, dense ones and every other element, by the conversion of single numbers. */
static void conversions_of_rows(void **state) {
    (void)state;
    static const dl_dtype types[] = {DL_BF16, DL_F16};
    const long zero = 0, three = 3;
    for (long width = 1; width < 300; width += 37)
        for (int k = 0; k < 8; k++) {
            const dl_dtype half = types[k & 1], from = k & 2 ? half : DL_F32, to = k & 2 ? DL_F32 : half;
            const long end = width, step = k & 4 ? 2 : 1;
            dl_tensor *x = drawn((unsigned)k, 2, SHAPE(5, width + 3), from);
            dl_store_f64(dl_data(x), from, NAN);
            dl_tensor *rows = must(dl_slice(x, 1, &zero, &end, step)), *some = must(dl_slice(rows, 0, NULL, &three, 1));
            dl_tensor *y = must(dl_to(some, to));
            double *v = values(some), *got = values(y);
            for (long i = 0; i < dl_numel(y); i++) {
                uint64_t room;
                dl_store_f64(&room, to, v[i]);
                const double want = dl_load_f64(&room, to);
                if (got[i] != want && !(isnan(got[i]) && isnan(want))) fail_msg("%ld: %g, not %g", i, got[i], want);
            }
            free(v), free(got);
            dl_unref(x), dl_unref(rows), dl_unref(some), dl_unref(y);
        }
}

/* The sign is a bit: of dense operands, every other element, and one number for a row. */
static void signs(void **state) {
    (void)state;
    static const dl_dtype types[] = {DL_BF16, DL_F16};
    static const double odd[] = {0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-24, -0x1p-24};
    const long zero = 0, one = 1;
    for (int k = 0; k < 6; k++)
        for (long width = 0; width < 150; width += 7) {
            const dl_dtype t = types[k & 1];
            dl_tensor *a = drawn(1, 2, SHAPE(3, 2 * width), t), *b = drawn(2, 2, SHAPE(3, 2 * width), t);
            for (int i = 0; i < 7 && width; i++) dl_store_f64((char *)dl_data(a) + 4 * i, t, odd[i]);
            const long end = k / 2 == 2 ? 2 * width : width, step = k / 2 == 2 ? 2 : 1, row = k / 2 ? end : one;
            dl_tensor *x = must(dl_slice(a, 1, &zero, &end, step)), *y = must(dl_slice(b, 1, &zero, &row, step));
            dl_tensor *got[3] = {must(dl_neg(x)), must(dl_abs(x)), width ? must(dl_copysign(x, y)) : NULL};
            double *v = values(x), *w = values(y);
            for (int f = 0; f < 3 && got[f]; f++) {
                double *r = values(got[f]);
                for (long i = 0; i < 3 * width; i++) {
                    const double sign = w[k / 2 ? i : i / width];
                    const double want = f == 0 ? -v[i] : f == 1 ? fabs(v[i]) : copysign(v[i], sign);
                    if (!signbit(r[i]) != !signbit(want) || (r[i] != want && !isnan(want)) ||
                        isnan(r[i]) != isnan(want))
                        fail_msg("function %d of %g: %g", f, v[i], r[i]);
                }
                free(r);
                dl_unref(got[f]);
            }
            free(v), free(w);
            dl_unref(a), dl_unref(b), dl_unref(x), dl_unref(y);
        }
}

/* Few elements of a long list, some of them several times, are summed in f32 and rounded once. */
static void few_sums_round_once(void **state) {
    (void)state;
    static const dl_dtype types[] = {DL_BF16, DL_F16};
    static const long counts[] = {0, 1, 40, 300, 625}, size = 10000;
    for (int k = 0; k < 10; k++) {
        const dl_dtype t = types[k & 1];
        const long n = counts[k / 2];
        long *at = calloc((size_t)n + 1, sizeof *at);
        assert_non_null(at);
        for (long i = 0; i < n; i++) at[i] = i % 3 ? i * 7919 % size - (i % 2 ? size : 0) : 17;
        dl_tensor *x = drawn(1, 1, &size, t), *v = drawn(2, 1, &n, t), *index = labels(n, at);
        dl_tensor *wide = must(dl_to(x, DL_F32)), *u = must(dl_to(v, DL_F32));
        dl_tensor *got = must(dl_index_add(x, index, v, 0)), *sum = must(dl_index_add(wide, index, u, 0));
        dl_tensor *want = must(dl_to(sum, t));
        near(got, want, 0, "index_add");
        free(at);
        dl_unref(x), dl_unref(v), dl_unref(index), dl_unref(wide), dl_unref(u);
        dl_unref(got), dl_unref(sum), dl_unref(want);
    }
    const long past = size;
    dl_tensor *x = drawn(1, 1, &size, DL_BF16), *v = drawn(2, 1, SHAPE(1), DL_BF16), *index = labels(1, &past);
    fails(dl_index_add(x, index, v, 0), DL_ERR_INDEX, "10000");
    dl_unref(x), dl_unref(v), dl_unref(index);
}

/* The least and the largest of odd numbers, of one sign, with infinities, and with a NaN of either sign. */
static void extremes(void **state) {
    (void)state;
    static const dl_dtype types[] = {DL_BF16, DL_F16};
    static const double odd[] = {INFINITY, -INFINITY, NAN, -NAN, 0x1p-24, -0.0};
    for (int k = 0; k < 16; k++)
        for (long n = 1; n < 9000; n = n * 5 / 3 + 1) {
            const dl_dtype t = types[k & 1];
            dl_tensor *x = drawn((unsigned)n, 1, &n, t), *least, *most;
            double *v = values(x), least_of = INFINITY, most_of = -INFINITY, low, high;
            for (long i = 0; i < n; i++) {
                v[i] = k / 2 == 6 ? -fabs(v[i]) : i == n / 2 && k / 2 < 6 ? odd[k / 2] : fabs(v[i]) + 1;
                dl_store_f64((char *)dl_data(x) + 2 * i, t, v[i]);
                v[i] = dl_load_f64((char *)dl_data(x) + 2 * i, t);
                least_of = v[i] < least_of || isnan(v[i]) ? v[i] : least_of;
                most_of = v[i] > most_of || isnan(v[i]) ? v[i] : most_of;
            }
            least = must(dl_aminmax(x, NULL, 0, &most));
            ok(dl_item_f(least, &low)), ok(dl_item_f(most, &high));
            if (!(low == least_of || (isnan(low) && isnan(least_of))) ||
                !(high == most_of || (isnan(high) && isnan(most_of))))
                fail_msg("%ld of %s, %d: %g and %g", n, dl_dtype_name(t), k / 2, low, high);
            free(v);
            dl_unref(x), dl_unref(least), dl_unref(most);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_sums_round_once),
                                       cmocka_unit_test(extremes),
                                       cmocka_unit_test(gradients_round_once),
                                       cmocka_unit_test(conversions_of_rows),
                                       cmocka_unit_test(signs),
                                       cmocka_unit_test(lengths_of_large_and_small_vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
