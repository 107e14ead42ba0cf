/* MLflow's tracking store in SQLite, read. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "track/exchange/mlflow.h"

static const char *text(sqlite3_stmt *q, int col) {
    const char *t = (const char *)sqlite3_column_text(q, col);
    return t && *t ? t : NULL;
}

/* ---------------------------------------------------------------- runs */

#define SELECT_TAG(column, tag)                                                                                        \
    ", (select value from tags as t where t.run_uuid = r.run_uuid and t.\"key\" = '" tag "') as " #column
static const char runs_sql[] =
    "select r.run_uuid, r.name, case e.name when 'Default' then 'default' else e.name end, r.status, r.start_time,"
    " r.end_time, (select value from tags as t where t.run_uuid = r.run_uuid and t.\"key\" = '" DL_MLFLOW_PARENT
    "')" DL_MLFLOW_TAGS(
        SELECT_TAG) " from runs as r left join experiments as e on e.experiment_id ="
                    " r.experiment_id where r.lifecycle_stage = 'active' order by r.start_time, r.run_uuid";
enum { UUID, NAME, EXPERIMENT, STATUS, STARTED, ENDED, PARENT, FIRST_TAG };

static const char *status_of(const char *status) {
    static const char *const words[][2] = {
        {"FINISHED", "finished"}, {"FAILED", "failed"}, {"KILLED", "killed"}, {"RUNNING", "running"}};
    for (size_t i = 0; status && i < sizeof words / sizeof *words; i++)
        if (!strcmp(status, words[i][0])) return words[i][1];
    return "paused";
}

/* What MLflow knows a run by, as a uuid. */
static void uuid_of(const char *id, char out[37]) {
    if (!dl_uuid_parse(id ? id : "", out)) dl_intake_uuid("mlflow", id ? id : "", out);
}

static dl_status read_run(dl_intake *in, sqlite3_stmt *q) {
    dl_incoming r = {.experiment = text(q, EXPERIMENT),
                     .status = status_of(text(q, STATUS)),
                     .started_us = sqlite3_column_int64(q, STARTED) * 1000,
                     .ended_us = sqlite3_column_int64(q, ENDED) * 1000};
    int col = FIRST_TAG;
    long run;
#define TAG(column, tag) r.column = text(q, col++);
    DL_MLFLOW_TAGS(TAG)
#undef TAG
    if (text(q, NAME)) r.name = text(q, NAME);
    if (text(q, PARENT)) uuid_of(text(q, PARENT), r.parent);
    uuid_of(text(q, UUID), r.uuid);
    return dl_intake_run(in, &r, &run);
}

/* ---------------------------------------------------------------- what belongs to them */

static dl_status read_param(dl_intake *in, long run, sqlite3_stmt *q) {
    return dl_intake_param(in, run, (const char *)sqlite3_column_text(q, 1), (const char *)sqlite3_column_text(q, 2));
}

/* A tag without a value is a word; else it is "key=value". */
static dl_status read_tag(dl_intake *in, long run, sqlite3_stmt *q) {
    char tag[6000];
    snprintf(tag, sizeof tag, text(q, 2) ? "%s=%s" : "%s", text(q, 1), text(q, 2));
    return dl_intake_tag(in, run, tag);
}

static dl_status read_point(dl_intake *in, long run, sqlite3_stmt *q) {
    double v = sqlite3_column_double(q, 4);
    if (fabs(v) >= 1.7976931348623157e308) v = copysign(INFINITY, v);
    return dl_intake_point(in, run, (const char *)sqlite3_column_text(q, 1), sqlite3_column_int64(q, 2),
                           sqlite3_column_int64(q, 3) * 1000, sqlite3_column_int(q, 5) ? NAN : v);
}

#define ACTIVE " where run_uuid in (select run_uuid from runs where lifecycle_stage = 'active')"
/* The first column is the run. Of several values of a step the latest counts. */
static const struct {
    const char *sql;
    dl_status (*take)(dl_intake *in, long run, sqlite3_stmt *q);
} parts[] = {
    {"select run_uuid, \"key\", value from params" ACTIVE, read_param},
    {"select run_uuid, \"key\", value from tags" ACTIVE
     " and \"key\" not like 'mlflow.%' and \"key\" not like 'dlsh.%'",
     read_tag},
    {"select run_uuid, \"key\", step, max(timestamp), value, is_nan from metrics" ACTIVE
     " group by run_uuid, \"key\", step",
     read_point},
};

static dl_status read_part(dl_intake *in, sqlite3 *db, int part) {
    DL_DB_STATEMENT(q);
    dl_incoming r = {0};
    long run = -1;
    int rc;
    DL_TRY(dl_db_prepare(db, &q, parts[part].sql));
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        char uuid[37];
        uuid_of(text(q, 0), uuid);
        if (strcmp(uuid, r.uuid)) {
            memcpy(r.uuid, uuid, sizeof uuid);
            DL_TRY(dl_intake_run(in, &r, &run));
        }
        DL_TRY(parts[part].take(in, run, q));
    }
    return rc == SQLITE_DONE ? DL_OK : dl_db_fail(db, "read MLflow's store");
}

static dl_status read_all(dl_intake *in, sqlite3 *db) {
    DL_DB_STATEMENT(q);
    int rc;
    DL_TRY(dl_db_prepare(db, &q, runs_sql));
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) DL_TRY(read_run(in, q));
    if (rc != SQLITE_DONE) return dl_db_fail(db, "read MLflow's store");
    for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++) DL_TRY(read_part(in, db, i));
    return DL_OK;
}

dl_status dl_mlflow_read(dl_intake *in, const char *path) {
    sqlite3 *db = NULL;
    if (!dl_mlflow_found(path))
        return dl_fail_hint(DL_ERR_FORMAT, "MLflow's store in files is read by mlflow migrate-filestore",
                            "'%s' is not a store of MLflow in SQLite", path);
    dl_status st = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK
                       ? DL_OK
                       : dl_fail(DL_ERR_IO, "cannot read '%s': %s", path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, DL_DB_BUSY_MS);
    if (st == DL_OK) st = read_all(in, db);
    sqlite3_close(db);
    return st;
}
