/* Inside the evaluator: the session's fields and the functions its files share. */
#pragma once

#include "lang/parse/fn.h"
#include "lang/session.h"

typedef struct dlsh_global {
    char *name;
    dlsh_value value;   /* VOID: unset */
    dlsh_value builtin; /* what the name means while unset: a command or an op; VOID: not looked up */
    int looked_up;      /* 1: for good; beyond: while the session's epoch is this */
} dlsh_global;

/* Where the failure being handled happened: the first place that is recorded. */
typedef struct dlsh_place {
    int set;
    dlsh_unit *unit; /* a reference */
    dlsh_span span;
    dlsh_buf trace;
    int lines, times; /* of the trace; how often its last line occurred */
    size_t last_line;
} dlsh_place;

/* A call or a text that runs: what ran before it, and the function; NULL: a text. */
typedef struct dlsh_frame {
    struct dlsh_frame *up;
    const dlsh_fn *fn;
    dlsh_unit *unit;
    const dlsh_node *statement;
    dlsh_value *locals, *returned;
} dlsh_frame;

struct dlsh_session {
    dlsh_sink *sink;
    const dlsh_command **rows;
    int nrows, caprows;
    dl_names row_names;
    dlsh_global *globals;
    int nglobals, capglobals;
    dl_names global_names;
    int last_slot; /* of `_` */

    dlsh_unit *unit;            /* whose nodes run */
    const dlsh_node *statement; /* that runs */
    dlsh_value *locals;         /* of the function that runs; NULL at the top level */
    dlsh_value *returned;       /* where its `return` puts the value */
    dlsh_frame *frame;          /* the innermost; NULL: nothing runs */
    int watched;                /* each statement asks the service at_statement first; atomic */
    int tries;                  /* bodies of `try` that run */
    dl_source *source;          /* of this thread: where libcore reads file and line of the statement */
    const int *interrupt;       /* Ctrl-C, see dl_interrupt_word */
    int fn_depth;               /* >0 inside fn: nothing prints itself */
    int quiet;                  /* actions print nothing */
    const char *stack_base;
    size_t stack_limit;

    dlsh_place place;
    dl_error error; /* of the last run */
    dlsh_diag diag;
    dlsh_buf diag_source, diag_trace;
    int failed;   /* the last run */
    int reported; /* its failure was shown */

    int exiting, exit_code, running;
    dlsh_value *last;           /* of dlsh_run: receives the last expression's value */
    const dlsh_node *last_node; /* that expression; what stands inside a loop or block is shown as it comes */
    dlsh_services services;
    void *c_state;
    int result_silent;      /* the last call asked so */
    int failed_arg;         /* 1 + the argument that a call of a handle failed for; 0 none */
    int names_epoch;        /* of what globals keep from the service c_find */
    dlsh_str *letters[256]; /* strings of one byte, made when they are first asked for */
};

/* How a statement ended. */
typedef enum dlsh_flow {
    DLSH_GO,
    DLSH_FAILED,
    DLSH_FLOW_BREAK,
    DLSH_FLOW_CONTINUE,
    DLSH_FLOW_RETURN,
    DLSH_FLOW_EXIT
} dlsh_flow;

/* ---- globals (globals.c) */
/* The number of a global, made when new; -1 without memory (recorded). */
int dlsh_global_slot(dlsh_session *s, const char *name);
/* The value of a NAME that is not local: a variable, else a function of the tables; borrowed. NULL: a recorded error.
 */
const dlsh_value *dlsh_global_value(dlsh_session *s, int slot);
/* The hint that a command's name hides a function of C; 0: it hides none. */
int dlsh_hidden_hint(const dlsh_session *s, const char *name, char *hint, size_t size);
void dlsh_globals_free(dlsh_session *s);
/* The nearest command, or word that begins a statement, to a wrong one; NULL. */
const char *dlsh_nearest_command(const dlsh_session *s, const char *word);

/* ---- places of failures (place.c) */
/* Notes where a failure happened unless that is known; returns st. */
dl_status dlsh_failed_at(dlsh_session *s, const dlsh_node *n, dl_status st);
static inline dl_status dlsh_at(dlsh_session *s, const dlsh_node *n, dl_status st) {
    return __builtin_expect(st != DL_OK, 0) ? dlsh_failed_at(s, n, st) : DL_OK;
}
dl_status dlsh_at_span(dlsh_session *s, dlsh_unit *unit, dlsh_span span, dl_status st);
/* A failure that leaves a function: notes the call. */
void dlsh_trace_call(dlsh_session *s, const char *name, const dlsh_node *call);
void dlsh_place_clear(dlsh_session *s);
/* Moves the pending failure to session->error and its diag. */
void dlsh_failure_keep(dlsh_session *s);
/* The pending failure as a record for `catch`; forgets it. */
dl_status dlsh_caught(dlsh_session *s, dlsh_value *out);

/* ---- what runs (frames.c) */
/* Enters what the caller sets next; the frame is the caller's until it leaves. */
static inline void dlsh_frame_enter(dlsh_session *s, dlsh_frame *frame, const dlsh_fn *fn) {
    *frame = (dlsh_frame){s->frame, fn, s->unit, s->statement, s->locals, s->returned};
    s->frame = frame;
}
/* The text of that name that runs; NULL: none. */
const dlsh_unit *dlsh_running_unit(const dlsh_session *s, const char *name);
/* The text whose nodes run from here on. */
static inline void dlsh_enter_unit(dlsh_session *s, dlsh_unit *unit) {
    s->unit = unit;
    s->source->file = unit->name;
}
static inline void dlsh_frame_leave(dlsh_session *s) {
    const dlsh_frame *frame = s->frame;
    if (frame->unit && frame->unit != s->unit) dlsh_enter_unit(s, frame->unit);
    s->unit = frame->unit;
    s->statement = frame->statement;
    if (s->statement) s->source->line = s->statement->span.line;
    s->locals = frame->locals;
    s->returned = frame->returned;
    s->frame = frame->up;
}

/* ---- variables of functions that have ended (kept.c) */
typedef struct dlsh_kept dlsh_kept;
/* A call of a function ends: keeps its variables, of which the caller then drops its own references. */
void dlsh_keep_variables(dlsh_session *s, const dlsh_fn *f, dlsh_value *slots);
/* Drops the values: the function is called again. */
void dlsh_kept_drop(dlsh_kept *k);
void dlsh_kept_forget(const dlsh_session *s);
/* The FN of call number i that runs; NULL: it is a text, or there is none (frames.c). */
const dlsh_node *dlsh_running_function(const dlsh_session *s, int i);

/* ---- evaluation (eval_expr.c, eval_stmt.c) */
dl_status dlsh_eval(dlsh_session *s, const dlsh_node *n, dlsh_value *out);
/* The value of an argument; the hint for an unknown name says how text is written. */
dl_status dlsh_eval_argument(dlsh_session *s, const dlsh_node *n, dlsh_value *out);
/* The same hint for an argument whose evaluation has failed; returns st. */
dl_status dlsh_argument_failed(const dlsh_node *n, dl_status st);
/* Calls a function of the language, which the caller holds, with one value; takes v. */
dl_status dlsh_call_one(dlsh_session *s, dlsh_value f, dlsh_value v, dlsh_value *out);
/* Sets a field whose key is a value, which must be a string; takes v. */
dl_status dlsh_record_put(dlsh_record *r, dlsh_value key, dlsh_value v);
dl_status dlsh_eval_comprehension(dlsh_session *s, const dlsh_node *n, dlsh_value *out);
/* The values of n's kids as a list. */
dl_status dlsh_eval_items(dlsh_session *s, const dlsh_node *n, dlsh_value *out);
/* The same for a BINARY. */
dl_status dlsh_eval_binary(dlsh_session *s, const dlsh_node *n, dlsh_value *out);
/* The truth of n's value v, which it takes. */
dl_status dlsh_truth_of(dlsh_session *s, const dlsh_node *n, dlsh_value v, int *yes);
dlsh_flow dlsh_exec(dlsh_session *s, const dlsh_node *n);
/* A whole block of a function or a loop. */
dlsh_flow dlsh_exec_block(dlsh_session *s, const dlsh_node *block);
/* Assigns to a NAME, FIELD or INDEX; takes v. */
dl_status dlsh_assign(dlsh_session *s, const dlsh_node *target, dlsh_value v);
/* Is there enough stack for one level more? DL_ERR_STATE when not. */
dl_status dlsh_check_stack(dlsh_session *s);
/* target op= value (update.c). */
dl_status dlsh_exec_update(dlsh_session *s, const dlsh_node *n);
/* name = name + text, a NAME and the other operand: the text grows in place where it can. */
dl_status dlsh_extend_name(dlsh_session *s, const dlsh_node *name, const dlsh_node *more);
/* A command statement (command_eval.c). */
dlsh_flow dlsh_exec_command(dlsh_session *s, const dlsh_node *n);
/* Shows the value of statement n unless silent; keeps it in `_`. Takes v. */
dl_status dlsh_show_value(dlsh_session *s, const dlsh_node *n, int silent, dlsh_value v);

/* ---- operators (operators.c) */
dl_status dlsh_binary(dlsh_op op, dlsh_value a, dlsh_value b, dlsh_value *out);
dl_status dlsh_unary(dlsh_op op, dlsh_value a, dlsh_value *out);
/* -1, 0, 1 for numbers and strings; DL_ERR_TYPE for others. */
dl_status dlsh_compare(dlsh_value a, dlsh_value b, int *out);

/* ---- calls (call.c, args.c) */
dl_status dlsh_eval_call(dlsh_session *s, const dlsh_node *n, dlsh_value *out);
dl_status dlsh_make_fn(dlsh_session *s, const dlsh_node *n, dlsh_value *out);
/* Enters a function's frame with its arguments bound; slots must hold info->nslots values, all VOID. */
dl_status dlsh_bind(const dlsh_fn *f, const dlsh_callargs *args, dlsh_value *slots);
dl_status dlsh_call_command_at(dlsh_session *s, const dlsh_command *row, dlsh_value self, const dlsh_callargs *args,
                               const dlsh_node *node, dlsh_value *out);

/* ---- fields, indices, iteration */
dl_status dlsh_length(dlsh_value v, long *out);
/* The string of one byte. */
dlsh_value dlsh_letter(dlsh_session *s, char c);
dl_status dlsh_eval_index(dlsh_session *s, const dlsh_node *n, dlsh_value *out);
/* x[key] and x[key] = v of everything but tensors; take nothing. */
dl_status dlsh_index_value(dlsh_session *s, dlsh_value x, dlsh_value key, dlsh_value *out);
dl_status dlsh_set_key(dlsh_session *s, dlsh_value x, dlsh_value key, dlsh_value v);
/* x[...] = v; takes nothing. */
dl_status dlsh_assign_index(dlsh_session *s, const dlsh_node *target, dlsh_value v);

/* ---- tensors (tensor_*.c) */
/* The op of this name as a function value; VOID when there is none for the language. */
dlsh_value dlsh_op_value(const char *name);
/* An op was registered, perhaps instead of another: function values of this name mean the new one. */
void dlsh_op_renew(const char *name);
const char *dlsh_op_value_name(dlsh_value f);
/* The same when the op takes a tensor first, so that it is a method. */
dlsh_value dlsh_op_method(const char *name);
/* Appends the names that may follow a tensor's dot, apart from commands. */
dl_status dlsh_tensor_names(dlsh_value list);
/* Methods of tensors that are not functions: float, long, ... (lang/builtin/tensor.c). */
extern const dlsh_command dlsh_tensor_casts[];
dl_status dlsh_call_op(dlsh_value op, const dlsh_callargs *args, dlsh_value *out);
/* Calls the op of the row's name with the parameters as they were given. */
dl_status dlsh_call_row_op(const dlsh_args *a, dlsh_value *result);
/* The places of the elements that are not zero, as a list of indices for each dimension (lang/builtin/pieces.c). */
dl_status dlsh_nonzero_columns(dl_tensor *t, dlsh_value *result);
/* The items of a list that differ, sorted. */
dl_status dlsh_unique_items(const dlsh_args *a, const dlsh_list *l, dlsh_value *result);
/* The nearest op name to a wrong one, or NULL. */
const char *dlsh_nearest_op(const char *name);
/* Operator on operands of which at least one is a tensor. */
dl_status dlsh_tensor_binary(dlsh_op op, dlsh_value a, dlsh_value b, dlsh_value *out);
/* What an op in place reads: a reference to t, or a copy when a gradient may need the value that will be overwritten.
 */
dl_tensor *dlsh_read_in_place(const char *op, dl_tensor *t, dl_tensor *const *others, int n);
/* t op= v: writes the result into t. Errors: a result of another shape or a higher kind of dtype; the hint then names
 * the statement `instead`; NULL: t is a part of a tensor. */
dl_status dlsh_tensor_update(dlsh_op op, dl_tensor *t, dlsh_value v, const char *instead);
/* The same check. */
dl_status dlsh_tensor_check_kept(const dl_tensor *t, const dl_tensor *result, const char *instead);
/* t[...] op= v, n being the INDEX. */
dl_status dlsh_tensor_update_index(dlsh_session *s, dl_tensor *t, const dlsh_node *n, dlsh_op op, dlsh_value v);
dl_status dlsh_tensor_unary(dlsh_op op, dlsh_value a, dlsh_value *out);
/* A tensor for an operand: a new reference; numbers and bools become scalars. NULL: not one (recorded). */
dl_tensor *dlsh_operand(dlsh_value v);
dl_status dlsh_tensor_field(dl_tensor *t, const char *name, dlsh_value *out);
dl_status dlsh_tensor_set_field(dl_tensor *t, const char *name, dlsh_value v);
dl_status dlsh_tensor_index(dlsh_session *s, dl_tensor *t, const dlsh_node *n, dlsh_value *out);
dl_status dlsh_tensor_assign(dlsh_session *s, dl_tensor *t, const dlsh_node *n, dlsh_value v);
/* A tensor of a nested list of numbers on a device, of a dtype or (-1) bool, i64, or f32 when one has a point. */
dl_status dlsh_list_to_tensor(dlsh_value list, int dtype, int device, dlsh_value *out);
/* t with a new dimension of size 1 before dimension `dim`; NULL: a recorded error. */
dl_tensor *dlsh_unsqueeze(dl_tensor *t, int dim);
/* The number in a tensor of one element. */
dl_status dlsh_tensor_item(dl_tensor *t, dlsh_value *out);
dl_status dlsh_tensor_at(dl_tensor *t, long i, dlsh_value *out);
/* The function that x.name(...) calls when that is a method: *f is owned and called with x before the arguments, unless
 * it is one of x's class. 0: a field, or nothing. */
int dlsh_find_method(dlsh_session *s, dlsh_value x, const char *name, dlsh_value *f);

/* ---- nets (net_eval.c) */
/* The net that a NET stands for, or with parameters the function that makes it. */
dl_status dlsh_eval_net(dlsh_session *s, const dlsh_node *n, dlsh_value *out);
dl_status dlsh_exec_net(dlsh_session *s, const dlsh_node *n);
dl_status dlsh_call_net_template(dlsh_session *s, const dlsh_fn *f, const dlsh_callargs *args, dlsh_value *out);

/* ---- functions that tables share */
/* The pieces of a string between `by`, NULL: between white space. */
dl_status dlsh_split_text(const dlsh_str *s, const dlsh_str *by, dlsh_value *out);
/* An argument as a dimension of a tensor of ndim; dflt where it is not given (lang/builtin/pieces.c). */
dl_status dlsh_arg_dim(const dlsh_args *a, const char *name, int ndim, long dflt, long *out);
/* The value of the JSON text x (builtin/json.c). */
dl_status dlsh_json_parse(const dlsh_args *a, dlsh_value *result);

/* ---- tables of the language's own functions */
extern const dlsh_command dlsh_file_rows[], dlsh_core_rows[], dlsh_list_rows[], dlsh_math_rows[], dlsh_tensor_rows[],
    dlsh_pieces_rows[], dlsh_string_rows[], dlsh_draw_rows[], dlsh_dtype_rows[], dlsh_numeric_rows[];
