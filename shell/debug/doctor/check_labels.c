/* Labels that do not belong to their inputs, found by experiment: the nearest sample's label tells more about a sample
 * when labels are moved by some rows, or when the classes of the test split are taken for others. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/data/pools.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

enum { FEWEST = 40, MOST = 600, SHIFTS = 5, CLASSES = 64 };

/* How many rows are looked at: the distances of all pairs are computed. */
static long rows_of(const dlsh_samples *s) {
    long n = s->n < MOST ? s->n : MOST;
    while (n > FEWEST && (double)n * (double)n * (double)s->width > 2.5e8) n /= 2;
    return n;
}

/* Row i of a and row k of b, no farther than a limit. */
static double distance(const dlsh_samples *a, long i, const dlsh_samples *b, long k, double limit) {
    const double *x = a->x + i * a->width, *y = b->x + k * b->width;
    double sum = 0;
    for (long c = 0; c < a->width && sum < limit; c++) sum += (x[c] - y[c]) * (x[c] - y[c]);
    return sum;
}

/* Deviations of columns, by which distances are measured. */
static void scale(dlsh_samples *to, const dlsh_samples *by) {
    for (long c = 0; c < by->width; c++) {
        const dlsh_spread k = dlsh_spread_of(by, c);
        for (long i = 0; i < to->n; i++)
            to->x[i * to->width + c] = k.std > 1e-6 ? (to->x[i * to->width + c] - k.mean) / k.std : 0;
    }
}

/* For each of n rows of a the nearest of m rows of b, other than itself where they are the same. */
static long *nearest(const dlsh_samples *a, long n, const dlsh_samples *b, long m) {
    long *at = malloc(((size_t)n + 1) * sizeof *at);
    for (long i = 0; at && i < n; i++) {
        double best = INFINITY;
        at[i] = i ? 0 : m - 1;
        for (long k = 0; k < m; k++) {
            if (a == b && k == i) continue;
            const double d = distance(a, i, b, k, best);
            if (d < best) best = d, at[i] = k;
        }
    }
    return at;
}

static int is_finite(const dlsh_samples *s) {
    for (long i = 0; i < s->n * s->width; i++)
        if (!isfinite(s->x[i])) return 0;
    for (long i = 0; i < s->n; i++)
        if (!isfinite(s->y[i])) return 0;
    return 1;
}

/* ---------------------------------------------------------------- agreement */

static long wrapped(long i, long n) { return (i % n + n) % n; }

double dlsh_agree(const double *x, const double *y, long n, int classes) {
    double equal = 0, sum[2] = {0}, squares[2] = {0}, products = 0;
    for (long i = 0; i < n; i++) {
        equal += x[i] == y[i], products += x[i] * y[i];
        sum[0] += x[i], sum[1] += y[i], squares[0] += x[i] * x[i], squares[1] += y[i] * y[i];
    }
    if (classes) return equal / (double)n;
    const double m = (double)n, a = squares[0] - sum[0] * sum[0] / m, b = squares[1] - sum[1] * sum[1] / m;
    return a > 0 && b > 0 ? (products - sum[0] * sum[1] / m) / sqrt(a * b) : 0;
}

/* ... labels that are moved by some rows, and those of the nearest of at most MOST rows. */
static double agreement(const double *y, long n, const long *near, long shift, int classes) {
    double own[MOST], other[MOST];
    for (long i = 0; i < n; i++) own[i] = y[wrapped(i + shift, n)], other[i] = y[wrapped(near[i] + shift, n)];
    return dlsh_agree(own, other, n, classes);
}

/* How many rows are the nearest one of others: of many columns a few may be that of most. */
static long count_near(const long *near, long n) {
    long count = 0;
    DLSH_FREED char *is = calloc((size_t)n + 1, 1);
    for (long i = 0; is && i < n; i++) count += !is[near[i]], is[near[i]] = 1;
    return count;
}

double dlsh_by_chance(const double *y, long n, int classes, double *deviation) {
    double share = 0;
    for (long i = 0; classes && i < n; i++) {
        long same = 0;
        for (long k = 0; k < n; k++) same += y[k] == y[i];
        share += (double)same / (double)n;
    }
    share /= (double)n;
    *deviation = classes ? sqrt(share * (1 - share) / (double)n) : 1 / sqrt((double)n);
    return share;
}

/* Where the targets were made, within the function that made them. */
static int line_of(const dlsh_samples *s) {
    const dlsh_node *made = dlsh_definition_of(s->target_file, s->target, INT_MAX, NULL);
    const int here = made && made->kind == DLSH_N_CALL && made->span.line == s->target_line;
    return here ? dlsh_line_of_making(s->target_file, made, s->target_line) : s->target_line;
}

int dlsh_are_unrelated(double *x, double *y, long n, long width) {
    dlsh_samples s = {.x = x, .y = y, .n = n < MOST ? n : MOST, .width = width};
    s.n = rows_of(&s);
    if (s.n < FEWEST || !is_finite(&s)) return 0;
    scale(&s, &s);
    DLSH_FREED long *near = nearest(&s, s.n, &s, s.n);
    return near && agreement(y, s.n, near, 0, 0) < 3 / sqrt((double)s.n);
}

int dlsh_labels_tell(const dl_tensor *x, const dl_tensor *y) {
    const long rows = dl_shape(x)[0];
    double deviation;
    if (dl_numel(x) > 1 << 22 || dl_numel(y) != rows || !dl_numel(x)) return 0;
    DLSH_FREED double *v = malloc((size_t)dl_numel(x) * sizeof *v), *label = malloc((size_t)rows * sizeof *label);
    if (!v || !label || dl_read_f64(x, v) || dl_read_f64(y, label)) return dl_error_clear(), 0;
    dlsh_samples s = {.x = v, .y = label, .n = rows < MOST ? rows : MOST, .width = dl_numel(x) / rows};
    s.n = rows_of(&s), s.classes = !dl_dtype_is_float(dl_dtype_of(y));
    if (s.n < FEWEST || !is_finite(&s)) return 0;
    scale(&s, &s);
    DLSH_FREED long *near = nearest(&s, s.n, &s, s.n);
    const double chance = dlsh_by_chance(label, s.n, s.classes, &deviation);
    return near && agreement(label, s.n, near, 0, s.classes) > chance + 5 * deviation;
}

static void tell_shift(dlsh_examination *e, const dlsh_samples *s, long shift, double now, double then, double chance) {
    if (dlsh_was_found(e, e->check, "are cut off")) return; /* inputs that are all alike tell nothing */
    dlsh_found(e, s->target_file, line_of(s), "take rows of inputs and targets alike",
               "labels do not belong to their inputs: %s %s off by %ld row%s\n"
               "a sample and the one most like it have %s labels (%s %.2g, by chance %.2g); with labels moved %s by "
               "%ld they agree (%.2g)",
               s->target, !strncmp(s->target, "the ", 4) ? "are" : "is", labs(shift), labs(shift) > 1 ? "s" : "",
               "unrelated", s->classes ? "share of equal ones" : "correlation", now, chance, shift > 0 ? "back" : "on",
               labs(shift), then);
}

/* The statement that gives the net its input in training. */
static int line_of_use(const dlsh_examination *e, const dlsh_samples *s) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (r->grad && dlsh_is_trained(e, r)) return r->line;
    return s->user_line;
}

static dlsh_property mentions(void *name, const dlsh_step *at) {
    return dlsh_mentions(at->n, name) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* 1, or -1: not 0. */
static dlsh_property is_other_dimension(void *ctx, const dlsh_step *at) {
    (void)ctx;
    const dlsh_node *n = at->n->kind == DLSH_N_UNARY ? at->n->kids[0] : at->n;
    if (n->kind == DLSH_N_INT) return n->num.i ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
    return DLSH_MAY_HAVE;
}

typedef struct rows {
    const dlsh_examination *e;
    const char *till;     /* a variable: what it was made of does not count; NULL: all does */
    const dlsh_node *dim; /* where the dimension is written */
} rows;

/* A mean, deviation or largest value along another dimension than the first one. */
static dlsh_property is_by_rows(void *ctx, const dlsh_step *at) {
    rows *r = ctx;
    if (r->till && at->n->kind == DLSH_N_NAME && !strcmp(at->n->text, r->till)) return DLSH_HAS_NOT;
    if (!dlsh_is_call_of(at->n, "mean|std|var|max|amax|min|amin|norm|sum")) return DLSH_MAY_HAVE;
    const dlsh_node *dim = dlsh_argument_of(at->n, at->n->kids[0]->kind == DLSH_N_FIELD ? 0 : 1, "dim");
    const dlsh_node *by = dim ? dlsh_origin_at(at, dim, is_other_dimension, r) : NULL;
    if (by) r->dim = by;
    return by ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

int dlsh_line_of_rows(const dlsh_examination *e, const char *file, const dlsh_node *value, const char *till,
                      int otherwise) {
    rows r = {e, till, NULL};
    dlsh_origin(file, value, is_by_rows, &r);
    return r.dim ? r.dim->span.line : otherwise;
}

static const char by_columns[] = "prepare columns, dim=0, with figures of all samples: what is done to each sample by "
                                 "itself may take away what counts";

/* Is the net given rows of the table in training? */
static int is_given(const dlsh_examination *e, dl_tensor *t, long width) {
    dlsh_pool p = {.tensor = t, .n = dl_shape(t)[0]};
    int given = 0;
    if (!dlsh_pool_fill(&p, width)) return 0;
    DLSH_EACH_ROW_WHILE (!given, r, e, DL_DID_FORWARD)
        given = r->nrows > 1 && dlsh_is_training_pass(e, r) && dlsh_rows_in(&p, r) == r->nrows;
    free(p.row);
    return given;
}

/* Is a table computed from what the net is given, as a step on the way to the labels? */
static int is_made_of_input(const char *file, const dlsh_node *input, const char *name) {
    static dlsh_course way;
    const dlsh_node *table = dlsh_definition_of(file, name, INT_MAX, NULL);
    while (input && (input->kind == DLSH_N_INDEX || input->kind == DLSH_N_NAME)) {
        const dlsh_node *made = dlsh_made(file, input->kind == DLSH_N_INDEX ? input->kids[0] : input);
        if (made == input) break;
        input = made;
    }
    if (!input || !table) return 0;
    dlsh_course_of(file, table, &way);
    return dlsh_is_on(&way, &(dlsh_step){.file = file, .n = input, .item = -1});
}

/* A variable with as many rows that tells of the targets, where what the net is given does not. */
static void find_other_table(dlsh_examination *e, const dlsh_samples *s, long n, double enough, double now) {
    if (e->bad) return; /* what is wrong with the table itself explains it */
    DLSH_EACH_HOLDER (h, &e->holders) {
        const char *name = h->name;
        dl_tensor *t =
            h->value.type == DLSH_TENSOR && !dl_requires_grad(h->value.as.tensor) ? h->value.as.tensor : NULL;
        if (!t || dl_ndim(t) < 2 || dl_shape(t)[0] < n || dl_shape(t)[1] < 2 || !strcmp(name, s->name)) continue;
        if (dl_shape(t)[0] == dl_shape(t)[1]) continue; /* between rows, as of neighbours */
        const char *file = s->file ? s->file : s->target_file;
        const dlsh_node *made = file ? dlsh_statement_at(file, s->line ? s->line : s->target_line) : NULL;
        const dlsh_node *value = made && made->kind == DLSH_N_ASSIGN ? made->kids[made->nkids - 1] : NULL;
        const dlsh_node *input = s->file && s->line ? dlsh_part_of_data(e, s, DLSH_ROLE_INPUT) : NULL;
        if (input) value = input;
        if (input && is_made_of_input(file, input, name)) continue;
        const dlsh_node *by = value ? dlsh_origin(file, value, mentions, (void *)name) : NULL;
        const long width = dl_numel(t) / dl_shape(t)[0];
        if ((width != s->width && !by) || width > 4 * s->width || !dl_dtype_is_float(dl_dtype_of(t))) continue;
        dlsh_samples other = {.n = n, .width = width, .y = s->y};
        DLSH_FREED double *x = malloc((size_t)dl_numel(t) * sizeof *x);
        if (!x || dl_read_f64(t, x)) continue;
        other.x = x;
        DLSH_FREED long *near = is_finite(&other) ? nearest(&other, n, &other, n) : NULL;
        const double then = near ? agreement(s->y, n, near, 0, s->classes) : 0;
        if (then < enough || then - now < 0.25 || is_given(e, t, width)) continue;
        dlsh_finding *f =
            by ? dlsh_find_at(e, file,
                              dlsh_line_of_rows(e, file, value, name, dlsh_line_of_making(file, by, by->span.line)),
                              by_columns)
               : dlsh_find_at(e, s->user_file ? s->user_file : s->target_file, line_of_use(e, s),
                              "give the net the table that the targets were made of");
        if (!f) return;
        dlsh_cause(f, "the net is given %s, which tells nothing of the targets; %s does", s->name, name);
        dlsh_evidence(f, "rows that are alike in %s have %s of %.2g in %s, those in %s %.2g", s->name,
                      s->classes ? "equal labels in a share" : "targets with a correlation", now, s->target, name,
                      then);
        return;
    }
    dl_error_clear();
}

/* ---------------------------------------------------------------- labels of the table that samples were taken from */

/* Where each sample stands in a pool, one sample a row; 0: some are not there, or they have the order of the pool. */
static int places_in(const dlsh_pool *p, const dlsh_samples *s, long *at) {
    long falls = 0;
    DLSH_FREED char *taken = calloc((size_t)p->n + 1, 1);
    for (long i = 0; taken && i < s->n; i++) {
        const dlsh_pool_row *r = dlsh_row_of(p, dl_hash(s->x + i * s->width, s->width * (long)sizeof *s->x));
        if (!r || taken[r->at]) return 0;
        at[i] = r->at, taken[r->at] = 1;
        falls += i && at[i] < at[i - 1];
    }
    return taken && 8 * falls > s->n;
}

/* Has each value its share of both, but for chance? */
static int are_spread_alike(const double *a, const double *b, long n) {
    for (long i = 0; i < n; i++) {
        double in_a = 0, in_b = 0;
        for (long k = 0; k < n; k++) in_a += a[k] == b[i], in_b += b[k] == b[i];
        if (fabs(in_a - in_b) > 4 * sqrt(in_b + 1)) return 0;
    }
    return 1;
}

/* Are the labels that a table has for the samples unrelated to those that they have now? *now: how well they agree. -1:
 * they are of another kind. */
static int are_moved(const dlsh_samples *s, const long *at, dl_tensor *t, double *now, double *chance) {
    double deviation;
    DLSH_FREED double *all = malloc(((size_t)dl_numel(t) + 1) * sizeof *all), *y = malloc((size_t)s->n * sizeof *y);
    if (!all || !y || dl_read_f64(t, all)) return dl_error_clear(), 0;
    for (long i = 0; i < s->n; i++) y[i] = all[at[i]];
    *chance = dlsh_by_chance(s->y, s->n, s->classes, &deviation);
    const double agree = dlsh_agree(y, s->y, s->n, s->classes);
    if (s->classes && !are_spread_alike(y, s->y, s->n)) return -1;
    *now = agree;
    return fabs(agree - *chance) < 4 * deviation;
}

/* Rows taken in an order, by what a variable holds or a call gives, that the labels do not go through. */
static dlsh_property orders_alone(void *labels, const dlsh_step *at) {
    const dlsh_node *n = at->n, *by = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[1] : NULL;
    if (!by || (by->kind != DLSH_N_NAME && by->kind != DLSH_N_CALL)) return DLSH_MAY_HAVE;
    return dlsh_is_on(labels, &(dlsh_step){.file = at->file, .n = by, .item = -1}) ? DLSH_MAY_HAVE : DLSH_HAS;
}

/* dataset(x, y, ...) */
static const dlsh_node *call_with_tables(void) {
    DLSH_EACH_NODE (t)
        if (dlsh_is_call_of(t.n, "dataset") && t.n->nkids > 2 && t.n->kids[1]->kind != DLSH_N_STR) return t.n;
    return NULL;
}

/* The call of the loss of a training in the text; NULL: it is not known. */
static const dlsh_node *call_of_loss(const dlsh_examination *e, const char *file) {
    const dlsh_node *call = NULL;
    DLSH_EACH_ROW_WHILE (!call, r, e, DL_DID_BACKWARD)
        if (r->nnodes[1] && !strcmp(r->nodes[1]->file, file))
            call = dlsh_call_on_line(file, r->nodes[1]->line, "loss|entropy");
    return call;
}

/* Where inputs or labels alone are put in another order, of samples, or else of a data set, or of what a loss is given;
 * otherwise: not known. */
static int line_of_order(const dlsh_examination *e, const dlsh_samples *s, int otherwise) {
    static dlsh_course other;
    const dlsh_node *part[] = {dlsh_part_of_data(e, s, DLSH_ROLE_INPUT), dlsh_part_of_data(e, s, DLSH_ROLE_TARGET)};
    const dlsh_node *by = NULL, *set = part[0] == part[1] ? call_with_tables() : NULL;
    const dlsh_node *loss = !set && part[0] == part[1] ? call_of_loss(e, s->file) : NULL;
    if (set) part[0] = dlsh_argument_of(set, 0, "x"), part[1] = dlsh_argument_of(set, 1, "y");
    if (loss) part[0] = dlsh_argument_of(loss, 0, "input"), part[1] = dlsh_argument_of(loss, 1, "target");
    for (int i = 0; part[0] && part[1] && part[0] != part[1] && i < 2 && !by; i++) {
        dlsh_course_of(s->file, part[1 - i], &other);
        by = dlsh_origin(s->file, part[i], orders_alone, &other);
    }
    return by ? by->span.line : otherwise;
}

/* Does a tensor hold the labels of now, in their order? */
static int are_of_now(const dlsh_samples *s, const dl_tensor *t) {
    DLSH_FREED double *y = dl_numel(t) == s->n ? malloc((size_t)s->n * sizeof *y) : NULL;
    if (!y || dl_read_f64(t, y)) return dl_error_clear(), 0;
    return !memcmp(y, s->y, (size_t)s->n * sizeof *y);
}

/* Has a table labels of the kind of those of now, and none of these at the samples? 0: it has them there; -1: it has no
 * such labels. */
static int has_moved(const dlsh_examination *e, const dlsh_samples *s, const dlsh_pool *p, const long *at, double *now,
                     double *chance) {
    dl_tensor *t;
    int found = -1;
    for (int number = 0; found && (t = dlsh_labels_of(e, p, number)); number++) {
        const int other = dl_numel(t) == p->n && (p->data || !are_of_now(s, t));
        const int moved = other ? are_moved(s, at, t, now, chance) : -1;
        if (moved >= 0) found = moved;
        dl_unref(t);
    }
    return found;
}

/* Samples that a variable has in another order, with labels of which none are theirs. Those of a data set are its own;
 * two tensors may belong together or not, and do not where others have the labels of now. */
static int find_moved(dlsh_examination *e, const dlsh_samples *s) {
    static dlsh_pools all;
    const dlsh_pool *of = NULL;
    int belong = 0;
    double now = 0, chance = 0;
    DLSH_FREED long *at = malloc((size_t)s->n * sizeof *at);
    all.n = 0;
    if (at) dlsh_pools_find(e, &all, s->width);
    for (int k = 0; k < all.n && !(of && of->data); k++) {
        if (all.at[k].n < s->n || !places_in(&all.at[k], s, at)) continue;
        const int moved = has_moved(e, s, &all.at[k], at, &now, &chance);
        if (moved > 0 && (!of || all.at[k].data)) of = &all.at[k];
        belong |= !moved;
    }
    if (of && !of->data && belong) of = NULL;
    if (of)
        dlsh_found(e, s->target_file, line_of_order(e, s, line_of(s)),
                   "one order for both: p = randperm(n); x = x[p]; y = y[p]",
                   "labels do not belong to their inputs: those of %s for the same samples are others\n"
                   "all %ld samples that were looked at are there, in another order, and the labels that they have "
                   "there and here agree as by chance (%s %.2g, by chance %.2g)",
                   of->name, s->n, s->classes ? "share of equal ones" : "correlation", now, chance);
    dlsh_pools_free(&all);
    return of != NULL;
}

void dlsh_judge_labels(dlsh_examination *e, const dlsh_samples *s) {
    dlsh_samples mine = *s;
    if (!s->y || s->n < FEWEST || !s->width || !is_finite(s) || find_moved(e, s)) return;
    mine.n = rows_of(s);
    mine.x = malloc((size_t)(mine.n * mine.width) * sizeof *mine.x);
    if (!mine.x) return;
    memcpy(mine.x, s->x, (size_t)(mine.n * mine.width) * sizeof *mine.x);
    scale(&mine, s);
    DLSH_FREED long *near = nearest(&mine, mine.n, &mine, mine.n);
    double deviation, best = -1;
    const double chance = dlsh_by_chance(s->y, mine.n, s->classes, &deviation);
    const double now = near ? agreement(s->y, mine.n, near, 0, s->classes) : 1;
    if (near && !s->classes) deviation = 1 / sqrt((double)count_near(near, mine.n) + 1);
    long shift = 0;
    for (long k = -SHIFTS; near && k <= SHIFTS; k++) {
        const double a = k ? agreement(s->y, mine.n, near, k, s->classes) : -1;
        if (a > best) best = a, shift = k;
    }
    if (now < chance + 3.5 * deviation && best > chance + 6 * deviation && best - now > 0.2)
        tell_shift(e, s, shift, now, best, chance);
    else if (now < chance + 3.5 * deviation && !e->bad)
        find_other_table(e, s, mine.n, chance + 6 * deviation, now);
    free(mine.x);
}

/* ---------------------------------------------------------------- the test split */

/* For each class that neighbours say the one that the labels most often have. */
typedef struct mapping {
    long count[CLASSES][CLASSES], to[CLASSES];
    double own, mapped; /* shares that are right as they are, and by the mapping */
    int moved;          /* classes that go to another one */
} mapping;

static int map_classes(mapping *m, const double *said, const double *y, long n) {
    *m = (mapping){0};
    for (long i = 0; i < n; i++) {
        if (said[i] < 0 || said[i] >= CLASSES || y[i] < 0 || y[i] >= CLASSES) return 0;
        m->count[(int)said[i]][(int)y[i]]++;
        m->own += said[i] == y[i];
    }
    for (int a = 0; a < CLASSES; a++) {
        long all = 0;
        for (int b = 0; b < CLASSES; b++) {
            all += m->count[a][b];
            if (m->count[a][b] > m->count[a][m->to[a]]) m->to[a] = b;
        }
        m->mapped += (double)m->count[a][m->to[a]];
        m->moved += all > 2 && m->to[a] != a;
        for (int b = 0; b < a; b++)
            if (all > 2 && m->count[b][m->to[b]] > 2 && m->to[b] == m->to[a]) return 0; /* not one class for each */
    }
    int known = 0; /* classes that training has, too: other ones are new, not exchanged */
    for (int a = 0; a < CLASSES; a++)
        for (long i = 0; m->count[a][m->to[a]] && i < n && !known; i++) known = said[i] == (double)m->to[a];
    m->own /= (double)n, m->mapped /= (double)n;
    return known;
}

static void tell_classes(dlsh_examination *e, const dlsh_samples *test, const mapping *m) {
    dlsh_finding *f = dlsh_find_at(e, test->target_file, test->target_line,
                                   "give classes the same numbers in all splits, with one table of them");
    int a = 0;
    while (a + 1 < CLASSES && (m->to[a] == a || m->count[a][m->to[a]] < 3)) a++;
    dlsh_cause(f, "the labels of %s mean other classes than those of the training data", test->name);
    dlsh_evidence(
        f,
        "of samples like those of class %d most are labelled %ld here, and so on for %d classes: %.0f %% agree "
        "as they are, %.0f %% when the numbers are exchanged",
        a, m->to[a], m->moved, 100 * m->own, 100 * m->mapped);
}

/* Labels of the nearest training samples, for each test sample. */
static double *said_by_neighbours(const dlsh_samples *train, dlsh_samples *test, long *n) {
    dlsh_samples a = *train, b = *test;
    a.n = rows_of(train), b.n = test->n < a.n ? test->n : a.n;
    a.x = malloc((size_t)(a.n * a.width) * sizeof *a.x), b.x = malloc((size_t)(b.n * b.width) * sizeof *b.x);
    double *said = malloc(((size_t)b.n + 1) * sizeof *said);
    long *near = NULL;
    if (a.x && b.x && said) {
        memcpy(a.x, train->x, (size_t)(a.n * a.width) * sizeof *a.x);
        memcpy(b.x, test->x, (size_t)(b.n * b.width) * sizeof *b.x);
        scale(&b, train), scale(&a, train);
        near = nearest(&b, b.n, &a, a.n);
    }
    for (long i = 0; near && i < b.n; i++) said[i] = train->y[near[i]];
    *n = near ? b.n : 0;
    free(a.x), free(b.x), free(near);
    return said;
}

static double moved_share(const double *said, const double *y, long n, long shift) {
    double equal = 0;
    for (long i = 0; i < n; i++) equal += said[i] == y[wrapped(i + shift, n)];
    return equal / (double)n;
}

void dlsh_compare_labels(dlsh_examination *e, const dlsh_samples *train, dlsh_samples *test) {
    static mapping m;
    long n;
    double deviation;
    if (!train->y || !test->y || !train->classes || !test->classes || train->width != test->width) return;
    if (train->n < FEWEST || test->n < 20 || !is_finite(train) || !is_finite(test)) return;
    DLSH_FREED double *said = said_by_neighbours(train, test, &n);
    if (!said || !n || !map_classes(&m, said, test->y, n))
        m = (mapping){.own = said && n ? moved_share(said, test->y, n, 0) : 1};
    const double chance = dlsh_by_chance(test->y, n, 1, &deviation);
    if (m.moved > 1 && m.own < 0.5 * m.mapped && m.mapped > 0.6 && m.mapped > chance + 6 * deviation) {
        tell_classes(e, test, &m);
        return;
    }
    for (long k = -SHIFTS; k <= SHIFTS; k++) {
        const double then = k ? moved_share(said, test->y, n, k) : 0;
        if (m.own > chance + 3.5 * deviation || then < chance + 6 * deviation || then - m.own < 0.2) continue;
        tell_shift(e, test, k, m.own, then, chance);
        return;
    }
}
