/* Loops over channels, see norm.h. Sums of f32 run in f32 over short stretches, which are added up in f64; the order is
 * fixed. Includes itself once an element type. */
#ifndef REAL
#include "cpu/kernels/norm/norm.h"
#include "cpu/runtime/half.h"
#include "cpu/runtime/half_write.h"
#include "cpu/runtime/vec.h"

enum { STRETCH = 1024, ROWS = 64 }; /* of a plane; of rows, where each lane adds up all by itself */
enum { PIECE = 4096 };              /* elements that are read twice, or converted, in the cache */
enum { GROUP = 16 };                /* elements of 16 bits of a plane that are computed in registers */

static long piece(long rows, long nc) { return rows < PIECE / nc ? rows : PIECE / nc; }

#define BOTH_REALS "cpu/kernels/norm/norm_simd.c"
#include "cpu/runtime/both_reals.def"

/* n rows between memory and a dense piece. */
#define DENSE(T)                                                                                                       \
    static void up_##T(const unsigned short *x, long n, long stride, long nc, float *to) {                             \
        const bool all = stride == nc;                                                                                 \
        for (long r = 0; r < (all ? 1 : n); r++)                                                                       \
            DL_SIMD_NAME(dl_##T##_up)(all ? n * nc : nc, x + r * stride, to + r * nc);                                 \
    }                                                                                                                  \
    static void down_##T(const float *y, long n, long stride, long nc, unsigned short *to) {                           \
        const bool all = stride == nc;                                                                                 \
        for (long r = 0; r < (all ? 1 : n); r++)                                                                       \
            DL_SIMD_NAME(dl_##T##_down)(all ? n * nc : nc, y + r * nc, to + r * stride);                               \
    }

/* d = `formula` of v, elements of x, and w, those of W, over groups of a plane; `done` elements of it are. */
#define PLANE(T, W, d, formula)                                                                                        \
    for (; nc == 1 && stride == 1 && done + GROUP <= rows; done += GROUP) {                                            \
        float vs[GROUP], ws[GROUP];                                                                                    \
        dl_read_##T(GROUP, x + done, vs), dl_read_##T(GROUP, (W) + done, ws);                                          \
        for (long k = 0; k < GROUP * 4 / DL_PART; k++) {                                                               \
            const dl_pf v = dl_pload_f32(vs, k), w = dl_pload_f32(ws, k), r = formula;                                 \
            (void)w, memcpy(vs + k * DL_PART / 4, &r, sizeof r);                                                       \
        }                                                                                                              \
        dl_write_##T(GROUP, vs, (d) + done);                                                                           \
    }

/* The loops of f32 on pieces of n rows from row r on. */
#define PIECES for (long r = done, n; n = piece(rows - r, nc), r < rows; r += n)
#define HALVES(T)                                                                                                      \
    DENSE(T)                                                                                                           \
    static void moments_##T(const void *xv, long rows, long stride, long nc, long before, double *mean,                \
                            double *square) {                                                                          \
        const unsigned short *x = xv;                                                                                  \
        const long done = 0;                                                                                           \
        _Alignas(64) float xs[PIECE];                                                                                  \
        PIECES {                                                                                                       \
            up_##T(x + r * stride, n, stride, nc, xs);                                                                 \
            moments_f32(xs, n, nc, nc, before + r, mean, square);                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static void apply_##T(const void *xv, void *yv, long rows, long stride, long nc, const double *mean,               \
                          const double *scale, const double *shift) {                                                  \
        const unsigned short *x = xv;                                                                                  \
        unsigned short *y = yv;                                                                                        \
        const float m0 = (float)*mean, a0 = (float)*scale, b0 = (float)*shift;                                         \
        long done = 0;                                                                                                 \
        PLANE(T, x, y, (v - m0) * a0 + b0)                                                                             \
        _Alignas(64) float xs[PIECE];                                                                                  \
        PIECES {                                                                                                       \
            up_##T(x + r * stride, n, stride, nc, xs);                                                                 \
            apply_f32(xs, xs, n, nc, nc, mean, scale, shift);                                                          \
            down_##T(xs, n, stride, nc, y + r * stride);                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static void grad_sums_##T(const void *xv, const void *gv, long rows, long stride, long nc, const double *mean,     \
                              double *sg, double *sgx) {                                                               \
        const unsigned short *x = xv, *g = gv;                                                                         \
        const long done = 0;                                                                                           \
        _Alignas(64) float xs[PIECE], gs[PIECE];                                                                       \
        PIECES {                                                                                                       \
            up_##T(x + r * stride, n, stride, nc, xs), up_##T(g + r * stride, n, stride, nc, gs);                      \
            grad_sums_f32(xs, gs, n, nc, nc, mean, sg, sgx);                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void grad_apply_##T(const void *xv, const void *gv, void *dv, long rows, long stride, long nc,              \
                               const double *mean, const double *a, const double *b, const double *c) {                \
        const unsigned short *x = xv, *g = gv;                                                                         \
        unsigned short *d = dv;                                                                                        \
        const float m0 = (float)*mean, a0 = (float)*a, b0 = (float)*b, c0 = (float)*c;                                 \
        long done = 0;                                                                                                 \
        PLANE(T, g, d, w *a0 + ((v - m0) * b0 + c0))                                                                   \
        _Alignas(64) float xs[PIECE], gs[PIECE];                                                                       \
        PIECES {                                                                                                       \
            up_##T(x + r * stride, n, stride, nc, xs), up_##T(g + r * stride, n, stride, nc, gs);                      \
            grad_apply_f32(xs, gs, gs, n, nc, nc, mean, a, b, c);                                                      \
            down_##T(gs, n, stride, nc, d + r * stride);                                                               \
        }                                                                                                              \
    }
HALVES(f16)
HALVES(bf16)

const dl_norm_loops DL_SIMD_NAME(dl_norm)[DL_NDTYPE] = {
    [DL_F32] = {moments_f32, apply_f32, grad_sums_f32, grad_apply_f32},
    [DL_F64] = {moments_f64, apply_f64, grad_sums_f64, grad_apply_f64},
    [DL_F16] = {moments_f16, apply_f16, grad_sums_f16, grad_apply_f16},
    [DL_BF16] = {moments_bf16, apply_bf16, grad_sums_bf16, grad_apply_bf16},
};

#else

enum { S(L) = S(DL_LANES), S(NC) = DL_NORM_CHANNELS };

/* Two sums over elements of a plane, `one` and `two` being their terms for v (x less mean) and w (of W). */
#define PLANE_SUMS(W, one, two, sum1, sum2)                                                                            \
    for (long r0 = 0; r0 < rows; r0 += STRETCH) {                                                                      \
        long r1 = rows - r0 < STRETCH ? rows : r0 + STRETCH, r = r0;                                                   \
        VPART p1[DL_PARTS] = {0}, p2[DL_PARTS] = {0};                                                                  \
        REAL s1[S(L)], s2[S(L)];                                                                                       \
        for (; r + S(L) <= r1; r += S(L))                                                                              \
            for (long k = 0; k < DL_PARTS; k++) {                                                                      \
                const VPART v = S(dl_pload)(x + r, k) - m, w = S(dl_pload)(W + r, k);                                  \
                (void)w, p1[k] += one, p2[k] += two;                                                                   \
            }                                                                                                          \
        memcpy(s1, p1, sizeof s1), memcpy(s2, p2, sizeof s2);                                                          \
        for (long l = 0; r < r1; r++, l++) {                                                                           \
            const REAL v = x[r] - m, w = W[r];                                                                         \
            (void)w, s1[l] += one, s2[l] += two;                                                                       \
        }                                                                                                              \
        (sum1) += S(dl_vsum)(S(dl_vload)(s1)), (sum2) += S(dl_vsum)(S(dl_vload)(s2));                                  \
    }

static void S(sum)(const REAL *x, long rows, long stride, long nc, double *sum) {
    if (nc == 1 && stride == 1) {
        double other = 0;
        REAL m = 0;
        PLANE_SUMS(x, v, w, *sum, other)
        return;
    }
    for (long r0 = 0; r0 < rows; r0 += ROWS) {
        REAL acc[S(NC)] = {0};
        for (long r = r0; r < rows && r < r0 + ROWS; r++)
            for (long c = 0; c < nc; c++) acc[c] += x[r * stride + c];
        for (long c = 0; c < nc; c++) sum[c] += acc[c];
    }
}

/* Sums of (x - mean)**2 and of x - mean. */
static void S(deviations)(const REAL *x, long rows, long stride, long nc, const double *mean, double *square,
                          double *sum) {
    if (nc == 1 && stride == 1) {
        REAL m = (REAL)*mean;
        PLANE_SUMS(x, v * v, v, *square, *sum)
        return;
    }
    REAL m[S(NC)] = {0};
    for (long c = 0; c < nc; c++) m[c] = (REAL)mean[c];
    for (long r0 = 0; r0 < rows; r0 += ROWS) {
        REAL acc[S(NC)] = {0}, off[S(NC)] = {0};
        for (long r = r0; r < rows && r < r0 + ROWS; r++)
            for (long c = 0; c < nc; c++) {
                REAL d = x[r * stride + c] - m[c];
                acc[c] += d * d, off[c] += d;
            }
        for (long c = 0; c < nc; c++) square[c] += acc[c], sum[c] += off[c];
    }
}

/* Squares are taken about a mean of REAL, and what that is off is taken out of them again. */
static void S(moments)(const void *xv, long rows, long stride, long nc, long before, double *mean, double *square) {
    for (long r = 0, n; r < rows; r += n) {
        const REAL *x = (const REAL *)xv + r * stride;
        double m[S(NC)] = {0}, s[S(NC)] = {0}, off[S(NC)] = {0};
        n = piece(rows - r, nc);
        S(sum)(x, n, stride, nc, m);
        for (long c = 0; c < nc; c++) m[c] = (double)(REAL)(m[c] / (double)n);
        S(deviations)(x, n, stride, nc, m, s, off);
        for (long c = 0; c < nc; c++) {
            const double by = off[c] / (double)n, more = off[c] * by;
            dl_norm_merge(before + r, &mean[c], &square[c], n, m[c] + by, s[c] < more ? 0 : s[c] - more);
        }
    }
}

static void S(apply)(const void *xv, void *yv, long rows, long stride, long nc, const double *mean, const double *scale,
                     const double *shift) {
    const REAL *x = xv;
    REAL *y = yv;
    if (nc == 1 && stride == 1) {
        REAL m0 = (REAL)*mean, a0 = (REAL)*scale, b0 = (REAL)*shift;
#pragma GCC ivdep
        for (long r = 0; r < rows; r++) y[r] = (x[r] - m0) * a0 + b0;
        return;
    }
    REAL m[S(NC)] = {0}, a[S(NC)] = {0}, b[S(NC)] = {0};
    for (long c = 0; c < nc; c++) m[c] = (REAL)mean[c], a[c] = (REAL)scale[c], b[c] = (REAL)shift[c];
    for (long r = 0; r < rows; r++) {
#pragma GCC ivdep
        for (long c = 0; c < nc; c++) y[r * stride + c] = (x[r * stride + c] - m[c]) * a[c] + b[c];
    }
}

static void S(grad_sums)(const void *xv, const void *gv, long rows, long stride, long nc, const double *mean,
                         double *sg, double *sgx) {
    const REAL *x = xv, *g = gv;
    if (nc == 1 && stride == 1) {
        REAL m = (REAL)*mean;
        PLANE_SUMS(g, w, v * w, *sg, *sgx)
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
#pragma GCC ivdep
        for (long r = 0; r < rows; r++) dx[r] = g[r] * a0 + ((x[r] - m0) * b0 + c0);
        return;
    }
    REAL m[S(NC)] = {0}, ka[S(NC)] = {0}, kb[S(NC)] = {0}, kc[S(NC)] = {0};
    for (long i = 0; i < nc; i++) m[i] = (REAL)mean[i], ka[i] = (REAL)a[i], kb[i] = (REAL)b[i], kc[i] = (REAL)c[i];
    for (long r = 0; r < rows; r++) {
#pragma GCC ivdep
        for (long i = 0; i < nc; i++) {
            long at = r * stride + i;
            dx[at] = g[at] * ka[i] + ((x[at] - m[i]) * kb[i] + kc[i]);
        }
    }
}
#undef PLANE_SUMS
#endif
