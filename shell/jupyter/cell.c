/* execute_request: running a cell, its result, its error, the expressions the client wants evaluated after it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/context.h"
#include "commands/settings.h"
#include "jupyter/kernel.h"
#include "view/console.h"
#include "view/plain.h"
#include "view/text.h"

/* ---------------------------------------------------------------- errors */

/* A frame of a traceback: a line and those below it that are indented. */
static size_t frame_length(const char *s) {
    size_t n = strcspn(s, "\n");
    while (s[n] && s[n + 1] == ' ') n += 1 + strcspn(s + n + 1, "\n");
    return n;
}

/* The failure of the last run: "error" on iopub has these three fields, and so has the reply. */
static void add_failure(json_t *to, dl_status status) {
    /* what ran well may still fail to be shown */
    const dlsh_diag own = {.severity = "error", .message = dl_errmsg()}, *kept = dlsh_error_diag(jup.s),
                    *d = kept ? kept : &own;
    const char *name = d->kind && *d->kind ? d->kind : dl_status_name(status), *message = d->message;
    json_t *traceback = json_array();
    DLSH_SCOPED_BUF text = {0};
    dlsh_plain_error(&text, d, dlsh_view.colour != DLSH_OFF);
    for (const char *at = dlsh_buf_text(&text); *at;) {
        size_t n = frame_length(at);
        json_array_append_new(traceback, jup_text(at, n));
        at += n + (at[n] == '\n');
    }
    json_object_set_new(to, "ename", jup_text(name, strlen(name)));
    json_object_set_new(to, "evalue", jup_text(message, strlen(message)));
    json_object_set_new(to, "traceback", traceback);
}

/* Without execution_count: it was not run, and clients would number it. */
static json_t *aborted_reply(void) {
    return jup_failure("aborted", "a cell before this one failed, so this one was not run");
}

/* ---------------------------------------------------------------- expressions */

static json_t *evaluate(const char *text, size_t len) {
    dlsh_value v;
    DLSH_SCOPED(dlsh_bundle_free) dlsh_bundle b = {0};
    json_t *result = json_object();
    dl_status status = dlsh_run(jup.s, "<user_expressions>", text, len, &v);
    if (!status && v.type == DLSH_VOID) v = dlsh_none();
    int shown = !status && !jup_value_bundle(v, &b);
    json_object_set_new(result, "status", json_string(shown ? "ok" : "error"));
    if (shown) {
        json_t *data, *metadata;
        jup_bundle_json(&b, 0, &data, &metadata);
        json_object_set_new(result, "data", data);
        json_object_set_new(result, "metadata", metadata);
    } else {
        add_failure(result, status);
    }
    if (!status) dlsh_drop(v);
    return result;
}

static json_t *evaluate_all(jup_request *r) {
    json_t *results = json_object(), *wanted = json_object_get(r->content, "user_expressions"), *text;
    const char *name;
    json_object_foreach(wanted, name, text) {
        if (json_is_string(text))
            json_object_set_new(results, name, evaluate(json_string_value(text), json_string_length(text)));
        else
            json_object_set_new(results, name, jup_failure("value error", "an expression is a string"));
    }
    return results;
}

/* ---------------------------------------------------------------- running */

/* The cells so far are the script that runs record. */
static void remember(const char *code, size_t len) {
    dlsh_buf *script = &jup.script;
    const char *path = getenv("JPY_SESSION_NAME");
    dlsh_buf_printf(script, "%s# In [%ld]\n", script->n ? "\n" : "", jup.count);
    dlsh_buf_add(script, code, len);
    if (len && code[len - 1] != '\n') dlsh_buf_puts(script, "\n");
    dlsh_origin origin = {path ? path : "", dlsh_buf_text(script), ""};
    if (dlsh_origin_set(&origin)) dl_error_clear(); /* without memory the record is the shorter */
}

static dl_status run_code(const char *code, size_t len, dlsh_buf *output) {
    char name[32];
    size_t n;
    dlsh_value v;
    snprintf(name, sizeof name, "In [%ld]", jup.count);
    DLSH_FREED char *text = jup_cell_text(code, len, &n);
    if (!text) return dlsh_no_memory("the cell");
    double start = dl_seconds();
    dl_status status = dlsh_run(jup.s, name, text, n, &v);
    if (!status) {
        /* sleeping C returns early and the last loop may be at its end: what waits after the cell must not run */
        if (jup_interrupted())
            status = dlsh_fail(DL_ERR_INTERRUPT, NULL, "interrupted");
        else if (v.type != DLSH_VOID)
            status = jup_show_result(v, output);
        dlsh_drop(v);
    }
    if (!jup.silent && (dlsh_timing || jup_cell_timed(code, len))) {
        DLSH_SCOPED_BUF b = {0};
        dlsh_duration(&b, dl_seconds() - start);
        dlsh_put(jup_sink(), "(%s)\n", dlsh_buf_text(&b));
    }
    return status;
}

static json_t *reply_of(jup_request *r, dl_status status) {
    json_t *reply =
        json_pack("{s:s, s:I}", "status", status ? "error" : "ok", "execution_count", (json_int_t)jup.count);
    if (status) {
        DLSH_ENDED(json_decref) json_t *error = json_object();
        add_failure(error, status);
        json_object_update(reply, error);
        if (!jup.silent) {
            jup_sync();
            jup_post(JUP_IOPUB, r, "error", json_incref(error), NULL);
        }
    }
    json_t *expressions = status ? json_object() : evaluate_all(r);
    if (dlsh_exiting(jup.s, NULL))
        json_array_append_new(jup.payload, json_pack("{s:s, s:b}", "source", "ask_exit", "keepkernel", 0));
    json_object_set_new(reply, "user_expressions", expressions);
    json_object_set_new(reply, "payload", jup.payload);
    jup.payload = NULL;
    return reply;
}

json_t *jup_execute(jup_request *r) {
    size_t len;
    const char *code = jup_content_text(r, "code", &len);
    if (!code) return jup_failure("value error", "an execute_request has a string \"code\"");
    if (jup_cell_aborted(r)) return aborted_reply();
    int silent = jup_content_bool(r, "silent", 0), store = !silent && jup_content_bool(r, "store_history", 1);
    jup.silent = silent;
    jup.may_ask = jup_content_bool(r, "allow_stdin", 1);
    jup.payload = json_array();
    if (store) jup.count++;
    jup_running(1); /* who is told that the cell runs can interrupt it */
    if (!silent)
        jup_post(JUP_IOPUB, r, "execute_input",
                 json_pack("{s:o?, s:I}", "code", jup_text(code, len), "execution_count", (json_int_t)jup.count), NULL);
    jup_sync();
    jup_post_parent(r, silent);
    jup_sink_begin();
    jup_debug_cell(jup.count, code, len);
    if (!silent) remember(code, len);
    DLSH_SCOPED_BUF output = {0};
    dl_status status = run_code(code, len, &output);
    json_t *reply = reply_of(r, status);
    jup_running(0);
    jup_sync();
    if (store) jup_history_add(jup.count, code, len, output.n ? dlsh_buf_text(&output) : NULL);
    if (status && !silent && jup_content_bool(r, "stop_on_error", 1)) jup_cell_failed(r);
    jup.silent = 0;
    return reply;
}
