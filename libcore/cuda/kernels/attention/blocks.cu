/* Attention in f32 and f64, forward and backward: products of matrices for some rows of scores, and one pass over these
 * that masks them, makes weights of them and leaves out what dropout takes. Scores take at most BUDGET bytes, or a row
 * of queries. The heads of a group read the same keys one after another. */
#include "cuda/kernels/attention/rows.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/cublaslt.h"

enum { THREADS = 256, PARTS = 8 };
static const long BUDGET = 64l << 20;

/* Weights in place of scores, a block a row. A query that sees nothing gets zeros, and an infinite statistic, of which
 * the gradient makes zeros again. */
template <class T> __global__ void __launch_bounds__(THREADS) weights_kernel(T *s, rows_of c) {
    __shared__ T shared[THREADS / DL_WARP];
    __shared__ double sums[THREADS / DL_WARP];
    T *x = s + blockIdx.x * c.cols, top = -(T)INFINITY;
    place p = place_of(c, blockIdx.x);
    for (long j = threadIdx.x; j < p.count; j += THREADS) {
        x[j] = score(c, p, x[j], j);
        top = dl_larger(top, x[j]);
    }
    top = dl_row_join(top, dl_larger_f(), shared, THREADS);
    bool none = top == -(T)INFINITY;
    double sum = 0;
    for (long j = threadIdx.x; j < p.count; j += THREADS) {
        x[j] = none ? T(0) : exp(x[j] - top);
        sum += (double)x[j];
    }
    sum = dl_row_join(sum, dl_sum_f(), sums, THREADS);
    T each = none ? T(0) : (T)(1 / sum);
    dl_rng_key key = key_of(c);
    for (long j = threadIdx.x; j < c.cols; j += THREADS)
        x[j] = j < p.count ? x[j] * each * keep<T>(c, p, key, j) : T(0);
    if (!threadIdx.x) c.stats[p.at] = none ? (double)INFINITY : (double)top + log(sum);
}

/* Weights p, as dropout leaves them, in place of scores, and the gradient of scores in place of that of weights. */
template <class T> __global__ void __launch_bounds__(THREADS) back_kernel(T *s, T *d, rows_of c) {
    T *x = s + blockIdx.x * c.cols, *y = d + blockIdx.x * c.cols;
    place p = place_of(c, blockIdx.x);
    double lse = c.stats[p.at];
    T high = (T)lse, low = isinf(lse) ? T(0) : (T)(lse - (double)high), mean = (T)c.mean[p.at];
    dl_rng_key key = key_of(c);
    for (long j = threadIdx.x; j < c.cols; j += THREADS) {
        T w = j < p.count ? exp(score(c, p, x[j], j) - high - low) : T(0),
          k = j < p.count ? keep<T>(c, p, key, j) : T(0);
        x[j] = w * k;
        y[j] = j < p.count ? w * (y[j] * k - mean) * (T)c.scale : T(0);
    }
}

/* The sum of g * out of each query, a warp a row. */
template <class T>
__global__ void __launch_bounds__(THREADS) mean_kernel(const T *g, const T *o, double *mean, long rows, long size) {
    long r = ((long)blockIdx.x * THREADS + threadIdx.x) / DL_WARP;
    double sum = 0;
    for (long j = threadIdx.x % DL_WARP; r < rows && j < size; j += DL_WARP)
        sum += (double)dl_up(g[r * size + j]) * (double)dl_up(o[r * size + j]);
    sum = dl_row_join(sum, dl_sum_f(), (double *)NULL);
    if (r < rows && threadIdx.x % DL_WARP == 0) mean[r] = sum;
}

/* ---- chunks */

struct work {
    dl_gpu *g;
    const dl_attention_run *r;
    long es, heads, rows; /* heads of keys and rows of queries of a chunk, at most */
    char *s, *d;          /* scores and their gradient */
    double *mean;
};

static long least(long a, long b) { return a < b ? a : b; }
static long most(long a, long b) { return a > b ? a : b; }

/* Rows of a chunk: few enough to pass over what is masked, many enough for the products. */
static void plan(work *w) {
    const dl_attention_sizes *a = &w->r->a;
    long row = a->keys * w->es, rows = a->causal ? most(128, (a->rows + PARTS - 1) / PARTS) : a->rows;
    w->rows = least(least(rows, a->rows), most(1, BUDGET / row));
    if (w->rows > 64 && w->rows < a->rows) w->rows = w->rows / 64 * 64;
    w->heads = least(a->batch * a->kv_heads, most(1, BUDGET / (row * w->rows)));
}

/* How many keys the rows of a chunk may see: one of PARTS numbers, so that products of few shapes are measured. */
static long cols_of(const dl_attention_sizes *a, long end) {
    long step = (a->keys + PARTS - 1) / PARTS;
    return a->causal ? least(a->keys, (end + step - 1) / step * step) : a->keys;
}

/* The rows of a chunk of a tensor of queries, and the heads of one of keys. */
static char *rows_at(const work *w, const dl_tensor *t, const rows_of &c) {
    long size = t->shape[3];
    return (char *)dl_ptr(t) + ((c.first * c.group + c.member) * c.rows_all + c.row) * size * w->es;
}
static char *keys_at(const work *w, const dl_tensor *t, const rows_of &c) {
    return (char *)dl_ptr(t) + c.first * c.keys * t->shape[3] * w->es;
}

/* scores = rows of x times keys of y */
static dl_status scores(const work *w, const rows_of &c, long heads, const dl_tensor *x, const dl_tensor *y, char *to) {
    long size = x->shape[3];
    dl_gemm p = {};
    p.t = w->r->t, p.m = c.rows, p.n = c.cols, p.k = size, p.count = heads, p.out = to;
    p.a = {rows_at(w, x, c), size, 1}, p.step_a = c.group * c.rows_all * size;
    p.b = {keys_at(w, y, c), 1, size}, p.step_b = c.keys * size;
    return dl_gemm_run(w->g, &p);
}

/* rows of out = weights times keys of y */
static dl_status to_rows(const work *w, const rows_of &c, long heads, char *weights, const dl_tensor *y,
                         dl_tensor *out) {
    long size = y->shape[3];
    dl_gemm p = {};
    p.t = w->r->t, p.m = c.rows, p.n = size, p.k = c.cols, p.count = heads, p.out = rows_at(w, out, c);
    p.a = {weights, c.cols, 1}, p.step_a = c.rows * c.cols;
    p.b = {keys_at(w, y, c), size, 1}, p.step_b = c.keys * size;
    p.step_out = c.group * c.rows_all * size;
    return dl_gemm_run(w->g, &p);
}

/* keys of out += weights' times rows of x */
static dl_status to_keys(const work *w, const rows_of &c, long heads, char *weights, const dl_tensor *x,
                         dl_tensor *out) {
    long size = x->shape[3];
    dl_gemm p = {};
    if (!out) return DL_OK;
    p.t = w->r->t, p.m = c.cols, p.n = size, p.k = c.rows, p.count = heads, p.out = keys_at(w, out, c);
    p.a = {weights, 1, c.cols}, p.step_a = c.rows * c.cols;
    p.b = {rows_at(w, x, c), size, 1}, p.step_b = c.group * c.rows_all * size;
    p.step_out = c.keys * size, p.accumulate = true;
    return dl_gemm_run(w->g, &p);
}

template <class T> static dl_status forward_chunk(const work *w, const rows_of &c, long heads) {
    const dl_attention_run *r = w->r;
    DL_TRY(scores(w, c, heads, r->q, r->k, w->s));
    weights_kernel<<<(unsigned)(heads * c.rows), THREADS, 0, w->g->stream>>>((T *)w->s, c);
    DL_TRY(dl_gpu_launched(w->g));
    return to_rows(w, c, heads, w->s, r->v, r->out);
}

template <class T> static dl_status backward_chunk(const work *w, const rows_of &c, long heads) {
    const dl_attention_run *r = w->r;
    DL_TRY(scores(w, c, heads, r->q, r->k, w->s));
    DL_TRY(scores(w, c, heads, r->g, r->v, w->d));
    back_kernel<<<(unsigned)(heads * c.rows), THREADS, 0, w->g->stream>>>((T *)w->s, (T *)w->d, c);
    DL_TRY(dl_gpu_launched(w->g));
    if (r->dq) DL_TRY(to_rows(w, c, heads, w->d, r->k, r->dq));
    DL_TRY(to_keys(w, c, heads, w->s, r->g, r->dv));
    return to_keys(w, c, heads, w->d, r->q, r->dk);
}

static dl_status each_chunk(const work *w, dl_status (*run)(const work *, const rows_of &, long)) {
    const dl_attention_sizes *a = &w->r->a;
    long heads = a->batch * a->kv_heads;
    rows_of c = rows_of_run(w->r, w->mean);
    for (c.member = 0; c.member < a->group; c.member++)
        for (c.row = 0; c.row < a->rows; c.row += w->rows)
            for (c.first = 0; c.first < heads; c.first += w->heads) {
                c.rows = least(w->rows, a->rows - c.row), c.cols = cols_of(a, c.row + c.rows);
                DL_TRY(run(w, c, least(w->heads, heads - c.first)));
            }
    return DL_OK;
}

static work work_of(dl_gpu *g, const dl_attention_run *r) {
    work w = {};
    w.g = g, w.r = r, w.es = dl_dtype_size(r->t);
    return w;
}

static bool nothing(const dl_attention_sizes *a) { return !a->batch || !a->heads || !a->rows; }

dl_status dl_attention_blocks(dl_gpu *g, const dl_attention_run *r) {
    work w = work_of(g, r);
    if (nothing(&r->a)) return DL_OK;
    if (!r->a.keys || !r->a.value_size) return dl_cuda_clear(g, r->out);
    if (dl_attention_has_tiles(r)) return dl_attention_tiles(g, r);
    plan(&w);
    if (!(w.s = (char *)dl_gpu_take(g, (size_t)(w.heads * w.rows * r->a.keys * w.es)))) return dl_failed();
    dl_status s = r->t == DL_F64 ? each_chunk(&w, forward_chunk<double>) : each_chunk(&w, forward_chunk<float>);
    dl_gpu_drop(g, w.s);
    return s;
}

static dl_status means(const work *w) {
    const dl_attention_run *r = w->r;
    long rows = r->a.batch * r->a.heads * r->a.rows;
    return dl_dispatch<DL_FLOATS>(r->t, [&](auto x) {
        typedef decltype(x) T;
        mean_kernel<<<dl_blocks(rows, THREADS / DL_WARP), THREADS, 0, w->g->stream>>>(
            dl_data<T>(r->g), dl_data<T>(r->out), w->mean, rows, r->a.value_size);
        return dl_gpu_launched(w->g);
    });
}

dl_status dl_attention_blocks_grad(dl_gpu *g, const dl_attention_run *r) {
    work w = work_of(g, r);
    dl_tensor *sums[3] = {r->dq, r->dk, r->dv};
    for (int i = 0; i < 3; i++)
        if (sums[i] && sums[i]->numel) DL_TRY(dl_cuda_clear(g, sums[i]));
    if (nothing(&r->a) || !r->a.keys || !r->a.value_size) return DL_OK;
    const bool tiles = dl_attention_has_tiles(r);
    const size_t rows = (size_t)(r->a.batch * r->a.heads * r->a.rows) * sizeof(double);
    plan(&w);
    const size_t bytes = (size_t)(w.heads * w.rows * r->a.keys * w.es);
    w.mean = (double *)dl_gpu_take(g, rows);
    if (!tiles) w.s = w.mean ? (char *)dl_gpu_take(g, bytes) : NULL, w.d = w.s ? (char *)dl_gpu_take(g, bytes) : NULL;
    dl_status s = !w.mean || (!tiles && !w.d) ? dl_failed() : means(&w);
    if (s == DL_OK)
        s = tiles            ? dl_attention_tiles_grad(g, r, w.mean)
            : r->t == DL_F64 ? each_chunk(&w, backward_chunk<double>)
                             : each_chunk(&w, backward_chunk<float>);
    if (w.s) dl_gpu_drop(g, w.s);
    if (w.d) dl_gpu_drop(g, w.d);
    if (w.mean) dl_gpu_drop(g, w.mean);
    return s;
}
