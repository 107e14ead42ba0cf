/* A library to preload: lets one allocation of the program fail, or all from that one on.
 * FAIL_AT=N counts from 1; FAIL_EVER=1: that one and all after it. COUNT_TO=FILE: how many there were, at the exit. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static long at = -1, seen;
static int ever;
static char count_to[256];

__attribute__((constructor)) static void begin(void) {
    const char *n = getenv("FAIL_AT"), *all = getenv("FAIL_EVER");
    snprintf(count_to, sizeof count_to, "%s", getenv("COUNT_TO") ? getenv("COUNT_TO") : "");
    ever = all != NULL;
    long first = n ? atol(n) : -1;
    /* programs that this one starts run as always */
    unsetenv("LD_PRELOAD"), unsetenv("FAIL_AT"), unsetenv("FAIL_EVER"), unsetenv("COUNT_TO");
    seen = 0;
    at = first;
}

__attribute__((destructor)) static void end(void) {
    long n = seen;
    at = -1;
    FILE *f = count_to[0] ? fopen(count_to, "w") : NULL;
    if (!f) return;
    fprintf(f, "%ld\n", n);
    fclose(f);
}

/* Libraries that end the process themselves when they get no memory. */
static int of_others(const void *caller) {
    Dl_info from;
    return dladdr(caller, &from) && from.dli_fname &&
           (strstr(from.dli_fname, "libgfortran") || strstr(from.dli_fname, "libgomp"));
}

static int fails(const void *caller) {
    long n = __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED);
    if (at < 0 || n < at || (n > at && !ever) || of_others(caller)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n) { return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n); }
void *memalign(size_t align, size_t n);
void *aligned_alloc(size_t align, size_t n) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, n);
}
void *memalign(size_t align, size_t n) { return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, n); }
int posix_memalign(void **out, size_t align, size_t n) {
    if (fails(__builtin_return_address(0)) || !(*out = __libc_memalign(align, n))) return ENOMEM;
    return 0;
}
