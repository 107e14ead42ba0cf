/* Pushing points into the ring, and the writer thread, which commits them and writes heartbeats. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "core/interrupt.h"
#include "track/store.h"
#include "track/sweep.h"

/* ---------------------------------------------------------------- pushing */

void dl_writer_wake(dl_store *s) {
    pthread_mutex_lock(&s->wake_lock);
    s->wanted = 1;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->wake_lock);
}

/* Neither ring nor spill takes it, of which the error tells. */
static dl_status drop_point(dl_store *s) {
    dl_error why;
    dl_error_take(&why);
    __atomic_fetch_add(&s->dropped, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&s->wake_lock);
    int first = !s->warned_full;
    s->warned_full = 1;
    pthread_mutex_unlock(&s->wake_lock);
    if (first)
        dl_store_warn(s, "points are being dropped: %.60s takes none, the ring is full, and %.300s", s->path,
                      why.message);
    return dl_fail_hint(DL_ERR_STORE, "push less often, or remove the cause",
                        "the ring is full, a point was dropped: %s", why.message);
}

bool dl_writer_is_locked(const dl_store *s, int64_t now) {
    const int64_t since = __atomic_load_n(&s->locked_us, __ATOMIC_RELAXED);
    return since && now - since >= DL_LOCK_WAIT_MS * 1000L;
}

/* Says once, until all is committed, where points are. */
static void say_where(dl_store *s) {
    const char *guess = dl_writer_is_locked(s, dl_steady_us())
                            ? "another process holds its lock, fuser FILE shows which"
                            : "the disk or the machine is slow";
    pthread_mutex_lock(&s->wake_lock);
    int first = !s->said;
    char trouble[sizeof s->trouble];
    snprintf(trouble, sizeof trouble, "%s", s->trouble);
    s->said = 1;
    pthread_mutex_unlock(&s->wake_lock);
    if (first)
        dl_store_warn(s, "%.100s takes no points (%.200s): they wait in %.150s and are committed as soon as it does",
                      s->path, *trouble ? trouble : guess, dl_spill_path(&s->ring));
}

static dl_status spill(dl_store *s, const dl_series *series, int64_t step, double value, int64_t t_us) {
    int further = dl_spill_on(&s->ring);
    if (dl_spill_push(&s->ring, series->index, step, value, t_us) != DL_OK) return drop_point(s);
    if (!further) say_where(s);
    return DL_OK;
}

/* How a push waited, said the first time. */
static void count_wait(dl_store *s, int64_t us) {
    pthread_mutex_lock(&s->wake_lock);
    int first = !s->waits++;
    pthread_mutex_unlock(&s->wake_lock);
    __atomic_fetch_add(&s->wait_us, us, __ATOMIC_RELAXED);
    if (first) dl_store_warn(s, "points come faster than the disk takes them: training waits for it");
}

/* The ring is full, or was and what came after it is not committed: waits for room while the writer makes progress,
 * else the point goes to the spill. */
static dl_status push_late(dl_store *s, const dl_series *series, int64_t step, double value, int64_t t_us) {
    dl_ring *r = &s->ring;
    uint64_t at, seen = dl_ring_committed(r);
    int64_t begin = dl_steady_us(), now = begin, moved = begin; /* moved: when the writer last made progress */
    int pushed = 0;
    for (;;) {
        int spills = dl_spill_on(r);
        if (!spills && (pushed = dl_ring_push(r, series->index, step, value, t_us, &at))) break;
        if (__atomic_load_n(&s->troubled, __ATOMIC_RELAXED) || (spills && dl_spill_left(r) < DL_SPILL_EASY)) break;
        if (dl_writer_is_locked(s, now) || now - moved >= DL_FULL_WAIT_MS * 1000L) break;
        if (now == begin) dl_writer_wake(s);
        usleep(500);
        now = dl_steady_us();
        if (dl_ring_committed(r) != seen) seen = dl_ring_committed(r), moved = now;
    }
    if (pushed && now > begin) count_wait(s, now - begin);
    return pushed ? DL_OK : spill(s, series, step, value, t_us);
}

dl_status dl_series_push(dl_series *series, long step, double value) {
    if (!series) return dl_fail_null("series");
    dl_store *s = series->run->store;
    if (s->none) return DL_OK;
    if (__builtin_expect(step > dl_trial_limit, 0)) return dl_trial_pause();
    uint64_t at;
    int64_t now = dl_run_now(series->run);
    if (dl_spill_on(&s->ring) || !dl_ring_push(&s->ring, series->index, step, value, now, &at))
        return push_late(s, series, step, value, now);
    if (!(at & (DL_WAKE_EVERY - 1)) && at) dl_writer_wake(s);
    return DL_OK;
}

dl_status dl_series_push_at_once(dl_series *x, long step, double value) {
    dl_store *s = x->run->store;
    uint64_t at;
    int64_t now = dl_run_now(x->run);
    if (!dl_spill_on(&s->ring) && dl_ring_push(&s->ring, x->index, step, value, now, &at)) return DL_OK;
    return spill(s, x, step, value, now);
}

static unsigned bucket_of(const char *key) { return (unsigned)(dl_hash(key, (long)strlen(key)) % DL_SERIES_BUCKETS); }

static dl_series *look_up(dl_run *r, const char *key, unsigned bucket) {
    for (dl_series *x = __atomic_load_n(&r->buckets[bucket], __ATOMIC_ACQUIRE); x; x = x->next)
        if (!strcmp(x->key, key)) return x;
    return NULL;
}

/* "loss" is short for "train/loss". */
static const char *full_name(const char *key) { return strcmp(key, "loss") ? key : "train/loss"; }

static dl_status name_series(dl_store *s, dl_series *x, int64_t run, const char *key) {
    if (s->none) return DL_OK;
    pthread_mutex_lock(&s->nlock);
    x->index = s->inserter.nname;
    dl_status st = dl_ring_add_name(&s->ring, x->index, run, key);
    if (st == DL_OK) st = dl_inserter_name(&s->inserter, x->index, run, key);
    pthread_mutex_unlock(&s->nlock);
    return st;
}

static dl_series *add_series(dl_run *r, const char *key, unsigned bucket) {
    const char *full = full_name(key);
    dl_series *twin = full == key ? NULL : dl_series_of(r, full);
    if (full != key && !twin) return NULL;
    pthread_mutex_lock(&r->lock);
    dl_series *x = look_up(r, key, bucket); /* another thread may have been faster */
    if (!x && (x = malloc(sizeof *x + strlen(key) + 1))) {
        *x = (dl_series){.run = r, .next = r->buckets[bucket], .index = twin ? twin->index : 0};
        strcpy(x->key, key);
        if (!twin && name_series(r->store, x, r->id, key) != DL_OK) {
            free(x);
            x = NULL;
        } else {
            __atomic_store_n(&r->buckets[bucket], x, __ATOMIC_RELEASE);
        }
    } else if (!x) {
        dl_fail(DL_ERR_MEMORY, "no memory for a series");
    }
    pthread_mutex_unlock(&r->lock);
    return x;
}

dl_series *dl_series_of(dl_run *r, const char *key) {
    if (!r || !key) return dl_fail_null(r ? "name of the metric" : "run"), NULL;
    unsigned bucket = bucket_of(key);
    dl_series *x = look_up(r, key, bucket);
    if (x) return x;
    if (!*key || strlen(key) > DL_RING_KEY_MAX)
        return dl_fail(DL_ERR_VALUE, "the name of a metric has 1 to %d bytes", DL_RING_KEY_MAX), NULL;
    return add_series(r, key, bucket);
}

dl_status dl_metric(dl_run *r, const char *key, long step, double value) {
    dl_series *x = dl_series_of(r, key);
    return x ? dl_series_push(x, step, value) : dl_failed();
}

/* ---------------------------------------------------------------- the thread */

/* The oldest points, in the order in which they came; *spilled: they are of the spill. */
static dl_status next_batch(dl_store *s, dl_ring_record *batch, uint64_t *n, int *spilled) {
    uint64_t most = *n;
    *n = dl_ring_peek(&s->ring, batch, most);
    *spilled = !*n && dl_spill_on(&s->ring);
    if (!*spilled) return DL_OK;
    *n = most;
    return dl_spill_peek(&s->ring, batch, n);
}

/* Records what the open runs use of the machine. */
static void look_at_usage(void *store) {
    dl_store *s = store;
    pthread_mutex_lock(&s->runs_lock);
    for (dl_run *r = s->runs; r; r = r->next)
        if (dl_usage_due(&r->usage)) dl_usage_record(r);
    pthread_mutex_unlock(&s->runs_lock);
}

/* The writing connection, for the writer. While it waits, none of the locks is held that looking after runs takes. */
static dl_status lock(dl_store *s) {
    dl_wait_meanwhile(look_at_usage, s);
    dl_status st = dl_store_write_lock(s);
    dl_wait_meanwhile(NULL, NULL);
    return st;
}

/* A transaction of the writer; pushes see how long it waits for the lock. */
static dl_status begin(dl_store *s) {
    __atomic_store_n(&s->locked_us, dl_steady_us(), __ATOMIC_RELAXED);
    dl_wait_meanwhile(look_at_usage, s);
    dl_status st = dl_db_begin(s->w);
    dl_wait_meanwhile(NULL, NULL);
    __atomic_store_n(&s->locked_us, 0, __ATOMIC_RELAXED);
    return st;
}

static dl_status add_batch(dl_store *s, dl_ring_record *batch, uint64_t n) {
    int64_t lost = 0;
    s->inserter.db = s->w;
    DL_TRY(begin(s));
    pthread_mutex_lock(&s->nlock);
    dl_status st = dl_inserter_add(&s->inserter, batch, n, &lost);
    pthread_mutex_unlock(&s->nlock);
    return dl_db_end(s->w, st);
}

/* Commits one batch. *n is the number of points taken. */
static dl_status commit_batch(dl_store *s, dl_ring_record *batch, uint64_t *n) {
    int spilled;
    *n = DL_BATCH;
    DL_TRY(next_batch(s, batch, n, &spilled));
    if (!*n) return DL_OK;
    dl_status st = lock(s);
    if (st != DL_OK) return st;
    st = add_batch(s, batch, *n);
    if (st == DL_OK) {
        /* as they came: adding them has sorted the batch */
        uint64_t again = *n;
        if (dl_live_any(s) && next_batch(s, batch, &again, &spilled) == DL_OK) dl_live_write(s, batch, again);
        if (spilled)
            dl_spill_advance(&s->ring, *n);
        else
            dl_ring_advance(&s->ring, *n);
        __atomic_fetch_add(&s->committed, (long)*n, __ATOMIC_RELAXED);
        /* with few points a page is read again rather than cached, so that a long training does not grow */
        if (*n < DL_BATCH / 8) sqlite3_db_release_memory(s->w);
    } else {
        pthread_mutex_lock(&s->nlock);
        dl_inserter_forget(&s->inserter);
        pthread_mutex_unlock(&s->nlock);
    }
    return dl_store_write_unlock(s, st);
}

static int more_waits(dl_store *s, uint64_t n) { return n == DL_BATCH || (n && dl_spill_on(&s->ring)); }

/* Do open runs lack a source that was read since they began, or what was printed? */
static int look_after_runs(dl_store *s, int64_t next_output) {
    long n = dl_sources_count();
    int64_t now = dl_steady_us();
    int wait = 0;
    pthread_mutex_lock(&s->runs_lock);
    for (const dl_run *r = s->runs; r; r = r->next)
        wait |= r->sources < n || dl_output_waits(&r->output, now < next_output);
    pthread_mutex_unlock(&s->runs_lock);
    return wait;
}

/* Writes heartbeat, active time, new sources and output of the open runs. Undoes `killed`, which another host may have
 * written while this one slept. */
static dl_status write_heartbeats(dl_store *s) {
    dl_status st = DL_OK;
    int64_t now = dl_now_us();
    pthread_mutex_lock(&s->runs_lock);
    const int none = !s->runs;
    pthread_mutex_unlock(&s->runs_lock);
    if (none) return DL_OK;
    DL_TRY(lock(s));
    st = begin(s);
    pthread_mutex_lock(&s->runs_lock);
    for (dl_run *r = s->runs; r && st == DL_OK; r = r->next) {
        dl_activity a = dl_activity_renew(r);
        st = dl_db_run(s->w,
                       "update run set heartbeat_us = ?2, active_us = ?3, active_since_us = ?4, ended_us = null,"
                       " error = case status when 'killed' then null else error end,"
                       " status = case status when 'killed' then 'running' else status end where id = ?1",
                       "iiiI", r->id, now, a.us, a.since_us);
        if (st == DL_OK) st = dl_sources_write(s->w, r->id, &r->sources);
        if (st == DL_OK) st = dl_output_write(s->w, r->id, &r->output, 0);
    }
    pthread_mutex_unlock(&s->runs_lock);
    st = dl_db_end(s->w, st);
    return dl_store_write_unlock(s, st);
}

static void report(dl_store *s, dl_status st) {
    dl_error err = {0};
    if (st != DL_OK) dl_error_take(&err);
    /* the warning is there before flush() returns */
    pthread_mutex_lock(&s->wake_lock);
    int first = st != DL_OK && !s->said;
    snprintf(s->trouble, sizeof s->trouble, "%s", err.message);
    if (first) s->said = 1;
    pthread_mutex_unlock(&s->wake_lock);
    if (first) dl_store_warn(s, "points wait in the ring: %s", err.message);
    pthread_mutex_lock(&s->wake_lock);
    s->failures += st != DL_OK;
    if (st == DL_OK && !dl_spill_on(&s->ring)) s->warned_full = s->said = 0;
    __atomic_store_n(&s->troubled, st != DL_OK, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->wake_lock);
}

/* Moves on when the file was removed or replaced, also while there are no points. */
static dl_status follow_file(dl_store *s) {
    if (!dl_store_moved(s)) return DL_OK;
    DL_TRY(lock(s));
    return dl_store_write_unlock(s, DL_OK);
}

/* Sleeps until woken or until it is time to look again. Returns 0 when asked to stop. */
static int wait_for_work(dl_store *s, dl_status last) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long ms = last == DL_OK ? DL_COMMIT_MS : DL_RETRY_MS;
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&s->runs_lock);
    int idle = !s->runs;
    pthread_mutex_unlock(&s->runs_lock);
    pthread_mutex_lock(&s->wake_lock);
    int rc = 0;
    while (!s->stop && !s->wanted && rc != ETIMEDOUT)
        rc = idle && last == DL_OK ? pthread_cond_wait(&s->wake, &s->wake_lock)
                                   : pthread_cond_timedwait(&s->wake, &s->wake_lock, &until);
    s->wanted = 0;
    int stop = s->stop;
    pthread_mutex_unlock(&s->wake_lock);
    return !stop;
}

static void *writer_main(void *arg) {
    dl_store *s = arg;
    dl_ring_record *batch = malloc(DL_BATCH * sizeof *batch);
    dl_status st = DL_OK;
    int64_t next_beat = dl_steady_us() + DL_HEARTBEAT_S * 1000000L, next_output = 0;
    dl_wait_silently();
    for (int go_on = 1; go_on;) {
        go_on = wait_for_work(s, st);
        uint64_t n = 0;
        look_at_usage(s);
        if (!batch)
            st = dl_fail(DL_ERR_MEMORY, "no memory for a batch of points");
        else
            st = follow_file(s);
        while (st == DL_OK && (st = commit_batch(s, batch, &n)) == DL_OK && more_waits(s, n)) usleep(DL_DB_TURN_US);
        if (st == DL_OK && (look_after_runs(s, next_output) || dl_steady_us() >= next_beat || dl_activity_drifted(s))) {
            st = write_heartbeats(s);
            next_output = dl_steady_us() + DL_OUTPUT_MS * 1000L;
            next_beat = dl_steady_us() + DL_HEARTBEAT_S * 1000000L;
        }
        report(s, st);
    }
    free(batch);
    return NULL;
}

/* Waits, under wake_lock, until the writer has looked again, or a moment. Fails when it is interrupted. */
static dl_status wait_for_writer(dl_store *s, bool first) {
    enum { EACH_NS = 50000000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += EACH_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    s->wanted = 1;
    pthread_cond_signal(&s->wake);
    if (pthread_cond_timedwait(&s->done, &s->wake_lock, &until) != ETIMEDOUT || !dl_writer_is_locked(s, dl_steady_us()))
        return DL_OK;
    pthread_mutex_unlock(&s->wake_lock);
    dl_status st = dl_wait_more(s->path, first, true) ? DL_OK : dl_interrupt_check();
    pthread_mutex_lock(&s->wake_lock);
    return st;
}

dl_status dl_store_flush(dl_store *s) {
    if (!s) return dl_fail_null("store");
    pthread_mutex_lock(&s->wake_lock);
    dl_status st = DL_OK;
    if (s->threaded && !s->none) {
        uint64_t target = dl_ring_pushed(&s->ring);
        long failures = s->failures;
        for (bool first = true;
             st == DL_OK && (int64_t)(target - dl_ring_committed(&s->ring)) > 0 && s->failures == failures;
             first = false)
            st = wait_for_writer(s, first);
        dl_wait_over();
        if (st == DL_OK && (int64_t)(target - dl_ring_committed(&s->ring)) > 0)
            st = dl_fail_hint(DL_ERR_STORE, "nothing is lost: the points wait in the ring file and commits go on", "%s",
                              s->trouble);
    }
    pthread_mutex_unlock(&s->wake_lock);
    return st;
}

/* Beside the database, named after the process: "experiments.db-ring-4711-1a2b3c4d". */
static dl_status make_ring(dl_store *s) {
    char path[sizeof s->path + 64], uuid[37];
    dl_uuid(uuid);
    snprintf(path, sizeof path, "%s-ring-%ld-%.8s", s->path, (long)getpid(), uuid);
    return dl_ring_create(&s->ring, path, s->capacity, dl_whoami_self());
}

dl_status dl_writer_start(dl_store *s) {
    sigset_t all, old;
    dl_status st = DL_OK;
    pthread_mutex_lock(&s->nlock);
    if (!s->threaded && (st = make_ring(s)) == DL_OK) {
        s->stop = s->wanted = 0;
        sigfillset(&all); /* signals are for the program's own threads */
        pthread_sigmask(SIG_SETMASK, &all, &old);
        int err = pthread_create(&s->thread, NULL, writer_main, s);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_mutex_lock(&s->wake_lock);
        s->threaded = !err;
        pthread_mutex_unlock(&s->wake_lock);
        if (err) {
            dl_ring_close(&s->ring);
            st = dl_fail(DL_ERR_MEMORY, "cannot start the writer thread: %s", strerror(err));
        }
    }
    pthread_mutex_unlock(&s->nlock);
    return st;
}

dl_status dl_writer_stop(dl_store *s) {
    if (!s->threaded) return DL_OK;
    dl_status st = dl_store_flush(s);
    pthread_mutex_lock(&s->wake_lock);
    s->stop = 1;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->wake_lock);
    pthread_join(s->thread, NULL);
    s->threaded = 0;
    uint64_t left = dl_ring_close(&s->ring);
    if (left) /* the end of a run counts as a point */
        st = dl_fail_hint(DL_ERR_STORE, "the next one that opens the store commits them",
                          "%lu points are not committed yet: %s", (unsigned long)left, s->trouble);
    return st;
}
