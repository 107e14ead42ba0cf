/* Two parts of the data beside each other: rows of one table that both have, columns in another order or of another
 * scale. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

/* ---------------------------------------------------------------- columns */

enum { COLUMNS = 32, ROWS = 30 };

static int columns_of(const dlsh_samples *s, dlsh_spread *out) {
    for (long c = 0; c < s->width; c++)
        if ((out[c] = dlsh_spread_of(s, c)).n < s->n) return 0;
    return 1;
}

/* Are two columns about the same, with what chance makes of as many rows? */
static int is_like(dlsh_spread a, dlsh_spread b) {
    return a.std > 0 && b.std > 0 && fabs(a.mean - b.mean) < 0.5 * a.std && b.std < 1.5 * a.std && a.std < 1.5 * b.std;
}

static int is_other(dlsh_spread a, dlsh_spread b) {
    if (!(a.std > 0)) return 0;
    return b.std > 2.2 * a.std || b.std < a.std / 2.2 || fabs(a.mean - b.mean) > 1.5 * a.std;
}

static double apart(dlsh_spread a, dlsh_spread b) { return fabs(a.mean - b.mean) / a.std + fabs(log(b.std / a.std)); }

/* For each column of the test part the one of the training part that it is like; 0: they are no other order. */
static int is_reordered(const dlsh_spread *a, const dlsh_spread *b, long n, int *from) {
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

/* ---------------------------------------------------------------- figures that scale */

/* Does it keep columns? x[a:b], x.float(), ... */
static int keeps_columns(const dlsh_node *n) {
    static const char keeping[] = "float|to|clone|detach|double|contiguous|clamp|clamp_min|view|reshape";
    return n->kind == DLSH_N_INDEX || (n->kids && n->kids[0]->kind == DLSH_N_FIELD && dlsh_is_call_of(n, keeping));
}

static int is_over_samples(const dlsh_node *dim) {
    int has = !dim || (dim->kind == DLSH_N_INT && dim->num.i == 0);
    for (int i = 0; dim && dim->kind == DLSH_N_LIST && i < dim->nkids; i++) has |= is_over_samples(dim->kids[i]);
    return has;
}

/* The variable outside of all functions that stands for it, or that is scaled by it; into *ctx. */
static dlsh_property is_outermost(void *ctx, const dlsh_step *at) {
    const dlsh_node **found = ctx, *n = at->n;
    if (n->kind == DLSH_N_NAME && !at->call) return *found = n, DLSH_HAS_FIRST;
    if (n->kind == DLSH_N_NAME || keeps_columns(n)) return DLSH_MAY_HAVE;
    if (n->kind == DLSH_N_BINARY) dlsh_origin_at(at, n->kids[0], is_outermost, ctx);
    return *found ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
}

static const dlsh_node *outermost(const dlsh_step *at, const dlsh_node *n) {
    const dlsh_node *found = NULL;
    if (n) dlsh_origin_at(at, n, is_outermost, &found);
    return found;
}

/* What figures over all samples are taken of, as in x.std(dim=0) + 1e-8. */
typedef struct figures {
    int any;
    const dlsh_node *of; /* the variable; NULL: it is made in a function */
} figures;

static dlsh_property are_figures(void *ctx, const dlsh_step *at) {
    figures *f = ctx;
    if (!dlsh_is_call_of(at->n, "mean|std|var|min|max|amin|amax|median")) return DLSH_MAY_HAVE;
    const int method = at->n->kids[0]->kind == DLSH_N_FIELD;
    const dlsh_node *of = method ? at->n->kids[0]->kids[0] : at->n->nkids > 1 ? at->n->kids[1] : NULL;
    if (!is_over_samples(dlsh_argument_of(at->n, method ? 0 : 1, "dim"))) return DLSH_HAS_NOT;
    while (of && keeps_columns(of)) of = of->kind == DLSH_N_INDEX ? of->kids[0] : of->kids[0]->kids[0];
    if (!of || of->kind != DLSH_N_NAME) return DLSH_MAY_HAVE;
    *f = (figures){1, outermost(at, of)};
    return DLSH_HAS_FIRST;
}

/* How an expression is scaled, in its variables or a function that it calls: (x - m) / s. */
typedef struct scaling {
    const dlsh_node *by, *with; /* the variable that the figures are of, and what stands for these; NULL: by none */
    int own, line;              /* it is scaled itself; where */
} scaling;

static dlsh_property scales(void *ctx, const dlsh_step *at) {
    scaling *s = ctx;
    const dlsh_node *n = at->n, *outer = dlsh_outer_call(at);
    figures f = {0};
    if (n->kind == DLSH_N_NAME || n->kind == DLSH_N_TUPLE || keeps_columns(n)) return DLSH_MAY_HAVE;
    if (n->kind != DLSH_N_BINARY || (n->op != DLSH_OP_DIV && n->op != DLSH_OP_SUB && n->op != DLSH_OP_MUL))
        return dlsh_function_called(at->file, n) ? DLSH_MAY_HAVE : DLSH_HAS_NOT;
    dlsh_origin_at(at, n->kids[1], are_figures, &f);
    if (!f.any) return dlsh_origin_at(at, n->kids[0], scales, ctx) ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
    const dlsh_node *self = outermost(at, n->kids[0]);
    *s = (scaling){f.of, n->kids[1],
                   f.of && (dlsh_names(self, f.of->text) || (!outer && dlsh_mentions(n->kids[0], f.of->text))),
                   (outer ? outer : n)->span.line};
    return DLSH_HAS_FIRST;
}

static scaling scaling_of(const char *file, const dlsh_node *n) {
    scaling s = {0};
    if (n) dlsh_origin(file, n, scales, &s);
    return s;
}

/* Of two parts that are scaled by what has one name: where that has got figures of another table in between. */
static const char *other_figures(dlsh_examination *e, const char *file, const dlsh_node *train, const dlsh_node *test) {
    const scaling a = scaling_of(file, train), b = scaling_of(file, test);
    const dlsh_node *made = b.by && b.with ? dlsh_defined(file, b.with) : NULL;
    if (!made || !a.by || !a.with || !dlsh_names(a.with, b.with->text) || dlsh_defined(file, a.with) == made) return "";
    return dlsh_kept(e, ": %s has figures of %s there, since line %d; training was scaled by those of %s", b.with->text,
                     b.by->text, made->span.line, a.by->text);
}

/* Are what two lines assign scaled by the same figures of the same table? */
int dlsh_is_scaled_alike(const char *file, int line, int other) {
    const dlsh_node *n = dlsh_statement_at(file, line), *m = dlsh_statement_at(file, other);
    if (!n || !m || n->kind != DLSH_N_ASSIGN || m->kind != DLSH_N_ASSIGN) return 0;
    const scaling a = scaling_of(file, n->kids[n->nkids - 1]), b = scaling_of(file, m->kids[m->nkids - 1]);
    return a.by && b.by && !strcmp(a.by->text, b.by->text) && dlsh_made(file, a.by) == dlsh_made(file, b.by);
}

/* What scales the one and not the other: x - mean, x / 255 */
static dlsh_property scales_alone(void *other, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    const int scales =
        n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_SUB || n->op == DLSH_OP_DIV || n->op == DLSH_OP_MUL);
    return scales && !dlsh_is_on(other, at) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

void dlsh_scaled_alone(const char *file, const dlsh_node *train, const dlsh_node *test, const dlsh_node **of_train,
                       const dlsh_node **of_test) {
    static dlsh_course other;
    *of_train = *of_test = NULL;
    if (!train || !test || train == test) return;
    dlsh_course_of(file, test, &other);
    *of_train = dlsh_origin(file, train, scales_alone, &other);
    dlsh_course_of(file, train, &other);
    *of_test = dlsh_origin(file, test, scales_alone, &other);
}

/* ---------------------------------------------------------------- columns of two parts */

void dlsh_compare_columns(dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test) {
    dlsh_spread a[COLUMNS], b[COLUMNS];
    int from[COLUMNS];
    const long n = train->width;
    long other = 0, at = -1;
    if (test->elsewhere || train->apart || n != test->width || n < 2 || n > COLUMNS || !train->real || !test->real ||
        train->picture)
        return;
    if (train->n < ROWS || test->n < ROWS || !columns_of(train, a) || !columns_of(test, b)) return;
    for (long c = 0; c < n; c++)
        if (is_other(a[c], b[c]) && !other++) at = c;
    if (other < 2) return; /* one alone may drift, as a time does */
    const int order = is_reordered(a, b, n, from);
    if (!order && (2 * other < n || dlsh_is_scaled_alike(test->file, train->line,
                                                         test->prepared_line ? test->prepared_line : test->line)))
        return;                                                                      /* the parts themselves differ */
    const int raw = train->prepared_line && !test->prepared_line && test->made_line; /* one part alone was prepared */
    const dlsh_node *given = order ? NULL : dlsh_part_of_data(e, test, DLSH_ROLE_ANY), *of_train = NULL,
                    *of_test = NULL;
    dlsh_scaled_alone(test->file, given ? dlsh_part_of_data(e, train, DLSH_ROLE_INPUT) : NULL, given, &of_train,
                      &of_test);
    const dlsh_node *slice = dlsh_defined(test->file, given); /* test_x = x[800:], which the training part has not */
    if (!slice || slice->kind != DLSH_N_INDEX) slice = given;
    const int at_line = of_train && !of_test  ? slice->span.line
                        : raw                 ? test->made_line
                        : test->prepared_line ? test->prepared_line
                                              : test->line;
    dlsh_finding *f = dlsh_find_at(e, test->file, at_line,
                                   order ? "the order of columns that training has"
                                         : "prepare both parts alike, with figures of the training part");
    if (!f) return;
    f->effect = dlsh_was_found(e, e->check, "written in place");
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
                      "%.3g%s",
                      other, n, at, b[at].mean, b[at].std, a[at].mean, a[at].std,
                      of_train && !of_test
                          ? dlsh_kept(e, ": line %d scales those alone", of_train->span.line)
                          : other_figures(e, test->file, dlsh_part_of_data(e, train, DLSH_ROLE_INPUT), given));
}

/* ---------------------------------------------------------------- figures of the wrong part */

/* Do the columns of two variables differ by more than chance? 1 where they are not known, or were scaled since. */
static int differ(const dlsh_examination *e, const char *file, const dlsh_node *a, const dlsh_node *b) {
    dlsh_spread of[2][COLUMNS];
    long width[2] = {0};
    const dlsh_node *const name[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const dlsh_value *v = dlsh_value_of(e, file, name[i]);
        const dl_tensor *t = v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) ? v->as.tensor : NULL;
        dlsh_samples s = {.n = t ? dl_shape(t)[0] : 0};
        if (s.n) s.width = width[i] = dl_numel(t) / s.n;
        DLSH_FREED double *x = s.n && s.width <= COLUMNS ? malloc((size_t)dl_numel(t) * sizeof *x) : NULL;
        if (!x || dl_read_f64(t, x)) return dl_error_clear(), 1;
        s.x = x;
        if (!columns_of(&s, of[i])) return 1;
    }
    int other = width[0] != width[1], scaled = 1;
    for (long c = 0; c < width[0] && !other; c++) {
        const dlsh_spread p = of[0][c], q = of[1][c];
        other |= fabs(p.mean - q.mean) > 0.3 * p.std || p.std > 1.3 * q.std || q.std > 1.3 * p.std;
        scaled &= fabs(p.mean) < 1e-3 && fabs(q.mean) < 1e-3;
    }
    return other || scaled;
}

/* Has each column of a table the mean 0 and the deviation 1 to the digit, as after taking its own figures? Those of
 * another table leave a rest. */
static int has_own_figures(const dl_tensor *t) {
    dlsh_spread of[COLUMNS];
    dlsh_samples s = {.n = t && dl_ndim(t) ? dl_shape(t)[0] : 0};
    if (s.n < ROWS || !dl_dtype_is_float(dl_dtype_of(t))) return 0;
    s.width = dl_numel(t) / s.n;
    DLSH_FREED double *x = s.width <= COLUMNS ? malloc((size_t)dl_numel(t) * sizeof *x) : NULL;
    if (!x || dl_read_f64(t, x)) return dl_error_clear(), 0;
    s.x = x;
    if (!columns_of(&s, of)) return 0;
    const double share = 1 / (double)s.n; /* the deviation may be that of n - 1 */
    for (long c = 0; c < s.width; c++)
        if (fabs(of[c].mean) > 1e-5 || fabs(of[c].std - 1) > share) return 0;
    return s.width > 0;
}

int dlsh_compare_figures(dlsh_examination *e, const char *file, const dlsh_share *train, const dlsh_share *test) {
    const scaling train_by = scaling_of(file, train->made), test_by = scaling_of(file, test->made);
    const dlsh_node *a = train_by.by, *b = test_by.by;
    if (!a || !b || !train_by.own || !test_by.own) return 0;
    const int same = !strcmp(a->text, b->text); /* parts of one table, or a table that was scaled as a whole */
    if (same && !(train->tensor != test->tensor && has_own_figures(train->tensor) && has_own_figures(test->tensor)))
        return 0;
    const char *of_train = same ? train->name : a->text, *of_test = same ? test->name : b->text;
    dlsh_finding *f = dlsh_found(
        e, file, test_by.line, "the figures of the training samples for both: (x_test - mean) / std",
        "%s is scaled by figures of its own, not by those of the training samples: the same input means another number "
        "there\n"
        "training scales %s by its own figures, line %d; what the net is evaluated with is scaled anew, by those of %s",
        of_test, of_train, train_by.line, of_test);
    if (!f) return 1;
    if (!same && !differ(e, file, a, b)) dlsh_only_note(e, f);
    return 1;
}

/* ---------------------------------------------------------------- classes */

static int has_class(const dlsh_samples *s, double c) {
    for (long i = 0; i < s->n; i++)
        if (s->y[i] == c) return 1;
    return 0;
}

/* x[:800], or so many rows from the end of a table: dataset(x, y, test=200). */
static dlsh_property is_cut(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n, *rows = n->kind == DLSH_N_INDEX && n->nkids > 1 ? n->kids[1] : NULL;
    const int slice = rows && rows->kind == DLSH_N_SLICE && (rows->kids[0] || rows->kids[1]);
    if (slice || (dlsh_is_call_of(n, "dataset") && dlsh_argument_of(n, INT_MAX - 1, "test"))) return DLSH_HAS_FIRST;
    return rows && !slice && rows->kind != DLSH_N_SLICE ? DLSH_HAS_NOT : DLSH_MAY_HAVE; /* or picked */
}

/* Has the net scores for a class, so that it is to be told, and is the test part cut out of a table as it stands? */
static int is_cut_in_order(const dlsh_examination *e, const dlsh_samples *test, double class) {
    const dlsh_node *n = dlsh_statement_at(test->file, test->line), *part = dlsh_part_of_data(e, test, DLSH_ROLE_ANY);
    dlsh_node_walk w = {0};
    const dl_journal_node *loss;
    int scored = 0;
    while ((loss = dlsh_node_next(e, "cross_entropy|nll_loss", &w)))
        scored |= loss->in[0].ndim > 1 && (double)loss->in[0].shape[1] > class;
    if (!scored || !n) return 0;
    return dlsh_origin(test->file, n->kind == DLSH_N_ASSIGN ? n->kids[n->nkids - 1] : n, is_cut, NULL) ||
           (part && dlsh_origin(test->file, part, is_cut, NULL));
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
    dlsh_finding *f = dlsh_found(
        e, test->file, test->line, "put the samples in random order before they are cut: p = randperm(n); x[p], y[p]",
        "%ld of %ld samples of %s are of classes that training has no sample of: %s\n"
        "of %ld samples of %s that were looked at none has such a label: the table was cut in the order of its classes",
        lost, test->n, test->name, which, train->n, train->name);
    if (lost == test->n && !is_cut_in_order(e, test, missing[0]))
        dlsh_only_note(e, f); /* as where new classes are to be told apart by what is like them */
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
    const dlsh_node *root = dlsh_text_root(file);
    if (root && dlsh_define(root, r->name, x->pick_place).each) return 0; /* it has the rows of the last batch alone */
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
    const dlsh_node *made = *r->name ? dlsh_definition_of(file, r->name, x->pick_place, NULL) : NULL;
    return made ? made->span.line : x->pick_line;
}

static void compare_rows(dlsh_examination *e, const char *file, const dlsh_traced *train, const dlsh_traced *test) {
    DLSH_SCOPED(rows_free) rows a = {0}, b = {0};
    long both = 0;
    if (train->whole != test->whole || !strcmp(train->picks, test->picks)) return;
    if (!rows_of(e, file, train, &a) || !rows_of(e, file, test, &b)) return;
    for (long i = 0; i < a.n; i++) both += a.has[i] && b.has[i];
    if (both < 2 || 50 * both < b.count || both == b.count || both == a.count) return; /* a part of it is meant */
    dlsh_found(e, file, line_of_rows(&b, file, test),
               "take the test rows from those that training leaves: p = randperm(n); p[:800], p[800:]",
               "%ld of %ld rows of %s that are evaluated are in the training data, too\n"
               "training takes %ld of %ld rows, line %d; the evaluation measures what was learned by heart",
               both, b.count, test->base, a.count, a.n, train->pick_line);
}

/* Has a variable of row numbers some of them several times, as those that are drawn with replacement? */
static int draws_again(const dlsh_examination *e, const char *file, const dlsh_traced *x, const char *name) {
    const dlsh_value *v = dlsh_value_at(e, file, x->pick_place, name);
    const dl_tensor *t = v && v->type == DLSH_TENSOR ? v->as.tensor : NULL;
    const long n = t && dl_ndim(t) == 1 && dl_dtype_of(t) == DL_I64 ? dl_numel(t) : 0;
    DLSH_FREED double *row = n > 1 && n < 1 << 20 ? malloc((size_t)n * sizeof *row) : NULL;
    DLSH_FREED char *has = x->whole ? calloc((size_t)dl_shape(x->whole)[0] + 1, 1) : NULL;
    long again = 0;
    if (!row || !has || dl_read_f64(t, row)) return dl_error_clear(), 0;
    for (long i = 0; i < n && row[i] >= 0 && row[i] < (double)dl_shape(x->whole)[0]; i++)
        again += has[(long)row[i]], has[(long)row[i]] = 1;
    return 10 * again > n;
}

/* Rows that were drawn with replacement before both parts were cut out of them. */
static void compare_drawn(dlsh_examination *e, const char *file, const dlsh_traced *train, const dlsh_traced *test) {
    const char *a = strchr(train->picks, ';'), *b = strchr(test->picks, ';');
    char name[64];
    if (train->whole != test->whole || !train->whole || !a || !b || !a[1] || strcmp(a, b) != 0) return;
    if (!strcmp(train->picks, test->picks)) return;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(a + 1, "#;"), a + 1);
    if (!draws_again(e, file, train, name)) return;
    const dlsh_node *made = dlsh_definition_of(file, name, train->pick_place, NULL);
    dlsh_found(e, file, made ? made->span.line : train->pick_line,
               "split first, each sample in one part alone; then draw rows of the training part",
               "rows of %s are drawn with replacement before the split: both parts have the same samples\n"
               "%s has numbers of rows several times; %s and %s are cut out of what it takes",
               train->base, name, train->name, test->name);
}

/* Picks of a training statement beside those of statements that were run without a backward pass. */
void dlsh_compare_rows(dlsh_examination *e, const char *file, const dlsh_traced *all, int n) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        dlsh_traced some[DLSH_TRACED];
        if (strcmp(r->file, file) != 0 || dlsh_is_trained(e, r) || !dlsh_training_began(e, r)) continue;
        const int m = dlsh_trace(e, file, r->line, some);
        for (int k = 0; k < m; k++)
            for (int j = 0; j < n; j++)
                if (some[k].role == DLSH_ROLE_INPUT && all[j].role == DLSH_ROLE_INPUT)
                    compare_rows(e, file, &all[j], &some[k]), compare_drawn(e, file, &all[j], &some[k]);
    }
    DLSH_EACH_NODE (t) { /* a function that a training statement runs, called with other samples */
        dlsh_traced some[DLSH_TRACED];
        const dlsh_node *fn = dlsh_function_called(t.file, t.n);
        int trains = 0;
        DLSH_EACH_ROW_WHILE (fn &&t.n->nkids > 1, r, e, DL_DID_BACKWARD)
            trains |= !strcmp(r->file, t.file) && dlsh_comes_from(e, t.file, r->line, fn->span.line);
        const int m = trains ? dlsh_trace_value(e, t.file, t.n->kids[1], some) : 0;
        for (int k = 0; k < m; k++)
            for (int j = 0; j < n; j++) compare_drawn(e, t.file, &all[j], &some[k]);
    }
}
