/* Kernels of sort and topk. Elements become unsigned keys (core/sort_key.h) beside their places, which are sorted by
 * both, so that equal elements keep their order. A task takes a range of rows in the last dimension, where others are
 * brought first. Short rows are sorted by merging, long ones by digits; the first few of many elements are kept in a
 * heap. */
#include "core/sort_key.h"
#include "cpu/runtime/iter.h"
#include "ops/infer.h"
#include "ops/rules/sort.h"

#include <string.h>

enum { RUN = 16, MERGED = 256, DIGIT = 8, VALUES = 1 << DIGIT, FEW = 8 };

/* Key and place in one number where the key has up to 32 bits; else two numbers. */
typedef uint64_t narrow;
typedef struct wide {
    uint64_t key, at;
} wide;

#define NARROW_BEFORE(a, b) ((a) < (b))
#define NARROW_DIGIT(a, shift) ((a) >> (32 + (shift)))
#define WIDE_BEFORE(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).at < (b).at))
#define WIDE_DIGIT(a, shift) ((a).key >> (shift))

/* NAME_merge, NAME_digits, NAME_sort(a, work, n, bits of a key): the result is in a. NAME_first(a, n, k): the first k
 * of them in order, in a heap whose top is the last. Once stop->incomplete is set, the result is undefined. */
#define SORTER(T, BEFORE, DIGIT_OF)                                                                                    \
    static void T##_insert(T *a, long n) {                                                                             \
        for (long i = 1; i < n; i++) {                                                                                 \
            T own = a[i];                                                                                              \
            long to = i;                                                                                               \
            for (; to > 0 && BEFORE(own, a[to - 1]); to--) a[to] = a[to - 1];                                          \
            a[to] = own;                                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static void T##_join(const T *a, long na, const T *b, long nb, T *out) {                                           \
        while (na && nb) {                                                                                             \
            bool second = BEFORE(*b, *a);                                                                              \
            *out++ = second ? *b : *a;                                                                                 \
            b += second, nb -= second;                                                                                 \
            a += !second, na -= !second;                                                                               \
        }                                                                                                              \
        memcpy(out, a, (size_t)na * sizeof *a);                                                                        \
        memcpy(out + na, b, (size_t)nb * sizeof *b);                                                                   \
    }                                                                                                                  \
    static void T##_merge(T *a, T *work, long n, dl_stop *stop) {                                                      \
        T *from = a, *to = work;                                                                                       \
        for (long i = 0; i < n; i += RUN) T##_insert(a + i, n - i < RUN ? n - i : RUN);                                \
        for (long run = RUN; run < n; run *= 2) {                                                                      \
            for (long i = 0; i < n && !dl_stop_asked(stop); i += 2 * run) {                                            \
                long na = n - i < run ? n - i : run, nb = n - i - na < run ? n - i - na : run;                         \
                T##_join(from + i, na, from + i + na, nb, to + i);                                                     \
            }                                                                                                          \
            T *last = from;                                                                                            \
            from = to, to = last;                                                                                      \
        }                                                                                                              \
        if (from != a) memcpy(a, from, (size_t)n * sizeof *a);                                                         \
    }                                                                                                                  \
    /* Lowest digits first; a digit that all keys share is skipped. */                                                 \
    static void T##_digits(T *a, T *work, long n, int bits, dl_stop *stop) {                                           \
        T *from = a, *to = work;                                                                                       \
        for (int shift = 0; shift < bits; shift += DIGIT) {                                                            \
            long count[VALUES] = {0}, at = 0;                                                                          \
            DL_CPU_EACH (i, n, stop) count[DIGIT_OF(from[i], shift) & (VALUES - 1)]++;                                 \
            if (stop->incomplete) return;                                                                              \
            if (count[DIGIT_OF(from[0], shift) & (VALUES - 1)] == n) continue;                                         \
            for (int v = 0; v < VALUES; v++) {                                                                         \
                long own = count[v];                                                                                   \
                count[v] = at;                                                                                         \
                at += own;                                                                                             \
            }                                                                                                          \
            DL_CPU_EACH (i, n, stop) to[count[DIGIT_OF(from[i], shift) & (VALUES - 1)]++] = from[i];                   \
            if (stop->incomplete) return;                                                                              \
            T *last = from;                                                                                            \
            from = to, to = last;                                                                                      \
        }                                                                                                              \
        if (from != a) memcpy(a, from, (size_t)n * sizeof *a);                                                         \
    }                                                                                                                  \
    static void T##_sort(T *a, T *work, long n, int bits, dl_stop *stop) {                                             \
        if (n <= RUN)                                                                                                  \
            T##_insert(a, n);                                                                                          \
        else if (n <= MERGED)                                                                                          \
            T##_merge(a, work, n, stop);                                                                               \
        else                                                                                                           \
            T##_digits(a, work, n, bits, stop);                                                                        \
    }                                                                                                                  \
    static void T##_sink(T *heap, long k, long i, T v) {                                                               \
        for (long child; (child = 2 * i + 1) < k; i = child) {                                                         \
            child += child + 1 < k && BEFORE(heap[child], heap[child + 1]);                                            \
            if (!BEFORE(v, heap[child])) break;                                                                        \
            heap[i] = heap[child];                                                                                     \
        }                                                                                                              \
        heap[i] = v;                                                                                                   \
    }                                                                                                                  \
    static void T##_first(T *a, T *work, long n, long k, dl_stop *stop) {                                              \
        for (long i = k / 2; i-- > 0;) T##_sink(a, k, i, a[i]);                                                        \
        DL_CPU_EACH (i, n, stop)                                                                                       \
            if (i >= k && BEFORE(a[i], a[0])) T##_sink(a, k, 0, a[i]);                                                 \
        T##_merge(a, work, k, stop);                                                                                   \
    }

SORTER(narrow, NARROW_BEFORE, NARROW_DIGIT)
SORTER(wide, WIDE_BEFORE, WIDE_DIGIT)

typedef struct job {
    const char *x;
    char *values;
    long *places;
    long rows, n, k, each; /* rows of n, of which the first k are wanted; rows of a task */
    int esize;
    bool narrow;
    dl_order order;
    char *work; /* twice a row's items for each task */
    dl_stop *stop;
} job;

static size_t item_size(const job *j) { return j->narrow ? sizeof(narrow) : sizeof(wide); }

#define KEYS(U)                                                                                                        \
    DL_CPU_EACH (i, j->n, j->stop) {                                                                                   \
        uint64_t key = dl_order_key(o, ((const U *)x)[i]);                                                             \
        if (a)                                                                                                         \
            a[i] = key << 32 | (uint64_t)i;                                                                            \
        else                                                                                                           \
            b[i] = (wide){key, (uint64_t)i};                                                                           \
    }

/* The items of a row, in a or in b; the other is NULL. */
static void make_keys(const job *j, const char *x, narrow *a, wide *b) {
    dl_order o = j->order;
    switch (j->esize) {
    case 1: KEYS(uint8_t) break;
    case 2: KEYS(uint16_t) break;
    case 4: KEYS(uint32_t) break;
    default: KEYS(uint64_t) break;
    }
}

#define TAKE(U)                                                                                                        \
    DL_CPU_EACH (i, j->k, j->stop) ((U *)v)[i] = ((const U *)x)[place[i]];

static void give_values(const job *j, const char *x, const long *place, char *v) {
    switch (j->esize) {
    case 1: TAKE(uint8_t) break;
    case 2: TAKE(uint16_t) break;
    case 4: TAKE(uint32_t) break;
    default: TAKE(uint64_t) break;
    }
}

static void sort_row(const job *j, long row, void *work) {
    const char *x = j->x + row * j->n * j->esize;
    long *place = j->places + row * j->k;
    narrow *a = j->narrow ? work : NULL;
    wide *b = j->narrow ? NULL : work;
    int bits = 8 * j->esize;
    bool few = j->k < j->n / FEW;
    make_keys(j, x, a, b);
    if (a && few)
        narrow_first(a, a + j->n, j->n, j->k, j->stop);
    else if (a)
        narrow_sort(a, a + j->n, j->n, bits, j->stop);
    else if (few)
        wide_first(b, b + j->n, j->n, j->k, j->stop);
    else
        wide_sort(b, b + j->n, j->n, bits, j->stop);
    if (dl_stop_asked(j->stop)) return; /* the places may be anything */
    DL_CPU_EACH (i, j->k, j->stop) place[i] = a ? (long)(a[i] & 0xffffffff) : (long)b[i].at;
    if (!dl_stop_asked(j->stop)) give_values(j, x, place, j->values + row * j->k * j->esize);
}

static void sort_rows(void *arg, long task) {
    const job *j = arg;
    void *work = j->work + (size_t)task * 2 * (size_t)j->n * item_size(j);
    long end = (task + 1) * j->each < j->rows ? (task + 1) * j->each : j->rows;
    for (long row = task * j->each; row < end; row++) sort_row(j, row, work);
}

/* x, values and places contiguous, the rows in their last dimension. */
static dl_status sort_last(const dl_tensor *x, bool down, dl_tensor *values, dl_tensor *places) {
    dl_stop stop = dl_stop_begin();
    job j = {.x = dl_ptr(x), .values = dl_ptr(values), .places = dl_ptr(places), .stop = &stop};
    if (!values->numel) return DL_OK;
    j.n = x->ndim ? x->shape[x->ndim - 1] : 1;
    j.rows = x->numel / j.n, j.k = values->numel / j.rows;
    j.esize = (int)dl_esize(x);
    j.narrow = j.esize <= 4 && j.n <= 0xffffffff;
    j.order = dl_order_of(x->dtype, down);
    long tasks = dl_cpu_threads(8 * x->numel);
    tasks = tasks < j.rows ? tasks : j.rows;
    j.each = (j.rows + tasks - 1) / tasks;
    size_t bytes = (size_t)tasks * 2 * (size_t)j.n * item_size(&j);
    if (!(j.work = dl_host_alloc(bytes))) return dl_failed();
    dl_cpu_for(tasks, (int)tasks, sort_rows, &j);
    dl_stop_end(&stop);
    dl_host_free(j.work, bytes);
    return DL_OK;
}

static dl_status copy(dl_tensor *to, const dl_tensor *from) {
    dl_cpu_copy(to, from);
    return DL_OK;
}

static const dl_sorter sorter = {sort_last, copy};
static dl_status run_sort(dl_call *c) {
    return dl_sort_along(c, ATTR_I(c, SORT_DIM), ATTR_I(c, SORT_DESCENDING) != 0, &sorter);
}
static dl_status run_topk(dl_call *c) {
    return dl_sort_along(c, ATTR_I(c, TOPK_DIM), ATTR_I(c, TOPK_LARGEST) != 0, &sorter);
}
const dl_kernel dl_cpu_sort = {.run = run_sort, .dtypes = DL_ANY};
const dl_kernel dl_cpu_topk = {.run = run_topk, .dtypes = DL_ANY};
