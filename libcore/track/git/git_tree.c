/* The tree of the files in a git index, as they are now. Format: gitformat-index(5), versions 2 to 4. */
#include <errno.h>
#include "core/scope.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/input.h"
#include "track/git/git_index.h"
#include "track/whoami.h"

/* MAX_PATHS: bytes of all paths, which version 4 shortens. LATE_US: after the deadline, when all is given up. */
enum { MAX_INDEX = 1 << 27, MAX_PATHS = 1 << 29, STAT_BYTES = 40, CHUNK = 1 << 16, LATE_US = 3000000 };
/* Flags of an entry: taken as unchanged; a second word of flags follows; stage of a merge conflict; in that word. */
enum { VALID = 0x8000, EXTENDED = 0x4000, SKIP_WORKTREE = 0x4000 };

typedef dl_git_entry entry;
typedef dl_git_index index_file;

static uint32_t big(const uint8_t *p) { return (uint32_t)dl_big_endian(p, 4); }

/* ---------------------------------------------------------------- the index */

/* Version 4 writes each path as a number of bytes cut from the path before, and the rest. Returns the bytes read, 0 on
 * damage. */
static size_t read_path4(const uint8_t *p, size_t n, const char *before, char **path) {
    size_t cut = p[0] & 127, i = 1, had = strlen(before);
    while (p[i - 1] & 128) {
        if (i >= n || cut >> 40) return 0;
        cut = ((cut + 1) << 7) | (p[i++] & 127);
    }
    const uint8_t *end = i < n ? memchr(p + i, 0, n - i) : NULL;
    if (!end || cut > had || had + (size_t)(end - p) > 2 * DL_GIT_PATH) return 0;
    size_t more = (size_t)(end - (p + i));
    if (!(*path = malloc(had - cut + more + 1))) return 0;
    memcpy(*path, before, had - cut);
    memcpy(*path + had - cut, p + i, more + 1);
    return i + more + 1;
}

static size_t read_entry(const index_file *x, int version, const uint8_t *p, size_t n, const char *before, entry *e) {
    size_t at = STAT_BYTES + (size_t)x->r->id_bytes + 2;
    if (n < at + 3) return 0;
    *e = (entry){.ctime_s = big(p),
                 .ctime_ns = big(p + 4),
                 .mtime_s = big(p + 8),
                 .mtime_ns = big(p + 12),
                 .inode = big(p + 20),
                 .mode = big(p + 24),
                 .size = big(p + 36),
                 .flags = (unsigned)dl_big_endian(p + at - 2, 2)};
    memcpy(e->id, p + STAT_BYTES, (size_t)x->r->id_bytes);
    if (e->flags & EXTENDED && version > 2) {
        e->more = (unsigned)dl_big_endian(p + at, 2);
        at += 2;
    }
    if (version == 4) {
        size_t k = read_path4(p + at, n - at, before, &e->path);
        return k ? at + k : 0;
    }
    const uint8_t *end = memchr(p + at, 0, n - at);
    if (!end || !(e->path = strdup((const char *)p + at))) return 0;
    size_t len = (size_t)(end - p);
    return (len & ~(size_t)7) + 8; /* one to eight NULs */
}

void dl_git_index_free(index_file *x) {
    for (long i = 0; i < x->n; i++) free(x->e[i].path);
    free(x->e);
}

/* False for a split index, whose extension "link" names the other half. */
static bool is_whole(const uint8_t *p, size_t n) {
    while (n >= 8) {
        size_t k = big(p + 4);
        if (!memcmp(p, "link", 4)) return false;
        if (k > n - 8) return true;
        p += 8 + k, n -= 8 + k;
    }
    return true;
}

static bool parse(index_file *x, const uint8_t *p, size_t n) {
    size_t tail = (size_t)x->r->id_bytes, at = 12;
    if (n < at + tail || memcmp(p, "DIRC", 4) || big(p + 4) < 2 || big(p + 4) > 4) return false;
    int version = (int)big(p + 4);
    size_t count = big(p + 8);
    if (count > n / (STAT_BYTES + tail + 3) || !(x->e = calloc(count + 1, sizeof *x->e))) return false;
    for (size_t i = 0; i < count; i++) {
        size_t k = read_entry(x, version, p + at, n - tail - at, i ? x->e[i - 1].path : "", &x->e[i]);
        x->n += x->e[i].path != NULL;
        x->paths += x->e[i].path ? strlen(x->e[i].path) : 0;
        if (!k || k > n - tail - at || x->paths > MAX_PATHS) return false;
        at += k;
    }
    return is_whole(p + at, n - tail - at);
}

static bool read_index(index_file *x) {
    char path[DL_GIT_PATH + 8];
    struct stat s;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/index", x->r->dir);
    if (stat(path, &s)) return errno == ENOENT; /* nothing was ever added */
    x->written = s.st_mtim;
    DL_FREED uint8_t *bytes = (uint8_t *)dl_git_slurp(path, MAX_INDEX, &n);
    return bytes && parse(x, bytes, n);
}

/* ---------------------------------------------------------------- files as they are */

static bool is_unchanged(const index_file *x, const entry *e, const struct stat *s, unsigned mode) {
    if (mode != e->mode || (uint32_t)s->st_size != e->size || (uint32_t)s->st_mtim.tv_sec != e->mtime_s) return false;
    if (e->mtime_ns && (uint32_t)s->st_mtim.tv_nsec != e->mtime_ns) return false;
    if (e->ctime_s && (uint32_t)s->st_ctim.tv_sec != e->ctime_s) return false;
    if (e->inode && (uint32_t)s->st_ino != e->inode) return false;
    /* one written at the time of the index may have been changed after it */
    return s->st_mtim.tv_sec < x->written.tv_sec ||
           (s->st_mtim.tv_sec == x->written.tv_sec && s->st_mtim.tv_nsec < x->written.tv_nsec);
}

/* The id of a file that is not read, made of its size and time. */
static void hash_stat(const index_file *x, const struct stat *s, uint8_t *id) {
    int64_t facts[4] = {s->st_size, s->st_mtim.tv_sec, s->st_mtim.tv_nsec, s->st_mode};
    dl_git_hash_of(x->r->id_bytes, "stat", facts, sizeof facts, id);
}

/* False where the file cannot be read, has changed, or is too large; or after the deadline. */
static bool hash_file(const index_file *x, const char *path, const struct stat *s, uint8_t *id) {
    static const int HOW = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    struct stat now;
    dl_git_hash h;
    uint64_t left = (uint64_t)s->st_size;
    uint8_t *chunk = left <= x->r->unread ? malloc(CHUNK) : NULL;
    int fd = chunk ? open(path, HOW) : -1;
    bool good = fd >= 0 && !fstat(fd, &now) && S_ISREG(now.st_mode) && now.st_size == s->st_size;
    if (good) {
        dl_git_hash_begin(&h, x->r->id_bytes, "blob", left);
        x->r->unread -= left;
    }
    while (good && left) {
        ssize_t k = read(fd, chunk, left < CHUNK ? (size_t)left : CHUNK);
        if (k < 0 && errno == EINTR) continue;
        good = k > 0 && dl_now_us() < x->r->deadline_us;
        if (good) dl_git_hash_add(&h, chunk, (size_t)k), left -= (uint64_t)k;
    }
    if (fd >= 0) close(fd);
    free(chunk);
    if (good) dl_git_hash_end(&h, id);
    return good;
}

static bool hash_link(const index_file *x, const char *path, uint8_t *id) {
    char to[DL_GIT_PATH];
    ssize_t n = readlink(path, to, sizeof to);
    if (n >= 0) dl_git_hash_of(x->r->id_bytes, "blob", to, (size_t)n, id);
    return n >= 0;
}

/* Brings one entry up to date. Sockets, FIFOs and devices are never opened. */
static bool refresh(const index_file *x, entry *e) {
    char path[2 * DL_GIT_PATH];
    struct stat s;
    if (e->flags & VALID || e->more & SKIP_WORKTREE || e->mode == DL_GIT_FOLDER) return true;
    bool fits = (size_t)snprintf(path, sizeof path, "%s/%s", x->r->tree, e->path) < sizeof path;
    if (e->mode == DL_GIT_SUBMODULE) { /* one that is not checked out is as it was */
        if (fits) dl_git_head_of(path, x->r->id_bytes, e->id);
        return true;
    }
    if (!fits || lstat(path, &s)) {
        e->gone = true;
        return true;
    }
    unsigned mode = S_ISLNK(s.st_mode)                              ? DL_GIT_LINK
                    : !S_ISREG(s.st_mode)                           ? 0
                    : !x->r->file_mode && e->mode == DL_GIT_PROGRAM ? DL_GIT_PROGRAM
                    : x->r->file_mode && s.st_mode & S_IXUSR        ? DL_GIT_PROGRAM
                                                                    : DL_GIT_PLAIN;
    if (is_unchanged(x, e, &s, mode)) return true;
    e->mode = mode;
    if (mode == DL_GIT_LINK) return hash_link(x, path, e->id);
    if (S_ISDIR(s.st_mode))
        e->gone = true;
    else if (!mode || !hash_file(x, path, &s, e->id))
        hash_stat(x, &s, e->id);
    return true;
}

/* ---------------------------------------------------------------- trees */

typedef struct bytes {
    uint8_t *p;
    size_t n, cap;
    bool failed;
} bytes;

static void add(bytes *b, const void *p, size_t n) {
    if (b->n + n > b->cap) {
        size_t cap = 2 * (b->n + n) + 256;
        uint8_t *more = realloc(b->p, cap);
        if (!more) {
            b->failed = true;
            return;
        }
        b->p = more, b->cap = cap;
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void add_item(bytes *b, unsigned mode, const char *name, size_t len, const uint8_t *id, int id_bytes) {
    char head[16];
    add(b, head, (size_t)snprintf(head, sizeof head, "%o ", mode));
    add(b, name, len);
    add(b, "", 1);
    add(b, id, (size_t)id_bytes);
}

/* Recursion is as deep as paths have folders; `depth` bounds it. */
bool dl_git_index_tree(const index_file *x, long *at, size_t prefix, int depth, uint8_t *id, bool *empty) {
    bytes b = {0};
    bool good = depth < DL_GIT_PATH / 2;
    const char *first = x->n ? x->e[*at].path : "";
    while (good && *at < x->n && !strncmp(x->e[*at].path, first, prefix)) {
        const entry *e = &x->e[*at];
        const char *name = e->path + prefix;
        size_t len = strcspn(name, "/");
        if (name[len] && e->mode != DL_GIT_FOLDER) { /* a sparse index has whole folders: "name/" */
            uint8_t tree[DL_GIT_ID];
            bool none = false;
            good = dl_git_index_tree(x, at, prefix + len + 1, depth + 1, tree, &none);
            if (good && !none) add_item(&b, DL_GIT_FOLDER, name, len, tree, x->r->id_bytes);
            continue;
        }
        if (!e->gone && !(e->flags & DL_GIT_STAGE)) add_item(&b, e->mode, name, len, e->id, x->r->id_bytes);
        ++*at;
    }
    *empty = !b.n;
    good = good && !b.failed;
    if (good) dl_git_hash_of(x->r->id_bytes, "tree", b.n ? (const void *)b.p : "", b.n, id);
    free(b.p);
    return good;
}

bool dl_git_index_read(index_file *x, dl_git_repo *r, uint8_t *tree) {
    *x = (index_file){.r = r};
    long at = 0;
    bool empty, good = read_index(x);
    for (long i = 0; good && i < x->n; i++)
        good = refresh(x, &x->e[i]) && (i % 64 || dl_now_us() < r->deadline_us + LATE_US);
    return good && dl_git_index_tree(x, &at, 0, 0, tree, &empty);
}
