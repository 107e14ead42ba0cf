/* Kernels of arithmetic with two operands. */
#include "cuda/pointwise.cuh"
#include "cuda/power.cuh"

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
            return dl_power(a, b);
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
        return g ? dl_run_binary<function, set>(c, dl_gpu_site(g, c->op)) : dl_failed();                               \
    }                                                                                                                  \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, set, NULL, DL_K_NUMBERS};
CHECKED(floor_divide, floor_divide_f, DL_NUMBERS)
CHECKED(remainder, remainder_f, DL_NUMBERS)
CHECKED(bitwise_left_shift, left_f, DL_INTS)
CHECKED(bitwise_right_shift, right_f, DL_INTS)

/* ---- logit_loss: target * softplus(-x) + (1 - target) * softplus(x), exact for large logits of either sign */

template <class T> struct logit_loss_f {
    __device__ T operator()(T x, T y) const { return log1p(exp(-fabs(x))) + (x > T(0) ? (T(1) - y) * x : -y * x); }
};
/* (1 - y) sigmoid(x) - y sigmoid(-x) */
struct logit_slope_f {
    template <class C> __device__ C operator()(C g, C x, C y) const {
        C e = exp(-fabs(x)), near = C(1) / (C(1) + e), far = e * near;
        return g * (x > C(0) ? (C(1) - y) * near - y * far : (C(1) - y) * far - y * near);
    }
};
struct target_slope_f {
    template <class C> __device__ C operator()(C g, C x) const { return -g * x; }
};

static dl_status run_logit_loss(dl_call *c) { return dl_run_binary<logit_loss_f, DL_FLOATS>(c); }

/* d = f(the gradient, operands), over the shape of the result. */
template <class F, class... In> static dl_status slope(dl_back *b, dl_gpu *g, int i, dl_tensor *grad, In *...in) {
    dl_tensor *d = dl_tensor_empty(grad->ndim, grad->shape, (dl_dtype)grad->dtype, grad->st->device);
    if (!d) return dl_failed();
    dl_tensor *op[] = {d, grad, in...};
    dl_it it;
    dl_it_of(&it, 2 + (int)sizeof...(in), op);
    dl_status s = dl_dispatch<DL_FLOATS>(grad->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_each<F, T, T, std::enable_if_t<sizeof(In) != 0, T>...>(g, it, F());
    });
    if (s != DL_OK) return dl_unref(d), s;
    return dl_give(b, i, d);
}

static dl_status grad_logit_loss(dl_back *b) {
    dl_tensor *x = dl_saved_in(b, 0), *y = dl_saved_in(b, 1);
    dl_gpu *g = x && y ? dl_gpu_use(b->g[0]->st->device) : NULL;
    if (!g) return dl_fail_null("an operand");
    int dtype = b->g[0]->dtype;
    dl_tensor *in[2] = {dl_tmp(b, dl_to_dtype(x, (dl_dtype)dtype)), dl_tmp(b, dl_to_dtype(y, (dl_dtype)dtype))};
    if (!in[0] || !in[1]) return dl_failed();
    dl_status s = b->need & 1 ? slope<logit_slope_f>(b, g, 0, b->g[0], in[0], in[1]) : DL_OK;
    return s == DL_OK && b->need & 2 ? slope<target_slope_f>(b, g, 1, b->g[0], in[0]) : s;
}
const dl_kernel dl_cuda_logit_loss = {run_logit_loss, grad_logit_loss, DL_FLOATS, NULL, 0};

/* ---- powers; those with an exponent that is a number of the language have a quicker way for some of them */

enum { SQUARE, CUBE, ROOT, INVERSE, INVERSE_SQUARE, INVERSE_ROOT, POWERS };
static const double quick[POWERS] = {2, 3, 0.5, -1, -2, -0.5};

/* The same as pow at zeros, infinities and below 0. */
template <class T> struct quick_f {
    int which;
    __device__ T operator()(T a) const {
        T x = T(1) / a;
        switch (which) {
        case SQUARE: return a * a;
        case CUBE: return a * a * a;
        case INVERSE: return x;
        case INVERSE_SQUARE: return x * x;
        case ROOT: return a == -(T)INFINITY ? (T)INFINITY : sqrt(a + T(0));
        default: return a == -(T)INFINITY ? T(0) : T(1) / sqrt(a + T(0));
        }
    }
};

static dl_status run_pow(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *op[3] = {c->out[0], c->in[0], c->in[1]};
    dl_it it, one;
    if (!g) return dl_failed();
    dl_it_of(&it, 3, op);
    dl_it_of(&one, 2, op);
    return dl_dispatch<DL_NUMBERS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef calc_t<T> C;
        if constexpr (dl_is_real<C>) {
            bool number = it.numbers >> 2 & 1 && !(it.numbers >> 1 & 1);
            T b = T();
            memcpy((void *)&b, &it.number[2], sizeof b);
            for (int k = 0; k < POWERS && number; k++)
                if ((double)dl_up(b) == quick[k]) return dl_each<quick_f<C>, T, T>(g, one, quick_f<C>{k});
        }
        return dl_each<pow_f<C>, T, T, T>(g, it, pow_f<C>{dl_gpu_site(g, c->op)});
    });
}
const dl_kernel dl_cuda_pow = {run_pow, NULL, DL_NUMBERS, NULL, DL_K_NUMBERS};
