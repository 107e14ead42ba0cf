/* Ops that write elements at indices: scatter and its reductions, index_copy, index_fill, index_put, put; and those
 * that read or write by masks and flat indices. */
#include "ops/compose/put.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "dlcore/where.h"
#include "ops/rules/index.h"

#include <string.h>

/* ---- along a dimension */

/* For each element of an index of `shape` along d, its place in x laid out as one row. */
static dl_tensor *flat_places(dl_pool *p, const dl_tensor *x, dl_tensor *index, int d, const long *shape, int n) {
    long stride[DL_MAX_DIM];
    dl_strides_contiguous(x->ndim, x->shape, stride);
    dl_tensor *sum = K(dl_mul(K(dl_reshape(index, shape, n)), K(dl_scalar_i(n ? stride[d] : 1))));
    for (int i = 0; i < n && sum; i++) {
        const double end = (double)shape[i];
        long line[DL_MAX_DIM];
        if (i == d) continue;
        for (int k = 0; k < n; k++) line[k] = k == i ? shape[i] : 1;
        dl_tensor *count = K(dl_arange(0, &end, 1, DL_I64, x->st->device));
        dl_tensor *step = count ? K(dl_mul(K(dl_reshape(count, line, n)), K(dl_scalar_i(stride[i])))) : NULL;
        sum = K(dl_add(sum, step));
    }
    return sum ? K(dl_reshape(sum, (long[]){index->numel}, 1)) : NULL;
}

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
    dl_tensor *places = src ? dl_put_index(p, index, d, x->ndim ? x->shape[d] : 1) : NULL;
    if (!places) return dl_failed();
    places = flat_places(p, x, places, d, index->shape, index->ndim);
    dl_tensor *row = K(dl_reshape(x, (long[]){x->numel}, 1)), *values = K(dl_reshape(src, (long[]){index->numel}, 1));
    dl_tensor *out = places && row && values ? K(dl_put_rows(row, places, values, how, keep)) : NULL;
    return dl_finish(c, out ? dl_reshape(out, x->shape, x->ndim) : NULL);
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

/* t with dimension d in front, or back in its place. */
static dl_tensor *to_front(dl_pool *p, dl_tensor *t, int d, bool back) {
    long order[DL_MAX_DIM];
    if (!t || !d) return t;
    for (int i = 0; i < t->ndim; i++)
        order[i] = back ? (i < d ? i + 1 : i == d ? 0 : i) : (i == 0 ? d : i <= d ? i - 1 : i);
    return K(dl_permute(t, order, t->ndim));
}

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
    index = dl_put_index(p, index, d, x->shape[d]);
    dl_tensor *rows = to_front(p, x, d, false), *from = to_front(p, src, d, false);
    dl_tensor *out = index && rows && from ? K(dl_put_rows(rows, index, from, how, keep)) : NULL;
    out = to_front(p, out, d, true);
    return dl_finish(c, out ? dl_reshape(out, c->in[0]->shape, c->in[0]->ndim) : NULL);
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
    const long n = x->ndim ? x->shape[d] : 1;
    for (int i = 0; i < x->ndim; i++) shape[i] = i == d ? n : 1;
    index = dl_put_index(p, index, d, n);
    dl_tensor *hit = index ? K(dl_ge(K(dl_last_place(index, n)), K(dl_scalar_i(0)))) : NULL;
    dl_tensor *mask = hit ? K(dl_reshape(hit, shape, x->ndim)) : NULL;
    return dl_finish(c, mask ? dl_masked_fill(x, mask, value) : NULL);
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
        dl_tensor *flat = dl_put_index(p, index, list->n, x->shape[list->n]);
        list->at[list->n++] = flat ? K(dl_reshape(flat, index->shape, index->ndim)) : NULL;
        return list->at[list->n - 1] ? DL_OK : dl_failed();
    }
    for (int i = 0; i < take; i++)
        if (index->shape[i] != x->shape[list->n + i])
            return dl_fail(DL_ERR_SHAPE, "a mask of shape %s does not fit dimension %d of the tensor",
                           dl_shape_of(index), list->n);
    dl_tensor *rows = K(dl_nonzero(index));
    for (int i = 0; i < take && rows; i++) list->at[list->n++] = K(dl_select(rows, 1, i));
    return rows ? DL_OK : dl_failed();
}

/* Places in the first dimensions of x laid out as one, [m], of indices that broadcast to shape. */
static dl_tensor *place_of(dl_pool *p, const dl_tensor *x, const places *list, long *shape, int *ndim) {
    dl_tensor *sum = NULL;
    *ndim = 0;
    for (int i = 0; i < list->n; i++) {
        dl_tensor *scaled = sum ? K(dl_mul(sum, K(dl_scalar_i(x->shape[i])))) : NULL;
        sum = sum ? K(dl_add(scaled, list->at[i])) : list->at[i];
        if (!sum) return NULL;
    }
    *ndim = sum->ndim;
    memcpy(shape, sum->shape, sizeof sum->shape);
    return K(dl_reshape(sum, (long[]){sum->numel}, 1));
}

POOLED_RULE(index_put) {
    dl_tensor *x = c->in[0], *values = c->in[1];
    long shape[2 * DL_MAX_DIM], rows[DL_MAX_DIM];
    places list = {0};
    int n;
    for (int i = 2; i < c->nin; i++) DL_TRY(add_indices(p, x, c->in[i], &list));
    dl_tensor *at = place_of(p, x, &list, shape, &n);
    if (!at) return dl_failed();
    const int rest = x->ndim - list.n;
    if (n + rest > DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "the values would have %d dimensions", n + rest);
    rows[0] = 1;
    for (int i = 0; i < list.n; i++) rows[0] *= x->shape[i];
    for (int i = 0; i < rest; i++) shape[n + i] = rows[i + 1] = x->shape[list.n + i];
    if (values->weak) values = K(dl_to_device(K(dl_to_dtype(values, x->dtype)), x->st->device));
    if (!values) return dl_failed();
    if (values->dtype != x->dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert the values with .to(DTYPE)", "the values are %s, the input %s",
                            dl_type_of(values), dl_type_of(x));
    values = K(dl_expand(values, shape, n + rest));
    dl_tensor *whole = values ? K(dl_reshape(x, rows, rest + 1)) : NULL;
    rows[0] = at->numel;
    dl_tensor *from = whole ? K(dl_reshape(values, rows, rest + 1)) : NULL;
    dl_put_how how = ATTR_I(c, INDEX_PUT_ACCUMULATE) ? DL_PUT_SUM : DL_PUT_LAST;
    dl_tensor *out = from ? K(dl_put_rows(whole, at, from, how, true)) : NULL;
    return dl_finish(c, out ? dl_reshape(out, x->shape, x->ndim) : NULL);
}

/* ---- flat indices and masks */

POOLED_RULE(take) {
    dl_tensor *x = c->in[0], *index = c->in[1];
    dl_tensor *row = K(dl_reshape(x, (long[]){x->numel}, 1)), *at = dl_put_index(p, index, 0, x->numel);
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
POOLED_RULE(masked_scatter) {
    dl_tensor *x = c->in[0], *mask = c->in[1], *source = c->in[2];
    if (mask->dtype != DL_BOOL)
        return dl_fail_hint(DL_ERR_DTYPE, "compare, as in mask == 0, or convert with .to(bool)",
                            "the mask must be bool, not %s", dl_type_of(mask));
    if (source->dtype != x->dtype)
        return dl_fail_hint(DL_ERR_DTYPE, "convert the source with .to(DTYPE)", "the source is %s, the input %s",
                            dl_type_of(source), dl_type_of(x));
    mask = K(dl_expand(mask, x->shape, x->ndim));
    dl_tensor *flat = mask ? K(dl_reshape(mask, (long[]){x->numel}, 1)) : NULL, *at = flat ? K(dl_nonzero(flat)) : NULL;
    if (!at) return dl_failed();
    const long count = at->shape[0];
    if (count > source->numel)
        return dl_fail(DL_ERR_SHAPE, "the mask is true %ld times, and the source has %ld elements", count,
                       (long)source->numel);
    dl_tensor *row = K(dl_reshape(x, (long[]){x->numel}, 1)), *all = K(dl_reshape(source, (long[]){source->numel}, 1));
    dl_tensor *from = all ? K(dl_slice(all, 0, NULL, &count, 1)) : NULL, *index = K(dl_reshape(at, &count, 1));
    dl_tensor *out = row && from && index ? K(dl_put_rows(row, index, from, DL_PUT_LAST, true)) : NULL;
    return dl_finish(c, out ? dl_reshape(out, x->shape, x->ndim) : NULL);
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
    dl_tensor *at = row && from ? dl_put_index(p, index, 0, x->numel) : NULL;
    dl_tensor *out =
        at ? K(dl_put_rows(row, at, from, ATTR_I(c, PUT_ACCUMULATE) ? DL_PUT_SUM : DL_PUT_LAST, true)) : NULL;
    return dl_finish(c, out ? dl_reshape(out, x->shape, x->ndim) : NULL);
}
