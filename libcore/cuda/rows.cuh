/* Tensors as [outer][d][inner] in memory, for functions along one dimension; and loads of any dtype. */
#ifndef DL_CUDA_ROWS_CUH
#define DL_CUDA_ROWS_CUH

#include "cuda/types.cuh"

enum { DL_WARP = 32 };

typedef struct dl_rows {
    long outer, d, inner;
} dl_rows;

/* t dense in some order of dimensions. */
static inline dl_rows dl_rows_of(const dl_tensor *t, int dim) {
    dl_rows r = {0, t->ndim ? t->shape[dim] : 1, 1};
    if (r.d > 1) r.inner = t->stride[dim];
    r.outer = t->numel ? t->numel / (r.d * r.inner) : 0;
    return r;
}

/* One floating number of any dtype, and back. */
__device__ inline double dl_get(const void *p, int dtype, long i) {
    switch (dtype) {
    case DL_F64: return ((const double *)p)[i];
    case DL_F32: return ((const float *)p)[i];
    case DL_F16: return dl_up(((const f16 *)p)[i]);
    case DL_BF16: return dl_up(((const bf16 *)p)[i]);
    case DL_I64: return (double)((const long *)p)[i];
    default: return ((const int *)p)[i];
    }
}
__device__ inline void dl_put(void *p, int dtype, long i, double v) {
    switch (dtype) {
    case DL_F64: ((double *)p)[i] = v; break;
    case DL_F32: ((float *)p)[i] = (float)v; break;
    case DL_F16: ((f16 *)p)[i] = dl_down<f16>((float)v); break;
    default: ((bf16 *)p)[i] = dl_down<bf16>((float)v); break;
    }
}

template <class C> __device__ inline C dl_larger(C a, C b) { return b > a || b != b ? b : a; }

/* Over the threads of a row: a warp, or with `shared` (one C for each warp) the block. Every thread gets the result. */
template <class C, class F> __device__ inline C dl_row_join(C v, F join, C *shared) {
#pragma unroll
    for (int k = DL_WARP / 2; k; k /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, k));
    if (!shared) return v;
    int warps = blockDim.x / DL_WARP;
    __syncthreads();
    if (threadIdx.x % DL_WARP == 0) shared[threadIdx.x / DL_WARP] = v;
    __syncthreads();
    C all = shared[0];
    for (int w = 1; w < warps; w++) all = join(all, shared[w]);
    return all;
}
struct dl_larger_f {
    template <class C> __device__ C operator()(C a, C b) const { return dl_larger(a, b); }
};
struct dl_sum_f {
    template <class C> __device__ C operator()(C a, C b) const { return a + b; }
};

#endif
