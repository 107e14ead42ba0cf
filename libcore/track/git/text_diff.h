/* The lines that differ between two texts. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writes the hunks of a unified diff with three lines of context; nothing for equal texts. Texts that differ in more
 * than some thousand lines are compared by their equal beginnings and ends alone. 0: no memory. */
int dl_text_diff(const char *a, size_t na, const char *b, size_t nb, FILE *out);
