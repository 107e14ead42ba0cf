/* Inside: files of the cache, content and notes under a check sum. A file that is truncated, damaged, of another user
 * or for another name is not used. */
#pragma once

#include <stddef.h>

typedef struct dlsh_sealed {
    char *bytes; /* malloc'ed: the content, then the notes, which end with a NUL */
    size_t n;    /* of the content */
    const char *notes;
} dlsh_sealed;

/* 1: the file is whole, the user's own, and nobody else can write it. *out is freed by the caller in any case. */
int dlsh_sealed_read(const char *path, dlsh_sealed *out);
void dlsh_sealed_free(dlsh_sealed *s);
/* Writes the file whole or not at all, synced. 0: it could not be; the old one, if any, is still there. */
int dlsh_sealed_write(const char *path, const void *data, size_t n, const char *notes);
/* Is this the name of an incomplete file, which its writer left when it was killed? */
int dlsh_sealed_is_left(const char *name);
