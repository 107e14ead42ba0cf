/* `mistakes`: the samples of a split that a net is most wrong about, with their pictures. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/image.h"
#include "commands/nets/nets.h"
#include "lang/session.h"
#include "view/sink.h"

enum { BATCH = 256, MOST = 64 };

typedef struct mistake {
    long index, truth, said;
    double share, truth_share, loss; /* probabilities of the answer and of the true class; the loss of the sample */
} mistake;

typedef struct search {
    const dlsh_args *a;
    dl_trainer *t;
    dl_dataset *data;
    dl_split which;
    mistake worst[MOST];
    long n, want, wrong, seen;
} search;

/* The largest losses first. */
static void keep(search *s, mistake m) {
    if (s->n == s->want && s->worst[s->n - 1].loss >= m.loss) return;
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

/* What the net makes of a batch, as f64 in host memory. */
static dl_tensor *scores_of(search *s, dl_tensor *x) {
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *there = dl_to_device(x, dlsh_net_device(dl_trainer_model(s->t)));
    DLSH_ENDED(dl_pack_unref)
    dl_pack *in = there ? dl_pack_new(&there, 1, NULL, NULL) : NULL,
            *out = in ? dl_module_call(dl_trainer_model(s->t), in) : NULL;
    dl_tensor *y = out ? dl_pack_tensor(out, 0) : NULL, *near = y ? dl_to_device(y, 0) : NULL,
              *wide = near ? dl_to_dtype(near, DL_F64) : NULL, *dense = wide ? dl_contiguous(wide) : NULL;
    dl_unref(near);
    dl_unref(wide);
    return dense;
}

static dl_status judge_batch(search *s, long from, long n) {
    long index[BATCH], truth[BATCH];
    dl_tensor *x[DL_NET_INPUTS] = {NULL}, *y[DL_NET_INPUTS] = {NULL};
    for (long i = 0; i < n; i++) index[i] = from + i;
    DLSH_TRY(dl_dataset_gather(s->data, s->which, index, n, x, y));
    DLSH_OWNED dl_tensor *score = scores_of(s, x[0]);
    const long classes = dl_dataset_classes(s->data),
               each = score && dl_ndim(score) && dl_shape(score)[0] == n ? dl_numel(score) / n : 0;
    dl_status st = score ? DL_OK : dl_failed();
    if (!st && each != classes && !(each == 1 && classes == 2))
        st =
            dlsh_arg_fail(s->a, "trainer", DL_ERR_SHAPE, NULL,
                          "the net gives %ld numbers a sample, not a score for each of the %ld classes", each, classes);
    if (!st) st = dl_read(y[0], truth);
    for (long i = 0; !st && i < n; i++) judge(s, (const double *)dl_data(score) + i * each, each, from + i, truth[i]);
    for (int i = 0; i < DL_NET_INPUTS; i++) DLSH_UNREF(x[i], y[i]);
    return st ? st : dlsh_check_interrupt();
}

static dl_status find(search *s) {
    dl_module *m = dl_trainer_model(s->t);
    const long have = dl_dataset_len(s->data, s->which);
    const int training = dl_module_training(m);
    dl_status st = DL_OK;
    dl_module_train(m, 0);
    for (long from = 0; !st && from < have; from += BATCH)
        st = judge_batch(s, from, have - from < BATCH ? have - from : BATCH);
    dl_module_train(m, training);
    return st;
}

/* ---------------------------------------------------------------- what is shown */

static dlsh_value row_of(const search *s, const mistake *m) {
    return DLSH_RECORD_OF({"sample", dlsh_int(m->index)}, {"is", dlsh_string(dl_dataset_class_name(s->data, m->truth))},
                          {"taken_for", dlsh_string(dl_dataset_class_name(s->data, m->said))},
                          {"p", dlsh_float(m->share)}, {"p_of_class", dlsh_float(m->truth_share)},
                          {"loss", dlsh_float(m->loss)});
}

static dl_status put_table(const search *s) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"sample", 'r', ""}, {"is", 'l', ""}, {"taken for", 'l', ""}, {"p", 'r', "%.3g"},
                                     {"p of the class", 'r', "%.3g"}, {"loss", 'r', "%.4g"});
    for (long i = 0; i < s->n; i++) {
        const mistake *m = &s->worst[i];
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_int(m->index), dlsh_string(dl_dataset_class_name(s->data, m->truth)),
                                dlsh_string(dl_dataset_class_name(s->data, m->said)), dlsh_float(m->share),
                                dlsh_float(m->truth_share), dlsh_float(m->loss)));
    }
    return dlsh_table_show(dlsh_arg_sink(s->a), &t, DL_OK, NULL);
}

/* The samples with "4 for 9" below them. */
static dl_status put_pictures(const search *s) {
    long index[MOST];
    dlsh_buf text[MOST] = {{0}};
    const char *captions[MOST];
    dl_tensor *x[DL_NET_INPUTS] = {NULL}, *y[DL_NET_INPUTS] = {NULL};
    for (long i = 0; i < s->n; i++) {
        index[i] = s->worst[i].index;
        dlsh_buf_printf(&text[i], "%s for %s", dl_dataset_class_name(s->data, s->worst[i].said),
                        dl_dataset_class_name(s->data, s->worst[i].truth));
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
    if (s->n) DLSH_TRY(put_table(s));
    const int pictures = dl_dataset_ndim(s->data) >= 2;
    if (s->n && pictures && dlsh_sink_look(sink).mode == DLSH_MODE_TABLE) DLSH_TRY(put_pictures(s));
    if (dlsh_sink_look(sink).mode == DLSH_MODE_TABLE)
        dlsh_put(sink, "%ld of %ld samples are taken for another class\n", s->wrong, s->seen);
    return DL_OK;
}

static dl_status mistakes_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class);
    search s = {.a = a, .t = t, .want = dlsh_arg_int(a, "n")};
    const char *split = dlsh_arg_str(a, "split");
    s.data = !strcmp(split, "val") ? dl_trainer_held(t) : dl_trainer_dataset(t);
    s.which = strcmp(split, "train") ? DL_TEST : DL_TRAIN;
    if (s.want < 1 || s.want > MOST)
        return dlsh_arg_fail(a, "n", DL_ERR_VALUE, NULL, "n=%ld; it is 1 to %d", s.want, MOST);
    if (!s.data || !dl_dataset_len(s.data, s.which))
        return dlsh_arg_fail(a, "split", DL_ERR_VALUE,
                             dl_trainer_held(t) ? "split=val, or split=train"
                                                : "split=train; give the data set a test split for others",
                             "the trainer has no %s samples", split);
    dl_batch_form form = *dl_loader_form(dl_trainer_loader(t));
    if (!dl_dataset_classes(s.data) || form.inputs != 1 || form.targets != 1)
        return dlsh_arg_fail(a, "trainer", DL_ERR_VALUE, NULL,
                             "mistakes are of nets with one input that tell classes; this data has %s",
                             dl_dataset_classes(s.data) ? "several inputs or targets" : "no classes");
    DLSH_TRY(find(&s));
    return dlsh_arg_called(a) ? list(&s, result) : show(&s);
}

const dlsh_command mistakes_commands[] = {
    DLSH_ROW("mistakes", DLSH_REPORT | DLSH_FUNCTION, mistakes_run, "mistakes TRAINER [n=8] [split=test]",
             "The samples of a split that the net takes for another class, the largest losses first: the class, what "
             "the net takes it for, the probability that it gives both, and the pictures with \"4 for 9\" below a 9 "
             "that was taken for a 4. As a function a list of records.",
             DLSH_PARAMS({"trainer", .want = "trainer", .doc = "what has trained the net"}),
             DLSH_OPTIONS({"n", DLSH_OPT_INT, "8", .doc = "at most so many"},
                          {"split", DLSH_OPT_WORD, "test", .doc = "test, train, or val: what val= holds out",
                           .complete = "test|train|val"}),
             .examples = "mistakes t\nmistakes t n=3 split=train"),
    {0}};
