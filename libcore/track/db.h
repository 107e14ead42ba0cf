/* SQLite as the store uses it: opening, binding, error messages, transactions, waiting. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include "core/scope.h"
#include "dlcore.h"

enum {
    DL_DB_APPLICATION = 0x444c5348, /* "DLSH" */
    DL_DB_BUSY_MS = 30000,          /* longest wait for a lock */
    DL_DB_POLL_US = 1000,           /* it is tried for again so often, */
    DL_DB_SLOW = 16,                /* where each trial goes over a network so many times, */
    DL_DB_SLOW_US = 50000,          /* and then so often, */
    DL_DB_TURN_US = 2000, /* and left free so long by one who will want it again at once: each process gets its turn */
    DL_DB_CHECKPOINT_PAGES = 4000
};

/* How to open. Exactly one connection of a process, the writing one, ever checkpoints. */
typedef enum dl_db_mode { DL_DB_READ, DL_DB_WRITE, DL_DB_MEMORY } dl_db_mode;
/* path is not used by DL_DB_MEMORY. Readers are query_only; a store in a folder that cannot be written is read as
 * immutable when it has no WAL. */
dl_status dl_db_open(sqlite3 **out, const char *path, dl_db_mode mode);
/* Chooses the journal: WAL, or DELETE on a network file system. *wal: whether SQLite uses a WAL. */
dl_status dl_db_journal(sqlite3 *db, int network, int *wal);

/* Records SQLite's last error; `doing` as in "cannot DOING". */
dl_status dl_db_fail(sqlite3 *db, const char *doing);
/* Was the last of these errors, which is the one at hand, of the place of the file - its disk, its rights, a lock - and
 * not of what is in it? */
bool dl_db_place_failed(void);

/* Binds by letters: i int64_t, I int64_t of which 0 is NULL, d double, t text (may be NULL), b blob (const void *, then
 * int64_t size). Text and blobs must live until the statement is reset. */
dl_status dl_db_bind(sqlite3_stmt *st, const char *kinds, ...);
/* One statement, its parameters bound the same way; rows are ignored. */
dl_status dl_db_run(sqlite3 *db, const char *sql, const char *kinds, ...);
/* The first column of the first row as an integer; *out is left alone when there is none. */
dl_status dl_db_int(sqlite3 *db, int64_t *out, const char *sql, const char *kinds, ...);
dl_status dl_db_prepare(sqlite3 *db, sqlite3_stmt **st, const char *sql);
/* A statement that is finalized at the end of its block, on every path. */
static inline void dl_db_finalize(sqlite3_stmt *const *st) { sqlite3_finalize(*st); }
#define DL_DB_STATEMENT(q) sqlite3_stmt *q DL_SCOPE(dl_db_finalize) = NULL
/* The texts in the first column of a query without parameters, at most `most` of them, for messages: the caller frees
 * each. Returns their number; 0 where the query fails. */
int dl_db_texts(sqlite3 *db, const char *sql, char **texts, int most);
/* Copies a database into the file `to`, waiting for locks as long as others do; removes the file on failure. `doing` as
 * in dl_db_fail. */
dl_status dl_db_copy(sqlite3 *from, const char *to, const char *doing);

/* Waits for locks as dl_wait_more does. SQLite's own pauses grow to 100 ms, in which others may take
 * the lock any number of times. */
void dl_db_patient(sqlite3 *db, int network);
dl_status dl_db_begin(sqlite3 *db);
/* Commits when st is DL_OK; rolls back otherwise, or when the commit fails. Returns the first failure. */
dl_status dl_db_end(sqlite3 *db, dl_status st);
/* Checkpoints holding the write lock. In a passive checkpoint SQLite before 3.51.3 can lose a reset of the WAL that
 * another connection makes at the same moment, which corrupts the file; under the lock there is no such commit. */
void dl_db_checkpoint(sqlite3 *db, int network);

/* 1 when the file system of `path` (a file, or else its folder) is one on which WAL's shared memory does not work. */
int dl_db_network(const char *path);
/* The same for statfs(2)'s f_type. */
int dl_db_network_type(unsigned long f_type);

/* One row a version: the SQL that leads from the version before to it. Row 0 makes a new store. */
typedef struct dl_migration {
    int version;
    const char *sql;
    const char *view; /* NULL, or the temporary view through which the version before is read as this one */
} dl_migration;
extern const dl_migration dl_migrations[];
extern const int dl_migration_count;
enum { DL_DB_OLDEST_READ = 1 }; /* older than this cannot be read through views */
/* Brings a store to the last version of the table. Before the first change of an existing store it is copied to
 * PATH.vVERSION.bak. Errors: DL_ERR_STORE for a newer version or a database of something else. */
dl_status dl_db_migrate(sqlite3 *db, const char *path, const dl_migration *table, int n);
/* Checks without changing anything, for a store that is only read: versions from `oldest` on can be read, older ones
 * through temporary views of this connection, newer ones because later schemas only add. Errors: DL_ERR_STORE. */
dl_status dl_db_check_version(sqlite3 *db, const char *path, const dl_migration *table, int n, int oldest);
/* The schema version of a store, when it is later than the last one of the table; else 0. */
dl_status dl_db_newer(sqlite3 *db, const dl_migration *table, int n, long *out);

/* ---------------------------------------------------------------- waiting for another process that holds the lock */

/* Called again and again by a thread that waits for the database at `path`, `first` the first time: false when it has
 * waited DL_DB_BUSY_MS, or is interrupted. Says once, through dl_store_on_wait, what it waits for; and does what is to
 * be done meanwhile. Only time in which the lock is held `elsewhere`, by another process, is counted and told of: a
 * commit of this process may take long on a busy disk. */
bool dl_wait_more(const char *path, bool first, bool elsewhere);
/* The next wait of this thread goes on with the one before; which is over. */
void dl_wait_keep(void);
void dl_wait_over(void);

/* This thread says nothing, and no interrupt ends its waits: it is one that works in the background. */
void dl_wait_silently(void);
/* What happens when this thread has waited in vain, as "the run begins elsewhere"; NULL: what is done fails. Returns
 * what was set before. */
const char *dl_wait_then(const char *then);
/* What this thread does ten times a second while it waits; NULL: nothing. */
typedef void dl_wait_fn(void *arg);
void dl_wait_meanwhile(dl_wait_fn *fn, void *arg);
