/* Data sets in CSV files: what the label column means, and the classes it names. */
#include "data/tables/classes.h"
#include "core/scope.h"
#include "data/tables/csv.h"
#include "data/datasets.h"
#include "data/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Labels that are integers are classes when there are at most so many different ones. */
enum { FEW = 100 };

static dl_status collect(dl_classes *c, const char *file, const dl_csv_table *t) {
    for (long i = 0; i < t->n; i++) DL_TRY(dl_classes_add(c, file, t->label[i], t->y[i]));
    return DL_OK;
}

/* Are all labels of a column dates? */
static bool are_dates(const dl_csv_table *t, long column) {
    long seconds;
    for (long i = 0; i < t->n; i++)
        if (!dl_csv_date(t->label[i * t->labels + column], &seconds)) return false;
    return true;
}

/* Decides by option `task` and the training file whether labels are classes. */
static dl_status decide(const dl_data_args *a, const dl_csv_table *t, dl_classes *c) {
    const char *task = dl_data_str(a, "task"), *file = dl_data_str(a, "path");
    bool dates = t->words && are_dates(t, 0);
    c->words = t->words;
    if (dates && strcmp(task, "classes") != 0) return DL_OK;
    if (!strcmp(task, "regression")) {
        if (t->words)
            return dl_fail_hint(DL_ERR_FORMAT, "option label chooses another column",
                                "task=regression, but labels of '%s' are words", file);
        return DL_OK;
    }
    if (!strcmp(task, "auto") && !t->words && !t->integers) return DL_OK;
    DL_TRY(collect(c, file, t));
    if (!strcmp(task, "auto") && !t->words && c->n > FEW) c->n = 0;
    return DL_OK;
}

/* Target i of those that are not classes. */
static dl_status take_number(dl_dataset *d, int split, const char *file, const dl_csv_table *t, long i) {
    bool whole = d->target_dtype == DL_I64;
    long seconds;
    if (whole && t->words && dl_csv_date(t->label[i], &seconds))
        return ((int64_t *)d->split[split].y)[i] = seconds, DL_OK;
    if (whole ? !dl_csv_whole(t->label[i], (int64_t *)d->split[split].y + i) : isnan(t->y[i]))
        return dl_fail(DL_ERR_FORMAT, "'%s': label \"%.40s\" of sample %ld is not %s", file, t->label[i], i,
                       whole ? "an integer, as those before are" : "a number");
    if (!whole) ((float *)d->split[split].y)[i] = (float)t->y[i];
    return DL_OK;
}

static bool whole_labels(const dl_csv_table *t) {
    int64_t v;
    for (long i = 0; i < t->n; i++)
        if (!dl_csv_whole(t->label[i], &v)) return false;
    return true;
}

/* Moves a table into a split. */
static dl_status take(dl_dataset *d, int split, const char *file, dl_csv_table *t, const dl_classes *c) {
    if (t->features != d->numel)
        return dl_fail(DL_ERR_FORMAT, "'%s' has %ld features, the training file %ld", file, t->features, d->numel);
    DL_TRY(dl_data_reserve(d, split, t->n));
    memcpy(d->split[split].x, t->whole ? (void *)t->whole : t->x, (size_t)t->n * dl_data_kept_size(d));
    for (long i = 0; i < t->n; i++) {
        bool found = true;
        if (!d->classes) {
            DL_TRY(take_number(d, split, file, t, i));
            continue;
        }
        ((int64_t *)d->split[split].y)[i] = dl_classes_find(c, t->label[i], t->y[i], &found);
        if (!found)
            return dl_fail(DL_ERR_FORMAT, "'%s': label \"%.40s\" of sample %ld does not occur in the training file",
                           file, t->label[i], i);
    }
    return DL_OK;
}

static dl_status read_table(const dl_data_args *a, const char *path, dl_csv_table *t) {
    dl_csv_spec spec = {dl_data_str(a, "label"), dl_data_str(a, "header"), dl_data_str(a, "sep")[0],
                        !strcmp(dl_data_str(a, "dtype"), "i64")};
    DL_FREED uint8_t *bytes = NULL;
    size_t n;
    DL_TRY(dl_file_read(path, 0, &bytes, &n));
    return dl_csv_table_read(path, (const char *)bytes, n, &spec, t);
}

/* The tables of a dataset: of the training split, and of the test split where there is a file of it. */
typedef struct files {
    const dl_data_args *a;
    int splits;
    const char *path[2];
    dl_csv_table t[2];
} files;

static dl_status read_files(files *f) {
    f->path[0] = dl_data_str(f->a, "path"), f->path[1] = dl_data_str(f->a, "test_path");
    f->splits = *f->path[1] ? 2 : 1;
    for (int s = 0; s < f->splits; s++) DL_TRY(read_table(f->a, f->path[s], &f->t[s]));
    return DL_OK;
}

/* The end of both ways: a test split, if no file has it, the fingerprint, and the normalisation. */
static dl_status finish(const files *f, dl_dataset *d) {
    if (f->splits == 1)
        DL_TRY(dl_data_hold_out(d, dl_data_float(f->a, "holdout"), (uint64_t)dl_data_int(f->a, "seed")));
    return dl_data_finish(f->a, d);
}

/* ---------------------------------------------------------------- one label column */

static dl_status load_one(files *f, dl_dataset *d, dl_classes *c) {
    const dl_csv_table *t = &f->t[0];
    DL_TRY(decide(f->a, t, c));
    dl_data_set_shape(d, 1, &t->features);
    if (t->whole) d->dtype = DL_I64;
    bool dates = t->words && !c->n;
    if (t->whole || dates) d->target_dtype = dates || whole_labels(t) ? DL_I64 : DL_F32;
    if (c->n) DL_TRY(dl_data_set_classes(d, c->n, c->name));
    for (int s = 0; s < f->splits; s++) DL_TRY(take(d, s, f->path[s], &f->t[s], c));
    return finish(f, d);
}

/* ---------------------------------------------------------------- several label columns */

/* What a label column holds. */
typedef enum column_kind { INTEGERS, NUMBERS, DATES, WORDS } column_kind;

static column_kind kind_of(const dl_csv_table *t, long column) {
    int64_t v;
    bool whole = true, numbers = true;
    for (long i = column; i < t->n * t->labels; i += t->labels) {
        whole = whole && dl_csv_whole(t->label[i], &v);
        numbers = numbers && !isnan(t->y[i]);
    }
    return whole ? INTEGERS : numbers ? NUMBERS : are_dates(t, column) ? DATES : WORDS;
}

/* A target in eight bytes: NUMBERS as double, else an integer. */
typedef union cell {
    double number;
    int64_t whole;
} cell;

typedef struct labels {
    long n;
    column_kind *kind;
    dl_classes *words; /* of each column of words */
    bool plain;        /* all are numbers: one target of n of them */
} labels;

static dl_status take_cell(const files *f, const labels *l, int s, long i, long k, cell *to) {
    const dl_csv_table *t = &f->t[s];
    const char *text = t->label[i * l->n + k];
    static const char *const wanted[] = {"an integer", "a number", "a date", "a word of the training file"};
    bool good = false;
    long seconds;
    switch (l->kind[k]) {
    case INTEGERS: good = dl_csv_whole(text, &to->whole); break;
    case NUMBERS: to->number = t->y[i * l->n + k], good = !isnan(to->number); break;
    case DATES: good = dl_csv_date(text, &seconds), to->whole = good ? seconds : 0; break;
    case WORDS: to->whole = dl_classes_find(&l->words[k], text, 0, &good); break;
    }
    if (good) return DL_OK;
    return dl_fail(DL_ERR_FORMAT, "'%s': label \"%.40s\" of sample %ld, column %ld of the labels, is not %s",
                   f->path[s], text, i, k, wanted[l->kind[k]]);
}

static dl_status take_cells(const files *f, dl_dataset *d, int s, const labels *l) {
    if (f->t[s].features != d->numel || f->t[s].labels != l->n)
        return dl_fail(DL_ERR_FORMAT, "'%s' has %ld features, the training file %ld", f->path[s], f->t[s].features,
                       d->numel);
    DL_TRY(dl_data_reserve(d, s, f->t[s].n));
    const void *x = f->t[s].whole ? (void *)f->t[s].whole : f->t[s].x;
    memcpy(d->split[s].x, x, (size_t)f->t[s].n * dl_data_kept_size(d));
    cell *to = d->split[s].y;
    float *narrow = d->split[s].y;
    for (long i = 0; i < f->t[s].n * l->n; i++) {
        cell c;
        DL_TRY(take_cell(f, l, s, i / l->n, i % l->n, &c));
        if (d->target_dtype == DL_F32)
            narrow[i] = (float)(l->kind[i % l->n] == NUMBERS ? c.number : (double)c.whole);
        else
            to[i] = c;
    }
    return DL_OK;
}

/* Column k of the targets of a split as a tensor of its own. */
static dl_tensor *column(const dl_dataset *d, int s, const labels *l, long k) {
    const cell *from = d->split[s].y;
    long n = d->split[s].n;
    bool numbers = l->kind[k] == NUMBERS;
    dl_tensor *t = dl_tensor_empty(1, &n, numbers ? DL_F32 : DL_I64, 0);
    for (long i = 0; t && i < n; i++)
        if (numbers)
            ((float *)dl_data(t))[i] = (float)from[i * l->n + k].number;
        else
            ((int64_t *)dl_data(t))[i] = from[i * l->n + k].whole;
    return t;
}

/* Makes of targets that lie side by side one for each column, under its name. */
static dl_status part_columns(const files *f, dl_dataset *d, const labels *l) {
    dl_batch b[2] = {{{NULL}, {NULL}, 0}, {{NULL}, {NULL}, 0}};
    dl_columns c = {.form = {1, (int)l->n, {""}}};
    int splits = d->split[1].n ? 2 : 1;
    dl_status st = DL_OK;
    for (long k = 0; k < l->n; k++) {
        const char *name = f->t[0].names[k];
        if (strlen(name) >= DL_FIELD_NAME)
            return dl_fail(DL_ERR_NAME, "'%s': the name of a label has more than %d characters", f->path[0],
                           DL_FIELD_NAME - 1);
        strcpy(c.form.names[1 + k], name);
    }
    for (int s = 0; s < splits && st == DL_OK; s++) {
        long shape[2] = {d->split[s].n, d->numel};
        b[s].x[0] = dl_tensor_from(2, shape, d->dtype, 0, d->split[s].x);
        st = b[s].x[0] ? DL_OK : dl_failed();
        for (long k = 0; k < l->n && st == DL_OK; k++)
            if (!(b[s].y[k] = column(d, s, l, k))) st = dl_failed();
        c.x[s] = b[s].x, c.y[s] = b[s].y;
    }
    dl_dataset *made = st == DL_OK ? dl_dataset_columns(&c, d->name) : NULL;
    for (int s = 0; s < 2; s++) {
        dl_batch_drop(&b[s]);
        free(d->split[s].x);
        free(d->split[s].y);
        d->split[s] = (dl_samples){0};
    }
    st = made ? dl_data_become_view(d, &(dl_part){made, DL_TRAIN, NULL, 0},
                                    splits == 2 ? &(dl_part){made, DL_TEST, NULL, 0} : NULL)
              : dl_failed();
    dl_dataset_unref(made);
    return st;
}

static dl_status load_many(files *f, dl_dataset *d, labels *l) {
    const dl_csv_table *t = &f->t[0];
    bool whole = t->whole != NULL;
    if (l->n > DL_NET_INPUTS) /* of numbers there may be more */
        for (long k = 0; k < l->n; k++)
            if (kind_of(t, k) > NUMBERS)
                return dl_fail(DL_ERR_VALUE,
                               "'%s': words and dates among %ld labels; at most %d can be targets of their own",
                               f->path[0], l->n, DL_NET_INPUTS);
    if (!strcmp(dl_data_str(f->a, "task"), "classes"))
        return dl_fail(DL_ERR_VALUE, "task=classes is for one label column, and there are %ld", l->n);
    if (!(l->kind = dl_data_alloc(l->n, sizeof *l->kind)) || !(l->words = dl_data_alloc(l->n, sizeof *l->words)))
        return dl_failed();
    l->plain = true;
    for (long k = 0; k < l->n; k++) {
        l->kind[k] = kind_of(t, k);
        l->plain = l->plain && l->kind[k] <= NUMBERS, whole = whole && l->kind[k] == INTEGERS;
        l->words[k].words = true;
        for (long i = k; l->kind[k] == WORDS && i < t->n * l->n; i += l->n)
            DL_TRY(dl_classes_add(&l->words[k], f->path[0], t->label[i], 0));
    }
    dl_data_set_shape(d, 1, &t->features);
    dl_data_set_target(d, 1, &l->n);
    if (t->whole) d->dtype = DL_I64;
    d->target_dtype = whole || !l->plain ? DL_I64 : DL_F32;
    for (int s = 0; s < f->splits; s++) DL_TRY(take_cells(f, d, s, l));
    DL_TRY(finish(f, d));
    return l->plain ? DL_OK : part_columns(f, d, l);
}

/* ---------------------------------------------------------------- opening */

dl_status dl_open_csv(const dl_data_args *a, dl_dataset *d) {
    files f = {.a = a};
    dl_classes c = {0};
    labels l = {0};
    const char *sep = dl_data_str(a, "sep");
    if (strlen(sep) != 1 || strchr("\"\r\n", *sep))
        return dl_fail(DL_ERR_VALUE, "dataset 'csv': sep=\"%s\"; it is one character, such as \",\", \";\" or a tab",
                       sep);
    dl_status st = read_files(&f);
    l.n = f.t[0].labels;
    if (st == DL_OK) st = l.n > 1 ? load_many(&f, d, &l) : load_one(&f, d, &c);
    dl_classes_free(&c);
    for (long k = 0; l.words && k < l.n; k++) dl_classes_free(&l.words[k]);
    free(l.words);
    free(l.kind);
    dl_csv_table_free(&f.t[0]);
    dl_csv_table_free(&f.t[1]);
    return st;
}
