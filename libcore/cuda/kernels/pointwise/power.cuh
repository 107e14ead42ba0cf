/* Powers in f32: 2 ** (b log2(a)) in f64, which is rounded once and costs less than the pairs of f32 that powf takes.
 */
#pragma once

#include "cuda/runtime/base.h"

/* The numbers from 0.699 to twice that in sixteen parts: 1 / c of a number c in the middle of each, and log2(c). */
static __device__ const double2 dl_power_parts[16] = {
    {1.3989071038251366, -0.4843001617159575},  {1.3403141361256545, -0.4225711719642514},
    {1.2864321608040201, -0.3633753794563512},  {1.2367149758454106, -0.3065130425006747},
    {1.1906976744186046, -0.2518071504105397},  {1.147982062780269, -0.19910010007969525},
    {1.1082251082251082, -0.14825095858394247}, {1.0711297071129706, -0.09913319201925132},
    {1.0364372469635628, -0.05163276841532236}, {1.0, 0.0},
    {0.9481481481481482, 0.07681559705083084},  {0.8951048951048951, 0.1598713367783894},
    {0.847682119205298, 0.2384047393250789},    {0.8050314465408805, 0.3128829552843553},
    {0.7664670658682635, 0.38370429247405213},  {0.7314285714285714, 0.4512111118323288}};

/* Of a normal z > 0: the exponent and log2(c), and a polynomial in z / c - 1; relative error 2 ** -38. */
__device__ inline double dl_log2_of(double z) {
    int high = __double2hiint(z), from = high - 0x3fe66000, k = from >> 20;
    double2 part = dl_power_parts[from >> 16 & 15];
    double r = fma(__hiloint2double(high - (k << 20), __double2loint(z)), part.x, -1.0), p = -0.24068731787696124;
    p = fma(p, r, 0.28881116721321215);
    p = fma(p, r, -0.3606736816462476);
    p = fma(p, r, 0.4808982571643891);
    p = fma(p, r, -0.721347520448322);
    p = fma(p, r, 1.442695040893352);
    return fma(p, r, (double)k + part.y);
}

/* 2 ** y for -300 <= y <= 300; relative error 2 ** -31. */
__device__ inline double dl_exp2_of(double y) {
    const double whole = 6755399441055744.0; /* its sum with y has the nearest integer in its last bits */
    double s = y + whole, r = y - (s - whole), p = 1.5297323760701075e-05;
    p = fma(p, r, 0.0001546144469856913);
    p = fma(p, r, 0.001333350238616277);
    p = fma(p, r, 0.009618056678524637);
    p = fma(p, r, 0.055504108839096185);
    p = fma(p, r, 0.24022650922288757);
    p = fma(p, r, 0.6931471805599453);
    p = fma(p, r, 1.0);
    return __hiloint2double(__double2hiint(p) + (__double2loint(s) << 20), __double2loint(p));
}

/* Zeros, infinities and NaN. */
static __device__ __noinline__ float dl_power_other(float a, float b) { return powf(a, b); }

__device__ inline float dl_power(float a, float b) {
    float size = fabsf(a);
    if (!(size > 0.0f && size < INFINITY && fabsf(b) < INFINITY)) return dl_power_other(a, b);
    double y = (double)b * dl_log2_of((double)size);
    y = y < -300.0 ? -300.0 : y > 300.0 ? 300.0 : y;
    float p = (float)dl_exp2_of(y);
    if (a > 0.0f) return p;
    if (rintf(b) != b) return NAN;
    return fabsf(b) < 16777216.0f && (int)b & 1 ? -p : p;
}
__device__ inline double dl_power(double a, double b) { return pow(a, b); }

/* Squares and cubes are products. */
template <class T> __device__ T dl_pow(T a, T b) {
    if (b == T(1)) return a;
    if (b == T(2)) return a * a;
    if (b == T(3)) return a * a * a;
    return dl_power(a, b);
}
