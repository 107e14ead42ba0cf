/* Kernels of sgd_step and adam_step: one launch for all tensors of the lists. Learning rate and step are read on the
 * device. The formulas are those of the CPU's loops. */
#include "cuda/rows.cuh"
#include "cuda/table.h"

enum { THREADS = 256 };

typedef struct step_of {
    const void *lr, *step;
    bool paced; /* lr: rate, halt */
    int lr_dtype, step_dtype;
    double momentum, dampening, decay, beta1, beta2, eps;
    bool adam, nesterov, first, decoupled, maximize, amsgrad;
    dl_fault_site site;
} step_of;

template <class C> __device__ void sgd(const step_of &o, const dl_item &t, long from, long to) {
    C *__restrict__ p = (C *)t.p[0], *__restrict__ v = (C *)t.p[2];
    const C *__restrict__ g = (const C *)t.p[1];
    C sign = o.maximize ? C(-1) : C(1), wd = (C)o.decay, lr = (C)dl_get(o.lr, o.lr_dtype, 0), mu = (C)o.momentum;
    C keep = o.first ? C(0) : mu, take = o.first ? C(1) : (C)(1 - o.dampening);
    C ahead = o.nesterov ? mu : C(1), own = o.nesterov ? C(1) : C(0);
#pragma unroll 4
    for (long i = from + threadIdx.x; i < to; i += THREADS) {
        C d = sign * g[i] + wd * p[i];
        if (v) {
            C b = o.first ? d : keep * v[i] + take * d; /* what an empty buffer holds, NaN too, does not count */
            v[i] = b;
            d = own * d + ahead * b;
        }
        p[i] -= lr * d;
    }
}

template <class C> __device__ void adam(const step_of &o, const dl_item &t, long from, long to, const double *k) {
    C *__restrict__ p = (C *)t.p[0], *__restrict__ m = (C *)t.p[2], *__restrict__ v = (C *)t.p[3];
    C *__restrict__ top = (C *)t.p[4];
    const C *__restrict__ g = (const C *)t.p[1];
    C sign = o.maximize ? C(-1) : C(1), wd = o.decoupled ? C(0) : (C)o.decay;
    C shrink = o.decoupled ? (C)(1 - k[0] * o.decay) : C(1), step = (C)k[1], root = (C)k[2], eps = (C)o.eps;
    C b1 = (C)o.beta1, c1 = (C)(1 - o.beta1), b2 = (C)o.beta2, c2 = (C)(1 - o.beta2);
#pragma unroll 4
    for (long i = from + threadIdx.x; i < to; i += THREADS) {
        C d = sign * g[i] + wd * p[i];
        C a = b1 * m[i] + c1 * d, b = b2 * v[i] + c2 * d * d;
        m[i] = a;
        v[i] = b;
        if (top) top[i] = b = b > top[i] || b != b ? b : top[i];
        p[i] = shrink * p[i] - step * a / (sqrt(b) * root + eps);
    }
}

__global__ static void __launch_bounds__(THREADS) step_kernel(step_of o, dl_table all) {
    __shared__ double k[3]; /* adam: lr, lr / (1 - b1**t), 1 / sqrt(1 - b2**t) */
    if (o.paced && ((const double *)o.lr)[1] != 0) return;
    if (o.adam && !threadIdx.x) {
        double t = dl_get(o.step, o.step_dtype, 0), lr = dl_get(o.lr, o.lr_dtype, 0);
        if (!(t >= 1)) dl_fault_raise(o.site, DL_FAULT_STEP, (long)t, 0);
        k[0] = lr;
        k[1] = lr / (1 - pow(o.beta1, t));
        k[2] = 1 / sqrt(1 - pow(o.beta2, t));
    }
    __syncthreads();
    const dl_piece at = all.pieces[blockIdx.x];
    const dl_item t = all.items[at.item];
    long from = (long)at.part * DL_PIECE, to = from + DL_PIECE < t.n ? from + DL_PIECE : t.n;
    if (t.dtype == DL_F64)
        o.adam ? adam<double>(o, t, from, to, k) : sgd<double>(o, t, from, to);
    else
        o.adam ? adam<float>(o, t, from, to, k) : sgd<float>(o, t, from, to);
}

/* ---- lists */

typedef struct lists {
    int n, lists, head;
    dl_tensor **own; /* [lists * n]: the tensors themselves, or copies laid out like the parameter */
    dl_item *items;
} lists;

static bool gapless(const dl_tensor *t) {
    long span = 1;
    for (int i = 0; i < t->ndim; i++) span += (t->shape[i] - 1) * t->stride[i];
    return span == t->numel && dl_strides_are_dense(t->ndim, t->shape, t->stride);
}

static dl_status lay_out(dl_gpu *g, dl_call *c, lists *l) {
    for (int i = 0; i < l->n; i++) {
        dl_tensor *p = c->in[l->head + i], *like;
        if (p->dtype != DL_F32 && p->dtype != DL_F64)
            return dl_fail(DL_ERR_DTYPE, "parameters are f32 or f64, not %s", dl_dtype_name((dl_dtype)p->dtype));
        like = gapless(p) ? dl_ref(p) : dl_tensor_empty(p->ndim, p->shape, (dl_dtype)p->dtype, p->st->device);
        for (int k = 0; like && k < l->lists; k++) {
            dl_tensor *t = dl_cuda_strided_like(g, c->in[l->head + k * l->n + i], like);
            if (!t) break;
            l->own[k * l->n + i] = t;
            l->items[i].p[k] = dl_ptr(t);
        }
        bool good = like && l->own[(l->lists - 1) * l->n + i];
        dl_unref(like);
        if (!good) return dl_failed();
        l->items[i].n = p->numel;
        l->items[i].dtype = p->dtype;
    }
    return DL_OK;
}

static dl_status launch(dl_gpu *g, const step_of *o, const lists *l) {
    dl_table all;
    dl_status s = dl_table_get(g, l->items, l->n, &all);
    if (s != DL_OK || !all.count) return s;
    step_kernel<<<(unsigned)all.count, THREADS, 0, g->stream>>>(*o, all);
    return dl_gpu_launched(g);
}

/* What was copied is put back, but for gradients. */
static dl_status put_back(dl_gpu *g, dl_call *c, const lists *l) {
    for (int k = 0; k < l->lists; k++)
        for (int i = 0; i < l->n; i++) {
            dl_tensor *t = c->in[l->head + k * l->n + i], *own = l->own[k * l->n + i];
            dl_status s = k == 1 || own == t ? DL_OK : dl_cuda_copy(g, t, own);
            if (s != DL_OK) return s;
        }
    return DL_OK;
}

static dl_status update(dl_call *c, int head, int count, step_of *o) {
    lists l = {(c->nin - head) / count, count, head, NULL, NULL};
    dl_gpu *g = dl_gpu_use(c->device);
    if (!g) return dl_failed();
    o->lr = dl_ptr(c->in[0]), o->lr_dtype = c->in[0]->dtype, o->paced = c->in[0]->numel == 2;
    o->site = dl_gpu_site(g, c->op);
    l.own = (dl_tensor **)calloc((size_t)(l.n * count + 1), sizeof *l.own);
    l.items = (dl_item *)calloc((size_t)(l.n + 1), sizeof *l.items);
    dl_status s = l.own && l.items ? lay_out(g, c, &l) : dl_fail(DL_ERR_MEMORY, "no memory for the lists of tensors");
    if (s == DL_OK) s = launch(g, o, &l);
    if (s == DL_OK) s = put_back(g, c, &l);
    for (int i = 0; l.own && i < l.n * count; i++) dl_unref(l.own[i]);
    free(l.own);
    free(l.items);
    return s;
}

static dl_status run_sgd_step(dl_call *c) {
    step_of o = {};
    o.momentum = ATTR_F(c, SGD_STEP_MOMENTUM), o.dampening = ATTR_F(c, SGD_STEP_DAMPENING),
    o.decay = ATTR_F(c, SGD_STEP_WEIGHT_DECAY);
    o.nesterov = ATTR_I(c, SGD_STEP_NESTEROV), o.maximize = ATTR_I(c, SGD_STEP_MAXIMIZE),
    o.first = ATTR_I(c, SGD_STEP_FIRST);
    return update(c, 1, o.momentum != 0 ? 3 : 2, &o);
}

static dl_status run_adam_step(dl_call *c) {
    step_of o = {};
    o.adam = true;
    o.beta1 = ATTR_F(c, ADAM_STEP_BETA1), o.beta2 = ATTR_F(c, ADAM_STEP_BETA2), o.eps = ATTR_F(c, ADAM_STEP_EPS),
    o.decay = ATTR_F(c, ADAM_STEP_WEIGHT_DECAY);
    o.decoupled = ATTR_I(c, ADAM_STEP_DECOUPLED), o.amsgrad = ATTR_I(c, ADAM_STEP_AMSGRAD),
    o.maximize = ATTR_I(c, ADAM_STEP_MAXIMIZE);
    o.step = dl_ptr(c->in[1]), o.step_dtype = c->in[1]->dtype;
    return update(c, 2, o.amsgrad ? 5 : 4, &o);
}

/* The learning rate, which is the first input, has any number dtype. */
const dl_kernel dl_cuda_sgd_step = {run_sgd_step, NULL, DL_NUMBERS, NULL, 0};
const dl_kernel dl_cuda_adam_step = {run_adam_step, NULL, DL_NUMBERS, NULL, 0};
