/* One number out of several: keys of caches, which compare nothing else. */
#pragma once

#include <stdint.h>

static inline uint64_t dl_mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}
