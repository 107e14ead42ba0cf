/* How values, tables, plots and progress look in a notebook: the kernel's sink calls these and sends what they made.
 * Each fills b->text as a terminal would show it (CSV or JSON when the look says so), and the forms that fit. */
#pragma once

#include "view/elements.h"
#include "view/progress.h"

/* b is empty on entry. Failures leave a recorded error. */
dl_status dlsh_rich_value(dlsh_bundle *b, dlsh_value v, const dlsh_look *look);
dl_status dlsh_rich_table(dlsh_bundle *b, const dlsh_table *t, const dlsh_look *look);
dl_status dlsh_rich_plot(dlsh_bundle *b, const dlsh_plot *p, const dlsh_look *look);

/* The value for programs, nothing for what is no data or too much of it. Of a tensor that is not small shape, dtype and
 * figures (s NULL: without them); of a table its first rows. */
dl_status dlsh_rich_json(dlsh_buf *b, dlsh_value v, const dlsh_stats *s);
dl_status dlsh_rich_json_table(dlsh_buf *b, const dlsh_table *t);

/* A long action under way, one display updated in place: bar, rate, the curve of a metric, a row of figures for each
 * line that is done. Zero-initialise; the state between calls is kept here and owns nothing. */
enum { DLSH_LIVE_POINTS = 256, DLSH_LIVE_LINES = 12, DLSH_LIVE_METRICS = 6 };
typedef struct dlsh_live_line {
    char label[32];
    int nmetrics;
    char names[DLSH_LIVE_METRICS][24];
    double values[DLSH_LIVE_METRICS];
    double seconds;
    char text[200];
} dlsh_live_line;
typedef struct dlsh_live {
    dlsh_meter meter;
    double started, line_started, drawn; /* seconds of a steady clock; started 0: nothing yet */
    long calls, per;                     /* points of the curve are means over `per` calls */
    int npoints;                         /* the last one may be of fewer */
    double sums[DLSH_LIVE_POINTS];
    long counts[DLSH_LIVE_POINTS];
    long nlines; /* done so far; the first and the last ones are kept */
    dlsh_live_line lines[DLSH_LIVE_LINES];
} dlsh_live;
/* Fills b and returns 1 when it is time to draw: at the first call, ten times a second, when the action is done or was
 * stopped. */
int dlsh_rich_progress(dlsh_live *l, const dlsh_progress *p, const dlsh_look *look, dlsh_bundle *b);
