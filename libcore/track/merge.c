/* Adding the runs of another store. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "track/server/server.h"
#include "track/store.h"

/* The other store is attached as `other`; `pair` says which of its runs is which here, and what happens to it: 'n' it
 * is new, 'u' it has grown. */
#define TABLES(X)                                                                                                      \
    X("param", "key, value, num")                                                                                      \
    X("tag", "tag")                                                                                                    \
    X("event", "step, t_us, kind, text, json")                                                                         \
    X("artifact", "name, step, kind, sha, bytes, path")                                                                \
    X("series", "key, n, n_nan, first, first_step, last, last_step, min, min_step, max, max_step, sum")

#define RUN                                                                                                            \
    "name, experiment, grp, status, started_us, ended_us, heartbeat_us, host, boot_id, pid, pid_start, device, seed,"  \
    " cmdline, cwd, script_path, script_args, script_sha, git_commit, git_diff_sha, env_json, model_name, model_text," \
    " model_sha, n_params, dataset, data_fp, note, error, deleted_us, active_us, active_since_us"

static const char *const steps[] = {
    "create temp table pair(theirs integer primary key, ours integer, what text)",
    /* a run that went on since, as told by its heartbeat, is taken over again as a whole */
    "insert into pair select o.id, r.id, case when r.id is null then 'n' when o.heartbeat_us > r.heartbeat_us then 'u' "
    "end"
    " from other.run as o left join main.run as r on r.uuid = o.uuid",
    "insert into sweep(spec, method, goal, uuid, name, created_us, script_path, script_text, cwd, metric, stat, "
    "direction,"
    " dims, points, seeds, max_steps, min_steps, eta, seed) select spec, method, goal, uuid, name, created_us, "
    "script_path,"
    " script_text, cwd, metric, stat, direction, dims, points, seeds, max_steps, min_steps, eta, seed from other.sweep "
    "as o"
    " where uuid is not null and uuid not in (select uuid from main.sweep where uuid is not null) order by id",
    "insert into main.run(uuid, " RUN ") select uuid, " RUN
    " from other.run where id in (select theirs from pair where what"
    " = 'n') order by id",
    "update pair set ours = (select r.id from other.run as o join main.run as r on r.uuid = o.uuid where o.id = theirs)"
    " where what = 'n'",
    "update main.run set (" RUN ") = (select " RUN
    " from other.run as o where o.uuid = main.run.uuid) where id in (select"
    " ours from pair where what = 'u')",
    "update main.run set parent_id = (select q.ours from pair as p join other.run as o on o.id = p.theirs join pair as "
    "q on"
    " q.theirs = o.parent_id where p.ours = main.run.id), sweep_id = (select s.id from pair as p join other.run as o on"
    " o.id = p.theirs join other.sweep as t on t.id = o.sweep_id join main.sweep as s on s.uuid = t.uuid where p.ours ="
    " main.run.id) where id in (select ours from pair where what = 'n')",
    "delete from main.metric where series_id in (select id from main.series where run_id in (select ours from pair "
    "where"
    " what = 'u'))",
#define CLEAR(table, columns) "delete from main." table " where run_id in (select ours from pair where what = 'u')",
    TABLES(CLEAR)
#undef CLEAR
#define COPY(table, columns)                                                                                           \
    "insert into main." table "(run_id, " columns ") select p.ours, " columns " from other." table                     \
    " as o join pair as p on p.theirs = o.run_id where p.what is not null",
        TABLES(COPY)
#undef COPY
            "insert into main.metric(series_id, step, t_us, value) select s.id, m.step, m.t_us, m.value from pair as p "
            "join"
            " other.series as o on o.run_id = p.theirs join main.series as s on s.run_id = p.ours and s.key = o.key "
            "join other.metric"
            " as m on m.series_id = o.id where p.what is not null order by s.id, m.step",
    "insert or ignore into main.blob(sha, data) select sha, data from other.blob",
};

static dl_status count(sqlite3 *db, const char *what, long *n) {
    int64_t found = 0;
    DL_TRY(dl_db_int(db, &found, "select count(*) from pair where coalesce(what, 'k') = ?1", "t", what));
    *n = (long)found;
    return DL_OK;
}

static dl_status add(sqlite3 *db, dl_merge_result *out) {
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) DL_TRY(dl_db_run(db, steps[i], ""));
    DL_TRY(count(db, "n", &out->runs));
    DL_TRY(count(db, "u", &out->updated));
    DL_TRY(count(db, "k", &out->known));
    return dl_db_run(db, "drop table pair", "");
}

/* Another version of the schema would not have the same columns. */
static dl_status check_version(sqlite3 *db, const char *path) {
    int64_t application = 0, version = 0, ours = dl_migrations[dl_migration_count - 1].version;
    DL_TRY(dl_db_int(db, &application, "pragma other.application_id", ""));
    DL_TRY(dl_db_int(db, &version, "pragma other.user_version", ""));
    if (application != DL_DB_APPLICATION)
        return dl_fail_hint(DL_ERR_STORE, "stores of runs can be merged", "%s is not a store of runs", path);
    if (version != ours)
        return dl_fail_hint(
            DL_ERR_STORE, version < ours ? "dlsh --db FILE -c 'db migrate' brings it up to date" : "use the newer dlsh",
            "%s has schema version %ld, this store %ld", path, (long)version, (long)ours);
    return DL_OK;
}

static dl_status merge(sqlite3 *db, const char *path, dl_merge_result *out) {
    DL_TRY(dl_db_run(db, "attach ?1 as other", "t", path));
    dl_status st = check_version(db, path);
    if (st == DL_OK && (st = dl_db_begin(db)) == DL_OK) st = dl_db_end(db, add(db, out));
    dl_error e;
    dl_status failed = dl_error_take(&e);
    sqlite3_exec(db, "detach other", NULL, NULL, NULL);
    if (failed) dl_error_put(&e);
    return st;
}

dl_status dl_store_merge(dl_store *s, const char *path, dl_merge_result *out) {
    if (!path || !out) return dl_fail_null(path ? "place of the result" : "path of the other store");
    *out = (dl_merge_result){0};
    DL_TRY(dl_server_refuse(s, "merging a file into it"));
    struct stat other_file, own;
    if (access(path, R_OK)) return dl_fail_hint(DL_ERR_IO, "a file that dlsh --db wrote", "%s cannot be read", path);
    /* also under another name of the file, a hard link */
    if (!stat(path, &other_file) && !stat(s->path, &own) && other_file.st_dev == own.st_dev &&
        other_file.st_ino == own.st_ino)
        return dl_fail(DL_ERR_VALUE, "a store cannot be merged with itself");
    /* what killed processes left in rings beside it, and that it is a store */
    dl_store *other = dl_store_open(path);
    if (!other) return dl_failed();
    DL_TRY(dl_store_close(other));
    DL_TRY(dl_store_flush(s));
    DL_TRY(dl_store_write_lock(s));
    return dl_store_write_unlock(s, merge(s->w, path, out));
}
