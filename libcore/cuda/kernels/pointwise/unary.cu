/* Kernels of formulas with one operand, and the fused gradients of activations. */
#include "cuda/kernels/pointwise/pointwise.cuh"

#define DL_FUNCTIONS
#include "cuda/kernels/pointwise/pointwise_rows.cuh"
