/* Whole texts as gzip files in memory. */
#pragma once

#include <stddef.h>

/* Without name and time, so that equal texts give equal bytes; *to of them, to be freed. NULL: no memory. */
void *dl_gzip(const void *text, size_t n, size_t *to);
/* The contents of a gzip file, at most `most` bytes, followed by a NUL; *to of them. NULL: damaged, larger, no memory.
 */
char *dl_gunzip(const void *data, size_t n, size_t most, size_t *to);
