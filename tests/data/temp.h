/* Files for the readers of data, in a folder of the test. */
#ifndef TESTS_DATA_TEMP_H
#define TESTS_DATA_TEMP_H

#include "support/folder.h"

#include <zlib.h>

/* Writes a file there, in gzip when its name says so; returns its path. */
static inline const char *temp_write(const char *name, const void *bytes, size_t n) {
    const char *path = temp_path(name);
    size_t len = strlen(name);
    if (len > 3 && !strcmp(name + len - 3, ".gz")) {
        gzFile f = gzopen(path, "wb");
        gzwrite(f, bytes, (unsigned)n);
        gzclose(f);
    } else {
        FILE *f = fopen(path, "wb");
        fwrite(bytes, 1, n, f);
        fclose(f);
    }
    return path;
}

#endif
