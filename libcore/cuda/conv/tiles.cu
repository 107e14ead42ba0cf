/* Gradients of weights of 3x3 kernels in f32: a block multiplies gradients and pixels of some rows of an image, which
 * lie in shared memory, while those of the next rows are on their way there. A thread has the nine taps between EIGHT
 * channels of the results and one of the image, and reads four pixels of a row at once. */
#include "cuda/conv/sums.h"
#include "cuda/runtime/iter.cuh"
#include "cuda/runtime/shared_memory.cuh"
#include "cuda/kernels/rows.cuh"

enum { K = 3, EIGHT = 8, FOUR = 4, THREADS = 256, WARPS = THREADS / DL_WARP, PIXELS = 64, MOST_BYTES = 200 << 10 };

struct tile_walk {
    dl_divisor pitch, line, quads, bands; /* of the image's rows here and of the results'; of a row; of an image */
    int C, O, in[2], out[2], pad[2];
    int rows;              /* of results */
    int high, plane, size; /* of the image: rows, elements of a channel and of all */
    int chunks;            /* blocks for all channels of the results */
    uint32_t n;            /* pieces of work: bands of all images */
};

/* Starts to fetch a band: pixels as [channel][row][column] with their padding, and behind them gradients as
 * [row][column][channel]. */
template <int S, int OG, int TC>
__device__ void fetch(const tile_walk &w, const float *x, const float *g, uint32_t band, int o0, int c0, float *to) {
    enum { OP = OG * EIGHT + FOUR };
    int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP;
    uint32_t n = w.bands.quotient(band);
    int first = (int)(band - n * w.bands.d) * w.rows, top = first * S - w.pad[0];
    long image = (long)w.in[0] * w.in[1], plane = (long)w.out[0] * w.out[1];
    for (uint32_t at = lane; at < w.high * w.pitch.d; at += DL_WARP) {
        int row = (int)w.pitch.quotient(at), h = top + row, k = (int)(at - row * w.pitch.d) - w.pad[1];
        bool in = (unsigned)h < (unsigned)w.in[0] && (unsigned)k < (unsigned)w.in[1];
        const float *from = in ? x + ((long)n * w.C + c0 + warp) * image + (long)h * w.in[1] + k : x;
        long step = in ? WARPS * image : 0;
        for (int c = warp; c < TC; c += WARPS, from += step) {
            bool real = in && c0 + c < w.C;
            dl_copy_or_clear(to + c * w.plane + at, real ? from : x, real);
        }
    }
    to += w.size;
    for (uint32_t at = lane; at < w.rows * w.line.d; at += DL_WARP) {
        int row = (int)w.line.quotient(at), col = (int)(at - row * w.line.d);
        bool in = first + row < w.out[0] && col < w.out[1];
        const float *from = in ? g + ((long)n * w.O + o0 + warp) * plane + (long)(first + row) * w.out[1] + col : g;
        long step = in ? WARPS * plane : 0;
        for (int o = warp; o < OG * EIGHT; o += WARPS, from += step) {
            bool real = in && o0 + o < w.O;
            dl_copy_or_clear(to + at * OP + o, real ? from : g, real);
        }
    }
    dl_copies_end();
}

/* OG * EIGHT channels of the results, TC of the image; threads that have the same of both share the pixels. The sums of
 * a block go to part[share][weight]. */
template <int S, int OG, int TC>
__global__ void __launch_bounds__(THREADS, 2)
    tiles_kernel(const __grid_constant__ tile_walk w, const float *x, const float *g, float *part) {
    enum { PARTS = THREADS / (OG * TC), OP = OG * EIGHT + FOUR };
    enum { WIDE = (FOUR - 1) * S + K, OUT = OG * TC * K * K };
    extern __shared__ float4 both[];
    float *data = (float *)both, sum[EIGHT][K][K] = {};
    int t = threadIdx.x, og = t / EIGHT % OG, c = t / EIGHT / OG % (TC / EIGHT) * EIGHT + t % EIGHT, p = t / (OG * TC);
    int o0 = (int)blockIdx.x % w.chunks * OG * EIGHT, c0 = (int)blockIdx.x / w.chunks * TC;
    int quads = w.rows * (int)w.quads.d, size = w.size + w.rows * (int)w.line.d * OP;
    fetch<S, OG, TC>(w, x, g, blockIdx.y, o0, c0, data);
    int side = 0;
    for (uint32_t band = blockIdx.y; band < w.n; band += gridDim.y, side ^= 1) {
        dl_copies_wait();
        __syncthreads(); /* the band is there, and all are done with the other side */
        if (band + gridDim.y < w.n) fetch<S, OG, TC>(w, x, g, band + gridDim.y, o0, c0, data + (side ^ 1) * size);
        const float *pixels = data + side * size + c * w.plane, *grads = data + side * size + w.size + og * EIGHT;
        for (int q = p; q < quads; q += PARTS) {
            int row = (int)w.quads.quotient(q), col = (q - row * (int)w.quads.d) * FOUR;
            const float *from = pixels + row * S * (int)w.pitch.d + col * S, *d = grads + q * FOUR * OP;
            float grad[FOUR][EIGHT], v[WIDE];
#pragma unroll
            for (int k = 0; k < FOUR; k++) dl_read(d + k * OP, grad[k]);
#pragma unroll
            for (int r = 0; r < K; r++, from += w.pitch.d) {
                dl_read(from, v);
#pragma unroll
                for (int k = 0; k < FOUR; k++)
#pragma unroll
                    for (int j = 0; j < K; j++)
#pragma unroll
                        for (int o = 0; o < EIGHT; o++) sum[o][r][j] += grad[k][o] * v[k * S + j];
            }
        }
    }
    part += (size_t)blockIdx.y * w.O * w.C * K * K;
#pragma unroll
    for (int o = 0; o < EIGHT; o++) { /* data[part][channel of the results][of the image][tap] */
        __syncthreads();
#pragma unroll
        for (int k = 0; k < K * K; k++) data[p * OUT + (og * TC + c) * K * K + k] = sum[o][k / K][k % K];
        __syncthreads();
        for (int i = t; i < OUT; i += THREADS) {
            int to = o0 + i / (TC * K * K) * EIGHT + o, from = c0 + i / (K * K) % TC;
            float all = 0;
            for (int k = 0; k < PARTS; k++) all += data[k * OUT + i];
            if (to < w.O && from < w.C) part[((size_t)to * w.C + from) * K * K + i % (K * K)] = all;
        }
    }
}

/* ---- calls */

static int channels_at_once(long n) { return n <= 8 ? 8 : n <= 16 ? 16 : 32; }
static int groups_at_once(long n) { return n <= 4 * EIGHT ? 4 : 8; }

/* Bytes of shared memory go to *bytes. */
static tile_walk walk_of(const dl_conv *g, long *bytes) {
    tile_walk w;
    long s = g->stride[0], quads = (g->out[1] + FOUR - 1) / FOUR, line = quads * FOUR;
    long rows = line < PIXELS ? PIXELS / line : 1, pitch = ((line - 1) * s + K + FOUR - 1) / FOUR * FOUR;
    if (rows > g->out[0]) rows = g->out[0];
    long high = (rows - 1) * s + K, bands = (g->out[0] + rows - 1) / rows, og = groups_at_once(g->O);
    long plane = (high * pitch + 31 - FOUR) / 32 * 32 + FOUR, tc = channels_at_once(g->C); /* banks of their own */
    w.pitch = dl_divisor((uint32_t)pitch), w.line = dl_divisor((uint32_t)line);
    w.quads = dl_divisor((uint32_t)quads), w.bands = dl_divisor((uint32_t)bands);
    w.C = (int)g->C, w.O = (int)g->O;
    for (int d = 0; d < 2; d++) w.in[d] = (int)g->in[d], w.out[d] = (int)g->out[d], w.pad[d] = (int)g->pad[d];
    w.rows = (int)rows, w.high = (int)high, w.plane = (int)plane, w.size = (int)(tc * plane);
    w.chunks = (int)((g->O + og * EIGHT - 1) / (og * EIGHT));
    w.n = (uint32_t)(g->N * bands);
    long stages = 2 * (tc * plane + rows * line * (og * EIGHT + FOUR)), sums = THREADS * K * K;
    *bytes = (stages > sums ? stages : sums) * (long)sizeof(float);
    return w;
}

bool dl_conv_tiles_take(const dl_conv *g) {
    long bytes;
    if (g->k[0] != K || g->C <= FOUR || g->out[1] > 4 * PIXELS) return false;
    walk_of(g, &bytes);
    return bytes <= MOST_BYTES;
}

template <int S, int OG, int TC>
static dl_status run(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw) {
    auto kernel = tiles_kernel<S, OG, TC>;
    long bytes, shares, n = g->O * g->C * K * K;
    tile_walk w = walk_of(g, &bytes);
    long blocks = w.chunks * ((g->C + TC - 1) / TC);
    dl_status s = dl_conv_shares(gpu, (const void *)kernel, THREADS, bytes, blocks, w.n, &shares);
    if (s != DL_OK) return s;
    float *part = (float *)dl_gpu_take(gpu, (size_t)(n * shares) * sizeof *part);
    if (!part) return dl_failed();
    kernel<<<dim3((unsigned)blocks, (unsigned)shares), THREADS, (size_t)bytes, gpu->stream>>>(w, x, grad, part);
    s = dl_conv_join(gpu, g, x, grad, part, shares, dw);
    dl_gpu_drop(gpu, part);
    return s;
}

template <int S>
static dl_status by_channels(dl_gpu *gpu, const dl_conv *g, const float *x, const float *d, float *dw) {
    bool few = groups_at_once(g->O) == 4;
    switch (channels_at_once(g->C)) {
    case 8: return few ? run<S, 4, 8>(gpu, g, x, d, dw) : run<S, 8, 8>(gpu, g, x, d, dw);
    case 16: return few ? run<S, 4, 16>(gpu, g, x, d, dw) : run<S, 8, 16>(gpu, g, x, d, dw);
    default: return few ? run<S, 4, 32>(gpu, g, x, d, dw) : run<S, 8, 32>(gpu, g, x, d, dw);
    }
}

dl_status dl_conv_tiles(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw) {
    return g->stride[0] == 1 ? by_channels<1>(gpu, g, x, grad, dw) : by_channels<2>(gpu, g, x, grad, dw);
}
