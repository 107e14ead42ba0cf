/* Inside: declarations shared by the files of the C interface. */
#pragma once

#include <ffi.h>

#include "ffi/ffi.h"

/* ---------------------------------------------------------------- the state of a session (symbols.c) */

typedef struct dlsh_cstate {
    dlsh_session *s;
    dlsh_cspace *space;
    dlsh_clib **libs; /* opened by extern: references, kept until the session ends */
    int nlibs, caplibs;
    int last_errno;
    struct dlsh_cclosure *closures; /* all, in use, kept or idle */
    dl_error callback_error;        /* of a callback, to be raised when its call returns */
    int callback_failed, foreign_thread;
    struct dlsh_cblock *blocks; /* C blocks that are loaded, the newest first (block.c) */
    struct dlsh_cshim *shims;   /* of macros that were called (shim.c) */
} dlsh_cstate;
dlsh_cstate *dlsh_c_state(dlsh_session *s);
/* dlopen under the guard, because constructors may crash. DL_OK with *handle NULL: dlerror() knows why. DL_ERR_CRASH
 * and others, recorded. */
dl_status dlsh_c_open(const char *path, int flags, void **handle);
/* dlclose, but not while a session ends. */
void dlsh_c_close(void *handle);
/* Keeps a reference to a library until the session ends, because names refer to it. */
dl_status dlsh_c_hold_lib(dlsh_cstate *st, dlsh_clib *lib);

/* ---------------------------------------------------------------- names (symbols.c, names.c) */

/* The value of a C name, whatever hides it: 1 and an owned value; 0: there is none; -1: recorded why it has no value.
 * *lasting = 0: it is to be asked for at each use. */
int dlsh_c_name_value(dlsh_cstate *st, const char *name, dlsh_value *out, int *lasting);
/* The values `ops` and `C`. VOID: the name is neither. */
dlsh_value dlsh_c_spaces_value(dlsh_cstate *st, const char *name);
/* Is this name built in, so that it hides a header's function? */
int dlsh_c_is_hidden(dlsh_session *s, const char *name);
void dlsh_c_warn_hidden(dlsh_session *s, const char *const *names, int n);

/* ---------------------------------------------------------------- pointers and structs (pointer.c, struct.c) */

typedef struct dlsh_cpointer {
    dlsh_session *s;
    const dlsh_ctype *type; /* POINTER */
    char *addr;
    long n;           /* elements; -1 unknown */
    dlsh_value owner; /* keeps the memory alive; VOID: it is C's */
    int freed;        /* released by C's free */
} dlsh_cpointer;
/* The first n elements. */
dl_status dlsh_c_pointer_list(dlsh_cpointer *p, long n, dlsh_value *out);
extern const dlsh_class dlsh_cpointer_class, dlsh_cstruct_class, dlsh_cfunc_class;

typedef struct dlsh_cstruct {
    dlsh_session *s;
    const dlsh_ctype *type; /* STRUCT or UNION, plain */
    char *data;
    dlsh_value owner; /* keeps data alive; VOID: it is C's */
} dlsh_cstruct;
/* A new struct, zeroed or a copy; VOID on failure. */
dlsh_value dlsh_c_struct_value(dlsh_session *s, const dlsh_ctype *t, const void *copy);
/* Copies its bytes; 0 when C's memory that holds it is gone. */
int dlsh_c_struct_bytes(const dlsh_cstruct *v, void *to);
/* An owner of n bytes of memory (-1: unknown), which calls release(p) with the last reference. VOID on failure, when p
 * is released at once. */
dlsh_value dlsh_c_owner(void *p, long n, void (*release)(void *), dlsh_clib *lib);
/* Bytes from an address to the end of the owner's memory: that of new, of a tensor, of a string. -1: unknown, or the
 * address is outside. */
long dlsh_c_extent(dlsh_value owner, const char *at);
/* A struct at an address; takes owner, which keeps it alive. With owner VOID it is C's memory, accessed through the
 * kernel. */
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
/* Writes a pointer of type t: short const text as a string, else the address. */
void dlsh_c_address_text(dlsh_buf *b, const dlsh_ctype *t, const char *p);
dl_status dlsh_c_struct_text(dlsh_buf *b, const dlsh_ctype *t, const char *at);
/* dlsh_c_store to `to`, whose bytes will be copied to `at` in the owner's memory. The owner keeps alive what stored
 * pointers point to, until they are overwritten. */
dl_status dlsh_c_store_in(dlsh_session *s, const dlsh_ctype *t, dlsh_value v, dlsh_value owner, const char *at,
                          void *to);
/* Keeps alive what a pointer that is being stored points to; 0: there is no owner for it. */
int dlsh_c_keep(dlsh_value v);
/* Writing through a pointer of this owner: refused for tensors that autograd has saved and for read-only ones. */
dl_status dlsh_c_may_write(dlsh_value owner);
/* A pointer value to n zeroed elements of t, with `more` bytes behind them, freed with the last reference; VOID on
 * failure. */
dlsh_value dlsh_c_new_memory(dlsh_session *s, const dlsh_ctype *of, long n, long more, char **addr);
/* Copies n bytes from or to memory that may not be there; 0: it is not. */
int dlsh_c_read_memory(const void *from, void *to, size_t n);
int dlsh_c_write_memory(void *to, const void *from, size_t n);
/* Records that there is no memory at an address; DL_ERR_VALUE. */
dl_status dlsh_c_unreadable(const void *at);
/* Characters up to a NUL, the end of readable memory, or `most`. */
size_t dlsh_c_strlen(const char *s, size_t most);

/* An unsigned number above LONG_MAX (unsigned.c). VOID without memory. */
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

/* The state of one call. */
typedef struct dlsh_ccall {
    dlsh_session *s;
    dlsh_cfunc *f;
    int n; /* of C's arguments */
    dlsh_cslot *slots;
    void **ptrs;
    const dlsh_ctype **types;
    const dlsh_value **given; /* the value behind each; NULL: out */
    dlsh_cslot *boxes;        /* objects that out and inout parameters of scalars point to */
    dlsh_value *owners;       /* memory of other out parameters; VOID */
    int failed_at;            /* index of the C argument that did not convert; -1 none */
} dlsh_ccall;

/* The ffi type; NULL: it cannot be passed (recorded). */
ffi_type *dlsh_c_ffi_type(dlsh_cspace *c, const dlsh_ctype *t);
/* Writes argument `at` of a call for parameter type t. */
dl_status dlsh_c_convert(dlsh_ccall *k, int at, const dlsh_ctype *t, dlsh_value v);
/* The dtype of tensors that go to pointers to t; NULL: none. */
const char *dlsh_c_dtype_of(const dlsh_ctype *t);
/* Fails when a name was declared before with another type. */
dl_status dlsh_c_check_conflict(dlsh_session *s, const dlsh_cdecl *d);
/* The address of a symbol in a library, or with lib NULL in everything that is loaded; NULL: there is none. */
void *dlsh_c_symbol(const dlsh_clib *lib, const char *name);
/* A prototype of a function type, in the space; `declarator` takes the place of the name in its text. NULL without
 * memory (recorded). */
dlsh_cproto *dlsh_c_proto_of(dlsh_cspace *c, const dlsh_ctype *t, const char *name, const char *declarator);
/* A function value for an address that C returned. */
dlsh_value dlsh_c_unnamed_function(dlsh_session *s, const dlsh_ctype *t, void *addr);
/* The number of an integer or floating type (at most 8 or 16 bytes) at an address. */
long dlsh_c_integer_at(const dlsh_ctype *t, const void *from);
double dlsh_c_floating_at(const dlsh_ctype *t, const void *from);
/* Records that the fields of a struct have no known layout; DL_ERR_UNSUPPORTED. */
dl_status dlsh_c_no_layout(const dlsh_ctype *t);
/* Numbers: v as scalar t into *to. what: "argument x of f" for messages. */
dl_status dlsh_c_scalar(const dlsh_ctype *t, dlsh_value v, const char *what, dlsh_cslot *to);
/* Memory and string functions of the C library: is f one, and does the call stay within memory of known size? */
int dlsh_c_counts_bytes(const dlsh_cfunc *f);
dl_status dlsh_c_check_bytes(dlsh_ccall *k);
/* "argument 2 (y) of hypot" into one of two buffers used in turn. */
const char *dlsh_c_what(const dlsh_ccall *k, int at);
/* The type that a variable argument is passed as, by C's promotions; NULL: none (recorded). */
const dlsh_ctype *dlsh_c_promoted(dlsh_cspace *c, dlsh_value v, const char *what);
/* What a format expects: the type, and how many characters scanf may store (-1: any number, 0: it is not text). */
typedef struct dlsh_cformat {
    const dlsh_ctype *type;
    long chars;
} dlsh_cformat;
/* The arguments that a format of printf or scanf expects; their number, or -1 with a recorded failure. */
int dlsh_c_format_types(dlsh_cspace *c, const char *format, int scanf, dlsh_cformat *types, int max);

/* Machine code that calls a function of the language, until dlsh_c_closures_end(owner); with owner NULL until the
 * session ends. NULL: recorded. */
void *dlsh_c_closure(dlsh_session *s, const dlsh_ctype *function, dlsh_value f, const void *owner);
void dlsh_c_closures_end(dlsh_cstate *st, const void *owner);
/* Frees the closures. The number of kept ones, which C may still call and which use types of the space. */
int dlsh_c_closures_free(dlsh_cstate *st);
/* After a call that returned `status`: if that is DL_OK, raises the error of a callback. */
dl_status dlsh_c_callback_failure(dlsh_cstate *st, dl_status status);

/* ---------------------------------------------------------------- extern (extern.c, header.c, verify.c) */

/* Releases the session's references to its blocks. */
void dlsh_c_blocks_free(dlsh_cstate *st);

dl_status dlsh_c_run_extern(dlsh_session *s, const dlsh_unit *unit, const dlsh_node *node);
