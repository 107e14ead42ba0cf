/* Copies between memory orders, in square tiles through shared memory: both sides are read and written in lines of 128
 * bytes and more. Elements below 4 bytes are moved in words where sizes and alignment allow. */
#include "cuda/kernels/transpose.h"

enum { WARPS = 8, LEAST = 16, BAND = 32 };

/* Dimension 0 is innermost in the result (a column of a tile runs along it), 1 in the source; the others count batches.
 * Strides in bytes: to the result, from the source. */
typedef struct transposition {
    char *to;
    const char *from;
    int ndim;
    unsigned shape[DL_MAX_DIM];
    long to_step[DL_MAX_DIM], from_step[DL_MAX_DIM];
    unsigned tiles[2];
} transposition;

/* Tiles go in bands, which keeps the memory in use together on both sides. Returns the tile's place. */
__device__ inline void place(const transposition &t, unsigned at, unsigned side, unsigned *i, unsigned *j,
                             const char **from, char **to) {
    unsigned each = t.tiles[0] * t.tiles[1], batch = at / each;
    at -= batch * each;
    unsigned band = at / (BAND * t.tiles[1]), wide = t.tiles[0] - band * BAND;
    if (wide > BAND) wide = BAND;
    at -= band * BAND * t.tiles[1];
    *j = at / wide * side;
    *i = (band * BAND + at % wide) * side;
    *from = t.from, *to = t.to;
    for (int d = 2; d < t.ndim; d++) {
        unsigned q = batch / t.shape[d], x = batch - q * t.shape[d];
        *from += x * t.from_step[d];
        *to += x * t.to_step[d];
        batch = q;
    }
}

/* Tiles of 32 P K elements by as many; a read is P elements, K reads of a warp make a line. */
template <class T, int P, int K>
__global__ void __launch_bounds__(32 * WARPS) transpose_kernel(const __grid_constant__ transposition t) {
    typedef typename std::conditional<P == 1, T, unsigned>::type word;
    enum { SIDE = 32 * P * K, LINE = SIDE / P, EACH = SIDE / WARPS };
    __shared__ word tile[SIDE][LINE + 1];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned i, j;
    const char *from;
    char *to;
    place(t, blockIdx.x, SIDE, &i, &j, &from, &to);
    unsigned rows = t.shape[0] - i, cols = t.shape[1] - j; /* left from here */
    from += (long)i * t.from_step[0] + (long)j * (long)sizeof(T);
    to += (long)i * (long)sizeof(T) + (long)j * t.to_step[1];
    word v[EACH][K];
#pragma unroll
    for (int e = 0; e < EACH; e++)
#pragma unroll
        for (int k = 0; k < K; k++) {
            unsigned r = warp + WARPS * e, c = lane + 32 * k;
            if (r < rows && c * P < cols) v[e][k] = *(const word *)(from + (long)r * t.from_step[0] + c * sizeof(word));
        }
#pragma unroll
    for (int e = 0; e < EACH; e++)
#pragma unroll
        for (int k = 0; k < K; k++) tile[warp + WARPS * e][lane + 32 * k] = v[e][k];
    __syncthreads();
#pragma unroll
    for (int e = 0; e < EACH; e++)
#pragma unroll
        for (int k = 0; k < K; k++) {
            unsigned c = warp + WARPS * e, r = (lane + 32 * k) * P;
            if (c >= cols || r >= rows) continue;
            word w;
            if constexpr (P == 1) {
                w = tile[r][c];
            } else {
                w = 0;
#pragma unroll
                for (int p = 0; p < P; p++) w |= (word)((const T *)tile[r + p])[c] << (8 * sizeof(T) * p);
            }
            *(word *)(to + (long)c * t.to_step[1] + r * sizeof(T)) = w;
        }
}

/* The dimension along which the source is dense; 0: none, or the same. */
static int dense_in_source(const dl_it *it, size_t size) {
    if (it->nop != 2 || it->numbers || it->ndim < 2) return 0;
    if (it->stride[0][0] != (long)size || it->stride[0][1] == (long)size || it->shape[0] < LEAST) return 0;
    for (int d = 1; d < it->ndim; d++)
        if (it->stride[d][1] == (long)size && it->shape[d] >= LEAST) return d;
    return 0;
}

bool dl_transpose_fits(const dl_it *it, size_t size) {
    bool fits = size <= 8 && dense_in_source(it, size) > 0;
    for (int d = 0; d < it->ndim; d++) fits = fits && it->shape[d] > 0 && it->shape[d] < 0x7fffffff;
    return fits;
}

/* Can 4 bytes be moved at a time? */
static bool in_words(const dl_it *it, int inner, size_t size) {
    long each = 4 / (long)size;
    size_t all = (size_t)it->ptr[0] | (size_t)it->ptr[1];
    for (int d = 0; d < it->ndim; d++) {
        if (d) all |= (size_t)it->stride[d][0];
        if (d != inner) all |= (size_t)it->stride[d][1];
    }
    return all % 4 == 0 && it->shape[0] % each == 0 && it->shape[inner] % each == 0;
}

template <class T, int P, int K> static dl_status launch(dl_gpu *g, transposition t) {
    unsigned side = 32 * P * K;
    double count = 1;
    for (int d = 0; d < 2; d++) t.tiles[d] = (t.shape[d] + side - 1) / side;
    for (int d = 2; d < t.ndim; d++) count *= t.shape[d];
    count *= (double)t.tiles[0] * t.tiles[1];
    if (count > 0x7fffffff) return dl_fail(DL_ERR_UNSUPPORTED, "a copy of more than 2**31 tiles");
    transpose_kernel<T, P, K><<<(unsigned)count, 32 * WARPS, 0, g->stream>>>(t);
    return dl_gpu_launched(g);
}

dl_status dl_transpose_run(dl_gpu *g, const dl_it *it, size_t size) {
    int inner = dense_in_source(it, size), at = 2;
    transposition t = {it->ptr[0], it->ptr[1], it->ndim, {0}, {0}, {0}, {0}};
    for (int d = 0; d < it->ndim; d++) {
        int k = !d ? 0 : d == inner ? 1 : at++;
        t.shape[k] = (unsigned)it->shape[d], t.to_step[k] = it->stride[d][0], t.from_step[k] = it->stride[d][1];
    }
    bool words = size < 4 && in_words(it, inner, size);
    switch (size) {
    case 1: return words ? launch<unsigned char, 4, 1>(g, t) : launch<unsigned char, 1, 1>(g, t);
    case 2: return words ? launch<unsigned short, 2, 1>(g, t) : launch<unsigned short, 1, 1>(g, t);
    case 4: return launch<unsigned, 1, 2>(g, t);
    default: return launch<unsigned long, 1, 1>(g, t);
    }
}
