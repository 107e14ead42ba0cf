/* Standard output and standard error as a sink, in the three modes. */
#include "view/console.h"

#include <errno.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "lang/session.h"
#include "view/graphics.h"
#include "view/plain.h"
#include "view/rich/plot.h"
#include "view/progress.h"

dlsh_view_options dlsh_view;

enum { LONG_TEXT = 1 << 16 };

static struct {
    dlsh_sink sink;
    dlsh_meter meter;
    int line_open; /* JSON mode: text without its newline yet */
    dlsh_buf line;
} console;

/* ---------------------------------------------------------------- what the output can do */

static int smart(FILE *f) {
    const char *term = getenv("TERM");
    return isatty(fileno(f)) && term && *term && strcmp(term, "dumb");
}

int dlsh_console_live(void) { return smart(stdout); }

static int coloured(FILE *f) {
    const char *no = getenv("NO_COLOR");
    if (dlsh_view.colour != DLSH_AUTO) return dlsh_view.colour == DLSH_ON;
    return smart(f) && !(no && *no);
}

static int columns(void) {
    struct winsize w;
    if (!isatty(STDOUT_FILENO)) return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

static dlsh_graphics graphics(void) {
    if (dlsh_view.mode != DLSH_MODE_TABLE) return DLSH_GRAPHICS_BLOCKS;
    if (dlsh_view.pictures != DLSH_GRAPHICS_AUTO) return (dlsh_graphics)dlsh_view.pictures;
    return smart(stdout) ? dlsh_graphics_of_terminal() : DLSH_GRAPHICS_BLOCKS;
}

static int console_pictures(DLSH_UNUSED dlsh_sink *s) { return graphics() != DLSH_GRAPHICS_BLOCKS; }

static int pixels(void) {
    struct winsize w;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 ? w.ws_xpixel : 0;
}

static void console_look(DLSH_UNUSED dlsh_sink *s, dlsh_look *out) {
    *out = (dlsh_look){.mode = dlsh_view.mode,
                       .width = columns(),
                       .colour = coloured(stdout),
                       .live = smart(stdout),
                       .unicode = !strcmp(nl_langinfo(CODESET), "UTF-8"),
                       .pixels = pixels()};
}

/* ---------------------------------------------------------------- text, values, tables */

void dlsh_console_end_line(void) {
    if (console.meter.open) fputs("\n", stdout);
    console.meter.open = 0;
    if (console.line_open) {
        /* what was printed without a newline is a line of JSON all the same */
        console.line_open = 0;
        console.sink.ops->text(&console.sink, "\n", 1);
    }
}

/* Long text goes out piece by piece, so that Ctrl-C ends it; the rest is dropped, and a line that was begun ends. */
static void write_long(const char *s, size_t n) {
    size_t done = 0;
    if (fflush(stdout)) return;
    while (done < n && !dlsh_interrupted()) {
        ssize_t k = write(STDOUT_FILENO, s + done, n - done < LONG_TEXT ? n - done : LONG_TEXT);
        if (k < 0 && errno != EINTR) break;
        if (k > 0) done += (size_t)k;
    }
    if (done == n) return;
    if (!dlsh_interrupted())
        fwrite(s + done, 1, n - done, stdout); /* which finds the same error, and keeps it */
    else if (done && s[done - 1] != '\n')
        fputs("\n", stdout);
}

static void write_out(const char *s, size_t n) {
    dl_run_output(s, (long)n);
    if (console.meter.open) dlsh_console_end_line();
    if (n > LONG_TEXT)
        write_long(s, n);
    else
        fwrite(s, 1, n, stdout);
}

/* Text in JSON mode: every line is a string. */
static void json_text(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] != '\n') {
            dlsh_buf_add(&console.line, s + i, 1);
            console.line_open = 1;
            continue;
        }
        console.line_open = 0;
        DLSH_SCOPED_BUF out = {0};
        DLSH_DROPPED dlsh_value v = dlsh_string_n(dlsh_buf_text(&console.line), console.line.n);
        if (!dlsh_failed(v) && !dlsh_json(&out, v)) {
            dlsh_buf_puts(&out, "\n");
            write_out(out.s, out.n);
        }
        console.line.n = 0;
    }
}

static void console_text(DLSH_UNUSED dlsh_sink *s, const char *bytes, size_t n) {
    if (dlsh_view.mode == DLSH_MODE_JSON)
        json_text(bytes, n);
    else
        write_out(bytes, n);
}

static void console_complain(DLSH_UNUSED dlsh_sink *s, const char *bytes, size_t n) {
    dlsh_console_end_line();
    fflush(stdout);
    fwrite(bytes, 1, n, stderr);
}

void dlsh_console_say(const char *fmt, ...) {
    DLSH_SCOPED_BUF b = {0};
    DLSH_FORMATTED(fmt, dlsh_buf_vprintf_visible(&b, fmt, ap));
    fprintf(stderr, "dlsh: %s\n", dlsh_buf_text(&b));
}

/* Writes b unless making it failed with `status`; frees it. */
static dl_status flush_buf(dlsh_buf *b, dl_status status) {
    if (!status) {
        dlsh_console_end_line();
        write_out(dlsh_buf_text(b), b->n);
        if (b->n > LONG_TEXT) status = dlsh_check_interrupt();
    }
    dlsh_buf_free(b);
    return status;
}

/* CSV is exact for programs; at a terminal it is looked at. */
static dl_status flush_data(dlsh_buf *b, const dlsh_look *look, dl_status status) {
    if (look->mode != DLSH_MODE_CSV || !isatty(STDOUT_FILENO)) return flush_buf(b, status);
    dlsh_buf seen = {0};
    dlsh_buf_visible(&seen, dlsh_buf_text(b), b->n);
    dlsh_buf_free(b);
    return flush_buf(&seen, status);
}

static dl_status console_value(dlsh_sink *s, dlsh_value v) {
    dlsh_look look = dlsh_sink_look(s);
    dlsh_buf b = {0};
    return flush_data(&b, &look, dlsh_plain_value(&b, v, &look));
}

static dl_status console_table(dlsh_sink *s, const dlsh_table *t) {
    dlsh_look look = dlsh_sink_look(s);
    dlsh_buf b = {0};
    return flush_data(&b, &look, dlsh_plain_table(&b, t, &look));
}

/* A Ctrl-C that comes while it is written ends the write, and is not to lose the rest. */
static void write_error(const char *s, size_t n) {
    fflush(stderr);
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(STDERR_FILENO, s + done, n - done);
        if (k < 0 && errno != EINTR) return;
        if (k > 0) done += (size_t)k;
    }
}

static void console_error(DLSH_UNUSED dlsh_sink *s, const dlsh_diag *d) {
    dlsh_console_end_line();
    fflush(stdout);
    DLSH_SCOPED_BUF b = {0};
    dlsh_plain_error(&b, d, coloured(stderr));
    write_error(dlsh_buf_text(&b), b.n);
}

/* ---------------------------------------------------------------- progress and plots */

static dl_status json_progress(const dlsh_progress *p) {
    DLSH_DROPPED dlsh_value r = DLSH_RECORD_OF({"progress", dlsh_string(p->label ? p->label : "")},
                                               {"at", dlsh_int(p->at)}, {"total", dlsh_int(p->total)});
    for (int i = 0; i < p->nmetrics; i++)
        DLSH_TRY(dlsh_record_fill(r, &(dlsh_entry){p->names[i], dlsh_float(p->values[i])}, 1));
    return dlsh_failed(r) ? dl_failed() : console_value(&console.sink, r);
}

static void console_progress(dlsh_sink *s, const dlsh_progress *p) {
    dlsh_look look = dlsh_sink_look(s);
    if (dlsh_view.progress == DLSH_OFF) return;
    if (p->stopped) {
        console.meter.started = console.meter.job_started = 0;
        return; /* the error says it below the line */
    }
    if (look.mode == DLSH_MODE_JSON) {
        if (p->done) json_progress(p);
        return;
    }
    if (look.mode == DLSH_MODE_CSV) return;
    if (dlsh_view.progress == DLSH_ON) look.live = isatty(STDOUT_FILENO);
    DLSH_SCOPED_BUF b = {0};
    dlsh_meter_draw(&console.meter, p, &look, &b);
    fwrite(dlsh_buf_text(&b), 1, b.n, stdout);
    if (!look.live) dl_run_output(dlsh_buf_text(&b), (long)b.n);
    if (b.n) fflush(stdout);
}

static dl_status console_plot(dlsh_sink *s, const dlsh_plot *p) {
    dlsh_look look = dlsh_sink_look(s);
    dlsh_buf b = {0};
    return flush_buf(&b, dlsh_plot_draw(p, &look, &b));
}

/* The picture, and below it what it is; the run's record of the output has the latter alone. Where nobody asked for a
 * protocol and its library is missing, the text is shown, and what is missing. */
static dl_status show_picture(dlsh_sink *s, const dlsh_bundle *b) {
    DLSH_SCOPED_BUF out = {0};
    dl_status st = dlsh_graphics_put(graphics(), &b->form[DLSH_PNG], &out);
    if (st == DL_ERR_UNSUPPORTED && dlsh_view.pictures == DLSH_GRAPHICS_AUTO) {
        const dl_error *e = dl_error_last();
        console_text(s, b->text.s, b->text.n);
        dlsh_put(s, "%s (%s)\n", e->message, e->hint);
        dl_error_clear();
        return DL_OK;
    }
    DLSH_TRY(st);
    dlsh_console_end_line();
    fwrite(dlsh_buf_text(&out), 1, out.n, stdout);
    fputs("\n", stdout);
    if (b->alt.n) dlsh_put(s, "%s\n", b->alt.s);
    return DL_OK;
}

/* A terminal shows the picture or the text, of a display that changes the first one. */
static dl_status console_display(dlsh_sink *s, const dlsh_bundle *b) {
    if (!b->update && b->form[DLSH_PNG].n && graphics() != DLSH_GRAPHICS_BLOCKS) return show_picture(s, b);
    if (!b->update && b->text.n) console_text(s, b->text.s, b->text.n);
    return DL_OK;
}

static void console_clear(DLSH_UNUSED dlsh_sink *s, DLSH_UNUSED int wait) {
    if (!smart(stdout) || dlsh_view.mode != DLSH_MODE_TABLE) return;
    dlsh_console_end_line();
    fputs("\033[H\033[2J\033[3J", stdout);
    fflush(stdout);
}

/* Echo of the terminal off and on again; does nothing elsewhere. */
static void echo(int on) {
    struct termios t;
    if (tcgetattr(STDIN_FILENO, &t)) return;
    t.c_lflag = on ? t.c_lflag | ECHO : t.c_lflag & ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &t);
}

dl_status (*dlsh_console_ask)(const char *question, dlsh_buf *out);

static dl_status console_input(DLSH_UNUSED dlsh_sink *s, const char *prompt, int secret, dlsh_buf *out) {
    dlsh_console_end_line();
    if (!secret && dlsh_console_ask) return dlsh_console_ask(prompt, out);
    fputs(prompt, stdout);
    fflush(stdout);
    DLSH_FREED char *line = NULL;
    size_t cap = 0;
    if (secret) echo(0);
    ssize_t n = getline(&line, &cap, stdin);
    if (secret) {
        echo(1);
        fputs("\n", stdout);
    }
    if (n > 0 && line[n - 1] == '\n') n--;
    if (n > 0) dlsh_buf_add(out, line, (size_t)n);
    clearerr(stdin);
    if (n >= 0) return DL_OK;
    if (dlsh_interrupted()) return dlsh_fail(DL_ERR_INTERRUPT, NULL, "interrupted");
    return dlsh_fail(DL_ERR_IO, NULL, "standard input is at its end");
}

static void console_flush(DLSH_UNUSED dlsh_sink *s) { fflush(stdout); }

dlsh_sink *dlsh_console(void) {
    static const dlsh_sink_ops ops = {.text = console_text,
                                      .complain = console_complain,
                                      .value = console_value,
                                      .table = console_table,
                                      .error = console_error,
                                      .progress = console_progress,
                                      .plot = console_plot,
                                      .display = console_display,
                                      .clear = console_clear,
                                      .input = console_input,
                                      .flush = console_flush,
                                      .look = console_look,
                                      .pictures = console_pictures};
    console.sink.ops = &ops;
    return &console.sink;
}
