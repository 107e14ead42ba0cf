/* Copies in which the innermost dimension of the result is not that of the source. */
#pragma once

#include "cuda/runtime/iter.cuh"

/* Is the copy of operand 1 to operand 0, elements of `size` bytes, worth tiles? */
bool dl_transpose_fits(const dl_it *it, size_t size);
dl_status dl_transpose_run(dl_gpu *g, const dl_it *it, size_t size);
