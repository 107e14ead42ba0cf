/* Gradient of the weights of 3x3 kernels with stride 1 in f32 by Winograd's algorithm (cuda/conv/winograd.cuh). A block
 * sums the products of gradients and pixels of some channels over tiles, while asynchronous copies fetch the next EIGHT
 * tiles. Kept for its speed: up to four times as fast as cuDNN (`run bench conv_ways` of tools/bundle, H200: at least
 * 10 % faster than the libraries in 12 of 14 shapes). */
#include "cuda/conv/winograd.cuh"

/* Transforms the 2x2 gradients of a tile to planes. */
__device__ inline void transform_gradient(const float (&g)[TWO][TWO], float *to, int step) {
    float t[FOUR][TWO];
#pragma unroll
    for (int k = 0; k < TWO; k++)
        t[0][k] = g[0][k], t[1][k] = g[0][k] + g[1][k], t[2][k] = g[0][k] - g[1][k], t[3][k] = -g[1][k];
#pragma unroll
    for (int r = 0; r < FOUR; r++) {
        float u[FOUR] = {t[r][0], t[r][0] + t[r][1], t[r][0] - t[r][1], -t[r][1]};
#pragma unroll
        for (int k = 0; k < FOUR; k++) to[(r * FOUR + k) * step] = u[k];
    }
}

/* Reads row r of the gradients of a tile. */
template <bool EVEN>
__device__ inline void read_gradient(const tile_plan &w, const tile_spot &s, const float *p, int r, bool real,
                                     float (&g)[TWO]) {
    bool in = real && s.row + r < w.out[0];
    p += r * w.out[1];
    if (EVEN) {
        float2 q = in ? *(const float2 *)p : make_float2(0, 0);
        g[0] = q.x, g[1] = q.y;
    } else
        g[0] = in ? p[0] : 0.0f, g[1] = in && s.col + 1 < w.out[1] ? p[1] : 0.0f;
}

/* Transforms the planes of a weight to its gradient. */
__device__ inline void weight_of(const float (&m)[FOUR][FOUR], float *to) {
    float t[K][FOUR];
#pragma unroll
    for (int k = 0; k < FOUR; k++) {
        float both = (m[1][k] + m[2][k]) * 0.5f;
        t[0][k] = m[0][k] + both, t[1][k] = (m[1][k] - m[2][k]) * 0.5f, t[2][k] = both + m[3][k];
    }
#pragma unroll
    for (int r = 0; r < K; r++) {
        float both = (t[r][1] + t[r][2]) * 0.5f;
        to[r * K] = t[r][0] + both, to[r * K + 1] = (t[r][1] - t[r][2]) * 0.5f, to[r * K + 2] = both + t[r][3];
    }
}

/* The part of a stage that a thread fetches: the lanes of a warp are EIGHT tiles by FOUR channels. Rows in shared
 * memory have FOUR elements of padding, which avoids bank conflicts. */
template <int R, int S, bool NEAT> struct stage_of {
    enum { A = R + FOUR, B = S + FOUR, ROWS = DL_WARP, OWN_R = R / ROWS, OWN_S = S / ROWS };
    enum { GRADS = PLANES * EIGHT * A, SIZE = GRADS + PLANES * EIGHT * B };
    float d[OWN_S][FOUR][FOUR], grad[OWN_R][TWO][TWO];
    int tile, own; /* tile in the stage; first channel */

    __device__ stage_of() : tile(threadIdx.x % EIGHT), own(threadIdx.x / EIGHT) {}
    __device__ void fetch(const tile_plan &w, uint32_t stage, int o0, int c0, const float *x, const float *g) {
        uint32_t at = stage * EIGHT + tile;
        bool real = at < w.n;
        tile_spot spot(w, real ? at : 0);
        tile_pixels pixels(w, spot, real);
        long high = (long)w.in[0] * w.in[1], plane = (long)w.out[0] * w.out[1];
        const float *image = x + ((long)spot.image * w.C + c0 + own) * high;
        const float *result = g + ((long)spot.image * w.O + o0 + own) * plane + (long)spot.row * w.out[1] + spot.col;
#pragma unroll
        for (int i = 0; i < OWN_S * FOUR; i++)
            pixels.template read<NEAT>(image + i / FOUR * ROWS * high, w.in[1], i % FOUR,
                                       c0 + own + i / FOUR * ROWS < w.C, d[i / FOUR][i % FOUR]);
#pragma unroll
        for (int i = 0; i < OWN_R * TWO; i++)
            read_gradient<NEAT>(w, spot, result + i / TWO * ROWS * plane, i % TWO,
                                real && o0 + own + i / TWO * ROWS < w.O, grad[i / TWO][i % TWO]);
    }
    __device__ void store(float *to) {
#pragma unroll
        for (int i = 0; i < OWN_R; i++) transform_gradient(grad[i], to + tile * A + own + i * ROWS, EIGHT * A);
#pragma unroll
        for (int i = 0; i < OWN_S; i++) {
            dl_tile_pixel(d[i]);
#pragma unroll
            for (int p = 0; p < PLANES; p++)
                to[GRADS + (p * EIGHT + tile) * B + own + i * ROWS] = d[i][p / FOUR][p % FOUR];
        }
    }
};

/* A block has R result channels and S image channels; blocks with the same channels divide the tiles among them. */
template <int R, int S, bool NEAT>
__global__ void __launch_bounds__(THREADS, 1)
    weights_kernel(const __grid_constant__ tile_plan w, int chunks, const float *x, const float *g, float *part) {
    typedef stage_of<R, S, NEAT> stage_t;
    extern __shared__ float4 both[];
    float *data = (float *)both, sum[TWO][EIGHT][EIGHT] = {};
    int warp = threadIdx.x / DL_WARP, o0 = (int)blockIdx.x % chunks * R, c0 = (int)blockIdx.x / chunks * S, side = 0;
    uint32_t stages = (w.n + EIGHT - 1) / EIGHT;
    tile_share<R, S> share;
    stage_t next;
    next.fetch(w, blockIdx.y, o0, c0, x, g);
    next.store(data);
    for (uint32_t stage = blockIdx.y; stage < stages; stage += gridDim.y, side ^= 1) {
        __syncthreads(); /* the stage has arrived, and no thread reads the other buffer any more */
        const float *here = data + side * stage_t::SIZE;
        bool more = stage + gridDim.y < stages;
        if (more) next.fetch(w, stage + gridDim.y, o0, c0, x, g);
        dl_tile_multiply<stage_t::A, stage_t::B, R, S>(
            here + warp * TWO * EIGHT * stage_t::A + share.row,
            here + stage_t::GRADS + warp * TWO * EIGHT * stage_t::B + share.col, sum);
        if (more) next.store(data + (side ^ 1) * stage_t::SIZE);
    }
    part += (size_t)blockIdx.y * w.O * w.C * K * K;
#pragma unroll
    for (int half = 0; half < TWO; half++) {
        __syncthreads();
        dl_tile_lay<R, S>(sum, half, share, data);
        __syncthreads();
        for (int i = threadIdx.x; i < R / 2 * S; i += THREADS) {
            int o = o0 + half * (R / 2) + i / S, c = c0 + i % S;
            float m[FOUR][FOUR];
#pragma unroll
            for (int p = 0; p < PLANES; p++) m[p / FOUR][p % FOUR] = data[(p * (R / 2) + i / S) * (S + FOUR) + i % S];
            if (o < w.O && c < w.C) weight_of(m, part + ((size_t)o * w.C + c) * K * K);
        }
    }
}

/* ---- calls */

bool dl_conv_winograd_weights_take(const dl_conv *g) {
    return g->k[0] == K && g->stride[0] == 1 && g->C >= EIGHT && g->O >= EIGHT;
}

template <int R, int S>
static dl_status run(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw) {
    enum { BYTES = TWO * PLANES * EIGHT * (R + S + TWO * FOUR) * (int)sizeof(float) };
    tile_plan w = dl_tile_plan(g, x, grad);
    auto kernel = w.neat ? weights_kernel<R, S, true> : weights_kernel<R, S, false>;
    long chunks = (g->O + R - 1) / R, blocks = chunks * ((g->C + S - 1) / S), n = g->O * g->C * K * K, shares;
    dl_status s = dl_conv_shares(gpu, (const void *)kernel, THREADS, BYTES, blocks, (w.n + EIGHT - 1) / EIGHT, &shares);
    if (s != DL_OK) return s;
    float *part = (float *)dl_gpu_take(gpu, (size_t)(n * shares) * sizeof *part);
    if (!part) return dl_failed();
    kernel<<<dim3((unsigned)blocks, (unsigned)shares), THREADS, BYTES, gpu->stream>>>(w, (int)chunks, x, grad, part);
    s = dl_conv_join(gpu, g, x, grad, part, shares, dw);
    dl_gpu_drop(gpu, part);
    return s;
}

dl_status dl_conv_winograd_weights(dl_gpu *gpu, const dl_conv *g, const float *x, const float *grad, float *dw) {
    return g->O <= 32 ? run<32, 64>(gpu, g, x, grad, dw) : run<64, 32>(gpu, g, x, grad, dw);
}
