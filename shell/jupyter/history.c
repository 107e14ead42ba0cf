/* The history of cells, in a file that all kernels of a user share: a JSON array a line, [session, number, code,
 * output]. Answers to history_request. */
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "commands/context.h"
#include "jupyter/kernel.h"

enum { KEPT = 10000, LONGEST_OUTPUT = 10000 };

static struct {
    json_t *cells; /* an array of the arrays */
    size_t read;   /* how many of them came from the file */
    long session;
    int fd; /* of the file; -1: there is none */
} history = {.fd = -1};

static void add(json_t *cell) {
    if (json_is_array(cell) && json_array_size(cell) >= 3 && json_is_string(json_array_get(cell, 2)))
        json_array_append(history.cells, cell);
    json_decref(cell);
}

/* Reads all lines; a last one cut off by a crash is left out. */
static void read_file(FILE *f) {
    DLSH_FREED char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, f)) > 0) add(json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL));
}

static long session_of(const json_t *cell) { return (long)json_integer_value(json_array_get(cell, 0)); }
static long number_of(const json_t *cell) { return (long)json_integer_value(json_array_get(cell, 1)); }
static const char *code_of(const json_t *cell) { return json_string_value(json_array_get(cell, 2)); }

static int write_line(int fd, json_t *cell) {
    DLSH_FREED char *text = json_dumps(cell, JSON_COMPACT);
    size_t n = text ? strlen(text) : 0;
    if (text) text[n++] = '\n'; /* in the place of the NUL */
    return text && write(fd, text, n) == (ssize_t)n;
}

/* Leaves the newest half in the file. */
static void shorten(void) {
    size_t n = json_array_size(history.cells);
    if (n <= KEPT || ftruncate(history.fd, 0)) return;
    json_array_remove(history.cells, 0);
    while (json_array_size(history.cells) > KEPT / 2) json_array_remove(history.cells, 0);
    for (size_t i = 0; i < json_array_size(history.cells); i++)
        if (!write_line(history.fd, json_array_get(history.cells, i))) return;
}

/* Called at the first use, so that the start of the kernel does not wait for it. The lock of the file guards the number
 * of the session. */
static void open_history(void) {
    if (history.cells) return;
    history.cells = json_array();
    history.session = 1;
    DLSH_FREED char *path = dlsh_state_file("cells.jsonl");
    history.fd = path ? open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (history.fd < 0) return; /* this session alone then */
    flock(history.fd, LOCK_EX);
    int copy = dup(history.fd);
    FILE *f = copy >= 0 ? fdopen(copy, "r") : NULL;
    if (f) {
        read_file(f);
        fclose(f);
    }
    size_t n = json_array_size(history.cells);
    for (size_t i = 0; i < n; i++)
        if (session_of(json_array_get(history.cells, i)) >= history.session)
            history.session = session_of(json_array_get(history.cells, i)) + 1;
    shorten();
    history.read = json_array_size(history.cells);
    /* an empty cell reserves the number of this session */
    DLSH_ENDED(json_decref) json_t *mark = json_pack("[I,i,s]", (json_int_t)history.session, 0, "");
    if (mark) write_line(history.fd, mark);
    flock(history.fd, LOCK_UN);
}

void jup_history_add(long number, const char *code, size_t len, const char *output) {
    size_t n = output ? strlen(output) : 0;
    if (n && output[n - 1] == '\n') n--;
    if (n > LONGEST_OUTPUT) n = LONGEST_OUTPUT - jup_text_unfinished(output, LONGEST_OUTPUT);
    open_history();
    json_t *cell = json_pack("[I,I,o?,o?]", (json_int_t)history.session, (json_int_t)number, jup_text(code, len),
                             output ? jup_text(output, n) : NULL);
    if (!cell) return;
    if (history.fd >= 0) {
        flock(history.fd, LOCK_EX);
        write_line(history.fd, cell);
        flock(history.fd, LOCK_UN);
    }
    add(cell);
}

void jup_history_close(void) {
    json_decref(history.cells);
    history.cells = NULL;
    if (history.fd >= 0) close(history.fd);
    history.fd = -1;
}

/* ---------------------------------------------------------------- answers */

typedef struct choice {
    const char *pattern; /* search */
    long session, start, stop;
    int unique;
} choice;

static int later_same(size_t i) {
    const char *code = code_of(json_array_get(history.cells, i));
    for (size_t j = json_array_size(history.cells); --j > i;)
        if (!strcmp(code_of(json_array_get(history.cells, j)), code)) return 1;
    return 0;
}

static int fits(const choice *c, size_t i) {
    const json_t *cell = json_array_get(history.cells, i);
    if (number_of(cell) == 0) return 0; /* the mark of a session */
    if (c->session && session_of(cell) != c->session) return 0;
    if (number_of(cell) < c->start || (c->stop && number_of(cell) >= c->stop)) return 0;
    if (c->pattern && fnmatch(c->pattern, code_of(cell), FNM_NOESCAPE)) return 0;
    return !c->unique || !later_same(i);
}

static json_t *entry(const json_t *cell, int output) {
    json_t *code = json_array_get(cell, 2), *shown = json_array_get(cell, 3);
    json_t *e = json_pack("[O,O]", json_array_get(cell, 0), json_array_get(cell, 1));
    json_array_append_new(e, output ? json_pack("[O,O?]", code, shown) : json_incref(code));
    return e;
}

json_t *jup_history(jup_request *r) {
    size_t n;
    const char *how = jup_content_text(r, "hist_access_type", &n), *pattern = jup_content_text(r, "pattern", &n);
    int output = jup_content_bool(r, "output", 0);
    long most = jup_content_int(r, "n", 0);
    choice c = {0};
    if (!how) return jup_failure("value error", "hist_access_type is \"tail\", \"range\" or \"search\"");
    open_history();
    if (!strcmp(how, "range")) {
        c.session = jup_content_int(r, "session", 0);
        if (c.session <= 0) c.session += history.session; /* 0: this one, -1: the one before */
        c.start = jup_content_int(r, "start", 0);
        c.stop = jup_content_int(r, "stop", 0);
        most = 0;
    } else if (!strcmp(how, "search")) {
        c.pattern = pattern ? pattern : "*";
        c.unique = jup_content_bool(r, "unique", 0);
    } else if (strcmp(how, "tail")) {
        return jup_failure("value error", "hist_access_type is \"tail\", \"range\" or \"search\"");
    }
    json_t *entries = json_array();
    for (size_t i = json_array_size(history.cells); i-- > 0 && (most <= 0 || (long)json_array_size(entries) < most);)
        if (fits(&c, i)) json_array_insert_new(entries, 0, entry(json_array_get(history.cells, i), output));
    return json_pack("{s:s, s:o}", "status", "ok", "history", entries);
}
