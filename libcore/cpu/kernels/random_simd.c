/* Philox over many blocks side by side, and normal numbers. */
#include "cpu/kernels/random.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

/* Blocks in the lanes of vectors: one 32-bit word in each 64-bit lane, whose upper half is ignored, as the
 * multiplication of vector units does. Compilers do not find that instruction by themselves. */
#if defined(__AVX512F__)
enum { LANES = 8 };
#define MUL32(a, m) ((lanes)_mm512_mul_epu32((__m512i)(a), _mm512_set1_epi64(m)))
#elif defined(__AVX2__)
enum { LANES = 4 };
#define MUL32(a, m) ((lanes)_mm256_mul_epu32((__m256i)(a), _mm256_set1_epi64x(m)))
#elif defined(__SSE2__)
enum { LANES = 2 };
#define MUL32(a, m) ((lanes)_mm_mul_epu32((__m128i)(a), _mm_set1_epi64x(m)))
#else
enum { LANES = 2 };
#define MUL32(a, m) (((a)&0xffffffffu) * (uint64_t)(m))
#endif
typedef uint64_t lanes __attribute__((vector_size(LANES * 8)));

enum { SETS = 2, SIDE = SETS * LANES }; /* two sets hide the latency of the multiplication */

static void blocks(dl_rng_key k, uint64_t block, uint32_t *w) {
    lanes c[SETS][4], up;
    uint32_t k0 = (uint32_t)k.seed, k1 = (uint32_t)(k.seed >> 32);
    uint64_t hi = k.call ^ (uint64_t)k.stream << 56;
    for (int j = 0; j < LANES; j++) up[j] = (uint64_t)j;
    for (int s = 0; s < SETS; s++) {
        lanes b = up + (block + (uint64_t)(s * LANES)), zero = up - up;
        c[s][0] = b, c[s][1] = b >> 32, c[s][2] = zero + hi, c[s][3] = zero + (hi >> 32);
    }
    for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int s = 0; s < SETS; s++) {
            lanes p0 = MUL32(c[s][0], 0xD2511F53u), p1 = MUL32(c[s][2], 0xCD9E8D57u);
            c[s][0] = p1 >> 32 ^ c[s][1] ^ k0;
            c[s][2] = p0 >> 32 ^ c[s][3] ^ k1;
            c[s][1] = p1;
            c[s][3] = p0;
        }
    for (int s = 0; s < SETS; s++)
        for (int j = 0; j < LANES; j++)
            for (int i = 0; i < 4; i++) *w++ = (uint32_t)c[s][i][j];
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
