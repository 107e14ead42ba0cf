/* Functions of f32 that compilers vectorise: no branches, no calls, no tables. For *_simd.c files, where
 * multiplications and additions contract to fma if there is one. Errors, tested in tests/cpu/test_vmath.c,
 * are at most 2 units in the last place, 3 in compound functions. NaN and infinities come out as C's libm has them. The
 * coefficients are minimax fits. */
#ifndef DL_CPU_VMATH_H
#define DL_CPU_VMATH_H

#include <math.h>
#include <string.h>

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

/* e**x = 2**n * e**r, |r| <= ln(2)/2; the power of two in two steps, so that results below the normal range are right
 * too. */
static inline float dl_vexp(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float t = x * 1.44269504f + 12582912.0f; /* 1.5 * 2**23: the sum is rounded to an integer */
    float n = t - 12582912.0f;
    int k = dl_vbits(t) - dl_vbits(12582912.0f);
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 0.000197892659f;
    p = p * r + 0.00139457523f;
    p = p * r + 0.0083335042f;
    p = p * r + 0.0416662805f;
    p = p * r + 0.166666657f;
    p = p * r + 0.5f;
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
    float f = dl_vfloat((i & 0x7fffff) + 0x3f3504f3) - 1.0f;
    float p = 0.0674660131f;
    p = p * f + -0.116756409f;
    p = p * f + 0.118881747f;
    p = p * f + -0.124055915f;
    p = p * f + 0.142195508f;
    p = p * f + -0.166679963f;
    p = p * f + 0.200021192f;
    p = p * f + -0.250000089f;
    p = p * f + 0.333333135f;
    float z = f * f, r = p * f * z;
    r = e * -2.12194440e-4f + r;
    r = r - 0.5f * z;
    r = e * 0.693359375f + (r + f);
    r = x == 0.0f ? -INFINITY : r;
    r = x < 0.0f ? NAN : r;
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
    float p = 2.75573192e-07f;
    p = p * x + 2.75573192e-06f;
    p = p * x + 2.48015873e-05f;
    p = p * x + 0.000198412698f;
    p = p * x + 0.00138888889f;
    p = p * x + 0.00833333333f;
    p = p * x + 0.0416666667f;
    p = p * x + 0.166666667f;
    p = p * x + 0.5f;
    float near = p * x * x + x;
    return x > -1.0f ? near : dl_vexp(x) - 1.0f;
}

static inline float dl_vtanh(float x) {
    float t = fabsf(x), z = x * x;
    float p = 0.00214753696f;
    p = p * z + -0.00818267372f;
    p = p * z + 0.0217029676f;
    p = p * z + -0.0539472029f;
    p = p * z + 0.133332103f;
    p = p * z + -0.333333313f;
    float near = p * z * x + x, far = 1.0f - 2.0f / (dl_vexp(2.0f * t) + 1.0f);
    return t < 0.625f ? near : copysignf(far, x);
}

/* x P(x**2) below 1, 1 - e**-Q(|x|) above. */
static inline float dl_verf(float x) {
    float t = fabsf(x), z = x * x;
    float p = -9.68013683e-06f;
    p = p * z + 0.000112705449f;
    p = p * z + -0.000848471129f;
    p = p * z + 0.00522107491f;
    p = p * z + -0.0268654451f;
    p = p * z + 0.112837829f;
    p = p * z + -0.376126379f;
    p = p * z + 0.128379166f;
    float near = p * x + x;
    t = t > 4.0f ? 4.0f : t;
    float q = 2.16976387e-05f;
    q = q * t + -0.000441472919f;
    q = q * t + 0.00420528604f;
    q = q * t + -0.0252103414f;
    q = q * t + 0.108422101f;
    q = q * t + 0.633216381f;
    q = q * t + 1.12958026f;
    q = q * t + -0.000188467777f;
    float far = copysignf(1.0f - dl_vexp(-q), x);
    return t < 1.0f ? near : far;
}

/* Twice the share of normal numbers below x. */
static inline float dl_vtwice_cdf(float x) { return 1.0f + dl_verf(x * 0.707106781f); }
static inline double dl_twice_cdf(double x) { return erfc(x * -0.70710678118654752440); }

#endif
