/* Parts of which rules and compositions of linear algebra are made. */
#include "ops/matrices.h"
#include "dlcore/arithmetic.h"
#include "dlcore/complex.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/linalg.h"
#include "dlcore/matmul.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/linalg.h"

dl_tensor *dl_mat_turned(dl_pool *p, dl_tensor *t) {
    long order[DL_MAX_DIM];
    if (!t) return NULL;
    for (int i = 0; i < t->ndim; i++) order[i] = i < t->ndim - 2 ? i : 2 * t->ndim - 3 - i;
    return K(dl_permute(t, order, t->ndim));
}

dl_tensor *dl_mat_adjoint(dl_pool *p, dl_tensor *t) {
    dl_tensor *turned = dl_mat_turned(p, t);
    return turned && dl_dtype_is_complex(t->dtype) ? K(dl_conj(turned)) : turned;
}

POOLED_RULE(adjoint) {
    if (c->in[0]->ndim < 2) return dl_fail(DL_ERR_SHAPE, "a matrix has two dimensions, the tensor %d", c->in[0]->ndim);
    dl_tensor *turned = dl_mat_adjoint(p, c->in[0]);
    RESULT(turned);
}

dl_tensor *dl_mat_mul(dl_pool *p, dl_tensor *a, dl_tensor *b) { return K(dl_matmul(a, b)); }

dl_tensor *dl_mat_scale_columns(dl_pool *p, dl_tensor *t, dl_tensor *v) { return K(dl_mul(t, K(dl_with_dim(v, -2)))); }
dl_tensor *dl_mat_scale_rows(dl_pool *p, dl_tensor *t, dl_tensor *v) { return K(dl_mul(t, K(dl_with_dim(v, -1)))); }

dl_tensor *dl_mat_triangle(dl_pool *p, dl_tensor *a, dl_tensor *b, bool upper, bool adjoint, bool unit) {
    if (!a || !b) return NULL;
    return K(dl_solve_triangular(adjoint ? dl_mat_adjoint(p, a) : a, b, upper != adjoint, 1, unit));
}

dl_tensor *dl_mat_eye(dl_pool *p, const dl_tensor *t, long n) { return K(dl_eye(n, NULL, t->dtype, t->st->device)); }

dl_tensor *dl_mat_rows(dl_pool *p, dl_tensor *t, long from, long to) {
    return t ? K(dl_slice(t, -2, &from, to < 0 ? NULL : &to, 1)) : NULL;
}
dl_tensor *dl_mat_columns(dl_pool *p, dl_tensor *t, long from, long to) {
    return t ? K(dl_slice(t, -1, &from, to < 0 ? NULL : &to, 1)) : NULL;
}

dl_tensor *dl_mat_order_rows(dl_pool *p, dl_tensor *t, dl_tensor *order, bool back) {
    long shape[DL_MAX_DIM];
    if (!t || !order) return NULL;
    if (back) order = K(dl_argsort(order, -1, 0));
    dl_tensor *column = K(dl_with_dim(order, -1));
    if (!column) return NULL;
    for (int i = 0; i < t->ndim; i++) shape[i] = t->shape[i];
    shape[t->ndim - 2] = dl_mat_height(column);
    dl_tensor *at = K(dl_expand(column, shape, t->ndim));
    return at ? K(dl_gather(t, at, -2)) : NULL;
}

dl_tensor *dl_mat_with_diagonal(dl_pool *p, dl_tensor *t, dl_tensor *v) {
    if (!t || !v) return NULL;
    const long n = dl_mat_width(t);
    dl_tensor *on = K(dl_eye(n, NULL, DL_BOOL, t->st->device));
    return K(dl_where(on, v->ndim ? K(dl_with_dim(v, -2)) : v, t));
}
