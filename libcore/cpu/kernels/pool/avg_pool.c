/* Kernels of average pooling and of its gradient. Either way a pixel of the result is a weighted sum over a rectangle
 * of the other image: its window's pixels, or the windows that hold it. A task is an image plane: rows are added up
 * first, then columns of the sum. Or, with any strides, some channels that lie side by side. */
#include "cpu/runtime/iter.h"
#include "cpu/kernels/pool/pool.h"
#include "ops/avg_pool.h"
#include "ops/rules/conv.h"

enum { CHANNELS = 64, WIDEST = 4096 };

typedef struct job {
    dl_average g;
    bool back, f64;
    dl_image x, o;
    long rows, cols;    /* of the result */
    long block, blocks; /* channels of a task; tasks of an image */
    double *weight[2];  /* 1 / pixels of each window, in both directions */
} job;

static void rectangle(const job *j, int d, long i, long *lo, long *hi) {
    long count;
    if (j->back)
        dl_average_cover(&j->g, d, i, lo, hi);
    else
        dl_average_window(&j->g, d, i, lo, hi, &count);
}

/* Channels c0 .. c0 + nc of image n. */
#define AVERAGES(T, S)                                                                                                 \
    static void averages_##S(const job *j, long n, long c0, long nc) {                                                 \
        const T *x = (const T *)j->x.p + n * j->x.sn + c0 * j->x.sc;                                                   \
        T *o = (T *)j->o.p + n * j->o.sn + c0 * j->o.sc;                                                               \
        for (long row = 0; row < j->rows; row++)                                                                       \
            for (long col = 0; col < j->cols; col++) {                                                                 \
                long y0, y1, z0, z1;                                                                                   \
                double sum[CHANNELS] = {0};                                                                            \
                rectangle(j, 0, row, &y0, &y1), rectangle(j, 1, col, &z0, &z1);                                        \
                for (long y = y0; y < y1; y++)                                                                         \
                    for (long z = z0; z < z1; z++) {                                                                   \
                        double w = j->back ? j->weight[0][y] * j->weight[1][z] : 1;                                    \
                        const T *p = x + y * j->x.sh + z * j->x.sw;                                                    \
                        if (j->x.sc == 1)                                                                              \
                            for (long c = 0; c < nc; c++) sum[c] += w * (double)p[c];                                  \
                        else                                                                                           \
                            for (long c = 0; c < nc; c++) sum[c] += w * (double)p[c * j->x.sc];                        \
                    }                                                                                                  \
                double w = j->back ? 1 : j->weight[0][row] * j->weight[1][col];                                        \
                T *to = o + row * j->o.sh + col * j->o.sw;                                                             \
                for (long c = 0; c < nc; c++) to[c * j->o.sc] = (T)(w * sum[c]);                                       \
            }                                                                                                          \
    }
AVERAGES(float, f32)
AVERAGES(double, f64)

/* Sums over the windows of one row, x to o; window c begins at c * stride - pad. Or the other way round:
 * each number of x is added to the pixels of its window. */
#define ACROSS(T, S)                                                                                                   \
    static void across_##S(const dl_average *g, bool back, const T *x, T *o) {                                         \
        const long s = g->stride[1], n = g->in[1];                                                                     \
        for (long i = 0; i < g->k[1]; i++) {                                                                           \
            const long at = i - g->pad[1], from = at < 0 ? (-at + s - 1) / s : 0;                                      \
            long to = at < n ? (n - 1 - at) / s + 1 : 0;                                                               \
            if (to > g->out[1]) to = g->out[1];                                                                        \
            if (back)                                                                                                  \
                for (long c = from; c < to; c++) o[c * s + at] += x[c];                                                \
            else                                                                                                       \
                for (long c = from; c < to; c++) o[c] += x[c * s + at];                                                \
        }                                                                                                              \
    }                                                                                                                  \
    static void across_parts_##S(const dl_average *g, bool back, const T *x, T *o) {                                   \
        for (long c = 0; c < g->out[1]; c++) {                                                                         \
            long lo, hi, count;                                                                                        \
            dl_average_window(g, 1, c, &lo, &hi, &count);                                                              \
            T sum[4] = {0}; /* so that an addition need not wait for the one before */                                 \
            if (back) {                                                                                                \
                for (long z = lo; z < hi; z++) o[z] += x[c];                                                           \
                continue;                                                                                              \
            }                                                                                                          \
            for (; lo + 4 <= hi; lo += 4)                                                                              \
                for (int k = 0; k < 4; k++) sum[k] += x[lo + k];                                                       \
            for (; lo < hi; lo++) sum[0] += x[lo];                                                                     \
            o[c] = (sum[0] + sum[1]) + (sum[2] + sum[3]);                                                              \
        }                                                                                                              \
    }
ACROSS(float, f32)
ACROSS(double, f64)

/* A plane of a result whose rows are dense; those of x need not be, as of an expanded gradient. */
#define PLANE(T, S)                                                                                                    \
    static void plane_##S(const job *j, const T *x, T *o) {                                                            \
        const dl_average *g = &j->g;                                                                                   \
        const long wide = j->back ? g->out[1] : g->in[1];                                                              \
        T sum[WIDEST];                                                                                                 \
        for (long row = 0; row < j->rows; row++, o += j->o.sh) {                                                       \
            long y0, y1;                                                                                               \
            rectangle(j, 0, row, &y0, &y1);                                                                            \
            const bool one = !j->back && y1 - y0 == 1 && j->x.sw == 1; /* row, which is its own sum */                 \
            for (long z = 0; !one && z < wide; z++) sum[z] = 0;                                                        \
            for (long y = y0; !one && y < y1; y++) {                                                                   \
                const T *p = x + y * j->x.sh, w = (T)(j->back ? j->weight[0][y] : 1);                                  \
                for (long z = 0; j->x.sw == 1 && z < wide; z++) sum[z] += w * p[z];                                    \
                for (long z = 0; j->x.sw != 1 && z < wide; z++) sum[z] += w * p[z * j->x.sw];                          \
            }                                                                                                          \
            for (long z = 0; j->back && z < wide; z++) sum[z] *= (T)j->weight[1][z];                                   \
            for (long c = 0; c < j->cols; c++) o[c] = 0;                                                               \
            (g->adaptive ? across_parts_##S : across_##S)(g, j->back, one ? x + y0 * j->x.sh : sum, o);                \
            for (long c = 0; !j->back && c < j->cols; c++) o[c] *= (T)(j->weight[0][row] * j->weight[1][c]);           \
        }                                                                                                              \
    }
PLANE(float, f32)
PLANE(double, f64)

static void run_plane(void *arg, long i) {
    const job *j = arg;
    const long n = i / j->g.C, c = i % j->g.C, x = n * j->x.sn + c * j->x.sc, o = n * j->o.sn + c * j->o.sc;
    if (j->f64)
        plane_f64(j, (const double *)j->x.p + x, (double *)j->o.p + o);
    else
        plane_f32(j, (const float *)j->x.p + x, (float *)j->o.p + o);
}

static void run_task(void *arg, long i) {
    const job *j = arg;
    long c0 = i % j->blocks * j->block, nc = j->g.C - c0 < j->block ? j->g.C - c0 : j->block;
    (j->f64 ? averages_f64 : averages_f32)(j, i / j->blocks, c0, nc);
}

static dl_status average_float(dl_call *c) {
    job j = {.x = dl_image_of(c->in[0]), .o = dl_image_of(c->out[0])};
    DL_TRY(dl_average_of(c, &j.g));
    j.rows = c->out[0]->shape[2], j.cols = c->out[0]->shape[3];
    j.back = c->op->id == dl_id_avg_pool2d_dx || c->op->id == dl_id_adaptive_pool2d_dx;
    size_t bytes = (size_t)(j.g.out[0] + j.g.out[1]) * sizeof(double);
    double *weights = dl_host_alloc(bytes);
    if (!weights) return dl_failed();
    j.weight[0] = weights, j.weight[1] = weights + j.g.out[0];
    for (int d = 0; d < 2; d++)
        for (long i = 0; i < j.g.out[d]; i++) {
            long lo, hi, count;
            dl_average_window(&j.g, d, i, &lo, &hi, &count);
            j.weight[d][i] = 1.0 / (double)count;
        }
    j.f64 = c->dtype == DL_F64;
    j.block = j.x.sc == 1 && j.g.C > 1 ? CHANNELS : 1, j.blocks = (j.g.C + j.block - 1) / j.block;
    long work = j.g.N * j.g.C * (j.back ? j.rows * j.cols : j.g.in[0] * j.g.in[1]);
    const bool dense = j.o.sw == 1 && j.g.in[1] <= WIDEST && j.g.out[1] <= WIDEST;
    dl_cpu_for(dense ? j.g.N * j.g.C : j.g.N * j.blocks, dl_cpu_threads(work), dense ? run_plane : run_task, &j);
    dl_host_free(weights, bytes);
    return DL_OK;
}

DL_CPU_KERNEL(avg_pool2d, average_float, false, DL_FLOATS)
DL_CPU_KERNEL(avg_pool2d_dx, average_float, false, DL_FLOATS)
DL_CPU_KERNEL(adaptive_pool2d, average_float, false, DL_FLOATS)
DL_CPU_KERNEL(adaptive_pool2d_dx, average_float, false, DL_FLOATS)
