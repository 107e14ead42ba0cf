/* Questions to the C compiler, $DLSH_CC or cc. */
#pragma once

#include "ffi/compiler/compile.h"
#include "ffi/inside.h"

/* Runs the compiler with args (ends with NULL) and flags (as a shell reads them; NULL none) over a source text. What it
 * prints, with `errors` its messages too, is added to *said; *good: it succeeded. DL_ERR_IO: there is no compiler. */
dl_status dlsh_c_query(const char *source, const char *const *args, const char *flags, int errors, dlsh_buf *said,
                       int *good);
int dlsh_c_can_query(void);
/* The command of the compiler that reads headers: DLSH_CC, else cc. */
const char *dlsh_c_query_compiler(void);
/* Which options it understands. */
dlsh_cc_family dlsh_c_query_family(void);

/* Gives structs that entered the space since a mark the layout the compiler says; `context` is C text (includes) that
 * defines them. Those it does not know keep the natural one. */
int dlsh_c_has_layout_words(const char *text);
dl_status dlsh_c_query_layouts(dlsh_cspace *c, int savepoint, const char *context, const char *flags);

/* Adds the bytes of the data directives at the beginning of some assembly; 0: there are none, or one is an address. */
int dlsh_c_read_data(const char *assembly, dlsh_buf *bytes);
/* Enters what the macros of a header are: constants with their type and value, and as MACRO what is none. */
dl_status dlsh_c_query_macros(dlsh_cspace *c, const dlsh_cdecls *d, const dlsh_cheader *from);
/* The type of an expression after a header; NULL: it is not an expression, or of a type that is not known here. */
dl_status dlsh_c_query_type(dlsh_cspace *c, const dlsh_cheader *h, const char *expression, const dlsh_ctype **type);

/* Is each declared function of a library as its known header says? The first that is not: its index in *at and a
 * recorded failure. Libraries whose header is not known, or not installed, pass. */
dl_status dlsh_c_verify(dlsh_cspace *c, const char *lib, const dlsh_cdecls *d, int savepoint, int *at);

/* extern "lib" header <a.h> <b.h>: the text after `header`. */
dl_status dlsh_c_import(dlsh_session *s, dlsh_clib *lib, const char *text, const char *flags);
