/* Memory of one query result. */
#include "track/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14, ALIGN = 16 };

struct dl_arena_chunk {
    struct dl_arena_chunk *next;
    size_t size;
    _Alignas(ALIGN) char data[];
};

void *dl_arena_get(dl_arena *a, size_t n) {
    n = (n + ALIGN - 1) / ALIGN * ALIGN;
    if (!a->chunks || n > a->chunks->size - a->used) {
        size_t size = n > CHUNK ? n : CHUNK;
        struct dl_arena_chunk *c = dl_memory_alloc((long)(sizeof *c + size), 1);
        if (!c) {
            a->failed = 1;
            return NULL;
        }
        memset(c->data, 0, size);
        c->size = size;
        c->next = a->chunks;
        a->chunks = c;
        a->used = 0;
    }
    void *p = a->chunks->data + a->used;
    a->used += n;
    return p;
}

const char *dl_arena_text(dl_arena *a, const char *text) {
    if (!text || !*text) return "";
    size_t n = strlen(text) + 1;
    char *copy = dl_arena_get(a, n);
    return copy ? memcpy(copy, text, n) : "";
}

const char *dl_arena_printf(dl_arena *a, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dl_arena_text(a, text);
}

void *dl_arena_more(dl_arena *a, void *array, long n, size_t size) {
    if (n & (n - 1)) return array; /* it grows when n is a power of two */
    void *more = dl_arena_get(a, (n ? 2 * (size_t)n : 1) * size);
    if (more && n) memcpy(more, array, (size_t)n * size);
    return more;
}

void dl_arena_free(dl_arena *a) {
    while (a->chunks) {
        struct dl_arena_chunk *c = a->chunks;
        a->chunks = c->next;
        free(c);
    }
    *a = (dl_arena){0};
}
