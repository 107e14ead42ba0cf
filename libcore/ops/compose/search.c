/* Ops that search, count or compare values by their order: searchsorted, bucketize, isin, unique, mode, kthvalue. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/index.h"
#include "ops/rules/sort.h"

#include <string.h>

/* ---- binary search */

dl_tensor *dl_ordered(dl_tensor *x) {
    DL_OWNED dl_tensor *plain = dl_detach(x);
    const unsigned t = DL_BIT(x->dtype);
    return plain ? dl_to_dtype(plain, t & DL_HALVES                           ? DL_F32
                                      : t & (DL_BIT(DL_BOOL) | DL_BIT(DL_U8)) ? DL_I32
                                                                              : x->dtype)
                 : NULL;
}

static dl_status find_places(dl_call *c, dl_tensor *rows, dl_tensor *values, bool right, bool narrow) {
    POOL;
    if (!rows->ndim) return dl_fail(DL_ERR_SHAPE, "the sorted values must have a dimension");
    rows = K(dl_ordered(rows)), values = K(dl_to_device(K(dl_ordered(values)), c->device));
    dl_tensor *found = rows && values ? K(dl_sorted_place(rows, values, right)) : NULL;
    return dl_finish(c, found && narrow ? dl_to(found, DL_I32) : found ? dl_ref(found) : NULL);
}

POOLED_RULE(searchsorted) {
    dl_tensor *rows = c->in[0], *order = INPUT(c, SEARCHSORTED_SORTER);
    const char *side = ATTR(c, SEARCHSORTED_SIDE)->given ? ATTR_S(c, SEARCHSORTED_SIDE) : NULL;
    bool right = ATTR_I(c, SEARCHSORTED_RIGHT) != 0;
    if (side && strcmp(side, "left") && strcmp(side, "right"))
        return dl_fail(DL_ERR_VALUE, "side is left or right, not '%s'", side);
    if (side && right && !strcmp(side, "left"))
        return dl_fail(DL_ERR_VALUE, "side=left and right=true contradict each other");
    right |= side && !strcmp(side, "right");
    if (order) {
        if (!dl_shape_eq(order, rows))
            return dl_fail(DL_ERR_SHAPE, "the sorter has shape %s, the values %s", dl_shape_of(order),
                           dl_shape_of(rows));
        rows = K(dl_gather(rows, order, -1));
    }
    return rows ? find_places(c, rows, c->in[1], right, ATTR_I(c, SEARCHSORTED_OUT_INT32) != 0) : dl_failed();
}

COMPOSE_RULE(bucketize) {
    if (c->in[1]->ndim != 1) return dl_fail(DL_ERR_SHAPE, "the boundaries must be 1-d, not %d-d", c->in[1]->ndim);
    return find_places(c, c->in[1], c->in[0], ATTR_I(c, BUCKETIZE_RIGHT) != 0, ATTR_I(c, BUCKETIZE_OUT_INT32) != 0);
}

/* ---- places laid out as one */

POOLED_RULE(unravelled) {
    const dl_aval *sizes = ATTR(c, UNRAVELLED_SIZES);
    dl_tensor *part[DL_MAX_DIM], *at = K(dl_detach(c->in[0]));
    DL_TRY(dl_check_index(c->in[0]));
    if (!sizes->n) return dl_fail(DL_ERR_VALUE, "there is an index for each dimension: one size or more");
    long rest = 1;
    for (int d = sizes->n; at && d--; rest *= sizes->u.v[d]) {
        if (sizes->u.v[d] < 0) return dl_fail(DL_ERR_VALUE, "size %ld is negative", sizes->u.v[d]);
        dl_tensor *rows = rest > 1 ? K(dl_floor_divide(at, K(dl_scalar_i(rest)))) : at;
        part[d] = d && sizes->u.v[d] ? K(dl_remainder(rows, K(dl_scalar_i(sizes->u.v[d])))) : rows;
    }
    return dl_finish(c, at ? dl_stack(part, sizes->n, -1) : NULL);
}

/* The k-th element that is not 0 stands where their running count comes to k: past the end where there is none. */
POOLED_RULE(nonzero_static) {
    dl_tensor *x = c->in[0];
    const long size = ATTR_I(c, NONZERO_STATIC_SIZE), shape[2] = {size, x->ndim};
    if (size < 0) return dl_fail(DL_ERR_VALUE, "size must be 0 or more, not %ld", size);
    dl_tensor *fill = N(0),
              *none = K(dl_full(shape, 2, (double)ATTR_I(c, NONZERO_STATIC_FILL_VALUE), DL_I64, c->device));
    if (!x->ndim || !x->numel || !size) RESULT(none);
    dl_tensor *row = K(dl_reshape(K(dl_detach(x)), &x->numel, 1)), *some = row ? K(dl_ne(row, fill)) : NULL;
    dl_tensor *count = some ? K(dl_cumsum(K(dl_to_dtype(some, DL_I64)), 0)) : NULL;
    dl_tensor *asked = K(dl_arange(1, &(double){(double)size + 1}, 1, DL_I64, c->device));
    dl_tensor *at = count && asked ? K(dl_sorted_place(count, asked, 0)) : NULL;
    dl_tensor *found = at ? K(dl_unravelled(at, x->shape, x->ndim)) : NULL;
    dl_tensor *there = at ? dl_with_dim(K(dl_lt(at, K(dl_scalar_i(x->numel)))), 1) : NULL;
    return dl_finish(c, found && there ? dl_where(K(there), found, none) : (dl_unref(there), NULL));
}

/* ---- sets */

/* Is the element that stands at the place found the one that was looked for? */
POOLED_RULE(isin) {
    dl_tensor *x = c->in[0], *set = c->in[1];
    const bool invert = ATTR_I(c, ISIN_INVERT) != 0;
    if (!set->numel) return dl_finish(c, dl_full(x->shape, x->ndim, invert, DL_BOOL, c->device));
    const long last = set->numel - 1;
    dl_tensor *row = K(dl_reshape(K(dl_detach(set)), (long[]){set->numel}, 1)),
              *sorted = row ? K(dl_sort(row, 0, 0, NULL)) : NULL;
    dl_tensor *line = K(dl_reshape(K(dl_detach(x)), (long[]){x->numel}, 1));
    dl_tensor *at = sorted && line ? K(dl_sorted_place(K(dl_ordered(sorted)), K(dl_ordered(line)), 0)) : NULL;
    dl_tensor *near = at ? K(dl_index_select(sorted, K(dl_minimum(at, K(dl_scalar_i(last)))), 0)) : NULL;
    dl_tensor *is = near ? K(invert ? dl_ne(near, line) : dl_eq(near, line)) : NULL;
    return dl_finish(c, is ? dl_reshape(is, x->shape, x->ndim) : NULL);
}

/* ---- unique */

/* Order that sorts the rows of t, [n, m], by their first column, then the second, ...: stable sorts from the last. */
static dl_tensor *row_order(dl_pool *outer, dl_tensor *t) {
    const double n = (double)t->shape[0];
    dl_tensor *order = dl_arange(0, &n, 1, DL_I64, t->st->device);
    for (long k = t->shape[1]; k-- > 0 && order;) {
        POOL;
        K(order);
        dl_tensor *column = K(dl_index_select(K(dl_select(t, 1, k)), order, 0)), *next = NULL;
        dl_tensor *sorted = column ? K(dl_sort(column, 0, 0, &next)) : NULL;
        K(next);
        order = sorted ? dl_index_select(order, next, 0) : NULL;
    }
    return dl_keep(outer, order);
}

/* Where a row differs from the one before it; the first does. */
static dl_tensor *starts_of(dl_pool *p, dl_tensor *rows) {
    const long one = 1, before = rows->shape[0] - 1;
    dl_tensor *first = K(dl_ones(&one, 1, DL_BOOL, rows->st->device));
    dl_tensor *next = K(dl_slice(rows, 0, &one, NULL, 1)), *last = next ? K(dl_slice(rows, 0, NULL, &before, 1)) : NULL;
    dl_tensor *other = last ? K(dl_any(K(dl_ne(next, last)), &one, 1, 0)) : NULL;
    return other && first ? K(dl_cat((dl_tensor *[]){first, other}, 2, 0)) : NULL;
}

/* Rows of t, [n, m], that are new, the group of each row, and how many are in each group. */
static dl_status group_rows(dl_call *c, dl_pool *p, dl_tensor *t, bool consecutive) {
    const double n = (double)t->shape[0];
    dl_tensor *order = consecutive ? K(dl_arange(0, &n, 1, DL_I64, t->st->device)) : row_order(p, t);
    dl_tensor *rows = order ? K(dl_index_select(t, order, 0)) : NULL, *starts = rows ? starts_of(p, rows) : NULL;
    dl_tensor *at = starts ? K(dl_nonzero(starts)) : NULL, *at_row = at ? K(dl_reshape(at, &at->shape[0], 1)) : NULL;
    dl_tensor *group = at_row ? K(dl_sub(K(dl_cumsum(starts, 0)), K(dl_scalar_i(1)))) : NULL;
    dl_tensor *none = group ? K(dl_zeros(&t->shape[0], 1, DL_I64, t->st->device)) : NULL;
    dl_tensor *zeros = none ? K(dl_zeros(&at->shape[0], 1, DL_I64, t->st->device)) : NULL;
    dl_tensor *ones = zeros ? K(dl_ones(&t->shape[0], 1, DL_I64, t->st->device)) : NULL;
    if (!ones) return dl_failed();
    c->out[0] = dl_index_select(rows, at_row, 0);
    c->out[1] = dl_index_add(none, order, group, 0);
    c->out[2] = dl_index_add(zeros, group, ones, 0);
    return c->out[0] && c->out[1] && c->out[2] ? DL_OK : dl_failed();
}

/* Replaces an output by a reshaped or permuted one, whose reference it takes. */
static dl_status put_output(dl_call *c, int i, dl_tensor *t) {
    if (!t) return dl_failed();
    dl_unref(c->out[i]);
    c->out[i] = t;
    return DL_OK;
}

static dl_status unique_along(dl_call *c, dl_tensor *x, int d, bool consecutive) {
    POOL;
    long order[DL_MAX_DIM], back[DL_MAX_DIM], shape[DL_MAX_DIM];
    for (int i = 0; i < x->ndim; i++) order[i] = i == 0 ? d : i <= d ? i - 1 : i;
    for (int i = 0; i < x->ndim; i++) back[order[i]] = i;
    dl_tensor *front = K(dl_permute(x, order, x->ndim));
    dl_tensor *rows =
        front ? K(dl_reshape(front, (long[]){x->shape[d], x->shape[d] ? x->numel / x->shape[d] : 0}, 2)) : NULL;
    if (!rows) return dl_failed();
    DL_TRY(group_rows(c, p, rows, consecutive));
    for (int i = 0; i < x->ndim; i++) shape[i] = i ? front->shape[i] : c->out[0]->shape[0];
    DL_TRY(put_output(c, 0, dl_reshape(c->out[0], shape, x->ndim)));
    return put_output(c, 0, dl_permute(c->out[0], back, x->ndim));
}

POOLED_RULE(unique_groups) {
    dl_tensor *x = K(dl_detach(c->in[0]));
    const bool consecutive = ATTR_I(c, UNIQUE_GROUPS_CONSECUTIVE) != 0;
    int d;
    if (!x) return dl_failed();
    if (ATTR(c, UNIQUE_GROUPS_DIM)->given) {
        DL_TRY(dl_dim_norm(ATTR_I(c, UNIQUE_GROUPS_DIM), x->ndim, &d));
        if (x->ndim) {
            if (!x->numel)
                return dl_fail(DL_ERR_SHAPE, "a tensor of shape %s has no entries to compare", dl_shape_of(x));
            return unique_along(c, x, d, consecutive);
        }
    }
    dl_tensor *column = K(dl_reshape(x, (long[]){x->numel, 1}, 2));
    if (!column) return dl_failed();
    if (!x->numel) {
        for (int i = 0; i < 3; i++)
            c->out[i] =
                dl_zeros(i == 1 ? x->shape : (long[]){0}, i == 1 ? x->ndim : 1, i ? DL_I64 : x->dtype, x->st->device);
        return c->out[0] && c->out[1] && c->out[2] ? DL_OK : dl_failed();
    }
    DL_TRY(group_rows(c, p, column, consecutive));
    DL_TRY(put_output(c, 0, dl_reshape(c->out[0], &c->out[0]->shape[0], 1)));
    return put_output(c, 1, dl_reshape(c->out[1], x->shape, x->ndim));
}

/* ---- elements of sorted rows */

/* values and places, of size 1 in dimension d, as the outputs. */
static dl_status give_both(dl_call *c, dl_tensor *values, dl_tensor *places, int d, bool keep) {
    long shape[DL_MAX_DIM];
    int n = 0;
    for (int i = 0; i < c->in[0]->ndim; i++)
        if (i != d || keep) shape[n++] = i == d ? 1 : c->in[0]->shape[i];
    c->out[0] = values && places ? dl_reshape(values, shape, n) : NULL;
    c->out[1] = c->out[0] ? dl_reshape(places, shape, n) : NULL;
    return c->out[1] ? DL_OK : dl_failed();
}

/* x with a dimension, and that along which it is sorted. */
static dl_status check_line(dl_pool *p, dl_tensor **x, long dim, int *d) {
    DL_TRY(dl_dim_norm(dim, (*x)->ndim, d));
    if (!(*x)->ndim && !(*x = K(dl_reshape(*x, (long[]){1}, 1)))) return dl_failed();
    return (*x)->shape[*d] ? DL_OK : dl_fail(DL_ERR_SHAPE, "dimension %d has no elements", *d);
}

POOLED_RULE(kthvalue) {
    dl_tensor *x = c->in[0];
    int d;
    DL_TRY(check_line(p, &x, ATTR_I(c, KTHVALUE_DIM), &d));
    const long k = ATTR_I(c, KTHVALUE_K), from = k - 1;
    if (k < 1 || k > x->shape[d])
        return dl_fail(DL_ERR_INDEX, "k must be 1 to %ld, the size of dimension %d, not %ld", x->shape[d], d, k);
    dl_tensor *places = K(dl_ranked_place(x, d, &from, 0)), *values = places ? K(dl_gather(x, places, d)) : NULL;
    return give_both(c, values, places, d, ATTR_I(c, KTHVALUE_KEEPDIM) != 0);
}

/* In sorted rows the first place where a run has become as long as the longest one. */
POOLED_RULE(mode) {
    dl_tensor *x = c->in[0], *order = NULL, *from = NULL;
    int d;
    DL_TRY(check_line(p, &x, ATTR_I(c, MODE_DIM), &d));
    const long one = 1, rest = x->shape[d] - 1, n = x->shape[d];
    long shape[DL_MAX_DIM];
    for (int i = 0; i < x->ndim; i++) shape[i] = i == d ? n : 1;
    dl_tensor *sorted = K(dl_sort(K(dl_detach(x)), d, 0, &order));
    K(order);
    dl_tensor *line = K(dl_arange(0, &(double){(double)n}, 1, DL_I64, x->st->device));
    dl_tensor *at = line && sorted ? K(dl_reshape(line, shape, x->ndim)) : NULL;
    dl_tensor *next = at ? K(dl_slice(sorted, d, &one, NULL, 1)) : NULL,
              *before = next ? K(dl_slice(sorted, d, NULL, &rest, 1)) : NULL;
    dl_tensor *later = before ? K(dl_slice(at, d, &one, NULL, 1)) : NULL, *zero = K(dl_scalar_i(0));
    dl_tensor *starts = later ? K(dl_where(K(dl_ne(next, before)), later, zero)) : NULL; /* 0 where a run continues */
    shape[d] = 1;
    for (int i = 0; i < x->ndim; i++) shape[i] = i == d ? 1 : x->shape[i];
    dl_tensor *first = K(dl_zeros(shape, x->ndim, DL_I64, x->st->device));
    dl_tensor *all = starts && first ? K(dl_cat((dl_tensor *[]){first, starts}, 2, d)) : NULL;
    dl_tensor *begin = all ? K(dl_cummax(all, d, &from)) : NULL;
    K(from);
    const long dim = d;
    dl_tensor *end = begin ? K(dl_argmax(K(dl_sub(at, begin)), &dim, 1)) : NULL;
    dl_tensor *places = end ? K(dl_gather(order, end, d)) : NULL, *values = places ? K(dl_gather(x, places, d)) : NULL;
    return give_both(c, values, places, d, ATTR_I(c, MODE_KEEPDIM) != 0);
}
