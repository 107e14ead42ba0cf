/* Data: dataset, loader, and the handles they give. */
#include "commands/data/data.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/data/fields.h"
#include "commands/data/samples.h"
#include "lang/batch.h"
#include "lang/session.h"
#include "view/sink.h"
#include "dlcore/index.h"
#include "dlcore/view.h"

/* ---------------------------------------------------------------- making handles */

static dlsh_value split_value(dl_dataset *d, dl_split which) {
    dlsh_split *s = dl_memory_alloc(1, sizeof *s);
    if (s) *s = (dlsh_split){dl_dataset_ref(d), which};
    return dlsh_new_handle(&dlsh_split_class, s);
}

static void destroy_dataset(void *self) { dl_dataset_unref(self); }
static void destroy_loader(void *self) { dl_loader_free(self); }
static void destroy_split(void *self) {
    dl_dataset_unref(((dlsh_split *)self)->data);
    free(self);
}

static size_t held_by_split(void *self) { return dlsh_dataset_held(((dlsh_split *)self)->data); }
static size_t held_by_loader(void *self) { return dlsh_dataset_held(dl_loader_dataset(self)); }

static const char *split_name(dl_split which) { return which == DL_TEST ? "test" : "train"; }

/* ---------------------------------------------------------------- small values */

static dlsh_value list_of(const long *shape, int n) {
    dlsh_value v = dlsh_new_list(n);
    for (int i = 0; !dlsh_failed(v) && i < n; i++) v.as.list->items[v.as.list->n++] = dlsh_int(shape[i]);
    return v;
}

/* A batch as [x, y], on the default device; takes the tensors. */
static dl_status pair_list(const dl_batch_form *f, dlsh_fields *b, dlsh_value *out) {
    dl_status st = dlsh_fields_place(b);
    if (st == DL_OK)
        st = dlsh_give(dlsh_list_of((dlsh_value[]){dlsh_fields_value(f, 0, b->x), dlsh_fields_value(f, 1, b->y)}, 2),
                       out);
    if (st == DL_OK) out->as.list->names = dlsh_batch_names, out->as.list->nnames = 2;
    dlsh_fields_drop(b);
    return st;
}

/* "f32[1,28,28]" */
static const char *kind_of(dl_dtype t, int ndim, const long *shape, char *buf, size_t size) {
    int n = snprintf(buf, size, "%s[", dl_dtype_name(t));
    for (int i = 0; i < ndim; i++) n += snprintf(buf + n, size - (size_t)n, i ? ",%ld" : "%ld", shape[i]);
    snprintf(buf + n, size - (size_t)n, "]");
    return buf;
}

/* Of all inputs, or all targets, as batches have them: "f32[3], mask u8[3]". */
static void kinds_of(const dl_dataset *d, int targets, char *buf, size_t size) {
    const dl_batch_form *f = dl_dataset_form(d);
    int from = targets ? f->inputs : 0, n = targets ? f->targets : f->inputs;
    size_t at = 0;
    for (int i = from; i < from + n; i++) {
        char kind[160];
        dl_net_input in = dl_dataset_field(d, i);
        kind_of(in.dtype, in.ndim, in.shape, kind, sizeof kind);
        int k =
            snprintf(buf + at, size - at, "%s%s%s%s", i > from ? ", " : "", f->names[i], *f->names[i] ? " " : "", kind);
        if (k > 0 && at + (size_t)k < size) at += (size_t)k;
    }
}

/* ---------------------------------------------------------------- showing */

static dl_status text_dataset(void *self, struct dlsh_buf *out) {
    dl_dataset *d = self;
    dlsh_buf_printf(out, "<dataset %s: train %ld, test %ld>", dl_dataset_name(d), dl_dataset_len(d, DL_TRAIN),
                    dl_dataset_len(d, DL_TEST));
    return DL_OK;
}

static dl_status text_split(void *self, struct dlsh_buf *out) {
    dlsh_split *s = self;
    dlsh_buf_printf(out, "<split %s of %s: %ld samples>", split_name(s->which), dl_dataset_name(s->data),
                    dl_dataset_len(s->data, s->which));
    return DL_OK;
}

static dl_status text_loader(void *self, struct dlsh_buf *out) {
    dl_loader *l = self;
    long epoch, batch;
    dl_loader_position(l, &epoch, &batch);
    dlsh_buf_printf(out, "<loader %s of %s: %ld batches of %ld, at epoch %ld, batch %ld>",
                    split_name(dl_loader_split(l)), dl_dataset_name(dl_loader_dataset(l)), dl_loader_len(l),
                    dl_loader_batch(l), epoch, batch);
    return DL_OK;
}

static dl_status show_facts(dlsh_sink *sink, dl_dataset *d) {
    char sample[600], target[600];
    kind_of(dl_dataset_dtype(d), dl_dataset_ndim(d), dl_dataset_shape(d), sample, sizeof sample);
    if (dl_dataset_form(d)->inputs > 1) kinds_of(d, 0, sample, sizeof sample);
    if (dl_dataset_classes(d))
        snprintf(target, sizeof target, "one of %ld classes", dl_dataset_classes(d));
    else
        kinds_of(d, 1, target, sizeof target);
    const dlsh_entry facts[] = {{"name", dlsh_string(dl_dataset_name(d))},
                                {*dl_dataset_options(d) ? "options" : NULL, dlsh_string(dl_dataset_options(d))},
                                {"sample", dlsh_string(sample)},
                                {"target", dlsh_string(target)},
                                {"fingerprint", dlsh_string(dl_dataset_fingerprint(d))}};
    dlsh_table t = DLSH_TABLE({"dataset", 'l', ""}, {"value", 'l', ""});
    return dlsh_table_show(sink, &t, dlsh_table_entries(&t, facts, DLSH_COUNT(facts)), NULL);
}

/* An end of a range: integers in full where a float holds them exactly. */
static dlsh_value range_end(const dl_dataset *d, double v) {
    if (dl_dataset_slow(d)) return dlsh_none();
    int whole = dl_dataset_batch_dtype(d) == DL_I64 && fabs(v) < 9007199254740992.0;
    return whole ? dlsh_int((long)v) : dlsh_float(v);
}

/* The range leaves NaN out, so they are named. */
static dl_status show_nan(dlsh_sink *sink, dl_dataset *d, dl_split split) {
    long x = 0, y = 0;
    if (!dl_dataset_slow(d)) DLSH_TRY(dl_dataset_count_nan(d, split, &x, &y));
    if (x) dlsh_put(sink, "x of %s has %ld NaN\n", split_name(split), x);
    if (y) dlsh_put(sink, "y of %s has %ld NaN\n", split_name(split), y);
    return DL_OK;
}

static dl_status show_splits(dlsh_sink *sink, dl_dataset *d, int from, int to) {
    dlsh_table t = DLSH_TABLE({"split", 'l', ""}, {"samples", 'r', ""}, {"x", 'l', ""}, {"y", 'l', ""},
                              {"min", 'r', "%.4g"}, {"max", 'r', "%.4g"});
    dl_status st = DL_OK;
    for (int s = from; st == DL_OK && s < to; s++) {
        double lo = NAN, hi = NAN; /* not measured where it takes long */
        char x[600], y[600];
        if (!dl_dataset_slow(d) && (st = dl_dataset_range(d, (dl_split)s, &lo, &hi)) != DL_OK) break;
        kinds_of(d, 0, x, sizeof x);
        kinds_of(d, 1, y, sizeof y);
        st = DLSH_TABLE_ROW(&t, dlsh_string(split_name((dl_split)s)), dlsh_int(dl_dataset_len(d, (dl_split)s)),
                            dlsh_string(x), dlsh_string(y), range_end(d, lo), range_end(d, hi));
    }
    DLSH_TRY(dlsh_table_show(sink, &t, st, NULL));
    for (int s = from; s < to; s++) DLSH_TRY(show_nan(sink, d, (dl_split)s));
    return DL_OK;
}

enum { MANY_CLASSES = 40 };

/* How many samples each class has; of very many classes only the first ones. */
static dl_status show_classes(dlsh_sink *sink, dl_dataset *d) {
    long n = dl_dataset_classes(d), shown = n > MANY_CLASSES ? MANY_CLASSES : n;
    DLSH_FREED long *counts = calloc((size_t)n * 2, sizeof *counts);
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"class", 'l', ""}, {"train", 'r', ""}, {"test", 'r', ""});
    if (!counts) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to count %ld classes", n);
    DLSH_TRY(dl_dataset_counts(d, DL_TRAIN, counts));
    DLSH_TRY(dl_dataset_counts(d, DL_TEST, counts + n));
    for (long i = 0; i < shown; i++)
        DLSH_TRY(
            DLSH_TABLE_ROW(&t, dlsh_string(dl_dataset_class_name(d, i)), dlsh_int(counts[i]), dlsh_int(counts[n + i])));
    DLSH_TRY(dlsh_table_show(sink, &t, DL_OK, NULL));
    if (shown < n) dlsh_put(sink, "... and %ld more classes\n", n - shown);
    return DL_OK;
}

static dl_status show_dataset(void *self, struct dlsh_sink *sink) {
    DLSH_TRY(show_facts(sink, self));
    DLSH_TRY(show_splits(sink, self, DL_TRAIN, DL_TEST + 1));
    return dl_dataset_classes(self) && !dl_dataset_slow(self) ? show_classes(sink, self) : DL_OK;
}

static dl_status show_split(void *self, struct dlsh_sink *sink) {
    dlsh_split *p = self;
    return show_splits(sink, p->data, p->which, p->which + 1);
}

/* ---------------------------------------------------------------- fields */

DLSH_GETTER(get_train, split_value(self, DL_TRAIN))
DLSH_GETTER(get_test, split_value(self, DL_TEST))
DLSH_GETTER(get_name, dlsh_string(dl_dataset_name(self)))
DLSH_GETTER(get_options, dlsh_string(dl_dataset_options(self)))
DLSH_GETTER(get_print, dlsh_string(dl_dataset_fingerprint(self)))
DLSH_GETTER(get_classes, dlsh_int(dl_dataset_classes(self)))
/* Of one sample; of several inputs a list of shapes. */
static dl_status get_shape(void *self, dlsh_value *out) {
    int n = dl_dataset_form(self)->inputs;
    DLSH_DROPPED dlsh_value all = n > 1 ? dlsh_new_list(n) : list_of(dl_dataset_shape(self), dl_dataset_ndim(self));
    for (int i = 0; n > 1 && i < n; i++) {
        dl_net_input f = dl_dataset_field(self, i);
        DLSH_TRY(dlsh_append(all, list_of(f.shape, f.ndim)));
    }
    return dlsh_hand_over(&all, out);
}
static dl_status get_names(void *self, dlsh_value *out) {
    DLSH_DROPPED dlsh_value v = dlsh_new_list(0);
    for (long i = 0; i < dl_dataset_classes(self); i++)
        DLSH_TRY(dlsh_append(v, dlsh_string(dl_dataset_class_name(self, i))));
    return dlsh_hand_over(&v, out);
}
static dl_status get_skipped(void *self, dlsh_value *out) {
    const char *const *paths;
    long n = dl_dataset_skipped(self, &paths);
    DLSH_DROPPED dlsh_value v = dlsh_new_list(0);
    for (long i = 0; i < n; i++) DLSH_TRY(dlsh_append(v, dlsh_string(paths[i])));
    return dlsh_hand_over(&v, out);
}
static dl_status len_dataset(void *self, long *out) {
    *out = dl_dataset_len(self, DL_TRAIN) + dl_dataset_len(self, DL_TEST);
    return DL_OK;
}

static const dlsh_field dataset_fields[] = {
    {"train", "the training split", get_train, NULL},
    {"test", "the test split", get_test, NULL},
    {"classes", "number of classes; 0 for a regression", get_classes, NULL},
    {"names", "names of the classes", get_names, NULL},
    {"shape", "of one sample", get_shape, NULL},
    {"name", "the kind of data", get_name, NULL},
    {"options", "what it was made with", get_options, NULL},
    {"fingerprint", "SHA-256 of the contents", get_print, NULL},
    {"skipped", "files that could not be read and are left out", get_skipped, NULL},
    {0}};

/* The samples index[n], on the default device. */
static dl_status gather(const dlsh_split *s, const long *index, long n, dlsh_fields *b) {
    *b = (dlsh_fields){{NULL}, {NULL}};
    DLSH_TRY(dl_dataset_gather(s->data, s->which, index, n, b->x, b->y));
    return dlsh_fields_place(b);
}

static dl_status whole_split(const dlsh_split *s, dlsh_fields *b) {
    long n = dl_dataset_len(s->data, s->which);
    DLSH_FREED long *index = dl_memory_alloc(n, sizeof *index);
    if (!index) return DL_ERR_MEMORY;
    for (long i = 0; i < n; i++) index[i] = i;
    return gather(s, index, n, b);
}

static dl_status split_tensor(void *self, int targets, dlsh_value *out) {
    dlsh_fields b;
    DLSH_TRY(whole_split(self, &b));
    const dl_batch_form *form = dl_dataset_form(((dlsh_split *)self)->data);
    dl_status st = dlsh_give(dlsh_fields_value(form, targets, targets ? b.y : b.x), out);
    dlsh_fields_drop(&b);
    return st;
}
static dl_status split_x(void *self, dlsh_value *out) { return split_tensor(self, 0, out); }
static dl_status split_y(void *self, dlsh_value *out) { return split_tensor(self, 1, out); }
DLSH_GETTER(split_data, dlsh_new_handle(&dlsh_dataset_class, dl_dataset_ref(((dlsh_split *)self)->data)))
static dl_status split_counts(void *self, dlsh_value *out) {
    dlsh_split *s = self;
    long n = dl_dataset_classes(s->data);
    DLSH_FREED long *counts = malloc(sizeof *counts * (size_t)(n ? n : 1));
    if (!counts) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to count %ld classes", n);
    DLSH_TRY(dl_dataset_counts(s->data, s->which, counts));
    return dlsh_give(list_of(counts, (int)n), out);
}
static dl_status len_split(void *self, long *out) {
    dlsh_split *s = self;
    *out = dl_dataset_len(s->data, s->which);
    return DL_OK;
}

static const dlsh_field split_fields[] = {{"x", "all samples as one tensor", split_x, NULL},
                                          {"y", "all targets as one tensor", split_y, NULL},
                                          {"counts", "samples of each class", split_counts, NULL},
                                          {"dataset", "the set it is a part of", split_data, NULL},
                                          {0}};

/* d.train[5]: a record of one sample. */
static dl_status one_sample(const dlsh_split *s, long i, dlsh_value *out) {
    dlsh_fields b;
    DLSH_TRY(gather(s, &i, 1, &b));
    return dlsh_fields_sample(dl_dataset_form(s->data), &b, out);
}

/* A mask as the list of the numbers of samples that it is true for; a new reference. */
static dl_status chosen_by_mask(dl_tensor *mask, long samples, dlsh_value *out) {
    const char *hint = "a mask is bool and has an element for each sample; numbers of samples are a list of ints";
    if (samples < 0)
        return dlsh_fail(DL_ERR_TYPE, "subset(d, mask) chooses samples",
                         "a mask chooses samples of a split, which is not known here");
    if (dl_ndim(mask) != 1)
        return dlsh_fail(DL_ERR_SHAPE, hint, "a mask of samples has one dimension, not %d", dl_ndim(mask));
    if (dl_numel(mask) != samples)
        return dlsh_fail(DL_ERR_SHAPE, hint, "the mask has %ld elements, and there are %ld samples", dl_numel(mask),
                         samples);
    dl_tensor *at = dl_nonzero(mask), *flat = at ? dl_reshape(at, (long[]){-1}, 1) : NULL;
    dl_unref(at);
    return dlsh_give(dlsh_tensor(flat), out);
}

dl_status dlsh_indices(struct dlsh_session *s, dlsh_value key, long samples, long **index, long *n) {
    dlsh_iter it;
    *index = NULL, *n = 0;
    if (key.type == DLSH_TENSOR && dl_dtype_of(key.as.tensor) == DL_BOOL) {
        DLSH_DROPPED dlsh_value chosen = dlsh_void();
        DLSH_TRY(chosen_by_mask(key.as.tensor, samples, &chosen));
        return dlsh_indices(s, chosen, samples, index, n);
    }
    DLSH_TRY(dlsh_iter_begin(s, key, &it));
    long most = it.n;
    dl_status st = (*index = dl_memory_alloc(most, sizeof **index)) ? DL_OK : DL_ERR_MEMORY;
    for (int done = 0; st == DL_OK && *n < most;) {
        DLSH_DROPPED dlsh_value v = dlsh_void();
        long at = 0;
        if ((st = dlsh_iter_next(s, &it, &v, &done)) != DL_OK || done) break;
        if (v.type == DLSH_INT)
            at = v.as.i;
        else if (v.type == DLSH_TENSOR && !dl_ndim(v.as.tensor) && !dl_dtype_is_float(dl_dtype_of(v.as.tensor)))
            st = dl_item_i(v.as.tensor, &at);
        else
            st =
                dlsh_fail(DL_ERR_TYPE, NULL, "index %ld of the list is a %s; samples have ints", *n, dlsh_type_name(v));
        (*index)[(*n)++] = at;
    }
    dlsh_iter_end(&it);
    if (st == DL_OK) return st;
    free(*index);
    *index = NULL;
    return st;
}

/* d.train[5], and d.train[[3, 1, 4]], d.train[range(8)] or d.train[:8] for a batch. */
static dl_status index_split(struct dlsh_session *s, void *self, dlsh_value key, dlsh_value *out) {
    if (key.type == DLSH_INT) return one_sample(self, key.as.i, out);
    if (key.type != DLSH_LIST && key.type != DLSH_RANGE && key.type != DLSH_TENSOR)
        return dlsh_fail(DL_ERR_TYPE, "d.train[5], d.train[:8], d.train[[3, 1, 4]]",
                         "a split is indexed by an int, a list of ints or a range, got %s", dlsh_type_name(key));
    long n;
    DLSH_FREED long *index = NULL;
    dlsh_fields b;
    const dlsh_split *of = self;
    DLSH_TRY(dlsh_indices(s, key, dl_dataset_len(of->data, of->which), &index, &n));
    DLSH_TRY(gather(self, index, n, &b));
    return dlsh_fields_record(dl_dataset_form(of->data), &b, out);
}

static void split_values(void *self, const dlsh_visitor *to) { dlsh_dataset_values(((dlsh_split *)self)->data, to); }

const dlsh_class dlsh_dataset_class = {.name = "dataset",
                                       .doc = "Samples with their targets, in a training and a test split.",
                                       .destroy = destroy_dataset,
                                       .held = dlsh_dataset_held,
                                       .text = text_dataset,
                                       .show = show_dataset,
                                       .fields = dataset_fields,
                                       .values = dlsh_dataset_values,
                                       .len = len_dataset};

const dlsh_class dlsh_split_class = {.name = "split",
                                     .doc = "The training or test samples of a dataset.",
                                     .destroy = destroy_split,
                                     .held = held_by_split,
                                     .text = text_split,
                                     .show = show_split,
                                     .fields = split_fields,
                                     .values = split_values,
                                     .index = index_split,
                                     .len = len_split};

/* ---------------------------------------------------------------- loaders */

static dlsh_value position(dl_loader *l, int batch) {
    long at[2];
    dl_loader_position(l, &at[0], &at[1]);
    return dlsh_int(at[batch]);
}
DLSH_GETTER(loader_epoch, position(self, 0))
DLSH_GETTER(loader_batch, position(self, 1))
DLSH_GETTER(loader_size, dlsh_int(dl_loader_batch(self)))
DLSH_GETTER(loader_seed, dlsh_int((long)dl_loader_seed(self)))
DLSH_GETTER(loader_data, split_value(dl_loader_dataset(self), dl_loader_split(self)))
static dl_status len_loader(void *self, long *out) {
    *out = dl_loader_len(self);
    return DL_OK;
}

/* next(l) continues with the next epoch, but a `for` ends with its epoch: it iterates over a handle of this class. */
static void destroy_epoch(void *self) {
    dl_loader_pass_end(self);
    free(self);
}

static dl_status next_of_epoch(DLSH_UNUSED struct dlsh_session *s, void *self, dlsh_value *out, int *done) {
    dl_loader_pass *p = self;
    dlsh_fields b = {{NULL}, {NULL}};
    DLSH_TRY(dl_loader_pass_next(p, b.x, b.y));
    *done = !b.x[0];
    return b.x[0] ? pair_list(dl_loader_form(p->loader), &b, out) : DL_OK;
}

static void epoch_values(void *self, const dlsh_visitor *to) {
    dl_loader_pass *p = self;
    if (p->loader) dlsh_loader_values(p->loader, to);
    if (p->inner) dlsh_loader_values(p->inner, to);
}

static const dlsh_class epoch_class = {.name = "epoch",
                                       .doc = "The batches of one epoch.",
                                       .destroy = destroy_epoch,
                                       .next = next_of_epoch,
                                       .values = epoch_values};

/* A `for` begins with a whole epoch: the present one when it has not begun, else the next. */
static dl_status iterate_loader(DLSH_UNUSED struct dlsh_session *s, void *self, dlsh_value *out) {
    dl_loader_pass *p = dl_memory_alloc(1, sizeof *p);
    if (!p) return dl_failed();
    if (dl_loader_pass_begin(self, p) == DL_OK) return dlsh_give(dlsh_new_handle(&epoch_class, p), out);
    free(p);
    return dl_failed();
}

/* The next batch of a loader as the list [x, y]; after an epoch's last batch the first one of the next epoch. */
static dl_status next_batch(dl_loader *l, dlsh_value *out) {
    dlsh_fields b = {{NULL}, {NULL}};
    DLSH_TRY(dl_loader_next(l, b.x, b.y));
    if (!b.x[0]) DLSH_TRY(dl_loader_next(l, b.x, b.y));
    return pair_list(dl_loader_form(l), &b, out);
}

static dl_status next_loader(DLSH_UNUSED struct dlsh_session *s, void *self, dlsh_value *out, int *done) {
    *done = 0;
    return next_batch(self, out);
}

static dl_status seek_run(const dlsh_args *a) {
    return dl_loader_seek(dlsh_arg_self(a), dlsh_arg_int(a, "epoch"), dlsh_arg_int(a, "batch"));
}

static const dlsh_field loader_fields[] = {{"epoch", "of the next batch, from 0", loader_epoch, NULL},
                                           {"at", "number of the next batch in its epoch", loader_batch, NULL},
                                           {"batch", "samples in a batch", loader_size, NULL},
                                           {"seed", "of the order and the transforms", loader_seed, NULL},
                                           {"split", "the split that it reads", loader_data, NULL},
                                           {0}};
static const dlsh_command loader_methods[] = {
    DLSH_FN_ROW("seek", seek_run, "l.seek(EPOCH, BATCH)",
                "Continues from a batch of an epoch, exactly as if iteration had reached it.",
                DLSH_PARAMS({"epoch", .want = "int", .doc = "from 0"}, {"batch", .want = "int", .flags = DLSH_OPTIONAL,
                                                                        .doc = "number of the batch in the epoch"}),
                .examples = "l.seek(3)\nl.seek(3, 10)"),
    {0}};

const dlsh_class dlsh_loader_class = {.name = "loader",
                                      .doc = "Iterates over a split in batches, which threads make in advance.",
                                      .destroy = destroy_loader,
                                      .held = held_by_loader,
                                      .text = text_loader,
                                      .fields = loader_fields,
                                      .values = dlsh_loader_values,
                                      .methods = loader_methods,
                                      .len = len_loader,
                                      .iterate = iterate_loader,
                                      .next = next_loader};

/* ---------------------------------------------------------------- dataset(...) */

enum { MAX_OPTIONS = 32 };

/* Options as the library takes them: name, value, ..., NULL. Values are texts of their own. */
typedef struct option_list {
    int n;
    const char *words[2 * MAX_OPTIONS + 1];
    dlsh_buf texts[MAX_OPTIONS];
} option_list;

static dl_status add_option(option_list *o, const char *name, dlsh_value value) {
    if (o->n == MAX_OPTIONS) return dlsh_fail(DL_ERR_VALUE, NULL, "more than %d options", MAX_OPTIONS);
    dlsh_buf *b = &o->texts[o->n];
    if (value.type == DLSH_LIST) /* label=["price", "kind"] */
        for (int i = 0; i < value.as.list->n; i++) {
            if (i) dlsh_buf_puts(b, ",");
            DLSH_TRY(dlsh_text(b, value.as.list->items[i]));
        }
    else
        DLSH_TRY(dlsh_text(b, value));
    o->words[2 * o->n] = name;
    o->words[2 * o->n + 1] = dlsh_buf_text(b);
    o->n++;
    return b->failed ? dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for option %s", name)
                     : dlsh_whole_text(name, dlsh_buf_text(b), b->n);
}

static const dl_data_kind *kind_named(const char *name) {
    for (int i = 0; dl_data_kind_at(i); i++)
        if (!strcmp(dl_data_kind_at(i)->name, name)) return dl_data_kind_at(i);
    return NULL;
}

/* Name of the option that the i-th argument after the kind gives. */
static const char *positional(const dl_data_kind *k, int i) {
    int n = 0;
    while (k->options[n].name && k->options[n].positional) n++;
    if (i < n) return k->options[i].name;
    dlsh_fail(DL_ERR_VALUE, "give other options by name, such as n=1000",
              "dataset '%s' takes at most %d after its name, got %d", k->name, n, i + 1);
    return NULL;
}

/* dataset("tensor", x, y, test_x, test_y): tensors go in as they are. */
static dl_status from_tensors(const dlsh_args *a, const dl_data_kind *k, dl_dataset **d) {
    dlsh_value values[4];
    int n = dlsh_arg_count(a, "arguments");
    for (int i = 0; i < n; i++) {
        if (!positional(k, i)) return DL_ERR_VALUE;
        values[i] = *dlsh_arg_at(a, "arguments", i);
    }
    return dlsh_dataset_of_tensors(a, values, n, d);
}

/* A tokenizer at hand goes to the library as it is. */
static dl_status take_option(option_list *o, const char *name, dlsh_value v, const dl_tokenizer **tokenizer) {
    const dl_tokenizer *t = dlsh_unwrap(v, &dlsh_tokenizer_class);
    if (!t || strcmp(name, "tokenizer") != 0) return add_option(o, name, v);
    *tokenizer = t;
    return DL_OK;
}

static dl_status from_options(const dlsh_args *a, const dl_data_kind *k, option_list *o, dl_dataset **d) {
    const dlsh_value *v;
    const dl_tokenizer *tokenizer = NULL;
    const char *name;
    for (int i = 0; i < dlsh_arg_count(a, "arguments"); i++) {
        if (!(name = positional(k, i))) return DL_ERR_VALUE;
        DLSH_TRY(take_option(o, name, *dlsh_arg_at(a, "arguments", i), &tokenizer));
    }
    for (int i = 0; (name = dlsh_arg_extra(a, i, &v)); i++) DLSH_TRY(take_option(o, name, *v, &tokenizer));
    *d = dl_dataset_open_with(k->name, o->words, tokenizer);
    return *d ? DL_OK : dl_failed();
}

static dl_status dataset_run(const dlsh_args *a, dlsh_value *result) {
    option_list o = {0};
    dl_dataset *d = NULL;
    if (dlsh_arg(a, "kind")->type != DLSH_STR) {
        DLSH_TRY(dlsh_dataset_of_values(a, &d));
        return dlsh_give(dlsh_new_handle(&dlsh_dataset_class, d), result);
    }
    const char *name = dlsh_arg_str(a, "kind");
    const dl_data_kind *k = kind_named(name);
    if (!k) { /* the library's message names the nearest kind */
        dl_dataset_open(name, NULL);
        return dl_failed();
    }
    dl_status st = !strcmp(name, "tensor") ? from_tensors(a, k, &d) : from_options(a, k, &o, &d);
    for (int i = 0; i < MAX_OPTIONS; i++) dlsh_buf_free(&o.texts[i]);
    return st ? st : dlsh_give(dlsh_new_handle(&dlsh_dataset_class, d), result);
}

/* ---------------------------------------------------------------- loader(...) */

/* transforms="crop 4, flip", or a list of such texts, which are joined. */
static dl_status transforms_text(const dlsh_args *a, dlsh_buf *b) {
    const dlsh_value *v = dlsh_arg(a, "transforms");
    if (!v || v->type == DLSH_NONE) return DL_OK;
    if (v->type != DLSH_LIST) return dlsh_text(b, *v);
    for (int i = 0; i < v->as.list->n; i++) {
        if (i) dlsh_buf_puts(b, ", ");
        DLSH_TRY(dlsh_text(b, v->as.list->items[i]));
    }
    return DL_OK;
}

static dl_status transform_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_BUF list = {0};
    DLSH_TRY(transforms_text(a, &list));
    unsigned long seed = dlsh_given(a, "seed") ? (unsigned long)dlsh_arg_int(a, "seed") : dl_seed_get();
    return dlsh_give(
        dlsh_tensor(dl_transform_tensor(list.n ? dlsh_buf_text(&list) : "", dlsh_arg_tensor(a, "x"), seed)), result);
}

static dl_status loader_run(const dlsh_args *a, dlsh_value *result) {
    dl_dataset *d = dlsh_arg_handle(a, "data", &dlsh_dataset_class);
    dlsh_split *split = dlsh_arg_handle(a, "data", &dlsh_split_class);
    unsigned long seed = (unsigned long)dlsh_arg_int(a, "seed");
    dl_loader_spec spec = {.batch = dlsh_arg_int(a, "batch"),
                           .shuffle = dlsh_arg_bool(a, "shuffle"),
                           .drop_last = dlsh_arg_bool(a, "drop_last"),
                           .seed = dlsh_given(a, "seed") ? &seed : NULL,
                           .workers = (int)dlsh_arg_int(a, "workers"),
                           .prefetch = (int)dlsh_arg_int(a, "prefetch")};
    DLSH_SCOPED_BUF transforms = {0};
    if (spec.batch < 1) return dlsh_arg_fail(a, "batch", DL_ERR_VALUE, NULL, "batch=%ld; it is at least 1", spec.batch);
    if (!spec.workers) spec.workers = -1;
    DLSH_TRY(dlsh_arg_sampler(a, &spec.sampler));
    dl_status st = dlsh_arg_collate(a, &spec.collate);
    if (st == DL_OK) st = transforms_text(a, &transforms);
    if (transforms.n) spec.transforms = dlsh_buf_text(&transforms);
    dl_loader *l = st == DL_OK ? dl_loader_new(split ? split->data : d, split ? split->which : DL_TRAIN, &spec) : NULL;
    dl_sampler_unref(spec.sampler);
    dl_collate_unref(spec.collate);
    return st ? st : dlsh_give(dlsh_new_handle(&dlsh_loader_class, l), result);
}

const dlsh_command data_commands[] = {
    DLSH_ROW(
        "dataset", DLSH_ONLY_FUNCTION | DLSH_OPEN_OPTIONS, dataset_run, "dataset(KIND, ARGUMENTS, OPTION=VALUE, ...)",
        "Opens or generates a dataset, or makes one from values: dataset(x, y), dataset([{x: .., y: ..}, ...]), "
        "dataset(fn (i) { return [x, y] }, n=1000). These take n, test, classes, pad, pad_target and targets. "
        "dataset({a: .., b: .., y: ..}) has several inputs. It has the fields "
        "train, test, classes, names, shape, name, options and "
        "fingerprint; `show` describes it.",
        DLSH_PARAMS({"kind", .want = "string|tensor|list|record|function|dataset|split|loader|range",
                     .doc = "\"mnist\", \"digits\", ...: `help datasets` lists them; or tensors, a list of samples, "
                            "a function of a sample's number, a dataset or split",
                     .complete = "dataset"},
                    {"arguments", .flags = DLSH_VARIADIC, .doc = "what the kind needs: a path, tensors"}),
        .examples = "d = dataset(\"mnist\", \"data/mnist\")\nd = dataset(\"digits\", n=10000, seed=1)\n"
                    "d = dataset(\"csv\", \"iris.csv\", label=\"species\")\nd = dataset(x, y)\n"
                    "d = dataset(fn (i) { return [randn(3), i % 2] }, n=1000, test=200, classes=2)\n"
                    "d = dataset(train, test)"),
    DLSH_FN_ROW(
        "loader", loader_run, "loader(DATA, batch=64, shuffle=false, ...)",
        "Iterates over a split in batches x, y. The order depends only on seed and epoch.",
        DLSH_PARAMS({"data", .want = "dataset|split", .doc = "a split, d.train; of a dataset the training split"}),
        DLSH_OPTIONS(
            {"batch", DLSH_OPT_INT, "64", .doc = "samples in a batch"},
            {"shuffle", DLSH_OPT_BOOL, "false", .doc = "a new order every epoch"}, DLSH_SAMPLER_OPTION,
            DLSH_COLLATE_OPTION,
            {"drop_last", DLSH_OPT_BOOL, "false", .doc = "leave out a last batch that is not full"},
            {"seed", DLSH_OPT_INT, NULL, .doc = "of the order and the transforms; default: the seed of the session"},
            {"transforms", DLSH_OPT_VALUE, NULL,
             .doc = "changes in order, \"crop 4, flip\": `help transforms` lists them", .want = "string|list"},
            {"workers", DLSH_OPT_INT, "1", .doc = "threads; 0: batches are made when asked for"},
            {"prefetch", DLSH_OPT_INT, "4", .doc = "batches kept ready"}),
        .examples = "for x, y in loader(d.train, batch=64, shuffle=true) { }\nl = loader(d.test, batch=100)"),
    DLSH_FN_ROW("transform", transform_run, "transform(X, TRANSFORMS, seed=0)",
                "Applies a loader's transforms to one sample, or to each of a batch of pictures [n, channels, height, "
                "width]. The result is f32; bytes are first mapped to 0..1.",
                DLSH_PARAMS({"x", .want = "tensor", .doc = "a sample, or pictures [n, channels, height, width]"},
                            {"transforms", .want = "string|list", .doc = "changes in order: `help transforms`"}),
                DLSH_OPTIONS({"seed", DLSH_OPT_INT, NULL,
                              .doc = "of what is drawn at random; default: the seed of the session"}),
                .examples = "x = transform(load(\"cat.png\"), \"resize 256, center_crop 224\")"),
    {0}};
