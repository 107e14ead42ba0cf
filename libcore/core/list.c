/* Growing lists, and sets of addresses. */
#include "core/list.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

dl_status dl_list_room(void *list, long n, long *cap, long size) {
    if (n < *cap) return DL_OK;
    long more = *cap ? 2 * *cap : 16;
    void *p;
    memcpy(&p, list, sizeof p);
    if (!(p = realloc(p, (size_t)(more * size)))) return dl_fail(DL_ERR_MEMORY, "no memory for a list of %ld", more);
    memcpy(list, &p, sizeof p);
    *cap = more;
    return DL_OK;
}

/* Where p is, or would be. */
static long *slot_of(const dl_addresses *a, const void *p) {
    uint64_t h = (uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15u >> 24;
    for (;; h++) {
        long *slot = &a->slots[h & (uint64_t)(a->size - 1)];
        if (!*slot || a->at[*slot - 1] == p) return slot;
    }
}

long dl_addresses_find(const dl_addresses *a, const void *p) { return a->size ? *slot_of(a, p) - 1 : -1; }

dl_status dl_addresses_room(dl_addresses *a) {
    DL_TRY(DL_LIST_ROOM(a->at, a->n, a->cap));
    if (a->size >= 2 * a->cap) return DL_OK;
    long *slots = calloc((size_t)(2 * a->cap), sizeof *slots);
    if (!slots) return dl_fail(DL_ERR_MEMORY, "no memory for a set of %ld addresses", a->cap);
    free(a->slots);
    a->slots = slots, a->size = 2 * a->cap;
    for (long i = 0; i < a->n; i++) *slot_of(a, a->at[i]) = i + 1;
    return DL_OK;
}

long dl_addresses_add(dl_addresses *a, const void *p) {
    if (dl_addresses_room(a) != DL_OK) return -1;
    long *slot = slot_of(a, p);
    if (!*slot) a->at[a->n] = p, *slot = ++a->n;
    return *slot - 1;
}

void dl_addresses_clear(dl_addresses *a) {
    if (a->slots) memset(a->slots, 0, (size_t)a->size * sizeof *a->slots);
    a->n = 0;
}

void dl_addresses_free(dl_addresses *a) {
    free(a->at);
    free(a->slots);
    *a = (dl_addresses){0};
}
