/* Numbers of f32 rounded to 16 bits, in the order of memory, for loops of *_simd.c files: of two the even one, a NaN
 * stays one. */
#pragma once

#include "cpu/runtime/half_read.h"

static inline void dl_write_one_bf16(float x, bf16 *to) {
    unsigned u, num;
    memcpy(&u, &x, sizeof u);
    num = u + 0x7fff + ((u >> 16) & 1);
    *to = (bf16)((x != x ? u | 0x400000 : num) >> 16);
}

static inline void dl_write_one_f16(float x, f16 *to) {
#ifdef __AVX2__
    *to = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
#else
    *to = dl_f32_to_f16(x);
#endif
}

/* Groups that instructions convert; of bf16 where compilers mask words again that shifts have made short. */
#if defined(__AVX2__) && !defined(__AVX512F__)
static inline __m256i dl_bf16_high(__m256 x) {
    const __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i num = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i nan = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256 of =
        _mm256_blendv_ps(_mm256_castsi256_ps(num), _mm256_castsi256_ps(nan), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_castps_si256(of), 16);
}
static inline __attribute__((always_inline)) void dl_write_bf16(long n, const float *x, bf16 *to) {
    long i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256i a = dl_bf16_high(_mm256_loadu_ps(x + i)), b = dl_bf16_high(_mm256_loadu_ps(x + i + 8));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8));
    }
    for (; i + 8 <= n; i += 8) { /* a part of a vector */
        const __m256i a = dl_bf16_high(_mm256_loadu_ps(x + i));
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)));
    }
    for (; i < n; i++) dl_write_one_bf16(x[i], to + i);
}
#else
static inline __attribute__((always_inline)) void dl_write_bf16(long n, const float *x, bf16 *to) {
    for (long i = 0; i < n; i++) dl_write_one_bf16(x[i], to + i);
}
#endif

#if defined(__AVX512F__)
enum { DL_WRITE_f16 = 16 };
static inline void dl_write_group_f16(const float *x, f16 *to) {
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph(_mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__AVX2__)
enum { DL_WRITE_f16 = 8 };
static inline void dl_write_group_f16(const float *x, f16 *to) {
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT));
}
#else
enum { DL_WRITE_f16 = 1 };
static inline void dl_write_group_f16(const float *x, f16 *to) { dl_write_one_f16(*x, to); }
#endif

static inline __attribute__((always_inline)) void dl_write_f16(long n, const float *x, f16 *to) {
    const long full = n & -DL_WRITE_f16;
    for (long i = 0; i < full; i += DL_WRITE_f16) dl_write_group_f16(x + i, to + i);
    for (long i = full; i < n; i++) dl_write_one_f16(x[i], to + i);
}
