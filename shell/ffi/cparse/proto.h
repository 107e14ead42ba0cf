/* The parser of C declarations: prototypes, variables, typedefs, structs, unions, enums, as a person types them after
 * `extern`, as a C block defines them (bodies are skipped), or as a preprocessed header holds them.
 *
 * Beyond C, a declaration may carry words that say what C cannot:
 *     out T *p      the caller gives no argument: C writes *p and its value becomes a further result
 *     inout T *p    the caller gives the value, and the changed one becomes a further result
 *     owned T *f()  the result was allocated for the caller: a string is copied and released with free, or with G after
 *                   owned(G)
 *     keep F        a function passed here is called after this call returns too: its closure stays
 *     T x[n]        the array has as many elements as the argument n says; n may be an expression of arguments */
#pragma once

#include "ffi/values/ctype.h"

/* An array's length over the parameters of its function: + - * / over numbers and names. */
typedef struct dlsh_clen dlsh_clen;
struct dlsh_clen {
    int op; /* 0: value; 'p': param; else '+', '-', '*', '/' */
    long value;
    const char *name;
    int param;             /* index */
    int line, col, offset; /* of the text */
    dlsh_clen *left, *right;
};

enum dlsh_cflags { DLSH_C_OUT = 1, DLSH_C_INOUT = 2, DLSH_C_OWNED = 4, DLSH_C_KEEP = 8, DLSH_C_ARRAY_PARAM = 16 };

typedef struct dlsh_cparam {
    const char *name;       /* NULL: unnamed */
    const dlsh_ctype *type; /* arrays and functions are pointers already */
    unsigned flags;
    const dlsh_clen *len; /* elements behind the pointer; NULL: not said */
} dlsh_cparam;

/* A declared function. Lives in the space. */
typedef struct dlsh_cproto {
    const char *name;
    const char *text;       /* the prototype in one line, without the `;` */
    const dlsh_ctype *type; /* FUNCTION */
    unsigned flags;         /* OWNED: of the result */
    const char *release;    /* of an owned result; NULL: free */
    int nparams;
    const dlsh_cparam *params;
    int format; /* index of the format string that the varargs follow; -1: none known */
    int scanf;  /* it is scanf's, else printf's */
} dlsh_cproto;

/* What stood at the top level, apart from types, which enter the space. */
typedef struct dlsh_cdecl {
    const char *name;
    const dlsh_ctype *type;
    const dlsh_cproto *proto; /* NULL: a variable */
    int is_static, is_extern, has_body;
    int line, col, offset; /* of the name; line and column from 1 */
} dlsh_cdecl;

/* #define NAME body, or with parameters: "a, b" ("" for none). */
typedef struct dlsh_cmacro {
    const char *name, *params, *body; /* params NULL: it has no parentheses */
} dlsh_cmacro;

typedef struct dlsh_cdecls {
    dlsh_cdecl *items;
    int n, cap;
    dlsh_cmacro *macros;
    int nmacros, capmacros;
} dlsh_cdecls;
void dlsh_cdecls_free(dlsh_cdecls *d);

typedef struct dlsh_cerror {
    int line, col, offset, width; /* from 1; offset from the beginning of the text */
    char message[240], hint[160];
} dlsh_cerror;

enum dlsh_cparse_flags {
    DLSH_C_LENIENT = 1, /* headers: what cannot be read is skipped; typedefs and structs may be given again */
    DLSH_C_REPLACE = 2, /* C blocks: a struct, enum or typedef of a known name takes its place */
    DLSH_C_MACROS = 4,  /* collect #define lines */
};

/* Parses declarations up to the end of the text. Types and enum constants enter the space; functions and variables are
 * appended to *out, and bound to nothing. Preprocessor lines are skipped. A missing `;` at the end is forgiven.
 * DL_ERR_SYNTAX with *err filled, and nothing has entered; DL_ERR_MEMORY. */
dl_status dlsh_c_parse(dlsh_cspace *c, const char *text, size_t len, unsigned flags, dlsh_cdecls *out,
                       dlsh_cerror *err);
/* The type a text such as "const struct tm *" or "int[10]" names; NULL: *err is filled. */
const dlsh_ctype *dlsh_c_parse_type(dlsh_cspace *c, const char *text, size_t len, dlsh_cerror *err);
/* Enters the constants among macros: numbers, strings, and expressions of them and of enum constants. */
dl_status dlsh_c_enter_macros(dlsh_cspace *c, const dlsh_cdecls *d);
