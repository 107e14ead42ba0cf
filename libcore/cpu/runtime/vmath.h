/* Exponentials, logarithms and their kin of f32 that compilers vectorise: no branches, no calls, no tables. For
 * *_simd.c files, where multiplications and additions contract to fma if there is one. Errors, tested in
 * tests/cpu/test_vmath.c, are at most 2 units in the last place, 3 in compound functions. NaN and infinities come out
 * as C's libm has them. The coefficients are minimax fits. */
#pragma once

#include <math.h>
#include <string.h>

#include "core/horner.h"

/* Loops with a call are not vectorised, so every function is part of its loop; sanitizers would take minutes to compile
 * that. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DL_VECTOR static inline
#else
#define DL_VECTOR static inline __attribute__((always_inline))
#endif

DL_VECTOR int dl_vbits(float x) {
    int i;
    memcpy(&i, &x, 4);
    return i;
}
DL_VECTOR float dl_vfloat(int i) {
    float x;
    memcpy(&x, &i, 4);
    return x;
}

/* Bits of a signalling NaN, and of 89 (f64: 712). They are not constants, since compilers compute with these
 * beforehand: then an overflow, or the logarithm of a negative number, would raise no flag (autograd/nonfinite.h). Of a
 * type that stores of floats do not change, so that loops read them once. */
typedef struct dl_vmath_word {
    long snan, top, snan_f64, top_f64;
} dl_vmath_word;
extern dl_vmath_word dl_vmath_bits;

/* 2**k v, in two steps, so that results below the normal range are right, too. */
DL_VECTOR float dl_vscale(float v, int k) {
    int h = k >> 1;
    return v * dl_vfloat((int)((unsigned)(h + 127) << 23)) * dl_vfloat((int)((unsigned)(k - h + 127) << 23));
}

/* x = mantissa 2**exponent with 1/2 <= |mantissa| < 1; 0, infinities and NaN are their own mantissa, of exponent 0.
 * Numbers below 2**-126 are multiplied by 2**24 first. */
DL_VECTOR int dl_vsplits(float x) { return fabsf(x) > 0.0f && fabsf(x) < INFINITY; }
DL_VECTOR float dl_vmantissa(float x) {
    int bits = dl_vbits(fabsf(x) < 0x1p-126f ? x * 0x1p24f : x);
    return dl_vsplits(x) ? dl_vfloat((bits & (int)0x807fffffu) | 0x3f000000) : x;
}
DL_VECTOR float dl_vexponent(float x) {
    int tiny = fabsf(x) < 0x1p-126f, bits = dl_vbits(tiny ? x * 0x1p24f : x);
    return dl_vsplits(x) ? (float)(((bits >> 23) & 255) - (tiny ? 150 : 126)) : 0.0f;
}

/* x = n ln(2) + r, |r| <= ln(2)/2; gives r, the polynomial (e**r - 1 - r) / r**2 and n. */
DL_VECTOR float dl_vexp_parts(float x, float *r, int *n) {
    float t = x * 1.44269504f + 12582912.0f; /* 1.5 * 2**23: the sum is rounded to an integer */
    float k = t - 12582912.0f;
    *n = dl_vbits(t) - dl_vbits(12582912.0f);
    *r = x - k * 0.693359375f;
    *r = *r - k * -2.12194440e-4f;
    return DL_HORNER(DL_MUL_ADD, *r, 0.000197892659f, 0.00139457523f, 0.0083335042f, 0.0416662805f, 0.166666657f, 0.5f);
}

/* 2**by e**x = 2**(n + by) e**r; from `most` on it overflows. */
DL_VECTOR float dl_vexp_by(float x, int by, float most) {
    float r;
    int n;
    x = x > most ? most : x;
    x = x < -104.0f ? -104.0f : x;
    float p = dl_vexp_parts(x, &r, &n);
    p = r * r * p + r + 1.0f;
    return dl_vscale(p, n + by);
}
DL_VECTOR float dl_vexp(float x) { return dl_vexp_by(x, 0, dl_vfloat((int)dl_vmath_bits.top)); }

/* 2**x = 2**n 2**r, |r| <= 1/2 */
DL_VECTOR float dl_vexp2(float x) {
    float top = dl_vfloat((int)dl_vmath_bits.top);
    x = x > 128.0f ? top + top : x;
    x = x < -151.0f ? -151.0f : x;
    float t = x + 12582912.0f, r = x - (t - 12582912.0f);
    float p = DL_HORNER(DL_MUL_ADD, r, 0.000153533663f, 0.00133988739f, 0.00961843692f, 0.0555033237f, 0.240226477f,
                        0.693147182f);
    return dl_vscale(p * r + 1.0f, dl_vbits(t) - dl_vbits(12582912.0f));
}

/* e**x - 1 = 2**n (e**r - 1) + 2**n - 1, in two steps as in dl_vscale. */
DL_VECTOR float dl_vexpm1(float x) {
    float r, top = dl_vfloat((int)dl_vmath_bits.top), y = x > top ? top : x;
    int n;
    y = y < -104.0f ? -104.0f : y;
    float p = dl_vexp_parts(y, &r, &n);
    int h = n >> 1, g = n - h;
    float first = dl_vfloat((int)((unsigned)(h + 127) << 23)), second = dl_vfloat((int)((unsigned)(g + 127) << 23));
    p = r * r * p + r;
    p = (first * p + (first - dl_vfloat((int)((unsigned)(127 - g) << 23)))) * second;
    return x == 0.0f ? x : p;
}

/* x = 2**e (1 + f), 1 + f between sqrt(1/2) and sqrt(2); gives ln(1 + f) - f + f**2 / 2. Of a negative number e is NaN.
 */
DL_VECTOR float dl_vlog_parts(float x, float *e, float *f) {
    int tiny = x < 1.17549435e-38f;
    float y = tiny ? x * 8388608.0f : x;
    int i = (int)((unsigned)dl_vbits(y) - 0x3f3504f3u); /* wraps for what is no positive number */
    *e = (float)((i >> 23) - (tiny ? 23 : 0));
    *e = x < 0.0f ? dl_vfloat((int)dl_vmath_bits.snan) : *e;
    *f = dl_vfloat((i & 0x7fffff) + 0x3f3504f3) - 1.0f;
    float p = DL_HORNER(DL_MUL_ADD, *f, 0.0674660131f, -0.116756409f, 0.118881747f, -0.124055915f, 0.142195508f,
                        -0.166679963f, 0.200021192f, -0.250000089f, 0.333333135f);
    return p * *f * (*f * *f);
}

DL_VECTOR float dl_vlog(float x) {
    float e, f, r = dl_vlog_parts(x, &e, &f);
    r = e * -2.12194440e-4f + r;
    r = r - 0.5f * (f * f);
    r = e * 0.693359375f + (r + f);
    r = x == 0.0f ? -INFINITY : r;
    return x < INFINITY ? r : x; /* infinity and NaN are themselves */
}

/* The logarithm to another base: e * power + ln(1 + f) * unit, power and unit in two parts. High parts have so few bits
 * that their products are exact: powers of the base have whole logarithms. */
DL_VECTOR float dl_vlog_to(float x, float power, float power_low, float unit, float unit_low) {
    float e, f, tail = dl_vlog_parts(x, &e, &f), half = 0.5f * (f * f);
    float high = dl_vfloat(dl_vbits(f - half) & ~0xfff), low = ((f - high) - half) + tail;
    float big = e * power, small = high * unit, sum = big + small;
    float r = sum + (((big - sum) + small) + (e * power_low + (low + high) * unit_low + low * unit));
    r = x == 0.0f ? -INFINITY : r;
    return x < INFINITY ? r : x;
}
DL_VECTOR float dl_vlog2(float x) { return dl_vlog_to(x, 1.0f, 0.0f, 1.4423828125f, 0.000312228389f); }
DL_VECTOR float dl_vlog10(float x) {
    return dl_vlog_to(x, 0.301025390625f, 4.60503898e-06f, 0.4342041015625f, 9.03803408e-05f);
}

/* ln(1 + u): what the rounding of 1 + u loses comes back by the factor u / (w - 1). */
DL_VECTOR float dl_vlog1p(float u) {
    float w = 1.0f + u, d = w - 1.0f;
    int exact = d == 0.0f || d == INFINITY;
    float r = dl_vlog(w) * (exact ? 1.0f : u / (exact ? 1.0f : d));
    return d == 0.0f ? u : r;
}

/* ln(1 + u) for 0 <= u <= 1. */
DL_VECTOR float dl_vlog1p01(float u) {
    float w = 1.0f + u, d = w - 1.0f;
    float r = dl_vlog(w) * (u / (d == 0.0f ? 1.0f : d));
    return d == 0.0f ? u : r;
}

/* e**x - 1 for x <= 0: Taylor's series near 0. */
DL_VECTOR float dl_vless1(float x) {
    float p = DL_HORNER(DL_MUL_ADD, x, 2.75573192e-07f, 2.75573192e-06f, 2.48015873e-05f, 0.000198412698f,
                        0.00138888889f, 0.00833333333f, 0.0416666667f, 0.166666667f, 0.5f);
    float series = p * x * x + x;
    return x > -1.0f ? series : dl_vexp(x) - 1.0f;
}

/* e**|x| / 2, of which e**-|x| / 2 is a quarter over it */
DL_VECTOR float dl_vhalf_exp(float x) { return dl_vexp_by(fabsf(x), -1, dl_vfloat((int)dl_vmath_bits.top) + 1.0f); }
DL_VECTOR float dl_vcosh(float x) {
    float e = dl_vhalf_exp(x);
    return e + 0.25f / e;
}
DL_VECTOR float dl_vsinh(float x) {
    float z = x * x, e = dl_vhalf_exp(x);
    float p = DL_HORNER(DL_MUL_ADD, z, 2.81695134e-06f, 0.000198361595f, 0.0083333496f, 0.166666672f);
    return fabsf(x) < 1.0f ? p * z * x + x : copysignf(e - 0.25f / e, x);
}

DL_VECTOR float dl_vtanh(float x) {
    float t = fabsf(x), z = x * x;
    float p = DL_HORNER(DL_MUL_ADD, z, 0.00214753696f, -0.00818267372f, 0.0217029676f, -0.0539472029f, 0.133332103f,
                        -0.333333313f);
    float small = p * z * x + x, large = 1.0f - 2.0f / (dl_vexp(2.0f * t) + 1.0f);
    return copysignf(t < 0.625f ? small : large, x);
}

/* x P(x**2) for |x| <= 1 */
DL_VECTOR float dl_verf_near(float x) {
    float z = x * x;
    float p = DL_HORNER(DL_MUL_ADD, z, -9.68013683e-06f, 0.000112705449f, -0.000848471129f, 0.00522107491f,
                        -0.0268654451f, 0.112837829f, -0.376126379f, 0.128379166f);
    return p * x + x;
}
/* That below 1, 1 - e**-Q(|x|) above. */
DL_VECTOR float dl_verf(float x) {
    float a = fabsf(x), t = a > 4.0f ? 4.0f : a;
    float q = DL_HORNER(DL_MUL_ADD, t, 2.16976387e-05f, -0.000441472919f, 0.00420528604f, -0.0252103414f, 0.108422101f,
                        0.633216381f, 1.12958026f, -0.000188467777f);
    float large = copysignf(1.0f - dl_vexp(-q), x);
    return a < 1.0f ? dl_verf_near(x) : large;
}

/* 1 - erf(x) below 1/2; above e**-x**2 times a polynomial of (x - 2) / (x + 2) over 1 + 2 x. */
DL_VECTOR float dl_verfc(float x) {
    float t = fabsf(x), u = t > 11.0f ? 11.0f : t, v = (u - 2.0f) / (u + 2.0f);
    double square = (double)u * (double)u;
    float z = (float)square, rest = (float)(square - (double)z);
    float p = DL_HORNER(DL_MUL_ADD, v, 0.000213994761f, -0.000309720286f, -0.00146842666f, 0.00121466571f,
                        0.00872709416f, -0.00802395213f, -0.0542206317f, 0.164050534f, -0.166030362f, -0.0927638113f);
    p = p * v + 1.27697837f;
    float far = (float)((double)(p - p * rest) / (1.0 + 2.0 * (double)u) * (double)dl_vexp(-z));
    far = t < 11.0f ? far : t != t ? t : 0.0f;
    far = x < 0.0f ? 2.0f - far : far;
    return t < 0.5f ? 1.0f - dl_verf_near(t < 0.5f ? x : 0.0f) : far;
}

/* e**x**2 erfc(x): up to 1/2 the product, above a polynomial of (x - 2) / (x + 2) over 1 + 2 x; below 0 it is
 * 2 e**x**2 less that of -x. */
DL_VECTOR float dl_verfcx(float x) {
    float t = fabsf(x), w = t < 0.5f ? 0.5f : t < 1e18f ? t : 1e18f, v = (w - 2.0f) / (w + 2.0f);
    float p = DL_HORNER(DL_MUL_ADD, v, 0.000258998204f, -0.000297781992f, -0.00153006197f, 0.00120478499f,
                        0.00875525074f, -0.008020996f, -0.0542257283f, 0.164050177f, -0.166030053f, -0.0927637982f);
    float far = (float)((double)(p * v + 1.27697838f) / (1.0 + 2.0 * (double)w)), u = t < 10.0f ? t : 10.0f;
    double square = (double)u * (double)u;
    float z = (float)square, power = dl_vexp(z), back = power + power * (float)(square - (double)z);
    far = x < 0.0f ? 2.0f * back - far : far;
    far = t < 0.5f ? back * (1.0f - dl_verf_near(t < 0.5f ? x : 0.0f)) : far;
    far = x < -9.4f ? INFINITY : x > 1e18f ? 0.564189584f / x : far;
    return x != x ? x : far;
}

/* ---- inverse hyperbolic functions */
DL_VECTOR float dl_vasinh(float x) {
    float a = fabsf(x), near = a < 1e18f ? a : 0.0f;
    double d = near;
    float u = (float)(d + d * d / (1.0 + sqrt(d * d + 1.0)));
    float r = a < 1e18f ? dl_vlog1p(u) : dl_vlog(a) + 0.693147182f;
    return a < 1e-4f ? x : copysignf(r, x);
}
DL_VECTOR float dl_vacosh(float x) {
    float near = x < 1e18f ? x : 1.0f;
    double d = near;
    float u = (float)((d - 1.0) + sqrt((d - 1.0) * fabs(d + 1.0))); /* below 1 NaN, or -2 */
    return dl_vlog1p(x < 1e18f ? u : x) + (x < 1e18f ? 0.0f : 0.693147182f);
}
DL_VECTOR float dl_vatanh(float x) {
    float a = fabsf(x), z = x * x, r = 0.5f * dl_vlog1p((a + a) / (1.0f - a));
    float p =
        DL_HORNER(DL_MUL_ADD, z, 0.176756769f, 0.0513138622f, 0.118248381f, 0.142226383f, 0.200025246f, 0.333332986f);
    return a < 0.5f ? p * z * x + x : copysignf(r, x);
}

/* ---- the normal distribution */

/* e**(-x**2 / 2) = 2**n 2**r, |r| <= 1/2; 0 where that is no normal number. */
DL_VECTOR float dl_vbell(float x) {
    float y = x * x * -0.721347520f;
    y = y < -127.0f ? -127.0f : y;
    float t = y + 12582912.0f, r = y - (t - 12582912.0f);
    float p = DL_HORNER(DL_MUL_ADD, r, 0.00134070509f, 0.00967173744f, 0.0555030927f, 0.24022238f, 0.693147242f);
    return dl_vfloat((int)((unsigned)dl_vbits(p * r + 1.0f) + ((unsigned)dl_vbits(t) << 23)));
}
/* Twice the standard normal distribution function: of -|x| it is e**(-x**2 / 2) times a quotient. */
DL_VECTOR float dl_vtwice_cdf(float x) {
    float a = fabsf(x), u = a < 14.0f ? a : 14.0f;
    float over = DL_HORNER(DL_MUL_ADD, u, 0.00798868109f, 0.0796173811f, 0.361567438f, 0.869951606f, 1.0f);
    float under = DL_HORNER(DL_MUL_ADD, u, 0.0100121768f, 0.0997932404f, 0.463000029f, 1.19230449f, 1.66783655f, 1.0f);
    float tail = over / under * dl_vbell(x);
    return x > 0.0f ? 2.0f - tail : tail;
}
