/* C in a session: its declared names, libraries, functions as values, and the one entry through which C is called.
 *
 * To declare functions of your own code (a compiled C block):
 *
 *     dlsh_cdecls d = {0};
 *     dlsh_cerror e;
 *     DLSH_TRY(dlsh_c_parse(dlsh_c_space(s), text, len, DLSH_C_LENIENT | DLSH_C_REPLACE, &d, &e));    (proto.h)
 *     dlsh_clib *lib = dlsh_clib_new("block 3", handle, unload, data);
 *     for each d.items[i] that is to be seen: dlsh_c_bind(s, &d.items[i], dlsym(handle, name), lib, DLSH_C_OWN);
 *     dlsh_clib_drop(lib);                    every function value keeps a reference, so old code stays while used
 *
 * The text may be C source (bodies and preprocessor lines are skipped, includes are not followed) or the output of
 * `cc -E -dD`. */
#pragma once

#include "ffi/cparse/proto.h"
#include "lang/session.h"

/* ---------------------------------------------------------------- the session's part */

/* Offers `extern`, C blocks, C's names and values. */
void dlsh_ffi_serve(dlsh_services *to);
/* The declared names and types; NULL without the C services. */
dlsh_cspace *dlsh_c_space(dlsh_session *s);

/* ---------------------------------------------------------------- libraries */

/* Code that functions come from. Reference-counted; release(data) is called with the last reference. */
typedef struct dlsh_clib {
    int refs;
    char *name;   /* for messages and help: "libm.so.6" */
    void *handle; /* of dlopen */
    int device;   /* of the tensors whose memory its functions take; 0: CPU */
    void (*release)(void *data);
    void *data;
} dlsh_clib;

/* NULL without memory (recorded); release is then not called. */
dlsh_clib *dlsh_clib_new(const char *name, void *handle, void (*release)(void *), void *data);
dlsh_clib *dlsh_clib_ref(dlsh_clib *l);
void dlsh_clib_drop(dlsh_clib *l);

/* ---------------------------------------------------------------- functions */

/* A C function: what a `C function` value holds. */
typedef struct dlsh_cfunc dlsh_cfunc;
const dlsh_cproto *dlsh_cfunc_proto(const dlsh_cfunc *f);
dlsh_clib *dlsh_cfunc_lib(const dlsh_cfunc *f);
/* The function behind a value; NULL: it is none (nothing recorded). */
dlsh_cfunc *dlsh_cfunc_of(dlsh_value v);
/* A function value. VOID on failure. The proto must live as long as the session's space. */
dlsh_value dlsh_cfunc_value(dlsh_session *s, const dlsh_cproto *proto, void *addr, dlsh_clib *lib);

typedef enum dlsh_cbinding {
    DLSH_C_WRITTEN,  /* by extern: becomes a variable, hides a built-in function with a notice; a conflicting type is an
                        error */
    DLSH_C_OWN,      /* of a C block: replaces what had the name */
    DLSH_C_IMPORTED, /* of a header: used only when nothing else has the name */
} dlsh_cbinding;
/* Gives a declared function or variable its address and makes its name known. A variable `int n;` becomes a pointer to
 * it, so that n[0] reads and writes it; a library's variable that is a pointer, such as stdout, reads as that pointer.
 */
dl_status dlsh_c_bind(dlsh_session *s, const dlsh_cdecl *d, void *addr, dlsh_clib *lib, dlsh_cbinding how);

/* Is this a name that expressions can use without a variable: a constant, a function or variable of a header? */
int dlsh_c_is_seen(const dlsh_cname *n);
/* Describes a C name: a function's prototype and library, a type's fields, a constant's value. 0: it is unknown. */
int dlsh_c_help(dlsh_session *s, const char *name, dlsh_buf *to);

/* ---------------------------------------------------------------- calling */

/* Converts the arguments, calls, converts the results: everything a call expression does. Records failures:
 * DL_ERR_TYPE, DL_ERR_VALUE, DL_ERR_SHAPE, DL_ERR_DEVICE, DL_ERR_AUTOGRAD, what a callback failed with, what the guard
 * recorded. */
dl_status dlsh_c_call(dlsh_session *s, dlsh_cfunc *f, const dlsh_callargs *args, dlsh_value *out);

/* ---------------------------------------------------------------- values in C's memory */

/* Converts v to type t and stores it (t's size bytes; at least 8 for scalars). Pointers to strings, tensors and structs
 * point into the value, which must be kept alive. DL_ERR_TYPE and others, recorded. */
dl_status dlsh_c_store(dlsh_session *s, const dlsh_ctype *t, dlsh_value v, void *to);
/* The value of type t at an address. Structs are copied. */
dl_status dlsh_c_load(dlsh_session *s, const dlsh_ctype *t, const void *from, dlsh_value *out);
/* A pointer value of type t (POINTER). owner, a reference or VOID, keeps the memory alive; n: number of elements, -1
 * unknown. */
dlsh_value dlsh_c_pointer_value(dlsh_session *s, const dlsh_ctype *t, void *addr, dlsh_value owner, long n);
