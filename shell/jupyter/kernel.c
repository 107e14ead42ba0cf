/* The notebook kernel: its start, the answers to requests, one after the other on the session's thread, interrupts. */
#define _GNU_SOURCE // pthread_sigqueue
#include "jupyter/kernel.h"

#include <locale.h>
#include <langinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "front/front.h"
#include "jupyter/stdio.h"
#include "view/console.h"

jup_kernel jup;

/* ---------------------------------------------------------------- interrupts */

static struct {
    pthread_t thread;
    int running, pressed, number; /* number: of the cell, as signals carry it; all atomic */
} cell;

#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define SET(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)

/* SIGINT: Ctrl-C in the launcher's terminal, a client that sends signals, or jup_interrupt. */
static void on_interrupt(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    if (!GET(cell.running)) return;
    if (!pthread_equal(pthread_self(), cell.thread)) {
        jup_interrupt();
        return;
    }
    /* sent by jup_interrupt while another cell ran, which has ended since */
    if (info->si_code == SI_QUEUE && info->si_value.sival_int != GET(cell.number)) return;
    SET(cell.pressed, 1);
    dlsh_interrupt();
}

static void on_terminate(DLSH_UNUSED int sig) { jup_end(); }

/* Sends a signal to the thread that runs the cell, where alone C code can be left. It carries the number of the cell,
 * which may end at this moment. */
void jup_interrupt(void) {
    const union sigval number = {.sival_int = GET(cell.number)};
    if (GET(cell.running)) pthread_sigqueue(cell.thread, SIGINT, number);
}

int jup_interrupted(void) { return GET(cell.pressed); }

int jup_is_running(void) { return GET(cell.running); }

void jup_running(int on) {
    if (on) SET(cell.pressed, 0), SET(cell.number, (GET(cell.number) + 1) & 0xffffff);
    SET(cell.running, on);
    jup_stdio_watch(on);
}

/* dlsh_run clears interrupts when it begins; one between the request and the first statement is set again. */
static void before_statement(dlsh_session *s, const char *text, size_t n) {
    (void)s, (void)text, (void)n;
    if (GET(cell.pressed)) dlsh_interrupt();
}

void dlsh_kernel_signals(void) {
    /* an interrupted write to a pipe must continue, or output would be lost */
    struct sigaction interrupt = {.sa_sigaction = on_interrupt, .sa_flags = SA_RESTART | SA_SIGINFO},
                     terminate = {.sa_handler = on_terminate, .sa_flags = SA_RESTART}, ignore = {.sa_handler = SIG_IGN};
    cell.thread = pthread_self();
    SET(cell.running, 1); /* the rc file */
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGTERM, &terminate, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* ---------------------------------------------------------------- requests */

json_t *jup_failure(const char *name, const char *message) {
    return json_pack("{s:s, s:s, s:o?, s:[]}", "status", "error", "ename", name, "evalue",
                     jup_text(message, strlen(message)), "traceback");
}

json_t *jup_shutdown(jup_request *r) {
    jup_end();
    return json_pack("{s:s, s:b}", "status", "ok", "restart", jup_content_bool(r, "restart", 0));
}

static json_t *answer_interrupt(DLSH_UNUSED jup_request *r) {
    return json_pack("{s:s}", "status", "ok"); /* on this channel it is read when no cell runs */
}

static json_t *no_answer(jup_request *r) { return (void)r, NULL; }

static const struct {
    const char *request, *reply;
    json_t *(*answer)(jup_request *r);
} requests[] = {{"execute_request", "execute_reply", jup_execute},
                {"complete_request", "complete_reply", jup_complete},
                {"inspect_request", "inspect_reply", jup_inspect},
                {"is_complete_request", "is_complete_reply", jup_is_complete},
                {"history_request", "history_reply", jup_history},
                {"kernel_info_request", "kernel_info_reply", jup_kernel_info},
                {"connect_request", "connect_reply", jup_ports},
                {"comm_info_request", "comm_info_reply", jup_comm_info},
                {"comm_open", NULL, jup_comm_open},
                {"comm_msg", NULL, no_answer},
                {"comm_close", NULL, no_answer},
                {"interrupt_request", "interrupt_reply", answer_interrupt},
                {"debug_request", "debug_reply", jup_debug},
                {"shutdown_request", "shutdown_reply", jup_shutdown}};

static void post_status(const char *state) {
    jup_post(JUP_IOPUB, jup.request, "status", json_pack("{s:s}", "execution_state", state), NULL);
}

/* busy, what the request makes, its reply, idle. */
void jup_answer(jup_request *r) {
    for (size_t i = 0; i < DLSH_COUNT(requests); i++) {
        if (strcmp(requests[i].request, r->type)) continue;
        jup.request = r;
        post_status("busy");
        json_t *reply = requests[i].answer(r);
        jup_sync();
        if (reply) jup_post(r->channel, r, requests[i].reply, reply, NULL);
        post_status("idle");
        dl_error_clear();
        jup.request = NULL;
        return;
    }
    jup_log("dlsh: a request of unknown type %.64s was ignored", r->type);
}

/* ---------------------------------------------------------------- the kernel */

/* C code has called exit, which cannot be stopped: the client gets the output so far and an error. */
static void on_process_exit(int status, void *process) {
    if (!GET(cell.running) || !jup.request || getpid() != *(pid_t *)process ||
        !pthread_equal(pthread_self(), cell.thread))
        return;
    char text[96];
    snprintf(text, sizeof text, "exit(%d) was called in C, which ends the kernel and all that is in it", status);
    SET(cell.running, 0);
    jup_sync();
    json_t *reply = jup_failure("exit", text);
    json_array_append_new(json_object_get(reply, "traceback"), jup_text(text, strlen(text)));
    json_t *error = json_copy(reply);
    json_object_del(error, "status");
    json_object_set_new(reply, "execution_count", json_integer(jup.count));
    if (!jup.silent) jup_post(JUP_IOPUB, jup.request, "error", error, NULL);
    jup_post(jup.request->channel, jup.request, "execute_reply", reply, NULL);
    post_status("idle");
    jup_io_stop();
}

/* Text of notebooks is UTF-8 whatever the launcher's locale is. */
static void use_utf8(void) {
    if (strcmp(nl_langinfo(CODESET), "UTF-8")) setlocale(LC_CTYPE, "C.UTF-8");
}

void dlsh_kernel_serve(dlsh_services *to) { to->before_statement = before_statement; }

int dlsh_kernel_run(dlsh_session *s, const char *connection_file) {
    jup_connection connection;
    if (!jup_connection_read(connection_file, &connection)) return DLSH_EXIT_USAGE;
    use_utf8();
    json_object_seed(0); /* before there are threads */
    jup.s = s;
    jup_debug_open();
    if (!jup_io_start(&connection)) return DLSH_EXIT_ERROR;
    jup_running(0);
    static pid_t process; /* children that C code forks call exit, too */
    process = getpid();
    on_exit(on_process_exit, &process);
    dlsh_session_set_sink(s, jup_sink());
    int code = DLSH_EXIT_OK;
    jup_request *r;
    while (!dlsh_exiting(s, &code) && (r = jup_next())) {
        jup_answer(r);
        jup_request_unref(r);
    }
    dlsh_session_set_sink(s, dlsh_console());
    jup_history_close();
    jup_io_stop();
    jup_debug_close();
    dlsh_buf_free(&jup.script);
    jup = (jup_kernel){0};
    return code;
}
