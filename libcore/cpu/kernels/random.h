/* Runs of random words and normal numbers, for the CPU kernels that draw. */
#pragma once

#include "core/op.h"
#include "core/random/rng_math.h"
#include "cpu/runtime/simd.h"

/* w[i] = word first + i of the call, for i < n; first must be divisible by 4. */
DL_SIMD_DECL(void, dl_random_words, (dl_rng_key k, uint64_t first, long n, uint32_t *w));
/* The n (even) normal numbers of n words. */
DL_SIMD_DECL(void, dl_random_normals, (long n, const uint32_t *w, float *z));

/* The key of a call of a row with DL_F_RNG. */
dl_rng_key dl_rng_key_of(const dl_call *c);
