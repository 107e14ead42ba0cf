/* `dbg`: the debugger's commands, at its prompt and in a block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/help.h"
#include "commands/nets/nets.h"
#include "debug/dbg.h"
#include "debug/stepper.h"
#include "debug/training.h"
#include "lang/eval/interp.h"
#include "view/sink.h"

enum { NEAR = 3 };

dlsh_debugger dlsh_dbg;

dl_status dlsh_dbg_need(const dlsh_args *a) {
    return dlsh_dbg.active ? DL_OK : dlsh_arg_fail(a, NULL, DL_ERR_STATE, "dbg l", "no debugger runs");
}

static dl_status arrive(dlsh_session *s, dlsh_sink *sink) {
    DLSH_TRY(dlsh_dbg_show(s, sink));
    for (int i = 0; i < dlsh_dbg.nshown; i++) {
        DLSH_SCOPED_BUF text = {0};
        DLSH_DROPPED dlsh_value v = dlsh_void();
        DLSH_TRY(dlsh_dbg_value(s, dlsh_dbg.shown[i], 1, &v));
        DLSH_TRY(dlsh_text(&text, v.type == DLSH_VOID ? dlsh_none() : v));
        dlsh_put(sink, "%s = %s\n", dlsh_dbg.shown[i], dlsh_buf_text(&text));
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- steps of a trainer */

static int at_end(void) { return dlsh_dbg.walk.at >= 2 * dlsh_dbg.walk.n; }

/* The step that is walked over is as if it had not been begun: the next step is this one again. st: why it ends. */
static dl_status take_step_back(dl_status st) {
    dl_trainer *t = dlsh_dbg.trainer;
    dl_error e = {0};
    long from;
    if (!dlsh_dbg.begun) return st;
    dlsh_dbg.begun = 0;
    if (st) dl_error_take(&e);
    dl_status back = dl_trainer_rewind(t, dlsh_trainer_state(t).step, &from, NULL, NULL);
    return st ? dl_error_put(&e) : back;
}

/* The forward pass of the next step, and the walk over it. */
static dl_status begin_step(void) {
    dl_source here = *dl_source_here();
    *dl_source_here() = dlsh_dbg.source;
    int had = dl_recording_set(1);
    dl_status st = dl_trainer_forward(dlsh_dbg.trainer);
    dl_recording_set(had);
    dlsh_dbg.steps--;
    dlsh_dbg.begun = !st;
    if (!st) st = dlsh_nodewalk_begin(&dlsh_dbg.walk, dl_trainer_loss(dlsh_dbg.trainer), dlsh_dbg.trainer);
    if (st) st = take_step_back(st);
    *dl_source_here() = here;
    return st;
}

/* Ends the step whose nodes are done, and begins the next one. */
static dl_status roll(const dlsh_args *a) {
    dlsh_nodewalk_go(&dlsh_dbg.walk, 2 * dlsh_dbg.walk.n);
    dlsh_nodewalk_end(&dlsh_dbg.walk);
    dlsh_dbg.nformer = 0;
    *dlsh_dbg.inside = 0;
    dlsh_dbg.begun = 0;
    DLSH_TRY(dl_trainer_update(dlsh_dbg.trainer));
    DLSH_TRY(begin_step());
    dl_trainer_state now = dlsh_trainer_state(dlsh_dbg.trainer);
    dlsh_put(dlsh_arg_sink(a), "step %ld\n", now.step + 1);
    return DL_OK;
}

/* One place on; past the end of a step into the next one, if there is to be one. */
static dl_status advance(const dlsh_args *a) {
    if (at_end() && dlsh_dbg.steps > 0) return roll(a);
    dlsh_nodewalk_go(&dlsh_dbg.walk, dlsh_dbg.walk.at + 1);
    return DL_OK;
}

/* ---------------------------------------------------------------- layers */

/* The path of the layer at a place, and below it of the composite op whose part the node is; "" none. */
static const char *layer_at(int place) {
    static char path[2][DLSH_DBG_PATH];
    static int turn;
    dl_recorded c;
    int backward;
    if (!dlsh_nodewalk_node(&dlsh_dbg.walk, place, &c, &backward)) return "";
    char *to = path[turn ^= 1];
    if (dlsh_dbg_parts(place, &(int){0}) > 1)
        snprintf(to, DLSH_DBG_PATH, "%s%s%s@%lu", c.layer, *c.layer ? "." : "", c.composite, c.call);
    else
        snprintf(to, DLSH_DBG_PATH, "%s", c.layer);
    return to;
}

int dlsh_dbg_closed(int place) { return dlsh_dbg_begins(place) && strcmp(dlsh_dbg.inside, layer_at(place)) != 0; }

static int is_below(const char *path, const char *outer) {
    size_t n = strlen(outer);
    return !n || (!strncmp(path, outer, n) && (!path[n] || path[n] == '.'));
}

/* What `next` passes over at a place: the part of the layer `inside` that the node belongs to; "" the node alone. */
static void part_at(int place, char out[DLSH_DBG_PATH]) {
    const char *path = layer_at(place);
    while (!is_below(path, dlsh_dbg.inside)) {
        char *dot = strrchr(dlsh_dbg.inside, '.');
        *(dot ? dot : dlsh_dbg.inside) = 0;
    }
    size_t n = strlen(dlsh_dbg.inside), k = n + (path[n] == '.');
    snprintf(out, DLSH_DBG_PATH, "%.*s", path[n] ? (int)(k + strcspn(path + k, ".")) : 0, path);
}

/* The layer that a step has led into is taken part by part from now on. */
static void enter_layer(const char *from, const char *to) {
    snprintf(dlsh_dbg.inside, sizeof dlsh_dbg.inside, "%s", to);
    char *dot = strrchr(dlsh_dbg.inside, '.');
    if (strcmp(from, to) != 0) *(dot ? dot : dlsh_dbg.inside) = 0;
}

/* ---------------------------------------------------------------- commands of movement */

static long count_of(const dlsh_args *a) { return dlsh_given(a, "n") ? dlsh_arg_int(a, "n") : 1; }

static dl_status remember(int place) {
    int *more = dlsh_grow(dlsh_dbg.former, dlsh_dbg.nformer, &dlsh_dbg.formercap, sizeof *more);
    if (!more) return dl_failed();
    dlsh_dbg.former = more;
    more[dlsh_dbg.nformer++] = place;
    return DL_OK;
}

static int stops(const dlsh_args *a) { return dlsh_dbg_stops(dlsh_arg_session(a), dlsh_arg_sink(a)); }

/* A breakpoint stopped within a layer or a composite op: from here on its nodes come one by one. */
static void stand_within(void) {
    const int at = dlsh_dbg.walk.at;
    const char *here = layer_at(at), *before = at == dlsh_dbg.walk.n ? "" : layer_at(at - 1);
    snprintf(dlsh_dbg.inside, sizeof dlsh_dbg.inside, "%s", here);
    char *dot = strrchr(dlsh_dbg.inside, '.');
    if (strcmp(here, before) != 0) *(dot ? dot : dlsh_dbg.inside) = 0;
}

/* Over the layer that begins here, in the same pass; of a node without one, over the node. *stopped: at a breakpoint.
 */
static dl_status over(const dlsh_args *a, int *stopped) {
    char part[DLSH_DBG_PATH], now[DLSH_DBG_PATH];
    part_at(dlsh_dbg.walk.at, part);
    int backward = dlsh_dbg.walk.at >= dlsh_dbg.walk.n;
    do {
        DLSH_TRY(advance(a));
        *stopped = stops(a);
        if (*stopped || at_end() || (dlsh_dbg.walk.at >= dlsh_dbg.walk.n) != backward) return DL_OK;
        part_at(dlsh_dbg.walk.at, now);
    } while (*part && !strcmp(now, part));
    return DL_OK;
}

/* Into a composite op that is shown as one node without moving: its first part is the same place. */
static dl_status into(const dlsh_args *a, int *stopped) {
    char from[DLSH_DBG_PATH];
    snprintf(from, sizeof from, "%s", layer_at(dlsh_dbg.walk.at));
    if (dlsh_dbg_closed(dlsh_dbg.walk.at)) {
        memcpy(dlsh_dbg.inside, from, sizeof from);
        return DL_OK;
    }
    DLSH_TRY(advance(a));
    enter_layer(from, layer_at(dlsh_dbg.walk.at));
    *stopped = stops(a);
    return DL_OK;
}

static dl_status move(const dlsh_args *a, dl_status (*one)(const dlsh_args *, int *)) {
    DLSH_TRY(dlsh_dbg_need(a));
    int stopped = 0;
    for (long i = count_of(a); i > 0 && !stopped && !(at_end() && dlsh_dbg.steps <= 0); i--) {
        DLSH_TRY(dlsh_check_interrupt());
        DLSH_TRY(remember(dlsh_dbg.walk.at));
        DLSH_TRY(one(a, &stopped));
    }
    if (stopped && one == over) stand_within();
    return arrive(dlsh_arg_session(a), dlsh_arg_sink(a));
}

static dl_status next_run(const dlsh_args *a) { return move(a, over); }

static dl_status step_run(const dlsh_args *a) { return move(a, into); }

/* What next and step did is undone; before that, a node each. */
static dl_status back_run(const dlsh_args *a) {
    DLSH_TRY(dlsh_dbg_need(a));
    if (!dlsh_dbg.walk.at)
        return dlsh_arg_fail(a, NULL, DL_ERR_STATE, NULL, "this is the first node%s",
                             dlsh_dbg.trainer ? " of the step" : "");
    int stopped = 0;
    for (long i = count_of(a); i > 0 && !stopped && dlsh_dbg.walk.at > 0; i--) {
        int to = dlsh_dbg.nformer ? dlsh_dbg.former[--dlsh_dbg.nformer] : dlsh_dbg.walk.at - 1;
        DLSH_TRY(dlsh_check_interrupt());
        while (dlsh_dbg.walk.at > to && !stopped) {
            dlsh_nodewalk_go(&dlsh_dbg.walk, dlsh_dbg.walk.at - 1);
            stopped = stops(a);
        }
    }
    return arrive(dlsh_arg_session(a), dlsh_arg_sink(a));
}

/* Runs on, a node at a time, until the condition holds. */
static dl_status run_until(const dlsh_args *a, int (*holds)(const dlsh_args *a)) {
    DLSH_TRY(dlsh_dbg_need(a));
    dlsh_dbg.nformer = 0;
    dlsh_dbg_ask_anew();
    do {
        DLSH_TRY(dlsh_check_interrupt());
        DLSH_TRY(advance(a));
    } while (!holds(a));
    if (at_end()) dlsh_dbg_tell_unknown(dlsh_arg_sink(a));
    return arrive(dlsh_arg_session(a), dlsh_arg_sink(a));
}

static int is_stop(const dlsh_args *a) { return stops(a) || (at_end() && dlsh_dbg.steps <= 0); }

static dl_status continue_run(const dlsh_args *a) {
    if (dlsh_at_error_stands()) return dlsh_at_error_go_on();
    return run_until(a, is_stop);
}

static dl_status reverse_run(const dlsh_args *a) {
    DLSH_TRY(dlsh_dbg_need(a));
    if (dlsh_given(a, "continue") && strcmp(dlsh_arg_str(a, "continue"), "-continue") != 0)
        return dlsh_arg_fail(a, "continue", DL_ERR_VALUE, "reverse-continue", "reverse takes nothing");
    dlsh_dbg.nformer = 0;
    int stopped = 0;
    while (dlsh_dbg.walk.at > 0 && !stopped) {
        DLSH_TRY(dlsh_check_interrupt());
        dlsh_nodewalk_go(&dlsh_dbg.walk, dlsh_dbg.walk.at - 1);
        stopped = stops(a);
    }
    if (!stopped) dlsh_put(dlsh_arg_sink(a), "the first node%s\n", dlsh_dbg.trainer ? " of the step" : "");
    return arrive(dlsh_arg_session(a), dlsh_arg_sink(a));
}

/* Out of the layer that step led into, else to the end of the pass, or to a breakpoint on the way. */
static dl_status finish_run(const dlsh_args *a) {
    DLSH_TRY(dlsh_dbg_need(a));
    char inside[DLSH_DBG_PATH], part[DLSH_DBG_PATH];
    dlsh_nodewalk *w = &dlsh_dbg.walk;
    part_at(w->at, part);
    snprintf(inside, sizeof inside, "%s", dlsh_dbg.inside);
    dlsh_dbg.nformer = 0;
    int end = w->at < w->n ? w->n : 2 * w->n, stopped = 0;
    while (w->at < end && !stopped && (!*inside || is_below(layer_at(w->at), inside))) {
        DLSH_TRY(dlsh_check_interrupt());
        dlsh_nodewalk_go(w, w->at + 1);
        stopped = stops(a);
    }
    if (stopped) stand_within();
    return arrive(dlsh_arg_session(a), dlsh_arg_sink(a));
}

/* To the node with a number of `list`. */
static dl_status goto_run(const dlsh_args *a) {
    DLSH_TRY(dlsh_dbg_need(a));
    const long n = dlsh_arg_int(a, "n");
    if (n < 1 || n > 2L * dlsh_dbg.walk.n)
        return dlsh_arg_fail(a, "n", DL_ERR_INDEX, "list shows numbers", "nodes have the numbers 1 to %d",
                             2 * dlsh_dbg.walk.n);
    dlsh_dbg.nformer = 0;
    dlsh_nodewalk_go(&dlsh_dbg.walk, (int)n - 1);
    stand_within();
    return arrive(dlsh_arg_session(a), dlsh_arg_sink(a));
}

static int is_condition(const dlsh_args *a) {
    return is_stop(a) || dlsh_dbg_is_true(dlsh_arg_session(a), dlsh_arg_str(a, "condition"));
}

static dl_status until_run(const dlsh_args *a) { return run_until(a, is_condition); }

/* ---------------------------------------------------------------- commands that look */

static dl_status where_run(const dlsh_args *a) {
    if (dlsh_at_error_stands()) return dlsh_at_error_where();
    DLSH_TRY(dlsh_dbg_need(a));
    return arrive(dlsh_arg_session(a), dlsh_arg_sink(a));
}

static dl_status list_run(const dlsh_args *a) {
    DLSH_TRY(dlsh_dbg_need(a));
    return dlsh_dbg_list(dlsh_arg_sink(a), dlsh_given(a, "n") ? (int)dlsh_arg_int(a, "n") : NEAR);
}

static dl_status print_run(const dlsh_args *a) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    if (!dlsh_at_error_stands()) DLSH_TRY(dlsh_dbg_need(a));
    DLSH_TRY(dlsh_dbg_value(dlsh_arg_session(a), dlsh_arg_str(a, "expression"), 0, &v));
    DLSH_SCOPED_BUF b = {0};
    DLSH_TRY(dlsh_text(&b, v));
    dlsh_put(dlsh_arg_sink(a), "%s\n", dlsh_buf_text(&b));
    return DL_OK;
}

static dl_status display_run(const dlsh_args *a) {
    DLSH_TRY(dlsh_dbg_need(a));
    if (dlsh_dbg.nshown == DLSH_DBG_POINTS)
        return dlsh_arg_fail(a, NULL, DL_ERR_STATE, NULL, "at most %d expressions", DLSH_DBG_POINTS);
    snprintf(dlsh_dbg.shown[dlsh_dbg.nshown++], sizeof dlsh_dbg.shown[0], "%s", dlsh_arg_str(a, "expression"));
    return arrive(dlsh_arg_session(a), dlsh_arg_sink(a));
}

static dl_status quit_run(const dlsh_args *a) {
    if (dlsh_at_error_stands()) return dlsh_at_error_go_on();
    DLSH_TRY(dlsh_dbg_need(a));
    dlsh_dbg.quit = 1;
    dlsh_nodewalk_go(&dlsh_dbg.walk, 0);
    return DL_OK;
}

static const dlsh_command words[];

/* The words with the first sentence of what they do; short forms, which say that of others, stand beside them. */
static dl_status list_words(dlsh_sink *sink) {
    dlsh_table t = DLSH_TABLE({"word", 'l', ""}, {"what it does", 'l', ""});
    dl_status st = DL_OK;
    for (const dlsh_command *w = words; w->name && !st; w++) {
        const char *stop = strstr(w->doc, ". ");
        st = DLSH_TABLE_ROW(&t, dlsh_string(w->name),
                            dlsh_stringf("%.*s", stop ? (int)(stop - w->doc + 1) : (int)strlen(w->doc), w->doc));
    }
    return dlsh_table_show(sink, &t, st, NULL);
}

static dl_status help_words_run(const dlsh_args *a) {
    DLSH_SCOPED_BUF page = {0};
    dlsh_sink *sink = dlsh_arg_sink(a);
    const dlsh_look look = dlsh_sink_look(sink);
    if (!dlsh_given(a, "topic")) {
        DLSH_TRY(list_words(sink));
        dlsh_put(sink, "help WORD tells more of one; statements of the shell can be given here too\n");
        return DL_OK;
    }
    const char *topic = dlsh_arg_str(a, "topic");
    dlsh_session *s = dlsh_arg_session(a);
    if (!dlsh_help_word(s, topic, &look, &page) && !dlsh_help_page(s, topic, &look, &page))
        return dlsh_arg_fail(a, "topic", DL_ERR_NAME, "help", "there is no help on %s", topic);
    dlsh_page(sink, dlsh_buf_text(&page), page.n);
    return DL_OK;
}

#define COUNT(doc_) DLSH_PARAMS({"n", .want = "int", .flags = DLSH_OPTIONAL, .doc = doc_})
#define TEXT(name_, doc_) DLSH_PARAMS({name_, DLSH_ARG_TEXT, .doc = doc_})
#define IGNORE                                                                                                         \
    { "ignore", DLSH_OPT_INT, .dflt = "0", .doc = "how often it is passed over first" }
#define OF_TRAINER                                                                                                     \
    { "trainer", DLSH_OPT_VALUE, .want = "trainer", .doc = "the training that it stops (without a walk: the only one)" }

static const dlsh_command words[] = {
    DLSH_ROW(
        "next", DLSH_REPORT, next_run, "next [N]",
        "Goes to the next node; of a layer or an op made of several nodes to the one behind it, or to a breakpoint "
        "within.",
        COUNT("how often (1)"), .examples = "dbg l { next; next 2; where; back; quit }"),
    DLSH_ROW("n", DLSH_REPORT, next_run, "n [N]", "The same as next.", COUNT("how often (1)")),
    DLSH_ROW("step", DLSH_REPORT, step_run, "step [N]",
             "Goes to the next node, into layers and into ops that are made of others, such as mse_loss.",
             COUNT("how many nodes (1)"), .examples = "dbg l { step; step; finish; quit }"),
    DLSH_ROW("s", DLSH_REPORT, step_run, "s [N]", "The same as step.", COUNT("how many nodes (1)")),
    DLSH_ROW("back", DLSH_REPORT, back_run, "back [N]",
             "Undoes next and step; after other commands it goes back by a node. Gradients are undone, and breakpoints "
             "on the way stop.",
             COUNT("how often (1)")),
    DLSH_ROW("continue", DLSH_REPORT, continue_run, "continue", "Runs on to a breakpoint, or to the end."),
    DLSH_ROW("c", DLSH_REPORT, continue_run, "c", "The same as continue."),
    DLSH_ROW("reverse", DLSH_REPORT, reverse_run, "reverse | reverse-continue",
             "Runs backwards to a breakpoint, or to the beginning; gradients are undone.",
             DLSH_PARAMS({"continue", DLSH_ARG_TEXT, .flags = DLSH_OPTIONAL, .doc = "-continue"})),
    DLSH_ROW("finish", DLSH_REPORT, finish_run, "finish",
             "Leaves the layer that step led into; else goes to the end of the pass. Breakpoints on the way stop."),
    DLSH_ROW("goto", DLSH_REPORT, goto_run, "goto N",
             "Goes to the node of that number, forwards or backwards, past breakpoints; `list` shows numbers.",
             DLSH_PARAMS({"n", .want = "int", .doc = "the node's number"}),
             .examples = "dbg l { list 100; goto 2; break node 4; continue; quit }"),
    DLSH_ROW("until", DLSH_REPORT, until_run, "until CONDITION",
             "Runs on until the condition holds, or to a breakpoint.", TEXT("condition", "an expression"),
             .examples = "dbg l { until node.backward; where; quit }"),
    DLSH_ROW("where", DLSH_REPORT, where_run, "where", "Shows the node again."),
    DLSH_ROW("list", DLSH_REPORT, list_run, "list [N]",
             "Lists the nodes around this one, with numbers for goto and `break node N`; -> is where the walk stands, "
             "`break` has the numbers of breakpoints at the node.",
             COUNT("how many before and behind it (3)")),
    DLSH_ROW("print", DLSH_REPORT, print_run, "print EXPRESSION",
             "Shows a value; `node` has number, op, line, layer, backward, inputs, output, grad and grads of the node. "
             "The name "
             "of a layer is the layer, or, where it has no weights, its result.",
             TEXT("expression", "an expression"),
             .examples = "dbg l { next; print node.op; print shape(node.output); quit }"),
    DLSH_ROW("p", DLSH_REPORT, print_run, "p EXPRESSION", "The same as print.", TEXT("expression", "an expression")),
    DLSH_ROW("display", DLSH_REPORT, display_run, "display EXPRESSION", "Shows a value at every stop.",
             TEXT("expression", "an expression"), .examples = "dbg l { display node.op; next; next; quit }"),
    DLSH_ROW(
        "break", DLSH_REPORT, dlsh_dbg_break,
        "break [OP | LAYER | LINE | FILE:LINE | node N | CONDITION | error [all | off]] [ignore=N] [trainer=t]",
        "Stops at an op, a layer, a line, a node by its number, or where a condition begins to hold, in both passes; "
        "without arguments "
        "lists the breakpoints. A condition with `node` is asked at each node by itself. Without a walk, or with "
        "trainer=, a condition stops a training at the step where it begins to hold, before the update: the "
        "trainer's device decides it, and steps wait for nothing. It may name layers (relu0: the result, fc1.weight: "
        "the parameter), `loss`, gradients, and variables; what cannot be computed on the device is evaluated on the "
        "host, which it says. break error, also without a walk, stops where an error is raised that no try takes, with "
        "the variables of its function at the prompt; with all also where a try takes it; off ends that.",
        DLSH_PARAMS({"condition", DLSH_ARG_TEXT, .flags = DLSH_OPTIONAL,
                     .doc = "the name of an op or a layer, a line, an expression, or the word error"}),
        DLSH_OPTIONS(IGNORE, OF_TRAINER),
        .examples =
            "dbg l { break norm(node.output) > 100; break isnan(node.output) ignore=1; continue; break; quit }\n"
            "dbg { break error }; dbg { break error off }"),
    DLSH_ROW("watch", DLSH_REPORT, dlsh_dbg_watch,
             "watch EXPRESSION | watch NET.PATTERN.grad [when=nan] [ignore=N] [trainer=t]",
             "Stops where a value changes, or becomes nan, inf or zero, and shows both values. m.*.grad: the gradients "
             "of all parameters of m. Without a walk, or with trainer=, it stops a training at such a step, as break "
             "does.",
             TEXT("expression", "an expression, or a pattern of parameters"),
             DLSH_OPTIONS({"when", DLSH_OPT_WORD, .dflt = "change", .doc = "what it stops at",
                           .complete = "change|nan|inf|zero"},
                          IGNORE, OF_TRAINER),
             .examples = "w = param(ones(3)); l = sum(w * w); dbg l { watch w.grad[1]; continue; delete; quit }"),
    DLSH_ROW("delete", DLSH_REPORT, dlsh_dbg_delete, "delete [N]", "Removes a breakpoint or watch, or all.",
             COUNT("its number")),
    DLSH_ROW("up", DLSH_REPORT, dlsh_at_error_up, "up [N]", "At an error: looks at the function that called this one.",
             COUNT("how many calls (1)")),
    DLSH_ROW("down", DLSH_REPORT, dlsh_at_error_down, "down [N]",
             "At an error: looks at the function that this one called.", COUNT("how many calls (1)")),
    DLSH_ROW("variables", DLSH_REPORT, dlsh_at_error_variables, "variables",
             "At an error: lists the variables of the function that is looked at."),
    DLSH_ROW("quit", DLSH_REPORT, quit_run, "quit",
             "Leaves the debugger; gradients are as before. A trainer makes the step that was walked over anew."),
    DLSH_ROW(
        "help", DLSH_REPORT, help_words_run, "help [TOPIC]",
        "Lists the words of the debugger, or describes one, or a topic of the shell.",
        DLSH_PARAMS({"topic", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL, .doc = "a word or topic", .complete = "topic"})),
    DLSH_ROW(
        "h", DLSH_REPORT, help_words_run, "h [TOPIC]", "The same as help.",
        DLSH_PARAMS({"topic", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL, .doc = "a word or topic", .complete = "topic"})),
    DLSH_ROW("q", DLSH_REPORT, quit_run, "q", "The same as quit."),
    {0}};

/* ---------------------------------------------------------------- dbg */

/* The next command: of the client that steps, else a line from the prompt; an empty one repeats the last. */
static dl_status read_command(dlsh_session *s, dlsh_sink *sink, dlsh_buf *last) {
    DLSH_SCOPED_BUF line = {0};
    if (dlsh_dbg.stepped)
        dlsh_buf_puts(&line, dlsh_stepper_word(s));
    else
        DLSH_TRY(dlsh_debug_ask(sink, "(dbg) ", &line));
    if (!line.n) return DL_OK;
    dlsh_buf_free(last);
    dlsh_buf_add(last, dlsh_buf_text(&line), line.n);
    return DL_OK;
}

/* At a terminal Ctrl-C ends a command that runs, and not the walk: it stands at a node, as after a breakpoint. */
static int stays_after_interrupt(dlsh_session *s, dlsh_sink *sink) {
    if (dlsh_dbg.stepped || !dlsh_sink_look(sink).live || !dlsh_dbg.walk.n) return 0;
    dl_interrupt_set(0);
    dl_error_clear();
    dlsh_place_clear(s);
    dlsh_put(sink, "interrupted; the walk stands here, quit leaves it\n");
    return !arrive(s, sink);
}

/* Commands until the walk or their input ends. */
static dl_status read_commands(dlsh_session *s, dlsh_sink *sink) {
    DLSH_SCOPED_BUF last = {0};
    while (!dlsh_dbg.quit && !(at_end() && dlsh_dbg.steps <= 0)) {
        DLSH_SCOPED_BUF text = {0};
        dlsh_value v;
        if (read_command(s, sink, &last)) {
            if (dlsh_interrupted()) return dl_failed();
            dl_error_clear();
            return DL_OK;
        }
        dlsh_buf_printf(&text, "dbg { %s }", dlsh_buf_text(&last));
        if (!dlsh_run(s, "<dbg>", dlsh_buf_text(&text), text.n, &v)) {
            dlsh_drop(v);
            continue;
        }
        if (dlsh_interrupted()) {
            if (!stays_after_interrupt(s, sink)) return dl_failed();
            continue;
        }
        dlsh_warn_failure(s);
    }
    return DL_OK;
}

/* What is to be debugged: a loss, or the next step of a trainer, or several. */
static dl_status subject(const dlsh_args *a, dlsh_value *v) {
    const dlsh_node *n = dlsh_arg_node(a, "what"), *of = dlsh_arg_node(a, "of");
    int step = n->kind == DLSH_N_NAME && !strcmp(n->text, "step") && of;
    if (of && !step) return dlsh_arg_fail(a, "of", DL_ERR_VALUE, "dbg l, or dbg step t", "one thing is debugged");
    DLSH_TRY(dlsh_eval(dlsh_arg_session(a), step ? of : n, v));
    dlsh_dbg.source = *dl_source_here();
    dlsh_dbg.trainer = dlsh_unwrap(*v, &dlsh_trainer_class);
    dlsh_dbg.steps = dlsh_dbg.trainer ? dlsh_given(a, "steps") ? dlsh_arg_int(a, "steps") : 1 : 0;
    if (dlsh_dbg.trainer && dlsh_dbg.steps > 0) return begin_step();
    if (dlsh_dbg.trainer)
        return dlsh_arg_fail(a, "steps", DL_ERR_VALUE, "dbg step t 10", "at least one step is walked over, not %ld",
                             dlsh_dbg.steps);
    if (v->type == DLSH_TENSOR) return dlsh_nodewalk_begin(&dlsh_dbg.walk, v->as.tensor, NULL);
    return dlsh_arg_fail(a, "what", DL_ERR_TYPE, "dbg l, or dbg step t", "a loss or a trainer is debugged, not %s",
                         dlsh_a(*v));
}

/* Leaves the walk; a trainer is updated, and makes the steps that are left. */
static dl_status end(dlsh_session *s, dl_status st) {
    dl_trainer *t = dlsh_dbg.trainer;
    int on = !dlsh_dbg.quit && !st;
    long left = dlsh_dbg.steps;
    if (on)
        dlsh_nodewalk_go(&dlsh_dbg.walk, 2 * dlsh_dbg.walk.n);
    else
        dlsh_nodewalk_go(&dlsh_dbg.walk, 0);
    dlsh_nodewalk_end(&dlsh_dbg.walk);
    if (!on) st = take_step_back(st);
    free(dlsh_dbg.former);
    memset(&dlsh_dbg, 0, sizeof dlsh_dbg);
    dlsh_dbg_unbind(s);
    if (!on || !t) return st;
    st = dl_trainer_update(t);
    for (long at; !st && left > 0 && !dl_trainer_broke(t, &at); left--) st = dl_trainer_step(t);
    return st;
}

/* The walk that has begun: commands come from a block of a, or one after the other. */
static dl_status visit(dlsh_session *s, dlsh_sink *sink, const dlsh_args *a) {
    dlsh_dbg.active = 1;
    if (dlsh_dbg.trainer) dlsh_training_lend(dlsh_dbg.trainer);
    dlsh_dbg.stepped = !a && dlsh_stepper_into();
    dl_status st = arrive(s, sink);
    if (!st) st = a ? dlsh_arg_exec(a, "commands", NULL) : read_commands(s, sink);
    return end(s, st);
}

dl_status dlsh_dbg_walk(dlsh_session *s, dl_tensor *loss) {
    dlsh_dbg.source = *dl_source_here();
    DLSH_TRY(dlsh_nodewalk_begin(&dlsh_dbg.walk, loss, NULL));
    return visit(s, s->sink, NULL);
}

static dl_status dbg_run(const dlsh_args *a) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    if (!dlsh_arg_node(a, "what")) {
        if (!dlsh_arg_node(a, "commands")) DLSH_TRY(dlsh_dbg_need(a));
        return dlsh_arg_exec(a, "commands", NULL);
    }
    if (dlsh_dbg.active) return dlsh_arg_fail(a, NULL, DL_ERR_STATE, "quit", "a debugger runs already");
    DLSH_TRY(subject(a, &v));
    return visit(dlsh_arg_session(a), dlsh_arg_sink(a), dlsh_arg_node(a, "commands") ? a : NULL);
}

const dlsh_command dbg_commands[] = {
    DLSH_ROW(
        "dbg", DLSH_REPORT, dbg_run, "dbg LOSS | dbg step TRAINER [N] [{ COMMANDS }] | dbg { break error | CONDITION }",
        "Walks over the nodes of a loss, forward and then backward, one at a time; of a trainer over the next step, or "
        "N steps. Each shows op, line, the layer of a net with its own line, operands and result, or the gradient that "
        "came in and those that go on. Commands are read from the prompt, or from the block; an empty line repeats the "
        "last one. dbg { break error } stops where an error is raised, dbg { break norm(fc1.weight.grad) > 10 } a "
        "training at the step where the condition begins to hold. At the end the gradients are those of backward, "
        "and a trainer is updated; quit leaves them as they were, and the trainer's next "
        "step is this one again.",
        DLSH_PARAMS({"what", DLSH_ARG_SYNTAX, .flags = DLSH_OPTIONAL, .doc = "a loss, a trainer, or the word step"},
                    {"of", DLSH_ARG_SYNTAX, .flags = DLSH_OPTIONAL, .doc = "the trainer, after step"},
                    {"steps", .want = "int", .flags = DLSH_OPTIONAL, .doc = "how many steps (1)"},
                    {"commands", DLSH_ARG_BLOCK, .flags = DLSH_OPTIONAL, .doc = "commands of the debugger"}),
        .subs = words,
        .examples = "dbg l\ndbg step t\ndbg { break error }\ndbg { break isnan(loss) }\n"
                    "dbg { watch m.*.grad when=nan trainer=t }\n"
                    "dbg l { break relu; continue; continue; print norm(node.grad); finish }\n"
                    "dbg step t 100 { watch m.*.grad when=nan; break norm(m.conv0.weight.grad) > 10; continue }"),
    {0}};
