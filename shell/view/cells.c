/* The common format of the elements of a tensor that are shown, chosen by their smallest and largest magnitude. */
#include "view/cells.h"

#include <math.h>
#include <stdio.h>

#include "view/tensor.h"

long dlsh_cells_next(const dlsh_cells *c, int dim, long i, int *gap) {
    long n = c->e->shape[dim], edge = c->edge[dim];
    *gap = edge && n > 2 * edge && i + 1 == edge;
    return *gap ? n - edge : i + 1;
}

int dlsh_element_text(const dlsh_cells *c, long offset, char *buf, size_t size) {
    if (c->style == DLSH_BOOLEAN) return snprintf(buf, size, "%s", dlsh_element_i(c->e, offset) ? "true" : "false");
    if (c->style == DLSH_WHOLE) return snprintf(buf, size, "%ld", dlsh_element_i(c->e, offset));
    double v = dlsh_element_f(c->e, offset);
    if (isnan(v)) return snprintf(buf, size, "nan");
    if (isinf(v)) return snprintf(buf, size, v < 0 ? "-inf" : "inf");
    if (c->style == DLSH_POINTED) return snprintf(buf, size, "%.0f.", v);
    if (c->style == DLSH_SCIENTIFIC) return snprintf(buf, size, "%.*e", dlsh_print.digits, v);
    /* an exact zero is told from a small number: "0.    " against "0.0000" */
    if (v == 0 && !c->joined) return snprintf(buf, size, "%s0.%*s", signbit(v) ? "-" : "", dlsh_print.digits, "");
    return snprintf(buf, size, "%.*f", dlsh_print.digits, v);
}

typedef void visit(dlsh_cells *c, long offset, void *arg);

static void each_shown(dlsh_cells *c, int dim, long offset, visit *fn, void *arg) {
    if (dim == c->e->ndim) {
        fn(c, offset, arg);
        return;
    }
    int gap;
    for (long i = 0; i < c->e->shape[dim]; i = dlsh_cells_next(c, dim, i, &gap))
        each_shown(c, dim + 1, offset + i * c->e->stride[dim], fn, arg);
}

static void see(dlsh_cells *c, long offset, void *arg) {
    double v = fabs(dlsh_element_f(c->e, offset));
    if (!isfinite(v) || v == 0) return;
    if (v != floor(v)) *(int *)arg = 1;
    if (v > c->most) c->most = v;
    if (v < c->least || !c->least) c->least = v;
}

static void measure(dlsh_cells *c, long offset, DLSH_UNUSED void *arg) {
    char buf[DLSH_CELL_TEXT];
    int n = dlsh_element_text(c, offset, buf, sizeof buf);
    if (n > c->width) c->width = n;
}

void dlsh_cells_choose(dlsh_cells *c) {
    int fractions = 0;
    each_shown(c, 0, 0, see, &fractions);
    if (c->e->dtype == DL_BOOL)
        c->style = DLSH_BOOLEAN;
    else if (!dl_dtype_is_float(c->e->dtype))
        c->style = DLSH_WHOLE;
    else if (c->most > 1000 * c->least || c->most > 1e8 || (fractions && c->least < pow(10, -dlsh_print.digits)))
        c->style = DLSH_SCIENTIFIC; /* PyTorch's rule; with its 4 digits its 1e-4 */
    else
        c->style = fractions ? DLSH_FIXED : DLSH_POINTED;
    each_shown(c, 0, 0, measure, NULL);
}
