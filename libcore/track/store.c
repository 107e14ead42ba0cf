/* Opening, sharing and closing a store; its connections, warnings and counters. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "core/interrupt.h"
#include "track/server/server.h"
#include "track/store.h"

enum { WARNINGS_KEPT = 32, SQLITE_WITH_SAFE_RESET = 3051003 };

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static dl_store *open_stores;

/* ---------------------------------------------------------------- warnings and counters */

void dl_store_warn(dl_store *s, const char *fmt, ...) {
    dl_warning *w = calloc(1, sizeof *w), **end;
    if (!w) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->text, sizeof w->text, fmt, ap);
    va_end(ap);
    int n = 0;
    pthread_mutex_lock(&s->wake_lock);
    for (end = &s->warnings; *end; end = &(*end)->next) n++;
    if (n < WARNINGS_KEPT) *end = w;
    pthread_mutex_unlock(&s->wake_lock);
    if (n >= WARNINGS_KEPT) free(w);
}

int dl_store_warning(dl_store *s, char *text, long size) {
    if (!s) return 0;
    pthread_mutex_lock(&s->wake_lock);
    dl_warning *w = s->warnings;
    if (w) s->warnings = w->next;
    pthread_mutex_unlock(&s->wake_lock);
    if (!w) return 0;
    if (size > 0) snprintf(text, (size_t)size, "%s", w->text);
    free(w);
    return 1;
}

const char *dl_store_path(const dl_store *s) { return s ? s->path : ""; }

void dl_store_stats_get(dl_store *s, dl_store_stats *out) {
    *out = (dl_store_stats){.ring_capacity = (long)s->capacity,
                            .schema = dl_migrations[dl_migration_count - 1].version,
                            .readonly = s->readonly,
                            .network = s->network,
                            .wal = s->wal,
                            .wal_reset_fixed = sqlite3_libversion_number() >= SQLITE_WITH_SAFE_RESET};
    snprintf(out->sqlite, sizeof out->sqlite, "%s", sqlite3_libversion());
    pthread_mutex_lock(&s->wake_lock);
    if (s->threaded) out->pushed = (long)dl_ring_pushed(&s->ring);
    out->waits = s->waits;
    pthread_mutex_unlock(&s->wake_lock);
    out->committed = __atomic_load_n(&s->committed, __ATOMIC_RELAXED);
    out->dropped = __atomic_load_n(&s->dropped, __ATOMIC_RELAXED);
    out->wait_us = __atomic_load_n(&s->wait_us, __ATOMIC_RELAXED);
    out->recovered = __atomic_load_n(&s->recovered, __ATOMIC_RELAXED);
    out->killed = __atomic_load_n(&s->killed, __ATOMIC_RELAXED);
}

/* ---------------------------------------------------------------- connections */

static int on_commit(void *arg, sqlite3 *db DL_UNUSED, const char *schema DL_UNUSED, int pages) {
    ((dl_store *)arg)->wal_pages = pages;
    return SQLITE_OK;
}

static dl_status choose_journal(dl_store *s, sqlite3 *db) {
    if (dl_db_network(s->path)) s->network = 1;
    DL_TRY(dl_db_journal(db, s->network, &s->wal));
    if (s->network)
        dl_store_warn(s,
                      "%s is on a network file system: commits use a rollback journal, which is slower; the WAL would "
                      "not be safe there",
                      s->path);
    else if (!s->wal)
        dl_store_warn(s, "%s cannot use a WAL here: commits use a rollback journal, which is slower", s->path);
    return DL_OK;
}

static dl_status open_writer(dl_store *s) {
    if (s->newer)
        return dl_fail_hint(DL_ERR_STORE, "use the newer dlsh, or another file: --db FILE",
                            "%s was written by a newer dlsh (schema version %ld), so it is only read", s->path,
                            s->newer);
    if (*s->closed) return dl_fail(DL_ERR_STORE, "%s", s->closed);
    if (s->readonly)
        return dl_fail_hint(DL_ERR_STORE, "choose another file: --db FILE", "%s or its folder cannot be written",
                            s->path);
    sqlite3 *db = NULL;
    DL_TRY(dl_db_open(&db, s->path, DL_DB_WRITE));
    /* the version is checked before the journal changes: the file may be another program's */
    dl_status st = dl_db_migrate(db, s->path, dl_migrations, dl_migration_count);
    if (st == DL_OK) st = choose_journal(s, db);
    if (st != DL_OK) {
        sqlite3_close(db);
        return st;
    }
    s->checkpoint_at = DL_DB_CHECKPOINT_PAGES;
    sqlite3_wal_hook(db, on_commit, s);
    dl_store_remember(s);
    __atomic_store_n(&s->w, db, __ATOMIC_RELEASE);
    return DL_OK;
}

/* Another thread may hold it while it waits for the lock of the database itself: the two waits are one. Or it just
 * takes long, as a commit to a busy disk does. */
static dl_status lock_connection(dl_store *s) {
    enum { EACH_NS = 50000000 };
    if (!pthread_mutex_trylock(&s->wlock)) return DL_OK;
    for (bool first = true;; first = false) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += EACH_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!pthread_mutex_timedlock(&s->wlock, &until)) break;
        const bool elsewhere = dl_writer_is_locked(s, dl_steady_us());
        if (!dl_wait_more(s->path, first, elsewhere)) DL_TRY(dl_interrupt_check());
    }
    dl_wait_keep();
    return DL_OK;
}

dl_status dl_store_write_lock(dl_store *s) {
    if (!s) return dl_fail_null("store");
    if (s->none)
        return dl_fail_hint(DL_ERR_STATE, "start with --db FILE to keep runs",
                            "nothing is being recorded, so there is nothing to change");
    DL_TRY(lock_connection(s));
    dl_status st = dl_store_moved(s) ? dl_store_rescue(s) : DL_OK;
    if (st == DL_OK && !s->w) st = open_writer(s);
    if (st != DL_OK) dl_wait_over(), pthread_mutex_unlock(&s->wlock);
    return st;
}

dl_status dl_store_write_unlock(dl_store *s, dl_status st) {
    if (s->wal_pages >= s->checkpoint_at) {
        int before = s->wal_pages;
        dl_db_checkpoint(s->w, s->network);
        /* a reader may have blocked the checkpoint: try again after as many pages */
        s->checkpoint_at = before + DL_DB_CHECKPOINT_PAGES;
    } else if (s->wal_pages < DL_DB_CHECKPOINT_PAGES) {
        s->checkpoint_at = DL_DB_CHECKPOINT_PAGES;
    }
    dl_wait_over();
    pthread_mutex_unlock(&s->wlock);
    return st;
}

static dl_status open_reader(dl_store *s, int exists) {
    int lost = __atomic_exchange_n(&s->reopen, 0, __ATOMIC_ACQ_REL);
    if (s->r && !lost && !(s->r_memory && exists)) return DL_OK;
    sqlite3_close(s->r);
    s->r = NULL;
    DL_TRY(dl_db_open(&s->r, s->path, exists ? DL_DB_READ : DL_DB_MEMORY));
    s->r_memory = !exists;
    dl_status st = exists ? dl_db_check_version(s->r, s->path, dl_migrations, dl_migration_count, DL_DB_OLDEST_READ)
                          : dl_db_migrate(s->r, "", dl_migrations, dl_migration_count);
    if (st == DL_OK && !exists) st = dl_db_run(s->r, "pragma query_only = 1", "");
    if (st != DL_OK) {
        sqlite3_close(s->r);
        s->r = NULL;
    }
    return st;
}

dl_status dl_store_read_lock(dl_store *s) {
    if (!s) return dl_fail_null("store");
    dl_server_refresh(s);
    if (!s->none && dl_store_moved(s)) {
        DL_TRY(dl_store_write_lock(s));
        dl_store_write_unlock(s, DL_OK);
    }
    int exists = !s->none && !access(s->path, F_OK);
    if (exists && !s->readonly) {
        if (!__atomic_load_n(&s->w, __ATOMIC_ACQUIRE)) { /* another process may have made the file just now */
            DL_TRY(dl_store_write_lock(s));
            dl_store_write_unlock(s, DL_OK);
        }
        dl_error old;
        dl_status had = dl_error_take(&old);
        const char *then = dl_wait_then("what is committed is read");
        if (dl_store_flush(s) != DL_OK) dl_error_clear(); /* what is committed can be read all the same */
        dl_wait_then(then);
        if (had) dl_error_put(&old);
    }
    pthread_mutex_lock(&s->rlock);
    dl_status st = open_reader(s, exists);
    if (st != DL_OK) pthread_mutex_unlock(&s->rlock);
    return st;
}

dl_status dl_store_read_unlock(dl_store *s, dl_status st) {
    pthread_mutex_unlock(&s->rlock);
    return st;
}

/* ---------------------------------------------------------------- open and close */

static dl_status absolute(const char *path, char out[4096]) {
    char dir[4096], full[PATH_MAX];
    if (realpath(path, full)) {
        int n = snprintf(out, 3900, "%s", full);
        return n < 3900 ? DL_OK : dl_fail(DL_ERR_IO, "the path %.80s... is too long for a store", path);
    }
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path + (slash == path)) : 1, slash ? path : ".");
    int closed = !realpath(dir, full) && errno == EACCES; /* what is in it will not be written: see lost.c */
    if (closed) {
        char here[PATH_MAX];
        const char *base = *dir != '/' && getcwd(here, sizeof here) ? here : "";
        if (snprintf(full, sizeof full, "%s%s%s", base, *base ? "/" : "", dir) >= (int)sizeof full) *full = 0;
    }
    if (!*name || (!closed && !realpath(dir, full)))
        return dl_fail_hint(DL_ERR_IO, "make the folder first", "cannot make the store %s: %s", path,
                            *name ? strerror(errno) : "that is a folder");
    if (snprintf(out, 3900, "%s/%s", strcmp(full, "/") ? full : "", name) >= 3900)
        return dl_fail(DL_ERR_IO, "the path %.80s... is too long for a store", path);
    return DL_OK;
}

static void init_locks(dl_store *s) {
    pthread_mutex_t *const locks[] = {&s->wlock, &s->rlock, &s->nlock, &s->runs_lock, &s->wake_lock};
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) pthread_mutex_init(locks[i], NULL);
}

static dl_store *new_store(void) {
    dl_store *s = calloc(1, sizeof *s);
    if (!s) return dl_fail(DL_ERR_MEMORY, "no memory for a store"), NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_cond_init(&s->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    init_locks(s);
    s->refs = 1;
    s->capacity = DL_RING_CAPACITY;
    s->ring.fd = -1;
    return s;
}

static void free_store(dl_store *s) {
    sqlite3_close(s->r);
    dl_inserter_free(&s->inserter);
    sqlite3_close(s->w); /* after the reader: the last connection to close removes the WAL */
    while (s->warnings) {
        dl_warning *w = s->warnings;
        s->warnings = w->next;
        free(w);
    }
    pthread_mutex_t *const locks[] = {&s->wlock, &s->rlock, &s->nlock, &s->runs_lock, &s->wake_lock};
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) pthread_mutex_destroy(locks[i]);
    pthread_cond_destroy(&s->wake);
    pthread_cond_destroy(&s->done);
    free(s);
}

/* A store of a later schema is only read: tables and columns that this program knows are there, others may have to be
 * written as well. */
static dl_status look_for_newer(dl_store *s) {
    sqlite3 *db = NULL;
    DL_TRY(dl_db_open(&db, s->path, DL_DB_READ));
    dl_status st = dl_db_newer(db, dl_migrations, dl_migration_count, &s->newer);
    sqlite3_close(db);
    if (st == DL_OK && s->newer)
        dl_store_warn(s, "%s was written by a newer dlsh (schema version %ld, here %d): it is only read", s->path,
                      s->newer, dl_migrations[dl_migration_count - 1].version);
    return st;
}

/* Checks a file and its rights, and recovers what killed processes left. */
static dl_status check_existing(dl_store *s) {
    char dir[4096];
    struct stat st;
    if (!stat(s->path, &st) && !S_ISREG(st.st_mode))
        return dl_fail_hint(DL_ERR_IO, "choose another file: --db FILE", "%s is not a file", s->path);
    snprintf(dir, sizeof dir, "%s", s->path);
    char *slash = strrchr(dir, '/');
    slash[slash == dir] = 0;
    if (access(s->path, R_OK)) { /* reading fails when it is asked for */
        s->readonly = 1;
        return DL_OK;
    }
    DL_TRY(look_for_newer(s));
    s->readonly = s->newer || access(s->path, W_OK) || access(dir, W_OK);
    if (s->readonly) {
        DL_TRY(dl_store_read_lock(s));
        return dl_store_read_unlock(s, DL_OK);
    }
    DL_TRY(dl_store_write_lock(s));
    dl_store_write_unlock(s, DL_OK);
    if (dl_store_recover(s, 1) != DL_OK) {
        dl_error err;
        dl_error_take(&err);
        dl_store_warn(s, "what killed processes left is not committed yet: %s", err.message);
    }
    return DL_OK;
}

/* A place that fails, as a full disk, is told of when it is needed: where runs begin, see lost.c, or are read. */
static dl_status open_existing(dl_store *s) {
    dl_status st = check_existing(s);
    if (st == DL_OK || !dl_db_place_failed()) return st;
    dl_error why;
    dl_error_take(&why);
    snprintf(s->closed, sizeof s->closed, "%s", why.message);
    s->readonly = 1;
    return DL_OK;
}

/* A child of fork() has the memory of its parent but not its writer thread, and must not touch its ring and its
 * connections: there the stores that were open turn into ones that keep nothing. */
static void before_fork(void) { pthread_mutex_lock(&open_lock); }
static void in_parent(void) { pthread_mutex_unlock(&open_lock); }
static void in_child(void) {
    for (dl_store *s = open_stores; s; s = s->next) {
        s->none = s->forked = 1;
        s->r = s->w = NULL;
        init_locks(s); /* another thread may have held them */
    }
    open_stores = NULL;
    pthread_mutex_unlock(&open_lock);
}
static void watch_forks(void) { pthread_atfork(before_fork, in_parent, in_child); }

/* Opens what has a path by now, the mirror of `address` or, NULL, a file, which may be a mirror, too. */
static dl_status open_path(dl_store *s, const char *address) {
    dl_mirror m;
    bool found = false;
    if (!access(s->path, F_OK)) DL_TRY(open_existing(s));
    if (!address && s->w) {
        DL_TRY(dl_store_write_lock(s));
        DL_TRY(dl_store_write_unlock(s, dl_mirror_read(s->w, s->path, &m, &found)));
    }
    return address || found ? dl_server_attach(s, address ? address : m.address) : DL_OK;
}

dl_store *dl_store_open(const char *path) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    dl_store *s = new_store(), *same = NULL;
    if (!s) return NULL;
    s->none = !path || !strcmp(path, "none");
    if (s->none) return s;
    const char *address = dl_server_is_address(path) ? path : NULL;
    if ((address ? dl_server_mirror(address, s->path) : absolute(path, s->path)) != DL_OK) {
        free_store(s);
        return NULL;
    }
    pthread_mutex_lock(&open_lock);
    for (same = open_stores; same && strcmp(same->path, s->path); same = same->next) {}
    if (same) same->refs++;
    int failed = !same && open_path(s, address) != DL_OK;
    if (!same && !failed) {
        s->next = open_stores;
        open_stores = s;
    }
    pthread_mutex_unlock(&open_lock);
    if (same || failed) free_store(s);
    return failed ? NULL : same ? same : s;
}

dl_status dl_store_close(dl_store *s) {
    if (!s || s->forked) return DL_OK;
    dl_status st = DL_OK, one;
    pthread_mutex_lock(&open_lock);
    int left = --s->refs;
    dl_store **p = &open_stores;
    while (*p && *p != s) p = &(*p)->next;
    if (!left && *p) *p = s->next;
    pthread_mutex_unlock(&open_lock);
    if (left) return DL_OK;
    while (s->runs)
        if ((one = dl_run_end(s->runs, DL_RUN_FINISHED, NULL)) != DL_OK) st = one;
    dl_store_close_other(s);
    if ((one = dl_writer_stop(s)) != DL_OK) st = one;
    if ((one = dl_server_detach(s)) != DL_OK) st = one;
    free_store(s);
    return st;
}
