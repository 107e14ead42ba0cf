/* The command table: the row type from which come parsing, checking, help, completion and the manual, and the accessors
 * through which a command reads its arguments.
 *
 * A family of commands is one file, shell/commands/FAMILY.c, ending in
 *
 *     const dlsh_command FAMILY_commands[] = {
 *         DLSH_ROW("step", DLSH_ACTION | DLSH_FUNCTION, step_run, "step TRAINER [N]",
 *                  "Runs N training steps (1) and prints loss, rate and gradient norm.",
 *                  DLSH_PARAMS({"trainer", .want = "trainer", .doc = "what trains"},
 *                              {"n", .want = "int", .flags = DLSH_OPTIONAL, .doc = "how many steps (1)"}),
 *                  .examples = "step t\nstep t 100"),
 *         {0}};
 *
 * and one line in shell/commands/families.def. The row alone makes it known to parser, help and completion. A row with
 * DLSH_COMMAND (the default when neither bit is set) may start a statement, `step t 100`; with DLSH_FUNCTION it is also
 * (or only) a function, `r = step(t, 100)`: parameters then fill by position, parameters and options by name. Plain
 * functions (`trainer`, `adam`, `dataset`) and the methods of handles are rows too, with DLSH_ONLY_FUNCTION.
 *
 * The language checks arguments against the row before it calls `run`: number, names, kinds (`want`), options. So a
 * command reads what it needs with the accessors below and they do not fail. */
#pragma once

#include "lang/parse/ast.h"
#include "lang/value.h"

typedef struct dlsh_session dlsh_session;
typedef struct dlsh_args dlsh_args;
typedef struct dlsh_command dlsh_command;
struct dlsh_sink;

/* How the parser reads a parameter in command form. */
typedef enum dlsh_argkind {
    DLSH_ARG_EXPR,       /* a postfix expression: name, literal, call, index, field, with an optional leading - or ! */
    DLSH_ARG_REST,       /* a full expression up to the end of the statement; the last parameter */
    DLSH_ARG_WORD,       /* up to white space, `;` or a bracket; may be quoted; `(expr)` in its place is evaluated */
    DLSH_ARG_STATEMENT,  /* a whole statement, unevaluated: dlsh_arg_exec runs it; the last parameter */
    DLSH_ARG_SUBCOMMAND, /* a row of `subs`, which then takes over; the only parameter */
    DLSH_ARG_SYNTAX,     /* written like an EXPR, unevaluated: dlsh_arg_node has its tree */
    DLSH_ARG_TEXT,       /* a string: what is written up to the end of the statement, or to an option of the row */
    DLSH_ARG_BLOCK,      /* { statements }, unevaluated: dlsh_arg_exec runs it; the last parameter */
} dlsh_argkind;

enum dlsh_param_flags {
    DLSH_OPTIONAL = 1,  /* may be missing */
    DLSH_VARIADIC = 2,  /* any number, also none; the last parameter; read with dlsh_arg_count and dlsh_arg_at */
    DLSH_NUMBERS = 4,   /* WORD: `(expr)` may be a list or tensor too, and stays one */
    DLSH_BYTES = 8,     /* a string that may hold NUL bytes, at which C's functions would cut a path or name */
    DLSH_SUPPOSED = 16, /* STATEMENT: supposed, not run: what it assigns is no variable of the function around it */
};

/* Refuses n bytes that a C function would cut at a NUL: DL_ERR_VALUE, with `what` they are. */
dl_status dlsh_whole_text(const char *what, const char *s, size_t n);

typedef struct dlsh_param {
    const char *name; /* "trainer"; ends a table when NULL */
    dlsh_argkind kind;
    /* Types it accepts: names as type() gives them, separated by |: "net|trainer", "int", "tensor". NULL: any. "float"
     * takes ints too. For words: NULL (a word is a string; `(expr)` or a function's argument may be a number too and
     * arrives as its text). */
    const char *want;
    unsigned flags;
    const char *doc;
    /* What Tab offers: "var", "metric", "run", "file", "topic", "setting", or choices separated by |: "on|off". NULL:
     * guessed from kind and want. Choices are also checked: another word is an error naming the nearest. */
    const char *complete;
} dlsh_param;

typedef enum dlsh_optkind {
    DLSH_OPT_BOOL, /* name=true, or the bare name */
    DLSH_OPT_INT,
    DLSH_OPT_FLOAT, /* takes ints too */
    DLSH_OPT_STRING,
    DLSH_OPT_WORD,  /* in command form read as a word: metric=test/acc; `want` may add list and tensor */
    DLSH_OPT_VALUE, /* any value; `want` may narrow it */
} dlsh_optkind;

typedef struct dlsh_option {
    const char *name; /* ends a table when NULL */
    dlsh_optkind kind;
    const char *dflt; /* default as text; the accessors parse it when the option is not given. NULL: 0, false or none */
    const char *doc;
    const char *want;     /* as in dlsh_param */
    const char *complete; /* as in dlsh_param */
} dlsh_option;

enum dlsh_command_flags {
    DLSH_REPORT = 0,   /* prints because it was asked to: never silenced */
    DLSH_ACTION = 1,   /* does something and may print: silent after `;`, inside fn and when called as a function */
    DLSH_FUNCTION = 2, /* has a result, so it is also a function */
    DLSH_ONLY_FUNCTION = 4 | 2, /* is a function and does not start statements */
    DLSH_SHOW_RESULT = 8,       /* in command form the result is shown like an expression's (and kept in `_`) */
    DLSH_OPEN_OPTIONS = 16,     /* takes any name=value; read with dlsh_arg_extra. Positional extras stay errors */
    DLSH_HIDDEN = 32,           /* not listed by help */
    DLSH_ACTS =
        64, /* a function that is called for what it does: as a statement a call shows nothing, `_` gets its value */
    /* For captured steps (lang/eval/pure.h): */
    DLSH_PURE = 128,          /* the result depends on the arguments alone; nothing but memory of tensors changes */
    DLSH_CHANGES_FIRST = 256, /* the same, but the first argument, a list or record, changes */
    DLSH_GIVES_PART = 512,    /* the result may be an argument, or a part of one */
    DLSH_OPEN_SYNTAX = 1024,  /* with DLSH_OPEN_OPTIONS: these stay unevaluated; read with dlsh_arg_extra_node */
};

/* What a command does. *result is DLSH_VOID on entry; a command with DLSH_FUNCTION sets it to an owned value. Failures:
 * return the code of a recorded failure (of the library, or dlsh_arg_fail); the language adds the place. */
typedef dl_status dlsh_run_fn(const dlsh_args *args, dlsh_value *result);
/* The same of a command that never has a result. */
typedef dl_status dlsh_act_fn(const dlsh_args *args);

/* A short way for a call with n positional arguments: 1 when it was done, 0 (nothing has changed, nothing is recorded)
 * when `run` must do it, which also reports what is wrong. */
typedef int dlsh_quick_fn(const dlsh_value *args, int n, dlsh_value *result);

struct dlsh_command {
    const char *name; /* ends a table when NULL */
    unsigned flags;
    const char *usage;          /* "step TRAINER [N]" */
    const char *doc;            /* first sentence: the one-line summary; the rest: detail */
    const dlsh_param *params;   /* NULL: none */
    const dlsh_option *options; /* NULL: none */
    const dlsh_command *subs;   /* rows for DLSH_ARG_SUBCOMMAND */
    dlsh_run_fn *run;           /* or act: the one that a row names; both NULL only when there are subs */
    dlsh_act_fn *act;
    const char *examples; /* one a line */
    const char *function; /* of a command without a result: the row that NAME(...) calls; may be NULL */
    const void *data;     /* for families that serve several rows with one function: dlsh_arg_data(args) */
    dlsh_quick_fn *quick; /* for what loops call often; may be NULL */
};

/* f when it is of the type, else NULL. */
#define DLSH_IF_IS(type, f) _Generic((f), type * : (f), default : NULL)
/* A row of the table, and one that is a function only; fields after `doc` are given by name. Parameters and options
 * that belong to one row alone are written in it. */
#define DLSH_ROW(name_, flags_, run_, usage_, doc_, ...)                                                               \
    {                                                                                                                  \
        .name = name_, .flags = flags_, .run = DLSH_IF_IS(dlsh_run_fn, run_), .act = DLSH_IF_IS(dlsh_act_fn, run_),    \
        .usage = usage_, .doc = doc_, __VA_ARGS__                                                                      \
    }
#define DLSH_FN_ROW(name_, run_, usage_, doc_, ...) DLSH_ROW(name_, DLSH_ONLY_FUNCTION, run_, usage_, doc_, __VA_ARGS__)
#define DLSH_CHANGE_ROW(name_, run_, usage_, doc_, ...)                                                                \
    DLSH_ROW(name_, DLSH_ONLY_FUNCTION | DLSH_ACTS | DLSH_CHANGES_FIRST, run_, usage_, doc_, __VA_ARGS__)
#define DLSH_PURE_ROW(name_, run_, usage_, doc_, ...)                                                                  \
    DLSH_ROW(name_, DLSH_ONLY_FUNCTION | DLSH_PURE, run_, usage_, doc_, __VA_ARGS__)
#define DLSH_ACT_ROW(name_, run_, usage_, doc_, ...)                                                                   \
    DLSH_ROW(name_, DLSH_ONLY_FUNCTION | DLSH_ACTS, run_, usage_, doc_, __VA_ARGS__)
#define DLSH_PARAMS(...)                                                                                               \
    .params = (const dlsh_param[]) {                                                                                   \
        __VA_ARGS__, { 0 }                                                                                             \
    }
#define DLSH_OPTIONS(...)                                                                                              \
    .options = (const dlsh_option[]) {                                                                                 \
        __VA_ARGS__, { 0 }                                                                                             \
    }

/* ---------------------------------------------------------------- reading arguments
 * `name` is a parameter or option of the row. A name that is in neither is a defect and fails an assertion. Results are
 * borrowed and live until `run` returns. */

dlsh_session *dlsh_arg_session(const dlsh_args *a);
const dlsh_command *dlsh_arg_command(const dlsh_args *a);
const void *dlsh_arg_data(const dlsh_args *a);
/* Where to print. Swallows everything when the statement is silenced and the row is an action. Never NULL. */
struct dlsh_sink *dlsh_arg_sink(const dlsh_args *a);
/* The object behind the handle whose method this is. */
void *dlsh_arg_self(const dlsh_args *a);
dlsh_value dlsh_arg_self_value(const dlsh_args *a);

int dlsh_given(const dlsh_args *a, const char *name);
/* The value as given (or the option's default, parsed); NULL when neither is there. */
const dlsh_value *dlsh_arg(const dlsh_args *a, const char *name);
/* 0, 0.0, false, NULL when absent and without default. */
long dlsh_arg_int(const dlsh_args *a, const char *name);
double dlsh_arg_float(const dlsh_args *a, const char *name);
int dlsh_arg_bool(const dlsh_args *a, const char *name);
const char *dlsh_arg_str(const dlsh_args *a, const char *name);
dl_tensor *dlsh_arg_tensor(const dlsh_args *a, const char *name);
/* The object behind the handle, NULL when absent or of another class. */
void *dlsh_arg_handle(const dlsh_args *a, const char *name, const dlsh_class *cls);
/* Variadic parameters. */
int dlsh_arg_count(const dlsh_args *a, const char *name);
const dlsh_value *dlsh_arg_at(const dlsh_args *a, const char *name, int i);
/* Options outside the row (DLSH_OPEN_OPTIONS), in the order written; NULL after the last. */
const char *dlsh_arg_extra(const dlsh_args *a, int i, const dlsh_value **value);
/* The tree of an option outside the row, by the number that dlsh_arg_extra has for it. */
const dlsh_node *dlsh_arg_extra_node(const dlsh_args *a, int i);
/* The text that a tree of the running statement was read from. Valid until `run` returns. */
const char *dlsh_arg_source(const dlsh_args *a, const dlsh_node *n);
/* Called as a function: the result is wanted, a report is not. */
int dlsh_arg_called(const dlsh_args *a);
/* The tree of an argument, for commands that need it as written; NULL when absent or called as a function. */
const dlsh_node *dlsh_arg_node(const dlsh_args *a, const char *name);
/* The source text of an argument ("m.conv0.weight"), for titles; "" when there is none. Valid until `run` returns. */
const char *dlsh_arg_text(const dlsh_args *a, const char *name);
/* Runs a block or statement parameter in the scope of the caller; result may be NULL, else the value of the statement.
 */
dl_status dlsh_arg_exec(const dlsh_args *a, const char *name, dlsh_value *result);

/* Appends what is in the file that the parameter `path` names; Ctrl-C ends the wait for a pipe. */
dl_status dlsh_arg_file(const dlsh_args *a, struct dlsh_buf *b);

/* Records a failure at the place of an argument (name NULL: the whole statement). Returns the code. */
dl_status dlsh_arg_fail(const dlsh_args *a, const char *name, dl_status code, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* The same at bytes of an argument that is a string: the place is within its quotes, or, where it is not a literal, the
 * hint shows the text. */
dl_status dlsh_arg_fail_in(const dlsh_args *a, const char *name, int at, int length, dl_status code, const char *hint,
                           const char *fmt, ...) __attribute__((format(printf, 7, 8)));

/* The same at the i-th of a variadic parameter's. */
dl_status dlsh_arg_fail_at(const dlsh_args *a, const char *name, int i, dl_status code, const char *hint,
                           const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* Ctrl-C was pressed: finish the smallest consistent step and return DL_ERR_INTERRUPT, or a result if that is right. */
int dlsh_interrupted(void);
/* DL_ERR_INTERRUPT recorded when it was; in loops of C over something that may be long. */
dl_status dlsh_check_interrupt(void);
/* The same in loops with little work a turn, asked at every 65,536th. Nonzero: leave the loop; the result is dropped.
 */
static inline int dlsh_interrupted_at(long turn) { return !(turn & 0xffff) && dlsh_interrupted(); }

/* ---------------------------------------------------------------- the parser's side */

/* Finds the row that a statement's first word starts; NULL when it is not a command. */
typedef const dlsh_command *dlsh_command_lookup(void *ctx, const char *word, size_t len);
/* The row's n-th parameter, the variadic last one repeating; NULL beyond. */
const dlsh_param *dlsh_command_param(const dlsh_command *c, int n);
const dlsh_option *dlsh_command_option(const dlsh_command *c, const char *name, size_t len);
/* The nearest option or parameter name to a wrong one, or NULL. */
const char *dlsh_command_nearest(const dlsh_command *c, const char *name);
