/* Kernels of max_pool2d, alone and after bias and relu, and of the two ops that its gradients are made of, on images
 * of any strides. Each result is one thread's, so that overlapping windows are added up in a fixed order. */
#include "cuda/kernels/pool/images.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/index/scatter.h"

#include "core/aside.h"

#include "ops/conv.h"
#include "ops/names/conv.h"
#include "ops/names/reduce.h"

#include <type_traits>

/* Numbers of a direction in 32 bits: sizes of an image plane. */
typedef struct window {
    int in[2], out[2], k[2], stride[2], pad[2], dil[2];
} window;

static dl_status window_of(const dl_conv *g, window *w) {
    if (g->in[0] * g->in[1] > 0x7fffffff) return dl_fail(DL_ERR_SHAPE, "image planes must have fewer than 2^31 pixels");
    for (int i = 0; i < 2; i++) {
        long span = g->in[i] + 2 * g->pad[i] + g->dil[i] * g->k[i] + g->stride[i];
        if (span > 0x7fffffff) return dl_fail(DL_ERR_SHAPE, "windows must span fewer than 2^31 pixels");
        w->in[i] = (int)g->in[i], w->out[i] = (int)g->out[i], w->k[i] = (int)g->k[i];
        w->stride[i] = (int)g->stride[i], w->pad[i] = (int)g->pad[i], w->dil[i] = (int)g->dil[i];
    }
    return DL_OK;
}

/* The pixel as windows compare it: itself, or after bias and relu, rounded as if it had been stored, so that among
 * values that become equal the first one wins. */
template <class T> struct bare_f {
    __device__ calc_t<T> operator()(T x, uint32_t) const { return dl_up(x); }
};
template <class T> struct rectified_f {
    const T *bias; /* NULL: none */
    long step;
    __device__ calc_t<T> operator()(T x, uint32_t c) const {
        calc_t<T> v = bias ? dl_up(x) + dl_up(bias[c * step]) : dl_up(x);
        return v < 0 ? calc_t<T>(0) : dl_up(dl_down<T>(v));
    }
};

/* The first of the rows or columns of window `at` inside the image, and the last one, before the first where there is
 * none. */
__device__ inline int2 window_at(const window &g, int d, int at) {
    int start = at * g.stride[d] - g.pad[d], end = start + g.dil[d] * (g.k[d] - 1);
    if (start < 0) start += (-start + g.dil[d] - 1) / g.dil[d] * g.dil[d];
    return {start, end < g.in[d] ? end : g.in[d] - 1};
}

/* Where the search for the largest pixel starts: the first one, which wins if all are -inf. */
__device__ inline int first_place(const window &g, int2 rows, int2 cols) {
    return rows.x <= rows.y && cols.x <= cols.y ? rows.x * g.in[1] + cols.x : DL_NO_PIXEL;
}

/* Frame: out, indices, x. A NaN wins, the last one if there are several; among equal values the first. */
template <class T, class I, class F, int P, bool LAST>
__global__ void __launch_bounds__(DL_BLOCK) max_kernel(const __grid_constant__ dl_frame<3> f, window g, F seen) {
    typedef calc_t<T> C;
    enum { COLS = LAST ? 1 : P, READ = LAST ? P : 1 };
    uint32_t i = blockIdx.x * DL_BLOCK + threadIdx.x;
    if (i >= f.count) return;
    dl_spot<3> s = dl_frame_at<LAST, P>(f, i);
    int2 rows = window_at(g, 0, s.y), cols[COLS];
    dl_vector<T, P> out;
    dl_vector<I, P> index;
    C best[P];
    int place[P];
    bool repeated = !f.stride[2][1];
#pragma unroll
    for (int j = 0; j < COLS; j++) cols[j] = window_at(g, 1, s.x + j);
#pragma unroll
    for (int e = 0; e < P; e++) best[e] = -(C)INFINITY, place[e] = first_place(g, rows, cols[LAST ? 0 : e]);
    for (int row = rows.x; row <= rows.y; row += g.dil[0]) {
        const char *line = s.plane[2] + row * f.stride[2][2];
#pragma unroll
        for (int j = 0; j < COLS; j++)
            for (int at = cols[j].x; at <= cols[j].y; at += g.dil[1]) {
                dl_vector<T, READ> v = dl_channels_at<T, READ>(line + at * f.stride[2][3], repeated);
#pragma unroll
                for (int e = 0; e < READ; e++) {
                    C x = seen(v.v[e], (uint32_t)(s.c + e));
                    if (x > best[j + e] || x != x) best[j + e] = x, place[j + e] = row * g.in[1] + at;
                }
            }
    }
#pragma unroll
    for (int e = 0; e < P; e++) out.v[e] = dl_down<T>(best[e]), index.v[e] = place[e];
    *(dl_vector<T, P> *)(s.plane[0] + s.y * f.stride[0][2] + s.x * f.stride[0][3]) = out;
    *(dl_vector<I, P> *)(s.plane[1] + s.y * f.stride[1][2] + s.x * f.stride[1][3]) = index;
}

/* Windows of 2 x 2 that tile contiguous images, in pairs: a thread reads and writes whole vectors. */
typedef struct pairs {
    dl_divisor row, plane, channels; /* pairs of a row of results, and of a plane; channels */
    uint32_t n;
} pairs;

template <class T, class I, class F>
__device__ inline double pool_pair(const pairs &p, uint32_t i, const T *x, T *out, I *index, F f) {
    uint32_t r = p.row.quotient(i), c = i - r * p.row.d, plane = p.plane.quotient(i), width = 4 * p.row.d;
    uint32_t channel = plane - p.channels.quotient(plane) * p.channels.d, line = r - plane * (p.plane.d / p.row.d);
    const T *from = x + (size_t)2 * r * width + 4 * c;
    dl_vector<T, 4> two[2] = {*(const dl_vector<T, 4> *)from, *(const dl_vector<T, 4> *)(from + width)};
    struct alignas(2 * sizeof(I)) {
        I v[2];
    } at;
    dl_vector<T, 2> most;
    double squares = 0;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        calc_t<T> best = -(calc_t<T>)INFINITY;
        uint32_t first = 2 * line * width + 4 * c + 2 * k, place = first;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            calc_t<T> v = f(two[e / 2].v[2 * k + e % 2], channel);
            if (v > best || v != v) best = v, place = first + e / 2 * width + e % 2;
            squares += (double)v * (double)v;
        }
        most.v[k] = dl_down<T>(best), at.v[k] = (I)place;
    }
    ((dl_vector<T, 2> *)out)[i] = most;
    *(decltype(at) *)(index + 2 * (size_t)i) = at;
    return squares;
}

/* squares: a place for each block, where SQUARES. */
template <bool SQUARES, class T, class I, class F>
__global__ void __launch_bounds__(DL_BLOCK)
    pairs_kernel(const __grid_constant__ pairs p, const T *x, T *out, I *index, F f, double *squares) {
    uint32_t i = blockIdx.x * DL_BLOCK + threadIdx.x;
    double sum = i < p.n ? pool_pair(p, i, x, out, index, f) : 0;
    if (!SQUARES) return;
    __shared__ double shared[DL_BLOCK / DL_WARP];
    sum = dl_row_join(sum, dl_sum_f(), shared, DL_BLOCK);
    if (!threadIdx.x) squares[blockIdx.x] = sum;
}

/* Do windows and memory fit pairs_kernel? `small` has a number for each window, `large` is the image. */
static bool in_pairs(const window *w, const dl_tensor *small, const dl_tensor *index, const dl_tensor *large,
                     pairs *p) {
    bool good = dl_is_contiguous(small) && dl_is_contiguous(index) && dl_is_contiguous(large);
    for (int d = 0; d < 2; d++)
        good &= w->k[d] == 2 && w->stride[d] == 2 && !w->pad[d] && w->dil[d] == 1 && w->in[d] == 2 * w->out[d];
    if (!good || w->out[1] % 2 || large->numel > 0x7fffffff || !small->numel) return false;
    if (((size_t)dl_ptr(small) | (size_t)dl_ptr(index) | (size_t)dl_ptr(large)) % 16) return false;
    p->row = dl_divisor((uint32_t)w->out[1] / 2), p->plane = dl_divisor((uint32_t)(w->out[0] * w->out[1] / 2));
    p->channels = dl_divisor((uint32_t)large->shape[1]), p->n = (uint32_t)(small->numel / 2);
    return true;
}

static_assert((int)DL_OUT_MAX_POOL2D_INDICES == (int)DL_OUT_RELU_MAX_POOL2D_INDICES, "both ops run here");
/* With the squares of relu, where they are wanted. */
template <class T, class I, class F>
static dl_status pool_pairs(dl_gpu *gpu, const pairs &p, const dl_tensor *x, dl_tensor *out, dl_tensor *index, F f) {
    const unsigned blocks = (p.n + DL_BLOCK - 1) / DL_BLOCK;
    const long n = blocks;
    if constexpr (std::is_same_v<F, rectified_f<T>>)
        if (dl_tensor **sums = dl_squares_wanted()) {
            if (!(*sums = dl_tensor_empty(1, &n, DL_F64, out->st->device))) return dl_failed();
            pairs_kernel<true><<<blocks, DL_BLOCK, 0, gpu->stream>>>(p, dl_data<T>(x), dl_data<T>(out),
                                                                     dl_data<I>(index), f, dl_data<double>(*sums));
            return dl_gpu_launched(gpu);
        }
    pairs_kernel<false>
        <<<blocks, DL_BLOCK, 0, gpu->stream>>>(p, dl_data<T>(x), dl_data<T>(out), dl_data<I>(index), f, (double *)NULL);
    return dl_gpu_launched(gpu);
}

/* The largest f(pixel) of each window. */
template <class T, class I, class F> static dl_status largest(dl_gpu *gpu, const window *w, dl_call *c, F f) {
    dl_tensor *x = c->in[0], *out = c->out[0], *index = OUTPUT(c, MAX_POOL2D_INDICES);
    pairs p;
    if (in_pairs(w, out, index, x, &p)) return pool_pairs<T, I>(gpu, p, x, out, index, f);
    const dl_tensor *images[3] = {out, index, x};
    return dl_frame_run(dl_frame_of(images, 2), [&](const dl_frame<3> &frame) {
        return dl_frame_dispatch(frame, [&](auto pack, auto last) {
            max_kernel<T, I, F, decltype(pack)::value, decltype(last)::value>
                <<<dl_blocks(frame.count, DL_BLOCK), DL_BLOCK, 0, gpu->stream>>>(frame, *w, f);
            return dl_gpu_launched(gpu);
        });
    });
}

static dl_status windows_of(const dl_call *c, dl_gpu **gpu, window *w) {
    dl_conv g;
    if (!(*gpu = dl_gpu_use(c->device))) return dl_failed();
    dl_status s = dl_pool_of(c, &g);
    return s == DL_OK ? window_of(&g, w) : s;
}

static dl_status run_max_pool2d(dl_call *c) {
    dl_gpu *gpu;
    window w;
    DL_TRY(windows_of(c, &gpu, &w));
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return largest<T, long>(gpu, &w, c, bare_f<T>());
    });
}

static dl_status run_relu_max_pool2d(dl_call *c) {
    dl_gpu *gpu;
    window w;
    DL_TRY(windows_of(c, &gpu, &w));
    const dl_tensor *bias = INPUT(c, RELU_MAX_POOL2D_BIAS);
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        rectified_f<T> f = {dl_data<T>(bias), bias ? bias->stride[0] : 0};
        return largest<T, int>(gpu, &w, c, f);
    });
}

/* ---- gradients */

/* Windows that may cover pixels `at` to `to`. */
struct cover {
    int low, high;
    __device__ cover(const window &g, const dl_divisor &step, int d, int at, int to) {
        int from = at + g.pad[d] - g.dil[d] * (g.k[d] - 1);
        low = from <= 0 ? 0 : (int)step.quotient((uint32_t)(from + g.stride[d] - 1));
        high = (int)step.quotient((uint32_t)(to + g.pad[d]));
        if (high >= g.out[d]) high = g.out[d] - 1;
    }
};

/* Frame: dx, the gradient, the indices. A pixel looks at every window that covers it. */
template <class T, class I, int P, bool LAST>
__global__ void __launch_bounds__(DL_BLOCK)
    spread_kernel(const __grid_constant__ dl_frame<3> f, window g, dl_divisor down, dl_divisor right) {
    enum { READ = LAST ? P : 1 };
    uint32_t i = blockIdx.x * DL_BLOCK + threadIdx.x;
    if (i >= f.count) return;
    dl_spot<3> s = dl_frame_at<LAST, P>(f, i);
    cover rows(g, down, 0, s.y, s.y), cols(g, right, 1, s.x, s.x + (LAST ? 0 : P - 1));
    I own = (I)(s.y * g.in[1] + s.x);
    calc_t<T> sum[P] = {};
    for (int y = rows.low; y <= rows.high; y++) {
        const char *grad = s.plane[1] + y * f.stride[1][2], *index = s.plane[2] + y * f.stride[2][2];
        for (int z = cols.low; z <= cols.high; z++) {
            dl_vector<I, READ> at = dl_channels_at<I, READ>(index + z * f.stride[2][3], !f.stride[2][1]);
            dl_vector<T, READ> v = dl_channels_at<T, READ>(grad + z * f.stride[1][3], !f.stride[1][1]);
#pragma unroll
            for (int e = 0; e < P; e++)
                if (at.v[LAST ? e : 0] == own + (LAST ? 0 : e)) sum[e] += dl_up(v.v[LAST ? e : 0]);
        }
    }
    dl_vector<T, P> out;
#pragma unroll
    for (int e = 0; e < P; e++) out.v[e] = dl_down<T>(sum[e]);
    *(dl_vector<T, P> *)(s.plane[0] + s.y * f.stride[0][2] + s.x * f.stride[0][3]) = out;
}

/* An image batch with the memory order of `like`. */
static dl_tensor *images_like(const dl_tensor *like, const long *shape, int dtype) {
    dl_tensor *t = dl_tensor_empty(4, shape, (dl_dtype)dtype, like->st->device);
    if (!t || !dl_channels_last(4, like->shape, like->stride)) return t;
    t->stride[1] = 1;
    t->stride[3] = shape[1];
    t->stride[2] = shape[3] * t->stride[3];
    t->stride[0] = shape[2] * t->stride[2];
    return t;
}

/* dx from the gradient of the windows and the places of their largest values. */
template <class I>
static dl_status spread(dl_gpu *gpu, const window *w, dl_tensor *grad, dl_tensor *index, dl_tensor *dx) {
    const dl_tensor *images[3] = {dx, grad, index};
    dl_divisor down((uint32_t)w->stride[0]), right((uint32_t)w->stride[1]);
    return dl_frame_run(dl_frame_of(images, 1), [&](const dl_frame<3> &f) {
        return dl_dispatch<DL_FLOATS>(dx->dtype, [&](auto tag) {
            return dl_frame_dispatch(f, [&](auto pack, auto last) {
                spread_kernel<decltype(tag), I, decltype(pack)::value, decltype(last)::value>
                    <<<dl_blocks(f.count, DL_BLOCK), DL_BLOCK, 0, gpu->stream>>>(f, *w, down, right);
                return dl_gpu_launched(gpu);
            });
        });
    });
}

/* What both gradients begin with: the places of the largest values, and an empty dx with its windows. */
static dl_status begin(dl_back *b, dl_gpu **gpu, dl_tensor **index, dl_tensor **dx, window *w) {
    dl_tensor of, *in[1] = {&of};
    dl_conv g;
    *index = OUT_(MAX_POOL2D_INDICES);
    *gpu = *index ? dl_gpu_use((*index)->st->device) : NULL;
    *dx = *gpu ? dl_tmp(b, images_like(*index, META(MAXPOOL_INPUT)->shape, b->g[0]->dtype)) : NULL;
    if (!*dx) return dl_failed();
    of = **dx; /* shapes are all that is asked of it */
    dl_call c = {};
    c.op = b->op, c.in = in, c.nin = 1, c.attr = b->attr;
    dl_status s = dl_pool_of(&c, &g);
    return s == DL_OK ? window_of(&g, w) : s;
}

static dl_status grad_max_pool2d(dl_back *b) {
    dl_gpu *gpu;
    dl_tensor *index, *dx;
    window w;
    dl_status s = begin(b, &gpu, &index, &dx, &w);
    if (s == DL_OK) s = spread<long>(gpu, &w, b->g[0], index, dx);
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}

const dl_kernel dl_cuda_max_pool2d = {run_max_pool2d, grad_max_pool2d, DL_FLOATS, NULL, 0};

/* ---- gradients through relu and bias */

/* A block has some pairs of windows of one channel in all images; it fills their pixels, and leaves the sum of what
 * passes in part[channel][block]. */
template <class T>
__global__ void __launch_bounds__(DL_BLOCK)
    relu_pairs_kernel(const __grid_constant__ pairs p, uint32_t images, const T *g, const T *y, const int *index, T *dx,
                      double *part) {
    __shared__ double shared[DL_BLOCK / DL_WARP];
    uint32_t channels = p.channels.d, width = 4 * p.row.d, lines = p.plane.d / p.row.d;
    double sum = 0;
    for (uint32_t i = blockIdx.y * DL_BLOCK + threadIdx.x; i < images * p.plane.d; i += gridDim.y * DL_BLOCK) {
        uint32_t n = p.plane.quotient(i), in = i - n * p.plane.d, line = p.row.quotient(in), c = in - line * p.row.d;
        size_t plane = (size_t)n * channels + blockIdx.x, at = plane * p.plane.d + in;
        dl_vector<T, 2> grad = ((const dl_vector<T, 2> *)g)[at], top = ((const dl_vector<T, 2> *)y)[at];
        int2 place = ((const int2 *)index)[at];
        int first = (int)(2 * line * width + 4 * c);
        dl_vector<T, 4> two[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            bool off = dl_up(top.v[k]) <= 0;
            T own = off ? T(0.0f) : grad.v[k];
            int tap = (k ? place.y : place.x) - first - 2 * k;
            if (!off) sum += (double)dl_up(own);
#pragma unroll
            for (int e = 0; e < 4; e++) two[e / 2].v[2 * k + e % 2] = tap == e / 2 * (int)width + e % 2 ? own : T(0.0f);
        }
        T *to = dx + (plane * lines + line) * 2 * width + 4 * c;
        *(dl_vector<T, 4> *)to = two[0];
        *(dl_vector<T, 4> *)(to + width) = two[1];
    }
    if (!part) return;
    sum = dl_row_join(sum, dl_sum_f(), shared, DL_BLOCK);
    if (!threadIdx.x) part[(size_t)blockIdx.x * gridDim.y + blockIdx.y] = sum;
}

/* A warp sums up the parts of a channel. */
template <class T> __global__ void __launch_bounds__(DL_WARP) channel_kernel(const double *part, int n, T *db) {
    double sum = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < n; i += DL_WARP) sum += part[(size_t)blockIdx.x * n + i];
    sum = dl_row_join(sum, dl_sum_f(), (double *)NULL);
    if (!threadIdx.x) db[blockIdx.x] = dl_down<T>(sum);
}

/* dx and, unless NULL, db. */
static dl_status by_pairs(dl_gpu *gpu, const pairs *p, const dl_tensor *g, const dl_tensor *y, const dl_tensor *index,
                          dl_tensor *dx, dl_tensor *db) {
    enum { EACH = 4, BLOCKS = 2048 };
    long channels = p->channels.d, images = p->n / (p->plane.d * channels), all = images * p->plane.d;
    long parts = (all + EACH * DL_BLOCK - 1) / (EACH * DL_BLOCK), most = BLOCKS / channels > 1 ? BLOCKS / channels : 1;
    if (parts > most) parts = most;
    double *part = db ? (double *)dl_gpu_take(gpu, (size_t)(channels * parts) * sizeof *part) : NULL;
    if (db && !part) return dl_failed();
    dl_status s = dl_dispatch<DL_FLOATS>(dx->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        relu_pairs_kernel<T><<<dim3((unsigned)channels, (unsigned)parts), DL_BLOCK, 0, gpu->stream>>>(
            *p, (uint32_t)images, dl_data<T>(g), dl_data<T>(y), dl_data<int>(index), dl_data<T>(dx), part);
        if (db) channel_kernel<T><<<(unsigned)channels, DL_WARP, 0, gpu->stream>>>(part, (int)parts, dl_data<T>(db));
        return dl_gpu_launched(gpu);
    });
    dl_gpu_drop(gpu, part);
    return s;
}

struct passed_f {
    template <class C> __device__ C operator()(C g, C y) const { return y <= 0 ? C(0) : g; }
};

static dl_status sum_channels(dl_tensor *g, dl_tensor *out) {
    dl_aval attr[2] = {}, *dim = &attr[DL_A_SUM_DIM], *keep = &attr[DL_A_SUM_KEEPDIM];
    dim->given = keep->given = true;
    dim->n = 3, dim->u.v[0] = 0, dim->u.v[1] = 2, dim->u.v[2] = 3;
    dl_call c = {};
    c.op = dl_op_row(dl_id_sum), c.in = &g, c.nin = 1, c.out = &out, c.nout = 1, c.attr = attr;
    c.device = g->st->device, c.dtype = (dl_dtype)g->dtype;
    return dl_cuda_sum.run(&c);
}

/* Other windows: the gradient of relu, then that of max_pool2d. */
static dl_status by_steps(dl_back *b, dl_gpu *gpu, const window *w, dl_tensor *y, dl_tensor *index, dl_tensor *dx,
                          dl_tensor *db) {
    dl_tensor *g = dl_tmp(b, dl_cuda_empty_like(y, (dl_dtype)dx->dtype));
    if (!g) return dl_failed();
    dl_it it = dl_it_of({g, b->g[0], y});
    dl_status s = dl_dispatch<DL_FLOATS>(g->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return dl_each<passed_f, T, T, T>(gpu, it, passed_f());
    });
    if (s == DL_OK) s = spread<int>(gpu, w, g, index, dx);
    return s == DL_OK && db ? sum_channels(g, db) : s;
}

static dl_status grad_relu_max_pool2d(dl_back *b) {
    dl_gpu *gpu;
    dl_tensor *index, *dx, *db = NULL, *y = OUT_(RELU_MAX_POOL2D_OUT), *g = b->g[0];
    window w;
    pairs p;
    if (!y) return dl_fail_null("the result");
    bool biased = NEED(RELU_MAX_POOL2D_BIAS);
    dl_status s = begin(b, &gpu, &index, &dx, &w);
    if (s != DL_OK) return s;
    bool fit = dl_is_contiguous(g) && (size_t)dl_ptr(g) % 16 == 0 && in_pairs(&w, y, index, dx, &p);
    long channels = dx->shape[1];
    if (biased && !(db = dl_tmp(b, dl_tensor_empty(1, &channels, (dl_dtype)dx->dtype, dx->st->device))))
        return dl_failed();
    s = fit ? by_pairs(gpu, &p, g, y, index, dx, db) : by_steps(b, gpu, &w, y, index, dx, db);
    if (s == DL_OK && NEED(RELU_MAX_POOL2D_INPUT)) s = dl_give(b, DL_IN_RELU_MAX_POOL2D_INPUT, dl_ref(dx));
    return s == DL_OK && biased ? dl_give(b, DL_IN_RELU_MAX_POOL2D_BIAS, dl_ref(db)) : s;
}

const dl_kernel dl_cuda_relu_max_pool2d = {run_relu_max_pool2d, grad_relu_max_pool2d, DL_FLOATS, NULL, 0};

/* ---- through the indices */

/* Operands: out, index, the plane of x. */
template <class T> struct pixel_gather_f {
    long h, w; /* steps of rows and columns of x */
    long width, pixels;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long at = *(const long *)p[1];
        bool good = at >= 0 && at < pixels;
        if (!good && at != DL_NO_PIXEL) dl_fault_raise(site, DL_FAULT_PIXEL, at, pixels);
        *(T *)p[0] = good ? ((const T *)p[2])[at / width * h + at % width * w] : T();
    }
};

static dl_status run_pool_gather(dl_call *c) {
    DL_USE_GPU(gpu, c->device);
    dl_tensor *x = c->in[0], *o = c->out[0];
    const long plane[4] = {x->stride[0], x->stride[1], 0, 0};
    dl_it it;
    dl_it_begin(&it, 4, o->shape);
    dl_it_tensor(&it, o);
    dl_it_tensor(&it, c->in[1]);
    dl_it_operand(&it, dl_ptr(x), dl_esize(x), 4, o->shape, plane);
    dl_it_end(&it);
    return dl_dispatch_size(dl_esize(x), [&](auto tag) {
        typedef decltype(tag) T;
        pixel_gather_f<T> f = {x->stride[2], x->stride[3], x->shape[3], x->shape[2] * x->shape[3],
                               dl_gpu_site(gpu, c->op)};
        return dl_places<3>(gpu, it, f);
    });
}
const dl_kernel dl_cuda_pool_gather = {run_pool_gather, NULL, DL_FLOATS, NULL, 0};

/* Operands: out, chosen, the plane of places in planes of the volume, of which each has `width`. */
struct volume_place_f {
    long h, w, width, all, pixels;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        const long at = *(const long *)p[1], plane = at / width;
        const bool good = at >= 0 && at < all;
        if (!good && at != DL_NO_PIXEL) dl_fault_raise(site, DL_FAULT_PIXEL, at, all);
        *(long *)p[0] = good ? plane * pixels + ((const long *)p[2])[plane * h + at % width * w] : DL_NO_PIXEL;
    }
};

static dl_status run_volume_places(dl_call *c) {
    DL_USE_GPU(gpu, c->device);
    dl_tensor *in = c->in[0], *o = c->out[0];
    const long plane[4] = {in->stride[0], in->stride[1], 0, 0};
    if (!o->numel) return DL_OK;
    dl_it it;
    dl_it_begin(&it, 4, o->shape);
    dl_it_tensor(&it, o);
    dl_it_tensor(&it, c->in[1]);
    dl_it_operand(&it, dl_ptr(in), dl_esize(in), 4, o->shape, plane);
    dl_it_end(&it);
    return dl_places<3>(gpu, it,
                        volume_place_f{in->stride[2], in->stride[3], in->shape[3] > 0 ? in->shape[3] : 1,
                                       in->shape[2] * in->shape[3], ATTR_I(c, VOLUME_PLACES_PIXELS),
                                       dl_gpu_site(gpu, c->op)});
}
const dl_kernel dl_cuda_volume_places = {run_volume_places, NULL, DL_BIT(DL_I64), NULL, 0};

/* Operands: where the key goes, index, the number of the first pixel of the plane. */
template <class K> struct pixel_key_f {
    long width, pixels, h, w, none;
    dl_fault_site site;
    __device__ void operator()(char *const *p) const {
        long at = *(const long *)p[1];
        bool good = at >= 0 && at < pixels;
        if (!good && at != DL_NO_PIXEL) dl_fault_raise(site, DL_FAULT_PIXEL, at, pixels);
        *(K *)p[0] = (K)(good ? (long)p[2] + at / width * h + at % width * w : none);
    }
};

/* Keys are places in the memory of the result, in the order of the source. */
template <class K> static dl_status scatter(dl_gpu *g, dl_call *c, const dl_scatter *a) {
    dl_tensor *o = c->out[0], *index = c->in[1];
    long step[4] = {o->stride[0], o->stride[1], 0, 0}, count[4];
    K *key = (K *)dl_gpu_take(g, sizeof(K) * (size_t)a->n);
    if (!key) return dl_failed();
    dl_strides_contiguous(4, index->shape, count);
    dl_it it;
    dl_it_begin(&it, 4, index->shape);
    dl_it_operand(&it, key, sizeof *key, 4, index->shape, count);
    dl_it_tensor(&it, index);
    dl_it_count(&it, 4, index->shape, step);
    dl_it_end(&it);
    pixel_key_f<K> f = {o->shape[3],    o->shape[2] * o->shape[3], o->stride[2], o->stride[3],
                        (long)o->numel, dl_gpu_site(g, c->op)};
    dl_status s = dl_places<3>(g, it, f);
    if (s == DL_OK) s = dl_cuda_scatter_sorted(g, a, key);
    dl_gpu_drop(g, key);
    return s;
}

static dl_status run_pool_scatter(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *o = c->out[0], *v = g ? dl_cuda_contiguous(g, c->in[0]) : NULL;
    if (!v) return dl_failed();
    dl_status s = dl_cuda_clear(g, o);
    dl_scatter a = {dl_ptr(o), dl_ptr(v), o->dtype, 1, (long)o->numel, (long)v->numel, 1, false};
    if (s == DL_OK && a.n) s = dl_scatter_narrow(&a) ? scatter<unsigned>(g, c, &a) : scatter<uint64_t>(g, c, &a);
    dl_unref(v);
    return s;
}
const dl_kernel dl_cuda_pool_scatter = {run_pool_scatter, NULL, DL_FLOATS, NULL, 0};
