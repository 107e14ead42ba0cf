/* Kernels of rows with one operand, and the fused gradients of activations. */
#include "cuda/pointwise.cuh"

template <class T> __device__ T dl_negative(T x) {
    if constexpr (dl_is_real<T>)
        return -x;
    else
        return (T)(0 - (wrap_t<T>)x);
}
template <class T> __device__ T dl_magnitude(T x) {
    if constexpr (dl_is_real<T>)
        return fabs(x);
    else
        return x < T(0) ? dl_negative(x) : x;
}
template <class T> __device__ T dl_sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == x ? T(0) : x; }
template <class T> __device__ T dl_square(T x) { return (T)((wrap_t<T>)x * (wrap_t<T>)x); }
template <class T> __device__ T dl_floor(T x) {
    if constexpr (dl_is_real<T>)
        return floor(x);
    else
        return x;
}
template <class T> __device__ T dl_ceil(T x) {
    if constexpr (dl_is_real<T>)
        return ceil(x);
    else
        return x;
}
template <class T> __device__ T dl_round(T x) {
    if constexpr (dl_is_real<T>)
        return rint(x);
    else
        return x;
}
template <class T> __device__ bool dl_infinite(T x) {
    if constexpr (dl_is_real<T>)
        return fabs(x) == T(INFINITY);
    else
        return false;
}
template <class T> __device__ bool dl_finite(T x) {
    if constexpr (dl_is_real<T>)
        return fabs(x) < T(INFINITY);
    else
        return true;
}
template <class T> __device__ T dl_logistic(T x) { return T(1) / (T(1) + exp(-x)); }

DL_UNARY_F(neg, dl_negative(x))
DL_UNARY_F(abs, dl_magnitude(x))
DL_UNARY_F(sign, dl_sign(x))
DL_UNARY_F(square, dl_square(x))
DL_UNARY_F(exp, exp(x))
DL_UNARY_F(expm1, expm1(x))
DL_UNARY_F(log, log(x))
DL_UNARY_F(log2, log2(x))
DL_UNARY_F(log10, log10(x))
DL_UNARY_F(log1p, log1p(x))
DL_UNARY_F(sqrt, sqrt(x))
DL_UNARY_F(rsqrt, T(1) / sqrt(x))
DL_UNARY_F(reciprocal, T(1) / x)
DL_UNARY_F(sin, sin(x))
DL_UNARY_F(cos, cos(x))
DL_UNARY_F(tan, tan(x))
DL_UNARY_F(atan, atan(x))
DL_UNARY_F(erf, erf(x))
DL_UNARY_F(floor, dl_floor(x))
DL_UNARY_F(ceil, dl_ceil(x))
DL_UNARY_F(round, dl_round(x))
DL_UNARY_F(bitwise_not, (T)~x)
DL_UNARY_F(logical_not, x == T(0))
DL_UNARY_F(isnan, x != x)
DL_UNARY_F(isinf, dl_infinite(x))
DL_UNARY_F(isfinite, dl_finite(x))

DL_UNARY_KERNEL(neg, DL_NUMBERS)
DL_UNARY_KERNEL(abs, DL_NUMBERS)
DL_UNARY_KERNEL(sign, DL_ANY)
DL_UNARY_KERNEL(square, DL_NUMBERS)
DL_UNARY_KERNEL(exp, DL_FLOATS)
DL_UNARY_KERNEL(expm1, DL_FLOATS)
DL_UNARY_KERNEL(log, DL_FLOATS)
DL_UNARY_KERNEL(log2, DL_FLOATS)
DL_UNARY_KERNEL(log10, DL_FLOATS)
DL_UNARY_KERNEL(log1p, DL_FLOATS)
DL_UNARY_KERNEL(sqrt, DL_FLOATS)
DL_UNARY_KERNEL(rsqrt, DL_FLOATS)
DL_UNARY_KERNEL(reciprocal, DL_FLOATS)
DL_UNARY_KERNEL(sin, DL_FLOATS)
DL_UNARY_KERNEL(cos, DL_FLOATS)
DL_UNARY_KERNEL(tan, DL_FLOATS)
DL_UNARY_KERNEL(atan, DL_FLOATS)
DL_UNARY_KERNEL(erf, DL_FLOATS)
DL_UNARY_KERNEL(floor, DL_NUMBERS)
DL_UNARY_KERNEL(ceil, DL_NUMBERS)
DL_UNARY_KERNEL(round, DL_NUMBERS)

#define TEST_KERNEL(name)                                                                                              \
    static dl_status run_##name(dl_call *c) { return dl_run_unary<name##_f, DL_ANY, true>(c); }                        \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, DL_ANY, NULL, 0};
TEST_KERNEL(logical_not)
TEST_KERNEL(isnan)
TEST_KERNEL(isinf)
TEST_KERNEL(isfinite)

/* Of bools the opposite. */
static dl_status run_bitwise_not(dl_call *c) {
    return c->dtype == DL_BOOL ? run_logical_not(c) : dl_run_unary<bitwise_not_f, DL_INTS>(c);
}
const dl_kernel dl_cuda_bitwise_not = {run_bitwise_not, NULL, DL_INTS | DL_BIT(DL_BOOL), NULL, 0};

/* ---- clamp: the limits in the computing type; an absent one lies beyond all values */

template <class T> struct clamp_f {
    double lo, hi;
    long ilo, ihi;
    __device__ T operator()(T x) const {
        if constexpr (dl_is_real<T>) {
            T low = x < (T)lo ? (T)lo : x;
            return low > (T)hi ? (T)hi : low;
        } else {
            long low = (long)x < ilo ? ilo : (long)x;
            return (T)(low > ihi ? ihi : low);
        }
    }
};

static dl_status run_clamp(dl_call *c) {
    const dl_aval *a = &c->attr[0], *b = &c->attr[1];
    double lo = a->given ? a->is_int ? (double)a->u.i : a->u.f : -INFINITY;
    double hi = b->given ? b->is_int ? (double)b->u.i : b->u.f : INFINITY;
    bool bytes = c->dtype == DL_U8, words = c->dtype == DL_I32;
    long least = bytes   ? 0
                 : words ? -0x80000000L
                         : -__LONG_MAX__ - 1,
         most = bytes   ? 255
                : words ? 0x7fffffff
                        : __LONG_MAX__;
    long ilo = a->given && a->is_int && a->u.i > least ? a->u.i : least;
    long ihi = b->given && b->is_int && b->u.i < most ? b->u.i : most;
    if (ilo > most) ilo = most;
    if (ihi < least) ihi = least;
    if (c->out[0]->dtype == c->in[0]->dtype) return dl_run_unary<clamp_f, DL_NUMBERS>(c, lo, hi, ilo, ihi);
    dl_gpu *g = dl_gpu_use(c->device); /* integers with a limit that is none become f32 first */
    dl_status s = g ? dl_cuda_copy(g, c->out[0], c->in[0]) : dl_failed();
    if (s != DL_OK) return s;
    dl_call f = *c;
    f.in = c->out;
    f.dtype = (dl_dtype)c->out[0]->dtype;
    return dl_run_unary<clamp_f, DL_NUMBERS>(&f, lo, hi, ilo, ihi);
}
const dl_kernel dl_cuda_clamp = {run_clamp, NULL, DL_NUMBERS, NULL, 0};

/* ---- activations: gradient of the input from the incoming one (a) and a saved tensor (b), in one pass */

/* Standard normal distribution function. In f32 a rational fit of erfc with a relative error of 1.2e-7 everywhere
 * (Press et al., Numerical Recipes), at a third of the cost of erfcf. */
template <class T> __device__ T dl_normal_cdf(T x) { return T(0.5) * erfc(-x * T(0.70710678118654752440)); }
template <> __device__ float dl_normal_cdf<float>(float x) {
    float a = fabsf(x) * 0.707106781f, t = __fdividef(1.0f, fmaf(0.5f, a, 1.0f)), p = 0.17087277f;
    p = fmaf(p, t, -0.82215223f);
    p = fmaf(p, t, 1.48851587f);
    p = fmaf(p, t, -1.13520398f);
    p = fmaf(p, t, 0.27886807f);
    p = fmaf(p, t, -0.18628806f);
    p = fmaf(p, t, 0.09678418f);
    p = fmaf(p, t, 0.37409196f);
    p = fmaf(p, t, 1.00002368f);
    p = fmaf(p, t, -1.26551223f);
    float q = 0.5f * t * expf(fmaf(-a, a, p));
    return x > 0.0f ? 1.0f - q : q;
}
template <class T> __device__ T dl_gelu_slope(T x) {
    return dl_normal_cdf(x) + x * T(0.39894228040143267794) * exp(T(-0.5) * x * x);
}
template <class T> __device__ T dl_silu_slope(T x) {
    T s = dl_logistic(x);
    return s * (T(1) + x * (T(1) - s));
}
DL_UNARY_F(relu, x < T(0) ? T(0) : x)
DL_UNARY_F(tanh, tanh(x))
DL_UNARY_F(sigmoid, dl_logistic(x))
DL_UNARY_F(gelu, x *dl_normal_cdf(x))
DL_UNARY_F(silu, x / (T(1) + exp(-x)))
DL_UNARY_F(softplus, (x > T(0) ? x : T(0)) + log1p(exp(-fabs(x))))
DL_BINARY_F(relu_grad, b <= T(0) ? T(0) : a)
DL_BINARY_F(tanh_grad, a *(T(1) - b * b))
DL_BINARY_F(sigmoid_grad, a *(b *(T(1) - b)))
DL_BINARY_F(gelu_grad, a *dl_gelu_slope(b))
DL_BINARY_F(silu_grad, a *dl_silu_slope(b))
DL_BINARY_F(softplus_grad, a *dl_logistic(b))

template <class T> struct leaky_relu_f {
    double slope;
    __device__ T operator()(T x) const {
        if constexpr (dl_is_real<T>)
            return x > T(0) ? x : x * (T)slope;
        else
            return x > T(0) ? x : (T)(long)((double)x * slope);
    }
};
template <class T> struct leaky_relu_grad_f {
    double slope;
    __device__ T operator()(T a, T b) const { return b > T(0) ? a : a * (T)slope; }
};

template <class T> struct elu_f {
    double alpha;
    __device__ T operator()(T x) const { return x > T(0) ? x : (T)alpha * expm1(x); }
};
template <class T> struct elu_grad_f {
    double alpha;
    __device__ T operator()(T a, T b) const { return b > T(0) ? a : a * ((T)alpha * exp(b)); }
};

template <template <class> class F, class... Args> static dl_status fused(dl_back *b, dl_tensor *saved, Args... arg) {
    dl_tensor *grad = saved ? dl_tmp(b, dl_to_dtype(b->g[0], (dl_dtype)saved->dtype)) : NULL;
    dl_gpu *g = grad ? dl_gpu_use(saved->st->device) : NULL;
    dl_tensor *d = g ? dl_cuda_empty_like(saved, (dl_dtype)saved->dtype) : NULL;
    if (!d) return dl_failed();
    dl_tensor *op[3] = {d, grad, saved};
    dl_it it;
    dl_it_of(&it, 3, op);
    dl_status s = dl_dispatch<DL_FLOATS>(saved->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef F<calc_t<T>> f;
        return dl_each<f, T, T, T>(g, it, f{arg...});
    });
    if (s != DL_OK) return dl_unref(d), s;
    return dl_give(b, 0, d);
}

#define ACTIVATION(name, set, saved)                                                                                   \
    static dl_status run_##name(dl_call *c) { return dl_run_unary<name##_f, set>(c); }                                 \
    static dl_status grad_##name(dl_back *b) { return fused<name##_grad_f>(b, saved); }                                \
    const dl_kernel dl_cuda_##name = {run_##name, grad_##name, set, NULL, 0};

ACTIVATION(relu, DL_NUMBERS, dl_saved_out(b, 0))
ACTIVATION(tanh, DL_FLOATS, dl_saved_out(b, 0))
ACTIVATION(gelu, DL_FLOATS, dl_saved_in(b, 0))
ACTIVATION(silu, DL_FLOATS, dl_saved_in(b, 0))
ACTIVATION(softplus, DL_FLOATS, dl_saved_in(b, 0))

/* For results of 16 bits, at a third of the cost: a relative error of 1e-6, and 0 below the normal numbers. */
template <class T> struct quick_sigmoid_f {
    __device__ float operator()(float x) const { return __fdividef(1.0f, 1.0f + __expf(-x)); }
};
static dl_status run_sigmoid(dl_call *c) {
    bool half = c->dtype == DL_F16 || c->dtype == DL_BF16;
    return half ? dl_run_unary<quick_sigmoid_f, DL_HALVES>(c) : dl_run_unary<sigmoid_f, DL_FLOATS>(c);
}
static dl_status grad_sigmoid(dl_back *b) { return fused<sigmoid_grad_f>(b, dl_saved_out(b, 0)); }
const dl_kernel dl_cuda_sigmoid = {run_sigmoid, grad_sigmoid, DL_FLOATS, NULL, 0};

static dl_status run_leaky_relu(dl_call *c) { return dl_run_unary<leaky_relu_f, DL_NUMBERS>(c, c->attr[0].u.f); }
static dl_status grad_leaky_relu(dl_back *b) { return fused<leaky_relu_grad_f>(b, dl_saved_in(b, 0), b->attr[0].u.f); }
const dl_kernel dl_cuda_leaky_relu = {run_leaky_relu, grad_leaky_relu, DL_NUMBERS, NULL, 0};

static dl_status run_elu(dl_call *c) { return dl_run_unary<elu_f, DL_FLOATS>(c, c->attr[0].u.f); }
static dl_status grad_elu(dl_back *b) { return fused<elu_grad_f>(b, dl_saved_in(b, 0), b->attr[0].u.f); }
const dl_kernel dl_cuda_elu = {run_elu, grad_elu, DL_FLOATS, NULL, 0};
