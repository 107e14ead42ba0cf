/* Kernels of softmax and log_softmax along any dimension, and their fused gradients. A row is a warp's, or from 2048
 * elements on a block's; where rows do not lie side by side each thread takes one. */
#include "cuda/rows.cuh"

enum { THREADS = 256, LONG_ROW = 2048 };

/* Elements first, first + step, ... of a row of d, `inner` apart. */
template <class T, bool LOG>
__device__ void softmax_row(const T *x, T *y, long d, long inner, long first, long step, calc_t<T> *shared,
                            bool alone) {
    typedef calc_t<T> C;
    C top = -(C)INFINITY, sum = 0;
    for (long i = first; i < d; i += step) top = dl_larger(top, dl_up(x[i * inner]));
    if (!alone) top = dl_row_join(top, dl_larger_f(), shared);
    for (long i = first; i < d; i += step) sum += exp(dl_up(x[i * inner]) - top);
    if (!alone) sum = dl_row_join(sum, dl_sum_f(), shared);
    C last = LOG ? log(sum) : C(1) / sum;
    for (long i = first; i < d; i += step) {
        C v = dl_up(x[i * inner]) - top;
        y[i * inner] = dl_down<T>(LOG ? v - last : exp(v) * last);
    }
}

template <class T, bool LOG>
__device__ void grad_row(const T *y, const T *g, T *dx, long d, long inner, long first, long step, calc_t<T> *shared,
                         bool alone) {
    typedef calc_t<T> C;
    C sum = 0;
    for (long i = first; i < d; i += step) sum += LOG ? dl_up(g[i * inner]) : dl_up(g[i * inner]) * dl_up(y[i * inner]);
    if (!alone) sum = dl_row_join(sum, dl_sum_f(), shared);
    for (long i = first; i < d; i += step) {
        C gi = dl_up(g[i * inner]), yi = dl_up(y[i * inner]);
        dx[i * inner] = dl_down<T>(LOG ? gi - exp(yi) * sum : yi * (gi - sum));
    }
}

/* g NULL: forward from x to y; else backward, x being the result of the forward. */
template <class T, bool LOG>
__global__ void __launch_bounds__(THREADS) rows_kernel(const T *x, const T *g, T *y, dl_rows r) {
    typedef calc_t<T> C;
    __shared__ C shared[THREADS / DL_WARP];
    bool alone = r.inner > 1, block = !alone && r.d >= LONG_ROW;
    long t = (long)blockIdx.x * THREADS + threadIdx.x;
    long row = alone ? t : block ? blockIdx.x : t / DL_WARP;
    if (row >= r.outer * r.inner) return; /* a whole warp, or block */
    long at = alone ? row / r.inner * r.d * r.inner + row % r.inner : row * r.d;
    long first = alone ? 0 : block ? threadIdx.x : t % DL_WARP, step = alone ? 1 : block ? THREADS : DL_WARP;
    if (g)
        grad_row<T, LOG>(x + at, g + at, y + at, r.d, r.inner, first, step, block ? shared : NULL, alone);
    else
        softmax_row<T, LOG>(x + at, y + at, r.d, r.inner, first, step, block ? shared : NULL, alone);
}

static dl_status run_rows(dl_gpu *gpu, bool log, const dl_tensor *x, const dl_tensor *g, dl_tensor *y, int dim) {
    dl_rows r = dl_rows_of(y, dim);
    long rows = r.outer * r.inner, threads = r.inner > 1 ? rows : r.d >= LONG_ROW ? rows * THREADS : rows * DL_WARP;
    if (!rows) return DL_OK;
    return dl_dispatch<DL_FLOATS>(y->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        unsigned blocks = (unsigned)((threads + THREADS - 1) / THREADS);
        const T *from = (const T *)dl_ptr(x), *grad = g ? (const T *)dl_ptr(g) : NULL;
        if (log)
            rows_kernel<T, true><<<blocks, THREADS, 0, gpu->stream>>>(from, grad, (T *)dl_ptr(y), r);
        else
            rows_kernel<T, false><<<blocks, THREADS, 0, gpu->stream>>>(from, grad, (T *)dl_ptr(y), r);
        return dl_gpu_launched(gpu);
    });
}

static dl_status run(dl_call *c, bool log) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *y = c->out[0], *x = g ? dl_cuda_strided_like(g, c->in[0], y) : NULL;
    int dim = 0;
    if (!x) return dl_error_last()->code;
    dl_dim_norm(c->attr[0].u.i, y->ndim, &dim); /* checked by infer */
    dl_status s = run_rows(g, log, x, NULL, y, dim);
    dl_unref(x);
    return s;
}

static dl_status fused(dl_back *b, bool log) {
    dl_tensor *y = dl_saved_out(b, 0);
    dl_gpu *g = y ? dl_gpu_use(y->st->device) : NULL;
    dl_tensor *grad = g ? dl_tmp(b, dl_cuda_strided_like(g, b->g[0], y)) : NULL;
    dl_tensor *dx = grad ? dl_tmp(b, dl_cuda_empty_like(y, (dl_dtype)y->dtype)) : NULL;
    int dim = 0;
    if (!dx) return dl_fail_null("the gradient");
    dl_dim_norm(b->attr[0].u.i, y->ndim, &dim);
    dl_status s = run_rows(g, log, y, grad, dx, dim);
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}

static dl_status run_softmax(dl_call *c) { return run(c, false); }
static dl_status run_log_softmax(dl_call *c) { return run(c, true); }
static dl_status grad_softmax(dl_back *b) { return fused(b, false); }
static dl_status grad_log_softmax(dl_back *b) { return fused(b, true); }
const dl_kernel dl_cuda_softmax = {run_softmax, grad_softmax, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_log_softmax = {run_log_softmax, grad_log_softmax, DL_FLOATS, NULL, 0};
