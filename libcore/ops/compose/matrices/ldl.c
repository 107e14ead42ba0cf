/* Factors of symmetric matrices that are not definite, A = P L D L^T P^T, with blocks of one or two rows in D (Bunch,
 * Kaufman: Some stable methods for calculating inertia and solving symmetric linear systems, 1977), in LAPACK's layout.
 * Pivots depend on numbers found before, row after row: the factors are computed in the memory of the host, in f64, for
 * all devices. */
#include "ops/matrices.h"
#include "autograd/vmap.h"
#include "dlcore/copy.h"
#include "dlcore/view.h"
#include "ops/rules/linalg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A matrix, of which the lower triangle is read and written, its pivots and its report. */
typedef struct symmetric {
    double *a;
    long n;
    int32_t *pivot; /* LAPACK's: from 1; negative for both rows of a block of two */
    int32_t info;   /* the first row, from 1, whose block is 0; 0: none */
} symmetric;
#define AT(i, j) (s->a[(i)*s->n + (j)])

static void swap(double *x, double *y) {
    double t = *x;
    *x = *y, *y = t;
}

/* The row below k with the largest magnitude in column k. */
static long largest_below(const symmetric *s, long k) {
    long at = k + 1;
    for (long i = k + 2; i < s->n; i++)
        if (fabs(AT(i, k)) > fabs(AT(at, k))) at = i;
    return at;
}

/* The largest magnitude in row i of what is left from k on, but for the diagonal. */
static double largest_in_row(const symmetric *s, long i, long k) {
    double most = 0;
    for (long j = k; j < i; j++) most = fmax(most, fabs(AT(i, j)));
    for (long j = i + 1; j < s->n; j++) most = fmax(most, fabs(AT(j, i)));
    return most;
}

/* The row that comes to row k, or with *block 2 to row k + 1; -1: there is nothing but zeros. */
static long choose(const symmetric *s, long k, int *block) {
    const double growth = (1 + sqrt(17)) / 8, own = fabs(AT(k, k));
    const long i = k + 1 < s->n ? largest_below(s, k) : k;
    const double column = k + 1 < s->n ? fabs(AT(i, k)) : 0;
    *block = 1;
    if (!(fmax(own, column) > 0) || isnan(own)) return -1;
    if (own >= growth * column) return k;
    const double row = largest_in_row(s, i, k);
    if (own >= growth * column * (column / row)) return k;
    if (fabs(AT(i, i)) < growth * row) *block = 2;
    return i;
}

/* Rows and columns i and j > i of what is left exchanged, the column before i, too, where the block begins at k. */
static void exchange(symmetric *s, long i, long j, long k) {
    if (i == j) return;
    for (long r = j + 1; r < s->n; r++) swap(&AT(r, i), &AT(r, j));
    for (long r = i + 1; r < j; r++) swap(&AT(r, i), &AT(j, r));
    swap(&AT(i, i), &AT(j, j));
    if (k < i) swap(&AT(i, k), &AT(j, k));
}

static void eliminate_one(symmetric *s, long k) {
    const double d = 1 / AT(k, k);
    for (long i = k + 1; i < s->n; i++)
        for (long j = k + 1; j <= i; j++) AT(i, j) -= AT(i, k) * d * AT(j, k);
    for (long i = k + 1; i < s->n; i++) AT(i, k) *= d;
}

/* The columns of L are those of A times the inverse of the block; until all rows have used them they stand in the upper
 * triangle. */
static void eliminate_two(symmetric *s, long k) {
    const double d21 = AT(k + 1, k), d11 = AT(k + 1, k + 1) / d21, d22 = AT(k, k) / d21, t = 1 / (d11 * d22 - 1) / d21;
    for (long j = k + 2; j < s->n; j++) {
        AT(k, j) = t * (d11 * AT(j, k) - AT(j, k + 1));
        AT(k + 1, j) = t * (d22 * AT(j, k + 1) - AT(j, k));
    }
    for (long i = k + 2; i < s->n; i++)
        for (long j = k + 2; j <= i; j++) AT(i, j) -= AT(i, k) * AT(k, j) + AT(i, k + 1) * AT(k + 1, j);
    for (long i = k + 2; i < s->n; i++) AT(i, k) = AT(k, i), AT(i, k + 1) = AT(k + 1, i);
}

static void factor(symmetric *s) {
    for (long k = 0; k < s->n;) {
        int block;
        long from = choose(s, k, &block), to = k + block - 1;
        if (from < 0) {
            if (!s->info) s->info = (int32_t)k + 1;
            s->pivot[k] = (int32_t)k + 1;
            k++;
            continue;
        }
        exchange(s, to, from, k);
        block == 1 ? eliminate_one(s, k) : eliminate_two(s, k);
        for (long i = k; i <= to; i++) s->pivot[i] = (int32_t)(block == 1 ? from + 1 : -(from + 1));
        k += block;
    }
    for (long i = 0; i < s->n; i++)
        for (long j = i + 1; j < s->n; j++) AT(i, j) = 0;
}

static dl_status check_square(const dl_tensor *t) {
    if (t->ndim >= 2 && dl_mat_height(t) == dl_mat_width(t)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "square matrices are needed, not a tensor of shape %s", dl_shape_of(t));
}

/* A copy of its own in the memory of the host, to be read. */
static dl_tensor *on_host(dl_pool *p, dl_tensor *t, dl_dtype dtype) {
    dl_vmap_read(t);
    return K(dl_clone(K(dl_contiguous(K(dl_to_dtype(K(dl_to_device(K(dl_detach(t)), 0)), dtype))))));
}

/* t, of the host, in a dtype and on the device of `like`. */
static dl_tensor *placed(dl_pool *p, dl_tensor *t, dl_dtype dtype, const dl_tensor *like) {
    return dl_to_device(K(dl_to_dtype(t, dtype)), like->st->device);
}

/* With `strict` a block of zeros is an error. */
static dl_status factored(dl_call *c, bool strict) {
    POOL;
    DL_SCOPED_GRAD_MODE(0);
    dl_tensor *a = c->in[0];
    DL_TRY(check_square(a));
    const long n = dl_mat_width(a);
    dl_tensor *ld = on_host(p, a, DL_F64), *pivots = K(dl_tensor_zeros(a->ndim - 1, a->shape, DL_I32, 0)),
              *info = K(dl_tensor_zeros(a->ndim - 2, a->shape, DL_I32, 0));
    if (!ld || !pivots || !info) return dl_failed();
    for (long m = 0; m < info->numel; m++) {
        symmetric s = {(double *)dl_ptr(ld) + m * n * n, n, (int32_t *)dl_ptr(pivots) + m * n, 0};
        factor(&s);
        ((int32_t *)dl_ptr(info))[m] = s.info;
        if (strict && s.info) return dl_fail(DL_ERR_VALUE, "a matrix is singular: row %d of its factor D is 0", s.info);
        DL_TRY(dl_interrupt_check());
    }
    c->out[0] = placed(p, ld, (dl_dtype)a->dtype, a);
    c->out[1] = placed(p, pivots, DL_I32, a);
    if (c->op->out > 2) c->out[2] = placed(p, info, DL_I32, a);
    return c->out[0] && c->out[1] && (c->op->out < 3 || c->out[2]) ? DL_OK : dl_failed();
}
COMPOSE_RULE(ldl_factor) { return factored(c, true); }
COMPOSE_RULE(ldl_factor_ex) { return factored(c, ATTR_I(c, LDL_FACTOR_EX_CHECK_ERRORS)); }

/* ---- solving */

/* L, the inverse of D, and the row of A that each row of them is, of the numbers in LAPACK's layout. */
typedef struct parts {
    double *l, *inverse;
    long *order;
} parts;

static void invert_two(const symmetric *s, long k, double *inverse) {
    const double a = AT(k, k), b = AT(k + 1, k), d = AT(k + 1, k + 1), det = a * d - b * b;
    double *row = inverse + k * s->n + k, *next = row + s->n;
    row[0] = d / det, row[1] = next[0] = -b / det, next[1] = a / det;
}

static void unpack(const symmetric *s, parts *out) {
    const long n = s->n;
    for (long i = 0; i < n; i++) out->order[i] = i;
    for (long k = 0, block; k < n; k += block) {
        block = s->pivot[k] < 0 && k + 1 < n ? 2 : 1;
        const long to = k + block - 1, from = labs((long)s->pivot[k]) - 1, was = out->order[to];
        out->order[to] = out->order[from], out->order[from] = was;
        for (long j = 0; j < k; j++) swap(&out->l[to * n + j], &out->l[from * n + j]);
        for (long i = to + 1; i < n; i++) memcpy(&out->l[i * n + k], &AT(i, k), (size_t)block * sizeof(double));
        block == 2 ? invert_two(s, k, out->inverse) : (void)(out->inverse[k * n + k] = 1 / AT(k, k));
    }
}

static dl_status check_factors(const dl_tensor *ld, const dl_tensor *pivots, const dl_tensor *b) {
    DL_TRY(check_square(ld));
    DL_TRY(dl_check_index(pivots));
    bool fits = pivots->ndim == ld->ndim - 1 && b->ndim >= 2 && dl_mat_height(b) == dl_mat_width(ld);
    for (int i = 0; fits && i < pivots->ndim; i++) fits = pivots->shape[i] == ld->shape[i];
    if (fits) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "factors %s, pivots %s and B %s do not fit", dl_shape_text(ld->ndim, ld->shape),
                   dl_shape_text(pivots->ndim, pivots->shape), dl_shape_text(b->ndim, b->shape));
}

static dl_status check_pivots(const symmetric *s) {
    for (long i = 0; i < s->n; i++)
        if (labs((long)s->pivot[i]) <= i || labs((long)s->pivot[i]) > s->n)
            return dl_fail(DL_ERR_VALUE, "pivot %d of row %ld is not a row from there on, of %ld", s->pivot[i], i + 1,
                           s->n);
    return DL_OK;
}

/* B, with the batch of the factors in front where it has fewer dimensions. */
static dl_tensor *with_batch(dl_pool *p, dl_tensor *b, const dl_tensor *ld) {
    long shape[DL_MAX_DIM];
    int ndim;
    if (dl_broadcast(ld->ndim - 2, ld->shape, b->ndim - 2, b->shape, &ndim, shape) != DL_OK) return NULL;
    shape[ndim] = dl_mat_height(b), shape[ndim + 1] = dl_mat_width(b);
    return K(dl_expand(b, shape, ndim + 2));
}

POOLED_RULE(ldl_solve) {
    dl_tensor *ld = c->in[0], *b = c->in[2];
    DL_TRY(check_factors(ld, c->in[1], b));
    const long n = dl_mat_width(ld), count = n ? ld->numel / (n * n) : 0;
    dl_tensor *host = on_host(p, ld, DL_F64), *pivots = on_host(p, c->in[1], DL_I32),
              *l = K(dl_tensor_zeros(ld->ndim, ld->shape, DL_F64, 0)),
              *inverse = K(dl_tensor_zeros(ld->ndim, ld->shape, DL_F64, 0)),
              *order = K(dl_tensor_zeros(ld->ndim - 1, ld->shape, DL_I64, 0));
    if (!host || !pivots || !l || !inverse || !order) return dl_failed();
    for (long m = 0; m < count; m++) {
        const symmetric s = {(double *)dl_ptr(host) + m * n * n, n, (int32_t *)dl_ptr(pivots) + m * n, 0};
        parts of = {(double *)dl_ptr(l) + m * n * n, (double *)dl_ptr(inverse) + m * n * n,
                    (long *)dl_ptr(order) + m * n};
        DL_TRY(check_pivots(&s));
        unpack(&s, &of);
    }
    const dl_dtype dtype = (dl_dtype)b->dtype;
    l = K(placed(p, l, dtype, b)), inverse = K(placed(p, inverse, dtype, b)), order = K(placed(p, order, DL_I64, b));
    dl_tensor *x = l && inverse && order ? with_batch(p, b, ld) : NULL;
    if (x) x = dl_mat_triangle(p, l, dl_mat_order_rows(p, x, order, false), false, false, true);
    x = dl_mat_mul(p, inverse, x);
    x = dl_mat_order_rows(p, dl_mat_triangle(p, l, x, false, true, true), order, true);
    RESULT(x);
}
