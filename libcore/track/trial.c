/* Trials of sweeps: claimed, run, ended. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/list.h"
#include "track/sweep.h"

enum { MOST_ATTEMPTS = 10 };

/* ---------------------------------------------------------------- this process as a trial */

long dl_trial_limit = LONG_MAX;
static struct {
    int64_t sweep, join;
    int paused;
} current;

void dl_trial_enter(const dl_trial *t) {
    current.sweep = t->sweep, current.join = t->id, current.paused = 0;
    __atomic_store_n(&dl_trial_limit, t->steps ? t->steps : LONG_MAX, __ATOMIC_RELAXED);
}

int dl_trial_paused(void) { return __atomic_load_n(&current.paused, __ATOMIC_RELAXED); }

dl_status dl_trial_pause(void) {
    __atomic_store_n(&current.paused, 1, __ATOMIC_RELAXED);
    dl_interrupt_set(1);
    return DL_OK;
}

int64_t dl_trial_sweep(void) { return current.sweep; }
int64_t dl_trial_join(void) { return __atomic_exchange_n(&current.join, 0, __ATOMIC_RELAXED); }

/* ---------------------------------------------------------------- what a trial is worth */

/* The series of the metric: by its name, else below train, test or another word; without a name a loss. */
static const char value_sql[] =
    "select case ?3 when 'last' then last when 'first' then first when 'mean' then sum / (n - n_nan)"
    " when 'min' then min when 'max' then max else case when ?4 > 0 then max else min end end"
    " from series where run_id = ?1 and n > n_nan and case when ?2 = '' then key in ('val/loss', 'test/loss', "
    "'train/loss')"
    " else key = ?2 or substr(key, -length(?2) - 1) = '/' || ?2 end"
    " order by key <> ?2, case when ?2 = '' then key <> 'val/loss' else key <> 'train/' || ?2 end, key <> 'test/' ||"
    " case when ?2 = '' then 'loss' else ?2 end, key limit 1";

/* NaN: the run has no such metric, or nothing but NaN. */
static dl_status value_of(sqlite3 *db, const dl_sweep *w, int64_t run, double *value) {
    DL_DB_STATEMENT(q);
    *value = NAN;
    DL_TRY(dl_db_prepare(db, &q, value_sql));
    DL_TRY(dl_db_bind(q, "itti", run, w->metric, w->stat, (int64_t)w->direction));
    int rc = sqlite3_step(q);
    if (rc == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL) *value = sqlite3_column_double(q, 0);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? DL_OK : dl_db_fail(db, "read the store");
}

/* ---------------------------------------------------------------- one change, one transaction */

typedef dl_status change(sqlite3 *db, void *ctx);

static dl_status transact(dl_store *s, change *fn, void *ctx) {
    DL_TRY(dl_store_write_lock(s));
    dl_status st = dl_db_begin(s->w);
    if (st == DL_OK) st = dl_db_end(s->w, fn(s->w, ctx));
    return dl_store_write_unlock(s, st);
}

/* ---------------------------------------------------------------- claiming */

static dl_status give_back(sqlite3 *db, int64_t id) {
    DL_TRY(
        dl_db_run(db,
                  "update trial set status = 'failed', ended_us = ?2, error = 'its process was killed ' || attempts ||"
                  " ' times' where id = ?1 and attempts >= ?3",
                  "iii", id, dl_now_us(), (int64_t)MOST_ATTEMPTS));
    return dl_db_run(db, "update trial set status = 'waiting', pid = null where id = ?1 and attempts < ?2", "ii", id,
                     (int64_t)MOST_ATTEMPTS);
}

static dl_status give_back_dead(sqlite3 *db, int64_t sweep) {
    DL_DB_STATEMENT(q);
    int64_t *dead = NULL;
    long n = 0, cap = 0;
    dl_status st = DL_OK;
    DL_TRY(dl_db_prepare(
        db, &q,
        "select id, host, boot_id, pid, pid_start, heartbeat_us from trial where sweep_id = ?1 and status ="
        " 'running'"));
    DL_TRY(dl_db_bind(q, "i", sweep));
    while (st == DL_OK && sqlite3_step(q) == SQLITE_ROW) {
        dl_whoami who = {.pid = sqlite3_column_int64(q, 3), .pid_start = (uint64_t)sqlite3_column_int64(q, 4)};
        snprintf(who.host, sizeof who.host, "%s", (const char *)sqlite3_column_text(q, 1));
        snprintf(who.boot_id, sizeof who.boot_id, "%s", (const char *)sqlite3_column_text(q, 2));
        if (!dl_run_is_dead(&who, sqlite3_column_int64(q, 5))) continue;
        if ((st = DL_LIST_ROOM(dead, n, cap)) == DL_OK) dead[n++] = sqlite3_column_int64(q, 0);
    }
    for (long i = 0; i < n && st == DL_OK; i++) st = give_back(db, dead[i]);
    free(dead);
    return st;
}

/* The next point of tpe, from the trials that have ended: those that failed are the worst. */
static dl_status suggest(sqlite3 *db, const dl_sweep *w, int64_t index) {
    DL_DB_STATEMENT(q);
    dl_tried *tried = NULL;
    long n = 0, cap = 0;
    double point[DL_SWEEP_DIMS];
    dl_status st = DL_OK;
    DL_TRY(dl_db_prepare(db, &q,
                         "select point, value from trial where sweep_id = ?1 and status in ('finished', 'failed')"
                         " order by number"));
    DL_TRY(dl_db_bind(q, "i", w->id));
    while (st == DL_OK && sqlite3_step(q) == SQLITE_ROW) {
        if ((st = DL_LIST_ROOM(tried, n, cap)) != DL_OK) break;
        tried[n] = (dl_tried){
            .worth = sqlite3_column_type(q, 1) == SQLITE_NULL ? NAN : w->direction * sqlite3_column_double(q, 1)};
        dl_sweep_numbers((const char *)sqlite3_column_text(q, 0), tried[n++].point, DL_SWEEP_DIMS);
    }
    dl_tpe_suggest(w->dims, w->ndim, tried, n, (uint64_t)w->seed * 0x2545f4914f6cdd1du + (uint64_t)index, point);
    free(tried);
    return st == DL_OK ? dl_sweep_add_point(db, w, index, point) : st;
}

static dl_status find_waiting(sqlite3 *db, const dl_sweep *w, int64_t *id) {
    static const char first[] =
        "select id from trial where sweep_id = ?1 and status = 'waiting' order by number limit 1";
    int64_t have = 0, each = w->nseed ? w->nseed : 1;
    *id = 0;
    DL_TRY(dl_db_int(db, id, first, "i", w->id));
    if (*id) return DL_OK;
    DL_TRY(dl_db_int(db, &have, "select count(*) from trial where sweep_id = ?1", "i", w->id));
    if (!strcmp(w->method, "tpe") && have < w->points * each) {
        DL_TRY(suggest(db, w, have / each));
        return dl_db_int(db, id, first, "i", w->id);
    }
    return w->max_steps ? dl_rung_promote(db, w, id) : DL_OK;
}

static dl_status own(sqlite3 *db, int64_t id) {
    const dl_whoami *me = dl_whoami_self();
    return dl_db_run(
        db,
        "update trial set status = 'running', host = ?2, boot_id = ?3, pid = ?4, pid_start = ?5, heartbeat_us ="
        " ?6, started_us = ?6, ended_us = null, error = null where id = ?1",
        "ittiii", id, me->host, me->boot_id, me->pid, (int64_t)me->pid_start, dl_now_us());
}

static dl_status read_trial(sqlite3 *db, int64_t id, dl_trial *out) {
    DL_DB_STATEMENT(q);
    dl_sweep w;
    DL_TRY(dl_db_prepare(db, &q, "select sweep_id, number, seed, run_id, rung, point from trial where id = ?1"));
    DL_TRY(dl_db_bind(q, "i", id));
    if (sqlite3_step(q) != SQLITE_ROW) return dl_fail(DL_ERR_NAME, "there is no trial %ld", (long)id);
    *out = (dl_trial){.id = (long)id,
                      .sweep = (long)sqlite3_column_int64(q, 0),
                      .number = (long)sqlite3_column_int64(q, 1),
                      .seeded = sqlite3_column_type(q, 2) != SQLITE_NULL,
                      .seed = (long)sqlite3_column_int64(q, 2),
                      .run = (long)sqlite3_column_int64(q, 3)};
    DL_TRY(dl_sweep_load(db, out->sweep, &w));
    out->ndim = dl_sweep_numbers((const char *)sqlite3_column_text(q, 5), out->point, DL_SWEEP_DIMS);
    out->steps = (long)dl_rung_steps(&w, sqlite3_column_int(q, 4));
    return DL_OK;
}

typedef struct claiming {
    int64_t sweep;
    dl_trial *out;
    dl_claim claim;
} claiming;

static dl_status claim_in(sqlite3 *db, void *ctx) {
    claiming *c = ctx;
    dl_sweep w;
    int64_t id = 0, running = 0;
    DL_TRY(dl_sweep_load(db, c->sweep, &w));
    DL_TRY(give_back_dead(db, w.id));
    DL_TRY(find_waiting(db, &w, &id));
    if (id) {
        c->claim = DL_CLAIM_GOT;
        DL_TRY(dl_db_run(db, "update trial set attempts = attempts + 1 where id = ?1", "i", id));
        DL_TRY(own(db, id));
        return read_trial(db, id, c->out);
    }
    DL_TRY(dl_db_int(db, &running, "select count(*) from trial where sweep_id = ?1 and status = 'running'", "i", w.id));
    c->claim = running ? DL_CLAIM_WAIT : DL_CLAIM_DONE;
    if (running) return DL_OK;
    return dl_db_run(db, "update trial set status = 'stopped' where sweep_id = ?1 and status = 'paused'", "i", w.id);
}

dl_status dl_trial_claim(dl_store *s, long sweep, dl_trial *out, dl_claim *claim) {
    if (!out || !claim) return dl_fail_null("place of the trial");
    claiming c = {sweep, out, DL_CLAIM_DONE};
    DL_TRY(transact(s, claim_in, &c));
    *claim = c.claim;
    return DL_OK;
}

typedef struct taking {
    int64_t id;
    dl_trial *out;
} taking;

static dl_status take_in(sqlite3 *db, void *ctx) {
    const taking *t = ctx;
    int64_t mine = 0;
    DL_TRY(dl_db_int(db, &mine, "select 1 from trial where id = ?1 and status = 'running' and host = ?2 and pid = ?3",
                     "iti", t->id, dl_whoami_self()->host, (int64_t)getppid()));
    if (!mine)
        return dl_fail_hint(DL_ERR_STATE, "sweep worker ID claims trials", "trial %ld is not this process's",
                            (long)t->id);
    DL_TRY(own(db, t->id));
    return read_trial(db, t->id, t->out);
}

dl_status dl_trial_take(dl_store *s, long id, dl_trial *out) {
    if (!out) return dl_fail_null("place of the trial");
    return transact(s, take_in, &(taking){id, out});
}

dl_status dl_trial_describe(dl_store *s, long id, const char *json) {
    DL_TRY(dl_store_write_lock(s));
    return dl_store_write_unlock(
        s, dl_db_run(s->w, "update trial set params = ?2 where id = ?1", "it", (int64_t)id, json));
}

dl_status dl_trial_beat(dl_store *s, long id) {
    DL_TRY(dl_store_write_lock(s));
    return dl_store_write_unlock(
        s, dl_db_run(s->w, "update trial set heartbeat_us = ?2 where id = ?1", "ii", (int64_t)id, dl_now_us()));
}

/* ---------------------------------------------------------------- the end */

typedef struct ending {
    int64_t id, pid;
    dl_trial_end_kind how;
    const char *error;
} ending;

/* Records what a trial reached: a pause at the end of its round, or the end, which counts for all rounds that follow.
 */
static dl_status reach(sqlite3 *db, const dl_sweep *w, const ending *e, int64_t run, int64_t rung) {
    double value;
    DL_TRY(value_of(db, w, run, &value));
    if (isnan(value) && (*w->metric || strcmp(w->method, "grid"))) {
        char why[400];
        snprintf(why, sizeof why, run ? "its run has no metric %.300s" : "it began no run",
                 *w->metric ? w->metric : "loss");
        return dl_db_run(db, "update trial set status = 'failed', error = ?2, ended_us = ?3 where id = ?1", "iti",
                         e->id, why, dl_now_us());
    }
    int paused = e->how == DL_TRIAL_PAUSED;
    for (int r = (int)rung; dl_rung_steps(w, r); r++) {
        DL_TRY(dl_db_run(db, "insert or replace into rung(trial_id, rung, value) values(?1, ?2, ?3)", "iid", e->id,
                         (int64_t)r, value));
        if (paused) break;
    }
    if (paused && run)
        DL_TRY(dl_db_run(db, "update run set status = 'finished', error = null where id = ?1", "i", run));
    return dl_db_run(db, "update trial set status = ?2, value = ?3, ended_us = ?4 where id = ?1", "itdi", e->id,
                     paused ? "paused" : "finished", value, dl_now_us());
}

static dl_status end_in(sqlite3 *db, void *ctx) {
    const ending *e = ctx;
    dl_sweep w;
    int64_t sweep = 0, run = 0, rung = 0;
    DL_TRY(dl_db_int(db, &sweep, "select sweep_id from trial where id = ?1 and status = 'running' and pid = ?2", "ii",
                     e->id, e->pid));
    if (!sweep) return DL_OK; /* it has ended, or is another's by now */
    DL_TRY(dl_sweep_load(db, sweep, &w));
    DL_TRY(dl_db_int(db, &run, "select run_id from trial where id = ?1", "i", e->id));
    DL_TRY(dl_db_int(db, &rung, "select rung from trial where id = ?1", "i", e->id));
    if (e->how == DL_TRIAL_GIVEN_BACK) {
        if (run)
            DL_TRY(dl_db_run(db, "update run set status = 'killed' where id = ?1 and status = 'failed'", "i", run));
        DL_TRY(dl_db_run(db, "update trial set attempts = attempts - 1 where id = ?1 and ?2 = 0", "ii", e->id,
                         (int64_t)(e->error != NULL)));
        return give_back(db, e->id);
    }
    if (e->how != DL_TRIAL_FAILED) return reach(db, &w, e, run, rung);
    return dl_db_run(db, "update trial set status = 'failed', error = ?2, ended_us = ?3 where id = ?1", "iti", e->id,
                     e->error, dl_now_us());
}

dl_status dl_trial_end(dl_store *s, long id, dl_trial_end_kind how, const char *error) {
    return transact(s, end_in, &(ending){id, (int64_t)getpid(), how, error});
}

dl_status dl_trial_lost(dl_store *s, long id, long pid, const char *crash) {
    return transact(s, end_in,
                    &(ending){id, pid, crash ? DL_TRIAL_FAILED : DL_TRIAL_GIVEN_BACK, crash ? crash : "killed"});
}
