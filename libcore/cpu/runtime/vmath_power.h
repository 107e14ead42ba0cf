/* Powers, and those of 2 in f64, that compilers vectorise, as the functions of vmath.h. */
#pragma once

#include "cpu/runtime/vmath_f64.h"

/* 2**x = 2**n e**(r ln(2)), |r| <= 1/2 */
DL_VECTOR double dl_vexp2_f64(double x) {
    double top = dl_vdouble(dl_vmath_bits.top_f64);
    x = x > 1024.0 ? top + top : x;
    x = x < -1080.0 ? -1080.0 : x;
    double t = x + DL_VROUND, r = (x - (t - DL_VROUND)) * 0.69314718055994530942;
    return dl_vscale_f64(r * r * dl_vexp_series_f64(r) + r + 1.0, dl_vless(dl_vbits_f64(t), dl_vbits_f64(DL_VROUND)));
}

/* x**y of `magnitude` = |x|**y as C's pow has it: of a negative number to a whole power, odd or even; 1 to any power
 * and any number to 0 are 1. */
#define DL_VPOW_ENDS(T, x, y, magnitude, floor, fabs, negative)                                                        \
    const T half_ = (T)0.5 * y, end_ = x == 0 && y < 0 ? fabs(x) : 1;                                                  \
    const int zero_ = x == 0, odd_ = floor(y) == y && floor(half_) != half_;                                           \
    T r_ = magnitude;                                                                                                  \
    r_ = zero_ || fabs(x) == (T)INFINITY ? (zero_ == (y < 0) ? (T)INFINITY : 0) : r_;                                  \
    r_ = zero_ && y < 0 ? 1 / end_ : r_;                                                                               \
    r_ = odd_ && negative ? -r_ : r_;                                                                                  \
    r_ = x != x || y != y ? x + y : r_;                                                                                \
    return y == 0 || x == 1 ? 1 : r_;

/* |x|**y = e**(y ln(|x|)), of which no 0, infinity or overflow is an operand. ln(1 + f) = 2 artanh(s), s = f / (2 + f),
 * has 34 bits, by a quotient of f32 and what that misses. e**t is 1 + r + a rest that is small, so that the result is
 * rounded once. */
DL_VECTOR float dl_vpow_of(float x, float y, int has_part) {
    float a = fabsf(x);
    a = a == 0.0f || a == INFINITY ? 1.0f : a;
    /* of subnormal numbers 23 in bits, since a condition becomes two loops */
    int less = (dl_vbits(a) - 0x800000) >> 31 & 23;
    int i = (int)((unsigned)dl_vbits(a * dl_vfloat((127 + less) << 23)) - 0x3f3504f3u);
    float e = (float)((i >> 23) - less), f = dl_vfloat((i & 0x7fffff) + 0x3f3504f3) - 1.0f;
    e = has_part && x < 0.0f && x > -INFINITY ? dl_vfloat((int)dl_vmath_bits.snan) : e;
    float inverse = 1.0f / (2.0f + f);
    double d = f, b = y, s = d * inverse, most = (double)dl_vfloat((int)dl_vmath_bits.top);
    s = s + (d - s * (2.0 + d)) * inverse;
    /* 1 to an infinite power is e**0 */
    b = b > 1e20 ? 1e20 : b;
    b = b < -1e20 ? -1e20 : b;
    double z = s * s, p = DL_HORNER(DL_MUL_ADD, z, 0.23330467216303836, 0.28550820815960663, 0.40000121839806127,
                                    0.66666666554497092);
    double t = b * (e * 0.69314718055994530942 + s * (2.0 + p * z));
    t = t > most ? most : t;
    t = t < -110.0 ? -110.0 : t;
    float n = (float)t * 1.44269504f + 12582912.0f;
    double r = t - (double)(n - 12582912.0f) * 0.69314718055994530942;
    float u = (float)r, rest = DL_HORNER(DL_MUL_ADD, u, 0.000197892659f, 0.00139457523f, 0.0083335042f, 0.0416662805f,
                                         0.166666657f, 0.5f);
    return dl_vscale((float)(1.0 + (r + (double)(rest * (u * u)))), dl_vbits(n) - dl_vbits(12582912.0f));
}
DL_VECTOR float dl_vpow(float x, float y) {
    DL_VPOW_ENDS(float, x, y, dl_vpow_of(x, y, floorf(y) < y), floorf, fabsf, dl_vbits(x) < 0)
}

/* The same in f64: the logarithm and its product with y are sums of two numbers. Without an instruction for a product
 * and a sum C's function is as fast. */
#ifdef __FP_FAST_FMA
/* ln(|x|) = high + *low; 2 s and s**3 2/3 have two parts, the terms from s**5 on one. */
DL_VECTOR double dl_vlog_pair_f64(double a, double *low) {
    double e, f = dl_vlog_parts_f64(a, &e), d = 2.0 + f, rest = f - (d - 2.0), inverse = 1.0 / d;
    double s = f * inverse, s_low = __builtin_fma(-s, rest, __builtin_fma(-s, d, f)) * inverse;
    double z = s * s, z_low = __builtin_fma(s, s, -z) + 2.0 * s * s_low;
    double w = s * z, w_low = __builtin_fma(s, z, -w) + (s * z_low + s_low * z);
    double q = w * 0.66666666666666663, q_low = __builtin_fma(w, 0.66666666666666663, -q) +
                                                (w * 3.7007434154171876e-17 + w_low * 0.66666666666666663);
    double p = DL_HORNER(DL_MUL_ADD, z, 0.11723051028097753, 0.11706248540922385, 0.13334804238225345,
                         0.15384594970895458, 0.18181818335314403, 0.22222222221656232, 0.28571428571429366, 0.4);
    double big = e * DL_VLN2_HIGH, sum = big + 2.0 * s, all = sum + q;
    double small = ((big - sum) + 2.0 * s) + ((sum - all) + q) + (2.0 * s_low + q_low + e * DL_VLN2_LOW + p * (w * z));
    double high = all + small;
    *low = (all - high) + small;
    return high;
}
DL_VECTOR double dl_vpow_of_f64(double x, double y, int has_part) {
    double a = fabs(x), b = y, low, r, most = dl_vdouble(dl_vmath_bits.top_f64);
    long n;
    a = a == 0.0 || a == (double)INFINITY ? 1.0 : a;
    b = b > 1e20 ? 1e20 : b;
    b = b < -1e20 ? -1e20 : b;
    double high = dl_vlog_pair_f64(a, &low), t = b * high, t_low = __builtin_fma(b, high, -t) + b * low;
    t_low = fabs(t) < 800.0 ? t_low : 0.0;
    t = has_part && x < 0.0 && x > -(double)INFINITY ? dl_vdouble(dl_vmath_bits.snan_f64) : t;
    t = t > most ? most : t;
    t = t < -746.0 ? -746.0 : t;
    dl_vexp_parts_f64(t, &r, &n);
    r = r + t_low;
    return dl_vscale_f64(r * r * dl_vexp_series_f64(r) + r + 1.0, n);
}
DL_VECTOR double dl_vpow_f64(double x, double y){
    DL_VPOW_ENDS(double, x, y, dl_vpow_of_f64(x, y, floor(y) < y), floor, fabs, dl_vbits_f64(x) < 0)}
#else
DL_VECTOR double dl_vpow_f64(double x, double y) { return pow(x, y); }
#endif
