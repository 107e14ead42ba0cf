/* Inside: the state of the parser of C declarations, shared by its files. */
#pragma once

#include "ffi/cparse/clex.h"
#include "ffi/cparse/proto.h"

typedef struct dlsh_cparser {
    dlsh_cspace *c;
    unsigned flags;
    dlsh_clexer lx;
    dlsh_ctok tok;
    size_t last_end; /* offset after the token before */
    dlsh_cdecls *out;
    dlsh_cerror *err;
    dl_status failed;
    int depth;                /* of nesting */
    int format, format_scanf; /* of an attribute: which parameter is a format, from 1; whose kind */
} dlsh_cparser;

/* Effects of attributes: on the layout, packed, on the type itself. */
enum dlsh_cattributes { DLSH_ATTR_LAYOUT = 1, DLSH_ATTR_PACKED = 2, DLSH_ATTR_TYPE = 4 };

/* The result of a declaration's specifiers. */
typedef struct dlsh_cspecs {
    const dlsh_ctype *type;
    int is_typedef, is_static, is_extern;
    unsigned words; /* dlsh_cflags: out, inout, owned, keep */
    const char *release;
    int attributes; /* enum dlsh_cattributes, of attributes */
} dlsh_cspecs;

/* The result of a declarator. */
typedef struct dlsh_cdeclarator {
    dlsh_ctok name; /* END when there is none */
    const dlsh_ctype *type;
    int is_function;     /* with its own parameter list beside the name */
    int empty;           /* which is () */
    dlsh_cparam *params; /* of that list; malloc'ed */
    int nparams;
    const dlsh_clen *len; /* PARAM: the product of its array lengths, when they are not constant or were given */
    int is_array;
} dlsh_cdeclarator;

void dlsh_cp_advance(dlsh_cparser *p);
dlsh_ctok dlsh_cp_peek(const dlsh_cparser *p);
static inline int dlsh_cp_is(const dlsh_cparser *p, int op) { return dlsh_clex_is_op(&p->tok, op); }
int dlsh_cp_accept(dlsh_cparser *p, int op);
/* Records the first failure; returns NULL. */
void *dlsh_cp_fail(dlsh_cparser *p, const dlsh_ctok *at, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same, "expected WHAT, found ...". */
void *dlsh_cp_expected(dlsh_cparser *p, const char *what, const char *hint);
/* Skips a bracketed group; 0 when it is not closed. */
int dlsh_cp_skip_group(dlsh_cparser *p);
/* Enters a level of nesting; 0 after a failure, such as more than DLSH_C_MAX_DEPTH levels. Every recursion of the
 * parser enters; after a failure there is no need to leave. */
int dlsh_cp_enter(dlsh_cparser *p);
static inline void dlsh_cp_leave(dlsh_cparser *p) { p->depth--; }
/* Passes a type on; if it is NULL, the recorded cause becomes the parser's failure at the token. */
const dlsh_ctype *dlsh_cp_made(dlsh_cparser *p, const dlsh_ctok *at, const dlsh_ctype *t);
/* Does a type begin here? */
int dlsh_cp_at_type(const dlsh_cparser *p, const dlsh_ctok *t);
/* The typedef or predeclared type of a name; NULL: none. */
const dlsh_ctype *dlsh_cp_typedef(const dlsh_cparser *p, const dlsh_ctok *t);

int dlsh_cp_specifiers(dlsh_cparser *p, dlsh_cspecs *out);
/* Attributes and asm labels; adds to *attributes (enum dlsh_cattributes) what they change. */
void dlsh_cp_attributes(dlsh_cparser *p, int *attributes);
/* The type made by an attribute, known by its name (may be NULL) only; NULL without memory. */
const dlsh_ctype *dlsh_cp_attribute_type(dlsh_cparser *p, const dlsh_ctok *name);
/* params: array lengths may name parameters and the outermost array stays apart in d->len. */
int dlsh_cp_declarator(dlsh_cparser *p, const dlsh_ctype *base, int params, dlsh_cdeclarator *d);
const dlsh_ctype *dlsh_cp_type_name(dlsh_cparser *p);
/* struct, union or enum, the word being the current token (cstruct.c). */
const dlsh_ctype *dlsh_cp_struct(dlsh_cparser *p);
const dlsh_ctype *dlsh_cp_enum(dlsh_cparser *p);

/* Integer constant expression; 0 after a failure (cexpr.c). */
int dlsh_cp_constant(dlsh_cparser *p, long *out);
/* An expression of parameters; NULL after a failure. */
dlsh_clen *dlsh_cp_length(dlsh_cparser *p);
