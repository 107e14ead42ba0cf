/* Conversion of 16-bit floats from and to f32, over contiguous memory, and sums of their products. */
#include "cpu/runtime/half.h"
#include "core/dtype.h"

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

/* Elements of a line of the cache; and how far ahead memory is asked for: a block of half_block in iter.c, which reads
 * its operands in turn, too little of each for the processor to see where the next one is. */
enum { LINE = 32, AHEAD = 1024 };

void DL_SIMD_NAME(dl_f16_up)(long n, const unsigned short *src, float *dst) {
    long i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
#endif
    for (; i < n; i++) dst[i] = dl_f16_to_f32(src[i]);
}

void DL_SIMD_NAME(dl_f16_down)(long n, const float *src, unsigned short *dst) {
    long i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) dst[i] = dl_f32_to_f16(src[i]);
}

static inline float bf16_to_f32(unsigned short x) {
    const unsigned u = (unsigned)x << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

void DL_SIMD_NAME(dl_bf16_up)(long n, const unsigned short *src, float *dst) {
    long i = 0;
    for (; i + LINE <= n; i += LINE) {
        __builtin_prefetch(src + i + AHEAD);
        for (long k = i; k < i + LINE; k++) dst[k] = bf16_to_f32(src[k]);
    }
    for (; i < n; i++) dst[i] = bf16_to_f32(src[i]);
}

#if defined(__AVX2__) && !defined(__AVX512F__) /* compilers mask words again that shifts have made short */
#define SHIFTED_WORDS
static inline __m256i bf16_high(__m256 x) {
    const __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i num = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i nan = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256 of =
        _mm256_blendv_ps(_mm256_castsi256_ps(num), _mm256_castsi256_ps(nan), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_castps_si256(of), 16);
}
#endif

void DL_SIMD_NAME(dl_bf16_down)(long n, const float *src, unsigned short *dst) {
    long i = 0;
#ifdef SHIFTED_WORDS
    for (; i + 16 <= n; i += 16) {
        const __m256i a = bf16_high(_mm256_loadu_ps(src + i)), b = bf16_high(_mm256_loadu_ps(src + i + 8));
        _mm256_storeu_si256((__m256i *)(dst + i), _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8));
    }
#endif
    for (; i < n; i++) {
        unsigned u, num;
        memcpy(&u, &src[i], 4);
        num = u + 0x7fff + ((u >> 16) & 1);
        dst[i] = (unsigned short)((src[i] != src[i] ? u | 0x400000 : num) >> 16);
    }
}

long DL_SIMD_NAME(dl_bf16_odd)(long n, const unsigned short *x) {
    enum { SPAN = 1 << 14 };
    long odd = 0;
    for (long from = 0; from < n; from += SPAN) {
        unsigned short some = 0;
        const long to = n - from < SPAN ? n : from + SPAN;
        for (long i = from; i < to; i++) some = (unsigned short)(some + ((x[i] & 0x7f80) == 0x7f80));
        odd += some;
    }
    return odd;
}

/* ---- products: 32 numbers become two vectors, those of both operands in the same order */

typedef float lanes __attribute__((vector_size(64)));
typedef unsigned words __attribute__((vector_size(64)));
enum { LANES = 16, PAIR = 2 * LANES };

static inline void bf16_lanes(const unsigned short *x, lanes to[2]) {
    words w;
    memcpy(&w, x, sizeof w);
    const words low = w << 16, high = w & 0xffff0000u; /* every other one */
    memcpy(&to[0], &low, sizeof low), memcpy(&to[1], &high, sizeof high);
}

static inline void f16_lanes(const unsigned short *x, lanes to[2]) {
#ifdef __AVX512F__
    for (int k = 0; k < 2; k++) to[k] = (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + k * LANES)));
#else
    float wide[PAIR];
    DL_SIMD_NAME(dl_f16_up)(PAIR, x, wide);
    memcpy(to, wide, sizeof wide);
#endif
}

/* Four sums, so that an addition need not wait for the one before. */
#define DOT(t)                                                                                                         \
    float DL_SIMD_NAME(dl_##t##_dot)(long n, const unsigned short *x, const unsigned short *y) {                       \
        lanes sum[4] = {0}, a[2], b[2];                                                                                \
        float part[LANES];                                                                                             \
        long i = 0;                                                                                                    \
        for (; i + 2 * PAIR <= n; i += 2 * PAIR) {                                                                     \
            t##_lanes(x + i, a), t##_lanes(y + i, b);                                                                  \
            sum[0] += a[0] * b[0], sum[1] += a[1] * b[1];                                                              \
            t##_lanes(x + i + PAIR, a), t##_lanes(y + i + PAIR, b);                                                    \
            sum[2] += a[0] * b[0], sum[3] += a[1] * b[1];                                                              \
        }                                                                                                              \
        for (; i < n; i += PAIR) {                                                                                     \
            unsigned short rest[2][PAIR] = {0};                                                                        \
            const size_t bytes = (size_t)(n - i < PAIR ? n - i : PAIR) * sizeof **rest;                                \
            memcpy(rest[0], x + i, bytes), memcpy(rest[1], y + i, bytes);                                              \
            t##_lanes(rest[0], a), t##_lanes(rest[1], b);                                                              \
            sum[0] += a[0] * b[0], sum[1] += a[1] * b[1];                                                              \
        }                                                                                                              \
        sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);                                                                \
        memcpy(part, sum, sizeof part);                                                                                \
        for (int w = LANES / 2; w; w /= 2)                                                                             \
            for (int k = 0; k < w; k++) part[k] += part[k + w];                                                        \
        return part[0];                                                                                                \
    }
DOT(f16)
DOT(bf16)
