/* The names of a module's layers, and the bases of numbered ones. */
#pragma once

#include <stddef.h>

#include "dlcore.h"

/* A name, or a base of numbered names (relu of relu0, relu1, ...), or both. */
typedef struct dl_name_entry {
    char *text;
    int child;     /* -1: no layer has this name */
    long numbered; /* layers of this base */
} dl_name_entry;

typedef struct dl_layer_names {
    dl_name_entry *entries;
    int used;
    long room;
    dl_names index;
} dl_layer_names;

/* NULL: nothing is known of it. */
const dl_name_entry *dl_layer_names_find(const dl_layer_names *t, const char *name, size_t len);
/* DL_ERR_MEMORY. */
dl_status dl_layer_names_add(dl_layer_names *t, const char *name, int child);
void dl_layer_names_free(dl_layer_names *t);
