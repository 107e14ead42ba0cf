/* `pcoord`: parallel coordinates of runs in the terminal: an axis for each parameter, the last one for a metric. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/history/importance.h"
#include "view/braille.h"
#include "view/text.h"

enum { MOST_AXES = 12, MOST_VALUES = 9, ROWS = 18, LEAST_GAP = 10 };

typedef struct axis {
    const char *name;
    const dlsh_factors *f; /* whose figure it is of; the parameter `name` unless `figure` */
    int figure, log, nvalues;
    double low, high;                /* logarithms when log; of numbers */
    const char *values[MOST_VALUES]; /* of words; nvalues 0: it is of numbers */
} axis;

/* ---------------------------------------------------------------- axes */

static double number_on(const axis *x, int run) {
    const dl_param_info *p = x->figure ? NULL : dlsh_factor_of(x->f->runs[run], x->name);
    double v = x->figure ? x->f->figure[run] : p ? p->num : NAN;
    return x->log ? log10(v) : v;
}

/* Numbers that span more than a factor of 50 are drawn by their logarithms. */
static void measure(axis *x) {
    x->low = INFINITY, x->high = -INFINITY;
    for (int i = 0; i < x->f->n; i++) {
        double v = number_on(x, i);
        if (isfinite(v)) x->low = fmin(x->low, v), x->high = fmax(x->high, v);
    }
    if (x->low > 0 && x->high / x->low > 50) {
        x->log = 1;
        x->low = log10(x->low), x->high = log10(x->high);
    }
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Are all values numbers? Else the different words, at most MOST_VALUES; 0: there are more. */
static int take_values(axis *x) {
    int numbers = 1;
    for (int i = 0; i < x->f->n && !x->figure; i++) {
        const dl_param_info *p = dlsh_factor_of(x->f->runs[i], x->name);
        numbers &= !p || !isnan(p->num);
    }
    if (numbers) return measure(x), 1;
    for (int i = 0; i < x->f->n; i++) {
        const dl_param_info *p = dlsh_factor_of(x->f->runs[i], x->name);
        int k = 0;
        while (p && k < x->nvalues && strcmp(x->values[k], p->value)) k++;
        if (!p || k < x->nvalues) continue;
        if (x->nvalues == MOST_VALUES) return 0;
        x->values[x->nvalues++] = p->value;
    }
    qsort(x->values, (size_t)x->nvalues, sizeof *x->values, by_text);
    return 1;
}

/* Where a run meets the axis, from 0 to 1; NaN: nowhere. */
static double share_of(const axis *x, int run) {
    if (!x->nvalues) {
        double v = number_on(x, run);
        return x->high > x->low ? (v - x->low) / (x->high - x->low) : isnan(v) ? NAN : 0.5;
    }
    const dl_param_info *p = dlsh_factor_of(x->f->runs[run], x->name);
    for (int k = 0; p && k < x->nvalues; k++)
        if (!strcmp(p->value, x->values[k])) return x->nvalues > 1 ? (double)k / (x->nvalues - 1) : 0.5;
    return NAN;
}

static int has_name(const char *list, const char *name) {
    for (size_t n; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        if (n == strlen(name) && !strncmp(list, name, n)) return 1;
    }
    return 0;
}

static int has_values(const axis *x) { return x->nvalues ? x->nvalues > 1 : x->high > x->low; }

/* The names of cols=, else the parameters that differ, as many as there is room for: first those with several values,
 * then those that only some of the runs have. */
static dl_status choose_axes(const dlsh_args *a, const dlsh_factors *f, axis *axes, int most, int *n, int *left_out) {
    const char *cols = dlsh_given(a, "cols") ? dlsh_arg_str(a, "cols") : NULL;
    *n = *left_out = 0;
    for (int i = 0; i < 2 * f->nparams; i++) {
        const int second = i >= f->nparams;
        axis x = {.name = f->params[i % f->nparams], .f = f};
        if (cols && !has_name(cols, x.name)) continue;
        const int drawn = take_values(&x);
        if (second == (drawn && has_values(&x))) continue;
        if (*n == most - 1 || !drawn)
            ++*left_out;
        else
            axes[(*n)++] = x;
    }
    if (!*n)
        return dlsh_arg_fail(a, cols ? "cols" : NULL, DL_ERR_NAME, "runs cols=lr,width shows what they were given",
                             cols ? "the runs do not differ in any of these parameters"
                                  : "the runs do not differ in any parameter that can be drawn");
    axes[*n] = (axis){.name = f->label, .f = f, .figure = 1};
    measure(&axes[(*n)++]);
    return DL_OK;
}

/* ---------------------------------------------------------------- drawing */

/* Text over the dots from a place on; letters that are more than a byte become a question mark. */
static void overlay(dlsh_canvas *c, int column, int row, const char *text, int room) {
    for (int i = 0; text[i] && i < room && column + i < c->columns; i++)
        c->mark[row * c->columns + column + i] = text[i] >= ' ' && text[i] < 127 ? (unsigned char)text[i] : '?';
}

static int column_of(const dlsh_canvas *c, int axis, int n, int tail) {
    return (int)lround((double)axis * (c->columns - 1 - tail) / (n - 1));
}

static void draw_axis(dlsh_canvas *c, const axis *x, int column, int room) {
    char text[32];
    dlsh_canvas_line(c, -1, 2 * column, 0, 2 * column, 4 * c->rows - 1);
    for (int k = 0; k < x->nvalues; k++) {
        double share = x->nvalues > 1 ? (double)k / (x->nvalues - 1) : 0.5;
        overlay(c, column + 1, (int)lround((1 - share) * (c->rows - 1)), x->values[k], room);
    }
    if (x->nvalues || x->low > x->high) return;
    for (int end = 0; end < 2; end++) {
        double v = end ? x->high : x->low;
        snprintf(text, sizeof text, "%.4g", x->log ? pow(10, v) : v);
        overlay(c, column + 1, end ? 0 : c->rows - 1, text, room);
    }
}

/* Colours of curves (braille.c): the best quarter green, the next cyan, yellow, red. */
static const struct quarter {
    int colour;
    const char *escape, *name;
} quarters[] = {
    {2, "\033[32m", "best quarter"}, {5, "\033[36m", "second"}, {1, "\033[33m", "third"}, {3, "\033[31m", "worst"}};

static int quarter_of(const dlsh_factors *f, int run) {
    int better = 0;
    for (int i = 0; i < f->n; i++) better += (f->figure[i] - f->figure[run]) * f->direction > 0;
    return better * 4 / f->n;
}

static void draw_runs(dlsh_canvas *c, const dlsh_factors *f, const axis *axes, int n, int tail) {
    for (int q = 3; q >= 0; q--) /* the best on top */
        for (int i = 0; i < f->n; i++) {
            if (quarter_of(f, i) != q) continue;
            for (int k = 0; k + 1 < n; k++) {
                double y0 = share_of(&axes[k], i), y1 = share_of(&axes[k + 1], i), top = 4 * c->rows - 1;
                if (isnan(y0) || isnan(y1)) continue;
                dlsh_canvas_line(c, quarters[q].colour, 2 * column_of(c, k, n, tail), y0 * top,
                                 2 * column_of(c, k + 1, n, tail), y1 * top);
            }
        }
}

/* The names above the axes, the last one to the left of its end. */
static void put_heads(dlsh_buf *b, const dlsh_canvas *c, const axis *axes, int n, int tail) {
    int at = 0;
    for (int k = 0; k < n; k++) {
        int from = column_of(c, k, n, tail), to = k + 1 < n ? column_of(c, k + 1, n, tail) - 1 : c->columns;
        int width = dlsh_text_width(axes[k].name, strlen(axes[k].name));
        if (k + 1 == n && from + width > c->columns) from = c->columns - width > at ? c->columns - width : at;
        if (from > at) dlsh_buf_printf(b, "%*s", from - at, ""), at = from;
        int room = to - at < width ? to - at : width;
        dlsh_text_pad(b, axes[k].name, room, 'l', 1, 1);
        at += room;
    }
    dlsh_buf_puts(b, "\n");
}

static dl_status draw(const dlsh_args *a, const dlsh_factors *f, const axis *axes, int n, int left_out, int width) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_look look = dlsh_sink_look(sink);
    DLSH_SCOPED_BUF b = {0};
    dlsh_canvas c;
    const int tail = 9; /* room for the numbers of the last axis */
    if (!dlsh_canvas_new(&c, width, ROWS)) return dlsh_no_memory("a picture");
    draw_runs(&c, f, axes, n, tail);
    for (int k = 0; k < n; k++) draw_axis(&c, &axes[k], column_of(&c, k, n, tail), LEAST_GAP - 2);
    put_heads(&b, &c, axes, n, tail);
    for (int row = 0; row < c.rows; row++) {
        dlsh_canvas_row(&b, &c, row, look.colour);
        dlsh_buf_puts(&b, "\n");
    }
    free(c.dots);
    dlsh_buf_printf(&b, "%d run%s by %s, %s is better", f->n, f->n == 1 ? "" : "s", f->label,
                    f->direction > 0 ? "higher" : "lower");
    for (size_t q = 0; look.colour && q < 4; q++)
        dlsh_buf_printf(&b, "  %s━━\033[0m %s", quarters[q].escape, quarters[q].name);
    if (left_out) dlsh_buf_printf(&b, "\nleft out: %d parameter%s; cols= chooses", left_out, left_out == 1 ? "" : "s");
    dlsh_buf_puts(&b, "\n");
    const dlsh_bundle shown = {.text = b}; /* dlsh_put would show the colours' escapes as text */
    return sink->ops->display(sink, &shown);
}

/* For programs: a row for each run. */
static dl_status list_runs(dlsh_sink *sink, const dlsh_factors *f, const axis *axes, int n) {
    dlsh_wide_table w;
    dlsh_value cells[MOST_AXES + 2];
    dl_status st = dlsh_wide_new(&w, n + 1);
    if (!st) st = dlsh_wide_column(&w, 0, "run", 'r');
    for (int k = 0; k < n && !st; k++) st = dlsh_wide_column(&w, k + 1, axes[k].name, 'r');
    for (int i = 0; i < f->n && !st; i++) {
        cells[0] = dlsh_int(f->runs[i]->id);
        for (int k = 0; k + 1 < n; k++) {
            const dl_param_info *p = dlsh_factor_of(f->runs[i], axes[k].name);
            cells[k + 1] = !p ? dlsh_none() : isnan(p->num) ? dlsh_string(p->value) : dlsh_float(p->num);
        }
        cells[n] = dlsh_float(f->figure[i]);
        st = dlsh_table_row(&w.t, cells);
    }
    st = dlsh_table_show(sink, &w.t, st, NULL);
    dlsh_wide_free(&w);
    return st;
}

static dl_status pcoord_run(const dlsh_args *a) {
    dlsh_look look = dlsh_sink_look(dlsh_arg_sink(a));
    const int people = look.mode == DLSH_MODE_TABLE, width = look.width > 30 ? look.width - 1 : 79;
    int room = people ? width / LEAST_GAP : MOST_AXES, n, left_out;
    axis axes[MOST_AXES + 1];
    dlsh_factors f;
    DLSH_TRY(dlsh_factors_read(a, &f));
    dl_status st = choose_axes(a, &f, axes, room < MOST_AXES ? room : MOST_AXES, &n, &left_out);
    if (!st) st = people ? draw(a, &f, axes, n, left_out, width) : list_runs(dlsh_arg_sink(a), &f, axes, n);
    dlsh_factors_free(&f);
    return st;
}

const dlsh_command pcoord_commands[] = {
    DLSH_ROW(
        "pcoord", DLSH_REPORT, pcoord_run, "pcoord METRIC [RUN ...] [cols=lr,width] [where=...]",
        "Parallel coordinates in the terminal: an axis for each parameter in which the runs differ, the last one for a "
        "metric, and a line for each run, coloured by the metric. Numbers that span more than a factor of 50 are on a "
        "logarithmic axis. A report has the same with ranges to drag.",
        DLSH_PARAMS(DLSH_FACTORS_METRIC, DLSH_FACTORS_RUNS),
        DLSH_OPTIONS({"cols", DLSH_OPT_WORD, NULL, .doc = "the parameters that have an axis, between commas"},
                     DLSH_RUN_FILTERS),
        .examples = "pcoord test/acc\npcoord min(val/loss) cols=lr,width where=\"status = finished\""),
    {0}};
