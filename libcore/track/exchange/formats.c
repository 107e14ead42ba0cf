/* The table of formats in which runs leave the store and come into it: what tells them, what reads and writes them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/list.h"
#include "io/atomic.h"
#include "io/nearest_file.h"
#include "track/server/server.h"
#include "track/exchange/exchange.h"
#include "track/exchange/mlflow.h"
#include "track/exchange/table.h"
#include "track/exchange/tensorboard.h"
#include "track/exchange/wandb.h"

/* What a path is, before it is read. */
typedef struct look {
    const char *path;
    int folder;
    dl_format by_name, by_bytes;
} look;

typedef dl_status reader(dl_intake *in, const char *path);
typedef dl_status writer(const dl_leaving *l, const char *path, int runs);

typedef struct format {
    const char *name;
    int (*is)(const look *l); /* NULL: never without being named */
    reader *read;
    int (*named)(const look *l); /* is a path to be written so? NULL: it is not written */
    writer *write;
} format;

/* ---------------------------------------------------------------- text */

static dl_status read_rows(dl_intake *in, const char *path, dl_status (*rows)(dl_table_taker *t, const char *path)) {
    dl_table_taker t DL_SCOPE(dl_table_free) = {.in = in, .run = -1};
    DL_TRY(rows(&t, path));
    return t.layout || t.fields.n ? DL_OK : dl_fail(DL_ERR_FORMAT, "'%s' is empty", path);
}

static dl_status read_csv(dl_intake *in, const char *path) { return read_rows(in, path, dl_table_read_csv); }
static dl_status read_jsonl(dl_intake *in, const char *path) { return read_rows(in, path, dl_table_read_jsonl); }
static dl_status read_json(dl_intake *in, const char *path) { return read_rows(in, path, dl_table_read_json); }

/* A file that appears whole or not at all. */
static dl_status write_text(const dl_leaving *l, const char *path, int runs) {
    dl_atomic a;
    DL_TRY(dl_atomic_open(&a, path));
    int fd = dup(a.fd);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f && fd >= 0) close(fd);
    dl_status st = !f ? dl_fail_file("write", path) : runs ? dl_export_runs(l, f) : dl_export_points(l, f);
    errno = 0;
    int bad = f && (ferror(f) | (fflush(f) != 0)), err = errno;
    bad |= f && fclose(f) != 0;
    if (err) errno = err;
    if (st == DL_OK && bad) st = dl_fail_file("write", path);
    return dl_atomic_finish(&a, st);
}

static dl_status write_csv(const dl_leaving *l, const char *path, int runs) {
    dl_leaving text = *l;
    text.text = DL_FORMAT_CSV;
    return write_text(&text, path, runs);
}

static dl_status write_jsonl(const dl_leaving *l, const char *path, int runs) {
    dl_leaving text = *l;
    text.text = DL_FORMAT_JSONL;
    return write_text(&text, path, runs);
}

/* ---------------------------------------------------------------- folders and databases */

static dl_status refuse_runs(const char *name) {
    return dl_fail_hint(DL_ERR_UNSUPPORTED, "rows=runs is for .csv and .jsonl", "%s has no table of runs alone", name);
}

static dl_status write_tensorboard(const dl_leaving *l, const char *path, int runs) {
    if (runs) return refuse_runs("TensorBoard");
    for (long i = 0; i < l->n; i++) DL_TRY(dl_tensorboard_write(l->db, l->ids[i], path));
    return DL_OK;
}

static dl_status write_mlflow(const dl_leaving *l, const char *path, int runs) {
    return runs ? refuse_runs("MLflow") : dl_mlflow_write(l, path);
}

/* ---------------------------------------------------------------- the table */

static int is_csv(const look *l) { return l->by_name == DL_FORMAT_CSV; }
static int is_jsonl(const look *l) { return l->by_name == DL_FORMAT_JSONL; }
static int is_json(const look *l) { return l->by_name == DL_FORMAT_JSON; }
static int is_events(const look *l) { return dl_tensorboard_found(l->path); }
static int is_mlflow(const look *l) { return l->by_bytes == DL_FORMAT_SQLITE && dl_mlflow_found(l->path); }
static int is_store(const look *l) { return l->by_bytes == DL_FORMAT_SQLITE; }
static int is_wandb(const look *l) { return dl_wandb_found(l->path); }
static int in_folder(const look *l) { return *l->path && l->path[strlen(l->path) - 1] == '/'; }
static int in_database(const look *l) { return l->by_name == DL_FORMAT_SQLITE; }

static const format formats[] = {
    {"csv", is_csv, read_csv, is_csv, write_csv},
    {"jsonl", is_jsonl, read_jsonl, is_jsonl, write_jsonl},
    {"json", is_json, read_json, NULL, NULL},
    {"tensorboard", is_events, dl_tensorboard_read, in_folder, write_tensorboard},
    {"wandb", is_wandb, dl_wandb_read, NULL, NULL},
    {"mlflow", is_mlflow, dl_mlflow_read, in_database, write_mlflow},
    {"dlsh", is_store, NULL, NULL, NULL},
};
enum { NFORMAT = sizeof formats / sizeof *formats };

static dl_status find_format(const char *name, const format **out) {
    const char *names[NFORMAT];
    for (int i = 0; i < NFORMAT; i++) {
        names[i] = formats[i].name;
        if (!strcmp(formats[i].name, name)) return *out = &formats[i], DL_OK;
    }
    return dl_fail_unknown(name, names, NFORMAT, "csv, jsonl, json, tensorboard, wandb, mlflow or dlsh",
                           "no format of runs is called '%.80s'", name);
}

/* ---------------------------------------------------------------- out */

/* All runs that are not deleted. */
static dl_status all_ids(sqlite3 *db, long **ids, long *n) {
    DL_DB_STATEMENT(q);
    long cap = 0;
    int rc;
    DL_TRY(dl_db_prepare(db, &q, "select id from run where deleted_us is null order by id"));
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        DL_TRY(DL_LIST_ROOM(*ids, *n, cap));
        (*ids)[(*n)++] = (long)sqlite3_column_int64(q, 0);
    }
    return rc == SQLITE_DONE ? DL_OK : dl_db_fail(db, "read the store");
}

static dl_status write_all(sqlite3 *db, const dl_export_spec *spec, const format *f, const char *path) {
    long *ids = NULL, n = 0;
    dl_status st = spec->ids ? DL_OK : all_ids(db, &ids, &n);
    dl_leaving l = {.db = db, .ids = spec->ids ? spec->ids : ids, .n = spec->ids ? spec->n : n};
    if (st == DL_OK) st = f->write(&l, path, spec->runs);
    free(ids);
    return st;
}

/* A name that tells a format is not written as another; one without an ending is a table. */
static dl_status format_to_write(const look *l, const char *named, const format **f) {
    dl_format row = DL_NFORMAT;
    int told = l->by_name < DL_NFORMAT || in_folder(l);
    if (named) DL_TRY(find_format(named, f));
    if (*f && !(*f)->write)
        return dl_fail_hint(DL_ERR_UNSUPPORTED,
                            "csv, jsonl, tensorboard and mlflow are written; db backup FILE copies the store",
                            "runs are not written as %s", (*f)->name);
    if (*f)
        return told && !(*f)->named(l)
                   ? dl_fail_hint(DL_ERR_UNSUPPORTED, "leave as= out, or give it another name",
                                  "the name \"%s\" asks for another format than %s", l->path, (*f)->name)
                   : DL_OK;
    for (int i = 0; i < NFORMAT && !*f; i++)
        if (formats[i].named && formats[i].named(l)) *f = &formats[i];
    if (*f) return DL_OK;
    DL_TRY(dl_format_to_write(l->path, DL_HOLDS_ROWS, &row));
    return find_format(dl_format_name(row), f);
}

dl_status dl_store_export(dl_store *s, const char *path, const dl_export_spec *spec) {
    static const dl_export_spec everything;
    const format *f = NULL;
    if (!s || !path) return dl_fail_null(s ? "path" : "store");
    if (!spec) spec = &everything;
    look l = {.path = path, .by_name = dl_format_of_name(path)};
    DL_TRY(format_to_write(&l, spec->format, &f));
    DL_TRY(dl_store_read_lock(s));
    return dl_store_read_unlock(s, write_all(s->r, spec, f, path));
}

/* ---------------------------------------------------------------- in */

static dl_status look_at(const char *path, look *l) {
    struct stat st;
    unsigned char first[DL_FORMAT_FIRST];
    *l = (look){.path = path, .by_name = dl_format_of_name(path), .by_bytes = DL_NFORMAT};
    if (stat(path, &st)) return dl_fail_file("read", path);
    l->folder = S_ISDIR(st.st_mode);
    if (!l->folder && !S_ISREG(st.st_mode)) return dl_fail(DL_ERR_IO, "'%s' is neither a file nor a folder", path);
    int fd = l->folder ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!l->folder && fd < 0) return dl_fail_file("read", path);
    ssize_t n = fd < 0 ? 0 : read(fd, first, sizeof first);
    if (fd >= 0) close(fd);
    if (n > 0) l->by_bytes = dl_format_of_bytes(first, (size_t)n);
    return DL_OK;
}

static dl_status unknown_file(const look *l) {
    static const char hint[] =
        "read are .csv and .jsonl of runs or points, TensorBoard's files of events, .csv and .json, "
        "MLflow's SQLite store, W&B's .csv, run-ID.wandb and wandb-history.jsonl, other stores of dlsh";
    dl_format f = l->by_name < DL_NFORMAT ? l->by_name : l->by_bytes;
    if (l->folder) return dl_fail_hint(DL_ERR_FORMAT, hint, "the folder '%s' has no file of runs", l->path);
    if (f == DL_FORMAT_PARQUET)
        return dl_fail_hint(DL_ERR_UNSUPPORTED,
                            "DuckDB makes CSV of it: duckdb -c \"copy 'FILE.parquet' to 'FILE.csv'\"",
                            "'%s' is Parquet, which is not read", l->path);
    if (f == DL_FORMAT_SQLITE && l->by_bytes != f)
        return dl_fail_hint(DL_ERR_FORMAT, hint, "'%s' is not a database of SQLite", l->path);
    if (f < DL_NFORMAT)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, hint, "'%s' is %s, of which no runs are read", l->path,
                            dl_format_name(f));
    return dl_fail_hint(DL_ERR_FORMAT, hint, "'%s' is of no format that is known", l->path);
}

static dl_status merge_store(dl_store *s, const char *path, dl_import_result *out) {
    dl_merge_result r;
    DL_TRY(dl_store_merge(s, path, &r));
    *out = (dl_import_result){.runs = r.runs, .updated = r.updated, .known = r.known};
    return DL_OK;
}

static dl_status take_over(dl_store *s, const format *f, const char *path, const dl_import_spec *spec,
                           dl_import_result *out) {
    dl_intake *in = NULL;
    DL_TRY(dl_intake_begin(&in, s, spec));
    return dl_intake_end(in, f->read(in, path), out);
}

dl_status dl_store_import(dl_store *s, const char *path, const dl_import_spec *spec, dl_import_result *out) {
    const format *f = NULL;
    look l;
    if (!s || !path || !out) return dl_fail_null(!s ? "store" : !path ? "path" : "place of the result");
    *out = (dl_import_result){0};
    DL_TRY(look_at(path, &l));
    if (s->none) return dl_fail_hint(DL_ERR_STATE, "start with --db FILE", "nothing is kept, so nothing is imported");
    DL_TRY(dl_server_refuse(s, "importing runs"));
    if (spec && spec->format) DL_TRY(find_format(spec->format, &f));
    for (int i = 0; i < NFORMAT && !f; i++)
        if (formats[i].is && formats[i].is(&l)) f = &formats[i];
    if (!f) return unknown_file(&l);
    if (!f->read) return merge_store(s, path, out);
    DL_TRY(dl_store_flush(s));
    DL_TRY(dl_store_write_lock(s));
    return dl_store_write_unlock(s, take_over(s, f, path, spec, out));
}
