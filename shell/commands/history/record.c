/* start_run(...), runs as values with log and end, and the log method of trainers. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/context.h"
#include "commands/data/data.h"
#include "commands/history/history.h"
#include "commands/history/redo.h"
#include "commands/nets/nets.h"
#include "commands/record_file.h"

/* A run that is open in the store, until it is ended or forgotten. */
typedef struct recording {
    dl_store *store;
    dl_run *run; /* NULL: ended */
    char *name;
    long id, step; /* the last step that was logged */
    struct recording *older;
} recording;

static recording *open_recordings;

/* ---------------------------------------------------------------- runs as values */

static dl_status end(recording *r, const char *error) {
    dl_run *run = r->run;
    r->run = NULL;
    return run ? dl_run_end(run, error ? DL_RUN_FAILED : DL_RUN_FINISHED, error) : DL_OK;
}

static void destroy(void *self) {
    recording *r = self;
    if (!r) return;
    recording **at = &open_recordings;
    while (*at && *at != r) at = &(*at)->older;
    if (*at) *at = r->older;
    end(r, dlsh_ended_by());
    if (r->store) dl_store_close(r->store);
    free(r->name);
    free(r);
}

static dl_status text(void *self, dlsh_buf *out) {
    recording *r = self;
    dlsh_buf_printf(out, "<run %ld%s%s, step %ld%s>", r->id, *r->name ? " " : "", r->name, r->step,
                    r->run ? "" : ", ended");
    return DL_OK;
}

dl_run *dlsh_recording_run(void *self, long *step) {
    recording *r = self;
    *step = r->step;
    return r->run;
}

/* The run at work, when it is one of a loop written by hand. */
static const recording *at_work(void) {
    const recording *r = open_recordings;
    while (r && (!r->run || r->run != dl_run_active())) r = r->older;
    return r;
}

dl_look *dlsh_update_before(const dl_optimizer *o) { return at_work() ? dl_update_before(o) : NULL; }

void dlsh_update_after(dl_look *look, const dl_optimizer *o, dl_status stepped) {
    const recording *r = at_work();
    dl_update_after(look, o, r && !stepped ? r->run : NULL, r ? r->step + 1 : 0);
}

/* Is the run that is at work one of a loop written by hand, and is this a state to go on from: of a net or an
 * optimizer, after a step? */
static dl_run *run_of_state(const dlsh_record *state, long *step) {
    const recording *r = at_work();
    const dlsh_value *number = dlsh_record_get(state, "step");
    int learns = 0;
    for (int i = 0; i < state->n; i++)
        learns |=
            dlsh_unwrap(state->values[i], &dlsh_net_class) || dlsh_unwrap(state->values[i], &dlsh_optimizer_class);
    if (!r || !learns || !number || number->type != DLSH_INT || number->as.i < 0) return NULL;
    *step = number->as.i;
    return r->run;
}

dl_status dlsh_save_state(dlsh_record *state, const char *path) {
    long step = 0;
    dl_run *run = run_of_state(state, &step);
    if (run) dl_run_saving(run, DLSH_BY_HAND, step);
    dl_status st = dlsh_record_save(state, path);
    if (run) dl_run_saving(NULL, NULL, 0);
    return st;
}

DLSH_GETTER(get_id, dlsh_int(((recording *)self)->id))
DLSH_GETTER(get_name, dlsh_string(((recording *)self)->name))
DLSH_GETTER(get_step, dlsh_int(((recording *)self)->step))

static const dlsh_field fields[] = {{"id", "its number in the store; 0 in a store that keeps nothing", get_id, NULL},
                                    {"name", "the name given to it", get_name, NULL},
                                    {"step", "the last step that was logged", get_step, NULL},
                                    {NULL, NULL, NULL, NULL}};

/* ---------------------------------------------------------------- r.log(...), t.log(...), r.end() */

static dl_status number_of(const char *metric, dlsh_value v, double *out) {
    if (v.type == DLSH_TENSOR) return dl_item_f(v.as.tensor, out);
    if (v.type != DLSH_BOOL && !dlsh_is_number(v))
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s must be a number, got %s", metric, dlsh_type_name(v));
    *out = v.type == DLSH_BOOL ? v.as.b : dlsh_number(v);
    return DL_OK;
}

static dl_status push(dl_run *run, const char *metric, dlsh_value v, long step) {
    double value = 0;
    DLSH_TRY(number_of(metric, v, &value));
    dl_status st = dl_metric(run, metric, step, value);
    if (st != DL_ERR_STORE) return st;
    dl_error_clear(); /* the store has counted the point and warned; a loop continues */
    return DL_OK;
}

/* *step: the step unless step= is given; then set to it. */
static dl_status log_values(const dlsh_args *a, dl_run *run, long *step) {
    const dlsh_value *value = dlsh_arg(a, "value");
    const char *metric = dlsh_arg_str(a, "metric"), *name;
    if (metric ? !value : !dlsh_arg_extra(a, 0, &value))
        return dlsh_fail(DL_ERR_VALUE, "r.log(loss=l, acc=0.9), r.log(\"test/acc\", 0.9)", "there is nothing to log");
    if (dlsh_given(a, "step")) *step = dlsh_arg_int(a, "step");
    if (*step < 0) return dlsh_arg_fail(a, "step", DL_ERR_VALUE, NULL, "a step is not negative, got %ld", *step);
    if (metric) DLSH_TRY(push(run, metric, *value, *step));
    for (int i = 0; (name = dlsh_arg_extra(a, i, &value)); i++) DLSH_TRY(push(run, name, *value, *step));
    return DL_OK;
}

static dl_status log_run(const dlsh_args *a) {
    recording *r = dlsh_arg_self(a);
    if (!r->run)
        return dlsh_fail(DL_ERR_VALUE, "start_run() begins another", "the run%s%s has ended", *r->name ? " " : "",
                         r->name);
    if (r->step == LONG_MAX && !dlsh_given(a, "step"))
        return dlsh_fail(DL_ERR_VALUE, "give step=", "there is no step after %ld, the last one", r->step);
    long step = r->step == LONG_MAX ? r->step : r->step + 1;
    dl_run_activate(r->run);
    DLSH_TRY(log_values(a, r->run, &step));
    r->step = step;
    return DL_OK;
}

/* t.log: logs into the run of the trainer. */
static dl_status trainer_log(const dlsh_args *a) {
    dl_trainer *t = dlsh_arg_self(a);
    dl_trainer_state s = dlsh_trainer_state(t);
    dl_run *run = dl_trainer_run(t);
    if (!run) return dlsh_fail(DL_ERR_VALUE, "step t", "the run of a trainer begins with its first step");
    return log_values(a, run, &s.step);
}

static dl_status end_run(const dlsh_args *a) { return end(dlsh_arg_self(a), dlsh_arg_str(a, "error")); }

static const dlsh_param log_params[] = {{"metric", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL,
                                         .doc = "a name, as \"test/acc\"; names without a slash can be options"},
                                        {"value", .flags = DLSH_OPTIONAL, .doc = "its value"},
                                        {0}};

static const dlsh_command methods[] = {
    DLSH_ROW("log", DLSH_ONLY_FUNCTION | DLSH_OPEN_OPTIONS, log_run,
             "r.log(METRIC=VALUE..., step=N), or r.log(METRIC, VALUE)",
             "Records values of a step: numbers, or tensors of one element. The latest value of a step counts.",
             .params = log_params,
             DLSH_OPTIONS({"step", DLSH_OPT_INT, NULL, .doc = "the step; else the one after the last"}),
             .examples = "r.log(loss=l, lr=o.lr)\nr.log(\"test/acc\", 0.93, step=100)"),
    DLSH_FN_ROW("end", end_run, "r.end(error=)",
                "Ends the run. Otherwise it ends with the last reference to it, at the latest with the session.",
                DLSH_OPTIONS({"error", DLSH_OPT_STRING, NULL, .doc = "why it failed; else it is finished"})),
    {0}};

const dlsh_command dlsh_trainer_methods[] = {
    DLSH_ROW("log", DLSH_ONLY_FUNCTION | DLSH_OPEN_OPTIONS, trainer_log,
             "t.log(METRIC=VALUE..., step=N), or t.log(METRIC, VALUE)",
             "Records further values in the run of a trainer: numbers, or tensors of one element.",
             .params = log_params,
             DLSH_OPTIONS({"step", DLSH_OPT_INT, NULL, .doc = "the step; else that of the trainer"}),
             .examples = "t.log(sparsity=mean((m.conv0.weight == 0).float()))\nt.log(\"test/f1\", 0.8)"),
    {0}};

const dlsh_class dlsh_run_class = {
    .name = "run",
    .doc = "A run that is open in the experiment store, for a training loop written by hand.",
    .destroy = destroy,
    .text = text,
    .fields = fields,
    .methods = methods};

/* ---------------------------------------------------------------- start_run(NAME, KEY=VALUE...) */

enum { MAX_PARAMS = 64 };
typedef struct parameters {
    const char *pair[2 * MAX_PARAMS + 1]; /* key, value, ..., NULL */
    dlsh_buf value[MAX_PARAMS];
    int n;
} parameters;

static dl_status collect(const dlsh_args *a, parameters *p) {
    const dlsh_value *v;
    const char *name;
    for (; (name = dlsh_arg_extra(a, p->n, &v)); p->n++) {
        if (p->n == MAX_PARAMS)
            return dlsh_fail(DL_ERR_VALUE, NULL, "a run starts with at most %d parameters", MAX_PARAMS);
        DLSH_TRY(dlsh_text(&p->value[p->n], *v));
        p->pair[2 * p->n] = name;
        p->pair[2 * p->n + 1] = dlsh_buf_text(&p->value[p->n]);
    }
    return DL_OK;
}

static long parent_of(const dlsh_args *a) {
    const dlsh_value *v = dlsh_arg(a, "parent");
    const recording *r = v ? dlsh_unwrap(*v, &dlsh_run_class) : NULL;
    const dl_trainer *t = v ? dlsh_unwrap(*v, &dlsh_trainer_class) : NULL;
    return r ? r->id : t ? dl_run_id(dl_trainer_run(t)) : v && v->type == DLSH_INT ? v->as.i : 0;
}

dl_run_spec dlsh_run_spec(const dlsh_args *a) {
    const dlsh_origin *origin = dlsh_origin_get();
    const char *live = dlsh_arg_str(a, "tensorboard");
    if (!live) live = dlsh_tensorboard();
    return (dl_run_spec){.name = dlsh_arg_str(a, "name"),
                         .experiment = dlsh_arg_str(a, "experiment"),
                         .group = dlsh_arg_str(a, "group"),
                         .note = dlsh_arg_str(a, "note"),
                         .tensorboard = *live && strcmp(live, "none") ? live : NULL,
                         .parent = parent_of(a),
                         .script_path = *origin->path ? origin->path : NULL,
                         .script_text = *origin->text ? origin->text : NULL,
                         .script_args = *origin->args ? origin->args : NULL,
                         .arguments = (const char *const *)dlsh_script_args_get()->values};
}

/* Takes a reference to the store, so that the run keeps it when the session chooses another. */
static dl_status begin(const dlsh_args *a, recording *r, const parameters *p) {
    dl_module *net = dlsh_arg_handle(a, "net", &dlsh_net_class);
    dl_dataset *data = dlsh_arg_handle(a, "data", &dlsh_dataset_class);
    DLSH_ENDED(dl_text_free) char *model = net ? dl_module_text(net) : NULL;
    if (net && !model) return dl_failed();
    dl_run_spec spec = dlsh_run_spec(a);
    spec.device = dl_device_name(dlsh_default_device());
    spec.seed = dl_seed_get();
    spec.params = p->pair;
    if (net) spec.model_name = dl_module_name(net), spec.model_text = model, spec.n_params = dl_module_params(net);
    if (data) spec.dataset = dl_dataset_name(data), spec.data_fingerprint = dl_dataset_fingerprint(data);
    dl_store *shared = dlsh_store(dlsh_arg_session(a));
    const char *path = shared ? dl_store_path(shared) : NULL;
    if (path) r->store = dl_store_open(*path ? path : "none");
    dl_status st = r->store ? dlsh_take_up_run(a, r->store, &r->run, &r->step) : dl_failed();
    if (!st && !r->run) st = (r->run = dl_run_begin(r->store, &spec)) ? DL_OK : dl_failed();
    DLSH_TRY(st);
    r->id = dl_run_id(r->run);
    r->older = open_recordings;
    open_recordings = r;
    return DL_OK;
}

static dl_status start_run(const dlsh_args *a, dlsh_value *result) {
    recording *r = calloc(1, sizeof *r);
    DLSH_FREED parameters *p = calloc(1, sizeof *p);
    const char *name = dlsh_arg_str(a, "name");
    dl_status st = r && p && (r->name = strdup(name ? name : "")) ? collect(a, p) : DL_ERR_MEMORY;
    if (st == DL_ERR_MEMORY) dlsh_fail(st, NULL, "no memory for the description of a run");
    if (st == DL_OK) st = begin(a, r, p);
    for (int i = 0; p && i < MAX_PARAMS; i++) dlsh_buf_free(&p->value[i]);
    if (st == DL_OK)
        st = dlsh_give(dlsh_new_handle(&dlsh_run_class, r), result);
    else
        destroy(r);
    return st;
}

static dl_status resumed(DLSH_UNUSED const dlsh_args *a, dlsh_value *result) {
    const char *path = dlsh_resumed();
    return path ? dlsh_give(dlsh_string(path), result) : (*result = dlsh_none(), DL_OK);
}

const dlsh_command record_commands[] = {
    DLSH_ROW(
        "resumed", DLSH_ONLY_FUNCTION, resumed, "resumed()",
        "The checkpoint from which a loop written by hand is to go on, where run resume has started the script: the "
        "newest state saved in its run by save record(m=m, o=o, ..., step=i) FILE that is still as it was written. "
        "None where the script begins anew. start_run then goes on with that run.",
        .examples = "net m { linear 4 }; m.build([2]); o = sgd(m, lr=0.1)\n"
                    "state = record(m=m, o=o, rng=rng_state(), step=0)\n"
                    "if resumed() { load(state, resumed()); }\n"
                    "r = start_run(\"by hand\")"),
    DLSH_ROW(
        "start_run", DLSH_ONLY_FUNCTION | DLSH_OPEN_OPTIONS, start_run, "start_run(NAME, KEY=VALUE...)",
        "Opens a run in the experiment store, for a training loop written by hand; other options are recorded as its "
        "parameters. A trainer opens its run by itself.",
        DLSH_PARAMS({"name", .want = "string", .flags = DLSH_OPTIONAL, .doc = "name of the run"}),
        DLSH_OPTIONS({"net", DLSH_OPT_VALUE, NULL, .doc = "the net that is trained: its text and size are recorded",
                      .want = "net"},
                     {"data", DLSH_OPT_VALUE, NULL, .doc = "the dataset: its name and fingerprint are recorded",
                      .want = "dataset"},
                     DLSH_RUN_OPTIONS),
        .examples = "r = start_run(\"by hand\", lr=0.1, layers=[32, 10])\nr.log(loss=2.31)\nr.end()"),
    {0}};
