/* Kernels of conv2d_relu_max_pool2d. One kernel convolves and pools images of at most four channels in f32, with 3x3
 * kernels, stride 1 and pooling windows of 2x2; the gradient of weight and bias reads only the maxima. Operands are
 * dense with channels first. Other calls run conv2d, then relu_max_pool2d. Kept for its speed: a step takes 0.38 to
 * 0.70 of the time of the two ops (`run bench conv_ways` of tools/bundle, H200, 7 of 7 shapes). */
#include "cuda/conv/sums.h"
#include "core/aside.h"
#include "ops/conv.h"
#include "cuda/runtime/iter.cuh"
#include "cuda/runtime/shared_memory.cuh"
#include "cuda/kernels/rows.cuh"
#include "ops/names/conv.h"

#include <type_traits>

enum { K = 3, MOST_CHANNELS = 4, TWO = 2, FOUR = 4, SIX = 6, MOST_WIDE = 128 };
enum { THREADS = 128, GRAD_THREADS = 512, GRAD_WARPS = GRAD_THREADS / DL_WARP, WINDOWS = 2048 };

/* Sizes of the images, of the convolution's result and of the pooled result. */
struct pooled {
    int O, in[2], pad[2], wide, out[2];
};

/* ---- forward: a thread computes two adjacent pooling windows, in some of the result channels */

struct pair_walk {
    pooled p;
    dl_divisor pairs, high; /* pairs of windows in a row; rows of windows */
    uint32_t n;
    int each; /* result channels of a block */
    bool even;
};

/* Reads the pixels under two windows, 0 outside the image. NEAT: the middle four are an aligned vector. */
template <int C, bool NEAT>
__device__ inline void pixels_under(const pooled &p, const float *x, int top, int left, float (&v)[C][FOUR][SIX]) {
#pragma unroll
    for (int c = 0; c < C; c++, x += (long)p.in[0] * p.in[1])
#pragma unroll
        for (int r = 0; r < FOUR; r++) {
            bool row = (unsigned)(top + r) < (unsigned)p.in[0];
            const float *from = x + (long)(top + r) * p.in[1] + left;
            if (NEAT) {
                float4 q = row ? *(const float4 *)(from + 1) : make_float4(0, 0, 0, 0);
                v[c][r][1] = q.x, v[c][r][2] = q.y, v[c][r][3] = q.z, v[c][r][4] = q.w;
            }
#pragma unroll
            for (int k = 0; k < SIX; k += NEAT ? SIX - 1 : 1)
                v[c][r][k] = row && (unsigned)(left + k) < (unsigned)p.in[1] ? from[k] : 0.0f;
        }
}

/* The maximum of each window and its index, with the ties and NaN of relu_max_pool2d. What is pooled replaces a. */
__device__ inline void largest(const pooled &p, float (&a)[TWO][FOUR], float bias, int place, float (&best)[TWO],
                               int (&at)[TWO]) {
#pragma unroll
    for (int k = 0; k < TWO; k++) {
        best[k] = -INFINITY, at[k] = place + TWO * k;
#pragma unroll
        for (int e = 0; e < FOUR; e++) {
            float v = a[e / TWO][TWO * k + e % TWO] + bias;
            v = v < 0 ? 0.0f : v, a[e / TWO][TWO * k + e % TWO] = v;
            if (v > best[k] || v != v) best[k] = v, at[k] = place + TWO * k + e / TWO * p.wide + e % TWO;
        }
    }
}

/* The sum of the squares of what is pooled in the first `windows` of two. In f32, unless that cannot hold it. */
__device__ inline double squares_of(const float (&a)[TWO][FOUR], int windows) {
    float few = 0;
#pragma unroll
    for (int e = 0; e < TWO * FOUR; e++)
        if (e % FOUR / TWO < windows) few += a[e / FOUR][e % FOUR] * a[e / FOUR][e % FOUR];
    if (few < 1e30f) return (double)few;
    double sum = 0;
#pragma unroll
    for (int e = 0; e < TWO * FOUR; e++)
        if (e % FOUR / TWO < windows) sum += (double)a[e / FOUR][e % FOUR] * (double)a[e / FOUR][e % FOUR];
    return sum;
}

/* Pair number i of the windows, in channels o0 to o0 + some. SQUARES: returns the sum of what squares_of gives. */
template <int C, bool NEAT, bool SQUARES>
__device__ inline double pool_pair(const pair_walk &w, uint32_t i, const float *x, const float *taps, int o0, int some,
                                   float *y, int *index) {
    enum { TAPS = C * K * K, ROW = (TAPS + FOUR) / FOUR * FOUR };
    const pooled &p = w.p;
    float v[C][FOUR][SIX];
    double sum = 0;
    uint32_t line = w.pairs.quotient(i), image = w.high.quotient(line);
    int row = (int)(line - image * w.high.d), col = (int)(i - line * w.pairs.d) * TWO;
    pixels_under<C, NEAT>(p, x + (long)image * C * p.in[0] * p.in[1], row * TWO - p.pad[0], col * TWO - p.pad[1], v);
    long plane = (long)p.out[0] * p.out[1], to = ((long)image * p.O + o0) * plane + (long)row * p.out[1] + col;
#pragma unroll 1
    for (int o = 0; o < some; o++, to += plane) {
        float t[ROW], a[TWO][FOUR] = {}, best[TWO];
        int at[TWO];
        dl_read(taps + o * ROW, t);
#pragma unroll
        for (int k = 0; k < TAPS; k++)
#pragma unroll
            for (int e = 0; e < TWO * FOUR; e++)
                a[e / FOUR][e % FOUR] += t[k] * v[k / (K * K)][k / K % K + e / FOUR][k % K + e % FOUR];
        largest(p, a, t[TAPS], row * TWO * p.wide + col * TWO, best, at);
        if (SQUARES) sum += squares_of(a, p.out[1] - col);
        if (w.even) {
            *(float2 *)(y + to) = make_float2(best[0], best[1]);
            *(int2 *)(index + to) = make_int2(at[0], at[1]);
            continue;
        }
#pragma unroll
        for (int k = 0; k < TWO; k++)
            if (col + k < p.out[1]) y[to + k] = best[k], index[to + k] = at[k];
    }
    return sum;
}

/* squares: a place for each block. */
template <int C, bool NEAT, bool SQUARES>
__global__ void __launch_bounds__(THREADS, 4)
    pooled_kernel(const __grid_constant__ pair_walk w, const float *x, const float *weight, const float *bias,
                  long bias_step, float *y, int *index, double *squares) {
    enum { TAPS = C * K * K, ROW = (TAPS + FOUR) / FOUR * FOUR };
    extern __shared__ float4 both[];
    float *taps = (float *)both;
    int o0 = blockIdx.y * w.each, some = w.p.O - o0 < w.each ? w.p.O - o0 : w.each;
    for (int i = threadIdx.x; i < some * ROW; i += THREADS) {
        int o = o0 + i / ROW, t = i % ROW;
        taps[i] = t < TAPS ? weight[o * TAPS + t] : t == TAPS && bias ? bias[o * bias_step] : 0.0f;
    }
    __syncthreads();
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    double sum = i < w.n ? pool_pair<C, NEAT, SQUARES>(w, i, x, taps, o0, some, y, index) : 0;
    if (!SQUARES) return;
    __shared__ double shared[THREADS / DL_WARP];
    sum = dl_row_join(sum, dl_sum_f(), shared, THREADS);
    if (!threadIdx.x) squares[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/* ---- gradients of weight and bias. A lane has one result channel, a warp some windows of a band; asynchronous copies
 * fetch the next band to shared memory meanwhile. Of the 4x4 pixels under a window, the 3x3 around its maximum count.
 */

struct pool_bands {
    pooled p;
    dl_divisor each, windows, row; /* bands in an image; windows in a band, a multiple of four; windows in a row */
    int rows, high, pitch,
        step; /* rows of windows, rows of pixels; elements between rows of pixels, and between channels of windows */
    int pixels, size; /* elements of a band's pixels; of all its data */
    uint32_t n;       /* bands in the batch */
    bool fours;       /* the windows of a channel are whole aligned vectors */
};

typedef struct gradient {
    const float *x, *g, *y;
    const int *index;
    float *dw, *db; /* db NULL: not wanted */
} gradient;

/* Starts the copies of a band: padded pixels as [channel][row][column], then results, gradients and indices, each as
 * [result channel][window]. Missing windows are filled with 0. */
template <int C, int LANES>
__device__ void fetch_band(const pool_bands &b, uint32_t band, int o0, const gradient &q, float *to) {
    const pooled &p = b.p;
    uint32_t n = b.each.quotient(band);
    int first = (int)(band - n * b.each.d) * b.rows, lane = threadIdx.x % DL_WARP;
    for (int line = threadIdx.x / DL_WARP; line < C * b.high; line += GRAD_WARPS) {
        int c = line / b.high, h = first * TWO - p.pad[0] + line - c * b.high;
        const float *from = q.x + (((long)n * C + c) * p.in[0] + h) * p.in[1] - p.pad[1];
        for (int k = lane; k < b.pitch; k += DL_WARP) {
            bool in = (unsigned)h < (unsigned)p.in[0] && (unsigned)(k - p.pad[1]) < (unsigned)p.in[1];
            dl_copy_or_clear(to + line * b.pitch + k, in ? from + k : q.x, in);
        }
    }
    to += b.pixels;
    int plane = p.out[0] * p.out[1], start = first * p.out[1];
    for (uint32_t i = threadIdx.x * FOUR; i < LANES * b.windows.d; i += GRAD_THREADS * FOUR) {
        uint32_t o = b.windows.quotient(i), at = i - o * b.windows.d;
        int left = o0 + (int)o < p.O ? plane - start - (int)at : 0;
        long from = left > 0 ? ((long)n * p.O + o0 + o) * plane + start + at : 0;
        float *own = to + o * b.step + at;
        const float *part[] = {q.y, q.g, (const float *)q.index};
#pragma unroll
        for (int k = 0; k < 3; k++, own += LANES * b.step) {
            if (b.fours)
                dl_copy_four_or_clear(own, part[k] + from, left > 0);
            else
#pragma unroll
                for (int e = 0; e < FOUR; e++) dl_copy_or_clear(own + e, part[k] + (e < left ? from + e : 0), e < left);
        }
    }
    dl_copies_end();
}

/* Adds one window's products to the sums; place: index of its maximum. */
template <int C>
__device__ inline void add_window(const pool_bands &b, const float *from, float grad, int place,
                                  float (&sum)[C * K * K + 1]) {
    bool down = place >= b.p.wide, right = place - (down ? b.p.wide : 0) != 0;
    float near = right ? 0.0f : grad, far = right ? grad : 0.0f;
    if (down) from += b.pitch;
#pragma unroll
    for (int c = 0; c < C; c++, from += (b.high - K) * b.pitch)
#pragma unroll
        for (int r = 0; r < K; r++, from += b.pitch) {
            float2 low = *(const float2 *)from, high = *(const float2 *)(from + TWO);
            float v[FOUR] = {low.x, low.y, high.x, high.y};
#pragma unroll
            for (int k = 0; k < K; k++) {
                float &s = sum[(c * K + r) * K + k];
                s += near * v[k], s += far * v[k + 1];
            }
        }
    sum[C * K * K] += grad;
}

/* Adds the products of four windows of a channel, from `at` on. */
template <int C, int LANES>
__device__ inline void add_four(const pool_bands &b, uint32_t band, const float *data, uint32_t at, int o,
                                float (&sum)[C * K * K + 1]) {
    const float *own = data + b.pixels + o * b.step + at;
    float y[FOUR], g[FOUR], places[FOUR];
    dl_read(own, y), dl_read(own + LANES * b.step, g), dl_read(own + 2 * LANES * b.step, places);
    int first = (int)(band - b.each.quotient(band) * b.each.d) * b.rows;
#pragma unroll
    for (int k = 0; k < FOUR; k++) {
        uint32_t row = b.row.quotient(at + k), col = at + k - row * b.row.d;
        if (row >= (uint32_t)b.rows) break;
        bool passes = !(y[k] <= 0);
        int place = __float_as_int(places[k]) - TWO * ((first + (int)row) * b.p.wide + (int)col);
        add_window<C>(b, data + row * TWO * b.pitch + col * TWO, passes ? g[k] : 0.0f, passes ? place : 0, sum);
    }
}

/* A block handles LANES result channels; with 16, the two halves of a warp take different windows. Writes its sums to
 * part[share][weights, then biases]. */
template <int C, int LANES>
__global__ void __launch_bounds__(GRAD_THREADS, 2)
    gradient_kernel(const __grid_constant__ pool_bands b, const __grid_constant__ gradient q, float *part) {
    enum { TAPS = C * K * K, SUMS = TAPS + 1, TURNS = DL_WARP / LANES };
    extern __shared__ float4 both[];
    float *data = (float *)both, sum[SUMS] = {};
    int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP, o0 = blockIdx.x * LANES, side = 0;
    fetch_band<C, LANES>(b, blockIdx.y, o0, q, data);
    for (uint32_t band = blockIdx.y, next; band < b.n; band = next, side ^= 1) {
        next = band + gridDim.y;
        dl_copies_wait();
        __syncthreads(); /* the band has arrived, and no thread reads the other buffer any more */
        if (next < b.n) fetch_band<C, LANES>(b, next, o0, q, data + (side ^ 1) * b.size);
        for (uint32_t at = (warp * TURNS + lane / LANES) * FOUR; at < b.windows.d; at += GRAD_WARPS * TURNS * FOUR)
            add_four<C, LANES>(b, band, data + side * b.size, at, lane % LANES, sum);
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < SUMS; t++) data[(t * GRAD_WARPS + warp) * DL_WARP + lane] = sum[t];
    __syncthreads();
    part += (size_t)blockIdx.y * b.p.O * SUMS;
    for (int i = threadIdx.x; i < SUMS * LANES; i += GRAD_THREADS) {
        int t = i / LANES, to = o0 + i % LANES;
        float all = 0;
        for (int k = 0; k < GRAD_WARPS * TURNS; k++) all += data[t * GRAD_WARPS * DL_WARP + k * LANES + i % LANES];
        if (to < b.p.O) part[t < TAPS ? to * TAPS + t : b.p.O * TAPS + to] = all;
    }
}

/* ---- calls */

static bool plain(const dl_tensor *t) { return !t || (t->dtype == DL_F32 && dl_is_contiguous(t)); }

/* True if the kernels above take this convolution and these windows; *g is then the geometry of the convolution. */
static bool fits(const dl_aval *attr, dl_tensor *x, dl_tensor *w, dl_conv *g) {
    dl_tensor *in[2] = {x, w};
    dl_call conv = {};
    conv.op = dl_op_row(dl_id_conv2d), conv.in = in, conv.nin = 2, conv.attr = attr;
    const dl_aval *size = &attr[DL_A_CONV2D_RELU_MAX_POOL2D_POOL_SIZE];
    bool tiles = true;
    if (!plain(x) || !plain(w) || x->shape[1] > MOST_CHANNELS || dl_conv_of(&conv, g) != DL_OK) return false;
    for (int d = 0; d < 2; d++)
        tiles = tiles && size->u.v[size->n == 2 ? d : 0] == TWO && g->k[d] == K && g->stride[d] == 1 && g->dil[d] == 1;
    return tiles && g->groups == 1;
}

/* Is the call one for them? */
static bool takes(const dl_aval *attr, dl_tensor *x, dl_tensor *w, const dl_tensor *out, const dl_tensor *index,
                  dl_conv *g) {
    return plain(out) && dl_is_contiguous(index) && out->shape[3] <= MOST_WIDE && x->numel >> 31 == 0 &&
           out->numel >> 31 == 0 && out->numel && fits(attr, x, w, g);
}

bool dl_cuda_pools_at_once(const dl_call *c) {
    dl_conv g;
    bool images = dl_recording() && dl_requires_grad(c->in[0]); /* whose gradient the kernels do not make */
    return dl_precision_get() == DL_PRECISION_F32 && !images && fits(c->attr, c->in[0], c->in[1], &g);
}

static pooled pooled_of(const dl_conv *g, const dl_tensor *out) {
    pooled p;
    p.O = (int)g->O, p.wide = (int)g->out[1];
    for (int d = 0; d < 2; d++) p.in[d] = (int)g->in[d], p.pad[d] = (int)g->pad[d], p.out[d] = (int)out->shape[2 + d];
    return p;
}

/* Calls f(channels) with a compile-time constant. */
template <class F> static dl_status by_channels(long C, F f) {
    switch (C) {
    case 1: return f(std::integral_constant<int, 1>());
    case 2: return f(std::integral_constant<int, 2>());
    case 3: return f(std::integral_constant<int, 3>());
    default: return f(std::integral_constant<int, 4>());
    }
}

/* Room for the squares of n blocks, where they are wanted and the windows reach all results; else *squares is NULL. */
static dl_status take_squares(const dl_conv *g, const dl_tensor *out, long n, double **squares) {
    const bool all = g->out[0] == TWO * out->shape[2] && g->out[1] == TWO * out->shape[3];
    dl_tensor **sums = all ? dl_squares_wanted() : NULL;
    *squares = NULL;
    if (!sums) return DL_OK;
    if (!(*sums = dl_tensor_empty(1, &n, DL_F64, out->st->device))) return dl_failed();
    *squares = (double *)dl_ptr(*sums);
    return DL_OK;
}

static dl_status forward(dl_gpu *gpu, const dl_conv *g, dl_call *c) {
    enum { BLOCKS = 8 }; /* wanted per multiprocessor, so that few idle at the end */
    dl_tensor *out = c->out[0], *bias = INPUT(c, CONV2D_RELU_MAX_POOL2D_BIAS);
    const float *x = (const float *)dl_ptr(c->in[0]), *b = bias ? (const float *)dl_ptr(bias) : NULL;
    pair_walk w;
    w.p = pooled_of(g, out);
    long pairs = (out->shape[3] + 1) / TWO, n = g->N * out->shape[2] * pairs, blocks = (n + THREADS - 1) / THREADS;
    long parts = (BLOCKS * gpu->sms + blocks - 1) / blocks;
    if (parts > g->O) parts = g->O;
    w.pairs = dl_divisor((uint32_t)pairs), w.high = dl_divisor((uint32_t)out->shape[2]), w.n = (uint32_t)n;
    w.each = (int)((g->O + parts - 1) / parts);
    w.even = out->shape[3] % TWO == 0 && ((size_t)dl_ptr(out) | (size_t)dl_ptr(c->out[1])) % 8 == 0;
    bool neat = g->pad[1] == 1 && g->in[1] % FOUR == 0 && (size_t)x % 16 == 0;
    dim3 grid((unsigned)blocks, (unsigned)((g->O + w.each - 1) / w.each));
    double *squares;
    DL_TRY(take_squares(g, out, (long)grid.x * grid.y, &squares));
    return by_channels(g->C, [&](auto C) {
        auto kernel = squares ? neat ? pooled_kernel<C(), true, true> : pooled_kernel<C(), false, true>
                      : neat ? pooled_kernel<C(), true, false>
                              : pooled_kernel<C(), false, false>;
        size_t bytes = (size_t)w.each * (C() * K * K + FOUR) / FOUR * FOUR * sizeof(float);
        kernel<<<grid, THREADS, bytes, gpu->stream>>>(w, x, (const float *)dl_ptr(c->in[1]), b,
                                                      bias ? bias->stride[0] : 0, (float *)dl_ptr(out),
                                                      (int *)dl_ptr(c->out[1]), squares);
        return dl_gpu_launched(gpu);
    });
}

static dl_status run_conv2d_relu_max_pool2d(dl_call *c) {
    dl_gpu *gpu = dl_gpu_use(c->device);
    dl_conv g;
    if (!gpu) return dl_failed();
    if (takes(c->attr, c->in[0], c->in[1], c->out[0], c->out[1], &g)) return forward(gpu, &g, c);
    dl_conv_pool p;
    dl_status s = dl_conv_pool_begin(c, &p);
    if (s == DL_OK) s = dl_cuda_conv2d.run(&p.conv);
    if (s == DL_OK && c->out[0]->numel) s = dl_cuda_relu_max_pool2d.run(&p.pool);
    dl_conv_pool_end(&p);
    return s;
}

/* Bands of equal height with at most `most` windows, or of one row; a multiple of four windows where possible. */
static pool_bands bands_of(const dl_conv *g, const dl_tensor *out, const gradient &q, long most, long lanes) {
    pool_bands b;
    long high = out->shape[2], wide = out->shape[3], unit = wide % FOUR == 0 ? 1 : wide % TWO == 0 ? TWO : FOUR;
    if (unit * wide > most) unit = 1;
    long rows = wide < most ? most / (wide * unit) * unit : 1, each = (high + rows - 1) / rows;
    rows = ((high + each - 1) / each + unit - 1) / unit * unit, each = (high + rows - 1) / rows;
    long windows = (rows * wide + FOUR - 1) / FOUR * FOUR;
    b.p = pooled_of(g, out);
    b.each = dl_divisor((uint32_t)each), b.windows = dl_divisor((uint32_t)windows);
    b.row = dl_divisor((uint32_t)wide), b.n = (uint32_t)(g->N * each);
    b.rows = (int)rows, b.high = (int)(rows + 1) * TWO, b.pitch = (int)(wide + 1) * TWO;
    b.step = ((int)windows / FOUR | 1) * FOUR; /* an odd number of fours, so that channels lie in different banks */
    b.pixels = ((int)g->C * b.high * b.pitch + 3) / FOUR * FOUR, b.size = b.pixels + 3 * (int)lanes * b.step;
    b.fours = high * wide % FOUR == 0 && (each == 1 || windows == rows * wide) &&
              ((size_t)q.g | (size_t)q.y | (size_t)q.index) % 16 == 0;
    return b;
}

template <int C, int LANES>
static dl_status backward(dl_gpu *gpu, const dl_conv *g, const dl_tensor *out, const gradient &q) {
    auto kernel = gradient_kernel<C, LANES>;
    pool_bands b = bands_of(g, out, q, WINDOWS / LANES, LANES);
    long chunks = (g->O + LANES - 1) / LANES, n = g->O * (C * K * K + 1), shares;
    long bands = 2L * b.size, sums = (C * K * K + 1) * GRAD_THREADS, most = bands > sums ? bands : sums;
    long bytes = most * (long)sizeof(float);
    dl_status s = dl_conv_shares(gpu, (const void *)kernel, GRAD_THREADS, bytes, chunks, b.n, &shares);
    if (s != DL_OK) return s;
    float *part = (float *)dl_gpu_take(gpu, (size_t)(n * shares) * sizeof *part);
    if (!part) return dl_failed();
    dim3 grid((unsigned)chunks, (unsigned)shares);
    kernel<<<grid, GRAD_THREADS, (size_t)bytes, gpu->stream>>>(b, q, part);
    s = dl_conv_join_two(gpu, part, shares, g->O * C * K * K, q.dw, g->O, q.db);
    dl_gpu_drop(gpu, part);
    return s;
}

/* Computes the gradients of weight and bias and hands them to autograd. */
static dl_status give_gradients(dl_back *b, dl_gpu *gpu, const dl_conv *g, gradient q, const dl_tensor *out) {
    dl_tensor *w = IN_(CONV2D_RELU_MAX_POOL2D_WEIGHT),
              *dw = dl_tmp(b, dl_tensor_empty(4, w->shape, DL_F32, w->st->device)), *db = NULL;
    bool biased = NEED(CONV2D_RELU_MAX_POOL2D_BIAS);
    if (biased) db = dl_tmp(b, dl_tensor_empty(1, &g->O, DL_F32, w->st->device));
    if (!dw || (biased && !db)) return dl_failed();
    q.dw = (float *)dl_ptr(dw), q.db = db ? (float *)dl_ptr(db) : NULL;
    dl_status s = by_channels(g->C, [&](auto C) {
        return g->O <= 16 ? backward<C(), 16>(gpu, g, out, q) : backward<C(), 32>(gpu, g, out, q);
    });
    if (s == DL_OK && NEED(CONV2D_RELU_MAX_POOL2D_WEIGHT))
        s = dl_give(b, DL_IN_CONV2D_RELU_MAX_POOL2D_WEIGHT, dl_ref(dw));
    return s == DL_OK && biased ? dl_give(b, DL_IN_CONV2D_RELU_MAX_POOL2D_BIAS, dl_ref(db)) : s;
}

static dl_status grad_conv2d_relu_max_pool2d(dl_back *b) {
    dl_tensor *x = IN_(CONV2D_RELU_MAX_POOL2D_INPUT), *w = IN_(CONV2D_RELU_MAX_POOL2D_WEIGHT);
    dl_tensor *y = OUT_(CONV2D_RELU_MAX_POOL2D_OUT), *index = OUT_(CONV2D_RELU_MAX_POOL2D_INDICES);
    dl_conv g;
    if (!x || !w || !y || !index) return dl_fail_null("an operand");
    bool others = NEED(CONV2D_RELU_MAX_POOL2D_INPUT) || b->g[0]->dtype != DL_F32;
    if (others || !takes(b->attr, x, w, y, index, &g)) return b->op->grad(b);
    dl_gpu *gpu = dl_gpu_use(x->st->device);
    dl_tensor *grad = gpu ? dl_tmp(b, dl_cuda_contiguous(gpu, b->g[0])) : NULL;
    if (!grad) return dl_failed();
    gradient q = {(const float *)dl_ptr(x),
                  (const float *)dl_ptr(grad),
                  (const float *)dl_ptr(y),
                  (const int *)dl_ptr(index),
                  NULL,
                  NULL};
    return give_gradients(b, gpu, &g, q, y);
}

const dl_kernel dl_cuda_conv2d_relu_max_pool2d = {run_conv2d_relu_max_pool2d, grad_conv2d_relu_max_pool2d, DL_FLOATS,
                                                  NULL, 0};
