/* Trainers: making them, and the three parts of a step. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/active.h"
#include "core/interrupt.h"
#include "optim/optimizer.h"
#include "train/ahead.h"

double dl_now(void) { return 1e-6 * (double)dl_active_us(NULL); }

static dl_status no_memory(void) { return dl_fail(DL_ERR_MEMORY, "no memory for a trainer"); }

/* ---------------------------------------------------------------- making */

static dl_status choose_loss(dl_trainer *t, const dl_trainer_spec *s) {
    const char *name = s->loss;
    if (!name) name = s->loss_fn ? "function" : dl_dataset_classes(t->data) > 0 ? "cross_entropy" : "mse_loss";
    t->loss_name = strdup(name);
    if (!t->loss_name) return no_memory();
    if (s->loss_fn) return DL_OK;
    t->loss_op = dl_op_find(name);
    if (t->loss_op && t->loss_op->in_min <= 2 && t->loss_op->in_max >= 2 && t->loss_op->in_max <= 3) return DL_OK;
    static const char *const losses[] = {"cross_entropy", "nll_loss", "mse_loss", "l1_loss",
                                         "binary_cross_entropy_with_logits"};
    return dl_fail_unknown(name, losses, sizeof losses / sizeof *losses, NULL, "there is no loss called '%s'", name);
}

static dl_status check_spec(const dl_trainer_spec *s) {
    if (!s->model) return dl_fail_null("the net to train");
    if (!s->data) return dl_fail_null("the dataset to train on");
    if (!s->opt) return dl_fail_null("the optimizer");
    if (s->accumulate < 0 || s->clip_norm < 0 || s->clip_value < 0)
        return dl_fail_hint(DL_ERR_VALUE, "0 leaves each of them out",
                            "accumulate=%ld, clip_norm=%g, clip_value=%g: none of them can be negative", s->accumulate,
                            s->clip_norm, s->clip_value);
    if (!(s->ema >= 0 && s->ema < 1))
        return dl_fail(DL_ERR_VALUE, "ema is a decay of at least 0 and below 1, such as 0.999, not %g", s->ema);
    if (dl_dataset_len(s->data, DL_TRAIN) < 1)
        return dl_fail(DL_ERR_VALUE, "dataset %s has no samples to train on", dl_dataset_name(s->data));
    return DL_OK;
}

/* Weights for one sample of the dataset, on the trainer's device, known to the optimizer. */
static dl_status prepare_model(dl_trainer *t) {
    long shape[DL_MAX_DIM];
    int ndim = dl_dataset_ndim(t->data);
    if (ndim >= DL_MAX_DIM)
        return dl_fail(DL_ERR_SHAPE, "samples have %d dimensions; with that of the batch a tensor has at most %d", ndim,
                       DL_MAX_DIM);
    shape[0] = 1;
    memcpy(shape + 1, dl_dataset_shape(t->data), (size_t)ndim * sizeof *shape);
    dl_status st = dl_module_build(t->model, ndim + 1, shape, dl_dataset_batch_dtype(t->data), t->device);
    if (st != DL_OK) {
        char text[160];
        dl_error_hint("the samples of %s have shape %s", dl_dataset_name(t->data),
                      dl_shape_text(ndim, dl_dataset_shape(t->data), text, sizeof text));
        return st;
    }
    DL_TRY(dl_module_to(t->model, -1, t->device));
    t->params = dl_module_tensors(t->model, 1);
    t->state = t->params ? dl_module_tensors(t->model, 3) : NULL;
    if (!t->state) return dl_failed();
    t->nparam = t->params->n;
    t->param = malloc((size_t)(t->nparam + 1) * sizeof(dl_tensor *));
    if (!t->param) return no_memory();
    for (long i = 0; i < t->nparam; i++) {
        t->param[i] = t->params->entries[i].tensor;
        if (!dl_optimizer_has(t->opt, t->param[i]))
            DL_TRY(dl_optimizer_take(t->opt, t->params->entries[i].path, t->param[i]));
    }
    return DL_OK;
}

static dl_status make_ema(dl_trainer *t) {
    if (t->ema_decay <= 0) return DL_OK;
    t->ema = calloc((size_t)t->nparam + 1, sizeof(dl_tensor *));
    if (!t->ema) return no_memory();
    int mode = dl_grad_mode(0);
    dl_status st = DL_OK;
    for (long i = 0; i < t->nparam && st == DL_OK; i++)
        if (!(t->ema[i] = dl_clone(t->param[i]))) st = dl_failed();
    dl_grad_mode(mode);
    return st;
}

dl_status dl_trainer_make_loader(dl_trainer *t) {
    dl_loader_spec s = t->loader_spec;
    s.seed = &t->data_seed;
    s.transforms = t->transforms;
    dl_loader *l = dl_loader_new(t->data, DL_TRAIN, &s);
    if (!l) return dl_failed();
    dl_loader_free(t->loader);
    t->loader = l;
    return DL_OK;
}

static dl_status init(dl_trainer *t, const dl_trainer_spec *s) {
    DL_TRY(choose_loss(t, s));
    t->loader_spec = s->loader;
    t->loader_spec.shuffle = !s->in_order;
    t->data_seed = s->loader.seed ? *s->loader.seed : dl_seed_get();
    if (s->loader.transforms && !(t->transforms = strdup(s->loader.transforms))) return no_memory();
    DL_TRY(dl_trainer_make_loader(t));
    DL_TRY(prepare_model(t));
    DL_TRY(make_ema(t));
    DL_TRY(dl_ahead_new(t));
    DL_TRY(dl_record_copy_spec(t, s->run));
    if (!s->store) return DL_OK;
    /* a reference of its own: the run lives in it until the trainer is gone */
    const char *path = dl_store_path(s->store);
    t->store = dl_store_open(*path ? path : "none");
    return t->store ? DL_OK : dl_failed();
}

dl_trainer *dl_trainer_new(const dl_trainer_spec *s) {
    if (!s) return dl_fail_null("the description of a trainer"), NULL;
    dl_trainer *t = calloc(1, sizeof *t);
    if (!t) no_memory();
    if (t && check_spec(s) == DL_OK) {
        t->model = dl_module_ref(s->model);
        t->data = dl_dataset_ref(s->data);
        t->opt = dl_optimizer_ref(s->opt);
        t->schedule = dl_schedule_ref(s->schedule);
        t->loss_fn = s->loss_fn, t->loss_ctx = s->loss_ctx, t->loss_release = s->loss_release;
        t->accumulate = s->accumulate ? s->accumulate : 1;
        t->eval_every = s->eval_every ? s->eval_every : 1;
        t->clip_norm = s->clip_norm, t->clip_value = s->clip_value, t->ema_decay = s->ema;
        t->allow_nan = s->allow_nan, t->device = s->device;
        t->base_lr = t->lr = dl_optimizer_lr(t->opt);
        t->last_loss = t->last_acc = t->grad_norm = t->test_loss = t->test_acc = NAN;
        if (init(t, s) == DL_OK) return t;
    } else if (s->loss_release)
        s->loss_release(s->loss_ctx);
    dl_error e;
    dl_error_take(&e); /* what is freed may fail too, which is of less interest */
    dl_trainer_free(t);
    dl_error_put(&e);
    return NULL;
}

void dl_trainer_drop_batch(dl_trainer *t) {
    dl_unref(t->x);
    dl_unref(t->y);
    dl_unref(t->output);
    dl_unref(t->loss_tensor);
    t->x = t->y = t->output = t->loss_tensor = NULL;
}

void dl_trainer_free(dl_trainer *t) {
    if (!t) return;
    dl_ahead_free(t);
    dl_record_end(t);
    dl_store_close(t->store);
    dl_record_free_spec(t);
    dl_trainer_drop_batch(t);
    for (long i = 0; t->ema && i < t->nparam; i++) dl_unref(t->ema[i]);
    free(t->ema);
    free(t->param);
    dl_module_list_free(t->params);
    dl_module_list_free(t->state);
    dl_loader_free(t->loader);
    for (int i = 0; i < 2; i++) dl_loader_free(t->eval_loader[i]);
    dl_schedule_unref(t->schedule);
    dl_optimizer_unref(t->opt);
    dl_dataset_unref(t->data);
    dl_module_unref(t->model);
    if (t->loss_release) t->loss_release(t->loss_ctx);
    free(t->loss_name);
    free(t->transforms);
    free(t);
}

/* ---------------------------------------------------------------- batches and losses */

static dl_status replace(dl_tensor **slot, dl_tensor *made) {
    if (!made) return dl_failed();
    dl_unref(*slot);
    *slot = made;
    return DL_OK;
}

dl_status dl_trainer_place(dl_trainer *t, dl_tensor **x, dl_tensor **y) {
    if (t->device != 0) {
        DL_TRY(replace(x, dl_to_device(*x, t->device)));
        DL_TRY(replace(y, dl_to_device(*y, t->device)));
    }
    dl_dtype want = t->nparam ? dl_dtype_of(t->param[0]) : DL_F32;
    if (want == DL_F32) return DL_OK;
    if (dl_dtype_is_float(dl_dtype_of(*x))) DL_TRY(replace(x, dl_to_dtype(*x, want)));
    return dl_dtype_is_float(dl_dtype_of(*y)) ? replace(y, dl_to_dtype(*y, want)) : DL_OK;
}

/* Do the labels of this loss stay class numbers? */
static bool takes_labels(const dl_op *op) { return op->nondiff_in & 2; }

/* Targets for losses that compare element by element: the output's dtype, and its shape where only sizes of 1 differ,
 * so that [N,1] against [N] does not broadcast to [N,N]. */
static dl_tensor *fit_target(dl_tensor *output, dl_tensor *target) {
    dl_tensor *cast =
        dl_dtype_is_float(dl_dtype_of(target)) ? dl_ref(target) : dl_to_dtype(target, dl_dtype_of(output));
    if (!cast || dl_shape_eq(cast, output) || dl_numel(cast) != dl_numel(output)) return cast;
    dl_tensor *shaped = dl_reshape(cast, dl_shape(output), dl_ndim(output));
    dl_unref(cast);
    return shaped;
}

dl_status dl_trainer_loss_of(dl_trainer *t, dl_tensor *output, dl_tensor *target, dl_tensor **loss) {
    if (t->loss_fn) {
        *loss = t->loss_fn(t->loss_ctx, output, target);
        if (!*loss) return dl_failed();
    } else {
        dl_aval attr[DL_MAX_ATTR];
        dl_attr_defaults(t->loss_op, attr);
        dl_tensor *fit = takes_labels(t->loss_op) ? dl_ref(target) : fit_target(output, target);
        dl_tensor *in[] = {output, fit};
        *loss = fit ? dl_invoke1(t->loss_op, in, 2, attr) : NULL;
        dl_unref(fit);
        if (!*loss) return dl_failed();
    }
    if (dl_numel(*loss) == 1) return DL_OK;
    char shape[160];
    dl_status st = dl_fail_hint(DL_ERR_SHAPE, "take its mean()", "the loss must be one number, not of shape %s",
                                dl_shape_text(dl_ndim(*loss), dl_shape(*loss), shape, sizeof shape));
    dl_unref(*loss);
    *loss = NULL;
    return st;
}

/* The usual case without ops: f32 scores [N,C] on the host. First of equal largest scores, as argmax. */
static double count_rows(const float *scores, const long *label, long n, long classes) {
    long correct = 0;
    for (long i = 0; i < n; i++, scores += classes) {
        long best = 0;
        for (long c = 1; c < classes; c++)
            if (scores[c] > scores[best]) best = c;
        correct += best == label[i];
    }
    return (double)correct;
}

/* Scores above 0 for a single output, the largest score along dimension 1 for several. */
static dl_tensor *answers(dl_tensor *output, dl_tensor *target) {
    long dim = 1;
    if (dl_ndim(output) >= 2 && dl_shape(output)[1] > 1) return dl_argmax(output, &dim, 0);
    dl_tensor *zero = dl_scalar_f(0), *above = zero ? dl_gt(output, zero) : NULL;
    dl_tensor *flat = above ? dl_reshape(above, dl_shape(target), dl_ndim(target)) : NULL;
    dl_unref(zero);
    dl_unref(above);
    return flat;
}

dl_status dl_trainer_correct(dl_trainer *t, dl_tensor *output, dl_tensor *target, double *correct, double *of) {
    *correct = *of = 0;
    long classes = dl_dataset_classes(t->data), n = dl_numel(target);
    bool many = dl_ndim(output) >= 2 && dl_shape(output)[1] > 1;
    if (classes < 1 || !n || (many ? dl_numel(output) != n * dl_shape(output)[1] : dl_numel(output) != n)) return DL_OK;
    *of = (double)n;
    bool plain = dl_device_of(output) == 0 && dl_dtype_of(output) == DL_F32 && dl_is_contiguous(output) && many &&
                 dl_ndim(output) == 2 && dl_dtype_of(target) == DL_I64 && dl_is_contiguous(target);
    if (plain) return *correct = count_rows(dl_data(output), dl_data(target), n, dl_shape(output)[1]), DL_OK;
    int mode = dl_grad_mode(0);
    dl_tensor *a = answers(output, target), *same = a ? dl_eq(a, target) : NULL,
              *sum = same ? dl_sum(same, NULL, 0, 0) : NULL;
    dl_status st = sum ? dl_item_f(sum, correct) : dl_failed();
    dl_unref(a);
    dl_unref(same);
    dl_unref(sum);
    dl_grad_mode(mode);
    return st;
}

static dl_status next_batch(dl_trainer *t) {
    dl_tensor *x = NULL, *y = NULL;
    DL_TRY(dl_loader_next(t->loader, &x, &y));
    if (!x) DL_TRY(dl_loader_next(t->loader, &x, &y)); /* one epoch ended, the next begins */
    long batch;
    dl_loader_position(t->loader, &t->epoch, &batch);
    dl_status st = dl_trainer_place(t, &x, &y);
    dl_trainer_drop_batch(t);
    t->x = x, t->y = y;
    return st;
}

/* ---------------------------------------------------------------- the parts of a step */

long dl_trainer_micros(const dl_trainer *t) {
    long epoch, batch, left;
    dl_loader_position(t->loader, &epoch, &batch);
    left = dl_loader_len(t->loader) - batch;
    if (left <= 0) left = dl_loader_len(t->loader);
    return t->accumulate < left ? t->accumulate : left;
}

dl_status dl_trainer_check_finite(dl_trainer *t, double v, const char *what) {
    if (isfinite(v) || t->allow_nan) return DL_OK;
    t->diverged = true;
    t->phase = DL_PHASE_IDLE;
    t->micro = 0;
    char text[64];
    snprintf(text, sizeof text, "%s is %s", what, isnan(v) ? "nan" : "infinite");
    dl_status st =
        dl_fail_hint(DL_ERR_VALUE, "lower the learning rate, limit gradients with clip_norm=1, or look for the cause",
                     "training diverged: %s at step %ld; the weights were left as they are", text, t->step + 1);
    dl_error e;
    dl_error_take(&e);
    if (t->run) {
        if (t->series[DL_M_LOSS]) dl_series_push(t->series[DL_M_LOSS], t->step + 1, t->last_loss);
        dl_run_event(t->run, t->step + 1, "nan", text, NULL);
    }
    dl_error_put(&e);
    return st;
}

void dl_trainer_begin_step(dl_trainer *t) {
    t->micros = dl_trainer_micros(t);
    t->loss_sum = t->correct = t->counted = 0;
    t->step_began = dl_now();
    for (long i = 0; i < t->nparam; i++) dl_set_grad(t->param[i], NULL);
}

dl_status dl_trainer_run_net(dl_trainer *t) {
    dl_module_train(t->model, 1);
    int mode = dl_grad_mode(1);
    t->output = dl_module_forward(t->model, t->x);
    dl_status st = t->output ? dl_trainer_loss_of(t, t->output, t->y, &t->loss_tensor) : dl_failed();
    dl_grad_mode(mode);
    return st;
}

dl_status dl_trainer_forward(dl_trainer *t) {
    if (!t) return dl_fail_null("the trainer");
    t->phase = DL_PHASE_IDLE;
    if (t->ahead) return dl_ahead_forward(t);
    if (t->micro == 0) dl_trainer_begin_step(t);
    DL_TRY(next_batch(t));
    DL_TRY(dl_trainer_run_net(t));
    double correct, of;
    DL_TRY(dl_item_f(t->loss_tensor, &t->last_loss));
    DL_TRY(dl_trainer_correct(t, t->output, t->y, &correct, &of));
    t->last_acc = of > 0 ? correct / of : NAN;
    if (!dl_scaler_on(t)) DL_TRY(dl_trainer_check_finite(t, t->last_loss, "the loss"));
    t->correct += correct, t->counted += of;
    t->phase = DL_PHASE_FORWARD;
    return DL_OK;
}

dl_status dl_trainer_backward(dl_trainer *t) {
    if (!t) return dl_fail_null("the trainer");
    if (t->phase != DL_PHASE_FORWARD)
        return dl_fail_hint(DL_ERR_STATE, "forward t; backward t; update t",
                            t->phase == DL_PHASE_BACKWARD ? "backward has been done for this batch"
                                                          : "there is no forward pass to go back through");
    if (t->ahead) return dl_ahead_backward(t);
    dl_tensor *seed = NULL;
    double from = dl_scaler_scale(t) / (double)t->micros;
    if (from != 1) {
        seed = dl_tensor_full(dl_ndim(t->loss_tensor), dl_shape(t->loss_tensor), dl_dtype_of(t->loss_tensor),
                              dl_device_of(t->loss_tensor), from);
        if (!seed) return dl_failed();
    }
    dl_status st = dl_backward(t->loss_tensor, seed, 0, 0);
    dl_unref(seed);
    DL_TRY(st);
    t->loss_sum += t->last_loss;
    t->micro++;
    t->phase = DL_PHASE_BACKWARD;
    return DL_OK;
}

static dl_status update_ema(dl_trainer *t) {
    if (!t->ema) return DL_OK;
    dl_tensor *keep = dl_scalar_f(t->ema_decay), *take = dl_scalar_f(1 - t->ema_decay);
    dl_status st = keep && take ? DL_OK : dl_failed();
    int mode = dl_grad_mode(0);
    for (long i = 0; i < t->nparam && st == DL_OK; i++) {
        dl_tensor *old = dl_mul(t->ema[i], keep), *new = dl_mul(t->param[i], take);
        dl_tensor *sum = old && new ? dl_add(old, new) : NULL;
        st = sum ? dl_assign(t->ema[i], sum) : dl_failed();
        dl_unref(old);
        dl_unref(new);
        dl_unref(sum);
    }
    dl_grad_mode(mode);
    dl_unref(keep);
    dl_unref(take);
    return st;
}

void dl_trainer_swap_ema(dl_trainer *t) {
    for (long i = 0; t->ema && i < t->nparam; i++) {
        dl_tensor *a = t->param[i], *b = t->ema[i], tmp = *a;
        a->st = b->st, a->offset = b->offset;
        memcpy(a->stride, b->stride, sizeof a->stride);
        b->st = tmp.st, b->offset = tmp.offset;
        memcpy(b->stride, tmp.stride, sizeof b->stride);
    }
}

static dl_status apply(dl_trainer *t) {
    bool skip;
    t->lr = t->base_lr;
    DL_TRY(dl_scaler_unscale(t, &skip));
    if (skip) return DL_OK;
    if (t->clip_value > 0) DL_TRY(dl_clip_grad_value(t->param, t->nparam, t->clip_value));
    DL_TRY(dl_clip_grad_norm(t->param, t->nparam, t->clip_norm, &t->grad_norm));
    DL_TRY(dl_trainer_check_finite(t, t->grad_norm, "the norm of the gradient"));
    if (t->schedule) DL_TRY(dl_schedule_lr(t->schedule, t->base_lr, t->step, t->epoch, &t->lr));
    DL_TRY(dl_optimizer_set_lr(t->opt, t->lr));
    DL_TRY(dl_optimizer_step(t->opt));
    return update_ema(t);
}

static dl_status update(dl_trainer *t) {
    if (!t) return dl_fail_null("the trainer");
    if (t->phase != DL_PHASE_BACKWARD)
        return dl_fail_hint(DL_ERR_STATE, "forward t; backward t; update t", "there are no gradients to update with");
    DL_TRY(dl_record_begin(t));
    if (t->ahead) return dl_ahead_update(t);
    DL_TRY(apply(t));
    t->step++;
    t->last_loss = t->loss_sum / (double)t->micro;
    t->last_acc = t->counted > 0 ? t->correct / t->counted : NAN;
    t->phase = DL_PHASE_IDLE;
    double took = dl_now() - t->step_began, samples = (double)(t->micro * dl_shape(t->x)[0]);
    t->speed = took > 0 ? samples / took : 0;
    t->samples = samples;
    t->micro = 0;
    dl_record_step(t);
    return DL_OK;
}

dl_status dl_trainer_update(dl_trainer *t) {
    int held = dl_interrupt_hold(1);
    dl_status st = update(t);
    dl_interrupt_hold(held);
    return st;
}

static dl_status all_of_step(dl_trainer *t) {
    DL_TRY(dl_record_begin(t));
    t->micro = 0;
    do {
        DL_TRY(dl_trainer_forward(t));
        DL_TRY(dl_trainer_backward(t));
    } while (t->micro < t->micros);
    return dl_trainer_update(t);
}

/* A step is done wholly: who stops training finds weights, counters and data in agreement. Only functions of the
 * caller, in the forward pass, can be stopped, before any weight has changed. */
static dl_status step(dl_trainer *t) {
    int held = dl_interrupt_hold(1);
    dl_status st = all_of_step(t);
    dl_interrupt_hold(held);
    return st;
}

dl_status dl_trainer_step(dl_trainer *t) {
    if (!t) return dl_fail_null("the trainer");
    if (t->ahead) {
        dl_status st = dl_ahead_step(t);
        return dl_record_failure(t, st == DL_OK ? dl_ahead_drain(t) : st);
    }
    return dl_record_failure(t, step(t));
}

/* ---------------------------------------------------------------- reading */

void dl_trainer_get(const dl_trainer *t, dl_trainer_state *out) {
    *out = (dl_trainer_state){.step = t->step,
                              .loss = t->last_loss,
                              .acc = t->last_acc,
                              .lr = t->lr,
                              .grad_norm = t->grad_norm,
                              .diverged = t->diverged,
                              .phase = (int)t->phase,
                              .error = t->error};
    dl_loader_position(t->loader, &out->epoch, &out->batch);
    out->batches = dl_loader_len(t->loader);
    out->run = t->run ? dl_run_id(t->run) : 0;
}

dl_module *dl_trainer_model(const dl_trainer *t) { return t->model; }
dl_optimizer *dl_trainer_optimizer(const dl_trainer *t) { return t->opt; }
dl_schedule *dl_trainer_schedule(const dl_trainer *t) { return t->schedule; }
dl_dataset *dl_trainer_dataset(const dl_trainer *t) { return t->data; }
dl_loader *dl_trainer_loader(const dl_trainer *t) { return t->loader; }
dl_run *dl_trainer_run(const dl_trainer *t) { return t->run; }
dl_tensor *dl_trainer_x(const dl_trainer *t) { return t->x; }
dl_tensor *dl_trainer_y(const dl_trainer *t) { return t->y; }
dl_tensor *dl_trainer_output(const dl_trainer *t) { return t->output; }
dl_tensor *dl_trainer_loss(const dl_trainer *t) { return t->loss_tensor; }
const char *dl_trainer_loss_name(const dl_trainer *t) { return t->loss_name; }
const char *dl_trainer_capture(const dl_trainer *t) { return t->ahead ? t->ahead->note : ""; }

dl_status dl_trainer_set_lr(dl_trainer *t, double lr) {
    if (!t) return dl_fail_null("the trainer");
    DL_TRY(dl_optimizer_set_lr(t->opt, lr));
    t->base_lr = lr;
    if (!t->schedule) t->lr = lr;
    if (t->run) dl_run_event(t->run, t->step, "lr", "changed by hand", NULL);
    return DL_OK;
}
