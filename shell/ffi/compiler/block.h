/* C { ... } and CUDA { ... }: source that is compiled, loaded and bound in the session. Later blocks see the
 * declarations of earlier ones, as if all were one file. A new definition replaces the old one, for the shell and, if
 * the type is the same, for C compiled against the old one. */
#pragma once

#include "ffi/compiler/compile.h"
#include "ffi/cparse/cscan.h"
#include "ffi/ffi.h"

/* A name that later C can reach. */
typedef struct dlsh_cexport {
    const char *name; /* the item's */
    const dlsh_ctype *type;
    void **slot;       /* pointer through which later blocks call it; NULL: a variable */
    dlsh_clib *target; /* the library of the slot's function when it is another block's: a reference */
} dlsh_cexport;

typedef struct dlsh_cblock dlsh_cblock;
struct dlsh_cblock {
    dlsh_cblock *next; /* the next older one */
    dlsh_session *s;
    dlsh_clib *lib; /* its own: not a reference */
    int held;       /* the session has a reference, because names of it are current */
    char key[DLSH_CC_KEY], path[256];
    void *handle;
    dlsh_citems items;
    dlsh_cexport *exports;
    int nexports;
    dlsh_clib **needs; /* of blocks whose names it mentions: references */
    int nneeds;
    /* the input of the compilation, to repeat it with other options */
    char *text, *file, *flags, *compiler, *prelude;
    int line, col, cuda;
};

/* The runner of CBLOCK statements. */
dl_status dlsh_c_run_block(dlsh_session *s, const dlsh_unit *unit, const dlsh_node *node);
/* The block that a function comes from; NULL: none. */
dlsh_cblock *dlsh_cblock_of(const dlsh_cfunc *f);
/* Its declarations as the parser of prototypes is to read them: no bodies, no values. */
void dlsh_cblock_declarations(const dlsh_cblock *b, dlsh_buf *out);
/* Compiles a block again with more options, "-DDLSH_REAL=double", loads it apart from the session, and gives the
 * address of one of its functions in *addr. *lib: a reference to what must be kept. */
dl_status dlsh_cblock_variant(dlsh_cblock *b, const char *more, const char *name, void **addr, dlsh_clib **lib);
