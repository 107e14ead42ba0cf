/* Sums of parts at listed places within lines. A block has one line or some side by side, in shared memory, as
 * integers, whose sum is the same in any order. Parts are multiples of the least bit that a window of exponents holds;
 * where the parts of a block do not fit one window, those below it are added up in further rounds. What comes out is
 * the exact sum of a window, rounded once. */
#include "cuda/kernels/index/index.cuh"
#include "cuda/kernels/index/scatter.h"

enum { THREADS = 512, WIDE = 32, FOUR = 4, AT_ONCE = 72 << 10, MOST_BYTES = 200 << 10, SHORT = 1 << 14 };

/* Parts as they are added up: bits of the mantissa, the exponent of infinities; 2 ** -LOWEST is the unit of exponent 0.
 * A sum has WORDS words. 16-bit floats are added up as f32. */
template <class T> struct parts {
    typedef float C;
    typedef unsigned B;
    typedef unsigned long sum;
    enum { MANTISSA = 23, INFINITE = 255, LOWEST = 150, WORDS = 2 };
    static __device__ B of(T x) { return __float_as_uint(dl_up(x)); }
    /* A sum of units of exponent `low`. */
    static __device__ double real(sum s, int low) {
        return (double)(long)s * __longlong_as_double((long)(low - LOWEST + 1023) << 52);
    }
};
template <> struct parts<double> {
    typedef double C;
    typedef unsigned long B;
    typedef unsigned __int128 sum;
    enum { MANTISSA = 52, INFINITE = 2047, LOWEST = 1075, WORDS = 4 };
    static __device__ B of(double x) { return (B)__double_as_longlong(x); }
    static __device__ double real(sum s, int low) {
        const bool below = s >> 127;
        if (below) s = 0 - s;
        const unsigned long high = (unsigned long)(s >> 64), less = (unsigned long)s;
        const int by = high ? 64 - __clzll((long)high) : 0; /* bits that 64 do not hold; the last one stands for them */
        unsigned long top = !by ? less : by < 64 ? high << (64 - by) | less >> by : high;
        if (by && less << (64 - by)) top |= 1;
        const double size = ldexp(__ull2double_rn(top), low - LOWEST + by);
        return below ? -size : size;
    }
};

/* Lines of a block lie side by side: 1 << fold columns, 1 << shift packs; groups of them fill `inner`. room: by how
 * many bits a part can be shifted, so that the sum of a line's parts fits its words. */
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

template <class T> __device__ inline int exponent(typename parts<T>::B bits) {
    const int e = (int)(bits >> parts<T>::MANTISSA) & parts<T>::INFINITE;
    return e ? e : 1;
}
template <class T> __device__ inline bool infinite(typename parts<T>::B bits) {
    return ((bits >> parts<T>::MANTISSA) & parts<T>::INFINITE) == parts<T>::INFINITE;
}
template <class T> __device__ inline bool negative(typename parts<T>::B bits) { return bits >> (8 * sizeof bits - 1); }

/* A part in units of exponent `low`. */
template <class T> __device__ inline typename parts<T>::sum multiple(typename parts<T>::B bits, int low) {
    typedef typename parts<T>::B B;
    typedef typename parts<T>::sum sum;
    B m = bits & (((B)1 << parts<T>::MANTISSA) - 1);
    if ((bits >> parts<T>::MANTISSA) & parts<T>::INFINITE) m |= (B)1 << parts<T>::MANTISSA;
    const sum q = (sum)m << (exponent<T>(bits) - low);
    return negative<T>(bits) ? 0 - q : q;
}

/* Adds q to the sum at `at`, whose words lie `step` apart. */
template <int WORDS, class S> __device__ inline void add(unsigned *at, unsigned step, S q) {
    unsigned carry = 0;
#pragma unroll
    for (int w = 0; w < WORDS; w++, at += step) {
        const unsigned long more = (unsigned long)(unsigned)(q >> 32 * w) + carry;
        const unsigned word = (unsigned)more;
        carry = (unsigned)(more >> 32);
        if (!word) continue;
        if (w + 1 < WORDS)
            carry += atomicAdd(at, word) + word < word;
        else
            atomicAdd(at, word);
    }
}

/* Reads the sum at `at`. */
template <class S, int WORDS> __device__ inline S sum_at(const unsigned *at, unsigned step) {
    S q = 0;
#pragma unroll
    for (int w = 0; w < WORDS; w++) q |= (S)at[w * step] << 32 * w;
    return q;
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
                f(parts<T>::of(v.v[e]), ((unsigned)at << l.fold) + (l.inner > 1 ? col + e : 0));
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

/* The least and the largest exponent of a block's finite parts but 0, and whether there are others. */
template <int P, class T, class I>
__device__ inline void look(const line_walk<T, I> &l, const line_block<T, I> &b, unsigned (&range)[3]) {
    unsigned least = ~0u, most = 0, odd = 0;
    packs_of<P>(l, b, [&](const dl_vector<T, P> &v, long, int) {
#pragma unroll
        for (int e = 0; e < P; e++) {
            const typename parts<T>::B bits = parts<T>::of(v.v[e]);
            const unsigned at = (unsigned)exponent<T>(bits);
            const bool finite = !infinite<T>(bits);
            odd |= !finite;
            if (finite && at > most) most = at;
            if (bits << 1 && at < least) least = at;
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
    typedef typename parts<T>::B B;
    parts_of<P>(l, b, [&](B bits, unsigned at) {
        const bool none = bits & (((B)1 << parts<T>::MANTISSA) - 1);
        if (infinite<T>(bits)) atomicOr(&sums[at], none ? 4u : negative<T>(bits) ? 2u : 1u);
    });
    __syncthreads();
    results_of(l, b, [&](unsigned k, long at) {
        typename parts<T>::C other = sums[k] == 1 ? INFINITY : sums[k] == 2 ? -INFINITY : NAN;
        if (sums[k]) l.o[at] = dl_down<T>(dl_up(l.o[at]) + other);
    });
}

template <class T, class I, int P>
__global__ void __launch_bounds__(THREADS) lines_kernel(const __grid_constant__ line_walk<T, I> l) {
    typedef typename parts<T>::C C;
    typedef typename parts<T>::sum sum;
    enum { WORDS = parts<T>::WORDS };
    extern __shared__ unsigned sums[]; /* the lowest words of all results, then the next ones, ... */
    __shared__ unsigned range[3];
    line_block<T, I> b(l, P);
    if (!threadIdx.x) range[0] = ~0u, range[1] = range[2] = 0;
    for (unsigned k = threadIdx.x; k < WORDS * b.all; k += THREADS) sums[k] = 0;
    __syncthreads();
    look<P>(l, b, range);
    __syncthreads();
    int least = range[0] == ~0u ? 1 : (int)range[0], high = range[1] ? (int)range[1] : 1;
    bool more, first = true;
    do {
        int low = high - l.room > 1 ? high - l.room : 1;
        parts_of<P>(l, b, [&](typename parts<T>::B bits, unsigned at) {
            const int e = exponent<T>(bits);
            if (e >= low && e <= high && bits << 1) add<WORDS>(sums + at, b.all, multiple<T>(bits, low));
        });
        __syncthreads();
        more = low > least;
        results_of(l, b, [&](unsigned k, long at) {
            const sum q = sum_at<sum, WORDS>(sums + k, b.all);
            C was = !first ? dl_up(l.o[at]) : l.start ? dl_up(l.start[at]) : C(0);
            if (q) was = (C)((double)was + parts<T>::real(q, low));
            if (first || q) l.o[at] = dl_down<T>(was);
            if (more || range[2])
#pragma unroll
                for (int w = 0; w < WORDS; w++) sums[w * b.all + k] = 0;
        });
        if (more || range[2]) __syncthreads();
        high = low - 1, first = false;
    } while (more);
    if (range[2]) others<P>(l, b, sums);
}

/* ---- calls */

/* Bytes of a sum; 0: a dtype whose sums are none. */
static long bytes_of(int dtype) {
    return dtype == DL_F64 ? 16 : dtype == DL_F32 || dtype == DL_F16 || dtype == DL_BF16 ? 8 : 0;
}

/* Lines of a block: side by side in memory for the sake of whole sectors, as far as shared memory goes. */
static int columns(const dl_lines *l) {
    long line = l->size * bytes_of(l->dtype);
    int cols = 1, least = 32 / (int)dl_dtype_size((dl_dtype)l->dtype);
    while (cols < l->inner && cols < WIDE && 2 * cols * line <= (cols < least ? (long)MOST_BYTES : (long)AT_ONCE))
        cols *= 2;
    return cols;
}

bool dl_lines_take(const dl_gpu *g, const dl_lines *l) {
    const long each = bytes_of(l->dtype);
    if (!each || l->size > MOST_BYTES / each || !l->n || l->n > (1L << 31) / WIDE) return false;
    long cols = columns(l), blocks = l->outer * ((l->inner + cols - 1) / cols);
    return blocks < 1L << 31 && (blocks >= g->sms / 2 || l->n * cols <= SHORT);
}

template <class T, class I> static dl_status lines(dl_gpu *g, const dl_lines *l) {
    int cols = columns(l), bits = dl_bits(l->n);
    long groups = (l->inner + cols - 1) / cols, bytes = l->size * cols * bytes_of(l->dtype);
    size_t all = (l->same ? 0 : (size_t)l->v) | (size_t)l->index;
    bool four = all % 16 == 0 && (l->inner > 1 ? l->inner % FOUR == 0 && cols >= FOUR : l->n % FOUR == 0);
    int shift = 0, fold = 0;
    while (1 << fold < cols) fold++;
    while ((four ? FOUR : 1) << shift < cols) shift++;
    line_walk<T, I> w = {};
    w.o = (T *)l->o, w.start = (const T *)l->start, w.v = (const T *)l->v, w.index = (const I *)l->index;
    w.size = l->size, w.n = l->n, w.inner = l->inner, w.groups = groups;
    w.fold = fold, w.shift = shift, w.room = 32 * parts<T>::WORDS - parts<T>::MANTISSA - 2 - bits, w.list = l->list,
    w.same = l->same, w.site = l->site;
    auto kernel = four ? lines_kernel<T, I, FOUR> : lines_kernel<T, I, 1>;
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_BYTES);
    DL_TRY(dl_gpu_check(g, e, "asking for shared memory"));
    kernel<<<(unsigned)(l->outer * groups), THREADS, (size_t)bytes, g->stream>>>(w);
    return dl_gpu_launched(g);
}

dl_status dl_cuda_lines(dl_gpu *g, const dl_lines *l) {
    if (!l->outer || !l->inner || !l->size) return DL_OK;
    return dl_dispatch<DL_FLOATS>(l->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return l->wide ? lines<T, long>(g, l) : lines<T, int>(g, l);
    });
}
