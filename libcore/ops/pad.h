/* Padding by elements of the tensor itself, for its rows and kernels. */
#pragma once

#include "core/tensor.h"

/* For each place of a dimension of size n that grows by `before` and `after` the place it is taken from: a new
 * reference, i64. */
dl_tensor *dl_pad_places(long n, long before, long after, const char *mode, int device);
/* The same of one place, which is negative before the first element. */
long dl_pad_place(long at, long n, const char *mode);
