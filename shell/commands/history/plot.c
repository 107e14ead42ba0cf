/* `plot`: metrics of runs over their steps, or numbers of a variable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/history/plot.h"

/* Numbers of a tensor or a list, that the chart keeps; *n of them. */
static dl_status read_numbers(const dlsh_args *a, const char *arg, dlsh_chart *c, dlsh_value v, const char *name,
                              long *n) {
    *n = v.type == DLSH_TENSOR ? dl_numel(v.as.tensor) : v.as.list->n;
    double *to = dlsh_chart_numbers(c, *n);
    if (!to) return dl_failed();
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
    DLSH_ENDED(dl_run_list_free) dl_run_list *l = dl_run_find(store, ref, &id) ? NULL : dl_run_show(store, id);
    return l && dlsh_series_find(&l->runs[0], key);
}

/* Is x= a value or an expression, and not step, time or epoch of runs? A variable of such a name wins. */
static int has_numbers_x(const dlsh_args *a) {
    const dlsh_value *x = dlsh_arg(a, "x");
    if (!x || x->type != DLSH_STR) return x != NULL;
    const dlsh_value *v = dlsh_get(dlsh_arg_session(a), x->as.str->s);
    return !dlsh_has_word("step|time|epoch", x->as.str->s, strlen(x->as.str->s)) || is_numbers(v);
}

/* The value of x=: of a variable, or of an expression that was read as a word, as arange(3). */
static dl_status value_of_x(const dlsh_args *a, dlsh_value *out) {
    const dlsh_value *x = dlsh_arg(a, "x"), *v = NULL;
    *out = dlsh_void();
    if (x->type == DLSH_STR) {
        const char *text = x->as.str->s;
        v = dlsh_get(dlsh_arg_session(a), text);
        if (!v) DLSH_TRY(dlsh_run(dlsh_arg_session(a), "x", text, strlen(text), out));
    }
    if (out->type == DLSH_VOID) *out = dlsh_ref(v ? *v : *x);
    if (is_numbers(out)) return DL_OK;
    DLSH_DROPPED dlsh_value other = *out;
    *out = dlsh_void();
    return dlsh_arg_fail(a, "x", DL_ERR_TYPE, NULL, "x must be a tensor or a list, got %s", dlsh_type_name(other));
}

/* Whether the first word is a metric of the runs given, or of the last run: it then wins over a variable of that name.
 */
static int metric_first(const dlsh_args *a, int n) {
    char key[128];
    if (is_numbers(given_at(a, 0)) || has_numbers_x(a) || !dlsh_store_there()) return 0;
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

static dl_status add_variables(const dlsh_args *a, dlsh_chart *c, int n) {
    const double *x = NULL;
    long nx = 0;
    if (n > DLSH_MOST_CURVES)
        return dlsh_arg_fail(a, "runs", DL_ERR_VALUE, NULL, "at most %d curves are drawn, got %d", DLSH_MOST_CURVES, n);
    if (dlsh_given(a, "x")) {
        DLSH_DROPPED dlsh_value given = dlsh_void();
        DLSH_TRY(value_of_x(a, &given));
        DLSH_TRY(read_numbers(a, "x", c, given, "x", &nx));
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

/* Where a point lies: a step of a run, an index, or a number of x. */
static dlsh_value place(const dlsh_chart *c, int curve, long k) {
    const double *x = c->curves[curve].x;
    return !x ? dlsh_int(k) : !strcmp(c->xlabel, "step") && !c->groups ? dlsh_int((long)x[k]) : dlsh_float(x[k]);
}

/* For programs: the points as rows. */
static dl_status list_points(dlsh_sink *sink, const dlsh_chart *c) {
    int of_runs = *c->metric != 0;
    const char *x = of_runs || *c->ylabel ? c->xlabel : "step", *y = *c->ylabel && !of_runs ? c->ylabel : "value";
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"run", 'r', ""}, {"metric", 'l', ""}, {x, 'r', ""}, {y, 'r', ""});
    for (int i = 0; i < c->n; i++) {
        const dlsh_curve *curve = &c->curves[i];
        for (long k = 0; k < curve->n; k++)
            DLSH_TRY(DLSH_TABLE_ROW(&t, of_runs && !c->groups ? dlsh_int(c->runs[i]) : dlsh_none(),
                                    dlsh_string(of_runs && !c->groups ? c->metric : c->labels[i]), place(c, i, k),
                                    dlsh_float(curve->y[k])));
    }
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}

static dl_status draw(const dlsh_args *a, const dlsh_chart *c) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    const char *file = dlsh_arg_str(a, "out");
    if (!file && dlsh_sink_look(sink).mode != DLSH_MODE_TABLE) return list_points(sink, c);
    if (!sink->ops->plot)
        return dlsh_arg_fail(a, NULL, DL_ERR_UNSUPPORTED, "out=FILE.png", "this output cannot show plots");
    dlsh_plot p = {.title = c->title,
                   .xlabel = *c->xlabel           ? c->xlabel
                             : dlsh_given(a, "x") ? dlsh_arg_text(a, "x")
                                                  : "index",
                   .ylabel = *c->ylabel  ? c->ylabel
                             : c->n == 1 ? c->labels[0]
                                         : "value",
                   .file = file,
                   .ncurves = c->n,
                   .curves = c->curves,
                   .logx = dlsh_arg_bool(a, "logx"),
                   .logy = dlsh_arg_bool(a, "logy")};
    DLSH_TRY(sink->ops->plot(sink, &p));
    if (file) dlsh_put(sink, "wrote %s\n", file);
    return DL_OK;
}

/* x= that a metric of runs does not take. */
static dl_status wrong_x(const dlsh_args *a, const char *metric) {
    const dlsh_value *x = dlsh_arg(a, "x");
    if (x->type == DLSH_STR && !dlsh_get(dlsh_arg_session(a), x->as.str->s))
        return dlsh_arg_fail(a, "x", DL_ERR_VALUE,
                             "x=time; a dot for each run over a parameter: plot x=lr y=min(val/loss)",
                             "a metric is drawn over step, time or epoch, not over '%s'", x->as.str->s);
    return dlsh_arg_fail(a, "x", DL_ERR_VALUE, "metrics of runs are drawn over step, time or epoch: x=time",
                         "x goes with variables, and %s is none with numbers", metric);
}

/* Fills the chart, whatever is to be drawn. */
static dl_status fill(const dlsh_args *a, dlsh_chart *c, long max_points) {
    int words = (dlsh_given(a, "metric") != 0) + dlsh_arg_count(a, "runs");
    if (dlsh_given(a, "y")) return dlsh_chart_scatter(a, c);
    if (!words)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "plot loss, plot x=lr y=min(val/loss), plot VARIABLE",
                             "plot needs a metric, two names or a variable");
    int metric = first_metric(a, words);
    if (metric < words && has_numbers_x(a)) return wrong_x(a, word_at(a, metric));
    if (metric < words || metric_first(a, words)) return dlsh_chart_runs(a, c, max_points);
    DLSH_TRY(add_variables(a, c, words));
    return dlsh_chart_smooth(a, c);
}

static dl_status plot_run(const dlsh_args *a) {
    DLSH_ENDED(dlsh_chart_free) dlsh_chart *c = calloc(1, sizeof *c);
    dlsh_look look = dlsh_sink_look(dlsh_arg_sink(a));
    /* more points than columns cannot be seen; programs get all */
    long max_points = dlsh_given(a, "out")           ? 2000
                      : look.mode != DLSH_MODE_TABLE ? 0
                      : look.rich                    ? 1000
                                                     : -2 * (look.width > 0 ? look.width : 80);
    DLSH_TRY(c ? fill(a, c, max_points) : dlsh_no_memory("a plot"));
    return draw(a, c);
}

const dlsh_command plot_commands[] = {
    DLSH_ROW(
        "plot", DLSH_REPORT, plot_run,
        "plot METRIC [RUN ...] [x=step|time|epoch] [by=NAME], plot x=NAME y=NAME, or plot VARIABLE... [x=NUMBERS]",
        "Draws a metric of runs, two names of runs against each other, or numbers of variables, in the terminal or "
        "into "
        "a file. A name of both is the metric; in parentheses it is the variable. With by= the mean of each group of "
        "runs, with its standard deviation as a band. Files are drawn by gnuplot.",
        DLSH_PARAMS({"metric", DLSH_ARG_WORD, .flags = DLSH_NUMBERS | DLSH_OPTIONAL,
                     .doc = "a metric (bare loss is train/loss), or a variable with numbers; (x) where x is the name "
                            "of a metric, too",
                     .complete = "metric"},
                    {"runs", DLSH_ARG_WORD, .flags = DLSH_VARIADIC | DLSH_NUMBERS,
                     .doc = "runs; the last one when left out; or more variables", .complete = "run"}),
        DLSH_OPTIONS(
            {"out", DLSH_OPT_WORD, NULL, .doc = "draw into a file: NAME.png, NAME.svg or NAME.txt", .complete = "file"},
            {"x", DLSH_OPT_WORD, NULL,
             .doc = "of runs: step, time (seconds) or epoch; with y=: a name as in where=; of variables: where their "
                    "points lie, without it 0, 1, 2, ...",
             .want = "list|tensor", .complete = "var"},
            {"y", DLSH_OPT_WORD, NULL,
             .doc = "a dot for each run: this name, as min(val/loss), over x=", .complete = "metric"},
            {"by", DLSH_OPT_WORD, NULL, .doc = "means over the runs with the same value of this name"},
            {"smooth", DLSH_OPT_FLOAT, "0", .doc = "exponential means: the weight of the past, 0.9"},
            {"logx", DLSH_OPT_BOOL, "false", .doc = "a logarithmic horizontal axis"},
            {"logy", DLSH_OPT_BOOL, "false", .doc = "a logarithmic vertical axis"}, DLSH_RUN_FILTERS),
        .examples =
            "plot loss 3 5\nplot test/acc last out=acc.png\nplot loss by=opt x=time smooth=0.6 where=\"status = "
            "finished\"\nplot x=lr y=min(val/loss) logx\nplot losses logy\nplot y slope x=t"),
    {0}};
