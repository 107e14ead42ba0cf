/* Loops along rows, see rows.h. Sums run over the lanes of a vector or over rows in order: the same at any number of
 * threads. Includes itself once an element type. */
#ifndef REAL
#include "cpu/runtime/rows.h"
#include "cpu/runtime/vec.h"
#include "cpu/runtime/vmath_f64.h"

enum { STRETCH = 512, ROWS = 64 }; /* elements, and rows of columns, that are added up in the element type */

#define EXP(x) _Generic((x), float : dl_vexp, default : dl_vexp_f64)(x)
#define LOG(x) _Generic((x), float : logf, default : log)(x)
#define BOTH_REALS "cpu/kernels/rows_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_row_loops DL_SIMD_NAME(dl_rows)[2] = {
    {softmax_f32, softmax_grad_f32, logsum_f32, exp_scaled_f32},
    {softmax_f64, softmax_grad_f64, logsum_f64, exp_scaled_f64},
};

#else

/* Loops over lanes are loops over arrays: compilers make code of vectors longer than the machine's that goes through
 * memory. A largest number passes over NaN, which the sum of exponentials then is. */
#include "cpu/kernels/largest.def"
static REAL S(top)(const REAL *x, long d) { return S(largest)(x, d, S(DL_LANES)); }

/* The sum of x or, unless y is NULL, of x * y, in stretches that are added up in f64. */
static inline __attribute__((always_inline)) REAL S(sum_of)(const REAL *x, const REAL *y, long d) {
    enum { L = S(DL_LANES) };
    double sum = 0;
    for (long i = 0; i < d;) {
        long end = d - i < STRETCH ? d : i + STRETCH;
        REAL lane[L] = {0};
        for (; i + L <= end; i += L)
            for (long l = 0; l < L; l++) lane[l] += y ? x[i + l] * y[i + l] : x[i + l];
        for (long l = 0; i < end; i++, l++) lane[l] += y ? x[i] * y[i] : x[i];
        sum += S(dl_vsum)(S(dl_vload)(lane));
    }
    return (REAL)sum;
}
static REAL S(sum)(const REAL *x, long d) { return S(sum_of)(x, NULL, d); }
static REAL S(dot)(const REAL *x, const REAL *y, long d) { return S(sum_of)(x, y, d); }

/* Sum of e ** (x - m) of one row, in blocks that stay in the cache. */
static REAL S(exp_sum)(const REAL *x, long d, REAL m) {
    REAL buf[STRETCH];
    double sum = 0;
    for (long i = 0; i < d; i += STRETCH) {
        long n = d - i < STRETCH ? d - i : STRETCH;
        for (long j = 0; j < n; j++) buf[j] = EXP(x[i + j] - m);
        sum += S(sum)(buf, n);
    }
    return (REAL)sum;
}

/* Of columns: the largest of each, and the sum of exponentials less it, which y, laid out as x, gets if they are kept.
 */
static inline __attribute__((always_inline)) void S(columns)(const REAL *x, long d, long stride, long nc, REAL *m,
                                                             REAL *sum, bool keep, REAL *y) {
    double total[DL_COLUMNS] = {0};
    for (long c = 0; c < nc; c++) m[c] = (REAL)-INFINITY;
    for (long i = 0; i < d; i++)
        for (long c = 0; c < nc; c++) {
            REAL v = x[i * stride + c];
            m[c] = v > m[c] ? v : m[c]; /* one instruction; NaN is in the sum */
        }
    for (long i0 = 0; i0 < d; i0 += ROWS) {
        REAL part[DL_COLUMNS] = {0};
        for (long i = i0; i < d && i < i0 + ROWS; i++) {
            const REAL *row = x + i * stride;
            REAL *to = keep ? y + i * stride : NULL;
            _Pragma("GCC ivdep") for (long c = 0; c < nc; c++) {
                const REAL e = EXP(row[c] - m[c]);
                part[c] += e;
                if (keep) to[c] = e;
            }
        }
        for (long c = 0; c < nc; c++) total[c] += part[c];
    }
    for (long c = 0; c < nc; c++) sum[c] = (REAL)total[c];
}

static void S(softmax)(const void *xv, void *yv, long d, long stride, long nc, bool logs) {
    const REAL *x = xv;
    REAL *y = yv, m[DL_COLUMNS], s[DL_COLUMNS];
    if (nc == 1 && stride == 1) {
        REAL top = S(top)(x, d);
        if (logs) {
            REAL shift = LOG(S(exp_sum)(x, d, top));
            for (long i = 0; i < d; i++) y[i] = x[i] - top - shift;
            return;
        }
        for (long i = 0; i < d; i++) y[i] = EXP(x[i] - top);
        REAL scale = 1 / S(sum)(y, d);
        for (long i = 0; i < d; i++) y[i] *= scale;
        return;
    }
    if (logs) {
        S(columns)(x, d, stride, nc, m, s, false, NULL);
        for (long c = 0; c < nc; c++) s[c] = LOG(s[c]);
        for (long i = 0; i < d; i++, x += stride, y += stride)
            for (long c = 0; c < nc; c++) y[c] = x[c] - m[c] - s[c];
        return;
    }
    S(columns)(x, d, stride, nc, m, s, true, y);
    for (long c = 0; c < nc; c++) s[c] = 1 / s[c];
    for (long i = 0; i < d; i++, y += stride)
        for (long c = 0; c < nc; c++) y[c] *= s[c];
}

static void S(softmax_grad)(const void *yv, const void *gv, void *dv, long d, long stride, long nc, bool logs) {
    const REAL *y = yv, *g = gv;
    REAL *dx = dv, s[DL_COLUMNS] = {0};
    if (nc == 1 && stride == 1) {
        s[0] = logs ? S(sum)(g, d) : S(dot)(g, y, d);
        if (logs)
            for (long i = 0; i < d; i++) dx[i] = g[i] - EXP(y[i]) * s[0];
        else
            for (long i = 0; i < d; i++) dx[i] = y[i] * (g[i] - s[0]);
        return;
    }
    double total[DL_COLUMNS] = {0};
    for (long i0 = 0; i0 < d; i0 += ROWS) {
        REAL part[DL_COLUMNS] = {0};
        for (long i = i0; i < d && i < i0 + ROWS; i++)
            for (long c = 0; c < nc; c++) part[c] += logs ? g[i * stride + c] : g[i * stride + c] * y[i * stride + c];
        for (long c = 0; c < nc; c++) total[c] += part[c];
    }
    for (long c = 0; c < nc; c++) s[c] = (REAL)total[c];
    for (long i = 0; i < d; i++, y += stride, g += stride, dx += stride)
        if (logs)
            for (long c = 0; c < nc; c++) dx[c] = g[c] - EXP(y[c]) * s[c];
        else
            for (long c = 0; c < nc; c++) dx[c] = y[c] * (g[c] - s[c]);
}

static void S(logsum)(const void *xv, long d, long stride, long nc, double *top, double *logsum) {
    REAL m[DL_COLUMNS], s[DL_COLUMNS];
    if (nc == 1 && stride == 1) {
        m[0] = S(top)(xv, d);
        s[0] = S(exp_sum)(xv, d, m[0]);
    } else {
        S(columns)(xv, d, stride, nc, m, s, false, NULL);
    }
    for (long c = 0; c < nc; c++) top[c] = m[c], logsum[c] = LOG(s[c]);
}

/* lse is taken off in two parts, so that large logits lose no digits. */
static void S(exp_scaled)(const void *xv, void *dv, long d, long stride, long nc, const double *lse,
                          const double *scale) {
    const REAL *x = xv;
    REAL *dx = dv, hi[DL_COLUMNS], lo[DL_COLUMNS], k[DL_COLUMNS];
    for (long c = 0; c < nc; c++) {
        hi[c] = (REAL)lse[c];
        lo[c] = (REAL)(lse[c] - (double)hi[c]);
        k[c] = (REAL)scale[c];
    }
    if (nc == 1 && stride == 1) {
        REAL h = hi[0], l = lo[0], a = k[0];
        for (long i = 0; i < d; i++) dx[i] = a * EXP(x[i] - h - l);
        return;
    }
    for (long i = 0; i < d; i++)
        for (long c = 0; c < nc; c++) dx[i * stride + c] = k[c] * EXP(x[i * stride + c] - hi[c] - lo[c]);
}
#endif
