/* Lists of runs, and one run in full. Points are never read here. */
#include "track/query.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Text of a column in the arena. */
static const char *column_text(dl_arena *a, sqlite3_stmt *st, int col) {
    return dl_arena_text(a, (const char *)sqlite3_column_text(st, col));
}

double dl_column_number(sqlite3_stmt *st, int col) {
    return sqlite3_column_type(st, col) == SQLITE_NULL ? NAN : sqlite3_column_double(st, col);
}

/* ---------------------------------------------------------------- rows */

/* Runs are picked by narrow rows first, which indexes hold; the wide ones are read of the picked alone. The order of
 * these columns is that of read_run. */
static const char picking[] = "select r.id from run as r where ";
static const char run_columns[] =
    "with picked(id) as materialized (%s) select r.id, r.uuid, r.name, r.experiment, r.grp, r.note, r.error, r.status, "
    "r.started_us, r.ended_us, r.host,"
    " r.device, r.model_name, r.dataset, r.git_commit, r.seed, r.n_params, r.parent_id, r.sweep_id, r.deleted_us, "
    "r.boot_id,"
    " r.pid, r.pid_start, r.heartbeat_us, r.active_us, r.active_since_us, r.cmdline, r.script_path, r.script_args from "
    "picked cross join run as r on r.id = "
    "picked.id";
static const char full_columns[] = "select cwd, (select data from blob where sha = script_sha), git_diff_sha, env_json,"
                                   " model_text, model_sha, data_fp from run where id = ?1";

void dl_runs_select(dl_clause *c) { sqlite3_str_appendall(c->sql, picking); }

/* The members that full_columns fills, in the same order. */
enum { NFULL = 7 };
static const char **full_member(dl_run_info *r, int i) {
    const char **const members[NFULL] = {&r->cwd,        &r->script_text, &r->git_diff_sha,    &r->env_json,
                                         &r->model_text, &r->model_sha,   &r->data_fingerprint};
    return members[i];
}

static dl_run_status status_of(const char *name) {
    int i = DL_RUN_RUNNING;
    while (i < DL_RUN_DIVERGED && strcmp(dl_run_status_name((dl_run_status)i), name)) i++;
    return (dl_run_status)i;
}

static void read_run(dl_arena *a, sqlite3_stmt *q, dl_run_info *r, int readonly) {
    int c = 0;
    r->id = (long)sqlite3_column_int64(q, c++);
    const char **const head[] = {&r->uuid, &r->name, &r->experiment, &r->group, &r->note, &r->error};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) *head[i] = column_text(a, q, c++);
    r->status = status_of((const char *)sqlite3_column_text(q, c++));
    r->started_us = (long)sqlite3_column_int64(q, c++);
    r->ended_us = (long)sqlite3_column_int64(q, c++);
    const char **const place[] = {&r->host, &r->device, &r->model_name, &r->dataset, &r->git_commit};
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) *place[i] = column_text(a, q, c++);
    r->seed = (unsigned long)sqlite3_column_int64(q, c++);
    r->n_params = (long)sqlite3_column_int64(q, c++);
    r->parent = (long)sqlite3_column_int64(q, c++);
    r->sweep = (long)sqlite3_column_int64(q, c++);
    r->deleted = sqlite3_column_type(q, c++) != SQLITE_NULL;
    dl_whoami who = {.pid = sqlite3_column_int64(q, c + 1), .pid_start = (uint64_t)sqlite3_column_int64(q, c + 2)};
    snprintf(who.host, sizeof who.host, "%s", r->host);
    snprintf(who.boot_id, sizeof who.boot_id, "%s", (const char *)sqlite3_column_text(q, c));
    r->pid = (long)who.pid;
    r->heartbeat_us = (long)sqlite3_column_int64(q, c + 3);
    /* a read-only store keeps the old status; show the true one */
    if (readonly && r->status <= DL_RUN_PAUSED && dl_run_is_dead(&who, r->heartbeat_us)) r->status = DL_RUN_KILLED;
    dl_activity active = {sqlite3_column_int64(q, c + 4), sqlite3_column_int64(q, c + 5)};
    r->seconds = (double)dl_activity_at(&active, r->status == DL_RUN_KILLED ? r->heartbeat_us : dl_now_us()) / 1e6;
    const char **const start[] = {&r->cmdline, &r->script_path, &r->script_args};
    for (size_t i = 0; i < sizeof start / sizeof *start; i++) *start[i] = column_text(a, q, c + 6 + (int)i);
    for (int i = 0; i < NFULL; i++) *full_member(r, i) = "";
}

/* ---------------------------------------------------------------- parts of a run */

static int read_param(dl_arena *a, sqlite3_stmt *q, dl_run_info *r) {
    dl_param_info *p = dl_arena_more(a, (void *)r->params, r->nparam, sizeof *p);
    if (!p) return 0;
    r->params = p;
    p[r->nparam++] = (dl_param_info){column_text(a, q, 0), column_text(a, q, 1), dl_column_number(q, 2)};
    return 1;
}

static int read_tag(dl_arena *a, sqlite3_stmt *q, dl_run_info *r) {
    const char **t = dl_arena_more(a, (void *)r->tags, r->ntag, sizeof *t);
    if (!t) return 0;
    r->tags = t;
    t[r->ntag++] = column_text(a, q, 0);
    return 1;
}

static int read_series(dl_arena *a, sqlite3_stmt *q, dl_run_info *r) {
    dl_series_info *s = dl_arena_more(a, (void *)r->series, r->nseries, sizeof *s);
    if (!s) return 0;
    r->series = s;
    s += r->nseries++;
    *s = (dl_series_info){.key = column_text(a, q, 0),
                          .n = (long)sqlite3_column_int64(q, 1),
                          .n_nan = (long)sqlite3_column_int64(q, 2),
                          .first = dl_column_number(q, 3),
                          .first_step = (long)sqlite3_column_int64(q, 4),
                          .last = dl_column_number(q, 5),
                          .last_step = (long)sqlite3_column_int64(q, 6),
                          .min = dl_column_number(q, 7),
                          .min_step = (long)sqlite3_column_int64(q, 8),
                          .max = dl_column_number(q, 9),
                          .max_step = (long)sqlite3_column_int64(q, 10)};
    s->mean = s->n > s->n_nan ? dl_column_number(q, 11) / (double)(s->n - s->n_nan) : NAN;
    return 1;
}

static int read_event(dl_arena *a, sqlite3_stmt *q, dl_run_info *r) {
    dl_event_info *e = dl_arena_more(a, (void *)r->events, r->nevent, sizeof *e);
    if (!e) return 0;
    r->events = e;
    e[r->nevent++] = (dl_event_info){(long)sqlite3_column_int64(q, 0), (long)sqlite3_column_int64(q, 1),
                                     column_text(a, q, 2), column_text(a, q, 3), column_text(a, q, 4)};
    return 1;
}

static int read_artifact(dl_arena *a, sqlite3_stmt *q, dl_run_info *r) {
    dl_artifact_info *x = dl_arena_more(a, (void *)r->artifacts, r->nartifact, sizeof *x);
    if (!x) return 0;
    r->artifacts = x;
    x[r->nartifact++] = (dl_artifact_info){column_text(a, q, 0),
                                           column_text(a, q, 1),
                                           column_text(a, q, 2),
                                           column_text(a, q, 3),
                                           (long)sqlite3_column_int64(q, 4),
                                           (long)sqlite3_column_int64(q, 5)};
    return 1;
}

static int read_full(dl_arena *a, sqlite3_stmt *q, dl_run_info *r) {
    for (int i = 0; i < NFULL; i++) *full_member(r, i) = column_text(a, q, i);
    return 1;
}

static const struct {
    int full; /* only for a run in full */
    const char *sql;
    int (*read)(dl_arena *a, sqlite3_stmt *q, dl_run_info *r);
} parts[] = {
    {0, "select key, value, num from param where run_id = ?1 order by key", read_param},
    {0, "select tag from tag where run_id = ?1 order by tag", read_tag},
    {0,
     "select key, n, n_nan, first, first_step, last, last_step, min, min_step, max, max_step, sum from series where "
     "run_id ="
     " ?1 and n > 0 order by key",
     read_series},
    {1, full_columns, read_full},
    {1, "select step, t_us, kind, text, json from event where run_id = ?1 and kind <> 'output' order by t_us, id",
     read_event},
    {1, "select name, kind, sha, path, step, bytes from artifact where run_id = ?1 order by name, step", read_artifact},
};

static dl_status read_part(sqlite3 *db, int part, dl_arena *a, dl_run_info *runs, long n) {
    DL_DB_STATEMENT(q);
    DL_TRY(dl_db_prepare(db, &q, parts[part].sql));
    for (long i = 0; i < n; i++) {
        int rc;
        sqlite3_bind_int64(q, 1, runs[i].id);
        while ((rc = sqlite3_step(q)) == SQLITE_ROW && parts[part].read(a, q, &runs[i])) {}
        if (rc != SQLITE_DONE && rc != SQLITE_ROW) return dl_db_fail(db, "read the store");
        sqlite3_reset(q);
    }
    return DL_OK;
}

dl_status dl_runs_load(dl_store *s, dl_clause *c, int full, dl_arena *a, dl_run_info **runs, long *n) {
    DL_DB_STATEMENT(q);
    int rc = SQLITE_DONE;
    *runs = NULL;
    *n = 0;
    dl_status st = dl_clause_prepare(c, s->r, run_columns, &q);
    while (st == DL_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        dl_run_info *more = dl_arena_more(a, *runs, *n, sizeof *more);
        if (!more) break;
        *runs = more;
        more[*n] = (dl_run_info){0};
        read_run(a, q, &more[(*n)++], s->readonly);
    }
    if (st == DL_OK && rc != SQLITE_DONE && rc != SQLITE_ROW) st = dl_db_fail(s->r, "read the store");
    for (size_t p = 0; p < sizeof parts / sizeof *parts && st == DL_OK && !a->failed; p++)
        if (full || !parts[p].full) st = read_part(s->r, (int)p, a, *runs, *n);
    if (st == DL_OK && a->failed) st = dl_failed();
    return st;
}

/* ---------------------------------------------------------------- lists */

typedef struct list {
    dl_run_list public;
    dl_arena arena;
} list;

void dl_run_list_free(dl_run_list *l) {
    if (!l) return;
    dl_arena_free(&((list *)l)->arena);
    free(l);
}

void dl_runs_refresh(dl_store *s) {
    if (s->none || s->readonly || access(s->path, F_OK)) return;
    dl_error old;
    dl_status had = dl_error_take(&old);
    if (dl_store_recover(s, 0) != DL_OK) dl_error_clear(); /* a locked store can still be read */
    if (had) dl_error_put(&old);
}

static dl_run_list *make_list(dl_store *s, dl_clause *c, int full) {
    list *l = calloc(1, sizeof *l);
    dl_run_info *runs;
    if (!l) return dl_fail(DL_ERR_MEMORY, "no memory for a list of runs"), NULL;
    if (dl_runs_load(s, c, full, &l->arena, &runs, &l->public.n) != DL_OK) {
        dl_run_list_free(&l->public);
        return NULL;
    }
    l->public.runs = runs;
    return &l->public;
}

void dl_runs_limit(dl_clause *c, long limit) { sqlite3_str_appendf(c->sql, " limit %ld", limit > 0 ? limit : -1); }

dl_status dl_runs_pick(dl_clause *c, sqlite3 *db, const dl_run_query *q) {
    dl_runs_select(c);
    sqlite3_str_appendf(c->sql, "r.deleted_us is %s null", q->deleted ? "not" : "");
    if (q->where) DL_TRY(dl_filter_where(c, db, q->where));
    if (q->sort && *q->sort)
        DL_TRY(dl_filter_sort(c, db, q->sort));
    else
        sqlite3_str_appendall(c->sql, " order by r.started_us desc, r.id desc");
    dl_runs_limit(c, q->limit);
    return DL_OK;
}

dl_run_list *dl_run_query_list(dl_store *s, const dl_run_query *q) {
    static const dl_run_query all;
    dl_clause c DL_SCOPE(dl_clause_free) = {0};
    dl_run_list *out = NULL;
    if (!q) q = &all;
    if (s) dl_runs_refresh(s);
    if (dl_store_read_lock(s) != DL_OK) return NULL;
    if (dl_clause_init(&c) == DL_OK && dl_runs_pick(&c, s->r, q) == DL_OK) out = make_list(s, &c, 0);
    dl_store_read_unlock(s, DL_OK);
    return out;
}

dl_run_list *dl_run_show(dl_store *s, long id) {
    dl_clause c DL_SCOPE(dl_clause_free) = {0};
    dl_run_list *out = NULL;
    if (s) dl_runs_refresh(s);
    if (dl_store_read_lock(s) != DL_OK) return NULL;
    if (dl_clause_init(&c) == DL_OK) {
        dl_runs_select(&c);
        sqlite3_str_appendf(c.sql, "r.id = %ld", id);
        out = make_list(s, &c, 1);
    }
    dl_store_read_unlock(s, DL_OK);
    if (out && !out->n) {
        dl_run_list_free(out);
        dl_run_missing(id);
        return NULL;
    }
    return out;
}

/* ---------------------------------------------------------------- finding */

static int all_digits(const char *s) { return *s && !s[strspn(s, "0123456789")]; }

/* DL_ERR_NAME; the hint names the nearest of the latest runs. */
static dl_status no_run(sqlite3 *db, const char *ref, int deleted) {
    enum { MOST = 256 };
    char *names[MOST];
    int n = dl_db_texts(db,
                        deleted ? "select name from run where deleted_us is not null and name <> '' order by id desc"
                                : "select name from run where deleted_us is null and name <> '' order by id desc",
                        names, MOST);
    const char *near = strlen(ref) > 2 ? dl_nearest(ref, (const char *const *)names, n) : NULL;
    char hint[160];
    snprintf(hint, sizeof hint, near ? "did you mean '%.120s'?" : deleted ? "see runs deleted" : "see runs", near);
    while (n) free(names[--n]);
    return dl_fail_hint(DL_ERR_NAME, hint, "there is no %srun '%.200s'", deleted ? "deleted " : "", ref);
}

static dl_status find(dl_store *s, const char *ref, int deleted, long *id) {
#define BY_UUID "select id from run where length(?1) >= 8 and substr(uuid, 1, length(?1)) = lower(?1)"
    static const char *const queries[2][3] = {
        {"select id from run where ?1 = 'last' and deleted_us is null order by started_us desc, id desc limit 1",
         "select id from run where name = ?1 and deleted_us is null order by started_us desc, id desc limit 1",
         BY_UUID},
        {"select id from run where ?1 = 'last' and deleted_us is not null order by deleted_us desc, id desc limit 1",
         "select id from run where name = ?1 and deleted_us is not null order by deleted_us desc, id desc limit 1",
         BY_UUID},
    };
    int64_t found = 0;
    if (!ref) return dl_fail_null("name of the run");
    DL_TRY(dl_store_read_lock(s));
    dl_status st = DL_OK;
    if (all_digits(ref)) st = dl_db_int(s->r, &found, "select id from run where id = cast(?1 as integer)", "t", ref);
    for (int i = 0; i < 3 && st == DL_OK && !found; i++) st = dl_db_int(s->r, &found, queries[deleted][i], "t", ref);
    if (st == DL_OK && !found) st = no_run(s->r, ref, deleted);
    dl_store_read_unlock(s, DL_OK);
    *id = (long)found;
    return st;
}

dl_status dl_run_find(dl_store *s, const char *ref, long *id) { return find(s, ref, 0, id); }

dl_status dl_run_find_deleted(dl_store *s, const char *ref, long *id) { return find(s, ref, 1, id); }
