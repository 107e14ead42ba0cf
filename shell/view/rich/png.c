/* PNG: signature, header, one compressed block of unfiltered rows, end; each chunk with its checksum, by zlib. */
#include "view/rich/png.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lang/session.h"

enum { LARGE = 1 << 20 }; /* bytes above which compression is faster and weaker */

static void big_endian(uint8_t *to, size_t v) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void put_chunk(dlsh_buf *b, const char *type, const uint8_t *data, size_t n) {
    uint8_t word[4];
    big_endian(word, n);
    dlsh_buf_add(b, (const char *)word, 4);
    size_t from = b->n;
    dlsh_buf_add(b, type, 4);
    dlsh_buf_add(b, (const char *)data, n);
    if (b->failed) return;
    big_endian(word, crc32(0, (const uint8_t *)b->s + from, (uInt)(n + 4)));
    dlsh_buf_add(b, (const char *)word, 4);
}

dl_status dlsh_png(dlsh_buf *out, const uint8_t *pixels, long width, long height, int channels) {
    static const uint8_t colour_types[] = {0, 0, 4, 2, 6};
    size_t row = (size_t)width * (size_t)channels, size = (row + 1) * (size_t)height;
    uLongf packed = compressBound(size);
    uint8_t head[13] = {0};
    DLSH_FREED uint8_t *raw = malloc(size), *zip = malloc(packed);
    int ok = raw && zip;
    for (long y = 0; ok && y < height; y++) {
        raw[(size_t)y * (row + 1)] = 0; /* no filter */
        memcpy(raw + (size_t)y * (row + 1) + 1, pixels + (size_t)y * row, row);
    }
    if (ok && compress2(zip, &packed, raw, size, size < LARGE ? 9 : 6) != Z_OK) ok = 0;
    if (ok) {
        big_endian(head, (size_t)width), big_endian(head + 4, (size_t)height);
        head[8] = 8, head[9] = colour_types[channels];
        dlsh_buf_add(out, "\x89PNG\r\n\x1a\n", 8);
        put_chunk(out, "IHDR", head, sizeof head);
        put_chunk(out, "IDAT", zip, packed);
        put_chunk(out, "IEND", NULL, 0);
    }
    return ok && !out->failed ? DL_OK : dlsh_no_memory("the picture");
}
