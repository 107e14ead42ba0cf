/* Kernels of the optimizers' ops, NAME_step, from optim/optimizers.def: one launch for all tensors of the lists, and
 * two before it for an optimizer that measures norms. Rate and step are read on the device. */
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/tensor_lists.h"

enum { THREADS = 256, LISTS = 2 + DL_OPTIM_STATES, HEAD = 2 };
static_assert((int)LISTS <= (int)DL_LISTS, "an item has a place for each list");

typedef struct step_of {
    dl_optim_call call;
    const void *lr, *step;
    bool halts; /* lr: rate, halt */
    int lr_dtype, step_dtype;
    dl_fault_site site;
} step_of;

#define DL_SCALARS_FN static __device__
#include "optim/scalars.h"
#include "optim/update_loop.h"

#define LIST(i) t_.p[i]
#define POINTER *__restrict__
#define LOAD(x) dl_up(x)
#define STORE(x) dl_convert<STORED, T>::of(x)
#define ELEMENTS _Pragma("unroll 4") for (long i_ = from_ + threadIdx.x; i_ < to_; i_ += THREADS)
#define SQUARE(i, x) squares_.v[i] += (double)(x) * (double)(x);
struct norms_of {
    double v[DL_OPTIM_NORMS];
};
#define OPTIMIZER(name, other, text, how, options, ranges, states, optional, when, scalars, norms, measure, update,    \
                  samples)                                                                                             \
    struct name##_row {                                                                                                \
        enum { NORMS_ = DL_COUNT(norms) };                                                                             \
        static __device__ void prepare(const double *v, double lr, double t, double *k) {                              \
            scalars_##name(v, lr, t, k);                                                                               \
        }                                                                                                              \
        template <class STORED, class T = calc_t<STORED>>                                                              \
        static __device__ void run(const double *k_, bool first_, unsigned wants_, const dl_item &t_, long from_,      \
                                   long to_, const double *norms_) {                                                   \
            (void)norms_;                                                                                              \
            DL_UPDATE_LOOP(states, optional, scalars, norms, update)                                                   \
        }                                                                                                              \
        template <class STORED, class T = calc_t<STORED>>                                                              \
        static __device__ void measured(const double *k_, bool first_, unsigned wants_, const dl_item &t_, long from_, \
                                        long to_, norms_of &squares_) {                                                \
            (void)first_, (void)wants_;                                                                                \
            DL_MEASURE_LOOP(states, optional, scalars, norms, measure)                                                 \
        }                                                                                                              \
    };
#include "optim/optimizers.def"

/* Rate and scalars of the step, into shared memory; false where nothing is to change. */
template <class ROW> __device__ static bool prepare(const step_of &o, double *k) {
    if (o.halts && ((const double *)o.lr)[1] != 0) return false;
    if (!threadIdx.x) {
        double t = dl_get(o.step, o.step_dtype, 0);
        if (!(t >= 1)) dl_fault_raise(o.site, DL_FAULT_STEP, (long)t, 0);
        ROW::prepare(o.call.v, dl_get(o.lr, o.lr_dtype, 0), t, k);
    }
    __syncthreads();
    return true;
}

/* The sums of all threads in thread 0, in an order that repeats. */
template <int N> __device__ static void sum_up(norms_of &sum) {
    __shared__ norms_of warp[THREADS / 32];
    for (int k = 0; k < N; k++)
        for (int half = 16; half; half /= 2) sum.v[k] += __shfl_down_sync(0xffffffffu, sum.v[k], half);
    if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = sum;
    __syncthreads();
    for (int w = 1; !threadIdx.x && w < THREADS / 32; w++)
        for (int k = 0; k < N; k++) sum.v[k] += warp[w].v[k];
}

/* What the optimizer measures in each piece; then, in the place of a tensor's first piece, the norms of the tensor. */
template <class ROW>
__global__ static void __launch_bounds__(THREADS) measure_kernel(step_of o, dl_table all, norms_of *measured) {
    __shared__ double k[DL_OPTIM_SCALARS];
    if (!prepare<ROW>(o, k)) return;
    norms_of sum = {};
    dl_each_part(all, [&](auto tag, const dl_item &t, long from, long to) {
        ROW::template measured<decltype(tag)>(k, o.call.first, o.call.states >> o.call.own, t, from, to, sum);
    });
    sum_up<ROW::NORMS_>(sum);
    if (!threadIdx.x) measured[blockIdx.x] = sum;
}
template <class ROW> __global__ static void __launch_bounds__(THREADS) norms_kernel(dl_table all, norms_of *measured) {
    const dl_piece at = all.pieces[blockIdx.x];
    if (at.part) return;
    long parts = (all.items[at.item].n + DL_PIECE - 1) / DL_PIECE;
    norms_of sum = {};
    for (long i = threadIdx.x; i < parts; i += THREADS)
        for (int k = 0; k < ROW::NORMS_; k++) sum.v[k] += measured[blockIdx.x + i].v[k];
    sum_up<ROW::NORMS_>(sum); /* after it all have read */
    if (!threadIdx.x)
        for (int k = 0; k < ROW::NORMS_; k++) measured[blockIdx.x].v[k] = sqrt(sum.v[k]);
}

template <class ROW>
__global__ static void __launch_bounds__(THREADS) step_kernel(step_of o, dl_table all, const norms_of *norms) {
    __shared__ double k[DL_OPTIM_SCALARS];
    if (!prepare<ROW>(o, k)) return;
    unsigned wants = o.call.states >> o.call.own;
    const double *own = norms ? norms[blockIdx.x - all.pieces[blockIdx.x].part].v : NULL;
    dl_each_part(all, [&](auto tag, const dl_item &t, long from, long to) {
        ROW::template run<decltype(tag)>(k, o.call.first, wants, t, from, to, own);
    });
}

/* ---- lists */

typedef struct lists {
    int n, lists;
    int place[LISTS]; /* of each list in an item */
    dl_tensor **own;  /* [lists * n]: the tensors themselves, or copies laid out like the parameter */
    dl_item *items;
} lists;

static dl_status lay_out(dl_gpu *g, dl_call *c, lists *l) {
    for (int i = 0; i < l->n; i++) {
        dl_tensor *p = c->in[HEAD + i], *like;
        like = dl_is_dense(p) ? dl_ref(p) : dl_tensor_empty(p->ndim, p->shape, (dl_dtype)p->dtype, p->st->device);
        for (int k = 0; like && k < l->lists; k++) {
            dl_tensor *of = c->in[HEAD + k * l->n + i], shape = *like;
            shape.dtype = of->dtype; /* states are wider than 16 bits */
            dl_tensor *t = dl_cuda_strided_like(g, of, &shape);
            if (!t) break;
            l->own[k * l->n + i] = t;
            l->items[i].p[l->place[k]] = dl_ptr(t);
        }
        bool good = like && l->own[(l->lists - 1) * l->n + i];
        dl_unref(like);
        if (!good) return dl_failed();
        l->items[i].n = p->numel;
        l->items[i].dtype = p->dtype;
    }
    return DL_OK;
}

template <class ROW> static dl_status launch(dl_gpu *g, const step_of *o, const lists *l) {
    dl_table all;
    dl_status s = dl_table_get(g, l->items, l->n, &all);
    if (s != DL_OK || !all.count) return s;
    norms_of *norms = NULL;
    if constexpr (ROW::NORMS_ > 0) {
        if (!(norms = (norms_of *)dl_gpu_take(g, sizeof *norms * (size_t)all.count))) return dl_failed();
        measure_kernel<ROW><<<(unsigned)all.count, THREADS, 0, g->stream>>>(*o, all, norms);
        norms_kernel<ROW><<<(unsigned)all.count, THREADS, 0, g->stream>>>(all, norms);
    }
    step_kernel<ROW><<<(unsigned)all.count, THREADS, 0, g->stream>>>(*o, all, norms);
    s = dl_gpu_launched(g);
    dl_gpu_drop(g, norms);
    return s;
}

/* Copies back what was copied, except for gradients. */
static dl_status put_back(dl_gpu *g, dl_call *c, const lists *l) {
    for (int k = 0; k < l->lists; k++)
        for (int i = 0; i < l->n; i++) {
            dl_tensor *t = c->in[HEAD + k * l->n + i], *own = l->own[k * l->n + i];
            DL_TRY(k == 1 || own == t ? DL_OK : dl_cuda_copy(g, t, own));
        }
    return DL_OK;
}

template <class ROW> static dl_status run_step(dl_call *c) {
    DL_USE_GPU(g, c->device);
    step_of o = {};
    lists l = {};
    dl_optim_read(c, &o.call);
    o.lr = dl_ptr(c->in[0]), o.lr_dtype = c->in[0]->dtype, o.halts = c->in[0]->numel == 2;
    o.step = dl_ptr(c->in[1]), o.step_dtype = c->in[1]->dtype;
    o.site = dl_gpu_site(g, c->op);
    l.place[1] = 1, l.lists = 2;
    for (int k = 0; k < DL_OPTIM_STATES; k++)
        if (o.call.states >> k & 1) l.place[l.lists++] = 2 + k;
    l.n = (c->nin - HEAD) / l.lists;
    l.own = (dl_tensor **)calloc((size_t)(l.n * l.lists + 1), sizeof *l.own);
    l.items = (dl_item *)calloc((size_t)(l.n + 1), sizeof *l.items);
    dl_status s = l.own && l.items ? lay_out(g, c, &l) : dl_fail(DL_ERR_MEMORY, "no memory for the lists of tensors");
    if (s == DL_OK) s = launch<ROW>(g, &o, &l);
    if (s == DL_OK) s = put_back(g, c, &l);
    for (int i = 0; l.own && i < l.n * l.lists; i++) dl_unref(l.own[i]);
    free(l.own);
    free(l.items);
    return s;
}

/* The learning rate, which is the first input, has any number dtype. */
#define OPTIMIZER(name, ...) const dl_kernel dl_cuda_##name##_step = {run_step<name##_row>, NULL, DL_NUMBERS, NULL, 0};
#include "optim/optimizers.def"
