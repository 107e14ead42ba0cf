/* The state of the git work tree around the current folder, read from its files. git itself is not run: the settings of
 * a repository (filters, hooks, diff drivers) would run programs of its author. */
#include "track/git/git_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/gzip.h"
#include "track/whoami.h"

/* READ_BYTES: of changed files; about 0.3 s of hashing. */
enum { TIME_US = 3000000, READ_BYTES = 1 << 28, SMALL_FILE = 1 << 16, PACKED_REFS = 1 << 26, MAX_LINKS = 5 };

char *dl_git_slurp(const char *path, size_t limit, size_t *n) {
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO is not waited for */
    char *text = NULL;
    *n = 0;
    if (fd >= 0 && !fstat(fd, &s) && S_ISREG(s.st_mode) && (uint64_t)s.st_size <= limit)
        text = malloc((size_t)s.st_size + 1);
    while (text && *n < (size_t)s.st_size) {
        ssize_t k = read(fd, text + *n, (size_t)s.st_size - *n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) break;
        *n += (size_t)k;
    }
    if (text) text[*n] = 0;
    if (fd >= 0) close(fd);
    return text;
}

/* The rest of a file's first line after `prefix`, without trailing blanks. False: it does not begin so. */
static bool read_line(const char *path, const char *prefix, char *out, size_t size) {
    size_t n, skip = strlen(prefix);
    char *text = dl_git_slurp(path, SMALL_FILE, &n);
    bool good = text && !strncmp(text, prefix, skip);
    if (good) {
        n = strcspn(text, "\r\n");
        while (n > skip && (text[n - 1] == ' ' || text[n - 1] == '\t')) n--;
        text[n] = 0;
        good = (size_t)snprintf(out, size, "%s", text + skip) < size;
    }
    free(text);
    return good;
}

static bool join(char *out, const char *folder, const char *name) {
    return (size_t)snprintf(out, DL_GIT_PATH, *name == '/' ? "%.0s%s" : "%s/%s", folder, name) < DL_GIT_PATH;
}

bool dl_git_from_hex(const char *hex, int bytes, uint8_t *out) {
    for (int i = 0; i < 2 * bytes; i++) {
        const char *digits = "0123456789abcdef", *d = hex[i] ? strchr(digits, hex[i]) : NULL;
        if (!d) return false;
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | (d - digits));
    }
    return true;
}

/* ---------------------------------------------------------------- hashes */

void dl_git_hash_begin(dl_git_hash *h, int id_bytes, const char *kind, uint64_t size) {
    char head[64];
    int n = snprintf(head, sizeof head, "%s %llu", kind, (unsigned long long)size) + 1;
    h->id_bytes = id_bytes;
    if (id_bytes == SHA_DIGEST_LENGTH)
        SHA1_Init(&h->c.sha1);
    else
        SHA256_Init(&h->c.sha256);
    dl_git_hash_add(h, head, (size_t)n);
}

void dl_git_hash_add(dl_git_hash *h, const void *data, size_t n) {
    if (h->id_bytes == SHA_DIGEST_LENGTH)
        SHA1_Update(&h->c.sha1, data, n);
    else
        SHA256_Update(&h->c.sha256, data, n);
}

void dl_git_hash_end(dl_git_hash *h, uint8_t *id) {
    if (h->id_bytes == SHA_DIGEST_LENGTH)
        SHA1_Final(id, &h->c.sha1);
    else
        SHA256_Final(id, &h->c.sha256);
}

void dl_git_hash_of(int id_bytes, const char *kind, const void *data, size_t n, uint8_t *id) {
    dl_git_hash h;
    dl_git_hash_begin(&h, id_bytes, kind, n);
    dl_git_hash_add(&h, data, n);
    dl_git_hash_end(&h, id);
}

/* ---------------------------------------------------------------- the repository */

/* .git is the folder itself, or, in a second work tree or a submodule, a file that names it. */
static bool open_dir(dl_git_repo *r, const char *at) {
    struct stat s;
    char to[DL_GIT_PATH];
    if (stat(at, &s)) return false;
    if (S_ISDIR(s.st_mode)) {
        if ((size_t)snprintf(r->dir, sizeof r->dir, "%s", at) >= sizeof r->dir) return false;
    } else if (!read_line(at, "gitdir: ", to, sizeof to) || !join(r->dir, r->tree, to)) {
        return false;
    }
    char path[DL_GIT_PATH];
    if (!join(path, r->dir, "HEAD") || access(path, R_OK)) return false;
    if (!join(path, r->dir, "commondir") || !read_line(path, "", to, sizeof to)) strcpy(to, ".");
    return join(r->common, r->dir, to);
}

/* The nearest folder with a .git, from the current one upwards; or what GIT_DIR names. */
static bool find_repo(dl_git_repo *r) {
    const char *dir = getenv("GIT_DIR"), *tree = getenv("GIT_WORK_TREE");
    char at[DL_GIT_PATH];
    if (!getcwd(r->tree, sizeof r->tree)) return false;
    if (dir && *dir) {
        if (!join(at, r->tree, dir)) return false;
        if (tree && *tree && snprintf(r->tree, sizeof r->tree, "%s", tree) >= (int)sizeof r->tree) return false;
        return open_dir(r, at);
    }
    for (;;) {
        if (join(at, r->tree, ".git") && open_dir(r, at)) return true;
        char *slash = strrchr(r->tree, '/');
        if (!slash || !*r->tree) return false;
        *slash = 0;
    }
}

/* Whether the settings of the repository say file_mode = false, as on file systems without that bit. */
static bool keeps_mode(const dl_git_repo *r) {
    char path[DL_GIT_PATH];
    size_t n;
    bool keeps = true;
    char *text = join(path, r->common, "config") ? dl_git_slurp(path, SMALL_FILE, &n) : NULL, *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        line += strspn(line, " \t");
        if (strncasecmp(line, "filemode", 8)) continue;
        char *value = strchr(line, '=');
        keeps = !value || strncasecmp(value + 1 + strspn(value + 1, " \t"), "false", 5);
    }
    free(text);
    return keeps;
}

/* ---------------------------------------------------------------- references */

static bool is_id(const char *s) {
    size_t n = strspn(s, "0123456789abcdef");
    return !s[n] && (n == 40 || n == 64);
}

/* Lines "ID NAME". */
static bool find_packed(const dl_git_repo *r, const char *name, char *out, size_t size) {
    char path[DL_GIT_PATH];
    size_t n, len = strlen(name);
    char *text = join(path, r->common, "packed-refs") ? dl_git_slurp(path, PACKED_REFS, &n) : NULL;
    bool found = false;
    for (char *line = text, *end; line && *line && !found; line = end) {
        end = line + strcspn(line, "\n");
        size_t id = strcspn(line, " \n");
        found =
            line[id] == ' ' && (size_t)(end - line) == id + 1 + len && !memcmp(line + id + 1, name, len) && id < size;
        if (found) snprintf(out, size, "%.*s", (int)id, line);
        end += *end != 0;
    }
    free(text);
    return found && is_id(out);
}

/* Resolves HEAD, through symbolic references. */
static bool find_commit(const dl_git_repo *r, char *out, size_t size) {
    char path[DL_GIT_PATH], text[DL_GIT_PATH], name[DL_GIT_PATH] = "HEAD";
    for (int links = 0; links < MAX_LINKS; links++) {
        bool own = !strcmp(name, "HEAD") || !strncmp(name, "refs/bisect/", 12) || !strncmp(name, "refs/worktree/", 14);
        if (strstr(name, "..") || !join(path, own ? r->dir : r->common, name)) return false;
        if (!read_line(path, "", text, sizeof text)) return find_packed(r, name, out, size);
        if (is_id(text)) return (size_t)snprintf(out, size, "%s", text) < size;
        if (strncmp(text, "ref:", 4)) return false;
        strcpy(name, text + 4 + strspn(text + 4, " \t"));
        if (*name == '/') return false;
    }
    return false;
}

bool dl_git_head_of(const char *tree, int bytes, uint8_t *commit) {
    dl_git_repo *r = calloc(1, sizeof *r);
    char at[DL_GIT_PATH], hex[80];
    bool good = r && (size_t)snprintf(r->tree, sizeof r->tree, "%s", tree) < sizeof r->tree && join(at, tree, ".git") &&
                open_dir(r, at) && find_commit(r, hex, sizeof hex) && strlen(hex) == 2 * (size_t)bytes &&
                dl_git_from_hex(hex, bytes, commit);
    free(r);
    return good;
}

/* ---------------------------------------------------------------- what a run records */

/* The changes as a gzip file, which is the same for the same changes. */
static void pack_diff(const dl_git_objects *f, const dl_git_index *x, const uint8_t *head, dl_git_state *out) {
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (!to) return;
    dl_git_diff(f, x, head, to);
    if (!fclose(to) && n) out->diff = dl_gzip(text, n, &out->ndiff);
    free(text);
}

void dl_git_read_state(dl_git_state *out) {
    dl_git_repo r = {.deadline_us = dl_now_us() + TIME_US, .unread = READ_BYTES};
    uint8_t trees[3][DL_GIT_ID] = {{0}}, *head = trees[0], *now = trees[1], *commit = trees[2];
    *out = (dl_git_state){0};
    if (!find_repo(&r) || !find_commit(&r, out->commit, sizeof out->commit)) {
        out->commit[0] = 0;
        return;
    }
    r.id_bytes = (int)strlen(out->commit) / 2;
    r.file_mode = keeps_mode(&r);
    dl_git_objects *f = dl_git_objects_open(&r);
    dl_git_index x = {0};
    if (!f || !dl_git_from_hex(out->commit, r.id_bytes, commit) || !dl_git_commit_tree(f, commit, head) ||
        !dl_git_index_read(&x, &r, now)) {
        strcpy(out->diff_sha, DL_GIT_UNKNOWN);
    } else if (memcmp(head, now, DL_GIT_ID)) {
        dl_sha256_hex(trees, 2 * DL_GIT_ID, out->diff_sha);
        pack_diff(f, &x, head, out);
    }
    dl_git_index_free(&x);
    dl_git_objects_close(f);
}
