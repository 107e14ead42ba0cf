/* Kernels of norm_groups and its fused gradient. A group of channels of one image is a row in memory, its channels
 * planes. A block has a row and reads it twice, the second time from the end, which is still in the cache. The
 * gradient sums up each plane first, and then computes it from the sums of its group. */
#include "cuda/kernels/rows.cuh"
#include "ops/names/norm.h"

enum { THREADS = 512, PLANE = 256, WARPS = PLANE / DL_WARP };

/* Rows of `per` planes of `plane` elements, `groups` of them an image; w and b, one number a channel, may be NULL. mean
 * and rstd have a number a row, of the type that T is computed in. `same`: all of the gradient is the number at g. */
template <class T> struct group_rows {
    const T *x, *w, *b, *g;
    T *y; /* the result, or dx */
    calc_t<T> *mean, *rstd;
    long per, groups, plane;
    bool same;
    double eps;
    __device__ long channel(long row, long k) const { return row % groups * per + k; }
};

/* Sums of x and of x**2, less the row's first element, which keeps the difference of the squares exact. */
template <class T, int V> __global__ void __launch_bounds__(THREADS) groups_kernel(group_rows<T> r) {
    typedef calc_t<T> C;
    typedef dl_vector<T, V> pack;
    __shared__ double shared[THREADS / DL_WARP];
    long row = blockIdx.x, d = r.per * r.plane, packs = d / V, across = r.plane / V;
    const pack *x = (const pack *)(r.x + row * d);
    pack *y = (pack *)(r.y + row * d);
    C top = dl_up(r.x[row * d]);
    double first = isfinite(top) ? (double)top : 0, sum = 0, square = 0, n = (double)d;
#pragma unroll 4
    for (long i = threadIdx.x; i < packs; i += THREADS) {
        pack p = x[i];
#pragma unroll
        for (int j = 0; j < V; j++) {
            double v = (double)dl_up(p.v[j]) - first;
            sum += v, square += v * v;
        }
    }
    sum = dl_row_join(sum, dl_sum_f(), shared, THREADS) / n;
    double var = dl_row_join(square, dl_sum_f(), shared, THREADS) / n - sum * sum;
    C m = (C)(first + sum), k = (C)(1 / sqrt((var < 0 ? 0 : var) + r.eps));
    if (!threadIdx.x) r.mean[row] = m, r.rstd[row] = k;
    for (long c = r.per - 1; c >= 0; c--) {
        long channel = r.channel(row, c);
        C scale = r.w ? k * dl_up(r.w[channel]) : k, shift = r.b ? dl_up(r.b[channel]) : C(0);
        /* threads continue from plane to plane where these are short */
        long from = c * across, begin = from + (threadIdx.x - from % THREADS + THREADS) % THREADS;
#pragma unroll 4
        for (long i = begin; i < from + across; i += THREADS) {
            pack p = x[i];
#pragma unroll
            for (int j = 0; j < V; j++) p.v[j] = dl_down<T>((dl_up(p.v[j]) - m) * scale + shift);
            y[i] = p;
        }
    }
}

/* The sums of each plane, one block a plane: part[0] of g * xhat, part[1] of g. */
template <class T, int V>
__global__ void __launch_bounds__(PLANE) group_sums_kernel(group_rows<T> r, double *part, long planes) {
    typedef calc_t<T> C;
    typedef dl_vector<T, V> pack;
    __shared__ double shared[WARPS];
    long at = blockIdx.x, row = at / r.per, packs = r.plane / V;
    const pack *x = (const pack *)(r.x + at * r.plane), *g = (const pack *)(r.g + (r.same ? 0 : at * r.plane));
    C m = r.mean[row], k = r.rstd[row], one = dl_up(*r.g);
    double sx = 0, sg = 0;
#pragma unroll 4
    for (long i = threadIdx.x; i < packs; i += PLANE) {
        pack p = x[i], q = p;
        if (!r.same) q = g[i];
#pragma unroll
        for (int j = 0; j < V; j++) {
            double v = (double)(r.same ? one : dl_up(q.v[j]));
            sx += v * (double)((dl_up(p.v[j]) - m) * k), sg += v;
        }
    }
    sx = dl_row_join(sx, dl_sum_f(), shared, PLANE), sg = dl_row_join(sg, dl_sum_f(), shared, PLANE);
    if (!threadIdx.x) part[at] = sx, part[planes + at] = sg;
}

/* The gradients of weight and bias: a warp adds up the planes of a channel. */
template <class T>
__global__ void __launch_bounds__(PLANE)
    group_join_kernel(const double *part, long images, long channels, T *dw, T *db) {
    long c = (long)blockIdx.x * WARPS + threadIdx.x / DL_WARP;
    double sw = 0, sb = 0;
    for (long i = threadIdx.x % DL_WARP; i < images && c < channels; i += DL_WARP)
        sw += part[i * channels + c], sb += part[(images + i) * channels + c];
    sw = dl_row_join(sw, dl_sum_f(), (double *)NULL), sb = dl_row_join(sb, dl_sum_f(), (double *)NULL);
    if (threadIdx.x % DL_WARP || c >= channels) return;
    if (dw) dw[c] = dl_down<T>((calc_t<T>)sw);
    if (db) db[c] = dl_down<T>((calc_t<T>)sb);
}

/* dx = rstd * (g w - mean(g w) - xhat * mean(g w xhat)), a plane a block; the last planes first. */
template <class T, int V>
__global__ void __launch_bounds__(PLANE) group_grad_kernel(group_rows<T> r, const double *part, long planes) {
    typedef calc_t<T> C;
    typedef dl_vector<T, V> pack;
    long at = planes - 1 - blockIdx.x, row = at / r.per, packs = r.plane / V;
    const pack *x = (const pack *)(r.x + at * r.plane), *g = (const pack *)(r.g + (r.same ? 0 : at * r.plane));
    pack *y = (pack *)(r.y + at * r.plane);
    double sx = 0, sg = 0, n = (double)(r.per * r.plane);
    for (long k = 0; k < r.per; k++) {
        double w = r.w ? (double)dl_up(r.w[r.channel(row, k)]) : 1;
        sx += w * part[row * r.per + k], sg += w * part[planes + row * r.per + k];
    }
    C m = r.mean[row], k = r.rstd[row], one = dl_up(*r.g), w = r.w ? dl_up(r.w[r.channel(row, at % r.per)]) : C(1);
    C a = (C)(sg / n), c = (C)(sx / n);
#pragma unroll 4
    for (long i = threadIdx.x; i < packs; i += PLANE) {
        pack p = x[i], q = p;
        if (!r.same) q = g[i];
#pragma unroll
        for (int j = 0; j < V; j++) {
            C v = r.same ? one : dl_up(q.v[j]);
            p.v[j] = dl_down<T>((v * w - a - (dl_up(p.v[j]) - m) * k * c) * k);
        }
        y[i] = p;
    }
}

/* ---- calls */

/* f(V) as a constant: 16 bytes at a time, or an element. */
template <class T, class F> static void by_packs(const group_rows<T> &r, F f) {
    enum { V = 16 / sizeof(T) };
    size_t all = (size_t)r.x | (size_t)r.y | (r.same ? 0 : (size_t)r.g);
    if (r.plane % V == 0 && all % 16 == 0)
        f(std::integral_constant<int, V>());
    else
        f(std::integral_constant<int, 1>());
}

template <class T> static group_rows<T> rows_of(const dl_tensor *x, const dl_tensor *w, const dl_aval *attr) {
    group_rows<T> r = {};
    r.groups = attr[DL_A_NORM_GROUPS_NUM_GROUPS].u.i, r.per = x->shape[1] / r.groups,
    r.plane = x->numel / (x->shape[0] * x->shape[1]);
    r.x = dl_data<T>(x), r.w = dl_data<T>(w), r.eps = attr[DL_A_NORM_GROUPS_EPS].u.f;
    return r;
}

static dl_status run_norm_groups(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *own[3] = {NULL, NULL, NULL};
    dl_status s = DL_OK;
    for (int i = 0; i < 3 && s == DL_OK; i++)
        if (!dl_cuda_operand(g, dl_input(c, i), c->dtype, &own[i])) s = dl_failed();
    if (s == DL_OK && own[0]->numel)
        s = dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
            typedef decltype(tag) T;
            group_rows<T> r = rows_of<T>(own[0], own[1], c->attr);
            r.b = dl_data<T>(own[2]), r.y = dl_data<T>(c->out[0]);
            r.mean = dl_data<calc_t<T>>(OUTPUT(c, NORM_GROUPS_MEAN));
            r.rstd = dl_data<calc_t<T>>(OUTPUT(c, NORM_GROUPS_RSTD));
            by_packs(r, [&](auto v) {
                groups_kernel<T, v()><<<(unsigned)OUTPUT(c, NORM_GROUPS_MEAN)->numel, THREADS, 0, g->stream>>>(r);
            });
            return dl_gpu_launched(g);
        });
    for (int i = 0; i < 3; i++) dl_unref(own[i]);
    return s;
}

/* Gradients go to d[0 .. 2], those that are not wanted being NULL. */
static dl_status backward(dl_gpu *gpu, const dl_back *b, dl_tensor *const *own, const dl_tensor *mean,
                          const dl_tensor *rstd, bool same, dl_tensor *const *d) {
    const dl_tensor *x = own[0];
    long images = x->shape[0], channels = x->shape[1], planes = images * channels;
    double *part = (double *)dl_gpu_take(gpu, 2 * sizeof(double) * (size_t)planes);
    if (!part) return dl_failed();
    dl_status s = dl_dispatch<DL_FLOATS>(x->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        group_rows<T> r = rows_of<T>(x, own[2], b->attr);
        r.g = dl_data<T>(own[1]), r.same = same, r.y = dl_data<T>(d[0]);
        r.mean = dl_data<calc_t<T>>(mean), r.rstd = dl_data<calc_t<T>>(rstd);
        by_packs(r, [&](auto v) {
            group_sums_kernel<T, v()><<<(unsigned)planes, PLANE, 0, gpu->stream>>>(r, part, planes);
            if (d[0]) group_grad_kernel<T, v()><<<(unsigned)planes, PLANE, 0, gpu->stream>>>(r, part, planes);
        });
        if (d[1] || d[2])
            group_join_kernel<T><<<dl_blocks(channels, WARPS), PLANE, 0, gpu->stream>>>(
                part, images, channels, dl_data<T>(d[1]), dl_data<T>(d[2]));
        return dl_gpu_launched(gpu);
    });
    dl_gpu_drop(gpu, part);
    return s;
}

static dl_status grad_norm_groups(dl_back *b) {
    bool weighted = b->nin > DL_IN_NORM_GROUPS_WEIGHT && META(NORM_GROUPS_WEIGHT)->ndim;
    dl_tensor *x = IN_(NORM_GROUPS_INPUT), *mean = OUT_(NORM_GROUPS_MEAN), *rstd = OUT_(NORM_GROUPS_RSTD), *g = b->g[0];
    dl_tensor *in[3] = {x, g, weighted ? IN_(NORM_GROUPS_WEIGHT) : NULL}, *own[3] = {}, *d[3] = {};
    dl_gpu *gpu = x && mean && rstd ? dl_gpu_use(x->st->device) : NULL;
    if (!gpu) return dl_fail_null("the input");
    bool same = dl_cuda_repeated(g) && g->dtype == x->dtype;
    for (int i = 0; i < 3; i++) {
        if (i == 1 && same)
            own[i] = dl_ref(g);
        else if (!dl_cuda_operand(gpu, in[i], x->dtype, &own[i]))
            return dl_failed();
        if (own[i]) dl_tmp(b, own[i]);
    }
    for (int i = 0; i < 3; i++) {
        if (!DL_NEED(i)) continue;
        int ndim = i ? 1 : x->ndim;
        const long *shape = i ? &x->shape[1] : x->shape;
        if (!(d[i] = dl_tmp(b, dl_tensor_empty(ndim, shape, (dl_dtype)x->dtype, x->st->device)))) return dl_failed();
        if (x->numel) continue;
        DL_TRY(dl_cuda_clear(gpu, d[i]));
    }
    dl_status s = x->numel ? backward(gpu, b, own, mean, rstd, same, d) : DL_OK;
    for (int i = 0; i < 3 && s == DL_OK; i++)
        if (d[i]) s = dl_give(b, i, dl_ref(d[i]));
    return s;
}

const dl_kernel dl_cuda_norm_groups = {run_norm_groups, grad_norm_groups, DL_FLOATS, NULL, 0};
