/* Files of data: found under one of their names, read whole, uncompressed when they are gzip. */
#include "data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/interrupt.h"
#include "data/archives/gz.h"
#include "io/nearest_file.h"

static dl_status no_memory(const char *path, size_t mib) {
    char what[256];
    snprintf(what, sizeof what, "'%s' has more than %zu MiB", path, mib);
    dl_error_context(NULL, what);
    return dl_failed();
}

/* Room for more bytes: doubles, but not beyond the memory there is. */
static dl_status grow(const char *path, uint8_t **bytes, size_t *cap) {
    size_t want = *cap ? *cap * 2 : 1 << 16;
    uint8_t *more = dl_memory_resize(*bytes, (long)*cap, (long)want, 1);
    if (!more) return no_memory(path, *cap >> 20);
    *bytes = more, *cap = want;
    return DL_OK;
}

/* Data that uncompresses to more than this is refused: both BOMB_RATIO times its size and BOMB_BYTES. */
enum { BOMB_RATIO = 300, BOMB_BYTES = 1 << 26 };

enum { PIECE = 1 << 22 }; /* bytes between two checks for an interrupt */

static dl_status check_ratio(const char *path, const dl_gz *f, size_t n) {
    if (n < BOMB_BYTES || n / BOMB_RATIO < dl_gz_used(f)) return DL_OK;
    return dl_fail_hint(DL_ERR_FORMAT, "if it is meant so, uncompress it with gunzip first",
                        "'%s' uncompresses to more than %d times its size", path, BOMB_RATIO);
}

static dl_status read_all(const char *path, dl_gz *f, size_t expected, uint8_t **bytes, size_t *n) {
    size_t cap = expected ? expected + 1 : 0, got = 1;
    if (cap && !(*bytes = dl_memory_alloc((long)cap, 1))) return no_memory(path, expected >> 20);
    while (got && !(expected && *n > expected)) {
        if (*n == cap) DL_TRY(grow(path, bytes, &cap));
        size_t room = cap - *n;
        DL_TRY(dl_interrupt_check());
        DL_TRY(dl_gz_read(f, *bytes + *n, room < PIECE ? room : PIECE, &got));
        *n += got;
        if (!expected) DL_TRY(check_ratio(path, f, *n));
    }
    return DL_OK;
}

dl_status dl_file_read(const char *path, size_t expected, uint8_t **bytes, size_t *n) {
    *bytes = NULL, *n = 0;
    dl_gz *f = dl_gz_open(path);
    if (!f) return dl_failed();
    dl_status st = read_all(path, f, expected, bytes, n);
    dl_gz_close(f);
    if (st == DL_OK) return st;
    free(*bytes);
    *bytes = NULL, *n = 0;
    return st;
}

dl_status dl_file_head(const char *path, uint8_t *bytes, size_t *n) {
    size_t want = *n;
    *n = 0;
    dl_gz *f = dl_gz_open(path);
    if (!f) return dl_failed();
    dl_status st = dl_gz_read(f, bytes, want, n);
    dl_gz_close(f);
    return st;
}

dl_status dl_file_find(const char *dir, const char *const *names, char *path, size_t size) {
    struct stat info;
    if (stat(dir, &info)) return dl_fail_file("open", dir);
    if (!S_ISDIR(info.st_mode))
        return dl_fail(DL_ERR_IO, "'%s' is a file; the folder that holds the files is wanted", dir);
    for (const char *const *name = names; *name; name++)
        for (int gz = 0; gz < 2; gz++) {
            if ((size_t)snprintf(path, size, "%s/%s%s", dir, *name, gz ? ".gz" : "") >= size)
                return dl_fail(DL_ERR_IO, "the path '%.80s...' is too long", dir);
            if (!stat(path, &info) && S_ISREG(info.st_mode)) return DL_OK;
        }
    return dl_fail_hint(DL_ERR_IO, "the folder must hold the official files under their own names",
                        "'%s' has neither %s nor %s.gz", dir, names[0], names[0]);
}
