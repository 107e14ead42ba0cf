/* What blocks of C see of each other. */
#pragma once

#include "ffi/compiler/block.h"

/* Writes the current declarations of older blocks (newest first in the list) without those that the new block replaces,
 * and adds references to the blocks it needs to new->needs. */
dl_status dlsh_prelude(dlsh_cblock *older, dlsh_cblock *new, dlsh_buf *out);
/* C text that gives the functions and variables of a block names of their own for the linker: NAME + tag for each, and
 * for functions NAME + tag + "s", a jump through the pointer NAME + tag + "p". */
void dlsh_prelude_exports(const dlsh_cblock *b, dlsh_buf *out);
/* "__d0123456789abcdef" */
void dlsh_prelude_tag(const char *key, char tag[24]);
/* Removes what a block defines from older ones, and directs their functions of the same name and type to the new ones.
 * DL_ERR_MEMORY: nothing was changed. */
dl_status dlsh_prelude_supersede(dlsh_cblock *older, dlsh_cblock *new);
/* Is anything of the block current? */
int dlsh_prelude_current(const dlsh_cblock *b);
