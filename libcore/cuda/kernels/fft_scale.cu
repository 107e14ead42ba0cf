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

/* p[2] and p[3], which are not addresses, count the frequencies along the last dimension of a transform and along its
 * other ones. Where those of the last stand for themselves alone, the frequency opposite along the others is the
 * conjugate: the mean of both is. */
template <class R> struct half_f {
    R by;
    long last; /* the last frequency that stands for itself alone, or 0 */
    long n[DL_FFT_OTHERS], stride[DL_FFT_OTHERS];
    __device__ const char *opposite(const char *p, long at) const {
#pragma unroll
        for (int i = 0; i < DL_FFT_OTHERS; i++) {
            const long j = at % n[i];
            at /= n[i];
            p += ((j ? n[i] - j : 0) - j) * stride[i];
        }
        return p;
    }
    __device__ void operator()(char *const p[4]) const {
        dl_number_pair<R> v = *(const dl_number_pair<R> *)p[1];
        const long k = (long)p[2];
        if (k == 0 || k == last) {
            const char *o = opposite(p[1], (long)p[3]);
            const dl_number_pair<R> u = *(const dl_number_pair<R> *)o;
            if (o == p[1])
                v.im = 0;
            else
                v = {v.re / 2 + u.re / 2, v.im / 2 - u.im / 2};
        }
        *(dl_number_pair<R> *)p[0] = {v.re * by, v.im * by};
    }
};

dl_status dl_fft_half(dl_gpu *g, dl_tensor *to, const dl_tensor *from, int d, int rank, long n, double by) {
    const int along = d + rank - 1;
    long step[DL_MAX_DIM] = {0}, others[DL_MAX_DIM] = {0}, size[DL_FFT_OTHERS] = {1, 1}, stride[DL_FFT_OTHERS] = {0};
    step[along] = 1;
    long count = 1;
    for (int i = 0; i < rank - 1; i++) {
        const int e = along - 1 - i;
        size[i] = to->shape[e], stride[i] = from->stride[e] * (long)dl_esize(from);
        others[e] = count, count *= size[i];
    }
    dl_it it;
    dl_it_begin(&it, to->ndim, to->shape);
    dl_it_tensor(&it, to);
    dl_it_tensor(&it, from);
    dl_it_count(&it, to->ndim, to->shape, step);
    dl_it_count(&it, to->ndim, to->shape, others);
    dl_it_end(&it);
    return dl_dispatch<DL_BIT(DL_F32) | DL_BIT(DL_F64)>(dl_dtype_of_parts((dl_dtype)to->dtype), [&](auto tag) {
        typedef decltype(tag) R;
        return dl_places<4>(g, it, half_f<R>{(R)by, n % 2 ? 0 : n / 2, {size[0], size[1]}, {stride[0], stride[1]}});
    });
}
