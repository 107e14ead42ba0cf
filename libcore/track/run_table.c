/* Tables of runs with columns of the caller's choice. */
#include <stdlib.h>
#include "track/query.h"

static dl_status build(dl_rows *r, const dl_run_query *q, const char *cols) {
    dl_clause c DL_SCOPE(dl_clause_free) = {0};
    DL_TRY(dl_clause_init(&c));
    sqlite3_str_appendall(c.sql, "select ");
    DL_TRY(dl_filter_columns(&c, r->db, cols, r->units));
    sqlite3_str_appendall(c.sql, " from (");
    DL_TRY(dl_runs_pick(&c, r->db, q));
    sqlite3_str_appendall(c.sql, ") as picked cross join run as r on r.id = picked.id");
    return dl_clause_prepare(&c, r->db, "%s", &r->st);
}

dl_rows *dl_run_table(dl_store *s, const dl_run_query *q, const char *cols) {
    static const dl_run_query all;
    if (!s || !cols) return dl_fail_null(s ? "columns" : "store"), NULL;
    dl_rows *r = calloc(1, sizeof *r);
    if (!r) return dl_fail(DL_ERR_MEMORY, "no memory for a query"), NULL;
    dl_runs_refresh(s);
    if (dl_rows_connect(s, &r->db) == DL_OK && build(r, q ? q : &all, cols) == DL_OK) return r;
    dl_rows_free(r);
    return NULL;
}
