/* Writing ZIP archives of stored members. Sizes and places always stand as 64-bit numbers, so one form serves all. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "io/zip.h"

typedef struct field {
    uint64_t value;
    int bytes;
} field;

static dl_status put(dl_zip_writer *w, const field *f, int n) {
    uint8_t b[128];
    size_t at = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < f[i].bytes; k++) b[at++] = (uint8_t)(f[i].value >> 8 * k);
    w->at += at;
    return dl_atomic_write(w->out, b, at);
}
#define PUT(w, ...) put(w, (const field[]){__VA_ARGS__}, (int)(sizeof((const field[]){__VA_ARGS__}) / sizeof(field)))

static dl_status put_bytes(dl_zip_writer *w, const void *data, size_t n) {
    w->at += n;
    return dl_atomic_write(w->out, data, n);
}

/* VERSION: the first with 64-bit sizes. NAMES: a flag, names are UTF-8. DATE: 1980-01-01, so that equal contents give
 * equal files. */
enum { VERSION = 45, NAMES = 1 << 11, DATE = 1 << 5 | 1, FULL16 = 0xffff };
#define FULL32 0xffffffffu

dl_status dl_zip_add(dl_zip_writer *w, const char *name, const dl_zip_part *parts, int nparts) {
    if (!(w->n & (w->n + 1))) { /* 0, 1, 3, 7, ...: as many again */
        dl_zip_member *more = realloc(w->members, sizeof *more * (size_t)(2 * (w->n + 1)));
        if (!more) return dl_fail(DL_ERR_MEMORY, "no memory for the directory of an archive");
        w->members = more;
    }
    dl_zip_member m = {.name = strdup(name), .header = w->at};
    if (!m.name) return dl_fail(DL_ERR_MEMORY, "no memory for the directory of an archive");
    uLong crc = 0;
    for (int i = 0; i < nparts; i++) crc = crc32_z(crc, parts[i].data, parts[i].n), m.size += parts[i].n;
    m.crc = (uint32_t)crc;
    w->members[w->n++] = m;
    size_t n = strlen(name);
    DL_TRY(PUT(w, {0x04034b50, 4}, {VERSION, 2}, {NAMES, 2}, {0, 2}, {0, 2}, {DATE, 2}, {m.crc, 4}, {FULL32, 4},
               {FULL32, 4}, {n, 2}, {20, 2}));
    DL_TRY(put_bytes(w, name, n));
    DL_TRY(PUT(w, {1, 2}, {16, 2}, {m.size, 8}, {m.size, 8}));
    for (int i = 0; i < nparts; i++) DL_TRY(put_bytes(w, parts[i].data, parts[i].n));
    return DL_OK;
}

dl_status dl_zip_finish(dl_zip_writer *w) {
    uint64_t from = w->at;
    for (long i = 0; i < w->n; i++) {
        const dl_zip_member *m = &w->members[i];
        size_t n = strlen(m->name);
        DL_TRY(PUT(w, {0x02014b50, 4}, {VERSION, 2}, {VERSION, 2}, {NAMES, 2}, {0, 2}, {0, 2}, {DATE, 2}, {m->crc, 4},
                   {FULL32, 4}, {FULL32, 4}, {n, 2}, {28, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 4}, {FULL32, 4}));
        DL_TRY(put_bytes(w, m->name, n));
        DL_TRY(PUT(w, {1, 2}, {24, 2}, {m->size, 8}, {m->size, 8}, {m->header, 8}));
    }
    uint64_t size = w->at - from, end = w->at;
    DL_TRY(PUT(w, {0x06064b50, 4}, {44, 8}, {VERSION, 2}, {VERSION, 2}, {0, 4}, {0, 4}, {(uint64_t)w->n, 8},
               {(uint64_t)w->n, 8}, {size, 8}, {from, 8}));
    DL_TRY(PUT(w, {0x07064b50, 4}, {0, 4}, {end, 8}, {1, 4}));
    return PUT(w, {0x06054b50, 4}, {0, 2}, {0, 2}, {FULL16, 2}, {FULL16, 2}, {FULL32, 4}, {FULL32, 4}, {0, 2});
}

void dl_zip_writer_free(dl_zip_writer *w) {
    for (long i = 0; i < w->n; i++) free(w->members[i].name);
    free(w->members);
}
