/* Whole texts as gzip files in memory. */
#include "io/gzip.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

/* For zlib: the largest window, with the head and the checksum of gzip. */
enum { GZIP_WINDOW = 15 + 16 };

void *dl_gzip(const void *text, size_t n, size_t *to) {
    z_stream z = {.next_in = (uint8_t *)text, .avail_in = (unsigned)n};
    *to = 0;
    if (n > UINT32_MAX || deflateInit2(&z, 9, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) return NULL;
    size_t room = deflateBound(&z, n);
    uint8_t *out = malloc(room);
    z.next_out = out, z.avail_out = (unsigned)room;
    int rc = out ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
    *to = z.total_out;
    deflateEnd(&z);
    if (rc == Z_STREAM_END) return out;
    free(out);
    return NULL;
}

char *dl_gunzip(const void *data, size_t n, size_t most, size_t *to) {
    z_stream z = {.next_in = (uint8_t *)data, .avail_in = (unsigned)n};
    size_t room = n < most / 8 ? 8 * n + 64 : most;
    char *out = NULL;
    int rc = n > UINT32_MAX ? Z_MEM_ERROR : inflateInit2(&z, GZIP_WINDOW);
    for (*to = 0; rc == Z_OK && *to <= most; room = room > most / 2 ? most : 2 * room) {
        char *more = realloc(out, room + 1);
        if (!more) break;
        out = more;
        z.next_out = (uint8_t *)out + *to, z.avail_out = (unsigned)(room - *to);
        rc = inflate(&z, Z_NO_FLUSH);
        *to = z.total_out;
        if (rc == Z_BUF_ERROR && *to == room && room < most) rc = Z_OK; /* only the room ended */
        if (rc == Z_OK && (room == most || *to < room)) break;
    }
    inflateEnd(&z);
    if (rc == Z_STREAM_END) return out[*to] = 0, out;
    free(out);
    return NULL;
}
