/* What a function does to one sample, watched while it runs, so that the same calls can be made for all samples: the
 * calls of rows whose operands depend on the sample. */
#pragma once

#include "core/list.h"
#include "core/op.h"
#include "core/scope.h"

/* A call. Tensors are operands, then results; `id` numbers those that depend on the sample, -1: the others. */
typedef struct dl_vmap_call {
    const dl_op *op;
    dl_aval *attr;
    int nin;
    bool grad;     /* whether gradients were recorded */
    bool draws;    /* random numbers */
    dl_tensor **t; /* owned; NULL: absent */
    long *id;
    uint32_t *state; /* of an operand: its version, twice, plus 1 where it has a history */
} dl_vmap_call;

/* A place in memory with a shape: two tensors of one place are the same tensor here, whatever their histories. */
typedef struct dl_vmap_place {
    dl_storage *st;
    int64_t offset;
    int8_t dtype, ndim;
    long shape[DL_MAX_DIM], stride[DL_MAX_DIM];
} dl_vmap_place;

typedef struct dl_vmap_watch {
    struct dl_vmap_watch *outer;
    bool different;  /* random numbers differ from sample to sample */
    uint64_t before; /* storages with lower serials were there when it began */
    dl_vmap_call *call;
    long n, cap;
    dl_addresses storages; /* that hold what depends on the sample */
    dl_vmap_place *place;  /* of each id; the storage is kept alive by a call or by the sample */
    long nplaces, place_cap;
    long *slot, slots; /* hash table of places: id + 1; 0: free */
    const dl_op *drew; /* the first row that drew random numbers */
    char stop[160];    /* why the calls of one sample do not stand for those of all; "": they do */
} dl_vmap_watch;

/* The innermost watch of this thread; NULL: none. */
extern __thread dl_vmap_watch *dl_vmap_watching;

void dl_vmap_watch_begin(dl_vmap_watch *w, bool different);
void dl_vmap_watch_end(dl_vmap_watch *w);
void dl_vmap_watch_free(dl_vmap_watch *w);
/* A sample, in memory of its own. DL_ERR_MEMORY. */
dl_status dl_vmap_watch_sample(dl_vmap_watch *w, const dl_tensor *t);
/* At the end: finds what depends on the sample, and numbers it. DL_ERR_MEMORY. */
dl_status dl_vmap_watch_close(dl_vmap_watch *w);
/* The id of a tensor; -1: it does not depend on the sample. */
long dl_vmap_watch_id(const dl_vmap_watch *w, const dl_tensor *t);
/* Does it depend on the sample, whether or not it has an id? */
bool dl_vmap_watch_depends(const dl_vmap_watch *w, const dl_tensor *t);

/* The side of those who run calls and look at values, where dl_vmap_watching is set. */
void dl_vmap_add(const dl_call *c);
/* What is done with t has no form for many samples: `what` says what, for a message. */
void dl_vmap_meet(const dl_tensor *t, const char *what);
static inline void dl_vmap_read(const dl_tensor *t) {
    if (__builtin_expect(dl_vmap_watching != NULL, 0)) dl_vmap_meet(t, "it looks at the values of a tensor");
}

/* DL_VMAP_UNSEEN: until the end of the block what is read decides about nothing but an error, which the batch rule of
 * the row that was called finds for all samples. */
static inline dl_vmap_watch *dl_vmap_hide(void) {
    dl_vmap_watch *w = dl_vmap_watching;
    dl_vmap_watching = NULL;
    return w;
}
static inline void dl_vmap_show(dl_vmap_watch **w) { dl_vmap_watching = *w; }
#define DL_VMAP_UNSEEN dl_vmap_watch *unseen DL_SCOPE(dl_vmap_show) = dl_vmap_hide()
