/* Kernel of frexp: both results in one pass. */
#include "cuda/runtime/iter.cuh"

/* The exponent of 0, infinities and NaN is 0. */
template <class T> __device__ void split(T x, T *mantissa, int *exponent) {
    int e = 0;
    const calc_t<T> m = frexp(dl_up(x), &e);
    *mantissa = dl_down<T>(m);
    *exponent = fabs(m) < 1 ? e : 0;
}

template <class T> struct frexp_f {
    __device__ void operator()(char *const p[3]) const { split(*(const T *)p[2], (T *)p[0], (int *)p[1]); }
};

/* Of contiguous tensors, in vectors; what remains of them is the last thread's. */
enum { THREADS = 256, EACH = 4 };
template <class T>
__global__ void __launch_bounds__(THREADS) frexp_kernel(const T *x, T *mantissa, int *exponent, long n) {
    const long i = ((long)blockIdx.x * THREADS + threadIdx.x) * EACH;
    if (i + EACH <= n) {
        const dl_vector<T, EACH> v = *(const dl_vector<T, EACH> *)(x + i);
        dl_vector<T, EACH> m;
        dl_vector<int, EACH> e;
#pragma unroll
        for (int k = 0; k < EACH; k++) split(v.v[k], &m.v[k], &e.v[k]);
        *(dl_vector<T, EACH> *)(mantissa + i) = m;
        *(dl_vector<int, EACH> *)(exponent + i) = e;
    } else {
        for (long k = i; k < n; k++) split(x[k], mantissa + k, exponent + k);
    }
}

static dl_status run_frexp(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *x = c->in[0], *m = c->out[0], *e = c->out[1];
    const bool flat = dl_is_contiguous(x) && dl_is_contiguous(m) && dl_is_contiguous(e);
    const bool aligned = ((size_t)dl_ptr(x) | (size_t)dl_ptr(m) | (size_t)dl_ptr(e)) % 16 == 0;
    if (!x->numel) return DL_OK;
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        if (!flat || !aligned) return dl_places<3>(g, dl_it_of({m, e, x}), frexp_f<T>());
        frexp_kernel<<<dl_blocks(x->numel, THREADS * EACH), THREADS, 0, g->stream>>>(dl_data<T>(x), dl_data<T>(m),
                                                                                     dl_data<int>(e), (long)x->numel);
        return dl_gpu_launched(g);
    });
}
const dl_kernel dl_cuda_frexp = {run_frexp, NULL, DL_FLOATS, NULL, 0};
