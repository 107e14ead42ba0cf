/* Steps on an accelerator. The host issues them and goes on; loss, accuracy and norm of a step are summed up on the
 * device, which reports them through pinned memory when the step is done, and by itself halts where training diverges.
 * The host reads reports at most DL_LATE steps late. */
#include "train/ahead.h"

#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/interrupt.h"
#include "core/mode.h"
#include "core/rng.h"
#include "data/data.h"
#include "data/draw.h"
#include "data/transform.h"

/* ---------------------------------------------------------------- life */

/* A view into the control: n numbers at a byte offset. */
static dl_tensor *view(dl_ahead *a, size_t offset, dl_dtype dtype, int ndim, long n) {
    long shape[1] = {n}, stride[1] = {1};
    return dl_view_new(a->block->st, dtype, ndim, shape, stride, (int64_t)(offset / (size_t)dl_dtype_size(dtype)));
}

static dl_tensor *new_block(int device) {
    long bytes = sizeof(dl_control);
    return dl_tensor_zeros(1, &bytes, DL_U8, device);
}

static dl_status make(dl_ahead *a, dl_trainer *t) {
    a->groups = 1 + t->opt->ngroup;
    if (a->groups > DL_PACE_GROUPS)
        return dl_fail(DL_ERR_UNSUPPORTED, "an optimizer has at most %d groups on %s, not %d", DL_PACE_GROUPS - 1,
                       dl_device_name(t->device), t->opt->ngroup);
    a->block = new_block(t->device), a->eval_block = a->block ? new_block(t->device) : NULL;
    if (!a->eval_block || !(a->ring = a->b->pinned(a->index, sizeof *a->ring))) return dl_failed();
    a->control = dl_ptr(a->block), a->eval_control = dl_ptr(a->eval_block);
    for (int g = 0; g < a->groups; g++) {
        size_t at = offsetof(dl_control, group) + sizeof(dl_rates) * (size_t)g;
        a->pace.rates[g] = view(a, at, DL_F64, 1, 2);
        a->pace.step[g] = view(a, at + offsetof(dl_rates, step), DL_F64, 0, 1);
        if (!a->pace.rates[g] || !a->pace.step[g]) return dl_failed();
    }
    return dl_ahead_reset(t);
}

dl_status dl_ahead_new(dl_trainer *t) {
    if (!t->device) return DL_OK;
    const dl_backend *b = dl_backend_get();
    dl_ahead *a = calloc(1, sizeof *a);
    if (!a) return dl_fail(DL_ERR_MEMORY, "no memory for a trainer");
    t->ahead = a;
    a->b = b, a->index = t->device - 1, a->order_epoch = -1;
    return make(a, t);
}

void dl_ahead_free(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    if (!a) return;
    dl_capture_free(t);
    if (a->ring) {
        dl_error e; /* what was recorded before counts, not what ends late */
        dl_error_take(&e);
        a->b->synchronize(a->index);
        a->b->unpin(a->index, a->ring);
        dl_error_put(&e);
    }
    for (int g = 0; g < DL_PACE_GROUPS; g++) {
        dl_unref(a->pace.rates[g]);
        dl_unref(a->pace.step[g]);
    }
    dl_unref(a->block);
    dl_unref(a->eval_block);
    dl_unref(a->order);
    for (int i = 0; i < 2; i++) dl_resident_drop(&a->data[i]);
    dl_unref(a->sent_x);
    dl_unref(a->sent_y);
    free(a);
    t->ahead = NULL;
}

/* Bytes of the control, after all that has been issued. */
static dl_status poke(dl_trainer *t, void *field, const void *value, size_t bytes) {
    return dl_device_copy(field, t->device, value, 0, bytes);
}

/* Steps that a group's parameters have made; those that have missed some are told apart by the optimizer. */
static long steps_of(const dl_optimizer *o, int group) {
    long most = 0;
    for (long i = 0; i < o->n; i++)
        if (o->param[i].group == group && o->param[i].steps > most) most = o->param[i].steps;
    return most;
}

dl_status dl_ahead_reset(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    if (!a) return DL_OK;
    dl_control c = {.scale = 1, .index = a->launched};
    a->scaled = dl_precision_get() == DL_PRECISION_F16;
    if (a->scaled) c.scale = t->loss_scale > 0 ? t->loss_scale : DL_SCALE_FIRST, c.good = t->loss_scale_good;
    for (int g = 0; g < a->groups; g++) c.group[g].step = (double)(a->pace.steps[g] = steps_of(t->opt, g - 1));
    a->from = a->at_epoch = 0, a->order_epoch = -1;
    c.rng = a->rng = dl_rng_position(DL_STREAM_DROPOUT);
    return poke(t, a->control, &c, sizeof c);
}

/* ---------------------------------------------------------------- where the device stands */

long dl_ahead_next(const dl_loader *l, long *epoch, long *at) {
    dl_loader_view v;
    dl_loader_look(l, &v);
    dl_loader_position(l, epoch, at);
    if (*at == v.batches) ++*epoch, *at = 0;
    long from = *at * v.batch;
    return v.n - from < v.batch ? v.n - from : v.batch;
}

/* The order of an epoch, on the device. */
static dl_status put_order(dl_trainer *t, const dl_loader_view *v, long epoch) {
    dl_ahead *a = t->ahead;
    if (!v->shuffle || a->order_epoch == epoch) return DL_OK;
    long *order = malloc((size_t)v->n * (sizeof(long) + sizeof(int)));
    if (!order) return dl_fail(DL_ERR_MEMORY, "no memory for the order of %ld samples", v->n);
    int *narrow = (int *)(order + v->n);
    dl_draw r = dl_draw_begin(v->seed, DL_FOR_ORDER, (uint64_t)epoch, 0);
    dl_draw_permutation(&r, v->n, order);
    for (long i = 0; i < v->n; i++) narrow[i] = (int)order[i];
    dl_status st = DL_OK;
    if (!a->order && !(a->order = dl_tensor_empty(1, &v->n, DL_I32, t->device))) st = dl_failed();
    if (st == DL_OK) st = dl_device_copy(dl_ptr(a->order), t->device, narrow, 0, (size_t)v->n * sizeof *narrow);
    if (st == DL_OK) a->order_epoch = epoch;
    free(order);
    return st;
}

static dl_status put_position(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    dl_loader_view v;
    long at, where[2];
    dl_ahead_next(t->loader, &where[0], &at);
    dl_loader_look(t->loader, &v);
    DL_TRY(put_order(t, &v, where[0]));
    where[1] = at * v.batch;
    if (a->at_epoch == where[0] && a->from == where[1]) return DL_OK;
    a->at_epoch = where[0], a->from = where[1];
    return poke(t, &a->control->epoch, where, sizeof where);
}

/* Does a split live on the device? It is put there when it fits. */
static dl_status settle(dl_trainer *t, int split) {
    dl_ahead *a = t->ahead;
    if (!a->asked[split]) DL_TRY(dl_data_resident(t->data, split, t->device, &a->data[split]));
    a->asked[split] = true;
    return DL_OK;
}

/* Makes the device stand where the next step begins: position, order of the epoch, dropout calls, step numbers. */
static dl_status align(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    DL_TRY(settle(t, DL_TRAIN));
    if (a->data[DL_TRAIN].x) DL_TRY(put_position(t));
    bool scaled = dl_precision_get() == DL_PRECISION_F16;
    if (scaled != a->scaled) {
        double fresh[2] = {scaled ? DL_SCALE_FIRST : 1, 0};
        DL_TRY(poke(t, &a->control->scale, fresh, sizeof fresh));
        a->scaled = scaled;
    }
    uint64_t rng = dl_rng_position(DL_STREAM_DROPOUT);
    if (a->rng != rng) DL_TRY(poke(t, &a->control->rng, &rng, sizeof rng));
    a->rng = rng;
    for (int g = 0; g < a->groups; g++) {
        long steps = steps_of(t->opt, g - 1);
        double number = (double)steps;
        if (a->pace.steps[g] == steps) continue;
        DL_TRY(poke(t, &a->control->group[g].step, &number, sizeof number));
        a->pace.steps[g] = steps;
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- batches */

static dl_tensor *empty_like_samples(const dl_dataset *d, long n, int device) {
    long shape[DL_MAX_DIM] = {n};
    memcpy(shape + 1, d->shape, (size_t)d->ndim * sizeof *shape);
    return dl_tensor_empty(d->ndim + 1, shape, dl_dataset_batch_dtype(d), device);
}

static dl_tensor *empty_like_targets(const dl_dataset *d, long n, int device) {
    long shape[DL_MAX_DIM] = {n};
    memcpy(shape + 1, d->target_shape, (size_t)d->target_ndim * sizeof *shape);
    return dl_tensor_empty(d->target_ndim + 1, shape, d->target_dtype, device);
}

/* n samples of a resident split from the control's position on. */
static dl_status deal(dl_trainer *t, const dl_control *c, dl_loader *l, const dl_tensor *order, long n, dl_tensor **x,
                      dl_tensor **y) {
    dl_loader_view v;
    dl_loader_look(l, &v);
    const dl_dataset *d = v.data;
    const dl_resident *r = &t->ahead->data[v.split];
    dl_feed f = {.x = dl_ptr(r->x),
                 .y = dl_ptr(r->y),
                 .lut = r->lut ? dl_ptr(r->lut) : NULL,
                 .order = order ? dl_ptr(order) : NULL,
                 .numel = d->numel,
                 .plane = d->numel / d->channels,
                 .size = dl_dtype_size(d->dtype),
                 .target = (long)dl_data_target_size(d),
                 .c = 1,
                 .h = 1,
                 .w = d->numel,
                 .seed = v.seed,
                 .transforms = v.transforms};
    if (d->ndim == 3) f.c = d->shape[0], f.h = d->shape[1], f.w = d->shape[2];
    *x = empty_like_samples(d, n, t->device);
    *y = *x ? empty_like_targets(d, n, t->device) : NULL;
    dl_status st = *y ? t->ahead->b->deal(t->ahead->index, c, &f, dl_ptr(*x), dl_ptr(*y), n) : dl_failed();
    if (st == DL_OK) return DL_OK;
    dl_unref(*x);
    dl_unref(*y);
    *x = *y = NULL;
    return st;
}

/* A batch made by the host, into *x and *y where they are given, else into fresh tensors. */
static dl_status send(dl_trainer *t, dl_loader *l, dl_tensor **x, dl_tensor **y) {
    dl_ahead *a = t->ahead;
    dl_tensor *hx = NULL, *hy = NULL;
    DL_TRY(dl_loader_next(l, &hx, &hy));
    if (!hx) DL_TRY(dl_loader_next(l, &hx, &hy));
    if (!*x) *x = dl_tensor_empty(hx->ndim, hx->shape, (dl_dtype)hx->dtype, t->device);
    if (*x && !*y) *y = dl_tensor_empty(hy->ndim, hy->shape, (dl_dtype)hy->dtype, t->device);
    dl_status st = *x && *y ? a->b->stage(a->index, dl_ptr(*x), dl_ptr(hx), hx->st->bytes) : dl_failed();
    if (st == DL_OK) st = a->b->stage(a->index, dl_ptr(*y), dl_ptr(hy), hy->st->bytes);
    dl_unref(hx);
    dl_unref(hy);
    return st;
}

dl_status dl_ahead_send(dl_trainer *t, dl_tensor *x, dl_tensor *y) { return send(t, t->loader, &x, &y); }

/* The next batch of the training split, on the device. */
static dl_status fetch(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    long epoch, at, n = dl_ahead_next(t->loader, &epoch, &at);
    dl_tensor *x = NULL, *y = NULL;
    dl_status st;
    dl_trainer_drop_batch(t);
    if (a->data[DL_TRAIN].x) {
        st = deal(t, a->control, t->loader, a->order, n, &x, &y);
        if (st == DL_OK) st = dl_loader_seek(t->loader, epoch, at + 1);
    } else if (a->resend) {
        x = dl_ref(a->sent_x), y = dl_ref(a->sent_y);
        a->resend = false;
        st = dl_loader_seek(t->loader, epoch, at + 1);
    } else {
        st = send(t, t->loader, &x, &y);
        dl_unref(a->sent_x);
        dl_unref(a->sent_y);
        a->sent_x = dl_ref(x), a->sent_y = dl_ref(y);
    }
    t->epoch = epoch;
    if (st == DL_OK) st = dl_trainer_place(t, &x, &y);
    t->x = x, t->y = y;
    return st;
}

/* ---------------------------------------------------------------- issuing */

/* What there is to count: scores of classes and their labels, contiguous on the device. *out NULL: nothing. */
static dl_status to_count(dl_trainer *t, dl_tensor *output, dl_tensor *target, dl_tensor **out) {
    long n = dl_numel(target);
    bool many = output->ndim >= 2 && output->shape[1] > 1;
    bool fits = many ? dl_numel(output) == n * output->shape[1] : dl_numel(output) == n;
    bool labels = (target->dtype == DL_I64 || target->dtype == DL_I32) && dl_is_contiguous(target);
    *out = NULL;
    if (dl_dataset_classes(t->data) < 1 || !n || !fits || !labels || output->st->device != t->device ||
        !dl_dtype_is_float((dl_dtype)output->dtype))
        return DL_OK;
    int mode = dl_grad_mode(0);
    *out = dl_contiguous(output);
    dl_grad_mode(mode);
    return *out ? DL_OK : dl_failed();
}

static dl_status tally(dl_trainer *t, dl_control *c, dl_tensor *loss, dl_tensor *output, dl_tensor *target,
                       dl_tally *how) {
    dl_tensor *scores = NULL, *there = dl_to_device(loss, t->device);
    dl_status st = there ? to_count(t, output, target, &scores) : dl_failed();
    how->loss = there, how->output = scores, how->target = target;
    if (st == DL_OK) st = t->ahead->b->tally(t->ahead->index, c, how);
    dl_unref(there);
    dl_unref(scores);
    return st;
}

static dl_status issue_forward(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    if (t->micro == 0) dl_trainer_begin_step(t);
    DL_TRY(fetch(t));
    if (t->micro == 0) a->step_rng = dl_rng_position(DL_STREAM_DROPOUT);
    a->b->govern(a->index, a->control, a->step_rng);
    dl_status st = dl_trainer_run_net(t);
    a->b->govern(a->index, NULL, 0);
    DL_TRY(st);
    long n = t->x->shape[0];
    dl_tally how = {.weight = 1,
                    .micros = (double)t->micros,
                    .advance = n,
                    .first = t->micro == 0,
                    .lenient = t->allow_nan,
                    .scaled = a->scaled};
    DL_TRY(tally(t, a->control, t->loss_tensor, t->output, t->y, &how));
    a->from += n;
    t->phase = DL_PHASE_FORWARD;
    return DL_OK;
}

static dl_status issue_backward(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    long one[DL_MAX_DIM], stride[DL_MAX_DIM];
    for (int i = 0; i < DL_MAX_DIM; i++) one[i] = stride[i] = 1;
    dl_tensor *seed = NULL;
    if (t->loss_tensor->st->device == t->device) {
        seed = dl_view_new(a->block->st, DL_F32, t->loss_tensor->ndim, one, stride,
                           (int64_t)(offsetof(dl_control, seed) / sizeof(float)));
        if (!seed) return dl_failed();
    }
    dl_status st = dl_backward(t->loss_tensor, seed, 0, 0);
    dl_unref(seed);
    DL_TRY(st);
    t->micro++;
    t->phase = DL_PHASE_BACKWARD;
    return DL_OK;
}

/* The gradients there are, laid out without gaps. */
static dl_status gradients(dl_trainer *t, dl_tensor **grad, int *n) {
    *n = 0;
    for (long i = 0; i < t->nparam; i++) {
        dl_tensor *g = t->param[i]->grad;
        if (!g) continue;
        long span = 1;
        for (int k = 0; k < g->ndim; k++) span += (g->shape[k] - 1) * g->stride[k];
        if (g->numel && (span != g->numel || !dl_strides_are_dense(g->ndim, g->shape, g->stride))) {
            dl_tensor *flat = dl_contiguous(g);
            if (!flat) return dl_failed();
            dl_set_grad(t->param[i], flat);
            dl_unref(flat);
        }
        grad[(*n)++] = t->param[i]->grad;
    }
    return DL_OK;
}

static dl_status issue_judge(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    dl_tensor **grad = malloc((size_t)(t->nparam + 1) * sizeof(dl_tensor *));
    if (!grad) return dl_fail(DL_ERR_MEMORY, "no memory for the list of gradients");
    dl_judge j = {.grad = grad,
                  .groups = a->groups,
                  .clip_norm = t->clip_norm,
                  .clip_value = t->clip_value,
                  .micros = (double)t->micro,
                  .draws = (long)(dl_rng_position(DL_STREAM_DROPOUT) - a->step_rng),
                  .ring = a->ring,
                  .lenient = t->allow_nan,
                  .scaled = a->scaled};
    dl_status st = gradients(t, grad, &j.n);
    if (st == DL_OK) st = a->b->judge(a->index, a->control, &j);
    if (st == DL_OK) a->rng += (uint64_t)j.draws;
    free(grad);
    return st;
}

dl_status dl_ahead_slip(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    dl_slip *s = &a->ring->slip[a->launched % DL_RING];
    long step = t->step + a->launched - a->taken;
    t->next_lr = t->base_lr;
    if (t->schedule) DL_TRY(dl_schedule_lr(t->schedule, t->base_lr, step, t->epoch, &t->next_lr));
    for (int g = 0; g < a->groups; g++) s->rate[g] = dl_optimizer_rate(t->opt, g - 1, t->next_lr);
    return dl_optimizer_set_lr(t->opt, t->next_lr);
}

void dl_ahead_note(dl_trainer *t, double samples) {
    dl_ahead *a = t->ahead;
    dl_mark *m = &a->mark[a->launched++ % DL_RING];
    dl_loader_position(t->loader, &m->epoch, &m->batch);
    m->rng = dl_rng_position(DL_STREAM_DROPOUT);
    m->lr = t->next_lr, m->samples = samples;
    for (int g = 0; g < a->groups; g++) a->pace.steps[g]++;
    t->micro = 0;
    t->phase = DL_PHASE_IDLE;
}

static dl_status issue_update(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    double samples = (double)(t->micro * t->x->shape[0]);
    DL_TRY(dl_ahead_slip(t));
    DL_TRY(issue_judge(t));
    t->opt->pace = &a->pace;
    dl_status st = dl_optimizer_step(t->opt);
    t->opt->pace = NULL;
    if (st == DL_OK && t->ema) st = a->b->average(a->index, a->control, t->ema, t->param, (int)t->nparam, t->ema_decay);
    dl_ahead_note(t, samples); /* the report will come, whatever became of the rest */
    return st;
}

dl_status dl_ahead_issue(dl_trainer *t) {
    t->micro = 0;
    do {
        DL_TRY(issue_forward(t));
        DL_TRY(issue_backward(t));
    } while (t->micro < t->micros);
    return issue_update(t);
}

static dl_status issue_step(dl_trainer *t) {
    bool done = false;
    DL_TRY(dl_record_begin(t));
    t->micro = 0;
    DL_TRY(align(t));
    DL_TRY(dl_capture_step(t, &done));
    return done ? DL_OK : dl_ahead_issue(t);
}

dl_status dl_ahead_step(dl_trainer *t) {
    int held = dl_interrupt_hold(1);
    dl_status st = issue_step(t);
    dl_interrupt_hold(held);
    return st;
}

/* ---------------------------------------------------------------- reports */

/* Waits until the report of step `number` is there. */
static dl_status await(dl_ahead *a, const dl_report *r, long number) {
    for (long spins = 0; __atomic_load_n(&r->number, __ATOMIC_ACQUIRE) != number; spins++) {
        if (spins < 4000) {
            sched_yield();
            continue;
        }
        bool idle = false;
        DL_TRY(a->b->idle(a->index, &idle));
        if (idle && __atomic_load_n(&r->number, __ATOMIC_ACQUIRE) != number)
            return dl_fail(DL_ERR_INTERNAL, "the device has ended step %ld without a report", number);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return DL_OK;
}

/* Steps that changed nothing, in the optimizer's counts. A state that no step has filled is made anew. */
static void uncount(dl_trainer *t, long steps) {
    dl_ahead *a = t->ahead;
    t->opt->steps -= steps;
    for (int g = 0; g < a->groups; g++) a->pace.steps[g] -= steps;
    for (long i = 0; i < t->opt->n; i++) {
        dl_opt_param *p = &t->opt->param[i];
        if (!p->p->grad) continue;
        p->steps -= steps;
        for (int s = 0; s < DL_OPTIM_STATES && !p->steps && a->launched == a->taken; s++) {
            dl_unref(p->state[s]);
            p->state[s] = NULL;
        }
    }
}

/* The step just taken diverged: those issued after it did nothing, and are forgotten. */
static dl_status halted(dl_trainer *t, const dl_report *r, const dl_mark *m) {
    dl_ahead *a = t->ahead;
    bool loss = r->end == DL_END_LOSS;
    t->last_loss = r->loss;
    if (!loss) t->grad_norm = r->norm;
    while (a->taken < a->launched) {
        DL_TRY(await(a, &a->ring->report[a->taken % DL_RING], a->taken + 1));
        a->taken++;
        uncount(t, 1);
    }
    uncount(t, 1);
    DL_TRY(dl_loader_seek(t->loader, m->epoch, m->batch));
    dl_rng_seek(DL_STREAM_DROPOUT, m->rng);
    double none[2] = {0, 0};
    DL_TRY(poke(t, &a->control->halt, none, sizeof none));
    return loss ? dl_trainer_check_finite(t, r->loss, "the loss")
                : dl_trainer_check_finite(t, r->norm, "the norm of the gradient");
}

dl_status dl_ahead_take(dl_trainer *t, bool wait, bool *got) {
    dl_ahead *a = t->ahead;
    dl_report *r = &a->ring->report[a->taken % DL_RING];
    const dl_mark *m = &a->mark[a->taken % DL_RING];
    *got = false;
    if (a->taken == a->launched) return DL_OK;
    if (wait)
        DL_TRY(await(a, r, a->taken + 1));
    else if (__atomic_load_n(&r->number, __ATOMIC_ACQUIRE) != a->taken + 1)
        return DL_OK;
    *got = true;
    a->taken++;
    if (r->end == DL_END_LOSS || r->end == DL_END_NORM) return halted(t, r, m);
    if (r->end == DL_END_SKIPPED) uncount(t, 1);
    t->step++;
    t->last_loss = r->loss, t->last_acc = r->acc, t->grad_norm = r->norm, t->lr = m->lr;
    t->speed = a->time && r->time > a->time ? m->samples / (1e-9 * (double)(r->time - a->time)) : 0;
    a->time = r->time;
    t->samples = m->samples;
    dl_record_step(t);
    return DL_OK;
}

dl_status dl_ahead_drain(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    bool got = true;
    while (a && got) DL_TRY(dl_ahead_take(t, true, &got));
    if (a) a->time = 0;
    return DL_OK;
}

/* ---------------------------------------------------------------- the parts of a step, one by one */

static dl_status read_control(dl_trainer *t, const dl_control *from, dl_control *to) {
    return dl_device_copy(to, 0, from, t->device, sizeof *to);
}

dl_status dl_ahead_forward(dl_trainer *t) {
    dl_ahead *a = t->ahead;
    dl_control c;
    DL_TRY(dl_ahead_drain(t));
    if (t->micro == 0) DL_TRY(align(t));
    DL_TRY(issue_forward(t));
    DL_TRY(read_control(t, a->control, &c));
    t->last_loss = c.last_loss;
    t->last_acc = c.last_counted > 0 ? c.last_correct / c.last_counted : NAN;
    if (c.halt == 0) return DL_OK;
    double none[2] = {0, 0};
    DL_TRY(poke(t, &a->control->halt, none, sizeof none));
    return dl_trainer_check_finite(t, t->last_loss, "the loss");
}

dl_status dl_ahead_backward(dl_trainer *t) {
    DL_TRY(issue_backward(t));
    return t->ahead->b->synchronize(t->ahead->index);
}

dl_status dl_ahead_update(dl_trainer *t) {
    DL_TRY(issue_update(t));
    return dl_ahead_drain(t);
}

/* ---------------------------------------------------------------- evaluation */

/* The next batch of a split that lives on the device, or of one that travels. *x NULL: the end. */
static dl_status eval_fetch(dl_trainer *t, dl_loader *l, bool resident, dl_tensor **x, dl_tensor **y) {
    long epoch, at;
    dl_loader_position(l, &epoch, &at);
    *x = *y = NULL;
    if (at == dl_loader_len(l)) return DL_OK;
    if (!resident) {
        dl_status st = send(t, l, x, y);
        return st == DL_OK ? dl_trainer_place(t, x, y) : st;
    }
    long n = dl_ahead_next(l, &epoch, &at);
    DL_TRY(deal(t, t->ahead->eval_control, l, NULL, n, x, y));
    DL_TRY(dl_loader_seek(l, epoch, at + 1));
    return dl_trainer_place(t, x, y);
}

static dl_status eval_batch(dl_trainer *t, dl_tensor *x, dl_tensor *y, bool first) {
    dl_tensor *out = dl_module_forward(t->model, x), *loss = NULL;
    dl_status st = out ? dl_trainer_loss_of(t, out, y, &loss) : dl_failed();
    long n = x->shape[0];
    dl_tally how = {.weight = (double)n, .micros = 1, .advance = n, .first = first, .lenient = true};
    if (st == DL_OK) st = tally(t, t->ahead->eval_control, loss, out, y, &how);
    dl_unref(loss);
    dl_unref(out);
    return st;
}

dl_status dl_ahead_eval(dl_trainer *t, dl_loader *l, dl_control *sums) {
    dl_ahead *a = t->ahead;
    int split = dl_loader_split(l) == DL_TEST;
    long where[2] = {0, 0};
    DL_TRY(settle(t, split));
    DL_TRY(poke(t, &a->eval_control->epoch, where, sizeof where));
    for (bool first = true;; first = false) {
        dl_tensor *x = NULL, *y = NULL;
        if (dl_interrupt_get()) return dl_fail(DL_ERR_INTERRUPT, "the evaluation was interrupted");
        dl_status st = eval_fetch(t, l, a->data[split].x != NULL, &x, &y);
        bool end = st == DL_OK && !x;
        if (st == DL_OK && x) st = eval_batch(t, x, y, first);
        dl_unref(x);
        dl_unref(y);
        DL_TRY(st);
        if (end) break;
    }
    return read_control(t, a->eval_control, sums);
}
