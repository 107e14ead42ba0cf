/* Walking through folders of runs. */
#define _GNU_SOURCE /* asprintf */
#include "track/exchange/walk.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/nearest_file.h"

enum { DEEPEST = 16, MOST = 4096 };

typedef struct walker {
    dl_walk_kind *is;
    dl_walk_visitor *visit;
    void *ctx;
} walker;

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static dl_status walk(const walker *w, const char *path, const char *below, int depth) {
    struct dirent **entry = NULL;
    char *files[MOST];
    long nfile = 0;
    int n = depth > DEEPEST ? 0 : scandir(path, &entry, NULL, by_name);
    dl_status st = n < 0 ? dl_fail_file("read", path) : DL_OK;
    for (int i = 0; i < n; i++) {
        char *full = NULL, *deeper = NULL;
        const char *name = entry[i]->d_name;
        struct stat info;
        if (st == DL_OK && *name != '.' && asprintf(&full, "%s/%s", path, name) >= 0 && !stat(full, &info)) {
            if (S_ISDIR(info.st_mode) && asprintf(&deeper, "%s%s%s", below, *below ? "/" : "", name) >= 0)
                st = walk(w, full, deeper, depth + 1);
            else if (S_ISREG(info.st_mode) && w->is(name) && nfile < MOST)
                files[nfile++] = full, full = NULL;
        }
        free(full);
        free(deeper);
        free(entry[i]);
    }
    free(entry);
    if (st == DL_OK && nfile) st = w->visit(w->ctx, path, files, nfile, below);
    while (nfile) free(files[--nfile]);
    return st;
}

dl_status dl_walk(const char *path, dl_walk_kind *is, dl_walk_visitor *visit, void *ctx) {
    const walker w = {is, visit, ctx};
    return walk(&w, path, "", 0);
}

static dl_status count(void *ctx, const char *folder DL_UNUSED, char *const *files DL_UNUSED, long n,
                       const char *below DL_UNUSED) {
    *(long *)ctx += n;
    return DL_OK;
}

int dl_walk_found(const char *path, dl_walk_kind *is) {
    struct stat info;
    long n = 0;
    const char *slash = strrchr(path, '/');
    if (stat(path, &info)) return 0;
    if (S_ISREG(info.st_mode)) return is(slash ? slash + 1 : path);
    if (dl_walk(path, is, count, &n) != DL_OK) dl_error_clear();
    return n > 0;
}
