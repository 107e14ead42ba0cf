/* Kernel of cumsum, in place over a converted copy [outer][d][inner]. A dimension is cut into parts: their sums, the
 * sums of all parts before each, then the running sums. All in a fixed order; f64 for floating dtypes. */
#include <cub/block/block_scan.cuh>

#include "cuda/types.cuh"

enum { THREADS = 256, EACH = 4, TILE = THREADS * EACH, SHORT = 64, WANTED = 1 << 17 };

template <class T> using scan_t = std::conditional_t<std::is_floating_point<calc_t<T>>::value, double, unsigned long>;

typedef struct plan {
    long outer, d, inner, parts, part; /* part: elements of each */
    bool walk;                         /* a thread takes a part, else a block */
} plan;

/* Of part k of a column: its first element, and how many follow `inner` apart. */
struct stretch {
    long at, n;
    __device__ stretch(const plan &p, long k) {
        long in = k % p.inner, part = k / p.inner % p.parts, row = k / (p.inner * p.parts), first = part * p.part;
        at = (row * p.d + first) * p.inner + in;
        n = p.d - first < p.part ? p.d - first : p.part;
    }
};

/* sum[k] of part k, of a thread each. */
template <class T>
__global__ void __launch_bounds__(THREADS) walk_sums_kernel(const T *x, scan_t<T> *sum, plan p, long n) {
    long k = (long)blockIdx.x * THREADS + threadIdx.x;
    if (k >= n) return;
    stretch w(p, k);
    scan_t<T> s = 0;
    for (long i = 0; i < w.n; i++) s += (scan_t<T>)dl_up(x[w.at + i * p.inner]);
    sum[k] = s;
}

template <class T>
__global__ void __launch_bounds__(THREADS) walk_kernel(T *x, const scan_t<T> *before, plan p, long n) {
    long k = (long)blockIdx.x * THREADS + threadIdx.x;
    if (k >= n) return;
    stretch w(p, k);
    scan_t<T> s = before ? before[k] : 0;
    for (long i = 0; i < w.n; i++) {
        T *at = x + w.at + i * p.inner;
        s += (scan_t<T>)dl_up(*at);
        *at = dl_down<T>(s);
    }
}

/* Each part's sum becomes the sum of all before it. */
template <class A> __global__ void __launch_bounds__(THREADS) before_kernel(A *sum, plan p, long columns) {
    long c = (long)blockIdx.x * THREADS + threadIdx.x;
    if (c >= columns) return;
    A s = 0, *at = sum + c / p.inner * p.parts * p.inner + c % p.inner;
    for (long i = 0; i < p.parts; i++, at += p.inner) {
        A own = *at;
        *at = s;
        s += own;
    }
}

/* A block takes a part of a dimension that is innermost. `sum`: only its sum is wanted. */
template <class T>
__global__ void __launch_bounds__(THREADS) block_kernel(T *x, scan_t<T> *sum, const scan_t<T> *before, plan p) {
    typedef scan_t<T> A;
    typedef cub::BlockScan<A, THREADS> scan;
    __shared__ typename scan::TempStorage memory;
    stretch w(p, blockIdx.x);
    A start = before ? before[blockIdx.x] : 0;
    for (long tile = 0; tile < w.n; tile += TILE) {
        A v[EACH], all;
        long at = tile + threadIdx.x * EACH;
#pragma unroll
        for (int j = 0; j < EACH; j++) v[j] = at + j < w.n ? (A)dl_up(x[w.at + at + j]) : 0;
        scan(memory).InclusiveSum(v, v, all);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (!sum && at + j < w.n) x[w.at + at + j] = dl_down<T>(start + v[j]);
        start += all;
    }
    if (sum && !threadIdx.x) sum[blockIdx.x] = start;
}

static plan plan_of(const dl_tensor *o, int dim) {
    plan p = {1, o->ndim ? o->shape[dim] : 1, 1, 1, 0, false};
    for (int d = 0; d < o->ndim; d++)
        if (d != dim) *(d < dim ? &p.outer : &p.inner) *= o->shape[d];
    p.walk = p.inner > 1 || p.d <= SHORT;
    long columns = p.outer * p.inner, wanted = p.walk ? WANTED / columns : WANTED / THREADS / columns;
    long most = p.walk ? p.d / SHORT : p.d / TILE;
    if (wanted > most) wanted = most;
    if (wanted < 1) wanted = 1;
    p.part = (p.d + wanted - 1) / wanted;
    if (!p.walk) p.part = (p.part + TILE - 1) / TILE * TILE;
    p.parts = (p.d + p.part - 1) / p.part;
    return p;
}

static unsigned blocks_for(long n) { return (unsigned)((n + THREADS - 1) / THREADS); }

template <class T> static dl_status scan(dl_gpu *g, T *x, const plan &p) {
    typedef scan_t<T> A;
    long columns = p.outer * p.inner, n = columns * p.parts;
    A *sum = p.parts > 1 ? (A *)dl_gpu_take(g, sizeof(A) * (size_t)n) : NULL;
    if (p.parts > 1 && !sum) return dl_error_last()->code;
    if (sum) {
        if (p.walk)
            walk_sums_kernel<T><<<blocks_for(n), THREADS, 0, g->stream>>>(x, sum, p, n);
        else
            block_kernel<T><<<(unsigned)n, THREADS, 0, g->stream>>>(x, sum, NULL, p);
        before_kernel<A><<<blocks_for(columns), THREADS, 0, g->stream>>>(sum, p, columns);
    }
    if (p.walk)
        walk_kernel<T><<<blocks_for(n), THREADS, 0, g->stream>>>(x, sum, p, n);
    else
        block_kernel<T><<<(unsigned)n, THREADS, 0, g->stream>>>(x, NULL, sum, p);
    dl_gpu_drop(g, sum);
    return dl_gpu_launched(g);
}

static dl_status run_cumsum(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *o = c->out[0];
    int dim = 0;
    if (!g) return dl_error_last()->code;
    if (!o->numel) return DL_OK;
    dl_dim_norm(c->attr[0].u.i, o->ndim, &dim); /* checked by infer */
    dl_status s = dl_cuda_copy(g, o, c->in[0]);
    if (s != DL_OK) return s;
    return dl_dispatch<DL_FLOATS | DL_BIT(DL_I64)>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return scan<T>(g, (T *)dl_ptr(o), plan_of(o, dim));
    });
}
const dl_kernel dl_cuda_cumsum = {run_cumsum, NULL, DL_ANY, NULL, 0};
