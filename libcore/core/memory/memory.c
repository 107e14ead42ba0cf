/* The gate that allocations pass. */
#include "core/memory/memory.h"
#include "core/memory/live.h"
#include "core/tensor.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

/* A thread's allocations are counted in batches; between two queries of the system at most STRIDE bytes are allocated,
 * and a quarter of what is left. The reserve is for memory that does not pass the gate: libraries, stacks, the message.
 */
enum { BATCH = 256 << 10, STRIDE = 64 << 20, RESERVE = 16 << 20, NEARLY_FULL = 128 << 20, PAGE = 4096 };

static long granted;    /* bytes until the next query; atomic */
static int nearly_full; /* at the last query little was left; atomic */

static size_t reserve_of(dl_memory_space r) { return r.of / 16 < RESERVE ? r.of / 16 : RESERVE; }

static dl_status refuse(size_t bytes, size_t left) {
    char asked[40];
    if (bytes < 1 << 20)
        snprintf(asked, sizeof asked, "%zu bytes", bytes);
    else
        snprintf(asked, sizeof asked, "%.1f MiB", (double)bytes / 1048576);
    return dl_fail_hint(DL_ERR_MEMORY, "use smaller tensors or batches, or free some: `vars` lists what is held",
                        "%s asked for, %.1f MiB left on this machine, %.1f MiB held by tensors", asked,
                        (double)left / 1048576, (double)dl_host_bytes() / 1048576);
}

/* Asks the system, for `bytes` now and n with those counted before. *counted: bytes to be counted again at the next
 * call. After a refusal one batch of small pieces is allowed out of the first half of the reserve, to handle it. */
static dl_status query(size_t bytes, size_t n, size_t *counted) {
    dl_memory_space r = dl_memory_available();
    if (r.left < n || r.left - n < reserve_of(r)) {
        dl_host_empty_cache();
        r = dl_memory_available();
    }
    size_t reserve = reserve_of(r);
    if (r.left < n || r.left - n < reserve) {
        __atomic_store_n(&granted, 0, __ATOMIC_RELAXED);
        *counted = r.left > reserve / 2 + BATCH ? 0 : n - bytes;
        return refuse(bytes, r.left > reserve ? r.left - reserve : 0);
    }
    size_t rest = r.left - n - reserve;
    __atomic_store_n(&nearly_full, rest < NEARLY_FULL || rest / 4 < n, __ATOMIC_RELAXED);
    __atomic_store_n(&granted, (long)(rest / 4 < STRIDE ? rest / 4 : STRIDE), __ATOMIC_RELAXED);
    return DL_OK;
}

/* Bytes allocated since the last batch. */
static _Thread_local size_t counted;

dl_status dl_memory_request(size_t bytes) {
    if (bytes > PTRDIFF_MAX - counted) return refuse(bytes, dl_memory_available().left);
    counted += bytes;
    if (counted < BATCH) return DL_OK;
    size_t n = counted;
    counted = 0;
    if (__atomic_sub_fetch(&granted, (long)n, __ATOMIC_RELAXED) >= 0) return DL_OK;
    return query(bytes, n, &counted);
}

/* realloc, tried again after cached memory was released. */
static void *from_system(void *p, size_t bytes) {
    void *q = realloc(p, bytes);
    if (q) return q;
    dl_host_empty_cache();
    return realloc(p, bytes);
}

static void *resize(void *p, long old, long n, long size) {
    int64_t bytes = n;
    if (!dl_count_mul(&bytes, size))
        return dl_fail(DL_ERR_MEMORY, "no machine has memory for %ld times %ld bytes", n, size), NULL;
    int64_t had = old * size, more = bytes - had;
    if (more > 0 && dl_memory_request((size_t)more) != DL_OK) return NULL;
    char *q = from_system(p, bytes ? (size_t)bytes : 1);
    if (!q) return dl_fail(DL_ERR_MEMORY, "the system refused %ld bytes", (long)bytes), NULL;
    if (more > 0) dl_memory_commit(q + had, (size_t)more);
    return q;
}

enum { SMALL = 1024 };

/* For small pieces that fit in the batch; NULL: they do not. */
static void *resize_small(void *p, long old, long n, long size) {
    if (n < 0 || n > SMALL || size < 0 || size > SMALL || __atomic_load_n(&nearly_full, __ATOMIC_RELAXED)) return NULL;
    size_t bytes = (size_t)(n * size), more = n > old ? (size_t)((n - old) * size) : 0;
    if (counted + more >= BATCH) return NULL;
    void *q = p ? realloc(p, bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
    if (q) counted += more;
    return q;
}

void *dl_memory_resize(void *p, long old, long n, long size) {
    void *q = resize_small(p, old, n, size);
    if (!q) q = resize(p, old, n, size);
    return q || !dl_reclaim_memory() ? q : resize(p, old, n, size);
}

void *dl_memory_alloc(long n, long size) { return dl_memory_resize(NULL, 0, n, size); }

void dl_memory_commit(void *p, size_t bytes) {
    if (!__atomic_load_n(&nearly_full, __ATOMIC_RELAXED)) return;
    for (size_t i = 0; i < bytes && (i % STRIDE || !dl_interrupt_get()); i += PAGE) ((volatile char *)p)[i] = 0;
}
