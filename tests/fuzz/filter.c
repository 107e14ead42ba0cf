/* Fuzz target: conditions on runs, over a small store in memory, and dates and durations. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "track/query.h"
#include "track/filter/when.h"

static sqlite3 *store(void) {
    static sqlite3 *db;
    if (db) return db;
    if (dl_db_open(&db, "", DL_DB_MEMORY) != DL_OK || dl_db_migrate(db, "", dl_migrations, dl_migration_count) != DL_OK)
        abort();
    sqlite3_exec(db,
                 "insert into run(uuid, name, status, started_us, heartbeat_us, host, boot_id, pid, pid_start)"
                 " values('u', 'a', 'finished', 1, 1, 'h', 'b', 1, 1);"
                 "insert into param values(1, 'lr', '0.1', 0.1), (1, 'opt', 'adam', null);"
                 "insert into series(run_id, key, n, last) values(1, 'train/loss', 1, 0.5);"
                 "insert into tag values(1, 'good')",
                 NULL, NULL, NULL);
    return db;
}

/* What the parser accepts must be SQL. */
static void filter(const char *text) {
    sqlite3_stmt *q = NULL;
    dl_clause c;
    if (dl_clause_init(&c) != DL_OK) return;
    sqlite3_str_appendall(c.sql, "select r.id from run as r where 1");
    if (dl_filter_where(&c, store(), text) == DL_OK) {
        if (dl_clause_prepare(&c, store(), "%s", &q) != DL_OK) abort();
        while (sqlite3_step(q) == SQLITE_ROW) continue;
    }
    sqlite3_finalize(q);
    dl_clause_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    double from, to;
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    filter(text);
    dl_when_parse(text, 1795345200, &from, &to);
    dl_duration_parse(text, &from);
    free(text);
    return 0;
}
