/* Kernel of grid_read and its gradient. The pixels around some places and their weights are computed once for all
 * channels of a task. */
#include "cpu/kernels/images/grid.h"
#include "cpu/runtime/iter.h"
#include "ops/compose/compose.h"
#include "ops/rules/index.h"

enum { FEW_CHANNELS = 8 }; /* for which the terms of places are found once more */

/* A call in tasks: `groups` of channels of `chunks` of places of each image. */
typedef struct task {
    dl_grid_job job;
    const dl_grid_loops *loops;
    long n, group, groups, each, chunks;
    void (*plane)(const dl_grid_job *j, const void *all, long plane, long from, long count);
} task;

static long at_most(long a, long b) { return a < b ? a : b; }
static long parts(long n, long each) { return (n + each - 1) / each; }

/* Some channels of an image, at all places. */
static void run_channels(void *arg, long i) {
    const task *k = arg;
    const dl_grid_job *j = &k->job;
    _Alignas(64) char all[DL_GRID_BYTES];
    const long n = i / k->groups, first = i % k->groups * k->group, end = at_most(first + k->group, j->c);
    for (long from = 0; from < j->places; from += k->each) {
        const long count = at_most(k->each, j->places - from);
        k->loops->find(j, n, from, count, false, all);
        for (long c = first; c < end; c++) k->plane(j, all, n * j->c + c, from, count);
    }
}

/* Some places of some channels of an image. */
static void run_places(void *arg, long i) {
    const task *k = arg;
    const dl_grid_job *j = &k->job;
    _Alignas(64) char all[DL_GRID_BYTES];
    const long n = i / k->groups / k->chunks, from = i / k->groups % k->chunks * k->each,
               count = at_most(k->each, j->places - from), first = i % k->groups * k->group,
               end = at_most(first + k->group, j->c);
    k->loops->find(j, n, from, count, j->dgrid, all);
    if (j->dgrid) {
        k->loops->slopes(j, all, n, from, count);
        return;
    }
    for (long c = first; c < end; c++) k->plane(j, all, n * j->c + c, from, count);
}

static int threads(const task *k) {
    const dl_grid_job *j = &k->job;
    return dl_cpu_threads(k->n * j->places * j->terms * (j->c + 4));
}

/* Channels in so many groups that every thread gets some tasks, where each has a few of them. */
static void in_groups(task *k, long tasks, long fewest) {
    const long wanted = tasks ? parts(4 * threads(k), tasks) : 1, c = k->job.c;
    k->group = parts(c, at_most(wanted, c > fewest ? c / fewest : 1));
    k->groups = k->group ? parts(c, k->group) : 0;
}

/* The places of `grid` in images x, in f32 or f64. */
static dl_status make_task(task *k, dl_pool *p, dl_tensor *x, dl_tensor *grid, dl_grid g) {
    dl_tensor *images = K(dl_cpu_contiguous(x)), *at = K(dl_cpu_contiguous(grid));
    if (!images || !at) return dl_failed();
    dl_grid_job j = {.grid = g,
                     .c = x->shape[1],
                     .places = 1,
                     .pixels = g.size[0] * g.size[1] * g.size[2],
                     .terms = dl_grid_terms(&g),
                     .x = dl_ptr(images),
                     .at = dl_ptr(at)};
    for (int i = 0; i < g.dims; i++) j.places *= grid->shape[1 + i];
    if (j.pixels > INT32_MAX)
        return dl_fail_hint(DL_ERR_SHAPE, "split the images",
                            "grid_sample reads channels of up to %d elements, not %ld", INT32_MAX, j.pixels);
    *k = (task){.job = j, .loops = &DL_SIMD_PICK(dl_grid_rows)[x->dtype == DL_F64], .n = x->shape[0]};
    k->group = j.c, k->groups = 1;
    const long most = at_most(DL_GRID_SPACE / 4, DL_GRID_SPACE / j.terms);
    k->chunks = parts(j.places, most); /* as many places at once as their terms have room */
    k->each = k->chunks ? parts(j.places, k->chunks) : 0;
    return DL_OK;
}

static dl_status grid_run(dl_call *c) {
    POOL;
    task k;
    DL_TRY(make_task(&k, p, c->in[0], c->in[1],
                     dl_grid_of(c->in[0], ATTR_S(c, GRID_READ_MODE), ATTR_S(c, GRID_READ_PADDING_MODE),
                                ATTR_I(c, GRID_READ_ALIGN_CORNERS))));
    k.job.out = dl_ptr(c->out[0]), k.plane = k.loops->read;
    in_groups(&k, k.n * k.chunks, FEW_CHANNELS);
    dl_cpu_for(k.n * k.chunks * k.groups, threads(&k), run_places, &k);
    return DL_OK;
}

/* Places may share pixels: a channel belongs to one task. */
static void run_spread(task k, dl_tensor *dx) {
    k.job.dx = dl_ptr(dx), k.plane = k.loops->spread;
    dl_cpu_clear(k.job.dx, (size_t)(dx->numel * (long)dl_esize(dx)));
    in_groups(&k, k.n, 1);
    dl_cpu_for(k.n * k.groups, threads(&k), run_channels, &k);
}

static void run_slopes(task k, dl_tensor *dgrid) {
    k.job.dgrid = dl_ptr(dgrid);
    if (k.job.grid.mode == DL_GRID_NEAREST) /* which does not depend on the grid */
        dl_cpu_clear(k.job.dgrid, (size_t)(dgrid->numel * (long)dl_esize(dgrid)));
    else
        dl_cpu_for(k.n * k.chunks, threads(&k), run_places, &k);
}

static dl_status grid_back(dl_back *b) {
    POOL;
    task k;
    dl_tensor *x = IN_(GRID_READ_INPUT), *grid = IN_(GRID_READ_GRID), *g = K(dl_cpu_contiguous(G0));
    if (!x || !grid || !g) return dl_failed();
    DL_TRY(make_task(&k, p, x, grid,
                     dl_grid_of(x, ATTR_S(b, GRID_READ_MODE), ATTR_S(b, GRID_READ_PADDING_MODE),
                                ATTR_I(b, GRID_READ_ALIGN_CORNERS))));
    dl_tensor *dx = NEED(GRID_READ_INPUT) ? T(dl_tensor_empty(x->ndim, x->shape, x->dtype, 0)) : NULL;
    dl_tensor *dgrid = NEED(GRID_READ_GRID) ? T(dl_tensor_empty(grid->ndim, grid->shape, x->dtype, 0)) : NULL;
    if ((NEED(GRID_READ_INPUT) && !dx) || (NEED(GRID_READ_GRID) && !dgrid)) return dl_failed();
    k.job.g = dl_ptr(g);
    if (dx) {
        run_spread(k, dx);
        DL_TRY(dl_give(b, DL_IN_GRID_READ_INPUT, dl_ref(dx)));
    }
    if (!dgrid) return DL_OK;
    run_slopes(k, dgrid);
    return dl_give(b, DL_IN_GRID_READ_GRID, dl_ref(dgrid));
}

const dl_kernel dl_cpu_grid_read = {
    .run = grid_run, .fused_grad = grid_back, .dtypes = DL_BIT(DL_F32) | DL_BIT(DL_F64)};
