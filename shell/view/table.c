/* Laying out tables: natural widths first, then the widest columns give way until the lines fit the terminal. */
#include "view/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/session.h"
#include "view/text.h"

enum { GAP = 2, NARROW = 10, NARROWEST = 5 };

static dl_status see_text(dlsh_buf *b, dlsh_value v) {
    dlsh_buf raw = {0};
    dl_status status = dlsh_text(&raw, v);
    if (!status) dlsh_buf_see(b, dlsh_buf_text(&raw));
    dlsh_buf_free(&raw);
    return status;
}

dl_status dlsh_table_cell(dlsh_buf *b, const dlsh_column *col, dlsh_value v) {
    size_t from = b->n;
    if (v.type == DLSH_FLOAT && col->format[0]) {
        char text[64];
        snprintf(text, sizeof text, col->format, v.as.f);
        dlsh_buf_puts(b, text);
    } else if (v.type == DLSH_FLOAT) {
        dlsh_buf_printf(b, "%.6g", v.as.f);
    } else if (v.type != DLSH_NONE && v.type != DLSH_VOID) {
        DLSH_TRY(see_text(b, v));
    }
    for (size_t i = from; i < b->n; i++)
        if (b->s[i] == '\n' || b->s[i] == '\t' || b->s[i] == '\r') b->s[i] = ' ';
    return b->failed ? dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to print a table") : DL_OK;
}

/* Takes from the widest column that may give, down to `least`, until all fits. Returns what is still too much. */
static int shrink(int *widths, const dlsh_table *t, int excess, int least, char align) {
    while (excess > 0) {
        int widest = -1;
        for (int c = 0; c < t->ncols; c++)
            if ((!align || t->cols[c].align == align) && widths[c] > least &&
                (widest < 0 || widths[c] > widths[widest]))
                widest = c;
        if (widest < 0) break;
        widths[widest]--;
        excess--;
    }
    return excess;
}

/* Text gives way before numbers, which mean nothing when they are cut. */
static void fit(int *widths, const dlsh_table *t, int room) {
    int excess = GAP * (t->ncols - 1) - room;
    for (int c = 0; c < t->ncols; c++) excess += widths[c];
    excess = shrink(widths, t, excess, NARROW, 'l');
    excess = shrink(widths, t, excess, NARROWEST, 'l');
    shrink(widths, t, excess, NARROWEST, 0);
}

static void put_row(dlsh_buf *b, const dlsh_table *t, const int *widths, char *const *texts, int unicode) {
    for (int c = 0; c < t->ncols; c++) {
        if (c) dlsh_buf_printf(b, "%*s", GAP, "");
        dlsh_text_pad(b, texts[c], widths[c], t->cols[c].align == 'r' ? 'r' : 'l', c + 1 == t->ncols, unicode);
    }
    /* an empty last cell leaves the gap before it */
    while (b->n && b->s[b->n - 1] == ' ') b->n--;
    dlsh_buf_puts(b, "\n");
}

static void put_heading(dlsh_buf *b, const dlsh_table *t, const int *widths, char *const *texts,
                        const dlsh_look *look) {
    if (look->colour) dlsh_buf_puts(b, "\033[1m");
    put_row(b, t, widths, texts, look->unicode);
    if (look->colour) dlsh_buf_puts(b, "\033[0m");
    for (int c = 0; c < t->ncols; c++) {
        if (c) dlsh_buf_printf(b, "%*s", GAP, "");
        for (int i = 0; i < widths[c]; i++) dlsh_buf_puts(b, "-");
    }
    dlsh_buf_puts(b, "\n");
}

dl_status dlsh_table_text(dlsh_buf *b, const dlsh_table *t, const dlsh_look *look) {
    long ncells = (long)t->nrows * t->ncols;
    char **cells = calloc((size_t)(ncells + t->ncols), sizeof *cells);
    int *widths = calloc((size_t)t->ncols + 1, sizeof *widths);
    dl_status status = cells && widths ? DL_OK : dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to print a table");
    for (long i = 0; !status && i < ncells + t->ncols; i++) { /* the last ones are the headings */
        dlsh_buf cell = {0};
        if (i < ncells)
            status = dlsh_table_cell(&cell, &t->cols[i % t->ncols], t->cells[i]);
        else
            dlsh_buf_see(&cell, t->cols[i - ncells].name);
        int w = dlsh_text_width(dlsh_buf_text(&cell), cell.n);
        if (w > widths[i % t->ncols]) widths[i % t->ncols] = w;
        if (!status && !(cells[i] = strdup(dlsh_buf_text(&cell))))
            status = dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to print a table");
        dlsh_buf_free(&cell);
    }
    if (!status) {
        if (look->width > 0) fit(widths, t, look->width);
        if (t->title) dlsh_buf_see(b, t->title), dlsh_buf_puts(b, "\n");
        put_heading(b, t, widths, cells + ncells, look);
        for (int r = 0; r < t->nrows; r++) put_row(b, t, widths, cells + (long)r * t->ncols, look->unicode);
    }
    for (long i = 0; cells && i < ncells + t->ncols; i++) free(cells[i]);
    free(cells);
    free(widths);
    return status;
}

static void quote_csv(dlsh_buf *b, const char *s, size_t n) {
    if (n == strcspn(s, ",\"\r\n") && n && s[0] != ' ' && s[n - 1] != ' ') {
        dlsh_buf_add(b, s, n);
        return;
    }
    if (!n) return;
    dlsh_buf_puts(b, "\"");
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"') dlsh_buf_puts(b, "\"");
        dlsh_buf_add(b, s + i, 1);
    }
    dlsh_buf_puts(b, "\"");
}

dl_status dlsh_csv_field(dlsh_buf *b, dlsh_value v) {
    if (v.type == DLSH_NONE || v.type == DLSH_VOID) return DL_OK;
    dlsh_buf text = {0};
    dl_status status = dlsh_text(&text, v);
    quote_csv(b, dlsh_buf_text(&text), text.n);
    dlsh_buf_free(&text);
    return status;
}

dl_status dlsh_table_csv(dlsh_buf *b, const dlsh_table *t) {
    for (int c = 0; c < t->ncols; c++) {
        if (c) dlsh_buf_puts(b, ",");
        quote_csv(b, t->cols[c].name, strlen(t->cols[c].name));
    }
    dlsh_buf_puts(b, "\n");
    for (long i = 0; i < (long)t->nrows * t->ncols; i++) {
        if (i % t->ncols) dlsh_buf_puts(b, ",");
        DLSH_TRY(dlsh_csv_field(b, t->cells[i]));
        if ((i + 1) % t->ncols == 0) dlsh_buf_puts(b, "\n");
    }
    return DL_OK;
}

dl_status dlsh_table_object(dlsh_buf *b, const dlsh_table *t, int row) {
    dlsh_buf_puts(b, "{");
    for (int c = 0; c < t->ncols; c++) {
        dlsh_value key = dlsh_string(t->cols[c].name);
        if (c) dlsh_buf_puts(b, ",");
        dl_status status = dlsh_json(b, key);
        dlsh_drop(key);
        DLSH_TRY(status);
        dlsh_buf_puts(b, ":");
        DLSH_TRY(dlsh_json(b, t->cells[(long)row * t->ncols + c]));
    }
    dlsh_buf_puts(b, "}");
    return DL_OK;
}

dl_status dlsh_table_json(dlsh_buf *b, const dlsh_table *t) {
    for (int i = 0; i < t->nrows; i++) {
        DLSH_TRY(dlsh_table_object(b, t, i));
        dlsh_buf_puts(b, "\n");
    }
    return DL_OK;
}

dlsh_value dlsh_amount(double v, int bytes, dlsh_mode mode) {
    static const char *const units[][7] = {{"", " k", " M", " G", " T", " P"},
                                           {" B", " kB", " MB", " GB", " TB", " PB"}};
    if (mode != DLSH_MODE_TABLE) return dlsh_int((long)v);
    int u = 0;
    while (v >= 1000 && units[!!bytes][u + 1]) v /= 1000, u++;
    return dlsh_stringf(u || v != (double)(long)v ? "%.3g%s" : "%.0f%s", v, units[!!bytes][u]);
}
