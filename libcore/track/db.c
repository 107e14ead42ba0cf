/* SQLite as the store uses it: opening, binding, error messages, transactions, waiting. */
#include "track/db.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "core/error.h"
#include "core/interrupt.h"
#include "track/whoami.h"

/* ---------------------------------------------------------------- errors */

static const struct {
    int code;
    const char *what, *hint;
    bool place; /* the file may be sound: its place, or another process, is what fails */
} failures[] = {
    {SQLITE_BUSY, "another process holds the lock", "wait for it, or see which one it is: fuser FILE", true},
    {SQLITE_LOCKED, "another statement holds the lock", "", true},
    {SQLITE_FULL, "the disk is full", "free some space; what was pushed waits in the ring file and is committed then",
     true},
    {SQLITE_IOERR, "the disk or file system failed", "see the system log; what was pushed waits in the ring file",
     true},
    {SQLITE_READONLY, "the file cannot be written", "choose another file: --db FILE", true},
    {SQLITE_CANTOPEN, "the file cannot be opened",
     "see the rights of the file and its folder, or choose another: --db FILE", true},
    {SQLITE_PERM, "the file may not be accessed", "see the rights of the file and its folder", true},
    {SQLITE_CORRUPT, "the file is damaged",
     "keep a copy; sqlite3 FILE .recover | sqlite3 NEW.db saves what can be saved", false},
    {SQLITE_NOTADB, "the file is not a database", "choose another file: --db FILE", false},
    {SQLITE_NOMEM, "there is no memory", "", false},
    {SQLITE_AUTH, "only reading is allowed", "use select", false},
    {SQLITE_INTERRUPT, "it was interrupted", "", false},
};

static dl_status status_of(int code) {
    return code == SQLITE_NOMEM ? DL_ERR_MEMORY : code == SQLITE_INTERRUPT ? DL_ERR_INTERRUPT : DL_ERR_STORE;
}

static _Thread_local bool of_place;
bool dl_db_place_failed(void) { return dl_failed() == DL_ERR_STORE && of_place; }

dl_status dl_db_fail(sqlite3 *db, const char *doing) {
    int code = db ? sqlite3_errcode(db) : SQLITE_NOMEM;
    if (code == SQLITE_BUSY && dl_interrupt_get()) code = SQLITE_INTERRUPT; /* which has ended the wait */
    const char *detail = db ? sqlite3_errmsg(db) : "out of memory", *file = db ? sqlite3_db_filename(db, "main") : "";
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i].code == code) {
            of_place = failures[i].place;
            return dl_fail_hint(status_of(code), failures[i].hint, "cannot %s: %s (%s%s%s)", doing, failures[i].what,
                                file ? file : "", file && *file ? ": " : "", detail);
        }
    of_place = false;
    return dl_fail(DL_ERR_STORE, "cannot %s: %s", doing, detail);
}

/* ---------------------------------------------------------------- statements */

dl_status dl_db_prepare(sqlite3 *db, sqlite3_stmt **st, const char *sql) {
    return sqlite3_prepare_v2(db, sql, -1, st, NULL) == SQLITE_OK ? DL_OK : dl_db_fail(db, "read the store");
}

static dl_status bind_all(sqlite3_stmt *st, const char *kinds, va_list ap) {
    int rc = SQLITE_OK;
    for (int i = 1; *kinds && rc == SQLITE_OK; kinds++, i++) {
        if (*kinds == 'd') {
            rc = sqlite3_bind_double(st, i, va_arg(ap, double));
        } else if (*kinds == 't') {
            rc = sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
        } else if (*kinds == 'b') {
            const void *data = va_arg(ap, const void *);
            int64_t n = va_arg(ap, int64_t);
            rc = n ? sqlite3_bind_blob64(st, i, data, (sqlite3_uint64)n, SQLITE_STATIC)
                   : sqlite3_bind_zeroblob(st, i, 0);
        } else {
            int64_t v = va_arg(ap, int64_t);
            rc = *kinds == 'I' && !v ? sqlite3_bind_null(st, i) : sqlite3_bind_int64(st, i, v);
        }
    }
    return rc == SQLITE_OK ? DL_OK : dl_db_fail(sqlite3_db_handle(st), "bind a value");
}

dl_status dl_db_bind(sqlite3_stmt *st, const char *kinds, ...) {
    va_list ap;
    va_start(ap, kinds);
    dl_status status = bind_all(st, kinds, ap);
    va_end(ap);
    return status;
}

static dl_status run(sqlite3 *db, int64_t *out, const char *doing, const char *sql, const char *kinds, va_list ap) {
    DL_DB_STATEMENT(st);
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    if (rc != SQLITE_OK) return dl_db_fail(db, doing);
    DL_TRY(bind_all(st, kinds, ap));
    rc = sqlite3_step(st);
    if (rc == SQLITE_ROW && out && sqlite3_column_type(st, 0) != SQLITE_NULL) *out = sqlite3_column_int64(st, 0);
    while (rc == SQLITE_ROW && !out) rc = sqlite3_step(st);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? DL_OK : dl_db_fail(db, doing);
}

dl_status dl_db_run(sqlite3 *db, const char *sql, const char *kinds, ...) {
    va_list ap;
    va_start(ap, kinds);
    dl_status status = run(db, NULL, "write to the store", sql, kinds, ap);
    va_end(ap);
    return status;
}

dl_status dl_db_int(sqlite3 *db, int64_t *out, const char *sql, const char *kinds, ...) {
    va_list ap;
    va_start(ap, kinds);
    dl_status status = run(db, out, "read the store", sql, kinds, ap);
    va_end(ap);
    return status;
}

int dl_db_texts(sqlite3 *db, const char *sql, char **texts, int most) {
    DL_DB_STATEMENT(q);
    int n = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK)
        while (n < most && sqlite3_step(q) == SQLITE_ROW)
            if ((texts[n] = strdup((const char *)sqlite3_column_text(q, 0)))) n++;
    return n;
}

dl_status dl_db_copy(sqlite3 *from, const char *to, const char *doing) {
    static const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    sqlite3 *copy = NULL;
    sqlite3_backup *b = NULL;
    int rc = SQLITE_CANTOPEN;
    if (sqlite3_open_v2(to, &copy, flags, NULL) == SQLITE_OK && (b = sqlite3_backup_init(copy, "main", from, "main"))) {
        rc = sqlite3_backup_step(b, -1);
        for (int ms = 0; (rc == SQLITE_BUSY || rc == SQLITE_LOCKED) && ms < DL_DB_BUSY_MS; ms += 20) {
            sqlite3_sleep(20);
            rc = sqlite3_backup_step(b, -1);
        }
        sqlite3_backup_finish(b);
    }
    dl_status st = rc == SQLITE_DONE ? DL_OK : dl_db_fail(copy, doing);
    sqlite3_close(copy);
    if (st != DL_OK) unlink(to);
    return st;
}

dl_status dl_db_begin(sqlite3 *db) {
    dl_status st = dl_db_run(db, "begin immediate", "");
    dl_wait_over();
    return st;
}

dl_status dl_db_end(sqlite3 *db, dl_status st) {
    if (st == DL_OK) st = dl_db_run(db, "commit", "");
    if (st != DL_OK && !sqlite3_get_autocommit(db)) sqlite3_exec(db, "rollback", NULL, NULL, NULL);
    return st;
}

/* ---------------------------------------------------------------- waiting for another process */

enum { TELL_US = 1000000, MEANWHILE_US = 100000 };

static _Thread_local struct {
    int64_t since, looked; /* 0: this thread does not wait; when it last did something else meanwhile */
    bool silent, told, kept;
    const char *then;
    dl_wait_fn *meanwhile;
    void *arg;
} w;

static struct {
    void (*fn)(void *ctx, const char *text);
    void *ctx;
} teller;

void dl_store_on_wait(void (*fn)(void *ctx, const char *text), void *ctx) {
    teller.fn = fn;
    teller.ctx = ctx;
}

void dl_wait_silently(void) {
    w.silent = true;
    dl_interrupt_hold(1);
}

const char *dl_wait_then(const char *then) {
    const char *before = w.then;
    w.then = then;
    return before;
}

void dl_wait_meanwhile(dl_wait_fn *fn, void *arg) {
    w.meanwhile = fn;
    w.arg = arg;
}

static void tell(const char *path) {
    char text[512];
    if (!teller.fn) return;
    snprintf(text, sizeof text,
             "%.200s is locked by another process (fuser FILE shows which): waiting up to %d s; then %s", path,
             DL_DB_BUSY_MS / 1000, w.then ? w.then : "this fails, and can be repeated");
    teller.fn(teller.ctx, text);
}

void dl_wait_over(void) {
    w.since = w.looked = 0;
    w.told = w.kept = false;
}

void dl_wait_keep(void) { w.kept = true; }

bool dl_wait_more(const char *path, bool first, bool elsewhere) {
    const int64_t now = dl_steady_us();
    if (first && !w.kept) dl_wait_over();
    if (!w.looked) w.looked = now;
    if (!w.since || !elsewhere) w.since = now;
    if (now - w.since >= DL_DB_BUSY_MS * 1000L) return false;
    if (w.meanwhile && now - w.looked >= MEANWHILE_US) {
        w.looked = now;
        w.meanwhile(w.arg);
    }
    if (w.silent) return true;
    if (!w.told && now - w.since >= TELL_US) {
        w.told = true;
        tell(path);
    }
    return !dl_interrupt_get();
}

/* By the clock: on a loaded machine a pause takes longer than it should. */
static int try_again(sqlite3 *db, int times, unsigned pause_us) {
    const char *path = sqlite3_db_filename(db, "main");
    if (!dl_wait_more(path ? path : "", !times, true)) return dl_wait_over(), 0;
    usleep(pause_us);
    return 1;
}
static int try_here(void *db, int times) { return try_again(db, times, DL_DB_POLL_US); }
static int try_there(void *db, int times) {
    return try_again(db, times, times < DL_DB_SLOW ? DL_DB_POLL_US : DL_DB_SLOW_US);
}

void dl_db_patient(sqlite3 *db, int network) { sqlite3_busy_handler(db, network ? try_there : try_here, db); }

void dl_db_checkpoint(sqlite3 *db, int network) {
    /* not the 30 s of others: a long reader must not keep the write lock waiting here; the next commit tries again */
    sqlite3_busy_timeout(db, 200);
    sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    dl_db_patient(db, network);
}

/* ---------------------------------------------------------------- opening */

static const unsigned long network_types[] = {
    0x6969,     /* NFS */
    0x517b,     /* SMB */
    0xff534d42, /* CIFS */
    0xfe534d42, /* SMB2 */
    0x0bd00bd0, /* Lustre */
    0x47504653, /* GPFS */
    0x00c36400, /* Ceph */
    0x19830326, /* BeeGFS */
    0xaad7aaea, /* PanFS */
    0x01021997, /* 9P */
    0x65735546, /* FUSE: sshfs and the like; cannot be told from local ones */
    0x5346414f, /* AFS */
    0x73757245, /* Coda */
    0x01161970, /* GFS2 */
    0x7461636f, /* OCFS2 */
};

int dl_db_network_type(unsigned long f_type) {
    for (size_t i = 0; i < sizeof network_types / sizeof *network_types; i++)
        if ((f_type & 0xffffffff) == network_types[i]) return 1;
    return 0;
}

int dl_db_network(const char *path) {
    struct statfs fs;
    char dir[4096];
    if (!statfs(path, &fs)) return dl_db_network_type((unsigned long)fs.f_type);
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    return !statfs(slash ? dir : ".", &fs) && dl_db_network_type((unsigned long)fs.f_type);
}

/* Opens a WAL store in a folder that cannot be written. Without a -wal file nobody is writing to it. */
static dl_status open_immutable(sqlite3 **db, const char *path) {
    char wal[4200];
    struct stat st;
    snprintf(wal, sizeof wal, "%s-wal", path);
    if (!stat(wal, &st) && st.st_size)
        return dl_fail_hint(DL_ERR_STORE, "copy it with its -wal file to a folder that can be written",
                            "%s has commits in its -wal file, which cannot be read in a read-only folder", path);
    char *uri = sqlite3_mprintf("file:"), *p;
    for (const char *c = path; uri && *c; c++) {
        p = strchr("%?#", *c) ? sqlite3_mprintf("%s%%%02X", uri, *c) : sqlite3_mprintf("%s%c", uri, *c);
        sqlite3_free(uri);
        uri = p;
    }
    p = uri ? sqlite3_mprintf("%s?immutable=1", uri) : NULL;
    sqlite3_free(uri);
    if (!p) return dl_fail(DL_ERR_MEMORY, "no memory for a path");
    sqlite3_close(*db);
    int rc = sqlite3_open_v2(p, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    sqlite3_free(p);
    return rc == SQLITE_OK ? DL_OK : dl_db_fail(*db, "open the store");
}

dl_status dl_db_open(sqlite3 **out, const char *path, dl_db_mode mode) {
    static const int flags[] = {SQLITE_OPEN_READONLY, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY};
    sqlite3 *db = NULL;
    dl_status st = DL_OK;
    char doing[4200];
    snprintf(doing, sizeof doing, "open %.4096s", path);
    /* the store locks each connection itself */
    int rc = sqlite3_open_v2(mode == DL_DB_MEMORY ? ":memory:" : path, &db, flags[mode] | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK) {
        st = dl_db_fail(db, doing);
        goto fail;
    }
    dl_db_patient(db, mode != DL_DB_MEMORY && dl_db_network(path));
    if (sqlite3_exec(db, "select count(*) from sqlite_master", NULL, NULL, NULL) != SQLITE_OK) {
        int code = sqlite3_errcode(db);
        if (mode != DL_DB_READ || (code != SQLITE_CANTOPEN && code != SQLITE_READONLY && code != SQLITE_IOERR))
            st = dl_db_fail(db, doing);
        else
            st = open_immutable(&db, path);
        if (st != DL_OK) goto fail;
    }
    sqlite3_wal_autocheckpoint(db, 0); /* the writer does it, see dl_db_checkpoint */
    if (mode == DL_DB_READ) {
        sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        st = dl_db_run(db, "pragma query_only = 1", "");
    } else if (mode == DL_DB_WRITE) {
        st = dl_db_run(db, "pragma synchronous = full", "");
        if (st == DL_OK)
            st = dl_db_run(db, "pragma cache_size = -8192", ""); /* two pages for each of a thousand series */
    }
    if (st != DL_OK) goto fail;
    *out = db;
    return DL_OK;
fail:
    sqlite3_close(db);
    return st;
}

dl_status dl_db_journal(sqlite3 *db, int network, int *wal) {
    DL_DB_STATEMENT(st);
    DL_TRY(dl_db_prepare(db, &st, network ? "pragma journal_mode = delete" : "pragma journal_mode = wal"));
    int rc = sqlite3_step(st);
    /* the change of journal does not wait for locks by itself */
    for (int ms = 0; rc == SQLITE_BUSY && ms < DL_DB_BUSY_MS; ms += 20, rc = sqlite3_step(st)) {
        sqlite3_reset(st);
        sqlite3_sleep(20);
    }
    if (rc != SQLITE_ROW) return dl_db_fail(db, "choose the journal of the store");
    *wal = !strcmp((const char *)sqlite3_column_text(st, 0), "wal");
    return DL_OK;
}
