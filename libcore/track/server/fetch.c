/* Fetching what others changed on the server since the last time, of one moment. What changed in the mirror and was not
 * sent yet stays as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "track/server/server.h"

enum { CHUNK = 200000 /* points of one query */, GROUP = 200 /* series of one query */ };

/* ---------------------------------------------------------------- changing the mirror */

/* The triggers note what is fetched as they note all: these notes are dropped, the others put aside meanwhile. */
static const char aside_sql[] = "update mirror_rows set taken = taken + 2; update mirror_points set taken = taken + 2";
static const char back_sql[] = "delete from mirror_rows where taken < 2; update mirror_rows set taken = taken - 2;"
                               "delete from mirror_points where taken < 2; update mirror_points set taken = taken - 2";

typedef dl_status change(dl_server *v, sqlite3 *db, void *ctx);

static dl_status execute(sqlite3 *db, const char *sql) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? DL_OK : dl_db_fail(db, "take what a server has");
}

static dl_status transact(dl_server *v, change *fn, void *ctx) {
    dl_store *s = v->store;
    DL_TRY(dl_store_write_lock(s));
    dl_status st = dl_db_begin(s->w);
    if (st == DL_OK) {
        st = execute(s->w, aside_sql);
        if (st == DL_OK) st = fn(v, s->w, ctx);
        if (st == DL_OK) st = execute(s->w, back_sql);
        st = dl_db_end(s->w, st);
    }
    return dl_store_write_unlock(s, st);
}

/* ---------------------------------------------------------------- rows */

enum { KEYED = 3 };

typedef struct arrived {
    dl_pq_rows runs, changed[KEYED], keyed[KEYED], blobs, events;
    int64_t seq;
} arrived;

static void arrived_free(arrived *a) {
    dl_pq_rows *const all[] = {&a->runs, &a->blobs, &a->events};
    for (int i = 0; i < 3; i++) dl_pq_rows_free(all[i]), dl_pq_rows_free(&a->changed[i]), dl_pq_rows_free(&a->keyed[i]);
}

static const char *key_of(sqlite3 *db, const char *table, char *out, size_t size) {
    char *columns = dl_mirror_columns(db, table, 0, NULL), *rest = NULL;
    const char *second = columns && strtok_r(columns, ", ", &rest) ? strtok_r(NULL, ", ", &rest) : NULL;
    snprintf(out, size, "%s", second ? second : "");
    sqlite3_free(columns);
    return out;
}

/* As sqlite3_mprintf; runs the query and frees its text. */
static dl_status fetch(dl_server *v, dl_pq_rows *out, char *query) {
    dl_status st = query ? dl_pq_fetch(&v->pq, out, query) : dl_fail(DL_ERR_MEMORY, "no memory for a query");
    sqlite3_free(query);
    return st;
}

/* Contents of which the mirror has none yet. */
static dl_status fetch_blobs(dl_server *v, int64_t since, arrived *a) {
    DL_PQ_ROWS(r);
    DL_TRY(fetch(v, &r,
                 sqlite3_mprintf("select distinct a.sha from artifact as a join change as c on c.run_id = a.run_id"
                                 " and c.tbl = 'artifact' where c.seq > %lld and a.path is null",
                                 since)));
    sqlite3_str *list = sqlite3_str_new(v->db);
    for (long i = 0; i < r.n; i++) {
        int64_t have = 0;
        dl_status st = dl_db_int(v->db, &have, "select 1 from blob where sha = ?1", "t", dl_pq_cell(&r, i, 0));
        if (st != DL_OK) return sqlite3_free(sqlite3_str_finish(list)), st;
        if (!have) sqlite3_str_appendf(list, "%s%Q", sqlite3_str_length(list) ? ", " : "", dl_pq_cell(&r, i, 0));
    }
    char *missing = sqlite3_str_finish(list);
    dl_status st = DL_OK;
    if (missing && *missing)
        st = fetch(v, &a->blobs, sqlite3_mprintf("select sha, data from blob where sha in (%s)", missing));
    sqlite3_free(missing);
    return st;
}

static dl_status fetch_rows(dl_server *v, int64_t since, arrived *a) {
    char *columns = dl_mirror_columns(v->db, "run", 0, NULL);
    dl_status st = fetch(v, &a->runs,
                         sqlite3_mprintf("select %s from run where id in (select run_id from change where tbl = 'run'"
                                         " and seq > %lld) order by id",
                                         columns, since));
    sqlite3_free(columns);
    for (int i = 0; i < KEYED && st == DL_OK; i++) {
        const char *t = dl_keyed_tables[i];
        st = fetch(v, &a->changed[i],
                   sqlite3_mprintf("select run_id from change where tbl = '%s' and seq > %lld", t, since));
        if (st != DL_OK || !a->changed[i].n) continue;
        columns = dl_mirror_columns(v->db, t, 0, NULL);
        st = fetch(v, &a->keyed[i],
                   sqlite3_mprintf("select %s from %s where run_id in (select run_id from change where tbl = '%s' and"
                                   " seq > %lld)",
                                   columns, t, t, since));
        sqlite3_free(columns);
    }
    if (st == DL_OK) st = fetch_blobs(v, since, a);
    if (st == DL_OK)
        st = fetch(v, &a->events,
                   sqlite3_mprintf("select run_id, step, t_us, kind, text, json from event where seq > %lld and"
                                   " origin is distinct from %Q order by id",
                                   since, v->origin));
    return st;
}

/* Statements with numbered parameters, one for each column. */
static void parameters(sqlite3_str *out, const char *kinds) {
    for (int i = 0; kinds[i]; i++) sqlite3_str_appendf(out, "%s?%d", i ? ", " : "", i + 1);
}

/* The columns of `which` in an update of a run that the mirror has. */
static dl_status update_runs(sqlite3 *db, char which, const char *key, const dl_pq_rows *runs) {
    char kinds[64], *all = dl_mirror_columns(db, "run", 0, kinds), *some = dl_mirror_columns(db, "run", which, NULL);
    sqlite3_str *out = sqlite3_str_new(db);
    sqlite3_str_appendall(out, "update run set ");
    char *a = NULL, *s = NULL, *want = some ? strtok_r(some, ", ", &s) : NULL;
    int n = 1, set = 0;
    for (char *c = all ? strtok_r(all, ", ", &a) : NULL; c && want; c = strtok_r(NULL, ", ", &a), n++)
        if (!strcmp(c, want)) {
            sqlite3_str_appendf(out, "%s%s = ?%d", set++ ? ", " : "", c, n);
            want = strtok_r(NULL, ", ", &s);
        }
    sqlite3_str_appendf(out,
                        " where id = ?1 and not exists (select 1 from mirror_rows where tbl = 'run' and run_id = ?1"
                        " and key = '%s' and taken >= 2)",
                        key);
    sqlite3_free(all), sqlite3_free(some);
    char *sql = sqlite3_str_finish(out);
    dl_status st = sql ? dl_pq_store(db, sql, kinds, runs) : dl_fail(DL_ERR_MEMORY, "no memory for a statement");
    sqlite3_free(sql);
    return st;
}

static dl_status insert_rows(sqlite3 *db, const char *table, const char *unless, const dl_pq_rows *rows) {
    char kinds[64], *columns = dl_mirror_columns(db, table, 0, kinds);
    sqlite3_str *out = sqlite3_str_new(db);
    sqlite3_str_appendf(out, "insert or ignore into %s(%s) select ", table, columns ? columns : "");
    parameters(out, kinds);
    if (unless) sqlite3_str_appendf(out, " where not exists (%s)", unless);
    sqlite3_free(columns);
    char *sql = sqlite3_str_finish(out);
    dl_status st = sql ? dl_pq_store(db, sql, kinds, rows) : dl_fail(DL_ERR_MEMORY, "no memory for a statement");
    sqlite3_free(sql);
    return st;
}

/* All rows of a run take the place of those that are here. */
static dl_status replace_rows(sqlite3 *db, const char *table, const dl_pq_rows *changed, const dl_pq_rows *rows) {
    char key[64], sql[400];
    key_of(db, table, key, sizeof key);
    snprintf(sql, sizeof sql,
             "delete from %s where run_id = ?1 and not exists (select 1 from mirror_rows as k where k.tbl = '%s' and"
             " k.run_id = ?1 and k.key = %s.%s and k.taken >= 2)",
             table, table, table, key);
    DL_TRY(dl_pq_store(db, sql, "i", changed));
    snprintf(sql, sizeof sql, "select 1 from mirror_rows where tbl = '%s' and run_id = ?1 and key = ?2 and taken >= 2",
             table);
    return insert_rows(db, table, sql, rows);
}

static dl_status put_rows(dl_server *v DL_UNUSED, sqlite3 *db, void *ctx) {
    arrived *a = ctx;
    DL_TRY(insert_rows(db, "run", NULL, &a->runs));
    DL_TRY(update_runs(db, 's', "state", &a->runs));
    DL_TRY(update_runs(db, 'l', "label", &a->runs));
    for (int i = 0; i < KEYED; i++) DL_TRY(replace_rows(db, dl_keyed_tables[i], &a->changed[i], &a->keyed[i]));
    DL_TRY(dl_pq_store(db, "insert or ignore into blob(sha, data) values(?1, ?2)", "tb", &a->blobs));
    DL_TRY(dl_pq_store(db, "insert into event(run_id, step, t_us, kind, text, json) values(?1, ?2, ?3, ?4, ?5, ?6)",
                       "iiittt", &a->events));
    return dl_db_run(db, "update mirror_state set rows_seq = ?1", "i", a->seq);
}

/* ---------------------------------------------------------------- points */

typedef struct waiting {
    int64_t id, local, from; /* there, and here; the first step that is missing here */
    int64_t n;               /* points that it has */
    bool whole;              /* points of the mirror from there on are wrong */
} waiting;

typedef struct points {
    dl_pq_rows series; /* id, whole, run_id, key, the statistics */
    waiting *at;
    long n, room;
    const waiting *group; /* of the rows: their first column counts from it */
    dl_pq_rows rows;
    long ngroup;
    int64_t seq;
} points;

static void points_free(points *p) {
    dl_pq_rows_free(&p->series), dl_pq_rows_free(&p->rows);
    free(p->at);
}

/* Series of the list that the mirror has or makes now, but those with points that were not sent. */
static dl_status find_series(dl_server *v DL_UNUSED, sqlite3 *db, void *ctx) {
    points *p = ctx;
    DL_DB_STATEMENT(q);
    DL_TRY(dl_db_prepare(db, &q,
                         "select s.id, s.last_step from series as s where s.run_id = ?1 and s.key = ?2 and not exists"
                         " (select 1 from mirror_points as m where m.series_id = s.id and m.taken >= 2)"));
    for (long i = 0; i < p->series.n; i++) {
        const int64_t run = dl_pq_int(&p->series, i, 2);
        const char *key = dl_pq_cell(&p->series, i, 3);
        DL_TRY(dl_db_run(db, "insert or ignore into series(run_id, key) values(?1, ?2)", "it", run, key));
        DL_TRY(dl_db_bind(q, "it", run, key));
        if (sqlite3_step(q) == SQLITE_ROW) {
            DL_TRY(DL_LIST_ROOM(p->at, p->n, p->room));
            bool whole = *dl_pq_cell(&p->series, i, 1) == 't' || sqlite3_column_type(q, 1) == SQLITE_NULL;
            p->at[p->n++] = (waiting){.id = dl_pq_int(&p->series, i, 0),
                                      .local = sqlite3_column_int64(q, 0),
                                      .n = dl_pq_int(&p->series, i, 4),
                                      .from = whole ? INT64_MIN : sqlite3_column_int64(q, 1) + 1,
                                      .whole = whole};
        }
        sqlite3_reset(q);
    }
    return DL_OK;
}

static dl_status put_points(dl_server *v DL_UNUSED, sqlite3 *db, void *ctx) {
    points *p = ctx;
    DL_DB_STATEMENT(q);
    for (long i = 0; i < p->ngroup; i++)
        if (p->group[i].whole) DL_TRY(dl_db_run(db, "delete from metric where series_id = ?1", "i", p->group[i].local));
    DL_TRY(dl_db_prepare(db, &q, "insert or replace into metric(series_id, step, t_us, value) values(?1, ?2, ?3, ?4)"));
    for (long i = 0; i < p->rows.n; i++) {
        const char *value = dl_pq_cell(&p->rows, i, 3);
        sqlite3_bind_int64(q, 1, p->group[dl_pq_int(&p->rows, i, 0)].local);
        sqlite3_bind_int64(q, 2, dl_pq_int(&p->rows, i, 1));
        sqlite3_bind_int64(q, 3, dl_pq_int(&p->rows, i, 2));
        if (value)
            sqlite3_bind_double(q, 4, strtod(value, NULL));
        else
            sqlite3_bind_null(q, 4);
        if (sqlite3_step(q) != SQLITE_DONE) return dl_db_fail(db, "take what a server has");
        sqlite3_reset(q);
    }
    return DL_OK;
}

/* Up to CHUNK points of the series of the group, in their order. */
static dl_status fetch_chunk(dl_server *v, points *p) {
    sqlite3_str *out = sqlite3_str_new(v->db);
    sqlite3_str_appendall(out, "select g.i, m.step, m.t_us, m.value from (values ");
    for (long i = 0; i < p->ngroup; i++)
        sqlite3_str_appendf(out, "%s(%ld, %lld::bigint, '%lld'::bigint)", i ? ", " : "", i, p->group[i].id,
                            p->group[i].from);
    sqlite3_str_appendf(out,
                        ") as g(i, id, f) cross join lateral (select step, t_us, value from metric where series_id ="
                        " g.id and step >= g.f order by step limit %d) as m order by g.i, m.step limit %d",
                        CHUNK, CHUNK);
    return fetch(v, &p->rows, sqlite3_str_finish(out));
}

/* So many series from this one on have about as many points as one query takes. */
static long size_of_group(const points *p, long first) {
    int64_t n = p->at[first].n;
    long size = 1;
    while (first + size < p->n && size < GROUP && (n += p->at[first + size].n) <= CHUNK) size++;
    return size;
}

static dl_status fetch_points(dl_server *v, points *p) {
    for (long done = 0; done < p->n;) {
        p->group = &p->at[done];
        p->ngroup = size_of_group(p, done);
        DL_TRY(fetch_chunk(v, p));
        DL_TRY(transact(v, put_points, p));
        long last = p->rows.n < CHUNK ? p->ngroup : dl_pq_int(&p->rows, p->rows.n - 1, 0);
        for (long i = 0; i < p->ngroup && i <= last; i++) p->at[done + i].whole = false;
        done += last;
        if (p->rows.n == CHUNK) p->at[done].from = dl_pq_int(&p->rows, p->rows.n - 1, 1) + 1;
    }
    return DL_OK;
}

static dl_status put_statistics(dl_server *v DL_UNUSED, sqlite3 *db, void *ctx) {
    points *p = ctx;
    DL_TRY(dl_pq_store(db,
                       "update series set n = ?5, n_nan = ?6, first = ?7, first_step = ?8, last = ?9, last_step = ?10,"
                       " min = ?11, min_step = ?12, max = ?13, max_step = ?14, sum = ?15 where run_id = ?3 and key = ?4"
                       " and not exists (select 1 from mirror_points as m where m.series_id = series.id and m.taken >="
                       " 2)",
                       "itit"
                       "iididididid",
                       &p->series));
    return dl_db_run(db, "update mirror_state set points_seq = ?1", "i", p->seq);
}

/* ---------------------------------------------------------------- the whole */

static dl_status fetch_all(dl_server *v, const dl_mirror *m, int64_t seq) {
    arrived a DL_SCOPE(arrived_free) = {.seq = seq};
    points p DL_SCOPE(points_free) = {.seq = seq};
    if (m->rows_seq < seq) {
        DL_TRY(fetch_rows(v, m->rows_seq, &a));
        DL_TRY(transact(v, put_rows, &a));
    }
    DL_TRY(fetch(v, &p.series,
                 sqlite3_mprintf("select id, (reset > %lld and reset_by <> %Q)::text, run_id, key, n, n_nan, first,"
                                 " first_step, last, last_step, min, min_step, max, max_step, sum from series where"
                                 " seq > %lld order by id",
                                 m->points_seq, v->origin, m->points_seq)));
    DL_TRY(transact(v, find_series, &p));
    DL_TRY(fetch_points(v, &p));
    return transact(v, put_statistics, &p);
}

dl_status dl_server_fetch(dl_server *v) {
    DL_PQ_ROWS(r);
    dl_mirror m;
    bool found;
    DL_TRY(dl_mirror_read(v->db, v->store->path, &m, &found));
    DL_TRY(dl_pq_run(&v->pq, "be read", "begin isolation level repeatable read read only"));
    DL_TRY(dl_pq_fetch(&v->pq, &r, "select seq from store"));
    const int64_t seq = r.n ? dl_pq_int(&r, 0, 0) : 0;
    if (seq > m.rows_seq || seq > m.points_seq) DL_TRY(fetch_all(v, &m, seq));
    return dl_pq_run(&v->pq, "be read", "commit");
}
