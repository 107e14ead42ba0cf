/* What is evaluated beside what was trained on, by the rows that passes had: rows of a table that both have, as of
 * copies that were made before the split, and classes that training has no sample of. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/data/pools.h"
#include "debug/doctor/syntax.h"

enum { PICKS = 64, LEAST = 8, CLASSES = 64, SEEN_LEAST = 60 };

/* Rows of a table that a variable has the numbers of. Equal rows count as one. */
typedef struct pick {
    const dlsh_holder *by;
    long *at;     /* [n]; owned */
    long n, rows; /* all, and those that differ */
} pick;

typedef struct table {
    const dlsh_pool *of;
    long *first; /* [of->n] the row that stands for the equal ones; owned */
    pick pick[PICKS];
    int npicks;
} table;

static void table_free(table *t) {
    for (int i = 0; i < t->npicks; i++) free(t->pick[i].at);
    free(t->first);
}

static long row_in(const dlsh_pool *p, unsigned long hash) {
    const dlsh_pool_row *at = dlsh_row_of(p, hash);
    return at ? at->at : -1;
}

static char *marks_of(const table *t, const pick *p) {
    char *has = calloc((size_t)t->of->n + 1, 1);
    for (long i = 0; has && i < p->n; i++) has[p->at[i]] = 1;
    return has;
}

static long count_rows(const table *t, const pick *p) {
    DLSH_FREED char *has = marks_of(t, p);
    long n = 0;
    for (long i = 0; has && i < t->of->n; i++) n += has[i];
    return n;
}

static void add_pick(table *t, const dlsh_holder *h) {
    const dl_tensor *x = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
    const long n = x && dl_ndim(x) == 1 && dl_dtype_of(x) == DL_I64 ? dl_numel(x) : 0;
    DLSH_FREED double *v = n >= LEAST && n <= DLSH_LABELS && t->npicks < PICKS ? malloc((size_t)n * sizeof *v) : NULL;
    if (!v || dl_read_f64(x, v)) return dl_error_clear();
    long *at = malloc((size_t)n * sizeof *at), i = 0;
    for (; at && i < n && v[i] >= 0 && v[i] < (double)t->of->n; i++) at[i] = t->first[(long)v[i]];
    pick *p = &t->pick[t->npicks];
    *p = (pick){.by = h, .at = at, .n = n};
    if (at && i == n)
        p->rows = count_rows(t, p), t->npicks++;
    else
        free(at);
}

static int table_of(const dlsh_examination *e, const dlsh_pool *p, table *t) {
    *t = (table){.of = p, .first = malloc(((size_t)p->n + 1) * sizeof *t->first)};
    for (long i = 0; t->first && i < p->n; i++) t->first[p->row[i].at] = row_in(p, p->row[i].hash);
    DLSH_EACH_HOLDER_WHILE (t->first, h, &e->holders) add_pick(t, h);
    return t->first != NULL;
}

/* Are all rows of passes at a place that were looked at, as far as they are the table's, among those of the pick? */
static int has_all(const table *t, const pick *p, const dl_journal_row *r) {
    DLSH_FREED char *has = marks_of(t, p);
    long n = 0;
    for (long i = 0; has && i < r->nseen; i++) {
        const long at = row_in(t->of, r->seen[i]);
        if (at >= 0 && !has[at]) return 0;
        n += at >= 0;
    }
    return n >= LEAST;
}

/* The smallest pick with all rows that the net was trained on. */
static const pick *trained_on(const dlsh_examination *e, const table *t, const void *net) {
    const pick *best = NULL;
    for (int i = 0; i < t->npicks; i++) {
        int good = 0, bad = 0;
        DLSH_EACH_ROW_WHILE (!bad, r, e, DL_DID_FORWARD)
            if (r->what == net && dlsh_is_training_pass(e, r)) good++, bad = !has_all(t, &t->pick[i], r);
        if (good && !bad && (!best || t->pick[i].rows < best->rows)) best = &t->pick[i];
    }
    return best;
}

/* Had the last pass looked at the rows of the pick, in its order? */
static int is_pass_of(const table *t, const pick *p, const dl_journal_row *r) {
    if (p->n != r->x.shape[0] || r->nrows < 2) return 0;
    for (long i = 0; i < r->nrows; i++) {
        const long at = r->nrows == p->n ? i : i * (p->n - 1) / (r->nrows - 1);
        if (row_in(t->of, r->rows[i]) != p->at[at]) return 0;
    }
    return 1;
}

/* What an evaluation took its rows by: all at once, or in batches. NULL: it is not known. */
static const pick *evaluated_by(const table *t, const dl_journal_row *r) {
    const pick *best = NULL;
    for (int i = 0; i < t->npicks; i++)
        if (is_pass_of(t, &t->pick[i], r)) return &t->pick[i];
    for (int i = 0; i < t->npicks; i++)
        if (has_all(t, &t->pick[i], r) && (!best || t->pick[i].rows < best->rows)) best = &t->pick[i];
    return best;
}

/* Where a variable got its value; of a part of another one that counts rows from 0 on, where that did. */
static dl_source place_of(const dlsh_holder *h, const char *file, int *in_order) {
    const char *in = h->file ? h->file : file;
    const dlsh_node *made = dlsh_definition_of(in, h->name, h->file ? h->place : INT_MAX, NULL);
    const dlsh_node *whole = made && made->kind == DLSH_N_INDEX && made->kids[0]->kind == DLSH_N_NAME
                                 ? dlsh_definition_of(in, made->kids[0]->text, made->span.start, NULL)
                                 : NULL;
    *in_order = whole && whole->kind == DLSH_N_CALL && dlsh_names(whole->kids[0], "arange");
    if (*in_order) made = whole;
    return made ? (dl_source){in, made->span.line} : (dl_source){0};
}

/* Was an evaluation of as many rows as training leaves meant for these, which no pass of the net had? Some rows of the
 * training may be evaluated beside them. */
static int stands_for_rest(const dlsh_examination *e, const table *t, const void *net, const pick *train,
                           const pick *test) {
    DLSH_FREED char *in_train = marks_of(t, train);
    long left = 0;
    for (long i = 0; in_train && i < t->of->n; i++) left += t->first[i] == i && !in_train[i];
    DLSH_EACH_ROW_WHILE (in_train, r, e, DL_DID_FORWARD)
        for (long k = 0; r->what == net && k < r->nseen; k++) {
            const long at = row_in(t->of, r->seen[k]);
            if (at >= 0 && !in_train[at]) return 0;
        }
    return left && test->n == left;
}

/* What made a table that has rows several times; NULL: it has none. */
static const dlsh_node *maker_of_copies(const dlsh_examination *e, const table *t, const char *file) {
    long again = 0;
    for (long i = 0; i < t->of->n; i++) again += t->first[i] != i;
    DLSH_EACH_HOLDER_WHILE (again, h, &e->holders) {
        const dlsh_node *root = strcmp(h->name, t->of->name) != 0 ? NULL : dlsh_text_root(h->file ? h->file : file);
        if (root) return dlsh_define(root, h->name, h->file ? h->place : INT_MAX).value;
    }
    return NULL;
}

static void look_at_shared(dlsh_examination *e, const table *t, const dl_journal_row *r, const pick *train) {
    const pick *test = evaluated_by(t, r);
    DLSH_FREED char *in_train = test && test != train ? marks_of(t, train) : NULL;
    DLSH_FREED char *in_test = in_train ? marks_of(t, test) : NULL;
    long both = 0, apart = 0;
    int ordered;
    for (long i = 0; in_test && i < test->n; i++) both += in_train[test->at[i]];
    for (long i = 0; in_test && i < train->n; i++) apart += !in_test[train->at[i]];
    if (!in_test || both < 2 || 50 * both < test->n || !apart) return;
    if (both == test->n && !stands_for_rest(e, t, r->what, train, test)) return;
    const long repeated = train->n - train->rows;
    const dlsh_node *made = repeated ? maker_of_copies(e, t, r->file) : NULL;
    const dl_source at = made ? (dl_source){r->file, made->span.line} : place_of(test->by, r->file, &ordered);
    dlsh_finding *f = dlsh_find_at(e, at.line ? at.file : r->file, at.line ? at.line : r->line,
                                   repeated ? "split first, then take copies for the training part alone"
                                            : "take the test rows from those that training leaves: p = randperm(n); "
                                              "p[:800], p[800:]");
    dlsh_cause(f, "%ld of %ld rows that %s picks for an evaluation are in the training data, too", both, test->n,
               test->by->name);
    char copies[100] = "";
    if (repeated)
        snprintf(copies, sizeof copies, "; %ld of these are copies of others: they were made before the split",
                 repeated);
    dlsh_evidence(f,
                  "training takes %ld rows of %s, by %s%s; the evaluation, line %d, measures what was learned by heart",
                  train->n, t->of->name, train->by->name, copies, r->line);
}

/* ---------------------------------------------------------------- classes */

typedef struct classes {
    long count[CLASSES], n;
} classes;

/* Of the rows of a pass that are in the table; 0: a label is none of a class. */
static int count_classes(const dlsh_pool *p, const double *label, const dl_journal_row *r, classes *c) {
    for (long i = 0; i < r->nseen; i++) {
        const long at = row_in(p, r->seen[i]);
        if (at < 0) continue;
        if (!(label[at] >= 0 && label[at] < CLASSES && label[at] == (double)(long)label[at])) return 0;
        c->count[(long)label[at]]++, c->n++;
    }
    return 1;
}

/* Were the labels of the table the targets of the passes that trained the net? */
static int are_targets(const dlsh_examination *e, const dlsh_pool *p, const double *label, const void *net,
                       long *scores) {
    const dl_journal_row *pass;
    const dl_journal_node *loss;
    int known = 0;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        const int can = r->what == net && r->nrows >= LEAST && dlsh_is_training_pass(e, r);
        const dl_journal_value *given = can ? dlsh_targets_of(e, r, &pass, &loss) : NULL;
        for (long k = 0; given && k < r->nrows; k++) {
            const long at = row_in(p, r->rows[k]);
            if (at < 0 || label[at] != given->few[k]) return 0;
        }
        if (given) known++, *scores = loss->in[0].ndim > 1 ? loss->in[0].shape[1] : 0;
    }
    return known;
}

/* Classes of all rows that training takes, where a variable has these alone: batches that were looked at may be of some
 * classes each. */
static void add_known(const dlsh_examination *e, const dlsh_pools *all, const table *t, const double *label,
                      const void *net, classes *c) {
    const pick *by = trained_on(e, t, net);
    for (long i = 0; by && i < by->n; i++) {
        const double y = label[by->at[i]];
        if (y >= 0 && y < CLASSES) c->count[(long)y]++;
    }
    for (int k = 0; k < all->n; k++)
        for (long i = 0; all->at[k].trained && &all->at[k] != t->of && i < all->at[k].n; i++) {
            const long at = row_in(t->of, all->at[k].row[i].hash);
            if (at >= 0 && label[at] >= 0 && label[at] < CLASSES) c->count[(long)label[at]]++;
        }
}

static void tell_classes(dlsh_examination *e, const table *t, const dl_journal_row *r, const classes *train, long lost,
                         long all, const char *which) {
    int ordered = 0;
    const pick *by = evaluated_by(t, r);
    const dl_source picked = by ? place_of(by->by, r->file, &ordered) : (dl_source){0};
    const int line = picked.line ? picked.line : dlsh_line_of_input(e, r);
    dlsh_found(e, picked.line ? picked.file : r->file, line,
               "put the samples in random order before they are split: randperm(n) in place of "
               "arange(n)",
               "%ld of %ld samples of an evaluation are of classes that training has no sample of: %s\n"
               "none of %ld samples that training was seen to take has such a label; the evaluation, line %d, asks for "
               "what was never shown%s",
               lost, all, which, train->n, r->line, ordered ? ": the rows are split in the order of the table" : "");
}

/* Classes of an evaluation that a training of many samples would have shown by chance. */
static void look_at_classes(dlsh_examination *e, const dlsh_pools *all, const table *t, const double *label,
                            const void *net, long scores) {
    classes train = {.n = 0};
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (r->what == net && dlsh_is_training_pass(e, r) && !count_classes(t->of, label, r, &train)) return;
    if (train.n < SEEN_LEAST) return;
    add_known(e, all, t, label, net, &train);
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        classes test = {.n = 0};
        char which[100] = "";
        long lost = 0;
        if (r->what != net || r->grad || !dlsh_is_evaluation_pass(e, r) || !count_classes(t->of, label, r, &test))
            continue;
        for (long c = 0; c < CLASSES && c < scores; c++) {
            const size_t used = strlen(which);
            if (train.count[c] || 10 * test.count[c] < test.n || test.count[c] < 2) continue;
            lost += test.count[c];
            snprintf(which + used, sizeof which - used, "%s%ld", used ? ", " : "", c);
        }
        if (lost >= LEAST && 5 * lost >= test.n) tell_classes(e, t, r, &train, lost, test.n, which);
    }
}

static void find_unknown_classes(dlsh_examination *e, const dlsh_pools *all, const table *t, const void *net) {
    dl_tensor *y;
    long scores = 0;
    for (int number = 0; !e->bad && (y = dlsh_labels_of(e, t->of, number)); number++) {
        DLSH_OWNED dl_tensor *mine = y;
        DLSH_FREED double *label = malloc(((size_t)t->of->n + 1) * sizeof *label);
        if (!label || dl_numel(mine) != t->of->n || dl_read_f64(mine, label)) {
            dl_error_clear();
            continue;
        }
        if (are_targets(e, t->of, label, net, &scores)) look_at_classes(e, all, t, label, net, scores);
    }
}

/* ---------------------------------------------------------------- all */

void dlsh_find_shared(dlsh_examination *e, const dlsh_pools *all, const void *net) {
    for (int i = 0; i < all->n && !dlsh_was_found(e, "the data", "in the training data"); i++) {
        DLSH_SCOPED(table_free) table t;
        if (!table_of(e, &all->at[i], &t)) return;
        if (!dlsh_was_found(e, "the data", "training has no sample of") &&
            !dlsh_was_found(e, "the data", "order of their classes"))
            find_unknown_classes(e, all, &t, net);
        const pick *train = all->at[i].tensor ? trained_on(e, &t, net) : NULL;
        DLSH_EACH_ROW_WHILE (train, r, e, DL_DID_FORWARD)
            if (r->what == net && dlsh_is_evaluation_pass(e, r)) look_at_shared(e, &t, r, train);
    }
}
