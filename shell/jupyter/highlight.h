/* Highlighting: files of notebooks/highlight with the names of the language filled in. */
#pragma once

#include "lang/value.h"

/* Adds the text of such a file, with the names of this dlsh in the place of `NAMES = {}`. */
dl_status dlsh_highlight(const char *text, dlsh_buf *to);
