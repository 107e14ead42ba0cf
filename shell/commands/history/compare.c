/* `compare`: hyperparameters and metrics of several runs, side by side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands/history/history.h"

static dl_status head_columns(dlsh_wide_table *w, const dl_comparison *c, const char *const *first, int nfirst) {
    DLSH_TRY(dlsh_wide_new(w, nfirst + (int)c->n));
    w->t.keys = nfirst;
    for (int i = 0; i < nfirst; i++) DLSH_TRY(dlsh_wide_column(w, i, first[i], 'l'));
    for (int i = 0; i < c->n; i++) {
        char name[128];
        snprintf(name, sizeof name, "%ld %.100s", c->runs[i].id, c->runs[i].name);
        DLSH_TRY(dlsh_wide_column(w, nfirst + i, name, 'r'));
    }
    return DL_OK;
}

/* At most so many rows of parameters, and metrics, for people; 0: all. */
static long at_most(long limit, long n) { return limit && limit < n ? limit : n; }

static void tell_left_out(dlsh_sink *sink, const char *what, long shown, long n) {
    if (shown < n)
        dlsh_put(sink, "%ld of %ld %s: limit=0 shows all, --mode csv and --mode json write all\n", shown, n, what);
}

static dl_status show_params(dlsh_sink *sink, const dl_comparison *c, int all, long limit) {
    static const char *const first[] = {"param"};
    dlsh_wide_table w;
    DLSH_FREED dlsh_value *cells = calloc((size_t)c->n + 1, sizeof *cells);
    if (!cells) return dlsh_no_memory("a comparison");
    dl_status status = head_columns(&w, c, first, 1);
    const long shown = at_most(limit, c->nparam);
    for (long k = 0; !status && k < shown; k++) {
        const dl_compare_param *p = &c->params[k];
        cells[0] = dlsh_string(p->key);
        for (long i = 0; i < c->n; i++) cells[1 + i] = p->values[i] ? dlsh_string(p->values[i]) : dlsh_none();
        status = dlsh_table_row(&w.t, cells);
    }
    status = dlsh_table_show(sink, &w.t, status,
                             all ? "no parameters\n" : "the parameters are the same; all=true shows them\n");
    if (!status) tell_left_out(sink, "parameters", shown, c->nparam);
    dlsh_wide_free(&w);
    return status;
}

/* The four figures of a series that are compared. */
static const struct {
    const char *name;
    size_t value, step;
} figures[] = {{"first", offsetof(dl_series_info, first), offsetof(dl_series_info, first_step)},
               {"last", offsetof(dl_series_info, last), offsetof(dl_series_info, last_step)},
               {"min", offsetof(dl_series_info, min), offsetof(dl_series_info, min_step)},
               {"max", offsetof(dl_series_info, max), offsetof(dl_series_info, max_step)}};

enum { FIRST, LAST, MIN, MAX, FIGURES };

static double figure_of(const dl_series_info *s, int f) {
    return s ? *(const double *)((const char *)s + figures[f].value) : NAN;
}

/* The figure that wins; NaN: none does, as all are equal, or it says nothing of which run is better. */
static double winner_of(const dl_comparison *c, const dl_compare_series *s, int f) {
    const int way = dl_metric_better(s->key), up = way > 0;
    double best = NAN, worst = NAN;
    if (!way || f == FIRST || f == (up ? MIN : MAX)) return NAN;
    for (long i = 0; i < c->n; i++) {
        const double x = figure_of(s->cells[i], f);
        best = up ? fmax(best, x) : fmin(best, x); /* NaN never wins */
        worst = up ? fmin(worst, x) : fmax(worst, x);
    }
    return best > worst || best < worst ? best : NAN;
}

static dlsh_value figure_cell(const dl_series_info *s, int f, double winner) {
    if (!s || (f >= MIN && s->n == s->n_nan)) return dlsh_none();
    const double x = figure_of(s, f);
    return dlsh_stringf("%s%.5g @%ld", x >= winner && x <= winner ? "* " : "", dlsh_plain_nan(x),
                        *(const long *)((const char *)s + figures[f].step));
}

/* For people: a row for each figure of a metric, a column for each run; a star marks the winner. */
static dl_status show_metrics(dlsh_sink *sink, const dl_comparison *c, long limit) {
    static const char *const first[] = {"metric", ""};
    dlsh_wide_table w;
    DLSH_FREED dlsh_value *cells = calloc((size_t)c->n + 2, sizeof *cells);
    if (!cells) return dlsh_no_memory("a comparison");
    dl_status status = head_columns(&w, c, first, 2);
    const long shown = at_most(limit, c->nseries);
    for (long k = 0; !status && k < shown; k++) {
        for (int f = 0; !status && f < FIGURES; f++) {
            const double winner = winner_of(c, &c->series[k], f);
            cells[0] = f ? dlsh_none() : dlsh_string(c->series[k].key);
            cells[1] = dlsh_string(figures[f].name);
            for (long i = 0; i < c->n; i++) cells[2 + i] = figure_cell(c->series[k].cells[i], f, winner);
            status = dlsh_table_row(&w.t, cells);
        }
    }
    status = dlsh_table_show(sink, &w.t, status, "no metrics\n");
    if (!status) tell_left_out(sink, "metrics", shown, c->nseries);
    dlsh_wide_free(&w);
    return status;
}

/* For programs: a row for each metric and run. */
static dl_status list_metrics(dlsh_sink *sink, const dl_comparison *c) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"metric", 'l', ""}, {"run", 'r', ""}, {"n", 'r', ""}, {"first", 'r', ""},
                                     {"first_step", 'r', ""}, {"last", 'r', ""}, {"last_step", 'r', ""},
                                     {"min", 'r', ""}, {"min_step", 'r', ""}, {"max", 'r', ""}, {"max_step", 'r', ""});
    for (long k = 0; k < c->nseries; k++) {
        for (long i = 0; i < c->n; i++) {
            const dl_series_info *s = c->series[k].cells[i];
            if (!s) continue;
            DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string(c->series[k].key), dlsh_int(c->runs[i].id), dlsh_int(s->n),
                                    dlsh_float(s->first), dlsh_int(s->first_step), dlsh_float(s->last),
                                    dlsh_int(s->last_step), dlsh_float(s->min), dlsh_int(s->min_step),
                                    dlsh_float(s->max), dlsh_int(s->max_step)));
        }
    }
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}

/* Options that only make sense for groups. */
static dl_status check_groups(const dlsh_args *a) {
    static const char *const options[] = {"over", "metric", "where",   "status",    "tag",
                                          "name", "model",  "dataset", "experiment"};
    if (dlsh_arg_called(a))
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "compare(by=\"opt\", metric=\"min(val/loss)\")",
                             "as a function, compare takes by=");
    for (size_t i = 0; i < DLSH_COUNT(options); i++)
        if (dlsh_given(a, options[i]))
            return dlsh_arg_fail(a, options[i], DL_ERR_VALUE, "compare by=opt over=seed metric=min(val/loss)",
                                 "%s= goes with by=", options[i]);
    return DL_OK;
}

dl_status dlsh_compare_run(const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_none();
    if (dlsh_given(a, "by") && dlsh_given(a, "limit"))
        return dlsh_arg_fail(a, "limit", DL_ERR_VALUE, "with by= all groups are shown", "limit= does not go with by=");
    if (dlsh_given(a, "by")) return dlsh_compare_groups(a, result);
    DLSH_TRY(check_groups(a));
    DLSH_TRY(dlsh_check_limit(a));
    dl_store *store;
    DLSH_FREED long *ids = NULL;
    int n, all = dlsh_arg_bool(a, "all");
    DLSH_TRY(dlsh_run_ids(a, &store, &ids, &n));
    if (n < 2) return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "compare 3 5", "at least two runs are wanted, got %d", n);
    DLSH_ENDED(dl_comparison_free) dl_comparison *c = dl_run_compare(store, ids, n, all);
    if (!c) return dl_failed();
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_look look = dlsh_sink_look(sink);
    int people = look.mode == DLSH_MODE_TABLE;
    const long limit = people ? dlsh_arg_int(a, "limit") : 0; /* programs get all */
    DLSH_TRY(show_params(sink, c, all, limit));
    if (people && !look.rich) dlsh_put(sink, "\n");
    return people ? show_metrics(sink, c, limit) : list_metrics(sink, c);
}
