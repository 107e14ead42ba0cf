/* Which layer of a net runs in this thread: nodes, recorded calls and events of NaN carry it. */
#pragma once

#include "core/error.h"

#include <stdint.h>

/* A layer's path in its net, and the statement or line that defines it. Kept as long as the process. */
typedef struct dl_layer_mark {
    const char *path;
    dl_source src;
    const struct dl_layer_mark *next;
} dl_layer_mark;

/* NULL: none. */
extern __thread const dl_layer_mark *dl_layer_running;

/* The op made of other ops that runs in this thread, the outermost one: nodes and recorded calls of its parts carry it.
 */
typedef struct dl_composite {
    const char *name; /* NULL: none */
    uint64_t call;    /* counted over the process */
} dl_composite;
extern __thread dl_composite dl_composite_running;

/* The mark of a layer, made once; NULL: DL_ERR_MEMORY. */
const dl_layer_mark *dl_layer_mark_of(const char *path, dl_source src);
