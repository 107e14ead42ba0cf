/* Functions that draw noise: a rectifier with random slopes, softened draws of classes. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/unary.h"
#include "ops/rules/norm.h"

/* Uniform numbers in the shape of x. */
static dl_tensor *uniform(dl_pool *p, const dl_tensor *x) {
    return K(dl_rand(x->shape, x->ndim, (int)x->dtype, x->st->device));
}

POOLED_RULE(rrelu) {
    dl_tensor *x = c->in[0];
    const double low = ATTR_F(c, RRELU_LOWER), high = ATTR_F(c, RRELU_UPPER);
    if (!(low <= high)) return dl_fail(DL_ERR_VALUE, "lower must not be above upper, as %g is above %g", low, high);
    if (!ATTR_I(c, RRELU_TRAINING)) return dl_finish(c, dl_leaky_relu(x, (low + high) / 2));
    return dl_finish(c, dl_slope_below(x, uniform(p, x), low, high));
}

/* ln(-ln u), in f32 where x has 16 bits. */
static dl_tensor *less_gumbel(dl_pool *p, const dl_tensor *x) {
    const dl_dtype t = DL_BIT(x->dtype) & DL_HALVES ? DL_F32 : x->dtype;
    dl_tensor *u = K(dl_rand(x->shape, x->ndim, (int)t, x->st->device));
    return K(dl_to_dtype(K(dl_less_gumbel(u)), x->dtype));
}

/* Jang, Gu, Poole: Categorical reparameterization with Gumbel-softmax (2017). */
POOLED_RULE(gumbel_softmax) {
    dl_tensor *x = c->in[0];
    const double tau = ATTR_F(c, GUMBEL_SOFTMAX_TAU);
    const long dim = ATTR_I(c, GUMBEL_SOFTMAX_DIM);
    if (!(tau > 0)) return dl_fail(DL_ERR_VALUE, "tau must be above 0, not %g", tau);
    dl_tensor *noise = less_gumbel(p, x), *noisy = noise ? K(dl_sub(x, noise)) : NULL;
    if (tau != 1) noisy = K(dl_div(noisy, N(tau)));
    dl_tensor *soft = noisy ? K(dl_softmax(noisy, dim)) : NULL;
    if (!soft || !ATTR_I(c, GUMBEL_SOFTMAX_HARD)) RESULT(soft);
    dl_tensor *still = K(dl_detach(soft)), *at = still ? K(dl_argmax(still, &dim, 1)) : NULL;
    dl_tensor *zeros = K(dl_mul(still, N(0))), *ones = at ? K(dl_to_dtype(K(dl_ge(at, N(0))), x->dtype)) : NULL;
    dl_tensor *hard = zeros && ones ? K(dl_scatter_add(zeros, at, ones, dim)) : NULL;
    return dl_finish(c, hard ? dl_add(K(dl_sub(hard, still)), soft) : NULL);
}
