/* What the kernels and rules of classification losses share. */
#ifndef DL_OPS_LOSS_H
#define DL_OPS_LOSS_H

#include "core/op.h"

typedef enum dl_reduction { DL_REDUCE_MEAN, DL_REDUCE_SUM, DL_REDUCE_NONE } dl_reduction;

/* DL_ERR_VALUE unless the attribute is mean, sum or none. */
dl_status dl_reduction_of(const dl_aval *a, dl_reduction *out);

#endif
