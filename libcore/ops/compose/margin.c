/* Losses by margins between scores, distances or angles. */
#include "ops/compose/compose.h"
#include "ops/compose/rows/row_sum.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/copy.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/unary.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/loss.h"

#include <math.h>

static const double zero = 0;

/* What of t is above 0. */
static dl_tensor *above(dl_pool *p, dl_tensor *t) { return K(dl_clamp(t, &zero, NULL)); }

/* Operand i has the shape of operand 0. */
static dl_status check_alike(const dl_call *c, int i) {
    const dl_tensor *x = c->in[0], *y = c->in[i];
    if (dl_shape_eq(x, y)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%s has shape %s, %s %s: a loss compares equal shapes", c->op->in_name[0],
                   dl_shape_of(x), c->op->in_name[i], dl_shape_of(y));
}

/* One number for each vector of operand 0. */
static dl_status check_rows(const dl_call *c, int i) {
    const dl_tensor *x = c->in[0], *y = c->in[i];
    if ((x->ndim == 1 && !y->ndim) || (x->ndim == 2 && y->ndim == 1 && x->shape[0] == y->shape[0])) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%s %s must be [N,D] or [D], and %s [N] or [], not %s", c->op->in_name[0],
                   dl_shape_of(x), c->op->in_name[i], dl_shape_of(y));
}

/* ---- distances */

static dl_tensor *distance(dl_pool *p, dl_tensor *a, dl_tensor *b, double power, double eps, int keep) {
    const long last = -1;
    dl_tensor *in[2] = {a, b};
    if (!dl_sums_powers(dl_id_difference_power, in, power))
        return K(dl_norm(K(dl_add(K(dl_sub(a, b)), N(eps))), &last, 1, keep, power));
    dl_tensor *root = K(dl_root_of_powers(dl_id_difference_power, in, power, eps, 1, true));
    return keep && root ? K(dl_with_dim(root, -1)) : root;
}

POOLED_RULE(pairwise_distance) {
    if (!c->in[0]->ndim || !c->in[1]->ndim) return dl_fail(DL_ERR_SHAPE, "distances are of vectors, not of numbers");
    dl_tensor *d = distance(p, c->in[0], c->in[1], ATTR_F(c, PAIRWISE_DISTANCE_P), ATTR_F(c, PAIRWISE_DISTANCE_EPS),
                            ATTR_I(c, PAIRWISE_DISTANCE_KEEPDIM) != 0);
    RESULT(d);
}

POOLED_RULE(triplet_margin_loss) {
    const double power = ATTR_F(c, TRIPLET_MARGIN_LOSS_P), eps = ATTR_F(c, TRIPLET_MARGIN_LOSS_EPS),
                 margin = ATTR_F(c, TRIPLET_MARGIN_LOSS_MARGIN);
    DL_TRY(check_alike(c, 1));
    DL_TRY(check_alike(c, 2));
    if (!c->in[0]->ndim) return dl_fail(DL_ERR_SHAPE, "distances are of vectors, not of numbers");
    if (!(margin > 0)) return dl_fail(DL_ERR_VALUE, "margin must be above 0, not %g", margin);
    dl_tensor *near = distance(p, c->in[0], c->in[1], power, eps, 0);
    dl_tensor *far = distance(p, c->in[0], c->in[2], power, eps, 0);
    if (ATTR_I(c, TRIPLET_MARGIN_LOSS_SWAP)) far = K(dl_minimum(far, distance(p, c->in[1], c->in[2], power, eps, 0)));
    return dl_finish_loss(c, above(p, K(dl_add(K(dl_sub(near, far)), N(margin)))));
}

/* ---- pairs with a target of 1 or -1 */

/* t where the target is `label`, else 0. */
static dl_tensor *where_label(dl_pool *p, dl_tensor *target, double label, dl_tensor *t) {
    return K(dl_where(K(dl_eq(target, N(label))), t, N(0)));
}

/* Squares of lengths have 1e-12 added, as PyTorch has it. */
POOLED_RULE(cosine_embedding_loss) {
    const long last = -1;
    dl_tensor *a = c->in[0], *b = c->in[1], *y = c->in[2], *eps = N(1e-12);
    DL_TRY(check_alike(c, 1));
    DL_TRY(check_rows(c, 2));
    dl_tensor *aa = K(dl_add(K(dl_square_sum(a, &last, 1, 0)), eps));
    dl_tensor *bb = K(dl_add(K(dl_square_sum(b, &last, 1, 0)), eps));
    dl_tensor *cosine = K(dl_div(K(dl_products_sum(a, b, last, true)), K(dl_sqrt(K(dl_mul(aa, bb))))));
    dl_tensor *far = above(p, K(dl_sub(cosine, N(ATTR_F(c, COSINE_EMBEDDING_LOSS_MARGIN)))));
    dl_tensor *near = where_label(p, y, 1, K(dl_sub(N(1), cosine)));
    return dl_finish_loss(c, K(dl_add(near, where_label(p, y, -1, far))));
}

/* A target that is neither 1 nor -1 counts as both, as in PyTorch. */
COMPOSE_RULE(hinge_embedding_loss) {
    DL_TRY(check_alike(c, 1));
    return dl_finish_row(c, dl_id_hinge_loss, c->in, &ATTR_F(c, HINGE_EMBEDDING_LOSS_MARGIN));
}

COMPOSE_RULE(soft_margin_loss) {
    DL_TRY(check_alike(c, 1));
    return dl_finish_row(c, dl_id_logistic_loss, c->in, NULL);
}

COMPOSE_RULE(margin_ranking_loss) {
    DL_TRY(check_alike(c, 1));
    DL_TRY(check_alike(c, 2));
    return dl_finish_row(c, dl_id_ranking_loss, c->in, &ATTR_F(c, MARGIN_RANKING_LOSS_MARGIN));
}

/* ---- scores of classes */

/* The own class is taken out by a mask, so that it adds neither loss nor gradient. */
POOLED_RULE(multi_margins) {
    dl_tensor *x = c->in[0], *y = c->in[1], *w = INPUT(c, MULTI_MARGINS_WEIGHT);
    const long last = -1, classes = x->shape[1], column[2] = {x->shape[0], 1};
    dl_tensor *index = K(dl_reshape(y, column, 2));
    dl_tensor *own = index ? K(dl_gather(x, index, last)) : NULL;
    dl_tensor *each = own ? K(dl_excess(x, K(dl_sub(own, N(ATTR_F(c, MULTI_MARGINS_MARGIN)))))) : NULL;
    if (ATTR_I(c, MULTI_MARGINS_P) == 2) each = K(dl_square(each));
    if (w) {
        dl_tensor *picked = K(dl_index_select(w, y, 0));
        each = K(dl_mul(each, picked ? K(dl_reshape(picked, column, 2)) : NULL));
    }
    dl_tensor *count = K(dl_arange(0, &(double){(double)classes}, 1, DL_I64, x->st->device));
    dl_tensor *is_own = count && index ? K(dl_eq(index, count)) : NULL;
    return dl_finish(c, is_own ? dl_mean(K(dl_where(is_own, N(0), each)), &last, 1, 0) : NULL);
}

/* Of [N,C] or [C] as [N,C], and the loss of each row back. */
static dl_tensor *as_rows(dl_pool *p, dl_tensor *t) {
    return t->ndim == 2 ? t : K(dl_reshape(t, (long[]){1, t->numel}, 2));
}
static dl_status finish_rows(dl_call *c, dl_pool *p, dl_tensor *each) {
    if (each && c->in[0]->ndim < 2) each = K(dl_reshape(each, (long[]){0}, 0));
    return dl_finish_loss(c, each);
}

POOLED_RULE(multi_margin_loss) {
    dl_tensor *x = c->in[0], *y = c->in[1], *w = INPUT(c, MULTI_MARGIN_LOSS_WEIGHT);
    const long power = ATTR_I(c, MULTI_MARGIN_LOSS_P);
    DL_TRY(check_rows(c, 1));
    DL_TRY(dl_check_index(y));
    if (!dl_dtype_is_float(x->dtype)) return dl_fail(DL_ERR_DTYPE, "scores are floating numbers");
    if (power != 1 && power != 2) return dl_fail(DL_ERR_VALUE, "p is 1 or 2, not %ld", power);
    const long classes = x->shape[x->ndim - 1];
    if (w && (w->ndim != 1 || w->shape[0] != classes))
        return dl_fail(DL_ERR_SHAPE, "the weight must have shape [%ld], one number a class", classes);
    x = as_rows(p, x), y = y->ndim ? y : K(dl_reshape(y, (long[]){1}, 1));
    if (w) w = K(dl_to_dtype(w, c->in[0]->dtype));
    const bool there = x && y && (w || !INPUT(c, MULTI_MARGIN_LOSS_WEIGHT));
    return finish_rows(c, p, there ? K(dl_multi_margins(x, y, w, power, ATTR_F(c, MULTI_MARGIN_LOSS_MARGIN))) : NULL);
}

/* Labels count up to the first -1. Each is compared with all classes that are not label: what is no label, or a label
 * among the others, is so far off that its gap is below 0. */
POOLED_RULE(multilabel_margins) {
    dl_tensor *x = c->in[0], *y = c->in[1];
    const long n = x->shape[0], classes = x->shape[1];
    dl_tensor *counts = K(dl_cumprod(K(dl_to(K(dl_ge(y, K(dl_scalar_i(0)))), DL_I64)), 1));
    dl_tensor *valid = K(dl_to(counts, DL_BOOL)), *safe = valid ? K(dl_where(valid, y, K(dl_scalar_i(0)))) : NULL;
    dl_tensor *none = K(dl_zeros(y->shape, 2, DL_I64, y->st->device));
    dl_tensor *labels = none && safe ? K(dl_scatter_reduce(none, safe, counts, 1, "amax", 1)) : NULL;
    dl_tensor *others = labels ? K(dl_where(K(dl_to(labels, DL_BOOL)), N(-INFINITY), x)) : NULL;
    dl_tensor *own = labels ? K(dl_where(valid, K(dl_sub(K(dl_gather(x, safe, 1)), N(1))), N(INFINITY))) : NULL;
    if (!others || !own) return dl_failed();
    dl_tensor *gap =
        K(dl_excess(K(dl_reshape(others, (long[]){n, 1, classes}, 3)), K(dl_reshape(own, (long[]){n, classes, 1}, 3))));
    dl_tensor *each = gap ? K(dl_sum(gap, (long[]){1, 2}, 2, 0)) : NULL;
    return dl_finish(c, each ? dl_div(each, N((double)classes)) : NULL);
}

POOLED_RULE(multilabel_margin_loss) {
    DL_TRY(check_alike(c, 1));
    DL_TRY(dl_check_index(c->in[1]));
    if (c->in[0]->ndim < 1 || c->in[0]->ndim > 2)
        return dl_fail(DL_ERR_SHAPE, "scores are [N,C] or [C], not %d-d", c->in[0]->ndim);
    if (!dl_dtype_is_float(c->in[0]->dtype)) return dl_fail(DL_ERR_DTYPE, "scores are floating numbers");
    dl_tensor *x = as_rows(p, c->in[0]), *y = as_rows(p, c->in[1]);
    return finish_rows(c, p, x && y ? K(dl_multilabel_margins(x, y)) : NULL);
}

POOLED_RULE(multilabel_soft_margin_loss) {
    dl_tensor *x = c->in[0], *y = c->in[1], *w = INPUT(c, MULTILABEL_SOFT_MARGIN_LOSS_WEIGHT);
    const long last = -1;
    DL_TRY(check_alike(c, 1));
    if (!x->ndim) return dl_fail(DL_ERR_SHAPE, "scores are [N,C] or [C], not one number");
    const dl_op *row = dl_op_row(dl_id_logit_loss);
    if (!w && dl_row_sums(row, c->in))
        return dl_finish_loss(c, K(dl_row_total(row, c->in, NULL, 1, DL_REDUCE_MEAN, true)));
    dl_tensor *yes = K(dl_mul(y, K(dl_logsigmoid(x)))), *no = K(dl_logsigmoid(K(dl_neg(x))));
    dl_tensor *each = K(dl_neg(K(dl_add(yes, K(dl_mul(K(dl_sub(N(1), y)), no))))));
    if (w) each = K(dl_mul(each, w));
    return dl_finish_loss(c, each ? K(dl_mean(each, &last, 1, 0)) : NULL);
}

POOLED_RULE(contrastive_loss) {
    dl_tensor *y = c->in[2];
    const long last = -1;
    DL_TRY(check_alike(c, 1));
    DL_TRY(check_rows(c, 2));
    dl_tensor *off = K(dl_sub(c->in[0], c->in[1])), *near = K(dl_sum(K(dl_square(off)), &last, 1, 0));
    dl_tensor *d = K(dl_norm(off, &last, 1, 0, 2));
    dl_tensor *far = K(dl_square(above(p, K(dl_sub(N(ATTR_F(c, CONTRASTIVE_LOSS_MARGIN)), d)))));
    return dl_finish_loss(c, K(dl_add(K(dl_mul(y, near)), K(dl_mul(K(dl_sub(N(1), y)), far)))));
}
