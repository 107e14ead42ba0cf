/* Memory: results do not depend on strides, on the number of threads or on the instruction set; views and writing into
 * them; random numbers by position. */
#include "ops/ops.h"

#include <omp.h>

#include "autograd/tape.h"
#include "core/random/rng.h"
#include "cpu/runtime/iter.h"
#include "cpu/runtime/simd.h"
#include "dlcore/all.h"

/* A random view of a larger tensor: sliced, permuted and here and there expanded. */
static dl_tensor *random_view(unsigned *state, long most) {
#define NEXT(n) ((long)((*state = *state * 1664525u + 1013904223u) >> 8) % (n))
    int ndim = 1 + (int)NEXT(4);
    long shape[4], order[4];
    for (int d = 0; d < ndim; d++) shape[d] = 1 + NEXT(most), order[d] = d;
    dl_tensor *t = hold(dl_randn(shape, ndim, DL_F32, 0));
    for (int d = 0; d < ndim; d++) {
        long other = NEXT(ndim), o = order[d], step = 1 + NEXT(2), start = NEXT(2);
        order[d] = order[other], order[other] = o;
        if (shape[d] > 3) t = hold(dl_slice(t, d, &start, NULL, step));
    }
    t = hold(dl_permute(t, order, ndim));
    for (int d = 0; d < ndim; d++) {
        long size[4] = {-1, -1, -1, -1};
        size[d] = dl_shape(t)[d] == 1 ? 1 + NEXT(5) : -1;
        t = hold(dl_expand(t, size, ndim));
    }
    return t;
}

static void same_values(dl_tensor *a, dl_tensor *b, double tolerance, const char *what, unsigned seed) {
    static double x[1 << 18], y[1 << 18];
    assert_non_null(a);
    assert_non_null(b);
    assert_true(dl_shape_eq(a, b));
    assert_int_equal(dl_read_f64(a, x), DL_OK);
    assert_int_equal(dl_read_f64(b, y), DL_OK);
    for (long i = 0; i < dl_numel(a); i++)
        if (fabs(x[i] - y[i]) > tolerance * (1 + fabs(y[i])))
            fail_msg("%s, seed %u: element %ld is %.9g, want %.9g", what, seed, i, x[i], y[i]);
    dl_unref(a);
    dl_unref(b);
}

static void strides_do_not_matter(void **state) {
    (void)state;
    dl_seed(7);
    for (unsigned seed = 1; seed <= 150; seed++) {
        unsigned s = seed;
        dl_tensor *v = random_view(&s, seed % 10 ? 9 : 24), *c = hold(dl_clone(v));
        long stride[DL_MAX_DIM];
        dl_strides_contiguous(dl_ndim(v), dl_shape(v), stride);
        c = hold(dl_restride(v, stride, dl_ndim(v)));
        assert_true(dl_is_contiguous(c));
        long dim = (long)(s >> 9) % dl_ndim(v);
        same_values(dl_add(v, c), dl_add(c, c), 0, "add", seed);
        same_values(dl_exp(v), dl_exp(c), 1e-6, "exp", seed);
        same_values(dl_sum(v, &dim, 1, 0), dl_sum(c, &dim, 1, 0), 1e-5, "sum", seed);
        same_values(dl_sum(v, NULL, 0, 0), dl_sum(c, NULL, 0, 0), 1e-5, "sum of all", seed);
        same_values(dl_amax(v, &dim, 1, 0), dl_amax(c, &dim, 1, 0), 0, "amax", seed);
        same_values(dl_argmax(v, &dim, 0), dl_argmax(c, &dim, 0), 0, "argmax", seed);
        same_values(dl_argmin(v, NULL, 0), dl_argmin(c, NULL, 0), 0, "argmin", seed);
        same_values(dl_logsumexp(v, &dim, 1, 1), dl_logsumexp(c, &dim, 1, 1), 1e-5, "logsumexp", seed);
        same_values(dl_cumsum(v, dim), dl_cumsum(c, dim), 0, "cumsum", seed);
        same_values(dl_flip(v, &dim, 1), dl_flip(c, &dim, 1), 0, "flip", seed);
        same_values(dl_to(v, DL_BF16), dl_to(c, DL_BF16), 0, "to", seed);
        same_values(dl_nonzero(v), dl_nonzero(c), 0, "nonzero", seed);
        const long flat = -1;
        same_values(dl_reshape(v, &flat, 1), dl_reshape(c, &flat, 1), 0, "reshape", seed);
        drop(NULL);
    }
}

static void crosswise_operands(void **state) {
    (void)state;
    static const long sizes[][2] = {{300, 200}, {17, 1031}, {1024, 33}, {129, 129}};
    const long swap[2] = {1, 0};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        dl_tensor *x = hold(dl_randn(sizes[i], 2, DL_F32, 0)), *t = hold(dl_permute(x, swap, 2));
        dl_tensor *c = hold(dl_contiguous(t));
        const float *p = dl_data(x), *q = dl_data(c);
        for (long r = 0; r < sizes[i][0]; r++)
            for (long k = 0; k < sizes[i][1]; k++)
                if (p[r * sizes[i][1] + k] != q[k * sizes[i][0] + r]) fail_msg("transposed copy, case %u", i);
        same_values(dl_mul(c, t), dl_mul(c, c), 0, "mul", i);
        same_values(dl_to(t, DL_F64), dl_to(c, DL_F64), 0, "to", i);
        dl_tensor *h = hold(dl_to(x, DL_F16)), *ht = hold(dl_permute(h, swap, 2));
        same_values(dl_add(hold(dl_contiguous(ht)), ht), dl_mul(ht, hold(dl_scalar_i(2))), 0, "add of f16", i);
        drop(NULL);
    }
}

/* Where the dimension that is dense in memory is short, loops go along another one. */
static void short_rows(void **state) {
    (void)state;
    static const long orders[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}};
    for (unsigned i = 0; i < sizeof orders / sizeof *orders; i++) {
        dl_tensor *x = hold(dl_randn((long[]){5, 1033, 3}, 3, DL_F32, 0)), *v = hold(dl_permute(x, orders[i], 3));
        dl_tensor *c = hold(dl_contiguous(v)), *few = hold(dl_slice(x, 2, &(long){1}, NULL, 1));
        const float *p = dl_data(x), *q = dl_data(c);
        const long *step = dl_stride(v), *n = dl_shape(v);
        for (long k = 0; k < dl_numel(v); k++)
            if (q[k] != p[k / n[2] / n[1] * step[0] + k / n[2] % n[1] * step[1] + k % n[2] * step[2]])
                fail_msg("copy of order %u, element %ld", i, k);
        same_values(dl_mul(c, v), dl_mul(c, c), 0, "mul", i);
        same_values(dl_to(v, DL_F16), dl_to(c, DL_F16), 0, "to", i);
        same_values(dl_neg(few), dl_neg(hold(dl_contiguous(few))), 0, "part of rows", i);
        drop(NULL);
    }
}

/* Remainders by a rounded quotient, beside the C library's, with operands for which the quotient is too large among
 * them. */
/* Copies of views that repeat each element a few times, dense elements and every other one, of all element sizes. */
static void repeated_elements(void **state) {
    (void)state;
    static const dl_dtype types[] = {DL_U8, DL_BF16, DL_I32, DL_F64, DL_C128};
    const long zero = 0;
    for (int k = 0; k < 5 * 2; k++)
        for (long times = 1; times < 10; times++)
            for (long width = 7; width < 300; width += width < 9 ? 1 : 97) {
                dl_tensor *base = hold(
                    dl_to(hold(dl_mul(hold(dl_randn((long[]){5, 2 * width}, 2, DL_F32, 0)), hold(dl_scalar_f(50)))),
                          types[k / 2]));
                dl_tensor *x =
                    k & 1 ? hold(dl_slice(base, 1, &zero, NULL, 2)) : hold(dl_slice(base, 1, &zero, &width, 1));
                dl_tensor *column = hold(dl_reshape(x, (long[]){5, 1, width, 1}, 4));
                dl_tensor *all = hold(dl_expand(column, (long[]){5, 2, width, times}, 4)),
                          *y = hold(dl_contiguous(all));
                const long size = dl_dtype_size(types[k / 2]);
                const char *from = dl_data(x), *to = dl_data(y);
                for (long i = 0; i < dl_numel(y); i++) {
                    const long row = i / times / width / 2, col = i / times % width;
                    if (memcmp(to + i * size, from + (row * 2 * width + col * (1 + (k & 1))) * size, (size_t)size))
                        fail_msg("element %ld of %ld by %ld of type %d", i, width, times, k / 2);
                }
                drop(NULL);
            }
}

static void remainders(void **unused) {
    (void)unused;
    static const double odd[] = {0, -0.0, 3, -3, 0.1, 1e-40, -1e30, 8388609, 33554431, INFINITY, -INFINITY, NAN};
    enum { N = 3000, ODD = sizeof odd / sizeof *odd };
    static float a[N], b[N];
    unsigned seed = 1, *state = &seed;
    for (long i = 0; i < N; i++) {
        const float step = NEXT(2) ? 0.07f : -0.1f;
        a[i] = (float)(NEXT(20001) - 10000) * 0.01f, b[i] = (float)(1 + NEXT(400)) * step;
        if (i >= 2000 && NEXT(4) == 0) a[i] = (float)odd[NEXT(ODD)];
        if (i >= 2000 && NEXT(4) == 0) b[i] = (float)odd[NEXT(ODD)];
    }
    const long n = N;
    dl_tensor *x = hold(dl_tensor_from(1, &n, DL_F32, 0, a)), *y = hold(dl_tensor_from(1, &n, DL_F32, 0, b));
    dl_tensor *f = hold(dl_fmod(x, y)), *r = hold(dl_remainder(x, y));
    for (long i = 0; i < N; i++) {
        float want = fmodf(a[i], b[i]), got = ((const float *)dl_data(f))[i], rest = ((const float *)dl_data(r))[i];
        float whole = want != 0 && (want < 0) != (b[i] < 0) ? want + b[i] : want;
        if (isnan(want) ? !isnan(got) || !isnan(rest) : got != want || signbit(got) != signbit(want) || rest != whole)
            fail_msg("%.9g and %.9g: fmod %.9g, remainder %.9g, want %.9g", a[i], b[i], got, rest, want);
    }
    drop(NULL);
}

/* What is written is a copy. */
static void parts_of_copies(void **state) {
    (void)state;
    dl_tensor *x = hold(dl_zeros((long[]){2, 2}, 2, DL_F32, 0)), *one = V(1, 1);
    IS(dl_diagonal_scatter(x, one, 0, 0, 1), 1, 0, 0, 1);
    IS(dl_select_scatter(x, one, 0, -1), 0, 0, 1, 1);
    IS(dl_slice_scatter(x, hold(dl_reshape(one, (long[]){2, 1}, 2)), 1, &(long){1}, NULL, 1), 0, 1, 0, 1);
    IS(dl_clone(x), 0, 0, 0, 0);
    FAILS(dl_select_scatter(x, V(1, 1, 1), 0, 0), DL_ERR_SHAPE, "the part has shape [2], the source [3]");
}

static void layout_survives(void **state) {
    (void)state;
    dl_tensor *x = hold(dl_randn(SHAPE(2, 4, 4, 3), DL_F32, 0)), *v = hold(dl_permute(x, SHAPE(0, 3, 1, 2)));
    dl_tensor *bias = hold(dl_randn(SHAPE(3, 1, 1), DL_F32, 0)), *r[3];
    r[0] = hold(dl_relu(v)), r[1] = hold(dl_add(v, bias)), r[2] = hold(dl_gt(v, hold(dl_scalar_i(0))));
    for (int i = 0; i < 3; i++) assert_memory_equal(dl_stride(r[i]), dl_stride(v), 4 * sizeof(long));
    dl_tensor *half = hold(dl_slice(v, 3, NULL, NULL, 2)), *y = hold(dl_neg(half));
    assert_true(dl_is_contiguous(y));
}

/* ---- the same bits */

static dl_tensor *whole_work(int which, dl_tensor *x) {
    const long zero = 0, one = 1;
    switch (which) {
    case 0: return dl_sum(x, NULL, 0, 0);
    case 1: return dl_sum(x, &zero, 1, 0);
    case 2: return dl_sum(x, &one, 1, 0);
    case 3: return dl_mean(x, NULL, 0, 0);
    case 4: return dl_logsumexp(x, NULL, 0, 0);
    case 5: return dl_var(x, &zero, 1, 1, 0);
    case 6: return dl_cumsum(x, 0);
    case 7: return dl_tanh(x);
    case 8: return dl_norm(x, NULL, 0, 0, 2);
    default: return NULL;
    }
}

static void threads_do_not_matter(void **state) {
    (void)state;
    static const long sizes[][2] = {{1000, 1000}, {3, 400001}, {200003, 5}, {1, 700000}};
    int before = omp_get_max_threads();
    long grain = dl_cpu_grain(1);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        dl_tensor *x = hold(dl_randn(sizes[i], 2, DL_F32, 0));
        for (int k = 0; k < 9; k++) {
            omp_set_num_threads(1);
            dl_tensor *a = hold(whole_work(k, x));
            for (int threads = 2; threads <= 4; threads++) {
                omp_set_num_threads(threads);
                dl_tensor *b = hold(whole_work(k, x));
                if (memcmp(dl_data(a), dl_data(b), (size_t)dl_numel(a) * sizeof(float)))
                    fail_msg("case %u, op %d differs between 1 and %d threads", i, k, threads);
            }
        }
        drop(NULL);
    }
    omp_set_num_threads(before);
    dl_cpu_grain(grain);
}

static void sums_are_accurate(void **state) {
    (void)state;
    const long n = 1 << 20, zero = 0;
    dl_tensor *x = hold(dl_rand(&n, 1, DL_F32, 0)), *tall = shaped(x, SHAPE(1 << 18, 4));
    double exact[4] = {0}, all, got;
    const float *p = dl_data(x);
    for (long i = 0; i < n; i++) exact[i % 4] += p[i];
    all = exact[0] + exact[1] + exact[2] + exact[3];
    assert_int_equal(dl_item_f(hold(dl_sum(x, NULL, 0, 0)), &got), DL_OK);
    assert_true(fabs(got - all) < 2e-7 * all);
    dl_tensor *cols = hold(dl_sum(tall, &zero, 1, 0));
    for (int k = 0; k < 4; k++) assert_true(fabs(((float *)dl_data(cols))[k] - exact[k]) < 3e-7 * exact[k]);
}

/* ---- random numbers: these values are promised from one version to the next, on every device */

static void random_bits_are_stable(void **state) {
    (void)state;
    dl_seed(42);
    dl_tensor *u = hold(dl_rand(SHAPE(4), DL_F32, 0)), *z = hold(dl_randn(SHAPE(4), DL_F32, 0));
    dl_tensor *k = hold(dl_randint(0, 1000, SHAPE(4), -1, 0)), *p = hold(dl_randperm(6, -1, 0));
    dl_tensor *d = hold(dl_rand(SHAPE(2), DL_F64, 0)), *b = hold(dl_bernoulli(hold(dl_full(SHAPE(8), 0.5, -1, 0))));
    static const float uniform[4] = {0.61295986175537109f, 0.4685865044593811f, 0.073231697082519531f,
                                     0.34086149930953979f};
    static const float normal[4] = {2.1276907920837402f, 2.1613740921020508f, -0.40827083587646484f,
                                    -1.6597530841827393f};
    static const long below[4] = {520, 691, 883, 664}, order[6] = {2, 3, 0, 1, 5, 4};
    static const double fine[2] = {0.74213029890234272, 0.18182555052371563};
    assert_memory_equal(dl_data(u), uniform, sizeof uniform);
    assert_memory_equal(dl_data(z), normal, sizeof normal);
    assert_memory_equal(dl_data(k), below, sizeof below);
    assert_memory_equal(dl_data(p), order, sizeof order);
    assert_memory_equal(dl_data(d), fine, sizeof fine);
    IS(dl_ref(b), 1, 1, 1, 0, 0, 0, 1, 1);
    dl_philox known = dl_philox_block(0, 0, 0, 0); /* the generator's published answer */
    assert_memory_equal(known.v, ((uint32_t[4]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), sizeof known.v);
}

static void random_numbers_have_places(void **state) {
    (void)state;
    long grain = dl_cpu_grain(1);
    for (int level = 1; level <= 4; level++) {
        dl_simd_limit(level);
        for (int threads = 1; threads <= 3; threads += 2) {
            omp_set_num_threads(threads);
            dl_seed(9);
            dl_tensor *large = hold(dl_randn(SHAPE(300, 700), DL_F32, 0));
            dl_tensor *ints = hold(dl_randint(-5, 1000000007, SHAPE(100000), -1, 0));
            dl_seed(9);
            dl_tensor *small = hold(dl_randn(SHAPE(1001), DL_F32, 0)),
                      *few = hold(dl_randint(-5, 1000000007, SHAPE(7), -1, 0));
            assert_memory_equal(dl_data(large), dl_data(small), 1001 * sizeof(float));
            assert_memory_equal(dl_data(ints), dl_data(few), 7 * sizeof(long));
            static float first[210000];
            if (level == 1 && threads == 1) memcpy(first, dl_data(large), sizeof first);
            assert_memory_equal(dl_data(large), first, sizeof first);
            drop(NULL);
        }
    }
    omp_set_num_threads(2);
    dl_cpu_grain(grain);
}

static void random_numbers_are_fair(void **state) {
    (void)state;
    dl_seed(3);
    const long n = 400000;
    dl_tensor *z = hold(dl_randn(&n, 1, DL_F32, 0)), *k = hold(dl_randint(0, 7, &n, 1, -1, 0));
    double m1 = 0, m2 = 0, m4 = 0, pair = 0, count[7] = {0};
    const float *p = dl_data(z);
    for (long i = 0; i < n; i++) {
        m1 += p[i], m2 += p[i] * p[i], m4 += pow(p[i], 4);
        pair += p[i] * p[i ^ 1];
        count[((long *)dl_data(k))[i]]++;
    }
    assert_true(fabs(m1 / n) < 5 / sqrt(n));
    assert_true(fabs(m2 / n - 1) < 5 * sqrt(2.0 / n));
    assert_true(fabs(m4 / n - 3) < 5 * sqrt(96.0 / n));
    assert_true(fabs(pair / n) < 8 / sqrt(n));
    for (int i = 0; i < 7; i++) assert_true(fabs(count[i] - n / 7.0) < 5 * sqrt(n / 7.0));
    dl_tensor *perm = hold(dl_randperm(100000, -1, 0));
    static char seen[100000];
    long kept = 0;
    for (long i = 0; i < 100000; i++) {
        long at = ((long *)dl_data(perm))[i];
        assert_false(seen[at]);
        seen[at] = 1;
        kept += at == i;
    }
    assert_in_range(kept, 0, 10);
    dl_tensor *b = hold(dl_rand(SHAPE(100000), DL_BF16, 0)), *top = hold(dl_amax(b, NULL, 0, 0));
    double largest;
    assert_int_equal(dl_item_f(top, &largest), DL_OK);
    assert_true(largest < 1);
}

/* ---- writing */

static void writing_into_views(void **state) {
    (void)state;
    dl_tensor *x = hold(dl_full(SHAPE(3, 4), 0, DL_F32, 0));
    const long lo = 1, hi = 3;
    dl_tensor *row = hold(dl_select(x, 0, 1)), *cols = hold(dl_slice(x, 1, &lo, &hi, 1));
    assert_int_equal(dl_assign(row, V(1, 2, 3, 4)), DL_OK);
    IS(dl_ref(x), 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0);
    assert_int_equal(dl_assign(cols, hold(dl_scalar_i(9))), DL_OK);
    IS(dl_ref(x), 0, 9, 9, 0, 1, 9, 9, 4, 0, 9, 9, 0);
    IS(dl_ref(row), 1, 9, 9, 4);
    dl_tensor *turned = hold(dl_permute(x, SHAPE(1, 0)));
    assert_int_equal(dl_assign(hold(dl_diagonal(turned, 1, 0, 1)), V(5, 6)), DL_OK);
    IS(dl_ref(x), 0, 9, 9, 0, 5, 9, 9, 4, 0, 6, 9, 0);
    dl_tensor *wide = hold(dl_expand(hold(dl_full(SHAPE(1), 0, DL_F32, 0)), SHAPE(3)));
    assert_int_equal(dl_assign(wide, V(1, 2, 3)), DL_ERR_AUTOGRAD);
}

static dl_tensor *leaf(dl_tensor *t) {
    assert_int_equal(dl_set_requires_grad(t, 1), DL_OK);
    return t;
}

/* The gradient of sum(t * weights). */
static void back(dl_tensor *t, dl_tensor *weights) {
    assert_int_equal(dl_backward(hold(dl_sum(hold(dl_mul(t, weights)), NULL, 0, 0)), NULL, 0, 0), DL_OK);
}

static void gradients_through_writes(void **state) {
    (void)state;
    dl_tensor *x = leaf(V(1, 2, 3, 4)), *v = leaf(V(10, 20)), *y = hold(dl_mul(x, hold(dl_scalar_i(2))));
    const long one = 1;
    dl_tensor *part = hold(dl_slice(y, 0, &one, NULL, 2)); /* elements 1 and 3 */
    assert_int_equal(dl_assign(part, v), DL_OK);
    back(y, V(1, 2, 3, 4));
    IS(dl_ref(dl_grad(x)), 2, 0, 6, 0);
    IS(dl_ref(dl_grad(v)), 2, 4);
}

/* A view that repeats elements of a base gets the history of a write to it. */
static void gradients_of_stale_expanded_views(void **state) {
    (void)state;
    dl_tensor *x = leaf(V(1, 2)), *y = hold(dl_mul(x, hold(dl_scalar_i(3))));
    dl_tensor *wide = hold(dl_expand(y, SHAPE(3, 2))), *first = hold(dl_select(y, 0, 0));
    assert_int_equal(dl_assign(first, hold(dl_scalar_i(7))), DL_OK);
    back(wide, shaped(V(1, 2, 3, 4, 5, 6), SHAPE(3, 2)));
    IS(dl_ref(dl_grad(x)), 0, 36);
}

static void gradients_at_kinks(void **state) {
    (void)state;
    dl_tensor *a = leaf(V(1, 2, 3)), *b = leaf(V(1, 5, 0));
    back(hold(dl_maximum(a, b)), V(1, 1, 1));
    IS(dl_ref(dl_grad(a)), 0.5, 0, 1);
    IS(dl_ref(dl_grad(b)), 0.5, 1, 0);
    dl_tensor *m = leaf(V(4, 1, 4, 4));
    back(hold(dl_amax(m, NULL, 0, 0)), V(3));
    IS(dl_ref(dl_grad(m)), 1, 0, 1, 1);
    dl_tensor *z = leaf(V(0, 0));
    back(hold(dl_norm(z, NULL, 0, 0, 2)), V(1));
    IS(dl_ref(dl_grad(z)), 0, 0);
    dl_tensor *s = leaf(V(0, -2, 3));
    back(hold(dl_abs(s)), V(1, 1, 1));
    IS(dl_ref(dl_grad(s)), 0, -1, 1);
    dl_tensor *p = leaf(V(2, 0, 3)), *q = leaf(V(2, 0, 0));
    back(hold(dl_prod(p, NULL, 0)), V(1));
    back(hold(dl_prod(q, NULL, 0)), V(1));
    IS(dl_ref(dl_grad(p)), 0, 6, 0);
    IS(dl_ref(dl_grad(q)), 0, 0, 0);
    dl_tensor *w = leaf(V(0, 2)), *e = leaf(V(0, 0));
    back(hold(dl_pow(w, e)), V(1, 1));
    IS(dl_ref(dl_grad(w)), 0, 0);
    IS(dl_ref(dl_grad(e)), 0, 0.693147181);
    dl_tensor *c = leaf(V(5, 5, 5));
    back(hold(dl_std(c, NULL, 0, 1, 0)), V(1));
    IS(dl_ref(dl_grad(c)), 0, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(strides_do_not_matter),
        TEST(crosswise_operands),
        TEST(short_rows),
        TEST(repeated_elements),
        TEST(parts_of_copies),
        TEST(remainders),
        TEST(layout_survives),
        TEST(threads_do_not_matter),
        TEST(sums_are_accurate),
        TEST(random_bits_are_stable),
        TEST(random_numbers_have_places),
        TEST(random_numbers_are_fair),
        TEST(writing_into_views),
        TEST(gradients_through_writes),
        TEST(gradients_of_stale_expanded_views),
        TEST(gradients_at_kinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
