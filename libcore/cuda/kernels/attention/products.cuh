/* Tiles of attention in shared memory, and their products on tensor cores. A block keeps ROWS rows, of which a warp has
 * 16, and walks over the others by tiles of TILE rows; rows have up to D numbers, and what is not there is 0. */
#pragma once

#include "cuda/runtime/mma.cuh"

enum { THREADS = 128, ROWS = 64, TILE = 32, COLUMNS = TILE / 8 };

/* Numbers in 16 bytes. Rows in shared memory lie these further apart than D: the reads of a fragment, of A as of B,
 * meet no bank twice. */
template <class T> constexpr int WIDE = 16 / sizeof(T);
template <class T, int D> constexpr int APART = D + WIDE<T>;
/* Bytes of the rows of the block, and of a tile, which keeps of each f32 the part of 11 bits and what is left of it. */
template <class T, int D> constexpr int ROWS_BYTES = ROWS *APART<T, D> *(int)sizeof(T);
template <class T, int D> constexpr int TILE_BYTES = TILE *APART<T, D> *(int)sizeof(T) * (sizeof(T) == 4 ? 2 : 1);

template <class T, int D> struct tile {
    T *at;
    __device__ explicit tile(char *shared) : at((T *)shared) {}
};
template <int D> struct tile<float, D> {
    unsigned *high, *low;
    __device__ explicit tile(char *shared) : high((unsigned *)shared), low(high + TILE * APART<float, D>) {}
};

/* WIDE numbers from place d of a row of `size`; wide: rows lie on 16 bytes. */
template <class T> __device__ inline uint4 read_wide(const T *p, int d, int size, bool wide) {
    uint4 x = {};
    if (wide && size % WIDE<T> == 0) return d < size ? *(const uint4 *)(p + d) : x;
    T part[WIDE<T>] = {};
#pragma unroll
    for (int i = 0; i < WIDE<T>; i++)
        if (d + i < size) part[i] = p[d + i];
    memcpy(&x, part, sizeof x);
    return x;
}

/* A matrix in memory: `rows` rows of `size` numbers. */
template <class T> struct matrix {
    const T *at;
    int rows, size;
    bool wide; /* it lies on 16 bytes */
};

/* The rows of the block, from `first` on. */
template <class T, int D> __device__ void take(T *to, matrix<T> m, long first) {
    for (int i = threadIdx.x * WIDE<T>; i < ROWS * D; i += THREADS * WIDE<T>) {
        const int r = i / D, d = i % D;
        *(uint4 *)(to + r * APART<T, D> + d) =
            first + r < m.rows ? read_wide(m.at + (first + r) * m.size, d, m.size, m.wide) : uint4();
    }
}

/* A tile on its way: it is read while the tile before is in use. */
template <class T, int D> struct ahead {
    static constexpr int N = TILE * D / (WIDE<T> * THREADS);
    uint4 v[N];
};
template <class T, int D> __device__ inline void fetch(ahead<T, D> &a, matrix<T> m, int first) {
#pragma unroll
    for (int i = 0; i < a.N; i++) {
        const int at = (i * THREADS + threadIdx.x) * WIDE<T>, r = first + at / D;
        a.v[i] = r < m.rows ? read_wide(m.at + (long)r * m.size, at % D, m.size, m.wide) : uint4();
    }
}
template <class T, int D> __device__ inline void store(tile<T, D> to, const ahead<T, D> &a) {
#pragma unroll
    for (int i = 0; i < a.N; i++) {
        const int at = (i * THREADS + threadIdx.x) * WIDE<T>, place = at / D * APART<T, D> + at % D;
        if constexpr (sizeof(T) == 4) {
            const uint4 x = a.v[i];
            uint4 high, low;
            dl_split_f32(__uint_as_float(x.x), high.x, low.x), dl_split_f32(__uint_as_float(x.y), high.y, low.y);
            dl_split_f32(__uint_as_float(x.z), high.z, low.z), dl_split_f32(__uint_as_float(x.w), high.w, low.w);
            *(uint4 *)(to.high + place) = high;
            *(uint4 *)(to.low + place) = low;
        } else {
            *(uint4 *)(to.at + place) = a.v[i];
        }
    }
}

/* Calls run(from) for each tile of a and b, from row `from` on, until `end`; prepare(from) may write what run reads. */
template <class T, int D, class P, class F>
__device__ inline void walk(tile<T, D> to_a, matrix<T> a, tile<T, D> to_b, matrix<T> b, int begin, int end, P prepare,
                            F run) {
    ahead<T, D> next_a, next_b;
    fetch(next_a, a, begin), fetch(next_b, b, begin);
    for (int from = begin; from < end; from += TILE) {
        __syncthreads();
        store(to_a, next_a), store(to_b, next_b);
        prepare(from);
        __syncthreads();
        if (from + TILE < end) fetch(next_a, a, from + TILE), fetch(next_b, b, from + TILE);
        run(from);
    }
}

/* s[16 rows of the warp, TILE] = x y^T, x being rows of the block and y the tile. */
template <int D> __device__ inline void row_products(float (*s)[4], const float *x, tile<float, D> y) {
    constexpr int apart = APART<float, D>;
    const int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
    const unsigned *part = (m < 2 ? y.high : y.low) + r * apart + m % 2 * 4;
    float low[COLUMNS][4] = {};
    x += (threadIdx.x / 32 * 16 + m % 2 * 8 + r) * apart + m / 2 * 4;
#pragma unroll
    for (int i = 0; i < 4 * COLUMNS; i++) s[i / 4][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 8) {
        unsigned whole[4], pair[4];
        dl_split_a a;
        dl_split_b b[COLUMNS];
        dl_take_fragments(whole, x + k);
#pragma unroll
        for (int i = 0; i < 4; i++) dl_split_f32(__uint_as_float(whole[i]), a.high[i], a.low[i]);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            dl_take_fragments(pair, part + j * 8 * apart + k);
            b[j] = {{pair[0], pair[1]}, {pair[2], pair[3]}};
        }
        dl_mma_split<COLUMNS>(s, low, a, b);
    }
#pragma unroll
    for (int i = 0; i < 4 * COLUMNS; i++) s[i / 4][i % 4] += low[i / 4][i % 4];
}
template <class T, int D> __device__ inline void row_products(float (*s)[4], const T *x, tile<T, D> y) {
    constexpr int apart = APART<T, D>;
    const int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
    const T *part = y.at + (m / 2 * 8 + r) * apart + m % 2 * 8;
    x += (threadIdx.x / 32 * 16 + m % 2 * 8 + r) * apart + m / 2 * 8;
#pragma unroll
    for (int i = 0; i < 4 * COLUMNS; i++) s[i / 4][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        unsigned a[4], b[4];
        dl_take_fragments(a, x + k);
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 2) {
            dl_take_fragments(b, part + j * 8 * apart + k);
            dl_mma_short<T>(s[j], a, b), dl_mma_short<T>(s[j + 1], a, b + 2);
        }
    }
}

/* o[16, D] += s y. In f32 the fragments of s are read as those of A, whose columns t and t + 4 are 2 t and 2 t + 1 of
 * s; in 16 bits they are those of A. */
template <int D> __device__ inline void column_products(float (*o)[4], const float (*s)[4], tile<float, D> y) {
    enum { N = 4 };
    constexpr int apart = APART<float, D>;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    dl_split_a a[COLUMNS];
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        dl_split_f32(s[j][0], a[j].high[0], a[j].low[0]), dl_split_f32(s[j][2], a[j].high[1], a[j].low[1]);
        dl_split_f32(s[j][1], a[j].high[2], a[j].low[2]), dl_split_f32(s[j][3], a[j].high[3], a[j].low[3]);
    }
#pragma unroll
    for (int n = 0; n < D / 8; n += N) {
        float high[N][4] = {}, low[N][4] = {};
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            dl_split_b b[N];
#pragma unroll
            for (int m = 0; m < N; m++) {
                const int at = (j * 8 + 2 * t) * apart + (n + m) * 8 + g;
                b[m] = {{y.high[at], y.high[at + apart]}, {y.low[at], y.low[at + apart]}};
            }
            dl_mma_split<N>(high, low, a[j], b);
        }
#pragma unroll
        for (int i = 0; i < 4 * N; i++) o[n + i / 4][i % 4] += high[i / 4][i % 4] + low[i / 4][i % 4];
    }
}
template <class T, int D> __device__ inline void column_products(float (*o)[4], const float (*s)[4], tile<T, D> y) {
    constexpr int apart = APART<T, D>;
    const int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
    const T *part = y.at + (m % 2 * 8 + r) * apart + m / 2 * 8;
#pragma unroll
    for (int j = 0; j < COLUMNS; j += 2) {
        const unsigned a[4] = {dl_pair<T>(s[j][0], s[j][1]), dl_pair<T>(s[j][2], s[j][3]),
                               dl_pair<T>(s[j + 1][0], s[j + 1][1]), dl_pair<T>(s[j + 1][2], s[j + 1][3])};
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            unsigned b[4];
            dl_take_turned(b, part + j * 8 * apart + n * 8);
            dl_mma_short<T>(o[n], a, b), dl_mma_short<T>(o[n + 1], a, b + 2);
        }
    }
}
