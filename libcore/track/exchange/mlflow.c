/* MLflow's tracking store in SQLite, written. A new file has the tables of MLflow 1.1, which every later version brings
 * up to date by itself when it opens the file; of an existing one only columns are named that all versions have. */
#include "track/exchange/mlflow.h"

#include <stdio.h>
#include <unistd.h>

static const char schema[] =
    "create table alembic_version(version_num varchar(32) not null, constraint alembic_version_pkc primary key"
    " (version_num));"
    "insert into alembic_version values('89d4b8295536');"
    "create table experiments(experiment_id integer not null, name varchar(256) not null, artifact_location "
    "varchar(256),"
    " lifecycle_stage varchar(32), constraint experiment_pk primary key (experiment_id), constraint"
    " experiments_lifecycle_stage check (lifecycle_stage in ('active', 'deleted')), unique (name));"
    "create table runs(run_uuid varchar(32) not null, name varchar(250), source_type varchar(20), source_name"
    " varchar(500), entry_point_name varchar(50), user_id varchar(256), status varchar(20), start_time bigint, end_time"
    " bigint, source_version varchar(50), lifecycle_stage varchar(20), artifact_uri varchar(200), experiment_id "
    "integer,"
    " constraint run_pk primary key (run_uuid), constraint source_type check (source_type in ('NOTEBOOK', 'JOB',"
    " 'LOCAL', 'UNKNOWN', 'PROJECT')), constraint status check (status in ('SCHEDULED', 'FAILED', 'FINISHED',"
    " 'RUNNING', 'KILLED')), constraint runs_lifecycle_stage check (lifecycle_stage in ('active', 'deleted')), foreign"
    " key(experiment_id) references experiments (experiment_id));"
    "create table params(\"key\" varchar(250) not null, value varchar(250) not null, run_uuid varchar(32) not null,"
    " constraint param_pk primary key (\"key\", run_uuid), foreign key(run_uuid) references runs (run_uuid));"
    "create table metrics(\"key\" varchar(250) not null, value float not null, timestamp bigint not null, run_uuid"
    " varchar(32) not null, step bigint default '0' not null, is_nan boolean default '0' not null, constraint metric_pk"
    " primary key (\"key\", timestamp, step, run_uuid, value, is_nan), foreign key(run_uuid) references runs "
    "(run_uuid));"
    "create table experiment_tags(\"key\" varchar(250) not null, value varchar(5000), experiment_id integer not null,"
    " constraint experiment_tag_pk primary key (\"key\", experiment_id), foreign key(experiment_id) references"
    " experiments (experiment_id));"
    "create table tags(\"key\" varchar(250) not null, value varchar(5000), run_uuid varchar(32) not null, constraint"
    " tag_pk primary key (\"key\", run_uuid), foreign key(run_uuid) references runs (run_uuid));"
    "create table latest_metrics(\"key\" varchar(250) not null, value float not null, timestamp bigint, step bigint not"
    " null, is_nan boolean not null, run_uuid varchar(32) not null, constraint latest_metric_pk primary key (\"key\","
    " run_uuid), foreign key(run_uuid) references runs (run_uuid));";

int dl_mlflow_found(const char *path) {
    sqlite3 *db = NULL;
    int64_t n = 0;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        dl_db_int(
            db, &n,
            "select count(*) from sqlite_master where type = 'table' and name in ('experiments', 'runs', 'params',"
            " 'metrics', 'tags', 'alembic_version')",
            "") != DL_OK)
        dl_error_clear();
    sqlite3_close(db);
    return n == 6;
}

/* ---------------------------------------------------------------- one run */

/* What is read here and written there, a row each: the run's id is ?1 of the query. The columns of the query are ?1,
 * ?2,
 * ... of the statement. MLflow's uuids have no dashes, its times are milliseconds, NaN is 0 with a mark, and infinity
 * is the largest number. */
#define THERE "(select replace(uuid, '-', '') from run where id = ?1)"
#define FINITE(v) "max(min(coalesce(" v ", 0), 1.7976931348623157e308), -1.7976931348623157e308)"
#define TAG(column, tag)                                                                                               \
    {"select '" tag "', " #column ", replace(uuid, '-', '') from run where id = ?1 and nullif(" #column ", '') is not" \
     " null",                                                                                                          \
     PUT_TAG},
#define PUT_TAG "insert or replace into tags(\"key\", value, run_uuid) values(?1, ?2, ?3)"

static const struct {
    const char *from, *to;
} parts[] = {
    {"select case experiment when 'default' then 'Default' else experiment end from run where id = ?1",
     "insert into experiments(experiment_id, name, artifact_location, lifecycle_stage) select n.id, ?1, './mlruns/' ||"
     " n.id, 'active' from (select case ?1 when 'Default' then 0 else coalesce((select max(experiment_id) from"
     " experiments), 0) + 1 end as id) as n where not exists (select 1 from experiments where name = ?1)"},
    {"select replace(uuid, '-', ''), name, case status when 'finished' then 'FINISHED' when 'running' then 'RUNNING' "
     "when"
     " 'paused' then 'RUNNING' when 'killed' then 'KILLED' else 'FAILED' end, started_us / 1000, ended_us / 1000, case"
     " experiment when 'default' then 'Default' else experiment end, script_path, git_commit from run where id = ?1",
     "insert into runs(run_uuid, name, source_type, source_name, entry_point_name, user_id, status, start_time,"
     " end_time, source_version, lifecycle_stage, artifact_uri, experiment_id) select ?1, ?2, 'LOCAL', coalesce(?7, "
     "''),"
     " '', '', ?3, ?4, ?5, coalesce(?8, ''), 'active', './mlruns/' || experiment_id || '/' || ?1 || '/artifacts',"
     " experiment_id from experiments where name = ?6 on conflict(run_uuid) do update set name = ?2, status = ?3,"
     " end_time = ?5"},
    {"select key, value, " THERE " from param where run_id = ?1",
     "insert or replace into params(\"key\", value, run_uuid) values(?1, ?2, ?3)"},
    {"select case instr(tag, '=') when 0 then tag else substr(tag, 1, instr(tag, '=') - 1) end, case instr(tag, '=') "
     "when"
     " 0 then '' else substr(tag, instr(tag, '=') + 1) end, " THERE " from tag where run_id = ?1",
     PUT_TAG},
    DL_MLFLOW_TAGS(TAG){"select '" DL_MLFLOW_PARENT
                        "', replace(p.uuid, '-', ''), replace(r.uuid, '-', '') from run as r"
                        " join run as p on p.id = r.parent_id where r.id = ?1",
                        PUT_TAG},
    {"select 'mlflow.source.type', 'LOCAL', " THERE, PUT_TAG},
    {"select s.key, " FINITE("m.value") ", m.t_us / 1000, " THERE
                                        ", m.step, m.value is null from series as s join metric"
                                        " as m on m.series_id = s.id where s.run_id = ?1",
     "insert or ignore into metrics(\"key\", value, timestamp, run_uuid, step, is_nan) values(?1, ?2, ?3, ?4, ?5, ?6)"},
    {"select key, " FINITE(
         "last") ", (select t_us / 1000 from metric where series_id = series.id and step = last_step),"
                 " last_step, last is null, " THERE " from series where run_id = ?1 and n > 0",
     "insert or replace into latest_metrics(\"key\", value, timestamp, step, is_nan, run_uuid) values(?1, ?2, ?3, ?4, "
     "?5,"
     " ?6)"},
};
enum { NPART = sizeof parts / sizeof *parts };

typedef struct transfer {
    sqlite3 *there;
    sqlite3_stmt *from[NPART], *to[NPART];
} transfer;

static void end_transfer(const transfer *t) {
    for (int i = 0; i < NPART; i++) {
        sqlite3_finalize(t->from[i]);
        sqlite3_finalize(t->to[i]);
    }
    sqlite3_close(t->there);
}

static dl_status copy_rows(const dl_leaving *l, transfer *t, int part, long id) {
    sqlite3_stmt *from = t->from[part], *to = t->to[part];
    int rc;
    sqlite3_bind_int64(from, 1, id);
    while ((rc = sqlite3_step(from)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(from); i++)
            sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i));
        if (sqlite3_step(to) != SQLITE_DONE) return dl_db_fail(t->there, "write MLflow's store");
        sqlite3_reset(to);
    }
    sqlite3_reset(from);
    return rc == SQLITE_DONE ? DL_OK : dl_db_fail(l->db, "read the store");
}

static dl_status copy_runs(const dl_leaving *l, transfer *t) {
    for (int i = 0; i < NPART; i++) {
        DL_TRY(dl_db_prepare(l->db, &t->from[i], parts[i].from));
        DL_TRY(dl_db_prepare(t->there, &t->to[i], parts[i].to));
    }
    for (long i = 0; i < l->n; i++)
        for (int part = 0; part < NPART; part++) DL_TRY(copy_rows(l, t, part, l->ids[i]));
    return DL_OK;
}

/* ---------------------------------------------------------------- the file */

static dl_status make_tables(sqlite3 *db) {
    return sqlite3_exec(db, schema, NULL, NULL, NULL) == SQLITE_OK ? DL_OK : dl_db_fail(db, "make MLflow's tables");
}

dl_status dl_mlflow_write(const dl_leaving *l, const char *path) {
    transfer t DL_SCOPE(end_transfer) = {0};
    int is_new = access(path, F_OK) != 0;
    if (!is_new && !dl_mlflow_found(path))
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "name a file that does not exist, or a store of MLflow",
                            "'%s' exists and is not a store of MLflow", path);
    if (sqlite3_open_v2(path, &t.there, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        return dl_fail(DL_ERR_IO, "cannot write '%s': %s", path, sqlite3_errmsg(t.there));
    sqlite3_busy_timeout(t.there, DL_DB_BUSY_MS);
    dl_status st = dl_db_begin(t.there);
    if (st == DL_OK) {
        if (is_new) st = make_tables(t.there);
        if (st == DL_OK) st = copy_runs(l, &t);
        st = dl_db_end(t.there, st);
    }
    if (st != DL_OK && is_new) unlink(path);
    return st;
}
