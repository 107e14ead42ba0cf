/* Linear algebra made of eigenvalues and singular values, and functions of matrices. */
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
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/linalg.h"

#include <math.h>
#include <string.h>

/* ---- checks */

static dl_status check_matrices(const dl_tensor *t, bool square) {
    if (t->ndim < 2)
        return dl_fail(DL_ERR_SHAPE, "a matrix or a batch of them is needed, not a tensor of shape %s", dl_shape_of(t));
    if (square && dl_mat_height(t) != dl_mat_width(t))
        return dl_fail(DL_ERR_SHAPE, "the matrices must be square, not %ld by %ld", dl_mat_height(t), dl_mat_width(t));
    return DL_OK;
}

/* The iterations do not end, or end anywhere, when there is NaN. */
static dl_status check_finite(dl_pool *p, dl_tensor *t) {
    DL_VMAP_UNSEEN;
    long good = 1;
    if (t->numel && dl_dtype_is_complex(t->dtype)) t = K(dl_view_as_real(t));
    if (!t) return dl_failed();
    if (t->numel) DL_TRY(dl_item_i(K(dl_all(K(dl_isfinite(t)), NULL, 0, 0)), &good));
    return good ? DL_OK : dl_fail(DL_ERR_VALUE, "the matrices have elements that are infinite or NaN");
}

static dl_status check_converged(dl_pool *p, dl_tensor *info) {
    DL_VMAP_UNSEEN;
    long worst = 0;
    if (!info) return dl_failed();
    if (info->numel) DL_TRY(dl_item_i(K(dl_amax(info, NULL, 0, 0)), &worst));
    return worst <= 0 ? DL_OK
                      : dl_fail(DL_ERR_VALUE, "the iteration did not converge: the matrices are ill-conditioned");
}

/* ---- eigenvalues */

static dl_status check_part(const char *part) {
    if (!strcmp(part, "L") || !strcmp(part, "U") || !strcmp(part, "l") || !strcmp(part, "u")) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "UPLO is L or U, not '%s'", part);
}

static dl_tensor *eigen(dl_pool *p, dl_tensor *a, const char *part, dl_tensor **vectors) {
    dl_tensor *info = NULL, *v = NULL;
    if (check_matrices(a, true) || check_finite(p, a) || check_part(part)) return NULL;
    dl_tensor *values = K(dl_factor_eigh(a, *part == 'U' || *part == 'u', &v, &info));
    *vectors = K(v), K(info);
    return values && check_converged(p, info) == DL_OK ? values : NULL;
}

POOLED_RULE(eigh) {
    dl_tensor *vectors, *values = eigen(p, c->in[0], ATTR_S(c, EIGH_UPLO), &vectors);
    if (!values) return dl_failed();
    c->out[0] = dl_ref(values), c->out[1] = dl_ref(vectors);
    return DL_OK;
}

/* Values without vectors take half the time, but the gradient needs these. LAPACK's singular values of large matrices
 * could not be interrupted. */
static bool values_suffice(const dl_tensor *a) {
    enum { LARGE = 512 };
    return !dl_requires_grad(a) && !dl_dtype_is_complex(a->dtype) && dl_mat_height(a) < LARGE &&
           dl_mat_width(a) < LARGE;
}

static dl_tensor *values_of(dl_pool *p, dl_tensor *a, bool symmetric, bool upper) {
    dl_tensor *info = NULL, *values = K(dl_spectrum(a, symmetric, upper, &info));
    K(info);
    return values && check_converged(p, info) == DL_OK ? values : NULL;
}

POOLED_RULE(eigvalsh) {
    dl_tensor *a = c->in[0], *vectors, *values;
    const char *part = ATTR_S(c, EIGVALSH_UPLO);
    if (check_part(part) || check_matrices(a, true) || check_finite(p, a)) return dl_failed();
    values = values_suffice(a) ? values_of(p, a, true, *part == 'U' || *part == 'u') : eigen(p, a, part, &vectors);
    RESULT(values);
}

/* ---- what symmetric matrices have in their own axes: square roots, equations */

static dl_tensor *in_axes(dl_pool *p, dl_tensor *v, dl_tensor *t) {
    dl_tensor *turned = dl_mat_adjoint(p, v);
    return dl_mat_mul(p, dl_mat_mul(p, turned, t), v);
}

static dl_tensor *from_axes(dl_pool *p, dl_tensor *v, dl_tensor *t) {
    return dl_mat_mul(p, dl_mat_mul(p, v, t), dl_mat_adjoint(p, v));
}

POOLED_RULE(matrix_sqrth) {
    dl_tensor *vectors, *values = eigen(p, c->in[0], "L", &vectors);
    if (!values) return dl_failed();
    dl_tensor *roots = K(dl_sqrt(K(dl_clamp(values, &(double){0}, NULL))));
    dl_tensor *scaled = roots ? dl_mat_scale_columns(p, vectors, roots) : NULL;
    RESULT(dl_mat_mul(p, scaled, dl_mat_adjoint(p, vectors)));
}

/* Of A = V diag(d) V^H: (V^H X V)[i, j] = (V^H C V)[i, j] / (d[i] + d[j]). */
POOLED_RULE(lyapunov) {
    dl_tensor *vectors, *values = eigen(p, c->in[0], "L", &vectors);
    if (!values) return dl_failed();
    if (!dl_shape_eq(c->in[0], c->in[1]))
        return dl_fail(DL_ERR_SHAPE, "A has shape %s, C %s", dl_shape_of(c->in[0]), dl_shape_of(c->in[1]));
    dl_tensor *both = K(dl_add(K(dl_with_dim(values, -1)), K(dl_with_dim(values, -2))));
    dl_tensor *parts = both ? K(dl_div(in_axes(p, vectors, c->in[1]), both)) : NULL;
    RESULT(from_axes(p, vectors, parts));
}

/* ---- eigenvalues of other matrices */

static dl_tensor *eig_of(dl_pool *p, dl_tensor *a, dl_tensor **vectors) {
    dl_tensor *info = NULL, *v = NULL;
    if (check_matrices(a, true) || check_finite(p, a)) return NULL;
    dl_tensor *values = K(dl_factor_eig(a, &v, &info));
    *vectors = K(v), K(info);
    return values && check_converged(p, info) == DL_OK ? values : NULL;
}

POOLED_RULE(eig) {
    dl_tensor *vectors, *values = eig_of(p, c->in[0], &vectors);
    if (!values) return dl_failed();
    c->out[0] = dl_ref(values), c->out[1] = dl_ref(vectors);
    return DL_OK;
}

POOLED_RULE(eigvals) {
    dl_tensor *vectors, *values = eig_of(p, c->in[0], &vectors);
    RESULT(values);
}

/* ---- singular values */

static dl_tensor *singular(dl_pool *p, dl_tensor *a, bool full, dl_tensor **s, dl_tensor **vh) {
    dl_tensor *info = NULL;
    *s = *vh = NULL;
    if (check_matrices(a, false) || check_finite(p, a)) return NULL;
    dl_tensor *u = K(dl_factor_svd(a, full, s, vh, &info));
    K(*s), K(*vh), K(info);
    return u && check_converged(p, info) == DL_OK ? u : NULL;
}

POOLED_RULE(svd) {
    dl_tensor *s, *vh, *u = singular(p, c->in[0], ATTR_I(c, SVD_FULL_MATRICES) != 0, &s, &vh);
    if (!u) return dl_failed();
    c->out[0] = dl_ref(u), c->out[1] = dl_ref(s), c->out[2] = dl_ref(vh);
    return DL_OK;
}

static dl_tensor *singular_values(dl_pool *p, dl_tensor *a) {
    dl_tensor *s, *vh;
    if (check_matrices(a, false) || check_finite(p, a)) return NULL;
    if (values_suffice(a)) return values_of(p, a, false, false);
    return singular(p, a, false, &s, &vh) ? s : NULL;
}

POOLED_RULE(svdvals) { RESULT(singular_values(p, c->in[0])); }

POOLED_RULE(spectrum) {
    dl_tensor *a = c->in[0], *info = NULL, *s = NULL, *more = NULL, *vectors;
    if (ATTR_I(c, SPECTRUM_SYMMETRIC))
        s = K(dl_factor_eigh(a, ATTR_I(c, SPECTRUM_UPPER) != 0, &more, &info));
    else
        vectors = K(dl_factor_svd(a, 0, &s, &more, &info)), s = vectors ? K(s) : NULL;
    K(more), K(info);
    if (!s) return dl_failed();
    c->out[0] = dl_ref(s), c->out[1] = dl_ref(info);
    return DL_OK;
}

/* Which singular values, [..., k], count: those above max(atol, rtol * the largest). rtol is, unless given, the
 * precision of the dtype times the larger side, or 0 where atol is given. */
static dl_tensor *counted(dl_pool *p, const dl_tensor *a, dl_tensor *s, const dl_aval *atol, const dl_aval *rtol) {
    const long side = dl_mat_height(a) > dl_mat_width(a) ? dl_mat_height(a) : dl_mat_width(a), last = -1;
    const double eps = s->dtype == DL_F64 ? 0x1p-52 : 0x1p-23, least = atol->given ? atol->u.f : 0;
    const double share = rtol->given ? rtol->u.f : least > 0 ? 0 : eps * (double)side;
    if (!s->shape[s->ndim - 1]) return K(dl_to(s, DL_BOOL));
    dl_tensor *most = K(dl_amax(s, &last, 1, 1));
    dl_tensor *limit = most ? K(dl_clamp(K(dl_mul(most, K(dl_scalar_f(share)))), &least, NULL)) : NULL;
    return K(dl_gt(s, limit));
}

/* Singular values without history, or of symmetric matrices the magnitudes of eigenvalues. */
static dl_tensor *sizes(dl_pool *p, dl_tensor *a, bool hermitian) {
    dl_tensor *other, *plain = K(dl_detach(a));
    if (!plain) return NULL;
    if (!hermitian) return singular_values(p, plain);
    dl_tensor *values = eigen(p, plain, "L", &other);
    return values ? K(dl_abs(values)) : NULL;
}

POOLED_RULE(matrix_rank) {
    const long last = -1;
    dl_tensor *s = sizes(p, c->in[0], ATTR_I(c, MATRIX_RANK_HERMITIAN) != 0);
    if (!s) return dl_failed();
    dl_tensor *is = counted(p, c->in[0], s, ATTR(c, MATRIX_RANK_ATOL), ATTR(c, MATRIX_RANK_RTOL));
    return dl_finish(c, is ? dl_sum(is, &last, 1, 0) : NULL);
}

/* V S^-1 U^T of the singular values s that count. */
static dl_tensor *inverse_of_parts(dl_pool *p, dl_tensor *u, dl_tensor *s, dl_tensor *vh, dl_tensor *is) {
    dl_tensor *shrunk = is ? K(dl_where(is, K(dl_reciprocal(s)), K(dl_scalar_f(0)))) : NULL;
    dl_tensor *left = shrunk ? dl_mat_scale_columns(p, dl_mat_adjoint(p, vh), shrunk) : NULL;
    return left ? dl_mat_mul(p, left, dl_mat_adjoint(p, u)) : NULL;
}

/* The gradient has a rule of its own. */
POOLED_RULE(pinv) {
    dl_tensor *a = c->in[0], *s = NULL, *vh = NULL, *u, *sizes;
    if (ATTR_I(c, PINV_HERMITIAN)) {
        s = eigen(p, a, "L", &u);
        vh = dl_mat_adjoint(p, u), sizes = K(dl_abs(s));
    } else {
        u = singular(p, a, false, &s, &vh);
        sizes = s;
    }
    dl_tensor *is = u && sizes && vh ? counted(p, a, sizes, ATTR(c, PINV_ATOL), ATTR(c, PINV_RTOL)) : NULL;
    dl_tensor *x = is ? inverse_of_parts(p, u, s, vh, is) : NULL;
    RESULT(x);
}

static dl_tensor *none_of(const dl_tensor *like, dl_dtype t) { return dl_zeros((long[]){0}, 1, t, like->st->device); }

/* pinv(A), and the ranks; of the same singular values, unless the gradient by A is wanted, for which pinv has a rule.
 */
static dl_tensor *inverse_and_rank(dl_pool *p, dl_tensor *a, double limit, dl_tensor **rank) {
    const long last = -1;
    *rank = NULL;
    if (dl_grad_mode_get() && dl_requires_grad(a)) {
        *rank = K(dl_matrix_rank(a, NULL, &limit, 0));
        return *rank ? K(dl_pinv(a, NULL, &limit, 0)) : NULL;
    }
    const dl_aval none = {0}, share = {.given = true, .u.f = limit};
    dl_tensor *s, *vh, *u = singular(p, a, false, &s, &vh), *is = u ? counted(p, a, s, &none, &share) : NULL;
    *rank = is ? K(dl_sum(is, &last, 1, 0)) : NULL;
    return *rank ? inverse_of_parts(p, u, s, vh, is) : NULL;
}

/* The largest sum of magnitudes in a column (dimension -2 is summed) or in a row; with least the smallest. */
static dl_tensor *matrix_norm(dl_pool *p, dl_tensor *t, double ord) {
    const bool columns = fabs(ord) == 1;
    const long summed = columns ? -2 : -1, last = -1;
    dl_tensor *sums = t ? K(dl_sum(K(dl_abs(t)), &summed, 1, 0)) : NULL;
    return sums ? K(ord > 0 ? dl_amax(sums, &last, 1, 0) : dl_amin(sums, &last, 1, 0)) : NULL;
}

/* ---- least squares: by A = Q R where the singular values of R are sure to be above the limit, else by the
 * pseudo-inverse
 */

/* Whether all singular values of triangles are above a share of the largest one. The largest singular value is at most
 * the root of the product of the norms by columns and by rows, and so is that of the inverse. */
static dl_status check_full_rank(dl_pool *p, dl_tensor *r, double limit, long *full) {
    dl_tensor *eye = dl_mat_eye(p, r, dl_mat_width(r)), *inverse = dl_mat_triangle(p, r, eye, true, false, false);
    dl_tensor *size = K(dl_mul(matrix_norm(p, r, 1), matrix_norm(p, r, INFINITY)));
    dl_tensor *other = inverse ? K(dl_mul(matrix_norm(p, inverse, 1), matrix_norm(p, inverse, INFINITY))) : NULL;
    dl_tensor *bound = K(dl_sqrt(K(dl_mul(K(dl_sqrt(size)), K(dl_sqrt(other))))));
    return dl_item_i(K(dl_all(K(dl_lt(K(dl_square(bound)), K(dl_scalar_f(1 / limit)))), NULL, 0, 0)), full);
}

/* A X = B, of A of full rank; `left` the squares that are left over, when they come for nothing. */
typedef struct solution {
    dl_tensor *x, *left;
} solution;

static bool has_history(const dl_tensor *a, const dl_tensor *b) {
    return dl_grad_mode_get() && (dl_requires_grad(a) || dl_requires_grad(b));
}

/* Without gradients: of [A, B] = Q [R, Q^H B; 0, rest], so that Q itself is not needed. */
static dl_status solve_high(dl_pool *p, dl_tensor *a, dl_tensor *b, double limit, long *full, solution *out) {
    const long n = dl_mat_width(a), rows = -2;
    dl_tensor *tau = NULL, *packed = K(dl_geqrf(K(dl_cat((dl_tensor *[]){a, b}, 2, -1)), &tau));
    K(tau);
    dl_tensor *r = packed ? K(dl_triu(packed, 0)) : NULL, *top = dl_mat_rows(p, r, 0, n);
    dl_tensor *square = dl_mat_columns(p, top, 0, n);
    if (!square) return dl_failed();
    DL_TRY(check_full_rank(p, square, limit, full));
    if (!*full) return DL_OK;
    out->x = dl_mat_triangle(p, square, dl_mat_columns(p, top, n, -1), true, false, false);
    dl_tensor *rest = dl_mat_columns(p, dl_mat_rows(p, r, n, -1), n, -1);
    if (rest && dl_dtype_is_complex(rest->dtype)) rest = K(dl_abs(rest));
    out->left = rest ? K(dl_square_sum(rest, &rows, 1, 0)) : NULL;
    return out->left ? DL_OK : dl_failed();
}

/* By Q and R of A, or of A^H where A is wide: then X = Q R^-H B is the shortest of all solutions. */
static dl_status solve_by_qr(dl_pool *p, dl_tensor *a, dl_tensor *b, double limit, long *full, solution *out) {
    const bool wide = dl_mat_height(a) < dl_mat_width(a);
    dl_tensor *r = NULL, *q = K(dl_qr(wide ? dl_mat_adjoint(p, a) : a, "reduced", &r)), *plain = K(dl_detach(K(r)));
    if (!plain) return dl_failed();
    DL_TRY(check_full_rank(p, plain, limit, full));
    if (!*full) return DL_OK;
    out->x = wide ? dl_mat_mul(p, q, dl_mat_triangle(p, r, b, true, true, false))
                  : dl_mat_triangle(p, r, dl_mat_mul(p, dl_mat_adjoint(p, q), b), true, false, false);
    return out->x ? DL_OK : dl_failed();
}

static dl_status solve_full(dl_pool *p, dl_tensor *a, dl_tensor *b, double limit, long *full, solution *out) {
    *full = 0;
    if (!a->numel || !b->numel) return DL_OK;
    const bool high = dl_mat_height(a) >= dl_mat_width(a),
               alike = dl_sizes_eq(a->ndim - 2, a->shape, b->ndim - 2, b->shape);
    return (high && alike && !has_history(a, b) ? solve_high : solve_by_qr)(p, a, b, limit, full, out);
}

POOLED_RULE(lstsq) {
    dl_tensor *a = c->in[0], *b = c->in[1], *rank;
    const long rows = -2;
    DL_TRY(check_matrices(a, false));
    const bool vector = b->ndim == a->ndim - 1;
    const long m = dl_mat_height(a), n = dl_mat_width(a);
    const double eps = dl_dtype_of_parts(a->dtype) == DL_F64 ? 0x1p-52 : 0x1p-23;
    const double limit = ATTR(c, LSTSQ_RCOND)->given ? ATTR_F(c, LSTSQ_RCOND) : eps * (double)(m > n ? m : n);
    long full, least;
    solution found = {0};
    if (vector && !(b = K(dl_with_dim(b, -1)))) return dl_failed();
    DL_TRY(check_matrices(b, false));
    if (dl_mat_height(b) != m)
        return dl_fail(DL_ERR_SHAPE, "matrices of %ld rows do not fit a right side of %ld", m, dl_mat_height(b));
    DL_TRY(check_finite(p, a));
    DL_TRY(solve_full(p, a, b, limit, &full, &found));
    if (full) {
        rank = K(dl_full(a->shape, a->ndim - 2, (double)(least = m < n ? m : n), DL_I64, a->st->device));
    } else {
        dl_tensor *inverse = inverse_and_rank(p, a, limit, &rank);
        found = (solution){inverse ? dl_mat_mul(p, inverse, b) : NULL, NULL};
        if (m > n && rank && rank->numel)
            DL_TRY(dl_item_i(K(dl_amin(rank, NULL, 0, 0)), &least));
        else
            least = n;
    }
    if (!found.x || !rank) return dl_failed();
    c->out[0] = vector ? dl_select(found.x, -1, 0) : dl_ref(found.x);
    c->out[2] = dl_ref(rank);
    c->out[3] = none_of(a, found.x->dtype);
    dl_tensor *gap = m > n && least == n && !found.left ? K(dl_sub(dl_mat_mul(p, a, found.x), b)) : NULL;
    if (gap && dl_dtype_is_complex(gap->dtype)) gap = K(dl_abs(gap));
    c->out[1] = m <= n || least < n ? none_of(a, found.x->dtype)
                : found.left        ? dl_ref(found.left)
                                    : dl_square_sum(gap, &rows, 1, 0);
    return c->out[0] && c->out[1] && c->out[2] && c->out[3] ? DL_OK : dl_failed();
}

POOLED_RULE(cond) {
    dl_tensor *a = c->in[0], *info = NULL, *pivots = NULL, *order = NULL;
    const double ord = ATTR(c, COND_P)->given ? dl_aval_number(ATTR(c, COND_P)) : 2;
    const long last = -1;
    if (fabs(ord) == 2) {
        dl_tensor *s = singular_values(p, a);
        if (!s) return dl_failed();
        dl_tensor *most = K(dl_amax(s, &last, 1, 0)), *least = K(dl_amin(s, &last, 1, 0));
        return dl_finish(c, most && least ? dl_div(ord > 0 ? most : least, ord > 0 ? least : most) : NULL);
    }
    if (fabs(ord) != 1 && !isinf(ord)) return dl_fail(DL_ERR_VALUE, "p is 2, -2, 1, -1, inf or -inf, not %g", ord);
    DL_TRY(check_matrices(a, true));
    dl_tensor *plain = K(dl_detach(a)), *lu = K(dl_factor_lu(plain, &pivots, &order, &info));
    K(pivots), K(order), K(info);
    dl_tensor *bad = lu ? K(dl_gt(info, K(dl_scalar_i(0)))) : NULL;
    long any;
    DL_TRY(dl_item_i(K(dl_any(bad, NULL, 0, 0)), &any));
    if (any) { /* of singular matrices infinite */
        long shape[DL_MAX_DIM];
        for (int i = 0; i < a->ndim; i++) shape[i] = i < a->ndim - 2 ? a->shape[i] : 1;
        dl_tensor *eye = dl_mat_eye(p, lu, dl_mat_width(a)), *column = K(dl_reshape(bad, shape, a->ndim));
        a = eye && column ? K(dl_where(column, eye, a)) : NULL;
    }
    dl_tensor *value = a ? K(dl_mul(matrix_norm(p, a, ord), matrix_norm(p, K(dl_inv(a)), ord))) : NULL;
    return dl_finish(c, value ? dl_where(bad, K(dl_scalar_f(INFINITY)), value) : NULL);
}

/* ---- powers, exponentials, products */

COMPOSE_RULE(matrix_power) {
    dl_tensor *a = c->in[0];
    long n = ATTR_I(c, MATRIX_POWER_N);
    DL_TRY(check_matrices(a, true));
    DL_OWNED dl_tensor *base = n < 0 ? dl_inv(a) : dl_ref(a);
    unsigned long left = n < 0 ? 0 - (unsigned long)n : (unsigned long)n;
    dl_tensor *result = NULL;
    if (!left) {
        POOL;
        dl_tensor *eye = dl_mat_eye(p, a, dl_mat_width(a)); /* of any matrix, with gradient 0 */
        return dl_finish(c, dl_where(K(dl_eq(eye, eye)), eye, a));
    }
    for (; left && base; left >>= 1) {
        if (left & 1) {
            DL_OWNED dl_tensor *old = result;
            if (!(result = old ? dl_matmul(old, base) : dl_ref(base))) return dl_failed();
        }
        DL_OWNED dl_tensor *was = base;
        base = left > 1 ? dl_matmul(was, was) : dl_ref(was);
    }
    if (!base) dl_unref(result), result = NULL;
    return dl_finish_own(c, result);
}

/* sum of terms[i] * powers[i], powers[0] being the identity. */
static dl_tensor *polynomial(dl_pool *outer, dl_tensor *const *powers, const double *terms, int n) {
    POOL;
    dl_tensor *sum = NULL;
    for (int i = 0; i < n; i++) {
        dl_tensor *term = K(dl_mul(powers[i], K(dl_scalar_f(terms[i]))));
        if (!(sum = i ? K(dl_add(sum, term)) : term)) return NULL;
    }
    return dl_keep(outer, dl_ref(sum));
}

/* Scaling and squaring with Pade's approximation of degree 13 (Higham 2005): (V - U) X = V + U. */
static dl_tensor *pade(dl_pool *p, dl_tensor *a) {
    static const double b[14] = {64764752532480000.0,
                                 32382376266240000.0,
                                 7771770303897600.0,
                                 1187353796428800.0,
                                 129060195264000.0,
                                 10559470521600.0,
                                 670442572800.0,
                                 33522128640.0,
                                 1323241920.0,
                                 40840800.0,
                                 960960.0,
                                 16380.0,
                                 182.0,
                                 1.0};
    dl_tensor *power[4] = {dl_mat_eye(p, a, dl_mat_width(a)), NULL, NULL, NULL};
    power[1] = dl_mat_mul(p, a, a), power[2] = dl_mat_mul(p, power[1], power[1]);
    power[3] = dl_mat_mul(p, power[2], power[1]);
    dl_tensor *u = dl_mat_mul(p, power[3], polynomial(p, power + 1, (double[]){b[9], b[11], b[13]}, 3));
    u = dl_mat_mul(p, a, K(dl_add(u, polynomial(p, power, (double[]){b[1], b[3], b[5], b[7]}, 4))));
    dl_tensor *v = dl_mat_mul(p, power[3], polynomial(p, power + 1, (double[]){b[8], b[10], b[12]}, 3));
    v = K(dl_add(v, polynomial(p, power, (double[]){b[0], b[2], b[4], b[6]}, 4)));
    return u && v ? K(dl_solve(K(dl_sub(v, u)), K(dl_add(v, u)), 1)) : NULL;
}

/* Without recording: the gradient has a rule of its own. */
POOLED_RULE(matrix_exp) {
    dl_tensor *a = c->in[0];
    DL_TRY(check_matrices(a, true));
    if (!a->numel) return dl_finish(c, dl_clone(a));
    double norm;
    DL_TRY(dl_item_f(K(dl_amax(matrix_norm(p, a, 1), NULL, 0, 0)), &norm));
    if (!isfinite(norm)) return dl_finish(c, dl_mul(a, K(dl_scalar_f(NAN))));
    int squares = norm > 5.371920351148152 ? (int)ceil(log2(norm / 5.371920351148152)) : 0;
    dl_pool parts DL_SCOPE(dl_release) = {0};
    dl_tensor *x = pade(&parts, K(dl_mul(a, K(dl_scalar_f(ldexp(1, -squares))))));
    for (x = x ? dl_ref(x) : NULL; squares > 0 && x; squares--) {
        DL_OWNED dl_tensor *was = x;
        x = dl_matmul(was, was);
    }
    return dl_finish(c, x);
}

/* Products in the order of fewest multiplications. A vector at an end is a row or a column. */
enum { MAX_FACTORS = 32 };
typedef struct factors {
    dl_tensor **t;
    char cut[MAX_FACTORS][MAX_FACTORS]; /* of t[i] .. t[j]: the last factor of the left part */
} factors;

static void choose_order(factors *f, int n) {
    double size[MAX_FACTORS + 1], cost[MAX_FACTORS][MAX_FACTORS] = {0};
    for (int i = 0; i < n; i++)
        size[i] = f->t[i]->ndim > 1 ? (double)dl_mat_height(f->t[i]) : i ? (double)f->t[i]->numel : 1;
    size[n] = f->t[n - 1]->ndim > 1 ? (double)dl_mat_width(f->t[n - 1]) : 1;
    for (int width = 1; width < n; width++)
        for (int i = 0; i + width < n; i++) {
            const int j = i + width;
            cost[i][j] = INFINITY;
            for (int k = j - 1; k >= i; k--) { /* of equal ones from the left */
                double all = cost[i][k] + cost[k + 1][j] + size[i] * size[k + 1] * size[j + 1];
                if (all < cost[i][j]) cost[i][j] = all, f->cut[i][j] = (char)k;
            }
        }
}

static dl_tensor *product_of(const factors *f, int i, int j) {
    if (i == j) return dl_ref(f->t[i]);
    DL_OWNED dl_tensor *left = product_of(f, i, f->cut[i][j]);
    DL_OWNED dl_tensor *right = left ? product_of(f, f->cut[i][j] + 1, j) : NULL;
    return right ? dl_matmul(left, right) : NULL;
}

COMPOSE_RULE(multi_dot) {
    factors f = {.t = c->in};
    if (c->nin < 2) return dl_fail(DL_ERR_VALUE, "multi_dot takes two matrices or more");
    if (c->nin > MAX_FACTORS) return dl_fail(DL_ERR_VALUE, "multi_dot takes %d matrices at most", MAX_FACTORS);
    choose_order(&f, c->nin);
    return dl_finish(c, product_of(&f, 0, c->nin - 1));
}
