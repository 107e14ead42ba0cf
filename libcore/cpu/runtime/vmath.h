/* Functions of f32 that compilers vectorise: no branches, no calls, no tables. For *_simd.c files, where
 * multiplications and additions contract to fma if there is one. Errors, tested in tests/cpu/test_vmath.c,
 * are at most 2 units in the last place, 3 in compound functions. NaN and infinities come out as C's libm has them. The
 * coefficients are minimax fits. */
#ifndef DL_CPU_VMATH_H
#define DL_CPU_VMATH_H

#include <math.h>
#include <string.h>

#include "core/horner.h"

static inline int dl_vbits(float x) {
    int i;
    memcpy(&i, &x, 4);
    return i;
}
static inline float dl_vfloat(int i) {
    float x;
    memcpy(&x, &i, 4);
    return x;
}

/* Bits of a signalling NaN, and of 89. They are not constants, since compilers compute with these beforehand: then an
 * overflow, or the logarithm of a negative number, would raise no flag (autograd/nonfinite.h). Of a type that stores of
 * floats do not change, so that loops read them once. */
typedef struct dl_vmath_word {
    long snan, top;
} dl_vmath_word;
extern dl_vmath_word dl_vmath_bits;

/* e**x = 2**n * e**r, |r| <= ln(2)/2; multiplied by the power of two in two steps, so that results below the normal
 * range are right, too. */
static inline float dl_vexp(float x) {
    x = x > 89.0f ? dl_vfloat((int)dl_vmath_bits.top) : x;
    x = x < -104.0f ? -104.0f : x;
    float t = x * 1.44269504f + 12582912.0f; /* 1.5 * 2**23: the sum is rounded to an integer */
    float n = t - 12582912.0f;
    int k = dl_vbits(t) - dl_vbits(12582912.0f);
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p =
        DL_HORNER(DL_MUL_ADD, r, 0.000197892659f, 0.00139457523f, 0.0083335042f, 0.0416662805f, 0.166666657f, 0.5f);
    p = r * r * p + r + 1.0f;
    int h = k >> 1;
    return p * dl_vfloat((int)((unsigned)(h + 127) << 23)) * dl_vfloat((int)((unsigned)(k - h + 127) << 23));
}

/* ln(x) = e ln(2) + ln(1 + f), 1 + f between sqrt(1/2) and sqrt(2). */
static inline float dl_vlog(float x) {
    int tiny = x < 1.17549435e-38f;
    float y = tiny ? x * 8388608.0f : x;
    int i = (int)((unsigned)dl_vbits(y) - 0x3f3504f3u); /* wraps for what is no positive number */
    float e = (float)((i >> 23) - (tiny ? 23 : 0));
    e = x < 0.0f ? dl_vfloat((int)dl_vmath_bits.snan) : e;
    float f = dl_vfloat((i & 0x7fffff) + 0x3f3504f3) - 1.0f;
    float p = DL_HORNER(DL_MUL_ADD, f, 0.0674660131f, -0.116756409f, 0.118881747f, -0.124055915f, 0.142195508f,
                        -0.166679963f, 0.200021192f, -0.250000089f, 0.333333135f);
    float z = f * f, r = p * f * z;
    r = e * -2.12194440e-4f + r;
    r = r - 0.5f * z;
    r = e * 0.693359375f + (r + f);
    r = x == 0.0f ? -INFINITY : r;
    return x < INFINITY ? r : x; /* infinity and NaN are themselves */
}

/* ln(1 + u) for 0 <= u <= 1. */
static inline float dl_vlog1p01(float u) {
    float w = 1.0f + u, d = w - 1.0f;
    float r = dl_vlog(w) * (u / (d == 0.0f ? 1.0f : d));
    return d == 0.0f ? u : r;
}

/* e**x - 1 for x <= 0: Taylor's series near 0. */
static inline float dl_vless1(float x) {
    float p = DL_HORNER(DL_MUL_ADD, x, 2.75573192e-07f, 2.75573192e-06f, 2.48015873e-05f, 0.000198412698f,
                        0.00138888889f, 0.00833333333f, 0.0416666667f, 0.166666667f, 0.5f);
    float series = p * x * x + x;
    return x > -1.0f ? series : dl_vexp(x) - 1.0f;
}

static inline float dl_vtanh(float x) {
    float t = fabsf(x), z = x * x;
    float p = DL_HORNER(DL_MUL_ADD, z, 0.00214753696f, -0.00818267372f, 0.0217029676f, -0.0539472029f, 0.133332103f,
                        -0.333333313f);
    float small = p * z * x + x, large = 1.0f - 2.0f / (dl_vexp(2.0f * t) + 1.0f);
    return t < 0.625f ? small : copysignf(large, x);
}

/* x P(x**2) below 1, 1 - e**-Q(|x|) above. */
static inline float dl_verf(float x) {
    float t = fabsf(x), z = x * x;
    float p = DL_HORNER(DL_MUL_ADD, z, -9.68013683e-06f, 0.000112705449f, -0.000848471129f, 0.00522107491f,
                        -0.0268654451f, 0.112837829f, -0.376126379f, 0.128379166f);
    float small = p * x + x;
    t = t > 4.0f ? 4.0f : t;
    float q = DL_HORNER(DL_MUL_ADD, t, 2.16976387e-05f, -0.000441472919f, 0.00420528604f, -0.0252103414f, 0.108422101f,
                        0.633216381f, 1.12958026f, -0.000188467777f);
    float large = copysignf(1.0f - dl_vexp(-q), x);
    return t < 1.0f ? small : large;
}

/* Twice the standard normal distribution function. */
static inline float dl_vtwice_cdf(float x) { return 1.0f + dl_verf(x * 0.707106781f); }
static inline double dl_twice_cdf(double x) { return erfc(x * -0.70710678118654752440); }

#endif
