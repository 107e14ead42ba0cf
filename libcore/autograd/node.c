/* Nodes: recording a finished call, saving tensors for the gradient rule, and destroying graphs of any depth. */
#include "autograd/tape.h"
#include "core/scope.h"
#include "dlcore/view.h"

#include <string.h>

static _Thread_local int grad_mode = 1;
static _Thread_local dl_leaf_watch leaf_watch;
static uint64_t next_seq = 1;

uint64_t dl_node_next_seq(void) { return __atomic_load_n(&next_seq, __ATOMIC_RELAXED); }

int dl_grad_mode(int on) {
    int old = grad_mode;
    grad_mode = on;
    return old;
}

int dl_grad_mode_get(void) { return grad_mode; }

bool dl_recording(void) { return grad_mode; }

dl_leaf_watch dl_watch_leaves(dl_leaf_watch watch) {
    dl_leaf_watch former = leaf_watch;
    leaf_watch = watch;
    return former;
}

static bool bit(uint32_t bits, int i) { return bits >> (i < 31 ? i : 31) & 1; }

static size_t node_bytes(const dl_node *n) {
    return sizeof *n + (size_t)n->nin * sizeof(dl_edge) + (size_t)(n->nin + n->nout) * sizeof(dl_meta) +
           (size_t)n->nsaved * sizeof(dl_saved) + (size_t)n->op->nattr * sizeof(dl_aval);
}

/* The node and its arrays are one block. */
static dl_node *node_new(const dl_call *c, int nsaved) {
    dl_node shape = {.refs = 1, .op = c->op, .nin = c->nin, .nout = c->nout, .nsaved = nsaved};
    dl_node *n = dl_host_alloc(node_bytes(&shape));
    if (!n) return NULL;
    *n = shape;
    dl_op_ref(n->op);
    n->seq = __atomic_fetch_add(&next_seq, 1, __ATOMIC_RELAXED);
    n->rng = c->rng;
    n->src = dl_source_get();
    n->layer = dl_layer_running;
    n->composite = dl_composite_running;
    n->edge = (dl_edge *)(n + 1);
    n->meta = (dl_meta *)(n->edge + n->nin);
    n->attr = (dl_aval *)(n->meta + n->nin + n->nout);
    n->saved = (dl_saved *)(n->attr + c->op->nattr);
    memset(n->edge, 0, (size_t)n->nin * sizeof *n->edge);
    memset(n->meta, 0, (size_t)(n->nin + n->nout) * sizeof *n->meta);
    memset(n->saved, 0, (size_t)nsaved * sizeof *n->saved);
    if (c->op->nattr) memcpy(n->attr, c->attr, (size_t)c->op->nattr * sizeof *n->attr);
    return n;
}

static bool wants_grad(const dl_call *c, int i) {
    dl_tensor *t = c->in[i];
    return t && !bit(c->op->nondiff_in, i) && dl_requires_grad(t);
}

static dl_status link_inputs(dl_node *n, const dl_call *c) {
    for (int i = 0; i < c->nin; i++) {
        dl_tensor *t = c->in[i];
        n->meta[i].absent = !t;
        if (!t) continue;
        n->meta[i] = dl_meta_of(t);
        if (!wants_grad(c, i)) continue;
        if (t->node) {
            n->edge[i] = (dl_edge){.node = dl_node_ref(t->node), .idx = t->out};
            continue;
        }
        if (leaf_watch.see) DL_TRY(leaf_watch.see(leaf_watch.ctx, t));
        n->edge[i] = (dl_edge){.leaf = dl_ref(t)};
    }
    return DL_OK;
}

static int count_saved(const dl_call *c) {
    int n = 0;
    for (int i = 0; i < c->nin; i++) n += c->in[i] && bit(c->op->save_in, i);
    for (int i = 0; i < c->nout; i++) n += c->out[i] && bit(c->op->save_out, i);
    return n;
}

/* Saves a header of its own, without node and base: the tensor itself may get a later history by a write in place,
 * which would lead back to this node. */
static dl_status keep(dl_saved *s, dl_tensor *t, int key) {
    dl_tensor *header = dl_detach(t);
    if (!header) return dl_failed();
    __atomic_add_fetch(&t->st->saved, 1, __ATOMIC_RELAXED);
    *s = (dl_saved){header, t->st->version, key};
    return DL_OK;
}

static dl_status save(dl_node *n, const dl_call *c) {
    int k = 0;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i] && bit(c->op->save_in, i)) DL_TRY(keep(&n->saved[k++], c->in[i], -1 - i));
    for (int i = 0; i < c->nout; i++)
        if (c->out[i] && bit(c->op->save_out, i)) DL_TRY(keep(&n->saved[k++], c->out[i], i));
    return DL_OK;
}

dl_status dl_record(const dl_call *c) {
    if (!grad_mode) return DL_OK;
    bool any = false;
    for (int i = 0; i < c->nin && !any; i++) any = wants_grad(c, i);
    if (!any) return DL_OK;
    dl_node *n = node_new(c, count_saved(c));
    if (!n) return dl_failed();
    dl_status s = link_inputs(n, c);
    if (s == DL_OK) s = save(n, c);
    for (int i = 0; i < c->nout && s == DL_OK; i++) {
        dl_tensor *t = c->out[i];
        if (!t) continue;
        n->meta[c->nin + i] = dl_meta_of(t);
        if (bit(c->op->nondiff_out, i) || !dl_dtype_is_smooth(t->dtype)) continue;
        t->node = dl_node_ref(n);
        t->out = i;
    }
    dl_node_unref(n);
    return s;
}

void dl_node_free_saved(dl_node *n) {
    for (int i = 0; i < n->nsaved; i++) {
        dl_saved *s = &n->saved[i];
        if (!s->t) continue;
        __atomic_sub_fetch(&s->t->st->saved, 1, __ATOMIC_RELAXED);
        dl_unref(s->t);
        s->t = NULL;
    }
    n->freed = true;
}

static void destroy(dl_node *n) {
    dl_node_free_saved(n);
    for (int i = 0; i < n->nin; i++) {
        dl_node_unref(n->edge[i].node);
        dl_unref(n->edge[i].leaf);
    }
    const dl_op *op = n->op;
    dl_hooks_free(&n->hooks);
    dl_host_free(n, node_bytes(n));
    dl_op_unref(op);
}

/* Destroying a node releases those it depends on: they wait in a queue, since a chain may be too long to recurse. */
void dl_node_unref(dl_node *n) {
    static _Thread_local dl_node *queue;
    static _Thread_local bool running;
    if (!n || __atomic_sub_fetch(&n->refs, 1, __ATOMIC_ACQ_REL)) return;
    n->next = queue;
    queue = n;
    if (running) return;
    running = true;
    while (queue) {
        dl_node *first = queue;
        queue = first->next;
        destroy(first);
    }
    running = false;
}

dl_status dl_history_renew(dl_tensor *t) {
    dl_tensor *base = t->base;
    if (!base || t->rebased == t->st->rebased) return DL_OK;
    dl_node_unref(t->node);
    t->node = NULL;
    t->rebased = t->st->rebased;
    if (!dl_requires_grad(base)) return DL_OK;
    if (base->dtype != t->dtype)
        return dl_fail_hint(DL_ERR_AUTOGRAD, "take the view again",
                            "the tensor that this view shows as other numbers was changed in place");
    DL_SCOPED_GRAD_MODE(1);
    DL_OWNED dl_tensor *v = dl_as_strided(base, t->shape, t->ndim, t->stride, t->ndim, t->offset);
    if (!v) return dl_failed();
    t->node = dl_node_ref(v->node);
    t->out = v->out;
    return DL_OK;
}
