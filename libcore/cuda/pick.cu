/* Kernels of picking by index, and of indices of values: index_select, gather, nonzero, one_hot. */
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>

#include "cuda/index.cuh"

enum { THREADS = 256 };

/* Operands: out, x at index 0 of the dimension, index. */
template <class T> struct pick_f {
    long size, step; /* of x along the dimension; in bytes */
    int wide;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long at = dl_index_at(p[2], wide, size, site);
        *(T *)p[0] = at < 0 ? T() : *(const T *)(p[1] + at * step);
    }
};

template <class T> static dl_status pick(dl_gpu *g, const dl_call *c, const dl_it &it, long size, long step) {
    return dl_places<3>(g, it, pick_f<T>{size, step, c->in[1]->dtype == DL_I64, dl_gpu_site(g, c->op)});
}

static dl_status pick_sized(dl_gpu *g, const dl_call *c, const dl_it &it, size_t unit, long size, long step) {
    if (unit == 16) return pick<uint4>(g, c, it, size, step);
    return dl_dispatch_size(unit, [&](auto tag) { return pick<decltype(tag)>(g, c, it, size, step); });
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
    return pick_sized(g, c, it, unit, size, row);
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
    return pick_sized(g, c, it, dl_esize(x), size, step);
}

static dl_status run_pick(dl_call *c, bool list) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *x = c->in[0], *index = c->in[1];
    int dim = 0;
    if (!g) return dl_error_last()->code;
    dl_dim_norm(c->attr[0].u.i, x->ndim, &dim); /* checked by infer */
    long size = x->ndim ? x->shape[dim] : 1;
    if (!list) return select_elements(g, c, dim, size, index->stride);
    if (dl_is_contiguous(x) && x->numel) return select_rows(g, c, dim, size);
    long stride[DL_MAX_DIM] = {0};
    stride[dim] = index->ndim ? index->stride[0] : 0;
    return select_elements(g, c, dim, size, stride);
}

static dl_status run_index_select(dl_call *c) { return run_pick(c, true); }
static dl_status run_gather(dl_call *c) { return run_pick(c, false); }
const dl_kernel dl_cuda_index_select = {run_index_select, NULL, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_gather = {run_gather, NULL, DL_ANY, NULL, 0};

/* ---- indices of values */

typedef struct sizes {
    int ndim;
    long shape[DL_MAX_DIM];
} sizes;

/* Numbers of elements into their indices. */
__global__ static void __launch_bounds__(THREADS) unravel_kernel(const long *number, long *out, long n, sizes s) {
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    long at = number[i];
    for (int d = s.ndim - 1; d >= 0; d--) {
        out[i * s.ndim + d] = at % s.shape[d];
        at /= s.shape[d];
    }
}

/* The numbers of the n true elements into number[n + 1], whose last takes their count. */
static dl_status select_true(dl_gpu *g, const bool *is, long numel, long *number, long n) {
    size_t bytes = 0;
    thrust::counting_iterator<long> from(0);
    cub::DeviceSelect::Flagged(NULL, bytes, from, is, number, number + n, numel, g->stream);
    void *work = dl_gpu_take(g, bytes);
    if (!work) return dl_error_last()->code;
    cudaError_t e = cub::DeviceSelect::Flagged(work, bytes, from, is, number, number + n, numel, g->stream);
    dl_gpu_drop(g, work);
    return dl_gpu_check(g, e, "the selection");
}

static dl_status run_nonzero(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    const dl_tensor *x = c->in[0];
    dl_tensor *o = c->out[0];
    long n = o->shape[0];
    if (!g) return dl_error_last()->code;
    if (!n || !x->ndim) return DL_OK;
    sizes shape = {x->ndim, {0}};
    memcpy(shape.shape, x->shape, sizeof shape.shape);
    dl_tensor *is = dl_tensor_empty(x->ndim, x->shape, DL_BOOL, c->device);
    long *number = is ? (long *)dl_gpu_take(g, sizeof(long) * (size_t)(n + 1)) : NULL;
    dl_status s = number ? dl_cuda_copy(g, is, x) : dl_error_last()->code;
    if (s == DL_OK) s = select_true(g, (const bool *)dl_ptr(is), (long)x->numel, number, n);
    if (s == DL_OK) {
        unravel_kernel<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, g->stream>>>(number, (long *)dl_ptr(o), n,
                                                                                           shape);
        s = dl_gpu_launched(g);
    }
    dl_gpu_drop(g, number);
    dl_unref(is);
    return s;
}
const dl_kernel dl_cuda_nonzero = {run_nonzero, NULL, DL_ANY, NULL, 0};

/* ---- values of indices */

/* Operands: out, label, class. */
struct hot_f {
    long width;
    int wide;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long label = wide ? *(const long *)p[1] : *(const int *)p[1], k = (long)p[2];
        if (!k && (label < 0 || label >= width)) dl_fault_raise(site, DL_FAULT_LABEL, label, width);
        *(long *)p[0] = label == k;
    }
};

static dl_status run_one_hot(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *x = c->in[0], *o = c->out[0];
    if (!g) return dl_error_last()->code;
    long stride[DL_MAX_DIM] = {0}, number[DL_MAX_DIM] = {0}, width = o->shape[o->ndim - 1];
    memcpy(stride, x->stride, (size_t)x->ndim * sizeof *stride);
    number[o->ndim - 1] = 1;
    dl_it it;
    dl_it_begin(&it, o->ndim, o->shape);
    dl_it_tensor(&it, o);
    dl_it_operand(&it, dl_ptr(x), dl_esize(x), o->ndim, o->shape, stride);
    dl_it_count(&it, o->ndim, o->shape, number);
    dl_it_end(&it);
    return dl_places<3>(g, it, hot_f{width, x->dtype == DL_I64, dl_gpu_site(g, c->op)});
}
const dl_kernel dl_cuda_one_hot = {run_one_hot, NULL, DL_ANY, NULL, 0};
