/* A store on a server: connecting, the thread that sends, warnings. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "track/server/server.h"

/* ---------------------------------------------------------------- an exchange */

/* Several processes may have this mirror open: one exchanges at a time. *mine: it is this one. */
static dl_status take_turn(dl_server *v, long wait_ms, bool *mine) {
    for (long ms = 0; !(*mine = !flock(v->turn, LOCK_EX | LOCK_NB)) && ms < wait_ms; ms += 5) usleep(5000);
    return DL_OK;
}

/* The server is away: says so, once until it is back. What is recorded meanwhile is safe. */
static void note_trouble(dl_server *v) {
    dl_error e;
    dl_error_take(&e);
    if (__atomic_exchange_n(&v->told, 1, __ATOMIC_ACQ_REL)) return;
    dl_store_warn(v->store, "%.280s: runs are recorded in %.120s, and sent when the server is back", e.message,
                  v->store->path);
}

static dl_status connect_server(dl_server *v, bool *away) {
    if (v->pq.conn) return DL_OK;
    DL_TRY(dl_pq_connect(&v->pq, v->address, away));
    dl_status st = dl_server_meet(v);
    if (st != DL_OK) dl_pq_close(&v->pq);
    return st;
}

/* What reads the mirror, anew when its file was lost and written again. */
static dl_status open_reader(dl_server *v) {
    struct stat st;
    if (stat(v->store->path, &st) || (v->db && st.st_ino == v->ino)) return DL_OK;
    sqlite3_close(v->db);
    v->db = NULL;
    v->ino = st.st_ino;
    dl_status opened = dl_db_open(&v->db, v->store->path, DL_DB_READ);
    if (opened != DL_OK) v->ino = 0;
    return opened;
}

/* Under the lock. Sends, and fetches as well when asked to. */
static dl_status exchange(dl_server *v, bool fetching, bool *away) {
    *away = false;
    v->pq.patience_s = fetching ? DL_PQ_ANSWER_S : DL_PQ_PATIENCE_S;
    dl_status st = open_reader(v);
    if (st == DL_OK) st = connect_server(v, away);
    if (st == DL_OK) st = dl_server_send(v);
    if (st == DL_OK && fetching) st = dl_server_fetch(v);
    if (st == DL_OK) {
        if (fetching) __atomic_store_n(&v->fetched_us, dl_steady_us(), __ATOMIC_RELEASE);
        __atomic_store_n(&v->told, 0, __ATOMIC_RELEASE);
        return DL_OK;
    }
    DL_SCOPED_ERROR;
    if (v->db && !sqlite3_get_autocommit(v->db)) sqlite3_exec(v->db, "rollback", NULL, NULL, NULL);
    dl_pq_recover(&v->pq);
    return st;
}

static dl_status exchange_in_turn(dl_server *v, bool fetching, long wait_ms, bool *away) {
    bool mine;
    *away = false;
    DL_TRY(take_turn(v, wait_ms, &mine));
    if (!mine) return DL_OK; /* the process whose turn it is sends all that is there */
    dl_status st = exchange(v, fetching, away);
    flock(v->turn, LOCK_UN);
    return st;
}

/* ---------------------------------------------------------------- the thread */

/* Returns 0 when asked to stop. */
static int pause_for(dl_server *v, long ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&v->wake_lock);
    int rc = 0;
    while (!v->stop && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&v->wake, &v->wake_lock, &until);
    int go_on = !v->stop;
    pthread_mutex_unlock(&v->wake_lock);
    return go_on;
}

/* While the server is away this thread alone tries to reach it, so that no command waits for it. */
static void *sender_main(void *arg) {
    dl_server *v = arg;
    dl_status st = DL_OK;
    dl_wait_silently();
    while (pause_for(v, st == DL_OK ? DL_SERVER_SEND_MS : DL_SERVER_RETRY_MS)) {
        bool any = false, away;
        pthread_mutex_lock(&v->lock);
        st = open_reader(v);
        if (st == DL_OK) st = dl_server_unsent(v, &any);
        if (st == DL_OK && (any || v->told)) st = exchange_in_turn(v, v->told, 0, &away);
        if (st != DL_OK) note_trouble(v);
        pthread_mutex_unlock(&v->lock);
    }
    return NULL;
}

static dl_status start_thread(dl_server *v) {
    sigset_t all, old;
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&v->thread, NULL, sender_main, v);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    v->threaded = !err;
    return err ? dl_fail(DL_ERR_MEMORY, "cannot start the thread that sends runs: %s", strerror(err)) : DL_OK;
}

static void stop_thread(dl_server *v) {
    pthread_mutex_lock(&v->wake_lock);
    __atomic_store_n(&v->stop, 1, __ATOMIC_RELAXED);
    pthread_cond_signal(&v->wake);
    pthread_mutex_unlock(&v->wake_lock);
    if (v->threaded) pthread_join(v->thread, NULL);
    v->threaded = 0;
}

/* ---------------------------------------------------------------- what the store asks for */

/* A server that does not answer holds the thread, not those who ask for runs: they wait once, then try from time to
 * time. */
static bool lock_soon(dl_server *v) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    if (until.tv_sec < __atomic_load_n(&v->patient_from, __ATOMIC_RELAXED)) return !pthread_mutex_trylock(&v->lock);
    until.tv_sec += DL_SERVER_WAIT_S;
    if (!pthread_mutex_timedlock(&v->lock, &until)) return true;
    __atomic_store_n(&v->patient_from, until.tv_sec + 10 * DL_SERVER_WAIT_S, __ATOMIC_RELAXED);
    return false;
}

void dl_server_refresh(dl_store *s) {
    dl_server *v = s->server;
    if (!v || s->none || __atomic_load_n(&v->told, __ATOMIC_ACQUIRE) || !lock_soon(v)) return;
    DL_SCOPED_ERROR;
    bool away;
    if (dl_steady_us() - v->fetched_us >= DL_SERVER_FETCH_MS * 1000L &&
        exchange_in_turn(v, true, DL_SERVER_WAIT_S * 1000, &away) != DL_OK)
        note_trouble(v);
    pthread_mutex_unlock(&v->lock);
}

bool dl_server_is_fresh(const dl_store *s) {
    return !s->server ||
           dl_steady_us() - __atomic_load_n(&s->server->fetched_us, __ATOMIC_ACQUIRE) < DL_SERVER_FRESH_S * 1000000L;
}

int64_t dl_server_run_id(dl_store *s) {
    dl_server *v = s->server;
    if (!v) return 0;
    DL_SCOPED_ERROR;
    DL_PQ_ROWS(r);
    int64_t id = 0;
    if (!__atomic_load_n(&v->told, __ATOMIC_ACQUIRE) && lock_soon(v)) {
        v->pq.patience_s = DL_SERVER_WAIT_S;
        if (v->pq.conn && dl_pq_fetch(&v->pq, &r, "select nextval('run_number')") == DL_OK && r.n)
            id = dl_pq_int(&r, 0, 0);
        if (!id) dl_pq_recover(&v->pq);
        pthread_mutex_unlock(&v->lock);
    }
    char uuid[37];
    dl_uuid(uuid);
    uuid[8] = 0; /* 32 random bits */
    return id ? id : 100000000000 + (int64_t)strtoul(uuid, NULL, 16) * 209;
}

dl_status dl_server_refuse(const dl_store *s, const char *what) {
    if (!s || !s->server) return DL_OK;
    return dl_fail_hint(DL_ERR_UNSUPPORTED, "use a file for it: --db FILE",
                        "%s is not possible in a store on a server (%.200s)", what, s->server->shown);
}

/* ---------------------------------------------------------------- opening and closing */

static void free_server(dl_server *v) {
    dl_pq_close(&v->pq);
    sqlite3_close(v->db);
    if (v->turn >= 0) close(v->turn);
    pthread_mutex_destroy(&v->lock);
    pthread_mutex_destroy(&v->wake_lock);
    pthread_cond_destroy(&v->wake);
    free(v->address);
    free(v);
}

static dl_server *new_server(dl_store *s, const char *address) {
    dl_server *v = calloc(1, sizeof *v);
    if (!v || !(v->address = strdup(address))) return free(v), dl_fail(DL_ERR_MEMORY, "no memory for a store"), NULL;
    v->store = s;
    v->turn = -1;
    v->pq.stop = &v->stop;
    dl_store_shown(address, v->shown, sizeof v->shown);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&v->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&v->lock, NULL);
    pthread_mutex_init(&v->wake_lock, NULL);
    return v;
}

static dl_status open_mirror(dl_server *v, dl_mirror *m) {
    dl_store *s = v->store;
    char path[4200];
    bool found = false;
    DL_TRY(dl_store_write_lock(s));
    DL_TRY(dl_store_write_unlock(s, dl_mirror_prepare(s->w, s->path, v->address)));
    DL_TRY(open_reader(v));
    DL_TRY(dl_mirror_read(v->db, s->path, m, &found));
    if (!found) return dl_fail(DL_ERR_STORE, "%.300s is the copy of another store", s->path);
    snprintf(path, sizeof path, "%s-turn", s->path);
    v->turn = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return v->turn >= 0 ? DL_OK : dl_fail(DL_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

dl_status dl_server_attach(dl_store *s, const char *address) {
    dl_mirror m = {0};
    bool away = false;
    dl_server *v = new_server(s, address);
    if (!v) return dl_failed();
    dl_status st = open_mirror(v, &m);
    if (st == DL_OK) {
        st = exchange_in_turn(v, true, DL_SERVER_WAIT_S * 1000, &away);
        if (st != DL_OK && away && *m.uuid) note_trouble(v), st = DL_OK;
    }
    if (st == DL_OK) st = start_thread(v);
    if (st != DL_OK) return free_server(v), st;
    s->server = v;
    return DL_OK;
}

dl_status dl_server_detach(dl_store *s) {
    dl_server *v = s->server;
    if (!v) return DL_OK;
    bool any = false, away;
    const int told = __atomic_load_n(&v->told, __ATOMIC_ACQUIRE); /* what the thread says from here on is not heard */
    stop_thread(v);
    dl_status st = dl_server_unsent(v, &any);
    if (st == DL_OK && any) st = exchange_in_turn(v, false, DL_SERVER_WAIT_S * 1000, &away);
    if (st != DL_OK) {
        dl_error e;
        dl_error_take(&e);
        if (!told)
            dl_fail_hint(DL_ERR_STORE, "the next dlsh that opens the store sends it",
                         "what was recorded is not on the server yet, but in %.200s: %.300s", s->path, e.message);
        else
            st = DL_OK; /* it was said */
    }
    s->server = NULL;
    free_server(v);
    return st;
}
