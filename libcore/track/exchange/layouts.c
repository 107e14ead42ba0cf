/* What the rows of an imported table are: points, runs, or a column a metric, told by the names of their fields. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "track/exchange/table.h"

struct dl_layout {
    const char *fields[4]; /* the table has one of each; "a|b" is either */
    dl_status (*take)(dl_table_taker *t);
};

/* ---------------------------------------------------------------- helpers */

static int starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* The value of the first field of "a|b|c" that has one; *name of it. */
static const char *first_of(const dl_fields *f, const char *names, char name[64]) {
    for (const char *p = names; *p; p += p[strcspn(p, "|")] ? strcspn(p, "|") + 1 : strlen(p)) {
        snprintf(name, 64, "%.*s", (int)strcspn(p, "|"), p);
        const char *value = dl_field(f, name);
        if (value) return value;
    }
    return NULL;
}

static int has_one_of(const dl_fields *f, const char *names) {
    char name[64];
    for (const char *p = names; *p; p += p[strcspn(p, "|")] ? strcspn(p, "|") + 1 : strlen(p)) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "|"), p);
        if (dl_field_has(f, name)) return 1;
    }
    return 0;
}

/* "metrics" of "logs/metrics.csv.gz". */
static void stem_of(const char *path, char *out, size_t size) {
    const char *slash = strrchr(path, '/');
    snprintf(out, size, "%s", slash ? slash + 1 : path);
    char *dot = strchr(*out == '.' ? out + 1 : out, '.');
    if (dot && dot != out) *dot = 0;
}

/* The run `key` of this table, which `program` knows by `id`, or whose uuid that is; the one of the row before is not
 * looked up again. */
static dl_status enter(dl_table_taker *t, const char *program, const char *id, const char *name) {
    if (t->run_key && !strcmp(t->run_key, id)) return DL_OK;
    dl_incoming r = {.called = name};
    if (!dl_uuid_parse(id, r.uuid)) dl_intake_uuid(program, id, r.uuid);
    free(t->run_key);
    if (!(t->run_key = strdup(id))) return dl_fail(DL_ERR_MEMORY, "no memory for the name of a run");
    return dl_intake_run(t->in, &r, &t->run);
}

/* ---------------------------------------------------------------- points, a row each */

static dl_status take_point(dl_table_taker *t) {
    const dl_fields *f = &t->fields;
    const char *uuid = dl_field(f, "uuid"), *run = dl_field(f, "run"), *key = dl_field(f, "key");
    int64_t step = 0, at = 0;
    double value = NAN;
    char id[4200], uuid_here[37];
    if (uuid && !dl_uuid_parse(uuid, uuid_here)) return dl_field_wrong(f, "uuid", uuid, "a uuid");
    if (!key) return dl_field_wrong(f, "key", "", "the name of a metric");
    /* without a uuid a run is what the file of this name calls so */
    if (!uuid)
        snprintf(id, sizeof id, "%s %s", strrchr(f->path, '/') ? strrchr(f->path, '/') + 1 : f->path, run ? run : "");
    DL_TRY(enter(t, "points", uuid ? uuid : id, NULL));
    DL_TRY(dl_field_whole(f, "step", &step));
    DL_TRY(dl_field_when(f, "ts", &at));
    DL_TRY(dl_field_number(f, "value", &value));
    return dl_intake_point(t->in, t->run, key, step, at, value);
}

/* ---------------------------------------------------------------- runs, a row each */

/* Fields of runs as this project, MLflow (search_runs) and W&B (the table of runs) call them. */
#define TEXT_FIELDS(X)                                                                                                 \
    X(name, "name|tags.mlflow.runName|Name")                                                                           \
    X(experiment, "experiment|Project")                                                                                \
    X(grp, "group|Group")                                                                                              \
    X(host, "host|Hostname")                                                                                           \
    X(device, "device|GPU Type")                                                                                       \
    X(model_name, "model")                                                                                             \
    X(dataset, "dataset")                                                                                              \
    X(git_commit, "commit|tags.mlflow.source.git.commit|Commit")                                                       \
    X(script_path, "script|tags.mlflow.source.name")                                                                   \
    X(script_args, "args")                                                                                             \
    X(cmdline, "command|Command")                                                                                      \
    X(note, "note|tags.mlflow.note.content|Notes")                                                                     \
    X(error, "error")                                                                                                  \
    X(seed, "seed")                                                                                                    \
    X(n_params, "n_params")
#define STATUS "status|State"
#define STARTED "started|start_time|Created"
#define ENDED "ended|end_time|End Time"
#define SECONDS "seconds|Runtime"
#define PARENT "parent|tags.mlflow.parentRunId"
#define TAGS "tags|Tags"
#define ID "uuid|run_id|ID"

/* What other programs call the ways in which a run ends. */
static const char *status_of(const char *text) {
    static const char *const words[][2] = {
        {"finished", "finished"}, {"failed", "failed"},    {"killed", "killed"},  {"diverged", "diverged"},
        {"running", "running"},   {"paused", "paused"},    {"crashed", "killed"}, {"scheduled", "paused"},
        {"pending", "paused"},    {"preempted", "killed"}, {"stopped", "killed"}, {"success", "finished"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(text, words[i][0])) return words[i][1];
    return NULL;
}

/* Is it a field that the columns of a run, or their relatives, take? */
static int is_own_field(const char *name) {
    static const char *const taken[] = {
#define NAMES(column, names) names,
        TEXT_FIELDS(NAMES)
#undef NAMES
            STATUS,
        STARTED,
        ENDED,
        SECONDS,
        PARENT,
        TAGS,
        ID,
        "id|experiment_id|artifact_uri|User|Username|Sweep|Relative Time (Process)|GPU "
        "Count|OS|Python|Updated|"
        "Heartbeat"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        for (const char *p = taken[i]; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
            if (strcspn(p, "|") == n && !strncmp(p, name, n)) return 1;
    return !*name || starts(name, "tags.mlflow.");
}

/* The table of W&B does not tell what was set from what came out: metrics are numbers whose name has a slash, or one of
 * these words. */
static int is_result(const char *name) {
    static const char *const words[] = {
        "loss",       "acc", "accuracy", "error", "err", "auc", "f1",   "precision", "recall", "score", "reward",
        "perplexity", "ppl", "mse",      "rmse",  "mae", "iou", "bleu", "r2",        "psnr",   "epoch", "step"};
    if (strchr(name, '/')) return 1;
    for (const char *p = name; *p; p += p[strcspn(p, "_-. ")] ? strcspn(p, "_-. ") + 1 : strlen(p))
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i]) == strcspn(p, "_-. ") && !strncasecmp(p, words[i], strlen(words[i]))) return 1;
    return 0;
}

static dl_status take_last(dl_table_taker *t, const char *field, const char *key) {
    char steps[1200];
    int64_t step = 0;
    double value = NAN;
    snprintf(steps, sizeof steps, "steps.%s", key);
    DL_TRY(dl_field_whole(&t->fields, "_step", &step));
    DL_TRY(dl_field_whole(&t->fields, steps, &step));
    DL_TRY(dl_field_number(&t->fields, field, &value));
    return dl_intake_last(t->in, t->run, key, step, value);
}

/* A field beside those of a run: "params.lr", "metrics.loss", "tags.good", or one of W&B's. */
static dl_status take_other(dl_table_taker *t, const char *name, const char *value, int wandb) {
    char tag[1024], *end;
    if (starts(name, "params.")) return dl_intake_param(t->in, t->run, name + 7, value);
    if (starts(name, "metrics.")) return take_last(t, name, name + 8);
    if (starts(name, "steps.")) return DL_OK;
    if (starts(name, "tags.")) {
        snprintf(tag, sizeof tag, "%s=%s", name + 5, value);
        return dl_intake_tag(t->in, t->run, tag);
    }
    if (!wandb || *name == '_') return DL_OK;
    strtod(value, &end);
    return !*end && is_result(name) ? take_last(t, name, name) : dl_intake_param(t->in, t->run, name, value);
}

static dl_status take_tags(dl_table_taker *t) {
    char name[64];
    const char *tags = first_of(&t->fields, TAGS, name);
    if (!tags) return DL_OK;
    char *copy = strdup(tags), *rest = copy, *one;
    dl_status st = copy ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for tags");
    while (st == DL_OK && (one = strsep(&rest, ","))) {
        one += strspn(one, " ");
        st = dl_intake_tag(t->in, t->run, one);
    }
    free(copy);
    return st;
}

/* Times, status and numbers of the row. */
static dl_status read_facts(const dl_fields *f, dl_incoming *r) {
    char name[64];
    double seconds = NAN;
    int64_t whole;
    const char *text = first_of(f, STATUS, name);
    if (text && !(r->status = status_of(text)))
        return dl_field_wrong(f, name, text, "finished, failed, killed, running or diverged");
    if (first_of(f, STARTED, name)) DL_TRY(dl_field_when(f, name, &r->started_us));
    if (first_of(f, ENDED, name)) DL_TRY(dl_field_when(f, name, &r->ended_us));
    if (first_of(f, SECONDS, name)) DL_TRY(dl_field_number(f, name, &seconds));
    if (seconds >= 0) r->active_us = (int64_t)llround(seconds * 1e6);
    if (!r->ended_us && r->active_us && r->started_us) r->ended_us = r->started_us + r->active_us;
    DL_TRY(dl_field_whole(f, "seed", &whole));
    DL_TRY(dl_field_whole(f, "n_params", &whole));
    if ((text = first_of(f, PARENT, name)) && !dl_uuid_parse(text, r->parent)) r->parent[0] = 0;
#define READ(column, names) r->column = first_of(f, names, name);
    TEXT_FIELDS(READ)
#undef READ
    return DL_OK;
}

static dl_status take_run(dl_table_taker *t) {
    const dl_fields *f = &t->fields;
    dl_incoming r = {0};
    char name[64];
    int wandb = dl_field_has(f, "Name");
    DL_TRY(read_facts(f, &r));
    const char *id = first_of(f, ID, name);
    if (!id) id = r.name;
    if (!id) return dl_fail(DL_ERR_FORMAT, "'%s', row %ld: the run has neither an id nor a name", f->path, f->row);
    if (!dl_uuid_parse(id, r.uuid)) dl_intake_uuid(wandb ? "wandb" : "runs", id, r.uuid);
    DL_TRY(dl_intake_run(t->in, &r, &t->run));
    DL_TRY(take_tags(t));
    for (long i = 0; i < f->n; i++)
        if (f->field[i].value && !is_own_field(f->field[i].name))
            DL_TRY(take_other(t, f->field[i].name, f->field[i].value, wandb));
    return DL_OK;
}

/* ---------------------------------------------------------------- TensorBoard: one metric of one run */

/* run-NAME-tag-METRIC.csv, as TensorBoard calls what it downloads; else the file's name is the metric's. */
static dl_status take_tensorboard(dl_table_taker *t) {
    char stem[512], *tag;
    const char *run = stem, *named = dl_intake_spec(t->in)->name;
    int64_t step = 0, at = 0;
    double value = NAN;
    stem_of(t->fields.path, stem, sizeof stem);
    const char *slash = strrchr(t->fields.path, '/'), *dot = strrchr(t->fields.path, '.');
    if (starts(stem, "run-") && (tag = strstr(slash ? slash + 1 : t->fields.path, "-tag-"))) {
        snprintf(stem, sizeof stem, "%s", (slash ? slash + 1 : t->fields.path) + 4);
        if (dot) stem[strlen(stem) - strlen(dot)] = 0;
        tag = strstr(stem, "-tag-");
        *tag = 0, tag += 5;
    } else {
        tag = stem;
        run = "";
    }
    if (named) run = named;
    DL_TRY(enter(t, "tensorboard", run, *run && strcmp(run, ".") ? run : NULL));
    DL_TRY(dl_field_whole(&t->fields, "Step", &step));
    DL_TRY(dl_field_when(&t->fields, "Wall time", &at));
    DL_TRY(dl_field_number(&t->fields, "Value", &value));
    return dl_intake_point(t->in, t->run, tag, step, at, value);
}

/* ---------------------------------------------------------------- a column a metric */

/* "RUN - METRIC", as W&B heads the columns of a panel; those of its range of values end in __MIN and __MAX. */
static dl_status take_panel(dl_table_taker *t) {
    const dl_fields *f = &t->fields;
    int64_t step = 0;
    DL_TRY(dl_field_whole(f, "Step", &step));
    for (long i = 0; i < f->n; i++) {
        const char *name = f->field[i].name, *bar = NULL, *end = strstr(name, "__M");
        for (const char *p = name; (p = strstr(p, " - ")); p++) bar = p;
        if (!bar || !f->field[i].value || (end && (!strcmp(end, "__MIN") || !strcmp(end, "__MAX")))) continue;
        char run[512];
        double value = NAN;
        snprintf(run, sizeof run, "%.*s", (int)(bar - name), name);
        DL_TRY(enter(t, "wandb", run, run));
        DL_TRY(dl_field_number(f, name, &value));
        DL_TRY(dl_intake_point(t->in, t->run, bar + 3, step, 0, value));
    }
    return DL_OK;
}

static int is_panel(const dl_fields *f) {
    for (long i = 0; i < f->n; i++)
        if (strstr(f->field[i].name, " - ")) return 1;
    return 0;
}

#define STEPS "_step|step|Step|epoch|Epoch"
#define TIMES "_timestamp|timestamp|ts|time|Wall time"

/* W&B keeps the history of a run in .../run-DATE_TIME-ID/files/: that is what it is called, else by the file. */
static void run_of_path(const char *path, char *out, size_t size) {
    const char *folder = NULL;
    for (const char *p = path; (p = strstr(p, "run-")); p++)
        if ((p == path || p[-1] == '/') && strchr(p, '/')) folder = p;
    if (folder) {
        snprintf(out, size, "%.*s", (int)strcspn(folder, "/"), folder);
        const char *id = strrchr(out, '-');
        if (id != out + 3) memmove(out, id + 1, strlen(id));
    } else {
        stem_of(path, out, size);
    }
}

/* A history: W&B's, or that of any program that writes a line a step. Cells without a number are left out. */
static dl_status take_history(dl_table_taker *t) {
    const dl_fields *f = &t->fields;
    const char *named = dl_intake_spec(t->in)->name, *text;
    char run[512], step_name[64] = "", time_name[64] = "", *end;
    int64_t step = f->row - 1, at = 0;
    run_of_path(f->path, run, sizeof run);
    DL_TRY(enter(t, dl_field_has(f, "_step") ? "wandb" : "history", named ? named : run, named ? named : run));
    if (first_of(f, STEPS, step_name)) DL_TRY(dl_field_whole(f, step_name, &step));
    if (first_of(f, TIMES, time_name)) DL_TRY(dl_field_when(f, time_name, &at));
    for (long i = 0; i < f->n; i++) {
        const char *name = f->field[i].name;
        if (!(text = f->field[i].value) || !*name || *name == '_' || !strcmp(name, step_name) ||
            !strcmp(name, time_name))
            continue;
        double value = strtod(text, &end);
        if (end != text && !*end) DL_TRY(dl_intake_point(t->in, t->run, name, step, at, value));
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- which it is */

static const struct dl_layout layouts[] = {
    {{"key", "value", "step", "run|uuid"}, take_point},
    {{"Wall time", "Step", "Value"}, take_tensorboard},
    {{"uuid|run_id", "status"}, take_run},
    {{"Name", "State|ID|Runtime|Created"}, take_run},
    {{"_step|step|Step|epoch|Epoch"}, take_history},
};

static dl_status choose(dl_table_taker *t) {
    static const struct dl_layout panel = {{"Step"}, take_panel};
    char list[256] = "";
    size_t at = 0;
    const dl_fields *f = &t->fields;
    if (dl_field_has(f, "Step") && is_panel(f)) return t->layout = &panel, DL_OK;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        int fits = 1;
        for (size_t k = 0; k < 4 && layouts[i].fields[k]; k++) fits &= has_one_of(f, layouts[i].fields[k]);
        if (fits) return t->layout = &layouts[i], DL_OK;
    }
    for (long i = 0; i < f->n && at < sizeof list - 64; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%.60s", i ? ", " : "", f->field[i].name);
    return dl_fail_hint(DL_ERR_FORMAT,
                        "points: run, key, step, value; runs: uuid, status, params.NAME; a history: step, a column for "
                        "each metric; or what TensorBoard, MLflow and W&B export",
                        "'%s' is neither a table of points nor of runs: its columns are %s", f->path, list);
}

dl_status dl_table_take(dl_table_taker *t) {
    if (!t->layout) DL_TRY(choose(t));
    return t->layout->take(t);
}
