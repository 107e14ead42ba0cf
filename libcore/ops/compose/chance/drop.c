/* Dropout of channels, and the dropout that keeps mean and variance of selu's results. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/norm.h"
#include "dlcore/where.h"
#include "ops/rules/norm.h"

#include <math.h>

/* A result of its own: a composite gives no input back. */
static dl_status same(dl_call *c) { return dl_finish(c, dl_clone(c->in[0])); }

/* Ones, of which dropout takes some: one for each of the first `kept` dimensions of x. */
static dl_tensor *mask(dl_pool *p, const dl_tensor *x, int kept, double probability) {
    long shape[DL_MAX_DIM];
    for (int i = 0; i < x->ndim; i++) shape[i] = i < kept ? x->shape[i] : 1;
    dl_tensor *ones = K(dl_full(shape, x->ndim, 1, x->dtype, x->st->device));
    return ones ? K(dl_dropout(ones, probability, 1)) : NULL;
}

static dl_status channels(dl_call *c, int dims) {
    POOL;
    dl_tensor *x = c->in[0];
    if (x->ndim != dims + 2 && x->ndim != dims + 1)
        return dl_fail(DL_ERR_SHAPE, "the input must have %d or %d dimensions, not %d", dims + 1, dims + 2, x->ndim);
    if (!ATTR_I(c, CHANNELDROP_TRAINING)) return same(c);
    return dl_finish(c, dl_mul(x, mask(p, x, x->ndim - dims, ATTR_F(c, CHANNELDROP_P))));
}
COMPOSE_RULE(dropout1d) { return channels(c, 1); }
COMPOSE_RULE(dropout2d) { return channels(c, 2); }
COMPOSE_RULE(dropout3d) { return channels(c, 3); }

/* Klambauer and others: Self-normalizing neural networks (2017): a (x keep + low (1 - keep)) + b. */
static dl_status alpha(dl_call *c, int kept) {
    POOL;
    const double low = -1.7580993408473766, q = 1 - ATTR_F(c, ALPHADROP_P);
    dl_tensor *x = c->in[0];
    if (!ATTR_I(c, ALPHADROP_TRAINING)) return same(c);
    if (!(q > 0 && q <= 1)) return dl_fail(DL_ERR_VALUE, "p must be at least 0 and below 1, not %g", 1 - q);
    if (q == 1) return same(c);
    const double a = 1 / sqrt(q * (1 + (1 - q) * low * low)), b = -a * low * (1 - q);
    dl_tensor *zero = N(0), *gone = K(dl_eq(mask(p, x, kept, 1 - q), zero));
    dl_tensor *y = K(dl_where(gone, N(low), x));
    return dl_finish(c, y ? dl_addcmul(N(b), y, N(a), 1) : NULL);
}
COMPOSE_RULE(alpha_dropout) { return alpha(c, c->in[0]->ndim); }
COMPOSE_RULE(feature_alpha_dropout) {
    if (c->in[0]->ndim < 2) return dl_fail(DL_ERR_SHAPE, "the input must be [N,C] or [N,C,...]");
    return alpha(c, 2);
}
