/* Data sets in CSV files: what the label column means, and the classes it names. */
#include "data/csv.h"
#include "data/datasets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Labels that are integers are classes when there are at most so many different ones. */
enum { FEW = 100, MAX_CLASSES = 100000 };

/* Distinct labels in order: by value when they are numbers, else as text. */
typedef struct classes {
    const char **name;
    double *value;
    long n, cap;
    bool words;
} classes;

static int compare(const classes *c, long i, const char *name, double value) {
    if (c->words) return strcmp(c->name[i], name);
    return c->value[i] < value ? -1 : c->value[i] > value;
}

/* Where a label is, or belongs. */
static long search(const classes *c, const char *name, double value, bool *found) {
    long lo = 0, hi = c->n;
    while (lo < hi) {
        long mid = lo + (hi - lo) / 2;
        if (compare(c, mid, name, value) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *found = lo < c->n && !compare(c, lo, name, value);
    return lo;
}

static dl_status add_class(classes *c, const char *file, const char *name, double value) {
    bool found;
    long at = search(c, name, value, &found);
    if (found) return DL_OK;
    if (c->n == MAX_CLASSES)
        return dl_fail_hint(DL_ERR_VALUE, "is this the label column? option label; or task=regression",
                            "the labels of '%s' have more than %d different values", file, MAX_CLASSES);
    if (c->n == c->cap) {
        long cap = c->cap ? 2 * c->cap : 64;
        const char **names = realloc(c->name, (size_t)cap * sizeof *names);
        if (names) c->name = names;
        double *values = names ? realloc(c->value, (size_t)cap * sizeof *values) : NULL;
        if (!values) return dl_fail(DL_ERR_MEMORY, "no memory for the classes of '%s'", file);
        c->value = values, c->cap = cap;
    }
    memmove(c->name + at + 1, c->name + at, (size_t)(c->n - at) * sizeof *c->name);
    memmove(c->value + at + 1, c->value + at, (size_t)(c->n - at) * sizeof *c->value);
    c->name[at] = name, c->value[at] = value;
    c->n++;
    return DL_OK;
}

static dl_status collect(classes *c, const char *file, const dl_csv_table *t) {
    for (long i = 0; i < t->n; i++) DL_TRY(add_class(c, file, t->label[i], t->y[i]));
    return DL_OK;
}

/* Decides by option `task` and the training file whether labels are classes. */
static dl_status decide(const dl_data_args *a, const dl_csv_table *t, classes *c) {
    const char *task = dl_data_str(a, "task"), *file = dl_data_str(a, "path");
    c->words = t->words;
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

/* Target i of those that are no classes. */
static dl_status take_number(dl_dataset *d, int split, const char *file, const dl_csv_table *t, long i) {
    bool whole = d->target_dtype == DL_I64;
    if (whole ? !dl_csv_whole(t->label[i], (int64_t *)d->split[split].y + i) : isnan(t->y[i]))
        return dl_fail(DL_ERR_FORMAT, "'%s': label \"%.40s\" of sample %ld is no %s", file, t->label[i], i,
                       whole ? "integer, as those before are" : "number");
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
static dl_status take(dl_dataset *d, int split, const char *file, dl_csv_table *t, const classes *c) {
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
        ((int64_t *)d->split[split].y)[i] = search(c, t->label[i], t->y[i], &found);
        if (!found)
            return dl_fail(DL_ERR_FORMAT, "'%s': label \"%.40s\" of sample %ld does not occur in the training file",
                           file, t->label[i], i);
    }
    return DL_OK;
}

static dl_status read_table(const dl_data_args *a, const char *path, dl_csv_table *t) {
    dl_csv_spec spec = {dl_data_str(a, "label"), dl_data_str(a, "header"), dl_data_str(a, "sep")[0],
                        !strcmp(dl_data_str(a, "dtype"), "i64")};
    uint8_t *bytes;
    size_t n;
    DL_TRY(dl_file_read(path, 0, &bytes, &n));
    dl_status st = dl_csv_table_read(path, (const char *)bytes, n, &spec, t);
    free(bytes);
    return st;
}

static dl_status load(const dl_data_args *a, dl_dataset *d, dl_csv_table t[2], classes *c) {
    const char *path = dl_data_str(a, "path"), *test = dl_data_str(a, "test_path");
    DL_TRY(read_table(a, path, &t[0]));
    DL_TRY(decide(a, &t[0], c));
    dl_data_set_shape(d, 1, &t[0].features);
    if (t[0].whole) d->dtype = DL_I64, d->target_dtype = whole_labels(&t[0]) ? DL_I64 : DL_F32;
    if (c->n) DL_TRY(dl_data_set_classes(d, c->n, c->name));
    DL_TRY(take(d, 0, path, &t[0], c));
    if (!*test) return dl_data_hold_out(d, dl_data_float(a, "holdout"), (uint64_t)dl_data_int(a, "seed"));
    DL_TRY(read_table(a, test, &t[1]));
    return take(d, 1, test, &t[1], c);
}

dl_status dl_open_csv(const dl_data_args *a, dl_dataset *d) {
    dl_csv_table t[2] = {{0}, {0}};
    classes c = {0};
    const char *sep = dl_data_str(a, "sep");
    if (strlen(sep) != 1 || strchr("\"\r\n", *sep))
        return dl_fail(DL_ERR_VALUE, "dataset 'csv': sep=\"%s\"; it is one character, such as \",\", \";\" or a tab",
                       sep);
    dl_status st = load(a, d, t, &c);
    dl_csv_table_free(&t[0]);
    dl_csv_table_free(&t[1]);
    free(c.name);
    free(c.value);
    DL_TRY(st);
    return dl_data_finish(a, d);
}
