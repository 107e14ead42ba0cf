/* Names to numbers: open addressing with linear probing; a table has at least twice the slots that are in use. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static uint64_t load4(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* FNV-1a over words of 8 bytes (Fowler, Noll, Vo), the last one made of what is left; mixed at the end by the
 * steps of splitmix64 (Steele, Lea, Flood), since its low bits depend on low bits alone. */
static inline unsigned long hash(const void *bytes, long n) {
    const unsigned char *p = bytes;
    uint64_t h = 14695981039346656037u, word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = (h ^ word) * 1099511628211u;
        h ^= h >> 32; /* of small whole numbers as f64, which have high bits alone, a product would lose all */
    }
    word = n >= 4  ? load4(p) | load4(p + n - 4) << 32
           : n > 0 ? (uint64_t)p[0] | (uint64_t)p[n / 2] << 8 | (uint64_t)p[n - 1] << 16
                   : 0;
    h = (h ^ word ^ (uint64_t)n << 60) * 1099511628211u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

unsigned long dl_hash(const void *bytes, long n) { return hash(bytes, n); }

/* Is s the name? Most names are short. */
static inline int same(const char *s, const char *name, long len) {
    enum { SHORT = 16 };
    if (len > SHORT) return !strncmp(s, name, (size_t)len) && !s[len];
    long i = 0;
    while (i < len && s[i] && s[i] == name[i]) i++;
    return i == len && !s[i];
}

int dl_names_find(const dl_names *t, const char *name, long len, dl_name_fn *at, const void *ctx) {
    if (!t->size) return -1;
    for (unsigned long h = hash(name, len);; h++) {
        int i = t->slots[h & (unsigned long)(t->size - 1)];
        if (i < 0) return -1;
        if (same(at(ctx, i), name, len)) return i;
    }
}

static void insert(dl_names *t, int i, dl_name_fn *at, const void *ctx) {
    const char *name = at(ctx, i);
    for (unsigned long h = dl_hash(name, (long)strlen(name));; h++) {
        int *slot = &t->slots[h & (unsigned long)(t->size - 1)];
        if (*slot < 0 || !strcmp(at(ctx, *slot), name)) {
            *slot = i;
            return;
        }
    }
}

dl_status dl_names_add(dl_names *t, int n, dl_name_fn *at, const void *ctx) {
    if (2 * (n + 1) > t->size) {
        int size = t->size ? t->size : 32;
        while (2 * (n + 1) > size) size *= 2;
        int *slots = malloc((size_t)size * sizeof *slots);
        if (!slots) return dl_fail(DL_ERR_MEMORY, "no memory for names");
        memset(slots, 0xff, (size_t)size * sizeof *slots);
        free(t->slots);
        t->slots = slots;
        t->size = size;
        for (int i = 0; i < n; i++) insert(t, i, at, ctx);
    }
    insert(t, n, at, ctx);
    return DL_OK;
}

void dl_names_free(dl_names *t) {
    free(t->slots);
    *t = (dl_names){0};
}
