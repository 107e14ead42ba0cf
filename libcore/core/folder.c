/* The folders of caches and of state, below the home of the user. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

/* Makes each folder of an absolute path that is missing. */
static int make_folders(char *path) {
    for (char *p = path + 1;; p++) {
        char c = *p;
        if (c && c != '/') continue;
        *p = 0;
        int failed = mkdir(path, 0700) && errno != EEXIST;
        *p = c;
        if (failed || !c) return !failed;
    }
}

/* The folder that `variable` names, else `otherwise` below the home of the user. */
static dl_status make(const char *variable, const char *otherwise, const char *what, const char *part, char *path,
                      int size) {
    const char *base = getenv(variable), *home = getenv("HOME");
    int n;
    if (base && *base == '/') {
        n = snprintf(path, (size_t)size, "%s/dlsh/%s", base, part);
    } else if (home && *home == '/') {
        n = snprintf(path, (size_t)size, "%s/%s/dlsh/%s", home, otherwise, part);
    } else {
        dl_status st = dl_fail(DL_ERR_IO, "there is no folder for %ss", what);
        dl_error_hint("set HOME, or %s", variable);
        return st;
    }
    if (n >= size) return dl_fail(DL_ERR_IO, "the path of the %s folder is too long: %.200s", what, path);
    if (!make_folders(path)) return dl_fail(DL_ERR_IO, "%s cannot be made: %s", path, strerror(errno));
    struct stat st;
    if (stat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
        return dl_fail_hint(DL_ERR_IO, "chmod 700 makes it so", "the %s folder %s is not the user's alone to write",
                            what, path);
    return DL_OK;
}

dl_status dl_cache_folder(const char *part, char *path, int size) {
    return make("XDG_CACHE_HOME", ".cache", "cache", part, path, size);
}

dl_status dl_state_folder(const char *part, char *path, int size) {
    return make("XDG_STATE_HOME", ".local/state", "state", part, path, size);
}
