/* Sets of byte strings: a list, and a hash table of numbers over it. */
#include "data/keys.h"

#include <stdlib.h>
#include <string.h>

#include "core/list.h"

enum { MOST = 0x7fffffff };

/* FNV-1a, whose low bits are mixed once more. */
static uint64_t hash_of(const void *s, size_t n) {
    const uint8_t *p = s;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

static uint32_t *slot_of(const dl_keys *k, const void *s, size_t n) {
    uint64_t mask = (uint64_t)k->size - 1, i = hash_of(s, n) & mask;
    while (k->slots[i]) {
        const dl_key *key = &k->at[k->slots[i] - 1];
        if (key->n == n && !memcmp(key->s, s, n)) break;
        i = (i + 1) & mask;
    }
    return &k->slots[i];
}

long dl_keys_find(const dl_keys *k, const void *s, size_t n) { return k->size ? (long)*slot_of(k, s, n) - 1 : -1; }

static dl_status more_slots(dl_keys *k) {
    long size = k->size ? 2 * k->size : 64;
    uint32_t *slots = calloc((size_t)size, sizeof *slots), *old = k->slots;
    if (!slots) return dl_fail(DL_ERR_MEMORY, "no memory for %ld words", k->n);
    k->slots = slots, k->size = size;
    for (long i = 0; i < k->n; i++) *slot_of(k, k->at[i].s, k->at[i].n) = (uint32_t)i + 1;
    free(old);
    return DL_OK;
}

long dl_keys_add(dl_keys *k, const void *s, size_t n) {
    if (n >= MOST || k->n >= MOST) return dl_fail(DL_ERR_VALUE, "a word is too long, or there are too many"), -1;
    if (2 * (k->n + 1) > k->size && more_slots(k) != DL_OK) return -1;
    uint32_t *slot = slot_of(k, s, n);
    if (*slot) return (long)*slot - 1;
    if (DL_LIST_ROOM(k->at, k->n, k->cap) != DL_OK) return -1;
    char *copy = malloc(n + 1);
    if (!copy) return dl_fail(DL_ERR_MEMORY, "no memory for a word of %zu bytes", n), -1;
    if (n) memcpy(copy, s, n);
    copy[n] = 0;
    k->at[k->n] = (dl_key){copy, (uint32_t)n};
    *slot = (uint32_t)++k->n;
    return k->n - 1;
}

void dl_keys_free(dl_keys *k) {
    for (long i = 0; i < k->n; i++) free((char *)k->at[i].s);
    free(k->at);
    free(k->slots);
    *k = (dl_keys){0};
}
