/* The tape laid open: what a tensor was computed from, as a list that can be drawn or printed. */
#include "autograd/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A node or a leaf, found through `map` by its address. */
typedef struct item {
    dl_node *node;
    dl_tensor *leaf;
} item;

typedef struct trace {
    dl_tape tape; /* first: what the caller holds */
    dl_tape_node *nodes;
    long *edges;
    item *items; /* referenced */
    long n, cap;
    long *map; /* open addressing, index + 1 */
    long size;
} trace;

static const void *key(const item *x) { return x->node ? (const void *)x->node : (const void *)x->leaf; }

static long place(const trace *t, const void *what) {
    unsigned long h = ((unsigned long)(uintptr_t)what >> 4) * 0x9e3779b97f4a7c15ul;
    for (h %= (unsigned long)t->size; t->map[h]; h = (h + 1) % (unsigned long)t->size)
        if (key(&t->items[t->map[h] - 1]) == what) break;
    return (long)h;
}

static void fill_map(trace *t) {
    memset(t->map, 0, (size_t)t->size * sizeof *t->map);
    for (long i = 0; i < t->n; i++) t->map[place(t, key(&t->items[i]))] = i + 1;
}

static dl_status grow(trace *t) {
    long cap = t->cap ? 2 * t->cap : 64;
    item *items = dl_memory_resize(t->items, t->cap, cap, sizeof *items);
    if (items) t->items = items;
    long *map = items ? dl_memory_resize(t->map, t->size, 3 * cap, sizeof *map) : NULL;
    if (!map) return dl_failed();
    t->map = map;
    t->cap = cap;
    t->size = 3 * cap;
    fill_map(t);
    return DL_OK;
}

static dl_status add(trace *t, dl_node *node, dl_tensor *leaf) {
    if (t->n == t->cap) DL_TRY(grow(t));
    long at = place(t, node ? (const void *)node : (const void *)leaf);
    if (t->map[at]) return DL_OK;
    t->items[t->n] = (item){dl_node_ref(node), leaf ? dl_ref(leaf) : NULL};
    t->map[at] = ++t->n;
    return DL_OK;
}

/* Ops from the newest on, then leaves in the order in which they were found. */
static int by_age(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (!x->node || !y->node) return (x->node == NULL) - (y->node == NULL);
    return (x->node->seq < y->node->seq) - (x->node->seq > y->node->seq);
}

/* qsort need not be stable, and leaves have no number to go by. */
static dl_status sort(trace *t) {
    item *leaves = malloc((size_t)(t->n + 1) * sizeof *leaves);
    if (!leaves) return dl_fail(DL_ERR_MEMORY, "no memory to list a history of %ld ops", t->n);
    long ops = 0, nleaves = 0;
    for (long i = 0; i < t->n; i++) {
        if (t->items[i].node)
            t->items[ops++] = t->items[i];
        else
            leaves[nleaves++] = t->items[i];
    }
    qsort(t->items, (size_t)ops, sizeof *t->items, by_age);
    if (nleaves) memcpy(t->items + ops, leaves, (size_t)nleaves * sizeof *leaves);
    free(leaves);
    fill_map(t);
    return DL_OK;
}

/* Attributes that are not the defaults, cut where they do not fit. */
static void write_attrs(char *out, size_t size, const dl_op *op, const dl_aval *attr) {
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
    x->freed = n->freed;
    write_attrs(x->attrs, sizeof x->attrs, n->op, n->attr);
    const dl_meta *result = &n->meta[n->nin];
    set_shape(x, result->ndim, result->shape, result->dtype);
    x->nin = n->nin;
    x->in = t->edges + *used;
    for (int k = 0; k < n->nin; k++) {
        const void *what = n->edge[k].node ? (const void *)n->edge[k].node : (const void *)n->edge[k].leaf;
        t->edges[(*used)++] = what ? t->map[place(t, what)] - 1 : -1;
    }
}

static dl_status collect(trace *t, dl_tensor *y) {
    DL_TRY(dl_history_renew(y));
    if (!dl_requires_grad(y))
        return dl_fail_hint(DL_ERR_AUTOGRAD, "compute it from a tensor made with grad=true, outside no_grad",
                            "the tensor has no history");
    DL_TRY(add(t, y->node, y->node ? NULL : y));
    for (long i = 0; i < t->n; i++) {
        dl_node *n = t->items[i].node;
        for (int k = 0; n && k < n->nin; k++)
            if (n->edge[k].node || n->edge[k].leaf) DL_TRY(add(t, n->edge[k].node, n->edge[k].leaf));
    }
    return sort(t);
}

dl_tape *dl_tape_of(dl_tensor *y) {
    if (!y) return dl_fail_null("the tensor"), NULL;
    trace *t = calloc(1, sizeof *t);
    if (!t) {
        dl_fail(DL_ERR_MEMORY, "no memory to list a history");
        return NULL;
    }
    long nedges = 0, used = 0;
    if (collect(t, y) != DL_OK) goto fail;
    for (long i = 0; i < t->n; i++) nedges += t->items[i].node ? t->items[i].node->nin : 0;
    t->nodes = malloc((size_t)t->n * sizeof *t->nodes);
    t->edges = malloc((size_t)(nedges + 1) * sizeof *t->edges);
    if (!t->nodes || !t->edges) {
        dl_fail(DL_ERR_MEMORY, "no memory to list a history of %ld ops", t->n);
        goto fail;
    }
    for (long i = 0; i < t->n; i++) describe(t, i, &used);
    t->tape = (dl_tape){t->n, t->nodes};
    return &t->tape;
fail:
    dl_tape_free(&t->tape);
    return NULL;
}

unsigned long dl_tape_number(const dl_tensor *t) { return t && t->node && !t->out ? (unsigned long)t->node->seq : 0; }

void dl_tape_free(dl_tape *tape) {
    if (!tape) return;
    trace *t = (trace *)tape;
    for (long i = 0; i < t->n; i++) {
        dl_node_unref(t->items[i].node);
        dl_unref(t->items[i].leaf);
    }
    free(t->items);
    free(t->map);
    free(t->nodes);
    free(t->edges);
    free(t);
}
