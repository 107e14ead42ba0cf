/* A folder for the files of a test: made before, and removed with all that is in it. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char temp_dir[64];

/* Setup and teardown of cmocka's. */
static inline int temp_make(void **state) {
    (void)state;
    strcpy(temp_dir, "/tmp/dlsh-test-XXXXXX");
    return mkdtemp(temp_dir) ? 0 : -1;
}

static inline int temp_remove(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", temp_dir);
    return system(command);
}

/* The path of a file there; four of them live at a time. */
static inline const char *temp_path(const char *name) {
    static char path[4][256];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", temp_dir, name);
    return path[i];
}

#endif
