/* Writing at indices, by rows with kernels that take the last, the largest or smallest, or the sum of those for one
 * place. Products are joined here: elements of one place are made neighbours by sorting, joined in log2(n) steps, and
 * the last of each run is written, so that the result does not depend on the order in which a device works. */
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

#include <math.h>
#include <stdint.h>
#include <string.h>

dl_status dl_put_how_of(const char *name, dl_put_how *how) {
    static const char *const names[] = {"sum", "prod", "mean", "amax", "amin"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(name, names[i])) return *how = (dl_put_how)(DL_PUT_SUM + i), DL_OK;
    return dl_fail(DL_ERR_VALUE, "reduce is sum, prod, mean, amax or amin, not '%s'", name);
}

/* t, [n], as [n, 1, ...] with as many dimensions as `like`. */
static dl_tensor *as_column(dl_tensor *t, const dl_tensor *like) {
    long shape[DL_MAX_DIM];
    for (int i = 0; i < like->ndim; i++) shape[i] = i ? 1 : t->numel;
    return dl_reshape(t, shape, like->ndim);
}

/* ---- products */

/* An index with negative places counted from the end, flat; DL_ERR_INDEX for one out of range. */
static dl_tensor *put_index(dl_pool *p, dl_tensor *index, int dim, long size) {
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

/* One step: row i multiplied by the one `by` rows before, where both have one index. *any tells whether there was one.
 * Takes rows over. */
static dl_tensor *join_step(dl_tensor *rows, dl_tensor *place, long by, long *any) {
    POOL;
    K(rows);
    const long rest = place->numel - by;
    dl_tensor *first = K(dl_slice(place, 0, NULL, &rest, 1)), *second = K(dl_slice(place, 0, &by, NULL, 1));
    dl_tensor *same = first && second ? K(dl_eq(first, second)) : NULL;
    if (!same || dl_item_i(K(dl_any(same, NULL, 0, 0)), any) != DL_OK) return NULL;
    if (!*any) return dl_ref(rows);
    dl_tensor *head = K(dl_slice(rows, 0, NULL, &by, 1)), *left = K(dl_slice(rows, 0, NULL, &rest, 1));
    dl_tensor *right = K(dl_slice(rows, 0, &by, NULL, 1)), *column = K(as_column(same, rows));
    dl_tensor *both = left && right ? K(dl_mul(left, right)) : NULL;
    dl_tensor *tail = both ? K(dl_where(column, both, right)) : NULL;
    return head && tail ? dl_cat((dl_tensor *[]){head, tail}, 2, 0) : NULL;
}

/* Rows and their places, sorted; of each run of one place the last row holds the product of all. */
static dl_tensor *runs(dl_pool *p, dl_tensor *index, dl_tensor *src, dl_tensor **places) {
    dl_tensor *order = NULL, *sorted = K(dl_sort(index, 0, 0, &order));
    K(order);
    dl_tensor *rows = sorted ? dl_index_select(src, order, 0) : NULL;
    long any = 1;
    for (long by = 1; by < index->numel && any && rows; by *= 2) rows = join_step(rows, sorted, by, &any);
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

/* Rows of x, [n, ...], times the rows of src with their index in a list. */
static dl_tensor *multiplied(dl_tensor *x, dl_tensor *index, dl_tensor *src) {
    POOL;
    dl_tensor *places, *rows = runs(p, index, src, &places), *there = rows ? K(dl_index_select(x, places, 0)) : NULL;
    dl_tensor *all = there ? K(dl_mul(there, rows)) : NULL;
    return all ? dl_put_rows(x, places, all, 0, DL_PUT_LAST, true) : NULL;
}

/* For each element of an index along d, its place in x laid out as one row. */
static dl_tensor *flat_places(dl_pool *p, const dl_tensor *x, dl_tensor *index, int d) {
    long stride[DL_MAX_DIM];
    const int n = index->ndim;
    dl_strides_contiguous(x->ndim, x->shape, stride);
    dl_tensor *at = put_index(p, index, d, n ? x->shape[d] : 1);
    dl_tensor *sum = K(dl_mul(K(dl_reshape(at, index->shape, n)), K(dl_scalar_i(n ? stride[d] : 1))));
    for (int i = 0; i < n && sum; i++) {
        const double end = (double)index->shape[i];
        long line[DL_MAX_DIM];
        if (i == d) continue;
        for (int k = 0; k < n; k++) line[k] = k == i ? index->shape[i] : 1;
        dl_tensor *count = K(dl_arange(0, &end, 1, DL_I64, x->st->device));
        dl_tensor *step = count ? K(dl_mul(K(dl_reshape(count, line, n)), K(dl_scalar_i(stride[i])))) : NULL;
        sum = K(dl_add(sum, step));
    }
    return sum ? K(dl_reshape(sum, &index->numel, 1)) : NULL;
}

/* t with dimension d in front, or back in its place. */
static dl_tensor *to_front(dl_pool *p, dl_tensor *t, int d, bool back) {
    long order[DL_MAX_DIM];
    if (!t || !d) return t;
    for (int i = 0; i < t->ndim; i++)
        order[i] = back ? (i < d ? i + 1 : i == d ? 0 : i) : (i == 0 ? d : i <= d ? i - 1 : i);
    return K(dl_permute(t, order, t->ndim));
}

/* ---- all ways */

/* A dimension without elements has no place for any index, on whichever device. */
static dl_status check_room(const dl_tensor *x, const dl_tensor *index, int dim) {
    return x->ndim && !x->shape[dim] && index->numel ? dl_fail_index(0, dim, 0) : DL_OK;
}

/* Elements of src go to the places of `index` along dim. It repeats `list`, unless that is NULL. */
typedef struct put {
    dl_tensor *index, *list, *src;
    int dim;
} put;

static dl_tensor *product(dl_pool *p, dl_tensor *x, const put *a) {
    if (a->list) {
        dl_tensor *rows = to_front(p, x, a->dim, false), *from = to_front(p, a->src, a->dim, false);
        dl_tensor *at = rows && from ? put_index(p, a->list, a->dim, rows->shape[0]) : NULL;
        return to_front(p, at ? K(multiplied(rows, at, from)) : NULL, a->dim, true);
    }
    dl_tensor *at = flat_places(p, x, a->index, a->dim), *row = K(dl_reshape(x, &x->numel, 1));
    dl_tensor *values = K(dl_reshape(a->src, &a->src->numel, 1));
    dl_tensor *all = at && row && values ? K(multiplied(row, at, values)) : NULL;
    return all ? K(dl_reshape(all, x->shape, x->ndim)) : NULL;
}

/* A number on x's device, of its dtype. */
static dl_tensor *number_like(dl_pool *p, const dl_tensor *x, dl_tensor *number) {
    dl_tensor *same = K(dl_to_dtype(K(number), x->dtype));
    return same ? K(dl_to_device(same, x->st->device)) : NULL;
}

/* What joined with any value gives that value. */
static dl_tensor *neutral(dl_pool *p, const dl_tensor *x, dl_put_how how) {
    static const long least[DL_NDTYPE] = {[DL_I32] = INT32_MIN, [DL_I64] = INT64_MIN};
    static const long most[DL_NDTYPE] = {[DL_BOOL] = 1, [DL_U8] = 255, [DL_I32] = INT32_MAX, [DL_I64] = INT64_MAX};
    if (how != DL_PUT_MAX && how != DL_PUT_MIN) return number_like(p, x, dl_scalar_i(how == DL_PUT_PROD));
    if (dl_dtype_is_smooth(x->dtype)) return number_like(p, x, dl_scalar_f(how == DL_PUT_MAX ? -INFINITY : INFINITY));
    return number_like(p, x, dl_scalar_i((how == DL_PUT_MAX ? least : most)[x->dtype]));
}

static dl_tensor *add_at(const put *a, dl_tensor *x, dl_tensor *v) {
    if (!x || !v) return NULL;
    return a->list ? dl_index_add(x, a->list, v, a->dim) : dl_scatter_add(x, a->index, v, a->dim);
}

/* How many elements each place of x joins, itself included if `keep` is set, else 1 at least. */
static dl_tensor *counts(dl_pool *p, const dl_tensor *x, const put *a, bool keep) {
    const dl_dtype dtype = !dl_dtype_is_smooth(x->dtype) ? DL_I64 : x->dtype == DL_F64 ? DL_F64 : DL_F32;
    const int device = x->st->device;
    const dl_tensor *index = a->list ? a->list : a->index;
    long shape[DL_MAX_DIM], column[DL_MAX_DIM];
    for (int i = 0; i < x->ndim; i++) shape[i] = column[i] = !a->list || i == a->dim ? x->shape[i] : 1;
    if (a->list) shape[0] = shape[a->dim];
    dl_tensor *none = K(dl_full(shape, a->list ? 1 : x->ndim, keep, dtype, device)), *n;
    dl_tensor *one = K(dl_full(column, 0, 1, dtype, device)),
              *ones = one ? K(dl_expand(one, index->shape, index->ndim)) : NULL;
    if (!none || !ones) return NULL;
    n = K(a->list ? dl_index_add(none, a->list, ones, 0) : dl_scatter_add(none, a->index, ones, a->dim));
    if (n && !keep) n = K(dl_clamp(n, &(double){1}, NULL));
    return n ? K(dl_reshape(K(dl_to_dtype(n, x->dtype)), column, x->ndim)) : NULL;
}

/* Whole numbers are divided downwards, as everywhere a mean of them is asked for. */
static dl_tensor *divided(dl_tensor *sum, dl_tensor *n) {
    if (!sum || !n) return NULL;
    return dl_dtype_is_smooth(sum->dtype) ? dl_div(sum, n) : dl_floor_divide(sum, n);
}

static dl_tensor *put_all(dl_tensor *x, const put *a, dl_put_how how, bool keep) {
    POOL;
    if (how == DL_PUT_LAST) return dl_put_last(x, a->index, a->src, a->dim);
    if (!keep) {
        dl_tensor *none = neutral(p, x, how), *all = none ? K(dl_expand(none, a->index->shape, x->ndim)) : NULL;
        if (!all || !(x = K(dl_put_last(x, a->index, all, a->dim)))) return NULL;
    }
    if (how == DL_PUT_PROD) return dl_ref(product(p, x, a));
    if (how == DL_PUT_MAX || how == DL_PUT_MIN) return dl_put_best(x, a->index, a->src, a->dim, how == DL_PUT_MAX);
    dl_tensor *sum = add_at(a, x, a->src);
    return how == DL_PUT_MEAN ? divided(K(sum), counts(p, x, a, keep)) : sum;
}

dl_tensor *dl_put_elements(dl_tensor *x, dl_tensor *index, dl_tensor *src, int dim, dl_put_how how, bool keep) {
    POOL;
    if (check_room(x, index, dim) != DL_OK) return NULL;
    if (index->numel && x->numel) return put_all(x, &(put){index, NULL, src, dim}, how, keep);
    dl_tensor *row = K(dl_reshape(x, &x->numel, 1)), *values = K(dl_reshape(src, &src->numel, 1));
    dl_tensor *at = K(dl_reshape(index, &index->numel, 1));
    dl_tensor *out = row && values && at ? K(dl_index_add(row, at, values, 0)) : NULL;
    return out ? dl_reshape(out, x->shape, x->ndim) : NULL;
}

dl_tensor *dl_put_rows(dl_tensor *x, dl_tensor *index, dl_tensor *src, int dim, dl_put_how how, bool keep) {
    POOL;
    long shape[DL_MAX_DIM];
    if (check_room(x, index, dim) != DL_OK) return NULL;
    if (!index->numel || !x->numel) return dl_index_add(x, index, src, dim);
    for (int i = 0; i < x->ndim; i++) shape[i] = i == dim ? index->numel : 1;
    dl_tensor *list = K(dl_reshape(index, &index->numel, 1)),
              *column = list ? K(dl_reshape(list, shape, x->ndim)) : NULL;
    dl_tensor *all = column ? K(dl_expand(column, src->shape, src->ndim)) : NULL;
    return all ? put_all(x, &(put){all, list, src, dim}, how, keep) : NULL;
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
