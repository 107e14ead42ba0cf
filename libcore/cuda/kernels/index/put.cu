/* Kernels that write or join elements at indices along a dimension. An element of the result whose index is one of a
 * list of lines looks for what it gets. Where other lines of the result fit into shared memory, a block has one or some
 * side by side there; else places are found in the memory of the device. Which of several elements comes last, and
 * which is best, is the same in any order. Also the places of several indices. */
#include "cuda/kernels/index/index.cuh"
#include "ops/names/index.h"

enum { THREADS = 256, WIDE = 32, AHEAD = 4, MOST_BYTES = 200 << 10, FULL_BYTES = 64 << 10, FEW = 4 };

/* ---- numbers whose order is that of the elements of T; NaN comes last, as the largest and as the least */

template <class T> using ordered_t = std::conditional_t<(sizeof(T) > 4), unsigned long long, unsigned>;

template <class T> __device__ inline ordered_t<T> key_of(T x, bool largest) {
    typedef ordered_t<T> K;
    typedef calc_t<T> C;
    constexpr K top = K(1) << (8 * sizeof(K) - 1);
    K key;
    if constexpr (std::is_floating_point<C>::value) {
        C v = dl_up(x);
        if (v != v) return ~K(0);
        memcpy(&key, &v, sizeof key);
        key = key & top ? ~key : key | top;
    } else if constexpr (sizeof(T) < 4) {
        key = (K)x;
    } else {
        key = (K)x ^ top;
    }
    return largest ? key : ~key;
}

template <class T> __device__ inline T of_key(ordered_t<T> key, bool largest) {
    typedef ordered_t<T> K;
    typedef calc_t<T> C;
    constexpr K top = K(1) << (8 * sizeof(K) - 1);
    if (!largest) key = ~key;
    if constexpr (std::is_floating_point<C>::value) {
        C v;
        key = key & top ? key & ~top : ~key;
        memcpy(&v, &key, sizeof v);
        return dl_down<T>(v);
    } else if constexpr (sizeof(T) < 4) {
        return (T)key;
    } else {
        return (T)(key ^ top);
    }
}

/* What a line has for each place: the number of the last element of the source, or the key of the best element. */
template <class T> struct last_of {
    typedef int K;
    static __device__ K start(T) { return -1; }
    __device__ K of(const T *, long, int i) const { return i; }
    __device__ T result(K k, T was, const T *v, long step) const { return k < 0 ? was : v[k * step]; }
};
template <class T> struct best_of {
    typedef ordered_t<T> K;
    bool largest;
    __device__ K start(T x) const { return key_of(x, largest); }
    __device__ K of(const T *v, long step, int i) const { return key_of(v[i * step], largest); }
    __device__ T result(K k, T, const T *, long) const { return of_key<T>(k, largest); }
};

/* ---- lines in shared memory */

/* x and o: [outer, size, inner], x or one element if `level` is set; v: [outer, n, inner], or one element if `same` is
 * set; index: [outer, n, inner].
 * Blocks have 1 << fold columns each. */
template <class T> struct lines {
    T *o;
    const T *x, *v;
    const char *index;
    long outer, size, n, inner, groups;
    int fold, wide;
    bool same, level; /* level: x is one number */
    dl_fault_site site;
    __device__ const T *source(long at) const { return v + (same ? 0 : at); }
    __device__ T before(long at) const { return x[level ? 0 : at]; }
};

template <class T, class F> __global__ void __launch_bounds__(THREADS) lines_kernel(lines<T> l, F f) {
    typedef typename F::K K;
    extern __shared__ unsigned long long memory[];
    K *best = (K *)memory;
    long a = blockIdx.x / l.groups, col = blockIdx.x % l.groups << l.fold;
    int cols = 1 << l.fold, width = (int)(l.inner - col < cols ? l.inner - col : cols);
    const long from = a * l.n * l.inner + col, to = a * l.size * l.inner + col, step = l.same ? 0 : l.inner;
    const unsigned all = (unsigned)(l.size << l.fold), parts = (unsigned)(l.n << l.fold);
#pragma unroll 4
    for (unsigned k = threadIdx.x; k < all; k += THREADS) {
        int b = (int)(k & (cols - 1));
        if (b < width) best[k] = f.start(l.before(to + (long)(k >> l.fold) * l.inner + b));
    }
    __syncthreads();
    for (unsigned k = threadIdx.x; k < parts; k += THREADS * AHEAD) {
        long at[AHEAD];
        K key[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            unsigned e = k + j * THREADS;
            int b = (int)(e & (cols - 1)), i = (int)(e >> l.fold);
            at[j] = -1;
            if (e >= parts || b >= width) continue;
            const char *p = l.index + (from + (long)i * l.inner + b) * (l.wide ? 8 : 4);
            key[j] = f.of(l.source(from + b), step, i);
            at[j] = dl_index_at(p, l.wide, l.size, l.site);
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (at[j] >= 0) {
                K *p = best + (at[j] << l.fold) + ((k + j * THREADS) & (cols - 1));
                if (*(volatile K *)p < key[j]) atomicMax(p, key[j]);
            }
    }
    __syncthreads();
#pragma unroll 4
    for (unsigned k = threadIdx.x; k < all; k += THREADS) {
        int b = (int)(k & (cols - 1));
        if (b >= width) continue;
        long place = to + (long)(k >> l.fold) * l.inner + b;
        l.o[place] = f.result(best[k], l.before(place), l.source(from + b), step);
    }
}

static void dims_of(const dl_call *c, int *dim, long *size) {
    const dl_tensor *o = c->out[0];
    dl_dim_norm(ATTR_I(c, INDEXED_DIM), o->ndim, dim); /* checked by infer */
    *size = o->ndim ? o->shape[*dim] : 1;
}

/* Columns of a block: as many as whole sectors take, as far as shared memory goes. */
static long columns(long size, long inner, size_t esize, size_t key) {
    long cols = 1, line = size * (long)key, least = 32 / (long)esize;
    while (cols < inner && cols < WIDE && 2 * cols * line <= (cols < least ? (long)MOST_BYTES : (long)FULL_BYTES))
        cols *= 2;
    return cols;
}

/* False: the call does not go by lines, which lie in the result and in the source alike. */
template <class T, class F> static bool by_lines(dl_gpu *g, const dl_call *c, F f, dl_status *s) {
    const dl_tensor *o = c->out[0], *x = c->in[0], *index = c->in[1];
    dl_tensor *v = INPUT(c, PUT_LAST_SRC);
    int dim;
    lines<T> l = {};
    dims_of(c, &dim, &l.size);
    l.o = dl_data<T>(o), l.x = dl_data<T>(x), l.v = dl_data<T>(v), l.index = (const char *)dl_ptr(index);
    l.n = v->ndim ? v->shape[dim] : 1, l.outer = l.inner = 1, l.wide = index->dtype == DL_I64;
    l.same = dl_cuda_repeated(v), l.site = dl_gpu_site(g, c->op);
    l.level = dl_cuda_repeated(x);
    bool good = o->ndim && l.size && l.n && (l.level || dl_is_contiguous(x)) && dl_is_contiguous(index);
    for (int d = 0; d < o->ndim && good; d++) {
        if (d == dim) continue;
        *(d < dim ? &l.outer : &l.inner) *= o->shape[d];
        good = o->shape[d] == v->shape[d];
    }
    const size_t key = sizeof(typename F::K);
    if (!good || l.size * (long)key > MOST_BYTES || l.n > (1L << 31) / WIDE) return false;
    const long cols = columns(l.size, l.inner, sizeof(T), key);
    while (1L << l.fold < cols) l.fold++;
    l.groups = (l.inner + cols - 1) / cols;
    if (l.outer * l.groups < g->sms || l.outer * l.groups >= 1L << 31) return false;
    auto kernel = lines_kernel<T, F>;
    *s = dl_gpu_check(g, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_BYTES),
                      "asking for shared memory");
    if (*s != DL_OK) return true;
    dl_tensor *from = l.same ? dl_ref(v) : dl_cuda_contiguous(g, v); /* a copy costs less than places in memory */
    if (!from) return *s = dl_failed(), true;
    l.v = dl_data<T>(from);
    kernel<<<(unsigned)(l.outer * l.groups), THREADS, key *(size_t)(l.size << l.fold), g->stream>>>(l, f);
    *s = dl_gpu_launched(g);
    dl_unref(from);
    return true;
}

/* ---- in the memory of the device */

/* What the functions for single elements share: the place of an element is its base and index * step. */
struct at_place {
    long size, step;
    int wide;
    dl_fault_site site;
    /* -1: out of range */
    __device__ long of(const char *index, const char *base) const {
        long at = dl_index_at(index, wide, size, site);
        return at < 0 ? -1 : (long)base + at * step;
    }
};

/* Operands: index, base, number along the dimension. First any element of those for a place leaves its number, then the
 * larger ones; what no element goes to is neither written nor read. */
template <class P> struct mark_f {
    at_place a;
    P *last;
    __device__ void operator()(char *const *p) const {
        long at = a.of(p[0], p[1]);
        if (at >= 0) last[at] = (P)(long)p[2];
    }
};
template <class P> struct settle_f {
    at_place a;
    P *last;
    __device__ void operator()(char *const *p) const {
        long at = a.of(p[0], p[1]);
        P own = (P)(long)p[2];
        if (at >= 0 && *(volatile P *)(last + at) < own) atomicMax(last + at, own);
    }
};
/* And: element, base of its place in bytes of the result. */
template <class T, class P> struct write_f {
    at_place a;
    const P *last; /* NULL: any may be written */
    char *o;
    long step;
    __device__ void operator()(char *const *p) const {
        long at = dl_index_at(p[0], a.wide, a.size, a.site);
        if (at >= 0 && (!last || last[(long)p[1] + at * a.step] == (P)(long)p[2]))
            *(T *)(o + (long)p[4] + at * step) = *(const T *)p[3];
    }
};

/* An index that repeats along all other dimensions marks places of a list. */
static bool is_list(const dl_tensor *index, int dim) {
    for (int d = 0; d < index->ndim; d++)
        if (d != dim && index->shape[d] > 1 && index->stride[d]) return false;
    return true;
}

/* An iteration over the source, or over the list, with index, base and number. */
static void begin(dl_it *it, const dl_call *c, int dim, bool list) {
    const dl_tensor *o = c->out[0], *index = c->in[1], *v = INPUT(c, PUT_LAST_SRC);
    long base[DL_MAX_DIM] = {0}, number[DL_MAX_DIM] = {0};
    for (int d = 0; d < o->ndim; d++) base[d] = d == dim || list ? 0 : o->stride[d], number[d] = d == dim;
    dl_it_operand(it, dl_ptr(index), dl_esize(index), v->ndim, v->shape, index->stride);
    dl_it_count(it, v->ndim, v->shape, base);
    dl_it_count(it, v->ndim, v->shape, number);
}

template <class P> static dl_status put_last(dl_gpu *g, dl_call *c) {
    dl_tensor *o = c->out[0], *index = c->in[1], *v = INPUT(c, PUT_LAST_SRC);
    int dim;
    at_place a = {0, 1, index->dtype == DL_I64, dl_gpu_site(g, c->op)};
    dims_of(c, &dim, &a.size);
    const bool list = is_list(index, dim), same = dl_cuda_repeated(v);
    const long stride = o->ndim ? o->stride[dim] : 0;
    long shape[DL_MAX_DIM], base[DL_MAX_DIM];
    if (!list) a.step = stride;
    P *last = same ? NULL : (P *)dl_gpu_take(g, sizeof(P) * (size_t)(list ? a.size : o->numel));
    if (!same && !last) return dl_failed();
    dl_status s = DL_OK;
    dl_it it;
    for (int d = 0; d < v->ndim; d++) {
        shape[d] = list && d != dim ? 1 : v->shape[d];
        base[d] = d == dim ? 0 : o->stride[d] * (long)dl_esize(o);
    }
    if (last) {
        dl_it_begin(&it, v->ndim, shape);
        begin(&it, c, dim, list);
        dl_it_end(&it);
        s = dl_places<3>(g, it, mark_f<P>{a, last});
        if (s == DL_OK) s = dl_places<3>(g, it, settle_f<P>{a, last});
    }
    dl_it_begin(&it, v->ndim, v->shape);
    begin(&it, c, dim, list);
    dl_it_tensor(&it, v);
    dl_it_count(&it, v->ndim, v->shape, base);
    dl_it_end(&it);
    if (s == DL_OK)
        s = dl_dispatch_size(dl_esize(o), [&](auto tag) {
            typedef decltype(tag) T;
            return dl_places<5>(g, it, write_f<T, P>{a, last, (char *)dl_ptr(o), stride * (long)sizeof(T)});
        });
    dl_gpu_drop(g, last);
    return s;
}

/* ---- by a list, the other way round: an element of the result looks for what its place gets */

/* x and o: [outer, size, inner]; v: [outer, n, inner], or one element if `same` is set; all in packs. head: of each
 * place the last element of the list that names it, or the first of a chain through `next`; -1: none. */
struct place_list {
    const char *index;
    long step; /* in bytes */
    int size, n, wide, *head, *next;
    uint32_t all;
    dl_divisor inner, places;
    bool same, largest;
    dl_fault_site site;
};

template <bool CHAINS> __global__ void __launch_bounds__(THREADS) name_kernel(const __grid_constant__ place_list l) {
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i >= l.n) return;
    const long at = dl_index_at(l.index + i * l.step, l.wide, l.size, l.site);
    if (at < 0) return;
    if constexpr (CHAINS)
        l.next[i] = atomicExch(l.head + at, i);
    else
        atomicMax(l.head + at, i);
}

template <class T, int V> __device__ inline dl_vector<T, V> part_of(const place_list &l, const T *v, long at) {
    if (!l.same) return ((const dl_vector<T, V> *)v)[at];
    dl_vector<T, V> all;
#pragma unroll
    for (int e = 0; e < V; e++) all.v[e] = *v;
    return all;
}

/* BEST: the largest or least of all that a place gets and of what it had; else the last. */
template <class T, int V, bool BEST>
__global__ void __launch_bounds__(THREADS)
    places_kernel(const __grid_constant__ place_list l, const T *x, const T *v, T *o) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= l.all) return;
    const uint32_t line = l.inner.quotient(i), outer = l.places.quotient(line);
    const int head = l.head[line - outer * l.places.d];
    const long from = (long)outer * l.n, in = i - line * l.inner.d;
    dl_vector<T, V> pack;
    if (head < 0 || BEST) pack = ((const dl_vector<T, V> *)x)[i];
    if constexpr (BEST) {
        ordered_t<T> best[V];
#pragma unroll
        for (int e = 0; e < V; e++) best[e] = key_of(pack.v[e], l.largest);
        for (int k = head; k >= 0; k = l.next[k]) {
            const dl_vector<T, V> part = part_of<T, V>(l, v, (from + k) * l.inner.d + in);
#pragma unroll
            for (int e = 0; e < V; e++) {
                const ordered_t<T> own = key_of(part.v[e], l.largest);
                if (own > best[e]) best[e] = own;
            }
        }
#pragma unroll
        for (int e = 0; e < V; e++)
            if (head >= 0) pack.v[e] = of_key<T>(best[e], l.largest);
    } else if (head >= 0) {
        pack = part_of<T, V>(l, v, (from + head) * l.inner.d + in);
    }
    ((dl_vector<T, V> *)o)[i] = pack;
}

/* False: the call does not go by a list of lines, which lie in the result and in the source alike. */
template <class T, bool BEST> static bool by_list(dl_gpu *g, const dl_call *c, bool largest, dl_status *s) {
    enum { V = sizeof(T) < 16 ? 16 / sizeof(T) : 1, LINE = 8 };
    const dl_tensor *o = c->out[0], *x = c->in[0], *index = c->in[1], *v = INPUT(c, PUT_LAST_SRC);
    const bool same = dl_cuda_repeated(v);
    int dim;
    long size, inner = 1;
    dims_of(c, &dim, &size);
    bool good = o->ndim && v->numel && is_list(index, dim) && o->numel >= LINE * size && o->numel < 1L << 31;
    good = good && dl_is_contiguous(x) && dl_is_contiguous(o) && (same || dl_is_contiguous(v));
    for (int d = 0; d < o->ndim && good; d++) {
        good = d == dim || o->shape[d] == v->shape[d];
        if (d > dim) inner *= o->shape[d];
    }
    if (!good || v->shape[dim] > 0x7fffffff) return false;
    const size_t all = (size_t)dl_ptr(o) | (size_t)dl_ptr(x) | (same ? 0 : (size_t)dl_ptr(v));
    const bool packs = inner % V == 0 && all % 16 == 0;
    const long n = v->shape[dim], each = packs ? V : 1;
    int *head = (int *)dl_gpu_take(g, sizeof(int) * (size_t)(size + n));
    if (!head) return *s = dl_failed(), true;
    const place_list l = {(const char *)dl_ptr(index),
                          index->stride[dim] * (long)dl_esize(index),
                          (int)size,
                          (int)n,
                          index->dtype == DL_I64,
                          head,
                          head + size,
                          (uint32_t)(o->numel / each),
                          dl_divisor((uint32_t)(inner / each)),
                          dl_divisor((uint32_t)size),
                          same,
                          largest,
                          dl_gpu_site(g, c->op)};
    *s = dl_gpu_check(g, cudaMemsetAsync(head, 0xff, sizeof(int) * (size_t)size, g->stream), "clearing a list");
    if (*s == DL_OK) {
        name_kernel<BEST><<<dl_blocks(n, THREADS), THREADS, 0, g->stream>>>(l);
        auto kernel = packs ? places_kernel<T, V, BEST> : places_kernel<T, 1, BEST>;
        kernel<<<dl_blocks(l.all, THREADS), THREADS, 0, g->stream>>>(l, dl_data<T>(x), dl_data<T>(v), dl_data<T>(o));
        *s = dl_gpu_launched(g);
    }
    dl_gpu_drop(g, head);
    return true;
}

static dl_status run_put_last(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0], *v = INPUT(c, PUT_LAST_SRC);
    int dim;
    long size;
    dl_status s;
    if (v->numel) {
        const bool many = !dl_cuda_repeated(v) || FEW * v->numel >= o->numel;
        bool done = false;
        DL_TRY(dl_dispatch_size(dl_esize(o), [&](auto tag) {
            typedef decltype(tag) T;
            s = DL_OK;
            done = by_list<T, false>(g, c, false, &s) || (many && by_lines<T>(g, c, last_of<T>{}, &s));
            return s;
        }));
        if (done) return DL_OK;
    }
    DL_TRY(dl_cuda_copy(g, o, c->in[0]));
    if (!v->numel) return DL_OK;
    dims_of(c, &dim, &size);
    return v->ndim && v->shape[dim] > 0x7fffffff ? put_last<long long>(g, c) : put_last<int>(g, c);
}
const dl_kernel dl_cuda_put_last = {run_put_last, NULL, DL_ANY, NULL, 0};

/* ---- the best */

template <class T> struct encode_f {
    bool largest;
    ordered_t<T> *key;
    __device__ void operator()(char *const *p) const { key[(long)p[1]] = key_of(*(const T *)p[0], largest); }
};
template <class T> struct decode_f {
    bool largest;
    const ordered_t<T> *key;
    __device__ void operator()(char *const *p) const { *(T *)p[0] = of_key<T>(key[(long)p[1]], largest); }
};
/* Operands: index, base, number, element. */
template <class T> struct best_f {
    at_place a;
    bool largest;
    ordered_t<T> *key;
    __device__ void operator()(char *const *p) const {
        long at = a.of(p[0], p[1]);
        ordered_t<T> own = key_of(*(const T *)p[3], largest);
        if (at >= 0 && *(volatile ordered_t<T> *)(key + at) < own) atomicMax(key + at, own);
    }
};

/* Keys stand where the results come to stand, if they are as wide. */
template <class T> static dl_status put_best(dl_gpu *g, dl_call *c, bool largest) {
    dl_tensor *o = c->out[0], *index = c->in[1], *v = INPUT(c, PUT_LAST_SRC);
    int dim;
    at_place a = {0, 0, index->dtype == DL_I64, dl_gpu_site(g, c->op)};
    dims_of(c, &dim, &a.size);
    a.step = o->ndim ? o->stride[dim] : 0;
    const bool wide = sizeof(ordered_t<T>) > sizeof(T);
    ordered_t<T> *key =
        wide ? (ordered_t<T> *)dl_gpu_take(g, sizeof *key * (size_t)o->numel) : (ordered_t<T> *)dl_ptr(o);
    if (!key) return dl_failed();
    dl_it it, all;
    dl_it_begin(&all, o->ndim, o->shape);
    dl_it_tensor(&all, c->in[0]);
    dl_it_count(&all, o->ndim, o->shape, o->stride);
    dl_it_end(&all);
    dl_status s = dl_places<2>(g, all, encode_f<T>{largest, key});
    dl_it_begin(&it, v->ndim, v->shape);
    begin(&it, c, dim, false);
    dl_it_tensor(&it, v);
    dl_it_end(&it);
    if (s == DL_OK) s = dl_places<4>(g, it, best_f<T>{a, largest, key});
    dl_it_begin(&all, o->ndim, o->shape);
    dl_it_tensor(&all, o);
    dl_it_count(&all, o->ndim, o->shape, o->stride);
    dl_it_end(&all);
    if (s == DL_OK) s = dl_places<2>(g, all, decode_f<T>{largest, key});
    if (wide) dl_gpu_drop(g, key);
    return s;
}

static dl_status run_put_best(dl_call *c) {
    DL_USE_GPU(g, c->device);
    const bool largest = ATTR_I(c, PUT_BEST_LARGEST) != 0;
    dl_tensor *v = INPUT(c, PUT_BEST_SRC);
    if (!v->numel) return dl_cuda_copy(g, c->out[0], c->in[0]);
    return dl_dispatch<DL_ANY>(c->out[0]->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        dl_status s;
        if (by_list<T, true>(g, c, largest, &s) || by_lines<T>(g, c, best_of<T>{largest}, &s)) return s;
        return put_best<T>(g, c, largest);
    });
}
const dl_kernel dl_cuda_put_best = {run_put_best, NULL, DL_ANY, NULL, 0};

/* ---- places of several indices */

/* Operands: place, N indices. */
template <int N> struct next_places_f {
    long size[N];
    int wide[N];
    bool first;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long *o = (long *)p[0], place = first ? 0 : *o;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const long at = dl_index_at(p[1 + k], wide[k], size[k], site);
            place = place * size[k] + (at < 0 ? 0 : at);
        }
        *o = place;
    }
};

static dl_status run_joint_place(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *o = c->out[0];
    const long *size = ATTR(c, JOINT_PLACE_SIZES)->u.v;
    const dl_fault_site site = dl_gpu_site(g, c->op);
    int i = 0;
    for (dl_tensor **in = c->in; i + 1 < c->nin; i += 2, in += 2) { /* the most there are in one launch: two */
        next_places_f<2> f = {{size[i], size[i + 1]}, {in[0]->dtype == DL_I64, in[1]->dtype == DL_I64}, !i, site};
        DL_TRY(dl_places<3>(g, dl_it_of({o, in[0], in[1]}), f));
    }
    if (i == c->nin) return DL_OK;
    next_places_f<1> f = {{size[i]}, {c->in[i]->dtype == DL_I64}, !i, site};
    return dl_places<2>(g, dl_it_of({o, c->in[i]}), f);
}
const dl_kernel dl_cuda_joint_place = {run_joint_place, NULL, DL_INTS, NULL, 0};
