/* Shapes that look like mistakes: a column and a row that are broadcast to all pairs, a reshape where a transpose was
 * meant. */
#include "autograd/journal.h"
#include "autograd/layer_mark.h"
#include "autograd/nonfinite.h"
#include "autograd/tape.h"

#include <stdlib.h>
#include <string.h>

/* Parts of ops, and gradients, are not the caller's own. */
static bool is_inner(void) { return dl_composite_running.name || dl_nonfinite_rule_get(); }

/* ---------------------------------------------------------------- [n, 1] and [n] */

void dl_journal_spread(const dl_op *op, const dl_tensor *a, const dl_tensor *b) {
    const dl_tensor *column = a->ndim == 2 ? a : b, *row = column == a ? b : a;
    if (column->ndim != 2 || row->ndim != 1 || column->shape[1] != 1 || row->shape[0] != column->shape[0]) return;
    if (row->shape[0] < 2 || a->requires_grad || b->requires_grad || a->st == b->st || is_inner()) return;
    dl_journal_shape(DL_DID_SPREAD, op->name, row, 2, (long[]){row->shape[0], row->shape[0]});
}

/* ---------------------------------------------------------------- dimensions that a reshape moves */

/* Sizes of more than 1, in order; how many. */
static int real_sizes(int ndim, const long *shape, long *out) {
    int n = 0;
    for (int d = 0; d < ndim; d++)
        if (shape[d] > 1) out[n++] = shape[d];
    return n;
}

static int by_value(const void *a, const void *b) {
    return (*(const long *)a > *(const long *)b) - (*(const long *)a < *(const long *)b);
}

/* The same sizes in another order? */
static bool is_permuted(int n, const long *a, int m, const long *b) {
    long from[DL_MAX_DIM], to[DL_MAX_DIM];
    if (n != m || n < 2 || !memcmp(a, b, (size_t)n * sizeof *a)) return false;
    memcpy(from, a, (size_t)n * sizeof *a), memcpy(to, b, (size_t)n * sizeof *b);
    qsort(from, (size_t)n, sizeof *from, by_value);
    qsort(to, (size_t)n, sizeof *to, by_value);
    return !memcmp(from, to, (size_t)n * sizeof *to);
}

static bool divides(long a, long b) { return a % b == 0 || b % a == 0; }

/* Sizes a, of which no product of the first few is one of the first few of b: they are not just split and joined. */
static bool part_moves(int n, const long *a, int m, const long *b) {
    if (is_permuted(n, a, m, b)) return true;
    if (n == 2 && m == 3)
        return b[1] == a[0] && b[0] * b[2] == a[1] && b[0] != a[0]; /* [T, C] to [heads, T, C / heads] */
    if (n < 3 || m != 2) return false;
    const bool square = a[1] == a[2] && divides(a[0], b[0]); /* channels of a picture, in groups */
    return b[0] == a[1] && b[0] != a[0] && !square;
}

static bool moves(const dl_tensor *x, int ndim, const long *shape) {
    long a[DL_MAX_DIM], b[DL_MAX_DIM];
    const int n = real_sizes(x->ndim, x->shape, a), m = real_sizes(ndim, shape, b);
    for (int i = 0, k = 0; i < n && k < m;) {
        const int first = i, other = k;
        long p = a[i++], q = b[k++];
        while (p != q && (p < q ? i < n : k < m)) {
            if (p < q)
                p *= a[i++];
            else
                q *= b[k++];
        }
        if (p != q) return false;
        if (part_moves(i - first, a + first, k - other, b + other)) return true;
    }
    return false;
}

void dl_journal_reshaped(const dl_tensor *x, int ndim, const long *shape) {
    if (x->ndim < 2 || ndim < 2 || dl_layer_running || is_inner()) return;
    if (moves(x, ndim, shape)) dl_journal_shape(DL_DID_RESHAPED, NULL, x, ndim, shape);
}
