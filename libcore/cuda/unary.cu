/* Kernels of formulas with one operand, and the fused gradients of activations. */
#include "cuda/pointwise.cuh"

#define DL_FUNCTIONS
#include "cuda/pointwise_rows.cuh"
