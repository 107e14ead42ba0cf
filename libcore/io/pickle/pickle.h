/* Pickles as trees: what a pickle says is parsed and never done. An object that Python would make by calling something
 * is a node with the name of what it calls; readers of formats know the few names that they accept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

typedef enum dl_pickle_kind {
    DL_PICKLE_NONE,
    DL_PICKLE_BOOL,
    DL_PICKLE_INT,
    DL_PICKLE_WIDE, /* an integer beyond 64 bits, rounded: its value is f */
    DL_PICKLE_FLOAT,
    DL_PICKLE_TEXT,  /* a string: UTF-8 in text[n], which may hold NUL and is not checked */
    DL_PICKLE_BYTES, /* a string of bytes, in text[n] */
    DL_PICKLE_LIST,  /* list or set */
    DL_PICKLE_TUPLE,
    DL_PICKLE_DICT,   /* item: key, value, key, value, ... */
    DL_PICKLE_GLOBAL, /* a name in a module: text is the module, fn->text the name */
    DL_PICKLE_CALL,   /* fn called with the tuple args; then `item` as of a dict or list that was filled */
    DL_PICKLE_REF,    /* what lies outside of the pickle, as args says */
} dl_pickle_kind;

typedef struct dl_pickle_node dl_pickle_node;
struct dl_pickle_node {
    uint8_t kind;
    bool pairs;      /* of DICT and CALL: items came as keys and values */
    uint32_t n, cap; /* bytes of text, or items */
    uint64_t at;     /* byte of the pickle that made it */
    union {
        int64_t i; /* BOOL and INT */
        double f;
        const char *text; /* borrowed from the pickle, or of its arena */
        dl_pickle_node **item;
    };
    dl_pickle_node *fn, *args, *state; /* state: what the object is told to take on, or NULL */
};

typedef struct dl_pickle dl_pickle;
/* Parses the first pickle of p[n], which must live as long as the result; *used (or NULL) becomes its length. `name`
 * stands in messages; borrowed. Nodes may be reached by several ways, and by a way that leads back to them: who walks
 * counts steps and depth. NULL: DL_ERR_FORMAT with the byte at fault, DL_ERR_UNSUPPORTED, DL_ERR_MEMORY. */
dl_pickle *dl_pickle_parse(const char *name, const void *p, size_t n, size_t *used);
const dl_pickle_node *dl_pickle_root(const dl_pickle *k);
void dl_pickle_free(dl_pickle *k);

/* Whether it is the name `name` of `module`. */
bool dl_pickle_is_global(const dl_pickle_node *x, const char *module, const char *name);
/* Whether it is text or bytes, and this. */
bool dl_pickle_is_text(const dl_pickle_node *x, const char *text);
/* "torch._utils._rebuild_tensor_v2", for messages. */
void dl_pickle_global_text(const dl_pickle_node *x, char *out, size_t size);
