/* `report`: runs as one page of HTML that needs nothing else. */
#include <stdio.h>
#include <string.h>

#include "commands/history/history.h"

static int is_page(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (!strcasecmp(dot, ".html") || !strcasecmp(dot, ".htm"));
}

static dl_status report_run(const dlsh_args *a) {
    const char *path = dlsh_arg_str(a, "file"), *title = dlsh_arg_str(a, "title");
    if (!is_page(path))
        return dlsh_arg_fail(a, "file", DL_ERR_UNSUPPORTED,
                             "a report is written as .html; export writes .csv and .jsonl",
                             "a report cannot be written as \"%s\"", path);
    dl_store *store;
    DLSH_SCOPED_BUF where = {0}, out = {0};
    DLSH_TRY(dlsh_check_limit(a));
    DLSH_TRY(dlsh_run_condition(a, &store, &where));
    dlsh_run_page p = {.title = title ? title : "Runs",
                       .where = where.n ? dlsh_buf_text(&where) : NULL,
                       .limit = dlsh_arg_int(a, "limit")};
    dl_status st = dlsh_run_page_html(store, &p, &out);
    if (st == DL_ERR_SYNTAX || st == DL_ERR_NAME) return dlsh_place_in(a, "where");
    if (!st) st = dlsh_buf_write(&out, path);
    if (!st) dlsh_put(dlsh_arg_sink(a), "wrote %s, %.1f MB\n", path, (double)out.n / 1e6);
    return st;
}

const dlsh_command report_commands[] = {
    DLSH_ROW(
        "report", DLSH_ACTION, report_run, "report FILE.html [RUN ...] [where=\"...\"] [title=TEXT]",
        "Writes runs as one page that opens without a network: a table to sort and filter, charts to zoom, parallel "
        "coordinates, the weight of parameters, the difference of two runs, pictures.",
        DLSH_PARAMS(
            {"file", DLSH_ARG_WORD, .doc = "a name that ends in .html", .complete = "file"},
            {"runs", DLSH_ARG_WORD, .flags = DLSH_VARIADIC, .doc = "runs; all when left out", .complete = "run"}),
        DLSH_OPTIONS({"title", DLSH_OPT_STRING, NULL, .doc = "heading of the page"},
                     {"limit", DLSH_OPT_INT, "0", .doc = "so many of the newest runs; 0: all"}, DLSH_RUN_FILTERS),
        .examples = "report runs.html\nreport adam.html where=\"opt = adam\" title=\"adam alone\""),
    {0}};
