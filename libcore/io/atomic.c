/* Files written to a temporary name, synced and renamed. The temporary file is locked for as long as its writer lives:
 * one without a lock was left behind by a process that was killed, and the next writer in that folder removes it. */
#define _GNU_SOURCE /* sync_file_range */
#include "io/atomic.h"
#include "core/scope.h"
#include "core/interrupt.h"
#include "io/nearest_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".dlcore-part-" /* followed by the process and a number: PREFIX "1234-1" */

/* Bytes of the path up to its last slash, with it; 0: it lies in the current folder. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Does the path lie in the folder DLCORE_LENT, or below? Links there lend files of others: they are replaced. */
static int is_lent(const char *path) {
    const char *lent = getenv("DLCORE_LENT");
    char root[PATH_MAX], folder[PATH_MAX];
    if (!lent || !*lent || !realpath(lent, root)) return 0;
    size_t n = folder_length(path);
    char *dir = n ? strndup(path, n) : strdup(".");
    int found = dir && realpath(dir, folder);
    free(dir);
    n = strlen(root);
    return found && !strncmp(folder, root, n) && (!folder[n] || folder[n] == '/');
}

/* Follows links, so that renaming replaces the file and not a link to it. */
static char *resolve(const char *path) {
    char *real = is_lent(path) ? NULL : realpath(path, NULL);
    return real ? real : strdup(path);
}

static int open_folder(const char *path) {
    DL_FREED char *dir = strndup(path, folder_length(path));
    return dir ? open(*dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

/* ---------------------------------------------------------------- what killed writers left */

static int is_left_name(const char *name) {
    long pid;
    unsigned number;
    int end = 0;
    return sscanf(name, PREFIX "%ld-%u%n", &pid, &number, &end) == 2 && !name[end];
}

/* Removes a temporary file of ours whose writer is gone: nobody holds its lock. */
static void remove_left(int folder, const char *name) {
    struct stat s;
    int fd = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (!fstat(fd, &s) && S_ISREG(s.st_mode) && s.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB))
        unlinkat(folder, name, 0);
    close(fd);
}

static void remove_all_left(const char *path) {
    int fd = open_folder(path);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0) close(fd);
        return; /* a folder that cannot be listed may be writable all the same */
    }
    for (const struct dirent *e; (e = readdir(dir));)
        if (is_left_name(e->d_name)) remove_left(fd, e->d_name);
    closedir(dir);
}

/* ---------------------------------------------------------------- writing */

/* A new, locked file in the folder of the path. Another writer may have removed it before it was locked: then it has no
 * name, and the next one is tried. */
static int make_part(const char *path, char *tmp, size_t size) {
    static unsigned counter;
    for (int tries = 0; tries < 100; tries++) {
        unsigned n = __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);
        snprintf(tmp, size, "%.*s" PREFIX "%ld-%u", (int)folder_length(path), path, (long)getpid(), n);
        int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST) continue;
        if (fd < 0) return -1;
        struct stat s;
        /* without locks in the file system, files left behind are not removed either */
        while (flock(fd, LOCK_EX) && errno == EINTR) {}
        if (!fstat(fd, &s) && s.st_nlink) return fd;
        close(fd);
    }
    return -1;
}

/* Devices and FIFOs cannot be replaced; they are written to directly. */
static dl_status open_in_place(dl_atomic *a, const struct stat *s) {
    if (S_ISDIR(s->st_mode)) errno = EISDIR;
    if (!S_ISDIR(s->st_mode)) a->fd = open(a->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (a->fd < 0) return dl_fail_file("write", a->path);
    fcntl(a->fd, F_SETFL, fcntl(a->fd, F_GETFL) & ~O_NONBLOCK);
    return DL_OK;
}

static dl_status open_part(dl_atomic *a, const struct stat *old) {
    size_t size = strlen(a->path) + sizeof PREFIX + 48;
    if (!(a->tmp = malloc(size))) return dl_fail(DL_ERR_MEMORY, "no memory for a file name");
    remove_all_left(a->path);
    a->fd = make_part(a->path, a->tmp, size);
    if (a->fd < 0) {
        dl_status st = dl_fail_file("write", a->path);
        free(a->tmp); /* it is not there, or is another's */
        a->tmp = NULL;
        return st;
    }
    if (old && fchmod(a->fd, old->st_mode & 0777)) return dl_fail_file("set the permissions of", a->path);
    return DL_OK;
}

dl_status dl_atomic_open(dl_atomic *a, const char *path) {
    struct stat old;
    *a = (dl_atomic){.fd = -1};
    if (!path || !*path) return dl_fail(DL_ERR_VALUE, "a file needs a name");
    if (!(a->path = resolve(path))) return dl_fail(DL_ERR_MEMORY, "no memory for a file name");
    int there = stat(a->path, &old) == 0;
    dl_status st = there && !S_ISREG(old.st_mode) ? open_in_place(a, &old) : open_part(a, there ? &old : NULL);
    if (st != DL_OK) dl_atomic_discard(a);
    return st;
}

/* Interrupts are checked between pieces of this size. Each goes to the disk while the next one is written: else the
 * sync at the end, which nothing can interrupt, would take long. */
enum { PIECE = 1 << 24 };

static void start_writing(int fd) {
    off_t end = lseek(fd, 0, SEEK_CUR);
    if (end < 2 * PIECE) return;
    sync_file_range(fd, end - PIECE, PIECE, SYNC_FILE_RANGE_WRITE);
    sync_file_range(fd, end - 2 * PIECE, PIECE,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

dl_status dl_atomic_write(dl_atomic *a, const void *data, size_t n) {
    const char *p = data;
    while (n) {
        dl_status stop = dl_interrupt_check();
        if (stop != DL_OK) return dl_atomic_finish(a, stop);
        ssize_t k = write(a->fd, p, n < PIECE ? n : PIECE);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return dl_atomic_finish(a, dl_fail_file("write", a->path));
        p += k, n -= (size_t)k;
        if (k == PIECE) start_writing(a->fd);
    }
    return DL_OK;
}

/* The rename itself must reach the disk: it lives in the folder. */
static dl_status sync_folder(const char *path) {
    int fd = open_folder(path);
    if (fd < 0) return dl_fail_file("open the folder of", path);
    /* some file systems cannot sync a folder and say so by EINVAL; there is nothing more to do there */
    int failed = fsync(fd) != 0 && errno != EINVAL;
    dl_status st = failed ? dl_fail_file("sync the folder of", path) : DL_OK;
    close(fd);
    return st;
}

static __thread struct {
    dl_atomic_fn *fn;
    void *ctx;
} watch;

void dl_atomic_watch(dl_atomic_fn *fn, void *ctx) { watch.fn = fn, watch.ctx = ctx; }

dl_status dl_atomic_commit(dl_atomic *a) {
    dl_status st = DL_OK;
    if (fsync(a->fd) != 0 && errno != EINVAL) st = dl_fail_file("sync", a->path); /* EINVAL: a device or FIFO */
    if (st == DL_OK && a->tmp && watch.fn) watch.fn(watch.ctx, a->tmp, a->path);
    /* renamed while it is locked, so that no other writer takes it for one left behind */
    if (st == DL_OK && a->tmp && rename(a->tmp, a->path) != 0) st = dl_fail_file("rename to", a->path);
    int renamed = st == DL_OK && a->tmp;
    if (renamed) {
        free(a->tmp);
        a->tmp = NULL;
    }
    if (close(a->fd) != 0 && st == DL_OK) st = dl_fail_file("close", a->path);
    a->fd = -1;
    if (st == DL_OK && renamed) st = sync_folder(a->path);
    dl_atomic_discard(a);
    return st;
}

void dl_atomic_discard(dl_atomic *a) {
    if (a->tmp) unlink(a->tmp);
    if (a->fd >= 0) close(a->fd);
    free(a->tmp);
    free(a->path);
    *a = (dl_atomic){.fd = -1};
}

dl_status dl_atomic_finish(dl_atomic *a, dl_status st) {
    if (st == DL_OK) return dl_atomic_commit(a);
    dl_atomic_discard(a);
    return st;
}

dl_status dl_file_write(const char *path, const void *data, unsigned long n) {
    dl_atomic a;
    DL_TRY(dl_atomic_open(&a, path));
    return dl_atomic_finish(&a, dl_atomic_write(&a, data, n));
}
