/* A device for tests that have none: its memory is the host's, its kernels are the CPU's, and a graph is a list of
 * calls that are made again. What a capture may not hold is refused, as a GPU refuses it. */
#ifndef TESTS_SUPPORT_FAKE_DEVICE_H
#define TESTS_SUPPORT_FAKE_DEVICE_H

#include "support/tensors.h"

#include <stdio.h>

#include "core/device.h"
#include "core/rng.h"
#include "data/transform.h"

enum { FAKE = 1, FAKE_POKE = 1024 };

typedef enum fake_kind { FAKE_ROW, FAKE_COPY, FAKE_TALLY, FAKE_JUDGE, FAKE_AVERAGE, FAKE_DEAL } fake_kind;

/* One thing that the device has been told to do. */
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
    dl_tally tally;
    dl_judge judge;
    dl_tensor **list, **more; /* gradients; averages and weights */
    long n;
    double keep;
    dl_feed feed;
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
    bool wrong;      /* a replay adds 1 to the first byte that it wrote last */
    dl_graph *capturing;
    const dl_control *control;
    uint64_t rng;
    long late; /* reports of so many steps are still under way until someone waits */
    dl_report *report[DL_RING];
    long number[DL_RING], nreport;
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
    size_t *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(p);
    memset(p, 0x5a, (bytes + 127) / 64 * 64); /* what is not written shows */
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

/* ---- what is done at once, or again by a graph */

static double fake_number(const dl_tensor *t, long i) {
    return dl_load_f64((const char *)dl_ptr(t) + i * (long)dl_esize(t), (dl_dtype)t->dtype);
}

/* The largest score of a row, the first of equal ones; a single one answers by its sign. */
static long fake_answer(const dl_tensor *output, long row, long d, long inner) {
    long at = row / inner * d * inner + row % inner, best = 0;
    if (d == 1) return fake_number(output, at) > 0;
    for (long c = 1; c < d; c++)
        if (fake_number(output, at + c * inner) > fake_number(output, at + best * inner)) best = c;
    return best;
}

static void fake_do_tally(dl_control *c, const dl_tally *t) {
    double loss = fake_number(t->loss, 0), correct = 0;
    long rows = 0;
    if (t->output) {
        rows = t->target->numel;
        long d = t->output->numel / rows, inner = d > 1 ? rows / t->output->shape[0] : 1;
        for (long r = 0; r < rows; r++)
            correct += (double)fake_answer(t->output, r, d, inner) == fake_number(t->target, r);
    }
    c->from += t->advance;
    c->last_loss = loss, c->last_correct = correct, c->last_counted = (double)rows;
    c->seed = (float)(c->scale / t->micros);
    if (t->first) c->loss = c->weight = c->correct = c->counted = 0;
    if (c->halt != 0) return;
    c->loss += loss * t->weight, c->weight += t->weight, c->correct += correct, c->counted += (double)rows;
    if (!t->lenient && !isfinite(loss)) c->halt = DL_END_LOSS, c->bad = loss;
}

static void fake_do_judge(dl_control *c, const dl_judge *j) {
    const dl_slip *slip = &j->ring->slip[c->index % DL_RING];
    dl_report *r = &j->ring->report[c->index % DL_RING];
    double sum = 0, factor = 1;
    for (int i = 0; i < j->n; i++)
        for (long k = 0; k < j->grad[i]->numel; k++) sum += pow(fake_number(j->grad[i], k), 2);
    int end = c->halt == 0 ? DL_END_DONE : c->told == 0 ? (int)c->halt : DL_END_VOID;
    if (end == DL_END_DONE && !isfinite(sum) && !j->lenient) c->halt = end = DL_END_NORM;
    if (c->halt != 0) c->told = 1;
    if (j->clip_norm > 0 && j->clip_norm / (sqrt(sum) + 1e-6) < 1) factor = j->clip_norm / (sqrt(sum) + 1e-6);
    for (int i = 0; i < j->n && end == DL_END_DONE && factor != 1; i++)
        for (long k = 0; k < j->grad[i]->numel; k++) ((float *)dl_ptr(j->grad[i]))[k] *= (float)factor;
    for (int g = 0; g < j->groups; g++) {
        c->group[g].rate = slip->rate[g];
        c->group[g].halt = end != DL_END_DONE, c->group[g].step += end == DL_END_DONE;
    }
    *r = (dl_report){.loss = end == DL_END_LOSS ? c->bad : c->loss / j->micros,
                     .acc = c->counted > 0 ? c->correct / c->counted : NAN,
                     .norm = sqrt(sum),
                     .scale = c->scale,
                     .time = r->time + 1000,
                     .end = end,
                     .number = r->number};
    assert_true(fake.nreport < DL_RING); /* or the host would be told of a step too late */
    fake.report[fake.nreport] = r, fake.number[fake.nreport++] = ++c->index;
    fake_arrive(fake.late);
    c->rng += (uint64_t)j->draws;
}

static void fake_do_deal(const dl_control *c, const dl_feed *f, void *to, char *y, long n) {
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

static void fake_do_average(const dl_control *c, const fake_item *it) {
    for (long i = 0; i < it->n && c->group[0].halt == 0; i++) {
        float *a = dl_ptr(it->list[i]), *p = dl_ptr(it->more[i]);
        for (long k = 0; k < it->list[i]->numel; k++) {
            volatile float old = a[k] * (float)it->keep, now = p[k] * (float)(1 - it->keep);
            a[k] = old + now;
        }
    }
}

/* A graph keeps the seed that it was captured with; calls of dropout count from where the device stands. */
static dl_status fake_run_again(const fake_item *it, dl_call *c) {
    unsigned long seed = dl_seed_get(), at[DL_NSTREAM];
    for (int i = 0; i < DL_NSTREAM; i++) at[i] = dl_rng_position((dl_stream)i);
    dl_seed(it->seed);
    if (c->op->flags & DL_F_DROPOUT && it->control) c->rng += it->control->rng;
    dl_status st = c->op->kernel[DL_BACKEND_CPU]->run(c);
    dl_seed(seed);
    for (int i = 0; i < DL_NSTREAM; i++) dl_rng_seek((dl_stream)i, at[i]);
    return st;
}

static dl_status fake_do(fake_item *it, bool again) {
    dl_call c = it->call;
    switch (it->kind) {
    case FAKE_ROW: return again ? fake_run_again(it, &c) : c.op->kernel[DL_BACKEND_CPU]->run(&c);
    case FAKE_COPY: memcpy(it->dst, it->src ? it->src : it->carried, it->bytes); break;
    case FAKE_TALLY: fake_do_tally(it->control, &it->tally); break;
    case FAKE_JUDGE: fake_do_judge(it->control, &it->judge); break;
    case FAKE_AVERAGE: fake_do_average(it->control, it); break;
    case FAKE_DEAL: fake_do_deal(it->control, &it->feed, it->x, it->y, it->n); break;
    }
    return DL_OK;
}

/* ---- graphs */

static void fake_let_go(void *storage) { dl_storage_unref(storage); }

/* The memory of the tensor as it is now, by address: a graph knows no tensors. */
static dl_tensor *fake_hold(const dl_tensor *t) {
    if (!t) return NULL;
    dl_tensor *v =
        must(dl_tensor_wrap(t->ndim, t->shape, (dl_dtype)t->dtype, dl_ptr(t), fake_let_go, dl_storage_ref(t->st)));
    memcpy(v->stride, t->stride, sizeof v->stride);
    v->st->device = t->st->device, v->weak = t->weak;
    return v;
}

static dl_tensor **fake_hold_list(dl_tensor *const *t, long n) {
    dl_tensor **list = calloc((size_t)n + 1, sizeof *list);
    assert_non_null(list);
    for (long i = 0; i < n; i++) list[i] = fake_hold(t[i]);
    return list;
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
    dl_unref((dl_tensor *)it->tally.loss);
    dl_unref((dl_tensor *)it->tally.output);
    dl_unref((dl_tensor *)it->tally.target);
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
    if (!fake.capturing) return c->op->kernel[DL_BACKEND_CPU]->run(c);
    fake_item *it = fake_new(FAKE_ROW);
    it->call = *c, it->seed = dl_seed_get();
    it->call.in = it->in, it->call.out = it->out, it->call.attr = it->attr;
    for (int i = 0; i < c->nin; i++) it->in[i] = fake_hold(c->in[i]);
    for (int i = 0; i < c->nout; i++) it->out[i] = fake_hold(c->out[i]);
    if (c->op->nattr) memcpy(it->attr, c->attr, (size_t)c->op->nattr * sizeof *it->attr);
    if (c->op->flags & DL_F_DROPOUT && fake.control) it->control = (dl_control *)fake.control, it->call.rng -= fake.rng;
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

static dl_status fake_tally(int index, dl_control *c, const dl_tally *t) {
    (void)index;
    fake_item *it = fake_new(FAKE_TALLY);
    it->control = c, it->tally = *t;
    it->tally.loss = fake_hold(t->loss), it->tally.output = fake_hold(t->output);
    it->tally.target = fake_hold(t->target);
    return fake_issue(it);
}

static dl_status fake_judge(int index, dl_control *c, const dl_judge *j) {
    (void)index;
    fake_item *it = fake_new(FAKE_JUDGE);
    it->control = c, it->judge = *j, it->n = j->n;
    it->judge.grad = it->list = fake_hold_list(j->grad, j->n);
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

static dl_status fake_deal(int index, const dl_control *c, const dl_feed *f, void *x, void *y, long n) {
    (void)index;
    fake_item *it = fake_new(FAKE_DEAL);
    it->control = (dl_control *)c, it->feed = *f, it->x = x, it->y = y, it->n = n;
    if (f->transforms) it->transforms = *f->transforms, it->feed.transforms = &it->transforms;
    return fake_issue(it);
}

static dl_status fake_stage(int index, void *dst, const void *src, size_t bytes) {
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
static void fake_sync_every(bool on) { (void)on; }
static void fake_govern(int index, const dl_control *c, uint64_t rng) { (void)index, fake.control = c, fake.rng = rng; }

/* Device FAKE of this process. */
static void fake_register(void) {
    static dl_kernel kernel[DL_NOP];
    static const dl_kernel *table[DL_NOP];
    static const dl_backend backend = {.name = "fake",
                                       .count = 1,
                                       .kernel = table,
                                       .alloc = fake_alloc,
                                       .release = fake_release,
                                       .copy = fake_copy,
                                       .synchronize = fake_synchronize,
                                       .describe = fake_describe,
                                       .memory = fake_memory,
                                       .stream = fake_stream,
                                       .empty_cache = fake_empty_cache,
                                       .sync_every = fake_sync_every,
                                       .pinned = fake_pinned,
                                       .unpin = fake_unpin,
                                       .idle = fake_idle,
                                       .govern = fake_govern,
                                       .tally = fake_tally,
                                       .judge = fake_judge,
                                       .average = fake_average,
                                       .deal = fake_deal,
                                       .stage = fake_stage,
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
    ok(dl_backend_register(&backend));
}

#endif
