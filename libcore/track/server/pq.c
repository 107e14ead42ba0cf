/* Connections to PostgreSQL. libpq brings a dozen other libraries with it, so the first store on a server loads it. */
#include "track/server/pq.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "track/server/calls.h"

dl_pq_calls dl_pq_call;

static const char *const names[] = {
#define NAME(name) "PQ" #name,
    DL_PQ_CALLS(NAME)
#undef NAME
        NULL};

static dl_status load(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    static const char soname[] = "libpq.so.5", hint[] = "apt-get install libpq5";
    dl_status st = DL_OK;
    pthread_mutex_lock(&lock);
    void *so = loaded ? NULL : dlopen(soname, RTLD_NOW | RTLD_LOCAL), **to = (void **)&dl_pq_call;
    if (!loaded && !so) {
        st = dl_fail_hint(DL_ERR_UNSUPPORTED, hint, "a store on a PostgreSQL server needs %s: %s", soname, dlerror());
    } else if (!loaded) {
        for (int i = 0; names[i] && st == DL_OK; i++)
            if (!(to[i] = dlsym(so, names[i])))
                st = dl_fail_hint(DL_ERR_UNSUPPORTED, hint,
                                  "a store on a PostgreSQL server needs a newer %s: it has no %s", soname, names[i]);
        loaded = st == DL_OK;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

/* ---------------------------------------------------------------- connecting */

/* Reads the host and the like from the address, which comes last: what it says itself wins. */
#define PARAMETERS(address)                                                                                            \
    static const char *const keys[] = {"connect_timeout",                                                              \
                                       "tcp_user_timeout",                                                             \
                                       "keepalives_idle",                                                              \
                                       "application_name",                                                             \
                                       "client_encoding",                                                              \
                                       "dbname",                                                                       \
                                       NULL};                                                                          \
    const char *const values[] = {"5", "10000", "10", "dlsh", "UTF8", address, NULL}
_Static_assert(DL_PQ_CONNECT_S == 5, "as PARAMETERS says");

/* The first line of what libpq says. */
static void first_line(const char *message, char *out, size_t size) {
    snprintf(out, size, "%.*s", (int)strcspn(message, "\n"), message);
}

static const struct {
    const char *part, *hint;
} mistakes[] = {
    {"no password supplied",
     "give the password in PGPASSWORD, ~/.pgpass or the address: postgresql://USER:PASSWORD@..."},
    {"password authentication",
     "is it the right user and password? they stand in the address, PGPASSWORD or ~/.pgpass"},
    {"does not exist", "createdb NAME makes a database, createuser NAME a user"},
    {"pg_hba.conf", "the server's pg_hba.conf says who may connect from where"},
    {"could not translate host name", "is the name of the host right?"},
};

static dl_status not_connected(const PGconn *c, const char *address, const char *shown, bool *away) {
    char says[400];
    first_line(dl_pq_call.errorMessage(c), says, sizeof says);
    PARAMETERS(address);
    PGPing ping = dl_pq_call.pingParams(keys, values, 1);
    *away = ping == PQPING_NO_RESPONSE || ping == PQPING_REJECT;
    const char *hint = "is the server running, and is the address right: --db postgresql://USER@HOST:PORT/DATABASE";
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        if (strstr(says, mistakes[i].part)) {
            hint = mistakes[i].hint;
            break;
        }
    return dl_fail_hint(DL_ERR_STORE, hint, "%.200s cannot be reached: %s", shown, says);
}

static dl_status check_address(const char *address, const char *shown) {
    char *says = NULL;
    PQconninfoOption *o = dl_pq_call.conninfoParse(address, &says);
    if (o) return dl_pq_call.conninfoFree(o), DL_OK;
    char line[400];
    first_line(says ? says : "no memory", line, sizeof line);
    dl_pq_call.freemem(says);
    return dl_fail_hint(DL_ERR_VALUE, "--db postgresql://USER@HOST:PORT/DATABASE",
                        "%.200s is not an address of a PostgreSQL server: %s", shown, line);
}

/* libpq would print them. */
static void ignore(void *ctx, const char *notice) { (void)ctx, (void)notice; }

dl_status dl_pq_connect(dl_pq *k, const char *address, bool *away) {
    *away = false;
    if (k->conn) return DL_OK;
    dl_store_shown(address, k->shown, sizeof k->shown);
    DL_TRY(load());
    DL_TRY(check_address(address, k->shown));
    PARAMETERS(address);
    PGconn *c = dl_pq_call.connectdbParams(keys, values, 1);
    if (!c) return dl_fail(DL_ERR_MEMORY, "no memory for a connection");
    if (dl_pq_call.status(c) != CONNECTION_OK) {
        dl_status st = not_connected(c, address, k->shown, away);
        dl_pq_call.finish(c);
        return st;
    }
    dl_pq_call.setNoticeProcessor(c, ignore, NULL);
    k->conn = c;
    dl_status st = dl_pq_run(k, "connect",
                             "set client_min_messages = error; set extra_float_digits = 3;"
                             " set idle_in_transaction_session_timeout = '60s'; set bytea_output = hex;"
                             " set enable_bitmapscan = off; set jit = off");
    if (st != DL_OK) dl_pq_close(k);
    return st;
}

void dl_pq_close(dl_pq *k) {
    if (k->conn) dl_pq_call.finish(k->conn);
    k->conn = NULL;
    k->ready = false;
}

void dl_pq_recover(dl_pq *k) {
    if (!k->conn) return;
    DL_SCOPED_ERROR;
    if (dl_pq_call.status(k->conn) != CONNECTION_OK || dl_pq_run(k, "go on", "rollback") != DL_OK) dl_pq_close(k);
}

/* ---------------------------------------------------------------- statements */

dl_status dl_pq_fail(const dl_pq *k, const char *doing, const PGresult *r) {
    char says[400];
    const char *message = r ? dl_pq_call.resultErrorMessage(r) : "";
    first_line(*message ? message : dl_pq_call.errorMessage(k->conn), says, sizeof says);
    const char *hint =
        strstr(says, "permission denied")
            ? "its owner grants rights: create on the database, or usage on schema dlsh and all on its tables"
            : "";
    return dl_fail_hint(DL_ERR_STORE, hint, "%.200s cannot %s: %s", k->shown, doing, says);
}

/* A server that is halted, or a host that is gone, must not halt this program as well. */
dl_status dl_pq_wait(dl_pq *k, const char *doing) {
    enum { LOOK_MS = 200 };
    struct pollfd f = {.fd = dl_pq_call.socket(k->conn), .events = POLLIN};
    for (long ms = 0;; ms += LOOK_MS) {
        int n = poll(&f, 1, LOOK_MS);
        if (n > 0) break;
        bool leaving = k->stop && __atomic_load_n(k->stop, __ATOMIC_RELAXED);
        int limit_s = leaving && k->patience_s > DL_PQ_LEAVE_S ? DL_PQ_LEAVE_S : k->patience_s;
        if (ms < limit_s * 1000L) continue;
        dl_pq_close(k);
        return dl_fail(DL_ERR_STORE, "%.200s cannot %s: no answer for %d seconds", k->shown, doing, limit_s);
    }
    return dl_pq_call.consumeInput(k->conn) ? DL_OK : dl_pq_fail(k, doing, NULL);
}

dl_status dl_pq_await(dl_pq *k, const char *doing) {
    while (dl_pq_call.isBusy(k->conn)) DL_TRY(dl_pq_wait(k, doing));
    return DL_OK;
}

dl_status dl_pq_begin(dl_pq *k, const char *doing, const char *sql) {
    if (!k->conn) return dl_fail(DL_ERR_STORE, "%.200s cannot %s: the connection is lost", k->shown, doing);
    return dl_pq_call.sendQuery(k->conn, sql) ? DL_OK : dl_pq_fail(k, doing, NULL);
}

dl_status dl_pq_finish(dl_pq *k, const char *doing, dl_status st) {
    while (k->conn) {
        dl_status waited = dl_pq_await(k, doing);
        if (waited != DL_OK) return st != DL_OK ? st : waited;
        PGresult *r = dl_pq_call.getResult(k->conn);
        if (!r) break;
        ExecStatusType s = dl_pq_call.resultStatus(r);
        bool good = s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK || s == PGRES_EMPTY_QUERY;
        if (!good && st == DL_OK) st = dl_pq_fail(k, doing, r);
        dl_pq_call.clear(r);
    }
    return st;
}

dl_status dl_pq_run(dl_pq *k, const char *doing, const char *sql) {
    DL_TRY(dl_pq_begin(k, doing, sql));
    return dl_pq_finish(k, doing, DL_OK);
}
