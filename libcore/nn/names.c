/* Names of layers: open addressing. */
#include "nn/names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static dl_name_entry *place(dl_name_entry *entries, size_t size, const char *name, size_t len) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)name[i]) * 1099511628211u;
    for (;; h++) {
        dl_name_entry *e = &entries[h & (size - 1)];
        if (!e->text || (e->len == len && !memcmp(e->text, name, len))) return e;
    }
}

const dl_name_entry *dl_layer_names_find(const dl_layer_names *t, const char *name, size_t len) {
    const dl_name_entry *e = t->size ? place(t->entries, t->size, name, len) : NULL;
    return e && e->text ? e : NULL;
}

static dl_status reserve(dl_layer_names *t, size_t more) {
    size_t size = t->size ? t->size : 16;
    while (2 * (t->used + more) > size) size *= 2;
    if (size == t->size) return DL_OK;
    dl_name_entry *entries = calloc(size, sizeof *entries);
    if (!entries) return dl_fail(DL_ERR_MEMORY, "no memory for the names of layers");
    for (size_t i = 0; i < t->size; i++)
        if (t->entries[i].text) *place(entries, size, t->entries[i].text, t->entries[i].len) = t->entries[i];
    free(t->entries);
    t->entries = entries;
    t->size = size;
    return DL_OK;
}

static dl_name_entry *entry(dl_layer_names *t, const char *name, size_t len) {
    dl_name_entry *e = place(t->entries, t->size, name, len);
    if (!e->text) *e = (dl_name_entry){name, len, -1, 0}, t->used++;
    return e;
}

dl_status dl_layer_names_add(dl_layer_names *t, const char *name, int child) {
    size_t len = strlen(name), base = len;
    while (base && name[base - 1] >= '0' && name[base - 1] <= '9') base--;
    DL_TRY(reserve(t, len - base + 1));
    entry(t, name, len)->child = child;
    /* conv12 is the conv with number 12, and the conv1 with number 2 */
    for (; base < len; base++) entry(t, name, base)->numbered++;
    return DL_OK;
}
