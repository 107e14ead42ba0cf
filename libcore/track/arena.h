/* Memory of one query result: many small blocks, released together. */
#pragma once

#include <stddef.h>

typedef struct dl_arena {
    struct dl_arena_chunk *chunks;
    size_t used;
    int failed; /* an allocation failed: the result is incomplete */
} dl_arena;

/* n zeroed bytes, aligned for anything. NULL, and failed set, without memory. */
void *dl_arena_get(dl_arena *a, size_t n);
/* A copy, and formatted text of at most 511 bytes; "" for NULL and without memory. Never NULL. */
const char *dl_arena_text(dl_arena *a, const char *text);
const char *dl_arena_printf(dl_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for one more element after n of `size` bytes; returns the array, moved when it had to grow. */
void *dl_arena_more(dl_arena *a, void *array, long n, size_t size);
void dl_arena_free(dl_arena *a);
