/* Mirrors along a dimension, tried on samples: those whose class lies nearest as they are, and another one when they
 * are turned. */
#include "debug/doctor/data/turned.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

enum { CLASSES = 20, SAMPLES = 400, ELEMENTS = 1 << 12, FEWEST = 40, DEEPEST = 8 };
/* So much farther is their own class, by squares of distances. */
static const double MARGIN = 1.15;

/* ---------------------------------------------------------------- the trial */

typedef struct turn {
    const double *x, *y; /* [n, size], [n] classes; borrowed */
    long n, size;
    int classes;
    const long *place; /* [size] which element of a sample stands at a place when it is turned */
} turn;

/* What samples are compared with: means of classes, or samples one by one, where a class has many looks. */
typedef struct patterns {
    const double *x; /* [n, size] */
    double y[SAMPLES];
    long n;
} patterns;

/* Is the sample one of the half that others are compared with? By chance: classes may come in turns. */
static int is_pattern(long i) { return ((uint32_t)i * 2654435761u) >> 31; }

/* Half of the samples make the mean of each class. */
static double *means_of(const turn *t, patterns *p) {
    double *mean = calloc((size_t)(CLASSES * t->size), sizeof *mean);
    long count[CLASSES] = {0};
    for (long i = 0; mean && i < t->n; i++) {
        const int c = (int)t->y[i];
        if (!is_pattern(i)) continue;
        count[c]++;
        for (long k = 0; k < t->size; k++) mean[c * t->size + k] += t->x[i * t->size + k];
    }
    for (int c = 0; mean && c < t->classes; c++) {
        for (long k = 0; k < t->size; k++) mean[c * t->size + k] /= fmax((double)count[c], 1);
        p->y[c] = c;
    }
    p->x = mean, p->n = t->classes;
    return mean;
}

/* The same half, each for itself. */
static double *samples_of(const turn *t, patterns *p) {
    double *x = malloc((size_t)t->n * (size_t)t->size * sizeof *x);
    p->x = x, p->n = 0;
    for (long i = 0; x && i < t->n; i++) {
        if (!is_pattern(i)) continue;
        memcpy(x + p->n * t->size, t->x + i * t->size, (size_t)t->size * sizeof *x);
        p->y[p->n++] = t->y[i];
    }
    return x;
}

/* The class of the nearest pattern. *distance: to it; *own: to the nearest one of its own class. */
static int nearest(const turn *t, const patterns *p, long i, int turned, double *distance, double *own) {
    int best = 0;
    *distance = *own = INFINITY;
    for (long c = 0; c < p->n; c++) {
        double sum = 0;
        for (long k = 0; k < t->size; k++) {
            const double d = t->x[i * t->size + (turned ? t->place[k] : k)] - p->x[c * t->size + k];
            sum += d * d;
        }
        if (sum < *distance) *distance = sum, best = (int)p->y[c];
        if (p->y[c] == t->y[i]) *own = fmin(*own, sum);
    }
    return best;
}

/* The other half: of the class that has most of them, the share of those that lie with their class which lie with one
 * other class when they are turned, and clearly nearer to it. */
static double share_by(const turn *t, const patterns *p, int *from, int *to) {
    long seen[CLASSES] = {0}, moved[CLASSES][CLASSES] = {{0}}, all = 0;
    double share = 0;
    for (long i = 0; i < t->n; i++) {
        double before, after, own;
        const int class = (int)t->y[i];
        if (is_pattern(i) || nearest(t, p, i, 0, &before, &own) != class) continue;
        const int c = nearest(t, p, i, 1, &after, &own);
        all++, seen[class]++;
        if (c != class && after <= 1.5 * before && own >= MARGIN * after) moved[class][c]++;
    }
    for (int c = 0; c < t->classes; c++)
        for (int d = 0; d < t->classes; d++) {
            const double of_class = (double)moved[c][d] / fmax((double)seen[c], 1);
            if (moved[c][d] > 7 && of_class > share) share = of_class, *from = c, *to = d;
        }
    return all > t->n / 3 ? share : 0; /* of n / 2 */
}

/* 0 where classes cannot be told apart so. */
static double share_turned(const turn *t, int *from, int *to) {
    patterns p;
    if (t->classes < 2 || t->classes > CLASSES || t->n > SAMPLES) return 0;
    for (long i = 0; i < t->n; i++)
        if (!(t->y[i] >= 0 && t->y[i] < t->classes)) return 0;
    DLSH_FREED double *mean = means_of(t, &p);
    const double by_means = mean ? share_by(t, &p, from, to) : 0;
    if (by_means > 0.9) return by_means;
    DLSH_FREED double *each = samples_of(t, &p);
    int a = 0, b = 0;
    const double by_samples = each ? share_by(t, &p, &a, &b) : 0;
    if (by_samples > by_means) *from = a, *to = b;
    return fmax(by_means, by_samples);
}

/* ---------------------------------------------------------------- tables of variables */

/* Are these two dimensions, as long as each other? */
static int is_square(const dl_tensor *x, unsigned dims) {
    if (__builtin_popcount(dims) != 2) return 0;
    return dl_shape(x)[__builtin_ctz(dims)] == dl_shape(x)[31 - __builtin_clz(dims)];
}

/* Which element of a sample stands at each place when dimensions are mirrored, or two of them are exchanged. */
static void places_of(const dl_tensor *x, unsigned dims, int swapped, long size, long *place) {
    long inner = 1, at[DEEPEST] = {0};
    for (int d = dl_ndim(x) - 1; d > 0; inner *= dl_shape(x)[d--]) at[d] = inner;
    for (long k = 0; k < size; k++) {
        place[k] = k;
        for (int d = 1; d < dl_ndim(x) && !swapped; d++)
            if (dims >> d & 1) place[k] += (dl_shape(x)[d] - 1 - 2 * (k / at[d] % dl_shape(x)[d])) * at[d];
        if (!swapped) continue;
        const int a = __builtin_ctz(dims), b = 31 - __builtin_clz(dims);
        const long i = k / at[a] % dl_shape(x)[a], j = k / at[b] % dl_shape(x)[b];
        place[k] += (j - i) * at[a] + (i - j) * at[b];
    }
}

double dlsh_try_turned(dl_tensor *x, dl_tensor *y, unsigned dims, int swapped, int *from, int *to) {
    const long rows = dl_shape(x)[0];
    turn t = {.n = rows < SAMPLES ? rows : SAMPLES, .size = rows ? dl_numel(x) / rows : 0};
    if (t.n < FEWEST || !t.size || t.size > ELEMENTS || !(dims >> 1) || dims >> dl_ndim(x) || dl_numel(y) != rows)
        return 0;
    if (swapped && !is_square(x, dims)) return 0;
    DLSH_FREED double *v = malloc((size_t)dl_numel(x) * sizeof *v), *label = malloc((size_t)rows * sizeof *label);
    DLSH_FREED long *place = malloc((size_t)t.size * sizeof *place);
    if (!v || !label || !place || dl_read_f64(x, v) || dl_read_f64(y, label)) return dl_error_clear(), 0;
    long most = 0;
    places_of(x, dims, swapped, t.size, place);
    for (long i = 0; i < t.n; i++) most = label[i] > (double)most ? (long)label[i] : most;
    t.x = v, t.y = label, t.place = place, t.classes = most < CLASSES ? (int)most + 1 : 0;
    return share_turned(&t, from, to);
}

static int is_table(const dlsh_value *v) {
    dl_tensor *t = v->type == DLSH_TENSOR ? v->as.tensor : NULL;
    return t && dl_ndim(t) > 1 && dl_dtype_is_float(dl_dtype_of(t)) && !dl_requires_grad(t) && dl_numel(t) <= 1 << 22;
}

static int is_labels(const dlsh_value *v, const dl_tensor *x) {
    dl_tensor *t = v->type == DLSH_TENSOR ? v->as.tensor : NULL;
    return t && dl_ndim(t) == 1 && dl_dtype_of(t) == DL_I64 && dl_shape(t)[0] == dl_shape(x)[0];
}

enum { VALUES = 64 };

/* Tensors of variables, and of records in them; how many. */
static int values_of(const dlsh_examination *e, const dlsh_value *out[VALUES]) {
    int n = 0;
    DLSH_EACH_HOLDER (h, &e->holders) {
        if (h->value.type == DLSH_TENSOR && n < VALUES) out[n++] = &h->value;
        for (int k = 0; h->value.type == DLSH_RECORD && k < h->value.as.record->n; k++)
            if (h->value.as.record->values[k].type == DLSH_TENSOR && n < VALUES)
                out[n++] = &h->value.as.record->values[k];
    }
    return n;
}

/* ---------------------------------------------------------------- mirrors in the text */

/* x.flip(1), flip(x, [1, 2]), x.transpose(2, 3): the dimensions, a bit each; 0: it is no such call, or of samples. */
static unsigned mirrored(const dlsh_examination *e, const char *file, const dlsh_node *n, int *swapped) {
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    *swapped = dlsh_is_call_of(n, "transpose|swapaxes");
    if (!by || (!*swapped && !dlsh_is_call_of(n, "flip"))) return 0;
    unsigned dims = 0;
    for (int i = by->kind == DLSH_N_FIELD ? 1 : 2; i < n->nkids; i++) {
        const dlsh_node *dim = n->kids[i]->kind == DLSH_N_KWARG ? n->kids[i]->kids[0] : n->kids[i];
        const int list = dim->kind == DLSH_N_LIST;
        for (int k = 0; k < (list ? dim->nkids : 1); k++) {
            const double d = dlsh_number_of(e, file, list ? dim->kids[k] : dim);
            if (!(d >= 1 && d < 8)) return 0;
            dims |= 1u << (int)d;
        }
    }
    return dims;
}

int dlsh_draws(const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n) {
        const char *by = t.n->kind == DLSH_N_CALL ? t.n->kids[0]->text : NULL;
        if (by && (!strncmp(by, "rand", 4) || !strncmp(by, "bernoulli", 9))) return 1;
    }
    return 0;
}

/* Is it done at random in the course of the training, by something that gives no labels with it? */
static int is_augmentation(const dlsh_examination *e, const char *file, const dlsh_node *n,
                           const dlsh_node *const *within, int depth) {
    const dlsh_node *fn = NULL, *around = NULL;
    int training = 0;
    for (int i = 0; i < depth; i++) {
        if (within[i]->kind == DLSH_N_FN) fn = within[i];
        if (within[i]->kind == DLSH_N_FOR || within[i]->kind == DLSH_N_FN || within[i]->kind == DLSH_N_WHILE)
            around = within[i];
    }
    const dlsh_node *back = fn ? dlsh_last_return(fn) : NULL;
    if (!around || !dlsh_draws(around) || (back && back->nkids && back->kids[0]->kind == DLSH_N_TUPLE)) return 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        training |= !strcmp(r->file, file) && !dlsh_is_before_loop(file, n->span.line, r->line);
    return training;
}

int dlsh_is_by_chance(const dlsh_node *const *within, int depth) {
    for (int i = 0; i < depth; i++) {
        const int asks = within[i]->kind == DLSH_N_IF || within[i]->kind == DLSH_N_COND;
        if (asks && dlsh_draws(within[i]->kids[0])) return 1;
        if (dlsh_is_call_of(within[i], "where") && within[i]->nkids > 1 && dlsh_draws(within[i]->kids[1])) return 1;
    }
    return 0;
}

/* The change that turns most samples of a class into another one. */
typedef struct strongest {
    dlsh_examination *e;
    double share;
    int from, to, swapped;
    unsigned dims;
    dl_source at;
} strongest;

static int see_mirror(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    strongest *s = ctx;
    const dlsh_value *v[VALUES];
    int from = 0, to = 0, swapped;
    const unsigned dims = mirrored(s->e, file, n, &swapped);
    if (!dims || !is_augmentation(s->e, file, n, within, depth)) return 0;
    if (swapped && !dlsh_is_by_chance(within, depth)) return 0; /* a form that a layer wants */
    const int count = values_of(s->e, v);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count && is_table(v[i]); k++) {
            if (!is_labels(v[k], v[i]->as.tensor)) continue;
            const double share = dlsh_try_turned(v[i]->as.tensor, v[k]->as.tensor, dims, swapped, &from, &to);
            if (share > s->share) *s = (strongest){s->e, share, from, to, swapped, dims, {file, n->span.line}};
        }
    return 0;
}

/* Where almost nothing is left of the loss, no sample that was mirrored belonged to another class. */
void dlsh_find_turned(dlsh_examination *e) {
    strongest s = {.e = e, .share = 0.3};
    if (dlsh_learns_well(e, 0.8)) return;
    dlsh_each_within(see_mirror, &s);
    if (!s.dims) return;
    char dims[32] = "";
    for (int d = 0; d < 8; d++)
        if (s.dims >> d & 1) snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%d", *dims ? " and " : "", d);
    dlsh_found(e, s.at.file, s.at.line, "leave it out, or give the changed samples their other class",
               "%s dimension%s %s turns samples of one class into another class\n"
               "%.0f%% of the samples of class %d then look like those of class %d",
               s.swapped ? "exchanging" : "flip along", strlen(dims) > 1 ? "s" : "", dims, 100 * s.share, s.from, s.to);
}
