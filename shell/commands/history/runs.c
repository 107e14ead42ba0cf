/* `runs`: lists of runs, and the filters that it shares with `best`. */
#include <stdio.h>
#include <string.h>

#include "commands/history/history.h"

/* ---------------------------------------------------------------- filters */

/* Adds a condition to a filter. */
static void condition(dlsh_buf *where, const char *fmt, const char *text) {
    dlsh_buf_puts(where, where->n ? " and " : "");
    dlsh_buf_printf(where, fmt, text);
}

/* The options that narrow a list, as conditions. */
static const struct {
    const char *option, *condition;
} narrowing[] = {{"status", "status = \"%s\""},
                 {"tag", "tag = \"%s\""},
                 {"name", "name ~ \"%s\""},
                 {"model", "model = \"%s\""},
                 {"dataset", "dataset = \"%s\""},
                 {"experiment", "experiment = \"%s\""},
                 {"where", "%s"}};
enum { NNARROWING = DLSH_COUNT(narrowing) };

typedef dl_status filter_check(dl_store *s, const char *where, int deleted);

static dl_status check_syntax(dl_store *s, const char *where, DLSH_UNUSED int deleted) {
    return dl_run_filter_check(s, where);
}

/* Checks the condition of one option; a failure is placed at the option, for where= in its text. */
static dl_status check_option(const dlsh_args *a, int i, filter_check *check, int deleted) {
    const char *option = narrowing[i].option, *text = dlsh_arg_str(a, option);
    if (!text) return DL_OK;
    DLSH_SCOPED_BUF one = {0};
    dlsh_buf_printf(&one, narrowing[i].condition, text);
    if (!check(dlsh_store(dlsh_arg_session(a)), dlsh_buf_text(&one), deleted)) return DL_OK;
    return strcmp(option, "where") ? dlsh_place_failure(a, option) : dlsh_place_in(a, option);
}

dl_status dlsh_run_filter(const dlsh_args *a, dlsh_buf *where) {
    for (int i = 0; i < NNARROWING; i++) {
        const char *option = narrowing[i].option, *text = dlsh_arg_str(a, option);
        int whole = !strcmp(option, "where");
        if (!text) continue;
        if (strchr(text, '"') && !whole)
            return dlsh_arg_fail(a, option, DL_ERR_VALUE, "use where=", "%s= takes no quotes inside", option);
        DLSH_TRY(check_option(a, i, check_syntax, 0));
        if (strspn(text, " \t\n") < strlen(text)) condition(where, whole ? "(%s)" : narrowing[i].condition, text);
    }
    return DL_OK;
}

dl_status dlsh_run_filter_met(const dlsh_args *a, int deleted) {
    for (int i = 0; i < NNARROWING; i++) DLSH_TRY(check_option(a, i, dl_run_filter_met, deleted));
    return DL_OK;
}

/* ---------------------------------------------------------------- columns */

enum { ID, NAME, STATUS, STARTED, SECONDS, DATASET, MODEL, PARAMS, METRIC };

typedef struct run_column {
    const char *name, *shown; /* for programs, for people */
    char align;
    int rank; /* in a narrow terminal the lowest is left out first */
    int what;
    const char *metric; /* of METRIC: the last value, or the best */
    int best;
} run_column;

static const run_column run_columns[] = {
    {"id", "id", 'r', 10, ID, NULL, 0},
    {"name", "name", 'l', 9, NAME, NULL, 0},
    {"status", "status", 'l', 5, STATUS, NULL, 0},
    {"started", "started", 'l', 2, STARTED, NULL, 0},
    {"seconds", "time", 'r', 4, SECONDS, NULL, 0},
    {"dataset", "dataset", 'l', 1, DATASET, NULL, 0},
    {"model", "model", 'l', 3, MODEL, NULL, 0},
    {"params", "params", 'r', 0, PARAMS, NULL, 0},
    {"best test/acc", "best acc", 'r', 8, METRIC, "test/acc", 1},
    {"test/loss", "test loss", 'r', 6, METRIC, "test/loss", 0},
    {"train/loss", "loss", 'r', 7, METRIC, "train/loss", 0},
};
enum { NRUN_COLUMNS = DLSH_COUNT(run_columns) };

static dlsh_value run_cell(const run_column *c, const dl_run_info *r, dlsh_mode mode) {
    const dl_series_info *s = c->metric ? dlsh_series_find(r, c->metric) : NULL;
    switch (c->what) {
    case ID: return dlsh_int(r->id);
    case NAME: return dlsh_cell_text(r->name);
    case STATUS: return dlsh_string(dl_run_status_name(r->status));
    case STARTED: return dlsh_cell_when(r->started_us, mode);
    case SECONDS: return dlsh_cell_seconds(r->seconds, mode);
    case DATASET: return dlsh_cell_text(r->dataset);
    case MODEL: return dlsh_cell_text(r->model_name);
    case PARAMS: return dlsh_int(r->n_params);
    default: return s ? dlsh_float(c->best ? s->max : s->last) : dlsh_none();
    }
}

/* Whether a run has what a column shows; what every run has counts as had. */
static int has(const run_column *c, const dl_run_info *r) {
    switch (c->what) {
    case DATASET: return *r->dataset != 0;
    case MODEL: return *r->model_name != 0;
    case PARAMS: return r->n_params != 0;
    case METRIC: return dlsh_series_find(r, c->metric) != NULL;
    default: return 1;
    }
}

/* Programs get all columns; people those that some run has. */
static int wanted(const run_column *c, const dl_run_list *l, const dlsh_look *look) {
    int any = look->mode != DLSH_MODE_TABLE || !l->n;
    for (long i = 0; i < l->n && !any; i++) any = has(c, &l->runs[i]);
    return any;
}

static dl_status runs_table(dlsh_sink *sink, const dl_run_list *l, long limit) {
    dlsh_look look = dlsh_sink_look(sink);
    dlsh_column cols[NRUN_COLUMNS];
    const run_column *chosen[NRUN_COLUMNS];
    int n = 0, rank[NRUN_COLUMNS];
    for (int c = 0; c < NRUN_COLUMNS; c++) {
        if (!wanted(&run_columns[c], l, &look)) continue;
        chosen[n] = &run_columns[c];
        rank[n] = run_columns[c].rank;
        const char *name = look.mode == DLSH_MODE_TABLE ? run_columns[c].shown : run_columns[c].name;
        cols[n++] = (dlsh_column){name, run_columns[c].align, "%.4f"};
    }
    dlsh_table t = {.ncols = n, .cols = cols, .rank = rank};
    dl_status status = DL_OK;
    for (long i = 0; !status && i < l->n && (!limit || i < limit); i++) {
        dlsh_value cells[NRUN_COLUMNS];
        for (int c = 0; c < n; c++) cells[c] = run_cell(chosen[c], &l->runs[i], look.mode);
        status = dlsh_table_row(&t, cells);
    }
    status = dlsh_table_show(sink, &t, status, "no runs\n");
    if (!status && limit && l->n > limit && look.mode == DLSH_MODE_TABLE)
        dlsh_put(sink, "more than these: limit=0 shows all\n");
    return status;
}

static dl_status runs_list(const dl_run_list *l, long limit, dlsh_value *out) {
    DLSH_DROPPED dlsh_value list = dlsh_new_list((int)l->n);
    for (long i = 0; i < l->n && (!limit || i < limit); i++) {
        dlsh_value one = dlsh_void();
        DLSH_TRY(dlsh_run_record(&l->runs[i], &one));
        DLSH_TRY(dlsh_append(list, one));
    }
    return dlsh_hand_over(&list, out);
}

/* ---------------------------------------------------------------- columns of the caller's choice */

/* Runs are told apart by id and name, unless the caller wants it otherwise. */
static const char *first_columns(const char *cols) {
    for (const char *c = cols; *c; c += strcspn(c, ", \t"), c += strspn(c, ", \t")) {
        size_t n = strcspn(c, ", \t");
        if ((n == 2 && !memcmp(c, "id", n)) || (n == 4 && !memcmp(c, "name", n))) return "";
    }
    return "id,name,";
}

static dl_status columns_failure(const dlsh_args *a, size_t before) {
    dl_error e = dlsh_taken_error();
    e.at = e.length && e.at >= (int)before ? e.at - (int)before : 0;
    dl_error_put(&e);
    return dlsh_place_in(a, "cols");
}

/* The names and order are checked apart from the filter, so that a failure stands at its option. */
static dl_status show_columns(const dlsh_args *a, dl_store *store, dl_run_query q, long limit, dlsh_value *result) {
    const char *cols = dlsh_arg_str(a, "cols"), *first = first_columns(cols);
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_mode mode = dlsh_arg_called(a) ? DLSH_MODE_JSON : dlsh_sink_look(sink).mode;
    DLSH_SCOPED_BUF all = {0};
    dlsh_buf_printf(&all, "%s%s", first, cols);
    dl_run_query none = {.limit = 1};
    dl_rows *rows = dl_run_table(store, &none, dlsh_buf_text(&all));
    if (!rows) return columns_failure(a, strlen(first));
    dl_rows_free(rows);
    rows = dl_run_table(store, &q, dlsh_buf_text(&all));
    if (!rows) return dlsh_place_failure(a, dlsh_given(a, "sort") ? "sort" : "where");
    dlsh_wide_table w = {0};
    dl_status status = dlsh_rows_fetch(rows, limit, mode, &w);
    for (int c = 0; !status && c < w.t.ncols; c++) strcpy(w.cols[c].format, "%.5g");
    int found = w.t.nrows, more = !status && limit && found == limit && dl_rows_next(rows) > 0;
    w.t.keys = 0;
    if (status || !dlsh_arg_called(a))
        status = dlsh_table_show(sink, &w.t, status, "no runs\n");
    else
        status = dlsh_table_list(&w.t, result);
    dl_rows_free(rows);
    dlsh_wide_free(&w);
    if (!status && more && mode == DLSH_MODE_TABLE) dlsh_put(sink, "more than these: limit=0 shows all\n");
    if (!status && !found && !dlsh_arg_called(a) && dlsh_run_filter_met(a, q.deleted))
        dlsh_warn_failure(dlsh_arg_session(a));
    return status;
}

dl_status dlsh_runs_run(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_none();
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    long limit = dlsh_arg_int(a, "limit");
    DLSH_TRY(dlsh_check_limit(a));
    DLSH_SCOPED_BUF where = {0};
    DLSH_TRY(dlsh_run_filter(a, &where));
    /* one more than shown, to know whether there are more */
    dl_run_query q = {.where = where.n ? dlsh_buf_text(&where) : NULL,
                      .sort = dlsh_arg_str(a, "sort"),
                      .limit = limit ? limit + 1 : 0,
                      .deleted = dlsh_arg_bool(a, "deleted")};
    if (dlsh_given(a, "cols")) return show_columns(a, store, q, limit, result);
    DLSH_ENDED(dl_run_list_free) dl_run_list *l = dl_run_query_list(store, &q);
    if (!l) return dlsh_place_failure(a, dlsh_given(a, "sort") ? "sort" : dlsh_given(a, "where") ? "where" : NULL);
    DLSH_TRY(dlsh_arg_called(a) ? runs_list(l, limit, result) : runs_table(dlsh_arg_sink(a), l, limit));
    /* people get a warning why there are none; for programs the empty list is an answer */
    if (!l->n && !dlsh_arg_called(a) && dlsh_run_filter_met(a, q.deleted)) dlsh_warn_failure(dlsh_arg_session(a));
    return DL_OK;
}
