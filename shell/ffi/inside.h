/* Inside: what the files of the C interface share. */
#ifndef DLSH_FFI_INSIDE_H
#define DLSH_FFI_INSIDE_H

#include <ffi.h>

#include "ffi/ffi.h"

/* ---------------------------------------------------------------- the state of a session (symbols.c) */

typedef struct dlsh_cstate {
    dlsh_session *s;
    dlsh_cspace *space;
    struct dlsh_cimport *imports; /* values of header-imported names, made on first use */
    dlsh_clib *libs[64];          /* opened by extern */
    int nlibs;
    int last_errno;
    struct dlsh_cclosure *kept; /* closures that stay */
    dl_error callback_error;    /* of a callback, to be raised when its call returns */
    int callback_failed;
    int in_callback;
} dlsh_cstate;
dlsh_cstate *dlsh_c_state(dlsh_session *s);

/* ---------------------------------------------------------------- pointers and structs (pointer.c, struct.c) */

typedef struct dlsh_cpointer {
    dlsh_session *s;
    const dlsh_ctype *type; /* POINTER */
    char *addr;
    long n;           /* elements; -1 unknown */
    dlsh_value owner; /* keeps the memory; VOID: C's */
    int freed;
} dlsh_cpointer;
extern const dlsh_class dlsh_cpointer_class, dlsh_cstruct_class, dlsh_cfunc_class;

typedef struct dlsh_cstruct {
    dlsh_session *s;
    const dlsh_ctype *type; /* STRUCT or UNION, plain */
    char *data;
    dlsh_value owner; /* of data when it is a part of something else; VOID: own, freed with it */
} dlsh_cstruct;
/* A new struct, zeroed or a copy; VOID on failure. */
dlsh_value dlsh_c_struct_value(dlsh_session *s, const dlsh_ctype *t, const void *copy);
/* A part of another object. */
dlsh_value dlsh_c_struct_view(dlsh_session *s, const dlsh_ctype *t, void *data, dlsh_value owner);
/* x.name and x.name = v of a struct at an address kept by owner. DL_ERR_NAME, unrecorded, when there is no such field.
 */
dl_status dlsh_c_get_field(dlsh_session *s, const dlsh_ctype *t, char *at, dlsh_value owner, const char *name,
                           dlsh_value *out);
dl_status dlsh_c_set_field(dlsh_session *s, const dlsh_ctype *t, char *at, const char *name, dlsh_value v);
dl_status dlsh_c_field_names(const dlsh_ctype *t, dlsh_value *out);
dl_status dlsh_c_struct_text(dlsh_buf *b, const dlsh_ctype *t, const char *at);
/* Fresh zeroed memory as a pointer value to n elements of t that frees itself; VOID on failure. */
dlsh_value dlsh_c_new_memory(dlsh_session *s, const dlsh_ctype *of, long n, char **addr);
/* Is memory readable / writable? Copies; 0 when not. Without the system call everything counts as readable. */
int dlsh_c_peek(const void *from, void *to, size_t n);
int dlsh_c_poke(void *to, const void *from, size_t n);

/* ---------------------------------------------------------------- calls (call.c, convert.c, format.c, closure.c) */

enum { DLSH_C_MAX_ARGS = 64 };

typedef union dlsh_cslot {
    long i;
    unsigned long u;
    double d;
    float f;
    long double ld;
    void *p;
    char bytes[16];
} dlsh_cslot;

struct dlsh_cfunc {
    dlsh_session *s;
    const dlsh_cproto *proto;
    void *addr;
    dlsh_clib *lib;
    ffi_cif cif;
    int prepared, fast, plain; /* plain: scalars only, no contracts */
    ffi_type **arg_types;
};

/* One call on its way. */
typedef struct dlsh_ccall {
    dlsh_session *s;
    dlsh_cfunc *f;
    int n; /* of C's arguments */
    dlsh_cslot *slots;
    void **ptrs;
    const dlsh_ctype **types;
    const dlsh_value **given; /* the value behind each; NULL: out */
    dlsh_cslot *boxes;        /* what out and inout parameters of scalars point to */
    dlsh_value *owners;       /* memory of other out parameters; VOID */
    struct dlsh_cclosure *closures;
    int touches; /* a tensor is written through */
    void *result;
} dlsh_ccall;

/* The ffi type; NULL: it cannot be passed (recorded). */
ffi_type *dlsh_c_ffi_type(dlsh_cspace *c, const dlsh_ctype *t);
/* Writes argument `at` of a call for parameter type t. */
dl_status dlsh_c_convert(dlsh_ccall *k, int at, const dlsh_ctype *t, const dlsh_cparam *param, dlsh_value v,
                         dlsh_cslot *to);
/* Numbers: v as scalar t into *to. what: "argument x of f" for messages. */
dl_status dlsh_c_scalar(const dlsh_ctype *t, dlsh_value v, const char *what, dlsh_cslot *to);
/* "argument 2 (y) of hypot" into one of two buffers used in turn. */
const char *dlsh_c_what(const dlsh_ccall *k, int at);
/* The types and slots of the arguments after the fixed ones. */
dl_status dlsh_c_varargs(dlsh_ccall *k, const dlsh_value *values, int n);
/* The wanted types of printf's and scanf's arguments; -1: a failure was recorded. */
int dlsh_c_format_types(dlsh_cspace *c, const char *format, int scanf, const dlsh_ctype **types, int max);

/* Code that calls a language function; entered into the list of the call, or kept. NULL: recorded. */
void *dlsh_c_closure(dlsh_ccall *k, const dlsh_ctype *function, dlsh_value f, int keep);
void dlsh_c_closures_free(struct dlsh_cclosure *list);
/* Raises what a callback failed with, if one did. */
dl_status dlsh_c_callback_failure(dlsh_cstate *st);

/* ---------------------------------------------------------------- extern (extern.c, header.c, verify.c) */

dl_status dlsh_c_run_extern(dlsh_session *s, const dlsh_unit *unit, const dlsh_node *node);

#endif
