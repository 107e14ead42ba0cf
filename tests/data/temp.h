/* A folder for the files of one test, and the folder of the MNIST sample. */
#ifndef TESTS_DATA_TEMP_H
#define TESTS_DATA_TEMP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char temp_dir[64];

static int temp_make(void **state) {
    (void)state;
    strcpy(temp_dir, "/tmp/dlsh-data-XXXXXX");
    return mkdtemp(temp_dir) ? 0 : -1;
}

static int temp_remove(void **state) {
    (void)state;
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", temp_dir);
    return system(cmd);
}

/* The path of a file there; four of them live at a time. */
static inline const char *temp_path(const char *name) {
    static char path[4][256];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", temp_dir, name);
    return path[i];
}

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
