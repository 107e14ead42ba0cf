/* Sums of products and of areas: contractions, covariances, integrals by trapezoids; norms of matrices. */
#include "ops/compose/compose.h"
#include "ops/compose/rows/row_sum.h"
#include "core/widening.h"
#include "dlcore/arithmetic.h"
#include "dlcore/binary.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/linalg.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/linalg.h"
#include "ops/rules/matmul.h"
#include "ops/rules/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- contractions */

/* An operand as a matrix: its other dimensions, whose sizes go to shape, and those that are summed over. */
static dl_tensor *as_matrix(dl_pool *p, dl_tensor *t, const int *dims, int n, bool summed_last, long *shape,
                            int *nshape) {
    long order[DL_MAX_DIM], rows = 1, columns = 1;
    int at = summed_last ? 0 : n;
    unsigned summed = 0;
    for (int i = 0; i < n; i++) summed |= 1u << dims[i], columns *= t->shape[dims[i]];
    for (int i = 0; i < n; i++) order[(summed_last ? t->ndim - n : 0) + i] = dims[i];
    for (int i = 0; i < t->ndim; i++)
        if (!(summed >> i & 1)) order[at++] = i, rows *= t->shape[i], shape[(*nshape)++] = t->shape[i];
    dl_tensor *moved = K(dl_permute(t, order, t->ndim));
    return moved ? K(dl_reshape(moved, summed_last ? (long[]){rows, columns} : (long[]){columns, rows}, 2)) : NULL;
}

POOLED_RULE(tensordot) {
    dl_tensor *a = c->in[0], *b = c->in[1];
    const dl_aval *dims = ATTR(c, TENSORDOT_DIMS);
    const bool counted = dims->n == 1;
    const long n = counted ? dims->u.v[0] : dims->n / 2;
    int from[DL_MAX_DIM], with[DL_MAX_DIM], nshape = 0;
    long shape[2 * DL_MAX_DIM];
    if (n < 0 || n > a->ndim || n > b->ndim || (!counted && dims->n % 2))
        return dl_fail_hint(DL_ERR_VALUE,
                            "dims=2 sums over the last two of one and the first two of the other, "
                            "dims=[[0, 1], [2, 0]] over those named",
                            "dims does not fit operands of %d and %d dimensions", a->ndim, b->ndim);
    for (int i = 0; i < n; i++) {
        DL_TRY(dl_dim_norm(counted ? a->ndim - n + i : dims->u.v[i], a->ndim, &from[i]));
        DL_TRY(dl_dim_norm(counted ? i : dims->u.v[n + i], b->ndim, &with[i]));
        if (a->shape[from[i]] != b->shape[with[i]])
            return dl_fail(DL_ERR_SHAPE, "dimension %d of size %ld against dimension %d of size %ld", from[i],
                           a->shape[from[i]], with[i], b->shape[with[i]]);
    }
    if (a->ndim + b->ndim - 2 * n > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "the result would have more than %d dimensions", DL_MAX_DIM);
    dl_tensor *left = as_matrix(p, a, from, (int)n, true, shape, &nshape);
    dl_tensor *right = as_matrix(p, b, with, (int)n, false, shape, &nshape), *sums = K(dl_matmul(left, right));
    return dl_finish(c, sums ? dl_reshape(sums, shape, nshape) : NULL);
}

COMPOSE_RULE(vecdot) { return dl_finish(c, dl_products_sum(c->in[0], c->in[1], ATTR_I(c, VECDOT_DIM), false)); }

/* Powers as running products, as the gradient at 0 wants it. */
POOLED_RULE(vander) {
    dl_tensor *x = c->in[0];
    if (!x->ndim) return dl_fail(DL_ERR_SHAPE, "powers are of vectors, not of one number");
    const long n = ATTR(c, VANDER_N)->given ? ATTR_I(c, VANDER_N) : x->shape[x->ndim - 1], last = -1;
    long shape[DL_MAX_DIM], first[DL_MAX_DIM];
    if (n < 0 || x->ndim == DL_MAX_DIM) return dl_fail(DL_ERR_VALUE, "%ld powers", n);
    for (int i = 0; i < x->ndim; i++) shape[i] = first[i] = x->shape[i];
    shape[x->ndim] = n > 0 ? n - 1 : 0, first[x->ndim] = n > 0;
    dl_tensor *one = K(dl_ones(first, x->ndim + 1, (int)c->dtype, x->st->device)), *powers = one;
    if (n > 1) {
        long column[DL_MAX_DIM];
        memcpy(column, first, sizeof column);
        dl_tensor *line = K(dl_reshape(x, column, x->ndim + 1)),
                  *base = line ? K(dl_expand(line, shape, x->ndim + 1)) : NULL;
        dl_tensor *parts[2] = {one, base ? K(dl_cumprod(base, -1)) : NULL};
        powers = parts[1] ? K(dl_cat(parts, 2, -1)) : NULL;
    }
    if (!powers) return dl_failed();
    return dl_finish(c, ATTR_I(c, VANDER_INCREASING) ? dl_ref(powers) : dl_flip(powers, &last, 1));
}

/* ---- covariances: variables are rows, observations columns */

static dl_status check_weight(const dl_tensor *w, long n) {
    if (!w || (w->ndim == 1 && w->shape[0] == n)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "weights must have shape [%ld], one for each observation", n);
}

POOLED_RULE(cov) {
    dl_tensor *x = c->in[0], *f = INPUT(c, COV_FWEIGHTS), *a = INPUT(c, COV_AWEIGHTS), *w = NULL;
    const long last = -1;
    if (x->ndim > 2) return dl_fail(DL_ERR_SHAPE, "observations are a matrix or a vector, not %d-d", x->ndim);
    const long n = x->ndim ? x->shape[x->ndim - 1] : 1, rows = x->ndim == 2 ? x->shape[0] : 1;
    dl_tensor *m = K(dl_reshape(x, (long[]){rows, n}, 2));
    DL_TRY(check_weight(f, n));
    DL_TRY(check_weight(a, n));
    if (!m) return dl_failed();
    if (f) f = K(dl_to_dtype(f, c->dtype));
    if (a) a = K(dl_to_dtype(a, c->dtype));
    w = f && a ? K(dl_mul(f, a)) : f ? f : a;
    dl_tensor *total = w ? K(dl_sum(w, NULL, 0, 0)) : N((double)n);
    dl_tensor *lost = N((double)ATTR_I(c, COV_CORRECTION));
    if (a && w) lost = K(dl_mul(lost, K(dl_div(K(dl_sum(K(dl_mul(w, a)), NULL, 0, 0)), total))));
    dl_tensor *weighed = w ? K(dl_mul(m, w)) : m;
    dl_tensor *off = K(dl_sub(m, K(dl_div(K(dl_sum(weighed, &last, 1, 1)), total))));
    dl_tensor *turned = off ? K(dl_permute(w ? K(dl_mul(off, w)) : off, (long[]){1, 0}, 2)) : NULL;
    const double least = 0;
    dl_tensor *count = K(dl_clamp(K(dl_sub(total, lost)), &least, NULL));
    dl_tensor *square = turned ? K(dl_div(K(dl_matmul(off, turned)), count)) : NULL;
    return dl_finish(c, square ? dl_reshape(square, (long[]){rows, rows}, x->ndim == 2 ? 2 : 0) : NULL);
}

POOLED_RULE(corrcoef) {
    dl_tensor *v = K(dl_cov(c->in[0], NULL, NULL, 1));
    const double low = -1, high = 1;
    if (!v) return dl_failed();
    if (!v->ndim) return dl_finish(c, dl_div(v, v));
    dl_tensor *deviation = K(dl_sqrt(K(dl_diagonal(v, 0, 0, 1))));
    dl_tensor *column = deviation ? K(dl_reshape(deviation, (long[]){deviation->numel, 1}, 2)) : NULL;
    return dl_finish(c, dl_clamp(K(dl_div(K(dl_div(v, column)), deviation)), &low, &high));
}

/* ---- integrals by trapezoids */

/* Areas between neighbours along the dimension; x: their places, else they are dx apart. The half is taken of the
 * widths, which are few. */
static dl_tensor *areas(dl_call *c, dl_pool *p, int *d) {
    dl_tensor *y = c->in[0], *x = INPUT(c, AREAS_X), *width;
    const long one = 1, but_last = -1;
    if (!y->ndim) return dl_fail(DL_ERR_SHAPE, "a 0-d tensor has no neighbours"), NULL;
    if (dl_dim_norm(ATTR_I(c, AREAS_DIM), y->ndim, d) != DL_OK) return NULL;
    if (x && !x->ndim) return dl_fail(DL_ERR_SHAPE, "x is one number; write dx=..."), NULL;
    if (x && x->ndim == 1) {
        long shape[DL_MAX_DIM];
        for (int i = 0; i < y->ndim; i++) shape[i] = i == *d ? x->numel : 1;
        x = K(dl_reshape(x, shape, y->ndim));
    }
    width = x ? K(dl_mul(K(dl_diff(x, NULL, NULL, 1, *d - y->ndim)), N(0.5))) : N(0.5 * ATTR_F(c, AREAS_DX));
    dl_tensor *right = K(dl_slice(y, *d, &one, NULL, 1)),
              *left = y->shape[*d] ? K(dl_slice(y, *d, NULL, &but_last, 1)) : right;
    dl_tensor *sum = left && right ? K(dl_add(left, right)) : NULL;
    return sum && width ? K(dl_mul(sum, width)) : NULL;
}

/* With equal widths: the sum less half of both ends, times the width. */
static dl_tensor *even_areas(dl_call *c, dl_pool *p) {
    dl_tensor *y = c->in[0];
    int d;
    if (dl_dim_norm(ATTR_I(c, AREAS_DIM), y->ndim, &d) != DL_OK) return NULL;
    dl_tensor *ends = K(dl_add(K(dl_select(y, d, 0)), K(dl_select(y, d, -1)))), *sum = K(dl_sum(y, &(long){d}, 1, 0));
    return ends && sum ? dl_mul(K(dl_sub_scaled(sum, ends, 0.5)), N(ATTR_F(c, AREAS_DX))) : NULL;
}

/* With places x of one dimension: element i counts by half of the distance of its neighbours. */
static dl_tensor *weighed_areas(dl_pool *p, dl_tensor *y, dl_tensor *x, int d) {
    long shape[DL_MAX_DIM];
    dl_tensor *half = K(dl_mul(K(dl_diff(x, NULL, NULL, 1, 0)), N(0.5))); /* of n places n - 1 distances */
    dl_tensor *behind = half ? K(dl_pad(half, (long[]){1, 0}, 2, 0, "constant")) : NULL;
    dl_tensor *ahead = behind ? K(dl_pad(half, (long[]){0, 1}, 2, 0, "constant")) : NULL;
    for (int i = 0; i < y->ndim; i++) shape[i] = i == d ? y->shape[d] : 1;
    dl_tensor *weight = ahead ? K(dl_reshape(K(dl_add(behind, ahead)), shape, y->ndim)) : NULL;
    return weight ? dl_sum(K(dl_mul(y, weight)), &(long){d}, 1, 0) : NULL;
}

POOLED_RULE(trapezoid) {
    dl_tensor *y = c->in[0], *x = INPUT(c, AREAS_X);
    int d = y->ndim ? (int)ATTR_I(c, AREAS_DIM) : 0;
    d = d < 0 ? d + y->ndim : d;
    if (x && x->ndim == 1 && d >= 0 && d < y->ndim && y->shape[d] > 1 && x->shape[0] == y->shape[d])
        return dl_finish(c, weighed_areas(p, y, x, d));
    if (!INPUT(c, AREAS_X) && d >= 0 && d < y->ndim && y->shape[d]) return dl_finish(c, even_areas(c, p));
    dl_tensor *t = areas(c, p, &d);
    return dl_finish(c, t ? dl_sum(t, &(long){d}, 1, 0) : NULL);
}
POOLED_RULE(cumulative_trapezoid) {
    int d;
    dl_tensor *t = areas(c, p, &d);
    return dl_finish(c, t ? dl_cumsum(t, d) : NULL);
}

/* ---- norms */

COMPOSE_RULE(vector_norm) {
    return dl_finish(c, dl_norm(c->in[0], ATTR_V(c, VECTOR_NORM_DIM), ATTR_I(c, VECTOR_NORM_KEEPDIM) != 0,
                                ATTR_F(c, VECTOR_NORM_ORD)));
}

/* Of matrices in the last two dimensions: a sum of absolute values along one, the extreme along the other. */
static dl_tensor *sums_norm(dl_pool *p, dl_tensor *x, int summed, bool largest) {
    const long first = summed, other = -1;
    dl_tensor *sums = K(dl_sum(K(dl_abs(x)), &first, 1, 0));
    return largest ? K(dl_amax(sums, &other, 1, 0)) : K(dl_amin(sums, &other, 1, 0));
}
static dl_tensor *singular_norm(dl_pool *p, dl_tensor *x, const char *ord) {
    const long last = -1;
    dl_tensor *s = K(dl_svdvals(x));
    if (!strcmp(ord, "nuc")) return K(dl_sum(s, &last, 1, 0));
    return *ord == '-' ? K(dl_amin(s, &last, 1, 0)) : K(dl_amax(s, &last, 1, 0));
}

POOLED_RULE(matrix_norm) {
    dl_tensor *x = c->in[0], *n;
    const dl_aval *dims = ATTR(c, MATRIX_NORM_DIM);
    const char *ord = ATTR_S(c, MATRIX_NORM_ORD);
    int a, b;
    if (dims->n != 2 || x->ndim < 2) return dl_fail(DL_ERR_SHAPE, "a matrix has two dimensions");
    DL_TRY(dl_dim_norm(dims->u.v[0], x->ndim, &a));
    DL_TRY(dl_dim_norm(dims->u.v[1], x->ndim, &b));
    if (a == b) return dl_fail(DL_ERR_VALUE, "a matrix is in two dimensions, not in dimension %d alone", a);
    x = K(dl_movedim(x, (long[]){a, b}, 2, (long[]){-2, -1}, 2));
    if (!x) return dl_failed();
    char *end;
    const double power = strtod(ord, &end);
    const bool number = *ord && !*end;
    if (!strcmp(ord, "fro"))
        n = K(dl_norm(x, (long[]){-2, -1}, 2, 0, 2));
    else if (!strcmp(ord, "nuc") || (number && fabs(power) == 2))
        n = singular_norm(p, x, ord);
    else if (number && (fabs(power) == 1 || isinf(power)))
        n = sums_norm(p, x, isinf(power) ? -1 : -2, power > 0);
    else
        return dl_fail(DL_ERR_VALUE, "ord is fro, nuc, inf, -inf, 1, -1, 2 or -2, not '%s'", ord);
    long shape[DL_MAX_DIM];
    for (int i = 0; i < c->in[0]->ndim; i++) shape[i] = i == a || i == b ? 1 : c->in[0]->shape[i];
    if (!n || !ATTR_I(c, MATRIX_NORM_KEEPDIM)) RESULT(n);
    return dl_finish(c, dl_reshape(n, shape, c->in[0]->ndim));
}

/* Parts along a dimension whose norm is above maxnorm are scaled down to it. */
POOLED_RULE(renorm) {
    dl_tensor *x = c->in[0];
    const double most = ATTR_F(c, RENORM_MAXNORM);
    long others[DL_MAX_DIM];
    int d, n = 0;
    if (x->ndim < 2) return dl_fail(DL_ERR_SHAPE, "the input must have 2 dimensions or more, not %d", x->ndim);
    if (!(most >= 0)) return dl_fail(DL_ERR_VALUE, "maxnorm must be 0 or more, not %g", most);
    DL_TRY(dl_dim_norm(ATTR_I(c, RENORM_DIM), x->ndim, &d));
    for (int i = 0; i < x->ndim; i++)
        if (i != d) others[n++] = i;
    dl_tensor *norm = K(dl_norm(x, others, n, 1, ATTR_F(c, RENORM_P)));
    dl_tensor *factor = K(dl_div(N(most), K(dl_add(norm, N(1e-7)))));
    factor = factor ? K(dl_where(K(dl_gt(norm, N(most))), factor, N(1))) : NULL;
    dl_widening_ends(c);
    return dl_finish(c, dl_mul(x, factor));
}

/* Distances of rows from..to from the rows behind them. */
static dl_tensor *pairs(dl_tensor *x, long from, long to, double ord) {
    POOL;
    dl_tensor *rows = K(dl_slice(x, 0, &from, &to, 1)), *behind = K(dl_slice(x, 0, &from, NULL, 1));
    if (!rows || !behind) return NULL;
    const long m = rows->shape[0], n = behind->shape[0], zero = 0;
    dl_tensor *all = K(dl_cdist(rows, behind, ord, "donot_use_mm_for_euclid_dist")),
              *at = K(dl_triu_indices(m, n, 1, DL_I64, x->st->device));
    dl_tensor *row = at ? K(dl_select(at, 0, 0)) : NULL, *column = at ? K(dl_select(at, 0, 1)) : NULL;
    dl_tensor *place = row && column ? K(dl_add(K(dl_mul(row, K(dl_scalar_i(n)))), column)) : NULL;
    dl_tensor *flat = all ? K(dl_reshape(all, (long[]){m * n}, 1)) : NULL;
    return flat && place ? dl_index_select(flat, place, zero) : NULL;
}

/* Pairs i < j of the rows. The CPU takes bands of rows, which spares it nearly half of all pairs; for a GPU they would
 * be more launches. */
POOLED_RULE(pdist) {
    enum { BANDS = 8, BAND_FROM = 64 };
    dl_tensor *x = c->in[0], *part[BANDS];
    if (x->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "distances are of the rows of a matrix, not of %d dimensions", x->ndim);
    const long n = x->shape[0], bands = x->st->device || n < BAND_FROM ? 1 : BANDS;
    for (long i = 0; i < bands; i++)
        if (!(part[i] = K(pairs(x, i * n / bands, (i + 1) * n / bands, ATTR_F(c, PDIST_P))))) return dl_failed();
    return dl_finish(c, bands == 1 ? dl_ref(part[0]) : dl_cat(part, (int)bands, 0));
}
