/* Attention in f32 and 16 bits with heads of at most 128 numbers, forward and backward, that stores no scores: a block
 * keeps 64 rows of scores, of queries or of keys, and walks over the others by tiles in shared memory
 * (kernels/attention/products.cuh). Numbers of 16 bits are multiplied as they are, those of f32 in two parts; weights
 * and their gradients are rounded to the type of the operands before they are multiplied. Softmax by Milakov and
 * Gimelshein: Online normalizer calculation for softmax (2018); tiles and recomputation by Dao and others:
 * FlashAttention (2022). */
#include "cuda/kernels/attention/products.cuh"
#include "cuda/kernels/attention/rows.cuh"
#include "cuda/kernels/rows.cuh"

/* Blocks that a multiprocessor shall hold at once. */
template <class T, int D> constexpr int RESIDENT = D == 64 ? 3 : sizeof(T) == 2 ? 2 : 1;

/* Operands beside rows_of: those of one head are `size` or `value_size` numbers a row. */
template <class T> struct tile_operands {
    const T *q, *k, *v, *g;
    T *out, *dq, *dk, *dv;
    int size, value_size;
    bool wide; /* the operands lie on 16 bytes */
    long batch;
};
/* Of one head: queries and gradients of results, keys and values. */
template <class T> __device__ inline matrix<T> queries_of(const rows_of &c, const tile_operands<T> &p, long head) {
    return {p.q + head * c.rows_all * p.size, (int)c.rows_all, p.size, p.wide};
}
template <class T> __device__ inline matrix<T> results_of(const rows_of &c, const tile_operands<T> &p, long head) {
    return {p.g + head * c.rows_all * p.value_size, (int)c.rows_all, p.value_size, p.wide};
}
template <class T> __device__ inline matrix<T> keys_of(const rows_of &c, const tile_operands<T> &p, long head) {
    return {p.k + head * c.keys * p.size, (int)c.keys, p.size, p.wide};
}
template <class T> __device__ inline matrix<T> values_of(const rows_of &c, const tile_operands<T> &p, long head) {
    return {p.v + head * c.keys * p.value_size, (int)c.keys, p.value_size, p.wide};
}

/* The sum, or another join, of the four lanes that have a row. */
template <class T, class F> __device__ inline T join_row(T x, F f) {
    x = f(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return f(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* The rows of a warp's accumulators, times factor[0] or, of the later eight, factor[1]. */
template <int D, class T>
__device__ void put_rows(T *to, long first, long rows, int size, const float (*o)[4], const float *factor) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const long r = first + threadIdx.x / 32 * 16 + g + e / 2 * 8;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            const int d = n * 8 + 2 * t + e % 2;
            if (r < rows && d < size) to[r * size + d] = dl_down<T>(o[n][e] * factor[e / 2]);
        }
    }
}

/* Query i, which sees nothing where there is none. */
__device__ inline place row_of(const rows_of &c, long n, long h, long i) {
    place p = place_at(c, n, h, i, c.keys);
    if (i >= c.rows_all) p.count = 0;
    return p;
}

/* A block's rows of queries: of all heads first the last rows, which have most to do where attention is causal. */
struct query_rows {
    long n, h, head, of_keys, first, mine; /* sequence, head, both, head of keys; row of the block, of the thread */
    int end;                               /* of the keys that the last row sees */
    __device__ query_rows(const rows_of &c, long batch) {
        const long heads = batch * c.heads, tiles = (c.rows_all + ROWS - 1) / ROWS;
        head = blockIdx.x % heads, first = (tiles - 1 - blockIdx.x / heads) * ROWS;
        n = head / c.heads, h = head % c.heads, of_keys = n * c.kv_heads + h / c.group;
        mine = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        end = (int)place_at(c, n, h, first + ROWS - 1, c.keys).count;
    }
};

/* ---- forward */

template <class T, int D> constexpr int FORWARD_BYTES = ROWS_BYTES<T, D> + 2 * TILE_BYTES<T, D>;

template <class T, int D, bool PLAIN>
__global__ void __launch_bounds__(THREADS, RESIDENT<T, D>)
    forward_kernel(const __grid_constant__ rows_of c, tile_operands<T> p) {
    extern __shared__ __align__(16) char shared[];
    T *q = (T *)shared;
    const tile<T, D> k(shared + ROWS_BYTES<T, D>), v(shared + ROWS_BYTES<T, D> + TILE_BYTES<T, D>);
    const query_rows b(c, p.batch);
    const place row[2] = {row_of(c, b.n, b.h, b.mine), row_of(c, b.n, b.h, b.mine + 8)};
    const int sees[2] = {(int)row[0].count, (int)row[1].count};
    const float scale = (float)c.scale;
    const dl_rng_key key = key_of(c);
    float o[D / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, factor[2];
    double sum[2] = {};
    take<T, D>(q, queries_of(c, p, b.head), b.first);
    auto each = [&](int from) {
        float s[COLUMNS][4], most[2] = {top[0], top[1]}, part[2] = {};
        row_products(s, q, k);
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
        column_products(o, s, v);
    };
    walk(
        k, keys_of(c, p, b.of_keys), v, values_of(c, p, b.of_keys), 0, b.end, [](int) {}, each);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const bool none = top[r] == -INFINITY;
        const double all = join_row(sum[r], dl_sum_f());
        factor[r] = none ? 0.f : (float)(1 / all);
        if (threadIdx.x % 4 == 0 && row[r].i < c.rows_all)
            c.stats[row[r].at] = none ? (double)INFINITY : (double)top[r] + log(all);
    }
    put_rows<D>(p.out + b.head * c.rows_all * p.value_size, b.first, c.rows_all, p.value_size, o, factor);
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

template <class T, int D> constexpr int BACKWARD_BYTES = 2 * ROWS_BYTES<T, D> + 2 * TILE_BYTES<T, D>;

/* Gradients of a block's queries. */
template <class T, int D, bool PLAIN>
__global__ void __launch_bounds__(THREADS, RESIDENT<T, D>)
    queries_kernel(const __grid_constant__ rows_of c, tile_operands<T> p) {
    extern __shared__ __align__(16) char shared[];
    T *q = (T *)shared, *g = (T *)(shared + ROWS_BYTES<T, D>);
    const tile<T, D> k(shared + 2 * ROWS_BYTES<T, D>), v(shared + 2 * ROWS_BYTES<T, D> + TILE_BYTES<T, D>);
    const query_rows b(c, p.batch);
    const query row[2] = {query_of(c, b.n, b.h, b.mine), query_of(c, b.n, b.h, b.mine + 8)};
    const dl_rng_key key = key_of(c);
    const float one[2] = {1, 1};
    float o[D / 8][4] = {};
    take<T, D>(q, queries_of(c, p, b.head), b.first), take<T, D>(g, results_of(c, p, b.head), b.first);
    auto each = [&](int from) {
        float s[COLUMNS][4], d[COLUMNS][4];
        row_products(s, q, k), row_products(d, g, v);
#pragma unroll
        for (int i = 0; i < 4 * COLUMNS; i++)
            weigh<PLAIN>(c, row[i % 4 / 2], key, from + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, s[i / 4][i % 4],
                         d[i / 4][i % 4]);
        column_products(o, d, k);
    };
    walk(
        k, keys_of(c, p, b.of_keys), v, values_of(c, p, b.of_keys), 0, b.end, [](int) {}, each);
    put_rows<D>(p.dq + b.head * c.rows_all * p.size, b.first, c.rows_all, p.size, o, one);
}

/* Gradients of a block's keys and values, the heads of a group one after another. */
template <class T, int D, bool PLAIN>
__global__ void __launch_bounds__(THREADS, RESIDENT<T, D>)
    keys_kernel(const __grid_constant__ rows_of c, tile_operands<T> p) {
    extern __shared__ __align__(16) char shared[];
    __shared__ query queries[TILE];
    T *k = (T *)shared, *v = (T *)(shared + ROWS_BYTES<T, D>);
    const tile<T, D> q(shared + 2 * ROWS_BYTES<T, D>), g(shared + 2 * ROWS_BYTES<T, D> + TILE_BYTES<T, D>);
    const long heads = p.batch * c.kv_heads, head = blockIdx.x % heads, first = blockIdx.x / heads * ROWS;
    const long n = head / c.kv_heads, mine = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    const int begin = c.causal ? (int)(first / TILE * TILE) : 0;
    const dl_rng_key key = key_of(c);
    const float one[2] = {1, 1};
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    take<T, D>(k, keys_of(c, p, head), first), take<T, D>(v, values_of(c, p, head), first);
    for (long member = 0; member < c.group; member++) {
        const long h = head % c.kv_heads * c.group + member, of_rows = n * c.heads + h;
        auto prepare = [&](int from) {
            if (threadIdx.x < TILE) queries[threadIdx.x] = query_of(c, n, h, from + threadIdx.x);
        };
        auto each = [&](int) {
            float s[COLUMNS][4], d[COLUMNS][4];
            row_products(s, k, q), row_products(d, v, g);
#pragma unroll
            for (int i = 0; i < 4 * COLUMNS; i++)
                weigh<PLAIN>(c, queries[i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2], key, mine + i % 4 / 2 * 8,
                             s[i / 4][i % 4], d[i / 4][i % 4]);
            column_products(dv, s, g), column_products(dk, d, q);
        };
        walk(q, queries_of(c, p, of_rows), g, results_of(c, p, of_rows), begin, (int)c.rows_all, prepare, each);
    }
    if (p.dk) put_rows<D>(p.dk + head * c.keys * p.size, first, c.keys, p.size, dk, one);
    if (p.dv) put_rows<D>(p.dv + head * c.keys * p.value_size, first, c.keys, p.value_size, dv, one);
}

/* ---- launches */

bool dl_attention_has_tiles(const dl_attention_run *r) {
    const dl_attention_sizes *a = &r->a;
    const long most = a->rows > a->keys ? a->rows : a->keys;
    return DL_BIT(r->t) & (DL_BIT(DL_F32) | DL_HALVES) && a->size <= 128 && a->value_size <= 128 && most < 1L << 30 &&
           a->batch * a->heads * ((most + ROWS - 1) / ROWS) < 1L << 31;
}

template <class T> static tile_operands<T> operands_of(const dl_attention_run *r) {
    tile_operands<T> p = {};
    p.q = dl_data<T>(r->q), p.k = dl_data<T>(r->k), p.v = dl_data<T>(r->v), p.g = dl_data<T>(r->g);
    p.out = dl_data<T>(r->out), p.dq = dl_data<T>(r->dq), p.dk = dl_data<T>(r->dk), p.dv = dl_data<T>(r->dv);
    p.wide = !(((size_t)p.q | (size_t)p.k | (size_t)p.v | (size_t)p.g) % 16);
    p.size = (int)r->a.size, p.value_size = (int)r->a.value_size, p.batch = r->a.batch;
    return p;
}

/* No mask, no dropout: the kernels for that have half the instructions. */
static bool plain(const dl_attention_run *r) { return !r->mask && r->a.dropout == 0; }

/* A block for ROWS rows of each of `heads` heads. */
template <class T>
static dl_status launch(dl_gpu *g, void (*run)(const rows_of, tile_operands<T>), int bytes, long heads, long rows,
                        const rows_of &c, const tile_operands<T> &p) {
    DL_CUDA_TRY(g, cudaFuncSetAttribute(run, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "attention");
    run<<<(unsigned)(heads * ((rows + ROWS - 1) / ROWS)), THREADS, bytes, g->stream>>>(c, p);
    return dl_gpu_launched(g);
}

template <class T, int D> static dl_status forward(dl_gpu *g, const dl_attention_run *r) {
    return launch(g, plain(r) ? forward_kernel<T, D, true> : forward_kernel<T, D, false>, FORWARD_BYTES<T, D>,
                  r->a.batch * r->a.heads, r->a.rows, rows_of_run(r, NULL), operands_of<T>(r));
}
template <class T, int D> static dl_status backward(dl_gpu *g, const dl_attention_run *r, const double *mean) {
    const dl_attention_sizes *a = &r->a;
    const rows_of c = rows_of_run(r, mean);
    const tile_operands<T> p = operands_of<T>(r);
    const bool is_plain = plain(r);
    if (r->dq)
        DL_TRY(launch(g, is_plain ? queries_kernel<T, D, true> : queries_kernel<T, D, false>, BACKWARD_BYTES<T, D>,
                      a->batch * a->heads, a->rows, c, p));
    if (!r->dk && !r->dv) return DL_OK;
    return launch(g, is_plain ? keys_kernel<T, D, true> : keys_kernel<T, D, false>, BACKWARD_BYTES<T, D>,
                  a->batch * a->kv_heads, a->keys, c, p);
}

static bool narrow(const dl_attention_sizes *a) { return a->size <= 64 && a->value_size <= 64; }
dl_status dl_attention_tiles(dl_gpu *g, const dl_attention_run *r) {
    return dl_dispatch<DL_BIT(DL_F32) | DL_HALVES>(r->t, [&](auto x) {
        typedef decltype(x) T;
        return narrow(&r->a) ? forward<T, 64>(g, r) : forward<T, 128>(g, r);
    });
}
dl_status dl_attention_tiles_grad(dl_gpu *g, const dl_attention_run *r, const double *mean) {
    return dl_dispatch<DL_BIT(DL_F32) | DL_HALVES>(r->t, [&](auto x) {
        typedef decltype(x) T;
        return narrow(&r->a) ? backward<T, 64>(g, r, mean) : backward<T, 128>(g, r, mean);
    });
}
