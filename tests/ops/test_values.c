/* Cases without samples in the op table: NaN, infinities, integers at their limits, errors, empty and 0-d tensors. */
#include "ops/ops.h"
#include "dlcore/all.h"

static void nan_is_kept(void **state) {
    (void)state;
    dl_tensor *x = V(NAN, -1, 2), *y = V(1, NAN, 0);
    IS(dl_relu(x), NAN, 0, 2);
    IS(dl_maximum(x, y), NAN, NAN, 2);
    IS(dl_minimum(x, y), NAN, NAN, 0);
    double lo = 0, hi = 1;
    IS(dl_clamp(x, &lo, &hi), NAN, 0, 1);
    IS(dl_sign(x), NAN, -1, 1);
    IS(dl_amax(x, NULL, 0, 0), NAN);
    IS(dl_amin(y, NULL, 0, 0), NAN);
    IS(dl_argmax(y, NULL, 0), 1);
    dl_tensor *at;
    IS(dl_max_dim(y, 0, 0, &at), NAN);
    IS(at, 1);
    IS(dl_leaky_relu(x, 0.5), NAN, -0.5, 2);
    IS(dl_isnan(x), 1, 0, 0);
    IS(dl_logsumexp(V(NAN, 0), NULL, 0, 0), NAN);
}

static void nan_is_found_anywhere(void **state) {
    (void)state;
    for (long at = 0; at < 300; at += 7) {
        double v[300] = {0};
        v[at] = NAN;
        dl_tensor *x = vec(DL_F32, 300, v), *cols = shaped(x, SHAPE(100, 3));
        long zero = 0;
        IS(dl_amax(x, NULL, 0, 0), NAN);
        IS(dl_argmin(x, NULL, 0), at);
        double want[3] = {0};
        want[at % 3] = NAN;
        is(dl_amin(cols, &zero, 1, 0), 3, want, __LINE__);
        drop(NULL);
    }
}

static void infinities(void **state) {
    (void)state;
    IS(dl_logsumexp(V(-INFINITY, -INFINITY), NULL, 0, 0), -INFINITY);
    IS(dl_logsumexp(V(INFINITY, 0), NULL, 0, 0), INFINITY);
    IS(dl_logsumexp(V(1000, 1000), NULL, 0, 0), 1000.693147);
    IS(dl_softplus(V(-INFINITY, 1000), 1, 20), 0, 1000);
    IS(dl_sigmoid(V(-1000, 1000)), 0, 1);
    IS(dl_isinf(V(-INFINITY, NAN, 1)), 1, 0, 0);
    IS(dl_div(V(1, -1, 0), V(0, 0, 0)), INFINITY, -INFINITY, NAN);
    IS(dl_floor_divide(V(7, -7, 1), V(2, 2, 0)), 3, -4, INFINITY);
    IS(dl_remainder(V(7, -7, 7, -7), V(3, 3, -3, -3)), 1, 2, -2, -1);
}

static void integers(void **state) {
    (void)state;
    IS(dl_floor_divide(VT(DL_I32, 7, -7, 7, -7), VT(DL_I32, 2, 2, -2, -2)), 3, -4, -4, 3);
    IS(dl_remainder(VT(DL_I64, 7, -7, 7, -7), VT(DL_I64, 3, 3, -3, -3)), 1, 2, -2, -1);
    dl_tensor *min = VT(DL_I32, -2147483648.0), *minus = VT(DL_I32, -1);
    IS(dl_floor_divide(min, minus), -2147483648.0); /* wraps, as PyTorch's */
    IS(dl_remainder(min, minus), 0);
    IS(dl_abs(min), -2147483648.0);
    IS(dl_neg(VT(DL_U8, 1, 0)), 255, 0);
    IS(dl_add(VT(DL_U8, 250), VT(DL_U8, 10)), 4);
    IS(dl_pow(VT(DL_I64, 3, -2), VT(DL_I64, 4, 3)), 81, -8);
    IS(dl_sum(VT(DL_U8, 255, 255), NULL, 0, 0), 510);
    IS(dl_sum(VT(DL_BOOL, 1, 1, 0), NULL, 0, 0), 2);
    IS(dl_mean(VT(DL_I32, 1, 2), NULL, 0, 0), 1.5);
    IS(dl_add(VT(DL_BOOL, 1, 0), VT(DL_BOOL, 1, 0)), 1, 0);
    IS(dl_bitwise_right_shift(VT(DL_I32, -8, 8), VT(DL_I32, 1, 3)), -4, 1);
    IS(dl_to(V(1.9, -1.9, NAN, 1e30), DL_I32), 1, -1, 0, -1);
    IS(dl_round(V(0.5, 1.5, -2.5)), 0, 2, -2);
}

/* Vectors of powers have loops of their own: each of these to the power of each is what C's pow says. */
static void powers_of_ends(void **state) {
    (void)state;
    static const double v[] = {0,  -0.0,     1,         -1,  2,    -2,       0.5,      -0.5, 3,
                               -3, INFINITY, -INFINITY, NAN, 3e38, 16777216, 16777215, 1.5,  1e-30};
    enum { N = sizeof v / sizeof *v };
    static const dl_dtype dtypes[] = {DL_F32, DL_F64};
    for (unsigned d = 0; d < 2; d++)
        for (int k = 0; k < N; k++) {
            double want[N];
            for (int i = 0; i < N; i++)
                want[i] = d ? pow(v[i], v[k]) : (double)(float)pow((double)(float)v[i], (double)(float)v[k]);
            is(dl_pow(vec(dtypes[d], N, v), vec(dtypes[d], 1, &v[k])), N, want, __LINE__);
        }
}

static void integer_errors(void **state) {
    (void)state;
    dl_tensor *x = VT(DL_I64, 1, 2, 3), *zero = VT(DL_I64, 1, 0, 1);
    FAILS(dl_floor_divide(x, zero), DL_ERR_VALUE, "division by zero");
    FAILS(dl_remainder(x, zero), DL_ERR_VALUE, "division by zero");
    FAILS(dl_pow(x, VT(DL_I64, -1, 1, 1)), DL_ERR_VALUE, "negative integer power");
    FAILS(dl_bitwise_left_shift(VT(DL_I32, 1), VT(DL_I32, 32)), DL_ERR_VALUE, "shift");
    FAILS(dl_bitwise_right_shift(VT(DL_I32, 1), VT(DL_I32, -1)), DL_ERR_VALUE, "shift");
    FAILS(dl_sub(VT(DL_BOOL, 1), VT(DL_BOOL, 1)), DL_ERR_DTYPE, "does not take bool");
    FAILS(dl_bitwise_and(V(1), V(1)), DL_ERR_DTYPE, "does not take f32");
}

static void index_errors(void **state) {
    (void)state;
    dl_tensor *x = shaped(V(1, 2, 3, 4, 5, 6), SHAPE(2, 3));
    FAILS(dl_index_select(x, VT(DL_I64, 0, 3), 1), DL_ERR_INDEX, "index 3 is out of range for dimension 1 of size 3");
    FAILS(dl_index_select(x, VT(DL_I64, -3), 0), DL_ERR_INDEX, "index -3 is out of range for dimension 0 of size 2");
    FAILS(dl_select(x, 0, 2), DL_ERR_INDEX, "index 2 is out of range for dimension 0 of size 2");
    FAILS(dl_gather(x, shaped(VT(DL_I64, 5), SHAPE(1, 1)), 1), DL_ERR_INDEX, "index 5");
    FAILS(dl_one_hot(VT(DL_I64, 4), 4), DL_ERR_INDEX, "label 4");
    FAILS(dl_index_select(x, V(1), 0), DL_ERR_DTYPE, "indices must be i64 or i32");
    FAILS(dl_sum(x, SHAPE(2), 0), DL_ERR_INDEX, "dimension 2");
    FAILS(dl_sum(x, SHAPE(0, -2), 0), DL_ERR_VALUE, "named twice");
    IS(dl_index_select(x, VT(DL_I32, -1, 0), 0), 4, 5, 6, 1, 2, 3);
    IS(dl_gather(x, shaped(VT(DL_I64, -1, 0), SHAPE(2, 1)), 1), 3, 4);
}

static void shape_errors(void **state) {
    (void)state;
    dl_tensor *x = shaped(V(1, 2, 3, 4, 5, 6), SHAPE(2, 3));
    FAILS(dl_add(x, V(1, 2)), DL_ERR_SHAPE, "do not broadcast");
    FAILS(dl_reshape(x, SHAPE(4, -1)), DL_ERR_SHAPE, "do not fit");
    FAILS(dl_reshape(x, SHAPE(-1, -1)), DL_ERR_SHAPE, "only one size");
    FAILS(dl_expand(x, SHAPE(2, 4)), DL_ERR_SHAPE, "cannot be expanded");
    FAILS(dl_permute(x, SHAPE(0, 0)), DL_ERR_VALUE, "named twice");
    FAILS(dl_cat((dl_tensor *[]){x, V(1)}, 2, 0), DL_ERR_SHAPE, "equal sizes");
    FAILS(dl_stack((dl_tensor *[]){x, V(1)}, 2, 0), DL_ERR_SHAPE, "one shape");
    FAILS(dl_where(x, x, x), DL_ERR_DTYPE, "must be bool");
    FAILS(dl_full(SHAPE(-1), 0, -1, 0), DL_ERR_SHAPE, "negative");
    double stop = 0;
    FAILS(dl_arange(1, &stop, 1, -1, 0), DL_ERR_VALUE, "never leads");
    FAILS(dl_randint(3, 3, SHAPE(1), -1, 0), DL_ERR_VALUE, "must be above");
    FAILS(dl_bernoulli(V(1.5)), DL_ERR_VALUE, "between 0 and 1");
}

static void empty_tensors(void **state) {
    (void)state;
    dl_tensor *none = hold(dl_tensor_zeros(2, (long[]){0, 3}, DL_F32, 0)), *r;
    const long zero = 0, one = 1;
    r = hold(dl_add(none, V(1, 2, 3)));
    assert_int_equal(dl_shape(r)[0], 0);
    IS(dl_sum(none, NULL, 0, 0), 0);
    IS(dl_sum(none, &zero, 1, 0), 0, 0, 0);
    IS(dl_prod(none, NULL, 0), 1);
    IS(dl_mean(none, NULL, 0, 0), NAN);
    IS(dl_any(none, NULL, 0, 0), 0);
    IS(dl_all(none, NULL, 0, 0), 1);
    IS(dl_logsumexp(none, &zero, 1, 0), -INFINITY, -INFINITY, -INFINITY);
    FAILS(dl_amax(none, NULL, 0, 0), DL_ERR_SHAPE, "no element");
    r = hold(dl_amax(none, &one, 1, 0)); /* no result either: nothing is missing */
    assert_int_equal(dl_numel(r), 0);
    FAILS(dl_argmax(none, &zero, 0), DL_ERR_SHAPE, "no element");
    r = hold(dl_nonzero(none));
    assert_int_equal(dl_shape(r)[1], 2);
    r = hold(dl_cumsum(none, 0));
    r = hold(dl_flip(none, &zero, 1));
    r = hold(dl_arange(0, NULL, 1, -1, 0));
    assert_int_equal(dl_numel(r), 0);
    r = hold(dl_randperm(0, -1, 0));
    assert_int_equal(dl_numel(r), 0);
}

static void single_numbers(void **state) {
    (void)state;
    dl_tensor *x = hold(dl_select(V(3), 0, 0)), *i = hold(dl_select(VT(DL_I64, 0), 0, 0)), *at;
    const long zero = 0, last = -1;
    IS(dl_sum(x, &zero, 1, 0), 3);
    IS(dl_amax(x, &last, 1, 1), 3);
    IS(dl_max_dim(x, 0, 0, &at), 3);
    IS(at, 0);
    IS(dl_cumsum(x, 0), 3);
    IS(dl_gather(x, i, 0), 3);
    IS(dl_scatter_add(x, i, x, 0), 6);
    IS(dl_index_select(x, i, 0), 3);
    IS(dl_index_add(x, i, x, 0), 6);
    dl_tensor *nz = hold(dl_nonzero(x)), *p = hold(dl_permute(x, &zero, 0));
    assert_int_equal(dl_shape(nz)[0], 1);
    assert_int_equal(dl_shape(nz)[1], 0);
    assert_int_equal(dl_ndim(p), 0);
    IS(dl_stack((dl_tensor *[]){x, x}, 2, 0), 3, 3);
    IS(dl_one_hot(i, 2), 1, 0);
    FAILS(dl_select(x, 0, 0), DL_ERR_INDEX, "0-d");
}

/* Along rows, of which some go side by side, as along columns. */
static void recurrences_of_rows(void **state) {
    (void)state;
    const long n = 37, dims[] = {1, 0};
    for (long rows = 1; rows <= 9; rows++)
        for (int k = 0; k < 4; k++) {
            const bool reverse = k & 1;
            dl_dtype t = k < 2 ? DL_F32 : DL_F64;
            dl_tensor *a = hold(dl_rand(SHAPE(rows, n), t, 0)), *b = hold(dl_rand(SHAPE(rows, n), t, 0));
            dl_tensor *ta = hold(dl_contiguous(hold(dl_permute(a, dims, 2)))),
                      *tb = hold(dl_contiguous(hold(dl_permute(b, dims, 2))));
            dl_tensor *y = hold(dl_recurrence(a, b, 1, reverse)), *ty = hold(dl_recurrence(ta, tb, 0, reverse));
            dl_tensor *back = hold(dl_contiguous(hold(dl_permute(ty, dims, 2))));
            assert_memory_equal(dl_data(y), dl_data(back), (size_t)(rows * n * dl_dtype_size(t)));
            drop(NULL);
        }
}

static void sixteen_bits(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        dl_dtype t = k ? DL_BF16 : DL_F16;
        dl_tensor *x = VT(t, 1, 2, 3, 4, 5, 6), *m = shaped(x, SHAPE(2, 3)), *r;
        const long zero = 0;
        r = hold(dl_add(x, hold(dl_scalar_f(0.5))));
        assert_int_equal(dl_dtype_of(r), t);
        IS(dl_ref(r), 1.5, 2.5, 3.5, 4.5, 5.5, 6.5);
        IS(dl_mul(hold(dl_permute(m, SHAPE(1, 0))), V(1, 2)), 1, 8, 2, 10, 3, 12);
        IS(dl_sum(m, &zero, 1, 0), 5, 7, 9);
        IS(dl_amax(m, &zero, 1, 0), 4, 5, 6);
        IS(dl_argmax(m, &zero, 0), 1, 1, 1);
        IS(dl_cumsum(x, 0), 1, 3, 6, 10, 15, 21);
        IS(dl_gt(x, hold(dl_scalar_f(3))), 0, 0, 0, 1, 1, 1);
        IS(dl_cat((dl_tensor *[]){x, x}, 2, 0), 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6);
        IS(dl_index_add(x, VT(DL_I64, 0, 0), VT(t, 1, 1), 0), 3, 2, 3, 4, 5, 6);
        double many[2049];
        for (int i = 0; i < 2049; i++) many[i] = 1;
        IS(dl_to(hold(dl_sum(vec(t, 2049, many), NULL, 0, 0)), DL_F32), k ? 2048 : 2048); /* rounded once, to even */
        drop(NULL);
    }
}

static void numbers_made(void **state) {
    (void)state;
    double stop = 2;
    dl_tensor *whole = hold(dl_arange(3, NULL, 1, -1, 0)), *part = hold(dl_arange(1, &stop, 0.25, -1, 0));
    assert_int_equal(dl_dtype_of(whole), DL_I64);
    assert_int_equal(dl_dtype_of(part), DL_F32);
    IS(dl_ref(whole), 0, 1, 2);
    IS(dl_ref(part), 1, 1.25, 1.5, 1.75);
    IS(dl_arange(5, (double[]){0}, -2, -1, 0), 5, 3, 1);
    IS(dl_linspace(0, 1, 5, -1, 0), 0, 0.25, 0.5, 0.75, 1);
    IS(dl_linspace(3, 9, 1, -1, 0), 3);
    IS(dl_eye(2, (long[]){3}, -1, 0), 1, 0, 0, 0, 1, 0);
    IS(dl_eye(2, NULL, DL_BOOL, 0), 1, 0, 0, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(nan_is_kept),    TEST(nan_is_found_anywhere), TEST(infinities),          TEST(integers),
        TEST(powers_of_ends), TEST(integer_errors),        TEST(index_errors),        TEST(shape_errors),
        TEST(empty_tensors),  TEST(single_numbers),        TEST(recurrences_of_rows), TEST(sixteen_bits),
        TEST(numbers_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
