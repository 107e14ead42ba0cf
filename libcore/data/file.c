/* Files of data: found under one of their names, read whole, uncompressed when they are gzip. */
#include "data/data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

static dl_status cannot_open(const char *path, int err) {
    return dl_fail(DL_ERR_IO, "cannot open '%s': %s", path, strerror(err));
}

static dl_status cannot_read(const char *path, gzFile f) {
    int err = errno, code;
    const char *text = gzerror(f, &code);
    if (code == Z_ERRNO) return dl_fail(DL_ERR_IO, "cannot read '%s': %s", path, strerror(err));
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged or was not copied whole; fetch it again",
                        "cannot uncompress '%s': %s", path, code == Z_BUF_ERROR ? "it ends too early" : text);
}

/* Room for more bytes: doubles, but not beyond the memory there is. */
static dl_status grow(const char *path, uint8_t **bytes, size_t *cap) {
    size_t want = *cap ? *cap * 2 : 1 << 16;
    uint8_t *more = dl_memory_resize(*bytes, (long)*cap, (long)want, 1);
    if (!more) return dl_fail(DL_ERR_MEMORY, "no memory for '%s': it has more than %zu MiB", path, *cap >> 20);
    *bytes = more, *cap = want;
    return DL_OK;
}

dl_status dl_file_read(const char *path, uint8_t **bytes, size_t *n) {
    struct stat info;
    size_t cap = 0;
    *bytes = NULL, *n = 0;
    if (stat(path, &info)) return cannot_open(path, errno);
    if (S_ISDIR(info.st_mode)) return cannot_open(path, EISDIR);
    gzFile f = gzopen(path, "rb");
    if (!f) return cannot_open(path, errno ? errno : ENOMEM);
    gzbuffer(f, 1 << 17);
    dl_status st = DL_OK;
    for (;;) {
        if (*n == cap && (st = grow(path, bytes, &cap)) != DL_OK) break;
        size_t room = cap - *n;
        int got = gzread(f, *bytes + *n, room > 1 << 30 ? 1u << 30 : (unsigned)room), code;
        gzerror(f, &code);
        if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
            st = cannot_read(path, f);
            break;
        }
        if (!got) break;
        *n += (size_t)got;
    }
    gzclose(f);
    if (st != DL_OK) {
        free(*bytes);
        *bytes = NULL, *n = 0;
    }
    return st;
}

dl_status dl_file_find(const char *dir, const char *const *names, char *path, size_t size) {
    struct stat info;
    if (stat(dir, &info)) return cannot_open(dir, errno);
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
