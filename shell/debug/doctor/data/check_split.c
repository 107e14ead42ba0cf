/* Two parts of the data beside each other: rows of one table that both have, columns in another order or of another
 * scale. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/samples.h"

/* ---------------------------------------------------------------- columns */

enum { COLUMNS = 32, ROWS = 30 };

typedef struct column {
    double mean, std;
} column;

static int columns_of(const dlsh_samples *s, column *out) {
    for (long c = 0; c < s->width; c++) {
        double sum = 0, squares = 0;
        for (long i = 0; i < s->n; i++) {
            const double v = s->x[i * s->width + c];
            if (!isfinite(v)) return 0;
            sum += v, squares += v * v;
        }
        const double mean = sum / (double)s->n;
        out[c] = (column){mean, sqrt(fmax(squares / (double)s->n - mean * mean, 0))};
    }
    return 1;
}

/* Are two columns about the same, with what chance makes of as many rows? */
static int is_like(column a, column b) {
    return a.std > 0 && b.std > 0 && fabs(a.mean - b.mean) < 0.5 * a.std && b.std < 1.5 * a.std && a.std < 1.5 * b.std;
}

static int is_other(column a, column b) {
    if (!(a.std > 0)) return 0;
    return b.std > 2.2 * a.std || b.std < a.std / 2.2 || fabs(a.mean - b.mean) > 1.5 * a.std;
}

static double apart(column a, column b) { return fabs(a.mean - b.mean) / a.std + fabs(log(b.std / a.std)); }

/* For each column of the test part the one of the training part that it is like; 0: they are no other order. */
static int is_reordered(const column *a, const column *b, long n, int *from) {
    unsigned long taken = 0;
    long moved = 0;
    for (long c = 0; c < n; c++) {
        int best = -1;
        for (int d = 0; d < n; d++)
            if (is_like(a[d], b[c]) && !(taken >> d & 1) && (best < 0 || apart(a[d], b[c]) < apart(a[best], b[c])))
                best = d;
        if (best < 0) return 0;
        taken |= 1ul << best;
        from[c] = best, moved += best != c;
    }
    return moved > 1;
}

void dlsh_compare_columns(dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test) {
    column a[COLUMNS], b[COLUMNS];
    int from[COLUMNS];
    const long n = train->width;
    long other = 0, at = -1;
    if (test->elsewhere || n != test->width || n < 2 || n > COLUMNS || !train->real || !test->real || train->picture)
        return;
    if (train->n < ROWS || test->n < ROWS || !columns_of(train, a) || !columns_of(test, b)) return;
    for (long c = 0; c < n; c++)
        if (is_other(a[c], b[c]) && !other++) at = c;
    if (other < 2) return; /* one alone may drift, as a time does */
    const int order = is_reordered(a, b, n, from);
    if (!order && 2 * other < n) return;
    const int raw = train->prepared_line && !test->prepared_line && test->made_line; /* one part alone was prepared */
    const int at_line = raw ? test->made_line : test->prepared_line ? test->prepared_line : test->line;
    dlsh_finding *f = dlsh_find_at(e, test->file, at_line,
                                   order ? "the order of columns that training has"
                                         : "prepare both parts alike, with figures of the training part");
    if (!f) return;
    if (order)
        dlsh_cause(f, "the columns of %s are in another order than those of training", test->name);
    else
        dlsh_cause(f, "the columns of %s are not scaled as those of training", test->name);
    if (order)
        dlsh_evidence(f,
                      "its column %ld, with mean %.3g and deviation %.3g, is like column %d of training; column %ld "
                      "there has %.3g and %.3g",
                      at, b[at].mean, b[at].std, from[at], at, a[at].mean, a[at].std);
    else
        dlsh_evidence(f,
                      "%ld of %ld columns differ: column %ld has mean %.3g and deviation %.3g, in training %.3g and "
                      "%.3g",
                      other, n, at, b[at].mean, b[at].std, a[at].mean, a[at].std);
}

/* ---------------------------------------------------------------- classes */

static int has_class(const dlsh_samples *s, double c) {
    for (long i = 0; i < s->n; i++)
        if (s->y[i] == c) return 1;
    return 0;
}

/* Classes of the test part that training has no sample of, as where a table in the order of its classes is cut. */
void dlsh_compare_classes(dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test) {
    double missing[4] = {0};
    long lost = 0;
    int n = 0;
    if (!train->y || !test->y || !train->classes || !test->classes || train->n < ROWS || test->n < 8) return;
    for (long i = 0; i < test->n; i++) {
        if (has_class(train, test->y[i])) continue;
        lost++;
        int known = 0;
        for (int k = 0; k < n; k++) known |= missing[k] == test->y[i];
        if (!known && n < 4) missing[n++] = test->y[i];
    }
    if (5 * lost < test->n) return;
    char which[100] = "";
    for (int k = 0; k < n; k++)
        snprintf(which + strlen(which), sizeof which - strlen(which), "%s%.4g", k ? ", " : "", missing[k]);
    dlsh_finding *f = dlsh_find_at(e, test->file, test->line,
                                   "put the samples in random order before they are cut: p = randperm(n); x[p], y[p]");
    if (!f) return;
    dlsh_cause(f, "%ld of %ld samples of %s are of classes that training has no sample of: %s", lost, test->n,
               test->name, which);
    dlsh_evidence(f,
                  "of %ld samples of %s that were looked at none has such a label: the table was cut in the order of "
                  "its classes",
                  train->n, train->name);
    if (lost == test->n) dlsh_only_note(e, f); /* as where new classes are to be told apart by what is like them */
}

/* ---------------------------------------------------------------- rows of one table */

/* Rows that a pick takes: an index or a mask in a variable, or a slice of numbers. */
typedef struct rows {
    unsigned char *has; /* [n]; owned */
    long n, count;
    char name[64]; /* of the variable; "" a slice */
} rows;

static void rows_free(rows *r) { free(r->has); }

static int take_tensor(rows *r, const dl_tensor *t) {
    DLSH_FREED double *v = malloc(((size_t)dl_numel(t) + 1) * sizeof *v);
    if (!v || dl_ndim(t) != 1 || dl_read_f64(t, v)) return dl_error_clear(), 0;
    const int mask = dl_dtype_of(t) == DL_BOOL;
    if (mask && dl_numel(t) != r->n) return 0;
    for (long i = 0; i < dl_numel(t); i++) {
        const long row = mask ? i : v[i] < 0 ? (long)v[i] + r->n : (long)v[i];
        if (row < 0 || row >= r->n) return 0;
        if (!mask || v[i] != 0) r->has[row] = 1;
    }
    return 1;
}

/* The number that a part of a slice stands for. */
static int bound(const dlsh_examination *e, const char *file, int place, const char *text, size_t len, long otherwise,
                 long *out) {
    char word[64], *end;
    snprintf(word, sizeof word, "%.*s", (int)len, text);
    *out = otherwise;
    if (!len) return 1;
    *out = strtol(word, &end, 10);
    if (!*end) return 1;
    const dlsh_value *v = dlsh_value_at(e, file, place, word);
    if (!v || !dlsh_is_number(*v)) return 0;
    *out = (long)dlsh_number(*v);
    return 1;
}

static int take_slice(const dlsh_examination *e, const char *file, const dlsh_traced *x, rows *r, size_t len) {
    const char *text = x->picks;
    const int place = x->pick_place;
    const char *colon = memchr(text, ':', len);
    long from, to;
    if (!colon || memchr(colon + 1, ':', len - (size_t)(colon + 1 - text))) return 0;
    if (!bound(e, file, place, text, (size_t)(colon - text), 0, &from)) return 0;
    if (!bound(e, file, place, colon + 1, len - (size_t)(colon + 1 - text), r->n, &to)) return 0;
    if (from < 0) from += r->n;
    if (to < 0) to += r->n;
    for (long i = from; i >= 0 && i < to && i < r->n; i++) r->has[i] = 1;
    return 1;
}

/* Of a table that is picked from once. */
static int rows_of(const dlsh_examination *e, const char *file, const dlsh_traced *x, rows *r) {
    const size_t len = strcspn(x->picks, "#");
    const char *more = strchr(x->picks, ';');
    if (!x->whole || !dl_ndim(x->whole) || !len || !more || more[1]) return 0;
    r->n = dl_shape(x->whole)[0];
    r->has = calloc((size_t)r->n + 1, 1);
    snprintf(r->name, sizeof r->name, "%.*s", (int)len, x->picks);
    const dlsh_value *v = r->has ? dlsh_value_at(e, file, x->pick_place, r->name) : NULL;
    const int good = !r->has                       ? 0
                     : v && v->type == DLSH_TENSOR ? take_tensor(r, v->as.tensor)
                     : memchr(x->picks, ':', len)  ? take_slice(e, file, x, r, len)
                                                   : 0;
    if (!v) *r->name = 0;
    for (long i = 0; good && i < r->n; i++) r->count += r->has[i];
    return good && r->count > 1;
}

static int line_of_rows(const rows *r, const char *file, const dlsh_traced *x) {
    int at;
    const dlsh_node *made = *r->name ? dlsh_definition_of(file, r->name, x->pick_place, &at) : NULL;
    return made ? made->span.line : x->pick_line;
}

static void compare_rows(dlsh_examination *e, const char *file, const dlsh_traced *train, const dlsh_traced *test) {
    DLSH_SCOPED(rows_free) rows a = {0}, b = {0};
    long both = 0;
    if (train->whole != test->whole || !strcmp(train->picks, test->picks)) return;
    if (!rows_of(e, file, train, &a) || !rows_of(e, file, test, &b)) return;
    for (long i = 0; i < a.n; i++) both += a.has[i] && b.has[i];
    if (both < 2 || 50 * both < b.count || both == b.count || both == a.count) return; /* a part of it is meant */
    dlsh_finding *f =
        dlsh_find_at(e, file, line_of_rows(&b, file, test),
                     "take the test rows from those that training leaves: p = randperm(n); p[:800], p[800:]");
    if (!f) return;
    dlsh_cause(f, "%ld of %ld rows of %s that are evaluated are in the training data, too", both, b.count, test->base);
    dlsh_evidence(f, "training takes %ld of %ld rows, line %d; the evaluation measures what was learned by heart",
                  a.count, a.n, train->pick_line);
}

/* Picks of a training statement beside those of statements that were run without a backward pass. */
void dlsh_compare_rows(dlsh_examination *e, const char *file, const dlsh_traced *all, int n) {
    const dl_journal_row *r;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_FORWARD, &i));) {
        dlsh_traced some[DLSH_TRACED];
        if (strcmp(r->file, file) != 0 || dlsh_is_trained(e, r)) continue;
        const int m = dlsh_trace(e, file, r->line, some);
        for (int k = 0; k < m; k++)
            for (int j = 0; j < n; j++)
                if (some[k].role == DLSH_ROLE_INPUT && all[j].role == DLSH_ROLE_INPUT)
                    compare_rows(e, file, &all[j], &some[k]);
    }
}
