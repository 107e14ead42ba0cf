/* `export` and `import`: runs into and out of the files of other programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/history/history.h"

/* ---------------------------------------------------------------- export */

typedef struct chosen {
    long *ids;
    int n, cap;
} chosen;

static void free_chosen(const chosen *c) { free(c->ids); }

/* The ids of the runs that a condition meets, the oldest first. */
static dl_status find(const dlsh_args *a, dl_store *store, const dlsh_buf *where, chosen *c) {
    dl_run_query q = {.where = dlsh_buf_text((dlsh_buf *)where), .sort = "id"};
    dl_rows *rows = dl_run_table(store, &q, "id");
    if (!rows) return dlsh_place_failure(a, NULL);
    int more = 0;
    while ((more = dl_rows_next(rows)) > 0) {
        long *grown = dlsh_grow(c->ids, c->n, &c->cap, sizeof *grown);
        if (!grown) break;
        c->ids = grown;
        grown[c->n++] = dl_rows_int(rows, 0);
    }
    dl_rows_free(rows);
    if (more) return dl_failed();
    if (c->n) return DL_OK;
    DLSH_TRY(dlsh_run_filter_met(a, 0));
    return dlsh_arg_fail(a, NULL, DL_ERR_NAME, "runs lists them", "no run meets all conditions");
}

/* Runs by name in their order, or those that conditions choose; all when there is neither. */
static dl_status choose(const dlsh_args *a, dl_store **store, chosen *c) {
    DLSH_SCOPED_BUF where = {0};
    DLSH_TRY(dlsh_run_filter(a, &where));
    if (!where.n) return dlsh_run_ids(a, store, &c->ids, &c->n);
    where.n = 0;
    DLSH_TRY(dlsh_run_condition(a, store, &where));
    return find(a, *store, &where, c);
}

static dl_status export_run(const dlsh_args *a) {
    dl_store *store;
    chosen c __attribute__((cleanup(free_chosen))) = {0};
    const char *path = dlsh_arg_str(a, "file"), *rows = dlsh_arg_str(a, "rows");
    int runs = !strcmp(rows, "runs");
    if (!runs && strcmp(rows, "points"))
        return dlsh_arg_fail(a, "rows", DL_ERR_VALUE, "rows=points or rows=runs", "a row is a point or a run, not '%s'",
                             rows);
    DLSH_TRY(choose(a, &store, &c));
    dl_export_spec spec = {.ids = c.n ? c.ids : NULL, .n = c.n, .format = dlsh_arg_str(a, "as"), .runs = runs};
    if (dl_store_export(store, path, &spec)) return dlsh_place_failure(a, spec.format ? NULL : "file");
    dlsh_put(dlsh_arg_sink(a), "wrote %s\n", path);
    return DL_OK;
}

/* ---------------------------------------------------------------- import */

static void put_result(const dlsh_args *a, const char *path, const dl_import_result *r) {
    dlsh_put(dlsh_arg_sink(a), "%s: %ld run%s added, %ld brought up to date, %ld known; %ld point%s\n", path, r->runs,
             r->runs == 1 ? "" : "s", r->updated, r->known, r->points, r->points == 1 ? "" : "s");
}

/* What Python imports is not a file. */
static dl_status not_there(const dlsh_args *a, int i, const char *path) {
    dl_error e = dlsh_taken_error();
    const char *hint = *e.hint ? e.hint : NULL;
    int python = !strpbrk(path, "/.") ||
                 (i + 1 < dlsh_arg_count(a, "files") && !strcmp(dlsh_arg_at(a, "files", i + 1)->as.str->s, "as"));
    if (e.code == DL_ERR_IO && python)
        hint = "runs are imported from files and folders; nothing of Python is: tensors and layers are built in";
    return dlsh_arg_fail_at(a, "files", i, e.code, hint, "%s", e.message);
}

static dl_status import_run(const dlsh_args *a, dlsh_value *result) {
    dl_import_result sum = {0}, one;
    dl_import_spec spec = {
        .format = dlsh_arg_str(a, "as"), .name = dlsh_arg_str(a, "name"), .experiment = dlsh_arg_str(a, "experiment")};
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    if (!dlsh_arg_count(a, "files"))
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "import mlflow.db, import logs/", "there is nothing to import");
    for (int i = 0; i < dlsh_arg_count(a, "files"); i++) {
        const char *path = dlsh_arg_at(a, "files", i)->as.str->s;
        if (dl_store_import(store, path, &spec, &one)) return not_there(a, i, path);
        if (!dlsh_arg_called(a)) put_result(a, path, &one);
        sum.runs += one.runs, sum.updated += one.updated, sum.known += one.known, sum.points += one.points;
    }
    if (!dlsh_arg_called(a)) return DL_OK;
    return dlsh_give(DLSH_RECORD_OF({"runs", dlsh_int(sum.runs)}, {"updated", dlsh_int(sum.updated)},
                                    {"known", dlsh_int(sum.known)}, {"points", dlsh_int(sum.points)}),
                     result);
}

const dlsh_command exchange_commands[] = {
    DLSH_ROW(
        "export", DLSH_ACTION, export_run, "export FILE [RUN ...] [where=\"...\"] [rows=runs]",
        "Writes runs for other programs: NAME.csv is a table and NAME.jsonl an object a line, of all points (run, key, "
        "step, ts, value, uuid) or, with rows=runs, of the runs with their parameters and last values; FOLDER/ is a "
        "folder of TensorBoard, in which each run has one of its own; NAME.db is a store of MLflow, made or added to.",
        DLSH_PARAMS(
            {"file", DLSH_ARG_WORD, .doc = "where to write: NAME.csv, NAME.jsonl, FOLDER/, NAME.db",
             .complete = "file"},
            {"runs", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "runs; all when left out", .complete = "run"}),
        DLSH_OPTIONS(
            {"rows", DLSH_OPT_WORD, "points", .doc = "what a row of .csv and .jsonl is", .complete = "points|runs"},
            {"as", DLSH_OPT_WORD, NULL, .doc = "the format, where the name does not tell it",
             .complete = "csv|jsonl|tensorboard|mlflow"},
            DLSH_RUN_FILTERS),
        .examples = "export points.csv\nexport runs.jsonl rows=runs where=\"status = finished\"\nexport tensorboard/"),
    DLSH_ROW(
        "import", DLSH_ACTION | DLSH_FUNCTION, import_run, "import FILE ... [as=FORMAT] [name=NAME] [experiment=NAME]",
        "Adds runs of other programs' files: .csv and .jsonl of runs, of points, or with a column for each metric; "
        "TensorBoard's folders of events, and the .csv and .json it downloads; a store of MLflow in SQLite; W&B's .csv "
        "and its folders, with run-ID.wandb or wandb-history.jsonl; another store of dlsh. Runs are known by their "
        "uuid: what is here already is not "
        "added again. As a function it returns a record of the numbers runs, updated, known and points.",
        DLSH_PARAMS({"files", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "files and folders", .complete = "file"}),
        DLSH_OPTIONS({"as", DLSH_OPT_WORD, NULL, .doc = "the format, where the contents do not tell it",
                      .complete = "csv|jsonl|json|tensorboard|wandb|mlflow|dlsh"},
                     {"name", DLSH_OPT_STRING, NULL, .doc = "name of a run that has none in the file"},
                     {"experiment", DLSH_OPT_STRING, NULL, .doc = "experiment of runs that have none in the file"}),
        .examples = "export points.csv\nimport points.csv"),
    {0}};
