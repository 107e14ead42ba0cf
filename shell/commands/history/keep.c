/* Keeping the store in order: gc, db check, backup, vacuum, merge, migrate. */
#include "commands/history/history.h"
#include "commands/history/redo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- gc */

/* "30d", "12h", "45min", "90s" as seconds; -1: none of these. */
static double duration_of(const char *text) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"s", 1}, {"min", 60}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 604800}, {"y", 31557600}};
    char *end;
    double n = strtod(text, &end);
    if (end == text || !(n >= 0)) return -1;
    for (size_t i = 0; i < DLSH_COUNT(units); i++)
        if (!strcmp(end, units[i].unit)) return n * units[i].seconds;
    return *end || n > 0 ? -1 : 0;
}

static void put_bytes(dlsh_buf *b, long n) {
    if (n < 1 << 20)
        dlsh_buf_printf(b, "%.1f KB", (double)n / 1024);
    else
        dlsh_buf_printf(b, "%.1f MB", (double)n / (1 << 20));
}

/* The deleted runs that stay, besides `gone` ones, and why. */
static dl_status put_kept(dlsh_buf *b, dl_store *store, long gone, const char *older) {
    long deleted, open;
    DLSH_TRY(dlsh_ask(store, "select count(*) from run where deleted_us is not null", &deleted));
    DLSH_TRY(dlsh_ask(
        store, "select count(*) from run where deleted_us is not null and status in ('running', 'paused')", &open));
    deleted -= gone + open;
    if (deleted > 0)
        dlsh_buf_printf(b, "; %ld deleted run%s not older than %s", deleted, deleted == 1 ? " is" : "s are", older);
    if (open > 0)
        dlsh_buf_printf(b, "; %ld deleted run%s not ended, and stay%s until then", open, open == 1 ? " has" : "s have",
                        open == 1 ? "s" : "");
    return DL_OK;
}

static dl_status gc_run(const dlsh_args *a) {
    double age = duration_of(dlsh_arg_str(a, "older"));
    int dry = dlsh_arg_bool(a, "dry");
    dl_gc_result r;
    if (age < 0)
        return dlsh_arg_fail(a, "older", DL_ERR_VALUE, "older=30d, 12h, 45min, 0s", "'%s' is not a duration",
                             dlsh_arg_str(a, "older"));
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    DLSH_TRY(dl_store_gc(store, (long)(((double)time(NULL) - age) * 1e6) + (age > 0 ? 0 : 1000000), dry, &r));
    DLSH_SCOPED_BUF b = {0};
    dlsh_buf_printf(&b, "%s %ld deleted run%s with %ld points, and ", dry ? "would free" : "freed", r.runs,
                    r.runs == 1 ? "" : "s", r.points);
    dlsh_buf_printf(&b, "%ld content%s of ", r.contents, r.contents == 1 ? "" : "s");
    put_bytes(&b, r.bytes);
    if (!dry) {
        dlsh_buf_puts(&b, "; the file has "), put_bytes(&b, r.file_after);
        dlsh_buf_puts(&b, ", before "), put_bytes(&b, r.file_before);
    }
    DLSH_TRY(put_kept(&b, store, dry ? r.runs : 0, dlsh_arg_str(a, "older")));
    dlsh_put(dlsh_arg_sink(a), "%s\n", dlsh_buf_text(&b));
    return DL_OK;
}

/* ---------------------------------------------------------------- db */

static dl_status check_run(const dlsh_args *a) {
    static const char *const questions[] = {"pragma integrity_check",
                                            "select 'series ' || key || ' of run ' || run_id || ': ' || n || ' points "
                                            "are noted, ' || (select count(*) from metric"
                                            " where series_id = series.id) || ' are there' from series where n <> "
                                            "(select count(*) from metric where series_id ="
                                            " series.id)",
                                            "select 'artifact ' || name || ' of run ' || run_id || ' has no contents' "
                                            "from artifact where path is null and sha not"
                                            " in (select sha from blob)",
                                            "select 'contents ' || substr(b.sha, 1, 12) || ' of artifact ' || coalesce("
                                            "(select name || ' of run ' || run_id from artifact where sha = b.sha limit"
                                            " 1), '?') || ' have another hash' from blob b where sha256(data) <> sha"};
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    long wrong = 0;
    for (size_t i = 0; i < DLSH_COUNT(questions); i++) {
        dl_rows *r = dl_store_sql(store, questions[i]);
        int more = r ? 0 : -1;
        while (r && (more = dl_rows_next(r)) == 1) {
            if (!i && !strcmp(dl_rows_text(r, 0), "ok")) continue;
            dlsh_put(dlsh_arg_sink(a), "%s\n", dl_rows_text(r, 0));
            wrong++;
        }
        dl_rows_free(r);
        if (more < 0) return dl_failed();
    }
    if (wrong)
        return dlsh_fail(DL_ERR_STORE, "db backup FILE keeps what can be read; sqlite3 FILE .recover writes it anew",
                         "the store has %ld fault%s", wrong, wrong == 1 ? "" : "s");
    dlsh_put(dlsh_arg_sink(a), "%s is sound\n", dl_store_path(store));
    return DL_OK;
}

static dl_status backup_run(const dlsh_args *a) {
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    if (dl_store_backup(store, dlsh_arg_str(a, "file"))) return dlsh_place_failure(a, "file");
    dlsh_put(dlsh_arg_sink(a), "wrote %s\n", dlsh_arg_str(a, "file"));
    return DL_OK;
}

static dl_status vacuum_run(const dlsh_args *a) {
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    dl_gc_result before, after; /* a dry run says the size */
    DLSH_TRY(dl_store_gc(store, 0, 1, &before));
    DLSH_TRY(dl_store_vacuum(store));
    DLSH_TRY(dl_store_gc(store, 0, 1, &after));
    DLSH_SCOPED_BUF b = {0};
    dlsh_buf_puts(&b, "the file has "), put_bytes(&b, after.file_after);
    dlsh_buf_puts(&b, ", before "), put_bytes(&b, before.file_before);
    dlsh_put(dlsh_arg_sink(a), "%s\n", dlsh_buf_text(&b));
    return DL_OK;
}

static dl_status merge_run(const dlsh_args *a) {
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    if (!dlsh_arg_count(a, "files"))
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "db merge other.db", "there is no file to merge");
    for (int i = 0; i < dlsh_arg_count(a, "files"); i++) {
        dl_merge_result r;
        const char *file = dlsh_arg_at(a, "files", i)->as.str->s;
        if (dl_store_merge(store, file, &r)) {
            dl_error e = dlsh_taken_error();
            return dlsh_arg_fail_at(a, "files", i, e.code, *e.hint ? e.hint : NULL, "%s", e.message);
        }
        dlsh_put(dlsh_arg_sink(a), "%s: %ld run%s added, %ld brought up to date, %ld known\n", file, r.runs,
                 r.runs == 1 ? "" : "s", r.updated, r.known);
    }
    return DL_OK;
}

/* Opening a store for writing has brought it up to date. */
static dl_status migrate_run(const dlsh_args *a) {
    dl_store_stats x;
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    dl_store_stats_get(store, &x);
    if (x.readonly)
        return dlsh_fail(DL_ERR_STORE, "copy it to a folder that can be written, or use the dlsh that wrote it",
                         "%s is only read", dl_store_path(store));
    dlsh_put(dlsh_arg_sink(a), "%s has schema version %d\n", dl_store_path(store), x.schema);
    return DL_OK;
}

static const dlsh_command db_subs[] = {
    DLSH_ROW("check", DLSH_REPORT, check_run, "db check",
             "Looks for damage of the file, counts points, and looks for contents that are missing or do not have "
             "the hash under which they are kept."),
    DLSH_ROW("backup", DLSH_ACTION, backup_run, "db backup FILE", "Copies the store, also while others write to it.",
             DLSH_PARAMS({"file", DLSH_ARG_WORD, .doc = "a file that does not exist yet", .complete = "file"})),
    DLSH_ROW("vacuum", DLSH_ACTION, vacuum_run, "db vacuum", "Rewrites the file without gaps."),
    DLSH_ROW("merge", DLSH_ACTION, merge_run, "db merge FILE ...",
             "Adds the runs of other stores, known by their uuid. Repeated, it adds nothing twice; a run that has gone "
             "on since is brought up to date.",
             DLSH_PARAMS({"files", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "other stores", .complete = "file"})),
    DLSH_ROW("migrate", DLSH_ACTION, migrate_run, "db migrate",
             "Brings a store of an older version up to date, after a copy was made as FILE.vN.bak."),
    {0}};

const dlsh_command keep_commands[] = {
    DLSH_ROW("gc", DLSH_ACTION, gc_run, "gc [older=30d] [dry]",
             "Erases runs that were deleted more than so long ago, and contents that no run has any more; the file "
             "becomes smaller.",
             DLSH_OPTIONS({"older", DLSH_OPT_WORD, "30d", .doc = "since when they are deleted: 30d, 12h, 45min, 0s"},
                          {"dry", DLSH_OPT_BOOL, "false", .doc = "only say what would be freed"}),
             .examples = "gc dry\ngc older=7d"),
    DLSH_ROW("db", DLSH_ACTION, NULL, "db check|backup|vacuum|merge|migrate ...",
             "Keeps the experiment store in order.", DLSH_PARAMS({"action", DLSH_ARG_SUBCOMMAND, .doc = "what to do"}),
             .subs = db_subs, .examples = "db check"),
    {0}};
