/* Distances of rows from rows and their gradients: of all pairs of two matrices of a batch (row_distances), or of the
 * pairs i < j of one matrix (pdist). Differences are never stored. */
#include "cuda/runtime/types.cuh"
#include "ops/names/matmul.h"

/* 16-bit numbers become f32 first: which of them is the largest difference, a rounded distance does not tell. */
constexpr unsigned DTYPES = DL_BIT(DL_F32) | DL_BIT(DL_F64);
enum { THREADS = 256, TILE = 64, EACH = TILE / 16, DEPTH = 16, COLUMNS = 32, OTHERS = 32 };

/* Rows x[b,i,:] and y[b,j,:], dense. `pairs`: y is x, and distances stand for i < j one after another; else that of i
 * and j stands at i by_i + j by_j of a matrix of n m. */
typedef struct job {
    const void *x, *y, *d, *g;
    void *out;
    long n, m, depth, by_i, by_j;
    double p;
    bool pairs;
    unsigned wide, high; /* blocks side by side and one below another, of each matrix of a batch */
} job;

__device__ static long place(const job &t, long b, long i, long j) {
    if (!t.pairs) return b * t.n * t.m + i * t.by_i + j * t.by_j;
    const long low = i < j ? i : j, high = i < j ? j : i;
    return low * (2 * t.n - low - 1) / 2 + high - low - 1;
}

/* For each norm: the sum with one more difference, what it is in the end; the factor of a distance's gradient that does
 * not depend on the difference, and the share of the difference v. */
struct norm_zero {
    template <class C> static __device__ C add(C sum, C v, double) { return sum + (v != 0 ? C(1) : C(0)); }
    template <class C> static __device__ C end(C sum, double) { return sum; }
    template <class C> static __device__ C factor(C, C, double) { return 0; }
    template <class C> static __device__ C share(C, C, C, double) { return 0; }
};
struct norm_one {
    template <class C> static __device__ C add(C sum, C v, double) { return sum + fabs(v); }
    template <class C> static __device__ C end(C sum, double) { return sum; }
    template <class C> static __device__ C factor(C g, C, double) { return g; }
    template <class C> static __device__ C share(C v, C w, C, double) { return v > 0 ? w : v < 0 ? -w : C(0); }
};
struct norm_two {
    template <class C> static __device__ C add(C sum, C v, double) { return sum + v * v; }
    template <class C> static __device__ C end(C sum, double) { return sqrt(sum); }
    template <class C> static __device__ C factor(C g, C d, double) { return g / d; }
    template <class C> static __device__ C share(C v, C w, C, double) { return v * w; }
};
struct norm_most { /* NaN is the largest; each of equal ones has the whole gradient */
    template <class C> static __device__ C add(C sum, C v, double) { return fabs(v) > sum || v != v ? fabs(v) : sum; }
    template <class C> static __device__ C end(C sum, double) { return sum; }
    template <class C> static __device__ C factor(C g, C, double) { return g; }
    template <class C> static __device__ C share(C v, C w, C d, double) {
        return fabs(v) == d ? copysign(w, v * w) : C(0);
    }
};
struct norm_any {
    template <class C> static __device__ C add(C sum, C v, double p) { return sum + pow(fabs(v), C(p)); }
    template <class C> static __device__ C end(C sum, double p) { return pow(sum, C(1 / p)); }
    template <class C> static __device__ C factor(C g, C d, double p) { return g / pow(d, C(p - 1)); }
    template <class C> static __device__ C share(C v, C w, C, double p) {
        return v == 0 ? C(0) : copysign(C(1), v) * w * pow(fabs(v), C(p - 1));
    }
};

/* A block has a tile of 64 by 64 distances, a thread 4 by 4 of them, 16 apart. */
template <class T, class NORM>
__global__ void __launch_bounds__(THREADS) distance_kernel(const __grid_constant__ job t) {
    __shared__ T x[DEPTH][TILE + 1], y[DEPTH][TILE + 1];
    const long b = blockIdx.x / (t.wide * t.high), i0 = (long)(blockIdx.x / t.wide % t.high) * TILE,
               j0 = (long)(blockIdx.x % t.wide) * TILE;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    if (t.pairs && j0 + TILE <= i0) return; /* all below the diagonal */
    const T *from_x = (const T *)t.x + b * t.n * t.depth, *from_y = (const T *)t.y + b * t.m * t.depth;
    T sum[EACH][EACH] = {};
    for (long k0 = 0; k0 < t.depth; k0 += DEPTH) {
        for (int e = threadIdx.x; e < TILE * DEPTH; e += THREADS) {
            const int k = e % DEPTH, row = e / DEPTH;
            const bool deep = k0 + k < t.depth;
            x[k][row] = deep && i0 + row < t.n ? from_x[(i0 + row) * t.depth + k0 + k] : T(0);
            y[k][row] = deep && j0 + row < t.m ? from_y[(j0 + row) * t.depth + k0 + k] : T(0);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            T u[EACH], v[EACH];
#pragma unroll
            for (int q = 0; q < EACH; q++) u[q] = x[k][ty + 16 * q], v[q] = y[k][tx + 16 * q];
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int q = 0; q < EACH; q++) sum[r][q] = NORM::add(sum[r][q], u[r] - v[q], t.p);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int q = 0; q < EACH; q++) {
            const long i = i0 + ty + 16 * r, j = j0 + tx + 16 * q;
            if (i < t.n && j < t.m && !(t.pairs && j <= i)) ((T *)t.out)[place(t, b, i, j)] = NORM::end(sum[r][q], t.p);
        }
}

/* The gradient of x: a block has ROWS * 8 rows of 32 columns, a thread ROWS of them in one column. */
template <class T, class NORM, int ROWS>
__global__ void __launch_bounds__(THREADS) back_kernel(const __grid_constant__ job t) {
    enum { HEIGHT = ROWS * THREADS / COLUMNS };
    __shared__ T y[OTHERS][COLUMNS], w[HEIGHT][OTHERS + 1], d[HEIGHT][OTHERS + 1];
    const long b = blockIdx.x / (t.wide * t.high), i0 = (long)(blockIdx.x / t.wide % t.high) * HEIGHT,
               k = (long)(blockIdx.x % t.wide) * COLUMNS + threadIdx.x % COLUMNS;
    const int first = threadIdx.x / COLUMNS;
    const T *from_x = (const T *)t.x + b * t.n * t.depth, *from_y = (const T *)t.y + b * t.m * t.depth;
    T mine[ROWS], sum[ROWS] = {};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const long i = i0 + first + r * (THREADS / COLUMNS);
        mine[r] = i < t.n && k < t.depth ? from_x[i * t.depth + k] : T(0);
    }
    for (long j0 = 0; j0 < t.m; j0 += OTHERS) {
        for (int e = threadIdx.x; e < OTHERS * COLUMNS; e += THREADS) {
            const int row = e / COLUMNS;
            y[row][e % COLUMNS] = j0 + row < t.m && k < t.depth ? from_y[(j0 + row) * t.depth + k] : T(0);
        }
        for (int e = threadIdx.x; e < HEIGHT * OTHERS; e += THREADS) {
            const int row = t.by_j == 1 ? e / OTHERS : e % HEIGHT, other = t.by_j == 1 ? e % OTHERS : e / HEIGHT;
            const long i = i0 + row, j = j0 + other;
            T far = 0, by = 0;
            if (i < t.n && j < t.m && !(t.pairs && i == j)) {
                const long at = place(t, b, i, j);
                far = ((const T *)t.d)[at], by = ((const T *)t.g)[at];
            }
            d[row][other] = far;
            w[row][other] = far == 0 ? T(0) : NORM::factor(by, far, t.p);
        }
        __syncthreads();
        const int some = t.m - j0 < OTHERS ? (int)(t.m - j0) : OTHERS;
#pragma unroll 4
        for (int j = 0; j < some; j++) {
            const T other = y[j][threadIdx.x % COLUMNS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int row = first + r * (THREADS / COLUMNS);
                const T far = d[row][j], share = NORM::share(mine[r] - other, w[row][j], far, t.p);
                sum[r] += far == 0 ? T(0) : share;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const long i = i0 + first + r * (THREADS / COLUMNS);
        if (i < t.n && k < t.depth) ((T *)t.out)[b * t.n * t.depth + i * t.depth + k] = sum[r];
    }
}

/* f(T(), NORM()) for an element type and a norm. */
template <class F> static dl_status each_norm(int dtype, double p, F f) {
    return dl_dispatch<DTYPES>(dtype, [&](auto tag) {
        return p == 0     ? f(tag, norm_zero())
               : p == 1   ? f(tag, norm_one())
               : p == 2   ? f(tag, norm_two())
               : isinf(p) ? f(tag, norm_most())
                          : f(tag, norm_any());
    });
}

static dl_status run(dl_gpu *g, int dtype, job t, long count) {
    if (!count || !t.n || !t.m) return DL_OK;
    t.wide = dl_blocks(t.m, TILE), t.high = dl_blocks(t.n, TILE);
    return each_norm(dtype, t.p, [&](auto tag, auto norm) {
        const unsigned blocks = t.wide * t.high * (unsigned)count;
        distance_kernel<decltype(tag), decltype(norm)><<<blocks, THREADS, 0, g->stream>>>(t);
        return dl_gpu_launched(g);
    });
}

/* Blocks have fewer rows where there would be too few of them for the GPU. */
static dl_status run_back(dl_gpu *g, int dtype, job t, long count) {
    if (!count || !t.n || !t.depth) return DL_OK;
    t.wide = dl_blocks(t.depth, COLUMNS), t.high = dl_blocks(t.n, 32);
    const bool many = t.wide * (long)t.high * count >= 2L * g->sms;
    if (!many) t.high = dl_blocks(t.n, 8);
    return each_norm(dtype, t.p, [&](auto tag, auto norm) {
        typedef decltype(tag) T;
        typedef decltype(norm) N;
        const unsigned blocks = t.wide * t.high * (unsigned)count;
        if (many)
            back_kernel<T, N, 4><<<blocks, THREADS, 0, g->stream>>>(t);
        else
            back_kernel<T, N, 1><<<blocks, THREADS, 0, g->stream>>>(t);
        return dl_gpu_launched(g);
    });
}

/* ---- rows of two matrices */

static job job_of(const dl_tensor *x, const dl_tensor *y, double p) {
    job t = {};
    t.x = dl_ptr(x), t.y = dl_ptr(y);
    t.n = x->shape[x->ndim - 2], t.m = y->shape[y->ndim - 2], t.depth = x->shape[x->ndim - 1];
    t.by_i = t.m, t.by_j = 1, t.p = p;
    return t;
}

static dl_status run_row_distances(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *x = dl_cuda_contiguous(g, c->in[0]), *y = x ? dl_cuda_contiguous(g, c->in[1]) : NULL;
    dl_status s = DL_ERR_MEMORY;
    if (y) {
        job t = job_of(x, y, ATTR_F(c, ROW_DISTANCES_P));
        t.out = dl_ptr(c->out[0]);
        s = run(g, x->dtype, t, x->shape[0]);
    }
    dl_unref(x);
    dl_unref(y);
    return s == DL_OK ? DL_OK : dl_failed();
}

/* The gradient of operand `which`, whose rows are those of x. */
static dl_status give(dl_gpu *g, dl_back *b, int which, const dl_tensor *x, const job &t) {
    if (!DL_NEED(which)) return DL_OK;
    dl_tensor *out = dl_cuda_empty_like(x, (dl_dtype)x->dtype);
    if (!out) return dl_failed();
    job own = t;
    own.out = dl_ptr(out);
    dl_status s = run_back(g, x->dtype, own, x->ndim > 2 ? x->shape[0] : 1);
    return s == DL_OK ? dl_give(b, which, out) : (dl_unref(out), s);
}

/* Operands, distances and their gradient, dense and of one dtype, in the pool of the pass. */
static dl_status dense(dl_gpu *g, dl_back *b, dl_tensor **t, int n) {
    for (int i = 0; i < n; i++) {
        dl_tensor *own = NULL;
        if (!t[i] || !dl_cuda_operand(g, t[i], t[0]->dtype, &own) || !(t[i] = dl_tmp(b, own))) return dl_failed();
    }
    return DL_OK;
}

static dl_status back_row_distances(dl_back *b) {
    dl_tensor *in[4] = {dl_saved_in(b, 0), dl_saved_in(b, 1), dl_saved_out(b, 0), b->g[0]};
    dl_gpu *g = in[0] ? dl_gpu_use(in[0]->st->device) : NULL;
    if (!g) return dl_failed();
    DL_TRY(dense(g, b, in, 4));
    job t = job_of(in[0], in[1], ATTR_F(b, ROW_DISTANCES_P)), turned = job_of(in[1], in[0], t.p);
    t.d = turned.d = dl_ptr(in[2]), t.g = turned.g = dl_ptr(in[3]);
    turned.by_i = 1, turned.by_j = t.m;
    DL_TRY(give(g, b, 0, in[0], t));
    return give(g, b, 1, in[1], turned);
}
const dl_kernel dl_cuda_row_distances = {run_row_distances, back_row_distances, DTYPES, NULL, 0};

/* ---- pairs of one matrix */

static job paired(const dl_tensor *x, double p) {
    job t = job_of(x, x, p);
    t.pairs = true;
    return t;
}

static dl_status run_pdist(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *x = dl_cuda_contiguous(g, c->in[0]);
    if (!x) return dl_failed();
    job t = paired(x, ATTR_F(c, PDIST_P));
    t.out = dl_ptr(c->out[0]);
    dl_status s = run(g, x->dtype, t, t.n > 1);
    dl_unref(x);
    return s;
}

static dl_status back_pdist(dl_back *b) {
    dl_tensor *in[3] = {dl_saved_in(b, 0), dl_saved_out(b, 0), b->g[0]};
    dl_gpu *g = in[0] ? dl_gpu_use(in[0]->st->device) : NULL;
    if (!g) return dl_failed();
    DL_TRY(dense(g, b, in, 3));
    job t = paired(in[0], ATTR_F(b, PDIST_P));
    t.d = dl_ptr(in[1]), t.g = dl_ptr(in[2]);
    return give(g, b, 0, in[0], t);
}
const dl_kernel dl_cuda_pdist = {run_pdist, back_pdist, DTYPES, NULL, 0};
