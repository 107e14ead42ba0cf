/* Writing at indices. The last row of those with one index is found by last_place. To be joined, they are made
 * neighbours by sorting, joined in log2(n) steps, and the last of each run is written, so that the result does not
 * depend on the order in which a device works. */
#include "ops/compose/put.h"
#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/sort.h"
#include "dlcore/view.h"
#include "dlcore/where.h"

#include <string.h>

dl_status dl_put_how_of(const char *name, dl_put_how *how) {
    static const char *const names[] = {"sum", "prod", "mean", "amax", "amin"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(name, names[i])) return *how = (dl_put_how)(DL_PUT_SUM + i), DL_OK;
    return dl_fail(DL_ERR_VALUE, "reduce is sum, prod, mean, amax or amin, not '%s'", name);
}

dl_tensor *dl_put_index(dl_pool *p, dl_tensor *index, int dim, long size) {
    if (dl_check_index(index) != DL_OK) return NULL;
    dl_tensor *flat = K(dl_reshape(K(dl_to_dtype(index, DL_I64)), (long[]){index->numel}, 1));
    if (!flat || !index->numel) return flat;
    long least, most;
    if (dl_item_i(K(dl_amin(flat, NULL, 0, 0)), &least) != DL_OK ||
        dl_item_i(K(dl_amax(flat, NULL, 0, 0)), &most) != DL_OK)
        return NULL;
    if (least < -size || most >= size) return dl_fail_index(least < -size ? least : most, dim, size), NULL;
    if (least >= 0) return flat;
    return K(dl_where(K(dl_lt(flat, K(dl_scalar_i(0)))), K(dl_add(flat, K(dl_scalar_i(size)))), flat));
}

/* t, [n], as [n, 1, ...] with as many dimensions as `like`. */
static dl_tensor *as_column(dl_tensor *t, const dl_tensor *like) {
    long shape[DL_MAX_DIM];
    for (int i = 0; i < like->ndim; i++) shape[i] = i ? 1 : t->numel;
    return dl_reshape(t, shape, like->ndim);
}

/* How often each of n places is named. */
static dl_tensor *counts_of(dl_pool *p, dl_tensor *index, long n) {
    const int device = index->st->device;
    dl_tensor *none = K(dl_zeros(&n, 1, DL_I64, device)), *ones = K(dl_ones(&index->numel, 1, DL_I64, device));
    return none && ones ? K(dl_index_add(none, index, ones, 0)) : NULL;
}

static dl_tensor *joined(dl_put_how how, dl_tensor *a, dl_tensor *b) {
    return how == DL_PUT_PROD ? dl_mul(a, b) : how == DL_PUT_MAX ? dl_maximum(a, b) : dl_minimum(a, b);
}

/* One step: row i joined with the one `by` rows before, where both have one index. *any tells whether there was one.
 * Takes rows over. */
static dl_tensor *join_step(dl_tensor *rows, dl_tensor *place, long by, dl_put_how how, long *any) {
    POOL;
    K(rows);
    const long rest = place->numel - by;
    dl_tensor *first = K(dl_slice(place, 0, NULL, &rest, 1)), *second = K(dl_slice(place, 0, &by, NULL, 1));
    dl_tensor *same = first && second ? K(dl_eq(first, second)) : NULL;
    if (!same || dl_item_i(K(dl_any(same, NULL, 0, 0)), any) != DL_OK) return NULL;
    if (!*any) return dl_ref(rows);
    dl_tensor *head = K(dl_slice(rows, 0, NULL, &by, 1)), *left = K(dl_slice(rows, 0, NULL, &rest, 1));
    dl_tensor *right = K(dl_slice(rows, 0, &by, NULL, 1)), *column = K(as_column(same, rows));
    dl_tensor *both = left && right ? K(joined(how, left, right)) : NULL;
    dl_tensor *tail = both ? K(dl_where(column, both, right)) : NULL;
    return head && tail ? dl_cat((dl_tensor *[]){head, tail}, 2, 0) : NULL;
}

/* Rows and their places, sorted; of each run of one place the last row holds all of them joined. */
static dl_tensor *runs(dl_pool *p, dl_tensor *index, dl_tensor *src, dl_put_how how, dl_tensor **places) {
    dl_tensor *order = NULL, *sorted = K(dl_sort(index, 0, 0, &order));
    K(order);
    dl_tensor *rows = sorted ? dl_index_select(src, order, 0) : NULL;
    long any = 1;
    for (long by = 1; by < index->numel && any && rows; by *= 2) rows = join_step(rows, sorted, by, how, &any);
    K(rows);
    const long one = 1, before = index->numel - 1;
    dl_tensor *last = K(dl_ones(&one, 1, DL_BOOL, index->st->device));
    dl_tensor *next = rows ? K(dl_slice(sorted, 0, &one, NULL, 1)) : NULL;
    dl_tensor *other = next ? K(dl_ne(next, K(dl_slice(sorted, 0, NULL, &before, 1)))) : NULL;
    dl_tensor *ends = other && last ? K(dl_cat((dl_tensor *[]){other, last}, 2, 0)) : NULL;
    dl_tensor *at = ends ? K(dl_nonzero(ends)) : NULL;
    at = at ? K(dl_reshape(at, &at->shape[0], 1)) : NULL;
    *places = at ? K(dl_index_select(sorted, at, 0)) : NULL;
    return *places ? K(dl_index_select(rows, at, 0)) : NULL;
}

/* Rows at places that differ, in zeros. */
static dl_tensor *placed(dl_pool *p, dl_tensor *like, dl_tensor *places, dl_tensor *rows) {
    dl_tensor *zeros = K(dl_zeros(like->shape, like->ndim, like->dtype, like->st->device));
    return zeros && rows ? K(dl_index_add(zeros, places, rows, 0)) : NULL;
}

/* Whole numbers are divided downwards, as everywhere a mean of them is asked for. */
static dl_tensor *divided(dl_tensor *sum, dl_tensor *n) {
    return dl_dtype_is_smooth(sum->dtype) ? dl_div(sum, n) : dl_floor_divide(sum, n);
}

static dl_tensor *put_sums(dl_pool *p, dl_tensor *x, dl_tensor *index, dl_tensor *src, bool mean, bool keep) {
    if (keep && !mean) return K(dl_index_add(x, index, src, 0));
    dl_tensor *counts = counts_of(p, index, x->shape[0]), *zero = K(dl_scalar_i(0)), *from = x;
    if (!keep) {
        dl_tensor *hit = counts ? K(as_column(K(dl_gt(counts, zero)), x)) : NULL;
        from = hit ? K(dl_where(hit, K(dl_to_dtype(zero, x->dtype)), x)) : NULL;
    }
    dl_tensor *sum = counts && from ? K(dl_index_add(from, index, src, 0)) : NULL;
    if (!mean || !sum) return sum;
    dl_tensor *n = keep ? K(dl_add(counts, K(dl_scalar_i(1)))) : K(dl_clamp(counts, &(double){1}, NULL));
    return K(divided(sum, K(dl_to_dtype(K(as_column(n, x)), x->dtype))));
}

static dl_tensor *put_values(dl_tensor *x, dl_tensor *index, dl_tensor *src, dl_put_how how, bool keep) {
    POOL;
    if (how == DL_PUT_SUM || how == DL_PUT_MEAN) {
        dl_tensor *sums = put_sums(p, x, index, src, how == DL_PUT_MEAN, keep);
        return sums ? dl_ref(sums) : NULL;
    }
    if (how == DL_PUT_LAST) {
        dl_tensor *last = K(dl_last_place(index, x->shape[0])), *none = K(dl_scalar_i(0));
        dl_tensor *hit = last ? K(as_column(K(dl_ge(last, none)), x)) : NULL;
        dl_tensor *rows = hit ? K(dl_index_select(src, K(dl_maximum(last, none)), 0)) : NULL;
        return rows ? dl_where(hit, rows, x) : NULL;
    }
    dl_tensor *counts = counts_of(p, index, x->shape[0]), *places = index, *rows = src;
    long most;
    if (!counts || dl_item_i(K(dl_amax(counts, NULL, 0, 0)), &most) != DL_OK) return NULL;
    if (most > 1) rows = runs(p, index, src, how, &places);
    dl_tensor *there = rows && keep ? K(dl_index_select(x, places, 0)) : NULL;
    if (there) rows = K(joined(how, there, rows));
    dl_tensor *full = rows ? placed(p, x, places, rows) : NULL;
    dl_tensor *hit = full ? K(as_column(K(dl_gt(counts, K(dl_scalar_i(0)))), x)) : NULL;
    return hit ? dl_where(hit, full, x) : NULL;
}

/* t less its own value: 0 with the gradient of t where `won` holds, else a constant 0. */
static dl_tensor *share_of(dl_pool *p, dl_tensor *t, dl_tensor *won) {
    dl_tensor *off = K(dl_sub(t, K(dl_detach(t)))), *is = won ? K(dl_logical_and(won, K(dl_isfinite(t)))) : NULL;
    return is && off ? K(dl_where(is, off, K(dl_to_dtype(K(dl_scalar_i(0)), t->dtype)))) : NULL;
}

/* The largest or smallest, whose gradient goes in equal parts to all that are it. */
static dl_tensor *put_extremes(dl_tensor *x, dl_tensor *index, dl_tensor *src, dl_put_how how, bool keep) {
    POOL;
    dl_tensor *y, *own, *won, *n;
    {
        DL_SCOPED_GRAD_MODE(0);
        y = K(put_values(x, index, src, how, keep));
        dl_tensor *at = y ? K(dl_index_select(y, index, 0)) : NULL, *counts = counts_of(p, index, x->shape[0]);
        dl_tensor *free = counts ? K(as_column(K(dl_eq(counts, K(dl_scalar_i(0)))), x)) : NULL;
        won = at ? K(dl_eq(src, at)) : NULL;
        own = y ? K(dl_eq(x, y)) : NULL;
        if (!keep && free) own = K(dl_logical_and(own, free));
        n = own && won ? K(dl_index_add(K(dl_to_dtype(own, x->dtype)), index, K(dl_to_dtype(won, x->dtype)), 0)) : NULL;
    }
    if (!n) return NULL;
    dl_tensor *from_x = share_of(p, x, own), *from_src = share_of(p, src, won);
    dl_tensor *shares = from_x && from_src ? K(dl_index_add(from_x, index, from_src, 0)) : NULL;
    return shares ? dl_add(y, K(dl_div(shares, n))) : NULL;
}

dl_tensor *dl_put_rows(dl_tensor *x, dl_tensor *index, dl_tensor *src, dl_put_how how, bool keep) {
    if (!index->numel || !x->numel) return dl_index_add(x, index, src, 0);
    const bool tracked = dl_grad_mode_get() && (dl_requires_grad(x) || dl_requires_grad(src));
    const bool extreme = how == DL_PUT_MAX || how == DL_PUT_MIN;
    return (tracked && extreme ? put_extremes : put_values)(x, index, src, how, keep);
}

dl_tensor *dl_put_copy(dl_pool *p, dl_tensor *x) { return K(dl_is_contiguous(x) ? dl_clone(x) : dl_contiguous(x)); }

dl_tensor *dl_put_part(dl_tensor *copy, const dl_tensor *part, dl_tensor *src) {
    POOL;
    if (!dl_shape_eq(part, src))
        return dl_fail(DL_ERR_SHAPE, "the part has shape %s, the source %s", dl_shape_of(part), dl_shape_of(src)), NULL;
    if (!src->numel) return dl_ref(copy);
    dl_tensor *same = K(dl_to_dtype(src, copy->dtype));
    return same ? dl_as_strided_set(copy, same, part->shape, part->ndim, part->stride, part->ndim, part->offset) : NULL;
}
