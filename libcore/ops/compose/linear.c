/* Products made of matmul: mm, mv, bmm, dot, outer, addmm; kron, and distances of all pairs. */
#include "ops/compose/compose.h"
#include "dlcore/binary.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "ops/rules/matmul.h"

/* Operands of so many dimensions. */
static dl_status check_dims(const dl_call *c, int first, int a, int b) {
    const int want[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const dl_tensor *t = c->in[first + i];
        if (t->ndim != want[i])
            return dl_fail_hint(DL_ERR_SHAPE, "matmul(a, b) takes vectors, matrices and batches of them",
                                "%s must be %d-d, not of shape %s", c->op->in_name[first + i], want[i],
                                dl_shape_text(t->ndim, t->shape));
    }
    return DL_OK;
}

static dl_status product(dl_call *c, int a, int b) {
    DL_TRY(check_dims(c, 0, a, b));
    return dl_finish(c, dl_matmul(c->in[0], c->in[1]));
}

COMPOSE_RULE(mm) { return product(c, 2, 2); }
COMPOSE_RULE(mv) { return product(c, 2, 1); }
COMPOSE_RULE(dot) { return product(c, 1, 1); }
COMPOSE_RULE(bmm) {
    DL_TRY(check_dims(c, 0, 3, 3));
    if (c->in[0]->shape[0] != c->in[1]->shape[0])
        return dl_fail(DL_ERR_SHAPE, "the batches have %ld and %ld matrices", c->in[0]->shape[0], c->in[1]->shape[0]);
    return product(c, 3, 3);
}

COMPOSE_RULE(outer) {
    POOL;
    DL_TRY(check_dims(c, 0, 1, 1));
    return dl_finish(c, dl_mul(K(dl_reshape(c->in[0], (long[]){c->in[0]->numel, 1}, 2)), c->in[1]));
}

/* factor * t; t itself for a factor of 1. */
static dl_tensor *times(dl_pool *p, dl_tensor *t, const dl_aval *factor) {
    if (factor->is_int && factor->u.i == 1) return t;
    return K(dl_mul(t, K(factor->is_int ? dl_scalar_i(factor->u.i) : dl_scalar_f(factor->u.f))));
}

COMPOSE_RULE(addmm) {
    POOL;
    DL_TRY(check_dims(c, 1, 2, 2));
    dl_tensor *product = times(p, K(dl_matmul(c->in[1], c->in[2])), ATTR(c, ADDMM_ALPHA));
    return dl_finish(c, dl_add(times(p, c->in[0], ATTR(c, ADDMM_BETA)), product));
}

/* The dimensions of the operands alternate, and are joined in pairs. */
COMPOSE_RULE(kron) {
    POOL;
    dl_tensor *t[2] = {c->in[0], c->in[1]};
    const int n = t[0]->ndim > t[1]->ndim ? t[0]->ndim : t[1]->ndim;
    long shape[2][2 * DL_MAX_DIM], joined[DL_MAX_DIM];
    if (2 * n > DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "kron takes at most %d dimensions, not %d", DL_MAX_DIM / 2, n);
    for (int i = 0; i < n; i++) joined[i] = 1;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n; i++) {
            int d = i - (n - t[k]->ndim);
            long size = d < 0 ? 1 : t[k]->shape[d];
            shape[k][2 * i + k] = size, shape[k][2 * i + !k] = 1;
            joined[i] *= size;
        }
    dl_tensor *product = K(dl_mul(K(dl_reshape(t[0], shape[0], 2 * n)), K(dl_reshape(t[1], shape[1], 2 * n))));
    return dl_finish(c, product ? dl_reshape(product, joined, n) : NULL);
}

/* t with a dimension of size 1 put in before its last one or two. */
static dl_tensor *apart(dl_tensor *t, int from_end) {
    long shape[DL_MAX_DIM + 1];
    for (int i = 0, k = 0; i <= t->ndim; i++) shape[i] = i == t->ndim - from_end ? 1 : t->shape[k++];
    return dl_reshape(t, shape, t->ndim + 1);
}

COMPOSE_RULE(cdist) {
    POOL;
    const long last = -1;
    dl_tensor *a = c->in[0], *b = c->in[1];
    if (a->ndim < 2 || b->ndim < 2 || a->shape[a->ndim - 1] != b->shape[b->ndim - 1])
        return dl_fail(DL_ERR_SHAPE, "the operands must be [..., N, D] and [..., M, D], not %s and %s",
                       dl_shape_text(a->ndim, a->shape), dl_shape_text(b->ndim, b->shape));
    if (!(ATTR_F(c, CDIST_P) >= 0)) return dl_fail(DL_ERR_VALUE, "p must be 0 or more, not %g", ATTR_F(c, CDIST_P));
    if (a->ndim == DL_MAX_DIM || b->ndim == DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "cdist takes at most %d dimensions", DL_MAX_DIM - 1);
    dl_tensor *gap = K(dl_sub(K(apart(a, 1)), K(apart(b, 2))));
    return dl_finish(c, dl_norm(gap, &last, 1, 0, ATTR_F(c, CDIST_P)));
}
