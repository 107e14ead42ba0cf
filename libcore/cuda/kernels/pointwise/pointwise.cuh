/* Running the formulas of ops/pointwise.def over a call, for each dtype that they take. A source says which formulas it
 * makes kernels of and includes pointwise_rows.cuh, see unary.cu. */
#pragma once

#include "cuda/runtime/iter.cuh"
#include "core/widening.h"
#include "ops/each.h"
#include "ops/formula.h"

template <class T> struct dl_unsigned { typedef T type; };
template <> struct dl_unsigned<u8> { typedef unsigned type; };
template <> struct dl_unsigned<int> { typedef unsigned type; };
template <> struct dl_unsigned<long> { typedef unsigned long type; };
/* The type in which arithmetic on T wraps around. */
template <class T> using wrap_t = typename dl_unsigned<T>::type;
template <class T> constexpr bool dl_is_real = std::is_floating_point<T>::value;
template <class T> constexpr bool dl_is_int = std::is_integral<T>::value && !std::is_same<T, bool>::value;

/* ---- functions of formulas that CUDA does not have */

/* Standard normal distribution function. In f32 a rational fit of erfc with a relative error of 1.2e-7 everywhere
 * (Press et al., Numerical Recipes), at a third of the cost of erfcf. */
template <class T> __device__ T dl_normal_cdf(T x) { return T(0.5) * erfc(-x * T(0.70710678118654752440)); }
template <> __device__ inline float dl_normal_cdf<float>(float x) {
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

#define DL_VECTOR static __device__ __forceinline__
DL_VECTOR float dl_vexp(float x) { return expf(x); }
DL_VECTOR float dl_vlog(float x) { return logf(x); }
DL_VECTOR double dl_vexp_f64(double x) { return exp(x); }
DL_VECTOR double dl_vlog_f64(double x) { return log(x); }
#include "ops/formula_bessel.h"
DL_VECTOR float bessel(int order, float x) { return dl_vbessel(order, x); }
DL_VECTOR double bessel(int order, double x) { return dl_vbessel_f64(order, x); }
DL_VECTOR float bessel_k(int order, float x) { return dl_vbessel_k(order, x); }
DL_VECTOR double bessel_k(int order, double x) { return dl_vbessel_k_f64(order, x); }

/* ---- for results of 16 bits, in f32 */

#define QUICK_HARD_SIGMOID(x) ((x) + 3 < 0 ? 0 : (x) + 3 > 6 ? 1 : ((x) + 3) * NUM(1.0 / 6))
#define QUICK_RSQRT(x) rsqrtf(x)
#define QUICK_FMOD(x, y) dl_quick_fmod(x, y)
#define QUICK_HYPOT(x, y) dl_quick_hypot(x, y)

/* x - y trunc(x / y), exactly of numbers of 16 bits: the quotient may be one off on either side. */
__device__ inline float dl_quick_fmod(float a, float b) {
    const float x = fabsf(a), y = fabsf(b);
    if (!(x < 4194304.0f * y && y > 1e-30f && y < 1e30f)) return fmodf(a, b);
    const float q = truncf(__fdividef(x, y)), r = fmaf(-q, y, x);
    return copysignf(r < 0 ? r + y : r >= y ? r - y : r, a);
}

__device__ inline float dl_quick_root(float x) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}

/* Squares of very large or small numbers do not fit f32: these are scaled by a power of two. */
__device__ inline float dl_quick_hypot(float a, float b) {
    const float x = fabsf(a), y = fabsf(b), most = fmaxf(x, y);
    const float by = most > 1e18f ? 0x1p-64f : most < 1e-18f ? 0x1p64f : 1.0f;
    float root = dl_quick_root(fmaf(x * by, x * by, y * by * (y * by)));
    root *= most > 1e18f ? 0x1p64f : most < 1e-18f ? 0x1p-64f : 1.0f;
    return most == INFINITY ? most : root;
}

#define UNSIGNED_T wrap_t<T>
#define FAULT_AT const dl_fault_site &
#define FAULT(kind, value) dl_fault_raise(at, DL_FAULT_##kind, value, 0)
#define DL_HELPER(name) template <class T> __device__ T name
#define DL_HELPER_OF(name) name<T>
#define DL_REAL_HELPERS
#define DL_INT_HELPERS
#define DL_COMPLEX_HELPERS
#include "ops/formula_math.h"

/* ---- attributes */

/* The type of an attribute in a formula of T: T, or for integers the attribute with all its fields. */
template <class T> using dl_number_of = std::conditional_t<dl_is_real<T>, T, dl_number>;
template <class T> __device__ dl_number_of<T> dl_number_get(const dl_number &n) {
    if constexpr (dl_is_real<T>)
        return (T)n.f;
    else
        return n;
}
#define REAL(n) (n).f
#define WHOLE(n) (n).i
template <class T> __device__ T dl_within(T n, long) { return n; }
template <class T> __device__ T dl_within(const dl_number &n, long absent) {
    const long least = (T)-1 < (T)0 ? -(long)(~0ul >> 1 >> (64 - 8 * sizeof(T))) - 1 : 0;
    const long largest = (long)(~0ul >> ((T)-1 < (T)0) >> (64 - 8 * sizeof(T))), v = n.given ? n.i : absent;
    return (T)(v < least ? least : v > largest ? largest : v);
}
#define LOW(n) dl_within<T>(n, -__LONG_MAX__ - 1)
#define HIGH(n) dl_within<T>(n, __LONG_MAX__)

/* What a launch is given: N attributes, and where faults are reported when the formula can find some. */
template <int N, bool FAULTS> struct dl_carried {
    dl_number number[N];
    dl_fault_site at;
};
template <int N> struct dl_carried<N, false> { dl_number number[N]; };
template <> struct dl_carried<0, true> { dl_fault_site at; };
template <> struct dl_carried<0, false> {};

template <int N, bool FAULTS> dl_carried<N, FAULTS> dl_carry(dl_gpu *g, const dl_op *op, const dl_aval *attr) {
    dl_carried<N, FAULTS> c;
    if constexpr (N > 0) dl_formula_numbers(dl_formula_of(op), op, attr, c.number);
    if constexpr (FAULTS) c.at = dl_gpu_site(g, op);
    return c;
}

/* ---- ops: ROW::f<T, H> is the function of the formula for T; H: results have 16 bits */

enum { DL_HAS_HALF = 1 << 28, DL_HAS_GRAD_X = 1 << 29, DL_HAS_GRAD_Y = 1 << 30, DL_HAS_FAULTS = 1 << 27 };
enum { DL_HAS_GRAD_ALL = 1 << 26, DL_HAS_GRAD_COMPLEX_X = 1 << 25, DL_HAS_GRAD_COMPLEX_Y = 1 << 24 };
enum { DL_DTYPES = (1 << 24) - 1, DL_OF_Y = DL_HAS_GRAD_Y | DL_HAS_GRAD_COMPLEX_Y };
constexpr bool dl_has_real_slope(int has) { return (has & (DL_HAS_GRAD_X | DL_HAS_GRAD_Y)) != 0; }
constexpr bool dl_has_complex_slope(int has) { return (has & (DL_HAS_GRAD_COMPLEX_X | DL_HAS_GRAD_COMPLEX_Y)) != 0; }
constexpr unsigned dl_flags_of_slope(int has) {
    return !dl_has_complex_slope(has) ? 0 : dl_has_real_slope(has) ? DL_K_GRAD_BOTH : DL_K_GRAD_COMPLEX;
}
template <class T> constexpr bool dl_is_half = std::is_same<T, f16>::value || std::is_same<T, bf16>::value;

/* The result of a floating formula, which must be a T, or is bool. */
template <class T, bool TESTS, class E> __device__ auto dl_typed(E e) {
    static_assert(TESTS || std::is_same<T, E>::value, "a formula of another type: write NUM(0.5), not 0.5");
    return std::conditional_t<TESTS, bool, T>(e);
}

/* Rows with DL_K_NARROW, in calls of which the second operand is f32. */
template <class ROW> constexpr bool dl_narrows = false;
template <class ROW> dl_status dl_run_narrow(dl_gpu *g, const dl_call *c) {
    auto carried = dl_carry<ROW::NUMBERS, false>(g, c->op, c->attr);
    return dl_dispatch<DL_HALVES>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef typename ROW::template f<float, true> F;
        return dl_each<F, T, T, float>(g, dl_it_of({c->out[0], c->in[0], c->in[1]}), F{carried});
    });
}

/* Rows with DL_K_READS: calls in f32 take operands of any real dtype. */
template <class ROW> constexpr bool dl_reads_others = (ROW::HAS & DL_BIT(DL_F32)) != 0;

/* The dtypes of the operands that a kernel converts as it reads them. */
template <int N> struct dl_reads {
    signed char dtype[N];

    template <class T, int EACH>
    static __device__ void take(const dl_walk<N + 1> &w, int k, int32_t off, float (&x)[EACH]) {
        if (EACH == 1 || w.numbers >> k & 1 || !w.stride[0][k]) {
            const float same = (float)dl_up(w.template load<T>(k, off));
#pragma unroll
            for (int j = 0; j < EACH; j++) x[j] = same;
            return;
        }
        const dl_vector<T, EACH> v = *(const dl_vector<T, EACH> *)(w.ptr[k] + off);
#pragma unroll
        for (int j = 0; j < EACH; j++) x[j] = (float)dl_up(v.v[j]);
    }
    /* EACH elements of the operand in place k of the walk. */
    template <int EACH> __device__ void at(const dl_walk<N + 1> &w, int k, int32_t off, float (&x)[EACH]) const {
        switch (w.numbers >> k & 1 ? DL_F32 : dtype[k - 1]) {
        case DL_BOOL: return take<bool>(w, k, off, x);
        case DL_U8: return take<u8>(w, k, off, x);
        case DL_I32: return take<int>(w, k, off, x);
        case DL_I64: return take<long>(w, k, off, x);
        case DL_F16: return take<f16>(w, k, off, x);
        case DL_BF16: return take<bf16>(w, k, off, x);
        default: return take<float>(w, k, off, x);
        }
    }
};

template <int EACH, class F, class R, int N, size_t... K>
__device__ void dl_read_each(const dl_walk<N + 1> &w, const dl_reads<N> &reads, const F &f, const int32_t (&off)[N + 1],
                             std::index_sequence<K...>) {
    float x[N][EACH];
    (reads.at(w, K + 1, off[K + 1], x[K]), ...);
    dl_vector<R, EACH> out;
#pragma unroll
    for (int j = 0; j < EACH; j++) out.v[j] = f(x[K][j]...);
    *(dl_vector<R, EACH> *)(w.ptr[0] + off[0]) = out;
}

/* As dl_vector_kernel, and with EACH = 1 for what lies apart. */
template <class F, class R, int N, int EACH>
__global__ void __launch_bounds__(DL_BLOCK)
    dl_reading_kernel(const __grid_constant__ dl_walk<N + 1> w, int rest, dl_reads<N> reads, F f) {
    const uint32_t i = blockIdx.x * DL_BLOCK + threadIdx.x;
    int32_t off[N + 1];
    if (i < w.n) {
        w.at(i, off);
        dl_read_each<EACH, F, R>(w, reads, f, off, std::make_index_sequence<N>());
    }
    if (i >= (uint32_t)rest) return;
#pragma unroll
    for (int k = 0; k <= N; k++) off[k] = (int32_t)(w.n * EACH + i) * (w.stride[0][k] / EACH);
    dl_read_each<1, F, R>(w, reads, f, off, std::make_index_sequence<N>());
}

/* Of a call in f32 of which not all operands are f32. */
template <class ROW, class CARRIED>
dl_status dl_run_reading(dl_gpu *g, const dl_call *c, const dl_it &all, CARRIED with) {
    enum { N = ROW::OPERANDS, EACH = 4 };
    typedef typename ROW::template f<float, false> F;
    typedef std::conditional_t<ROW::TESTS, bool, float> R;
    dl_reads<N> reads;
    size_t size[N + 1] = {sizeof(R)};
    for (int k = 0; k < N; k++) reads.dtype[k] = c->in[k]->dtype, size[k + 1] = dl_esize(c->in[k]);
    return dl_it_parts(all, [&](const dl_it &it) {
        const bool vectors = dl_it_vectors(&it, size, EACH);
        const dl_walk<N + 1> w = dl_walk_of<N + 1>(&it, vectors ? EACH : 1);
        const int rest = vectors ? (int)(dl_it_numel(&it) - (long)w.n * EACH) : 0;
        if (vectors)
            dl_reading_kernel<F, R, N, EACH><<<w.n / DL_BLOCK + 1, DL_BLOCK, 0, g->stream>>>(w, rest, reads, F{with});
        else
            dl_reading_kernel<F, R, N, 1><<<dl_blocks(w.n, DL_BLOCK), DL_BLOCK, 0, g->stream>>>(w, 0, reads, F{with});
        return dl_gpu_launched(g);
    });
}

static inline bool dl_all_of_dtype(const dl_call *c, int dtype) {
    for (int i = 0; i < c->nin; i++)
        if (c->in[i]->dtype != dtype) return false;
    return true;
}

template <class ROW> dl_status dl_run_row(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *out = c->out[0], *x = c->in[0];
    int dtype = c->dtype;
    if constexpr (dl_narrows<ROW>)
        if (DL_BIT(dtype) & DL_HALVES && c->in[1]->dtype == DL_F32) return dl_run_narrow<ROW>(g, c);
    if (!ROW::TESTS && out->dtype != dtype) { /* integers with a limit that is not an integer become f32 first */
        DL_TRY(dl_cuda_copy(g, out, x));
        x = out;
        dtype = out->dtype;
    }
    dl_it it = ROW::OPERANDS == 1   ? dl_it_of({out, x})
               : ROW::OPERANDS == 2 ? dl_it_of({out, x, c->in[1]})
                                    : dl_it_of({out, x, c->in[1], c->in[2]});
    auto carried = dl_carry<ROW::NUMBERS, (ROW::HAS & DL_HAS_FAULTS) != 0>(g, c->op, c->attr);
    if constexpr (dl_reads_others<ROW>)
        if (c->dtype == DL_F32 && !dl_all_of_dtype(c, DL_F32)) return dl_run_reading<ROW>(g, c, it, carried);
    return dl_dispatch<ROW::HAS & DL_DTYPES>(dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef typename ROW::template f<calc_t<T>, dl_is_half<T>> F;
        typedef std::conditional_t<ROW::TESTS, bool, T> R;
        if constexpr (ROW::OPERANDS == 1)
            return dl_each<F, R, T>(g, it, F{carried});
        else if constexpr (ROW::OPERANDS == 2)
            return dl_each<F, R, T, T>(g, it, F{carried});
        else
            return dl_each<F, R, T, T, T>(g, it, F{carried});
    });
}

/* Whether there is such a formula: its type is complete. */
template <class GRAD, class = void> constexpr bool dl_has_formula = false;
template <class GRAD> constexpr bool dl_has_formula<GRAD, decltype((void)sizeof(GRAD))> = true;

/* GRAD::f<T> is the gradient of x from the incoming one and a saved tensor; of complex numbers ROW::complex::f<T>. */
template <class ROW, class GRAD> dl_status dl_grad_row(dl_back *b) {
    dl_tensor *saved = ROW::HAS & DL_OF_Y ? dl_saved_out(b, 0) : dl_saved_in(b, 0);
    dl_tensor *grad = saved ? dl_tmp(b, dl_to_dtype(b->g[0], (dl_dtype)saved->dtype)) : NULL;
    dl_gpu *g = grad ? dl_gpu_use(saved->st->device) : NULL;
    dl_tensor *d = g ? dl_cuda_empty_like(saved, (dl_dtype)saved->dtype) : NULL;
    if (!d) return dl_failed();
    dl_it it = dl_it_of({d, grad, saved});
    auto carried = dl_carry<ROW::NUMBERS, false>(g, b->op, b->attr);
    constexpr bool real = dl_has_formula<GRAD>, complex = dl_has_complex_slope(ROW::HAS);
    constexpr unsigned dtypes = (real ? DL_FLOATS : 0) | (complex ? DL_COMPLEX : 0);
    dl_status s = dl_dispatch<dtypes>(saved->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef std::conditional_t<dl_is_complex<T>, typename ROW::complex, GRAD> slope;
        typedef typename slope::template f<calc_t<T>> F;
        return dl_each<F, T, T, T>(g, it, F{carried});
    });
    if (s != DL_OK) return dl_unref(d), s;
    return dl_give(b, 0, d);
}

/* The gradient of operand `to`, by the formula GRAD, from the incoming one and the operands in[], over the result's
 * shape. */
template <class ROW, class GRAD> dl_status dl_grad_operand(dl_back *b, int to, dl_tensor *const *in) {
    dl_tensor *grad = b->g[0];
    if (!(b->need >> to & 1)) return DL_OK;
    if constexpr (!dl_has_formula<GRAD>) {
        return dl_give(b, to, dl_ref(grad));
    } else {
        DL_USE_GPU(g, grad->st->device);
        dl_tensor *d = dl_cuda_empty_like(grad, (dl_dtype)grad->dtype);
        if (!d) return dl_failed();
        auto carried = dl_carry<ROW::NUMBERS, false>(g, b->op, b->attr);
        dl_status s = dl_dispatch<DL_FLOATS>(grad->dtype, [&](auto tag) {
            typedef decltype(tag) T;
            typedef typename GRAD::template f<calc_t<T>> F;
            if constexpr (ROW::OPERANDS == 2)
                return dl_each<F, T, T, T, T>(g, dl_it_of({d, grad, in[0], in[1]}), F{carried});
            else
                return dl_each<F, T, T, T, T, T>(g, dl_it_of({d, grad, in[0], in[1], in[2]}), F{carried});
        });
        if (s != DL_OK) return dl_unref(d), s;
        return dl_give(b, to, d);
    }
}

/* GRADS, one for each operand; one that the row does not save is not read. */
template <class ROW, class... GRADS> dl_status dl_grad_operands(dl_back *b) {
    dl_tensor *in[sizeof...(GRADS)];
    int to = 0;
    dl_status s = DL_OK;
    for (int k = 0; k < (int)sizeof...(GRADS); k++) {
        in[k] = b->g[0];
        if (b->op->save_in >> k & 1 && !(in[k] = dl_tmp(b, dl_to_dtype(dl_saved_in(b, k), (dl_dtype)in[k]->dtype))))
            return dl_failed();
    }
    ((s = s == DL_OK ? dl_grad_operand<ROW, GRADS>(b, to++, in) : s), ...);
    return s;
}

typedef dl_status dl_grad_function(dl_back *);
template <class ROW, class... GRADS> constexpr dl_grad_function *dl_grad_of_row() {
    if constexpr (ROW::HAS & DL_HAS_GRAD_ALL)
        return dl_grad_operands<ROW, GRADS...>;
    else if constexpr (dl_has_real_slope(ROW::HAS) || dl_has_complex_slope(ROW::HAS))
        return dl_grad_row<ROW, GRADS...>;
    else
        return NULL;
}

/* The function of an op, with the attributes of the call. */
#define DL_AT this->at
#define DL_DECLARE(i, n)                                                                                               \
    const dl_number_of<T> n = dl_number_get<T>(this->number[i]);                                                       \
    (void)n;
#define DL_STRUCT(name, operands, tests, numbers, result, args, ...)                                                   \
    struct name##_grad_a;                                                                                              \
    struct name##_grad_b;                                                                                              \
    struct name##_grad_c;                                                                                              \
    struct name##_grad_complex;                                                                                        \
    struct name##_row {                                                                                                \
        enum { OPERANDS = operands, TESTS = tests, NUMBERS = DL_COUNT(numbers), HAS = has_##name };                    \
        typedef name##_grad_complex complex;                                                                           \
        template <class T, bool H> struct f : dl_carried<NUMBERS, (HAS & DL_HAS_FAULTS) != 0> {                        \
            __device__ result operator() args const { DL_EACH(DL_DECLARE, numbers) __VA_ARGS__ }                       \
        };                                                                                                             \
    };
#define DL_GRAD_STRUCT(name, to, numbers, args, ...)                                                                   \
    __VA_OPT__(struct name##_grad_##to {                                                                               \
        template <class T> struct f : dl_carried<name##_row::NUMBERS, false> {                                         \
            __device__ T operator() args const {                                                                       \
                DL_EACH(DL_DECLARE, numbers) return dl_typed<T, false>(__VA_ARGS__);                                   \
            }                                                                                                          \
        };                                                                                                             \
    };)
#define DL_KERNEL(name, flags, ...)                                                                                    \
    const dl_kernel dl_cuda_##name = {                                                                                 \
        dl_run_row<name##_row>, dl_grad_of_row<name##_row, __VA_ARGS__>(), name##_row::HAS & DL_DTYPES, NULL,          \
        flags | dl_flags_of_slope(name##_row::HAS) | (dl_narrows<name##_row> ? DL_K_NARROW : 0) |                      \
            (dl_reads_others<name##_row> ? DL_K_READS : 0)};
