/* Figures of how well predictions fit, under scikit-learn's names and with its arguments. Counts are whole numbers and
 * quotients f64, so that they do not depend on the dtype of what is compared. */
#include "ops/compose/metrics/metrics.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/reduce.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/metrics.h"

#include <string.h>

/* ---- labels */

/* How labels are got from scores. */
static const char *labels_hint(const dl_tensor *scores) {
    bool column = scores->ndim < 2 || scores->shape[scores->ndim - 1] == 1;
    return !dl_dtype_is_float(scores->dtype) ? ""
           : column ? "scores of class 1 are labels by a comparison: scores.flatten() > 0, of probabilities > 0.5"
                    : "scores.argmax(1) are the labels with the highest scores";
}

dl_tensor *dl_metric_labels(dl_pool *p, dl_tensor *t) {
    if (dl_dtype_is_float(t->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, labels_hint(t), "labels are whole numbers or bools, not %s", dl_type_of(t)),
               NULL;
    return K(dl_reshape(K(dl_to_dtype(t, DL_I64)), (long[]){t->numel}, 1));
}

dl_status dl_metric_check_sizes(const dl_tensor *a, const dl_tensor *b) {
    if (dl_shape_eq(a, b)) return DL_OK;
    return dl_fail_hint(DL_ERR_SHAPE, b->ndim == a->ndim + 1 ? labels_hint(b) : "",
                        "there are %s true values and %s predictions", dl_shape_of(a), dl_shape_of(b));
}

/* One more than the largest label. DL_ERR_VALUE for a negative one. */
static dl_status count_classes(dl_pool *p, dl_tensor *t, long *n) {
    long least, most;
    if (!t) return dl_failed();
    if (!t->numel) return DL_OK;
    DL_TRY(dl_item_i(K(dl_amin(t, NULL, 0, 0)), &least));
    DL_TRY(dl_item_i(K(dl_amax(t, NULL, 0, 0)), &most));
    if (least < 0) return dl_fail(DL_ERR_VALUE, "labels must be 0 or more, not %ld", least);
    if (most >= 1 << 20) return dl_fail(DL_ERR_VALUE, "label %ld is too large for a table of classes", most);
    if (most >= *n) *n = most + 1;
    return DL_OK;
}

dl_tensor *dl_metric_table(dl_pool *p, dl_tensor *truth, dl_tensor *guess, long classes) {
    long n = classes > 0 ? classes : 0;
    if (dl_metric_check_sizes(truth, guess) != DL_OK) return NULL;
    truth = dl_metric_labels(p, truth), guess = truth ? dl_metric_labels(p, guess) : NULL;
    if (!guess || count_classes(p, truth, &n) != DL_OK || count_classes(p, guess, &n) != DL_OK) return NULL;
    if (classes > 0 && n > classes)
        return dl_fail(DL_ERR_VALUE, "label %ld does not exist among %ld classes", n - 1, classes), NULL;
    dl_tensor *cell = K(dl_add(K(dl_mul(truth, K(dl_scalar_i(n)))), guess));
    dl_tensor *count = cell ? K(dl_bincount(cell, NULL, n * n)) : NULL;
    return count ? K(dl_reshape(count, (long[]){n, n}, 2)) : NULL;
}

POOLED_RULE(confusion_matrix) {
    const dl_aval *classes = ATTR(c, CONFUSION_MATRIX_NUM_CLASSES);
    dl_tensor *table = dl_metric_table(p, c->in[0], c->in[1], classes->given ? classes->u.i : 0);
    RESULT(table);
}

POOLED_RULE(accuracy_score) {
    DL_TRY(dl_metric_check_sizes(c->in[0], c->in[1]));
    dl_tensor *truth = dl_metric_labels(p, c->in[0]), *guess = truth ? dl_metric_labels(p, c->in[1]) : NULL;
    dl_tensor *hit = guess ? K(dl_eq(truth, guess)) : NULL;
    return dl_finish(c, hit ? dl_mean(K(dl_to(hit, DL_F64)), NULL, 0, 0) : NULL);
}

/* ---- by classes: right ones, those predicted, those true */

typedef struct counts {
    dl_tensor *right, *guessed, *there;
} counts;

/* a / b, and 0 where b is 0. */
static dl_tensor *share(dl_pool *p, dl_tensor *a, dl_tensor *b) {
    dl_tensor *top = K(dl_to_dtype(a, DL_F64)), *bottom = K(dl_to_dtype(b, DL_F64));
    dl_tensor *none = bottom ? K(dl_eq(bottom, N(0))) : NULL, *quotient = none ? K(dl_div(top, bottom)) : NULL;
    return quotient ? K(dl_where(none, K(dl_to_dtype(N(0), DL_F64)), quotient)) : NULL;
}

typedef dl_tensor *(*score)(dl_pool *p, counts n, double beta);

static dl_tensor *precision(dl_pool *p, counts n, DL_UNUSED double beta) { return share(p, n.right, n.guessed); }
static dl_tensor *recall(dl_pool *p, counts n, DL_UNUSED double beta) { return share(p, n.right, n.there); }
static dl_tensor *fbeta(dl_pool *p, counts n, double beta) {
    const double square = beta * beta;
    return share(p, K(dl_mul(K(dl_to_dtype(n.right, DL_F64)), N(1 + square))),
                 K(dl_add(K(dl_to_dtype(n.guessed, DL_F64)), K(dl_mul(K(dl_to_dtype(n.there, DL_F64)), N(square))))));
}
static dl_tensor *jaccard(dl_pool *p, counts n, DL_UNUSED double beta) {
    return share(p, n.right, K(dl_sub(K(dl_add(n.guessed, n.there)), n.right)));
}

/* One figure of those of the classes: of class 1, of all examples together, or a mean over the classes that occur. */
static dl_tensor *averaged(dl_pool *p, counts n, score of, double beta, const char *how) {
    const long zero = 0;
    if (!strcmp(how, "micro")) {
        counts all = {K(dl_sum(n.right, NULL, 0, 0)), K(dl_sum(n.guessed, NULL, 0, 0)), K(dl_sum(n.there, NULL, 0, 0))};
        return all.right && all.guessed && all.there ? of(p, all, beta) : NULL;
    }
    dl_tensor *each = of(p, n, beta);
    if (!each || !strcmp(how, "none")) return each;
    if (!strcmp(how, "binary")) {
        if (each->numel > 2)
            return dl_fail_hint(DL_ERR_VALUE, "average=macro, micro, weighted or none is for more classes",
                                "there are %ld classes, and average=binary is for two", (long)each->numel),
                   NULL;
        return each->numel == 2 ? K(dl_select(each, 0, 1)) : K(dl_full(&zero, 0, 0, DL_F64, each->st->device));
    }
    dl_tensor *occur = K(dl_gt(K(dl_add(n.guessed, n.there)), K(dl_scalar_i(0))));
    dl_tensor *weight = !strcmp(how, "weighted") ? n.there : occur;
    dl_tensor *sum = K(dl_sum(K(dl_mul(each, K(dl_to_dtype(weight, DL_F64)))), NULL, 0, 0));
    return sum ? share(p, sum, K(dl_sum(weight, NULL, 0, 0))) : NULL;
}

static dl_status scored(dl_call *c, score of, double beta, const char *how) {
    POOL;
    static const char *const ways[] = {"binary", "micro", "macro", "weighted", "none"};
    const long rows = 0, columns = 1;
    int known = 0;
    for (int i = 0; i < 5; i++) known |= !strcmp(how, ways[i]);
    if (!known) return dl_fail(DL_ERR_VALUE, "average is binary, micro, macro, weighted or none, not '%s'", how);
    dl_tensor *table = dl_metric_table(p, c->in[0], c->in[1], 0);
    counts n = {.right = table ? K(dl_diagonal(table, 0, 0, 1)) : NULL};
    n.guessed = table ? K(dl_sum(table, &rows, 1, 0)) : NULL, n.there = table ? K(dl_sum(table, &columns, 1, 0)) : NULL;
    dl_tensor *result = n.right && n.guessed && n.there ? averaged(p, n, of, beta, how) : NULL;
    RESULT(result);
}
COMPOSE_RULE(precision_score) { return scored(c, precision, 1, ATTR_S(c, CLASSES_AVERAGE)); }
COMPOSE_RULE(recall_score) { return scored(c, recall, 1, ATTR_S(c, CLASSES_AVERAGE)); }
COMPOSE_RULE(f1_score) { return scored(c, fbeta, 1, ATTR_S(c, CLASSES_AVERAGE)); }
COMPOSE_RULE(fbeta_score) {
    const double beta = ATTR_F(c, FBETA_SCORE_BETA);
    if (!(beta > 0)) return dl_fail(DL_ERR_VALUE, "beta must be above 0, not %g", beta);
    return scored(c, fbeta, beta, ATTR_S(c, FBETA_SCORE_AVERAGE));
}
COMPOSE_RULE(jaccard_score) { return scored(c, jaccard, 1, ATTR_S(c, CLASSES_AVERAGE)); }

POOLED_RULE(top_k_accuracy_score) {
    dl_tensor *truth = c->in[0], *scores = c->in[1], *at = NULL;
    const long k = ATTR_I(c, TOP_K_ACCURACY_SCORE_K), last = -1;
    if (scores->ndim != 2 || truth->ndim != 1 || truth->shape[0] != scores->shape[0])
        return dl_fail(DL_ERR_SHAPE, "labels [N] and scores [N, C] are needed, not %s and %s", dl_shape_of(truth),
                       dl_shape_of(scores));
    truth = dl_metric_labels(p, truth);
    if (!truth) return dl_failed();
    dl_tensor *best = K(dl_topk(K(dl_detach(scores)), k, 1, 1, &at));
    K(at);
    dl_tensor *column = best ? K(dl_reshape(truth, (long[]){truth->numel, 1}, 2)) : NULL;
    dl_tensor *hit = column ? K(dl_any(K(dl_eq(at, column)), &last, 1, 0)) : NULL;
    return dl_finish(c, hit ? dl_mean(K(dl_to(hit, DL_F64)), NULL, 0, 0) : NULL);
}

/* ---- by scores of two classes */

dl_status dl_metric_two_classes(dl_call *c, dl_pool *p, dl_tensor **label, dl_tensor **score) {
    dl_tensor *truth = c->in[0], *scores = c->in[1];
    if (scores->ndim == truth->ndim + 1 && scores->shape[scores->ndim - 1] > 1)
        return dl_fail_hint(DL_ERR_SHAPE, "of class 1: (y_true == 1, scores[:, 1]); a mean over the classes is macro",
                            "%s is of two classes and takes one score an example; there are %s true values and %s "
                            "scores",
                            c->op->name, dl_shape_of(truth), dl_shape_of(scores));
    DL_TRY(dl_metric_check_sizes(truth, scores));
    long n = 0, ones;
    *label = dl_metric_labels(p, truth);
    DL_TRY(count_classes(p, *label, &n));
    if (n > 2) return dl_fail(DL_ERR_VALUE, "the true labels must be 0 or 1, not %ld", n - 1);
    *score = K(dl_reshape(K(dl_to_dtype(K(dl_detach(scores)), DL_F64)), (long[]){scores->numel}, 1));
    DL_TRY(dl_item_i(K(dl_sum(*label, NULL, 0, 0)), &ones));
    if (!ones || ones == (*label)->numel)
        return dl_fail(DL_ERR_VALUE, "the true labels are all %d: both classes must occur", ones ? 1 : 0);
    return *score ? DL_OK : dl_failed();
}

/* Sorted scores of all examples (or of the negative ones) and of the positive ones, in f64. */
static dl_status sides(dl_call *c, dl_pool *p, bool all, dl_tensor **others, dl_tensor **positive) {
    dl_tensor *label, *row;
    DL_TRY(dl_metric_two_classes(c, p, &label, &row));
    dl_tensor *is = K(dl_eq(label, K(dl_scalar_i(1)))), *mask = all ? NULL : K(dl_logical_not(is));
    dl_tensor *plus = is ? K(dl_masked_select(row, is)) : NULL, *rest = all ? row : K(dl_masked_select(row, mask));
    *positive = plus ? K(dl_sort(plus, 0, 0, NULL)) : NULL, *others = rest ? K(dl_sort(rest, 0, 0, NULL)) : NULL;
    return *positive && *others ? DL_OK : dl_failed();
}

/* The share of pairs of both classes in which the positive one has the higher score; of equal scores half. */
POOLED_RULE(roc_auc_score) {
    dl_tensor *negative, *positive;
    DL_TRY(sides(c, p, false, &negative, &positive));
    dl_tensor *below = K(dl_searchsorted(negative, positive, NULL, 0, 0, NULL));
    dl_tensor *upto = K(dl_searchsorted(negative, positive, NULL, 0, 1, NULL));
    dl_tensor *twice = below && upto ? K(dl_to(K(dl_sum(K(dl_add(below, upto)), NULL, 0, 0)), DL_F64)) : NULL;
    return dl_finish(c, dl_div(twice, N(2.0 * (double)negative->numel * (double)positive->numel)));
}

/* Mean over the positive examples of the precision of what has their score or a higher one. */
POOLED_RULE(average_precision_score) {
    dl_tensor *all, *positive;
    DL_TRY(sides(c, p, true, &all, &positive));
    dl_tensor *below = K(dl_searchsorted(all, positive, NULL, 0, 0, NULL));
    dl_tensor *right = K(dl_searchsorted(positive, positive, NULL, 0, 0, NULL));
    if (!below || !right) return dl_failed();
    dl_tensor *kept = K(dl_sub(K(dl_scalar_i(all->numel)), below)),
              *hits = K(dl_sub(K(dl_scalar_i(positive->numel)), right));
    return dl_finish(c, dl_mean(share(p, hits, kept), NULL, 0, 0));
}

/* ---- of numbers */

/* 1 - squares left / squares around the mean, a mean over columns; where nothing varies 1 for exact predictions, else
 * 0. */
POOLED_RULE(r2_score) {
    const long rows = 0;
    dl_tensor *truth = K(dl_to_dtype(c->in[0], DL_F64)), *guess = K(dl_to_dtype(c->in[1], DL_F64));
    DL_TRY(dl_metric_check_sizes(c->in[0], c->in[1]));
    if (!truth || !guess) return dl_failed();
    if (!truth->ndim || truth->shape[0] < 2) return dl_fail(DL_ERR_SHAPE, "r2 is of two examples or more");
    dl_tensor *left = K(dl_sum(K(dl_square(K(dl_sub(truth, guess)))), &rows, 1, 0));
    dl_tensor *spread = K(dl_sum(K(dl_square(K(dl_sub(truth, K(dl_mean(truth, &rows, 1, 1)))))), &rows, 1, 0));
    dl_tensor *still = K(dl_eq(spread, N(0))), *exact = K(dl_to_dtype(K(dl_eq(left, N(0))), DL_F64));
    dl_tensor *value = K(dl_sub(N(1), K(dl_div(left, spread))));
    return dl_finish(c, dl_mean(K(dl_where(still, exact, value)), NULL, 0, 0));
}

POOLED_RULE(perplexity) { return dl_finish(c, dl_exp(K(dl_cross_entropy(c->in[0], c->in[1], NULL, "mean", -100, 0)))); }
