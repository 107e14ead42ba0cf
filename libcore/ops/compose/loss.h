/* What the kernels and rules of classification losses share. */
#pragma once

#include "core/op.h"

typedef enum dl_reduction { DL_REDUCE_MEAN, DL_REDUCE_SUM, DL_REDUCE_NONE } dl_reduction;

/* DL_ERR_VALUE unless the attribute is mean, sum or none. */
dl_status dl_reduction_of(const dl_aval *a, dl_reduction *out);
/* A new reference to loss as it is, or its mean or sum. */
dl_tensor *dl_reduced_loss(dl_tensor *loss, dl_reduction how);
/* The result of a loss: `loss`, which its pool keeps, reduced as the attribute says. NULL: a part of it failed. */
dl_status dl_finish_loss(dl_call *c, dl_tensor *loss);
/* For losses that compare inputs 0 and 1 element by element: DL_ERR_SHAPE unless they have one shape. */
dl_status dl_check_loss_pair(const dl_call *c);
/* The weights of labels y, those of their classes or 1, and 0 where y is `ignore`; the pool keeps them. */
struct dl_pool;
dl_tensor *dl_label_weights(struct dl_pool *p, dl_tensor *y, dl_tensor *w, long ignore, dl_dtype t);
