/* Indices of kernels on the CPU. */
#pragma once

#include "core/op.h"

/* The indices as contiguous i64 numbers in 0 .. size - 1, negative ones counted from the end; a new reference. NULL
 * with DL_ERR_INDEX naming the first that is out of range, and the dimension. */
dl_tensor *dl_cpu_indices(dl_tensor *index, int dim, long size);
