/* `mistakes`: the samples of a split that a net is most wrong about, with their pictures: those taken for another
 * class, or where there are no classes, those with the largest losses. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/image.h"
#include "commands/nets/nets.h"
#include "dlcore/copy.h"
#include "dlcore/view.h"
#include "lang/session.h"
#include "view/sink.h"
#include "view/tensor.h"

enum { BATCH = 256, MOST = 64 };

typedef struct mistake {
    long index, truth, said;
    double share, truth_share, loss; /* probabilities of the answer and of the true class; the loss of the sample */
    dl_tensor *target, *given;       /* without classes: owned */
} mistake;

typedef struct search {
    const dlsh_args *a;
    dl_trainer *t;
    dl_dataset *data;
    dl_split which, split; /* of the data set, and as a trainer names it */
    int classes;
    double total; /* of the losses, without classes */
    mistake worst[MOST];
    long n, want, wrong, seen;
} search;

static int counts(const search *s, double loss) { return s->n < s->want || s->worst[s->n - 1].loss < loss; }

static void drop(search *s) {
    for (long i = 0; i < s->n; i++) DLSH_UNREF(s->worst[i].target, s->worst[i].given);
}

/* The largest losses first. Takes over the tensors of m. */
static void keep(search *s, mistake m) {
    if (!counts(s, m.loss)) return;
    if (s->n == s->want) DLSH_UNREF(s->worst[s->n - 1].target, s->worst[s->n - 1].given);
    long at = s->n < s->want ? s->n++ : s->want - 1;
    for (; at > 0 && s->worst[at - 1].loss < m.loss; at--) s->worst[at] = s->worst[at - 1];
    s->worst[at] = m;
}

/* Scores of classes, or one score that is above 0 for class 1. */
static void judge(search *s, const double *score, long classes, long index, long truth) {
    double both[2] = {0, *score}, most = -INFINITY, sum = 0;
    if (classes == 1) score = both, classes = 2;
    mistake m = {.index = index, .truth = truth};
    for (long k = 0; k < classes; k++)
        if (score[k] > most) most = score[k], m.said = k;
    for (long k = 0; k < classes; k++) sum += exp(score[k] - most);
    m.share = 1 / sum, m.truth_share = exp(score[truth] - most) / sum;
    m.loss = log(sum) - (score[truth] - most);
    s->seen++;
    if (m.said == truth) return;
    s->wrong++;
    keep(s, m);
}

/* The numbers in host memory as f64. */
static dl_tensor *near_f64(dl_tensor *t) {
    DLSH_OWNED dl_tensor *near = t ? dl_to_device(t, 0) : NULL, *wide = near ? dl_to_dtype(near, DL_F64) : NULL;
    return wide ? dl_contiguous(wide) : NULL;
}

static dl_status see_classes(void *ctx, const dl_evaluated *e) {
    search *s = ctx;
    long truth[BATCH];
    DLSH_OWNED dl_tensor *score = near_f64(dl_pack_tensor(e->result, 0));
    const long classes = dl_dataset_classes(s->data),
               each = score && dl_ndim(score) && dl_shape(score)[0] == e->n ? dl_numel(score) / e->n : 0;
    if (!score) return dl_failed();
    if (each != classes && !(each == 1 && classes == 2))
        return dlsh_arg_fail(s->a, "trainer", DL_ERR_SHAPE, NULL,
                             "the net gives %ld numbers a sample, not a score for each of the %ld classes", each,
                             classes);
    DLSH_OWNED dl_tensor *labels = dl_to_dtype(e->target[0], DL_I64);
    DLSH_TRY(labels ? dl_read(labels, truth) : dl_failed());
    for (long i = 0; i < e->n; i++) judge(s, (const double *)dl_data(score) + i * each, each, e->first + i, truth[i]);
    return dlsh_check_interrupt();
}

/* ---------------------------------------------------------------- without classes */

/* What the net gives, or the target, of a batch of one sample: a copy without that dimension, or NULL where it is none
 * tensor. */
static dl_tensor *of_sample(dl_tensor *t) {
    if (!t) return NULL;
    DLSH_OWNED dl_tensor *row = dl_ndim(t) && dl_shape(t)[0] == 1 ? dl_select(t, 0, 0) : dl_ref(t);
    return row ? dl_clone(row) : NULL;
}

static dl_status see_loss(void *ctx, const dl_evaluated *e) {
    search *s = ctx;
    const double loss = isnan(e->loss) ? INFINITY : e->loss;
    s->seen++, s->total += e->loss;
    if (!counts(s, loss)) return dlsh_check_interrupt();
    mistake m = {.index = e->first, .loss = loss};
    m.target = e->targets == 1 ? of_sample(e->target[0]) : NULL;
    m.given = dl_pack_count(e->result) == 1 ? of_sample(dl_pack_tensor(e->result, 0)) : NULL;
    keep(s, m);
    return dlsh_check_interrupt();
}

/* ---------------------------------------------------------------- what is shown */

static dlsh_value name_of(const search *s, long label) { return dlsh_string(dl_dataset_class_name(s->data, label)); }
static dlsh_value tensor_of(dl_tensor *t) { return t ? dlsh_tensor(dl_ref(t)) : dlsh_none(); }

static dlsh_value row_of(const search *s, const mistake *m) {
    if (!s->classes)
        return DLSH_RECORD_OF({"sample", dlsh_int(m->index)}, {"target", tensor_of(m->target)},
                              {"given", tensor_of(m->given)}, {"loss", dlsh_float(m->loss)});
    return DLSH_RECORD_OF({"sample", dlsh_int(m->index)}, {"is", name_of(s, m->truth)},
                          {"taken_for", name_of(s, m->said)}, {"p", dlsh_float(m->share)},
                          {"p_of_class", dlsh_float(m->truth_share)}, {"loss", dlsh_float(m->loss)});
}

static dl_status put_classes(const search *s) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"sample", 'r', ""}, {"is", 'l', ""}, {"taken for", 'l', ""}, {"p", 'r', "%.3g"},
                                     {"p of the class", 'r', "%.3g"}, {"loss", 'r', "%.4g"});
    for (long i = 0; i < s->n; i++) {
        const mistake *m = &s->worst[i];
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_int(m->index), name_of(s, m->truth), name_of(s, m->said), dlsh_float(m->share),
                                dlsh_float(m->truth_share), dlsh_float(m->loss)));
    }
    return dlsh_table_show(dlsh_arg_sink(s->a), &t, DL_OK, NULL);
}

/* One number, or the tensor in a line. */
static dlsh_value cell_of(const dl_tensor *t) {
    double number;
    if (!t) return dlsh_none();
    if (dl_numel(t) == 1 && dl_item_f(t, &number) == DL_OK) return dlsh_float(number);
    DLSH_SCOPED_BUF text = {0};
    dlsh_value v = dlsh_tensor_line(&text, t) == DL_OK ? dlsh_string(dlsh_buf_text(&text)) : dlsh_none();
    return v;
}

static dl_status put_losses(const search *s) {
    DLSH_SCOPED_TABLE t =
        DLSH_TABLE({"sample", 'r', ""}, {"target", 'r', "%.4g"}, {"given", 'r', "%.4g"}, {"loss", 'r', "%.4g"});
    for (long i = 0; i < s->n; i++) {
        const mistake *m = &s->worst[i];
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_int(m->index), cell_of(m->target), cell_of(m->given), dlsh_float(m->loss)));
    }
    return dlsh_table_show(dlsh_arg_sink(s->a), &t, DL_OK, NULL);
}

/* "4 for 9", or "loss 0.31". */
static void caption(const search *s, const mistake *m, dlsh_buf *text) {
    if (s->classes)
        dlsh_buf_printf(text, "%s for %s", dl_dataset_class_name(s->data, m->said),
                        dl_dataset_class_name(s->data, m->truth));
    else
        dlsh_buf_printf(text, "loss %.3g", m->loss);
}

/* The samples with their captions. */
static dl_status put_pictures(const search *s) {
    long index[MOST];
    dlsh_buf text[MOST] = {{0}};
    const char *captions[MOST];
    dl_tensor *x[DL_NET_INPUTS] = {NULL}, *y[DL_NET_INPUTS] = {NULL};
    for (long i = 0; i < s->n; i++) {
        index[i] = s->worst[i].index;
        caption(s, &s->worst[i], &text[i]);
        captions[i] = dlsh_buf_text(&text[i]);
    }
    dl_status st = dl_dataset_gather(s->data, s->which, index, s->n, x, y);
    if (!st) st = dlsh_show_pictures(dlsh_arg_sink(s->a), x[0], captions);
    for (int i = 0; i < DL_NET_INPUTS; i++) DLSH_UNREF(x[i], y[i]);
    for (long i = 0; i < s->n; i++) dlsh_buf_free(&text[i]);
    return st;
}

static dl_status list(const search *s, dlsh_value *result) {
    DLSH_DROPPED dlsh_value l = dlsh_new_list(s->n);
    for (long i = 0; i < s->n; i++) DLSH_TRY(dlsh_append(l, row_of(s, &s->worst[i])));
    return dlsh_hand_over(&l, result);
}

static dl_status show(const search *s) {
    dlsh_sink *sink = dlsh_arg_sink(s->a);
    if (s->n) DLSH_TRY(s->classes ? put_classes(s) : put_losses(s));
    if (dlsh_sink_look(sink).mode != DLSH_MODE_TABLE) return DL_OK;
    if (s->n && dl_dataset_ndim(s->data) >= 2) DLSH_TRY(put_pictures(s));
    if (s->classes)
        dlsh_put(sink, "%ld of %ld samples are taken for another class\n", s->wrong, s->seen);
    else
        dlsh_put(sink, "the largest losses of %ld samples; the mean is %.4g\n", s->seen, s->total / (double)s->seen);
    return DL_OK;
}

static dl_status check_n(const search *s) {
    if (s->want >= 1 && s->want <= MOST) return DL_OK;
    return dlsh_arg_fail(s->a, "n", DL_ERR_VALUE, NULL, "n=%ld; it is 1 to %d", s->want, MOST);
}

static dl_status check_split(const search *s, const char *split) {
    if (s->data && dl_dataset_len(s->data, s->which)) return DL_OK;
    return dlsh_arg_fail(s->a, "split", DL_ERR_VALUE,
                         dl_trainer_held(s->t) ? "split=val, or split=train"
                                               : "split=train; give the data set a test split for others",
                         "the trainer has no %s samples", split);
}

static dl_status mistakes_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class);
    const char *split = dlsh_arg_str(a, "split");
    const int held = !strcmp(split, "val"), train = !strcmp(split, "train");
    search s = {.a = a, .t = t, .want = dlsh_arg_int(a, "n"), .which = train ? DL_TRAIN : DL_TEST};
    s.data = held ? dl_trainer_held(t) : dl_trainer_dataset(t);
    s.split = held ? DL_VAL : s.which;
    DLSH_TRY(check_n(&s));
    DLSH_TRY(check_split(&s, split));
    dl_batch_form form = *dl_loader_form(dl_trainer_loader(t));
    s.classes = dl_dataset_classes(s.data) && form.inputs == 1 && form.targets == 1;
    dl_status st = s.classes ? dl_trainer_eval_batches(t, s.split, BATCH, see_classes, &s)
                             : dl_trainer_eval_batches(t, s.split, 1, see_loss, &s);
    if (!st) st = dlsh_arg_called(a) ? list(&s, result) : show(&s);
    drop(&s);
    return st;
}

const dlsh_command mistakes_commands[] = {
    DLSH_ROW("mistakes", DLSH_REPORT | DLSH_FUNCTION, mistakes_run, "mistakes TRAINER [n=8] [split=test]",
             "The samples of a split that the net is most wrong about, the largest losses first. Of data with classes: "
             "those that the net takes for another class, with the class, what the net takes it for, the probability "
             "that it gives both, and the pictures with \"4 for 9\" below a 9 that was taken for a 4. Of other data: "
             "the target, what the net gives, and the trainer's loss of the sample alone. As a function a list of "
             "records.",
             DLSH_PARAMS({"trainer", .want = "trainer", .doc = "what has trained the net"}),
             DLSH_OPTIONS({"n", DLSH_OPT_INT, "8", .doc = "at most so many"},
                          {"split", DLSH_OPT_WORD, "test", .doc = "test, train, or val: what val= holds out",
                           .complete = "test|train|val"}),
             .examples = "mistakes t\nmistakes t n=3 split=train"),
    {0}};
