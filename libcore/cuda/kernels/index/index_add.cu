/* Kernels of index_add and scatter_add, and the gradients of index_select and gather: by lines or sorted by place
 * (scatter.h), or where the order need not be kept with atomics. */
#include "cuda/kernels/index/index.cuh"
#include "cuda/kernels/index/scatter.h"
#include "ops/names/index.h"

/* Parts of a result that one thread adds up; elements that a thread reads at once; bytes of a row from which rows are
 * sorted as a whole; parts of a line below which it is too short for a block of its own. */
enum {
    FEW = 64,
    SEVERAL = 4,
    ROW = 64,
    MOST_COUNTS = 8192,
    MOST_LISTED = 1024,
    MANY = 1 << 16,
    MANY_EACH = 8,
    LINE = 512
};

/* ---- sorted by place, or column by column */

/* Operands: the key, which is written, the index, and the place of index 0. */
template <class K> struct key_f {
    long size, step, none;
    int wide;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long at = dl_index_at(p[1], wide, size, site);
        *(K *)p[0] = (K)(at < 0 ? none : (long)p[2] + at * step);
    }
};

static void dims_of(const dl_call *c, const dl_tensor *t, int *dim, long *size) {
    dl_dim_norm(ATTR_I(c, INDEXED_DIM), t->ndim, dim); /* checked by infer */
    *size = t->ndim ? t->shape[*dim] : 1;
}

/* Keys in `it`'s first operand, of which there are n, and the sums by them. */
template <class K>
static dl_status add_keyed(dl_gpu *g, dl_it it, const dl_scatter *a, const key_f<long> &f, void *key) {
    dl_status s = dl_places<3>(g, it, key_f<K>{f.size, f.step, f.none, f.wide, f.site});
    return s == DL_OK ? dl_cuda_scatter_sorted(g, a, key) : s;
}

/* index_add: keys are indices. scatter_add: keys are places in the result. */
static dl_status add_sorted(dl_gpu *g, dl_call *c, const dl_tensor *v, bool list) {
    dl_tensor *o = c->out[0], *index = c->in[1];
    int dim = 0;
    long size = 0, n = list ? index->numel : v->numel, count[DL_MAX_DIM], base[DL_MAX_DIM] = {0};
    dims_of(c, o, &dim, &size);
    dl_scatter a = {dl_ptr(o), dl_ptr(v), o->dtype, 1, (long)o->numel, n, 1, true};
    if (list) a.size = size;
    for (int d = 0; d < o->ndim && list; d++)
        if (d != dim) *(d < dim ? &a.outer : &a.inner) *= o->shape[d];
    for (int d = 0; d < o->ndim && !list; d++) base[d] = d == dim ? 0 : o->stride[d];
    bool narrow = dl_scatter_narrow(&a);
    size_t width = narrow ? sizeof(unsigned) : sizeof(uint64_t);
    void *key = dl_gpu_take(g, width * (size_t)n);
    if (!key) return dl_failed();
    dl_strides_contiguous(index->ndim, index->shape, count);
    dl_it it;
    dl_it_begin(&it, index->ndim, index->shape);
    dl_it_operand(&it, key, width, index->ndim, index->shape, count);
    dl_it_tensor(&it, index);
    dl_it_count(&it, index->ndim, index->shape, base);
    dl_it_end(&it);
    key_f<long> f = {size, list || !o->ndim ? 1 : o->stride[dim], a.size, index->dtype == DL_I64,
                     dl_gpu_site(g, c->op)};
    dl_status s = narrow ? add_keyed<unsigned>(g, it, &a, f, key) : add_keyed<uint64_t>(g, it, &a, f, key);
    dl_gpu_drop(g, key);
    return s;
}

/* Where an element of the result can get few parts: a thread takes all indices of a column, in order. Operands: the
 * result, index and source at the first of them. */
template <class T> struct column_f {
    long n, size, o_step, i_step, v_step; /* of the dimension, in bytes */
    int wide;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        for (long i = 0; i < n; i++) {
            long at = dl_index_at(p[1] + i * i_step, wide, size, site);
            if (at < 0) continue;
            T *to = (T *)(p[0] + at * o_step);
            *to = dl_accumulator<T>::down(dl_accumulator<T>::up(*to) +
                                          dl_accumulator<T>::up(*(const T *)(p[2] + i * v_step)));
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
    dl_tensor *o = c->out[0], *index = c->in[1], *v = INPUT(c, INDEX_ADD_SOURCE);
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

/* ---- with atomics, in any order */

__device__ inline void add_to(float *p, float v) { atomicAdd(p, v); }
__device__ inline void add_to(double *p, double v) { atomicAdd(p, v); }
__device__ inline void add_to(int *p, int v) { atomicAdd(p, v); }
__device__ inline void add_to(long *p, long v) { atomicAdd((unsigned long long *)p, (unsigned long long)v); }

/* Operands: source, index, the result at index 0. A thread has several elements and starts
 * all reads before it uses the first. */
template <class T>
__global__ void __launch_bounds__(DL_BLOCK)
    atomic_kernel(const __grid_constant__ dl_walk<3> w, long size, long step, int wide, dl_fault_site site) {
    uint32_t i = blockIdx.x * (DL_BLOCK * SEVERAL) + threadIdx.x;
    int32_t off[SEVERAL][3];
    long at[SEVERAL];
    T v[SEVERAL];
#pragma unroll
    for (int k = 0; k < SEVERAL; k++) {
        if (i + k * DL_BLOCK >= w.n) continue;
        w.at(i + k * DL_BLOCK, off[k]);
        const char *p = w.ptr[1] + off[k][1];
        at[k] = wide ? *(const long *)p : *(const int *)p;
        v[k] = *(const T *)(w.ptr[0] + off[k][0]);
    }
#pragma unroll
    for (int k = 0; k < SEVERAL; k++) {
        if (i + k * DL_BLOCK >= w.n) continue;
        long to = at[k] < 0 ? at[k] + size : at[k];
        if (to >= 0 && to < size)
            add_to((calc_t<T> *)(w.ptr[2] + off[k][2] + to * step), dl_up(v[k]));
        else
            dl_fault_raise(site, DL_FAULT_INDEX, at[k], size);
    }
}

template <class T>
static dl_status atomically(dl_gpu *g, const dl_it &all, long size, long step, int wide, const dl_fault_site &site) {
    return dl_it_parts(all, [&](const dl_it &it) {
        dl_walk<3> w = dl_walk_of<3>(&it);
        atomic_kernel<T><<<dl_blocks(w.n, DL_BLOCK * SEVERAL), DL_BLOCK, 0, g->stream>>>(w, size, step, wide, site);
        return dl_gpu_launched(g);
    });
}

/* o: the result, in the dtype that its elements are computed in. */
static dl_status add_atomically(dl_gpu *g, dl_call *c, const dl_tensor *o, bool list) {
    dl_tensor *index = c->in[1], *v = INPUT(c, INDEX_ADD_SOURCE);
    int dim = 0;
    long size = 0, listed[DL_MAX_DIM] = {0};
    dims_of(c, o, &dim, &size);
    if (v->ndim && index->ndim) listed[dim] = index->stride[0];
    dl_it it;
    dl_it_begin(&it, v->ndim, v->shape);
    dl_it_tensor(&it, v);
    dl_it_operand(&it, dl_ptr(index), dl_esize(index), v->ndim, v->shape, list ? listed : index->stride);
    without(&it, o, dim, v->ndim, v->shape);
    dl_it_end(&it);
    long step = o->ndim ? o->stride[dim] * (long)dl_esize(o) : 0;
    return dl_dispatch<DL_FLOATS | DL_BIT(DL_I32) | DL_BIT(DL_I64)>(v->dtype, [&](auto tag) {
        return atomically<decltype(tag)>(g, it, size, step, index->dtype == DL_I64, dl_gpu_site(g, c->op));
    });
}

/* 16-bit floats are rounded once, whatever the number of parts. */
static dl_status add_in_f32(dl_gpu *g, dl_call *c, bool list) {
    dl_tensor *o = c->out[0], *sum = dl_tensor_empty(o->ndim, o->shape, DL_F32, c->device);
    dl_status s = sum ? dl_cuda_copy(g, sum, o) : dl_failed();
    if (s == DL_OK) s = add_atomically(g, c, sum, list);
    if (s == DL_OK) s = dl_cuda_copy(g, o, sum);
    dl_unref(sum);
    return s;
}

/* ---- one number many times, at the places of a list: how often is counted in shared memory */

template <class T>
__global__ void __launch_bounds__(DL_BLOCK)
    count_kernel(T *o, const T *number, const char *index, long n, long size, int wide, dl_fault_site site) {
    extern __shared__ unsigned counts[];
    for (long k = threadIdx.x; k < size; k += DL_BLOCK) counts[k] = 0;
    __syncthreads();
    const long step = (long)gridDim.x * DL_BLOCK, bytes = wide ? 8 : 4;
#pragma unroll 4
    for (long i = (long)blockIdx.x * DL_BLOCK + threadIdx.x; i < n; i += step) {
        long at = dl_index_at(index + i * bytes, wide, size, site);
        if (at >= 0) atomicAdd(&counts[at], 1u);
    }
    __syncthreads();
    for (long k = threadIdx.x; k < size; k += DL_BLOCK)
        if (counts[k]) add_to(o + k, (T)(*number * (T)counts[k]));
}

/* False: another way is taken. Whole numbers, whose sum is the same in any order. */
static bool counted(dl_gpu *g, dl_call *c, dl_status *s) {
    dl_tensor *o = c->out[0], *index = c->in[1], *v = INPUT(c, INDEX_ADD_SOURCE);
    const long n = v->numel, size = o->numel, blocks = 8 * g->sms, wanted = dl_blocks(n, 4 * DL_BLOCK);
    const bool whole = o->dtype == DL_I32 || o->dtype == DL_I64;
    if (!whole || o->ndim != 1 || size > MOST_COUNTS || n < size || !dl_cuda_repeated(v) || !dl_is_contiguous(index))
        return false;
    *s = dl_dispatch<DL_BIT(DL_I32) | DL_BIT(DL_I64)>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        count_kernel<T>
            <<<(unsigned)(wanted < blocks ? wanted : blocks), DL_BLOCK, sizeof(unsigned) * (size_t)size, g->stream>>>(
                dl_data<T>(o), dl_data<T>(v), (const char *)dl_ptr(index), n, size, index->dtype == DL_I64,
                dl_gpu_site(g, c->op));
        return dl_gpu_launched(g);
    });
    return true;
}

/* ---- by a short list, the other way round: an element of the result adds up the parts that go to it, in order */

struct short_list {
    const char *index;
    int n, size, wide;
    uint32_t all;
    dl_divisor inner, places; /* divide by what lies within a place; by the number of places */
    dl_fault_site site;
};

template <class T> __global__ void __launch_bounds__(DL_BLOCK) listed_kernel(T *o, const T *v, short_list l) {
    typedef typename dl_accumulator<T>::A A;
    __shared__ unsigned short place[MOST_LISTED], part[MOST_LISTED];
    __shared__ int begin[MOST_LISTED + 1];
    for (int i = threadIdx.x; i < l.n; i += DL_BLOCK)
        place[i] = (unsigned short)dl_index_at(l.index + i * (l.wide ? 8 : 4), l.wide, l.size, l.site);
    __syncthreads();
    for (int k = threadIdx.x; k < l.size; k += DL_BLOCK) {
        int count = 0;
        for (int i = 0; i < l.n; i++) count += place[i] == k;
        begin[k + 1] = count;
    }
    __syncthreads();
    if (!threadIdx.x) {
        begin[0] = 0;
        for (int k = 0; k < l.size; k++) begin[k + 1] += begin[k];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < l.size; k += DL_BLOCK)
        for (int i = 0, to = begin[k]; to < begin[k + 1]; i++)
            if (place[i] == k) part[to++] = (unsigned short)i;
    __syncthreads();
    const uint32_t step = gridDim.x * DL_BLOCK;
    for (uint32_t e = blockIdx.x * DL_BLOCK + threadIdx.x; e < l.all; e += step) {
        const uint32_t at = l.inner.quotient(e), in = e - at * l.inner.d, line = l.places.quotient(at);
        const uint32_t k = at - line * l.places.d;
        if (begin[k] == begin[k + 1]) continue;
        A sum = dl_accumulator<T>::up(o[e]);
        for (int i = begin[k]; i < begin[k + 1]; i++)
            sum += dl_accumulator<T>::up(v[((long)line * l.n + part[i]) * l.inner.d + in]);
        o[e] = dl_accumulator<T>::down(sum);
    }
}

static bool is_short_list(const dl_call *c, bool list) {
    const dl_tensor *o = c->out[0], *index = c->in[1], *v = INPUT(c, INDEX_ADD_SOURCE);
    int dim = 0;
    long size = 0;
    dims_of(c, o, &dim, &size);
    return list && o->ndim && size <= MOST_LISTED && index->numel <= MOST_LISTED && v->numel >= MANY &&
           v->numel <= MANY_EACH * o->numel && o->numel < 1L << 31 && dl_is_contiguous(v) && dl_is_contiguous(index);
}

/* False: another way is taken. */
static bool by_short_list(dl_gpu *g, dl_call *c, bool list, dl_status *s) {
    dl_tensor *o = c->out[0], *index = c->in[1], *v = INPUT(c, INDEX_ADD_SOURCE);
    int dim = 0;
    long size = 0, inner = 1;
    dims_of(c, o, &dim, &size);
    if (!is_short_list(c, list)) return false;
    for (int d = dim + 1; d < o->ndim; d++) inner *= o->shape[d];
    short_list l = {(const char *)dl_ptr(index), (int)index->numel,    (int)size,
                    index->dtype == DL_I64,      (uint32_t)o->numel,   dl_divisor((uint32_t)inner),
                    dl_divisor((uint32_t)size),  dl_gpu_site(g, c->op)};
    const long wanted = dl_blocks(o->numel, 4 * DL_BLOCK), most = 16 * (long)g->sms;
    const unsigned blocks = (unsigned)(wanted < most ? wanted : most);
    *s = dl_dispatch<DL_ANY>(o->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        listed_kernel<T><<<blocks, DL_BLOCK, 0, g->stream>>>(dl_data<T>(o), dl_data<T>(v), l);
        return dl_gpu_launched(g);
    });
    return true;
}

/* ---- the choice */

/* Can an element of the result get only few parts? */
static bool few(const dl_tensor *v, long n) { return n == 1 || (n <= FEW && !(DL_BIT(v->dtype) & DL_HALVES)); }

/* Does the call go by lines? Parts and result must be of one shape but for the dimension. */
static bool lines_of(dl_gpu *g, const dl_call *c, bool list, dl_lines *l) {
    const dl_tensor *o = c->out[0], *start = c->in[0], *index = c->in[1], *v = INPUT(c, INDEX_ADD_SOURCE);
    int dim = 0;
    *l = {};
    l->o = dl_ptr(o), l->start = start ? dl_ptr(start) : NULL, l->v = dl_ptr(v), l->index = dl_ptr(index);
    l->dtype = o->dtype, l->list = list, l->wide = index->dtype == DL_I64, l->same = dl_cuda_repeated(v);
    l->outer = l->inner = 1, l->site = dl_gpu_site(g, c->op);
    dims_of(c, o, &dim, &l->size);
    l->n = v->ndim ? v->shape[dim] : 1;
    bool good = v->ndim > 0 && v->numel && !few(v, l->n) && dl_is_contiguous(index);
    for (int d = 0; d < o->ndim && good; d++) {
        if (d == dim) continue;
        *(d < dim ? &l->outer : &l->inner) *= o->shape[d];
        good = v->shape[d] == o->shape[d];
    }
    bool row = list && l->inner * (long)dl_esize(v) >= ROW;             /* whole rows are sorted quickly */
    bool thin = l->inner == 1 && l->n < LINE && is_short_list(c, list); /* a line would leave a block idle */
    return good && !row && !thin && (!start || dl_is_contiguous(start)) && dl_lines_take(g, l);
}

/* False: the call does not go by lines. */
static bool add_lines(dl_gpu *g, const dl_call *c, bool list, dl_status *s) {
    dl_lines l;
    if (!lines_of(g, c, list, &l)) return false;
    dl_tensor *v = l.same ? dl_ref(INPUT(c, INDEX_ADD_SOURCE)) : dl_cuda_contiguous(g, INPUT(c, INDEX_ADD_SOURCE));
    if (v) l.v = dl_ptr(v);
    *s = v ? dl_cuda_lines(g, &l) : dl_failed();
    dl_unref(v);
    return true;
}

/* The parts at their indices to out[0], which is contiguous. Sums of integers are the same in any order. */
static dl_status add_parts(dl_gpu *g, dl_call *c, bool list) {
    dl_tensor *v = INPUT(c, INDEX_ADD_SOURCE);
    if (!v->numel) return DL_OK;
    int dim = 0;
    long size = 0;
    dims_of(c, v, &dim, &size);
    bool half = DL_BIT(v->dtype) & DL_HALVES, whole = v->dtype == DL_I32 || v->dtype == DL_I64;
    dl_status s;
    if (by_short_list(g, c, list, &s)) return s;
    if (few(v, size)) return add_columns(g, c, list);
    if (counted(g, c, &s)) return s;
    if (whole || !dl_deterministic()) {
        bool bytes = v->dtype == DL_U8 || v->dtype == DL_BOOL;
        if (!bytes) return half ? add_in_f32(g, c, list) : add_atomically(g, c, c->out[0], list);
    }
    dl_tensor *flat = dl_cuda_contiguous(g, v);
    s = flat ? add_sorted(g, c, flat, list) : dl_failed();
    dl_unref(flat);
    return s;
}

static dl_status run_indexed_add(dl_call *c, bool list) {
    DL_USE_GPU(g, c->device);
    dl_status s;
    if (add_lines(g, c, list, &s)) return s;
    s = dl_cuda_copy(g, c->out[0], c->in[0]);
    return s == DL_OK ? add_parts(g, c, list) : s;
}

static dl_status run_index_add(dl_call *c) { return run_indexed_add(c, true); }
static dl_status run_scatter_add(dl_call *c) { return run_indexed_add(c, false); }
const dl_kernel dl_cuda_index_add = {run_index_add, NULL, DL_ANY, NULL, 0};
const dl_kernel dl_cuda_scatter_add = {run_scatter_add, NULL, DL_ANY, NULL, 0};

/* The gradient of index_select and gather: the incoming one, added up in a tensor of zeros. */
static dl_status grad_indexed(dl_back *b, bool list) {
    const dl_meta *x = META(INDEXED_INPUT);
    dl_tensor *index = IN_(INDEXED_INDEX), *in[3] = {NULL, index, b->g[0]};
    dl_gpu *g = index ? dl_gpu_use(index->st->device) : NULL;
    dl_tensor *dx =
        g ? dl_tmp(b, dl_tensor_empty(x->ndim, x->shape, (dl_dtype)b->g[0]->dtype, index->st->device)) : NULL;
    if (!dx) return dl_fail_null("the index");
    dl_call c = {};
    c.op = b->op, c.in = in, c.nin = 3, c.out = &dx, c.attr = b->attr, c.dtype = (dl_dtype)dx->dtype;
    c.device = dx->st->device;
    dl_status s;
    if (!add_lines(g, &c, list, &s)) {
        s = dl_cuda_clear(g, dx);
        if (s == DL_OK) s = add_parts(g, &c, list);
    }
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}
dl_status dl_cuda_grad_index_select(dl_back *b) { return grad_indexed(b, true); }
dl_status dl_cuda_grad_gather(dl_back *b) { return grad_indexed(b, false); }
