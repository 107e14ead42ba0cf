/* What the caller of an op takes beside its outputs where the kernel has it at hand: not a part of the op, so that
 * neither the tape nor the other callers know of it. */
#pragma once

#include "core/op.h"

/* Until it is called with NULL, kernels of this thread that compute a relu and do not leave its result in memory put
 * into *sums, which is NULL, a new tensor f64[n] whose sum is the sum of the squares of that result, if they can. */
void dl_squares_want(dl_tensor **sums);
/* Where such a kernel puts it; NULL: nobody wants it, or it is there. */
dl_tensor **dl_squares_wanted(void);
