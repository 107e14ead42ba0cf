/* `dbg`: the debugger's commands, at its prompt and in a block. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/walk.h"
#include "lang/eval/interp.h"
#include "view/elements.h"
#include "view/sink.h"

enum { MOST = 32, NEAR = 3 };
typedef enum point_kind { AT_CONDITION, AT_OP, AT_LINE, AT_CHANGE } point_kind;

/* A breakpoint or a watch. */
typedef struct point {
    point_kind kind;
    char text[160]; /* of the condition, op or watched expression */
    long line;
    dlsh_buf former; /* of a watched expression, its value as text */
} point;

/* The debugger that runs; there is one at a time. */
static struct {
    int active, quit;
    dlsh_nodewalk walk;
    point points[MOST];
    char shown[MOST][160];
    int npoints, nshown;
} dbg;

/* ---------------------------------------------------------------- showing */

static dlsh_value line_of(dl_tensor *t) {
    dlsh_stats s;
    char kind[160];
    if (!t) return dlsh_string("not kept: set record full");
    size_t n = (size_t)snprintf(kind, sizeof kind, "%s", dl_dtype_name(dl_dtype_of(t)));
    for (int d = 0; d < dl_ndim(t) && n < sizeof kind - 1; d++)
        n += (size_t)snprintf(kind + n, sizeof kind - n, "%s%ld", d ? "," : "[", dl_shape(t)[d]);
    if (dl_ndim(t) && n < sizeof kind - 1) snprintf(kind + n, sizeof kind - n, "]");
    if (dlsh_stats_of(t, &s)) {
        dl_error_clear();
        return dlsh_string(kind);
    }
    char bad[80] = "";
    if (s.nans || s.infs) snprintf(bad, sizeof bad, ", %ld nan, %ld infinite", s.nans, s.infs);
    if (s.n == 1 && !*bad) return dlsh_stringf("%s = %.6g", kind, s.min);
    if (fabs(s.mean) < 1e-7 * fmax(fabs(s.min), fabs(s.max))) s.mean = 0; /* what rounding left */
    return dlsh_stringf("%s  %.4g to %.4g, mean %.4g, std %.4g, %ld zero%s", kind, dlsh_plain_nan(s.min),
                        dlsh_plain_nan(s.max), dlsh_plain_nan(s.mean), dlsh_plain_nan(s.std), s.zeros, bad);
}

static dl_status put(dlsh_table *t, const char *key, dlsh_value v) {
    return dlsh_table_row(t, (dlsh_value[]){dlsh_string(key), v});
}

static dl_status put_operands(dlsh_session *s, dlsh_table *t, const dl_recorded *c, int backward) {
    for (int k = 0; k < c->nin; k++) {
        const char *name = dlsh_nodewalk_name(s, c, k);
        char key[120];
        int parts;
        const dlsh_walk_leaf *leaf = dlsh_nodewalk_leaf(&dbg.walk, c, k, &parts);
        if (!*name && leaf) name = dl_tensor_name(leaf->t);
        snprintf(key, sizeof key, "%s%d%s%.60s", backward ? "to operand " : "operand ", k, *name ? ", " : "", name);
        if (backward && !c->out[k]) continue;
        DLSH_TRY(put(t, key, line_of(backward ? c->out[k] : dlsh_nodewalk_operand(&dbg.walk, c, k))));
        if (backward && leaf)
            DLSH_TRY(put(t, "",
                         dlsh_stringf("contribution %d of %d of this pass%s", parts, leaf->parts,
                                      leaf->before ? ", added to a gradient that was there" : "")));
    }
    return DL_OK;
}

/* The text of the line of the running script that made a node; "". */
static void source_text(dlsh_session *s, const dl_recorded *c, dlsh_buf *out) {
    const dlsh_unit *u = s->unit;
    if (!u || !c->file || strcmp(u->name, c->file) != 0) return;
    const char *p = u->text;
    for (int line = 1; p && line < c->line; line++) p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
    while (p && *p == ' ') p++;
    if (p) dlsh_buf_add(out, p, strcspn(p, "\n"));
}

static dl_status show_place(dlsh_session *s, dlsh_sink *sink) {
    dl_recorded c;
    int backward;
    if (!dlsh_nodewalk_node(&dbg.walk, dbg.walk.at, &c, &backward)) {
        dlsh_put(sink, "end: all %d nodes are done, gradients are complete\n", dbg.walk.n);
        return DL_OK;
    }
    DLSH_SCOPED_BUF text = {0};
    char head[80];
    source_text(s, &c, &text);
    int number = dbg.walk.at - (backward ? dbg.walk.n : 0) + 1;
    snprintf(head, sizeof head, "%s %d of %d", backward ? "backward" : "forward", number, dbg.walk.n);
    dlsh_table t = DLSH_TABLE({head, 'l', ""}, {c.op, 'l', ""});
    dl_status st = put(&t, "line", dlsh_stringf("%s:%d  %s", c.file, c.line, dlsh_buf_text(&text)));
    if (!st && backward) st = put(&t, "gradient in", c.grad ? line_of(c.grad) : dlsh_string("0"));
    if (!st) st = put_operands(s, &t, &c, backward);
    if (!st && !backward) st = put(&t, "result", line_of(dlsh_nodewalk_result(&dbg.walk, &c)));
    return dlsh_table_show(sink, &t, st, NULL);
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
    dl_recorded c;
    int backward;
    if (!dlsh_nodewalk_node(&dbg.walk, dbg.walk.at, &c, &backward)) return dlsh_set(s, "node", dlsh_none());
    dlsh_value r = dlsh_void();
    DLSH_TRY(dlsh_give(DLSH_RECORD_OF({"op", dlsh_string(c.op)}, {"line", dlsh_int(c.line)},
                                      {"backward", dlsh_bool(backward)}, {"inputs", list_of(c.in, c.nin)},
                                      {"output", tensor_or_none(dlsh_nodewalk_result(&dbg.walk, &c))},
                                      {"grad", backward ? tensor_or_none(c.grad) : dlsh_none()},
                                      {"grads", backward ? list_of(c.out, c.nin) : dlsh_none()}),
                       &r));
    return dlsh_set(s, "node", r);
}

/* The value of an expression at the place; with `quiet` one that fails is VOID. */
static dl_status value_of(dlsh_session *s, const char *text, int quiet, dlsh_value *v) {
    *v = dlsh_void();
    DLSH_TRY(set_node(s));
    dl_status st = dlsh_run(s, "<dbg>", text, strlen(text), v);
    if (!st || !quiet) return st;
    dlsh_place_clear(s);
    dl_error_clear();
    return DL_OK;
}

static int is_true(dlsh_session *s, const char *text) {
    dlsh_value v;
    int yes = 0;
    if (!value_of(s, text, 1, &v) && v.type != DLSH_VOID && v.type != DLSH_NONE &&
        dlsh_truth_of(s, s->statement, v, &yes)) {
        dlsh_place_clear(s);
        dl_error_clear();
    }
    return yes;
}

static dl_status value_text(dlsh_session *s, const char *text, dlsh_buf *out) {
    dlsh_value v;
    DLSH_TRY(value_of(s, text, 1, &v));
    dl_status st = dlsh_text(out, v);
    dlsh_drop(v);
    return st;
}

/* Does a breakpoint or watch stop here? Says which. */
static int stops(dlsh_session *s, dlsh_sink *sink) {
    dl_recorded c = {0};
    int backward, more = dlsh_nodewalk_node(&dbg.walk, dbg.walk.at, &c, &backward);
    for (int i = 0; i < dbg.npoints; i++) {
        point *p = &dbg.points[i];
        int hit = more && (p->kind == AT_OP     ? !strcmp(p->text, c.op)
                           : p->kind == AT_LINE ? p->line == c.line
                                                : p->kind == AT_CONDITION && is_true(s, p->text));
        if (p->kind == AT_CHANGE) {
            DLSH_SCOPED_BUF now = {0};
            if (value_text(s, p->text, &now)) dl_error_clear();
            hit = strcmp(dlsh_buf_text(&now), dlsh_buf_text(&p->former)) != 0;
            if (hit) {
                dlsh_put(sink, "watch %s: %s -> %s\n", p->text, dlsh_buf_text(&p->former), dlsh_buf_text(&now));
                dlsh_buf_free(&p->former);
                p->former = now;
                now = (dlsh_buf){0};
            }
        } else if (hit) {
            dlsh_put(sink, "breakpoint %d: %s\n", i + 1, p->text);
        }
        if (hit) return 1;
    }
    return !more;
}

static dl_status arrive(const dlsh_args *a) {
    dlsh_session *s = dlsh_arg_session(a);
    DLSH_TRY(show_place(s, dlsh_arg_sink(a)));
    for (int i = 0; i < dbg.nshown; i++) {
        DLSH_SCOPED_BUF text = {0};
        DLSH_TRY(value_text(s, dbg.shown[i], &text));
        dlsh_put(dlsh_arg_sink(a), "%s = %s\n", dbg.shown[i], dlsh_buf_text(&text));
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- commands of movement */

static dl_status need_active(const dlsh_args *a) {
    return dbg.active ? DL_OK : dlsh_arg_fail(a, NULL, DL_ERR_STATE, "dbg l", "no debugger runs");
}

static long count_of(const dlsh_args *a) { return dlsh_given(a, "n") ? dlsh_arg_int(a, "n") : 1; }

static dl_status next_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    DLSH_TRY(need_active(a));
    dlsh_nodewalk_go(&dbg.walk, dbg.walk.at + (int)count_of(a));
    return arrive(a);
}

static dl_status back_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    DLSH_TRY(need_active(a));
    dlsh_nodewalk_go(&dbg.walk, dbg.walk.at - (int)count_of(a));
    return arrive(a);
}

/* Runs on, by +1 or -1, to a stop. */
static dl_status run_on(const dlsh_args *a, int by) {
    dlsh_session *s = dlsh_arg_session(a);
    DLSH_TRY(need_active(a));
    do {
        DLSH_TRY(dlsh_check_interrupt());
        dlsh_nodewalk_go(&dbg.walk, dbg.walk.at + by);
    } while (dbg.walk.at > 0 && !stops(s, dlsh_arg_sink(a)));
    return arrive(a);
}

static dl_status continue_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    return run_on(a, 1);
}

static dl_status reverse_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    return run_on(a, -1);
}

static dl_status finish_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    DLSH_TRY(need_active(a));
    dlsh_nodewalk_go(&dbg.walk, dbg.walk.at < dbg.walk.n ? dbg.walk.n : 2 * dbg.walk.n);
    return arrive(a);
}

static dl_status until_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    dlsh_session *s = dlsh_arg_session(a);
    char text[160];
    DLSH_TRY(need_active(a));
    snprintf(text, sizeof text, "%s", dlsh_arg_text(a, "condition"));
    do {
        DLSH_TRY(dlsh_check_interrupt());
        dlsh_nodewalk_go(&dbg.walk, dbg.walk.at + 1);
    } while (dbg.walk.at < 2 * dbg.walk.n && !is_true(s, text));
    return arrive(a);
}

/* ---------------------------------------------------------------- commands that look */

static dl_status where_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    DLSH_TRY(need_active(a));
    return arrive(a);
}

static dl_status list_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    DLSH_TRY(need_active(a));
    dlsh_table t = DLSH_TABLE({"", 'l', ""}, {"pass", 'l', ""}, {"op", 'l', ""}, {"line", 'l', ""});
    dl_status st = DL_OK;
    for (int i = dbg.walk.at - NEAR; !st && i <= dbg.walk.at + NEAR; i++) {
        dl_recorded c;
        int backward;
        if (!dlsh_nodewalk_node(&dbg.walk, i, &c, &backward)) continue;
        st = dlsh_table_row(&t, (dlsh_value[]){dlsh_string(i == dbg.walk.at ? "->" : ""),
                                               dlsh_string(backward ? "backward" : "forward"), dlsh_string(c.op),
                                               dlsh_stringf("%s:%d", c.file, c.line)});
    }
    return dlsh_table_show(dlsh_arg_sink(a), &t, st, "end\n");
}

static dl_status print_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    dlsh_value v;
    char text[400];
    DLSH_TRY(need_active(a));
    snprintf(text, sizeof text, "%s", dlsh_arg_text(a, "expression"));
    DLSH_TRY(value_of(dlsh_arg_session(a), text, 0, &v));
    DLSH_SCOPED_BUF b = {0};
    dl_status st = dlsh_text(&b, v);
    if (!st) dlsh_put(dlsh_arg_sink(a), "%s\n", dlsh_buf_text(&b));
    dlsh_drop(v);
    return st;
}

static dl_status display_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    DLSH_TRY(need_active(a));
    if (dbg.nshown == MOST) return dlsh_arg_fail(a, NULL, DL_ERR_STATE, NULL, "at most %d expressions", MOST);
    snprintf(dbg.shown[dbg.nshown++], sizeof dbg.shown[0], "%s", dlsh_arg_text(a, "expression"));
    return arrive(a);
}

/* ---------------------------------------------------------------- breakpoints */

static dl_status add_point(const dlsh_args *a, const point *p) {
    if (dbg.npoints == MOST) return dlsh_arg_fail(a, NULL, DL_ERR_STATE, NULL, "at most %d breakpoints", MOST);
    dbg.points[dbg.npoints++] = *p;
    dlsh_put(dlsh_arg_sink(a), "%s %d: %s\n", p->kind == AT_CHANGE ? "watch" : "breakpoint", dbg.npoints, p->text);
    return DL_OK;
}

static dl_status break_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    const dlsh_node *n = dlsh_arg_node(a, "condition");
    point p = {.kind = AT_CONDITION};
    DLSH_TRY(need_active(a));
    if (n->kind == DLSH_N_EXPR) n = n->kids[0];
    snprintf(p.text, sizeof p.text, "%s", dlsh_arg_text(a, "condition"));
    if (n->kind == DLSH_N_INT) {
        p.kind = AT_LINE;
        p.line = n->num.i;
    } else if (n->kind == DLSH_N_NAME && !dlsh_get(dlsh_arg_session(a), n->text)) {
        p.kind = AT_OP;
    }
    return add_point(a, &p);
}

static dl_status watch_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    point p = {.kind = AT_CHANGE};
    DLSH_TRY(need_active(a));
    snprintf(p.text, sizeof p.text, "%s", dlsh_arg_text(a, "expression"));
    DLSH_TRY(value_text(dlsh_arg_session(a), p.text, &p.former));
    return add_point(a, &p);
}

static dl_status quit_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    DLSH_TRY(need_active(a));
    dbg.quit = 1;
    dlsh_nodewalk_go(&dbg.walk, 0);
    return DL_OK;
}

#define COUNT DLSH_PARAMS({"n", .want = "int", .flags = DLSH_OPTIONAL, .doc = "how many nodes (1)"})
#define TEXT(name_, doc_) DLSH_PARAMS({name_, DLSH_ARG_STATEMENT, .doc = doc_})

static const dlsh_command words[] = {
    DLSH_ROW("next", DLSH_REPORT, next_run, "next [N]", "Goes to the next node, or N nodes on.", COUNT),
    DLSH_ROW("n", DLSH_REPORT, next_run, "n [N]", "The same as next.", COUNT),
    DLSH_ROW("back", DLSH_REPORT, back_run, "back [N]", "Goes back by a node; gradients are undone.", COUNT),
    DLSH_ROW("continue", DLSH_REPORT, continue_run, "continue", "Runs on to a breakpoint, or to the end."),
    DLSH_ROW("c", DLSH_REPORT, continue_run, "c", "The same as continue."),
    DLSH_ROW("reverse", DLSH_REPORT, reverse_run, "reverse",
             "Runs backwards to a breakpoint, or to the beginning; gradients are undone."),
    DLSH_ROW("finish", DLSH_REPORT, finish_run, "finish", "Goes to the end of the pass."),
    DLSH_ROW("until", DLSH_REPORT, until_run, "until CONDITION", "Runs on until the condition holds.",
             TEXT("condition", "an expression")),
    DLSH_ROW("where", DLSH_REPORT, where_run, "where", "Shows the node again."),
    DLSH_ROW("list", DLSH_REPORT, list_run, "list", "Lists the nodes around this one."),
    DLSH_ROW("print", DLSH_REPORT, print_run, "print EXPRESSION",
             "Shows a value; `node` has op, line, backward, inputs, output, grad and grads of the node.",
             TEXT("expression", "an expression")),
    DLSH_ROW("display", DLSH_REPORT, display_run, "display EXPRESSION", "Shows a value at every stop.",
             TEXT("expression", "an expression")),
    DLSH_ROW("break", DLSH_REPORT, break_run, "break OP | LINE | CONDITION",
             "Stops at an op, at a line, or where a condition holds, in both passes.",
             TEXT("condition", "the name of an op, a line, or an expression")),
    DLSH_ROW("watch", DLSH_REPORT, watch_run, "watch EXPRESSION", "Stops where a value changes, and shows both.",
             TEXT("expression", "an expression")),
    DLSH_ROW("quit", DLSH_REPORT, quit_run, "quit", "Leaves the debugger; gradients are as before."),
    {0}};

/* ---------------------------------------------------------------- dbg */

/* Lines from the prompt until the end of input; an empty one repeats the last. */
static dl_status read_lines(const dlsh_args *a) {
    DLSH_SCOPED_BUF last = {0};
    dlsh_session *s = dlsh_arg_session(a);
    while (!dbg.quit && dbg.walk.at < 2 * dbg.walk.n) {
        DLSH_SCOPED_BUF line = {0}, text = {0};
        dlsh_value v;
        if (dlsh_input(dlsh_arg_sink(a), "(dbg) ", 0, &line)) {
            if (dlsh_interrupted()) return dl_failed();
            dl_error_clear();
            return DL_OK;
        }
        if (line.n) {
            dlsh_buf_free(&last);
            dlsh_buf_add(&last, dlsh_buf_text(&line), line.n);
        }
        dlsh_buf_printf(&text, "dbg { %s }", dlsh_buf_text(&last));
        if (!dlsh_run(s, "<dbg>", dlsh_buf_text(&text), text.n, &v)) {
            dlsh_drop(v);
            continue;
        }
        if (dlsh_interrupted()) return dl_failed();
        dlsh_warn_failure(s);
    }
    return DL_OK;
}

/* What is to be debugged: a loss, or the next step of a trainer, whose forward pass is run. */
static dl_status subject(const dlsh_args *a, dlsh_value *v, dl_trainer **t, dl_tensor **loss) {
    const dlsh_node *n = dlsh_arg_node(a, "what"), *of = dlsh_arg_node(a, "of");
    int step = n->kind == DLSH_N_NAME && !strcmp(n->text, "step") && of;
    if (of && !step) return dlsh_arg_fail(a, "of", DL_ERR_VALUE, "dbg l, or dbg step t", "one thing is debugged");
    DLSH_TRY(dlsh_eval(dlsh_arg_session(a), step ? of : n, v));
    *t = dlsh_unwrap(*v, &dlsh_trainer_class);
    if (*t) {
        int had = dl_recording_set(1);
        dl_status st = dl_trainer_forward(*t);
        dl_recording_set(had);
        *loss = dl_trainer_loss(*t);
        return st;
    }
    *loss = v->type == DLSH_TENSOR ? v->as.tensor : NULL;
    if (*loss) return DL_OK;
    return dlsh_arg_fail(a, "what", DL_ERR_TYPE, "dbg l, or dbg step t", "a loss or a trainer is debugged, not %s",
                         dlsh_a(*v));
}

static void end(dlsh_session *s) {
    dlsh_nodewalk_go(&dbg.walk, dbg.quit ? 0 : 2 * dbg.walk.n);
    dlsh_nodewalk_end(&dbg.walk);
    for (int i = 0; i < dbg.npoints; i++) dlsh_buf_free(&dbg.points[i].former);
    memset(&dbg, 0, sizeof dbg);
    if (dlsh_get(s, "node")) dlsh_unset(s, "node");
}

static dl_status dbg_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    dlsh_session *s = dlsh_arg_session(a);
    dlsh_value v = dlsh_void();
    dl_trainer *t = NULL;
    dl_tensor *loss = NULL;
    int block = dlsh_arg_node(a, "commands") != NULL;
    if (!dlsh_arg_node(a, "what")) {
        DLSH_TRY(need_active(a));
        return dlsh_arg_exec(a, "commands", NULL);
    }
    if (dbg.active) return dlsh_arg_fail(a, NULL, DL_ERR_STATE, "quit", "a debugger runs already");
    dl_status st = subject(a, &v, &t, &loss);
    if (!st) st = dlsh_nodewalk_begin(&dbg.walk, loss, t);
    if (!st) {
        dbg.active = 1;
        st = arrive(a);
        if (!st) st = block ? dlsh_arg_exec(a, "commands", NULL) : read_lines(a);
        int update = t && !st && !dbg.quit;
        dbg.quit |= st != DL_OK;
        end(s);
        if (update) st = dl_trainer_update(t);
    }
    dlsh_drop(v);
    return st;
}

const dlsh_command dbg_commands[] = {
    DLSH_ROW(
        "dbg", DLSH_REPORT, dbg_run, "dbg LOSS | dbg step TRAINER [{ COMMANDS }]",
        "Walks over the nodes of a loss, forward and then backward, one at a time. Each shows op, line, operands and "
        "result, or the gradient that came in and those that go on. Commands are read from the prompt, or from the "
        "block; an empty line repeats the last one. At the end the gradients are those of backward, and a trainer is "
        "updated; quit leaves them as they were.",
        DLSH_PARAMS({"what", DLSH_ARG_SYNTAX, .flags = DLSH_OPTIONAL, .doc = "a loss, a trainer, or the word step"},
                    {"of", DLSH_ARG_SYNTAX, .flags = DLSH_OPTIONAL, .doc = "the trainer, after step"},
                    {"commands", DLSH_ARG_BLOCK, .flags = DLSH_OPTIONAL, .doc = "commands of the debugger"}),
        .subs = words, .examples = "dbg l\ndbg step t\ndbg l { break relu; continue; print norm(node.grad); finish }"),
    {0}};
