/* Loops of layer_norm and rms_norm along contiguous rows. Sums run in f32 over short stretches, which are added up in
 * f64. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/norm/layer_norm.h"

#include <math.h>

enum { STRETCH = 256, LANES = 16, TOGETHER = 4, ROWS = 32, COLUMNS = 64 };

#define BOTH_REALS "cpu/kernels/norm/layer_norm_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_layer_norm_loops DL_SIMD_NAME(dl_layer_norm_rows)[2] = {{row_f32, grad_row_f32, columns_f32},
                                                                 {row_f64, grad_row_f64, columns_f64}};

#else

static inline double S(all)(const REAL *lane) {
    double t[LANES];
    for (int l = 0; l < LANES; l++) t[l] = (double)lane[l];
    for (int w = LANES / 2; w; w /= 2)
        for (int l = 0; l < w; l++) t[l] += t[l + w];
    return t[0];
}

/* sum += all terms, in lanes that the compiler turns into vectors; SUM2: two of them in one pass. */
#define SUM2(sum, term, sum2, term2)                                                                                   \
    for (long from = 0; from < d; from += STRETCH) {                                                                   \
        long n = d - from < STRETCH ? d - from : STRETCH, i = 0;                                                       \
        REAL lane[LANES] = {0}, lane2[LANES] = {0};                                                                    \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (long l = 0; l < LANES; l++) {                                                                         \
                long at = from + i + l;                                                                                \
                lane[l] += term, lane2[l] += term2;                                                                    \
            }                                                                                                          \
        for (long l = 0; i < n; i++, l++) {                                                                            \
            long at = from + i;                                                                                        \
            lane[l] += term, lane2[l] += term2;                                                                        \
        }                                                                                                              \
        (sum) += S(all)(lane), (sum2) += S(all)(lane2);                                                                \
    }
#define SUM(sum, term)                                                                                                 \
    do {                                                                                                               \
        double none = 0;                                                                                               \
        SUM2(sum, term, none, 0)                                                                                       \
        (void)none;                                                                                                    \
    } while (0);

static void S(row)(const void *xv, const void *wv, const void *bv, void *yv, long d, double eps, double *mean,
                   double *rstd) {
    const REAL *x = xv, *w = wv, *b = bv;
    REAL *y = yv;
    double sum = 0, square = 0;
    if (mean) SUM(sum, x[at])
    double mu = sum / (double)d;
    REAL m = (REAL)mu;
    SUM(square, (x[at] - m) * (x[at] - m))
    double r = 1 / sqrt(square / (double)d + eps);
    REAL k = (REAL)r;
    for (long i = 0; i < d; i++) y[i] = (x[i] - m) * k * (w ? w[i] : 1) + (b ? b[i] : 0);
    if (mean) *mean = mu;
    *rstd = r;
}

static void S(grad_row)(const void *xv, const void *gv, const void *wv, void *dxv, long d, const double *mean,
                        double rstd) {
    const REAL *x = xv, *g = gv, *w = wv;
    REAL *dx = dxv, m = mean ? (REAL)*mean : 0, k = (REAL)rstd;
    double sum = 0, sumx = 0;
    if (mean && w) {
        SUM2(sum, g[at] * w[at], sumx, (g[at] * w[at]) * ((x[at] - m) * k))
    } else if (mean) {
        SUM2(sum, g[at], sumx, g[at] * ((x[at] - m) * k))
    } else {
        SUM(sumx, (g[at] * (w ? w[at] : 1)) * ((x[at] - m) * k))
    }
    REAL a = (REAL)(sum / (double)d), c = (REAL)(sumx / (double)d);
    for (long i = 0; i < d; i++) dx[i] = (g[i] * (w ? w[i] : 1) - a - (x[i] - m) * k * c) * k;
}

/* The sums of a few rows. */
static inline void S(some_rows)(const REAL *x, const REAL *g, long rows, long stride, long nc, const double *mean,
                                const double *rstd, REAL *restrict dw, REAL *restrict db) {
    long r = 0;
    for (; r + TOGETHER <= rows; r += TOGETHER, x += TOGETHER * stride, g += TOGETHER * stride) {
        REAL m[TOGETHER], k[TOGETHER];
        for (long i = 0; i < TOGETHER; i++) m[i] = mean ? (REAL)mean[r + i] : 0, k[i] = (REAL)rstd[r + i];
        for (long c = 0; c < nc; c++) {
            REAL w = 0, b = 0;
            for (long i = 0; i < TOGETHER; i++) {
                const REAL v = g[i * stride + c];
                w += v * ((x[i * stride + c] - m[i]) * k[i]), b += v;
            }
            dw[c] += w, db[c] += b;
        }
    }
    for (; r < rows; r++, x += stride, g += stride) {
        const REAL m = mean ? (REAL)mean[r] : 0, k = (REAL)rstd[r];
        for (long c = 0; c < nc; c++) dw[c] += g[c] * ((x[c] - m) * k), db[c] += g[c];
    }
}

static void S(columns)(const void *xv, const void *gv, long rows, long stride, long nc, const double *mean,
                       const double *rstd, double *restrict dw, double *restrict db) {
    const REAL *x = xv, *g = gv;
    for (long r = 0; r < rows; r += ROWS)
        for (long from = 0; from < nc; from += COLUMNS) {
            const long n = nc - from < COLUMNS ? nc - from : COLUMNS, at = r * stride + from;
            REAL w[COLUMNS] = {0}, b[COLUMNS] = {0};
            S(some_rows)
            (x + at, g + at, rows - r < ROWS ? rows - r : ROWS, stride, n, mean ? mean + r : NULL, rstd + r, w, b);
            for (long c = 0; c < n; c++) dw[from + c] += (double)w[c], db[from + c] += (double)b[c];
        }
}
#undef SUM
#undef SUM2
#endif
