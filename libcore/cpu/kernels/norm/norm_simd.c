/* Loops over channels, see norm.h. Sums of f32 run in f32 over short stretches, which are added up in f64; the order is
 * fixed. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/norm/norm.h"
#include "cpu/runtime/vec.h"

enum { STRETCH = 1024, ROWS = 64 }; /* of a plane; of rows, where each lane adds up all by itself */

#define BOTH_REALS "cpu/kernels/norm/norm_simd.c"
#include "cpu/runtime/both_reals.def"

const dl_norm_loops DL_SIMD_NAME(dl_norm)[2] = {
    {sum_f32, deviation_f32, apply_f32, grad_sums_f32, grad_apply_f32},
    {sum_f64, deviation_f64, apply_f64, grad_sums_f64, grad_apply_f64},
};

#else

enum { S(L) = S(DL_LANES), S(NC) = DL_NORM_CHANNELS };

/* Two sums over elements r < n of a plane, `one` and `two` being their terms for vectors v (x less mean) and w (g). */
#define PLANE_SUMS(LOAD2, one, two, sum1, sum2)                                                                        \
    for (long r0 = 0; r0 < rows; r0 += STRETCH) {                                                                      \
        long r1 = rows - r0 < STRETCH ? rows : r0 + STRETCH, r = r0;                                                   \
        VEC s1 = {0}, s2 = {0};                                                                                        \
        for (; r + S(L) <= r1; r += S(L)) {                                                                            \
            VEC v = S(dl_vload)(x + r) - m, w = LOAD2(dl_vload);                                                       \
            s1 += one, s2 += two;                                                                                      \
        }                                                                                                              \
        REAL t1 = S(dl_vsum)(s1), t2 = S(dl_vsum)(s2);                                                                 \
        for (; r < r1; r++) {                                                                                          \
            REAL v = x[r] - m, w = LOAD2(SCALAR);                                                                      \
            t1 += one, t2 += two;                                                                                      \
        }                                                                                                              \
        (sum1) += t1, (sum2) += t2;                                                                                    \
    }
#define LOAD_X(how) v
#define LOAD_G(how) LOAD_G_##how
#define LOAD_G_dl_vload S(dl_vload)(g + r)
#define LOAD_G_SCALAR g[r]

static void S(sum)(const void *xv, long rows, long stride, long nc, double *sum) {
    const REAL *x = xv;
    if (nc == 1 && stride == 1) {
        double other = 0;
        REAL m = 0;
        PLANE_SUMS(LOAD_X, v, w, *sum, other)
        return;
    }
    for (long r0 = 0; r0 < rows; r0 += ROWS) {
        REAL acc[S(NC)] = {0};
        for (long r = r0; r < rows && r < r0 + ROWS; r++)
            for (long c = 0; c < nc; c++) acc[c] += x[r * stride + c];
        for (long c = 0; c < nc; c++) sum[c] += acc[c];
    }
}

static void S(deviation)(const void *xv, long rows, long stride, long nc, const double *mean, double *sum) {
    const REAL *x = xv;
    if (nc == 1 && stride == 1) {
        double other = 0;
        REAL m = (REAL)*mean;
        PLANE_SUMS(LOAD_X, v * w, w, *sum, other)
        return;
    }
    REAL m[S(NC)] = {0};
    for (long c = 0; c < nc; c++) m[c] = (REAL)mean[c];
    for (long r0 = 0; r0 < rows; r0 += ROWS) {
        REAL acc[S(NC)] = {0};
        for (long r = r0; r < rows && r < r0 + ROWS; r++)
            for (long c = 0; c < nc; c++) {
                REAL d = x[r * stride + c] - m[c];
                acc[c] += d * d;
            }
        for (long c = 0; c < nc; c++) sum[c] += acc[c];
    }
}

static void S(apply)(const void *xv, void *yv, long rows, long stride, long nc, const double *mean, const double *scale,
                     const double *shift) {
    const REAL *x = xv;
    REAL *y = yv;
    if (nc == 1 && stride == 1) {
        REAL m0 = (REAL)*mean, a0 = (REAL)*scale, b0 = (REAL)*shift;
        for (long r = 0; r < rows; r++) y[r] = (x[r] - m0) * a0 + b0;
        return;
    }
    REAL m[S(NC)] = {0}, a[S(NC)] = {0}, b[S(NC)] = {0};
    for (long c = 0; c < nc; c++) m[c] = (REAL)mean[c], a[c] = (REAL)scale[c], b[c] = (REAL)shift[c];
    for (long r = 0; r < rows; r++)
        for (long c = 0; c < nc; c++) y[r * stride + c] = (x[r * stride + c] - m[c]) * a[c] + b[c];
}

static void S(grad_sums)(const void *xv, const void *gv, long rows, long stride, long nc, const double *mean,
                         double *sg, double *sgx) {
    const REAL *x = xv, *g = gv;
    if (nc == 1 && stride == 1) {
        REAL m = (REAL)*mean;
        PLANE_SUMS(LOAD_G, w, v * w, *sg, *sgx)
        return;
    }
    REAL m[S(NC)] = {0};
    for (long c = 0; c < nc; c++) m[c] = (REAL)mean[c];
    for (long r0 = 0; r0 < rows; r0 += ROWS) {
        REAL a[S(NC)] = {0}, b[S(NC)] = {0};
        for (long r = r0; r < rows && r < r0 + ROWS; r++)
            for (long c = 0; c < nc; c++) {
                REAL w = g[r * stride + c];
                a[c] += w;
                b[c] += w * (x[r * stride + c] - m[c]);
            }
        for (long c = 0; c < nc; c++) sg[c] += a[c], sgx[c] += b[c];
    }
}

static void S(grad_apply)(const void *xv, const void *gv, void *dv, long rows, long stride, long nc, const double *mean,
                          const double *a, const double *b, const double *c) {
    const REAL *x = xv, *g = gv;
    REAL *dx = dv;
    if (nc == 1 && stride == 1) {
        REAL m0 = (REAL)*mean, a0 = (REAL)*a, b0 = (REAL)*b, c0 = (REAL)*c;
        for (long r = 0; r < rows; r++) dx[r] = g[r] * a0 + ((x[r] - m0) * b0 + c0);
        return;
    }
    REAL m[S(NC)] = {0}, ka[S(NC)] = {0}, kb[S(NC)] = {0}, kc[S(NC)] = {0};
    for (long i = 0; i < nc; i++) m[i] = (REAL)mean[i], ka[i] = (REAL)a[i], kb[i] = (REAL)b[i], kc[i] = (REAL)c[i];
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < nc; i++) {
            long at = r * stride + i;
            dx[at] = g[at] * ka[i] + ((x[at] - m[i]) * kb[i] + kc[i]);
        }
}
#undef PLANE_SUMS
#undef LOAD_X
#undef LOAD_G
#undef LOAD_G_dl_vload
#undef LOAD_G_SCALAR
#endif
