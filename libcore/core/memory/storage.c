/* Storages and host memory. Freed blocks are kept by size class: small ones in lists of the thread, without atomic
 * operations, the others in lists of the process. An op on small tensors needs no malloc, and a training step reuses
 * the pages of the last one. */
#include "core/tensor.h"
#include "core/device/device.h"
#include "core/memory/fence.h"
#include "core/memory/live.h"
#include "core/memory/memory.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

/* Size classes: multiples of 64 up to 1 KiB, then four steps for each power of two. */
enum { FINE = 16, STEPS = 4, NCLASS = FINE + STEPS * 38 };

/* Classes up to 64 KiB go through the thread's own lists, at most 64 blocks and 1 MiB each. */
enum { NSMALL = FINE + STEPS * 6, KEEP_BLOCKS = 64, KEEP_BYTES = 1 << 20 };

/* Under AddressSanitizer and with fenced blocks nothing is kept or rounded up, so that accesses past a block and
 * after its release are found. */
#ifdef __SANITIZE_ADDRESS__
#define KEEPS_NOTHING true
#else
#define KEEPS_NOTHING dl_fenced
#endif

typedef struct block {
    struct block *next;
} block;

static struct {
    int lock;
    block *head;
} lists[NCLASS];

typedef struct magazine {
    block *head;
    int n;
} magazine;

static _Thread_local magazine own[NSMALL];
static _Thread_local bool registered;
static pthread_key_t thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static size_t in_use, peak, cached; /* blocks in a thread's lists count as in use */

static int size_class(size_t bytes, size_t *rounded) {
    if (bytes <= 1024) {
        int c = bytes ? (int)((bytes - 1) / 64) : 0;
        *rounded = (size_t)(c + 1) * 64;
        return c;
    }
    int top = 63 - __builtin_clzl(bytes - 1); /* 2^top < bytes <= 2^(top+1) */
    size_t step = (size_t)1 << (top - 2), k = (bytes - 1 - ((size_t)1 << top)) / step;
    *rounded = ((size_t)1 << top) + (k + 1) * step;
    return FINE + (top - 10) * STEPS + (int)k;
}

static void lock(int *l) {
    while (__atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(l, __ATOMIC_RELAXED)) sched_yield();
}

static void unlock(int *l) { __atomic_store_n(l, 0, __ATOMIC_RELEASE); }

static void *from_system(size_t size) {
    void *p;
    if (dl_fenced) return dl_fence_alloc(size);
    return posix_memalign(&p, 64, size) ? NULL : p;
}

static void to_system(void *p, size_t bytes) {
    if (dl_fenced)
        dl_fence_free(p, bytes);
    else
        free(p);
}

static void *fresh(size_t bytes, size_t rounded) {
    size_t size = KEEPS_NOTHING ? bytes : rounded;
    if (dl_memory_request(size) != DL_OK) return NULL;
    void *p = from_system(size);
    if (!p) {
        dl_host_empty_cache();
        p = from_system(size);
    }
    if (!p)
        dl_fail(DL_ERR_MEMORY, "the system refused %.1f MiB", (double)bytes / 1048576);
    else if (!dl_fenced) /* whose pages are real already */
        dl_memory_commit(p, size);
    return p;
}

/* From the lists of the process, else fresh. */
static void *shared_alloc(int c, size_t bytes, size_t rounded) {
    lock(&lists[c].lock);
    block *b = lists[c].head;
    if (b) lists[c].head = b->next;
    unlock(&lists[c].lock);
    if (b) __atomic_sub_fetch(&cached, rounded, __ATOMIC_RELAXED);
    void *p = b ? (void *)b : fresh(bytes, rounded);
    if (!p) return NULL;
    size_t now = __atomic_add_fetch(&in_use, rounded, __ATOMIC_RELAXED);
    size_t top = __atomic_load_n(&peak, __ATOMIC_RELAXED);
    while (now > top && !__atomic_compare_exchange_n(&peak, &top, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return p;
}

static void shared_free(int c, void *p, size_t bytes, size_t rounded) {
    __atomic_sub_fetch(&in_use, rounded, __ATOMIC_RELAXED);
    /* the cache does not grow beyond the peak of use */
    size_t kept = __atomic_add_fetch(&cached, rounded, __ATOMIC_RELAXED);
    if (KEEPS_NOTHING || kept > dl_host_peak() + ((size_t)64 << 20)) {
        __atomic_sub_fetch(&cached, rounded, __ATOMIC_RELAXED);
        to_system(p, bytes);
        return;
    }
    block *b = p;
    lock(&lists[c].lock);
    b->next = lists[c].head;
    lists[c].head = b;
    unlock(&lists[c].lock);
}

/* The size of a class: the inverse of size_class. */
static size_t class_bytes(int c) {
    if (c < FINE) return (size_t)(c + 1) * 64;
    size_t base = (size_t)1024 << (c - FINE) / STEPS;
    return base + base / STEPS * (size_t)((c - FINE) % STEPS + 1);
}

static void release_magazines(void *mags) {
    magazine *m = mags;
    for (int c = 0; c < NSMALL; c++)
        while (m[c].head) {
            block *b = m[c].head;
            m[c].head = b->next;
            m[c].n--;
            shared_free(c, b, class_bytes(c), class_bytes(c));
        }
}

/* Frees all cached blocks but those in the lists of other threads. */
void dl_host_empty_cache(void) {
    release_magazines(own);
    for (int c = 0; c < NCLASS; c++) {
        lock(&lists[c].lock);
        block *b = lists[c].head;
        lists[c].head = NULL;
        unlock(&lists[c].lock);
        while (b) {
            block *next = b->next;
            free(b);
            b = next;
        }
    }
    __atomic_store_n(&cached, 0, __ATOMIC_RELAXED);
    malloc_trim(0);
}

static void make_key(void) { pthread_key_create(&thread_end, release_magazines); }

/* When the thread ends, its blocks go to the lists of the process. */
static void register_thread(void) {
    pthread_once(&once, make_key);
    pthread_setspecific(thread_end, own);
    registered = true;
}

void *dl_host_alloc(size_t bytes) {
    if (bytes > (size_t)1 << 47) {
        dl_fail(DL_ERR_MEMORY, "%.1f TiB asked for; no machine has that", (double)bytes / 1099511627776.0);
        return NULL;
    }
    size_t rounded;
    int c = size_class(bytes, &rounded);
    if (c < NSMALL && own[c].head) {
        block *b = own[c].head;
        own[c].head = b->next;
        own[c].n--;
        return b;
    }
    return shared_alloc(c, bytes, rounded);
}

void dl_host_free(void *p, size_t bytes) {
    if (!p) return;
    size_t rounded;
    int c = size_class(bytes, &rounded);
    if (KEEPS_NOTHING || c >= NSMALL || own[c].n >= KEEP_BLOCKS || (size_t)own[c].n * rounded >= KEEP_BYTES) {
        shared_free(c, p, bytes, rounded);
        return;
    }
    if (!registered) register_thread();
    block *b = p;
    b->next = own[c].head;
    own[c].head = b;
    own[c].n++;
}

size_t dl_host_bytes(void) { return __atomic_load_n(&in_use, __ATOMIC_RELAXED); }
size_t dl_host_peak(void) { return __atomic_load_n(&peak, __ATOMIC_RELAXED); }
void dl_host_reset_peak(void) { __atomic_store_n(&peak, dl_host_bytes(), __ATOMIC_RELAXED); }
size_t dl_host_cached(void) { return __atomic_load_n(&cached, __ATOMIC_RELAXED); }

uint64_t dl_storage_serial(void) {
    static uint64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

dl_storage *dl_storage_new(size_t bytes, int device) {
    void *data = dl_device_alloc(device, bytes);
    if (!data) return NULL;
    dl_storage *s = dl_host_alloc(sizeof *s);
    if (!s) {
        dl_device_free(device, data, bytes);
        return NULL;
    }
    *s = (dl_storage){.refs = 1,
                      .device = device,
                      .bytes = bytes,
                      .data = data,
                      .serial = dl_storage_serial(),
                      .maker = dl_source_get(),
                      .writer = dl_source_get()};
    if (bytes >= DL_LIVE_BYTES) dl_live_add(s);
    return s;
}

void dl_storage_unref(dl_storage *s) {
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (s->bytes >= DL_LIVE_BYTES && !s->wrapped) dl_live_remove(s);
    if (s->release)
        s->release(s->arg);
    else if (!s->wrapped)
        dl_device_free(s->device, s->data, s->bytes);
    dl_host_free(s, sizeof *s);
}
