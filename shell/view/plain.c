/* Text of values, tables and errors, in the three modes. */
#include "view/plain.h"

#include <string.h>

#include "lang/session.h"
#include "view/table.h"
#include "view/tensor.h"
#include "view/text.h"

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

/* Names within values (keys, handles) are those of others as well. */
static dl_status see_value(dlsh_buf *b, dlsh_value v) {
    dlsh_buf raw = {0};
    dl_status status = dlsh_repr(&raw, v);
    dlsh_buf_see(b, dlsh_buf_text(&raw));
    dlsh_buf_free(&raw);
    return status;
}

static dl_status text_value(dlsh_buf *b, dlsh_value v, const dlsh_look *look) {
    dl_status status =
        v.type == DLSH_TENSOR ? dlsh_tensor_layout(b, v.as.tensor, look->width, look->colour) : see_value(b, v);
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

/* Blanks up to the caret, tabs kept, so that it stands below its column whatever the tab stops are. */
static void put_caret(dlsh_buf *b, const dlsh_diag *d) {
    size_t n = strlen(d->source), before = (size_t)(d->col - 1) < n ? (size_t)(d->col - 1) : n;
    size_t width = (size_t)d->width < n - before ? (size_t)d->width : n - before;
    dlsh_buf_puts(b, "    ");
    for (size_t i = 0; i < before;) {
        size_t end = i + 1;
        while (end < before && (d->source[end] & 0xc0) == 0x80) end++;
        if (d->source[i] == '\t')
            dlsh_buf_puts(b, "\t");
        else
            dlsh_buf_printf(b, "%*s", dlsh_text_width(d->source + i, end - i), "");
        i = end;
    }
    int marks = dlsh_text_width(d->source + before, width);
    dlsh_buf_puts(b, "^");
    for (int i = 1; i < marks; i++) dlsh_buf_puts(b, "~");
    dlsh_buf_puts(b, "\n");
}

/* The line of the program, and the caret below it. Escapes would move the caret: what steers becomes blanks. */
static void put_source(dlsh_buf *b, const dlsh_diag *d) {
    size_t n = strlen(d->source);
    dlsh_buf_puts(b, "    ");
    for (size_t i = 0, len; i < n; i += len) {
        int steers = dlsh_steers(d->source + i, n - i, &len) && d->source[i] != '\t';
        dlsh_buf_add(b, steers ? " " : d->source + i, steers ? 1 : len);
    }
    dlsh_buf_puts(b, "\n");
    put_caret(b, d);
}

void dlsh_plain_error(dlsh_buf *b, const dlsh_diag *d, int colour) {
    const char *bold = colour ? "\033[1m" : "", *off = colour ? "\033[0m" : "";
    const char *loud = !colour ? "" : strcmp(d->severity, "error") ? "\033[1;35m" : "\033[1;31m";
    if (d->file && *d->file) {
        dlsh_buf_puts(b, bold);
        dlsh_buf_see(b, d->file);
        if (d->line > 0) dlsh_buf_printf(b, ":%d:%d", d->line, d->col);
        dlsh_buf_printf(b, ":%s ", off);
    }
    dlsh_buf_printf(b, "%s%s:%s ", loud, d->severity, off);
    dlsh_buf_see(b, d->message);
    dlsh_buf_puts(b, "\n");
    /* who pressed Ctrl-C knows the statement */
    int stopped = d->kind && !strcmp(d->kind, dl_status_name(DL_ERR_INTERRUPT));
    if (!stopped && d->line > 0 && d->col > 0 && d->source && *d->source) put_source(b, d);
    if (d->hint && *d->hint) {
        dlsh_buf_puts(b, "  hint: ");
        dlsh_buf_see(b, d->hint);
        dlsh_buf_puts(b, "\n");
    }
    if (!d->trace || !*d->trace) return;
    dlsh_buf_see(b, d->trace);
    if (d->trace[strlen(d->trace) - 1] != '\n') dlsh_buf_puts(b, "\n");
}
