/* Blocks between inaccessible pages. The only part of the library that ends the process: after a write outside a block,
 * results cannot be relied on, as under a sanitizer. */
#include "core/memory/fence.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* MOST: blocks with pages of their own at a time, since the kernel limits mappings (65,530) and each takes two; more
 * blocks are on the heap, between PATTERN filling bytes.
 * SIZES: mappings of blocks of fewer pages are reused; QUEUE: pages of freed blocks of such a size that are kept;
 * QUEUE_OTHERS: freed blocks of all other sizes together. */
enum { FRESH = 0xFF, FILLING = 0xA5, MOST = 20000, PATTERN = 64, SIZES = 17, QUEUE = 1024, QUEUE_OTHERS = 128 };

bool dl_fenced;
static bool at_begin;
static size_t page;

/* Before main: the choice must not change between an allocation and its end. */
__attribute__((constructor)) static void choose(void) {
    const char *how = getenv("DLCORE_GUARD");
    dl_fenced = how && *how && strcmp(how, "0") != 0;
    at_begin = dl_fenced && !strcmp(how, "2");
    page = (size_t)sysconf(_SC_PAGESIZE);
}

static size_t body_of(size_t bytes) { return (bytes + page - 1) / page * page; }

/* A block's pages, and the inaccessible one on either side. */
typedef struct span {
    char *map;
    size_t bytes;
} span;

/* Freed blocks, the oldest at `first`. They stay inaccessible in their queue: the older half may be reused, and what
 * does not fit is unmapped. queue[0] has all sizes that are not reused. */
static struct {
    pthread_mutex_t lock;
    struct {
        span s[QUEUE];
        unsigned first, n;
    } queue[SIZES];
} freed = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t queue_of(size_t bytes) { return bytes / page - 2 < SIZES ? bytes / page - 2 : 0; }

static unsigned room_of(size_t queue) { return queue ? QUEUE / (unsigned)queue : QUEUE_OTHERS; }

/* Under the lock. */
static span oldest(size_t queue) {
    span s = freed.queue[queue].s[freed.queue[queue].first];
    freed.queue[queue].first = (freed.queue[queue].first + 1) % room_of(queue);
    freed.queue[queue].n--;
    return s;
}

/* The mapping of a freed block of that size, else {0}. */
static span used_again(size_t bytes) {
    size_t queue = queue_of(bytes);
    span s = {0};
    pthread_mutex_lock(&freed.lock);
    if (queue && freed.queue[queue].n > room_of(queue) / 2) s = oldest(queue);
    pthread_mutex_unlock(&freed.lock);
    return s;
}

/* Where the pages of a block with pages of its own begin. */
static const char *begin_of(const char *p, size_t bytes) { return at_begin ? p : p + bytes - body_of(bytes); }

static bool has_pages(const char *p, size_t bytes) { return (uintptr_t)begin_of(p, bytes) % page == 0; }

static size_t live; /* blocks with pages of their own */

static void *between_pages(size_t bytes) {
    size_t body = body_of(bytes), all = body + 2 * page;
    char *map = used_again(all).map;
    if (!map) map = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return NULL;
    char *begin = map + page, *p = at_begin ? begin : begin + (body - bytes);
    if (body && mprotect(begin, body, PROT_READ | PROT_WRITE)) {
        munmap(map, all);
        return NULL;
    }
    memset(begin, FILLING, body);
    memset(p, FRESH, bytes);
    return p;
}

/* [base] [filling] block [filling], at an address where no block with pages of its own can be. */
static void *between_patterns(size_t bytes) {
    char *base;
    if (posix_memalign((void **)&base, PATTERN, bytes + 4 * PATTERN)) return NULL;
    char *p = base + 2 * PATTERN;
    if (has_pages(p, bytes)) p += PATTERN;
    memcpy(p - 2 * PATTERN, &base, sizeof base);
    memset(p - PATTERN, FILLING, PATTERN);
    memset(p + bytes, FILLING, PATTERN);
    memset(p, FRESH, bytes);
    return p;
}

void *dl_fence_alloc(size_t bytes) {
    if (__atomic_add_fetch(&live, 1, __ATOMIC_RELAXED) <= MOST) {
        void *p = between_pages(bytes);
        if (!p) __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
        return p;
    }
    __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    return between_patterns(bytes);
}

static void stop(const void *p, size_t bytes, const char *what, long at) {
    char text[200];
    int n = snprintf(text, sizeof text, "DLCORE_GUARD: block of %zu bytes at %p: %s (byte %ld)\n", bytes, p, what, at);
    if (write(STDERR_FILENO, text, (size_t)n) == n) raise(SIGABRT);
    raise(SIGKILL);
}

/* Is there only filling between `from` and `to`, in the pages of block p? */
static void check_filling(const char *p, size_t bytes, const char *from, const char *to) {
    if (from == to || ((unsigned char)*from == FILLING && !memcmp(from, from + 1, (size_t)(to - from - 1)))) return;
    while ((unsigned char)*from == FILLING) from++;
    stop(p, bytes, from < p ? "written before its begin" : "written behind its end", (long)(from - p));
}

/* Pages of sizes that are not reused go back to the system; their addresses stay reserved. Where the kernel has no
 * mapping left for that, they stay accessible. */
static void enqueue(span s) {
    size_t queue = queue_of(s.bytes), body = s.bytes - 2 * page;
    if (body) mprotect(s.map + page, body, PROT_NONE);
    if (body && !queue) madvise(s.map + page, body, MADV_DONTNEED);
    span old = {0};
    pthread_mutex_lock(&freed.lock);
    if (freed.queue[queue].n == room_of(queue)) old = oldest(queue);
    freed.queue[queue].s[(freed.queue[queue].first + freed.queue[queue].n++) % room_of(queue)] = s;
    pthread_mutex_unlock(&freed.lock);
    if (old.map) munmap(old.map, old.bytes);
}

void dl_fence_free(void *p, size_t bytes) {
    const char *begin = begin_of(p, bytes), *end = (const char *)p + bytes;
    if (has_pages(p, bytes)) {
        size_t body = body_of(bytes);
        if (body) (void)*(volatile const char *)begin; /* freed already? */
        check_filling(p, bytes, begin, p);
        check_filling(p, bytes, end, begin + body);
        enqueue((span){(char *)begin - page, body + 2 * page});
        __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    } else {
        char *base;
        check_filling(p, bytes, (char *)p - PATTERN, p);
        check_filling(p, bytes, end, end + PATTERN);
        memcpy(&base, (char *)p - 2 * PATTERN, sizeof base);
        free(base);
    }
}
