/* Curves of runs: metrics over step, time or epoch, means of groups, and scatter plots. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/history/plot.h"

enum { GRID = 200 /* places at which groups are averaged */ };

double *dlsh_chart_numbers(dlsh_chart *c, long n) {
    double **grown = dlsh_grow(c->numbers, c->kept, &c->cap, sizeof *grown);
    if (!grown) return NULL;
    c->numbers = grown;
    double *one = dl_memory_alloc(n ? n : 1, sizeof *one);
    if (one) c->numbers[c->kept++] = one;
    return one;
}

void dlsh_chart_free(dlsh_chart *c) {
    if (!c) return;
    for (int i = 0; i < DLSH_MOST_RUNS; i++) dl_points_free(c->points[i]);
    for (int i = 0; i < c->kept; i++) free(c->numbers[i]);
    free(c->numbers);
    free(c);
}

/* ---------------------------------------------------------------- one run */

/* The value at x of points in the order of their x; NaN outside. */
static double value_at(long n, const double *x, const double *y, double at) {
    if (!n || at < x[0] || at > x[n - 1]) return NAN;
    long low = 0, high = n - 1;
    while (high - low > 1) {
        long mid = (low + high) / 2;
        if (x[mid] <= at)
            low = mid;
        else
            high = mid;
    }
    if (x[high] <= x[low]) return y[low];
    return y[low] + (y[high] - y[low]) * (at - x[low]) / (x[high] - x[low]);
}

/* Seconds since the run began. */
static dl_status use_time(dlsh_chart *c, int i, long started_us) {
    const dl_points *p = c->points[i];
    double *x = dlsh_chart_numbers(c, p->n);
    if (!x) return dl_failed();
    for (long k = 0; k < p->n; k++) x[k] = (double)(p->time_us[k] - started_us) / 1e6;
    c->curves[i].x = x;
    return DL_OK;
}

/* The metric "epoch" at the steps of the points. */
static dl_status use_epoch(const dlsh_args *a, dlsh_chart *c, int i, dl_store *store) {
    const dl_points *p = c->points[i];
    dl_points *epoch = dl_series_points(store, c->runs[i], "epoch", 0);
    double *x = epoch ? dlsh_chart_numbers(c, p->n) : NULL;
    if (!epoch)
        return dlsh_arg_fail(a, "x", DL_ERR_NAME, "x=step; r.log(epoch=...) records them in a loop of one's own",
                             "run %ld has not recorded its epochs", c->runs[i]);
    for (long k = 0; x && k < p->n; k++) x[k] = value_at(epoch->n, epoch->step, epoch->value, p->step[k]);
    dl_points_free(epoch);
    c->curves[i].x = x;
    return x ? DL_OK : dl_failed();
}

static dl_status add_run(const dlsh_args *a, dlsh_chart *c, dl_store *store, long id, long max_points) {
    int i = c->n;
    dl_run_list *l = dl_run_show(store, id);
    if (!l) return dl_failed();
    long started = l->runs[0].started_us;
    snprintf(c->labels[i], sizeof c->labels[0], "%ld %.100s", id, l->runs[0].name);
    dlsh_one_line(c->labels[i], strlen(c->labels[i]));
    dl_run_list_free(l);
    dl_points *p = dl_series_points(store, id, c->metric, max_points);
    if (!p) return dl_failed();
    c->points[i] = p;
    c->runs[i] = id;
    c->curves[i] = (dlsh_curve){.label = c->labels[i], .n = p->n, .x = p->step, .y = p->value};
    c->n++;
    if (!strcmp(c->xlabel, "time")) return use_time(c, i, started);
    return strcmp(c->xlabel, "epoch") ? DL_OK : use_epoch(a, c, i, store);
}

/* ---------------------------------------------------------------- which runs */

static dl_status add_named(const dlsh_args *a, dlsh_chart *c, dl_store *store, long max_points) {
    long last;
    DLSH_FREED long *ids = NULL;
    int n;
    DLSH_TRY(dlsh_run_ids(a, &store, &ids, &n));
    if (n > DLSH_MOST_RUNS)
        return dlsh_arg_fail(a, "runs", DL_ERR_VALUE, NULL, "at most %d runs are read, got %d", DLSH_MOST_RUNS, n);
    if (!n) {
        DLSH_TRY(dl_run_find(store, "last", &last));
        DLSH_TRY(add_run(a, c, store, last, max_points));
    }
    for (int i = 0; i < n; i++) DLSH_TRY(add_run(a, c, store, ids[i], max_points));
    return DL_OK;
}

/* Runs that a condition chooses; those without the metric are left out. */
static dl_status add_chosen(const dlsh_args *a, dlsh_chart *c, dl_store *store, const char *where, long max_points) {
    dl_run_query q = {.where = where, .sort = "id"};
    DLSH_SCOPED_BUF cols = {0};
    dlsh_buf_printf(&cols, "id,n(%s)", c->metric);
    dl_rows *rows = dl_run_table(store, &q, dlsh_buf_text(&cols));
    if (!rows) return dlsh_place_in(a, "where");
    dl_status status = DL_OK;
    int more = 0;
    while (!status && (more = dl_rows_next(rows)) > 0) {
        if (dl_rows_type(rows, 1) == 'n' || !dl_rows_int(rows, 1)) continue;
        if (c->n == DLSH_MOST_RUNS)
            status = dlsh_arg_fail(a, "where", DL_ERR_VALUE, "choose fewer by where=", "at most %d runs are read",
                                   DLSH_MOST_RUNS);
        else
            status = add_run(a, c, store, dl_rows_int(rows, 0), max_points);
    }
    dl_rows_free(rows);
    if (status || more < 0) return status ? status : dl_failed();
    return c->n ? DL_OK
                : dlsh_arg_fail(a, "where", DL_ERR_NAME, "runs lists them", "no run that fits has %s", c->metric);
}

/* ---------------------------------------------------------------- groups */

/* The value of by= for each curve, in labels. */
static dl_status name_groups(const dlsh_args *a, dlsh_chart *c, dl_store *store, const char *by) {
    for (int i = 0; i < c->n; i++) {
        char where[48];
        snprintf(where, sizeof where, "id = %ld", c->runs[i]);
        DLSH_ENDED(dl_rows_free) dl_rows *rows = dl_run_table(store, &(dl_run_query){.where = where}, by);
        if (!rows) return dlsh_place_failure(a, "by");
        const char *text = dl_rows_next(rows) > 0 && dl_rows_type(rows, 0) != 'n' ? dl_rows_text(rows, 0) : "none";
        snprintf(c->labels[i], sizeof c->labels[i], "%.40s=%.60s", by, text);
        dlsh_one_line(c->labels[i], strlen(c->labels[i]));
    }
    return DL_OK;
}

/* Mean and standard deviation of the curves of one label, from curve `first` on. */
static dl_status average(dlsh_chart *c, int first, dlsh_curve *out, int *members) {
    double *x = dlsh_chart_numbers(c, 4 * (GRID + 1)), low = INFINITY, high = -INFINITY;
    if (!x) return dl_failed();
    double *y = x + GRID + 1, *down = y + GRID + 1, *up = down + GRID + 1;
    *members = 0;
    for (int i = first; i < c->n; i++) {
        const dlsh_curve *k = &c->curves[i];
        if (strcmp(c->labels[i], c->labels[first]) || !k->n) continue;
        low = fmin(low, k->x[0]), high = fmax(high, k->x[k->n - 1]);
        ++*members;
    }
    for (int g = 0; g <= GRID; g++) {
        double sum = 0, squares = 0;
        int n = 0;
        x[g] = low + (high - low) * g / GRID;
        for (int i = first; i < c->n; i++) {
            const dlsh_curve *k = &c->curves[i];
            double v = strcmp(c->labels[i], c->labels[first]) ? NAN : value_at(k->n, k->x, k->y, x[g]);
            if (isfinite(v)) sum += v, squares += v * v, n++;
        }
        double mean = n ? sum / n : NAN, sd = n > 1 ? sqrt(fmax(0, (squares - n * mean * mean) / (n - 1))) : 0;
        y[g] = mean, down[g] = mean - sd, up[g] = mean + sd;
    }
    *out = (dlsh_curve){.n = GRID + 1, .x = x, .y = y, .low = down, .high = up};
    return DL_OK;
}

static int is_first(const dlsh_chart *c, int i) {
    for (int k = 0; k < i; k++)
        if (!strcmp(c->labels[k], c->labels[i])) return 0;
    return 1;
}

static dl_status make_groups(const dlsh_args *a, dlsh_chart *c, dl_store *store, const char *by) {
    dlsh_curve groups[DLSH_MOST_CURVES];
    char labels[DLSH_MOST_CURVES][128];
    int n = 0;
    DLSH_TRY(name_groups(a, c, store, by));
    for (int i = 0; i < c->n; i++) {
        int members = 0;
        if (!is_first(c, i)) continue;
        if (n == DLSH_MOST_CURVES)
            return dlsh_arg_fail(a, "by", DL_ERR_VALUE, "choose a name with fewer values, or fewer runs by where=",
                                 "%s has more than %d values", by, DLSH_MOST_CURVES);
        DLSH_TRY(average(c, i, &groups[n], &members));
        snprintf(labels[n++], sizeof labels[0], "%.100s (%d)", c->labels[i], members);
    }
    for (int i = 0; i < n; i++) {
        strcpy(c->labels[i], labels[i]);
        c->curves[i] = groups[i];
        c->curves[i].label = c->labels[i];
    }
    c->n = n;
    c->groups = 1;
    return DL_OK;
}

/* ---------------------------------------------------------------- the charts */

dl_status dlsh_chart_runs(const dlsh_args *a, dlsh_chart *c, long max_points) {
    dl_store *store = dlsh_history(a);
    DLSH_SCOPED_BUF where = {0};
    const char *by = dlsh_arg_str(a, "by");
    if (!store) return dl_failed();
    if (dl_metric_resolve(store, dlsh_arg_str(a, "metric"), c->metric, sizeof c->metric))
        return dlsh_place_failure(a, "metric");
    snprintf(c->xlabel, sizeof c->xlabel, "%s", dlsh_given(a, "x") ? dlsh_arg(a, "x")->as.str->s : "step");
    DLSH_TRY(dlsh_run_filter(a, &where));
    if (where.n || (by && !dlsh_arg_count(a, "runs"))) {
        where.n = 0;
        DLSH_TRY(dlsh_run_condition(a, &store, &where));
        DLSH_TRY(add_chosen(a, c, store, where.n ? dlsh_buf_text(&where) : NULL, max_points));
    } else {
        DLSH_TRY(add_named(a, c, store, max_points));
    }
    DLSH_TRY(dlsh_chart_smooth(a, c));
    if (by) DLSH_TRY(make_groups(a, c, store, by));
    if (c->n > DLSH_MOST_CURVES)
        return dlsh_arg_fail(a, "runs", DL_ERR_VALUE, "by=NAME draws the mean of each group",
                             "at most %d runs are drawn, got %d", DLSH_MOST_CURVES, c->n);
    snprintf(c->ylabel, sizeof c->ylabel, "%s", c->metric);
    snprintf(c->title, sizeof c->title, "%s%s", c->metric, by ? ", mean and standard deviation" : "");
    return DL_OK;
}

/* Is the cell a number, or text of one? */
static double number_in(const dl_rows *rows, long col) {
    char type = dl_rows_type(rows, col), *end;
    if (type == 'i' || type == 'f') return dl_rows_float(rows, col);
    const char *text = type == 't' ? dl_rows_text(rows, col) : "";
    double v = strtod(text, &end);
    return *text && !*end ? v : NAN;
}

dl_status dlsh_chart_scatter(const dlsh_args *a, dlsh_chart *c) {
    const dlsh_value *x = dlsh_arg(a, "x");
    const char *xname = x && x->type == DLSH_STR ? x->as.str->s : "id", *yname = dlsh_arg_str(a, "y");
    dl_store *store;
    DLSH_SCOPED_BUF where = {0}, cols = {0};
    DLSH_TRY(dlsh_run_condition(a, &store, &where));
    const char *const names[] = {xname, yname}, *const options[] = {"x", "y"};
    for (int i = 0; i < 2; i++) {
        dl_rows *one = dl_run_table(store, &(dl_run_query){.limit = 1}, names[i]);
        dl_rows_free(one);
        if (!one) return dlsh_place_failure(a, options[i]);
    }
    dlsh_buf_printf(&cols, "%s,%s", xname, yname);
    dl_rows *rows = dl_run_table(store, &(dl_run_query){.where = where.n ? dlsh_buf_text(&where) : NULL, .sort = "id"},
                                 dlsh_buf_text(&cols));
    if (!rows) return dlsh_place_in(a, "where");
    enum { MOST = 100000 };
    double *at = dlsh_chart_numbers(c, 2 * MOST);
    long n = 0;
    while (at && n < MOST && dl_rows_next(rows) > 0) {
        double v = number_in(rows, 0), w = number_in(rows, 1);
        if (isfinite(v) && isfinite(w)) at[n] = v, at[MOST + n++] = w;
    }
    dl_rows_free(rows);
    if (!at) return dl_failed();
    if (!n)
        return dlsh_arg_fail(a, "y", DL_ERR_NAME, "runs cols=NAME,NAME shows the values",
                             "no run that fits has numbers for both %s and %s", xname, yname);
    snprintf(c->labels[0], sizeof c->labels[0], "%ld run%s", n, n == 1 ? "" : "s");
    c->curves[0] = (dlsh_curve){.label = c->labels[0], .n = n, .x = at, .y = at + MOST, .points = 1};
    c->n = 1;
    snprintf(c->xlabel, sizeof c->xlabel, "%s", xname);
    snprintf(c->ylabel, sizeof c->ylabel, "%s", yname);
    snprintf(c->title, sizeof c->title, "%.70s over %.70s", yname, xname);
    return DL_OK;
}

dl_status dlsh_chart_smooth(const dlsh_args *a, dlsh_chart *c) {
    double weight = dlsh_arg_float(a, "smooth");
    if (!dlsh_given(a, "smooth") || weight == 0) return DL_OK;
    if (!(weight > 0 && weight < 1))
        return dlsh_arg_fail(a, "smooth", DL_ERR_VALUE, "smooth=0.9",
                             "the weight of the past is from 0 to below 1, got %g", weight);
    for (int i = 0; i < c->n; i++) {
        dlsh_curve *k = &c->curves[i];
        double *y = dlsh_chart_numbers(c, k->n), sum = 0, norm = 0;
        if (!y) return dl_failed();
        for (long j = 0; j < k->n; j++) {
            y[j] = k->y[j];
            if (!isfinite(y[j])) continue;
            sum = weight * sum + (1 - weight) * y[j]; /* an exponential mean, without the bias of its beginning */
            norm = weight * norm + 1 - weight;
            y[j] = sum / norm;
        }
        k->y = y;
    }
    return DL_OK;
}
