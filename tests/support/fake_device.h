/* A device for tests that have none: its memory is the host's, its kernels are the CPU's, and a graph is a list of
 * calls that are made again. What a capture may not hold is refused, as a GPU refuses it. */
#ifndef TESTS_SUPPORT_FAKE_DEVICE_H
#define TESTS_SUPPORT_FAKE_DEVICE_H

#include "support/tensors.h"

#include <math.h>
#include <stdio.h>
#include "dlcore_ops.h"

#include "core/device/device.h"
#include "core/random/rng.h"
#include "data/transforms/transform.h"
#include "dlcore/reduce.h"
#include "ops/compose/rows/row_sum.h"
#include "ops/names/reduce.h"
#include "ops/pointwise.h"

enum { FAKE = 1, FAKE_POKE = 1024 };

typedef enum fake_kind {
    FAKE_ROW,
    FAKE_COPY,
    FAKE_ACCUMULATE,
    FAKE_FINISH_STEP,
    FAKE_DECIDE,
    FAKE_AVERAGE,
    FAKE_MAKE_BATCH
} fake_kind;

/* One operation that the device was given. */
typedef struct fake_item {
    fake_kind kind;
    dl_call call; /* of a row: tensors and attributes are the item's own */
    dl_tensor *in[DL_MAX_IN], *out[DL_MAX_OUT];
    dl_aval attr[DL_MAX_ATTR];
    unsigned long seed;
    char carried[FAKE_POKE]; /* of a small copy from the host */
    void *dst;
    const void *src;
    size_t bytes;
    dl_control *control;
    dl_accumulate accumulate;
    dl_finish_step finish;
    dl_decide_one one[DL_BREAKS];
    dl_decide decide;
    dl_span *span;            /* of finish */
    dl_tensor **list, **more; /* gradients; averages and weights */
    long n;
    double keep;
    dl_batch_source source;
    dl_transforms transforms;
    void *x, *y;
} fake_item;

struct dl_graph {
    fake_item **item;
    long n, cap;
};

/* What tests look at and set. */
static struct {
    size_t used, room, block; /* bytes; the largest block; 0: as much as one likes */
    long captures, replays, allocs;
    bool lost;       /* nothing works any more */
    bool no_capture; /* captures are refused at their beginning */
    dl_layout layout;
    bool joins_nothing; /* rows that join others are slower than these */
    bool wrong;         /* a replay adds 1 to the first byte that it wrote last */
    dl_graph *capturing;
    const dl_control *control;
    dl_rng_at rng;
    long late; /* reports of so many steps are still under way until someone waits */
    dl_report *report[DL_REPORTS];
    long number[DL_REPORTS], nreport;
} fake;

/* The oldest reports arrive, but for `keep`. */
static void fake_arrive(long keep) {
    while (fake.nreport > keep) {
        __atomic_store_n(&fake.report[0]->number, fake.number[0], __ATOMIC_RELEASE);
        fake.nreport--;
        memmove(fake.report, fake.report + 1, (size_t)fake.nreport * sizeof *fake.report);
        memmove(fake.number, fake.number + 1, (size_t)fake.nreport * sizeof *fake.number);
    }
}

/* ---- memory */

static bool fake_gone(void) {
    if (fake.lost) dl_fail(DL_ERR_DEVICE, "the device is lost");
    return fake.lost;
}

static void *fake_alloc(int index, size_t bytes) {
    (void)index;
    fake.allocs++;
    if (fake_gone()) return NULL;
    if ((fake.room && fake.used + bytes > fake.room) || (fake.block && bytes > fake.block)) {
        dl_fail(DL_ERR_MEMORY, "the device has no room for %zu bytes", bytes);
        return NULL;
    }
    const size_t whole = (bytes + 128) / 64 * 64; /* an address of 0 bytes, too, lies within the block */
    size_t *p = aligned_alloc(64, whole);
    assert_non_null(p);
    memset(p, 0x5a, whole); /* so that elements that are not written are detected */
    *p = bytes;
    fake.used += bytes;
    return (char *)p + 64;
}

static void fake_release(int index, void *p, size_t bytes) {
    (void)index;
    fake.used -= bytes;
    free((char *)p - 64);
}

static void *fake_pinned(int index, size_t bytes) { return (void)index, calloc(1, bytes); }
static void fake_unpin(int index, void *p) { (void)index, free(p); }

static dl_status fake_memory(int index, dl_device_memory *out) {
    (void)index;
    if (fake_gone()) return DL_ERR_DEVICE;
    long room = fake.room ? (long)(fake.room - fake.used) : 1L << 40;
    *out = (dl_device_memory){.used = (long)fake.used, .peak = (long)fake.used, .available = room};
    return DL_OK;
}

/* The highest use is always the present one. */
static dl_status fake_reset_peak(int index) { return (void)index, DL_OK; }

/* ---- what is done at once, or again by a graph */

/* The report is the CPU's; it arrives when the device is asked for it, or when others have come after it. */
static dl_status fake_do_finish_step(dl_control *c, const dl_finish_step *f) {
    dl_report *r = &f->rule.report[c->index % DL_REPORTS];
    long before = r->number, time = r->time;
    DL_TRY(dl_cpu_backend.finish_step(0, c, f));
    assert_true(fake.nreport < DL_REPORTS); /* or the report of a step would come too late */
    fake.report[fake.nreport] = r, fake.number[fake.nreport++] = r->number;
    r->number = before, r->time = time + 1000;
    fake_arrive(fake.late);
    return DL_OK;
}

static void fake_do_make_batch(const dl_control *c, const dl_batch_source *f, void *to, char *y, long n) {
    size_t bytes = (size_t)(f->numel * f->size);
    float *x = to;
    for (long k = 0; k < n; k++) {
        long i = f->order ? f->order[c->from + k] : c->from + k;
        for (long e = 0; f->lut && e < f->numel; e++)
            x[k * f->numel + e] = f->lut[e / f->plane * 256 + ((const uint8_t *)f->x)[i * f->numel + e]];
        if (!f->lut) memcpy((char *)to + (size_t)k * bytes, (const char *)f->x + (size_t)i * bytes, bytes);
        memcpy(y + k * f->target, (const char *)f->y + i * f->target, (size_t)f->target);
        if (!f->transforms) continue;
        dl_draw r = dl_draw_begin(f->seed, DL_FOR_TRANSFORM, (uint64_t)c->epoch, (uint64_t)i);
        dl_sample s = {x + k * f->numel, calloc((size_t)f->numel, sizeof(float)), f->numel, f->c, f->h, f->w};
        dl_transforms_apply(f->transforms, &s, &r);
        free(s.tmp);
    }
}

/* The results of a row, added up: see ops/compose/rows/row_sum.h. */
static dl_status fake_sum_row(const dl_call *c, int operands) {
    dl_call row = *c;
    dl_meta m = {0};
    dl_tensor *o = c->out[0];
    row.nin = operands;
    DL_TRY(c->op->infer(&row, &m));
    dl_tensor *each = must(dl_tensor_empty(m.ndim, m.shape, c->dtype, 0));
    row.out = &each;
    DL_TRY(c->op->kernel[DL_BACKEND_CPU]->run(&row));
    dl_tensor *all = must(dl_to_dtype(each, DL_F64));
    long dims[DL_MAX_DIM], n = 0;
    for (int i = o->ndim; i < m.ndim; i++) dims[n++] = i;
    dl_tensor *sum = n ? must(dl_sum(all, dims, (int)n, 0)) : dl_ref(all), *as;
    const double *number = dl_ptr(c->in[operands]);
    double *v = dl_ptr(sum);
    for (long i = 0; i < o->numel; i++) v[i] = pow(v[i] / number[0], number[1]);
    as = must(dl_to_dtype(sum, o->dtype));
    memcpy(dl_ptr(o), dl_ptr(as), (size_t)o->numel * dl_esize(o));
    dl_unref(each), dl_unref(all), dl_unref(sum), dl_unref(as);
    return DL_OK;
}

static dl_status fake_row(dl_call *c) {
    const dl_formula *f = dl_formula_at(dl_formula_of(c->op));
    if (f && c->nin > f->operands) return fake_sum_row(c, f->operands);
    return c->op->kernel[DL_BACKEND_CPU]->run(c);
}

/* A graph keeps the seed that it was captured with; random calls count from the device's position. Other calls have
 * written to the memory since, which the CPU's kernels, that keep weights in an order of their own, see by the version.
 */
static dl_status fake_run_again(const fake_item *it, dl_call *c) {
    uint64_t seed = dl_rng_swap_seed(it->seed);
    dl_rng_at at = dl_rng_here();
    for (int i = 0; i < c->nin; i++)
        if (c->in[i]) dl_touch(c->in[i]);
    if (it->control) c->rng += it->control->rng.call[c->stream];
    dl_status st = fake_row(c);
    dl_rng_swap_seed(seed);
    dl_rng_go(&at);
    return st;
}

static dl_status fake_do(fake_item *it, bool again) {
    dl_call c = it->call;
    switch (it->kind) {
    case FAKE_ROW: return again ? fake_run_again(it, &c) : fake_row(&c);
    case FAKE_COPY: memcpy(it->dst, it->src ? it->src : it->carried, it->bytes); break;
    case FAKE_ACCUMULATE: return dl_cpu_backend.accumulate(0, it->control, &it->accumulate);
    case FAKE_DECIDE: return dl_cpu_backend.decide(0, it->control, &it->decide);
    case FAKE_FINISH_STEP: return fake_do_finish_step(it->control, &it->finish);
    case FAKE_AVERAGE: return dl_cpu_backend.average(0, it->control, it->list, it->more, (int)it->n, it->keep);
    case FAKE_MAKE_BATCH: fake_do_make_batch(it->control, &it->source, it->x, it->y, it->n); break;
    }
    return DL_OK;
}

/* ---- graphs */

static void fake_let_go(void *storage) { dl_storage_unref(storage); }

/* The present contents of the tensor's memory, by address: a graph knows no tensors. */
static dl_tensor *fake_hold(const dl_tensor *t) {
    if (!t) return NULL;
    dl_tensor *v =
        must(dl_tensor_wrap(t->ndim, t->shape, (dl_dtype)t->dtype, dl_ptr(t), fake_let_go, dl_storage_ref(t->st)));
    memcpy(v->stride, t->stride, sizeof v->stride);
    v->st->device = t->st->device, v->weak = t->weak;
    return v;
}

static void fake_drop_list(dl_tensor **t, long n) {
    for (long i = 0; t && i < n; i++) dl_unref(t[i]);
    free(t);
}

static void fake_drop(fake_item *it) {
    for (int i = 0; i < it->call.nin; i++) dl_unref(it->in[i]);
    for (int i = 0; i < it->call.nout; i++) dl_unref(it->out[i]);
    fake_drop_list(it->list, it->n);
    fake_drop_list(it->more, it->n);
    free(it->span);
    for (int i = 0; i < DL_BREAKS; i++) dl_unref((dl_tensor *)it->one[i].is);
    dl_unref((dl_tensor *)it->accumulate.loss);
    dl_unref((dl_tensor *)it->accumulate.output);
    dl_unref((dl_tensor *)it->accumulate.target);
    free(it);
}

static fake_item *fake_new(fake_kind kind) {
    fake_item *it = calloc(1, sizeof *it);
    assert_non_null(it);
    it->kind = kind;
    return it;
}

/* Into the graph being captured, else done now. */
static dl_status fake_issue(fake_item *it) {
    dl_graph *g = fake.capturing;
    if (!g) {
        dl_status st = fake_do(it, false);
        fake_drop(it);
        return st;
    }
    if (g->n == g->cap) {
        g->cap = 2 * g->cap + 64;
        g->item = realloc(g->item, (size_t)g->cap * sizeof(fake_item *));
        assert_non_null(g->item);
    }
    g->item[g->n++] = it;
    return DL_OK;
}

static void fake_graph_free(int index, dl_graph *g) {
    (void)index;
    for (long i = 0; i < g->n; i++) fake_drop(g->item[i]);
    free(g->item);
    free(g);
}

static dl_status fake_capture_begin(int index, dl_graph **out) {
    (void)index;
    if (fake.no_capture) return dl_fail(DL_ERR_DEVICE, "the device captures nothing");
    fake.captures++;
    *out = fake.capturing = calloc(1, sizeof **out);
    return *out ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a graph");
}

static dl_status fake_capture_end(int index, dl_graph *g, bool keep) {
    fake.capturing = NULL;
    if (!keep) fake_graph_free(index, g);
    return DL_OK;
}

static dl_status fake_replay(int index, dl_graph *g) {
    (void)index;
    if (fake_gone()) return DL_ERR_DEVICE;
    fake.replays++;
    for (long i = 0; i < g->n; i++) {
        DL_TRY(fake_do(g->item[i], true));
        if (fake.wrong && g->item[i]->kind == FAKE_ROW && g->item[i]->call.op->mutates)
            ++*(char *)dl_ptr(g->item[i]->in[1]);
    }
    return DL_OK;
}

/* ---- the backend */

static dl_status fake_run(dl_call *c) {
    if (fake_gone()) return DL_ERR_DEVICE;
    if (!fake.capturing) return fake_row(c);
    fake_item *it = fake_new(FAKE_ROW);
    it->call = *c, it->seed = dl_seed_get();
    it->call.in = it->in, it->call.out = it->out, it->call.attr = it->attr;
    for (int i = 0; i < c->nin; i++) it->in[i] = fake_hold(c->in[i]);
    for (int i = 0; i < c->nout; i++) it->out[i] = fake_hold(c->out[i]);
    if (c->op->nattr) memcpy(it->attr, c->attr, (size_t)c->op->nattr * sizeof *it->attr);
    if (c->op->flags & DL_F_RNG && fake.control)
        it->control = (dl_control *)fake.control, it->call.rng -= fake.rng.call[c->stream];
    return fake_issue(it);
}

static dl_status fake_copy(void *dst, int dst_device, const void *src, int src_device, size_t bytes) {
    if (fake_gone()) return DL_ERR_DEVICE;
    if (fake.capturing && !dst_device) return dl_fail(DL_ERR_UNSUPPORTED, "reading cannot be captured");
    if (fake.capturing && !src_device && bytes > FAKE_POKE)
        return dl_fail(DL_ERR_UNSUPPORTED, "a copy to the device cannot be captured");
    fake_item *it = fake_new(FAKE_COPY);
    it->dst = dst, it->bytes = bytes;
    if (fake.capturing && !src_device)
        memcpy(it->carried, src, bytes);
    else
        it->src = src;
    return fake_issue(it);
}

/* The memory of a tensor as the CPU sees it. */
static dl_tensor *fake_hold_on_cpu(const dl_tensor *t) {
    dl_tensor *v = fake_hold(t);
    if (v) v->st->device = 0;
    return v;
}

static dl_tensor **fake_hold_list(dl_tensor *const *t, long n) {
    dl_tensor **list = calloc((size_t)n + 1, sizeof *list);
    assert_non_null(list);
    for (long i = 0; i < n; i++) list[i] = fake_hold_on_cpu(t[i]);
    return list;
}

static dl_status fake_accumulate(int index, dl_control *c, const dl_accumulate *a) {
    (void)index;
    fake_item *it = fake_new(FAKE_ACCUMULATE);
    it->control = c, it->accumulate = *a;
    it->accumulate.loss = fake_hold_on_cpu(a->loss), it->accumulate.output = fake_hold_on_cpu(a->output);
    it->accumulate.target = fake_hold_on_cpu(a->target);
    return fake_issue(it);
}

static dl_status fake_finish_step(int index, dl_control *c, const dl_finish_step *f) {
    (void)index;
    fake_item *it = fake_new(FAKE_FINISH_STEP);
    it->control = c, it->finish = *f, it->n = f->n;
    it->finish.grad = it->list = fake_hold_list(f->grad, f->n);
    for (int i = 0; i < f->ndecide; i++) {
        it->one[i] = f->decide[i];
        it->one[i].is = f->decide[i].is ? fake_hold_on_cpu(f->decide[i].is) : NULL;
    }
    it->finish.decide = it->one;
    it->finish.keep = it->span = malloc((size_t)(f->nkeep + 1) * sizeof *it->span);
    assert_non_null(it->span);
    if (f->nkeep) memcpy(it->span, f->keep, (size_t)f->nkeep * sizeof *it->span);
    return fake_issue(it);
}

static dl_status fake_decide(int index, dl_control *c, const dl_decide *d) {
    (void)index;
    fake_item *it = fake_new(FAKE_DECIDE);
    it->control = c, it->decide = *d, it->n = d->n;
    it->decide.t = it->list = fake_hold_list(d->t, d->n);
    return fake_issue(it);
}

static dl_status fake_average(int index, const dl_control *c, dl_tensor *const *avg, dl_tensor *const *p, int n,
                              double keep) {
    (void)index;
    fake_item *it = fake_new(FAKE_AVERAGE);
    it->control = (dl_control *)c, it->n = n, it->keep = keep;
    it->list = fake_hold_list(avg, n), it->more = fake_hold_list(p, n);
    return fake_issue(it);
}

static dl_status fake_make_batch(int index, const dl_control *c, const dl_batch_source *s, void *x, void *y, long n) {
    (void)index;
    fake_item *it = fake_new(FAKE_MAKE_BATCH);
    it->control = (dl_control *)c, it->source = *s, it->x = x, it->y = y, it->n = n;
    if (s->transforms) it->transforms = *s->transforms, it->source.transforms = &it->transforms;
    return fake_issue(it);
}

static dl_status fake_async_copy(int index, void *dst, const void *src, size_t bytes) {
    (void)index;
    if (fake.capturing) return dl_fail(DL_ERR_UNSUPPORTED, "a copy to the device cannot be captured");
    memcpy(dst, src, bytes);
    return DL_OK;
}

static dl_status fake_synchronize(int index) {
    (void)index;
    if (fake_gone()) return DL_ERR_DEVICE;
    if (fake.capturing) return dl_fail(DL_ERR_UNSUPPORTED, "waiting cannot be captured");
    fake_arrive(0);
    return DL_OK;
}
static dl_status fake_idle(int index, bool *yes) {
    *yes = true;
    return fake_synchronize(index);
}
static dl_status fake_describe(int index, char *text, int size) {
    return (void)index, (void)snprintf(text, (size_t)size, "memory of the host"), DL_OK;
}
static dl_status fake_stream(int index, void **out) { return (void)index, *out = NULL, DL_OK; }
static dl_status fake_empty_cache(int index) { return (void)index, DL_OK; }
static dl_layout fake_prefers_layout(int index, const dl_call *c) { return (void)index, (void)c, fake.layout; }
static bool fake_supports(int index, const dl_call *c) { return (void)index, (void)c, !fake.joins_nothing; }
static void fake_sync_every(bool on) { (void)on; }
static void fake_use_control(int index, const dl_control *c, const dl_rng_at *rng) {
    (void)index, fake.control = c;
    if (c) fake.rng = *rng;
}

/* Device FAKE of this process. */
static void fake_register(void) {
    static dl_kernel kernel[DL_NOP];
    static const dl_kernel *table[DL_NOP];
    static const dl_backend backend = {.name = "cuda", /* as devices are called in the language */
                                       .count = 1,
                                       .kernel = table,
                                       .alloc = fake_alloc,
                                       .release = fake_release,
                                       .copy = fake_copy,
                                       .synchronize = fake_synchronize,
                                       .describe = fake_describe,
                                       .memory = fake_memory,
                                       .reset_peak = fake_reset_peak,
                                       .stream = fake_stream,
                                       .empty_cache = fake_empty_cache,
                                       .sync_every = fake_sync_every,
                                       .pinned = fake_pinned,
                                       .unpin = fake_unpin,
                                       .idle = fake_idle,
                                       .prefers_layout = fake_prefers_layout,
                                       .supports = fake_supports,
                                       .use_control = fake_use_control,
                                       .accumulate = fake_accumulate,
                                       .decide = fake_decide,
                                       .finish_step = fake_finish_step,
                                       .average = fake_average,
                                       .make_batch = fake_make_batch,
                                       .async_copy = fake_async_copy,
                                       .capture_begin = fake_capture_begin,
                                       .capture_end = fake_capture_end,
                                       .replay = fake_replay,
                                       .graph_free = fake_graph_free};
    for (int i = 0; i < DL_NOP; i++) {
        const dl_op *op = dl_op_row(i);
        const dl_kernel *k = op ? op->kernel[DL_BACKEND_CPU] : NULL;
        if (!k) continue;
        kernel[i] = (dl_kernel){.run = k->run ? fake_run : NULL, .dtypes = k->dtypes, .flags = DL_K_NUMBERS};
        table[i] = &kernel[i];
    }
    kernel[dl_id_sum].flags |= DL_K_SUMS_ROWS;
    ok(dl_backend_register(&backend));
}

#endif
