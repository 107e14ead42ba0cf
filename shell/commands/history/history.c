/* Commands on the experiment store: lists of runs, one run, the best ones, SQL, tags and notes. */
#include "commands/history/redo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "view/text.h"

/* ---------------------------------------------------------------- shared by the commands on runs */

dl_store *dlsh_history(const dlsh_args *a) {
    dl_store *store = dlsh_store(dlsh_arg_session(a));
    dl_status st = store ? dl_store_flush(store) : dl_failed();
    if (store && st == DL_ERR_STORE) { /* what is committed can be read all the same */
        dl_error e = dlsh_taken_error();
        dlsh_warn(dlsh_arg_session(a), e.hint, "the latest points are left out: %s", e.message);
        st = DL_OK;
    }
    return st ? NULL : store;
}

/* Places the recorded failure at the i-th argument of a variadic parameter. */
static dl_status place_at(const dlsh_args *a, const char *param, int i) {
    dl_error e = dlsh_taken_error();
    return dlsh_arg_fail_at(a, param, i, e.code, *e.hint ? e.hint : NULL, "%s", e.message);
}

dl_status dlsh_place_failure(const dlsh_args *a, const char *param) {
    dl_error e = dlsh_taken_error();
    return dlsh_arg_fail(a, param, e.code, *e.hint ? e.hint : NULL, "%s", e.message);
}

dl_status dlsh_place_in(const dlsh_args *a, const char *param) {
    dl_error e = dlsh_taken_error();
    const char *hint = *e.hint ? e.hint : NULL;
    if (!e.length) return dlsh_arg_fail(a, param, e.code, hint, "%s", e.message);
    return dlsh_arg_fail_in(a, param, e.at, e.length, e.code, hint, "%s", e.message);
}

/* Opens the store and finds the run that the parameter "run" names; a failure is placed there. */
static dl_status find_run(const dlsh_args *a, dl_store **store, long *id) {
    if (!(*store = dlsh_history(a))) return dl_failed();
    return dl_run_find(*store, dlsh_arg_str(a, "run"), id) ? dlsh_place_failure(a, "run") : DL_OK;
}

dl_run_list *dlsh_named_run(const dlsh_args *a, dl_store **store) {
    long id;
    if (find_run(a, store, &id)) return NULL;
    dl_run_list *l = dl_run_show(*store, id);
    if (!l) dlsh_place_failure(a, "run");
    return l;
}

typedef dl_status finder(dl_store *store, const char *ref, long *id);

static dl_status find_ids(const dlsh_args *a, finder *find, dl_store **store, long **ids, int *n) {
    if (!(*store = dlsh_history(a))) return dl_failed();
    *n = dlsh_arg_count(a, "runs");
    *ids = calloc((size_t)*n + 1, sizeof **ids);
    if (!*ids) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for %d runs", *n);
    dl_status status = DL_OK;
    for (int i = 0; i < *n && !status; i++) {
        DLSH_SCOPED_BUF ref = {0};
        status = dlsh_text(&ref, *dlsh_arg_at(a, "runs", i));
        if (!status && find(*store, dlsh_buf_text(&ref), &(*ids)[i])) status = place_at(a, "runs", i);
    }
    if (!status) return DL_OK;
    free(*ids);
    *ids = NULL;
    return status;
}

dl_status dlsh_run_ids(const dlsh_args *a, dl_store **store, long **ids, int *n) {
    return find_ids(a, dl_run_find, store, ids, n);
}

dl_status dlsh_run_condition(const dlsh_args *a, dl_store **store, dlsh_buf *where) {
    DLSH_FREED long *ids = NULL;
    int n;
    DLSH_TRY(dlsh_run_ids(a, store, &ids, &n));
    if (n) dlsh_buf_puts(where, "id in (");
    for (int i = 0; i < n; i++) dlsh_buf_printf(where, "%s%ld", i ? ", " : "", ids[i]);
    if (n) dlsh_buf_puts(where, ")");
    return dlsh_run_filter(a, where);
}

const dl_series_info *dlsh_series_find(const dl_run_info *r, const char *key) {
    for (long i = 0; i < r->nseries; i++)
        if (!strcmp(r->series[i].key, key)) return &r->series[i];
    return NULL;
}

dl_status dlsh_wide_new(dlsh_wide_table *w, int ncols) {
    *w = (dlsh_wide_table){.t = {.ncols = ncols}};
    w->cols = calloc((size_t)ncols + 1, sizeof *w->cols);
    w->names = calloc((size_t)ncols + 1, sizeof *w->names);
    w->t.cols = w->cols;
    return w->cols && w->names ? DL_OK : dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for a table of %d columns", ncols);
}

dl_status dlsh_wide_column(dlsh_wide_table *w, int i, const char *name, char align) {
    w->names[i] = strdup(name);
    if (!w->names[i]) return dlsh_no_memory("a table");
    dlsh_one_line(w->names[i], strlen(w->names[i]));
    w->cols[i] = (dlsh_column){.name = w->names[i], .align = align};
    return DL_OK;
}

void dlsh_wide_free(dlsh_wide_table *w) {
    dlsh_table_clear(&w->t);
    for (int i = 0; w->names && i < w->t.ncols; i++) free(w->names[i]);
    free(w->names);
    free(w->cols);
}

dlsh_value dlsh_cell_text(const char *s) { return s && *s ? dlsh_string(s) : dlsh_none(); }

dlsh_value dlsh_cell_when(long us, dlsh_mode mode) {
    dlsh_buf b = {0};
    if (mode == DLSH_MODE_TABLE) {
        dlsh_when(&b, us);
    } else {
        time_t t = us / 1000000;
        struct tm tm;
        char text[32];
        gmtime_r(&t, &tm);
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
        dlsh_buf_printf(&b, "%s.%03ldZ", text, us / 1000 % 1000);
    }
    return dlsh_buf_string(&b);
}

dlsh_value dlsh_cell_seconds(double seconds, dlsh_mode mode) {
    if (mode != DLSH_MODE_TABLE) return dlsh_float(seconds);
    dlsh_buf b = {0};
    dlsh_duration(&b, seconds);
    return dlsh_buf_string(&b);
}

/* ---------------------------------------------------------------- run show */

/* A line, broken at blanks where the terminal is narrower. */
static void put_fitting(dlsh_sink *sink, const char *line) {
    DLSH_SCOPED_BUF b = {0};
    dlsh_text_rewrap(&b, line, strlen(line), dlsh_sink_look(sink).width);
    dlsh_put(sink, "%s\n", dlsh_buf_text(&b));
}

__attribute__((format(printf, 2, 3))) static void put_line(dlsh_sink *sink, const char *fmt, ...) {
    DLSH_SCOPED_BUF b = {0};
    DLSH_FORMATTED(fmt, dlsh_buf_vprintf(&b, fmt, ap));
    if (b.n) dlsh_one_line(b.s, b.n);
    put_fitting(sink, dlsh_buf_text(&b));
}

__attribute__((format(printf, 3, 4))) static void put_fact(dlsh_sink *sink, const char *name, const char *fmt, ...) {
    DLSH_SCOPED_BUF b = {0};
    DLSH_FORMATTED(fmt, dlsh_buf_vprintf(&b, fmt, ap));
    while (b.n && b.s[b.n - 1] == ' ') b.s[--b.n] = 0;
    /* further lines of a note stand below its first */
    for (char *line = b.n ? b.s : NULL, *end; line; line = end, name = "") {
        if ((end = strchr(line, '\n'))) *end++ = 0;
        DLSH_SCOPED_BUF one = {0};
        dlsh_buf_printf(&one, "  %-11s %s", name, line);
        put_fitting(sink, dlsh_buf_text(&one));
    }
}

static void put_facts(dlsh_sink *sink, const dl_run_info *r) {
    DLSH_SCOPED_BUF when = {0}, took = {0}, params = {0}, tags = {0};
    dlsh_when(&when, r->started_us);
    dlsh_duration(&took, r->seconds);
    dlsh_grouped(&params, r->n_params);
    for (long i = 0; i < r->ntag; i++) dlsh_buf_printf(&tags, "%s%s", i ? ", " : "", r->tags[i]);
    put_line(sink, "run %ld  %s  %s%s", r->id, r->name, dl_run_status_name(r->status), r->deleted ? "  (deleted)" : "");
    put_fact(sink, "started", "%s, took %s", dlsh_buf_text(&when), dlsh_buf_text(&took));
    put_fact(sink, "error", "%s", r->error);
    if (r->parent) put_fact(sink, "parent", "run %ld", r->parent);
    put_fact(sink, "tags", "%s", dlsh_buf_text(&tags));
    put_fact(sink, "note", "%s", r->note);
    if (*r->model_name || r->n_params)
        put_fact(sink, "model", "%s%s%s parameters", r->model_name, *r->model_name ? ", " : "", dlsh_buf_text(&params));
    put_fact(sink, "dataset", "%s %.12s", r->dataset, r->data_fingerprint);
    put_fact(sink, "device", "%s on %s", r->device, r->host);
    put_fact(sink, "seed", "%lu", r->seed);
    put_fact(sink, "script", "%s%s%s", r->script_path, *r->script_args ? " " : "", r->script_args);
    put_fact(sink, "command", "%s", r->cmdline);
    put_fact(sink, "folder", "%s", r->cwd);
    const char *changes = !*r->git_diff_sha                    ? ""
                          : strcmp(r->git_diff_sha, "unknown") ? " with changes"
                                                               : ", whether with changes is not known";
    put_fact(sink, "git commit", "%s%s", r->git_commit, changes);
    put_fact(sink, "uuid", "%s", r->uuid);
}

static dl_status put_series(dlsh_sink *sink, const dl_run_info *r) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"metric", 'l', ""}, {"points", 'r', ""}, {"first", 'r', "%.5g"},
                                     {"last", 'r', "%.5g"}, {"min", 'r', "%.5g"}, {"at step", 'r', ""},
                                     {"max", 'r', "%.5g"}, {"at step", 'r', ""}, {"NaN", 'r', ""});
    for (long i = 0; i < r->nseries; i++) {
        const dl_series_info *s = &r->series[i];
        const int extremes = s->n > s->n_nan;
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string(s->key), dlsh_int(s->n), dlsh_float(s->first), dlsh_float(s->last),
                                dlsh_float(s->min), extremes ? dlsh_int(s->min_step) : dlsh_none(), dlsh_float(s->max),
                                extremes ? dlsh_int(s->max_step) : dlsh_none(), dlsh_int(s->n_nan)));
    }
    if (t.nrows && !dlsh_sink_look(sink).rich) dlsh_put(sink, "\n");
    return dlsh_table_show(sink, &t, DL_OK, "");
}

static void put_details(dlsh_sink *sink, const dl_run_info *r) {
    if (r->nparam) dlsh_put(sink, "\nparameters\n");
    for (long i = 0; i < r->nparam; i++) put_line(sink, "  %-18s %s", r->params[i].key, r->params[i].value);
    if (r->nevent) dlsh_put(sink, "\nevents\n");
    for (long i = 0; i < r->nevent; i++)
        put_line(sink, "  step %-8ld %-12s %s", r->events[i].step, r->events[i].kind, r->events[i].text);
    if (r->nartifact) dlsh_put(sink, "\nartifacts\n");
    for (long i = 0; i < r->nartifact; i++)
        put_line(sink, "  step %-8ld %-12s %s  %ld bytes%s%s", r->artifacts[i].step, r->artifacts[i].kind,
                 r->artifacts[i].name, r->artifacts[i].bytes, *r->artifacts[i].path ? "  " : "", r->artifacts[i].path);
}

static dlsh_value series_record(const dl_series_info *s) {
    return DLSH_RECORD_OF({"n", dlsh_int(s->n)}, {"nan", dlsh_int(s->n_nan)}, {"first", dlsh_float(s->first)},
                          {"last", dlsh_float(s->last)}, {"min", dlsh_float(s->min)}, {"max", dlsh_float(s->max)},
                          {"mean", dlsh_float(s->mean)}, {"first_step", dlsh_int(s->first_step)},
                          {"last_step", dlsh_int(s->last_step)}, {"min_step", dlsh_int(s->min_step)},
                          {"max_step", dlsh_int(s->max_step)});
}

/* A number, true or false where the parameter is one. */
static dlsh_value param_value(const dl_param_info *p) {
    int yes = !strcmp(p->value, "true");
    if (yes || !strcmp(p->value, "false")) return dlsh_bool(yes);
    if (isnan(p->num)) return dlsh_string(p->value);
    return fabs(p->num) < 0x1p53 && p->num == floor(p->num) ? dlsh_int((long)p->num) : dlsh_float(p->num);
}

/* Fills the record of a run with its parameters, metrics and tags. */
static dl_status set_collections(dlsh_value run, const dl_run_info *r) {
    dlsh_value params = dlsh_new_record(), metrics = dlsh_new_record(), tags = dlsh_new_list(r->ntag);
    DLSH_TRY(dlsh_record_fill(run, (dlsh_entry[]){{"params", params}, {"metrics", metrics}, {"tags", tags}}, 3));
    for (long i = 0; i < r->nparam; i++)
        DLSH_TRY(dlsh_record_add(params, r->params[i].key, param_value(&r->params[i])));
    for (long i = 0; i < r->nseries; i++)
        DLSH_TRY(dlsh_record_add(metrics, r->series[i].key, series_record(&r->series[i])));
    for (long i = 0; i < r->ntag; i++) DLSH_TRY(dlsh_list_push(tags.as.list, dlsh_string(r->tags[i])));
    return DL_OK;
}

dl_status dlsh_run_record(const dl_run_info *r, dlsh_value *out) {
    dlsh_value v =
        DLSH_RECORD_OF({"id", dlsh_int(r->id)}, {"uuid", dlsh_cell_text(r->uuid)}, {"name", dlsh_cell_text(r->name)},
                       {"status", dlsh_cell_text(dl_run_status_name(r->status))}, {"error", dlsh_cell_text(r->error)},
                       {"experiment", dlsh_cell_text(r->experiment)}, {"group", dlsh_cell_text(r->group)},
                       {"model", dlsh_cell_text(r->model_name)}, {"dataset", dlsh_cell_text(r->dataset)},
                       {"device", dlsh_cell_text(r->device)}, {"host", dlsh_cell_text(r->host)},
                       {"script", dlsh_cell_text(r->script_path)}, {"args", dlsh_cell_text(r->script_args)},
                       {"command", dlsh_cell_text(r->cmdline)}, {"commit", dlsh_cell_text(r->git_commit)},
                       {"note", dlsh_cell_text(r->note)}, {"started", dlsh_cell_when(r->started_us, DLSH_MODE_JSON)},
                       {"ended", r->ended_us ? dlsh_cell_when(r->ended_us, DLSH_MODE_JSON) : dlsh_none()},
                       {"seconds", dlsh_float(r->seconds)}, {"seed", dlsh_int((long)r->seed)},
                       {"n_params", dlsh_int(r->n_params)}, {"parent", r->parent ? dlsh_int(r->parent) : dlsh_none()},
                       {"sweep", r->sweep ? dlsh_int(r->sweep) : dlsh_none()});
    return dlsh_give_filled(dlsh_failed(v) ? dl_failed() : set_collections(v, r), v, out);
}

/* The texts of a run that `run show` prints in place of the rest. */
static const char *const texts[] = {"script", "text", "output", "changes"};

static dl_status show_text(const dlsh_args *a, const dl_run_info *r, const char *what) {
    DLSH_ENDED(dl_text_free)
    char *text = strcmp(what, "text") ? dl_run_text(dlsh_history(a), r->id, what) : strdup(r->model_text);
    if (!text) return dl_failed();
    size_t n = strlen(text);
    dlsh_put(dlsh_arg_sink(a), "%s%s", text, n && text[n - 1] != '\n' ? "\n" : "");
    return DL_OK;
}

static dl_status show_one(const dlsh_args *a, const dl_run_info *r) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    for (size_t i = 0; i < DLSH_COUNT(texts); i++)
        if (dlsh_arg_bool(a, texts[i])) return show_text(a, r, texts[i]);
    if (dlsh_sink_look(sink).mode == DLSH_MODE_TABLE) {
        put_facts(sink, r);
        put_details(sink, r);
        return put_series(sink, r);
    }
    DLSH_DROPPED dlsh_value v = dlsh_void();
    DLSH_TRY(dlsh_run_record(r, &v));
    return sink->ops->value(sink, v);
}

static dl_status run_show(const dlsh_args *a) {
    dl_store *store;
    DLSH_ENDED(dl_run_list_free) dl_run_list *l = dlsh_named_run(a, &store);
    if (!l) return dl_failed();
    return show_one(a, &l->runs[0]);
}

/* ---------------------------------------------------------------- many runs at once */

/* The ids of the runs that where= and the like choose; a warning when there are none. The caller frees *ids. */
static dl_status chosen_ids(const dlsh_args *a, int deleted, dl_store **store, long **ids, int *n) {
    DLSH_SCOPED_BUF where = {0};
    int cap = 0;
    *ids = NULL;
    *n = 0;
    if (!(*store = dlsh_history(a))) return dl_failed();
    DLSH_TRY(dlsh_run_filter(a, &where));
    if (!where.n)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE,
                             "where=\"status = failed\", tag=old, ...; a single run: run delete 3, tag 3 good, note 3 "
                             "\"why\"",
                             "no condition says which runs are meant");
    dl_run_query q = {.where = dlsh_buf_text(&where), .sort = "id", .deleted = deleted};
    dl_rows *rows = dl_run_table(*store, &q, "id");
    if (!rows) return dlsh_place_failure(a, NULL);
    int more = 0;
    while ((more = dl_rows_next(rows)) > 0) {
        long *grown = dlsh_grow(*ids, *n, &cap, sizeof *grown);
        if (!grown) break;
        *ids = grown;
        grown[(*n)++] = dl_rows_int(rows, 0);
    }
    dl_rows_free(rows);
    if (more) {
        free(*ids);
        *ids = NULL;
        return dl_failed();
    }
    if (!*n && dlsh_run_filter_met(a, deleted)) dlsh_warn_failure(dlsh_arg_session(a));
    return DL_OK;
}

static void say_runs(const dlsh_args *a, int n, const char *what) {
    dlsh_put(dlsh_arg_sink(a), "%d run%s %s\n", n, n == 1 ? "" : "s", what);
}

static dl_status run_delete(const dlsh_args *a) {
    dl_store *store;
    int hide = *(const int *)dlsh_arg_data(a), n, named = dlsh_arg_count(a, "runs") > 0;
    DLSH_FREED long *ids = NULL;
    DLSH_TRY(named ? find_ids(a, hide ? dl_run_find : dl_run_find_deleted, &store, &ids, &n)
                   : chosen_ids(a, !hide, &store, &ids, &n));
    for (int i = 0; i < n; i++) DLSH_TRY(dl_run_delete(store, ids[i], hide));
    if (!named) say_runs(a, n, hide ? "deleted" : "restored");
    return DL_OK;
}

static dl_status run_tag_many(const dlsh_args *a) {
    dl_store *store;
    DLSH_FREED long *ids = NULL;
    int n, remove = dlsh_arg_bool(a, "remove");
    if (!dlsh_arg_count(a, "tags"))
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "run tag old where=\"started < 30d ago\"",
                             "there is no tag to give");
    DLSH_TRY(chosen_ids(a, 0, &store, &ids, &n));
    for (int i = 0; i < dlsh_arg_count(a, "tags"); i++) {
        DLSH_SCOPED_BUF tag = {0};
        DLSH_TRY(dlsh_text(&tag, *dlsh_arg_at(a, "tags", i)));
        for (int k = 0; k < n; k++) DLSH_TRY(dl_run_tag(store, ids[k], dlsh_buf_text(&tag), !remove));
    }
    say_runs(a, n, remove ? "untagged" : "tagged");
    return DL_OK;
}

static dl_status run_note_many(const dlsh_args *a) {
    dl_store *store;
    DLSH_FREED long *ids = NULL;
    int n;
    DLSH_TRY(chosen_ids(a, 0, &store, &ids, &n));
    for (int k = 0; k < n; k++) DLSH_TRY(dl_run_note(store, ids[k], dlsh_arg_str(a, "text")));
    say_runs(a, n, "noted");
    return DL_OK;
}

static dl_status run_rename(const dlsh_args *a) {
    dl_store *store;
    long id;
    DLSH_TRY(find_run(a, &store, &id));
    return dl_run_rename(store, id, dlsh_arg_str(a, "name"));
}

/* ---------------------------------------------------------------- best */

static int direction(const dlsh_args *a) {
    const char *word = dlsh_arg_str(a, "which");
    return !word ? 0 : !strcmp(word, "max") ? 1 : -1;
}

static dl_status best_table(dlsh_sink *sink, const dl_ranking *rank) {
    dlsh_table t =
        DLSH_TABLE({"id", 'r', ""}, {"name", 'l', ""}, {rank->metric, 'r', ""}, {"step", 'r', ""}, {"status", 'l', ""});
    dl_status status = DL_OK;
    for (long i = 0; !status && i < rank->n; i++) {
        const dl_best_entry *e = &rank->entries[i];
        status = DLSH_TABLE_ROW(&t, dlsh_int(e->run->id), dlsh_cell_text(e->run->name), dlsh_float(e->value),
                                dlsh_int(e->step), dlsh_string(dl_run_status_name(e->run->status)));
    }
    return dlsh_table_show(sink, &t, status, NULL);
}

static dlsh_value best_record(const dl_ranking *rank, long i) {
    const dl_best_entry *e = &rank->entries[i];
    return DLSH_RECORD_OF({"run", dlsh_int(e->run->id)}, {"name", dlsh_string(e->run->name)},
                          {"metric", dlsh_string(rank->metric)}, {"value", dlsh_float(e->value)},
                          {"step", dlsh_int(e->step)});
}

static dl_status best_list(const dl_ranking *rank, dlsh_value *out) {
    DLSH_DROPPED dlsh_value list = dlsh_new_list(rank->n);
    for (long i = 0; i < rank->n; i++) { DLSH_TRY(dlsh_append(list, best_record(rank, i))); }
    return dlsh_hand_over(&list, out);
}

static dl_status show_best(const dlsh_args *a, const dl_ranking *rank, dlsh_value *result) {
    if (!rank->n)
        return dlsh_arg_fail(a, "metric", DL_ERR_NAME, "runs lists them", "no run that fits has a value of %s",
                             rank->metric);
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (dlsh_arg_called(a) && dlsh_given(a, "limit")) return best_list(rank, result);
    DLSH_TRY(dlsh_give(best_record(rank, 0), result));
    if (dlsh_arg_called(a)) return DL_OK;
    if (dlsh_arg_int(a, "limit") != 1) return best_table(sink, rank);
    if (dlsh_sink_look(sink).mode != DLSH_MODE_TABLE) return sink->ops->value(sink, *result);
    const dl_best_entry *e = &rank->entries[0];
    put_line(sink, "run %ld %s: %s %.6g at step %ld (%s is better)", e->run->id, e->run->name, rank->metric,
             dlsh_plain_nan(e->value), e->step, rank->direction > 0 ? "higher" : "lower");
    return DL_OK;
}

/* Nothing to rank: reports the condition that no run meets, else the failure of the library. */
static dl_status no_best(const dlsh_args *a) {
    dl_error e;
    if (dl_error_take(&e) == DL_ERR_NAME) DLSH_TRY(dlsh_run_filter_met(a, 0));
    dl_error_put(&e);
    return dlsh_place_failure(a, e.code == DL_ERR_NAME ? "metric" : NULL);
}

dl_status dlsh_check_limit(const dlsh_args *a) {
    if (dlsh_arg_int(a, "limit") >= 0) return DL_OK;
    return dlsh_arg_fail(a, "limit", DL_ERR_VALUE, "limit=0 shows all", "limit must not be negative");
}

static dl_status best_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_TRY(dlsh_check_limit(a));
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    DLSH_SCOPED_BUF where = {0};
    DLSH_TRY(dlsh_run_filter(a, &where));
    DLSH_ENDED(dl_ranking_free)
    dl_ranking *rank = dl_run_best(store, dlsh_arg_str(a, "metric"), direction(a),
                                   where.n ? dlsh_buf_text(&where) : NULL, dlsh_arg_int(a, "limit"));
    return rank ? show_best(a, rank, result) : no_best(a);
}

/* ---------------------------------------------------------------- sql */

static dlsh_value sql_cell(const dl_rows *r, long col, dlsh_mode mode) {
    char type = dl_rows_type(r, col), unit = type == 'n' ? ' ' : dl_rows_unit(r, col);
    if (unit == 'd') return dlsh_cell_when((long)(dl_rows_float(r, col) * 1e6), mode);
    if (unit == 's') return dlsh_cell_seconds(dl_rows_float(r, col), mode);
    switch (type) {
    case 'i': return dlsh_int(dl_rows_int(r, col));
    case 'f': return dlsh_float(dl_rows_float(r, col));
    case 't': return dlsh_string(dl_rows_text(r, col));
    case 'b': {
        long n;
        dl_rows_blob(r, col, &n);
        return dlsh_stringf("<%ld bytes>", n);
    }
    default: return dlsh_none();
    }
}

dl_status dlsh_rows_fetch(dl_rows *rows, long limit, dlsh_mode mode, dlsh_wide_table *w) {
    int n = (int)dl_rows_width(rows);
    DLSH_TRY(dlsh_wide_new(w, n));
    w->t.keys = n > 1;
    for (int c = 0; c < n; c++) DLSH_TRY(dlsh_wide_column(w, c, dl_rows_name(rows, c), 'l'));
    DLSH_FREED dlsh_value *cells = calloc((size_t)n + 1, sizeof *cells);
    if (!cells) return dlsh_no_memory("a row");
    int more = 0;
    while ((!limit || w->t.nrows < limit) && (more = dl_rows_next(rows)) > 0) {
        for (int c = 0; c < n; c++) {
            cells[c] = sql_cell(rows, c, mode);
            if (dlsh_is_number(cells[c])) w->cols[c].align = 'r';
        }
        DLSH_TRY(dlsh_table_row(&w->t, cells));
        if (dlsh_interrupted()) return dlsh_fail(DL_ERR_INTERRUPT, NULL, "interrupted");
    }
    return more < 0 ? dl_failed() : DL_OK;
}

dl_status dlsh_table_list(const dlsh_table *t, dlsh_value *out) {
    DLSH_DROPPED dlsh_value list = dlsh_new_list(t->nrows);
    for (int r = 0; r < t->nrows; r++) {
        dlsh_value rec = dlsh_new_record();
        DLSH_TRY(dlsh_append(list, rec));
        for (int c = 0; c < t->ncols; c++)
            DLSH_TRY(dlsh_record_set(rec.as.record, t->cols[c].name, dlsh_ref(t->cells[(long)r * t->ncols + c])));
    }
    return dlsh_hand_over(&list, out);
}

static dl_status sql_run(const dlsh_args *a, dlsh_value *result) {
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    DLSH_ENDED(dl_rows_free) dl_rows *rows = dl_store_sql(store, dlsh_arg_str(a, "query"));
    if (!rows) return dlsh_place_in(a, "query");
    DLSH_SCOPED(dlsh_wide_free) dlsh_wide_table w = {0};
    dl_status status =
        dlsh_rows_fetch(rows, 0, dlsh_arg_called(a) ? DLSH_MODE_JSON : dlsh_sink_look(dlsh_arg_sink(a)).mode, &w);
    *result = dlsh_none();
    if (!dlsh_arg_called(a))
        status = dlsh_table_show(dlsh_arg_sink(a), &w.t, status, "no rows\n");
    else if (!status)
        status = dlsh_table_list(&w.t, result);
    return status;
}

/* ---------------------------------------------------------------- tag, note */

static dl_status tag_run(const dlsh_args *a) {
    dl_store *store;
    long id;
    DLSH_TRY(find_run(a, &store, &id));
    for (int i = 0; i < dlsh_arg_count(a, "tags"); i++) {
        const dlsh_value *v = dlsh_arg_at(a, "tags", i);
        DLSH_SCOPED_BUF tag = {0};
        DLSH_TRY(dlsh_text(&tag, *v));
        DLSH_TRY(dl_run_tag(store, id, dlsh_buf_text(&tag), !dlsh_arg_bool(a, "remove")));
    }
    return DL_OK;
}

static dl_status note_run(const dlsh_args *a) {
    dl_store *store;
    long id;
    DLSH_TRY(find_run(a, &store, &id));
    return dl_run_note(store, id, dlsh_arg_str(a, "text"));
}

/* ---------------------------------------------------------------- the table */

static const dlsh_param some_runs[] = {
    {"runs", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "runs: ids, names, or last", .complete = "run"}, {0}};

static const int hide = 1, unhide = 0;
static const dlsh_command run_subs[] = {
    DLSH_ROW("show", DLSH_REPORT, run_show, "run show RUN [script] [text] [output] [changes]",
             "Everything recorded about a run.",
             DLSH_PARAMS({"run", DLSH_ARG_WORD, .doc = "a run: its id, name, or last", .complete = "run"}),
             DLSH_OPTIONS({"script", DLSH_OPT_BOOL, "false", .doc = "print the text of the script instead"},
                          {"text", DLSH_OPT_BOOL, "false", .doc = "print the text of the model instead"},
                          {"output", DLSH_OPT_BOOL, "false", .doc = "print what the run printed"},
                          {"changes", DLSH_OPT_BOOL, "false",
                           .doc = "print what was not committed in the work tree, as git diff does"})),
    DLSH_ROW("diff", DLSH_REPORT, dlsh_diff_run, "run diff RUN RUN",
             "What differs between two runs: parameters, dataset, code, environment, lines of model and script.",
             .params = some_runs),
    DLSH_ROW("delete", DLSH_ACTION, run_delete, "run delete RUN ..., or run delete where=\"...\"",
             "Hides runs from all lists. Nothing is erased: run restore brings them back.", .params = some_runs,
             DLSH_OPTIONS(DLSH_RUN_FILTERS), .data = &hide),
    DLSH_ROW("restore", DLSH_ACTION, run_delete, "run restore RUN ..., or run restore where=\"...\"",
             "Shows deleted runs again, by their ids or by a condition.", .params = some_runs,
             DLSH_OPTIONS(DLSH_RUN_FILTERS), .data = &unhide),
    DLSH_ROW("tag", DLSH_ACTION, run_tag_many, "run tag TAG ... where=\"...\" [remove]",
             "Marks all runs that meet a condition with words.",
             DLSH_PARAMS({"tags", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "words to mark them with"}),
             DLSH_OPTIONS(DLSH_RUN_FILTERS, {"remove", DLSH_OPT_BOOL, "false", .doc = "take the tags away"})),
    DLSH_ROW("note", DLSH_ACTION, run_note_many, "run note \"TEXT\" where=\"...\"",
             "Writes a note to all runs that meet a condition.",
             DLSH_PARAMS({"text", DLSH_ARG_WORD, .doc = "what is to be remembered, in quotes"}),
             DLSH_OPTIONS(DLSH_RUN_FILTERS)),
    DLSH_ROW("rename", DLSH_ACTION, run_rename, "run rename RUN NAME", "Gives a run another name.",
             DLSH_PARAMS({"run", DLSH_ARG_WORD, .doc = "a run", .complete = "run"},
                         {"name", DLSH_ARG_WORD, .doc = "its new name"})),
    DLSH_ROW("rerun", DLSH_REPORT | DLSH_OPEN_OPTIONS, dlsh_rerun_run, "run rerun RUN [NAME=VALUE ...]",
             "Runs the script of a run again, from the recorded text, files read and arguments, in a new folder for "
             "temporary files that has links to the files of the folder of then. Says what has changed since, and "
             "whether the weights are the same. Arguments of the script can be given other values.",
             DLSH_PARAMS({"run", DLSH_ARG_WORD, .doc = "a run of a script", .complete = "run"})),
    DLSH_ROW("resume", DLSH_REPORT | DLSH_OPEN_OPTIONS, dlsh_resume_run, "run resume RUN [step=N] [NAME=VALUE ...]",
             "Goes on with a run of a script from its newest checkpoint, in its folder, with the recorded text, files "
             "read and arguments: its trainer takes up the checkpoint, and train trains what is left of the epochs or "
             "steps. trainer(..., checkpoint=\"t.safetensors\") writes checkpoints. Says what has changed since.",
             DLSH_PARAMS({"run", DLSH_ARG_WORD, .doc = "a run of a script, which has ended", .complete = "run"}),
             DLSH_OPTIONS({"step", DLSH_OPT_INT, NULL, .doc = "from the checkpoint of this step"})),
    DLSH_ROW("restore-code", DLSH_ACTION, dlsh_restore_code_run, "run restore-code RUN DIR",
             "Writes the code of a run into a new folder: the git commit, the changes to it that were not committed, "
             "the script and the files that it read.",
             DLSH_PARAMS({"run", DLSH_ARG_WORD, .doc = "a run", .complete = "run"},
                         {"dir", DLSH_ARG_WORD, .doc = "a folder that does not exist yet", .complete = "file"})),
    {0}};

const dlsh_command history_commands[] = {
    DLSH_ROW("runs", DLSH_REPORT | DLSH_FUNCTION, dlsh_runs_run,
             "runs [status=S] [tag=T] [where=\"...\"] [cols=NAME,...] [sort=NAME] [limit=20]",
             "Lists runs, the newest first. As a function, runs(tag=\"cnn\") gives a list of records.",
             DLSH_OPTIONS(DLSH_RUN_FILTERS,
                          {"cols", DLSH_OPT_WORD, NULL,
                           .doc = "what to show: columns, parameters, metrics, tag: lr,width,min(val/loss)",
                           .complete = "run names"},
                          {"sort", DLSH_OPT_WORD, NULL,
                           .doc = "columns, parameters or metrics, between commas; -NAME: the largest first. Newest "
                                  "first when left out",
                           .complete = "run names"},
                          {"limit", DLSH_OPT_INT, "20", .doc = "at most so many; 0: all"},
                          {"deleted", DLSH_OPT_BOOL, "false", .doc = "list the deleted runs instead"}),
             .examples = "runs\nruns status=finished sort=-test/acc limit=5\nruns cols=lr,batch,max(test/acc)\nruns "
                         "where=\"lr > 0.001 and test/acc > 0.9\""),
    DLSH_ROW("run", DLSH_REPORT, NULL, "run show|diff|rerun|resume|delete|restore|restore-code|rename|tag|note ...",
             "Shows, compares, repeats, hides, renames or marks runs.",
             DLSH_PARAMS({"action", DLSH_ARG_SUBCOMMAND, .doc = "what to do"}), .subs = run_subs,
             .examples = "run show last\nrun diff 3 5\nrun delete 3\nrun tag old where=\"started < 30d ago\""),
    DLSH_ROW(
        "compare", DLSH_REPORT | DLSH_FUNCTION, dlsh_compare_run,
        "compare RUN RUN ... [all] [limit=50], or compare by=NAME metric=M [over=NAME] [RUN ...]",
        "Compares runs side by side: the parameters that differ, then first, last, smallest and largest value of "
        "every metric. With by=, compares groups of runs: mean, standard deviation and bootstrap interval of each, "
        "then each two of them by a paired test over the values of over= and by Welch's test, both with Holm's "
        "correction. As a function, compare(by=...) gives a record of two lists, groups and pairs.",
        .params = some_runs,
        DLSH_OPTIONS(
            {"all", DLSH_OPT_BOOL, "false", .doc = "parameters that are the same, too"},
            {"limit", DLSH_OPT_INT, "50", .doc = "at most so many parameters, and metrics, in the tables; 0: all"},
            {"by", DLSH_OPT_WORD, NULL, .doc = "what tells the groups apart: opt", .complete = "run names"},
            {"over", DLSH_OPT_WORD, NULL, .doc = "what pairs runs of two groups: seed", .complete = "run names"},
            {"metric", DLSH_OPT_WORD, NULL, .doc = "the figure of each run: test/acc, min(val/loss)",
             .complete = "run names"},
            DLSH_RUN_FILTERS),
        .examples = "compare 3 5\ncompare first second all\ncompare by=opt over=seed metric=min(val/loss)"),
    DLSH_ROW("best", DLSH_REPORT | DLSH_FUNCTION, best_run, "best METRIC [min|max] [limit=1]",
             "The run with the best value of a metric: the highest of an accuracy, the lowest of a loss; min and max "
             "override. As a function, "
             "best(\"test/acc\") gives a record, with limit= a list of them.",
             DLSH_PARAMS(
                 {"metric", DLSH_ARG_WORD, .doc = "a metric: test/acc; bare loss is train/loss", .complete = "metric"},
                 {"which", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL,
                  .doc = "min or max, where the metric's name does not tell", .complete = "min|max"}),
             DLSH_OPTIONS(DLSH_RUN_FILTERS, {"limit", DLSH_OPT_INT, "1", .doc = "so many of the best; 0: all"}),
             .examples = "best test/acc\nbest loss limit=5"),
    DLSH_ROW(
        "sql", DLSH_REPORT | DLSH_FUNCTION, sql_run, "sql \"select ...\"",
        "Reads the experiment database by SQL: tables run, param, tag, series, event, artifact, sweep and the view "
        "metrics(run, key, step, ts, value). As a function, sql(\"...\") gives a list of records.",
        DLSH_PARAMS({"query", .want = "string", .doc = "one statement that reads", .complete = "sql"}),
        .examples = "sql \"select key, value from param where run_id = 3\""),
    DLSH_ROW("tag", DLSH_ACTION, tag_run, "tag RUN TAG ... [remove]", "Marks a run with words.",
             DLSH_PARAMS({"run", DLSH_ARG_WORD, .doc = "a run", .complete = "run"},
                         {"tags", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "words to mark it with"}),
             DLSH_OPTIONS({"remove", DLSH_OPT_BOOL, "false", .doc = "take the tags away"}),
             .examples = "tag last good baseline"),
    DLSH_ROW("note", DLSH_ACTION, note_run, "note RUN \"TEXT\"", "Writes a note to a run.",
             DLSH_PARAMS({"run", DLSH_ARG_WORD, .doc = "a run", .complete = "run"},
                         {"text", DLSH_ARG_WORD, .doc = "what is to be remembered, in quotes"}),
             .examples = "note 3 \"learning rate too high\""),
    {0}};
