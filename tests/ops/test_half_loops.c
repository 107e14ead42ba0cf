/* Loops of 16-bit floats in one pass: what they compute is the result of the loop in f32, rounded once, bit for bit. */
#include "support/tensors.h"
#include "dlcore/all.h"

#include <omp.h>

#include "cpu/kernels/pointwise/pointwise.h"
#include "cpu/kernels/reduce.h"

enum { MOST = 150 };
static const dl_dtype types[] = {DL_BF16, DL_F16};

/* Numbers of both signs and many sizes, and those that are special. */
static unsigned short some_half(uint32_t *seed, dl_dtype t) {
    static const double odd[] = {0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-24, 1, -1, 3e38, 6e4};
    unsigned short h;
    *seed = *seed * 1664525u + 1013904223u;
    const unsigned u = *seed >> 8;
    dl_store_f64(&h, t, u % 8 ? ldexp((double)(u >> 12 & 0xff) / 64 - 2, (int)(u >> 4 & 7) - 3) : odd[(u >> 4) % 10]);
    return h;
}

static bool is_nan(unsigned short h, dl_dtype t) { return isnan(dl_load_f64(&h, t)); }

/* One function of `operands`; those of a set bit of `repeated` repeat one number. Returns how many the loop did. */
static long compare(dl_some some, dl_loop loop, int operands, dl_dtype t, long n, unsigned repeated, double b,
                    const char *what) {
    static unsigned short in[4][MOST + 1], out[MOST + 2], want[MOST];
    static float wide[4][MOST], result[MOST];
    uint32_t seed = (uint32_t)(n * 16 + repeated);
    dl_pointwise_arg arg = {.number = {{.f = 0.75}, {.f = 1.5}, {.f = -2}}};
    char *p[5] = {(char *)(out + 1)}, *q[5] = {(char *)result};
    long s[5] = {2}, r[5] = {4};
    for (int k = 0; k < operands; k++) {
        for (long i = 0; i <= MOST; i++) in[k][i] = some_half(&seed, t);
        if (k == operands - 1 && !isnan(b)) dl_store_f64(&in[k][1], t, b);
        dl_cpu_half_to_f32(MOST, in[k] + 1, t, wide[k]);
        p[1 + k] = (char *)(in[k] + 1), q[1 + k] = (char *)wide[k];
        s[1 + k] = repeated >> k & 1 ? 0 : 2, r[1 + k] = 2 * s[1 + k];
    }
    memset(out, 0x55, sizeof out);
    const long done = some(n, p, s, &arg);
    if (done < 0 || done > n || out[0] != 0x5555 || out[1 + done] != 0x5555)
        fail_msg("%s, %s: %ld of %ld", what, dl_dtype_name(t), done, n);
    if (!done) return 0;
    loop(done, q, r, &arg);
    dl_cpu_f32_to_half(done, result, want, t);
    for (long i = 0; i < done; i++)
        if (out[1 + i] != want[i] && !(is_nan(out[1 + i], t) && is_nan(want[i], t)))
            fail_msg("%s, %s, level %d, %ld of %ld, repeated %x: %x, not %x", what, dl_dtype_name(t), dl_simd_level(),
                     i, n, repeated, out[1 + i], want[i]);
    return done;
}

static long all_layouts(dl_some some, dl_loop loop, int operands, dl_dtype t, double b, const char *what) {
    long light = 0;
    for (unsigned repeated = 0; repeated < 1u << operands; repeated++)
        for (long n = 0; n <= MOST; n += n < 35 ? 1 : 23)
            light += compare(some, loop, operands, t, n, repeated, b, what);
    return light > 0;
}

static void all_formulas(void **state) {
    (void)state;
    static const int levels[] = {1, 3, 4};
    static const double exponents[] = {1, 2, 3, 0.5, -1, -0.5, -2, 0.3, NAN};
    for (int l = 0; l < 6; l++) {
        dl_simd_limit(levels[l / 2]);
        const dl_dtype t = types[l % 2];
        const dl_halves_loops some = DL_SIMD_PICK(dl_halves)[t];
        const dl_pointwise_loops wide = DL_SIMD_PICK(dl_pointwise)[DL_F32];
        long light = 0;
        for (int i = 0; some && i < DL_NFORMULA; i++) {
            const dl_formula *f = dl_formula_at(i);
            const int number = i == DL_FORMULA_pow ? 9 : 1;
            for (int k = 9 - number; some->run[i] && k < 9; k++)
                light += all_layouts(some->run[i], wide->run[i], f->operands, t, exponents[k], f->name);
            for (int k = 0; k < 3; k++)
                if (some->grad[k][i])
                    light += all_layouts(some->grad[k][i], wide->grad[k][i], 1 + f->operands, t, NAN, f->name);
        }
        if (some && light < 80) fail_msg("%ld loops of %s at level %d", light, dl_dtype_name(t), dl_simd_level());
    }
    dl_simd_limit(4);
}

/* Rows and columns that repeat, parts of rows, every other column, by one to three threads. */
static void calls(void **state) {
    (void)state;
    const int had = omp_get_max_threads();
    const long grain = dl_cpu_grain(1);
    for (int k = 0; k < 6; k++) {
        const dl_dtype t = types[k % 2];
        omp_set_num_threads(1 + k / 2);
        for (long n = 0; n < 150; n += n < 3 ? 1 : 29)
            for (int layout = 0; layout < 4; layout++) {
                const long from = layout == 1, to = from + n, step = layout == 2 ? 2 : 1;
                dl_tensor *a = drawn(1, 2, SHAPE(5, 2 * n + 1), t), *x = must(dl_slice(a, 1, &from, &to, step));
                dl_tensor *y = drawn(2, 2, layout == 3 ? SHAPE(5, 1) : SHAPE(1, dl_shape(x)[1]), t);
                dl_tensor *u = must(dl_to(x, DL_F32)), *v = must(dl_to(y, DL_F32));
                dl_tensor *got[] = {must(dl_mul(x, y)), must(dl_sqrt(x)), must(dl_lerp(x, y, x))};
                dl_tensor *want[] = {must(dl_mul(u, v)), must(dl_sqrt(u)), must(dl_lerp(u, v, u))};
                for (int f = 0; f < 3; f++) {
                    dl_tensor *rounded = must(dl_to(want[f], t));
                    near(got[f], rounded, 0, "a call");
                    dl_unref(rounded), dl_unref(got[f]), dl_unref(want[f]);
                }
                dl_unref(a), dl_unref(x), dl_unref(y), dl_unref(u), dl_unref(v);
            }
    }
    omp_set_num_threads(had);
    dl_cpu_grain(grain);
}

/* ---- reductions */

enum { GRID = 6000 };

/* Results of a reduction of 16 bits and of the same in f32. */
static void same_results(const dl_reducer *r, const void *got, const void *want, long n, const char *what, int id,
                         dl_dtype t, long rows, long width) {
    for (long i = 0; i < n; i++) {
        char a[8], b[8];
        r->store(1, (const char *)got + i * r->size, a, r->result);
        r->store(1, (const char *)want + i * r->size, b, r->result);
        const dl_dtype of = r->result == 1 ? DL_BOOL : DL_F32;
        const double x = dl_load_f64(a, of), y = dl_load_f64(b, of);
        if (x != y && !(isnan(x) && isnan(y)))
            fail_msg("%s of reduction %d of %s, level %d, %ld by %ld: %.9g at %ld, not %.9g", what, id,
                     dl_dtype_name(t), dl_simd_level(), rows, width, x, i, y);
    }
}

/* Rows and columns of a grid, whose elements are `step` and whose rows are `step` times `width` + `gap` elements apart.
 */
static void one_shape(int id, dl_dtype t, const unsigned short *half, const float *wide, long rows, long width,
                      long step, long gap, bool with_m) {
    const dl_reducer *r = &DL_SIMD_PICK(dl_reducer_table)[id][t], *of_f32 = &DL_SIMD_PICK(dl_reducer_table)[id][DL_F32];
    static double acc[2][DL_REDUCE_TILE];
    static float m[DL_REDUCE_TILE];
    for (long i = 0; i < width; i++) m[i] = (float)(i % 7) / 4;
    r->row(width, (const char *)half, 2 * step, with_m ? m : NULL, acc[0]);
    of_f32->row(width, (const char *)wide, 4 * step, with_m ? m : NULL, acc[1]);
    same_results(r, acc[0], acc[1], 1, "a row", id, t, 1, width);
    if (step > 1) return;
    r->cols(rows, width, (const char *)half, 2 * (width + gap), with_m ? m : NULL, 1, acc[0]);
    of_f32->cols(rows, width, (const char *)wide, 4 * (width + gap), with_m ? m : NULL, 1, acc[1]);
    same_results(r, acc[0], acc[1], width, "columns", id, t, rows, width);
}

static void all_reductions(void **state) {
    (void)state;
    static const int levels[] = {1, 3, 4};
    static const long sizes[] = {1, 3, 15, 16, 17, 31, 33, 64, 100, 300, 512};
    static unsigned short half[GRID + 1];
    static float wide[GRID];
    const int n = sizeof sizes / sizeof *sizes;
    for (int k = 0; k < 12; k++) {
        const dl_dtype t = types[k % 2];
        uint32_t seed = (uint32_t)k;
        dl_simd_limit(levels[k / 4]);
        for (int i = 0; i < GRID; i++) { /* all that is special in one of two grids */
            half[i + 1] = some_half(&seed, t);
            double x = dl_load_f64(&half[i + 1], t);
            if (k % 4 < 2 && !(fabs(x) < 100)) dl_store_f64(&half[i + 1], t, i % 3 - 1);
        }
        dl_cpu_half_to_f32(GRID, half + 1, t, wide);
        for (int id = 0; id < DL_NREDUCE; id++)
            for (int i = 0; i < n * n; i++)
                for (int how = 0; how < 4; how++) {
                    const long width = sizes[i % n], rows = sizes[i / n], step = how == 3 ? 3 : 1, gap = how % 2 * 3;
                    if (rows * (width + gap) <= GRID && width * step <= GRID)
                        one_shape(id, t, half + 1, wide, rows, width, step, gap, how == 2);
                }
        for (int id = 0; id < DL_NREDUCE; id++)
            for (long more = 0; more < 6; more++) one_shape(id, t, half + 1, wide, 1900 + more, 3, 1, 0, false);
    }
    dl_simd_limit(4);
}

/* The reductions of calls, of views, by one to three threads. */
static dl_tensor *sum_of(dl_tensor *x, long dim) { return dl_sum(x, &dim, 1, 0); }
static dl_tensor *mean_of(dl_tensor *x, long dim) { return dl_mean(x, &dim, 1, 0); }
static dl_tensor *largest_of(dl_tensor *x, long dim) { return dl_amax(x, &dim, 1, 0); }
static dl_tensor *product_of(dl_tensor *x, long dim) { return dl_prod(x, &dim, 0); }
static dl_tensor *squares_of(dl_tensor *x, long dim) { return dl_norm(x, &dim, 1, 0, 2); }
static dl_tensor *spread_of(dl_tensor *x, long dim) { return dl_var(x, &dim, 1, 0, 0); }
static dl_tensor *all_of(dl_tensor *x, long dim) { return (void)dim, dl_sum(x, NULL, 0, 0); }
static dl_tensor *known_of(dl_tensor *x, long dim) { return dl_nansum(x, &dim, 1, 0); }

/* A part of a tensor of f32 or 16 bits, by the same way. */
static dl_tensor *view_of(dl_tensor *x, int how) {
    const long one = 1;
    if (how == 0) return dl_ref(x);
    if (how == 1) return must(dl_permute(x, SHAPE(1, 2, 0), 3));
    if (how == 2) return must(dl_permute(x, SHAPE(2, 0, 1), 3));
    return must(dl_slice(x, 2, &one, NULL, how - 1));
}

static void reduced_calls(void **state) {
    (void)state;
    static dl_tensor *(*const f[])(dl_tensor *, long) = {sum_of,     mean_of,   largest_of, product_of,
                                                         squares_of, spread_of, all_of,     known_of};
    static const long shapes[][3] = {{3, 40, 33}, {2, 4, 20}, {20, 3, 2}, {1, 5000, 17}, {2, 9, 5000}, {4, 0, 3}};
    const int had = omp_get_max_threads();
    const long grain = dl_cpu_grain(1);
    for (int k = 0; k < 6 * 6 * 4; k++) {
        const dl_dtype t = types[k % 2];
        omp_set_num_threads(1 + k / 2 % 3);
        dl_tensor *x = drawn(1, 3, shapes[k / 24], t), *u = must(dl_to(x, DL_F32));
        dl_tensor *v = view_of(x, k / 6 % 4), *w = view_of(u, k / 6 % 4);
        for (long dim = 0; dim < 3; dim++)
            for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
                if (f[i] == largest_of && !dl_shape(v)[dim]) continue;
                dl_tensor *got = must(f[i](v, dim)), *wide = must(f[i](w, dim)), *want = must(dl_to(wide, t));
                near(got, want, 0, "a reduction");
                dl_unref(got), dl_unref(wide), dl_unref(want);
            }
        dl_unref(x), dl_unref(u), dl_unref(v), dl_unref(w);
    }
    omp_set_num_threads(had);
    dl_cpu_grain(grain);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_formulas), cmocka_unit_test(calls),
                                       cmocka_unit_test(all_reductions), cmocka_unit_test(reduced_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
