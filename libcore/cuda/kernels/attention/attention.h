/* Attention by products of matrices, some rows of scores at a time, and by tiles. */
#pragma once

#include "cuda/runtime/base.h"
#include "ops/attention.h"

DL_C_BEGIN

/* Operands are contiguous and of one dtype, by products of matrices f32 or f64; but the mask, which has any strides,
 * and is bool or of the dtype in which scores are computed; NULL: none. */
typedef struct dl_attention_run {
    dl_attention_sizes a;
    dl_dtype t;
    const dl_tensor *q, *k, *v, *mask, *lengths, *seed;
    dl_tensor *out, *stats;  /* stats in f64 */
    const dl_tensor *g;      /* gradient of out */
    dl_tensor *dq, *dk, *dv; /* NULL: not wanted */
} dl_attention_run;

dl_status dl_attention_blocks(dl_gpu *g, const dl_attention_run *r);
dl_status dl_attention_blocks_grad(dl_gpu *g, const dl_attention_run *r);

/* The same by tiles, for those of which it says true; mean: the sum of g * out of each query. Nothing is empty. */
bool dl_attention_has_tiles(const dl_attention_run *r);
dl_status dl_attention_tiles(dl_gpu *g, const dl_attention_run *r);
dl_status dl_attention_tiles_grad(dl_gpu *g, const dl_attention_run *r, const double *mean);

/* What cuDNN is given: lengths in i32 of all queries, and of keys, clamped (NULL: all of them); a mask as numbers to be
 * added, dense in the shape of the mask, none of them infinite. And what it leaves to be done: a query that saw nothing
 * gets zeros, and an infinite statistic. */
dl_status dl_attention_lengths(dl_gpu *g, const dl_attention_sizes *a, const dl_tensor *lengths, int *rows, int *keys);
dl_status dl_attention_bias(dl_gpu *g, const dl_tensor *mask, dl_tensor *bias);
dl_status dl_attention_blind(dl_gpu *g, dl_tensor *out, dl_tensor *stats);

DL_C_END
