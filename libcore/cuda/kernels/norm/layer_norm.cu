/* Kernels of layer_norm and rms_norm, and their fused gradients. Rows are held in registers, by some lanes of a warp or
 * by a block, and read once. In the gradient, threads go through many rows and add up the gradients of weight and bias
 * by column, in a fixed order. Rows that are too long for registers are read three times. Statistics run in f64. */
#include "cuda/kernels/rows.cuh"
#include "ops/compose/norm.h"
#include "ops/names/norm.h"

enum { THREADS = 256, COLUMNS = 32, ROWS = THREADS / COLUMNS, LEAST_ROWS = 64, WANTED_BLOCKS = 512 };
/* FEW_ROWS: rows of a thread at least; AT_ONCE: rows that are added up in the type that T is computed in. */
enum {
    FEW_ROWS = 4,
    FEWEST_PARTS = 264,
    MOST_PARTS = 1056,
    PARTS = 1 << 18,
    AT_ONCE = 64,
    BACK_THREADS = 256,
    LONGEST = 1 << 13,
    LONG_THREADS = 512
};

/* Rows of d elements; w and b may be NULL. mean and rstd are of the type that T is computed in; without a mean, which
 * counts as 0 then, it is rms_norm. */
template <class T> struct norm_rows {
    long n, d;
    const T *x, *w, *b, *g;
    T *y; /* the result, or dx; NULL: that is not wanted */
    calc_t<T> *mean, *rstd;
    double eps;
};

/* ---- in registers */

/* Sums of squares four at a time in the computing type, which is exact enough for numbers near their mean. */
template <class T, int V, int E, class F>
__device__ inline double squares(const dl_row_regs<T, V, E> &x, int packs, int lane, int lanes, F value) {
    double sum = 0;
#pragma unroll
    for (int e = 0; e < E; e++) {
        if (e * lanes + lane >= packs) continue;
        calc_t<T> few = 0;
#pragma unroll
        for (int j = 0; j < V; j++) {
            calc_t<T> v = value(dl_up(x.p[e].v[j]));
            few += v * v;
        }
        sum += (double)few;
    }
    return sum;
}

template <class T, int V, int E>
__global__ void __launch_bounds__(DL_ROW_LANES) norm_kernel(norm_rows<T> r, dl_row_plan p) {
    typedef calc_t<T> C;
    __shared__ double shared[DL_ROW_LANES / DL_WARP];
    int lane = threadIdx.x & (p.lanes - 1);
    long row = ((long)blockIdx.x * p.threads + threadIdx.x) >> p.shift, at = row * r.d;
    int packs = row < p.rows ? p.packs : 0; /* other rows of the warp need all its threads */
    dl_row_regs<T, V, E> x, w, b;
    x.load(r.x + at, packs, lane, p.lanes, 0);
    double sum = 0, n = (double)r.d, mean = 0;
    if (r.mean) {
        x.each(p, [&](C v, int) { sum += (double)v; });
        mean = dl_row_join(sum, dl_sum_f(), shared, p.lanes) / n;
    }
    C m = (C)mean;
    double rest = mean - (double)m; /* the rounding error of m */
    double square = squares(x, packs, lane, p.lanes, [&](C v) { return v - m; });
    square = dl_row_join(square, dl_sum_f(), shared, p.lanes) / n - rest * rest;
    C k = (C)(1 / sqrt((square > 0 || square != square ? square : 0) + r.eps));
    if (r.w) w.load(r.w, packs, lane, p.lanes, 0);
    if (r.b) b.load(r.b, packs, lane, p.lanes, 0);
    x.change(p, [&](C v, int i) {
        C y = (v - m) * k;
        if (r.w) y *= dl_up(w.p[i / V].v[i % V]);
        if (r.b) y += dl_up(b.p[i / V].v[i % V]);
        return y;
    });
    if (row >= p.rows) return;
    x.store(r.y + at, packs, lane, p.lanes);
    if (lane) return;
    if (r.mean) r.mean[row] = m;
    r.rstd[row] = k;
}

/* dx = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)), gw = g * weight. Blocks go through rows; with `part` they leave
 * the sums of g * xhat and of g over theirs, part[2][blocks][d]. */
template <class T, int V, int E>
__global__ void __launch_bounds__(BACK_THREADS) norm_grad_kernel(norm_rows<T> r, dl_row_plan p, double *part) {
    typedef calc_t<T> C;
    __shared__ double shared[BACK_THREADS / DL_WARP];
    extern __shared__ double columns[]; /* [2][rows of the block][d] */
    int lane = threadIdx.x & (p.lanes - 1), mine = threadIdx.x >> p.shift, side = p.threads >> p.shift;
    C sw[V * E], sb[V * E];
    dl_row_regs<T, V, E> w;
#pragma unroll
    for (int i = 0; i < V * E; i++) sw[i] = sb[i] = 0;
    if (r.w) w.load(r.w, p.packs, lane, p.lanes, 0);
    /* Adds the sums to this thread's place in shared memory; they begin again at 0. */
    auto leave = [&](double *to, C(&s)[V * E], bool begin) {
#pragma unroll
        for (int e = 0; e < E; e++) {
            if (e * p.lanes + lane >= p.packs) continue;
            double *at = to + mine * r.d + (e * p.lanes + lane) * V;
#pragma unroll
            for (int j = 0; j < V; j++) {
                at[j] = (begin ? 0 : at[j]) + (double)s[e * V + j];
                s[e * V + j] = 0;
            }
        }
    };
    int turn = 0;
    for (long first = (long)blockIdx.x * side; first < p.rows; first += (long)gridDim.x * side) {
        long row = first + mine, at = row * r.d;
        int packs = row < p.rows ? p.packs : 0;
        dl_row_regs<T, V, E> x, g;
        x.load(r.x + at, packs, lane, p.lanes, 0);
        g.load(r.g + at, packs, lane, p.lanes, 0);
        C m = packs && r.mean ? r.mean[row] : C(0), k = packs ? r.rstd[row] : C(0);
        double sum = 0, sumx = 0;
#pragma unroll
        for (int e = 0; e < E; e++) {
            if (e * p.lanes + lane >= packs) continue;
#pragma unroll
            for (int j = 0; j < V; j++) {
                int i = e * V + j;
                C gi = dl_up(g.p[e].v[j]), xhat = (dl_up(x.p[e].v[j]) - m) * k, gw = gi;
                if (r.w) gw *= dl_up(w.p[e].v[j]);
                sw[i] += gi * xhat, sb[i] += gi;
                sum += (double)gw, sumx += (double)gw * (double)xhat;
            }
        }
        if (part && ++turn % AT_ONCE == 0) {
            leave(columns, sw, turn == AT_ONCE);
            leave(columns + side * r.d, sb, turn == AT_ONCE);
        }
        if (!r.y) continue;
        C a = r.mean ? (C)(dl_row_join(sum, dl_sum_f(), shared, p.lanes) / (double)r.d) : C(0),
          c = (C)(dl_row_join(sumx, dl_sum_f(), shared, p.lanes) / (double)r.d);
        x.with(p, g, [&](C v, C gi, int i) {
            C gw = r.w ? gi * dl_up(w.p[i / V].v[i % V]) : gi;
            return (gw - a - (v - m) * k * c) * k;
        });
        x.store(r.y + at, packs, lane, p.lanes);
    }
    if (!part) return;
    leave(columns, sw, turn < AT_ONCE);
    leave(columns + side * r.d, sb, turn < AT_ONCE);
    __syncthreads();
    for (long i = threadIdx.x; i < 2 * r.d; i += blockDim.x) {
        long which = i >= r.d, col = i - which * r.d;
        double all = 0;
        for (int s = 0; s < side; s++) all += columns[(which * side + s) * r.d + col];
        part[(which * gridDim.x + blockIdx.x) * r.d + col] = all;
    }
}

/* part[2][parts][d] becomes the gradients of weight and bias, 32 columns a block. */
template <class T>
__global__ void __launch_bounds__(THREADS) norm_join_kernel(const double *part, long parts, long d, T *dw, T *db) {
    __shared__ double shared[2][ROWS][COLUMNS];
    int lane = threadIdx.x % COLUMNS, line = threadIdx.x / COLUMNS;
    long col = (long)blockIdx.x * COLUMNS + lane;
    double sum[2] = {0, 0};
#pragma unroll 4
    for (long p = line; p < parts && col < d; p += ROWS)
        sum[0] += part[p * d + col], sum[1] += part[(parts + p) * d + col];
    for (int k = 0; k < 2; k++) shared[k][line][lane] = sum[k];
    __syncthreads();
    if (line > 1 || col >= d) return;
    double all = 0;
    for (int i = 0; i < ROWS; i++) all += shared[line][i][lane];
    T *to = line ? db : dw;
    if (to) to[col] = dl_down<T>((calc_t<T>)all);
}

/* ---- rows too long for registers: a block's */

/* f(pack, i) for this thread's packs of a row, i being the number of their first element; packs of one element where
 * memory or length do not allow more. */
template <class T, class F> __device__ inline void along(const T *x, long d, F f) {
    enum { V = 16 / sizeof(T) };
    if (d % V == 0 && (size_t)x % 16 == 0) {
#pragma unroll 4
        for (long i = (long)threadIdx.x * V; i < d; i += LONG_THREADS * V) f(*(const dl_vector<T, V> *)(x + i), i);
    } else {
#pragma unroll 4
        for (long i = threadIdx.x; i < d; i += LONG_THREADS) f(*(const dl_vector<T, 1> *)(x + i), i);
    }
}

/* Sums of x and of x**2, less the row's first element, which keeps the difference of the squares exact. */
template <class T> __global__ void __launch_bounds__(LONG_THREADS) long_norm_kernel(norm_rows<T> r) {
    typedef calc_t<T> C;
    __shared__ double shared[LONG_THREADS / DL_WARP];
    const T *x = r.x + blockIdx.x * r.d;
    T *y = r.y + blockIdx.x * r.d;
    double first = r.mean && isfinite(dl_up(x[0])) ? (double)dl_up(x[0]) : 0, sum = 0, square = 0, n = (double)r.d;
    along(x, r.d, [&](auto p, long) {
#pragma unroll
        for (unsigned j = 0; j < sizeof p.v / sizeof *p.v; j++) {
            double v = (double)dl_up(p.v[j]) - first;
            sum += v, square += v * v;
        }
    });
    sum = r.mean ? dl_row_join(sum, dl_sum_f(), shared, LONG_THREADS) / n : 0;
    double var = dl_row_join(square, dl_sum_f(), shared, LONG_THREADS) / n - sum * sum;
    C m = (C)(first + sum), k = (C)(1 / sqrt((var < 0 ? 0 : var) + r.eps));
    bool whole = (size_t)y % 16 == (size_t)x % 16;
    along(x, r.d, [&](auto p, long i) {
        typedef decltype(p) pack;
        enum { N = sizeof p.v / sizeof *p.v };
#pragma unroll
        for (int j = 0; j < N; j++)
            p.v[j] = dl_down<T>((dl_up(p.v[j]) - m) * k * (r.w ? dl_up(r.w[i + j]) : C(1)) +
                                (r.b ? dl_up(r.b[i + j]) : C(0)));
        if (whole) {
            *(pack *)(y + i) = p;
        } else {
#pragma unroll
            for (int j = 0; j < N; j++) y[i + j] = p.v[j];
        }
    });
    if (threadIdx.x) return;
    if (r.mean) r.mean[blockIdx.x] = m;
    r.rstd[blockIdx.x] = k;
}

template <class T> __global__ void __launch_bounds__(THREADS) long_norm_grad_kernel(norm_rows<T> r) {
    typedef calc_t<T> C;
    __shared__ double shared[THREADS / DL_WARP];
    double sum = 0, sumx = 0;
    const T *x = r.x + blockIdx.x * r.d, *g = r.g + blockIdx.x * r.d;
    T *dx = r.y + blockIdx.x * r.d;
    C m = r.mean ? r.mean[blockIdx.x] : C(0), k = r.rstd[blockIdx.x];
    for (long i = threadIdx.x; i < r.d; i += THREADS) {
        C gw = dl_up(g[i]) * (r.w ? dl_up(r.w[i]) : C(1));
        sum += (double)gw;
        sumx += (double)gw * (double)((dl_up(x[i]) - m) * k);
    }
    C a = r.mean ? (C)(dl_row_join(sum, dl_sum_f(), shared, THREADS) / (double)r.d) : C(0),
      c = (C)(dl_row_join(sumx, dl_sum_f(), shared, THREADS) / (double)r.d);
    for (long i = threadIdx.x; i < r.d; i += THREADS) {
        C gw = dl_up(g[i]) * (r.w ? dl_up(r.w[i]) : C(1));
        dx[i] = dl_down<T>((gw - a - (dl_up(x[i]) - m) * k * c) * k);
    }
}

/* Sums of g * xhat and of g over a part of the rows, for 32 columns a block; part[2][parts][d]. */
template <class T>
__global__ void __launch_bounds__(THREADS) long_columns_kernel(norm_rows<T> r, double *part, long each) {
    __shared__ double shared[2][ROWS][COLUMNS];
    int lane = threadIdx.x % COLUMNS, line = threadIdx.x / COLUMNS;
    long col = (long)blockIdx.x * COLUMNS + lane, end = (blockIdx.y + 1) * each;
    double sw = 0, sb = 0;
    if (end > r.n) end = r.n;
    for (long i = blockIdx.y * each + line; i < end && col < r.d; i += ROWS) {
        double g = (double)dl_up(r.g[i * r.d + col]);
        sw += g * (double)((dl_up(r.x[i * r.d + col]) - (r.mean ? r.mean[i] : 0)) * r.rstd[i]);
        sb += g;
    }
    shared[0][line][lane] = sw, shared[1][line][lane] = sb;
    __syncthreads();
    if (line > 1 || col >= r.d) return;
    double sum = 0;
    for (int i = 0; i < ROWS; i++) sum += shared[line][i][lane];
    part[(line * (long)gridDim.y + blockIdx.y) * r.d + col] = sum;
}

/* ---- the choice */

/* launch(V, E) as constants with a plan for rows in registers. False: they are too long. */
template <class T, class G> static bool in_registers(const norm_rows<T> &r, bool back, G launch) {
    enum { V = 16 / sizeof(T), MOST = sizeof(T) == 2 ? 4 : sizeof(T) == 4 ? 8 : 4, SINGLE = 8 };
    dl_row_plan p;
    size_t all = (size_t)r.x | (size_t)r.y | (size_t)r.w | (size_t)r.b | (back ? (size_t)r.g : 0);
    if (r.d % V == 0 && all % 16 == 0) {
        if (!dl_row_plan_of(&p, r.n, r.d, V, 2, MOST) || (back && p.threads > BACK_THREADS)) return false;
        if (p.lanes * 2 >= p.packs)
            launch(p, std::integral_constant<int, V>(), std::integral_constant<int, 2>());
        else
            launch(p, std::integral_constant<int, V>(), std::integral_constant<int, MOST>());
        return true;
    }
    if (!dl_row_plan_of(&p, r.n, r.d, 1, SINGLE, SINGLE) || (back && p.threads > BACK_THREADS)) return false;
    launch(p, std::integral_constant<int, 1>(), std::integral_constant<int, SINGLE>());
    return true;
}

template <class T> static dl_status forward(dl_gpu *g, const norm_rows<T> &r) {
    bool done = in_registers(r, false, [&](const dl_row_plan &p, auto v, auto e) {
        norm_kernel<T, decltype(v)::value, decltype(e)::value><<<dl_row_blocks(&p), p.threads, 0, g->stream>>>(r, p);
    });
    if (!done) long_norm_kernel<T><<<(unsigned)r.n, LONG_THREADS, 0, g->stream>>>(r);
    return dl_gpu_launched(g);
}

/* How many blocks share the rows. */
static long parts_of(long d) {
    long n = PARTS / d;
    return n < FEWEST_PARTS ? (long)FEWEST_PARTS : n < MOST_PARTS ? n : (long)MOST_PARTS;
}

/* Memory for the parts; NULL: an error is recorded. */
static double *take_parts(dl_gpu *g, long parts, long d) {
    return (double *)dl_gpu_take(g, 2 * sizeof(double) * (size_t)(parts * d));
}

template <class T> static dl_status join(dl_gpu *g, double *part, long parts, long d, T *dw, T *db) {
    unsigned blocks = dl_blocks(d, COLUMNS);
    norm_join_kernel<T><<<blocks, THREADS, 0, g->stream>>>(part, parts, d, dw, db);
    dl_gpu_drop(g, part);
    return dl_gpu_launched(g);
}

/* dw and db may be NULL. */
template <class T, int V, int E>
static dl_status in_one(dl_gpu *g, const norm_rows<T> &r, const dl_row_plan &p, T *dw, T *db) {
    bool sums = dw || db;
    long side = p.threads >> p.shift, some = (r.n + side * FEW_ROWS - 1) / (side * FEW_ROWS);
    long blocks = sums ? parts_of(r.d) : (long)dl_row_blocks(&p);
    if (sums && blocks > some) blocks = some;
    size_t shared = sums ? 2 * sizeof(double) * (size_t)(side * r.d) : 0;
    double *part = sums ? take_parts(g, blocks, r.d) : NULL;
    if (sums && !part) return dl_failed();
    auto kernel = norm_grad_kernel<T, V, E>;
    dl_status s = dl_gpu_check(
        g, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared), "a row");
    if (s != DL_OK) return dl_gpu_drop(g, part), s;
    kernel<<<(unsigned)blocks, p.threads, shared, g->stream>>>(r, p, part);
    return sums ? join(g, part, blocks, r.d, dw, db) : dl_gpu_launched(g);
}

template <class T> static dl_status backward(dl_gpu *g, const norm_rows<T> &r, T *dw, T *db) {
    dl_status s = DL_OK;
    if (r.n && in_registers(r, true, [&](const dl_row_plan &p, auto v, auto e) {
            s = in_one<T, decltype(v)::value, decltype(e)::value>(g, r, p, dw, db);
        }))
        return s;
    if (r.y && r.n) long_norm_grad_kernel<T><<<(unsigned)r.n, THREADS, 0, g->stream>>>(r);
    if (!dw && !db) return dl_gpu_launched(g);
    long bands = (r.d + COLUMNS - 1) / COLUMNS, most = r.n / LEAST_ROWS;
    long parts = WANTED_BLOCKS / bands < most ? WANTED_BLOCKS / bands : most;
    if (parts < 1) parts = 1;
    double *part = take_parts(g, parts, r.d);
    if (!part) return dl_failed();
    long_columns_kernel<T>
        <<<dim3((unsigned)bands, (unsigned)parts), THREADS, 0, g->stream>>>(r, part, (r.n + parts - 1) / parts);
    return join(g, part, parts, r.d, dw, db);
}

static long row_size(const dl_aval *sizes) {
    long d = 1;
    for (int i = 0; i < sizes->n; i++) d *= sizes->u.v[i];
    return d;
}

template <class T> static norm_rows<T> rows_of(const dl_tensor *x, const dl_tensor *w, long d) {
    norm_rows<T> r = {};
    r.n = d ? (long)x->numel / d : 0, r.d = d, r.x = dl_data<T>(x), r.w = dl_data<T>(w);
    return r;
}

static dl_status run(dl_call *c, bool centred) {
    DL_USE_GPU(g, c->device);
    dl_tensor *own[3] = {NULL, NULL, NULL};
    long d = row_size(ATTR(c, LAYERNORM_NORMALIZED_SHAPE));
    bool good = true;
    for (int i = 0; i < 3 && good; i++) good = dl_cuda_operand(g, dl_input(c, i), c->dtype, &own[i]);
    dl_status s = good ? DL_OK : dl_failed();
    if (good && own[0]->numel)
        s = dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
            typedef decltype(tag) T;
            norm_rows<T> r = rows_of<T>(own[0], own[1], d);
            r.b = dl_data<T>(own[2]), r.y = dl_data<T>(c->out[0]);
            r.mean = centred ? dl_data<calc_t<T>>(OUTPUT(c, LAYER_NORM_MEAN)) : NULL;
            r.rstd = dl_data<calc_t<T>>(centred ? OUTPUT(c, LAYER_NORM_RSTD) : OUTPUT(c, RMS_NORM_RSTD));
            r.eps = centred ? ATTR_F(c, LAYERNORM_EPS) : dl_rms_eps(ATTR(c, LAYERNORM_EPS), c->dtype);
            return forward(g, r);
        });
    for (int i = 0; i < 3; i++) dl_unref(own[i]);
    return s;
}

/* A tensor for the gradient of input i, when that is wanted. */
static dl_tensor *gradient(dl_back *b, int i, int ndim, const long *shape, const dl_tensor *x) {
    return DL_NEED(i) ? dl_tmp(b, dl_tensor_empty(ndim, shape, (dl_dtype)x->dtype, x->st->device)) : NULL;
}

static dl_status fused(dl_back *b, bool centred) {
    bool weighted = b->nin > DL_IN_LAYERNORM_WEIGHT && META(LAYERNORM_WEIGHT)->ndim;
    dl_tensor *x = IN_(LAYERNORM_INPUT), *mean = centred ? OUT_(LAYER_NORM_MEAN) : NULL;
    dl_tensor *rstd = centred ? OUT_(LAYER_NORM_RSTD) : OUT_(RMS_NORM_RSTD);
    dl_tensor *w = weighted ? IN_(LAYERNORM_WEIGHT) : NULL, *in[3] = {x, b->g[0], w}, *own[3] = {NULL, NULL, NULL};
    dl_gpu *gpu = x && (mean || !centred) && rstd ? dl_gpu_use(x->st->device) : NULL;
    if (!gpu) return dl_fail_null("the input");
    for (int i = 0; i < 3; i++) {
        if (!dl_cuda_operand(gpu, in[i], x->dtype, &own[i])) return dl_failed();
        if (own[i]) dl_tmp(b, own[i]);
    }
    const dl_aval *sizes = ATTR(b, LAYERNORM_NORMALIZED_SHAPE);
    dl_tensor *d[3] = {gradient(b, 0, x->ndim, x->shape, x), gradient(b, 1, sizes->n, sizes->u.v, x),
                       gradient(b, 2, sizes->n, sizes->u.v, x)};
    long size = row_size(sizes);
    for (int i = 0; i < 3; i++)
        if (DL_NEED(i) && !d[i]) return dl_failed();
    dl_status s = dl_dispatch<DL_FLOATS>(x->dtype, [&](auto tag) {
        typedef decltype(tag) T;
        norm_rows<T> r = rows_of<T>(own[0], own[2], size);
        r.g = dl_data<T>(own[1]), r.y = dl_data<T>(d[0]);
        r.mean = dl_data<calc_t<T>>(mean), r.rstd = dl_data<calc_t<T>>(rstd);
        T *dw = dl_data<T>(d[1]), *db = dl_data<T>(d[2]);
        return size ? backward(gpu, r, dw, db) : DL_OK;
    });
    for (int i = 0; i < 3 && s == DL_OK; i++)
        if (d[i]) s = dl_give(b, i, dl_ref(d[i]));
    return s;
}

static dl_status run_layer_norm(dl_call *c) { return run(c, true); }
static dl_status run_rms_norm(dl_call *c) { return run(c, false); }
static dl_status grad_layer_norm(dl_back *b) { return fused(b, true); }
static dl_status grad_rms_norm(dl_back *b) { return fused(b, false); }
const dl_kernel dl_cuda_layer_norm = {run_layer_norm, grad_layer_norm, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_rms_norm = {run_rms_norm, grad_rms_norm, DL_FLOATS, NULL, 0};
