/* Kernels that are made for each kernel size and stride of a convolution. */
#ifndef DL_CUDA_CONV_SIZE_CUH
#define DL_CUDA_CONV_SIZE_CUH

#include <type_traits>

#include "cuda/conv_sums.h"

/* f(kernel size, stride) for those there are code for. */
template <class F> dl_status dl_by_size(const dl_conv *g, F f) {
    typedef std::integral_constant<int, 1> one;
    typedef std::integral_constant<int, 2> two;
    bool single = g->stride[0] == 1;
#define BY(k)                                                                                                          \
    case k: return single ? f(std::integral_constant<int, k>(), one()) : f(std::integral_constant<int, k>(), two())
    switch (g->k[0]) {
        BY(3);
        BY(5);
        BY(7);
    default: return dl_fail(DL_ERR_UNSUPPORTED, "kernels of %ld are not summed up directly", g->k[0]);
    }
#undef BY
}

#endif
