/* sort, argsort, topk, places in sorted rows and of the best so far: NaN, both zeros, equal elements, every dtype, rows
 * of all the lengths that take ways of their own, against a plain stable sort. */
#include "ops/ops.h"
#include "dlcore/sort.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

#include "cpu/runtime/simd.h"

#include <stdlib.h>

static void nan_is_largest(void **state) {
    (void)state;
    dl_tensor *x = V(1, NAN, -INFINITY, INFINITY, -NAN, 0), *at;
    IS(dl_sort(x, 0, 0, &at), -INFINITY, 0, 1, INFINITY, NAN, NAN);
    IS(at, 2, 5, 0, 3, 1, 4);
    IS(dl_sort(x, 0, 1, &at), NAN, NAN, INFINITY, 1, 0, -INFINITY);
    IS(at, 1, 4, 3, 0, 5, 2);
    IS(dl_topk(x, 1, 0, 1, &at), NAN);
    IS(at, 1);
    IS(dl_topk(x, 2, 0, 0, &at), -INFINITY, 0);
    IS(at, 2, 5);
}

static void zeros_are_equal(void **state) {
    (void)state;
    dl_tensor *at, *v = dl_sort(V(0, -0.0, 0, -1, -0.0), 0, 0, &at);
    IS(v, -1, 0, 0, 0, 0);
    IS(at, 3, 0, 1, 2, 4);
    v = dl_sort(V(0, -0.0), 0, 1, &at);
    assert_true(signbit(((float *)dl_data(v))[1]));
    dl_unref(v);
    IS(at, 0, 1);
}

static void integers(void **state) {
    (void)state;
    dl_tensor *at;
    IS(dl_sort(VT(DL_I32, 5, -2147483648.0, 2147483647.0, -1, 5), 0, 0, &at), -2147483648.0, -1, 5, 5, 2147483647.0);
    IS(at, 1, 3, 0, 4, 2);
    IS(dl_sort(VT(DL_U8, 200, 3, 255, 0), 0, 1, &at), 255, 200, 3, 0);
    IS(at, 2, 0, 1, 3);
    IS(dl_sort(VT(DL_BOOL, 1, 0, 1, 0), 0, 0, &at), 0, 0, 1, 1);
    IS(at, 1, 3, 0, 2);
    IS(dl_argsort(VT(DL_I64, 3, -9, 3), 0, 1), 0, 2, 1);
}

static void edges(void **state) {
    (void)state;
    dl_tensor *none = hold(dl_tensor_zeros(2, (long[]){2, 0}, DL_F32, 0)), *at;
    dl_tensor *r = hold(dl_sort(none, 1, 0, &at));
    assert_int_equal(dl_numel(r), 0);
    assert_int_equal(dl_dtype_of(hold(at)), DL_I64);
    r = hold(dl_topk(none, 0, -1, 1, &at));
    dl_unref(at);
    FAILS(dl_topk(V(1, 2), 3, 0, 1, &at), DL_ERR_VALUE, "k cannot be 3");
    FAILS(dl_topk(V(1, 2), -1, 0, 1, &at), DL_ERR_VALUE, "k cannot be -1");
    FAILS(dl_sort(V(1, 2), 1, 0, &at), DL_ERR_INDEX, "dimension 1");
    dl_tensor *one = hold(dl_select(V(4), 0, 0));
    IS(dl_sort(one, 0, 0, &at), 4);
    IS(at, 0);
    IS(dl_topk(one, 1, -1, 1, &at), 4);
    IS(at, 0);
}

/* ---- against a plain sort */

typedef struct item {
    double v;
    long at;
} item;

static int down;

static int compare(const void *pa, const void *pb) {
    const item *a = pa, *b = pb;
    int order = isnan(a->v) || isnan(b->v) ? isnan(a->v) - isnan(b->v) : (a->v > b->v) - (a->v < b->v);
    if (order) return down ? -order : order;
    return (a->at > b->at) - (a->at < b->at);
}

/* The first k places of row r of x [.., n] in the last dimension. */
static void check_row(const double *x, long n, long k, const double *value, const long *at) {
    item *want = malloc((size_t)n * sizeof *want);
    for (long i = 0; i < n; i++) want[i] = (item){x[i], i};
    qsort(want, (size_t)n, sizeof *want, compare);
    for (long i = 0; i < k; i++)
        if (at[i] != want[i].at || (value[i] != want[i].v && !isnan(want[i].v)))
            fail_msg("n %ld, k %ld: place %ld is %ld, want %ld", n, k, i, at[i], want[i].at);
    free(want);
}

static double *read_all(dl_tensor *t) {
    double *v = malloc((size_t)(dl_numel(t) + 1) * sizeof *v);
    assert_int_equal(dl_read_f64(t, v), DL_OK);
    return v;
}

/* x along its last dimension; of all of it when k is n. */
static void check(dl_tensor *x, long k, bool largest) {
    long n = dl_shape(x)[dl_ndim(x) - 1], rows = dl_numel(x) / n;
    dl_tensor *at = NULL, *v = k == n ? dl_sort(x, -1, largest, &at) : dl_topk(x, k, -1, largest, &at);
    if (!v) fail_msg("%s", dl_errmsg());
    double *from = read_all(x), *got = read_all(v);
    down = largest;
    for (long r = 0; r < rows; r++) check_row(from + r * n, n, k, got + r * k, (long *)dl_data(at) + r * k);
    free(from), free(got);
    dl_unref(v), dl_unref(at);
}

/* Few different values, so that many are equal, and some NaN. */
static dl_tensor *made(long rows, long n, dl_dtype dtype) {
    const long shape[] = {rows, n};
    dl_tensor *x = hold(dl_tensor_empty(2, shape, DL_F64, 0));
    double *p = dl_data(x);
    for (long i = 0; i < rows * n; i++) {
        unsigned long h = (unsigned long)(i + 1) * 0x9e3779b97f4a7c15u >> 33;
        p[i] =
            dl_dtype_is_float(dtype) && h % 53 == 0 ? NAN : (double)(long)(h % 1000) / 4 - (dtype == DL_U8 ? 0 : 100);
    }
    return hold(dl_to_dtype(x, dtype));
}

static void every_length_and_dtype(void **state) {
    (void)state;
    static const long lengths[] = {1, 2, 15, 16, 17, 100, 255, 256, 257, 1000, 5000};
    for (int t = DL_BOOL; t <= DL_F64; t++)
        for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            long n = lengths[i];
            dl_tensor *x = made(3, n, (dl_dtype)t);
            for (int largest = 0; largest < 2; largest++) {
                check(x, n, largest);
                check(x, n / 2, largest);
                check(x, n / 9, largest);
            }
            drop(NULL);
        }
}

static void other_dimensions(void **state) {
    (void)state;
    dl_tensor *x = shaped(made(6, 35, DL_F32), SHAPE(6, 5, 7)), *t = hold(dl_permute(x, SHAPE(0, 2, 1))), *at, *at2;
    dl_tensor *a = hold(dl_sort(x, 1, 0, &at)), *b = hold(dl_sort(t, 2, 0, &at2));
    dl_tensor *back = hold(dl_permute(b, SHAPE(0, 2, 1))), *same = hold(dl_permute(at2, SHAPE(0, 2, 1)));
    double *va = read_all(a), *vb = read_all(back), *ia = read_all(hold(at)), *ib = read_all(same);
    hold(at2);
    for (long i = 0; i < dl_numel(x); i++) {
        assert_true(va[i] == vb[i] || (isnan(va[i]) && isnan(vb[i])));
        assert_true(ia[i] == ib[i]);
    }
    free(va), free(vb), free(ia), free(ib);
}

/* ---- places, in loops of every level of the instruction set */

/* Two rows, each with its values: how many of the row's elements are before a value. */
static void check_places(dl_dtype dtype, long n, long count, bool right) {
    dl_tensor *rows = hold(dl_sort(shaped(made(2, n, dtype), SHAPE(2, n)), -1, false, NULL)),
              *x = made(2, count, dtype);
    dl_tensor *at = hold(dl_searchsorted(rows, x, NULL, false, right, NULL));
    double *r = read_all(rows), *v = read_all(x), *got = read_all(at);
    for (long i = 0; i < 2 * count; i++) {
        const double *row = r + i / count * n;
        long want = 0;
        while (want < n && (isnan(v[i]) || (right ? row[want] <= v[i] : row[want] < v[i]))) want++;
        if (got[i] != (double)want) fail_msg("n %ld, %ld values: place %ld is %g, want %ld", n, count, i, got[i], want);
    }
    free(r), free(v), free(got);
}

static void places_in_rows(void **state) {
    (void)state;
    static const long lengths[] = {0, 1, 2, 3, 7, 8, 9, 31, 52}, counts[] = {1, 15, 16, 17, 35};
    for (int level = 1; level <= 4; level++) {
        dl_simd_limit(level);
        for (int t = DL_BOOL; t <= DL_F64; t++)
            for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
                for (unsigned k = 0; k < 2 * sizeof counts / sizeof *counts; k++) {
                    check_places((dl_dtype)t, lengths[i], counts[k / 2], k % 2);
                    drop(NULL);
                }
    }
    dl_simd_limit(4);
}

static void check_best(dl_tensor *x, bool largest) {
    dl_tensor *at = NULL, *best = hold(largest ? dl_cummax(x, -1, &at) : dl_cummin(x, -1, &at));
    const long n = dl_shape(x)[dl_ndim(x) - 1];
    double *v = read_all(x), *got = read_all(best), *places = read_all(hold(at));
    for (long i = 0, want = 0; i < dl_numel(x); i++) {
        const double *row = v + i / n * n;
        const long j = i % n;
        if (!j || isnan(row[j]) || (largest ? row[j] >= row[want] : row[j] <= row[want])) want = j;
        if (places[i] != (double)want || (got[i] != row[want] && !isnan(row[want])))
            fail_msg("n %ld: best of %ld is at %g, want %ld", n, i, places[i], want);
    }
    free(v), free(got), free(places);
}

static void best_so_far(void **state) {
    (void)state;
    static const long lengths[] = {1, 2, 31, 32, 33, 64, 200};
    for (int level = 1; level <= 4; level++) {
        dl_simd_limit(level);
        for (int t = DL_BOOL; t <= DL_F64; t++)
            for (unsigned i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
                check_best(made(3, lengths[i / 2], (dl_dtype)t), i % 2);
                drop(NULL);
            }
    }
    dl_simd_limit(4);
}

/* One quantile is found by its ranks, a list by sorting: the same, where a row has a NaN, too. */
static void one_quantile_of_a_list(void **state) {
    (void)state;
    static const char *const ways[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    static const double share[] = {0, 0.3, 0.5, 0.77, 1};
    for (unsigned i = 0; i < 50; i++) {
        dl_tensor *x = made(3, i % 2 ? 41 : 6, i / 25 ? DL_F64 : DL_F32);
        const double q = share[i / 5 % 5];
        dl_tensor *one = hold(dl_quantile(x, V(q), &(long){1}, 0, ways[i % 5]));
        dl_tensor *list = hold(dl_quantile(x, V(q, q), &(long){1}, 0, ways[i % 5]));
        double *got = read_all(one), *want = read_all(list);
        assert_int_equal(2 * dl_numel(one), dl_numel(list));
        for (long k = 0; k < dl_numel(one); k++)
            if (got[k] != want[k] && !(isnan(got[k]) && isnan(want[k])))
                fail_msg("%s of %g in row %ld: %.17g, want %.17g", ways[i % 5], q, k, got[k], want[k]);
        free(got), free(want);
        drop(NULL);
    }
    dl_tensor *x = V(4, 1, 3, 2, 5);
    IS(dl_quantile(x, V(0.5), NULL, 0, "linear"), 3);
    IS(dl_quantile(x, V(0.3), NULL, 0, "linear"), 2.2);
    IS(dl_quantile(V(4, NAN, 3), V(0.1), NULL, 0, "linear"), NAN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nan_is_largest, drop),
        cmocka_unit_test_teardown(zeros_are_equal, drop),
        cmocka_unit_test_teardown(integers, drop),
        cmocka_unit_test_teardown(edges, drop),
        cmocka_unit_test_teardown(every_length_and_dtype, drop),
        cmocka_unit_test_teardown(other_dimensions, drop),
        cmocka_unit_test_teardown(places_in_rows, drop),
        cmocka_unit_test_teardown(best_so_far, drop),
        cmocka_unit_test_teardown(one_quantile_of_a_list, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
