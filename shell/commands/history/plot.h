/* The curves of a plot, with the data that they borrow. */
#pragma once

#include "commands/history/history.h"

/* Curves drawn, and runs of which groups are made. */
enum { DLSH_MOST_CURVES = 16, DLSH_MOST_RUNS = 512 };

typedef struct dlsh_chart {
    dlsh_curve curves[DLSH_MOST_RUNS];
    char labels[DLSH_MOST_RUNS][128];
    dl_points *points[DLSH_MOST_RUNS]; /* NULL: of variables */
    long runs[DLSH_MOST_RUNS];
    double **numbers; /* kept for the curves */
    int n, kept, cap;
    char metric[128], xlabel[128], ylabel[128], title[160];
    int groups; /* the curves are means */
} dlsh_chart;

/* Room for n numbers, which the chart frees. NULL, error recorded. */
double *dlsh_chart_numbers(dlsh_chart *c, long n);
void dlsh_chart_free(dlsh_chart *c);
DLSH_ENDS(dlsh_chart_free, dlsh_chart)

/* A metric of runs over step, time or epoch, one of which x= is, if given; means of groups with by=. */
dl_status dlsh_chart_runs(const dlsh_args *a, dlsh_chart *c, long max_points);
/* A dot for each run, of two names: plot x=lr y=min(val/loss). */
dl_status dlsh_chart_scatter(const dlsh_args *a, dlsh_chart *c);
/* Exponential means of the curves, as smooth= says. */
dl_status dlsh_chart_smooth(const dlsh_args *a, dlsh_chart *c);
