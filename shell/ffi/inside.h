/* Inside: what the files of the C interface share. */
#ifndef DLSH_FFI_INSIDE_H
#define DLSH_FFI_INSIDE_H

#include <ffi.h>

#include "ffi/ffi.h"

/* ---------------------------------------------------------------- the state of a session (symbols.c) */

typedef struct dlsh_cstate {
    dlsh_session *s;
    dlsh_cspace *space;
    dlsh_clib **libs; /* opened by extern: references, open as long as the session */
    int nlibs, caplibs;
    int last_errno;
    struct dlsh_cclosure *closures; /* all that were made: in use, kept, or asleep */
    dl_error callback_error;        /* of a callback, to be raised when its call returns */
    int callback_failed, foreign_thread;
    struct dlsh_cblock *blocks; /* C blocks that are loaded, the newest first (block.c) */
    struct dlsh_cshim *shims;   /* of macros that were called (shim.c) */
} dlsh_cstate;
dlsh_cstate *dlsh_c_state(dlsh_session *s);
/* dlopen under the guard, because constructors may crash: DL_OK, with *handle NULL when dlerror() knows why;
 * DL_ERR_CRASH and others, recorded. */
dl_status dlsh_c_open(const char *path, int flags, void **handle);
/* dlclose, but not while a session ends. */
void dlsh_c_close(void *handle);
/* Keeps a library as long as the session, because names lead to it. */
dl_status dlsh_c_hold_lib(dlsh_cstate *st, dlsh_clib *lib);

/* ---------------------------------------------------------------- names (symbols.c, names.c) */

/* What a name of C means, whatever hides it: an owned value and 1; 0: nothing; -1: recorded why it has no value. */
int dlsh_c_name_value(dlsh_cstate *st, const char *name, dlsh_value *out, int *lasting);
/* `ops` and `C`, through which names are reached that something hides. VOID: the name is neither. */
dlsh_value dlsh_c_spaces_value(dlsh_cstate *st, const char *name);
/* Is this name built in, so that a header's function is hidden by it? And a warning that n of them are. */
int dlsh_c_is_hidden(dlsh_session *s, const char *name);
void dlsh_c_warn_hidden(dlsh_session *s, const char *const *names, int n);

/* ---------------------------------------------------------------- pointers and structs (pointer.c, struct.c) */

typedef struct dlsh_cpointer {
    dlsh_session *s;
    const dlsh_ctype *type; /* POINTER */
    char *addr;
    long n;           /* elements; -1 unknown */
    dlsh_value owner; /* keeps the memory; VOID: C's */
    int freed;        /* C's free had it; addr is NULL */
} dlsh_cpointer;
/* The first n elements. */
dl_status dlsh_c_pointer_list(dlsh_cpointer *p, long n, dlsh_value *out);
extern const dlsh_class dlsh_cpointer_class, dlsh_cstruct_class, dlsh_cfunc_class;

typedef struct dlsh_cstruct {
    dlsh_session *s;
    const dlsh_ctype *type; /* STRUCT or UNION, plain */
    char *data;
    dlsh_value owner; /* keeps data; VOID: it is C's */
} dlsh_cstruct;
/* A new struct, zeroed or a copy; VOID on failure. */
dlsh_value dlsh_c_struct_value(dlsh_session *s, const dlsh_ctype *t, const void *copy);
/* Its bytes; 0 when C's memory that it lies in is gone. */
int dlsh_c_struct_bytes(const dlsh_cstruct *v, void *to);
/* Keeps n bytes of memory (-1: not known how many) until the last pointer into it is gone, then release(p). VOID on
 * failure, p being released. */
dlsh_value dlsh_c_owner(void *p, long n, void (*release)(void *), dlsh_clib *lib);
/* Bytes from an address to the end of what a value keeps: memory of new, a tensor, a string. -1: not known, or it is
 * not in there. */
long dlsh_c_extent(dlsh_value owner, const char *at);
/* A struct at an address that owner, taken, keeps. With owner VOID it is C's memory, read and written carefully. */
dlsh_value dlsh_c_struct_view(dlsh_session *s, const dlsh_ctype *t, void *data, dlsh_value owner);
/* x.name and x.name = v of a struct at an address kept by owner. DL_ERR_NAME, unrecorded, when there is no such field.
 */
dl_status dlsh_c_get_field(dlsh_session *s, const dlsh_ctype *t, char *at, dlsh_value owner, const char *name,
                           dlsh_value *out);
dl_status dlsh_c_set_field(dlsh_session *s, const dlsh_ctype *t, char *at, dlsh_value owner, const char *name,
                           dlsh_value v);
dl_status dlsh_c_field_names(const dlsh_ctype *t, dlsh_value *out);
/* Records that there is no such field; DL_ERR_NAME. */
dl_status dlsh_c_no_field(const dlsh_ctype *t, const char *name);
/* An address of pointer type t as text; short text that is const, itself. */
void dlsh_c_address_text(dlsh_buf *b, const dlsh_ctype *t, const char *p);
dl_status dlsh_c_struct_text(dlsh_buf *b, const dlsh_ctype *t, const char *at);
/* dlsh_c_store to `to`, a place that will be copied to `at` in memory that owner keeps: what pointers in it need is
 * kept too, as long as they stand there. */
dl_status dlsh_c_store_in(dlsh_session *s, const dlsh_ctype *t, dlsh_value v, dlsh_value owner, const char *at,
                          void *to);
/* Keeps what a pointer needs that is being stored; 0: nothing can. */
int dlsh_c_keep(dlsh_value v);
/* Writing through a pointer of this owner: refused for tensors that autograd has saved and for read-only ones. */
dl_status dlsh_c_may_write(dlsh_value owner);
/* Fresh zeroed memory as a pointer value to n elements of t that frees itself, with some bytes more behind them; VOID
 * on failure. */
dlsh_value dlsh_c_new_memory(dlsh_session *s, const dlsh_ctype *of, long n, long more, char **addr);
/* Copies n bytes from or to memory that may not be there; 0: it is not. */
int dlsh_c_read_memory(const void *from, void *to, size_t n);
int dlsh_c_write_memory(void *to, const void *from, size_t n);
/* Records that there is no memory at an address; DL_ERR_VALUE. */
dl_status dlsh_c_unreadable(const void *at);
/* Characters up to a NUL, the end of readable memory, or `most`. */
size_t dlsh_c_strlen(const char *s, size_t most);

/* A number of C beyond the ints of the language (unsigned.c): u > LONG_MAX. VOID without memory. */
dlsh_value dlsh_c_unsigned_value(unsigned long u);
/* 1 and *u, when v is such a number. */
int dlsh_c_unsigned_of(dlsh_value v, unsigned long *u);

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
    int prepared, fast, prints, frees, counts;
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
    int failed_at;            /* index of the C argument that did not convert; -1 none */
} dlsh_ccall;

/* The ffi type; NULL: it cannot be passed (recorded). */
ffi_type *dlsh_c_ffi_type(dlsh_cspace *c, const dlsh_ctype *t);
/* Writes argument `at` of a call for parameter type t. */
dl_status dlsh_c_convert(dlsh_ccall *k, int at, const dlsh_ctype *t, dlsh_value v);
/* The dtype of tensors that go to pointers to t; NULL: none. */
const char *dlsh_c_dtype_of(const dlsh_ctype *t);
/* A function written by hand that was declared otherwise before fails. */
dl_status dlsh_c_check_conflict(dlsh_session *s, const dlsh_cdecl *d);
/* A symbol of a library, of all that is loaded when lib is NULL; NULL: there is none. */
void *dlsh_c_symbol(const dlsh_clib *lib, const char *name);
/* A prototype of a function type, in the space; `declarator` takes the place of the name in its text. NULL without
 * memory (recorded). */
dlsh_cproto *dlsh_c_proto_of(dlsh_cspace *c, const dlsh_ctype *t, const char *name, const char *declarator);
/* A function that C gave the address of. */
dlsh_value dlsh_c_unnamed_function(dlsh_session *s, const dlsh_ctype *t, void *addr);
/* The number of an integer or floating type (at most 8 or 16 bytes) at an address. */
long dlsh_c_integer_at(const dlsh_ctype *t, const void *from);
double dlsh_c_floating_at(const dlsh_ctype *t, const void *from);
/* Records that the fields of a struct have no known layout; DL_ERR_UNSUPPORTED. */
dl_status dlsh_c_no_layout(const dlsh_ctype *t);
/* Numbers: v as scalar t into *to. what: "argument x of f" for messages. */
dl_status dlsh_c_scalar(const dlsh_ctype *t, dlsh_value v, const char *what, dlsh_cslot *to);
/* Functions of the C library on so many bytes of memory, such as memcpy: is this one, and has the memory that many? */
int dlsh_c_counts_bytes(const dlsh_cfunc *f);
dl_status dlsh_c_check_bytes(dlsh_ccall *k);
/* "argument 2 (y) of hypot" into one of two buffers used in turn. */
const char *dlsh_c_what(const dlsh_ccall *k, int at);
/* The type an argument after the fixed ones travels as, by C's promotions; NULL: none (recorded). */
const dlsh_ctype *dlsh_c_promoted(dlsh_cspace *c, dlsh_value v, const char *what);
/* What a format wants of an argument: its type, and how many characters scanf may store there (-1 any number, 0: it is
 * no text). */
typedef struct dlsh_cformat {
    const dlsh_ctype *type;
    long chars;
} dlsh_cformat;
/* The arguments that a format of printf or scanf wants; their number, or -1 with a recorded failure. */
int dlsh_c_format_types(dlsh_cspace *c, const char *format, int scanf, dlsh_cformat *types, int max);

/* Code that calls a language function, until dlsh_c_closures_end(owner), or with owner NULL as long as the session.
 * NULL: recorded. */
void *dlsh_c_closure(dlsh_session *s, const dlsh_ctype *function, dlsh_value f, const void *owner);
void dlsh_c_closures_end(dlsh_cstate *st, const void *owner);
/* How many C may still call; they look at types of the space. */
int dlsh_c_closures_free(dlsh_cstate *st);
/* After a call that ended with `status`: when that is DL_OK, raises what a callback failed with, if one did. */
dl_status dlsh_c_callback_failure(dlsh_cstate *st, dl_status status);

/* ---------------------------------------------------------------- extern (extern.c, header.c, verify.c) */

/* Lets go of the blocks whose names are current. */
void dlsh_c_blocks_free(dlsh_cstate *st);

dl_status dlsh_c_run_extern(dlsh_session *s, const dlsh_unit *unit, const dlsh_node *node);

#endif
