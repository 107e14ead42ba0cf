/* What to do about a file that cannot be read or written. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/nearest_file.h"

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

/* The shortest start of the path that is not a folder, as far as its last slash; 0 where all are. *file: it is a file.
 */
static int missing_folder(const char *path, int *file) {
    struct stat info;
    for (const char *slash = strchr(path + (*path == '/'), '/'); slash; slash = strchr(slash + 1, '/')) {
        char *folder = strndup(path, (size_t)(slash - path));
        int there = folder && !stat(folder, &info);
        free(folder);
        *file = there && !S_ISDIR(info.st_mode);
        if (!there || *file) return (int)(slash - path);
    }
    return 0;
}

void dl_file_remedy(const char *path, int err, char *out, long size) {
    static const struct {
        int err;
        const char *remedy;
    } known[] = {{EISDIR, "that is a folder: name a file in it"},
                 {ENOTDIR, "a file has that name: name a folder"},
                 {EACCES, "its permissions do not allow it: ls -l tells them"},
                 {EPERM, "its permissions do not allow it: ls -l tells them"},
                 {EROFS, "the file system can only be read: write elsewhere"},
                 {ENOSPC, "make room, or write elsewhere: df -h tells what is free"},
                 {EDQUOT, "make room, or write elsewhere: quota tells what is yours"},
                 {EFBIG, "ulimit -f tells how large a file may become"},
                 {ENAMETOOLONG, "give it a shorter name"},
                 {EMFILE, "ulimit -n tells how many files may be open"}};
    int file = 0, n = err == ENOENT || err == ENOTDIR ? missing_folder(path, &file) : 0;
    *out = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].err == err) snprintf(out, (size_t)size, "%s", known[i].remedy);
    if (n && file)
        snprintf(out, (size_t)size, "'%.*s' is a file, not a folder", n < 100 ? n : 100, path);
    else if (n) {
        char *folder = strndup(path, (size_t)n);
        if (!folder || !dl_nearest_file(folder, out, size))
            snprintf(out, (size_t)size, "there is no folder '%.*s'", n < 100 ? n : 100, path);
        free(folder);
    } else if (err == ENOENT && !dl_nearest_file(path, out, size) && *path != '/')
        snprintf(out, (size_t)size, "the path counts from the current folder");
}

dl_status dl_fail_file(const char *what, const char *path) {
    int err = errno;
    char hint[240];
    dl_file_remedy(path, err, hint, sizeof hint);
    if (err == ENOENT && !strcmp(what, "write") && !strncmp(hint, "there", 5)) {
        size_t n = strlen(hint);
        snprintf(hint + n, sizeof hint - n, ": mkdir -p %.*s makes it", (int)(strrchr(path, '/') - path), path);
    }
    return dl_fail_hint(DL_ERR_IO, hint, "cannot %s '%s': %s", what, path, strerror(err));
}
