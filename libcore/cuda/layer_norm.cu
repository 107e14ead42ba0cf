/* Kernel of layer_norm and its fused gradient. A row is a warp's, or a block's when it is long; the gradients of weight
 * and bias add up parts of the rows by column and then the parts, in a fixed order. Sums run in f64. */
#include "cuda/rows.cuh"

enum { THREADS = 256, LONG_ROW = 1024, COLUMNS = 32, ROWS = THREADS / COLUMNS, LEAST_ROWS = 64, WANTED_BLOCKS = 512 };

/* Rows of d elements; w and b may be NULL. mean and rstd are of the type that T is computed in. */
template <class T> struct norm_rows {
    long n, d;
    const T *x, *w, *b, *g;
    T *y; /* the result, or dx */
    calc_t<T> *mean, *rstd;
    double eps;
};

/* Which row a thread takes part in, and from which element on with which step. Whole warps or blocks leave together. */
struct row_share {
    long row, first, step;
    bool block;
    __device__ row_share(long d) {
        block = d >= LONG_ROW;
        long t = (long)blockIdx.x * THREADS + threadIdx.x;
        row = block ? blockIdx.x : t / DL_WARP;
        first = block ? threadIdx.x : t % DL_WARP;
        step = block ? THREADS : DL_WARP;
    }
};

template <class T> __global__ void __launch_bounds__(THREADS) layer_norm_kernel(norm_rows<T> r) {
    typedef calc_t<T> C;
    __shared__ double shared[THREADS / DL_WARP];
    row_share s(r.d);
    if (s.row >= r.n) return;
    double *join = s.block ? shared : NULL, sum = 0, square = 0;
    const T *x = r.x + s.row * r.d;
    T *y = r.y + s.row * r.d;
    for (long i = s.first; i < r.d; i += s.step) sum += (double)dl_up(x[i]);
    double mean = dl_row_join(sum, dl_sum_f(), join) / (double)r.d;
    for (long i = s.first; i < r.d; i += s.step) {
        double v = (double)dl_up(x[i]) - mean;
        square += v * v;
    }
    double rstd = 1 / sqrt(dl_row_join(square, dl_sum_f(), join) / (double)r.d + r.eps);
    C m = (C)mean, k = (C)rstd;
    for (long i = s.first; i < r.d; i += s.step)
        y[i] = dl_down<T>((dl_up(x[i]) - m) * k * (r.w ? dl_up(r.w[i]) : C(1)) + (r.b ? dl_up(r.b[i]) : C(0)));
    if (!s.first) r.mean[s.row] = m, r.rstd[s.row] = k;
}

/* dx = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)), gw = g * weight. */
template <class T> __global__ void __launch_bounds__(THREADS) layer_norm_grad_kernel(norm_rows<T> r) {
    typedef calc_t<T> C;
    __shared__ double shared[THREADS / DL_WARP];
    row_share s(r.d);
    if (s.row >= r.n) return;
    double *join = s.block ? shared : NULL, sum = 0, sumx = 0;
    const T *x = r.x + s.row * r.d, *g = r.g + s.row * r.d;
    T *dx = r.y + s.row * r.d;
    C m = r.mean[s.row], k = r.rstd[s.row];
    for (long i = s.first; i < r.d; i += s.step) {
        C gw = dl_up(g[i]) * (r.w ? dl_up(r.w[i]) : C(1));
        sum += (double)gw;
        sumx += (double)gw * (double)((dl_up(x[i]) - m) * k);
    }
    C a = (C)(dl_row_join(sum, dl_sum_f(), join) / (double)r.d),
      c = (C)(dl_row_join(sumx, dl_sum_f(), join) / (double)r.d);
    for (long i = s.first; i < r.d; i += s.step) {
        C gw = dl_up(g[i]) * (r.w ? dl_up(r.w[i]) : C(1));
        dx[i] = dl_down<T>((gw - a - (dl_up(x[i]) - m) * k * c) * k);
    }
}

/* Sums of g * xhat and of g over a part of the rows, for 32 columns a block; part[2][parts][d]. */
template <class T>
__global__ void __launch_bounds__(THREADS) layer_norm_columns_kernel(norm_rows<T> r, double *part, long each) {
    __shared__ double shared[2][ROWS][COLUMNS];
    int lane = threadIdx.x % COLUMNS, line = threadIdx.x / COLUMNS;
    long col = (long)blockIdx.x * COLUMNS + lane, end = (blockIdx.y + 1) * each;
    double sw = 0, sb = 0;
    if (end > r.n) end = r.n;
    for (long i = blockIdx.y * each + line; i < end && col < r.d; i += ROWS) {
        double g = (double)dl_up(r.g[i * r.d + col]);
        sw += g * (double)((dl_up(r.x[i * r.d + col]) - r.mean[i]) * r.rstd[i]);
        sb += g;
    }
    shared[0][line][lane] = sw, shared[1][line][lane] = sb;
    __syncthreads();
    if (line > 1 || col >= r.d) return;
    double sum = 0;
    for (int i = 0; i < ROWS; i++) sum += shared[line][i][lane];
    part[(line * (long)gridDim.y + blockIdx.y) * r.d + col] = sum;
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    layer_norm_join_kernel(const double *part, long parts, long d, T *dw, T *db) {
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= d) return;
    double sum[2] = {0, 0};
    for (int k = 0; k < 2; k++)
        for (long p = 0; p < parts; p++) sum[k] += part[(k * parts + p) * d + i];
    if (dw) dw[i] = dl_down<T>((calc_t<T>)sum[0]);
    if (db) db[i] = dl_down<T>((calc_t<T>)sum[1]);
}

template <class T> static unsigned blocks_of(const norm_rows<T> &r) {
    return (unsigned)(r.d >= LONG_ROW ? r.n : (r.n * DL_WARP + THREADS - 1) / THREADS);
}

static long row_size(const dl_aval *sizes) {
    long d = 1;
    for (int i = 0; i < sizes->n; i++) d *= sizes->u.v[i];
    return d;
}

/* in[i] contiguous and in dtype t, or NULL when absent. False: recorded. */
static bool operand(dl_gpu *g, dl_tensor *in, int t, dl_tensor **out) {
    if (!in) return true;
    dl_tensor *cast = in->dtype == t ? dl_ref(in) : dl_to_dtype(in, (dl_dtype)t);
    *out = cast ? dl_cuda_contiguous(g, cast) : NULL;
    dl_unref(cast);
    return *out != NULL;
}

static dl_status run_layer_norm(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *own[3] = {NULL, NULL, NULL};
    if (!g) return dl_error_last()->code;
    long d = row_size(&c->attr[0]);
    bool good = true;
    for (int i = 0; i < 3 && good; i++) good = operand(g, i < c->nin ? c->in[i] : NULL, c->dtype, &own[i]);
    dl_status s = good ? DL_OK : dl_error_last()->code;
    if (good && own[0]->numel)
        s = dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
            typedef decltype(tag) T;
            norm_rows<T> r = {(long)own[0]->numel / d,
                              d,
                              (const T *)dl_ptr(own[0]),
                              own[1] ? (const T *)dl_ptr(own[1]) : NULL,
                              own[2] ? (const T *)dl_ptr(own[2]) : NULL,
                              NULL,
                              (T *)dl_ptr(c->out[0]),
                              (calc_t<T> *)dl_ptr(c->out[1]),
                              (calc_t<T> *)dl_ptr(c->out[2]),
                              c->attr[1].u.f};
            layer_norm_kernel<T><<<blocks_of(r), THREADS, 0, g->stream>>>(r);
            return dl_gpu_launched(g);
        });
    for (int i = 0; i < 3; i++) dl_unref(own[i]);
    return s;
}

template <class T> static dl_status columns(dl_gpu *gpu, const norm_rows<T> &r, dl_tensor *dw, dl_tensor *db) {
    long bands = (r.d + COLUMNS - 1) / COLUMNS, parts = WANTED_BLOCKS / bands, most = r.n / LEAST_ROWS;
    if (parts > most) parts = most;
    if (parts < 1) parts = 1;
    long each = (r.n + parts - 1) / parts;
    double *part = (double *)dl_gpu_take(gpu, 2 * sizeof(double) * (size_t)(parts * r.d));
    if (!part) return dl_error_last()->code;
    layer_norm_columns_kernel<T><<<dim3((unsigned)bands, (unsigned)parts), THREADS, 0, gpu->stream>>>(r, part, each);
    layer_norm_join_kernel<T><<<(unsigned)((r.d + THREADS - 1) / THREADS), THREADS, 0, gpu->stream>>>(
        part, parts, r.d, dw ? (T *)dl_ptr(dw) : NULL, db ? (T *)dl_ptr(db) : NULL);
    dl_gpu_drop(gpu, part);
    return dl_gpu_launched(gpu);
}

/* A tensor for the gradient of input i, when that is wanted. */
static dl_tensor *gradient(dl_back *b, int i, int ndim, const long *shape, const dl_tensor *x) {
    bool wanted = i < b->nin && (b->need >> i & 1);
    return wanted ? dl_tmp(b, dl_tensor_empty(ndim, shape, (dl_dtype)x->dtype, x->st->device)) : NULL;
}

static dl_status grad_layer_norm(dl_back *b) {
    bool weighted = b->nin > 1 && dl_in_meta(b, 1)->ndim;
    dl_tensor *x = dl_saved_in(b, 0), *mean = dl_saved_out(b, 1), *rstd = dl_saved_out(b, 2);
    dl_tensor *w = weighted ? dl_saved_in(b, 1) : NULL, *in[3] = {x, b->g[0], w}, *own[3] = {NULL, NULL, NULL};
    dl_gpu *gpu = x && mean && rstd ? dl_gpu_use(x->st->device) : NULL;
    if (!gpu) return dl_fail_null("the input");
    for (int i = 0; i < 3; i++) {
        if (!operand(gpu, in[i], x->dtype, &own[i])) return dl_error_last()->code;
        if (own[i]) dl_tmp(b, own[i]);
    }
    const dl_aval *sizes = &b->attr[0];
    dl_tensor *d[3] = {gradient(b, 0, x->ndim, x->shape, x), gradient(b, 1, sizes->n, sizes->u.v, x),
                       gradient(b, 2, sizes->n, sizes->u.v, x)};
    long size = row_size(sizes);
    for (int i = 0; i < 3; i++)
        if (i < b->nin && (b->need >> i & 1) && !d[i]) return dl_error_last()->code;
    dl_status s = dl_dispatch<DL_FLOATS>(x->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        norm_rows<T> r = {size ? (long)x->numel / size : 0,
                          size,
                          (const T *)dl_ptr(own[0]),
                          own[2] ? (const T *)dl_ptr(own[2]) : NULL,
                          NULL,
                          (const T *)dl_ptr(own[1]),
                          d[0] ? (T *)dl_ptr(d[0]) : NULL,
                          (calc_t<T> *)dl_ptr(mean),
                          (calc_t<T> *)dl_ptr(rstd),
                          b->attr[1].u.f};
        if (d[0] && x->numel) layer_norm_grad_kernel<T><<<blocks_of(r), THREADS, 0, gpu->stream>>>(r);
        return (d[1] || d[2]) && size ? columns<T>(gpu, r, d[1], d[2]) : dl_gpu_launched(gpu);
    });
    for (int i = 0; i < 3 && s == DL_OK; i++)
        if (d[i]) s = dl_give(b, i, dl_ref(d[i]));
    return s;
}

const dl_kernel dl_cuda_layer_norm = {run_layer_norm, grad_layer_norm, DL_FLOATS, NULL, 0};
