/* Tensors as HTML: what it is, figures and a histogram, and the elements in tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lang/session.h"
#include "view/cells.h"
#include "view/rich/html.h"
#include "view/tensor.h"
#include "view/text.h"

enum { MAX_SLICES = 6, MAX_COLUMNS = 32, MAX_ROWS = 60, PER_ROW = 10, BARS = 40 };

#define MONO "font-family:monospace;font-size:12px;"
#define CELL "text-align:right;padding:1px 6px;white-space:nowrap;border:none;"
#define INDEX "text-align:right;padding:1px 6px;font-weight:normal;opacity:.55;border:none;background:none;"

void dlsh_html_puts(dlsh_buf *b, const char *s) { dlsh_html_escape(b, s, strlen(s)); }

/* ---------------------------------------------------------------- figures */

/* A histogram as a picture, with the lowest and the highest value below it. */
static void html_bars(dlsh_buf *html, const long *counts, int n, double lo, double hi) {
    enum { W = 200, H = 44 };
    dlsh_buf svg = {0}, *b = &svg;
    long most = 1;
    for (int i = 0; i < n; i++)
        if (counts[i] > most) most = counts[i];
    dlsh_buf_printf(b,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                    "><g fill=\"" DLSH_BLUE "\">",
                    W, H + 14, W, H + 14);
    double width = (double)W / n;
    for (int i = 0; i < n; i++) {
        /* bars of counted elements are at least a pixel high */
        double h = counts[i] ? fmax(1, (double)counts[i] / (double)most * H) : 0;
        if (counts[i])
            dlsh_buf_printf(b, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>", i * width, H - h,
                            width * 0.86, h);
    }
    dlsh_buf_printf(b,
                    "</g><g font-family=\"sans-serif\" font-size=\"10\" fill=\"" DLSH_GREY "\"><text x=\"0\" y=\"%d\">"
                    "%.4g</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.4g</text></g></svg>",
                    H + 12, lo, W, H + 12, hi);
    char text[80];
    snprintf(text, sizeof text, "histogram of the elements, from %.4g to %.4g", lo, hi);
    dlsh_svg_describe(b, text);
    dlsh_html_picture(html, b);
    dlsh_buf_free(b);
}

static void put_bad(dlsh_buf *b, const char *name, long n) {
    if (n) dlsh_buf_printf(b, "<b style=\"color:" DLSH_RED "\">%ld&#160;%s</b>", n, name);
}

static void put_heading(dlsh_buf *b, const char *title, const dl_tensor *t) {
    dlsh_buf_puts(b, "<b>");
    dlsh_html_puts(b, title ? title : "tensor");
    dlsh_buf_puts(b, "</b> ");
    dlsh_tensor_kind(b, t);
    dlsh_buf_puts(b, " <span style=\"opacity:.6\">");
    dlsh_grouped(b, dl_numel(t));
    dlsh_buf_printf(b, " elements, %s%s</span>", dl_device_name(dl_device_of(t)),
                    !dl_requires_grad(t) ? ""
                    : dl_is_leaf(t)      ? ", needs its gradient"
                                         : ", on the tape");
}

dl_status dlsh_html_figures(dlsh_buf *b, const char *title, const dl_tensor *t, const dlsh_stats *s) {
    long counts[BARS];
    int spread = s->max > s->min, bars = s->n >= 400 ? BARS : 8 + (int)(1.6 * sqrt((double)s->n));
    if (spread && !dl_dtype_is_float(dl_dtype_of(t)) && s->max - s->min < bars) bars = (int)(s->max - s->min) + 1;
    if (spread) DLSH_TRY(dlsh_histogram(t, s->min, s->max, bars, counts));
    dlsh_buf_puts(b, "<div style=\"" MONO "\">");
    put_heading(b, title, t);
    dlsh_buf_puts(b, "<div style=\"display:flex;flex-wrap:wrap;align-items:center;gap:4px 18px;margin:4px 0\">");
    if (spread) html_bars(b, counts, bars, s->min, s->max);
    dlsh_buf_puts(b, "<div style=\"display:grid;grid-template-columns:auto auto;column-gap:18px;line-height:1.5\">");
    const struct {
        const char *name;
        double value;
    } figures[] = {{"mean", s->mean}, {"std", s->std}, {"min", s->min}, {"max", s->max}, {"norm", s->norm}};
    for (size_t i = 0; i < DLSH_COUNT(figures); i++)
        dlsh_buf_printf(b, "<span><span style=\"opacity:.6\">%s</span>&#160;%.4g</span>", figures[i].name,
                        dlsh_plain_nan(figures[i].value));
    if (s->zeros)
        dlsh_buf_printf(b, "<span><span style=\"opacity:.6\">zeros</span>&#160;%.3g&#160;%%</span>",
                        100.0 * (double)s->zeros / (double)s->n);
    put_bad(b, "NaN", s->nans);
    put_bad(b, "Inf", s->infs);
    dlsh_buf_puts(b, "</div></div></div>");
    return DL_OK;
}

/* ---------------------------------------------------------------- elements */

/* A cell shaded by sign and magnitude; NaN and infinities on red. */
static void put_element(dlsh_buf *b, const dlsh_cells *c, long offset) {
    char text[DLSH_CELL_TEXT];
    dlsh_element_text(c, offset, text, sizeof text);
    double v = dlsh_element_f(c->e, offset);
    if (!isfinite(v)) {
        dlsh_buf_printf(b, "<td style=\"" CELL "background:" DLSH_RED ";color:#fff;font-weight:bold\">%s</td>", text);
    } else if (c->style == DLSH_BOOLEAN) {
        dlsh_buf_printf(b, "<td style=\"" CELL "%s\">%s</td>", v != 0 ? "background:rgba(63,135,214,.3)" : "", text);
    } else {
        double share = c->most > 0 ? fabs(v) / c->most : 0;
        dlsh_buf_puts(b, "<td style=\"" CELL);
        if (share >= 0.01)
            dlsh_buf_printf(b, "background:rgba(%s,%.2f)", v < 0 ? "217,131,36" : "63,135,214", share * 0.4);
        dlsh_buf_printf(b, "\">%s</td>", text);
    }
}

static void put_gap(dlsh_buf *b, const char *dots) { dlsh_buf_printf(b, "<td style=\"" INDEX "\">%s</td>", dots); }

/* One row along the last dimension; `from` to `to` of it. */
static void put_row(dlsh_buf *b, const dlsh_cells *c, long offset, long from, long to) {
    int last = c->e->ndim - 1, gap = 0;
    for (long j = from; j < to; j = dlsh_cells_next(c, last, j, &gap)) {
        if (gap) put_gap(b, "&#8230;");
        put_element(b, c, offset + j * c->e->stride[last]);
    }
}

static void put_label(dlsh_buf *b, long i) { dlsh_buf_printf(b, "<th style=\"" INDEX "\">%ld</th>", i); }

static void open_table(dlsh_buf *b) {
    dlsh_buf_puts(b, "<table style=\"border-collapse:collapse;border:none;color:inherit;margin:2px 0;" MONO "\">");
}

/* A vector: wrapped to rows of ten when it is shown whole. */
static void put_vector(dlsh_buf *b, const dlsh_cells *c) {
    long n = c->e->shape[0], per = c->edge[0] ? n : PER_ROW;
    open_table(b);
    for (long i = 0; i < n; i += per) {
        dlsh_buf_puts(b, "<tr style=\"background:none\">");
        put_label(b, i);
        put_row(b, c, 0, i, i + per < n ? i + per : n);
        dlsh_buf_puts(b, "</tr>");
    }
    dlsh_buf_puts(b, "</table>");
}

static void put_columns(dlsh_buf *b, const dlsh_cells *c, int dim) {
    int gap = 0;
    dlsh_buf_puts(b, "<tr style=\"background:none\"><th style=\"" INDEX "\"></th>");
    for (long j = 0; j < c->e->shape[dim]; j = dlsh_cells_next(c, dim, j, &gap)) {
        if (gap) put_gap(b, "");
        put_label(b, j);
    }
    dlsh_buf_puts(b, "</tr>");
}

/* The last two dimensions at an offset. */
static void put_matrix(dlsh_buf *b, const dlsh_cells *c, long offset) {
    int rows = c->e->ndim - 2, gap = 0;
    long n = c->e->shape[rows];
    open_table(b);
    put_columns(b, c, rows + 1);
    for (long i = 0; i < n; i = dlsh_cells_next(c, rows, i, &gap)) {
        if (gap) {
            dlsh_buf_puts(b, "<tr style=\"background:none\">");
            put_gap(b, "&#8942;");
            dlsh_buf_puts(b, "</tr>");
        }
        dlsh_buf_puts(b, "<tr style=\"background:none\">");
        put_label(b, i);
        put_row(b, c, offset + i * c->e->stride[rows], 0, c->e->shape[rows + 1]);
        dlsh_buf_puts(b, "</tr>");
    }
    dlsh_buf_puts(b, "</table>");
}

/* The first matrices of three and more dimensions, side by side, each under its index. */
static void put_slices(dlsh_buf *b, const dlsh_cells *c) {
    long index[8] = {0}, count = 1, shown;
    int lead = c->e->ndim - 2;
    for (int d = 0; d < lead; d++) count *= c->e->shape[d];
    dlsh_buf_puts(b, "<div style=\"display:flex;flex-wrap:wrap;gap:6px 22px;" MONO "\">");
    for (shown = 0; shown < count && shown < MAX_SLICES; shown++) {
        long offset = 0;
        dlsh_buf_puts(b, "<div><span style=\"opacity:.6\">[");
        for (int d = 0; d < lead; d++) {
            dlsh_buf_printf(b, "%ld, ", index[d]);
            offset += index[d] * c->e->stride[d];
        }
        dlsh_buf_puts(b, ":, :]</span>");
        put_matrix(b, c, offset);
        dlsh_buf_puts(b, "</div>");
        for (int d = lead - 1; d >= 0 && ++index[d] == c->e->shape[d]; d--) index[d] = 0;
    }
    if (shown < count) {
        dlsh_buf_puts(b, "<div style=\"align-self:center;opacity:.6\">&#8230; and ");
        dlsh_grouped(b, count - shown);
        dlsh_buf_puts(b, " more</div>");
    }
    dlsh_buf_puts(b, "</div>");
}

/* Chooses between all elements and those at the edges; of leading dimensions only the first slices are shown. */
static void choose_edges(dlsh_cells *c) {
    int n = c->e->ndim;
    const long *shape = c->e->shape;
    int large = c->e->numel > dlsh_print.threshold;
    for (int d = 0; d < n; d++) {
        long most = n == 1 ? PER_ROW * 20 : d == n - 1 ? MAX_COLUMNS : d == n - 2 ? MAX_ROWS : MAX_SLICES;
        if (large && most > 2 * dlsh_print.edgeitems) most = 2 * dlsh_print.edgeitems;
        c->edge[d] = shape[d] > most ? dlsh_print.edgeitems : 0;
    }
}

dl_status dlsh_html_tensor(dlsh_buf *b, const dl_tensor *t, const dlsh_stats *s) {
    if (s) {
        DLSH_TRY(dlsh_html_figures(b, NULL, t, s));
    } else {
        dlsh_buf_puts(b, "<div style=\"" MONO "\">");
        put_heading(b, NULL, t);
        dlsh_buf_puts(b, "</div>");
    }
    dlsh_elements e;
    DLSH_TRY(dlsh_elements_open(&e, t));
    dlsh_cells c = {.e = &e};
    choose_edges(&c);
    if (e.numel && e.ndim) {
        dlsh_cells_choose(&c);
        dlsh_buf_puts(b, "<div style=\"overflow-x:auto\">");
        if (e.ndim == 1)
            put_vector(b, &c);
        else if (e.ndim == 2)
            put_matrix(b, &c, 0);
        else
            put_slices(b, &c);
        dlsh_buf_puts(b, "</div>");
    }
    dlsh_elements_close(&e);
    return DL_OK;
}
