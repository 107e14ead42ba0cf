/* Curves over all thresholds of scores, and figures of probabilities, under scikit-learn's names. */
#include "ops/compose/metrics/metrics.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "ops/rules/metrics.h"

#include <math.h>

/* ---- curves */

/* For each score that occurs, from the highest: how many examples of class 1 and of class 0 have it or a higher one. */
typedef struct steps {
    dl_tensor *hits, *misses, *score;
} steps;

/* Elements i of t, given by a mask. */
static dl_tensor *chosen(dl_pool *p, dl_tensor *t, dl_tensor *mask) { return K(dl_masked_select(t, mask)); }

/* t[1:] and t[:-1] */
static dl_tensor *after(dl_pool *p, dl_tensor *t) { return K(dl_slice(t, 0, &(long){1}, NULL, 1)); }
static dl_tensor *before(dl_pool *p, dl_tensor *t) { return K(dl_slice(t, 0, NULL, &(long){-1}, 1)); }

static dl_tensor *yes(dl_pool *p, const dl_tensor *like) {
    return K(dl_ones((long[]){1}, 1, DL_BOOL, like->st->device));
}

static dl_status steps_of(dl_call *c, dl_pool *p, steps *s) {
    dl_tensor *label, *score, *order = NULL;
    DL_TRY(dl_metric_two_classes(c, p, &label, &score));
    dl_tensor *sorted = K(dl_sort(score, 0, 1, &order));
    K(order);
    dl_tensor *is = sorted ? K(dl_index_select(label, order, 0)) : NULL, *last = is ? yes(p, is) : NULL;
    dl_tensor *changes = last ? K(dl_ne(after(p, sorted), before(p, sorted))) : NULL;
    dl_tensor *ends = changes ? K(dl_cat((dl_tensor *[]){changes, last}, 2, 0)) : NULL;
    dl_tensor *hits = ends ? K(dl_cumsum(is, 0)) : NULL;
    dl_tensor *all = hits ? K(dl_cumsum(K(dl_to(ends, DL_I64)), 0)) : NULL; /* only for its shape */
    dl_tensor *count = all ? K(dl_cumsum(K(dl_ones(all->shape, 1, DL_I64, all->st->device)), 0)) : NULL;
    if (!count) return dl_failed();
    s->hits = chosen(p, hits, ends), s->score = chosen(p, sorted, ends);
    s->misses = s->hits ? K(dl_sub(chosen(p, count, ends), s->hits)) : NULL;
    return s->misses && s->score ? DL_OK : dl_failed();
}

/* Where the curve turns: points between two others on a straight line are left out. */
static dl_tensor *turns(dl_pool *p, const steps *s) {
    dl_tensor *row[2] = {s->hits, s->misses}, *bent = NULL, *end = yes(p, s->hits);
    for (int i = 0; i < 2; i++) {
        dl_tensor *slope = K(dl_sub(after(p, row[i]), before(p, row[i])));
        dl_tensor *other = slope ? K(dl_ne(after(p, slope), before(p, slope))) : NULL;
        bent = bent ? K(dl_logical_or(bent, other)) : other;
        if (!bent) return NULL;
    }
    return end ? K(dl_cat((dl_tensor *[]){end, bent, end}, 3, 0)) : NULL;
}

/* first, then t as f64, divided; NULL passes. */
static dl_tensor *begun(dl_pool *p, double first, dl_tensor *t, double by) {
    dl_tensor *head = t ? K(dl_full((long[]){1}, 1, first, DL_F64, t->st->device)) : NULL;
    dl_tensor *row = head ? K(dl_div(K(dl_to_dtype(t, DL_F64)), N(by))) : NULL;
    return row ? dl_cat((dl_tensor *[]){head, row}, 2, 0) : NULL;
}

static dl_status last_of(dl_pool *p, dl_tensor *t, double *out) { return dl_item_f(K(dl_select(t, 0, -1)), out); }

POOLED_RULE(roc_curve) {
    steps s;
    double hits, misses;
    DL_TRY(steps_of(c, p, &s));
    DL_TRY(last_of(p, s.hits, &hits));
    DL_TRY(last_of(p, s.misses, &misses));
    if (ATTR_I(c, ROC_CURVE_DROP_INTERMEDIATE) && s.hits->numel > 2) {
        dl_tensor *keep = turns(p, &s);
        if (!keep) return dl_failed();
        s = (steps){chosen(p, s.hits, keep), chosen(p, s.misses, keep), chosen(p, s.score, keep)};
    }
    c->out[0] = begun(p, 0, s.misses, misses), c->out[1] = begun(p, 0, s.hits, hits);
    c->out[2] = begun(p, INFINITY, s.score, 1);
    return c->out[0] && c->out[1] && c->out[2] ? DL_OK : dl_failed();
}

/* From the lowest threshold on; the curve ends at precision 1 and recall 0, for which there is no threshold. */
POOLED_RULE(precision_recall_curve) {
    steps s;
    double hits;
    const long row = 0;
    DL_TRY(steps_of(c, p, &s));
    DL_TRY(last_of(p, s.hits, &hits));
    dl_tensor *hit = K(dl_to_dtype(s.hits, DL_F64)), *all = K(dl_to_dtype(K(dl_add(s.hits, s.misses)), DL_F64));
    dl_tensor *precision = hit && all ? K(dl_div(hit, all)) : NULL;
    dl_tensor *both[2] = {K(begun(p, 1, precision, 1)), K(begun(p, 0, s.hits, hits))};
    for (int i = 0; i < 2 && both[i]; i++) { /* the point without a threshold is the last */
        dl_tensor *rest = K(dl_flip(after(p, both[i]), &row, 1)), *end = K(dl_slice(both[i], 0, NULL, &(long){1}, 1));
        c->out[i] = rest && end ? dl_cat((dl_tensor *[]){rest, end}, 2, 0) : NULL;
    }
    c->out[2] = c->out[0] && c->out[1] ? dl_flip(s.score, &row, 1) : NULL;
    return c->out[2] ? DL_OK : dl_failed();
}

/* Of a curve that goes one way: to the left is below 0. */
POOLED_RULE(auc) {
    dl_tensor *x = K(dl_to_dtype(c->in[0], DL_F64)), *y = K(dl_to_dtype(c->in[1], DL_F64));
    if (!x || !y) return dl_failed();
    DL_TRY(dl_metric_check_sizes(c->in[0], c->in[1]));
    if (x->ndim != 1 || x->numel < 2) return dl_fail(DL_ERR_SHAPE, "a curve has two points or more, in one row");
    long up, down;
    dl_tensor *step = K(dl_sub(after(p, x), before(p, x)));
    DL_TRY(dl_item_i(K(dl_any(K(dl_gt(step, N(0))), NULL, 0, 0)), &up));
    DL_TRY(dl_item_i(K(dl_any(K(dl_lt(step, N(0))), NULL, 0, 0)), &down));
    if (up && down) return dl_fail(DL_ERR_VALUE, "x goes up and down: a curve goes one way");
    dl_tensor *area = K(dl_trapezoid(y, x, 1, -1));
    return dl_finish(c, area && down ? dl_neg(area) : area ? dl_ref(area) : NULL);
}

/* ---- probabilities */

/* Probabilities of all classes, [N,C], from those of class 1 or from a matrix; between the precision of their dtype and
 * 1, with sum 1. */
static dl_tensor *shares(dl_pool *p, dl_tensor *t) {
    const double eps = t->dtype == DL_F64 ? 0x1p-52 : t->dtype == DL_F32 ? 0x1p-23 : 0x1p-10, upto = 1 - eps;
    const long last = -1;
    long wrong = 0;
    dl_tensor *x = K(dl_to_dtype(K(dl_detach(t)), DL_F64));
    dl_tensor *out = x ? K(dl_logical_or(K(dl_lt(x, N(0))), K(dl_gt(x, N(1))))) : NULL;
    if (!out || dl_item_i(K(dl_any(out, NULL, 0, 0)), &wrong) != DL_OK) return NULL;
    if (wrong)
        return dl_fail_hint(DL_ERR_VALUE, "scores become probabilities by softmax(x, 1) or sigmoid(x)",
                            "probabilities are from 0 to 1"),
               NULL;
    if (x->ndim == 1) x = K(dl_stack((dl_tensor *[]){K(dl_sub(N(1), x)), x}, 2, 1));
    x = x ? K(dl_clamp(x, &eps, &upto)) : NULL;
    return x ? K(dl_div(x, K(dl_sum(x, &last, 1, 1)))) : NULL;
}

POOLED_RULE(log_loss) {
    dl_tensor *truth = c->in[0], *guess = c->in[1];
    if (truth->ndim != 1 || guess->ndim < 1 || guess->ndim > 2 || guess->shape[0] != truth->shape[0])
        return dl_fail(DL_ERR_SHAPE,
                       "labels [N] and probabilities [N, C], or [N] of class 1, are needed, not %s and %s",
                       dl_shape_of(truth), dl_shape_of(guess));
    dl_tensor *label = dl_metric_labels(p, truth), *share = label ? shares(p, guess) : NULL;
    dl_tensor *at = share ? K(dl_reshape(label, (long[]){label->numel, 1}, 2)) : NULL;
    dl_tensor *loss = at ? K(dl_neg(K(dl_log(K(dl_gather(share, at, 1)))))) : NULL;
    if (!loss) return dl_failed();
    return dl_finish(c, ATTR_I(c, LOG_LOSS_NORMALIZE) ? dl_mean(loss, NULL, 0, 0) : dl_sum(loss, NULL, 0, 0));
}

POOLED_RULE(brier_score_loss) {
    DL_TRY(dl_metric_check_sizes(c->in[0], c->in[1]));
    dl_tensor *label = dl_metric_labels(p, c->in[0]), *share = label ? K(dl_to_dtype(c->in[1], DL_F64)) : NULL;
    dl_tensor *row = share ? K(dl_reshape(share, (long[]){share->numel}, 1)) : NULL;
    return dl_finish(c, row ? dl_mean(K(dl_square(K(dl_sub(row, label)))), NULL, 0, 0) : NULL);
}
