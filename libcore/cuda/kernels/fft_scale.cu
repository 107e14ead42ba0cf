/* What cuFFT leaves to its caller: transforms are multiplied with a number, and frequencies that are their own
 * conjugates have no imaginary part. */
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

/* p[2], which is not an address, is the number of the frequency; `last` is its own conjugate like the first, or -1. */
template <class R> struct half_f {
    R by;
    long last;
    __device__ void operator()(char *const p[3]) const {
        const dl_number_pair<R> v = *(const dl_number_pair<R> *)p[1];
        const long k = (long)p[2];
        *(dl_number_pair<R> *)p[0] = {v.re * by, k == 0 || k == last ? R(0) : v.im * by};
    }
};

dl_status dl_fft_half(dl_gpu *g, dl_tensor *to, const dl_tensor *from, int d, long n, double by) {
    long step[DL_MAX_DIM] = {0};
    step[d] = 1;
    dl_it it;
    dl_it_begin(&it, to->ndim, to->shape);
    dl_it_tensor(&it, to);
    dl_it_tensor(&it, from);
    dl_it_count(&it, to->ndim, to->shape, step);
    dl_it_end(&it);
    return dl_dispatch<DL_BIT(DL_F32) | DL_BIT(DL_F64)>(dl_dtype_of_parts((dl_dtype)to->dtype), [&](auto tag) {
        typedef decltype(tag) R;
        return dl_places<3>(g, it, half_f<R>{(R)by, n % 2 ? -1 : n / 2});
    });
}
