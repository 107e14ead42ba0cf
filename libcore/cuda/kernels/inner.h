/* The sum of products of two contiguous vectors of floating numbers, in one pass (reduce.cu). */
#pragma once

#include "cuda/runtime/base.h"

DL_C_BEGIN

dl_status dl_cuda_inner_product(dl_gpu *g, const dl_tensor *a, const dl_tensor *b, dl_tensor *out);

DL_C_END
