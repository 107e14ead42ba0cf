/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011), a counter-based
 * generator: any element of any call is computed on its own, so results do not depend on threads, grids or devices.
 * Plain C and C++17, so that CUDA kernels share it (DL_HD marks functions for both sides there). */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define DL_HD __host__ __device__ static inline
#else
#define DL_HD static inline
#endif

typedef struct dl_philox {
    uint32_t v[4];
} dl_philox;

/* The four words at counter (call, block) under key (seed, stream). Words of the key beyond the seed's 64 bits: the
 * stream is folded into the counter's highest byte, so the seed keeps all its bits. Element i of a call that takes one
 * word an element is word i % 4 of block i / 4. */
DL_HD dl_philox dl_philox_block(uint64_t seed, uint32_t stream, uint64_t call, uint64_t block) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint64_t hi = call ^ (uint64_t)stream << 56;
    dl_philox c = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)hi, (uint32_t)(hi >> 32)}};
    for (int r = 0; r < 10; r++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c.v[0], p1 = (uint64_t)0xCD9E8D57u * c.v[2];
        dl_philox n = {
            {(uint32_t)(p1 >> 32) ^ c.v[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c.v[3] ^ k1, (uint32_t)p0}};
        c = n;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return c;
}

/* The numbers of the next calls of all streams. */
enum { DL_RNG_STREAMS = 4 };
typedef struct dl_rng_at {
    uint64_t call[DL_RNG_STREAMS];
} dl_rng_at;

DL_HD void dl_rng_add(dl_rng_at *at, const dl_rng_at *calls) {
    for (int s = 0; s < DL_RNG_STREAMS; s++) at->call[s] += calls->call[s];
}

#ifndef __CUDACC__
#include "dlcore.h"
dl_rng_at dl_rng_here(void);
void dl_rng_go(const dl_rng_at *at);
/* How many calls were made since. */
dl_rng_at dl_rng_since(const dl_rng_at *at);
/* Takes the next call number of a stream. */
uint64_t dl_rng_next(dl_stream s);
/* The stream that this thread's random rows draw from (dropout has its own); returns the former one. */
dl_stream dl_rng_use(dl_stream s);
dl_stream dl_rng_used(void);
/* Where the initialisation of the next net defined under this seed starts: nets are far enough apart in the stream not
 * to meet, so that the weights of one do not depend on when others are made. */
uint64_t dl_rng_next_net(void);
/* How often the seed was set by dl_seed; *at: the statement of this thread that did so last. */
unsigned long dl_rng_seedings(dl_source *at);
/* Exchanges the seed alone; positions stay. Returns the former one. */
uint64_t dl_rng_swap_seed(uint64_t seed);
#endif
