/* The caching allocator of device memory. It knows nothing of CUDA: memory comes from a driver of two functions, so
 * that it is tested on any machine. */
#pragma once

#include "core/device/device.h"

/* get: NULL when there is no room (no error recorded). */
typedef struct dl_cache_driver {
    void *(*get)(void *arg, size_t bytes);
    void (*put)(void *arg, void *p);
    size_t (*room)(void *arg); /* bytes free, for messages */
    void *arg;
} dl_cache_driver;

typedef struct dl_cache dl_cache;

/* NULL: no memory. */
dl_cache *dl_cache_new(const dl_cache_driver *driver);
/* Gives everything back; live blocks too. */
void dl_cache_delete(dl_cache *c);
/* A block for work on `stream`, at least 256-byte aligned; blocks freed on a stream are reused on it alone. When the
 * driver has no room, what is unused is given back first. NULL: DL_ERR_MEMORY with the largest live blocks. */
void *dl_cache_alloc(dl_cache *c, size_t bytes, const void *stream);
void dl_cache_free(dl_cache *c, void *p);
/* Blocks of a pool, which takes the place of a stream, are never given back to the driver while it is there. False: no
 * memory for one more. */
bool dl_cache_pool(dl_cache *c, const void *pool);
/* Ends a pool: its blocks, used and free, belong to `stream` from now on. */
void dl_cache_adopt(dl_cache *c, const void *pool, const void *stream);
/* Gives unused memory back to the driver; returns how much. */
size_t dl_cache_empty(dl_cache *c);
/* used: in blocks handed out; peak: its highest value; held: from the driver in all. */
void dl_cache_stats(const dl_cache *c, size_t *used, size_t *peak, size_t *held);
/* The highest value is the present one. */
void dl_cache_reset_peak(dl_cache *c);
