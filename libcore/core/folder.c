/* The folder of caches, below the home of the user. */
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

dl_status dl_cache_folder(const char *part, char *path, int size) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (base && *base == '/')
        n = snprintf(path, (size_t)size, "%s/dlsh/%s", base, part);
    else if (home && *home == '/')
        n = snprintf(path, (size_t)size, "%s/.cache/dlsh/%s", home, part);
    else
        return dl_fail_hint(DL_ERR_IO, "set HOME, or XDG_CACHE_HOME", "there is no folder for caches");
    if (n >= size) return dl_fail(DL_ERR_IO, "the path of the cache folder is too long: %.200s", path);
    if (!make_folders(path)) return dl_fail(DL_ERR_IO, "%s cannot be made: %s", path, strerror(errno));
    struct stat st;
    if (stat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
        return dl_fail_hint(DL_ERR_IO, "chmod 700 makes it so", "the cache folder %s is not the user's alone to write",
                            path);
    return DL_OK;
}
