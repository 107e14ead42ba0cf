/* Tensors as rows of numbers: one format chosen for all elements shown, abridged when large, wrapped to the width. */
#include "view/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/session.h"
#include "view/cells.h"
#include "view/text.h"

dlsh_print_options dlsh_print = {.digits = 4, .edgeitems = 3, .threshold = 1000};

/* A tensor being written. */
typedef struct layout {
    const dlsh_elements *e;
    dlsh_cells cells;
    dlsh_cells imag; /* the imaginary parts, at the offsets of the real ones; e is NULL: none */
    dlsh_buf *out;
    int columns, colour;
} layout;

/* "+1.5000j", as PyTorch writes it: without padding. */
static void put_imag(layout *l, long offset) {
    char buf[DLSH_CELL_TEXT];
    if (!l->imag.e) return;
    dlsh_element_text(&l->imag, offset, buf, sizeof buf);
    dlsh_buf_printf(l->out, "%s%sj", *buf == '-' ? "" : "+", buf);
}

static void put_cell(layout *l, long offset) {
    char buf[DLSH_CELL_TEXT];
    dlsh_element_text(&l->cells, offset, buf, sizeof buf);
    int loud = l->colour && l->cells.style >= DLSH_POINTED && !isfinite(dlsh_element_f(l->e, offset));
    dlsh_buf_printf(l->out, "%s%*s%s", loud ? "\033[31m" : "", l->cells.width, buf, loud ? "\033[0m" : "");
    put_imag(l, offset);
}

/* ---------------------------------------------------------------- rows */

static void put_indent(layout *l, int n) { dlsh_buf_printf(l->out, "%*s", n, ""); }

/* The last dimension, wrapped; `indent` is the column of its bracket. */
static void put_vector(layout *l, long offset, int indent) {
    int dim = l->e->ndim - 1;
    long n = l->e->shape[dim], stride = l->e->stride[dim];
    int width = l->cells.width + (l->imag.e ? l->imag.width + 2 : 0);
    int per_line = (l->columns - indent - 1) / (width + 2), on_line = 0, gap = 0;
    if (per_line < 1) per_line = 1;
    dlsh_buf_puts(l->out, "[");
    for (long i = 0; i < n; i = dlsh_cells_next(&l->cells, dim, i, &gap)) {
        if (i) dlsh_buf_puts(l->out, on_line == per_line ? "," : ", ");
        if (i && on_line == per_line) {
            dlsh_buf_puts(l->out, "\n");
            put_indent(l, indent + 1);
            on_line = 0;
        }
        if (gap) {
            dlsh_buf_puts(l->out, "..., ");
            on_line++;
        }
        put_cell(l, offset + i * stride);
        on_line++;
    }
    dlsh_buf_puts(l->out, "]");
}

static void put_block(layout *l, int dim, long offset, int indent) {
    if (dim == l->e->ndim - 1) {
        put_vector(l, offset, indent);
        return;
    }
    long n = l->e->shape[dim];
    int gap = 0;
    dlsh_buf_puts(l->out, "[");
    for (long i = 0; i < n; i = dlsh_cells_next(&l->cells, dim, i, &gap)) {
        if (i) {
            dlsh_buf_puts(l->out, ",");
            if (gap) {
                dlsh_buf_puts(l->out, "\n");
                put_indent(l, indent + 1);
                dlsh_buf_puts(l->out, "...,");
            }
            for (int k = dim; k < l->e->ndim - 1; k++) dlsh_buf_puts(l->out, "\n");
            put_indent(l, indent + 1);
        }
        put_block(l, dim + 1, offset + i * l->e->stride[dim], indent + 1);
    }
    dlsh_buf_puts(l->out, "]");
}

void dlsh_tensor_kind(dlsh_buf *b, const dl_tensor *t) {
    dlsh_buf_puts(b, dl_dtype_name(dl_dtype_of(t)));
    if (dl_ndim(t) == 0) return;
    for (int d = 0; d < dl_ndim(t); d++) dlsh_buf_printf(b, "%s%ld", d ? "," : "[", dl_shape(t)[d]);
    dlsh_buf_puts(b, "]");
}

/* ", f32[2,3], cuda:0, grad=true)" */
static void put_note(dlsh_buf *b, const dl_tensor *t) {
    dlsh_buf_puts(b, ", ");
    dlsh_tensor_kind(b, t);
    if (dl_device_of(t) != 0) dlsh_buf_printf(b, ", %s", dl_device_name(dl_device_of(t)));
    if (dl_requires_grad(t)) dlsh_buf_puts(b, dl_is_leaf(t) ? ", grad=true" : ", tracked");
    dlsh_buf_puts(b, ")");
}

/* e holds the parts as a last dimension: the real ones stay in it, *imag gets the others. */
static void part_elements(layout *l, dlsh_elements *e, dlsh_elements *imag) {
    e->ndim--;
    e->numel /= 2;
    *imag = *e;
    imag->data += dl_dtype_size(e->dtype);
    l->imag = (dlsh_cells){.e = imag, .joined = 1};
    l->cells.joined = 1;
}

dl_status dlsh_tensor_layout(dlsh_buf *b, const dl_tensor *t, int width, int colour) {
    dlsh_elements e, imag;
    DLSH_TRY(dlsh_elements_open(&e, t));
    layout l = {.e = &e, .cells = {.e = &e}, .out = b, .colour = colour};
    l.columns = dlsh_print.linewidth ? dlsh_print.linewidth : width ? width : 80;
    if (dl_dtype_is_complex(dl_dtype_of(t))) part_elements(&l, &e, &imag);
    for (int d = 0; d < e.ndim; d++) l.cells.edge[d] = e.numel > dlsh_print.threshold ? dlsh_print.edgeitems : 0;
    memcpy(l.imag.edge, l.cells.edge, sizeof l.imag.edge);
    dlsh_buf_puts(b, "tensor(");
    if (e.numel == 0) {
        dlsh_buf_puts(b, "[]");
    } else {
        dlsh_cells_choose(&l.cells);
        if (l.imag.e) dlsh_cells_choose(&l.imag);
        if (e.ndim == 0)
            put_cell(&l, 0);
        else
            put_block(&l, 0, 0, 7);
    }
    put_note(b, t);
    dlsh_elements_close(&e);
    return DL_OK;
}

/* ---------------------------------------------------------------- numbers of full length */

void dlsh_element_digits(dlsh_buf *b, double v, dl_dtype dtype) {
    if (!dl_dtype_is_float(dtype)) {
        dlsh_buf_printf(b, "%.0f", v);
    } else if (dtype == DL_F64 || !isfinite(v)) {
        dlsh_buf_float(b, v);
    } else {
        char buf[40];
        for (int digits = 6; digits <= 9; digits++) {
            snprintf(buf, sizeof buf, "%.*g", digits, v);
            if (strtof(buf, NULL) == (float)v) break;
        }
        dlsh_buf_puts(b, buf);
        if (!strpbrk(buf, ".e")) dlsh_buf_puts(b, ".0");
    }
}

static void put_data(dlsh_buf *b, const dlsh_elements *e, long offset, int json) {
    double v = dl_dtype_is_float(e->dtype) ? dlsh_element_f(e, offset) : 0;
    if (json && !isfinite(v))
        dlsh_json_float(b, v);
    else if (dl_dtype_is_float(e->dtype))
        dlsh_element_digits(b, v, e->dtype);
    else if (e->dtype == DL_BOOL)
        dlsh_buf_puts(b, dlsh_element_i(e, offset) ? "true" : "false");
    else
        dlsh_buf_printf(b, "%ld", dlsh_element_i(e, offset));
}

/* "1.0-2.5j"; e holds the parts as a last dimension. */
static void put_pair(dlsh_buf *b, const dlsh_elements *e, long offset) {
    double imag = dlsh_element_f(e, offset + 1);
    put_data(b, e, offset, 0);
    if (!signbit(imag)) dlsh_buf_puts(b, "+");
    dlsh_element_digits(b, imag, e->dtype);
    dlsh_buf_puts(b, "j");
}

dl_status dlsh_tensor_summary(dlsh_buf *b, const dl_tensor *t, int colour) {
    dlsh_stats s;
    dl_status status = dlsh_stats_of(t, &s);
    if (status) return status;
    dlsh_tensor_kind(b, t);
    if (dl_device_of(t) != 0) dlsh_buf_printf(b, " %s", dl_device_name(dl_device_of(t)));
    if (s.n == 1) {
        dlsh_elements e;
        if ((status = dlsh_elements_open(&e, t))) return status;
        dlsh_buf_puts(b, " ");
        if (dl_dtype_is_complex(dl_dtype_of(t)))
            put_pair(b, &e, 0);
        else
            dlsh_element_digits(b, dlsh_element_f(&e, 0), e.dtype);
        dlsh_elements_close(&e);
    } else if (s.n > 0) {
        dlsh_buf_printf(b, " n=%ld", s.n);
        if (!isnan(s.min)) dlsh_buf_printf(b, " in [%.4g, %.4g] mean=%.4g", s.min, s.max, s.mean);
        if (!isnan(s.std)) dlsh_buf_printf(b, " std=%.4g", s.std);
        if (s.zeros == s.n) dlsh_buf_puts(b, " all zero");
    }
    if (dl_requires_grad(t)) dlsh_buf_puts(b, dl_is_leaf(t) ? " grad" : " tracked");
    const char *on = colour ? "\033[31m" : "", *off = colour ? "\033[0m" : "";
    if (s.nans) dlsh_buf_printf(b, " %s%ld NaN!%s", on, s.nans, off);
    if (s.infs) dlsh_buf_printf(b, " %s%ld Inf!%s", on, s.infs, off);
    return DL_OK;
}

/* ---------------------------------------------------------------- data */

dl_status dlsh_tensor_csv(dlsh_buf *b, const dl_tensor *t) {
    dlsh_elements e;
    DLSH_TRY(dlsh_elements_open(&e, t));
    long row = e.ndim ? e.shape[e.ndim - 1] : 1, i = 0;
    dlsh_walk w;
    for (dlsh_walk_begin(&e, &w); !w.done; dlsh_walk_next(&e, &w)) {
        if (i++ % row) dlsh_buf_puts(b, ",");
        put_data(b, &e, w.offset, 0);
        if (i % row == 0) dlsh_buf_puts(b, "\n");
    }
    dlsh_elements_close(&e);
    return DL_OK;
}

dl_status dlsh_tensor_line(dlsh_buf *b, const dl_tensor *t) {
    enum { MOST = 8 };
    dlsh_elements e;
    const int pairs = dl_dtype_is_complex(dl_dtype_of(t)), n = dl_ndim(t);
    if (n) dlsh_tensor_kind(b, t);
    if (n > 1 || dl_numel(t) > MOST || !dl_numel(t)) return DL_OK;
    DLSH_TRY(dlsh_elements_open(&e, t));
    for (long i = 0; i < dl_numel(t); i++) {
        if (n) dlsh_buf_puts(b, i ? ", " : "(");
        const long at = n ? i * e.stride[0] : 0;
        if (pairs)
            put_pair(b, &e, at);
        else
            put_data(b, &e, at, 0);
    }
    if (n) dlsh_buf_puts(b, ")");
    dlsh_elements_close(&e);
    return DL_OK;
}

static void put_json(dlsh_buf *b, const dlsh_elements *e, int dim, long offset) {
    if (dim == e->ndim) {
        put_data(b, e, offset, 1);
        return;
    }
    dlsh_buf_puts(b, "[");
    for (long i = 0; i < e->shape[dim]; i++) {
        if (i) dlsh_buf_puts(b, ",");
        put_json(b, e, dim + 1, offset + i * e->stride[dim]);
    }
    dlsh_buf_puts(b, "]");
}

void dlsh_tensor_json_head(dlsh_buf *b, const dl_tensor *t) {
    dlsh_buf_puts(b, "{\"shape\":[");
    for (int d = 0; d < dl_ndim(t); d++) dlsh_buf_printf(b, d ? ",%ld" : "%ld", dl_shape(t)[d]);
    dlsh_buf_printf(b, "],\"dtype\":\"%s\",\"device\":\"%s\"", dl_dtype_name(dl_dtype_of(t)),
                    dl_device_name(dl_device_of(t)));
}

dl_status dlsh_tensor_json(dlsh_buf *b, const dl_tensor *t) {
    dlsh_elements e;
    DLSH_TRY(dlsh_elements_open(&e, t));
    if (e.ndim) dlsh_tensor_json_head(b, t), dlsh_buf_puts(b, ",\"data\":");
    put_json(b, &e, 0, 0);
    if (e.ndim) dlsh_buf_puts(b, "}");
    dlsh_elements_close(&e);
    return b->failed ? DL_ERR_MEMORY : DL_OK;
}

dl_status dlsh_value_line(dlsh_buf *b, dlsh_value v) {
    enum { LONGEST = 60 };
    if (v.type == DLSH_TENSOR) return dlsh_tensor_summary(b, v.as.tensor, 0);
    DLSH_SCOPED_BUF whole = {0};
    dl_status status = DL_OK;
    if (v.type == DLSH_LIST || v.type == DLSH_RECORD)
        dlsh_buf_printf(&whole, "%d %s: ", v.type == DLSH_LIST ? v.as.list->n : v.as.record->n,
                        v.type == DLSH_LIST ? "items" : "fields");
    if (v.type == DLSH_LIST && v.as.list->n > 100)
        dlsh_buf_puts(&whole, "[...]");
    else
        status = dlsh_repr(&whole, v);
    const char *text = dlsh_buf_text(&whole);
    size_t line = strcspn(text, "\n"), cut = dlsh_text_clip(text, line, LONGEST);
    dlsh_buf_add(b, text, cut);
    if (cut < whole.n) dlsh_buf_puts(b, "...");
    return status;
}
