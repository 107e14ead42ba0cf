/* Kernels of formulas with one operand, and the fused gradients of activations. */
#include "cuda/kernels/pointwise.cuh"

#define DL_FUNCTIONS
#include "cuda/kernels/pointwise_rows.cuh"
