/* Kernels of sort and topk. Elements become unsigned keys (core/sort_key.h) beside their places, which are sorted by
 * both, so that equal elements keep their order. Rows lie in the last dimension, where others are brought first. Short
 * rows are sorted in shared memory by a network, longer ones by CUB's radix sort, in blocks of their own as far as
 * shared memory goes, else all rows at once. The first few of a long row are selected by a bound, or by the digits of
 * their keys, and then sorted. */
#include <cub/block/block_radix_sort.cuh>

#include "cuda/kernels/index/scatter.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/iter.cuh"

#include "core/sort_key.h"
#include "ops/names/sort.h"

enum {
    THREADS = 256,
    SHORT = 2048,
    NETWORKS = 1024,
    NETWORK = 512,
    ITEMS = 16,
    SELECT_THREADS = 512,
    ALONE = 1 << 16,
    CANDIDATES = 1024, /* these and the least of each thread fit */
    MOST_BOUNDED = SELECT_THREADS / 4,
    PARTS = 1024,
    DIGIT = 8,
    VALUES = 1 << DIGIT
};

/* Keys of up to 32 bits, in 32; else in 64. */
template <class U> using word_of = std::conditional_t<sizeof(U) <= 4, unsigned, uint64_t>;

/* U: unsigned numbers of the size of an element. Of each row of n elements the first k are wanted. parts: above 1, rows
 * are parts of rows of `whole` elements, whose last part is shorter. */
template <class U> struct order_job {
    const U *x;
    U *values;
    long *places;
    long rows, n, k;
    dl_order order;
    long parts, whole;
    __device__ word_of<U> key(long at) const { return (word_of<U>)dl_order_key(order, x[at]); }
};

/* ---- in shared memory */

template <class K> struct entry {
    K key;
    unsigned at;
    __device__ bool operator<(const entry &b) const { return key < b.key || (key == b.key && at < b.at); }
};
/* Key and place in one number. */
template <> struct entry<unsigned> {
    uint64_t both;
    __device__ bool operator<(const entry &b) const { return both < b.both; }
};
__device__ inline void set(entry<unsigned> &e, unsigned key, unsigned at) { e.both = (uint64_t)key << 32 | at; }
__device__ inline void set(entry<uint64_t> &e, uint64_t key, unsigned at) { e.key = key, e.at = at; }
__device__ inline unsigned place(const entry<unsigned> &e) { return (unsigned)e.both; }
__device__ inline unsigned place(const entry<uint64_t> &e) { return e.at; }
__device__ inline unsigned key_of(const entry<unsigned> &e) { return (unsigned)(e.both >> 32); }
__device__ inline uint64_t key_of(const entry<uint64_t> &e) { return e.key; }
/* After all others. */
template <class K> __device__ inline void set_last(entry<K> &e) { set(e, ~K(0), ~0u); }

/* Batcher's bitonic network over each `width`, a power of two, of `count` entries; all threads of the block take part.
 */
template <class E> __device__ void network(E *e, int width, int count) {
    for (int size = 2; size <= width; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            __syncthreads();
            for (int t = threadIdx.x; t < count / 2; t += blockDim.x) {
                int i = 2 * t - (t & (step - 1));
                bool down = i & (width - 1) & size;
                E a = e[i], b = e[i + step];
                if ((b < a) != down) e[i] = b, e[i + step] = a;
            }
        }
    __syncthreads();
}

template <class U> __global__ void short_kernel(const __grid_constant__ order_job<U> j, int width, int side) {
    typedef entry<word_of<U>> E;
    extern __shared__ uint64_t memory[];
    E *e = (E *)memory;
    long first = (long)blockIdx.x * side;
    for (int i = threadIdx.x; i < width * side; i += blockDim.x) {
        long row = first + i / width, at = i % width;
        if (row < j.rows && at < j.n)
            set(e[i], j.key(row * j.n + at), (unsigned)at);
        else
            set_last(e[i]);
    }
    network(e, width, width * side);
    for (int i = threadIdx.x; i < width * side; i += blockDim.x) {
        long row = first + i / width, at = i % width;
        if (row >= j.rows || at >= j.k) continue;
        unsigned from = place(e[i]);
        j.places[row * j.k + at] = from;
        j.values[row * j.k + at] = j.x[row * j.n + from];
    }
}

static int power_of_two(long n) {
    int p = 2;
    while (p < n) p *= 2;
    return p;
}

template <class U> static dl_status sort_short(dl_gpu *g, const order_job<U> &j) {
    int width = power_of_two(j.n), side = width < NETWORK ? NETWORK / width : 1;
    int threads = width * side / 2 < 1024 ? width * side / 2 : 1024;
    size_t bytes = sizeof(entry<word_of<U>>) * (size_t)(width * side);
    short_kernel<U><<<dl_blocks(j.rows, side), threads, bytes, g->stream>>>(j, width, side);
    return dl_gpu_launched(g);
}

/* ---- by radix, a block a row: places beside keys, by the digits in which keys of the row differ */

template <class U, int LANES>
__global__ void __launch_bounds__(LANES) row_sort_kernel(const __grid_constant__ order_job<U> j) {
    typedef word_of<U> K;
    typedef cub::BlockRadixSort<K, LANES, ITEMS, unsigned short> sorter;
    __shared__ typename sorter::TempStorage memory;
    __shared__ K differing;
    const long base = (long)blockIdx.x * j.n;
    const K one = j.key(base);
    K key[ITEMS], other = 0;
    unsigned short at[ITEMS];
    if (!threadIdx.x) differing = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int place = threadIdx.x * ITEMS + i;
        key[i] = place < j.n ? j.key(base + place) : ~K(0); /* those after the row stay there, as equal ones do */
        at[i] = (unsigned short)place;
        if (place < j.n) other |= key[i] ^ one;
    }
    if constexpr (sizeof(K) == 8) {
        if (other) atomicOr((unsigned long long *)&differing, (unsigned long long)other);
    } else {
        if (other) atomicOr(&differing, other);
    }
    __syncthreads();
    const unsigned long long bits = differing;
    if (bits) sorter(memory).SortBlockedToStriped(key, at, __ffsll((long long)bits) - 1, 64 - __clzll((long long)bits));
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const long to = bits ? threadIdx.x + (long)i * LANES : (long)threadIdx.x * ITEMS + i;
        if (to >= j.k) continue;
        j.places[blockIdx.x * j.k + to] = at[i];
        j.values[blockIdx.x * j.k + to] = j.x[base + at[i]];
    }
}

template <class U> static dl_status sort_each(dl_gpu *g, const order_job<U> &j) {
    if (j.n <= 128 * ITEMS)
        row_sort_kernel<U, 128><<<(unsigned)j.rows, 128, 0, g->stream>>>(j);
    else if (j.n <= 256 * ITEMS)
        row_sort_kernel<U, 256><<<(unsigned)j.rows, 256, 0, g->stream>>>(j);
    else if constexpr (sizeof(U) <= 4)
        row_sort_kernel<U, 512><<<(unsigned)j.rows, 512, 0, g->stream>>>(j);
    return dl_gpu_launched(g);
}

/* ---- by radix, all rows at once */

/* The row above the bits of the key where there is room, else the key alone; beside it the place in memory. */
template <class U, class K>
__global__ void __launch_bounds__(THREADS) keys_kernel(const __grid_constant__ order_job<U> j, K *key, K *at) {
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= j.rows * j.n) return;
    K row = sizeof(U) < sizeof(K) && j.rows > 1 ? (K)(i / j.n) << (8 * sizeof(U) % (8 * sizeof(K))) : 0;
    key[i] = row | (K)j.key(i);
    at[i] = (K)i;
}
__global__ static void __launch_bounds__(THREADS) row_kernel(const uint64_t *at, uint64_t *key, long n, long row) {
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) key[i] = at[i] / row;
}
template <class U, class K>
__global__ void __launch_bounds__(THREADS) take_kernel(const __grid_constant__ order_job<U> j, const K *at) {
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= j.rows * j.k) return;
    long row = j.rows > 1 ? i / j.k : 0, from = (long)at[row * j.n + i - row * j.k];
    j.places[i] = from - row * j.n;
    j.values[i] = j.x[from];
}

/* The sorted places are in *at, or in *at2. */
static dl_status sort_keys(dl_gpu *g, unsigned *key, unsigned *key2, unsigned **at, unsigned *at2, long n, int bits,
                           long) {
    dl_status s = dl_cuda_sort_words(g, key, key2, *at, at2, n, 0, bits);
    *at = at2;
    return s;
}
/* row: 0, or its length where it is not in the keys; then a second sort puts the rows in order again. */
static dl_status sort_keys(dl_gpu *g, uint64_t *key, uint64_t *key2, uint64_t **at, uint64_t *at2, long n, int bits,
                           long row) {
    dl_status s = dl_cuda_sort_pairs(g, key, key2, (const long *)*at, (long *)at2, n, 0, bits);
    if (s != DL_OK || !row) return *at = at2, s;
    row_kernel<<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(at2, key, n, row);
    s = dl_gpu_launched(g);
    return s == DL_OK ? dl_cuda_sort_pairs(g, key, key2, (const long *)at2, (long *)*at, n, 0, dl_bits(n / row)) : s;
}

template <class K, class U> static dl_status sort_long(dl_gpu *g, const order_job<U> &j) {
    long n = j.rows * j.n;
    bool several = j.rows > 1, beside = sizeof(U) == sizeof(K);
    K *work = (K *)dl_gpu_take(g, 4 * sizeof(K) * (size_t)n), *at = work + n;
    if (!work) return dl_failed();
    keys_kernel<U, K><<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(j, work, at);
    dl_status s = dl_gpu_launched(g);
    int bits = 8 * (int)sizeof(U) + (several && !beside ? dl_bits(j.rows - 1) : 0);
    if (s == DL_OK) s = sort_keys(g, work, work + 2 * n, &at, work + 3 * n, n, bits, several && beside ? j.n : 0);
    if (s == DL_OK) {
        take_kernel<U, K><<<dl_blocks(j.rows * j.k, THREADS), THREADS, 0, g->stream>>>(j, at);
        s = dl_gpu_launched(g);
    }
    dl_gpu_drop(g, work);
    return s;
}

/* ---- the first few of long rows, a block a row */

/* The key of the k-th element in order, and how many of the elements with that key are among the first k. */
template <class U> __device__ word_of<U> last_key(const order_job<U> &j, const long base, const long n, long *equal) {
    typedef word_of<U> K;
    __shared__ unsigned count[VALUES];
    __shared__ int digit;
    __shared__ long left;
    K key = 0, known = 0; /* its digits so far, and where these are */
    if (!threadIdx.x) left = j.k;
    for (int shift = 8 * (int)sizeof(U) - DIGIT; shift >= 0; shift -= DIGIT) {
        for (int v = threadIdx.x; v < VALUES; v += blockDim.x) count[v] = 0;
        __syncthreads();
        for (long i = threadIdx.x; i < n; i += blockDim.x) {
            K own = j.key(base + i);
            if ((own & known) == key) atomicAdd(&count[own >> shift & (VALUES - 1)], 1u);
        }
        __syncthreads();
        if (!threadIdx.x)
            for (digit = 0; left > count[digit]; digit++) left -= count[digit];
        __syncthreads();
        key |= (K)digit << shift, known |= (K)(VALUES - 1) << shift;
    }
    *equal = left;
    return key;
}

/* The k-th of the least keys of each thread is a bound of the k-th key. Leaves what does not exceed it in e and its
 * number in *taken; false: it is more than there is room for. */
template <class U>
__device__ bool take_bounded(const order_job<U> &j, long base, long n, entry<word_of<U>> *e, unsigned *taken) {
    typedef word_of<U> K;
    K least = ~K(0);
#pragma unroll 4
    for (long i = threadIdx.x; i < n; i += SELECT_THREADS) {
        const K own = j.key(base + i);
        least = own < least ? own : least;
    }
    set(e[threadIdx.x], least, threadIdx.x);
    if (!threadIdx.x) *taken = 0;
    network(e, SELECT_THREADS, SELECT_THREADS);
    const K bound = key_of(e[j.k - 1]);
    __syncthreads();
#pragma unroll 4
    for (long i = threadIdx.x; i < n; i += SELECT_THREADS) {
        const K own = j.key(base + i);
        if (own > bound) continue;
        const unsigned to = atomicAdd(taken, 1u);
        if (to < CANDIDATES) set(e[to], own, (unsigned)i);
    }
    __syncthreads();
    const bool all = *taken <= CANDIDATES;
    __syncthreads();
    return all;
}

/* Leaves the first k in e. */
template <class U>
__device__ void take_first(const order_job<U> &j, long base, long n, entry<word_of<U>> *e, unsigned *taken) {
    __shared__ unsigned before[SELECT_THREADS / DL_WARP];
    long equal;
    int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP;
    word_of<U> last = last_key(j, base, n, &equal);
    long smaller = j.k - equal, seen = 0;
    if (!threadIdx.x) *taken = 0;
    for (long from = 0; from < n; from += SELECT_THREADS) {
        long i = from + threadIdx.x;
        word_of<U> own = i < n ? j.key(base + i) : 0;
        bool same = i < n && own == last;
        unsigned all = __ballot_sync(0xffffffffu, same);
        __syncthreads();
        if (!lane) before[warp] = __popc(all);
        __syncthreads();
        if (i < n && own < last) set(e[atomicAdd(taken, 1u)], own, (unsigned)i);
        if (seen < equal) { /* in their order */
            long rank = seen + __popc(all & ((1u << lane) - 1));
            for (int w = 0; w < warp; w++) rank += before[w];
            if (same && rank < equal) set(e[smaller + rank], own, (unsigned)i);
            for (int w = 0; w < SELECT_THREADS / DL_WARP; w++) seen += before[w];
        }
    }
}

template <class U>
__global__ void __launch_bounds__(SELECT_THREADS) select_kernel(const __grid_constant__ order_job<U> j) {
    typedef entry<word_of<U>> E;
    extern __shared__ uint64_t memory[];
    __shared__ unsigned taken;
    E *e = (E *)memory;
    long base = (long)blockIdx.x * j.n, n = j.n, filled = j.k;
    if (j.parts > 1) {
        const long part = blockIdx.x % j.parts * j.n;
        base = blockIdx.x / j.parts * j.whole + part;
        if (j.whole - part < n) n = j.whole - part;
    }
    if (j.k <= MOST_BOUNDED && take_bounded(j, base, n, e, &taken))
        filled = taken;
    else
        take_first(j, base, n, e, &taken);
    int width = 2;
    while (width < filled) width *= 2;
    for (long i = filled + threadIdx.x; i < width; i += SELECT_THREADS) set_last(e[i]);
    network(e, width, width);
    for (int i = threadIdx.x; i < j.k; i += SELECT_THREADS) {
        unsigned from = place(e[i]);
        j.places[blockIdx.x * j.k + i] = from;
        j.values[blockIdx.x * j.k + i] = j.x[base + from];
    }
}

template <class U> static dl_status select_first(dl_gpu *g, const order_job<U> &j) {
    const long room = j.k <= MOST_BOUNDED ? (long)CANDIDATES : power_of_two(j.k);
    select_kernel<U><<<(unsigned)j.rows, SELECT_THREADS, sizeof(entry<word_of<U>>) * (size_t)room, g->stream>>>(j);
    return dl_gpu_launched(g);
}

/* ---- the first few of a few rows that are longer: of each part of a row, and of these */

/* places: of the elements among the first k of each part, in its row of parts; `from`: places of those in their parts.
 */
__global__ static void __launch_bounds__(THREADS)
    part_places_kernel(long *places, const long *from, long n, long k, long parts, long part) {
    const long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    const long at = places[i];
    places[i] = from[i / k * parts * k + at] + at / k * part;
}

template <class U> static dl_status sort_rows(dl_gpu *g, const order_job<U> &j);

/* Equal parts; the last one, which is shorter, has more than k elements, too. */
static long parts_of(long n, long k, long rows) {
    long parts = PARTS;
    while (parts > 1 && (parts * (parts + 4 * k) > n || parts * rows > 2 * PARTS)) parts /= 2;
    return parts;
}

template <class U> static dl_status select_of_parts(dl_gpu *g, const order_job<U> &j, long parts) {
    const long part = (j.n + parts - 1) / parts, found = j.rows * parts * j.k;
    long *places = (long *)dl_gpu_take(g, (sizeof(long) + sizeof(U)) * (size_t)found);
    if (!places) return dl_failed();
    U *values = (U *)(places + found);
    dl_status s = select_first(g, order_job<U>{j.x, values, places, j.rows * parts, part, j.k, j.order, parts, j.n});
    if (s == DL_OK) s = sort_rows(g, order_job<U>{values, j.values, j.places, j.rows, parts * j.k, j.k, j.order, 1, 0});
    if (s == DL_OK) {
        part_places_kernel<<<dl_blocks(j.rows * j.k, THREADS), THREADS, 0, g->stream>>>(j.places, places, j.rows * j.k,
                                                                                        j.k, parts, part);
        s = dl_gpu_launched(g);
    }
    dl_gpu_drop(g, places);
    return s;
}

/* ---- the choice */

template <class U> static dl_status sort_rows(dl_gpu *g, const order_job<U> &j) {
    if (j.n <= NETWORKS) return sort_short(g, j);
    const bool few_blocks = j.rows < g->sms && j.n > ALONE;
    if (few_blocks && j.k <= MOST_BOUNDED) {
        const long parts = parts_of(j.n, j.k, j.rows);
        if (parts > 1) return select_of_parts(g, j, parts);
    }
    if (j.k <= SHORT / 2 && j.k < j.n / 4 && !few_blocks && j.n < 0xffffffff) return select_first(g, j);
    if (j.n <= (sizeof(U) <= 4 ? 512 : 256) * ITEMS && j.rows < 1L << 31) return sort_each(g, j);
    if constexpr (sizeof(U) <= 4) { /* row and key in 32 bits */
        const int free = 32 - 8 * (int)sizeof(U);
        if (j.rows <= 1L << free && j.rows * j.n < 0xffffffff) return sort_long<unsigned>(g, j);
    }
    return sort_long<uint64_t>(g, j);
}

/* x, values and places contiguous, the rows in their last dimension. */
static dl_status sort_last(const dl_tensor *x, bool down, dl_tensor *values, dl_tensor *places) {
    dl_gpu *g = dl_gpu_use(x->st->device);
    if (!g) return dl_failed();
    if (!values->numel) return DL_OK;
    long n = x->ndim ? x->shape[x->ndim - 1] : 1, rows = (long)x->numel / n;
    return dl_dispatch_size(dl_esize(x), [&](auto tag) {
        typedef decltype(tag) U;
        order_job<U> j = {(const U *)dl_ptr(x),
                          dl_data<U>(values),
                          dl_data<long>(places),
                          rows,
                          n,
                          (long)values->numel / rows,
                          dl_order_of((dl_dtype)x->dtype, down),
                          1,
                          0};
        return sort_rows(g, j);
    });
}

static dl_status copy(dl_tensor *to, const dl_tensor *from) {
    dl_gpu *g = dl_gpu_use(to->st->device);
    return g ? dl_cuda_copy(g, to, from) : dl_failed();
}

static const dl_sorter sorter = {sort_last, copy};
static dl_status run_sort(dl_call *c) {
    return dl_sort_along(c, ATTR_I(c, SORT_DIM), ATTR_I(c, SORT_DESCENDING) != 0, &sorter);
}
static dl_status run_topk(dl_call *c) {
    return dl_sort_along(c, ATTR_I(c, TOPK_DIM), ATTR_I(c, TOPK_LARGEST) != 0, &sorter);
}

/* ---- the gradient goes to the places that the values came from, each at most once */

/* Operands: place along the dimension, element, base in bytes. */
template <class T> struct give_back_f {
    char *to;
    long step;
    __device__ void operator()(char *const *p) const {
        *(T *)(to + (long)p[2] + *(const long *)p[0] * step) = *(const T *)p[1];
    }
};

static dl_status grad_sorted(dl_back *b, long dim) {
    dl_tensor *grad = b->g[0], *places = OUT_(SORT_INDICES);
    const dl_meta *m = META(SORT_INPUT);
    long base[DL_MAX_DIM];
    int d = 0;
    if (!grad) return DL_OK;
    dl_gpu *g = places ? dl_gpu_use(grad->st->device) : NULL;
    dl_tensor *dx = g ? dl_tmp(b, dl_tensor_empty(m->ndim, m->shape, (dl_dtype)grad->dtype, grad->st->device)) : NULL;
    if (!dx) return dl_failed();
    DL_TRY(dl_dim_norm(dim, m->ndim, &d));
    if (grad->numel < dx->numel) DL_TRY(dl_cuda_clear(g, dx));
    const long size = (long)dl_esize(dx);
    for (int i = 0; i < m->ndim; i++) base[i] = i == d ? 0 : dx->stride[i] * size;
    dl_it it;
    dl_it_begin(&it, places->ndim, places->shape);
    dl_it_tensor(&it, places);
    dl_it_tensor(&it, grad);
    dl_it_count(&it, places->ndim, places->shape, base);
    dl_it_end(&it);
    DL_TRY(dl_dispatch_size(size, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_places<3>(g, it, give_back_f<T>{(char *)dl_ptr(dx), m->ndim ? dx->stride[d] * size : 0});
    }));
    return dl_give(b, DL_IN_SORT_INPUT, dl_ref(dx));
}

static dl_status grad_sort(dl_back *b) { return grad_sorted(b, ATTR_I(b, SORT_DIM)); }
static dl_status grad_topk(dl_back *b) { return grad_sorted(b, ATTR_I(b, TOPK_DIM)); }
const dl_kernel dl_cuda_sort = {run_sort, grad_sort, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_topk = {run_topk, grad_topk, DL_ANY, NULL, 0};
