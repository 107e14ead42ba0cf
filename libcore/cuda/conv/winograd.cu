/* Convolution in f32 with 3x3 kernels and stride 1 by Winograd's algorithm (cuda/conv/winograd.cuh). One kernel
 * transforms the weights; then a block computes some result channels of some tiles, while asynchronous copies fetch
 * pixels and weights of the next EIGHT image channels to shared memory. Kept for its speed: up to twice as fast as
 * cuDNN (`run bench conv_ways` of tools/bundle, H200: at least 10 % faster than the libraries in 22 of 28 shapes). */
#include "cuda/conv/size.cuh"
#include "cuda/conv/winograd.cuh"

enum { FILTER_THREADS = 256 };

/* ---- transformed weights: [result channels / R][image channels / EIGHT][plane][EIGHT][R] */

template <int R>
__global__ void __launch_bounds__(FILTER_THREADS)
    filter_kernel(const __grid_constant__ dl_conv_weight w, int C, int O, int stages, float *to) {
    int at = blockIdx.x * FILTER_THREADS + threadIdx.x, o = at % R, c = at / R % (stages * EIGHT);
    int block = at / R / (stages * EIGHT);
    float g[K][K], t[FOUR][K];
    bool in = c < C && block * R + o < O;
    const float *from = w.p + (in ? (block * R + o) * w.out + c * w.in : 0);
#pragma unroll
    for (int k = 0; k < K * K; k++) g[k / K][k % K] = in ? from[w.turned ? K * K - 1 - k : k] : 0.0f;
#pragma unroll
    for (int k = 0; k < K; k++) {
        float both = (g[0][k] + g[2][k]) * 0.5f, own = g[1][k] * 0.5f;
        t[0][k] = g[0][k], t[1][k] = both + own, t[2][k] = both - own, t[3][k] = g[2][k];
    }
    if (block * R >= O) return;
    to += (((size_t)block * stages + c / EIGHT) * PLANES * EIGHT + c % EIGHT) * R + o;
#pragma unroll
    for (int r = 0; r < FOUR; r++) {
        float both = (t[r][0] + t[r][2]) * 0.5f, own = t[r][1] * 0.5f;
        float u[FOUR] = {t[r][0], both + own, both - own, t[r][2]};
#pragma unroll
        for (int k = 0; k < FOUR; k++) to[(r * FOUR + k) * EIGHT * R] = u[k];
    }
}

/* ---- forward */

/* One number of each of four consecutive tiles. */
struct four_tiles {
    float v[FOUR];
    __device__ four_tiles operator+(const four_tiles &b) const {
        return {v[0] + b.v[0], v[1] + b.v[1], v[2] + b.v[2], v[3] + b.v[3]};
    }
    __device__ four_tiles operator-(const four_tiles &b) const {
        return {v[0] - b.v[0], v[1] - b.v[1], v[2] - b.v[2], v[3] - b.v[3]};
    }
};

/* Writes the results of four tiles in channel o. */
__device__ inline void write_results(const tile_plan &w, uint32_t tile, int o, const four_tiles (&y)[TWO][TWO],
                                     float *to) {
#pragma unroll
    for (int j = 0; j < FOUR; j++) {
        if (tile + j >= w.n) return;
        tile_spot s(w, tile + j);
        float *p = to + (((long)s.image * w.O + o) * w.out[0] + s.row) * w.out[1] + s.col;
#pragma unroll
        for (int r = 0; r < TWO; r++, p += w.out[1]) {
            const float *a = y[r][0].v, *b = y[r][1].v;
            if (w.fours) {
                ((float4 *)p)[0] = make_float4(a[0], b[0], a[1], b[1]);
                ((float4 *)p)[1] = make_float4(a[2], b[2], a[3], b[3]);
            } else if (s.row + r >= w.out[0])
                break;
            else if (w.even)
                *(float2 *)p = make_float2(a[j], b[j]);
            else {
                p[0] = a[j];
                if (s.col + 1 < w.out[1]) p[1] = b[j];
            }
        }
        if (w.fours) return;
    }
}

/* 0 if all are finite, else NaN. */
__device__ inline float nan_unless_finite(const four_tiles (&y)[TWO][TWO]) {
    return dl_conv_nan_unless_finite(y[0][0].v) + dl_conv_nan_unless_finite(y[0][1].v) +
           dl_conv_nan_unless_finite(y[1][0].v) + dl_conv_nan_unless_finite(y[1][1].v);
}

/* An infinite pixel makes NaN of all results of its tile: results that are not finite are computed again. */
__device__ __noinline__ static void recompute(const tile_plan &w, const dl_conv_weight &weight, const float *x,
                                              uint32_t tile, int o, float *to) {
#pragma unroll 1
    for (int j = 0; j < FOUR * TWO * TWO && tile + j / 4 < w.n; j++) {
        tile_spot s(w, tile + j / 4);
        int row = s.row + j / TWO % TWO, col = s.col + j % TWO;
        if (row >= w.out[0] || col >= w.out[1]) continue;
        float *p = to + (((long)s.image * w.O + o) * w.out[0] + row) * w.out[1] + col;
        if (!isfinite(*p))
            *p = dl_conv_inside(x + (long)s.image * w.C * w.in[0] * w.in[1], w.in[0], w.in[1], w.C, K, row - w.pad[0],
                                col - w.pad[1], weight, o);
    }
}

/* Transforms the sums of a block to results, by way of shared memory. */
template <int R, int S>
__device__ inline void finish(const tile_plan &w, const float (&sum)[TWO][EIGHT][EIGHT], const tile_share<R, S> &share,
                              const dl_conv_weight &weight, const float *x, float *exchange, float *y) {
    int quad = (int)threadIdx.x % (S / FOUR), row = (int)threadIdx.x / (S / FOUR);
    four_tiles out[TWO][TWO][TWO];
#pragma unroll
    for (int half = 0; half < TWO; half++) {
        four_tiles m[FOUR][FOUR];
        __syncthreads();
        dl_tile_lay<R, S>(sum, half, share, exchange);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < PLANES; p++)
            *(float4 *)m[p / FOUR][p % FOUR].v =
                *(const float4 *)(exchange + (p * (R / 2) + row) * (S + FOUR) + quad * FOUR);
        dl_tile_result(m, out[half]);
    }
#pragma unroll
    for (int half = 0; half < TWO; half++) {
        int o = blockIdx.y * R + half * (R / 2) + row;
        if (o >= w.O) continue;
        write_results(w, blockIdx.x * S + quad * FOUR, o, out[half], y);
        if (nan_unless_finite(out[half]) != 0) recompute(w, weight, x, blockIdx.x * S + quad * FOUR, o, y);
    }
}

/* A block computes R result channels of S tiles. A thread transforms the pixels of OWN tiles in one channel of a stage.
 */
template <int R, int S, bool NEAT>
__global__ void __launch_bounds__(THREADS, 1)
    winograd_kernel(const __grid_constant__ tile_plan w, const __grid_constant__ dl_conv_weight weight, int stages,
                    const float *transformed, const float *x, float *y) {
    enum { OWN = S / DL_WARP, WEIGHTS = PLANES * EIGHT * R, STAGE = WEIGHTS + PLANES * EIGHT * S };
    enum { EACH = THREADS * FOUR };
    extern __shared__ float4 both[];
    float *data = (float *)both, sum[TWO][EIGHT][EIGHT] = {}, d[OWN][FOUR][FOUR];
    int lane = threadIdx.x % DL_WARP, warp = threadIdx.x / DL_WARP, image = w.in[0] * w.in[1];
    tile_share<R, S> share;
    tile_pixels pixels[OWN];
    const float *from[OWN];
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        uint32_t tile = blockIdx.x * S + lane + i * DL_WARP;
        tile_spot s(w, tile < w.n ? tile : 0);
        pixels[i] = tile_pixels(w, s, tile < w.n);
        from[i] = x + ((long)s.image * w.C + warp) * image;
    }
    transformed += (size_t)blockIdx.y * stages * WEIGHTS + threadIdx.x * FOUR;
    auto fetch = [&](int stage, float *to) { /* called for each stage in order */
#pragma unroll
                                             for (int k = 0; k < WEIGHTS / EACH; k++)
                                                 dl_copy_four(to + k * EACH + threadIdx.x * FOUR,
                                                              transformed + k * EACH);
                                             dl_copies_end();
                                             transformed += WEIGHTS;
#pragma unroll
                                             for (int i = 0; i < OWN; i++) {
#pragma unroll
                                                 for (int r = 0; r < FOUR; r++)
                                                     pixels[i].template read<NEAT>(from[i], w.in[1], r,
                                                                                   stage * EIGHT + warp < w.C, d[i][r]);
                                                 from[i] += (long)EIGHT * image;
                                             }
    };
    auto store = [&](float *to) {
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            dl_tile_pixel(d[i]);
#pragma unroll
            for (int k = 0; k < PLANES; k++)
                to[WEIGHTS + (k * EIGHT + warp) * S + lane + i * DL_WARP] = d[i][k / FOUR][k % FOUR];
        }
    };
    fetch(0, data);
    store(data);
    for (int stage = 0, side = 0; stage < stages; stage++, side ^= 1) {
        dl_copies_wait();
        __syncthreads(); /* the stage has arrived, and no thread reads the other buffer any more */
        const float *here = data + side * STAGE;
        bool more = stage + 1 < stages;
        if (more) fetch(stage + 1, data + (side ^ 1) * STAGE);
        dl_tile_multiply<R, S, R, S>(here + warp * TWO * EIGHT * R + share.row,
                                     here + WEIGHTS + warp * TWO * EIGHT * S + share.col, sum);
        if (more) store(data + (side ^ 1) * STAGE);
    }
    finish<R, S>(w, sum, share, weight, x, data, y);
}

/* ---- calls */

bool dl_conv_winograd_take(const dl_conv *g) {
    return g->k[0] == K && g->stride[0] == 1 && g->C >= EIGHT && g->O >= EIGHT;
}

template <int R, int S>
static dl_status run(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight &weight, const float *x, float *y) {
    enum { BYTES = TWO * PLANES * EIGHT * (R + S) * (int)sizeof(float) };
    tile_plan w = dl_tile_plan(g, x, y);
    long stages = (g->C + EIGHT - 1) / EIGHT, blocks = (g->O + R - 1) / R, n = blocks * stages * EIGHT * R;
    float *transformed = (float *)dl_gpu_take(gpu, (size_t)(n * PLANES) * sizeof *transformed);
    if (!transformed) return dl_failed();
    auto kernel = w.neat ? winograd_kernel<R, S, true> : winograd_kernel<R, S, false>;
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    dl_status s = dl_gpu_check(gpu, e, "asking for shared memory");
    if (s == DL_OK) {
        filter_kernel<R><<<(unsigned)((n + FILTER_THREADS - 1) / FILTER_THREADS), FILTER_THREADS, 0, gpu->stream>>>(
            weight, w.C, w.O, (int)stages, transformed);
        dim3 grid((w.n + S - 1) / S, (unsigned)blocks);
        kernel<<<grid, THREADS, BYTES, gpu->stream>>>(w, weight, (int)stages, transformed, x, y);
        s = dl_gpu_launched(gpu);
    }
    dl_gpu_drop(gpu, transformed);
    return s;
}

dl_status dl_conv_winograd(dl_gpu *gpu, const dl_conv *g, const dl_conv_weight *weight, const float *x, float *y) {
    return g->O <= 32 ? run<32, 64>(gpu, g, *weight, x, y) : run<64, 32>(gpu, g, *weight, x, y);
}
