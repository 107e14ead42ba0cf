/* `plot`: metrics of runs over their steps, or numbers of a variable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/history/history.h"

enum { MAX_CURVES = 16 };

/* The curves of a plot, with the data that they borrow. */
typedef struct chart {
    dlsh_curve curves[MAX_CURVES];
    char labels[MAX_CURVES][128];
    dl_points *points[MAX_CURVES];
    long runs[MAX_CURVES];
    double *numbers[MAX_CURVES + 1]; /* of variables, and of their x */
    int n, kept;
    char metric[128];
} chart;

static void chart_free(chart *c) {
    for (int i = 0; i < c->n; i++) dl_points_free(c->points[i]);
    for (int i = 0; i < c->kept; i++) free(c->numbers[i]);
}

static dl_status add_run(chart *c, dl_store *store, long id, long max_points) {
    dl_run_list *l = dl_run_show(store, id);
    if (!l) return dl_failed();
    snprintf(c->labels[c->n], sizeof c->labels[0], "%ld %.100s", id, l->runs[0].name);
    dlsh_one_line(c->labels[c->n], strlen(c->labels[c->n]));
    dl_run_list_free(l);
    dl_points *p = dl_series_points(store, id, c->metric, max_points);
    if (!p) return dl_failed();
    c->points[c->n] = p;
    c->runs[c->n] = id;
    c->curves[c->n] = (dlsh_curve){c->labels[c->n], p->n, p->step, p->value};
    c->n++;
    return DL_OK;
}

/* Numbers of a tensor or a list, that the chart keeps; *n of them. */
static dl_status read_numbers(const dlsh_args *a, const char *arg, chart *c, dlsh_value v, const char *name, long *n) {
    *n = v.type == DLSH_TENSOR ? dl_numel(v.as.tensor) : v.as.list->n;
    double *to = c->numbers[c->kept] = dl_memory_alloc(*n, sizeof *to);
    if (!to) return DL_ERR_MEMORY;
    c->kept++;
    if (v.type == DLSH_TENSOR) return dl_read_f64(v.as.tensor, to);
    for (long i = 0; i < *n; i++) {
        dlsh_value item = v.as.list->items[i];
        if (item.type == DLSH_TENSOR && !dl_item_f(item.as.tensor, &to[i])) continue;
        if (!dlsh_is_number(item))
            return dlsh_arg_fail(a, arg, DL_ERR_TYPE, NULL, "plot takes numbers, but item %ld of %s is a %s", i, name,
                                 dlsh_type_name(item));
        to[i] = dlsh_number(item);
    }
    return DL_OK;
}

static const dlsh_value *given_at(const dlsh_args *a, int i) {
    return i ? dlsh_arg_at(a, "runs", i - 1) : dlsh_arg(a, "metric");
}

static int is_numbers(const dlsh_value *v) { return v && (v->type == DLSH_TENSOR || v->type == DLSH_LIST); }

/* The i-th word as text: a metric, a run or a variable. "" for a value in parentheses. */
static const char *word_at(const dlsh_args *a, int i) {
    const dlsh_value *v = given_at(a, i);
    return v->type == DLSH_STR ? v->as.str->s : "";
}

/* The numbers of the i-th word: a value in parentheses, or a variable of that name. NULL: none. */
static const dlsh_value *drawable(const dlsh_args *a, int i) {
    const dlsh_value *v = given_at(a, i);
    if (!is_numbers(v)) v = dlsh_get(dlsh_arg_session(a), word_at(a, i));
    return is_numbers(v) ? v : NULL;
}

/* Index of the first word without numbers; n: all have some. */
static int first_metric(const dlsh_args *a, int n) {
    int i = 0;
    while (i < n && drawable(a, i)) i++;
    return i;
}

static int has_metric(dl_store *store, const char *ref, const char *key) {
    long id;
    dl_run_list *l = dl_run_find(store, ref, &id) ? NULL : dl_run_show(store, id);
    int yes = l && dlsh_series_find(&l->runs[0], key);
    dl_run_list_free(l);
    return yes;
}

/* Whether the first word is a metric of the runs given, or of the last run: it then wins over a variable of that name.
 */
static int metric_first(const dlsh_args *a, int n) {
    char key[128];
    if (is_numbers(given_at(a, 0)) || dlsh_given(a, "x") || access(dlsh_store_file(), R_OK)) return 0;
    dl_store *store = dlsh_history(a);
    int yes = store && !dl_metric_resolve(store, word_at(a, 0), key, sizeof key);
    if (yes && n == 1) yes = has_metric(store, "last", key);
    for (int i = 1; yes && i < n; i++) yes = !is_numbers(given_at(a, i)) && has_metric(store, word_at(a, i), key);
    dl_error_clear();
    if (yes && dlsh_sink_look(dlsh_arg_sink(a)).mode == DLSH_MODE_TABLE)
        dlsh_put(dlsh_arg_sink(a), "note: %.80s is a metric here; plot (%.80s) draws the variable\n", word_at(a, 0),
                 word_at(a, 0));
    return yes;
}

static dl_status add_variables(const dlsh_args *a, chart *c, int n) {
    const double *x = NULL;
    long nx = 0;
    if (n > MAX_CURVES)
        return dlsh_arg_fail(a, "runs", DL_ERR_VALUE, NULL, "at most %d curves are drawn, got %d", MAX_CURVES, n);
    if (dlsh_given(a, "x")) {
        DLSH_TRY(read_numbers(a, "x", c, *dlsh_arg(a, "x"), "x", &nx));
        x = c->numbers[0];
    }
    for (int i = 0; i < n; i++) {
        const char *arg = i ? "runs" : "metric", *name = *word_at(a, i) ? word_at(a, i)
                                                         : i            ? "y"
                                                                        : dlsh_arg_text(a, arg);
        dlsh_curve *curve = &c->curves[i];
        snprintf(c->labels[i], sizeof c->labels[i], "%.120s", name);
        *curve = (dlsh_curve){.label = c->labels[i], .x = x};
        DLSH_TRY(read_numbers(a, arg, c, *drawable(a, i), name, &curve->n));
        curve->y = c->numbers[c->kept - 1];
        c->n++;
        if (x && curve->n != nx)
            return dlsh_arg_fail(a, "x", DL_ERR_SHAPE, NULL, "x has %ld numbers, but %s has %ld", nx, name, curve->n);
    }
    return DL_OK;
}

static dl_status add_runs(const dlsh_args *a, chart *c, long max_points) {
    dl_store *store = dlsh_history(a);
    if (!store) return dl_failed();
    if (dl_metric_resolve(store, dlsh_arg_str(a, "metric"), c->metric, sizeof c->metric))
        return dlsh_place_failure(a, "metric");
    long *ids, last;
    int n;
    DLSH_TRY(dlsh_run_ids(a, &store, &ids, &n));
    dl_status status = DL_OK;
    if (n > MAX_CURVES)
        status = dlsh_arg_fail(a, "runs", DL_ERR_VALUE, NULL, "at most %d runs are drawn, got %d", MAX_CURVES, n);
    if (!status && !n) {
        status = dl_run_find(store, "last", &last);
        if (!status) status = add_run(c, store, last, max_points);
    }
    for (int i = 0; !status && i < n; i++) status = add_run(c, store, ids[i], max_points);
    free(ids);
    return status;
}

/* Where a point lies: a step of a run, an index, or a number of x. */
static dlsh_value place(const chart *c, int curve, long k) {
    const double *x = c->curves[curve].x;
    return !x ? dlsh_int(k) : c->points[curve] ? dlsh_int((long)x[k]) : dlsh_float(x[k]);
}

/* For programs: the points as rows. */
static dl_status list_points(dlsh_sink *sink, const chart *c) {
    dlsh_table t = DLSH_TABLE({"run", 'r', ""}, {"metric", 'l', ""}, {"step", 'r', ""}, {"value", 'r', ""});
    dl_status status = DL_OK;
    for (int i = 0; i < c->n; i++) {
        const dlsh_curve *curve = &c->curves[i];
        for (long k = 0; !status && k < curve->n; k++)
            status = dlsh_table_row(&t, (dlsh_value[]){c->points[i] ? dlsh_int(c->runs[i]) : dlsh_none(),
                                                       dlsh_string(c->points[i] ? c->metric : c->labels[i]),
                                                       place(c, i, k), dlsh_float(curve->y[k])});
    }
    return dlsh_table_show(sink, &t, status, NULL);
}

static dl_status draw(const dlsh_args *a, const chart *c) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    const char *file = dlsh_arg_str(a, "out");
    if (!file && dlsh_sink_look(sink).mode != DLSH_MODE_TABLE) return list_points(sink, c);
    if (!sink->ops->plot)
        return dlsh_arg_fail(a, NULL, DL_ERR_UNSUPPORTED, "out=FILE.png", "this output cannot show plots");
    dlsh_plot p = {.title = *c->metric ? c->metric : "",
                   .xlabel = *c->metric           ? "step"
                             : dlsh_given(a, "x") ? dlsh_arg_text(a, "x")
                                                  : "index",
                   .ylabel = *c->metric  ? c->metric
                             : c->n == 1 ? c->labels[0]
                                         : "value",
                   .file = file,
                   .ncurves = c->n,
                   .curves = c->curves,
                   .logy = dlsh_arg_bool(a, "logy")};
    DLSH_TRY(sink->ops->plot(sink, &p));
    if (file) dlsh_put(sink, "wrote %s\n", file);
    return DL_OK;
}

static dl_status plot_run(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    chart c = {.n = 0};
    int words = 1 + dlsh_arg_count(a, "runs"), metric = first_metric(a, words);
    dlsh_look look = dlsh_sink_look(dlsh_arg_sink(a));
    /* more points than columns cannot be seen; programs get all */
    long max_points = dlsh_given(a, "out")           ? 2000
                      : look.mode != DLSH_MODE_TABLE ? 0
                      : look.rich                    ? 1000
                                                     : 2 * (look.width > 0 ? look.width : 80);
    dl_status status;
    if (metric == words && !metric_first(a, words))
        status = add_variables(a, &c, words);
    else if (dlsh_given(a, "x"))
        status = dlsh_arg_fail(a, "x", DL_ERR_VALUE, "metrics of runs are drawn over their steps: leave x out",
                               "x goes with variables, and %s is none with numbers", word_at(a, metric));
    else
        status = add_runs(a, &c, max_points);
    if (!status) status = draw(a, &c);
    chart_free(&c);
    return status;
}

const dlsh_command plot_commands[] = {
    DLSH_ROW(
        "plot", DLSH_REPORT, plot_run, "plot METRIC [RUN ...] or VARIABLE... [x=NUMBERS] [out=FILE] [logy]",
        "Draws a metric of runs over their steps, or numbers of variables, in the terminal or into a file. A name of "
        "both is the metric; in parentheses it is the variable. Needs gnuplot.",
        DLSH_PARAMS({"metric", DLSH_ARG_WORD, .flags = DLSH_NUMBERS,
                     .doc = "a metric (bare loss is train/loss), or a variable with numbers; (x) where x is the name "
                            "of a metric, too",
                     .complete = "metric"},
                    {"runs", DLSH_ARG_WORD, .flags = DLSH_VARIADIC | DLSH_NUMBERS,
                     .doc = "runs; the last one when left out; or more variables", .complete = "run"}),
        DLSH_OPTIONS(
            {"out", DLSH_OPT_WORD, NULL, .doc = "draw into a file: NAME.png, NAME.svg or NAME.txt", .complete = "file"},
            {"x", DLSH_OPT_VALUE, NULL, .doc = "of variables: where their points lie; without it 0, 1, 2, ...",
             .want = "tensor|list", .complete = "var"},
            {"logy", DLSH_OPT_BOOL, "false", .doc = "a logarithmic vertical axis"}),
        .examples = "plot loss 3 5\nplot test/acc last out=acc.png\nplot losses logy\nplot y slope x=t"),
    {0}};
