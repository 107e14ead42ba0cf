/* C { ... } and CUDA { ... }: source compiled in place, loaded, its names bound in the session. Later blocks see what
 * earlier ones declare, as if all were one file; what is defined again takes the place of the old definition, for the
 * shell and, when its type is the same, for C that was compiled against the old one, too. */
#ifndef DLSH_FFI_BLOCK_H
#define DLSH_FFI_BLOCK_H

#include "ffi/compiler/compile.h"
#include "ffi/cparse/cscan.h"
#include "ffi/ffi.h"

/* A name that later C can reach. */
typedef struct dlsh_cexport {
    const char *name; /* the item's */
    const dlsh_ctype *type;
    void **slot;       /* through it calls of later blocks go; NULL: a variable */
    dlsh_clib *target; /* of what the slot leads to, when that is another block: a reference */
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
    /* what it was made of, for compiling it again with other definitions */
    char *text, *file, *flags, *compiler, *prelude;
    int line, col, cuda;
};

/* The runner of CBLOCK statements. */
dl_status dlsh_c_run_block(dlsh_session *s, const dlsh_unit *unit, const dlsh_node *node);
/* The block that a function comes from; NULL: none. */
dlsh_cblock *dlsh_cblock_of(const dlsh_cfunc *f);
/* Its declarations as the parser of prototypes is to read them: no bodies, no values. */
void dlsh_cblock_declarations(const dlsh_cblock *b, dlsh_buf *out);
/* Compiles a block again with more options, "-Dreal=double", loads it apart from the session, and gives the address of
 * one of its functions in *addr. *lib: a reference to what must be kept. */
dl_status dlsh_cblock_variant(dlsh_cblock *b, const char *more, const char *name, void **addr, dlsh_clib **lib);

#endif
