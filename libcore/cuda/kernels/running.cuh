/* Running results along a dimension of any joining operation that is associative, in an order that follows from the
 * shape: lines are cut into parts, of which the whole is joined first, then what comes before each, then the running
 * results. A block has a part of a row, a thread a part of a column.
 *
 * An operation J has a type A, and on the device none(), which joined with any value gives that value, at(i, j), the
 * element at i that is number j of its line, join(before, after), and put(i, v). */
#pragma once

#include "cuda/kernels/rows.cuh"

enum { DL_RUN_THREADS = 256, DL_RUN_EACH = 4, DL_RUN_TILE = DL_RUN_THREADS * DL_RUN_EACH, DL_RUN_LEAST = 64 };
enum { DL_RUN_BLOCKS = 1024, DL_RUN_WANTED = 1 << 17 }; /* blocks of rows, threads of columns that are enough */

/* [outer][d][inner]; reverse: from the last element to the first. */
typedef struct dl_run_lines {
    long outer, d, inner, parts, part;
    bool reverse;
    /* Where element j of a line lies. */
    __device__ long place(long row, long j, long in) const {
        return (row * d + (reverse ? d - 1 - j : j)) * inner + in;
    }
} dl_run_lines;

/* A value of lane - by; any where there is none. */
template <class A> __device__ inline A dl_run_left(A v, int by) {
    enum { WORDS = (sizeof(A) + 3) / 4 };
    unsigned w[WORDS] = {};
    memcpy(w, &v, sizeof v);
#pragma unroll
    for (int k = 0; k < WORDS; k++) w[k] = __shfl_up_sync(0xffffffffu, w[k], by);
    memcpy(&v, w, sizeof v);
    return v;
}

/* STORE: start has what comes before each part, or is NULL; else it gets the whole of each part. */
template <class J, bool STORE>
__global__ void __launch_bounds__(DL_RUN_THREADS) dl_run_rows(J f, dl_run_lines l, typename J::A *start) {
    typedef typename J::A A;
    enum { WARPS = DL_RUN_THREADS / DL_WARP };
    __shared__ A sums[WARPS];
    const int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP;
    const long row = blockIdx.x / l.parts, first = blockIdx.x % l.parts * l.part;
    const long end = first + l.part < l.d ? first + l.part : l.d;
    A carry = STORE && start ? start[blockIdx.x] : f.none();
    for (long base = first; base < end; base += DL_RUN_TILE) {
        const long mine = base + threadIdx.x * DL_RUN_EACH;
        A v[DL_RUN_EACH];
#pragma unroll
        for (int e = 0; e < DL_RUN_EACH; e++)
            v[e] = mine + e < end ? f.at(l.place(row, mine + e, 0), mine + e) : f.none();
#pragma unroll
        for (int e = 1; e < DL_RUN_EACH; e++) v[e] = f.join(v[e - 1], v[e]);
        A all = v[DL_RUN_EACH - 1];
#pragma unroll
        for (int by = 1; by < DL_WARP; by *= 2) {
            A left = dl_run_left(all, by);
            if (lane >= by) all = f.join(left, all);
        }
        A before = dl_run_left(all, 1);
        if (!lane) before = f.none();
        if (lane == DL_WARP - 1) sums[warp] = all;
        __syncthreads();
        A whole = carry, mine_before = carry;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            if (w == warp) mine_before = whole;
            whole = f.join(whole, sums[w]);
        }
        before = f.join(mine_before, before), carry = whole;
        if (STORE)
#pragma unroll
            for (int e = 0; e < DL_RUN_EACH; e++)
                if (mine + e < end) f.put(l.place(row, mine + e, 0), f.join(before, v[e]));
        __syncthreads();
    }
    if (!STORE && !threadIdx.x) start[blockIdx.x] = carry;
}

template <class J, bool STORE>
__global__ void __launch_bounds__(DL_RUN_THREADS) dl_run_columns(J f, dl_run_lines l, typename J::A *start) {
    const long k = (long)blockIdx.x * DL_RUN_THREADS + threadIdx.x, in = k % l.inner, part = k / l.inner % l.parts;
    const long row = k / (l.inner * l.parts), first = part * l.part;
    if (row >= l.outer) return;
    const long end = first + l.part < l.d ? first + l.part : l.d;
    typename J::A v = STORE && start ? start[k] : f.none();
#pragma unroll 4
    for (long j = first; j < end; j++) {
        const long i = l.place(row, j, in);
        v = f.join(v, f.at(i, j));
        if (STORE) f.put(i, v);
    }
    if (!STORE) start[k] = v;
}

/* The whole of each part becomes what comes before it. */
template <class J>
__global__ void __launch_bounds__(DL_RUN_THREADS) dl_run_before(J f, dl_run_lines l, typename J::A *start) {
    const long k = (long)blockIdx.x * DL_RUN_THREADS + threadIdx.x, in = k % l.inner, row = k / l.inner;
    if (row >= l.outer) return;
    typename J::A *at = start + row * l.parts * l.inner + in, v = f.none();
#pragma unroll 8
    for (long p = 0; p < l.parts; p++, at += l.inner) {
        typename J::A own = *at;
        *at = v;
        v = f.join(v, own);
    }
}

/* Along dimension dim of tensors that lie as o, contiguously. */
template <class J> dl_status dl_running(dl_gpu *g, J f, const dl_tensor *o, int dim, bool reverse) {
    typedef typename J::A A;
    dl_run_lines l = {1, o->ndim ? o->shape[dim] : 1, 1, 1, 1, reverse};
    if (!o->numel) return DL_OK;
    for (int d = 0; d < o->ndim; d++)
        if (d != dim) *(d < dim ? &l.outer : &l.inner) *= o->shape[d];
    const bool rows = l.inner == 1;
    const long lines = l.outer * l.inner, least = rows ? 2 * DL_RUN_TILE : DL_RUN_LEAST;
    const long wanted = ((rows ? (long)DL_RUN_BLOCKS : (long)DL_RUN_WANTED) + lines - 1) / lines;
    l.parts = wanted < l.d / least ? wanted : l.d / least;
    if (l.parts < 1) l.parts = 1;
    l.part = (l.d + l.parts - 1) / l.parts;
    if (rows) l.part = (l.part + DL_RUN_TILE - 1) / DL_RUN_TILE * DL_RUN_TILE;
    l.parts = (l.d + l.part - 1) / l.part;
    A *start = l.parts > 1 ? (A *)dl_gpu_take(g, sizeof(A) * (size_t)(lines * l.parts)) : NULL;
    if (l.parts > 1 && !start) return dl_failed();
    const unsigned blocks = dl_blocks(lines * l.parts, rows ? 1 : DL_RUN_THREADS);
    if (start) {
        if (rows)
            dl_run_rows<J, false><<<blocks, DL_RUN_THREADS, 0, g->stream>>>(f, l, start);
        else
            dl_run_columns<J, false><<<blocks, DL_RUN_THREADS, 0, g->stream>>>(f, l, start);
        dl_run_before<J><<<dl_blocks(lines, DL_RUN_THREADS), DL_RUN_THREADS, 0, g->stream>>>(f, l, start);
    }
    if (rows)
        dl_run_rows<J, true><<<blocks, DL_RUN_THREADS, 0, g->stream>>>(f, l, start);
    else
        dl_run_columns<J, true><<<blocks, DL_RUN_THREADS, 0, g->stream>>>(f, l, start);
    dl_gpu_drop(g, start);
    return dl_gpu_launched(g);
}
