/* Which random numbers a call takes. Within a graph the number of the call counts from where the trainer stands when
 * the graph runs. */
#pragma once

#include "core/random/rng_math.h"
#include "cuda/runtime/internal.h"

struct dl_gpu_key {
    dl_rng_key key;
    const uint64_t *base; /* added to the number of the call; NULL: nothing */
    __device__ dl_rng_key numbered() const {
        dl_rng_key k = key;
        if (base) k.call += *base;
        return k;
    }
};

static inline dl_gpu_key dl_gpu_key_of(const dl_gpu *g, const dl_call *c) {
    bool graph = g->capturing && g->control;
    dl_rng_key key = {dl_seed_get(), graph ? c->rng - g->rng.call[c->stream] : c->rng, (uint32_t)c->stream};
    return {key, graph ? &g->control->rng.call[c->stream] : NULL};
}
