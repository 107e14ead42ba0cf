/* The language's own commands and general functions: print, no_grad, assert, exit, len, range, conversions, record,
 * next. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lang/eval/args.h"

/* ---------------------------------------------------------------- commands */

static dl_status print_run(const dlsh_args *a) {
    DLSH_SCOPED_BUF b = {0};
    dl_status st = DL_OK;
    dlsh_sink *sink = dlsh_arg_sink(a);
    int err = dlsh_arg_bool(a, "err");
    int json = dlsh_sink_look(sink).mode == DLSH_MODE_JSON && !err; /* then each value is a line of its own */
    for (int i = 0; i < dlsh_arg_count(a, "values") && !st; i++) {
        const dlsh_value v = *dlsh_arg_at(a, "values", i);
        if (i) dlsh_buf_puts(&b, dlsh_arg_str(a, "sep"));
        st = json ? sink->ops->value(sink, v) : dlsh_text(&b, v);
    }
    dlsh_buf_puts(&b, dlsh_arg_str(a, "end"));
    if (!st && b.failed) st = dl_failed();
    if (!st && err)
        dlsh_complain(sink, dlsh_buf_text(&b), b.n);
    else if (!st && !json)
        sink->ops->text(sink, dlsh_buf_text(&b), b.n);
    return st;
}

static const int recorded = 1, unrecorded = 0;
static dl_status grad_mode_run(const dlsh_args *a) {
    DLSH_SCOPED_GRAD_MODE(*(const int *)dlsh_arg_data(a));
    return dlsh_arg_exec(a, "block", NULL);
}

static dl_status grad_enabled_run(const dlsh_args *a) {
    DLSH_SCOPED_GRAD_MODE(dlsh_arg(a, "mode")->as.i != 0);
    return dlsh_arg_exec(a, "block", NULL);
}

static dl_status assert_run(const dlsh_args *a) {
    int yes;
    const dlsh_value v = *dlsh_arg(a, "condition");
    if (v.type == DLSH_RECORD && dlsh_record_get(v.as.record, "ok"))
        return dlsh_arg_fail(a, "condition", DL_ERR_TYPE, "assert gradcheck(f, x).ok",
                             "a record with the field ok counts as true even where ok is false");
    DLSH_TRY(dlsh_truth(v, &yes));
    const char *message = dlsh_arg_str(a, "message");
    return yes ? DL_OK
               : dlsh_arg_fail(a, "condition", DL_ERR_VALUE, NULL, "assertion failed: %.400s",
                               message ? message : dlsh_arg_text(a, "condition"));
}

/* exit and quit, which takes no status. */
static dl_status exit_run(const dlsh_args *a) {
    long code = dlsh_arg_command(a)->params ? dlsh_arg_int(a, "status") : 0;
    if (code < 0 || code > 255)
        return dlsh_arg_fail(a, "status", DL_ERR_VALUE, NULL, "an exit status lies between 0 and 255, got %ld", code);
    dlsh_exit(dlsh_arg_session(a), (int)code);
    return DL_OK;
}

static dl_status unset_run(const dlsh_args *a) {
    for (int i = 0; i < dlsh_arg_count(a, "names"); i++)
        DLSH_TRY(dlsh_unset(dlsh_arg_session(a), dlsh_arg_at(a, "names", i)->as.str->s));
    return DL_OK;
}

/* ---------------------------------------------------------------- general functions */

static dl_status error_run(const dlsh_args *a) {
    return dlsh_fail(DL_ERR_VALUE, dlsh_arg_str(a, "hint"), "%s", dlsh_arg_str(a, "message"));
}

static const dlsh_param any_param[] = {{"x", .doc = "any value"}, {0}};

static dl_status type_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_give(dlsh_string(dlsh_type_name(*dlsh_arg(a, "x"))), result);
}

static dl_status len_run(const dlsh_args *a, dlsh_value *result) {
    long n;
    DLSH_TRY(dlsh_length(*dlsh_arg(a, "x"), &n));
    *result = dlsh_int(n);
    return DL_OK;
}

static int len_quick(const dlsh_value *v, int n, dlsh_value *result) {
    if (n != 1 || (v[0].type != DLSH_LIST && v[0].type != DLSH_STR && v[0].type != DLSH_RECORD)) return 0;
    long length = v[0].type == DLSH_LIST  ? v[0].as.list->n
                  : v[0].type == DLSH_STR ? (long)v[0].as.str->len
                                          : v[0].as.record->n;
    *result = dlsh_int(length);
    return 1;
}

static dl_status range_run(const dlsh_args *a, dlsh_value *result) {
    long from = dlsh_arg_int(a, "start"), to = dlsh_arg_int(a, "stop"),
         step = dlsh_given(a, "step") ? dlsh_arg_int(a, "step") : 1;
    if (!dlsh_given(a, "stop")) {
        to = from;
        from = 0;
    }
    if (!step) return dlsh_arg_fail(a, "step", DL_ERR_VALUE, NULL, "the step of a range cannot be 0");
    const long limit = 1L << 61; /* so that lengths and positions do not overflow */
    if (labs(from) > limit || labs(to) > limit || labs(step) > limit)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, NULL,
                             "a range goes from -2^61 to 2^61 at most, in steps of at most 2^61");
    return dlsh_give(dlsh_new_range(from, to, step), result);
}

static dl_status bool_run(const dlsh_args *a, dlsh_value *result) {
    int yes;
    DLSH_TRY(dlsh_truth(*dlsh_arg(a, "x"), &yes));
    *result = dlsh_bool(yes);
    return DL_OK;
}

/* The number a string spells; DL_ERR_VALUE when it spells none. */
static dl_status parse_number(const dlsh_args *a, const char *s, int want_int, dlsh_value *out) {
    char *end;
    while (isspace((unsigned char)*s)) s++;
    errno = 0;
    if (want_int)
        *out = dlsh_int(strtol(s, &end, 10));
    else
        *out = dlsh_float(strtod(s, &end));
    int range = want_int && errno == ERANGE, empty = end == s;
    while (isspace((unsigned char)*end)) end++;
    if (range)
        return dlsh_arg_fail(a, "x", DL_ERR_VALUE, "float(s) reads it", "the number '%.60s' does not fit in 64 bits",
                             s);
    if (empty || *end)
        return dlsh_arg_fail(a, "x", DL_ERR_VALUE, NULL, "'%.60s' is not %s", s, want_int ? "an integer" : "a number");
    return DL_OK;
}

static dl_status int_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value v = *dlsh_arg(a, "x");
    if (v.type == DLSH_TENSOR) DLSH_TRY(dlsh_tensor_item(v.as.tensor, &v));
    if (v.type == DLSH_STR) return parse_number(a, v.as.str->s, 1, result);
    if (v.type == DLSH_FLOAT && !(fabs(v.as.f) < 9.2233720368547758e18))
        return dlsh_arg_fail(a, "x", DL_ERR_VALUE, NULL, "%g does not fit in a 64-bit integer", v.as.f);
    *result = dlsh_int(v.type == DLSH_FLOAT ? (long)v.as.f : v.as.i);
    return DL_OK;
}

static dl_status float_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value v = *dlsh_arg(a, "x");
    if (v.type == DLSH_TENSOR) DLSH_TRY(dlsh_tensor_item(v.as.tensor, &v));
    if (v.type == DLSH_STR) return parse_number(a, v.as.str->s, 0, result);
    *result = dlsh_float(v.type == DLSH_FLOAT ? v.as.f : (double)v.as.i);
    return DL_OK;
}

static const dlsh_param number_param[] = {
    {"x", .want = "number|bool|string|tensor", .doc = "a number, its text, or a tensor of one element"}, {0}};

static dl_status record_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *v;
    const char *key;
    DLSH_DROPPED dlsh_value r = dlsh_new_record();
    for (int i = 0; (key = dlsh_arg_extra(a, i, &v)); i++) DLSH_TRY(dlsh_record_add(r, key, dlsh_ref(*v)));
    return dlsh_hand_over(&r, result);
}

static const dlsh_param record_param[] = {{"r", .want = "record", .doc = "the record"}, {0}};

/* keys; values where data is set. */
static dl_status keys_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_record *r = dlsh_arg(a, "r")->as.record;
    DLSH_DROPPED dlsh_value v = dlsh_new_list(r->n);
    for (int i = 0; i < r->n; i++)
        DLSH_TRY(dlsh_append(v, dlsh_arg_data(a) ? dlsh_ref(r->values[i]) : dlsh_string(r->keys[i])));
    return dlsh_hand_over(&v, result);
}

static dl_status items_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_record *r = dlsh_arg(a, "r")->as.record;
    DLSH_DROPPED dlsh_value v = dlsh_new_list(r->n);
    for (int i = 0; i < r->n; i++)
        DLSH_TRY(dlsh_append(v, DLSH_LIST_OF(dlsh_string(r->keys[i]), dlsh_ref(r->values[i]))));
    return dlsh_hand_over(&v, result);
}

static const dlsh_param get_params[] = {
    {"r", .want = "record", .doc = "the record"},
    {"key", .want = "string", .doc = "name of the field"},
    {"otherwise", .flags = DLSH_OPTIONAL, .doc = "result when there is no such field (none)"},
    {0}};

static dl_status get_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *v = dlsh_record_get(dlsh_arg(a, "r")->as.record, dlsh_arg_str(a, "key")),
                     *other = dlsh_arg(a, "otherwise");
    *result = v ? dlsh_ref(*v) : other ? dlsh_ref(*other) : dlsh_none();
    return DL_OK;
}

static int get_quick(const dlsh_value *v, int n, dlsh_value *result) {
    if (n < 2 || n > 3 || v[0].type != DLSH_RECORD || v[1].type != DLSH_STR) return 0;
    const dlsh_value *found = dlsh_record_get_text(v[0].as.record, v[1].as.str);
    *result = found ? dlsh_ref(*found) : n == 3 && v[2].type != DLSH_VOID ? dlsh_ref(v[2]) : dlsh_none();
    return 1;
}

static dl_status remove_field_run(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_bool(dlsh_record_remove(dlsh_arg(a, "r")->as.record, dlsh_arg_str(a, "key")));
    return DL_OK;
}

static dl_status setdefault_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_record *r = dlsh_arg(a, "r")->as.record;
    const char *key = dlsh_arg_str(a, "key");
    const dlsh_value *other = dlsh_arg(a, "otherwise");
    if (!dlsh_record_get(r, key)) DLSH_TRY(dlsh_record_set(r, key, other ? dlsh_ref(*other) : dlsh_none()));
    *result = dlsh_ref(*dlsh_record_get(r, key));
    return DL_OK;
}

/* The next element of an iterator, which only some handles are. */
static dl_status next_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *x = dlsh_arg(a, "x");
    int done = 0;
    if (x->type != DLSH_HANDLE || !x->as.handle->cls->next)
        return dlsh_arg_fail(a, "x", DL_ERR_TYPE, "for goes over it", "%s is not an iterator", dlsh_a(*x));
    DLSH_TRY(x->as.handle->cls->next(dlsh_arg_session(a), x->as.handle->self, result, &done));
    return done ? dlsh_arg_fail(a, "x", DL_ERR_STATE, NULL, "the %s has no more elements", dlsh_type_name(*x)) : DL_OK;
}

static dl_status has_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    dl_status st = dlsh_get_field(dlsh_arg_session(a), *dlsh_arg(a, "x"), dlsh_arg_str(a, "name"), &v);
    if (st) dl_error_clear();
    *result = dlsh_bool(!st);
    return DL_OK;
}

/* Positional arguments from a list, named ones from a record and from the options of the call itself. */
static dl_status call_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *given = dlsh_arg(a, "args"), *named = dlsh_arg(a, "named"), *v;
    const dlsh_list *l = given ? given->as.list : NULL;
    const dlsh_record *r = named ? named->as.record : NULL;
    const char *name;
    int n = 0, extra = 0;
    while (dlsh_arg_extra(a, extra, &v)) extra++;
    long most = (l ? l->n : 0L) + (r ? r->n : 0L) + extra;
    if (most > DLSH_MAX_ARGS)
        return dlsh_arg_fail(a, "args", DL_ERR_VALUE, "give a list instead",
                             "a call with %ld arguments; %d are allowed", most, DLSH_MAX_ARGS);
    DLSH_FREED dlsh_value *values = dl_memory_alloc(most, sizeof *values);
    DLSH_FREED const char **names = dl_memory_alloc(most, sizeof *names);
    for (int i = 0; values && names && l && i < l->n; i++, n++) values[n] = l->items[i], names[n] = NULL;
    for (int i = 0; values && names && r && i < r->n; i++, n++) values[n] = r->values[i], names[n] = r->keys[i];
    for (int i = 0; values && names && (name = dlsh_arg_extra(a, i, &v)); i++, n++) values[n] = *v, names[n] = name;
    dlsh_callargs args = {n, values, n > (l ? l->n : 0) ? names : NULL};
    return values && names ? dlsh_call(dlsh_arg_session(a), *dlsh_arg(a, "f"), &args, result) : DL_ERR_MEMORY;
}

const dlsh_command dlsh_core_rows[] = {
    DLSH_ROW("print", DLSH_REPORT | DLSH_FUNCTION, print_run, "print(VALUE...)", "Writes values as text.",
             DLSH_PARAMS({"values", .flags = DLSH_VARIADIC, .doc = "any values, written with a space between"}),
             DLSH_OPTIONS({"sep", DLSH_OPT_STRING, " ", .doc = "written between values"},
                          {"end", DLSH_OPT_STRING, "\n", .doc = "written at the end"},
                          {"err", DLSH_OPT_BOOL, NULL, .doc = "to standard error"}),
             .examples = "print(\"loss\", 0.5)\nprint(format(\"%.3f\", 0.5), end=\"\")"),
    DLSH_ROW("no_grad", DLSH_REPORT | DLSH_PURE, grad_mode_run, "no_grad { STATEMENTS }",
             "Runs statements without recording them for backward.",
             DLSH_PARAMS({"block", DLSH_ARG_BLOCK, .doc = "statements"}), .data = &unrecorded,
             .examples = "no_grad { w[0] = 0 }"),
    DLSH_ROW("enable_grad", DLSH_REPORT | DLSH_PURE, grad_mode_run, "enable_grad { STATEMENTS }",
             "Runs statements with recording, within no_grad { ... } and in the BACKWARD of an autograd_function.",
             DLSH_PARAMS({"block", DLSH_ARG_BLOCK, .doc = "statements"}), .data = &recorded,
             .examples = "x = param(2.0)\nno_grad { enable_grad { y = x ** 2 } }\ngrad(y, x)"),
    DLSH_ROW("set_grad_enabled", DLSH_REPORT | DLSH_PURE, grad_enabled_run, "set_grad_enabled VALUE { STATEMENTS }",
             "Runs statements with recording for backward where VALUE is true, else as no_grad { ... } does.",
             DLSH_PARAMS({"mode", .want = "bool", .doc = "are calls recorded?"},
                         {"block", DLSH_ARG_BLOCK, .doc = "statements"}),
             .examples = "x = param(2.0)\nphase = \"test\"\n"
                         "set_grad_enabled (phase == \"train\") { y = x ** 2 }\ny.requires_grad"),
    DLSH_ROW("assert", DLSH_REPORT | DLSH_PURE, assert_run, "assert CONDITION [, MESSAGE]",
             "Fails unless the condition is true.",
             DLSH_PARAMS({"condition", DLSH_ARG_REST, .doc = "must be true"},
                         {"message", DLSH_ARG_REST, .flags = DLSH_OPTIONAL, .want = "string",
                          .doc = "said when it is not (the text of the condition)"}),
             .examples = "assert x.shape == [2, 3]\nassert n > 0, \"no samples\""),
    DLSH_ROW("quit", DLSH_FUNCTION, exit_run, "quit", "Ends the session."),
    DLSH_ROW("exit", DLSH_FUNCTION, exit_run, "exit [STATUS]", "Ends the session with an exit status (0).",
             DLSH_PARAMS({"status", .want = "int", .flags = DLSH_OPTIONAL, .doc = "exit status, 0 to 255"}),
             .examples = "exit 3"),
    DLSH_ROW("unset", DLSH_REPORT, unset_run, "unset NAME...", "Forgets variables.",
             DLSH_PARAMS({"names", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "variables", .complete = "var"}),
             .examples = "unset x"),
    DLSH_PURE_ROW("error", error_run, "error(MESSAGE, hint=)", "Raises an error that catch can handle.",
                  DLSH_PARAMS({"message", .want = "string", .doc = "what is wrong"}),
                  DLSH_OPTIONS({"hint", DLSH_OPT_STRING, NULL, .doc = "how to mend it"}),
                  .examples = "error(\"no data\", hint=\"give data=DIR\")"),
    DLSH_PURE_ROW("type", type_run, "type(X)", "The kind of a value as a string.", .params = any_param),
    DLSH_PURE_ROW("len", len_run, "len(X)", "Number of elements; bytes of a string; first size of a tensor.",
                  .params = any_param, .quick = len_quick),
    DLSH_PURE_ROW("range", range_run, "range([START,] STOP [, STEP])", "Whole numbers from START up to STOP.",
                  DLSH_PARAMS({"start", .want = "int", .doc = "first number; the end when it is the only one given"},
                              {"stop", .want = "int", .flags = DLSH_OPTIONAL, .doc = "end, not included"},
                              {"step", .want = "int", .flags = DLSH_OPTIONAL, .doc = "distance (1)"}),
                  .examples = "for i in range(3) { print(i) }"),
    DLSH_PURE_ROW("bool", bool_run, "bool(X)", "The truth of a value.", .params = any_param),
    DLSH_PURE_ROW("int", int_run, "int(X)", "A whole number; fractions are cut off.", .params = number_param),
    DLSH_PURE_ROW("float", float_run, "float(X)", "A floating-point number.", .params = number_param),
    DLSH_ROW("record", DLSH_ONLY_FUNCTION | DLSH_PURE | DLSH_OPEN_OPTIONS, record_run, "record(NAME=VALUE...)",
             "Named values, in order.", .examples = "r = record(lr=0.1, epochs=5); r.lr"),
    DLSH_PURE_ROW("keys", keys_run, "r.keys()", "The names of a record's fields.", .params = record_param),
    DLSH_PURE_ROW("values", keys_run, "r.values()", "The values of a record's fields.", .params = record_param,
                  .data = "values"),
    DLSH_PURE_ROW("items", items_run, "r.items()", "Pairs of name and value of a record's fields.",
                  .params = record_param, .examples = "for name, value in {a: 1}.items() { print(name, value) }"),
    DLSH_ROW("get", DLSH_ONLY_FUNCTION | DLSH_PURE | DLSH_GIVES_PART, get_run, "r.get(NAME [, OTHERWISE])",
             "A field of a record, or a default when it is missing.", .params = get_params, .quick = get_quick),
    DLSH_CHANGE_ROW("drop", remove_field_run, "r.drop(NAME)",
                    "Removes a field of a record; returns whether it was there.", .params = get_params),
    DLSH_CHANGE_ROW("setdefault", setdefault_run, "r.setdefault(NAME [, OTHERWISE])",
                    "A field of a record, which is first set where it is missing.", .params = get_params,
                    .examples = "r = {}; r.setdefault(\"xs\", []).append(1)"),
    DLSH_FN_ROW("next", next_run, "next(ITERATOR)", "The next element, such as a batch.", .params = any_param,
                .examples = "x, y = next(t.batches)"),
    DLSH_PURE_ROW("has", has_run, "has(X, NAME)", "Does a value have this field or method?",
                  DLSH_PARAMS({"x", .doc = "any value"}, {"name", .want = "string", .doc = "field"})),
    DLSH_ROW("call", DLSH_ONLY_FUNCTION | DLSH_PURE | DLSH_GIVES_PART | DLSH_OPEN_OPTIONS, call_run,
             "call(F [, LIST [, RECORD]], NAME=VALUE...)",
             "Calls a function with the arguments of a list, and named ones of a record; f(*xs, **r) does the same.",
             DLSH_PARAMS({"f", .want = "function", .doc = "what to call"},
                         {"args", .want = "list", .flags = DLSH_OPTIONAL, .doc = "its arguments by position"},
                         {"named", .want = "record", .flags = DLSH_OPTIONAL, .doc = "its arguments by name"}),
             .examples = "call(max, [1, 3, 2])"),
    {0}};
