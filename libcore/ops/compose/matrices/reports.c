/* Factors and inverses that report by a number what the others call an error, and inverses of tensors. */
#include "ops/matrices.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/linalg.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/linalg.h"

#include <math.h>

/* ---- reports */

static dl_status check_square(const dl_tensor *t) {
    if (t->ndim >= 2 && dl_mat_height(t) == dl_mat_width(t)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "square matrices are needed, not a tensor of shape %s", dl_shape_of(t));
}

/* What the factorisation of A reports for each matrix, without history. */
static dl_tensor *report_of(dl_pool *p, dl_tensor *a) {
    dl_tensor *pivots = NULL, *order = NULL, *info = NULL, *plain = K(dl_detach(a));
    dl_tensor *lu = plain ? K(dl_factor_lu(plain, &pivots, &order, &info)) : NULL;
    K(pivots), K(order), K(info);
    return lu ? info : NULL;
}

/* A, with the identity in place of matrices without an inverse; *bad: which they are, [..., 1, 1]. */
static dl_tensor *regular(dl_pool *p, dl_tensor *a, dl_tensor *info, dl_tensor **bad) {
    dl_tensor *is = info ? K(dl_gt(info, K(dl_scalar_i(0)))) : NULL;
    dl_tensor *column = is ? K(dl_with_dim(is, -1)) : NULL;
    *bad = column ? K(dl_with_dim(column, -1)) : NULL;
    dl_tensor *eye = *bad ? dl_mat_eye(p, a, dl_mat_width(a)) : NULL;
    return eye ? K(dl_where(*bad, eye, a)) : NULL;
}

/* The result with NaN for those matrices, and the report. */
static dl_status give_reported(dl_call *c, dl_pool *p, dl_tensor *x, dl_tensor *bad, dl_tensor *info) {
    c->out[0] = x && bad ? dl_where(bad, K(dl_scalar_f(NAN)), x) : NULL;
    c->out[1] = c->out[0] ? dl_ref(info) : NULL;
    return c->out[0] ? DL_OK : dl_failed();
}

POOLED_RULE(inv_ex) {
    dl_tensor *a = c->in[0], *bad = NULL;
    DL_TRY(check_square(a));
    dl_tensor *info = report_of(p, a);
    if (ATTR_I(c, INV_EX_CHECK_ERRORS)) {
        c->out[0] = dl_inv(a), c->out[1] = c->out[0] && info ? dl_ref(info) : NULL;
        return c->out[1] ? DL_OK : dl_failed();
    }
    a = regular(p, a, info, &bad);
    return give_reported(c, p, a ? K(dl_inv(a)) : NULL, bad, info);
}

POOLED_RULE(solve_ex) {
    dl_tensor *a = c->in[0], *b = c->in[1], *bad = NULL;
    const bool left = ATTR_I(c, SOLVE_EX_LEFT) != 0;
    DL_TRY(check_square(a));
    dl_tensor *info = report_of(p, a);
    if (!ATTR_I(c, SOLVE_EX_CHECK_ERRORS)) a = regular(p, a, info, &bad);
    dl_tensor *x = a && info ? K(dl_solve(a, b, left)) : NULL;
    if (x && bad && x->ndim < c->in[0]->ndim) bad = K(dl_select(bad, -1, 0)); /* the right side was vectors */
    if (bad) return give_reported(c, p, x, bad, info);
    c->out[0] = x ? dl_ref(x) : NULL, c->out[1] = x ? dl_ref(info) : NULL;
    return x ? DL_OK : dl_failed();
}

POOLED_RULE(lu_factor_ex) {
    dl_tensor *a = c->in[0], *order = NULL;
    if (a->ndim < 2) return dl_fail(DL_ERR_SHAPE, "matrices are needed, not a tensor of shape %s", dl_shape_of(a));
    c->out[0] = dl_factor_lu(a, &c->out[1], &order, &c->out[2]);
    K(order);
    if (!c->out[0]) return dl_failed();
    if (!ATTR_I(c, LU_FACTOR_EX_CHECK_ERRORS) || !c->out[2]->numel) return DL_OK;
    long most;
    DL_TRY(dl_item_i(K(dl_amax(c->out[2], NULL, 0, 0)), &most));
    return most <= 0 ? DL_OK
                     : dl_fail(DL_ERR_VALUE, "a matrix is singular: diagonal element %ld of its factor U is 0", most);
}

POOLED_RULE(cholesky_ex) {
    dl_tensor *a = c->in[0];
    const bool upper = ATTR_I(c, CHOLESKY_EX_UPPER) != 0;
    DL_TRY(check_square(a));
    dl_tensor *l = K(dl_factor_cholesky(upper ? dl_mat_adjoint(p, a) : a, &c->out[1]));
    if (!l) return dl_failed();
    if (ATTR_I(c, CHOLESKY_EX_CHECK_ERRORS)) return dl_finish(c, dl_cholesky(a, upper));
    if (upper) l = dl_mat_adjoint(p, l);
    RESULT(l);
}

/* ---- tensors as matrices */

static long product(const long *size, int n) {
    long all = 1;
    for (int i = 0; i < n; i++) all *= size[i];
    return all;
}

POOLED_RULE(tensorinv) {
    dl_tensor *a = c->in[0];
    const long ind = ATTR_I(c, TENSORINV_IND);
    long shape[DL_MAX_DIM];
    if (ind < 1 || ind > a->ndim)
        return dl_fail(DL_ERR_VALUE, "ind is 1 to %d, the dimensions of A, not %ld", a->ndim, ind);
    const int rest = a->ndim - (int)ind;
    const long n = product(a->shape, (int)ind);
    if (n != product(a->shape + ind, rest))
        return dl_fail(DL_ERR_SHAPE, "the first %ld dimensions of %s have %ld elements, the others %ld", ind,
                       dl_shape_of(a), n, product(a->shape + ind, rest));
    for (int i = 0; i < a->ndim; i++) shape[i] = a->shape[i < rest ? i + ind : i - rest];
    dl_tensor *square = K(dl_reshape(a, (long[]){n, n}, 2)), *x = square ? K(dl_inv(square)) : NULL;
    return dl_finish(c, x ? dl_reshape(x, shape, a->ndim) : NULL);
}

POOLED_RULE(tensorsolve) {
    dl_tensor *a = c->in[0], *b = c->in[1];
    const dl_aval *dims = ATTR(c, TENSORSOLVE_DIMS);
    long to[DL_MAX_DIM];
    for (int i = 0; i < dims->n; i++) to[i] = i - dims->n;
    if (dims->given && !(a = K(dl_movedim(a, dims->u.v, dims->n, to, dims->n)))) return dl_failed();
    const long n = b->numel;
    if (b->ndim > a->ndim || product(a->shape, b->ndim) != n || a->numel != n * n)
        return dl_fail(DL_ERR_SHAPE, "A of shape %s and B of shape %s do not make a square matrix and a right side",
                       dl_shape_of(a), dl_shape_of(b));
    dl_tensor *square = K(dl_reshape(a, (long[]){n, n}, 2)), *right = K(dl_reshape(b, &n, 1));
    dl_tensor *x = square && right ? K(dl_solve(square, right, 1)) : NULL;
    return dl_finish(c, x ? dl_reshape(x, a->shape + b->ndim, a->ndim - b->ndim) : NULL);
}

/* Zeros to the right of A, and behind tau, up to all columns of Q. */
POOLED_RULE(ormqr) {
    dl_tensor *a = c->in[0], *tau = c->in[1], *other = c->in[2];
    if (a->ndim != 2 || tau->ndim != 1 || other->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "a matrix, a vector tau and a matrix are needed");
    const long m = dl_mat_height(a), n = dl_mat_width(a), more = m - n;
    if (more > 0) {
        dl_tensor *zeros = K(dl_zeros((long[]){m, more}, 2, a->dtype, a->st->device));
        a = zeros ? K(dl_cat((dl_tensor *[]){a, zeros}, 2, 1)) : NULL;
    }
    dl_tensor *q = a ? K(dl_householder_product(a, tau)) : NULL;
    if (ATTR_I(c, ORMQR_TRANSPOSE)) q = dl_mat_turned(p, q);
    if (!q) return dl_failed();
    return dl_finish(c, ATTR_I(c, ORMQR_LEFT) ? dl_matmul(q, other) : dl_matmul(other, q));
}

/* ---- few singular values (Halko, Martinsson, Tropp 2009) */

/* Orthogonal columns that span what A makes of t. */
static dl_tensor *basis(dl_pool *p, dl_tensor *a, dl_tensor *t) {
    dl_tensor *r = NULL, *q = t ? K(dl_qr(dl_mat_mul(p, a, t), "reduced", &r)) : NULL;
    K(r);
    return q;
}

static dl_status low_rank(dl_call *c, dl_tensor *a, long q, long steps) {
    POOL;
    if (a->ndim < 2) return dl_fail(DL_ERR_SHAPE, "matrices are needed, not a tensor of shape %s", dl_shape_of(a));
    const long m = dl_mat_height(a), n = dl_mat_width(a);
    if (q < 0 || q > (m < n ? m : n))
        return dl_fail(DL_ERR_VALUE, "q is 0 to %ld, the smaller side, not %ld", m < n ? m : n, q);
    if (steps < 0 || steps > 20) return dl_fail(DL_ERR_VALUE, "niter is 0 to 20, not %ld", steps);
    dl_tensor *turned = dl_mat_adjoint(p, a), *s = NULL, *vh = NULL;
    dl_tensor *x = basis(p, a, K(dl_randn((long[]){n, q}, 2, a->dtype, a->st->device)));
    for (long i = 0; i < steps && x; i++) x = basis(p, a, basis(p, turned, x));
    dl_tensor *small = x ? dl_mat_mul(p, dl_mat_adjoint(p, x), a) : NULL;
    dl_tensor *u = small ? K(dl_svd(small, 0, &s, &vh)) : NULL;
    K(s), K(vh);
    c->out[0] = u ? dl_matmul(x, u) : NULL;
    c->out[1] = c->out[0] ? dl_ref(s) : NULL;
    c->out[2] = c->out[0] ? dl_ref(dl_mat_adjoint(p, vh)) : NULL;
    return c->out[2] ? DL_OK : dl_failed();
}

POOLED_RULE(svd_lowrank) {
    dl_tensor *m = INPUT(c, SVD_LOWRANK_M), *a = m ? K(dl_sub(c->in[0], m)) : c->in[0];
    return a ? low_rank(c, a, ATTR_I(c, SVD_LOWRANK_Q), ATTR_I(c, SVD_LOWRANK_NITER)) : dl_failed();
}

POOLED_RULE(pca_lowrank) {
    dl_tensor *a = c->in[0];
    const long rows = -2;
    if (a->ndim < 2) return dl_fail(DL_ERR_SHAPE, "matrices are needed, not a tensor of shape %s", dl_shape_of(a));
    const long m = dl_mat_height(a), n = dl_mat_width(a), least = m < n ? m : n;
    const long q = ATTR(c, PCA_LOWRANK_Q)->given ? ATTR_I(c, PCA_LOWRANK_Q) : least < 6 ? least : 6;
    if (ATTR_I(c, PCA_LOWRANK_CENTER)) a = K(dl_sub(a, K(dl_mean(a, &rows, 1, 1))));
    return a ? low_rank(c, a, q, ATTR_I(c, PCA_LOWRANK_NITER)) : dl_failed();
}
