/* Commands about the session itself: variables, seed, time. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "commands/device.h"
#include "commands/settings.h"
#include "view/tensor.h"
#include "dlcore/copy.h"

/* ---------------------------------------------------------------- vars */

static dl_status vars_run(const dlsh_args *a) {
    dlsh_session *s = dlsh_arg_session(a);
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"name", 'l', ""}, {"type", 'l', ""}, {"value", 'l', ""});
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(s, i, &v);
        if (!v || !strcmp(name, "_")) continue;
        if (dlsh_given(a, "pattern") && fnmatch(dlsh_arg_str(a, "pattern"), name, 0)) continue;
        DLSH_SCOPED_BUF line = {0};
        DLSH_TRY(dlsh_value_line(&line, *v));
        DLSH_TRY(dlsh_table_row(
            &t, (dlsh_value[]){dlsh_string(name), dlsh_string(dlsh_type_name(*v)), dlsh_buf_string(&line)}));
    }
    return dlsh_table_show(dlsh_arg_sink(a), &t, DL_OK, "no variables yet\n");
}

/* ---------------------------------------------------------------- show */

static dl_status show_settings(DLSH_UNUSED dlsh_session *s, dlsh_sink *sink) { return dlsh_settings_list(sink); }

static dl_status show_value(dlsh_sink *sink, dlsh_value v) {
    if (v.type == DLSH_HANDLE && v.as.handle->cls->show) return v.as.handle->cls->show(v.as.handle->self, sink);
    return sink->ops->value(sink, v);
}

static const struct {
    const char *word;
    dl_status (*show)(dlsh_session *s, dlsh_sink *sink);
} topics[] = {{"devices", dlsh_show_devices}, {"memory", dlsh_show_memory}, {"settings", show_settings}};

/* The word of `show WORD` when nothing else is meant by it. */
static const char *lone_word(const dlsh_args *a) {
    const dlsh_node *n = dlsh_arg_node(a, "thing");
    if (n && n->kind == DLSH_N_EXPR && n->nkids == 1) n = n->kids[0];
    return n && n->kind == DLSH_N_NAME && !dlsh_get(dlsh_arg_session(a), n->text) ? n->text : NULL;
}

static dl_status show_run(const dlsh_args *a) {
    dlsh_session *s = dlsh_arg_session(a);
    const char *word = lone_word(a);
    for (size_t i = 0; word && i < DLSH_COUNT(topics); i++)
        if (!strcmp(word, topics[i].word)) return topics[i].show(s, dlsh_arg_sink(a));
    dlsh_value v = dlsh_void();
    DLSH_TRY(dlsh_arg_exec(a, "thing", &v));
    if (v.type == DLSH_VOID) return DL_OK; /* the statement has shown its value */
    dl_status status = show_value(dlsh_arg_sink(a), v);
    dlsh_drop(v);
    return status;
}

/* ---------------------------------------------------------------- seed, device, time */

static dl_status seed_run(const dlsh_args *a, dlsh_value *result) {
    if (dlsh_given(a, "n")) {
        if (dlsh_arg_int(a, "n") < 0)
            return dlsh_arg_fail(a, "n", DL_ERR_VALUE, NULL, "a seed is a whole number from 0 on, got %ld",
                                 dlsh_arg_int(a, "n"));
        dl_seed((unsigned long)dlsh_arg_int(a, "n"));
    } else {
        dlsh_put(dlsh_arg_sink(a), "%lu\n", dl_seed_get());
    }
    *result = dlsh_int((long)dl_seed_get());
    return DL_OK;
}

static dl_status initial_seed_run(DLSH_UNUSED const dlsh_args *a, dlsh_value *result) {
    return *result = dlsh_int((long)dl_seed_get()), DL_OK;
}

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dl_status time_run(const dlsh_args *a, dlsh_value *result) {
    struct timespec now;
    if (dlsh_arg_called(a)) {
        clock_gettime(CLOCK_REALTIME, &now);
        return dlsh_give(dlsh_float((double)now.tv_sec + (double)now.tv_nsec * 1e-9), result);
    }
    if (!dlsh_arg_node(a, "statement"))
        return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, "time x = randn(1000); time() gives the seconds since 1970",
                             "time needs a statement");
    double wall = dl_seconds(), cpu = processor_seconds();
    dlsh_value v = dlsh_void();
    dl_status status = dlsh_arg_exec(a, "statement", &v);
    wall = dl_seconds() - wall;
    cpu = processor_seconds() - cpu;
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (!status && v.type != DLSH_VOID) status = sink->ops->value(sink, v);
    dlsh_drop(v);
    DLSH_TRY(status);
    if (dlsh_sink_look(sink).mode != DLSH_MODE_TABLE) {
        DLSH_TRY(dlsh_give(DLSH_RECORD_OF({"seconds", dlsh_float(wall)}, {"cpu_seconds", dlsh_float(cpu)}), &v));
        status = sink->ops->value(sink, v);
        dlsh_drop(v);
        return status;
    }
    const char *unit = wall < 1e-3 ? "us" : wall < 1 ? "ms" : "s";
    double scale = wall < 1e-3 ? 1e6 : wall < 1 ? 1e3 : 1;
    dlsh_put(sink, "%.4g %s (processor %.4g %s)\n", wall * scale, unit, cpu * scale, unit);
    return DL_OK;
}

/* ---------------------------------------------------------------- clear, input */

static dl_status clear_run(const dlsh_args *a) {
    dlsh_clear(dlsh_arg_sink(a), dlsh_arg_bool(a, "wait"));
    return DL_OK;
}

static dl_status input_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_BUF line = {0};
    const char *prompt = dlsh_arg_str(a, "prompt");
    /* not dlsh_arg_sink, which shows nothing inside a function */
    DLSH_TRY(
        dlsh_input(dlsh_session_sink(dlsh_arg_session(a)), prompt ? prompt : "", dlsh_arg_bool(a, "secret"), &line));
    return dlsh_give(dlsh_buf_string(&line), result);
}

/* ---------------------------------------------------------------- the table */

/* ---------------------------------------------------------------- deepcopy */

enum { DEEPEST = 200 };

/* The values alone; a leaf stays one that asks for a gradient. */
static dlsh_value copy_of_tensor(dl_tensor *t) {
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *values = dl_detach(t);
    dl_tensor *copy = values ? dl_clone(values) : NULL;
    if (copy && dl_requires_grad(t) && dl_is_leaf(t) && dl_set_requires_grad(copy, 1)) dl_unref(copy), copy = NULL;
    return dlsh_tensor(copy);
}

/* By its method copy. */
static dlsh_value copy_of_handle(dlsh_session *s, dlsh_value v) {
    DLSH_DROPPED dlsh_value copy = dlsh_void();
    dlsh_value out = dlsh_void();
    if (!dlsh_get_field(s, v, "copy", &copy) && !dlsh_call(s, copy, &(dlsh_callargs){0}, &out)) return out;
    dlsh_fail(DL_ERR_TYPE, NULL, "deepcopy: %s cannot be copied", dlsh_a(v));
    return dlsh_void();
}

static dlsh_value deepcopy(dlsh_session *s, dlsh_value v, int depth) {
    if (depth > DEEPEST) {
        dlsh_fail(DL_ERR_VALUE, "does a list contain itself?", "deepcopy: nested more than %d levels deep", DEEPEST);
        return dlsh_void();
    }
    if (v.type == DLSH_TENSOR) return copy_of_tensor(v.as.tensor);
    if (v.type == DLSH_HANDLE) return copy_of_handle(s, v);
    if (v.type != DLSH_LIST && v.type != DLSH_RECORD) return dlsh_ref(v);
    const int record = v.type == DLSH_RECORD, n = record ? v.as.record->n : v.as.list->n;
    DLSH_DROPPED dlsh_value copy = record ? dlsh_new_record() : dlsh_new_list(n);
    dlsh_value out = dlsh_void();
    dl_status st = dlsh_failed(copy) ? dl_failed() : DL_OK;
    for (int i = 0; i < n && !st; i++) {
        dlsh_value one = deepcopy(s, record ? v.as.record->values[i] : v.as.list->items[i], depth + 1);
        st = record ? dlsh_record_add(copy, v.as.record->keys[i], one) : dlsh_append(copy, one);
    }
    return st || dlsh_hand_over(&copy, &out) ? dlsh_void() : out;
}

static dl_status deepcopy_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_give(deepcopy(dlsh_arg_session(a), *dlsh_arg(a, "value"), 0), result);
}

const dlsh_command general_commands[] = {
    DLSH_ROW("vars", DLSH_REPORT, vars_run, "vars [PATTERN]",
             "Lists the variables: type and one line about the value; of a tensor its shape, range, mean and spread.",
             DLSH_PARAMS({"pattern", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL,
                          .doc = "only names that match, as file names do: loss*", .complete = "var"}),
             .examples = "vars\nvars loss*"),
    DLSH_ROW("show", DLSH_REPORT, show_run, "show THING",
             "Shows a value in full: a net layer by layer, a dataset, a trainer. `show devices`, `show memory` and "
             "`show settings` describe those.",
             DLSH_PARAMS({"thing", DLSH_ARG_STATEMENT, .doc = "a value; or one of the words devices, memory, settings",
                          .complete = "show"}),
             .examples = "show m\nshow devices\nshow memory"),
    DLSH_ROW(
        "seed", DLSH_ACTION | DLSH_FUNCTION, seed_run, "seed [N]",
        "Seeds the random numbers of tensors, initialisation, data and dropout. The same seed gives the same numbers.",
        DLSH_PARAMS(
            {"n", .want = "int", .flags = DLSH_OPTIONAL, .doc = "the seed; without it the present one is printed"}),
        .examples = "seed 42"),
    DLSH_ACT_ROW("manual_seed", seed_run, "manual_seed(N)", "Seeds the random numbers: the same as seed N.",
                 DLSH_PARAMS({"n", .want = "int", .doc = "the seed"})),
    DLSH_FN_ROW("initial_seed", initial_seed_run, "initial_seed()", "The seed that random numbers began with.",
                .examples = "seed 42\ninitial_seed()"),
    DLSH_ROW("time", DLSH_FUNCTION, time_run, "time STATEMENT, time()",
             "Runs a statement and shows how long it took; as a function, the seconds since 1970.",
             DLSH_PARAMS({"statement", DLSH_ARG_STATEMENT, .flags = DLSH_OPTIONAL, .doc = "what to run",
                          .complete = "statement"}),
             .examples = "time x = randn(1000, 1000) @ randn(1000, 1000)"),
    DLSH_ROW("clear", DLSH_ACTION, clear_run, "clear [wait]",
             "Clears the screen; in a notebook, what the cell has shown so far.",
             DLSH_OPTIONS({"wait", DLSH_OPT_BOOL, NULL, .doc = "in a notebook: clear when the next thing is shown"}),
             .examples = "clear"),
    DLSH_FN_ROW("deepcopy", deepcopy_run, "deepcopy(VALUE)",
                "A copy that shares nothing: of lists and records with what is in them, of tensors without history, of "
                "nets.",
                DLSH_PARAMS({"value", .doc = "what is copied"}),
                .examples = "best = deepcopy({w: ones(3), losses: [1.0, 0.5]})"),
    DLSH_FN_ROW("input", input_run, "input([PROMPT], secret=false)", "Asks the user for a line of text and returns it.",
                DLSH_PARAMS({"prompt", .want = "string", .flags = DLSH_OPTIONAL, .doc = "the question"}),
                DLSH_OPTIONS({"secret", DLSH_OPT_BOOL, NULL, .doc = "what is typed is not shown"}),
                .examples = "name = input(\"Whose run? \")"),
    {0}};
