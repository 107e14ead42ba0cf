/* The debug adapter: the stack, variables and their parts, expressions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/dbg.h"
#include "jupyter/debugger.h"
#include "lang/eval/interp.h"
#include "view/tensor.h"

enum { MOST = 500, LONGEST = 4000 }; /* children of a value that are shown; bytes of an answer */

/* ---------------------------------------------------------------- numbers that stand for values */

typedef enum kind { GLOBALS = 1, LOCALS, VALUE } kind;

static struct {
    struct reference {
        kind kind;
        int frame;        /* LOCALS */
        dlsh_value value; /* VALUE; owned */
    } * all;
    int n, cap;
} known;

void jup_debug_forget(void) {
    for (int i = 0; i < known.n; i++) dlsh_drop(known.all[i].value);
    free(known.all);
    memset(&known, 0, sizeof known);
}

/* Takes v. 0 without memory: it has no children then. */
static int refer(kind k, int frame, dlsh_value v) {
    struct reference *grown = dlsh_grow(known.all, known.n, &known.cap, sizeof *grown);
    if (!grown) {
        dl_error_clear();
        dlsh_drop(v);
        return 0;
    }
    known.all = grown;
    grown[known.n++] = (struct reference){k, frame, v};
    return known.n;
}

/* ---------------------------------------------------------------- variables */

static int has_children(dlsh_value v) {
    switch (v.type) {
    case DLSH_LIST: return v.as.list->n > 0;
    case DLSH_RECORD: return v.as.record->n > 0;
    case DLSH_TENSOR:
    case DLSH_HANDLE: return 1;
    default: return 0;
    }
}

/* Of a value with parts clients show the type alone, so its line stands there, of a tensor without that word. Python's
 * name of a string makes them show its text. */
static json_t *type_of(dlsh_value v) {
    DLSH_SCOPED_BUF b = {0};
    if (v.type == DLSH_STR) return json_string("str");
    if (v.type != DLSH_TENSOR) dlsh_buf_puts(&b, dlsh_type_name(v));
    if (v.type == DLSH_LIST || v.type == DLSH_RECORD) dlsh_buf_puts(&b, ", ");
    if (v.type == DLSH_LIST || v.type == DLSH_RECORD || v.type == DLSH_TENSOR)
        if (dlsh_value_line(&b, v)) dl_error_clear();
    return jup_text(dlsh_buf_text(&b), b.n);
}

static json_t *line_of(dlsh_value v) {
    DLSH_SCOPED_BUF line = {0};
    if (dlsh_value_line(&line, v)) dl_error_clear();
    return jup_text(dlsh_buf_text(&line), line.n);
}

static void add(json_t *to, const char *name, dlsh_value v, const char *evaluate) {
    json_t *one =
        json_pack("{s:o?, s:o?, s:o?, s:i}", "name", jup_text(name, strlen(name)), "value", line_of(v), "type",
                  type_of(v), "variablesReference", has_children(v) ? refer(VALUE, 0, dlsh_ref(v)) : 0);
    if (evaluate) json_object_set_new(one, "evaluateName", jup_text(evaluate, strlen(evaluate)));
    json_array_append_new(to, one);
}

static void add_globals(json_t *to) {
    for (int i = 0; i < dlsh_global_count(jup.s); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(jup.s, i, &v);
        if (v && v->type != DLSH_VOID && strcmp(name, "_") != 0) add(to, name, *v, name);
    }
}

static void add_locals(json_t *to, int frame) {
    const char *name;
    dlsh_value v;
    for (int k = 0; (name = dlsh_running_variable(jup.s, frame, k, &v)); k++)
        if (v.type != DLSH_VOID) add(to, name, v, name);
}

/* The field of an object; functions are left out. */
static void add_field(json_t *to, dlsh_value of, const char *name) {
    dlsh_value v;
    if (dlsh_get_field(jup.s, of, name, &v)) {
        dl_error_clear();
        return;
    }
    if (!dlsh_callable(v)) add(to, name, v, NULL);
    dlsh_drop(v);
}

static void add_fields(json_t *to, dlsh_value of) {
    dlsh_value names;
    if (dlsh_field_names(jup.s, of, &names)) {
        dl_error_clear();
        return;
    }
    for (int i = 0; i < names.as.list->n && i < MOST; i++) add_field(to, of, names.as.list->items[i].as.str->s);
    dlsh_drop(names);
}

static void add_children(json_t *to, dlsh_value v) {
    static const char *const of_tensor[] = {"shape", "dtype", "device", "requires_grad", "grad", "data"};
    char at[24];
    for (int i = 0; v.type == DLSH_LIST && i < v.as.list->n && i < MOST; i++) {
        snprintf(at, sizeof at, "[%d]", i);
        add(to, at, v.as.list->items[i], NULL);
    }
    for (int i = 0; v.type == DLSH_RECORD && i < v.as.record->n && i < MOST; i++)
        add(to, v.as.record->keys[i], v.as.record->values[i], NULL);
    for (size_t i = 0; v.type == DLSH_TENSOR && i < DLSH_COUNT(of_tensor); i++) add_field(to, v, of_tensor[i]);
    if (v.type == DLSH_HANDLE) add_fields(to, v);
}

static long int_of(const json_t *arguments, const char *name) {
    return (long)json_integer_value(json_object_get(arguments, name));
}

json_t *jup_debug_variables(const json_t *a) {
    long number = int_of(a, "variablesReference");
    if (number < 1 || number > known.n) return jup_debug_fail("this value is not known any more");
    struct reference r = known.all[number - 1];
    json_t *list = json_array();
    if (r.kind == GLOBALS) add_globals(list);
    if (r.kind == LOCALS) add_locals(list, r.frame);
    if (r.kind == VALUE) add_children(list, r.value);
    return json_pack("{s:o}", "variables", list);
}

json_t *jup_debug_globals(DLSH_UNUSED const json_t *a) {
    json_t *list = json_array();
    if (!jup_debug_stopped()) jup_debug_forget();
    add_globals(list);
    return json_pack("{s:o}", "variables", list);
}

/* ---------------------------------------------------------------- the stack */

/* Frames of the client: the node of a walk, 0, and what runs, from 1 on. */
enum { NODE };

static json_t *frame(int id, const char *name, const char *unit, int line, int col) {
    const char *path = jup_debug_path(unit);
    json_t *f =
        json_pack("{s:i, s:o?, s:i, s:i}", "id", id, "name", jup_text(name, strlen(name)), "line", line, "column", col);
    if (*path) json_object_set_new(f, "source", json_pack("{s:s, s:s}", "name", unit, "path", path));
    return f;
}

static json_t *node_frame(void) {
    dl_recorded c;
    int backward;
    char name[300];
    if (!dlsh_nodewalk_node(&dlsh_dbg.walk, dlsh_dbg.walk.at, &c, &backward)) return NULL;
    snprintf(name, sizeof name, "%s %s%s%s", backward ? "backward" : "forward", c.op, *c.layer ? " of " : "", c.layer);
    return frame(NODE, name, *c.layer ? c.layer_file : c.file, *c.layer ? c.layer_line : c.line, 1);
}

json_t *jup_debug_stack(DLSH_UNUSED const json_t *a) {
    dlsh_running at;
    if (!jup_debug_stopped()) return jup_debug_fail("nothing stands still");
    json_t *frames = json_array(), *node = dlsh_dbg.active ? node_frame() : NULL;
    if (node) json_array_append_new(frames, node);
    for (int i = 0; dlsh_running_at(jup.s, i, &at); i++)
        json_array_append_new(frames, frame(i + 1, *at.name ? at.name : at.unit, at.unit, at.line, at.col));
    return json_pack("{s:o, s:i}", "stackFrames", frames, "totalFrames", (int)json_array_size(frames));
}

static void add_scope(json_t *to, const char *name, int reference) {
    json_array_append_new(to,
                          json_pack("{s:s, s:i, s:b}", "name", name, "variablesReference", reference, "expensive", 0));
}

json_t *jup_debug_scopes(const json_t *a) {
    int id = (int)int_of(a, "frameId");
    dlsh_running at;
    dlsh_value node;
    json_t *scopes = json_array();
    if (id == NODE && dlsh_dbg.active && !dlsh_dbg_value(jup.s, "node", 1, &node))
        add_scope(scopes, "Node", refer(VALUE, 0, node));
    if (id > NODE && dlsh_running_at(jup.s, id - 1, &at) && *at.name)
        add_scope(scopes, "Locals", refer(LOCALS, id - 1, dlsh_void()));
    add_scope(scopes, "Globals", refer(GLOBALS, 0, dlsh_void()));
    return json_pack("{s:o}", "scopes", scopes);
}

/* ---------------------------------------------------------------- expressions */

/* The value of a text in a frame. */
static dl_status value_in(int id, const char *text, dlsh_value *v) {
    size_t n = strlen(text);
    if (!jup_debug_stopped()) return dlsh_run(jup.s, "<debugger>", text, n, v);
    if (id == NODE && dlsh_dbg.active) return dlsh_dbg_value(jup.s, text, 0, v);
    return dlsh_running_run(jup.s, id > NODE ? id - 1 : 0, text, n, v);
}

static json_t *failed(void) {
    const dlsh_diag *kept = jup_debug_stopped() ? NULL : dlsh_error_diag(jup.s);
    jup_debug_fail("%s", kept ? kept->message : dl_errmsg());
    if (!kept) dlsh_place_clear(jup.s);
    dl_error_clear();
    return NULL;
}

static json_t *given(const json_t *a, const char *name) {
    json_t *text = json_object_get(a, name);
    return json_is_string(text) ? text : jup_debug_fail("the request has no string \"%s\"", name);
}

json_t *jup_debug_evaluate(const json_t *a) {
    json_t *text = given(a, "expression");
    DLSH_DROPPED dlsh_value v = dlsh_void();
    DLSH_SCOPED_BUF b = {0};
    if (!text) return NULL;
    if (value_in((int)int_of(a, "frameId"), json_string_value(text), &v)) return failed();
    if (v.type == DLSH_VOID) v = dlsh_none();
    if (dlsh_repr(&b, v)) dl_error_clear();
    json_t *body =
        json_pack("{s:o?, s:s, s:i}", "result", jup_text(dlsh_buf_text(&b), b.n < LONGEST ? b.n : (size_t)LONGEST),
                  "type", dlsh_type_name(v), "variablesReference", has_children(v) ? refer(VALUE, 0, dlsh_ref(v)) : 0);
    return body;
}

json_t *jup_debug_rich(const json_t *a) {
    json_t *name = given(a, "variableName"), *data, *metadata;
    DLSH_DROPPED dlsh_value v = dlsh_void();
    DLSH_SCOPED(dlsh_bundle_free) dlsh_bundle b = {0};
    if (!name) return NULL;
    if (value_in((int)int_of(a, "frameId"), json_string_value(name), &v)) return failed();
    dl_status st = jup_value_bundle(v, &b);
    if (!st) jup_bundle_json(&b, 0, &data, &metadata);
    return st ? failed() : json_pack("{s:o, s:o}", "data", data, "metadata", metadata);
}

json_t *jup_debug_copy(const json_t *a) {
    json_t *from = given(a, "srcVariableName"), *to = from ? given(a, "dstVariableName") : NULL;
    dlsh_value v;
    if (!to) return NULL;
    if (value_in((int)int_of(a, "srcFrameId"), json_string_value(from), &v)) return failed();
    return dlsh_set(jup.s, json_string_value(to), v) ? failed() : json_object();
}
