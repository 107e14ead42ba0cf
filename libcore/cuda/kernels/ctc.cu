/* Kernels of ctc_paths: ways up to each step and state, and the gradient from these and the ways on. A block is a
 * sequence, whose steps follow one another; its threads are the states. */
#include "cuda/runtime/types.cuh"
#include "ops/ctc.h"
#include "ops/names/loss.h"

enum { WARP = 32 };
static const long most_threads = 1024;

/* Contiguous; lp [T,N,C]. */
template <class T> struct paths {
    dl_ctc_sizes k;
    const T *lp;
    const long *labels, *steps, *lengths;
    double *ways; /* [N,T,L] */
    dl_fault_site site;
};

/* What a block has of them. */
template <class T> struct sequence {
    const T *lp;
    const long *labels;
    double *ways;
    long steps, states, row; /* row: from one step of lp to the next */
    __device__ sequence(const paths<T> &p) {
        const long n = blockIdx.x;
        lp = p.lp + n * p.k.classes, labels = p.labels + n * p.k.s, ways = p.ways + n * p.k.t * p.k.l;
        steps = dl_ctc_within(p.steps[n], p.k.t), states = 2 * dl_ctc_within(p.lengths[n], p.k.s) + 1;
        row = p.k.n * p.k.classes;
    }
};

template <class T> __global__ void forward_kernel(const __grid_constant__ paths<T> p, T *out) {
    const dl_ctc_sizes &k = p.k;
    const sequence<T> q(p);
    for (long i = threadIdx.x; i < q.states / 2; i += blockDim.x)
        if (q.labels[i] < 0 || q.labels[i] >= k.classes) dl_fault_raise(p.site, DL_FAULT_LABEL, q.labels[i], k.classes);
    double *now = q.ways;
    const T *lp = q.lp;
    for (long t = 0; t < k.t; t++, now += k.l, lp += q.row) {
        for (long s = threadIdx.x; s < k.l; s += blockDim.x) {
            double sum = -INFINITY;
            if (s < q.states && t < q.steps) {
                const double share = (double)lp[dl_ctc_class(&k, q.labels, s)];
                const double before = t ? dl_ctc_forward(&k, q.labels, now - k.l, s) : s < 2 ? 0.0 : -INFINITY;
                sum = before + share;
            }
            now[s] = sum;
        }
        __syncthreads();
    }
    now = q.ways + (q.steps - 1) * k.l;
    if (!threadIdx.x) out[blockIdx.x] = (T)(q.steps ? dl_ctc_lost(now, q.states) : (double)INFINITY);
}

/* What the gradient needs beside the paths. Of each sequence: ways on, with the share of their step, of two steps;
 * the same of probabilities of passing a state; and of each label the next one of its class. */
template <class T> struct slopes {
    const T *loss, *g;
    T *dx;        /* zeros */
    double *work; /* 4 l */
    long *next;   /* s; -1: none */
};

/* Of each label the next equal one; those that have one before, and blanks, are no heads of such chains: -2 less it. */
template <class T> __device__ void chain_labels(const sequence<T> &q, long blank, long classes, long *next) {
    const long n = q.states / 2;
    for (long i = threadIdx.x; i < n; i += blockDim.x) {
        const long label = q.labels[i];
        long to = i + 1, before = i - 1;
        while (to < n && q.labels[to] != label) to++;
        while (before >= 0 && q.labels[before] != label) before--;
        const bool counts = label >= 0 && label < classes && label != blank;
        const long follows = to < n ? to : -1;
        next[i] = counts && before < 0 ? follows : -3 - follows;
    }
    __syncthreads();
}

/* A step's gradient: each class has one thread, which adds up the states of the class in order; blanks have a warp. */
template <class T>
__device__ void give_step(const dl_ctc_sizes &k, const sequence<T> &q, const double *pass, const long *next, double g,
                          T *dx) {
    if (threadIdx.x < WARP) {
        double sum = 0;
        for (long s = threadIdx.x; s < q.states; s += WARP)
            if (dl_ctc_class(&k, q.labels, s) == k.blank) sum += pass[s];
#pragma unroll
        for (int by = WARP / 2; by; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
        if (!threadIdx.x) dx[k.blank] = (T)(-g * sum);
    }
    for (long i = threadIdx.x; i < q.states / 2; i += blockDim.x) {
        if (next[i] < -1) continue;
        double sum = 0;
        for (long at = i, to = next[i];;) {
            sum += pass[2 * at + 1];
            if (to < 0) break;
            at = to, to = -3 - next[at];
        }
        dx[q.labels[i]] = (T)(-g * sum);
    }
}

template <class T>
__global__ void backward_kernel(const __grid_constant__ paths<T> p, const __grid_constant__ slopes<T> d) {
    const dl_ctc_sizes &k = p.k;
    const sequence<T> q(p);
    const double loss = (double)d.loss[blockIdx.x], g = (double)d.g[blockIdx.x];
    double *work = d.work + (long)blockIdx.x * 4 * k.l;
    long *next = d.next + (long)blockIdx.x * k.s;
    if (loss == (double)INFINITY) return;
    chain_labels(q, k.blank, k.classes, next);
    for (long t = q.steps - 1; t >= 0; t--) {
        double *on = work + t % 2 * k.l, *pass = on + 2 * k.l;
        const double *later = work + (1 - t % 2) * k.l, *ways = q.ways + t * k.l;
        const T *lp = q.lp + t * q.row;
        for (long s = threadIdx.x; s < q.states; s += blockDim.x) {
            const double share = (double)lp[dl_ctc_class(&k, q.labels, s)], up = ways[s];
            const double rest = t < q.steps - 1     ? dl_ctc_onward(&k, q.labels, later, q.states, s)
                                : s >= q.states - 2 ? 0.0
                                                    : -INFINITY;
            on[s] = rest + share;
            pass[s] = exp(up + rest + loss);
        }
        __syncthreads(); /* one is enough: the next step writes the other halves */
        give_step(k, q, pass, next, g, d.dx + (long)blockIdx.x * k.classes + t * q.row);
    }
}

/* ---- calls */

static unsigned threads(const dl_ctc_sizes &k) {
    const long whole = (k.l + WARP - 1) / WARP * WARP;
    return (unsigned)(whole < most_threads ? whole : most_threads);
}

/* Contiguous operands, which the caller releases. */
struct operands {
    dl_tensor *t[4] = {NULL, NULL, NULL, NULL};
    ~operands() {
        for (dl_tensor *x : t) dl_unref(x);
    }
    bool take(dl_gpu *g, dl_tensor *const *in) {
        for (int i = 0; i < 4; i++)
            if (!in[i] || !(t[i] = dl_cuda_contiguous(g, in[i]))) return false;
        return true;
    }
    template <class T> paths<T> as(long blank, const dl_tensor *ways, const dl_fault_site &site) const {
        return {dl_ctc_sizes_of(t[0], t[1], blank),
                dl_data<T>(t[0]),
                dl_data<long>(t[1]),
                dl_data<long>(t[2]),
                dl_data<long>(t[3]),
                dl_data<double>(ways),
                site};
    }
};

static dl_status run_ctc(dl_call *c) {
    DL_USE_GPU(g, c->device);
    operands in;
    if (!c->out[0]->numel) return DL_OK;
    if (!in.take(g, c->in)) return dl_failed();
    return dl_dispatch<DL_BIT(DL_F32) | DL_BIT(DL_F64)>(c->in[0]->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        const paths<T> p = in.as<T>(ATTR_I(c, CTC_PATHS_BLANK), OUTPUT(c, CTC_PATHS_WAYS), dl_gpu_site(g, c->op));
        forward_kernel<T><<<(unsigned)p.k.n, threads(p.k), 0, g->stream>>>(p, dl_data<T>(c->out[0]));
        return dl_gpu_launched(g);
    });
}

static dl_status back(dl_gpu *g, dl_back *b, const operands &in, const dl_tensor *from, dl_tensor *dx) {
    const dl_tensor *loss = OUT_(CTC_PATHS_OUT), *ways = OUT_(CTC_PATHS_WAYS);
    if (!loss || !ways) return dl_failed();
    DL_TRY(dl_cuda_clear(g, dx));
    if (!dx->numel) return DL_OK;
    return dl_dispatch<DL_BIT(DL_F32) | DL_BIT(DL_F64)>(dx->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        const paths<T> p = in.as<T>(ATTR_I(b, CTC_PATHS_BLANK), ways, dl_gpu_site(g, b->op));
        const size_t each = sizeof(double) * 4 * (size_t)p.k.l, all = each * (size_t)p.k.n;
        char *work = (char *)dl_gpu_take(g, all + sizeof(long) * (size_t)(p.k.n * p.k.s));
        if (!work) return dl_failed();
        const slopes<T> d = {dl_data<T>(loss), dl_data<T>(from), dl_data<T>(dx), (double *)work, (long *)(work + all)};
        backward_kernel<T><<<(unsigned)p.k.n, threads(p.k), 0, g->stream>>>(p, d);
        dl_gpu_drop(g, work);
        return dl_gpu_launched(g);
    });
}

static dl_status grad_ctc(dl_back *b) {
    dl_tensor *given[4] = {IN_(CTC_PATHS_LOG_PROBS), IN_(CTC_PATHS_LABELS), IN_(CTC_PATHS_STEPS),
                           IN_(CTC_PATHS_LENGTHS)};
    operands in;
    dl_gpu *g = given[0] ? dl_gpu_use(given[0]->st->device) : NULL;
    if (!g || !in.take(g, given)) return dl_failed();
    dl_tensor *from = dl_tmp(b, dl_cuda_contiguous(g, b->g[0]));
    dl_tensor *dx = dl_tmp(b, dl_tensor_empty(3, given[0]->shape, (dl_dtype)given[0]->dtype, given[0]->st->device));
    if (!from || !dx) return dl_failed();
    DL_TRY(back(g, b, in, from, dx));
    return dl_give(b, 0, dl_ref(dx));
}

const dl_kernel dl_cuda_ctc_paths = {run_ctc, grad_ctc, DL_BIT(DL_F32) | DL_BIT(DL_F64), NULL, 0};
