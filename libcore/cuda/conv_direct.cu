/* Convolution in f32 as plain sums over windows, without patches or transforms in between: square kernels of 3, 5 or 7,
 * one group, everything dense with channels first. A thread has a strip of a column of the results; neighbours in a
 * warp have neighbours in a row, so all memory is passed over side by side. It is at its best with few channels. */
#include "cuda/conv.h"
#include "cuda/iter.cuh"
#include "cuda/near.cuh"
#include "cuda/rows.cuh"

enum {
    THREADS = 128,
    WARPS = THREADS / DL_WARP,
    STRIP = 4,
    OUTS = 16,
    FOUR = 4,
    FEW = 4,
    TAPS_BYTES = 48 << 10,
    BAND_BYTES = 48 << 10
};

/* Sizes, and how strips are counted: along rows, down the images, through the batch. */
struct direct_walk {
    dl_divisor width, strips;
    int C, O, in[2], out[2], pad[2];
    uint32_t n; /* strips */
};

/* A strip: its image and the place of its first result. */
struct direct_place {
    int n, row, col;
    __device__ direct_place(const direct_walk &w, uint32_t i) {
        uint32_t q = w.width.quotient(i), m = w.strips.quotient(q);
        col = (int)(i - q * w.width.d), row = (int)(q - m * w.strips.d) * STRIP, n = (int)m;
    }
};

/* Pixels under one column of the windows of a strip; 0 in the padding. `from` is the plane. */
template <int ROWS>
__device__ inline void column(const direct_walk &w, const float *from, int top, int left, float (&v)[ROWS]) {
    bool in = (unsigned)left < (unsigned)w.in[1];
    const float *p = from + (long)top * w.in[1] + left;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        v[r] = in && (unsigned)(top + r) < (unsigned)w.in[0] ? *p : 0.0f;
        p += w.in[1];
    }
}

/* ---- results, and with weights turned round gradients of images */

/* A block has OUTS channels, whose weights are laid out as [channel of the image][column][row][channel]. */
template <int K, int S>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(const __grid_constant__ direct_walk w, dl_conv_weight weight, const float *x, float *y) {
    extern __shared__ float4 laid[];
    float *taps = (float *)laid;
    const float4 *tap = laid;
    int first = blockIdx.y * OUTS;
    for (int i = threadIdx.x; i < w.C * K * K * OUTS; i += THREADS) {
        int o = first + i % OUTS, t = i / OUTS % (K * K), c = i / (OUTS * K * K), ki = t % K, kj = t / K;
        int at = weight.turned ? K * K - 1 - (ki * K + kj) : ki * K + kj;
        taps[i] = o < w.O ? weight.p[o * weight.out + c * weight.in + at] : 0.0f;
    }
    __syncthreads();
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= w.n) return;
    direct_place at(w, i);
    int top = at.row * S - w.pad[0], left = at.col * S - w.pad[1];
    const float *from = x + (long)at.n * w.C * w.in[0] * w.in[1];
    float sum[OUTS][STRIP] = {};
    for (int c = 0; c < w.C; c++, from += (long)w.in[0] * w.in[1]) {
#pragma unroll
        for (int kj = 0; kj < K; kj++) {
            float v[(STRIP - 1) * S + K];
            column(w, from, top, left + kj, v);
#pragma unroll
            for (int ki = 0; ki < K; ki++, tap += OUTS / 4) {
#pragma unroll
                for (int o = 0; o < OUTS; o += 4) {
                    float4 t = tap[o / 4];
#pragma unroll
                    for (int s = 0; s < STRIP; s++) {
                        sum[o][s] += t.x * v[s * S + ki], sum[o + 1][s] += t.y * v[s * S + ki];
                        sum[o + 2][s] += t.z * v[s * S + ki], sum[o + 3][s] += t.w * v[s * S + ki];
                    }
                }
            }
        }
    }
    long plane = (long)w.out[0] * w.out[1];
    float *to = y + ((long)at.n * w.O + first) * plane + (long)at.row * w.out[1] + at.col;
#pragma unroll
    for (int o = 0; o < OUTS; o++, to += plane) {
        if (first + o >= w.O) return;
#pragma unroll
        for (int s = 0; s < STRIP; s++)
            if (at.row + s < w.out[0]) to[(long)s * w.out[1]] = sum[o][s];
    }
}

/* ---- gradients of weights */

/* Work goes by bands: some rows of the results of an image, and the pixels under them, which lie in shared memory with
 * their padding. */
struct direct_bands {
    dl_divisor quads, each, pitch; /* fours of a row of results; bands of an image; elements of a row of pixels */
    int rows, high, size;          /* of results, of pixels; elements of the pixels of a channel */
    int tiles;                     /* a warp's fours, so often */
    int groups, blocks;            /* of OB channels of results: in a block; blocks for all of them */
    uint32_t n;                    /* bands of the batch */
};

/* Starts to fetch the pixels of a band, CB channels from c0 on. */
template <int CB>
__device__ void fetch(const direct_walk &w, const direct_bands &b, const float *x, uint32_t band, int stride, int c0,
                      float *to) {
    uint32_t n = b.each.quotient(band);
    int top = (int)(band - n * b.each.d) * b.rows * stride - w.pad[0];
    const float *image = x + ((long)n * w.C + c0) * w.in[0] * w.in[1];
    for (uint32_t at = threadIdx.x; at < b.high * b.pitch.d; at += THREADS) {
        int row = (int)b.pitch.quotient(at), h = top + row, k = (int)(at - row * b.pitch.d) - w.pad[1];
        bool in = (unsigned)h < (unsigned)w.in[0] && (unsigned)k < (unsigned)w.in[1];
        const float *from = image + (in ? h * w.in[1] + k : 0);
#pragma unroll
        for (int c = 0; c < CB; c++) {
            bool real = in && c0 + c < w.C;
            dl_copy_or_clear(to + c * b.size + at, real ? from + (long)c * w.in[0] * w.in[1] : x, real);
        }
    }
    dl_copies_end();
}

/* The gradients of a thread's four results in a tile of a band. */
template <int OB, bool WHOLE>
__device__ inline void take(const direct_walk &w, const direct_bands &b, const float *g, uint32_t band, int tile,
                            int o0, float (&d)[OB][FOUR]) {
    uint32_t n = b.each.quotient(band), at = tile * DL_WARP + threadIdx.x % DL_WARP, row = b.quads.quotient(at);
    int y = (int)((band - n * b.each.d) * b.rows + row), col = (int)(at - row * b.quads.d) * FOUR;
    long plane = (long)w.out[0] * w.out[1];
    const float *from = g + ((long)n * w.O + o0) * plane + (long)y * w.out[1] + col;
    bool real = (int)row < b.rows && y < w.out[0];
#pragma unroll
    for (int o = 0; o < OB; o++, from += plane) {
        bool own = real && o0 + o < w.O;
        if (WHOLE) {
            float4 q = own ? *(const float4 *)from : make_float4(0, 0, 0, 0);
            d[o][0] = q.x, d[o][1] = q.y, d[o][2] = q.z, d[o][3] = q.w;
        } else {
#pragma unroll
            for (int k = 0; k < FOUR; k++) d[o][k] = own && col + k < w.out[1] ? from[k] : 0.0f;
        }
    }
}

/* The taps between OB channels of the results, a warp's, and CB of the image, a block's. Warps with the same channels
 * share the tiles of a band, blocks the bands; each warp leaves its sums in part[share][weight]. WHOLE: rows of results
 * are of whole fours. */
template <int K, int S, int OB, int CB, bool WHOLE>
__global__ void __launch_bounds__(THREADS, 3)
    weight_kernel(const __grid_constant__ direct_walk w, const __grid_constant__ direct_bands b, const float *x,
                  const float *g, float *part) {
    enum { WIDE = (FOUR - 1) * S + K };
    extern __shared__ float4 both[];
    float *pixels = (float *)both, sum[OB][CB][K][K] = {}, d[OB][FOUR];
    int warp = threadIdx.x / DL_WARP, lane = threadIdx.x % DL_WARP, share = warp / b.groups;
    int parts = WARPS / b.groups, c0 = (int)blockIdx.x / b.blocks * CB;
    int o0 = ((int)blockIdx.x % b.blocks * b.groups + warp % b.groups) * OB;
    fetch<CB>(w, b, x, blockIdx.y, S, c0, pixels);
    take<OB, WHOLE>(w, b, g, blockIdx.y, share, o0, d);
    int side = 0;
    for (uint32_t band = blockIdx.y, next; band < b.n; band = next, side ^= 1) {
        next = band + gridDim.y;
        dl_copies_wait();
        __syncthreads(); /* the band is there, and all are done with the other side */
        if (next < b.n) fetch<CB>(w, b, x, next, S, c0, pixels + (side ^ 1) * CB * b.size);
        for (int tile = share; tile < b.tiles; tile += parts) {
            float ahead[OB][FOUR];
            bool more = tile + parts < b.tiles;
            if (more || next < b.n)
                take<OB, WHOLE>(w, b, g, more ? band : next, more ? tile + parts : share, o0, ahead);
            uint32_t at = tile * DL_WARP + lane, row = b.quads.quotient(at);
            if ((int)row >= b.rows) row = at = 0; /* d is 0 */
            const float *p = pixels + side * CB * b.size + row * S * b.pitch.d + (at - row * b.quads.d) * (FOUR * S);
#pragma unroll
            for (int c = 0; c < CB; c++) {
                const float *from = p + c * b.size;
#pragma unroll
                for (int r = 0; r < K; r++, from += b.pitch.d) {
                    float v[WIDE];
                    dl_read(from, v);
#pragma unroll
                    for (int o = 0; o < OB; o++)
#pragma unroll
                        for (int k = 0; k < FOUR; k++)
#pragma unroll
                            for (int j = 0; j < K; j++) sum[o][c][r][j] += d[o][k] * v[k * S + j];
                }
            }
#pragma unroll
            for (int o = 0; o < OB; o++)
#pragma unroll
                for (int k = 0; k < FOUR; k++) d[o][k] = ahead[o][k];
        }
    }
    part += (size_t)(blockIdx.y * parts + share) * w.O * w.C * K * K;
#pragma unroll
    for (int t = 0; t < OB * CB * K * K; t++) {
        float v = dl_row_join((&sum[0][0][0][0])[t], dl_sum_f(), (float *)NULL);
        int c = c0 + t / (K * K) % CB, o = o0 + t / (K * K * CB);
        if (lane == t % DL_WARP && o < w.O && c < w.C) part[((size_t)o * w.C + c) * K * K + t % (K * K)] = v;
    }
}

/* ---- calls */

static direct_walk walk_of(const dl_conv *g) {
    direct_walk w;
    w.C = (int)g->C, w.O = (int)g->O;
    for (int d = 0; d < 2; d++) w.in[d] = (int)g->in[d], w.out[d] = (int)g->out[d], w.pad[d] = (int)g->pad[d];
    long strips = (g->out[0] + STRIP - 1) / STRIP;
    w.width = dl_divisor((uint32_t)g->out[1]), w.strips = dl_divisor((uint32_t)strips);
    w.n = (uint32_t)(g->N * strips * g->out[1]);
    return w;
}

/* f(kernel size, stride) for those there are code for. */
template <class F> static dl_status by_size(const dl_conv *g, F f) {
    typedef std::integral_constant<int, 1> one;
    typedef std::integral_constant<int, 2> two;
    bool single = g->stride[0] == 1;
#define BY(k)                                                                                                          \
    case k: return single ? f(std::integral_constant<int, k>(), one()) : f(std::integral_constant<int, k>(), two())
    switch (g->k[0]) {
        BY(3);
        BY(5);
        BY(7);
    default: return dl_fail(DL_ERR_UNSUPPORTED, "kernels of %ld are not summed up directly", g->k[0]);
    }
#undef BY
}

static dl_status forward(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight &weight, const void *x, void *y) {
    if (g->C > FEW && dl_conv_windows_takes(g)) return dl_conv_windows(gpu, g, &weight, (const float *)x, (float *)y);
    direct_walk w = walk_of(g);
    dim3 grid((w.n + THREADS - 1) / THREADS, (unsigned)((g->O + OUTS - 1) / OUTS));
    size_t taps = (size_t)(g->C * g->k[0] * g->k[1]) * OUTS * sizeof(float);
    return by_size(g, [&](auto k, auto s) {
        forward_kernel<k(), s()><<<grid, THREADS, taps, gpu->stream>>>(w, weight, (const float *)x, (float *)y);
        return dl_gpu_launched(gpu);
    });
}

/* Bands as large as BAND_BYTES allow for two of them; rows 0: none fits. */
static direct_bands bands_of(const dl_conv *g, int ob, int cb) {
    direct_bands b;
    long s = g->stride[0], k = g->k[0], quads = (g->out[1] + FOUR - 1) / FOUR;
    long pitch = ((quads * FOUR - 1) * s + k + FOUR - 1) / FOUR * FOUR;
    long most = BAND_BYTES / (long)(2 * cb * pitch * sizeof(float)), rows = most < k ? 0 : (most - k) / s + 1;
    if (rows > g->out[0]) rows = g->out[0];
    long each = rows ? (g->out[0] + rows - 1) / rows : 1, groups = (g->O + ob - 1) / ob;
    if (rows) rows = (g->out[0] + each - 1) / each; /* all alike */
    b.quads = dl_divisor((uint32_t)quads), b.each = dl_divisor((uint32_t)each), b.pitch = dl_divisor((uint32_t)pitch);
    b.rows = (int)rows, b.high = (int)((rows - 1) * s + k), b.size = (int)(b.high * pitch);
    b.tiles = (int)((rows * quads + DL_WARP - 1) / DL_WARP);
    for (b.groups = 1; b.groups < groups && b.groups < WARPS; b.groups *= 2) {}
    b.blocks = (int)((groups + b.groups - 1) / b.groups);
    b.n = (uint32_t)(g->N * each);
    return b;
}

/* OB * CB * K * K sums in the registers of a thread. */
template <int K, int S, int OB, int CB>
static dl_status weights(dl_gpu *gpu, const dl_conv *g, const void *x, const void *grad, void *dw) {
    bool whole = g->out[1] % FOUR == 0 && (size_t)grad % 16 == 0;
    auto kernel = whole ? weight_kernel<K, S, OB, CB, true> : weight_kernel<K, S, OB, CB, false>;
    direct_walk w = walk_of(g);
    direct_bands b = bands_of(g, OB, CB);
    size_t size = 2 * CB * (size_t)b.size * sizeof(float);
    int resident = 0;
    dl_status s = dl_gpu_check(gpu, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, THREADS, size),
                               "asking how many blocks fit");
    if (s != DL_OK) return s;
    long chunks = b.blocks * ((g->C + CB - 1) / CB), shares = (long)gpu->sms * resident / chunks;
    if (shares < 1) shares = 1;
    if (shares > b.n) shares = b.n;
    long rounds = (b.n + shares - 1) / shares, n = g->O * g->C * K * K, parts = WARPS / b.groups;
    shares = (b.n + rounds - 1) / rounds; /* all have as much to do */
    float *part = (float *)dl_gpu_take(gpu, (size_t)(n * shares * parts) * sizeof *part);
    if (!part) return dl_error_last()->code;
    kernel<<<dim3((unsigned)chunks, (unsigned)shares), THREADS, size, gpu->stream>>>(w, b, (const float *)x,
                                                                                     (const float *)grad, part);
    s = dl_conv_join(gpu, part, shares * parts, n, (float *)dw);
    dl_gpu_drop(gpu, part);
    return s;
}

static dl_status weight_gradient(dl_gpu *gpu, const dl_conv *g, const void *x, const void *grad, void *dw) {
    if (g->C > FEW && dl_conv_tiles_takes(g))
        return dl_conv_tiles(gpu, g, (const float *)x, (const float *)grad, (float *)dw);
    return by_size(g, [&](auto k, auto s) {
        if constexpr (k() == 3)
            return g->C == 1   ? weights<3, s(), 8, 1>(gpu, g, x, grad, dw)
                   : g->C == 2 ? weights<3, s(), 4, 2>(gpu, g, x, grad, dw)
                   : g->C == 3 ? weights<3, s(), 4, 3>(gpu, g, x, grad, dw)
                               : weights<3, s(), 4, 2>(gpu, g, x, grad, dw);
        else
            return weights<k(), s(), (k() == 5 ? 4 : 2), 1>(gpu, g, x, grad, dw);
    });
}

bool dl_conv_direct_takes(const dl_conv *g, dl_conv_kind kind, dl_dtype t) {
    dl_conv o = *g;
    bool square = g->k[0] == g->k[1] && g->stride[0] == g->stride[1] && g->dil[0] == 1 && g->dil[1] == 1;
    bool size = g->k[0] == 3 || g->k[0] == 5 || g->k[0] == 7;
    if (t != DL_F32 || !square || !size || g->stride[0] > 2 || g->groups > 1) return false;
    if (kind == DL_CONV_DX && !dl_conv_opposite(g, &o)) return false;
    if (kind == DL_CONV_DW) return bands_of(g, 1, 4).rows > 0;
    if (o.C > FEW && dl_conv_windows_takes(&o)) return true;
    return o.C * g->k[0] * g->k[1] * OUTS * (long)sizeof(float) <= TAPS_BYTES;
}

dl_status dl_conv_direct(const dl_conv_job *job) {
    const dl_conv *g = &job->g;
    int taps = (int)(g->k[0] * g->k[1]), C = (int)g->C;
    const float *weight = (const float *)dl_ptr(job->weight);
    dl_conv o;
    if (job->kind == DL_CONV_DW)
        return weight_gradient(job->gpu, g, dl_ptr(job->image), dl_ptr(job->result), dl_ptr(job->weight));
    if (job->kind == DL_CONV_FORWARD)
        return forward(job->gpu, g, {weight, (long)C * taps, taps, false}, dl_ptr(job->image), dl_ptr(job->result));
    dl_conv_opposite(g, &o);
    return forward(job->gpu, &o, {weight, taps, (long)C * taps, true}, dl_ptr(job->result), dl_ptr(job->image));
}
