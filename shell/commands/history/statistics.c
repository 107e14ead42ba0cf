/* Statistics of samples: means, intervals, tests of differences. */
#include "commands/history/statistics.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

double dlsh_mean(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return n ? sum / n : NAN;
}

/* About the first value, so that equal ones have none, whatever their sum is rounded to. */
static double variance(const double *x, int n) {
    double mean = 0, sum = 0;
    if (n < 2) return NAN;
    for (int i = 1; i < n; i++) mean += (x[i] - x[0]) / n;
    for (int i = 0; i < n; i++) sum += (x[i] - x[0] - mean) * (x[i] - x[0] - mean);
    return sum / (n - 1);
}

double dlsh_std(const double *x, int n) { return sqrt(variance(x, n)); }

/* ---------------------------------------------------------------- Student's t */

/* The continued fraction of the incomplete beta function, by Lentz's method (Press et al., Numerical Recipes, 6.4). */
static double beta_fraction(double a, double b, double x) {
    const double tiny = 1e-300;
    double c = 1, d = 1 / fmax(fabs(1 - (a + b) * x / (a + 1)), tiny), h;
    if (1 - (a + b) * x / (a + 1) < 0) d = -d;
    h = d;
    for (int m = 1; m < 1000; m++) {
        double step = 1;
        for (int odd = 0; odd < 2; odd++) {
            double k = odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                           : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
            d = 1 + k * d;
            c = 1 + k / c;
            if (fabs(d) < tiny) d = tiny;
            if (fabs(c) < tiny) c = tiny;
            d = 1 / d;
            step = d * c;
            h *= step;
        }
        if (fabs(step - 1) < 1e-16) break;
    }
    return h;
}

/* The regularized incomplete beta function I_x(a, b); y = 1 - x, given apart for its digits. */
static double incomplete_beta(double a, double b, double x, double y) {
    if (x <= 0 || y <= 0) return x <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, y) / b;
}

/* A difference without any spread is infinitely many standard errors away from 0. */
static dlsh_ttest test_of(double difference, double error, double df) {
    dlsh_ttest r = {difference / error, df, NAN};
    if (error == 0 && difference == 0) r.t = NAN;
    double t2 = r.t * r.t;
    if (!isnan(r.t)) r.p = isinf(r.t) ? 0 : incomplete_beta(df / 2, 0.5, df / (df + t2), t2 / (df + t2));
    return r;
}

static const dlsh_ttest no_test = {NAN, NAN, NAN};

dlsh_ttest dlsh_paired_test(const double *a, const double *b, int n) {
    double mean = 0, sum = 0;
    if (n < 2) return no_test;
    for (int i = 0; i < n; i++) mean += (a[i] - b[i]) / n;
    for (int i = 0; i < n; i++) sum += (a[i] - b[i] - mean) * (a[i] - b[i] - mean);
    return test_of(mean, sqrt(sum / (n - 1) / n), n - 1);
}

dlsh_ttest dlsh_welch_test(const double *a, int na, const double *b, int nb) {
    if (na < 2 || nb < 2) return no_test;
    double va = variance(a, na) / na, vb = variance(b, nb) / nb, v = va + vb;
    double df = v > 0 ? v * v / (va * va / (na - 1) + vb * vb / (nb - 1)) : na + nb - 2;
    return test_of(dlsh_mean(a, na) - dlsh_mean(b, nb), sqrt(v), df);
}

void dlsh_holm(const double *p, double *out, int n) {
    int tests = 0;
    for (int i = 0; i < n; i++) tests += !isnan(p[i]);
    for (int i = 0; i < n; i++) {
        int less = 0;
        for (int k = 0; k < n; k++) less += p[k] < p[i];
        out[i] = fmin(1, (tests - less) * p[i]);
        if (isnan(p[i])) out[i] = NAN;
    }
    /* a larger p-value is not corrected to a smaller one */
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (p[k] <= p[i] && out[k] > out[i]) out[i] = out[k];
}

/* ---------------------------------------------------------------- bootstrap */

static double normal_cdf(double z) { return 0.5 * erfc(-z / sqrt(2)); }

/* The inverse, by bisection: it is asked for a few times only. */
static double normal_quantile(double p) {
    double low = -40, high = 40;
    for (int i = 0; i < 200; i++) {
        double middle = (low + high) / 2;
        if (normal_cdf(middle) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The skewness of the leave-one-out means, as BCa wants it; 0 where they are equal. */
static double acceleration(const double *x, int n) {
    double mean = dlsh_mean(x, n), square = 0, cube = 0;
    for (int i = 0; i < n; i++) {
        double d = (x[i] - mean) / (n - 1); /* mean of the leave-one-out means less one of them */
        square += d * d;
        cube += d * d * d;
    }
    return square > 0 ? cube / (6 * pow(square, 1.5)) : 0;
}

/* The quantile of sorted values, between two of them linearly. */
static double quantile(const double *sorted, int n, double q) {
    double at = q * (n - 1);
    int i = (int)at;
    return i >= n - 1 ? sorted[n - 1] : sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]);
}

void dlsh_bootstrap(const double *x, int n, double level, double *scratch, double *low, double *high) {
    uint64_t state = 1;
    double mean = dlsh_mean(x, n), below = 0;
    *low = *high = n > 1 ? mean : NAN;
    if (n < 2 || variance(x, n) == 0) return;
    for (int k = 0; k < DLSH_RESAMPLES; k++) {
        double sum = 0;
        for (int i = 0; i < n; i++) sum += x[draw(&state) % (uint64_t)n];
        scratch[k] = sum / n;
        below += scratch[k] < mean ? 1 : scratch[k] == mean ? 0.5 : 0;
    }
    qsort(scratch, DLSH_RESAMPLES, sizeof *scratch, by_value);
    double z0 = normal_quantile(below / DLSH_RESAMPLES), a = acceleration(x, n), *ends[] = {low, high};
    for (int i = 0; i < 2; i++) {
        double z = z0 + normal_quantile(i ? (1 + level) / 2 : (1 - level) / 2);
        *ends[i] = quantile(scratch, DLSH_RESAMPLES, normal_cdf(z0 + z / (1 - a * z)));
    }
}

/* ---------------------------------------------------------------- ranks */

typedef struct placed {
    double x;
    int at;
} placed;

static int by_x(const void *a, const void *b) {
    double x = ((const placed *)a)->x, y = ((const placed *)b)->x;
    return (x > y) - (x < y);
}

int dlsh_ranks(const double *x, int n, double *out) {
    placed *p = malloc(((size_t)n + 1) * sizeof *p);
    if (!p) return 0;
    for (int i = 0; i < n; i++) p[i] = (placed){x[i], i};
    qsort(p, (size_t)n, sizeof *p, by_x);
    for (int from = 0, to; from < n; from = to) {
        for (to = from; to < n && p[to].x == p[from].x;) to++;
        for (int i = from; i < to; i++) out[p[i].at] = (from + to + 1) / 2.0;
    }
    free(p);
    return 1;
}

static double correlation(const double *x, const double *y, int n) {
    double mx = dlsh_mean(x, n), my = dlsh_mean(y, n), xy = 0, xx = 0, yy = 0;
    for (int i = 0; i < n; i++) {
        xy += (x[i] - mx) * (y[i] - my);
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
    }
    return xx > 0 && yy > 0 ? fmax(-1, fmin(1, xy / sqrt(xx * yy))) : NAN;
}

double dlsh_spearman(const double *x_ranks, const double *y_ranks, int n, double *p) {
    double rho = correlation(x_ranks, y_ranks, n), df = n - 2;
    *p = NAN;
    if (isnan(rho) || df <= 0) return rho;
    double rest = (1 - rho) * (1 + rho), t2 = rest > 0 ? rho * rho * df / rest : INFINITY;
    *p = isinf(t2) ? 0 : incomplete_beta(df / 2, 0.5, df / (df + t2), t2 / (df + t2));
    return rho;
}

double dlsh_explained(const int *group, int groups, const double *y, int n, double *scratch) {
    double mean = dlsh_mean(y, n), all = 0, between = 0, *sum = scratch, *members = scratch + groups;
    for (int g = 0; g < 2 * groups; g++) scratch[g] = 0;
    for (int i = 0; i < n; i++) {
        sum[group[i]] += y[i], members[group[i]]++;
        all += (y[i] - mean) * (y[i] - mean);
    }
    for (int g = 0; g < groups; g++) {
        double d = sum[g] / members[g] - mean;
        between += members[g] * d * d;
    }
    if (!(all > 0) || n <= groups) return NAN;
    return fmax(0, 1 - (1 - between / all) * (n - 1) / (n - groups));
}
