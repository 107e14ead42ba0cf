/* A hash for goldens and for comparing streams of bytes: FNV-1a, 64 bits. */
#ifndef TESTS_DATA_HASH_H
#define TESTS_DATA_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_START = 0x2325 };

static inline uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211ull;
    return h;
}

#endif
