/* Loops of layer_norm and rms_norm along contiguous rows, see layer_norm.h. What depends on the sums of a row comes
 * after the sums of all rows, so that one row need not wait for the other. Sums run in f32 over short stretches, which
 * are added up in f64. Includes itself once a dtype. */
#ifndef ELEM
#include "cpu/kernels/groups.h"
#include "cpu/kernels/norm/layer_norm.h"
#include "cpu/kernels/norm/norm.h"

#include <math.h>

enum { STRETCH = 256, COLUMNS = 64 };

/* What formulas are of: xhat and h, g times w. */
#define X(T, IN, IN_REAL) const T v = IN(x);
#define XHAT(T, IN, IN_REAL) const T v = (IN(x) - m) * r;
#define XHAT_W(T, IN, IN_REAL) const T v = (IN(x) - m) * r, s = IN_REAL(w);
#define XHAT_B(T, IN, IN_REAL) const T v = (IN(x) - m) * r, t = IN_REAL(b);
#define XHAT_W_B(T, IN, IN_REAL) const T v = (IN(x) - m) * r, s = IN_REAL(w), t = IN_REAL(b);
#define XHAT_G(T, IN, IN_REAL) const T v = (IN(x) - m) * r, h = IN(g);
#define XHAT_GW(T, IN, IN_REAL) const T v = (IN(x) - m) * r, h = IN(g) * IN_REAL(w);
#define COLUMN(T, IN, IN_REAL)                                                                                         \
    T sw = {0}, sb = {0};                                                                                              \
    for (long i = 0; i < together; i++) {                                                                              \
        const T h = IN(g + (r + i) * stride);                                                                          \
        sw += h * ((IN(x + (r + i) * stride) - (mean ? (REAL)mean[r + i] : 0)) * (REAL)rstd[r + i]), sb += h;          \
    }

#define FLOATS "cpu/kernels/norm/layer_norm_simd.c"
#include "cpu/runtime/floats.def"

#define LOOPS(t)                                                                                                       \
    { rows_##t, grad_rows_##t, columns_##t }
const dl_layer_norm_loops DL_SIMD_NAME(dl_layer_norm_rows)[DL_NDTYPE] = {
    [DL_F32] = LOOPS(f32), [DL_F64] = LOOPS(f64), [DL_F16] = LOOPS(f16), [DL_BF16] = LOOPS(bf16)};

#else

#include "cpu/kernels/norm/moments.def"

static void S(rows)(const void *xv, const void *wv, const void *bv, void *yv, long n, long d, double eps, double *mean,
                    double *rstd) {
    const ELEM *x = xv;
    const REAL *w = wv, *b = bv;
    ELEM *y = yv;
    for (long i = 0; i < n; i++, x += d) {
        double none = 0;
        rstd[i] = 0;
        if (mean)
            S(plane_moments)(x, d, &mean[i], &rstd[i]);
        else
            DL_SUMS(d, STRETCH, X, v * v, v, rstd[i], none);
    }
    for (long i = 0; i < n; i++) rstd[i] = 1 / sqrt(rstd[i] / (double)d + eps);
    x = xv;
    for (long i = 0; i < n; i++, x += d, y += d) {
        const REAL m = mean ? (REAL)mean[i] : 0, r = (REAL)rstd[i];
        if (w && b)
            DL_MAP(d, XHAT_W_B, v * s + t, y);
        else if (w)
            DL_MAP(d, XHAT_W, v * s, y);
        else if (b)
            DL_MAP(d, XHAT_B, v + t, y);
        else
            DL_MAP(d, XHAT, v, y);
    }
}

/* Sums of h and of h * xhat over a row; of rms_norm the first is unused. */
static inline void S(grad_sums)(const ELEM *x, const ELEM *g, const REAL *w, long d, REAL m, REAL r, double *sum,
                                double *sumx) {
    *sum = *sumx = 0;
    if (w)
        DL_SUMS(d, STRETCH, XHAT_GW, h, h * v, *sum, *sumx);
    else
        DL_SUMS(d, STRETCH, XHAT_G, h, h * v, *sum, *sumx);
}

static void S(grad_rows)(const void *xv, const void *gv, const void *wv, void *dv, long n, long d, const double *mean,
                         const double *rstd) {
    const ELEM *x = xv, *g = gv;
    const REAL *w = wv;
    ELEM *dx = dv;
    enum { SOME = 8 };
    double sum[SOME], sumx[SOME];
    for (long from = 0; from < n; from += SOME) {
        const long some = n - from < SOME ? n - from : SOME;
        for (long i = 0; i < some; i++) S(grad_sums)
        (x + i * d, g + i * d, w, d, mean ? (REAL)mean[from + i] : 0, (REAL)rstd[from + i], &sum[i], &sumx[i]);
        for (long i = 0; i < some; i++, x += d, g += d, dx += d) {
            const REAL m = mean ? (REAL)mean[from + i] : 0, r = (REAL)rstd[from + i];
            const REAL a = mean ? (REAL)(sum[i] / (double)d) : 0, c = (REAL)(sumx[i] / (double)d);
            if (w)
                DL_MAP(d, XHAT_GW, (h - a - v * c) * r, dx);
            else
                DL_MAP(d, XHAT_G, (h - a - v * c) * r, dx);
        }
    }
}

static void S(columns)(const void *xv, const void *gv, long n, long stride, long nc, const double *mean,
                       const double *rstd, double *restrict dw, double *restrict db) {
    const ELEM *x = xv, *g = gv;
    for (long from = 0; from < nc; from += COLUMNS, x += COLUMNS, g += COLUMNS, dw += COLUMNS, db += COLUMNS) {
        const long some = nc - from < COLUMNS ? nc - from : COLUMNS;
        DL_COLUMN_SUMS(n, some, COLUMNS, COLUMN, sw, sb, dw, db)
    }
}
#endif
