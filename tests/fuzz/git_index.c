/* Fuzz target: the index of a git repository from any bytes, in a work tree that holds nothing of it. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "track/git/git_index.h"
#include "track/whoami.h"

static char folder[] = "/tmp/dlsh-fuzz-XXXXXX", path[PATH_MAX];

static void remove_folder(void) {
    unlink(path);
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!*path) {
        if (!mkdtemp(folder)) abort();
        snprintf(path, sizeof path, "%s/index", folder);
        atexit(remove_folder);
    }
    FILE *f = fopen(path, "w");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f)) abort();
    dl_git_repo r = {.id_bytes = size & 1 ? 32 : 20, .file_mode = true, .deadline_us = dl_now_us() + 1000000};
    strcpy(r.dir, folder);
    strcpy(r.common, folder);
    strcpy(r.tree, "/nonexistent");
    uint8_t tree[DL_GIT_ID];
    dl_git_index x;
    dl_git_index_read(&x, &r, tree);
    dl_git_index_free(&x);
    return 0;
}
