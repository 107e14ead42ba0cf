/* Element types on the device: the C++ type of each dtype, the type it is computed in, and a switch over dtypes. */
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "cuda/runtime/base.h"

typedef __half f16;
typedef __nv_bfloat16 bf16;
typedef unsigned char u8;

/* Complex numbers; where a real number is wanted, their real part. */
template <class R> struct alignas(2 * sizeof(R)) dl_number_pair {
    R re, im;
    template <class S> explicit __host__ __device__ operator S() const { return (S)re; }
};
typedef dl_number_pair<float> c64;
typedef dl_number_pair<double> c128;
template <class T> struct dl_is_number_pair { static constexpr bool value = false; };
template <class R> struct dl_is_number_pair<dl_number_pair<R>> { static constexpr bool value = true; };
template <class T> constexpr bool dl_is_complex = dl_is_number_pair<T>::value;

/* 16-bit floats are computed in f32. */
template <class T> struct dl_calc { typedef T type; };
template <> struct dl_calc<f16> { typedef float type; };
template <> struct dl_calc<bf16> { typedef float type; };
template <class T> using calc_t = typename dl_calc<T>::type;

/* Read and written at once, up to 16 bytes at a time. */
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) dl_vector { T v[N]; };

/* The elements of a tensor; NULL for none. */
template <class T> inline T *dl_data(const dl_tensor *t) { return t ? (T *)dl_ptr(t) : NULL; }
/* Blocks of `each` threads or elements that cover n. */
static inline unsigned dl_blocks(long n, long each) { return (unsigned)((n + each - 1) / each); }
/* Bits that a number below 2 ** 62 takes. */
static inline int dl_bits(long n) {
    int bits = 0;
    while (bits < 62 && n >> bits) bits++;
    return bits;
}

/* To the type that T is computed in. */
template <class T> __host__ __device__ inline calc_t<T> dl_up(T x) { return x; }
template <> __host__ __device__ inline float dl_up<f16>(f16 x) { return __half2float(x); }
template <> __host__ __device__ inline float dl_up<bf16>(bf16 x) { return __bfloat162float(x); }

/* Conversion as C does it; to the 16-bit floats through f32, to bool by comparison with 0. */
template <class T, class C> struct dl_convert {
    static __host__ __device__ T of(C x) { return (T)x; }
};
template <class C> struct dl_convert<f16, C> {
    static __host__ __device__ f16 of(C x) { return __float2half_rn((float)x); }
};
template <class C> struct dl_convert<bf16, C> {
    static __host__ __device__ bf16 of(C x) { return __float2bfloat16_rn((float)x); }
};
template <class C> struct dl_convert<bool, C> {
    static __host__ __device__ bool of(C x) { return x != C(0); }
};
/* Floats beyond the range of u8 wrap, as on the CPU. */
template <> struct dl_convert<u8, float> {
    static __host__ __device__ u8 of(float x) { return (u8)(long)x; }
};
template <> struct dl_convert<u8, double> {
    static __host__ __device__ u8 of(double x) { return (u8)(long)x; }
};
template <class R, class C> struct dl_convert<dl_number_pair<R>, C> {
    static __host__ __device__ dl_number_pair<R> of(C x) { return {(R)x, R(0)}; }
};
template <class R, class S> struct dl_convert<dl_number_pair<R>, dl_number_pair<S>> {
    static __host__ __device__ dl_number_pair<R> of(dl_number_pair<S> x) { return {(R)x.re, (R)x.im}; }
};
template <class S> struct dl_convert<bool, dl_number_pair<S>> {
    static __host__ __device__ bool of(dl_number_pair<S> x) { return x.re != S(0) || x.im != S(0); }
};
template <class S> struct dl_convert<u8, dl_number_pair<S>> {
    static __host__ __device__ u8 of(dl_number_pair<S> x) { return (u8)(long)x.re; }
};
template <class T, class C> __host__ __device__ inline T dl_down(C x) { return dl_convert<T, C>::of(x); }

/* The dtypes that kernels are compiled for: one of a kind where a build only has to show that they compile. */
#ifdef DL_QUICK
enum : unsigned { DL_COMPILED = DL_BIT(DL_BOOL) | DL_BIT(DL_I64) | DL_BIT(DL_BF16) | DL_BIT(DL_F32) | DL_BIT(DL_C64) };
#else
enum : unsigned { DL_COMPILED = DL_ALL };
#endif

/* g(T()) for the type of a dtype; only those in SET are instantiated. */
template <unsigned SET, class G> dl_status dl_dispatch(int dtype, G g) {
#define DL_CASE(name, T)                                                                                               \
    case name:                                                                                                         \
        if constexpr (SET & DL_COMPILED & DL_BIT(name))                                                                \
            return g(T());                                                                                             \
        else                                                                                                           \
            break;
    switch (dtype) {
        DL_CASE(DL_BOOL, bool)
        DL_CASE(DL_U8, u8)
        DL_CASE(DL_I32, int)
        DL_CASE(DL_I64, long)
        DL_CASE(DL_F16, f16)
        DL_CASE(DL_BF16, bf16)
        DL_CASE(DL_F32, float)
        DL_CASE(DL_F64, double)
        DL_CASE(DL_C64, c64)
        DL_CASE(DL_C128, c128)
    default: break;
    }
#undef DL_CASE
    return dl_fail(DL_ERR_DTYPE, "%s is not taken here on the GPU", dl_dtype_name((dl_dtype)dtype));
}

/* g(an unsigned number of the size of an element), for kernels that only move bits: 1, 2, 4 or 8 bytes; for those that
 * know complex numbers 16 bytes, too. */
template <int MOST = 8, class G> dl_status dl_dispatch_size(size_t size, G g) {
    switch (size) {
    case 1: return g((unsigned char)0);
    case 2: return g((unsigned short)0);
    case 4: return g(0u);
    case 8: return g(0ul);
    default: break;
    }
    if constexpr (MOST >= 16)
        if (size == 16) return g(dl_vector<unsigned long, 2>());
    return dl_fail(DL_ERR_INTERNAL, "elements of %ld bytes are not taken here on the GPU", (long)size);
}
