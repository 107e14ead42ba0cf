/* Splits C source into top-level items, with the declarations that later source needs to use them. */
#pragma once

#include "ffi/cparse/clex.h"
#include "lang/value.h"

#define DLSH_CI_PLACEHOLDER "\001"

typedef enum dlsh_citem_kind {
    DLSH_CI_DIRECTIVE, /* a preprocessor line; the name is that of a macro it defines */
    DLSH_CI_TYPE,      /* typedef, struct, union, enum; names: typedef names, tags, enum constants */
    DLSH_CI_PROTOTYPE, /* a function declared without a body, or an extern variable */
    DLSH_CI_VARIABLE,
    DLSH_CI_FUNCTION,
    DLSH_CI_OTHER, /* not visible elsewhere: static names, device functions of CUDA */
} dlsh_citem_kind;

typedef struct dlsh_citem {
    dlsh_citem_kind kind;
    char *names[16]; /* what it declares; malloc'ed */
    int nnames;
    int begin, end; /* offsets in the source; a function's end is that of its head */
    /* DIRECTIVE, TYPE, PROTOTYPE: the text. VARIABLE, FUNCTION: its declaration, with a placeholder for the linker's
     * name after each variable, or at the end of the function's prototype. */
    char *head;
    int is_type;   /* declares a type, whatever else */
    int old_style; /* OTHER: a function whose parameters are declared after its head, so that it has no prototype */
} dlsh_citem;

typedef struct dlsh_citems {
    dlsh_citem *items;
    int n, cap;
} dlsh_citems;

/* DL_ERR_MEMORY. For source that is not C the items make no sense; the compiler reports the errors. */
dl_status dlsh_c_scan(const char *text, size_t len, dlsh_citems *out);
void dlsh_citems_free(dlsh_citems *c);
/* Does the item declare this name? */
int dlsh_citem_has(const dlsh_citem *it, const char *name, size_t len);
