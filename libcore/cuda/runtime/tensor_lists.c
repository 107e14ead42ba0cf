/* Tables of tensors on the device, the most recently used ones. */
#include "cuda/runtime/tensor_lists.h"
#include "core/scope.h"

#include <string.h>

enum { KEPT = 24 };

typedef struct entry {
    struct entry *next;
    unsigned long hash;
    int n, index;
    dl_item *items; /* what the device's copy holds */
    dl_table table;
    const dl_graph *owner; /* the graph whose launches use it; NULL: it may be dropped */
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries; /* most recently used first */

static void drop(dl_gpu *g, entry *e) {
    dl_gpu_drop(g, (void *)e->table.items);
    free(e->items);
    free(e);
}

/* Moves the entry that `at` points to to the front. */
static entry *to_front(entry **at) {
    entry *e = *at;
    *at = e->next;
    e->next = entries;
    return entries = e;
}

/* Drops the tables of a graph, or with owner NULL the oldest ones that no graph needs. */
static void trim(dl_gpu *g, const dl_graph *owner) {
    int n = 0;
    for (entry **at = &entries; *at;) {
        entry *e = *at;
        if (e->index != g->index || e->owner != owner || (!owner && ++n <= KEPT)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        drop(g, e);
    }
}

static dl_status fill(dl_gpu *g, entry *e) {
    size_t items = sizeof(dl_item) * (size_t)e->n, bytes;
    for (int i = 0; i < e->n; i++) e->table.count += (e->items[i].n + DL_PIECE - 1) / DL_PIECE;
    bytes = items + sizeof(dl_piece) * (size_t)e->table.count;
    DL_FREED char *host = malloc(bytes + 1);
    char *there = host ? dl_gpu_take_lasting(g, bytes) : NULL;
    if (!there) return host ? dl_failed() : dl_fail(DL_ERR_MEMORY, "no memory for the lists of tensors");
    e->table.items = (dl_item *)there;
    e->table.pieces = (dl_piece *)(there + items);
    memcpy(host, e->items, items);
    dl_piece *p = (dl_piece *)(host + items);
    for (int i = 0; i < e->n; i++)
        for (int k = 0; (long)k * DL_PIECE < e->items[i].n; k++) *p++ = (dl_piece){i, k};
    return dl_gpu_upload_now(g, there, host, bytes);
}

static dl_status make(dl_gpu *g, const dl_item *items, int n, unsigned long hash, entry **out) {
    entry *e = calloc(1, sizeof *e);
    if (e) e->items = malloc(sizeof *items * (size_t)n + 1);
    if (!e || !e->items) {
        free(e);
        return dl_fail(DL_ERR_MEMORY, "no memory for the lists of tensors");
    }
    memcpy(e->items, items, sizeof *items * (size_t)n);
    e->n = n, e->index = g->index, e->hash = hash, e->owner = g->capturing;
    dl_status s = fill(g, e);
    if (s != DL_OK) return drop(g, e), s;
    e->next = entries;
    *out = entries = e;
    trim(g, NULL);
    return DL_OK;
}

dl_status dl_table_get(dl_gpu *g, const dl_item *items, int n, dl_table *out) {
    unsigned long h = dl_hash(items, (long)sizeof *items * n);
    entry *found = NULL;
    dl_status s = DL_OK;
    pthread_mutex_lock(&lock);
    for (entry **at = &entries; *at && !found; at = &(*at)->next) {
        entry *e = *at;
        bool same = e->hash == h && e->n == n && e->index == g->index && e->owner == g->capturing;
        if (same && !memcmp(e->items, items, sizeof *items * (size_t)n)) {
            found = to_front(at);
            break;
        }
    }
    if (!found) s = make(g, items, n, h, &found);
    if (s == DL_OK) *out = found->table;
    pthread_mutex_unlock(&lock);
    return s;
}

void dl_table_forget(dl_gpu *g, const dl_graph *owner) {
    pthread_mutex_lock(&lock);
    trim(g, owner);
    pthread_mutex_unlock(&lock);
}
