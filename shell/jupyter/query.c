/* What a client asks beside running cells: help, is it complete, what kernel this is, comms. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/help.h"
#include "front/front.h"
#include "jupyter/kernel.h"
#include "front/scan.h"

json_t *jup_refused(const char *what) {
    char message[64];
    snprintf(message, sizeof message, "the request has no string \"%s\"", what);
    return jup_failure("value error", message);
}

int jup_code_and_cursor(jup_request *r, const char **code, size_t *len, size_t *cursor) {
    *code = jup_content_text(r, "code", len);
    if (!*code) return 0;
    long points = jup_content_int(r, "cursor_pos", -1);
    *cursor = points < 0 ? *len : jup_bytes_of(*code, *len, points);
    return 1;
}

/* ---------------------------------------------------------------- inspection */

static int in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The chain of names under the cursor, or the function in whose brackets it stands. Returns its length. */
static size_t name_at(const char *code, size_t len, size_t cursor, size_t *from) {
    size_t end = cursor;
    while (end < len && in_name(code[end])) end++;
    for (*from = cursor; *from > 0 && (in_name(code[*from - 1]) || code[*from - 1] == '.');) --*from;
    while (*from < end && code[*from] == '.') ++*from;
    if (end > *from && !isdigit((unsigned char)code[*from])) return end - *from;
    dlsh_cursor c = dlsh_scan(code, cursor);
    if (c.open == '(' && c.bracket > 0) return name_at(code, c.bracket, c.bracket, from);
    for (*from = c.statement; *from < cursor && isspace((unsigned char)code[*from]);) ++*from;
    for (end = *from; end < cursor && in_name(code[end]);) end++;
    return end - *from;
}

/* The value of a chain of names, abridged to some lines; returns 0 when it has none. */
static int put_value(dlsh_buf *page, const char *name, size_t len, int whole) {
    enum { LINES = 12 };
    DLSH_DROPPED dlsh_value v = dlsh_void();
    DLSH_SCOPED(dlsh_bundle_free) dlsh_bundle b = {0};
    if (!dlsh_chain_value(jup.s, name, len, &v)) return 0;
    if (!dlsh_callable(v) && !jup_value_bundle(v, &b)) {
        const char *text = dlsh_buf_text(&b.text), *end = text;
        for (int i = 0; (whole || i < LINES) && (end = strchr(end, '\n')); i++) end++;
        dlsh_buf_add(page, text, end ? (size_t)(end - text) : b.text.n);
        if (end && *end) dlsh_buf_puts(page, "...\n");
    }
    const char *dot = memchr(name, '.', len);
    const char *type = dlsh_type_name(v);
    if (dot) dlsh_buf_printf(page, "%.*s is %s %s.\n", (int)len, name, strchr("aeiou", *type) ? "an" : "a", type);
    dl_error_clear();
    return 1;
}

json_t *jup_inspect(jup_request *r) {
    const char *code;
    size_t len, cursor, from;
    if (!jup_code_and_cursor(r, &code, &len, &cursor)) return jup_refused("code");
    size_t n = name_at(code, len, cursor, &from);
    DLSH_SCOPED_BUF page = {0};
    dlsh_look look = dlsh_sink_look(jup_sink());
    char name[128];
    int found = n && put_value(&page, code + from, n, jup_content_int(r, "detail_level", 0) > 0);
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, code + from);
    look.colour = 0;
    look.width = 78; /* a tooltip */
    if (*name) found |= dlsh_help_page(jup.s, name, &look, &page);
    /* x.sum: the method's page */
    const char *dot = strrchr(name, '.');
    if (!found && dot && dot[1]) found = dlsh_help_page(jup.s, dot + 1, &look, &page);
    json_t *data = json_object();
    if (found) jup_page_json(data, dlsh_buf_text(&page), page.n);
    return json_pack("{s:s, s:b, s:o, s:{}}", "status", "ok", "found", found, "data", data, "metadata");
}

/* ---------------------------------------------------------------- completeness */

/* A cell of C ends with an empty line; nothing else tells that a function does not follow. */
static dlsh_completeness c_completeness(const char *code, size_t len) {
    while (len && (code[len - 1] == ' ' || code[len - 1] == '\t')) len--;
    return len > 1 && code[len - 1] == '\n' && code[len - 2] == '\n' ? DLSH_COMPLETE : DLSH_INCOMPLETE;
}

json_t *jup_is_complete(jup_request *r) {
    static const char *const names[] = {
        [DLSH_COMPLETE] = "complete", [DLSH_INCOMPLETE] = "incomplete", [DLSH_INVALID] = "invalid"};
    size_t len, n;
    const char *code = jup_content_text(r, "code", &len);
    if (!code) return jup_refused("code");
    DLSH_FREED char *text = jup_cell_text(code, len, &n);
    if (!text) return jup_failure("out of memory", "no memory for the cell");
    int c = jup_cell_is_c(code, len);
    dlsh_completeness state = c ? c_completeness(code, len) : dlsh_is_complete(jup.s, text, n);
    json_t *reply = json_pack("{s:s}", "status", names[state]);
    if (state == DLSH_INCOMPLETE) {
        dlsh_cursor at = dlsh_scan(text, n);
        char indent[65];
        int depth = c ? 0 : at.blocks + (at.open != 0);
        snprintf(indent, sizeof indent, "%*s", depth < 16 ? 4 * depth : 64, "");
        json_object_set_new(reply, "indent", json_string(indent));
    }
    dl_error_clear();
    return reply;
}

/* ---------------------------------------------------------------- the kernel itself */

json_t *jup_kernel_info(DLSH_UNUSED jup_request *r) {
    char banner[128];
    snprintf(banner, sizeof banner, "dlsh %s: a deep-learning workbench in C. help tells more.", dl_version());
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:[], s:[s], s:{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s}}}", "status",
                     "ok", "protocol_version", JUP_PROTOCOL, "implementation", "dlsh", "implementation_version",
                     dl_version(), "banner", banner, "debugger", 1, "help_links", "supported_features", "debugger",
                     "language_info", "name", "dlsh", "version", dl_version(), "mimetype", "text/x-dlsh",
                     "file_extension", ".dlsh", "pygments_lexer", "dlsh", "codemirror_mode", "name", "dlsh", "mime",
                     "text/x-python"); /* the nearest, for clients without our mode */
}

/* ---------------------------------------------------------------- comms: none is known */

json_t *jup_comm_info(DLSH_UNUSED jup_request *r) { return json_pack("{s:s, s:{}}", "status", "ok", "comms"); }

json_t *jup_comm_open(jup_request *r) {
    size_t n;
    const char *id = jup_content_text(r, "comm_id", &n);
    if (id) jup_post(JUP_IOPUB, r, "comm_close", json_pack("{s:o?, s:{}}", "comm_id", jup_text(id, n), "data"), NULL);
    return NULL;
}
