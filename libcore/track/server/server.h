/* A store on a PostgreSQL server, for people who share one. What it holds also stands in a SQLite file of this user on
 * this machine, the mirror, which is written and read as every store is. Triggers in the mirror note what changes; a
 * thread sends that to the server, and what others sent is fetched before runs are read. So nothing waits for the
 * server, and while it is away all goes on. */
#pragma once

#include <pthread.h>
#include <sys/types.h>
#include "track/server/pq.h"
#include "track/store.h"

enum {
    DL_SERVER_SEND_MS = 500,   /* pause between looks for what is to be sent */
    DL_SERVER_RETRY_MS = 700,  /* the same while the server is away */
    DL_SERVER_FETCH_MS = 1000, /* what was fetched so recently is not asked for again */
    DL_SERVER_WAIT_S = 5,      /* longest wait for an exchange that is under way */
    DL_SERVER_FRESH_S = 60     /* heartbeats of other hosts are judged when they were fetched within this time */
};

struct dl_server {
    dl_store *store;
    char *address, shown[DL_PQ_SHOWN];
    char origin[37];      /* of the mirror: which events came from here */
    pthread_mutex_t lock; /* of all that follows to the next comment: one exchange at a time */
    dl_pq pq;
    sqlite3 *db; /* reads the mirror */
    int turn;    /* a file whose lock says which process exchanges */
    ino_t ino;   /* of its file */
    /* read without the lock */
    int64_t fetched_us;
    int64_t patient_from; /* seconds since 1970: before that nobody waits for the lock */
    int told;             /* that the server is away, once until it is back */
    pthread_t thread;
    int threaded, stop; /* stop: under wake_lock */
    pthread_mutex_t wake_lock;
    pthread_cond_t wake;
};

/* address.c: is this an address, not a path? The path of its mirror. */
bool dl_server_is_address(const char *path);
dl_status dl_server_mirror(const char *address, char path[4096]);

/* A text with a password of an address in it replaced by the mask. */
void dl_server_hide(const char *path, const char *mask, char *out, long size);

/* schema.c. Prepares a mirror to note its changes, on its writing connection; what the mirror remembers. */
dl_status dl_mirror_prepare(sqlite3 *db, const char *path, const char *address);
typedef struct dl_mirror {
    char address[1024], origin[37], uuid[37]; /* uuid: of the database of the server, "" before it was first reached */
    int64_t rows_seq, points_seq;             /* changes of the server up to these numbers are here */
} dl_mirror;
/* *found: the file is a mirror, and at the place where it was made; a copy is a store of its own. */
dl_status dl_mirror_read(sqlite3 *db, const char *path, dl_mirror *out, bool *found);
/* Makes the schema of the server, or completes that of an older version; checks that it is the database that the mirror
 * belongs to. */
dl_status dl_server_meet(dl_server *v);
/* Makes the temporary tables of the connection in which what is sent lies first. */
dl_status dl_server_prepare(dl_server *v);
/* The columns of a table of the store, from SQLite, "a, b": all (0), those of `run` that its process writes ('s'),
 * those that people write ('l'). For sqlite3_free. `kinds` as in dl_pq_store, of all. */
char *dl_mirror_columns(sqlite3 *db, const char *table, char which, char kinds[64]);
/* The tables of rows that are known by a run and a key, their second column. */
extern const char *const dl_keyed_tables[];

/* send.c, fetch.c: one exchange, under the lock. *any: something was to be sent. */
dl_status dl_server_send(dl_server *v);
dl_status dl_server_unsent(dl_server *v, bool *any);
dl_status dl_server_fetch(dl_server *v);

/* server.c. Attaches a server to a store whose mirror is open. Fails when the server was never reached, or when the
 * address is wrong; while it is only away there is a warning. */
dl_status dl_server_attach(dl_store *s, const char *address);
/* Before runs are read. What fails is a warning. */
void dl_server_refresh(dl_store *s);
/* For heartbeats of runs on other hosts. */
bool dl_server_is_fresh(const dl_store *s);
/* The id of a run that begins: the server's next one, or, while it is away, a number of 12 digits. 0: of SQLite. */
int64_t dl_server_run_id(dl_store *s);
/* Sends what is left. Fails when that cannot be done and nothing has said so before. */
dl_status dl_server_detach(dl_store *s);
/* A store on a server cannot do this. */
dl_status dl_server_refuse(const dl_store *s, const char *what);
