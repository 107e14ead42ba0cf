/* Blocks between pages that cannot be touched. The one part of the library that ends the process: when memory behind or
 * before a block was written, nothing that follows can be relied on, as under a sanitizer. */
#include "core/memory/fence.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* MOST: blocks with pages of their own that live at a time, since the kernel counts mappings (65,530) and each takes
 * two. What goes beyond lies on the heap, between PATTERN bytes of the filling.
 * SIZES: blocks of fewer pages have their mappings used again; LINE: ended blocks of such a size that are kept, by the
 * page; ENDED: of all other sizes together. */
enum { FRESH = 0xFF, REST = 0xA5, MOST = 20000, PATTERN = 64, SIZES = 17, LINE = 1024, ENDED = 128 };

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

/* Ended blocks, the oldest at `first`. They stay untouchable until a later block takes their place: the older half may
 * be used again, and what no longer has room is given back. line[0] has all the sizes of which none is used again. */
static struct {
    pthread_mutex_t lock;
    struct {
        span s[LINE];
        unsigned first, n;
    } line[SIZES];
} dead = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t line_of(size_t bytes) { return bytes / page - 2 < SIZES ? bytes / page - 2 : 0; }

static unsigned room_of(size_t line) { return line ? LINE / (unsigned)line : ENDED; }

/* Under the lock. */
static span oldest(size_t line) {
    span s = dead.line[line].s[dead.line[line].first];
    dead.line[line].first = (dead.line[line].first + 1) % room_of(line);
    dead.line[line].n--;
    return s;
}

/* The mapping of an ended block of that size, else {0}. */
static span used_again(size_t bytes) {
    size_t line = line_of(bytes);
    span s = {0};
    pthread_mutex_lock(&dead.lock);
    if (line && dead.line[line].n > room_of(line) / 2) s = oldest(line);
    pthread_mutex_unlock(&dead.lock);
    return s;
}

/* Where the pages of a block would begin, if it had its own. */
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
    memset(begin, REST, body);
    memset(p, FRESH, bytes);
    return p;
}

/* [base] [filling] block [filling]; never where a block with pages of its own could lie. */
static void *between_patterns(size_t bytes) {
    char *base;
    if (posix_memalign((void **)&base, PATTERN, bytes + 4 * PATTERN)) return NULL;
    char *p = base + 2 * PATTERN;
    if (has_pages(p, bytes)) p += PATTERN;
    memcpy(p - 2 * PATTERN, &base, sizeof base);
    memset(p - PATTERN, REST, PATTERN);
    memset(p + bytes, REST, PATTERN);
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

/* Nothing but the filling between `from` and `to`, which lie in the pages of block p? */
static void check_rest(const char *p, size_t bytes, const char *from, const char *to) {
    if (from == to || ((unsigned char)*from == REST && !memcmp(from, from + 1, (size_t)(to - from - 1)))) return;
    while ((unsigned char)*from == REST) from++;
    stop(p, bytes, from < p ? "written before its begin" : "written behind its end", (long)(from - p));
}

/* Pages that are not used again go back to the system, though their addresses stay reserved. Where the kernel has no
 * mapping left for that, they stay accessible. */
static void bury(span s) {
    size_t line = line_of(s.bytes), body = s.bytes - 2 * page;
    if (body) mprotect(s.map + page, body, PROT_NONE);
    if (body && !line) madvise(s.map + page, body, MADV_DONTNEED);
    span old = {0};
    pthread_mutex_lock(&dead.lock);
    if (dead.line[line].n == room_of(line)) old = oldest(line);
    dead.line[line].s[(dead.line[line].first + dead.line[line].n++) % room_of(line)] = s;
    pthread_mutex_unlock(&dead.lock);
    if (old.map) munmap(old.map, old.bytes);
}

void dl_fence_free(void *p, size_t bytes) {
    const char *begin = begin_of(p, bytes), *end = (const char *)p + bytes;
    if (has_pages(p, bytes)) {
        size_t body = body_of(bytes);
        if (body) (void)*(volatile const char *)begin; /* freed already? */
        check_rest(p, bytes, begin, p);
        check_rest(p, bytes, end, begin + body);
        bury((span){(char *)begin - page, body + 2 * page});
        __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    } else {
        char *base;
        check_rest(p, bytes, (char *)p - PATTERN, p);
        check_rest(p, bytes, end, end + PATTERN);
        memcpy(&base, (char *)p - 2 * PATTERN, sizeof base);
        free(base);
    }
}
