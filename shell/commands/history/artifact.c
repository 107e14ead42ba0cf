/* `artifact` keeps a file with a run; `artifacts` lists what is kept, with its sizes, and writes it out again. */
#include <string.h>
#include <sys/stat.h>

#include "commands/history/history.h"
#include "commands/nets/nets.h"
#include "view/text.h"

/* SQLite keeps contents of up to 1e9 bytes; what comes near that is better noted than copied. */
enum { LARGEST = 512 << 20 };

/* ---------------------------------------------------------------- artifact */

static dl_status read_contents(const dlsh_args *a, dlsh_buf *b) {
    const char *path = dlsh_arg_str(a, "path");
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size <= LARGEST) return dlsh_arg_file(a, b);
    return dlsh_arg_fail(a, "path", DL_ERR_VALUE, "link=true notes its path and hash, and leaves it where it is",
                         "\"%s\" has %ld bytes; the store keeps up to %d", path, (long)st.st_size, LARGEST);
}

/* The open run of a run or trainer, and its step. */
static dl_status open_run(const dlsh_args *a, dl_run **run, long *step) {
    dl_trainer *t = dlsh_arg_handle(a, "run", &dlsh_trainer_class);
    dl_trainer_state s = {0};
    if (t) {
        dl_trainer_get(t, &s);
        *run = dl_trainer_run(t);
        *step = s.step;
        if (!*run)
            return dlsh_arg_fail(a, "run", DL_ERR_STATE, "step t", "the run of a trainer begins with its first step");
        return DL_OK;
    }
    *run = dlsh_recording_run(dlsh_arg_handle(a, "run", &dlsh_run_class), step);
    return *run ? DL_OK
                : dlsh_arg_fail(a, "run", DL_ERR_STATE, "keep it before r.end()",
                                "the run has ended, nothing is added to it");
}

static dl_status artifact_run(const dlsh_args *a) {
    const char *path = dlsh_arg_str(a, "path"), *slash = strrchr(path, '/'), *kind = dlsh_arg_str(a, "kind");
    const char *name = dlsh_given(a, "name") ? dlsh_arg_str(a, "name") : slash ? slash + 1 : path;
    dl_run *run;
    long step = 0;
    DLSH_TRY(open_run(a, &run, &step));
    if (dlsh_given(a, "step")) step = dlsh_arg_int(a, "step");
    if (step < 0) return dlsh_arg_fail(a, "step", DL_ERR_VALUE, NULL, "a step is not negative, got %ld", step);
    if (!*name) return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "name=\"model\"", "an artifact needs a name");
    if (dlsh_arg_bool(a, "link")) {
        if (dl_run_artifact_file(run, name, step, kind, path)) return dlsh_place_failure(a, "path");
    } else {
        DLSH_SCOPED_BUF data = {0};
        DLSH_TRY(read_contents(a, &data));
        DLSH_TRY(dl_run_artifact(run, name, step, kind, dlsh_buf_text(&data), (long)data.n));
    }
    dlsh_put(dlsh_arg_sink(a), "kept %s of step %ld\n", name, step);
    return DL_OK;
}

/* ---------------------------------------------------------------- artifacts */

/* " and run_id = 3" and " and name = 'x'" of the arguments. */
static dl_status condition(const dlsh_args *a, dl_store *store, dlsh_buf *out) {
    const char *name = dlsh_arg_str(a, "name");
    if (dlsh_given(a, "run")) {
        long id;
        if (dl_run_find(store, dlsh_arg_str(a, "run"), &id)) return dlsh_place_failure(a, "run");
        dlsh_buf_printf(out, " and a.run_id = %ld", id);
    }
    if (!name) return DL_OK;
    dlsh_buf_puts(out, " and a.name = '");
    for (; *name; name++) dlsh_buf_printf(out, *name == '\'' ? "''" : "%c", *name);
    dlsh_buf_puts(out, "'");
    return DL_OK;
}

static dl_rows *ask(dl_store *store, const char *select, const char *where, const char *end) {
    DLSH_SCOPED_BUF sql = {0};
    dlsh_buf_printf(
        &sql,
        "select %s from artifact a join run r on r.id = a.run_id left join blob b on b.sha = a.sha and a.path is null "
        "where r.deleted_us is null%s %s",
        select, where, end);
    return dl_store_sql(store, dlsh_buf_text(&sql));
}

/* The contents of the newest one that fits. */
static dl_status write_out(const dlsh_args *a, dl_store *store, const char *where) {
    const char *out = dlsh_arg_str(a, "out");
    DLSH_ENDED(dl_rows_free)
    dl_rows *r = ask(store, "b.data, a.path, a.name", where, "order by a.run_id desc, a.step desc limit 1");
    int found = r ? dl_rows_next(r) : -1;
    dl_status st = found < 0 ? dl_failed() : DL_OK;
    long n = 0;
    const void *data = found == 1 ? dl_rows_blob(r, 0, &n) : NULL;
    if (!found)
        st = dlsh_arg_fail(a, "name", DL_ERR_NAME, "artifacts", "no artifact is called that");
    else if (found == 1 && dl_rows_type(r, 1) != 'n')
        st = dlsh_arg_fail(a, "name", DL_ERR_STATE, NULL, "%s was noted with link=true; it is %s", dl_rows_text(r, 2),
                           dl_rows_text(r, 1));
    if (!st) {
        DLSH_SCOPED_BUF b = {0};
        dlsh_buf_add(&b, data ? data : "", (size_t)n);
        st = dlsh_buf_write(&b, out);
        if (!st) dlsh_put(dlsh_arg_sink(a), "wrote %s\n", out);
    }
    return st;
}

/* "3 artifacts, 2,048 bytes; the store holds them in 1,024" */
static dl_status put_totals(const dlsh_args *a, dl_store *store, const char *where) {
    DLSH_ENDED(dl_rows_free)
    dl_rows *r = ask(store, "count(*), total(a.bytes), total(case when a.path is null then a.bytes end)", where, "");
    DLSH_ENDED(dl_rows_free) dl_rows *one = ask(store, "distinct a.sha, a.bytes", where, "and a.path is null");
    dl_status st = r && one && dl_rows_next(r) == 1 ? DL_OK : dl_failed();
    DLSH_SCOPED_BUF b = {0};
    double held = 0;
    int more = 0;
    while (!st && (more = dl_rows_next(one)) == 1) held += dl_rows_float(one, 1);
    if (more < 0) st = dl_failed();
    if (!st && dl_rows_int(r, 0)) {
        dlsh_buf_printf(&b, "%ld artifact%s, ", dl_rows_int(r, 0), dl_rows_int(r, 0) == 1 ? "" : "s");
        dlsh_grouped(&b, (long)dl_rows_float(r, 1));
        dlsh_buf_puts(&b, " bytes; the store holds ");
        dlsh_grouped(&b, (long)held);
        dlsh_buf_puts(&b, ", equal contents once");
        dlsh_put(dlsh_arg_sink(a), "%s\n", dlsh_buf_text(&b));
    }
    return st;
}

static dl_status artifacts_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_BUF where = {0};
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    dlsh_look look = dlsh_sink_look(dlsh_arg_sink(a));
    DLSH_TRY(condition(a, store, &where));
    if (dlsh_given(a, "out")) return write_out(a, store, dlsh_buf_text(&where));
    int people = look.mode == DLSH_MODE_TABLE && !dlsh_arg_called(a);
    DLSH_SCOPED_BUF select = {0};
    dlsh_buf_printf(&select,
                    "a.run_id as run, r.name as \"name of run\", a.name, a.step, a.kind, a.bytes, a.path, %s as sha",
                    people ? "substr(a.sha, 1, 12)" : "a.sha");
    DLSH_ENDED(dl_rows_free)
    dl_rows *rows = ask(store, dlsh_buf_text(&select), dlsh_buf_text(&where), "order by a.run_id, a.name, a.step");
    DLSH_SCOPED(dlsh_wide_free) dlsh_wide_table w = {0};
    dl_status st = rows ? dlsh_rows_fetch(rows, 0, look.mode, &w) : dl_failed();
    if (!st && dlsh_arg_called(a))
        st = dlsh_table_list(&w.t, result);
    else if (!st)
        st = dlsh_table_show(dlsh_arg_sink(a), &w.t, st, "no artifacts\n");
    return st || !people ? st : put_totals(a, store, dlsh_buf_text(&where));
}

const dlsh_command artifact_commands[] = {
    DLSH_ROW("artifact", DLSH_ACTION | DLSH_FUNCTION, artifact_run,
             "artifact RUN|TRAINER FILE [name=] [step=] [kind=file] [link=]",
             "Keeps a file with an open run, under its hash: equal contents are held once, whatever their names. With "
             "link=true only path, size and hash are noted. Deleting the run and `gc` free what no other run has; "
             "pictures (.png, .jpg, .svg) are shown by report and serve.",
             DLSH_PARAMS({"run", .want = "run|trainer", .doc = "whose"},
                         {"path", DLSH_ARG_WORD, .doc = "the file", .complete = "file"}),
             DLSH_OPTIONS({"name", DLSH_OPT_STRING, NULL, .doc = "its name in the store; else that of the file"},
                          {"step", DLSH_OPT_INT, NULL, .doc = "the step that it belongs to; else that of the run"},
                          {"kind", DLSH_OPT_STRING, "file", .doc = "a word to find it by: \"plot\", \"weights\""},
                          {"link", DLSH_OPT_BOOL, NULL, .doc = "notes path, size and hash, and copies nothing"}),
             .examples = "artifact t \"confusion.png\"\nartifact r \"model.safetensors\" kind=\"weights\" link=true"),
    DLSH_ROW("artifacts", DLSH_REPORT | DLSH_FUNCTION, artifacts_run, "artifacts [RUN] [NAME] [out=FILE]",
             "Lists what is kept with runs, and how many bytes the store holds for it. out= writes the contents of the "
             "newest one of the name to a file. As a function it gives a list of records.",
             DLSH_PARAMS({"run", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL, .doc = "a run: id, name, last or uuid",
                          .complete = "run"},
                         {"name", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL, .doc = "the name of an artifact"}),
             DLSH_OPTIONS({"out", DLSH_OPT_STRING, NULL, .doc = "a file to write it to", .complete = "file"}),
             .examples = "artifacts\nartifacts last\nartifacts 3 confusion.png out=\"c.png\""),
    {0}};
