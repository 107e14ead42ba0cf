/* The sink of the notebook: what the session shows becomes messages. */
#define _GNU_SOURCE // fopencookie
#include <pthread.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#include "jupyter/kernel.h"
#include "jupyter/stdio.h"
#include "view/console.h"
#include "view/rich/html.h"
#include "view/rich/manual.h"
#include "view/plain.h"
#include "view/rich/plot.h"
#include "view/rich/rich.h"

enum { WIDTH = 100, TERMINAL = 80 }; /* columns of text in a notebook, and of a line that is redrawn */

static struct {
    dlsh_sink sink;
    dlsh_bundle *collect; /* what is shown goes here: a handle shows itself as a result */
    dlsh_live live;
    long live_id; /* of the display of an action under way; 0: none */
    jup_progress shows;
    dlsh_meter meter; /* for clients that show no updates */
    FILE *input;
    pthread_t thread;
} out;

/* ---------------------------------------------------------------- bundles as messages */

static void put_text(json_t *data, const char *type, const char *s, size_t n) {
    json_object_set_new(data, type, jup_text(s, n));
}

static void put_svg_html(json_t *data, const dlsh_buf *svg) {
    DLSH_SCOPED_BUF html = {0};
    dlsh_html_picture(&html, svg);
    put_text(data, dlsh_form_type(DLSH_HTML), html.s, html.n);
}

/* JupyterLab prefers JSON to HTML and fails at bare numbers: beside another form JSON gets a type of its own, for
 * programs, which no client shows. */
static const char *json_name(const dlsh_bundle *b, const json_t *j, int to_see) {
    int alone = !b->form[DLSH_HTML].n && !b->form[DLSH_SVG].n && !b->form[DLSH_PNG].n;
    return !to_see || (alone && (json_is_object(j) || json_is_array(j))) ? dlsh_form_type(DLSH_JSON)
                                                                         : "application/vnd.dlsh.value+json";
}

void jup_bundle_json(const dlsh_bundle *b, int to_see, json_t **data, json_t **metadata) {
    *data = json_object();
    *metadata = json_object();
    size_t n = b->text.n;
    put_text(*data, "text/plain", b->text.s, n && b->text.s[n - 1] == '\n' ? n - 1 : n);
    for (int i = 0; i < DLSH_FORMS; i++) {
        const dlsh_buf *f = &b->form[i];
        const char *type = dlsh_form_type(i);
        if (!f->n) continue;
        if (i == DLSH_JSON) {
            json_t *j = json_loadb(f->s, f->n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (!j) continue;
            const char *name = json_name(b, j, to_see);
            json_object_set_new(*data, name, j);
            if (name == type) json_object_set_new(*metadata, type, json_pack("{s:b}", "expanded", 1));
        } else if (i == DLSH_PNG) {
            DLSH_SCOPED_BUF coded = {0};
            dlsh_base64(&coded, f->s, f->n);
            put_text(*data, type, coded.s, coded.n);
        } else {
            put_text(*data, type, f->s, f->n);
        }
        DLSH_ENDED(json_decref) json_t *about = json_object();
        if ((i == DLSH_PNG || i == DLSH_SVG) && b->width > 0 && b->height > 0) {
            json_object_set_new(about, "width", json_integer(b->width));
            json_object_set_new(about, "height", json_integer(b->height));
        }
        if (i == DLSH_PNG && b->alt.n) json_object_set_new(about, "alt", jup_text(b->alt.s, b->alt.n));
        if (json_object_size(about)) json_object_set(*metadata, type, about);
    }
    if (b->form[DLSH_SVG].n && !b->form[DLSH_HTML].n) put_svg_html(*data, &b->form[DLSH_SVG]);
}

/* Ends a line that is being redrawn. */
static void end_line(void) {
    if (out.meter.open) fputc('\n', stdout);
    out.meter = (dlsh_meter){0};
}

static void send_display(const dlsh_bundle *b) {
    json_t *data, *metadata;
    char id[64];
    jup_bundle_json(b, 1, &data, &metadata);
    snprintf(id, sizeof id, "%s-%ld", jup_session_id(), b->id);
    json_t *transient = b->id ? json_pack("{s:s}", "display_id", id) : json_object();
    end_line();
    jup_sync();
    jup_post(JUP_IOPUB, jup.request, b->update ? "update_display_data" : "display_data",
             json_pack("{s:o, s:o, s:o}", "data", data, "metadata", metadata, "transient", transient), NULL);
}

static dl_status sink_display(DLSH_UNUSED dlsh_sink *s, const dlsh_bundle *b) {
    if (jup.silent) return DL_OK;
    if (out.collect && !b->update)
        dlsh_bundle_join(out.collect, b);
    else
        send_display(b);
    return DL_OK;
}

/* Shows b unless making it failed; frees it. */
static dl_status show(dlsh_bundle *b, dl_status status) {
    if (!status) status = dlsh_display(&out.sink, b);
    dlsh_bundle_free(b);
    return status;
}

/* ---------------------------------------------------------------- looks */

static void sink_look(DLSH_UNUSED dlsh_sink *s, dlsh_look *look) {
    *look = (dlsh_look){
        .mode = dlsh_view.mode, .width = WIDTH, .colour = dlsh_view.colour == DLSH_ON, .unicode = 1, .rich = 1};
}

/* ---------------------------------------------------------------- text and errors */

/* Through stdio, so that it stays in order with what C code prints. */
static void sink_text(DLSH_UNUSED dlsh_sink *s, const char *bytes, size_t n) {
    dl_run_output(bytes, (long)n);
    if (jup.silent) return;
    if (out.collect) {
        dlsh_buf_add(&out.collect->text, bytes, n);
    } else {
        end_line();
        fwrite(bytes, 1, n, stdout);
    }
}

static void sink_complain(dlsh_sink *s, const char *bytes, size_t n) {
    (void)s;
    if (jup.silent) return;
    jup_sync();
    jup_post(JUP_IOPUB, jup.request, "stream", json_pack("{s:s, s:o?}", "name", "stderr", "text", jup_text(bytes, n)),
             NULL);
}

/* A warning or a note; the error that ends a cell is sent with its reply. It is a display with a bar beside it, since
 * clients show stderr on red. */
static void sink_error(DLSH_UNUSED dlsh_sink *s, const dlsh_diag *d) {
    dlsh_bundle b = {0};
    dlsh_buf *html = &b.form[DLSH_HTML];
    if (jup.silent) return;
    dlsh_plain_error(&b.text, d, 0);
    dlsh_buf_puts(html, "<pre role=\"note\" style=\"margin:2px 0;padding:2px 10px;border-left:4px solid " DLSH_ORANGE
                        ";background:none;font-family:monospace;white-space:pre-wrap\">");
    dlsh_html_escape(html, dlsh_buf_text(&b.text), b.text.n);
    dlsh_buf_puts(html, "</pre>");
    send_display(&b);
    dlsh_bundle_free(&b);
}

static void sink_flush(DLSH_UNUSED dlsh_sink *s) { fflush(stdout); }

/* ---------------------------------------------------------------- values, tables, plots, progress */

/* In the modes CSV and JSON everything is text. */
static dl_status plain(dlsh_buf *b, dl_status status) {
    if (!status && b->n) sink_text(&out.sink, b->s, b->n);
    dlsh_buf_free(b);
    return status;
}

static dl_status sink_value(dlsh_sink *s, dlsh_value v) {
    dlsh_look look = dlsh_sink_look(s);
    dlsh_buf text = {0};
    if (look.mode != DLSH_MODE_TABLE) return plain(&text, dlsh_plain_value(&text, v, &look));
    dlsh_bundle b = {0};
    return show(&b, dlsh_rich_value(&b, v, &look));
}

static dl_status sink_table(dlsh_sink *s, const dlsh_table *t) {
    dlsh_look look = dlsh_sink_look(s);
    dlsh_buf text = {0};
    if (look.mode != DLSH_MODE_TABLE) return plain(&text, dlsh_plain_table(&text, t, &look));
    dlsh_bundle b = {0};
    return show(&b, dlsh_rich_table(&b, t, &look));
}

static dl_status sink_plot(dlsh_sink *s, const dlsh_plot *p) {
    dlsh_look look = dlsh_sink_look(s);
    dlsh_buf nothing = {0};
    if (p->file) return plain(&nothing, dlsh_plot_draw(p, &look, &nothing));
    dlsh_bundle b = {0};
    return show(&b, dlsh_rich_plot(&b, p, &look));
}

/* When the action was stopped, the error that follows tells the rest. */
static void progress_as_text(const dlsh_progress *p, dlsh_look look) {
    DLSH_SCOPED_BUF b = {0};
    look.rich = 0;
    look.live = out.shows == JUP_REDRAWS;
    look.width = jup_stdio_width();
    if (!look.width) look.width = TERMINAL;
    if (p->stopped)
        end_line();
    else
        dlsh_meter_draw(&out.meter, p, &look, &b);
    if (b.n) {
        fwrite(b.s, 1, b.n, stdout);
        fflush(stdout);
    }
}

static void sink_progress(dlsh_sink *s, const dlsh_progress *p) {
    dlsh_look look = dlsh_sink_look(s);
    DLSH_SCOPED(dlsh_bundle_free) dlsh_bundle b = {0};
    if (jup.silent || dlsh_view.progress == DLSH_OFF || look.mode != DLSH_MODE_TABLE) return;
    if (out.shows != JUP_DISPLAYS) {
        progress_as_text(p, look);
        return;
    }
    if (dlsh_rich_progress(&out.live, p, &look, &b)) {
        b.update = out.live_id != 0;
        if (!out.live_id) out.live_id = dlsh_display_id();
        b.id = out.live_id;
        send_display(&b);
        if (p->stopped || (p->done && !p->more)) out.live_id = 0;
    }
}

static void sink_clear(dlsh_sink *s, int wait) {
    (void)s;
    if (jup.silent) return;
    jup_sync();
    jup_post(JUP_IOPUB, jup.request, "clear_output", json_pack("{s:b}", "wait", wait), NULL);
}

void jup_page_json(json_t *data, const char *text, size_t n) {
    DLSH_SCOPED_BUF html = {0}, markdown = {0};
    dlsh_manual_html(&html, text, n);
    dlsh_manual_markdown(&markdown, text, n);
    put_text(data, "text/plain", text, n);
    put_text(data, dlsh_form_type(DLSH_HTML), dlsh_buf_text(&html), html.n);
    put_text(data, dlsh_form_type(DLSH_MARKDOWN), dlsh_buf_text(&markdown), markdown.n);
}

/* Joins all pages of a cell: clients show only the last payload. */
static void sink_page(dlsh_sink *s, const char *text, size_t n) {
    (void)s;
    for (size_t i = 0; i < json_array_size(jup.payload); i++) {
        json_t *data = json_object_get(json_array_get(jup.payload, i), "data"),
               *old = json_object_get(data, "text/plain");
        if (!old) continue;
        DLSH_SCOPED_BUF both = {0};
        dlsh_buf_add(&both, json_string_value(old), json_string_length(old));
        dlsh_buf_puts(&both, "\n");
        dlsh_buf_add(&both, text, n);
        jup_page_json(data, both.s, both.n);
        return;
    }
    json_t *data = json_object();
    jup_page_json(data, text, n);
    json_array_append_new(jup.payload, json_pack("{s:s, s:o, s:i}", "source", "page", "data", data, "start", 0));
}

/* ---------------------------------------------------------------- input */

static dl_status sink_input(dlsh_sink *s, const char *prompt, int secret, dlsh_buf *line) {
    (void)s;
    if (!jup.may_ask)
        return dlsh_fail(DL_ERR_UNSUPPORTED, "run it from a notebook or a console", "this client cannot be asked");
    jup_sync();
    jup_input_forget();
    jup_post(JUP_STDIN, jup.request, "input_request",
             json_pack("{s:o?, s:b}", "prompt", jup_text(prompt, strlen(prompt)), "password", secret), NULL);
    jup_request *r = jup_input_reply();
    if (!r) return dlsh_fail(DL_ERR_INTERRUPT, NULL, "interrupted");
    size_t n;
    const char *value = jup_content_text(r, "value", &n);
    if (value) dlsh_buf_add(line, value, n);
    jup_request_unref(r);
    return value ? DL_OK : dlsh_fail(DL_ERR_IO, NULL, "the client's answer has no value");
}

/* For scanf and the like in C code: each line is asked for at the client. */
static ssize_t read_input(DLSH_UNUSED void *cookie, char *buf, size_t size) {
    static dlsh_buf line;
    static size_t at;
    if (!pthread_equal(pthread_self(), out.thread)) return 0;
    if (at >= line.n) {
        line.n = at = 0;
        if (!jup.may_ask || jup_interrupted()) return 0;
        if (sink_input(&out.sink, "", 0, &line)) {
            dl_error_clear(); /* C sees the end of its input */
            return 0;
        }
        dlsh_buf_puts(&line, "\n");
    }
    size_t n = line.n - at < size ? line.n - at : size;
    memcpy(buf, line.s + at, n);
    at += n;
    return (ssize_t)n;
}

void jup_sink_begin(void) {
    if (out.input) {
        __fpurge(out.input);
        clearerr(out.input);
    }
    out.live = (dlsh_live){0};
    out.live_id = 0;
    out.meter = (dlsh_meter){0};
}

/* ---------------------------------------------------------------- results */

dl_status jup_value_bundle(dlsh_value v, dlsh_bundle *b) {
    dlsh_look look = dlsh_sink_look(&out.sink);
    if (v.type != DLSH_HANDLE || !v.as.handle->cls->show) {
        if (look.mode == DLSH_MODE_TABLE) return dlsh_rich_value(b, v, &look);
        return dlsh_plain_value(&b->text, v, &look);
    }
    dlsh_bundle *outer = out.collect;
    out.collect = b;
    dl_status status = v.as.handle->cls->show(v.as.handle->self, &out.sink);
    out.collect = outer;
    return status;
}

dl_status jup_show_result(dlsh_value v, dlsh_buf *text) {
    DLSH_SCOPED(dlsh_bundle_free) dlsh_bundle b = {0};
    DLSH_TRY(jup_value_bundle(v, &b));
    if (!jup.silent) {
        json_t *data, *metadata;
        jup_bundle_json(&b, 1, &data, &metadata);
        jup_sync();
        jup_post(
            JUP_IOPUB, jup.request, "execute_result",
            json_pack("{s:I, s:o, s:o}", "execution_count", (json_int_t)jup.count, "data", data, "metadata", metadata),
            NULL);
        if (b.text.n) dlsh_buf_add(text, b.text.s, b.text.n);
    }
    return DL_OK;
}

dlsh_sink *jup_sink(void) {
    static const dlsh_sink_ops ops = {.text = sink_text,
                                      .complain = sink_complain,
                                      .value = sink_value,
                                      .table = sink_table,
                                      .error = sink_error,
                                      .progress = sink_progress,
                                      .plot = sink_plot,
                                      .display = sink_display,
                                      .clear = sink_clear,
                                      .page = sink_page,
                                      .input = sink_input,
                                      .flush = sink_flush,
                                      .look = sink_look};
    out.sink.ops = &ops;
    out.thread = pthread_self();
    if (!out.input) {
        out.shows = jup_launcher_shows();
        out.input = fopencookie(NULL, "r", (cookie_io_functions_t){.read = read_input});
        if (out.input) stdin = out.input;
    }
    return &out.sink;
}
