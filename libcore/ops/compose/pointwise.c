/* Activations made of other ops. */
#include "ops/compose/compose.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "ops/rules/binary.h"
#include "ops/rules/unary.h"

#include <string.h>

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
    return dl_finish(c, dl_slope_below(x, w, 0, 1));
}

POOLED_RULE(glu) {
    dl_tensor *x = c->in[0];
    dl_meta m;
    int d;
    DL_TRY(dl_infer_glu(c, &m));
    DL_TRY(dl_dim_norm(ATTR_I(c, GLU_DIM), x->ndim, &d));
    long half = m.shape[d];
    dl_tensor *gate = K(dl_slice(x, d, &half, NULL, 1));
    return dl_finish(c, dl_gated(K(dl_slice(x, d, NULL, &half, 1)), gate));
}
