/* Objects of a git repository: loose ones and those in packs. Formats: gitformat-pack(5). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "io/input.h"
#include "track/git/git.h"
#include "track/whoami.h"

/* MAX_OBJECT: bytes of an object that is read. DEPTH: deltas upon deltas, as git packs them at most. */
enum { MAX_OBJECT = 1 << 24, MAX_FILE = 1 << 24, DEPTH = 64, MAX_FOLDERS = 16 };
enum { OFS_DELTA = 6, REF_DELTA = 7 };

typedef struct object {
    dl_git_kind kind;
    uint8_t *data;
    size_t n;
} object;

struct dl_git_objects { /* folders of objects: the repository's, and those it borrows from */
    const dl_git_repo *r;
    char path[MAX_FOLDERS][DL_GIT_PATH];
    int n;
};
typedef struct dl_git_objects folders;

/* Unpacks n bytes at most from a stream in memory; the bytes there are, 0 on damage. */
static size_t unpack(const uint8_t *in, size_t nin, uint8_t *out, size_t n) {
    z_stream z = {.next_in = (uint8_t *)in, .avail_in = (unsigned)nin, .next_out = out, .avail_out = (unsigned)n};
    if (inflateInit(&z) != Z_OK) return 0;
    int rc = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return rc == Z_STREAM_END || rc == Z_BUF_ERROR || rc == Z_OK ? n - z.avail_out : 0;
}

/* ---------------------------------------------------------------- loose objects */

static const char *const kind_names[] = {"", "commit", "tree", "blob"};

/* "commit 123", NUL, the bytes. */
static bool read_loose(const char *folder, const char *hex, object *o) {
    char path[DL_GIT_PATH + 80], head[64] = "", kind[8] = "";
    size_t n, size = 0;
    snprintf(path, sizeof path, "%s/%.2s/%s", folder, hex, hex + 2);
    uint8_t *packed = (uint8_t *)dl_git_slurp(path, MAX_FILE, &n);
    size_t got = packed ? unpack(packed, n, (uint8_t *)head, sizeof head - 1) : 0, text = strlen(head) + 1;
    bool good = got > text - 1 && sscanf(head, "%7s %zu", kind, &size) == 2 && size < MAX_OBJECT;
    for (int k = DL_GIT_COMMIT; k <= DL_GIT_BLOB; k++)
        if (!strcmp(kind, kind_names[k])) o->kind = (dl_git_kind)k;
    uint8_t *all = good ? malloc(text + size) : NULL;
    good = all && unpack(packed, n, all, text + size) == text + size;
    o->data = good ? malloc(size + 1) : NULL;
    if (o->data) {
        memcpy(o->data, all + text, size);
        o->n = size;
    }
    free(all);
    free(packed);
    return o->data != NULL;
}

/* ---------------------------------------------------------------- packs */

/* A number of a delta: seven bits a byte, the lowest first. */
static bool delta_size(const uint8_t **p, const uint8_t *end, size_t *v) {
    *v = 0;
    for (int shift = 0; *p < end && shift < 63; shift += 7) {
        uint8_t c = *(*p)++;
        *v |= (size_t)(c & 127) << shift;
        if (!(c & 128)) return true;
    }
    return false;
}

static bool copy_range(const uint8_t **p, const uint8_t *end, uint8_t op, size_t *from, size_t *n) {
    *from = *n = 0;
    for (int i = 0; i < 7; i++) {
        if (!(op & 1 << i)) continue;
        if (*p >= end) return false;
        *(i < 4 ? from : n) |= (size_t) * (*p)++ << 8 * (i < 4 ? i : i - 4);
    }
    if (!*n) *n = 1 << 16;
    return true;
}

static bool apply_delta(const object *base, const uint8_t *p, size_t n, object *out) {
    const uint8_t *end = p + n;
    size_t have, want, at = 0, from, k;
    if (!delta_size(&p, end, &have) || !delta_size(&p, end, &want) || have != base->n || want > MAX_OBJECT)
        return false;
    if (!(out->data = malloc(want + 1))) return false;
    while (p < end) {
        uint8_t op = *p++;
        const uint8_t *source = p;
        if (op & 128) {
            if (!copy_range(&p, end, op, &from, &k) || from > have || k > have - from) break;
            source = base->data + from;
        } else {
            k = op;
            if (!k || k > (size_t)(end - p)) break;
            p += k;
        }
        if (k > want - at) break;
        memcpy(out->data + at, source, k);
        at += k;
    }
    out->n = at;
    if (p == end && at == want) return true;
    free(out->data);
    out->data = NULL;
    return false;
}

static bool read_object(const folders *f, const uint8_t *id, int depth, object *o);

typedef struct pack {
    const folders *folders;
    dl_input in;
} pack;

static bool read_at(const pack *p, uint64_t at, int depth, object *o);

/* The base of a delta at `at`, whose own bytes begin *head bytes behind it. */
static bool read_base(const pack *p, uint64_t at, int type, const uint8_t *b, size_t nb, size_t *head, int depth,
                      object *base) {
    size_t i = *head;
    if (type == REF_DELTA) {
        *head += (size_t)p->folders->r->id_bytes;
        return *head <= nb && read_object(p->folders, b + i, depth + 1, base);
    }
    uint64_t back = b[i] & 127;
    while (b[i] & 128) {
        if (++i >= nb || back >> 56) return false;
        back = ((back + 1) << 7) | (b[i] & 127);
    }
    *head = i + 1;
    return back && back <= at && read_at(p, at - back, depth + 1, base);
}

static bool unpack_at(const pack *p, uint64_t at, size_t size, object *o) {
    /* incompressible data grows by a few bytes */
    size_t room = size + size / 1000 + 1024, n = p->in.size - at < room ? (size_t)(p->in.size - at) : room;
    uint8_t *packed = malloc(n);
    o->data = malloc(size + 1);
    o->n = size;
    bool good =
        packed && o->data && dl_input_read(&p->in, at, packed, n) == DL_OK && unpack(packed, n, o->data, size) == size;
    free(packed);
    if (good) return true;
    free(o->data);
    o->data = NULL;
    return false;
}

static bool read_at(const pack *p, uint64_t at, int depth, object *o) {
    uint8_t b[64];
    size_t nb = p->in.size > at && p->in.size - at < sizeof b ? (size_t)(p->in.size - at) : sizeof b, i = 0;
    if (depth > DEPTH || at >= p->in.size || dl_input_read(&p->in, at, b, nb) != DL_OK) return false;
    int type = b[0] >> 4 & 7, shift = 4;
    size_t size = b[0] & 15;
    while (b[i++] & 128) {
        if (i >= nb || shift > 50) return false;
        size |= (size_t)(b[i] & 127) << shift;
        shift += 7;
    }
    if (size > MAX_OBJECT || i >= nb) return false;
    if (type >= DL_GIT_COMMIT && type <= DL_GIT_BLOB) {
        o->kind = (dl_git_kind)type;
        return unpack_at(p, at + i, size, o);
    }
    if (type != OFS_DELTA && type != REF_DELTA) return false;
    object base = {0}, delta = {0};
    bool good = read_base(p, at, type, b, nb, &i, depth, &base) && unpack_at(p, at + i, size, &delta) &&
                apply_delta(&base, delta.data, delta.n, o);
    o->kind = base.kind;
    free(base.data);
    free(delta.data);
    return good;
}

/* Where the index of a pack (version 2) has the object: a table by the first byte, sorted names, checksums, places. */
static bool find_place(const dl_input *idx, const uint8_t *id, int bytes, uint64_t *at) {
    uint8_t b[DL_GIT_ID];
    uint32_t counts[2];
    if (dl_input_read(idx, 0, b, 8) != DL_OK || memcmp(b, "\377tOc\0\0\0\2", 8)) return false;
    for (int i = 0; i < 2; i++) {
        counts[i] = 0;
        if (!i && !*id) continue;
        if (dl_input_read(idx, 8 + 4 * ((uint64_t)*id - !i), b, 4) != DL_OK) return false;
        counts[i] = (uint32_t)dl_big_endian(b, 4);
    }
    if (dl_input_read(idx, 8 + 4 * 255, b, 4) != DL_OK) return false;
    uint64_t n = dl_big_endian(b, 4), names = 8 + 4 * 256, low = counts[0], high = counts[1];
    if (high > n) return false;
    while (low < high) {
        uint64_t mid = (low + high) / 2;
        if (dl_input_read(idx, names + mid * (uint64_t)bytes, b, (size_t)bytes) != DL_OK) return false;
        int order = memcmp(b, id, (size_t)bytes);
        if (!order) {
            uint64_t places = names + n * (uint64_t)(bytes + 4);
            if (dl_input_read(idx, places + 4 * mid, b, 4) != DL_OK) return false;
            *at = dl_big_endian(b, 4);
            if (!(*at >> 31)) return true;
            bool good = dl_input_read(idx, places + 4 * n + 8 * (*at & 0x7fffffff), b, 8) == DL_OK;
            *at = dl_big_endian(b, 8);
            return good;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

static bool read_from_pack(const folders *f, const char *path, const uint8_t *id, int depth, object *o) {
    char name[DL_GIT_PATH + 300];
    dl_input idx;
    uint64_t at = 0;
    if (dl_input_open(&idx, path) != DL_OK) return false;
    bool found = find_place(&idx, id, f->r->id_bytes, &at);
    dl_input_close(&idx);
    if (!found) return false;
    snprintf(name, sizeof name, "%.*s.pack", (int)(strlen(path) - 4), path);
    pack p = {.folders = f};
    if (dl_input_open(&p.in, name) != DL_OK) return false;
    bool good = read_at(&p, at, depth, o);
    dl_input_close(&p.in);
    return good;
}

static bool read_packed(const folders *f, const char *folder, const uint8_t *id, int depth, object *o) {
    char path[DL_GIT_PATH + 300];
    bool good = false;
    snprintf(path, sizeof path, "%s/pack", folder);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && !good && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        if (n < 5 || strcmp(e->d_name + n - 4, ".idx")) continue;
        snprintf(path, sizeof path, "%s/pack/%s", folder, e->d_name);
        good = read_from_pack(f, path, id, depth, o);
    }
    if (dir) closedir(dir);
    return good;
}

static bool read_object(const folders *f, const uint8_t *id, int depth, object *o) {
    char hex[2 * DL_GIT_ID + 1];
    /* cyclic deltas over several packs would take exponential time */
    if (depth > DEPTH || dl_now_us() > f->r->deadline_us) return false;
    for (int i = 0; i < f->r->id_bytes; i++) snprintf(hex + 2 * i, 3, "%02x", id[i]);
    for (int i = 0; i < f->n; i++)
        if (read_loose(f->path[i], hex, o) || read_packed(f, f->path[i], id, depth, o)) return true;
    return false;
}

/* ---------------------------------------------------------------- commits */

/* The object folders of a repository and of its alternates, recursively. */
static void find_folders(folders *f) {
    f->n = snprintf(f->path[0], DL_GIT_PATH, "%s/objects", f->r->common) < DL_GIT_PATH;
    for (int i = 0; i < f->n; i++) {
        char path[DL_GIT_PATH + 32];
        size_t n;
        snprintf(path, sizeof path, "%s/info/alternates", f->path[i]);
        char *text = dl_git_slurp(path, 1 << 16, &n), *rest = NULL;
        for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line && f->n < MAX_FOLDERS;
             line = strtok_r(NULL, "\n", &rest)) {
            snprintf(path, sizeof path, "%.2000s/", *line == '/' ? "" : f->path[i]);
            int len = snprintf(f->path[f->n], DL_GIT_PATH, "%s%s", *line == '/' ? "" : path, line);
            if (*line && *line != '#' && len < DL_GIT_PATH) f->n++;
        }
        free(text);
    }
}

dl_git_objects *dl_git_objects_open(const dl_git_repo *r) {
    folders *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->r = r;
    find_folders(f);
    return f;
}

void dl_git_objects_close(dl_git_objects *f) { free(f); }

uint8_t *dl_git_object(const dl_git_objects *f, const uint8_t *id, dl_git_kind kind, size_t *n) {
    object o = {.kind = DL_GIT_NOTHING};
    bool good = read_object(f, id, 0, &o) && o.kind == kind;
    dl_error_clear(); /* of files that are not there */
    *n = o.n;
    if (good) return o.data;
    free(o.data);
    return NULL;
}

bool dl_git_commit_tree(const dl_git_objects *f, const uint8_t *commit, uint8_t *tree) {
    size_t n;
    uint8_t *text = dl_git_object(f, commit, DL_GIT_COMMIT, &n);
    bool good = text && n >= 5 + 2 * (size_t)f->r->id_bytes && !memcmp(text, "tree ", 5) &&
                dl_git_from_hex((const char *)text + 5, f->r->id_bytes, tree);
    free(text);
    return good;
}
