/* `break error`: the session stands still where an error is raised, and the debugger's prompt shows what was there. */
#include <stdlib.h>
#include <string.h>

#include "debug/dbg.h"
#include "debug/stepper.h"
#include "lang/eval/interp.h"
#include "view/sink.h"
#include "view/tensor.h"

typedef enum request { NOTHING, WHERE, VARIABLES, GO_ON } request;

static struct {
    const char *mode; /* "uncaught", "all"; NULL: off */
    int standing, level;
    request request; /* of a word of the prompt; done when the frames are those of the failure again */
} stop;

int dlsh_at_error_stands(void) { return stop.standing; }

/* ---------------------------------------------------------------- showing */

static void show_error(dlsh_sink *sink, const dl_error *e) {
    dlsh_put(sink, "error: %s\n", dl_error_line(e));
    if (*e->hint) dlsh_put(sink, "  hint: %s\n", e->hint);
}

/* The texts and calls that had begun, the one looked at marked. */
static dl_status show_frames(dlsh_session *s, dlsh_sink *sink) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"", 'l', ""}, {"#", 'r', ""}, {"in", 'l', ""}, {"line", 'l', ""});
    dlsh_running r;
    for (int i = 0; dlsh_running_at(s, i, &r); i++)
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string(i == stop.level ? ">" : ""), dlsh_int(i),
                                dlsh_string(*r.name ? r.name : "the text"), dlsh_dbg_line(s, r.unit, r.line)));
    return dlsh_table_show(sink, &t, DL_OK, "");
}

static dl_status show_variables(dlsh_session *s, dlsh_sink *sink) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"variable", 'l', ""}, {"value", 'l', ""});
    const char *name;
    dlsh_value v;
    for (int k = 0; (name = dlsh_running_variable(s, stop.level, k, &v)); k++) {
        DLSH_SCOPED_BUF line = {0};
        if (v.type == DLSH_VOID) continue;
        if (dlsh_value_line(&line, v)) dl_error_clear();
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string(name), dlsh_string(dlsh_buf_text(&line))));
    }
    return dlsh_table_show(sink, &t, DL_OK, "no variables of its own; vars lists those of the session\n");
}

static dl_status answer(dlsh_session *s, dlsh_sink *sink) {
    request r = stop.request;
    stop.request = r == GO_ON ? GO_ON : NOTHING;
    return r == WHERE ? show_frames(s, sink) : r == VARIABLES ? show_variables(s, sink) : DL_OK;
}

/* ---------------------------------------------------------------- the prompt */

/* A command or statement, with the variables of the frame looked at. */
static void run_line(dlsh_session *s, dlsh_sink *sink, const char *line) {
    DLSH_SCOPED_BUF text = {0};
    DLSH_DROPPED dlsh_value v = dlsh_void();
    dlsh_buf_printf(&text, "dbg { %s }", line);
    dl_status st = dlsh_running_run(s, stop.level, dlsh_buf_text(&text), text.n, &v);
    if (!st) st = answer(s, sink);
    if (st) dlsh_warn_failure(s);
}

/* Until the person goes on, or input ends. */
static void read_lines(dlsh_session *s, dlsh_sink *sink) {
    DLSH_SCOPED_BUF last = {0};
    while (stop.request != GO_ON && !s->exiting) {
        DLSH_SCOPED_BUF line = {0};
        if (dlsh_debug_ask(sink, "(dbg) ", &line)) {
            dl_error_clear();
            return;
        }
        if (line.n) {
            dlsh_buf_free(&last);
            dlsh_buf_add(&last, dlsh_buf_text(&line), line.n);
        }
        if (last.n) run_line(s, sink, dlsh_buf_text(&last));
    }
}

static const char *path(const char *unit) { return unit; }

static dlsh_step stopped(dlsh_session *s, DLSH_UNUSED const char *why) {
    const dl_error *e = dlsh_stepper_error();
    dlsh_sink *sink = dlsh_session_sink(s);
    if (!e) return DLSH_STEP_RUN;
    stop.standing = 1;
    stop.level = 0;
    stop.request = NOTHING;
    show_error(sink, e);
    if (show_frames(s, sink)) dl_error_clear();
    read_lines(s, sink);
    stop.standing = 0;
    return DLSH_STEP_RUN;
}

static const dlsh_stepper_client client = {path, stopped};

/* ---------------------------------------------------------------- commands */

const char *dlsh_at_error_mode(void) { return dlsh_stepper_attached() == &client ? stop.mode : NULL; }

dl_status dlsh_at_error_go_on(void) {
    stop.request = GO_ON;
    return DL_OK;
}

dl_status dlsh_at_error_where(void) {
    stop.request = WHERE;
    return DL_OK;
}

/* The frames of the texts that the prompt runs are inside those of the failure. */
static int frames_of_prompt(const dlsh_session *s) {
    dlsh_running r;
    int n = 0;
    while (dlsh_running_at(s, n, &r) && strcmp(r.unit, "<debugger>") != 0) n++;
    return n + 1;
}

int dlsh_at_error_frame(const dlsh_session *s) { return stop.standing ? frames_of_prompt(s) + stop.level : 0; }

static dl_status move(const dlsh_args *a, long by) {
    dlsh_session *s = dlsh_arg_session(a);
    dlsh_running r;
    if (!stop.standing) return dlsh_arg_fail(a, NULL, DL_ERR_STATE, "dbg { break error }", "no error stands here");
    long to = stop.level + by;
    if (to < 0 || !dlsh_running_at(s, (int)to + frames_of_prompt(s), &r))
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "where lists them", "there is no frame %ld", to);
    stop.level = (int)to;
    return dlsh_at_error_where();
}

static long count_of(const dlsh_args *a) { return dlsh_given(a, "n") ? dlsh_arg_int(a, "n") : 1; }

dl_status dlsh_at_error_up(const dlsh_args *a) { return move(a, count_of(a)); }

dl_status dlsh_at_error_down(const dlsh_args *a) { return move(a, -count_of(a)); }

dl_status dlsh_at_error_variables(const dlsh_args *a) {
    if (!stop.standing) return dlsh_arg_fail(a, NULL, DL_ERR_STATE, "dbg { break error }", "no error stands here");
    stop.request = VARIABLES;
    return DL_OK;
}

dl_status dlsh_at_error_break(const dlsh_args *a, const char *mode) {
    dlsh_session *s = dlsh_arg_session(a);
    int off = !strcmp(mode, "off"), all = !strcmp(mode, "all");
    if (*mode && !off && !all)
        return dlsh_arg_fail(a, "condition", DL_ERR_VALUE, "break error, break error all, or break error off",
                             "break error takes all or off, not '%s'", mode);
    int mine = dlsh_at_error_mode() != NULL;
    if (!mine && dlsh_stepper_attached())
        return dlsh_arg_fail(a, "condition", DL_ERR_STATE, "its breakpoints on exceptions stop there",
                             "another debugger is attached to this session");
    if (!off || mine) dlsh_stepper_attach(s, off ? NULL : &client);
    stop.mode = off ? NULL : all ? "all" : "uncaught";
    if (!off) dlsh_stepper_exceptions(all, 1);
    dlsh_put(dlsh_arg_sink(a), off   ? "errors: no stop\n"
                               : all ? "stops at each error, also within try\n"
                                     : "stops at each error that no try takes\n");
    return DL_OK;
}
