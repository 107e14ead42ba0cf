/* Pictures in terminals: the protocols of kitty and of iTerm2, which take PNG files, and sixel, which libsixel writes.
 */
#include "view/graphics.h"

#include <sixel.h>
#include <spng.h>
#include <stdlib.h>
#include <string.h>

#include "lang/library.h"
#include "lang/session.h"
#include "view/sink.h"

/* ---------------------------------------------------------------- terminals */

dlsh_graphics dlsh_graphics_of_terminal(void) {
    /* value NULL: any */
    static const struct {
        const char *variable, *value;
        dlsh_graphics how;
    } rows[] = {
        {"TMUX", NULL, DLSH_GRAPHICS_BLOCKS}, /* these two pass no pictures on */
        {"STY", NULL, DLSH_GRAPHICS_BLOCKS},
        {"KITTY_WINDOW_ID", NULL, DLSH_GRAPHICS_KITTY},
        {"TERM", "xterm-kitty", DLSH_GRAPHICS_KITTY},
        {"TERM", "xterm-ghostty", DLSH_GRAPHICS_KITTY},
        {"TERM_PROGRAM", "ghostty", DLSH_GRAPHICS_KITTY},
        {"TERM_PROGRAM", "WezTerm", DLSH_GRAPHICS_ITERM},
        {"TERM_PROGRAM", "iTerm.app", DLSH_GRAPHICS_ITERM},
        {"LC_TERMINAL", "iTerm2", DLSH_GRAPHICS_ITERM},
        {"KONSOLE_VERSION", NULL, DLSH_GRAPHICS_SIXEL},
        {"TERM_PROGRAM", "mintty", DLSH_GRAPHICS_SIXEL},
        {"TERM", "foot", DLSH_GRAPHICS_SIXEL},
        {"TERM", "foot-extra", DLSH_GRAPHICS_SIXEL},
        {"TERM", "contour", DLSH_GRAPHICS_SIXEL},
        {"TERM", "mlterm", DLSH_GRAPHICS_SIXEL},
    };
    for (size_t i = 0; i < DLSH_COUNT(rows); i++) {
        const char *value = getenv(rows[i].variable);
        if (value && *value && (!rows[i].value || !strcmp(value, rows[i].value))) return rows[i].how;
    }
    return DLSH_GRAPHICS_BLOCKS;
}

/* ---------------------------------------------------------------- kitty and iTerm2 */

/* In pieces of at most 4096 bytes; q=2: the terminal does not answer. */
static void put_kitty(const dlsh_buf *png, dlsh_buf *out) {
    enum { PIECE = 4096 };
    DLSH_SCOPED_BUF data = {0};
    dlsh_base64(&data, png->s, png->n);
    for (size_t i = 0; i < data.n; i += PIECE) {
        const size_t n = data.n - i < PIECE ? data.n - i : PIECE;
        dlsh_buf_printf(out, "\033_G%sm=%d;", i ? "" : "a=T,f=100,q=2,", i + n < data.n);
        dlsh_buf_add(out, data.s + i, n);
        dlsh_buf_puts(out, "\033\\");
    }
    out->failed |= data.failed;
}

static void put_iterm(const dlsh_buf *png, dlsh_buf *out) {
    dlsh_buf_printf(out, "\033]1337;File=inline=1;size=%zu:", png->n);
    dlsh_base64(out, png->s, png->n);
    dlsh_buf_puts(out, "\a");
}

/* ---------------------------------------------------------------- sixel */

#define LIBRARY "libsixel.so.1"

#define CALLS(X)                                                                                                       \
    X(sixel_output_new)                                                                                                \
    X(sixel_output_unref)                                                                                              \
    X(sixel_dither_new)                                                                                                \
    X(sixel_dither_unref)                                                                                              \
    X(sixel_dither_initialize)                                                                                         \
    X(sixel_encode)

static struct library { CALLS(DLSH_LIBRARY_MEMBER) } sixel;

static dl_status load(void) {
    static const char *const names[] = {CALLS(DLSH_LIBRARY_NAME) NULL};
    static int loaded;
    if (!loaded)
        DLSH_TRY(dlsh_library_open(LIBRARY, "pictures as sixel need", "apt install libsixel1, or set pictures blocks",
                                   names, (void **)&sixel));
    loaded = 1;
    return DL_OK;
}

/* The pixels of a PNG as red, green and blue; what is transparent is black. */
static uint8_t *read_png(const dlsh_buf *png, int *width, int *height) {
    struct spng_ihdr head;
    size_t n = 0;
    uint8_t *pixels = NULL;
    spng_ctx *c = spng_ctx_new(0);
    int ok = c && !spng_set_png_buffer(c, png->s, png->n) && !spng_get_ihdr(c, &head) &&
             !spng_decoded_image_size(c, SPNG_FMT_RGBA8, &n) && (pixels = malloc(n)) &&
             !spng_decode_image(c, pixels, n, SPNG_FMT_RGBA8, 0);
    if (c) spng_ctx_free(c);
    if (!ok) {
        free(pixels);
        return NULL;
    }
    for (size_t i = 0; i < n / 4; i++)
        for (size_t k = 0; k < 3; k++) pixels[3 * i + k] = (uint8_t)(pixels[4 * i + k] * pixels[4 * i + 3] / 255);
    *width = (int)head.width, *height = (int)head.height;
    return pixels;
}

static int write_sixel(char *data, int size, void *out) {
    dlsh_buf_add(out, data, (size_t)size);
    return 0;
}

static dl_status put_sixel(const dlsh_buf *png, dlsh_buf *out) {
    int w = 0, h = 0;
    sixel_output_t *output = NULL;
    sixel_dither_t *dither = NULL;
    DLSH_TRY(load());
    DLSH_FREED uint8_t *pixels = read_png(png, &w, &h);
    int ok = pixels && SIXEL_SUCCEEDED(sixel.sixel_output_new(&output, write_sixel, out, NULL)) &&
             SIXEL_SUCCEEDED(sixel.sixel_dither_new(&dither, SIXEL_PALETTE_MAX, NULL)) &&
             SIXEL_SUCCEEDED(sixel.sixel_dither_initialize(dither, pixels, w, h, SIXEL_PIXELFORMAT_RGB888,
                                                           SIXEL_LARGE_AUTO, SIXEL_REP_AUTO, SIXEL_QUALITY_AUTO)) &&
             SIXEL_SUCCEEDED(sixel.sixel_encode(pixels, w, h, 8, dither, output));
    if (dither) sixel.sixel_dither_unref(dither);
    if (output) sixel.sixel_output_unref(output);
    return ok ? DL_OK : dlsh_no_memory("the picture");
}

dl_status dlsh_graphics_put(dlsh_graphics how, const dlsh_buf *png, dlsh_buf *out) {
    if (how == DLSH_GRAPHICS_KITTY) put_kitty(png, out);
    if (how == DLSH_GRAPHICS_ITERM) put_iterm(png, out);
    if (how == DLSH_GRAPHICS_SIXEL) DLSH_TRY(put_sixel(png, out));
    return out->failed ? dlsh_no_memory("the picture") : DL_OK;
}
