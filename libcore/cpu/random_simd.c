/* Philox over many blocks side by side, and normal numbers. */
#include "cpu/random.h"

enum { SIDE = 16 };

static void blocks(dl_rng_key k, uint64_t block, uint32_t *w) {
    uint32_t c0[SIDE], c1[SIDE], c2[SIDE], c3[SIDE], k0 = (uint32_t)k.seed, k1 = (uint32_t)(k.seed >> 32);
    uint64_t hi = k.call ^ (uint64_t)k.stream << 56;
    for (int j = 0; j < SIDE; j++) {
        uint64_t b = block + (uint64_t)j;
        c0[j] = (uint32_t)b, c1[j] = (uint32_t)(b >> 32), c2[j] = (uint32_t)hi, c3[j] = (uint32_t)(hi >> 32);
    }
    for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int j = 0; j < SIDE; j++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[j], p1 = (uint64_t)0xCD9E8D57u * c2[j];
            c0[j] = (uint32_t)(p1 >> 32) ^ c1[j] ^ k0;
            c2[j] = (uint32_t)(p0 >> 32) ^ c3[j] ^ k1;
            c1[j] = (uint32_t)p1;
            c3[j] = (uint32_t)p0;
        }
    for (int j = 0; j < SIDE; j++) w[4 * j] = c0[j], w[4 * j + 1] = c1[j], w[4 * j + 2] = c2[j], w[4 * j + 3] = c3[j];
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
