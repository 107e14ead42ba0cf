/* The inside of tensors and storages. A tensor is a strided view of a reference-counted storage; history lives in nodes
 * (autograd/tape.h). Reference counts are changed with __atomic builtins, so that this header is C++17 too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"
#include "dlcore.h"

enum { DL_MAX_DIM = 8 };

typedef struct dl_node dl_node;

typedef struct dl_storage {
    int refs;
    int device;
    size_t bytes;
    void *data;
    uint64_t serial;         /* unique in the process: serial and version tell caches that the contents are the same */
    uint32_t version;        /* counts writes after creation; shared by views and detached tensors */
    int saved;               /* how often the tape holds it for a gradient rule; atomic */
    uint32_t rebased;        /* counts in-place writes that gave the base a new history; views then renew theirs */
    dl_source maker, writer; /* the statements that made it and that wrote last */
    bool wrapped;            /* the caller's memory, which is not freed here */
    bool readonly;           /* its owner lets nobody write */
    void (*release)(void *); /* for wrapped memory: called with arg instead of freeing data */
    void *arg;
    struct dl_storage *next_live, *prev_live; /* core/memory/live.c, from DL_LIVE_BYTES on */
} dl_storage;

struct dl_tensor {
    int refs;
    int8_t ndim;
    int8_t dtype;
    bool requires_grad; /* leaf only: results depend on `node` */
    bool weak;          /* a number of the language: does not decide the dtype of a result */
    int64_t offset;     /* in elements */
    int64_t numel;
    long shape[DL_MAX_DIM];
    long stride[DL_MAX_DIM];
    dl_storage *st;
    dl_node *node;    /* the op that made it, NULL for a leaf; owned */
    int out;          /* which output of node */
    int candidate;    /* place in the list of autograd/cycles.c, from 1; 0: none */
    bool weight;      /* a parameter of a net */
    dl_tensor *base;  /* differentiable view of this tensor; owned; never itself a view */
    int saved;        /* how often the tape holds it for a gradient rule; atomic */
    uint32_t rebased; /* st->rebased when node was made */
    dl_tensor *grad;
    uint32_t used; /* of a gradient: st->version + 1 when a step used it; 0: none has */
    bool again;    /* ... and it was added to since; `used` is then as of that */
    char *name;
    struct dl_hook *hooks; /* on its gradient (autograd/hooks.h) */
};

static inline size_t dl_esize(const dl_tensor *t) { return (size_t)dl_dtype_size((dl_dtype)t->dtype); }
static inline void *dl_ptr(const dl_tensor *t) { return (char *)t->st->data + t->offset * (int64_t)dl_esize(t); }

/* Can the host read its memory as it is? */
static inline bool dl_in_host_memory(const dl_tensor *t) { return t->st->device == 0; }

/* ---- storage (core/memory/storage.c) */

/* Uninitialised memory, aligned to 64 bytes except in fenced blocks (core/memory/fence.h). NULL with DL_ERR_MEMORY. */
dl_storage *dl_storage_new(size_t bytes, int device);
void dl_storage_unref(dl_storage *s);
/* The next serial, for a storage that is made elsewhere. */
uint64_t dl_storage_serial(void);
static inline dl_storage *dl_storage_ref(dl_storage *s) {
    __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}
/* Host memory from the free lists. NULL with DL_ERR_MEMORY. */
void *dl_host_alloc(size_t bytes);
void dl_host_free(void *p, size_t bytes);
/* Host bytes in use by tensors, and the highest value so far. */
size_t dl_host_bytes(void);
size_t dl_host_peak(void);
void dl_host_reset_peak(void);
/* Host bytes kept for reuse, and returning them to the system. */
size_t dl_host_cached(void);
void dl_host_empty_cache(void);

/* ---- views (core/tensor.c) */

/* A tensor header over `st` (takes a new reference), without history. DL_ERR_SHAPE as dl_shape_check. */
dl_tensor *dl_view_new(dl_storage *st, dl_dtype dtype, int ndim, const long *shape, const long *stride, int64_t offset);

/* ---- shapes (core/shape.c) */

/* Counts of elements end at 2^53: doubles hold them exactly, and 512 bytes for each are still addressed by 64 bits. */
#define DL_MAX_COUNT ((int64_t)1 << 53)
/* *n *= by. False, *n unchanged, for negative factors and beyond DL_MAX_COUNT: for all products of sizes that come from
 * files and users. */
static inline bool dl_count_mul(int64_t *n, int64_t by) {
    uint64_t product;
    if (*n < 0 || by < 0 || __builtin_mul_overflow((uint64_t)*n, (uint64_t)by, &product) || product > DL_MAX_COUNT)
        return false;
    *n = (int64_t)product;
    return true;
}
/* The number of elements. DL_ERR_SHAPE for negative sizes, more than 8 dims or more than DL_MAX_COUNT elements. */
dl_status dl_shape_check(int ndim, const long *shape, int64_t *numel);
void dl_strides_contiguous(int ndim, const long *shape, long *stride);
bool dl_strides_are_contiguous(int ndim, const long *shape, const long *stride);
/* No two indices share an element (sufficient test: strides sorted, each beyond the span of the smaller ones). */
bool dl_strides_are_dense(int ndim, const long *shape, const long *stride);
/* Do the elements of t fill a stretch of memory, without gaps or overlaps, in some order of its dimensions? */
bool dl_is_dense(const dl_tensor *t);
static inline bool dl_sizes_eq(int na, const long *a, int nb, const long *b) {
    return na == nb && !memcmp(a, b, (size_t)na * sizeof *a);
}
static inline bool dl_shape_eq(const dl_tensor *a, const dl_tensor *b) {
    return dl_sizes_eq(a->ndim, a->shape, b->ndim, b->shape);
}
/* out = the shape both broadcast to. DL_ERR_SHAPE names both shapes. */
dl_status dl_broadcast(int na, const long *a, int nb, const long *b, int *nout, long *out);
/* "[2,3]", for messages: valid in this thread until the fourth call after this one. */
const char *dl_shape_text(int ndim, const long *shape);
static inline const char *dl_shape_of(const dl_tensor *t) { return dl_shape_text(t->ndim, t->shape); }
/* The name of the dtype of t. */
static inline const char *dl_type_of(const dl_tensor *t) { return dl_dtype_name((dl_dtype)t->dtype); }
/* Normalises a dim in -ndim..ndim-1. DL_ERR_INDEX. A 0-d tensor accepts 0 and -1. */
dl_status dl_dim_norm(long dim, int ndim, int *out);
