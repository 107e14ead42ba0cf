/* Rows without a CUDA kernel, and why. */
#include "cuda/base.h"

#define UNWRITTEN(name) DL_NONE(name, "this row has a kernel for the CPU only")

UNWRITTEN(index_select)
UNWRITTEN(index_add)
UNWRITTEN(gather)
UNWRITTEN(scatter_add)
UNWRITTEN(nonzero)
UNWRITTEN(one_hot)
UNWRITTEN(cumsum)
UNWRITTEN(conv2d)
UNWRITTEN(conv2d_dx)
UNWRITTEN(conv2d_dw)
UNWRITTEN(max_pool2d)
UNWRITTEN(pool_scatter)
UNWRITTEN(pool_gather)
UNWRITTEN(dropout)
