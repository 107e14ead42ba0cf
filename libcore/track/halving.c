/* Successive halving: in each round the best of the trials go on. */
#include <math.h>
#include "track/sweep.h"

int64_t dl_rung_steps(const dl_sweep *w, int rung) {
    if (!w->max_steps) return 0;
    double steps = (double)w->min_steps;
    for (int i = 0; i < rung; i++) steps = ceil(steps * w->eta);
    return steps < (double)w->max_steps ? (int64_t)steps : 0;
}

/* A round, and what is known of it. */
typedef struct stage {
    int rung, closed; /* closed: no trial can still come to its end */
    int64_t quota, done;
} stage;

static dl_status survey(sqlite3 *db, const dl_sweep *w, const stage *before, int64_t trials, stage *r) {
    int64_t under_way = 0, passed = 0;
    DL_TRY(
        dl_db_int(db, &under_way,
                  "select count(*) from trial where sweep_id = ?1 and status in ('waiting', 'running') and rung <= ?2",
                  "ii", w->id, (int64_t)r->rung));
    DL_TRY(
        dl_db_int(db, &r->done,
                  "select count(*) from rung join trial on trial.id = trial_id where sweep_id = ?1 and rung.rung = ?2",
                  "ii", w->id, (int64_t)r->rung));
    /* those that the round before sends here */
    if (before)
        DL_TRY(dl_db_int(db, &passed, "select count(*) from trial where sweep_id = ?1 and rung > ?2", "ii", w->id,
                         (int64_t)before->rung));
    int64_t fit = before && before->done < before->quota ? before->done : before ? before->quota : 0;
    r->closed = !under_way && (!before || (before->closed && passed >= fit));
    r->quota = (int64_t)((double)trials / pow(w->eta, r->rung + 1));
    if (r->quota < 1) r->quota = 1;
    return DL_OK;
}

/* The first of the best `most` of a round that has not gone on. */
static dl_status next_of(sqlite3 *db, const dl_sweep *w, int rung, int64_t most, int64_t *id) {
    return dl_db_int(db, id,
                     w->direction > 0
                         ? "select id from (select t.id, t.status, t.rung, t.number from rung as r join trial as t"
                           " on t.id = r.trial_id where t.sweep_id = ?1 and r.rung = ?2 order by r.value is"
                           " null, r.value desc, t.number limit ?3) where status = 'paused' and rung = ?2 limit 1"
                         : "select id from (select t.id, t.status, t.rung, t.number from rung as r join trial as t"
                           " on t.id = r.trial_id where t.sweep_id = ?1 and r.rung = ?2 order by r.value is"
                           " null, r.value, t.number limit ?3) where status = 'paused' and rung = ?2 limit 1",
                     "iii", w->id, (int64_t)rung, most);
}

dl_status dl_rung_promote(sqlite3 *db, const dl_sweep *w, int64_t *id) {
    enum { MOST = 64 };
    stage r[MOST];
    int n = 0;
    int64_t trials = 0;
    *id = 0;
    DL_TRY(dl_db_int(db, &trials, "select count(*) from trial where sweep_id = ?1", "i", w->id));
    for (; n < MOST && dl_rung_steps(w, n); n++) {
        r[n] = (stage){.rung = n};
        DL_TRY(survey(db, w, n ? &r[n - 1] : NULL, trials, &r[n]));
    }
    for (int i = 0; i < n && !*id; i++)
        if (r[i].closed) DL_TRY(next_of(db, w, i, r[i].quota, id));
    /* asha does not wait for the slowest: what is among the best so far goes on */
    for (int i = 0; i < n && !*id && w->method[0] == 'a'; i++) {
        int64_t most = (int64_t)((double)r[i].done / w->eta);
        if (!r[i].closed) DL_TRY(next_of(db, w, i, most < r[i].quota ? most : r[i].quota, id));
    }
    if (!*id) return DL_OK;
    return dl_db_run(db, "update trial set rung = rung + 1, status = 'waiting' where id = ?1", "i", *id);
}
