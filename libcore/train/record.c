/* What a trainer leaves in the experiment store. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "nn/module.h"
#include "track/whoami.h"
#include "train/trainer.h"

static const char *const metric_names[DL_NMETRIC] = {"train/loss", "train/acc", "lr", "grad_norm",
                                                     "perf/samples_per_s"};

/* ---------------------------------------------------------------- the caller's part of the record */

static void free_pairs(const char *const *pairs) {
    for (long i = 0; pairs && pairs[i]; i++) free((char *)pairs[i]);
    free((void *)pairs);
}

/* The texts of a spec that are the caller's to give. */
#define TEXTS(X)                                                                                                       \
    X(name) X(experiment) X(group) X(script_path) X(script_text) X(script_args) X(cmdline) X(note) X(tensorboard)

/* A copy of a list of keys and values; NULL without memory. */
static const char *const *copy_pairs(const char *const *from) {
    long n = 0;
    while (from[n]) n++;
    const char **to = calloc((size_t)n + 1, sizeof *to);
    for (long i = 0; to && i < n; i++)
        if (!(to[i] = strdup(from[i]))) return free_pairs(to), NULL;
    return to;
}

dl_status dl_record_copy_spec(dl_trainer *t, const dl_run_spec *s) {
    if (!s) return DL_OK;
    bool ok = !s->arguments || (t->run_spec.arguments = copy_pairs(s->arguments));
#define COPY(field)                                                                                                    \
    if (s->field) ok &= (t->run_spec.field = strdup(s->field)) != NULL;
    TEXTS(COPY)
#undef COPY
    t->run_spec.parent = s->parent, t->run_spec.sweep = s->sweep;
    return ok ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for the description of a run");
}

void dl_record_free_spec(dl_trainer *t) {
#define FREE(field) free((char *)t->run_spec.field);
    TEXTS(FREE)
#undef FREE
    free_pairs(t->run_spec.arguments);
}

/* ---------------------------------------------------------------- hyperparameters */

enum { MAX_PARAMS = 48 };
typedef struct params {
    const char *kv[2 * MAX_PARAMS + 1];
    char value[MAX_PARAMS][160];
    int n;
} params;

static void add(params *p, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void add(params *p, const char *key, const char *fmt, ...) {
    if (p->n == MAX_PARAMS) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->value[p->n], sizeof p->value[0], fmt, ap);
    va_end(ap);
    p->kv[2 * p->n] = key;
    p->kv[2 * p->n + 1] = p->value[p->n];
    p->kv[2 * ++p->n] = NULL;
}

static void add_all(params *p, const dl_trainer *t) {
    const dl_kind_row *k = &t->opt->row->kind;
    add(p, "opt", "%s", k->name);
    for (int i = 0; k->options[i].name; i++) {
        char text[128];
        dl_optval_text(&k->options[i], &t->opt->val[i], text, sizeof text);
        if (!strcmp(k->options[i].name, "lr"))
            add(p, "lr", "%.10g", t->base_lr); /* it may have been set since */
        else
            add(p, k->options[i].name, "%s", text);
    }
    for (int i = 0; i < t->opt->ngroup; i++) add(p, "opt_group", "%s", t->opt->group[i].pattern);
    add(p, "loss", "%s", t->loss_name);
    add(p, "batch", "%ld", dl_loader_batch(t->loader));
    add(p, "schedule", "%s", t->schedule ? dl_schedule_text(t->schedule) : "none");
    add(p, "accumulate", "%ld", t->accumulate);
    add(p, "clip_norm", "%g", t->clip_norm);
    add(p, "clip_value", "%g", t->clip_value);
    add(p, "ema", "%g", t->ema_decay);
    add(p, "shuffle", "%s", t->loader_spec.shuffle ? "true" : "false");
    if (t->loader_spec.sampler) add(p, "sampler", "%s", dl_sampler_kind(t->loader_spec.sampler));
    add(p, "drop_last", "%s", t->loader_spec.drop_last ? "true" : "false");
    add(p, "transforms", "%s", t->transforms ? t->transforms : "none");
    add(p, "data_seed", "%lu", t->data_seed);
    add(p, "data_options", "%s", dl_dataset_options(t->given));
    bool mixed = !t->nparam || dl_dtype_of(t->param[0]) == DL_F32;
    add(p, "precision", "%s", mixed ? dl_precision_name(dl_precision_get()) : dl_dtype_name(dl_dtype_of(t->param[0])));
    if (t->held) add(p, "val", "%g", t->val);
    if (t->stop.on) add(p, "stop", "%s", t->stop.text);
    if (t->keep.on) add(p, "keep", "%s", t->keep.text);
    if (!dl_deterministic_get()) add(p, "deterministic", "false");
}

/* ---------------------------------------------------------------- the run */

dl_status dl_record_open_series(dl_trainer *t) {
    t->epochs_at = 0;
    for (int i = 0; i < DL_NMETRIC; i++) {
        if (i == DL_M_ACC && !t->classes) continue;
        t->series[i] = dl_series_of(t->run, metric_names[i]);
        if (!t->series[i]) return dl_failed();
    }
    return DL_OK;
}

dl_status dl_record_begin(dl_trainer *t) {
    if (t->run || !t->store) return DL_OK;
    params *p = calloc(1, sizeof *p);
    char *text = dl_module_text(t->model);
    dl_status st = p && text ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for the description of a run");
    if (st == DL_OK) {
        add_all(p, t);
        dl_run_spec s = t->run_spec;
        s.device = dl_device_name(t->device);
        s.seed = dl_seed_get();
        s.model_name = dl_module_name(t->model);
        s.model_text = text;
        s.n_params = dl_module_params(t->model);
        s.dataset = dl_dataset_name(t->given);
        s.data_fingerprint = dl_dataset_fingerprint(t->given);
        s.params = p->kv;
        t->run = dl_run_begin(t->store, &s);
        st = t->run ? dl_record_open_series(t) : dl_failed();
    }
    free(p);
    dl_text_free(text);
    return st;
}

enum { EPOCHS_EVERY = 100 /* steps after which the epochs done are recorded, beside the ends of epochs */ };

/* A store that cannot keep a point must not stop the training: it warns by itself. */
static void push(dl_series *s, long step, double v) {
    if (s && dl_series_push(s, step, v) != DL_OK) dl_error_clear();
}

static void push_epochs(dl_trainer *t) {
    if (!t->run || t->epochs_at == t->step) return;
    if (dl_metric(t->run, "epoch", t->step, t->epochs) != DL_OK) dl_error_clear();
    t->epochs_at = t->step;
}

void dl_record_step(dl_trainer *t, const dl_issued *after) {
    double v[DL_NMETRIC] = {t->last_loss, t->last_acc, t->lr, t->grad_norm, t->speed};
    for (int i = 0; i < DL_NMETRIC; i++) push(t->series[i], t->step, v[i]);
    const long len = dl_loader_len(t->loader);
    t->epochs = (double)after->epoch + (len ? (double)after->batch / (double)len : 0);
    /* Between these steps the epochs rise evenly, which is how plots take them. Steps that are made again, after the
     * run went back, leave the points that they left before. */
    if (t->step <= t->epochs_at) t->epochs_at = t->step - 1;
    if (!t->epochs_at || t->step % EPOCHS_EVERY == 0 || after->batch >= len) push_epochs(t);
}

void dl_record_divergence(dl_trainer *t, const char *what) {
    if (!t->run) return;
    push(t->series[DL_M_LOSS], t->step + 1, t->last_loss);
    if (dl_run_event(t->run, t->step + 1, "nan", what, NULL) != DL_OK) dl_error_clear();
}

static dl_status push_figure(dl_trainer *t, dl_split split, const char *figure, double v) {
    char name[256];
    snprintf(name, sizeof name, "%s%s", dl_watch_prefix(split), figure);
    return dl_metric(t->run, name, t->step, v);
}

void dl_record_stop(dl_trainer *t) {
    if (t->run && dl_run_event(t->run, t->step, "stop", t->stopped, NULL) != DL_OK) dl_error_clear();
}

void dl_record_best(dl_trainer *t) {
    if (t->run && dl_metric(t->run, "best_step", t->step, (double)t->step) != DL_OK) dl_error_clear();
}

void dl_record_eval(dl_trainer *t, dl_split split, const dl_eval_result *r) {
    if (!t->run) return;
    dl_status st = push_figure(t, split, "loss", r->loss);
    if (!isnan(r->acc)) st |= push_figure(t, split, "acc", r->acc);
    for (int i = 0; i < r->nmetrics; i++) st |= push_figure(t, split, r->metric_name[i], r->metric[i]);
    st |= dl_metric(t->run, "perf/memory_mb", t->step, (double)dl_host_peak() / 1048576.0);
    if (st != DL_OK) dl_error_clear();
}

dl_status dl_record_failure(dl_trainer *t, dl_status st) {
    t->error[0] = 0;
    if (st != DL_OK && st != DL_ERR_INTERRUPT) snprintf(t->error, sizeof t->error, "%s", dl_errmsg());
    return st;
}

void dl_trainer_fail(dl_trainer *t, const char *error) {
    if (strstr(error, t->error))
        snprintf(t->error, sizeof t->error, "%s", error); /* none, or the same with its place */
}

/* ---------------------------------------------------------------- the end */

/* A line of the text whose hash is that of the weights: name, dtype, shape, hash of the elements. */
static dl_status put_tensor(FILE *out, const dl_module_entry *e, int device) {
    char sha[65];
    DL_OWNED dl_tensor *here = device ? dl_to_device(e->tensor, 0) : dl_ref(e->tensor);
    DL_OWNED dl_tensor *dense = here ? dl_contiguous(here) : NULL;
    if (!dense) return dl_failed();
    dl_sha256_hex(dl_data(dense), (uint64_t)(dl_numel(dense) * dl_dtype_size(dl_dtype_of(dense))), sha);
    fprintf(out, "%s %s %s %s\n", e->path, dl_dtype_name(dl_dtype_of(dense)), dl_shape_text(dense->ndim, dense->shape),
            sha);
    return DL_OK;
}

/* SHA-256 of the parameters and buffers of the net, with which a run that is done again is compared. */
static dl_status hash_weights(const dl_trainer *t, char sha[65]) {
    char *text = NULL;
    size_t n = 0;
    DL_SCOPED_GRAD_MODE(0);
    dl_module_list *all = dl_module_tensors(t->model, 3);
    if (!all) return dl_failed();
    FILE *out = open_memstream(&text, &n);
    dl_status st = out ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a hash of the weights");
    for (long i = 0; i < all->n && st == DL_OK; i++) st = put_tensor(out, &all->entries[i], t->device);
    if (out && fclose(out) && st == DL_OK) st = dl_fail(DL_ERR_MEMORY, "no memory for a hash of the weights");
    if (st == DL_OK) dl_sha256_hex(text, n, sha);
    free(text);
    dl_module_list_free(all);
    return st;
}

static void record_weights(dl_trainer *t) {
    char sha[65];
    if (!dl_run_id(t->run)) return;
    dl_error before;
    dl_status had = dl_error_take(&before);
    if (hash_weights(t, sha) != DL_OK || dl_run_event(t->run, t->step, "weights", sha, NULL) != DL_OK) dl_error_clear();
    if (had) dl_error_put(&before);
}

dl_status dl_record_end(dl_trainer *t) {
    if (!t->run) return DL_OK;
    if (t->epochs_at) push_epochs(t);
    record_weights(t);
    dl_run_status how = t->diverged ? DL_RUN_DIVERGED : t->error[0] ? DL_RUN_FAILED : DL_RUN_FINISHED;
    dl_status st = dl_run_end(t->run, how, t->error[0] ? t->error : NULL);
    t->run = NULL;
    memset(t->series, 0, sizeof t->series);
    return st;
}
