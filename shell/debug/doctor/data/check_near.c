/* Samples of one split that are nearly those of the other one, as copies with some noise that were made before the
 * split: the nearest ones lie at a distance that no other pair has. */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "debug/doctor/samples.h"

enum { WIDE = 48, NARROWEST = 3, TRAIN = 2000, TEST = 300, COPIES = 8, FEWEST = 60, LEAST = 20 };

/* Rows in columns of equal deviation, of wide ones sums of some columns with random signs, which keep distances. */
typedef struct points {
    double *x; /* [n, width]; owned */
    long n, width;
} points;

static void points_free(points *p) { free(p->x); }

/* Random bits of a column. */
static uint64_t bits_of(long column) {
    uint64_t h = ((uint64_t)column + 1) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29, h *= 0xbf58476d1ce4e5b9u, h ^= h >> 32;
    return h;
}

static int find_scale(const dlsh_samples *by, double *mean, double *factor) {
    for (long c = 0; c < by->width; c++) {
        const dlsh_spread k = dlsh_spread_of(by, c);
        mean[c] = k.mean, factor[c] = k.std > 1e-6 ? 1 / k.std : 0;
        if (k.n < by->n) return 0;
    }
    return 1;
}

static int place(points *p, const dlsh_samples *s, long most, const double *mean, const double *factor) {
    p->n = s->n < most ? s->n : most;
    p->width = s->width > WIDE ? WIDE : s->width;
    p->x = calloc((size_t)(p->n * p->width) + 1, sizeof *p->x);
    for (long i = 0; p->x && i < p->n; i++)
        for (long c = 0; c < s->width; c++) {
            const double v = (s->x[i * s->width + c] - mean[c]) * factor[c];
            if (!isfinite(v)) return 0;
            const uint64_t bits = bits_of(c);
            const long at = s->width > WIDE ? (long)(bits % WIDE) : c;
            p->x[i * p->width + at] += s->width > WIDE && bits >> 63 ? -v : v;
        }
    return p->x != NULL;
}

/* How often a row's nearest ones are set apart from the rest. */
typedef struct apart {
    long some, clear; /* rows with a gap of a factor of 3, of 8 */
    double near, next;
} apart;

/* Is there a gap behind the first few distances, which are sorted, behind which they grow slowly? */
static void look_at_distances(const double *d, long n, apart *a) {
    for (long k = 1; k <= COPIES && 4 * k < n; k++) {
        if (!(d[k - 1] > 0) || d[k] < 3 * d[k - 1]) continue;
        if (d[4 * k] > 2 * d[k]) return; /* few dimensions, so that chance makes gaps */
        a->some++, a->clear += d[k] > 8 * d[k - 1];
        a->near += d[0], a->next += d[k];
        return;
    }
}

static int compare(const points *train, const points *test, apart *a) {
    double *d = malloc(((size_t)train->n + 1) * sizeof *d);
    for (long i = 0; d && i < test->n; i++) {
        for (long k = 0; k < train->n; k++) {
            double sum = 0;
            for (long c = 0; c < train->width; c++) {
                const double v = test->x[i * test->width + c] - train->x[k * train->width + c];
                sum += v * v;
            }
            d[k] = sqrt(sum);
        }
        qsort(d, (size_t)train->n, sizeof *d, dlsh_by_size);
        look_at_distances(d, train->n, a);
    }
    free(d);
    return d != NULL;
}

/* Is one of the tables made of the other one on purpose, as x + noise in each step? */
static int is_made_of(const dlsh_samples *a, const dlsh_samples *b) {
    const char *file = a->file ? a->file : b->file;
    const dlsh_node *made = *a->name && file ? dlsh_definition_of(file, a->name, INT_MAX, NULL) : NULL;
    return made && made->kind != DLSH_N_INDEX && dlsh_mentions(made, b->name) > 0;
}

void dlsh_find_near(dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test) {
    DLSH_SCOPED(points_free) points a = {0}, b = {0};
    apart found = {0};
    if (!train->real || !test->real || train->width < NARROWEST || train->n < FEWEST || test->n < LEAST) return;
    if (is_made_of(train, test) || is_made_of(test, train)) return;
    DLSH_FREED double *mean = malloc((size_t)train->width * sizeof *mean);
    DLSH_FREED double *factor = malloc((size_t)train->width * sizeof *factor);
    if (!mean || !factor || !find_scale(train, mean, factor)) return;
    if (!place(&a, train, TRAIN, mean, factor) || !place(&b, test, TEST, mean, factor)) return;
    if (!compare(&a, &b, &found)) return;
    if (2 * found.some < b.n && 5 * found.clear < b.n) return;
    const double count = (double)found.some;
    int copied;
    const int line = dlsh_line_of_shared(e, train, test, &copied);
    dlsh_found(e, test->file, line, "split first, each original in one part alone; then make copies of it",
               "%ld of %ld samples of %s have near copies in the training data, %s\n"
               "the nearest samples of training are %.2g away on average, all others at least %.2g: an evaluation on "
               "them measures what was learned by heart%s",
               found.some, b.n, test->name, train->name, found.near / count, found.next / count,
               copied ? "; rows are copied at this line, before the split" : "");
}
