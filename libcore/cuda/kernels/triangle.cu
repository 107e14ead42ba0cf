/* Kernels of tril and triu, and of the places in a triangle. */
#include "cuda/runtime/iter.cuh"
#include "ops/infer/corner.h"
#include "ops/names/create.h"
#include "ops/names/index.h"

/* p[2], which is not an address, counts column - row. */
template <class T> struct triangle_f {
    long diagonal;
    bool upper;
    __device__ void operator()(char *const p[3]) const {
        long at = (long)p[2];
        bool inside = upper ? at >= diagonal : at <= diagonal;
        *(T *)p[0] = inside ? *(const T *)p[1] : T();
    }
};

/* Contiguous matrices in packs of V elements; what lies outside of the triangle is not read. */
enum { THREADS = 256, PACKS = 2 };

typedef struct packs {
    long n; /* of all matrices */
    uint32_t wide, high;
    dl_divisor by_wide, by_high; /* packs of a row, rows of a matrix */
    long diagonal;
    bool upper;
} packs;

template <class T, int V>
__global__ void __launch_bounds__(THREADS) triangle_kernel(const T *x, T *out, const __grid_constant__ packs p) {
    typedef dl_vector<T, V> pack;
    const long first = (long)blockIdx.x * (THREADS * PACKS) + threadIdx.x;
    pack v[PACKS];
    long at[PACKS]; /* column - row of the first element of a pack */
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        const long i = first + k * THREADS;
        if (i >= p.n) continue;
        const uint32_t row = p.by_wide.quotient((uint32_t)i), column = (uint32_t)i - row * p.wide;
        at[k] = (long)column * V - (row - p.by_high.quotient(row) * p.high);
        const bool some = p.upper ? at[k] + V - 1 >= p.diagonal : at[k] <= p.diagonal;
        v[k] = some ? ((const pack *)x)[i] : pack();
    }
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        const long i = first + k * THREADS;
        if (i >= p.n) continue;
#pragma unroll
        for (int e = 0; e < V; e++)
            if (p.upper ? at[k] + e < p.diagonal : at[k] + e > p.diagonal) v[k].v[e] = T();
        ((pack *)out)[i] = v[k];
    }
}

/* False: they are not such matrices. */
template <class T> static bool by_packs(dl_gpu *g, const dl_tensor *x, dl_tensor *o, long diagonal, bool upper) {
    enum { V = 16 / sizeof(T) };
    const long high = o->shape[o->ndim - 2], wide = o->shape[o->ndim - 1] / V;
    const bool aligned = ((size_t)dl_ptr(x) | (size_t)dl_ptr(o)) % 16 == 0;
    if (!o->numel || o->shape[o->ndim - 1] % V || !aligned || o->numel / V > 0x7fffffff || !dl_is_contiguous(x) ||
        !dl_is_contiguous(o))
        return false;
    packs p = {o->numel / V, (uint32_t)wide, (uint32_t)high, dl_divisor((uint32_t)wide), dl_divisor((uint32_t)high),
               diagonal,     upper};
    triangle_kernel<T, V><<<dl_blocks(p.n, THREADS * PACKS), THREADS, 0, g->stream>>>(dl_data<T>(x), dl_data<T>(o), p);
    return true;
}

static dl_status run(dl_call *c, bool upper) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x = c->in[0];
    const long diagonal = ATTR_I(c, TRIANGLE_DIAGONAL);
    long step[DL_MAX_DIM] = {0};
    step[o->ndim - 2] = -1, step[o->ndim - 1] = 1;
    dl_it it;
    dl_it_begin(&it, o->ndim, o->shape);
    dl_it_tensor(&it, o);
    dl_it_tensor(&it, x);
    dl_it_count(&it, o->ndim, o->shape, step);
    dl_it_end(&it);
    return dl_dispatch_size<16>(dl_esize(o), [&](auto tag) {
        typedef decltype(tag) T;
        return by_packs<T>(g, x, o, diagonal, upper) ? dl_gpu_launched(g)
                                                     : dl_places<3>(g, it, triangle_f<T>{diagonal, upper});
    });
}

static dl_status run_tril(dl_call *c) { return run(c, false); }
static dl_status run_triu(dl_call *c) { return run(c, true); }
const dl_kernel dl_cuda_tril = {run_tril, NULL, DL_ALL, NULL, 0};
const dl_kernel dl_cuda_triu = {run_triu, NULL, DL_ALL, NULL, 0};

/* Each warp writes whole rows: of n places the rows, then the columns. */
enum { WARPS = 8 };
__global__ static void places_kernel(long *at, long n, const __grid_constant__ dl_corner t) {
    for (long row = (long)blockIdx.x * WARPS + threadIdx.y; row < t.rows; row += (long)gridDim.x * WARPS) {
        long end, from = dl_corner_row(&t, row, &end), *to = at + dl_corner_before(&t, row) - from;
        for (long j = from + threadIdx.x; j < end; j += 32) to[j] = row, to[n + j] = j;
    }
}

static dl_status run_triangle_places(dl_call *c) {
    DL_USE_GPU(g, c->device);
    const dl_corner t = {ATTR_I(c, TRIANGLE_PLACES_ROW), ATTR_I(c, TRIANGLE_PLACES_COL),
                         ATTR_I(c, TRIANGLE_PLACES_OFFSET), ATTR_I(c, TRIANGLE_PLACES_LOWER) != 0};
    dl_tensor *o = c->out[0];
    if (!o->numel) return DL_OK;
    places_kernel<<<dl_blocks(t.rows, WARPS), dim3(32, WARPS), 0, g->stream>>>(dl_data<long>(o), (long)o->shape[1], t);
    return dl_gpu_launched(g);
}
/* Results are i64, whatever the dtype of a call without inputs is. */
const dl_kernel dl_cuda_triangle_places = {run_triangle_places, NULL, DL_ALL, NULL, 0};
