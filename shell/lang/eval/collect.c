/* The collector of reference cycles. Values that can hold others stand in one table, oldest first. A collection looks
 * at a range of it by trial deletion: from each reference count it subtracts the references that come from within the
 * range. A value with a rest is referenced from outside (variables, the evaluator, C, older values); it lives, and so
 * does all that is reachable from it. The others are cycles. A reference that nobody reports keeps its value alive, so
 * that nothing in use is ever freed.
 *
 * The length of the range bounds the pause: new values often, then windows that move over the old ones; all values only
 * when their number or the memory of tensors has grown by a factor, or memory is short. */
#include "lang/eval/collect.h"

#include <pthread.h>
#include <stdlib.h>

#include "lang/parse/fn.h"

enum {
    LOOK = 8,                /* values tracked between two looks at the memory of tensors */
    YOUNG = 4096,            /* new values that make a collection due */
    WINDOW = 16384,          /* old values looked at in one go */
    FACTOR = 3,              /* growth of their number after which all are looked at */
    SLACK_BYTES = 32 << 20,  /* growth of memory below which none is due because of it */
    OUTSIDE_BYTES = 64 << 20 /* bytes of strings and items of lists that make one due */
};

typedef struct entry {
    dlsh_type type;
    int trial; /* references from outside the stretch; LIVE: reached from there */
    int *object;
} entry;

enum { LIVE = -1 };

static struct {
    entry *at;
    int n, cap;
    unsigned tracked; /* so far */
    int old;          /* entries below have survived a collection */
    int cursor;       /* of the window */
    long credit;      /* old values to be looked at, earned by new ones */
    int after_whole;  /* entries that were left by the last look at all of them */
    size_t held;      /* memory of tensors that makes a collection due */
    size_t outside;   /* bytes counted since the last one */
    int busy;
    pthread_t thread;
    dlsh_collect_stats stats;
} table;

int dlsh_collect_due;

/* ---------------------------------------------------------------- the table */

/* Of every tracked object the second int is its place in the table, -1: not there. */
static int *place_of(int *object) { return object + 1; }

/* What is kept for diagnoses goes first. */
static int reclaim(void) {
    if (!pthread_equal(pthread_self(), table.thread)) return 0;
    const int kept = dlsh_kept_give_up();
    return dlsh_collect_all() > 0 || kept;
}

void dlsh_collect_reclaims(void) {
    table.thread = pthread_self();
    dl_set_reclaim(reclaim);
}

static size_t memory_limit(void) {
    size_t now = (size_t)dl_memory_held();
    return now + (now / 2 > SLACK_BYTES ? now / 2 : SLACK_BYTES);
}

static int table_grow(void) {
    int cap = table.cap ? 2 * table.cap : 2 * YOUNG;
    entry *at = table.cap > (1 << 29) ? NULL : realloc(table.at, (size_t)cap * sizeof *at);
    if (!at) return 0;
    if (!table.cap) {
        table.held = memory_limit();
        dlsh_collect_reclaims();
    }
    table.at = at;
    table.cap = cap;
    return 1;
}

void dlsh_track(dlsh_value v) {
    *place_of(v.as.refs) = -1;
    if (table.n == table.cap && !table_grow()) return; /* without memory it is freed by its count alone */
    *place_of(v.as.refs) = table.n;
    table.at[table.n++] = (entry){v.type, 0, v.as.refs};
    int much = ++table.tracked % LOOK == 0 && (size_t)dl_memory_held() > table.held;
    if (much || table.n - table.old >= YOUNG) dlsh_collect_due = 1;
}

static void move(int to, int from) {
    if (to == from) return;
    table.at[to] = table.at[from];
    *place_of(table.at[to].object) = to;
}

void dlsh_untrack(dlsh_value v) {
    int i = *place_of(v.as.refs);
    if (i < 0) return;
    if (i < table.old) { /* the last old one fills the gap, the last new one that one's place */
        move(i, --table.old);
        i = table.old;
    }
    move(i, --table.n);
}

void dlsh_collect_count_bytes(size_t bytes) {
    if ((table.outside += bytes) > OUTSIDE_BYTES) dlsh_collect_due = 1;
}

/* ---------------------------------------------------------------- what a value holds */

static void each_item(const dlsh_value *v, int n, const dlsh_visitor *to) {
    for (int i = 0; i < n; i++)
        if (v[i].type >= DLSH_LIST) to->value(v[i], to->ctx);
}

static void each_of_fn(const dlsh_fn *f, const dlsh_visitor *to) {
    each_item(f->defaults, f->info->nparams, to);
    for (int i = 0; i < f->info->ncaptures; i++) to->value((dlsh_value){DLSH_CELL, {.cell = f->captured[i]}}, to->ctx);
}

static void each_held(dlsh_value v, const dlsh_visitor *to) {
    switch (v.type) {
    case DLSH_LIST: each_item(v.as.list->items, v.as.list->n, to); break;
    case DLSH_RECORD: each_item(v.as.record->values, v.as.record->n, to); break;
    case DLSH_FN: each_of_fn(v.as.fn, to); break;
    case DLSH_METHOD: each_item((dlsh_value[]){v.as.method->self, v.as.method->fn}, 2, to); break;
    case DLSH_CELL: to->value(v.as.cell->v, to->ctx); break;
    case DLSH_HANDLE:
        if (v.as.handle->cls->values) v.as.handle->cls->values(v.as.handle->self, to);
        break;
    default: break;
    }
}

/* ---------------------------------------------------------------- trial deletion */

/* A shared object that a value of the stretch leads to: an entry that is found on the way. */
typedef struct node {
    dlsh_shared is;
    int trial;
} node;

typedef struct stretch {
    int from, to;
    int *reached, n; /* entries and, numbered from `to`, nodes whose values are still to be reached */
    node *nodes;
    int nnodes, capnodes;
    int failed; /* no memory for the nodes */
} stretch;

static dlsh_value value_at(int i) { return (dlsh_value){table.at[i].type, {.refs = table.at[i].object}}; }

/* The entry of a value within the stretch, -1: none. */
static int within(const stretch *s, dlsh_value v) {
    if (!dlsh_tracked(v)) return -1;
    int i = *place_of(v.as.refs);
    return i >= s->from && i < s->to ? i : -1;
}

static void take_away(dlsh_value v, void *ctx) {
    int i = within(ctx, v);
    if (i >= 0) table.at[i].trial--;
}

static int add_node(stretch *s, dlsh_shared shared) {
    if (s->nnodes == s->capnodes) {
        int cap = s->capnodes ? 2 * s->capnodes : 64;
        node *more = s->failed ? NULL : realloc(s->nodes, (size_t)cap * sizeof *more);
        if (!more) return 0;
        s->nodes = more, s->capnodes = cap;
    }
    *place_of(shared.object) = s->nnodes;
    s->nodes[s->nnodes++] = (node){shared, *shared.object};
    return 1;
}

/* A shared object becomes a node when it is met first. */
static void take_away_shared(dlsh_shared shared, void *ctx) {
    stretch *s = ctx;
    const int *place = place_of(shared.object);
    if (*place < 0 && !add_node(s, shared))
        s->failed = 1;
    else
        s->nodes[*place].trial--;
}

static void live(stretch *s, int *trial, int number) {
    if (*trial == LIVE) return;
    *trial = LIVE;
    s->reached[s->n++] = number;
}

static void reach(dlsh_value v, void *ctx) {
    int i = within(ctx, v);
    if (i >= 0) live(ctx, &table.at[i].trial, i);
}

static void reach_shared(dlsh_shared shared, void *ctx) {
    stretch *s = ctx;
    int i = *place_of(shared.object);
    live(s, &s->nodes[i].trial, s->to + i);
}

/* Counts for each value of the stretch the references that do not come from within it. */
static void count_outside(stretch *s) {
    const dlsh_visitor to = {take_away, take_away_shared, s};
    for (int i = s->from; i < s->to; i++) table.at[i].trial = 0;
    for (int i = s->from; i < s->to; i++) {
        table.at[i].trial += *table.at[i].object;
        each_held(value_at(i), &to);
    }
    for (int i = 0; i < s->nnodes; i++) {
        const dlsh_shared is = s->nodes[i].is; /* the list may move */
        is.values(is.object, &to);
    }
}

/* Marks what is referenced from outside, and all that is reachable from there. */
static void mark_live(stretch *s) {
    const dlsh_visitor to = {reach, reach_shared, s};
    for (int i = s->from; i < s->to; i++)
        if (table.at[i].trial > 0) live(s, &table.at[i].trial, i);
    for (int i = 0; i < s->nnodes; i++)
        if (s->nodes[i].trial > 0) live(s, &s->nodes[i].trial, s->to + i);
    while (s->n) {
        int i = s->reached[--s->n];
        if (i < s->to)
            each_held(value_at(i), &to);
        else
            s->nodes[i - s->to].is.values(s->nodes[i - s->to].is.object, &to);
    }
}

/* Empties a value, which breaks the cycle. What it held is dropped. */
static void empty(dlsh_value v) {
    dlsh_value was;
    switch (v.type) {
    case DLSH_LIST: dlsh_list_remove(v.as.list, 0, v.as.list->n); break;
    case DLSH_RECORD: dlsh_record_clear(v.as.record); break;
    case DLSH_CELL:
        was = v.as.cell->v;
        v.as.cell->v = dlsh_void();
        dlsh_drop(was);
        break;
    case DLSH_HANDLE:
        if (v.as.handle->cls->empty) v.as.handle->cls->empty(v.as.handle->self);
        break;
    default: break; /* functions and methods are made after what they hold: no cycle consists of them alone */
    }
}

/* Frees the values of a stretch that were not reached; `dead_values` has room for them. */
static long release(const stretch *s, dlsh_value *dead_values) {
    long n = 0;
    for (int i = s->from; i < s->to; i++)
        if (table.at[i].trial != LIVE) dead_values[n++] = dlsh_ref(value_at(i));
    for (long i = 0; i < n; i++) empty(dead_values[i]);
    for (long i = 0; i < n; i++) dlsh_drop(dead_values[i]);
    return n;
}

static long collect(int from, int to) {
    stretch s = {.from = from, .to = to};
    long dead = 0;
    if (to <= from) return 0;
    count_outside(&s);
    if (!s.failed) s.reached = malloc((size_t)(to - from + s.nnodes) * sizeof *s.reached);
    if (s.reached) mark_live(&s);
    for (int i = from; s.reached && i < to; i++) dead += table.at[i].trial != LIVE;
    for (int i = 0; i < s.nnodes; i++) *place_of(s.nodes[i].is.object) = -1;
    free(s.nodes);
    free(s.reached);
    DLSH_FREED dlsh_value *dead_values = dead ? malloc((size_t)dead * sizeof *dead_values) : NULL;
    if (!dead_values) return 0;
    release(&s, dead_values);
    return dead;
}

/* ---------------------------------------------------------------- when, and how much */

static long collect_whole(void) {
    long freed = collect(0, table.n);
    table.old = table.after_whole = table.n;
    table.cursor = 0;
    table.credit = 0;
    table.held = memory_limit();
    return freed;
}

/* Windows overlap by half, so that a cycle of values of about the same age is within one of them. */
static long collect_windows(void) {
    long freed = 0;
    if (table.credit < WINDOW) return 0;
    table.credit = 0;
    if (table.cursor >= table.old) table.cursor = 0;
    int to = table.old - table.cursor > WINDOW ? table.cursor + WINDOW : table.old;
    freed = collect(table.cursor, to);
    table.cursor = to < table.old ? table.cursor + WINDOW / 2 : 0;
    return freed;
}

static long collect_some(void) {
    int before = table.old;
    long freed = collect(table.old, table.n);
    table.old = table.n;
    table.credit += YOUNG + 4L * (table.old - before);
    int grown = table.old > FACTOR * (table.after_whole > WINDOW ? table.after_whole : WINDOW);
    if (grown || (size_t)dl_memory_held() > table.held) return freed + collect_whole();
    return freed + collect_windows();
}

/* Freeing runs destructors, which may make values: no collection within a collection. */
static long timed(long (*how)(void)) {
    if (table.busy) return 0;
    double start = dl_seconds();
    table.busy = 1;
    long freed = how();
    table.busy = 0;
    table.outside = 0;
    dlsh_collect_due = 0;
    double took = dl_seconds() - start;
    if (took > table.stats.longest) table.stats.longest = took;
    table.stats.freed += freed;
    table.stats.collections++;
    return freed;
}

void dlsh_collect_now(void) { timed(collect_some); }

long dlsh_collect_all(void) { return timed(collect_whole); }

dlsh_collect_stats dlsh_collect_statistics(void) {
    dlsh_collect_stats s = table.stats;
    s.tracked = table.n;
    return s;
}
