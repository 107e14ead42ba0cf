/* Conversion of 16-bit floats from and to f32, over contiguous memory, and sums of their products. */
#include "cpu/runtime/half.h"
#include "cpu/kernels/groups.h"

#include <stdbool.h>
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
    for (; i + 8 <= n; i += 8) {
        if (i % LINE == 0) __builtin_prefetch(src + i + AHEAD);
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
    }
#endif
    for (; i < n; i++) dst[i] = dl_f16_to_f32(src[i]);
}

void DL_SIMD_NAME(dl_f16_down)(long n, const float *src, unsigned short *dst) { dl_write_f16(n, src, dst); }

void DL_SIMD_NAME(dl_bf16_up)(long n, const unsigned short *src, float *dst) {
    long i = 0;
    for (; i + LINE <= n; i += LINE) {
        __builtin_prefetch(src + i + AHEAD);
        for (long k = i; k < i + LINE; k++) dst[k] = dl_read_one_bf16(src[k]);
    }
    for (; i < n; i++) dst[i] = dl_read_one_bf16(src[i]);
}

void DL_SIMD_NAME(dl_bf16_down)(long n, const float *src, unsigned short *dst) { dl_write_bf16(n, src, dst); }

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

/* The bits as a signed number that is the larger the larger the number is, and back. */
static inline short in_order(unsigned short x) { return (short)(x ^ ((unsigned)((short)x >> 15) & 0x7fff)); }

void DL_SIMD_NAME(dl_half_extremes)(long n, const unsigned short *x, unsigned short infinity, unsigned short to[2]) {
    enum { SIDE = 64 };
    short least[SIDE], most[SIDE];
    long i = 0;
    for (long k = 0; k < SIDE; k++) least[k] = most[k] = in_order(x[0]);
    for (; i + SIDE <= n; i += SIDE)
        for (long k = 0; k < SIDE; k++) {
            const short v = in_order(x[i + k]);
            least[k] = v < least[k] ? v : least[k], most[k] = v > most[k] ? v : most[k];
        }
    for (long k = 0; i < n; i++, k++) {
        const short v = in_order(x[i]);
        least[k] = v < least[k] ? v : least[k], most[k] = v > most[k] ? v : most[k];
    }
    for (long k = 1; k < SIDE; k++) {
        least[0] = least[k] < least[0] ? least[k] : least[0];
        most[0] = most[k] > most[0] ? most[k] : most[0];
    }
    const bool nan = most[0] > (short)infinity || least[0] < -1 - (short)infinity;
    to[0] = nan ? 0x7fff : (unsigned short)in_order((unsigned short)least[0]);
    to[1] = nan ? 0x7fff : (unsigned short)in_order((unsigned short)most[0]);
}

/* ---- products: 32 numbers become two vectors of 64 bytes in parts, those of both operands in the same order */

typedef unsigned words __attribute__((vector_size(DL_PART)));
enum { LANES = DL_LANES_f32, PAIR = 2 * LANES };
typedef dl_pf lanes[DL_PARTS];

static inline void bf16_lanes(const unsigned short *x, lanes to[2]) {
    for (int k = 0; k < DL_PARTS; k++) {
        words w;
        memcpy(&w, x + k * (PAIR / DL_PARTS), sizeof w);
        to[0][k] = (dl_pf)(w << 16), to[1][k] = (dl_pf)(w & 0xffff0000u); /* every other one */
    }
}

static inline void f16_lanes(const unsigned short *x, lanes to[2]) {
#ifdef __F16C__
    for (int k = 0; k < 2 * DL_PARTS; k++) {
#ifdef __AVX512F__
        to[k / DL_PARTS][k % DL_PARTS] = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + k * LANES)));
#else
        to[k / DL_PARTS][k % DL_PARTS] =
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + k * (LANES / DL_PARTS))));
#endif
    }
#else
    float wide[PAIR];
    DL_SIMD_NAME(dl_f16_up)(PAIR, x, wide);
    memcpy(to, wide, sizeof wide);
#endif
}

/* Four sums, so that an addition need not wait for the one before. */
#define ADD(t, h, x, y)                                                                                                \
    do {                                                                                                               \
        t##_lanes(x, a), t##_lanes(y, b);                                                                              \
        for (int k = 0; k < DL_PARTS; k++) sum[h][k] += a[0][k] * b[0][k], sum[h + 1][k] += a[1][k] * b[1][k];         \
    } while (0)
#define DOT(t)                                                                                                         \
    float DL_SIMD_NAME(dl_##t##_dot)(long n, const unsigned short *x, const unsigned short *y) {                       \
        lanes sum[4] = {0}, a[2], b[2];                                                                                \
        long i = 0;                                                                                                    \
        for (; i + 2 * PAIR <= n; i += 2 * PAIR) {                                                                     \
            ADD(t, 0, x + i, y + i);                                                                                   \
            ADD(t, 2, x + i + PAIR, y + i + PAIR);                                                                     \
        }                                                                                                              \
        for (; i < n; i += PAIR) {                                                                                     \
            unsigned short rest[2][PAIR] = {0};                                                                        \
            const size_t bytes = (size_t)(n - i < PAIR ? n - i : PAIR) * sizeof **rest;                                \
            memcpy(rest[0], x + i, bytes), memcpy(rest[1], y + i, bytes);                                              \
            ADD(t, 0, rest[0], rest[1]);                                                                               \
        }                                                                                                              \
        for (int k = 0; k < DL_PARTS; k++) sum[0][k] = (sum[0][k] + sum[1][k]) + (sum[2][k] + sum[3][k]);              \
        return dl_psum_f32(sum[0]);                                                                                    \
    }
DOT(f16)
DOT(bf16)

/* ---- sums of rows times numbers, some columns at a time, which stay in registers */

#define WEIGHTED(t)                                                                                                    \
    void DL_SIMD_NAME(dl_##t##_weighted)(long rows, long columns, const unsigned short *x, long stride,                \
                                         const float *w, float *sum) {                                                 \
        enum { WIDE = 4 * DL_PARTS, SOME = WIDE * DL_PART / 4 };                                                       \
        for (; columns >= SOME; columns -= SOME, x += SOME, sum += SOME) {                                             \
            dl_pf all[WIDE] = {0};                                                                                     \
            for (long r = 0; r < rows; r++)                                                                            \
                for (long k = 0; k < WIDE; k++) all[k] += dl_pload_##t(x + r * stride, k) * w[r];                      \
            memcpy(sum, all, sizeof all);                                                                              \
        }                                                                                                              \
        for (long c = 0; c < columns; c++) {                                                                           \
            sum[c] = 0;                                                                                                \
            for (long r = 0; r < rows; r++) sum[c] += dl_read_one_##t(x[r * stride + c]) * w[r];                       \
        }                                                                                                              \
    }
WEIGHTED(f16)
WEIGHTED(bf16)
