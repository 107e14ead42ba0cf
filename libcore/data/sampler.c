/* Samplers: which samples an epoch has, and in what order. All draws depend on seed and epoch alone. */
#include "data/sampler.h"
#include "core/scope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "data/draw.h"

typedef enum kind { RANDOM, WEIGHTED, STRATIFIED, SEQUENCE, SUBSET } kind;

struct dl_sampler {
    int refs;
    kind kind;
    long num_samples; /* 0: as many as there are */
    bool replacement;
    long n;         /* of weights or indices */
    double *weight; /* [n] */
    double *sum;    /* [n]: weights up to here */
    long *index;    /* [n] */
};

static const char *const names[] = {"random", "weighted", "stratified", "sequence", "subset"};

/* ---------------------------------------------------------------- making */

static dl_sampler *make(kind k, long num_samples, int replacement) {
    if (num_samples < 0)
        return dl_fail(DL_ERR_VALUE, "num_samples=%ld; it is how many samples an epoch has", num_samples), NULL;
    dl_sampler *s = dl_data_alloc(1, sizeof *s);
    if (s) s->refs = 1, s->kind = k, s->num_samples = num_samples, s->replacement = replacement;
    return s;
}

dl_sampler *dl_sampler_random(long num_samples, int replacement) { return make(RANDOM, num_samples, replacement); }

dl_sampler *dl_sampler_stratified(void) { return make(STRATIFIED, 0, 0); }

static dl_status take_weights(dl_sampler *s, const double *weights, long n) {
    if (!weights) return dl_fail_null("the weights of a sampler");
    if (!(s->weight = dl_data_alloc(n, sizeof *s->weight)) || !(s->sum = dl_data_alloc(n, sizeof *s->sum)))
        return dl_failed();
    double sum = 0;
    long some = 0;
    for (long i = 0; i < n; i++) {
        if (!(weights[i] >= 0) || !isfinite(weights[i]))
            return dl_fail(DL_ERR_VALUE, "weight %ld is %g; weights are finite and not negative", i, weights[i]);
        some += weights[i] > 0;
        s->weight[i] = weights[i], s->sum[i] = sum += weights[i];
    }
    s->n = n;
    if (!some || !isfinite(sum)) return dl_fail(DL_ERR_VALUE, "the weights add up to %g", sum);
    if (!s->replacement && (s->num_samples ? s->num_samples : n) > some)
        return dl_fail_hint(DL_ERR_VALUE, "replacement=true draws samples more than once",
                            "%ld samples are to be drawn without replacement, and %ld have a weight above 0",
                            s->num_samples ? s->num_samples : n, some);
    return DL_OK;
}

dl_sampler *dl_sampler_weighted(const double *weights, long n, long num_samples, int replacement) {
    dl_sampler *s = make(WEIGHTED, num_samples, replacement);
    if (s && take_weights(s, weights, n) == DL_OK) return s;
    dl_sampler_unref(s);
    return NULL;
}

dl_sampler *dl_sampler_sequence(const long *index, long n, int shuffle) {
    dl_sampler *s = make(shuffle ? SUBSET : SEQUENCE, 0, 0);
    dl_status st = s ? DL_OK : dl_failed();
    if (st == DL_OK && n < 1) st = dl_fail(DL_ERR_VALUE, "a sampler of chosen samples needs at least one");
    if (st == DL_OK && !(s->index = dl_data_alloc(n, sizeof *s->index))) st = dl_failed();
    if (st == DL_OK) {
        memcpy(s->index, index, (size_t)n * sizeof *index);
        s->n = n;
        return s;
    }
    dl_sampler_unref(s);
    return NULL;
}

DL_REF_FUNCTION(dl_sampler)

void dl_sampler_unref(dl_sampler *s) {
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    free(s->weight);
    free(s->sum);
    free(s->index);
    free(s);
}

const char *dl_sampler_kind(const dl_sampler *s) { return names[s->kind]; }

bool dl_sampler_repeats(const dl_sampler *s) {
    return s && (s->replacement || s->kind == SEQUENCE || s->kind == SUBSET);
}

/* ---------------------------------------------------------------- a sampler and a split */

static dl_status take_labels(dl_sampling *s, dl_dataset *d, int split) {
    if (!d->classes)
        return dl_fail_hint(DL_ERR_TYPE, "classes=10 says how many classes the targets of a function number",
                            "a stratified sampler needs classes, and the targets of '%s' are numbers", d->name);
    s->classes = d->classes;
    if (!(s->label = dl_data_alloc(s->size, sizeof *s->label))) return dl_failed();
    for (long i = 0; i < s->size; i++) {
        int64_t label;
        DL_TRY(dl_interrupt_check_at(16 * i));
        DL_TRY(dl_data_label(d, split, i, &label));
        if (label < 0 || label >= d->classes)
            return dl_fail(DL_ERR_VALUE, "sample %ld of '%s' has class %ld; there are %ld", i, d->name, (long)label,
                           d->classes);
        s->label[i] = (int)label;
    }
    return DL_OK;
}

static dl_status check_indices(const dl_sampling *s, const dl_dataset *d) {
    for (long i = 0; i < s->sampler->n; i++)
        if (s->sampler->index[i] < -s->size || s->sampler->index[i] >= s->size)
            return dl_fail(DL_ERR_INDEX, "the sampler asks for sample %ld of '%s', which has %ld", s->sampler->index[i],
                           d->name, s->size);
    return DL_OK;
}

dl_status dl_sampling_begin(dl_sampling *s, dl_dataset *d, int split, const dl_sampler *sampler, bool shuffle) {
    *s = (dl_sampling){.sampler = sampler, .shuffle = shuffle, .size = d->split[split].n};
    s->n = s->size;
    if (!sampler) return DL_OK;
    if (shuffle)
        return dl_fail_hint(DL_ERR_VALUE, "a sampler decides the order: leave shuffle out",
                            "a loader takes shuffle or a sampler, not both");
    if (sampler->num_samples) s->n = sampler->num_samples;
    switch (sampler->kind) {
    case RANDOM:
        if (sampler->replacement || s->n <= s->size) return DL_OK;
        return dl_fail_hint(DL_ERR_VALUE, "replacement=true draws samples more than once",
                            "num_samples=%ld, and '%s' has %ld", s->n, d->name, s->size);
    case WEIGHTED:
        if (sampler->n == s->size) return DL_OK;
        return dl_fail(DL_ERR_SHAPE, "there are %ld weights, and '%s' has %ld samples", sampler->n, d->name, s->size);
    case STRATIFIED: return take_labels(s, d, split);
    default: s->n = sampler->n; return check_indices(s, d);
    }
}

void dl_sampling_end(dl_sampling *s) {
    free(s->label);
    s->label = NULL;
}

/* ---------------------------------------------------------------- orders */

/* Uniform in [0, 1), of 53 bits. */
static double fine_unit(dl_draw *r) {
    uint64_t high = dl_draw_u32(r) >> 5, low = dl_draw_u32(r) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

static void weighted_again(const dl_sampler *s, dl_draw *r, long n, long *order) {
    for (long i = 0; i < n; i++) {
        double at = fine_unit(r) * s->sum[s->n - 1];
        long lo = 0, hi = s->n - 1; /* the first one whose sum is above `at` */
        while (lo < hi) {
            long mid = lo + (hi - lo) / 2;
            if (s->sum[mid] > at)
                hi = mid;
            else
                lo = mid + 1;
        }
        while (!(s->weight[lo] > 0)) lo--; /* where rounding led beyond the last one */
        order[i] = lo;
    }
}

/* Draws one after another from those that are left, whose weights a Fenwick tree adds up: node i (from 1) has the
 * sum of the i & -i weights up to it. */
static dl_status weighted_once(const dl_sampler *s, dl_draw *r, long n, long *order) {
    DL_FREED double *tree = dl_data_alloc(s->n + 1, sizeof *tree),
                    *left = tree ? dl_data_alloc(s->n, sizeof *left) : NULL;
    long top = 1;
    while (2 * top <= s->n) top *= 2;
    for (long i = 1; left && i <= s->n; i++) {
        tree[i] += left[i - 1] = s->weight[i - 1];
        if (i + (i & -i) <= s->n) tree[i + (i & -i)] += tree[i];
    }
    double total = s->sum[s->n - 1];
    for (long k = 0; left && k < n; k++) {
        double at = fine_unit(r) * total;
        long i = 0;
        for (long step = top; step; step /= 2)
            if (i + step <= s->n && tree[i + step] <= at) at -= tree[i += step];
        if (i >= s->n) i = s->n - 1;
        for (long tried = 0; !(left[i] > 0) && tried < s->n; tried++)
            i = (i + 1) % s->n; /* rounding led to one drawn */
        order[k] = i;
        total = fmax(total - left[i], 0);
        for (long j = i + 1; j <= s->n; j += j & -j) tree[j] -= left[i];
        left[i] = 0;
    }
    return left ? DL_OK : dl_failed();
}

typedef struct placed {
    double at;
    long sample, turn;
} placed;

static int by_place(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return (x->turn > y->turn) - (x->turn < y->turn);
}

/* The samples of a class stand at equal distances, from a random place on, so that any stretch of the order has its
 * share of each class. */
static dl_status stratified(const dl_sampling *s, dl_draw *r, long *order) {
    placed *all = dl_data_alloc(s->n, sizeof *all);
    double *begin = dl_data_alloc(s->classes, sizeof *begin);
    long *count = dl_data_alloc(2 * s->classes, sizeof *count), *seen = count ? count + s->classes : NULL;
    dl_status st = all && begin && count ? DL_OK : dl_failed();
    if (st == DL_OK) {
        dl_draw_permutation(r, s->n, order);
        for (long c = 0; c < s->classes; c++) begin[c] = dl_draw_unit(r);
        for (long i = 0; i < s->n; i++) count[s->label[i]]++;
        for (long i = 0; i < s->n; i++) {
            int c = s->label[order[i]];
            all[i] = (placed){((double)seen[c]++ + begin[c]) / (double)count[c], order[i], i};
        }
        qsort(all, (size_t)s->n, sizeof *all, by_place);
        for (long i = 0; i < s->n; i++) order[i] = all[i].sample;
    }
    free(all);
    free(begin);
    free(count);
    return st;
}

/* The first n of a permutation of all. */
static dl_status some_of(dl_draw *r, long size, long n, long *order) {
    if (n == size) return dl_draw_permutation(r, n, order), DL_OK;
    long *all = dl_data_alloc(size, sizeof *all);
    if (!all) return dl_failed();
    dl_draw_permutation(r, size, all);
    memcpy(order, all, (size_t)n * sizeof *order);
    free(all);
    return DL_OK;
}

static void chosen(const dl_sampling *s, dl_draw *r, long *order) {
    const dl_sampler *p = s->sampler;
    if (p->kind == SUBSET)
        dl_draw_permutation(r, s->n, order);
    else
        for (long i = 0; i < s->n; i++) order[i] = i;
    for (long i = 0; i < s->n; i++) {
        long at = p->index[order[i]];
        order[i] = at < 0 ? at + s->size : at;
    }
}

dl_status dl_sampling_order(const dl_sampling *s, uint64_t seed, long epoch, long *order) {
    dl_draw r = dl_draw_begin(seed, DL_FOR_ORDER, (uint64_t)epoch, 0);
    const dl_sampler *p = s->sampler;
    if (!p && !s->shuffle)
        for (long i = 0; i < s->n; i++) order[i] = i;
    if (!p) {
        if (s->shuffle) dl_draw_permutation(&r, s->n, order);
        return DL_OK;
    }
    switch (p->kind) {
    case RANDOM:
        if (!p->replacement) return some_of(&r, s->size, s->n, order);
        for (long i = 0; i < s->n; i++) order[i] = dl_draw_below(&r, (uint32_t)s->size);
        return DL_OK;
    case WEIGHTED:
        if (!p->replacement) return weighted_once(p, &r, s->n, order);
        return weighted_again(p, &r, s->n, order), DL_OK;
    case STRATIFIED: return stratified(s, &r, order);
    default: return chosen(s, &r, order), DL_OK;
    }
}
