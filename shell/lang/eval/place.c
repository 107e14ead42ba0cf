/* Places of failures, and reporting them. */
#include <stdio.h>
#include <string.h>

#include "lang/eval/interp.h"

enum { TRACED_CALLS = 12 };

dl_status dlsh_at_span(dlsh_session *s, dlsh_unit *unit, dlsh_span span, dl_status st) {
    if (!st || s->place.set) return st;
    s->place.set = 1;
    s->place.unit = unit ? dlsh_unit_ref(unit) : NULL;
    s->place.span = span;
    return st;
}

dlsh_span dlsh_span_in_text(const dlsh_unit *unit, int offset, int width) {
    dlsh_span span = {.line = 1, .col = 1, .start = offset, .end = offset + width};
    for (int i = 0; i < offset && i < (int)unit->len; i++) {
        span.col = unit->text[i] == '\n' ? 1 : span.col + 1;
        span.line += unit->text[i] == '\n';
    }
    return span;
}

dl_status dlsh_fail_in_text(dlsh_session *s, const dlsh_unit *unit, int offset, int width, dl_status code,
                            const char *hint, const char *fmt, ...) {
    DLSH_FORMATTED(fmt, dlsh_vfail(code, hint, fmt, ap));
    return dlsh_place_at(s, unit, dlsh_span_in_text(unit, offset, width), code);
}

dl_status dlsh_place_at(dlsh_session *s, const dlsh_unit *unit, dlsh_span span, dl_status st) {
    return dlsh_at_span(s, (dlsh_unit *)unit, span, st); /* which takes a reference */
}

dl_status dlsh_failed_at(dlsh_session *s, const dlsh_node *n, dl_status st) {
    return n ? dlsh_at_span(s, s->unit, n->span, st) : st;
}

/* Recursion repeats one line: its count is appended once. */
static void end_trace_line(dlsh_place *p) {
    if (p->times > 1) dlsh_buf_printf(&p->trace, " (%d times)", p->times);
    p->times = 0;
}

void dlsh_trace_call(dlsh_session *s, const char *name, const dlsh_node *call) {
    dlsh_place *p = &s->place;
    DLSH_SCOPED_BUF line = {0};
    if (!call) return;
    dlsh_buf_printf(&line, "in %.80s, called at %.200s:%d:%d", name ? name : "fn", s->unit ? s->unit->name : "",
                    call->span.line, call->span.col);
    if (p->times && line.n == p->trace.n - p->last_line && !memcmp(line.s, p->trace.s + p->last_line, line.n))
        p->times++;
    else if (p->lines < TRACED_CALLS) {
        end_trace_line(p);
        if (p->lines++) dlsh_buf_puts(&p->trace, "\n");
        p->last_line = p->trace.n;
        p->times = 1;
        dlsh_buf_add(&p->trace, line.s, line.n);
    }
}

void dlsh_place_clear(dlsh_session *s) {
    dlsh_unit_drop(s->place.unit);
    dlsh_buf_free(&s->place.trace);
    s->place = (dlsh_place){0};
}

dl_status dlsh_caught(dlsh_session *s, dlsh_value *out) {
    dl_error e = {0};
    if (!dl_error_take(&e)) snprintf(e.message, sizeof e.message, "unknown error");
    int line = s->place.set ? s->place.span.line : e.line, col = s->place.set ? s->place.span.col : 0;
    const char *file = s->place.set && s->place.unit ? s->place.unit->name : e.file;
    dl_status st = dlsh_give(
        DLSH_RECORD_OF({"message", dlsh_string(e.message)}, {"kind", dlsh_string(dl_status_name(e.code))},
                       {"op", dlsh_string(e.op)}, {"operands", dlsh_string(e.operands)}, {"hint", dlsh_string(e.hint)},
                       {"file", dlsh_string(file)}, {"line", dlsh_int(line)}, {"col", dlsh_int(col)}),
        out);
    dlsh_place_clear(s);
    return st;
}

/* ---------------------------------------------------------------- showing */

/* Copies the line of the source that a byte stands in. */
static void source_line(dlsh_buf *b, const dlsh_unit *u, int at) {
    int from = at > (int)u->len ? (int)u->len : at, to = from;
    while (from > 0 && u->text[from - 1] != '\n') from--;
    while (to < (int)u->len && u->text[to] != '\n') to++;
    dlsh_buf_add(b, u->text + from, (size_t)(to - from));
}

static void fill_diag(dlsh_session *s, const char *severity) {
    dlsh_diag *d = &s->diag;
    const dlsh_place *p = &s->place;
    dlsh_buf_free(&s->diag_source);
    dlsh_buf_free(&s->diag_trace);
    *d = (dlsh_diag){
        .file = s->error.file, .line = s->error.line, .severity = severity, .source = "", .width = 1, .trace = ""};
    if (p->set && p->unit) {
        d->file = p->unit->name;
        d->line = p->span.line;
        d->col = p->span.col;
        source_line(&s->diag_source, p->unit, p->span.start);
        d->source = dlsh_buf_text(&s->diag_source);
        int width = p->span.end - p->span.start, rest = (int)s->diag_source.n - (p->span.col - 1);
        d->width = width < 1 ? 1 : width > rest && rest > 0 ? rest : width;
        end_trace_line(&s->place);
        dlsh_buf_add(&s->diag_trace, p->trace.s, p->trace.n);
        d->trace = dlsh_buf_text(&s->diag_trace);
    }
    d->message = s->error.message;
    d->hint = s->error.hint;
    d->kind = dl_status_name(s->error.code);
}

const dlsh_diag *dlsh_error_diag(dlsh_session *s) { return s->failed ? &s->diag : NULL; }

void dlsh_failure_keep(dlsh_session *s) {
    if (!dl_error_take(&s->error))
        s->error = (dl_error){.code = DL_ERR_INTERNAL, .message = "a statement failed without saying why"};
    if (s->error.op[0] || s->error.operands[0]) { /* they become part of the message */
        snprintf(s->error.message, sizeof s->error.message, "%s", dl_error_line(&s->error));
        s->error.called[0] = s->error.op[0] = s->error.operands[0] = 0;
    }
    s->failed = 1;
    s->reported = 0;
    fill_diag(s, "error");
}

void dlsh_failure_take(dlsh_session *s, dlsh_buf *to) {
    dlsh_failure_keep(s);
    const dlsh_diag *d = &s->diag;
    const char *slash = strrchr(d->file, '/');
    if (d->line) dlsh_buf_printf(to, "%s:%d:%d: ", slash ? slash + 1 : d->file, d->line, d->col);
    dlsh_buf_puts(to, d->message);
    dlsh_place_clear(s);
    s->failed = 0;
}

void dlsh_report_error(dlsh_session *s) {
    if (s->failed && !s->reported) s->sink->ops->error(s->sink, &s->diag);
    s->reported = 1;
}

void dlsh_warn_failure(dlsh_session *s) {
    if (!dl_error_take(&s->error)) return;
    fill_diag(s, "warning");
    s->sink->ops->error(s->sink, &s->diag);
    dlsh_place_clear(s);
}

static void warn(dlsh_session *s, const dlsh_span *at, const char *hint, const char *fmt, va_list ap) {
    char message[512];
    vsnprintf(message, sizeof message, fmt, ap);
    DLSH_SCOPED_BUF line = {0};
    dlsh_diag d = {.file = s->unit ? s->unit->name : "",
                   .severity = "warning",
                   .message = message,
                   .hint = hint ? hint : "",
                   .source = "",
                   .width = 1,
                   .kind = "",
                   .trace = ""};
    if (s->unit && at) {
        d.line = at->line;
        d.col = at->col;
        source_line(&line, s->unit, at->start);
        d.source = dlsh_buf_text(&line);
    }
    s->sink->ops->error(s->sink, &d);
}

void dlsh_warn(dlsh_session *s, const char *hint, const char *fmt, ...) {
    DLSH_FORMATTED(fmt, warn(s, s->statement ? &s->statement->span : NULL, hint, fmt, ap));
}

void dlsh_warn_at(dlsh_session *s, dlsh_span at, const char *hint, const char *fmt, ...) {
    DLSH_FORMATTED(fmt, warn(s, &at, hint, fmt, ap));
}
