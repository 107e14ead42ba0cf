/* A store whose file was removed or replaced while it is open. The open file still has all data, without a name: it is
 * copied to a named file, where recording continues. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "track/store.h"

void dl_store_remember(dl_store *s) {
    struct stat st;
    if (!stat(s->path, &st)) s->dev = (uint64_t)st.st_dev, s->ino = (uint64_t)st.st_ino;
}

int dl_store_moved(const dl_store *s) {
    struct stat st;
    if (!__atomic_load_n(&s->w, __ATOMIC_ACQUIRE)) return 0;
    if (stat(s->path, &st)) return errno == ENOENT || errno == ENOTDIR;
    return (uint64_t)st.st_dev != s->dev || (uint64_t)st.st_ino != s->ino;
}

/* Copies to the old path, or to a name beside the file that has it now; to TMPDIR when the folder is gone. */
static dl_status save_again(dl_store *s, char out[4096]) {
    char part[4200], stamp[32], folder[4096];
    time_t now = time(NULL);
    struct tm tm;
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s", s->path);
    *strrchr(folder, '/') = 0;
    int gone = access(*folder ? folder : "/", F_OK) != 0;
    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    if (gone)
        snprintf(out, 4096, "%.2000s/%.2000s", temporary && *temporary ? temporary : "/tmp", strrchr(s->path, '/') + 1);
    else
        snprintf(out, 4096, "%.4000s", s->path);
    snprintf(part, sizeof part, "%s.rescue-%ld", out, (long)getpid());
    DL_TRY(dl_db_copy(s->w, part, "write the store again"));
    if (link(part, out)) { /* the name is taken: never write over another's file */
        size_t n = strlen(out);
        snprintf(out + n, 4096 - n, ".rescued-%s-%ld", stamp, (long)getpid());
        if (rename(part, out)) {
            dl_status st = dl_fail(DL_ERR_IO, "cannot write %s: %s", out, strerror(errno));
            unlink(part);
            return st;
        }
    }
    unlink(part);
    return DL_OK;
}

dl_status dl_store_rescue(dl_store *s) {
    char path[4096];
    int removed = access(s->path, F_OK) != 0;
    DL_TRY(save_again(s, path));
    sqlite3 *old = s->w;
    dl_inserter_detach(&s->inserter);
    __atomic_store_n(&s->w, NULL, __ATOMIC_RELEASE);
    sqlite3_wal_hook(old, NULL, NULL);
    /* Closing would checkpoint into the nameless file, and remove the WAL of the file that has the name now. */
    sqlite3_db_config(old, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(old);
    __atomic_store_n(&s->reopen, 1, __ATOMIC_RELEASE);
    if (!strcmp(path, s->path))
        dl_store_warn(s,
                      "%s was removed while it was in use: what was in it is written again, and recording goes on; to "
                      "start a new store, quit first",
                      path);
    else
        dl_store_warn(s, "%s was %s while it was in use: what was recorded is in %s, and recording goes on there",
                      s->path, removed ? "removed with its folder" : "replaced by another file", path);
    snprintf(s->path, sizeof s->path, "%s", path);
    if (s->threaded) dl_ring_follow(&s->ring, path);
    return DL_OK;
}
