/* Loops over channels, see norm.h. Sums of f32 run in f32 over short stretches, which are added up in f64; the order is
 * fixed. Includes itself once a dtype. */
#ifndef ELEM
#include "cpu/kernels/norm/norm.h"
#include "cpu/kernels/groups.h"

enum { NC = DL_NORM_CHANNELS };

/* What formulas are of: v of x and w of g; of several channels also their numbers, of a plane variables of these names.
 */
#define OF_PLANE(T, IN, IN_REAL) const T v = IN(x) - m0;
#define TWO_OF_PLANE(T, IN, IN_REAL) const T v = IN(x) - m0, w = IN(g);
#define OF_CHANNELS(T, IN, IN_REAL) const T v = IN(x) - IN_REAL(m), a0 = IN_REAL(a), b0 = IN_REAL(b);
#define TWO_OF_CHANNELS(T, IN, IN_REAL)                                                                                \
    const T v = IN(x) - IN_REAL(m), w = IN(g), a0 = IN_REAL(a), b0 = IN_REAL(b), c0 = IN_REAL(c);
#define NORMALISED v *a0 + b0
#define GRADIENT w *a0 + (v * b0 + c0)

/* The same over rows. */
#define SUMS(T, IN, IN_REAL)                                                                                           \
    T v = {0};                                                                                                         \
    for (long i = 0; i < together; i++) v += IN(x + (r + i) * stride);
#define DEVIATIONS(T, IN, IN_REAL)                                                                                     \
    const T about = IN_REAL(m);                                                                                        \
    T v = {0}, square = {0};                                                                                           \
    for (long i = 0; i < together; i++) {                                                                              \
        const T d = IN(x + (r + i) * stride) - about;                                                                  \
        v += d, square += d * d;                                                                                       \
    }
#define GRADIENT_SUMS(T, IN, IN_REAL)                                                                                  \
    const T about = IN_REAL(m);                                                                                        \
    T v = {0}, w = {0};                                                                                                \
    for (long i = 0; i < together; i++) {                                                                              \
        const T h = IN(g + (r + i) * stride);                                                                          \
        w += h, v += h * (IN(x + (r + i) * stride) - about);                                                           \
    }

#define FLOATS "cpu/kernels/norm/norm_simd.c"
#include "cpu/runtime/floats.def"

#define LOOPS(t)                                                                                                       \
    { moments_##t, apply_##t, grad_sums_##t, grad_apply_##t }
const dl_norm_loops DL_SIMD_NAME(dl_norm)[DL_NDTYPE] = {
    [DL_F32] = LOOPS(f32), [DL_F64] = LOOPS(f64), [DL_F16] = LOOPS(f16), [DL_BF16] = LOOPS(bf16)};

#else

#include "cpu/kernels/norm/moments.def"

static void S(narrow)(long nc, const double *from, REAL *to) {
    for (long c = 0; c < nc; c++) to[c] = (REAL)from[c];
}

/* As of a plane. */
static void S(some_moments)(const ELEM *x, long rows, long stride, long nc, long before, double *mean, double *square) {
    const long first = dl_norm_first(rows);
    double start[NC] = {0}, none[NC] = {0}, off[NC] = {0}, sum[NC] = {0};
    REAL m[NC];
    DL_COLUMN_SUMS(first, nc, NC, SUMS, v, v, start, none)
    for (long c = 0; c < nc; c++) m[c] = (REAL)(start[c] / (double)first);
    DL_COLUMN_SUMS(rows, nc, NC, DEVIATIONS, v, square, off, sum)
    for (long c = 0; c < nc; c++) {
        const double by = off[c] / (double)rows, more = off[c] * by;
        dl_norm_merge(before, &mean[c], &square[c], rows, (double)m[c] + by, sum[c] < more ? 0 : sum[c] - more);
    }
}

static void S(moments)(const void *xv, long rows, long stride, long nc, double *mean, double *square) {
    const ELEM *x = xv;
    if (nc == 1 && stride == 1) {
        S(plane_moments)(x, rows, mean, square);
        return;
    }
    const long piece = DL_NORM_PIECE / nc;
    for (long r = 0; r < rows; r += piece, x += piece * stride)
        S(some_moments)(x, rows - r < piece ? rows - r : piece, stride, nc, r, mean, square);
}

static void S(apply)(const void *xv, void *yv, long rows, long stride, long nc, const double *mean, const double *scale,
                     const double *shift) {
    const ELEM *x = xv;
    ELEM *y = yv;
    if (nc == 1 && stride == 1) {
        const REAL m0 = (REAL)*mean, a0 = (REAL)*scale, b0 = (REAL)*shift;
        DL_MAP(rows, OF_PLANE, NORMALISED, y);
        return;
    }
    REAL m[NC], a[NC], b[NC];
    S(narrow)(nc, mean, m), S(narrow)(nc, scale, a), S(narrow)(nc, shift, b);
    for (long r = 0; r < rows; r++, x += stride, y += stride) DL_MAP(nc, OF_CHANNELS, NORMALISED, y);
}

static void S(grad_sums)(const void *xv, const void *gv, long rows, long stride, long nc, const double *mean,
                         double *sg, double *sgx) {
    const ELEM *x = xv, *g = gv;
    if (nc == 1 && stride == 1) {
        const REAL m0 = (REAL)*mean;
        DL_SUMS(rows, DL_NORM_STRETCH, TWO_OF_PLANE, w, v * w, *sg, *sgx);
        return;
    }
    REAL m[NC];
    S(narrow)(nc, mean, m);
    DL_COLUMN_SUMS(rows, nc, NC, GRADIENT_SUMS, w, v, sg, sgx)
}

static void S(grad_apply)(const void *xv, const void *gv, void *dv, long rows, long stride, long nc, const double *mean,
                          const double *av, const double *bv, const double *cv) {
    const ELEM *x = xv, *g = gv;
    ELEM *d = dv;
    if (nc == 1 && stride == 1) {
        const REAL m0 = (REAL)*mean, a0 = (REAL)*av, b0 = (REAL)*bv, c0 = (REAL)*cv;
        DL_MAP(rows, TWO_OF_PLANE, GRADIENT, d);
        return;
    }
    REAL m[NC], a[NC], b[NC], c[NC];
    S(narrow)(nc, mean, m), S(narrow)(nc, av, a), S(narrow)(nc, bv, b), S(narrow)(nc, cv, c);
    for (long r = 0; r < rows; r++, x += stride, g += stride, d += stride) DL_MAP(nc, TWO_OF_CHANNELS, GRADIENT, d);
}
#endif
