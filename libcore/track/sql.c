/* Read-only SQL: one statement, rows one by one, on a connection of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "track/query.h"

/* Authorizer: allows reading only, and no other files. */
static int allow(void *ctx DL_UNUSED, int action, const char *a, const char *b, const char *db DL_UNUSED,
                 const char *trigger DL_UNUSED) {
    static const char *const pragmas[] = {"table_info", "table_xinfo",     "table_list",       "index_list",
                                          "index_info", "index_xinfo",     "foreign_key_list", "database_list",
                                          "page_count", "user_version",    "integrity_check",  "quick_check",
                                          "page_size",  "compile_options", "function_list",    "journal_mode"};
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_FUNCTION: return b && !strcasecmp(b, "load_extension") ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA: /* with an argument only where it names a table or index */
        for (size_t i = 0; i < sizeof pragmas / sizeof *pragmas; i++)
            if (a && !strcasecmp(a, pragmas[i])) return b && !strcasecmp(a, "journal_mode") ? SQLITE_DENY : SQLITE_OK;
        return SQLITE_DENY;
    default: return SQLITE_DENY;
    }
}

static int interrupted(void *ctx DL_UNUSED) { return dl_interrupt_get(); }

/* sha256(DATA): in hex, as artifacts are named. */
static void sha256(sqlite3_context *x, int n DL_UNUSED, sqlite3_value **v) {
    char hex[65];
    const void *data = sqlite3_value_blob(v[0]);
    dl_sha256_hex(data ? data : "", (uint64_t)sqlite3_value_bytes(v[0]), hex);
    sqlite3_result_text(x, hex, 64, SQLITE_TRANSIENT);
}

dl_status dl_rows_connect(dl_store *s, sqlite3 **db) {
    /* the lock commits what was pushed, and says whether there is a file */
    DL_TRY(dl_store_read_lock(s));
    int memory = s->r_memory;
    dl_store_read_unlock(s, DL_OK);
    DL_TRY(dl_db_open(db, s->path, memory ? DL_DB_MEMORY : DL_DB_READ));
    dl_status st = memory ? dl_db_migrate(*db, "", dl_migrations, dl_migration_count) : DL_OK;
    if (st == DL_OK && memory) st = dl_db_run(*db, "pragma query_only = 1", "");
    if (st == DL_OK &&
        sqlite3_create_function(*db, "sha256", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, sha256, NULL, NULL))
        st = dl_db_fail(*db, "define sha256");
    sqlite3_progress_handler(*db, 10000, interrupted, NULL);
    return st;
}

/* SQLite does not find a name: the hint is the nearest name that exists. */
static dl_status unknown(sqlite3 *db, const char *word, const char *query, const char *otherwise, const char *says) {
    enum { MOST = 256 };
    char *names[MOST];
    sqlite3_set_authorizer(db, NULL, NULL); /* this query is not the user's */
    int n = dl_db_texts(db, query, names, MOST);
    sqlite3_set_authorizer(db, allow, NULL);
    const char *dot = strrchr(word, '.'), *name = dot ? dot + 1 : word;
    int i = 0;
    while (i < n && strcmp(names[i], name)) i++;
    dl_status st =
        i < n ? dl_fail_hint(DL_ERR_NAME, "a table that the statement does not name has this column", "sql: %s", says)
              : dl_fail_unknown(name, (const char *const *)names, n, otherwise, "sql: %s", says);
    while (n) free(names[--n]);
    return st;
}

/* A statement that SQLite rejects: its message, the position in the text, the nearest name. */
static dl_status not_sql(sqlite3 *db, const char *sql) {
    static const char table[] = "no such table: ", column[] = "no such column: ";
    char says[400];
    snprintf(says, sizeof says, "%s", sqlite3_errmsg(db));
    int at = -1;
#if SQLITE_VERSION_NUMBER >= 3038000
    at = sqlite3_error_offset(db);
#endif
    if (!strncmp(says, table, sizeof table - 1))
        unknown(
            db, says + sizeof table - 1,
            "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%' order by 1",
            NULL, says);
    else if (!strncmp(says, column, sizeof column - 1))
        unknown(db, says + sizeof column - 1,
                "select distinct c.name from sqlite_master m, pragma_table_info(m.name) c where m.type in ('table', "
                "'view')",
                "pragma table_info(run) lists the columns of a table; text stands in single quotes", says);
    else
        dl_fail_hint(DL_ERR_SYNTAX, "for example: select name, status from run where id > 3", "sql: %s", says);
    dl_error e;
    dl_error_take(&e);
    if (!strcmp(says, "incomplete input")) e.at = (int)strlen(sql), e.length = 1;
    if (at >= 0) e.at = at, e.length = (int)strcspn(sql + at, " \t\n,();=<>");
    return dl_error_put(&e);
}

static dl_status prepare(dl_rows *r, const char *sql) {
    static const char reads_only[] = "sql only reads; use the sqlite3 program to change a store";
    const char *rest = NULL;
    sqlite3_set_authorizer(r->db, allow, NULL);
    if (sqlite3_prepare_v2(r->db, sql, -1, &r->st, &rest) != SQLITE_OK) {
        if (sqlite3_errcode(r->db) == SQLITE_AUTH)
            return dl_fail_hint(DL_ERR_STORE, reads_only, "sql: not allowed: %s", sqlite3_errmsg(r->db));
        return not_sql(r->db, sql);
    }
    if (!r->st) return dl_fail(DL_ERR_SYNTAX, "sql: there is no statement");
    if (!sqlite3_stmt_readonly(r->st))
        return dl_fail_hint(DL_ERR_STORE, reads_only, "sql: the statement would change the store");
    DL_DB_STATEMENT(more);
    int rc = sqlite3_prepare_v2(r->db, rest, -1, &more, NULL);
    if (rc != SQLITE_OK || more)
        return dl_fail_hint(DL_ERR_SYNTAX, "call sql again for the next one", "sql: one statement at a time");
    return DL_OK;
}

dl_rows *dl_store_sql(dl_store *s, const char *sql) {
    if (!sql) return dl_fail_null("sql"), NULL;
    dl_rows *r = calloc(1, sizeof *r);
    if (!r) return dl_fail(DL_ERR_MEMORY, "no memory for a query"), NULL;
    if (dl_rows_connect(s, &r->db) == DL_OK && prepare(r, sql) == DL_OK) return r;
    dl_rows_free(r);
    return NULL;
}

int dl_rows_next(dl_rows *r) {
    if (!r) return dl_fail_null("query"), -1;
    int rc = sqlite3_step(r->st);
    if (rc == SQLITE_ROW) return 1;
    if (rc == SQLITE_DONE) return 0;
    if (sqlite3_errcode(r->db) == SQLITE_ERROR)
        dl_fail(DL_ERR_STORE, "sql: %s", sqlite3_errmsg(r->db));
    else
        dl_db_fail(r->db, "run the query");
    return -1;
}

long dl_rows_width(const dl_rows *r) { return sqlite3_column_count(r->st); }
const char *dl_rows_name(const dl_rows *r, long col) { return sqlite3_column_name(r->st, (int)col); }
char dl_rows_unit(const dl_rows *r, long col) {
    return col >= 0 && col < DL_TABLE_WIDEST && r->units[col] ? r->units[col] : ' ';
}
char dl_rows_type(const dl_rows *r, long col) {
    /* SQLITE_INTEGER 1, FLOAT 2, TEXT 3, BLOB 4, NULL 5 */
    return "niftbn"[sqlite3_column_type(r->st, (int)col)];
}
long dl_rows_int(const dl_rows *r, long col) { return (long)sqlite3_column_int64(r->st, (int)col); }
double dl_rows_float(const dl_rows *r, long col) { return sqlite3_column_double(r->st, (int)col); }
const char *dl_rows_text(const dl_rows *r, long col) { return (const char *)sqlite3_column_text(r->st, (int)col); }
const void *dl_rows_blob(const dl_rows *r, long col, long *n) {
    const void *data = sqlite3_column_blob(r->st, (int)col);
    *n = sqlite3_column_bytes(r->st, (int)col);
    return data;
}

void dl_rows_free(dl_rows *r) {
    if (!r) return;
    sqlite3_finalize(r->st);
    sqlite3_close(r->db);
    free(r);
}
