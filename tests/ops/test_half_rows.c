/* Ops that read 16-bit operands as they are, on the CPU: against f64 of the same, rounded operands, by one to three
 * threads. Computed in f32 and rounded once, they differ by half a unit in the last place and what f32 lost. */
#include "support/tensors.h"

#include "autograd/nonfinite.h"
#include "cpu/runtime/iter.h"
#include "dlcore/all.h"

#include <omp.h>

typedef struct operands {
    dl_tensor *x, *more, *index; /* more: a source or weights; each may be NULL */
    long dim;                    /* or how many dimensions are reduced */
    int how;
} operands;

typedef dl_tensor *(*call)(const operands *o);

/* ---- calls */

static dl_tensor *add(const operands *o) { return dl_index_add(o->x, o->index, o->more, o->dim); }
static dl_tensor *bag(const operands *o) {
    return dl_embedding_bag(o->index, o->x, NULL, NULL, o->how ? "mean" : "sum", 0, NULL);
}

enum { SUM, MEAN, LARGEST, SQUARES, LOGSUMEXP, PRODUCT, LENGTH, NHOW };

static dl_tensor *reduce(const operands *o) {
    static const long all[][3] = {{0, 1, 2}, {0, 1, 2}, {2, 0, 1}, {1, 0, 2}, {0, 1, 2}, {0, 2, 1}, {1, 2, 0}};
    const int n = o->dim == 0 ? 3 : o->dim < 4 ? 1 : 2;
    const long *dims = all[o->dim];
    if (o->how == SUM) return dl_sum(o->x, dims, n, 0);
    if (o->how == MEAN) return dl_mean(o->x, dims, n, 0);
    if (o->how == LARGEST) return dl_amax(o->x, dims, n, 0);
    if (o->how == LOGSUMEXP) return dl_logsumexp(o->x, dims, n, 0);
    if (o->how == PRODUCT) return dl_prod(o->x, n == 1 ? dims : NULL, 0);
    if (o->how == LENGTH) return dl_norm(o->x, dims, n, 0, 2);
    return dl_var(o->x, dims, n, 0, 0);
}

/* ---- comparisons */

static void compare(dl_tensor *got, dl_tensor *want, double scale, const char *what) {
    const double unit = dl_dtype_of(got) == DL_F16 ? 0x1p-11 : 0x1p-8;
    double *a = values(must(got)), *b = values(must(want));
    assert_int_equal(dl_numel(got), dl_numel(want));
    for (long i = 0; i < dl_numel(got); i++) {
        const bool same = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
        if (!same && !(fabs(a[i] - b[i]) <= 1.001 * unit * fabs(b[i]) + 1e-6 * scale))
            fail_msg("%s: element %ld is %g, not %g", what, i, a[i], b[i]);
    }
    free(a), free(b);
}

static dl_tensor *in_f64(dl_tensor *t) {
    dl_tensor *own = must(dl_detach(t)), *wide = must(dl_tensor_empty(dl_ndim(t), dl_shape(t), DL_F64, 0));
    dl_cpu_copy(wide, own);
    dl_unref(own);
    return wide;
}

static dl_tensor *normed(const operands *o);

/* The call, and its gradients by x and more, in the type of the operands and in f64; those whose rules round parts of
 * them are left out. `scale`: of a sum's terms. */
static void check(call f, operands o, double scale, const char *what) {
    operands wide = o;
    dl_tensor *leaves[2] = {leaf(o.x)}, *wides[2] = {wide.x = leaf(in_f64(o.x))};
    const int n = o.more && f == add ? 2 : 1;
    if (o.more) wides[1] = wide.more = in_f64(o.more), leaves[1] = o.more;
    if (n == 2) leaf(o.more), leaf(wide.more);
    dl_tensor *want = must(f(&wide)), *seed = drawn(5, dl_ndim(want), dl_shape(want), dl_dtype_of(o.x));
    dl_tensor *as_f64 = must(dl_to(seed, DL_F64)), *slopes[2] = {0}, *got_slopes[2] = {0};
    const bool has = dl_requires_grad(want) && f != reduce && f != normed && !(f == bag && o.how);
    if (has) gradients(want, as_f64, wides, n, 0, slopes);
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        dl_tensor *got = must(f(&o));
        compare(got, want, scale, what);
        if (has) gradients(got, seed, leaves, n, 0, got_slopes);
        for (int i = 0; has && i < n; i++) {
            if (slopes[i]) compare(got_slopes[i], slopes[i], scale, what);
            dl_unref(got_slopes[i]);
        }
        dl_unref(got);
    }
    for (int i = 0; i < n; i++) dl_unref(slopes[i]);
    dl_unref(wide.x), dl_unref(o.more ? wide.more : NULL), dl_unref(want), dl_unref(seed), dl_unref(as_f64);
}

static const dl_dtype types[] = {DL_BF16, DL_F16};

/* ---- rows by a list of indices */

static dl_tensor *pick(const operands *o) { return dl_embedding(o->index, o->x, NULL); }

/* Some indices are negative, most occur several times. */
static dl_tensor *indices(int ndim, const long *shape, long size) {
    dl_tensor *t = must(dl_tensor_empty(ndim, shape, DL_I64, 0));
    long *p = dl_data(t);
    for (long i = 0; i < dl_numel(t); i++) p[i] = (i * i * 7 + i) % size - (i % 5 ? 0 : size);
    return t;
}

/* Dense, transposed, or every other element. */
static dl_tensor *matrix(int how, dl_dtype t, const long *shape) {
    if (how == 0) return drawn(3, 2, shape, t);
    const long zero = 0;
    dl_tensor *x = how == 1 ? drawn(3, 2, SHAPE(shape[1], shape[0]), t) : drawn(3, 2, SHAPE(shape[0], 2 * shape[1]), t);
    dl_tensor *y = must(how == 1 ? dl_permute(x, SHAPE(1, 0), 2) : dl_slice(x, 1, &zero, NULL, 2));
    dl_unref(x);
    return y;
}

static void rows_by_index(void **state) {
    (void)state;
    static const long sizes[][2] = {{1, 1}, {5, 3}, {7, 1}, {4, 0}, {30, 257}, {3, 700}};
    const long had = dl_cpu_grain(1000);
    for (int k = 0; k < 2; k++)
        for (int how = 0; how < 3; how++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (long n = 0; n < 40; n += 13) {
                    const long rows = sizes[i][0], width = sizes[i][1];
                    dl_tensor *x = matrix(how, types[k], SHAPE(rows, width)), *at = indices(1, &n, rows);
                    dl_tensor *v = matrix(how, types[k], SHAPE(n, width)), *w = NULL;
                    check(add, (operands){x, v, at, 0, 0}, 40, "index_add of rows");
                    dl_tensor *across = must(dl_permute(x, SHAPE(1, 0), 2)), *u = must(dl_permute(v, SHAPE(1, 0), 2));
                    w = must(dl_detach(across));
                    dl_tensor *y = must(dl_detach(u));
                    check(add, (operands){w, y, at, 1, 0}, 40, "index_add of columns");
                    if (n) {
                        dl_tensor *bags = indices(2, SHAPE(n, 1 + n / 3), rows), *own = must(dl_detach(x));
                        check(bag, (operands){own, NULL, bags, 0, 0}, 40, "sums of bags");
                        check(bag, (operands){own, NULL, bags, 0, 1}, 40, "means of bags");
                        check(pick, (operands){own, NULL, bags, 0, 0}, 40, "embedding");
                        dl_unref(bags), dl_unref(own);
                    }
                    dl_unref(x), dl_unref(v), dl_unref(at), dl_unref(across), dl_unref(u), dl_unref(w);
                    dl_unref(y);
                }
    dl_cpu_grain(had);
}

/* Planes between which rows are added, and more places than a task takes. */
static void planes_by_index(void **state) {
    (void)state;
    const long had = dl_cpu_grain(1000), n = 50;
    for (int k = 0; k < 2; k++) {
        dl_tensor *x = drawn(1, 3, SHAPE(3, 1000, 33), types[k]), *v = drawn(2, 3, SHAPE(3, 50, 33), types[k]);
        dl_tensor *at = indices(1, &n, 1000);
        check(add, (operands){x, v, at, 1, 0}, 40, "index_add of planes");
        dl_unref(x), dl_unref(v), dl_unref(at);
    }
    dl_cpu_grain(had);
}

/* ---- reductions */

static void reductions(void **state) {
    (void)state;
    static const long sizes[][3] = {{1, 1, 1}, {2, 3, 5}, {2, 1, 4500}, {900, 2, 3}, {3, 300, 41}, {40, 33, 8}};
    static const long orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    const long had = dl_cpu_grain(1000);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int turn = 0; turn < 3; turn++) {
                dl_tensor *base = drawn((unsigned)i, 3, sizes[i], types[k]),
                          *x = must(dl_permute(base, orders[turn], 3));
                for (long dims = 0; dims < 7; dims++)
                    for (int how = 0; how < NHOW; how++) {
                        dl_tensor *y = must(dl_detach(x));
                        check(reduce, (operands){y, NULL, NULL, dims, how}, how == PRODUCT ? 0.1 : 60, "a reduction");
                        dl_unref(y);
                    }
                dl_unref(base), dl_unref(x);
            }
    dl_cpu_grain(had);
}

static void reductions_of_nothing(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        dl_tensor *x = must(dl_tensor_empty(2, SHAPE(0, 3), types[k], 0)), *y = must(dl_sum(x, SHAPE(0), 1, 0));
        double *v = values(y);
        assert_true(dl_dtype_of(y) == types[k] && dl_numel(y) == 3 && v[0] == 0 && v[2] == 0);
        dl_tensor *p = must(dl_prod(x, SHAPE(0), 0)), *m = must(dl_mean(x, NULL, 0, 0));
        double *one = values(p), *none = values(m);
        assert_true(one[1] == 1 && isnan(none[0]));
        free(v), free(one), free(none);
        dl_unref(x), dl_unref(y), dl_unref(p), dl_unref(m);
    }
}

/* ---- losses by labels */

static dl_tensor *picked(const operands *o) {
    static const char *const how[] = {"mean", "sum", "none"};
    return dl_nll_loss(o->x, o->index, o->more, how[o->how], 1);
}

static void losses_by_labels(void **state) {
    (void)state;
    static const long sizes[][3] = {{1, 2, 1}, {6, 5, 1}, {3, 7, 9}};
    for (int k = 0; k < 2; k++)
        for (int how = 0; how < 3; how++)
            for (int i = 0; i < 6; i++) {
                const long *n = sizes[i / 2];
                dl_tensor *x = drawn(4, 3, n, types[k]), *w = i & 1 ? drawn(6, 1, &n[1], types[k]) : NULL;
                dl_tensor *y = must(dl_tensor_empty(2, SHAPE(n[0], n[2]), DL_I64, 0)), *plain = NULL;
                for (long j = 0; j < dl_numel(y); j++) ((long *)dl_data(y))[j] = j * 5 % n[1];
                plain = w ? must(dl_abs(w)) : NULL;
                operands o = {x, plain ? must(dl_detach(plain)) : NULL, y, 0, how};
                check(picked, o, 1, "nll_loss");
                dl_unref(o.more), dl_unref(plain), dl_unref(x), dl_unref(w), dl_unref(y);
            }
}

/* ---- softmax */

/* The gradient by its formula, from the rounded result. */
static dl_tensor *softmax_slope(dl_tensor *y, dl_tensor *g, long dim, bool log) {
    dl_tensor *e = log ? must(dl_exp(y)) : dl_ref(y), *part = log ? dl_ref(g) : must(dl_mul(g, y));
    dl_tensor *sum = must(dl_sum(part, &dim, 1, 1)), *less = must(log ? dl_mul(e, sum) : dl_sub(g, sum));
    dl_tensor *dx = must(log ? dl_sub(g, less) : dl_mul(y, less));
    dl_unref(e), dl_unref(part), dl_unref(sum), dl_unref(less);
    return dx;
}

static void check_softmax(dl_tensor *x, long dim, bool log) {
    dl_tensor *wide = in_f64(x), *want = must(log ? dl_log_softmax(wide, dim) : dl_softmax(wide, dim)), *dx;
    dl_tensor *seed = drawn(5, dl_ndim(x), dl_shape(x), dl_dtype_of(x)), *g = in_f64(seed);
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        dl_tensor *y = must(log ? dl_log_softmax(x, dim) : dl_softmax(x, dim)), *rounded = in_f64(y);
        compare(y, want, 20, "softmax");
        gradients(y, seed, &x, 1, 0, &dx);
        dl_tensor *slope = softmax_slope(rounded, g, dim, log);
        compare(dx, slope, 60, "a gradient of softmax");
        dl_unref(y), dl_unref(rounded), dl_unref(dx), dl_unref(slope);
    }
    dl_unref(wide), dl_unref(want), dl_unref(seed), dl_unref(g);
}

static void softmaxes(void **state) {
    (void)state;
    static const long sizes[][3] = {{1, 1, 1},   {2, 3, 5},   {0, 3, 2},     {4, 0, 3},
                                    {2, 70, 67}, {2, 9, 301}, {2, 17000, 1}, {1, 300, 65}};
    static const long orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    const long had = dl_cpu_grain(1000);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int turn = 0; turn < 3; turn++)
                for (long dim = 0; dim < 3; dim++) {
                    dl_tensor *base = drawn((unsigned)i, 3, sizes[i], types[k]);
                    dl_tensor *turned = must(dl_permute(base, orders[turn], 3)), *x = leaf(must(dl_detach(turned)));
                    check_softmax(x, dim, false), check_softmax(x, dim, true);
                    dl_unref(base), dl_unref(turned), dl_unref(x);
                }
    dl_cpu_grain(had);
}

/* ---- norms of rows */

static dl_tensor *normed(const operands *o) {
    const long width = dl_shape(o->x)[dl_ndim(o->x) - 1];
    return o->how ? dl_layer_norm(o->x, o->how == 1 ? o->more : NULL, o->more, &width, 1, 1e-5)
                  : dl_rms_norm(o->x, o->more, &width, 1, NULL);
}

static void norms(void **state) {
    (void)state;
    static const long sizes[][2] = {{1, 1}, {3, 5}, {0, 4}, {70, 67}, {5, 1024}, {2, 17000}};
    const long had = dl_cpu_grain(1000);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int how = 0; how < 18; how++) {
                dl_tensor *x = matrix(how / 6, types[k], sizes[i]), *own = must(dl_detach(x));
                dl_tensor *w = how & 1 ? drawn(6, 1, &sizes[i][1], types[k]) : NULL;
                check(normed, (operands){own, w, NULL, 0, how / 2 % 3}, 10, "a norm of rows");
                dl_unref(x), dl_unref(own), dl_unref(w);
            }
    dl_cpu_grain(had);
}

/* Of channels; how: with statistics of the batch. */
static dl_tensor *batch_normed(const operands *o) {
    const long C = dl_shape(o->x)[1];
    if (o->how) return dl_batch_norm(o->x, NULL, NULL, NULL, NULL, 1, 0.1, 1e-2);
    dl_tensor *mean = must(dl_tensor_full(1, &C, DL_F32, 0, 0.25)), *var = must(dl_tensor_full(1, &C, DL_F32, 0, 2));
    dl_tensor *m = must(dl_to(mean, dl_dtype_of(o->x))), *v = must(dl_to(var, dl_dtype_of(o->x)));
    dl_tensor *y = must(dl_batch_norm(o->x, m, v, NULL, NULL, 0, 0.1, 1e-2));
    dl_unref(mean), dl_unref(var), dl_unref(m), dl_unref(v);
    return y;
}

/* Channels that are planes, and columns: in groups that stay in registers and the rest; few columns, of which rows go
 * together, and several chunks. */
static void norms_of_channels(void **state) {
    (void)state;
    static const long lengths[] = {0, 1, 15, 16, 17, 31, 48, 100, 4099};
    static const long columns[][2] = {{120, 3}, {131, 5}, {130, 10}, {6, 1}, {77, 71}, {1030, 64}, {3, 100}};
    const long had = dl_cpu_grain(100);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (int how = 0; how < 2; how++) {
                if (how && !lengths[i]) continue;
                dl_tensor *x = drawn((unsigned)i, 3, SHAPE(3, 2, lengths[i]), types[k]);
                check(batch_normed, (operands){x, NULL, NULL, 0, how}, 10, "batch_norm");
                dl_unref(x);
            }
    for (size_t i = 0; i < 4 * sizeof columns / sizeof *columns; i++) {
        dl_tensor *x = drawn((unsigned)i, 2, columns[i / 4], types[i % 2]);
        check(batch_normed, (operands){x, NULL, NULL, 0, i / 2 % 2}, 10, "batch_norm of columns");
        dl_unref(x);
    }
    dl_cpu_grain(had);
}

/* ---- numbers that are not finite */

static void infinities_are_seen(void **state) {
    (void)state;
    static const double odd[] = {1, 65504, -65504, 0, 0x1p-24, NAN, -NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 9; i++) {
            dl_tensor *x = must(dl_tensor_full(1, SHAPE(1000), types[k], 0, 1.5));
            dl_store_f64((char *)dl_data(x) + 998, types[k], odd[i]);
            assert_true(dl_nonfinite_has(x) == !isfinite(odd[i]));
            dl_unref(x);
        }
}

/* Both of all elements, which one pass over pieces finds, are what each is alone. */
static void both_extremes(void **state) {
    (void)state;
    static const dl_dtype all[] = {DL_BF16, DL_F16, DL_F32, DL_F64, DL_I32, DL_I64, DL_U8};
    for (int k = 0; k < 7 * 2; k++) {
        dl_tensor *d = drawn(3, 2, SHAPE(3, 5001), DL_F64), *by = must(dl_scalar_f(50)), *wide = must(dl_mul(d, by));
        dl_tensor *x = must(dl_to(wide, all[k / 2])), *most = NULL;
        if (k % 2 && k < 8) dl_store_f64((char *)dl_data(x) + 9000 * dl_dtype_size(all[k / 2]), all[k / 2], NAN);
        dl_tensor *least = must(dl_extremes(x, NULL, 0, 0, &most)),
                  *want[2] = {must(dl_amin(x, NULL, 0, 0)), must(dl_amax(x, NULL, 0, 0))};
        compare(least, want[0], 0, "least"), compare(most, want[1], 0, "most");
        dl_unref(d), dl_unref(by), dl_unref(wide), dl_unref(x), dl_unref(most), dl_unref(least);
        dl_unref(want[0]), dl_unref(want[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_by_index),
                                       cmocka_unit_test(planes_by_index),
                                       cmocka_unit_test(reductions),
                                       cmocka_unit_test(reductions_of_nothing),
                                       cmocka_unit_test(losses_by_labels),
                                       cmocka_unit_test(softmaxes),
                                       cmocka_unit_test(norms),
                                       cmocka_unit_test(norms_of_channels),
                                       cmocka_unit_test(both_extremes),
                                       cmocka_unit_test(infinities_are_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
