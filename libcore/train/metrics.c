/* Metrics of a split by ops that take all true values and predictions at once, so that they are exact whatever the
 * batches were. */
#include "core/scope.h"
#include "train/trainer.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_metric(const dl_op *op) { return op && op->flags & DL_F_METRIC; }

/* Metrics of true values and predictions; others are like a loss, of scores and targets. */
static bool takes_truth_first(const dl_op *op) { return !strcmp(op->in_name[0], "y_true"); }
static bool takes_labels(const dl_op *op) { return !strcmp(op->in_name[1], "y_pred"); }

/* ---------------------------------------------------------------- which ones */

/* Adds to a text of at most `size` bytes; what is longer is cut. */
__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *format, ...) {
    va_list more;
    size_t n = strlen(text);
    va_start(more, format);
    vsnprintf(text + n, size - n, format, more);
    va_end(more);
}

/* of=NAME: the target that is meant; where there is one, the output. */
static dl_status take_target(const dl_trainer *t, dl_chosen_metric *m, const char *name) {
    char hint[96];
    const char *const first = t->form.names[t->form.inputs];
    if (t->form.targets == 1) return snprintf(m->output, sizeof m->output, "%s", name), DL_OK;
    snprintf(hint, sizeof hint, "metrics=[\"%s of=%s\"]", m->op->name, *first ? first : "0");
    for (m->target = 0; *name && m->target < t->form.targets; m->target++) {
        char number[16];
        snprintf(number, sizeof number, "%d", m->target);
        if (!strcmp(name, t->form.names[t->form.inputs + m->target]) || !strcmp(name, number)) return DL_OK;
    }
    if (*name) return dl_fail_hint(DL_ERR_NAME, hint, "metric %s: there is no target '%s'", m->op->name, name);
    m->target = 0;
    return dl_fail_hint(DL_ERR_VALUE, hint,
                        "metric %s: samples have %d targets, and it does not say which one it is of", m->op->name,
                        t->form.targets);
}

static dl_status take_option(dl_chosen_metric *m, const char *word) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    if (!strchr(word, '=') || dl_attr_index(m->op, name) < 0)
        return dl_fail_hint(DL_ERR_NAME, "options are name=value, as in average=micro", "metric %s has no option '%s'",
                            m->op->name, name);
    add(m->attrs, sizeof m->attrs, " %s", word);
    return DL_OK;
}

/* Is each option's value one that the op takes, and the result one number, or one for each class? Two examples tell. */
static dl_status try_options(const dl_trainer *t, dl_chosen_metric *m) {
    const bool truth_first = takes_truth_first(m->op);
    if (!*m->attrs) return DL_OK;
    DL_OWNED dl_tensor *labels = dl_tensor_from(1, (long[]){2}, DL_I64, 0, (int64_t[]){0, 1});
    DL_OWNED dl_tensor *scores =
        dl_attr_index(m->op, "k") < 0 ? dl_ref(labels) : dl_full((long[]){2, 1 << 16}, 2, 0, DL_F32, 0);
    dl_tensor *in[2] = {truth_first ? labels : scores, truth_first ? scores : labels}, *out[DL_MAX_OUT] = {0};
    int nout;
    if (!labels || !scores) return dl_failed();
    dl_status st = dl_op_call(m->op->name, in, 2, m->attrs, out, &nout);
    if (st == DL_OK && out[0]->numel != 1) {
        m->figures = (int)dl_dataset_classes(t->data);
        if (!m->figures || t->form.targets > 1 || !strstr(m->attrs, "average=none"))
            st = dl_fail(DL_ERR_VALUE, "metric %s%s: a trainer's metric is one number, or one for each class",
                         m->op->name, m->attrs);
    }
    for (int i = 0; i < DL_MAX_OUT; i++) dl_unref(out[i]);
    return st;
}

/* "f1_score average=micro of=kind" */
static dl_status take_metric(const dl_trainer *t, dl_chosen_metric *m, const char *text) {
    char copy[160], *rest = copy, name[DL_FIELD_NAME] = "";
    if (strlen(text) >= sizeof copy) return dl_fail(DL_ERR_VALUE, "the metric '%.40s...' is too long", text);
    strcpy(copy, text);
    const char *word = strtok_r(copy, " ", &rest);
    if (!is_metric(m->op = word ? dl_op_find(word) : NULL))
        return dl_fail_hint(
            DL_ERR_NAME,
            "f1_score, roc_auc_score, r2_score, \"f1_score average=micro\" and other ops whose result is "
            "a number or one a class",
            "there is no metric '%s'", word ? word : "");
    while ((word = strtok_r(NULL, " ", &rest))) {
        if (!strncmp(word, "of=", 3))
            snprintf(name, sizeof name, "%s", word + 3);
        else
            DL_TRY(take_option(m, word));
    }
    m->figures = 1;
    DL_TRY(try_options(t, m));
    return take_target(t, m, name);
}

/* The name of the op, and what tells the metric from others: the target among several, and the values of its options
 * where the op is used twice. */
static void name_metric(dl_trainer *t, dl_chosen_metric *m) {
    const char *target = t->form.names[t->form.inputs + m->target];
    bool twice = false;
    for (int i = 0; i < t->nmetrics; i++)
        twice |= &t->metric[i] != m && t->metric[i].op == m->op && t->metric[i].target == m->target &&
                 !strcmp(t->metric[i].output, m->output);
    add(m->name, sizeof m->name, "%s", m->op->name);
    for (const char *at = m->attrs; twice && (at = strchr(at, '=')); at++)
        add(m->name, sizeof m->name, "_%.*s", (int)strcspn(at + 1, " "), at + 1);
    if (*m->output) add(m->name, sizeof m->name, "_%s", m->output);
    if (t->form.targets == 1) return;
    if (*target)
        add(m->name, sizeof m->name, "_%s", target);
    else
        add(m->name, sizeof m->name, "_%d", m->target);
}

/* "f1_score", or "f1_score_cat" of a class, in words that conditions and options take. */
static dl_status name_figures(dl_trainer *t) {
    char **name = t->figure_name = calloc((size_t)t->nfigures + 1, sizeof *name);
    t->figure = calloc((size_t)t->nfigures + 1, sizeof *t->figure);
    bool good = name && t->figure;
    for (int i = 0; good && i < t->nmetrics; i++)
        for (int c = 0; good && c < t->metric[i].figures; c++, name++) {
            char text[sizeof t->metric[i].name + 80];
            const char *of = t->metric[i].figures > 1 ? dl_dataset_class_name(t->data, c) : NULL;
            snprintf(text, sizeof text, "%s%s%.64s", t->metric[i].name, of ? "_" : "", of ? of : "");
            for (char *p = text + strlen(t->metric[i].name); *p; p++)
                if (!isalnum((unsigned char)*p) && !(*p & 0x80)) *p = '_';
            good = (*name = strdup(text)) != NULL;
        }
    return good ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for metrics");
}

dl_status dl_metrics_take(dl_trainer *t, const char *const *texts) {
    for (int n = 0; texts && texts[n]; n++) {
        if (n == DL_EVAL_METRICS) return dl_fail(DL_ERR_VALUE, "a trainer has at most %d metrics", DL_EVAL_METRICS);
        DL_TRY(take_metric(t, &t->metric[n], texts[n]));
        t->nmetrics++;
    }
    for (int i = 0; i < t->nmetrics; i++) {
        name_metric(t, &t->metric[i]);
        for (int k = 0; k < i; k++)
            if (!strcmp(t->metric[i].name, t->metric[k].name))
                return dl_fail(DL_ERR_VALUE, "the metric %s is given twice", t->metric[i].name);
        t->nfigures += t->metric[i].figures;
    }
    return name_figures(t);
}

void dl_metrics_free(dl_trainer *t) {
    for (int i = 0; t->figure_name && i < t->nfigures; i++) free(t->figure_name[i]);
    free(t->figure_name);
    free(t->figure);
}

/* ---------------------------------------------------------------- batches */

/* Outputs go with targets by name, or by position; a single output needs neither. */
static dl_tensor *output_for(const dl_trainer *t, const dl_chosen_metric *m, const dl_pack *result) {
    const int n = dl_pack_count(result);
    const bool by_target = t->form.targets > 1;
    const char *want = by_target ? t->form.names[t->form.inputs + m->target] : m->output;
    int at = by_target ? m->target : isdigit((unsigned char)*want) ? atoi(want) : n;
    for (int i = 0; *want && i < n; i++)
        if (dl_pack_name(result, i) && !strcmp(dl_pack_name(result, i), want)) return dl_pack_tensor(result, i);
    if (n == 1 && !*m->output) return dl_pack_tensor(result, 0);
    if (!dl_pack_name(result, 0) && at < n) return dl_pack_tensor(result, at);
    if (!by_target && !*want)
        return dl_fail_hint(DL_ERR_VALUE, "of=NAME, or of=0 of outputs without names",
                            "metric %s: the net gives %d outputs, and it does not say which one it is of", m->name, n),
               NULL;
    return dl_fail_hint(DL_ERR_NAME, by_target ? "outputs and targets that belong together have the same name" : "",
                        "metric %s: the net gives no output '%s'", m->name, want),
           NULL;
}

/* Full lists become one tensor each. */
static dl_status join(dl_collected *c) {
    dl_tensor *out = dl_cat(c->out, c->n, 0), *truth = out ? dl_cat(c->truth, c->n, 0) : NULL;
    if (!truth) return dl_unref(out), dl_failed();
    while (c->n) dl_unref(c->out[--c->n]), dl_unref(c->truth[c->n]);
    c->out[0] = out, c->truth[0] = truth, c->n = 1;
    return DL_OK;
}

dl_status dl_metrics_keep(const dl_trainer *t, dl_collected *all, const dl_pack *result, const dl_batch *b) {
    for (int i = 0; i < t->nmetrics; i++) {
        dl_collected *c = &all[i];
        dl_tensor *out = output_for(t, &t->metric[i], result);
        if (!out) return dl_failed();
        if (c->n == DL_COLLECTED) DL_TRY(join(c));
        dl_tensor *kept = dl_detach(out), *own = kept ? dl_clone(b->y[t->metric[i].target]) : NULL;
        if (!own) return dl_unref(kept), dl_failed();
        c->out[c->n] = kept, c->truth[c->n++] = own;
    }
    return DL_OK;
}

void dl_metrics_drop(dl_collected (*all)[DL_EVAL_METRICS]) {
    for (dl_collected *c = *all; c < *all + DL_EVAL_METRICS; c++)
        while (c->n) dl_unref(c->out[--c->n]), dl_unref(c->truth[c->n]);
}

/* ---------------------------------------------------------------- figures */

/* Integers against scores, one number a class. */
static bool are_class_scores(const dl_trainer *t, const dl_tensor *scores, const dl_tensor *truth) {
    return !dl_dtype_is_float((dl_dtype)truth->dtype) && scores->ndim == truth->ndim + 1 &&
           scores->shape[t->classes_last ? scores->ndim - 1 : 1] > 1;
}

/* Scores of classes at several places of an example as rows [places, classes], and their targets [places]. Takes both
 * references and gives others. */
static dl_status as_rows(const dl_trainer *t, dl_tensor **scores, dl_tensor **truth) {
    long order[DL_MAX_DIM], n = 0;
    const int last = (*scores)->ndim - 1;
    if (!are_class_scores(t, *scores, *truth) || last < 2) return DL_OK;
    for (int d = 0; d <= last; d++)
        if (d != (t->classes_last ? last : 1)) order[n++] = d;
    order[n] = t->classes_last ? last : 1;
    DL_OWNED dl_tensor *moved = dl_permute(*scores, order, last + 1);
    dl_tensor *rows = moved ? dl_reshape(moved, (long[]){-1, moved->shape[last]}, 2) : NULL;
    dl_tensor *labels = rows ? dl_reshape(*truth, (long[]){-1}, 1) : NULL;
    if (!labels) return dl_unref(rows), dl_failed();
    dl_unref(*scores), dl_unref(*truth);
    *scores = rows, *truth = labels;
    return DL_OK;
}

/* Scores as the metric takes them: classes for y_pred, one number an example for the scores of two classes. */
static dl_tensor *as_taken(const dl_op *op, dl_tensor *scores, bool classes) {
    const long dim = 1;
    if (!classes || !takes_truth_first(op)) return dl_ref(scores);
    if (takes_labels(op)) return dl_argmax(scores, &dim, 0);
    if (scores->shape[1] != 2 || dl_attr_index(op, "k") >= 0) return dl_ref(scores);
    DL_OWNED dl_tensor *one = dl_select(scores, 1, 1);
    DL_OWNED dl_tensor *zero = dl_select(scores, 1, 0);
    return dl_sub(one, zero);
}

/* One number an example is the score of class 1. Takes the reference and gives another. */
static dl_status as_row(const dl_trainer *t, const dl_op *op, dl_tensor **scores, const dl_tensor *truth) {
    DL_OWNED dl_tensor *row = dl_reshape(*scores, truth->shape, truth->ndim);
    DL_OWNED dl_tensor *limit = row && takes_labels(op) ? dl_scalar_f(dl_loss_threshold(t->loss_op)) : NULL;
    dl_tensor *taken = limit ? dl_gt(row, limit) : row && !takes_labels(op) ? dl_ref(row) : NULL;
    if (!taken) return dl_failed();
    dl_unref(*scores);
    *scores = taken;
    return DL_OK;
}

/* Labels against one number an example. */
static bool is_of_two(const dl_trainer *t, const dl_op *op, const dl_tensor *scores, const dl_tensor *truth) {
    return t->classes && takes_truth_first(op) && !dl_dtype_is_float((dl_dtype)truth->dtype) &&
           dl_dtype_is_float((dl_dtype)scores->dtype) && scores->numel == truth->numel;
}

/* The figures of a metric to value[m->figures]; those of the last classes are NaN where the samples have none. */
static dl_status compute(const dl_chosen_metric *m, dl_tensor *scores, dl_tensor *truth, bool classes, double *value) {
    char attrs[192];
    const bool many = classes && scores->shape[1] > 2;
    const bool macro = many && dl_attr_index(m->op, "average") >= 0 && !strstr(m->attrs, "average=");
    snprintf(attrs, sizeof attrs, "%s%s", m->attrs, macro ? " average=macro" : "");
    DL_OWNED dl_tensor *taken = as_taken(m->op, scores, classes);
    if (!taken) return dl_failed();
    dl_tensor *in[2] = {truth, taken}, *out[DL_MAX_OUT] = {0};
    if (!takes_truth_first(m->op)) in[0] = taken, in[1] = truth;
    int nout;
    DL_TRY(dl_op_call(m->op->name, in, 2, attrs, out, &nout));
    DL_OWNED dl_tensor *result = out[0];
    if (m->figures == 1) return dl_item_f(result, value);
    double *all = dl_data_alloc(result->numel, sizeof *all);
    dl_status st = all ? dl_read_f64(result, all) : dl_failed();
    for (int i = 0; st == DL_OK && i < m->figures; i++) value[i] = i < result->numel ? all[i] : NAN;
    free(all);
    return st;
}

dl_status dl_metrics_compute(const dl_trainer *t, dl_collected *all, dl_eval_result *r) {
    double *to = t->figure;
    for (int i = 0; i < t->nmetrics; to += t->metric[i++].figures) {
        const dl_chosen_metric *m = &t->metric[i];
        dl_collected *c = &all[i];
        DL_OWNED dl_tensor *scores = c->n ? dl_cat(c->out, c->n, 0) : NULL;
        DL_OWNED dl_tensor *truth = scores ? dl_cat(c->truth, c->n, 0) : NULL;
        if (!truth) return dl_failed();
        bool classes = are_class_scores(t, scores, truth);
        DL_TRY(as_rows(t, &scores, &truth));
        if (is_of_two(t, m->op, scores, truth)) DL_TRY(as_row(t, m->op, &scores, truth));
        DL_TRY(compute(m, scores, truth, classes, to));
    }
    r->nmetrics = t->nfigures, r->metric = t->figure, r->metric_name = (const char *const *)t->figure_name;
    return DL_OK;
}
