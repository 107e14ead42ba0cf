/* Kernels of average pooling and of its gradient: an element of the result is a weighted sum over a rectangle of the
 * other image, in a fixed order. In the gradient rectangles and weights of each row and column come from tables made
 * beforehand. */
#include "cuda/kernels/pool/images.cuh"
#include "ops/avg_pool.h"
#include "ops/names/conv.h"

/* For directions 0 and 1: the windows [x, y) that hold pixel i, and the weight of a pixel of window i. */
struct tables {
    int2 *range[2];
    double *share[2];
};

__device__ inline int2 window_of(const dl_average &g, int d, long i, double *share) {
    long lo, hi, n;
    dl_average_window(&g, d, i, &lo, &hi, &n);
    *share = 1 / (double)n;
    return {(int)lo, (int)hi};
}

__global__ void __launch_bounds__(DL_BLOCK) table_kernel(dl_average g, tables t) {
    int d = blockIdx.y;
    long i = (long)blockIdx.x * DL_BLOCK + threadIdx.x, lo, hi;
    if (i < g.out[d]) window_of(g, d, i, &t.share[d][i]);
    if (i < g.in[d]) {
        dl_average_cover(&g, d, i, &lo, &hi);
        t.range[d][i] = {(int)lo, (int)hi};
    }
}

/* BACK: the elements that are summed are windows, each with a weight of its own. */
template <class T, int P, bool LAST, bool BACK>
__global__ void __launch_bounds__(DL_BLOCK)
    average_kernel(const __grid_constant__ dl_frame<2> f, const __grid_constant__ dl_average g, tables t) {
    enum { COLS = LAST ? 1 : P };
    uint32_t i = blockIdx.x * DL_BLOCK + threadIdx.x;
    if (i >= f.count) return;
    dl_spot<2> s = dl_frame_at<LAST, P>(f, i);
    int2 rows, cols[COLS];
    double sum[P] = {0}, down, across[COLS];
    bool repeated = !f.stride[1][1];
    if constexpr (BACK)
        rows = t.range[0][s.y];
    else
        rows = window_of(g, 0, s.y, &down);
#pragma unroll
    for (int j = 0; j < COLS; j++) {
        if constexpr (BACK)
            cols[j] = t.range[1][s.x + j];
        else
            cols[j] = window_of(g, 1, s.x + j, &across[j]);
    }
    for (int y = rows.x; y < rows.y; y++) {
        const char *line = s.plane[1] + y * f.stride[1][2];
        double part[P] = {0};
#pragma unroll
        for (int j = 0; j < COLS; j++)
            for (int z = cols[j].x; z < cols[j].y; z++) {
                double w = BACK ? t.share[1][z] : 1;
                if constexpr (LAST) {
                    dl_vector<T, P> v = dl_channels_at<T, P>(line + z * f.stride[1][3], repeated);
#pragma unroll
                    for (int e = 0; e < P; e++) part[e] += (double)dl_up(v.v[e]) * w;
                } else {
                    part[j] += (double)dl_up(*(const T *)(line + z * f.stride[1][3])) * w;
                }
            }
        double w = BACK ? t.share[0][y] : 1;
#pragma unroll
        for (int e = 0; e < P; e++) sum[e] += part[e] * w;
    }
    dl_vector<T, P> out;
#pragma unroll
    for (int e = 0; e < P; e++) {
        double w = 1;
        if constexpr (!BACK) w = down * across[LAST ? 0 : e];
        out.v[e] = dl_down<T>((calc_t<T>)(sum[e] * w));
    }
    *(dl_vector<T, P> *)(s.plane[0] + s.y * f.stride[0][2] + s.x * f.stride[0][3]) = out;
}

/* Of the gradient; NULL where an error is recorded, else memory, which the caller drops. */
static void *make_tables(dl_gpu *gpu, const dl_average *g, tables *t) {
    long longest = 0, all = 0;
    for (int d = 0; d < 2; d++) {
        long more = g->in[d] > g->out[d] ? g->in[d] : g->out[d];
        if (more > longest) longest = more;
        all += g->in[d] + g->out[d];
    }
    char *p = (char *)dl_gpu_take(gpu, (size_t)all * sizeof(double));
    if (!p) return NULL;
    void *work = p;
    for (int d = 0; d < 2; d++) {
        t->range[d] = (int2 *)p, p += g->in[d] * (long)sizeof(int2);
        t->share[d] = (double *)p, p += g->out[d] * (long)sizeof(double);
    }
    table_kernel<<<dim3(dl_blocks(longest, DL_BLOCK), 2), DL_BLOCK, 0, gpu->stream>>>(*g, *t);
    return work;
}

static dl_status run_average(dl_call *c) {
    DL_USE_GPU(gpu, c->device);
    const dl_tensor *images[2] = {c->out[0], c->in[0]};
    dl_average g;
    tables t = {};
    dl_status s = dl_average_of(c, &g);
    if (s != DL_OK || !c->out[0]->numel) return s;
    bool back = c->op->id == dl_id_avg_pool2d_dx || c->op->id == dl_id_adaptive_pool2d_dx;
    for (int d = 0; d < 2; d++)
        if (g.in[d] > 0x7fffffff || g.out[d] > 0x7fffffff)
            return dl_fail(DL_ERR_SHAPE, "images must have fewer than 2^31 rows and columns");
    void *work = back ? make_tables(gpu, &g, &t) : NULL;
    if (back && !work) return dl_failed();
    s = dl_frame_run(dl_frame_of(images, 1), [&](const dl_frame<2> &f) {
        return dl_dispatch<DL_FLOATS>(c->dtype, [&](auto tag) {
            return dl_frame_dispatch(f, [&](auto pack, auto last) {
                typedef decltype(tag) T;
                enum { P = decltype(pack)::value };
                constexpr bool LAST = decltype(last)::value;
                unsigned blocks = dl_blocks(f.count, DL_BLOCK);
                if (back)
                    average_kernel<T, P, LAST, true><<<blocks, DL_BLOCK, 0, gpu->stream>>>(f, g, t);
                else
                    average_kernel<T, P, LAST, false><<<blocks, DL_BLOCK, 0, gpu->stream>>>(f, g, t);
                return dl_gpu_launched(gpu);
            });
        });
    });
    if (work) dl_gpu_drop(gpu, work);
    return s;
}

const dl_kernel dl_cuda_avg_pool2d = {run_average, NULL, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_avg_pool2d_dx = {run_average, NULL, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_adaptive_pool2d = {run_average, NULL, DL_FLOATS, NULL, 0};
const dl_kernel dl_cuda_adaptive_pool2d_dx = {run_average, NULL, DL_FLOATS, NULL, 0};
