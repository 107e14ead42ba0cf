/* Reads the messages of compilers: gcc's JSON, "file:line:col: error: text" of others, "file(line): error: text" of
 * nvcc. */
#include "ffi/compiler/compile.h"

#include <ctype.h>
#include "lang/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/session.h"

void dlsh_cc_result_free(dlsh_cc_result *r) {
    free(r->messages);
    r->messages = NULL;
    r->nmessages = 0;
    r->unread = 0;
    memset(r->kept, 0, sizeof r->kept);
    memset(r->left_out, 0, sizeof r->left_out);
}

/* Counts a message that is beyond the number to keep. */
static int is_enough(dlsh_cc_result *r, int error) {
    if (r->kept[error] < DLSH_CC_KEPT) return 0;
    r->left_out[error]++;
    return 1;
}

static dlsh_cc_message *add(dlsh_cc_result *r, int error) {
    dlsh_cc_message *m = realloc(r->messages, (size_t)(r->nmessages + 1) * sizeof *m);
    if (!m) return dlsh_no_memory("the compiler's messages"), NULL;
    r->messages = m;
    m += r->nmessages++;
    r->kept[error]++;
    *m = (dlsh_cc_message){.width = 1, .error = error};
    return m;
}

/* ---------------------------------------------------------------- JSON */

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int column(const json_t *place) {
    const json_t *c = json_object_get(place, "byte-column");
    return (int)json_integer_value(c ? c : json_object_get(place, "column"));
}

/* Sets the place in the text; col 0: not known. */
static void set_place(const dlsh_cc_job *job, int line, int col, dlsh_cc_message *m) {
    int first = dlsh_cc_first_line(job);
    if (line < first) return;
    m->line = job->line + line - first;
    m->col = line == first && col ? job->col + col - 1 : col;
}

/* Reads the place of a message that is in the text's own file; the prelude has another file name. */
static void read_place(const dlsh_cc_job *job, const json_t *message, dlsh_cc_message *m) {
    const json_t *at = json_array_get(json_object_get(message, "locations"), 0), *caret = json_object_get(at, "caret"),
                 *start = json_object_get(at, "start"), *finish = json_object_get(at, "finish");
    if (!start) start = caret;
    if (strcmp(text_of(caret, "file"), DLSH_CC_FILE)) {
        const char *file = text_of(caret, "file");
        if (*file)
            snprintf(m->hint, sizeof m->hint, "it is about %s, line %d", file,
                     (int)json_integer_value(json_object_get(caret, "line")));
        return;
    }
    int line = (int)json_integer_value(json_object_get(start, "line"));
    set_place(job, line, column(start), m);
    if (finish && json_integer_value(json_object_get(finish, "line")) == line)
        m->width = column(finish) - column(start) + 1;
    if (m->width < 1) m->width = 1;
}

/* Takes the first note, or proposed replacement, as the hint. */
static void read_hint(const json_t *message, dlsh_cc_message *m) {
    const json_t *fix = json_array_get(json_object_get(message, "fixits"), 0),
                 *note = json_array_get(json_object_get(message, "children"), 0);
    const char *s = text_of(fix, "string"), *n = text_of(note, "message");
    if (strstr(n, "each undeclared identifier is reported")) n = "";
    if (*s && !strchr(s, '\n'))
        snprintf(m->hint, sizeof m->hint, "write %s", s);
    else if (*n)
        snprintf(m->hint, sizeof m->hint, "%s", n);
}

static dl_status read_diagnostic(const dlsh_cc_job *job, const json_t *j, dlsh_cc_result *r) {
    const char *kind = text_of(j, "kind");
    int error = strstr(kind, "error") != NULL;
    if ((!error && strcmp(kind, "warning")) || is_enough(r, error)) return DL_OK;
    dlsh_cc_message *m = add(r, error);
    if (!m) return DL_ERR_MEMORY;
    snprintf(m->text, sizeof m->text, "%s", text_of(j, "message"));
    read_place(job, j, m);
    if (!m->hint[0]) read_hint(j, m);
    return DL_OK;
}

/* Reads a list of diagnostics one by one, so that many need no more memory, and a truncated list is read up to its end.
 * */
static dl_status read_json(const dlsh_cc_job *job, const char *s, size_t n, dlsh_cc_result *r) {
    for (size_t at = 1; at < n && s[at] != ']'; at++) {
        json_error_t end;
        DLSH_ENDED(json_decref) json_t *j = json_loadb(s + at, n - at, JSON_DISABLE_EOF_CHECK, &end);
        if (!j) return DL_OK;
        DLSH_TRY(read_diagnostic(job, j, r));
        at += (size_t)end.position;
        while (at < n && s[at] != ',' && s[at] != ']') at++;
        if (at < n && s[at] == ']') break;
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- lines */

static const char *after(const char *line, const char *word) {
    const char *p = strstr(line, word);
    return p ? p + strlen(word) : NULL;
}

/* "FILE:LINE:COL: " or "FILE:LINE: " or "FILE(LINE): ", where FILE is the text's. */
static void read_line_place(const dlsh_cc_job *job, const char *line, dlsh_cc_message *m) {
    const char *p = after(line, DLSH_CC_FILE); /* tcc puts its folder before it */
    int at = 0, col = 0;
    if (!p || (sscanf(p, ":%d:%d:", &at, &col) < 1 && sscanf(p, "(%d)", &at) < 1)) return;
    set_place(job, at, col, m);
}

static dl_status read_line(const dlsh_cc_job *job, char *line, dlsh_cc_result *r) {
    const char *error = after(line, "error: "), *warning = error ? NULL : after(line, "warning: ");
    if (!error) error = after(line, "undefined reference to ") ? line : NULL;
    const char *library = after(line, "cannot find -l");
    if (library) error = line;
    const char *text = error ? error : warning;
    if (!text || strstr(line, "error: ld returned") || strstr(line, "error: collect2")) return DL_OK;
    if (is_enough(r, error != NULL)) return DL_OK;
    dlsh_cc_message *m = add(r, error != NULL);
    if (!m) return DL_ERR_MEMORY;
    const char *undefined = strstr(text, "undefined reference to ");
    snprintf(m->text, sizeof m->text, "%s", undefined ? undefined : text);
    if (library)
        snprintf(m->text, sizeof m->text, "there is no library '%.*s' to link with", (int)strcspn(library, ":"),
                 library);
    if (undefined) snprintf(m->hint, sizeof m->hint, "name its library: C lib=\"NAME\" { ... }");
    read_line_place(job, line, m);
    return DL_OK;
}

/* ---------------------------------------------------------------- nvcc's columns
 * nvcc gives the line only. It shows the line below the message, indented by two columns and with macros expanded, with
 * a caret under it; the column is found by comparing this with the source line. */

static int same_char(char a, char b) { return a == b || (isspace((unsigned char)a) && isspace((unsigned char)b)); }

/* The column in the source line of a caret in the shown line, from 1; 0: not known. */
static int column_of(const char *shown, size_t nshown, size_t caret, const char *source, size_t nsource) {
    size_t before = 0, behind = 0;
    while (before < nshown && before < nsource && same_char(shown[before], source[before])) before++;
    if (caret < before) return (int)caret + 1;
    while (behind < nshown && behind < nsource && same_char(shown[nshown - 1 - behind], source[nsource - 1 - behind]))
        behind++;
    if (caret >= nshown) return (int)(nsource + caret - nshown) + 1;
    return nshown - caret <= behind ? (int)(nsource - (nshown - caret)) + 1 : 0;
}

static size_t word_length(const char *s, size_t n) {
    size_t k = 0;
    while (k < n && (isalnum((unsigned char)s[k]) || s[k] == '_')) k++;
    return k ? k : 1;
}

/* If a line holds only a caret below the line `above`, sets column and width of the last message. */
static void read_caret(const dlsh_cc_job *job, const char *above, size_t nabove, const char *line, size_t n, int at,
                       dlsh_cc_message *m) {
    size_t blank = 0, nsource;
    while (blank < n && line[blank] == ' ') blank++;
    if (blank + 1 != n || line[blank] != '^' || blank < 2 || nabove < 2) return;
    int line_at = 1; /* the text holds #line directives, and a line may stand there in several pieces */
    const char *end = job->text + job->len;
    for (const char *s = job->text; s < end; s += nsource + 1) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        nsource = (size_t)((stop ? stop : end) - s);
        if (nsource > 6 && !strncmp(s, "#line ", 6)) {
            line_at = atoi(s + 6);
            continue;
        }
        int col = line_at++ == at ? column_of(above + 2, nabove - 2, blank - 2, s, nsource) : 0;
        if (!col) continue;
        set_place(job, at, col, m);
        if ((size_t)col <= nsource) m->width = (int)word_length(s + col - 1, nsource - (size_t)col + 1);
        return;
    }
}

dl_status dlsh_cc_read_messages(const dlsh_cc_job *job, const char *output, size_t n, dlsh_cc_result *r) {
    const char *end = output + n, *above = NULL;
    size_t nabove = 0;
    int at = 0; /* the line of the last message, in the text */
    for (const char *p = output; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) stop = end;
        size_t len = (size_t)(stop - p);
        dl_status st = DL_OK;
        if (*p == '[') {
            st = read_json(job, p, len, r);
        } else {
            DLSH_FREED char *line = strndup(p, len);
            int had = r->nmessages;
            st = line ? read_line(job, line, r) : dlsh_no_memory("a message");
            if (r->nmessages > had &&
                (!after(line, DLSH_CC_FILE) || sscanf(after(line, DLSH_CC_FILE), "(%d)", &at) < 1))
                at = 0;
            if (at && above && r->nmessages) read_caret(job, above, nabove, p, len, at, &r->messages[r->nmessages - 1]);
        }
        if (st) return st;
        above = p;
        nabove = len;
        p = stop + 1;
    }
    return DL_OK;
}
