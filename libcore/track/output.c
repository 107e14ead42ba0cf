/* What the program prints while runs are open: the first of each run and the latest of all in memory, from which the
 * writers of their stores take what is new, however late they come. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "track/store.h"

/* KEPT: bytes of the latest in memory. MOST: bytes that one run keeps; from there on its end is kept alone. */
enum { KEPT = 1 << 20, MOST = 1 << 20, LAST = 1 << 14 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *kept;  /* the byte that is the i-th of all stands at i % KEPT */
static int64_t all; /* bytes that were printed since the first run began */
static dl_output *listeners;

/* Adds to the first MOST bytes of a run. Without memory for them the latest bytes have to do. */
static void keep_first(dl_output *o, const char *text, long n) {
    if (o->n_first != all - o->from || o->n_first == MOST) return;
    long k = n < MOST - o->n_first ? n : MOST - o->n_first, room = o->room ? o->room : 1 << 12;
    while (room < o->n_first + k) room *= 2;
    char *first = room > o->room ? realloc(o->first, (size_t)room) : o->first;
    if (!first) return;
    memcpy(first + o->n_first, text, (size_t)k);
    o->first = first, o->room = room, o->n_first += k;
}

void dl_run_output(const char *text, long n) {
    if (!text || n <= 0 || !__atomic_load_n(&listeners, __ATOMIC_RELAXED)) return;
    pthread_mutex_lock(&lock);
    for (dl_output *o = listeners; o; o = o->next) keep_first(o, text, n);
    if (!kept) kept = malloc(KEPT);
    int64_t now = all;
    long skip = n > KEPT ? n - KEPT : 0; /* what would be written over at once */
    for (now += skip, text += skip, n -= skip; kept && n;) {
        long at = (long)(now % KEPT), k = n < KEPT - at ? n : KEPT - at;
        memcpy(kept + at, text, (size_t)k);
        now += k, text += k, n -= k;
    }
    __atomic_store_n(&all, now, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

void dl_output_listen(dl_output *o) {
    pthread_mutex_lock(&lock);
    o->at = o->from = all;
    o->next = listeners;
    __atomic_store_n(&listeners, o, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

void dl_output_cease(dl_output *o) {
    pthread_mutex_lock(&lock);
    dl_output **p = &listeners;
    while (*p && *p != o) p = &(*p)->next;
    if (*p) __atomic_store_n(p, o->next, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    free(o->first);
}

int dl_output_waits(const dl_output *o, int often) {
    int64_t waiting = __atomic_load_n(&all, __ATOMIC_ACQUIRE) - o->at;
    return waiting > (often ? KEPT / 4 : 0) && o->at - o->from < MOST;
}

static void put(FILE *out, const char *text, long n) { /* as text, which a NUL would end */
    for (long i = 0; i < n; i++) fputc(text[i] ? text[i] : ' ', out);
}

/* The text of a run from byte `at` on, to be freed, with a line that tells how much is missing in it; `to`: its end. */
static char *take(const dl_output *o, int64_t at, int64_t *to) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    pthread_mutex_lock(&lock);
    int64_t written = o->at, first = o->from + o->n_first;
    *to = all;
    if (at == written && at < first) {
        put(out, o->first + (at - o->from), (long)(first - at));
        at = written = first;
    }
    if (all - at > KEPT) at = all - KEPT;
    if (at > written) fprintf(out, "\n... %lld bytes are left out ...\n", (long long)(at - written));
    while (kept && at < all) {
        long i = (long)(at % KEPT), k = all - at < KEPT - i ? (long)(all - at) : KEPT - i;
        put(out, kept + i, k);
        at += k;
    }
    pthread_mutex_unlock(&lock);
    return fclose(out) ? NULL : text;
}

dl_status dl_output_write(sqlite3 *db, int64_t run, dl_output *o, int last) {
    int64_t now = __atomic_load_n(&all, __ATOMIC_ACQUIRE), at = o->at, to = 0;
    if (now == at || (!last && !dl_output_waits(o, 0))) return DL_OK;
    if (at - o->from >= MOST && now - at > LAST) at = now - LAST;
    char *text = take(o, at, &to);
    if (!text) return dl_fail(DL_ERR_MEMORY, "no memory for what was printed");
    dl_status st = dl_event_put(db, run, 0, "output", text, NULL);
    free(text);
    if (st == DL_OK) o->at = to;
    return st;
}
