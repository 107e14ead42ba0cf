/* The debug adapter: requests of the Debug Adapter Protocol, which come as debug_request on the control channel, and
 * its events. The thread of the sockets answers what needs no session; the rest waits for the session's thread, which
 * answers when it is idle or stands still. Clients know cells as files whose names are made of a hash of their text. */
#include "jupyter/debugger.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug/dbg.h"
#include "debug/stepper.h"
#include "front/scan.h"

enum { SEED = 0x2f0b4a1d, THREAD = 1 };

static struct {
    char prefix[64]; /* set before there are threads */
    int attached;    /* atomic */
    /* of the thread of the sockets */
    json_t *texts; /* of cells, by path */
    /* of the session's thread */
    unsigned *cells; /* hashes of the texts, by number */
    int ncells, capcells;
    char file[PATH_MAX], path[PATH_MAX]; /* the file that was looked up last */
    int stopped;                         /* atomic */
    int resumed, how;
} debugger;

static _Thread_local char why[240];
static _Thread_local jup_request *asked; /* the request that is answered */

json_t *jup_debug_fail(const char *fmt, ...) {
    DLSH_FORMATTED(fmt, vsnprintf(why, sizeof why, fmt, ap));
    return NULL;
}

int jup_debug_stopped(void) { return __atomic_load_n(&debugger.stopped, __ATOMIC_RELAXED); }

/* ---------------------------------------------------------------- cells as files */

/* MurmurHash2 of Austin Appleby: clients compute the same. */
static uint32_t hash(const char *s, size_t n) {
    const uint32_t m = 0x5bd1e995;
    uint32_t h = (uint32_t)SEED ^ (uint32_t)n;
    for (; n >= 4; s += 4, n -= 4) {
        uint32_t k;
        memcpy(&k, s, 4);
        k *= m;
        k ^= k >> 24;
        h = (h * m) ^ (k * m);
    }
    if (n > 2) h ^= (uint32_t)(unsigned char)s[2] << 16;
    if (n > 1) h ^= (uint32_t)(unsigned char)s[1] << 8;
    if (n > 0) h = (h ^ (unsigned char)s[0]) * m;
    h = (h ^ h >> 13) * m;
    return h ^ h >> 15;
}

/* JupyterLab shows the number of a cell only where the path has the word ipykernel_. */
void jup_debug_open(void) {
    snprintf(debugger.prefix, sizeof debugger.prefix, "/tmp/ipykernel_dlsh_%d/", (int)getpid());
}

static void cell_path(unsigned of, char out[PATH_MAX]) { snprintf(out, PATH_MAX, "%s%u.dlsh", debugger.prefix, of); }

void jup_debug_cell(long number, const char *code, size_t len) {
    jup_debug_forget();
    while (debugger.ncells <= number) {
        unsigned *grown = dlsh_grow(debugger.cells, debugger.ncells, &debugger.capcells, sizeof *grown);
        if (!grown) {
            dl_error_clear(); /* this cell cannot be stopped in */
            return;
        }
        debugger.cells = grown;
        grown[debugger.ncells++] = 0;
    }
    debugger.cells[number] = hash(code, len);
}

const char *jup_debug_path(const char *unit) {
    long number;
    if (*unit == '<') return "";
    if (sscanf(unit, "In [%ld]", &number) == 1) {
        if (number < 0 || number >= debugger.ncells) return "";
        *debugger.file = 0;
        cell_path(debugger.cells[number], debugger.path);
    } else if (strcmp(debugger.file, unit) != 0) {
        snprintf(debugger.file, sizeof debugger.file, "%s", unit);
        if (!realpath(unit, debugger.path)) *debugger.path = 0;
    }
    return debugger.path;
}

/* ---------------------------------------------------------------- arguments */

static const char *text_of(const json_t *object, const char *name) {
    const char *s = json_string_value(json_object_get(object, name));
    return s ? s : "";
}

static const char *path_of(const json_t *arguments) { return text_of(json_object_get(arguments, "source"), "path"); }

/* ---------------------------------------------------------------- events */

/* The error at which the session stands still, in words. */
static json_t *error_text(const dl_error *e) {
    DLSH_SCOPED_BUF b = {0};
    dlsh_buf_printf(&b, "%s%s%s%s%s%s", e->op, *e->op ? ": " : "", e->message, *e->operands ? " (" : "", e->operands,
                    *e->operands ? ")" : "");
    return jup_text(dlsh_buf_text(&b), b.n);
}

static json_t *thread_body(const char *reason) {
    json_t *body =
        json_pack("{s:i, s:b}", "threadId", (int)THREAD, reason ? "allThreadsStopped" : "allThreadsContinued", 1);
    if (reason) json_object_set_new(body, "reason", json_string(reason));
    if (reason && dlsh_stepper_error()) json_object_set_new(body, "text", error_text(dlsh_stepper_error()));
    return body;
}

static void post_event(jup_request *of, const char *event, json_t *body) {
    static int seq;
    jup_post(JUP_IOPUB, of, "debug_event",
             json_pack("{s:i, s:s, s:s, s:o}", "seq", __atomic_add_fetch(&seq, 1, __ATOMIC_RELAXED), "type", "event",
                       "event", event, "body", body),
             NULL);
}

/* ---------------------------------------------------------------- standing still */

static dlsh_step stopped(DLSH_UNUSED dlsh_session *s, const char *reason) {
    jup_request *of = jup.request, *r;
    jup_debug_forget();
    jup_sync();
    __atomic_store_n(&debugger.stopped, 1, __ATOMIC_RELAXED);
    debugger.resumed = 0;
    debugger.how = DLSH_STEP_RUN;
    post_event(of, "stopped", thread_body(reason));
    while (!debugger.resumed && (r = jup_next_debug())) {
        jup_answer(r);
        jup_request_unref(r);
        jup.request = of;
    }
    __atomic_store_n(&debugger.stopped, 0, __ATOMIC_RELAXED);
    jup_debug_forget();
    post_event(of, "continued", thread_body(NULL));
    return (dlsh_step)debugger.how;
}

int jup_debug_left(void) { return !__atomic_load_n(&debugger.attached, __ATOMIC_RELAXED); }

static const dlsh_stepper_client client = {jup_debug_path, stopped};

static void attach(int on) {
    __atomic_store_n(&debugger.attached, on, __ATOMIC_RELAXED);
    dlsh_stepper_attach(jup.s, on ? &client : NULL);
}

static json_t *resume(dlsh_step how) {
    if (!jup_debug_stopped()) return jup_debug_fail("nothing stands still");
    debugger.resumed = 1;
    debugger.how = how;
    return json_pack("{s:b}", "allThreadsContinued", 1);
}

static json_t *do_continue(const json_t *a) { return (void)a, resume(DLSH_STEP_RUN); }
static json_t *do_next(const json_t *a) { return (void)a, resume(DLSH_STEP_OVER); }
static json_t *do_step_in(const json_t *a) { return (void)a, resume(DLSH_STEP_INTO); }
static json_t *do_step_out(const json_t *a) { return (void)a, resume(DLSH_STEP_OUT); }

/* Statements cannot be undone. */
static json_t *resume_back(dlsh_step how) {
    if (jup_debug_stopped() && !dlsh_dbg.active)
        return jup_debug_fail("only nodes can be stepped over backwards: step into backward LOSS first");
    return resume(how);
}

static json_t *do_step_back(const json_t *a) { return (void)a, resume_back(DLSH_STEP_BACK); }
static json_t *do_reverse(const json_t *a) { return (void)a, resume_back(DLSH_STEP_REVERSE); }

/* ---------------------------------------------------------------- what needs no session */

static json_t *do_initialize(DLSH_UNUSED const json_t *a) {
    return json_pack("{s:b, s:b, s:b, s:b, s:b, s:[{s:s, s:s, s:b}, {s:s, s:s, s:b}]}",
                     "supportsConfigurationDoneRequest", 1, "supportsConditionalBreakpoints", 1,
                     "supportsEvaluateForHovers", 1, "supportsStepBack", 1, "supportsExceptionInfoRequest", 1,
                     "exceptionBreakpointFilters", "filter", "raised", "label", "All Errors", "default", 0, "filter",
                     "uncaught", "label", "Errors outside of try", "default", 0);
}

static json_t *do_attach(DLSH_UNUSED const json_t *a) {
    attach(1);
    post_event(asked, "initialized", json_object());
    return json_object();
}

static json_t *do_disconnect(DLSH_UNUSED const json_t *a) {
    attach(0);
    return json_object();
}

static json_t *nothing(const json_t *a) { return (void)a, json_object(); }

static void add_point(const char *path, int line, void *to) {
    json_t *all = to, *file = json_object_get(all, path);
    if (!file) json_object_set_new(all, path, file = json_array());
    json_array_append_new(file, json_pack("{s:i}", "line", line));
}

static json_t *do_info(DLSH_UNUSED const json_t *a) {
    json_t *points = json_object(), *files = json_array(), *lines;
    const char *path;
    dlsh_stepper_each(add_point, points);
    json_object_foreach(points, path, lines)
        json_array_append_new(files, json_pack("{s:s, s:O}", "source", path, "breakpoints", lines));
    json_decref(points);
    json_t *still = json_array();
    if (jup_debug_stopped()) json_array_append_new(still, json_integer(THREAD));
    return json_pack("{s:b, s:s, s:i, s:s, s:s, s:o, s:o, s:b, s:b, s:[]}", "isStarted", !jup_debug_left(),
                     "hashMethod", "Murmur2", "hashSeed", (int)SEED, "tmpFilePrefix", debugger.prefix, "tmpFileSuffix",
                     ".dlsh", "breakpoints", files, "stoppedThreads", still, "richRendering", 1, "copyToGlobals", 1,
                     "exceptionPaths");
}

static json_t *do_dump(const json_t *a) {
    const json_t *code = json_object_get(a, "code");
    char path[PATH_MAX];
    if (!json_is_string(code)) return jup_debug_fail("dumpCell has no string \"code\"");
    cell_path(hash(json_string_value(code), json_string_length(code)), path);
    if (!debugger.texts) debugger.texts = json_object();
    json_object_set(debugger.texts, path, (json_t *)code);
    return json_pack("{s:s}", "sourcePath", path);
}

/* The whole text of a file of at most 16 MiB; to be freed, NULL. */
static char *file_text(const char *path) {
    enum { LARGEST = 16 << 20 };
    DLSH_ENDED(fclose) FILE *f = fopen(path, "r");
    char *text = f ? calloc(1, LARGEST + 1) : NULL;
    if (text) text[fread(text, 1, LARGEST, f)] = 0;
    return text;
}

static char *source_text(const char *path) {
    const char *cell = text_of(debugger.texts, path);
    return *cell ? strdup(cell) : file_text(path);
}

static json_t *do_source(const json_t *a) {
    const char *path = path_of(a);
    DLSH_FREED char *text = source_text(path);
    return text ? json_pack("{s:o?, s:s}", "content", jup_text(text, strlen(text)), "mimeType", "text/x-dlsh")
                : jup_debug_fail("the text of %s is not known", path);
}

/* May a statement begin on the line at s? Lines of comments and closing braces have none, nor lines within brackets. */
static int has_statement(const char *text, const char *s) {
    s += strspn(s, " \t");
    return *s && *s != '\n' && *s != '#' && *s != '}' && !dlsh_scan(text, (size_t)(s - text)).open;
}

/* The first line from this one on where a statement begins; 0: there is none. Of an unknown text the line itself. */
static int line_to_stop_at(const char *text, int line) {
    const char *s = text;
    if (!text) return line;
    for (int i = 1; s; i++) {
        if (i >= line && has_statement(text, s)) return i;
        s = strchr(s, '\n');
        s += s != NULL;
    }
    return 0;
}

/* Fills lines and conditions, which borrow from `points`, and says for each whether it can be stopped at. */
static json_t *place_points(const json_t *points, const char *text, const json_t *source, int *lines,
                            const char **conditions, int *n) {
    json_t *out = json_array(), *p;
    size_t i;
    *n = 0;
    json_array_foreach(points, i, p) {
        int line = line_to_stop_at(text, (int)json_integer_value(json_object_get(p, "line")));
        const char *condition = text_of(p, "condition");
        json_t *placed = json_pack("{s:b, s:O?}", "verified", line > 0, "source", source);
        if (line) json_object_set_new(placed, "line", json_integer(line));
        if (!line) json_object_set_new(placed, "message", json_string("no statement begins here or below"));
        json_array_append_new(out, placed);
        if (!line) continue;
        lines[*n] = line;
        conditions[(*n)++] = *condition ? condition : NULL;
    }
    return out;
}

static json_t *do_set_breakpoints(const json_t *a) {
    enum { MOST = 256 };
    int lines[MOST], n;
    const char *conditions[MOST], *path = path_of(a);
    json_t *source = json_object_get(a, "source"), *points = json_object_get(a, "breakpoints");
    if (!*path) return jup_debug_fail("setBreakpoints has no source with a path");
    if (json_array_size(points) > MOST) return jup_debug_fail("at most %d breakpoints in a file", (int)MOST);
    DLSH_FREED char *text = source_text(path);
    json_t *placed = place_points(points, text, source, lines, conditions, &n);
    if (!dlsh_stepper_break(path, n, lines, conditions)) return json_pack("{s:o}", "breakpoints", placed);
    json_decref(placed);
    jup_debug_fail("%s", dl_errmsg());
    dl_error_clear();
    return NULL;
}

static json_t *do_threads(DLSH_UNUSED const json_t *a) {
    return json_pack("{s:[{s:i, s:s}]}", "threads", "id", (int)THREAD, "name", "session");
}

static json_t *do_pause(DLSH_UNUSED const json_t *a) {
    dlsh_stepper_pause();
    return json_object();
}

static json_t *do_exceptions(const json_t *a) {
    const json_t *filters = json_object_get(a, "filters"), *one;
    size_t i;
    int all = 0, uncaught = 0;
    json_array_foreach(filters, i, one) {
        const char *name = json_string_value(one);
        if (!name || (strcmp(name, "raised") != 0 && strcmp(name, "uncaught") != 0))
            return jup_debug_fail("the filters of errors are \"raised\" and \"uncaught\"");
        *(*name == 'r' ? &all : &uncaught) = 1;
    }
    dlsh_stepper_exceptions(all, uncaught);
    return json_object();
}

static json_t *do_exception_info(DLSH_UNUSED const json_t *a) {
    const dl_error *e = dlsh_stepper_error();
    if (!e) return jup_debug_fail("the session does not stand still at an error");
    return json_pack("{s:s, s:o, s:s, s:{s:s, s:o}}", "exceptionId", dl_status_name(e->code), "description",
                     error_text(e), "breakMode", "always", "details", "typeName", dl_status_name(e->code), "message",
                     error_text(e));
}

static json_t *do_modules(const json_t *a) { return (void)a, json_pack("{s:[], s:i}", "modules", "totalModules", 0); }

/* ---------------------------------------------------------------- requests */

static const struct {
    const char *name;
    jup_debug_answer *answer;
    int session; /* the session's thread answers */
} commands[] = {{"debugInfo", do_info, 0},
                {"initialize", do_initialize, 0},
                {"attach", do_attach, 0},
                {"configurationDone", nothing, 0},
                {"setExceptionBreakpoints", do_exceptions, 0},
                {"disconnect", do_disconnect, 0},
                {"terminate", do_disconnect, 0},
                {"dumpCell", do_dump, 0},
                {"source", do_source, 0},
                {"setBreakpoints", do_set_breakpoints, 0},
                {"threads", do_threads, 0},
                {"pause", do_pause, 0},
                {"modules", do_modules, 0},
                {"continue", do_continue, 1},
                {"next", do_next, 1},
                {"stepIn", do_step_in, 1},
                {"stepOut", do_step_out, 1},
                {"stepBack", do_step_back, 1},
                {"reverseContinue", do_reverse, 1},
                {"exceptionInfo", do_exception_info, 1},
                {"stackTrace", jup_debug_stack, 1},
                {"scopes", jup_debug_scopes, 1},
                {"variables", jup_debug_variables, 1},
                {"evaluate", jup_debug_evaluate, 1},
                {"inspectVariables", jup_debug_globals, 1},
                {"richInspectVariables", jup_debug_rich, 1},
                {"copyToGlobals", jup_debug_copy, 1}};

/* Its row; -1: the command is not known. */
static int row_of(const jup_request *r) {
    const char *name = text_of(r->content, "command");
    for (size_t i = 0; i < DLSH_COUNT(commands); i++)
        if (!strcmp(commands[i].name, name)) return (int)i;
    return -1;
}

int jup_debug_needs_session(const jup_request *r) {
    int row = strcmp(r->type, "debug_request") != 0 ? -1 : row_of(r);
    return row >= 0 && commands[row].session;
}

json_t *jup_debug(jup_request *r) {
    static int seq;
    const char *name = text_of(r->content, "command");
    json_t *arguments = json_object_get(r->content, "arguments"), *number = json_object_get(r->content, "seq");
    int row = row_of(r);
    asked = r;
    json_t *body = row >= 0 ? commands[row].answer(arguments)
                            : jup_debug_fail("the debugger has no command %.60s", *name ? name : "without a name");
    json_t *reply = json_pack("{s:s, s:i, s:O?, s:b, s:s}", "type", "response", "seq",
                              __atomic_add_fetch(&seq, 1, __ATOMIC_RELAXED), "request_seq", number, "success",
                              body != NULL, "command", name);
    if (body)
        json_object_set_new(reply, "body", body);
    else
        json_object_set_new(reply, "message", jup_text(why, strlen(why)));
    return reply;
}

void jup_debug_close(void) {
    attach(0);
    jup_debug_forget();
    json_decref(debugger.texts);
    free(debugger.cells);
    memset(&debugger, 0, sizeof debugger);
}
