/* Statistics made of other ops: those that leave out NaN, counts, pairs of results; comparisons with tolerance. */
#include "ops/compose/compose.h"
#include "ops/compose/rows/row_sum.h"
#include "core/widening.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "dlcore/unary.h"
#include "dlcore/where.h"
#include "ops/names/loss.h"
#include "ops/rules/compare.h"
#include "ops/rules/index.h"
#include "ops/rules/reduce.h"
#include "ops/rules/sort.h"
#include "ops/rules/unary.h"

#include <float.h>
#include <math.h>

/* ---- NaN */

static double largest(dl_dtype t) {
    return t == DL_F64 ? DBL_MAX : t == DL_F32 ? (double)FLT_MAX : t == DL_F16 ? 65504.0 : 0x1.fep127;
}

COMPOSE_RULE(nan_to_num) {
    dl_tensor *x = c->in[0];
    const dl_dtype t = x->dtype;
    const dl_aval *nan = ATTR(c, NAN_TO_NUM_NAN), *up = ATTR(c, NAN_TO_NUM_POSINF), *down = ATTR(c, NAN_TO_NUM_NEGINF);
    if (!dl_dtype_is_float(t)) return dl_finish(c, dl_clone(x));
    const double to[3] = {nan->given ? dl_aval_number(nan) : 0, up->given ? dl_aval_number(up) : largest(t),
                          down->given ? dl_aval_number(down) : -largest(t)};
    return dl_finish(c, dl_replace_nonfinite(x, to[0], to[1], to[2]));
}

COMPOSE_RULE(nansum) {
    dl_tensor *x = c->in[0];
    const int keep = ATTR_I(c, REDUCE_KEEPDIM) != 0;
    return dl_finish(c, dl_dtype_is_float(x->dtype) ? dl_known_sum(x, ATTR_V(c, REDUCE_DIM), keep)
                                                    : dl_sum(x, ATTR_V(c, REDUCE_DIM), keep));
}

POOLED_RULE(nanmean) {
    const int keep = ATTR_I(c, REDUCE_KEEPDIM) != 0;
    dl_tensor *there = K(dl_logical_not(K(dl_isnan(c->in[0]))));
    dl_tensor *sum = K(dl_nansum(c->in[0], ATTR_V(c, REDUCE_DIM), keep));
    return dl_finish(c, sum ? dl_div(sum, K(dl_sum(there, ATTR_V(c, REDUCE_DIM), keep))) : NULL);
}

/* ---- counts and pairs */

POOLED_RULE(count_nonzero) {
    return dl_finish(c, dl_sum(K(dl_ne(c->in[0], K(dl_scalar_i(0)))), ATTR_V(c, COUNT_NONZERO_DIM), 0));
}

COMPOSE_RULE(argwhere) { return dl_finish(c, dl_nonzero(c->in[0])); }

static dl_status both(dl_call *c, dl_tensor *first, dl_tensor *second) {
    c->out[0] = first, c->out[1] = second;
    return first && second ? DL_OK : dl_failed();
}

COMPOSE_RULE(aminmax) {
    const long dim = ATTR_I(c, AMINMAX_DIM), *dims = ATTR(c, AMINMAX_DIM)->given ? &dim : NULL;
    const int keep = ATTR_I(c, AMINMAX_KEEPDIM) != 0;
    c->out[0] = dl_extremes(c->in[0], dims, dims != NULL, keep, &c->out[1]);
    return c->out[0] ? DL_OK : dl_failed();
}

/* The row of the variance makes the mean, too. */
static dl_status var_and_mean(dl_call *c, dl_tensor **out) {
    const dl_op *op = dl_op_row(dl_id_var);
    dl_aval attr[DL_MAX_ATTR];
    dl_attr_defaults(op, attr);
    attr[DL_A_REDUCE_DIM] = *ATTR(c, SPREAD_DIM), attr[DL_A_REDUCE_KEEPDIM] = *ATTR(c, SPREAD_KEEPDIM);
    attr[DL_A_VAR_CORRECTION] = *ATTR(c, SPREAD_CORRECTION);
    return dl_invoke(op, c->in, 1, attr, out);
}

COMPOSE_RULE(var_mean) { return var_and_mean(c, c->out); }
COMPOSE_RULE(std_mean) {
    dl_tensor *out[DL_MAX_OUT] = {NULL};
    DL_TRY(var_and_mean(c, out));
    DL_OWNED dl_tensor *var = out[0];
    return both(c, dl_sqrt(var), out[1]);
}

POOLED_RULE(dist) {
    const double power = ATTR_F(c, DIST_P);
    if (dl_sums_powers(dl_id_difference_power, c->in, power))
        return dl_finish(c, dl_root_of_powers(dl_id_difference_power, c->in, power, 0, 0, dl_widening_goes_on(c)));
    return dl_finish(c, dl_norm(K(dl_sub(c->in[0], c->in[1])), NULL, 0, 0, power));
}

/* ---- comparing */

POOLED_RULE(isclose) {
    dl_tensor *a = K(dl_detach(c->in[0])), *b = K(dl_detach(c->in[1]));
    const double rtol = ATTR_F(c, ISCLOSE_RTOL), atol = ATTR_F(c, ISCLOSE_ATOL);
    if (!(rtol >= 0 && atol >= 0))
        return dl_fail(DL_ERR_VALUE, "tolerances must be 0 or more, not %g and %g", rtol, atol);
    dl_tensor *size = K(dl_abs(b)), *limit = K(dl_add(K(dl_mul(size, N(rtol))), N(atol)));
    dl_tensor *near = K(dl_le(K(dl_abs(K(dl_sub(a, b)))), limit));
    dl_tensor *finite = K(dl_logical_and(near, K(dl_isfinite(size)))), *is = K(dl_logical_or(K(dl_eq(a, b)), finite));
    if (!ATTR_I(c, ISCLOSE_EQUAL_NAN) || !is) RESULT(is);
    return dl_finish(c, dl_logical_or(is, K(dl_logical_and(K(dl_ne(a, a)), K(dl_ne(b, b))))));
}

/* ---- drawing */

static dl_status check_weights(const dl_call *c, dl_pool *p) {
    dl_tensor *x = c->in[0];
    long some;
    if (x->ndim < 1 || x->ndim > 2)
        return dl_fail(DL_ERR_SHAPE, "the weights must be 1-d or 2-d, not of shape %s", dl_shape_of(x));
    if (!dl_dtype_is_float(x->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "convert them with .to(f32)", "weights are floating numbers, not %s",
                            dl_type_of(x));
    const long last = x->ndim - 1;
    if (!x->shape[last]) return dl_fail(DL_ERR_SHAPE, "there are no categories to draw from");
    if (!x->numel) return DL_OK;
    dl_tensor *zero = K(dl_scalar_i(0)), *fine = K(dl_logical_and(K(dl_isfinite(x)), K(dl_ge(x, zero))));
    dl_tensor *least = K(dl_amin(K(dl_sum(K(dl_gt(x, zero)), &last, 1, 0)), NULL, 0, 0));
    /* one number, as a GPU is waited for: -1 where a weight is none */
    DL_TRY(dl_item_i(K(dl_where(K(dl_all(fine, NULL, 0, 0)), least, K(dl_scalar_i(-1)))), &some));
    if (some < 0) return dl_fail(DL_ERR_VALUE, "weights must be finite and not negative");
    if (!some) return dl_fail(DL_ERR_VALUE, "the weights of a row add up to 0");
    const long k = ATTR_I(c, MULTINOMIAL_NUM_SAMPLES);
    if (!ATTR_I(c, MULTINOMIAL_REPLACEMENT) && k > some)
        return dl_fail_hint(DL_ERR_VALUE, "replacement=true draws a category more than once",
                            "%ld categories cannot be drawn from %ld of weight above 0", k, some);
    return DL_OK;
}

/* Without replacement: the largest of ln(u) / weight (Efraimidis, Spirakis 2006). With it: the place of u in the
 * running sums. */
POOLED_RULE(multinomial) {
    dl_tensor *x = K(dl_detach(c->in[0])), *at = NULL;
    const long k = ATTR_I(c, MULTINOMIAL_NUM_SAMPLES);
    if (!x) return dl_failed();
    if (k < 1) return dl_fail(DL_ERR_VALUE, "num_samples must be 1 or more, not %ld", k);
    DL_TRY(check_weights(c, p));
    const int d = x->ndim - 1, device = x->st->device;
    long shape[2] = {x->shape[0], k}, last = x->shape[d] - 1;
    x = K(dl_to_dtype(x, DL_F64));
    if (!x) return dl_failed();
    if (ATTR_I(c, MULTINOMIAL_REPLACEMENT)) {
        dl_tensor *sums = K(dl_cumsum(x, d)), *total = sums ? K(dl_slice(sums, d, &last, NULL, 1)) : NULL;
        dl_tensor *u = total ? K(dl_rand(d ? shape : &k, x->ndim, DL_F64, device)) : NULL;
        return dl_finish(c, u ? dl_searchsorted(sums, K(dl_mul(u, total)), NULL, 0, 1, NULL) : NULL);
    }
    dl_tensor *u = K(dl_rand(x->shape, x->ndim, DL_F64, device));
    dl_tensor *key = u ? K(dl_div(K(dl_log1p(K(dl_neg(u)))), x)) : NULL; /* of weight 0: -inf, or NaN for u = 0 */
    dl_tensor *none = key ? K(dl_le(x, K(dl_scalar_i(0)))) : NULL;
    key = none ? K(dl_masked_fill(key, none, N(-INFINITY))) : NULL;
    dl_tensor *best = key ? K(dl_topk(key, k, d, 1, &at)) : NULL;
    K(at);
    return dl_finish(c, best ? dl_ref(at) : NULL);
}
