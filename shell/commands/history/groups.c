/* `compare by=`: groups of runs beside each other, with means, intervals and tests of their differences. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/history/history.h"
#include "commands/history/statistics.h"

enum { MOST_GROUPS = 64 };

/* One run: its value of the metric, and by what it is paired. */
typedef struct sample {
    double value;
    char *over;
} sample;

typedef struct group {
    char *name;
    sample *samples;
    int n, cap;
    double mean, std, low, high;
} group;

typedef struct pair {
    const group *a, *b;
    int n; /* pairs by `over` */
    dlsh_ttest paired, welch;
    double paired_holm, welch_holm;
} pair;

typedef struct grouping {
    group *groups;
    pair *pairs;
    double *numbers; /* scratch */
    int n, cap, npair, left_out, direction;
    const char *by, *over, *metric;
} grouping;

static void grouping_free(grouping *g) {
    for (int i = 0; i < g->n; i++) {
        for (int k = 0; k < g->groups[i].n; k++) free(g->groups[i].samples[k].over);
        free(g->groups[i].samples);
        free(g->groups[i].name);
    }
    free(g->groups);
    free(g->pairs);
    free(g->numbers);
}

/* ---------------------------------------------------------------- reading */

static char *cell_text(const dl_rows *rows, long col) {
    const char *text = dl_rows_type(rows, col) == 'n' ? "none" : dl_rows_text(rows, col);
    char *copy = strdup(text ? text : "none");
    if (!copy) dlsh_no_memory("a comparison");
    return copy;
}

static group *group_of(const dlsh_args *a, grouping *g, const char *name) {
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->groups[i].name, name)) return &g->groups[i];
    if (g->n == MOST_GROUPS) {
        dlsh_arg_fail(a, "by", DL_ERR_VALUE,
                      "choose a name with few values, or fewer runs by where=", "%s has more than %d values", g->by,
                      MOST_GROUPS);
        return NULL;
    }
    group *grown = dlsh_grow(g->groups, g->n, &g->cap, sizeof *grown);
    char *copy = grown ? strdup(name) : NULL;
    if (grown) g->groups = grown;
    if (!copy) return dlsh_no_memory("a comparison"), NULL;
    g->groups[g->n] = (group){.name = copy};
    return &g->groups[g->n++];
}

/* Columns: by, metric, over. Runs without a finite value are counted and left out. */
static dl_status add_row(const dlsh_args *a, grouping *g, const dl_rows *rows) {
    double value = strchr("if", dl_rows_type(rows, 1)) ? dl_rows_float(rows, 1) : NAN;
    if (!isfinite(value)) return g->left_out++, DL_OK;
    DLSH_FREED char *name = cell_text(rows, 0);
    group *to = name ? group_of(a, g, name) : NULL;
    if (!to) return dl_failed();
    sample *grown = dlsh_grow(to->samples, to->n, &to->cap, sizeof *grown);
    if (!grown) return dl_failed();
    to->samples = grown;
    to->samples[to->n] = (sample){value, g->over ? cell_text(rows, 2) : NULL};
    return to->samples[to->n++].over || !g->over ? DL_OK : DL_ERR_MEMORY;
}

/* A failure of the names is placed at the option that has the name. */
static dl_status check_name(const dlsh_args *a, dl_store *store, const char *option, const char *name) {
    dl_run_query one = {.limit = 1};
    dl_rows *rows = dl_run_table(store, &one, name);
    dl_rows_free(rows);
    return rows ? DL_OK : dlsh_place_failure(a, option);
}

static dl_status read_groups(const dlsh_args *a, grouping *g) {
    dl_store *store;
    DLSH_SCOPED_BUF where = {0}, cols = {0};
    DLSH_TRY(dlsh_run_condition(a, &store, &where));
    DLSH_TRY(check_name(a, store, "by", g->by));
    DLSH_TRY(check_name(a, store, "metric", g->metric));
    if (g->over) DLSH_TRY(check_name(a, store, "over", g->over));
    dlsh_buf_printf(&cols, "%s,%s%s%s", g->by, g->metric, g->over ? "," : "", g->over ? g->over : "");
    dl_run_query q = {.where = where.n ? dlsh_buf_text(&where) : NULL, .sort = "id"};
    DLSH_ENDED(dl_rows_free) dl_rows *rows = dl_run_table(store, &q, dlsh_buf_text(&cols));
    if (!rows) return dlsh_place_failure(a, "where");
    int more = 0;
    while ((more = dl_rows_next(rows)) > 0) DLSH_TRY(add_row(a, g, rows));
    return more < 0 ? dl_failed() : DL_OK;
}

/* ---------------------------------------------------------------- computing */

/* The mean of a group at one value of `over`; NaN: it has none. */
static double value_over(const group *g, const char *over) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->samples[i].over, over)) sum += g->samples[i].value, n++;
    return n ? sum / n : NAN;
}

static int is_first(const group *g, int i) {
    for (int k = 0; k < i; k++)
        if (!strcmp(g->samples[k].over, g->samples[i].over)) return 0;
    return 1;
}

static void compare_groups(grouping *g, pair *p) {
    double *x = g->numbers, *y = x + p->a->n;
    for (int i = 0; g->over && i < p->a->n; i++) {
        const char *over = p->a->samples[i].over;
        double other = is_first(p->a, i) ? value_over(p->b, over) : NAN;
        if (isnan(other)) continue;
        x[p->n] = value_over(p->a, over);
        y[p->n++] = other;
    }
    p->paired = dlsh_paired_test(x, y, p->n);
    for (int i = 0; i < p->a->n; i++) x[i] = p->a->samples[i].value;
    for (int i = 0; i < p->b->n; i++) y[i] = p->b->samples[i].value;
    p->welch = dlsh_welch_test(x, p->a->n, y, p->b->n);
}

static int sorted_down; /* for qsort: the largest mean first */
static int by_mean(const void *a, const void *b) {
    double x = ((const group *)a)->mean, y = ((const group *)b)->mean;
    return sorted_down ? (x < y) - (x > y) : (x > y) - (x < y);
}

static dl_status compute(grouping *g) {
    int most = 0;
    for (int i = 0; i < g->n; i++) most = g->groups[i].n > most ? g->groups[i].n : most;
    int pairs = g->n * (g->n - 1) / 2;
    g->numbers = calloc((size_t)(2 * most + DLSH_RESAMPLES + 4 * pairs), sizeof *g->numbers);
    g->pairs = calloc((size_t)pairs + 1, sizeof *g->pairs);
    if (!g->numbers || !g->pairs) return dlsh_no_memory("a comparison");
    double *scratch = g->numbers + 2 * most, *p = scratch + DLSH_RESAMPLES;
    for (int i = 0; i < g->n; i++) {
        group *one = &g->groups[i];
        for (int k = 0; k < one->n; k++) g->numbers[k] = one->samples[k].value;
        one->mean = dlsh_mean(g->numbers, one->n);
        one->std = dlsh_std(g->numbers, one->n);
        dlsh_bootstrap(g->numbers, one->n, 0.95, scratch, &one->low, &one->high);
    }
    sorted_down = g->direction > 0;
    qsort(g->groups, (size_t)g->n, sizeof *g->groups, by_mean);
    for (int i = 0; i < g->n; i++)
        for (int k = i + 1; k < g->n; k++) {
            g->pairs[g->npair] = (pair){.a = &g->groups[i], .b = &g->groups[k]};
            compare_groups(g, &g->pairs[g->npair++]);
        }
    for (int i = 0; i < pairs; i++) p[i] = g->pairs[i].paired.p, p[pairs + i] = g->pairs[i].welch.p;
    dlsh_holm(p, p + 2 * pairs, pairs);
    dlsh_holm(p + pairs, p + 3 * pairs, pairs);
    for (int i = 0; i < pairs; i++)
        g->pairs[i].paired_holm = p[2 * pairs + i], g->pairs[i].welch_holm = p[3 * pairs + i];
    return DL_OK;
}

/* ---------------------------------------------------------------- showing */

static dlsh_value number(double x) { return isnan(x) ? dlsh_none() : dlsh_float(x); }

static dl_status group_table(const grouping *g, int people, dlsh_table *t) {
    for (int i = 0; i < g->n; i++) {
        const group *one = &g->groups[i];
        const int best = g->n > 1 && !i;
        DLSH_TRY(DLSH_TABLE_ROW(t, dlsh_string(one->name), dlsh_int(one->n), number(one->mean), number(one->std),
                                number(one->low), number(one->high),
                                !people ? dlsh_bool(best)
                                : best  ? dlsh_string("best")
                                        : dlsh_none()));
    }
    return DL_OK;
}

/* Columns of a pair: the first that all tables have, those of the paired test, those of Welch's. */
enum { COMMON = 3, PAIRED = 4, WELCH = 4, NPAIR_COLUMNS = COMMON + PAIRED + WELCH };

static dl_status pair_table(const grouping *g, dlsh_table *t) {
    for (int i = 0; i < g->npair; i++) {
        const pair *p = &g->pairs[i];
        dlsh_value cells[NPAIR_COLUMNS] = {
            dlsh_string(p->a->name), dlsh_string(p->b->name), number(p->a->mean - p->b->mean),
            dlsh_int(p->n),          number(p->paired.t),     number(p->paired.p),
            number(p->paired_holm),  number(p->welch.t),      number(p->welch.df),
            number(p->welch.p),      number(p->welch_holm)};
        if (t->ncols < NPAIR_COLUMNS) memmove(cells + COMMON, cells + COMMON + PAIRED, WELCH * sizeof *cells);
        DLSH_TRY(dlsh_table_row(t, cells));
    }
    return DL_OK;
}

/* The smallest p-value that an exact test can give which takes no distribution for granted: of n pairs, all differences
 * having one sign, 2 / 2^n; of two groups, all values of one being larger, 2 / (n + m over n). */
static double smallest_p(const grouping *g, const pair *p) {
    double ways = 1;
    if (g->over) return fmin(1, 2 / pow(2, p->n));
    for (int i = 1; i <= p->b->n; i++) ways *= (double)(p->a->n + i) / i;
    return fmin(1, 2 / ways);
}

/* What so few values cannot support. */
static void warn(const dlsh_args *a, const grouping *g) {
    dlsh_session *s = dlsh_arg_session(a);
    const pair *worst = NULL;
    if (g->left_out)
        dlsh_warn(s, NULL, "left out: %d run%s without a value of %s", g->left_out, g->left_out > 1 ? "s" : "",
                  g->metric);
    if (g->n < 2) dlsh_warn(s, NULL, "there is one group only: all runs have the same %s", g->by);
    for (int i = 0; i < g->npair; i++)
        if (!worst || smallest_p(g, &g->pairs[i]) > smallest_p(g, worst)) worst = &g->pairs[i];
    for (int i = 0; i < g->n; i++)
        if (g->groups[i].n > 1 && g->groups[i].std == 0) {
            dlsh_warn(s, NULL, "all %d values of %s are equal: such runs are one measurement, and a test needs several",
                      g->groups[i].n, g->groups[i].name);
            break;
        }
    double p = worst ? smallest_p(g, worst) : 0;
    if (p <= 0.05) return;
    DLSH_SCOPED_BUF what = {0};
    if (g->over)
        dlsh_buf_printf(&what, "%d pair%s of %s and %s", worst->n, worst->n == 1 ? "" : "s", worst->a->name,
                        worst->b->name);
    else
        dlsh_buf_printf(&what, "%d and %d runs of %s and %s", worst->a->n, worst->b->n, worst->a->name, worst->b->name);
    dlsh_warn(
        s, NULL,
        "n is too small to support a claim: with %s an exact test cannot give p below %.3g, and the p-values above "
        "assume normally distributed values",
        dlsh_buf_text(&what), p);
}

static const dlsh_column pair_columns[NPAIR_COLUMNS] = {
    {"a", 'l', ""},      {"b", 'l', ""},           {"difference", 'r', "%.4g"},  {"pairs", 'r', ""},
    {"t", 'r', "%.4g"},  {"p", 'r', "%.3g"},       {"p Holm", 'r', "%.3g"},      {"Welch t", 'r', "%.4g"},
    {"df", 'r', "%.4g"}, {"Welch p", 'r', "%.3g"}, {"Welch p Holm", 'r', "%.3g"}};
/* The names of the same columns for programs. */
static const dlsh_column pair_keys[NPAIR_COLUMNS] = {
    {"a", 'l', ""},        {"b", 'l', ""},        {"difference", 'r', ""},    {"pairs", 'r', ""},
    {"paired_t", 'r', ""}, {"paired_p", 'r', ""}, {"paired_p_holm", 'r', ""}, {"welch_t", 'r', ""},
    {"welch_df", 'r', ""}, {"welch_p", 'r', ""},  {"welch_p_holm", 'r', ""}};

static dl_status give_tables(dlsh_table *groups, dlsh_table *pairs, dlsh_value *result) {
    dlsh_value lists[2] = {dlsh_void(), dlsh_void()};
    dl_status status = dlsh_table_list(groups, &lists[0]);
    if (!status) status = dlsh_table_list(pairs, &lists[1]);
    dlsh_table_clear(groups);
    dlsh_table_clear(pairs);
    if (!status) return dlsh_give(DLSH_RECORD_OF({"groups", lists[0]}, {"pairs", lists[1]}), result);
    dlsh_drop(lists[0]);
    return status;
}

static dl_status show(const dlsh_args *a, const grouping *g, dlsh_value *result) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    int people = !dlsh_arg_called(a) && dlsh_sink_look(sink).mode == DLSH_MODE_TABLE;
    DLSH_SCOPED_TABLE groups = DLSH_TABLE({g->by, 'l', ""}, {"n", 'r', ""}, {"mean", 'r', "%.5g"}, {"std", 'r', "%.3g"},
                                          {people ? "95% from" : "low", 'r', "%.5g"},
                                          {people ? "to" : "high", 'r', "%.5g"}, {people ? "" : "best", 'l', ""});
    /* people see no columns of a test that was not made */
    dlsh_column cols[NPAIR_COLUMNS];
    int paired = !people || g->over, rest = COMMON + (paired ? 0 : PAIRED);
    memcpy(cols, people ? pair_columns : pair_keys, sizeof cols);
    memmove(cols + COMMON, cols + rest, (size_t)(NPAIR_COLUMNS - rest) * sizeof *cols);
    DLSH_SCOPED_TABLE pairs = {.ncols = COMMON + NPAIR_COLUMNS - rest, .cols = cols, .keys = 2};
    DLSH_TRY(group_table(g, people, &groups));
    DLSH_TRY(pair_table(g, &pairs));
    if (dlsh_arg_called(a)) return give_tables(&groups, &pairs, result);
    if (people) dlsh_put(sink, "%s, %s is better\n", g->metric, g->direction > 0 ? "higher" : "lower");
    DLSH_TRY(dlsh_table_show(sink, &groups, DL_OK, ""));
    if (people && g->npair) dlsh_put(sink, "\n");
    if (g->npair) DLSH_TRY(dlsh_table_show(sink, &pairs, DL_OK, ""));
    warn(a, g);
    return DL_OK;
}

/* "val/loss" for min(val/loss). */
static int direction_of(const char *metric) {
    const char *open = strchr(metric, '('), *name = open ? open + 1 : metric;
    char plain[128];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name, ")"), name);
    return dl_metric_direction(plain);
}

dl_status dlsh_compare_groups(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED(grouping_free)
    grouping g = {.by = dlsh_arg_str(a, "by"), .over = dlsh_arg_str(a, "over"), .metric = dlsh_arg_str(a, "metric")};
    if (!g.metric)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "compare by=opt over=seed metric=min(val/loss)",
                             "what is compared is missing: metric=");
    g.direction = direction_of(g.metric);
    DLSH_TRY(read_groups(a, &g));
    if (!g.n)
        return dlsh_arg_fail(a, "metric", DL_ERR_NAME, "runs lists them", "no run that fits has a value of %s",
                             g.metric);
    DLSH_TRY(compute(&g));
    return show(a, &g, result);
}
