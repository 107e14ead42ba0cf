/* Batch rules of families: operands that broadcast, dimensions that are named, last dimensions, views. */
#include "ops/batch/batch.h"
#include "ops/groups.h"
#include "dlcore/view.h"
#include "ops/rules/copy.h"
#include "ops/rules/create.h"
#include "ops/rules/elementary.h"
#include "ops/rules/index.h"
#include "ops/rules/reduce.h"
#include "ops/rules/view.h"
#include "ops/rules/where.h"

#include <string.h>

/* Operands that broadcast: samples of fewer dimensions get sizes of 1 behind the dimension of the samples. */
BATCH_RULE(broadcast) {
    int ndim = 0;
    for (int i = 0; i < b->nin; i++)
        if (b->in[i] && b->one[i]->ndim > ndim) ndim = b->one[i]->ndim;
    for (int i = 0; i < b->nin; i++)
        if (dl_samples_has(b, i)) DL_TRY(dl_samples_deepen(b, i, ndim));
    return dl_samples_invoke(b);
}

/* Rows that treat the last dimensions and take any number of others, equal ones in all operands. */
BATCH_RULE(trailing) {
    DL_TRY(dl_samples_spread_all(b));
    return dl_samples_invoke(b);
}

/* Rows that work along dimensions; samples without any have one of size 1 here. */
static dl_status along(dl_batched *b, bool all) {
    int ndim = b->one[0]->ndim ? b->one[0]->ndim : 1;
    DL_TRY(dl_samples_spread_all(b));
    for (int i = 0; i < b->nin; i++)
        if (b->in[i]) DL_TRY(dl_samples_deepen(b, i, b->one[i]->ndim ? 0 : 1));
    DL_TRY(dl_samples_shift(b, ndim, all));
    return dl_samples_invoke(b);
}

BATCH_RULE(dims) { return along(b, false); }

/* Without dimensions a sample is rolled as one row. */
BATCH_RULE(roll) {
    dl_aval *dims = &b->attr[DL_A_ROLL_DIMS];
    if (dims->given) return along(b, false);
    DL_TRY(dl_samples_reshape(b, 0, (long[]){b->size, b->one[0]->numel}, 2));
    *dims = (dl_aval){.given = true, .n = 1, .u.v = {1}};
    return dl_samples_invoke(b);
}

/* Dimensions are those of the result. */
BATCH_RULE(diag_embed) {
    DL_TRY(dl_samples_spread(b, 0));
    DL_TRY(dl_samples_shift(b, b->one[0]->ndim + 1, false));
    return dl_samples_invoke(b);
}

/* Reductions: no dimension is all of them, in one row where there can be but one. */
BATCH_RULE(reduce) {
    const dl_aval *dim = &b->attr[DL_A_REDUCE_DIM];
    if (b->op->attrs[DL_A_REDUCE_DIM].kind == DL_A_INTS || dim->given) return along(b, true);
    DL_TRY(dl_samples_reshape(b, 0, (long[]){b->size, b->one[0]->numel}, 2));
    b->attr[DL_A_REDUCE_DIM] = (dl_aval){.given = true, .u.i = 1};
    b->attr[DL_A_REDUCE_KEEPDIM].u.i = 0;
    return dl_samples_invoke(b);
}

/* ---- views and copies */

/* The list of the attribute becomes that of the result for one sample, with the samples in front. */
static void sizes_of_result(dl_batched *b, int attr) {
    const dl_tensor *y = b->was[0];
    b->attr[attr] = (dl_aval){.given = true, .n = (int8_t)(y->ndim + 1), .u.v = {b->size}};
    memcpy(b->attr[attr].u.v + 1, y->shape, (size_t)(y->ndim < DL_MAX_DIM ? y->ndim : DL_MAX_DIM - 1) * sizeof(long));
}

static dl_status check_depth(const dl_tensor *y) {
    if (y->ndim < DL_MAX_DIM) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions", DL_MAX_DIM);
}

BATCH_RULE(reshape) {
    DL_TRY(check_depth(b->was[0]));
    sizes_of_result(b, DL_A_RESHAPE_SHAPE);
    return dl_samples_invoke(b);
}

BATCH_RULE(expand) {
    DL_TRY(check_depth(b->was[0]));
    DL_TRY(dl_samples_deepen(b, 0, b->was[0]->ndim));
    sizes_of_result(b, DL_A_EXPAND_SIZE);
    return dl_samples_invoke(b);
}

BATCH_RULE(permute) {
    dl_aval *dims = &b->attr[DL_A_PERMUTE_DIMS];
    DL_TRY(check_depth(b->was[0]));
    DL_TRY(dl_samples_shift(b, b->one[0]->ndim, false));
    memmove(dims->u.v + 1, dims->u.v, (size_t)dims->n++ * sizeof(long));
    dims->u.v[0] = 0;
    return dl_samples_invoke(b);
}

/* The layout is asked for each sample; samples follow one another. */
BATCH_RULE(restride) {
    dl_aval *stride = &b->attr[DL_A_RESTRIDE_STRIDE];
    DL_TRY(check_depth(b->was[0]));
    if (!dl_is_dense(b->was[0])) return dl_samples_each(b);
    memmove(stride->u.v + 1, stride->u.v, (size_t)stride->n++ * sizeof(long));
    stride->u.v[0] = b->one[0]->numel;
    return dl_samples_invoke(b);
}

/* Strides and offsets count elements of a sample, which is contiguous; then samples are made to follow one another. */
static dl_status strided(dl_batched *b) {
    dl_aval *size = &b->attr[DL_A_STRIDED_SIZE], *stride = &b->attr[DL_A_STRIDED_STRIDE];
    const dl_tensor *one = b->one[0], *all = b->in[0];
    if (size->n == DL_MAX_DIM) return dl_fail(DL_ERR_SHAPE, "a tensor has at most %d dimensions", DL_MAX_DIM);
    memmove(size->u.v + 1, size->u.v, (size_t)size->n++ * sizeof(long));
    memmove(stride->u.v + 1, stride->u.v, (size_t)stride->n++ * sizeof(long));
    size->u.v[0] = b->size;
    stride->u.v[0] = one->numel;
    if (b->attr[DL_A_STRIDED_OFFSET].u.i == -1) b->attr[DL_A_STRIDED_OFFSET].u.i = one->offset;
    b->attr[DL_A_STRIDED_OFFSET].u.i += all->offset - one->offset;
    return DL_OK;
}

BATCH_RULE(as_strided) {
    if (!dl_is_contiguous(b->one[0])) return dl_samples_each(b);
    DL_TRY(dl_samples_put(b, 0, dl_contiguous(b->in[0])));
    DL_TRY(strided(b));
    return dl_samples_invoke(b);
}

/* Writes to the region of each sample; the memory that is written to stays where it is. */
BATCH_RULE(as_strided_set) {
    const dl_aval *size = &b->attr[DL_A_STRIDED_SIZE], *stride = &b->attr[DL_A_STRIDED_STRIDE];
    if (!dl_is_contiguous(b->one[0]) || !dl_is_contiguous(b->in[0])) return dl_samples_each(b);
    DL_TRY(strided(b));
    if (dl_samples_has(b, 1)) DL_TRY(dl_samples_deepen(b, 1, size->n - 1));
    DL_OWNED dl_tensor *region =
        dl_as_strided(b->in[0], size->u.v, size->n, stride->u.v, stride->n, b->attr[DL_A_STRIDED_OFFSET].u.i);
    if (!region) return dl_failed();
    DL_TRY(dl_assign(region, b->in[1]));
    b->out[0] = dl_ref(b->in[0]);
    return DL_OK;
}

/* Random numbers of a size: as many more. */
BATCH_RULE(sizes) {
    int i = dl_attr_index(b->op, "size");
    DL_TRY(check_depth(b->was[0]));
    sizes_of_result(b, i);
    return dl_samples_invoke(b);
}
