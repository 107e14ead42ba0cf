/* The names of a space, and the memory of its types and names. */
#include "ffi/values/declarations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/session.h"

void *dlsh_c_alloc(dlsh_cspace *c, size_t bytes) {
    enum { CHUNK = 16384 };
    bytes = (bytes + 15) & ~(size_t)15;
    if (!c->chunks || c->chunks->size - c->chunks->used < bytes) {
        size_t size = bytes > CHUNK ? bytes : CHUNK;
        dlsh_cchunk *k = calloc(1, sizeof *k + size);
        if (!k) return dlsh_no_memory("C declarations"), NULL;
        k->size = size;
        k->next = c->chunks;
        c->chunks = k;
    }
    void *p = c->chunks->bytes + c->chunks->used;
    c->chunks->used += bytes;
    return p;
}

const char *dlsh_c_copy(dlsh_cspace *c, const char *s, size_t n) {
    char *copy = dlsh_c_alloc(c, n + 1);
    if (copy && n) memcpy(copy, s, n);
    return copy;
}

dlsh_cspace *dlsh_cspace_new(void) {
    dlsh_cspace *c = calloc(1, sizeof *c);
    if (!c) dlsh_no_memory("C declarations");
    return c;
}

void dlsh_cspace_free(dlsh_cspace *c) {
    if (!c) return;
    for (dlsh_cchunk *k = c->chunks, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    free(c->types);
    free(c->names);
    dl_names_free(&c->by_name);
    free(c);
}

static const char *name_at(const void *c, int i) { return ((const dlsh_cspace *)c)->names[i]->name; }

dlsh_cname *dlsh_c_find(const dlsh_cspace *c, const char *name, size_t len) {
    int i = dl_names_find(&c->by_name, name, (long)len, name_at, c);
    return i < 0 ? NULL : c->names[i];
}

const dlsh_ctype *dlsh_c_find_tag(const dlsh_cspace *c, dlsh_ckind kind, const char *tag, size_t len) {
    char name[256];
    const char *word = kind == DLSH_C_STRUCT ? "struct" : kind == DLSH_C_UNION ? "union" : "enum";
    int n = snprintf(name, sizeof name, "%s %.*s", word, (int)len, tag);
    const dlsh_cname *found = n < (int)sizeof name ? dlsh_c_find(c, name, (size_t)n) : NULL;
    return found ? found->type : NULL;
}

dlsh_cname *dlsh_c_enter(dlsh_cspace *c, dlsh_cname_kind kind, const char *name, size_t len, const dlsh_ctype *type) {
    dlsh_cname **names = dlsh_grow(c->names, c->nnames, &c->capnames, sizeof *names);
    if (!names) return NULL;
    c->names = names;
    dlsh_cname *n = dlsh_c_alloc(c, sizeof *n);
    if (!n || !(n->name = dlsh_c_copy(c, name, len))) return NULL;
    n->kind = kind;
    n->type = type;
    names[c->nnames] = n;
    if (dl_names_add(&c->by_name, c->nnames, name_at, c) != DL_OK) return NULL;
    c->nnames++;
    return n;
}

const dlsh_cname *dlsh_c_next(const dlsh_cspace *c, int *next) {
    while (*next < c->nnames) {
        const dlsh_cname *n = c->names[(*next)++];
        if (dlsh_c_find(c, n->name, strlen(n->name)) == n) return n;
    }
    return NULL;
}

int dlsh_c_savepoint(const dlsh_cspace *c) { return c->nnames; }

void dlsh_c_rollback(dlsh_cspace *c, int savepoint) {
    if (savepoint == c->nnames) return;
    c->nnames = savepoint;
    dl_names_free(&c->by_name);
    if (savepoint) dl_names_add(&c->by_name, savepoint - 1, name_at, c);
}
