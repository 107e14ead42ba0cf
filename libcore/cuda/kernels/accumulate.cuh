/* What sums of listed elements run in: f64, or integers that wrap. */
#ifndef DL_CUDA_ADDING_CUH
#define DL_CUDA_ADDING_CUH

#include "cuda/kernels/index.cuh"

template <class T> struct dl_adding {
    typedef std::conditional_t<std::is_floating_point<calc_t<T>>::value, double, uint64_t> A;
    static __device__ A up(T x) { return (A)dl_up(x); }
    static __device__ T down(A x) {
        if constexpr (std::is_same<A, double>::value)
            return dl_down<T>((calc_t<T>)x);
        else
            return (T)x;
    }
};

#endif
