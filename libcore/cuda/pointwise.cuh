/* Running a function of one or two operands over a call, for each dtype of a set. */
#ifndef DL_CUDA_POINTWISE_CUH
#define DL_CUDA_POINTWISE_CUH

#include "cuda/iter.cuh"

template <class T> struct dl_unsigned { typedef T type; };
template <> struct dl_unsigned<u8> { typedef unsigned type; };
template <> struct dl_unsigned<int> { typedef unsigned type; };
template <> struct dl_unsigned<long> { typedef unsigned long type; };
/* The type in which arithmetic on T wraps around. */
template <class T> using wrap_t = typename dl_unsigned<T>::type;
template <class T> constexpr bool dl_is_real = std::is_floating_point<T>::value;

/* F is a template over the computing type, made from `arg...`; TEST: the result is bool. */
template <template <class> class F, unsigned SET, bool TEST = false, class... Args>
dl_status dl_run_unary(dl_call *c, Args... arg) {
    dl_gpu *g = dl_gpu_use(c->device);
    if (!g) return dl_failed();
    dl_tensor *op[2] = {c->out[0], c->in[0]};
    dl_it it;
    dl_it_of(&it, 2, op);
    return dl_dispatch<SET>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef F<calc_t<T>> f;
        return dl_each<f, std::conditional_t<TEST, bool, T>, T>(g, it, f{arg...});
    });
}

template <template <class> class F, unsigned SET, bool TEST = false, class... Args>
dl_status dl_run_binary(dl_call *c, Args... arg) {
    dl_gpu *g = dl_gpu_use(c->device);
    if (!g) return dl_failed();
    dl_tensor *op[3] = {c->out[0], c->in[0], c->in[1]};
    dl_it it;
    dl_it_of(&it, 3, op);
    return dl_dispatch<SET>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef F<calc_t<T>> f;
        return dl_each<f, std::conditional_t<TEST, bool, T>, T, T>(g, it, f{arg...});
    });
}

#define DL_UNARY_F(name, expr)                                                                                         \
    template <class T> struct name##_f {                                                                               \
        __device__ auto operator()(T x) const { return expr; }                                                         \
    };
#define DL_BINARY_F(name, expr)                                                                                        \
    template <class T> struct name##_f {                                                                               \
        __device__ auto operator()(T a, T b) const { return expr; }                                                    \
    };
#define DL_UNARY_KERNEL(name, set)                                                                                     \
    static dl_status run_##name(dl_call *c) { return dl_run_unary<name##_f, set>(c); }                                 \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, set, NULL, 0};
#define DL_BINARY_KERNEL(name, set)                                                                                    \
    static dl_status run_##name(dl_call *c) { return dl_run_binary<name##_f, set>(c); }                                \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, set, NULL, DL_K_NUMBERS};

#endif
