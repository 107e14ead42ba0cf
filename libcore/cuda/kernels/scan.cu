/* Kernels of cumsum along a dimension of [outer][d][inner]. Rows side by side are read once: short ones by some lanes
 * of a warp, many long ones by a block each, few long ones by a block a tile, which adds up the sums of the tiles
 * before it. Columns are cut into parts: their sums, the sums of all parts before each, then the running sums. All of
 * it in an order that follows from the shape; f64 for floating dtypes. */
#include "cuda/kernels/rows.cuh"
#include "ops/names/reduce.h"

enum { THREADS = 256, WARPS = THREADS / DL_WARP, PACKS = 8, FEW_PACKS = 4 }; /* packs of a lane */
/* Fewer packs of 16-bit numbers, which are more numbers each. */
constexpr int packs_of(size_t size) { return size == 2 ? FEW_PACKS : PACKS; }
enum { WARP_ROW = 2048, FEW_ROWS = 264, SHORT = 64, WANTED = 1 << 17, AHEAD = 8 };

template <class T> using scan_t = std::conditional_t<std::is_floating_point<calc_t<T>>::value, double, unsigned long>;

template <class T> struct scan_job {
    const T *x;
    T *y;
    long outer, d, inner;
    bool vector; /* packs of 16 bytes lie on their boundaries */
};

/* ---- rows side by side */

/* J packs of V numbers of a lane, those of `lanes` lanes one after another, then the next pack of each. */
template <class T, int V, int J> struct stretch {
    typedef scan_t<T> A;
    dl_vector<T, V> p[J];
    A before[J]; /* each pack */

    /* From element `at` on of a row of n; 0 after it. */
    __device__ void load(const T *x, long n, long at, int lanes, bool vector) {
#pragma unroll
        for (int j = 0; j < J; j++) {
            long i = at + (long)j * lanes * V;
            if (vector && i + V <= n) {
                p[j] = *(const dl_vector<T, V> *)(x + i);
            } else {
#pragma unroll
                for (int e = 0; e < V; e++) p[j].v[e] = i + e < n ? x[i + e] : dl_down<T>(A(0));
            }
        }
    }
    /* Keeps the compiler from holding all elements converted to A between scan() and store(), in twice the registers.
     */
    __device__ void forget() {
#pragma unroll
        for (int j = 0; j < J; j++) {
            unsigned w[4];
            memcpy(w, &p[j], sizeof w);
#pragma unroll
            for (int k = 0; k < 4; k++) asm volatile("" : "+r"(w[k]));
            memcpy(&p[j], w, sizeof w);
        }
    }
    /* What came before all of it is `start`. */
    __device__ void store(T *y, long n, long at, int lanes, bool vector, A start) {
        forget();
#pragma unroll
        for (int j = 0; j < J; j++) {
            long i = at + (long)j * lanes * V;
            A sum = start + before[j];
            dl_vector<T, V> out;
#pragma unroll
            for (int e = 0; e < V; e++) sum += (A)dl_up(p[j].v[e]), out.v[e] = dl_down<T>(sum);
            if (vector && i + V <= n) {
                *(dl_vector<T, V> *)(y + i) = out;
            } else {
#pragma unroll
                for (int e = 0; e < V; e++)
                    if (i + e < n) y[i + e] = out.v[e];
            }
        }
    }
    /* Sums before packs; returns the sum of all. */
    __device__ A scan(int lane, int lanes) {
        A sum[J], all = 0;
#pragma unroll
        for (int j = 0; j < J; j++) {
            sum[j] = (A)dl_up(p[j].v[0]);
#pragma unroll
            for (int e = 1; e < V; e++) sum[j] += (A)dl_up(p[j].v[e]);
        }
        for (int k = 1; k < lanes; k *= 2)
#pragma unroll
            for (int j = 0; j < J; j++) {
                A left = __shfl_up_sync(0xffffffffu, sum[j], k, lanes);
                if (lane >= k) sum[j] += left;
            }
#pragma unroll
        for (int j = 0; j < J; j++) {
            A left = __shfl_up_sync(0xffffffffu, sum[j], 1, lanes);
            before[j] = lane ? all + left : all;
            all += __shfl_sync(0xffffffffu, sum[j], lanes - 1, lanes);
        }
        return all;
    }
};

/* 1 << shift lanes have a row. */
template <class T, int J> __global__ void __launch_bounds__(THREADS) short_kernel(scan_job<T> c, int shift) {
    enum { V = 16 / sizeof(T) };
    int lanes = 1 << shift, lane = threadIdx.x & (lanes - 1);
    long row = ((long)blockIdx.x * THREADS + threadIdx.x) >> shift, n = row < c.outer ? c.d : 0;
    const T *x = c.x + row * c.d;
    T *y = c.y + row * c.d;
    scan_t<T> start = 0;
    for (long at = lane * V; at - lane * V < c.d; at += (long)lanes * V * J) {
        stretch<T, V, J> s;
        s.load(x, n, at, lanes, c.vector);
        scan_t<T> all = s.scan(lane, lanes);
        s.store(y, n, at, lanes, c.vector, start);
        start += all;
    }
}

/* Sums of tiles, of FAN tiles, and of FAN of these, all of one row; the sum before a tile is added up from them in a
 * fixed order. Tiles are numbered in the order in which their blocks begin, so that none waits for one that does not
 * run.
 */
enum { LEVELS = 3, FAN = 32, PAUSE = 100 }; /* ns between two reads of a sum that is not there yet */
struct tile_sum {                           /* written and read as one */
    alignas(16) unsigned long value;
    unsigned long there;
};
template <class A> struct chain {
    tile_sum *node;
    unsigned *ticket;
    long count[LEVELS], from[LEVELS], nodes; /* of a row */

    static __device__ void put(tile_sum *to, A v) {
        unsigned long bits;
        memcpy(&bits, &v, sizeof bits);
        asm volatile("{ .reg .b128 v; mov.b128 v, {%1, %2}; st.relaxed.gpu.b128 [%0], v; }" ::"l"(to), "l"(bits),
                     "l"(1UL)
                     : "memory");
    }
    static __device__ A wait(const tile_sum *of) {
        unsigned long bits, there;
        A v;
        for (;;) {
            asm volatile("{ .reg .b128 v; ld.relaxed.gpu.b128 v, [%2]; mov.b128 {%0, %1}, v; }"
                         : "=l"(bits), "=l"(there)
                         : "l"(of)
                         : "memory");
            if (there) break;
            __nanosleep(PAUSE);
        }
        memcpy(&v, &bits, sizeof v);
        return v;
    }
    /* By a warp: publishes the sum of tile i, and those of the groups that it completes; returns the sum of all tiles
     * before it. */
    __device__ A before(long row, long i, A own, int lane) const {
        A all = 0;
        bool complete = true;
        for (int l = 0; l < LEVELS; l++) {
            tile_sum *base = node + row * nodes + from[l];
            if (complete && !lane) put(base + i, own);
            A v = 0;
            for (long k = (l < LEVELS - 1 ? i / FAN * FAN : 0) + lane; k < i; k += DL_WARP) v += wait(base + k);
            v = dl_row_join(v, dl_sum_f(), (A *)NULL);
            complete = complete && i % FAN == FAN - 1;
            own += v, all += v;
            i /= FAN;
        }
        return all;
    }
};

template <class T, int J, bool CHAINED>
__global__ void __launch_bounds__(THREADS, 3) long_kernel(scan_job<T> c, const __grid_constant__ chain<scan_t<T>> q) {
    typedef scan_t<T> A;
    enum { V = 16 / sizeof(T), SPAN = DL_WARP * V * J, TILE = SPAN * WARPS };
    __shared__ A sums[WARPS], start_of_tile;
    __shared__ unsigned ticket;
    int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP;
    if (CHAINED && !threadIdx.x) ticket = atomicAdd(q.ticket, 1u);
    if (CHAINED) __syncthreads();
    long row = CHAINED ? ticket / q.count[0] : blockIdx.x, tile = CHAINED ? ticket % q.count[0] : 0;
    A start = 0;
    for (long at = tile * TILE; at < c.d; at += TILE) {
        stretch<T, V, J> s;
        long mine = at + warp * SPAN + lane * V;
        s.load(c.x + row * c.d, c.d, mine, DL_WARP, c.vector);
        A own = s.scan(lane, DL_WARP), left = 0, all = 0;
        if (!lane) sums[warp] = own;
        __syncthreads();
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            if (w == warp) left = all;
            all += sums[w];
        }
        if constexpr (CHAINED) {
            if (!warp) {
                A v = q.before(row, tile, all, lane);
                if (!lane) start_of_tile = v;
            }
            __syncthreads();
            start = start_of_tile;
        }
        s.store(c.y + row * c.d, c.d, mine, DL_WARP, c.vector, start + left);
        if (CHAINED) break;
        start += all;
        __syncthreads();
    }
}

template <class T> static dl_status chained(dl_gpu *g, const scan_job<T> &c) {
    typedef scan_t<T> A;
    chain<A> q = {};
    long tile = THREADS * packs_of(sizeof(T)) * 16 / (long)sizeof(T), n = (c.d + tile - 1) / tile;
    for (int l = 0; l < LEVELS; l++, n = (n + FAN - 1) / FAN) q.count[l] = n, q.from[l] = q.nodes, q.nodes += n;
    size_t bytes = (size_t)(q.nodes * c.outer) * sizeof(tile_sum);
    char *work = (char *)dl_gpu_take(g, bytes + sizeof(unsigned));
    if (!work) return dl_failed();
    q.node = (tile_sum *)work, q.ticket = (unsigned *)(work + bytes);
    dl_status s = dl_gpu_check(g, cudaMemsetAsync(work, 0, bytes + sizeof(unsigned), g->stream), "zeros");
    if (s == DL_OK) {
        long_kernel<T, packs_of(sizeof(T)), true><<<(unsigned)(c.outer * q.count[0]), THREADS, 0, g->stream>>>(c, q);
        s = dl_gpu_launched(g);
    }
    dl_gpu_drop(g, work);
    return s;
}

template <class T> static dl_status along(dl_gpu *g, const scan_job<T> &c) {
    enum { V = 16 / sizeof(T) };
    if (c.d > WARP_ROW && c.outer < FEW_ROWS) return chained(g, c);
    if (c.d > WARP_ROW) {
        long_kernel<T, packs_of(sizeof(T)), false><<<(unsigned)c.outer, THREADS, 0, g->stream>>>(c, chain<scan_t<T>>());
        return dl_gpu_launched(g);
    }
    int shift = 0;
    while (1 << shift < DL_WARP && (long)V << shift < c.d) shift++;
    unsigned blocks = dl_blocks(c.outer << shift, THREADS);
    if ((long)V << shift < c.d)
        short_kernel<T, FEW_PACKS><<<blocks, THREADS, 0, g->stream>>>(c, shift);
    else
        short_kernel<T, 1><<<blocks, THREADS, 0, g->stream>>>(c, shift);
    return dl_gpu_launched(g);
}

/* ---- columns */

typedef struct cut {
    long parts, part; /* part: elements of each */
} cut;

/* Of part k of the columns: its first element, and how many follow `inner` apart. */
template <class T> struct piece {
    long at, n;
    __device__ piece(const scan_job<T> &c, const cut &p, long k) {
        long in = k % c.inner, part = k / c.inner % p.parts, row = k / (c.inner * p.parts), first = part * p.part;
        at = (row * c.d + first) * c.inner + in;
        n = c.d - first < p.part ? c.d - first : p.part;
    }
};

/* f(element, whether it is one) of AHEAD elements at a time, which are read first. */
template <class T, class F> __device__ inline void walk(const scan_job<T> &c, const piece<T> &w, F f) {
    for (long i = 0; i < w.n; i += AHEAD) {
        T v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j < w.n) v[j] = c.x[w.at + (i + j) * c.inner];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j < w.n) f((scan_t<T>)dl_up(v[j]), w.at + (i + j) * c.inner);
    }
}

/* sum[k] of part k. */
template <class T>
__global__ void __launch_bounds__(THREADS) part_sums_kernel(scan_job<T> c, scan_t<T> *sum, cut p, long n) {
    long k = (long)blockIdx.x * THREADS + threadIdx.x;
    if (k >= n) return;
    scan_t<T> s = 0;
    walk(c, piece<T>(c, p, k), [&](scan_t<T> v, long) { s += v; });
    sum[k] = s;
}

template <class T>
__global__ void __launch_bounds__(THREADS) part_kernel(scan_job<T> c, const scan_t<T> *before, cut p, long n) {
    long k = (long)blockIdx.x * THREADS + threadIdx.x;
    if (k >= n) return;
    scan_t<T> s = before ? before[k] : 0;
    walk(c, piece<T>(c, p, k), [&](scan_t<T> v, long at) {
        s += v;
        c.y[at] = dl_down<T>(s);
    });
}

/* Each part's sum becomes the sum of all before it. */
template <class A>
__global__ void __launch_bounds__(THREADS) before_kernel(A *sum, long parts, long inner, long columns) {
    long c = (long)blockIdx.x * THREADS + threadIdx.x;
    if (c >= columns) return;
    A s = 0, *at = sum + c / inner * parts * inner + c % inner;
    for (long i = 0; i < parts; i++, at += inner) {
        A own = *at;
        *at = s;
        s += own;
    }
}

template <class T> static dl_status across(dl_gpu *g, const scan_job<T> &c) {
    typedef scan_t<T> A;
    long columns = c.outer * c.inner, wanted = WANTED / columns;
    if (wanted > c.d / SHORT) wanted = c.d / SHORT;
    if (wanted < 1) wanted = 1;
    cut p = {0, (c.d + wanted - 1) / wanted};
    p.parts = (c.d + p.part - 1) / p.part;
    long n = columns * p.parts;
    A *sum = p.parts > 1 ? (A *)dl_gpu_take(g, sizeof(A) * (size_t)n) : NULL;
    if (p.parts > 1 && !sum) return dl_failed();
    if (sum) {
        part_sums_kernel<T><<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(c, sum, p, n);
        before_kernel<A><<<dl_blocks(columns, THREADS), THREADS, 0, g->stream>>>(sum, p.parts, c.inner, columns);
    }
    part_kernel<T><<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(c, sum, p, n);
    dl_gpu_drop(g, sum);
    return dl_gpu_launched(g);
}

static dl_status run_cumsum(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x = c->in[0];
    int dim = 0;
    if (!o->numel) return DL_OK;
    dl_dim_norm(ATTR_I(c, CUMSUM_DIM), o->ndim, &dim); /* checked by infer */
    bool direct = x->dtype == o->dtype && dl_is_contiguous(x);
    DL_TRY(direct ? DL_OK : dl_cuda_copy(g, o, x));
    return dl_dispatch<DL_FLOATS | DL_BIT(DL_I64)>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        scan_job<T> job = {dl_data<T>(direct ? x : o), dl_data<T>(o), 1, o->ndim ? o->shape[dim] : 1, 1, false};
        for (int d = 0; d < o->ndim; d++)
            if (d != dim) *(d < dim ? &job.outer : &job.inner) *= o->shape[d];
        bool even = job.outer == 1 || job.d % (16 / (long)sizeof(T)) == 0;
        job.vector = even && ((size_t)job.x | (size_t)job.y) % 16 == 0;
        return job.inner == 1 ? along(g, job) : across(g, job);
    });
}
const dl_kernel dl_cuda_cumsum = {run_cumsum, NULL, DL_ANY, NULL, 0};
