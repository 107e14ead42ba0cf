/* Random numbers for data: streams of draws keyed by (seed, purpose, a, b), so that any image, permutation or transform
 * is computed on its own. Only + - * /, sqrt and explicit fma are used, which IEEE 754 fixes to the bit: the same
 * numbers everywhere. Plain C and C++17, so that CUDA kernels share them (there without contraction of products).
 */
#pragma once

#include <stdint.h>

#include "core/random/rng_math.h"

/* What numbers are drawn for; never renumbered, since seeds would then mean other data. Calls that ops take from the
 * stream count up from 0 and so stay apart. */
typedef enum dl_purpose {
    DL_FOR_ORDER = 1,  /* a = epoch */
    DL_FOR_TRANSFORM,  /* a = epoch, b = sample */
    DL_FOR_DIGITS,     /* a = split, b = sample */
    DL_FOR_POINTS,     /* a = split, b = sample: generators of points */
    DL_FOR_PARAMETERS, /* centres of blobs, weights of a regression */
    DL_FOR_HOLDOUT,    /* which samples of a file make its test split */
    DL_FOR_MIXING      /* a = epoch, b = first sample of the batch in its epoch */
} dl_purpose;

typedef struct dl_draw {
    uint64_t seed, call, block;
    uint32_t word[4];
    int left;
} dl_draw;

/* a below 2^48, b below 2^44: each key has 2^22 numbers before it meets the next. */
DL_HD dl_draw dl_draw_begin(uint64_t seed, dl_purpose purpose, uint64_t a, uint64_t b) {
    dl_draw r = {seed, (uint64_t)purpose << 48 | a, b << 20, {0, 0, 0, 0}, 0};
    return r;
}

DL_HD uint32_t dl_draw_u32(dl_draw *r) {
    if (!r->left) {
        dl_philox p = dl_philox_block(r->seed, DL_STREAM_DATA, r->call, r->block++);
        for (int i = 0; i < 4; i++) r->word[i] = p.v[3 - i];
        r->left = 4;
    }
    return r->word[--r->left];
}

/* Uniform in [0, 1), of 32 bits. */
DL_HD double dl_draw_unit(dl_draw *r) { return dl_draw_u32(r) * (1.0 / 4294967296.0); }
/* Uniform in [lo, hi). */
DL_HD double dl_draw_in(dl_draw *r, double lo, double hi) { return lo + (hi - lo) * dl_draw_unit(r); }
/* Uniform in 0..n-1, n at most 2^32, without bias (Lemire, Fast random integer generation in an interval, 2019). */
DL_HD uint32_t dl_draw_below(dl_draw *r, uint32_t n) {
    uint64_t m = (uint64_t)dl_draw_u32(r) * n;
    if ((uint32_t)m < n)
        for (uint32_t least = -n % n; (uint32_t)m < least;) m = (uint64_t)dl_draw_u32(r) * n;
    return (uint32_t)(m >> 32);
}

/* Standard normal, to the precision of f32. */
DL_HD double dl_draw_normal(dl_draw *r) {
    uint32_t w0 = dl_draw_u32(r), w1 = dl_draw_u32(r);
    float z0, z1;
    dl_rng_normal(w0, w1, &z0, &z1);
    return z0;
}

/* Taylor's series on an eighth of a turn, where nine terms leave less than 1e-17. */
DL_HD void dl_fixed_eighth(double x, double *s, double *c) {
    double q = x * x, sum = 0, cosine = 0;
    for (int k = 17; k >= 1; k -= 2) sum = 1 - q * sum / ((k + 1) * (k + 2));
    for (int k = 16; k >= 0; k -= 2) cosine = 1 - q * cosine / ((k + 1) * (k + 2));
    *s = x * sum, *c = cosine;
}

/* Sine and cosine of an angle in whole turns, to about 1e-15. */
DL_HD void dl_fixed_sincos(double turns, double *s, double *c) {
    double t = turns - floor(turns), n = floor(t * 4 + 0.5), a, b;
    dl_fixed_eighth((t - n / 4) * 6.283185307179586477, &a, &b);
    int quadrant = (int)n & 3;
    *s = quadrant & 1 ? b : a, *c = quadrant & 1 ? a : b;
    if (quadrant == 2 || quadrant == 3) *s = -*s;
    if (quadrant == 1 || quadrant == 2) *c = -*c;
}

/* order[n] = a permutation of 0..n-1. */
void dl_draw_permutation(dl_draw *r, long n, long *order);
