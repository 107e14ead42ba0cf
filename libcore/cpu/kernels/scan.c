/* Kernels of running results along a dimension: sums, products, logarithms of sums of exponentials, recurrences. A task
 * has a band of the columns of [outer, n, inner]. */
#include "core/scope.h"
#include "cpu/runtime/iter.h"
#include "ops/infer.h"
#include "ops/rules/reduce.h"

#include <math.h>

enum { BAND = 64, TOGETHER = 4 };

typedef struct scans {
    dl_tensor *o;
    const void *a, *b; /* elements of a: in place those of o; b: of recurrences */
    long n, inner, bands, step;
    bool reverse;
    void (*run)(const struct scans *s, long at, long width);
    void (*rows)(const struct scans *s, long at, long rows); /* where inner is 1, if there is one */
    dl_stop *stop;
} scans;

static void scan_band(void *arg, long k) {
    const scans *s = arg;
    const long lo = k % s->bands * BAND, width = s->inner - lo < BAND ? s->inner - lo : BAND;
    s->run(s, k / s->bands * s->n * s->inner + lo, width);
}

static void scan_rows(void *arg, long k) {
    const scans *s = arg;
    const long rows = s->o->numel / s->n - k * TOGETHER;
    s->rows(s, k * TOGETHER * s->n, rows < TOGETHER ? rows : TOGETHER);
}

static dl_status run_scans(dl_tensor *o, long dim, scans s) {
    int d;
    dl_stop stop = dl_stop_begin();
    DL_TRY(dl_dim_norm(dim, o->ndim, &d));
    s.o = o, s.stop = &stop, s.n = o->ndim ? o->shape[d] : 1, s.inner = 1;
    for (int i = d + 1; i < o->ndim; i++) s.inner *= o->shape[i];
    s.bands = (s.inner + BAND - 1) / BAND;
    if (o->numel && s.inner == 1 && s.rows)
        dl_cpu_for((o->numel / s.n + TOGETHER - 1) / TOGETHER, dl_cpu_threads(o->numel), scan_rows, &s);
    else if (o->numel)
        dl_cpu_for(o->numel / (s.n * s.inner) * s.bands, dl_cpu_threads(o->numel), scan_band, &s);
    dl_stop_end(&stop);
    return DL_OK;
}

/* ---- sums and products of the input or, in place, of a converted copy; f32 is joined in f64 */

/* A step waits for the one before: along rows of their own, four elements are joined first; of products of
 * f64, which could overflow so, four rows go on side by side (`fours` is false). */
#define SCAN(name, T, A, FIRST, OP, fours)                                                                             \
    static void name##_rows(const scans *s, long at, long rows) {                                                      \
        const long n = s->n;                                                                                           \
        T *p = (T *)dl_ptr(s->o) + at;                                                                                 \
        const T *x = (const T *)s->a + at;                                                                             \
        for (; !(fours) && rows >= TOGETHER; rows -= TOGETHER, p += TOGETHER * n, x += TOGETHER * n) {                 \
            A a = FIRST, b = FIRST, c = FIRST, d = FIRST;                                                              \
            DL_CPU_EACH (i, n, s->stop) {                                                                              \
                p[i] = (T)(a = a OP(A) x[i]), p[n + i] = (T)(b = b OP(A) x[n + i]);                                    \
                p[2 * n + i] = (T)(c = c OP(A) x[2 * n + i]), p[3 * n + i] = (T)(d = d OP(A) x[3 * n + i]);            \
            }                                                                                                          \
        }                                                                                                              \
        for (; rows > 0; rows--, p += n, x += n) {                                                                     \
            A acc = FIRST;                                                                                             \
            const long quads = (fours) ? n / 4 : 0;                                                                    \
            DL_CPU_EACH (k, quads, s->stop) {                                                                          \
                T *q = p + 4 * k;                                                                                      \
                const T *v = x + 4 * k;                                                                                \
                const A a = (A)v[0], b = a OP(A) v[1], c = b OP(A) v[2], d = c OP(A) v[3];                             \
                q[0] = (T)(acc OP a), q[1] = (T)(acc OP b), q[2] = (T)(acc OP c), q[3] = (T)(acc = acc OP d);          \
            }                                                                                                          \
            DL_CPU_EACH (i, n - 4 * quads, s->stop) p[4 * quads + i] = (T)(acc = acc OP(A) x[4 * quads + i]);          \
        }                                                                                                              \
    }                                                                                                                  \
    static void name(const scans *s, long at, long width) {                                                            \
        T *p = (T *)dl_ptr(s->o) + at;                                                                                 \
        const T *x = (const T *)s->a + at;                                                                             \
        A acc[BAND];                                                                                                   \
        for (long j = 0; j < width; j++) acc[j] = FIRST;                                                               \
        DL_CPU_EACH (i, s->n, s->stop) {                                                                               \
            for (long j = 0; j < width; j++) {                                                                         \
                acc[j] = acc[j] OP(A) x[j];                                                                            \
                p[j] = (T)acc[j];                                                                                      \
            }                                                                                                          \
            p += s->inner, x += s->inner;                                                                              \
        }                                                                                                              \
    }
SCAN(sum_i64, long, unsigned long, 0, +, true)
SCAN(sum_f32, float, double, 0, +, true)
SCAN(sum_f64, double, double, 0, +, true)
SCAN(product_i64, long, unsigned long, 1, *, true)
SCAN(product_f32, float, double, 1, *, true)
SCAN(product_f64, double, double, 1, *, false)
#define LOOPS(name, dtype)                                                                                             \
    .run = dtype == DL_F32   ? name##_f32                                                                              \
           : dtype == DL_F64 ? name##_f64                                                                              \
                             : name##_i64,                                                                             \
    .rows = dtype == DL_F32   ? name##_f32_rows                                                                        \
            : dtype == DL_F64 ? name##_f64_rows                                                                        \
                              : name##_i64_rows

/* Those of the input where they lie as in the result, else their copies in it. */
static const void *elements_of(const dl_call *c) {
    dl_tensor *x = c->in[0], *o = c->out[0];
    if (x->dtype == o->dtype && dl_is_contiguous(x)) return dl_ptr(x);
    dl_cpu_copy(o, x);
    return dl_ptr(o);
}

static dl_status plain_cumsum(dl_call *c) {
    return run_scans(c->out[0], ATTR_I(c, CUMSUM_DIM), (scans){LOOPS(sum, c->out[0]->dtype), .a = elements_of(c)});
}
DL_CPU_KERNEL(cumsum, plain_cumsum, false, DL_ANY)

static dl_status plain_cumprod(dl_call *c) {
    return run_scans(c->out[0], ATTR_I(c, CUMPROD_DIM), (scans){LOOPS(product, c->out[0]->dtype), .a = elements_of(c)});
}
DL_CPU_KERNEL(cumprod, plain_cumprod, false, DL_ANY)

/* ---- logarithms of sums: sums of exponentials less the largest element so far */

#define LOG_SUM(name, T, EXP, LOG)                                                                                     \
    static void name(const scans *s, long at, long width) {                                                            \
        T *p = (T *)dl_ptr(s->o) + at, most[BAND];                                                                     \
        double sum[BAND];                                                                                              \
        for (long j = 0; j < width; j++) most[j] = -INFINITY, sum[j] = 0;                                              \
        DL_CPU_EACH (i, s->n, s->stop) {                                                                               \
            for (long j = 0; j < width; j++) {                                                                         \
                const T x = p[j];                                                                                      \
                if (x == most[j])                                                                                      \
                    sum[j] += 1;                                                                                       \
                else if (x < most[j])                                                                                  \
                    sum[j] += (double)EXP(x - most[j]);                                                                \
                else                                                                                                   \
                    sum[j] = sum[j] * (double)EXP(most[j] - x) + 1, most[j] = x;                                       \
                p[j] = most[j] + LOG((T)sum[j]);                                                                       \
            }                                                                                                          \
            p += s->inner;                                                                                             \
        }                                                                                                              \
    }
LOG_SUM(log_sum_f32, float, expf, logf)
LOG_SUM(log_sum_f64, double, exp, log)

static dl_status plain_logcumsumexp(dl_call *c) {
    dl_cpu_copy(c->out[0], c->in[0]);
    return run_scans(c->out[0], ATTR_I(c, LOGCUMSUMEXP_DIM),
                     (scans){.run = c->out[0]->dtype == DL_F32 ? log_sum_f32 : log_sum_f64});
}
DL_CPU_KERNEL(logcumsumexp, plain_logcumsumexp, false, DL_FLOATS)

/* ---- recurrences; the factor of an element lies `step` from it */

#define RECUR(name, T)                                                                                                 \
    static void name(const scans *s, long at, long width) {                                                            \
        const long way = s->reverse ? -s->inner : s->inner;                                                            \
        if (s->reverse) at += (s->n - 1) * s->inner;                                                                   \
        double acc[BAND];                                                                                              \
        DL_CPU_EACH (i, s->n, s->stop) {                                                                               \
            const T *a = (const T *)s->a + at + s->step, *b = (const T *)s->b + at;                                    \
            T *o = (T *)dl_ptr(s->o) + at;                                                                             \
            for (long j = 0; j < width; j++) {                                                                         \
                acc[j] = i ? (double)a[j] * acc[j] + (double)b[j] : (double)b[j];                                      \
                o[j] = (T)acc[j];                                                                                      \
            }                                                                                                          \
            at += way;                                                                                                 \
        }                                                                                                              \
    }
RECUR(recur_f32, float)
RECUR(recur_f64, double)

/* Rows side by side, because a step waits for the one before. */
#define RECUR_ROWS(name, T)                                                                                            \
    static inline __attribute__((always_inline)) void name##_some(const scans *s, long at, const int rows) {           \
        const long n = s->n, way = s->reverse ? -1 : 1, from = at + (s->reverse ? n - 1 : 0);                          \
        const T *a = (const T *)s->a + from + s->step, *b = (const T *)s->b + from;                                    \
        T *o = (T *)dl_ptr(s->o) + from;                                                                               \
        double acc[TOGETHER];                                                                                          \
        for (int r = 0; r < rows; r++) acc[r] = (double)b[r * n], o[r * n] = b[r * n];                                 \
        DL_CPU_EACH (i, n - 1, s->stop) {                                                                              \
            a += way, b += way, o += way;                                                                              \
            for (int r = 0; r < rows; r++) {                                                                           \
                acc[r] = (double)a[r * n] * acc[r] + (double)b[r * n];                                                 \
                o[r * n] = (T)acc[r];                                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void name(const scans *s, long at, long rows) {                                                             \
        if (rows == TOGETHER)                                                                                          \
            name##_some(s, at, TOGETHER);                                                                              \
        else                                                                                                           \
            for (long r = 0; r < rows; r++) name##_some(s, at + r * s->n, 1);                                          \
    }
RECUR_ROWS(recur_f32_rows, float)
RECUR_ROWS(recur_f64_rows, double)

static dl_status plain_recurrence(dl_call *c) {
    dl_tensor *o = c->out[0];
    const bool reverse = ATTR_I(c, RECURRENCE_REVERSE) != 0;
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, RECURRENCE_DIM), o->ndim, &d));
    return run_scans(o, d,
                     (scans){.a = dl_ptr(c->in[0]),
                             .b = dl_ptr(c->in[1]),
                             .step = reverse && o->ndim ? o->stride[d] : 0,
                             .reverse = reverse,
                             .run = o->dtype == DL_F32 ? recur_f32 : recur_f64,
                             .rows = o->dtype == DL_F32 ? recur_f32_rows : recur_f64_rows});
}
DL_CPU_KERNEL(recurrence, plain_recurrence, true, DL_FLOATS)
