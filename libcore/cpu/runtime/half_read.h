/* Numbers of 16 bits as f32, in the order of memory, for loops of *_simd.c files that read them without a way through
 * memory; f16 by instructions that compilers do not find. */
#pragma once

#include "core/dtype.h"

#include <string.h>
#ifdef __AVX2__ /* and so F16C: the levels have both */
#include <immintrin.h>
#endif

typedef unsigned short bf16;
typedef unsigned short f16;

static inline float dl_read_one_bf16(bf16 x) {
    const unsigned u = (unsigned)x << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float dl_read_one_f16(f16 x) {
#ifdef __AVX2__
    return _cvtsh_ss(x);
#else
    return dl_f16_to_f32(x);
#endif
}

/* Groups of numbers that an instruction converts. */
#if defined(__AVX512F__)
enum { DL_READ = 16 };
static inline void dl_read_group_bf16(const bf16 *x, float *to) {
    _mm512_storeu_si512(to, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x)), 16));
}
static inline void dl_read_group_f16(const f16 *x, float *to) {
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x)));
}
#elif defined(__AVX2__)
enum { DL_READ = 8 };
static inline void dl_read_group_bf16(const bf16 *x, float *to) {
    const __m256i words = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x)), 16);
    _mm256_storeu_ps(to, _mm256_castsi256_ps(words));
}
static inline void dl_read_group_f16(const f16 *x, float *to) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x)));
}
#else
enum { DL_READ = 1 };
static inline void dl_read_group_bf16(const bf16 *x, float *to) { *to = dl_read_one_bf16(*x); }
static inline void dl_read_group_f16(const f16 *x, float *to) { *to = dl_read_one_f16(*x); }
#endif

/* n: known where these are inlined, for what is fast. */
#define DL_READER(t)                                                                                                   \
    static inline __attribute__((always_inline)) void dl_read_##t(long n, const t *x, float *to) {                     \
        const long full = n & -DL_READ;                                                                                \
        for (long i = 0; i < full; i += DL_READ) dl_read_group_##t(x + i, to + i);                                     \
        for (long i = full; i < n; i++) to[i] = dl_read_one_##t(x[i]);                                                 \
    }
DL_READER(bf16)
DL_READER(f16)
