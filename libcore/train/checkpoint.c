/* Checkpoints: one safetensors file with all weights and states, and the rest as JSON in its metadata. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/module.h"
#include "optim/algorithm.h"
#include "core/list.h"
#include "core/scope.h"
#include "track/store.h"
#include "train/trainer.h"
#include "dlcore/copy.h"

#define KEY "dlsh.trainer"
enum { FORMAT = 1 };

/* ---------------------------------------------------------------- writing */

/* Named tensors of a checkpoint. */
typedef struct parts {
    char **name;
    dl_tensor **tensor;     /* owned */
    long n, names, tensors; /* entries; room for them */
} parts;

static dl_status add(parts *p, const char *prefix, const char *name, dl_tensor *t) {
    DL_TRY(DL_LIST_ROOM(p->name, p->n, p->names));
    DL_TRY(DL_LIST_ROOM(p->tensor, p->n, p->tensors));
    size_t size = strlen(prefix) + strlen(name) + 1;
    char *full = malloc(size);
    if (!full) return dl_fail(DL_ERR_MEMORY, "no memory for a checkpoint");
    snprintf(full, size, "%s%s", prefix, name);
    p->name[p->n] = full;
    p->tensor[p->n++] = dl_ref(t);
    return DL_OK;
}

static void parts_free(parts *p) {
    for (long i = 0; i < p->n; i++) {
        free(p->name[i]);
        dl_unref(p->tensor[i]);
    }
    free(p->name);
    free(p->tensor);
}

static dl_status add_optim(void *ctx, const char *name, dl_tensor *t) { return add(ctx, "optim.", name, t); }

static dl_status collect(dl_trainer *t, parts *p) {
    dl_module_list *all = dl_module_tensors(t->model, 3);
    if (!all) return dl_failed();
    dl_status st = DL_OK;
    for (long i = 0; i < all->n && st == DL_OK; i++)
        st = add(p, "model.", all->entries[i].path, all->entries[i].tensor);
    dl_module_list_free(all);
    for (long i = 0; t->ema && i < t->nparam && st == DL_OK; i++)
        st = add(p, "ema.", t->params->entries[i].path, t->ema[i]);
    for (long i = 0; i < t->opt->n && st == DL_OK; i++)
        for (int s = 0; s < DL_OPTIM_STATES && st == DL_OK; s++) {
            char name[DL_PATH_MAX + 64];
            if (!t->opt->param[i].state[s]) continue;
            dl_optimizer_state_name(t->opt, i, s, name, sizeof name);
            st = add(p, "optim.", name, t->opt->param[i].state[s]);
        }
    if (st == DL_OK && dl_closure_needed(t)) st = t->opt->row->algorithm->state(t->opt->algorithm, add_optim, p);
    for (long i = 0; t->best && i < dl_best_count(t) && st == DL_OK; i++) {
        char name[DL_PATH_MAX + 16];
        dl_best_name(t, i, name, sizeof name);
        st = add(p, "", name, t->best[i]);
    }
    return st;
}

/* 64 bits that JSON's integers may not hold. */
static json_t *word(unsigned long v) {
    char text[32];
    snprintf(text, sizeof text, "%lu", v);
    return json_string(text);
}

/* Reals keep all digits; JSON has no NaN and no infinities, which become words. */
static json_t *real(double v) {
    return isfinite(v) ? json_real(v) : json_string(isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

/* What evaluations have given so far. */
static json_t *watched(const dl_watch *w) {
    return json_pack("{s:s, s:o, s:I, s:I}", "as", w->text, "best", real(w->best), "step", (json_int_t)w->best_step,
                     "bad", (json_int_t)w->bad);
}

/* The run and the time: what comes later is withdrawn when the run goes on from here. */
static json_t *run_of(const dl_trainer *t) {
    return json_pack("{s:s, s:I}", "uuid", t->run ? dl_run_uuid(t->run) : "", "taken_us",
                     (json_int_t)(t->run ? dl_run_now(t->run) : dl_now_us()));
}

static char *describe(dl_trainer *t, bool shows_best) {
    long epoch, batch;
    double scale[2];
    if (dl_control_scale(t, scale) != DL_OK) return NULL;
    dl_loader_position(t->loader, &epoch, &batch);
    json_t *rng = json_array(), *steps = json_array(), *sched = json_array();
    for (int i = 0; i < DL_NSTREAM; i++) json_array_append_new(rng, word(dl_rng_position((dl_stream)i)));
    for (long i = 0; i < t->opt->n; i++) json_array_append_new(steps, json_integer(t->opt->param[i].steps));
    double state[DL_SCHEDULE_STATE] = {0};
    if (t->schedule) dl_schedule_get_state(t->schedule, state);
    for (int i = 0; t->schedule && i < DL_SCHEDULE_STATE; i++) json_array_append_new(sched, real(state[i]));
    json_t *scales = json_pack("[f, f]", scale[0], scale[1]);
    json_t *j = json_pack("{s:o, s:i, s:I, s:I, s:I, s:o, s:o, s:o, s:s, s:I, s:o, s:o, s:o, s:s, s:o, s:o, s:I}",
                          "loss_scale", scales, "format", FORMAT, "step", (json_int_t)t->step, "epoch",
                          (json_int_t)epoch, "batch", (json_int_t)batch, "seed", word(dl_seed_get()), "data_seed",
                          word(t->data_seed), "rng", rng, "optimizer", t->opt->row->kind.name, "optimizer_steps",
                          (json_int_t)t->opt->steps, "param_steps", steps, "base_lr", real(t->base_lr), "lr",
                          real(t->lr), "schedule", t->schedule ? dl_schedule_text(t->schedule) : "", "schedule_state",
                          sched, "run", run_of(t), "batch_size", (json_int_t)dl_loader_batch(t->loader));
    json_object_set_new(j, "val", json_real(t->val));
    json_object_set_new(j, "stop", watched(&t->stop));
    json_object_set_new(j, "keep", watched(&t->keep));
    json_object_set_new(j, "stopped", json_string(t->stopped));
    json_object_set_new(j, "shows_best", json_boolean(shows_best));
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (!text) dl_fail(DL_ERR_MEMORY, "no memory for a checkpoint");
    return text;
}

static dl_status save(dl_trainer *t, const char *path, bool shows_best) {
    parts p = {0};
    dl_status st = collect(t, &p);
    char *state = st == DL_OK ? describe(t, shows_best) : NULL, *text = dl_module_text(t->model);
    if (state && text) {
        const char *meta[] = {
            KEY, state, "dlsh.model", text, "dlsh.name", dl_module_name(t->model), "dlsh.version", dl_version(), NULL};
        dl_run_saving(t->run, "checkpoint", t->step);
        st = dl_tensors_write(path, DL_HOLDS_TRAINER, p.n, (const char *const *)p.name, p.tensor, meta);
        dl_run_saving(NULL, NULL, 0);
    } else if (st == DL_OK)
        st = dl_failed();
    parts_free(&p);
    free(state);
    dl_text_free(text);
    return st;
}

/* The net goes on with the weights of the last step, also where it shows the best ones. */
dl_status dl_trainer_save(dl_trainer *t, const char *path) {
    if (!t) return dl_fail_null("the trainer");
    if (t->micro || t->phase == DL_PHASE_BACKWARD)
        return dl_fail_hint(DL_ERR_STATE, "update t first", "a checkpoint is taken between steps, not within one");
    DL_TRY(dl_trainer_check_net(t));
    DL_TRY(dl_report_drain(t));
    const bool shows_best = dl_best_shows(t);
    DL_TRY(dl_best_leave(t));
    dl_status st = save(t, path, shows_best);
    if (!shows_best) return st;
    if (st == DL_OK) return dl_best_enter(t);
    DL_SCOPED_ERROR;
    dl_best_enter(t);
    return st;
}

/* ---------------------------------------------------------------- reading */

static long number(const json_t *j, const char *key) { return (long)json_integer_value(json_object_get(j, key)); }

static unsigned long read_word(const json_t *v) {
    const char *s = json_string_value(v);
    return s ? strtoul(s, NULL, 10) : 0;
}

static double read_real(const json_t *v) {
    const char *word = json_string_value(v);
    return json_is_number(v) ? json_number_value(v) : word ? strtod(word, NULL) : NAN;
}

static dl_status check_watch(const json_t *j, const char *option, const dl_watch *w, const char *path) {
    const char *as = json_string_value(json_object_get(json_object_get(j, option), "as"));
    if (!strcmp(as ? as : "", w->text)) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "%s was saved with %s=\"%s\", the trainer has \"%s\"", path, option, as ? as : "",
                   w->text);
}

/* Was it saved by a trainer with the same optimizer, schedule, batches and parameters? */
static dl_status check(dl_trainer *t, const json_t *j, const char *path) {
    const char *opt = json_string_value(json_object_get(j, "optimizer"));
    const char *sched = json_string_value(json_object_get(j, "schedule"));
    const char *mine = t->schedule ? dl_schedule_text(t->schedule) : "";
    if (number(j, "format") != FORMAT)
        return dl_fail(DL_ERR_FORMAT, "%s is a checkpoint of format %ld; this version reads %d", path,
                       number(j, "format"), FORMAT);
    if (!opt || strcmp(opt, t->opt->row->kind.name))
        return dl_fail(DL_ERR_VALUE, "%s was saved with the optimizer %s, the trainer has %s", path, opt ? opt : "?",
                       t->opt->row->kind.name);
    if (!sched || strcmp(sched, mine))
        return dl_fail(DL_ERR_VALUE, "%s was saved with the schedule %s, the trainer has %s", path,
                       sched && *sched ? sched : "none", *mine ? mine : "none");
    if (number(j, "batch_size") != dl_loader_batch(t->loader))
        return dl_fail(DL_ERR_VALUE, "%s was saved with batches of %ld, the trainer has %ld", path,
                       number(j, "batch_size"), dl_loader_batch(t->loader));
    if (fabs(json_number_value(json_object_get(j, "val")) - t->val) > 0)
        return dl_fail(DL_ERR_VALUE, "%s was saved with val=%g, the trainer has val=%g", path,
                       json_number_value(json_object_get(j, "val")), t->val);
    DL_TRY(check_watch(j, "stop", &t->stop, path));
    DL_TRY(check_watch(j, "keep", &t->keep, path));
    if ((long)json_array_size(json_object_get(j, "param_steps")) != t->opt->n)
        return dl_fail(DL_ERR_VALUE, "%s has the state of %zu parameters, the optimizer has %ld", path,
                       json_array_size(json_object_get(j, "param_steps")), t->opt->n);
    return DL_OK;
}

static dl_tensor *find_state(const dl_trainer *t, const dl_tensor_file *f, long i, int s) {
    char name[DL_PATH_MAX + 64] = "optim.";
    dl_optimizer_state_name(t->opt, i, s, name + 6, sizeof name - 6);
    return dl_tensor_file_find(f, name);
}

static dl_tensor *find_average(const dl_trainer *t, const dl_tensor_file *f, long i) {
    char name[DL_PATH_MAX + 8];
    snprintf(name, sizeof name, "ema.%s", t->params->entries[i].path);
    return dl_tensor_file_find(f, name);
}

/* Of an optimizer that is an algorithm. */
static dl_tensor *find_kept(const void *ctx, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "optim.%s", name);
    return dl_tensor_file_find(ctx, full);
}

/* `write` off: only looks whether it fits. */
static dl_status restore_algorithm(dl_trainer *t, const dl_tensor_file *f, bool write) {
    return dl_closure_needed(t) ? t->opt->row->algorithm->restore(t->opt, find_kept, f, write) : DL_OK;
}

/* Has the file all tensors of the trainer, and positions that exist? Only then anything is changed. */
static dl_status check_contents(dl_trainer *t, const dl_tensor_file *f, const json_t *j, const char *path) {
    DL_TRY(dl_module_check_file(t->model, f, path, "model."));
    for (long i = 0; i < t->opt->n; i++)
        for (int s = 0; s < DL_OPTIM_STATES && t->opt->row->state[s]; s++) {
            const dl_tensor *kept = find_state(t, f, i, s);
            if (kept) DL_TRY(dl_optimizer_check_restore(t->opt, i, s, kept));
        }
    for (long i = 0; t->ema && i < t->nparam; i++) {
        const dl_tensor *kept = find_average(t, f, i), *own = t->ema[i];
        if (!kept) return dl_fail(DL_ERR_NAME, "%s has no averaged weights; make the trainer without ema", path);
        if (!dl_shape_eq(kept, own))
            return dl_fail(DL_ERR_SHAPE, "%s: the average of '%s' has shape %s, the parameter %s", path,
                           t->params->entries[i].path, dl_shape_text(kept->ndim, kept->shape),
                           dl_shape_text(own->ndim, own->shape));
    }
    DL_TRY(restore_algorithm(t, f, false));
    DL_TRY(dl_optimizer_check_lr(read_real(json_object_get(j, "lr"))));
    return dl_loader_check_position(t->loader, number(j, "epoch"), number(j, "batch"));
}

static dl_status restore_optimizer(dl_trainer *t, const json_t *j, const dl_tensor_file *f) {
    const json_t *steps = json_object_get(j, "param_steps");
    DL_TRY(restore_algorithm(t, f, true));
    for (long i = 0; i < t->opt->n; i++) {
        for (int s = 0; s < DL_OPTIM_STATES && t->opt->row->state[s]; s++) {
            dl_tensor *kept = find_state(t, f, i, s);
            if (kept)
                DL_TRY(dl_optimizer_restore(t->opt, i, s, kept));
            else {
                dl_unref(t->opt->param[i].state[s]);
                t->opt->param[i].state[s] = NULL;
            }
        }
        t->opt->param[i].steps = (long)json_integer_value(json_array_get(steps, (size_t)i));
    }
    t->opt->steps = number(j, "optimizer_steps");
    return DL_OK;
}

static dl_status restore_ema(dl_trainer *t, const dl_tensor_file *f) {
    for (long i = 0; t->ema && i < t->nparam; i++) {
        DL_SCOPED_GRAD_MODE(0);
        DL_OWNED dl_tensor *there = dl_to_device(find_average(t, f, i), t->device);
        DL_TRY(there ? dl_assign(t->ema[i], there) : dl_failed());
    }
    return DL_OK;
}

static dl_status restore_positions(dl_trainer *t, const json_t *j) {
    const json_t *rng = json_object_get(j, "rng"), *sched = json_object_get(j, "schedule_state");
    dl_seed(read_word(json_object_get(j, "seed")));
    for (int i = 0; i < DL_NSTREAM; i++) dl_rng_seek((dl_stream)i, read_word(json_array_get(rng, (size_t)i)));
    unsigned long seed = read_word(json_object_get(j, "data_seed"));
    if (seed != t->data_seed) {
        t->data_seed = seed;
        DL_TRY(dl_trainer_make_data(t));
    }
    DL_TRY(dl_loader_seek(t->loader, number(j, "epoch"), number(j, "batch")));
    t->epoch = number(j, "epoch");
    t->step = number(j, "step");
    t->base_lr = read_real(json_object_get(j, "base_lr"));
    t->lr = read_real(json_object_get(j, "lr"));
    const json_t *scale = json_object_get(j, "loss_scale");
    t->loss_scale = json_number_value(json_array_get(scale, 0));
    t->loss_scale_good = json_number_value(json_array_get(scale, 1));
    if (!t->schedule) return DL_OK;
    double state[DL_SCHEDULE_STATE];
    for (int i = 0; i < DL_SCHEDULE_STATE; i++) state[i] = read_real(json_array_get(sched, (size_t)i));
    dl_schedule_set_state(t->schedule, state);
    return DL_OK;
}

static void restore_watch(const json_t *j, dl_watch *w) {
    w->best = w->on ? read_real(json_object_get(j, "best")) : NAN;
    w->best_step = number(j, "step"), w->bad = number(j, "bad");
}

/* What evaluations have given, and the weights of the best. */
static dl_status restore_best(dl_trainer *t, const json_t *j, const dl_tensor_file *f) {
    char name[DL_PATH_MAX + 16];
    restore_watch(json_object_get(j, "stop"), &t->stop);
    restore_watch(json_object_get(j, "keep"), &t->keep);
    const char *stopped = json_string_value(json_object_get(j, "stopped"));
    snprintf(t->stopped, sizeof t->stopped, "%s", stopped ? stopped : "");
    dl_best_drop(t);
    dl_best_name(t, 0, name, sizeof name);
    if (!t->keep.on || !dl_best_count(t) || !dl_tensor_file_find(f, name)) return DL_OK;
    DL_TRY(dl_best_keep(t));
    for (long i = 0; i < dl_best_count(t); i++) {
        DL_SCOPED_GRAD_MODE(0);
        dl_best_name(t, i, name, sizeof name);
        dl_tensor *kept = dl_tensor_file_find(f, name);
        if (!kept) return dl_fail(DL_ERR_FORMAT, "the file lacks %s", name);
        DL_OWNED dl_tensor *there = dl_to_device(kept, t->device);
        DL_TRY(there ? dl_assign(t->best[i], there) : dl_failed());
    }
    return json_is_true(json_object_get(j, "shows_best")) ? dl_best_enter(t) : DL_OK;
}

/* The run continues from the checkpoint; where it cannot be resumed, training begins a new one. */
static dl_status restore_run(dl_trainer *t, const json_t *j, const char *path) {
    const json_t *run = json_object_get(j, "run");
    const char *uuid = json_string_value(json_object_get(run, "uuid"));
    const long taken = (long)json_integer_value(json_object_get(run, "taken_us"));
    long id;
    if (t->run) return dl_run_rewind(t->run, t->step + 1, uuid && !strcmp(uuid, dl_run_uuid(t->run)) ? taken : 0);
    if (!t->store || !*dl_store_path(t->store)) return DL_OK;
    if (json_integer_value(run) > 0)
        dl_store_warn(
            t->store,
            "%.200s is of an earlier version and does not say which run it is of: the training goes on in a new "
            "run",
            path);
    if (!uuid || !*uuid) return DL_OK;
    if (dl_run_is_open(uuid)) return DL_OK; /* of another trainer, which goes on by itself */
    if (dl_run_find(t->store, uuid, &id) == DL_OK) t->run = dl_run_resume(t->store, id, t->step + 1, taken);
    if (!t->run) {
        dl_store_warn(t->store, "the run of %.200s (%.8s) is not taken up, the training goes on in a new one: %.300s",
                      path, uuid, dl_errmsg());
        dl_error_clear();
        return DL_OK;
    }
    DL_TRY(dl_record_open_series(t));
    return t->run_spec.tensorboard ? dl_run_tensorboard(t->run, t->run_spec.tensorboard) : DL_OK;
}

static dl_status restore(dl_trainer *t, const dl_tensor_file *f, const json_t *j, const char *path) {
    DL_TRY(check(t, j, path));
    DL_TRY(check_contents(t, f, j, path));
    DL_TRY(dl_module_load_file(t->model, f, path, "model."));
    DL_TRY(restore_optimizer(t, j, f));
    DL_TRY(restore_ema(t, f));
    DL_TRY(restore_positions(t, j));
    DL_TRY(dl_optimizer_put_lr(t->opt, t->lr));
    DL_TRY(dl_control_reset(t));
    t->phase = DL_PHASE_IDLE;
    t->micro = 0;
    t->diverged = false;
    t->error[0] = 0;
    DL_TRY(restore_best(t, j, f));
    return restore_run(t, j, path);
}

dl_status dl_trainer_load(dl_trainer *t, const char *path) {
    if (!t) return dl_fail_null("the trainer");
    DL_TRY(dl_trainer_check_net(t));
    DL_TRY(dl_report_drain(t));
    dl_tensor_file *f = dl_tensors_read(path, 0);
    if (!f) return dl_failed();
    const char *text = dl_tensor_file_meta(f, KEY);
    json_error_t je;
    json_t *j = text ? json_loads(text, JSON_REJECT_DUPLICATES, &je) : NULL;
    dl_status st;
    DL_SCOPED_INTERRUPT_HOLD(1);
    if (j) {
        st = restore(t, f, j, path);
        if (st == DL_OK) dl_past_forget(t);
    } else if (text)
        st = dl_fail(DL_ERR_FORMAT, "%s: the state of the trainer is not valid JSON: %.100s", path, je.text);
    else
        st = dl_fail_hint(DL_ERR_FORMAT, "load m \"FILE\" reads weights alone", "%s is not a checkpoint of a trainer",
                          path);
    json_decref(j);
    dl_tensor_file_free(f);
    return st == DL_OK ? st : dl_error_of_file(path);
}

/* ---------------------------------------------------------------- in memory */

struct dl_checkpoint {
    parts p; /* copies */
    json_t *state;
};

static dl_status take_copies(dl_trainer *t, dl_checkpoint *c) {
    DL_SCOPED_GRAD_MODE(0);
    dl_status st = collect(t, &c->p);
    for (long i = 0; i < c->p.n; i++) {
        dl_tensor *from = c->p.tensor[i];
        c->p.tensor[i] = st != DL_OK ? NULL : from->st->device ? dl_to_device(from, 0) : dl_clone(from);
        dl_unref(from);
        if (!c->p.tensor[i]) st = dl_failed();
    }
    DL_TRY(st);
    char *text = describe(t, false);
    if (!text) return dl_failed();
    c->state = json_loads(text, 0, NULL);
    free(text);
    /* steps that are made again log again what has a step alone */
    json_object_del(json_object_get(c->state, "run"), "taken_us");
    return c->state ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a checkpoint");
}

dl_checkpoint *dl_checkpoint_take(dl_trainer *t) {
    dl_checkpoint *c = calloc(1, sizeof *c);
    if (!c) return dl_fail(DL_ERR_MEMORY, "no memory for a checkpoint"), NULL;
    if (take_copies(t, c) == DL_OK) return c;
    dl_checkpoint_free(c);
    return NULL;
}

dl_status dl_checkpoint_put_back(dl_trainer *t, const dl_checkpoint *c) {
    DL_SCOPED_INTERRUPT_HOLD(1);
    dl_tensor_file *f = dl_tensor_file_of(c->p.n, (const char *const *)c->p.name, c->p.tensor);
    dl_status st = f ? restore(t, f, c->state, "the trainer") : dl_failed();
    dl_tensor_file_free(f);
    return st;
}

void dl_checkpoint_free(dl_checkpoint *c) {
    if (!c) return;
    parts_free(&c->p);
    json_decref(c->state);
    free(c);
}

long dl_checkpoint_step(const dl_checkpoint *c) { return number(c->state, "step"); }

size_t dl_checkpoint_bytes(const dl_checkpoint *c) {
    size_t sum = 0;
    for (long i = 0; i < c->p.n; i++) sum += c->p.tensor[i]->st->bytes;
    return sum;
}

static bool same_bits(const dl_tensor *a, const dl_tensor *b) {
    return a->st->bytes == b->st->bytes && !memcmp(a->st->data, b->st->data, a->st->bytes);
}

const char *dl_checkpoint_difference(const dl_checkpoint *a, const dl_checkpoint *b, bool random) {
    for (long i = 0; i < a->p.n; i++)
        if (i >= b->p.n || strcmp(a->p.name[i], b->p.name[i]) || !same_bits(a->p.tensor[i], b->p.tensor[i]))
            return a->p.name[i];
    const char *key;
    json_t *value;
    json_object_foreach(a->state, key, value) { /* the run may have been opened since */
        if (!random && (!strcmp(key, "rng") || !strcmp(key, "seed"))) continue;
        if (strcmp(key, "run") && !json_equal(value, json_object_get(b->state, key))) return key;
    }
    return NULL;
}

/* The hashes of the tensors and of their names, and that of the rest but the run. */
dl_status dl_checkpoint_hash(const dl_checkpoint *c, char out[65]) {
    enum { DIGITS = 64 };
    json_t *rest = json_copy(c->state);
    json_object_del(rest, "run");
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS), *all = malloc(DIGITS * (size_t)(2 * c->p.n + 1) + 1);
    json_decref(rest);
    char *at = all;
    for (long i = 0; text && all && i < c->p.n; i++, at += 2 * DIGITS) {
        dl_sha256_hex(c->p.name[i], strlen(c->p.name[i]), at);
        dl_sha256_hex(c->p.tensor[i]->st->data, c->p.tensor[i]->st->bytes, at + DIGITS);
    }
    bool there = text && all;
    if (there) {
        dl_sha256_hex(text, strlen(text), at);
        dl_sha256_hex(all, (uint64_t)(at - all) + DIGITS, out);
    }
    free(text);
    free(all);
    return there ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a hash");
}
