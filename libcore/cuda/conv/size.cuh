/* Kernels that are instantiated for each kernel size and stride of a convolution. */
#pragma once

#include <type_traits>

#include "cuda/conv/sums.h"

/* Kernels read padding as zeros, and zero times an infinite weight is NaN: a result that is not finite is computed
 * again by this function, from pixels inside the image alone. x: the image; the window begins at (top, left). */
static __device__ __noinline__ float dl_conv_inside(const float *x, int rows, int cols, int channels, int k, int top,
                                                    int left, const dl_conv_weight &w, int o) {
    float sum = 0;
#pragma unroll 1
    for (int c = 0; c < channels; c++)
#pragma unroll 1
        for (int t = 0; t < k * k; t++) {
            int row = top + t / k, col = left + t % k;
            if ((unsigned)row >= (unsigned)rows || (unsigned)col >= (unsigned)cols) continue;
            sum += x[((long)c * rows + row) * cols + col] * w.p[o * w.out + c * w.in + (w.turned ? k * k - 1 - t : t)];
        }
    return sum;
}

/* 0 if all of v is finite, else NaN. */
template <int N> __device__ inline float dl_conv_nan_unless_finite(const float (&v)[N]) {
    float odd = 0;
#pragma unroll
    for (int i = 0; i < N; i++) odd = fmaf(v[i], 0.0f, odd);
    return odd;
}

/* Calls f(kernel size, stride) with compile-time constants; sizes 3, 5 and 7, strides 1 and 2. */
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
