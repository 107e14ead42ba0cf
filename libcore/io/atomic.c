/* Files written to a temporary name, synced and renamed; and files mapped for reading. */
#include "io/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static dl_status fail_errno(const char *what, const char *path) {
    return dl_fail(DL_ERR_IO, "cannot %s '%s': %s", what, path, strerror(errno));
}

/* Follows links, so that renaming replaces the file and not a link to it. */
static char *resolve(const char *path) {
    char *real = realpath(path, NULL);
    return real ? real : strdup(path);
}

dl_status dl_atomic_open(dl_atomic *a, const char *path) {
    static unsigned counter;
    *a = (dl_atomic){.fd = -1};
    if (!path || !*path) return dl_fail(DL_ERR_VALUE, "a file needs a name");
    a->path = resolve(path);
    size_t size = a->path ? strlen(a->path) + 48 : 0;
    a->tmp = a->path ? malloc(size) : NULL;
    if (!a->tmp) {
        dl_atomic_discard(a);
        return dl_fail(DL_ERR_MEMORY, "no memory for a file name");
    }
    for (int tries = 0; tries < 100 && a->fd < 0; tries++) {
        unsigned n = __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
        snprintf(a->tmp, size, "%s.tmp.%ld.%u", a->path, (long)getpid(), n);
        a->fd = open(a->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (a->fd < 0 && errno != EEXIST) break;
    }
    if (a->fd >= 0) return DL_OK;
    dl_status st = fail_errno("write", path);
    dl_atomic_discard(a);
    return st;
}

dl_status dl_atomic_write(dl_atomic *a, const void *data, size_t n) {
    const char *p = data;
    while (n) {
        ssize_t k = write(a->fd, p, n < (1u << 30) ? n : 1u << 30);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) {
            dl_status st = fail_errno("write", a->path);
            dl_atomic_discard(a);
            return st;
        }
        p += k, n -= (size_t)k;
    }
    return DL_OK;
}

/* The rename itself must reach the disk: it lives in the folder. */
static dl_status sync_folder(const char *path) {
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof dir) return DL_OK;
    memcpy(dir, path, n);
    dir[n] = 0;
    int fd = open(n ? dir : slash ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno("open the folder of", path);
    /* some file systems cannot sync a folder and say so by EINVAL; there is nothing more to do there */
    int failed = fsync(fd) != 0 && errno != EINVAL;
    dl_status st = failed ? fail_errno("sync the folder of", path) : DL_OK;
    close(fd);
    return st;
}

dl_status dl_atomic_commit(dl_atomic *a) {
    dl_status st = DL_OK;
    if (fsync(a->fd) != 0) st = fail_errno("sync", a->path);
    if (close(a->fd) != 0 && st == DL_OK) st = fail_errno("close", a->path);
    a->fd = -1;
    if (st == DL_OK && rename(a->tmp, a->path) != 0) st = fail_errno("rename to", a->path);
    if (st == DL_OK) {
        free(a->tmp);
        a->tmp = NULL;
        st = sync_folder(a->path);
    }
    dl_atomic_discard(a);
    return st;
}

void dl_atomic_discard(dl_atomic *a) {
    if (a->fd >= 0) close(a->fd);
    if (a->tmp) unlink(a->tmp);
    free(a->tmp);
    free(a->path);
    *a = (dl_atomic){.fd = -1};
}

dl_status dl_map_file(dl_mapped *m, const char *path) {
    *m = (dl_mapped){0};
    if (!path || !*path) return dl_fail(DL_ERR_VALUE, "a file needs a name");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_errno("open", path);
    struct stat sb;
    dl_status st = DL_OK;
    if (fstat(fd, &sb) != 0)
        st = fail_errno("read", path);
    else if (!S_ISREG(sb.st_mode))
        st = dl_fail(DL_ERR_IO, "'%s' is not a file", path);
    else if (sb.st_size > 0) {
        void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            st = fail_errno("map", path);
        else
            *m = (dl_mapped){p, (size_t)sb.st_size};
    }
    close(fd);
    return st;
}

void dl_unmap_file(dl_mapped *m) {
    if (m->data) munmap(m->data, m->n);
    *m = (dl_mapped){0};
}
