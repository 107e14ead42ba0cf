/* Philox over many blocks side by side, and normal numbers. */
#include "cpu/random.h"

enum { SIDE = 16 };

/* a * m of each 32-bit lane: the high and the low half. */
#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__AVX512F__)
typedef __m512i vec;
#define OP(name) _mm512_##name
#define BITS(name) _mm512_##name##_si512
#elif defined(__AVX2__)
typedef __m256i vec;
#define OP(name) _mm256_##name
#define BITS(name) _mm256_##name##_si256
#else
typedef __m128i vec;
#define OP(name) _mm_##name
#define BITS(name) _mm_##name##_si128
#endif
enum { PARTS = SIDE * 4 / sizeof(vec) };

static inline void multiply(vec a, uint32_t m, vec *hi, vec *lo) {
    vec by = OP(set1_epi32)((int)m), low = OP(srli_epi64)(OP(set1_epi32)(-1), 32);
    vec even = OP(mul_epu32)(a, by), odd = OP(mul_epu32)(OP(srli_epi64)(a, 32), by);
    *hi = BITS(or)(OP(srli_epi64)(even, 32), BITS(andnot)(low, odd));
    *lo = BITS(or)(BITS(and)(even, low), OP(slli_epi64)(odd, 32));
}

static void rounds(uint32_t c[4][SIDE], uint32_t k0, uint32_t k1) {
    for (int p = 0; p < PARTS; p++) {
        vec *at[4], v[4], h0, l0, h1, l1;
        uint32_t a = k0, b = k1;
        for (int i = 0; i < 4; i++) {
            at[i] = (vec *)c[i] + p;
            memcpy(&v[i], at[i], sizeof *v);
        }
        for (int r = 0; r < 10; r++, a += 0x9E3779B9u, b += 0xBB67AE85u) {
            multiply(v[0], 0xD2511F53u, &h0, &l0);
            multiply(v[2], 0xCD9E8D57u, &h1, &l1);
            v[0] = BITS(xor)(BITS(xor)(h1, v[1]), OP(set1_epi32)((int)a));
            v[2] = BITS(xor)(BITS(xor)(h0, v[3]), OP(set1_epi32)((int)b));
            v[1] = l1;
            v[3] = l0;
        }
        for (int i = 0; i < 4; i++) memcpy(at[i], &v[i], sizeof *v);
    }
}
#undef OP
#undef BITS
#else
static void rounds(uint32_t c[4][SIDE], uint32_t k0, uint32_t k1) {
    for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int j = 0; j < SIDE; j++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c[0][j], p1 = (uint64_t)0xCD9E8D57u * c[2][j];
            c[0][j] = (uint32_t)(p1 >> 32) ^ c[1][j] ^ k0;
            c[2][j] = (uint32_t)(p0 >> 32) ^ c[3][j] ^ k1;
            c[1][j] = (uint32_t)p1;
            c[3][j] = (uint32_t)p0;
        }
}
#endif

static void blocks(dl_rng_key k, uint64_t block, uint32_t *w) {
    uint32_t c[4][SIDE];
    uint64_t hi = k.call ^ (uint64_t)k.stream << 56;
    for (int j = 0; j < SIDE; j++) {
        uint64_t b = block + (uint64_t)j;
        c[0][j] = (uint32_t)b, c[1][j] = (uint32_t)(b >> 32), c[2][j] = (uint32_t)hi, c[3][j] = (uint32_t)(hi >> 32);
    }
    rounds(c, (uint32_t)k.seed, (uint32_t)(k.seed >> 32));
    for (int j = 0; j < SIDE; j++)
        for (int i = 0; i < 4; i++) w[4 * j + i] = c[i][j];
}

void DL_SIMD_NAME(dl_random_words)(dl_rng_key k, uint64_t first, long n, uint32_t *w) {
    long i = 0;
    for (; i + 4 * SIDE <= n; i += 4 * SIDE) blocks(k, (first + (uint64_t)i) / 4, w + i);
    for (; i < n; i += 4) {
        dl_philox b = dl_philox_block(k.seed, k.stream, k.call, (first + (uint64_t)i) / 4);
        memcpy(w + i, b.v, (size_t)(n - i < 4 ? n - i : 4) * sizeof *w);
    }
}

void DL_SIMD_NAME(dl_random_normals)(long n, const uint32_t *w, float *z) {
    for (long i = 0; i < n; i += 2) dl_rng_normal(w[i], w[i + 1], &z[i], &z[i + 1]);
}
