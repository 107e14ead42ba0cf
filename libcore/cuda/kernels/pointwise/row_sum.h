/* Calls of the kernel of sum for other rows, see ops/compose/rows/row_sum.h (pointwise/row_sum.cu). */
#pragma once

#include "cuda/runtime/base.h"

DL_C_BEGIN

dl_status dl_cuda_row_sum(dl_call *c);

DL_C_END
