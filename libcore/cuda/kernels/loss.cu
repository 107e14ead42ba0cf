/* Kernels of cross_entropy and nll_picked, forward and backward. Logits are [outer][classes][inner] and are read once.
 * The host is never waited for. */
#include "cuda/kernels/rows.cuh"
#include "ops/names/loss.h"

enum { THREADS = 256 };

typedef struct entropy {
    dl_rows r;
    const void *x, *y, *w, *lse; /* w NULL: all weigh 1 */
    int wide;                    /* labels are i64 */
    dl_reduction how;
    long ignore;
    double smooth;
    dl_fault_site site;
    double *part;  /* loss and weight by block */
    double *total; /* of the weights */
} entropy;

template <class T> __device__ double weight_of(const entropy &e, long c) {
    return e.w ? (double)dl_up(((const T *)e.w)[c]) : 1;
}

/* The label of a position; -1 for one that does not count. */
__device__ static long label_at(const entropy &e, long i, bool tell) {
    long label = e.wide ? ((const long *)e.y)[i] : ((const int *)e.y)[i];
    if (label == e.ignore) return -1;
    if (label >= 0 && label < e.r.d) return label;
    if (tell) dl_fault_raise(e.site, DL_FAULT_LABEL, label, e.r.d);
    return -1;
}

/* ---- forward */

/* Sums of a thread over its part of a row: the exponentials, and for smoothing the weights and weight times x. */
template <class C> struct seen {
    dl_exponentials<C> e;
    double w, wx;
};

/* U reads of V classes each, `lanes` reads apart. */
template <class T, int V, int U>
__device__ inline void see(const entropy &e, const T *x, long i, int lanes, seen<calc_t<T>> &s) {
    calc_t<T> v[U * V];
#pragma unroll
    for (int u = 0; u < U; u++) {
        dl_vector<T, V> p = *(const dl_vector<T, V> *)(x + (i + (long)u * lanes) * V * e.r.inner);
#pragma unroll
        for (int j = 0; j < V; j++) v[u * V + j] = dl_up(p.v[j]);
    }
    s.e = s.e.with(v);
    if (e.smooth == 0) return;
#pragma unroll
    for (int j = 0; j < U * V; j++) {
        double w = weight_of<T>(e, (i + j / V * (long)lanes) * V + j % V);
        s.w += w, s.wx += w * (double)v[j];
    }
}

/* Sums of a block, by thread 0 into the total, or for several blocks by the last one. */
template <class T> __device__ void add_up(const entropy &e, double loss, double weight, T *out, int *done) {
    __shared__ double shared[THREADS / DL_WARP];
    __shared__ bool last;
    loss = dl_row_join(loss, dl_sum_f(), shared, THREADS);
    weight = dl_row_join(weight, dl_sum_f(), shared, THREADS);
    if (gridDim.x > 1) {
        if (!threadIdx.x) {
            e.part[2 * blockIdx.x] = loss, e.part[2 * blockIdx.x + 1] = weight;
            __threadfence();
            last = atomicAdd(done, 1) == (int)gridDim.x - 1;
            if (last) *done = 0; /* for the next launch */
        }
        __syncthreads();
        if (!last) return;
        __threadfence();
        loss = weight = 0;
        for (unsigned i = threadIdx.x; i < gridDim.x; i += THREADS) loss += e.part[2 * i], weight += e.part[2 * i + 1];
        loss = dl_row_join(loss, dl_sum_f(), shared, THREADS);
        weight = dl_row_join(weight, dl_sum_f(), shared, THREADS);
    }
    if (!threadIdx.x) *out = dl_down<T>(e.how == DL_REDUCE_MEAN ? loss / weight : loss);
}

template <class T, int V>
__global__ void __launch_bounds__(THREADS) forward_kernel(entropy e, int lanes, double *lse, T *out, int *done) {
    typedef calc_t<T> C;
    enum { U = V > 4 ? 2 : 4 };
    __shared__ C tops[THREADS / DL_WARP];
    __shared__ double sums[THREADS / DL_WARP];
    long row = ((long)blockIdx.x * THREADS + threadIdx.x) / lanes, d = e.r.d, inner = e.r.inner;
    bool real = row < e.r.outer * inner;
    long packs = real ? d / V : 0, i = threadIdx.x % lanes;
    const T *x = (const T *)e.x + row / inner * d * inner + row % inner;
    seen<C> s = {dl_exponentials<C>::none(), 0, 0};
    for (; i + (U - 1) * lanes < packs; i += U * lanes) see<T, V, U>(e, x, i, lanes, s);
    for (; i < packs; i += lanes) see<T, V, 1>(e, x, i, lanes, s);
    C top = dl_row_join(s.e.top, dl_larger_f(), tops, lanes);
    double sum = dl_row_join(s.e.moved(s.e.shift(top)), dl_sum_f(), sums, lanes), loss = 0, w = 0;
    double total = (double)top + log(dl_exponentials<C>{top, sum}.finite());
    if (e.smooth != 0)
        s.w = dl_row_join(s.w, dl_sum_f(), sums, lanes), s.wx = dl_row_join(s.wx, dl_sum_f(), sums, lanes);
    if (real && threadIdx.x % lanes == 0) {
        long label = label_at(e, row, true);
        if (label >= 0) {
            w = weight_of<T>(e, label);
            loss = w * (total - (double)dl_up(x[label * inner]));
            if (e.smooth != 0) loss = (1 - e.smooth) * loss + e.smooth / (double)d * (total * s.w - s.wx);
        }
        lse[row] = total;
        if (e.how == DL_REDUCE_NONE) out[row] = dl_down<T>(loss);
    }
    if (e.how != DL_REDUCE_NONE) add_up(e, loss, w, out, done);
}

/* ---- backward */

/* The sum of the weights of the labels that count, by all threads of a grid or block; of `step` threads this is `at`.
 */
template <class T> __device__ double label_weights(const entropy &e, long at, long step) {
    double sum = 0;
    for (long i = at; i < e.r.outer * e.r.inner; i += step) {
        long label = label_at(e, i, false);
        if (label >= 0) sum += weight_of<T>(e, label);
    }
    return sum;
}

template <class T> __global__ void __launch_bounds__(THREADS) weights_kernel(entropy e, int *done) {
    double sum = label_weights<T>(e, (long)blockIdx.x * THREADS + threadIdx.x, (long)gridDim.x * THREADS);
    e.how = DL_REDUCE_SUM;
    add_up<double>(e, sum, 0, e.total, done);
}

/* What a row's gradient is made of: dx = sum * softmax(x) - t, t = (1 - s) w[y] onehot(y) + s / C w, times scale. */
struct slope {
    double lse, sum, own, spread, scale;
    long label;
};

template <class T> __device__ slope slope_of(const entropy &e, long row, double scale, double total, double classes) {
    slope s = {((const double *)e.lse)[row], 0, 0, 0, 0, label_at(e, row, false)};
    if (s.label < 0) return s;
    s.scale = e.how == DL_REDUCE_MEAN ? scale / total : scale;
    s.spread = e.smooth / (double)e.r.d;
    s.own = (1 - e.smooth) * weight_of<T>(e, s.label);
    s.sum = s.own + s.spread * classes;
    return s;
}

template <class T, int V>
__global__ void __launch_bounds__(THREADS) backward_kernel(entropy e, int lanes, bool own_total, const T *g, T *dx) {
    typedef calc_t<T> C;
    __shared__ double shared[THREADS / DL_WARP];
    long row = ((long)blockIdx.x * THREADS + threadIdx.x) / lanes, d = e.r.d, inner = e.r.inner;
    double total = 0, classes = (double)d;
    if (own_total)
        total = dl_row_join(label_weights<T>(e, threadIdx.x, THREADS), dl_sum_f(), shared, THREADS);
    else if (e.how == DL_REDUCE_MEAN)
        total = *e.total;
    if (e.w && e.smooth != 0) {
        double sum = 0;
        for (long c = threadIdx.x; c < d; c += THREADS) sum += weight_of<T>(e, c);
        classes = dl_row_join(sum, dl_sum_f(), shared, THREADS);
    }
    if (row >= e.r.outer * inner) return;
    long at = row / inner * d * inner + row % inner;
    slope s = slope_of<T>(e, row, (double)dl_up(g[e.how == DL_REDUCE_NONE ? row : 0]), total, classes);
    const T *x = (const T *)e.x + at;
#pragma unroll 4
    for (long i = threadIdx.x % lanes; i < d / V; i += lanes) {
        dl_vector<T, V> p = *(const dl_vector<T, V> *)(x + i * V * inner);
#pragma unroll
        for (int j = 0; j < V; j++) {
            double v = 0;
            if (s.label >= 0) {
                v = s.sum * (double)exp((C)((double)dl_up(p.v[j]) - s.lse));
                if (s.spread != 0) v -= s.spread * weight_of<T>(e, i * V + j);
                if (i * V + j == s.label) v -= s.own;
                v *= s.scale;
            }
            p.v[j] = dl_down<T>(v);
        }
        *(dl_vector<T, V> *)(dx + at + i * V * inner) = p;
    }
}

/* ---- calls */

/* What forward and backward share, of nll_picked, too, which has the same attributes but for smoothing. keep:
 * contiguous operands, to be released. */
static dl_status entropy_of(dl_gpu *g, entropy *e, const dl_op *op, dl_tensor *const *in, const dl_aval *attr,
                            dl_tensor **keep) {
    memset(e, 0, sizeof *e);
    const bool smooths = op->id == dl_id_cross_entropy;
    DL_TRY(dl_reduction_of(&attr[DL_A_LOSS_REDUCTION], &e->how));
    for (int i = 0; i < 3; i++)
        if (in[i] && !(keep[i] = dl_cuda_contiguous(g, in[i]))) return dl_failed();
    int cls = in[0]->ndim > 1;
    e->r.outer = cls ? in[0]->shape[0] : 1, e->r.d = in[0]->shape[cls], e->r.inner = 1;
    for (int i = 2; i < in[0]->ndim; i++) e->r.inner *= in[0]->shape[i];
    e->x = dl_ptr(keep[0]), e->y = dl_ptr(keep[1]), e->w = in[2] ? dl_ptr(keep[2]) : NULL;
    e->wide = in[1]->dtype == DL_I64;
    e->ignore = attr[smooths ? DL_A_CROSS_ENTROPY_IGNORE_INDEX : DL_A_NLL_PICKED_IGNORE_INDEX].u.i;
    if (smooths) e->smooth = attr[DL_A_CROSS_ENTROPY_LABEL_SMOOTHING].u.f;
    e->site = dl_gpu_site(g, op);
    return DL_OK;
}

static void release(dl_tensor **keep) {
    for (int i = 0; i < 3; i++) dl_unref(keep[i]);
}

/* How rows are spread over threads: `vector` classes are read at once, by `lanes` threads, a whole block for long rows;
 * rows across memory are a thread's. */
typedef struct spread_of {
    bool vector;
    int lanes;
    unsigned blocks;
} spread_of;

static spread_of spread(const entropy *e, size_t size, const void *also) {
    long v = 16 / (long)size, rows = e->r.outer * e->r.inner;
    spread_of s = {e->r.inner == 1 && e->r.d % v == 0 && (((size_t)e->x | (size_t)also) & 15) == 0, 1, 0};
    long packs = e->r.inner > 1 ? 1 : s.vector ? e->r.d / v : e->r.d;
    while (s.lanes < DL_WARP && s.lanes * 4 < packs) s.lanes *= 2;
    if (packs > DL_WARP * 16) s.lanes = THREADS;
    s.blocks = dl_blocks(rows * s.lanes, THREADS);
    return s;
}

static dl_status forward(dl_gpu *g, entropy *e, dl_call *c, const spread_of &s) {
    if (e->how == DL_REDUCE_NONE && !s.blocks) return DL_OK;
    unsigned blocks = s.blocks ? s.blocks : 1; /* without rows, the total is still written */
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        T *out = dl_data<T>(c->out[0]);
        double *lse = dl_data<double>(OUTPUT(c, CROSS_ENTROPY_LSE));
        if (s.vector)
            forward_kernel<T, 16 / sizeof(T)><<<blocks, THREADS, 0, g->stream>>>(*e, s.lanes, lse, out, g->done);
        else
            forward_kernel<T, 1><<<blocks, THREADS, 0, g->stream>>>(*e, s.lanes, lse, out, g->done);
        return dl_gpu_launched(g);
    });
}

static dl_status run_cross_entropy(dl_call *c) {
    DL_USE_GPU(g, c->device);
    dl_tensor *keep[3] = {NULL, NULL, NULL}, *in[3] = {c->in[0], c->in[1], INPUT(c, CROSS_ENTROPY_WEIGHT)};
    entropy e;
    dl_status s = entropy_of(g, &e, c->op, in, c->attr, keep);
    if (s == DL_OK) {
        spread_of how = spread(&e, dl_esize(in[0]), NULL);
        if (how.blocks > 1) e.part = (double *)dl_gpu_take(g, 2 * how.blocks * sizeof(double));
        s = how.blocks < 2 || e.part ? forward(g, &e, c, how) : dl_failed();
        dl_gpu_drop(g, e.part);
    }
    release(keep);
    return s;
}

/* The total of the weights is computed by each block where that is quick, else by a launch of its own. */
enum { QUICK = 2048, MOST_BLOCKS = 256 };

static bool own_totals(const entropy *e) { return e->how == DL_REDUCE_MEAN && e->r.outer * e->r.inner <= QUICK; }

/* Memory for the total that a launch computes, where there is one; the caller drops it. */
static dl_status take_total(dl_gpu *gpu, entropy *e) {
    if (e->how != DL_REDUCE_MEAN || own_totals(e)) return DL_OK;
    if (!(e->total = (double *)dl_gpu_take(gpu, (1 + 2 * MOST_BLOCKS) * sizeof(double)))) return dl_failed();
    e->part = e->total + 1;
    return DL_OK;
}

template <class T> static void launch_total(dl_gpu *gpu, const entropy *e) {
    const long pieces = (e->r.outer * e->r.inner + QUICK - 1) / QUICK;
    const unsigned counting = pieces < MOST_BLOCKS ? (unsigned)pieces : (unsigned)MOST_BLOCKS;
    if (e->total) weights_kernel<T><<<counting, THREADS, 0, gpu->stream>>>(*e, gpu->done);
}

static dl_status backward(dl_gpu *gpu, entropy *e, const dl_tensor *g, dl_tensor *dx) {
    const bool own = own_totals(e);
    spread_of s = spread(e, dl_esize(dx), dl_ptr(dx));
    if (!dx->numel) return DL_OK;
    DL_TRY(take_total(gpu, e));
    dl_status status = dl_dispatch<DL_FLOATS>(dx->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        const T *from = dl_data<T>(g);
        T *to = dl_data<T>(dx);
        launch_total<T>(gpu, e);
        if (s.vector)
            backward_kernel<T, 16 / sizeof(T)><<<s.blocks, THREADS, 0, gpu->stream>>>(*e, s.lanes, own, from, to);
        else
            backward_kernel<T, 1><<<s.blocks, THREADS, 0, gpu->stream>>>(*e, s.lanes, own, from, to);
        return dl_gpu_launched(gpu);
    });
    dl_gpu_drop(gpu, e->total);
    return status;
}

static dl_status grad_cross_entropy(dl_back *b) {
    bool weighted = b->nin > DL_IN_CROSS_ENTROPY_WEIGHT && META(CROSS_ENTROPY_WEIGHT)->ndim;
    dl_tensor *in[3] = {IN_(CROSS_ENTROPY_INPUT), IN_(CROSS_ENTROPY_TARGET),
                        weighted ? IN_(CROSS_ENTROPY_WEIGHT) : NULL};
    dl_tensor *lse = OUT_(CROSS_ENTROPY_LSE), *keep[3] = {NULL, NULL, NULL};
    if (!in[0] || !in[1] || !lse) return dl_fail_null("the logits");
    dl_gpu *gpu = dl_gpu_use(in[0]->st->device);
    dl_tensor *g = gpu ? dl_tmp(b, dl_cuda_contiguous(gpu, b->g[0])) : NULL;
    dl_tensor *dx =
        g ? dl_tmp(b, dl_tensor_empty(in[0]->ndim, in[0]->shape, (dl_dtype)in[0]->dtype, in[0]->st->device)) : NULL;
    if (!dx) return dl_failed();
    entropy e;
    dl_status s = entropy_of(gpu, &e, b->op, in, b->attr, keep);
    if (s == DL_OK) {
        e.lse = dl_ptr(lse);
        s = backward(gpu, &e, g, dx);
    }
    release(keep);
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}

const dl_kernel dl_cuda_cross_entropy = {run_cross_entropy, grad_cross_entropy, DL_FLOATS, NULL, 0};

/* ---- nll_picked */

/* The place of a position's own class. */
__device__ inline long own_class(const entropy &e, long i, long label) {
    const long n = i / e.r.inner;
    return (n * e.r.d + label) * e.r.inner + (i - n * e.r.inner);
}

template <class T> __global__ void __launch_bounds__(THREADS) picked_kernel(entropy e, T *out, int *done) {
    const long n = e.r.outer * e.r.inner, step = (long)gridDim.x * THREADS;
    double loss = 0, weight = 0;
    for (long i = (long)blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        const long label = label_at(e, i, true);
        const double w = label < 0 ? 0 : weight_of<T>(e, label);
        const double own = label < 0 ? 0 : -w * (double)dl_up(((const T *)e.x)[own_class(e, i, label)]);
        loss += own, weight += w;
        if (e.how == DL_REDUCE_NONE) out[i] = dl_down<T>((calc_t<T>)own);
    }
    if (e.how != DL_REDUCE_NONE) add_up(e, loss, weight, out, done);
}

/* dx holds zeros. */
template <class T>
__global__ void __launch_bounds__(THREADS) picked_back_kernel(entropy e, bool own_total, const T *g, T *dx) {
    __shared__ double shared[THREADS / DL_WARP];
    const long n = e.r.outer * e.r.inner, i = (long)blockIdx.x * THREADS + threadIdx.x;
    double total = 1;
    if (own_total)
        total = dl_row_join(label_weights<T>(e, threadIdx.x, THREADS), dl_sum_f(), shared, THREADS);
    else if (e.how == DL_REDUCE_MEAN)
        total = *e.total;
    const long label = i < n ? label_at(e, i, false) : -1;
    if (label < 0) return;
    const double slope = -weight_of<T>(e, label) * (double)dl_up(g[e.how == DL_REDUCE_NONE ? i : 0]) / total;
    dx[own_class(e, i, label)] = dl_down<T>((calc_t<T>)slope);
}

static dl_status run_picked(dl_call *c) {
    DL_USE_GPU(g, c->device);
    enum { EACH = 4 };
    dl_tensor *keep[3] = {NULL, NULL, NULL}, *in[3] = {c->in[0], c->in[1], INPUT(c, NLL_PICKED_WEIGHT)};
    entropy e;
    dl_status s = entropy_of(g, &e, c->op, in, c->attr, keep);
    const long n = s == DL_OK ? e.r.outer * e.r.inner : 0;
    const unsigned each = e.how == DL_REDUCE_NONE ? THREADS : EACH * THREADS, wanted = dl_blocks(n, each),
                   most = 4 * (unsigned)g->sms,
                   blocks = !wanted         ? 1
                            : wanted < most ? wanted
                                            : most;
    if (s == DL_OK && blocks > 1 && e.how != DL_REDUCE_NONE) {
        e.part = (double *)dl_gpu_take(g, 2 * blocks * sizeof(double));
        s = e.part ? DL_OK : dl_failed();
    }
    if (s == DL_OK && (n || e.how != DL_REDUCE_NONE))
        s = dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
            typedef decltype(tag) T;
            picked_kernel<T><<<blocks, THREADS, 0, g->stream>>>(e, dl_data<T>(c->out[0]), g->done);
            return dl_gpu_launched(g);
        });
    dl_gpu_drop(g, e.part);
    release(keep);
    return s;
}

static dl_status picked_back(dl_gpu *gpu, entropy *e, const dl_tensor *g, dl_tensor *dx) {
    const long n = e->r.outer * e->r.inner;
    DL_TRY(dl_cuda_clear(gpu, dx));
    if (!n || !dx->numel) return DL_OK;
    DL_TRY(take_total(gpu, e));
    dl_status s = dl_dispatch<DL_FLOATS>(dx->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        launch_total<T>(gpu, e);
        picked_back_kernel<T>
            <<<dl_blocks(n, THREADS), THREADS, 0, gpu->stream>>>(*e, own_totals(e), dl_data<T>(g), dl_data<T>(dx));
        return dl_gpu_launched(gpu);
    });
    dl_gpu_drop(gpu, e->total);
    return s;
}

static dl_status grad_picked(dl_back *b) {
    bool weighted = b->nin > DL_IN_NLL_PICKED_WEIGHT && META(NLL_PICKED_WEIGHT)->ndim;
    dl_tensor *in[3] = {IN_(NLL_PICKED_INPUT), IN_(NLL_PICKED_TARGET), weighted ? IN_(NLL_PICKED_WEIGHT) : NULL};
    dl_tensor *keep[3] = {NULL, NULL, NULL};
    if (!in[0] || !in[1]) return dl_failed();
    dl_gpu *gpu = dl_gpu_use(in[0]->st->device);
    dl_tensor *g = gpu ? dl_tmp(b, dl_cuda_contiguous(gpu, b->g[0])) : NULL;
    dl_tensor *dx =
        g ? dl_tmp(b, dl_tensor_empty(in[0]->ndim, in[0]->shape, (dl_dtype)in[0]->dtype, in[0]->st->device)) : NULL;
    if (!dx) return dl_failed();
    entropy e;
    dl_status s = entropy_of(gpu, &e, b->op, in, b->attr, keep);
    if (s == DL_OK) s = picked_back(gpu, &e, g, dx);
    release(keep);
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}

const dl_kernel dl_cuda_nll_picked = {run_picked, grad_picked, DL_FLOATS, NULL, 0};
