/* Kernels of index_add and scatter_add: see scatter.h. */
#include "cuda/scatter.h"

#include <cub/device/device_radix_sort.cuh>

#include "cuda/index.cuh"

enum { THREADS = 256, FEW = 64 };

dl_status dl_cuda_sort(dl_gpu *g, const uint64_t *key, uint64_t *sorted_key, const long *v, long *sorted_v, long n,
                       int bits) {
    size_t bytes = 0;
    cub::DeviceRadixSort::SortPairs(NULL, bytes, key, sorted_key, v, sorted_v, n, 0, bits, g->stream);
    void *work = dl_gpu_take(g, bytes);
    if (!work) return dl_error_last()->code;
    cudaError_t e = cub::DeviceRadixSort::SortPairs(work, bytes, key, sorted_key, v, sorted_v, n, 0, bits, g->stream);
    dl_gpu_drop(g, work);
    return dl_gpu_check(g, e, "sorting");
}

/* What sums run in. */
template <class T> struct adding {
    typedef std::conditional_t<std::is_floating_point<calc_t<T>>::value, double, uint64_t> A;
    static __device__ A up(T x) { return (A)dl_up(x); }
    static __device__ T down(A x) {
        if constexpr (std::is_same<A, double>::value)
            return dl_down<T>((calc_t<T>)x);
        else
            return (T)x;
    }
};

/* Sorted keys, with the row of v that each came from; a thread adds up `chunk` of them in one column. A run of equal
 * keys that crosses into the next chunk leaves its sum in `tail`, what it has in later ones in `head`. */
template <class T> struct runs {
    typedef typename adding<T>::A A;
    T *o;
    const T *v;
    long size, n, inner, cols, chunk;
    const long *key, *row;
    A *head, *tail;

    __device__ void put(long key, long col, A sum) const {
        T *at = o + (col / inner * size + key) * inner + col % inner;
        *at = adding<T>::down(adding<T>::up(*at) + sum);
    }
    __device__ A get(long row, long col) const {
        return adding<T>::up(v[(col / inner * n + row) * inner + col % inner]);
    }
    __device__ bool continues(long i) const { return i > 0 && i < n && key[i] == key[i - 1]; }
};

template <class T>
__global__ void __launch_bounds__(THREADS) chunks_kernel(const __grid_constant__ runs<T> r, long threads) {
    typedef typename adding<T>::A A;
    long t = (long)blockIdx.x * THREADS + threadIdx.x;
    if (t >= threads) return;
    long col = t % r.cols, k = t / r.cols, i = k * r.chunk, end = i + r.chunk < r.n ? i + r.chunk : r.n;
    bool from_before = r.continues(i);
    long run = r.key[i];
    A sum = 0;
    for (; i < end; i++) {
        long next = r.key[i];
        if (next != run) {
            if (from_before)
                r.head[t] = sum;
            else if (run < r.size)
                r.put(run, col, sum);
            from_before = false, run = next, sum = 0;
        }
        sum += r.get(r.row[i], col);
    }
    if (from_before)
        r.head[t] = sum;
    else if (r.continues(end))
        r.tail[t] = sum;
    else if (run < r.size)
        r.put(run, col, sum);
}

/* Runs of several chunks, by the thread of the chunk that they begin in. */
template <class T>
__global__ void __launch_bounds__(THREADS) join_kernel(const __grid_constant__ runs<T> r, long threads) {
    typedef typename adding<T>::A A;
    long t = (long)blockIdx.x * THREADS + threadIdx.x;
    if (t >= threads) return;
    long col = t % r.cols, begin = t / r.cols * r.chunk, end = begin + r.chunk;
    if (!r.continues(end)) return;
    long run = r.key[end];
    if (run >= r.size || (r.key[begin] == run && r.continues(begin))) return;
    A sum = r.tail[t];
    do {
        t += r.cols;
        end += r.chunk;
        sum += r.head[t];
    } while (end < r.n && r.key[end] == run);
    r.put(run, col, sum);
}

__global__ static void number_kernel(long *row, long n) {
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) row[i] = i;
}

static unsigned blocks_for(long threads) { return (unsigned)((threads + THREADS - 1) / THREADS); }

template <class T> static dl_status sorted_adds(dl_gpu *g, const dl_adds *a, const long *key, const long *row) {
    typedef typename adding<T>::A A;
    long cols = a->outer * a->inner, chunk = 32;
    while (chunk < 512 && chunk * chunk * 16 < a->n) chunk *= 2;
    long threads = (a->n + chunk - 1) / chunk * cols;
    A *part = (A *)dl_gpu_take(g, 2 * sizeof(A) * (size_t)threads);
    if (!part) return dl_error_last()->code;
    runs<T> r = {(T *)a->o, (const T *)a->v, a->size, a->n, a->inner, cols, chunk, key, row, part, part + threads};
    chunks_kernel<T><<<blocks_for(threads), THREADS, 0, g->stream>>>(r, threads);
    dl_status s = dl_gpu_launched(g);
    if (s == DL_OK && a->n > chunk) {
        join_kernel<T><<<blocks_for(threads), THREADS, 0, g->stream>>>(r, threads);
        s = dl_gpu_launched(g);
    }
    dl_gpu_drop(g, part);
    return s;
}

dl_status dl_cuda_adds(dl_gpu *g, const dl_adds *a, const long *key) {
    if (!a->n || !a->outer || !a->inner) return DL_OK;
    long *work = (long *)dl_gpu_take(g, 3 * sizeof(long) * (size_t)a->n), *sorted = work + a->n, *row = sorted + a->n;
    if (!work) return dl_error_last()->code;
    int bits = 1;
    while (a->size >> bits) bits++;
    number_kernel<<<blocks_for(a->n), THREADS, 0, g->stream>>>(work, a->n);
    dl_status s = dl_gpu_launched(g);
    if (s == DL_OK) s = dl_cuda_sort(g, (const uint64_t *)key, (uint64_t *)sorted, work, row, a->n, bits);
    if (s == DL_OK)
        s = dl_dispatch<DL_ANY>(a->dtype, [&](auto tag) { return sorted_adds<decltype(tag)>(g, a, sorted, row); });
    dl_gpu_drop(g, work);
    return s;
}

/* ---- the rows */

/* Operands: where the key goes, the index, the place that index 0 stands for. */
struct key_f {
    long size, step, none;
    int wide;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long at = dl_index_at(p[1], wide, size, site);
        *(long *)p[0] = at < 0 ? none : (long)p[2] + at * step;
    }
};

static void dims_of(const dl_call *c, const dl_tensor *t, int *dim, long *size) {
    dl_dim_norm(c->attr[0].u.i, t->ndim, dim); /* checked by infer */
    *size = t->ndim ? t->shape[*dim] : 1;
}

/* index_add: keys are indices. */
static dl_status add_rows(dl_gpu *g, dl_call *c, const dl_tensor *v, long *key) {
    dl_tensor *o = c->out[0], *index = c->in[1];
    const long one = 1, none = 0, n = index->numel;
    int dim = 0;
    long size = 0;
    dims_of(c, o, &dim, &size);
    dl_it it;
    dl_it_begin(&it, 1, &n);
    dl_it_operand(&it, key, sizeof *key, 1, &n, &one);
    dl_it_operand(&it, dl_ptr(index), dl_esize(index), 1, &n, index->ndim ? index->stride : &none);
    dl_it_count(&it, 1, &n, &none);
    dl_it_end(&it);
    dl_status s = dl_places<3>(g, it, key_f{size, 1, size, index->dtype == DL_I64, dl_gpu_site(g, c->op)});
    long outer = 1, inner = 1;
    for (int d = 0; d < o->ndim; d++)
        if (d != dim) *(d < dim ? &outer : &inner) *= o->shape[d];
    dl_adds a = {dl_ptr(o), dl_ptr(v), o->dtype, outer, size, n, inner};
    return s == DL_OK ? dl_cuda_adds(g, &a, key) : s;
}

/* scatter_add: keys are places in the result. */
static dl_status add_elements(dl_gpu *g, dl_call *c, const dl_tensor *v, long *key) {
    dl_tensor *o = c->out[0], *index = c->in[1];
    int dim = 0;
    long size = 0, count[DL_MAX_DIM], base[DL_MAX_DIM];
    dims_of(c, o, &dim, &size);
    dl_strides_contiguous(index->ndim, index->shape, count);
    memcpy(base, o->stride, sizeof base);
    long step = o->ndim ? base[dim] : 0;
    base[dim] = 0;
    dl_it it;
    dl_it_begin(&it, index->ndim, index->shape);
    dl_it_operand(&it, key, sizeof *key, index->ndim, index->shape, count);
    dl_it_tensor(&it, index);
    dl_it_count(&it, index->ndim, index->shape, base);
    dl_it_end(&it);
    dl_status s = dl_places<3>(g, it, key_f{size, step, (long)o->numel, index->dtype == DL_I64, dl_gpu_site(g, c->op)});
    dl_adds a = {dl_ptr(o), dl_ptr(v), o->dtype, 1, (long)o->numel, (long)v->numel, 1};
    return s == DL_OK ? dl_cuda_adds(g, &a, key) : s;
}

/* Few parts an element can get: a thread takes all indices of a column, in order. Operands: the result, index and
 * source at the first of them. */
template <class T> struct column_f {
    long n, size, o_step, i_step, v_step; /* of the dimension, in bytes */
    int wide;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        for (long i = 0; i < n; i++) {
            long at = dl_index_at(p[1] + i * i_step, wide, size, site);
            if (at < 0) continue;
            T *to = (T *)(p[0] + at * o_step);
            *to = adding<T>::down(adding<T>::up(*to) + adding<T>::up(*(const T *)(p[2] + i * v_step)));
        }
    }
};

static void without(dl_it *it, const dl_tensor *t, int dim, int ndim, const long *shape) {
    long stride[DL_MAX_DIM] = {0};
    for (int d = 0; d < t->ndim; d++) stride[d] = d == dim ? 0 : t->stride[d];
    dl_it_operand(it, dl_ptr(t), dl_esize(t), ndim, shape, stride);
}

/* `list`: the index is one of index_add, the same in all columns. */
static dl_status add_columns(dl_gpu *g, dl_call *c, bool list) {
    dl_tensor *o = c->out[0], *index = c->in[1], *v = c->in[2];
    int dim = 0;
    long size = 0, shape[DL_MAX_DIM] = {0};
    const long none[DL_MAX_DIM] = {0};
    dims_of(c, o, &dim, &size);
    memcpy(shape, v->shape, sizeof shape);
    if (v->ndim) shape[dim] = 1;
    dl_it it;
    dl_it_begin(&it, v->ndim, shape);
    without(&it, o, dim, v->ndim, shape);
    if (list)
        dl_it_operand(&it, dl_ptr(index), dl_esize(index), v->ndim, shape, none);
    else
        without(&it, index, dim, v->ndim, shape);
    without(&it, v, dim, v->ndim, shape);
    dl_it_end(&it);
    int at = list ? 0 : dim;
    long step[3] = {o->ndim ? o->stride[dim] * (long)dl_esize(o) : 0,
                    index->ndim ? index->stride[at] * (long)dl_esize(index) : 0,
                    v->ndim ? v->stride[dim] * (long)dl_esize(v) : 0};
    return dl_dispatch<DL_ANY>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_places<3>(g, it,
                            column_f<T>{v->ndim ? v->shape[dim] : 1, size, step[0], step[1], step[2],
                                        index->dtype == DL_I64, dl_gpu_site(g, c->op)});
    });
}

static dl_status run_adds(dl_call *c, bool list) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *o = c->out[0], *v = c->in[2];
    if (!g) return dl_error_last()->code;
    dl_status s = dl_cuda_copy(g, o, c->in[0]);
    if (s != DL_OK || !v->numel) return s;
    int dim = 0;
    long size = 0;
    dims_of(c, v, &dim, &size);
    bool half = c->dtype == DL_F16 || c->dtype == DL_BF16; /* rounded once, whatever the number of parts */
    if (size == 1 || (!half && size <= FEW)) return add_columns(g, c, list);
    long n = list ? c->in[1]->numel : v->numel, *key = (long *)dl_gpu_take(g, sizeof(long) * (size_t)n);
    dl_tensor *flat = key ? dl_cuda_contiguous(g, v) : NULL;
    if (!flat)
        s = dl_error_last()->code;
    else
        s = list ? add_rows(g, c, flat, key) : add_elements(g, c, flat, key);
    dl_unref(flat);
    dl_gpu_drop(g, key);
    return s;
}

static dl_status run_index_add(dl_call *c) { return run_adds(c, true); }
static dl_status run_scatter_add(dl_call *c) { return run_adds(c, false); }
const dl_kernel dl_cuda_index_add = {run_index_add, NULL, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_scatter_add = {run_scatter_add, NULL, DL_ANY, NULL, 0};
