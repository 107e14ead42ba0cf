/* Functions whose ops save nothing (activation checkpoints). A call is one node, whose inputs are the arguments and the
 * leaves that the function used; its rule calls the function again, and goes backward through what that records. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "core/list.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "dlcore/view.h"

typedef struct repeat {
    dl_op op; /* first: a row is its repeat */
    int uses; /* the call itself, and nodes */
    dl_tensor_fn *fn;
    void *arg;
    void (*release)(void *arg);
    int n, nout;                /* arguments and results */
    dl_tensor *out[DL_MAX_OUT]; /* results of the first call, until they are handed over */
    dl_rng_at rng;              /* where the first call began */
    dl_precision precision;
} repeat;

static void unref_all(dl_tensor **t, long n) {
    for (long i = 0; i < n; i++) {
        dl_unref(t[i]);
        t[i] = NULL;
    }
}

static void repeat_free(const dl_op *op) {
    repeat *r = (repeat *)op;
    unref_all(r->out, r->nout);
    if (r->release) r->release(r->arg);
    free(r);
}

/* ---- calls of the function */

/* An argument of a call: the tensor itself where it needs no gradient, else a leaf of the same memory or, where
 * gradients of gradients are wanted, a view. */
static dl_tensor *argument(dl_tensor *x, bool wanted, bool create) {
    if (!wanted) return dl_detach(x);
    if (create) return dl_reshape(x, x->shape, x->ndim);
    dl_tensor *leaf = dl_detach(x);
    if (leaf && dl_set_requires_grad(leaf, 1) == DL_OK) return leaf;
    dl_unref(leaf);
    return NULL;
}

/* Results in out; their number, -1 for a failure. */
static int call(const repeat *r, dl_tensor **in, dl_tensor **out) {
    DL_SCOPED_GRAD_MODE(1);
    return r->fn(in, r->n, out, DL_MAX_OUT, r->arg);
}

/* The same from where the first call began, with its precision. */
static int call_again(const repeat *r, dl_tensor **in, dl_tensor **out) {
    const dl_rng_at here = dl_rng_here();
    const dl_precision now = dl_precision_get();
    dl_rng_go(&r->rng);
    if (dl_precision_set(r->precision) != DL_OK) return -1;
    int n = call(r, in, out);
    dl_precision_set(now);
    dl_rng_go(&here);
    if (n < 0 || n == r->nout) return n;
    unref_all(out, n);
    return dl_fail(DL_ERR_STATE, "a recomputed function gave %d results and then %d", r->nout, n), -1;
}

/* ---- the leaves that a call used */

typedef struct leaves {
    dl_addresses nodes; /* to look at */
    dl_addresses seen;  /* leaves, with a reference each */
    uint64_t first;     /* of the nodes of the call */
} leaves;

static void leaves_free(leaves *l) {
    for (long i = 0; i < l->seen.n; i++) dl_unref((dl_tensor *)l->seen.at[i]);
    dl_addresses_free(&l->nodes);
    dl_addresses_free(&l->seen);
}

static dl_status add_leaf(leaves *l, dl_tensor *leaf) {
    const long n = l->seen.n;
    if (dl_addresses_add(&l->seen, leaf) < 0) return dl_failed();
    if (l->seen.n > n) dl_ref(leaf);
    return DL_OK;
}

static dl_status add_edge(leaves *l, const dl_edge *e) {
    if (e->leaf) return add_leaf(l, e->leaf);
    if (!e->node) return DL_OK;
    if (e->node->seq < l->first)
        return dl_fail_hint(DL_ERR_AUTOGRAD, "pass it as an argument, or detach() it",
                            "a recomputed function uses a tensor with a history, of %s at %s:%d, that is not among its "
                            "arguments",
                            e->node->op->name, e->node->src.file, e->node->src.line);
    return dl_addresses_add(&l->nodes, e->node) < 0 ? dl_failed() : DL_OK;
}

static dl_status find_leaves(leaves *l, dl_tensor *const *out, int n) {
    for (int k = 0; k < n; k++)
        if (out[k]->node) DL_TRY(add_edge(l, &(dl_edge){.node = out[k]->node}));
    for (long i = 0; i < l->nodes.n; i++) {
        const dl_node *node = l->nodes.at[i];
        for (int k = 0; k < node->nin; k++) DL_TRY(add_edge(l, &node->edge[k]));
    }
    return DL_OK;
}

/* ---- the node */

/* Hands the results of the first call over. When the call runs again, as for a debugger, so does the function. */
static dl_status compose_repeat(dl_call *c) {
    repeat *r = (repeat *)c->op;
    dl_tensor *out[DL_MAX_OUT] = {0};
    const bool first = r->out[0] != NULL;
    if (!first && call_again(r, c->in, out) < 0) return dl_failed();
    for (int k = 0; k < r->nout; k++) {
        c->out[k] = first ? r->out[k] : dl_detach(out[k]);
        if (first)
            r->out[k] = NULL;
        else
            dl_unref(out[k]);
        if (!c->out[k]) return dl_failed();
    }
    return DL_OK;
}

static bool wants(const dl_back *b, int i) { return b->node->edge[i].node || b->node->edge[i].leaf; }

/* The gradients g[nin] of the results out. */
static dl_status go_back(dl_back *b, dl_tensor **in, dl_tensor **out, int nout, dl_tensor **g) {
    dl_tensor *root[DL_MAX_OUT], *seed[DL_MAX_OUT];
    int m = 0, n = 0;
    for (int k = 0; k < nout; k++)
        if (b->g[k] && dl_requires_grad(out[k])) root[m] = out[k], seed[m++] = b->g[k];
    DL_FREED dl_tensor **of = calloc((size_t)b->nin + 1, sizeof(dl_tensor *));
    DL_FREED dl_tensor **made = calloc((size_t)b->nin + 1, sizeof(dl_tensor *));
    if (!of || !made) return dl_fail(DL_ERR_MEMORY, "no memory for the gradients of a recomputed function");
    for (int i = 0; i < b->nin; i++)
        if (wants(b, i)) of[n++] = in[i];
    if (m) DL_TRY(dl_gradients_of(root, seed, m, of, n, 0, b->create_graph, made));
    for (int i = 0, k = 0; i < b->nin; i++)
        if (wants(b, i)) g[i] = made[k++];
    return DL_OK;
}

static dl_status grad_repeat(dl_back *b) {
    const repeat *r = (const repeat *)b->op;
    dl_tensor *out[DL_MAX_OUT] = {0};
    DL_FREED dl_tensor **in = calloc((size_t)b->nin + 1, sizeof(dl_tensor *));
    DL_FREED dl_tensor **g = calloc((size_t)b->nin + 1, sizeof(dl_tensor *));
    if (!in || !g) return dl_fail(DL_ERR_MEMORY, "no memory for the arguments of a recomputed function");
    for (int i = 0; i < b->nin; i++) {
        dl_tensor *saved = dl_saved_in(b, i); /* of a leaf, to see that it is as it was */
        if (!saved) return dl_failed();
        in[i] = i < r->n ? dl_tmp(b, argument(saved, wants(b, i), b->create_graph)) : b->node->edge[i].leaf;
        if (!in[i]) return dl_failed();
    }
    int nout = call_again(r, in, out);
    dl_status st = nout < 0 ? dl_failed() : go_back(b, in, out, nout, g);
    unref_all(out, nout < 0 ? 0 : nout);
    for (int i = 0; i < b->nin; i++)
        if (st == DL_OK && g[i])
            st = dl_give(b, i, g[i]);
        else
            dl_unref(g[i]);
    return st;
}

static repeat *repeat_new(dl_tensor_fn *fn, void *arg, void (*release)(void *arg), int n) {
    repeat *r = calloc(1, sizeof *r);
    if (!r) return dl_fail(DL_ERR_MEMORY, "no memory for a checkpoint"), NULL;
    *r = (repeat){.uses = 1,
                  .fn = fn,
                  .arg = arg,
                  .release = release,
                  .n = n,
                  .rng = dl_rng_here(),
                  .precision = dl_precision_get()};
    r->op = (dl_op){.name = "recompute",
                    .doc = "A function whose ops save nothing.",
                    .formula = "",
                    .id = -1,
                    .in_max = DL_MAX_IN,
                    .in_name = {"tensors"},
                    .save_in = ~0u,
                    .flags = DL_F_COMPOSITE | DL_F_COMPLEX | DL_F_INTERNAL,
                    .promote = DL_P_NONE,
                    .compose = compose_repeat,
                    .grad = grad_repeat,
                    .uses = &r->uses,
                    .release = repeat_free};
    return r;
}

/* The first call: its results without history in r->out, the leaves that it used in *l, those in arg[n] of the
 * arguments among them. */
static dl_status begin(repeat *r, dl_tensor **in, dl_tensor **arg, leaves *l) {
    dl_tensor *out[DL_MAX_OUT] = {0};
    dl_status st = DL_OK;
    l->first = dl_node_next_seq();
    for (int i = 0; i < r->n && st == DL_OK; i++)
        if (!(arg[i] = argument(in[i], dl_requires_grad(in[i]), false))) st = dl_failed();
    int n = st == DL_OK ? call(r, arg, out) : -1;
    if (n < 0) st = dl_failed();
    if (st == DL_OK) st = find_leaves(l, out, n);
    for (int k = 0; k < n && st == DL_OK; k++, r->nout++)
        if (!(r->out[k] = dl_detach(out[k]))) st = dl_failed();
    unref_all(out, n < 0 ? 0 : n); /* and with them what the call recorded */
    return st;
}

static bool is_among(dl_tensor *const *t, int n, const void *x) {
    for (int i = 0; i < n; i++)
        if (t[i] == x) return true;
    return false;
}

/* The results, tied to the arguments and to the leaves that are not those in arg, made for the call. */
static dl_status record(repeat *r, dl_tensor **in, dl_tensor *const *arg, const leaves *l, dl_tensor **out) {
    int n = 0;
    DL_FREED dl_tensor **all = calloc((size_t)r->n + (size_t)l->seen.n + 1, sizeof(dl_tensor *));
    if (!all) return dl_fail(DL_ERR_MEMORY, "no memory for the inputs of a recomputed function");
    for (int i = 0; i < r->n; i++) all[n++] = in[i];
    for (long i = 0; i < l->seen.n; i++)
        if (!is_among(arg, r->n, l->seen.at[i])) all[n++] = (dl_tensor *)l->seen.at[i];
    if (n > DL_MAX_IN)
        return dl_fail(DL_ERR_VALUE, "a recomputed function uses %d tensors that need gradients; it may use %d", n,
                       DL_MAX_IN);
    r->op.in_min = n;
    r->op.out = r->op.visible = r->nout;
    return dl_invoke(&r->op, all, n, NULL, out);
}

dl_status dl_recompute(dl_tensor_fn *fn, void *arg, void (*release)(void *arg), dl_tensor **in, int n, dl_tensor **out,
                       int *nout) {
    repeat *r = NULL;
    dl_tensor *made[DL_MAX_RESULTS] = {0};
    leaves l DL_SCOPE(leaves_free) = {0};
    dl_status st = !fn ? dl_fail_null("the function of a recomputed function") : DL_OK;
    if (st == DL_OK && (n < 0 || n > DL_MAX_RESULTS))
        st = dl_fail(DL_ERR_VALUE, "a recomputed function takes at most %d tensors, not %d", DL_MAX_RESULTS, n);
    for (int i = 0; i < n && st == DL_OK; i++) st = in[i] ? dl_history_renew(in[i]) : dl_fail_null("an argument");
    if (st == DL_OK && !dl_recording()) {
        int results = fn(in, n, out, DL_MAX_OUT, arg);
        if (results < 0) st = dl_failed();
        if (results >= 0) *nout = results;
    } else if (st == DL_OK && !(r = repeat_new(fn, arg, release, n)))
        st = dl_failed();
    if (!r) {
        if (release) release(arg);
        return st;
    }
    st = begin(r, in, made, &l);
    *nout = r->nout;
    if (st == DL_OK && r->nout) st = record(r, in, made, &l, out);
    unref_all(made, n);
    dl_op_unref(&r->op);
    return st;
}
