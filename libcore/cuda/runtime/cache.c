/* The caching allocator. The driver gives segments: of 2 MiB for blocks up to 1 MiB, of 20 MiB for blocks up to 10 MiB,
 * else of the size asked for, in steps of 2 MiB. Segments are split into blocks, whose neighbours are joined again when
 * they are free. Free blocks wait in bins by the power of two below their size. */
#include "cuda/runtime/cache.h"
#include "cuda/runtime/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 512, NBINS = 64, NBUCKETS = 4096, SHOWN = 5 };

static const size_t MIB = (size_t)1 << 20;

typedef struct block {
    char *p;
    size_t size, asked;
    const void *stream;
    bool live, small;
    struct block *prev, *next;         /* neighbours in the segment */
    struct block *bin_prev, *bin_next; /* of a free block */
    struct block *chain;               /* of a live block: next in its bucket */
    dl_source src;                     /* the statement that asked for it */
} block;

struct dl_cache {
    dl_cache_driver driver;
    block *bin[2][NBINS]; /* [small] */
    block *bucket[NBUCKETS];
    size_t used, peak, held;
    const void **pools;
    int npools;
};

dl_cache *dl_cache_new(const dl_cache_driver *driver) {
    dl_cache *c = calloc(1, sizeof *c);
    if (c) c->driver = *driver;
    return c;
}

static int bin_of(size_t size) { return 63 - __builtin_clzl(size); }

static block **bucket_of(dl_cache *c, const void *p) {
    return &c->bucket[((size_t)p / ALIGN * 0x9E3779B97F4A7C15u) >> 52 & (NBUCKETS - 1)];
}

static void bin_add(dl_cache *c, block *b) {
    block **head = &c->bin[b->small][bin_of(b->size)];
    b->live = false;
    b->bin_prev = NULL;
    b->bin_next = *head;
    if (*head) (*head)->bin_prev = b;
    *head = b;
}

static void bin_remove(dl_cache *c, block *b) {
    if (b->bin_next) b->bin_next->bin_prev = b->bin_prev;
    if (b->bin_prev)
        b->bin_prev->bin_next = b->bin_next;
    else
        c->bin[b->small][bin_of(b->size)] = b->bin_next;
}

/* The smallest free block that is large enough, from the lowest bin that has one. */
static block *find(dl_cache *c, bool small, size_t size, const void *stream) {
    for (int i = bin_of(size); i < NBINS; i++) {
        block *best = NULL;
        for (block *b = c->bin[small][i]; b; b = b->bin_next)
            if (b->stream == stream && b->size >= size && (!best || b->size < best->size)) best = b;
        if (best) return best;
    }
    return NULL;
}

static bool is_pool(const dl_cache *c, const void *p) {
    for (int i = 0; i < c->npools; i++)
        if (c->pools[i] == p) return true;
    return false;
}

bool dl_cache_pool(dl_cache *c, const void *pool) {
    const void **more = realloc(c->pools, (size_t)(c->npools + 1) * sizeof *more);
    if (!more) return false;
    c->pools = more;
    c->pools[c->npools++] = pool;
    return true;
}

void dl_cache_adopt(dl_cache *c, const void *pool, const void *stream) {
    for (int i = 0; i < c->npools; i++)
        if (c->pools[i] == pool) c->pools[i--] = c->pools[--c->npools];
    for (int small = 0; small < 2; small++)
        for (int i = 0; i < NBINS; i++)
            for (block *b = c->bin[small][i]; b; b = b->bin_next)
                if (b->stream == pool) b->stream = stream;
    for (int i = 0; i < NBUCKETS; i++)
        for (block *b = c->bucket[i]; b; b = b->chain)
            if (b->stream == pool) b->stream = stream;
}

size_t dl_cache_empty(dl_cache *c) {
    size_t given = 0;
    for (int small = 0; small < 2; small++)
        for (int i = 0; i < NBINS; i++)
            for (block *b = c->bin[small][i], *next; b; b = next) {
                next = b->bin_next;
                if (b->prev || b->next || is_pool(c, b->stream)) continue;
                bin_remove(c, b);
                c->driver.put(c->driver.arg, b->p);
                c->held -= b->size;
                given += b->size;
                free(b);
            }
    return given;
}

/* A new segment as one free block, not in a bin. NULL without an error. */
static block *grow(dl_cache *c, bool small, size_t size, const void *stream) {
    size_t bytes = small ? 2 * MIB : size < 10 * MIB ? 20 * MIB : (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    block *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->p = c->driver.get(c->driver.arg, bytes);
    if (!b->p && dl_cache_empty(c)) b->p = c->driver.get(c->driver.arg, bytes);
    if (!b->p) {
        free(b);
        return NULL;
    }
    c->held += bytes;
    b->size = bytes;
    b->small = small;
    b->stream = stream;
    return b;
}

/* Cuts what is not needed off a block; it stays whole when that is little, or when there is no memory for the header.
 */
static void split(dl_cache *c, block *b, size_t size) {
    size_t rest = b->size - size;
    if (rest < (b->small ? (size_t)ALIGN : MIB + 1)) return;
    block *r = calloc(1, sizeof *r);
    if (!r) return;
    *r = (block){.p = b->p + size, .size = rest, .stream = b->stream, .small = b->small, .prev = b, .next = b->next};
    if (b->next) b->next->prev = r;
    b->next = r;
    b->size = size;
    bin_add(c, r);
}

static void refuse(dl_cache *c, size_t bytes) {
    block *top[SHOWN] = {NULL};
    for (int i = 0; i < NBUCKETS; i++)
        for (block *b = c->bucket[i]; b; b = b->chain)
            for (int k = 0; k < SHOWN; k++)
                if (!top[k] || b->asked > top[k]->asked) {
                    memmove(&top[k + 1], &top[k], (size_t)(SHOWN - 1 - k) * sizeof *top);
                    top[k] = b;
                    break;
                }
    char list[400] = "";
    size_t n = 0;
    for (int k = 0; k < SHOWN && top[k] && n + 1 < sizeof list; k++) {
        double mib = (double)top[k]->asked / (double)MIB;
        const char *file = top[k]->src.file;
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%.1f MiB", k ? ", " : "; the largest: ", mib);
        if (file && *file && n + 1 < sizeof list)
            n += (size_t)snprintf(list + n, sizeof list - n, " (%s:%d)", file, top[k]->src.line);
    }
    dl_fail_hint(DL_ERR_MEMORY, "use smaller tensors or batches, or free some: `vars` lists what is held",
                 "%.1f MiB asked for on the GPU, %.1f MiB left there, %.1f MiB held by tensors%s",
                 (double)bytes / (double)MIB, (double)c->driver.room(c->driver.arg) / (double)MIB,
                 (double)c->used / (double)MIB, list);
}

void *dl_cache_alloc(dl_cache *c, size_t bytes, const void *stream) {
    size_t size = bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    bool small = size <= MIB;
    bool possible = bytes <= (size_t)1 << 50;
    block *b = possible ? find(c, small, size, stream) : NULL;
    if (b)
        bin_remove(c, b);
    else if (possible)
        b = grow(c, small, size, stream);
    if (!b) {
        refuse(c, bytes);
        return NULL;
    }
    split(c, b, size);
    b->live = true;
    b->asked = bytes;
    b->src = dl_source_get();
    block **bucket = bucket_of(c, b->p);
    b->chain = *bucket;
    *bucket = b;
    c->used += b->size;
    if (c->used > c->peak) c->peak = c->used;
    return b->p;
}

/* Makes b and its right neighbour, neither of them in a bin, one block. */
static void join(block *b) {
    block *r = b->next;
    b->size += r->size;
    b->next = r->next;
    if (r->next) r->next->prev = b;
    free(r);
}

void dl_cache_free(dl_cache *c, void *p) {
    block **at = bucket_of(c, p);
    while (*at && (*at)->p != p) at = &(*at)->chain;
    block *b = *at;
    if (!b) return;
    *at = b->chain;
    c->used -= b->size;
    if (b->next && !b->next->live) {
        bin_remove(c, b->next);
        join(b);
    }
    if (b->prev && !b->prev->live) {
        b = b->prev;
        bin_remove(c, b);
        join(b);
    }
    bin_add(c, b);
}

void dl_cache_stats(const dl_cache *c, size_t *used, size_t *peak, size_t *held) {
    *used = c->used, *peak = c->peak, *held = c->held;
}

void dl_cache_reset_peak(dl_cache *c) { c->peak = c->used; }

void dl_cache_delete(dl_cache *c) {
    if (!c) return;
    for (int i = 0; i < NBUCKETS; i++)
        while (c->bucket[i]) dl_cache_free(c, c->bucket[i]->p);
    c->npools = 0;
    dl_cache_empty(c);
    free(c->pools);
    free(c);
}
