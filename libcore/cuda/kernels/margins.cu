/* Kernels of losses by margins between the scores of classes: a warp or a block has a row of scores. */
#include "cuda/kernels/rows.cuh"
#include "ops/names/loss.h"

enum { THREADS = 128, WARPS = THREADS / DL_WARP };

/* n rows of scores, their labels, and of the gradient what comes in; labels are i64, else i32. */
template <class T> struct score_rows {
    const T *x, *g, *weight;
    const void *y;
    T *out;
    long n, classes, step; /* from one incoming number to the next */
    bool wide;
    dl_fault_site site;
    __device__ long label(long i) const { return wide ? ((const long *)y)[i] : ((const int *)y)[i]; }
};

/* The operands of a call, contiguous. keep: references, to be released. */
template <class T>
static dl_status scores_of(dl_gpu *g, const dl_op *op, dl_tensor *x, dl_tensor *y, dl_tensor *w, dl_tensor *out,
                           dl_tensor *(&keep)[3], score_rows<T> *s) {
    dl_tensor *given[3] = {x, y, w};
    for (int i = 0; i < 3; i++)
        if (given[i] && !(keep[i] = dl_cuda_contiguous(g, given[i]))) return dl_failed();
    *s = {dl_data<T>(keep[0]), NULL, dl_data<T>(keep[2]), dl_ptr(keep[1]),   dl_data<T>(out), x->shape[0],
          x->shape[1],         0,    y->dtype == DL_I64,  dl_gpu_site(g, op)};
    return DL_OK;
}
static void release(dl_tensor *(&keep)[3]) {
    for (int i = 0; i < 3; i++) dl_unref(keep[i]);
}

/* ---- multi_margins */

/* What a score adds, and the slope there, of scores above `from`. */
template <class C> __device__ inline C excess(C x, C from, bool square) {
    const C e = x <= from ? C(0) : x - from;
    return square ? e * e : e;
}
template <class C> __device__ inline C excess_slope(C x, C from, bool square) {
    return x <= from ? C(0) : square ? 2 * (x - from) : C(1);
}

/* A warp has a row. BACK: writes the gradient of the scores; that of the own class takes off all others. */
template <class T, bool BACK>
__global__ void __launch_bounds__(THREADS)
    multi_kernel(const __grid_constant__ score_rows<T> s, double margin, bool square) {
    typedef calc_t<T> C;
    const long row = (long)blockIdx.x * WARPS + threadIdx.x / DL_WARP;
    const int lane = threadIdx.x % DL_WARP;
    if (row >= s.n) return;
    const T *x = s.x + row * s.classes;
    const long label = s.label(row);
    const bool good = label >= 0 && label < s.classes;
    if (!good && !lane && !BACK) dl_fault_raise(s.site, DL_FAULT_LABEL, label, s.classes);
    const C from = good ? dl_up(x[label]) - (C)margin : (C)INFINITY;
    const double weight = !good ? 0 : s.weight ? (double)dl_up(s.weight[label]) : 1;
    const double scale = BACK ? (double)dl_up(s.g[row * s.step]) * weight / (double)s.classes : 0;
    double sum = 0;
#pragma unroll 4
    for (long i = lane; i < s.classes; i += DL_WARP) {
        if (i == label) continue;
        const C v = dl_up(x[i]);
        if constexpr (BACK) {
            const double d = good ? (double)excess_slope(v, from, square) * scale : 0;
            s.out[row * s.classes + i] = dl_down<T>((C)d);
            sum += d;
        } else {
            sum += (double)excess(v, from, square);
        }
    }
    sum = dl_row_join(sum, dl_sum_f(), (double *)NULL);
    if (lane) return;
    if constexpr (BACK) {
        if (good) s.out[row * s.classes + label] = dl_down<T>((C)-sum);
    } else {
        s.out[row] = dl_down<T>((C)(sum * weight / (double)s.classes));
    }
}

template <bool BACK>
static dl_status multi(dl_gpu *g, const dl_op *op, const dl_aval *attr, dl_tensor *const (&in)[3], dl_tensor *grad,
                       dl_tensor *out) {
    const double margin = attr[DL_A_MULTI_MARGINS_MARGIN].u.f;
    const bool square = attr[DL_A_MULTI_MARGINS_P].u.i == 2;
    if (!out->numel) return DL_OK;
    return dl_dispatch<DL_FLOATS>(out->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        dl_tensor *keep[3] = {};
        score_rows<T> s;
        dl_status st = scores_of<T>(g, op, in[0], in[1], in[2], out, keep, &s);
        if (grad) s.g = dl_data<T>(grad), s.step = grad->stride[0];
        if (st == DL_OK) {
            multi_kernel<T, BACK><<<dl_blocks(s.n, WARPS), THREADS, 0, g->stream>>>(s, margin, square);
            st = dl_gpu_launched(g);
        }
        release(keep);
        return st;
    });
}

static dl_status run_multi_margins(dl_call *c) {
    DL_USE_GPU(g, c->device);
    return multi<false>(g, c->op, c->attr, {c->in[0], c->in[1], INPUT(c, MULTI_MARGINS_WEIGHT)}, NULL, c->out[0]);
}

/* Of a row of the op, its gradient by back(saved operands, incoming gradient, dx). */
template <class F> static dl_status give_scores(dl_back *b, int weight, F back) {
    const bool weighted = weight && b->nin > weight && dl_in_meta(b, weight)->ndim;
    dl_tensor *const in[3] = {dl_saved_in(b, 0), dl_saved_in(b, 1), weighted ? dl_saved_in(b, weight) : NULL};
    dl_gpu *g = in[0] && in[1] ? dl_gpu_use(in[0]->st->device) : NULL;
    dl_tensor *grad = g ? dl_tmp(b, dl_to_dtype(b->g[0], (dl_dtype)in[0]->dtype)) : NULL;
    dl_tensor *dx = grad ? dl_tensor_empty(2, in[0]->shape, (dl_dtype)in[0]->dtype, in[0]->st->device) : NULL;
    if (!dx) return dl_failed();
    const dl_status s = back(g, in, grad, dx);
    return s == DL_OK ? dl_give(b, 0, dx) : (dl_unref(dx), s);
}

static dl_status grad_multi_margins(dl_back *b) {
    return give_scores(b, DL_IN_MULTI_MARGINS_WEIGHT,
                       [&](dl_gpu *g, dl_tensor *const(&in)[3], dl_tensor *grad, dl_tensor *dx) {
                           return multi<true>(g, b->op, b->attr, in, grad, dx);
                       });
}
const dl_kernel dl_cuda_multi_margins = {run_multi_margins, grad_multi_margins, DL_FLOATS, NULL, 0};

/* ---- multilabel_margins */

enum { TILE = 64, SHARED_WORDS = 4096 };

/* Bits of a row's classes, in shared memory or, of many classes, in memory of the call: which of them are labels. */
struct bits {
    unsigned *word;
    __device__ bool of(long i) const { return word[i / 32] >> (i % 32) & 1; }
};

/* How many labels a row has, and their bits; all threads of the block take part. */
template <class T> __device__ long mark_labels(const score_rows<T> &s, long row, bits b, bool tell) {
    __shared__ long ends;
    const long words = (s.classes + 31) / 32, first = row * s.classes;
    if (!threadIdx.x) ends = s.classes;
    for (long i = threadIdx.x; i < words; i += THREADS) b.word[i] = 0;
    __syncthreads();
    for (long i = threadIdx.x; i < s.classes; i += THREADS)
        if (s.label(first + i) < 0) {
            atomicMin((unsigned long long *)&ends, (unsigned long long)i);
            break;
        }
    __syncthreads();
    const long n = ends;
    for (long i = threadIdx.x; i < n; i += THREADS) {
        const long label = s.label(first + i);
        if (label < s.classes)
            atomicOr(&b.word[label / 32], 1u << (label % 32));
        else if (tell)
            dl_fault_raise(s.site, DL_FAULT_LABEL, label, s.classes);
    }
    __syncthreads();
    return n;
}

/* 1 - x of the labels from `first` on, in shared memory; what is no label is so far off that nothing comes near it. */
template <class T>
__device__ void take_tile(const score_rows<T> &s, const T *x, long row, long first, long n, calc_t<T> *tile) {
    __syncthreads();
    for (int k = threadIdx.x; k < TILE; k += THREADS) {
        const long label = first + k < n ? s.label(row * s.classes + first + k) : s.classes;
        tile[k] = label < s.classes ? 1 - dl_up(x[label]) : -(calc_t<T>)INFINITY;
    }
    __syncthreads();
}

/* A block has a row; a thread some of its classes, which it compares with all labels. */
template <class T>
__global__ void __launch_bounds__(THREADS) labels_kernel(const __grid_constant__ score_rows<T> s, unsigned *far) {
    typedef calc_t<T> C;
    extern __shared__ unsigned near[];
    __shared__ C tile[TILE];
    __shared__ double shared[WARPS];
    const long row = blockIdx.x, words = (s.classes + 31) / 32;
    const T *x = s.x + row * s.classes;
    const bits b = {far ? far + row * words : near};
    const long n = mark_labels(s, row, b, true);
    double sum = 0;
    for (long first = 0; first < n; first += TILE) {
        take_tile(s, x, row, first, n, tile);
        for (long i = threadIdx.x; i < s.classes; i += THREADS) {
            if (b.of(i)) continue;
            const C v = dl_up(x[i]);
            C part = 0;
#pragma unroll 8
            for (int k = 0; k < TILE; k++) part += excess(v, -tile[k], false);
            sum += (double)part;
        }
    }
    sum = dl_row_join(sum, dl_sum_f(), shared, THREADS);
    if (!threadIdx.x) s.out[row] = dl_down<T>((C)(sum / (double)s.classes));
}

/* A class that is no label gains from each label that it comes near to; a label loses, as often as it is listed, from
 * each class that comes near to it. */
template <class T>
__global__ void __launch_bounds__(THREADS) labels_back_kernel(const __grid_constant__ score_rows<T> s, unsigned *far) {
    typedef calc_t<T> C;
    extern __shared__ unsigned near[];
    __shared__ C tile[TILE];
    const long row = blockIdx.x, words = (s.classes + 31) / 32;
    const T *x = s.x + row * s.classes;
    const bits b = {far ? far + row * words : near};
    const long n = mark_labels(s, row, b, false);
    const double scale = (double)dl_up(s.g[row * s.step]) / (double)s.classes;
    for (long base = 0; base < s.classes; base += THREADS) {
        const long i = base + threadIdx.x;
        const bool real = i < s.classes, label = real && b.of(i);
        const C v = real ? dl_up(x[i]) : C(0);
        long count = 0;
        for (long first = 0; first < n; first += TILE) {
            take_tile(s, x, row, first, n, tile);
            if (real && !label)
#pragma unroll 8
                for (int k = 0; k < TILE; k++) count += !(v <= -tile[k]) && tile[k] != -(C)INFINITY;
        }
        if (label) {
            long times = 0;
            for (long k = 0; k < n; k++) times += s.label(row * s.classes + k) == i;
            for (long k = 0; k < s.classes; k++) count -= !b.of(k) && !(dl_up(x[k]) <= v - 1);
            count *= times;
        }
        if (real) s.out[row * s.classes + i] = dl_down<T>((C)((double)count * scale));
    }
}

template <bool BACK>
static dl_status labels(dl_gpu *g, const dl_op *op, dl_tensor *const (&in)[3], dl_tensor *grad, dl_tensor *out) {
    const long rows = in[0]->shape[0], words = (in[0]->shape[1] + 31) / 32;
    if (!in[0]->numel) return dl_cuda_clear(g, out);
    unsigned *far = NULL;
    if (words > SHARED_WORDS && !(far = (unsigned *)dl_gpu_take(g, sizeof *far * (size_t)(rows * words))))
        return dl_failed();
    const size_t bytes = far ? 0 : sizeof *far * (size_t)words;
    const dl_status status = dl_dispatch<DL_FLOATS>(out->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        dl_tensor *keep[3] = {};
        score_rows<T> s;
        dl_status st = scores_of<T>(g, op, in[0], in[1], NULL, out, keep, &s);
        if (grad) s.g = dl_data<T>(grad), s.step = grad->stride[0];
        if (st == DL_OK) {
            if constexpr (BACK)
                labels_back_kernel<T><<<(unsigned)rows, THREADS, bytes, g->stream>>>(s, far);
            else
                labels_kernel<T><<<(unsigned)rows, THREADS, bytes, g->stream>>>(s, far);
            st = dl_gpu_launched(g);
        }
        release(keep);
        return st;
    });
    dl_gpu_drop(g, far);
    return status;
}

static dl_status run_multilabel_margins(dl_call *c) {
    DL_USE_GPU(g, c->device);
    return labels<false>(g, c->op, {c->in[0], c->in[1], NULL}, NULL, c->out[0]);
}

static dl_status grad_multilabel_margins(dl_back *b) {
    return give_scores(b, 0, [&](dl_gpu *g, dl_tensor *const(&in)[3], dl_tensor *grad, dl_tensor *dx) {
        return labels<true>(g, b->op, in, grad, dx);
    });
}
const dl_kernel dl_cuda_multilabel_margins = {run_multilabel_margins, grad_multilabel_margins, DL_FLOATS, NULL, 0};
