/* Runs whose points go to TensorBoard's files as they are committed. */
#include "track/exchange/tensorboard.h"
#include "track/store.h"

int dl_live_any(dl_store *s) {
    int any = 0;
    pthread_mutex_lock(&s->runs_lock);
    for (dl_run *r = s->runs; r && !any; r = r->next) any = r->live != NULL;
    pthread_mutex_unlock(&s->runs_lock);
    return any;
}

/* The store has the points: only what TensorBoard sees ends here. Under runs_lock. */
static void settle(dl_run *r, dl_status st) {
    dl_error e;
    if (st == DL_OK) return;
    dl_error_take(&e);
    dl_store_warn(r->store, "TensorBoard sees no more of run %ld: %.300s; export FOLDER/ writes all points",
                  (long)r->id, e.message);
    dl_tensorboard_unfollow(r->live);
    r->live = NULL;
}

void dl_live_write(dl_store *s, const dl_ring_record *batch, uint64_t n) {
    pthread_mutex_lock(&s->runs_lock);
    for (dl_run *r = s->runs; r; r = r->next) {
        if (!r->live) continue;
        pthread_mutex_lock(&s->nlock);
        dl_status st = dl_tensorboard_append(r->live, r->id, &s->inserter, batch, n);
        pthread_mutex_unlock(&s->nlock);
        settle(r, st);
    }
    pthread_mutex_unlock(&s->runs_lock);
}

void dl_live_restart(dl_run *r, int64_t step) {
    pthread_mutex_lock(&r->store->runs_lock);
    if (r->live) settle(r, dl_tensorboard_restart(r->live, step));
    pthread_mutex_unlock(&r->store->runs_lock);
}
