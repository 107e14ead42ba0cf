/* Pictures in terminals that show them. */
#pragma once

#include "lang/value.h"

/* `set pictures`: AUTO: by the terminal; BLOCKS: characters; the others are protocols of terminals. */
typedef enum dlsh_graphics {
    DLSH_GRAPHICS_AUTO,
    DLSH_GRAPHICS_BLOCKS,
    DLSH_GRAPHICS_KITTY,
    DLSH_GRAPHICS_ITERM,
    DLSH_GRAPHICS_SIXEL
} dlsh_graphics;

/* What the terminal of this process shows: by its environment, or else by what it answers, for which it is waited up to
 * a second, once. BLOCKS where it shows no pictures, or does not answer. */
dlsh_graphics dlsh_graphics_of_terminal(void);
/* Appends what makes a terminal show a PNG, without a newline. DL_ERR_UNSUPPORTED: sixel without libsixel. */
dl_status dlsh_graphics_put(dlsh_graphics how, const dlsh_buf *png, dlsh_buf *out);
