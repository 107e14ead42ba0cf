/* Datasets: the table of kinds, opening one by its options, and its accessors. */
#include "data/datasets.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "dlcore/compare.h"
#include "dlcore/reduce.h"

/* A row of the table; its options are an array of their own, ended by one without a name. */
typedef struct kind_row {
    dl_data_kind pub;
    dl_data_open *open;
} kind_row;

#define KIND(name, doc, open, ...) static const dl_data_option options_##name[] = {__VA_ARGS__, {0}};
#include "data/datasets.def"
#undef KIND
#define KIND(name, doc, open, ...) {{#name, doc, options_##name}, open},
static const kind_row kinds[] = {
#include "data/datasets.def"
};
#undef KIND
enum { NKINDS = sizeof kinds / sizeof *kinds };

#define KIND(name, ...) _Static_assert(sizeof options_##name / sizeof *options_##name <= DL_MAX_DATA_OPTIONS, #name);
#include "data/datasets.def"
#undef KIND

const dl_data_kind *dl_data_kind_at(int i) { return i >= 0 && i < NKINDS ? &kinds[i].pub : NULL; }

/* ---------------------------------------------------------------- options */

static int option_index(const dl_data_kind *k, const char *name) {
    for (int i = 0; k->options[i].name; i++)
        if (!strcmp(k->options[i].name, name)) return i;
    return -1;
}

static dl_status unknown_option(const dl_data_kind *k, const char *name) {
    const char *names[DL_MAX_DATA_OPTIONS];
    int n = 0;
    for (; k->options[n].name; n++) names[n] = k->options[n].name;
    return dl_fail_unknown(name, names, n, NULL, "dataset '%s' has no option '%s'", k->name, name);
}

/* Is `word` one of "a|b|c"? */
static bool among(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *p = words; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (!strncmp(p, word, n) && (!p[n] || p[n] == '|')) return true;
    return false;
}

static bool reads_as(const char *type, const char *text) {
    char *end = "";
    errno = 0;
    if (!strcmp(type, "int")) (void)!strtol(text, &end, 10);
    if (!strcmp(type, "float") && !isfinite(strtod(text, &end))) return false;
    if (!strcmp(type, "bool")) return among("true|false|1|0", text);
    return !*end && !errno && (*text || !strcmp(type, "string"));
}

static dl_status check_option(const dl_data_kind *k, const dl_data_option *o, const char *value) {
    if (!reads_as(o->type, value))
        return dl_fail_hint(DL_ERR_VALUE, o->doc, "dataset '%s': option %s=%s is not %s %s", k->name, o->name, value,
                            strchr("aeiou", *o->type) ? "an" : "a", o->type);
    if (o->words && !among(o->words, value))
        return dl_fail_hint(DL_ERR_VALUE, o->doc, "dataset '%s': option %s=%s; it is one of %s", k->name, o->name,
                            value, o->words);
    return DL_OK;
}

static dl_status read_options(const dl_data_kind *k, const char *const *options, dl_data_args *a) {
    a->kind = k;
    for (; options && *options; options += 2) {
        int i = option_index(k, options[0]);
        if (i < 0) return unknown_option(k, options[0]);
        if (!options[1]) return dl_fail(DL_ERR_VALUE, "dataset '%s': option %s has no value", k->name, options[0]);
        DL_TRY(check_option(k, &k->options[i], options[1]));
        a->value[i] = options[1];
    }
    for (int i = 0; k->options[i].name; i++) {
        if (!a->value[i]) a->value[i] = k->options[i].dflt;
        if (!a->value[i])
            return dl_fail_hint(DL_ERR_VALUE, k->options[i].doc, "dataset '%s' needs the option '%s'", k->name,
                                k->options[i].name);
    }
    return DL_OK;
}

const char *dl_data_str(const dl_data_args *a, const char *name) {
    int i = option_index(a->kind, name);
    assert(i >= 0 && "an option of the row");
    return a->value[i];
}

long dl_data_int(const dl_data_args *a, const char *name) { return strtol(dl_data_str(a, name), NULL, 10); }
double dl_data_float(const dl_data_args *a, const char *name) { return strtod(dl_data_str(a, name), NULL); }

char *dl_data_options_text(const dl_data_args *a, const char *but) {
    size_t n = 1, at = 0;
    for (int i = 0; a->kind->options[i].name; i++) n += strlen(a->kind->options[i].name) + strlen(a->value[i]) + 2;
    char *text = dl_data_alloc((long)n, 1);
    for (int i = 0; text && a->kind->options[i].name; i++)
        if (!but || strcmp(but, a->kind->options[i].name))
            at += (size_t)sprintf(text + at, "%s%s=%s", at ? " " : "", a->kind->options[i].name, a->value[i]);
    return text;
}

/* ---------------------------------------------------------------- opening and releasing */

static const kind_row *find_kind(const char *name) {
    const char *names[NKINDS];
    for (int i = 0; i < NKINDS; i++) {
        names[i] = kinds[i].pub.name;
        if (!strcmp(names[i], name)) return &kinds[i];
    }
    dl_fail_unknown(name, names, NKINDS, NULL, "there is no dataset '%s'", name);
    return NULL;
}

dl_dataset *dl_dataset_open(const char *kind, const char *const *options) {
    return dl_dataset_open_with(kind, options, NULL);
}

dl_dataset *dl_dataset_open_with(const char *kind, const char *const *options, const dl_tokenizer *tokenizer) {
    if (!kind) return dl_fail_null("the kind of a dataset"), NULL;
    const kind_row *row = find_kind(kind);
    dl_data_args args = {.tokenizer = tokenizer};
    if (!row || read_options(&row->pub, options, &args)) return NULL;
    dl_dataset *d = dl_data_new(kind);
    if (!d) return NULL;
    if (!(d->options = dl_data_options_text(&args, NULL)) || row->open(&args, d) != DL_OK) {
        dl_dataset_unref(d);
        return NULL;
    }
    return d;
}

dl_dataset *dl_data_new(const char *name) {
    dl_dataset *d = dl_data_alloc(1, sizeof *d);
    if (!d) return NULL;
    d->form.inputs = d->form.targets = 1;
    d->refs = 1, d->place = -1, d->numel = d->target_numel = d->channels = 1, d->dtype = d->target_dtype = DL_F32;
    if (!(d->name = strdup(name))) {
        dl_fail(DL_ERR_MEMORY, "no memory for a dataset");
        free(d);
        return NULL;
    }
    return d;
}

DL_REF_FUNCTION(dl_dataset)

void dl_dataset_unref(dl_dataset *d) {
    if (!d || __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL)) return;
    for (int s = 0; s < 2; s++) {
        free(d->split[s].x);
        free(d->split[s].y);
        free(d->split[s].drawn);
        dl_resident_drop(&d->resident[s]);
    }
    free(d->fields);
    dl_data_drop_classes(d);
    for (long i = 0; i < d->nskipped; i++) free(d->skipped[i]);
    free(d->skipped);
    if (d->source.close) d->source.close(d->source.ctx);
    free(d->lut);
    free(d->name);
    free(d->options);
    free(d);
}

/* ---------------------------------------------------------------- accessors */

const char *dl_dataset_name(const dl_dataset *d) { return d->name; }
const char *dl_dataset_options(const dl_dataset *d) { return d->options ? d->options : ""; }
const char *dl_dataset_fingerprint(const dl_dataset *d) { return d->fingerprint; }
long dl_dataset_len(const dl_dataset *d, dl_split split) { return d->split[split == DL_TEST].n; }
int dl_dataset_ndim(const dl_dataset *d) { return d->ndim; }
const long *dl_dataset_shape(const dl_dataset *d) { return d->shape; }
dl_dtype dl_dataset_dtype(const dl_dataset *d) { return d->dtype; }
dl_dtype dl_dataset_batch_dtype(const dl_dataset *d) { return d->dtype == DL_U8 ? DL_F32 : d->dtype; }
dl_dtype dl_dataset_target_dtype(const dl_dataset *d) { return d->target_dtype; }
long dl_dataset_classes(const dl_dataset *d) { return d->classes; }
int dl_dataset_target_ndim(const dl_dataset *d) { return d->target_ndim; }
const long *dl_dataset_target_shape(const dl_dataset *d) { return d->target_shape; }

void dl_dataset_references(dl_dataset *d, const dl_references *to) {
    if (d->source.references) d->source.references(d->source.ctx, to);
}

const dl_batch_form *dl_dataset_form(const dl_dataset *d) { return &d->form; }

dl_net_input dl_dataset_field(const dl_dataset *d, int i) {
    dl_field f = dl_data_field(d, i);
    dl_net_input in = {.ndim = f.ndim, .dtype = f.dtype};
    memcpy(in.shape, f.shape, (size_t)f.ndim * sizeof *in.shape);
    return in;
}

const char *dl_dataset_class_name(const dl_dataset *d, long i) {
    return i >= 0 && i < d->classes ? d->class_names[i] : NULL;
}

dl_status dl_dataset_counts(dl_dataset *d, dl_split split, long *counts) {
    if (!d) return dl_fail_null("the data set");
    if (!d->classes)
        return dl_fail(DL_ERR_TYPE, "dataset '%s' has no classes to count: its targets are numbers", d->name);
    memset(counts, 0, (size_t)d->classes * sizeof *counts);
    for (long i = 0; i < dl_dataset_len(d, split); i++) {
        int64_t label;
        DL_TRY(dl_interrupt_check_at(16 * i));
        DL_TRY(dl_data_label(d, split == DL_TEST, i, &label));
        if (label < 0 || label >= d->classes)
            return dl_fail(DL_ERR_VALUE, "sample %ld of '%s' has class %ld; there are %ld", i, d->name, (long)label,
                           d->classes);
        counts[label]++;
    }
    return DL_OK;
}

long dl_dataset_skipped(const dl_dataset *d, const char *const **paths) {
    *paths = (const char *const *)d->skipped;
    return d->nskipped;
}

/* Widens lo..hi by n elements of a sample; NaN does not count. */
static void widen(const dl_dataset *d, const void *x, long n, double *lo, double *hi) {
    const int64_t *whole = x;
    const float *real = x;
    for (long j = 0; j < n; j++) {
        double v = d->dtype == DL_I64 ? (double)whole[j] : (double)real[j];
        *lo = v < *lo ? v : *lo, *hi = v > *hi ? v : *hi;
    }
}

dl_status dl_dataset_range(dl_dataset *d, dl_split split, double *lo, double *hi) {
    if (!d) return dl_fail_null("the data set");
    double least = INFINITY, most = -INFINITY;
    for (long i = 0; i < dl_dataset_len(d, split); i++) {
        DL_SCOPED_BATCH b = {0};
        DL_TRY(dl_interrupt_check_at(16 * i));
        DL_TRY(dl_data_collate(d, split == DL_TEST, &i, 1, b.x, b.y));
        widen(d, dl_data(b.x[0]), dl_numel(b.x[0]), &least, &most);
    }
    *lo = least <= most ? least : 0, *hi = least <= most ? most : 0;
    return DL_OK;
}

static dl_status add_nan(dl_tensor *const *t, int n, long *count) {
    for (int i = 0; i < n; i++) {
        long more;
        if (!dl_dtype_is_float(dl_dtype_of(t[i]))) continue;
        DL_OWNED dl_tensor *is = dl_isnan(t[i]), *sum = is ? dl_sum(is, NULL, 0, 0) : NULL;
        DL_TRY(sum ? dl_item_i(sum, &more) : dl_failed());
        *count += more;
    }
    return DL_OK;
}

dl_status dl_dataset_count_nan(dl_dataset *d, dl_split split, long *x, long *y) {
    enum { SOME = 256 };
    long index[SOME], all = d ? dl_dataset_len(d, split) : 0;
    if (!d) return dl_fail_null("the data set");
    *x = *y = 0;
    for (long from = 0, n; from < all; from += n) {
        DL_SCOPED_BATCH b = {0};
        n = all - from < SOME ? all - from : SOME;
        for (long i = 0; i < n; i++) index[i] = from + i;
        DL_TRY(dl_interrupt_check_at(0));
        DL_TRY(dl_data_collate(d, split == DL_TEST, index, n, b.x, b.y));
        DL_TRY(add_nan(b.x, d->form.inputs, x));
        DL_TRY(add_nan(b.y, d->form.targets, y));
    }
    return DL_OK;
}

int dl_dataset_slow(const dl_dataset *d) { return d->source.slow; }

dl_status dl_data_batch(const dl_dataset *d, long n, int device, dl_tensor **x, dl_tensor **y) {
    long shape[DL_MAX_SAMPLE_DIM + 1] = {n};
    memcpy(shape + 1, d->shape, sizeof d->shape);
    *x = dl_tensor_empty(d->ndim + 1, shape, dl_dataset_batch_dtype(d), device);
    memcpy(shape + 1, d->target_shape, sizeof d->target_shape);
    *y = *x ? dl_tensor_empty(d->target_ndim + 1, shape, d->target_dtype, device) : NULL;
    if (*y) return DL_OK;
    dl_unref(*x);
    *x = NULL;
    return dl_failed();
}

dl_status dl_dataset_gather(dl_dataset *d, dl_split split, const long *index, long n, dl_tensor **x, dl_tensor **y) {
    *x = *y = NULL;
    if (!d) return dl_fail_null("the data set");
    long have = dl_dataset_len(d, split);
    for (long i = 0; i < n; i++)
        if (index[i] < -have || index[i] >= have)
            return dl_fail(DL_ERR_INDEX, "there is no sample %ld in the %s split of '%s', which has %ld", index[i],
                           split == DL_TEST ? "test" : "train", d->name, have);
    DL_FREED long *from_start = dl_data_alloc(n, sizeof *index);
    if (!from_start) return dl_failed();
    for (long i = 0; i < n; i++) from_start[i] = index[i] < 0 ? index[i] + have : index[i];
    return dl_data_collate(d, split == DL_TEST, from_start, n, x, y);
}
