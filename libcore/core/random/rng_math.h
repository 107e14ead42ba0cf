/* From random words to numbers, with the same bits on every device: integer steps, exactly rounded operations and
 * explicit fma, no library functions but sqrt. Every sum of a product is an fma already, so that a compiler has nothing
 * left to contract. The words of a call are those of blocks 0, 1, 2, ... one after another; element i in logical order
 * takes word i, or words 2 i and 2 i + 1 where it needs 64 bits; a pair of normal numbers shares the words of its two
 * elements. Plain C and C++17, for kernels of every backend. */
#pragma once

#include <math.h>
#include <string.h>

#include "core/horner.h"
#include "core/random/rng.h"

#ifdef __CUDA_ARCH__
#define DL_RNG_FMA(a, b, c) __fmaf_rn(a, b, c)
#define DL_RNG_SQRT(x) __fsqrt_rn(x)
#else
#define DL_RNG_FMA(a, b, c) fmaf(a, b, c)
#define DL_RNG_SQRT(x) sqrtf(x)
#endif

/* Which numbers of which generator. */
typedef struct dl_rng_key {
    uint64_t seed, call;
    uint32_t stream;
} dl_rng_key;

/* Word i of a call. */
DL_HD uint32_t dl_rng_word(dl_rng_key k, uint64_t i) {
    return dl_philox_block(k.seed, k.stream, k.call, i >> 2).v[i & 3];
}

/* [0, 1) in steps of 2**-bits, bits <= 24: so many as the significand of the dtype has, lest 1 come out by rounding.
 * 24 for f32, 11 for f16, 8 for bf16. */
DL_HD float dl_rng_uniform(uint32_t w, int bits) { return (float)(w >> (32 - bits)) * (1.0f / (float)(1 << bits)); }

/* [0, 1) in steps of 2**-53. */
DL_HD double dl_rng_uniform53(uint32_t w0, uint32_t w1) {
    return (double)(((uint64_t)w1 << 32 | w0) >> 11) * (1.0 / 9007199254740992.0);
}

/* ln(u) for normal u in (0, 1]. */
DL_HD float dl_rng_log(float u) {
    int32_t i;
    memcpy(&i, &u, 4);
    i -= 0x3f3504f3;
    float e = (float)(i >> 23), m;
    i = (i & 0x7fffff) + 0x3f3504f3;
    memcpy(&m, &i, 4);
    float f = m - 1.0f, z = f * f;
    float p = DL_HORNER(DL_RNG_FMA, f, 0.0674660131f, -0.116756409f, 0.118881747f, -0.124055915f, 0.142195508f,
                        -0.166679963f, 0.200021192f, -0.250000089f, 0.333333135f);
    float r = DL_RNG_FMA(p, f * z, DL_RNG_FMA(-0.5f, z, f));
    return DL_RNG_FMA(e, 0.693147182f, DL_RNG_FMA(e, -1.90465421e-9f, r));
}

/* Two independent standard normal numbers (Box and Muller 1958), at most 6.8 away from 0. */
DL_HD void dl_rng_normal(uint32_t w0, uint32_t w1, float *z0, float *z1) {
    float u = ((float)w0 + 0.5f) * (1.0f / 4294967296.0f);
    float r = DL_RNG_SQRT(-2.0f * dl_rng_log(u));
    uint32_t q = (w1 + 0x20000000u) >> 30; /* the nearest quarter turn; t turns are left, |t| <= 1/8 */
    float t = (float)(int32_t)(w1 - (q << 30)) * (1.0f / 4294967296.0f), z = t * t;
    float s = DL_HORNER(DL_RNG_FMA, z, 41.47295f, -76.6978683f, 81.6052017f, -41.3417015f, 6.28318548f);
    float c = DL_HORNER(DL_RNG_FMA, z, -26.0581322f, 60.2381859f, -85.4567642f, 64.9393921f, -19.7392082f, 1.0f);
    s = s * t;
    float a = q & 1 ? s : c, b = q & 1 ? c : s;
    *z0 = r * ((q + 1) & 2 ? -a : a);
    *z1 = r * (q & 2 ? -b : b);
}

/* The high and low half of a product. */
DL_HD uint64_t dl_rng_mul(uint64_t a, uint64_t b, uint64_t *low) {
#ifdef __CUDA_ARCH__
    *low = a * b;
    return __umul64hi(a, b);
#else
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t mid = a1 * b0 + (a0 * b0 >> 32), mid2 = a0 * b1 + (uint32_t)mid;
    *low = a * b;
    return a1 * b1 + (mid >> 32) + (mid2 >> 32);
#endif
}

/* Uniform in 0 .. range - 1 without bias (Lemire 2019): `w` are the 64 bits of element i; in the rare case that they
 * must be drawn again, blocks far behind those of all elements are used. */
DL_HD uint64_t dl_rng_below(dl_rng_key k, uint64_t i, uint64_t w, uint64_t range) {
    uint64_t low, high = dl_rng_mul(w, range, &low);
    if (low >= range) return high;
    uint64_t bound = (0 - range) % range;
    for (uint64_t retry = 1; low < bound && retry < 256; retry++) {
        dl_philox b = dl_philox_block(k.seed, k.stream, k.call, i | retry << 56);
        high = dl_rng_mul((uint64_t)b.v[1] << 32 | b.v[0], range, &low);
    }
    return high;
}

/* P(word < threshold) = p, to 32 bits. */
DL_HD uint64_t dl_rng_threshold(double p) { return (uint64_t)(p * 4294967296.0); }
