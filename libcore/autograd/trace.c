/* What a tensor was computed from, as a list that can be drawn or printed. */
#include "autograd/tape.h"
#include "core/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A node or a leaf. */
typedef struct item {
    dl_node *node;
    dl_tensor *leaf;
} item;

/* Item i has number i in `known`. */
typedef struct trace {
    dl_tape tape; /* first: what the caller holds */
    dl_tape_node *nodes;
    long *edges;
    dl_addresses known;
    item *items; /* referenced */
    long cap;
} trace;

static const void *key(const dl_node *node, const dl_tensor *leaf) {
    return node ? (const void *)node : (const void *)leaf;
}

static dl_status add(trace *t, dl_node *node, dl_tensor *leaf) {
    long n = t->known.n;
    DL_TRY(DL_LIST_ROOM(t->items, n, t->cap));
    long i = dl_addresses_add(&t->known, key(node, leaf));
    if (i == n) t->items[n] = (item){dl_node_ref(node), dl_ref(leaf)};
    return i < 0 ? dl_failed() : DL_OK;
}

/* Ops from the newest on. */
static int by_age(const void *a, const void *b) {
    const item *x = a, *y = b;
    return (x->node->seq < y->node->seq) - (x->node->seq > y->node->seq);
}

/* Ops by age, then leaves in the order in which they were found. */
static dl_status sort(trace *t) {
    long n = t->known.n, ops = 0, nleaves = 0;
    item *leaves = malloc((size_t)(n + 1) * sizeof *leaves);
    if (!leaves) return dl_fail(DL_ERR_MEMORY, "no memory to list a history of %ld ops", n);
    for (long i = 0; i < n; i++) *(t->items[i].node ? &t->items[ops++] : &leaves[nleaves++]) = t->items[i];
    qsort(t->items, (size_t)ops, sizeof *t->items, by_age);
    memcpy(t->items + ops, leaves, (size_t)nleaves * sizeof *leaves);
    free(leaves);
    dl_addresses_clear(&t->known);
    for (long i = 0; i < n; i++) dl_addresses_add(&t->known, key(t->items[i].node, t->items[i].leaf));
    return DL_OK;
}

void dl_attrs_text(char *out, size_t size, const dl_op *op, const dl_aval *attr) {
    size_t n = 0;
    *out = 0;
    for (int k = 0; k < op->nattr && n < size; k++) {
        int i = dl_attr_listed(op, k);
        if (!attr[i].given) continue;
        char text[160], dflt[160];
        dl_attr_text(op, i, &attr[i], text, sizeof text);
        dl_attr_text(op, i, &op->defaults[i], dflt, sizeof dflt);
        if (op->defaults[i].given && !strcmp(text, dflt)) continue;
        n += (size_t)snprintf(out + n, size - n, "%s%s=%s", n ? " " : "", op->attrs[i].name, text);
    }
}

static void set_shape(dl_tape_node *x, int ndim, const long *shape, int dtype) {
    x->dtype = (dl_dtype)dtype;
    x->ndim = ndim;
    memcpy(x->shape, shape, (size_t)ndim * sizeof *shape);
}

/* Writes row i; its inputs go to edges[used...]. */
static void describe(trace *t, long i, long *used) {
    dl_tape_node *x = &t->nodes[i];
    const item *from = &t->items[i];
    *x = (dl_tape_node){.leaf = from->leaf};
    if (from->leaf) {
        set_shape(x, from->leaf->ndim, from->leaf->shape, from->leaf->dtype);
        return;
    }
    const dl_node *n = from->node;
    x->op = n->op->name;
    x->seq = (unsigned long)n->seq;
    x->file = n->src.file;
    x->line = n->src.line;
    x->layer = n->layer ? n->layer->path : "";
    x->layer_file = n->layer ? n->layer->src.file : "";
    x->layer_line = n->layer ? n->layer->src.line : 0;
    x->composite = n->composite.name;
    x->call = (unsigned long)n->composite.call;
    x->freed = n->freed;
    dl_attrs_text(x->attrs, sizeof x->attrs, n->op, n->attr);
    const dl_meta *result = &n->meta[n->nin];
    set_shape(x, result->ndim, result->shape, result->dtype);
    x->nin = n->nin;
    x->in = t->edges + *used;
    for (int k = 0; k < n->nin; k++) {
        const void *what = key(n->edge[k].node, n->edge[k].leaf);
        t->edges[(*used)++] = what ? dl_addresses_find(&t->known, what) : -1;
    }
}

static dl_status collect(trace *t, dl_tensor *y) {
    DL_TRY(dl_history_renew(y));
    if (!dl_requires_grad(y))
        return dl_fail_hint(DL_ERR_AUTOGRAD, "compute it from a tensor made with grad=true, outside no_grad",
                            "the tensor has no history");
    DL_TRY(add(t, y->node, y->node ? NULL : y));
    for (long i = 0; i < t->known.n; i++) {
        dl_node *n = t->items[i].node;
        for (int k = 0; n && k < n->nin; k++)
            if (n->edge[k].node || n->edge[k].leaf) DL_TRY(add(t, n->edge[k].node, n->edge[k].leaf));
    }
    return sort(t);
}

static dl_status fill(trace *t) {
    long n = t->known.n, nedges = 0, used = 0;
    for (long i = 0; i < n; i++) nedges += t->items[i].node ? t->items[i].node->nin : 0;
    t->nodes = malloc((size_t)n * sizeof *t->nodes);
    t->edges = malloc((size_t)(nedges + 1) * sizeof *t->edges);
    if (!t->nodes || !t->edges) return dl_fail(DL_ERR_MEMORY, "no memory to list a history of %ld ops", n);
    for (long i = 0; i < n; i++) describe(t, i, &used);
    t->tape = (dl_tape){n, t->nodes};
    return DL_OK;
}

dl_tape *dl_tape_of(dl_tensor *y) {
    if (!y) return dl_fail_null("the tensor"), NULL;
    trace *t = calloc(1, sizeof *t);
    if (!t) return dl_fail(DL_ERR_MEMORY, "no memory to list a history"), NULL;
    if (collect(t, y) == DL_OK && fill(t) == DL_OK) return &t->tape;
    dl_tape_free(&t->tape);
    return NULL;
}

unsigned long dl_tape_number(const dl_tensor *t) { return t && t->node && !t->out ? (unsigned long)t->node->seq : 0; }

void dl_tape_free(dl_tape *tape) {
    if (!tape) return;
    trace *t = (trace *)tape;
    for (long i = 0; i < t->known.n; i++) {
        dl_node_unref(t->items[i].node);
        dl_unref(t->items[i].leaf);
    }
    free(t->items);
    dl_addresses_free(&t->known);
    free(t->nodes);
    free(t->edges);
    free(t);
}
