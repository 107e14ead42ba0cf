/* Reading gzip: members one after the other (RFC 1952). zlib's own gzread ignores what follows the last one. */
#include "data/archives/gz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "io/nearest_file.h"

enum { CHUNK = 1 << 17 };

struct dl_gz {
    const char *path;
    int fd;
    bool packed, member_ended, ended; /* gzip; at the end of a member; at the end of the last one */
    uint64_t taken;                   /* bytes read from the file */
    z_stream z;
    uint8_t in[CHUNK];
};

uint64_t dl_gz_used(const dl_gz *f) { return f->taken - f->z.avail_in; }

static dl_status damaged(const dl_gz *f, const char *what) {
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged or was not copied whole; fetch it again",
                        "cannot uncompress '%s': %s", f->path, what);
}

static dl_status no_memory(const char *path) { return dl_fail(DL_ERR_MEMORY, "no memory to read '%s'", path); }

/* Bytes of the file as they are; fewer than n at its end. */
static dl_status take(dl_gz *f, uint8_t *to, size_t n, size_t *got) {
    *got = 0;
    while (*got < n) {
        ssize_t k = read(f->fd, to + *got, n - *got);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return dl_fail(DL_ERR_IO, "cannot read '%s': %s", f->path, strerror(errno));
        if (!k) break;
        *got += (size_t)k, f->taken += (uint64_t)k;
    }
    return DL_OK;
}

/* Fills the buffer after the bytes that wait there. */
static dl_status fill(dl_gz *f) {
    size_t got;
    memmove(f->in, f->z.next_in, f->z.avail_in);
    f->z.next_in = f->in;
    DL_TRY(take(f, f->in + f->z.avail_in, CHUNK - f->z.avail_in, &got));
    f->z.avail_in += (unsigned)got;
    return DL_OK;
}

static bool begins_member(const dl_gz *f) {
    return f->z.avail_in > 1 && f->z.next_in[0] == 0x1f && f->z.next_in[1] == 0x8b;
}

/* After a member: another one, or zeros to the end of the file. */
static dl_status next_member(dl_gz *f) {
    f->member_ended = false;
    if (f->z.avail_in < 2) DL_TRY(fill(f));
    if (begins_member(f)) return inflateReset(&f->z) == Z_OK ? DL_OK : damaged(f, "its state is lost");
    unsigned long long at = dl_gz_used(f);
    while (f->z.avail_in) {
        for (; f->z.avail_in && !*f->z.next_in; f->z.next_in++) f->z.avail_in--;
        if (f->z.avail_in)
            return dl_fail_hint(
                DL_ERR_FORMAT, "the file is damaged, or something was added to it; fetch it again",
                "cannot uncompress '%s': what follows its last gzip member, from byte %llu on, is not gzip", f->path,
                at);
        DL_TRY(fill(f));
    }
    f->ended = true;
    return DL_OK;
}

static dl_status unpack(dl_gz *f, uint8_t *to, size_t n, size_t *got) {
    for (*got = 0; *got < n && !f->ended;) {
        if (f->member_ended) {
            DL_TRY(next_member(f));
            continue;
        }
        size_t room = n - *got;
        if (!f->z.avail_in) DL_TRY(fill(f));
        if (!f->z.avail_in) return damaged(f, "it ends too early");
        f->z.next_out = to + *got;
        f->z.avail_out = room < 1u << 30 ? (unsigned)room : 1u << 30;
        int rc = inflate(&f->z, Z_NO_FLUSH);
        *got = (size_t)(f->z.next_out - to);
        if (rc == Z_STREAM_END)
            f->member_ended = true; /* the next one is read when more bytes are wanted */
        else if (rc == Z_MEM_ERROR)
            return no_memory(f->path);
        else if (rc != Z_OK && rc != Z_BUF_ERROR)
            return damaged(f, f->z.msg ? f->z.msg : "it is not gzip");
    }
    return DL_OK;
}

dl_status dl_gz_read(dl_gz *f, uint8_t *to, size_t n, size_t *got) {
    if (f->packed) return unpack(f, to, n, got);
    size_t had = f->z.avail_in < n ? f->z.avail_in : n;
    memcpy(to, f->z.next_in, had);
    f->z.next_in += had, f->z.avail_in -= (unsigned)had;
    dl_status st = take(f, to + had, n - had, got);
    *got += had;
    return st;
}

static dl_status begin(dl_gz *f) {
    struct stat info;
    if (stat(f->path, &info)) return dl_fail_file("open", f->path);
    if (S_ISDIR(info.st_mode)) return errno = EISDIR, dl_fail_file("open", f->path);
    /* opening a FIFO would wait for a writer; a device may have no end */
    if (!S_ISREG(info.st_mode))
        return dl_fail_hint(DL_ERR_IO, "copy it into a file first", "'%s' is not a file", f->path);
    if ((f->fd = open(f->path, O_RDONLY | O_CLOEXEC)) < 0) return dl_fail_file("open", f->path);
    DL_TRY(fill(f));
    if (!begins_member(f)) return DL_OK;
    if (inflateInit2(&f->z, MAX_WBITS + 16) != Z_OK) return no_memory(f->path);
    f->packed = true;
    return DL_OK;
}

dl_gz *dl_gz_open(const char *path) {
    dl_gz *f = calloc(1, sizeof *f);
    if (!f) return no_memory(path), NULL;
    f->path = path, f->fd = -1;
    f->z.next_in = f->in;
    if (begin(f) == DL_OK) return f;
    dl_gz_close(f);
    return NULL;
}

void dl_gz_close(dl_gz *f) {
    if (f->packed) inflateEnd(&f->z);
    if (f->fd >= 0) close(f->fd);
    free(f);
}
