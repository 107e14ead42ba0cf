/* A training step: forward, backward and update, issued on the trainer's device. */
#include "train/trainer.h"

#include <math.h>
#include <stddef.h>

#include "autograd/nonfinite.h"
#include "core/mode.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"
#include "dlcore/view.h"

/* ---------------------------------------------------------------- the loss */

bool dl_loss_takes_labels(const dl_op *op) { return op->nondiff_in & 2; }
double dl_loss_threshold(const dl_op *op) { return op && op->flags & DL_F_PROBABILITY ? 0.5 : 0; }

/* Targets for losses that compare element by element: the output's dtype, and its shape where only sizes of 1 differ,
 * so that [N,1] against [N] does not broadcast to [N,N]. */
static dl_tensor *fit_target(dl_tensor *output, dl_tensor *target) {
    DL_OWNED dl_tensor *cast =
        dl_dtype_is_float(dl_dtype_of(target)) ? dl_ref(target) : dl_to_dtype(target, dl_dtype_of(output));
    if (!cast || dl_shape_eq(cast, output) || dl_numel(cast) != dl_numel(output)) return dl_ref(cast);
    return dl_reshape(cast, dl_shape(output), dl_ndim(output));
}

/* Scores [n, ..., classes] as [n..., classes]; others as they are. A new reference. */
static dl_tensor *rows_of(const dl_trainer *t, dl_tensor *output) {
    long shape[2] = {-1, output->shape[output->ndim - 1]};
    return t->classes_last ? dl_reshape(output, shape, 2) : dl_ref(output);
}

/* The loss by an op of the library. */
static dl_tensor *loss_by_op(dl_trainer *t, dl_tensor *output, dl_tensor *target) {
    const long all = -1;
    dl_aval attr[DL_MAX_ATTR];
    dl_attr_defaults(t->loss_op, attr);
    DL_OWNED dl_tensor *scores = rows_of(t, output), *fit = NULL;
    if (!scores) return NULL;
    fit = t->classes_last                    ? dl_reshape(target, &all, 1)
          : dl_loss_takes_labels(t->loss_op) ? dl_ref(target)
                                             : fit_target(output, target);
    dl_tensor *in[] = {scores, fit};
    return fit ? dl_invoke1(t->loss_op, in, 2, attr) : NULL;
}

/* The loss that a function of the caller computes, which may run for ever. */
static dl_tensor *call_loss(dl_trainer *t, const dl_pack *result, const dl_batch *b) {
    DL_SCOPED_INTERRUPT_HOLD(0);
    const char *names[DL_NET_INPUTS];
    for (int i = 0; i < t->form.targets; i++) names[i] = t->form.names[t->form.inputs + i];
    dl_pack *target = dl_pack_named(b->y, t->form.targets, names);
    dl_tensor *loss = target ? t->loss_fn(t->loss_ctx, result, target) : NULL;
    dl_pack_unref(target);
    return loss;
}

dl_status dl_trainer_loss_of(dl_trainer *t, const dl_pack *result, const dl_batch *b, dl_tensor **loss) {
    dl_tensor *target = b->y[0];
    if (t->loss_fn) {
        *loss = call_loss(t, result, b);
        if (!*loss) return dl_failed();
    } else {
        dl_tensor *output = dl_pack_single(result, "what the net gives to the loss",
                                           "give the trainer a loss function of your own: loss=fn (out, y) { ... }");
        if (!output) return dl_failed();
        *loss = loss_by_op(t, output, target);
        if (!*loss) return dl_failed();
    }
    if (dl_numel(*loss) == 1) return DL_OK;
    dl_status st = dl_fail_hint(DL_ERR_SHAPE, "take its mean()", "the loss must be one number, not of shape %s",
                                dl_shape_text(dl_ndim(*loss), dl_shape(*loss)));
    dl_unref(*loss);
    *loss = NULL;
    return st;
}

/* ---------------------------------------------------------------- forward */

dl_pack *dl_step_run_net(dl_trainer *t, const dl_batch *b) {
    dl_tensor *x[DL_NET_INPUTS] = {NULL};
    for (int i = 0; i < t->form.inputs; i++) x[t->place[i]] = b->x[i];
    dl_pack *in = dl_pack_new(x, t->places, NULL, NULL), *out = in ? dl_module_call(t->model, in) : NULL;
    dl_pack_unref(in);
    return out;
}

/* What a function of the caller makes of an output is known to it alone: a number a class is taken for scores. */
static bool may_be_scores(const dl_trainer *t, const dl_tensor *output) {
    return t->loss_op || t->classes_last ||
           (output->ndim >= 2 && output->shape[1] == dl_dataset_classes(t->data) && output->shape[1] > 1);
}

/* Scores of classes to compare with their labels, contiguous on the trainer's device; the largest of a row, or one
 * above 0, is the answer. *out NULL: there are none. */
static dl_status scores_of(dl_trainer *t, dl_tensor *output, dl_tensor *target, dl_tensor **out) {
    DL_OWNED dl_tensor *rows = NULL;
    long n = dl_numel(target);
    *out = NULL;
    if (!output || !may_be_scores(t, output)) return DL_OK;
    if (t->classes_last) {
        DL_SCOPED_GRAD_MODE(0);
        if (!(rows = rows_of(t, output))) return dl_failed();
        output = rows;
    }
    bool many = output->ndim >= 2 && output->shape[1] > 1;
    bool fits = many ? dl_numel(output) == n * output->shape[1] : dl_numel(output) == n;
    bool labels = (target->dtype == DL_I64 || target->dtype == DL_I32) && dl_is_contiguous(target);
    if (!t->classes || t->form.targets > 1 || !n || !fits || !labels || output->st->device != t->device ||
        !dl_dtype_is_float((dl_dtype)output->dtype))
        return DL_OK;
    DL_SCOPED_GRAD_MODE(0);
    const double limit = many ? 0 : dl_loss_threshold(t->loss_op);
    if (limit == 0) {
        *out = dl_contiguous(output);
    } else {
        DL_OWNED dl_tensor *least = dl_full(&(long){0}, 0, limit, (dl_dtype)output->dtype, output->st->device);
        *out = least ? dl_sub(output, least) : NULL;
    }
    return *out ? DL_OK : dl_failed();
}

dl_status dl_step_accumulate(dl_trainer *t, dl_control *c, dl_tensor *loss, dl_tensor *output, dl_tensor *target,
                             const dl_batch_rule *rule) {
    DL_OWNED dl_tensor *scores = NULL, *there = dl_to_device(loss, t->device);
    DL_TRY(there ? scores_of(t, output, target, &scores) : dl_failed());
    dl_accumulate a = {.loss = there, .output = scores, .target = target, .rule = *rule};
    return t->backend->accumulate(t->index, c, &a);
}

/* Reads the figures of the last batch. Fails when its loss has halted the training. */
static dl_status see_batch(dl_trainer *t, const dl_control *c) {
    t->last_loss = c->last_loss;
    t->last_acc = c->last_counted > 0 ? c->last_correct / c->last_counted : NAN;
    if (c->halt == 0) return DL_OK;
    DL_TRY(dl_control_resume(t));
    return dl_report_check(t, t->last_loss, "the loss");
}

static void begin(dl_trainer *t) {
    t->micros = dl_trainer_micros(t);
    t->step_began = dl_now();
    t->step_rng = dl_rng_here();
    for (long i = 0; i < t->nparam; i++) dl_set_grad(t->param[i], NULL);
}

/* Leaves that the loss depends on and the optimizer does not train would collect gradients and never change. */
static dl_status check_leaves(dl_trainer *t) {
    if (t->traced || !dl_requires_grad(t->loss_tensor)) return DL_OK;
    dl_tape *tape = dl_tape_of(t->loss_tensor);
    dl_status st = tape ? DL_OK : dl_failed();
    for (long i = 0; st == DL_OK && i < tape->n; i++) {
        const dl_tensor *leaf = tape->nodes[i].leaf;
        if (!leaf || dl_optimizer_has(t->opt, leaf)) continue;
        st = dl_fail_hint(
            DL_ERR_STATE,
            "detach() what is not to be trained, or set its requires_grad to false; an optimizer that is "
            "given it trains it, too",
            "the loss depends on %s%s of shape %s, which the optimizer does not train: it is not part of %s",
            leaf->weight ? "the weight " : "a parameter", leaf->weight ? dl_tensor_name(leaf) : "",
            dl_shape_text(leaf->ndim, leaf->shape), dl_module_name(t->model));
    }
    dl_tape_free(tape);
    t->traced = st == DL_OK;
    return st;
}

/* Output and loss of the batch. */
static dl_status run_net(dl_trainer *t) {
    dl_module_train(t->model, 1);
    DL_SCOPED_GRAD_MODE(1);
    dl_pack *result = dl_step_run_net(t, &t->batch);
    if (!result) return dl_failed();
    t->output = dl_ref(dl_pack_tensor(result, 0));
    t->lone_output = dl_pack_count(result) == 1;
    dl_status st = dl_trainer_check_built(t);
    if (st == DL_OK) st = dl_trainer_loss_of(t, result, &t->batch, &t->loss_tensor);
    dl_pack_unref(result);
    return st == DL_OK ? check_leaves(t) : st;
}

static dl_status forward(dl_trainer *t) {
    t->phase = DL_PHASE_IDLE;
    if (t->micro == 0) begin(t);
    DL_TRY(dl_batch_fetch(t));
    t->net_rng = dl_rng_here();
    t->backend->use_control(t->index, t->control, &t->step_rng);
    dl_status st = run_net(t);
    t->backend->use_control(t->index, NULL, NULL);
    DL_TRY(st);
    dl_batch_rule rule = {.weight = 1,
                          .batches = (double)t->micros,
                          .advance = t->batch.n,
                          .first = t->micro == 0,
                          .lenient = t->allow_nan,
                          .scaled = t->scaled};
    DL_TRY(dl_step_accumulate(t, t->control, t->loss_tensor, t->lone_output ? t->output : NULL, t->batch.y[0], &rule));
    t->control_from += rule.advance;
    t->phase = DL_PHASE_FORWARD;
    return t->seen && !t->breaking ? see_batch(t, t->seen) : DL_OK; /* breakpoints come before a loss that is NaN */
}

/* ---------------------------------------------------------------- backward */

/* What backward starts from, in the control block: scale / batches of the step. */
static dl_tensor *seed_of(dl_trainer *t) {
    const dl_tensor *loss = t->loss_tensor;
    bool f32 = loss->dtype == DL_F32;
    size_t at = f32 ? offsetof(dl_control, seed_f32) / sizeof(float) : offsetof(dl_control, seed) / sizeof(double);
    long one[DL_MAX_DIM], stride[DL_MAX_DIM];
    for (int i = 0; i < DL_MAX_DIM; i++) one[i] = stride[i] = 1;
    DL_OWNED dl_tensor *v = dl_view_new(t->block->st, f32 ? DL_F32 : DL_F64, loss->ndim, one, stride, (int64_t)at);
    return v ? dl_to_device(v, loss->st->device) : NULL;
}

static dl_status backward(dl_trainer *t) {
    DL_OWNED dl_tensor *seed = seed_of(t);
    if (!seed) return dl_failed();
    DL_TRY(dl_backward(t->loss_tensor, seed, 0, 0));
    t->micro++;
    t->phase = DL_PHASE_BACKWARD;
    return DL_OK;
}

/* ---------------------------------------------------------------- update */

/* The gradients, made contiguous or dense, into t->grad. */
static dl_status gradients(dl_trainer *t, int *n) {
    *n = 0;
    for (long i = 0; i < t->nparam; i++) {
        dl_tensor *g = t->param[i]->grad;
        if (!g) continue;
        if (!dl_is_dense(g)) {
            DL_OWNED dl_tensor *flat = dl_contiguous(g);
            if (!flat) return dl_failed();
            dl_set_grad(t->param[i], flat);
        }
        t->grad[(*n)++] = t->param[i]->grad;
    }
    return DL_OK;
}

static dl_status finish_step(dl_trainer *t) {
    dl_finish_step f = {.grad = t->grad,
                        .rule = {.clip_norm = t->clip_norm,
                                 .clip_value = t->clip_value,
                                 .batches = (double)t->micro,
                                 .draws = dl_rng_since(&t->step_rng),
                                 .groups = t->groups,
                                 .lenient = t->allow_nan,
                                 .scaled = t->scaled,
                                 .rate = t->rate,
                                 .report = t->report}};
    DL_TRY(gradients(t, &f.n));
    dl_breaks_finish(t, &f);
    dl_status st = t->backend->finish_step(t->index, t->control, &f);
    if (t->breaking) dl_breaks_forget(t);
    DL_TRY(st);
    dl_rng_add(&t->control_rng, &f.rule.draws);
    return DL_OK;
}

dl_status dl_step_set_rates(dl_trainer *t) {
    double *rate = t->rate + t->issued % DL_REPORTS * t->groups;
    long step = t->step + t->issued - t->taken;
    if (!t->same_rate) t->next_lr = t->base_lr;
    if (!t->same_rate && t->schedule) DL_TRY(dl_schedule_lr(t->schedule, t->base_lr, step, t->epoch, &t->next_lr));
    DL_TRY(dl_optimizer_put_lr(t->opt, t->next_lr));
    for (int g = 0; g < t->groups; g++) rate[g] = dl_optimizer_rate(t->opt, g - 1, t->next_lr);
    return DL_OK;
}

void dl_step_count(dl_trainer *t, double samples) {
    dl_issued *after = &t->after[t->issued++ % DL_REPORTS];
    *after = (dl_issued){.rng = dl_rng_here(), .lr = t->next_lr, .samples = samples, .start = t->start};
    dl_loader_position(t->loader, &after->epoch, &after->batch);
    for (int g = 0; g < t->groups; g++) t->rates[g].steps++;
    t->micro = 0;
    t->phase = DL_PHASE_IDLE;
}

static dl_status update(dl_trainer *t) {
    double samples = (double)(t->micro * t->batch.n);
    long micro = t->micro;
    DL_TRY(dl_step_set_rates(t));
    DL_TRY(finish_step(t));
    t->opt->rates = t->rates;
    dl_status st = dl_closure_needed(t) ? dl_closure_step(t) : dl_optimizer_step(t->opt);
    t->opt->rates = NULL;
    if (st == DL_OK && t->ema)
        st = t->backend->average(t->index, t->control, t->ema, t->param, (int)t->nparam, t->ema_decay);
    dl_step_count(t, samples);
    if (st == DL_OK) return st;
    /* the device reports the step all the same; the gradients can be used again */
    t->after[(t->issued - 1) % DL_REPORTS].failed = true;
    t->micro = micro, t->phase = DL_PHASE_BACKWARD;
    return st;
}

/* ---------------------------------------------------------------- whole steps */

static dl_step_start start_here(const dl_trainer *t) {
    dl_step_start s = {.rng = dl_rng_here()};
    dl_loader_position(t->loader, &s.epoch, &s.batch);
    return s;
}

static dl_status go_to(dl_trainer *t, const dl_step_start *s) {
    dl_rng_go(&s->rng);
    return dl_loader_seek(t->loader, s->epoch, s->batch);
}

void dl_step_again(dl_trainer *t, const dl_step_start *start) {
    DL_SCOPED_ERROR;
    const dl_step_start now = start_here(t);
    t->micro = 0;
    dl_status st = go_to(t, start);
    if (st == DL_OK) st = dl_control_align(t);
    do {
        if (st == DL_OK) st = forward(t);
        if (st == DL_OK) st = backward(t);
    } while (st == DL_OK && t->micro < t->micros);
    t->micro = 0, t->phase = DL_PHASE_IDLE;
    go_to(t, &now);
}

void dl_step_explain(dl_trainer *t, const dl_step_start *start) {
    if (!t->device || dl_nan_policy_get() == DL_NAN_OFF) return;
    dl_nonfinite_again = true;
    dl_step_again(t, start);
    dl_nonfinite_again = false;
}

/* A condition that fails leaves the step to be made again. */
static dl_status decide(dl_trainer *t) {
    dl_status st = dl_breaks_decide(t);
    if (st == DL_OK || dl_deferred_get()) return st;
    DL_SCOPED_ERROR;
    t->micro = 0, t->phase = DL_PHASE_IDLE;
    dl_breaks_undo(t);
    go_to(t, &t->start);
    return st;
}

dl_status dl_step_issue_eagerly(dl_trainer *t) {
    t->micro = 0;
    do {
        DL_TRY(forward(t));
        DL_TRY(backward(t));
    } while (t->micro < t->micros);
    if (t->breaking) DL_TRY(decide(t));
    return update(t);
}

/* An interrupt does not stop a step half done: weights, counters and data stay consistent. Only functions of the caller
 * can be interrupted, which make the batch, the output, the loss or the learning rate, before any weight has changed.
 */
dl_status dl_step_issue(dl_trainer *t) {
    DL_SCOPED_INTERRUPT_HOLD(1);
    bool done = false;
    dl_mark_drop(t);
    DL_TRY(dl_trainer_check_net(t));
    DL_TRY(dl_best_leave(t));
    DL_TRY(dl_record_begin(t));
    dl_run_activate(t->run);
    t->micro = 0;
    t->start = start_here(t);
    bool wait = dl_past_before_step(t);
    DL_TRY(dl_control_align(t));
    dl_look *look = dl_updates_before(t);
    t->breaking = dl_breaks_wanted(t);
    dl_status st = t->breaking ? dl_breaks_begin(t) : DL_OK;
    if (st == DL_OK) st = dl_replay_step(t, &done);
    t->drain_first |= wait;
    if (st == DL_OK && !done) st = dl_step_issue_eagerly(t);
    t->drain_first |=
        dl_breaks_obstacle(t) != NULL; /* what the host evaluates is not asked about steps that are void */
    if (st == DL_OK && t->breaking) dl_breaks_issued(t);
    t->breaking = false;
    dl_updates_after(t, look, st);
    DL_TRY(st);
    dl_past_after_step(t);
    return DL_OK;
}

/* Reads the reports of all steps issued. The failure st, if any, is the one reported. */
static dl_status drain_after(dl_trainer *t, dl_status st) {
    if (st == DL_OK) return dl_report_drain(t);
    DL_SCOPED_ERROR;
    dl_report_drain(t);
    return st;
}

dl_status dl_trainer_step(dl_trainer *t) {
    if (!t) return dl_fail_null("the trainer");
    dl_past_turn(t, false);
    t->broke = 0;
    return dl_record_failure(t, drain_after(t, dl_step_issue(t)));
}

/* ---------------------------------------------------------------- the parts of a step, one by one */

dl_status dl_trainer_forward(dl_trainer *t) {
    if (!t) return dl_fail_null("the trainer");
    dl_control c;
    t->phase = DL_PHASE_IDLE;
    t->broke = 0;
    DL_TRY(dl_trainer_check_net(t));
    DL_TRY(dl_report_drain(t));
    DL_TRY(dl_best_leave(t));
    if (t->micro == 0) {
        t->start = start_here(t);
        DL_TRY(dl_mark_set(t));
        DL_TRY(dl_control_align(t));
    }
    DL_TRY(forward(t));
    DL_TRY(dl_control_read(t, t->control, &c));
    return see_batch(t, &c);
}

dl_status dl_trainer_backward(dl_trainer *t) {
    if (!t) return dl_fail_null("the trainer");
    if (t->phase != DL_PHASE_FORWARD)
        return dl_fail_hint(DL_ERR_STATE, "forward t; backward t; update t",
                            t->phase == DL_PHASE_BACKWARD ? "backward has been done for this batch"
                                                          : "there is no forward pass to go back through");
    DL_TRY(backward(t));
    return t->backend->synchronize(t->index);
}

static dl_status begin_update(dl_trainer *t) {
    DL_TRY(dl_record_begin(t));
    dl_look *look = dl_updates_before(t);
    dl_status st = update(t);
    dl_updates_after(t, look, st);
    return st;
}

dl_status dl_trainer_update(dl_trainer *t) {
    if (!t) return dl_fail_null("the trainer");
    if (t->phase != DL_PHASE_BACKWARD)
        return dl_fail_hint(DL_ERR_STATE, "forward t; backward t; update t", "there are no gradients to update with");
    DL_TRY(dl_trainer_check_net(t));
    DL_SCOPED_INTERRUPT_HOLD(1);
    dl_mark_drop(t);
    return drain_after(t, begin_update(t));
}
