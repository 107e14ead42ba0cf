/* Losses that are negative logarithms of likelihoods, and two that weigh these or replace them: dice and focal loss. */
#include "ops/compose/compose.h"
#include "ops/compose/rows/row_sum.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/elementary.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/unary.h"
#include "dlcore/where.h"
#include "ops/rules/loss.h"

#include <math.h>

/* ---- of 0 and 1 */

POOLED_RULE(binary_cross_entropy) {
    dl_tensor *w = INPUT(c, BINARY_CROSS_ENTROPY_WEIGHT);
    DL_TRY(dl_check_loss_pair(c));
    if (!w) return dl_finish_row(c, dl_op_row(dl_id_probability_loss), NULL);
    return dl_finish_loss(c, K(dl_mul(K(dl_probability_loss(c->in[0], c->in[1])), w)));
}

/* pos_weight w: target * softplus(-x) counts w times. */
POOLED_RULE(binary_cross_entropy_with_logits) {
    dl_tensor *x = c->in[0], *y = c->in[1], *w = INPUT(c, BINARY_CROSS_ENTROPY_WITH_LOGITS_WEIGHT),
              *more = INPUT(c, BINARY_CROSS_ENTROPY_WITH_LOGITS_POS_WEIGHT);
    DL_TRY(dl_check_loss_pair(c));
    if (!w && !more) return dl_finish_row(c, dl_op_row(dl_id_logit_loss), NULL);
    dl_tensor *each = K(dl_logit_loss(x, y));
    if (more) {
        dl_tensor *share = K(dl_mul(y, K(dl_sub(more, N(1)))));
        each = K(dl_addcmul(each, share, K(dl_logsigmoid(x)), -1)); /* -softplus(-x) */
    }
    return dl_finish_loss(c, w ? K(dl_mul(each, w)) : each);
}

/* 1 - p = sigmoid((1 - 2 target) x) for targets 0 and 1; p target + (1 - p) (1 - target) between them. */
POOLED_RULE(sigmoid_focal_loss) {
    dl_tensor *x = c->in[0], *y = c->in[1];
    const double alpha = ATTR_F(c, SIGMOID_FOCAL_LOSS_ALPHA), gamma = ATTR_F(c, SIGMOID_FOCAL_LOSS_GAMMA);
    DL_TRY(dl_check_loss_pair(c));
    dl_tensor *yes = K(dl_to_dtype(y, c->dtype)), *no = K(dl_sub(N(1), yes));
    dl_tensor *miss = K(dl_add(K(dl_mul(yes, K(dl_sigmoid(K(dl_neg(x)))))), K(dl_mul(no, K(dl_sigmoid(x))))));
    dl_tensor *each = K(dl_mul(K(dl_logit_loss(x, yes)), K(dl_pow(miss, N(gamma)))));
    if (alpha >= 0) {
        dl_tensor *weight = K(dl_add(K(dl_mul(yes, N(alpha))), K(dl_mul(no, N(1 - alpha)))));
        each = K(dl_mul(each, weight));
    }
    return dl_finish_loss(c, each);
}

POOLED_RULE(dice_loss) {
    dl_tensor *x = c->in[0], *y = c->in[1], *smooth = N(ATTR_F(c, DICE_LOSS_SMOOTH));
    long dims[DL_MAX_DIM], n = 0;
    DL_TRY(dl_check_loss_pair(c));
    for (int i = x->ndim > 1; i < x->ndim; i++) dims[n++] = i;
    y = K(dl_to_dtype(y, c->dtype));
    if (!y) return dl_failed();
    dl_tensor *both = K(dl_mul(x, y)), *all = K(dl_add(x, y));
    dl_tensor *overlap = K(dl_mul(K(dl_sum(both, n ? dims : NULL, (int)n, 0)), N(2)));
    dl_tensor *size = K(dl_add(K(dl_sum(all, n ? dims : NULL, (int)n, 0)), smooth));
    return dl_finish_loss(c, K(dl_sub(N(1), K(dl_div(K(dl_add(overlap, smooth)), size)))));
}

/* ---- of numbers and counts */

/* The variance with the shape of the input, or a last dimension of size 1, which may be left out. A new reference. */
static dl_tensor *variances(dl_call *c) {
    dl_tensor *x = c->in[0], *v = c->in[2];
    bool rest = v->ndim == x->ndim - 1 || v->ndim == x->ndim;
    for (int i = 0; rest && i < x->ndim - 1; i++) rest = v->shape[i] == x->shape[i];
    if (rest && v->ndim == x->ndim - 1) return dl_with_dim(v, -1);
    long last = x->ndim ? v->shape[x->ndim - 1] : 1;
    if (rest && (!x->ndim || last == 1 || last == x->shape[x->ndim - 1])) return dl_ref(v);
    return dl_fail_hint(DL_ERR_SHAPE, "it has the shape of the input, or one variance for each last dimension",
                        "a variance of shape %s does not fit an input of shape %s", dl_shape_of(v), dl_shape_of(x)),
           NULL;
}

/* The gradient passes the limit of the variance, as in PyTorch. */
POOLED_RULE(gaussian_nll_loss) {
    const double eps = ATTR_F(c, GAUSSIAN_NLL_LOSS_EPS);
    DL_TRY(dl_check_loss_pair(c));
    if (!(eps > 0)) return dl_fail(DL_ERR_VALUE, "eps must be above 0, not %g", eps);
    dl_tensor *v = K(variances(c)), *fixed = v ? K(dl_detach(v)) : NULL;
    if (!fixed) return dl_failed();
    v = K(dl_add(v, K(dl_sub(K(dl_clamp(fixed, &eps, NULL)), fixed))));
    dl_tensor *square = K(dl_square(K(dl_sub(c->in[0], c->in[1]))));
    dl_tensor *each = K(dl_mul(K(dl_add(K(dl_log(v)), K(dl_div(square, v)))), N(0.5)));
    if (ATTR_I(c, GAUSSIAN_NLL_LOSS_FULL)) each = K(dl_add(each, N(0.5 * log(2 * M_PI))));
    return dl_finish_loss(c, each);
}

/* Stirling's approximation of ln(y!), 0 up to 1: y ln(y) - y + ln(2 pi y) / 2 */
static dl_tensor *log_factorial(dl_pool *p, dl_tensor *y) {
    dl_tensor *large = K(dl_gt(y, N(1))), *safe = K(dl_where(large, y, N(1)));
    dl_tensor *ln = K(dl_log(safe)), *half = K(dl_mul(K(dl_add(ln, N(log(2 * M_PI)))), N(0.5)));
    dl_tensor *sum = K(dl_add(K(dl_sub(K(dl_mul(safe, ln)), safe)), half));
    return K(dl_where(large, sum, N(0)));
}

POOLED_RULE(poisson_nll_loss) {
    dl_tensor *x = c->in[0], *y = c->in[1], *each;
    DL_TRY(dl_check_loss_pair(c));
    if (ATTR_I(c, POISSON_NLL_LOSS_LOG_INPUT))
        each = K(dl_sub(K(dl_exp(x)), K(dl_mul(y, x))));
    else
        each = K(dl_sub(x, K(dl_mul(y, K(dl_log(K(dl_add(x, N(ATTR_F(c, POISSON_NLL_LOSS_EPS))))))))));
    if (ATTR_I(c, POISSON_NLL_LOSS_FULL)) each = K(dl_add(each, log_factorial(p, y)));
    return dl_finish_loss(c, each);
}
