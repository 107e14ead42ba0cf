/* Choosing the next point of a search: tree-structured Parzen estimators. */
#include <math.h>
#include <stdlib.h>
#include "track/sweep.h"

/* STARTUP points are random; of DRAWS candidates the most promising one is taken. */
enum { STARTUP = 10, DRAWS = 24, MOST_GOOD = 25 };

/* Splitmix64. */
double dl_sweep_uniform(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static double normal(uint64_t *state) {
    double u = 1 - dl_sweep_uniform(state), v = dl_sweep_uniform(state);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static double draw_uniform(const dl_dimension *d, uint64_t *state) {
    double u = dl_sweep_uniform(state);
    return d->choices ? floor(u * (double)d->choices) : u;
}

static int by_worth(const void *a, const void *b) {
    double x = ((const dl_tried *)a)->worth, y = ((const dl_tried *)b)->worth;
    return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x < y) - (x > y);
}

/* Is it one of some values without an order? */
static int is_category(const dl_dimension *d) { return d->choices && !d->ordered; }

/* The value in [0, 1]. */
static double place(const dl_dimension *d, double x) { return d->choices ? (x + 0.5) / (double)d->choices : x; }

/* One dimension of a density: a normal distribution around each point, and a wide one around the middle. */
typedef struct density {
    const dl_dimension *dim;
    long n;
    double *at, *width; /* n + 1 each, ascending; of a category: *at are weights of the choices */
} density;

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void count_choices(density *p, const dl_tried *t, int k) {
    double total = (double)p->n + 1;
    for (long c = 0; c < p->dim->choices; c++) p->at[c] = 1 / (double)p->dim->choices / total;
    for (long i = 0; i < p->n; i++) {
        long c = (long)t[i].point[k];
        if (c >= 0 && c < p->dim->choices) p->at[c] += 1 / total;
    }
}

/* The width of each is the larger distance to its neighbours, within limits. */
static void place_points(density *p, const dl_tried *t, int k) {
    double least = 1.0 / fmin(100, (double)p->n + 2);
    for (long i = 0; i < p->n; i++) p->at[i] = place(p->dim, t[i].point[k]);
    p->at[p->n] = 0.5;
    qsort(p->at, (size_t)p->n + 1, sizeof *p->at, ascending);
    int wide = 0;
    for (long i = 0; i <= p->n; i++) {
        double left = i ? p->at[i] - p->at[i - 1] : p->at[i], right = i < p->n ? p->at[i + 1] - p->at[i] : 1 - p->at[i];
        p->width[i] = fmin(1, fmax(least, fmax(left, right)));
        if (!wide && p->at[i] == 0.5) p->width[i] = 1, wide = 1;
    }
}

/* The part of a normal distribution below x. */
static double below(double x, double at, double width) { return 0.5 * erfc((at - x) / width * M_SQRT1_2); }

static double log_density(const density *p, double x) {
    if (is_category(p->dim)) return log(p->at[(long)x]);
    double u = place(p->dim, x), half = p->dim->choices ? 0.5 / (double)p->dim->choices : 0, sum = 0;
    for (long i = 0; i <= p->n; i++) {
        double inside = below(1, p->at[i], p->width[i]) - below(0, p->at[i], p->width[i]),
               z = (u - p->at[i]) / p->width[i];
        double mass = half ? below(u + half, p->at[i], p->width[i]) - below(u - half, p->at[i], p->width[i])
                           : exp(-z * z / 2) / p->width[i];
        sum += mass / inside;
    }
    return log(fmax(sum / ((double)p->n + 1), 1e-300));
}

static double draw(const density *p, uint64_t *state) {
    double u = dl_sweep_uniform(state);
    if (is_category(p->dim)) {
        long c = 0;
        while (c < p->dim->choices - 1 && (u -= p->at[c]) >= 0) c++;
        return (double)c;
    }
    long i = (long)(u * (double)(p->n + 1));
    double x = -1;
    for (int tries = 0; tries < 1000 && !(x >= 0 && x < 1); tries++) x = p->at[i] + p->width[i] * normal(state);
    if (!(x >= 0 && x < 1)) x = p->at[i] < 1 ? p->at[i] : 0.5;
    return p->dim->choices ? floor(x * (double)p->dim->choices) : x;
}

/* One dimension of the point. */
static double choose(const dl_dimension *d, const dl_tried *tried, long good, long n, int k, double *room,
                     uint64_t *s) {
    long most = n + 1 > d->choices ? n + 1 : d->choices;
    density best = {d, good, room, room + most}, rest = {d, n - good, room + 2 * most, room + 3 * most};
    (is_category(d) ? count_choices : place_points)(&best, tried, k);
    (is_category(d) ? count_choices : place_points)(&rest, tried + good, k);
    double chosen = 0, promise = -INFINITY;
    for (int i = 0; i < DRAWS; i++) {
        double x = draw(&best, s), ratio = log_density(&best, x) - log_density(&rest, x);
        if (ratio > promise) promise = ratio, chosen = x;
    }
    return chosen;
}

void dl_tpe_suggest(const dl_dimension *dims, int ndim, dl_tried *tried, long n, uint64_t seed, double *point) {
    uint64_t state = seed;
    long most = n + 1;
    for (int k = 0; k < ndim; k++)
        if (dims[k].choices > most) most = dims[k].choices;
    double *room = n >= STARTUP ? malloc(4 * (size_t)most * sizeof *room) : NULL;
    if (room) qsort(tried, (size_t)n, sizeof *tried, by_worth);
    long good = (long)ceil(0.1 * (double)n);
    if (good > MOST_GOOD) good = MOST_GOOD;
    for (int k = 0; k < ndim; k++)
        point[k] = room ? choose(&dims[k], tried, good, n, k, room, &state) : draw_uniform(&dims[k], &state);
    free(room);
}
