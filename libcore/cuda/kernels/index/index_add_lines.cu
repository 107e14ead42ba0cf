/* Sums of parts at listed places within lines. A block has one line or some side by side, in shared memory, as
 * integers, whose sum is the same in any order. Parts are multiples of the least bit that a window of exponents holds;
 * where the parts of a block do not fit one window, those below it are added up in further rounds. What comes out is
 * the exact sum of a window, rounded once. */
#include "cuda/kernels/index/index.cuh"
#include "cuda/kernels/index/scatter.h"

enum { THREADS = 512, WIDE = 32, FOUR = 4, AT_ONCE = 72 << 10, MOST_BYTES = 200 << 10, SHORT = 1 << 14 };
enum { MANTISSA = 23, INFINITE = 255, LOWEST = 150 }; /* of f32: 2 ** -LOWEST is the unit of exponent 0 */

/* Lines of a block lie side by side: 1 << fold columns, 1 << shift packs; groups of them fill `inner`. room: by how
 * many bits a part can be shifted, so that the sum of a line's parts fits 64. */
template <class T, class I> struct line_walk {
    T *o;
    const T *start, *v;
    const I *index;
    long size, n, inner, groups;
    int fold, shift, room;
    bool list, same;
    dl_fault_site site;
};

/* What a block has: the first element of its parts, indices and results; how many of its columns there are. */
template <class T, class I> struct line_block {
    long from, to;
    int width;
    unsigned packs, all;
    __device__ line_block(const line_walk<T, I> &l, int pack) {
        long a = blockIdx.x / l.groups, b = blockIdx.x % l.groups << l.fold, cols = 1 << l.fold;
        from = a * l.n * l.inner + b, to = a * l.size * l.inner + b;
        width = (int)(l.inner - b < cols ? l.inner - b : cols);
        packs = (unsigned)(l.inner > 1 ? l.n << l.shift : l.n / pack);
        all = (unsigned)(l.size << l.fold);
    }
};

__device__ inline unsigned exponent(unsigned bits) {
    unsigned e = bits >> MANTISSA & INFINITE;
    return e ? e : 1;
}

/* bits, an f32, in units of exponent `low`. */
__device__ inline unsigned long multiple(unsigned bits, int low) {
    unsigned m = bits & ((1u << MANTISSA) - 1);
    if (bits >> MANTISSA & INFINITE) m |= 1u << MANTISSA;
    unsigned long q = (unsigned long)m << (exponent(bits) - low);
    return bits >> 31 ? 0 - q : q;
}

/* f(pack of parts, number of the first in its line, its column) of each pack of a block. */
template <int P, class T, class I, class F>
__device__ inline void packs_of(const line_walk<T, I> &l, const line_block<T, I> &b, F f) {
    for (unsigned k = threadIdx.x; k < b.packs; k += THREADS) {
        long i = l.inner > 1 ? (long)(k >> l.shift) : (long)k * P;
        int col = l.inner > 1 ? (int)(k & ((1u << l.shift) - 1)) * P : 0;
        if (col >= b.width) continue;
        dl_vector<T, P> v;
        if (l.same) {
#pragma unroll
            for (int e = 0; e < P; e++) v.v[e] = *l.v;
        } else {
            v = *(const dl_vector<T, P> *)(l.v + b.from + i * l.inner + col);
        }
        f(v, i, col);
    }
}

/* f(bits of a part, its place in shared memory) of each part of a block whose index is in range. */
template <int P, class T, class I, class F>
__device__ inline void parts_of(const line_walk<T, I> &l, const line_block<T, I> &b, F f) {
    packs_of<P>(l, b, [&](const dl_vector<T, P> &v, long i, int col) {
        dl_vector<I, P> index;
        if (l.list && l.inner > 1) {
#pragma unroll
            for (int e = 0; e < P; e++) index.v[e] = l.index[i];
        } else {
            index = *(const dl_vector<I, P> *)(l.index + (l.list ? i : b.from + i * l.inner + col));
        }
#pragma unroll
        for (int e = 0; e < P; e++) {
            long at = index.v[e] < 0 ? (long)index.v[e] + l.size : (long)index.v[e];
            if (at < 0 || at >= l.size)
                dl_fault_raise(l.site, DL_FAULT_INDEX, (long)index.v[e], l.size);
            else
                f(__float_as_uint((float)dl_up(v.v[e])), ((unsigned)at << l.fold) + (l.inner > 1 ? col + e : 0));
        }
    });
}

/* f(place in shared memory, place in the result) of each result of a block. */
template <class T, class I, class F>
__device__ inline void results_of(const line_walk<T, I> &l, const line_block<T, I> &b, F f) {
#pragma unroll 4
    for (unsigned k = threadIdx.x; k < b.all; k += THREADS) {
        int col = (int)(k & ((1u << l.fold) - 1));
        if (col < b.width) f(k, b.to + (long)(k >> l.fold) * l.inner + col);
    }
}

/* The least and the largest finite magnitude of a block's parts but 0, and whether there are others. */
template <int P, class T, class I>
__device__ inline void look(const line_walk<T, I> &l, const line_block<T, I> &b, unsigned (&range)[3]) {
    unsigned least = ~0u, most = 0, odd = 0;
    packs_of<P>(l, b, [&](const dl_vector<T, P> &v, long, int) {
#pragma unroll
        for (int e = 0; e < P; e++) {
            unsigned bits = __float_as_uint((float)dl_up(v.v[e])) & ~(1u << 31);
            bool finite = bits < (unsigned)INFINITE << MANTISSA;
            odd |= !finite;
            if (finite && bits > most) most = bits;
            if (bits && bits < least) least = bits;
        }
    });
    least = __reduce_min_sync(~0u, least), most = __reduce_max_sync(~0u, most), odd = __reduce_or_sync(~0u, odd);
    if (threadIdx.x % 32) return;
    atomicMin(&range[0], least), atomicMax(&range[1], most);
    if (odd) range[2] = 1;
}

/* Infinities and what is no number, once all else is there. */
template <int P, class T, class I>
__device__ __noinline__ void others(const line_walk<T, I> &l, const line_block<T, I> &b, unsigned *sums) {
    parts_of<P>(l, b, [&](unsigned bits, unsigned at) {
        if ((bits >> MANTISSA & INFINITE) == INFINITE) atomicOr(&sums[at], bits << 9 ? 4u : bits >> 31 ? 2u : 1u);
    });
    __syncthreads();
    results_of(l, b, [&](unsigned k, long at) {
        float other = sums[k] == 1 ? INFINITY : sums[k] == 2 ? -INFINITY : NAN;
        if (sums[k]) l.o[at] = dl_down<T>((float)dl_up(l.o[at]) + other);
    });
}

template <class T, class I, int P>
__global__ void __launch_bounds__(THREADS) lines_kernel(const __grid_constant__ line_walk<T, I> l) {
    extern __shared__ unsigned sums[]; /* low words of all results, then high ones */
    __shared__ unsigned range[3];
    line_block<T, I> b(l, P);
    if (!threadIdx.x) range[0] = ~0u, range[1] = range[2] = 0;
    for (unsigned k = threadIdx.x; k < 2 * b.all; k += THREADS) sums[k] = 0;
    __syncthreads();
    look<P>(l, b, range);
    __syncthreads();
    int least = (int)exponent(range[0] == ~0u ? 0 : range[0]), high = (int)exponent(range[1]);
    bool more, first = true;
    do {
        int low = high - l.room > 1 ? high - l.room : 1;
        parts_of<P>(l, b, [&](unsigned bits, unsigned at) {
            int e = (int)exponent(bits);
            if (e < low || e > high || !(bits << 1)) return;
            unsigned long q = multiple(bits, low);
            unsigned word = (unsigned)q, before = atomicAdd(&sums[at], word);
            unsigned carried = (unsigned)(q >> 32) + (before + word < before);
            if (carried) atomicAdd(&sums[b.all + at], carried);
        });
        __syncthreads();
        double unit = __longlong_as_double((long)(low - LOWEST + 1023) << 52);
        more = low > least;
        results_of(l, b, [&](unsigned k, long at) {
            long sum = (long)((unsigned long)sums[b.all + k] << 32 | sums[k]);
            float was = !first ? (float)dl_up(l.o[at]) : l.start ? (float)dl_up(l.start[at]) : 0.0f;
            if (sum) was = (float)((double)was + (double)sum * unit);
            if (first || sum) l.o[at] = dl_down<T>(was);
            if (more || range[2]) sums[k] = sums[b.all + k] = 0;
        });
        if (more || range[2]) __syncthreads();
        high = low - 1, first = false;
    } while (more);
    if (range[2]) others<P>(l, b, sums);
}

/* ---- calls */

/* Lines of a block: side by side in memory for the sake of whole sectors, as far as shared memory goes. */
static int columns(const dl_lines *l) {
    long line = l->size * 2 * (long)sizeof(unsigned);
    int cols = 1, least = 32 / (int)dl_dtype_size((dl_dtype)l->dtype);
    while (cols < l->inner && cols < WIDE && 2 * cols * line <= (cols < least ? (long)MOST_BYTES : (long)AT_ONCE))
        cols *= 2;
    return cols;
}

bool dl_lines_take(const dl_gpu *g, const dl_lines *l) {
    bool small = l->dtype == DL_F32 || l->dtype == DL_F16 || l->dtype == DL_BF16;
    if (!small || l->size > MOST_BYTES / (2 * (long)sizeof(unsigned)) || !l->n || l->n > (1L << 31) / WIDE)
        return false;
    long cols = columns(l), blocks = l->outer * ((l->inner + cols - 1) / cols);
    return blocks < 1L << 31 && (blocks >= g->sms / 2 || l->n * cols <= SHORT);
}

template <class T, class I> static dl_status lines(dl_gpu *g, const dl_lines *l) {
    int cols = columns(l), bits = dl_bits(l->n);
    long groups = (l->inner + cols - 1) / cols, bytes = l->size * cols * 2 * (long)sizeof(unsigned);
    size_t all = (l->same ? 0 : (size_t)l->v) | (size_t)l->index;
    bool four = all % 16 == 0 && (l->inner > 1 ? l->inner % FOUR == 0 && cols >= FOUR : l->n % FOUR == 0);
    int shift = 0, fold = 0;
    while (1 << fold < cols) fold++;
    while ((four ? FOUR : 1) << shift < cols) shift++;
    line_walk<T, I> w = {};
    w.o = (T *)l->o, w.start = (const T *)l->start, w.v = (const T *)l->v, w.index = (const I *)l->index;
    w.size = l->size, w.n = l->n, w.inner = l->inner, w.groups = groups;
    w.fold = fold, w.shift = shift, w.room = 39 - bits, w.list = l->list, w.same = l->same, w.site = l->site;
    auto kernel = four ? lines_kernel<T, I, FOUR> : lines_kernel<T, I, 1>;
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_BYTES);
    DL_TRY(dl_gpu_check(g, e, "asking for shared memory"));
    kernel<<<(unsigned)(l->outer * groups), THREADS, (size_t)bytes, g->stream>>>(w);
    return dl_gpu_launched(g);
}

dl_status dl_cuda_lines(dl_gpu *g, const dl_lines *l) {
    if (!l->outer || !l->inner || !l->size) return DL_OK;
    return dl_dispatch<DL_BIT(DL_F32) | DL_HALVES>(l->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return l->wide ? lines<T, long>(g, l) : lines<T, int>(g, l);
    });
}
