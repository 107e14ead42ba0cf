/* Sending what changed in the mirror. It lies in temporary tables of the connection first; then one message of
 * statements puts it into those of the store, so that a lock is never held while something is on its way. */
#include <stdio.h>
#include <string.h>

#include "track/server/server.h"

/* What changed since is noted anew beside what is being sent, which stays noted until the server has it. */
static const char take_sql[] =
    "insert or ignore into mirror_rows select tbl, run_id, key, 1 from mirror_rows where taken = 0;"
    "delete from mirror_rows where taken = 0;"
    "insert into mirror_points(series_id, taken, step) select series_id, 1, step from mirror_points where taken = 0"
    " on conflict(series_id, taken) do update set step = min(step, excluded.step);"
    "delete from mirror_points where taken = 0";

static const char unsent_sql[] = "select exists (select 1 from mirror_rows) or exists (select 1 from mirror_points)";

dl_status dl_server_unsent(dl_server *v, bool *any) {
    int64_t yes = 0;
    DL_TRY(dl_db_int(v->db, &yes, unsent_sql, ""));
    *any = yes;
    return DL_OK;
}

/* The reading connection sees the mirror as it was at this moment until it ends its transaction. */
static dl_status take(dl_server *v) {
    dl_store *s = v->store;
    int64_t n;
    DL_TRY(dl_store_write_lock(s));
    dl_status st = dl_db_begin(s->w);
    if (st == DL_OK) {
        st = sqlite3_exec(s->w, take_sql, NULL, NULL, NULL) == SQLITE_OK ? DL_OK : dl_db_fail(s->w, "send runs");
        st = dl_db_end(s->w, st);
    }
    if (st == DL_OK) st = dl_db_run(v->db, "begin", "");
    if (st == DL_OK) st = dl_db_int(v->db, &n, unsent_sql, "");
    return dl_store_write_unlock(s, st);
}

/* ---------------------------------------------------------------- into the temporary tables */

static dl_status copy_table(dl_server *v, const char *table, const char *rest) {
    char *columns = dl_mirror_columns(v->db, table, 0, NULL), *all = NULL, *query = NULL;
    dl_status st = dl_fail(DL_ERR_MEMORY, "no memory for a query");
    if (columns && (all = sqlite3_mprintf("in_%s(%s)", table, columns)) &&
        (query = sqlite3_mprintf("select %s from %s", columns, rest))) {
        dl_error_clear();
        st = dl_pq_copy(&v->pq, all, v->db, query);
    }
    sqlite3_free(columns), sqlite3_free(all), sqlite3_free(query);
    return st;
}

/* Contents that the server lacks. */
static dl_status copy_blobs(dl_server *v) {
    DL_PQ_ROWS(r);
    DL_DB_STATEMENT(q);
    DL_TRY(dl_pq_fetch(&v->pq, &r,
                       "select distinct sha from in_artifact as a where path is null and not exists"
                       " (select 1 from blob as b where b.sha = a.sha)"));
    if (!r.n) return DL_OK;
    DL_TRY(dl_db_prepare(v->db, &q, "select sha, data from blob where sha = ?1"));
    DL_TRY(dl_pq_copy_begin(&v->pq, "in_blob(sha, data)"));
    dl_status st = DL_OK;
    for (long i = 0; i < r.n && st == DL_OK; i++) {
        st = dl_db_bind(q, "t", dl_pq_cell(&r, i, 0));
        if (st == DL_OK) st = dl_pq_copy_rows(&v->pq, q, v->db);
    }
    return dl_pq_copy_end(&v->pq, st);
}

static dl_status copy_all(dl_server *v) {
    char rest[400];
    DL_TRY(dl_pq_run(&v->pq, "take rows", "begin"));
    DL_TRY(dl_pq_copy(&v->pq, "in_key(tbl, run_id, key)", v->db,
                      "select tbl, run_id, key from mirror_rows where taken = 1"));
    DL_TRY(copy_table(v, "run", "run where id in (select run_id from mirror_rows where taken = 1 and tbl = 'run')"));
    for (int i = 0; dl_keyed_tables[i]; i++) {
        const char *t = dl_keyed_tables[i];
        snprintf(rest, sizeof rest,
                 "%s where (run_id, %s) in (select run_id, key from mirror_rows where taken = 1 and tbl = '%s')", t,
                 !strcmp(t, "param") ? "key"
                 : !strcmp(t, "tag") ? "tag"
                                     : "name",
                 t);
        DL_TRY(copy_table(v, t, rest));
    }
    DL_TRY(copy_table(v, "event",
                      "event where id in (select cast(key as integer) from mirror_rows where taken = 1 and"
                      " tbl = 'event') order by id"));
    DL_TRY(copy_blobs(v));
    DL_TRY(dl_pq_copy(&v->pq,
                      "in_series(number, run_id, key, n, n_nan, first, first_step, last, last_step, min, min_step, max,"
                      " max_step, sum, from_step)",
                      v->db,
                      "select s.id, run_id, key, n, n_nan, first, first_step, last, last_step, min, min_step, max,"
                      " max_step, sum, p.step from mirror_points as p join series as s on s.id = p.series_id where"
                      " p.taken = 1"));
    return dl_pq_copy(&v->pq, "in_metric(series_id, step, t_us, value)", v->db,
                      "select m.series_id, m.step, m.t_us, m.value from mirror_points as p cross join metric as m on"
                      " m.series_id = p.series_id and m.step >= p.step where p.taken = 1");
}

/* ---------------------------------------------------------------- into those of the store */

/* The row of `store` is locked from here to the end: changes have an order. */
#define SEQ "(select seq from store)"

static const char begin_change[] = "update store set seq = seq + 1;";

static const char change_points[] =
    "analyze in_series;"
    "insert into series(run_id, key) select run_id, key from in_series on conflict do nothing;"
    "update in_series as i set id = s.id, back = coalesce(i.from_step <= s.last_step, false) from series as s where"
    " s.run_id = i.run_id and s.key = i.key;"
    /* by the index, however few series there are */
    "set local enable_seqscan = off;"
    "delete from metric as m using in_series as i where i.back and m.series_id = i.id and m.step >= i.from_step;"
    "set local enable_seqscan = on;"
    "insert into metric(series_id, step, t_us, value) select i.id, m.step, m.t_us, m.value from in_metric as m"
    " join in_series as i on i.number = m.series_id"
    " on conflict(series_id, step) do update set t_us = excluded.t_us, value = excluded.value;"
    "update series as s set n = i.n, n_nan = i.n_nan, first = i.first, first_step = i.first_step, last = i.last,"
    " last_step = i.last_step, min = i.min, min_step = i.min_step, max = i.max, max_step = i.max_step, sum = i.sum,"
    " seq = " SEQ ", reset = case when i.back then " SEQ
    " else s.reset end, reset_by = case when i.back then '%s' else s."
    "reset_by end from in_series as i where s.id = i.id;";

static const char end_change[] =
    "insert into change select distinct run_id, tbl, " SEQ " from in_key on conflict(run_id, tbl) do update set"
    " seq = excluded.seq;"
    "insert into blob select sha, data from in_blob on conflict do nothing; commit";

static void update_runs(sqlite3_str *out, sqlite3 *db, char which, const char *key) {
    char *columns = dl_mirror_columns(db, "run", which, NULL), *rest = NULL;
    sqlite3_str_appendall(out, "update run as r set ");
    int n = 0;
    for (char *c = columns ? strtok_r(columns, ", ", &rest) : NULL; c; c = strtok_r(NULL, ", ", &rest))
        sqlite3_str_appendf(out, "%s%s = i.%s", n++ ? ", " : "", c, c);
    sqlite3_str_appendf(out,
                        " from in_run as i, in_key as k where r.id = i.id and r.uuid = i.uuid and k.tbl = 'run' and"
                        " k.run_id = i.id and k.key = '%s';",
                        key);
    sqlite3_free(columns);
}

static void change_rows(sqlite3_str *out, sqlite3 *db, const char *origin) {
    char *runs = dl_mirror_columns(db, "run", 0, NULL);
    sqlite3_str_appendf(out, "insert into run(%s) select %s from in_run on conflict(id) do nothing;", runs, runs);
    sqlite3_free(runs);
    update_runs(out, db, 's', "state");
    update_runs(out, db, 'l', "label");
    for (int i = 0; dl_keyed_tables[i]; i++) {
        const char *t = dl_keyed_tables[i];
        char *columns = dl_mirror_columns(db, t, 0, NULL);
        sqlite3_str_appendf(out,
                            "delete from %s as t using in_key as k where k.tbl = '%s' and t.run_id = k.run_id and"
                            " t.%s = k.key; insert into %s(%s) select %s from in_%s on conflict do nothing;",
                            t, t,
                            !strcmp(t, "param") ? "key"
                            : !strcmp(t, "tag") ? "tag"
                                                : "name",
                            t, columns, columns, t);
        sqlite3_free(columns);
    }
    sqlite3_str_appendf(out,
                        "insert into event(run_id, step, t_us, kind, text, json, seq, origin, origin_id)"
                        " select run_id, step, t_us, kind, text, json, " SEQ ", '%s', id from in_event order by id"
                        " on conflict(origin, origin_id) do nothing;",
                        origin);
}

static dl_status put_in_place(dl_server *v) {
    sqlite3_str *out = sqlite3_str_new(v->db);
    sqlite3_str_appendall(out, begin_change);
    change_rows(out, v->db, v->origin);
    sqlite3_str_appendf(out, change_points, v->origin);
    sqlite3_str_appendall(out, end_change);
    char *sql = sqlite3_str_finish(out);
    dl_status st = sql ? dl_pq_run(&v->pq, "take rows", sql) : dl_fail(DL_ERR_MEMORY, "no memory for statements");
    sqlite3_free(sql);
    return st;
}

/* ---------------------------------------------------------------- the whole */

static const char sent_sql[] = "delete from mirror_rows where taken = 1; delete from mirror_points where taken = 1";

static dl_status settle(dl_server *v) {
    dl_store *s = v->store;
    DL_TRY(dl_store_write_lock(s));
    dl_status st = dl_db_begin(s->w);
    if (st == DL_OK) {
        st = sqlite3_exec(s->w, sent_sql, NULL, NULL, NULL) == SQLITE_OK ? DL_OK : dl_db_fail(s->w, "send runs");
        st = dl_db_end(s->w, st);
    }
    return dl_store_write_unlock(s, st);
}

dl_status dl_server_send(dl_server *v) {
    bool any;
    DL_TRY(dl_server_unsent(v, &any));
    if (!any) return DL_OK;
    DL_TRY(dl_server_prepare(v));
    dl_status st = take(v);
    if (st == DL_OK) st = copy_all(v);
    if (st == DL_OK) st = put_in_place(v);
    if (!sqlite3_get_autocommit(v->db)) sqlite3_exec(v->db, "rollback", NULL, NULL, NULL);
    return st == DL_OK ? settle(v) : st;
}
