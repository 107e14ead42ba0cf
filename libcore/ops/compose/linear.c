/* Products made of matmul: mm, mv, bmm, dot, outer, addmm. */
#include "ops/compose/compose.h"
#include "dlcore/binary.h"
#include "dlcore/matmul.h"
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
