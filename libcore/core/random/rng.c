/* The seed and the position of each stream. One state for the process: runs are reproducible when ops are issued in one
 * order, whichever thread issues them. */
#include "core/random/rng.h"

#include "core/error.h"

static uint64_t seed_value;
static uint64_t position[DL_NSTREAM];

static uint64_t nets; /* defined since the seed was set */

static unsigned long seedings;
static _Thread_local dl_source seeded_at;

unsigned long dl_rng_seedings(dl_source *at) {
    *at = seeded_at;
    return __atomic_load_n(&seedings, __ATOMIC_RELAXED);
}

static void go_to(uint64_t seed) {
    __atomic_store_n(&seed_value, seed, __ATOMIC_RELAXED);
    __atomic_store_n(&nets, 0, __ATOMIC_RELAXED);
    for (int s = 0; s < DL_NSTREAM; s++) __atomic_store_n(&position[s], 0, __ATOMIC_RELAXED);
}

void dl_seed(unsigned long seed) {
    seeded_at = dl_source_get();
    __atomic_fetch_add(&seedings, 1, __ATOMIC_RELAXED);
    go_to(seed);
}

unsigned long dl_seed_get(void) { return __atomic_load_n(&seed_value, __ATOMIC_RELAXED); }

uint64_t dl_rng_next_net(void) { return __atomic_fetch_add(&nets, 1, __ATOMIC_RELAXED) << 32; }

uint64_t dl_rng_swap_seed(uint64_t seed) { return __atomic_exchange_n(&seed_value, seed, __ATOMIC_RELAXED); }

uint64_t dl_rng_next(dl_stream s) { return __atomic_fetch_add(&position[s], 1, __ATOMIC_RELAXED); }

unsigned long dl_rng_position(dl_stream s) { return __atomic_load_n(&position[s], __ATOMIC_RELAXED); }

void dl_rng_seek(dl_stream s, unsigned long p) { __atomic_store_n(&position[s], p, __ATOMIC_RELAXED); }

_Static_assert((int)DL_RNG_STREAMS == (int)DL_NSTREAM, "the positions of all streams");

dl_rng_at dl_rng_here(void) {
    dl_rng_at at;
    for (int s = 0; s < DL_NSTREAM; s++) at.call[s] = dl_rng_position((dl_stream)s);
    return at;
}

void dl_rng_go(const dl_rng_at *at) {
    for (int s = 0; s < DL_NSTREAM; s++) dl_rng_seek((dl_stream)s, at->call[s]);
}

dl_rng_at dl_rng_since(const dl_rng_at *at) {
    dl_rng_at here = dl_rng_here();
    for (int s = 0; s < DL_NSTREAM; s++) here.call[s] -= at->call[s];
    return here;
}

void dl_rng_save(unsigned long state[DL_RNG_STATE]) {
    state[0] = dl_seed_get();
    state[1] = __atomic_load_n(&nets, __ATOMIC_RELAXED);
    for (int s = 0; s < DL_NSTREAM; s++) state[2 + s] = dl_rng_position((dl_stream)s);
}

void dl_rng_restore(const unsigned long state[DL_RNG_STATE]) {
    go_to(state[0]);
    __atomic_store_n(&nets, state[1], __ATOMIC_RELAXED);
    for (int s = 0; s < DL_NSTREAM; s++) dl_rng_seek((dl_stream)s, state[2 + s]);
}

static _Thread_local dl_stream used = DL_STREAM_DEFAULT;

dl_stream dl_rng_use(dl_stream s) {
    dl_stream former = used;
    used = s;
    return former;
}

dl_stream dl_rng_used(void) { return used; }
