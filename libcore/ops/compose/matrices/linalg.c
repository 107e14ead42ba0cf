/* Linear algebra made of factors of matrices: solving, inverses, determinants; the factors as PyTorch gives them. */
#include "ops/matrices.h"
#include "autograd/vmap.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/complex.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/linalg.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/linalg.h"

#include <math.h>
#include <string.h>

/* ---- checks */

static dl_status check_matrices(const dl_tensor *t) {
    if (t->ndim >= 2) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "a matrix or a batch of them is needed, not a tensor of shape %s",
                   dl_shape_text(t->ndim, t->shape));
}

static dl_status check_square(const dl_tensor *t) {
    DL_TRY(check_matrices(t));
    if (dl_mat_height(t) == dl_mat_width(t)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "the matrices must be square, not %ld by %ld", dl_mat_height(t), dl_mat_width(t));
}

/* The first matrix of a batch of which a factorisation says something, and what; 0: none. */
static dl_status first_info(dl_pool *p, dl_tensor *info, long *value, long *index) {
    DL_VMAP_UNSEEN;
    *value = *index = 0;
    if (!info) return dl_failed();
    if (!info->numel) return DL_OK;
    dl_tensor *row = K(dl_reshape(info, (long[]){info->numel}, 1));
    dl_tensor *bad = row ? K(dl_ne(row, K(dl_scalar_i(0)))) : NULL;
    DL_TRY(dl_item_i(K(dl_any(bad, NULL, 0, 0)), value));
    if (!*value) return DL_OK;
    DL_TRY(dl_item_i(K(dl_argmax(K(dl_to(bad, DL_I64)), NULL, 0)), index));
    return dl_item_i(K(dl_select(row, 0, *index)), value);
}

static dl_status check_regular(dl_pool *p, dl_tensor *info) {
    long value, index;
    DL_TRY(first_info(p, info, &value, &index));
    if (value <= 0) return DL_OK;
    if (info->ndim)
        return dl_fail_hint(DL_ERR_VALUE, "pinv and lstsq take any matrix",
                            "matrix %ld of the batch is singular: diagonal element %ld of its factor U is 0", index,
                            value);
    return dl_fail_hint(DL_ERR_VALUE, "pinv and lstsq take any matrix",
                        "the matrix is singular: diagonal element %ld of its factor U is 0", value);
}

/* ---- solving */

/* Solves A X = B by the factors of A. */
static dl_tensor *by_factors(dl_pool *p, dl_tensor *lu, dl_tensor *order, dl_tensor *b) {
    dl_tensor *y = dl_mat_triangle(p, lu, dl_mat_order_rows(p, b, order, false), false, false, true);
    return dl_mat_triangle(p, lu, y, true, false, false);
}

static dl_tensor *factors(dl_pool *p, dl_tensor *a, dl_tensor **pivots, dl_tensor **order, dl_tensor **info) {
    *pivots = *order = *info = NULL;
    dl_tensor *lu = K(dl_factor_lu(a, pivots, order, info));
    K(*pivots), K(*order), K(*info);
    return lu;
}

/* A and B of one batch shape; the gradient has a rule of its own. */
POOLED_RULE(solve_square) {
    dl_tensor *pivots, *order, *info, *lu = factors(p, c->in[0], &pivots, &order, &info);
    if (!lu) return dl_failed();
    DL_TRY(check_regular(p, info));
    dl_tensor *x = by_factors(p, lu, order, c->in[1]);
    if (!x) return dl_failed();
    c->out[0] = dl_ref(x), c->out[1] = dl_ref(lu), c->out[2] = dl_ref(order);
    return DL_OK;
}

POOLED_RULE(inv) {
    dl_tensor *a = c->in[0];
    DL_TRY(check_square(a));
    dl_tensor *eye = dl_mat_eye(p, a, dl_mat_width(a)), *wide = eye ? K(dl_expand(eye, a->shape, a->ndim)) : NULL;
    return dl_finish(c, dl_solve_square(a, wide));
}
COMPOSE_RULE(inverse) { return dl_finish(c, dl_inv(c->in[0])); }

/* Both with the batch dimensions that they broadcast to. */
static dl_status same_batch(dl_pool *p, dl_tensor **a, dl_tensor **b) {
    long shape[DL_MAX_DIM + 2], n;
    int nd;
    dl_tensor *t[2] = {*a, *b};
    DL_TRY(dl_broadcast(t[0]->ndim - 2, t[0]->shape, t[1]->ndim - 2, t[1]->shape, &nd, shape));
    for (int i = 0; i < 2; i++) {
        for (n = 0; n < 2; n++) shape[nd + n] = t[i]->shape[t[i]->ndim - 2 + n];
        if (!(t[i] = K(dl_expand(t[i], shape, nd + 2)))) return dl_failed();
    }
    *a = t[0], *b = t[1];
    return DL_OK;
}

/* The right side as matrices; *vector: it was a vector, or a batch of them. */
static dl_status right_side(dl_pool *p, const dl_tensor *a, dl_tensor **b, bool *vector) {
    dl_tensor *t = *b;
    long shape[DL_MAX_DIM + 1];
    *vector = t->ndim == 1 || dl_sizes_eq(t->ndim, t->shape, a->ndim - 1, a->shape);
    if (!*vector) return check_matrices(t);
    for (int i = 0; i < t->ndim; i++) shape[i] = t->shape[i];
    shape[t->ndim] = 1;
    *b = K(dl_reshape(t, shape, t->ndim + 1));
    return *b ? DL_OK : dl_failed();
}

/* The result, a column of it where the right side was a vector. */
static dl_status give_side(dl_call *c, dl_tensor *x, bool vector) {
    return dl_finish(c, !x ? NULL : vector ? dl_select(x, -1, 0) : dl_ref(x));
}

static dl_status check_rows(const dl_tensor *a, const dl_tensor *b) {
    if (dl_mat_height(a) == dl_mat_height(b)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "matrices of %ld rows do not fit a right side of %ld", dl_mat_height(a),
                   dl_mat_height(b));
}

POOLED_RULE(solve) {
    dl_tensor *a = c->in[0], *b = c->in[1];
    const bool left = ATTR_I(c, SOLVE_LEFT) != 0;
    bool vector;
    DL_TRY(check_square(a));
    DL_TRY(right_side(p, a, &b, &vector));
    if (!left && vector) return dl_fail(DL_ERR_SHAPE, "left=false needs a matrix on the right side, not a vector");
    if (!left) a = dl_mat_turned(p, a), b = dl_mat_turned(p, b);
    if (!a || !b) return dl_failed();
    DL_TRY(check_rows(a, b));
    DL_TRY(same_batch(p, &a, &b));
    dl_tensor *x = K(dl_solve_square(a, b));
    return give_side(c, left ? x : dl_mat_turned(p, x), vector);
}

POOLED_RULE(solve_triangular) {
    dl_tensor *a = c->in[0], *b = c->in[1];
    const bool left = ATTR_I(c, SOLVE_TRIANGULAR_LEFT) != 0, upper = ATTR_I(c, SOLVE_TRIANGULAR_UPPER) != 0;
    DL_TRY(check_square(a));
    DL_TRY(check_matrices(b));
    if (!left) a = dl_mat_turned(p, a), b = dl_mat_turned(p, b);
    if (!a || !b) return dl_failed();
    DL_TRY(check_rows(a, b));
    DL_TRY(same_batch(p, &a, &b));
    dl_tensor *x = K(dl_solve_triangle(a, b, upper == left, ATTR_I(c, SOLVE_TRIANGULAR_UNITRIANGULAR) != 0));
    if (!left) x = dl_mat_turned(p, x);
    RESULT(x);
}

/* ---- Cholesky */

/* NaN is not positive definite either, whatever the factorisation says of it. */
static dl_tensor *with_nan(dl_pool *p, dl_tensor *l, dl_tensor *info) {
    const long last = -1;
    if (!l || !dl_mat_width(l)) return info;
    dl_tensor *nan = K(dl_isnan(K(dl_real(K(dl_diagonal(l, 0, -2, -1)))))),
              *any = nan ? K(dl_any(nan, &last, 1, 0)) : NULL;
    dl_tensor *first = any ? K(dl_add(K(dl_argmax(K(dl_to(nan, DL_I64)), &last, 0)), K(dl_scalar_i(1)))) : NULL;
    return first ? K(dl_where(any, K(dl_to(first, DL_I32)), info)) : NULL;
}

POOLED_RULE(cholesky) {
    dl_tensor *a = c->in[0], *info = NULL;
    const bool upper = ATTR_I(c, CHOLESKY_UPPER) != 0;
    long value, index;
    DL_TRY(check_square(a));
    dl_tensor *l = K(dl_factor_cholesky(upper ? dl_mat_adjoint(p, a) : a, &info));
    K(info);
    if (!l) return dl_failed();
    DL_TRY(first_info(p, with_nan(p, l, info), &value, &index));
    if (value > 0 && info->ndim)
        return dl_fail(DL_ERR_VALUE,
                       "matrix %ld of the batch is not positive definite: its leading minor of order %ld is not", index,
                       value);
    if (value > 0)
        return dl_fail(DL_ERR_VALUE, "the matrix is not positive definite: its leading minor of order %ld is not",
                       value);
    if (upper) l = dl_mat_adjoint(p, l);
    RESULT(l);
}

/* A = L L^T or U^T U, of which the factor is given. */
POOLED_RULE(cholesky_solve) {
    dl_tensor *b = c->in[0], *l = c->in[1];
    const bool upper = ATTR_I(c, CHOLESKY_SOLVE_UPPER) != 0;
    DL_TRY(check_square(l));
    DL_TRY(check_matrices(b));
    DL_TRY(check_rows(l, b));
    dl_tensor *x = dl_mat_triangle(p, l, dl_mat_triangle(p, l, b, upper, upper, false), upper, !upper, false);
    RESULT(x);
}

POOLED_RULE(triangular_solve) {
    dl_tensor *b = c->in[0], *a = c->in[1];
    const bool turned = ATTR_I(c, TRIANGULAR_SOLVE_TRANSPOSE) != 0, upper = ATTR_I(c, TRIANGULAR_SOLVE_UPPER) != 0;
    DL_TRY(check_square(a));
    c->out[0] = dl_solve_triangular(turned ? dl_mat_turned(p, a) : a, b, upper != turned, 1,
                                    ATTR_I(c, TRIANGULAR_SOLVE_UNITRIANGULAR) != 0);
    c->out[1] = c->out[0] ? dl_clone(a) : NULL;
    return c->out[1] ? DL_OK : dl_failed();
}

POOLED_RULE(cholesky_inverse) {
    dl_tensor *l = c->in[0];
    DL_TRY(check_square(l));
    return dl_finish(c,
                     dl_cholesky_solve(dl_mat_eye(p, l, dl_mat_width(l)), l, ATTR_I(c, CHOLESKY_INVERSE_UPPER) != 0));
}

/* ---- LU, determinants */

/* The factors of A = L U in one matrix, without swaps of rows: half of the columns, then what is left of the others. */
static dl_tensor *eliminated(dl_pool *outer, dl_tensor *a) {
    POOL;
    const long m = dl_mat_height(a), n = dl_mat_width(a), k = m < n ? m : n, h = k / 2;
    if (!k || m == 1) return a;
    if (k == 1) {
        dl_tensor *top = dl_mat_rows(p, a, 0, 1), *rest = top ? K(dl_div(dl_mat_rows(p, a, 1, -1), top)) : NULL;
        return rest ? dl_keep(outer, dl_cat((dl_tensor *[]){top, rest}, 2, -2)) : NULL;
    }
    dl_tensor *left = dl_mat_columns(p, a, 0, h), *right = dl_mat_columns(p, a, h, -1);
    left = left && right ? eliminated(p, left) : NULL;
    dl_tensor *top = left ? dl_mat_rows(p, left, 0, h) : NULL, *below = top ? dl_mat_rows(p, left, h, -1) : NULL;
    dl_tensor *upper = below ? dl_mat_triangle(p, top, dl_mat_rows(p, right, 0, h), false, false, true) : NULL;
    dl_tensor *gone = upper ? dl_mat_mul(p, below, upper) : NULL;
    dl_tensor *open = gone ? K(dl_sub(dl_mat_rows(p, right, h, -1), gone)) : NULL;
    dl_tensor *rest = open ? eliminated(p, open) : NULL,
              *last = rest ? K(dl_cat((dl_tensor *[]){upper, rest}, 2, -2)) : NULL;
    return last ? dl_keep(outer, dl_cat((dl_tensor *[]){left, last}, 2, -1)) : NULL;
}

/* The factors without swaps, and those that would leave all rows in place. */
static dl_tensor *plain_factors(dl_pool *p, dl_tensor *a, dl_tensor **pivots) {
    const long m = dl_mat_height(a), n = dl_mat_width(a), k = m < n ? m : n;
    const double end = (double)k + 1;
    long shape[DL_MAX_DIM];
    memcpy(shape, a->shape, sizeof shape);
    shape[a->ndim - 2] = k;
    dl_tensor *row = K(dl_arange(1, &end, 1, DL_I32, a->st->device)), *lu = eliminated(p, K(dl_to_dtype(a, a->dtype)));
    *pivots = row && lu ? K(dl_contiguous(K(dl_expand(row, shape, a->ndim - 1)))) : NULL;
    return *pivots ? lu : NULL;
}

POOLED_RULE(lu_factor) {
    DL_TRY(check_matrices(c->in[0]));
    dl_tensor *pivots, *order, *info,
        *lu = ATTR_I(c, LU_FACTOR_PIVOT) ? factors(p, c->in[0], &pivots, &order, &info)
                                         : plain_factors(p, c->in[0], &pivots);
    if (!lu) return dl_failed();
    c->out[0] = dl_ref(lu), c->out[1] = dl_ref(pivots);
    return DL_OK;
}

/* P, of the row of A that each row of L U is. */
static dl_tensor *rows_as_matrix(dl_pool *p, dl_tensor *lu, dl_tensor *order) {
    const long m = dl_mat_height(lu);
    const double end = (double)m;
    const int nd = order->ndim + 1;
    long shape[DL_MAX_DIM];
    for (int i = 0; i < nd; i++) shape[i] = i == nd - 1 ? m : i == nd - 2 ? 1 : order->shape[i];
    dl_tensor *row = K(dl_reshape(K(dl_arange(0, &end, 1, DL_I64, lu->st->device)), (long[]){m, 1}, 2)),
              *column = row ? K(dl_reshape(order, shape, nd)) : NULL;
    return column ? K(dl_to_dtype(K(dl_eq(column, row)), (dl_dtype)lu->dtype)) : NULL;
}

/* L and U of their numbers in one matrix, new references in out[2]. */
static dl_status triangles(dl_pool *p, dl_tensor *lu, dl_tensor **out) {
    const long m = dl_mat_height(lu), n = dl_mat_width(lu), k = m < n ? m : n;
    dl_tensor *low = dl_mat_columns(p, lu, 0, k), *upper = dl_mat_rows(p, lu, 0, k),
              *eye = low ? K(dl_eye(m, &k, DL_BOOL, lu->st->device)) : NULL;
    if (!low || !eye || !upper) return dl_failed();
    out[0] = dl_where(eye, N(1), K(dl_tril(low, -1)));
    out[1] = dl_triu(upper, 0);
    return out[0] && out[1] ? DL_OK : dl_failed();
}

POOLED_RULE(lu) {
    dl_tensor *pivots, *order, *info;
    DL_TRY(check_matrices(c->in[0]));
    if (!ATTR_I(c, LU_PIVOT)) {
        dl_tensor *lu = plain_factors(p, c->in[0], &pivots);
        const long none = 0;
        c->out[0] = lu ? dl_tensor_zeros(1, &none, lu->dtype, lu->st->device) : NULL;
        return c->out[0] ? triangles(p, lu, c->out + 1) : dl_failed();
    }
    dl_tensor *lu = factors(p, c->in[0], &pivots, &order, &info), *rows = lu ? rows_as_matrix(p, lu, order) : NULL;
    if (!rows) return dl_failed();
    c->out[0] = dl_ref(rows);
    return triangles(p, lu, c->out + 1);
}

/* The row of A that each row of L U is, of swaps of rows [..., k], for m rows. */
static dl_tensor *order_of(dl_pool *p, dl_tensor *pivots, long m) {
    const long k = pivots->shape[pivots->ndim - 1], batches = k ? pivots->numel / k : 0;
    long shape[DL_MAX_DIM];
    for (int i = 0; i < pivots->ndim; i++) shape[i] = i == pivots->ndim - 1 ? m : pivots->shape[i];
    dl_tensor *host = K(dl_to_device(K(dl_contiguous(K(dl_to(pivots, DL_I64)))), 0));
    dl_tensor *order = host ? K(dl_tensor_empty(pivots->ndim, shape, DL_I64, 0)) : NULL;
    if (!order) return NULL;
    const long *swap = dl_data(host);
    long *row = dl_ptr(order);
    for (long b = 0; b < batches; b++, row += m, swap += k) {
        for (long i = 0; i < m; i++) row[i] = i;
        for (long i = 0; i < k; i++) {
            const long with = swap[i] - 1, kept = row[i];
            if (with < 0 || with >= m || i >= m)
                return dl_fail(DL_ERR_VALUE, "a pivot is %ld; rows are 1 to %ld", swap[i], m), NULL;
            row[i] = row[with], row[with] = kept;
        }
    }
    return K(dl_to_device(order, pivots->st->device));
}

/* A = P L U; transposed: U^T, then L^T, and the rows back in their order. */
static dl_tensor *by_given_factors(dl_pool *p, dl_tensor *lu, dl_tensor *order, dl_tensor *b, bool transposed) {
    if (!transposed) return by_factors(p, lu, order, b);
    dl_tensor *y = dl_mat_triangle(p, lu, b, true, true, false);
    return dl_mat_order_rows(p, dl_mat_triangle(p, lu, y, false, true, true), order, true);
}

static dl_tensor *nothing_like(dl_tensor *t) { return dl_zeros((long[]){0}, 1, (dl_dtype)t->dtype, t->st->device); }

POOLED_RULE(lu_unpack) {
    dl_tensor *lu = c->in[0], *pivots = c->in[1];
    DL_TRY(check_matrices(lu));
    DL_TRY(dl_check_index(pivots));
    const long m = dl_mat_height(lu), n = dl_mat_width(lu), k = m < n ? m : n;
    bool fits = pivots->ndim == lu->ndim - 1 && pivots->shape[pivots->ndim - 1] == k;
    for (int i = 0; fits && i < lu->ndim - 2; i++) fits = pivots->shape[i] == lu->shape[i];
    if (!fits)
        return dl_fail(DL_ERR_SHAPE, "factors %s and pivots %s do not fit", dl_shape_text(lu->ndim, lu->shape),
                       dl_shape_text(pivots->ndim, pivots->shape));
    dl_tensor *order = ATTR_I(c, LU_UNPACK_UNPACK_PIVOTS) ? order_of(p, pivots, m) : NULL,
              *rows = order ? rows_as_matrix(p, lu, order) : NULL;
    if (ATTR_I(c, LU_UNPACK_UNPACK_PIVOTS) && !rows) return dl_failed();
    c->out[0] = rows ? dl_ref(rows) : nothing_like(lu);
    if (ATTR_I(c, LU_UNPACK_UNPACK_DATA)) return triangles(p, lu, c->out + 1);
    c->out[1] = nothing_like(lu), c->out[2] = nothing_like(lu);
    return c->out[1] && c->out[2] ? DL_OK : dl_failed();
}

POOLED_RULE(lu_solve) {
    dl_tensor *lu = c->in[0], *pivots = c->in[1], *b = c->in[2];
    const bool left = ATTR_I(c, LU_SOLVE_LEFT) != 0, adjoint = ATTR_I(c, LU_SOLVE_ADJOINT) != 0;
    DL_TRY(check_square(lu));
    DL_TRY(check_matrices(b));
    DL_TRY(dl_check_index(pivots));
    const long n = dl_mat_width(lu);
    bool fits = pivots->ndim == lu->ndim - 1 && b->ndim == lu->ndim && (left ? dl_mat_height(b) : dl_mat_width(b)) == n;
    for (int i = 0; fits && i < lu->ndim - 1; i++)
        fits = pivots->shape[i] == lu->shape[i] && (i == lu->ndim - 2 || b->shape[i] == lu->shape[i]);
    if (!fits)
        return dl_fail(DL_ERR_SHAPE, "factors %s, pivots %s and B %s do not fit", dl_shape_text(lu->ndim, lu->shape),
                       dl_shape_text(pivots->ndim, pivots->shape), dl_shape_text(b->ndim, b->shape));
    dl_tensor *order = order_of(p, pivots, n), *right = left ? b : dl_mat_adjoint(p, b);
    dl_tensor *x = order && right ? by_given_factors(p, lu, order, right, left == adjoint) : NULL;
    if (x && !left) x = dl_mat_adjoint(p, x);
    RESULT(x);
}

/* The sign of the order of the rows is -1 for each swap. The gradient has a rule of its own. */
POOLED_RULE(lu_diagonal) {
    dl_tensor *a = c->in[0], *pivots, *order, *info;
    const long last = -1;
    DL_TRY(check_square(a));
    const double n = (double)dl_mat_width(a) + 1;
    dl_tensor *lu = factors(p, a, &pivots, &order, &info);
    dl_tensor *diagonal = lu ? K(dl_diagonal(lu, 0, -2, -1)) : NULL;
    dl_tensor *own = diagonal ? K(dl_arange(1, &n, 1, DL_I32, a->st->device)) : NULL;
    dl_tensor *swaps = own ? K(dl_sum(K(dl_ne(pivots, own)), &last, 1, 0)) : NULL;
    dl_tensor *odd = swaps ? K(dl_remainder(swaps, K(dl_scalar_i(2)))) : NULL;
    dl_tensor *minus = odd ? K(dl_sub(K(dl_scalar_i(1)), K(dl_mul(odd, K(dl_scalar_i(2)))))) : NULL;
    dl_tensor *sign = minus ? K(dl_to_dtype(minus, (dl_dtype)lu->dtype)) : NULL;
    if (!sign || !(c->out[0] = dl_contiguous(diagonal))) return dl_failed();
    c->out[1] = dl_ref(sign), c->out[2] = dl_ref(lu), c->out[3] = dl_ref(order);
    return DL_OK;
}

static dl_status diagonal_of(dl_pool *p, dl_tensor *a, dl_tensor **diagonal, dl_tensor **sign) {
    *sign = NULL;
    *diagonal = K(dl_lu_diagonal(a, sign));
    K(*sign);
    return *diagonal && *sign ? DL_OK : dl_failed();
}

POOLED_RULE(det) {
    const long last = -1;
    dl_tensor *diagonal, *sign;
    DL_TRY(diagonal_of(p, c->in[0], &diagonal, &sign));
    return dl_finish(c, dl_mul(K(dl_prod(diagonal, &last, 0)), sign));
}

POOLED_RULE(slogdet) {
    const long last = -1;
    dl_tensor *diagonal, *sign;
    DL_TRY(diagonal_of(p, c->in[0], &diagonal, &sign));
    dl_tensor *units = dl_dtype_is_complex(diagonal->dtype) ? K(dl_sgn(diagonal)) : K(dl_sign(K(dl_detach(diagonal))));
    c->out[0] = units ? dl_mul(K(dl_prod(units, &last, 0)), sign) : NULL;
    c->out[1] = c->out[0] ? dl_sum(K(dl_log(K(dl_abs(diagonal)))), &last, 1, 0) : NULL;
    return c->out[1] ? DL_OK : dl_failed();
}

/* NaN for a negative determinant. */
POOLED_RULE(logdet) {
    dl_tensor *size = NULL, *sign = K(dl_slogdet(c->in[0], &size));
    K(size);
    if (sign && dl_dtype_is_complex(sign->dtype)) return dl_finish(c, dl_add(K(dl_log(sign)), size));
    dl_tensor *negative = sign ? K(dl_lt(sign, K(dl_scalar_f(0)))) : NULL;
    return dl_finish(c, negative ? dl_where(negative, K(dl_scalar_f(NAN)), size) : NULL);
}

/* ---- QR */

/* Zeros to the right of t up to n columns. */
static dl_tensor *widened(dl_pool *p, dl_tensor *t, long n) {
    long shape[DL_MAX_DIM];
    if (!t || dl_mat_width(t) >= n) return t;
    for (int i = 0; i < t->ndim; i++) shape[i] = t->shape[i];
    shape[t->ndim - 1] = n - dl_mat_width(t);
    dl_tensor *zeros = K(dl_zeros(shape, t->ndim, (dl_dtype)t->dtype, t->st->device));
    return zeros ? K(dl_cat((dl_tensor *[]){t, zeros}, 2, -1)) : NULL;
}

/* Without recording: the gradient has a rule of its own. */
POOLED_RULE(factor_qr) {
    dl_tensor *a = c->in[0], *tau = NULL;
    const long m = dl_mat_height(a), n = dl_mat_width(a), k = m < n ? m : n;
    const long columns = ATTR_I(c, FACTOR_QR_COMPLETE) ? m : k;
    dl_tensor *packed = K(dl_geqrf(a, &tau));
    K(tau);
    dl_tensor *r = packed ? dl_triu(dl_mat_rows(p, packed, 0, columns), 0) : NULL;
    c->out[1] = r;
    c->out[0] = r ? dl_householder_product(widened(p, dl_mat_columns(p, packed, 0, columns), columns), tau) : NULL;
    return c->out[0] ? DL_OK : dl_failed();
}

POOLED_RULE(qr) {
    const char *mode = ATTR_S(c, QR_MODE);
    dl_tensor *r = NULL;
    DL_TRY(check_matrices(c->in[0]));
    if (strcmp(mode, "reduced") && strcmp(mode, "complete") && strcmp(mode, "r"))
        return dl_fail(DL_ERR_VALUE, "mode is reduced, complete or r, not '%s'", mode);
    dl_tensor *q = K(dl_factor_qr(c->in[0], !strcmp(mode, "complete"), &r));
    K(r);
    if (!q) return dl_failed();
    c->out[0] = strcmp(mode, "r") ? dl_ref(q) : dl_zeros((long[]){0}, 1, (dl_dtype)q->dtype, q->st->device);
    c->out[1] = dl_ref(r);
    return c->out[0] ? DL_OK : dl_failed();
}
