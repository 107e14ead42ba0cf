/* Comparison of runs, and the ranking of runs by a metric. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "track/query.h"

/* ---------------------------------------------------------------- names of metrics */

/* Words in the last part of a name that say which direction is better; those of the second list win. */
static const char *const more_is_better[] = {
    "acc",    "accuracy", "top1", "top5",   "f1",     "auc",   "auroc", "auprc", "ap",     "map",        "precision",
    "recall", "r2",       "bleu", "rouge",  "psnr",   "ssim",  "iou",   "miou",  "dice",   "throughput", "mcc",
    "kappa",  "score",    "rate", "reward", "return", "speed", "sps",   "fps",   "cosine",
};
static const char *const less_is_better[] = {"loss", "err", "error", "perplexity", "ppl", "nll", "mse", "rmse", "mae"};

static int among(const char *word, size_t n, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == n && !strncasecmp(list[i], word, n)) return 1;
    return 0;
}

int dl_metric_better(const char *name) {
    if (!name) return 0;
    const char *slash = strrchr(name, '/'), *p = slash ? slash + 1 : name;
    int up = 0;
    while (*p) {
        size_t n = strcspn(p, "_-.@ ");
        if (among(p, n, less_is_better, sizeof less_is_better / sizeof *less_is_better)) return -1;
        up |= among(p, n, more_is_better, sizeof more_is_better / sizeof *more_is_better);
        p += n + (p[n] != 0);
    }
    return up;
}

int dl_metric_direction(const char *name) { return dl_metric_better(name) > 0 ? 1 : -1; }

static void list_metrics(char *const *names, int n, char *out, size_t size) {
    enum { SHOWN = 8 };
    size_t used = (size_t)snprintf(out, size, "there %s", n == 1 ? "is" : "are");
    for (int i = 0; i < n && i <= SHOWN && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%.60s", i ? ", " : " ", i < SHOWN ? names[i] : "...");
}

static dl_status no_metric(sqlite3 *db, const char *name) {
    enum { MOST = 512 };
    char hint[700];
    char *names[MOST];
    int n = dl_db_texts(db,
                        strchr(name, '/') ? DL_SERIES_KEYS "select key from keys where key is not null"
                                          : DL_SERIES_KEYS
                            "select distinct substr(key, instr(key, '/') + 1) from keys where key is not null",
                        names, MOST);
    list_metrics(names, n, hint, sizeof hint);
    dl_fail_unknown(name, (const char *const *)names, n, n ? hint : "nothing has been recorded yet",
                    "no run has a metric '%.200s'", name);
    while (n) free(names[--n]);
    return DL_ERR_NAME;
}

/* A bare name below another word than train and test: val/acc. The first in the alphabet where there are several. */
static dl_status find_below(sqlite3 *db, const char *name, char *out, long size) {
    DL_DB_STATEMENT(q);
    DL_TRY(dl_db_prepare(db, &q,
                         DL_SERIES_KEYS "select key from keys where substr(key, -length(?1) - 1) = '/' || ?1 and exists"
                                        "(select 1 from series s where s.key = keys.key and s.n > 0) limit 1"));
    sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
    if (sqlite3_step(q) != SQLITE_ROW) return no_metric(db, name);
    const char *key = (const char *)sqlite3_column_text(q, 0);
    if ((long)strlen(key) >= size)
        return dl_fail(DL_ERR_VALUE, "the name of the metric needs %zu bytes", strlen(key) + 1);
    strcpy(out, key);
    return DL_OK;
}

dl_status dl_metric_key(sqlite3 *db, const char *name, char *out, long size) {
    static const char *const forms[] = {"%s", "train/%s", "test/%s"};
    int bare = !strchr(name, '/');
    for (int i = !strcmp(name, "loss"); i < (bare ? 3 : 1); i++) {
        int64_t found = 0;
        char key[DL_RING_KEY_MAX + 8];
        if (strlen(name) > DL_RING_KEY_MAX) break;
        snprintf(key, sizeof key, forms[i], name);
        DL_TRY(dl_db_int(db, &found, "select 1 from series where key = ?1 and n > 0 limit 1", "t", key));
        if (!found) continue;
        if ((long)strlen(key) >= size)
            return dl_fail(DL_ERR_VALUE, "the name of the metric needs %zu bytes", strlen(key) + 1);
        strcpy(out, key);
        return DL_OK;
    }
    return bare && strcmp(name, "loss") ? find_below(db, name, out, size) : no_metric(db, name);
}

dl_status dl_metric_resolve(dl_store *s, const char *name, char *out, long size) {
    if (!name) return dl_fail_null("name of the metric");
    DL_TRY(dl_store_read_lock(s));
    return dl_store_read_unlock(s, dl_metric_key(s->r, name, out, size));
}

/* ---------------------------------------------------------------- comparison */

typedef struct comparison {
    dl_comparison public;
    dl_arena arena;
} comparison;

void dl_comparison_free(dl_comparison *c) {
    if (!c) return;
    dl_arena_free(&((comparison *)c)->arena);
    free(c);
}

static int text_order(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sorts n texts and drops repetitions; returns how many are left. */
static long unique(const char **keys, long n) {
    long kept = 0;
    if (n) qsort(keys, (size_t)n, sizeof *keys, text_order);
    for (long i = 0; i < n; i++)
        if (!kept || strcmp(keys[kept - 1], keys[i])) keys[kept++] = keys[i];
    return kept;
}

/* Parameters and series are read in the order of their keys, and the key is the first member of both. */
static int key_order(const void *key, const void *entry) { return strcmp(key, *(const char *const *)entry); }

static const char *param_of(const dl_run_info *r, const char *key) {
    if (!r->nparam) return NULL;
    const dl_param_info *p = bsearch(key, r->params, (size_t)r->nparam, sizeof *p, key_order);
    return p ? p->value : NULL;
}

static const dl_series_info *series_of(const dl_run_info *r, const char *key) {
    return r->nseries ? bsearch(key, r->series, (size_t)r->nseries, sizeof *r->series, key_order) : NULL;
}

/* What is compared beside the parameters. */
static const char *const facts[] = {"seed", "model", "n_params", "dataset", "device", "host", "commit", "script"};
enum { NFACT = sizeof facts / sizeof *facts };

static void read_facts(dl_arena *a, const dl_run_info *r, const char *out[NFACT]) {
    char sha[65] = "";
    if (*r->script_text) dl_sha256_hex(r->script_text, strlen(r->script_text), sha);
    const char *const values[NFACT] = {
        dl_arena_printf(a, "%lu", r->seed),
        dl_arena_printf(a, "%.200s%s%.12s", r->model_name, *r->model_sha ? " " : "", r->model_sha),
        dl_arena_printf(a, "%ld", r->n_params),
        dl_arena_printf(a, "%.200s%s%.12s", r->dataset, *r->data_fingerprint ? " " : "", r->data_fingerprint),
        r->device,
        r->host,
        dl_arena_printf(a, "%.12s%s%.8s", r->git_commit, *r->git_diff_sha ? " + " : "", r->git_diff_sha),
        dl_arena_printf(a, "%.200s%s%.12s", r->script_path, *sha ? " " : "", sha)};
    memcpy(out, values, sizeof values);
}

/* A parameter that says the same: the seed of a run is often one, too. */
static int is_listed(const dl_comparison *c, const char *key, const char *const *values) {
    for (long i = 0; i < c->nparam; i++) {
        long r = 0;
        if (strcmp(c->params[i].key, key)) continue;
        while (r < c->n && values[r] && c->params[i].values[r] && !strcmp(values[r], c->params[i].values[r])) r++;
        if (r == c->n) return 1;
    }
    return 0;
}

/* Leaves out what no run has, and what is the same in all unless `all` is wanted. */
static int add_param(dl_arena *a, dl_comparison *c, dl_compare_param *list, const char *key, const char **values,
                     int all) {
    int differs = 0, any = 0;
    for (long r = 0; r < c->n; r++) {
        any |= values[r] && *values[r];
        differs |= !values[r] != !values[0] || (values[r] && strcmp(values[r], values[0]));
    }
    if (any && (differs || all)) list[c->nparam++] = (dl_compare_param){dl_arena_text(a, key), values, differs};
    return !a->failed;
}

static const char *param_key(const dl_run_info *r, long i) { return i < r->nparam ? r->params[i].key : NULL; }
static const char *series_key(const dl_run_info *r, long i) { return i < r->nseries ? r->series[i].key : NULL; }

/* The keys of all runs, sorted, each once; *n of them. NULL without memory. */
static const char **all_keys(dl_arena *a, const dl_comparison *c, const char *(*key_at)(const dl_run_info *r, long i),
                             long *n) {
    const char *key, **keys = dl_arena_get(a, sizeof *keys);
    *n = 0;
    for (long r = 0; r < c->n; r++)
        for (long i = 0; keys && (key = key_at(&c->runs[r], i)); i++)
            if ((keys = dl_arena_more(a, keys, *n, sizeof *keys))) keys[(*n)++] = key;
    if (keys) *n = unique(keys, *n);
    return keys;
}

/* Moves those that differ to the front; the order stays else. */
static int differing_first(dl_arena *a, dl_compare_param *list, long n) {
    dl_compare_param *copy = dl_arena_get(a, (size_t)(n + 1) * sizeof *copy);
    if (!copy) return 0;
    memcpy(copy, list, (size_t)n * sizeof *copy);
    for (int same = 0; same < 2; same++)
        for (long i = 0; i < n; i++)
            if (copy[i].differs != same) *list++ = copy[i];
    return 1;
}

static int compare_params(dl_arena *a, dl_comparison *c, int all) {
    long n;
    const char **keys = all_keys(a, c, param_key, &n);
    dl_compare_param *list = keys ? dl_arena_get(a, (size_t)(n + NFACT) * sizeof *list) : NULL;
    const char *(*own)[NFACT] = list ? dl_arena_get(a, (size_t)c->n * sizeof *own) : NULL;
    if (!own) return 0;
    c->params = list;
    for (long r = 0; r < c->n; r++) read_facts(a, &c->runs[r], own[r]);
    for (long i = 0; i < n + NFACT; i++) {
        const char **values = dl_arena_get(a, (size_t)c->n * sizeof *values);
        if (!values) return 0;
        for (long r = 0; r < c->n; r++) values[r] = i < n ? param_of(&c->runs[r], keys[i]) : own[r][i - n];
        if (i >= n && is_listed(c, facts[i - n], values)) continue; /* the keys of parameters differ */
        if (!add_param(a, c, list, i < n ? keys[i] : facts[i - n], values, all)) return 0;
    }
    return differing_first(a, list, c->nparam);
}

static int compare_series(dl_arena *a, dl_comparison *c) {
    const char **keys = all_keys(a, c, series_key, &c->nseries);
    dl_compare_series *list = keys ? dl_arena_get(a, (size_t)(c->nseries + 1) * sizeof *list) : NULL;
    if (!list) return 0;
    c->series = list;
    for (long i = 0; i < c->nseries; i++) {
        const dl_series_info **cells = dl_arena_get(a, (size_t)c->n * sizeof *cells);
        if (!cells) return 0;
        for (long r = 0; r < c->n; r++) cells[r] = series_of(&c->runs[r], keys[i]);
        list[i] = (dl_compare_series){keys[i], cells};
    }
    return 1;
}

/* Loads runs in the order of `ids`, repeated ones too. */
static dl_status load_compared(dl_store *s, const long *ids, long n, dl_arena *a, dl_run_info *out) {
    for (long i = 0; i < n; i++) {
        dl_clause c DL_SCOPE(dl_clause_free) = {0};
        dl_run_info *one = NULL;
        long found = 0;
        DL_TRY(dl_clause_init(&c));
        dl_runs_select(&c);
        sqlite3_str_appendf(c.sql, "r.id = %ld", ids[i]);
        DL_TRY(dl_runs_load(s, &c, 1, a, &one, &found));
        if (!found) return dl_run_missing(ids[i]);
        out[i] = *one;
    }
    return DL_OK;
}

dl_comparison *dl_run_compare(dl_store *s, const long *ids, long n, int all) {
    if (n < 1 || !ids)
        return dl_fail_hint(DL_ERR_VALUE, "give the ids of two runs or more", "there is no run to compare"), NULL;
    comparison *c = calloc(1, sizeof *c);
    if (!c) return dl_fail(DL_ERR_MEMORY, "no memory for a comparison"), NULL;
    dl_status st = dl_store_read_lock(s);
    if (st == DL_OK) {
        dl_run_info *runs = dl_arena_get(&c->arena, (size_t)n * sizeof *runs);
        c->public.n = n;
        c->public.runs = runs;
        if (runs) st = load_compared(s, ids, n, &c->arena, runs);
        dl_store_read_unlock(s, DL_OK);
        if (st == DL_OK &&
            (!runs || !compare_params(&c->arena, &c->public, all) || !compare_series(&c->arena, &c->public)))
            st = dl_failed();
    }
    if (st == DL_OK) return &c->public;
    dl_comparison_free(&c->public);
    return NULL;
}

/* ---------------------------------------------------------------- the best */

typedef struct ranking {
    dl_ranking public;
    dl_arena arena;
    char metric[DL_RING_KEY_MAX + 8];
} ranking;

void dl_ranking_free(dl_ranking *r) {
    if (!r) return;
    dl_arena_free(&((ranking *)r)->arena);
    free(r);
}

static dl_status rank(dl_store *s, const char *metric, int direction, const char *where, long limit, ranking *out) {
    dl_clause c DL_SCOPE(dl_clause_free) = {0};
    dl_run_info *runs = NULL;
    DL_TRY(dl_metric_key(s->r, metric, out->metric, sizeof out->metric));
    out->public.metric = out->metric;
    out->public.direction = direction ? (direction > 0 ? 1 : -1) : dl_metric_direction(out->metric);
    DL_TRY(dl_clause_init(&c));
    const char *column = out->public.direction > 0 ? "max" : "min";
    int key = dl_clause_text(&c, out->metric);
    if (!key) return dl_failed();
    /* from the metric to its runs: one walk of its part of the index */
    sqlite3_str_appendf(c.sql,
                        "select r.id from series as m cross join run as r on r.id = m.run_id"
                        " where m.key = ?%d and m.%s is not null and r.deleted_us is null",
                        key, column);
    if (where) DL_TRY(dl_filter_where(&c, s->r, where));
    sqlite3_str_appendf(c.sql, " order by m.%s %s, r.id", column, out->public.direction > 0 ? "desc" : "asc");
    dl_runs_limit(&c, limit);
    DL_TRY(dl_runs_load(s, &c, 0, &out->arena, &runs, &out->public.n));
    dl_best_entry *e = dl_arena_get(&out->arena, (size_t)(out->public.n + 1) * sizeof *e);
    if (!e) return dl_failed();
    for (long i = 0; i < out->public.n; i++) {
        const dl_series_info *x = series_of(&runs[i], out->metric);
        e[i] = out->public.direction > 0 ? (dl_best_entry){&runs[i], x->max, x->max_step}
                                         : (dl_best_entry){&runs[i], x->min, x->min_step};
    }
    out->public.entries = e;
    return DL_OK;
}

dl_ranking *dl_run_best(dl_store *s, const char *metric, int direction, const char *where, long limit) {
    if (!metric) return dl_fail_null("name of the metric"), NULL;
    ranking *r = calloc(1, sizeof *r);
    if (!r) return dl_fail(DL_ERR_MEMORY, "no memory for a ranking"), NULL;
    dl_status st = dl_store_read_lock(s);
    if (st == DL_OK) st = dl_store_read_unlock(s, rank(s, metric, direction, where, limit, r));
    if (st == DL_OK && !r->public.n)
        st = dl_fail_hint(DL_ERR_NAME,
                          where ? "see runs with the same where=" : "its values may all be NaN: see run show",
                          "no run%s has a value of %.200s", where ? " that fits" : "", r->metric);
    if (st == DL_OK) return &r->public;
    dl_ranking_free(&r->public);
    return NULL;
}
