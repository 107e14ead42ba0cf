/* Metrics of a split by ops that take all true values and predictions at once, so that they are exact whatever the
 * batches were. */
#include "core/scope.h"
#include "train/trainer.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The row of "f1_score average=micro", and where its attributes begin. */
static const dl_op *row_of(const char *text, char name[64], const char **attrs) {
    size_t n = strcspn(text, " ");
    snprintf(name, 64, "%.*s", (int)(n < 63 ? n : 63), text);
    *attrs = text + n;
    return dl_op_find(name);
}

static bool is_metric(const dl_op *op) {
    return op && op->in_name[1] && (!strcmp(op->in_name[0], "y_true") || !strcmp(op->name, "perplexity"));
}

dl_status dl_metrics_take(dl_trainer *t, const char *const *texts) {
    char name[64];
    const char *attrs;
    for (int n = 0; texts && texts[n]; n++) {
        if (n == DL_EVAL_METRICS) return dl_fail(DL_ERR_VALUE, "a trainer has at most %d metrics", DL_EVAL_METRICS);
        if (!is_metric(row_of(texts[n], name, &attrs)))
            return dl_fail_hint(DL_ERR_NAME, "f1_score, roc_auc_score, r2_score, \"f1_score average=micro\", ...",
                                "there is no metric '%s'", name);
        if (!(t->metric[n] = strdup(texts[n]))) return dl_fail(DL_ERR_MEMORY, "no memory for a name");
    }
    return DL_OK;
}

void dl_metrics_release(dl_trainer *t) {
    for (int i = 0; i < DL_EVAL_METRICS; i++) free(t->metric[i]);
}

dl_status dl_metrics_keep(dl_collected *c, dl_tensor *out, dl_tensor *truth) {
    if (c->n == DL_MAX_IN)
        return dl_fail(DL_ERR_VALUE, "metrics are computed of at most %d batches; larger ones are needed", DL_MAX_IN);
    dl_tensor *kept = dl_detach(out), *own = kept ? dl_clone(truth) : NULL;
    if (!own) return dl_unref(kept), dl_failed();
    c->out[c->n] = kept, c->truth[c->n++] = own;
    return DL_OK;
}

void dl_metrics_drop(dl_collected *c) {
    while (c->n) dl_unref(c->out[--c->n]), dl_unref(c->truth[c->n]);
}

/* Scores as the metric takes them: classes for y_pred, one number an example for the scores of two classes. */
static dl_tensor *as_taken(const dl_trainer *t, const dl_op *op, dl_tensor *scores) {
    const bool pairs = scores->ndim == 2 && scores->shape[1] == 2 && dl_attr_index(op, "k") < 0;
    const long dim = t->classes_last ? -1 : 1;
    if (!t->classes || !strcmp(op->name, "perplexity")) return dl_ref(scores);
    if (!strcmp(op->in_name[1], "y_pred")) return dl_argmax(scores, &dim, 0);
    if (!pairs) return dl_ref(scores);
    DL_OWNED dl_tensor *one = dl_select(scores, 1, 1);
    DL_OWNED dl_tensor *zero = dl_select(scores, 1, 0);
    return dl_sub(one, zero);
}

static dl_status compute(const dl_trainer *t, const char *text, dl_tensor *scores, dl_tensor *truth, double *value) {
    char name[64], attrs[192];
    const char *given;
    const dl_op *op = row_of(text, name, &given);
    const bool many = t->classes && scores->ndim > 1 && scores->shape[t->classes_last ? scores->ndim - 1 : 1] > 2;
    const bool macro = many && dl_attr_index(op, "average") >= 0 && !strstr(given, "average=");
    snprintf(attrs, sizeof attrs, "%.150s%s", given, macro ? " average=macro" : "");
    DL_OWNED dl_tensor *taken = as_taken(t, op, scores);
    if (!taken) return dl_failed();
    dl_tensor *in[2] = {truth, taken}, *out[DL_MAX_OUT] = {0};
    if (!strcmp(name, "perplexity")) in[0] = taken, in[1] = truth;
    int nout;
    DL_TRY(dl_op_call(name, in, 2, attrs, out, &nout));
    DL_OWNED dl_tensor *result = out[0];
    return dl_item_f(result, value);
}

dl_status dl_metrics_compute(const dl_trainer *t, dl_collected *c, dl_eval_result *r) {
    DL_OWNED dl_tensor *scores = c->n ? dl_cat(c->out, c->n, 0) : NULL;
    DL_OWNED dl_tensor *truth = scores ? dl_cat(c->truth, c->n, 0) : NULL;
    if (!truth) return dl_failed();
    for (; r->nmetrics < DL_EVAL_METRICS && t->metric[r->nmetrics]; r->nmetrics++) {
        r->metric_name[r->nmetrics] = t->metric[r->nmetrics];
        DL_TRY(compute(t, t->metric[r->nmetrics], scores, truth, &r->metric[r->nmetrics]));
    }
    return DL_OK;
}
