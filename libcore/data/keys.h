/* Byte strings, numbered from 0 in the order in which they were added. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

typedef struct dl_key {
    const char *s; /* owned by the set; followed by a NUL */
    uint32_t n;
} dl_key;

/* {0}: empty. */
typedef struct dl_keys {
    dl_key *at;
    long n, cap;
    uint32_t *slots; /* open addressing: number + 1; 0: free */
    long size;       /* a power of two, at least twice n */
} dl_keys;

/* The number of s[n]; -1: it is not there. */
long dl_keys_find(const dl_keys *k, const void *s, size_t n);
/* The same; what is missing is added. -1: DL_ERR_MEMORY, or DL_ERR_VALUE beyond 2^31 strings or bytes. */
long dl_keys_add(dl_keys *k, const void *s, size_t n);
void dl_keys_free(dl_keys *k);
