/* Datasets made of samples of others: parts of a split, two splits joined, random splits and folds. Nothing is copied:
 * a view keeps references to its datasets, and the numbers of its samples there. */
#include "data/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "data/draw.h"

typedef struct view {
    dl_dataset *of[2]; /* NULL: an empty split */
    int split[2];
    long *index[2];  /* NULL: sample i is i */
    bool as_batches; /* samples are as batches of their datasets have them, for these scale bytes differently */
} view;

static void close_view(void *ctx) {
    view *v = ctx;
    for (int s = 0; s < 2; s++) {
        dl_dataset_unref(v->of[s]);
        free(v->index[s]);
    }
    free(v);
}

static void view_references(void *ctx, const dl_references *to) {
    const view *v = ctx;
    for (int s = 0; s < 2; s++)
        if (v->of[s]) to->data(to->ctx, v->of[s]);
}

static long at(const view *v, int split, long i) { return v->index[split] ? v->index[split][i] : i; }

static dl_status read_view(const dl_dataset *d, int split, long i, void *x, void *y) {
    const view *v = d->source.ctx;
    return (v->as_batches && x ? dl_data_fetch : dl_data_keep)(v->of[split], v->split[split], at(v, split, i), x, y);
}

static dl_status give_view(const dl_dataset *d, int split, long i, dl_tensor **x, dl_tensor **y) {
    const view *v = d->source.ctx;
    dl_dataset *of = v->of[split];
    return of->source.give(of, v->split[split], at(v, split, i), x, y);
}

/* ---------------------------------------------------------------- what a view takes on */

static size_t lut_bytes(const dl_dataset *d) { return (size_t)d->channels * 256 * sizeof *d->lut; }

static dl_status take_lut(dl_dataset *d, const dl_dataset *of) {
    if (!of->lut) return DL_OK;
    if (!(d->lut = dl_data_alloc(of->channels * 256, sizeof *d->lut))) return dl_failed();
    memcpy(d->lut, of->lut, lut_bytes(of));
    return DL_OK;
}

static dl_status take_form(dl_dataset *d, view *v) {
    const dl_dataset *a = v->of[0] ? v->of[0] : v->of[1], *b = v->of[1] ? v->of[1] : a;
    const dl_dataset *named = a->classes >= b->classes ? a : b;
    DL_TRY(dl_data_take_fields(d, a));
    d->padded = a->padded || b->padded;
    v->as_batches =
        dl_data_reads(a) && (a->dtype != b->dtype || (a->lut && a != b && memcmp(a->lut, b->lut, lut_bytes(a)) != 0));
    if (v->as_batches)
        d->dtype = dl_dataset_batch_dtype(a);
    else
        DL_TRY(take_lut(d, a));
    if (named->classes) DL_TRY(dl_data_set_classes(d, named->classes, (const char *const *)named->class_names));
    d->source = (dl_data_source){.close = d->source.close,
                                 .references = view_references,
                                 .ctx = v,
                                 .alone = a->source.alone || b->source.alone,
                                 .slow = a->source.slow || b->source.slow};
    if (dl_data_reads(a))
        d->source.read = read_view;
    else
        d->source.give = give_view;
    return DL_OK;
}

/* "input 'mask'", "target" */
static const char *field_name(const dl_dataset *d, int i, char buf[DL_FIELD_NAME + 16]) {
    const char *name = d->form.names[i];
    snprintf(buf, DL_FIELD_NAME + 16, "%s%s%s%s", i < d->form.inputs ? "input" : "target", *name ? " '" : "", name,
             *name ? "'" : "");
    return buf;
}

/* An input or target of one dataset and the same of another. */
static dl_status check_field(const dl_dataset *a, const dl_dataset *b, int i) {
    dl_field f = dl_data_field(a, i), g = dl_data_field(b, i);
    char what[DL_FIELD_NAME + 16];
    if (!a->padded && !dl_sizes_eq(f.ndim, f.shape, g.ndim, g.shape))
        return dl_fail(DL_ERR_SHAPE, "the %s of the test split's samples is %s, of the training split's %s",
                       field_name(a, i, what), dl_shape_text(g.ndim, g.shape), dl_shape_text(f.ndim, f.shape));
    if (f.dtype != g.dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "make both of tensors of the same dtypes",
                            "the %s of the test split's samples is %s, of the training split's %s",
                            field_name(a, i, what), dl_dtype_name(g.dtype), dl_dtype_name(f.dtype));
    return DL_OK;
}

/* A split of one dataset and one of another must look alike. */
static dl_status check_alike(const dl_dataset *a, const dl_dataset *b) {
    if (memcmp(&a->form, &b->form, sizeof a->form) != 0)
        return dl_fail(DL_ERR_VALUE,
                       "samples of the two splits have other inputs or targets: %d and %d, or other names",
                       a->form.inputs + a->form.targets, b->form.inputs + b->form.targets);
    for (int i = 0; i < a->form.inputs + a->form.targets; i++) DL_TRY(check_field(a, b, i));
    if (!a->classes != !b->classes)
        return dl_fail(DL_ERR_TYPE, "targets of the %s split are classes, those of the other are not",
                       a->classes ? "training" : "test");
    if (dl_data_reads(a) != dl_data_reads(b))
        return dl_fail_hint(DL_ERR_TYPE, "make both of tensors, or both of lists or functions",
                            "one split holds its samples in one array, and the other one by one");
    return DL_OK;
}

static dl_status check_index(const dl_part *p) {
    long have = dl_dataset_len(p->data, p->split);
    for (long i = 0; p->index && i < p->n; i++)
        if (p->index[i] < -have || p->index[i] >= have)
            return dl_fail(DL_ERR_INDEX, "there is no sample %ld in the %s split of '%s', which has %ld", p->index[i],
                           p->split == DL_TEST ? "test" : "train", p->data->name, have);
    return DL_OK;
}

static dl_status take_part(dl_dataset *d, view *v, int split, const dl_part *p) {
    if (!p) return DL_OK;
    long have = dl_dataset_len(p->data, p->split);
    DL_TRY(check_index(p));
    v->of[split] = dl_dataset_ref(p->data), v->split[split] = p->split == DL_TEST;
    d->split[split].n = p->index ? p->n : have;
    if (!p->index) return DL_OK;
    if (!(v->index[split] = dl_data_alloc(p->n, sizeof(long)))) return dl_failed();
    for (long i = 0; i < p->n; i++) v->index[split][i] = p->index[i] < 0 ? p->index[i] + have : p->index[i];
    return DL_OK;
}

/* Of the fingerprints of the datasets and the numbers of the samples. */
static void set_mark(dl_dataset *d, const view *v) {
    dl_piece pieces[9] = {{"view", 4}};
    int n = 1;
    for (int s = 0; s < 2; s++) {
        if (!v->of[s]) continue;
        pieces[n++] = (dl_piece){v->of[s]->fingerprint, sizeof v->of[s]->fingerprint};
        pieces[n++] = (dl_piece){&v->split[s], sizeof v->split[s]};
        pieces[n++] = (dl_piece){&d->split[s].n, sizeof d->split[s].n};
        if (v->index[s]) pieces[n++] = (dl_piece){v->index[s], (size_t)d->split[s].n * sizeof(long)};
    }
    dl_data_set_fingerprint_of(d, pieces, n);
}

dl_status dl_data_become_view(dl_dataset *d, const dl_part *train, const dl_part *test) {
    view *v = dl_data_alloc(1, sizeof *v);
    if (!v) return dl_failed();
    d->source.ctx = v, d->source.close = close_view;
    if (train && test) DL_TRY(check_alike(train->data, test->data));
    DL_TRY(take_part(d, v, 0, train));
    DL_TRY(take_part(d, v, 1, test));
    DL_TRY(take_form(d, v));
    set_mark(d, v);
    return DL_OK;
}

dl_dataset *dl_dataset_view(const dl_part *train, const dl_part *test) {
    const dl_part *any = train ? train : test;
    if (!any || !any->data || (test && !test->data)) return dl_fail_null("the data set of a part"), NULL;
    dl_dataset *d = dl_data_new(any->data->name);
    if (d && dl_data_become_view(d, train, test) == DL_OK) return d;
    dl_dataset_unref(d);
    return NULL;
}

/* ---------------------------------------------------------------- splits at random */

/* A permutation of n samples, for splits; the caller frees it. */
static long *shuffled(long n, uint64_t seed) {
    long *order = dl_data_alloc(n, sizeof *order);
    dl_draw r = dl_draw_begin(seed, DL_FOR_HOLDOUT, 0, 0);
    if (order) dl_draw_permutation(&r, n, order);
    return order;
}

static int up(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

dl_status dl_data_hold_out_view(dl_dataset *d, long out, uint64_t seed) {
    dl_dataset *whole = dl_data_new(d->name);
    long n = d->split[0].n, *order = whole ? shuffled(n, seed) : NULL;
    dl_status st = order ? DL_OK : dl_failed();
    if (st == DL_OK) {
        qsort(order, (size_t)out, sizeof *order, up);
        qsort(order + out, (size_t)(n - out), sizeof *order, up);
        /* what the source needs goes with it, and stays here for the view's own samples */
        st = dl_data_take_fields(whole, d);
        view *v = st == DL_OK ? dl_data_alloc(1, sizeof *v) : NULL;
        if (!(st = v ? DL_OK : dl_failed())) {
            whole->split[0] = d->split[0];
            whole->source = d->source, d->source.ctx = v, d->source.close = close_view;
            d->source.references = view_references;
            d->source.read = whole->source.read ? read_view : NULL;
            d->source.give = whole->source.give ? give_view : NULL;
            d->split[0] = (dl_samples){0};
            dl_part train = {whole, DL_TRAIN, order + out, n - out}, test = {whole, DL_TRAIN, order, out};
            st = take_part(d, v, 0, &train);
            if (st == DL_OK) st = take_part(d, v, 1, &test);
        }
    }
    free(order);
    dl_dataset_unref(whole);
    return st;
}

dl_status dl_dataset_random_split(dl_dataset *d, dl_split split, const long *lengths, int n, unsigned long seed,
                                  dl_dataset **parts) {
    if (!d) return dl_fail_null("the data set to split");
    long have = dl_dataset_len(d, split), sum = 0;
    for (int i = 0; i < n; i++) {
        parts[i] = NULL;
        if (lengths[i] < 0) return dl_fail(DL_ERR_VALUE, "part %d would have %ld samples", i, lengths[i]);
        sum += lengths[i];
    }
    if (sum != have)
        return dl_fail_hint(DL_ERR_VALUE, "counts add up to the number of samples, and fractions to 1",
                            "the parts have %ld samples together, and there are %ld to split", sum, have);
    long *order = shuffled(have, seed), from = 0;
    dl_status st = order ? DL_OK : dl_failed();
    for (int i = 0; st == DL_OK && i < n; from += lengths[i++])
        if (!(parts[i] = dl_dataset_view(&(dl_part){d, split, order + from, lengths[i]}, NULL))) st = dl_failed();
    for (int i = 0; st != DL_OK && i < n; i++) dl_dataset_unref(parts[i]), parts[i] = NULL;
    free(order);
    return st;
}

/* Puts samples in order of their classes, those of one class as they were. */
static dl_status by_class(dl_dataset *d, long *order, long n) {
    long *next = dl_data_alloc(d->classes, sizeof *next), *to = dl_data_alloc(n, sizeof *to), before = 0;
    dl_status st = next && to ? dl_dataset_counts(d, DL_TRAIN, next) : dl_failed();
    for (long c = 0; st == DL_OK && c < d->classes; c++) {
        long count = next[c];
        next[c] = before, before += count;
    }
    for (long i = 0; st == DL_OK && i < n; i++) {
        int64_t label;
        if ((st = dl_data_label(d, DL_TRAIN, order[i], &label)) == DL_OK) to[next[label]++] = order[i];
    }
    if (st == DL_OK) memcpy(order, to, (size_t)n * sizeof *order);
    free(next);
    free(to);
    return st;
}

dl_status dl_dataset_hold_out(dl_dataset *d, long out, unsigned long seed, dl_dataset **rest, dl_dataset **held) {
    if (!d) return dl_fail_null("the data set to hold samples out of");
    long n = dl_dataset_len(d, DL_TRAIN), left = 0, taken = 0;
    if (out < 1 || out >= n)
        return dl_fail(DL_ERR_VALUE, "%ld of %ld training samples cannot be held out: some of both must be there", out,
                       n);
    long *order = shuffled(n, seed), *part = order ? dl_data_alloc(n, sizeof *part) : NULL;
    dl_status st = part ? DL_OK : dl_failed();
    if (st == DL_OK && d->classes) st = by_class(d, order, n);
    for (long i = 0; st == DL_OK && i < n; i++) { /* at equal distances: of each class its share, rounded */
        bool take = (long)((__int128)(i + 1) * out / n) > (long)((__int128)i * out / n);
        part[take ? n - ++taken : left++] = order[i];
    }
    if (st == DL_OK) {
        qsort(part, (size_t)left, sizeof *part, up);
        qsort(part + left, (size_t)taken, sizeof *part, up);
        const dl_part train = {d, DL_TRAIN, part, left}, test = {d, DL_TEST, NULL, 0},
                      apart = {d, DL_TRAIN, part + left, taken};
        *rest = dl_dataset_view(&train, dl_dataset_len(d, DL_TEST) ? &test : NULL);
        *held = *rest ? dl_dataset_view(NULL, &apart) : NULL;
        if (!*held) dl_dataset_unref(*rest), *rest = NULL, st = dl_failed();
    }
    free(order);
    free(part);
    return st;
}

/* fold[i]: the fold that tests sample i. Stratified: samples of a class are dealt out in turn, where the one before
 * ended. */
static dl_status assign_folds(dl_dataset *d, dl_split split, const dl_fold_spec *s, const long *order, long *fold) {
    long n = dl_dataset_len(d, split);
    if (!s->stratified) { /* blocks, the first n % k of which have one sample more */
        long each = n / s->k, more = n % s->k;
        for (long i = 0; i < n; i++)
            fold[order[i]] = i < more * (each + 1) ? i / (each + 1) : more + (i - more * (each + 1)) / each;
        return DL_OK;
    }
    long *next = dl_data_alloc(d->classes, sizeof *next), dealt = 0;
    dl_status st = next ? dl_dataset_counts(d, split, next) : dl_failed();
    for (long c = 0; st == DL_OK && c < d->classes; c++) {
        long count = next[c];
        next[c] = dealt, dealt += count;
    }
    for (long i = 0; st == DL_OK && i < n; i++) {
        int64_t label;
        if ((st = dl_data_label(d, split == DL_TEST, order[i], &label)) == DL_OK) fold[order[i]] = next[label]++ % s->k;
    }
    free(next);
    return st;
}

static dl_status make_fold(dl_dataset *d, dl_split split, const long *fold, long which, long *index, dl_dataset **out) {
    long n = dl_dataset_len(d, split), train = 0, test = n;
    for (long i = 0; i < n; i++)
        if (fold[i] != which) index[train++] = i;
    for (long i = n - 1; i >= 0; i--)
        if (fold[i] == which) index[--test] = i;
    *out = dl_dataset_view(&(dl_part){d, split, index, train}, &(dl_part){d, split, index + test, n - test});
    return *out ? DL_OK : dl_failed();
}

dl_status dl_dataset_kfold(dl_dataset *d, dl_split split, const dl_fold_spec *s, dl_dataset **folds) {
    if (!d) return dl_fail_null("the data set to split");
    long n = dl_dataset_len(d, split);
    for (long i = 0; i < s->k; i++) folds[i] = NULL;
    if (s->k < 2 || s->k > n)
        return dl_fail(DL_ERR_VALUE, "k=%ld folds; of %ld samples there are 2 to %ld", s->k, n, n);
    if (s->stratified && !d->classes)
        return dl_fail(DL_ERR_TYPE, "stratified folds need classes, and the targets of '%s' are numbers", d->name);
    long *order = s->shuffle ? shuffled(n, s->seed) : dl_data_alloc(n, sizeof *order);
    long *fold = dl_data_alloc(n, sizeof *fold), *index = dl_data_alloc(n, sizeof *index);
    dl_status st = order && fold && index ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && !s->shuffle && i < n; i++) order[i] = i;
    if (st == DL_OK) st = assign_folds(d, split, s, order, fold);
    for (long i = 0; st == DL_OK && i < s->k; i++) st = make_fold(d, split, fold, i, index, &folds[i]);
    for (long i = 0; st != DL_OK && i < s->k; i++) dl_dataset_unref(folds[i]), folds[i] = NULL;
    free(order);
    free(fold);
    free(index);
    return st;
}
