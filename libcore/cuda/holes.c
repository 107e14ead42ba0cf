/* Rows without a CUDA kernel, and why. */
#include "cuda/base.h"

#define UNWRITTEN(name) DL_NONE(name, "this row has a kernel for the CPU only")

UNWRITTEN(conv2d)
UNWRITTEN(conv2d_dx)
UNWRITTEN(conv2d_dw)
