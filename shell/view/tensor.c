/* Tensors as rows of numbers: one format chosen for all elements shown, abridged when large, wrapped to the width. */
#include "view/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/elements.h"

dlsh_print_options dlsh_print = {.digits = 4, .edgeitems = 3, .threshold = 1000};

/* How the elements of one tensor are written. */
typedef struct layout {
    const dlsh_elements *e;
    dlsh_buf *out;
    enum { WHOLE, BOOLEAN, POINTED, FIXED, SCIENTIFIC } style; /* POINTED: whole floats, "2." */
    int width;                                                 /* of a cell */
    int columns, colour;
    int abridged;
} layout;

/* The next index to show along a dimension of n, or n at the end; *gap is set before one that follows the dots. */
static long next_shown(const layout *l, long i, long n, int *gap) {
    *gap = 0;
    long edge = dlsh_print.edgeitems;
    if (l->abridged && n > 2 * edge && i + 1 == edge) {
        *gap = 1;
        return n - edge;
    }
    return i + 1;
}

typedef void visit(layout *l, long offset, void *arg);

static void each_shown(layout *l, int dim, long offset, visit *fn, void *arg) {
    if (dim == l->e->ndim) {
        fn(l, offset, arg);
        return;
    }
    int gap;
    for (long i = 0; i < l->e->shape[dim]; i = next_shown(l, i, l->e->shape[dim], &gap))
        each_shown(l, dim + 1, offset + i * l->e->stride[dim], fn, arg);
}

/* ---------------------------------------------------------------- one cell */

static int format_cell(const layout *l, long offset, char *buf, size_t size) {
    if (l->style == BOOLEAN) return snprintf(buf, size, "%s", dlsh_element_i(l->e, offset) ? "true" : "false");
    if (l->style == WHOLE) return snprintf(buf, size, "%ld", dlsh_element_i(l->e, offset));
    double v = dlsh_element_f(l->e, offset);
    if (isnan(v)) return snprintf(buf, size, "nan");
    if (isinf(v)) return snprintf(buf, size, v < 0 ? "-inf" : "inf");
    if (l->style == POINTED) return snprintf(buf, size, "%.0f.", v);
    if (l->style == SCIENTIFIC) return snprintf(buf, size, "%.*e", dlsh_print.digits, v);
    /* an exact zero is told from a small number: "0.    " against "0.0000" */
    if (v == 0) return snprintf(buf, size, "%s0.%*s", signbit(v) ? "-" : "", dlsh_print.digits, "");
    return snprintf(buf, size, "%.*f", dlsh_print.digits, v);
}

/* What the format is chosen by. */
typedef struct extent {
    double max, min; /* largest and smallest magnitude of finite non-zero elements */
    int fractions;
} extent;

static void see(layout *l, long offset, void *arg) {
    extent *x = arg;
    double v = fabs(dlsh_element_f(l->e, offset));
    if (!isfinite(v)) return;
    if (v != floor(v)) x->fractions = 1;
    if (v > x->max) x->max = v;
    if (v > 0 && v < x->min) x->min = v;
}

static void measure(layout *l, long offset, void *arg) {
    (void)arg;
    char buf[512];
    int n = format_cell(l, offset, buf, sizeof buf);
    if (n > l->width) l->width = n;
}

static void choose_style(layout *l) {
    if (l->e->dtype == DL_BOOL) {
        l->style = BOOLEAN;
    } else if (!dl_dtype_is_float(l->e->dtype)) {
        l->style = WHOLE;
    } else {
        extent x = {.max = 0, .min = INFINITY};
        each_shown(l, 0, 0, see, &x);
        /* fixed as long as the largest keeps two digits behind the point and does not grow too long */
        if (!x.fractions && x.max < 1e8)
            l->style = POINTED;
        else
            l->style = x.max >= 1e6 || x.max < pow(10, 2 - dlsh_print.digits) ? SCIENTIFIC : FIXED;
    }
    each_shown(l, 0, 0, measure, NULL);
}

static void put_cell(layout *l, long offset) {
    char buf[512];
    int n = format_cell(l, offset, buf, sizeof buf);
    int loud = l->colour && l->style >= POINTED && !isfinite(dlsh_element_f(l->e, offset));
    dlsh_buf_printf(l->out, "%s%*s%s", loud ? "\033[31m" : "", l->width, buf, loud ? "\033[0m" : "");
    (void)n;
}

/* ---------------------------------------------------------------- rows */

static void put_indent(layout *l, int n) { dlsh_buf_printf(l->out, "%*s", n, ""); }

/* The last dimension, wrapped; `indent` is the column of its bracket. */
static void put_vector(layout *l, long offset, int indent) {
    long n = l->e->shape[l->e->ndim - 1], stride = l->e->stride[l->e->ndim - 1];
    int per_line = (l->columns - indent - 1) / (l->width + 2), on_line = 0, gap = 0;
    if (per_line < 1) per_line = 1;
    dlsh_buf_puts(l->out, "[");
    for (long i = 0; i < n; i = next_shown(l, i, n, &gap)) {
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
    for (long i = 0; i < n; i = next_shown(l, i, n, &gap)) {
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

dl_status dlsh_tensor_layout(dlsh_buf *b, const dl_tensor *t, int width, int colour) {
    dlsh_elements e;
    dl_status status = dlsh_elements_open(&e, t);
    if (status) return status;
    layout l = {.e = &e, .out = b, .colour = colour};
    l.columns = dlsh_print.linewidth ? dlsh_print.linewidth : width ? width : 80;
    l.abridged = e.numel > dlsh_print.threshold;
    dlsh_buf_puts(b, "tensor(");
    if (e.numel == 0) {
        dlsh_buf_puts(b, "[]");
    } else {
        choose_style(&l);
        if (e.ndim == 0) {
            char buf[512];
            if (l.style == FIXED) l.style = fabs(dlsh_element_f(&e, 0)) < 1e-3 ? SCIENTIFIC : FIXED;
            format_cell(&l, 0, buf, sizeof buf);
            dlsh_buf_puts(b, buf);
        } else {
            put_block(&l, 0, 0, 7);
        }
    }
    put_note(b, t);
    dlsh_elements_close(&e);
    return DL_OK;
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

static void put_data(dlsh_buf *b, const dlsh_elements *e, long offset) {
    if (!dl_dtype_is_float(e->dtype)) {
        if (e->dtype == DL_BOOL)
            dlsh_buf_puts(b, dlsh_element_i(e, offset) ? "true" : "false");
        else
            dlsh_buf_printf(b, "%ld", dlsh_element_i(e, offset));
        return;
    }
    dlsh_element_digits(b, dlsh_element_f(e, offset), e->dtype);
}

dl_status dlsh_tensor_csv(dlsh_buf *b, const dl_tensor *t) {
    dlsh_elements e;
    dl_status status = dlsh_elements_open(&e, t);
    if (status) return status;
    long row = e.ndim ? e.shape[e.ndim - 1] : 1, i = 0;
    dlsh_walk w;
    for (dlsh_walk_begin(&e, &w); !w.done; dlsh_walk_next(&e, &w)) {
        if (i++ % row) dlsh_buf_puts(b, ",");
        put_data(b, &e, w.offset);
        if (i % row == 0) dlsh_buf_puts(b, "\n");
    }
    dlsh_elements_close(&e);
    return DL_OK;
}
