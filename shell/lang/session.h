/* A session: one set of variables, one table of commands, one sink. Front ends make it and run text in it; commands
 * reach it through their arguments. One thread at a time. */
#pragma once

#include "lang/command.h"
#include "view/sink.h"

/* Bytes of a script at most: a larger file is not text, or a device without an end. */
enum { DLSH_LONGEST_SCRIPT = 1 << 28 };

/* ---------------------------------------------------------------- services */

typedef struct dlsh_layer dlsh_layer;

/* What the rooms above do for the language; each fills in its part, and the front hands all over once, when it makes
 * the session. What is NULL is not offered. */
typedef struct dlsh_services {
    /* Builds a net: a layer whose body (borrowed) is the net's, and whose forward is its own, if it has one. */
    dl_status (*build_net)(dlsh_session *s, const dlsh_layer *net, dlsh_value *out);
    /* Does the builder know this kind of layer? A variable of the same name is then not looked at. */
    int (*known_layer)(const char *kind);
    /* Is it an option of that kind of layer that may stand bare? */
    int (*layer_flag)(const char *kind, const char *option);

    /* The methods of nets, which functions that nets call may use. */
    const struct dlsh_command *net_methods;

    /* The state of C in a new session; NULL: a recorded failure. It is closed after the variables. */
    void *(*c_open)(dlsh_session *s);
    void (*c_close)(void *state);
    /* Runs an `extern` (kind EXTERN) or a C block (kind CBLOCK). */
    dl_status (*c_run)(dlsh_session *s, const dlsh_unit *unit, const dlsh_node *node);
    /* What a name means that is neither a variable nor built in (C's names from headers, NULL): an owned value in *out
     * and 1, else 0; -1 when it is known but has no value, which is recorded. With *lasting = 0 it is asked for again
     * at each use. */
    int (*c_find)(void *state, const char *name, dlsh_value *out, int *lasting);
    /* The prototype of a function of C whose name is a built-in's, for hints; NULL: there is none. */
    const char *(*c_hidden)(void *state, const char *name);
    /* Did something go wrong that no call could report? Then it is recorded, and the statement before or after which
     * this is asked has failed. */
    dl_status (*c_check)(void);

    /* A text was parsed and is about to run. */
    void (*parsed)(dlsh_session *s, dlsh_unit *unit);
    /* Around each top-level statement: its text before it runs; flushing after it. */
    void (*before_statement)(dlsh_session *s, const char *text, size_t len);
    void (*after_statement)(dlsh_session *s);
    /* Around each statement at the top level of the outermost text. */
    void (*begin_statement)(dlsh_session *s, const dlsh_node *n);
    void (*end_statement)(dlsh_session *s, int failed);
    int keep_going; /* after a statement that failed */

    /* Before each statement while dlsh_watch_statements says so: 0 it runs; 1 it was done here; -1 a recorded failure.
     */
    int (*at_statement)(dlsh_session *s, const dlsh_node *n);
    /* The same of a statement that failed, the innermost first; the failure is recorded. Given with at_statement. */
    void (*at_failure)(dlsh_session *s, const dlsh_node *n);
} dlsh_services;

/* ---------------------------------------------------------------- life */

/* The sink is borrowed, the services (NULL: none) are copied. The session knows the language's own functions; the front
 * adds the commands. NULL: a recorded failure. */
dlsh_session *dlsh_session_new(dlsh_sink *sink, const dlsh_services *services);
/* Drops all variables (destroying trainers, runs, ...) and the session. */
void dlsh_session_free(dlsh_session *s);
/* Adds a table of rows (borrowed, must outlive the session). A second row of the same name is DL_ERR_INTERNAL. */
dl_status dlsh_add_commands(dlsh_session *s, const dlsh_command *table);
/* Adds "sum(input, dim=none, keepdim=false)" of a row of the op table; a word that must be given comes first, as in
 * "einsum(equation, operands)". */
void dlsh_op_signature(dlsh_buf *b, const dl_op_info *op);
/* The joined table, in the order added: 0 <= i < count. */
int dlsh_command_count(const dlsh_session *s);
const dlsh_command *dlsh_command_at(const dlsh_session *s, int i);
const dlsh_command *dlsh_find_command(const dlsh_session *s, const char *name, size_t len);
dlsh_sink *dlsh_session_sink(const dlsh_session *s);
void dlsh_session_set_sink(dlsh_session *s, dlsh_sink *sink);

/* ---------------------------------------------------------------- running text */

/* Parses the whole text, then runs it statement by statement. `name` is used in messages: "train.dlsh", "<c>", "<3>".
 * After a failure the record is placed: dlsh_error_diag tells where. With keep_going (of the services) each failing
 * statement is reported through the sink and the next one runs; the first failure's code is returned. *last, when not
 * NULL, receives the value of the last statement if it was an expression and not silenced, else VOID, as after a
 * failure; the value is then not shown. */
dl_status dlsh_run(dlsh_session *s, const char *name, const char *text, size_t len, dlsh_value *last);

/* The failure of the last dlsh_run, placed. Valid until the next run; NULL when it succeeded. */
const dlsh_diag *dlsh_error_diag(dlsh_session *s);
/* Takes the failure of a text that a command has run, as "train.dlsh:12:5: message", without the folder of the file. */
void dlsh_failure_take(dlsh_session *s, dlsh_buf *to);
/* Shows it through the sink, once. */
void dlsh_report_error(dlsh_session *s);
/* A warning or note at the statement that runs, through the sink. */
void dlsh_warn(dlsh_session *s, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* What has failed and been placed, as a warning: the statement continues. */
void dlsh_warn_failure(dlsh_session *s);
/* A warning at a place in its text. */
void dlsh_warn_at(dlsh_session *s, dlsh_span at, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* quit and exit: the run ends after the current statement with DL_OK; the front asks afterwards. */
void dlsh_exit(dlsh_session *s, int code);
int dlsh_exiting(const dlsh_session *s, int *code);

/* Ctrl-C: safe in a signal handler and from other threads. dlsh_run clears it when it begins. */
void dlsh_interrupt(void);

/* Is the text a whole number of statements? Exactly when no syntax error stands at its end. */
typedef enum dlsh_completeness { DLSH_COMPLETE, DLSH_INCOMPLETE, DLSH_INVALID } dlsh_completeness;
dlsh_completeness dlsh_is_complete(const dlsh_session *s, const char *text, size_t len);

/* ---------------------------------------------------------------- what runs */

/* Statements ask the service at_statement; any thread may switch it. Without the service nothing happens. */
void dlsh_watch_statements(dlsh_session *s, int on);

/* A text or a call of a function that has begun and not ended. */
typedef struct dlsh_running {
    const char *name, *unit; /* of the function, "" of a text; of the text that it stands in */
    int line, col;           /* of its statement */
} dlsh_running;
/* Number i of them, from the innermost at 0; 0: there are fewer. */
int dlsh_running_at(const dlsh_session *s, int i, dlsh_running *out);
/* Number k of the variables of its own; the value is borrowed, VOID while it is not set. NULL: there are fewer. */
const char *dlsh_running_variable(const dlsh_session *s, int i, int k, dlsh_value *v);
/* The place of such a value, for the moment; the caller puts back what it takes. NULL: there are fewer. */
dlsh_value *dlsh_running_slot(dlsh_session *s, int i, int k, const char **name);
/* Runs text as one of the session's that sees these variables, too, and may assign to them. */
dl_status dlsh_running_run(dlsh_session *s, int i, const char *text, size_t len, dlsh_value *out);

/* ---------------------------------------------------------------- variables */

/* The value of a global, borrowed; NULL when unset. */
const dlsh_value *dlsh_get(const dlsh_session *s, const char *name);
/* Sets a global; takes v, also on failure. */
dl_status dlsh_set(dlsh_session *s, const char *name, dlsh_value v);
/* Forgets it; DL_ERR_NAME when there is none. */
dl_status dlsh_unset(dlsh_session *s, const char *name);
/* Globals in the order they were first set; values may be NULL for unset ones. */
int dlsh_global_count(const dlsh_session *s);
const char *dlsh_global_at(const dlsh_session *s, int i, const dlsh_value **value);

/* A variable, wherever it lives: a global, one of a function that runs, or one that a function had at the end of its
 * last call, as far as that is kept. */
typedef struct dlsh_variable {
    const char *name, *unit;    /* the text of its function; NULL: a global */
    const struct dlsh_node *fn; /* the FN; NULL: a global */
    const dlsh_value *value;    /* borrowed until something runs; NULL: it has none */
} dlsh_variable;
/* Number i of them, globals first, then what runs from the innermost on, then what ended last; 0: there are fewer. */
int dlsh_variable_at(const dlsh_session *s, int i, dlsh_variable *out);
/* Until it is called with 0, functions that are called leave what is kept as it is. */
void dlsh_variables_hold(int on);

/* Where ops make new tensors unless told otherwise; until chosen the first GPU, or 0, the CPU. Of the process. */
int dlsh_default_device(void);
void dlsh_set_default_device(int device);

/* ---------------------------------------------------------------- calling */

int dlsh_callable(dlsh_value f);
/* The name a function was defined with, NULL when it has none or is not a function. */
const char *dlsh_function_name(dlsh_value f);
/* Calls a function, op, net or class with a call; names may be NULL (all positional). */
dl_status dlsh_call(dlsh_session *s, dlsh_value f, const dlsh_callargs *args, dlsh_value *out);
/* The names of the parts that a net's forward sees; how many. */
int dlsh_forward_parts(dlsh_value forward, const char *const **names);
/* Calls it with the values of its parts. */
dl_status dlsh_call_forward(dlsh_session *s, dlsh_value forward, dlsh_value *parts, const dlsh_callargs *args,
                            dlsh_value *out);
/* Calls a command as a function. */
dl_status dlsh_call_command(dlsh_session *s, const dlsh_command *row, const dlsh_callargs *args, dlsh_value *out);
/* x.name and x.name = v. */
dl_status dlsh_get_field(dlsh_session *s, dlsh_value x, const char *name, dlsh_value *out);
dl_status dlsh_set_field(dlsh_session *s, dlsh_value x, const char *name, dlsh_value v);
/* Names that may follow `x.`: fields, methods, ops. A list of strings. */
dl_status dlsh_field_names(dlsh_session *s, dlsh_value x, dlsh_value *out);

/* What a record gives, one field after another. */
typedef enum dlsh_part { DLSH_KEYS, DLSH_VALUES, DLSH_PAIRS } dlsh_part;

/* Iterating over a list, tensor, range, string, record or handle: begin, then next until *done. */
typedef struct dlsh_iter {
    dlsh_value over;
    long at, n;
    dlsh_part part; /* of a record; to be set after begin */
} dlsh_iter;
dl_status dlsh_iter_begin(dlsh_session *s, dlsh_value over, dlsh_iter *it);
dl_status dlsh_iter_next(dlsh_session *s, dlsh_iter *it, dlsh_value *out, int *done);
void dlsh_iter_end(dlsh_iter *it);

/* ---------------------------------------------------------------- failures raised by the shell itself */

/* Records a failure; the place is that of the expression being evaluated. hint may be NULL. Returns the code. */
dl_status dlsh_fail(dl_status code, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
dl_status dlsh_vfail(dl_status code, const char *hint, const char *fmt, va_list ap);
/* Records "no memory for WHAT"; DL_ERR_MEMORY. */
dl_status dlsh_no_memory(const char *what);
/* An array with room for one item of `size` bytes behind its n items: `items`, or a larger block, *cap being updated.
 * NULL without memory (recorded); the array stays as it is. */
void *dlsh_grow(void *items, int n, int *cap, size_t size);
/* Gives the recorded failure a remedy when it has none. */
void dlsh_add_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *dlsh_foreign_method(const char *name); /* the same for a name behind a dot */
/* How something is made whose name is no function, a layer or a schedule; 0: the name is of no such thing. */
int dlsh_kind_hint(const char *name, char *hint, size_t size);
const dl_kind_row *dlsh_schedule_kind(const char *name); /* NULL: there is none */
const char *dlsh_foreign_name(const char *name);         /* what to write instead of a name of another language; NULL */
/* What the text around a place says: the name that ends at `end` stands before R's arrow; C's comment begins on the
 * line of `at`, before it. What to write instead; NULL. */
const char *dlsh_arrow_habit(const char *text, size_t end);
const char *dlsh_comment_habit(const char *text, size_t at);
/* Which of the names is what `word` is called elsewhere: "dim" for axis; NULL. */
const char *dlsh_synonym(const char *word, const char *const *names, int n);
/* The nearest of n names to a wrong one, or NULL. */
const char *dlsh_nearest(const char *word, const char *const *names, int n);
/* Is word[0, len) one of the words of "a|b|c"? NULL has none. */
int dlsh_has_word(const char *words, const char *word, size_t len);

#define DLSH_TRY(call)                                                                                                 \
    do {                                                                                                               \
        dl_status dlsh_try_ = (call);                                                                                  \
        if (dlsh_try_ != DL_OK) return dlsh_try_;                                                                      \
    } while (0)

/* Sets the grad mode until the end of the block, by whatever way that is left. */
#define DLSH_SCOPED_GRAD_MODE(on)                                                                                      \
    int dlsh_former_mode __attribute__((cleanup(dlsh_scope_grad_mode), unused)) = dl_grad_mode(on)
static inline void dlsh_scope_grad_mode(const int *former) { dl_grad_mode(*former); }

/* ---------------------------------------------------------------- nets
 * The language evaluates a `net` statement to a tree of layers; the commands turn it into an object. Arguments of nets,
 * `repeat` counts and names of nets used as layers are already resolved where this says so. */

struct dlsh_layer {
    const char *kind;  /* "conv", "repeat", "residual", ...; the name of the variable when `value` is set */
    const char *label; /* NULL: unnamed */
    int nargs;
    dlsh_value *args;         /* positional arguments and options, in the order written */
    const char *const *names; /* NULL for a positional one */
    int has_body, has_shortcut;
    int nbody, nshortcut;
    dlsh_layer *body, *shortcut;
    /* A net or function of the session used as a layer, else VOID. A net with arguments arrives expanded: kind is its
     * name, value VOID, body its layers and `expanded` set. */
    dlsh_value value;
    int expanded;
    dlsh_value forward;    /* a function: of a net with a forward of its own */
    dlsh_value methods;    /* a list of functions: of such a net */
    dlsh_value shape;      /* a function from `in` to the shape: of a tensor of the net, kind "param" or "buffer" */
    const dlsh_node *node; /* of the LAYER, for messages */
    dlsh_unit *unit;       /* it stands in */
};

/* Records a failure at a layer (arg < 0) or at one of its arguments. Returns the code. */
dl_status dlsh_layer_fail(dlsh_session *s, const dlsh_layer *l, int arg, dl_status code, const char *hint,
                          const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* The place of `width` bytes at an offset of a unit's text. */
dlsh_span dlsh_span_in_text(const dlsh_unit *unit, int offset, int width);
/* Records a failure at width bytes from byte `offset` of a unit's text (C text within it). Returns the code. */
dl_status dlsh_fail_in_text(dlsh_session *s, const dlsh_unit *unit, int offset, int width, dl_status code,
                            const char *hint, const char *fmt, ...) __attribute__((format(printf, 7, 8)));

/* Notes where a recorded failure stands, unless that is known; returns st. */
dl_status dlsh_place_at(dlsh_session *s, const dlsh_unit *unit, dlsh_span span, dl_status st);

/* What the service c_open made; NULL without. */
void *dlsh_get_c_state(const dlsh_session *s);
/* The result of the call under way is not shown when it is the value of a statement: printf's count of characters. */
void dlsh_set_result_silent(dlsh_session *s);
/* The call that just failed did so because of its i-th argument: the message points there. */
void dlsh_set_failed_arg(dlsh_session *s, int i);
/* Meanings kept from the service c_find are forgotten. */
void dlsh_forget_names(dlsh_session *s);
/* What a name means when no variable has it; VOID: nothing. Owned. */
dlsh_value dlsh_builtin_value(dlsh_session *s, const char *name);
