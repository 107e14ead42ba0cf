/* Shared by the commands on the experiment store: finding runs, cells of tables, run functions of other files. */
#pragma once

#include "commands/context.h"

/* The store with all points of this process committed; NULL, error recorded. */
dl_store *dlsh_history(const dlsh_args *a);
/* The run that the parameter "run" names, alone in a list, and its store. NULL: a failure that is placed there. */
dl_run_list *dlsh_named_run(const dlsh_args *a, dl_store **store);
/* Opens the store and finds the ids of the runs that the parameter "runs" names; the caller frees *ids. */
dl_status dlsh_run_ids(const dlsh_args *a, dl_store **store, long **ids, int *n);
/* Opens the store; the runs of the parameter "runs" and the options that choose runs, as one condition. */
dl_status dlsh_run_condition(const dlsh_args *a, dl_store **store, dlsh_buf *where);
/* The run of a handle of class run, and the last step that was logged; NULL: it has ended. */
dl_run *dlsh_recording_run(void *self, long *step);
/* Around a step of an optimizer in a loop written by hand: the size of its update, where one is due, goes to the run
 * that is at work, at the step that is logged next. */
dl_look *dlsh_update_before(const dl_optimizer *o);
void dlsh_update_after(dl_look *look, const dl_optimizer *o, dl_status stepped);
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
/* limit= is at least 0, which stands for all. */
dl_status dlsh_check_limit(const dlsh_args *a);
/* For filters that find nothing: the first condition that no run meets, as a failure at its place. */
dl_status dlsh_run_filter_met(const dlsh_args *a, int deleted);

/* What the page of a report shows (page.c). */
typedef struct dlsh_run_page {
    const char *title, *where; /* where NULL: all runs */
    long limit;                /* the newest; 0: all */
    int live;                  /* the page asks for what is new */
} dlsh_run_page;
/* The runs as JSON. */
dl_status dlsh_run_page_data(dl_store *store, const dlsh_run_page *p, dlsh_buf *out);
/* The page with these data in it. */
dl_status dlsh_run_page_html(dl_store *store, const dlsh_run_page *p, dlsh_buf *out);

/* All that is kept of a run, as a record. */
dl_status dlsh_run_record(const dl_run_info *r, dlsh_value *out);

/* The options that choose runs, which dlsh_run_filter reads. */
#define DLSH_RUN_FILTERS                                                                                               \
    {"where", DLSH_OPT_STRING,                                                                                         \
     NULL,    "a condition on columns, parameters, metrics and tags: \"lr > 0.001 and acc > 0.9\"",                    \
     NULL,    "filter"},                                                                                               \
        {"status", DLSH_OPT_WORD,                                                                                      \
         NULL,     "only runs of this status",                                                                         \
         NULL,     "running|paused|finished|failed|killed|diverged"},                                                  \
        {"tag", DLSH_OPT_WORD, NULL, "only runs with this tag", NULL, NULL},                                           \
        {"name", DLSH_OPT_WORD, NULL, "only runs whose name has this in it", NULL, NULL},                              \
        {"model", DLSH_OPT_WORD, NULL, "only runs of this model", NULL, NULL},                                         \
        {"dataset", DLSH_OPT_WORD, NULL, "only runs on this dataset", NULL, NULL}, {                                   \
        "experiment", DLSH_OPT_WORD, NULL, "only runs of this experiment", NULL, NULL                                  \
    }

dl_status dlsh_runs_run(const dlsh_args *a, dlsh_value *result);       /* runs.c */
dl_status dlsh_compare_run(const dlsh_args *a, dlsh_value *result);    /* compare.c */
dl_status dlsh_compare_groups(const dlsh_args *a, dlsh_value *result); /* groups.c */
dl_status dlsh_diff_run(const dlsh_args *a);                           /* diff.c */
