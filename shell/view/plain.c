/* Text of values, tables and errors, in the three modes. */
#include "view/plain.h"

#include <stdlib.h>
#include <string.h>

#include "lang/session.h"
#include "view/table.h"
#include "view/tensor.h"
#include "view/text.h"

/* A value as CSV: numbers and strings a field, lists a row, records a heading and a row, tensors their rows. */
static dl_status csv_value(dlsh_buf *b, dlsh_value v) {
    if (v.type == DLSH_TENSOR) return dlsh_tensor_csv(b, v.as.tensor);
    if (v.type == DLSH_RECORD) {
        for (int i = 0; i < v.as.record->n; i++) {
            if (i) dlsh_buf_puts(b, ",");
            dlsh_csv_text(b, v.as.record->keys[i], strlen(v.as.record->keys[i]));
        }
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

/* Names within values, of keys and handles, are made visible too. */
static dl_status put_visible(dlsh_buf *b, dlsh_value v) {
    DLSH_SCOPED_BUF raw = {0};
    dl_status status = dlsh_repr(&raw, v);
    dlsh_buf_puts_visible(b, dlsh_buf_text(&raw));
    return status;
}

static dl_status text_value(dlsh_buf *b, dlsh_value v, const dlsh_look *look) {
    dl_status status =
        v.type == DLSH_TENSOR ? dlsh_tensor_layout(b, v.as.tensor, look->width, look->colour) : put_visible(b, v);
    dlsh_buf_puts(b, "\n");
    return status;
}

dl_status dlsh_plain_value(dlsh_buf *b, dlsh_value v, const dlsh_look *look) {
    if (look->mode == DLSH_MODE_TABLE) return text_value(b, v, look);
    if (look->mode == DLSH_MODE_CSV) return csv_value(b, v);
    dl_status status = dlsh_json(b, v);
    dlsh_buf_puts(b, "\n");
    return status;
}

dl_status dlsh_plain_table(dlsh_buf *b, const dlsh_table *t, const dlsh_look *look) {
    return look->mode == DLSH_MODE_JSON  ? dlsh_table_json(b, t)
           : look->mode == DLSH_MODE_CSV ? dlsh_table_csv(b, t)
                                         : dlsh_table_text(b, t, look);
}

/* ---------------------------------------------------------------- errors */

/* Bytes of a long line that are quoted, those in front of the caret among them; of the other parts of a message. */
enum { QUOTED = 160, BEFORE = 80, PART = 4000 };

/* Text up to a limit, cut between characters, controls made visible. */
static void put_part(dlsh_buf *b, const char *s, size_t limit) {
    size_t n = strlen(s), to = n > limit ? limit : n;
    while (to < n && to > 0 && (s[to] & 0xc0) == 0x80) to--;
    DLSH_FREED char *part = strndup(s, to);
    dlsh_buf_puts_visible(b, part ? part : "");
    if (to < n) dlsh_buf_puts(b, "...");
}

/* Blanks as wide as text[from, to), tabs kept, so that the caret stands below its column whatever the tab stops are. */
static void put_blanks(dlsh_buf *b, const char *text, size_t from, size_t to) {
    for (size_t i = from; i < to;) {
        size_t end = i + 1;
        while (end < to && (text[end] & 0xc0) == 0x80) end++;
        if (text[i] == '\t')
            dlsh_buf_puts(b, "\t");
        else
            dlsh_buf_printf(b, "%*s", dlsh_text_width(text + i, end - i), "");
        i = end;
    }
}

/* The line of the program and the caret below it; of a long line what stands around the caret. */
static void put_source(dlsh_buf *b, const dlsh_diag *d) {
    size_t n = strlen(d->source), at = (size_t)(d->col - 1) < n ? (size_t)(d->col - 1) : n, from = 0, to = n;
    if (n > QUOTED) {
        from = at > BEFORE ? at - BEFORE : 0;
        to = from + QUOTED < n ? from + QUOTED : n;
        while (from > 0 && (d->source[from] & 0xc0) == 0x80) from--;
        while (to < n && (d->source[to] & 0xc0) == 0x80) to++;
    }
    size_t width = (size_t)d->width < to - at ? (size_t)d->width : to - at;
    dlsh_buf_printf(b, "    %s", from ? "..." : "");
    /* escapes would move the caret: control characters become blanks */
    for (size_t i = from, len; i < to; i += len) {
        int steers = dlsh_control_char(d->source + i, to - i, &len) && d->source[i] != '\t';
        dlsh_buf_add(b, steers ? " " : d->source + i, steers ? 1 : len);
    }
    dlsh_buf_printf(b, "%s\n    %s", to < n ? "..." : "", from ? "   " : "");
    put_blanks(b, d->source, from, at);
    int marks = dlsh_text_width(d->source + at, width);
    dlsh_buf_puts(b, "^");
    for (int i = 1; i < marks; i++) dlsh_buf_puts(b, "~");
    dlsh_buf_puts(b, "\n");
}

void dlsh_plain_error(dlsh_buf *b, const dlsh_diag *d, int colour) {
    const char *bold = colour ? "\033[1m" : "", *off = colour ? "\033[0m" : "";
    const char *loud = !colour ? "" : strcmp(d->severity, "error") ? "\033[1;35m" : "\033[1;31m";
    if (d->file && *d->file) {
        dlsh_buf_puts(b, bold);
        put_part(b, d->file, PART);
        if (d->line > 0) dlsh_buf_printf(b, ":%d:%d", d->line, d->col);
        dlsh_buf_printf(b, ":%s ", off);
    }
    dlsh_buf_printf(b, "%s%s:%s ", loud, d->severity, off);
    put_part(b, d->message, PART);
    dlsh_buf_puts(b, "\n");
    /* after Ctrl-C the statement is not quoted */
    int stopped = d->kind && !strcmp(d->kind, dl_status_name(DL_ERR_INTERRUPT));
    if (!stopped && d->line > 0 && d->col > 0 && d->source && *d->source) put_source(b, d);
    if (d->hint && *d->hint) {
        dlsh_buf_puts(b, "  hint: ");
        put_part(b, d->hint, PART);
        dlsh_buf_puts(b, "\n");
    }
    if (d->trace && *d->trace) {
        put_part(b, d->trace, PART);
        if (d->trace[strlen(d->trace) - 1] != '\n') dlsh_buf_puts(b, "\n");
    }
}
