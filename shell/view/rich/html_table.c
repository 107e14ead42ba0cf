/* Tables of values as HTML: runs, layers, results of queries. */
#include "view/rich/html.h"

#include "view/table.h"

enum { MOST_ROWS = 1000 };

static void put_heading(dlsh_buf *b, const dlsh_table *t) {
    dlsh_buf_puts(b, "<thead><tr>");
    for (int c = 0; c < t->ncols; c++) {
        dlsh_buf_printf(b, "<th style=\"text-align:%s;padding:3px 10px\">", t->cols[c].align == 'r' ? "right" : "left");
        dlsh_html_puts(b, t->cols[c].name);
        dlsh_buf_puts(b, "</th>");
    }
    dlsh_buf_puts(b, "</tr></thead>");
}

static dl_status put_cell(dlsh_buf *b, const dlsh_column *col, dlsh_value v) {
    DLSH_SCOPED_BUF text = {0};
    dl_status status = dlsh_table_cell(&text, col, v);
    dlsh_buf_printf(b, "<td style=\"text-align:%s;padding:2px 10px;white-space:%s\">",
                    col->align == 'r' ? "right" : "left", text.n > 60 ? "normal" : "nowrap");
    dlsh_html_escape(b, dlsh_buf_text(&text), text.n);
    dlsh_buf_puts(b, "</td>");
    return status;
}

dl_status dlsh_html_table(dlsh_buf *b, const dlsh_table *t) {
    dl_status status = DL_OK;
    dlsh_buf_puts(b, "<div style=\"overflow-x:auto\"><table style=\"border-collapse:collapse;color:inherit;"
                     "font-variant-numeric:tabular-nums\">");
    if (t->title) {
        dlsh_buf_puts(b, "<caption style=\"text-align:left;padding:2px 10px;opacity:.75\">");
        dlsh_html_puts(b, t->title);
        dlsh_buf_puts(b, "</caption>");
    }
    put_heading(b, t);
    dlsh_buf_puts(b, "<tbody>");
    int rows = t->nrows < MOST_ROWS ? t->nrows : MOST_ROWS;
    for (int r = 0; !status && r < rows; r++) {
        dlsh_buf_puts(b, "<tr>");
        for (int c = 0; !status && c < t->ncols; c++)
            status = put_cell(b, &t->cols[c], t->cells[(long)r * t->ncols + c]);
        dlsh_buf_puts(b, "</tr>");
    }
    dlsh_buf_puts(b, "</tbody></table>");
    if (rows < t->nrows)
        dlsh_buf_printf(b, "<div style=\"padding:2px 10px;opacity:.75\">and %d more rows</div>", t->nrows - rows);
    dlsh_buf_puts(b, "</div>");
    return status;
}
