/* The active time of runs: how long their process worked while they were open. A row of `run` holds it as of some
 * moment, and since when it grows: readers reckon from that, and the writer puts it right when they would be wrong. */
#include "core/active.h"
#include "track/store.h"

enum { DRIFT_US = 100000 /* by which the time of a row may be wrong */ };

static dl_activity now_of(const dl_run *r) {
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
    r->told = now_of(r);
}

int64_t dl_activity_end(const dl_run *r) { return now_of(r).us; }

dl_activity dl_activity_tell(dl_run *r) { return r->told = now_of(r); }

int dl_activity_drifted(dl_store *s) {
    int64_t now = dl_now_us();
    int far = 0;
    pthread_mutex_lock(&s->runs_lock);
    for (const dl_run *r = s->runs; r && !far; r = r->next) {
        int64_t off = dl_activity_at(&r->told, now) - now_of(r).us;
        far = off > DRIFT_US || off < -DRIFT_US;
    }
    pthread_mutex_unlock(&s->runs_lock);
    return far;
}
