/* Checkpoints that a run notes: when the file is complete and before it replaces the former one, so that a process
 * which is killed at any time leaves a file whose hash the store knows. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "io/atomic.h"
#include "track/store.h"
#include "track/whoami.h"

static __thread struct {
    dl_run *run;
    const char *name;
    long step;
} saving;

static dl_status put(sqlite3 *db, const char *sha, int64_t bytes, const char *path) {
    const int64_t run = saving.run->id;
    DL_TRY(dl_event_put(db, run, saving.step, "checkpoint", path, NULL));
    return dl_db_run(db,
                     "insert or replace into artifact(run_id, name, step, kind, sha, bytes, path) values(?1, ?2, ?3,"
                     " 'checkpoint', ?4, ?5, ?6)",
                     "ititit", run, saving.name, (int64_t)saving.step, sha, bytes, path);
}

/* The place of a file that may not be there yet, but whose contents lie in its folder. */
static void find_place(const char *written, const char *path, char full[PATH_MAX]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char folder[PATH_MAX];
    char *end = realpath(written, folder) ? strrchr(folder, '/') : NULL;
    if (end) end[1] = 0;
    snprintf(full, PATH_MAX, "%.*s%s", PATH_MAX - 256, end ? folder : "", end ? name : path);
}

/* A store that cannot note it must not keep the file from being written: it warns by itself. */
static void note(void *ctx DL_UNUSED, const char *written, const char *path) {
    char sha[65], full[PATH_MAX];
    int64_t bytes = 0;
    dl_store *s = saving.run->store;
    DL_SCOPED_ERROR;
    find_place(written, path, full);
    if (dl_sha256_file(written, sha, &bytes) != DL_OK || dl_store_write_lock(s) != DL_OK) return;
    dl_status st = dl_db_begin(s->w);
    if (st == DL_OK) st = dl_db_end(s->w, put(s->w, sha, bytes, full));
    dl_store_write_unlock(s, st);
}

void dl_run_saving(dl_run *r, const char *name, long step) {
    const bool on = r && !r->store->none;
    saving.run = r, saving.name = name, saving.step = step;
    dl_atomic_watch(on ? note : NULL, NULL);
}
