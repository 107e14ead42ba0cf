/* Kernel of grid_read and its gradient. The pixels around a few places and their weights are computed once for all
 * channels. */
#include "ops/grid.h"
#include "cpu/runtime/iter.h"
#include "ops/compose/compose.h"
#include "ops/rules/index.h"

enum { FEW = 64, COST = 4 }; /* places at once; of a term in elements, in which threads are counted */

/* Contiguous; g and dx, dgrid (or NULL) in the gradient. */
typedef struct job {
    dl_grid grid;
    long n, c, places, pixels, group, blocks; /* tasks of an image: by channels or by places */
    int terms;
    bool f64;
    const void *x, *at, *g;
    void *out, *dx, *dgrid;
} job;

/* Terms of up to FEW places, by term; those outside have the pixel -1. */
typedef struct terms {
    long pixel[DL_GRID_TERMS][FEW];
    double weight[DL_GRID_TERMS][FEW], slope[DL_GRID_TERMS][FEW][DL_GRID_DIMS];
} terms;

static double number(const void *p, bool f64, long i) { return f64 ? ((const double *)p)[i] : ((const float *)p)[i]; }

static void find(const job *j, long n, long from, long count, terms *all) {
    const int dims = j->grid.dims;
    for (long i = 0; i < count; i++) {
        dl_grid_tap tap[DL_GRID_DIMS];
        for (int d = 0; d < dims; d++) /* the grid names the last direction first */
            dl_grid_taps(&j->grid, d, number(j->at, j->f64, ((n * j->places + from + i) + 1) * dims - 1 - d), &tap[d]);
        for (int k = 0; k < j->terms; k++) {
            const dl_grid_term t = dl_grid_term_at(&j->grid, tap, k);
            all->pixel[k][i] = t.pixel, all->weight[k][i] = t.weight;
            for (int d = 0; d < dims && j->dgrid; d++) all->slope[k][i][d] = t.slope[d];
        }
    }
}

#define CHANNEL(T)                                                                                                     \
    static void read_##T(const job *j, const terms *all, long plane, long from, long count) {                          \
        const T *x = (const T *)j->x + plane * j->pixels;                                                              \
        T *o = (T *)j->out + plane * j->places + from;                                                                 \
        double sum[FEW] = {0};                                                                                         \
        for (int k = 0; k < j->terms; k++) {                                                                           \
            const long *pixel = all->pixel[k];                                                                         \
            const double *w = all->weight[k];                                                                          \
            for (long i = 0; i < count; i++) sum[i] += pixel[i] < 0 ? 0 : w[i] * (double)x[pixel[i]];                  \
        }                                                                                                              \
        for (long i = 0; i < count; i++) o[i] = (T)sum[i];                                                             \
    }                                                                                                                  \
    static void spread_##T(const job *j, const terms *all, long plane, long from, long count) {                        \
        const T *g = (const T *)j->g + plane * j->places + from;                                                       \
        T *dx = (T *)j->dx + plane * j->pixels;                                                                        \
        for (int k = 0; k < j->terms; k++) {                                                                           \
            const long *pixel = all->pixel[k];                                                                         \
            const double *w = all->weight[k];                                                                          \
            for (long i = 0; i < count; i++)                                                                           \
                if (pixel[i] >= 0) dx[pixel[i]] += (T)(w[i] * (double)g[i]);                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void slopes_##T(const job *j, const terms *all, long plane, long from, long count,                          \
                           double(*sum)[DL_GRID_DIMS]) {                                                               \
        const T *g = (const T *)j->g + plane * j->places + from, *x = (const T *)j->x + plane * j->pixels;             \
        for (int k = 0; k < j->terms; k++)                                                                             \
            for (long i = 0; i < count; i++) {                                                                         \
                const long pixel = all->pixel[k][i];                                                                   \
                if (pixel < 0) continue;                                                                               \
                const double v = (double)x[pixel] * (double)g[i];                                                      \
                for (int d = 0; d < j->grid.dims; d++) sum[i][d] += all->slope[k][i][d] * v;                           \
            }                                                                                                          \
    }
CHANNEL(float)
CHANNEL(double)

static long at_most(long a, long b) { return a < b ? a : b; }

/* A task of some channels of an image, at all places: f of each channel and few places. */
static void each_channel(const job *j, long task, void (*f)(const job *, const terms *, long, long, long)) {
    const long n = task / j->blocks, first = task % j->blocks * j->group, end = at_most(first + j->group, j->c);
    terms all;
    for (long from = 0; from < j->places; from += FEW) {
        const long count = at_most(FEW, j->places - from);
        find(j, n, from, count, &all);
        for (long c = first; c < end; c++) f(j, &all, n * j->c + c, from, count);
    }
}

static void read_task(void *arg, long task) {
    const job *j = arg;
    each_channel(j, task, j->f64 ? read_double : read_float);
}

static void spread_task(void *arg, long task) {
    const job *j = arg;
    each_channel(j, task, j->f64 ? spread_double : spread_float);
}

/* A task of few places, over all channels. */
static void slopes_task(void *arg, long task) {
    const job *j = arg;
    const int dims = j->grid.dims;
    const long n = task / j->blocks, from = task % j->blocks * FEW, count = at_most(FEW, j->places - from);
    double sum[FEW][DL_GRID_DIMS] = {{0}};
    terms all;
    find(j, n, from, count, &all);
    for (long c = 0; c < j->c; c++) (j->f64 ? slopes_double : slopes_float)(j, &all, n * j->c + c, from, count, sum);
    for (long i = 0; i < count; i++)
        for (int d = 0; d < dims; d++) {
            const long at = (n * j->places + from + i + 1) * dims - 1 - d;
            if (j->f64)
                ((double *)j->dgrid)[at] = sum[i][d];
            else
                ((float *)j->dgrid)[at] = (float)sum[i][d];
        }
}

static int threads(const job *j) { return dl_cpu_threads(COST * j->n * j->places * j->terms * (j->c + 4)); }

/* As few tasks as give every thread some. */
static void by_channels(job *j, void (*task)(void *, long)) {
    const long wanted = 4 * threads(j), groups = j->n ? at_most((wanted + j->n - 1) / j->n, j->c) : 0;
    if (!groups) return;
    j->group = (j->c + groups - 1) / groups, j->blocks = (j->c + j->group - 1) / j->group;
    dl_cpu_for(j->n * j->blocks, threads(j), task, j);
}

static dl_status operands(job *j, dl_pool *p, dl_tensor *x, dl_tensor *grid, dl_grid g) {
    dl_tensor *images = K(dl_cpu_contiguous(x)), *at = K(dl_cpu_contiguous(grid));
    if (!images || !at) return dl_failed();
    *j = (job){.grid = g,
               .n = x->shape[0],
               .c = x->shape[1],
               .places = 1,
               .pixels = g.size[0] * g.size[1] * g.size[2],
               .terms = dl_grid_terms(&g),
               .f64 = x->dtype == DL_F64,
               .x = dl_ptr(images),
               .at = dl_ptr(at)};
    for (int i = 0; i < g.dims; i++) j->places *= grid->shape[1 + i];
    return DL_OK;
}

static dl_status grid_run(dl_call *c) {
    POOL;
    job j;
    DL_TRY(operands(&j, p, c->in[0], c->in[1],
                    dl_grid_of(c->in[0], ATTR_S(c, GRID_READ_MODE), ATTR_S(c, GRID_READ_PADDING_MODE),
                               ATTR_I(c, GRID_READ_ALIGN_CORNERS))));
    j.out = dl_ptr(c->out[0]);
    by_channels(&j, read_task);
    return DL_OK;
}

static dl_status grid_back(dl_back *b) {
    POOL;
    job j;
    dl_tensor *x = IN_(GRID_READ_INPUT), *grid = IN_(GRID_READ_GRID), *g = K(dl_cpu_contiguous(G0));
    if (!x || !grid || !g) return dl_failed();
    DL_TRY(operands(&j, p, x, grid,
                    dl_grid_of(x, ATTR_S(b, GRID_READ_MODE), ATTR_S(b, GRID_READ_PADDING_MODE),
                               ATTR_I(b, GRID_READ_ALIGN_CORNERS))));
    dl_tensor *dx = NEED(GRID_READ_INPUT) ? T(dl_tensor_empty(x->ndim, x->shape, x->dtype, 0)) : NULL;
    dl_tensor *dgrid = NEED(GRID_READ_GRID) ? T(dl_tensor_empty(grid->ndim, grid->shape, x->dtype, 0)) : NULL;
    if ((NEED(GRID_READ_INPUT) && !dx) || (NEED(GRID_READ_GRID) && !dgrid)) return dl_failed();
    j.g = dl_ptr(g);
    if (dx) {
        j.dx = dl_ptr(dx);
        dl_cpu_clear(j.dx, (size_t)(dx->numel * (long)dl_esize(dx)));
        by_channels(&j, spread_task);
        DL_TRY(dl_give(b, DL_IN_GRID_READ_INPUT, dl_ref(dx)));
    }
    if (!dgrid) return DL_OK;
    j.dgrid = dl_ptr(dgrid), j.blocks = (j.places + FEW - 1) / FEW;
    if (j.grid.mode == DL_GRID_NEAREST) /* which does not depend on the grid */
        dl_cpu_clear(j.dgrid, (size_t)(dgrid->numel * (long)dl_esize(dgrid)));
    else
        dl_cpu_for(j.n * j.blocks, threads(&j), slopes_task, &j);
    return dl_give(b, DL_IN_GRID_READ_GRID, dl_ref(dgrid));
}

const dl_kernel dl_cpu_grid_read = {
    .run = grid_run, .fused_grad = grid_back, .dtypes = DL_BIT(DL_F32) | DL_BIT(DL_F64)};
