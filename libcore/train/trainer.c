/* Trainers: making them, and what they show. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/active.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "nn/module.h"
#include "dlcore/copy.h"

double dl_now(void) { return 1e-6 * (double)dl_active_us(NULL); }

static dl_status no_memory(void) { return dl_fail(DL_ERR_MEMORY, "no memory for a trainer"); }

/* ---------------------------------------------------------------- making */

static dl_status choose_loss(dl_trainer *t, const dl_trainer_spec *s) {
    const char *name = s->loss;
    if (!name) name = s->loss_fn ? "function" : dl_dataset_classes(t->data) > 0 ? "cross_entropy" : "mse_loss";
    t->loss_name = strdup(name);
    if (!t->loss_name) return no_memory();
    if (s->loss_fn) return DL_OK;
    if (t->form.targets > 1)
        return dl_fail_hint(
            DL_ERR_VALUE, "loss=fn (out, y) { ... } combines them; targets= of the dataset names its targets",
            "the loss %s takes one target, and samples of %s have %d", name, dl_dataset_name(t->data), t->form.targets);
    t->loss_op = dl_op_find(name);
    if (t->loss_op && t->loss_op->in_min <= 2 && t->loss_op->in_max >= 2 && t->loss_op->in_max < DL_MAX_IN)
        return DL_OK;
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
    DL_TRY(dl_closure_check(s));
    if (!(s->ema >= 0 && s->ema < 1))
        return dl_fail(DL_ERR_VALUE, "ema is a decay of at least 0 and below 1, such as 0.999, not %g", s->ema);
    if (!(s->val >= 0) || (s->val >= 1 && s->val != floor(s->val)))
        return dl_fail_hint(DL_ERR_VALUE, "val=0.1, or val=500",
                            "val is a share of the training samples below 1, or a number of them, not %g", s->val);
    if (dl_dataset_len(s->data, DL_TRAIN) < 1)
        return dl_fail(DL_ERR_VALUE, "dataset %s has no samples to train on", dl_dataset_name(s->data));
    return DL_OK;
}

/* What the net takes, for one sample of the dataset. */
static dl_status net_inputs(dl_trainer *t, dl_net_input *in) {
    for (int i = 0; i < DL_NET_INPUTS; i++) in[i] = (dl_net_input){.ndim = -1};
    for (int i = 0; i < t->form.inputs; i++) {
        dl_net_input *to = &in[t->place[i]];
        *to = dl_loader_input(t->loader, i);
        if (to->ndim > DL_MAX_DIM)
            return dl_fail(DL_ERR_SHAPE, "samples have %d dimensions; with that of the batch a tensor has at most %d",
                           to->ndim - 1, DL_MAX_DIM);
        if (t->place[i] >= t->places) t->places = t->place[i] + 1;
    }
    return DL_OK;
}

/* The inputs of the first samples. Random numbers are then drawn as if they had not been made. */
static dl_pack *first_inputs(dl_trainer *t) {
    dl_loader_spec s = t->loader_spec;
    DL_SCOPED_BATCH b = {0};
    dl_tensor *x[DL_NET_INPUTS] = {NULL};
    dl_rng_at rng = dl_rng_here();
    s.batch = s.collate ? 2 : 1;
    s.shuffle = s.drop_last = 0, s.sampler = NULL, s.workers = -1, s.seed = &t->data_seed, s.transforms = t->transforms;
    dl_loader *l = dl_loader_new(t->data, DL_TRAIN, &s);
    bool good = l && dl_loader_next(l, b.x, b.y) == DL_OK;
    dl_rng_go(&rng);
    for (int i = 0; i < t->form.inputs && good; i++) good = (x[t->place[i]] = dl_to_device(b.x[i], t->device)) != NULL;
    dl_pack *p = good ? dl_pack_new(x, t->places, NULL, NULL) : NULL;
    for (int i = 0; i < DL_NET_INPUTS; i++) dl_unref(x[i]);
    dl_loader_free(l);
    return p;
}

/* What the net gives: for plain inputs of the samples' shapes; where it fails for these, since what the samples mean
 * matters to it, for the first samples themselves. */
static dl_pack *dry_result(dl_trainer *t) {
    dl_net_input in[DL_NET_INPUTS];
    if (net_inputs(t, in) != DL_OK) return NULL;
    dl_pack *out = dl_module_dry_result(t->model, in, t->places, t->device);
    if (out || dl_failed() == DL_ERR_INTERRUPT) return out;
    dl_error_clear();
    dl_pack *first = first_inputs(t);
    out = first ? dl_module_dry_call(t->model, first) : NULL;
    dl_pack_unref(first);
    if (!out && dl_failed() != DL_ERR_INTERRUPT && !t->loader_spec.collate)
        dl_error_hint("the samples of %.90s have shape %s", dl_dataset_name(t->data),
                      dl_shape_text(in[0].ndim - 1, in[0].shape + 1));
    return out;
}

/* Weights for one sample of the dataset. */
static dl_status build_model(dl_trainer *t) {
    char what[128];
    snprintf(what, sizeof what, "the samples of %.90s", dl_dataset_name(t->data));
    DL_TRY(
        dl_module_place_inputs(t->model, what, t->form.inputs, (const char(*)[DL_FIELD_NAME])t->form.names, t->place));
    dl_net_input in[DL_NET_INPUTS];
    if (dl_module_is_built(t->model)) return net_inputs(t, in);
    dl_pack *out = dry_result(t);
    if (!out) return dl_failed();
    dl_pack_unref(out);
    return DL_OK;
}

/* Weights, on the trainer's device, known to the optimizer. */
static dl_status prepare_model(dl_trainer *t) {
    DL_TRY(build_model(t));
    DL_TRY(dl_module_to(t->model, -1, t->device));
    t->params = dl_module_tensors(t->model, 1);
    t->state = t->params ? dl_module_tensors(t->model, 3) : NULL;
    if (!t->state) return dl_failed();
    t->changes = dl_module_changes();
    t->built = dl_module_is_built(t->model);
    t->nparam = t->params->n;
    t->param = malloc((size_t)(t->nparam + 1) * sizeof(dl_tensor *));
    t->grad = malloc((size_t)(t->nparam + 1) * sizeof(dl_tensor *));
    if (!t->param || !t->grad) return no_memory();
    for (long i = 0; i < t->nparam; i++) {
        t->param[i] = t->params->entries[i].tensor;
        if (!dl_optimizer_has(t->opt, t->param[i]))
            DL_TRY(dl_optimizer_register(t->opt, t->params->entries[i].path, t->param[i]));
    }
    t->edits = t->opt->edits;
    return dl_optimizer_check_groups(t->opt);
}

dl_status dl_trainer_check_built(dl_trainer *t) {
    if (t->built) return DL_OK;
    dl_module_list *l = dl_module_tensors(t->model, 3);
    if (!l) return dl_failed();
    const char *made = NULL;
    for (long i = 0; !made && l->n != t->state->n && i < l->n; i++) {
        made = l->entries[i].path;
        for (long k = 0; made && k < t->state->n; k++)
            if (t->state->entries[k].tensor == l->entries[i].tensor) made = NULL;
    }
    dl_status st =
        !made ? DL_OK
              : dl_fail_hint(DL_ERR_STATE,
                             "call the net once with inputs that reach the layer, m(x), and then make the trainer",
                             "%s of %s was made in training, and is not trained: its layer was not called "
                             "when the trainer was made",
                             made, dl_module_name(t->model));
    dl_module_list_free(l);
    return st;
}

/* An optimizer knows a parameter by its name, for checkpoints. */
static dl_status rename_param(dl_optimizer *o, const dl_tensor *p, const char *name) {
    for (long i = 0; i < o->n; i++) {
        if (o->param[i].p != p || !strcmp(o->param[i].name, name)) continue;
        char *copy = strdup(name);
        if (!copy) return no_memory();
        free(o->param[i].name);
        o->param[i].name = copy;
    }
    return DL_OK;
}

/* The parameters of the net in the order that the trainer has; false: they are not the same. */
static bool in_order(const dl_trainer *t, dl_module_list *l) {
    dl_module_entry *e = (dl_module_entry *)l->entries;
    bool same = l->n == t->nparam && dl_module_is_built(t->model) == t->built;
    for (long i = 0; same && i < l->n; i++) {
        long k = i;
        while (k < l->n && e[k].tensor != t->param[i]) k++;
        if (!(same = k < l->n)) break;
        const dl_module_entry other = e[i];
        e[i] = e[k], e[k] = other;
    }
    return same;
}

/* Where a layer has become a computed one, parameters have other names, and there are other buffers. */
static dl_status take_lists(dl_trainer *t, bool *same) {
    dl_module_list *l = dl_module_tensors(t->model, 1), *all = l ? dl_module_tensors(t->model, 3) : NULL;
    dl_status st = all ? DL_OK : dl_failed();
    *same = st == DL_OK && in_order(t, l);
    for (long i = 0; *same && i < l->n && st == DL_OK; i++)
        st = rename_param(t->opt, l->entries[i].tensor, l->entries[i].path);
    const bool take = *same && st == DL_OK;
    dl_module_list_free(take ? t->params : l);
    dl_module_list_free(take ? t->state : all);
    if (take) t->params = l, t->state = all;
    return st;
}

dl_status dl_trainer_check_net(dl_trainer *t) {
    DL_TRY(dl_trainer_check_built(t));
    unsigned long now = dl_module_changes();
    if (t->opt->ngroup + 1 != t->groups)
        return dl_fail_hint(DL_ERR_STATE, "make a new trainer",
                            "the optimizer was given a group of parameters after the trainer had been made");
    if (t->opt->edits != t->edits)
        return dl_fail_hint(DL_ERR_STATE, "make a new trainer; the rate of this one is t.lr",
                            "options of the optimizer were changed after the trainer had been made");
    if (t->changes == now) return DL_OK;
    bool same;
    DL_TRY(take_lists(t, &same));
    if (!same)
        return dl_fail_hint(DL_ERR_STATE, "make a new trainer: it takes on the weights that the net has now",
                            "a layer of %s was replaced, or has other parameters, after the trainer had been made",
                            dl_module_name(t->model));
    t->changes = now;
    return DL_OK;
}

/* Targets that may be the numbers of classes: at several places of a sample, as tokens are, or one of a sample whose
 * dataset, as that of a function, does not know the classes. */
static bool may_be_tokens(const dl_trainer *t) {
    const dl_dataset *d = t->data;
    bool integers = d->target_dtype == DL_I64 || d->target_dtype == DL_I32, open = d->target_ndim > 0 || !d->classes;
    return !t->loss_fn && !t->loader_spec.collate && t->form.targets == 1 && integers && open;
}

/* Are the scores of the classes the last dimension of what the net gives, or the one behind the batch? */
static dl_status place_of_classes(dl_trainer *t, const dl_tensor *out) {
    const dl_dataset *d = t->data;
    bool last = true, second = true;
    for (int i = 0; i < d->target_ndim; i++) {
        last &= out->shape[1 + i] == d->target_shape[i];
        second &= out->shape[2 + i] == d->target_shape[i];
    }
    t->classes_last = last && !second;
    if (!last || !second) return DL_OK;
    return dl_fail_hint(
        DL_ERR_SHAPE,
        "say it: loss=fn (out, y) { return cross_entropy(out.flatten(0, -2), y.flatten()) } takes the "
        "last one",
        "scores of shape %s have as many classes as places: either dimension may be that of the classes",
        dl_shape_text(out->ndim, out->shape));
}

/* Integers are tokens for a net that gives scores of classes at each of their places: then cross_entropy is the loss,
 * unless one was named. */
static dl_status see_tokens(dl_trainer *t, bool named) {
    if (!may_be_tokens(t) || (named && !dl_loss_takes_labels(t->loss_op))) return DL_OK;
    dl_pack *p = dry_result(t);
    if (!p) return dl_failed();
    const dl_tensor *out = dl_pack_count(p) == 1 ? dl_pack_tensor(p, 0) : NULL;
    dl_status st = DL_OK;
    int places = t->data->target_ndim;
    if (out && out->ndim == places + 2 && (places || out->shape[1] > 1)) {
        t->classes = !t->data->padded; /* what fills a batch up is no answer */
        if (places) st = place_of_classes(t, out);
        if (!named) {
            t->loss_op = dl_op_find("cross_entropy");
            free(t->loss_name);
            t->loss_name = strdup("cross_entropy");
        }
    }
    dl_pack_unref(p);
    return st == DL_OK && !t->loss_name ? no_memory() : st;
}

static dl_status make_ema(dl_trainer *t) {
    if (t->ema_decay <= 0) return DL_OK;
    t->ema = calloc((size_t)t->nparam + 1, sizeof(dl_tensor *));
    if (!t->ema) return no_memory();
    DL_SCOPED_GRAD_MODE(0);
    for (long i = 0; i < t->nparam; i++)
        if (!(t->ema[i] = dl_clone(t->param[i]))) return dl_failed();
    return DL_OK;
}

/* Which samples are held out depends on the seed alone. */
static dl_status hold_out(dl_trainer *t) {
    long n = dl_dataset_len(t->given, DL_TRAIN);
    dl_dataset *rest, *held;
    if (t->val <= 0) return t->data ? DL_OK : (t->data = dl_dataset_ref(t->given), DL_OK);
    long out = (long)(t->val < 1 ? fmax(round(t->val * (double)n), 1) : t->val);
    DL_TRY(dl_dataset_hold_out(t->given, out, t->data_seed, &rest, &held));
    dl_replay_free(t); /* captured steps read what is freed here */
    for (int i = 0; i < DL_SPLITS; i++) {
        dl_loader_free(t->eval_loader[i]);
        t->eval_loader[i] = NULL;
        dl_resident_drop(&t->resident[i]);
        t->resident_asked[i] = false;
    }
    dl_dataset_unref(t->data);
    dl_dataset_unref(t->held);
    t->data = rest, t->held = held;
    return DL_OK;
}

dl_status dl_trainer_make_data(dl_trainer *t) {
    DL_TRY(hold_out(t));
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
    t->loader_spec = s->loader;
    dl_sampler_ref(t->loader_spec.sampler);
    dl_collate_ref(t->loader_spec.collate);
    t->loader_spec.shuffle = !s->in_order && !s->loader.sampler;
    t->data_seed = s->loader.seed ? *s->loader.seed : dl_seed_get();
    if (s->loader.transforms && !(t->transforms = strdup(s->loader.transforms))) return no_memory();
    DL_TRY(dl_trainer_make_data(t));
    t->form = *dl_loader_form(t->loader);
    DL_TRY(choose_loss(t, s));
    DL_TRY(prepare_model(t));
    t->classes = dl_dataset_classes(t->data) > 0;
    DL_TRY(see_tokens(t, s->loss != NULL));
    DL_TRY(make_ema(t));
    DL_TRY(dl_metrics_take(t, s->metrics));
    DL_TRY(dl_watch_take(t, s->stop, s->keep));
    DL_TRY(dl_saving_take(t, s));
    DL_TRY(dl_control_new(t));
    DL_TRY(dl_record_copy_spec(t, s->run));
    if (!s->store) return DL_OK;
    /* a reference of its own: the store must outlive the run */
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
        t->given = dl_dataset_ref(s->data), t->val = s->val;
        t->opt = dl_optimizer_ref(s->opt);
        t->opt->trainers++;
        t->schedule = dl_schedule_ref(s->schedule);
        t->loss_fn = s->loss_fn, t->loss_key = s->loss_key;
        t->loss_ctx = s->loss_ctx, t->loss_release = s->loss_release;
        t->accumulate = s->accumulate ? s->accumulate : 1;
        t->eval_every = s->eval_every ? s->eval_every : 1;
        t->clip_norm = s->clip_norm, t->clip_value = s->clip_value, t->ema_decay = s->ema;
        t->allow_nan = s->allow_nan, t->device = s->device;
        t->base_lr = t->lr = dl_optimizer_lr(t->opt);
        t->last_loss = t->last_acc = t->grad_norm = NAN;
        t->test_loss = t->test_acc = t->val_loss = t->val_acc = NAN;
        if (init(t, s) == DL_OK) return t;
    } else if (s->loss_release)
        s->loss_release(s->loss_ctx);
    DL_SCOPED_ERROR;
    dl_trainer_free(t);
    return NULL;
}

void dl_trainer_drop_batch(dl_trainer *t) {
    dl_batch_drop(&t->batch);
    dl_unref(t->output);
    dl_unref(t->loss_tensor);
    t->output = t->loss_tensor = NULL;
}

void dl_trainer_rest(dl_trainer *t) {
    dl_record_end(t);
    dl_store_close(t->store);
    t->store = NULL;
    dl_trainer_drop_batch(t);
}

void dl_trainer_free(dl_trainer *t) {
    if (!t) return;
    dl_saving_free(t);
    dl_control_free(t);
    dl_breaks_free(t);
    dl_past_forget(t);
    dl_mark_drop(t);
    dl_updates_drop(t);
    dl_trainer_rest(t);
    dl_record_free_spec(t);
    for (long i = 0; t->ema && i < t->nparam; i++) dl_unref(t->ema[i]);
    free(t->ema);
    free(t->param);
    free(t->grad);
    dl_best_drop(t);
    dl_metrics_free(t);
    dl_module_list_free(t->params);
    dl_module_list_free(t->state);
    dl_loader_free(t->loader);
    for (int i = 0; i < DL_SPLITS; i++) dl_loader_free(t->eval_loader[i]);
    dl_sampler_unref(t->loader_spec.sampler);
    dl_collate_unref(t->loader_spec.collate);
    dl_schedule_unref(t->schedule);
    if (t->opt) t->opt->trainers--;
    dl_optimizer_unref(t->opt);
    dl_dataset_unref(t->data);
    dl_dataset_unref(t->held);
    dl_dataset_unref(t->given);
    dl_module_unref(t->model);
    if (t->loss_release) t->loss_release(t->loss_ctx);
    free(t->loss_name);
    free(t->transforms);
    free(t);
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

/* ---------------------------------------------------------------- reading */

void dl_trainer_get(const dl_trainer *t, dl_trainer_state *out) {
    *out = (dl_trainer_state){.step = t->step,
                              .loss = t->last_loss,
                              .acc = t->last_acc,
                              .lr = t->lr,
                              .grad_norm = t->grad_norm,
                              .diverged = t->diverged,
                              .phase = (int)t->phase,
                              .error = t->error,
                              .accumulate = t->accumulate,
                              .clip_norm = t->clip_norm,
                              .clip_value = t->clip_value,
                              .ema = t->ema_decay,
                              .shuffle = t->loader_spec.shuffle,
                              .sampler = t->loader_spec.sampler != NULL,
                              .allow_nan = t->allow_nan,
                              .val = t->held ? t->val : 0,
                              .stop = t->stop.text,
                              .keep = t->keep.text,
                              .checkpoint = t->saving.path ? t->saving.path : "",
                              .stopped = t->broke ? t->broke_text : t->stopped,
                              .shows_best = dl_best_shows(t),
                              .best = t->keep.on ? t->keep.best : t->stop.best,
                              .best_step = t->keep.on ? t->keep.best_step : t->stop.best_step,
                              .transforms = t->transforms ? t->transforms : ""};
    dl_loader_position(t->loader, &out->epoch, &out->batch);
    out->batches = dl_loader_len(t->loader);
    out->run = t->run ? dl_run_id(t->run) : 0;
}

dl_module *dl_trainer_model(const dl_trainer *t) { return t->model; }
dl_optimizer *dl_trainer_optimizer(const dl_trainer *t) { return t->opt; }
dl_schedule *dl_trainer_schedule(const dl_trainer *t) { return t->schedule; }
dl_dataset *dl_trainer_dataset(const dl_trainer *t) { return t->data; }
dl_dataset *dl_trainer_given(const dl_trainer *t) { return t->given; }
dl_dataset *dl_trainer_held(const dl_trainer *t) { return t->held; }
dl_loader *dl_trainer_loader(const dl_trainer *t) { return t->loader; }
dl_run *dl_trainer_run(const dl_trainer *t) { return t->run; }
void *dl_trainer_loss_context(const dl_trainer *t) { return t->loss_ctx; }

void dl_trainer_references(dl_trainer *t, const dl_references *to) {
    dl_loader *const loaders[] = {t->loader, t->eval_loader[DL_TRAIN], t->eval_loader[DL_TEST], t->eval_loader[DL_VAL]};
    dl_dataset *const data[] = {t->given, t->data, t->held};
    to->module(to->ctx, t->model);
    for (int i = 0; i < 3; i++)
        if (data[i]) to->data(to->ctx, data[i]);
    for (int i = 0; i < 4; i++)
        if (loaders[i]) to->loader(to->ctx, loaders[i]);
    if (t->loader_spec.collate) to->collate(to->ctx, t->loader_spec.collate);
}

dl_tensor *dl_trainer_x(const dl_trainer *t) { return t->batch.x[0]; }
dl_tensor *dl_trainer_y(const dl_trainer *t) { return t->batch.y[0]; }
dl_tensor *const *dl_trainer_inputs(const dl_trainer *t) { return t->batch.x; }
dl_tensor *const *dl_trainer_targets(const dl_trainer *t) { return t->batch.y; }
dl_tensor *dl_trainer_output(const dl_trainer *t) { return t->output; }
dl_tensor *dl_trainer_loss(const dl_trainer *t) { return t->loss_tensor; }
const char *dl_trainer_loss_name(const dl_trainer *t) { return t->loss_name; }
const char *dl_trainer_capture(const dl_trainer *t) { return t->capture_state; }

dl_status dl_trainer_set_lr(dl_trainer *t, double lr) {
    if (!t) return dl_fail_null("the trainer");
    DL_TRY(dl_optimizer_put_lr(t->opt, lr));
    t->base_lr = lr;
    if (!t->schedule) t->lr = lr;
    if (t->run) dl_run_event(t->run, t->step, "lr", "changed by hand", NULL);
    return DL_OK;
}
