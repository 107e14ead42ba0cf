/* Recovery after killed processes: their rings are committed, their runs marked as killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/interrupt.h"
#include "core/list.h"
#include "io/input.h"
#include "track/server/server.h"
#include "track/store.h"

/* ---------------------------------------------------------------- rings */

typedef struct replay {
    dl_inserter inserter;
    dl_ring_record *batch;
    uint64_t n;
    int64_t lost, points;
    int damaged;
    char missing[300]; /* the name of a file with the rest of the points, that is not there */
} replay;

static dl_status replay_name(void *ctx, uint32_t index, int64_t run, const char *key) {
    return dl_inserter_name(&((replay *)ctx)->inserter, index, run, key);
}

static dl_status replay_batch(replay *r) {
    uint64_t n = r->n;
    r->n = 0;
    return dl_inserter_add(&r->inserter, r->batch, n, &r->lost);
}

static dl_status replay_record(void *ctx, const dl_ring_record *rec) {
    replay *r = ctx;
    r->inserter.keep_old = r->damaged;
    r->batch[r->n] = *rec;
    r->batch[r->n].stamp = (uint32_t)r->n;
    r->points += rec->series != DL_RING_END;
    return ++r->n == DL_BATCH ? replay_batch(r) : DL_OK;
}

static dl_status read_all(int fd, const char *path, unsigned char **data, uint64_t *size) {
    struct stat st;
    if (fstat(fd, &st)) return dl_fail(DL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    *size = (uint64_t)st.st_size;
    if (!(*data = malloc(*size + 1))) return dl_fail(DL_ERR_MEMORY, "no memory for %ld bytes of %s", (long)*size, path);
    const dl_input in = {.name = path, .fd = fd, .size = *size};
    return dl_input_read(&in, 0, *data, *size);
}

/* All of a ring in one transaction, so that a crash in here repeats it as a whole. */
static dl_status replay_into(dl_store *s, const char *path, const unsigned char *data, uint64_t size, replay *r) {
    const dl_ring_visitor v = {r, replay_name, replay_record};
    if (!(r->batch = malloc(DL_BATCH * sizeof *r->batch)))
        return dl_fail(DL_ERR_MEMORY, "no memory for a batch of points");
    dl_status st = dl_store_write_lock(s);
    if (st == DL_OK) {
        r->inserter.db = s->w;
        st = dl_db_begin(s->w);
        if (st == DL_OK) st = dl_ring_parse(data, size, &v, &r->damaged);
        if (st == DL_OK) st = dl_spill_parse(path, data, size, &v, r->missing);
        if (st == DL_OK) st = replay_batch(r);
        st = dl_db_end(s->w, st);
        dl_inserter_free(&r->inserter);
        dl_store_write_unlock(s, DL_OK);
    }
    free(r->batch);
    return st;
}

/* Removes a ring; a damaged one is renamed instead, for inspection. */
static void remove_or_keep(dl_store *s, const char *path, const unsigned char *data, uint64_t size, const replay *r) {
    char aside[4420];
    if (!r->damaged && !r->lost && !*r->missing) {
        unlink(path);
        dl_spill_remove(path, data, size);
        return;
    }
    snprintf(aside, sizeof aside, "%s.damaged", path);
    if (rename(path, aside)) unlink(path);
    if (*r->missing)
        dl_store_warn(s, "%.200s, which has the last points of a killed process, is not there, on this host",
                      r->missing);
    if (!r->damaged && !r->lost) return;
    dl_store_warn(s, "%.300s was damaged: %ld points of it are committed, %ld belong to no run", aside,
                  (long)(r->points - r->lost), (long)r->lost);
}

/* Identity of the owner, from the header. */
static dl_whoami owner_of(int fd) {
    dl_ring_header h;
    dl_whoami who = {0};
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h) return who;
    snprintf(who.host, sizeof who.host, "%.63s", h.host);
    snprintf(who.boot_id, sizeof who.boot_id, "%.39s", h.boot_id);
    who.pid = h.pid;
    who.pid_start = h.pid_start;
    return who;
}

/* What a ring's lock says. It is held by the owner, of which threads may still be ending after the first one has, or
 * by a process that recovers it. On file systems without locks the owner's process counts. */
typedef enum ring_state { RING_FREE, RING_HELD, RING_GONE } ring_state;

static ring_state state_of(int fd, const dl_whoami *owner) {
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK) return RING_HELD;
        if (dl_whoami_gone(owner) != 1) return RING_GONE;
    }
    return !fstat(fd, &st) && st.st_nlink > 0 ? RING_FREE : RING_GONE; /* gone: another process has just recovered it */
}

/* Runs whose processes seem to be dead. */
typedef struct suspect {
    int64_t id;
    int64_t heartbeat;
    dl_whoami who;
} suspect;

typedef struct suspects {
    suspect *at;
    long n;
} suspects;

/* A ring that is held proves that its owner lives, even if its pid cannot be seen from inside this container, or that
 * its points are not committed yet: in both cases its runs are not to be marked. */
static void acquit(suspects *x, const dl_whoami *owner) {
    for (long i = 0; i < x->n; i++) {
        dl_whoami *who = &x->at[i].who;
        if (owner->pid == who->pid && owner->pid_start == who->pid_start && !strcmp(owner->host, who->host))
            who->pid = 0;
    }
}

static dl_status recover_ring(dl_store *s, const char *path, suspects *x) {
    unsigned char *data = NULL;
    uint64_t size = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? DL_OK : dl_fail(DL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    dl_status st = DL_OK;
    const dl_whoami owner = owner_of(fd);
    const ring_state state = state_of(fd, &owner);
    if (state == RING_HELD) acquit(x, &owner);
    if (state == RING_FREE) {
        replay r = {0};
        st = read_all(fd, path, &data, &size);
        if (st == DL_OK) st = replay_into(s, path, data, size, &r);
        if (st == DL_OK) {
            remove_or_keep(s, path, data, size, &r);
            __atomic_fetch_add(&s->recovered, r.points - r.lost, __ATOMIC_RELAXED);
        }
        free(data);
    }
    close(fd);
    return st;
}

/* "-ring-PID-8 hex digits" after the name of the database. */
static int is_ring(const char *entry, const char *base) {
    size_t n = strlen(base);
    if (strncmp(entry, base, n) || strncmp(entry + n, "-ring-", 6)) return 0;
    const char *p = entry + n + 6;
    size_t digits = strspn(p, "0123456789");
    return digits && p[digits] == '-' && strspn(p + digits + 1, "0123456789abcdef") == 8 && !p[digits + 9];
}

static dl_status recover_rings(dl_store *s, suspects *x) {
    char dir[4096], path[4400];
    snprintf(dir, sizeof dir, "%s", s->path);
    char *slash = strrchr(dir, '/');
    const char *base = strrchr(s->path, '/') + 1;
    slash[slash == dir] = 0;
    DIR *d = opendir(dir);
    if (!d) return dl_fail(DL_ERR_IO, "cannot list %s: %s", dir, strerror(errno));
    dl_status st = DL_OK;
    for (struct dirent *e; st == DL_OK && (e = readdir(d));)
        if (is_ring(e->d_name, base)) {
            snprintf(path, sizeof path, "%s-ring-%s", s->path, e->d_name + strlen(base) + 6);
            st = recover_ring(s, path, x);
        }
    closedir(d);
    return st;
}

/* ---------------------------------------------------------------- runs */

int dl_run_is_dead(const dl_whoami *who, int64_t heartbeat_us) {
    int gone = dl_whoami_gone(who);
    return gone >= 0 ? gone : dl_now_us() - heartbeat_us > DL_STALE_S * 1000000L;
}

/* Those among all runs, or the run `id`. */
static dl_status find_dead(dl_store *s, int64_t id, suspects *out) {
    DL_DB_STATEMENT(q);
    long cap = 0;
    int rc;
    DL_TRY(dl_db_prepare(s->r, &q,
                         "select id, host, boot_id, pid, pid_start, heartbeat_us from run"
                         " where status in ('running', 'paused') and ?1 in (0, id)"));
    DL_TRY(dl_db_bind(q, "i", id));
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        suspect x = {.id = sqlite3_column_int64(q, 0), .heartbeat = sqlite3_column_int64(q, 5)};
        snprintf(x.who.host, sizeof x.who.host, "%s", (const char *)sqlite3_column_text(q, 1));
        snprintf(x.who.boot_id, sizeof x.who.boot_id, "%s", (const char *)sqlite3_column_text(q, 2));
        x.who.pid = sqlite3_column_int64(q, 3);
        x.who.pid_start = (uint64_t)sqlite3_column_int64(q, 4);
        if (dl_whoami_gone(&x.who) < 0 && !dl_server_is_fresh(s)) continue; /* its heartbeats may not be here */
        if (!dl_run_is_dead(&x.who, x.heartbeat)) continue;
        DL_TRY(DL_LIST_ROOM(out->at, out->n, cap));
        out->at[out->n++] = x;
    }
    return rc == SQLITE_DONE ? DL_OK : dl_db_fail(s->r, "look for dead runs");
}

static dl_status look_for_dead(dl_store *s, int64_t id, suspects *out) {
    DL_TRY(dl_store_read_lock(s));
    return dl_store_read_unlock(s, find_dead(s, id, out));
}

/* The end of a killed run is its last heartbeat or its last point. */
static const char kill_sql[] =
    "update run set status = 'killed', error = ?2, ended_us = max(started_us, heartbeat_us, coalesce((select "
    "max(m.t_us)"
    " from series as s join metric as m on m.series_id = s.id and m.step = s.last_step where s.run_id = ?1), 0))"
    " where id = ?1 and status in ('running', 'paused') and heartbeat_us = ?3";

/* Adds the time from the last update of the row to that end, if the run was active. */
static const char worked_sql[] = "update run set active_us = active_us + max(0, ended_us - active_since_us),"
                                 " active_since_us = null where id = ?1 and active_since_us is not null";

static dl_status mark_killed(dl_store *s, const suspects *dead) {
    DL_TRY(dl_store_write_lock(s));
    dl_status st = dl_db_begin(s->w);
    int killed = 0;
    const suspect *x = dead->at;
    for (long i = 0; i < dead->n && st == DL_OK; i++) {
        char why[160];
        if (!x[i].who.pid) continue;
        snprintf(why, sizeof why, "process %ld on %.63s is gone", (long)x[i].who.pid, x[i].who.host);
        st = dl_db_run(s->w, kill_sql, "iti", x[i].id, why, x[i].heartbeat);
        if (st != DL_OK || !sqlite3_changes(s->w)) continue;
        st = dl_db_run(s->w, worked_sql, "i", x[i].id);
        killed++;
    }
    st = dl_db_end(s->w, st);
    dl_store_write_unlock(s, DL_OK);
    if (st == DL_OK) __atomic_fetch_add(&s->killed, killed, __ATOMIC_RELAXED);
    return st;
}

dl_status dl_store_recover(dl_store *s, int all) {
    suspects dead = {0};
    dl_status st = look_for_dead(s, 0, &dead);
    /* points first, then statuses: a run that reads killed is complete */
    if (st == DL_OK && (dead.n || all)) st = recover_rings(s, &dead);
    if (st == DL_OK && dead.n) st = mark_killed(s, &dead);
    free(dead.at);
    return st;
}

dl_status dl_run_await_end(dl_store *s, int64_t id) {
    enum { EACH_US = 5000, MOST_US = 10000000 };
    /* by the clock: on a loaded machine a round takes much longer than its pause */
    for (const int64_t since = dl_steady_us();;) {
        suspects dying = {0};
        DL_TRY(dl_store_recover(s, 1));
        dl_status st = id ? look_for_dead(s, id, &dying) : DL_OK;
        free(dying.at);
        if (st != DL_OK || !dying.n || dl_steady_us() - since >= MOST_US) return st;
        DL_TRY(dl_interrupt_check());
        usleep(EACH_US);
    }
}
