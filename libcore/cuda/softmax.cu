/* Kernels of softmax and log_softmax along any dimension, and their fused gradients. Rows side by side are read once,
 * into registers, while they fit; longer ones by a block, or where they are few as a reduction and a pointwise pass, as
 * are rows across memory. Short rows across memory are a thread's. */
#include "cuda/reduce.cuh"
#include "cuda/rows.cuh"

enum { THREADS = 256, SHORT_ROW = 64, FEW_ROWS = 264 };
enum { FEW = 2, MOST = 8, FEW_SINGLE = 4, MOST_SINGLE = 16 }; /* reads of a thread */

/* Forward g is NULL and x the input, backward x is the result of the forward. */
template <class T> struct rows_call {
    const T *x, *g;
    T *y;
};

/* ---- in registers */

template <class T, int V, int E, bool LOG> struct in_registers {
    typedef calc_t<T> C;
    typedef dl_row_regs<T, V, E> regs;
    enum { N = V * E };

    static __device__ void forward(regs &x, C *shared, int lanes) {
        C top = -(C)INFINITY, sum = 0;
#pragma unroll
        for (int i = 0; i < N; i++) top = dl_larger(top, x.get(i));
        top = dl_row_join(top, dl_larger_f(), shared, lanes);
#pragma unroll
        for (int i = 0; i < N; i++) {
            C e = exp(x.get(i) - top);
            sum += e;
            if constexpr (!LOG && sizeof(C) == sizeof(T)) x.set(i, e); /* 16 bits are too few for what lies between */
        }
        sum = dl_row_join(sum, dl_sum_f(), shared, lanes);
        C last = LOG ? log(sum) : C(1) / sum;
#pragma unroll
        for (int i = 0; i < N; i++) {
            if constexpr (LOG)
                x.set(i, x.get(i) - top - last);
            else if constexpr (sizeof(C) == sizeof(T))
                x.set(i, x.get(i) * last);
            else
                x.set(i, exp(x.get(i) - top) * last);
        }
    }
    static __device__ void backward(regs &y, const regs &g, C *shared, int lanes) {
        C sum = 0;
#pragma unroll
        for (int i = 0; i < N; i++) sum += LOG ? g.get(i) : g.get(i) * y.get(i);
        sum = dl_row_join(sum, dl_sum_f(), shared, lanes);
#pragma unroll
        for (int i = 0; i < N; i++) y.set(i, LOG ? g.get(i) - exp(y.get(i)) * sum : y.get(i) * (g.get(i) - sum));
    }
};

template <class T, int V, int E, bool LOG, bool BACK>
__global__ void __launch_bounds__(DL_ROW_LANES) registers_kernel(rows_call<T> c, dl_row_plan p) {
    typedef calc_t<T> C;
    typedef in_registers<T, V, E, LOG> way;
    __shared__ C shared[DL_ROW_LANES / DL_WARP];
    int lane = threadIdx.x % p.lanes;
    long row = (long)blockIdx.x * (p.threads / p.lanes) + threadIdx.x / p.lanes, at = row * p.packs * V;
    int packs = row < p.rows ? p.packs : 0; /* other rows of the warp need all its threads */
    typename way::regs x;
    x.load(c.x + at, packs, lane, p.lanes, BACK ? C(0) : -(C)INFINITY);
    if constexpr (BACK) {
        typename way::regs g;
        g.load(c.g + at, packs, lane, p.lanes, 0);
        way::backward(x, g, shared, p.lanes);
    } else {
        way::forward(x, shared, p.lanes);
    }
    x.store(c.y + at, packs, lane, p.lanes);
}

template <class T, bool LOG, bool BACK>
static dl_status by_rows(dl_gpu *g, const rows_call<T> &c, long rows, long d, bool *done) {
    enum { V = 16 / sizeof(T) };
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

/* ---- a thread's, or a block's: elements first, first + step, ... of a row of d, `inner` apart */

template <class T, bool LOG>
__device__ void softmax_row(const T *x, T *y, long d, long inner, int first, int step, calc_t<T> *shared,
                            double *sums) {
    typedef calc_t<T> C;
    typedef dl_exponentials<C> E;
    enum { U = 8 };
    E e = E::none();
    long i = first;
    for (; i + (U - 1) * step < d; i += U * step) {
        C v[U];
#pragma unroll
        for (int j = 0; j < U; j++) v[j] = dl_up(x[(i + j * step) * inner]);
        e = e.with(v);
    }
    for (; i < d; i += step) {
        C v[1] = {dl_up(x[i * inner])};
        e = e.with(v);
    }
    C top = e.top;
    double sum = e.sum;
    if (step > 1) {
        top = dl_row_join(top, dl_larger_f(), shared, step);
        sum = dl_row_join(e.moved(E::shift(top)), dl_sum_f(), sums, step);
    }
    C last = LOG ? (C)log(sum) : (C)(1 / sum);
#pragma unroll 8
    for (i = first; i < d; i += step) {
        C v = dl_up(x[i * inner]) - top;
        y[i * inner] = dl_down<T>(LOG ? v - last : exp(v) * last);
    }
}

template <class T, bool LOG>
__device__ void grad_row(const T *y, const T *g, T *dx, long d, long inner, int first, int step, calc_t<T> *shared) {
    typedef calc_t<T> C;
    C sum = 0;
#pragma unroll 4
    for (long i = first; i < d; i += step) sum += LOG ? dl_up(g[i * inner]) : dl_up(g[i * inner]) * dl_up(y[i * inner]);
    if (step > 1) sum = dl_row_join(sum, dl_sum_f(), shared, step);
    for (long i = first; i < d; i += step) {
        C gi = dl_up(g[i * inner]), yi = dl_up(y[i * inner]);
        dx[i * inner] = dl_down<T>(LOG ? gi - exp(yi) * sum : yi * (gi - sum));
    }
}

template <class T, bool LOG, bool BACK>
__global__ void __launch_bounds__(THREADS) loops_kernel(rows_call<T> c, dl_rows r) {
    typedef calc_t<T> C;
    __shared__ C shared[THREADS / DL_WARP];
    __shared__ double sums[THREADS / DL_WARP];
    bool alone = r.inner > 1;
    long row = alone ? (long)blockIdx.x * THREADS + threadIdx.x : blockIdx.x;
    if (row >= r.outer * r.inner) return;
    long at = alone ? row / r.inner * r.d * r.inner + row % r.inner : row * r.d;
    int first = alone ? 0 : threadIdx.x, step = alone ? 1 : THREADS;
    if constexpr (BACK)
        grad_row<T, LOG>(c.x + at, c.g + at, c.y + at, r.d, r.inner, first, step, shared);
    else
        softmax_row<T, LOG>(c.x + at, c.y + at, r.d, r.inner, first, step, shared, sums);
}

template <class T, bool LOG, bool BACK> static dl_status by_loops(dl_gpu *g, const rows_call<T> &c, const dl_rows &r) {
    long rows = r.outer * r.inner, blocks = r.inner > 1 ? (rows + THREADS - 1) / THREADS : rows;
    loops_kernel<T, LOG, BACK><<<(unsigned)blocks, THREADS, 0, g->stream>>>(c, r);
    return dl_gpu_launched(g);
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
        last[i] = LOG ? (C)log(a.sum) : (C)(1 / a.sum);
    }
};
template <bool LOG> struct apply_f {
    template <class C> __device__ C operator()(C x, C top, C last) const {
        return LOG ? x - top - last : exp(x - top) * last;
    }
};

template <class T, bool LOG> struct grad_op : dl_red_op {
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
template <bool LOG> struct grad_f {
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
    if (!work) return dl_error_last()->code;
    dl_red_plan p;
    dl_red_plan_of(&p, &x, 2, false, c.g);
    dl_status s;
    if constexpr (BACK)
        s = dl_red_run(gpu, c.x, p, grad_op<T, LOG>{{}, c.g, work});
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
            s = dl_each<grad_f<LOG>, T, T, T, C>(gpu, it, grad_f<LOG>());
        else
            s = dl_each<apply_f<LOG>, T, T, C, C>(gpu, it, apply_f<LOG>());
    }
    dl_gpu_drop(gpu, work);
    return s;
}

/* ---- the choice */

template <class T, bool LOG, bool BACK>
static dl_status run_rows(dl_gpu *gpu, const dl_tensor *x, const dl_tensor *g, dl_tensor *y, int dim) {
    dl_rows r = dl_rows_of(y, dim);
    rows_call<T> c = {(const T *)dl_ptr(x), g ? (const T *)dl_ptr(g) : NULL, (T *)dl_ptr(y)};
    bool done = false;
    if (!r.outer) return DL_OK;
    if (r.inner == 1) {
        dl_status s = by_rows<T, LOG, BACK>(gpu, c, r.outer, r.d, &done);
        if (done || s != DL_OK) return s;
    }
    bool loops = r.inner > 1 ? r.d <= SHORT_ROW : r.outer >= FEW_ROWS;
    return loops ? by_loops<T, LOG, BACK>(gpu, c, r) : in_two<T, LOG, BACK>(gpu, c, r, x);
}

template <bool LOG> static dl_status run(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *y = c->out[0], *x = g ? dl_cuda_strided_like(g, c->in[0], y) : NULL;
    int dim = 0;
    if (!x) return dl_error_last()->code;
    dl_dim_norm(c->attr[0].u.i, y->ndim, &dim); /* checked by infer */
    dl_status s = dl_dispatch<DL_FLOATS>(
        y->dtype, [&](auto tag) { return run_rows<decltype(tag), LOG, false>(g, x, NULL, y, dim); });
    dl_unref(x);
    return s;
}

template <bool LOG> static dl_status fused(dl_back *b) {
    dl_tensor *y = dl_saved_out(b, 0);
    dl_gpu *g = y ? dl_gpu_use(y->st->device) : NULL;
    dl_tensor *grad = g ? dl_tmp(b, dl_cuda_strided_like(g, b->g[0], y)) : NULL;
    dl_tensor *dx = grad ? dl_tmp(b, dl_cuda_empty_like(y, (dl_dtype)y->dtype)) : NULL;
    int dim = 0;
    if (!dx) return dl_fail_null("the gradient");
    dl_dim_norm(b->attr[0].u.i, y->ndim, &dim);
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
