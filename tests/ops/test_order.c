/* sort, argsort and topk: NaN, both zeros, equal elements, every dtype, rows of all the lengths that take ways of their
 * own, against a plain stable sort. */
#include "ops/ops.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nan_is_largest, drop),
        cmocka_unit_test_teardown(zeros_are_equal, drop),
        cmocka_unit_test_teardown(integers, drop),
        cmocka_unit_test_teardown(edges, drop),
        cmocka_unit_test_teardown(every_length_and_dtype, drop),
        cmocka_unit_test_teardown(other_dimensions, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
