/* Pointwise ops made of other ops: interpolation, scaled products, activations with a parameter. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/binary.h"
#include "ops/rules/unary.h"

#include <string.h>

/* ---- arithmetic */

POOLED_RULE(lerp) {
    dl_tensor *from = c->in[0], *to = c->in[1];
    if (!dl_dtype_is_smooth(c->dtype))
        return dl_fail(DL_ERR_DTYPE, "interpolation is of floating numbers, not of %s", dl_dtype_name(c->dtype));
    return dl_finish(c, dl_add(from, K(dl_mul(c->in[2], K(dl_sub(to, from))))));
}

/* input + value * t; takes t over. */
static dl_status add_scaled(dl_call *c, dl_tensor *t, const dl_aval *value) {
    POOL;
    K(t);
    if (value->is_int && value->u.i == 1) return dl_finish(c, dl_add(c->in[0], t));
    dl_tensor *factor = K(value->is_int ? dl_scalar_i(value->u.i) : dl_scalar_f(value->u.f));
    return dl_finish(c, dl_add(c->in[0], K(dl_mul(t, factor))));
}

COMPOSE_RULE(addcmul) { return add_scaled(c, dl_mul(c->in[1], c->in[2]), ATTR(c, ADDCMUL_VALUE)); }

COMPOSE_RULE(addcdiv) {
    if (!dl_dtype_is_float(c->in[1]->dtype) && !dl_dtype_is_float(c->in[2]->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert one of them with .to(f32)",
                            "addcdiv divides floating numbers, not %s by %s", dl_type_of(c->in[1]),
                            dl_type_of(c->in[2]));
    return add_scaled(c, dl_div(c->in[1], c->in[2]), ATTR(c, ADDCDIV_VALUE));
}

/* ---- activations */

COMPOSE_RULE(gelu) {
    const char *how = ATTR_S(c, GELU_APPROXIMATE);
    if (!*how || !strcmp(how, "none")) return dl_finish(c, dl_gelu_erf(c->in[0]));
    if (!strcmp(how, "tanh")) return dl_finish(c, dl_gelu_tanh(c->in[0]));
    return dl_fail(DL_ERR_VALUE, "approximate is none or tanh, not '%s'", how);
}

POOLED_RULE(prelu) {
    dl_tensor *x = c->in[0], *w = c->in[1];
    long shape[DL_MAX_DIM] = {0};
    if (w->ndim > 1 || !w->numel)
        return dl_fail(DL_ERR_SHAPE, "the weight must have shape [1], or [C] for C channels, not %s", dl_shape_of(w));
    if (w->numel != 1) {
        if (x->ndim < 2 || x->shape[1] != w->numel)
            return dl_fail(DL_ERR_SHAPE, "%ld slopes do not fit an input of shape %s, whose channels are dimension 1",
                           (long)w->numel, dl_shape_of(x));
        for (int i = 0; i < x->ndim; i++) shape[i] = i == 1 ? w->numel : 1;
        w = K(dl_reshape(w, shape, x->ndim));
    } else
        w = K(dl_reshape(w, shape, 0));
    return dl_finish(c, dl_where(K(dl_gt(x, K(dl_scalar_i(0)))), x, K(dl_mul(x, w))));
}

POOLED_RULE(glu) {
    dl_tensor *x = c->in[0];
    int d;
    if (!x->ndim) return dl_fail(DL_ERR_SHAPE, "a 0-d tensor has no dimension to halve");
    DL_TRY(dl_dim_norm(ATTR_I(c, GLU_DIM), x->ndim, &d));
    long half = x->shape[d] / 2;
    if (x->shape[d] % 2)
        return dl_fail(DL_ERR_SHAPE, "dimension %d has size %ld, which cannot be halved", d, x->shape[d]);
    dl_tensor *gate = K(dl_slice(x, d, &half, NULL, 1));
    return dl_finish(c, dl_mul(K(dl_slice(x, d, NULL, &half, 1)), K(dl_sigmoid(gate))));
}
