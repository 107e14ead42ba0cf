/* What the program prints while runs are open: the latest of it in memory, from which the writers of their stores take
 * what is new. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "track/store.h"

/* KEPT: bytes in memory. MOST: bytes that one run keeps; from there on its end is kept alone. */
enum { KEPT = 1 << 20, MOST = 1 << 20, LAST = 1 << 14 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *kept;  /* the byte that is the i-th of all stands at i % KEPT */
static int64_t all; /* bytes that were printed since the first run began */
static int listeners;

void dl_run_output(const char *text, long n) {
    if (!text || n <= 0 || !__atomic_load_n(&listeners, __ATOMIC_RELAXED)) return;
    pthread_mutex_lock(&lock);
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

void dl_output_listen(dl_run *r, int on) {
    __atomic_fetch_add(&listeners, on ? 1 : -1, __ATOMIC_RELAXED);
    if (on) r->output_at = r->output_from = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
}

int dl_output_waits(const dl_run *r, int often) {
    int64_t waiting = __atomic_load_n(&all, __ATOMIC_ACQUIRE) - r->output_at;
    return waiting > (often ? KEPT / 4 : 0) && r->output_at - r->output_from < MOST;
}

/* The new text of a run, to be freed, after a line that tells how much is missing before it. */
static char *take(const dl_run *r, int64_t from, int64_t *to) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    pthread_mutex_lock(&lock);
    *to = all;
    int64_t first = all - from > KEPT ? all - KEPT : from;
    if (first > r->output_at) fprintf(out, "\n... %lld bytes are left out ...\n", (long long)(first - r->output_at));
    while (kept && first < all) {
        long at = (long)(first % KEPT), k = all - first < KEPT - at ? (long)(all - first) : KEPT - at;
        for (long i = 0; i < k; i++) fputc(kept[at + i] ? kept[at + i] : ' ', out); /* as text, which a NUL would end */
        first += k;
    }
    pthread_mutex_unlock(&lock);
    return fclose(out) ? NULL : text;
}

dl_status dl_output_write(sqlite3 *db, dl_run *r, int last) {
    int64_t now = __atomic_load_n(&all, __ATOMIC_ACQUIRE), from = r->output_at, to = 0;
    if (now == r->output_at || (!last && !dl_output_waits(r, 0))) return DL_OK;
    if (r->output_at - r->output_from >= MOST && now - from > LAST) from = now - LAST;
    char *text = take(r, from, &to);
    if (!text) return dl_fail(DL_ERR_MEMORY, "no memory for what was printed");
    dl_status st = dl_event_put(db, r->id, 0, "output", text, NULL);
    free(text);
    if (st == DL_OK) r->output_at = to;
    return st;
}
