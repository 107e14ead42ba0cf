/* Standard output and standard error as a sink, in the three modes. */
#include "view/console.h"

#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lang/session.h"
#include "view/plot.h"
#include "view/progress.h"
#include "view/table.h"
#include "view/tensor.h"
#include "view/text.h"

dlsh_view_options dlsh_view;

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

static void console_look(dlsh_sink *s, dlsh_look *out) {
    (void)s;
    *out = (dlsh_look){.mode = dlsh_view.mode,
                       .width = columns(),
                       .colour = coloured(stdout),
                       .live = smart(stdout),
                       .unicode = !strcmp(nl_langinfo(CODESET), "UTF-8")};
}

/* ---------------------------------------------------------------- text, values, tables */

void dlsh_console_settle(void) {
    if (console.meter.open) fputs("\n", stdout);
    console.meter.open = 0;
    if (console.line_open) {
        /* what was printed without a newline is a line of JSON all the same */
        console.line_open = 0;
        console.sink.ops->text(&console.sink, "\n", 1);
    }
}

static void write_out(const char *s, size_t n) {
    if (console.meter.open) dlsh_console_settle();
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
        dlsh_buf out = {0};
        dlsh_value v = dlsh_string_n(dlsh_buf_text(&console.line), console.line.n);
        if (!dlsh_failed(v) && !dlsh_json(&out, v)) {
            dlsh_buf_puts(&out, "\n");
            write_out(out.s, out.n);
        }
        dlsh_drop(v);
        dlsh_buf_free(&out);
        console.line.n = 0;
    }
}

static void console_text(dlsh_sink *s, const char *bytes, size_t n) {
    (void)s;
    if (dlsh_view.mode == DLSH_MODE_JSON)
        json_text(bytes, n);
    else
        write_out(bytes, n);
}

/* A value as CSV: numbers and strings a field, lists a row, records a heading and a row, tensors their rows. */
static dl_status csv_value(dlsh_buf *b, dlsh_value v) {
    if (v.type == DLSH_TENSOR) return dlsh_tensor_csv(b, v.as.tensor);
    if (v.type == DLSH_RECORD) {
        for (int i = 0; i < v.as.record->n; i++) dlsh_buf_printf(b, "%s%s", i ? "," : "", v.as.record->keys[i]);
        dlsh_buf_puts(b, "\n");
    }
    int n = v.type == DLSH_RECORD ? v.as.record->n : v.type == DLSH_LIST ? v.as.list->n : 1;
    const dlsh_value *items = v.type == DLSH_RECORD ? v.as.record->values : v.type == DLSH_LIST ? v.as.list->items : &v;
    for (int i = 0; i < n; i++) {
        if (i) dlsh_buf_puts(b, ",");
        DLSH_TRY(dlsh_csv_field(b, items[i]));
    }
    dlsh_buf_puts(b, "\n");
    return DL_OK;
}

static dl_status text_value(dlsh_buf *b, dlsh_value v) {
    dlsh_look look;
    console_look(NULL, &look);
    dl_status status =
        v.type == DLSH_TENSOR ? dlsh_tensor_layout(b, v.as.tensor, look.width, look.colour) : dlsh_repr(b, v);
    dlsh_buf_puts(b, "\n");
    return status;
}

static dl_status json_value(dlsh_buf *b, dlsh_value v) {
    dl_status status = dlsh_json(b, v);
    dlsh_buf_puts(b, "\n");
    return status;
}

static dl_status flush_buf(dlsh_buf *b, dl_status status) {
    if (!status) {
        dlsh_console_settle();
        write_out(dlsh_buf_text(b), b->n);
    }
    dlsh_buf_free(b);
    return status;
}

static dl_status console_value(dlsh_sink *s, dlsh_value v) {
    (void)s;
    static dl_status (*const writers[])(dlsh_buf *, dlsh_value) = {text_value, csv_value, json_value};
    dlsh_buf b = {0};
    return flush_buf(&b, writers[dlsh_view.mode](&b, v));
}

static dl_status console_table(dlsh_sink *s, const dlsh_table *t) {
    dlsh_look look;
    console_look(s, &look);
    dlsh_buf b = {0};
    dl_status status = look.mode == DLSH_MODE_JSON  ? dlsh_table_json(&b, t)
                       : look.mode == DLSH_MODE_CSV ? dlsh_table_csv(&b, t)
                                                    : dlsh_table_text(&b, t, &look);
    return flush_buf(&b, status);
}

/* ---------------------------------------------------------------- errors */

/* Blanks up to the caret, tabs kept, so that it stands below its column whatever the tab stops are. */
static void put_caret(FILE *f, const dlsh_diag *d) {
    size_t n = strlen(d->source), before = (size_t)(d->col - 1) < n ? (size_t)(d->col - 1) : n;
    size_t width = (size_t)d->width < n - before ? (size_t)d->width : n - before;
    fputs("    ", f);
    for (size_t i = 0; i < before;) {
        size_t end = i + 1;
        while (end < before && (d->source[end] & 0xc0) == 0x80) end++;
        if (d->source[i] == '\t')
            fputc('\t', f);
        else
            fprintf(f, "%*s", dlsh_text_width(d->source + i, end - i), "");
        i = end;
    }
    int marks = dlsh_text_width(d->source + before, width);
    fputc('^', f);
    for (int i = 1; i < marks; i++) fputc('~', f);
    fputc('\n', f);
}

static void console_error(dlsh_sink *s, const dlsh_diag *d) {
    (void)s;
    dlsh_console_settle();
    fflush(stdout);
    int colour = coloured(stderr);
    const char *bold = colour ? "\033[1m" : "", *off = colour ? "\033[0m" : "";
    const char *loud = !colour ? "" : strcmp(d->severity, "error") ? "\033[1;35m" : "\033[1;31m";
    if (d->line > 0)
        fprintf(stderr, "%s%s:%d:%d:%s ", bold, d->file, d->line, d->col, off);
    else if (d->file && *d->file)
        fprintf(stderr, "%s%s:%s ", bold, d->file, off);
    fprintf(stderr, "%s%s:%s %s\n", loud, d->severity, off, d->message);
    /* who pressed Ctrl-C knows the statement */
    int stopped = d->kind && !strcmp(d->kind, dl_status_name(DL_ERR_INTERRUPT));
    if (!stopped && d->line > 0 && d->col > 0 && d->source && *d->source) {
        fprintf(stderr, "    %s\n", d->source);
        put_caret(stderr, d);
    }
    if (d->hint && *d->hint) fprintf(stderr, "  hint: %s\n", d->hint);
    if (d->trace && *d->trace) fprintf(stderr, "%s%s", d->trace, d->trace[strlen(d->trace) - 1] == '\n' ? "" : "\n");
    fflush(stderr);
}

/* ---------------------------------------------------------------- progress and plots */

static dl_status json_progress(const dlsh_progress *p) {
    dlsh_value r = dlsh_new_record();
    if (dlsh_failed(r)) return DL_ERR_MEMORY;
    dl_status status = dlsh_record_set(r.as.record, "progress", dlsh_string(p->label ? p->label : ""));
    if (!status) status = dlsh_record_set(r.as.record, "at", dlsh_int(p->at));
    if (!status) status = dlsh_record_set(r.as.record, "total", dlsh_int(p->total));
    for (int i = 0; !status && i < p->nmetrics; i++)
        status = dlsh_record_set(r.as.record, p->names[i], dlsh_float(p->values[i]));
    if (!status) status = console_value(&console.sink, r);
    dlsh_drop(r);
    return status;
}

static void console_progress(dlsh_sink *s, const dlsh_progress *p) {
    dlsh_look look;
    console_look(s, &look);
    if (dlsh_view.progress == DLSH_OFF) return;
    if (look.mode == DLSH_MODE_JSON) {
        if (p->done) json_progress(p);
        return;
    }
    if (look.mode == DLSH_MODE_CSV) return;
    if (dlsh_view.progress == DLSH_ON) look.live = isatty(STDOUT_FILENO);
    dlsh_buf b = {0};
    dlsh_meter_draw(&console.meter, p, &look, &b);
    fwrite(dlsh_buf_text(&b), 1, b.n, stdout);
    if (b.n) fflush(stdout);
    dlsh_buf_free(&b);
}

static dl_status console_plot(dlsh_sink *s, const dlsh_plot *p) {
    dlsh_look look;
    console_look(s, &look);
    dlsh_buf b = {0};
    return flush_buf(&b, dlsh_plot_draw(p, &look, &b));
}

/* A terminal shows the text form; a document without one cannot be shown. */
static dl_status console_mime(dlsh_sink *s, const char *type, const void *data, size_t n, const char *text) {
    (void)data;
    (void)n;
    if (!text) return dlsh_fail(DL_ERR_UNSUPPORTED, "write it to a file", "a terminal cannot show %s", type);
    console_text(s, text, strlen(text));
    return DL_OK;
}

static void console_flush(dlsh_sink *s) {
    (void)s;
    fflush(stdout);
}

dlsh_sink *dlsh_console(void) {
    static const dlsh_sink_ops ops = {.text = console_text,
                                      .value = console_value,
                                      .table = console_table,
                                      .error = console_error,
                                      .progress = console_progress,
                                      .plot = console_plot,
                                      .mime = console_mime,
                                      .flush = console_flush,
                                      .look = console_look};
    console.sink.ops = &ops;
    return &console.sink;
}
