/* C types, and the names that a session has declared: typedefs, tags, constants, functions. Types are interned in their
 * space, so that equal types are one pointer; structs, unions and enums are equal by tag. Everything lives as long as
 * the space. A `const` type is a node of its own whose `plain` is the type without it; fields and sizes of structs are
 * read through `plain`, because a struct may be completed after its const form was made. */
#pragma once

#include <stddef.h>

#include "lang/value.h"

/* KIND(ID, "name in C", C type that gives size and alignment, ffi type); the scalar types. */
#define DLSH_CSCALARS(KIND)                                                                                            \
    KIND(BOOL, "_Bool", _Bool, uint8)                                                                                  \
    KIND(CHAR, "char", char, schar)                                                                                    \
    KIND(SCHAR, "signed char", signed char, schar)                                                                     \
    KIND(UCHAR, "unsigned char", unsigned char, uchar)                                                                 \
    KIND(SHORT, "short", short, sshort)                                                                                \
    KIND(USHORT, "unsigned short", unsigned short, ushort)                                                             \
    KIND(INT, "int", int, sint)                                                                                        \
    KIND(UINT, "unsigned int", unsigned int, uint)                                                                     \
    KIND(LONG, "long", long, slong)                                                                                    \
    KIND(ULONG, "unsigned long", unsigned long, ulong)                                                                 \
    KIND(LLONG, "long long", long long, sint64)                                                                        \
    KIND(ULLONG, "unsigned long long", unsigned long long, uint64)                                                     \
    KIND(FLOAT, "float", float, float)                                                                                 \
    KIND(DOUBLE, "double", double, double)                                                                             \
    KIND(LDOUBLE, "long double", long double, longdouble)

typedef enum dlsh_ckind {
    DLSH_C_VOID,
#define KIND(id, name, type, ffi) DLSH_C_##id,
    DLSH_CSCALARS(KIND)
#undef KIND
        DLSH_C_ENUM,
    DLSH_C_POINTER,
    DLSH_C_ARRAY,
    DLSH_C_STRUCT,
    DLSH_C_UNION,
    DLSH_C_FUNCTION,
    DLSH_C_OPAQUE, /* known by name only: __int128, _Float128, va_list; cannot be passed */
    DLSH_C_NKINDS
} dlsh_ckind;

typedef struct dlsh_ctype dlsh_ctype;
typedef struct dlsh_cspace dlsh_cspace;

typedef struct dlsh_cfield {
    const char *name; /* NULL: an anonymous struct or union, whose fields are reached through it */
    const dlsh_ctype *type;
    size_t offset;
    int bits,
        bit_at; /* a bit-field: its width (-1: width 0, which ends a unit) and its first bit from offset; else 0 */
} dlsh_cfield;

struct dlsh_ctype {
    dlsh_ckind kind;
    int is_const;
    size_t size, align;      /* 0: incomplete, void, a function, or an array of unknown length */
    const dlsh_ctype *plain; /* without const; itself when it has none */
    const dlsh_ctype *base;  /* POINTER, ARRAY: of what; FUNCTION: the result; ENUM: its integer */
    long n;                  /* ARRAY: elements, -1 unknown; STRUCT, UNION: fields; FUNCTION: parameters */
    const dlsh_cfield *fields;
    const dlsh_ctype *const *params;
    int varargs;
    int depth;            /* nesting of its types, without pointers to structs; at most DLSH_C_MAX_DEPTH */
    int complete;         /* STRUCT, UNION: its fields are known */
    int custom_layout;    /* STRUCT, UNION: only the compiler knows the layout, because of attributes */
    int laid_out;         /* STRUCT, UNION: offsets are right */
    const char *tag;      /* STRUCT, UNION, ENUM, OPAQUE; NULL: anonymous */
    const char *alias;    /* the typedef it is known by, NULL: none */
    dlsh_ctype *constant; /* its const form, once made */
    void *ffi;            /* once made: ffi_type (call.c); FUNCTION: a prototype without a name (symbols.c) */
};

/* ---------------------------------------------------------------- spaces */

/* NULL without memory (recorded). */
dlsh_cspace *dlsh_cspace_new(void);
void dlsh_cspace_free(dlsh_cspace *c);
/* Zeroed memory, and a copy of n bytes with a NUL, that live as long as the space; NULL without memory (recorded). */
void *dlsh_c_alloc(dlsh_cspace *c, size_t bytes);
const char *dlsh_c_copy(dlsh_cspace *c, const char *s, size_t n);

/* ---------------------------------------------------------------- making types
 * Each gives NULL without memory (recorded); a NULL argument type passes through. A type that is too deep or too large
 * is an error, too (DL_ERR_VALUE): what walks over types may call itself. */

enum { DLSH_C_MAX_DEPTH = 200 };

const dlsh_ctype *dlsh_c_basic(dlsh_ckind kind); /* VOID and the scalars; shared by all spaces */
const dlsh_ctype *dlsh_c_const(dlsh_cspace *c, const dlsh_ctype *t);
const dlsh_ctype *dlsh_c_pointer(dlsh_cspace *c, const dlsh_ctype *to);
const dlsh_ctype *dlsh_c_array(dlsh_cspace *c, const dlsh_ctype *of, long n);
const dlsh_ctype *dlsh_c_function(dlsh_cspace *c, const dlsh_ctype *result, const dlsh_ctype *const *params, int n,
                                  int varargs);
/* A new incomplete STRUCT, UNION, ENUM (of int) or OPAQUE; enters no name. */
dlsh_ctype *dlsh_c_tagged(dlsh_cspace *c, dlsh_ckind kind, const char *tag, size_t len);
/* Gives a struct or union its fields (copied) and the natural layout. DL_ERR_MEMORY, DL_ERR_VALUE. */
dl_status dlsh_c_complete(dlsh_cspace *c, dlsh_ctype *t, const dlsh_cfield *fields, int n, int custom_layout);
/* The complex numbers of FLOAT or DOUBLE: a struct with the fields re and im. */
const dlsh_ctype *dlsh_c_complex(dlsh_cspace *c, dlsh_ckind part);

/* ---------------------------------------------------------------- asking */

static inline int dlsh_c_is_integer(const dlsh_ctype *t) {
    return (t->kind >= DLSH_C_BOOL && t->kind <= DLSH_C_ULLONG) || t->kind == DLSH_C_ENUM;
}
static inline int dlsh_c_is_float(const dlsh_ctype *t) { return t->kind >= DLSH_C_FLOAT && t->kind <= DLSH_C_LDOUBLE; }
static inline int dlsh_c_is_struct(const dlsh_ctype *t) { return t->kind == DLSH_C_STRUCT || t->kind == DLSH_C_UNION; }
int dlsh_c_is_unsigned(const dlsh_ctype *t);
int dlsh_c_is_complex(const dlsh_ctype *t);
/* Size in bytes; 0: none, or not yet. */
static inline size_t dlsh_c_size(const dlsh_ctype *t) { return t->plain->size; }
/* A field by name, also inside anonymous ones; *offset is from the beginning of t. NULL: there is none. */
const dlsh_cfield *dlsh_c_field(const dlsh_ctype *t, const char *name, size_t *offset);
/* Same type apart from qualifiers at any depth of pointers; with loose, void pointers match any object pointer and
 * integers of one size and sign match. */
int dlsh_c_same(const dlsh_ctype *a, const dlsh_ctype *b, int loose);
/* Writes a type as C does: "const char *", and with a name as a declaration: "int (*f)(void)". "..." stands for parts
 * beyond 2000, because nested function types may repeat their parts. */
void dlsh_c_print(dlsh_buf *b, const dlsh_ctype *t, const char *name);
/* The same into one of eight buffers that are used in turn. */
const char *dlsh_c_name(const dlsh_ctype *t);

/* ---------------------------------------------------------------- names */

typedef enum dlsh_cname_kind {
    DLSH_C_TYPEDEF,
    DLSH_C_TAG, /* name is "struct tm" */
    DLSH_C_CONSTANT,
    DLSH_C_SYMBOL, /* a function or variable */
    DLSH_C_MACRO,  /* of a header, and no constant: only the compiler can tell what it gives (shim.c) */
} dlsh_cname_kind;

/* The header of names that need compiled code: #include lines, compiler options, and the library's file to link with
 * ("": none). */
typedef struct dlsh_cheader {
    const char *source, *flags, *library;
} dlsh_cheader;

struct dlsh_cproto;

typedef struct dlsh_cname {
    dlsh_cname_kind kind;
    const char *name;
    const dlsh_ctype *type;
    const struct dlsh_cproto *proto; /* of functions */
    /* CONSTANT: a number, a string, or an address in i. `type` says which: a pointer with s NULL is an address. */
    long i;
    double f;
    const char *s;
    /* SYMBOL: what it is bound to, by whom (symbols.c). */
    void *addr;
    struct dlsh_clib *lib;
    int how;
    /* MACRO, and inline functions without an address: */
    const dlsh_cheader *header;
    const char *params,
        *body; /* MACRO; params NULL: written without parentheses; `type` NULL: it is not an expression */
    int uses;  /* MACRO with parameters: how it uses them, once known (shim.c) */
} dlsh_cname;

/* Ordinary names (typedefs, constants, symbols) share one space, tags have their own. NULL: not declared. */
dlsh_cname *dlsh_c_find(const dlsh_cspace *c, const char *name, size_t len);
const dlsh_ctype *dlsh_c_find_tag(const dlsh_cspace *c, dlsh_ckind kind, const char *tag, size_t len);
/* Enters a name (copied), replacing one that stands; NULL without memory (recorded). */
dlsh_cname *dlsh_c_enter(dlsh_cspace *c, dlsh_cname_kind kind, const char *name, size_t len, const dlsh_ctype *type);
/* All names in the order entered, replaced ones left out; NULL past the end. Indices may have gaps: `next` is updated.
 */
const dlsh_cname *dlsh_c_next(const dlsh_cspace *c, int *next);
/* dlsh_c_rollback removes the names entered since a savepoint; replaced names are visible again. */
int dlsh_c_savepoint(const dlsh_cspace *c);
void dlsh_c_rollback(dlsh_cspace *c, int savepoint);
