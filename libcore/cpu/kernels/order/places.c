/* Kernels of places: of values in sorted rows, of the best element so far, and in equal intervals, which are counted.
 */
#include "cpu/kernels/order/places.h"
#include "core/scope.h"
#include "cpu/runtime/iter.h"
#include "ops/infer.h"
#include "ops/rules/index.h"
#include "ops/rules/sort.h"

#include <string.h>

/* ---- binary search */

/* Values are taken `each` at a time; those of one row lie in blocks of `m`. */
typedef struct search {
    const char *rows, *values;
    long *at, n, m, numel, each, esize;
    bool right;
    const dl_places_loops *loops;
} search;

static void search_values(void *arg, long task) {
    const search *s = arg;
    const long end = (task + 1) * s->each < s->numel ? (task + 1) * s->each : s->numel;
    for (long i = task * s->each, count; i < end; i += count) {
        const long left = s->m - i % s->m;
        count = left < end - i ? left : end - i;
        s->loops->search(s->rows + i / s->m * s->n * s->esize, s->n, s->values + i * s->esize, count, s->at + i,
                         s->right);
    }
}

static dl_status run_sorted_place(dl_call *c) {
    DL_OWNED dl_tensor *rows = dl_cpu_contiguous(c->in[0]), *values = rows ? dl_cpu_contiguous(c->in[1]) : NULL;
    if (!values) return dl_failed();
    const long n = rows->shape[rows->ndim - 1], numel = values->numel;
    const long m = rows->ndim > 1 ? values->shape[values->ndim - 1] : numel;
    search s = {dl_ptr(rows),
                dl_ptr(values),
                dl_ptr(c->out[0]),
                n,
                m,
                numel,
                4096,
                (long)dl_esize(rows),
                ATTR_I(c, SORTED_PLACE_RIGHT) != 0,
                &DL_SIMD_PICK(dl_places)[rows->dtype]};
    if (numel) dl_cpu_for((numel + s.each - 1) / s.each, dl_cpu_threads(8 * numel), search_values, &s);
    return DL_OK;
}
const dl_kernel dl_cpu_sorted_place = {.run = run_sorted_place,
                                       .dtypes = DL_BIT(DL_I32) | DL_BIT(DL_I64) | DL_BIT(DL_F32) | DL_BIT(DL_F64)};

/* ---- running places: of several equal ones the last, of NaN every one */

enum { BAND = 64 };

typedef struct running {
    const char *x;
    long *at, n, inner, bands;
    bool largest;
    const dl_places_loops *loops;
} running;

/* A band of the columns of x, [outer, n, inner], or a row. */
#define RUNNING(T)                                                                                                     \
    static void running_##T(void *arg, long task) {                                                                    \
        const running *r = arg;                                                                                        \
        long lo = task % r->bands * BAND, width = r->inner - lo < BAND ? r->inner - lo : BAND, place[BAND] = {0};      \
        long from = task / r->bands * r->n * r->inner + lo;                                                            \
        const T *x = (const T *)r->x + from;                                                                           \
        long *at = r->at + from;                                                                                       \
        T best[BAND];                                                                                                  \
        if (r->inner == 1) {                                                                                           \
            r->loops->running(x, at, r->n, r->largest);                                                                \
            return;                                                                                                    \
        }                                                                                                              \
        for (long j = 0; j < width; j++) best[j] = x[j];                                                               \
        for (long i = 0; i < r->n; i++, x += r->inner, at += r->inner)                                                 \
            for (long j = 0; j < width; j++) {                                                                         \
                bool wins = (r->largest ? x[j] >= best[j] : x[j] <= best[j]) || x[j] != x[j];                          \
                best[j] = wins ? x[j] : best[j], place[j] = wins ? i : place[j];                                       \
                at[j] = place[j];                                                                                      \
            }                                                                                                          \
    }
RUNNING(int)
RUNNING(long)
RUNNING(float)
RUNNING(double)

static dl_status run_best_place(dl_call *c) {
    static void (*const run[DL_NDTYPE])(void *, long) = {
        [DL_I32] = running_int, [DL_I64] = running_long, [DL_F32] = running_float, [DL_F64] = running_double};
    DL_OWNED dl_tensor *x = dl_cpu_contiguous(c->in[0]);
    if (!x) return dl_failed();
    int dim;
    DL_TRY(dl_dim_norm(ATTR_I(c, BEST_PLACE_DIM), x->ndim, &dim));
    running r = {dl_ptr(x),
                 dl_ptr(c->out[0]),
                 x->ndim ? x->shape[dim] : 1,
                 1,
                 1,
                 ATTR_I(c, BEST_PLACE_LARGEST) != 0,
                 &DL_SIMD_PICK(dl_places)[x->dtype]};
    for (int d = dim + 1; d < x->ndim; d++) r.inner *= x->shape[d];
    r.bands = (r.inner + BAND - 1) / BAND;
    if (x->numel) dl_cpu_for(x->numel / (r.n * r.inner) * r.bands, dl_cpu_threads(x->numel), run[x->dtype], &r);
    return DL_OK;
}
const dl_kernel dl_cpu_best_place = {.run = run_best_place,
                                     .dtypes = DL_BIT(DL_I32) | DL_BIT(DL_I64) | DL_BIT(DL_F32) | DL_BIT(DL_F64)};

/* ---- counts of intervals */

enum { COUNTED_BLOCK = 1 << 14 };

/* Places of some elements at once, without a branch; those outside count in one more interval. */
#define COUNTS(T)                                                                                                      \
    static void counts_##T(const T *x, long n, T low, T high, T scale, long bins, long *counts) {                      \
        enum { FEW = 256 };                                                                                            \
        int at[FEW];                                                                                                   \
        for (long from = 0; from < n; from += FEW) {                                                                   \
            const long some = n - from < FEW ? n - from : FEW;                                                         \
            for (long i = 0; i < some; i++) {                                                                          \
                const T v = x[from + i], place = (v - low) * scale, last = (T)(bins - 1);                              \
                const bool in = v >= low && v <= high;                                                                 \
                at[i] = in ? (int)(place < last ? place : last) : (int)bins;                                           \
            }                                                                                                          \
            for (long i = 0; i < some; i++) counts[at[i]]++;                                                           \
        }                                                                                                              \
    }
COUNTS(float)
COUNTS(double)

/* Of a row of n elements. */
static void count_row(const dl_call *c, long row, long n, long *counts, dl_stop *stop) {
    const dl_tensor *x = c->in[0], *o = c->out[0];
    const long bins = ATTR_I(c, INTERVAL_COUNTS_BINS), first = row * n, end = first + n;
    const double low = ATTR_F(c, INTERVAL_COUNTS_LOW), high = ATTR_F(c, INTERVAL_COUNTS_HIGH),
                 scale = (double)bins / (high - low);
    const bool f64 = x->dtype == DL_F64;
    memset(counts, 0, sizeof *counts * (size_t)(bins + 1));
    for (long at = first; at < end && !dl_stop_asked(stop); at += COUNTED_BLOCK) {
        const long some = end - at < COUNTED_BLOCK ? end - at : COUNTED_BLOCK;
        if (f64)
            counts_double((const double *)dl_ptr(x) + at, some, low, high, scale, bins, counts);
        else
            counts_float((const float *)dl_ptr(x) + at, some, (float)low, (float)high, (float)scale, bins, counts);
    }
    for (long k = 0; k < bins; k++) {
        if (f64)
            ((double *)dl_ptr(o))[row * bins + k] = (double)counts[k];
        else
            ((float *)dl_ptr(o))[row * bins + k] = (float)counts[k];
    }
}

static dl_status interval_counts(dl_call *c) {
    const dl_tensor *x = c->in[0];
    const long bins = ATTR_I(c, INTERVAL_COUNTS_BINS), n = x->shape[x->ndim - 1], rows = c->out[0]->numel / bins;
    const size_t bytes = sizeof(long) * (size_t)(bins + 1);
    if (bins >= INT32_MAX) return dl_fail(DL_ERR_VALUE, "bins must be fewer than 2^31, not %ld", bins);
    long *counts = dl_host_alloc(bytes);
    if (!counts) return dl_failed();
    dl_stop stop = dl_stop_begin();
    for (long row = 0; row < rows; row++) count_row(c, row, n, counts, &stop);
    dl_stop_end(&stop);
    dl_host_free(counts, bytes);
    return DL_OK;
}
DL_CPU_KERNEL(interval_counts, interval_counts, true, DL_FLOATS)
