/* sweep: trying values of parameters, each in a run of a process of its own. */
#include "commands/history/sweep.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lang/parse/parse.h"

/* ---------------------------------------------------------------- the script */

typedef struct script {
    char path[PATH_MAX];
    dlsh_buf text;
    int seeded; /* it declares seed */
} script;

/* The statement `args` of a script; NULL: it has none. */
static const dlsh_node *args_of(const dlsh_node *root) {
    for (int i = 0; i < root->nkids; i++) {
        const dlsh_node *n = root->kids[i];
        if (n->kind == DLSH_N_COMMAND && !strcmp(n->num.cmd->name, "args")) return n;
    }
    return NULL;
}

static int declares(const dlsh_node *args, const char *name) {
    for (int k = 0; args && k < args->nkids; k++)
        if (args->kids[k]->kind == DLSH_N_OPTION && !strcmp(args->kids[k]->text, name)) return 1;
    return 0;
}

/* All swept names must be declared. A script that does not parse is reported here, with its place. */
static dl_status check_names(const dlsh_args *a, script *x, dlsh_value space) {
    dlsh_session *s = dlsh_arg_session(a);
    dlsh_syntax_error err;
    dlsh_unit *u = dlsh_unit_new(x->path, dlsh_buf_text(&x->text), x->text.n);
    if (!u) return dl_failed();
    dl_status st = DL_OK;
    if (dlsh_parse(u, dlsh_command_finder(), s, &err))
        st = dlsh_arg_fail(a, "what", DL_ERR_SYNTAX, *err.hint ? err.hint : NULL, "%s:%d:%d: %s", x->path,
                           err.span.line, err.span.col, err.message);
    const char *name;
    for (int i = 0; !st && (name = dlsh_space_name(space, i)); i++) {
        const dlsh_node *args = args_of(u->root);
        if (declares(args, name)) continue;
        DLSH_SCOPED_BUF hint = {0};
        dlsh_buf_printf(&hint, args ? "its args are" : "args %s=... at its top declares it", name);
        for (int k = 0; args && k < args->nkids; k++)
            if (args->kids[k]->kind == DLSH_N_OPTION) dlsh_buf_printf(&hint, " %s", args->kids[k]->text);
        st = dlsh_arg_fail(a, "what", DL_ERR_NAME, dlsh_buf_text(&hint), "%s declares no argument %s", x->path, name);
    }
    if (!st) x->seeded = declares(args_of(u->root), "seed");
    dlsh_unit_drop(u);
    return st;
}

static dl_status read_script(const dlsh_args *a, const char *path, script *x) {
    char chunk[4096];
    size_t got;
    FILE *f = fopen(path, "rb");
    while (f && (got = fread(chunk, 1, sizeof chunk, f)) > 0 && x->text.n < DLSH_LONGEST_SCRIPT)
        dlsh_buf_add(&x->text, chunk, got);
    int failed = !f || ferror(f);
    if (f) fclose(f);
    if (failed)
        return dlsh_arg_fail(a, "what", DL_ERR_IO, "sweep FILE.dlsh lr=[0.1, 0.01], or sweep lr=[0.1, 0.01] { ... }",
                             "cannot read \"%s\": %s", path, strerror(errno));
    if (!realpath(path, x->path)) snprintf(x->path, sizeof x->path, "%s", path);
    return DL_OK;
}

/* The text of a block as a script: its first line declares the parameters. */
static dl_status script_of_block(const dlsh_args *a, dlsh_value space, int seeds, script *x) {
    const char *name, *text = dlsh_arg_text(a, "block");
    size_t n = strlen(text);
    if (n < 2) return dlsh_arg_fail(a, NULL, DL_ERR_INTERNAL, NULL, "the block of the sweep has no text");
    for (int i = 0; (name = dlsh_space_name(space, i)); i++) {
        DLSH_DROPPED dlsh_value first = dlsh_void(), last = dlsh_void();
        DLSH_TRY(dlsh_space_value(space, i, 0, &first));
        /* a list that begins with whole numbers may have others */
        const dlsh_value *values = dlsh_record_get(space.as.list->items[i].as.record, "values");
        int real = 0;
        for (int k = 0; values && k < values->as.list->n; k++) real |= values->as.list->items[k].type == DLSH_FLOAT;
        if (first.type == DLSH_INT && real) first = dlsh_float((double)first.as.i);
        dlsh_buf_printf(&x->text, "%s%s=", i ? " " : "args ", name);
        DLSH_TRY(dlsh_repr(&x->text, first));
    }
    if (seeds) dlsh_buf_printf(&x->text, "%sseed=1", *dlsh_buf_text(&x->text) ? " " : "args ");
    dlsh_buf_puts(&x->text, ";");
    dlsh_buf_add(&x->text, text + 1, n - 2);
    dlsh_buf_puts(&x->text, "\n");
    return DL_OK;
}

/* ---------------------------------------------------------------- making one */

enum { MOST_SEEDS = 256 };

static dl_status read_seeds(const dlsh_args *a, long seeds[MOST_SEEDS], int *n) {
    const dlsh_value *v = dlsh_given(a, "seeds") ? dlsh_arg(a, "seeds") : NULL;
    *n = 0;
    if (!v) return DL_OK;
    long count = v->type == DLSH_INT ? v->as.i : v->as.list->n;
    if (count < 1 || count > MOST_SEEDS)
        return dlsh_arg_fail(a, "seeds", DL_ERR_VALUE, "seeds=3, or seeds=[1, 7, 42]",
                             "a sweep has 1 to %d seeds, not %ld", MOST_SEEDS, count);
    for (; *n < count; ++*n) {
        seeds[*n] = *n + 1;
        if (v->type == DLSH_INT) continue;
        if (v->as.list->items[*n].type != DLSH_INT)
            return dlsh_arg_fail(a, "seeds", DL_ERR_TYPE, NULL, "seeds are whole numbers");
        seeds[*n] = v->as.list->items[*n].as.i;
    }
    return DL_OK;
}

/* The search that one of its options names. */
static dl_status read_method(const dlsh_args *a, dl_sweep_spec *spec) {
    static const char *const methods[] = {"random", "tpe", "halving", "asha"};
    spec->method = "grid";
    for (int i = 0; i < 4; i++) {
        if (!dlsh_given(a, methods[i])) continue;
        const dlsh_value *v = dlsh_arg(a, methods[i]);
        if (strcmp(spec->method, "grid"))
            return dlsh_arg_fail(a, methods[i], DL_ERR_VALUE, "choose one of them", "a sweep is %s or %s, not both",
                                 spec->method, methods[i]);
        if (v->type == DLSH_INT && v->as.i < 1)
            return dlsh_arg_fail(a, methods[i], DL_ERR_VALUE, NULL, "%s needs a number of trials from 1 on, not %ld",
                                 methods[i], v->as.i);
        spec->method = methods[i];
        spec->points = v->type == DLSH_INT ? v->as.i : 0;
    }
    return DL_OK;
}

/* metric=val/loss, or metric=min(val/loss). */
static void read_metric(const dlsh_args *a, dl_sweep_spec *spec, char *text, size_t size, char *stat) {
    const char *metric = dlsh_arg_str(a, "metric"), *open = metric ? strchr(metric, '(') : NULL,
               *goal = dlsh_arg_str(a, "goal");
    snprintf(text, size, "%s", metric ? metric : "");
    spec->metric = metric ? text : NULL;
    if (open && metric[strlen(metric) - 1] == ')') {
        snprintf(stat, 16, "%.*s", (int)(open - metric), metric);
        snprintf(text, size, "%.*s", (int)(strlen(open) - 2), open + 1);
        spec->stat = stat;
        spec->direction = !strcmp(stat, "min") ? -1 : !strcmp(stat, "max") ? 1 : 0;
    }
    if (goal) spec->direction = !strcmp(goal, "max") ? 1 : -1;
}

/* Not more points than a grid has, and all of it for halving without a number. */
static void limit_points(dl_sweep_spec *spec) {
    long size = 1;
    for (int i = 0; i < spec->ndim; i++) {
        if (!spec->dims[i].choices || spec->dims[i].choices > 1000000 || size > 1000000) return;
        size *= spec->dims[i].choices;
    }
    if (spec->points > size) spec->points = size;
}

static dl_status make(const dlsh_args *a, dl_store *store, const char *path, dl_sweep_spec *spec, dlsh_value *space,
                      long *id) {
    script x = {0};
    dl_dimension dims[DL_SWEEP_DIMS];
    long seeds[MOST_SEEDS];
    char metric[256], stat[16], cwd[PATH_MAX];
    DLSH_SCOPED_BUF json = {0};
    DLSH_TRY(dlsh_space_read(a, space, dims, &spec->ndim));
    DLSH_TRY(read_seeds(a, seeds, &spec->nseed));
    DLSH_TRY(read_method(a, spec));
    read_metric(a, spec, metric, sizeof metric, stat);
    spec->dims = dims, spec->seeds = seeds;
    limit_points(spec);
    dl_status st = path ? read_script(a, path, &x) : script_of_block(a, *space, spec->nseed > 0, &x);
    if (!st) st = check_names(a, &x, *space);
    if (!st) st = dlsh_json(&json, *space);
    if (!st) {
        spec->text = dlsh_buf_text(&json);
        spec->script_text = dlsh_buf_text(&x.text);
        spec->script_path = path ? x.path : NULL;
        spec->cwd = getcwd(cwd, sizeof cwd);
        spec->name = dlsh_arg_str(a, "name");
        spec->max_steps = dlsh_arg_int(a, "max_steps");
        spec->min_steps = dlsh_arg_int(a, "min_steps");
        spec->eta = dlsh_arg_float(a, "eta");
        spec->seed = (unsigned long)dlsh_arg_int(a, "search_seed");
        *id = dl_sweep_begin(store, spec);
        if (!*id) st = dlsh_place_failure(a, NULL);
    }
    dlsh_buf_free(&x.text);
    return st;
}

static void announce(const dlsh_args *a, const dlsh_sweep *w, dlsh_value space, const dl_sweep_spec *spec) {
    DLSH_SCOPED_BUF b = {0};
    for (int i = 0; dlsh_space_name(space, i); i++) dlsh_buf_puts(&b, i ? "  " : "  "), dlsh_space_text(space, i, &b);
    if (spec->nseed) dlsh_buf_printf(&b, "  %d seed%s", spec->nseed, spec->nseed == 1 ? "" : "s");
    dlsh_put(dlsh_arg_sink(a), "sweep %ld: %s, %ld trial%s%s\n", w->id, w->method, w->trials, w->trials == 1 ? "" : "s",
             dlsh_buf_text(&b));
}

/* A sweep that has no figure of any trial was hardly meant so. */
static void warn_of_nothing(const dlsh_args *a, dl_store *store, long id) {
    char sql[160];
    snprintf(sql, sizeof sql, "select count(value), sum(status = 'finished') from trial where sweep_id = %ld", id);
    dl_rows *r = dl_store_sql(store, sql);
    if (r && dl_rows_next(r) == 1 && !dl_rows_int(r, 0) && dl_rows_int(r, 1))
        dlsh_warn(dlsh_arg_session(a), "r = start_run(\"trial\"); r.log(loss=...), or a trainer; metric= names another",
                  "no trial has recorded a loss, so none is the best");
    dl_rows_free(r);
    dl_error_clear();
}

static dl_status begin(const dlsh_args *a, dl_store *store, const char *path) {
    dl_sweep_spec spec = {0};
    DLSH_DROPPED dlsh_value space = dlsh_void();
    DLSH_SCOPED_SWEEP w = {0};
    long id = 0, jobs = dlsh_arg_int(a, "jobs");
    char ref[24];
    if (jobs < 0 || jobs > 1024)
        return dlsh_arg_fail(a, "jobs", DL_ERR_VALUE, NULL, "jobs are 0 to 1024, not %ld", jobs);
    dl_status st = make(a, store, path, &spec, &space, &id);
    snprintf(ref, sizeof ref, "%ld", id);
    if (!st) st = dlsh_sweep_find(a, store, ref, &w);
    if (!st) announce(a, &w, space, &spec);
    if (st) return st;
    if (!jobs) {
        dlsh_put(dlsh_arg_sink(a), "dlsh --db %s sweep worker %ld  runs its trials\n", dl_store_path(store), id);
        return DL_OK;
    }
    DLSH_TRY(dlsh_sweep_work(a, store, &w, jobs));
    DLSH_TRY(dlsh_sweep_show(a, store, &w));
    warn_of_nothing(a, store, id);
    return DL_OK;
}

/* ---------------------------------------------------------------- the command */

typedef dl_status on_sweep(const dlsh_args *a, dl_store *store, const dlsh_sweep *w);

static dl_status work(const dlsh_args *a, dl_store *store, const dlsh_sweep *w) {
    long jobs = dlsh_arg_int(a, "jobs");
    return dlsh_sweep_work(a, store, w, jobs < 1 ? 1 : jobs);
}

static dl_status resume(const dlsh_args *a, dl_store *store, const dlsh_sweep *w) {
    DLSH_TRY(work(a, store, w));
    return dlsh_sweep_show(a, store, w);
}

static const struct action {
    const char *word;
    on_sweep *run;
} actions[] = {{"show", dlsh_sweep_show}, {"worker", work}, {"resume", resume}};

static dl_status sweep_run(const dlsh_args *a) {
    const char *what = dlsh_arg_str(a, "what"), *id = dlsh_arg_str(a, "id");
    int block = dlsh_given(a, "block") || dlsh_arg_node(a, "block");
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    if (!*dl_store_path(store))
        return dlsh_arg_fail(a, NULL, DL_ERR_STATE, "start with --db FILE",
                             "a sweep keeps its trials in a store, and nothing is recorded");
    if (block && what)
        return dlsh_arg_fail(a, "what", DL_ERR_VALUE, NULL, "a sweep runs a script or a block, not both");
    if (block) return begin(a, store, NULL);
    if (!what)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE,
                             "sweep lr=[0.1, 0.01] { ... }, sweep FILE.dlsh lr=[0.1, 0.01], sweep show",
                             "there is nothing to run");
    if (!strcmp(what, "trial") && id) return dlsh_sweep_trial(a, store, strtol(id, NULL, 10));
    for (size_t i = 0; i < DLSH_COUNT(actions); i++) {
        DLSH_SCOPED_SWEEP w = {0};
        if (strcmp(actions[i].word, what)) continue;
        if (!i && !id) return dlsh_sweep_list(a, store);
        DLSH_TRY(dlsh_sweep_find(a, store, id ? id : "last", &w));
        return actions[i].run(a, store, &w);
    }
    if (id)
        return dlsh_arg_fail(a, "id", DL_ERR_VALUE, "parameters are written lr=[0.1, 0.01]",
                             "a sweep of %s takes no '%s'", what, id);
    return begin(a, store, what);
}

const dlsh_command sweep_commands[] = {
    DLSH_ROW(
        "sweep", DLSH_REPORT | DLSH_OPEN_OPTIONS | DLSH_OPEN_SYNTAX, sweep_run,
        "sweep NAME=VALUES ... { ... }, sweep FILE.dlsh NAME=VALUES ..., sweep show|worker|resume [ID]",
        "Tries values of parameters: every combination of lists, or, with one of random=, tpe=, halving= and asha=, as "
        "many as it says. Each trial is a run in a process of its own, of a block in which the names are variables, or "
        "of a "
        "script whose args declare them. VALUES are a list, logspace(1e-4, 1e-1, 7), or, drawn at random, "
        "uniform(0, 0.5), loguniform(1e-4, 1e-1), randint(1, 9) or logrange(16, 512) (whole numbers). sweep worker ID "
        "runs trials that are "
        "left, in as many processes and on as many machines as start it; sweep resume goes on after an interruption; "
        "sweep show ID lists the trials.",
        DLSH_PARAMS({"what", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL, .doc = "a script; or show, worker, resume",
                     .complete = "file"},
                    {"id", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL, .doc = "a sweep: its id, its name, or last"},
                    {"block", DLSH_ARG_BLOCK, .flags = DLSH_OPTIONAL, .doc = "what a trial runs"}),
        DLSH_OPTIONS(
            {"jobs", DLSH_OPT_INT, "1", .doc = "processes at a time; 0: none, workers run them"},
            {"seeds", DLSH_OPT_VALUE, NULL, .doc = "so many seeds from 1 on, or a list of them, for each point",
             .want = "int|list"},
            {"random", DLSH_OPT_INT, NULL, .doc = "so many points at random"},
            {"tpe", DLSH_OPT_INT, NULL, .doc = "so many points, chosen by what the earlier ones gave"},
            {"halving", DLSH_OPT_VALUE, NULL,
             .doc = "so many points, or true: the grid; after each round the best third goes on", .want = "int|bool"},
            {"asha", DLSH_OPT_VALUE, NULL, .doc = "the same, where no process waits for the end of a round",
             .want = "int|bool"},
            {"max_steps", DLSH_OPT_INT, NULL, .doc = "halving, asha: steps of a trial that is not stopped"},
            {"min_steps", DLSH_OPT_INT, NULL, .doc = "steps of the first round (a ninth)"},
            {"eta", DLSH_OPT_FLOAT, NULL, .doc = "of so many trials one goes on (3)"},
            {"metric", DLSH_OPT_WORD, NULL,
             .doc = "what counts: val/loss, last(acc); the loss of validation, test or training when left out",
             .complete = "metric"},
            {"goal", DLSH_OPT_WORD, NULL, .doc = "where the metric's name does not tell", .complete = "min|max"},
            {"search_seed", DLSH_OPT_INT, "0", .doc = "seed of the search itself"},
            {"name", DLSH_OPT_WORD, NULL, .doc = "name of the sweep"}),
        .examples =
            "sweep lr=logspace(1e-3, 1e-1, 3) seeds=2 metric=loss { r = start_run(\"a\"); r.log(loss=lr * seed) }\n"
            "sweep show last"),
    {0}};
