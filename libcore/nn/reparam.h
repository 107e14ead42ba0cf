/* Tensors of layers that are computed from others each time the layer runs: masked, from lengths and directions, by a
 * function of the caller. */
#pragma once

#include "nn/module.h"

enum { DL_REPARAM_TENSORS = 8 };

/* A way to compute a tensor: nn/reparams.c. */
typedef struct dl_reparam_row {
    const char *name;
    const char *layer; /* the layer in braces that does the same, and has the options; NULL: neither */
    /* What the names of the tensors behind it end in, trained ones first; none: they lie in `parametrizations`. */
    const char *suffix[4];
    int ntrained, nbuffers;
    int shaped; /* which of them has the shape of the tensor, and stays the object that the tensor was */
    /* What is trained, from a value; owned. Returns how many, -1: failed. */
    int (*split)(dl_module *m, const dl_reparam *r, dl_tensor *value, dl_tensor **out);
    /* Optional: the buffers that it begins with. */
    dl_status (*begin)(dl_module *m, const dl_reparam *r, dl_tensor *value, dl_tensor **out);
    /* The value from n trained tensors, or from the one that the former way computed, and the buffers. */
    dl_tensor *(*value)(dl_module *m, const dl_reparam *r, dl_tensor *const *t, int n);
} dl_reparam_row;

struct dl_reparam {
    dl_reparam *next; /* is applied to what this one computes, if it is of the same tensor */
    const dl_reparam_row *row;
    char *name;     /* of the tensor */
    bool inside;    /* of the layer in braces */
    bool started;   /* the tensors behind it are there */
    int ntrained;   /* of them; 0: a former one computes what it takes */
    dl_optval *opt; /* NULL: those of the layer, or none */
    dl_module *fn;  /* of a function: it, and its inverse (may be NULL) */
    dl_module *inverse;
};

const dl_reparam_row *dl_reparam_row_find(const char *name);      /* NULL, nothing recorded */
const dl_reparam_row *dl_reparam_row_of_layer(const char *layer); /* the same */
const dl_optval *dl_reparam_opt(const dl_module *m, const dl_reparam *r, const char *name);
/* The path of tensor i behind it, below the layer. */
void dl_reparam_path(const dl_reparam *r, int i, char buf[DL_PATH_MAX]);

/* ---- the life of a layer */
/* The one layer in braces; NULL with an error recorded: there is another number of them, or it has no weight. */
dl_module *dl_reparam_inner(const dl_module *m);
/* Adds what is to start when the layer is built, from "mask weight; weight_norm bias dim=-1". */
dl_status dl_reparam_read(dl_module *m, const char *text);
/* The same as text; nothing where there is none. */
void dl_reparam_write(dl_text *t, const dl_module *m);
/* Of a layer whose row is such a way: its weight is that of the layer in braces. */
dl_status dl_reparam_of_row(dl_module *m);
/* Starts those that wait: the layer has just been built. */
dl_status dl_reparam_start(dl_module *m);
/* Undoes that: the layer is not built after all. */
void dl_reparam_reset(dl_module *m);
void dl_reparam_free(dl_module *m);
/* The same in a copy. bare: they wait. `twin` gives the copy of a function, a reference. */
dl_status dl_reparam_copy(dl_module *to, const dl_module *from, bool bare, dl_module *(*twin)(void *ctx, dl_module *m),
                          void *ctx);
/* Is that tensor of the layer computed? */
bool dl_reparam_computes(const dl_module *m, const char *name);
/* The tensor that a slot has, or that it is computed from, where it lies; NULL: several. */
dl_tensor **dl_reparam_place(dl_module *m, int slot);
/* The name of the tensor with the shape of `name`, in files; NULL: it has that name itself. */
const char *dl_reparam_stored(const dl_module *m, const char *name, char buf[DL_PATH_MAX]);

/* ---- running (nn/forward.c) */
/* Computes the tensors of a layer, until dl_reparam_leave. *entered: they were not there already. */
dl_status dl_reparam_enter(dl_module *m, bool *entered);
void dl_reparam_leave(dl_module *m);
/* Is it for somebody who asked, and not for a run? */
bool dl_reparam_reading(void);
