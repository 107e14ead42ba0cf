/* Commands that look into tensors: figures and histograms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands/data/data.h"
#include "commands/data/figures.h"
#include "lang/session.h"
#include "view/elements.h"
#include "view/rich/html.h"
#include "view/rich/plot.h"
#include "view/tensor.h"
#include "view/text.h"

enum { SPARK = 32, MAX_BINS = 1000 };

/* ---------------------------------------------------------------- stat */

static dlsh_value stats_record(const dl_tensor *t, const dlsh_stats *s) {
    dlsh_value shape[8];
    for (int d = 0; d < dl_ndim(t); d++) shape[d] = dlsh_int(dl_shape(t)[d]);
    return DLSH_RECORD_OF({"shape", dlsh_list_of(shape, dl_ndim(t))},
                          {"dtype", dlsh_string(dl_dtype_name(dl_dtype_of(t)))},
                          {"device", dlsh_string(dl_device_name(dl_device_of(t)))}, {"mean", dlsh_float(s->mean)},
                          {"std", dlsh_float(s->std)}, {"min", dlsh_float(s->min)}, {"max", dlsh_float(s->max)},
                          {"norm", dlsh_float(s->norm)}, {"n", dlsh_int(s->n)}, {"zeros", dlsh_int(s->zeros)},
                          {"nan", dlsh_int(s->nans)}, {"inf", dlsh_int(s->infs)});
}

static dl_status put_spark(dlsh_buf *b, const dl_tensor *t, const dlsh_stats *s, const dlsh_look *look) {
    enum { LABELS = 28 }; /* columns of the extremes beside it */
    if (!(s->max > s->min)) return DL_OK;
    int n = look->width > 0 && look->width < SPARK + LABELS ? look->width - LABELS : SPARK;
    if (n < 4) return DL_OK;
    long counts[SPARK];
    double heights[SPARK];
    DLSH_TRY(dlsh_histogram(t, s->min, s->max, n, counts));
    for (int i = 0; i < n; i++) heights[i] = (double)counts[i];
    dlsh_buf_printf(b, "  %.4g |", s->min);
    dlsh_spark(b, heights, n, look->unicode);
    dlsh_buf_printf(b, "| %.4g\n", s->max);
    return DL_OK;
}

static void put_figures(dlsh_buf *b, const dlsh_stats *s, const dlsh_look *look) {
    const struct {
        const char *name;
        double value;
    } figures[] = {{"mean", s->mean}, {"std", s->std}, {"min", s->min}, {"max", s->max}, {"norm", s->norm}};
    enum { N = DLSH_COUNT(figures) };
    char text[N][40];
    const char *fields[N];
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "%s %.6g", figures[i].name, dlsh_plain_nan(figures[i].value));
        fields[i] = text[i];
    }
    dlsh_text_fields(b, fields, N, look->width);
}

static dl_status put_stats(dlsh_buf *b, const char *title, const dl_tensor *t, const dlsh_stats *s,
                           const dlsh_look *look) {
    const char *loud = look->colour ? "\033[31m" : "", *off = look->colour ? "\033[0m" : "";
    if (*title) dlsh_buf_puts_visible(b, title), dlsh_buf_puts(b, "  ");
    dlsh_tensor_kind(b, t);
    dlsh_buf_printf(b, "  %s  n=%ld%s\n", dl_device_name(dl_device_of(t)), s->n, dl_requires_grad(t) ? "  grad" : "");
    if (!s->n) return DL_OK;
    put_figures(b, s, look);
    dlsh_buf_printf(b, "  zeros %ld (%.3g%%)  ", s->zeros, 100.0 * (double)s->zeros / (double)s->n);
    dlsh_buf_printf(b, "%sNaN %ld%s  ", s->nans ? loud : "", s->nans, s->nans ? off : "");
    dlsh_buf_printf(b, "%sInf %ld%s\n", s->infs ? loud : "", s->infs, s->infs ? off : "");
    return put_spark(b, t, s, look);
}

static dl_status show_stats(const dlsh_args *a, const dl_tensor *t, const dlsh_stats *s) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_look look = dlsh_sink_look(sink);
    const char *title = dlsh_arg_text(a, "tensor");
    DLSH_SCOPED(dlsh_bundle_free) dlsh_bundle b = {0};
    DLSH_TRY(put_stats(&b.text, title, t, s, &look));
    if (look.rich) DLSH_TRY(dlsh_html_figures(&b.form[DLSH_HTML], *title ? title : NULL, t, s));
    return dlsh_display(sink, &b);
}

/* Of a data set or a split: a row for each input and target. */
static dl_status stat_data(const dlsh_args *a, dl_dataset *d, int from, int to, dlsh_value *result) {
    DLSH_DROPPED dlsh_value rows = dlsh_void();
    DLSH_TRY(dlsh_give(dlsh_data_figures(d, from, to), &rows));
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (!dlsh_arg_called(a)) DLSH_TRY(dlsh_show_data_figures(sink, rows));
    return dlsh_hand_over(&rows, result);
}

static dl_status stat_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *what = dlsh_arg(a, "tensor");
    dl_dataset *d = dlsh_unwrap(*what, &dlsh_dataset_class);
    const dlsh_split *part = dlsh_unwrap(*what, &dlsh_split_class);
    if (d) return stat_data(a, d, DL_TRAIN, DL_TEST, result);
    if (part) return stat_data(a, part->data, part->which, part->which, result);
    dl_tensor *t = dlsh_arg_tensor(a, "tensor");
    dlsh_stats s;
    DLSH_TRY(dlsh_stats_of(t, &s));
    DLSH_DROPPED dlsh_value r = dlsh_void();
    DLSH_TRY(dlsh_give(stats_record(t, &s), &r));
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (!dlsh_arg_called(a))
        DLSH_TRY(dlsh_sink_look(sink).mode == DLSH_MODE_TABLE ? show_stats(a, t, &s) : sink->ops->value(sink, r));
    return dlsh_hand_over(&r, result);
}

/* ---------------------------------------------------------------- hist */

static dl_status hist_table(dlsh_sink *sink, double lo, double width, int bins, const long *counts) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"from", 'r', ""}, {"to", 'r', ""}, {"count", 'r', ""});
    for (int i = 0; i < bins; i++)
        DLSH_TRY(dlsh_table_row(
            &t, (dlsh_value[]){dlsh_float(lo + i * width), dlsh_float(lo + (i + 1) * width), dlsh_int(counts[i])}));
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}

static void hist_bars(dlsh_buf *b, const dlsh_look *look, double lo, double width, int bins, const long *counts) {
    long most = 1;
    for (int i = 0; i < bins; i++)
        if (counts[i] > most) most = counts[i];
    int digits = snprintf(NULL, 0, "%ld", most), counted = digits > 8 ? digits : 8;
    int columns = look->width > 0 && look->width < 100 ? look->width : 80, ends = columns >= 44;
    int room = columns - (10 + (ends ? 3 + 10 : 0) + 1 + counted + 1);
    for (int i = 0; i < bins; i++) {
        dlsh_buf_printf(b, "%10.4g ", lo + i * width);
        if (ends) dlsh_buf_printf(b, "..%10.4g ", lo + (i + 1) * width);
        dlsh_buf_printf(b, "%*ld ", counted, counts[i]);
        dlsh_bar(b, (double)counts[i] / (double)most, room > 10 ? room : 10, look->unicode);
        dlsh_buf_puts(b, "\n");
    }
}

/* Draws the bars by gnuplot: into the file of out=, or as a picture of a notebook. */
static dl_status hist_plot(const dlsh_args *a, double lo, double width, int bins, const long *counts,
                           const dlsh_stats *s, dlsh_buf *svg) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    char left_out[80] = "value";
    DLSH_FREED double *xy = malloc(sizeof *xy * 2 * (size_t)bins);
    if (!xy) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for %d bins", bins);
    for (int i = 0; i < bins; i++) {
        xy[i] = lo + (i + 0.5) * width;
        xy[bins + i] = (double)counts[i];
    }
    if (s->nans || s->infs) snprintf(left_out, sizeof left_out, "value (left out: NaN %ld, Inf %ld)", s->nans, s->infs);
    dlsh_curve curve = {.label = "", .n = bins, .x = xy, .y = xy + bins};
    dlsh_plot p = {.title = dlsh_arg_text(a, "tensor"),
                   .xlabel = left_out,
                   .ylabel = "count",
                   .file = dlsh_arg_str(a, "out"),
                   .ncurves = 1,
                   .curves = &curve,
                   .bars = 1};
    return svg               ? dlsh_plot_svg(&p, svg)
           : sink->ops->plot ? sink->ops->plot(sink, &p)
                             : dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "this output cannot show plots");
}

static dl_status hist_show(const dlsh_args *a, double lo, double width, int bins, const long *counts,
                           const dlsh_stats *s) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_look look = dlsh_sink_look(sink);
    DLSH_SCOPED(dlsh_bundle_free) dlsh_bundle b = {0};
    hist_bars(&b.text, &look, lo, width, bins, counts);
    if (s->nans || s->infs) dlsh_buf_printf(&b.text, "left out: NaN %ld, Inf %ld\n", s->nans, s->infs);
    dl_status status = look.rich ? hist_plot(a, lo, width, bins, counts, s, &b.form[DLSH_SVG]) : DL_OK;
    if (status == DL_ERR_UNSUPPORTED) {
        dl_error_clear(); /* no gnuplot; the text says the same */
        status = DL_OK;
    }
    if (!status) status = dlsh_display(sink, &b);
    return status;
}

static dl_status hist_run(const dlsh_args *a) {
    dl_tensor *t = dlsh_arg_tensor(a, "tensor");
    long bins = dlsh_arg_int(a, "bins"), counts[MAX_BINS];
    if (bins < 1 || bins > MAX_BINS)
        return dlsh_arg_fail(a, "bins", DL_ERR_VALUE, NULL, "bins must be 1 to %d, got %ld", MAX_BINS, bins);
    dlsh_stats s;
    DLSH_TRY(dlsh_stats_of(t, &s));
    double lo = dlsh_given(a, "min") ? dlsh_arg_float(a, "min") : s.min;
    double hi = dlsh_given(a, "max") ? dlsh_arg_float(a, "max") : s.max;
    if (isnan(lo))
        return dlsh_arg_fail(a, "tensor", DL_ERR_VALUE, NULL, "a histogram needs at least one finite element");
    if (lo == hi) {
        lo -= 0.5;
        hi += 0.5;
    }
    if (!(lo < hi)) return dlsh_arg_fail(a, "max", DL_ERR_VALUE, NULL, "max must be above min, got %g and %g", hi, lo);
    DLSH_TRY(dlsh_histogram(t, lo, hi, (int)bins, counts));
    double width = (hi - lo) / (double)bins;
    dlsh_sink *sink = dlsh_arg_sink(a);
    if (dlsh_given(a, "out")) return hist_plot(a, lo, width, (int)bins, counts, &s, NULL);
    if (dlsh_sink_look(sink).mode != DLSH_MODE_TABLE) return hist_table(sink, lo, width, (int)bins, counts);
    return hist_show(a, lo, width, (int)bins, counts, &s);
}

static const dlsh_param tensor_params[] = {{"tensor", .want = "tensor", .doc = "what to look at", .complete = "var"},
                                           {0}};

const dlsh_command inspect_commands[] = {
    DLSH_ROW("stat", DLSH_REPORT | DLSH_FUNCTION, stat_run, "stat TENSOR",
             "Statistics of a tensor: shape, mean, standard deviation, extremes, norm, zeros, NaN, Inf, and its "
             "distribution; of a data set, or a split as d.train, those of each input and target, all samples read. "
             "As a function, stat(x) gives them as a record, stat(d) as a list of records.",
             DLSH_PARAMS({"tensor", .want = "tensor|dataset|split", .doc = "what to look at", .complete = "var"}),
             .examples = "stat m.conv0.weight.grad\nstat(x).std\nstat d"),
    DLSH_ROW(
        "hist", DLSH_REPORT, hist_run, "hist TENSOR [bins=20] [min=A] [max=B] [out=FILE]",
        "Draws a histogram of the elements.", .params = tensor_params,
        DLSH_OPTIONS({"bins", DLSH_OPT_INT, "20", .doc = "number of bins"},
                     {"min", DLSH_OPT_FLOAT, NULL, .doc = "start of the first bin; the smallest element when left out"},
                     {"max", DLSH_OPT_FLOAT, NULL, .doc = "end of the last bin; the largest element when left out"},
                     {"out", DLSH_OPT_WORD, NULL, .doc = "draw into a file: NAME.png, NAME.svg or NAME.txt",
                      .complete = "file"}),
        .examples = "hist m.fc.weight bins=40\nhist x out=weights.png"),
    {0}};
