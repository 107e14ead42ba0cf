/* Kernels of places: of values in sorted rows; and of the best element so far along a dimension. And how many elements
 * lie in each of some intervals. */
#include "cuda/kernels/running.cuh"
#include "ops/names/index.h"
#include "ops/names/sort.h"

#include <limits.h>

enum { THREADS = 256 };
enum : unsigned { ORDERED = DL_BIT(DL_I32) | DL_BIT(DL_I64) | DL_BIT(DL_F32) | DL_BIT(DL_F64) };
enum : unsigned { PLACED = ORDERED | DL_HALVES };

/* ---- binary search */

/* Values of a thread; blocks for each processor, and bytes of a row, where it is kept in shared memory. */
enum { TOGETHER = 4, SEARCH_BLOCKS = 8, MOST_SHARED = 24 << 10 };

/* Values are looked for in rows of n elements, those of a row in blocks of m; first: the largest power of two up to n.
 */
template <class T> struct search {
    const T *rows, *values;
    long *at, n, m, numel, first;
    bool right;
    /* Does a, of the row, lie before v? NaN is behind every number. */
    __device__ bool before(T a, T v) const { return (right ? a <= v : a < v) || v != v; }
};

/* A thread looks for TOGETHER values at once: the first step leaves a part of first - 1 elements, in which every other
 * halves what is left. SHARED: there is one row, which is kept in shared memory. */
template <class T, bool SHARED>
__global__ void __launch_bounds__(THREADS) search_kernel(const __grid_constant__ search<T> s) {
    typedef std::conditional_t<SHARED, int, long> I;
    extern __shared__ uint64_t memory[];
    const long step = (long)gridDim.x * THREADS;
    const I n = (I)s.n, first = (I)s.first;
    if constexpr (SHARED) {
        for (int k = threadIdx.x; k < n; k += THREADS) ((T *)memory)[k] = s.rows[k];
        __syncthreads();
    }
    for (long i = (long)blockIdx.x * THREADS + threadIdx.x; i < s.numel; i += TOGETHER * step) {
        const T *row[TOGETHER];
        T v[TOGETHER];
        I at[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            const long own = i + k * step < s.numel ? i + k * step : i;
            v[k] = s.values[own];
            row[k] = SHARED ? (const T *)memory : s.rows + (s.m < s.numel ? own / s.m * s.n : 0);
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) at[k] = s.before(row[k][first - 1], v[k]) ? n - first + 1 : 0;
        for (I half = first / 2; half; half /= 2)
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) at[k] += s.before(row[k][at[k] + half - 1], v[k]) ? half : 0;
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            if (i + k * step < s.numel) s.at[i + k * step] = at[k];
    }
}

template <class T> static dl_status search_rows(dl_gpu *g, const search<T> &s) {
    const size_t bytes = sizeof(T) * (size_t)s.n;
    const long wanted = dl_blocks(s.numel, TOGETHER * THREADS), most = SEARCH_BLOCKS * (long)g->sms;
    if (s.m == s.numel && bytes <= MOST_SHARED)
        search_kernel<T, true><<<(unsigned)(wanted < most ? wanted : most), THREADS, bytes, g->stream>>>(s);
    else
        search_kernel<T, false><<<(unsigned)wanted, THREADS, 0, g->stream>>>(s);
    return dl_gpu_launched(g);
}

static dl_status run_sorted_place(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *rows = dl_cuda_contiguous(g, c->in[0]), *values = rows ? dl_cuda_contiguous(g, c->in[1]) : NULL;
    dl_status s = values ? DL_OK : dl_failed();
    if (values && values->numel) {
        const long n = rows->shape[rows->ndim - 1], numel = (long)values->numel;
        const long m = rows->ndim > 1 ? values->shape[values->ndim - 1] : numel;
        const bool right = ATTR_I(c, SORTED_PLACE_RIGHT) != 0;
        long first = 1;
        while (2 * first <= n) first *= 2;
        if (!n)
            s = dl_cuda_clear(g, c->out[0]);
        else
            s = dl_dispatch<ORDERED>(rows->dtype, [&](auto tag) {
                typedef decltype(tag) T;
                return search_rows(g, search<T>{dl_data<T>(rows), dl_data<T>(values), dl_data<long>(c->out[0]), n, m,
                                                numel, first, right});
            });
    }
    dl_unref(values);
    dl_unref(rows);
    return s;
}
const dl_kernel dl_cuda_sorted_place = {run_sorted_place, NULL, ORDERED, NULL, 0};

/* ---- running places: of several equal ones the last, of NaN every one */

template <class C, class P> struct placed {
    C v;
    P at; /* -1: none */
};

template <class T, class P> struct best_so_far {
    typedef placed<calc_t<T>, P> A;
    const T *x;
    long *out;
    bool largest;
    __device__ A none() const { return {calc_t<T>(0), -1}; }
    __device__ A at(long i, long j) const { return {dl_up(x[i]), (P)j}; }
    __device__ A join(A a, A b) const {
        const bool wins = (largest ? b.v >= a.v : b.v <= a.v) || b.v != b.v;
        return b.at >= 0 && (wins || a.at < 0) ? b : a;
    }
    __device__ void put(long i, A v) const { out[i] = v.at; }
};

static dl_status run_best_place(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x;
    int dim;
    DL_TRY(dl_dim_norm(ATTR_I(c, BEST_PLACE_DIM), o->ndim, &dim));
    if (!o->numel) return DL_OK;
    if (!(x = dl_cuda_contiguous(g, c->in[0]))) return dl_failed();
    const bool largest = ATTR_I(c, BEST_PLACE_LARGEST) != 0, wide = o->ndim && o->shape[dim] > INT_MAX;
    dl_status s = dl_dispatch<PLACED>(x->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return wide ? dl_running(g, best_so_far<T, long>{dl_data<T>(x), dl_data<long>(o), largest}, o, dim, false)
                    : dl_running(g, best_so_far<T, int>{dl_data<T>(x), dl_data<long>(o), largest}, o, dim, false);
    });
    dl_unref(x);
    return s;
}
const dl_kernel dl_cuda_best_place = {run_best_place, NULL, PLACED, NULL, 0};

/* ---- counts of intervals */

/* Counts that a block has in shared memory; blocks for each processor; rows of a launch, each with a number in `done`.
 */
enum { COUNTED = 8192, COUNT_BLOCKS = 8, COUNT_ROWS = DL_GPU_DONE };

/* Rows of n elements. counts: zeros, to which every block adds. The block of a row that finishes last writes. */
template <class T> struct intervals {
    const T *x;
    T *out;
    unsigned long long *counts;
    long n, bins;
    calc_t<T> low, high, scale;
    int *done;
};

template <class T, bool SHARED>
__global__ void __launch_bounds__(THREADS) interval_kernel(const __grid_constant__ intervals<T> w) {
    typedef calc_t<T> C;
    extern __shared__ unsigned own[];
    __shared__ bool last;
    const C end = (C)(w.bins - 1);
    const long step = (long)gridDim.x * THREADS;
    const T *x = w.x + blockIdx.y * w.n;
    unsigned long long *counts = w.counts + blockIdx.y * w.bins;
    if constexpr (SHARED) {
        for (long k = threadIdx.x; k < w.bins; k += THREADS) own[k] = 0;
        __syncthreads();
    }
#pragma unroll 4
    for (long i = (long)blockIdx.x * THREADS + threadIdx.x; i < w.n; i += step) {
        const C v = dl_up(x[i]), place = (v - w.low) * w.scale;
        if (!(v >= w.low && v <= w.high)) continue;
        const long at = (long)(place < end ? place : end);
        if constexpr (SHARED)
            atomicAdd(own + at, 1u);
        else
            atomicAdd(counts + at, 1ull);
    }
    if constexpr (SHARED) {
        __syncthreads();
        for (long k = threadIdx.x; k < w.bins; k += THREADS)
            if (own[k]) atomicAdd(counts + k, (unsigned long long)own[k]);
    }
    __threadfence();
    __syncthreads();
    if (!threadIdx.x) {
        last = atomicAdd(w.done + blockIdx.y, 1) == (int)gridDim.x - 1;
        if (last) w.done[blockIdx.y] = 0; /* for the next launch */
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (long k = threadIdx.x; k < w.bins; k += THREADS)
        w.out[blockIdx.y * w.bins + k] = dl_down<T>((C)((volatile unsigned long long *)counts)[k]);
}

template <class T> static dl_status count_rows(dl_gpu *g, intervals<T> w, long rows) {
    const long wanted = dl_blocks(w.n, 4 * THREADS), most = COUNT_BLOCKS * (long)g->sms;
    const unsigned blocks = (unsigned)(wanted < 1 ? 1 : wanted < most ? wanted : most);
    for (long row = 0; row < rows; row += COUNT_ROWS) {
        const dim3 grid(blocks, (unsigned)(rows - row < COUNT_ROWS ? rows - row : (long)COUNT_ROWS));
        if (w.bins <= COUNTED)
            interval_kernel<T, true><<<grid, THREADS, sizeof(unsigned) * (size_t)w.bins, g->stream>>>(w);
        else
            interval_kernel<T, false><<<grid, THREADS, 0, g->stream>>>(w);
        DL_TRY(dl_gpu_launched(g));
        w.x += COUNT_ROWS * w.n, w.out += COUNT_ROWS * w.bins, w.counts += COUNT_ROWS * w.bins;
    }
    return DL_OK;
}

static dl_status run_interval_counts(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0];
    if (!o->numel) return DL_OK;
    const double low = ATTR_F(c, INTERVAL_COUNTS_LOW), high = ATTR_F(c, INTERVAL_COUNTS_HIGH);
    const long bins = ATTR_I(c, INTERVAL_COUNTS_BINS), n = c->in[0]->shape[c->in[0]->ndim - 1];
    const size_t bytes = sizeof(unsigned long long) * (size_t)o->numel;
    dl_tensor *x = dl_cuda_contiguous(g, c->in[0]);
    unsigned long long *counts = x ? (unsigned long long *)dl_gpu_take(g, bytes) : NULL;
    dl_status s =
        counts ? dl_gpu_check(g, cudaMemsetAsync(counts, 0, bytes, g->stream), "clearing counts") : dl_failed();
    if (s == DL_OK)
        s = dl_dispatch<DL_FLOATS>(x->dtype, [&](auto tag) {
            typedef decltype(tag) T;
            typedef calc_t<T> C;
            const intervals<T> w = {dl_data<T>(x), dl_data<T>(o), counts,  n,
                                    bins,          (C)low,        (C)high, (C)((double)bins / (high - low)),
                                    g->done};
            return count_rows(g, w, (long)o->numel / bins);
        });
    dl_gpu_drop(g, counts);
    dl_unref(x);
    return s;
}
const dl_kernel dl_cuda_interval_counts = {run_interval_counts, NULL, DL_FLOATS, NULL, 0};
