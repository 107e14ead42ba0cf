/* Kernels of cross_entropy, forward and backward. Logits are [outer][classes][inner]; a position is a warp's, or where
 * classes do not lie side by side a thread's. Nothing of it waits for the host. */
#include "cuda/rows.cuh"

enum { THREADS = 256 };

typedef struct entropy {
    dl_rows r;
    const void *x, *y, *w, *lse; /* w NULL: all weigh 1 */
    int wide;                    /* labels are i64 */
    dl_reduction how;
    long ignore;
    double smooth;
    dl_fault_site site;
    double *loss, *weight; /* by position */
    double *total;         /* of the weights */
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

template <class T> __global__ void __launch_bounds__(THREADS) forward_kernel(entropy e, double *lse, T *each) {
    typedef calc_t<T> C;
    long t = (long)blockIdx.x * THREADS + threadIdx.x, d = e.r.d, inner = e.r.inner;
    bool alone = inner > 1;
    long row = alone ? t : t / DL_WARP, first = alone ? 0 : t % DL_WARP, step = alone ? 1 : DL_WARP;
    if (row >= e.r.outer * inner) return;
    const T *x = (const T *)e.x + (alone ? row / inner * d * inner + row % inner : row * d);
    C top = -(C)INFINITY;
    double sum = 0, all = 0;
    for (long i = first; i < d; i += step) top = dl_larger(top, dl_up(x[i * inner]));
    if (!alone) top = dl_row_join(top, dl_larger_f(), (C *)NULL);
    for (long i = first; i < d; i += step) sum += (double)exp(dl_up(x[i * inner]) - top);
    if (!alone) sum = dl_row_join(sum, dl_sum_f(), (double *)NULL);
    double logsum = log(sum);
    if (e.smooth != 0) {
        for (long i = first; i < d; i += step)
            all += weight_of<T>(e, i) * (logsum - ((double)dl_up(x[i * inner]) - (double)top));
        if (!alone) all = dl_row_join(all, dl_sum_f(), (double *)NULL);
    }
    if (first) return;
    long label = label_at(e, row, true);
    double w = label < 0 ? 0 : weight_of<T>(e, label), loss = 0;
    if (label >= 0) {
        loss = w * (logsum - ((double)dl_up(x[label * inner]) - (double)top));
        if (e.smooth != 0) loss = (1 - e.smooth) * loss + e.smooth / (double)d * all;
    }
    lse[row] = (double)top + logsum;
    e.loss[row] = loss;
    e.weight[row] = w;
    if (each) each[row] = dl_down<T>(loss);
}

/* One block: out = sum(loss), over the sum of the weights for the mean. */
template <class T> __global__ void __launch_bounds__(THREADS) total_kernel(entropy e, T *out) {
    __shared__ double shared[THREADS / DL_WARP];
    double loss = 0, weight = 0;
    for (long i = threadIdx.x; i < e.r.outer * e.r.inner; i += THREADS) loss += e.loss[i], weight += e.weight[i];
    loss = dl_row_join(loss, dl_sum_f(), shared);
    weight = dl_row_join(weight, dl_sum_f(), shared);
    if (!threadIdx.x) *out = dl_down<T>(e.how == DL_REDUCE_MEAN ? loss / weight : loss);
}

/* One block: the sum of the weights of the labels that count, and of all classes. */
template <class T> __global__ void __launch_bounds__(THREADS) weights_kernel(entropy e) {
    __shared__ double shared[THREADS / DL_WARP];
    double sum = 0, classes = 0;
    for (long i = threadIdx.x; i < e.r.outer * e.r.inner; i += THREADS) {
        long label = label_at(e, i, false);
        if (label >= 0) sum += weight_of<T>(e, label);
    }
    for (long c = threadIdx.x; c < e.r.d; c += THREADS) classes += weight_of<T>(e, c);
    sum = dl_row_join(sum, dl_sum_f(), shared);
    classes = dl_row_join(classes, dl_sum_f(), shared);
    if (!threadIdx.x) e.total[0] = sum, e.total[1] = classes;
}

/* dx = scale * (sum(t) * softmax(x) - t), t = (1 - s) w[y] onehot(y) + s / C w, or 0 where the label is ignored. */
template <class T> __global__ void __launch_bounds__(THREADS) backward_kernel(entropy e, const T *g, T *dx, long n) {
    long at = (long)blockIdx.x * THREADS + threadIdx.x, d = e.r.d, inner = e.r.inner;
    if (at >= n) return;
    long c = at / inner % d, row = at / (d * inner) * inner + at % inner, label = label_at(e, row, false);
    double scale = (double)dl_up(g[e.how == DL_REDUCE_NONE ? row : 0]), spread = e.smooth / (double)d, v = 0;
    if (e.how == DL_REDUCE_MEAN) scale /= e.total[0];
    if (label >= 0) {
        double own = (1 - e.smooth) * weight_of<T>(e, label), sum = own + spread * e.total[1];
        double lse = ((const double *)e.lse)[row];
        v = sum * (double)exp((calc_t<T>)((double)dl_up(((const T *)e.x)[at]) - lse));
        if (spread != 0) v -= spread * weight_of<T>(e, c);
        if (c == label) v -= own;
        v *= scale;
    }
    dx[at] = dl_down<T>(v);
}

/* What forward and backward share. keep: contiguous operands, to be released. */
static dl_status entropy_of(dl_gpu *g, entropy *e, const dl_op *op, dl_tensor *const *in, const dl_aval *attr,
                            dl_tensor **keep) {
    memset(e, 0, sizeof *e);
    dl_status s = dl_reduction_of(&attr[0], &e->how);
    if (s != DL_OK) return s;
    for (int i = 0; i < 3; i++)
        if (in[i] && !(keep[i] = dl_cuda_contiguous(g, in[i]))) return dl_error_last()->code;
    int cls = in[0]->ndim > 1;
    e->r.outer = cls ? in[0]->shape[0] : 1, e->r.d = in[0]->shape[cls], e->r.inner = 1;
    for (int i = 2; i < in[0]->ndim; i++) e->r.inner *= in[0]->shape[i];
    e->x = dl_ptr(keep[0]), e->y = dl_ptr(keep[1]), e->w = in[2] ? dl_ptr(keep[2]) : NULL;
    e->wide = in[1]->dtype == DL_I64;
    e->ignore = attr[1].u.i, e->smooth = attr[2].u.f;
    e->site = dl_gpu_site(g, op);
    return DL_OK;
}

static void release(dl_tensor **keep) {
    for (int i = 0; i < 3; i++) dl_unref(keep[i]);
}

static dl_status forward(dl_gpu *g, entropy *e, dl_call *c) {
    long n = e->r.outer * e->r.inner, threads = e->r.inner > 1 ? n : n * DL_WARP;
    unsigned blocks = (unsigned)((threads + THREADS - 1) / THREADS);
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        T *out = (T *)dl_ptr(c->out[0]);
        bool none = e->how == DL_REDUCE_NONE;
        if (blocks)
            forward_kernel<T><<<blocks, THREADS, 0, g->stream>>>(*e, (double *)dl_ptr(c->out[1]), none ? out : NULL);
        if (!none) total_kernel<T><<<1, THREADS, 0, g->stream>>>(*e, out);
        return dl_gpu_launched(g);
    });
}

static dl_status run_cross_entropy(dl_call *c) {
    dl_gpu *g = dl_gpu_use(c->device);
    dl_tensor *keep[3] = {NULL, NULL, NULL}, *in[3] = {c->in[0], c->in[1], c->nin > 2 ? c->in[2] : NULL};
    if (!g) return dl_error_last()->code;
    entropy e;
    dl_status s = entropy_of(g, &e, c->op, in, c->attr, keep);
    size_t n = (size_t)(s == DL_OK ? e.r.outer * e.r.inner : 0);
    if (s == DL_OK) {
        e.loss = (double *)dl_gpu_take(g, 2 * n * sizeof(double));
        e.weight = e.loss + n;
        s = e.loss ? forward(g, &e, c) : dl_error_last()->code;
        dl_gpu_drop(g, e.loss);
    }
    release(keep);
    return s;
}

static dl_status backward(dl_gpu *gpu, const entropy *e, const dl_tensor *g, dl_tensor *dx) {
    if (!dx->numel) return DL_OK;
    return dl_dispatch<DL_FLOATS>(dx->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        weights_kernel<T><<<1, THREADS, 0, gpu->stream>>>(*e);
        backward_kernel<T><<<(unsigned)((dx->numel + THREADS - 1) / THREADS), THREADS, 0, gpu->stream>>>(
            *e, (const T *)dl_ptr(g), (T *)dl_ptr(dx), (long)dx->numel);
        return dl_gpu_launched(gpu);
    });
}

static dl_status grad_cross_entropy(dl_back *b) {
    bool weighted = b->nin > 2 && dl_in_meta(b, 2)->ndim;
    dl_tensor *in[3] = {dl_saved_in(b, 0), dl_saved_in(b, 1), weighted ? dl_saved_in(b, 2) : NULL};
    dl_tensor *lse = dl_saved_out(b, 1), *keep[3] = {NULL, NULL, NULL};
    if (!in[0] || !in[1] || !lse) return dl_fail_null("the logits");
    dl_gpu *gpu = dl_gpu_use(in[0]->st->device);
    dl_tensor *g = gpu ? dl_tmp(b, dl_cuda_contiguous(gpu, b->g[0])) : NULL;
    dl_tensor *dx =
        g ? dl_tmp(b, dl_tensor_empty(in[0]->ndim, in[0]->shape, (dl_dtype)in[0]->dtype, in[0]->st->device)) : NULL;
    if (!dx) return dl_error_last()->code;
    entropy e;
    dl_status s = entropy_of(gpu, &e, b->op, in, b->attr, keep);
    if (s == DL_OK) {
        e.lse = dl_ptr(lse);
        e.total = (double *)dl_gpu_take(gpu, 2 * sizeof(double));
        s = e.total ? backward(gpu, &e, g, dx) : dl_error_last()->code;
        dl_gpu_drop(gpu, e.total);
    }
    release(keep);
    return s == DL_OK ? dl_give(b, 0, dl_ref(dx)) : s;
}

const dl_kernel dl_cuda_cross_entropy = {run_cross_entropy, grad_cross_entropy, DL_FLOATS, NULL, 0};
