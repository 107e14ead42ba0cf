/* Attention in f32 with heads of at most 128 numbers, forward and backward, that stores no scores: a block keeps 64
 * rows of scores, of queries or of keys, and walks over the others by tiles in shared memory. A warp has 16 of the
 * rows. Products run on tensor cores, each number in two parts (runtime/split_mma.cuh). Softmax by Milakov and
 * Gimelshein: Online normalizer calculation for softmax (2018); tiles and recomputation by Dao and others:
 * FlashAttention (2022). */
#include "cuda/kernels/attention/rows.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/split_mma.cuh"

enum { THREADS = 128, ROWS = 64, TILE = 32, COLUMNS = TILE / 8 };

/* Rows of D numbers in shared memory lie D + 4 apart: the reads of a fragment, of A as of B, meet no bank twice. */
template <int D> constexpr int APART = D + 4;
/* Bytes of a matrix of the rows of the block, and of one of the two parts of a tile. */
template <int D> constexpr int ROWS_BYTES = ROWS *APART<D> * 4;
template <int D> constexpr int TILE_BYTES = TILE *APART<D> * 4;

/* Blocks that a multiprocessor shall hold at once. */
template <int D> constexpr int RESIDENT = D == 64 ? 3 : 1;

/* Operands beside rows_of: those of one head are `size` or `value_size` numbers a row. */
struct tile_operands {
    const float *q, *k, *v, *g;
    float *out, *dq, *dk, *dv;
    int size, value_size;
    bool wide; /* the operands lie on 16 bytes */
    long batch;
};

/* A tile: of each number the part of 11 bits, and what is left of it. */
struct halves {
    unsigned *high, *low;
};

__device__ inline float4 read4(const float *p, int d, int size, bool wide) {
    if (wide && size % 4 == 0) return d < size ? *(const float4 *)(p + d) : float4();
    float4 x;
    x.x = d < size ? p[d] : 0, x.y = d + 1 < size ? p[d + 1] : 0;
    x.z = d + 2 < size ? p[d + 2] : 0, x.w = d + 3 < size ? p[d + 3] : 0;
    return x;
}

/* Rows first to first + N of a matrix with `rows` rows of `size` numbers; what is not there is 0. */
template <int D, int N>
__device__ void take(float *to, const float *__restrict__ from, long first, long rows, int size, bool wide) {
    for (int i = threadIdx.x * 4; i < N * D; i += THREADS * 4) {
        const int r = i / D, d = i % D;
        *(float4 *)(to + r * APART<D> + d) =
            first + r < rows ? read4(from + (first + r) * size, d, size, wide) : float4();
    }
}

/* A tile on its way: it is read while the tile before is in use. */
template <int D> struct ahead { float4 v[TILE * D / (4 * THREADS)]; };
template <int D>
__device__ void fetch(ahead<D> &a, const float *__restrict__ from, long first, long rows, int size, bool wide) {
#pragma unroll
    for (int i = 0; i < TILE * D / (4 * THREADS); i++) {
        const int at = (i * THREADS + threadIdx.x) * 4, r = at / D, d = at % D;
        a.v[i] = first + r < rows ? read4(from + (first + r) * size, d, size, wide) : float4();
    }
}
template <int D> __device__ void store(halves to, const ahead<D> &a) {
#pragma unroll
    for (int i = 0; i < TILE * D / (4 * THREADS); i++) {
        const int at = (i * THREADS + threadIdx.x) * 4, place = at / D * APART<D> + at % D;
        const float4 x = a.v[i];
        uint4 high, low;
        dl_split_f32(x.x, high.x, low.x), dl_split_f32(x.y, high.y, low.y);
        dl_split_f32(x.z, high.z, low.z), dl_split_f32(x.w, high.w, low.w);
        *(uint4 *)(to.high + place) = high;
        *(uint4 *)(to.low + place) = low;
    }
}

/* s[16 rows of the warp, TILE] = x y^T, x being rows of the block and y the tile. */
template <int D> __device__ inline void row_products(float (*s)[4], const float *x, halves y) {
    const int lane = threadIdx.x % 32, r = lane % 8, m = lane / 8;
    const unsigned *part = (m < 2 ? y.high : y.low) + r * APART<D> + m % 2 * 4;
    float low[COLUMNS][4] = {};
    x += (threadIdx.x / 32 * 16 + m % 2 * 8 + r) * APART<D> + m / 2 * 4;
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
            dl_take_fragments(pair, part + j * 8 * APART<D> + k);
            b[j] = {{pair[0], pair[1]}, {pair[2], pair[3]}};
        }
        dl_mma_split<COLUMNS>(s, low, a, b);
    }
#pragma unroll
    for (int i = 0; i < 4 * COLUMNS; i++) s[i / 4][i % 4] += low[i / 4][i % 4];
}

/* o[16, D] += s y: the fragments of s are read as those of A, whose columns t and t + 4 are 2 t and 2 t + 1 of s. */
template <int D> __device__ inline void column_products(float (*o)[4], const float (*s)[4], halves y) {
    enum { N = 4 };
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
                const int at = (j * 8 + 2 * t) * APART<D> + (n + m) * 8 + g;
                b[m] = {{y.high[at], y.high[at + APART<D>]}, {y.low[at], y.low[at + APART<D>]}};
            }
            dl_mma_split<N>(high, low, a[j], b);
        }
#pragma unroll
        for (int i = 0; i < 4 * N; i++) o[n + i / 4][i % 4] += high[i / 4][i % 4] + low[i / 4][i % 4];
    }
}

/* The sum, or another join, of the four lanes that have a row. */
template <class T, class F> __device__ inline T join_row(T x, F f) {
    x = f(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return f(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* The rows of a warp's accumulators, times factor[0] or, of the later eight, factor[1]. */
template <int D>
__device__ void put_rows(float *to, long first, long rows, int size, const float (*o)[4], const float *factor) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const long r = first + threadIdx.x / 32 * 16 + g + e / 2 * 8;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            const int d = n * 8 + 2 * t + e % 2;
            if (r < rows && d < size) to[r * size + d] = o[n][e] * factor[e / 2];
        }
    }
}

/* Query i, which sees nothing where there is none. */
__device__ inline place row_of(const rows_of &c, long n, long h, long i) {
    place p = place_at(c, n, h, i, c.keys);
    if (i >= c.rows_all) p.count = 0;
    return p;
}

/* ---- forward */

template <int D> constexpr int FORWARD_BYTES = ROWS_BYTES<D> + 4 * TILE_BYTES<D>;

/* A block's rows of queries: of all heads first the last rows, which have most to do where attention is causal. */
template <int D, bool PLAIN>
__global__ void __launch_bounds__(THREADS, RESIDENT<D>)
    forward_kernel(const __grid_constant__ rows_of c, tile_operands p) {
    extern __shared__ __align__(16) char shared[];
    float *q = (float *)shared;
    unsigned *at = (unsigned *)(shared + ROWS_BYTES<D>);
    const halves k = {at, at + TILE * APART<D>}, v = {at + 2 * TILE * APART<D>, at + 3 * TILE * APART<D>};
    const long heads = p.batch * c.heads, tiles = (c.rows_all + ROWS - 1) / ROWS;
    const long head = blockIdx.x % heads, first = (tiles - 1 - blockIdx.x / heads) * ROWS;
    const long n = head / c.heads, h = head % c.heads, keys_at = (n * c.kv_heads + h / c.group) * c.keys;
    const long mine = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    const place row[2] = {row_of(c, n, h, mine), row_of(c, n, h, mine + 8)};
    const int sees[2] = {(int)row[0].count, (int)row[1].count};
    const int end = (int)place_at(c, n, h, first + ROWS - 1, c.keys).count;
    const float *keys = p.k + keys_at * p.size, *values = p.v + keys_at * p.value_size, scale = (float)c.scale;
    const dl_rng_key key = key_of(c);
    float o[D / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, factor[2];
    double sum[2] = {};
    take<D, ROWS>(q, p.q + head * c.rows_all * p.size, first, c.rows_all, p.size, p.wide);
    ahead<D> next_k, next_v;
    fetch<D>(next_k, keys, 0, c.keys, p.size, p.wide), fetch<D>(next_v, values, 0, c.keys, p.value_size, p.wide);
    for (int from = 0; from < end; from += TILE) {
        __syncthreads();
        store<D>(k, next_k), store<D>(v, next_v);
        __syncthreads();
        if (from + TILE < end) {
            fetch<D>(next_k, keys, from + TILE, c.keys, p.size, p.wide);
            fetch<D>(next_v, values, from + TILE, c.keys, p.value_size, p.wide);
        }
        float s[COLUMNS][4], most[2] = {top[0], top[1]}, part[2] = {};
        row_products<D>(s, q, k);
        const int lane = from + threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = 0; i < 4 * COLUMNS; i++) {
            const int r = i % 4 / 2, j = lane + i / 4 * 8 + i % 2;
            float &x = s[i / 4][i % 4];
            x = j < sees[r] ? x * scale : -INFINITY;
            if (!PLAIN && j < sees[r]) x = masked(c, row[r], x, j);
            most[r] = dl_larger(most[r], x);
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            most[r] = join_row(most[r], dl_larger_f());
            factor[r] = top[r] == most[r] ? 1 : expf(top[r] - most[r]);
            top[r] = most[r];
        }
#pragma unroll
        for (int i = 0; i < D / 2; i++) o[i / 4][i % 4] *= factor[i % 4 / 2];
#pragma unroll
        for (int i = 0; i < 4 * COLUMNS; i++) {
            const int r = i % 4 / 2, j = lane + i / 4 * 8 + i % 2;
            float &x = s[i / 4][i % 4];
            x = top[r] == -INFINITY ? 0 : expf(x - top[r]);
            part[r] += x;
            if (!PLAIN) x *= keep<float>(c, row[r], key, j);
        }
#pragma unroll
        for (int r = 0; r < 2; r++) sum[r] = sum[r] * factor[r] + part[r];
        column_products<D>(o, s, v);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const bool none = top[r] == -INFINITY;
        const double all = join_row(sum[r], dl_sum_f());
        factor[r] = none ? 0.f : (float)(1 / all);
        if (threadIdx.x % 4 == 0 && row[r].i < c.rows_all)
            c.stats[row[r].at] = none ? (double)INFINITY : (double)top[r] + log(all);
    }
    put_rows<D>(p.out + head * c.rows_all * p.value_size, first, c.rows_all, p.value_size, o, factor);
}

/* ---- backward: weights come again from scores and the statistic of each query */

/* What the gradient needs of a query. */
struct query {
    place at;
    float high, low, mean; /* the statistic in two parts; the sum of g * out */
};
__device__ inline query query_of(const rows_of &c, long n, long h, long i) {
    query q;
    q.at = row_of(c, n, h, i);
    q.high = q.low = q.mean = 0;
    if (i >= c.rows_all) return q;
    const double lse = c.stats[q.at.at];
    q.high = (float)lse, q.low = isinf(lse) ? 0.f : (float)(lse - (double)q.high), q.mean = (float)c.mean[q.at.at];
    return q;
}

/* A weight, as dropout leaves it, in place of score s, and the gradient of the score in place of that of the weight. */
template <bool PLAIN>
__device__ inline void weigh(const rows_of &c, const query &q, dl_rng_key key, int j, float &s, float &d) {
    const bool sees = j < (int)q.at.count;
    const float x = PLAIN ? s * (float)c.scale : sees ? score(c, q.at, s, j) : 0.f;
    const float w = sees ? expf(x - q.high - q.low) : 0.f, k = PLAIN || !sees ? 1.f : keep<float>(c, q.at, key, j);
    s = w * k;
    d = sees ? w * (d * k - q.mean) * (float)c.scale : 0.f;
}

template <int D> constexpr int BACKWARD_BYTES = 2 * ROWS_BYTES<D> + 4 * TILE_BYTES<D>;

/* Gradients of a block's queries. */
template <int D, bool PLAIN>
__global__ void __launch_bounds__(THREADS, RESIDENT<D>)
    queries_kernel(const __grid_constant__ rows_of c, tile_operands p) {
    extern __shared__ __align__(16) char shared[];
    float *q = (float *)shared, *g = (float *)(shared + ROWS_BYTES<D>);
    unsigned *at = (unsigned *)(shared + 2 * ROWS_BYTES<D>);
    const halves k = {at, at + TILE * APART<D>}, v = {at + 2 * TILE * APART<D>, at + 3 * TILE * APART<D>};
    const long heads = p.batch * c.heads, tiles = (c.rows_all + ROWS - 1) / ROWS;
    const long head = blockIdx.x % heads, first = (tiles - 1 - blockIdx.x / heads) * ROWS;
    const long n = head / c.heads, h = head % c.heads, keys_at = (n * c.kv_heads + h / c.group) * c.keys;
    const long mine = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    const query row[2] = {query_of(c, n, h, mine), query_of(c, n, h, mine + 8)};
    const int end = (int)place_at(c, n, h, first + ROWS - 1, c.keys).count;
    const float *keys = p.k + keys_at * p.size, *values = p.v + keys_at * p.value_size;
    const dl_rng_key key = key_of(c);
    const float one[2] = {1, 1};
    float o[D / 8][4] = {};
    take<D, ROWS>(q, p.q + head * c.rows_all * p.size, first, c.rows_all, p.size, p.wide);
    take<D, ROWS>(g, p.g + head * c.rows_all * p.value_size, first, c.rows_all, p.value_size, p.wide);
    ahead<D> next_k, next_v;
    fetch<D>(next_k, keys, 0, c.keys, p.size, p.wide), fetch<D>(next_v, values, 0, c.keys, p.value_size, p.wide);
    for (int from = 0; from < end; from += TILE) {
        __syncthreads();
        store<D>(k, next_k), store<D>(v, next_v);
        __syncthreads();
        if (from + TILE < end) {
            fetch<D>(next_k, keys, from + TILE, c.keys, p.size, p.wide);
            fetch<D>(next_v, values, from + TILE, c.keys, p.value_size, p.wide);
        }
        float s[COLUMNS][4], d[COLUMNS][4];
        row_products<D>(s, q, k);
        row_products<D>(d, g, v);
#pragma unroll
        for (int i = 0; i < 4 * COLUMNS; i++)
            weigh<PLAIN>(c, row[i % 4 / 2], key, from + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, s[i / 4][i % 4],
                         d[i / 4][i % 4]);
        column_products<D>(o, d, k);
    }
    put_rows<D>(p.dq + head * c.rows_all * p.size, first, c.rows_all, p.size, o, one);
}

/* Gradients of a block's keys and values, the heads of a group one after another. */
template <int D, bool PLAIN>
__global__ void __launch_bounds__(THREADS, RESIDENT<D>)
    keys_kernel(const __grid_constant__ rows_of c, tile_operands p) {
    extern __shared__ __align__(16) char shared[];
    __shared__ query queries[TILE];
    float *k = (float *)shared, *v = (float *)(shared + ROWS_BYTES<D>);
    unsigned *at = (unsigned *)(shared + 2 * ROWS_BYTES<D>);
    const halves q = {at, at + TILE * APART<D>}, g = {at + 2 * TILE * APART<D>, at + 3 * TILE * APART<D>};
    const long heads = p.batch * c.kv_heads, head = blockIdx.x % heads, first = blockIdx.x / heads * ROWS;
    const long n = head / c.kv_heads, mine = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    const long begin = c.causal ? first / TILE * TILE : 0;
    const dl_rng_key key = key_of(c);
    const float one[2] = {1, 1};
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    take<D, ROWS>(k, p.k + head * c.keys * p.size, first, c.keys, p.size, p.wide);
    take<D, ROWS>(v, p.v + head * c.keys * p.value_size, first, c.keys, p.value_size, p.wide);
    ahead<D> next_q, next_g;
    for (long member = 0; member < c.group; member++) {
        const long h = head % c.kv_heads * c.group + member, rows_at = (n * c.heads + h) * c.rows_all;
        const float *of_q = p.q + rows_at * p.size, *of_g = p.g + rows_at * p.value_size;
        fetch<D>(next_q, of_q, begin, c.rows_all, p.size, p.wide),
            fetch<D>(next_g, of_g, begin, c.rows_all, p.value_size, p.wide);
        for (long from = begin; from < c.rows_all; from += TILE) {
            __syncthreads();
            store<D>(q, next_q), store<D>(g, next_g);
            if (threadIdx.x < TILE) queries[threadIdx.x] = query_of(c, n, h, from + threadIdx.x);
            __syncthreads();
            if (from + TILE < c.rows_all) {
                fetch<D>(next_q, of_q, from + TILE, c.rows_all, p.size, p.wide);
                fetch<D>(next_g, of_g, from + TILE, c.rows_all, p.value_size, p.wide);
            }
            float s[COLUMNS][4], d[COLUMNS][4];
            row_products<D>(s, k, q);
            row_products<D>(d, v, g);
#pragma unroll
            for (int i = 0; i < 4 * COLUMNS; i++)
                weigh<PLAIN>(c, queries[i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2], key, mine + i % 4 / 2 * 8,
                             s[i / 4][i % 4], d[i / 4][i % 4]);
            column_products<D>(dv, s, g);
            column_products<D>(dk, d, q);
        }
    }
    if (p.dk) put_rows<D>(p.dk + head * c.keys * p.size, first, c.keys, p.size, dk, one);
    if (p.dv) put_rows<D>(p.dv + head * c.keys * p.value_size, first, c.keys, p.value_size, dv, one);
}

/* ---- launches */

bool dl_attention_has_tiles(const dl_attention_run *r) {
    const dl_attention_sizes *a = &r->a;
    const long most = a->rows > a->keys ? a->rows : a->keys;
    return r->t == DL_F32 && a->size <= 128 && a->value_size <= 128 && most < 1L << 30 &&
           a->batch * a->heads * ((most + ROWS - 1) / ROWS) < 1L << 31;
}

static tile_operands operands_of(const dl_attention_run *r) {
    tile_operands p = {};
    p.q = dl_data<float>(r->q), p.k = dl_data<float>(r->k), p.v = dl_data<float>(r->v), p.g = dl_data<float>(r->g);
    p.out = dl_data<float>(r->out), p.dq = dl_data<float>(r->dq), p.dk = dl_data<float>(r->dk);
    p.wide = !(((size_t)p.q | (size_t)p.k | (size_t)p.v | (size_t)p.g) % 16);
    p.dv = dl_data<float>(r->dv), p.size = (int)r->a.size, p.value_size = (int)r->a.value_size, p.batch = r->a.batch;
    return p;
}

/* No mask, no dropout: the kernels for that have half the instructions. */
static bool plain(const dl_attention_run *r) { return !r->mask && r->a.dropout == 0; }

typedef void kernel(const rows_of, tile_operands);
/* A block for ROWS rows of each of `heads` heads. */
static dl_status launch(dl_gpu *g, kernel *run, int bytes, long heads, long rows, const rows_of &c,
                        const tile_operands &p) {
    DL_CUDA_TRY(g, cudaFuncSetAttribute(run, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "attention");
    run<<<(unsigned)(heads * ((rows + ROWS - 1) / ROWS)), THREADS, bytes, g->stream>>>(c, p);
    return dl_gpu_launched(g);
}

template <int D> static dl_status forward(dl_gpu *g, const dl_attention_run *r) {
    return launch(g, plain(r) ? forward_kernel<D, true> : forward_kernel<D, false>, FORWARD_BYTES<D>,
                  r->a.batch * r->a.heads, r->a.rows, rows_of_run(r, NULL), operands_of(r));
}
template <int D> static dl_status backward(dl_gpu *g, const dl_attention_run *r, const double *mean) {
    const dl_attention_sizes *a = &r->a;
    const rows_of c = rows_of_run(r, mean);
    const tile_operands p = operands_of(r);
    const bool is_plain = plain(r);
    if (r->dq)
        DL_TRY(launch(g, is_plain ? queries_kernel<D, true> : queries_kernel<D, false>, BACKWARD_BYTES<D>,
                      a->batch * a->heads, a->rows, c, p));
    if (!r->dk && !r->dv) return DL_OK;
    return launch(g, is_plain ? keys_kernel<D, true> : keys_kernel<D, false>, BACKWARD_BYTES<D>, a->batch * a->kv_heads,
                  a->keys, c, p);
}

static bool narrow(const dl_attention_sizes *a) { return a->size <= 64 && a->value_size <= 64; }
dl_status dl_attention_tiles(dl_gpu *g, const dl_attention_run *r) {
    return narrow(&r->a) ? forward<64>(g, r) : forward<128>(g, r);
}
dl_status dl_attention_tiles_grad(dl_gpu *g, const dl_attention_run *r, const double *mean) {
    return narrow(&r->a) ? backward<64>(g, r, mean) : backward<128>(g, r, mean);
}
