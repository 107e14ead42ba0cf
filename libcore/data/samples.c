/* The memory of datasets: reserving samples, fetching one, holding some out, normalising, fingerprints. */
#include "data/data.h"

#include <math.h>
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Init and its kin, which allocate nothing and so cannot fail */
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/memory/memory.h"
#include "core/tensor.h"
#include "data/draw.h"
#include "data/view.h"

void *dl_data_alloc(long n, size_t size) {
    int64_t bytes = n;
    bool counted = dl_count_mul(&bytes, (int64_t)size), some = counted && dl_memory_request((size_t)bytes) == DL_OK;
    void *p = some ? calloc(bytes ? (size_t)bytes : 1, 1) : NULL;
    if (p) return dl_memory_commit(p, (size_t)bytes), p;
    if (counted && !some) { /* dl_memory_request has recorded the cause */
        char what[80];
        snprintf(what, sizeof what, "%ld pieces of %zu bytes for a dataset", n, size);
        dl_error_context(NULL, what);
        return NULL;
    }
    dl_fail(DL_ERR_MEMORY, "no memory for a dataset: %ld pieces of %zu bytes", n, size);
    return NULL;
}

size_t dl_data_kept_size(const dl_dataset *d) { return (size_t)d->numel * (size_t)dl_dtype_size(d->dtype); }
size_t dl_data_sample_size(const dl_dataset *d) {
    return (size_t)d->numel * (size_t)dl_dtype_size(dl_dataset_batch_dtype(d));
}
size_t dl_data_target_size(const dl_dataset *d) {
    return (size_t)d->target_numel * (size_t)dl_dtype_size(d->target_dtype);
}

static long product(int ndim, const long *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        if (!dl_count_mul(&n, shape[i])) return -1;
    return n;
}

void dl_data_set_shape(dl_dataset *d, int ndim, const long *shape) {
    d->ndim = ndim;
    memcpy(d->shape, shape, (size_t)ndim * sizeof *shape);
    d->numel = product(ndim, shape);
    d->channels = ndim == 3 ? shape[0] : 1;
}

void dl_data_set_target(dl_dataset *d, int ndim, const long *shape) {
    d->target_ndim = ndim;
    memcpy(d->target_shape, shape, (size_t)ndim * sizeof *shape);
    d->target_numel = product(ndim, shape);
}

dl_field dl_data_field(const dl_dataset *d, int i) {
    if (d->fields) return d->fields[i];
    bool target = i >= d->form.inputs;
    dl_field f = {.ndim = target ? d->target_ndim : d->ndim,
                  .kept = target ? d->target_dtype : d->dtype,
                  .dtype = target ? d->target_dtype : dl_dataset_batch_dtype(d),
                  .pad = target ? d->pad_target : d->pad,
                  .lut = target ? NULL : d->lut};
    memcpy(f.shape, target ? d->target_shape : d->shape, sizeof f.shape);
    return f;
}

dl_status dl_data_take_fields(dl_dataset *d, const dl_dataset *of) {
    dl_data_set_shape(d, of->ndim, of->shape);
    dl_data_set_target(d, of->target_ndim, of->target_shape);
    d->dtype = of->dtype, d->target_dtype = of->target_dtype;
    d->padded = of->padded, d->pad = of->pad, d->pad_target = of->pad_target;
    d->form = of->form;
    if (!of->fields) return DL_OK;
    long n = of->form.inputs + of->form.targets;
    if (!(d->fields = dl_data_alloc(n, sizeof *d->fields))) return dl_failed();
    memcpy(d->fields, of->fields, (size_t)n * sizeof *d->fields);
    return DL_OK;
}

void dl_data_drop_classes(dl_dataset *d) {
    for (long i = 0; d->class_names && i < d->classes; i++) free(d->class_names[i]);
    free(d->class_names);
    d->class_names = NULL;
    d->classes = 0;
}

dl_status dl_data_set_classes(dl_dataset *d, long n, const char *const *names) {
    char number[24];
    dl_data_drop_classes(d);
    if (!(d->class_names = dl_data_alloc(n, sizeof *d->class_names))) return dl_failed();
    d->classes = n, d->target_dtype = DL_I64;
    for (long i = 0; i < n; i++) {
        snprintf(number, sizeof number, "%ld", i);
        if (!(d->class_names[i] = strdup(names ? names[i] : number)))
            return dl_fail(DL_ERR_MEMORY, "no memory for the names of classes");
    }
    return DL_OK;
}

dl_status dl_data_reserve(dl_dataset *d, int split, long n) {
    dl_samples *s = &d->split[split];
    if (d->numel <= 0)
        return dl_fail(DL_ERR_SHAPE, "a dataset's samples must hold at least one number each, and fewer than 2^63");
    if (!(s->x = dl_data_alloc(n, dl_data_kept_size(d))) || !(s->y = dl_data_alloc(n, dl_data_target_size(d))))
        return dl_failed();
    if (d->render && !(s->drawn = dl_data_alloc(n, 1))) return dl_failed();
    s->n = n;
    return DL_OK;
}

/* ---------------------------------------------------------------- one sample */

/* The bytes of a sample that is drawn on demand. The first thread draws it for all; another one that comes meanwhile
 * draws into `spare`, so that no thread waits. */
static const uint8_t *drawn(dl_dataset *d, int split, long i, uint8_t *spare) {
    dl_samples *s = &d->split[split];
    uint8_t *kept = (uint8_t *)s->x + i * d->numel, idle = 0;
    if (__atomic_load_n(&s->drawn[i], __ATOMIC_ACQUIRE) == 2) return kept;
    if (__atomic_compare_exchange_n(&s->drawn[i], &idle, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        d->render(d, split, i, kept);
        __atomic_store_n(&s->drawn[i], 2, __ATOMIC_RELEASE);
        return kept;
    }
    if (idle == 2) return kept;
    d->render(d, split, i, spare);
    return spare;
}

/* The sample in memory; of one drawn on demand, `spare` has room for its bytes. */
static const void *sample_at(dl_dataset *d, int split, long i, void *spare) {
    if (d->render) return drawn(d, split, i, spare);
    return (const char *)d->split[split].x + (size_t)i * dl_data_kept_size(d);
}

dl_status dl_data_keep(dl_dataset *d, int split, long i, void *x, void *y) {
    if (d->source.read) return d->source.read(d, split, i, x, y);
    size_t kept = dl_data_kept_size(d), target = dl_data_target_size(d);
    memcpy(y, (const char *)d->split[split].y + (size_t)i * target, target);
    const void *from = x ? sample_at(d, split, i, x) : x;
    if (from != x) memcpy(x, from, kept);
    return DL_OK;
}

dl_status dl_data_fetch(dl_dataset *d, int split, long i, void *to, void *y) {
    if (d->dtype != DL_U8) return dl_data_keep(d, split, i, to, y);
    /* x has four times the room of the bytes: its last quarter serves as the spare page, read before it is written */
    float *x = to;
    uint8_t *page = (uint8_t *)(x + d->numel) - d->numel;
    const uint8_t *bytes = page;
    if (d->source.read) {
        DL_TRY(dl_data_keep(d, split, i, page, y));
    } else {
        size_t target = dl_data_target_size(d);
        memcpy(y, (const char *)d->split[split].y + (size_t)i * target, target);
        bytes = sample_at(d, split, i, page);
    }
    long plane = d->numel / d->channels;
    for (long c = 0; c < d->channels; c++) {
        const float *lut = d->lut + c * 256;
        for (long j = 0; j < plane; j++) x[c * plane + j] = lut[bytes[c * plane + j]];
    }
    return DL_OK;
}

dl_status dl_data_label(dl_dataset *d, int split, long i, int64_t *label) {
    if (dl_data_reads(d)) return dl_data_keep(d, split, i, NULL, label);
    DL_SCOPED_BATCH b = {0};
    long v = 0;
    DL_TRY(d->source.give(d, split, i, b.x, b.y));
    DL_TRY(dl_item_i(b.y[0], &v));
    *label = v;
    return DL_OK;
}

/* ---------------------------------------------------------------- splits */

/* Copies samples to part[out[i]], ntest of them to the second part. */
static dl_status partition(const dl_dataset *d, const dl_samples *from, const bool *out, long ntest,
                           dl_samples part[2]) {
    size_t sx = dl_data_kept_size(d), sy = dl_data_target_size(d);
    for (int s = 0; s < 2; s++) {
        long n = s ? ntest : from->n - ntest;
        if (!(part[s].x = dl_data_alloc(n, sx)) || !(part[s].y = dl_data_alloc(n, sy))) return dl_failed();
    }
    for (long i = 0; i < from->n; i++) {
        DL_TRY(dl_interrupt_check_at(i));
        dl_samples *t = &part[out[i]];
        memcpy((char *)t->x + (size_t)t->n * sx, (const char *)from->x + (size_t)i * sx, sx);
        memcpy((char *)t->y + (size_t)t->n * sy, (const char *)from->y + (size_t)i * sy, sy);
        t->n++;
    }
    return DL_OK;
}

dl_status dl_data_hold_out(dl_dataset *d, double fraction, uint64_t seed) {
    dl_samples from = d->split[0], part[2] = {{0}, {0}};
    if (!(fraction >= 0 && fraction < 1))
        return dl_fail_hint(DL_ERR_VALUE, "0.2 holds out every fifth sample on average; 0 makes no test split",
                            "option holdout=%g; it is a fraction from 0 to less than 1", fraction);
    long out = (long)((double)from.n * fraction + 0.5);
    if (!out || out >= from.n) return DL_OK;
    if (d->source.read || d->source.give) return dl_data_hold_out_view(d, out, seed);
    long *order = dl_data_alloc(from.n, sizeof *order);
    bool *is_out = dl_data_alloc(from.n, sizeof *is_out);
    dl_status st = order && is_out ? DL_OK : dl_failed();
    if (st == DL_OK) {
        dl_draw r = dl_draw_begin(seed, DL_FOR_HOLDOUT, 0, 0);
        dl_draw_permutation(&r, from.n, order);
        for (long i = 0; i < out; i++) is_out[order[i]] = true;
        st = partition(d, &from, is_out, out, part);
    }
    for (int s = 0; s < 2; s++) {
        dl_samples *gone = st == DL_OK ? &d->split[s] : &part[s];
        free(gone->x);
        free(gone->y);
        if (st == DL_OK) d->split[s] = part[s];
    }
    free(order);
    free(is_out);
    return st;
}

/* ---------------------------------------------------------------- normalisation */

typedef struct moments {
    double mean, scale; /* scale: 1 / deviation, 1 where all values are equal */
} moments;

static moments moments_of(double n, double sum, double squares) {
    double mean = n > 0 ? sum / n : 0, var = n > 0 ? squares / n - mean * mean : 0;
    return (moments){mean, var > 1e-12 * mean * mean && var > 0 ? 1 / sqrt(var) : 1};
}

/* How often each byte occurs in each channel of the training split: count[channels][256]. */
static dl_status count_bytes(dl_dataset *d, uint64_t *count) {
    long plane = d->numel / d->channels;
    uint8_t *page = dl_data_alloc(d->numel, 1), *label = dl_data_alloc(1, dl_data_target_size(d));
    dl_status st = page && label ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && i < d->split[0].n && (st = dl_interrupt_check_at(16 * i)) == DL_OK; i++) {
        const uint8_t *x = page;
        if (d->source.read)
            st = dl_data_keep(d, 0, i, page, label);
        else
            x = sample_at(d, 0, i, page);
        for (long c = 0; st == DL_OK && c < d->channels; c++)
            for (long j = 0; j < plane; j++) count[c * 256 + x[c * plane + j]]++;
    }
    free(page);
    free(label);
    return st;
}

/* In units of 255. */
static moments byte_moments(const uint64_t count[256]) {
    double n = 0, sum = 0, squares = 0;
    for (int b = 0; b < 256; b++) {
        double v = b / 255.0, k = (double)count[b];
        n += k, sum += k * v, squares += k * v * v;
    }
    return moments_of(n, sum, squares);
}

static dl_status fill_lut(dl_dataset *d, long c, moments m) {
    if (!d->lut && !(d->lut = dl_data_alloc(d->channels * 256, sizeof *d->lut))) return dl_failed();
    for (int b = 0; b < 256; b++) d->lut[c * 256 + b] = (float)((b / 255.0 - m.mean) * m.scale);
    return DL_OK;
}

static dl_status normalize_bytes(dl_dataset *d, const char *how) {
    bool standard = !strcmp(how, "standard");
    uint64_t *count = dl_data_alloc(d->channels * 256, sizeof *count);
    dl_status st = !count ? dl_failed() : standard ? count_bytes(d, count) : DL_OK;
    for (long c = 0; st == DL_OK && c < d->channels; c++) {
        moments m = {0, strcmp(how, "none") ? 1 : 255};
        st = fill_lut(d, c, standard ? byte_moments(count + 256 * c) : m);
    }
    free(count);
    return st;
}

dl_status dl_data_standardize_bytes(dl_dataset *d, double mean, double deviation) {
    return fill_lut(d, 0, (moments){mean, 1 / deviation});
}

/* By channel of pictures, by feature of vectors, else over all elements. The deviation is taken around the mean, in a
 * second pass, since features may lie far from 0. */
static void standardize_floats(dl_dataset *d) {
    long groups = d->ndim == 3 ? d->channels : d->ndim == 1 ? d->numel : 1, width = d->numel / groups;
    for (long g = 0; g < groups; g++) {
        double n = (double)(d->split[0].n * width), mean = 0, squares = 0;
        const float *x = d->split[0].x;
        for (long i = 0; i < d->split[0].n; i++)
            for (long j = g * width; j < (g + 1) * width; j++) mean += x[i * d->numel + j];
        mean = n > 0 ? mean / n : 0;
        for (long i = 0; i < d->split[0].n; i++)
            for (long j = g * width; j < (g + 1) * width; j++)
                squares += (x[i * d->numel + j] - mean) * (x[i * d->numel + j] - mean);
        double scale = squares > 0 ? 1 / sqrt(squares / n) : 1;
        for (int s = 0; s < 2; s++)
            for (long i = 0; i < d->split[s].n; i++)
                for (long j = g * width; j < (g + 1) * width; j++) {
                    float *v = (float *)d->split[s].x + i * d->numel + j;
                    *v = (float)((*v - mean) * scale);
                }
    }
}

/* Integers become f32. */
static dl_status make_floats(dl_dataset *d) {
    for (int s = 0; s < 2; s++) {
        long n = d->split[s].n * d->numel;
        int64_t *from = d->split[s].x;
        float *x = dl_data_alloc(n, sizeof *x);
        if (!x) return dl_failed();
        for (long i = 0; from && i < n; i++) x[i] = (float)from[i];
        d->split[s].x = x;
        free(from);
    }
    d->dtype = DL_F32;
    return DL_OK;
}

dl_status dl_data_normalize(dl_dataset *d, const char *how) {
    if (d->dtype == DL_U8) return normalize_bytes(d, how);
    if (!strcmp(how, "unit"))
        return dl_fail_hint(DL_ERR_VALUE, "normalize=standard gives every feature mean 0 and deviation 1",
                            "normalize=unit is for bytes, and this data is %s", dl_dtype_name(d->dtype));
    if (strcmp(how, "standard")) return DL_OK;
    if (d->source.read || d->source.give)
        return dl_fail_hint(DL_ERR_VALUE, "transforms=\"normalize mean=0.5 std=2\" changes samples as they are loaded",
                            "normalize=standard rewrites samples, and those of '%s' are not in memory", d->name);
    if (d->dtype == DL_I64) DL_TRY(make_floats(d));
    standardize_floats(d);
    return DL_OK;
}

/* ---------------------------------------------------------------- fingerprints */

static void hash_contents(SHA256_CTX *c, const dl_dataset *d) {
    char head[256];
    int n = snprintf(head, sizeof head, "%s classes=%ld n=%ld,%ld x=", dl_dtype_name(d->dtype), d->classes,
                     d->split[0].n, d->split[1].n);
    for (int i = 0; i < d->ndim; i++) n += snprintf(head + n, sizeof head - (size_t)n, "%ld,", d->shape[i]);
    n += snprintf(head + n, sizeof head - (size_t)n, " y=%ld", d->target_numel);
    if (!d->classes && d->target_dtype != DL_F32)
        n += snprintf(head + n, sizeof head - (size_t)n, " %s", dl_dtype_name(d->target_dtype));
    SHA256_Update(c, head, (size_t)n);
    for (int s = 0; s < 2; s++) {
        if (!d->split[s].n) continue;
        SHA256_Update(c, d->split[s].x, (size_t)d->split[s].n * dl_data_kept_size(d));
        SHA256_Update(c, d->split[s].y, (size_t)d->split[s].n * dl_data_target_size(d));
    }
}

static void write_digest(dl_dataset *d, SHA256_CTX *c) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, c);
    for (unsigned i = 0; i < sizeof digest; i++) sprintf(d->fingerprint + 2 * i, "%02x", digest[i]);
}

void dl_data_set_fingerprint_of(dl_dataset *d, const dl_piece *pieces, int n) {
    SHA256_CTX c;
    SHA256_Init(&c);
    for (int i = 0; i < n; i++) SHA256_Update(&c, pieces[i].at, pieces[i].bytes);
    write_digest(d, &c);
}

void dl_data_set_fingerprint(dl_dataset *d, const char *text) {
    SHA256_CTX c;
    SHA256_Init(&c);
    if (text)
        SHA256_Update(&c, text, strlen(text));
    else
        hash_contents(&c, d);
    write_digest(d, &c);
}

dl_status dl_data_finish(const dl_data_args *a, dl_dataset *d) {
    dl_data_set_fingerprint(d, NULL);
    return dl_data_normalize(d, dl_data_str(a, "normalize"));
}
