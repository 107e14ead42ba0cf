/* What each layer of a net makes and costs: zeros run through it while gradients are recorded, and the nodes of a layer
 * give its cost. */
#include <stdlib.h>
#include "core/scope.h"
#include <string.h>

#include "autograd/tape.h"
#include "core/list.h"
#include "nn/module.h"

typedef struct collector {
    dl_summary s;
    dl_layer_stat *layers;
    long cap;
    dl_names index; /* of their paths */
} collector;

/* ---------------------------------------------------------------- cost of nodes */

/* Adds a node made since `first`, once. */
static dl_status see(dl_addresses *seen, const dl_node *n, uint64_t first) {
    return !n || n->seq < first || dl_addresses_add(seen, n) >= 0 ? DL_OK : dl_failed();
}

static double elements(const dl_meta *m) {
    double n = 1;
    for (int i = 0; i < m->ndim; i++) n *= (double)m->shape[i];
    return n;
}

/* The op's count of operations, for operands that have shapes but no memory: t and at have room for them. */
static double count_flops(const dl_node *n, dl_tensor *t, dl_tensor **at) {
    dl_storage nowhere = {.refs = 1};
    for (int i = 0; i < n->nin + n->nout; i++) {
        const dl_meta *m = &n->meta[i];
        t[i] =
            (dl_tensor){.refs = 1, .ndim = m->ndim, .dtype = m->dtype, .numel = (int64_t)elements(m), .st = &nowhere};
        memcpy(t[i].shape, m->shape, sizeof m->shape);
        dl_strides_contiguous(m->ndim, m->shape, t[i].stride);
        at[i] = m->absent ? NULL : &t[i];
    }
    dl_dtype dtype = n->nin ? n->meta[0].dtype : DL_F32;
    dl_call c = {
        .op = n->op, .in = at, .out = at + n->nin, .nin = n->nin, .nout = n->nout, .attr = n->attr, .dtype = dtype};
    return n->op->flops(&c);
}

static double flops_of(const dl_node *n) {
    if (n->op->flags & DL_F_VIEW) return 0;
    if (!n->op->flops) return n->nout ? elements(&n->meta[n->nin]) : 0;
    size_t all = (size_t)(n->nin + n->nout);
    DL_FREED dl_tensor *t = malloc(all * sizeof *t), **at = malloc(all * sizeof *at);
    return t && at ? count_flops(n, t, at) : 0;
}

static double bytes_of(const dl_node *n) {
    double bytes = 0;
    for (int i = 0; i < n->nout && !(n->op->flags & DL_F_VIEW); i++) {
        const dl_meta *m = &n->meta[n->nin + i];
        if (!m->absent) bytes += elements(m) * (double)dl_dtype_size(m->dtype);
    }
    return bytes;
}

/* The results of a layer: a pack, or one tensor. */
typedef struct results {
    dl_tensor *one;
    const dl_pack *all;
} results;

static int count(results r) { return r.all ? dl_pack_count(r.all) : 1; }
static dl_tensor *result(results r, int i) { return r.all ? dl_pack_tensor(r.all, i) : r.one; }

/* Nodes that several results need count once. */
static dl_status cost(results r, uint64_t first, dl_layer_stat *l) {
    dl_addresses seen = {0};
    dl_status st = DL_OK;
    for (int i = 0; i < count(r) && st == DL_OK; i++) st = see(&seen, result(r, i)->node, first);
    for (long i = 0; i < seen.n && st == DL_OK; i++) {
        const dl_node *n = seen.at[i];
        l->flops += flops_of(n);
        l->bytes += bytes_of(n);
        for (int k = 0; k < n->nin && st == DL_OK; k++) st = see(&seen, n->edge[k].node, first);
    }
    dl_addresses_free(&seen);
    return st;
}

static double tensor_bytes(const dl_module *m) {
    dl_module_list *l = dl_module_tensors((dl_module *)m, 3);
    double bytes = 0;
    for (long i = 0; l && i < l->n; i++)
        bytes += (double)dl_numel(l->entries[i].tensor) * (double)dl_dtype_size(dl_dtype_of(l->entries[i].tensor));
    dl_module_list_free(l);
    return bytes;
}

/* ---------------------------------------------------------------- the table */

static char *first_line(dl_module *m) {
    if (!(m->row->flags & DL_L_BODY)) return dl_module_text(m);
    char *text = strdup(dl_module_name(m));
    if (!text) dl_fail(DL_ERR_MEMORY, "no memory for the table of a net");
    return text;
}

static const char *path_at(const void *c, int i) { return ((const collector *)c)->layers[i].path; }

/* A layer that runs again is one row: its work adds up, its parameters count once. */
static dl_status add_call(collector *c, int at, results r, uint64_t first) {
    dl_layer_stat more = {0};
    DL_TRY(cost(r, first, &more));
    dl_layer_stat *l = &c->layers[at];
    l->calls++, l->flops += more.flops, l->bytes += more.bytes;
    return DL_OK;
}

/* The shapes of all results, one after another. */
static dl_status take_shapes(dl_layer_stat *l, results r) {
    int n = count(r), all = 0, at = 0;
    for (int i = 0; i < n; i++) all += result(r, i)->ndim;
    int *ndims = malloc((size_t)n * sizeof *ndims);
    long *shape = malloc((size_t)(all ? all : 1) * sizeof *shape);
    l->ndims = ndims, l->shape = shape;
    if (!ndims || !shape) return dl_fail(DL_ERR_MEMORY, "no memory for the table of a net");
    for (int i = 0; i < n; at += ndims[i++]) {
        ndims[i] = result(r, i)->ndim;
        memcpy(shape + at, result(r, i)->shape, (size_t)ndims[i] * sizeof *shape);
    }
    l->outputs = n, l->ndim = ndims[0];
    return DL_OK;
}

static dl_status watch(void *ctx, const char *path, int depth, dl_module *m, dl_tensor *out, const dl_pack *all,
                       uint64_t first) {
    collector *c = ctx;
    results r = {out, all};
    int at = dl_names_find(&c->index, path, (long)strlen(path), path_at, c);
    bool tensor = dl_module_holds_tensor(m);
    if (at >= 0) return tensor ? DL_OK : add_call(c, at, r, first);
    DL_TRY(DL_LIST_ROOM(c->layers, c->s.n, c->cap));
    dl_layer_stat *l = &c->layers[c->s.n++];
    *l = (dl_layer_stat){.depth = depth, .tensor = tensor, .calls = 1};
    l->leaf = !(m->row->flags & DL_L_BODY);
    l->path = strdup(path);
    l->text = first_line(m);
    if (!l->text) return dl_failed();
    if (!l->path) return dl_fail(DL_ERR_MEMORY, "no memory for the table of a net");
    DL_TRY(take_shapes(l, r));
    DL_TRY(dl_names_add(&c->index, (int)c->s.n - 1, path_at, c));
    l->params = dl_module_params(m);
    l->bytes = tensor_bytes(m);
    return cost(r, first, l);
}

/* Layers were added when they ended, contents before containers; puts each container before its contents. */
static void containers_first(dl_layer_stat *l, long n) {
    if (n < 2) return;
    dl_layer_stat last = l[n - 1];
    memmove(l + 1, l, (size_t)(n - 1) * sizeof *l);
    l[0] = last;
    for (long from = 1; from < n;) {
        long to = from;
        while (to < n && l[to].depth > last.depth + 1) to++;
        containers_first(l + from, to - from + 1);
        from = to + 1;
    }
}

static void free_layers(dl_summary *s) {
    for (long i = 0; i < s->n; i++) {
        free((char *)s->layers[i].path);
        free((char *)s->layers[i].text);
        free((long *)s->layers[i].shape);
        free((int *)s->layers[i].ndims);
    }
    free((dl_layer_stat *)s->layers);
}

dl_summary *dl_module_summary(dl_module *m, const dl_net_input *in, int n, int device) {
    if (!m) return dl_fail_null("the net"), NULL;
    collector c = {0};
    dl_summary *s = NULL;
    dl_net_input cast[DL_NET_INPUTS];
    for (int i = 0; i < n && i < DL_NET_INPUTS; i++) {
        cast[i] = in[i];
        if (dl_dtype_is_float(in[i].dtype)) cast[i].dtype = m->dtype; /* the weights', so that nothing is cast */
    }
    dl_status st = dl_module_build_for(m, cast, n, device);
    if (st == DL_OK) st = dl_module_dry_run(m, cast, n, device, true, watch, &c);
    if (st == DL_OK && !(s = malloc(sizeof *s))) dl_fail(DL_ERR_MEMORY, "no memory for the table of a net");
    c.s.layers = c.layers;
    dl_names_free(&c.index);
    if (!s) {
        free_layers(&c.s);
        return NULL;
    }
    containers_first(c.layers, c.s.n);
    *s = c.s;
    return s;
}

void dl_summary_free(dl_summary *s) {
    if (s) free_layers(s);
    free(s);
}
