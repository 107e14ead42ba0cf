/* Kernel of dropout. The mask of element i, in logical order, is word i % 4 of block i / 4 of the call's random
 * numbers, compared with a threshold; it does not depend on strides or threads. */
#include "core/rng.h"
#include "cpu/iter.h"
#include "ops/rules.h"

#include <math.h>

/* Keep is decided for `n` elements from number `first` on. */
static void draw(uint64_t seed, const dl_call *c, uint64_t threshold, long first, long n, unsigned char *keep) {
    for (long i = 0; i < n;) {
        uint64_t at = (uint64_t)(first + i);
        dl_philox r = dl_philox_block(seed, c->stream, c->rng, at / 4);
        for (unsigned w = at % 4; w < 4 && i < n; w++) keep[i++] = r.v[w] >= threshold;
    }
}

/* One run of n elements along the last dimension. Multiplied, not chosen, so that NaN stays NaN. */
#define APPLY(T, S)                                                                                                    \
    static void apply_##S(const char *xp, char *yp, const unsigned char *keep, long n, long xs, long ys,               \
                          double scale) {                                                                              \
        const T *x = (const T *)xp;                                                                                    \
        T *y = (T *)yp;                                                                                                \
        T k = (T)scale;                                                                                                \
        if (xs == 1 && ys == 1)                                                                                        \
            for (long i = 0; i < n; i++) y[i] = x[i] * (keep[i] ? k : 0);                                              \
        else                                                                                                           \
            for (long i = 0; i < n; i++) y[i * ys] = x[i * xs] * (keep[i] ? k : 0);                                    \
    }
APPLY(float, f32)
APPLY(double, f64)

/* Offset, in elements, of the first element of row `row` (all dimensions but the last). */
static long row_offset(const dl_tensor *t, long row) {
    long at = 0;
    for (int i = t->ndim - 2; i >= 0; row /= t->shape[i--]) at += row % t->shape[i] * t->stride[i];
    return at;
}

enum { RUN = 4096 };

/* Runs of at most RUN elements along the last dimension; a contiguous tensor is a single row. */
static void all_runs(const dl_call *c, double p) {
    const dl_tensor *x = c->in[0], *y = c->out[0], *mask = c->out[1];
    bool flat = dl_is_contiguous(x) && dl_is_contiguous(y) && dl_is_contiguous(mask);
    long width = flat || !y->ndim ? y->numel : y->shape[y->ndim - 1], chunks = (width + RUN - 1) / RUN;
    long last = y->ndim - 1, es = (long)dl_esize(y), rows = y->numel / width;
    long xs = flat || last < 0 ? 1 : x->stride[last], ys = flat || last < 0 ? 1 : y->stride[last];
    uint64_t threshold = (uint64_t)ldexp(p, 32), seed = dl_seed_get();
    double scale = p < 1 ? 1 / (1 - p) : 0;
#pragma omp parallel for schedule(static) num_threads(dl_cpu_threads(4 * y->numel))
    for (long r = 0; r < rows * chunks; r++) {
        unsigned char keep[RUN];
        long row = r / chunks, from = r % chunks * RUN, n = width - from < RUN ? width - from : RUN;
        long xo = flat ? 0 : row_offset(x, row), yo = flat ? 0 : row_offset(y, row);
        draw(seed, c, threshold, row * width + from, n, keep);
        (y->dtype == DL_F32 ? apply_f32 : apply_f64)((char *)dl_ptr(x) + (xo + from * xs) * es,
                                                     (char *)dl_ptr(y) + (yo + from * ys) * es, keep, n, xs, ys, scale);
        unsigned char *m = (unsigned char *)dl_ptr(mask) + (flat ? 0 : row_offset(mask, row));
        long ms = flat || last < 0 ? 1 : mask->stride[last];
        for (long i = 0; i < n; i++) m[(from + i) * ms] = keep[i];
    }
}

static dl_status dropout_float(dl_call *c) {
    if (c->attr[1].u.i && c->out[0]->numel) all_runs(c, c->attr[0].u.f);
    return DL_OK;
}

/* Not training: the output is the input itself. */
static dl_status dropout_run(dl_call *c) {
    if (!c->attr[1].u.i) return DL_OK;
    return DL_BIT(c->dtype) & DL_HALVES ? dl_cpu_via_f32(c, dropout_float, false) : dropout_float(c);
}

const dl_kernel dl_cpu_dropout = {.run = dropout_run, .dtypes = DL_FLOATS};
