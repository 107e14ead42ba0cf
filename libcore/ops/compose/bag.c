/* Bags of rows of a table. */
#include "ops/compose/compose.h"
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
#include "ops/rules/index.h"

#include <string.h>

typedef struct bags {
    dl_tensor *index, *bag; /* of each element: its row of the table, the bag it belongs to */
    long n;
} bags;

/* Rows of indices are bags. */
static dl_status of_rows(dl_pool *p, dl_tensor *x, bags *b) {
    const double end = (double)x->shape[0];
    const long numel = x->numel;
    dl_tensor *i = K(dl_arange(0, &end, 1, DL_I64, x->st->device));
    dl_tensor *column = i ? K(dl_reshape(i, (long[]){x->shape[0], 1}, 2)) : NULL;
    dl_tensor *all = column ? K(dl_expand(column, x->shape, 2)) : NULL;
    b->bag = all ? K(dl_reshape(all, &numel, 1)) : NULL;
    b->index = K(dl_reshape(x, &numel, 1));
    b->n = x->shape[0];
    return b->bag && b->index ? DL_OK : dl_failed();
}

/* Bags begin at offsets, the first at 0. What comes after the last offset, if that is an end, is in no bag. */
static dl_status by_offsets(dl_pool *p, dl_tensor *x, dl_tensor *offsets, bool last_is_end, bags *b) {
    const double end = (double)x->numel, least = 0;
    if (!offsets || offsets->ndim != 1 || (last_is_end && !offsets->numel))
        return dl_fail_hint(DL_ERR_SHAPE, "offsets say where each bag begins; or give indices as rows, [B,L]",
                            "indices of one dimension need offsets of one dimension");
    DL_TRY(dl_check_index(offsets));
    if (offsets->numel) {
        long first;
        DL_TRY(dl_item_i(K(dl_select(offsets, 0, 0)), &first));
        if (first) return dl_fail(DL_ERR_VALUE, "the first offset must be 0, not %ld", first);
    }
    dl_tensor *at = K(dl_arange(0, &end, 1, DL_I64, x->st->device)), *starts = K(dl_to(offsets, DL_I64));
    dl_tensor *bag = K(at && starts ? dl_searchsorted(starts, at, NULL, 0, 1, NULL) : NULL);
    b->bag = K(dl_clamp(K(dl_sub(bag, K(dl_scalar_i(1)))), &least, NULL));
    b->index = x, b->n = offsets->numel - last_is_end;
    return b->bag ? DL_OK : dl_failed();
}

static dl_status check(const dl_call *c, const char *mode) {
    const dl_tensor *x = c->in[0], *w = c->in[1], *each = INPUT(c, EMBEDDING_BAG_PER_SAMPLE_WEIGHTS);
    DL_TRY(dl_check_index(x));
    if (w->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "the weight must be a table [rows, size], not of %d dimensions", w->ndim);
    if (strcmp(mode, "sum") && strcmp(mode, "mean") && strcmp(mode, "max"))
        return dl_fail(DL_ERR_VALUE, "mode is sum, mean or max, not '%s'", mode);
    if (each && strcmp(mode, "sum"))
        return dl_fail(DL_ERR_VALUE, "per_sample_weights are for mode sum, not for %s", mode);
    if (each && !dl_shape_eq(each, x))
        return dl_fail(DL_ERR_SHAPE, "per_sample_weights must have the shape of the indices, %s, not %s",
                       dl_shape_of(x), dl_shape_of(each));
    if (x->ndim != 1 && x->ndim != 2)
        return dl_fail(DL_ERR_SHAPE, "the indices must be [B,L] or [n], not %d-d", x->ndim);
    if (x->ndim == 2 && INPUT(c, EMBEDDING_BAG_OFFSETS))
        return dl_fail(DL_ERR_VALUE, "rows of indices, [B,L], take no offsets");
    return DL_OK;
}

/* How many elements are in each bag, at least 1, as a column. */
static dl_tensor *counts(dl_pool *p, const bags *b, dl_tensor *zeros, dl_tensor *rows) {
    const long n = b->bag->numel;
    const double least = 1;
    dl_tensor *none = K(dl_full((long[]){zeros->shape[0], 1}, 2, 0, rows->dtype, rows->st->device));
    dl_tensor *ones = K(dl_full((long[]){n, 1}, 2, 1, rows->dtype, rows->st->device));
    return none && ones ? K(dl_clamp(K(dl_index_add(none, b->bag, ones, 0)), &least, NULL)) : NULL;
}

static dl_tensor *weighted(dl_pool *p, dl_tensor *rows, dl_tensor *each) {
    dl_tensor *column = rows && each ? K(dl_reshape(each, (long[]){each->numel, 1}, 2)) : NULL;
    return column ? K(dl_mul(rows, column)) : each ? NULL : rows;
}

/* Bags of one size, of rows as they are: those that are added up need not be in memory. */
COMPOSE_RULE(bag_sum) {
    const dl_tensor *w = c->in[0], *index = c->in[1];
    const long dim = 1, numel = index->numel;
    DL_OWNED dl_tensor *list = dl_reshape(c->in[1], &numel, 1);
    DL_OWNED dl_tensor *rows = list ? dl_index_select(c->in[0], list, 0) : NULL;
    DL_OWNED dl_tensor *bags =
        rows ? dl_reshape(rows, (long[]){index->shape[0], index->shape[1], w->shape[1]}, 3) : NULL;
    return dl_finish(c, ATTR_I(c, BAG_SUM_MEAN) ? dl_mean(bags, &dim, 1, 0) : dl_sum(bags, &dim, 1, 0));
}

/* Bags of one size, a dimension of the rows. */
static dl_tensor *join_rows(dl_pool *p, dl_tensor *w, dl_tensor *index, dl_tensor *each, const char *mode) {
    const long dim = 1, numel = index->numel;
    const bool most = !strcmp(mode, "max");
    if (!most && !each) return dl_bag_sum(w, index, !strcmp(mode, "mean"));
    dl_tensor *list = K(dl_reshape(index, &numel, 1));
    dl_tensor *rows = weighted(p, list ? K(dl_index_select(w, list, 0)) : NULL, each);
    rows = rows ? K(dl_reshape(rows, (long[]){index->shape[0], index->shape[1], rows->shape[1]}, 3)) : NULL;
    return !rows ? NULL : most ? dl_amax(rows, &dim, 1, 0) : dl_sum(rows, &dim, 1, 0);
}

/* What is in no bag goes into one more, which is cut off. */
POOLED_RULE(embedding_bag) {
    dl_tensor *x = c->in[0], *w = c->in[1], *each = INPUT(c, EMBEDDING_BAG_PER_SAMPLE_WEIGHTS);
    const char *mode = ATTR_S(c, EMBEDDING_BAG_MODE);
    const dl_aval *padding = ATTR(c, EMBEDDING_BAG_PADDING_IDX);
    bags b;
    DL_TRY(check(c, mode));
    if (x->ndim == 2 && x->numel && !padding->given) /* no list of the bag of each element is needed */
        return dl_finish(c, join_rows(p, w, x, each, mode));
    if (x->ndim == 2)
        DL_TRY(of_rows(p, x, &b));
    else
        DL_TRY(by_offsets(p, x, INPUT(c, EMBEDDING_BAG_OFFSETS), ATTR_I(c, EMBEDDING_BAG_INCLUDE_LAST_OFFSET), &b));
    if (padding->given) {
        const long row = padding->u.i < 0 ? padding->u.i + w->shape[0] : padding->u.i;
        if (row < 0 || row >= w->shape[0])
            return dl_fail(DL_ERR_INDEX, "padding_idx %ld is out of range for a table of %ld rows", padding->u.i,
                           w->shape[0]);
        b.bag = K(dl_where(K(dl_eq(b.index, K(dl_scalar_i(row)))), K(dl_scalar_i(b.n)), b.bag));
    }
    dl_tensor *rows = b.bag ? weighted(p, K(dl_index_select(w, b.index, 0)), each) : NULL;
    dl_tensor *zeros = rows ? K(dl_full((long[]){b.n + 1, w->shape[1]}, 2, 0, rows->dtype, w->st->device)) : NULL;
    if (!zeros) return dl_failed();
    dl_tensor *y = K(strcmp(mode, "max") ? dl_index_add(zeros, b.bag, rows, 0)
                                         : dl_index_reduce(zeros, b.bag, rows, 0, "amax", 0));
    if (y && !strcmp(mode, "mean")) y = K(dl_div(y, counts(p, &b, zeros, rows)));
    const long none = 0;
    return dl_finish(c, y ? dl_slice(y, 0, &none, &b.n, 1) : NULL);
}
