/* `serve`: the page of runs from the store itself, on the loopback address, following runs as they train. */
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "commands/history/history.h"
#include "lang/library.h"

#define LIBRARY "libmicrohttpd.so.12"

#define CALLS(X)                                                                                                       \
    X(MHD_start_daemon)                                                                                                \
    X(MHD_stop_daemon)                                                                                                 \
    X(MHD_get_daemon_info)                                                                                             \
    X(MHD_lookup_connection_value)                                                                                     \
    X(MHD_create_response_from_buffer)                                                                                 \
    X(MHD_add_response_header)                                                                                         \
    X(MHD_queue_response)                                                                                              \
    X(MHD_destroy_response)

typedef struct library {
    CALLS(DLSH_LIBRARY_MEMBER)
} library;

enum { TOKEN = 32, MOST_RUNS = 2000 };

typedef struct server {
    library http;
    dl_store *store;
    const char *where, *title;
    char token[TOKEN + 1];
    unsigned port;
} server;

static dl_status load(library *l) {
    static const char *const names[] = {CALLS(DLSH_LIBRARY_NAME) NULL};
    return dlsh_library_open(LIBRARY, "serve needs", "apt install libmicrohttpd12", names, (void **)l);
}

/* ---------------------------------------------------------------- answers */

static enum MHD_Result answer(server *s, struct MHD_Connection *c, unsigned code, const char *type, dlsh_buf *body) {
    library *l = &s->http;
    struct MHD_Response *r =
        l->MHD_create_response_from_buffer(body->n, (void *)dlsh_buf_text(body), MHD_RESPMEM_MUST_COPY);
    dlsh_buf_free(body);
    if (!r) return MHD_NO;
    l->MHD_add_response_header(r, "Content-Type", type);
    l->MHD_add_response_header(r, "Cache-Control", "no-store");
    l->MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    l->MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    l->MHD_add_response_header(r, "Content-Security-Policy",
                               "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src "
                               "data:; connect-src 'self'; frame-ancestors 'none'");
    enum MHD_Result ok = l->MHD_queue_response(c, code, r);
    l->MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result refuse(server *s, struct MHD_Connection *c, unsigned code, const char *why) {
    dlsh_buf b = {0};
    dlsh_buf_printf(&b, "%s\n", why);
    return answer(s, c, code, "text/plain; charset=utf-8", &b);
}

/* In a time that does not tell how much of it is right. */
static int is_token(const server *s, const char *given) {
    unsigned char differs = 0;
    if (strlen(given) != TOKEN) return 0;
    for (int i = 0; i < TOKEN; i++) differs |= (unsigned char)(given[i] ^ s->token[i]);
    return !differs;
}

/* Pages of other sites reach this address under names of their own, which they let point here. */
static int is_own_name(const server *s, const char *host) {
    char own[3][32];
    snprintf(own[0], sizeof own[0], "127.0.0.1:%u", s->port);
    snprintf(own[1], sizeof own[1], "localhost:%u", s->port);
    snprintf(own[2], sizeof own[2], "[::1]:%u", s->port);
    for (int i = 0; i < 3; i++)
        if (host && !strcasecmp(host, own[i])) return 1;
    return 0;
}

/* Runs that were at work after a moment (milliseconds since 1970), of those that are shown. */
static void changed_since(const server *s, long ms, dlsh_buf *where) {
    double from = (double)ms / 1000;
    if (s->where) dlsh_buf_printf(where, "(%s) and ", s->where);
    dlsh_buf_printf(where, "(status in (running, paused) or started >= %.3f or ended >= %.3f)", from, from);
}

static enum MHD_Result give_page(server *s, struct MHD_Connection *c, const char *since) {
    DLSH_SCOPED_BUF body = {0}, where = {0};
    if (since && atol(since) > 0)
        changed_since(s, atol(since), &where);
    else if (s->where)
        dlsh_buf_puts(&where, s->where);
    dlsh_run_page p = {
        .title = s->title, .where = where.n ? dlsh_buf_text(&where) : NULL, .limit = MOST_RUNS, .live = 1};
    dl_status st = since ? dlsh_run_page_data(s->store, &p, &body) : dlsh_run_page_html(s->store, &p, &body);
    if (!st) return answer(s, c, MHD_HTTP_OK, since ? "application/json" : "text/html; charset=utf-8", &body);
    dl_error e = dlsh_taken_error();
    return refuse(s, c, MHD_HTTP_INTERNAL_SERVER_ERROR, e.message);
}

static enum MHD_Result handle(void *self, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *upload, size_t *size, void **state) {
    server *s = self;
    library *l = &s->http;
    (void)version, (void)upload, (void)state;
    if (*size) {
        *size = 0;
        return MHD_YES;
    }
    if (!is_own_name(s, l->MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")))
        return refuse(s, c, MHD_HTTP_FORBIDDEN, "this server answers to 127.0.0.1 and localhost alone");
    const char *token = l->MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token");
    if (!token || !is_token(s, token))
        return refuse(s, c, MHD_HTTP_FORBIDDEN,
                      "the token is missing or wrong: use the address that dlsh serve printed");
    if (strcmp(method, "GET")) return refuse(s, c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is answered");
    const char *since = l->MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "since");
    if (!strcmp(url, "/")) return give_page(s, c, NULL);
    if (!strcmp(url, "/data")) return give_page(s, c, since ? since : "0");
    return refuse(s, c, MHD_HTTP_NOT_FOUND, "there is nothing under this address");
}

/* ---------------------------------------------------------------- the command */

static dl_status make_token(server *s) {
    unsigned char bytes[TOKEN / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return dlsh_fail(DL_ERR_IO, NULL, "the system gives no random numbers for a token");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(s->token + 2 * i, 3, "%02x", bytes[i]);
    return DL_OK;
}

static struct MHD_Daemon *start(server *s, long port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct MHD_Daemon *d = s->http.MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, (uint16_t)port, NULL, NULL, handle,
                                                    s, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_CONNECTION_LIMIT, 32u,
                                                    MHD_OPTION_CONNECTION_TIMEOUT, 30u, MHD_OPTION_END);
    const union MHD_DaemonInfo *info = d ? s->http.MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    s->port = info ? info->port : (unsigned)port;
    return d;
}

static void wait_for_end(void) {
    struct timespec pause = {.tv_nsec = 100000000};
    dl_idle(1); /* runs of this process do not train meanwhile */
    while (!dlsh_interrupted()) nanosleep(&pause, NULL);
    dl_interrupt_set(0); /* which is how it ends */
    dl_idle(0);
}

static dl_status serve_run(const dlsh_args *a) {
    const char *title = dlsh_arg_str(a, "title");
    long port = dlsh_arg_int(a, "port");
    server s = {.title = title ? title : "Runs"};
    DLSH_SCOPED_BUF where = {0};
    if (port < 0 || port > 65535)
        return dlsh_arg_fail(a, "port", DL_ERR_VALUE, "port=0 takes a free one", "there is no port %ld", port);
    DLSH_TRY(load(&s.http));
    DLSH_TRY(make_token(&s));
    DLSH_TRY(dlsh_run_condition(a, &s.store, &where));
    if (where.n) {
        s.where = dlsh_buf_text(&where);
        if (dl_run_filter_check(s.store, s.where)) return dlsh_place_in(a, "where");
    }
    struct MHD_Daemon *d = start(&s, port);
    if (!d)
        return dlsh_arg_fail(a, "port", DL_ERR_IO, "port=0 takes a free one", "port %ld of 127.0.0.1 cannot be opened",
                             port);
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_put(sink, "http://127.0.0.1:%u/?token=%s\n%s", s.port, s.token, "Ctrl-C ends it\n");
    if (sink->ops->flush) sink->ops->flush(sink);
    wait_for_end();
    s.http.MHD_stop_daemon(d);
    return DL_OK;
}

const dlsh_command serve_commands[] = {
    DLSH_ROW(
        "serve", DLSH_ACTION, serve_run, "serve [RUN ...] [port=N] [where=\"...\"] [title=TEXT]",
        "Shows the page of `report` from the store at an address of this machine alone, following runs as they "
        "train, until Ctrl-C. Only who has the address with its token can read it. From the command line: dlsh serve.",
        DLSH_PARAMS({"runs", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "runs; all, and new ones, when left out",
                     .complete = "run"}),
        DLSH_OPTIONS({"port", DLSH_OPT_INT, "0", .doc = "of 127.0.0.1; 0: a free one"},
                     {"title", DLSH_OPT_STRING, NULL, .doc = "heading of the page"}, DLSH_RUN_FILTERS),
        .examples = "# serve port=8080 where=\"started > yesterday\""),
    {0}};
