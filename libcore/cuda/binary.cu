/* Kernels of arithmetic with two operands. */
#include "cuda/pointwise.cuh"

DL_BINARY_F(add, (T)((wrap_t<T>)a + (wrap_t<T>)b))
DL_BINARY_F(sub, (T)((wrap_t<T>)a - (wrap_t<T>)b))
DL_BINARY_F(mul, (T)((wrap_t<T>)a *(wrap_t<T>)b))
DL_BINARY_F(div, a / b)
DL_BINARY_F(maximum, a > b || a != a ? a : b)
DL_BINARY_F(minimum, a < b || a != a ? a : b)

DL_BINARY_KERNEL(add, DL_ANY)
DL_BINARY_KERNEL(sub, DL_NUMBERS)
DL_BINARY_KERNEL(mul, DL_ANY)
DL_BINARY_KERNEL(div, DL_FLOATS)
DL_BINARY_KERNEL(maximum, DL_ANY)
DL_BINARY_KERNEL(minimum, DL_ANY)

/* ---- what integers cannot always do; a fault is raised where there is no result */

template <class T> struct floor_divide_f {
    dl_fault_site site;
    __device__ T operator()(T a, T b) const {
        if constexpr (dl_is_real<T>) {
            if (b == T(0)) return a / b;
            T r = fmod(a, b), q = (a - r) / b; /* exact up to rounding, so floor() below cannot be one off */
            if (r != T(0) && (r < T(0)) != (b < T(0))) q -= T(1);
            if (q == T(0)) return copysign(T(0), a / b);
            T w = floor(q);
            return q - w > T(0.5) ? w + T(1) : w;
        } else {
            if (b == T(0)) return dl_fault_raise(site, DL_FAULT_DIVISOR, 0, 0), T(0);
            if (std::is_signed<T>::value && b == T(-1)) return (T)(0 - (wrap_t<T>)a);
            T q = a / b;
            return a % b != T(0) && (a < T(0)) != (b < T(0)) ? q - T(1) : q;
        }
    }
};

template <class T> struct remainder_f {
    dl_fault_site site;
    __device__ T operator()(T a, T b) const {
        if constexpr (dl_is_real<T>) {
            T r = fmod(a, b);
            return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
        } else {
            if (b == T(0)) return dl_fault_raise(site, DL_FAULT_DIVISOR, 0, 0), T(0);
            if (std::is_signed<T>::value && b == T(-1)) return T(0);
            T r = a % b;
            return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
        }
    }
};

template <class T> struct pow_f {
    dl_fault_site site;
    __device__ T operator()(T a, T b) const {
        if constexpr (dl_is_real<T>) {
            if (b == T(2)) return a * a;
            if (b == T(3)) return a * a * a;
            return pow(a, b);
        } else {
            if (b < T(0)) return dl_fault_raise(site, DL_FAULT_EXPONENT, (long)b, 0), T(0);
            wrap_t<T> r = 1, f = (wrap_t<T>)a;
            for (wrap_t<T> e = (wrap_t<T>)b; e; e >>= 1, f = f * f)
                if (e & 1) r = r * f;
            return (T)r;
        }
    }
};

template <class T> struct left_f {
    dl_fault_site site;
    __device__ T operator()(T a, T b) const {
        if (b < T(0) || b >= T(8 * sizeof(T))) return dl_fault_raise(site, DL_FAULT_SHIFT, (long)b, 0), T(0);
        return (T)((wrap_t<T>)a << b);
    }
};
template <class T> struct right_f {
    dl_fault_site site;
    __device__ T operator()(T a, T b) const {
        if (b < T(0) || b >= T(8 * sizeof(T))) return dl_fault_raise(site, DL_FAULT_SHIFT, (long)b, 0), T(0);
        return (T)(a >> b);
    }
};

#define CHECKED(name, function, set)                                                                                   \
    static dl_status run_##name(dl_call *c) {                                                                          \
        dl_gpu *g = dl_gpu_use(c->device);                                                                             \
        return g ? dl_run_binary<function, set>(c, dl_gpu_site(g, c->op)) : dl_error_last()->code;                     \
    }                                                                                                                  \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, set, NULL, DL_K_NUMBERS};
CHECKED(floor_divide, floor_divide_f, DL_NUMBERS)
CHECKED(remainder, remainder_f, DL_NUMBERS)
CHECKED(pow, pow_f, DL_NUMBERS)
CHECKED(bitwise_left_shift, left_f, DL_INTS)
CHECKED(bitwise_right_shift, right_f, DL_INTS)
