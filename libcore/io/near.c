/* A file that is not there: the nearest name in its folder. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlcore.h"

enum { MOST = 1000 }; /* names that are looked at */

int dl_nearest_file(const char *path, char *out, long size) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char *names[MOST], *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int n = 0;
    DIR *d = folder && strlen(base) > 2 ? opendir(folder) : NULL;
    for (struct dirent *e; d && n < MOST && (e = readdir(d));)
        if (e->d_name[0] != '.' && (names[n] = strdup(e->d_name))) n++;
    if (d) closedir(d);
    const char *near = dl_nearest(base, (const char *const *)names, n);
    int found = near && strcmp(near, base);
    if (found)
        snprintf(out, (size_t)size, "did you mean '%.*s%.100s'?", (int)(base - path < 100 ? base - path : 0), path,
                 near);
    while (n) free(names[--n]);
    free(folder);
    return found;
}
