/* Kernels of running products, logarithms of sums of exponentials, and recurrences. */
#include "cuda/kernels/running.cuh"
#include "ops/names/reduce.h"

/* f64 for floating dtypes; integers wrap. */
template <class T> struct product_of {
    typedef std::conditional_t<std::is_floating_point<calc_t<T>>::value, double, unsigned long> A;
    const T *x;
    T *y;
    __device__ A none() const { return A(1); }
    __device__ A at(long i, long) const { return (A)dl_up(x[i]); }
    __device__ A join(A a, A b) const { return a * b; }
    __device__ void put(long i, A v) const { y[i] = dl_down<T>(v); }
};

template <class T> struct log_sum_of {
    typedef calc_t<T> A;
    const T *x;
    T *y;
    __device__ A none() const { return -INFINITY; }
    __device__ A at(long i, long) const { return dl_up(x[i]); }
    __device__ A join(A a, A b) const {
        A most = dl_larger(a, b), least = a < b ? a : b;
        return isinf(most) || least == -INFINITY ? most : most + log1p(exp(least - most));
    }
    __device__ void put(long i, A v) const { y[i] = dl_down<T>(v); }
};

/* v -> a v + b; by: how far the factor of an element lies from it. */
template <class T> struct recurrence_of {
    typedef calc_t<T> C;
    struct A {
        C a, b;
    };
    const T *a, *b;
    T *y;
    long by;
    __device__ A none() const { return {C(1), C(0)}; }
    __device__ A at(long i, long j) const { return {j ? dl_up(a[i + by]) : C(0), dl_up(b[i])}; }
    __device__ A join(A f, A g) const { return {f.a * g.a, g.a * f.b + g.b}; }
    __device__ void put(long i, A v) const { y[i] = dl_down<T>(v.b); }
};

static dl_status run_cumprod(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x = c->in[0];
    int dim = 0;
    dl_dim_norm(ATTR_I(c, CUMPROD_DIM), o->ndim, &dim); /* checked by infer */
    bool direct = x->dtype == o->dtype && dl_is_contiguous(x);
    DL_TRY(direct ? DL_OK : dl_cuda_copy(g, o, x));
    return dl_dispatch<DL_FLOATS | DL_BIT(DL_I64)>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_running(g, product_of<T>{dl_data<T>(direct ? x : o), dl_data<T>(o)}, o, dim, false);
    });
}
const dl_kernel dl_cuda_cumprod = {run_cumprod, NULL, DL_ANY, NULL, 0};

static dl_status run_logcumsumexp(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x = dl_cuda_contiguous(g, c->in[0]);
    int dim = 0;
    if (!x) return dl_failed();
    dl_dim_norm(ATTR_I(c, LOGCUMSUMEXP_DIM), o->ndim, &dim); /* checked by infer */
    dl_status s = dl_dispatch<DL_FLOATS>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_running(g, log_sum_of<T>{dl_data<T>(x), dl_data<T>(o)}, o, dim, false);
    });
    dl_unref(x);
    return s;
}
const dl_kernel dl_cuda_logcumsumexp = {run_logcumsumexp, NULL, DL_FLOATS, NULL, 0};

static dl_status run_recurrence(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *a = dl_cuda_contiguous(g, c->in[0]), *b = a ? dl_cuda_contiguous(g, c->in[1]) : NULL;
    const bool reverse = ATTR_I(c, RECURRENCE_REVERSE) != 0;
    int dim = 0;
    dl_dim_norm(ATTR_I(c, RECURRENCE_DIM), o->ndim, &dim); /* checked by infer */
    const long by = reverse && o->ndim ? o->stride[dim] : 0;
    dl_status s = !b ? dl_failed() : dl_dispatch<DL_FLOATS>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_running(g, recurrence_of<T>{dl_data<T>(a), dl_data<T>(b), dl_data<T>(o), by}, o, dim, reverse);
    });
    dl_unref(b);
    dl_unref(a);
    return s;
}
const dl_kernel dl_cuda_recurrence = {run_recurrence, NULL, DL_FLOATS, NULL, 0};
