/* Names in filters. */
#include "track/filter/filter_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *sql;
    dl_filter_type type;
} columns[] = {
    {"id", "r.id", DL_FY_NUMBER},
    {"name", "r.name", DL_FY_TEXT},
    {"status", "r.status", DL_FY_STATUS},
    {"experiment", "r.experiment", DL_FY_TEXT},
    {"group", "r.grp", DL_FY_TEXT},
    {"device", "r.device", DL_FY_TEXT},
    {"seed", "r.seed", DL_FY_NUMBER},
    {"model", "r.model_name", DL_FY_TEXT},
    {"n_params", "r.n_params", DL_FY_NUMBER},
    {"dataset", "r.dataset", DL_FY_TEXT},
    {"host", "r.host", DL_FY_TEXT},
    {"commit", "r.git_commit", DL_FY_TEXT},
    {"script", "r.script_path", DL_FY_TEXT},
    {"note", "r.note", DL_FY_TEXT},
    {"error", "r.error", DL_FY_TEXT},
    {"uuid", "r.uuid", DL_FY_TEXT},
    {"parent", "r.parent_id", DL_FY_NUMBER},
    {"sweep", "r.sweep_id", DL_FY_NUMBER},
    {"started", "(r.started_us / 1e6)", DL_FY_DATE},
    {"ended", "(r.ended_us / 1e6)", DL_FY_DATE},
    {"seconds",
     "((r.active_us + coalesce(max(0, (julianday('now') - 2440587.5) * 86400e6 - r.active_since_us), 0)) / 1e6)",
     DL_FY_DURATION},
};
enum { NCOLUMN = sizeof columns / sizeof *columns };

/* Statistics of a metric: min(test/loss). `best` is min or max, as the metric's name tells. */
static const struct {
    const char *name, *sql;
} statistics[] = {
    {"last", "s.last"}, {"first", "s.first"}, {"min", "s.min"},
    {"max", "s.max"},   {"best", ""},         {"mean", "(s.sum / (s.n - s.n_nan))"},
    {"n", "s.n"},
};
enum { NSTATISTIC = sizeof statistics / sizeof *statistics, NAMES_KEPT = 512 };

static int exists(sqlite3 *db, const char *sql, const char *key) {
    int64_t found = 0;
    return dl_db_int(db, &found, sql, "t", key) == DL_OK && found;
}

int dl_filter_param(sqlite3 *db, const char *name, dl_filter_type *type) {
    int number = exists(db, "select 1 from param where key = ?1 and num is not null limit 1", name);
    int text = exists(db, "select 1 from param where key = ?1 and num is null limit 1", name);
    *type = number && text ? DL_FY_EITHER : number ? DL_FY_NUMBER : DL_FY_TEXT;
    return number || text;
}

/* Headings of lists of runs, and the columns below them. */
static const struct {
    const char *heading, *column;
} headings[] = {{"time", "seconds"}, {"took", "seconds"}, {"params", "n_params"}, {"duration", "seconds"}};

/* Which names there are: the columns, and before them as many parameters as the hint of an error has room for. */
static void list_names(const char *name, char *const *params, int nparam, char *out, size_t size) {
    for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
        if (!strcmp(headings[i].heading, name)) {
            snprintf(out, size, "the column is called %s", headings[i].column);
            return;
        }
    char text[256];
    size_t used = 0, n = 0;
    for (int i = 0; i < NCOLUMN; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : "columns are ", columns[i].name);
    for (int i = 0; i < nparam; i++) {
        const char *before = i ? ", " : "parameters are ";
        const int fits = used + strlen(before) + strlen(params[i]) + sizeof ", ...; " + n < size;
        used += (size_t)snprintf(out + used, size - used, "%s%s", fits ? before : ", ...", fits ? params[i] : "");
        if (!fits) break;
    }
    snprintf(out + used, size - used, "%s%s", used ? "; " : "", text);
}

/* All names there are, for the nearest one. */
static dl_status unknown(sqlite3 *db, const char *name) {
    char hint[sizeof((dl_error *)0)->hint];
    char *found[NAMES_KEPT];
    const char *names[NAMES_KEPT + NCOLUMN + 1] = {"tag"};
    /* the hint has those first in which late runs differ */
    int n = 1, nfound = dl_db_texts(db,
                                    "select key from param where run_id > (select max(id) - 500 from run) group by key "
                                    "order by count(distinct value) desc, key",
                                    found, NAMES_KEPT / 4);
    list_names(name, found, nfound, hint, sizeof hint);
    nfound += dl_db_texts(db, DL_KEYS_OF("param") "select key from keys where key is not null", found + nfound,
                          NAMES_KEPT / 4);
    nfound += dl_db_texts(db, DL_SERIES_KEYS "select key from keys where key is not null", found + nfound,
                          NAMES_KEPT - nfound);
    for (int i = 0; i < NCOLUMN; i++) names[n++] = columns[i].name;
    for (int i = 0; i < nfound; i++) names[n++] = found[i];
    dl_fail_unknown(name, names, n, hint, "no run has a parameter or metric '%.200s'", name);
    while (nfound) free(found[--nfound]);
    return DL_ERR_NAME;
}

static dl_status find_statistic(const char *word, dl_filter_name *out) {
    const char *names[NSTATISTIC];
    for (int i = 0; i < NSTATISTIC; i++) {
        names[i] = statistics[i].name;
        if (!strcmp(statistics[i].name, word)) return out->sql = statistics[i].sql, DL_OK;
    }
    return dl_fail_unknown(word, names, NSTATISTIC, "there are last, first, min, max, best, mean and n",
                           "no statistic '%.100s'", word);
}

static int find_column(const char *name, dl_filter_name *out) {
    for (int i = 0; i < NCOLUMN; i++)
        if (!strcmp(columns[i].name, name)) {
            out->sql = columns[i].sql;
            out->type = columns[i].type;
            return 1;
        }
    out->kind = DL_FK_TAG;
    out->type = DL_FY_TEXT;
    return !strcmp(name, "tag");
}

static dl_status find_metric(sqlite3 *db, const char *name, dl_filter_name *out) {
    out->kind = DL_FK_METRIC;
    out->type = DL_FY_NUMBER;
    DL_TRY(dl_metric_key(db, name, out->key, sizeof out->key));
    if (!*out->sql) out->sql = dl_metric_direction(out->key) > 0 ? "s.max" : "s.min";
    return DL_OK;
}

dl_status dl_filter_find(sqlite3 *db, const char *statistic, const char *name, dl_filter_name *out) {
    *out = (dl_filter_name){.sql = "s.last"};
    snprintf(out->key, sizeof out->key, "%s", name);
    if (statistic) {
        DL_TRY(find_statistic(statistic, out));
        return find_metric(db, name, out);
    }
    if (find_column(name, out)) return DL_OK;
    /* the loss function is a parameter, too: a filter takes it when it compares with text */
    out->kind = DL_FK_PARAM;
    if (strcmp(name, "loss") && dl_filter_param(db, name, &out->type)) return DL_OK;
    if (find_metric(db, name, out) == DL_OK) return DL_OK;
    out->kind = DL_FK_PARAM;
    if (dl_filter_param(db, name, &out->type)) return DL_OK;
    if (dl_failed() != DL_ERR_NAME || strchr(name, '/')) return dl_failed();
    return unknown(db, name);
}
