/* Slopes of values at places, and counts of examples between edges: what torch.gradient and histogram compute. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/reduce.h"

/* ---- slopes */

/* Elements from .. n + to of dimension d. */
static dl_tensor *part(dl_pool *p, dl_tensor *t, int d, long from, long to) {
    return t ? K(dl_slice(t, d, &from, to < 0 ? &to : NULL, 1)) : NULL;
}

/* Element i of dimension d, which stays. */
static dl_tensor *at(dl_pool *p, dl_tensor *t, int d, long i) {
    const long n = t->shape[d], k = i < 0 ? i + n : i, end = k + 1;
    return K(dl_slice(t, d, &k, &end, 1));
}

/* The slope at the middle of three places, h before and k behind it; `first`: at the first of them. */
static dl_tensor *slope(dl_pool *outer, dl_tensor *h, dl_tensor *k, dl_tensor *const x[3], bool first) {
    POOL;
    dl_tensor *both = K(dl_add(h, k)), *middle = first ? both : K(dl_sub(k, h)), *minus = K(dl_neg(h));
    dl_tensor *left = K(dl_neg(first ? K(dl_add(both, h)) : k));
    dl_tensor *a = K(dl_mul(K(dl_div(left, K(dl_mul(h, both)))), x[0]));
    dl_tensor *b = K(dl_mul(K(dl_div(middle, K(dl_mul(h, k)))), x[1]));
    dl_tensor *c = K(dl_mul(K(dl_div(first ? minus : h, K(dl_mul(k, both)))), x[2]));
    return dl_keep(outer, dl_add(K(dl_add(a, b)), c));
}

/* (b - a) / h */
static dl_tensor *quotient(dl_pool *p, dl_tensor *a, dl_tensor *b, dl_tensor *h) {
    return K(dl_div(K(dl_sub(b, a)), h));
}

/* Distances of neighbours as they broadcast along dimension d; NULL: an error. */
static dl_tensor *distances(dl_pool *p, dl_tensor *places, const dl_tensor *x, int d) {
    long shape[DL_MAX_DIM];
    if (places->ndim != 1 || places->shape[0] != x->shape[d])
        return dl_fail(DL_ERR_SHAPE, "dimension %d has %ld elements, their places have shape %s", d, x->shape[d],
                       dl_shape_of(places)),
               NULL;
    for (int i = 0; i < x->ndim; i++) shape[i] = i == d ? x->shape[d] : 1;
    dl_tensor *line = K(dl_reshape(K(dl_to_dtype(places, dl_dtype_of_parts(x->dtype))), shape, x->ndim));
    return line ? K(dl_sub(part(p, line, d, 1, 0), part(p, line, d, 0, -1))) : NULL;
}

/* The slope at an end; h: distances, or one for all. */
static dl_tensor *end_slope(dl_pool *p, dl_tensor *x, dl_tensor *h, int d, bool front, bool square) {
    const long i = front ? 0 : -1, step = front ? 1 : -1;
    dl_tensor *near = h->ndim ? at(p, h, d, i) : h, *sign = front ? near : K(dl_neg(near));
    if (!square) return quotient(p, at(p, x, d, i), at(p, x, d, i + step), sign);
    dl_tensor *far = h->ndim ? at(p, h, d, i + step) : h;
    dl_tensor *three[3] = {at(p, x, d, i), at(p, x, d, i + step), at(p, x, d, i + 2 * step)};
    return near && far ? slope(p, sign, front ? far : K(dl_neg(far)), three, true) : NULL;
}

static dl_status check_slope(const dl_call *c, int *d) {
    const dl_tensor *x = c->in[0];
    const long order = ATTR_I(c, GRADIENT_ALONG_EDGE_ORDER);
    if (!x->ndim) return dl_fail(DL_ERR_SHAPE, "a number has no slope: the tensor has no dimensions");
    DL_TRY(dl_dim_norm(ATTR_I(c, GRADIENT_ALONG_DIM), x->ndim, d));
    if (order != 1 && order != 2) return dl_fail(DL_ERR_VALUE, "edge_order is 1 or 2, not %ld", order);
    if (x->shape[*d] > order) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "dimension %d has %ld elements, and edge_order=%ld needs %ld", *d, x->shape[*d], order,
                   order + 1);
}

POOLED_RULE(gradient_along) {
    dl_tensor *x = c->in[0], *places = INPUT(c, GRADIENT_ALONG_PLACES), *inner = NULL;
    const bool square = ATTR_I(c, GRADIENT_ALONG_EDGE_ORDER) == 2;
    int d;
    DL_TRY(check_slope(c, &d));
    if (!dl_dtype_is_smooth(x->dtype) && !(x = K(dl_to_dtype(x, DL_F32)))) return dl_failed();
    dl_tensor *h = places ? distances(p, places, x, d) : N(ATTR_F(c, GRADIENT_ALONG_SPACING));
    if (!h) return dl_failed();
    if (x->shape[d] > 2) {
        dl_tensor *three[3] = {part(p, x, d, 0, -2), part(p, x, d, 1, -1), part(p, x, d, 2, 0)};
        inner = places ? slope(p, part(p, h, d, 0, -1), part(p, h, d, 1, 0), three, false)
                       : quotient(p, three[0], three[2], K(dl_mul(h, N(2))));
        if (!inner) return dl_failed();
    }
    dl_tensor *front = end_slope(p, x, h, d, true, square), *back = end_slope(p, x, h, d, false, square);
    if (!front || !back) return dl_failed();
    return dl_finish(c, inner ? dl_cat((dl_tensor *[]){front, inner, back}, 3, d)
                              : dl_cat((dl_tensor *[]){front, back}, 2, d));
}

/* ---- counts */

/* In which interval each number lies; *in: whether it lies in one. */
static dl_tensor *interval_of(dl_pool *p, dl_tensor *x, dl_tensor *edges, dl_tensor **in) {
    const long bins = edges->numel - 1;
    dl_tensor *upto = K(dl_searchsorted(edges, x, NULL, 0, 1, NULL));
    dl_tensor *place = upto ? K(dl_sub(upto, K(dl_scalar_i(1)))) : NULL;
    dl_tensor *end = place ? K(dl_eq(x, K(dl_select(edges, 0, -1)))) : NULL;
    place = end ? K(dl_where(end, K(dl_scalar_i(bins - 1)), place)) : NULL;
    *in = place ? K(dl_logical_and(K(dl_ge(place, K(dl_scalar_i(0)))), K(dl_lt(place, K(dl_scalar_i(bins)))))) : NULL;
    return *in ? place : NULL;
}

static dl_status check_edges(const dl_call *c) {
    const dl_tensor *x = c->in[0], *w = INPUT(c, HISTOGRAM_COUNTS_WEIGHT);
    const int n = c->nin - 2;
    if (n < 1 || n > DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "1 to %d lists of edges are needed, not %d", DL_MAX_DIM, n);
    if (!dl_dtype_is_float(x->dtype))
        return dl_fail_hint(DL_ERR_DTYPE, "bincount counts integers", "a histogram is of floating numbers, not of %s",
                            dl_type_of(x));
    if (x->ndim != 2 || x->shape[1] != n)
        return dl_fail(DL_ERR_SHAPE, "examples are rows with a number for each of %d lists of edges, not of shape %s",
                       n, dl_shape_of(x));
    for (int i = 2; i < c->nin; i++)
        if (c->in[i]->ndim != 1 || c->in[i]->numel < 2)
            return dl_fail(DL_ERR_SHAPE, "edges are two numbers or more in a row, not of shape %s",
                           dl_shape_of(c->in[i]));
    if (w && w->numel != x->shape[0])
        return dl_fail(DL_ERR_SHAPE, "there are %ld examples and %ld weights", x->shape[0], (long)w->numel);
    return DL_OK;
}

/* Counts divided by their sum and by the sizes of the boxes. */
static dl_tensor *density_of(dl_pool *p, dl_tensor *counts, dl_tensor *const *edges, int n) {
    dl_tensor *out = K(dl_div(counts, K(dl_sum(counts, NULL, 0, 0))));
    for (int i = 0; i < n && out; i++) {
        long shape[DL_MAX_DIM];
        for (int k = 0; k < n; k++) shape[k] = k == i ? counts->shape[i] : 1;
        dl_tensor *width = K(dl_sub(part(p, edges[i], 0, 1, 0), part(p, edges[i], 0, 0, -1)));
        dl_tensor *wide = width ? K(dl_reshape(width, shape, n)) : NULL;
        out = wide ? K(dl_div(out, wide)) : NULL;
    }
    return out;
}

POOLED_RULE(histogram_counts) {
    DL_TRY(check_edges(c));
    dl_tensor *x = K(dl_detach(c->in[0])), *w = c->in[1], *edges[DL_MAX_DIM], *box = NULL, *all = NULL;
    const int n = c->nin - 2;
    long shape[DL_MAX_DIM], boxes = 1;
    for (int i = 0; i < n && x; i++) {
        dl_tensor *in, *column = K(dl_contiguous(K(dl_select(x, 1, i))));
        if (!column || !(edges[i] = K(dl_to_dtype(K(dl_detach(c->in[i + 2])), x->dtype)))) return dl_failed();
        boxes *= shape[i] = edges[i]->numel - 1;
        dl_tensor *place = interval_of(p, column, edges[i], &in);
        if (!place) return dl_failed();
        box = box ? K(dl_add(K(dl_mul(box, K(dl_scalar_i(shape[i])))), place)) : place;
        all = all ? K(dl_logical_and(all, in)) : in;
    }
    if (!box || !all) return dl_failed();
    dl_tensor *index = K(dl_where(all, box, K(dl_scalar_i(0)))), *each = K(dl_to_dtype(all, x->dtype));
    if (w && each) each = K(dl_mul(each, K(dl_reshape(K(dl_to_dtype(K(dl_detach(w)), x->dtype)), x->shape, 1))));
    dl_tensor *none = K(dl_zeros(&boxes, 1, x->dtype, x->st->device));
    dl_tensor *row = index && each && none ? K(dl_index_add(none, index, each, 0)) : NULL;
    dl_tensor *counts = row ? K(dl_reshape(row, shape, n)) : NULL;
    if (!counts || !ATTR_I(c, HISTOGRAM_COUNTS_DENSITY)) RESULT(counts);
    dl_tensor *density = density_of(p, counts, edges, n);
    RESULT(density);
}
