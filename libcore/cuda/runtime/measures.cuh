/* What breakpoints of trainings measure of tensors, by blocks of the kernel that ends a step: each block leaves a part
 * of the sum, and the last one of the launch adds them up. */
#pragma once

#include "core/device/control_step.h"
#include "cuda/kernels/rows.cuh"

enum { DL_MEASURE_THREADS = 256, DL_MEASURE_AT_ONCE = 8 };

/* What a breakpoint is about. p NULL: the norm of all gradients; blocks 0: the number that is there. */
typedef struct dl_measure {
    const void *p;
    int dtype;
    dl_break_measure of;
    unsigned first, blocks; /* of the launch, whose sums are its own */
    long numel;
    dl_units u; /* DEAD */
    dl_break_rule rule;
} dl_measure;

/* FEW: those of most trainings, arguments of a kernel that are there sooner than all that there may be. */
template <int MOST> struct dl_measures {
    int n;
    dl_measure at[MOST];
};
enum { DL_MEASURES_FEW = 3 };

/* Units that a block looks at: neighbours where they are neighbours in memory, else one. */
__host__ __device__ inline int dl_units_at_once(const dl_units &u) { return u.unit_step == 1 && u.units > 1 ? 32 : 1; }

/* Blocks that a measure takes: at most two for each multiprocessor, which run beside those of the gradients. */
static inline unsigned dl_measure_blocks(const dl_measure &m, int sms) {
    long most = 2 * (long)sms, n = m.numel / (DL_MEASURE_THREADS * 16) + 1;
    if (m.of == DL_BREAK_DEAD) return (unsigned)(m.u.units / dl_units_at_once(m.u) + 1);
    return (unsigned)(n < most ? n : most);
}

/* f(an element) for those of this thread; by 16 bytes where the memory is aligned. */
template <class T, class F> __device__ void dl_each_measured(const dl_measure &m, const T *__restrict__ p, F f) {
    enum { WIDE = 16 / sizeof(T) };
    const long step = (long)m.blocks * DL_MEASURE_THREADS;
    const long first = (long)(blockIdx.x - m.first) * DL_MEASURE_THREADS + threadIdx.x;
    const long wide = (unsigned long)p % 16 ? 0 : m.numel / WIDE;
#pragma unroll 4
    for (long i = first; i < wide; i += step) {
        const dl_vector<T, WIDE> v = ((const dl_vector<T, WIDE> *)p)[i];
#pragma unroll
        for (int k = 0; k < WIDE; k++) f(dl_up(v.v[k]));
    }
    for (long i = wide * WIDE + first; i < m.numel; i += step) f(dl_up(p[i]));
}

template <class T> __device__ double dl_measure_elements(const dl_measure &m, const T *__restrict__ p) {
    typedef calc_t<T> C;
    double sum = 0;
    unsigned found = 0;
    if (m.of == DL_BREAK_NORM)
        dl_each_measured(m, p, [&](C v) { sum += (double)v * (double)v; });
    else if (m.of == DL_BREAK_SQUARES)
        dl_each_measured(m, p, [&](C v) { sum += (double)v; });
    else if (m.of == DL_BREAK_ANY_NAN)
        dl_each_measured(m, p, [&](C v) { found |= v != v; });
    else
        dl_each_measured(m, p, [&](C v) { found |= v == v && v - v != 0; });
    return m.of == DL_BREAK_NORM || m.of == DL_BREAK_SQUARES ? sum : found;
}

/* Where sample i, counted over places, too, lies behind the first one of a unit. FEW: fewer than 2 ** 32. */
template <bool ONE_PLACE, bool FEW> __device__ long dl_place_of(const dl_units &u, long i) {
    if (ONE_PLACE) return i * u.sample_step;
    const long n = FEW ? (unsigned)i / (unsigned)u.places : i / u.places;
    return n * u.sample_step + (i - n * u.places) * u.place_step;
}

/* How many of the block's units are 0 or less everywhere. It ends when all of them are seen to be alive. Loads do not
 * depend on one another, nor on a branch: past the end the last element is read again. */
template <class T, bool ONE_PLACE, bool FEW>
__device__ double dl_measure_dead(const dl_measure &m, const T *__restrict__ p) {
    __shared__ int alive[32];
    const int wide = dl_units_at_once(m.u), rows = DL_MEASURE_THREADS / wide;
    const int lane = threadIdx.x % wide, row = threadIdx.x / wide;
    const long unit = (long)(blockIdx.x - m.first) * wide + lane, all = m.u.n * m.u.places;
    const bool is = unit < m.u.units;
    const T *at = p + (is ? unit : 0) * m.u.unit_step;
    if (threadIdx.x < 32) alive[threadIdx.x] = 0;
    __syncthreads();
    for (long from = 0; from < all; from += (long)rows * DL_MEASURE_AT_ONCE) {
        T v[DL_MEASURE_AT_ONCE];
#pragma unroll
        for (int k = 0; k < DL_MEASURE_AT_ONCE; k++) {
            long i = from + k * rows + row;
            v[k] = at[dl_place_of<ONE_PLACE, FEW>(m.u, i < all ? i : all - 1)];
        }
        bool found = false;
#pragma unroll
        for (int k = 0; k < DL_MEASURE_AT_ONCE; k++) found |= !(dl_up(v[k]) <= 0);
        if (found) alive[lane] = 1;
        __syncthreads();
        if (__syncthreads_and(!is || alive[lane])) break;
    }
    return is && !row && !alive[lane];
}

template <class T> __device__ double dl_measure_units(const dl_measure &m, const T *p) {
    if (m.u.places == 1) return dl_measure_dead<T, true, true>(m, p);
    return m.u.n * m.u.places >> 32 ? dl_measure_dead<T, false, false>(m, p) : dl_measure_dead<T, false, true>(m, p);
}

template <class T> __device__ double dl_measure_part_of(const dl_measure &m) {
    const T *p = (const T *)m.p;
    return m.of == DL_BREAK_DEAD ? dl_measure_units(m, p) : dl_measure_elements(m, p);
}

/* This thread's part of the sum of the measure that the block belongs to; 0 where it belongs to none. */
template <int MOST> __device__ double dl_measure_part(const dl_measures<MOST> &all) {
    for (int i = 0; i < all.n; i++) {
        const dl_measure &m = all.at[i];
        if (blockIdx.x < m.first || blockIdx.x >= m.first + m.blocks) continue;
        switch (m.dtype) {
        case DL_F64: return dl_measure_part_of<double>(m);
        case DL_F16: return dl_measure_part_of<f16>(m);
        case DL_BF16: return dl_measure_part_of<bf16>(m);
        default: return dl_measure_part_of<float>(m);
        }
    }
    return 0;
}

/* What is measured, from the sum; of floats rounded as ops give it. */
__device__ inline double dl_measured(const dl_measure &m, double sum) {
    const bool squares = m.of == DL_BREAK_SQUARES;
    double v = m.of == DL_BREAK_NORM || squares ? sqrt(sum) : m.of == DL_BREAK_DEAD ? sum / (double)m.u.units : sum;
    return m.dtype == DL_F64 && !squares ? v : (double)(float)v;
}
