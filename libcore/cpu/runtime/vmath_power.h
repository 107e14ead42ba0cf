/* Powers of f32, and those of 2 in f64, that compilers vectorise, as the functions of vmath.h: rounded once, and twice.
 */
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

/* |x|**y = e**(y ln(|x|)) in f64, of which no 0, infinity or overflow is an operand. */
DL_VECTOR float dl_vpow_of(float x, float y, int has_part) {
    double a = fabs((double)x), b = y, e, r, most = (double)dl_vfloat((int)dl_vmath_bits.top);
    long n;
    a = a == 0.0 || a == (double)INFINITY ? 1.0 : a;
    b = b > 1e39 ? 1e39 : b;
    b = b < -1e39 ? -1e39 : b;
    double f = dl_vlog_parts_f64(a, &e), t = b * dl_vlog_of_f64(e, f);
    t = has_part && x < 0.0f && x > -INFINITY ? dl_vdouble(dl_vmath_bits.snan_f64) : t;
    t = t > most ? most : t;
    t = t < -110.0 ? -110.0 : t;
    double p = dl_vexp_parts_f64(t, &r, &n);
    return (float)((r * r * p + r + 1.0) * dl_vpower_f64(n));
}
/* As C's powf: of a negative number to a whole power, odd or even; 1 to any power and any number to 0 are 1. */
DL_VECTOR float dl_vpow(float x, float y) {
    float whole = floorf(y), half = 0.5f * y, end = x == 0.0f && y < 0.0f ? fabsf(x) : 1.0f;
    int zero = x == 0.0f, odd = whole == y && floorf(half) != half;
    float r = dl_vpow_of(x, y, whole < y);
    r = zero || fabsf(x) == INFINITY ? (zero == (y < 0.0f) ? INFINITY : 0.0f) : r;
    r = zero && y < 0.0f ? 1.0f / end : r;
    r = odd && dl_vbits(x) < 0 ? -r : r;
    r = x != x || y != y ? x + y : r;
    return y == 0.0f || x == 1.0f ? 1.0f : r;
}
