/* Convolution by strips. A thread computes a strip of STRIP results in one column; adjacent lanes have adjacent
 * columns, so that reads and writes are coalesced. Kept for its speed with few channels: up to 5.6 times as fast as
 * cuDNN (`run bench conv_ways` of tools/bundle, H200: at least 10 % faster than the libraries in 8 of 34 shapes
 * forward, and in 8 of 9 for the gradient of the weights). */
#include "cuda/conv/size.cuh"
#include "cuda/conv/sums.h"
#include "cuda/runtime/iter.cuh"
#include "cuda/kernels/rows.cuh"

enum { THREADS = 128, WARPS = THREADS / DL_WARP, STRIP = 4, OUTS = 16, TAPS_BYTES = 48 << 10, FEW = 4 };

/* Sizes; strips are numbered along rows, then down an image, then through the batch. */
struct direct_walk {
    dl_divisor width, strips;
    int C, O, in[2], out[2], pad[2];
    uint32_t n; /* strips in the batch */
};

/* A strip: its image, and row and column of its first result. */
struct direct_place {
    int n, row, col;
    __device__ direct_place(const direct_walk &w, uint32_t i) {
        uint32_t q = w.width.quotient(i), m = w.strips.quotient(q);
        col = (int)(i - q * w.width.d), row = (int)(q - m * w.strips.d) * STRIP, n = (int)m;
    }
};

/* Reads one column of the pixels under a strip, 0 in the padding. `from` is the channel's plane. */
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

/* ---- forward, and with flipped weights the gradient of the images */

/* A block computes OUTS result channels; shared memory holds their weights as [image channel][column][row][result
 * channel]. */
template <int K, int S>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(const __grid_constant__ direct_walk w, const __grid_constant__ dl_conv_weight weight, const float *x,
                   float *y) {
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
    const float *image = x + (long)at.n * w.C * w.in[0] * w.in[1], *from = image;
    float sum[OUTS][STRIP] = {}, odd = 0;
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
    float *begin = y + ((long)at.n * w.O + first) * plane + (long)at.row * w.out[1] + at.col, *to = begin;
#pragma unroll
    for (int o = 0; o < OUTS; o++, to += plane) {
        if (first + o >= w.O) break;
        odd += dl_conv_nan_unless_finite(sum[o]);
#pragma unroll
        for (int s = 0; s < STRIP; s++)
            if (at.row + s < w.out[0]) to[(long)s * w.out[1]] = sum[o][s];
    }
    if (odd == 0) return;
#pragma unroll 1
    for (int o = first; o < w.O && o < first + OUTS; o++)
#pragma unroll 1
        for (int s = 0; s < STRIP && at.row + s < w.out[0]; s++) {
            float *p = begin + (o - first) * plane + (long)s * w.out[1];
            if (!isfinite(*p)) *p = dl_conv_inside(image, w.in[0], w.in[1], w.C, K, top + s * S, left, weight, o);
        }
}

/* ---- gradient of the weights */

/* A block sums the taps between OB result channels and CB image channels over its share of the strips, and writes them
 * to part[share][weight]. */
template <int K, int S, int OB, int CB>
__global__ void __launch_bounds__(THREADS)
    weight_kernel(const __grid_constant__ direct_walk w, const float *x, const float *g, float *part) {
    __shared__ float shared[WARPS][OB * CB * K * K];
    int groups = (w.O + OB - 1) / OB, o0 = (int)blockIdx.x % groups * OB, c0 = (int)blockIdx.x / groups * CB;
    long image = (long)w.in[0] * w.in[1], plane = (long)w.out[0] * w.out[1];
    float sum[OB][CB][K][K] = {};
    for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < w.n; i += gridDim.y * THREADS) {
        direct_place at(w, i);
        int top = at.row * S - w.pad[0], left = at.col * S - w.pad[1];
        const float *from = x + ((long)at.n * w.C + c0) * image;
        const float *grad = g + ((long)at.n * w.O + o0) * plane + (long)at.row * w.out[1] + at.col;
        float d[OB][STRIP];
#pragma unroll
        for (int o = 0; o < OB; o++)
#pragma unroll
            for (int s = 0; s < STRIP; s++)
                d[o][s] = o0 + o < w.O && at.row + s < w.out[0] ? grad[o * plane + (long)s * w.out[1]] : 0.0f;
#pragma unroll
        for (int c = 0; c < CB; c++) {
            if (c0 + c >= w.C) break;
#pragma unroll
            for (int kj = 0; kj < K; kj++) {
                float v[(STRIP - 1) * S + K];
                column(w, from + c * image, top, left + kj, v);
#pragma unroll
                for (int ki = 0; ki < K; ki++)
#pragma unroll
                    for (int o = 0; o < OB; o++)
#pragma unroll
                        for (int s = 0; s < STRIP; s++) sum[o][c][ki][kj] += d[o][s] * v[s * S + ki];
            }
        }
    }
#pragma unroll
    for (int t = 0; t < OB * CB * K * K; t++) {
        float v = dl_row_join((&sum[0][0][0][0])[t], dl_sum_f(), (float *)NULL);
        if (threadIdx.x % DL_WARP == 0) shared[threadIdx.x / DL_WARP][t] = v;
    }
    __syncthreads();
    for (int t = threadIdx.x; t < OB * CB * K * K; t += THREADS) {
        int tap = t % (K * K), c = c0 + t / (K * K) % CB, o = o0 + t / (K * K * CB);
        float v = 0;
#pragma unroll
        for (int k = 0; k < WARPS; k++) v += shared[k][t];
        if (o < w.O && c < w.C) part[(((long)blockIdx.y * w.O + o) * w.C + c) * K * K + tap] = v;
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

bool dl_conv_strips_take(const dl_conv *g) {
    return g->C * g->k[0] * g->k[1] * OUTS * (long)sizeof(float) <= TAPS_BYTES;
}

dl_status dl_conv_strips(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight *weight, const float *x, float *y) {
    direct_walk w = walk_of(g);
    dim3 grid((w.n + THREADS - 1) / THREADS, (unsigned)((g->O + OUTS - 1) / OUTS));
    size_t taps = (size_t)(g->C * g->k[0] * g->k[1]) * OUTS * sizeof(float);
    return dl_by_size(g, [&](auto k, auto s) {
        forward_kernel<k(), s()><<<grid, THREADS, taps, gpu->stream>>>(w, *weight, x, y);
        return dl_gpu_launched(gpu);
    });
}

/* A thread keeps OB * CB * K * K sums in registers. */
template <int K, int S, int OB, int CB>
static dl_status weights(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw) {
    auto kernel = weight_kernel<K, S, OB, CB>;
    direct_walk w = walk_of(g);
    long n = g->O * g->C * K * K, pairs = (g->O + OB - 1) / OB * ((g->C + CB - 1) / CB), shares;
    dl_status s =
        dl_conv_shares(gpu, (const void *)kernel, THREADS, 0, pairs, ((long)w.n + THREADS - 1) / THREADS, &shares);
    if (s != DL_OK) return s;
    float *part = (float *)dl_gpu_take(gpu, (size_t)(n * shares) * sizeof *part);
    if (!part) return dl_failed();
    kernel<<<dim3((unsigned)pairs, (unsigned)shares), THREADS, 0, gpu->stream>>>(w, x, grad, part);
    s = dl_conv_join(gpu, g, x, grad, part, shares, dw);
    dl_gpu_drop(gpu, part);
    return s;
}

bool dl_conv_strip_weights_take(const dl_conv *g) { return g->C <= FEW; }

dl_status dl_conv_strip_weights(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw) {
    return dl_by_size(g, [&](auto k, auto s) {
        if constexpr (k() == 3)
            return g->C == 1   ? weights<3, s(), 8, 1>(gpu, g, x, grad, dw)
                   : g->C == 2 ? weights<3, s(), 4, 2>(gpu, g, x, grad, dw)
                               : weights<3, s(), 4, 3>(gpu, g, x, grad, dw);
        else
            return weights<k(), s(), (k() == 5 ? 4 : 2), 1>(gpu, g, x, grad, dw);
    });
}
