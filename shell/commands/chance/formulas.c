/* Formulas of bijectors: of single numbers, and of vectors and matrices. */
#include "commands/chance/transform.h"

#include <float.h>
#include <math.h>

#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/linalg.h"
#include "dlcore/loss.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"

enum { MOST_DIMS = 9 }; /* and one more than tensors have */

#define LOG(a) one(p, dl_log, a)
#define NEG(a) one(p, dl_neg, a)
#define KEEP(call) keep(p, call)
static dl_tensor *softplus(pool *p, dl_tensor *x) { return x ? keep(p, dl_softplus(x, 1, INFINITY)) : NULL; }
/* y within the open interval, so that its inverse is finite */
static dl_tensor *inside(pool *p, dl_tensor *y, double low, double high) {
    const double step = y && dl_dtype_of(y) == DL_F64 ? 0x1p-52 : 0x1p-23, from = low + step, to = high - step;
    return y ? keep(p, dl_clamp(y, &from, &to)) : NULL;
}

#define TRANSFORM(name) static dl_tensor *name(pool *p, dl_tensor *x)
#define SLOPE(name) static dl_tensor *name(pool *p, dl_tensor *x, DLSH_UNUSED dl_tensor *y)
TRANSFORM(to_exp) { return EXP(x); }
TRANSFORM(to_log) { return LOG(x); }
SLOPE(exp_slope) { return ADD(x, N(0)); }
TRANSFORM(same) { return ADD(x, N(0)); }
SLOPE(no_slope) { return MUL(x, N(0)); }
TRANSFORM(to_abs) { return one(p, dl_abs, x); }
TRANSFORM(to_tanh) { return one(p, dl_tanh, x); }
TRANSFORM(from_tanh) { return one(p, dl_atanh, inside(p, x, -1, 1)); }
SLOPE(tanh_slope) { return MUL(N(2), SUB(SUB(N(M_LN2), x), softplus(p, MUL(N(-2), x)))); }
TRANSFORM(to_sigmoid) { return SIGMOID(x); }
TRANSFORM(from_sigmoid) {
    dl_tensor *y = inside(p, x, 0, 1);
    return SUB(LOG(y), one(p, dl_log1p, NEG(y)));
}
SLOPE(sigmoid_slope) { return NEG(ADD(softplus(p, x), softplus(p, NEG(x)))); }
TRANSFORM(to_softplus) { return softplus(p, x); }
TRANSFORM(from_softplus) { return ADD(x, LOG(NEG(one(p, dl_expm1, NEG(x))))); }
SLOPE(softplus_slope) { return NEG(softplus(p, NEG(x))); }
TRANSFORM(to_affine) { return ADD(P(0), MUL(P(1), x)); }
TRANSFORM(from_affine) { return DIV(SUB(x, P(0)), P(1)); }
SLOPE(affine_slope) { return BESIDE(LOG(one(p, dl_abs, P(1))), x); }
TRANSFORM(to_power) { return two(p, dl_pow, x, P(0)); }
TRANSFORM(from_power) { return two(p, dl_pow, x, DIV(N(1), P(0))); }
SLOPE(power_slope) { return LOG(one(p, dl_abs, DIV(MUL(P(0), to_power(p, x)), x))); }

/* ---- vectors */

static long last_of(const dl_tensor *x) { return dl_shape(x)[dl_ndim(x) - 1]; }
static dl_tensor *sum_last(pool *p, dl_tensor *x) {
    const long last = -1;
    return x ? KEEP(dl_sum(x, &last, 1, 0)) : NULL;
}
/* The first n numbers of the last dimension, after one of `value` in front where `front`. */
static dl_tensor *first_of(pool *p, dl_tensor *x, long n) { return x ? KEEP(dl_narrow(x, -1, 0, n)) : NULL; }
static dl_tensor *padded(pool *p, dl_tensor *x, long before, long after, double value) {
    const long pad[] = {before, after};
    return x ? KEEP(dl_pad(x, pad, 2, value, "constant")) : NULL;
}
/* x moved by one place along the last dimension; a 1 comes in. */
static dl_tensor *shifted(pool *p, dl_tensor *x) {
    return x ? padded(p, first_of(p, x, last_of(x) - 1), 1, 0, 1) : NULL;
}
static dl_tensor *needs(dl_tensor *x, int ndim, const char *what) {
    if (dl_ndim(x) >= ndim) return x;
    return dlsh_fail(DL_ERR_SHAPE, NULL, "a %s is wanted, got a tensor of %d dimensions", what, dl_ndim(x)), NULL;
}

TRANSFORM(to_softmax) { return needs(x, 1, "vector") ? KEEP(dl_softmax(x, -1)) : NULL; }

/* ln k, ..., ln 1: of how many parts each break of a stick is the first */
static dl_tensor *log_parts(pool *p, dl_tensor *like, long k) {
    const double end = 0;
    return LOG(KEEP(dl_arange((double)k, &end, -1, (int)dl_dtype_of(like), dl_device_of(like))));
}
TRANSFORM(to_sticks) {
    if (!needs(x, 1, "vector")) return NULL;
    dl_tensor *z = SIGMOID(SUB(x, log_parts(p, x, last_of(x)))), *left = SUB(N(1), z);
    dl_tensor *product = left ? KEEP(dl_cumprod(left, -1)) : NULL;
    return MUL(padded(p, z, 0, 1, 1), padded(p, product, 1, 0, 1));
}
TRANSFORM(from_sticks) {
    if (!needs(x, 1, "vector")) return NULL;
    const double least = dl_dtype_of(x) == DL_F64 ? DBL_MIN : FLT_MIN;
    const long k = last_of(x) - 1;
    dl_tensor *y = first_of(p, x, k), *sum = y ? KEEP(dl_cumsum(y, -1)) : NULL, *rest = SUB(N(1), sum);
    dl_tensor *left = rest ? KEEP(dl_clamp(rest, &least, NULL)) : NULL;
    return ADD(SUB(LOG(y), LOG(left)), log_parts(p, x, k));
}
SLOPE(sticks_slope) {
    dl_tensor *z = SUB(x, log_parts(p, x, last_of(x)));
    return sum_last(p, ADD(SUB(one(p, dl_logsigmoid, z), z), LOG(first_of(p, y, last_of(x)))));
}

/* ---- matrices */

/* The matrix [..., n, n] with the numbers of the vectors x below its diagonal, row by row, and zeros elsewhere. */
static dl_tensor *from_vector(pool *p, dl_tensor *x, long n) {
    const long k = last_of(x), count = n * n, to[] = {count};
    long shape[MOST_DIMS], *index = dl_memory_alloc(count + 1, sizeof *index);
    if (!index) return NULL;
    for (long i = 0, next = 0; i < count; i++) index[i] = i % n < i / n ? next++ : k;
    dl_tensor *places = KEEP(dl_tensor_from(1, to, DL_I64, dl_device_of(x), index));
    free(index);
    const int dims = dl_ndim(x);
    for (int i = 0; i < dims - 1; i++) shape[i] = dl_shape(x)[i];
    shape[dims - 1] = shape[dims] = n;
    dl_tensor *all = padded(p, x, 0, 1, 0), *flat = all && places ? KEEP(dl_index_select(all, places, -1)) : NULL;
    return flat ? KEEP(dl_reshape(flat, shape, dims + 1)) : NULL;
}

/* The numbers of matrices x up to a diagonal, -1: that below the middle one, as vectors. */
static dl_tensor *to_vector(pool *p, dl_tensor *x, long diagonal) {
    if (!x) return NULL;
    const long n = last_of(x);
    long k = 0, shape[MOST_DIMS], *index = dl_memory_alloc(n * n + 1, sizeof *index);
    if (!index) return NULL;
    for (long i = 0; i < n * n; i++)
        if (i % n <= i / n + diagonal) index[k++] = i;
    dl_tensor *places = KEEP(dl_tensor_from(1, &k, DL_I64, dl_device_of(x), index));
    free(index);
    const int dims = dl_ndim(x);
    for (int i = 0; i < dims - 2; i++) shape[i] = dl_shape(x)[i];
    shape[dims - 2] = n * n;
    dl_tensor *flat = KEEP(dl_reshape(x, shape, dims - 1));
    return flat && places ? KEEP(dl_index_select(flat, places, -1)) : NULL;
}

/* 1 - the sum of squares of each row so far */
static dl_tensor *left_of_rows(pool *p, dl_tensor *y) {
    dl_tensor *squares = SQUARE(y), *sum = squares ? KEEP(dl_cumsum(squares, -1)) : NULL;
    return SUB(N(1), sum);
}

/* n (n - 1) / 2 numbers to the triangle of the correlations of n. */
TRANSFORM(to_correlations) {
    if (!needs(x, 1, "vector")) return NULL;
    const long k = last_of(x), n = (long)floor((1 + sqrt(1 + 8.0 * (double)k)) / 2);
    if (n * (n - 1) / 2 != k)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "n (n - 1) / 2 numbers make a triangle, and %ld are no such number", k),
               NULL;
    dl_tensor *bounded = inside(p, one(p, dl_tanh, x), -1, 1), *r = bounded ? from_vector(p, bounded, n) : NULL;
    dl_tensor *left = r ? one(p, dl_sqrt, SUB(N(1), SQUARE(r))) : NULL;
    dl_tensor *product = left ? KEEP(dl_cumprod(left, -1)) : NULL;
    dl_tensor *ones = KEEP(dl_eye(n, NULL, (int)dl_dtype_of(x), dl_device_of(x)));
    return MUL(ADD(r, ones), shifted(p, product));
}
TRANSFORM(from_correlations) {
    if (!needs(x, 2, "matrix")) return NULL;
    dl_tensor *left = to_vector(p, shifted(p, left_of_rows(p, x)), -1);
    return one(p, dl_atanh, DIV(to_vector(p, x, -1), one(p, dl_sqrt, left)));
}
SLOPE(correlations_slope) {
    dl_tensor *left = LOG(to_vector(p, left_of_rows(p, y), -2));
    return ADD(MUL(N(0.5), sum_last(p, left)), sum_last(p, tanh_slope(p, x, y)));
}

/* Matrices with f of their diagonal, and zeros above it. */
static dl_tensor *with_diagonal(pool *p, dl_tensor *x, dl_tensor *(*f)(dl_tensor *)) {
    if (!needs(x, 2, "matrix")) return NULL;
    dl_tensor *d = one(p, f, KEEP(dl_diagonal(x, 0, -2, -1)));
    return ADD(KEEP(dl_tril(x, -1)), d ? KEEP(dl_diag_embed(d, 0, -2, -1)) : NULL);
}
TRANSFORM(to_triangle) { return with_diagonal(p, x, dl_exp); }
TRANSFORM(from_triangle) { return with_diagonal(p, x, dl_log); }
TRANSFORM(to_definite) {
    const long row = -2, column = -1;
    dl_tensor *l = to_triangle(p, x), *t = l ? KEEP(dl_movedim(l, &row, 1, &column, 1)) : NULL;
    return two(p, dl_matmul, l, t);
}
TRANSFORM(from_definite) {
    dl_tensor *l = needs(x, 2, "matrix") ? KEEP(dl_cholesky(x, 0)) : NULL;
    return l ? from_triangle(p, l) : NULL;
}

const transform_kind dlsh_plain_transforms[] = {
    {.name = "exp", .forward = to_exp, .back = to_log, .slope = exp_slope},
    {.name = "tanh", .forward = to_tanh, .back = from_tanh, .slope = tanh_slope},
    {.name = "sigmoid", .forward = to_sigmoid, .back = from_sigmoid, .slope = sigmoid_slope},
    {.name = "softplus", .forward = to_softplus, .back = from_softplus, .slope = softplus_slope},
    {.name = "affine",
     .args = {{"loc", TENSOR_ARG}, {"scale", TENSOR_ARG}},
     .forward = to_affine,
     .back = from_affine,
     .slope = affine_slope},
    {.name = "power",
     .args = {{"exponent", TENSOR_ARG}},
     .forward = to_power,
     .back = from_power,
     .slope = power_slope},
    {.name = "identity", .forward = same, .back = same, .slope = no_slope},
    {.name = "abs", .forward = to_abs, .back = same},
    {.name = "softmax", .from = 1, .to = 1, .forward = to_softmax, .back = to_log},
    {.name = "stick_breaking",
     .from = 1,
     .to = 1,
     .forward = to_sticks,
     .back = from_sticks,
     .slope = sticks_slope,
     .more = 1},
    {.name = "corr_cholesky",
     .from = 1,
     .to = 2,
     .forward = to_correlations,
     .back = from_correlations,
     .slope = correlations_slope},
    {.name = "lower_cholesky", .from = 2, .to = 2, .forward = to_triangle, .back = from_triangle},
    {.name = "positive_definite", .from = 2, .to = 2, .forward = to_definite, .back = from_definite},
};
const int dlsh_nplain_transforms = DLSH_COUNT(dlsh_plain_transforms);
