/* Names of layers and their bases: an array of entries with an index. */
#include "nn/names.h"

#include <stdlib.h>
#include <string.h>

#include "core/list.h"

static const char *text_at(const void *t, int i) { return ((const dl_layer_names *)t)->entries[i].text; }

const dl_name_entry *dl_layer_names_find(const dl_layer_names *t, const char *name, size_t len) {
    int i = dl_names_find(&t->index, name, (long)len, text_at, t);
    return i < 0 ? NULL : &t->entries[i];
}

/* The entry of a name, made when there is none. NULL: no memory. */
static dl_name_entry *entry(dl_layer_names *t, const char *name, size_t len) {
    int i = dl_names_find(&t->index, name, (long)len, text_at, t);
    if (i >= 0) return &t->entries[i];
    if (DL_LIST_ROOM(t->entries, t->used, t->room) != DL_OK) return NULL;
    dl_name_entry *e = &t->entries[t->used];
    *e = (dl_name_entry){strndup(name, len), -1, 0};
    if (e->text && dl_names_add(&t->index, t->used, text_at, t) == DL_OK) return t->used++, e;
    free(e->text);
    return NULL;
}

dl_status dl_layer_names_add(dl_layer_names *t, const char *name, int child) {
    size_t len = strlen(name), base = len;
    while (base && name[base - 1] >= '0' && name[base - 1] <= '9') base--;
    /* conv12 is the conv with number 12, and the conv1 with number 2; all entries are there before one is changed */
    for (size_t n = base; n <= len; n++)
        if (!entry(t, name, n)) return dl_fail(DL_ERR_MEMORY, "no memory for the names of layers");
    entry(t, name, len)->child = child;
    for (; base < len; base++) entry(t, name, base)->numbered++;
    return DL_OK;
}

void dl_layer_names_free(dl_layer_names *t) {
    for (int i = 0; i < t->used; i++) free(t->entries[i].text);
    free(t->entries);
    dl_names_free(&t->index);
}
