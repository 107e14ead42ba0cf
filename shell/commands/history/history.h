/* Shared by the commands on the experiment store: finding runs, cells of tables, run functions of other files. */
#ifndef DLSH_COMMANDS_HISTORY_H
#define DLSH_COMMANDS_HISTORY_H

#include "commands/context.h"

/* The store with all points of this process committed; NULL, error recorded. */
dl_store *dlsh_history(const dlsh_args *a);
/* Opens the store and finds the ids of the runs that the parameter "runs" names; the caller frees *ids. */
dl_status dlsh_run_ids(const dlsh_args *a, dl_store **store, long **ids, int *n);
/* The series of a run, or NULL. */
const dl_series_info *dlsh_series_find(const dl_run_info *r, const char *key);

/* A table whose columns are made at run time. */
typedef struct dlsh_wide_table {
    dlsh_table t;
    dlsh_column *cols;
    char **names;
} dlsh_wide_table;
dl_status dlsh_wide_new(dlsh_wide_table *w, int ncols);
/* Names a column; copies. */
dl_status dlsh_wide_column(dlsh_wide_table *w, int i, const char *name, char align);
void dlsh_wide_free(dlsh_wide_table *w);

/* Reads rows of the store, at most `limit` (0: all), into a table that dlsh_wide_free frees, also on failure. */
dl_status dlsh_rows_fetch(dl_rows *rows, long limit, dlsh_mode mode, dlsh_wide_table *w);
/* The rows of a table as a list of records. */
dl_status dlsh_table_list(const dlsh_table *t, dlsh_value *out);

/* Cells; text that is "" becomes none. */
dlsh_value dlsh_cell_text(const char *s);
/* For people in local time, else as ISO 8601 in UTC. */
dlsh_value dlsh_cell_when(long us, dlsh_mode mode);
/* For people "1:03", else seconds. */
dlsh_value dlsh_cell_seconds(double seconds, dlsh_mode mode);

/* Places the failure that the library recorded at an argument (NULL: the statement). */
dl_status dlsh_place_failure(const dlsh_args *a, const char *param);
/* The same, at the bytes of the argument that the failure names. */
dl_status dlsh_place_in(const dlsh_args *a, const char *param);
/* The filter that the options of `runs` and `best` make together. */
dl_status dlsh_run_filter(const dlsh_args *a, dlsh_buf *where);
/* For filters that find nothing: the first condition that no run meets, as a failure at its place. */
dl_status dlsh_run_filter_met(const dlsh_args *a, int deleted);

/* All that is kept of a run, as a record. */
dl_status dlsh_run_record(const dl_run_info *r, dlsh_value *out);

dl_status dlsh_runs_run(const dlsh_args *a, dlsh_value *result);       /* runs.c */
dl_status dlsh_compare_run(const dlsh_args *a, dlsh_value *result);    /* compare.c */
dl_status dlsh_compare_groups(const dlsh_args *a, dlsh_value *result); /* groups.c */
dl_status dlsh_diff_run(const dlsh_args *a, dlsh_value *result);       /* diff.c */

#endif
