/* `importance`: which parameters go with a figure of runs. */
#include "commands/history/importance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/history/statistics.h"

/* ---------------------------------------------------------------- reading */

void dlsh_factors_free(dlsh_factors *f) {
    dl_run_list_free(f->list);
    free(f->runs);
    free(f->figure);
    free(f->params);
}

const dl_param_info *dlsh_factor_of(const dl_run_info *r, const char *param) {
    for (long i = 0; i < r->nparam; i++)
        if (!strcmp(r->params[i].key, param)) return &r->params[i];
    return NULL;
}

static const struct statistic {
    const char *name;
    size_t at;
} statistics[] = {{"min", offsetof(dl_series_info, min)},
                  {"max", offsetof(dl_series_info, max)},
                  {"last", offsetof(dl_series_info, last)},
                  {"first", offsetof(dl_series_info, first)},
                  {"mean", offsetof(dl_series_info, mean)}};

/* "min(val/loss)", or "val/loss", which is the best of it. */
static dl_status read_metric(const dlsh_args *a, dl_store *store, dlsh_factors *f, const struct statistic **which) {
    const char *text = dlsh_arg_str(a, "metric"), *open = strchr(text, '(');
    char name[128];
    snprintf(name, sizeof name, "%.*s", open ? (int)strcspn(open + 1, ")") : 120, open ? open + 1 : text);
    if (dl_metric_resolve(store, name, f->metric, sizeof f->metric)) return dlsh_place_failure(a, "metric");
    f->direction = dl_metric_direction(f->metric);
    *which = open ? NULL : &statistics[f->direction > 0];
    for (size_t i = 0; open && i < DLSH_COUNT(statistics); i++)
        if (!strncmp(statistics[i].name, text, (size_t)(open - text)) &&
            strlen(statistics[i].name) == (size_t)(open - text))
            *which = &statistics[i];
    if (!*which)
        return dlsh_arg_fail(a, "metric", DL_ERR_NAME, "min, max, last, first, mean",
                             "%.*s is not a statistic of a metric", (int)(open - text), text);
    snprintf(f->label, sizeof f->label, "%s(%s)", (*which)->name, f->metric);
    return DL_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Do the runs that have it differ in it? What only some have, as momentum beside adam, tells no more than what decides
 * whether they do. */
static int differs(const dlsh_factors *f, const char *param) {
    const dl_param_info *first = NULL;
    for (int i = 0; i < f->n; i++) {
        const dl_param_info *p = dlsh_factor_of(f->runs[i], param);
        if (p && first && strcmp(p->value, first->value)) return 1;
        if (p && !first) first = p;
    }
    return 0;
}

/* All names of parameters, each once, then those that differ. */
static dl_status find_params(dlsh_factors *f) {
    size_t all = 0, n = 0;
    for (int i = 0; i < f->n; i++) all += (size_t)f->runs[i]->nparam;
    if (!(f->params = calloc(all + 1, sizeof *f->params))) return dlsh_no_memory("parameters");
    for (int i = 0; i < f->n; i++)
        for (long k = 0; k < f->runs[i]->nparam; k++) f->params[n++] = f->runs[i]->params[k].key;
    qsort(f->params, n, sizeof *f->params, by_name);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && !strcmp(f->params[i], f->params[i + 1])) continue;
        const char *one = f->params[i];
        if (differs(f, one)) f->params[f->nparams++] = one;
    }
    return DL_OK;
}

static dl_status read_runs(const dlsh_args *a, dl_store *store, dlsh_buf *where, dlsh_factors *f) {
    const struct statistic *which;
    DLSH_TRY(read_metric(a, store, f, &which));
    const dl_run_query q = {.where = where->n ? dlsh_buf_text(where) : NULL, .sort = "id"};
    if (!(f->list = dl_run_query_list(store, &q))) return dlsh_place_in(a, "where");
    f->runs = calloc((size_t)f->list->n + 1, sizeof *f->runs);
    f->figure = calloc((size_t)f->list->n + 1, sizeof *f->figure);
    if (!f->runs || !f->figure) return dlsh_no_memory("runs");
    for (long i = 0; i < f->list->n; i++) {
        const dl_series_info *s = dlsh_series_find(&f->list->runs[i], f->metric);
        double v = s && s->n ? *(const double *)((const char *)s + which->at) : NAN;
        if (isfinite(v)) f->runs[f->n] = &f->list->runs[i], f->figure[f->n++] = v;
    }
    if (!f->n)
        return dlsh_arg_fail(a, "metric", DL_ERR_NAME, "runs lists them", "no run that fits has a value of %s",
                             f->label);
    return find_params(f);
}

dl_status dlsh_factors_read(const dlsh_args *a, dlsh_factors *f) {
    dl_store *store;
    DLSH_SCOPED_BUF where = {0};
    *f = (dlsh_factors){0};
    DLSH_TRY(dlsh_run_condition(a, &store, &where));
    dl_status st = read_runs(a, store, &where, f);
    if (st) dlsh_factors_free(f);
    return st;
}

/* ---------------------------------------------------------------- computing */

typedef struct weight {
    const char *param;
    double weight, rho, p;
    int n, values;
} weight;

/* Room for the runs that have a parameter. */
typedef struct columns {
    double *x, *y, *x_ranks, *y_ranks, *scratch;
    const char **text;
    int *group;
} columns;

/* Numbers of equal texts, 0, 1, ...; how many there are. */
static int group_texts(columns *c, int n) {
    int groups = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < i && strcmp(c->text[k], c->text[i])) k++;
        c->group[i] = k < i ? c->group[k] : groups++;
    }
    return groups;
}

/* The share of the variance of the ranks of the figure that goes with the parameter, by its order or by its values. */
static dl_status weigh(const dlsh_factors *f, const char *param, columns *c, weight *w) {
    int n = 0, numeric = 1;
    for (int i = 0; i < f->n; i++) {
        const dl_param_info *p = dlsh_factor_of(f->runs[i], param);
        if (!p) continue;
        c->x[n] = p->num, c->y[n] = f->figure[i], c->text[n++] = p->value;
        numeric &= !isnan(p->num);
    }
    *w = (weight){.param = param, .rho = NAN, .p = NAN, .weight = NAN, .n = n};
    if (n < 3) return DL_OK;
    if (!dlsh_ranks(c->y, n, c->y_ranks) || (numeric && !dlsh_ranks(c->x, n, c->x_ranks)))
        return dlsh_no_memory("ranks");
    w->values = group_texts(c, n);
    /* values that hardly occur twice explain any figure */
    double by_value = n < 2 * w->values ? NAN : dlsh_explained(c->group, w->values, c->y_ranks, n, c->scratch);
    if (numeric) w->rho = dlsh_spearman(c->x_ranks, c->y_ranks, n, &w->p);
    w->weight = fmax(isnan(w->rho) ? 0 : w->rho * w->rho, isnan(by_value) ? 0 : by_value);
    return DL_OK;
}

static int by_weight(const void *a, const void *b) {
    const weight *x = a, *y = b;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

static dl_status weigh_all(const dlsh_factors *f, weight *w, int *n) {
    DLSH_FREED double *room = calloc((size_t)f->n + 1, 6 * sizeof *room);
    DLSH_FREED const char **text = calloc((size_t)f->n + 1, sizeof *text);
    DLSH_FREED int *group = calloc((size_t)f->n + 1, sizeof *group);
    columns c = {room, room + f->n, room + 2 * f->n, room + 3 * f->n, room + 4 * f->n, text, group};
    dl_status st = room && text && group ? DL_OK : dlsh_no_memory("ranks");
    *n = 0;
    for (int i = 0; i < f->nparams && !st; i++) {
        st = weigh(f, f->params[i], &c, &w[*n]);
        *n += !isnan(w[*n].weight);
    }
    qsort(w, (size_t)*n, sizeof *w, by_weight);
    return st;
}

/* ---------------------------------------------------------------- showing */

static dlsh_value bar_of(double share, const dlsh_look *look) {
    DLSH_SCOPED_BUF b = {0};
    int n = (int)lround(share * 20);
    for (int i = 0; i < n; i++) dlsh_buf_puts(&b, look->unicode ? "█" : "#");
    return dlsh_string(dlsh_buf_text(&b));
}

static dl_status show(const dlsh_args *a, const dlsh_factors *f, const weight *w, int n, dlsh_value *result) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_look look = dlsh_sink_look(sink);
    const int called = dlsh_arg_called(a), people = !called && look.mode == DLSH_MODE_TABLE;
    dlsh_table t = DLSH_TABLE({"param", 'l', ""}, {"weight", 'r', "%.3f"}, {people ? "rank corr." : "rho", 'r', "%.4g"},
                              {"p", 'r', "%.3g"}, {"values", 'r', ""}, {people ? "runs" : "n", 'r', ""}, {"", 'l', ""});
    if (!people) t.ncols--;
    dl_status st = DL_OK;
    for (int i = 0; i < n && !st; i++) {
        dlsh_value cells[] = {dlsh_string(w[i].param),
                              dlsh_float(w[i].weight),
                              isnan(w[i].rho) ? dlsh_none() : dlsh_float(w[i].rho),
                              isnan(w[i].p) ? dlsh_none() : dlsh_float(w[i].p),
                              dlsh_int(w[i].values),
                              dlsh_int(w[i].n),
                              dlsh_none()};
        if (people) cells[6] = bar_of(w[i].weight, &look);
        st = dlsh_table_row(&t, cells);
    }
    if (called) {
        if (!st) st = dlsh_table_list(&t, result);
        dlsh_table_clear(&t);
        return st;
    }
    if (people && n) dlsh_put(sink, "what goes with %s, %d runs\n", f->label, f->n);
    return dlsh_table_show(sink, &t, st, "no parameter differs among at least three runs\n");
}

static dl_status importance_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_factors f;
    int n = 0;
    *result = dlsh_none();
    DLSH_TRY(dlsh_factors_read(a, &f));
    DLSH_FREED weight *w = calloc((size_t)f.nparams + 1, sizeof *w);
    dl_status st = w ? weigh_all(&f, w, &n) : dlsh_no_memory("parameters");
    if (!st) st = show(a, &f, w, n, result);
    dlsh_factors_free(&f);
    return st;
}

const dlsh_command importance_commands[] = {
    DLSH_ROW(
        "importance", DLSH_REPORT | DLSH_FUNCTION, importance_run, "importance METRIC [RUN ...] [where=...]",
        "Which parameters go with a metric. The weight is the share of the variance of the metric's ranks over the "
        "runs "
        "that a parameter accounts for by itself, by its order (the square of Spearman's rank correlation) or by its "
        "values (adjusted R squared; where they occur twice on average), whichever is more; p belongs to the "
        "correlation. It tells nothing of causes. As "
        "a "
        "function a list of records.",
        DLSH_PARAMS(DLSH_FACTORS_METRIC, DLSH_FACTORS_RUNS), DLSH_OPTIONS(DLSH_RUN_FILTERS),
        .examples = "importance test/acc\nimportance min(val/loss) where=\"status = finished\""),
    {0}};
