/* Reading runs: shared by lists, comparison and ranking. */
#ifndef DL_TRACK_QUERY_H
#define DL_TRACK_QUERY_H

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
/* Binds the values, as many as the statement has. */
dl_status dl_clause_bind(const dl_clause *c, sqlite3 *db, sqlite3_stmt *st);
/* Prepares what was built and binds the values. */
dl_status dl_clause_prepare(dl_clause *c, sqlite3 *db, sqlite3_stmt **st);

/* Appends the SQL condition of a filter (about "run as r") or the SQL expression of a sort key. */
dl_status dl_filter_where(dl_clause *c, sqlite3 *db, const char *text);
dl_status dl_filter_sort(dl_clause *c, sqlite3 *db, const char *text);

/* Loads the runs that the query in c selects, begun with dl_runs_select, with their parameters, tags and series;
 * `full`: everything. */
dl_status dl_runs_load(dl_store *s, dl_clause *c, int full, dl_arena *a, dl_run_info **runs, long *n);
/* Starts c with the columns that dl_runs_load expects: "select ... from run as r where ". */
void dl_runs_select(dl_clause *c);

/* dl_metric_resolve on a connection. */
dl_status dl_metric_key(sqlite3 *db, const char *name, char *out, long size);

/* NaN for NULL. */
double dl_column_number(sqlite3_stmt *st, int col);

#endif
