/* Kernel of ranked_place: the place of the element that sorting would put at a rank, without sorting. Counts by the
 * upper digit of keys (core/sort_key.h) say in which part the rank lies; the places of that part are kept, in order,
 * and counted by the next digit. */
#include "core/scope.h"
#include "core/sort_key.h"
#include "cpu/runtime/iter.h"
#include "ops/infer.h"
#include "ops/rules/sort.h"

#include <string.h>

enum { DIGIT = 11, VALUES = 1 << DIGIT, FEW_DIGIT = 8, FEW = 1 << 14 /* in a row: counts of long digits cost more */ };

typedef struct job {
    const char *x; /* rows side by side */
    long *place, *work, rows, n, each, rank;
    int esize, digit;
    bool middle, numbers;
    dl_order order;
    dl_stop *stop;
} job;

/* The rank in the middle: of numbers alone, or of all, where NaN, which comes last, wins. */
static long middle_of(const job *j, long nans) {
    if (!j->numbers) return nans ? j->n - 1 : (j->n - 1) / 2;
    return nans < j->n ? (j->n - nans - 1) / 2 : 0;
}

/* The value whose count holds the rank, from which those before it are taken off. */
static long value_with(const long *count, long *rank) {
    long v = 0;
    for (; *rank >= count[v]; v++) *rank -= count[v];
    return v;
}

#define RANKED(U)                                                                                                      \
    static long ranked_##U(const job *j, const U *x, long *at) {                                                       \
        const dl_order o = j->order;                                                                                   \
        const int bits = 8 * (int)sizeof(U), digit = j->digit < bits ? j->digit : bits;                                \
        long count[VALUES] = {0}, nans = 0, left = 0;                                                                  \
        int shift = bits - digit;                                                                                      \
        DL_CPU_EACH (i, j->n, j->stop) {                                                                               \
            const uint64_t key = dl_order_key(o, x[i]);                                                                \
            count[key >> shift]++, nans += key == o.all;                                                               \
        }                                                                                                              \
        if (j->stop->incomplete) return 0;                                                                             \
        long rank = j->middle ? middle_of(j, o.inf ? nans : 0) : j->rank;                                              \
        const uint64_t first = (uint64_t)value_with(count, &rank);                                                     \
        DL_CPU_EACH (i, j->n, j->stop) {                                                                               \
            at[left] = i;                                                                                              \
            left += dl_order_key(o, x[i]) >> shift == first;                                                           \
        }                                                                                                              \
        if (j->stop->incomplete) return 0;                                                                             \
        for (int width; shift && left > 1 && !dl_stop_asked(j->stop);) {                                               \
            width = shift < digit ? shift : digit, shift -= width;                                                     \
            const uint64_t mask = ((uint64_t)1 << width) - 1;                                                          \
            long kept = 0;                                                                                             \
            memset(count, 0, sizeof *count << width);                                                                  \
            for (long i = 0; i < left; i++) count[dl_order_key(o, x[at[i]]) >> shift & mask]++;                        \
            const uint64_t v = (uint64_t)value_with(count, &rank);                                                     \
            for (long i = 0; i < left; i++) {                                                                          \
                const long here = at[i];                                                                               \
                at[kept] = here;                                                                                       \
                kept += (dl_order_key(o, x[here]) >> shift & mask) == v;                                               \
            }                                                                                                          \
            left = kept;                                                                                               \
        }                                                                                                              \
        return at[rank];                                                                                               \
    }
RANKED(uint8_t)
RANKED(uint16_t)
RANKED(uint32_t)
RANKED(uint64_t)

static void find_rows(void *arg, long task) {
    const job *j = arg;
    const long end = (task + 1) * j->each < j->rows ? (task + 1) * j->each : j->rows;
    long *work = j->work + task * j->n;
    for (long row = task * j->each; row < end && !dl_stop_asked(j->stop); row++) {
        const char *x = j->x + row * j->n * j->esize;
        j->place[row] = j->esize == 1   ? ranked_uint8_t(j, (const uint8_t *)x, work)
                        : j->esize == 2 ? ranked_uint16_t(j, (const uint16_t *)x, work)
                        : j->esize == 4 ? ranked_uint32_t(j, (const uint32_t *)x, work)
                                        : ranked_uint64_t(j, (const uint64_t *)x, work);
    }
}

/* x with dimension d as the last one, contiguous. */
static dl_tensor *with_last(dl_tensor *x, int d) {
    if (dl_is_contiguous(x) && d == x->ndim - 1) return dl_ref(x);
    long shape[DL_MAX_DIM], from[DL_MAX_DIM];
    int n = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != d) shape[n] = x->shape[i], from[n++] = x->stride[i];
    shape[n] = x->shape[d], from[n++] = x->stride[d];
    dl_tensor *t = dl_tensor_empty(n, shape, (dl_dtype)x->dtype, 0);
    if (t) dl_cpu_copy_strided(n, shape, dl_ptr(t), t->dtype, t->stride, dl_ptr(x), x->dtype, from);
    return t;
}

static dl_status run_ranked_place(dl_call *c) {
    dl_tensor *x = c->in[0];
    const dl_aval *rank = ATTR(c, RANKED_PLACE_K);
    int d = 0;
    if (x->ndim) DL_TRY(dl_dim_norm(ATTR_I(c, RANKED_PLACE_DIM), x->ndim, &d));
    DL_OWNED dl_tensor *rows = x->ndim ? with_last(x, d) : dl_ref(x);
    if (!rows) return dl_failed();
    dl_stop stop = dl_stop_begin();
    job j = {.x = dl_ptr(rows),
             .place = dl_ptr(c->out[0]),
             .rows = c->out[0]->numel,
             .n = x->ndim ? x->shape[d] : 1,
             .middle = !rank->given,
             .rank = rank->given ? rank->u.i : 0,
             .numbers = ATTR_I(c, RANKED_PLACE_NUMBERS) != 0,
             .esize = (int)dl_esize(x),
             .order = dl_order_of((dl_dtype)x->dtype, false),
             .stop = &stop};
    long tasks = dl_cpu_threads(8 * x->numel);
    if (tasks > j.rows) tasks = j.rows;
    if (!tasks) return DL_OK;
    j.digit = j.n < FEW ? FEW_DIGIT : DIGIT, j.each = (j.rows + tasks - 1) / tasks;
    const size_t bytes = (size_t)(tasks * j.n) * sizeof *j.work;
    if (!(j.work = dl_host_alloc(bytes))) return dl_failed();
    dl_cpu_for(tasks, (int)tasks, find_rows, &j);
    dl_stop_end(&stop);
    dl_host_free(j.work, bytes);
    return DL_OK;
}
const dl_kernel dl_cpu_ranked_place = {.run = run_ranked_place, .dtypes = DL_ANY};
