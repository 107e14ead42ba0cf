/* Circular functions and their inverses of f32 that compilers vectorise, as those of vmath.h. */
#pragma once

#include "cpu/runtime/vmath.h"

/* x = n pi/2 + r, |r| <= pi/4; in f64, with pi/2 in two parts, whose first makes n times it exact. For |x| below
 * DL_VNEAR. */
#define DL_VNEAR 1e6f
DL_VECTOR float dl_vquarter(float x, int *n) {
    double d = x, t = d * 0.63661977236758134308 + 6755399441055744.0; /* 1.5 * 2**52 */
    double k = t - 6755399441055744.0;
    long bits;
    memcpy(&bits, &t, 8);
    *n = (int)bits;
    return (float)((d - k * 1.57079632673412561417) - k * 6.07710050650619224932e-11);
}

/* The sine of n pi/2 + r. */
DL_VECTOR float dl_vsine_of(float r, int n) {
    float z = r * r;
    float s = DL_HORNER(DL_MUL_ADD, z, -0.000195120287f, 0.00833213702f, -0.166666538f) * z * r + r;
    float c = DL_HORNER(DL_MUL_ADD, z, 2.44348466e-05f, -0.00138873374f, 0.0416666456f) * z * z + (1.0f - 0.5f * z);
    return dl_vfloat(dl_vbits(n & 1 ? c : s) ^ (int)((unsigned)(n & 2) << 30));
}
DL_VECTOR float dl_vsin(float x) {
    int n;
    float r = dl_vquarter(x, &n);
    return x == 0.0f ? x : dl_vsine_of(r, n);
}
DL_VECTOR float dl_vcos(float x) {
    int n;
    float r = dl_vquarter(x, &n);
    return dl_vsine_of(r, n + 1);
}
/* cos(x) + sin(x), and as `less` sin(x) - cos(x): the cosine and the sine of x - pi/4, times sqrt(2). */
DL_VECTOR float dl_vdiagonal(float x, float *less) {
    int n;
    float r = dl_vquarter(x, &n), s = dl_vsine_of(r, n), c = dl_vsine_of(r, n + 1);
    *less = s - c;
    return c + s;
}
DL_VECTOR float dl_vtan(float x) {
    int n;
    float r = dl_vquarter(x, &n), z = r * r;
    float t = DL_HORNER(DL_MUL_ADD, z, 0.00443052175f, -1.79794879e-05f, 0.0109185902f, 0.0212510787f, 0.0540657714f,
                        0.133326128f, 0.333333522f);
    t = t * z * r + r;
    return (n & 1 ? -1.0f : t) / (n & 1 ? t : 1.0f);
}

/* asin(s) - s for s**2 = z <= 1/4 */
DL_VECTOR float dl_vasin_rest(float s, float z) {
    return DL_HORNER(DL_MUL_ADD, z, 0.0421782434f, 0.0241729431f, 0.0454716086f, 0.0749528855f, 0.166667521f) * z * s;
}
/* Above 1/2 by the half angle: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)). */
DL_VECTOR float dl_vasin(float x) {
    float a = fabsf(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a, s = a > 0.5f ? sqrtf(z) : a;
    float p = dl_vasin_rest(s, z);
    float far = 0.785398185f + (((0.785398185f - 2.0f * s) - 2.0f * p) + -4.37113883e-08f); /* the small parts first */
    return copysignf(a > 0.5f ? far : s + p, x);
}
DL_VECTOR float dl_vacos(float x) {
    float a = fabsf(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a, s = a > 0.5f ? sqrtf(z) : x;
    float p = dl_vasin_rest(s, z);
    float above = 2.0f * s + 2.0f * p, below = (3.14159274f - above) + -8.74227766e-08f;
    float mid = ((1.57079637f - s) - p) + -4.37113883e-08f;
    return a > 0.5f ? (x > 0.0f ? above : below) : mid;
}

/* For 0 <= |q| <= 1. */
DL_VECTOR float dl_vatan_unit(float q) {
    float z = q * q;
    return DL_HORNER(DL_MUL_ADD, z, -0.00179360528f, 0.0109145287f, -0.031177694f, 0.0579574332f, -0.0840343982f,
                     0.109521821f, -0.142642409f, 0.199985489f, -0.333332986f) *
               z * q +
           q;
}
DL_VECTOR float dl_vatan(float x) {
    float a = fabsf(x), q = (a > 1.0f ? -1.0f : a) / (a > 1.0f ? a : 1.0f);
    float p = dl_vatan_unit(q);
    return copysignf(a > 1.0f ? (p + -4.37113883e-08f) + 1.57079637f : p, x);
}
DL_VECTOR float dl_vatan2(float y, float x) {
    float a = fabsf(x), b = fabsf(y), low = b > a ? a : b, high = b > a ? b : a;
    float q = low / (high == 0.0f ? 1.0f : high);
    float p = dl_vatan_unit(low == INFINITY ? 1.0f : q);
    p = b > a ? 1.57079637f - (p - -4.37113883e-08f) : p;
    p = dl_vbits(x) < 0 ? 3.14159274f - (p - -8.74227766e-08f) : p;
    return x != x || y != y ? x + y : copysignf(p, y);
}

/* Multiplied by a power of two first, so that no square overflows or vanishes. */
DL_VECTOR float dl_vhypot(float x, float y) {
    float a = fabsf(x), b = fabsf(y), most = a > b ? a : b;
    float by = most > 1e18f ? 0x1p-70f : most < 1e-18f ? 0x1p100f : 1.0f;
    float back = most > 1e18f ? 0x1p70f : most < 1e-18f ? 0x1p-100f : 1.0f;
    float u = a * by, v = b * by, r = sqrtf(u * u + v * v) * back;
    return a == INFINITY || b == INFINITY ? INFINITY : r;
}

/* Numbers of one sign are in the order of their bits. */
DL_VECTOR float dl_vnextafter(float x, float y) {
    int away = (y > x) == (x > 0);
    float r = x == 0 ? copysignf(0x1p-149f, y) : dl_vfloat(dl_vbits(x) + (away ? 1 : -1));
    return x != x || y != y ? x + y : x == y ? y : r;
}
DL_VECTOR double dl_vnextafter_f64(double x, double y) {
    long away = (y > x) == (x > 0) ? 1 : -1, bits;
    memcpy(&bits, &x, 8);
    bits = (long)((unsigned long)bits + (unsigned long)away);
    double r;
    memcpy(&r, &bits, 8);
    r = x == 0 ? copysign(0x1p-1074, y) : r;
    return x != x || y != y ? x + y : x == y ? y : r;
}
