/* What differs between a commit and the files of its work tree, in git's form. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "track/git/git_index.h"
#include "track/git/text_diff.h"
#include "track/whoami.h"

/* LARGEST: bytes of a file whose changes are written. TEXT_LOOK: git, too, looks for NULs in so many. */
enum { LARGEST = 4 << 20, TEXT_LOOK = 8000, DEEPEST = 256 };

typedef struct change {
    const char *path;
    unsigned mode[2]; /* before and now; 0: there is none */
    uint8_t *data[2];
    size_t n[2];
} change;

typedef struct diff {
    const dl_git_objects *f;
    const dl_git_index *x;
    FILE *out;
} diff;

/* ---------------------------------------------------------------- one file */

/* "a/PATH", in quotes where it has characters that would end it. */
static void put_path(FILE *out, const char *side, const char *path) {
    int plain = 1;
    for (const char *p = path; *p; p++)
        plain &= (unsigned char)*p >= 32 && (unsigned char)*p < 127 && !strchr("\"\\", *p);
    fprintf(out, "%s%s", plain ? "" : "\"", side);
    for (const char *p = path; *p; p++) {
        if ((unsigned char)*p < 32 || (unsigned char)*p >= 127)
            fprintf(out, "\\%03o", (unsigned char)*p);
        else
            fprintf(out, "%s%c", strchr("\"\\", *p) ? "\\" : "", *p);
    }
    if (!plain) fputc('"', out);
}

static void put_side(FILE *out, const char *sign, const char *side, const change *c, int which) {
    fprintf(out, "%s ", sign);
    if (c->mode[which])
        put_path(out, side, c->path);
    else
        fputs("/dev/null", out);
    /* a path with a blank ends with a tab, so that what follows is not part of it */
    fprintf(out, "%s\n", c->mode[which] && strchr(c->path, ' ') ? "\t" : "");
}

/* Lines of at most 52 bytes of compressed contents: their number as a letter, then base85. */
static void put_literal(FILE *out, const uint8_t *data, size_t n) {
    static const char digits[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    enum { LINE = 52 };
    uLongf size = compressBound(n);
    uint8_t *packed = malloc(size + 4);
    if (!packed || compress(packed, &size, data, n) != Z_OK) size = 0;
    memset(packed ? packed + size : (uint8_t[4]){0}, 0, 4);
    fprintf(out, "literal %zu\n", n);
    for (size_t at = 0; at < size; at += LINE) {
        size_t k = size - at < LINE ? size - at : LINE;
        fputc((int)(k <= 26 ? 'A' + k - 1 : 'a' + k - 27), out);
        for (size_t i = 0; i < k; i += 4) {
            const uint8_t *b = packed + at + i;
            uint32_t word = 0;
            char five[6] = "";
            for (size_t j = 0; j < 4; j++) word = word << 8 | (i + j < k ? b[j] : 0);
            for (int d = 4; d >= 0; d--) five[d] = digits[word % 85], word /= 85;
            fputs(five, out);
        }
        fputc('\n', out);
    }
    fputc('\n', out);
    free(packed);
}

/* git applies contents that are not text only between objects that the line "index" names. */
static void put_binary(const diff *d, const change *c) {
    fputs("index ", d->out);
    for (int k = 0; k < 2; k++) {
        uint8_t id[DL_GIT_ID] = {0};
        if (c->mode[k]) dl_git_hash_of(d->x->r->id_bytes, "blob", c->data[k] ? c->data[k] : (uint8_t *)"", c->n[k], id);
        for (int i = 0; i < d->x->r->id_bytes; i++) fprintf(d->out, "%02x", id[i]);
        fputs(k ? "\n" : "..", d->out);
    }
    fputs("GIT binary patch\n", d->out);
    put_literal(d->out, c->data[1], c->n[1]);
    put_literal(d->out, c->data[0], c->n[0]);
}

static int is_text(const change *c) {
    for (int k = 0; k < 2; k++)
        if (c->data[k] && memchr(c->data[k], 0, c->n[k] < TEXT_LOOK ? c->n[k] : TEXT_LOOK)) return 0;
    return 1;
}

static void put_change(const diff *d, const change *c) {
    fputs("diff --git ", d->out);
    put_path(d->out, "a/", c->path);
    fputc(' ', d->out);
    put_path(d->out, "b/", c->path);
    fputc('\n', d->out);
    if (!c->mode[0])
        fprintf(d->out, "new file mode %06o\n", c->mode[1]);
    else if (!c->mode[1])
        fprintf(d->out, "deleted file mode %06o\n", c->mode[0]);
    else if (c->mode[0] != c->mode[1])
        fprintf(d->out, "old mode %06o\nnew mode %06o\n", c->mode[0], c->mode[1]);
    if (c->n[0] == c->n[1] && (!c->n[0] || !memcmp(c->data[0], c->data[1], c->n[0]))) return;
    if (!is_text(c)) {
        put_binary(d, c);
        return;
    }
    put_side(d->out, "---", "a/", c, 0);
    put_side(d->out, "+++", "b/", c, 1);
    dl_text_diff((const char *)c->data[0], c->n[0], (const char *)c->data[1], c->n[1], d->out);
}

/* The contents of a file as it is now. */
static uint8_t *read_now(const diff *d, const dl_git_entry *e, size_t *n) {
    char path[2 * DL_GIT_PATH];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", d->x->r->tree, e->path) >= sizeof path) return NULL;
    if (e->mode != DL_GIT_LINK) return (uint8_t *)dl_git_slurp(path, LARGEST, n);
    uint8_t *to = malloc(DL_GIT_PATH);
    ssize_t k = to ? readlink(path, (char *)to, DL_GIT_PATH - 1) : -1;
    if (k >= 0) return *n = (size_t)k, to;
    free(to);
    return NULL;
}

static int is_file(unsigned mode) { return mode == DL_GIT_PLAIN || mode == DL_GIT_PROGRAM || mode == DL_GIT_LINK; }

/* A file before (mode 0: there was none) and now (NULL: there is none). */
static void compare_file(const diff *d, const char *path, unsigned mode, const uint8_t *id, const dl_git_entry *now) {
    change c = {.path = path, .mode = {mode, now ? now->mode : 0}};
    int good = dl_now_us() < d->x->r->deadline_us;
    for (int k = 0; k < 2; k++) good &= !c.mode[k] || is_file(c.mode[k]);
    if (good && mode) good = (c.data[0] = dl_git_object(d->f, id, DL_GIT_BLOB, &c.n[0])) != NULL && c.n[0] <= LARGEST;
    if (good && now) good = (c.data[1] = read_now(d, now, &c.n[1])) != NULL;
    /* a link that became a file, or the other way round, is two changes */
    int kinds = mode && now && (mode == DL_GIT_LINK) != (now->mode == DL_GIT_LINK);
    if (good && kinds) {
        put_change(d, &(change){path, {mode, 0}, {c.data[0]}, {c.n[0]}});
        put_change(d, &(change){path, {0, now->mode}, {NULL, c.data[1]}, {0, c.n[1]}});
    } else if (good) {
        put_change(d, &c);
    } else {
        fputs("# not written: ", d->out);
        put_path(d->out, "", path);
        fputc('\n', d->out);
    }
    free(c.data[0]);
    free(c.data[1]);
}

/* ---------------------------------------------------------------- trees */

/* An item of a tree object, "MODE NAME", NUL, id. Returns its bytes; 0: damaged, or the end. */
typedef struct item {
    unsigned mode;
    const char *name;
    const uint8_t *id;
} item;

static size_t read_item(const uint8_t *p, size_t n, int id_bytes, item *out) {
    const uint8_t *end = n ? memchr(p, 0, n) : NULL;
    char *name;
    if (!end || (size_t)(p + n - end) < (size_t)id_bytes + 1) return 0;
    out->mode = (unsigned)strtoul((const char *)p, &name, 8);
    if (*name != ' ') return 0;
    out->name = name + 1;
    out->id = end + 1;
    return (size_t)(end - p) + 1 + (size_t)id_bytes;
}

/* The order of names in trees, which is that of whole paths in the index: a folder's ends with a slash. */
static int order(const char *a, size_t na, bool folder_a, const char *b, size_t nb, bool folder_b) {
    size_t n = na < nb ? na : nb;
    int c = memcmp(a, b, n);
    int x = na > n ? (unsigned char)a[n] : folder_a ? '/' : 0, y = nb > n ? (unsigned char)b[n] : folder_b ? '/' : 0;
    return c ? c : x - y;
}

/* Entries [from, to) of the index, whose paths share `prefix` bytes, against a tree (NULL: there was none). */
static void compare_folder(const diff *d, const uint8_t *id, long from, long to, size_t prefix, int depth);

/* All of a tree that is gone. */
static void remove_item(const diff *d, const char *folder, const item *was, int depth) {
    char path[DL_GIT_PATH];
    if (depth > DEEPEST || (size_t)snprintf(path, sizeof path, "%s%s", folder, was->name) >= sizeof path) return;
    if (was->mode != DL_GIT_FOLDER) {
        compare_file(d, path, was->mode, was->id, NULL);
        return;
    }
    size_t n, k, len = strlen(path);
    uint8_t *tree = dl_git_object(d->f, was->id, DL_GIT_TREE, &n);
    item one;
    if (len + 2 < sizeof path) strcpy(path + len, "/");
    for (size_t at = 0; tree && (k = read_item(tree + at, n - at, d->x->r->id_bytes, &one)); at += k)
        remove_item(d, path, &one, depth + 1);
    free(tree);
}

/* The first entry after `at` that is not in the same folder below `prefix`, whose name has `len` bytes. */
static long end_of_folder(const diff *d, long at, long to, size_t prefix, size_t len) {
    const char *path = d->x->e[at].path;
    long end = at + 1;
    while (end < to && !strncmp(d->x->e[end].path, path, prefix + len + 1)) end++;
    return end;
}

static void compare_folders(const diff *d, const item *was, long at, long end, size_t prefix, int depth) {
    uint8_t now[DL_GIT_ID];
    long i = at;
    bool empty = true;
    if (!dl_git_index_tree(d->x, &i, prefix, 0, now, &empty)) return;
    if (was && !empty && !memcmp(now, was->id, (size_t)d->x->r->id_bytes)) return;
    compare_folder(d, was ? was->id : NULL, at, end, prefix, depth + 1);
}

/* What stands in the index from `at` to `end`, one file or folder, against what the tree had (NULL: nothing). */
static void compare_item(const diff *d, const item *was, long at, long end, size_t prefix, size_t len, bool folder,
                         int depth) {
    const dl_git_entry *e = &d->x->e[at];
    if (e->flags & DL_GIT_STAGE || e->mode == DL_GIT_FOLDER) return; /* a folder of a sparse index is as it was */
    if (folder)
        compare_folders(d, was, at, end, prefix + len + 1, depth);
    else if (was && was->mode == e->mode && !e->gone && !memcmp(was->id, e->id, (size_t)d->x->r->id_bytes))
        return;
    else if (was || !e->gone)
        compare_file(d, e->path, was ? was->mode : 0, was ? was->id : NULL, e->gone ? NULL : e);
}

/* Walks tree and index side by side: both have one order. */
static void merge(const diff *d, const uint8_t *tree, size_t n, long at, long to, size_t prefix, int depth) {
    char folder[DL_GIT_PATH];
    item was;
    size_t place = 0, k = tree ? read_item(tree, n, d->x->r->id_bytes, &was) : 0;
    snprintf(folder, sizeof folder, "%.*s", (int)prefix, at < to ? d->x->e[at].path : "");
    while (at < to || k) {
        const char *name = at < to ? d->x->e[at].path + prefix : "";
        size_t len = strcspn(name, "/");
        bool inside = at < to && name[len] && d->x->e[at].mode != DL_GIT_FOLDER;
        int c = at >= to ? -1
                : !k     ? 1
                         : order(was.name, strlen(was.name), was.mode == DL_GIT_FOLDER, name, len,
                                 inside || d->x->e[at].mode == DL_GIT_FOLDER);
        if (c < 0) {
            remove_item(d, folder, &was, depth);
        } else {
            long end = inside ? end_of_folder(d, at, to, prefix, len) : at + 1;
            compare_item(d, c ? NULL : &was, at, end, prefix, len, inside, depth);
            at = end;
        }
        if (c > 0) continue;
        place += k;
        k = read_item(tree + place, n - place, d->x->r->id_bytes, &was);
    }
}

static void compare_folder(const diff *d, const uint8_t *id, long from, long to, size_t prefix, int depth) {
    size_t n = 0;
    if (depth > DEEPEST || dl_now_us() > d->x->r->deadline_us) return;
    uint8_t *tree = id ? dl_git_object(d->f, id, DL_GIT_TREE, &n) : NULL;
    if (!id || tree)
        merge(d, tree, n, from, to, prefix, depth);
    else
        fputs("# not written: a folder whose tree cannot be read\n", d->out);
    free(tree);
}

void dl_git_diff(const dl_git_objects *f, const dl_git_index *x, const uint8_t *tree, FILE *out) {
    diff d = {f, x, out};
    compare_folder(&d, tree, 0, x->n, 0, 0);
}
