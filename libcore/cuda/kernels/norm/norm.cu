/* Kernels of batch_norm and batch_norm_relu and their fused gradients: reductions by channel in f64, and pointwise
 * passes over any layout. */
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/rows.cuh"
#include "ops/names/norm.h"

/* A vector with one number a channel, of any dtype; p NULL: absent. */
typedef struct vec {
    void *p;
    int dtype;
    long step;
    __device__ double get(long i) const { return dl_get(p, dtype, i * step); }
    __device__ void put(long i, double v) const { dl_put(p, dtype, i * step, v); }
} vec;

static vec vec_of(const dl_tensor *t) { return t ? vec{dl_ptr(t), t->dtype, t->stride[0]} : vec{NULL, 0, 0}; }

/* y = (x - mean) * scale + shift, scale and shift in the computing type. */
template <class C> struct norm_of {
    vec mean, rstd, run_mean, run_var, weight, bias;
    C *center, *scale, *shift;
    double eps, momentum, n;
    const dl_control *control; /* running statistics stay when it has halted */
    bool training;
    __device__ void channel(long c, double mu, double var) const {
        double r = 1 / sqrt(var + eps);
        mean.put(c, mu);
        rstd.put(c, r);
        center[c] = (C)mu;
        scale[c] = (C)(r * (weight.p ? weight.get(c) : 1));
        shift[c] = (C)(bias.p ? bias.get(c) : 0);
    }
};

/* The moments of each channel become its statistics; running ones move towards them, with Bessel's correction. */
template <class T> struct stats_op : dl_moments_op<T> {
    norm_of<calc_t<T>> to;
    __device__ void finish(dl_two_sums s, long c, double first) const {
        double d = s.a / to.n, mu = first + d, var = s.b / to.n - d * d, m = to.momentum;
        if (var < 0) var = 0;
        to.channel(c, mu, var);
        if (!to.run_mean.p || (to.control && to.control->halt != 0)) return;
        to.run_mean.put(c, (1 - m) * to.run_mean.get(c) + m * mu);
        to.run_var.put(c, (1 - m) * to.run_var.get(c) + m * var * to.n / (to.n - 1));
    }
};

template <class C> __global__ void running_kernel(norm_of<C> to, long channels) {
    long c = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (c < channels) to.channel(c, to.run_mean.get(c), to.run_var.get(c));
}

/* The value of batch_norm. The gradient of batch_norm_relu computes it again to see where it was positive, so both must
 * round alike. */
__device__ inline float normal_at(float x, float mean, float scale, float shift) {
    return fmaf(x - mean, scale, shift);
}
__device__ inline double normal_at(double x, double mean, double scale, double shift) {
    return fma(x - mean, scale, shift);
}

struct apply_f {
    bool relu;
    template <class C> __device__ C operator()(C x, C mean, C scale, C shift) const {
        C y = normal_at(x, mean, scale, shift);
        return relu && y < C(0) ? C(0) : y;
    }
};

/* ---- channels that lie side by side */

enum { LAST_THREADS = 256, LAST_AHEAD = 4, LAST_TURNS = 16, LAST_SUMS = 528, LAST_PAIRS = 396, JOIN_WIDTH = 2 };

/* Pixels one after another, each of `per` packs of channels. A block is as wide as these, at most LAST_THREADS, and has
 * `chunk` pixels. */
typedef struct last_plan {
    long pixels, chunk;
    unsigned per;
    dim3 grid, block;
} last_plan;

static last_plan last_plan_of(const dl_tensor *x, int pack, long blocks) {
    last_plan p;
    p.per = (unsigned)(x->shape[1] / pack), p.pixels = x->numel / x->shape[1];
    p.block = dim3(p.per < LAST_THREADS ? p.per : (unsigned)LAST_THREADS);
    p.block.y = LAST_THREADS / p.block.x;
    long turn = (long)p.block.y * LAST_AHEAD;
    p.chunk = blocks ? (p.pixels + blocks - 1) / blocks : (long)p.block.y * LAST_TURNS;
    p.chunk = (p.chunk + turn - 1) / turn * turn;
    p.grid = dim3((unsigned)((p.pixels + p.chunk - 1) / p.chunk), (p.per + p.block.x - 1) / p.block.x);
    return p;
}

/* F: coefficients of a channel at(c), and a function of these, x and, with PAIR, second. Goes from the end to the
 * beginning, because the pass before has left the end in the cache. */
template <class T, int V, bool PAIR, class F>
__global__ void __launch_bounds__(LAST_THREADS) last_kernel(const T *x, const T *second, T *y, last_plan p, F f) {
    typedef dl_vector<T, V> pack;
    unsigned c = blockIdx.y * blockDim.x + threadIdx.x;
    if (c >= p.per) return;
    long from = (gridDim.x - 1 - blockIdx.x) * p.chunk, end = from + p.chunk < p.pixels ? from + p.chunk : p.pixels;
    typename F::known k[V];
#pragma unroll
    for (int e = 0; e < V; e++) k[e] = f.at(c * V + e);
    for (long r = from + threadIdx.y; r < end; r += LAST_AHEAD * blockDim.y) {
        pack a[LAST_AHEAD], b[LAST_AHEAD];
#pragma unroll
        for (int j = 0; j < LAST_AHEAD; j++) {
            long at = r + j * blockDim.y;
            if (at >= end) continue;
            a[j] = ((const pack *)x)[at * p.per + c];
            if constexpr (PAIR) b[j] = ((const pack *)second)[at * p.per + c];
        }
#pragma unroll
        for (int j = 0; j < LAST_AHEAD; j++) {
            long at = r + j * blockDim.y;
            if (at >= end) continue;
#pragma unroll
            for (int e = 0; e < V; e++)
                a[j].v[e] = dl_down<T>(f(dl_up(a[j].v[e]), dl_up((PAIR ? b : a)[j].v[e]), k[e]));
            ((pack *)y)[at * p.per + c] = a[j];
        }
    }
}

/* part[block][channel]: the sums over the block's pixels. */
template <class T, int V, class Op>
__global__ void __launch_bounds__(LAST_THREADS) last_sums_kernel(const T *x, last_plan p, dl_two_sums *part, Op op) {
    typedef dl_vector<T, V> pack;
    __shared__ dl_two_sums shared[V][LAST_THREADS];
    unsigned c = blockIdx.y * blockDim.x + threadIdx.x;
    bool real = c < p.per;
    long from = blockIdx.x * p.chunk, end = from + p.chunk < p.pixels ? from + p.chunk : p.pixels;
    decltype(op.context(dl_up(*x), 0)) known[V];
    dl_two_sums sum[V];
#pragma unroll
    for (int e = 0; e < V; e++) {
        sum[e] = op.identity();
        if (real) known[e] = op.context(dl_up(x[c * V + e]), c * V + e);
    }
    for (long r = from + threadIdx.y; real && r < end; r += LAST_AHEAD * blockDim.y) {
        pack a[LAST_AHEAD], b[Op::PAIR ? LAST_AHEAD : 1];
#pragma unroll
        for (int j = 0; j < LAST_AHEAD; j++) {
            long at = r + j * blockDim.y;
            if (at >= end) continue;
            a[j] = ((const pack *)x)[at * p.per + c];
            if constexpr (Op::PAIR) b[j] = ((const pack *)op.second)[at * p.per + c];
        }
#pragma unroll
        for (int j = 0; j < LAST_AHEAD; j++) {
            if (r + j * blockDim.y >= end) continue;
#pragma unroll
            for (int e = 0; e < V; e++) {
                if constexpr (Op::PAIR)
                    sum[e] = op.take(sum[e], dl_up(a[j].v[e]), dl_up(b[j].v[e]), known[e]);
                else
                    sum[e] = op.take(sum[e], dl_up(a[j].v[e]), 0, known[e]);
            }
        }
    }
    unsigned slot = threadIdx.y * blockDim.x + threadIdx.x;
    for (unsigned lines = blockDim.y; lines > 1;) {
        unsigned half = (lines + 1) / 2;
#pragma unroll
        for (int e = 0; e < V; e++) shared[e][slot] = sum[e];
        __syncthreads();
        if (threadIdx.y + half < lines) {
#pragma unroll
            for (int e = 0; e < V; e++) sum[e] = op.join(sum[e], shared[e][slot + half * blockDim.x]);
        }
        __syncthreads();
        lines = half;
    }
    if (threadIdx.y || !real) return;
#pragma unroll
    for (int e = 0; e < V; e++) part[(blockIdx.x * (long)p.per + c) * V + e] = sum[e];
}

/* The parts of each channel, by many lines of threads: those of a warp are joined first. */
template <class T, class Op>
__global__ void __launch_bounds__(LAST_THREADS)
    last_join_kernel(const T *x, const dl_two_sums *part, unsigned parts, unsigned channels, Op op) {
    enum { LINES = LAST_THREADS / JOIN_WIDTH };
    __shared__ dl_two_sums shared[LAST_THREADS / DL_WARP][JOIN_WIDTH];
    unsigned lane = threadIdx.x % JOIN_WIDTH, line = threadIdx.x / JOIN_WIDTH, c = blockIdx.x * JOIN_WIDTH + lane;
    bool real = c < channels;
    decltype(op.context(dl_up(*x), 0)) known = {};
    if (real && !line) known = op.context(dl_up(x[c]), c);
    dl_two_sums sum = op.identity();
#pragma unroll 4
    for (unsigned i = line; i < parts && real; i += LINES) sum = op.join(sum, part[(long)i * channels + c]);
#pragma unroll
    for (int k = DL_WARP / 2; k >= JOIN_WIDTH; k /= 2) sum = op.join(sum, dl_red_shuffle(sum, k));
    if (threadIdx.x % DL_WARP < JOIN_WIDTH) shared[threadIdx.x / DL_WARP][lane] = sum;
    __syncthreads();
    if (line || !real) return;
#pragma unroll
    for (int i = 1; i < LAST_THREADS / DL_WARP; i++) sum = op.join(sum, shared[i][lane]);
    op.finish(sum, c, known);
}

/* Channels innermost, in whole packs, and pixels one after another. */
static bool channels_inside(const dl_tensor *t) {
    long want = t->shape[1], size = (long)dl_esize(t);
    bool good = want % dl_red_across((size_t)size) == 0 && t->stride[1] == 1 && (size_t)dl_ptr(t) % 16 == 0;
    for (int k = 1; k < t->ndim; k++) {
        int d = t->ndim - k > 1 ? t->ndim - k : 0;
        good = good && (t->shape[d] == 1 || t->stride[d] == want);
        want *= t->shape[d];
    }
    return good;
}

template <class T, bool PAIR, class F>
static dl_status over_last(dl_gpu *g, const dl_tensor *x, const void *second, const dl_tensor *y, F f) {
    enum { V = dl_red_across(sizeof(T)) };
    last_plan p = last_plan_of(x, V, 0);
    last_kernel<T, V, PAIR><<<p.grid, p.block, 0, g->stream>>>(dl_data<T>(x), (const T *)second, dl_data<T>(y), p, f);
    return dl_gpu_launched(g);
}

/* Reduces x, and what op reads beside it, by channel. */
template <class T, class Op> static dl_status by_channel(dl_gpu *g, const dl_tensor *x, const void *second, Op op) {
    enum { V = dl_red_across(sizeof(T)) };
    const T *from = dl_data<T>(x);
    if (!channels_inside(x) || (size_t)second % 16) {
        dl_red_plan p;
        dl_red_plan_of(&p, x, ~2u & ((1u << x->ndim) - 1), false, second);
        return dl_red_run(g, from, p, op);
    }
    last_plan p = last_plan_of(x, V, Op::PAIR ? LAST_PAIRS : LAST_SUMS);
    unsigned channels = (unsigned)x->shape[1];
    dl_two_sums *part = (dl_two_sums *)dl_gpu_take(g, sizeof(dl_two_sums) * channels * (size_t)p.grid.x);
    if (!part) return dl_failed();
    last_sums_kernel<T, V><<<p.grid, p.block, 0, g->stream>>>(from, p, part, op);
    last_join_kernel<T>
        <<<(channels + JOIN_WIDTH - 1) / JOIN_WIDTH, LAST_THREADS, 0, g->stream>>>(from, part, p.grid.x, channels, op);
    dl_gpu_drop(g, part);
    return dl_gpu_launched(g);
}

template <class C> struct apply_last {
    struct known {
        C mean, scale, shift;
    };
    const C *center, *scale, *shift;
    apply_f f;
    __device__ known at(unsigned c) const { return {center[c], scale[c], shift[c]}; }
    __device__ C operator()(C x, C, const known &k) const { return f(x, k.mean, k.scale, k.shift); }
};

static void per_channel(dl_it *it, const dl_tensor *x, void *p, size_t size) {
    long stride[DL_MAX_DIM] = {0};
    stride[1] = 1;
    dl_it_operand(it, p, size, x->ndim, x->shape, stride);
}

template <class T> static dl_status forward(dl_gpu *g, dl_call *c, calc_t<T> *work) {
    typedef calc_t<T> C;
    dl_tensor *x = c->in[0];
    long n = x->shape[1];
    norm_of<C> to = {vec_of(OUTPUT(c, BATCHNORM_MEAN)),
                     vec_of(OUTPUT(c, BATCHNORM_RSTD)),
                     vec_of(INPUT(c, BATCHNORM_RUNNING_MEAN)),
                     vec_of(INPUT(c, BATCHNORM_RUNNING_VAR)),
                     vec_of(INPUT(c, BATCHNORM_WEIGHT)),
                     vec_of(INPUT(c, BATCHNORM_BIAS)),
                     work,
                     work + n,
                     work + 2 * n,
                     ATTR_F(c, BATCHNORM_EPS),
                     ATTR_F(c, BATCHNORM_MOMENTUM),
                     (double)(x->numel / n),
                     g->control,
                     ATTR_I(c, BATCHNORM_TRAINING) != 0};
    dl_status s;
    if (to.training) {
        s = by_channel<T>(g, x, NULL, stats_op<T>{{}, to});
    } else {
        running_kernel<<<(unsigned)((n + 255) / 256), 256, 0, g->stream>>>(to, n);
        s = dl_gpu_launched(g);
    }
    if (s != DL_OK) return s;
    apply_f f = {c->op->id == dl_id_batch_norm_relu};
    if (channels_inside(x) && channels_inside(c->out[0]))
        return over_last<T, false>(g, x, NULL, c->out[0], apply_last<C>{work, work + n, work + 2 * n, f});
    dl_it it;
    dl_it_begin(&it, x->ndim, x->shape);
    dl_it_tensor(&it, c->out[0]);
    dl_it_tensor(&it, x);
    for (int k = 0; k < 3; k++) per_channel(&it, x, work + k * n, sizeof(C));
    dl_it_end(&it);
    return dl_each<apply_f, T, T, C, C, C>(g, it, f);
}

static dl_status run_batch_norm(dl_call *c) {
    DL_USE_GPU(g, c->device);
    if (!c->in[0]->numel) return DL_OK;
    void *work = dl_gpu_take(g, 3 * sizeof(double) * (size_t)c->in[0]->shape[1]);
    if (!work) return dl_failed();
    dl_status s = dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return forward<T>(g, c, (calc_t<T> *)work);
    });
    dl_gpu_drop(g, work);
    return s;
}

/* ---- gradient: dx = g a + (x - mean) b + c, from dx = rstd w (g - mean(g) - xhat mean(g xhat)); without the means in
 * evaluation. Under relu g counts where the result was positive (or NaN). */

template <class T> struct grad_op : dl_two_sums_op {
    enum { PAIR = true };
    typedef calc_t<T> C;
    const T *second; /* the gradient */
    vec mean, rstd, weight, bias, dweight, dbias;
    C *center, *a, *shift, *b, *c; /* a is the scale of the result, too */
    double n;
    bool training, relu;
    struct known {
        double mu;
        C center, scale, shift;
    };
    __device__ known context(C, long i) const {
        double mu = mean.get(i);
        return {mu, (C)mu, (C)(rstd.get(i) * (weight.p ? weight.get(i) : 1)), (C)(bias.p ? bias.get(i) : 0)};
    }
    __device__ A take(A s, C x, C g, known k) const {
        if (relu && normal_at(x, k.center, k.scale, k.shift) <= C(0)) return s;
        return {s.a + (double)g, s.b + (double)g * ((double)x - k.mu)};
    }
    __device__ void finish(A s, long i, known at) const {
        double r = rstd.get(i), k = r * (weight.p ? weight.get(i) : 1);
        center[i] = at.center, a[i] = at.scale, shift[i] = at.shift;
        b[i] = (C)(training ? -k * r * r * s.b / n : 0);
        c[i] = (C)(training ? -k * s.a / n : 0);
        if (dweight.p) dweight.put(i, s.b * r);
        if (dbias.p) dbias.put(i, s.a);
    }
};

struct grad_f {
    bool relu;
    template <class C> __device__ C operator()(C g, C x, C mean, C a, C shift, C b, C c) const {
        if (relu && normal_at(x, mean, a, shift) <= C(0)) g = C(0);
        return g * a + ((x - mean) * b + c);
    }
};

template <class C> struct grad_last {
    struct known {
        C mean, a, shift, b, c;
    };
    const C *work;
    long n;
    grad_f f;
    __device__ known at(unsigned i) const {
        return {work[i], work[n + i], work[2 * n + i], work[3 * n + i], work[4 * n + i]};
    }
    __device__ C operator()(C g, C x, const known &k) const { return f(g, x, k.mean, k.a, k.shift, k.b, k.c); }
};

enum { GRAD_ARRAYS = 5 };

typedef struct grad_call {
    dl_tensor *x, *g, *dx, *w, *bias, *mean, *rstd, *dw, *db;
    bool training, relu;
} grad_call;

template <class T> static dl_status backward(dl_gpu *gpu, const grad_call *q, calc_t<T> *work) {
    typedef calc_t<T> C;
    dl_tensor *x = q->x;
    long n = x->shape[1];
    grad_op<T> op = {{},
                     dl_data<T>(q->g),
                     vec_of(q->mean),
                     vec_of(q->rstd),
                     vec_of(q->w),
                     vec_of(q->bias),
                     vec_of(q->dw),
                     vec_of(q->db),
                     work,
                     work + n,
                     work + 2 * n,
                     work + 3 * n,
                     work + 4 * n,
                     (double)(x->numel / n),
                     q->training,
                     q->relu};
    dl_status s = by_channel<T>(gpu, x, dl_ptr(q->g), op);
    if (s != DL_OK || !q->dx) return s;
    if (channels_inside(x) && channels_inside(q->dx) && (size_t)dl_ptr(q->g) % 16 == 0)
        return over_last<T, true>(gpu, q->g, dl_ptr(x), q->dx, grad_last<C>{work, n, grad_f{q->relu}});
    dl_it it;
    dl_it_begin(&it, x->ndim, x->shape);
    dl_it_tensor(&it, q->dx);
    dl_it_tensor(&it, q->g);
    dl_it_tensor(&it, x);
    for (int k = 0; k < GRAD_ARRAYS; k++) per_channel(&it, x, work + k * n, sizeof(C));
    dl_it_end(&it);
    return dl_each<grad_f, T, T, T, C, C, C, C, C>(gpu, it, grad_f{q->relu});
}

static dl_tensor *vector_for(dl_back *b, int i, const dl_tensor *x) {
    return DL_NEED(i) ? dl_tmp(b, dl_tensor_empty(1, &x->shape[1], (dl_dtype)dl_in_meta(b, i)->dtype, x->st->device))
                      : NULL;
}

static dl_status sums_and_dx(dl_gpu *g, const grad_call *q) {
    void *work = dl_gpu_take(g, GRAD_ARRAYS * sizeof(double) * (size_t)q->x->shape[1]);
    if (!work) return dl_failed();
    dl_status s = dl_dispatch<DL_FLOATS>(q->x->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        return backward<T>(g, q, (calc_t<T> *)work);
    });
    dl_gpu_drop(g, work);
    return s;
}

/* The gradient of a vector, which may be absent, over no elements. */
static dl_status none(dl_gpu *g, dl_tensor *d) {
    if (!d || !d->numel) return DL_OK;
    return dl_cuda_clear(g, d);
}

static dl_status grad_batch_norm(dl_back *b) {
    bool relu = b->op->id == dl_id_batch_norm_relu;
    bool weighted = b->nin > DL_IN_BATCHNORM_WEIGHT && META(BATCHNORM_WEIGHT)->ndim;
    bool shifted = relu && b->nin > DL_IN_BATCHNORM_BIAS && META(BATCHNORM_BIAS)->ndim;
    grad_call q = {};
    q.x = IN_(BATCHNORM_INPUT), q.mean = OUT_(BATCHNORM_MEAN), q.rstd = OUT_(BATCHNORM_RSTD);
    q.w = weighted ? IN_(BATCHNORM_WEIGHT) : NULL, q.bias = shifted ? IN_(BATCHNORM_BIAS) : NULL;
    q.training = ATTR_I(b, BATCHNORM_TRAINING) != 0, q.relu = relu;
    dl_gpu *g = q.x && q.mean && q.rstd ? dl_gpu_use(q.x->st->device) : NULL;
    if (!g) return dl_fail_null("the input");
    dl_tensor *like = dl_tmp(b, dl_cuda_empty_like(q.x, (dl_dtype)q.x->dtype));
    if (!like || !(q.x = dl_tmp(b, dl_cuda_strided_like(g, q.x, like)))) return dl_failed();
    if (!(q.g = dl_tmp(b, dl_cuda_strided_like(g, b->g[0], like)))) return dl_failed();
    q.dx = NEED(BATCHNORM_INPUT) ? like : NULL;
    q.dw = vector_for(b, DL_IN_BATCHNORM_WEIGHT, q.x), q.db = vector_for(b, DL_IN_BATCHNORM_BIAS, q.x);
    dl_status s = q.x->numel ? sums_and_dx(g, &q) : none(g, q.dw);
    if (s == DL_OK && !q.x->numel) s = none(g, q.db);
    if (s == DL_OK && q.dx) s = dl_give(b, DL_IN_BATCHNORM_INPUT, dl_ref(q.dx));
    if (s == DL_OK && q.dw) s = dl_give(b, DL_IN_BATCHNORM_WEIGHT, dl_ref(q.dw));
    if (s == DL_OK && q.db) s = dl_give(b, DL_IN_BATCHNORM_BIAS, dl_ref(q.db));
    return s;
}

const dl_kernel dl_cuda_batch_norm = {run_batch_norm, grad_batch_norm, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_batch_norm_relu = {run_batch_norm, grad_batch_norm, DL_FLOATS, NULL, 0};
