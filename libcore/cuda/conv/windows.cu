/* Convolution in f32 with 3x3 kernels and stride 1: a block has 32 tiles of four by two pixels of results, a thread one
 * of them in EIGHT channels. Pixels and weights of some channels of the image lie in shared memory while those of the
 * next are on their way there. */
#include "cuda/conv/size.cuh"
#include "cuda/conv/sums.h"
#include "cuda/runtime/iter.cuh"
#include "cuda/runtime/shared_memory.cuh"
#include "cuda/kernels/rows.cuh"

enum { K = 3, TAPS = K * K, EIGHT = 8, FOUR = 4, TWO = 2, CHANNELS = 8, MOST_BYTES = 100 << 10 };

struct window_walk {
    dl_divisor pitch, quads, bands; /* elements of a row of pixels; tiles of a row; bands of an image */
    int C, O, size[2], out[2], pad[2];
    int rows, high, plane; /* of a band: rows of results and of pixels; elements of a channel's pixels */
    bool whole;            /* rows of results are of whole fours */
};

/* Starts to fetch CHANNELS of the image from c0 on: pixels as [channel][row][column] with their padding, and behind
 * them weights as [channel][tap][channel of the results]. */
template <int OG>
__device__ void fetch(const window_walk &w, const dl_conv_weight &weight, const float *image, int top, int o0, int c0,
                      float *to) {
    enum { OP = OG * EIGHT + FOUR };
    int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP;
    long plane = (long)w.size[0] * w.size[1];
    for (uint32_t at = lane; at < w.high * w.pitch.d; at += DL_WARP) {
        int row = (int)w.pitch.quotient(at), h = top + row, k = (int)(at - row * w.pitch.d) - w.pad[1];
        bool in = (unsigned)h < (unsigned)w.size[0] && (unsigned)k < (unsigned)w.size[1];
        const float *from = image + (in ? (long)(c0 + warp) * plane + (long)h * w.size[1] + k : 0);
        for (int c = warp; c < CHANNELS; c += OG, from += OG * plane) {
            bool real = in && c0 + c < w.C;
            dl_copy_or_clear(to + c * w.plane + at, real ? from : image, real);
        }
    }
    to += CHANNELS * w.plane;
    for (int at = lane; at < CHANNELS * TAPS; at += DL_WARP) {
        int c = at / TAPS, tap = weight.turned ? TAPS - 1 - at % TAPS : at % TAPS;
        bool in = c0 + c < w.C;
        const float *from = weight.p + (in ? (o0 + warp) * weight.out + (c0 + c) * weight.in + tap : 0);
        for (int o = warp; o < OG * EIGHT; o += OG, from += OG * weight.out) {
            bool real = in && o0 + o < w.O;
            dl_copy_or_clear(to + at * OP + o, real ? from : weight.p, real);
        }
    }
    dl_copies_end();
}

template <int OG>
__global__ void __launch_bounds__(OG *DL_WARP, 16 / OG)
    windows_kernel(const __grid_constant__ window_walk w, const __grid_constant__ dl_conv_weight weight, const float *x,
                   float *y) {
    enum { OP = OG * EIGHT + FOUR, TALL = TWO + K - 1, WIDE = FOUR + K - 1 };
    extern __shared__ float4 both[];
    float *data = (float *)both, sum[EIGHT][TWO][FOUR] = {};
    int lane = threadIdx.x % DL_WARP, og = threadIdx.x / DL_WARP, o0 = blockIdx.y * OG * EIGHT;
    int tile_row = (int)w.quads.quotient(lane), col = (lane - tile_row * (int)w.quads.d) * FOUR;
    int image = (int)w.bands.quotient(blockIdx.x), first = (int)(blockIdx.x - image * w.bands.d) * w.rows;
    int size = CHANNELS * (w.plane + TAPS * OP), row = first + tile_row * TWO;
    bool mine = tile_row * TWO < w.rows;
    const float *from = x + (long)image * w.C * w.size[0] * w.size[1];
    fetch<OG>(w, weight, from, first - w.pad[0], o0, 0, data);
    for (int c0 = 0, side = 0; c0 < w.C; c0 += CHANNELS, side ^= 1) {
        dl_copies_wait();
        __syncthreads(); /* the channels are there, and all are done with the other side */
        if (c0 + CHANNELS < w.C)
            fetch<OG>(w, weight, from, first - w.pad[0], o0, c0 + CHANNELS, data + (side ^ 1) * size);
        const float *pixels = data + side * size + (mine ? tile_row * TWO * (int)w.pitch.d + col : 0);
        const float *taps = data + side * size + CHANNELS * w.plane + og * EIGHT;
        for (int c = 0; c < CHANNELS && c0 + c < w.C; c++, pixels += w.plane) {
            float v[TALL][WIDE];
#pragma unroll
            for (int r = 0; r < TALL; r++) dl_read(pixels + r * w.pitch.d, v[r]);
#pragma unroll
            for (int t = 0; t < TAPS; t++, taps += OP) {
                float tap[EIGHT];
                dl_read(taps, tap);
#pragma unroll
                for (int o = 0; o < EIGHT; o++)
#pragma unroll
                    for (int r = 0; r < TWO; r++)
#pragma unroll
                        for (int k = 0; k < FOUR; k++) sum[o][r][k] += tap[o] * v[r + t / K][k + t % K];
            }
        }
    }
    if (!mine) return;
    long plane = (long)w.out[0] * w.out[1];
    int o1 = o0 + og * EIGHT;
    float *begin = y + ((long)image * w.O + o1) * plane + (long)row * w.out[1] + col, *to = begin, odd = 0;
#pragma unroll
    for (int o = 0; o < EIGHT; o++, to += plane) {
        if (o1 + o >= w.O) break;
#pragma unroll
        for (int r = 0; r < TWO; r++) {
            odd += dl_conv_odd(sum[o][r]);
            if (row + r >= w.out[0]) continue;
            float *p = to + (long)r * w.out[1];
            if (w.whole)
                *(float4 *)p = make_float4(sum[o][r][0], sum[o][r][1], sum[o][r][2], sum[o][r][3]);
            else
#pragma unroll
                for (int k = 0; k < FOUR; k++)
                    if (col + k < w.out[1]) p[k] = sum[o][r][k];
        }
    }
    if (odd == 0) return;
#pragma unroll 1
    for (int at = 0; at < EIGHT * TWO * FOUR; at++) {
        int o = o1 + at / (TWO * FOUR), r = at / FOUR % TWO, k = at % FOUR;
        if (o >= w.O || row + r >= w.out[0] || col + k >= w.out[1]) continue;
        float *p = begin + (o - o1) * plane + (long)r * w.out[1] + k;
        if (!isfinite(*p))
            *p = dl_conv_inside(from, w.size[0], w.size[1], w.C, K, row + r - w.pad[0], col + k - w.pad[1], weight, o);
    }
}

/* ---- calls */

/* Elements of a row of pixels: room for its padding, and where two rows of tiles share the banks, none of them twice.
 */
static long pitch_of(long quads) {
    long least = quads * FOUR + FOUR, pitch = least;
    bool shared = quads == 2 || quads == 4; /* of the eight threads that read at once */
    while (shared && pitch * TWO % DL_WARP != quads * FOUR) pitch += FOUR;
    return pitch;
}

/* Bytes of shared memory go to *bytes, for OG * EIGHT channels. */
static window_walk walk_of(const dl_conv *g, int og, long *bytes) {
    window_walk w;
    long quads = (g->out[1] + FOUR - 1) / FOUR, rows = DL_WARP / quads * TWO;
    if (rows < TWO) rows = TWO;
    if (rows > (g->out[0] + 1) / TWO * TWO) rows = (g->out[0] + 1) / TWO * TWO;
    long bands = (g->out[0] + rows - 1) / rows, pitch = pitch_of(quads);
    pitch += FOUR; /* banks */
    w.pitch = dl_divisor((uint32_t)pitch), w.quads = dl_divisor((uint32_t)quads), w.bands = dl_divisor((uint32_t)bands);
    w.C = (int)g->C, w.O = (int)g->O, w.whole = g->out[1] % FOUR == 0;
    for (int d = 0; d < 2; d++) w.size[d] = (int)g->in[d], w.out[d] = (int)g->out[d], w.pad[d] = (int)g->pad[d];
    w.rows = (int)rows, w.high = (int)rows + K - 1, w.plane = (int)(w.high * pitch);
    *bytes = 2L * CHANNELS * (w.plane + TAPS * (og * EIGHT + FOUR)) * (long)sizeof(float);
    return w;
}

bool dl_conv_windows_take(const dl_conv *g) {
    long bytes;
    if (g->k[0] != K || g->stride[0] != 1 || g->out[1] > DL_WARP * FOUR) return false;
    walk_of(g, EIGHT, &bytes);
    return bytes <= MOST_BYTES;
}

template <int OG>
static dl_status run(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight &weight, const float *x, float *y) {
    auto kernel = windows_kernel<OG>;
    long bytes;
    window_walk w = walk_of(g, OG, &bytes);
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_BYTES);
    dl_status s = dl_gpu_check(gpu, e, "asking for shared memory");
    if (s != DL_OK) return s;
    dim3 grid((unsigned)(g->N * w.bands.d), (unsigned)((g->O + OG * EIGHT - 1) / (OG * EIGHT)));
    w.whole = w.whole && (size_t)y % 16 == 0;
    kernel<<<grid, OG * DL_WARP, (size_t)bytes, gpu->stream>>>(w, weight, x, y);
    return dl_gpu_launched(gpu);
}

dl_status dl_conv_windows(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight *weight, const float *x, float *y) {
    return g->O <= 4 * EIGHT ? run<4>(gpu, g, *weight, x, y) : run<8>(gpu, g, *weight, x, y);
}
