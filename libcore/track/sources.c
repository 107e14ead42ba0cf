/* Texts of the program itself: what a process has read so far, which its runs keep. */
#include <stdlib.h>
#include <string.h>

#include "track/store.h"

typedef struct source {
    struct source *next;
    int64_t n;
    char sha[65], *text;
    char path[];
} source;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static source *first, **end = &first;
static long count;

static void source_free(source *x) {
    if (!x) return;
    free(x->text);
    free(x);
}

static int is_known(const source *x) {
    for (const source *k = first; k; k = k->next)
        if (!strcmp(k->path, x->path) && !strcmp(k->sha, x->sha)) return 1;
    return 0;
}

dl_status dl_run_source(const char *path, const char *text, long n) {
    if (!path || (n && !text)) return dl_fail_null(path ? "text" : "path");
    if (n < 0) return dl_fail(DL_ERR_VALUE, "a text cannot have %ld bytes", n);
    source *x = calloc(1, sizeof *x + strlen(path) + 1);
    if (!x || !(x->text = malloc((size_t)n + 1))) return source_free(x), dl_fail(DL_ERR_MEMORY, "no memory for a text");
    strcpy(x->path, path);
    if (n) memcpy(x->text, text, (size_t)n);
    x->n = n;
    dl_sha256_hex(text, (uint64_t)n, x->sha);
    pthread_mutex_lock(&lock);
    int known = is_known(x);
    if (!known) {
        *end = x, end = &x->next;
        __atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    if (known) source_free(x);
    return DL_OK;
}

long dl_sources_count(void) { return __atomic_load_n(&count, __ATOMIC_ACQUIRE); }

dl_status dl_sources_write(sqlite3 *db, int64_t run, long *written) {
    dl_status st = DL_OK;
    long i = 0;
    pthread_mutex_lock(&lock);
    for (const source *x = first; x && st == DL_OK; x = x->next, i++)
        if (i >= *written) st = dl_artifact_put(db, run, x->path, 0, "source", x->sha, x->text, x->n);
    if (st == DL_OK) *written = count;
    pthread_mutex_unlock(&lock);
    return st;
}
