/* Gradient of the weights by bands. A band is a few rows of the results of one image, with the padded pixels they read;
 * a block keeps the pixels of one band in shared memory while asynchronous copies fetch those of the next.
 * Kept for its speed: up to 4.4 times as fast as cuDNN with few channels (`run bench conv_ways` of tools/bundle, H200:
 * 14 of 25 shapes at least 10 % faster than the libraries). */
#include "cuda/conv/size.cuh"
#include "cuda/runtime/iter.cuh"
#include "cuda/runtime/shared_memory.cuh"
#include "cuda/kernels/rows.cuh"

enum { THREADS = 128, WARPS = THREADS / DL_WARP, RESIDENT = 3, FOUR = 4, BAND_BYTES = 48 << 10 };

struct band_walk {
    dl_divisor quads, each,
        pitch;            /* groups of four in a row of results; bands in an image; elements in a row of pixels */
    int rows, high, size; /* rows of results in a band; rows of pixels; pixels of one channel */
    int tiles;            /* groups of four that one warp handles */
    int groups, blocks;   /* groups of OB result channels in a block; blocks that cover all result channels */
    uint32_t n;           /* bands in the batch */
    int C, O, in[2], out[2], pad[2];
};

/* Starts the copies of a band's pixels: CB channels from c0 on. */
template <int CB>
__device__ void fetch(const band_walk &b, const float *x, uint32_t band, int stride, int c0, float *to) {
    uint32_t n = b.each.quotient(band);
    int top = (int)(band - n * b.each.d) * b.rows * stride - b.pad[0];
    const float *image = x + ((long)n * b.C + c0) * b.in[0] * b.in[1];
    for (uint32_t at = threadIdx.x; at < b.high * b.pitch.d; at += THREADS) {
        int row = (int)b.pitch.quotient(at), h = top + row, k = (int)(at - row * b.pitch.d) - b.pad[1];
        bool in = (unsigned)h < (unsigned)b.in[0] && (unsigned)k < (unsigned)b.in[1];
        const float *from = image + (in ? h * b.in[1] + k : 0);
#pragma unroll
        for (int c = 0; c < CB; c++) {
            bool real = in && c0 + c < b.C;
            dl_copy_or_clear(to + c * b.size + at, real ? from + (long)c * b.in[0] * b.in[1] : x, real);
        }
    }
    dl_copies_end();
}

/* Reads the gradients of the four results that belong to this thread. */
template <int OB, bool WHOLE>
__device__ inline void take(const band_walk &b, const float *g, uint32_t band, int tile, int o0, float (&d)[OB][FOUR]) {
    uint32_t n = b.each.quotient(band), at = tile * DL_WARP + threadIdx.x % DL_WARP, row = b.quads.quotient(at);
    int y = (int)((band - n * b.each.d) * b.rows + row), col = (int)(at - row * b.quads.d) * FOUR;
    long plane = (long)b.out[0] * b.out[1];
    const float *from = g + ((long)n * b.O + o0) * plane + (long)y * b.out[1] + col;
    bool real = (int)row < b.rows && y < b.out[0];
#pragma unroll
    for (int o = 0; o < OB; o++, from += plane) {
        bool own = real && o0 + o < b.O;
        if (WHOLE) {
            float4 q = own ? *(const float4 *)from : make_float4(0, 0, 0, 0);
            d[o][0] = q.x, d[o][1] = q.y, d[o][2] = q.z, d[o][3] = q.w;
        } else {
#pragma unroll
            for (int k = 0; k < FOUR; k++) d[o][k] = own && col + k < b.out[1] ? from[k] : 0.0f;
        }
    }
}

/* A warp sums the taps between its OB result channels and the block's CB image channels. Warps with the same channels
 * divide the tiles of a band among them, blocks divide the bands; each warp writes its sums to part[share][weight].
 * WHOLE: the length of a row of results is a multiple of four. */
template <int K, int S, int OB, int CB, bool WHOLE>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    weight_kernel(const __grid_constant__ band_walk b, const float *x, const float *g, float *part) {
    enum { WIDE = (FOUR - 1) * S + K };
    extern __shared__ float4 both[];
    float *pixels = (float *)both, sum[OB][CB][K][K] = {}, d[OB][FOUR];
    int warp = threadIdx.x / DL_WARP, lane = threadIdx.x % DL_WARP, share = warp / b.groups;
    int parts = WARPS / b.groups, c0 = (int)blockIdx.x / b.blocks * CB;
    int o0 = ((int)blockIdx.x % b.blocks * b.groups + warp % b.groups) * OB;
    fetch<CB>(b, x, blockIdx.y, S, c0, pixels);
    take<OB, WHOLE>(b, g, blockIdx.y, share, o0, d);
    int side = 0;
    for (uint32_t band = blockIdx.y, next; band < b.n; band = next, side ^= 1) {
        next = band + gridDim.y;
        dl_copies_wait();
        __syncthreads(); /* the band has arrived, and no thread reads the other buffer any more */
        if (next < b.n) fetch<CB>(b, x, next, S, c0, pixels + (side ^ 1) * CB * b.size);
        for (int tile = share; tile < b.tiles; tile += parts) {
            float ahead[OB][FOUR];
            bool more = tile + parts < b.tiles;
            if (more || next < b.n) take<OB, WHOLE>(b, g, more ? band : next, more ? tile + parts : share, o0, ahead);
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
    part += (size_t)(blockIdx.y * parts + share) * b.O * b.C * K * K;
#pragma unroll
    for (int t = 0; t < OB * CB * K * K; t++) {
        float v = dl_row_join((&sum[0][0][0][0])[t], dl_sum_f(), (float *)NULL);
        int c = c0 + t / (K * K) % CB, o = o0 + t / (K * K * CB);
        if (lane == t % DL_WARP && o < b.O && c < b.C) part[((size_t)o * b.C + c) * K * K + t % (K * K)] = v;
    }
}

/* ---- calls */

/* The largest bands of which two fit BAND_BYTES; with few images, smaller ones, so that there are about `wanted` bands.
 * rows 0: not even one row fits. */
static band_walk bands_of(const dl_conv *g, int ob, int cb, long wanted) {
    band_walk b;
    long s = g->stride[0], k = g->k[0], quads = (g->out[1] + FOUR - 1) / FOUR;
    long pitch = ((quads * FOUR - 1) * s + k + FOUR - 1) / FOUR * FOUR;
    long most = BAND_BYTES / (long)(2 * cb * pitch * sizeof(float)), rows = most < k ? 0 : (most - k) / s + 1;
    if (rows > g->out[0]) rows = g->out[0];
    long each = rows ? (g->out[0] + rows - 1) / rows : 1, groups = (g->O + ob - 1) / ob;
    long chunks = (groups + WARPS - 1) / WARPS * ((g->C + cb - 1) / cb), more = wanted / (g->N * chunks);
    if (more > (g->out[0] + FOUR - 1) / FOUR) more = (g->out[0] + FOUR - 1) / FOUR;
    if (rows && each < more) each = more;
    if (rows) rows = (g->out[0] + each - 1) / each, each = (g->out[0] + rows - 1) / rows; /* of equal height */
    b.quads = dl_divisor((uint32_t)quads), b.each = dl_divisor((uint32_t)each), b.pitch = dl_divisor((uint32_t)pitch);
    b.rows = (int)rows, b.high = (int)((rows - 1) * s + k), b.size = (int)(b.high * pitch);
    b.tiles = (int)((rows * quads + DL_WARP - 1) / DL_WARP);
    for (b.groups = 1; b.groups < groups && b.groups < WARPS; b.groups *= 2) {}
    b.blocks = (int)((groups + b.groups - 1) / b.groups);
    b.n = (uint32_t)(g->N * each), b.C = (int)g->C, b.O = (int)g->O;
    for (int d = 0; d < 2; d++) b.in[d] = (int)g->in[d], b.out[d] = (int)g->out[d], b.pad[d] = (int)g->pad[d];
    return b;
}

/* A thread keeps OB * CB * K * K sums in registers. */
template <int K, int S, int OB, int CB>
static dl_status weights(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw) {
    bool whole = g->out[1] % FOUR == 0 && (size_t)grad % 16 == 0;
    auto kernel = whole ? weight_kernel<K, S, OB, CB, true> : weight_kernel<K, S, OB, CB, false>;
    band_walk b = bands_of(g, OB, CB, (long)gpu->sms * RESIDENT);
    size_t size = 2 * CB * (size_t)b.size * sizeof(float);
    long chunks = b.blocks * ((g->C + CB - 1) / CB), n = g->O * g->C * K * K, parts = WARPS / b.groups, shares;
    dl_status s = dl_conv_shares(gpu, (const void *)kernel, THREADS, (long)size, chunks, b.n, &shares);
    if (s != DL_OK) return s;
    float *part = (float *)dl_gpu_take(gpu, (size_t)(n * shares * parts) * sizeof *part);
    if (!part) return dl_failed();
    kernel<<<dim3((unsigned)chunks, (unsigned)shares), THREADS, size, gpu->stream>>>(b, x, grad, part);
    s = dl_conv_join(gpu, g, x, grad, part, shares * parts, dw);
    dl_gpu_drop(gpu, part);
    return s;
}

bool dl_conv_bands_take(const dl_conv *g) { return bands_of(g, 4, 4, 0).rows > 0; }

dl_status dl_conv_bands(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw) {
    return dl_by_size(g, [&](auto k, auto s) {
        if constexpr (k() == 3)
            return g->C == 1   ? weights<3, s(), 4, 1>(gpu, g, x, grad, dw)
                   : g->C == 3 ? weights<3, s(), 4, 3>(gpu, g, x, grad, dw)
                               : weights<3, s(), 4, 2>(gpu, g, x, grad, dw);
        else
            return weights<k(), s(), (k() == 5 ? 4 : 2), 1>(gpu, g, x, grad, dw);
    });
}
