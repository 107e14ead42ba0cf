/* PostgreSQL as stores use it: libpq, loaded by the first store on a server, a connection, rows in both directions. */
#pragma once

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include "core/scope.h"
#include "dlcore.h"

enum {
    DL_PQ_CONNECT_S = 5, /* longest wait for a connection, unless the address says another time */
    DL_PQ_ANSWER_S =
        60, /* longest wait for a part of an answer, after which the connection is given up: of a command, */
    DL_PQ_PATIENCE_S = 600, /* of the thread that sends, as putting many points in place takes its time, */
    DL_PQ_LEAVE_S = 10,     /* and at the end of the program */
    DL_PQ_SHOWN = 512
};

typedef struct dl_pq {
    PGconn *conn; /* NULL: not connected */
    char shown[DL_PQ_SHOWN];
    bool ready;      /* for what the user of the connection prepares once; false on a new one */
    int patience_s;  /* longest wait for a part of an answer */
    const int *stop; /* when that becomes 1: DL_PQ_LEAVE_S */
} dl_pq;

/* *away: nobody answers at the address, as while a server is stopped; other failures have to be mended by the user.
 * Errors: DL_ERR_UNSUPPORTED (no libpq), DL_ERR_VALUE (not an address), DL_ERR_STORE. */
dl_status dl_pq_connect(dl_pq *k, const char *address, bool *away);
/* After a failure: drops a connection that does not work any more, ends a transaction otherwise. */
void dl_pq_recover(dl_pq *k);
void dl_pq_close(dl_pq *k);

/* Runs statements divided by semicolons. `doing` as in "cannot DOING". */
dl_status dl_pq_run(dl_pq *k, const char *doing, const char *sql);

/* Rows of text; a cell is NULL or text, bytea as "\x...". */
typedef struct dl_pq_rows {
    char *text;
    long *at; /* of each cell, where its text begins; -1: NULL */
    long n, width, size, room, ncell, cells;
} dl_pq_rows;
void dl_pq_rows_free(dl_pq_rows *r);
#define DL_PQ_ROWS(r) dl_pq_rows r DL_SCOPE(dl_pq_rows_free) = {0}
/* The rows of a query, which come as COPY sends them. */
dl_status dl_pq_fetch(dl_pq *k, dl_pq_rows *out, const char *query);
const char *dl_pq_cell(const dl_pq_rows *r, long row, int col);
int64_t dl_pq_int(const dl_pq_rows *r, long row, int col);
/* Runs a statement of SQLite for each row, its parameters being the cells: by letters, i integer, d double, t text,
 * b blob, one for each column. */
dl_status dl_pq_store(sqlite3 *db, const char *sql, const char *kinds, const dl_pq_rows *r);

/* Sends the rows of a statement of SQLite, several one after the other between begin and end. `into` is a table with
 * its columns, "t(a, b)". */
dl_status dl_pq_copy_begin(dl_pq *k, const char *into);
dl_status dl_pq_copy_rows(dl_pq *k, sqlite3_stmt *rows, sqlite3 *db);
dl_status dl_pq_copy_end(dl_pq *k, dl_status st);
/* All three. */
dl_status dl_pq_copy(dl_pq *k, const char *into, sqlite3 *db, const char *query);
