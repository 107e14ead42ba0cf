/* Losses made of other ops, and the gradient rule of cross_entropy. */
#include "ops/compose/loss.h"
#include "ops/compose/compose.h"
#include "ops/compose/rows/row_sum.h"
#include "core/device/device.h"
#include "core/widening.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/grad.h"
#include "ops/rules/loss.h"

#include <string.h>

dl_status dl_reduction_of(const dl_aval *a, dl_reduction *out) {
    static const char *const names[] = {"mean", "sum", "none"};
    const char *name = a->given ? a->u.s : "none"; /* as an attribute's default "none" says that it is absent */
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, names[i])) return *out = (dl_reduction)i, DL_OK;
    return dl_fail(DL_ERR_VALUE, "reduction is mean, sum or none, not '%s'", a->u.s);
}

dl_tensor *dl_reduced_loss(dl_tensor *loss, dl_reduction how) {
    if (how == DL_REDUCE_NONE || !loss) return dl_ref(loss);
    return how == DL_REDUCE_SUM ? dl_sum(loss, NULL, 0, 0) : dl_mean(loss, NULL, 0, 0);
}

dl_status dl_finish_loss(dl_call *c, dl_tensor *loss) {
    dl_reduction how = DL_REDUCE_MEAN;
    if (loss) DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    return dl_finish(c, dl_reduced_loss(loss, how));
}

/* Each loss times its weight, which broadcasts to its shape: a new reference. Without weights the loss itself. */
static dl_tensor *weighted(dl_tensor *loss, dl_tensor *w) {
    if (!loss || !w) return dl_ref(loss);
    long shape[DL_MAX_DIM];
    int n;
    if (dl_broadcast(w->ndim, w->shape, loss->ndim, loss->shape, &n, shape) == DL_OK && n == loss->ndim &&
        !memcmp(shape, loss->shape, sizeof *shape * (size_t)n))
        return dl_mul(loss, w);
    dl_fail_hint(DL_ERR_SHAPE, "weights broadcast to the shape of the losses",
                 "weights of shape %s do not fit losses of shape %s", dl_shape_of(w), dl_shape_of(loss));
    return NULL;
}

/* Numbers of which the weights say how much they count: their mean divides by the sum of the weights. */
static dl_status finish_counted(dl_call *c, dl_tensor *loss, dl_tensor *w) {
    POOL;
    dl_reduction how = DL_REDUCE_MEAN;
    if (loss) DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    if (!(loss = K(weighted(loss, w)))) return dl_failed();
    if (!w || how != DL_REDUCE_MEAN) return dl_finish(c, dl_reduced_loss(loss, how));
    dl_tensor *each = K(dl_expand(w, loss->shape, loss->ndim));
    return dl_finish(c, dl_div(K(dl_sum(loss, NULL, 0, 0)), K(dl_sum(each, NULL, 0, 0))));
}

/* A broadcast would be a mistake, commonly [N,1] against [N]; a 0-d operand is of any shape. */
dl_status dl_check_loss_pair(const dl_call *c) {
    const dl_tensor *x = c->in[0], *y = c->in[1];
    if (!x->ndim || !y->ndim || dl_shape_eq(x, y)) return DL_OK;
    const bool scores = x->ndim == y->ndim + 1 && x->shape[x->ndim - 1] > 1; /* no squeeze helps these */
    return dl_fail_hint(DL_ERR_SHAPE,
                        scores ? "scores and class numbers are compared by cross_entropy; one number a sample is "
                                 "compared with one output of the net"
                               : "reshape one of them: squeeze(x, -1) drops a last dimension of size 1",
                        "the input has shape %s, the target %s: a loss compares equal shapes", dl_shape_of(x),
                        dl_shape_of(y));
}

POOLED_RULE(mse_loss) {
    dl_reduction how = DL_REDUCE_MEAN;
    dl_tensor *w = INPUT(c, MSE_LOSS_WEIGHT);
    DL_TRY(dl_check_loss_pair(c));
    DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    if (w) return finish_counted(c, K(dl_square_difference(c->in[0], c->in[1])), w);
    if (how == DL_REDUCE_NONE || dl_row_sums(dl_op_row(dl_id_square_difference), c->in))
        return dl_finish_row(c, dl_id_square_difference, c->in, NULL);
    dl_tensor *off = K(dl_sub(c->in[0], c->in[1]));
    if (!off) return dl_failed();
    dl_tensor *sum = dl_square_sum(off, NULL, 0, 0);
    if (how == DL_REDUCE_SUM) return dl_finish(c, sum);
    return dl_finish(c, dl_div(K(sum), N((double)off->numel)));
}

POOLED_RULE(l1_loss) {
    dl_reduction how = DL_REDUCE_MEAN;
    dl_tensor *w = INPUT(c, L1_LOSS_WEIGHT);
    DL_TRY(dl_check_loss_pair(c));
    DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    if (!w && how != DL_REDUCE_NONE && dl_row_sums(dl_op_row(dl_id_difference_power), c->in))
        return dl_finish_row(c, dl_id_difference_power, c->in, (double[]){1, 0});
    return finish_counted(c, K(dl_abs(K(dl_sub(c->in[0], c->in[1])))), w);
}

COMPOSE_RULE(smooth_l1_loss) {
    double beta = ATTR_F(c, SMOOTH_L1_LOSS_BETA);
    DL_TRY(dl_check_loss_pair(c));
    if (!(beta >= 0)) return dl_fail(DL_ERR_VALUE, "beta must be 0 or more, not %g", beta);
    if (beta == 0) return dl_finish(c, dl_l1_loss(c->in[0], c->in[1], NULL, ATTR_S(c, LOSS_REDUCTION)));
    return dl_finish_row(c, dl_id_huber_difference, c->in, (double[]){beta, 1 / beta});
}

POOLED_RULE(huber_loss) {
    double delta = ATTR_F(c, HUBER_LOSS_DELTA);
    DL_TRY(dl_check_loss_pair(c));
    if (!(delta > 0)) return dl_fail(DL_ERR_VALUE, "delta must be above 0, not %g", delta);
    if (!INPUT(c, HUBER_LOSS_WEIGHT)) return dl_finish_row(c, dl_id_huber_difference, c->in, (double[]){delta, 1});
    dl_tensor *loss = K(weighted(K(dl_huber_difference(c->in[0], c->in[1], delta, 1)), INPUT(c, HUBER_LOSS_WEIGHT)));
    return loss ? dl_finish_loss(c, loss) : dl_failed();
}

/* The term of a probability of 0 is 0. */
POOLED_RULE(kl_div) {
    DL_TRY(dl_check_loss_pair(c));
    dl_reduction how = DL_REDUCE_SUM;
    bool each = !strcmp(ATTR_S(c, LOSS_REDUCTION), "batchmean");
    dl_tensor *x = c->in[0];
    if (!each) DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    const dl_op *row = dl_op_row(ATTR_I(c, KL_DIV_LOG_TARGET) ? dl_id_log_divergence : dl_id_divergence);
    dl_tensor *loss = K(dl_row_total(row, c->in, NULL, 0, how, each)); /* 16 bits may not hold a sum */
    if (!each) RESULT(loss);
    return dl_finish(c, dl_div(loss, N(x->ndim ? (double)x->shape[0] : 1)));
}

/* ---- labels */

/* Constants made of labels, by position [N,...]: which count, labels with 0 in place of the others, weight of each. */
typedef struct labels {
    dl_tensor *valid, *safe, *weight;
} labels;

static labels labels_of(dl_pool *p, dl_tensor *y, dl_tensor *w, long ignore, dl_dtype t) {
    labels l = {0};
    y = K(dl_to_dtype(y, DL_I64));
    if (!y) return l;
    l.valid = K(dl_ne(y, K(dl_scalar_i(ignore))));
    l.safe = K(dl_where(l.valid, y, K(dl_scalar_i(0))));
    l.weight = K(dl_to(l.valid, t));
    if (w && l.safe && l.weight) {
        dl_tensor *flat = K(dl_reshape(l.safe, &l.safe->numel, 1));
        dl_tensor *picked = K(dl_index_select(w, flat, 0));
        l.weight = K(dl_mul(l.weight, K(picked ? dl_reshape(picked, y->shape, y->ndim) : NULL)));
    }
    return l;
}

dl_tensor *dl_label_weights(dl_pool *p, dl_tensor *y, dl_tensor *w, long ignore, dl_dtype t) {
    return labels_of(p, y, w, ignore, t).weight;
}

/* Labels, or what belongs to them, with a dimension of size 1 for the classes. */
static dl_tensor *with_class_dim(dl_tensor *t) { return t ? dl_with_dim(t, t->ndim > 0) : NULL; }

/* The loss of log-probabilities; a weighted mean divides by the sum of the weights. */
POOLED_RULE(nll_loss) {
    dl_reduction how = DL_REDUCE_MEAN;
    dl_tensor *x = c->in[0], *y = c->in[1];
    DL_TRY(dl_reduction_of(ATTR(c, LOSS_REDUCTION), &how));
    if (x->ndim != y->ndim + 1)
        return dl_fail_hint(DL_ERR_SHAPE, "log-probabilities are [N,C,...] and labels [N,...]",
                            "labels of %d dimensions do not fit log-probabilities of %d", y->ndim, x->ndim);
    if (!dl_dtype_is_float(x->dtype)) return dl_fail(DL_ERR_DTYPE, "log-probabilities are floating numbers");
    for (int i = 0, k = 0; i < x->ndim; i++)
        if (i != (x->ndim > 1) && x->shape[i] != y->shape[k++])
            return dl_fail(DL_ERR_SHAPE, "the labels have shape %s, which does not fit log-probabilities of shape %s",
                           dl_shape_of(y), dl_shape_of(x));
    y = y->dtype == DL_I32 ? y : K(dl_to_dtype(y, DL_I64));
    const dl_kernel *k = dl_kernel_of(dl_op_row(dl_id_nll_picked), c->device);
    const bool own = k && k->run && k->dtypes >> x->dtype & 1; /* then it rounds once, in the dtype of x */
    struct dl_widening *widens = own ? dl_widening_swap(NULL) : NULL;
    dl_tensor *loss =
        dl_nll_picked(x, y, INPUT(c, NLL_LOSS_WEIGHT), ATTR_S(c, LOSS_REDUCTION), ATTR_I(c, NLL_LOSS_IGNORE_INDEX));
    if (own) dl_widening_swap(widens);
    return dl_finish(c, loss);
}

/* The same made of other ops, for gradients of its gradient. */
static dl_tensor *nll_objective(dl_back *b, dl_tensor **in, void *arg) {
    (void)arg;
    POOL;
    dl_reduction how = DL_REDUCE_MEAN;
    dl_tensor *x = in[DL_IN_NLL_PICKED_INPUT], *y = IN_(NLL_PICKED_TARGET), *w = in[DL_IN_NLL_PICKED_WEIGHT];
    if (!y || dl_reduction_of(ATTR(b, LOSS_REDUCTION), &how) != DL_OK) return NULL;
    labels l = labels_of(p, y, w, ATTR_I(b, NLL_PICKED_IGNORE_INDEX), x->dtype);
    dl_tensor *index = K(with_class_dim(l.safe));
    dl_tensor *picked = K(index ? dl_gather(x, index, x->ndim > 1) : NULL);
    dl_tensor *own = K(picked ? dl_reshape(picked, y->shape, y->ndim) : NULL);
    /* what is ignored is 0, and so is its gradient, whatever else there is */
    own = K(own ? dl_where(l.valid, own, N(0)) : NULL);
    dl_tensor *each = K(dl_mul(K(dl_neg(own)), l.weight));
    if (how != DL_REDUCE_NONE) each = K(dl_sum(each, NULL, 0, 0));
    if (how == DL_REDUCE_MEAN) each = K(dl_div(each, K(dl_sum(l.weight, NULL, 0, 0))));
    return each ? dl_plus_product(b, NULL, each, G0) : NULL;
}
GRAD_RULE(nll_picked) { return dl_grad_by_rerun(b, nll_objective, NULL); }

/* ---- cross-entropy
 * The target of a position is a vector over classes, t = (1 - s) w[y] onehot(y) + s / C w, or 0 where the label is
 * ignored; its loss is -sum(t * log_softmax(x)), whose gradient is sum(t) * softmax(x) - t. */

/* t, [N,C,...] like x. */
static dl_tensor *target_vector(dl_back *b, dl_pool *p, const labels *l, dl_tensor *w, const dl_tensor *x, double s) {
    int cls = x->ndim > 1;
    long dims[DL_MAX_DIM], shape[DL_MAX_DIM], classes = x->shape[cls];
    dl_dtype t = x->dtype;
    for (int i = 0; i < x->ndim; i++)
        dims[i] = i < cls ? i : i == cls ? x->ndim - 1 : i - 1; /* classes from last to cls */
    dl_tensor *hot = K(dl_one_hot(l->safe, classes));
    hot = hot ? K(dl_to(K(dl_permute(hot, dims, x->ndim)), t)) : NULL;
    hot = T(dl_mul(hot, K(with_class_dim(l->weight))));
    if (s == 0) return hot;
    dl_tensor *spread = T(with_class_dim(T(dl_to(l->valid, t))));
    if (w) {
        for (int i = 0; i < x->ndim; i++) shape[i] = i == cls ? classes : 1;
        spread = T(dl_mul(spread, T(dl_reshape(w, shape, x->ndim))));
    }
    spread = T(dl_mul(spread, T(dl_scalar_f(s / (double)classes))));
    return T(dl_add(T(dl_mul(hot, T(dl_scalar_f(1 - s)))), spread));
}

/* Targets in the shape of the logits are shares of the classes. */
COMPOSED_RULE(by_shares) {
    const dl_tensor *x = c->in[0], *y = c->in[1];
    return dl_dtype_is_float(y->dtype) && x->ndim && dl_shape_eq(x, y);
}

/* Weights count in the terms, and not in what the mean divides by. */
POOLED_RULE(cross_entropy) {
    dl_tensor *x = c->in[0], *t = c->in[1], *w = INPUT(c, CROSS_ENTROPY_WEIGHT);
    double smooth = ATTR_F(c, CROSS_ENTROPY_LABEL_SMOOTHING);
    long cls = x->ndim > 1, classes = x->shape[cls], shape[DL_MAX_DIM];
    if (!(smooth >= 0 && smooth <= 1))
        return dl_fail(DL_ERR_VALUE, "label_smoothing must lie between 0 and 1, not %g", smooth);
    if (w && (w->ndim != 1 || w->shape[0] != classes))
        return dl_fail(DL_ERR_SHAPE, "the class weights must have shape [%ld]", classes);
    if (smooth > 0) t = K(dl_add(K(dl_mul(t, N(1 - smooth))), N(smooth / (double)classes)));
    for (int i = 0; i < x->ndim; i++) shape[i] = i == cls ? classes : 1;
    if (w) t = K(dl_mul(t, K(dl_reshape(w, shape, x->ndim))));
    dl_tensor *each = K(dl_neg(K(dl_sum(K(dl_mul(t, K(dl_log_softmax(x, cls)))), &cls, 1, 0))));
    return dl_finish_loss(c, each);
}

GRAD_RULE(cross_entropy) {
    bool weighted = b->nin > DL_IN_CROSS_ENTROPY_WEIGHT && META(CROSS_ENTROPY_WEIGHT)->ndim;
    dl_tensor *x = IN_(CROSS_ENTROPY_INPUT), *y = IN_(CROSS_ENTROPY_TARGET), *g = G0;
    dl_tensor *w = weighted ? IN_(CROSS_ENTROPY_WEIGHT) : NULL;
    dl_reduction how = DL_REDUCE_MEAN;
    if (!x || !y) return dl_fail_null("the logits");
    const long cls = x->ndim > 1;
    DL_TRY(dl_reduction_of(ATTR(b, LOSS_REDUCTION), &how));
    dl_tensor *t, *total;
    {
        POOL;
        labels l = labels_of(p, y, w, ATTR_I(b, CROSS_ENTROPY_IGNORE_INDEX), x->dtype);
        t = l.weight ? target_vector(b, p, &l, w, x, ATTR_F(b, CROSS_ENTROPY_LABEL_SMOOTHING)) : NULL;
        total = t ? T(dl_sum(l.weight, NULL, 0, 0)) : NULL;
    }
    if (!total) return dl_fail_null("the targets");
    if (how == DL_REDUCE_MEAN) { /* where all are ignored, no gradient is divided by 0 */
        dl_tensor *none = T(dl_eq(total, T(dl_scalar_f(0))));
        g = T(dl_div(g, T(dl_where(none, T(dl_scalar_f(1)), total))));
    }
    if (how == DL_REDUCE_NONE) g = T(with_class_dim(g));
    dl_tensor *d = T(dl_sub(T(dl_mul(T(dl_softmax(x, cls)), T(dl_sum(t, &cls, 1, 1)))), t));
    return dl_give(b, 0, dl_mul(d, g));
}
