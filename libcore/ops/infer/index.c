/* Shape rules of joining and picking. */
#include "core/scope.h"
#include "ops/infer.h"
#include "dlcore/compare.h"
#include "dlcore/reduce.h"
#include "ops/grid.h"
#include "ops/rules/index.h"

#include <string.h>

dl_status dl_check_index(const dl_tensor *t) {
    if (t->dtype == DL_I64 || t->dtype == DL_I32) return DL_OK;
    return dl_fail_hint(DL_ERR_DTYPE, "convert it with .to(i64)", "indices must be i64 or i32, not %s", dl_type_of(t));
}

dl_status dl_fail_index(long index, int dim, long size) {
    return dl_fail(DL_ERR_INDEX, "index %ld is out of range for dimension %d of size %ld", index, dim, size);
}

dl_status dl_flip_source(const dl_call *c, const char **from, long stride[DL_MAX_DIM]) {
    const dl_tensor *x = c->in[0];
    const dl_aval *dims = ATTR(c, FLIP_DIMS);
    unsigned seen = 0;
    memcpy(stride, x->stride, sizeof x->stride);
    *from = dl_ptr(x);
    for (int i = 0; i < dims->n; i++) {
        int d;
        DL_TRY(dl_dim_norm(dims->u.v[i], x->ndim, &d));
        if (seen >> d & 1) return dl_fail(DL_ERR_VALUE, "dimension %d is named twice", d);
        seen |= 1u << d;
        if (d >= x->ndim || !x->shape[d]) continue;
        *from += (x->shape[d] - 1) * stride[d] * (long)dl_esize(x);
        stride[d] = -stride[d];
    }
    return DL_OK;
}

/* Equal sizes everywhere but in `dim` (-1: everywhere). */
static dl_status check_others(const dl_tensor *a, const dl_tensor *b, int dim, const char *what) {
    bool ok = a->ndim == b->ndim;
    for (int i = 0; i < a->ndim && ok; i++) ok = i == dim || a->shape[i] == b->shape[i];
    if (ok) return DL_OK;
    const char *x = dl_shape_of(a), *y = dl_shape_of(b);
    if (dim < 0) return dl_fail(DL_ERR_SHAPE, "%s must have one shape, not %s and %s", what, x, y);
    return dl_fail(DL_ERR_SHAPE, "%s must have equal sizes but for dimension %d, not %s and %s", what, dim, x, y);
}

INFER_RULE(cat) {
    const dl_tensor *first = c->in[0];
    int d;
    if (!first->ndim)
        return dl_fail_hint(DL_ERR_SHAPE, "use stack() to join 0-d tensors",
                            "0-d tensors have no dimension to join along");
    DL_TRY(dl_dim_norm(ATTR_I(c, CAT_DIM), first->ndim, &d));
    *out = dl_meta_fresh(c, c->dtype, first->ndim, first->shape);
    for (int i = 1; i < c->nin; i++) {
        DL_TRY(check_others(first, c->in[i], d, "the tensors"));
        out->shape[d] += c->in[i]->shape[d];
    }
    return DL_OK;
}

/* The dimension that a list of indices is along. */
static dl_status check_list(const dl_call *c, int *d) {
    const dl_tensor *x = c->in[0], *index = c->in[1];
    DL_TRY(dl_check_index(index));
    DL_TRY(dl_dim_norm(ATTR_I(c, INDEXED_DIM), x->ndim, d));
    if (index->ndim <= 1) return DL_OK;
    return dl_fail_hint(DL_ERR_SHAPE, "flatten it with reshape(index, [-1])",
                        "the index must be a list (1-d), not %d-d", index->ndim);
}

INFER_RULE(index_select) {
    const dl_tensor *x = c->in[0], *index = c->in[1];
    int d;
    DL_TRY(check_list(c, &d));
    *out = dl_meta_fresh(c, c->dtype, x->ndim, x->shape);
    if (x->ndim) out->shape[d] = index->numel;
    if (!x->ndim && index->numel != 1)
        return dl_fail(DL_ERR_SHAPE, "a 0-d tensor takes one index, not %ld", (long)index->numel);
    return DL_OK;
}

INFER_RULE(bag_sum) {
    const dl_tensor *table = c->in[0], *index = c->in[1];
    if (table->ndim != 2 || index->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "table and indices must be matrices, not of shapes %s and %s", dl_shape_of(table),
                       dl_shape_of(index));
    *out = dl_meta_fresh(c, c->dtype, 2, (long[]){index->shape[0], table->shape[1]});
    return DL_OK;
}

static dl_status check_source(const dl_call *c) {
    if (INPUT(c, INDEX_ADD_SOURCE)->dtype == c->in[0]->dtype) return DL_OK;
    return dl_fail_hint(DL_ERR_DTYPE, "convert the source with .to(DTYPE)", "the source is %s, the input %s",
                        dl_dtype_name((dl_dtype)INPUT(c, INDEX_ADD_SOURCE)->dtype), dl_type_of(c->in[0]));
}

INFER_RULE(index_add) {
    const dl_tensor *x = c->in[0], *index = c->in[1], *source = INPUT(c, INDEX_ADD_SOURCE);
    int d;
    DL_TRY(check_source(c));
    DL_TRY(check_list(c, &d));
    DL_TRY(check_others(x, source, x->ndim ? d : -1, "the input and the source"));
    long rows = source->ndim ? source->shape[d] : 1;
    if (rows != index->numel)
        return dl_fail(DL_ERR_SHAPE, "%ld indices do not fit a source of size %ld in dimension %d", (long)index->numel,
                       rows, d);
    *out = dl_meta_fresh(c, c->dtype, x->ndim, x->shape);
    return DL_OK;
}

/* The index has as many dimensions as the input, and none larger but `dim`. */
static dl_status check_pick(const dl_call *c) {
    const dl_tensor *x = c->in[0], *index = c->in[1];
    int d;
    DL_TRY(dl_check_index(index));
    DL_TRY(dl_dim_norm(ATTR_I(c, INDEXED_DIM), x->ndim, &d));
    bool ok = x->ndim == index->ndim;
    for (int i = 0; i < x->ndim && ok; i++) ok = i == d || index->shape[i] <= x->shape[i];
    if (ok) return DL_OK;
    return dl_fail(DL_ERR_SHAPE,
                   "an index of shape %s does not fit an input of shape %s: it needs as many dimensions, "
                   "and sizes no larger, but for dimension %d",
                   dl_shape_of(index), dl_shape_of(x), d);
}

INFER_RULE(gather) {
    DL_TRY(check_pick(c));
    *out = dl_meta_fresh(c, c->dtype, c->in[1]->ndim, c->in[1]->shape);
    return DL_OK;
}

INFER_RULE(scatter_add) {
    DL_TRY(check_source(c));
    DL_TRY(check_pick(c));
    DL_TRY(check_others(c->in[1], INPUT(c, INDEX_ADD_SOURCE), -1, "the index and the source"));
    *out = dl_meta_fresh(c, c->dtype, c->in[0]->ndim, c->in[0]->shape);
    return DL_OK;
}

/* ---- shapes that depend on values, which ops find on any device */

static dl_status count_nonzero(dl_tensor *x, long *n) {
    DL_OWNED dl_tensor *zero = dl_scalar_i(0);
    DL_OWNED dl_tensor *is = x->dtype == DL_BOOL ? dl_ref(x) : zero ? dl_ne(x, zero) : NULL;
    DL_OWNED dl_tensor *sum = is ? dl_sum(is, NULL, 0, 0) : NULL;
    return sum ? dl_item_i(sum, n) : dl_failed();
}

INFER_RULE(nonzero) {
    long shape[2] = {0, c->in[0]->ndim};
    DL_TRY(count_nonzero(c->in[0], &shape[0]));
    *out = dl_meta_fresh(c, DL_I64, 2, shape);
    return DL_OK;
}

INFER_RULE(nonzero_static) {
    const long size = ATTR_I(c, NONZERO_STATIC_SIZE), shape[2] = {size, c->in[0]->ndim};
    if (size < 0) return dl_fail(DL_ERR_VALUE, "size must be 0 or more, not %ld", size);
    *out = dl_meta_fresh(c, DL_I64, 2, shape);
    return DL_OK;
}

INFER_RULE(joint_place) {
    long shape[DL_MAX_DIM];
    int n = 0;
    if (ATTR(c, JOINT_PLACE_SIZES)->n != c->nin)
        return dl_fail(DL_ERR_VALUE, "%d indices and %d sizes", c->nin, ATTR(c, JOINT_PLACE_SIZES)->n);
    for (int i = 0; i < c->nin; i++) {
        const dl_tensor *t = c->in[i];
        DL_TRY(dl_check_index(t));
        DL_TRY(dl_broadcast(n, shape, t->ndim, t->shape, &n, shape));
    }
    *out = dl_meta_fresh(c, DL_I64, n, shape);
    return DL_OK;
}

/* One row for values of any shape, or rows for values that agree with them but for the last dimension. */
INFER_RULE(sorted_place) {
    const dl_tensor *rows = c->in[0], *values = c->in[1];
    bool fits = rows->ndim == 1 || rows->ndim == values->ndim;
    for (int i = 0; fits && i + 1 < rows->ndim; i++) fits = rows->shape[i] == values->shape[i];
    if (!rows->ndim || !fits)
        return dl_fail(DL_ERR_SHAPE,
                       "sorted rows of shape %s and values of shape %s must agree but for the last dimension",
                       dl_shape_of(rows), dl_shape_of(values));
    *out = dl_meta_fresh(c, DL_I64, values->ndim, values->shape);
    return DL_OK;
}

INFER_RULE(best_place) {
    int d;
    DL_TRY(dl_dim_norm(ATTR_I(c, BEST_PLACE_DIM), c->in[0]->ndim, &d));
    *out = dl_meta_fresh(c, DL_I64, c->in[0]->ndim, c->in[0]->shape);
    return DL_OK;
}

INFER_RULE(one_hot) {
    dl_tensor *x = c->in[0];
    long n = ATTR_I(c, ONE_HOT_NUM_CLASSES);
    DL_TRY(dl_check_index(x));
    if (x->ndim == DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions", DL_MAX_DIM);
    if (n == -1) {
        if (!x->numel)
            return dl_fail_hint(DL_ERR_VALUE, "one_hot(y, num_classes=10)",
                                "without labels, num_classes must be given");
        DL_OWNED dl_tensor *largest = dl_amax(x, NULL, 0, 0);
        DL_TRY(largest ? dl_item_i(largest, &n) : dl_failed());
        if (n >= DL_MAX_COUNT) return dl_fail(DL_ERR_VALUE, "label %ld is too large for one_hot", n);
        n++;
    }
    if (n < 1) return dl_fail(DL_ERR_VALUE, "num_classes must be at least 1, not %ld", n);
    *out = dl_meta_fresh(c, DL_I64, x->ndim, x->shape);
    out->shape[out->ndim++] = n;
    return DL_OK;
}

INFER_RULE(continued) {
    const dl_aval *widths = ATTR(c, CONTINUED_PAD);
    const dl_tensor *x = c->in[0];
    long shape[DL_MAX_DIM];
    int64_t numel;
    memcpy(shape, x->shape, sizeof shape);
    for (int i = 0; i < widths->n / 2; i++) shape[x->ndim - 1 - i] += widths->u.v[2 * i] + widths->u.v[2 * i + 1];
    DL_TRY(dl_shape_check(x->ndim, shape, &numel));
    *out = dl_meta_like(x, x->ndim, shape);
    return DL_OK;
}

INFER_RULE(resample_along) {
    const dl_tensor *x = c->in[0], *index = INPUT(c, RESAMPLE_ALONG_INDEX), *weight = INPUT(c, RESAMPLE_ALONG_WEIGHT);
    long shape[DL_MAX_DIM];
    int d;
    if (!x->ndim || index->ndim != 2 || !index->shape[0] || (weight && !dl_shape_eq(index, weight)))
        return dl_fail(DL_ERR_SHAPE, "the places are [terms, size], and weights of the same shape, not %s",
                       dl_shape_of(weight ? weight : index));
    DL_TRY(dl_dim_norm(ATTR_I(c, RESAMPLE_ALONG_DIM), x->ndim, &d));
    memcpy(shape, x->shape, sizeof shape);
    shape[d] = index->shape[1];
    *out = dl_meta_like(x, x->ndim, shape);
    return DL_OK;
}

INFER_RULE(grid_read) {
    const dl_tensor *x = c->in[0], *g = c->in[1];
    const int mode = dl_grid_mode_of(ATTR_S(c, GRID_READ_MODE)), dims = x->ndim - 2;
    long shape[5] = {x->shape[0], x->shape[1]};
    bool good = mode >= 0 && dl_grid_padding_of(ATTR_S(c, GRID_READ_PADDING_MODE)) >= 0 &&
                (dims == 2 || (dims == 3 && mode != DL_GRID_CUBIC)) && g->ndim == x->ndim && x->dtype == g->dtype &&
                g->shape[0] == x->shape[0] && g->shape[g->ndim - 1] == dims;
    for (int i = 0; i < dims && good; i++) good = x->shape[2 + i] > 0;
    if (!good)
        return dl_fail(DL_ERR_SHAPE, "images %s do not fit a grid %s, or its mode", dl_shape_of(x), dl_shape_of(g));
    for (int i = 0; i < dims; i++) shape[2 + i] = g->shape[1 + i];
    *out = dl_meta_like(x, x->ndim, shape);
    return DL_OK;
}
