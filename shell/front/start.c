/* The whole of a session: options, the rc file, the front end, the end. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "debug/debug.h"
#include "debug/stepper.h"
#include "debug/undo/undo.h"
#include "commands/context.h"
#include "commands/families.h"
#include "commands/nets/nets.h"
#include "ffi/ffi.h"
#include "ffi/call/guard.h"
#include "ffi/isolate/isolate.h"
#include "front/front.h"
#include "view/console.h"

/* ---------------------------------------------------------------- Ctrl-C */

static volatile sig_atomic_t pressed;
static volatile sig_atomic_t last_press; /* in milliseconds; wraps around */

/* `timeout` and terminals send one request to the process and to its group: signals this close are one press. */
enum { ONE_PRESS_MS = 50 };

/* Tells at a second Ctrl-C what the session waits for. No number of them ends it. Runs in a signal handler. */
static void report_running(void) {
    const char *c = dlsh_guard_running(), *op = dl_doing(), *parts[5] = {"\ndlsh: stopping as soon as "};
    parts[1] = c ? "the C function " : op ? "" : "the statement";
    parts[2] = c ? c : op ? op : "";
    parts[3] = c ? " returns or can be left" : " comes to a point where it can";
    parts[4] = "; the session goes on\n";
    for (int i = 0; i < 5; i++)
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0) return;
}

static void on_interrupt(DLSH_UNUSED int sig) {
    int before = errno;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    sig_atomic_t now = (sig_atomic_t)((unsigned)t.tv_sec * 1000u + (unsigned)(t.tv_nsec / 1000000));
    bool further = pressed && (unsigned)now - (unsigned)last_press >= ONE_PRESS_MS;
    last_press = now;
    pressed = 1;
    dlsh_interrupt();
    if (further) report_running();
    errno = before;
}

/* Installs the handler of Ctrl-C. */
static void signals_setup(void) {
    struct sigaction a = {.sa_handler = on_interrupt};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
}

void dlsh_signals_reset(void) {
    if (pressed) clearerr(stdout); /* of a write that Ctrl-C has ended; broken output fails again */
    pressed = 0;
}
int dlsh_signals_pressed(void) { return pressed; }

/* ---------------------------------------------------------------- a session */

static void after_statement(dlsh_session *s) {
    dlsh_sink *sink = dlsh_session_sink(s);
    sink->ops->flush(sink);
    dlsh_store_warnings(s);
}

/* --echo: the statement, each of its lines marked. */
static void echo(dlsh_session *s, const char *text, size_t n) {
    dlsh_sink *sink = dlsh_session_sink(s);
    while (n) {
        const char *end = memchr(text, '\n', n);
        size_t len = end ? (size_t)(end - text) : n;
        dlsh_put(sink, "> %.*s\n", (int)len, text);
        len += end != NULL;
        text += len;
        n -= len;
    }
    sink->ops->flush(sink);
}

static int usage_failure(void) {
    dl_error e = dlsh_taken_error();
    dlsh_console_say("%s%s%s", e.message, *e.hint ? "; " : "", e.hint);
    return DLSH_EXIT_USAGE;
}

static int apply(const dlsh_options *o) {
    static const char *const modes[] = {"table", "csv", "json"};
    for (int i = 0; o->mode && i < 3; i++)
        if (!strcmp(o->mode, modes[i])) dlsh_view.mode = (dlsh_mode)i;
    if (o->db && dlsh_store_choose(o->db)) return usage_failure();
    if (o->device && dlsh_device_choose(o->device)) return usage_failure();
    if (o->seed) dl_seed(strtoul(o->seed, NULL, 10));
    if (!o->kernel && !o->sweep)
        *dlsh_script_args_get() = (dlsh_script_args){.n = o->nwords, .words = o->words, .list = o->script_help};
    return DLSH_EXIT_OK;
}

static dlsh_session *session_new(const dlsh_options *o, int notebooks) {
    dlsh_services services = {
        .before_statement = o->echo ? echo : NULL, .after_statement = after_statement, .keep_going = o->keep_going};
    dlsh_nets_serve(&services);
    dlsh_ffi_serve(&services);
    dlsh_debug_services(&services);
    dlsh_stepper_services(&services);
    dlsh_undo_services(&services);
    if (notebooks) dlsh_kernel_serve(&services);
    dlsh_session *s = dlsh_session_new(dlsh_console(), &services);
    if (s) dlsh_debug_serve(s);
    if (!s || !dlsh_add_families(s)) return s;
    dlsh_session_free(s);
    return NULL;
}

/* $XDG_CONFIG_HOME/dlsh/rc.dlsh or ~/.config/dlsh/rc.dlsh; a missing one is not a mistake. */
static int run_rc(dlsh_session *s) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    DLSH_SCOPED_BUF path = {0};
    if (config && *config)
        dlsh_buf_printf(&path, "%s/dlsh/rc.dlsh", config);
    else if (home && *home)
        dlsh_buf_printf(&path, "%s/.config/dlsh/rc.dlsh", home);
    int code = DLSH_EXIT_OK;
    if (path.n && !access(dlsh_buf_text(&path), R_OK)) {
        size_t len;
        DLSH_FREED char *text = dlsh_slurp(dlsh_buf_text(&path), &len);
        code = text ? dlsh_run_text(s, dlsh_buf_text(&path), text, len) : DLSH_EXIT_USAGE;
    }
    return code;
}

static int run_front_end(dlsh_session *s, const dlsh_options *o, const char *connection_file) {
    int batch = o->code || o->script || (!isatty(STDIN_FILENO) && !o->interactive), status;
    int code = o->no_rc ? DLSH_EXIT_OK : run_rc(s);
    if (dlsh_exiting(s, &status)) return status;
    if (code == DLSH_EXIT_INTERRUPTED) return code;
    if (connection_file || !batch) dlsh_undo_for_people();
    if (connection_file) return dlsh_kernel_run(s, connection_file);
    if (batch) {
        code = dlsh_batch(s, o);
        if (!o->interactive || dlsh_exiting(s, NULL)) return code;
        dlsh_undo_for_people();
    }
    return dlsh_repl(s, o);
}

static void print_version(void) {
    printf("dlsh %s\n", dl_version());
    for (int i = 0; i < dl_device_count(); i++) {
        char what[192];
        printf("%s: %s\n", dl_device_name(i), dl_device_describe(i, what, sizeof what) ? dl_errmsg() : what);
    }
    if (dl_device_count() == 1) printf("no GPU: %s\n", dl_device_missing());
}

int dlsh_main(int argc, char **argv) {
    dlsh_options o;
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit then fails with EFBIG */
    if (!dlsh_options_read(argc, argv, &o)) return DLSH_EXIT_USAGE;
    if (o.help || o.version) {
        if (o.version)
            print_version();
        else
            dlsh_options_help(stdout);
        return fflush(stdout) ? DLSH_EXIT_ERROR : DLSH_EXIT_OK;
    }
    setlocale(LC_CTYPE, "");
    const char *connection_file = NULL;
    int code = o.kernel  ? dlsh_kernel_command(&o, &connection_file)
               : o.sweep ? -1 /* workers of a sweep share its trials */
                         : dlsh_launch_stops();
    if (code >= 0) return code;
    if (connection_file)
        dlsh_kernel_signals();
    else
        signals_setup();
    code = apply(&o);
    if (code) return code;
    dlsh_session *s = session_new(&o, connection_file != NULL);
    if (!s) {
        dlsh_console_say("%s", dl_errmsg());
        return DLSH_EXIT_ERROR;
    }
    if (dlsh_isolate_asked()) {
        code = dlsh_isolate_serve(s);
        dlsh_session_free(s);
        return code;
    }
    code = run_front_end(s, &o, connection_file);
    dlsh_store_told_to(NULL);
    dlsh_session_free(s);
    dl_status closed = dlsh_store_close();
    if (closed) {
        dl_error e = dlsh_taken_error();
        dlsh_console_say("%s%s%s", e.message, *e.hint ? "; " : "", e.hint);
        if (!code && closed != DL_ERR_STORE) code = DLSH_EXIT_ERROR; /* what the store does not take waits beside it */
    }
    dlsh_console_end_line();
    if (fflush(stdout) || ferror(stdout)) {
        fputs("dlsh: standard output could not be written\n", stderr);
        if (!code) code = DLSH_EXIT_ERROR;
    }
    return code;
}
