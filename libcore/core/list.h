/* Growing lists. */
#pragma once

#include "core/error.h"

/* Makes room for entry n of the list at *list, which has room for *cap entries of `size` bytes. Works
 * without the gate of core/memory/, so that it can be used where memory is reclaimed. DL_ERR_MEMORY: the list is as
 * before. */
dl_status dl_list_room(void *list, long n, long *cap, long size);
#define DL_LIST_ROOM(list, n, cap) dl_list_room(&(list), n, &(cap), (long)sizeof *(list))

/* A set of addresses, numbered from 0 in the order in which they were added. {0}: empty. */
typedef struct dl_addresses {
    const void **at;
    long n, cap;
    long *slots, size; /* open addressing: number + 1; 0: free. size: a power of two, at least twice n */
} dl_addresses;

/* The number of an address; -1: it is not in the set. */
long dl_addresses_find(const dl_addresses *a, const void *p);
/* Makes room for one more. DL_ERR_MEMORY. */
dl_status dl_addresses_room(dl_addresses *a);
/* The number of an address, which is added where it is missing. -1: DL_ERR_MEMORY. */
long dl_addresses_add(dl_addresses *a, const void *p);
/* Empties the set; adding as many again cannot fail. */
void dl_addresses_clear(dl_addresses *a);
void dl_addresses_free(dl_addresses *a);
