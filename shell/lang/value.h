/* Values of the language: sixteen bytes passed by value; what does not fit is reference-counted.
 *
 * Ownership: a function that returns a dlsh_value, or fills one through `out`, hands over one reference; arguments are
 * borrowed unless the contract says "takes". Reference counts are not atomic: values belong to the session's thread. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlcore.h"

struct dlsh_session;
struct dlsh_command;
struct dlsh_sink;
struct dlsh_buf;

/* TYPE(NAME, "name in messages and type()"). VOID is the result of an action: none, and not shown. */
#define DLSH_TYPES(TYPE)                                                                                               \
    TYPE(NONE, "none")                                                                                                 \
    TYPE(VOID, "none")                                                                                                 \
    TYPE(BOOL, "bool")                                                                                                 \
    TYPE(INT, "int")                                                                                                   \
    TYPE(FLOAT, "float")                                                                                               \
    TYPE(BUILTIN, "function") /* an entry of a command table */                                                        \
    TYPE(OP, "function")      /* an op of libdlcore */                                                                 \
    /* from here on what is counted */                                                                                 \
    TYPE(STR, "string")                                                                                                \
    TYPE(LIST, "list")                                                                                                 \
    TYPE(RECORD, "record")                                                                                             \
    TYPE(TENSOR, "tensor")                                                                                             \
    TYPE(RANGE, "range")                                                                                               \
    TYPE(FN, "function")     /* written in the language */                                                             \
    TYPE(METHOD, "function") /* a function bound to its first argument */                                              \
    TYPE(HANDLE, "handle")   /* net, dataset, loader, optimizer, trainer, run, C function, pointer */                  \
    TYPE(CELL, "cell")       /* internal: a variable shared with an inner function */

typedef enum dlsh_type {
#define TYPE(id, name) DLSH_##id,
    DLSH_TYPES(TYPE)
#undef TYPE
        DLSH_NTYPES
} __attribute__((mode(DI))) dlsh_type; /* eight bytes, so that a value is written and read in the same two parts */

typedef struct dlsh_str dlsh_str;
typedef struct dlsh_list dlsh_list;
typedef struct dlsh_record dlsh_record;
typedef struct dlsh_range dlsh_range;
typedef struct dlsh_fn dlsh_fn;
typedef struct dlsh_method dlsh_method;
typedef struct dlsh_handle dlsh_handle;
typedef struct dlsh_class dlsh_class;

typedef struct dlsh_value {
    dlsh_type type;
    union {
        int b;
        long i;
        double f;
        dlsh_str *str;
        dlsh_list *list;
        dlsh_record *record;
        dl_tensor *tensor;
        dlsh_range *range;
        dlsh_fn *fn;
        const struct dlsh_command *builtin;
        const void *op; /* const dl_op * */
        dlsh_method *method;
        dlsh_handle *handle;
        struct dlsh_cell *cell;
        int *refs; /* first field of every counted object except tensor, builtin and op; of those that can hold other
                      values the second is `place`, where the collector of cycles finds them */
    } as;
} dlsh_value;

struct dlsh_str {
    int refs;
    unsigned char room; /* 2^room bytes are allocated, for a string that has grown; 0: as many as it needs */
    unsigned short at;  /* where a record had this key when it was looked up last: it is asked there first */
    size_t len;
    char s[]; /* NUL-terminated; may hold NULs */
};

struct dlsh_list {
    int refs, place;
    int n, cap;
    dlsh_value *items;
    const char *const *names; /* of an op's results: fields that name the items; they outlive the list. NULL: none */
    int nnames;
};

/* Fields in the order they were set; looked up linearly below 8 of them, else through `index`. */
struct dlsh_record {
    int refs, place;
    int n, cap;
    int recent;          /* the key that was found last: it is often asked for again */
    unsigned long heads; /* a bit for the first bytes of each key that was set: others need no search */
    char **keys;
    dlsh_value *values;
    dl_names index; /* of the keys; empty while there are few */
};

struct dlsh_range {
    int refs;
    long from, to, step;
};

struct dlsh_method {
    int refs, place;
    dlsh_value self, fn;
};

/* ---------------------------------------------------------------- handles: objects that the commands bring in */

/* A field computed from the object. `set` may be NULL. `self` is the handle's pointer. */
typedef struct dlsh_field {
    const char *name, *doc;
    dl_status (*get)(void *self, dlsh_value *out);
    dl_status (*set)(void *self, dlsh_value value);
} dlsh_field;

/* Told of the references that an object holds, each once: to values, and to objects that others count, too. */
typedef struct dlsh_visitor dlsh_visitor;
typedef struct dlsh_shared {
    int *object; /* begins with the number of references to it and its place, -1 between collections */
    void (*values)(void *object, const dlsh_visitor *to); /* the references that it holds itself */
} dlsh_shared;
struct dlsh_visitor {
    void (*value)(dlsh_value v, void *ctx);
    void (*shared)(dlsh_shared s, void *ctx);
    void *ctx;
};

/* Arguments of a direct call: names[i] is NULL for a positional one. */
typedef struct dlsh_callargs {
    int n;
    const dlsh_value *values;
    const char *const *names;
} dlsh_callargs;

/* A kind of handle. Every entry but name and destroy may be NULL: the operation is then an error naming the kind. */
struct dlsh_class {
    const char *name, *doc; /* "trainer" */
    void (*destroy)(void *self);
    /* One line of text for print() and lists; default "<trainer>". Appends to a buffer. */
    dl_status (*text)(void *self, struct dlsh_buf *out);
    /* The full view of an expression statement or `show`; default: the one line. */
    dl_status (*show)(void *self, struct dlsh_sink *sink);
    const dlsh_field *fields;           /* ends with a NULL name */
    const struct dlsh_command *methods; /* rows; the object is dlsh_arg_self(args); ends with a NULL name */
    /* Fields known only at run time (layers of a net). Returns DL_ERR_NAME, unrecorded, when there is none. */
    dl_status (*get)(void *self, const char *name, dlsh_value *out);
    dl_status (*set)(void *self, const char *name, dlsh_value value);
    /* Has the object a part of its own of this name, which then goes before the field in `fields`? */
    int (*hides)(void *self, const char *field);
    /* Where a name is that this object lacks; leaves *hint empty when nothing is known. */
    void (*elsewhere)(void *self, const char *name, char *hint, size_t size);
    /* Their names, for completion and "did you mean": a list of strings. */
    dl_status (*names)(void *self, dlsh_value *out);
    dl_status (*call)(struct dlsh_session *s, void *self, const dlsh_callargs *args, dlsh_value *out);
    dl_status (*index)(struct dlsh_session *s, void *self, dlsh_value key, dlsh_value *out);
    dl_status (*set_index)(struct dlsh_session *s, void *self, dlsh_value key, dlsh_value value);
    dl_status (*len)(void *self, long *out);
    /* `for`: an iterator over the object (a handle with `next`); NULL: the object is its own iterator. */
    dl_status (*iterate)(struct dlsh_session *s, void *self, dlsh_value *out);
    /* The next element; *done = 1 and nothing in out at the end. */
    dl_status (*next)(struct dlsh_session *s, void *self, dlsh_value *out, int *done);
    /* ==; default: the same object. */
    int (*equal)(const void *a, const void *b);
    /* a op b, of which one at least is of this class; op is a dlsh_op, no comparison. -x is x * -1. Returns
     * DL_ERR_TYPE, unrecorded, when the two do not go together. */
    dl_status (*binary)(int op, dlsh_value a, dlsh_value b, dlsh_value *out);
    /* Truth; default: true. */
    int (*truth)(void *self);
    /* For pure functions that use the object (lang/eval/pure.h): calls do nothing but issue ops, and *out, which is a
     * dl_key_fn's, says which. */
    dl_status (*key)(void *self, unsigned long *out);
    /* Tells of the references that the object holds, so that a cycle through it is found; what is not told of lives as
     * long as it does. Of an object that others own as well the handle holds a reference to a shared one. */
    void (*values)(void *self, const dlsh_visitor *to);
    /* Drops them, where they can be exchanged while the object lives. */
    void (*empty)(void *self);
    /* Bytes that it holds. An object of a class with it may outlive the function whose variable it was, so that the
     * doctor can look at it (eval/kept.c). */
    size_t (*held)(void *self);
    /* What people would see of its end happens now, although it is kept. */
    void (*rest)(void *self);
};

struct dlsh_handle {
    int refs, place;
    const dlsh_class *cls;
    void *self;
};

/* Of objects that hold little. */
size_t dlsh_held_little(void *self);

/* ---------------------------------------------------------------- making and releasing
 * Constructors that allocate give DLSH_VOID on failure with the error recorded: dlsh_failed(v). */

static inline dlsh_value dlsh_none(void) { return (dlsh_value){DLSH_NONE, {0}}; }
static inline dlsh_value dlsh_void(void) { return (dlsh_value){DLSH_VOID, {0}}; }
static inline dlsh_value dlsh_bool(int b) { return (dlsh_value){DLSH_BOOL, {.i = b != 0}}; }
static inline dlsh_value dlsh_int(long i) { return (dlsh_value){DLSH_INT, {.i = i}}; }
static inline dlsh_value dlsh_float(double f) { return (dlsh_value){DLSH_FLOAT, {.f = f}}; }
static inline int dlsh_failed(dlsh_value v) { return v.type == DLSH_VOID; }
/* What a function returns: *out = v. DL_OK, or the recorded failure that made v VOID. */
dl_status dlsh_give(dlsh_value v, dlsh_value *out);
/* A function that gets the field of an object, for dlsh_field; `expr` uses `self`. */
#define DLSH_GETTER(name, expr)                                                                                        \
    static dl_status name(void *self, dlsh_value *out) { return dlsh_give(expr, out); }
/* The same for a value that was filled in: after a failure st it is dropped, *out stays, and st is returned. */
dl_status dlsh_give_filled(dl_status st, dlsh_value v, dlsh_value *out);
dlsh_value dlsh_string(const char *s);
dlsh_value dlsh_string_n(const char *s, size_t n);
/* Puts text at the end of the string *s, in its memory when nothing else refers to it, else in a copy that *s becomes.
 * On failure *s stays. */
dl_status dlsh_string_extend(dlsh_value *s, const dlsh_str *more);
dlsh_value dlsh_stringf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Gives up the references to several tensors; NULL is allowed. */
#define DLSH_UNREF(...)                                                                                                \
    do {                                                                                                               \
        dl_tensor *dlsh_unref_[] = {__VA_ARGS__};                                                                      \
        for (size_t dlsh_i_ = 0; dlsh_i_ < DLSH_COUNT(dlsh_unref_); dlsh_i_++) dl_unref(dlsh_unref_[dlsh_i_]);         \
    } while (0)

/* Takes the reference; NULL gives DLSH_VOID, so that a failed call of the library passes through. */
dlsh_value dlsh_tensor(dl_tensor *t);
dlsh_value dlsh_new_range(long from, long to, long step);
dlsh_value dlsh_new_method(dlsh_value self, dlsh_value fn);
/* Takes `self`: destroyed with the last reference, and at once when the handle cannot be made. NULL gives VOID. */
dlsh_value dlsh_new_handle(const dlsh_class *cls, void *self);

void dlsh_free_object(dlsh_value v); /* the slow half of dlsh_drop */

/* The collector of cycles (collect.c) knows a value from track to untrack: a list, record or cell from the first value
 * on that can be part of a cycle, others from when they are whole. dlsh_free_object untracks. */
void dlsh_track(dlsh_value v);
void dlsh_untrack(dlsh_value v);
static inline int dlsh_tracked(dlsh_value v) {
    return v.type == DLSH_LIST || v.type == DLSH_RECORD || v.type == DLSH_FN || v.type == DLSH_METHOD ||
           v.type == DLSH_CELL || (v.type == DLSH_HANDLE && v.as.handle->cls->values);
}

/* Of every value that can be tracked the second int is its place in the collector's table, -1: not there. */
static inline int dlsh_track_place(dlsh_value v) { return v.as.refs[1]; }
/* To be called when v is put into a list, record or cell. */
static inline void dlsh_hold(dlsh_value owner, dlsh_value v) {
    if (v.type >= DLSH_LIST && dlsh_track_place(owner) < 0 && dlsh_tracked(v)) dlsh_track(owner);
}

static inline int dlsh_counted(dlsh_value v) { return v.type >= DLSH_STR; }
static inline dlsh_value dlsh_ref(dlsh_value v) {
    if (dlsh_counted(v)) {
        if (v.type == DLSH_TENSOR)
            dl_ref(v.as.tensor);
        else
            ++*v.as.refs;
    }
    return v;
}
static inline void dlsh_drop(dlsh_value v) {
    if (dlsh_counted(v)) {
        if (v.type == DLSH_TENSOR)
            dl_unref(v.as.tensor);
        else if (--*v.as.refs == 0)
            dlsh_free_object(v);
    }
}

/* Of a parameter that a table of functions gives and this one has no use for. */
#define DLSH_UNUSED __attribute__((unused))
#define DLSH_COUNT(array) (sizeof(array) / sizeof *(array))
/* Runs a call that takes `ap`: the arguments after fmt of the function that it stands in. */
#define DLSH_FORMATTED(fmt, ...)                                                                                       \
    do {                                                                                                               \
        va_list ap;                                                                                                    \
        va_start(ap, fmt);                                                                                             \
        __VA_ARGS__;                                                                                                   \
        va_end(ap);                                                                                                    \
    } while (0)

/* ---------------------------------------------------------------- what a block owns
 * It is released at the end of the block, on every path out of it, the last declared first:
 *
 *     DLSH_OWNED dl_tensor *t = ..., *u = ...;               references to tensors
 *     DLSH_DROPPED dlsh_value v = ...;                       a reference to a value; VOID: nothing
 *     DLSH_FREED char *s = ...;                              memory
 *     DLSH_ENDED(dl_rows_free) dl_rows *rows = ...;          by a function that takes it; NULL: nothing
 *     DLSH_SCOPED(dlsh_buf_free) dlsh_buf b = {0};           by a function that takes its address */

#define DLSH_SCOPED(end) __attribute__((cleanup(end), unused))
#define DLSH_OWNED DLSH_ENDED(dl_unref)
#define DLSH_DROPPED DLSH_SCOPED(dlsh_drop_at)
#define DLSH_FREED DLSH_SCOPED(dlsh_free_at)
#define DLSH_ENDED(end) DLSH_SCOPED(dlsh_at_##end)
/* Lets blocks own what `end` releases. */
#define DLSH_ENDS(end, type)                                                                                           \
    static inline void dlsh_at_##end(type *const *owned) {                                                             \
        if (*owned) end(*owned);                                                                                       \
    }
DLSH_ENDS(dl_unref, dl_tensor)
DLSH_ENDS(dl_comparison_free, dl_comparison)
DLSH_ENDS(dl_module_list_free, dl_module_list)
DLSH_ENDS(dl_module_unref, dl_module)
DLSH_ENDS(dl_pack_unref, dl_pack)
DLSH_ENDS(dl_points_free, dl_points)
DLSH_ENDS(dl_ranking_free, dl_ranking)
DLSH_ENDS(dl_rows_free, dl_rows)
DLSH_ENDS(dl_run_list_free, dl_run_list)
DLSH_ENDS(dl_sampler_unref, dl_sampler)
DLSH_ENDS(dl_sparse_unref, dl_sparse)
DLSH_ENDS(dl_summary_free, dl_summary)
DLSH_ENDS(dl_tape_free, dl_tape)
DLSH_ENDS(dl_tensor_file_free, dl_tensor_file)
DLSH_ENDS(dl_text_free, char)
DLSH_ENDS(fclose, FILE)
static inline void dlsh_drop_at(const dlsh_value *owned) { dlsh_drop(*owned); }
static inline void dlsh_free_at(void *owned) {
    void *memory;
    memcpy(&memory, owned, sizeof memory);
    free(memory);
}
/* The failure that is recorded, which is forgotten. */
static inline dl_error dlsh_taken_error(void) {
    dl_error e;
    dl_error_take(&e);
    return e;
}
/* Moves an owned value: *out = *v, which is then VOID. A VOID stands for a recorded failure, which is returned. */
dl_status dlsh_hand_over(dlsh_value *v, dlsh_value *out);

/* ---------------------------------------------------------------- lists and records (mutable, shared by reference) */

/* A list without items; `reserve` is how many memory is allocated for. */
dlsh_value dlsh_new_list(long reserve);
/* A list of n ints: shapes, strides. */
dlsh_value dlsh_new_ints(const long *v, int n);
/* A list of n items, which it takes, also on failure; VOID when one of them is. */
dlsh_value dlsh_list_of(const dlsh_value *items, int n);
/* The item that a name of an op's results stands for; NULL: none. */
const dlsh_value *dlsh_list_named(const dlsh_list *l, const char *name);
#define DLSH_LIST_OF(...)                                                                                              \
    dlsh_list_of((dlsh_value[]){__VA_ARGS__}, (int)(sizeof((dlsh_value[]){__VA_ARGS__}) / sizeof(dlsh_value)))
/* Appends v, which it takes, also on failure. Either may be VOID, that is, a constructor has failed: the recorded
 * failure is returned. */
dl_status dlsh_append(dlsh_value list, dlsh_value v);
/* Takes v, also on failure. */
dl_status dlsh_list_push(dlsh_list *list, dlsh_value v);
dl_status dlsh_list_insert(dlsh_list *list, int at, dlsh_value v);
void dlsh_list_remove(dlsh_list *list, int from, int to);

dlsh_value dlsh_new_record(void);
/* Sets or replaces; takes v, also on failure; copies the key. */
dl_status dlsh_record_set(dlsh_record *r, const char *key, dlsh_value v);
/* The value in place, or NULL. */
dlsh_value *dlsh_record_get(const dlsh_record *r, const char *key);
/* The same for a key whose length is known, which is quicker. */
dlsh_value *dlsh_record_get_text(const dlsh_record *r, const dlsh_str *key);
int dlsh_record_remove(dlsh_record *r, const char *key);
void dlsh_record_clear(dlsh_record *r);

/* A field to be set; key NULL: it is left out. */
typedef struct dlsh_entry {
    const char *key;
    dlsh_value value;
} dlsh_entry;
/* Sets n fields of a record. Takes all values, also on failure; a VOID, also for the record, is the failure that it
 * stands for. */
dl_status dlsh_record_fill(dlsh_value record, const dlsh_entry *fields, int n);
/* A new record of such fields, with the same rules; VOID on failure. */
dlsh_value dlsh_record_of(const dlsh_entry *fields, int n);
/* Sets one field by the same rules. */
static inline dl_status dlsh_record_add(dlsh_value record, const char *key, dlsh_value v) {
    return dlsh_record_fill(record, &(dlsh_entry){key, v}, 1);
}
#define DLSH_RECORD_OF(...)                                                                                            \
    dlsh_record_of((dlsh_entry[]){__VA_ARGS__}, (int)(sizeof((dlsh_entry[]){__VA_ARGS__}) / sizeof(dlsh_entry)))

/* ---------------------------------------------------------------- reading */

/* "int", "tensor", or the class of a handle. */
const char *dlsh_type_name(dlsh_value v);
/* The same with its article, "an int"; valid for four more calls. */
const char *dlsh_a(dlsh_value v);
/* The object behind a handle of this class, else NULL (nothing recorded). */
void *dlsh_unwrap(dlsh_value v, const dlsh_class *cls);
static inline int dlsh_is_number(dlsh_value v) { return v.type == DLSH_INT || v.type == DLSH_FLOAT; }
static inline double dlsh_number(dlsh_value v) { return v.type == DLSH_INT ? (double)v.as.i : v.as.f; }
/* A NaN without a sign, which printf would show. */
static inline double dlsh_plain_nan(double f) { return f != f ? (double)__builtin_nan("") : f; }
/* Truth for `if`, `while`, `!`, `&&`, `||`, `?:`: none and zero are false, empty strings and lists too; a tensor must
 * have one element. DL_ERR_TYPE for what has no truth. */
dl_status dlsh_truth(dlsh_value v, int *out);
/* Have they the same shape and elements? Fails as `eq` does, as for tensors on two devices. */
dl_status dlsh_tensors_equal(dl_tensor *a, dl_tensor *b, int *out);
/* Equality without conversion except int with float, through lists and records of any depth, in which tensors are equal
 * by their contents; a and b themselves are equal when they are the same tensor. DL_ERR_MEMORY. */
dl_status dlsh_equal(dlsh_value a, dlsh_value b, int *out);

/* ---------------------------------------------------------------- text */

/* A growing byte string. Zero-initialise; `failed` is set when memory ran out. */
typedef struct dlsh_buf {
    char *s;
    size_t n, cap;
    int failed;
} dlsh_buf;
void dlsh_buf_add(dlsh_buf *b, const char *s, size_t n);
void dlsh_buf_puts(dlsh_buf *b, const char *s);
void dlsh_buf_printf(dlsh_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dlsh_buf_vprintf(dlsh_buf *b, const char *fmt, va_list ap);
/* The contents as a file that appears whole or not at all. */
dl_status dlsh_buf_write(dlsh_buf *b, const char *path);
/* In double quotes with C escapes. */
void dlsh_buf_quote(dlsh_buf *b, const char *s, size_t n);
/* A key of a record as a literal has it: bare when it is a name, else quoted. */
void dlsh_buf_key(dlsh_buf *b, const char *key);
/* NUL-terminated contents (never NULL). */
const char *dlsh_buf_text(dlsh_buf *b);
void dlsh_buf_free(dlsh_buf *b);
/* Appends foreign text so that it is safe to show: newlines and tabs as they are, other control characters, overrides
 * of direction and bytes that are not UTF-8 as escapes, "\x1b", "\u202e". Text with colours is put together of pieces,
 * of which the foreign ones go through this. */
void dlsh_buf_visible(dlsh_buf *b, const char *s, size_t n);
/* The same for a string, and for text by printf. */
void dlsh_buf_puts_visible(dlsh_buf *b, const char *s);
void dlsh_buf_vprintf_visible(dlsh_buf *b, const char *fmt, va_list ap);
/* Turns newlines and tabs into blanks, for foreign text within a line. */
void dlsh_one_line(char *s, size_t n);
/* 1 + the code point of the character at s, of *len bytes, when it controls a terminal or the direction of writing;
 * DLSH_NOT_UTF8 for a byte that is not UTF-8; else 0. */
enum { DLSH_NOT_UTF8 = 0x7fffffff };
unsigned dlsh_control_char(const char *s, size_t n, size_t *len);
/* Length of the valid UTF-8 sequence at s, 0 when there is none. */
size_t dlsh_utf8(const char *s, size_t n);
/* The code point of such a sequence of len bytes. */
unsigned dlsh_utf8_code(const char *s, size_t len);
#define DLSH_SCOPED_BUF DLSH_SCOPED(dlsh_buf_free) dlsh_buf
/* The contents as a string value; frees the buffer. */
dlsh_value dlsh_buf_string(dlsh_buf *b);

/* Shortest decimal that reads back as f: "0.1", "2.0", "1e-05", "nan", "inf". */
void dlsh_buf_float(dlsh_buf *b, double f);
/* The same as JSON: "NaN", "Infinity" and "-Infinity" as strings. */
void dlsh_json_float(dlsh_buf *b, double f);
/* How values look: strings bare at the top level, quoted with C escapes inside lists and records. Tensors are abridged
 * above 1000 elements. */
dl_status dlsh_text(dlsh_buf *b, dlsh_value v);
/* The same with strings always quoted. */
dl_status dlsh_repr(dlsh_buf *b, dlsh_value v);
/* Strict JSON with all digits; NaN and infinities as "NaN", "Infinity", "-Infinity"; handles as their one line. */
dl_status dlsh_json(dlsh_buf *b, dlsh_value v);
