/* Kernels that read by index, and of indices of values: index_select, gather, nonzero, nonzero_static,
 * place_masked, one_hot. */
#include <cub/device/device_scan.cuh>

#include "cuda/kernels/index/index.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/index/scatter.h"
#include "ops/names/index.h"

enum { THREADS = 256, SEVERAL = 4, STRIP = 128 }; /* bytes */

/* Operands: out, x at index 0 of the dimension, index. A thread has several elements and starts all reads before it
 * uses the first. */
struct gather_args {
    long size, step; /* of x along the dimension; in bytes */
    int wide;
    dl_fault_site site;
};

template <class T>
__global__ void __launch_bounds__(THREADS) gather_kernel(const __grid_constant__ dl_walk<3> w, gather_args a) {
    uint32_t i = blockIdx.x * (THREADS * SEVERAL) + threadIdx.x;
    int32_t off[SEVERAL][3];
    long at[SEVERAL];
    T v[SEVERAL];
#pragma unroll
    for (int k = 0; k < SEVERAL; k++) {
        at[k] = -1;
        if (i + k * THREADS >= w.n) continue;
        w.at(i + k * THREADS, off[k]);
        const char *p = w.ptr[2] + off[k][2];
        at[k] = a.wide ? *(const long *)p : *(const int *)p;
    }
#pragma unroll
    for (int k = 0; k < SEVERAL; k++) {
        v[k] = T();
        if (i + k * THREADS >= w.n) continue;
        long given = at[k];
        if (given < 0) at[k] += a.size;
        if (at[k] >= 0 && at[k] < a.size)
            v[k] = *(const T *)(w.ptr[1] + off[k][1] + at[k] * a.step);
        else
            dl_fault_raise(a.site, DL_FAULT_INDEX, given, a.size);
    }
#pragma unroll
    for (int k = 0; k < SEVERAL; k++)
        if (i + k * THREADS < w.n) *(T *)(w.ptr[0] + off[k][0]) = v[k];
}

template <class T> static dl_status gather(dl_gpu *g, const dl_call *c, const dl_it &all, long size, long step) {
    gather_args a = {size, step, c->in[1]->dtype == DL_I64, dl_gpu_site(g, c->op)};
    return dl_it_parts(all, [&](const dl_it &it) {
        dl_walk<3> w = dl_walk_of<3>(&it);
        gather_kernel<T><<<dl_blocks(w.n, THREADS * SEVERAL), THREADS, 0, g->stream>>>(w, a);
        return dl_gpu_launched(g);
    });
}

static dl_status gather_sized(dl_gpu *g, const dl_call *c, const dl_it &it, size_t unit, long size, long step) {
    if (unit == 16) return gather<uint4>(g, c, it, size, step);
    return dl_dispatch_size(unit, [&](auto tag) { return gather<decltype(tag)>(g, c, it, size, step); });
}

/* Rows of contiguous tensors, in the largest pieces that fit. */
static dl_status select_rows(dl_gpu *g, const dl_call *c, int dim, long size) {
    dl_tensor *x = c->in[0], *index = c->in[1], *o = c->out[0];
    long outer = 1, row = (long)dl_esize(x);
    for (int d = 0; d < x->ndim; d++)
        if (d != dim) *(d < dim ? &outer : &row) *= x->shape[d];
    size_t unit = 16, at = (size_t)dl_ptr(x) | (size_t)dl_ptr(o) | (size_t)row;
    while (at % unit) unit /= 2;
    long inner = row / (long)unit, n = index->numel, shape[3] = {outer, n, inner};
    const long os[3] = {n * inner, inner, 1}, xs[3] = {size * inner, 0, 1};
    const long is[3] = {0, index->ndim ? index->stride[0] : 0, 0};
    dl_it it;
    dl_it_begin(&it, 3, shape);
    dl_it_operand(&it, dl_ptr(o), unit, 3, shape, os);
    dl_it_operand(&it, dl_ptr(x), unit, 3, shape, xs);
    dl_it_operand(&it, dl_ptr(index), dl_esize(index), 3, shape, is);
    dl_it_end(&it);
    return gather_sized(g, c, it, unit, size, row);
}

/* Any strides; the index has those given. */
static dl_status select_elements(dl_gpu *g, const dl_call *c, int dim, long size, const long *index_stride) {
    dl_tensor *x = c->in[0], *index = c->in[1], *o = c->out[0];
    long stride[DL_MAX_DIM], step = x->ndim ? x->stride[dim] * (long)dl_esize(x) : 0;
    memcpy(stride, x->stride, sizeof stride);
    stride[dim] = 0;
    dl_it it;
    dl_it_begin(&it, o->ndim, o->shape);
    dl_it_tensor(&it, o);
    dl_it_operand(&it, dl_ptr(x), dl_esize(x), o->ndim, o->shape, stride);
    dl_it_operand(&it, dl_ptr(index), dl_esize(index), o->ndim, o->shape, index_stride);
    dl_it_end(&it);
    /* x jumps between rows: in strips of a few sectors of memory, which stay in the cache */
    if (it.ndim > 1 && !it.stride[1][1] && it.stride[0][1] == (long)dl_esize(x))
        dl_it_strips(&it, STRIP / (long)dl_esize(x));
    return gather_sized(g, c, it, dl_esize(x), size, step);
}

static dl_status run_indexed(dl_call *c, bool list) {
    DL_USE_GPU(g, c->device);
    dl_tensor *x = c->in[0], *index = c->in[1];
    int dim = 0;
    dl_dim_norm(ATTR_I(c, INDEXED_DIM), x->ndim, &dim); /* checked by infer */
    long size = x->ndim ? x->shape[dim] : 1;
    if (!list) return select_elements(g, c, dim, size, index->stride);
    if (dl_is_contiguous(x) && x->numel) return select_rows(g, c, dim, size);
    long stride[DL_MAX_DIM] = {0};
    stride[dim] = index->ndim ? index->stride[0] : 0;
    return select_elements(g, c, dim, size, stride);
}

static dl_status run_index_select(dl_call *c) { return run_indexed(c, true); }
static dl_status run_gather(dl_call *c) { return run_indexed(c, false); }
const dl_kernel dl_cuda_index_select = {run_index_select, dl_cuda_grad_index_select, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_gather = {run_gather, dl_cuda_grad_gather, DL_ANY, NULL, 0};

/* ---- indices of values */

typedef struct sizes {
    int ndim;
    long shape[DL_MAX_DIM];
    dl_divisor by[DL_MAX_DIM]; /* below 2^31 elements */
} sizes;

/* A block has SPAN elements, a thread EACH of them side by side. */
enum { WARPS = THREADS / DL_WARP, EACH = 16, SPAN = THREADS * EACH, FEW_BLOCKS = 2048 };

/* Bits: which of EACH elements from x[at] on are not zero. */
template <class T> __device__ inline unsigned true_at(const T *x, long n, long at, bool vector) {
    enum { V = 16 / sizeof(T) };
    dl_vector<T, V> p[EACH / V];
    unsigned bits = 0;
    if (vector && at + EACH <= n) {
#pragma unroll
        for (int k = 0; k < EACH / V; k++) p[k] = ((const dl_vector<T, V> *)(x + at))[k];
#pragma unroll
        for (int e = 0; e < EACH; e++) bits |= (unsigned)(dl_up(p[e / V].v[e % V]) != calc_t<T>(0)) << e;
    } else {
        for (int e = 0; e < EACH; e++) bits |= (unsigned)(at + e < n && dl_up(x[at + e]) != calc_t<T>(0)) << e;
    }
    return bits;
}

/* Counts the non-zero elements of each block. */
template <class T>
__global__ void __launch_bounds__(THREADS) count_kernel(const T *x, long n, bool vector, long *count) {
    __shared__ int shared[WARPS];
    int own = __popc(true_at(x, n, (long)blockIdx.x * SPAN + threadIdx.x * EACH, vector));
    own = dl_row_join(own, dl_sum_f(), shared, THREADS);
    if (!threadIdx.x) count[blockIdx.x] = own;
}

/* The sum of `count` over the blocks before this one; `summed`: `count` holds running sums. */
__device__ inline long before_block(const long *count, bool summed, long *shared) {
    long sum = 0;
    if (summed) return blockIdx.x ? count[blockIdx.x - 1] : 0;
    for (unsigned i = threadIdx.x; i < blockIdx.x; i += THREADS) sum += count[i];
    return dl_row_join(sum, dl_sum_f(), shared, THREADS);
}

/* The sum of `own` over the threads of the block before this one; *all: over all of them. */
__device__ inline int before_thread(int own, int *all) {
    __shared__ int shared[WARPS];
    const int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP;
    int to = own;
#pragma unroll
    for (int k = 1; k < DL_WARP; k *= 2) {
        int left = __shfl_up_sync(0xffffffffu, to, k);
        if (lane >= k) to += left;
    }
    if (lane == DL_WARP - 1) shared[warp] = to;
    __syncthreads();
    to -= own, *all = 0;
    for (int w = 0; w < WARPS; w++) {
        if (w == warp) to += *all;
        *all += shared[w];
    }
    return to;
}

/* Writes the indices of the non-zero elements of each block, whose counts are known, to at most `rows` rows: first
 * their numbers within the block to shared memory, then their indices, in order. */
template <class T>
__global__ void __launch_bounds__(THREADS) place_kernel(const T *x, long n, bool vector, const long *count, bool summed,
                                                        long *out, long rows, const __grid_constant__ sizes s) {
    __shared__ unsigned short number[SPAN];
    __shared__ long sums[WARPS];
    long base = (long)blockIdx.x * SPAN, from = before_block(count, summed, sums);
    if (from >= rows) return;
    unsigned bits = true_at(x, n, base + threadIdx.x * EACH, vector);
    int all, to = before_thread(__popc(bits), &all);
    for (; bits; bits &= bits - 1) number[to++] = (unsigned short)(threadIdx.x * EACH + __ffs((int)bits) - 1);
    __syncthreads();
    for (int i = threadIdx.x; i < all && from + i < rows; i += THREADS) {
        long at = base + number[i], place = from + i;
        for (int d = s.ndim - 1; d > 0; d--) {
            long q = n <= 0x7fffffff ? (long)s.by[d].quotient((uint32_t)at) : at / s.shape[d];
            out[place * s.ndim + d] = at - q * s.shape[d];
            at = q;
        }
        out[place * s.ndim] = at;
    }
}

/* Counts of the non-zero elements of x, which is contiguous, of each block; of many blocks running sums. The caller
 * drops `count`, NULL: an error is recorded. */
typedef struct counts {
    long *count, blocks;
    bool summed, vector; /* vector: x can be read by 16 bytes */
} counts;

static dl_status counts_of(dl_gpu *g, const dl_tensor *x, counts *c) {
    size_t bytes = 0;
    c->blocks = (long)((x->numel + SPAN - 1) / SPAN), c->summed = c->blocks > FEW_BLOCKS;
    c->vector = (size_t)dl_ptr(x) % 16 == 0;
    cub::DeviceScan::InclusiveSum(NULL, bytes, (long *)NULL, (long *)NULL, c->blocks, g->stream);
    c->count = (long *)dl_gpu_take(g, sizeof(long) * (size_t)c->blocks + bytes);
    if (!c->count) return dl_failed();
    return dl_dispatch<DL_ANY>(x->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        count_kernel<T>
            <<<(unsigned)c->blocks, THREADS, 0, g->stream>>>(dl_data<T>(x), (long)x->numel, c->vector, c->count);
        cudaError_t e = cudaSuccess;
        if (c->summed)
            e = cub::DeviceScan::InclusiveSum(c->count + c->blocks, bytes, c->count, c->count, c->blocks, g->stream);
        dl_status s = dl_gpu_check(g, e, "counting");
        return s == DL_OK ? dl_gpu_launched(g) : s;
    });
}

static dl_status places(dl_gpu *g, const dl_tensor *x, dl_tensor *o, const counts &c) {
    sizes shape = {x->ndim, {0}, {}};
    for (int d = 0; d < x->ndim; d++) {
        shape.shape[d] = x->shape[d];
        if (x->numel <= 0x7fffffff) shape.by[d] = dl_divisor((uint32_t)x->shape[d]);
    }
    return dl_dispatch<DL_ANY>(x->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        place_kernel<T><<<(unsigned)c.blocks, THREADS, 0, g->stream>>>(dl_data<T>(x), (long)x->numel, c.vector, c.count,
                                                                       c.summed, dl_data<long>(o), o->shape[0], shape);
        return dl_gpu_launched(g);
    });
}

/* The indices of the first non-zero elements, as many as o has rows. */
static dl_status first_places(dl_gpu *g, dl_tensor *given, dl_tensor *o) {
    dl_tensor *x = dl_cuda_contiguous(g, given);
    counts n = {};
    dl_status s = x ? counts_of(g, x, &n) : dl_failed();
    if (s == DL_OK) s = places(g, x, o, n);
    dl_gpu_drop(g, n.count);
    dl_unref(x);
    return s;
}

static dl_status run_nonzero(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x = c->in[0];
    return o->shape[0] && x->ndim ? first_places(g, x, o) : DL_OK;
}
const dl_kernel dl_cuda_nonzero = {run_nonzero, NULL, DL_ANY, NULL, 0};

/* Every row is as one that is not there, then those that are. */
__global__ void __launch_bounds__(THREADS) fill_kernel(long *out, long n, long value) {
    for (long i = (long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long)gridDim.x * THREADS) out[i] = value;
}

static dl_status run_nonzero_static(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *x = c->in[0];
    if (!o->numel) return DL_OK;
    const unsigned each = dl_blocks(o->numel, THREADS), blocks = each < FEW_BLOCKS ? each : (unsigned)FEW_BLOCKS;
    fill_kernel<<<blocks, THREADS, 0, g->stream>>>(dl_data<long>(o), (long)o->numel,
                                                   ATTR_I(c, NONZERO_STATIC_FILL_VALUE));
    DL_TRY(dl_gpu_launched(g));
    return x->numel ? first_places(g, x, o) : DL_OK;
}
const dl_kernel dl_cuda_nonzero_static = {run_nonzero_static, NULL, DL_ANY, NULL, 0};

/* ---- place_masked */

template <class T> struct masked_job {
    const bool *mask;
    const T *x, *source;
    T *out;
    long n, size; /* elements, and those of the source */
    bool vector;
    dl_fault_site site;
};

/* A block has SPAN elements again; a thread writes some of them, side by side, and knows by the bits and the number of
 * those before it where in the source its own begin. */
template <class T>
__global__ void __launch_bounds__(THREADS) masked_kernel(const __grid_constant__ masked_job<T> j, counts c) {
    enum { V = 16 / sizeof(T) };
    __shared__ unsigned bits[THREADS];
    __shared__ int before[THREADS];
    __shared__ long sums[WARPS];
    const long base = (long)blockIdx.x * SPAN, from = before_block(c.count, c.summed, sums);
    const T *end = j.source + j.size;
    int all;
    bits[threadIdx.x] = true_at(j.mask, j.n, base + threadIdx.x * EACH, c.vector);
    before[threadIdx.x] = before_thread(__popc(bits[threadIdx.x]), &all);
    if (!threadIdx.x && from + all > j.size) dl_fault_raise(j.site, DL_FAULT_INDEX, from + all - 1, j.size);
    __syncthreads();
#pragma unroll 4
    for (int k = threadIdx.x * V; k < SPAN; k += THREADS * V) {
        const long at = base + k;
        const unsigned own = bits[k / EACH] >> k % EACH;
        const T *next = j.source + from + before[k / EACH] + __popc(bits[k / EACH] & ((1u << k % EACH) - 1));
        if (j.vector && at + V <= j.n) {
            dl_vector<T, V> v = *(const dl_vector<T, V> *)(j.x + at);
#pragma unroll
            for (int e = 0; e < V; e++)
                if (own >> e & 1 && next < end) v.v[e] = *next++;
            *(dl_vector<T, V> *)(j.out + at) = v;
        } else {
            for (int e = 0; e < V && at + e < j.n; e++)
                j.out[at + e] = own >> e & 1 && next < end ? *next++ : j.x[at + e];
        }
    }
}

/* From contiguous operands. */
static dl_status place_masked(dl_gpu *g, const dl_call *call, dl_tensor *const *in, const dl_tensor *o) {
    counts c = {};
    dl_status s = counts_of(g, in[1], &c);
    const bool vector = ((size_t)dl_ptr(in[0]) | (size_t)dl_ptr(o)) % 16 == 0;
    if (s == DL_OK)
        s = dl_dispatch_size<16>(dl_esize(o), [&](auto tag) {
            typedef decltype(tag) T;
            const masked_job<T> j = {dl_data<bool>(in[1]),
                                     dl_data<T>(in[0]),
                                     dl_data<T>(in[2]),
                                     dl_data<T>(o),
                                     (long)o->numel,
                                     (long)in[2]->numel,
                                     vector,
                                     dl_gpu_site(g, call->op)};
            masked_kernel<T><<<(unsigned)c.blocks, THREADS, 0, g->stream>>>(j, c);
            return dl_gpu_launched(g);
        });
    dl_gpu_drop(g, c.count);
    return s;
}

static dl_status run_place_masked(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *in[3] = {}, *o = c->out[0];
    dl_status s = DL_OK;
    if (!o->numel) return DL_OK;
    for (int i = 0; i < 3 && s == DL_OK; i++)
        if (!(in[i] = dl_cuda_contiguous(g, c->in[i]))) s = dl_failed();
    dl_tensor *to = s != DL_OK            ? NULL
                    : dl_is_contiguous(o) ? dl_ref(o)
                                          : dl_tensor_empty(o->ndim, o->shape, (dl_dtype)o->dtype, c->device);
    if (s == DL_OK) s = to ? place_masked(g, c, in, to) : dl_failed();
    if (s == DL_OK && to != o) s = dl_cuda_copy(g, o, to);
    for (int i = 0; i < 3; i++) dl_unref(in[i]);
    dl_unref(to);
    return s;
}
const dl_kernel dl_cuda_place_masked = {run_place_masked, NULL, DL_ALL, NULL, 0};

/* ---- values of indices */

/* Operands: label, its number. The result is zeros already. */
struct hot_f {
    long width, *out;
    int wide;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long label = wide ? *(const long *)p[0] : *(const int *)p[0];
        if (label < 0 || label >= width)
            dl_fault_raise(site, DL_FAULT_LABEL, label, width);
        else
            out[(long)p[1] * width + label] = 1;
    }
};

static dl_status run_one_hot(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *x = c->in[0], *o = c->out[0];
    long number[DL_MAX_DIM];
    DL_TRY(dl_cuda_clear(g, o));
    dl_strides_contiguous(x->ndim, x->shape, number);
    dl_it it;
    dl_it_begin(&it, x->ndim, x->shape);
    dl_it_tensor(&it, x);
    dl_it_count(&it, x->ndim, x->shape, number);
    dl_it_end(&it);
    return dl_places<2>(g, it,
                        hot_f{o->shape[o->ndim - 1], dl_data<long>(o), x->dtype == DL_I64, dl_gpu_site(g, c->op)});
}
const dl_kernel dl_cuda_one_hot = {run_one_hot, NULL, DL_ANY, NULL, 0};
