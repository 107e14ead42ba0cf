/* Kernels of softmax and log_softmax along any dimension, and their fused gradients. Rows side by side are read once,
 * into registers or else shared memory, while they fit; few long ones are a reduction and a pointwise pass, as are rows
 * across memory. Short rows across memory are a thread's. */
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/rows.cuh"
#include "ops/names/loss.h"

enum { THREADS = 256, MOST_THREADS = 1024, SHORT_ROW = 32, FEW_ROWS = 264 };
enum { FEW = 2, FEW_SINGLE = 4, MOST_SINGLE = 16 }; /* reads of a thread */

/* Forward g is NULL and x the input, backward x is the result of the forward. */
template <class T> struct rows_call {
    const T *x, *g;
    T *y;
};

/* Exact enough for the dtype: the error of the quick one is below the rounding of 16-bit results. */
template <class T> __device__ inline calc_t<T> exp_for(calc_t<T> x) {
    return sizeof(T) == 2 ? dl_quick_exp(x) : exp(x);
}

/* ---- in registers */

template <class T, int V, int E, bool LOG> struct in_registers {
    typedef calc_t<T> C;
    typedef dl_row_regs<T, V, E> regs;

    static __device__ void forward(regs &x, C *shared, const dl_row_plan &p) {
        C top = -(C)INFINITY, sum = 0, e[LOG ? 1 : V * E];
        x.each(p, [&](C v, int) { top = dl_larger(top, v); });
        top = dl_row_join(top, dl_larger_f(), shared, p.lanes);
        x.each(p, [&](C v, int i) {
            C y = LOG ? dl_quick_exp(v - top) : exp_for<T>(v - top);
            if constexpr (!LOG) e[i] = y;
            sum += y;
        });
        sum = dl_row_join(sum, dl_sum_f(), shared, p.lanes);
        C last = LOG ? log(sum) : C(1) / sum;
        x.change(p, [&](C v, int i) {
            if constexpr (LOG)
                return v - top - last;
            else
                return e[i] * last;
        });
    }
    static __device__ void backward(regs &y, const regs &g, C *shared, const dl_row_plan &p) {
        C sum = 0;
        y.with(p, g, [&](C a, C b, int) {
            sum += LOG ? b : b * a;
            return a;
        });
        sum = dl_row_join(sum, dl_sum_f(), shared, p.lanes);
        y.with(p, g, [&](C a, C b, int) { return LOG ? b - exp_for<T>(a) * sum : a * (b - sum); });
    }
};

template <class T, int V, int E, bool LOG, bool BACK>
__global__ void __launch_bounds__(DL_ROW_LANES) registers_kernel(rows_call<T> c, dl_row_plan p) {
    typedef calc_t<T> C;
    typedef in_registers<T, V, E, LOG> way;
    __shared__ C shared[DL_ROW_LANES / DL_WARP];
    int lane = threadIdx.x & (p.lanes - 1);
    long row = ((long)blockIdx.x * p.threads + threadIdx.x) >> p.shift, at = row * p.packs * V;
    int packs = row < p.rows ? p.packs : 0; /* other rows of the warp need all its threads */
    typename way::regs x;
    x.load(c.x + at, packs, lane, p.lanes, BACK ? C(0) : -(C)INFINITY);
    if constexpr (BACK) {
        typename way::regs g;
        g.load(c.g + at, packs, lane, p.lanes, 0);
        way::backward(x, g, shared, p);
    } else {
        way::forward(x, shared, p);
    }
    x.store(c.y + at, packs, lane, p.lanes);
}

template <class T, bool LOG, bool BACK>
static dl_status by_rows(dl_gpu *g, const rows_call<T> &c, long rows, long d, bool *done) {
    enum { V = 16 / sizeof(T), MOST = sizeof(T) == 2 ? 4 : 8 }; /* 32 numbers a thread */
    dl_row_plan p;
    bool vector = d % V == 0 && (((size_t)c.x | (size_t)c.g | (size_t)c.y) & 15) == 0;
    *done =
        vector ? dl_row_plan_of(&p, rows, d, V, FEW, MOST) : dl_row_plan_of(&p, rows, d, 1, FEW_SINGLE, MOST_SINGLE);
    if (!*done) return DL_OK;
    unsigned blocks = dl_row_blocks(&p);
    if (vector && p.lanes * FEW >= p.packs)
        registers_kernel<T, V, FEW, LOG, BACK><<<blocks, p.threads, 0, g->stream>>>(c, p);
    else if (vector)
        registers_kernel<T, V, MOST, LOG, BACK><<<blocks, p.threads, 0, g->stream>>>(c, p);
    else if (p.lanes * FEW_SINGLE >= p.packs)
        registers_kernel<T, 1, FEW_SINGLE, LOG, BACK><<<blocks, p.threads, 0, g->stream>>>(c, p);
    else
        registers_kernel<T, 1, MOST_SINGLE, LOG, BACK><<<blocks, p.threads, 0, g->stream>>>(c, p);
    return dl_gpu_launched(g);
}

/* ---- a block's: long rows, kept in shared memory while they fit */

/* This thread's part of a row: f(i, N) for the N elements from i on, vectors between `head` and what is left. */
template <int V, class F> __device__ inline void walk(long d, long head, F f) {
    long packs = (d - head) / V, behind = head + packs * V;
    for (long i = threadIdx.x; i < head; i += blockDim.x) f(i, std::integral_constant<int, 1>());
    for (long i = behind + threadIdx.x; i < d; i += blockDim.x) f(i, std::integral_constant<int, 1>());
#pragma unroll 4
    for (long i = threadIdx.x; i < packs; i += blockDim.x) f(head + i * V, std::integral_constant<int, V>());
}

template <class T, bool LOG, bool BACK>
__global__ void __launch_bounds__(MOST_THREADS) long_kernel(rows_call<T> c, long d, bool vector, bool cached) {
    typedef calc_t<T> C;
    typedef dl_exponentials<C> X;
    enum { V = 16 / sizeof(T) };
    extern __shared__ __align__(16) char memory[];
    __shared__ C shared[MOST_THREADS / DL_WARP];
    __shared__ double sums[MOST_THREADS / DL_WARP];
    const T *x = c.x + blockIdx.x * d, *g = BACK ? c.g + blockIdx.x * d : NULL;
    T *y = c.y + blockIdx.x * d;
    int off = (int)((size_t)x % 16 /
                    sizeof(T)); /* the cached row begins as far from a boundary of 16 bytes as the row itself */
    T *kept = (T *)memory + off, *kept_g = kept + (d / V + 2) * V;
    long head = vector ? (V - off) % V : d;
    if (head > d) head = d;
    X e = X::none();
    C sum = 0;
    walk<V>(d, head, [&](long i, auto count) {
        enum { N = decltype(count)::value };
        typedef dl_vector<T, N> pack;
        pack p = *(const pack *)(x + i), q = BACK ? *(const pack *)(g + i) : p;
        if (cached) {
            *(pack *)(kept + i) = p;
            if (BACK) *(pack *)(kept_g + i) = q;
        }
        C v[N];
#pragma unroll
        for (int j = 0; j < N; j++) {
            v[j] = dl_up(p.v[j]);
            if (BACK) sum += LOG ? dl_up(q.v[j]) : dl_up(q.v[j]) * v[j];
        }
        if (!BACK) e = e.with(v);
    });
    C top = 0, last = 0;
    if constexpr (BACK) {
        sum = dl_row_join(sum, dl_sum_f(), shared, blockDim.x);
    } else {
        top = dl_row_join(e.top, dl_larger_f(), shared, blockDim.x);
        e.sum = dl_row_join(e.moved(X::shift(top)), dl_sum_f(), sums, blockDim.x);
        e.top = top;
        last = LOG ? (C)log(e.finite()) : (C)(1 / e.finite());
    }
    walk<V>(d, head, [&](long i, auto count) {
        enum { N = decltype(count)::value };
        typedef dl_vector<T, N> pack;
        pack p = *(const pack *)((cached ? kept : x) + i), q = BACK ? *(const pack *)((cached ? kept_g : g) + i) : p;
#pragma unroll
        for (int j = 0; j < N; j++) {
            C v = dl_up(p.v[j]), w = dl_up(q.v[j]);
            if (BACK)
                v = LOG ? w - exp_for<T>(v) * sum : v * (w - sum);
            else
                v = LOG ? v - top - last : exp_for<T>(v - top) * last;
            p.v[j] = dl_down<T>(v);
        }
        *(pack *)(y + i) = p;
    });
}

template <class T, bool LOG, bool BACK>
static dl_status by_blocks(dl_gpu *g, const rows_call<T> &c, long rows, long d) {
    enum { V = 16 / sizeof(T), PLAIN = 48 << 10, OWN = 1 << 10 };
    bool vector = (((size_t)c.x ^ (size_t)c.y) | (BACK ? (size_t)c.x ^ (size_t)c.g : 0)) % 16 == 0;
    size_t bytes = (size_t)(d / V + 2) * V * sizeof(T) * (BACK ? 2 : 1);
    int most = 0;
    dl_status s =
        dl_gpu_check(g, cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, g->index), "a long row");
    size_t cache = most > OWN ? (size_t)(most - OWN) : 0;
    bool cached = bytes <= cache;
    if (s == DL_OK && cached && bytes > PLAIN)
        s = dl_gpu_check(
            g, cudaFuncSetAttribute(long_kernel<T, LOG, BACK>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)cache),
            "a long row");
    if (s != DL_OK) return s;
    int threads = cached && bytes < cache / 3 ? MOST_THREADS / 2 : MOST_THREADS;
    long_kernel<T, LOG, BACK><<<(unsigned)rows, threads, cached ? bytes : 0, g->stream>>>(c, d, vector, cached);
    return dl_gpu_launched(g);
}

/* ---- a thread's: short rows across memory, in registers */

template <class T, bool LOG, bool BACK>
__global__ void __launch_bounds__(THREADS) thread_kernel(rows_call<T> c, dl_rows r) {
    typedef calc_t<T> C;
    long row = (long)blockIdx.x * THREADS + threadIdx.x;
    if (row >= r.outer * r.inner) return;
    long at = row / r.inner * r.d * r.inner + row % r.inner;
    C v[SHORT_ROW], w[BACK ? SHORT_ROW : 1], top = -(C)INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < SHORT_ROW; i++) {
        v[i] = i < r.d ? dl_up(c.x[at + i * r.inner]) : BACK ? C(0) : -(C)INFINITY;
        if constexpr (BACK) w[i] = i < r.d ? dl_up(c.g[at + i * r.inner]) : C(0);
    }
#pragma unroll
    for (int i = 0; i < SHORT_ROW; i++) {
        if constexpr (BACK)
            sum += LOG ? w[i] : w[i] * v[i];
        else
            top = dl_larger(top, v[i]);
    }
    if constexpr (!BACK) {
#pragma unroll
        for (int i = 0; i < SHORT_ROW; i++)
            if (i < r.d) sum += dl_quick_exp(v[i] - top);
    }
    C last = BACK ? sum : LOG ? log(sum) : C(1) / sum;
#pragma unroll
    for (int i = 0; i < SHORT_ROW; i++) {
        if (i >= r.d) break;
        C y;
        if constexpr (BACK)
            y = LOG ? w[i] - exp_for<T>(v[i]) * sum : v[i] * (w[i] - sum);
        else
            y = LOG ? v[i] - top - last : exp_for<T>(v[i] - top) * last;
        c.y[at + i * r.inner] = dl_down<T>(y);
    }
}

/* ---- a reduction, and a pointwise pass with its results */

/* The largest of a row, and what is done with the sum of its exponentials. */
template <class T, bool LOG> struct total_op : dl_red_op {
    enum { BULK = true };
    typedef calc_t<T> C;
    typedef dl_exponentials<C> A;
    C *top, *last;
    __device__ A identity() const { return A::none(); }
    template <int N> __device__ A bulk(A a, const C (&x)[N]) const { return a.with(x); }
    __device__ A join(A a, A b) const { return a.with(b); }
    __device__ void finish(A a, long i, int) const {
        top[i] = a.top;
        last[i] = LOG ? (C)log(a.finite()) : (C)(1 / a.finite());
    }
};
template <bool LOG> struct scaled_f {
    template <class C> __device__ C operator()(C x, C top, C last) const {
        return LOG ? x - top - last : exp(x - top) * last;
    }
};

template <class T, bool LOG> struct inner_op : dl_red_op {
    enum { PAIR = true };
    typedef calc_t<T> C;
    typedef double A;
    const T *second;
    C *sum;
    __device__ A identity() const { return 0; }
    __device__ A take(A a, C y, C g, int) const { return a + (double)(LOG ? g : g * y); }
    __device__ A join(A a, A b) const { return a + b; }
    __device__ void finish(A a, long i, int) const { sum[i] = (C)a; }
};
template <bool LOG> struct slope_f {
    template <class C> __device__ C operator()(C y, C g, C sum) const { return LOG ? g - exp(y) * sum : y * (g - sum); }
};

/* x, g and y lie alike, as [outer][d][inner]. */
template <class T, bool LOG, bool BACK>
static dl_status in_two(dl_gpu *gpu, const rows_call<T> &c, const dl_rows &r, const dl_tensor *like) {
    typedef calc_t<T> C;
    long rows = r.outer * r.inner, shape[3] = {r.outer, r.d, r.inner}, stride[3] = {r.d * r.inner, r.inner, 1},
         across[3] = {r.inner, 0, 1};
    dl_tensor x = *like;
    x.ndim = 3;
    for (int i = 0; i < 3; i++) x.shape[i] = shape[i], x.stride[i] = stride[i];
    C *work = (C *)dl_gpu_take(gpu, 2 * sizeof(C) * (size_t)rows);
    if (!work) return dl_failed();
    dl_red_plan p;
    dl_red_plan_of(&p, &x, 2, false, c.g);
    dl_status s;
    if constexpr (BACK)
        s = dl_red_run(gpu, c.x, p, inner_op<T, LOG>{{}, c.g, work});
    else
        s = dl_red_run(gpu, c.x, p, total_op<T, LOG>{{}, work, work + rows});
    dl_it it;
    dl_it_begin(&it, 3, shape);
    dl_it_operand(&it, c.y, sizeof(T), 3, shape, stride);
    dl_it_operand(&it, (void *)c.x, sizeof(T), 3, shape, stride);
    dl_it_operand(&it, BACK ? (void *)c.g : work, BACK ? sizeof(T) : sizeof(C), 3, shape, BACK ? stride : across);
    dl_it_operand(&it, BACK ? work : work + rows, sizeof(C), 3, shape, across);
    dl_it_end(&it);
    if (s == DL_OK) {
        if constexpr (BACK)
            s = dl_each<slope_f<LOG>, T, T, T, C>(gpu, it, slope_f<LOG>());
        else
            s = dl_each<scaled_f<LOG>, T, T, C, C>(gpu, it, scaled_f<LOG>());
    }
    dl_gpu_drop(gpu, work);
    return s;
}

/* ---- the choice */

template <class T, bool LOG, bool BACK>
static dl_status run_rows(dl_gpu *gpu, const dl_tensor *x, const dl_tensor *g, dl_tensor *y, int dim) {
    dl_rows r = dl_rows_of(y, dim);
    rows_call<T> c = {dl_data<T>(x), dl_data<T>(g), dl_data<T>(y)};
    bool done = false;
    if (!r.outer) return DL_OK;
    if (r.inner > 1) {
        if (r.d > SHORT_ROW) return in_two<T, LOG, BACK>(gpu, c, r, x);
        unsigned blocks = dl_blocks(r.outer * r.inner, THREADS);
        thread_kernel<T, LOG, BACK><<<blocks, THREADS, 0, gpu->stream>>>(c, r);
        return dl_gpu_launched(gpu);
    }
    dl_status s = by_rows<T, LOG, BACK>(gpu, c, r.outer, r.d, &done);
    if (done || s != DL_OK) return s;
    return r.outer >= FEW_ROWS ? by_blocks<T, LOG, BACK>(gpu, c, r.outer, r.d) : in_two<T, LOG, BACK>(gpu, c, r, x);
}

template <bool LOG> static dl_status run(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *y = c->out[0], *x = g ? dl_cuda_strided_like(g, c->in[0], y) : NULL;
    int dim = 0;
    if (!x) return dl_failed();
    dl_dim_norm(ATTR_I(c, ALONG_DIM), y->ndim, &dim); /* checked by infer */
    dl_status s = dl_dispatch<DL_FLOATS>(
        y->dtype, [&](auto tag) { return run_rows<decltype(tag), LOG, false>(g, x, NULL, y, dim); });
    dl_unref(x);
    return s;
}

template <bool LOG> static dl_status fused(dl_back *b) {
    dl_tensor *y = OUT_(ALONG_OUT);
    dl_gpu *g = y ? dl_gpu_use(y->st->device) : NULL;
    dl_tensor *grad = g ? dl_tmp(b, dl_cuda_strided_like(g, b->g[0], y)) : NULL;
    dl_tensor *dx = grad ? dl_tmp(b, dl_cuda_empty_like(y, (dl_dtype)y->dtype)) : NULL;
    int dim = 0;
    if (!dx) return dl_fail_null("the gradient");
    dl_dim_norm(ATTR_I(b, ALONG_DIM), y->ndim, &dim);
    dl_status s = dl_dispatch<DL_FLOATS>(
        y->dtype, [&](auto tag) { return run_rows<decltype(tag), LOG, true>(g, y, grad, dx, dim); });
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}

static dl_status run_softmax(dl_call *c) { return run<false>(c); }
static dl_status run_log_softmax(dl_call *c) { return run<true>(c); }
static dl_status grad_softmax(dl_back *b) { return fused<false>(b); }
static dl_status grad_log_softmax(dl_back *b) { return fused<true>(b); }
const dl_kernel dl_cuda_softmax = {run_softmax, grad_softmax, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_log_softmax = {run_log_softmax, grad_log_softmax, DL_FLOATS, NULL, 0};
