/* Batch rules of lists of indices. Each sample keeps its own range: indices are never joined, so that one beyond the
 * end is found where it stands. */
#include "ops/batch/batch.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/view.h"
#include "ops/rules/index.h"

/* Samples of a list of indices, in a shape that broadcasts to `like` [size, ...] along dimension d of a sample. */
static dl_status index_like(dl_batched *b, int at, const dl_tensor *like, int d) {
    long shape[DL_MAX_DIM];
    for (int i = 0; i < like->ndim; i++) shape[i] = 1;
    shape[0] = b->size;
    if (like->ndim > 1) shape[d + 1] = like->shape[d + 1];
    DL_TRY(dl_samples_reshape(b, at, shape, like->ndim));
    return dl_samples_put(b, at, dl_expand(b->in[at], like->shape, like->ndim));
}

static dl_status dim_of(const dl_batched *b, int *d) {
    return dl_dim_norm(b->attr[DL_A_INDEXED_DIM].u.i, b->one[0]->ndim, d);
}

/* Rows of one table by many lists: the lists one after another. */
static dl_status select_from_one(dl_batched *b, int d) {
    const dl_tensor *y = b->was[0];
    long shape[DL_MAX_DIM], dims[DL_MAX_DIM] = {d};
    int n = 0, k = 1;
    DL_TRY(dl_samples_reshape(b, 1, (long[]){b->size * b->one[1]->numel}, 1));
    DL_TRY(dl_samples_invoke(b));
    for (int i = 0; i < y->ndim; i++) {
        if (i == d) shape[n++] = b->size;
        shape[n++] = y->shape[i];
    }
    for (int i = 0; i < n; i++)
        if (i != d) dims[k++] = i;
    DL_OWNED dl_tensor *flat = b->out[0];
    b->out[0] = NULL;
    DL_OWNED dl_tensor *split = dl_reshape(flat, shape, n);
    b->out[0] = split ? dl_permute(split, dims, n) : NULL;
    return b->out[0] ? DL_OK : dl_failed();
}

BATCH_RULE(index_select) {
    int d;
    DL_TRY(dim_of(b, &d));
    if (!b->one[0]->ndim || b->was[0]->ndim == DL_MAX_DIM) return dl_samples_each(b);
    if (!dl_samples_has(b, 1)) {
        b->attr[DL_A_INDEXED_DIM].u.i = d + 1;
        return dl_samples_invoke(b);
    }
    if (!dl_samples_has(b, 0)) return select_from_one(b, d);
    dl_tensor like = {.ndim = (int8_t)(b->was[0]->ndim + 1), .shape = {b->size}};
    for (int i = 0; i < b->was[0]->ndim; i++) like.shape[i + 1] = b->was[0]->shape[i];
    DL_TRY(index_like(b, 1, &like, d));
    b->out[0] = dl_gather(b->in[0], b->in[1], d + 1);
    return b->out[0] ? DL_OK : dl_failed();
}

BATCH_RULE(index_add) {
    int d;
    DL_TRY(dim_of(b, &d));
    if (!b->one[0]->ndim) return dl_samples_each(b);
    DL_TRY(dl_samples_spread(b, 0));
    DL_TRY(dl_samples_spread(b, DL_IN_INDEX_ADD_SOURCE));
    if (!dl_samples_has(b, 1)) {
        b->attr[DL_A_INDEXED_DIM].u.i = d + 1;
        return dl_samples_invoke(b);
    }
    DL_TRY(index_like(b, 1, b->in[DL_IN_INDEX_ADD_SOURCE], d));
    b->out[0] = dl_scatter_add(b->in[0], b->in[1], b->in[DL_IN_INDEX_ADD_SOURCE], d + 1);
    return b->out[0] ? DL_OK : dl_failed();
}

/* One mask for all samples: its places in a row for each. */
BATCH_RULE(masked_select) {
    const dl_tensor *x = b->one[0], *mask = b->one[1];
    long shape[DL_MAX_DIM + 1] = {b->size}, numel = 1;
    int n;
    DL_TRY(dl_broadcast(x->ndim, x->shape, mask->ndim, mask->shape, &n, shape + 1));
    if (dl_samples_has(b, 1) || n == DL_MAX_DIM) return dl_samples_each(b);
    for (int i = 1; i <= n; i++) numel *= shape[i];
    DL_TRY(dl_samples_deepen(b, 0, n));
    DL_TRY(dl_samples_put(b, 0, dl_expand(b->in[0], shape, n + 1)));
    DL_TRY(dl_samples_reshape(b, 0, (long[]){b->size, numel}, 2));
    DL_TRY(dl_samples_put(b, 1, dl_expand(b->in[1], shape + 1, n)));
    DL_TRY(dl_samples_reshape(b, 1, &numel, 1));
    DL_OWNED dl_tensor *at = dl_nonzero(b->in[1]);
    DL_OWNED dl_tensor *places = at ? dl_reshape(at, at->shape, 1) : NULL;
    b->out[0] = places ? dl_index_select(b->in[0], places, 1) : NULL;
    return b->out[0] ? DL_OK : dl_failed();
}

/* A row for each sample, and its values as one row; rows of several dimensions are as they are. */
BATCH_RULE(sorted_place) {
    if (!dl_samples_has(b, 0) && b->one[0]->ndim == 1) return dl_samples_invoke(b);
    DL_TRY(dl_samples_spread_all(b));
    if (b->one[0]->ndim == 1) DL_TRY(dl_samples_reshape(b, 1, (long[]){b->size, b->one[1]->numel}, 2));
    return dl_samples_invoke(b);
}

/* ---- matrices along a diagonal */

static long height_of(const dl_tensor *t) { return t->ndim == 2 ? t->shape[0] : 1; }
static long width_of(const dl_tensor *t) { return t->ndim ? t->shape[t->ndim - 1] : 1; }

BATCH_RULE(block_diag) {
    long rows = 0, columns = 0, offset = 0;
    DL_TRY(dl_samples_spread_all(b));
    for (int i = 0; i < b->nin; i++) rows += height_of(b->one[i]), columns += width_of(b->one[i]);
    const long stride[3] = {rows * columns, columns, 1};
    dl_tensor *out = dl_zeros((long[]){b->size, rows, columns}, 3, (dl_dtype)b->was[0]->dtype, b->in[0]->st->device);
    for (int i = 0; i < b->nin && out; i++) {
        DL_OWNED dl_tensor *whole = out;
        const long h = height_of(b->one[i]), w = width_of(b->one[i]), size[3] = {b->size, h, w};
        out = NULL;
        DL_TRY(dl_samples_reshape(b, i, size, 3));
        out = dl_as_strided_set(whole, b->in[i], size, 3, stride, 3, offset);
        offset += h * columns + w;
    }
    b->out[0] = out;
    return out ? DL_OK : dl_failed();
}
