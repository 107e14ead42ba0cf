/* Pictures in terminals: the protocols of kitty and of iTerm2, which take PNG files, and sixel, which libsixel writes.
 */
#include "view/graphics.h"

#include <fcntl.h>
#include <poll.h>
#include <sixel.h>
#include <spng.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "lang/library.h"
#include "lang/session.h"
#include "view/sink.h"

/* ---------------------------------------------------------------- terminals: by name, or by what they say */

/* The attributes of a terminal in its answer to the question of what it is: ESC [ ? N ; N ... c. Is one of them
 * `wanted`? -1: the answer is not there yet. */
static int has_attribute(const char *answer, int wanted) {
    const char *at = strstr(answer, "\033[?");
    if (!at || !strchr(at, 'c')) return -1;
    for (at += 3; *at != 'c'; at++) {
        char *end;
        if (strtol(at, &end, 10) == wanted && end > at) return 1;
        at = end;
        if (*at != ';') break;
    }
    return 0;
}

/* Asks the terminal, which then sends its answer as if it were typed. Returns 0 where now is no time to ask: what was
 * typed before would be read as well. */
static int ask(int tty, int *shows) {
    enum { SIXEL = 4, WAIT_MS = 1000 };
    static const char question[] = "\033[c";
    struct pollfd typed = {.fd = tty, .events = POLLIN};
    struct termios before, raw;
    char answer[256] = "";
    size_t n = 0;
    if (tcgetpgrp(tty) != getpgrp() || tcgetattr(tty, &before) || poll(&typed, 1, 0)) return 0;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1, raw.c_cc[VTIME] = 0;
    if (tcsetattr(tty, TCSADRAIN, &raw)) return 0;
    int found = write(tty, question, strlen(question)) > 0 ? -1 : 0;
    while (found < 0 && n < sizeof answer - 1 && poll(&typed, 1, WAIT_MS) > 0 && read(tty, answer + n, 1) == 1)
        answer[++n] = 0, found = has_attribute(answer, SIXEL);
    tcsetattr(tty, TCSADRAIN, &before);
    *shows = found > 0;
    return 1;
}

static int ask_for_sixel(int *shows) {
    const int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (tty < 0) return 0;
    fflush(stdout);
    const int done = ask(tty, shows);
    close(tty);
    return done;
}

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
    };
    static int asked, shows;
    for (size_t i = 0; i < DLSH_COUNT(rows); i++) {
        const char *value = getenv(rows[i].variable);
        if (value && *value && (!rows[i].value || !strcmp(value, rows[i].value))) return rows[i].how;
    }
    if (!asked) asked = ask_for_sixel(&shows);
    return shows ? DLSH_GRAPHICS_SIXEL : DLSH_GRAPHICS_BLOCKS;
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
