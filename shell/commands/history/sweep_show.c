/* sweep show: what a sweep has found so far. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/history/sweep.h"
#include "view/text.h"

/* ---------------------------------------------------------------- finding a sweep */

static dl_status take(char **to, const dl_rows *r, long col) {
    const char *text = dl_rows_text(r, col);
    *to = strdup(text ? text : "");
    return *to ? DL_OK : dlsh_no_memory("a sweep");
}

void dlsh_sweep_free(dlsh_sweep *w) {
    char *const texts[] = {w->name, w->method, w->text, w->script_path, w->script, w->cwd, w->metric, w->stat};
    for (size_t i = 0; i < DLSH_COUNT(texts); i++) free(texts[i]);
}

dl_status dlsh_sweep_find(const dlsh_args *a, dl_store *store, const char *ref, dlsh_sweep *w) {
    char *end;
    long id = strtol(ref, &end, 10);
    DLSH_SCOPED_BUF sql = {0};
    dlsh_buf_puts(
        &sql,
        "select id, direction, points * max(1, length(seeds) - length(replace(seeds, ' ', '')) + 1), name, method,"
        " spec, script_path, script_text, cwd, metric, stat from sweep where uuid is not null");
    if (*ref && !*end)
        dlsh_buf_printf(&sql, " and id = %ld", id);
    else if (strcmp(ref, "last")) {
        dlsh_buf_puts(&sql, " and name = '");
        for (const char *p = ref; *p; p++) dlsh_buf_printf(&sql, *p == '\'' ? "''" : "%c", *p);
        dlsh_buf_puts(&sql, "'");
    }
    dlsh_buf_puts(&sql, " order by id desc limit 1");
    DLSH_ENDED(dl_rows_free) dl_rows *r = dl_store_sql(store, dlsh_buf_text(&sql));
    int found = r ? dl_rows_next(r) : -1;
    dl_status st = found < 0 ? dl_failed() : DL_OK;
    if (!found)
        st = dlsh_arg_fail(a, "id", DL_ERR_NAME, "sweep show lists them", "there is no sweep %s",
                           strcmp(ref, "last") ? ref : "yet");
    if (found == 1) {
        char **const to[] = {&w->name,   &w->method, &w->text,   &w->script_path,
                             &w->script, &w->cwd,    &w->metric, &w->stat};
        w->id = dl_rows_int(r, 0), w->direction = dl_rows_int(r, 1), w->trials = dl_rows_int(r, 2);
        for (int i = 0; i < 8 && !st; i++) st = take(to[i], r, 3 + i);
    }
    return st;
}

/* ---------------------------------------------------------------- tables */

static dl_status show_rows(const dlsh_args *a, dl_store *store, const char *sql, const char *none) {
    DLSH_ENDED(dl_rows_free) dl_rows *rows = dl_store_sql(store, sql);
    if (!rows) return dl_failed();
    DLSH_SCOPED(dlsh_wide_free) dlsh_wide_table w = {0};
    DLSH_TRY(dlsh_rows_fetch(rows, 0, dlsh_sink_look(dlsh_arg_sink(a)).mode, &w));
    return dlsh_table_show(dlsh_arg_sink(a), &w.t, DL_OK, none);
}

dl_status dlsh_sweep_list(const dlsh_args *a, dl_store *store) {
    return show_rows(
        a, store,
        "select s.id, s.name, s.method, count(t.id) as trials, sum(t.status = 'finished') as finished,"
        " sum(t.status = 'failed') as failed, sum(t.status = 'running') as running,"
        " case when s.direction > 0 then max(t.value) else min(t.value) end as best from sweep as s left join"
        " trial as t on t.sweep_id = s.id where s.uuid is not null group by s.id order by s.id desc",
        "there are no sweeps\n");
}

/* One line: how many trials there are of each kind, and how long the rest takes. */
static dl_status put_state(const dlsh_args *a, dl_store *store, const dlsh_sweep *w) {
    char sql[700];
    snprintf(sql, sizeof sql,
             "select sum(status = 'finished'), sum(status = 'failed'), sum(status = 'running'), sum(status in "
             "('paused', 'stopped')),"
             " avg(case when status in ('finished', 'failed') then (ended_us - started_us) / 1e6 end) from trial where "
             "sweep_id = %ld",
             w->id);
    dl_rows *r = dl_store_sql(store, sql);
    if (!r || dl_rows_next(r) < 0) return dl_rows_free(r), dl_failed();
    long finished = dl_rows_int(r, 0), failed = dl_rows_int(r, 1), running = dl_rows_int(r, 2),
         paused = dl_rows_int(r, 3);
    long left = w->trials - finished - failed - paused;
    double left_s = dl_rows_float(r, 4) * (double)left / (double)(running > 0 ? running : 1);
    DLSH_SCOPED_BUF b = {0};
    dlsh_buf_printf(&b, "sweep %ld  %s  %s: %ld of %ld trials finished", w->id, w->name, w->method, finished,
                    w->trials);
    if (failed) dlsh_buf_printf(&b, ", %ld failed", failed);
    if (paused) dlsh_buf_printf(&b, ", %ld stopped early", paused);
    if (running) dlsh_buf_printf(&b, ", %ld running", running);
    if (left > 0 && finished) dlsh_buf_puts(&b, ", about "), dlsh_duration(&b, left_s), dlsh_buf_puts(&b, " left");
    dl_rows_free(r);
    dlsh_put(dlsh_arg_sink(a), "%s\n", dlsh_buf_text(&b));
    return DL_OK;
}

/* Has a trial a value in a column? */
static int has_any(dl_store *store, const dlsh_sweep *w, const char *column) {
    char sql[160];
    snprintf(sql, sizeof sql, "select count(%s) from trial where sweep_id = %ld", column, w->id);
    DLSH_ENDED(dl_rows_free) dl_rows *r = dl_store_sql(store, sql);
    return r && dl_rows_next(r) == 1 && dl_rows_int(r, 0);
}

/* Names of columns come from parameters: names of the language, so they need no quoting. */
dl_status dlsh_sweep_show(const dlsh_args *a, dl_store *store, const dlsh_sweep *w) {
    DLSH_DROPPED dlsh_value space = dlsh_void();
    DLSH_SCOPED_BUF sql = {0};
    const char *name, *metric = *w->metric ? w->metric : "loss";
    if (dlsh_sink_look(dlsh_arg_sink(a)).mode == DLSH_MODE_TABLE) DLSH_TRY(put_state(a, store, w));
    DLSH_TRY(dlsh_space_parse(dlsh_arg_session(a), w->text, &space));
    dlsh_buf_puts(&sql, "select number as trial, run_id as run, status");
    for (int i = 0; (name = dlsh_space_name(space, i)); i++)
        dlsh_buf_printf(&sql, ", json_extract(params, '$.\"%s\"') as \"%s\"", name, name);
    if (dlsh_sink_look(dlsh_arg_sink(a)).mode != DLSH_MODE_TABLE || has_any(store, w, "seed"))
        dlsh_buf_puts(&sql, ", seed");
    dlsh_buf_printf(&sql, ", value as \"%s\"", metric);
    if (dlsh_sink_look(dlsh_arg_sink(a)).mode != DLSH_MODE_TABLE || has_any(store, w, "error"))
        dlsh_buf_puts(&sql, ", error");
    dlsh_buf_printf(&sql, " from trial where sweep_id = %ld order by value is null, value %s, number", w->id,
                    w->direction > 0 ? "desc" : "asc");
    return show_rows(a, store, dlsh_buf_text(&sql), "no trial has begun\n");
}
