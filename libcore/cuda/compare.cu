/* Kernels of comparisons and logic: formulas with one or two operands whose result is bool. */
#include "cuda/pointwise.cuh"

#define DL_TESTS
#include "cuda/pointwise_rows.cuh"
