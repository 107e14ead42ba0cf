/* Reading ZIP archives. Format: PKWARE's APPNOTE.TXT, 6.3. */
#include "io/zip.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/interrupt.h"

/* MOST_RATIO: what a byte of deflate can become at most. */
enum { END = 22, END64 = 56, LOCATOR = 20, ENTRY = 46, LOCAL = 30, COMMENT = 65535, MOST_RATIO = 1032 };
enum { MAX_DIRECTORY = 1 << 28, CHUNK = 1 << 16 };

static uint64_t little(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static dl_status bad(const dl_zip *z, const char *what) {
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged or was not copied whole", "%s: %s", z->in->name, what);
}

/* ---------------------------------------------------------------- the directory */

/* Of the directory, as an end record says it: n members in the bytes [at, at + size). The record begins at `end`. */
typedef struct place {
    uint64_t n, at, size, end;
    int disks; /* the numbers of parts that it names, together */
} place;

/* The larger end record, where the smaller one has no room for its numbers. */
static dl_status read_end64(const dl_zip *z, place *p) {
    uint8_t b[END64];
    if (p->end < LOCATOR + END64) return DL_OK;
    DL_TRY(dl_input_read(z->in, p->end - LOCATOR, b, LOCATOR));
    if (memcmp(b, "PK\6\7", 4)) return DL_OK;
    uint64_t at = little(b + 8, 8);
    if (at > p->end - LOCATOR - END64) return bad(z, "the end of the archive is not where it says");
    DL_TRY(dl_input_read(z->in, at, b, END64));
    if (memcmp(b, "PK\6\6", 4)) return bad(z, "the end of the archive is not where it says");
    *p = (place){little(b + 32, 8), little(b + 48, 8), little(b + 40, 8), at,
                 (int)(little(b + 16, 4) | little(b + 20, 4))};
    return DL_OK;
}

/* Whether an end record stands at tail[i] of the file's last n bytes. A comment may follow it, in which the same bytes
 * may stand: a record's comment ends with the file, and its directory ends where the record begins. */
static dl_status try_end(const dl_zip *z, const uint8_t *tail, size_t n, size_t i, place *p, bool *found) {
    const uint8_t *b = tail + i;
    if (memcmp(b, "PK\5\6", 4) || little(b + 20, 2) != n - i - END) return DL_OK;
    int disks = (int)(little(b + 4, 2) | little(b + 6, 2));
    *p = (place){little(b + 10, 2), little(b + 16, 4), little(b + 12, 4), z->in->size - n + i,
                 disks == 0xffff ? 0 : disks};
    DL_TRY(read_end64(z, p));
    *found = p->at <= p->end && p->size == p->end - p->at;
    return DL_OK;
}

static dl_status find_directory(const dl_zip *z, place *p) {
    size_t tail = z->in->size < END + COMMENT ? (size_t)z->in->size : END + COMMENT;
    if (tail < END) return bad(z, "the file is too short for an archive");
    uint8_t *b = malloc(tail);
    if (!b) return dl_fail(DL_ERR_MEMORY, "no memory for the directory of '%s'", z->in->name);
    dl_status st = dl_input_read(z->in, z->in->size - tail, b, tail);
    bool found = false;
    for (size_t i = tail - END + 1; st == DL_OK && !found && i-- > 0;) st = try_end(z, b, tail, i, p, &found);
    free(b);
    if (st != DL_OK) return st;
    if (!found) return bad(z, "the archive has no end that fits the file: it is cut off, or bytes were added");
    if (p->disks) return dl_fail(DL_ERR_UNSUPPORTED, "%s: archives of several parts are not read", z->in->name);
    if (p->size > MAX_DIRECTORY || p->n > p->size / ENTRY)
        return bad(z, "the directory of the archive does not lie within it");
    return DL_OK;
}

/* Numbers that take 64 bits stand in an extra field, in this order, each only where the other is full. */
static void read_extra(const uint8_t *b, size_t n, dl_zip_member *m) {
    uint64_t *wide[] = {&m->size, &m->packed, &m->header};
    for (size_t i = 0; i + 4 <= n; i += 4 + (size_t)little(b + i + 2, 2)) {
        size_t k = (size_t)little(b + i + 2, 2);
        if (little(b + i, 2) != 1 || i + 4 + k > n) continue;
        const uint8_t *p = b + i + 4, *end = p + k;
        for (int w = 0; w < 3; w++)
            if (*wide[w] == 0xffffffff && p + 8 <= end) *wide[w] = little(p, 8), p += 8;
    }
}

static dl_status read_entry(const dl_zip *z, const uint8_t *b, dl_zip_member *m) {
    size_t name = (size_t)little(b + 28, 2);
    *m = (dl_zip_member){.name = malloc(name + 1),
                         .method = (int)little(b + 10, 2),
                         .crc = (uint32_t)little(b + 16, 4),
                         .packed = little(b + 20, 4),
                         .size = little(b + 24, 4),
                         .header = little(b + 42, 4)};
    if (!m->name) return dl_fail(DL_ERR_MEMORY, "no memory for the directory of '%s'", z->in->name);
    memcpy(m->name, b + ENTRY, name);
    m->name[name] = 0;
    read_extra(b + ENTRY + name, (size_t)little(b + 30, 2), m);
    if (little(b + 8, 2) & 1) return dl_fail(DL_ERR_UNSUPPORTED, "%s: '%s' is encrypted", z->in->name, m->name);
    if (m->method != 0 && m->method != 8)
        return dl_fail(DL_ERR_UNSUPPORTED, "%s: '%s' is compressed by method %d; stored and deflated members are read",
                       z->in->name, m->name, m->method);
    return DL_OK;
}

/* From the member's own header, whose name and extra field may differ in length from the directory's. */
static dl_status place_member(const dl_zip *z, dl_zip_member *m) {
    uint8_t b[LOCAL];
    if (m->header > z->in->size || z->in->size - m->header < LOCAL) return bad(z, "a member lies outside the file");
    DL_TRY(dl_input_read(z->in, m->header, b, LOCAL));
    if (memcmp(b, "PK\3\4", 4)) return bad(z, "a member is not where the directory says");
    m->at = m->header + LOCAL + little(b + 26, 2) + little(b + 28, 2);
    if (m->at > z->in->size || m->packed > z->in->size - m->at) return bad(z, "a member lies outside the file");
    if (m->method ? m->size / MOST_RATIO > m->packed : m->size != m->packed)
        return bad(z, "a member claims more bytes than it holds");
    return DL_OK;
}

static int by_place(const void *a, const void *b) {
    const dl_zip_member *x = a, *y = b;
    return (x->header > y->header) - (x->header < y->header);
}

dl_status dl_zip_open(dl_zip *z, const dl_input *in) {
    place p = {0};
    *z = (dl_zip){.in = in};
    DL_TRY(find_directory(z, &p));
    uint8_t *b = malloc((size_t)p.size + 1);
    z->members = calloc((size_t)p.n + 1, sizeof *z->members);
    dl_status st = b && z->members ? dl_input_read(in, p.at, b, (size_t)p.size)
                                   : dl_fail(DL_ERR_MEMORY, "no memory for the directory of '%s'", in->name);
    size_t i = 0;
    while (st == DL_OK && z->n < (long)p.n) {
        size_t left = (size_t)p.size - i;
        size_t n = left < ENTRY ? 0
                                : ENTRY + (size_t)little(b + i + 28, 2) + (size_t)little(b + i + 30, 2) +
                                      (size_t)little(b + i + 32, 2);
        if (!n || n > left || memcmp(b + i, "PK\1\2", 4))
            st = bad(z, "the directory of the archive is damaged");
        else
            st = read_entry(z, b + i, &z->members[z->n++]);
        if (st == DL_OK) st = place_member(z, &z->members[z->n - 1]);
        i += n;
    }
    if (st == DL_OK && i < p.size) st = bad(z, "the directory of the archive has more members than its end says");
    free(b);
    if (st != DL_OK) return st;
    qsort(z->members, (size_t)z->n, sizeof *z->members, by_place);
    for (long i = 1; i < z->n; i++)
        if (z->members[i].header < z->members[i - 1].at + z->members[i - 1].packed)
            return bad(z, "two members of the archive overlap");
    return DL_OK;
}

void dl_zip_close(dl_zip *z) {
    for (long i = 0; i < z->n; i++) free(z->members[i].name);
    free(z->members);
    z->members = NULL;
    z->n = 0;
}

/* ---------------------------------------------------------------- one member */

struct dl_zip_stream {
    const dl_zip *z;
    const dl_zip_member *m;
    uint64_t taken, given; /* packed bytes read, bytes handed out */
    uint32_t crc;
    z_stream inflate;
    uint8_t in[CHUNK];
};

dl_zip_stream *dl_zip_begin(const dl_zip *z, const dl_zip_member *m) {
    dl_zip_stream *s = calloc(1, sizeof *s);
    if (!s || (m->method && inflateInit2(&s->inflate, -MAX_WBITS) != Z_OK)) {
        free(s);
        return dl_fail(DL_ERR_MEMORY, "no memory to read '%s'", z->in->name), NULL;
    }
    s->z = z, s->m = m;
    return s;
}

static dl_status next_packed(dl_zip_stream *s) {
    uint64_t left = s->m->packed - s->taken;
    size_t n = left < CHUNK ? (size_t)left : CHUNK;
    DL_TRY(dl_input_read(s->z->in, s->m->at + s->taken, s->in, n));
    s->taken += n;
    s->inflate.next_in = s->in, s->inflate.avail_in = (unsigned)n;
    return DL_OK;
}

static dl_status unpack(dl_zip_stream *s, uint8_t *to, size_t n) {
    while (n) {
        DL_TRY(dl_interrupt_check());
        if (!s->inflate.avail_in && s->taken < s->m->packed) DL_TRY(next_packed(s));
        unsigned room = n < 1u << 30 ? (unsigned)n : 1u << 30;
        s->inflate.next_out = to, s->inflate.avail_out = room;
        int rc = inflate(&s->inflate, Z_NO_FLUSH);
        unsigned got = room - s->inflate.avail_out;
        to += got, n -= got;
        if ((rc != Z_OK && rc != Z_STREAM_END) || (!got && !s->inflate.avail_in && s->taken == s->m->packed) ||
            (rc == Z_STREAM_END && n))
            return bad(s->z, "a compressed member is damaged");
    }
    return DL_OK;
}

dl_status dl_zip_next(dl_zip_stream *s, void *to, size_t n) {
    if (n > s->m->size - s->given) return bad(s->z, "a member ends too early");
    DL_TRY(s->m->method ? unpack(s, to, n) : dl_input_read(s->z->in, s->m->at + s->given, to, n));
    s->given += n;
    s->crc = (uint32_t)crc32_z(s->crc, to, n);
    return DL_OK;
}

void dl_zip_drop(dl_zip_stream *s) {
    if (!s) return;
    if (s->m->method) inflateEnd(&s->inflate);
    free(s);
}

dl_status dl_zip_end(dl_zip_stream *s) {
    dl_status st = DL_OK;
    if (s->given != s->m->size)
        st = bad(s->z, "a member is longer than what it holds");
    else if (s->crc != s->m->crc)
        st = dl_fail_hint(DL_ERR_FORMAT, "the file is damaged; fetch or write it again",
                          "%s: the checksum of '%s' is wrong", s->z->in->name, s->m->name);
    dl_zip_drop(s);
    return st;
}
