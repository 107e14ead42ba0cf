/* Reading runs: shared by lists, comparison and ranking. */
#pragma once

#include "track/arena.h"
#include "track/store.h"

/* An SQL text under construction with the values of its parameters ?1, ?2, ... */
typedef struct dl_clause {
    sqlite3_str *sql;
    int nvalue;
    struct {
        char *text; /* NULL: a number */
        double number;
    } values[256];
} dl_clause;
dl_status dl_clause_init(dl_clause *c);
void dl_clause_free(dl_clause *c);
/* Adds a value and returns its number for "?%d"; 0 when there are too many. Text is copied. */
int dl_clause_text(dl_clause *c, const char *text);
int dl_clause_number(dl_clause *c, double number);
/* Binds the values, as many as the statement has; it keeps copies. */
dl_status dl_clause_bind(const dl_clause *c, sqlite3 *db, sqlite3_stmt *st);
/* Prepares a statement with what was built in place of its %s, and binds the values. */
dl_status dl_clause_prepare(dl_clause *c, sqlite3 *db, const char *around, sqlite3_stmt **st);

/* Appends the SQL condition of a filter (about "run as r") or the order by sort keys. */
dl_status dl_filter_where(dl_clause *c, sqlite3 *db, const char *text);
dl_status dl_filter_sort(dl_clause *c, sqlite3 *db, const char *text);
/* Appends the columns of a table of runs, "lr, min(val/loss)", as SQL; their units as dl_rows_unit returns them. */
enum { DL_TABLE_WIDEST = 64 };
dl_status dl_filter_columns(dl_clause *c, sqlite3 *db, const char *text, char units[DL_TABLE_WIDEST]);
/* Ends a picking of runs, limit 0 being all. Without a limit SQLite drops the order of a subquery. */
void dl_runs_limit(dl_clause *c, long limit);
/* Appends what a query asks for: the condition, the order, the limit. */
dl_status dl_runs_pick(dl_clause *c, sqlite3 *db, const dl_run_query *q);

/* Loads the runs that the query in c selects, begun with dl_runs_select, with their parameters, tags and series;
 * `full`: everything. */
dl_status dl_runs_load(dl_store *s, dl_clause *c, int full, dl_arena *a, dl_run_info **runs, long *n);
/* Starts c with "select r.id from run as r where ". */
void dl_runs_select(dl_clause *c);

/* Marks runs of dead processes as killed before they are read. */
void dl_runs_refresh(dl_store *s);

/* Rows read from a connection of their own. */
struct dl_rows {
    sqlite3 *db;
    sqlite3_stmt *st;
    char units[DL_TABLE_WIDEST];
};
/* Opens that connection, which only reads. */
dl_status dl_rows_connect(dl_store *s, sqlite3 **db);

/* dl_metric_resolve on a connection. */
dl_status dl_metric_key(sqlite3 *db, const char *name, char *out, long size);

/* The table keys(key) of all parameters or metrics, last of them a null: jumps from key to key in the index. */
#define DL_KEYS_OF(table)                                                                                              \
    "with recursive keys(key) as (select min(key) from " table " union all"                                            \
    " select (select min(key) from " table " where key > keys.key) from keys where keys.key is not null) "
#define DL_SERIES_KEYS DL_KEYS_OF("series")

/* NaN for NULL. */
double dl_column_number(sqlite3_stmt *st, int col);
