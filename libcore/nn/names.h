/* The names of a module's layers, found by hash. */
#ifndef DL_NN_NAMES_H
#define DL_NN_NAMES_H

#include <stddef.h>
#include "dlcore.h"

/* An entry is a name, or a base of numbered names (relu of relu0, relu1, ...), or both. It points into a name. */
typedef struct dl_name_entry {
    const char *text; /* NULL: free */
    size_t len;
    int child;     /* -1: no layer has this name */
    long numbered; /* layers of this base */
} dl_name_entry;

typedef struct dl_layer_names {
    dl_name_entry *entries;
    size_t size, used;
} dl_layer_names;

/* NULL: nothing is known of it. */
const dl_name_entry *dl_layer_names_find(const dl_layer_names *t, const char *name, size_t len);
/* The name must live as long as the table. DL_ERR_MEMORY. */
dl_status dl_layer_names_add(dl_layer_names *t, const char *name, int child);

#endif
