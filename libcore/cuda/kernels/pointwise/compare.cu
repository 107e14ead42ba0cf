/* Kernels of comparisons and logic: formulas with one or two operands whose result is bool. */
#include "cuda/kernels/pointwise/pointwise.cuh"

#define DL_TESTS
#include "cuda/kernels/pointwise/pointwise_rows.cuh"
