/* Reductions. A block is bx results wide and by threads deep; each thread reduces every by-th element of its part of a
 * row, then the threads of a result are joined in a tree. Where results are few, rows are cut into parts and a second
 * launch joins these. All of it follows from shapes and strides, so that results repeat bit for bit. */
#ifndef DL_CUDA_REDUCE_CUH
#define DL_CUDA_REDUCE_CUH

#include "cuda/iter.cuh"

enum { DL_RED_THREADS = 256 };

typedef struct dl_red_dims {
    int n;
    bool wide; /* too many for 32-bit divisions */
    dl_divisor size[DL_MAX_DIM];
    long count[DL_MAX_DIM], step[DL_MAX_DIM]; /* innermost first; steps in elements */

    __device__ long at(long i) const {
        if (n == 1) return i * step[0];
        long off = 0;
#pragma unroll
        for (int d = 0; d < DL_MAX_DIM; d++) {
            if (d == n) break;
            long q = wide ? i / count[d] : (long)size[d].quotient((uint32_t)i);
            off += (i - q * count[d]) * step[d];
            i = q;
        }
        return off;
    }
} dl_red_dims;

typedef struct dl_red_plan {
    dl_red_dims kept, red;
    long outs, n, chunk; /* results, elements of each, elements of a part */
    int splits, bx, by;
    bool cols; /* results lie side by side in memory, else elements do */
} dl_red_plan;

/* reduce.cu: reduces the dimensions of x in `mask`. With `in_order` the elements of a row are numbered as they are in
 * the tensor, else as they lie in memory. */
void dl_red_plan_of(dl_red_plan *p, const dl_tensor *x, unsigned mask, bool in_order);

/* The dimensions of x in `mask`, merged where they lie one in the other; sorted by step where order does not matter. */
void dl_red_dims_of(dl_red_dims *d, const dl_tensor *x, unsigned mask, bool sorted);

/* Op: types A (accumulator), identity(), take(A, x, index), join(A, A), finish(A, r): writes result r. An op
 * with PAIR true has pair(A, x, offset of x, r) in place of take, to read a second tensor of the same strides. */
template <class Op, class T>
__global__ void __launch_bounds__(DL_RED_THREADS)
    dl_red_kernel(const T *x, const __grid_constant__ dl_red_plan p, typename Op::A *part, Op op) {
    typedef typename Op::A A;
    __shared__ alignas(16) char memory[DL_RED_THREADS * sizeof(A)];
    A *shared = (A *)memory;
    int t = threadIdx.x, k = p.cols ? t % p.bx : t / p.by, r = p.cols ? t / p.bx : t % p.by;
    long o = (long)blockIdx.x * p.bx + k;
    A acc = op.identity();
    if (o < p.outs) {
        long base = p.kept.at(o);
        const T *row = x + base;
        long i = blockIdx.y * p.chunk + r, end = (blockIdx.y + 1) * p.chunk;
        if (end > p.n) end = p.n;
        for (; i + 3 * p.by < end; i += 4 * p.by) {
            T v[4];
#pragma unroll
            for (int j = 0; j < 4; j++) v[j] = row[p.red.at(i + j * p.by)];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if constexpr (Op::PAIR)
                    acc = op.pair(acc, dl_up(v[j]), base + p.red.at(i + j * p.by), o);
                else
                    acc = op.take(acc, dl_up(v[j]), i + j * p.by);
            }
        }
        for (; i < end; i += p.by) {
            if constexpr (Op::PAIR)
                acc = op.pair(acc, dl_up(row[p.red.at(i)]), base + p.red.at(i), o);
            else
                acc = op.take(acc, dl_up(row[p.red.at(i)]), i);
        }
    }
    int slot = r * p.bx + k;
    shared[slot] = acc;
    for (int half = p.by / 2; half; half /= 2) {
        __syncthreads();
        if (r < half) shared[slot] = op.join(shared[slot], shared[slot + half * p.bx]);
    }
    if (r || o >= p.outs) return;
    if (part)
        part[blockIdx.y * p.outs + o] = shared[slot];
    else
        op.finish(shared[slot], o);
}

/* Joins the parts of each result: one block a result. */
template <class Op>
__global__ void __launch_bounds__(DL_RED_THREADS)
    dl_red_join_kernel(const typename Op::A *part, long outs, int splits, Op op) {
    typedef typename Op::A A;
    __shared__ alignas(16) char memory[DL_RED_THREADS * sizeof(A)];
    A *shared = (A *)memory;
    int t = threadIdx.x;
    A acc = op.identity();
    for (int s = t; s < splits; s += DL_RED_THREADS) acc = op.join(acc, part[s * outs + blockIdx.x]);
    shared[t] = acc;
    for (int half = DL_RED_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (t < half) shared[t] = op.join(shared[t], shared[t + half]);
    }
    if (!t) op.finish(shared[0], blockIdx.x);
}

template <class Op, class T> dl_status dl_red_run(dl_gpu *g, const T *x, const dl_red_plan &p, Op op) {
    typedef typename Op::A A;
    A *part = NULL;
    if (!p.outs) return DL_OK;
    if (p.splits > 1 && !(part = (A *)dl_gpu_take(g, sizeof(A) * (size_t)(p.splits * p.outs))))
        return dl_error_last()->code;
    dim3 grid((unsigned)((p.outs + p.bx - 1) / p.bx), (unsigned)p.splits);
    dl_red_kernel<Op, T><<<grid, DL_RED_THREADS, 0, g->stream>>>(x, p, part, op);
    dl_status s = dl_gpu_launched(g);
    if (part && s == DL_OK) {
        dl_red_join_kernel<Op><<<(unsigned)p.outs, DL_RED_THREADS, 0, g->stream>>>(part, p.outs, p.splits, op);
        s = dl_gpu_launched(g);
    }
    dl_gpu_drop(g, part);
    return s;
}

#endif
