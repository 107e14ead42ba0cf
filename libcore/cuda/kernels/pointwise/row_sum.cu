/* Formulas with two operands whose results are added up in the pass that computes them. Results of a row lie one behind
 * the other; a block takes a row, or a part of it where rows are few, or where they are short a part of a warp does.
 * Sums run in f64 and in an order that follows from shapes alone, so that results repeat bit for bit. */
#include "cuda/kernels/pointwise/row_sum.h"
#include "cuda/kernels/pointwise/pointwise.cuh"
#include "cuda/kernels/pointwise/power.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/rows.cuh"
#include "ops/compose/rows/row_sum.h"
#include "dlcore_ops.h"

/* The functions of the formulas, those of floats alone. */
namespace {
#define FUNCTION2_OF(name, row_numbers, ...)                                                                           \
    struct terms_##name {                                                                                              \
        enum { NUMBERS = DL_COUNT(row_numbers) };                                                                      \
        template <class T> struct f : dl_carried<NUMBERS, false> {                                                     \
            __device__ T operator()(T a, T b) const { DL_EACH(DL_DECLARE, row_numbers) __VA_ARGS__ }                   \
        };                                                                                                             \
    };
#define FLOAT(...) return dl_typed<T, false>(__VA_ARGS__);
#include "ops/pointwise.def"
} /* namespace */

enum { OPERANDS = DL_SUM_BY, THREADS = 256, MOST_BLOCKS = 1056, LONG_ROW = 128, LEAST_EACH = 2 };

/* Element i of the results is made of those at x[k] + at[k].at(i), in steps of a vector. */
struct dl_term_pair {
    dl_red_dims at[OPERANDS];
    const void *x[OPERANDS];
    bool moves[OPERANDS]; /* else the elements of a vector are one */
};

struct sums {
    long outs, n; /* results, and vectors of each */
    int lanes, parts, dtype;
    double divisor;
    void *out;
};

template <class T, int V> __device__ inline void read(const T *from, bool moves, calc_t<T> (&v)[V]) {
    dl_vector<T, V> p;
    if (moves)
        p = *(const dl_vector<T, V> *)from;
    else
#pragma unroll
        for (int e = 0; e < V; e++) p.v[e] = *from;
#pragma unroll
    for (int e = 0; e < V; e++) v[e] = dl_up(p.v[e]);
}

/* Adds the results of U vectors, `step` apart; all are read before one is used. */
template <class F, class T, int V, int U>
__device__ inline void add(const dl_term_pair &in, const F &f, long i, long step, double &sum) {
    calc_t<T> v[U][OPERANDS][V];
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int k = 0; k < OPERANDS; k++)
            read<T, V>((const T *)in.x[k] + in.at[k].at(i + u * step), in.moves[k], v[u][k]);
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int e = 0; e < V; e++) sum += (double)f(v[u][0][e], v[u][1][e]);
}

template <class F, class T, int V>
__global__ void __launch_bounds__(THREADS)
    sum_kernel(const __grid_constant__ dl_term_pair in, const sums s, double *part, int *done, F f) {
    __shared__ double shared[THREADS / DL_WARP];
    const int piece = blockIdx.x % s.parts, lane = threadIdx.x % s.lanes;
    const long r = (long)(blockIdx.x / s.parts) * (THREADS / s.lanes) + threadIdx.x / s.lanes;
    double sum = 0;
    if (r < s.outs) {
        const long step = (long)s.lanes * s.parts, end = (r + 1) * s.n;
        long i = r * s.n + (long)piece * s.lanes + lane;
        for (; i + step < end; i += 2 * step) add<F, T, V, 2>(in, f, i, step, sum);
        if (i < end) add<F, T, V, 1>(in, f, i, step, sum);
    }
    sum = dl_row_join(sum, dl_sum_f(), shared, s.lanes);
    if (s.parts > 1) { /* a block has one result */
        if (!threadIdx.x) part[r * s.parts + piece] = sum;
        if (!dl_red_last(done + r, s.parts)) return;
        sum = 0;
        for (int k = threadIdx.x; k < s.parts; k += THREADS) sum += part[r * s.parts + k];
        sum = dl_row_join(sum, dl_sum_f(), shared, THREADS);
    }
    if (r < s.outs && !lane) dl_put(s.out, s.dtype, r, sum / s.divisor);
}

/* ---- on the host */

/* The results in their order in `shape`: operands' steps in bytes, dimensions merged where memory allows. */
static void results_of(dl_it *it, const dl_call *c, const dl_meta *results) {
    dl_it_begin(it, results->ndim, results->shape);
    for (int k = 0; k < c->nin; k++) dl_it_tensor(it, c->in[k]);
    int m = -1;
    for (int d = 0; d < it->ndim; d++) {
        bool joins = m >= 0;
        for (int k = 0; k < it->nop && joins; k++) joins = it->stride[d][k] == it->stride[m][k] * it->shape[m];
        if (it->shape[d] == 1) continue;
        if (joins) {
            it->shape[m] *= it->shape[d];
            continue;
        }
        it->shape[++m] = it->shape[d];
        memcpy(it->stride[m], it->stride[d], sizeof it->stride[m]);
    }
    if (m < 0) it->shape[0] = 1, memset(it->stride[0], 0, sizeof it->stride[0]);
    it->ndim = m < 0 ? 1 : m + 1;
}

/* Can `by` elements be read at once? n: elements of a result. */
static bool in_vectors(const dl_it *it, long n, size_t size, long by) {
    bool good = n % by == 0 && it->shape[0] % by == 0;
    for (int k = 0; k < it->nop && good; k++) {
        if (!it->stride[0][k]) continue;
        good = it->stride[0][k] == (long)size && (size_t)it->ptr[k] % (by * size) == 0;
        for (int d = 1; d < it->ndim; d++) good = good && it->stride[d][k] % (long)(by * size) == 0;
    }
    return good;
}

static dl_term_pair pair_of(const dl_it *it, size_t size, int by) {
    dl_term_pair o;
    long total = 1;
    for (int d = 0; d < it->ndim; d++) total *= it->shape[d] / (d ? 1 : by);
    for (int k = 0; k < OPERANDS; k++) {
        dl_red_dims *at = &o.at[k];
        at->n = it->ndim, at->wide = total >= 0x7fffffff;
        for (int d = 0; d < it->ndim; d++) {
            at->count[d] = it->shape[d] / (d ? 1 : by), at->step[d] = it->stride[d][k] / (long)size * (d ? 1 : by);
            if (!at->wide) at->size[d] = dl_divisor((uint32_t)(at->count[d] ? at->count[d] : 1));
        }
        o.x[k] = it->ptr[k], o.moves[k] = it->stride[0][k] != 0;
    }
    return o;
}

static void shape_sums(sums *s) {
    s->lanes = THREADS, s->parts = 1;
    if (s->n < LONG_ROW)
        for (s->lanes = 1; s->lanes < DL_WARP && s->lanes < s->n;) s->lanes *= 2;
    else if (s->outs < MOST_BLOCKS / 2) {
        long most = s->n / (LEAST_EACH * THREADS), wanted = MOST_BLOCKS / (s->outs ? s->outs : 1);
        s->parts = (int)(most < 1 ? 1 : most < wanted ? most : wanted);
    }
}

template <class F, class T, int V> static dl_status launch(dl_gpu *g, const dl_it *it, sums s, F f) {
    s.n /= V;
    shape_sums(&s);
    const long blocks = (s.outs + THREADS / s.lanes - 1) / (THREADS / s.lanes) * s.parts;
    double *part = NULL;
    if (s.parts > 1 && !(part = (double *)dl_gpu_take(g, sizeof(double) * (size_t)(s.outs * s.parts))))
        return dl_failed();
    sum_kernel<F, T, V><<<(unsigned)blocks, THREADS, 0, g->stream>>>(pair_of(it, sizeof(T), V), s, part, g->done, f);
    dl_status st = dl_gpu_launched(g);
    dl_gpu_drop(g, part);
    return st;
}

template <class ROW> static dl_status run(dl_gpu *g, const dl_call *c, const dl_it *it, sums s) {
    auto carried = dl_carry<ROW::NUMBERS, false>(g, c->op, c->attr);
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef typename ROW::template f<calc_t<T>> F;
        enum { V = 16 / sizeof(T) };
        return in_vectors(it, s.n, sizeof(T), V) ? launch<F, T, V>(g, it, s, F{carried})
                                                 : launch<F, T, 1>(g, it, s, F{carried});
    });
}

static dl_status run_row(dl_gpu *g, const dl_call *c, const dl_it *it, sums s) {
    switch (c->op->id) {
#define SUMMED(name)                                                                                                   \
    case DL_OP_##name: return run<terms_##name>(g, c, it, s);
        DL_SUMMED_ROWS(SUMMED)
    default: return dl_fail(DL_ERR_INTERNAL, "the results of %s are not added up here", c->op->name);
    }
}

dl_status dl_cuda_row_sum(dl_call *c) {
    dl_call row = *c;
    dl_meta results = {};
    dl_it it;
    DL_USE_GPU(g, c->device);
    row.nin = DL_SUM_BY;
    DL_TRY(c->op->infer(&row, &results));
    const dl_tensor *o = c->out[0];
    sums s = {o->numel, 1, 0, 0, o->dtype, *dl_data<double>(c->in[DL_SUM_BY]), dl_ptr(o)};
    for (int d = o->ndim; d < results.ndim; d++) s.n *= results.shape[d];
    if (!s.outs) return DL_OK;
    results_of(&it, &row, &results);
    return run_row(g, &row, &it, s);
}
