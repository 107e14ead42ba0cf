/* Draws from probability distributions: shape, then the shape that the parameters broadcast to. The gradient of those
 * that are functions of their parameters and of noise goes to the parameters. */
#include "ops/compose/chance/draw.h"
#include "ops/matrices.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/distribution.h"

typedef dl_tensor *(*source)(const long *, int, int, int);

/* The attribute shape, then that of the parameters without their last `event` dimensions, then k where k > 0. */
static dl_status full_shape(const dl_call *c, int event, long k, long *shape, int *n) {
    const dl_tensor *a = c->in[0], *b = c->nin > 1 ? c->in[1] : a;
    const dl_aval *given = ATTR(c, DRAW_SHAPE);
    long batch[2 * DL_MAX_DIM];
    int nd;
    DL_TRY(dl_broadcast(a->ndim - event, a->shape, b->ndim - event - (c->nin > 1 ? event : 0), b->shape, &nd, batch));
    if (c->nin > 2) DL_TRY(dl_broadcast(nd, batch, c->in[2]->ndim, c->in[2]->shape, &nd, batch));
    if (given->n + nd + (k > 0) > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions", DL_MAX_DIM);
    for (int i = 0; i < given->n; i++) shape[i] = given->u.v[i];
    for (int i = 0; i < nd; i++) shape[given->n + i] = batch[i];
    *n = given->n + nd;
    if (k > 0) shape[(*n)++] = k;
    return DL_OK;
}

dl_tensor *dl_draw_noise(dl_call *c, dl_pool *p, source from, int event, long k) {
    long shape[2 * DL_MAX_DIM];
    int n;
    if (full_shape(c, event, k, shape, &n) != DL_OK) return NULL;
    return K(from(shape, n, (int)c->dtype, c->device));
}

/* ---- functions of noise */

POOLED_RULE(normal_sample) {
    return dl_finish(c, dl_add(c->in[0], K(dl_mul(c->in[1], dl_draw_noise(c, p, dl_randn, 0, 0)))));
}

POOLED_RULE(uniform_sample) {
    dl_tensor *width = K(dl_sub(c->in[1], c->in[0]));
    return dl_finish(c, dl_add(c->in[0], K(dl_mul(width, dl_draw_noise(c, p, dl_rand, 0, 0)))));
}

POOLED_RULE(exponential_sample) {
    dl_tensor *u = dl_draw_noise(c, p, dl_rand, 0, 0);
    return dl_finish(c, dl_div(K(dl_neg(K(dl_log1p(K(dl_neg(u)))))), c->in[0]));
}

/* -sign(u) ln(1 - 2 |u|) of u from -1/2 to 1/2 */
POOLED_RULE(laplace_sample) {
    dl_tensor *u = K(dl_sub(dl_draw_noise(c, p, dl_rand, 0, 0), N(0.5)));
    dl_tensor *size = K(dl_log1p(K(dl_clamp(K(dl_mul(K(dl_abs(u)), N(-2))), &(double){-0.99999994}, NULL))));
    return dl_finish(c, dl_sub(c->in[0], K(dl_mul(c->in[1], K(dl_mul(K(dl_sign(u)), size))))));
}

POOLED_RULE(multivariate_normal_sample) {
    dl_tensor *loc = c->in[0], *l = c->in[1];
    long shape[2 * DL_MAX_DIM], batch[2 * DL_MAX_DIM];
    const dl_aval *given = ATTR(c, DRAW_SHAPE);
    int nd, n = given->n;
    DL_TRY(dl_broadcast(loc->ndim - 1, loc->shape, l->ndim - 2, l->shape, &nd, batch));
    if (n + nd + 2 > DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions", DL_MAX_DIM);
    for (int i = 0; i < n; i++) shape[i] = given->u.v[i];
    for (int i = 0; i < nd; i++) shape[n++] = batch[i];
    shape[n++] = dl_mat_width(l), shape[n++] = 1;
    dl_tensor *far = dl_mat_mul(p, l, K(dl_randn(shape, n, c->dtype, c->device)));
    return dl_finish(c, far ? dl_add(loc, K(dl_select(far, -1, 0))) : NULL);
}

/* ---- whole numbers, without a gradient */

POOLED_RULE(bernoulli_sample) {
    dl_tensor *is = K(dl_lt(dl_draw_noise(c, p, dl_rand, 0, 0), K(dl_sigmoid(c->in[0]))));
    return dl_finish(c, is ? dl_to_dtype(is, c->dtype) : NULL);
}

/* The largest of the logits with noise -ln(-ln u) (Gumbel). */
POOLED_RULE(categorical_sample) {
    const long last = -1;
    dl_tensor *u = dl_draw_noise(c, p, dl_rand, 1, c->in[0]->shape[c->in[0]->ndim - 1]);
    return dl_finish(c, dl_argmax(K(dl_sub(c->in[0], K(dl_less_gumbel(u)))), &last, 0));
}

/* ---- gamma and its kin */

/* One attempt of Marsaglia and Tsang (2000) at each number that is still missing; *left tells whether there are any. */
static dl_tensor *attempt(dl_tensor *found, dl_tensor *d, dl_tensor *s, long *left) {
    POOL;
    const int t = found->dtype, device = found->st->device;
    dl_tensor *x = K(dl_randn(found->shape, found->ndim, t, device));
    dl_tensor *u = K(dl_rand(found->shape, found->ndim, t, device));
    dl_tensor *base = K(dl_add(K(dl_mul(x, s)), N(1))), *v = K(dl_mul(K(dl_square(base)), base));
    dl_tensor *bound = K(dl_add(K(dl_sub(K(dl_log(v)), v)), N(1)));
    bound = K(dl_add(K(dl_mul(K(dl_square(x)), N(0.5))), K(dl_mul(d, bound))));
    dl_tensor *good = K(dl_logical_and(K(dl_gt(base, N(0))), K(dl_lt(K(dl_log(u)), bound))));
    dl_tensor *open = good ? K(dl_lt(found, N(0))) : NULL;
    dl_tensor *next = open ? K(dl_where(K(dl_logical_and(good, open)), K(dl_mul(d, v)), found)) : NULL;
    if (!next || dl_item_i(K(dl_any(K(dl_lt(next, N(0))), NULL, 0, 0)), left) != DL_OK) return NULL;
    return dl_ref(next);
}

/* Numbers x of the gamma distribution of rate 1; with a + 1 in place of small a, times u**(1/a). The gradient for a is
 * the motion of x when its share below stays: x + slope (a - a), the second a without a history. */
dl_tensor *dl_gamma_of(dl_pool *outer, dl_tensor *given, const long *shape, int n) {
    POOL;
    dl_tensor *a = K(dl_detach(given));
    dl_tensor *wide = a ? K(dl_expand(a, shape, n)) : NULL, *small = wide ? K(dl_lt(wide, N(1))) : NULL;
    dl_tensor *used = small ? K(dl_where(small, K(dl_add(wide, N(1))), wide)) : NULL;
    dl_tensor *d = K(dl_sub(used, N(1.0 / 3))), *s = K(dl_rsqrt(K(dl_mul(d, N(9)))));
    if (!d || !s) return NULL;
    dl_tensor *found = dl_full(shape, n, -1, a->dtype, a->st->device);
    long left = found && found->numel;
    for (int i = 0; i < 200 && left && found; i++) { /* each leaves a twentieth at most */
        dl_tensor *was = found;
        found = attempt(was, d, s, &left);
        dl_unref(was);
    }
    K(found);
    dl_tensor *u = found ? K(dl_rand(shape, n, a->dtype, a->st->device)) : NULL;
    dl_tensor *shrink = u ? K(dl_exp(K(dl_div(K(dl_log(u)), wide)))) : NULL;
    dl_tensor *x = shrink ? K(dl_where(small, K(dl_mul(found, shrink)), found)) : NULL;
    if (x && dl_grad_mode_get() && dl_requires_grad(given))
        x = K(dl_add(x, K(dl_mul(K(dl_gamma_slope(wide, x)), K(dl_sub(given, a))))));
    return x ? dl_keep(outer, dl_ref(x)) : NULL;
}

POOLED_RULE(gamma_sample) {
    long shape[2 * DL_MAX_DIM];
    int n;
    DL_TRY(full_shape(c, 0, 0, shape, &n));
    return dl_finish(c, dl_div(dl_gamma_of(p, c->in[0], shape, n), c->in[1]));
}

POOLED_RULE(beta_sample) {
    long shape[2 * DL_MAX_DIM];
    int n;
    DL_TRY(full_shape(c, 0, 0, shape, &n));
    dl_tensor *a = dl_gamma_of(p, c->in[0], shape, n), *b = a ? dl_gamma_of(p, c->in[1], shape, n) : NULL;
    return dl_finish(c, b ? dl_div(a, K(dl_add(a, b))) : NULL);
}

POOLED_RULE(dirichlet_sample) {
    const long last = -1;
    long shape[2 * DL_MAX_DIM];
    int n;
    DL_TRY(full_shape(c, 1, c->in[0]->shape[c->in[0]->ndim - 1], shape, &n));
    dl_tensor *a = dl_gamma_of(p, c->in[0], shape, n);
    return dl_finish(c, a ? dl_div(a, K(dl_sum(a, &last, 1, 1))) : NULL);
}
