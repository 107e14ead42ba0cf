/* Kernels of sparse matrices. */
#include "cuda/runtime/base.h"

DL_NONE(spmm, "products of sparse matrices run on the CPU; s.to_dense() @ x runs on the GPU")
DL_NONE(sddmm, "products of sparse matrices run on the CPU; s.to_dense() @ x runs on the GPU")
DL_NONE(csr_transpose, "products of sparse matrices run on the CPU; s.to_dense() @ x runs on the GPU")
