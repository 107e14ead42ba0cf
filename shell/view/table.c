/* Laying out tables: natural widths first; then text shrinks, and columns are left out or stand in a block below. */
#include "view/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/session.h"
#include "view/fit.h"
#include "view/text.h"

enum { GAP = 2, MARK = 1, NARROW = 10, WIDE = 14 };

static dl_status put_visible(dlsh_buf *b, dlsh_value v) {
    DLSH_SCOPED_BUF raw = {0};
    DLSH_TRY(dlsh_text(&raw, v));
    dlsh_buf_puts_visible(b, dlsh_buf_text(&raw));
    return DL_OK;
}

/* Whether a format with a fixed number of decimals shows the number well: neither very small nor very large. */
static int fits_fixed(const char *format, double f) {
    return !strchr(format, 'f') || f == 0 || (fabs(f) >= 1e-3 && fabs(f) < 1e6);
}

dl_status dlsh_table_cell(dlsh_buf *b, const dlsh_column *col, dlsh_value v) {
    size_t from = b->n;
    if (v.type == DLSH_FLOAT) {
        char text[64];
        double f = dlsh_plain_nan(v.as.f);
        const char *format = !col->format[0] ? "%.6g" : fits_fixed(col->format, f) ? col->format : "%.4g";
        snprintf(text, sizeof text, format, f);
        dlsh_buf_puts(b, text);
    } else if (v.type != DLSH_NONE && v.type != DLSH_VOID) {
        DLSH_TRY(put_visible(b, v));
    }
    if (b->n > from) dlsh_one_line(b->s + from, b->n - from);
    return b->failed ? dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to print a table") : DL_OK;
}

/* A number, an amount or a list of them, "0.25 @500", which must not be cut; a star may mark it. */
static int is_numeric(const char *s) {
    const char *p = s + (s[0] == '*' && s[1] == ' ' ? 2 : 0);
    p += *p == '-' || *p == '+';
    return (*p >= '0' && *p <= '9') || (*p == '.' && p[1] >= '0' && p[1] <= '9');
}

/* What the columns and rows of a table take as text. */
typedef struct layout {
    const dlsh_table *t;
    const dlsh_look *look;
    char **cells;
    dlsh_fit *cols; /* natural widths */
    dlsh_fit *fit;  /* those of the columns shown now */
} layout;

/* The texts of the cells, and after them those of the headings. */
static dl_status measure(layout *l) {
    const dlsh_table *t = l->t;
    long ncells = (long)t->nrows * t->ncols;
    for (int c = 0; c < t->ncols; c++) l->cols[c] = (dlsh_fit){.rank = t->rank ? t->rank[c] : 0};
    for (long i = 0; i < ncells + t->ncols; i++) {
        dlsh_fit *col = &l->cols[i % t->ncols];
        DLSH_SCOPED_BUF cell = {0};
        dl_status status = DL_OK;
        if (i < ncells)
            status = dlsh_table_cell(&cell, &t->cols[i % t->ncols], t->cells[i]);
        else
            dlsh_buf_puts_visible(&cell, t->cols[i - ncells].name);
        if (!status && !(l->cells[i] = strdup(dlsh_buf_text(&cell))))
            status = dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to print a table");
        if (status) return status;
        int width = dlsh_text_width(l->cells[i], strlen(l->cells[i]));
        int whole = width < NARROW || (i < ncells && is_numeric(l->cells[i])), least = whole ? width : NARROW;
        if (width > col->width) col->width = width;
        if (least > col->least) col->least = least;
    }
    return DL_OK;
}

/* A line of the columns shown; `texts` are of all columns. */
static void put_row(dlsh_buf *b, const layout *l, char *const *texts, int left_out) {
    int last = l->t->ncols - 1, first = 1;
    while (last > 0 && !l->fit[last].width) last--;
    for (int c = 0; c <= last; c++) {
        if (!l->fit[c].width) continue;
        if (!first) dlsh_buf_printf(b, "%*s", GAP, "");
        first = 0;
        dlsh_text_pad(b, texts[c], l->fit[c].width, l->t->cols[c].align == 'r' ? 'r' : 'l', c == last && !left_out,
                      l->look->unicode);
    }
    if (left_out) dlsh_buf_printf(b, "%*s%s", GAP, "", dlsh_ellipsis(l->look->unicode));
    /* an empty last cell leaves the gap before it */
    while (b->n && b->s[b->n - 1] == ' ') b->n--;
    dlsh_buf_puts(b, "\n");
}

static void put_heading(dlsh_buf *b, const layout *l, int left_out) {
    char *const *names = l->cells + (long)l->t->nrows * l->t->ncols;
    if (l->look->colour) dlsh_buf_puts(b, "\033[1m");
    put_row(b, l, names, left_out);
    if (l->look->colour) dlsh_buf_puts(b, "\033[0m");
    for (int c = 0, first = 1; c < l->t->ncols; c++) {
        if (!l->fit[c].width) continue;
        if (!first) dlsh_buf_printf(b, "%*s", GAP, "");
        first = 0;
        for (int i = 0; i < l->fit[c].width; i++) dlsh_buf_puts(b, "-");
    }
    dlsh_buf_puts(b, "\n");
}

/* Heading and rows of the columns that have a width in l->fit. */
static void put_block(dlsh_buf *b, layout *l) {
    int n = l->t->ncols;
    int left_out = l->look->width > 0 ? dlsh_fit_line(l->fit, n, GAP, l->look->width, MARK) : 0;
    put_heading(b, l, left_out);
    for (int r = 0; r < l->t->nrows; r++) put_row(b, l, l->cells + (long)r * n, left_out);
}

/* Too wide for a line? `narrow`: even when the keys shrink. */
static int is_too_wide(const layout *l, int narrow) {
    int width = dlsh_fit_width(l->fit, l->t->ncols, GAP);
    for (int c = 0; narrow && c < l->t->keys; c++) width -= l->fit[c].width - l->fit[c].least;
    return width > l->look->width;
}

/* Spends the room that a block leaves on its shortened columns, the narrowest first. */
static void widen(layout *l) {
    int n = l->t->ncols, at = 0;
    for (int spare = l->look->width - dlsh_fit_width(l->fit, n, GAP); spare > 0 && at >= 0; spare--) {
        at = -1;
        for (int c = 0; c < n; c++)
            if (l->fit[c].width && l->fit[c].width < l->cols[c].width && (at < 0 || l->fit[c].width < l->fit[at].width))
                at = c;
        if (at >= 0) l->fit[at].width++;
    }
}

/* The columns after the keys in blocks that fit, the keys at the head of each. A block has two columns to compare
 * where the keys can be shortened for it. */
static void put_folded(dlsh_buf *b, layout *l) {
    int n = l->t->ncols, keys = l->t->keys, room = l->look->width;
    for (int c = 0; c < keys; c++) /* the keys identify the row, so they may be wide */
        l->cols[c].least = l->cols[c].width < room / 3 ? l->cols[c].width : room / 3;
    for (int from = keys, to; from < n; from = to) {
        memset(l->fit, 0, sizeof *l->fit * (size_t)n);
        memcpy(l->fit, l->cols, sizeof *l->fit * (size_t)keys);
        for (to = from; to < n; to++) {
            const dlsh_fit *col = &l->cols[to];
            int most = col->least > WIDE ? col->least : WIDE;
            l->fit[to] = *col;
            if (col->width > most) l->fit[to].width = most;
            if (to > from && is_too_wide(l, to == from + 1)) break;
        }
        if (to < n) l->fit[to].width = 0;
        widen(l);
        if (from > keys) dlsh_buf_puts(b, "\n");
        put_block(b, l);
    }
}

dl_status dlsh_table_text(dlsh_buf *b, const dlsh_table *t, const dlsh_look *look) {
    long ncells = (long)t->nrows * t->ncols;
    layout l = {.t = t, .look = look};
    l.cells = calloc((size_t)(ncells + t->ncols), sizeof *l.cells);
    l.cols = calloc((size_t)t->ncols * 2 + 1, sizeof *l.cols);
    dl_status status = l.cells && l.cols ? measure(&l) : dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to print a table");
    if (!status) {
        l.fit = l.cols + t->ncols;
        memcpy(l.fit, l.cols, sizeof *l.fit * (size_t)t->ncols);
        if (t->title) dlsh_buf_puts_visible(b, t->title), dlsh_buf_puts(b, "\n");
        if (t->keys && look->width > 0 && dlsh_fit_width(l.cols, t->ncols, GAP) > look->width)
            put_folded(b, &l);
        else
            put_block(b, &l);
    }
    for (long i = 0; l.cells && i < ncells + t->ncols; i++) free(l.cells[i]);
    free(l.cells);
    free(l.cols);
    return status;
}

void dlsh_csv_text(dlsh_buf *b, const char *s, size_t n) {
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
    DLSH_SCOPED_BUF text = {0};
    dl_status status = dlsh_text(&text, v);
    dlsh_csv_text(b, dlsh_buf_text(&text), text.n);
    return status;
}

dl_status dlsh_table_csv(dlsh_buf *b, const dlsh_table *t) {
    for (int c = 0; c < t->ncols; c++) {
        if (c) dlsh_buf_puts(b, ",");
        dlsh_csv_text(b, t->cols[c].name, strlen(t->cols[c].name));
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
        DLSH_DROPPED dlsh_value key = dlsh_string(t->cols[c].name);
        if (c) dlsh_buf_puts(b, ",");
        DLSH_TRY(dlsh_json(b, key));
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
