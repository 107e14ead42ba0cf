/* A store whose file was removed or replaced while it is open, or that cannot be written: recording goes on elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "track/store.h"

/* ---------------------------------------------------------------- a file that is gone: the open one has all data,
 * still */

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

/* ---------------------------------------------------------------- a file that cannot be written stops no training */

static pthread_mutex_t other_lock = PTHREAD_MUTEX_INITIALIZER;

/* An empty file of a new name: "/tmp/experiments-4711-1a2b3c4d.db". -1 and errno: it cannot be made. */
static int make_file(const dl_store *s, char path[4096]) {
    const char *folder = getenv("TMPDIR"), *name = strrchr(s->path, '/') + 1, *end = strrchr(name, '.');
    char uuid[37];
    dl_uuid(uuid);
    snprintf(path, 4096, "%.3000s/%.*s-%ld-%.8s.db", folder && *folder ? folder : "/tmp",
             end > name ? (int)(end - name) : (int)strlen(name), name, (long)getpid(), uuid);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -1 : close(fd);
}

/* A store there that takes runs, NULL: none. */
static dl_store *open_other(const dl_store *s) {
    char path[4096];
    dl_error why;
    if (make_file(s, path)) return dl_fail(DL_ERR_STORE, "%.100s cannot be made", path), NULL;
    dl_store *other = dl_store_open(path);
    dl_status st = other ? dl_store_write_lock(other) : dl_failed();
    if (st == DL_OK) st = dl_store_write_unlock(other, dl_writer_start(other));
    if (st == DL_OK) return other;
    dl_error_take(&why);
    if (other) dl_store_close(other);
    unlink(path);
    dl_error_put(&why);
    return NULL;
}

static void tell(dl_store *s, const dl_error *why) {
    dl_error further;
    if (*s->other->path) {
        dl_store_warn(s,
                      "%.200s; runs are recorded in %.90s from here on, and later put into the store by: db merge "
                      "\"%.90s\"",
                      why->message, s->other->path, s->other->path);
        return;
    }
    dl_error_take(&further);
    dl_store_warn(s, "%.200s; nor could runs be recorded elsewhere (%.150s): they are not recorded%s%.90s",
                  why->message, further.message, *why->hint ? "; " : "", why->hint);
}

dl_store *dl_store_elsewhere(dl_store *s) {
    dl_error why;
    dl_status st = dl_error_take(&why);
    if (st == DL_ERR_STORE) {
        pthread_mutex_lock(&other_lock);
        if (!s->other) {
            dl_store *other = open_other(s);
            __atomic_store_n(&s->other, other ? other : dl_store_open("none"), __ATOMIC_RELEASE);
            if (s->other) tell(s, &why);
        }
        pthread_mutex_unlock(&other_lock);
        if (s->other) return s->other;
    }
    dl_error_put(&why);
    return NULL;
}

dl_store *dl_store_in_use(dl_store *s) {
    dl_store *other = s ? __atomic_load_n(&s->other, __ATOMIC_ACQUIRE) : NULL;
    return other && *other->path ? other : s;
}

void dl_store_close_other(dl_store *s) {
    if (s->other) dl_store_close(s->other);
    s->other = NULL;
}
