/* The tape: one node for each op that ran while recording. A node refers to the nodes that made its inputs and to
 * leaves, never to a tensor that has, or can get, a history: so there are no cycles but those of autograd/cycles.c. */
#pragma once

#include "autograd/hooks.h"
#include "autograd/layer_mark.h"
#include "core/op.h"

/* Where the gradient of an input goes: to output `idx` of a node, or into a leaf's .grad; both NULL: nowhere. */
typedef struct dl_edge {
    dl_node *node;
    dl_tensor *leaf;
    int idx;
} dl_edge;

/* A tensor saved for the gradient rule: a header without history, which gets it back when a pass is itself recorded. */
typedef struct dl_saved {
    dl_tensor *t; /* counted in t->st->saved */
    uint32_t version;
    int out; /* output index, -1 - i for input i */
} dl_saved;

struct dl_node {
    int refs;
    const dl_op *op;
    uint64_t seq; /* number in the order of creation in this process */
    uint64_t rng;
    dl_source src;
    const dl_layer_mark *layer; /* that ran it; NULL: none */
    dl_composite composite;     /* whose part it is */
    dl_hook *hooks;             /* on the gradients of its outputs */
    int nin, nout, nsaved;
    bool freed;      /* its saved tensors were freed by a backward without retain */
    uint32_t passed; /* number of the last backward pass that went through it; 0: none did */
    dl_edge *edge;   /* [nin] */
    dl_meta *meta;   /* [nin + nout] */
    dl_saved *saved; /* [nsaved] */
    dl_aval *attr;   /* [op->nattr] */
    dl_node *next;   /* list of nodes being destroyed */
};

/* Makes the node of a finished call and links its outputs to it. On failure nothing is linked. */
dl_status dl_record(const dl_call *c);
void dl_node_unref(dl_node *n);
static inline dl_node *dl_node_ref(dl_node *n) {
    if (n) __atomic_add_fetch(&n->refs, 1, __ATOMIC_RELAXED);
    return n;
}
/* The number that the next node will get. */
uint64_t dl_node_next_seq(void);
void dl_node_free_saved(dl_node *n);
/* Brings a view's history up to date after an in-place write to its base. */
dl_status dl_history_renew(dl_tensor *t);
/* Calls `see` for every leaf that an op of this thread is recorded for; when it fails, so does the op. NULL: no calls.
 * Returns the former watch. */
typedef struct dl_leaf_watch {
    dl_status (*see)(void *ctx, dl_tensor *leaf);
    void *ctx;
} dl_leaf_watch;
dl_leaf_watch dl_watch_leaves(dl_leaf_watch watch);

/* Attributes that are not the defaults, cut where they do not fit. */
void dl_attrs_text(char *out, size_t size, const dl_op *op, const dl_aval *attr);

/* True while this thread records. */
bool dl_recording(void);
