/* Kernels of the largest and smallest elements along dimensions, and of their indices. */
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/rows.cuh"
#include "ops/names/reduce.h"

/* The type that values are compared in, and a value that loses against all others. */
template <class T> using value_t = std::conditional_t<(sizeof(calc_t<T>) < 4), int, calc_t<T>>;
template <class V, bool LEAST> __device__ inline V loser() {
    if constexpr (std::is_floating_point<V>::value)
        return LEAST ? (V)INFINITY : -(V)INFINITY;
    else
        return (V)(LEAST ? ~(1UL << (8 * sizeof(V) - 1)) : 1UL << (8 * sizeof(V) - 1));
}

/* Does b go before a? A NaN beats all but another one. */
template <bool LEAST, class V> __device__ inline bool beats(V b, V a) {
    bool not_worse = LEAST ? !(b >= a) : !(b <= a);
    return not_worse && a == a;
}

template <class T, bool LEAST> struct extreme_op : dl_red_op {
    typedef value_t<T> A;
    T *out;
    __device__ A identity() const { return loser<A, LEAST>(); }
    __device__ A take(A a, calc_t<T> x, long, int) const { return join(a, (A)x); }
    __device__ A join(A a, A b) const {
        if constexpr (std::is_same<A, float>::value && LEAST) {
            asm("min.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
            return a;
        } else if constexpr (LEAST) {
            return beats<true>(b, a) ? b : a;
        } else {
            return dl_larger(a, b);
        }
    }
    __device__ void finish(A a, long i, int) const { out[i] = dl_down<T>(a); }
};

DL_REDUCTION(amax, DL_ANY, extreme_op<T, false>{{}, (T *)out})
DL_REDUCTION(amin, DL_ANY, extreme_op<T, true>{{}, (T *)out})

template <class V> struct least_and_most { V least, most; };
template <class T> struct extremes_op : dl_red_op {
    typedef least_and_most<value_t<T>> A;
    T *min, *max;
    __device__ A identity() const { return {loser<value_t<T>, true>(), loser<value_t<T>, false>()}; }
    __device__ A join(A a, A b) const {
        return {extreme_op<T, true>().join(a.least, b.least), extreme_op<T, false>().join(a.most, b.most)};
    }
    __device__ A take(A a, calc_t<T> x, long, int) const { return join(a, {(value_t<T>)x, (value_t<T>)x}); }
    __device__ void finish(A a, long i, int) const { min[i] = dl_down<T>(a.least), max[i] = dl_down<T>(a.most); }
};
DL_REDUCTION(extremes, DL_ANY, extremes_op<T>{{}, (T *)out, dl_data<T>(OUTPUT(c, EXTREMES_MAX))})

/* With the index of the first occurrence. NONE: no element beats the initial value, so all are equal to it. */
template <class V, class I> struct best {
    V v;
    I i;
};
template <class T, class I, bool LEAST> struct place_op : dl_red_op {
    typedef best<value_t<T>, I> A;
    static constexpr I NONE = sizeof(I) == 4 ? (I)0x7fffffff : (I)0x7fffffffffffffff;
    T *out;
    long *index; /* out may be NULL */
    __device__ A identity() const { return {loser<value_t<T>, LEAST>(), NONE}; }
    __device__ A take(A a, calc_t<T> x, long i, int) const {
        bool better = beats<LEAST>((value_t<T>)x, a.v);
        return {better ? (value_t<T>)x : a.v, better ? (I)i : a.i};
    }
    __device__ A join(A a, A b) const {
        if (beats<LEAST>(b.v, a.v)) return b;
        return beats<LEAST>(a.v, b.v) || a.i < b.i ? a : b;
    }
    __device__ void finish(A a, long i, int) const {
        if (out) out[i] = dl_down<T>(a.v);
        index[i] = a.i == NONE ? 0 : a.i;
    }
};

/* Elements are numbered in the order of the tensor. */
template <bool LEAST> static dl_status run_place(dl_call *c, dl_tensor *value, dl_tensor *index) {
    dl_red_call r;
    DL_TRY(dl_red_prepare(c, &r, true));
    return dl_dispatch<DL_ANY>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        T *out = dl_data<T>(value);
        const T *x = dl_data<T>(c->in[0]);
        long *at = dl_data<long>(index);
        if (c->in[0]->numel < 0x7fffffff) return dl_red_run(r.g, x, r.p, place_op<T, int, LEAST>{{}, out, at});
        return dl_red_run(r.g, x, r.p, place_op<T, long, LEAST>{{}, out, at});
    });
}
static dl_status run_argmax(dl_call *c) { return run_place<false>(c, NULL, c->out[0]); }
static dl_status run_argmin(dl_call *c) { return run_place<true>(c, NULL, c->out[0]); }
static dl_status run_max_dim(dl_call *c) {
    return run_place<false>(c, OUTPUT(c, MAX_DIM_VALUES), OUTPUT(c, MAX_DIM_INDICES));
}
static dl_status run_min_dim(dl_call *c) {
    return run_place<true>(c, OUTPUT(c, MIN_DIM_VALUES), OUTPUT(c, MIN_DIM_INDICES));
}
const dl_kernel dl_cuda_argmax = {run_argmax, NULL, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_argmin = {run_argmin, NULL, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_max_dim = {run_max_dim, NULL, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_min_dim = {run_min_dim, NULL, DL_ANY, NULL, 0};
