/* Datasets made of samples of others: parts of a split, parts joined, random splits and folds. Nothing is copied:
 * a view keeps references to its datasets, and the numbers of its samples there. */
#include "data/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "data/draw.h"

typedef struct source_part {
    dl_dataset *of;
    int split;
    long *index; /* NULL: sample i is i */
    long first;  /* which sample of the view its first one is */
} source_part;
typedef struct view {
    source_part *parts[2]; /* NULL: an empty split */
    int n[2];
    bool as_batches; /* samples are as batches of their datasets have them, for these scale bytes differently */
} view;

static void close_view(void *ctx) {
    view *v = ctx;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < v->n[s]; i++) {
            dl_dataset_unref(v->parts[s][i].of);
            free(v->parts[s][i].index);
        }
        free(v->parts[s]);
    }
    free(v);
}

static void view_references(void *ctx, const dl_references *to) {
    const view *v = ctx;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < v->n[s]; i++) to->data(to->ctx, v->parts[s][i].of);
}

/* The part that has sample *i, which becomes its number there. */
static const source_part *find(const view *v, int split, long *i) {
    int low = 0, high = v->n[split] - 1;
    while (low < high) {
        int mid = (low + high + 1) / 2;
        if (v->parts[split][mid].first <= *i)
            low = mid;
        else
            high = mid - 1;
    }
    const source_part *p = &v->parts[split][low];
    *i = p->index ? p->index[*i - p->first] : *i - p->first;
    return p;
}

static dl_status read_view(const dl_dataset *d, int split, long i, void *x, void *y) {
    const view *v = d->source.ctx;
    const source_part *p = find(v, split, &i);
    return (v->as_batches && x ? dl_data_fetch : dl_data_keep)(p->of, p->split, i, x, y);
}

static dl_status give_view(const dl_dataset *d, int split, long i, dl_tensor **x, dl_tensor **y) {
    const source_part *p = find(d->source.ctx, split, &i);
    return p->of->source.give(p->of, p->split, i, x, y);
}

/* ---------------------------------------------------------------- what a view takes on */

static size_t lut_bytes(const dl_dataset *d) { return (size_t)d->channels * 256 * sizeof *d->lut; }

static dl_status take_lut(dl_dataset *d, const dl_dataset *of) {
    if (!of->lut) return DL_OK;
    if (!(d->lut = dl_data_alloc(of->channels * 256, sizeof *d->lut))) return dl_failed();
    memcpy(d->lut, of->lut, lut_bytes(of));
    return DL_OK;
}

static bool scale_alike(const dl_dataset *a, const dl_dataset *b) {
    return a->dtype == b->dtype && (!a->lut || a == b || !memcmp(a->lut, b->lut, lut_bytes(a)));
}

static dl_status take_form(dl_dataset *d, view *v) {
    const dl_dataset *a = v->parts[0] ? v->parts[0]->of : v->parts[1]->of, *named = a;
    dl_data_source source = {.close = d->source.close, .references = view_references, .ctx = v};
    DL_TRY(dl_data_take_fields(d, a));
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < v->n[s]; i++) {
            const dl_dataset *b = v->parts[s][i].of;
            named = named->classes >= b->classes ? named : b;
            d->padded = d->padded || b->padded;
            v->as_batches = v->as_batches || (dl_data_reads(a) && !scale_alike(a, b));
            source.alone = source.alone || b->source.alone;
            source.slow = source.slow || b->source.slow;
        }
    if (v->as_batches)
        d->dtype = dl_dataset_batch_dtype(a);
    else
        DL_TRY(take_lut(d, a));
    if (named->classes) DL_TRY(dl_data_set_classes(d, named->classes, (const char *const *)named->class_names));
    if (dl_data_reads(a))
        source.read = read_view;
    else
        source.give = give_view;
    d->source = source;
    return DL_OK;
}

/* "input 'mask'", "target" */
static const char *field_name(const dl_dataset *d, int i, char buf[DL_FIELD_NAME + 16]) {
    const char *name = d->form.names[i];
    snprintf(buf, DL_FIELD_NAME + 16, "%s%s%s%s", i < d->form.inputs ? "input" : "target", *name ? " '" : "", name,
             *name ? "'" : "");
    return buf;
}

/* Two datasets, and what messages call them. */
typedef struct alike {
    const dl_dataset *a, *b;
    const char *first, *second;
} alike;

/* An input or target of one dataset and the same of another. */
static dl_status check_field(const alike *c, int i) {
    dl_field f = dl_data_field(c->a, i), g = dl_data_field(c->b, i);
    char what[DL_FIELD_NAME + 16];
    if (!c->a->padded && !dl_sizes_eq(f.ndim, f.shape, g.ndim, g.shape))
        return dl_fail(DL_ERR_SHAPE, "the %s of %s's samples is %s, of %s's %s", field_name(c->a, i, what), c->second,
                       dl_shape_text(g.ndim, g.shape), c->first, dl_shape_text(f.ndim, f.shape));
    if (f.dtype != g.dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "make both of tensors of the same dtypes",
                            "the %s of %s's samples is %s, of %s's %s", field_name(c->a, i, what), c->second,
                            dl_dtype_name(g.dtype), c->first, dl_dtype_name(f.dtype));
    return DL_OK;
}

/* Parts of a view must look alike. */
static dl_status check_alike(const alike *c) {
    const dl_dataset *a = c->a, *b = c->b;
    if (memcmp(&a->form, &b->form, sizeof a->form) != 0)
        return dl_fail(DL_ERR_VALUE,
                       "samples of the two splits have other inputs or targets: %d and %d, or other names",
                       a->form.inputs + a->form.targets, b->form.inputs + b->form.targets);
    for (int i = 0; i < a->form.inputs + a->form.targets; i++) DL_TRY(check_field(c, i));
    if (!a->classes != !b->classes)
        return dl_fail(DL_ERR_TYPE, "targets of %s are classes, those of the other are not",
                       a->classes ? c->first : c->second);
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
    long have = dl_dataset_len(p->data, p->split);
    source_part *to = &v->parts[split][v->n[split]];
    DL_TRY(check_index(p));
    *to = (source_part){dl_dataset_ref(p->data), p->split == DL_TEST, NULL, d->split[split].n};
    v->n[split]++;
    d->split[split].n += p->index ? p->n : have;
    if (!p->index) return DL_OK;
    if (!(to->index = dl_data_alloc(p->n, sizeof(long)))) return dl_failed();
    for (long i = 0; i < p->n; i++) to->index[i] = p->index[i] < 0 ? p->index[i] + have : p->index[i];
    return DL_OK;
}

static dl_status take_parts(dl_dataset *d, view *v, int split, const dl_part *parts, int n) {
    if (n && !(v->parts[split] = dl_data_alloc(n, sizeof *v->parts[split]))) return dl_failed();
    for (int i = 0; i < n; i++) DL_TRY(take_part(d, v, split, &parts[i]));
    return DL_OK;
}

/* Of the fingerprints of the datasets and the numbers of the samples. */
static dl_status set_mark(dl_dataset *d, const view *v) {
    dl_piece *pieces = dl_data_alloc(1 + 4L * (v->n[0] + v->n[1]), sizeof *pieces);
    long *counts = pieces ? dl_data_alloc(v->n[0] + v->n[1], sizeof *counts) : NULL;
    int n = 0, k = 0;
    if (counts) pieces[n++] = (dl_piece){"view", 4};
    for (int s = 0; counts && s < 2; s++)
        for (int i = 0; i < v->n[s]; i++, k++) {
            const source_part *p = &v->parts[s][i];
            counts[k] = (i + 1 < v->n[s] ? p[1].first : d->split[s].n) - p->first;
            pieces[n++] = (dl_piece){p->of->fingerprint, sizeof p->of->fingerprint};
            pieces[n++] = (dl_piece){&p->split, sizeof p->split};
            pieces[n++] = (dl_piece){&counts[k], sizeof *counts};
            if (p->index) pieces[n++] = (dl_piece){p->index, (size_t)counts[k] * sizeof(long)};
        }
    if (counts) dl_data_set_fingerprint_of(d, pieces, n);
    free(pieces);
    free(counts);
    return counts ? DL_OK : dl_failed();
}

static view *new_view(dl_dataset *d) {
    view *v = dl_data_alloc(1, sizeof *v);
    if (v) d->source.ctx = v, d->source.close = close_view;
    return v;
}

dl_status dl_data_become_view(dl_dataset *d, const dl_part *train, const dl_part *test) {
    view *v = new_view(d);
    if (!v) return dl_failed();
    if (train && test) DL_TRY(check_alike(&(alike){train->data, test->data, "the training split", "the test split"}));
    DL_TRY(take_parts(d, v, 0, train, train != NULL));
    DL_TRY(take_parts(d, v, 1, test, test != NULL));
    DL_TRY(take_form(d, v));
    return set_mark(d, v);
}

dl_dataset *dl_dataset_view(const dl_part *train, const dl_part *test) {
    const dl_part *any = train ? train : test;
    if (!any || !any->data || (test && !test->data)) return dl_fail_null("the data set of a part"), NULL;
    dl_dataset *d = dl_data_new(any->data->name);
    if (d && dl_data_become_view(d, train, test) == DL_OK) return d;
    dl_dataset_unref(d);
    return NULL;
}

static dl_status become_join(dl_dataset *d, const dl_part *const parts[2], const int n[2]) {
    const dl_dataset *first = n[0] ? parts[0]->data : parts[1]->data;
    view *v = new_view(d);
    char name[32];
    if (!v) return dl_failed();
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < n[s]; i++) {
            snprintf(name, sizeof name, "part %d", i);
            DL_TRY(check_alike(&(alike){first, parts[s][i].data, "part 0", name}));
        }
    for (int s = 0; s < 2; s++) DL_TRY(take_parts(d, v, s, parts[s], n[s]));
    DL_TRY(take_form(d, v));
    return set_mark(d, v);
}

dl_dataset *dl_dataset_join(const dl_part *train, int ntrain, const dl_part *test, int ntest) {
    const dl_part *const parts[2] = {train, test};
    const int n[2] = {ntrain, ntest};
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < n[s]; i++)
            if (!parts[s] || !parts[s][i].data) return dl_fail_null("the data set of a part"), NULL;
    if (ntrain + ntest < 1) return dl_fail(DL_ERR_VALUE, "no part of a data set is to be joined"), NULL;
    dl_dataset *d = dl_data_new((ntrain ? train : test)->data->name);
    if (d && become_join(d, parts, n) == DL_OK) return d;
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
            st = take_parts(d, v, 0, &train, 1);
            if (st == DL_OK) st = take_parts(d, v, 1, &test, 1);
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
