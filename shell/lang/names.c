/* Names to numbers. */
#include "lang/names.h"

#include <stdlib.h>
#include <string.h>

#include "lang/session.h"

static unsigned hash(const char *s, size_t n) {
    unsigned h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

int dlsh_names_find(const dlsh_names *t, const char *name, size_t len, dlsh_name_at *at, const void *ctx) {
    if (!t->size) return -1;
    for (unsigned h = hash(name, len);; h++) {
        int i = t->slots[h & (unsigned)(t->size - 1)];
        if (i < 0) return -1;
        const char *s = at(ctx, i);
        if (!strncmp(s, name, len) && !s[len]) return i;
    }
}

static void insert(dlsh_names *t, const char *name, int i) {
    unsigned h = hash(name, strlen(name));
    while (t->slots[h & (unsigned)(t->size - 1)] >= 0) h++;
    t->slots[h & (unsigned)(t->size - 1)] = i;
}

dl_status dlsh_names_add(dlsh_names *t, int n, dlsh_name_at *at, const void *ctx) {
    if (2 * (n + 1) > t->size) {
        int size = t->size ? t->size : 128;
        while (2 * (n + 1) > size) size *= 2;
        int *slots = malloc((size_t)size * sizeof *slots);
        if (!slots) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for names");
        memset(slots, 0xff, (size_t)size * sizeof *slots);
        free(t->slots);
        t->slots = slots;
        t->size = size;
        for (int i = 0; i < n; i++) insert(t, at(ctx, i), i);
    }
    insert(t, at(ctx, n), n);
    return DL_OK;
}

void dlsh_names_free(dlsh_names *t) {
    free(t->slots);
    *t = (dlsh_names){0};
}
