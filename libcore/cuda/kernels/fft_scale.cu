/* What cuFFT leaves to its caller: transforms are multiplied with a number. */
#include "cuda/kernels/fft.h"
#include "cuda/runtime/iter.cuh"

template <class T> struct scale_f {
    T by;
    __device__ T operator()(T x) const { return x * by; }
};

dl_status dl_fft_scale(dl_gpu *g, dl_tensor *t, double by) {
    const dl_dtype part = dl_dtype_of_parts((dl_dtype)t->dtype);
    const long n = (long)t->numel * (part == t->dtype ? 1 : 2), one = 1;
    if (by == 1 || !n) return DL_OK;
    dl_it it;
    dl_it_begin(&it, 1, &n);
    dl_it_operand(&it, dl_ptr(t), (size_t)dl_dtype_size(part), 1, &n, &one);
    dl_it_operand(&it, dl_ptr(t), (size_t)dl_dtype_size(part), 1, &n, &one);
    dl_it_end(&it);
    return dl_dispatch<DL_BIT(DL_F32) | DL_BIT(DL_F64)>(part, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_each<scale_f<T>, T, T>(g, it, scale_f<T>{(T)by});
    });
}
