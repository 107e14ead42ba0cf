/* PNG by libspng. Every chunk up to the last is read, so that a file that was cut off anywhere is an error. */
#include <spng.h>
#include <stdlib.h>

#include "core/interrupt.h"
#include "io/atomic.h"
#include "io/pictures/picture.h"

enum { MOST_CHUNK = 1 << 24, MOST_CHUNKS = 1 << 26 }; /* bytes of a chunk beside the pixels, and of all of them */

typedef struct png {
    spng_ctx *ctx;
    dl_input_cursor cursor;
    dl_status st; /* of reading the file */
    struct spng_ihdr head;
    bool alpha; /* pixels have an alpha, or a colour or palette that is transparent */
} png;

static int read_on(spng_ctx *ctx DL_UNUSED, void *user, void *to, size_t n) {
    png *g = user;
    if (g->cursor.in->size - g->cursor.at < n) return SPNG_IO_EOF;
    g->st = dl_input_next(&g->cursor, to, n);
    return g->st == DL_OK ? 0 : SPNG_IO_ERROR;
}

static dl_status failed(const png *g, int code) {
    if (g->st != DL_OK) return g->st;
    if (code == SPNG_EMEM) return dl_fail(DL_ERR_MEMORY, "%s: no memory to read the picture", g->cursor.in->name);
    const char *what = code == SPNG_IO_EOF      ? "the file ends here, before the picture does"
                       : code == SPNG_EOVERFLOW ? "the picture is larger than memory"
                                                : spng_strerror(code);
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged, was cut off, or is not a PNG file", "%s: byte %llu: %s",
                        g->cursor.in->name, (unsigned long long)g->cursor.at, what);
}

static dl_status read_head(png *g) {
    int e = spng_set_png_stream(g->ctx, read_on, g);
    if (!e) e = spng_set_crc_action(g->ctx, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
    if (!e) e = spng_set_chunk_limits(g->ctx, MOST_CHUNK, MOST_CHUNKS);
    if (!e) e = spng_get_ihdr(g->ctx, &g->head);
    return e ? failed(g, e) : DL_OK;
}

/* Whether some pixels are transparent: reads the chunks in front of the pixels. */
static dl_status read_alpha(png *g) {
    struct spng_trns trns;
    int e = spng_get_trns(g->ctx, &trns);
    if (e && e != SPNG_ECHUNKAVAIL) return failed(g, e);
    g->alpha = !e || g->head.color_type & 4;
    return DL_OK;
}

static void read_turn(const png *g, int *turn) {
    struct spng_exif exif;
    if (!spng_get_exif(g->ctx, &exif)) *turn = dl_exif_orientation((const uint8_t *)exif.data, exif.length);
}

/* Deflate makes at most 1032 bytes of one: a small file that promises a large picture does not hold it. */
static dl_status check_promise(const png *g) {
    uint64_t bits = (uint64_t)g->head.width * g->head.bit_depth * (g->head.color_type & 2 ? 3 : 1);
    if (g->head.color_type == SPNG_COLOR_TYPE_INDEXED) bits = (uint64_t)g->head.width * g->head.bit_depth;
    uint64_t bytes = (bits / 8 + 1) * g->head.height;
    if (bytes / 1100 <= g->cursor.in->size) return DL_OK;
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged, was cut off, or was made to fill the memory",
                        "%s: byte 16: a picture of %u x %u pixels does not fit into %llu bytes", g->cursor.in->name,
                        g->head.width, g->head.height, (unsigned long long)g->cursor.in->size);
}

/* All rows into p->pixel; rows of interlaced pictures come several times. */
static dl_status read_rows(png *g, int format, int flags, dl_picture *p) {
    size_t row = dl_picture_row(p);
    struct spng_row_info info;
    int e = spng_decode_image(g->ctx, NULL, 0, format, flags | SPNG_DECODE_PROGRESSIVE);
    for (long k = 0; !e; k++) {
        if (k % 64 == 0) DL_TRY(dl_interrupt_check());
        if ((e = spng_get_row_info(g->ctx, &info))) break;
        e = spng_decode_row(g->ctx, (char *)p->pixel + info.row_num * row, row);
    }
    if (e != SPNG_EOI) return failed(g, e);
    e = spng_decode_chunks(g->ctx);
    return e ? failed(g, e) : DL_OK;
}

/* Keeps `channels` of the four of each pixel: gray is the first, alpha the last. */
static void narrow(dl_picture *p, long channels, bool alpha) {
    long n = p->width * p->height, from[4] = {0, 1, 2, 3};
    uint8_t *bytes = p->pixel;
    uint16_t *words = p->pixel;
    if (alpha) from[channels - 1] = 3;
    for (long i = 0; i < n; i++)
        for (long c = 0; c < channels; c++) {
            if (p->depth == 8)
                bytes[i * channels + c] = bytes[4 * i + from[c]];
            else
                words[i * channels + c] = words[4 * i + from[c]];
        }
    p->channels = channels;
}

static dl_status decode(png *g, const dl_picture_want *want, bool only_size, dl_picture *p, int *turn) {
    DL_TRY(read_head(g));
    bool deep = g->head.bit_depth == 16 && want->mode == DL_PICTURE_UNCHANGED && !want->bytes;
    p->height = g->head.height, p->width = g->head.width, p->channels = 4, p->depth = deep ? 16 : 8;
    if (only_size && !want->upright) return DL_OK;
    DL_TRY(dl_picture_check(g->cursor.in, want, p));
    DL_TRY(read_alpha(g));
    read_turn(g, turn);
    if (only_size) return DL_OK;
    DL_TRY(check_promise(g));
    DL_TRY(dl_picture_room(g->cursor.in, p));
    DL_TRY(read_rows(g, deep ? SPNG_FMT_RGBA16 : SPNG_FMT_RGBA8, SPNG_DECODE_TRNS, p));
    read_turn(g, turn); /* the chunk may stand after the pixels */
    narrow(p, (g->head.color_type & 2 ? 3 : 1) + g->alpha, g->alpha);
    return DL_OK;
}

dl_status dl_png_decode(const dl_input *in, const dl_picture_want *want, bool only_size, dl_picture *p, int *turn) {
    png g = {.ctx = spng_ctx_new(0), .cursor = {in, 0}, .st = DL_OK};
    if (!g.ctx) return dl_fail(DL_ERR_MEMORY, "%s: no memory to read the picture", in->name);
    dl_status st = decode(&g, want, only_size, p, turn);
    spng_ctx_free(g.ctx);
    return st;
}

/* ---------------------------------------------------------------- writing */

/* The whole file in memory. */
static int encode(spng_ctx *ctx, const dl_picture *p, void **bytes, size_t *n) {
    static const uint8_t types[] = {SPNG_COLOR_TYPE_GRAYSCALE, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA,
                                    SPNG_COLOR_TYPE_TRUECOLOR, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
    struct spng_ihdr head = {.width = (uint32_t)p->width,
                             .height = (uint32_t)p->height,
                             .bit_depth = 8,
                             .color_type = types[p->channels - 1]};
    int e = spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1);
    if (!e) e = spng_set_option(ctx, SPNG_IMG_COMPRESSION_LEVEL, 6); /* torchvision's */
    if (!e) e = spng_set_ihdr(ctx, &head);
    if (!e)
        e = spng_encode_image(ctx, p->pixel, dl_picture_row(p) * (size_t)p->height, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    if (!e) *bytes = spng_get_png_buffer(ctx, n, &e);
    return e;
}

dl_status dl_png_encode(const char *path, const dl_picture *p) {
    void *bytes = NULL;
    size_t n = 0;
    dl_atomic a;
    spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
    if (!ctx) return dl_fail(DL_ERR_MEMORY, "no memory to write '%s'", path);
    int e = encode(ctx, p, &bytes, &n);
    spng_ctx_free(ctx);
    dl_status st = !e ? dl_atomic_open(&a, path)
                      : dl_fail(e == SPNG_EMEM ? DL_ERR_MEMORY : DL_ERR_VALUE, "'%s' cannot be written: %s", path,
                                spng_strerror(e));
    if (st == DL_OK) {
        st = dl_atomic_write(&a, bytes, n);
        st = dl_atomic_finish(&a, st);
    }
    free(bytes);
    return st;
}
