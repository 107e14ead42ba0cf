/* Collecting reference cycles. A history leads back to where it began in one way only: a leaf holds its gradient, which
 * has a history under create_graph=true, and that may hold the leaf. Such leaves are candidates. Trial deletion finds
 * those that are held by nothing else: of each object reachable from them, the references among these objects are
 * subtracted from its count; an object with references left is held from outside, and so is what it reaches. The
 * gradients of the other candidates are dropped. */
#include "autograd/cycles.h"
#include "autograd/tape.h"
#include "core/list.h"
#include "core/scope.h"

#include <pthread.h>
#include <stdlib.h>

/* A collection starts when there are FEW candidates, or tensors hold SLACK_BYTES more than after the last one. */
enum { FEW = 256, SLACK_BYTES = 32 << 20 };

typedef struct candidate {
    dl_tensor *t; /* not counted */
    pthread_t thread;
} candidate;

static struct {
    pthread_mutex_t lock;
    candidate *at;
    long n, cap, due, due_bytes;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .due = FEW, .due_bytes = SLACK_BYTES};

static _Thread_local bool busy;

/* ---------------------------------------------------------------- candidates */

static bool leads_on(const dl_tensor *g) { return g && (g->node || g->requires_grad || g->grad || g->base); }

/* False without memory: the tensor is then freed by its count alone. */
static bool add_candidate(dl_tensor *t) {
    DL_SCOPED_ERROR;
    if (table.n == INT32_MAX || DL_LIST_ROOM(table.at, table.n, table.cap) != DL_OK) return false;
    table.at[table.n] = (candidate){t, pthread_self()};
    t->candidate = (int)++table.n;
    return true;
}

void dl_cycle_remove(dl_tensor *t) {
    pthread_mutex_lock(&table.lock);
    if (t->candidate) {
        table.at[t->candidate - 1] = table.at[--table.n];
        table.at[t->candidate - 1].t->candidate = t->candidate;
        t->candidate = 0;
    }
    pthread_mutex_unlock(&table.lock);
}

void dl_cycle_check(dl_tensor *t) {
    if (!leads_on(t->grad) || t->candidate) return;
    long held = dl_memory_held();
    pthread_mutex_lock(&table.lock);
    bool due = add_candidate(t) && (table.n >= table.due || held > table.due_bytes);
    pthread_mutex_unlock(&table.lock);
    if (due) dl_cycles_collect();
}

/* ---------------------------------------------------------------- trial deletion */

typedef struct object {
    dl_tensor *t; /* or a node */
    dl_node *n;
    int inside; /* references from objects of the graph; the collection's own to candidates */
    bool live;
} object;

/* What can be reached from the candidates, which come first. Object i has number i in `known`. */
typedef struct graph {
    dl_addresses known;
    object *at;
    long cap, candidates;
    long *reached, nreached;
    bool failed;
} graph;

typedef void visit_fn(graph *g, dl_tensor *t, dl_node *n);

static const void *key(const dl_tensor *t, const dl_node *n) { return n ? (const void *)n : (const void *)t; }

static void count(graph *g, dl_tensor *t, dl_node *n) {
    if ((!t && !n) || g->failed) return;
    long fresh = g->known.n, i;
    g->failed = DL_LIST_ROOM(g->at, fresh, g->cap) != DL_OK || (i = dl_addresses_add(&g->known, key(t, n))) < 0;
    if (g->failed) return;
    if (i == fresh) g->at[i] = (object){.t = t, .n = n};
    g->at[i].inside++;
}

static void reach(graph *g, dl_tensor *t, dl_node *n) {
    if (!t && !n) return;
    long i = dl_addresses_find(&g->known, key(t, n));
    if (g->at[i].live) return;
    g->at[i].live = true;
    g->reached[g->nreached++] = i;
}

static void each_held(graph *g, long i, visit_fn *visit) {
    const object o = g->at[i];
    if (o.t) {
        visit(g, NULL, o.t->node);
        visit(g, o.t->base, NULL);
        visit(g, o.t->grad, NULL);
    }
    for (int k = 0; o.n && k < o.n->nin; k++) {
        visit(g, NULL, o.n->edge[k].node);
        visit(g, o.n->edge[k].leaf, NULL);
    }
}

/* A reference to a tensor, unless it is being freed. */
static bool try_ref(dl_tensor *t) {
    int refs = __atomic_load_n(&t->refs, __ATOMIC_RELAXED);
    while (refs && !__atomic_compare_exchange_n(&t->refs, &refs, refs + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {}
    return refs;
}

/* Each gets a reference, to be released outside the lock. */
static void add_candidates(graph *g) {
    pthread_mutex_lock(&table.lock);
    for (long i = 0; i < table.n && !g->failed; i++) {
        candidate c = table.at[i];
        if (!pthread_equal(c.thread, pthread_self())) continue;
        g->failed = DL_LIST_ROOM(g->at, g->known.n, g->cap) != DL_OK || dl_addresses_room(&g->known) != DL_OK;
        if (!g->failed && try_ref(c.t)) count(g, c.t, NULL);
    }
    g->candidates = g->known.n;
    pthread_mutex_unlock(&table.lock);
}

/* Marks what is held from outside the graph, and what that reaches. False: no memory. */
static bool mark(graph *g) {
    if (!g->known.n || !(g->reached = malloc((size_t)g->known.n * sizeof *g->reached))) return false;
    for (long i = 0; i < g->known.n; i++) {
        const object *o = &g->at[i];
        int refs = __atomic_load_n(o->n ? &o->n->refs : &o->t->refs, __ATOMIC_RELAXED);
        if (refs <= o->inside) continue;
        reach(g, o->t, o->n);
        while (g->nreached) each_held(g, g->reached[--g->nreached], reach);
    }
    return true;
}

/* The next collection starts when there is half as much again. */
static void set_due(void) {
    long held = dl_memory_held();
    pthread_mutex_lock(&table.lock);
    table.due = table.n > FEW / 2 ? 2 * table.n : FEW;
    table.due_bytes = held + (held / 2 > SLACK_BYTES ? held / 2 : SLACK_BYTES);
    pthread_mutex_unlock(&table.lock);
}

long dl_cycles_collect(void) {
    graph g = {0};
    long dead = 0;
    if (busy || !__atomic_load_n(&table.n, __ATOMIC_RELAXED)) return 0;
    DL_SCOPED_ERROR;
    busy = true;
    add_candidates(&g);
    for (long i = 0; i < g.known.n && !g.failed; i++) each_held(&g, i, count);
    bool marked = !g.failed && mark(&g);
    for (long i = 0; i < g.candidates; i++) {
        dl_tensor *t = g.at[i].t;
        if (marked && !g.at[i].live) {
            dl_tensor *grad = t->grad;
            t->grad = NULL;
            dl_unref(grad);
            dead++;
        }
        dl_unref(t);
    }
    free(g.at);
    free(g.reached);
    dl_addresses_free(&g.known);
    set_due();
    busy = false;
    return dead;
}
