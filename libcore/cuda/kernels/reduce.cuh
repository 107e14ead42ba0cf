/* Reductions. A block is bx results wide and by threads deep; each thread reduces every by-th element of its part of a
 * row, then the threads of a result are joined in a tree. Where memory allows, elements are read 16 bytes at a time:
 * along the rows, or across results that lie side by side, or, of many results of few elements each, over several of
 * them. Where results are few, rows are cut into parts, which the last block of a result to finish joins, in their
 * order. All of it follows from shapes, strides and alignment, so that
 * results repeat bit for bit. */
#pragma once

#include "cuda/runtime/iter.cuh"

enum { DL_RED_THREADS = 256, DL_RED_BYTES = 16 };

/* Elements of one read along a row, and across results. */
constexpr int dl_red_along(size_t size) { return size > 1 ? DL_RED_BYTES / (int)size : 8; }
constexpr int dl_red_across(size_t size) { return size > 4 ? 2 : 4; }

typedef struct dl_red_dims {
    int n;
    bool wide; /* too many for 32-bit divisions */
    dl_divisor size[DL_MAX_DIM];
    long count[DL_MAX_DIM], step[DL_MAX_DIM]; /* innermost first; steps in reads */

    /* Not unrolled: kernels that call this many times would grow for no gain. */
    __device__ long at(long i) const {
        if (n == 1) return i * step[0];
        if (wide) return far(i);
        long off = 0;
        uint32_t left = (uint32_t)i;
#pragma unroll 1
        for (int d = 0; d < n; d++) {
            uint32_t q = size[d].quotient(left);
            off += (long)(left - q * size[d].d) * step[d];
            left = q;
        }
        return off;
    }
    __device__ __noinline__ long far(long i) const {
        long off = 0;
#pragma unroll 1
        for (int d = 0; d < n; d++) {
            long q = i / count[d];
            off += (i - q * count[d]) * step[d];
            i = q;
        }
        return off;
    }
} dl_red_dims;

/* Counted in reads: of one element, or where `vector` is set of several along the row or, with `cols`, across results.
 */
typedef struct dl_red_plan {
    dl_red_dims kept, red;
    long outs, n, chunk; /* results, elements of each, elements of a part */
    int splits, bx, by;
    int group; /* parts that are joined first, 0: all at once */
    bool cols; /* results lie side by side in memory, else elements do */
    bool vector;
    int side;  /* so many elements of each result lie side by side, and behind them those of the next one; 0: not so */
    int width; /* so many results are joined from `outs` columns of rows that are read as one; 0: not so */
    long rest; /* elements behind the last whole row of those */
} dl_red_plan;

/* reduce.cu: reduces the dimensions of x in `mask`. With `in_order` the elements of a row are numbered as they are in
 * the tensor, else as they lie in memory. `also`: memory laid out like x that is read with it, or NULL. */
void dl_red_plan_of(dl_red_plan *p, const dl_tensor *x, unsigned mask, bool in_order, const void *also);
/* Of few columns, whose rows follow each other, several are read as one row that fills vectors and a block. */
void dl_red_fold(dl_red_plan *p, const void *x, size_t size);

/* What ops have by default. Op: a type A (accumulator), identity(), take(A, x, index in the row, context),
 * join(A, A), finish(A, r, context): writes result r. context(x, r): what is known of result r beforehand, x being its
 * first element. An op with PAIR true takes (A, x, y, context), y being of `second`, a tensor laid out like x. An op
 * with BULK true has bulk<N>(A, x[N]) in place of take. Ops with SIDE true have a kernel for results of few elements
 * that lie side by side. Ops with FOLD true need neither the index in the row nor a context. */
struct dl_red_op {
    enum { PAIR = false, BULK = false, SIDE = false, FOLD = false };
    template <class T> __device__ int context(T, long) const { return 0; }
};

/* Two sums at once. */
struct dl_two_sums {
    double a, b;
};
struct dl_two_sums_op : dl_red_op {
    typedef dl_two_sums A;
    __device__ A identity() const { return {0, 0}; }
    __device__ A join(A s, A t) const { return {s.a + t.a, s.b + t.b}; }
};
/* Of x and of x**2, less the first element, which keeps the difference of the squares exact. */
template <class T> struct dl_moments_op : dl_two_sums_op {
    __device__ double context(calc_t<T> x, long) const { return isfinite(x) ? (double)x : 0; }
    __device__ dl_two_sums take(dl_two_sums s, calc_t<T> x, long, double first) const {
        double d = (double)x - first;
        return {s.a + d, s.b + d * d};
    }
};

/* The value of the lane `half` away. */
template <class A> __device__ inline A dl_red_shuffle(A a, int half) {
    static_assert(sizeof(A) % 4 == 0, "accumulators are words");
    unsigned w[sizeof(A) / 4];
    memcpy(w, &a, sizeof a);
#pragma unroll
    for (unsigned i = 0; i < sizeof w / sizeof *w; i++) w[i] = __shfl_xor_sync(0xffffffffu, w[i], half);
    memcpy(&a, w, sizeof a);
    return a;
}

/* Joins the threads of each result of the block; thread r = 0 of it gets the value. */
template <class Op, int V>
__device__ void dl_red_block(const Op &op, const dl_red_plan &p, int k, int r, typename Op::A (&acc)[V],
                             typename Op::A *shared) {
    int t = threadIdx.x, slot = r * p.bx + k;
    __syncthreads(); /* what was in `shared` has been read */
    if (p.cols) {
#pragma unroll
        for (int c = 0; c < V; c++) shared[c * DL_RED_THREADS + slot] = acc[c];
        for (int half = p.by / 2; half; half /= 2) {
            __syncthreads();
            if (r >= half) continue;
#pragma unroll
            for (int c = 0; c < V; c++) {
                acc[c] = op.join(acc[c], shared[c * DL_RED_THREADS + slot + half * p.bx]);
                shared[c * DL_RED_THREADS + slot] = acc[c];
            }
        }
        return;
    }
#pragma unroll
    for (int half = 16; half; half /= 2)
        if (half < p.by) acc[0] = op.join(acc[0], dl_red_shuffle(acc[0], half));
    if (p.by <= 32) return;
    if (t % 32 == 0) shared[t / 32] = acc[0];
    __syncthreads();
    if (r == 0)
        for (int w = 1; w < p.by / 32; w++) acc[0] = op.join(acc[0], shared[t / 32 + w]);
}

/* Is this block the last of `count` that come here? Then it can read what the others have written. */
__device__ inline bool dl_red_last(int *done, int count) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (!threadIdx.x) {
        last = atomicAdd(done, 1) == count - 1;
        if (last) *done = 0; /* for the next launch */
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}

/* Joins parts from..to - 1 of the results of this block; thread r = 0 of each gets the value. */
template <class Op, int V>
__device__ void dl_red_parts(const Op &op, const dl_red_plan &p, const typename Op::A *part, int from, int to, int k,
                             int r, typename Op::A (&acc)[V], typename Op::A *shared) {
    long o = (long)blockIdx.x * p.bx + k;
    bool real = o < p.outs;
#pragma unroll
    for (int c = 0; c < V; c++) acc[c] = op.identity();
#pragma unroll 4
    for (int s = from + r; s < to; s += p.by)
#pragma unroll
        for (int c = 0; c < V; c++)
            if (real) acc[c] = op.join(acc[c], part[(s * p.outs + o) * V + c]);
    dl_red_block<Op, V>(op, p, k, r, acc, shared);
}

template <class Op, int V>
__device__ void dl_red_keep(const dl_red_plan &p, typename Op::A *part, int s, int k, int r,
                            const typename Op::A (&acc)[V]) {
    long o = (long)blockIdx.x * p.bx + k;
    if (o >= p.outs || r) return;
#pragma unroll
    for (int c = 0; c < V; c++) part[(s * p.outs + o) * V + c] = acc[c];
}

/* All parts of the results of this block, by the block that finishes last; false in the others. */
template <class Op, int V>
__device__ bool dl_red_together(const Op &op, const dl_red_plan &p, typename Op::A *part, int *done, int k, int r,
                                typename Op::A (&acc)[V], typename Op::A *shared) {
    int groups = p.group ? (p.splits + p.group - 1) / p.group : 0, s = blockIdx.y;
    dl_red_keep<Op, V>(p, part, s, k, r, acc);
    done += blockIdx.x * (groups + 1);
    if (!groups) {
        if (!dl_red_last(done, p.splits)) return false;
        dl_red_parts<Op, V>(op, p, part, 0, p.splits, k, r, acc, shared);
        return true;
    }
    int g = s / p.group, from = g * p.group, to = from + p.group < p.splits ? from + p.group : p.splits;
    if (!dl_red_last(done + 1 + g, to - from)) return false;
    dl_red_parts<Op, V>(op, p, part, from, to, k, r, acc, shared);
    part += p.splits * p.outs * V;
    dl_red_keep<Op, V>(p, part, g, k, r, acc);
    if (!dl_red_last(done, groups)) return false;
    dl_red_parts<Op, V>(op, p, part, 0, groups, k, r, acc, shared);
    return true;
}

/* Reads U packs of ALONG elements by ACROSS results and takes them. */
template <class Op, class T, int ALONG, int ACROSS, int U, class X>
__device__ inline void dl_red_take(const Op &op, const dl_red_plan &p, const T *x, long base, long i,
                                   X (&context)[ACROSS], typename Op::A (&acc)[ACROSS]) {
    typedef calc_t<T> C;
    typedef dl_vector<T, ALONG * ACROSS> pack;
    pack v[U], w[Op::PAIR ? U : 1];
    long at[U]; /* before the reads, so that these follow each other at once */
    if (p.red.n == 1) {
#pragma unroll
        for (int j = 0; j < U; j++) at[j] = base + (i + j * p.by) * p.red.step[0];
    } else {
#pragma unroll
        for (int j = 0; j < U; j++) at[j] = base + p.red.at(i + j * p.by);
    }
#pragma unroll
    for (int j = 0; j < U; j++) {
        v[j] = ((const pack *)x)[at[j]];
        if constexpr (Op::PAIR) w[j] = ((const pack *)op.second)[at[j]];
    }
#pragma unroll
    for (int c = 0; c < ACROSS; c++) {
        if constexpr (Op::BULK) {
            C all[U * ALONG];
#pragma unroll
            for (int j = 0; j < U * ALONG; j++) all[j] = dl_up(v[j / ALONG].v[j % ALONG * ACROSS + c]);
            acc[c] = op.template bulk<U * ALONG>(acc[c], all);
        } else {
#pragma unroll
            for (int j = 0; j < U; j++)
#pragma unroll
                for (int e = 0; e < ALONG; e++) {
                    C a = dl_up(v[j].v[e * ACROSS + c]);
                    if constexpr (Op::PAIR)
                        acc[c] = op.take(acc[c], a, dl_up(w[j].v[e * ACROSS + c]), context[c]);
                    else
                        acc[c] = op.take(acc[c], a, (i + j * p.by) * ALONG + e, context[c]);
                }
        }
    }
}

/* Elements behind the last whole row, of the first part. */
template <class Op, class T, int ACROSS>
__device__ inline void dl_red_rest(const Op &op, const dl_red_plan &p, const T *x, int k,
                                   typename Op::A (&acc)[ACROSS]) {
    const T *from = x + p.outs * ACROSS * p.n;
#pragma unroll
    for (int c = 0; c < ACROSS; c++)
        if (k * ACROSS + c < p.rest) acc[c] = op.take(acc[c], dl_up(from[k * ACROSS + c]), 0, 0);
}

/* Joins the columns of the block, whose threads r = 0 have them, to the results. */
template <class Op, int ACROSS>
__device__ inline void dl_red_columns(const Op &op, const dl_red_plan &p, int k, int r,
                                      const typename Op::A (&acc)[ACROSS], typename Op::A *shared) {
    __syncthreads();
    if (!r && k < p.outs)
#pragma unroll
        for (int c = 0; c < ACROSS; c++) shared[k * ACROSS + c] = acc[c];
    __syncthreads();
    const int t = threadIdx.x;
    if (t >= p.width) return;
    typename Op::A all = shared[t];
    for (int i = t + p.width; i < p.outs * ACROSS; i += p.width) all = op.join(all, shared[i]);
    op.finish(all, t, 0);
}

template <class Op, class T, int ALONG, int ACROSS>
__global__ void __launch_bounds__(DL_RED_THREADS)
    dl_red_kernel(const T *x, const __grid_constant__ dl_red_plan p, typename Op::A *part, int *done, Op op) {
    typedef typename Op::A A;
    enum { EACH = ALONG * ACROSS, U = ALONG >= 8 ? 2 : EACH > 1 ? 4 : 8 };
    __shared__ alignas(16) char memory[DL_RED_THREADS * ACROSS * sizeof(A)];
    A *shared = (A *)memory, acc[ACROSS];
    int t = threadIdx.x, k = p.cols ? t % p.bx : t / p.by, r = p.cols ? t / p.bx : t % p.by;
    long o = (long)blockIdx.x * p.bx + k, base = 0;
    bool real = o < p.outs;
    decltype(op.context(dl_up(*x), 0)) context[ACROSS] = {};
    if (real) base = p.kept.at(o);
#pragma unroll
    for (int c = 0; c < ACROSS; c++) {
        acc[c] = op.identity();
        if (real && p.n) context[c] = op.context(dl_up(x[base * EACH + c]), o * ACROSS + c);
    }
    if (real) {
        long i = blockIdx.y * p.chunk + r, end = (blockIdx.y + 1) * p.chunk;
        if (end > p.n) end = p.n;
        for (; i + (U - 1) * p.by < end; i += U * p.by)
            dl_red_take<Op, T, ALONG, ACROSS, U>(op, p, x, base, i, context, acc);
        if constexpr (U > 4)
            if (i + 3 * p.by < end)
                dl_red_take<Op, T, ALONG, ACROSS, 4>(op, p, x, base, i, context, acc), i += 4 * p.by;
        if constexpr (U > 2)
            if (i + p.by < end) dl_red_take<Op, T, ALONG, ACROSS, 2>(op, p, x, base, i, context, acc), i += 2 * p.by;
        if (i < end) dl_red_take<Op, T, ALONG, ACROSS, 1>(op, p, x, base, i, context, acc);
        if constexpr (Op::FOLD && ACROSS > 1)
            if (p.rest && !r && !blockIdx.y) dl_red_rest<Op, T, ACROSS>(op, p, x, k, acc);
    }
    dl_red_block<Op, ACROSS>(op, p, k, r, acc, shared);
    if (part && !dl_red_together<Op, ACROSS>(op, p, part, done, k, r, acc, shared)) return;
    if constexpr (Op::FOLD && ACROSS > 1)
        if (p.width) return dl_red_columns<Op, ACROSS>(op, p, k, r, acc, shared);
    if (real && !r)
#pragma unroll
        for (int c = 0; c < ACROSS; c++) op.finish(acc[c], o * ACROSS + c, context[c]);
}

/* Results of few elements, R of which lie side by side: a thread reads them for V / R results at once, which come one
 * behind the other, from each of p.n / R lines. Steps are in elements. */
template <class Op, class T, int R>
__global__ void __launch_bounds__(DL_RED_THREADS)
    dl_red_side_kernel(const T *x, const __grid_constant__ dl_red_plan p, Op op) {
    typedef typename Op::A A;
    enum { V = DL_RED_BYTES / sizeof(T), RESULTS = V / R, U = 4 };
    typedef dl_vector<T, V> pack;
    const long first = ((long)blockIdx.x * DL_RED_THREADS + threadIdx.x) * RESULTS;
    if (first >= p.outs) return;
    const T *from = x + p.kept.at(first);
    A acc[RESULTS];
    decltype(op.context(dl_up(*x), 0)) context[RESULTS];
#pragma unroll
    for (int k = 0; k < RESULTS; k++) acc[k] = op.identity(), context[k] = op.context(dl_up(from[k * R]), first + k);
    for (long i = 0; i < p.n; i += U * R) {
        pack v[U];
#pragma unroll
        for (int u = 0; u < U; u++)
            if (i + u * R < p.n) v[u] = *(const pack *)(from + p.red.at(i + u * R));
#pragma unroll
        for (int u = 0; u < U; u++)
            if (i + u * R < p.n)
#pragma unroll
                for (int e = 0; e < V; e++)
                    acc[e / R] = op.take(acc[e / R], dl_up(v[u].v[e]), i + u * R + e % R, context[e / R]);
    }
#pragma unroll
    for (int k = 0; k < RESULTS; k++) op.finish(acc[k], first + k, context[k]);
}

template <class Op, class T> dl_status dl_red_side(dl_gpu *g, const T *x, const dl_red_plan &p, const Op &op) {
    enum { V = DL_RED_BYTES / sizeof(T) };
    const unsigned blocks = dl_blocks(p.outs / (V / p.side), DL_RED_THREADS);
    if (p.side == 2)
        dl_red_side_kernel<Op, T, 2><<<blocks, DL_RED_THREADS, 0, g->stream>>>(x, p, op);
    else if constexpr (V >= 8)
        dl_red_side_kernel<Op, T, 4><<<blocks, DL_RED_THREADS, 0, g->stream>>>(x, p, op);
    return dl_gpu_launched(g);
}

template <class Op, class T> dl_status dl_red_run(dl_gpu *g, const T *x, dl_red_plan p, Op op) {
    typedef typename Op::A A;
    enum { ALONG = dl_red_along(sizeof(T)), ACROSS = dl_red_across(sizeof(T)) };
    A *part = NULL;
    if (!p.outs) return DL_OK;
    if constexpr (Op::FOLD) dl_red_fold(&p, x, sizeof(T));
    if constexpr (Op::SIDE && (sizeof(T) == 2 || sizeof(T) == 4))
        if (p.side) return dl_red_side(g, x, p, op);
    size_t results = (size_t)p.outs * (p.cols && p.vector ? ACROSS : 1);
    size_t parts = (size_t)p.splits + (p.group ? (size_t)((p.splits + p.group - 1) / p.group) : 0);
    if (p.splits > 1 && !(part = (A *)dl_gpu_take(g, sizeof(A) * parts * results))) return dl_failed();
    dim3 grid((unsigned)((p.outs + p.bx - 1) / p.bx), (unsigned)p.splits);
    if (!p.vector)
        dl_red_kernel<Op, T, 1, 1><<<grid, DL_RED_THREADS, 0, g->stream>>>(x, p, part, g->done, op);
    else if (p.cols)
        dl_red_kernel<Op, T, 1, ACROSS><<<grid, DL_RED_THREADS, 0, g->stream>>>(x, p, part, g->done, op);
    else
        dl_red_kernel<Op, T, ALONG, 1><<<grid, DL_RED_THREADS, 0, g->stream>>>(x, p, part, g->done, op);
    dl_status s = dl_gpu_launched(g);
    dl_gpu_drop(g, part);
    return s;
}

/* ---- kernels of ops */

typedef struct dl_red_call {
    dl_gpu *g;
    dl_red_plan p;
    double each; /* elements of a result */
} dl_red_call;

static inline dl_status dl_red_prepare(const dl_call *c, dl_red_call *r, bool in_order) {
    unsigned mask = 0;
    DL_TRY(dl_reduced_dims(c->op, c->attr, c->in[0]->ndim, &mask));
    if (!(r->g = dl_gpu_use(c->device))) return dl_failed();
    dl_red_plan_of(&r->p, c->in[0], mask, in_order, NULL);
    r->each = 1;
    for (int i = 0; i < c->in[0]->ndim; i++) r->each *= mask >> i & 1 ? (double)c->in[0]->shape[i] : 1;
    return DL_OK;
}

/* The kernel of an op that reduces `dim`; DL_REDUCTION_RUN: its function alone. */
#define DL_REDUCTION_RUN(name, set, ...)                                                                               \
    static dl_status run_##name(dl_call *c) {                                                                          \
        dl_red_call r;                                                                                                 \
        dl_status s = dl_red_prepare(c, &r, false);                                                                    \
        if (s != DL_OK) return s;                                                                                      \
        void *out = dl_ptr(c->out[0]);                                                                                 \
        return dl_dispatch<set>(c->dtype, [&](auto tag) {                                                              \
            typedef decltype(tag) T;                                                                                   \
            return dl_red_run(r.g, dl_data<T>(c->in[0]), r.p, __VA_ARGS__);                                            \
        });                                                                                                            \
    }
#define DL_REDUCTION(name, set, ...)                                                                                   \
    DL_REDUCTION_RUN(name, set, __VA_ARGS__)                                                                           \
    const dl_kernel dl_cuda_##name = {run_##name, NULL, set, NULL, 0};
