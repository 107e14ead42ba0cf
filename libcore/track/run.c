/* Writing runs: begin, resume, end; parameters, events, artifacts, tags, notes. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "track/exchange/tensorboard.h"
#include "track/server/server.h"
#include "track/store.h"
#include "track/sweep.h"

static const char *const status_names[] = {"running", "paused", "finished", "failed", "killed", "diverged"};
enum { NSTATUS = sizeof status_names / sizeof *status_names };

const char *dl_run_status_name(dl_run_status s) { return (unsigned)s < NSTATUS ? status_names[s] : "unknown"; }

long dl_run_id(const dl_run *r) { return r ? (long)r->id : 0; }

const char *dl_run_uuid(const dl_run *r) { return r ? r->uuid : ""; }

/* ---------------------------------------------------------------- handles */

static dl_run *new_handle(dl_store *s) {
    dl_run *r = calloc(1, sizeof *r);
    if (!r) return dl_fail(DL_ERR_MEMORY, "no memory for a run"), NULL;
    r->store = s;
    r->clock = dl_now_us() - dl_steady_us();
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

/* The open runs of the process, the active one first. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static dl_run *active;

static void unlink_open(const dl_run *r) {
    dl_run **p = &active;
    while (*p && *p != r) p = &(*p)->older;
    if (*p) __atomic_store_n(p, r->older, __ATOMIC_RELEASE);
}

void dl_run_activate(dl_run *r) {
    if (!r || __atomic_load_n(&active, __ATOMIC_ACQUIRE) == r) return;
    pthread_mutex_lock(&open_lock);
    unlink_open(r);
    r->older = active;
    __atomic_store_n(&active, r, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&open_lock);
}

bool dl_run_is_open(const char *uuid) {
    pthread_mutex_lock(&open_lock);
    const dl_run *r = active;
    while (r && strcmp(r->uuid, uuid)) r = r->older;
    pthread_mutex_unlock(&open_lock);
    return r != NULL;
}

dl_run *dl_run_active(void) { return __atomic_load_n(&active, __ATOMIC_ACQUIRE); }

static dl_run *enlist(dl_run *r) {
    dl_store *s = r->store;
    dl_run_activate(r);
    if (!s->none) dl_output_listen(&r->output);
    pthread_mutex_lock(&s->runs_lock);
    r->next = s->runs;
    s->runs = r;
    pthread_mutex_unlock(&s->runs_lock);
    if (!s->none) dl_writer_wake(s); /* it may sleep without a time limit while there is no run */
    return r;
}

static void delist(dl_run *r) {
    dl_store *s = r->store;
    pthread_mutex_lock(&open_lock);
    unlink_open(r);
    pthread_mutex_unlock(&open_lock);
    pthread_mutex_lock(&s->runs_lock);
    dl_run **p = &s->runs;
    while (*p && *p != r) p = &(*p)->next;
    if (*p) *p = r->next;
    pthread_mutex_unlock(&s->runs_lock);
}

/* Frees the handle without touching the database; returns NULL. */
static dl_run *free_handle(dl_run *r) {
    for (int i = 0; i < DL_SERIES_BUCKETS; i++)
        while (r->buckets[i]) {
            dl_series *x = r->buckets[i];
            r->buckets[i] = x->next;
            free(x);
        }
    pthread_mutex_destroy(&r->lock);
    dl_output_cease(&r->output);
    dl_tensorboard_unfollow(r->live);
    free(r);
    return NULL;
}

/* ---------------------------------------------------------------- one change, one transaction */

dl_status dl_run_missing(long id) { return dl_fail_hint(DL_ERR_NAME, "see runs", "there is no run %ld", id); }

static dl_status check_exists(sqlite3 *db, int64_t id) {
    int64_t found = 0;
    DL_TRY(dl_db_int(db, &found, "select id from run where id = ?1", "i", id));
    return found ? DL_OK : dl_run_missing((long)id);
}

/* For changes of a run by id: does not make a file only to find it empty. */
static dl_status begin_change(dl_store *s, long id) {
    if (s && !s->none && access(s->path, F_OK)) return dl_run_missing(id);
    return dl_store_write_lock(s);
}

/* The statement must have touched a row. */
static dl_status finish_change(dl_store *s, dl_status st, long id) {
    if (st == DL_OK && !sqlite3_changes(s->w)) st = dl_run_missing(id);
    return dl_store_write_unlock(s, st);
}

static dl_status put_artifact(sqlite3 *db, int64_t run, const char *name, long step, const char *kind, const char *sha,
                              int64_t bytes, const char *path) {
    return dl_db_run(
        db,
        "insert or replace into artifact(run_id, name, step, kind, sha, bytes, path) values(?1, ?2, ?3, ?4,"
        " ?5, ?6, ?7)",
        "itittit", run, name, (int64_t)step, kind, sha, bytes, path);
}

dl_status dl_artifact_put(sqlite3 *db, int64_t run, const char *name, long step, const char *kind, const char *sha,
                          const void *data, int64_t n) {
    DL_TRY(dl_db_run(db, "insert or ignore into blob(sha, data) values(?1, ?2)", "tb", sha, data, n));
    return put_artifact(db, run, name, step, kind, sha, n, NULL);
}

/* The value as a number, so that "0.10" and "1e-1" compare as equal; NaN when it is none. */
static double number_of(const char *value) {
    char *end;
    double num = strtod(value, &end);
    return end == value || *end ? __builtin_nan("") : num;
}

static dl_status put_param(sqlite3 *db, int64_t run, const char *key, const char *value) {
    return dl_db_run(db, "insert or replace into param(run_id, key, value, num) values(?1, ?2, ?3, ?4)", "ittd", run,
                     key, value, number_of(value));
}

/* The time as a run of the process counts it, or, of one that is not open, the time. */
static int64_t time_of(const sqlite3 *db, int64_t run) {
    pthread_mutex_lock(&open_lock);
    const dl_run *r = active;
    while (r && (r->id != run || __atomic_load_n(&r->store->w, __ATOMIC_ACQUIRE) != db)) r = r->older;
    int64_t now = r ? dl_run_now(r) : dl_now_us();
    pthread_mutex_unlock(&open_lock);
    return now;
}

dl_status dl_event_put(sqlite3 *db, int64_t run, long step, const char *kind, const char *text, const char *json) {
    return dl_db_run(db, "insert into event(run_id, step, t_us, kind, text, json) values(?1, ?2, ?3, ?4, ?5, ?6)",
                     "iiittt", run, (int64_t)step, time_of(db, run), kind, text, json);
}

/* ---------------------------------------------------------------- begin */

/* Facts gathered before the transaction, since reading a git repository may take seconds. */
typedef struct surroundings {
    char uuid[37], cwd[PATH_MAX], script_sha[65], model_sha[65], diff_sha[65];
    char *cmdline, *env;
    dl_git_state git;
    int64_t id; /* 0: the next one */
} surroundings;

static dl_status gather(const dl_run_spec *spec, surroundings *x) {
    dl_uuid(x->uuid);
    if (!getcwd(x->cwd, sizeof x->cwd)) x->cwd[0] = 0;
    x->cmdline = spec->cmdline ? strdup(spec->cmdline) : dl_cmdline();
    x->script_sha[0] = x->model_sha[0] = 0;
    if (spec->script_text) dl_sha256_hex(spec->script_text, strlen(spec->script_text), x->script_sha);
    if (spec->model_text) dl_sha256_hex(spec->model_text, strlen(spec->model_text), x->model_sha);
    dl_git_read_state(&x->git);
    if (x->git.diff) dl_sha256_hex(x->git.diff, x->git.ndiff, x->diff_sha);
    x->env = dl_env_json(spec->env);
    return x->env ? DL_OK : DL_ERR_MEMORY;
}

static const char *text_or_null(const char *s) { return s && *s ? s : NULL; }

static dl_status insert_run(sqlite3 *db, const dl_run_spec *p, const surroundings *x, dl_run *r) {
    const dl_whoami *me = dl_whoami_self();
    int64_t now = dl_run_now(r);
    dl_activity_begin(r, 0);
    if (p->parent) DL_TRY(check_exists(db, p->parent));
    DL_TRY(dl_db_run(
        db,
        "insert into run(uuid, name, experiment, parent_id, sweep_id, grp, status, started_us, heartbeat_us, host, "
        "boot_id,"
        " pid, pid_start, device, seed, cmdline, cwd, script_path, script_args, script_sha, git_commit, git_diff_sha,"
        " env_json, model_name, model_text, model_sha, n_params, dataset, data_fp, note, active_us, active_since_us,"
        " id) values(?1, ?2, ?3, ?4, ?5, ?6,"
        " 'running', ?7, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, "
        "?26,"
        " ?27, ?28, ?29, ?30, ?31)",
        "tttIItittiititttttttttttitttiII", x->uuid, p->name ? p->name : "", p->experiment ? p->experiment : "default",
        (int64_t)p->parent, p->sweep ? (int64_t)p->sweep : dl_trial_sweep(), p->group, now, me->host, me->boot_id,
        me->pid, (int64_t)me->pid_start, p->device, (int64_t)p->seed, x->cmdline, x->cwd, p->script_path,
        p->script_args, text_or_null(x->script_sha), text_or_null(x->git.commit), text_or_null(x->git.diff_sha), x->env,
        p->model_name, p->model_text, text_or_null(x->model_sha), (int64_t)p->n_params, p->dataset, p->data_fingerprint,
        p->note, r->recorded.us, r->recorded.since_us, x->id));
    r->id = sqlite3_last_insert_rowid(db);
    memcpy(r->uuid, x->uuid, sizeof r->uuid);
    if (p->name && *p->name) return DL_OK;
    return dl_db_run(db, "update run set name = 'run-' || id where id = ?1", "i", r->id);
}

static dl_status insert_parts(sqlite3 *db, const dl_run_spec *p, const surroundings *x, dl_run *r) {
    int64_t id = r->id;
    if (p->script_text)
        DL_TRY(dl_artifact_put(db, id, "script", 0, "script", x->script_sha, p->script_text,
                               (int64_t)strlen(p->script_text)));
    if (x->git.diff)
        DL_TRY(dl_artifact_put(db, id, "git.diff.gz", 0, "diff", x->diff_sha, x->git.diff, (int64_t)x->git.ndiff));
    DL_TRY(dl_sources_write(db, id, &r->sources));
    for (const char *const *kv = p->arguments; kv && kv[0] && kv[1]; kv += 2) DL_TRY(put_param(db, id, kv[0], kv[1]));
    for (const char *const *kv = p->params; kv && kv[0] && kv[1]; kv += 2) DL_TRY(put_param(db, id, kv[0], kv[1]));
    return DL_OK;
}

static dl_status take_over(dl_store *s, dl_run *r, long step, long taken_us);

/* The row of a run that begins: a new one, or that of the trial which this process runs once more. */
static dl_status begin_run(dl_store *s, const dl_run_spec *spec, const surroundings *x, dl_run *r, int64_t trial) {
    if (trial) DL_TRY(dl_db_int(s->w, &r->id, "select run_id from trial where id = ?1", "i", trial));
    DL_TRY(r->id ? take_over(s, r, 0, 0) : insert_run(s->w, spec, x, r));
    if (trial) DL_TRY(dl_db_run(s->w, "update trial set run_id = ?2 where id = ?1", "ii", trial, r->id));
    if (spec->tensorboard && !(r->live = dl_tensorboard_follow(s->w, r->id, spec->tensorboard, 0))) return dl_failed();
    return insert_parts(s->w, spec, x, r);
}

/* The run of a trial that is run once more must be complete, too, before it is taken over. */
static dl_status await_attempt(dl_store *s, int64_t trial) {
    int64_t run = 0;
    DL_TRY(dl_store_read_lock(s));
    DL_TRY(dl_store_read_unlock(s, dl_db_int(s->r, &run, "select run_id from trial where id = ?1", "i", trial)));
    return dl_run_await_end(s, run);
}

/* The run in this store; errors leave the handle as it was. */
static dl_status begin_in(dl_store *s, const dl_run_spec *spec, const surroundings *x, dl_run *r, int64_t trial) {
    const char *then = dl_wait_then(trial ? "the trial fails" : "the run is recorded in another file");
    dl_status st = dl_store_write_lock(s), started = st;
    if (st == DL_OK) st = dl_writer_start(s);
    if (st == DL_OK) st = dl_db_begin(s->w);
    dl_wait_then(then);
    if (started != DL_OK) return st;
    if (st == DL_OK) {
        dl_usage_begin(&r->usage, spec->device);
        st = dl_db_end(s->w, begin_run(s, spec, x, r, trial));
    }
    return dl_store_write_unlock(s, st);
}

/* A store that cannot be written stops no training. What a parent or a sweep is would not be known elsewhere. */
static dl_status begin_elsewhere(const dl_run_spec *spec, surroundings *x, dl_run *r) {
    dl_store *other = dl_store_elsewhere(r->store);
    if (!other) return dl_failed();
    dl_run_spec plain = *spec;
    plain.parent = plain.sweep = 0;
    r->store = other;
    r->id = x->id = r->sources = 0;
    return other->none ? DL_OK : begin_in(other, &plain, x, r, 0);
}

dl_run *dl_run_begin(dl_store *s, const dl_run_spec *spec) {
    static const dl_run_spec nothing;
    if (!s) return dl_fail_null("store"), NULL;
    if (!spec) spec = &nothing;
    dl_store *other = __atomic_load_n(&s->other, __ATOMIC_ACQUIRE);
    if (other) s = other;
    dl_run *r = new_handle(s);
    if (!r || s->none) return r ? enlist(r) : NULL;
    surroundings x = {0};
    dl_status st = gather(spec, &x);
    if (st == DL_OK) x.id = dl_server_run_id(s);
    int64_t trial = dl_trial_join();
    /* the points of a killed attempt must be there before they are deleted */
    if (st == DL_OK && trial) st = await_attempt(s, trial);
    if (st == DL_OK) st = begin_in(s, spec, &x, r, trial);
    if (st != DL_OK && !trial) st = begin_elsewhere(spec, &x, r);
    free(x.cmdline);
    free(x.env);
    free(x.git.diff);
    return st == DL_OK ? enlist(r) : free_handle(r);
}

/* ---------------------------------------------------------------- resume */

/* Did all that is newer than `taken_us` come after the state of `step`? Not if the run went back behind it since. */
static dl_status is_straight(sqlite3 *db, int64_t id, long step, long taken_us, int64_t *yes) {
    *yes = 0;
    if (taken_us <= 0) return DL_OK;
    return dl_db_int(db, yes,
                     "select not exists (select 1 from event where run_id = ?1 and kind = 'resume' and t_us > ?2 and"
                     " step < ?3)",
                     "iii", id, (int64_t)taken_us, (int64_t)step);
}

/* Deletes the points from `step` on and those newer than `taken_us`, recomputes the statistics of their series, and
 * records an event. */
static dl_status delete_points_from(sqlite3 *db, int64_t id, long step, long taken_us) {
    DL_DB_STATEMENT(q);
    int64_t gone = 0, by_time;
    int rc;
    char text[160];
    DL_TRY(is_straight(db, id, step, taken_us, &by_time));
    const int64_t newest = by_time ? taken_us : INT64_MAX;
    /* the use of the machine goes by time, not by steps */
    DL_TRY(dl_db_prepare(
        db, &q, "select id from series where run_id = ?1 and (last_step >= ?2 or ?3) and key not like 'system/%'"));
    DL_TRY(dl_db_bind(q, "iii", id, (int64_t)step, by_time));
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        int64_t series = sqlite3_column_int64(q, 0);
        DL_TRY(dl_db_run(db, "delete from metric where series_id = ?1 and (step >= ?2 or t_us > ?3)", "iii", series,
                         (int64_t)step, newest));
        if (!sqlite3_changes(db)) continue;
        gone += sqlite3_changes(db);
        DL_TRY(dl_series_rebuild(db, series));
    }
    if (rc != SQLITE_DONE) return dl_db_fail(db, "read the store");
    snprintf(text, sizeof text, "resumed at step %ld; %ld points from there on were deleted", step, (long)gone);
    return dl_event_put(db, id, step, "resume", text, NULL);
}

/* What the handle has of its row: the uuid, the device, whose use is recorded, and the active time so far. */
static dl_status take_facts(sqlite3 *db, dl_run *r) {
    DL_DB_STATEMENT(q);
    DL_TRY(dl_db_prepare(db, &q, "select uuid, coalesce(device, ''), active_us, heartbeat_us from run where id = ?1"));
    DL_TRY(dl_db_bind(q, "i", r->id));
    int rc = sqlite3_step(q);
    if (rc == SQLITE_DONE) return dl_run_missing((long)r->id);
    if (rc != SQLITE_ROW) return dl_db_fail(db, "read the store");
    snprintf(r->uuid, sizeof r->uuid, "%s", (const char *)sqlite3_column_text(q, 0));
    dl_usage_begin(&r->usage, (const char *)sqlite3_column_text(q, 1));
    dl_activity_begin(r, sqlite3_column_int64(q, 2));
    /* its times go on from the last one, also where the clock was set back since */
    int64_t behind = sqlite3_column_int64(q, 3) - dl_run_now(r);
    if (behind > 0) r->clock += behind;
    return DL_OK;
}

static dl_status take_over(dl_store *s, dl_run *r, long step, long taken_us) {
    const dl_whoami *me = dl_whoami_self();
    const int64_t id = r->id;
    DL_TRY(take_facts(s->w, r));
    DL_TRY(dl_db_run(s->w,
                     "update run set status = 'running', ended_us = null, error = null, heartbeat_us = ?2, host = ?3,"
                     " boot_id = ?4, pid = ?5, pid_start = ?6, active_since_us = ?7"
                     " where id = ?1 and status not in ('running', 'paused')",
                     "iittiiI", id, dl_run_now(r), me->host, me->boot_id, me->pid, (int64_t)me->pid_start,
                     r->recorded.since_us));
    r->began_at = step;
    if (!sqlite3_changes(s->w)) return dl_fail_hint(DL_ERR_STATE, "end it first", "run %ld is still running", (long)id);
    return delete_points_from(s->w, id, step, taken_us);
}

dl_run *dl_run_resume(dl_store *s, long id, long step, long taken_us) {
    if (!s) return dl_fail_null("store"), NULL;
    if (s->none)
        return dl_fail_hint(DL_ERR_STATE, "start with --db FILE",
                            "nothing is being recorded, so there is no run to resume"),
               NULL;
    dl_run *r = new_handle(s);
    if (!r) return NULL;
    r->id = id;
    /* the points of a killed process must be there before those from `step` on are deleted */
    dl_status st = access(s->path, F_OK) ? dl_run_missing(id) : dl_run_await_end(s, id);
    if (st == DL_OK && (st = dl_store_write_lock(s)) == DL_OK) {
        st = dl_writer_start(s);
        if (st == DL_OK && (st = dl_db_begin(s->w)) == DL_OK) st = dl_db_end(s->w, take_over(s, r, step, taken_us));
        dl_store_write_unlock(s, st);
    }
    return st == DL_OK ? enlist(r) : free_handle(r);
}

dl_status dl_run_rewind(dl_run *r, long step, long taken_us) {
    if (!r) return dl_fail_null("run");
    if (r->store->none) return DL_OK;
    DL_TRY(dl_store_flush(r->store));
    DL_TRY(dl_store_write_lock(r->store));
    dl_status st = dl_db_begin(r->store->w);
    if (st == DL_OK) st = dl_db_end(r->store->w, delete_points_from(r->store->w, r->id, step, taken_us));
    dl_store_write_unlock(r->store, st);
    if (st == DL_OK) dl_live_restart(r, step);
    return st;
}

dl_status dl_run_tensorboard(dl_run *r, const char *folder) {
    if (!r || !folder) return dl_fail_null(r ? "folder" : "run");
    if (r->store->none) return DL_OK;
    DL_TRY(dl_store_flush(r->store));
    DL_TRY(dl_store_write_lock(r->store));
    dl_tensorboard *live = dl_tensorboard_follow(r->store->w, r->id, folder, r->began_at);
    dl_store_write_unlock(r->store, DL_OK);
    if (!live) return dl_failed();
    pthread_mutex_lock(&r->store->runs_lock);
    dl_tensorboard *former = r->live;
    r->live = live;
    pthread_mutex_unlock(&r->store->runs_lock);
    dl_tensorboard_unfollow(former);
    return DL_OK;
}

/* ---------------------------------------------------------------- end */

static dl_status write_end(sqlite3 *db, dl_run *r, dl_run_status status, const char *error) {
    dl_status st = dl_db_begin(db);
    if (st == DL_OK) st = dl_sources_write(db, r->id, &r->sources);
    if (st == DL_OK) st = dl_output_write(db, r->id, &r->output, 1);
    if (st == DL_OK)
        st = dl_db_run(db,
                       "update run set status = ?2, ended_us = ?3, heartbeat_us = ?3, error = ?4, active_us = ?5,"
                       " active_since_us = null where id = ?1",
                       "ititi", r->id, dl_run_status_name(status), dl_run_now(r), error, dl_activity_end(r));
    return dl_db_end(db, st);
}

/* The end where the store cannot be written: it waits behind the points, and the writer has told or will tell why. */
static dl_status leave_end(const dl_run *r, dl_run_status status) {
    dl_ring *ring = &r->store->ring;
    uint64_t at;
    if (!r->store->threaded || (dl_failed() != DL_ERR_STORE && dl_failed() != DL_ERR_INTERRUPT)) return dl_failed();
    dl_error_clear();
    if (!dl_spill_on(ring) && dl_ring_push(ring, DL_RING_END, r->id, status, dl_run_now(r), &at)) return DL_OK;
    return dl_spill_push(ring, DL_RING_END, r->id, status, dl_run_now(r));
}

dl_status dl_run_end(dl_run *r, dl_run_status status, const char *error) {
    if (!r) return dl_fail_null("run");
    dl_store *s = r->store;
    dl_status st = DL_OK, flushed = DL_OK;
    const char *then = dl_wait_then("what was recorded stays in the ring file, for the next one that opens the store");
    if (r->live) flushed = dl_store_flush(s); /* while the writer knows the run */
    delist(r);
    if (!s->none) {
        if (flushed == DL_OK) flushed = dl_store_flush(s);
        st = flushed == DL_OK ? dl_store_write_lock(s) : flushed; /* which has waited in vain already */
        if (st == DL_OK) st = dl_store_write_unlock(s, write_end(s->w, r, status, error));
        if (st != DL_OK) st = flushed = leave_end(r, status);
    }
    dl_wait_then(then);
    free_handle(r);
    return st != DL_OK ? st : flushed;
}

dl_status dl_run_pause(dl_run *r, int on) {
    if (!r) return dl_fail_null("run");
    if (r->store->none) return DL_OK;
    DL_TRY(dl_store_write_lock(r->store));
    dl_status st = dl_db_run(r->store->w, "update run set status = ?2 where id = ?1", "it", r->id,
                             dl_run_status_name(on ? DL_RUN_PAUSED : DL_RUN_RUNNING));
    return finish_change(r->store, st, (long)r->id);
}

/* ---------------------------------------------------------------- additions to an open run */

dl_status dl_run_param(dl_run *r, const char *key, const char *value) {
    if (!r || !key || !value)
        return dl_fail_null(!r ? "run" : !key ? "name of the parameter" : "value of the parameter");
    if (r->store->none) return DL_OK;
    DL_TRY(dl_store_write_lock(r->store));
    return dl_store_write_unlock(r->store, put_param(r->store->w, r->id, key, value));
}

dl_status dl_run_event(dl_run *r, long step, const char *kind, const char *text, const char *json) {
    if (!r || !kind) return dl_fail_null(!r ? "run" : "kind of the event");
    if (r->store->none) return DL_OK;
    DL_TRY(dl_store_write_lock(r->store));
    return dl_store_write_unlock(r->store, dl_event_put(r->store->w, r->id, step, kind, text, json));
}

dl_status dl_run_finding(dl_run *r, const char *kind, const char *text, const char *json) {
    if (!r || !kind || !text) return dl_fail_null(!r ? "run" : !kind ? "kind of the finding" : "text of the finding");
    if (r->store->none) return DL_OK;
    DL_TRY(dl_store_flush(r->store)); /* the steps that are done */
    DL_TRY(dl_store_write_lock(r->store));
    dl_status st = dl_db_run(r->store->w,
                             "insert into event(run_id, step, t_us, kind, text, json) select ?1,"
                             " (select coalesce(max(last_step), 0) + 1 from series where run_id = ?1 and n > 0"
                             " and key not like 'system/%'), ?2, ?3, ?4, ?5"
                             " where not exists (select 1 from event where run_id = ?1 and kind = ?3 and text = ?4)",
                             "iittt", r->id, dl_run_now(r), kind, text, json);
    return dl_store_write_unlock(r->store, st);
}

dl_status dl_run_artifact(dl_run *r, const char *name, long step, const char *kind, const void *data, long n) {
    if (!r || !name || !kind || (n && !data)) return dl_fail_null(!r ? "run" : !data ? "contents" : "name or kind");
    if (n < 0) return dl_fail(DL_ERR_VALUE, "an artifact cannot have %ld bytes", n);
    if (r->store->none) return DL_OK;
    char sha[65];
    dl_sha256_hex(data, (uint64_t)n, sha);
    DL_TRY(dl_store_write_lock(r->store));
    dl_status st = dl_db_begin(r->store->w);
    if (st == DL_OK) {
        st = dl_artifact_put(r->store->w, r->id, name, step, kind, sha, data, n);
        st = dl_db_end(r->store->w, st);
    }
    return dl_store_write_unlock(r->store, st);
}

dl_status dl_run_artifact_file(dl_run *r, const char *name, long step, const char *kind, const char *path) {
    if (!r || !name || !kind || !path) return dl_fail_null(!r ? "run" : !path ? "path" : "name or kind");
    if (r->store->none) return DL_OK;
    char sha[65], full[PATH_MAX];
    int64_t bytes = 0;
    DL_TRY(dl_sha256_file(path, sha, &bytes));
    if (!realpath(path, full)) snprintf(full, sizeof full, "%s", path);
    DL_TRY(dl_store_write_lock(r->store));
    return dl_store_write_unlock(r->store, put_artifact(r->store->w, r->id, name, step, kind, sha, bytes, full));
}

dl_status dl_artifact_sha(const char *path, char out[65]) {
    int64_t bytes;
    return path ? dl_sha256_file(path, out, &bytes) : dl_fail_null("path");
}

/* ---------------------------------------------------------------- changes of any run */

dl_status dl_run_tag(dl_store *s, long id, const char *tag, int on) {
    if (!tag || !*tag) return dl_fail(DL_ERR_VALUE, "a tag needs a name");
    DL_TRY(begin_change(s, id));
    dl_status st = check_exists(s->w, id);
    if (st == DL_OK)
        st = dl_db_run(s->w,
                       on ? "insert or ignore into tag(run_id, tag) values(?1, ?2)"
                          : "delete from tag where run_id = ?1 and tag = ?2",
                       "it", (int64_t)id, tag);
    return dl_store_write_unlock(s, st);
}

dl_status dl_run_note(dl_store *s, long id, const char *text) {
    DL_TRY(begin_change(s, id));
    return finish_change(
        s, dl_db_run(s->w, "update run set note = ?2 where id = ?1", "it", (int64_t)id, text_or_null(text)), id);
}

dl_status dl_run_rename(dl_store *s, long id, const char *name) {
    if (!name || !*name) return dl_fail(DL_ERR_VALUE, "a run needs a name");
    DL_TRY(begin_change(s, id));
    return finish_change(s, dl_db_run(s->w, "update run set name = ?2 where id = ?1", "it", (int64_t)id, name), id);
}

dl_status dl_run_delete(dl_store *s, long id, int on) {
    DL_TRY(begin_change(s, id));
    return finish_change(s,
                         dl_db_run(s->w, "update run set deleted_us = ?2 where id = ?1", "iI", (int64_t)id,
                                   on ? dl_now_us() : (int64_t)0),
                         id);
}
