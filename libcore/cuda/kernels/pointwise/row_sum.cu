/* Formulas whose results are added up in the pass that computes them. Results of a row lie one behind the other; a
 * block takes a row, or a part of it where rows are few, or where they are short a part of a warp does. Sums run in
 * f64, those of a few neighbours of 16 bits in f32, and in an order that follows from shapes alone, so that results
 * repeat bit for bit. */
#include "cuda/kernels/pointwise/row_sum.h"
#include "cuda/kernels/pointwise/pointwise.cuh"
#include "cuda/kernels/pointwise/power.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/rows.cuh"
#include "ops/compose/rows/row_sum.h"
#include "dlcore_ops.h"

/* The functions of the formulas, those of floats alone. */
namespace {
#define TERMS(name, operands, args, row_numbers, ...)                                                                  \
    struct terms_##name {                                                                                              \
        enum { OPERANDS = operands, NUMBERS = DL_COUNT(row_numbers) };                                                 \
        template <class T> struct f : dl_carried<NUMBERS, false> {                                                     \
            __device__ T operator() args const { DL_EACH(DL_DECLARE, row_numbers) __VA_ARGS__ }                        \
        };                                                                                                             \
    };
#define FUNCTION_OF(name, row_numbers, ...) TERMS(name, 1, (T x), row_numbers, __VA_ARGS__)
#define FUNCTION2_OF(name, row_numbers, ...) TERMS(name, 2, (T a, T b), row_numbers, __VA_ARGS__)
#define FUNCTION3_OF(name, row_numbers, ...) TERMS(name, 3, (T a, T b, T c), row_numbers, __VA_ARGS__)
#define FLOAT(...) return dl_typed<T, false>(__VA_ARGS__);
#include "ops/pointwise.def"
} /* namespace */

enum { THREADS = 256, PROCESSORS = 132, LONG_ROW = 128, LEAST_EACH = 2 };

/* Blocks of a processor at once: for what is read in advance of more operands a thread needs more registers. */
constexpr int resident_blocks(int operands) { return operands > 2 ? 3 : 4; }

/* Element i of the results is made of those at x[k] + at[k].at(i), in steps of a vector. */
template <int N> struct dl_terms {
    dl_red_dims at[N];
    const void *x[N];
    bool moves[N]; /* else the elements of a vector are one */
};

struct sums {
    long outs, n; /* results, and vectors of each */
    int lanes, parts, dtype;
    double divisor, power;
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

template <class F, class C, int N, int V> __device__ inline C term(const F &f, const C (&v)[N][V], int e) {
    if constexpr (N == 1)
        return f(v[0][e]);
    else if constexpr (N == 2)
        return f(v[0][e], v[1][e]);
    else
        return f(v[0][e], v[1][e], v[2][e]);
}

/* Adds the results of U vectors, `step` apart; all are read before one is used. */
template <class F, class T, int N, int V, int U>
__device__ inline void add(const dl_terms<N> &in, const F &f, long i, long step, double &sum) {
    /* Of 16 bits in f32: what that rounds off is far below these. */
    enum { TOGETHER = sizeof(T) == 2 && V > 4 ? 4 : 1 };
    calc_t<T> v[U][N][V];
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int k = 0; k < N; k++) read<T, V>((const T *)in.x[k] + in.at[k].at(i + u * step), in.moves[k], v[u][k]);
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int e = 0; e < V; e += TOGETHER) {
            calc_t<T> part = term(f, v[u], e);
#pragma unroll
            for (int k = 1; k < TOGETHER; k++) part += term(f, v[u], e + k);
            sum += (double)part;
        }
}

/* What is made of a sum: few do this. */
static __device__ __noinline__ void put_sum(const sums &s, long r, double sum) {
    const double v = sum / s.divisor;
    dl_put(s.out, s.dtype, r, s.power == 1 ? v : s.power == 0.5 ? sqrt(v) : pow(v, s.power));
}

template <class F, class T, int N, int V>
__global__ void __launch_bounds__(THREADS, resident_blocks(N))
    sum_kernel(const __grid_constant__ dl_terms<N> in, const sums s, double *part, int *done, F f) {
    __shared__ double shared[THREADS / DL_WARP];
    const int piece = blockIdx.x % s.parts, lane = threadIdx.x % s.lanes;
    const long r = (long)(blockIdx.x / s.parts) * (THREADS / s.lanes) + threadIdx.x / s.lanes;
    double sum = 0;
    if (r < s.outs) {
        const long step = (long)s.lanes * s.parts, end = (r + 1) * s.n;
        long i = r * s.n + (long)piece * s.lanes + lane;
        if constexpr (N == 1)
            for (; i + 3 * step < end; i += 4 * step) add<F, T, N, V, 4>(in, f, i, step, sum);
        for (; i + step < end; i += 2 * step) add<F, T, N, V, 2>(in, f, i, step, sum);
        if (i < end) add<F, T, N, V, 1>(in, f, i, step, sum);
    }
    sum = dl_row_join(sum, dl_sum_f(), shared, s.lanes);
    if (s.parts > 1) { /* a block has one result */
        if (!threadIdx.x) part[r * s.parts + piece] = sum;
        if (!dl_red_last(done + r, s.parts)) return;
        sum = 0;
        for (int k = threadIdx.x; k < s.parts; k += THREADS) sum += part[r * s.parts + k];
        sum = dl_row_join(sum, dl_sum_f(), shared, THREADS);
    }
    if (r < s.outs && !lane) put_sum(s, r, sum);
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

template <int N> static dl_terms<N> terms_of(const dl_it *it, size_t size, int by) {
    dl_terms<N> o;
    long total = 1;
    for (int d = 0; d < it->ndim; d++) total *= it->shape[d] / (d ? 1 : by);
    for (int k = 0; k < N; k++) {
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

static void shape_sums(sums *s, int operands) {
    const long most_blocks = 2 * PROCESSORS * resident_blocks(operands);
    s->lanes = THREADS, s->parts = 1;
    if (s->n < LONG_ROW)
        for (s->lanes = 1; s->lanes < DL_WARP && s->lanes < s->n;) s->lanes *= 2;
    else if (s->outs < most_blocks / 2) {
        long most = s->n / (LEAST_EACH * THREADS), wanted = most_blocks / (s->outs ? s->outs : 1);
        s->parts = (int)(most < 1 ? 1 : most < wanted ? most : wanted);
    }
}

template <class F, class T, int N, int V> static dl_status launch(dl_gpu *g, const dl_it *it, sums s, F f) {
    s.n /= V;
    shape_sums(&s, N);
    const long blocks = (s.outs + THREADS / s.lanes - 1) / (THREADS / s.lanes) * s.parts;
    double *part = NULL;
    if (s.parts > 1 && !(part = (double *)dl_gpu_take(g, sizeof(double) * (size_t)(s.outs * s.parts))))
        return dl_failed();
    const dl_terms<N> in = terms_of<N>(it, sizeof(T), V);
    sum_kernel<F, T, N, V><<<(unsigned)blocks, THREADS, 0, g->stream>>>(in, s, part, g->done, f);
    dl_status st = dl_gpu_launched(g);
    dl_gpu_drop(g, part);
    return st;
}

template <class ROW> static dl_status run(dl_gpu *g, const dl_call *c, const dl_it *it, sums s) {
    auto carried = dl_carry<ROW::NUMBERS, false>(g, c->op, c->attr);
    return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        typedef typename ROW::template f<calc_t<T>> F;
        enum { N = ROW::OPERANDS, V = 16 / sizeof(T) };
        return in_vectors(it, s.n, sizeof(T), V) ? launch<F, T, N, V>(g, it, s, F{carried})
                                                 : launch<F, T, N, 1>(g, it, s, F{carried});
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
    row.nin--;
    DL_TRY(c->op->infer(&row, &results));
    const dl_tensor *o = c->out[0];
    const double *number = dl_data<double>(c->in[row.nin]);
    sums s = {o->numel, 1, 0, 0, o->dtype, number[0], number[1], dl_ptr(o)};
    for (int d = o->ndim; d < results.ndim; d++) s.n *= results.shape[d];
    if (!s.outs) return DL_OK;
    results_of(&it, &row, &results);
    return run_row(g, &row, &it, s);
}
