/* Values at the debugger's place, breakpoints and watches. Whether one stops at a place follows from that place and the
 * one before it alone, so that it does in both directions. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/dbg.h"
#include "debug/training.h"
#include "lang/eval/interp.h"
#include "view/elements.h"
#include "view/sink.h"

/* ---------------------------------------------------------------- names of layers */

/* Names of layers that are variables while the debugger runs. */
static struct {
    char name[DLSH_DBG_POINTS][DLSH_DBG_TEXT];
    int n;
} bound;

/* The next name in a text that is not a field; its length, 0: none. */
static size_t next_name(const char **p) {
    for (char before = ' '; **p; before = *(*p)++) {
        if (!isalpha((unsigned char)**p) && **p != '_') continue;
        size_t n = 1;
        while (isalnum((unsigned char)(*p)[n]) || (*p)[n] == '_') n++;
        if (before != '.' && !isalnum((unsigned char)before)) return n;
        *p += n - 1;
    }
    return 0;
}

int dlsh_debug_mentions(const char *text, const char *name) {
    size_t n;
    for (const char *p = text; (n = next_name(&p)); p += n)
        if (strlen(name) == n && !memcmp(p, name, n)) return 1;
    return 0;
}

/* Is the node in the layer of that path, or in a part of it? */
static int in_layer(const dl_recorded *c, const char *path, size_t n) {
    return !strncmp(c->layer, path, n) && (!c->layer[n] || c->layer[n] == '.');
}

/* The result of a layer: of its last node, when the walk has come to it. NULL: not yet. *known: there is such a layer.
 */
static dl_tensor *result_of_layer(const char *name, size_t n, int *known) {
    const dlsh_nodewalk *w = &dlsh_dbg.walk;
    dl_tensor *found = NULL;
    dl_recorded c;
    int backward;
    *known = 0;
    for (int i = w->n - 1; i >= 0 && !*known; i--) {
        if (!dlsh_nodewalk_node(w, i, &c, &backward) || !in_layer(&c, name, n)) continue;
        *known = 1;
        if (w->at >= i) found = dlsh_nodewalk_result(w, &c);
    }
    return found;
}

/* The net variable that has a layer of the path, with weights; NULL. */
static dl_module *net_with(dlsh_session *s, const char *path) {
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        dlsh_global_at(s, i, &v);
        dl_module *m = v ? dlsh_unwrap(*v, &dlsh_net_class) : NULL, *part = m ? dl_module_find(m, path) : NULL;
        dl_module_list *l = part ? dl_module_tensors(part, 1) : NULL;
        int weights = l && l->n;
        dl_module_list_free(l);
        if (weights) return part;
    }
    return NULL;
}

/* The frame of the function, or of the text, that walks: past those of the debugger's own words. */
static int own_frame(const dlsh_session *s) {
    dlsh_running r;
    int i = dlsh_at_error_frame(s);
    while (dlsh_running_at(s, i, &r) && !strcmp(r.unit, "<dbg>")) i++;
    return i;
}

int dlsh_dbg_own_variable(const dlsh_session *s, const char *name, dlsh_value *v, dlsh_running *of) {
    const int frame = own_frame(s);
    const char *own;
    for (int k = 0; (own = dlsh_running_variable(s, frame, k, v)); k++)
        if (!strcmp(own, name) && v->type != DLSH_VOID) return dlsh_running_at(s, frame, of);
    return 0;
}

/* A variable of that function, else of the session; borrowed. */
static int has_variable(const dlsh_session *s, const char *name, dlsh_value *v) {
    dlsh_running r;
    if (dlsh_dbg_own_variable(s, name, v, &r)) return 1;
    const dlsh_value *global = dlsh_get(s, name);
    *v = global ? *global : dlsh_void();
    return global != NULL;
}

/* A name that means nothing else is that of a layer: with weights the layer itself, else its result so far. */
static dl_status bind(dlsh_session *s, const char *at, size_t n) {
    char name[DLSH_DBG_TEXT];
    dlsh_value known_by;
    int known, mine = 0;
    if (n >= sizeof name) return DL_OK;
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    for (int i = 0; i < bound.n; i++) mine |= !strcmp(bound.name[i], name);
    if (!mine && has_variable(s, name, &known_by)) return DL_OK;
    dl_tensor *y = result_of_layer(name, n, &known);
    if (!known && dlsh_dbg.trainer && !strcmp(name, "loss")) { /* as in breakpoints of its training */
        known = 1;
        y = dlsh_dbg.walk.at >= dlsh_dbg.walk.n ? dl_trainer_loss(dlsh_dbg.trainer) : NULL;
    }
    if (!known || (!mine && bound.n == DLSH_DBG_POINTS)) return DL_OK;
    dl_module *m = net_with(s, name);
    if (!mine) strcpy(bound.name[bound.n++], name);
    return dlsh_set(s, name, m ? dlsh_net_value(m) : y ? dlsh_tensor(dl_ref(y)) : dlsh_none());
}

void dlsh_dbg_unbind(dlsh_session *s) {
    while (bound.n) dlsh_unset(s, bound.name[--bound.n]);
    if (dlsh_get(s, "node")) dlsh_unset(s, "node");
}

/* ---------------------------------------------------------------- expressions */

static dlsh_value tensor_or_none(dl_tensor *t) { return t ? dlsh_tensor(dl_ref(t)) : dlsh_none(); }

static dlsh_value list_of(dl_tensor *const *t, int n) {
    dlsh_value list = dlsh_new_list(n);
    for (int i = 0; !dlsh_failed(list) && i < n; i++)
        if (dlsh_list_push(list.as.list, tensor_or_none(t[i]))) break;
    return list;
}

/* The variable `node`: what is known of the node at the place. */
static dl_status set_node(dlsh_session *s) {
    const dlsh_nodewalk *w = &dlsh_dbg.walk;
    dl_recorded c;
    int backward;
    if (!dlsh_nodewalk_node(w, w->at, &c, &backward)) return dlsh_set(s, "node", dlsh_none());
    dlsh_value r = dlsh_void();
    DLSH_TRY(dlsh_give(
        DLSH_RECORD_OF({"op", dlsh_string(c.op)}, {"line", dlsh_int(c.line)}, {"number", dlsh_int(w->at + 1)},
                       {"layer", *c.layer ? dlsh_string(c.layer) : dlsh_none()}, {"backward", dlsh_bool(backward)},
                       {"inputs", list_of(c.in, c.nin)}, {"output", tensor_or_none(dlsh_nodewalk_result(w, &c))},
                       {"grad", backward ? tensor_or_none(c.grad) : dlsh_none()},
                       {"grads", backward ? list_of(c.out, c.nin) : dlsh_none()}),
        &r));
    return dlsh_set(s, "node", r);
}

/* Are the variables of a text there at the place, those that nodes of the walk make? */
static int is_there(dlsh_session *s, const char *text) {
    size_t n;
    for (const char *p = text; (n = next_name(&p)); p += n) {
        char name[DLSH_DBG_TEXT];
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), p);
        dlsh_value v;
        unsigned long seq = has_variable(s, name, &v) && v.type == DLSH_TENSOR ? dl_tape_number(v.as.tensor) : 0;
        if (seq && dlsh_nodewalk_place(&dlsh_dbg.walk, seq) > dlsh_dbg.walk.at) return 0;
    }
    return 1;
}

/* Where the variables of the function are lent already. */
static dl_status run_plain(dlsh_session *s, const char *text, dlsh_value *v) {
    const int depth = s->fn_depth;
    dl_source here = *dl_source_here();
    s->fn_depth = 0; /* where expressions have values */
    dl_status st = dlsh_run(s, "<dbg>", text, strlen(text), v);
    s->fn_depth = depth;
    *dl_source_here() = here;
    return st;
}

dl_status dlsh_dbg_value(dlsh_session *s, const char *text, int quiet, dlsh_value *v) {
    size_t n;
    *v = dlsh_void();
    if (dlsh_debug_mentions(text, "node")) DLSH_TRY(set_node(s));
    for (const char *p = text; (n = next_name(&p)); p += n) DLSH_TRY(bind(s, p, n));
    const int recording = dl_recording_set(0);
    dl_status st =
        dlsh_at_error_stands() ? run_plain(s, text, v) : dlsh_running_run(s, own_frame(s), text, strlen(text), v);
    dl_recording_set(recording);
    if (!st || !quiet) return st;
    dlsh_place_clear(s);
    dl_error_clear();
    return DL_OK;
}

/* Of a tensor: any element. */
int dlsh_debug_truth(dlsh_value v) {
    int yes = 0;
    if (v.type == DLSH_VOID || v.type == DLSH_NONE) return 0;
    if (v.type == DLSH_TENSOR && dl_numel(v.as.tensor) != 1) {
        dlsh_stats st;
        DLSH_OWNED dl_tensor *f = dl_to_dtype(v.as.tensor, DL_F32);
        yes = f && !dlsh_stats_of(f, &st) && st.zeros < st.n;
    } else if (dlsh_truth(v, &yes)) {
        yes = 0;
        dl_error_clear();
    }
    return yes;
}

/* The conditions that the walk has asked since it began to run on. */
static struct asked {
    char text[DLSH_DBG_TEXT], why[DLSH_DBG_TEXT];
    int known;
} asked[DLSH_DBG_POINTS + 1];
static int nasked;

void dlsh_dbg_ask_anew(void) { nasked = 0; }

static struct asked *asked_of(const char *text) {
    int i = 0;
    while (i < nasked && strcmp(asked[i].text, text) != 0) i++;
    if (i > DLSH_DBG_POINTS) return NULL;
    if (i == nasked) {
        asked[nasked++] = (struct asked){0};
        snprintf(asked[i].text, sizeof asked[i].text, "%s", text);
    }
    return &asked[i];
}

void dlsh_dbg_tell_unknown(dlsh_sink *sink) {
    for (int i = 0; i < nasked; i++)
        if (!asked[i].known && *asked[i].why)
            dlsh_put(sink, "  %s is not known at any node: %s\n", asked[i].text, asked[i].why);
    nasked = 0;
}

int dlsh_dbg_is_true(dlsh_session *s, const char *text) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    struct asked *q = asked_of(text);
    if (!is_there(s, text)) return 0;
    dl_status st = dlsh_dbg_value(s, text, 0, &v);
    if (!st && q) q->known = 1;
    if (!st) return dlsh_debug_truth(v);
    if (q && !*q->why) snprintf(q->why, sizeof q->why, "%s", dl_errmsg());
    dlsh_place_clear(s);
    dl_error_clear();
    return 0;
}

/* ---------------------------------------------------------------- watches */

/* A watched value: of the expression, or, of a pattern such as m.*.grad, of the i-th parameter. */
static dl_status watched(dlsh_session *s, const char *text, dlsh_value *v) {
    *v = dlsh_void();
    return is_there(s, text) ? dlsh_dbg_value(s, text, 1, v) : DL_OK;
}

static int has(dlsh_value v, const char *when) {
    dlsh_stats st;
    if (v.type == DLSH_FLOAT) {
        double x = v.as.f;
        return *when == 'n' ? x != x : *when == 'i' ? x - x != 0 && x == x : x == 0;
    }
    if (v.type != DLSH_TENSOR || dlsh_stats_of(v.as.tensor, &st)) return dl_error_clear(), 0;
    return *when == 'n' ? st.nans > 0 : *when == 'i' ? st.infs > 0 : st.zeros == st.n;
}

static int differ(dlsh_value a, dlsh_value b) {
    if (a.type == DLSH_TENSOR && b.type == DLSH_TENSOR && a.as.tensor == b.as.tensor) return 0;
    DLSH_SCOPED_BUF x = {0}, y = {0};
    if (dlsh_json(&x, a) || dlsh_json(&y, b)) return dl_error_clear(), 1;
    return strcmp(dlsh_buf_text(&x), dlsh_buf_text(&y)) != 0;
}

static void say_change(dlsh_sink *sink, const char *what, dlsh_value a, dlsh_value b) {
    DLSH_SCOPED_BUF x = {0}, y = {0};
    if (dlsh_text(&x, a) || dlsh_text(&y, b)) dl_error_clear();
    dlsh_put(sink, "watch %s: %s -> %s\n", what, dlsh_buf_text(&x), dlsh_buf_text(&y));
}

/* Compares an expression before and at the place; the walk is moved for it. */
static int changes(dlsh_session *s, dlsh_sink *sink, const char *text, const char *when) {
    int at = dlsh_dbg.walk.at, any = !strcmp(when, "change");
    dlsh_value before = dlsh_void();
    DLSH_DROPPED dlsh_value now = dlsh_void();
    if (watched(s, text, &now)) return dl_error_clear(), 0;
    if (any || has(now, when)) {
        dlsh_nodewalk_go(&dlsh_dbg.walk, at - 1);
        if (at > 0 && watched(s, text, &before)) dl_error_clear();
        dlsh_nodewalk_go(&dlsh_dbg.walk, at);
        int hit = at > 0 && (any ? differ(before, now) : !has(before, when));
        if (hit) say_change(sink, text, before.type == DLSH_VOID ? dlsh_none() : before, now);
        dlsh_drop(before);
        return hit;
    }
    return 0;
}

int dlsh_dbg_pattern(const char *text, char net[DLSH_DBG_TEXT], char paths[DLSH_DBG_TEXT]) {
    size_t n = strcspn(text, "."), all = strlen(text), tail = strlen(".grad");
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_.*?[]", *p)) return 0;
    if (!text[n] || !strpbrk(text + n, "*?") || all < n + tail + 2 || strcmp(text + all - tail, ".grad")) return 0;
    snprintf(net, DLSH_DBG_TEXT, "%.*s", (int)n, text);
    snprintf(paths, DLSH_DBG_TEXT, "%.*s", (int)(all - n - 1 - tail), text + n + 1);
    return 1;
}

/* Watches the gradients of all parameters that the pattern fits, *n of them; without a sink it only counts. */
static int pattern_changes(dlsh_session *s, dlsh_sink *sink, const dlsh_point *p, int *n) {
    char net[DLSH_DBG_TEXT], paths[DLSH_DBG_TEXT], one[2 * DLSH_DBG_TEXT];
    int hit = 0;
    *n = 0;
    if (!dlsh_dbg_pattern(p->text, net, paths)) return changes(s, sink, p->text, p->when);
    const dlsh_value *v = dlsh_get(s, net);
    dl_module *m = v ? dlsh_unwrap(*v, &dlsh_net_class) : NULL;
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = m ? dl_module_tensors(m, 1) : NULL;
    for (long i = 0; l && i < l->n; i++) {
        const char *path = l->entries[i].path;
        if (fnmatch(paths, path, 0)) continue;
        ++*n;
        snprintf(one, sizeof one, "%s.%s.grad", net, path);
        if (sink && !hit) hit = changes(s, sink, one, p->when);
    }
    return hit;
}

/* ---------------------------------------------------------------- stopping */

static int ends_in(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* Where a layer begins, in the direction of the pass. */
static int enters_layer(const dlsh_point *p, const dl_recorded *c, int place) {
    dl_recorded before;
    int backward, n = (int)strlen(p->text);
    if (!in_layer(c, p->text, (size_t)n)) return 0;
    return !dlsh_nodewalk_node(&dlsh_dbg.walk, place - 1, &before, &backward) || place == dlsh_dbg.walk.n ||
           !in_layer(&before, p->text, (size_t)n);
}

/* Is the node the breakpoint's? Of one that stands at no place: no. */
static int is_at(const dlsh_point *p, const dl_recorded *c, int place) {
    switch (p->kind) {
    case DLSH_AT_OP:
        return !strcmp(p->text, c->op) || (c->composite && !strcmp(p->text, c->composite) && dlsh_dbg_begins(place));
    case DLSH_AT_LINE:
        return (p->line == c->line && ends_in(c->file, p->file)) ||
               (p->line == c->layer_line && ends_in(c->layer_file, p->file));
    case DLSH_AT_LAYER: return enters_layer(p, c, place);
    case DLSH_AT_NODE: return p->line == place + 1;
    default: return 0;
    }
}

void dlsh_dbg_marks(int place, dlsh_buf *out) {
    dl_recorded c;
    int backward;
    if (!dlsh_nodewalk_node(&dlsh_dbg.walk, place, &c, &backward)) return;
    for (int i = 0; i < dlsh_dbg.npoints; i++)
        if (is_at(&dlsh_dbg.points[i], &c, place))
            dlsh_buf_printf(out, "%s%d", out->n ? ", " : "", dlsh_dbg.points[i].number);
}

static int condition_hits(dlsh_session *s, const dlsh_point *p) {
    int at = dlsh_dbg.walk.at;
    if (!dlsh_dbg_is_true(s, p->text)) return 0;
    if (p->everywhere || !at) return 1;
    dlsh_nodewalk_go(&dlsh_dbg.walk, at - 1);
    int before = dlsh_dbg_is_true(s, p->text);
    dlsh_nodewalk_go(&dlsh_dbg.walk, at);
    return !before;
}

static int hits(dlsh_session *s, dlsh_sink *sink, const dlsh_point *p, const dl_recorded *c, int more) {
    int n;
    if (p->kind == DLSH_AT_CHANGE) return pattern_changes(s, sink, p, &n);
    if (p->kind == DLSH_AT_CONDITION) return condition_hits(s, p);
    return more && is_at(p, c, dlsh_dbg.walk.at);
}

int dlsh_dbg_stops(dlsh_session *s, dlsh_sink *sink) {
    dl_recorded c = {.layer = "", .file = "", .layer_file = ""};
    int backward, more = dlsh_nodewalk_node(&dlsh_dbg.walk, dlsh_dbg.walk.at, &c, &backward), stops = 0;
    for (int i = 0; i < dlsh_dbg.npoints; i++) {
        dlsh_point *p = &dlsh_dbg.points[i];
        if (!hits(s, sink, p, &c, more) || p->hits++ < p->ignore) continue;
        if (p->kind != DLSH_AT_CHANGE) dlsh_put(sink, "breakpoint %d: %s\n", p->number, p->text);
        stops = 1;
    }
    return stops;
}

/* ---------------------------------------------------------------- commands */

static const char *kind_name(const dlsh_point *p) { return p->kind == DLSH_AT_CHANGE ? "watch" : "breakpoint"; }

static dl_status list_point(dlsh_table *t, const dlsh_point *p, long hits, const char *decided) {
    return DLSH_TABLE_ROW(t, dlsh_int(p->number), dlsh_string(kind_name(p)), dlsh_string(p->text), dlsh_int(hits),
                          dlsh_int(p->ignore), dlsh_string(decided));
}

/* Those of the walk, and of trainings, unless the walk has them too. */
static dl_status list_points(const dlsh_args *a) {
    dlsh_table t = DLSH_TABLE({"#", 'r', ""}, {"kind", 'l', ""}, {"at", 'l', ""}, {"hits", 'r', ""},
                              {"ignore", 'r', ""}, {"decided", 'l', ""});
    const dlsh_point *p;
    const char *decided;
    dl_status st = DL_OK;
    long hits;
    for (int i = 0; !st && i < dlsh_dbg.npoints; i++) {
        p = &dlsh_dbg.points[i];
        if (!p->training) st = list_point(&t, p, p->hits, "walk");
    }
    for (int i = 0; !st && (p = dlsh_training_at(i, &hits, &decided)); i++) st = list_point(&t, p, hits, decided);
    if (!st && dlsh_at_error_mode())
        st = DLSH_TABLE_ROW(&t, dlsh_string(""), dlsh_string("error"), dlsh_string(dlsh_at_error_mode()),
                            dlsh_string(""), dlsh_string(""), dlsh_string(""));
    return dlsh_table_show(dlsh_arg_sink(a), &t, st, "no breakpoints\n");
}

static dl_status add_point(const dlsh_args *a, dlsh_point *p, const char *more) {
    if (dlsh_dbg.npoints == DLSH_DBG_POINTS)
        return dlsh_arg_fail(a, NULL, DL_ERR_STATE, "delete N", "at most %d breakpoints", DLSH_DBG_POINTS);
    p->number = dlsh_training_number();
    p->ignore = dlsh_arg_int(a, "ignore");
    dlsh_dbg.points[dlsh_dbg.npoints++] = *p;
    dlsh_put(dlsh_arg_sink(a), "%s %d set: %s%s\n", kind_name(p), p->number, p->text, more);
    return DL_OK;
}

static int is_name(const char *text) {
    const char *p = text;
    for (; isalnum((unsigned char)*p) || *p == '_' || *p == '.'; p++) continue;
    return !*p && !isdigit((unsigned char)*text);
}

/* LINE or FILE:LINE */
static int is_line(dlsh_point *p) {
    const char *colon = strrchr(p->text, ':'), *digits = colon ? colon + 1 : p->text;
    if (!*digits || digits[strspn(digits, "0123456789")]) return 0;
    p->line = atol(digits);
    if (colon) snprintf(p->file, sizeof p->file, "%.*s", (int)(colon - p->text), p->text);
    return 1;
}

/* node N, a number of `list`; 0: it is none. */
static int is_node(dlsh_point *p) {
    const char *digits = p->text + 5;
    if (strncmp(p->text, "node ", 5) != 0 || !*digits || digits[strspn(digits, "0123456789")]) return 0;
    p->line = atol(digits);
    p->kind = DLSH_AT_NODE;
    return 1;
}

/* What a bare name is: an op or a layer of the walk. */
static int find_name(dlsh_session *s, dlsh_point *p) {
    dl_recorded c;
    int backward, layer;
    if (!is_name(p->text) || dlsh_get(s, p->text)) return 0;
    result_of_layer(p->text, strlen(p->text), &layer);
    if (layer) return p->kind = DLSH_AT_LAYER, 1;
    for (int i = 0; dlsh_nodewalk_node(&dlsh_dbg.walk, i, &c, &backward); i++)
        if (!strcmp(c.op, p->text) || (c.composite && !strcmp(c.composite, p->text))) return p->kind = DLSH_AT_OP, 1;
    dl_op_info op;
    return dl_op_describe_name(p->text, &op) ? p->kind = DLSH_AT_OP, 1 : 0;
}

/* What is said of a breakpoint at a place that the walk has not. */
static const char *warning(const dlsh_point *p) {
    dl_recorded c;
    int backward;
    for (int i = 0; dlsh_nodewalk_node(&dlsh_dbg.walk, i, &c, &backward); i++)
        if (is_at(p, &c, i)) return "";
    if (p->kind == DLSH_AT_OP) return ": an op that is not in this walk; it stops at the op when it comes";
    return p->kind == DLSH_AT_LINE ? ": no node of this walk is of that line; `list 100` shows lines" : "";
}

/* Without a walk, or where a trainer is named, a breakpoint or watch is of a training. */
static int for_training(const dlsh_args *a) { return !dlsh_dbg.active || dlsh_given(a, "trainer"); }

static dl_status add_to_training(const dlsh_args *a, dlsh_point *p) {
    dl_trainer *t = dlsh_training_of(a);
    dlsh_value v;
    if (!t) return dl_failed();
    p->ignore = dlsh_arg_int(a, "ignore"), p->training = 1;
    if (p->kind == DLSH_AT_CONDITION &&
        (is_line(p) || (is_name(p->text) && !has_variable(dlsh_arg_session(a), p->text, &v))))
        return dlsh_arg_fail(a, "condition", DL_ERR_VALUE,
                             "break isnan(relu0) stops a training, break relu0 a walk: dbg step t",
                             "a training stops where a condition holds; %s is a place of a walk", p->text);
    return dlsh_training_add(a, t, p);
}

dl_status dlsh_dbg_break(const dlsh_args *a) {
    dlsh_session *s = dlsh_arg_session(a);
    dlsh_point p = {.kind = DLSH_AT_CONDITION};
    dlsh_value v;
    const char *text = dlsh_given(a, "condition") ? dlsh_arg_str(a, "condition") : "";
    if (!strncmp(text, "error", 5) && (!text[5] || text[5] == ' '))
        return dlsh_at_error_break(a, text + 5 + (text[5] == ' '));
    if (!*text) return list_points(a);
    snprintf(p.text, sizeof p.text, "%s", dlsh_arg_str(a, "condition"));
    if (for_training(a)) return add_to_training(a, &p);
    if (is_line(&p)) {
        p.kind = DLSH_AT_LINE;
        return add_point(a, &p, warning(&p));
    }
    if (is_node(&p)) {
        if (p.line < 1 || p.line > 2L * dlsh_dbg.walk.n)
            return dlsh_arg_fail(a, "condition", DL_ERR_INDEX, "list shows numbers", "nodes have the numbers 1 to %d",
                                 2 * dlsh_dbg.walk.n);
        return add_point(a, &p, "");
    }
    if (find_name(s, &p)) return add_point(a, &p, warning(&p));
    dl_status st = dlsh_dbg_value(s, p.text, 0, &v);
    if (!st && is_name(p.text) && dlsh_callable(v)) dlsh_drop(v), st = DL_ERR_NAME;
    if (st == DL_ERR_NAME || st == DL_ERR_SYNTAX) {
        if (!is_name(p.text)) return st;
        dlsh_place_clear(s);
        dl_error_clear();
        return dlsh_arg_fail(a, "condition", DL_ERR_NAME, "list 1000 shows the nodes",
                             "no op and no layer of this walk, and no variable, is called %s", p.text);
    }
    if (st) dlsh_place_clear(s), dl_error_clear(); /* it may become known later: a gradient that is none yet */
    int holds = !st && is_there(s, p.text) && dlsh_debug_truth(v);
    dlsh_drop(v);
    p.everywhere = dlsh_debug_mentions(p.text, "node");
    return add_point(a, &p, holds && !p.everywhere ? ": it holds already; it stops where it holds again" : "");
}

dl_status dlsh_dbg_watch(const dlsh_args *a) {
    dlsh_session *s = dlsh_arg_session(a);
    dlsh_point p = {.kind = DLSH_AT_CHANGE};
    char net[DLSH_DBG_TEXT], paths[DLSH_DBG_TEXT];
    dlsh_value v;
    int n;
    snprintf(p.text, sizeof p.text, "%s", dlsh_arg_str(a, "expression"));
    snprintf(p.when, sizeof p.when, "%s", dlsh_arg_str(a, "when"));
    if (for_training(a)) return add_to_training(a, &p);
    if (dlsh_dbg_pattern(p.text, net, paths)) {
        pattern_changes(s, NULL, &p, &n); /* counts them */
        if (!n)
            return dlsh_arg_fail(a, "expression", DL_ERR_NAME, "watch m.*.grad, m being a net", "no parameter fits %s",
                                 p.text);
        return add_point(a, &p, "");
    }
    dl_status st = dlsh_dbg_value(s, p.text, 0, &v);
    if (st == DL_ERR_NAME || st == DL_ERR_SYNTAX) return st;
    if (st) dlsh_place_clear(s), dl_error_clear();
    dlsh_drop(v);
    return add_point(a, &p, "");
}

dl_status dlsh_dbg_delete(const dlsh_args *a) {
    int all = !dlsh_given(a, "n"), left = 0, n = dlsh_dbg.npoints;
    const int trainings = dlsh_training_delete(all, all ? 0 : dlsh_arg_int(a, "n"));
    if (all && !trainings && !n) dlsh_put(dlsh_arg_sink(a), "no breakpoints\n");
    for (int i = 0; i < n; i++)
        if (!all && dlsh_dbg.points[i].number != dlsh_arg_int(a, "n")) dlsh_dbg.points[left++] = dlsh_dbg.points[i];
    dlsh_dbg.npoints = left;
    if (!all && left == n && !trainings)
        return dlsh_arg_fail(a, "n", DL_ERR_INDEX, "break lists them", "there is no breakpoint %ld",
                             dlsh_arg_int(a, "n"));
    return DL_OK;
}
