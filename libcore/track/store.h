/* The inside of an open store, shared by the files of libcore/track. */
#pragma once

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include "core/error.h"
#include "dlcore.h"
#include "track/db.h"
#include "track/ring.h"
#include "track/usage.h"
#include "track/whoami.h"

enum {
    DL_BATCH = 65536,       /* most points of one transaction */
    DL_COMMIT_MS = 100,     /* the writer looks at the ring this often */
    DL_WAKE_EVERY = 8192,   /* a push wakes the writer when so many have come since the last time */
    DL_LOCK_WAIT_MS = 100,  /* a writer that waits for the lock so long waits for another process */
    DL_FULL_WAIT_MS = 2000, /* longest wait of a push for room in the ring while the writer stands still */
    DL_RETRY_MS = 1000,     /* pause of the writer after a failure */
    DL_HEARTBEAT_S = 15,    /* between heartbeats */
    DL_OUTPUT_MS = 1000,    /* between commits of what is printed */
    DL_STALE_S = 300,       /* a run on another host without heartbeat for so long is dead */
    DL_SERIES_BUCKETS = 1024
};

/* A series as the ring knows it, by number. id 0: its row has not been looked up yet. */
typedef struct dl_name {
    int64_t run, id;
    char *key;
} dl_name;

/* A set of names and the prepared statements that add points: the writer has one, each replay of a ring another. */
typedef struct dl_inserter {
    sqlite3 *db;
    sqlite3_stmt *insert, *update, *merge, *bulk, *newest;
    dl_name *names;
    uint32_t nname;
    long room;
    int keep_old; /* a point that is there already wins: for rings without cursors */
} dl_inserter;
void dl_inserter_free(dl_inserter *k);
/* Names may come in any order; the key is copied. */
dl_status dl_inserter_name(dl_inserter *k, uint32_t index, int64_t run, const char *key);
/* Adds n points within the caller's transaction, sorting them; the stamps must be their order. Points of unknown names
 * or runs are left out and counted in *lost. After a rollback call dl_inserter_forget. */
dl_status dl_inserter_add(dl_inserter *k, dl_ring_record *recs, uint64_t n, int64_t *lost);
void dl_inserter_forget(dl_inserter *k);
/* Finalizes the statements and keeps the names. */
void dl_inserter_detach(dl_inserter *k);
/* Recomputes the statistics of a series from its points. */
dl_status dl_series_rebuild(sqlite3 *db, int64_t series);

struct dl_series {
    dl_run *run;
    dl_series *next;
    uint32_t index;
    char key[];
};

/* Active time as a row of `run` holds it. */
typedef struct dl_activity {
    int64_t us, since_us; /* us as of since_us, growing since then; since_us 0: not growing */
} dl_activity;

/* What is printed while a run is open, see output.c. Bytes are counted over the whole process. */
typedef struct dl_output {
    struct dl_output *next;
    int64_t from, at;   /* bytes printed when the run began, and those that are written */
    char *first;        /* its first bytes, until it ceases to listen */
    long n_first, room; /* how many, and memory for how many */
} dl_output;

struct dl_run {
    dl_store *store;
    dl_run *next;
    dl_run *older; /* open in the process, as dl_run_active has them */
    int64_t id;
    char uuid[37];
    int64_t clock;        /* what its times are ahead of the steady clock, see dl_run_now */
    int64_t active_from;  /* the activity clock at active time 0 */
    dl_activity recorded; /* as its row holds it; under runs_lock */
    long sources;         /* so many of the process's are written */
    dl_output output;
    dl_usage usage;              /* at its last record */
    struct dl_tensorboard *live; /* where its points are also written; NULL: nowhere. Under runs_lock */
    int64_t began_at;            /* the step at which it was resumed */
    pthread_mutex_t lock;        /* for adding series; looking one up takes none */
    dl_series *buckets[DL_SERIES_BUCKETS];
};
/* Whether this process has the run of this uuid open. */
bool dl_run_is_open(const char *uuid);

typedef struct dl_warning {
    struct dl_warning *next;
    char text[512];
} dl_warning;

typedef struct dl_server dl_server;

struct dl_store {
    dl_store *next; /* stores open in this process */
    int refs;
    char path[4096]; /* absolute; "" for one that keeps nothing */
    int none, readonly, network, wal;
    long newer;        /* schema version, when it is later than this program's: then the store is only read; else 0 */
    int forked;        /* this is a copy in a child process */
    uint64_t dev, ino; /* of the file when it was opened for writing */
    dl_server *server; /* of which this is the mirror, see server/server.h; NULL: a store of its own */
    int reopen;        /* the reading connection is to a file that was lost */
    char closed[512];  /* why it could not be opened for writing; "": it can, or its rights tell */
    dl_store *other;   /* where runs begin since this one could not be written; NULL: here */

    sqlite3 *w; /* writes and checkpoints; NULL until there is a file */
    int wal_pages, checkpoint_at;
    pthread_mutex_t wlock;
    sqlite3 *r;   /* reads */
    int r_memory; /* it stands for a file that does not exist */
    pthread_mutex_t rlock;

    dl_ring ring;
    uint64_t capacity;
    dl_inserter inserter;      /* under wlock; its names under nlock */
    pthread_mutex_t nlock;     /* names of ring and inserter */
    pthread_mutex_t runs_lock; /* the list below */
    dl_run *runs;

    pthread_t thread;
    int threaded, stop, wanted; /* under wake_lock */
    pthread_mutex_t wake_lock;
    pthread_cond_t wake, done;
    long failures;         /* failed commits, under wake_lock */
    char trouble[512];     /* the last of them, "" once a commit went well; under wake_lock */
    int64_t locked_us;     /* since when the writer waits for the lock of the database, 0: it does not; atomic */
    int troubled;          /* the same as a flag that pushes can read */
    dl_warning *warnings;  /* under wake_lock */
    int warned_full, said; /* that points are dropped; that they wait; under wake_lock */
    long pushed_base, committed, dropped, waits, wait_us, recovered;
    int killed;
};

/* store.c */
void dl_store_warn(dl_store *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Locks the writing connection, opening it first if need be (and the file made). Fails without the lock. */
dl_status dl_store_write_lock(dl_store *s);
/* Unlocks and returns st. */
dl_status dl_store_write_unlock(dl_store *s, dl_status st);
/* Locks the reading connection after committing what was pushed; a store without a file reads as an empty one. */
dl_status dl_store_read_lock(dl_store *s);
dl_status dl_store_read_unlock(dl_store *s, dl_status st);

/* lost.c, all under wlock. Remembers device and inode of the open file. Has the path another file by now, or none? Then
 * copies the open file to a path, which the writing connection opens at its next lock. */
void dl_store_remember(dl_store *s);
int dl_store_moved(const dl_store *s);
dl_status dl_store_rescue(dl_store *s);

/* lost.c: after a failure to begin a run, the store where it begins instead, with a warning; NULL and the same
 * error: none, as it is not the store that failed. */
dl_store *dl_store_elsewhere(dl_store *s);
void dl_store_close_other(dl_store *s);

/* writer.c: starts the ring and the thread if they are not running; stops them. */
dl_status dl_writer_start(dl_store *s);
dl_status dl_writer_stop(dl_store *s);
/* Waits for nothing: to the ring, else to the spill. */
dl_status dl_series_push_at_once(dl_series *x, long step, double value);
void dl_writer_wake(dl_store *s);
/* Does the writer wait for the lock of the database, longer than others that take their turns make it wait? */
bool dl_writer_is_locked(const dl_store *s, int64_t now);

/* live.c: the runs that TensorBoard follows. Writes a batch that was committed to their files; tells one that its run
 * goes on at this step. What fails ends that with a warning. */
int dl_live_any(dl_store *s);
void dl_live_write(dl_store *s, const dl_ring_record *batch, uint64_t n);
void dl_live_restart(dl_run *r, int64_t step);

/* activity.c. Begins to measure the active time of a run, which had `before` us already; the time to write into its row
 * now; the time at its end; the time at a moment, from a row. Is the row of an open run wrong by more than 0.1 s? */
void dl_activity_begin(dl_run *r, int64_t before);
dl_activity dl_activity_renew(dl_run *r);
int64_t dl_activity_end(const dl_run *r);
int64_t dl_activity_at(const dl_activity *a, int64_t now);
int dl_activity_drifted(dl_store *s);

/* The time as a run counts it: that of the clock when it began, and what has passed since, however the clock was set.
 */
static inline int64_t dl_run_now(const dl_run *r) { return dl_steady_us() + r->clock; }

/* run.c: contents, kept once however often they occur, as an artifact of a run; within the caller's transaction. */
dl_status dl_artifact_put(sqlite3 *db, int64_t run, const char *name, long step, const char *kind, const char *sha,
                          const void *data, int64_t n);

/* sources.c: how many there are; writes those of a run from *written on, the same way. */
dl_status dl_event_put(sqlite3 *db, int64_t run, long step, const char *kind, const char *text, const char *json);
long dl_sources_count(void);
dl_status dl_sources_write(sqlite3 *db, int64_t run, long *written);

/* output.c: a run begins or ceases to listen. Is there text that it lacks, or, when asked often, much of
 * it? Writes it; `last`: the run ends. */
void dl_output_listen(dl_output *o);
void dl_output_cease(dl_output *o);
int dl_output_waits(const dl_output *o, int often);
dl_status dl_output_write(sqlite3 *db, int64_t run, dl_output *o, int last);

/* recover.c: commits rings of dead processes, then marks their runs as killed. `all`: looks for rings even if no run
 * seems dead. */
dl_status dl_store_recover(dl_store *s, int all);
/* For those who take a run over: recovers, and waits up to 10 s while the run's process ends or another process commits
 * its ring. `id` 0: only recovers. */
dl_status dl_run_await_end(dl_store *s, int64_t id);
/* Fails: no run has this id. */
dl_status dl_run_missing(long id);
/* Is a run with this identity and heartbeat dead? */
int dl_run_is_dead(const dl_whoami *who, int64_t heartbeat_us);
