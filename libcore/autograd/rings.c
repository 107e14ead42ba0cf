/* Rings of tensors and nodes. A history never leads back to where it began, but for one way: a leaf holds its gradient,
 * which has a history under create_graph=true, and that may hold the leaf. Such leaves are noted, and trial deletion
 * tells which of them only hold themselves: from the count of each object that can be reached from them the references
 * among these are taken away; what has one left over is held from outside, with all that it reaches. The gradients of
 * the others are dropped. */
#include "autograd/rings.h"
#include "autograd/tape.h"

#include <pthread.h>
#include <stdlib.h>

enum { FEW = 256, SLACK_BYTES = 32 << 20 };

typedef struct knot {
    dl_tensor *t; /* not counted */
    pthread_t thread;
} knot;

static struct {
    pthread_mutex_t lock;
    knot *at;
    int n, cap, due;
    long due_bytes;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .due = FEW, .due_bytes = SLACK_BYTES};

static _Thread_local bool busy;

/* ---------------------------------------------------------------- the table */

static bool leads_on(const dl_tensor *g) { return g && (g->node || g->requires_grad || g->grad || g->base); }

static bool add_knot(dl_tensor *t) {
    if (table.n == table.cap) {
        int cap = table.cap ? 2 * table.cap : FEW;
        knot *at = table.cap > (1 << 28) ? NULL : realloc(table.at, (size_t)cap * sizeof *at);
        if (!at) return false; /* without memory it is freed by its count alone */
        table.at = at, table.cap = cap;
    }
    table.at[table.n] = (knot){t, pthread_self()};
    t->knot = ++table.n;
    return true;
}

void dl_knot_forget(dl_tensor *t) {
    pthread_mutex_lock(&table.lock);
    if (t->knot) {
        table.at[t->knot - 1] = table.at[--table.n];
        table.at[t->knot - 1].t->knot = t->knot;
        t->knot = 0;
    }
    pthread_mutex_unlock(&table.lock);
}

void dl_knot_note(dl_tensor *t) {
    if (!leads_on(t->grad) || t->knot) return;
    long held = dl_memory_held();
    pthread_mutex_lock(&table.lock);
    bool due = add_knot(t) && (table.n >= table.due || held > table.due_bytes);
    pthread_mutex_unlock(&table.lock);
    if (due) dl_rings_collect();
}

/* ---------------------------------------------------------------- trial deletion */

typedef struct object {
    dl_tensor *t; /* or a node */
    dl_node *n;
    int inside; /* references from objects of the list, and from the list of knots */
    bool live;
} object;

typedef struct list {
    object *at;
    long n, cap, knots;
    long *map, size; /* open addressing, index + 1 */
    long *reached, nreached;
    bool failed;
} list;

static const void *key(const object *o) { return o->n ? (const void *)o->n : (const void *)o->t; }

static long place(const list *l, const void *what) {
    unsigned long h = ((unsigned long)(uintptr_t)what >> 4) * 0x9e3779b97f4a7c15ul;
    for (h %= (unsigned long)l->size; l->map[h]; h = (h + 1) % (unsigned long)l->size)
        if (key(&l->at[l->map[h] - 1]) == what) break;
    return (long)h;
}

static bool grow(list *l) {
    long cap = l->cap ? 2 * l->cap : 4 * FEW;
    object *at = realloc(l->at, (size_t)cap * sizeof *at);
    if (at) l->at = at;
    long *map = calloc((size_t)(3 * cap), sizeof *map);
    l->failed = !at || !map;
    if (l->failed) return free(map), false;
    free(l->map);
    l->map = map, l->size = 3 * cap, l->cap = cap;
    for (long i = 0; i < l->n; i++) l->map[place(l, key(&l->at[i]))] = i + 1;
    return true;
}

typedef void visit_fn(list *l, dl_tensor *t, dl_node *n);

static void count(list *l, dl_tensor *t, dl_node *n) {
    if ((!t && !n) || l->failed || (l->n == l->cap && !grow(l))) return;
    long h = place(l, n ? (const void *)n : (const void *)t);
    if (!l->map[h]) {
        l->at[l->n] = (object){.t = t, .n = n};
        l->map[h] = ++l->n;
    }
    l->at[l->map[h] - 1].inside++;
}

static void reach(list *l, dl_tensor *t, dl_node *n) {
    if (!t && !n) return;
    long i = l->map[place(l, n ? (const void *)n : (const void *)t)] - 1;
    if (l->at[i].live) return;
    l->at[i].live = true;
    l->reached[l->nreached++] = i;
}

static void each_held(list *l, long i, visit_fn *visit) {
    const object o = l->at[i];
    if (o.t) {
        visit(l, NULL, o.t->node);
        visit(l, o.t->base, NULL);
        visit(l, o.t->grad, NULL);
    }
    for (int k = 0; o.n && k < o.n->nin; k++) {
        visit(l, NULL, o.n->edge[k].node);
        visit(l, o.n->edge[k].leaf, NULL);
    }
}

/* A reference to a tensor, unless it is being freed. */
static bool take(dl_tensor *t) {
    int refs = __atomic_load_n(&t->refs, __ATOMIC_RELAXED);
    while (refs && !__atomic_compare_exchange_n(&t->refs, &refs, refs + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {}
    return refs;
}

static void take_knots(list *l) {
    pthread_mutex_lock(&table.lock);
    for (int i = 0; i < table.n && !l->failed; i++) {
        knot k = table.at[i];
        if (!pthread_equal(k.thread, pthread_self()) || (l->n == l->cap && !grow(l)) || !take(k.t)) continue;
        count(l, k.t, NULL);
    }
    l->knots = l->n;
    pthread_mutex_unlock(&table.lock);
}

/* Marks what is held from outside the list, and what that reaches. False: no memory. */
static bool mark(list *l) {
    if (!l->n || !(l->reached = malloc((size_t)l->n * sizeof *l->reached))) return false;
    for (long i = 0; i < l->n; i++) {
        const object *o = &l->at[i];
        int refs = __atomic_load_n(o->n ? &o->n->refs : &o->t->refs, __ATOMIC_RELAXED);
        if (refs <= o->inside) continue;
        reach(l, o->t, o->n);
        while (l->nreached) each_held(l, l->reached[--l->nreached], reach);
    }
    return true;
}

/* The next look is worth it when there is half as much again. */
static void set_due(void) {
    long held = dl_memory_held();
    pthread_mutex_lock(&table.lock);
    table.due = table.n > FEW / 2 ? 2 * table.n : FEW;
    table.due_bytes = held + (held / 2 > SLACK_BYTES ? held / 2 : SLACK_BYTES);
    pthread_mutex_unlock(&table.lock);
}

long dl_rings_collect(void) {
    list l = {0};
    long dead = 0;
    if (busy || !__atomic_load_n(&table.n, __ATOMIC_RELAXED)) return 0;
    busy = true;
    take_knots(&l);
    for (long i = 0; i < l.n && !l.failed; i++) each_held(&l, i, count);
    bool marked = !l.failed && mark(&l);
    for (long i = 0; i < l.knots; i++) {
        dl_tensor *t = l.at[i].t;
        if (marked && !l.at[i].live) {
            dl_tensor *g = t->grad;
            t->grad = NULL;
            dl_unref(g);
            dead++;
        }
        dl_unref(t);
    }
    free(l.at);
    free(l.map);
    free(l.reached);
    set_due();
    busy = false;
    return dead;
}
