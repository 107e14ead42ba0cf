/* Winograd's F(2x2, 3x3) in f32: shared by forward and the gradient of the weights. A tile is 2x2 results with the 4x4
 * pixels they read. Pixels, weights and results are transformed to 16 planes each, where the convolution is an
 * elementwise product: 16 products for a tile and a pair of channels instead of 36. Lavin, Gray: Fast algorithms for
 * convolutional neural networks (2016). */
#pragma once

#include "cuda/conv/sums.h"
#include "cuda/runtime/iter.cuh"
#include "cuda/runtime/shared_memory.cuh"
#include "cuda/kernels/rows.cuh"

enum { TWO = 2, K = 3, FOUR = 4, EIGHT = 8, PLANES = 16, THREADS = 256 };

struct tile_plan {
    dl_divisor wide, each; /* tiles in a row; in an image */
    uint32_t n;            /* tiles in the batch */
    int C, O, in[2], out[2], pad[2];
    bool fours, even; /* the results of four tiles in a row, or of one, are aligned vectors */
    bool neat;        /* the two middle pixels in a row of a tile are an aligned vector */
};

/* The position of a tile; its first pixel may lie in the padding. */
struct tile_spot {
    uint32_t image;
    int row, col; /* of the first result */
    __device__ tile_spot(const tile_plan &w, uint32_t tile) {
        image = w.each.quotient(tile);
        uint32_t in = tile - image * w.each.d, y = w.wide.quotient(in);
        row = (int)y * TWO, col = (int)(in - y * w.wide.d) * TWO;
    }
};

static inline tile_plan dl_tile_plan(const dl_conv *g, const void *image, const void *results) {
    tile_plan w;
    long high = (g->out[0] + 1) / TWO, wide = (g->out[1] + 1) / TWO, each = high * wide;
    w.wide = dl_divisor((uint32_t)wide), w.each = dl_divisor((uint32_t)each), w.n = (uint32_t)(g->N * each);
    w.C = (int)g->C, w.O = (int)g->O;
    for (int d = 0; d < 2; d++) w.in[d] = (int)g->in[d], w.out[d] = (int)g->out[d], w.pad[d] = (int)g->pad[d];
    w.even = g->out[1] % TWO == 0 && (size_t)results % 8 == 0;
    w.fours = g->out[1] % EIGHT == 0 && g->out[0] % TWO == 0 && (size_t)results % 16 == 0;
    w.neat = w.even && g->in[1] % TWO == 0 && g->pad[1] == 1 && (size_t)image % 8 == 0;
    return w;
}

/* The pixels of a tile, 0 outside the image. */
struct tile_pixels {
    int offset;    /* of the first pixel in its plane */
    unsigned mask; /* bits of the pixels inside the image */
    tile_pixels() = default;
    __device__ tile_pixels(const tile_plan &w, const tile_spot &s, bool real) {
        int top = s.row - w.pad[0], left = s.col - w.pad[1];
        unsigned cols = 0;
        offset = top * w.in[1] + left, mask = 0;
#pragma unroll
        for (int k = 0; k < FOUR; k++) cols |= (unsigned)((unsigned)(left + k) < (unsigned)w.in[1]) << k;
#pragma unroll
        for (int k = 0; k < FOUR; k++) mask |= (unsigned)(top + k) < (unsigned)w.in[0] ? cols << FOUR * k : 0;
        if (!real) mask = 0;
    }
    /* Reads row r. */
    template <bool NEAT> __device__ void read(const float *plane, int width, int r, bool real, float (&d)[FOUR]) const {
        unsigned in = real ? mask >> FOUR * r : 0;
        const float *p = plane + offset + r * width;
        d[0] = in & 1 ? p[0] : 0.0f, d[3] = in & 8 ? p[3] : 0.0f;
        if (NEAT) {
            float2 q = in & 2 ? *(const float2 *)(p + 1) : make_float2(0, 0);
            d[1] = q.x, d[2] = q.y;
        } else
            d[1] = in & 2 ? p[1] : 0.0f, d[2] = in & 4 ? p[2] : 0.0f;
    }
};

/* ---- the transforms, one dimension at a time */

__device__ inline void dl_tile_pixel(float (&d)[FOUR][FOUR]) {
#pragma unroll
    for (int k = 0; k < FOUR; k++) {
        float a = d[0][k] - d[2][k], b = d[1][k] + d[2][k], c = d[2][k] - d[1][k], e = d[1][k] - d[3][k];
        d[0][k] = a, d[1][k] = b, d[2][k] = c, d[3][k] = e;
    }
#pragma unroll
    for (int r = 0; r < FOUR; r++) {
        float a = d[r][0] - d[r][2], b = d[r][1] + d[r][2], c = d[r][2] - d[r][1], e = d[r][1] - d[r][3];
        d[r][0] = a, d[r][1] = b, d[r][2] = c, d[r][3] = e;
    }
}

/* From planes to results. */
template <class V> __device__ inline void dl_tile_result(const V (&m)[FOUR][FOUR], V (&y)[TWO][TWO]) {
    V s[TWO][FOUR];
#pragma unroll
    for (int k = 0; k < FOUR; k++) {
        s[0][k] = m[0][k] + m[1][k] + m[2][k];
        s[1][k] = m[1][k] - m[2][k] - m[3][k];
    }
#pragma unroll
    for (int r = 0; r < TWO; r++) {
        y[r][0] = s[r][0] + s[r][1] + s[r][2];
        y[r][1] = s[r][1] - s[r][2] - s[r][3];
    }
}

/* ---- products */

/* A warp computes the R by S products of two planes. A thread has EIGHT rows and columns of one: four from 4 row on,
 * and four R / 2 later. Adjacent threads share rows or columns, which saves reads of shared memory. */
template <int R, int S> struct tile_share {
    int row, col;
    __device__ tile_share() {
        int lane = threadIdx.x % DL_WARP, many = (lane & 1) | lane >> 3 << 1, few = lane >> 1 & 3;
        row = (R > S ? many : few) * FOUR, col = (R > S ? few : many) * FOUR;
    }
};

/* sum += a' b in a warp's planes of EIGHT rows each; a row of a has A numbers, one of b has B. */
template <int A, int B, int R, int S>
__device__ inline void dl_tile_multiply(const float *a, const float *b, float (&sum)[TWO][EIGHT][EIGHT]) {
#pragma unroll
    for (int k = 0; k < EIGHT; k++)
#pragma unroll
        for (int p = 0; p < TWO; p++) {
            float u[EIGHT], v[EIGHT];
            const float *from = a + (p * EIGHT + k) * A, *with = b + (p * EIGHT + k) * B;
#pragma unroll
            for (int h = 0; h < TWO; h++) {
                *(float4 *)(u + h * FOUR) = *(const float4 *)(from + h * (R / 2));
                *(float4 *)(v + h * FOUR) = *(const float4 *)(with + h * (S / 2));
            }
#pragma unroll
            for (int i = 0; i < EIGHT; i++)
#pragma unroll
                for (int j = 0; j < EIGHT; j++) sum[p][i][j] += u[i] * v[j];
        }
}

/* Writes half of the rows of all planes to shared memory, as [plane][R / 2 rows][S + 4]. */
template <int R, int S>
__device__ inline void dl_tile_lay(const float (&sum)[TWO][EIGHT][EIGHT], int half, const tile_share<R, S> &at,
                                   float *to) {
    to += (threadIdx.x / DL_WARP * TWO * (R / 2) + at.row) * (S + FOUR) + at.col;
#pragma unroll
    for (int k = 0; k < TWO * FOUR * TWO; k++) {
        int p = k / EIGHT, i = k / TWO % FOUR, h = k % TWO;
        const float *s = &sum[p][half * FOUR + i][h * FOUR];
        *(float4 *)(to + (p * (R / 2) + i) * (S + FOUR) + h * (S / 2)) = make_float4(s[0], s[1], s[2], s[3]);
    }
}
