/* Active time of runs: how long their process worked while they were open. A row of `run` holds the time at a moment
 * and, while it grows, that moment: readers extrapolate, and the writer updates rows from which they would be wrong. */
#include "core/active.h"
#include "track/store.h"

enum { DRIFT_US = 100000 /* largest error of a time read from a row */ };

static dl_activity current(const dl_run *r) {
    int idle;
    dl_activity a = {.us = dl_active_us(&idle) - r->active_from};
    if (!idle) a.since_us = dl_now_us();
    return a;
}

int64_t dl_activity_at(const dl_activity *a, int64_t now) {
    return a->us + (a->since_us && now > a->since_us ? now - a->since_us : 0);
}

void dl_activity_begin(dl_run *r, int64_t before) {
    r->active_from = dl_active_us(NULL) - before;
    r->recorded = current(r);
}

int64_t dl_activity_end(const dl_run *r) { return current(r).us; }

dl_activity dl_activity_renew(dl_run *r) { return r->recorded = current(r); }

int dl_activity_drifted(dl_store *s) {
    int64_t now = dl_now_us();
    int far = 0;
    pthread_mutex_lock(&s->runs_lock);
    for (const dl_run *r = s->runs; r && !far; r = r->next) {
        int64_t off = dl_activity_at(&r->recorded, now) - current(r).us;
        far = off > DRIFT_US || off < -DRIFT_US;
    }
    pthread_mutex_unlock(&s->runs_lock);
    return far;
}
