/* Copies with conversion: clone, to, restride, transfer, writing into a region; and where, which moves bits, too. */
#include "cuda/kernels/transpose.h"
#include "ops/names/view.h"

struct same_f {
    template <class T> __device__ T operator()(T x) const { return x; }
};

/* ---- reversal of the innermost dimension, 16 bytes at a time */

template <class T> __global__ void __launch_bounds__(DL_BLOCK) back_kernel(const __grid_constant__ dl_walk<2> w) {
    enum { V = 16 / sizeof(T) };
    uint32_t i = blockIdx.x * DL_BLOCK + threadIdx.x;
    if (i >= w.n) return;
    int32_t off[2];
    w.at(i, off);
    dl_vector<T, V> p = *(const dl_vector<T, V> *)(w.ptr[1] + off[1] - (V - 1) * (int)sizeof(T)), q;
#pragma unroll
    for (int e = 0; e < V; e++) q.v[e] = p.v[V - 1 - e];
    *(dl_vector<T, V> *)(w.ptr[0] + off[0]) = q;
}

static bool backwards(const dl_it *it, size_t size) {
    if (!it->ndim || it->numbers || it->stride[0][0] != (long)size || it->stride[0][1] != -(long)size) return false;
    size_t all = (size_t)it->ptr[0] | ((size_t)it->ptr[1] + size) | (size_t)it->shape[0] * size;
    for (int d = 1; d < it->ndim; d++) all |= (size_t)it->stride[d][0] | (size_t)it->stride[d][1];
    return all % 16 == 0;
}

static dl_status run_copy(dl_gpu *g, const dl_it &it, int dt, int st);

template <class T> static dl_status run_back(dl_gpu *g, dl_it it, int dtype) {
    dl_it rest;
    if (!dl_it_numel(&it)) return DL_OK;
    if (dl_it_split(&it, &rest)) { /* halves need not be of whole vectors */
        dl_status s = run_copy(g, rest, dtype, dtype);
        return s == DL_OK ? run_copy(g, it, dtype, dtype) : s;
    }
    dl_walk<2> w = dl_walk_of<2>(&it, 16 / sizeof(T));
    back_kernel<T><<<(w.n + DL_BLOCK - 1) / DL_BLOCK, DL_BLOCK, 0, g->stream>>>(w);
    return dl_gpu_launched(g);
}

static dl_status run_copy(dl_gpu *g, const dl_it &it, int dt, int st) {
    size_t size = (size_t)dl_dtype_size((dl_dtype)dt);
    if (dt == st && backwards(&it, size))
        return dl_dispatch_size<16>(size, [&](auto tag) { return run_back<decltype(tag)>(g, it, dt); });
    if (dt == st && dl_transpose_fits(&it, size)) return dl_transpose_run(g, &it, size);
    if (dt == st)
        return dl_dispatch_size<16>(size, [&](auto tag) {
            typedef decltype(tag) T;
            return dl_each<same_f, T, T>(g, it, same_f());
        });
    return dl_dispatch<DL_ALL>(dt, [&](auto to) {
        return dl_dispatch<DL_ALL>(
            st, [&](auto from) { return dl_each<same_f, decltype(to), decltype(from)>(g, it, same_f()); });
    });
}

dl_status dl_cuda_copy_strided(dl_gpu *g, int ndim, const long *shape, void *dst, dl_dtype dt, const long *ds,
                               const void *src, dl_dtype st, const long *ss) {
    dl_it it;
    dl_it_begin(&it, ndim, shape);
    dl_it_operand(&it, dst, (size_t)dl_dtype_size(dt), ndim, shape, ds);
    dl_it_operand(&it, (void *)src, (size_t)dl_dtype_size(st), ndim, shape, ss);
    dl_it_end(&it);
    return run_copy(g, it, dt, st);
}

dl_status dl_cuda_copy(dl_gpu *g, dl_tensor *dst, const dl_tensor *src) {
    return run_copy(g, dl_it_of({dst, src}), dst->dtype, src->dtype);
}

dl_tensor *dl_cuda_empty_like(const dl_tensor *t, dl_dtype dtype) {
    dl_tensor *d = dl_tensor_empty(t->ndim, t->shape, dtype, t->st->device);
    if (d && !dl_is_contiguous(t) && t->numel && dl_is_dense(t)) memcpy(d->stride, t->stride, sizeof d->stride);
    return d;
}

dl_status dl_cuda_clear(dl_gpu *g, dl_tensor *t) {
    return dl_gpu_check(g, cudaMemsetAsync(dl_ptr(t), 0, (size_t)t->numel * dl_esize(t), g->stream), "zeros");
}

bool dl_cuda_repeated(const dl_tensor *t) {
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1 && t->stride[i]) return false;
    return true;
}

bool dl_cuda_operand(dl_gpu *g, dl_tensor *t, int dtype, dl_tensor **out) {
    dl_tensor *cast = t ? dl_to_dtype(t, (dl_dtype)dtype) : NULL;
    *out = cast ? dl_cuda_contiguous(g, cast) : NULL;
    dl_unref(cast);
    return !t || *out;
}

static dl_tensor *copied(dl_gpu *g, dl_tensor *d, const dl_tensor *t) {
    if (d && dl_cuda_copy(g, d, t) == DL_OK) return d;
    dl_unref(d);
    return NULL;
}

dl_tensor *dl_cuda_contiguous(dl_gpu *g, dl_tensor *t) {
    if (dl_is_contiguous(t)) return dl_ref(t);
    return copied(g, dl_tensor_empty(t->ndim, t->shape, (dl_dtype)t->dtype, t->st->device), t);
}

dl_tensor *dl_cuda_strided_like(dl_gpu *g, dl_tensor *t, const dl_tensor *like) {
    bool same = t->dtype == like->dtype;
    for (int i = 0; i < t->ndim; i++) same = same && (t->shape[i] < 2 || t->stride[i] == like->stride[i]);
    if (same) return dl_ref(t);
    dl_tensor *d = dl_tensor_empty(like->ndim, like->shape, (dl_dtype)like->dtype, like->st->device);
    if (d) memcpy(d->stride, like->stride, sizeof d->stride);
    return copied(g, d, t);
}

/* ---- blocks of memory */

typedef struct blocks {
    dl_gpu_block of[DL_GPU_BLOCKS];
} blocks;
enum { UNIT = 16 };

__global__ static void __launch_bounds__(DL_BLOCK) blocks_kernel(const __grid_constant__ blocks b) {
    const dl_gpu_block own = b.of[blockIdx.y];
    const size_t step = (size_t)gridDim.x * DL_BLOCK, first = (size_t)blockIdx.x * DL_BLOCK + threadIdx.x;
    const size_t whole = ((size_t)own.to | (size_t)own.from) % UNIT ? 0 : own.bytes / UNIT;
    for (size_t i = first; i < whole; i += step) ((uint4 *)own.to)[i] = ((const uint4 *)own.from)[i];
    for (size_t i = whole * UNIT + first; i < own.bytes; i += step) ((char *)own.to)[i] = ((const char *)own.from)[i];
}

dl_status dl_cuda_copy_blocks(dl_gpu *g, const dl_gpu_block *of, int n) {
    enum { MOST = 64 };
    for (int from = 0; from < n; from += DL_GPU_BLOCKS) {
        const int some = n - from < DL_GPU_BLOCKS ? n - from : (int)DL_GPU_BLOCKS;
        size_t largest = 1;
        blocks b = {};
        for (int i = 0; i < some; i++) {
            b.of[i] = of[from + i];
            largest = b.of[i].bytes > largest ? b.of[i].bytes : largest;
        }
        const size_t wanted = (largest + UNIT * DL_BLOCK - 1) / (UNIT * DL_BLOCK);
        blocks_kernel<<<dim3((unsigned)(wanted < MOST ? wanted : (size_t)MOST), (unsigned)some), DL_BLOCK, 0,
                        g->stream>>>(b);
        DL_TRY(dl_gpu_launched(g));
    }
    return DL_OK;
}

static dl_status run_clone(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    return g ? dl_cuda_copy(g, c->out[0], c->in[0]) : dl_failed();
}
const dl_kernel dl_cuda_clone = {run_clone, NULL, DL_ALL, NULL, 0};
const dl_kernel dl_cuda_restride = {run_clone, NULL, DL_ALL, NULL, 0};
const dl_kernel dl_cuda_to = {run_clone, NULL, DL_ALL, NULL, 0};

static dl_status run_transfer(dl_call *c) { return dl_run_transfer(c); }
const dl_kernel dl_cuda_transfer = {run_transfer, NULL, DL_ALL, NULL, 0};

/* The output shares the memory of the input; only the region is written. */
static dl_status run_as_strided_set(dl_call *c) {
    const dl_aval *size = ATTR(c, AS_STRIDED_SET_SIZE), *stride = ATTR(c, AS_STRIDED_SET_STRIDE);
    dl_tensor *x = c->out[0], *v = c->in[1];
    DL_USE_GPU(g, c->device);
    dl_it it;
    dl_it_begin(&it, size->n, size->u.v);
    dl_it_operand(&it, (char *)x->st->data + ATTR_I(c, AS_STRIDED_SET_OFFSET) * (long)dl_esize(x), dl_esize(x), size->n,
                  size->u.v, stride->u.v);
    dl_it_tensor(&it, v);
    dl_it_end(&it);
    return run_copy(g, it, x->dtype, v->dtype);
}
const dl_kernel dl_cuda_as_strided_set = {run_as_strided_set, NULL, DL_ALL, NULL, DL_K_NUMBERS};

struct where_f {
    template <class T> __device__ T operator()(bool c, T a, T b) const { return c ? a : b; }
};

static dl_status run_where(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_it it = dl_it_of({c->out[0], c->in[0], c->in[1], c->in[2]});
    return dl_dispatch_size<16>(dl_esize(c->out[0]), [&](auto tag) {
        typedef decltype(tag) T;
        return dl_each<where_f, T, bool, T, T>(g, it, where_f());
    });
}
const dl_kernel dl_cuda_where = {run_where, NULL, DL_ALL, NULL, DL_K_NUMBERS};
