/* Kernels of tril and triu, a copy whose other triangle is zeroed, row by row; and of the places in a triangle. */
#include "cpu/runtime/iter.h"
#include "ops/infer/corner.h"
#include "ops/rules/create.h"
#include "ops/rules/index.h"

#include <string.h>

typedef struct triangle {
    char *o;
    long rows, cols, esize, diagonal;
    bool upper;
} triangle;

static void zero_row(void *arg, long i) {
    const triangle *t = arg;
    long row = i % t->rows, edge = row + t->diagonal + !t->upper; /* the first column above, or of the triangle */
    edge = edge < 0 ? 0 : edge > t->cols ? t->cols : edge;
    long from = t->upper ? 0 : edge, to = t->upper ? edge : t->cols;
    memset(t->o + (i * t->cols + from) * t->esize, 0, (size_t)((to - from) * t->esize));
}

static dl_status run(dl_call *c, bool upper) {
    dl_tensor *o = c->out[0];
    long cols = o->shape[o->ndim - 1], far = cols + o->shape[o->ndim - 2], diagonal = ATTR_I(c, TRIANGLE_DIAGONAL);
    triangle t = {dl_ptr(o), o->shape[o->ndim - 2], cols, (long)dl_esize(o), diagonal, upper};
    if (!o->numel) return DL_OK;
    t.diagonal = diagonal > far ? far : diagonal < -far ? -far : diagonal;
    dl_cpu_copy(o, c->in[0]);
    dl_cpu_for(o->numel / cols, dl_cpu_threads(o->numel), zero_row, &t);
    return DL_OK;
}

/* Rows, then columns. */
static dl_status run_triangle_places(dl_call *c) {
    const dl_corner t = {ATTR_I(c, TRIANGLE_PLACES_ROW), ATTR_I(c, TRIANGLE_PLACES_COL),
                         ATTR_I(c, TRIANGLE_PLACES_OFFSET), ATTR_I(c, TRIANGLE_PLACES_LOWER) != 0};
    dl_tensor *o = c->out[0];
    const long n = o->shape[1];
    long *row = dl_ptr(o), *column = row + n, end, k = 0;
    for (long i = 0; i < t.rows && k < n; i++)
        for (long j = dl_corner_row(&t, i, &end); j < end; j++, k++) row[k] = i, column[k] = j;
    return DL_OK;
}
/* Results are i64, whatever the dtype of a call without inputs is. */
const dl_kernel dl_cpu_triangle_places = {.run = run_triangle_places, .dtypes = DL_ALL};

static dl_status run_tril(dl_call *c) { return run(c, false); }
static dl_status run_triu(dl_call *c) { return run(c, true); }
const dl_kernel dl_cpu_tril = {.run = run_tril, .dtypes = DL_ALL};
const dl_kernel dl_cpu_triu = {.run = run_triu, .dtypes = DL_ALL};
