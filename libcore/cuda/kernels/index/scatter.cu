/* Sums of elements at listed places, in a fixed order: see scatter.h. */
#include "cuda/kernels/index/scatter.h"

#include <cub/device/device_radix_sort.cuh>

#include "cuda/kernels/index/index.cuh"

enum { THREADS = 256, AHEAD = 4, AHEAD_JOIN = 8, LEAST_CHUNK = 32, MOST_CHUNK = 512 };

template <class K, class I>
static dl_status sort(dl_gpu *g, const K *key, K *sorted_key, const I *v, I *sorted_v, long n, int from, int to) {
    size_t bytes = 0;
    cub::DeviceRadixSort::SortPairs(NULL, bytes, key, sorted_key, v, sorted_v, n, from, to, g->stream);
    void *work = dl_gpu_take(g, bytes);
    if (!work) return dl_failed();
    cudaError_t e = cub::DeviceRadixSort::SortPairs(work, bytes, key, sorted_key, v, sorted_v, n, from, to, g->stream);
    dl_gpu_drop(g, work);
    return dl_gpu_check(g, e, "sorting");
}

dl_status dl_cuda_sort_pairs(dl_gpu *g, const uint64_t *key, uint64_t *sorted_key, const long *v, long *sorted_v,
                             long n, int from, int to) {
    return sort(g, key, sorted_key, v, sorted_v, n, from, to);
}

dl_status dl_cuda_sort_words(dl_gpu *g, const unsigned *key, unsigned *sorted_key, const unsigned *v,
                             unsigned *sorted_v, long n, int from, int to) {
    return sort(g, key, sorted_key, v, sorted_v, n, from, to);
}

/* Sorted keys, with the row of v that each came from, in chunks of `chunk`, a power of two. A run of equal keys that
 * crosses into the next chunk leaves its sum in `tail`, what it has in later ones in `head`: numbers of a chunk by
 * column. K: unsigned or uint64_t, of keys and of rows. */
template <class T, class K> struct runs {
    typedef typename dl_accumulator<T>::A A;
    T *o;
    const T *v;
    const T *sorted; /* instead of v and row, for a single column: the elements in the order of the keys; or NULL */
    long size, n, inner, cols, chunk;
    const K *key, *row;
    A *head, *tail;

    __device__ bool continues(long i) const { return i > 0 && i < n && key[i] == key[i - 1]; }
    __device__ static void put(T *at, A sum) { *at = dl_accumulator<T>::down(dl_accumulator<T>::up(*at) + sum); }
    /* Of a column: its first element in o and in v. */
    __device__ T *target(long col) const { return o + col / inner * size * inner + col % inner; }
    __device__ const T *source(long col) const { return v + col / inner * n * inner + col % inner; }
};

/* A single column: a thread has a run, or what a chunk has of one. */
template <class T, class K>
__global__ void __launch_bounds__(THREADS) elements_kernel(const __grid_constant__ runs<T, K> r) {
    typedef typename dl_accumulator<T>::A A;
    long i = (long)blockIdx.x * THREADS + threadIdx.x, first = i & ~(r.chunk - 1), end = first + r.chunk, j = i;
    if (i >= r.n) return;
    bool from_before = r.continues(i);
    if (from_before && i != first) return;
    if (end > r.n) end = r.n;
    K run = r.key[i];
    A sum = 0;
    do { sum += dl_accumulator<T>::up(r.sorted ? r.sorted[j] : r.v[r.row[j]]); } while (++j < end && r.key[j] == run);
    if (from_before)
        r.head[i / r.chunk] = sum;
    else if (j == end && r.continues(end))
        r.tail[i / r.chunk] = sum;
    else if (run < r.size)
        r.put(r.o + run, sum);
}

/* A thread has V columns of a chunk. */
template <class T, class K, int V>
__global__ void __launch_bounds__(THREADS) chunks_kernel(const __grid_constant__ runs<T, K> r, long threads) {
    typedef typename dl_accumulator<T>::A A;
    typedef dl_vector<T, V> pack;
    long t = (long)blockIdx.x * THREADS + threadIdx.x, packs = r.cols / V;
    if (t >= threads) return;
    long col = t % packs * V, k = t / packs, i = k * r.chunk, end = i + r.chunk < r.n ? i + r.chunk : r.n;
    T *target = r.target(col);
    const T *source = r.source(col);
    bool from_before = r.continues(i), open = false;
    K run = r.key[i];
    A sum[V] = {};
    auto leave = [&]() {
#pragma unroll
        for (int e = 0; e < V; e++) {
            if (from_before || open)
                (from_before ? r.head : r.tail)[k * r.cols + col + e] = sum[e];
            else if (run < r.size)
                r.put(target + run * r.inner + e, sum[e]);
            sum[e] = 0;
        }
        from_before = false;
    };
    for (; i < end; i += AHEAD) {
        K key[AHEAD];
        pack v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j < end) key[j] = r.key[i + j], v[j] = *(const pack *)(source + r.row[i + j] * r.inner);
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            if (i + j >= end) break;
            if (key[j] != run) leave(), run = key[j];
#pragma unroll
            for (int e = 0; e < V; e++) sum[e] += dl_accumulator<T>::up(v[j].v[e]);
        }
    }
    open = r.continues(end);
    leave();
}

/* Runs of several chunks, by the thread of the chunk that they begin in. */
template <class T, class K>
__global__ void __launch_bounds__(THREADS) join_kernel(const __grid_constant__ runs<T, K> r, long threads) {
    typedef typename dl_accumulator<T>::A A;
    long t = (long)blockIdx.x * THREADS + threadIdx.x;
    if (t >= threads) return;
    long col = t % r.cols, begin = t / r.cols * r.chunk, end = begin + r.chunk;
    if (!r.continues(end)) return;
    K run = r.key[end];
    if (run >= r.size || (r.key[begin] == run && r.continues(begin))) return;
    A sum = r.tail[t];
    for (bool more = true; more;) {
        A part[AHEAD_JOIN];
#pragma unroll
        for (int j = 0; j < AHEAD_JOIN; j++, end += r.chunk) {
            t += r.cols;
            more = more && end < r.n && r.key[end] == run;
            part[j] = more ? r.head[t] : A(0);
        }
#pragma unroll
        for (int j = 0; j < AHEAD_JOIN; j++) sum += part[j];
    }
    r.put(r.target(col) + run * r.inner, sum);
}

template <class K> __global__ void number_kernel(K *row, long n) {
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) row[i] = (K)i;
}

template <class T, class K> static dl_status add_sorted(dl_gpu *g, runs<T, K> r) {
    typedef typename runs<T, K>::A A;
    enum { V = 16 / sizeof(T) };
    r.chunk = LEAST_CHUNK;
    while (r.chunk < MOST_CHUNK && r.chunk * r.chunk * 16 < r.n) r.chunk *= 2;
    long chunks = (r.n + r.chunk - 1) / r.chunk, parts = chunks * r.cols;
    A *part = (A *)dl_gpu_take(g, 2 * sizeof(A) * (size_t)parts);
    if (!part) return dl_failed();
    r.head = part, r.tail = part + parts;
    bool packs = r.inner % V == 0 && ((size_t)r.v | (size_t)r.o) % 16 == 0;
    if (r.cols == 1)
        elements_kernel<T, K><<<dl_blocks(r.n, THREADS), THREADS, 0, g->stream>>>(r);
    else if (packs)
        chunks_kernel<T, K, V><<<dl_blocks(parts / V, THREADS), THREADS, 0, g->stream>>>(r, parts / V);
    else
        chunks_kernel<T, K, 1><<<dl_blocks(parts, THREADS), THREADS, 0, g->stream>>>(r, parts);
    dl_status s = dl_gpu_launched(g);
    if (s == DL_OK && chunks > 1) {
        join_kernel<T, K><<<dl_blocks(parts, THREADS), THREADS, 0, g->stream>>>(r, parts);
        s = dl_gpu_launched(g);
    }
    dl_gpu_drop(g, part);
    return s;
}

/* Where elements are as wide as keys, or half as wide, and alone in their rows, they are sorted themselves, else the
 * numbers of rows. */
template <class K> static dl_status scatter_add(dl_gpu *g, const dl_scatter *a, const K *key) {
    long n = a->n, cols = a->outer * a->inner;
    const size_t esize = (size_t)dl_dtype_size((dl_dtype)a->dtype);
    const bool direct = cols == 1 && sizeof(K) == 4 && (esize == 4 || esize == 2);
    K *work = (K *)dl_gpu_take(g, 3 * sizeof(K) * (size_t)n), *sorted = work + n, *row = sorted + n;
    if (!work) return dl_failed();
    const long largest = a->size - a->whole;
    int bits = largest > 0 ? dl_bits(largest) : 1;
    if (!direct) number_kernel<<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(work, n);
    dl_status s = dl_gpu_launched(g);
    if (s == DL_OK && direct && esize == 2)
        s = sort(g, key, sorted, (const unsigned short *)a->v, (unsigned short *)row, n, 0, bits);
    else if (s == DL_OK)
        s = sort(g, key, sorted, direct ? (const K *)a->v : work, row, n, 0, bits);
    if (s == DL_OK)
        s = dl_dispatch<DL_ANY>(a->dtype, [&](auto tag) {
            typedef decltype(tag) T;
            runs<T, K> r = {(T *)a->o,
                            (const T *)a->v,
                            direct ? (const T *)row : NULL,
                            a->size,
                            n,
                            a->inner,
                            cols,
                            0,
                            sorted,
                            row,
                            NULL,
                            NULL};
            return add_sorted(g, r);
        });
    dl_gpu_drop(g, work);
    return s;
}

dl_status dl_cuda_scatter_sorted(dl_gpu *g, const dl_scatter *a, const void *key) {
    if (!a->n || !a->outer || !a->inner) return DL_OK;
    return dl_scatter_narrow(a) ? scatter_add(g, a, (const unsigned *)key) : scatter_add(g, a, (const uint64_t *)key);
}
