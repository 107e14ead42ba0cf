/* Statistics of samples: means, intervals, tests of differences. Plain arithmetic on arrays of doubles. */
#pragma once

/* Student's t with its degrees of freedom and two-sided p-value; all NaN where the samples allow no test. */
typedef struct dlsh_ttest {
    double t, df, p;
} dlsh_ttest;

/* NaN for n = 0. */
double dlsh_mean(const double *x, int n);
/* With n - 1 in the denominator; NaN below two values. */
double dlsh_std(const double *x, int n);

/* Of n pairs, a[i] beside b[i]. */
dlsh_ttest dlsh_paired_test(const double *a, const double *b, int n);
/* Welch's test: samples whose variances may differ. */
dlsh_ttest dlsh_welch_test(const double *a, int na, const double *b, int nb);
/* Holm's correction of n p-values; NaN stays and does not count. */
void dlsh_holm(const double *p, double *out, int n);

/* The interval that holds the mean with probability `level`, by bias-corrected and accelerated bootstrap (Efron 1987)
 * of 9,999 samples, always the same ones. Needs scratch[9999]. NaN below two values. */
enum { DLSH_RESAMPLES = 9999 };
void dlsh_bootstrap(const double *x, int n, double level, double *scratch, double *low, double *high);

/* Ranks from 1; equal values have the mean of theirs. 0: no memory. */
int dlsh_ranks(const double *x, int n, double *out);
/* Spearman's correlation, of ranks, with the two-sided p-value of the t-distribution; NaN where all of one side are
 * equal. */
double dlsh_spearman(const double *x_ranks, const double *y_ranks, int n, double *p);
/* The share of the variance of y that groups 0, 1, ... explain, each of which has a member: as adjusted R squared, at
 * least 0; NaN where each value is a group of its own, or all are equal. Needs scratch[2 * groups]. */
double dlsh_explained(const int *group, int groups, const double *y, int n, double *scratch);
