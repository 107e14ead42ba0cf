/* Kernels of formulas with three operands. */
#include "cuda/kernels/pointwise/pointwise.cuh"

#define DL_FUNCTIONS3
#include "cuda/kernels/pointwise/pointwise_rows.cuh"
