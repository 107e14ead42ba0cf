/* Questions of the form NAME? and ?NAME. */
#pragma once

#include "lang/value.h"

/* Blanks and tabs at the start of s[0, n). */
size_t dlsh_blanks(const char *s, size_t n);

/* Appends a line (with or without its newline) to the text b of a program: `help NAME` when it asks about a name and no
 * bracket or string of b is open, else as it is. */
void dlsh_put_line(dlsh_buf *b, const char *line, size_t n);
