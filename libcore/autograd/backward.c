/* Backward: runs gradient rules from the newest node to the oldest. A node's sequence number is higher than those of
 * all nodes it depends on, so the highest one in the heap has received every contribution. Leaves get their gradients
 * last, all at once: a pass that fails or is interrupted changes none. */
#include "autograd/cycles.h"
#include "autograd/journal.h"
#include "autograd/nonfinite.h"
#include "autograd/recording.h"
#include "autograd/tape.h"
#include "autograd/vmap.h"
#include "core/device/device.h"
#include "core/list.h"
#include "core/op_times.h"
#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A node or leaf that has received a gradient. */
typedef struct slot {
    dl_node *node;
    dl_tensor *leaf;
    dl_tensor *g[DL_MAX_OUT]; /* owned */
} slot;

/* Slot i is that of the node or leaf with number i in `known`; the heap holds slots of nodes to be run, by seq. */
typedef struct pass {
    dl_addresses known;
    slot *slots;
    long *heap, nheap, cap, heap_cap;
    bool retain, create;
    bool recorded;      /* was the caller recording? */
    dl_tensor **inputs; /* of dl_gradients: tensors whose gradients are wanted, and the gradients */
    int ninputs;
    dl_tensor **out;
    uint32_t number;
    const char *taken; /* the op of an earlier pass whose result an op takes in; NULL: there is none */
    dl_source joint_at, taken_at;
} pass;

static void heap_push(pass *p, long s) {
    long i = p->nheap++;
    for (; i > 0; i = (i - 1) / 2) {
        long up = p->heap[(i - 1) / 2];
        if (p->slots[up].node->seq >= p->slots[s].node->seq) break;
        p->heap[i] = up;
    }
    p->heap[i] = s;
}

static long heap_pop(pass *p) {
    long top = p->heap[0], last = p->heap[--p->nheap], i = 0;
    for (;;) {
        long k = 2 * i + 1;
        if (k >= p->nheap) break;
        if (k + 1 < p->nheap && p->slots[p->heap[k + 1]].node->seq > p->slots[p->heap[k]].node->seq) k++;
        if (p->slots[p->heap[k]].node->seq <= p->slots[last].node->seq) break;
        p->heap[i] = p->heap[k];
        i = k;
    }
    p->heap[i] = last;
    return top;
}

static dl_status slot_of(pass *p, const dl_edge *e, long *out) {
    long n = p->known.n;
    DL_TRY(DL_LIST_ROOM(p->slots, n, p->cap));
    DL_TRY(DL_LIST_ROOM(p->heap, n, p->heap_cap));
    *out = dl_addresses_add(&p->known, e->node ? (const void *)e->node : (const void *)e->leaf);
    if (*out < 0) return dl_failed();
    if (*out < n) return DL_OK;
    p->slots[n] = (slot){.node = dl_node_ref(e->node), .leaf = dl_ref(e->leaf)};
    if (e->node) heap_push(p, n);
    return DL_OK;
}

/* Adds g, whose reference it takes, to the gradient of an edge's target. */
static dl_status contribute(pass *p, const dl_edge *e, dl_tensor *g) {
    long s;
    dl_status st = slot_of(p, e, &s);
    if (st != DL_OK) {
        dl_unref(g);
        return st;
    }
    dl_tensor **at = &p->slots[s].g[e->node ? e->idx : 0];
    if (!*at) return *at = g, DL_OK;
    dl_tensor *sum = dl_add(*at, g);
    dl_unref(g);
    if (!sum) return dl_failed();
    dl_unref(*at);
    *at = sum;
    return DL_OK;
}

static bool is_real(const dl_back *b) {
    for (int i = 0; i < b->nin; i++)
        if (!b->node->meta[i].absent && dl_dtype_is_complex(b->node->meta[i].dtype)) return false;
    for (int i = 0; i < b->nout; i++)
        if (b->g[i] && dl_dtype_is_complex(b->g[i]->dtype)) return false;
    return true;
}

/* Has the kernel a fused gradient for this call? */
static bool is_fused(const dl_kernel *k, const dl_back *b) {
    if (!k || !k->fused_grad || k->flags & DL_K_GRAD_BOTH) return k && k->fused_grad;
    return is_real(b) == !(k->flags & DL_K_GRAD_COMPLEX);
}

static dl_status run_rule(pass *p, dl_back *b) {
    const dl_kernel *k = NULL;
    const int device = dl_back_device(b);
    const bool calls_rows = p->create || dl_vmap_watching;
    if (!calls_rows && is_fused(k = dl_kernel_of(b->op, device), b)) {
        dl_status s = __builtin_expect(dl_timer != NULL, 0) ? dl_times_run_fused(k, b) : k->fused_grad(b);
        if (s != DL_OK || __builtin_expect(!dl_nonfinite_suspects(device == 0), 1)) return s;
        return device ? dl_nonfinite_check_rule_device(b) : dl_nonfinite_check_rule(b);
    }
    if (!b->op->grad) return dl_fail(DL_ERR_AUTOGRAD, "%s has no gradient", b->op->name);
    return b->op->grad(b);
}

/* A node that no pass went through takes in one of an earlier pass. */
static void note_joint(pass *p, const dl_node *n, const dl_node *from) {
    p->taken = from->op->name, p->taken_at = from->src, p->joint_at = n->src;
    if (!p->inputs) dl_journal_reached(&n->src, &from->src, from->passed);
}

/* Hooks on the gradients of the node in a slot; they are copied to g. */
static dl_status run_hooks(pass *p, long index, dl_tensor **g) {
    dl_node *n = p->slots[index].node;
    if (__builtin_expect(n->hooks != NULL, 0)) DL_TRY(dl_hooks_run_node(n, p->number, p->slots[index].g));
    memcpy(g, p->slots[index].g, sizeof p->slots[index].g);
    return DL_OK;
}

static dl_status run_node(pass *p, long index) {
    dl_node *n = p->slots[index].node;
    dl_tensor *g[DL_MAX_OUT]; /* the slots may move while contributions are made */
    DL_TRY(run_hooks(p, index, g));
    dl_tensor *small[16] = {0}, **gin = n->nin <= 16 ? small : calloc((size_t)n->nin, sizeof *gin);
    if (!gin) return dl_fail(DL_ERR_MEMORY, "no memory for %d gradients", n->nin);
    dl_back b = {.node = n,
                 .op = n->op,
                 .attr = n->attr,
                 .nin = n->nin,
                 .nout = n->nout,
                 .g = g,
                 .gin = gin,
                 .create_graph = p->create,
                 .retain = p->retain};
    for (int i = 0; i < n->nin; i++)
        if (n->edge[i].node || n->edge[i].leaf) b.need |= 1ul << (i < 63 ? i : 63);
    bool outer = dl_stop_swap(false);
    const dl_node *outer_rule = dl_nonfinite_rule(n);
    dl_status s = run_rule(p, &b);
    dl_nonfinite_rule(outer_rule);
    if (__builtin_expect(dl_recorder != NULL, 0) && s == DL_OK) dl_recording_add_rule(&b);
    if (__builtin_expect(dl_journal_looking != NULL, 0) && s == DL_OK) dl_journal_node_add(&b);
    if (dl_stop_swap(outer)) s = dl_fail(DL_ERR_INTERRUPT, "interrupted");
    for (int i = 0; i < n->nin && !p->taken && !n->passed; i++)
        if (n->edge[i].node && n->edge[i].node->passed) note_joint(p, n, n->edge[i].node);
    if (s != DL_OK) dl_error_hint("raised by the gradient of %s, made at %s:%d", n->op->name, n->src.file, n->src.line);
    for (int i = 0; i < n->nin; i++) {
        const dl_edge *e = &n->edge[i];
        if (s == DL_OK && gin[i] && (e->node || e->leaf))
            s = contribute(p, e, gin[i]);
        else
            dl_unref(gin[i]);
    }
    for (int i = 0; i < b.ntmp; i++) dl_unref(b.tmp[i]);
    free(b.tmp);
    if (gin != small) free(gin);
    if (s == DL_OK && !p->retain) dl_node_free_saved(n);
    n->passed = p->number;
    return s;
}

/* Of dl_gradients: the complete gradient of a slot, where it is wanted. */
static void give_result(pass *p, const slot *s) {
    for (int i = 0; i < p->ninputs; i++) {
        const dl_tensor *t = p->inputs[i];
        bool hit = s->node ? t->node == s->node : t == s->leaf;
        if (hit && !p->out[i]) p->out[i] = dl_ref(s->g[s->node ? t->out : 0]);
    }
}

static bool sole_owner(const dl_tensor *t) {
    return t->refs == 1 && t->st->refs == 1 && !t->st->wrapped && !t->node && dl_is_contiguous(t);
}

/* Into a leaf's .grad: the gradient itself when nobody else holds it, else a copy; one that is there is added to in
 * place, so that its memory stays where it is. */
static dl_status accumulate(dl_tensor *leaf, dl_tensor **g, bool create) {
    dl_tensor *old = leaf->grad;
    if (__builtin_expect(dl_vmap_watching != NULL, 0)) dl_vmap_meet(*g, "it adds a gradient to a leaf");
    if (!old) {
        leaf->grad = create || sole_owner(*g) ? dl_ref(*g) : dl_clone(*g);
        if (!leaf->grad) return dl_failed();
        if (create) dl_cycle_check(leaf);
        return DL_OK;
    }
    DL_OWNED dl_tensor *sum = dl_add(old, *g);
    if (!sum) return dl_failed();
    if (!create) {
        uint32_t version = old->st->version;
        DL_TRY(dl_assign(old, sum));
        dl_journal_added(old, version);
        return DL_OK;
    }
    leaf->grad = dl_ref(sum);
    dl_unref(old);
    dl_cycle_check(leaf);
    return DL_OK;
}

/* Hooks behind the sum see the leaf itself. */
static dl_status give_leaf(const pass *p, slot *s) {
    DL_TRY(accumulate(s->leaf, &s->g[0], p->create));
    if (!s->leaf->hooks || !s->leaf->grad) return DL_OK;
    dl_tensor *behind[DL_HOOK_BEHIND + 1] = {[DL_HOOK_BEHIND] = dl_ref(s->leaf)};
    dl_status st = dl_hooks_run_outputs(s->leaf->hooks, behind);
    dl_unref(behind[DL_HOOK_BEHIND]);
    return st;
}

static dl_status give_leaves(pass *p) {
    for (long i = 0; i < p->known.n; i++)
        if (p->slots[i].leaf && __builtin_expect(p->slots[i].leaf->hooks != NULL, 0))
            DL_TRY(dl_hooks_run_outputs(p->slots[i].leaf->hooks, p->slots[i].g));
    for (long i = 0; i < p->known.n; i++) {
        if (!p->slots[i].leaf) continue;
        if (p->inputs)
            give_result(p, &p->slots[i]);
        else
            DL_TRY(give_leaf(p, &p->slots[i]));
    }
    return DL_OK;
}

/* Of dl_gradients: are all gradients there? Leaves have theirs at the end alone. */
static bool all_given(const pass *p) {
    for (int i = 0; i < p->ninputs; i++)
        if (!p->out[i]) return false;
    return p->ninputs > 0;
}

static dl_status walk(pass *p) {
    while (p->nheap && !all_given(p)) {
        long s = heap_pop(p);
        dl_status st = dl_interrupt_check();
        if (st == DL_OK) st = run_node(p, s);
        if (st == DL_ERR_INTERRUPT)
            return dl_fail(DL_ERR_INTERRUPT, "backward was interrupted; no gradient was changed");
        DL_TRY(st);
        if (p->inputs) give_result(p, &p->slots[s]);
        for (int i = 0; i < DL_MAX_OUT; i++) {
            dl_unref(p->slots[s].g[i]);
            p->slots[s].g[i] = NULL;
        }
    }
    DL_SCOPED_INTERRUPT_HOLD(1);
    return give_leaves(p);
}

static void pass_free(pass *p) {
    for (long i = 0; i < p->known.n; i++) {
        for (int k = 0; k < DL_MAX_OUT; k++) dl_unref(p->slots[i].g[k]);
        dl_unref(p->slots[i].leaf);
        dl_node_unref(p->slots[i].node);
    }
    free(p->slots);
    free(p->heap);
    dl_addresses_free(&p->known);
}

static dl_status check_root(const pass *p, dl_tensor *t, dl_tensor *seed) {
    if (!t) return dl_fail_null("the tensor");
    if (!dl_requires_grad(t))
        return dl_fail_hint(DL_ERR_AUTOGRAD,
                            p->recorded ? "make a leaf with param(x) or tensor(..., grad=true) and compute from it"
                                        : "nothing is recorded here, as within no_grad { ... }; within "
                                          "enable_grad { ... } it is",
                            "this tensor of shape %s depends on nothing that needs a gradient", dl_shape_of(t));
    if (!seed && t->numel != 1)
        return dl_fail_hint(DL_ERR_SHAPE, "reduce it with sum() or mean(), or give a gradient to start from",
                            "backward starts from one number, not from shape %s", dl_shape_of(t));
    if (!seed && dl_dtype_is_complex(t->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "take its abs() or real(), or give a gradient to start from",
                            "backward starts from a real number, not from a complex one");
    if (seed && !dl_shape_eq(t, seed))
        return dl_fail(DL_ERR_SHAPE, "the gradient to start from has shape %s, the tensor %s", dl_shape_of(seed),
                       dl_shape_of(t));
    return DL_OK;
}

static dl_status seed_root(pass *p, dl_tensor *t, dl_tensor *seed) {
    DL_TRY(check_root(p, t, seed));
    dl_tensor *g = seed ? dl_to_dtype(seed, t->dtype) : dl_full(t->shape, t->ndim, 1, t->dtype, t->st->device);
    if (!g) return dl_failed();
    dl_edge root = {.node = t->node, .leaf = t->node ? NULL : t, .idx = t->out};
    return contribute(p, &root, g);
}

/* A pass that failed in the history of an earlier one: says which op takes that in. */
static void blame_joint(const pass *p, dl_status st) {
    dl_error e;
    if (st != DL_ERR_AUTOGRAD || !p->taken || !dl_error_take(&e)) return;
    snprintf(e.hint, sizeof e.hint,
             "%s:%d takes in the result of %s (%s:%d), which an earlier backward pass went through already: compute "
             "that anew for each pass, or detach() it there; a sum that is only to be shown adds item()",
             p->joint_at.file, p->joint_at.line, p->taken, p->taken_at.file, p->taken_at.line);
    dl_error_put(&e);
}

static _Thread_local int running; /* passes, one within another */

/* From m roots; seed NULL: none has one. */
static dl_status run_pass(pass *p, dl_tensor *const *t, dl_tensor *const *seed, int m) {
    p->recorded = dl_grad_mode_get();
    DL_SCOPED_GRAD_MODE(p->create);
    dl_status s = DL_OK;
    for (int i = 0; i < m && s == DL_OK; i++) s = seed_root(p, t[i], seed ? seed[i] : NULL);
    p->number = dl_journal_pass_number();
    running++;
    if (s == DL_OK) s = walk(p);
    running--;
    blame_joint(p, s);
    pass_free(p);
    return s;
}

dl_status dl_backward(dl_tensor *t, dl_tensor *seed, int retain, int create) {
    pass p = {.retain = retain || create, .create = create};
    long row = dl_journal_backward_begin(t);
    dl_status st = run_pass(&p, &t, &seed, 1);
    dl_journal_backward_end(row);
    return st;
}

/* A pass of its own, as a training has it that takes gradients as values; not one that another pass needs. */
static bool is_own_pass(dl_tensor *const *t, dl_tensor *const *seed, int m, dl_tensor *const *inputs, int n,
                        int create) {
    if (running || create || m != 1 || !t[0] || t[0]->numel != 1 || (seed && seed[0])) return false;
    for (int i = 0; i < n; i++)
        if (!inputs[i] || !dl_is_leaf(inputs[i])) return false;
    return true;
}

dl_status dl_gradients_of(dl_tensor **t, dl_tensor **seed, int m, dl_tensor **inputs, int n, int retain, int create,
                          dl_tensor **out) {
    const bool own = is_own_pass(t, seed, m, inputs, n, create);
    for (int i = 0; i < n; i++) {
        out[i] = NULL;
        if (!inputs[i]) return dl_fail_null("an input");
        DL_TRY(dl_history_renew(inputs[i]));
    }
    pass p = {.retain = retain || create, .create = create, .inputs = inputs, .ninputs = n, .out = out};
    const long row = own ? dl_journal_backward_begin(t[0]) : -1;
    dl_status s = run_pass(&p, t, seed, m);
    dl_journal_backward_end(row);
    if (own && s == DL_OK) dl_journal_given(inputs, n);
    for (int i = 0; s != DL_OK && i < n; i++) {
        dl_unref(out[i]);
        out[i] = NULL;
    }
    return s;
}

dl_status dl_gradients(dl_tensor *t, dl_tensor *seed, dl_tensor **inputs, int n, int retain, int create,
                       dl_tensor **out) {
    return dl_gradients_of(&t, &seed, 1, inputs, n, retain, create, out);
}
