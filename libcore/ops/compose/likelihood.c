/* Losses that are negative logarithms of likelihoods, and two that weigh these or replace them: dice and focal loss. */
#include "ops/compose/compose.h"
#include "ops/compose/rows/row_sum.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/elementary.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/unary.h"
#include "ops/rules/loss.h"

#include <math.h>

/* ---- of 0 and 1 */

COMPOSE_RULE(binary_cross_entropy) {
    dl_tensor *w = INPUT(c, BINARY_CROSS_ENTROPY_WEIGHT);
    DL_TRY(dl_check_loss_pair(c));
    return dl_finish_weighted(c, dl_id_probability_loss, c->in, NULL, w);
}

/* pos_weight w: target * softplus(-x) counts w times. */
POOLED_RULE(binary_cross_entropy_with_logits) {
    dl_tensor *x = c->in[0], *y = c->in[1], *w = INPUT(c, BINARY_CROSS_ENTROPY_WITH_LOGITS_WEIGHT),
              *more = INPUT(c, BINARY_CROSS_ENTROPY_WITH_LOGITS_POS_WEIGHT);
    DL_TRY(dl_check_loss_pair(c));
    if (!more) return dl_finish_weighted(c, dl_id_logit_loss, c->in, NULL, w);
    dl_tensor *in[] = {x, y, more};
    if (dl_row_sums(dl_op_row(dl_id_balanced_logit_loss), in))
        return dl_finish_weighted(c, dl_id_balanced_logit_loss, in, NULL, w);
    dl_tensor *share = K(dl_mul(y, K(dl_sub(more, N(1)))));
    dl_tensor *each = K(dl_addcmul(K(dl_logit_loss(x, y)), share, K(dl_logsigmoid(x)), -1)); /* -softplus(-x) */
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
    const double constant = ATTR_I(c, GAUSSIAN_NLL_LOSS_FULL) ? 0.5 * log(2 * M_PI) : 0;
    dl_tensor *in[3] = {c->in[0], c->in[1], K(variances(c))};
    return dl_finish_row(c, dl_id_normal_loss, in, (double[]){eps, constant});
}

COMPOSE_RULE(poisson_nll_loss) {
    const double full = ATTR_I(c, POISSON_NLL_LOSS_FULL) != 0, eps = ATTR_F(c, POISSON_NLL_LOSS_EPS);
    const int row = ATTR_I(c, POISSON_NLL_LOSS_LOG_INPUT) ? dl_id_poisson_loss : dl_id_poisson_mean_loss;
    DL_TRY(dl_check_loss_pair(c));
    return dl_finish_row(c, row, c->in, (double[]){full, eps});
}
