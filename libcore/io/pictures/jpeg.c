/* JPEG by libjpeg-turbo. Its errors come back by longjmp: what a call owns is in a struct outside of the frames that
 * are left, and released in one place. What it only warns of, and fills up with gray, is an error here. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "core/interrupt.h"
#include "io/atomic.h"
#include "io/pictures/picture.h"

enum { ROOM = 1 << 16, MOST_SCANS = 500, APP_EXIF = JPEG_APP0 + 1, MOST_SIDE = 65500 };

typedef struct jpeg {
    struct jpeg_decompress_struct c; /* the library's structures point to one another: a jpeg is never moved */
    struct jpeg_error_mgr err;
    struct jpeg_source_mgr src;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    dl_status st;
    dl_input_cursor cursor;
    uint8_t room[ROOM];
    uint8_t *row; /* a row of CMYK that becomes RGB or gray; owned */
} jpeg;

/* ---------------------------------------------------------------- what the library calls */

static uint64_t place(const jpeg *j) { return j->cursor.at - j->src.bytes_in_buffer; }

static dl_status damaged(const jpeg *j, const char *what) {
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged, was cut off, or is not a JPEG file", "%s: byte %llu: %s",
                        j->cursor.in->name, (unsigned long long)place(j), what);
}

static void leave(jpeg *j, dl_status st) {
    j->st = st;
    longjmp(j->out, 1);
}

static void on_error(j_common_ptr c) {
    jpeg *j = c->client_data;
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    leave(j, c->err->msg_code == JERR_OUT_OF_MEMORY
                 ? dl_fail(DL_ERR_MEMORY, "%s: no memory to read the picture", j->cursor.in->name)
                 : damaged(j, text));
}

/* Bytes between markers, and versions that the library does not know, leave the pixels whole. */
static void on_message(j_common_ptr c, int level) {
    int code = c->err->msg_code;
    if (level >= 0 || code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM) return;
    on_error(c);
}

static void no_output(j_common_ptr c) { (void)c; }
static void no_source(j_decompress_ptr c) { (void)c; }

static boolean fill(j_decompress_ptr c) {
    jpeg *j = c->client_data;
    uint64_t left = j->cursor.in->size - j->cursor.at;
    size_t n = left < ROOM ? (size_t)left : ROOM;
    if (!n) leave(j, damaged(j, "the file ends here, before the picture does"));
    dl_status st = dl_input_next(&j->cursor, j->room, n);
    if (st != DL_OK) leave(j, st);
    j->src.next_input_byte = j->room, j->src.bytes_in_buffer = n;
    return TRUE;
}

static void skip(j_decompress_ptr c, long n) {
    jpeg *j = c->client_data;
    if (n <= 0) return;
    size_t have = j->src.bytes_in_buffer, want = (size_t)n;
    if (want <= have) {
        j->src.next_input_byte += want, j->src.bytes_in_buffer -= want;
        return;
    }
    want -= have;
    j->src.bytes_in_buffer = 0;
    if (j->cursor.in->size - j->cursor.at < want) leave(j, damaged(j, "a segment goes on behind the end of the file"));
    j->cursor.at += want;
}

/* Between the scans of a progressive file, and its rows. */
static void on_progress(j_common_ptr c) {
    jpeg *j = c->client_data;
    dl_status st = dl_interrupt_check();
    if (st != DL_OK) leave(j, st);
    if (j->c.input_scan_number > MOST_SCANS) leave(j, damaged(j, "there are too many scans"));
}

/* ---------------------------------------------------------------- reading */

static void begin(jpeg *j, const dl_input *in) {
    memset(&j->c, 0, sizeof j->c);
    j->cursor = (dl_input_cursor){in, 0}, j->st = DL_OK, j->row = NULL;
    j->c.err = jpeg_std_error(&j->err);
    j->err.error_exit = on_error, j->err.emit_message = on_message, j->err.output_message = no_output;
    j->c.client_data = j;
    j->src = (struct jpeg_source_mgr){.init_source = no_source,
                                      .fill_input_buffer = fill,
                                      .skip_input_data = skip,
                                      .resync_to_restart = jpeg_resync_to_restart,
                                      .term_source = no_source};
    j->progress = (struct jpeg_progress_mgr){.progress_monitor = on_progress};
}

static void find_turn(const jpeg *j, int *turn) {
    for (const struct jpeg_marker_struct *m = j->c.marker_list; m; m = m->next)
        if (m->marker == APP_EXIF && m->data_length > 6 && !memcmp(m->data, "Exif\0", 6))
            *turn = dl_exif_orientation(m->data + 6, m->data_length - 6);
}

/* What the library is to give: it makes gray and RGB of all but inks. */
static void choose(jpeg *j, dl_picture_mode mode, dl_picture *p) {
    bool inks = j->c.jpeg_color_space == JCS_CMYK || j->c.jpeg_color_space == JCS_YCCK;
    bool gray = mode == DL_PICTURE_GRAY || (mode == DL_PICTURE_UNCHANGED && j->c.num_components == 1);
    j->c.out_color_space = inks ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_RGB;
    p->cmyk = inks && mode == DL_PICTURE_UNCHANGED;
    p->channels = p->cmyk ? 4 : gray ? 1 : 3;
}

/* Inks to light. Files with Adobe's marker hold them inverted, as Pillow and torchvision take them. */
static void put_inks(const jpeg *j, const uint8_t *from, dl_picture *p, uint8_t *to) {
    for (long i = 0; i < p->width; i++, from += 4) {
        int rgb[3];
        for (int k = 0; k < 3; k++) {
            int ink = j->c.saw_Adobe_marker ? from[k] : 255 - from[k];
            int black = j->c.saw_Adobe_marker ? from[3] : 255 - from[3];
            rgb[k] = (ink * black + 127) / 255;
        }
        if (p->channels == 1)
            to[i] = (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
        else
            for (int k = 0; k < 3; k++) to[3 * i + k] = (uint8_t)rgb[k];
    }
}

/* Runs below setjmp: leaves by longjmp on what the library finds. */
static dl_status decode(jpeg *j, const dl_picture_want *want, bool only_size, dl_picture *p, int *turn) {
    jpeg_create_decompress(&j->c);
    j->c.src = &j->src, j->c.progress = &j->progress;
    jpeg_save_markers(&j->c, APP_EXIF, 0xffff);
    jpeg_read_header(&j->c, TRUE);
    find_turn(j, turn);
    p->height = j->c.image_height, p->width = j->c.image_width, p->depth = 8;
    choose(j, want->mode, p);
    if (only_size) return DL_OK;
    DL_TRY(dl_picture_check(j->cursor.in, want, p));
    DL_TRY(dl_picture_room(j->cursor.in, p));
    jpeg_start_decompress(&j->c);
    bool inks = j->c.out_color_space == JCS_CMYK && !p->cmyk;
    if (inks && !(j->row = malloc(4 * (size_t)p->width)))
        return dl_fail(DL_ERR_MEMORY, "%s: no memory to read the picture", j->cursor.in->name);
    while (j->c.output_scanline < j->c.output_height) {
        uint8_t *to = (uint8_t *)p->pixel + j->c.output_scanline * dl_picture_row(p), *row = inks ? j->row : to;
        jpeg_read_scanlines(&j->c, &row, 1);
        if (inks) put_inks(j, row, p, to);
    }
    jpeg_finish_decompress(&j->c);
    return DL_OK;
}

static dl_status guarded(jpeg *j, const dl_picture_want *want, bool only_size, dl_picture *p, int *turn) {
    if (setjmp(j->out)) return j->st;
    return decode(j, want, only_size, p, turn);
}

dl_status dl_jpeg_decode(const dl_input *in, const dl_picture_want *want, bool only_size, dl_picture *p, int *turn) {
    jpeg *j = malloc(sizeof *j);
    if (!j) return dl_fail(DL_ERR_MEMORY, "%s: no memory to read the picture", in->name);
    begin(j, in);
    dl_status st = guarded(j, want, only_size, p, turn);
    jpeg_destroy_decompress(&j->c);
    free(j->row);
    free(j);
    return st;
}

/* ---------------------------------------------------------------- writing */

typedef struct writer {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr err;
    jmp_buf out;
    const char *path;
    unsigned char *bytes; /* the file; allocated by the library */
    unsigned long n;
} writer;

static void on_write_error(j_common_ptr c) {
    writer *w = c->client_data;
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    dl_fail(DL_ERR_VALUE, "'%s' cannot be written: %s", w->path, text);
    longjmp(w->out, 1);
}

static dl_status encode(writer *w, const dl_picture *p, int quality) {
    if (setjmp(w->out)) return dl_failed();
    jpeg_create_compress(&w->c);
    jpeg_mem_dest(&w->c, &w->bytes, &w->n);
    w->c.image_width = (JDIMENSION)p->width, w->c.image_height = (JDIMENSION)p->height;
    w->c.input_components = (int)p->channels;
    w->c.in_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&w->c);
    jpeg_set_quality(&w->c, quality, TRUE);
    jpeg_start_compress(&w->c, TRUE);
    while (w->c.next_scanline < w->c.image_height) {
        uint8_t *row = (uint8_t *)p->pixel + w->c.next_scanline * dl_picture_row(p);
        jpeg_write_scanlines(&w->c, &row, 1);
    }
    jpeg_finish_compress(&w->c);
    return DL_OK;
}

dl_status dl_jpeg_encode(const char *path, const dl_picture *p, int quality) {
    dl_atomic a;
    if (p->channels != 1 && p->channels != 3)
        return dl_fail_hint(DL_ERR_SHAPE, "x[:3] leaves the alpha out; .png keeps it",
                            "'%s': JPEG holds pictures of 1 or 3 channels, not of %ld", path, p->channels);
    if (p->width > MOST_SIDE || p->height > MOST_SIDE)
        return dl_fail(DL_ERR_SHAPE, "'%s': the sides of a JPEG are at most %d pixels", path, MOST_SIDE);
    writer *w = calloc(1, sizeof *w);
    if (!w) return dl_fail(DL_ERR_MEMORY, "no memory to write '%s'", path);
    w->c.err = jpeg_std_error(&w->err);
    w->err.error_exit = on_write_error, w->err.output_message = no_output;
    w->c.client_data = w, w->path = path;
    dl_status st = encode(w, p, quality);
    if (st == DL_OK && (st = dl_atomic_open(&a, path)) == DL_OK) {
        st = dl_atomic_write(&a, w->bytes, w->n);
        st = dl_atomic_finish(&a, st);
    }
    jpeg_destroy_compress(&w->c);
    free(w->bytes);
    free(w);
    return st;
}
