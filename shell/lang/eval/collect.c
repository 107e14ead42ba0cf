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
#include <time.h>

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

static int reclaim(void) { return pthread_equal(pthread_self(), table.thread) && dlsh_collect_all() > 0; }

static size_t memory_limit(void) {
    size_t now = (size_t)dl_memory_held();
    return now + (now / 2 > SLACK_BYTES ? now / 2 : SLACK_BYTES);
}

static int table_grow(void) {
    int cap = table.cap ? 2 * table.cap : 2 * YOUNG;
    entry *at = table.cap > (1 << 29) ? NULL : realloc(table.at, (size_t)cap * sizeof *at);
    if (!at) return 0;
    if (!table.cap) {
        table.thread = pthread_self();
        table.held = memory_limit();
        dl_set_reclaim(reclaim);
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

static void each_item(const dlsh_value *v, int n, dlsh_visit *visit, void *ctx) {
    for (int i = 0; i < n; i++)
        if (v[i].type >= DLSH_LIST) visit(v[i], ctx);
}

static void each_of_fn(const dlsh_fn *f, dlsh_visit *visit, void *ctx) {
    each_item(f->defaults, f->info->nparams, visit, ctx);
    for (int i = 0; i < f->info->ncaptures; i++) visit((dlsh_value){DLSH_CELL, {.cell = f->captured[i]}}, ctx);
}

static void each_held(dlsh_value v, dlsh_visit *visit, void *ctx) {
    switch (v.type) {
    case DLSH_LIST: each_item(v.as.list->items, v.as.list->n, visit, ctx); break;
    case DLSH_RECORD: each_item(v.as.record->values, v.as.record->n, visit, ctx); break;
    case DLSH_FN: each_of_fn(v.as.fn, visit, ctx); break;
    case DLSH_METHOD: each_item((dlsh_value[]){v.as.method->self, v.as.method->fn}, 2, visit, ctx); break;
    case DLSH_CELL: visit(v.as.cell->v, ctx); break;
    case DLSH_HANDLE:
        if (v.as.handle->cls->values) v.as.handle->cls->values(v.as.handle->self, visit, ctx);
        break;
    default: break;
    }
}

/* ---------------------------------------------------------------- trial deletion */

typedef struct stretch {
    int from, to;
    int *reached, n; /* entries whose values are still to be reached */
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

static void reach(dlsh_value v, void *ctx) {
    stretch *s = ctx;
    int i = within(s, v);
    if (i < 0 || table.at[i].trial == LIVE) return;
    table.at[i].trial = LIVE;
    s->reached[s->n++] = i;
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
    stretch s = {from, to, NULL, 0};
    long dead = 0;
    if (to <= from || !(s.reached = malloc((size_t)(to - from) * sizeof *s.reached))) return 0;
    for (int i = from; i < to; i++) table.at[i].trial = 0;
    for (int i = from; i < to; i++) {
        table.at[i].trial += *table.at[i].object;
        each_held(value_at(i), take_away, &s);
    }
    for (int i = from; i < to; i++) {
        if (table.at[i].trial <= 0) continue;
        table.at[i].trial = LIVE;
        s.reached[s.n++] = i;
        while (s.n) each_held(value_at(s.reached[--s.n]), reach, &s);
    }
    free(s.reached);
    for (int i = from; i < to; i++) dead += table.at[i].trial != LIVE;
    dlsh_value *dead_values = dead ? malloc((size_t)dead * sizeof *dead_values) : NULL;
    if (!dead_values) return 0;
    release(&s, dead_values);
    free(dead_values);
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
