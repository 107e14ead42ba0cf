/* Tensors as [outer][d][inner] in memory, for functions along one dimension; and loads of any dtype. */
#pragma once

#include "cuda/runtime/types.cuh"

enum { DL_WARP = 32 };

typedef struct dl_rows {
    long outer, d, inner;
} dl_rows;

/* t dense in some order of dimensions. */
static inline dl_rows dl_rows_of(const dl_tensor *t, int dim) {
    dl_rows r = {0, t->ndim ? t->shape[dim] : 1, 1};
    if (r.d > 1) r.inner = t->stride[dim];
    r.outer = t->numel ? t->numel / (r.d * r.inner) : 0;
    return r;
}

/* One floating number of any dtype, and back. */
__device__ inline double dl_get(const void *p, int dtype, long i) {
    switch (dtype) {
    case DL_F64: return ((const double *)p)[i];
    case DL_F32: return ((const float *)p)[i];
    case DL_F16: return dl_up(((const f16 *)p)[i]);
    case DL_BF16: return dl_up(((const bf16 *)p)[i]);
    case DL_I64: return (double)((const long *)p)[i];
    default: return ((const int *)p)[i];
    }
}
__device__ inline void dl_put(void *p, int dtype, long i, double v) {
    switch (dtype) {
    case DL_F64: ((double *)p)[i] = v; break;
    case DL_F32: ((float *)p)[i] = (float)v; break;
    case DL_F16: ((f16 *)p)[i] = dl_down<f16>((float)v); break;
    default: ((bf16 *)p)[i] = dl_down<bf16>((float)v); break;
    }
}

/* The larger one, or NaN. */
template <class C> __device__ inline C dl_larger(C a, C b) { return b > a || b != b ? b : a; }
template <> __device__ inline float dl_larger<float>(float a, float b) {
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
}

/* Over the `lanes` threads of a row, a power of two: a part of a warp, or with more than 32 the block, which then needs
 * `shared` (one C for each warp). Every thread gets the result; all threads of the warp take part. */
template <class C, class F> __device__ inline C dl_row_join(C v, F join, C *shared, int lanes = DL_WARP) {
#pragma unroll
    for (int k = DL_WARP / 2; k; k /= 2)
        if (k < lanes) v = join(v, __shfl_xor_sync(0xffffffffu, v, k));
    if (lanes <= DL_WARP) return v;
    int warps = lanes / DL_WARP;
    __syncthreads();
    if (threadIdx.x % DL_WARP == 0) shared[threadIdx.x / DL_WARP] = v;
    __syncthreads();
    C all = shared[0];
    for (int w = 1; w < warps; w++) all = join(all, shared[w]);
    return all;
}
struct dl_larger_f {
    template <class C> __device__ C operator()(C a, C b) const { return dl_larger(a, b); }
};
struct dl_sum_f {
    template <class C> __device__ C operator()(C a, C b) const { return a + b; }
};

/* e ** x for x <= 0, for sums in which results near 0 matter little: in f32 the error grows with |x|, and results below
 * the normal numbers are 0. */
template <class C> __device__ inline C dl_quick_exp(C x) { return exp(x); }
template <> __device__ inline float dl_quick_exp<float>(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}

/* Sum of e ** (x - shift), where the shift is the largest x so far, or 0 while that is infinite. */
template <class C> struct dl_exponentials {
    C top;
    double sum;
    static __device__ dl_exponentials none() { return {-(C)INFINITY, 0}; }
    static __device__ C shift(C top) { return isinf(top) ? C(0) : top; }
    /* The sum for results that divide by it: NaN when the largest x is infinite. */
    __device__ double finite() const { return isinf(top) ? (double)NAN : sum; }
    __device__ double moved(C to) const { return sum == 0 ? 0 : sum * (double)dl_quick_exp(shift(top) - to); }
    __device__ dl_exponentials with(const dl_exponentials &b) const {
        C m = dl_larger(top, b.top), s = shift(m);
        if (sum == 0 || b.sum == 0) return {m, moved(s) + b.moved(s)};
        double e = (double)dl_quick_exp(-fabs(shift(top) - shift(b.top)));
        return {m, top == m ? sum + b.sum * e : b.sum + sum * e};
    }
    /* Four terms at a time in C, which costs little accuracy and much less than f64. */
    template <int N> __device__ dl_exponentials with(const C (&x)[N]) const {
        C m = top;
#pragma unroll
        for (int i = 0; i < N; i++) m = dl_larger(m, x[i]);
        C s = shift(m);
        double all = m == top ? sum : moved(s);
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            C few = 0;
#pragma unroll
            for (int j = i; j < i + 4 && j < N; j++) few += dl_quick_exp(x[j] - s);
            all += (double)few;
        }
        return {m, all};
    }
};

/* ---- rows that are read once, into registers */

/* How rows side by side are spread over threads: `lanes` of them hold a row of `packs` reads. */
typedef struct dl_row_plan {
    long rows;
    int packs, lanes, threads, shift; /* lanes = 1 << shift */
} dl_row_plan;

enum { DL_ROW_LANES = 512, DL_ROW_THREADS = 128 };

/* Is d short enough? Reads are of 16 bytes where `aligned`, of one element otherwise; a thread holds `most` of them, or
 * `few` where that suffices. */
static inline bool dl_row_plan_of(dl_row_plan *p, long rows, long d, int vector, int few, int most) {
    long packs = d / vector;
    if (packs > (long)DL_ROW_LANES * most) return false;
    int shift = 0;
    while (1 << shift < DL_WARP && (long)few << shift < packs) shift++;
    while ((long)most << shift < packs) shift++;
    *p = {rows, (int)packs, 1 << shift, 1 << shift > DL_WARP ? 1 << shift : DL_ROW_THREADS, shift};
    return true;
}
static inline unsigned dl_row_blocks(const dl_row_plan *p) {
    int each = p->threads / p->lanes;
    return dl_blocks(p->rows, each);
}

/* This thread's part of its row. */
template <class T, int V, int E> struct dl_row_regs {
    typedef calc_t<T> C;
    dl_vector<T, V> p[E];

    /* What lies beyond the row is `fill`. */
    __device__ void load(const T *row, int packs, int lane, int lanes, C fill) {
        const dl_vector<T, V> *from = (const dl_vector<T, V> *)row;
#pragma unroll
        for (int e = 0; e < E; e++) {
            if (e * lanes + lane < packs)
                p[e] = from[e * lanes + lane];
            else
#pragma unroll
                for (int j = 0; j < V; j++) p[e].v[j] = dl_down<T>(fill);
        }
    }
    __device__ void store(T *row, int packs, int lane, int lanes) const {
        dl_vector<T, V> *to = (dl_vector<T, V> *)row;
#pragma unroll
        for (int e = 0; e < E; e++)
            if (e * lanes + lane < packs) to[e * lanes + lane] = p[e];
    }
    /* f(x, i) of each element i, f(x, y, i) with those of other; `with` and `change` replace it by the result. Reads
     * that no thread of the row has are left out, the others beyond the row hold the fill. */
    template <class F> __device__ void each(const dl_row_plan &plan, F f) const {
#pragma unroll
        for (int e = 0; e < E; e++)
            if (e * plan.lanes < plan.packs)
#pragma unroll
                for (int j = 0; j < V; j++) f(dl_up(p[e].v[j]), e * V + j);
    }
    template <class F> __device__ void with(const dl_row_plan &plan, const dl_row_regs &other, F f) {
#pragma unroll
        for (int e = 0; e < E; e++)
            if (e * plan.lanes < plan.packs)
#pragma unroll
                for (int j = 0; j < V; j++)
                    p[e].v[j] = dl_down<T>(f(dl_up(p[e].v[j]), dl_up(other.p[e].v[j]), e * V + j));
    }
    template <class F> __device__ void change(const dl_row_plan &plan, F f) {
        with(plan, *this, [&](C x, C, int i) { return f(x, i); });
    }
};
