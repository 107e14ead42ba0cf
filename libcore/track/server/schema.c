/* The schema on both sides. That of the server is made from the mirror's, so that there is one description of it. */
#include <stdio.h>
#include <string.h>

#include "track/server/server.h"

const char *const dl_keyed_tables[] = {"param", "tag", "artifact", NULL};

/* ---------------------------------------------------------------- the mirror */

/* mirror_rows: rows that changed, by run and key; of `run` itself the keys are 'state' and 'label'. mirror_points: the
 * step of a series from which on it changed. taken 1: what is being sent; 2 and 3: put aside while rows are fetched. */
static const char notes_sql[] =
    "create table if not exists mirror_state(path text not null, address text not null, origin text not null,"
    " uuid text not null default '', rows_seq integer not null default 0, points_seq integer not null default 0);"
    "create table if not exists mirror_rows(tbl text, run_id integer, key text, taken integer,"
    " primary key(tbl, run_id, key, taken)) without rowid;"
    "create table if not exists mirror_points(series_id integer, taken integer, step integer,"
    " primary key(series_id, taken)) without rowid;";

/* An outer statement's "or ignore" holds in its triggers: so the step is looked at, not left to a conflict. */
#define POINT_TRIGGER(name, event, row)                                                                                \
    "create trigger if not exists mirror_metric_" name " after " event " on metric when not exists (select 1 from"     \
    " mirror_points where series_id = " row ".series_id and taken = 0 and step <= " row ".step) begin"                 \
    " delete from mirror_points where series_id = " row ".series_id and taken = 0;"                                    \
    " insert into mirror_points values(" row ".series_id, 0, " row ".step); end;"

static const char point_triggers[] = POINT_TRIGGER("insert", "insert", "new") POINT_TRIGGER("update", "update", "new")
    POINT_TRIGGER("delete", "delete", "old");

#define LABELS "'name', 'note', 'deleted_us'"

static dl_status execute(sqlite3 *db, char *sql) {
    if (!sql) return dl_fail(DL_ERR_MEMORY, "no memory for a statement");
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
    return rc == SQLITE_OK ? DL_OK : dl_db_fail(db, "prepare the local copy of the store");
}

static dl_status add_trigger(sqlite3 *db, const char *table, const char *name, const char *event, const char *row,
                             const char *key) {
    return execute(db,
                   sqlite3_mprintf("create trigger if not exists mirror_%s_%s after %s on %s begin"
                                   " insert or ignore into mirror_rows values('%s', %s.%s, %s, 0); end",
                                   table, name, event, table, table, row, strcmp(table, "run") ? "run_id" : "id", key));
}

char *dl_mirror_columns(sqlite3 *db, const char *table, char which, char kinds[64]) {
    DL_DB_STATEMENT(q);
    sqlite3_str *out = sqlite3_str_new(db);
    int n = 0;
    if (sqlite3_prepare_v2(db,
                           "select name, upper(type), name in (" LABELS "), name in ('id', 'uuid') from"
                           " pragma_table_info(?1) order by cid",
                           -1, &q, NULL) == SQLITE_OK) {
        sqlite3_bind_text(q, 1, table, -1, SQLITE_STATIC);
        while (sqlite3_step(q) == SQLITE_ROW && n < 63) {
            const char *type = (const char *)sqlite3_column_text(q, 1);
            int label = sqlite3_column_int(q, 2), fixed = sqlite3_column_int(q, 3);
            if (kinds) kinds[n] = *type == 'I' ? 'i' : *type == 'R' ? 'd' : *type == 'B' ? 'b' : 't';
            if (!which || (!fixed && label == (which == 'l')))
                sqlite3_str_appendf(out, "%s%s", sqlite3_str_length(out) ? ", " : "", sqlite3_column_text(q, 0));
            n++;
        }
    }
    if (kinds) kinds[n] = 0;
    return sqlite3_str_finish(out);
}

/* Notes whose triggers name columns are made anew: a later version has more of them. */
static dl_status note_runs(sqlite3 *db) {
    DL_TRY(add_trigger(db, "run", "insert", "insert", "new", "'state'"));
    DL_TRY(add_trigger(db, "run", "insert_label", "insert", "new", "'label'"));
    static const struct {
        char which;
        const char *name;
    } parts[] = {{'s', "state"}, {'l', "label"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *columns = dl_mirror_columns(db, "run", parts[i].which, NULL);
        char *event = columns ? sqlite3_mprintf("update of %s", columns) : NULL;
        char *key = sqlite3_mprintf("'%s'", parts[i].name);
        dl_status st = execute(db, sqlite3_mprintf("drop trigger if exists mirror_run_%s", parts[i].name));
        if (st == DL_OK)
            st = event && key ? add_trigger(db, "run", parts[i].name, event, "new", key)
                              : dl_fail(DL_ERR_MEMORY, "no memory for a trigger");
        sqlite3_free(columns), sqlite3_free(event), sqlite3_free(key);
        DL_TRY(st);
    }
    return DL_OK;
}

static dl_status note_rows(sqlite3 *db) {
    static const struct {
        const char *table, *new_key, *old_key;
    } rows[] = {{"param", "new.key", "old.key"}, {"tag", "new.tag", "old.tag"}, {"artifact", "new.name", "old.name"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        DL_TRY(add_trigger(db, rows[i].table, "insert", "insert", "new", rows[i].new_key));
        DL_TRY(add_trigger(db, rows[i].table, "update", "update", "new", rows[i].new_key));
        DL_TRY(add_trigger(db, rows[i].table, "delete", "delete", "old", rows[i].old_key));
    }
    return add_trigger(db, "event", "insert", "insert", "new", "new.id");
}

static dl_status prepare(sqlite3 *db, const char *path, const char *address) {
    int64_t have = 0;
    char origin[37];
    DL_TRY(execute(db, sqlite3_mprintf("%s%s", notes_sql, point_triggers)));
    DL_TRY(note_runs(db));
    DL_TRY(note_rows(db));
    DL_TRY(dl_db_int(db, &have, "select count(*) from mirror_state", ""));
    dl_uuid(origin);
    if (have) return dl_db_run(db, "update mirror_state set address = ?1", "t", address);
    return dl_db_run(db, "insert into mirror_state(path, address, origin) values(?1, ?2, ?3)", "ttt", path, address,
                     origin);
}

dl_status dl_mirror_prepare(sqlite3 *db, const char *path, const char *address) {
    char bare[1024]; /* passwords are not written down */
    dl_server_hide(address, "", bare, sizeof bare);
    DL_TRY(dl_db_begin(db));
    return dl_db_end(db, prepare(db, path, bare));
}

dl_status dl_mirror_read(sqlite3 *db, const char *path, dl_mirror *out, bool *found) {
    DL_DB_STATEMENT(q);
    int64_t is = 0;
    *found = false;
    DL_TRY(dl_db_int(db, &is, "select count(*) from sqlite_master where name = 'mirror_state'", ""));
    if (!is) return DL_OK;
    DL_TRY(
        dl_db_prepare(db, &q, "select address, origin, uuid, rows_seq, points_seq from mirror_state where path = ?1"));
    DL_TRY(dl_db_bind(q, "t", path));
    if (sqlite3_step(q) != SQLITE_ROW) return DL_OK;
    snprintf(out->address, sizeof out->address, "%s", (const char *)sqlite3_column_text(q, 0));
    snprintf(out->origin, sizeof out->origin, "%s", (const char *)sqlite3_column_text(q, 1));
    snprintf(out->uuid, sizeof out->uuid, "%s", (const char *)sqlite3_column_text(q, 2));
    out->rows_seq = sqlite3_column_int64(q, 3);
    out->points_seq = sqlite3_column_int64(q, 4);
    *found = true;
    return DL_OK;
}

/* ---------------------------------------------------------------- the server */

/* seq numbers the changes: the row of `store` is locked while a change is made, so they are seen in this order.
 * `reset`: the last change of a series that did more than add points behind its last step. */
static const struct {
    const char *table, *more, *index;
} extras[] = {
    {"run", NULL, "create unique index run_uuid on run(uuid); create index run_list on run(deleted_us, started_us);"},
    {"param", NULL, "create index param_key on param(key, num);"},
    {"tag", NULL, ""},
    {"series", "seq bigint not null default 0, reset bigint not null default 0, reset_by text",
     "create unique index series_name on series(run_id, key); create index series_seq on series(seq);"},
    {"metric", NULL, ""},
    {"event", "seq bigint not null default 0, origin text, origin_id bigint",
     "create unique index event_origin on event(origin, origin_id); create index event_seq on event(seq);"
     "create index event_run on event(run_id, t_us);"},
    {"artifact", NULL, ""},
    {"blob", NULL, ""},
};
enum { NTABLE = sizeof extras / sizeof *extras };

static const char *server_type(const char *type) {
    static const char *const types[][2] = {{"INTEGER", "bigint"}, {"REAL", "double precision"}, {"BLOB", "bytea"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcasecmp(type, types[i][0])) return types[i][1];
    return "text";
}

/* Ids that the server gives by itself. */
static bool counts(const char *table) { return !strcmp(table, "series") || !strcmp(table, "event"); }

/* The columns of a table, for "create table" or, `alter`, for one that has some of them already. */
static dl_status describe(sqlite3_str *out, sqlite3 *db, int i, bool alter) {
    DL_DB_STATEMENT(q);
    const char *table = extras[i].table;
    DL_TRY(dl_db_prepare(db, &q,
                         "select name, type, \"notnull\", dflt_value, pk from pragma_table_info(?1) order by cid"));
    DL_TRY(dl_db_bind(q, "t", table));
    sqlite3_str *keys = sqlite3_str_new(db);
    for (int n = 0; sqlite3_step(q) == SQLITE_ROW; n++) {
        const char *name = (const char *)sqlite3_column_text(q, 0);
        const char *otherwise = (const char *)sqlite3_column_text(q, 3);
        if (sqlite3_column_int(q, 4)) sqlite3_str_appendf(keys, "%s%s", sqlite3_str_length(keys) ? ", " : "", name);
        sqlite3_str_appendf(out, "%s%s %s%s", n ? ", " : "", alter ? "add column if not exists" : "", name, " ");
        sqlite3_str_appendf(out, "%s%s", server_type((const char *)sqlite3_column_text(q, 1)),
                            sqlite3_column_int(q, 2) ? " not null" : "");
        if (otherwise) sqlite3_str_appendf(out, " default %s", otherwise);
        if (!strcmp(name, "id") && counts(table)) sqlite3_str_appendall(out, " generated by default as identity");
    }
    if (extras[i].more && !alter) sqlite3_str_appendf(out, ", %s", extras[i].more);
    if (sqlite3_str_length(keys) && !alter) sqlite3_str_appendf(out, ", primary key(%s)", sqlite3_str_value(keys));
    sqlite3_free(sqlite3_str_finish(keys));
    return DL_OK;
}

static dl_status add_views(sqlite3_str *out, sqlite3 *db) {
    DL_DB_STATEMENT(q);
    DL_TRY(dl_db_prepare(db, &q, "select name, sql from sqlite_master where type = 'view' order by name"));
    while (sqlite3_step(q) == SQLITE_ROW)
        sqlite3_str_appendf(out, "drop view if exists %s; %s;", sqlite3_column_text(q, 0), sqlite3_column_text(q, 1));
    return DL_OK;
}

static dl_status write_schema(sqlite3_str *out, sqlite3 *db, bool alter) {
    int version = dl_migrations[dl_migration_count - 1].version;
    sqlite3_str_appendall(out, "begin; set local search_path = dlsh;");
    if (!alter)
        sqlite3_str_appendall(out, "create schema dlsh; create sequence run_number;"
                                   "create table store(uuid text, version bigint, seq bigint);"
                                   "create table change(run_id bigint, tbl text, seq bigint, primary key(run_id, tbl));"
                                   "create index change_seq on change(tbl, seq);");
    for (int i = 0; i < NTABLE; i++) {
        sqlite3_str_appendf(out, "%s table %s %s", alter ? "alter" : "create", extras[i].table, alter ? "" : "(");
        DL_TRY(describe(out, db, i, alter));
        sqlite3_str_appendf(out, "%s;%s", alter ? "" : ")", alter ? "" : extras[i].index);
    }
    DL_TRY(add_views(out, db));
    if (alter)
        sqlite3_str_appendf(out, "update store set version = %d; commit", version);
    else
        sqlite3_str_appendf(out, "insert into store select gen_random_uuid(), %d, 0; commit", version);
    return DL_OK;
}

static dl_status make_schema(dl_server *v, bool alter) {
    sqlite3_str *sql = sqlite3_str_new(v->db);
    dl_status st = write_schema(sql, v->db, alter);
    char *text = sqlite3_str_finish(sql);
    if (st == DL_OK) st = text ? dl_pq_run(&v->pq, "make the store", text) : dl_fail(DL_ERR_MEMORY, "no memory");
    sqlite3_free(text);
    return st;
}

static dl_status check_version(dl_server *v, const char *of, bool *older) {
    DL_PQ_ROWS(r);
    char sql[200];
    int version = dl_migrations[dl_migration_count - 1].version;
    snprintf(sql, sizeof sql, "select version, uuid from dlsh.store");
    DL_TRY(dl_pq_fetch(&v->pq, &r, sql));
    if (r.n != 1)
        return dl_fail_hint(DL_ERR_STORE, "choose another database", "%.200s has a schema dlsh that is no store",
                            v->shown);
    *older = dl_pq_int(&r, 0, 0) < version;
    if (dl_pq_int(&r, 0, 0) > version)
        return dl_fail_hint(DL_ERR_STORE, "use the newer version of dlsh that wrote it, or another store: --db FILE",
                            "%.200s has schema version %ld, this dlsh knows up to %d", v->shown,
                            (long)dl_pq_int(&r, 0, 0), version);
    const char *uuid = dl_pq_cell(&r, 0, 1);
    if (*of && strcmp(of, uuid))
        return dl_fail_hint(DL_ERR_STORE, "if that is right, move the local copy away, which has what was recorded",
                            "%.200s is not the database any more of which %.200s is the local copy", v->shown,
                            v->store->path);
    if (*of) return DL_OK;
    DL_TRY(dl_store_write_lock(v->store));
    return dl_store_write_unlock(v->store, dl_db_run(v->store->w, "update mirror_state set uuid = ?1", "t", uuid));
}

/* What is sent lies here until all of it has come. */
static const char temporary[] =
    "create temp table if not exists in_key(tbl text, run_id bigint, key text) on commit delete rows;"
#define IN(t) "create temp table if not exists in_" #t " on commit delete rows as select * from " #t " with no data;"
    IN(run) IN(param) IN(tag) IN(artifact) IN(event) IN(blob) IN(metric)
#undef IN
        "create temp table if not exists in_series on commit delete rows as select *, 0::bigint as from_step,"
        " 0::bigint as number, false as back from series with no data";

dl_status dl_server_meet(dl_server *v) {
    DL_PQ_ROWS(r);
    dl_mirror m;
    bool found, older = false;
    DL_TRY(dl_mirror_read(v->db, v->store->path, &m, &found));
    memcpy(v->origin, m.origin, sizeof v->origin);
    DL_TRY(dl_pq_fetch(&v->pq, &r, "select to_regclass('dlsh.store')"));
    bool empty = !dl_pq_cell(&r, 0, 0);
    if (empty && make_schema(v, false) != DL_OK) { /* another program may have made it just now */
        dl_error first;
        dl_error_take(&first);
        dl_pq_recover(&v->pq);
        if (dl_pq_fetch(&v->pq, &r, "select to_regclass('dlsh.store')") != DL_OK || !dl_pq_cell(&r, 0, 0))
            return dl_error_put(&first);
    }
    DL_TRY(check_version(v, m.uuid, &older));
    if (older) DL_TRY(make_schema(v, true));
    return dl_pq_run(&v->pq, "be read", "set search_path = dlsh");
}

dl_status dl_server_prepare(dl_server *v) {
    if (!v->pq.ready) DL_TRY(dl_pq_run(&v->pq, "take rows", temporary));
    v->pq.ready = true;
    return DL_OK;
}
