/* The iterator of pointwise kernels: the only place that knows strides. Operands are broadcast to the shape of the
 * first; dimensions are ordered by its strides and merged where memory allows. Dense operands run in vectors of four
 * elements; everything else computes 32-bit offsets by multiplication, and what is too large for these is split. */
#ifndef DL_CUDA_ITER_CUH
#define DL_CUDA_ITER_CUH

#include <stdint.h>

#include <utility>

#include "cuda/types.cuh"

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
/* Halves an iteration whose offsets or elements do not fit 31 bits: *rest gets the second half. False: it fits. */
bool dl_it_split(dl_it *it, dl_it *rest);
long dl_it_numel(const dl_it *it);

static inline void dl_it_of(dl_it *it, int nop, dl_tensor *const *op) {
    dl_it_begin(it, op[0]->ndim, op[0]->shape);
    for (int i = 0; i < nop; i++) dl_it_tensor(it, op[i]);
    dl_it_end(it);
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

template <int N> dl_walk<N> dl_walk_of(const dl_it *it) {
    dl_walk<N> w;
    w.n = (uint32_t)dl_it_numel(it);
    w.ndim = it->ndim;
    w.numbers = it->numbers;
    for (int d = 0; d < it->ndim; d++) {
        w.size[d] = dl_divisor((uint32_t)it->shape[d]);
        for (int k = 0; k < N; k++) w.stride[d][k] = (int32_t)it->stride[d][k];
    }
    for (int k = 0; k < N; k++) w.ptr[k] = it->ptr[k], w.number[k] = it->number[k];
    return w;
}

enum { DL_BLOCK = 256, DL_EACH = 4 }; /* threads of a block, elements of a thread */

template <class T> struct alignas(sizeof(T) * DL_EACH < 16 ? sizeof(T) * DL_EACH : 16) dl_pack { T v[DL_EACH]; };

/* R = f(A...) element by element; f works on the types that A are computed in. */
template <class F, class R, class... A> struct dl_pointwise {
    enum { N = 1 + sizeof...(A) };
    typedef std::make_index_sequence<sizeof...(A)> seq;

    template <size_t... K>
    static __device__ void one(const dl_walk<N> &w, const F &f, uint32_t i, std::index_sequence<K...>) {
        int32_t off[N];
        w.at(i, off);
        *(R *)(w.ptr[0] + off[0]) = dl_down<R>(f(dl_up(w.template load<A>(K + 1, off[K + 1]))...));
    }

    /* Operands that do not advance are read once. */
    template <class T> static __device__ void fetch(const dl_walk<N> &w, int k, uint32_t i, dl_pack<T> &p) {
        if (w.numbers >> k & 1 || !w.stride[0][k]) {
            T x = w.template load<T>(k, 0);
#pragma unroll
            for (int j = 0; j < DL_EACH; j++) p.v[j] = x;
        } else {
            p = *(const dl_pack<T> *)(w.ptr[k] + (size_t)i * sizeof(T));
        }
    }
    template <size_t... K>
    static __device__ void four(const dl_walk<N> &w, const F &f, uint32_t i, std::index_sequence<K...>,
                                dl_pack<A>... in) {
        (fetch<A>(w, K + 1, i, in), ...);
        dl_pack<R> out;
#pragma unroll
        for (int j = 0; j < DL_EACH; j++) out.v[j] = dl_down<R>(f(dl_up(in.v[j])...));
        *(dl_pack<R> *)(w.ptr[0] + (size_t)i * sizeof(R)) = out;
    }

    static bool flat(const dl_it *it) {
        static const size_t size[] = {sizeof(R), sizeof(A)...};
        if (it->ndim > 1) return false;
        for (int k = 0; k < N; k++) {
            long step = it->ndim ? it->stride[0][k] : (long)size[k];
            if (it->numbers >> k & 1 || (k && !step)) continue;
            size_t align = size[k] * DL_EACH < 16 ? size[k] * DL_EACH : 16;
            if (step != (long)size[k] || (size_t)it->ptr[k] % align) return false;
        }
        return true;
    }
};

template <class F, class R, class... A>
__global__ void __launch_bounds__(DL_BLOCK) dl_flat_kernel(const __grid_constant__ dl_walk<1 + sizeof...(A)> w, F f) {
    typedef dl_pointwise<F, R, A...> P;
    uint32_t i = (blockIdx.x * DL_BLOCK + threadIdx.x) * DL_EACH;
    if (i + DL_EACH <= w.n)
        P::four(w, f, i, typename P::seq(), dl_pack<A>()...);
    else
        for (; i < w.n; i++) P::one(w, f, i, typename P::seq());
}

template <class F, class R, class... A>
__global__ void __launch_bounds__(DL_BLOCK)
    dl_strided_kernel(const __grid_constant__ dl_walk<1 + sizeof...(A)> w, F f) {
    typedef dl_pointwise<F, R, A...> P;
    uint32_t i = blockIdx.x * (DL_BLOCK * DL_EACH) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < DL_EACH; k++, i += DL_BLOCK)
        if (i < w.n) P::one(w, f, i, typename P::seq());
}

/* Runs f over an iteration whose operand 0 is the result. */
template <class F, class R, class... A> dl_status dl_each(dl_gpu *g, dl_it it, F f) {
    typedef dl_pointwise<F, R, A...> P;
    if (!dl_it_numel(&it)) return DL_OK;
    dl_it rest;
    while (dl_it_split(&it, &rest)) {
        dl_status s = dl_each<F, R, A...>(g, rest, f);
        if (s != DL_OK) return s;
    }
    dl_walk<1 + sizeof...(A)> w = dl_walk_of<1 + sizeof...(A)>(&it);
    unsigned blocks = (w.n + DL_BLOCK * DL_EACH - 1) / (DL_BLOCK * DL_EACH);
    if (P::flat(&it))
        dl_flat_kernel<F, R, A...><<<blocks, DL_BLOCK, 0, g->stream>>>(w, f);
    else
        dl_strided_kernel<F, R, A...><<<blocks, DL_BLOCK, 0, g->stream>>>(w, f);
    return dl_gpu_launched(g);
}

/* f(char *const p[N]) at each place of an iteration, p being where its operands are there: for kernels that do more
 * than read and write one element each. An operand at NULL with steps of a byte yields numbers that depend on the
 * place. */
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

template <int N, class F> dl_status dl_places(dl_gpu *g, dl_it it, F f) {
    dl_it rest;
    if (!dl_it_numel(&it)) return DL_OK;
    while (dl_it_split(&it, &rest)) {
        dl_status s = dl_places<N>(g, rest, f);
        if (s != DL_OK) return s;
    }
    dl_walk<N> w = dl_walk_of<N>(&it);
    dl_place_kernel<N><<<(w.n + DL_BLOCK - 1) / DL_BLOCK, DL_BLOCK, 0, g->stream>>>(w, f);
    return dl_gpu_launched(g);
}

/* An operand that yields sum of index[d] * step[d]. */
static inline void dl_it_count(dl_it *it, int ndim, const long *shape, const long *step) {
    dl_it_operand(it, NULL, 1, ndim, shape, step);
}

#endif
