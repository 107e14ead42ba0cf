/* Figures of how far numbers are from the true ones, and of tables of classes as a whole, under scikit-learn's names.
 */
#include "ops/compose/metrics/metrics.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/metrics.h"

/* ---- numbers */

/* y_true - y_pred, in f64, and y_true. */
static dl_tensor *gap_of(dl_call *c, dl_pool *p, dl_tensor **truth) {
    if (dl_metric_check_sizes(c->in[0], c->in[1]) != DL_OK) return NULL;
    dl_tensor *guess = K(dl_to_dtype(c->in[1], DL_F64));
    *truth = K(dl_to_dtype(c->in[0], DL_F64));
    if (guess && !guess->numel) return dl_fail(DL_ERR_SHAPE, "there are no examples"), NULL;
    return guess && *truth ? K(dl_sub(*truth, guess)) : NULL;
}

/* The mean of what is computed of the differences. */
#define MEAN_RULE(name, of)                                                                                            \
    POOLED_RULE(name) {                                                                                                \
        dl_tensor *truth = NULL, *gap = gap_of(c, p, &truth), *each = gap ? (of) : NULL;                               \
        return dl_finish(c, each ? dl_mean(each, NULL, 0, 0) : NULL);                                                  \
    }
MEAN_RULE(mean_squared_error, K(dl_square(gap)))
MEAN_RULE(mean_absolute_error, K(dl_abs(gap)))
MEAN_RULE(mean_absolute_percentage_error,
          K(dl_div(K(dl_abs(gap)), K(dl_clamp(K(dl_abs(truth)), &(double){0x1p-52}, NULL)))))

/* Of columns each its own root. */
POOLED_RULE(root_mean_squared_error) {
    const long rows = 0;
    dl_tensor *truth = NULL, *gap = gap_of(c, p, &truth);
    if (!gap) return dl_failed();
    dl_tensor *each = K(dl_sqrt(K(dl_mean(K(dl_square(gap)), gap->ndim ? &rows : NULL, gap->ndim ? 1 : 0, 0))));
    return dl_finish(c, each ? dl_mean(each, NULL, 0, 0) : NULL);
}

/* The mean of both elements in the middle, of columns the mean of theirs. */
POOLED_RULE(median_absolute_error) {
    const long rows = 0;
    dl_tensor *truth = NULL, *gap = gap_of(c, p, &truth), *size = gap ? K(dl_abs(gap)) : NULL;
    dl_tensor *line = size && !size->ndim ? K(dl_reshape(size, (long[]){1}, 1)) : size;
    dl_tensor *middle = line ? K(dl_quantile(line, N(0.5), &rows, 0, "linear")) : NULL;
    return dl_finish(c, middle ? dl_mean(middle, NULL, 0, 0) : NULL);
}

POOLED_RULE(max_error) {
    dl_tensor *truth = NULL, *gap = gap_of(c, p, &truth);
    return dl_finish(c, gap ? dl_amax(K(dl_abs(gap)), NULL, 0, 0) : NULL);
}

/* As r2_score, of differences less their mean. */
POOLED_RULE(explained_variance_score) {
    const long rows = 0;
    dl_tensor *truth = NULL, *gap = gap_of(c, p, &truth);
    if (!gap) return dl_failed();
    if (!gap->ndim) return dl_fail(DL_ERR_SHAPE, "examples are a row, or rows of several numbers");
    dl_tensor *left = K(dl_var(gap, &rows, 1, 0, 0)), *spread = left ? K(dl_var(truth, &rows, 1, 0, 0)) : NULL;
    dl_tensor *still = K(dl_eq(spread, N(0))), *exact = K(dl_to_dtype(K(dl_eq(left, N(0))), DL_F64));
    dl_tensor *value = K(dl_sub(N(1), K(dl_div(left, spread))));
    return dl_finish(c, dl_mean(K(dl_where(still, exact, value)), NULL, 0, 0));
}

/* ---- tables of classes */

/* The table in f64, the sums of its rows and of its columns, and of its diagonal. */
typedef struct margins {
    dl_tensor *table, *there, *guessed, *right;
} margins;

static dl_status margins_of(dl_call *c, dl_pool *p, margins *m) {
    const long rows = 0, columns = 1;
    dl_tensor *table = dl_metric_table(p, c->in[0], c->in[1], 0);
    m->table = table ? K(dl_to_dtype(table, DL_F64)) : NULL;
    if (!m->table) return dl_failed();
    m->there = K(dl_sum(m->table, &columns, 1, 0)), m->guessed = K(dl_sum(m->table, &rows, 1, 0));
    m->right = K(dl_diagonal(m->table, 0, 0, 1));
    return m->there && m->guessed && m->right ? DL_OK : dl_failed();
}

static dl_tensor *total(dl_pool *p, dl_tensor *t) { return K(dl_sum(t, NULL, 0, 0)); }

/* Recall, a mean over the classes that occur; adjusted: 0 for guesses by chance. */
POOLED_RULE(balanced_accuracy_score) {
    margins m;
    DL_TRY(margins_of(c, p, &m));
    dl_tensor *occurs = K(dl_gt(m.there, N(0)));
    dl_tensor *recall = K(dl_div(K(dl_masked_select(m.right, occurs)), K(dl_masked_select(m.there, occurs))));
    dl_tensor *mean = recall ? K(dl_mean(recall, NULL, 0, 0)) : NULL;
    if (!mean) return dl_failed();
    if (!ATTR_I(c, BALANCED_ACCURACY_SCORE_ADJUSTED)) return dl_finish(c, dl_ref(mean));
    const double chance = 1 / (double)recall->numel;
    return dl_finish(c, dl_div(K(dl_sub(mean, N(chance))), N(1 - chance)));
}

/* Gorodkin's form for several classes; 0 where one of the sides has a single class. */
POOLED_RULE(matthews_corrcoef) {
    margins m;
    DL_TRY(margins_of(c, p, &m));
    dl_tensor *all = total(p, m.table), *square = K(dl_square(all));
    dl_tensor *top = K(dl_sub(K(dl_mul(total(p, m.right), all)), total(p, K(dl_mul(m.there, m.guessed)))));
    dl_tensor *left = K(dl_sub(square, total(p, K(dl_square(m.guessed)))));
    dl_tensor *right = K(dl_sub(square, total(p, K(dl_square(m.there)))));
    dl_tensor *below = left && right ? K(dl_mul(left, right)) : NULL, *none = below ? K(dl_eq(below, N(0))) : NULL;
    dl_tensor *value = none ? K(dl_div(top, K(dl_sqrt(below)))) : NULL;
    return dl_finish(c, value ? dl_where(none, K(dl_to_dtype(N(0), DL_F64)), value) : NULL);
}

/* 1 - disagreements / those of chance */
POOLED_RULE(cohen_kappa_score) {
    margins m;
    DL_TRY(margins_of(c, p, &m));
    dl_tensor *all = total(p, m.table);
    dl_tensor *chance = K(dl_sub(all, K(dl_div(total(p, K(dl_mul(m.there, m.guessed))), all))));
    return dl_finish(c, dl_sub(N(1), K(dl_div(K(dl_sub(all, total(p, m.right))), chance))));
}
