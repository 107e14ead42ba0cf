/* The step of a trainer as its device sees it: sums of loss and correct answers, norm of the gradients, rates and halts
 * of the optimizers, averaged weights, and the report that the host reads later. Sums are made in fixed order. */
#include "cuda/runtime/graph.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/measures.cuh"
#include "cuda/runtime/tensor_lists.h"
#include "core/device/control_step.h"

#include <algorithm>

enum { THREADS = 256 };

/* ---- small uploads */

struct small_bytes {
    unsigned char b[DL_GPU_WRITE];
};

__global__ static void write_kernel(unsigned char *dst, const __grid_constant__ small_bytes p, int n) {
    for (int i = threadIdx.x; i < n; i += THREADS) dst[i] = p.b[i];
}

dl_status dl_gpu_write(dl_gpu *g, void *dst, const void *src, size_t bytes) {
    small_bytes p;
    memcpy(p.b, src, bytes);
    write_kernel<<<1, THREADS, 0, g->stream>>>((unsigned char *)dst, p, (int)bytes);
    return dl_gpu_launched(g);
}

/* ---- a batch */

typedef struct scores {
    const void *out, *label;
    int dtype, wide; /* labels are i64 */
    long outer, d, inner;
} scores;

/* Is the label of a row the class with the largest score? All threads of a warp get the result. The first of equal
 * scores counts, as in argmax; a single score stands for the classes 0 and 1 by its sign. */
__device__ static bool right(const scores &s, long row) {
    long at = row / s.inner * s.d * s.inner + row % s.inner;
    long label = s.wide ? ((const long *)s.label)[row] : ((const int *)s.label)[row];
    if (s.d == 1) return (dl_get(s.out, s.dtype, at) > 0) == label;
    double top = -INFINITY;
    int best = 0x7fffffff;
    for (int c = threadIdx.x % DL_WARP; c < s.d; c += DL_WARP) {
        double v = dl_get(s.out, s.dtype, at + c * s.inner);
        if (v > top || (v == top && c < best)) top = v, best = c;
    }
#pragma unroll
    for (int k = DL_WARP / 2; k; k /= 2) {
        double v = __shfl_xor_sync(0xffffffffu, top, k);
        int c = __shfl_xor_sync(0xffffffffu, best, k);
        if (v > top || (v == top && c < best)) top = v, best = c;
    }
    double first = dl_get(s.out, s.dtype, at);
    if (first != first || best == 0x7fffffff) best = 0;
    return best == label;
}

/* True for the last block of a launch that comes here, which can then read what the others have written. */
__device__ static bool last_block(dl_control *c) {
    __threadfence();
    bool last = atomicInc(&c->ticket, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
    return last;
}

typedef struct batch_args {
    scores s;
    const void *loss;
    int dtype;
    bool count;
    dl_batch_rule rule;
} batch_args;

__global__ static void __launch_bounds__(THREADS) accumulate_kernel(dl_control *c, batch_args t) {
    __shared__ unsigned sum;
    if (!threadIdx.x) sum = 0;
    __syncthreads();
    long rows = t.s.outer * t.s.inner, step = (long)gridDim.x * (THREADS / DL_WARP);
    unsigned hits = 0;
    for (long r = ((long)blockIdx.x * THREADS + threadIdx.x) / DL_WARP; t.count && r < rows; r += step)
        hits += right(t.s, r);
    if (threadIdx.x % DL_WARP == 0 && hits) atomicAdd(&sum, hits);
    __syncthreads();
    if (threadIdx.x) return;
    if (sum) atomicAdd(&c->hits, sum); /* integers: the same sum in any order */
    if (!last_block(c)) return;
    double correct = (double)atomicExch(&c->hits, 0u);
    dl_control_add(c, &t.rule, dl_get(t.loss, t.dtype, 0), correct, t.count ? (double)rows : 0);
}

dl_status dl_cuda_accumulate(dl_gpu *g, dl_control *c, const dl_accumulate *t) {
    batch_args a = {};
    a.loss = dl_ptr(t->loss), a.dtype = t->loss->dtype, a.rule = t->rule;
    if (t->output) {
        const dl_tensor *o = t->output;
        a.count = true;
        a.s.out = dl_ptr(o), a.s.dtype = o->dtype;
        a.s.label = dl_ptr(t->target), a.s.wide = t->target->dtype == DL_I64;
        a.s.inner = 1, a.s.d = o->ndim > 1 ? o->shape[1] : 1;
        a.s.outer = t->target->numel;
        for (int i = 2; i < o->ndim; i++) a.s.inner *= o->shape[i];
        if (a.s.d > 1) a.s.outer = o->shape[0];
        if (a.s.d <= 1) a.s.inner = 1;
    }
    long warps = t->output ? a.s.outer * a.s.inner : 1, blocks = (warps * DL_WARP + THREADS - 1) / THREADS;
    accumulate_kernel<<<(unsigned)(blocks < g->sms ? blocks : g->sms), THREADS, 0, g->stream>>>(c, a);
    return dl_gpu_launched(g);
}

/* ---- breakpoints */

template <class T> __device__ bool finds(const T *__restrict__ p, long from, long to, bool nan) {
    bool found = false;
#pragma unroll 4
    for (long i = from + threadIdx.x; i < to; i += THREADS) {
        calc_t<T> v = dl_up(p[i]);
        found |= nan ? v != v : v == v && v - v != 0;
    }
    return found;
}

__global__ static void __launch_bounds__(THREADS) decide_kernel(dl_control *c, dl_break_rule rule, dl_table all) {
    bool found = false;
    if (blockIdx.x < all.count)
        dl_each_part(all, [&](auto tag, const dl_item &t, long from, long to) {
            typedef decltype(tag) T;
            found = finds((const T *)t.p[0], from, to, rule.test == DL_BREAK_NAN);
        });
    found = __syncthreads_or(found);
    if (threadIdx.x) return;
    if (found) atomicAdd(&c->hits, 1u);
    if (!last_block(c)) return;
    dl_control_decide(c, &rule, atomicExch(&c->hits, 0u) != 0);
}

static dl_status table_of(dl_gpu *g, dl_tensor *const *first, dl_tensor *const *second, int n, const dl_span *keep,
                          int nkeep, dl_table *all);

dl_status dl_cuda_decide(dl_gpu *g, dl_control *c, const dl_decide *q) {
    dl_table all;
    DL_TRY(table_of(g, q->t, NULL, q->n, NULL, 0, &all));
    decide_kernel<<<all.count ? (unsigned)all.count : 1, THREADS, 0, g->stream>>>(c, q->rule, all);
    return dl_gpu_launched(g);
}

/* ---- the end of a step */

/* Blocks look at what is measured, which takes them longest; one begins the report; the others are those of a table,
 * and look at gradients, then copy spans. Each reads the control when it begins, since the last one to end needs it at
 * once. */
typedef struct finish_args {
    dl_step_rule rule;
    double *partial;           /* by block; then what gradients are multiplied by */
    unsigned table, gradients; /* the first block of the table; its blocks with gradients */
} finish_args;
constexpr int CONTROL_WORDS = sizeof(dl_control) / sizeof(long);
static_assert(CONTROL_WORDS <= THREADS && sizeof(dl_control) % sizeof(long) == 0, "a thread holds a word");
/* Steps without breakpoints have a kernel without measures. */
typedef struct no_measures {
} no_measures;
static_assert(sizeof(finish_args) + sizeof(dl_measures<DL_BREAKS>) < 4000, "arguments of a kernel");

template <class T> __device__ double squares(T *__restrict__ p, long from, long to, double most) {
    typedef calc_t<T> C;
    const C limit = (C)most;
    double sum = 0;
#pragma unroll 4
    for (long i = from + threadIdx.x; i < to; i += THREADS) {
        C v = dl_up(p[i]);
        if (limit > 0) {
            C w = v > limit ? limit : v < -limit ? -limit : v; /* NaN stays */
            if (w != v && v == v) p[i] = dl_convert<T, C>::of(w), v = dl_up(p[i]);
        }
        sum += (double)v * (double)v;
    }
    return sum;
}

__device__ static double value_of(const dl_measure &m) {
    return m.dtype == DL_BOOL || m.dtype == DL_U8 ? *(const unsigned char *)m.p : dl_get(m.p, m.dtype, 0);
}

/* The values of measures, a warp for each: numbers, and what blocks left of sums. That of the norm of all gradients is
 * known later. */
__device__ static void take_values(const finish_args &, const no_measures &, double *) {}
template <int MOST> __device__ void take_values(const finish_args &f, const dl_measures<MOST> &all, double *value) {
    const unsigned lane = threadIdx.x % DL_WARP;
    for (int i = threadIdx.x / DL_WARP; i < all.n; i += THREADS / DL_WARP) {
        const dl_measure &m = all.at[i];
        double sum = 0;
        if (!m.of && m.p && !lane) value[i] = value_of(m);
        if (!m.of) continue;
#pragma unroll 4
        for (unsigned k = m.first + lane; k < m.first + m.blocks; k += DL_WARP)
            sum += ((volatile const double *)f.partial)[k];
        sum = dl_row_join(sum, dl_sum_f(), (double *)NULL);
        if (!lane) value[i] = dl_measured(m, sum);
    }
}

__device__ static void decide(dl_control *, const no_measures &, const double *, double) {}
template <int MOST>
__device__ void decide(dl_control *c, const dl_measures<MOST> &all, const double *value, double norm) {
    for (int i = 0; i < all.n; i++)
        dl_control_decide(c, &all.at[i].rule, dl_break_holds(&all.at[i].rule, all.at[i].p ? value[i] : norm));
}

__device__ static double part_of(const no_measures &) { return 0; }
template <int MOST> __device__ double part_of(const dl_measures<MOST> &all) { return dl_measure_part(all); }

/* All that one thread does alone. Most scales are 1, and most steps have no limit: instructions that are not needed
 * need not be fetched. Returns how the step ended. */
__device__ static int finish(dl_control *c, const finish_args &f, double norm) {
    double factor = c->scale == 1 ? 1 : 1 / c->scale;
    int end = dl_control_end(c, &f.rule, norm);
    if (f.rule.clip_norm > 0) {
        double limit = f.rule.clip_norm / (norm + 1e-6);
        if (limit < 1) factor *= limit;
    }
    f.partial[0] = end == DL_END_DONE ? factor : 1;
    dl_control_end_report(c, dl_control_report(c, &f.rule), end, norm);
    dl_control_next(c, &f.rule);
    return end;
}

/* A block for what the norm does not change: much of it lies in memory of the host. */
__device__ static void begin_report(dl_control *c, const finish_args &f) {
    long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (threadIdx.x == THREADS - 1) dl_control_begin_report(c, &f.rule, now);
    for (int g = threadIdx.x; g < f.rule.groups; g += THREADS) dl_control_rate(c, &f.rule, g);
}

__device__ static void copy_span(const dl_control *c, const dl_table &all, unsigned piece) {
    const bool next_is_odd = c->index % 2 == 0;
    if (dl_control_void(c)) return;
    const auto copy = [&](auto, const dl_item &t, long from, long to) {
        char *at = (char *)(next_is_odd ? t.p[1] : t.p[0]);
#pragma unroll 4
        for (long i = from + threadIdx.x; i < to; i += THREADS) at[i] = ((const char *)t.p[2])[i];
    };
    dl_each_part(all, copy, piece);
}

/* This thread's part of the sum of what its block looks at. */
template <class M>
__device__ double part_of_block(dl_control *c, const finish_args &f, const dl_table &all, const M &measures) {
    if (blockIdx.x + 1 < f.table) return part_of(measures);
    if (blockIdx.x < f.table) return begin_report(c, f), 0;
    const unsigned piece = blockIdx.x - f.table;
    if (piece >= f.gradients) return copy_span(c, all, piece), 0;
    double sum = 0, most = f.rule.clip_value * c->scale;
    const auto add = [&](auto tag, const dl_item &t, long from, long to) {
        typedef decltype(tag) T;
        sum = squares((T *)t.p[0], from, to, most);
    };
    dl_each_part(all, add, piece);
    return sum;
}

template <class M>
__global__ static void __launch_bounds__(THREADS, 4) finish_kernel(dl_control *c, const __grid_constant__ finish_args f,
                                                                   dl_table all, const __grid_constant__ M measures) {
    __shared__ long words[CONTROL_WORDS];
    __shared__ double shared[THREADS / DL_WARP], value[DL_BREAKS];
    __shared__ int last, end;
    const long word = threadIdx.x < CONTROL_WORDS ? ((const long *)c)[threadIdx.x] : 0;
    double sum = dl_row_join(part_of_block(c, f, all, measures), dl_sum_f(), shared, THREADS);
    if (!threadIdx.x) {
        f.partial[blockIdx.x] = sum;
        last = last_block(c);
    }
    __syncthreads();
    if (!last) return;
    const volatile double *partial = f.partial + f.table;
    sum = threadIdx.x < f.gradients ? partial[threadIdx.x] : 0; /* under way while the values are taken */
    if (threadIdx.x < CONTROL_WORDS) words[threadIdx.x] = word;
    take_values(f, measures, value);
    for (unsigned i = threadIdx.x + THREADS; i < f.gradients; i += THREADS) sum += partial[i];
    dl_control *now = (dl_control *)words;
    sum = dl_row_join(sum, dl_sum_f(), shared, THREADS);
    if (!threadIdx.x) {
        const double norm = now->scale == 1 ? sqrt(sum) : sqrt(sum) / now->scale;
        now->hits = now->ticket = 0; /* as they are between launches */
        decide(now, measures, value, norm);
        end = finish(now, f, norm);
    }
    __syncthreads();
    for (int g = threadIdx.x; g < f.rule.groups; g += THREADS) dl_control_group(now, g, end);
    if (threadIdx.x < CONTROL_WORDS) ((long *)c)[threadIdx.x] = words[threadIdx.x];
    if (threadIdx.x) return;
    __threadfence_system();
    *(volatile long *)&f.rule.report[(now->index - 1) % DL_REPORTS].number = now->index;
}

template <class T> __device__ void multiply(T *__restrict__ p, long from, long to, double factor) {
    typedef calc_t<T> C;
    const C by = (C)factor;
#pragma unroll 4
    for (long i = from + threadIdx.x; i < to; i += THREADS) p[i] = dl_convert<T, C>::of(dl_up(p[i]) * by);
}

/* The gradients as they are after limits and loss scaling. */
__global__ static void __launch_bounds__(THREADS) limit_kernel(const double *factor, dl_table all) {
    if (*factor == 1) return;
    dl_each_part(all, [&](auto tag, const dl_item &t, long from, long to) {
        typedef decltype(tag) T;
        multiply((T *)t.p[0], from, to, *factor);
    });
}

/* The table of the tensors of one or two (second NULL: one) lists, then of spans, whose elements are bytes. */
static dl_status table_of(dl_gpu *g, dl_tensor *const *first, dl_tensor *const *second, int n, const dl_span *keep,
                          int nkeep, dl_table *all) {
    dl_item *items = (dl_item *)calloc((size_t)(n + nkeep + 1), sizeof *items);
    dl_status s = items ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for the lists of tensors");
    for (int i = 0; i < n && s == DL_OK; i++) {
        const dl_tensor *t = first[i];
        items[i].p[0] = dl_ptr(t), items[i].p[1] = second ? dl_ptr(second[i]) : NULL;
        items[i].n = t->numel, items[i].dtype = t->dtype;
    }
    for (int i = 0; i < nkeep && s == DL_OK; i++) {
        dl_item *t = &items[n + i];
        t->p[0] = keep[i].to[0], t->p[1] = keep[i].to[1], t->p[2] = (void *)keep[i].from, t->n = (long)keep[i].bytes;
    }
    if (s == DL_OK) s = dl_table_get(g, items, n + nkeep, all);
    free(items);
    return s;
}

/* The blocks that look at a gradient, whose norm is wanted: those of its pieces, at the place in the table. */
static bool is_gradient(const dl_finish_step *q, dl_measure *m) {
    unsigned first = 0;
    if (m->of != DL_BREAK_NORM || q->rule.scaled) return false;
    for (int i = 0; i < q->n; i++) {
        const unsigned pieces = dl_blocks(q->grad[i]->numel, DL_PIECE);
        m->first = first, m->blocks = pieces;
        if (pieces && dl_ptr(q->grad[i]) == m->p && q->grad[i]->numel == m->numel && q->grad[i]->dtype == m->dtype)
            return true;
        first += pieces;
    }
    return false;
}

/* The measures, with blocks of their own before the one of the report; *table is the block behind that. */
static dl_status take_measures(const dl_finish_step *q, int sms, dl_measures<DL_BREAKS> *all, unsigned *table) {
    unsigned blocks = 0;
    bool of_gradient[DL_BREAKS] = {};
    all->n = q->ndecide;
    for (int i = 0; i < q->ndecide; i++) {
        const dl_decide_one *d = &q->decide[i];
        dl_measure *m = &all->at[i];
        m->rule = d->rule, m->of = d->of;
        if (!d->is) continue;
        m->p = dl_ptr(d->is), m->dtype = d->is->dtype, m->numel = d->is->numel;
        if (m->of == DL_BREAK_VALUE || (of_gradient[i] = is_gradient(q, m))) continue;
        if (m->of == DL_BREAK_DEAD && !dl_units_of(d->is, &m->u))
            return dl_fail(DL_ERR_INTERNAL, "the units of a result do not lie regularly");
        m->first = blocks, m->blocks = dl_measure_blocks(*m, sms);
        blocks += m->blocks;
    }
    *table = blocks + 1;
    for (int i = 0; i < q->ndecide; i++)
        if (of_gradient[i]) all->at[i].first += *table;
    return DL_OK;
}

dl_status dl_cuda_finish_step(dl_gpu *g, dl_control *c, const dl_finish_step *q) {
    dl_table all;
    unsigned gradients = 0;
    DL_TRY(table_of(g, q->grad, NULL, q->n, q->keep, q->nkeep, &all));
    for (int i = 0; i < q->n; i++) gradients += dl_blocks(q->grad[i]->numel, DL_PIECE);
    finish_args f = {};
    dl_measures<DL_BREAKS> measures = {};
    f.rule = q->rule, f.gradients = gradients;
    DL_TRY(take_measures(q, g->sms, &measures, &f.table));
    const unsigned blocks = f.table + (unsigned)all.count;
    f.partial = (double *)dl_gpu_take(g, blocks * sizeof(double));
    if (!f.partial) return dl_failed();
    if (measures.n > DL_MEASURES_FEW)
        finish_kernel<<<blocks, THREADS, 0, g->stream>>>(c, f, all, measures);
    else if (measures.n) {
        dl_measures<DL_MEASURES_FEW> few = {measures.n, {}};
        std::copy(measures.at, measures.at + measures.n, few.at);
        finish_kernel<<<blocks, THREADS, 0, g->stream>>>(c, f, all, few);
    } else
        finish_kernel<<<blocks, THREADS, 0, g->stream>>>(c, f, all, no_measures());
    if (gradients && (f.rule.clip_norm > 0 || f.rule.scaled))
        limit_kernel<<<gradients, THREADS, 0, g->stream>>>(f.partial, all);
    dl_status s = dl_gpu_launched(g);
    dl_gpu_drop(g, f.partial);
    return s;
}

/* ---- averaged weights: rounded as a sum of two products is */

template <class T>
__device__ void average(T *__restrict__ a, const T *__restrict__ p, long from, long to, double keep) {
    typedef calc_t<T> C;
    C k = (C)keep, take = (C)(1 - keep);
    for (long i = from + threadIdx.x; i < to; i += THREADS) {
        volatile C old = dl_up(a[i]) * k, fresh = dl_up(p[i]) * take;
        a[i] = dl_convert<T, C>::of(old + fresh);
    }
}

__global__ static void __launch_bounds__(THREADS) average_kernel(const dl_control *c, dl_table all, double keep) {
    if (c->group[0].halt != 0) return;
    dl_each_part(all, [&](auto tag, const dl_item &t, long from, long to) {
        typedef decltype(tag) T;
        average((T *)t.p[0], (const T *)t.p[1], from, to, keep);
    });
}

dl_status dl_cuda_average(dl_gpu *g, const dl_control *c, dl_tensor *const *avg, dl_tensor *const *p, int n,
                          double keep) {
    dl_table all;
    DL_TRY(table_of(g, avg, p, n, NULL, 0, &all));
    if (!all.count) return DL_OK;
    average_kernel<<<(unsigned)all.count, THREADS, 0, g->stream>>>(c, all, keep);
    return dl_gpu_launched(g);
}
