/* The iterator of pointwise kernels: the only place that knows strides. Operands are broadcast to the shape of the
 * first; dimensions are ordered by its strides and merged where memory allows. Where the innermost dimension is dense,
 * operands are read and written in vectors, elsewhere by element; 32-bit offsets are computed by multiplication, and
 * what is too large for these is split. */
#pragma once

#include <stdint.h>

#include <initializer_list>
#include <utility>

#include "cuda/runtime/types.cuh"

enum { DL_IT_MAX = 8 };

/* On the host; strides in bytes, dimension 0 innermost. */
typedef struct dl_it {
    int nop, ndim;
    long shape[DL_MAX_DIM], stride[DL_MAX_DIM][DL_IT_MAX];
    char *ptr[DL_IT_MAX];
    unsigned numbers; /* bits: operands that are a value of their own, in `number` */
    uint64_t number[DL_IT_MAX];
} dl_it;

/* iter.cu */
void dl_it_begin(dl_it *it, int ndim, const long *shape);
void dl_it_operand(dl_it *it, void *ptr, size_t esize, int ndim, const long *shape, const long *stride);
/* A tensor; one on the host, which is a number of the language, goes along by value. */
void dl_it_tensor(dl_it *it, const dl_tensor *t);
/* Orders and merges the dimensions. */
void dl_it_end(dl_it *it);
/* After dl_it_end: goes along strips, `width` places of the innermost dimension wide, through all of the next dimension
 * before the strip beside it, so that what an operand jumps to in a strip is still near when it jumps there again. Only
 * where strips of that width fill the dimension. */
void dl_it_strips(dl_it *it, long width);
/* Can operands of these sizes be read and written in vectors of so many elements of the innermost dimension? */
bool dl_it_vectors(const dl_it *it, const size_t *size, int each);
/* Halves an iteration whose offsets or elements do not fit 31 bits: *rest gets the second half. False: it fits. */
bool dl_it_split(dl_it *it, dl_it *rest);
long dl_it_numel(const dl_it *it);

/* The iteration over the shape of the first of some tensors. */
dl_it dl_it_of(std::initializer_list<const dl_tensor *> op);

/* launch(it) for the iteration, or for its parts where it has to be split. */
template <class G> dl_status dl_it_parts(dl_it it, G launch) {
    dl_it rest;
    if (!dl_it_numel(&it)) return DL_OK;
    while (dl_it_split(&it, &rest)) DL_TRY(dl_it_parts(rest, launch));
    return launch(it);
}

/* n / d for n below 2^31, by multiplication (Granlund, Montgomery 1994). */
struct dl_divisor {
    uint32_t d, magic, shift;
    dl_divisor() : d(1), magic(1), shift(0) {}
    explicit dl_divisor(uint32_t by) : d(by) {
        for (shift = 0; shift < 32 && ((uint64_t)1 << shift) < by; shift++) {}
        magic = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - by)) / by + 1);
    }
    __device__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

/* The same on the device, passed by value. */
template <int N> struct dl_walk {
    uint32_t n;
    int ndim;
    unsigned numbers;
    dl_divisor size[DL_MAX_DIM];
    int32_t stride[DL_MAX_DIM][N];
    char *ptr[N];
    uint64_t number[N];

    __device__ void at(uint32_t i, int32_t (&off)[N]) const {
        if (ndim == 1) {
#pragma unroll
            for (int k = 0; k < N; k++) off[k] = (int32_t)i * stride[0][k];
            return;
        }
#pragma unroll
        for (int k = 0; k < N; k++) off[k] = 0;
#pragma unroll
        for (int d = 0; d < DL_MAX_DIM; d++) {
            if (d == ndim) break;
            uint32_t q = size[d].quotient(i), x = i - q * size[d].d;
            i = q;
#pragma unroll
            for (int k = 0; k < N; k++) off[k] += (int32_t)x * stride[d][k];
        }
    }
    template <class T> __device__ T load(int k, int32_t off) const {
        return numbers >> k & 1 ? *(const T *)&number[k] : *(const T *)(ptr[k] + off);
    }
};

/* In steps of `each` elements along the innermost dimension. */
template <int N> dl_walk<N> dl_walk_of(const dl_it *it, int each = 1) {
    dl_walk<N> w;
    w.n = (uint32_t)(dl_it_numel(it) / each);
    w.ndim = it->ndim;
    w.numbers = it->numbers;
    for (int d = 0; d < it->ndim; d++) {
        if (it->ndim > 1) w.size[d] = dl_divisor((uint32_t)(it->shape[d] / (d ? 1 : each)));
        for (int k = 0; k < N; k++) w.stride[d][k] = (int32_t)it->stride[d][k] * (d ? 1 : each);
    }
    for (int k = 0; k < N; k++) w.ptr[k] = it->ptr[k], w.number[k] = it->number[k];
    return w;
}

enum { DL_BLOCK = 256, DL_EACH = 8 }; /* threads of a block; the most elements of a thread */

/* N elements as whole registers: small ones would take one each where two ways of reading them meet, and instructions
 * that part them and put them together. It has no value at first. */
template <class T, int N> struct dl_words {
    enum { SIZE = sizeof(T) * N / 4, IN_WORD = sizeof(T) < 4 ? 4 / sizeof(T) : 1 };
    static_assert(sizeof(T) * N % 4 == 0, "a part of a word");
    dl_vector<uint32_t, SIZE> all;
    __device__ dl_words() {}
    __device__ void read(const char *p) { all = *(const dl_vector<uint32_t, SIZE> *)p; }
    __device__ void fill(T x) {
        enum { WORDS = sizeof(T) < 4 ? 1 : sizeof(T) / 4 };
        uint32_t w[WORDS] = {0};
        memcpy(w, &x, sizeof(T));
        if (sizeof(T) < 4) w[0] *= sizeof(T) == 1 ? 0x01010101u : 0x00010001u;
#pragma unroll
        for (int j = 0; j < SIZE; j++) all.v[j] = w[j % WORDS];
    }
    __device__ T operator[](int j) const {
        T x;
        if constexpr (sizeof(T) < 4) {
            const uint32_t bits = all.v[j / IN_WORD] >> j % IN_WORD * 8 * sizeof(T);
            memcpy(&x, &bits, sizeof(T));
        } else {
            memcpy(&x, &all.v[j * (sizeof(T) / 4)], sizeof(T));
        }
        return x;
    }
};

/* R = f(A...) element by element; f works on the types that A are computed in. */
template <class F, class R, class... A> struct dl_pointwise {
    enum { N = 1 + sizeof...(A), SINGLE = 4 };
    static constexpr size_t largest() {
        size_t most = sizeof(R);
        for (size_t s : {sizeof(A)...}) most = s > most ? s : most;
        return most;
    }
    static constexpr size_t smallest() { /* of what is read */
        size_t least = 4;
        for (size_t s : {sizeof(A)...}) least = s < least ? s : least;
        return least;
    }
    static constexpr int fit(int bytes, size_t size) { return bytes > (int)size ? bytes / (int)size : 1; }
    static constexpr int each() {
        int most = fit(16, largest()), least = fit(4, smallest());
        return most > DL_EACH ? DL_EACH : most > least ? most : least;
    }
    /* Elements of a vector: 16 bytes of the largest operand, as two registers of 16 bytes side by side are read more
     * slowly (the product of 4096 x 4096 numbers in c64 takes 94.8 us on an H200, with 4 elements 100.8, of half as
     * many in c128 94.7 and 119.0), and a whole register of the smallest. */
    enum { EACH = each() };
    /* Vectors of a thread. Two of one operand hide each other's latency: softplus of 4096 x 4096 numbers in f32 takes
     * 38.5 us on an H200, with one 40.8, and what waits for memory alone as long as with one. */
    enum { PACKS = N == 2 ? 2 : 1, BLOCK = DL_BLOCK / PACKS };
    typedef std::make_index_sequence<sizeof...(A)> seq;

    template <size_t... K>
    static __device__ void one(const dl_walk<N> &w, const F &f, const int32_t (&off)[N], std::index_sequence<K...>) {
        *(R *)(w.ptr[0] + off[0]) = dl_down<R>(f(dl_up(w.template load<A>(K + 1, off[K + 1]))...));
    }

    /* Operands that do not advance are read once. */
    template <class T> static __device__ void fetch(const dl_walk<N> &w, int k, int32_t off, dl_words<T, EACH> &p) {
        if (w.numbers >> k & 1 || !w.stride[0][k])
            p.fill(w.template load<T>(k, off));
        else
            p.read(w.ptr[k] + off);
    }
    template <class T> struct packs { dl_words<T, EACH> p[PACKS]; };
    /* The vectors from i on, a block apart: all are read before one is written. */
    template <size_t... K>
    static __device__ void many(const dl_walk<N> &w, const F &f, uint32_t i, std::index_sequence<K...>,
                                packs<A>... in) {
        int32_t off[PACKS][N];
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            if (i + k * BLOCK >= w.n) continue;
            w.at(i + k * BLOCK, off[k]);
            (fetch<A>(w, K + 1, off[k][K + 1], in.p[k]), ...);
        }
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            if (i + k * BLOCK >= w.n) continue;
            dl_vector<R, EACH> out;
#pragma unroll
            for (int j = 0; j < EACH; j++) out.v[j] = dl_down<R>(f(dl_up(in.p[k][j])...));
            *(dl_vector<R, EACH> *)(w.ptr[0] + off[k][0]) = out;
        }
    }

    static bool vectors(const dl_it *it) {
        static const size_t size[] = {sizeof(R), sizeof(A)...};
        return dl_it_vectors(it, size, EACH);
    }
};

/* w is in vectors; with one dimension up to EACH - 1 elements remain after them, of the first threads. */
template <class F, class R, class... A>
__global__ void __launch_bounds__((dl_pointwise<F, R, A...>::BLOCK))
    dl_vector_kernel(const __grid_constant__ dl_walk<1 + sizeof...(A)> w, int rest, F f) {
    typedef dl_pointwise<F, R, A...> P;
    const uint32_t i = blockIdx.x * (P::BLOCK * P::PACKS) + threadIdx.x;
    P::many(w, f, i, typename P::seq(), typename P::template packs<A>()...);
    if (i >= (uint32_t)rest) return;
    int32_t off[P::N];
#pragma unroll
    for (int k = 0; k < P::N; k++) off[k] = (int32_t)(w.n * P::EACH + i) * (w.stride[0][k] / P::EACH);
    P::one(w, f, off, typename P::seq());
}

template <class F, class R, class... A>
__global__ void __launch_bounds__(DL_BLOCK)
    dl_strided_kernel(const __grid_constant__ dl_walk<1 + sizeof...(A)> w, F f) {
    typedef dl_pointwise<F, R, A...> P;
    uint32_t i = blockIdx.x * (DL_BLOCK * P::SINGLE) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < P::SINGLE; k++, i += DL_BLOCK)
        if (i < w.n) {
            int32_t off[P::N];
            w.at(i, off);
            P::one(w, f, off, typename P::seq());
        }
}

/* Runs f over an iteration whose operand 0 is the result. */
template <class F, class R, class... A> dl_status dl_each(dl_gpu *g, const dl_it &all, F f) {
    typedef dl_pointwise<F, R, A...> P;
    return dl_it_parts(all, [&](const dl_it &it) {
        bool vectors = P::vectors(&it);
        dl_walk<P::N> w = dl_walk_of<P::N>(&it, vectors ? P::EACH : 1);
        if (vectors)
            dl_vector_kernel<F, R, A...>
                <<<w.n / DL_BLOCK + 1, P::BLOCK, 0, g->stream>>>(w, (int)(dl_it_numel(&it) - (long)w.n * P::EACH), f);
        else
            dl_strided_kernel<F, R, A...><<<dl_blocks(w.n, DL_BLOCK * P::SINGLE), DL_BLOCK, 0, g->stream>>>(w, f);
        return dl_gpu_launched(g);
    });
}

/* f(char *const p[N]) at each place of an iteration, with the addresses of its operands there, for kernels that do more
 * than read and write one element each. An operand at NULL with steps of a byte is a number that depends on the place.
 */
template <int N, class F>
__global__ void __launch_bounds__(DL_BLOCK) dl_place_kernel(const __grid_constant__ dl_walk<N> w, F f) {
    uint32_t i = blockIdx.x * DL_BLOCK + threadIdx.x;
    if (i >= w.n) return;
    int32_t off[N];
    char *p[N];
    w.at(i, off);
#pragma unroll
    for (int k = 0; k < N; k++) p[k] = w.ptr[k] + off[k];
    f(p);
}

template <int N, class F> dl_status dl_places(dl_gpu *g, const dl_it &all, F f) {
    return dl_it_parts(all, [&](const dl_it &it) {
        dl_walk<N> w = dl_walk_of<N>(&it);
        dl_place_kernel<N><<<dl_blocks(w.n, DL_BLOCK), DL_BLOCK, 0, g->stream>>>(w, f);
        return dl_gpu_launched(g);
    });
}

/* An operand that yields sum of index[d] * step[d]. */
static inline void dl_it_count(dl_it *it, int ndim, const long *shape, const long *step) {
    dl_it_operand(it, NULL, 1, ndim, shape, step);
}
