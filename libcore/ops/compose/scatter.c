/* Ops that write elements at indices: scatter and its reductions, index_copy, index_fill, index_put, put; and those
 * that read or write by masks and flat indices. */
#include "ops/compose/put.h"
#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/grad.h"
#include "ops/rules/index.h"

#include <string.h>

/* ---- along a dimension */

/* The part of src that the index covers; a number of the language goes to each place. */
static dl_tensor *covered(dl_pool *p, const dl_call *c, dl_tensor *src, const dl_tensor *index) {
    const dl_tensor *x = c->in[0];
    if (src->weak || (!src->ndim && index->ndim)) {
        src = K(dl_to_device(K(dl_to_dtype(src, x->dtype)), x->st->device));
        return src ? K(dl_expand(src, index->shape, index->ndim)) : NULL;
    }
    if (src->dtype != x->dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert the source with .to(DTYPE)", "the source is %s, the input %s",
                            dl_type_of(src), dl_type_of(x)),
               NULL;
    bool fits = src->ndim == index->ndim;
    for (int i = 0; fits && i < index->ndim; i++) fits = index->shape[i] <= src->shape[i];
    if (!fits)
        return dl_fail(DL_ERR_SHAPE, "a source of shape %s does not cover an index of shape %s", dl_shape_of(src),
                       dl_shape_of(index)),
               NULL;
    for (int i = 0; src && i < index->ndim; i++) src = K(dl_slice(src, i, NULL, &index->shape[i], 1));
    return src;
}

static dl_status check_scatter(const dl_call *c, long dim, int *d) {
    const dl_tensor *x = c->in[0], *index = c->in[1];
    DL_TRY(dl_check_index(index));
    DL_TRY(dl_dim_norm(dim, x->ndim, d));
    bool ok = x->ndim == index->ndim || !index->numel;
    for (int i = 0; i < x->ndim && ok && index->numel; i++) ok = i == *d || index->shape[i] <= x->shape[i];
    if (ok) return DL_OK;
    return dl_fail(DL_ERR_SHAPE,
                   "an index of shape %s does not fit an input of shape %s: it needs as many dimensions, and sizes no "
                   "larger, but for dimension %d",
                   dl_shape_of(index), dl_shape_of(x), *d);
}

static dl_status scattered(dl_call *c, long dim, dl_put_how how, bool keep) {
    POOL;
    dl_tensor *x = c->in[0], *index = c->in[1], *src = c->in[2];
    int d;
    DL_TRY(check_scatter(c, dim, &d));
    if (index->ndim != x->ndim) return dl_finish(c, dl_clone(x)); /* without elements */
    src = covered(p, c, src, index);
    return dl_finish(c, src ? dl_put_elements(x, index, src, d, how, keep) : NULL);
}

COMPOSE_RULE(scatter) {
    const char *reduce = ATTR_S(c, SCATTER_REDUCE);
    bool none = !ATTR(c, SCATTER_REDUCE)->given || !*reduce || !strcmp(reduce, "none");
    if (!none && strcmp(reduce, "add") && strcmp(reduce, "multiply"))
        return dl_fail_hint(DL_ERR_VALUE, "scatter_reduce has other ways", "reduce is add or multiply, not '%s'",
                            reduce);
    dl_put_how how = none ? DL_PUT_LAST : !strcmp(reduce, "add") ? DL_PUT_SUM : DL_PUT_PROD;
    return scattered(c, ATTR_I(c, SCATTER_DIM), how, true);
}

COMPOSE_RULE(scatter_reduce) {
    dl_put_how how;
    DL_TRY(dl_put_how_of(ATTR_S(c, SCATTER_REDUCE_REDUCE), &how));
    return scattered(c, ATTR_I(c, SCATTER_REDUCE_DIM), how, ATTR_I(c, SCATTER_REDUCE_INCLUDE_SELF) != 0);
}

/* ---- rows of a dimension */

static dl_status index_rows(dl_call *c, long dim, dl_put_how how, bool keep) {
    POOL;
    dl_tensor *x = c->in[0], *index = c->in[1], *src = c->in[2];
    int d;
    DL_TRY(dl_dim_norm(dim, x->ndim, &d));
    if (index->ndim > 1)
        return dl_fail_hint(DL_ERR_SHAPE, "flatten it with reshape(index, [-1])",
                            "the index must be a list (1-d), not %d-d", index->ndim);
    if (src->dtype != x->dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert the source with .to(DTYPE)", "the source is %s, the input %s",
                            dl_type_of(src), dl_type_of(x));
    if (!x->ndim) x = K(dl_reshape(x, (long[]){1}, 1));
    if (!src->ndim) src = K(dl_reshape(src, (long[]){1}, 1));
    if (!x || !src) return dl_failed();
    bool fits = src->ndim == x->ndim && src->shape[d] == index->numel;
    for (int i = 0; fits && i < x->ndim; i++) fits = i == d || src->shape[i] == x->shape[i];
    if (!fits)
        return dl_fail(DL_ERR_SHAPE, "a source of shape %s does not fit %ld indices of dimension %d of shape %s",
                       dl_shape_of(src), (long)index->numel, d, dl_shape_of(x));
    dl_tensor *out = K(dl_put_rows(x, index, src, d, how, keep));
    return dl_finish(c, out ? dl_reshape(out, c->in[0]->shape, c->in[0]->ndim) : NULL);
}

POOLED_RULE(index_add_scaled) {
    const dl_aval *factor = ATTR(c, INDEX_ADD_SCALED_ALPHA);
    if (!factor->is_int && !dl_dtype_is_smooth((dl_dtype)c->in[0]->dtype))
        return dl_fail(DL_ERR_VALUE, "alpha must be a whole number for operands of %s, not %g",
                       dl_dtype_name((dl_dtype)c->in[0]->dtype), factor->u.f);
    dl_tensor *alpha = K(factor->is_int ? dl_scalar_i(factor->u.i) : dl_scalar_f(factor->u.f));
    return dl_finish(c, dl_index_add(c->in[0], c->in[1], K(dl_mul(c->in[2], alpha)), ATTR_I(c, INDEX_ADD_SCALED_DIM)));
}

COMPOSE_RULE(index_copy) { return index_rows(c, ATTR_I(c, INDEX_COPY_DIM), DL_PUT_LAST, true); }

COMPOSE_RULE(index_reduce) {
    dl_put_how how;
    DL_TRY(dl_put_how_of(ATTR_S(c, INDEX_REDUCE_REDUCE), &how));
    return index_rows(c, ATTR_I(c, INDEX_REDUCE_DIM), how, ATTR_I(c, INDEX_REDUCE_INCLUDE_SELF) != 0);
}

POOLED_RULE(index_fill) {
    dl_tensor *x = c->in[0], *index = c->in[1], *value = c->in[2];
    long shape[DL_MAX_DIM];
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, INDEX_FILL_DIM), x->ndim, &d));
    if (value->ndim)
        return dl_fail_hint(DL_ERR_SHAPE, "index_copy writes a row for each index",
                            "the value is a single one, not a tensor of shape %s", dl_shape_of(value));
    DL_TRY(dl_check_index(index));
    for (int i = 0; i < x->ndim; i++) shape[i] = i == d ? index->numel : x->shape[i];
    value = K(dl_to_device(K(dl_to_dtype(value, x->dtype)), x->st->device));
    dl_tensor *all = value ? K(dl_expand(value, shape, x->ndim)) : NULL;
    return dl_finish(c, all ? dl_put_rows(x, index, all, d, DL_PUT_LAST, true) : NULL);
}

/* ---- tuples of indices */

enum { MAX_INDICES = DL_MAX_DIM };
typedef struct places {
    dl_tensor *at[MAX_INDICES];
    int n;
} places;

/* A mask stands for the indices of its true elements. */
static dl_status add_indices(dl_pool *p, const dl_tensor *x, dl_tensor *index, places *list) {
    const int take = index->dtype == DL_BOOL ? index->ndim : 1;
    if (list->n + take > x->ndim)
        return dl_fail(DL_ERR_INDEX, "too many indices for a tensor of %d dimensions", x->ndim);
    if (index->dtype != DL_BOOL) {
        list->at[list->n++] = index;
        return dl_check_index(index);
    }
    for (int i = 0; i < take; i++)
        if (index->shape[i] != x->shape[list->n + i])
            return dl_fail(DL_ERR_SHAPE, "a mask of shape %s does not fit dimension %d of the tensor",
                           dl_shape_of(index), list->n);
    dl_tensor *rows = K(dl_nonzero(index));
    for (int i = 0; i < take && rows; i++) list->at[list->n++] = K(dl_select(rows, 1, i));
    return rows ? DL_OK : dl_failed();
}

/* Places in the first dimensions of x laid out as one, of indices that broadcast to its shape. */
static dl_tensor *place_of(dl_pool *p, const dl_tensor *x, const places *list) {
    return list->n == 1 ? list->at[0] : K(dl_joint_place((dl_tensor **)list->at, list->n, x->shape, list->n));
}

/* Are the values the same at all places of a single mask, so that they need no list of places? */
static bool same_values(const dl_call *c) {
    const dl_tensor *x = c->in[0], *values = c->in[1], *mask = c->nin == 3 ? c->in[2] : NULL;
    if (!mask || mask->dtype != DL_BOOL || mask->ndim + values->ndim > x->ndim || ATTR_I(c, INDEX_PUT_ACCUMULATE))
        return false;
    for (int i = 0; i < mask->ndim; i++)
        if (mask->shape[i] != x->shape[i]) return false;
    for (int i = 1; i <= values->ndim; i++)
        if (values->shape[values->ndim - i] != 1 && values->shape[values->ndim - i] != x->shape[x->ndim - i])
            return false;
    return true;
}

static dl_tensor *where_mask(dl_pool *p, dl_tensor *x, dl_tensor *mask, dl_tensor *values) {
    long shape[DL_MAX_DIM];
    for (int i = 0; i < x->ndim; i++) shape[i] = i < mask->ndim ? mask->shape[i] : 1;
    dl_tensor *wide = K(dl_reshape(mask, shape, x->ndim));
    return wide ? dl_where(wide, values, x) : NULL;
}

POOLED_RULE(index_put) {
    dl_tensor *x = c->in[0], *values = c->in[1];
    long shape[2 * DL_MAX_DIM], rows[DL_MAX_DIM];
    places list = {0};
    if (values->weak) values = K(dl_to_device(K(dl_to_dtype(values, x->dtype)), x->st->device));
    if (!values) return dl_failed();
    if (values->dtype != x->dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert the values with .to(DTYPE)", "the values are %s, the input %s",
                            dl_type_of(values), dl_type_of(x));
    if (same_values(c)) return dl_finish(c, where_mask(p, x, c->in[2], values));
    for (int i = 2; i < c->nin; i++) DL_TRY(add_indices(p, x, c->in[i], &list));
    dl_tensor *at = place_of(p, x, &list);
    if (!at) return dl_failed();
    const int rest = x->ndim - list.n, n = at->ndim;
    memcpy(shape, at->shape, sizeof at->shape);
    if (n + rest > DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "the values would have %d dimensions", n + rest);
    rows[0] = 1;
    for (int i = 0; i < list.n; i++) rows[0] *= x->shape[i];
    for (int i = 0; i < rest; i++) shape[n + i] = rows[i + 1] = x->shape[list.n + i];
    values = K(dl_expand(values, shape, n + rest));
    dl_tensor *whole = values ? K(dl_reshape(x, rows, rest + 1)) : NULL;
    rows[0] = at->numel;
    dl_tensor *from = whole ? K(dl_reshape(values, rows, rest + 1)) : NULL;
    dl_put_how how = ATTR_I(c, INDEX_PUT_ACCUMULATE) ? DL_PUT_SUM : DL_PUT_LAST;
    dl_tensor *out = from ? K(dl_put_rows(whole, at, from, 0, how, true)) : NULL;
    return dl_finish(c, out ? dl_reshape(out, x->shape, x->ndim) : NULL);
}

/* ---- flat indices and masks */

POOLED_RULE(take) {
    dl_tensor *x = c->in[0], *index = c->in[1];
    dl_tensor *row = K(dl_reshape(x, (long[]){x->numel}, 1)), *at = K(dl_reshape(index, (long[]){index->numel}, 1));
    dl_tensor *out = row && at ? K(dl_index_select(row, at, 0)) : NULL;
    return dl_finish(c, out ? dl_reshape(out, index->shape, index->ndim) : NULL);
}

POOLED_RULE(take_along_dim) {
    dl_tensor *x = c->in[0], *index = c->in[1];
    long own[DL_MAX_DIM], other[DL_MAX_DIM];
    int d;
    if (!ATTR(c, TAKE_ALONG_DIM_DIM)->given) {
        x = K(dl_reshape(x, (long[]){x->numel}, 1)), index = K(dl_reshape(index, (long[]){index->numel}, 1));
        return dl_finish(c, x && index ? dl_gather(x, index, 0) : NULL);
    }
    DL_TRY(dl_dim_norm(ATTR_I(c, TAKE_ALONG_DIM_DIM), x->ndim, &d));
    if (x->ndim != index->ndim)
        return dl_fail(DL_ERR_SHAPE, "input and indices have %d and %d dimensions", x->ndim, index->ndim);
    for (int i = 0; i < x->ndim; i++) {
        if (i != d && x->shape[i] != index->shape[i] && x->shape[i] != 1 && index->shape[i] != 1)
            return dl_fail(DL_ERR_SHAPE, "input %s and indices %s do not broadcast in dimension %d", dl_shape_of(x),
                           dl_shape_of(index), i);
        long both = x->shape[i] == 1 ? index->shape[i] : x->shape[i];
        own[i] = i == d ? x->shape[i] : both;
        other[i] = i == d ? index->shape[i] : both;
    }
    x = K(dl_expand(x, own, x->ndim)), index = K(dl_expand(index, other, index->ndim));
    return dl_finish(c, x && index ? dl_gather(x, index, d) : NULL);
}

/* The k-th place where the mask holds takes element k of the source. */
POOLED_RULE(place_masked) {
    dl_tensor *x = c->in[0], *mask = c->in[1], *source = c->in[2];
    dl_tensor *flat = K(dl_reshape(mask, (long[]){mask->numel}, 1)), *counts = flat ? K(dl_cumsum(flat, 0)) : NULL;
    dl_tensor *all = counts ? K(dl_reshape(source, (long[]){source->numel}, 1)) : NULL;
    if (all && !source->numel) all = K(dl_pad(all, (long[]){0, 1}, 2, 0, "constant"));
    if (!all) return dl_failed();
    /* -1, before the first place, stands for an element that is not used */
    dl_tensor *from = K(dl_sub(counts, K(dl_scalar_i(1)))), *picked = from ? K(dl_index_select(all, from, 0)) : NULL;
    dl_tensor *there = picked ? K(dl_reshape(picked, x->shape, x->ndim)) : NULL;
    return dl_finish(c, there ? dl_where(mask, there, x) : NULL);
}

POOLED_RULE(masked_scatter) {
    dl_tensor *x = c->in[0], *mask = c->in[1], *source = c->in[2];
    long count = 0;
    if (mask->dtype != DL_BOOL)
        return dl_fail_hint(DL_ERR_DTYPE, "compare, as in mask == 0, or convert with .to(bool)",
                            "the mask must be bool, not %s", dl_type_of(mask));
    if (source->dtype != x->dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert the source with .to(DTYPE)", "the source is %s, the input %s",
                            dl_type_of(source), dl_type_of(x));
    if (!(mask = K(dl_expand(mask, x->shape, x->ndim)))) return dl_failed();
    if (source->numel < x->numel) DL_TRY(dl_item_i(K(dl_sum(mask, NULL, 0, 0)), &count));
    if (count > source->numel)
        return dl_fail(DL_ERR_SHAPE, "the mask is true %ld times, and the source has %ld elements", count,
                       (long)source->numel);
    return dl_finish(c, dl_place_masked(x, mask, source));
}

GRAD_RULE(masked_scatter) {
    const dl_meta *x = META(MASKED_SCATTER_INPUT), *source = META(MASKED_SCATTER_SOURCE);
    dl_tensor *mask = IN_(MASKED_SCATTER_MASK);
    dl_tensor *wide = mask ? T(dl_expand(mask, x->shape, x->ndim)) : NULL;
    if (!wide) return dl_failed();
    GIVE(MASKED_SCATTER_INPUT, dl_where(wide, NUM(0), G0));
    if (!NEED(MASKED_SCATTER_SOURCE)) return DL_OK;
    long numel = 1;
    for (int i = 0; i < source->ndim; i++) numel *= source->shape[i];
    dl_tensor *used = T(dl_masked_select(G0, wide));
    dl_tensor *all = used ? T(dl_pad(used, (long[]){0, numel - used->numel}, 2, 0, "constant")) : NULL;
    return dl_give(b, DL_IN_MASKED_SCATTER_SOURCE, all ? dl_reshape(all, source->shape, source->ndim) : NULL);
}

/* What was picked goes back to its places. */
GRAD_RULE(masked_select) {
    const dl_meta *x = META(MASKED_SELECT_INPUT);
    dl_tensor *mask = IN_(MASKED_SELECT_MASK);
    long shape[DL_MAX_DIM];
    int n;
    if (!mask) return dl_failed();
    DL_TRY(dl_broadcast(x->ndim, x->shape, mask->ndim, mask->shape, &n, shape));
    dl_tensor *zeros = T(dl_full(shape, n, 0, G0->dtype, G0->st->device));
    return zeros ? dl_give(b, DL_IN_MASKED_SELECT_INPUT, dl_masked_scatter(zeros, mask, G0)) : dl_failed();
}

POOLED_RULE(put) {
    dl_tensor *x = c->in[0], *index = c->in[1], *source = c->in[2];
    if (source->numel != index->numel)
        return dl_fail(DL_ERR_SHAPE, "there are %ld indices and %ld elements to write", (long)index->numel,
                       (long)source->numel);
    if (source->dtype != x->dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert the source with .to(DTYPE)", "the source is %s, the input %s",
                            dl_type_of(source), dl_type_of(x));
    dl_tensor *row = K(dl_reshape(x, (long[]){x->numel}, 1)), *from = K(dl_reshape(source, (long[]){source->numel}, 1));
    dl_tensor *at = row && from ? K(dl_reshape(index, (long[]){index->numel}, 1)) : NULL;
    dl_tensor *out =
        at ? K(dl_put_rows(row, at, from, 0, ATTR_I(c, PUT_ACCUMULATE) ? DL_PUT_SUM : DL_PUT_LAST, true)) : NULL;
    return dl_finish(c, out ? dl_reshape(out, x->shape, x->ndim) : NULL);
}
