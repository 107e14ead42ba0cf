/* The triangles of matrices: shape and gradient of tril and triu. */
#include "ops/grad.h"
#include "dlcore/index.h"
#include "ops/rules/index.h"

INFER_RULE(triangle) {
    const dl_tensor *x = c->in[0];
    if (x->ndim < 2)
        return dl_fail(DL_ERR_SHAPE, "a triangle is of a matrix: the input must have at least 2 dimensions, not %d",
                       x->ndim);
    *out = dl_meta_fresh(c, c->dtype, x->ndim, x->shape);
    return DL_OK;
}

RULE(tril, dl_tril(G0, ATTR_I(b, TRIANGLE_DIAGONAL)))
RULE(triu, dl_triu(G0, ATTR_I(b, TRIANGLE_DIAGONAL)))
