/* Versions of the schema: making a new store, bringing an old one up to date, refusing what is not ours. */
#include <stdio.h>
#include <string.h>
#include "core/error.h"
#include "track/db.h"

static const char schema[] =
#include "schema.sql.inc"
    ;

const dl_migration dl_migrations[] = {
    {1, schema},
};
const int dl_migration_count = sizeof dl_migrations / sizeof *dl_migrations;

typedef struct version {
    int64_t application, version, tables;
} version;

static dl_status look(sqlite3 *db, version *v) {
    DL_TRY(dl_db_int(db, &v->application, "pragma application_id", ""));
    DL_TRY(dl_db_int(db, &v->version, "pragma user_version", ""));
    return dl_db_int(db, &v->tables, "select count(*) from sqlite_master", "");
}

static dl_status judge(const char *path, const version *v, int newest) {
    if (v->tables && v->application != DL_DB_APPLICATION)
        return dl_fail_hint(DL_ERR_STORE, "choose another file: --db FILE",
                            "%s is a database of another program (application id %ld)", path, (long)v->application);
    if (v->version > newest)
        return dl_fail_hint(DL_ERR_STORE, "use the newer version of dlsh that wrote it, or another file: --db FILE",
                            "%s has schema version %ld, this dlsh knows up to %d", path, (long)v->version, newest);
    return DL_OK;
}

dl_status dl_db_check_version(sqlite3 *db, const char *path, const dl_migration *table, int n) {
    version v = {0, 0, 0};
    DL_TRY(look(db, &v));
    DL_TRY(judge(path, &v, table[n - 1].version));
    if (v.version < table[n - 1].version)
        return dl_fail_hint(DL_ERR_STORE, "open it once where it can be written, or copy it there",
                            "%s has schema version %ld and must be brought to %d, but cannot be written", path,
                            (long)v.version, table[n - 1].version);
    return DL_OK;
}

static dl_status back_up(sqlite3 *db, const char *path, int64_t from) {
    char to[4200];
    sqlite3 *copy = NULL;
    snprintf(to, sizeof to, "%s.v%ld.bak", path, (long)from);
    dl_status st = DL_OK;
    sqlite3_backup *b = NULL;
    if (sqlite3_open(to, &copy) != SQLITE_OK || !(b = sqlite3_backup_init(copy, "main", db, "main")))
        st = dl_db_fail(copy, "make a backup of the store");
    if (b) {
        int rc = sqlite3_backup_step(b, -1);
        sqlite3_backup_finish(b);
        if (rc != SQLITE_DONE) st = dl_db_fail(copy, "make a backup of the store");
    }
    sqlite3_close(copy);
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

dl_status dl_db_migrate(sqlite3 *db, const char *path, const dl_migration *table, int n) {
    int newest = table[n - 1].version;
    for (;;) {
        version v = {0, 0, 0}, now = {0, 0, 0};
        int64_t before = 0, after = 0;
        DL_TRY(look(db, &v));
        DL_TRY(judge(path, &v, newest));
        if (v.tables && v.version == newest) return DL_OK;
        /* A transaction cannot be backed up from within, so the copy is made first; data_version tells whether another
         * process has committed since, and then both are done again. */
        DL_TRY(dl_db_int(db, &before, "pragma data_version", ""));
        if (v.tables) DL_TRY(back_up(db, path, v.version));
        DL_TRY(dl_db_run(db, "begin exclusive", ""));
        dl_status st = dl_db_int(db, &after, "pragma data_version", "");
        if (st == DL_OK) st = look(db, &now);
        int same = st == DL_OK && before == after && now.version == v.version && !now.tables == !v.tables;
        if (same)
            st = apply(db, v.version, table, n);
        else if (st == DL_OK) {
            DL_TRY(dl_db_run(db, "rollback", ""));
            continue;
        }
        return dl_db_end(db, st);
    }
}
