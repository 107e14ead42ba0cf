/* Versions of the schema: creating a store, migrating an old one, refusing other databases. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "core/error.h"
#include "track/db.h"

static const char schema[] =
#include "schema.sql.inc"
    ;

/* Before version 2 the time of a run was that from its start to its end. Readers that count rows by rowid, as DuckDB
 * does, fail on tables without one, and on views of one such table alone. */
#define ACTIVE_US "coalesce(ended_us, started_us) - started_us"
#define ACTIVE_SINCE_US "case when ended_us is null then started_us end"

static const char second[] =
    "alter table run add column active_us integer not null default 0;"
    "alter table run add column active_since_us integer;"
    "update run set active_us = " ACTIVE_US ", active_since_us = " ACTIVE_SINCE_US ";"
    "create view points(series_id, step, t_us, value) as select m.series_id, m.step, m.t_us, m.value"
    " from series as s join metric as m on m.series_id = s.id;"
    "create view params(run, key, value, num) as select p.run_id, p.key, p.value, p.num"
    " from run as r join param as p on p.run_id = r.id;"
    "create view tags(run, tag) as select t.run_id, t.tag from run as r join tag as t on t.run_id = r.id;"
    "create view artifacts(run, name, step, kind, sha, bytes, path) as select a.run_id, a.name, a.step, a.kind, a.sha,"
    " a.bytes, a.path from run as r join artifact as a on a.run_id = r.id;";

/* Lists walk runs by time without their wide rows, and what filters ask of metrics stands in one index. */
static const char third[] =
    "create index if not exists run_list on run(deleted_us, started_us);"
    "drop index if exists series_key;"
    "create index if not exists series_list on series(key, run_id, n, n_nan, first, last, min, max, sum)";

/* Sweeps: what they search and how, and their trials, which processes claim. */
static const char fourth[] =
    "alter table sweep add column uuid text;"
    "alter table sweep add column name text;"
    "alter table sweep add column created_us integer not null default 0;"
    "alter table sweep add column script_path text;"
    "alter table sweep add column script_text text;"
    "alter table sweep add column cwd text;"
    "alter table sweep add column metric text;"
    "alter table sweep add column stat text not null default 'best';"
    "alter table sweep add column direction integer not null default -1;"
    "alter table sweep add column dims text not null default '';"
    "alter table sweep add column points integer not null default 0;"
    "alter table sweep add column seeds text not null default '';"
    "alter table sweep add column max_steps integer not null default 0;"
    "alter table sweep add column min_steps integer not null default 0;"
    "alter table sweep add column eta real not null default 3;"
    "alter table sweep add column seed integer not null default 0;"
    "create table trial(id integer primary key, sweep_id integer not null references sweep(id), number integer not "
    "null,"
    " point text not null, seed integer, params text, status text not null check(status in ('waiting', 'running',"
    " 'paused', 'finished', 'failed', 'stopped')) default 'waiting', rung integer not null default 0, value real,"
    " run_id integer references run(id), error text, attempts integer not null default 0, host text, boot_id text,"
    " pid integer, pid_start integer, heartbeat_us integer, started_us integer, ended_us integer,"
    " unique(sweep_id, number));"
    "create index trial_open on trial(sweep_id, status, number);"
    "create table rung(trial_id integer not null references trial(id), rung integer not null, value real,"
    " primary key(trial_id, rung))";

static const char first_as_second[] = "create temp view run as select *, " ACTIVE_US " as active_us, " ACTIVE_SINCE_US
                                      " as active_since_us from main.run";

const dl_migration dl_migrations[] = {
    {1, schema, NULL},
    {2, second, first_as_second},
    {3, third, NULL},
    {4, fourth, NULL},
};
const int dl_migration_count = sizeof dl_migrations / sizeof *dl_migrations;

typedef struct version {
    int64_t application, version, tables;
} version;

static dl_status read_version(sqlite3 *db, version *v) {
    DL_TRY(dl_db_int(db, &v->application, "pragma application_id", ""));
    DL_TRY(dl_db_int(db, &v->version, "pragma user_version", ""));
    return dl_db_int(db, &v->tables, "select count(*) from sqlite_master", "");
}

/* Reads all three in one transaction: another process may be creating the store. */
static dl_status read_snapshot(sqlite3 *db, version *v) {
    if (!sqlite3_get_autocommit(db)) return read_version(db, v);
    DL_TRY(dl_db_run(db, "begin", ""));
    return dl_db_end(db, read_version(db, v));
}

static dl_status check_application(const char *path, const version *v) {
    if (v->tables && v->application != DL_DB_APPLICATION)
        return dl_fail_hint(DL_ERR_STORE, "choose another file: --db FILE",
                            "%s is a database of another program (application id %ld)", path, (long)v->application);
    return DL_OK;
}

static dl_status check_file(const char *path, const version *v, int newest) {
    DL_TRY(check_application(path, v));
    if (v->version > newest)
        return dl_fail_hint(DL_ERR_STORE, "use the newer version of dlsh that wrote it, or another file: --db FILE",
                            "%s has schema version %ld, this dlsh knows up to %d", path, (long)v->version, newest);
    return DL_OK;
}

/* Creates a temporary view in memory; the file stays unchanged. */
static dl_status add_view(sqlite3 *db, const char *sql) {
    DL_TRY(dl_db_run(db, "pragma temp_store = memory", ""));
    DL_TRY(dl_db_run(db, "pragma query_only = 0", ""));
    DL_TRY(dl_db_run(db, sql, ""));
    return dl_db_run(db, "pragma query_only = 1", "");
}

dl_status dl_db_newer(sqlite3 *db, const dl_migration *table, int n, long *out) {
    version v = {0, 0, 0};
    DL_TRY(read_snapshot(db, &v));
    *out = v.application == DL_DB_APPLICATION && v.version > table[n - 1].version ? (long)v.version : 0;
    return DL_OK;
}

dl_status dl_db_check_version(sqlite3 *db, const char *path, const dl_migration *table, int n, int oldest) {
    version v = {0, 0, 0};
    DL_TRY(read_snapshot(db, &v));
    DL_TRY(check_application(path, &v));
    if (v.version < oldest)
        return dl_fail_hint(DL_ERR_STORE, "open it once where it can be written, or copy it there",
                            "%s has schema version %ld and must be brought to %d, but cannot be written", path,
                            (long)v.version, table[n - 1].version);
    dl_status st = DL_OK;
    for (int i = 0; i < n && st == DL_OK && v.tables; i++)
        if (table[i].version > v.version && table[i].view) st = add_view(db, table[i].view);
    return st;
}

static dl_status apply(sqlite3 *db, int64_t from, const dl_migration *table, int n) {
    char pragma[64];
    for (int i = 0; i < n; i++)
        if (table[i].version > from && sqlite3_exec(db, table[i].sql, NULL, NULL, NULL) != SQLITE_OK)
            return dl_db_fail(db, from ? "migrate the store" : "make the store");
    snprintf(pragma, sizeof pragma, "pragma application_id = %d", DL_DB_APPLICATION);
    DL_TRY(dl_db_run(db, pragma, ""));
    snprintf(pragma, sizeof pragma, "pragma user_version = %d", table[n - 1].version);
    return dl_db_run(db, pragma, "");
}

/* One attempt. *again: another process has committed meanwhile. */
static dl_status attempt(sqlite3 *db, const char *path, const version *v, const dl_migration *table, int n,
                         int *again) {
    char own[4200], bak[4200];
    version now = {0, 0, 0};
    int64_t before = 0, after = 0;
    snprintf(bak, sizeof bak, "%s.v%ld.bak", path, (long)v->version);
    snprintf(own, sizeof own, "%.4096s.%ld", bak, (long)getpid());
    /* A transaction cannot be backed up from within, so the copy is made first, under a name of this process's own,
     * since others may be doing the same. data_version tells whether another process has committed since: then all is
     * done again. */
    DL_TRY(dl_db_int(db, &before, "pragma data_version", ""));
    if (v->tables) DL_TRY(dl_db_copy(db, own, "make a backup of the store"));
    dl_status st = dl_db_run(db, "begin exclusive", "");
    if (st == DL_OK) {
        st = dl_db_int(db, &after, "pragma data_version", "");
        if (st == DL_OK) st = read_snapshot(db, &now);
        *again = st == DL_OK && (before != after || now.version != v->version || !now.tables != !v->tables);
        if (st == DL_OK && !*again) {
            if (v->tables && rename(own, bak)) st = dl_fail(DL_ERR_IO, "cannot write %s: %s", bak, strerror(errno));
            if (st == DL_OK) st = apply(db, v->version, table, n);
        }
        st = dl_db_end(db, st);
    }
    if (v->tables) unlink(own);
    return st;
}

dl_status dl_db_migrate(sqlite3 *db, const char *path, const dl_migration *table, int n) {
    int newest = table[n - 1].version, again = 1;
    while (again) {
        version v = {0, 0, 0};
        again = 0;
        DL_TRY(read_snapshot(db, &v));
        DL_TRY(check_file(path, &v, newest));
        if (!v.tables || v.version < newest) DL_TRY(attempt(db, path, &v, table, n, &again));
    }
    return DL_OK;
}
