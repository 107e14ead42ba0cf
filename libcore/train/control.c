/* The control block of a trainer: making it, and setting it to the beginning of the next step. */
#include "train/trainer.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/mode.h"
#include "core/random/rng.h"
#include "core/scope.h"

/* ---------------------------------------------------------------- life */

static dl_tensor *new_block(const dl_trainer *t, int groups) {
    long bytes = (long)(sizeof(dl_control) + sizeof(dl_rates) * (size_t)groups);
    return dl_tensor_zeros(1, &bytes, DL_U8, t->device);
}

/* A view into the control: n numbers at a byte offset. */
static dl_tensor *view(dl_trainer *t, size_t offset, int ndim, long n) {
    long shape[1] = {n}, stride[1] = {1};
    return dl_view_new(t->block->st, DL_F64, ndim, shape, stride, (int64_t)(offset / sizeof(double)));
}

static dl_status make_views(dl_trainer *t) {
    t->rates = calloc((size_t)t->groups, sizeof *t->rates);
    if (!t->rates) return dl_fail(DL_ERR_MEMORY, "no memory for a trainer");
    for (int g = 0; g < t->groups; g++) {
        size_t at = sizeof(dl_control) + sizeof(dl_rates) * (size_t)g;
        t->rates[g].rates = view(t, at, 1, 2);
        t->rates[g].step = view(t, at + offsetof(dl_rates, step), 0, 1);
        if (!t->rates[g].rates || !t->rates[g].step) return dl_failed();
    }
    return DL_OK;
}

dl_status dl_control_new(dl_trainer *t) {
    t->backend = dl_backend_of(t->device, &t->index);
    t->groups = 1 + t->opt->ngroup, t->order_epoch = -1;
    t->block = new_block(t, t->groups), t->eval_block = t->block ? new_block(t, 0) : NULL;
    if (!t->eval_block) return dl_failed();
    t->control = dl_ptr(t->block), t->eval_control = dl_ptr(t->eval_block);
    t->seen = t->backend->async_copy ? NULL : t->control;
    t->report = t->backend->pinned(t->index, DL_REPORTS * (sizeof *t->report + sizeof(double) * (size_t)t->groups));
    if (!t->report) return dl_failed();
    t->rate = (double *)(t->report + DL_REPORTS);
    DL_TRY(make_views(t));
    return dl_control_reset(t);
}

void dl_control_free(dl_trainer *t) {
    dl_replay_free(t);
    if (t->report) {
        DL_SCOPED_ERROR;
        t->backend->synchronize(t->index);
        t->backend->unpin(t->index, t->report);
    }
    for (int g = 0; t->rates && g < t->groups; g++) {
        dl_unref(t->rates[g].rates);
        dl_unref(t->rates[g].step);
    }
    free(t->rates);
    dl_unref(t->block);
    dl_unref(t->eval_block);
    dl_unref(t->order);
    for (int i = 0; i < DL_SPLITS; i++) dl_resident_drop(&t->resident[i]);
    dl_batch_drop(&t->sent);
}

/* ---------------------------------------------------------------- reading and writing */

dl_status dl_control_write(dl_trainer *t, void *field, const void *value, size_t bytes) {
    return dl_device_copy(field, t->device, value, 0, bytes);
}

dl_status dl_control_read(dl_trainer *t, const dl_control *from, dl_control *to) {
    return dl_device_copy(to, 0, from, t->device, sizeof *to);
}

dl_status dl_control_resume(dl_trainer *t) {
    double none[2] = {0, 0};
    return dl_control_write(t, &t->control->halt, none, sizeof none);
}

dl_status dl_control_scale(dl_trainer *t, double state[2]) {
    if (t->scaled) {
        dl_control c;
        DL_TRY(dl_control_read(t, t->control, &c));
        t->loss_scale = c.scale, t->loss_scale_good = c.good;
    }
    state[0] = t->loss_scale, state[1] = t->loss_scale_good;
    return DL_OK;
}

/* ---------------------------------------------------------------- where it stands */

/* The most steps that a parameter of a group has made; those that have missed some are given theirs by the optimizer.
 */
static long steps_of(const dl_optimizer *o, int group) {
    long most = 0;
    for (long i = 0; i < o->n; i++)
        if (o->param[i].group == group && o->param[i].steps > most) most = o->param[i].steps;
    return most;
}

/* Scale of the loss and good steps to begin with, or to continue with. */
static void first_scale(dl_trainer *t, double state[2]) {
    t->scaled = dl_precision_get() == DL_PRECISION_F16;
    state[0] = 1, state[1] = 0;
    if (t->scaled) state[0] = t->loss_scale > 0 ? t->loss_scale : DL_SCALE_FIRST, state[1] = t->loss_scale_good;
}

dl_status dl_control_reset(dl_trainer *t) {
    size_t bytes = t->block->st->bytes;
    dl_control *c = calloc(1, bytes);
    double scale[2];
    if (!c) return dl_fail(DL_ERR_MEMORY, "no memory for a trainer");
    first_scale(t, scale);
    c->scale = scale[0], c->good = scale[1], c->index = t->issued;
    c->group = (dl_rates *)(c + 1);
    for (int g = 0; g < t->groups; g++) c->group[g].step = (double)(t->rates[g].steps = steps_of(t->opt, g - 1));
    c->group = (dl_rates *)(t->control + 1);
    t->control_from = t->control_epoch = 0, t->order_epoch = -1;
    t->broke = 0;
    c->rng = t->control_rng = dl_rng_here();
    dl_status st = dl_control_write(t, t->control, c, bytes);
    free(c);
    return st;
}

dl_status dl_control_align_rng(dl_trainer *t) {
    dl_rng_at rng = dl_rng_here();
    if (memcmp(&t->control_rng, &rng, sizeof rng)) DL_TRY(dl_control_write(t, &t->control->rng, &rng, sizeof rng));
    t->control_rng = rng;
    return DL_OK;
}

dl_status dl_control_align(dl_trainer *t) {
    DL_TRY(dl_batch_align(t));
    if (t->scaled != (dl_precision_get() == DL_PRECISION_F16)) {
        double scale[2];
        DL_TRY(dl_control_scale(t, scale));
        first_scale(t, scale);
        DL_TRY(dl_control_write(t, &t->control->scale, scale, sizeof scale));
    }
    DL_TRY(dl_control_align_rng(t));
    for (int g = 0; g < t->groups; g++) {
        long steps = steps_of(t->opt, g - 1);
        double number = (double)steps;
        if (t->rates[g].steps == steps) continue;
        DL_TRY(dl_control_write(t, &((dl_rates *)(t->control + 1))[g].step, &number, sizeof number));
        t->rates[g].steps = steps;
    }
    return DL_OK;
}
