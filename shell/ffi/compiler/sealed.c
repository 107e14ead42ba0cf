/* Files of the cache, which end with a seal: lengths, name and check sum. */
#define _GNU_SOURCE
#include "ffi/compiler/sealed.h"
#include "ffi/compiler/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY ".part-"

typedef struct seal {
    char magic[8];
    uint64_t content, notes;
    char name[64];                           /* of the file */
    unsigned char sum[SHA256_DIGEST_LENGTH]; /* over everything before it */
} seal;

static seal seal_of(const char *path, size_t content, size_t notes) {
    const char *name = strrchr(path, '/');
    seal s = {.magic = "dlsh-c1", .content = content, .notes = notes};
    snprintf(s.name, sizeof s.name, "%s", name ? name + 1 : path);
    return s;
}

static int read_all(int fd, char *to, size_t n) {
    while (n) {
        ssize_t k = read(fd, to, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return 0;
        to += k, n -= (size_t)k;
    }
    return 1;
}

/* The bytes of a file that the user owns and nobody else can write; NULL: it is none. */
static char *read_own(const char *path, size_t *n) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    char *bytes = NULL;
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        !(st.st_mode & (S_IWGRP | S_IWOTH)) && (size_t)st.st_size >= sizeof(seal))
        bytes = malloc(*n = (size_t)st.st_size);
    if (bytes && !read_all(fd, bytes, *n)) {
        free(bytes);
        bytes = NULL;
    }
    if (fd >= 0) close(fd);
    return bytes;
}

int dlsh_sealed_read(const char *path, dlsh_sealed *out) {
    size_t n;
    seal found, right;
    *out = (dlsh_sealed){.bytes = read_own(path, &n)};
    if (!out->bytes) return 0;
    n -= sizeof found;
    memcpy(&found, out->bytes + n, sizeof found);
    right = seal_of(path, found.content, found.notes);
    dlsh_sha256(out->bytes, n + offsetof(seal, sum), right.sum);
    if (found.content > n || found.notes != n - found.content || memcmp(&right, &found, sizeof found)) return 0;
    out->n = found.content;
    out->notes = out->bytes + found.content;
    out->bytes[n] = 0;
    return 1;
}

void dlsh_sealed_free(dlsh_sealed *s) {
    free(s->bytes);
    *s = (dlsh_sealed){0};
}

static int write_all(int fd, const void *data, size_t n) {
    for (const char *p = data; n;) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return 0;
        p += k, n -= (size_t)k;
    }
    return 1;
}

/* What the file is to hold; malloc'ed. */
static char *sealed_bytes(const char *path, const void *data, size_t n, const char *notes, size_t nnotes) {
    char *bytes = malloc(n + nnotes + sizeof(seal));
    seal s = seal_of(path, n, nnotes);
    if (!bytes) return NULL;
    memcpy(bytes, data, n);
    memcpy(bytes + n, notes, nnotes);
    memcpy(bytes + n + nnotes, &s, sizeof s);
    dlsh_sha256(bytes, n + nnotes + offsetof(seal, sum), s.sum);
    memcpy(bytes + n + nnotes, &s, sizeof s);
    return bytes;
}

int dlsh_sealed_write(const char *path, const void *data, size_t n, const char *notes) {
    static unsigned number;
    char temp[512], *bytes = sealed_bytes(path, data, n, notes, strlen(notes));
    snprintf(temp, sizeof temp, "%s" TEMPORARY "%ld-%u", path, (long)getpid(), number++);
    unlink(temp); /* of a process that had the number before */
    int fd = bytes ? open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    int ok = fd >= 0 && write_all(fd, bytes, n + strlen(notes) + sizeof(seal)) && !fsync(fd);
    free(bytes);
    if (fd < 0) return 0;
    if (close(fd)) ok = 0;
    if (ok && !rename(temp, path)) return 1;
    unlink(temp);
    return 0;
}

int dlsh_sealed_is_left(const char *name) { return strstr(name, TEMPORARY) != NULL; }
