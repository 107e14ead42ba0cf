/* Reductions of segments of rows that lie one after another. */
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/rounding.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/index.h"

#include <math.h>
#include <string.h>

/* The reductions: as index_reduce has them, and the result without rows. */
static const struct reduction {
    const char *name, *join;
    double empty;
} reductions[] = {
    {"sum", "sum", 0}, {"mean", "sum", 0}, {"max", "amax", -INFINITY}, {"min", "amin", INFINITY}, {"prod", "prod", 1}};
enum { REDUCTIONS = sizeof reductions / sizeof *reductions };

static const struct reduction *reduction_named(const char *name) {
    for (int i = 0; i < REDUCTIONS; i++)
        if (!strcmp(reductions[i].name, name)) return &reductions[i];
    dl_fail(DL_ERR_VALUE, "reduce is sum, mean, max, min or prod, not '%s'", name);
    return NULL;
}

/* How many rows each segment has, i64 [batch, segments]. */
static dl_tensor *lengths_of(dl_call *c, dl_pool *p, int axis) {
    dl_tensor *lengths = INPUT(c, SEGMENT_REDUCE_LENGTHS), *offsets = INPUT(c, SEGMENT_REDUCE_OFFSETS),
              *given = lengths ? lengths : offsets;
    if (!given) return dl_fail(DL_ERR_VALUE, "lengths or offsets must be given"), NULL;
    if (dl_check_index(given) != DL_OK) return NULL;
    bool fits = given->ndim == axis + 1 && (lengths || given->shape[axis] > 0);
    for (int i = 0; fits && i < axis; i++) fits = given->shape[i] == c->in[0]->shape[i];
    if (!fits)
        return dl_fail(DL_ERR_SHAPE, "%s of shape %s do not go along dimension %d of data of shape %s",
                       lengths ? "lengths" : "offsets", dl_shape_text(given->ndim, given->shape), axis,
                       dl_shape_text(c->in[0]->ndim, c->in[0]->shape)),
               NULL;
    dl_tensor *whole = K(dl_to_dtype(given, DL_I64));
    return lengths || !whole ? whole : K(dl_diff(whole, NULL, NULL, 1, axis));
}

/* Lengths that are not negative and add up to the rows. */
static dl_status check_lengths(dl_pool *p, dl_tensor *lengths, int axis, long rows) {
    const long last = axis;
    long least = 0, bad = 0;
    if (lengths->numel) DL_TRY(dl_item_i(K(dl_amin(lengths, NULL, 0, 0)), &least));
    if (least < 0) return dl_fail(DL_ERR_VALUE, "a segment of %ld rows", least);
    dl_tensor *sum = K(dl_sum(lengths, &last, 1, 0));
    DL_TRY(dl_item_i(K(dl_any(K(dl_ne(sum, K(dl_scalar_i(rows)))), NULL, 0, 0)), &bad));
    return bad ? dl_fail(DL_ERR_VALUE, "the lengths of the segments must add up to the %ld rows", rows) : DL_OK;
}

/* [batch, ...] as one dimension, the rest of the shape behind it. */
static dl_tensor *flat(dl_pool *p, dl_tensor *t, long first, int axis) {
    long shape[DL_MAX_DIM] = {first};
    for (int i = axis + 1; i < t->ndim; i++) shape[i - axis] = t->shape[i];
    return K(dl_reshape(t, shape, t->ndim - axis));
}

/* y, [segments, ...], of rows x, joined with the start where one is given. */
static dl_tensor *joined(dl_call *c, dl_pool *p, const struct reduction *r, dl_tensor *x, dl_tensor *at,
                         dl_tensor *lengths) {
    const dl_aval *initial = ATTR(c, SEGMENT_REDUCE_INITIAL);
    long shape[DL_MAX_DIM] = {lengths->numel};
    for (int i = 1; i < x->ndim; i++) shape[i] = x->shape[i];
    dl_tensor *start = K(dl_full(shape, x->ndim, r->empty, (dl_dtype)x->dtype, x->st->device));
    dl_tensor *y = !start                   ? NULL
                   : strcmp(r->join, "sum") ? K(dl_index_reduce(start, at, x, 0, r->join, 0))
                                            : K(dl_index_add(start, at, x, 0));
    const double first = initial->given ? dl_aval_number(initial) : 0;
    if (!y) return NULL;
    if (initial->given)
        y = !strcmp(r->join, "sum")    ? K(dl_add(y, N(first)))
            : !strcmp(r->join, "prod") ? K(dl_mul(y, N(first)))
            : r->empty < 0             ? K(dl_clamp(y, &first, NULL))
                                       : K(dl_clamp(y, NULL, &first));
    if (strcmp(r->name, "mean")) return y;
    for (int i = 1; i < x->ndim; i++) shape[i] = 1;
    dl_tensor *count = K(dl_to_dtype(K(dl_reshape(lengths, shape, x->ndim)), (dl_dtype)x->dtype)),
              *none = K(dl_eq(count, N(0)));
    dl_tensor *safe = none ? K(dl_where(none, N(1), count)) : NULL, *mean = safe ? K(dl_div(y, safe)) : NULL;
    return mean && !initial->given ? K(dl_where(none, N(NAN), mean)) : mean;
}

POOLED_RULE(segment_reduce) {
    dl_tensor *x = c->in[0];
    const struct reduction *r = reduction_named(ATTR_S(c, SEGMENT_REDUCE_REDUCE));
    int axis;
    if (!r) return dl_failed();
    if (!dl_dtype_is_float((dl_dtype)x->dtype))
        return dl_fail(DL_ERR_DTYPE, "segments of floating numbers are reduced, not of %s", dl_type_of(x));
    DL_TRY(dl_dim_norm(ATTR_I(c, SEGMENT_REDUCE_AXIS), x->ndim, &axis));
    dl_tensor *lengths = lengths_of(c, p, axis);
    if (!lengths) return dl_failed();
    const long rows = x->shape[axis], all = -1;
    if (!ATTR_I(c, SEGMENT_REDUCE_UNSAFE)) DL_TRY(check_lengths(p, lengths, axis, rows));
    long batch = 1, shape[DL_MAX_DIM];
    for (int i = 0; i < axis; i++) batch *= x->shape[i];
    const double segments = (double)lengths->numel;
    dl_tensor *each = K(dl_reshape(lengths, &all, 1));
    dl_tensor *numbers = K(dl_arange(0, &segments, 1, DL_I64, x->st->device));
    dl_tensor *at = each && numbers ? K(dl_repeat_interleave(numbers, each, NULL)) : NULL;
    dl_tensor *y = at ? joined(c, p, r, flat(p, x, batch * rows, axis), at, each) : NULL;
    for (int i = 0; i < x->ndim; i++) shape[i] = i == axis ? lengths->shape[axis] : x->shape[i];
    return dl_finish(c, y ? dl_reshape(y, shape, x->ndim) : NULL);
}
