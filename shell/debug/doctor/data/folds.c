/* One net that goes through all rounds of a loop that makes training and test parts anew, as of cross-validation: what
 * a round tests was trained on in earlier ones. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "debug/doctor/data/pools.h"
#include "debug/doctor/syntax.h"

enum { PARTS = 24, LEAST = 3 };

/* Rows that a variable holds, or picks of a table that another one holds. */
typedef struct part {
    dlsh_pool rows;
    const dlsh_holder *by;
} part;

typedef struct parts {
    part at[PARTS];
    int n;
} parts;

static void parts_free(parts *p) {
    for (int i = 0; i < p->n; i++) free(p->at[i].rows.row);
}

/* Are rows there twice, as where classes are taken for numbers of rows? */
static int has_twice(const dlsh_pool *p) {
    for (long i = 1; i < p->n; i++)
        if (p->row[i].hash == p->row[i - 1].hash) return 1;
    return 0;
}

static int by_hash(const void *a, const void *b) {
    const unsigned long x = ((const dlsh_pool_row *)a)->hash, y = ((const dlsh_pool_row *)b)->hash;
    return (x > y) - (x < y);
}

static void add(parts *to, const dlsh_holder *h, dlsh_pool rows, long width) {
    if (to->n < PARTS && rows.n > LEAST && (rows.row || dlsh_pool_fill(&rows, width)))
        to->at[to->n++] = (part){rows, h};
    else
        free(rows.row);
}

/* Rows of the tables by whole numbers in a variable. */
static void add_picks(parts *to, const dlsh_pools *all, const dlsh_holder *h, const dl_tensor *x) {
    const long n = dl_numel(x);
    DLSH_FREED double *v = n <= DLSH_LABELS ? malloc(((size_t)n + 1) * sizeof *v) : NULL;
    if (!v || dl_read_f64(x, v)) return dl_error_clear();
    for (int k = 0; k < all->n; k++) {
        const dlsh_pool *of = &all->at[k];
        DLSH_FREED unsigned long *hash = malloc((size_t)of->n * sizeof *hash);
        dlsh_pool rows = {.n = n, .row = of->tensor && hash ? malloc(((size_t)n + 1) * sizeof *rows.row) : NULL};
        for (long i = 0; rows.row && i < of->n; i++) hash[of->row[i].at] = of->row[i].hash;
        long i = 0;
        for (; rows.row && i < n && v[i] >= 0 && v[i] < (double)of->n; i++)
            rows.row[i] = (dlsh_pool_row){hash[(long)v[i]], i};
        snprintf(rows.name, sizeof rows.name, "%.30s[%.30s]", of->name, h->name);
        if (!rows.row || i < n) free(rows.row), rows.row = NULL;
        if (!rows.row) continue;
        qsort(rows.row, (size_t)n, sizeof *rows.row, by_hash);
        if (has_twice(&rows))
            free(rows.row);
        else
            add(to, h, rows, 0);
    }
}

/* Where the statement stands that gave a variable its value. */
static int is_set_in(const dlsh_node *loop, const char *file, const dlsh_holder *h) {
    const char *in = h->file ? h->file : file;
    const dlsh_node *made = dlsh_definition_of(in, h->name, h->file ? h->place : INT_MAX, NULL);
    return dlsh_is_item_of(loop, h->name) || (made && dlsh_runs_within(in, made->span.line, loop));
}

/* All parts that the loop makes anew. */
static void find_parts(const dlsh_examination *e, const dlsh_pools *all, const char *file, const dlsh_node *loop,
                       long width, parts *to) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        const dl_tensor *t = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        dl_dataset *d = dlsh_unwrap(h->value, &dlsh_dataset_class);
        if ((!t && !d) || !is_set_in(loop, file, h)) continue;
        if (t && dl_ndim(t) == 1 && dl_dtype_of(t) == DL_I64) add_picks(to, all, h, t);
        if (t && dl_ndim(t) && dl_shape(t)[0] && dl_numel(t) / dl_shape(t)[0] == width && !dl_requires_grad(t)) {
            dlsh_pool rows = {.tensor = (dl_tensor *)t, .n = dl_shape(t)[0]};
            snprintf(rows.name, sizeof rows.name, "%s", h->name);
            add(to, h, rows, width);
        }
        for (int k = 0; d && k < 2 && !dl_dataset_slow(d); k++) {
            dlsh_pool rows = {.data = d, .split = k ? DL_TEST : DL_TRAIN};
            rows.n = dl_dataset_len(d, rows.split);
            snprintf(rows.name, sizeof rows.name, "%.60s.%s", h->name, k ? "test" : "train");
            add(to, h, rows, width);
        }
    }
}

static int is_disjoint(const dlsh_pool *a, const dlsh_pool *b) {
    for (long i = 0; i < a->n; i++)
        if (dlsh_has_row(b, a->row[i].hash)) return 0;
    return 1;
}

/* Does the loss go on where it was, and not begin anew with each round? */
static int goes_on(const dl_journal_row *pass) {
    double late = -INFINITY;
    for (int i = pass->ncurve / 2; i < pass->ncurve; i++) late = fmax(late, pass->curve[i]);
    return pass->ncurve >= 8 && late < 0.85 * pass->curve[0];
}

/* How many rows of a part, which a place evaluates, the loop was seen to train on before. */
static long trained_of(const dlsh_examination *e, const dlsh_pool *p, const dl_journal_row *test,
                       const dlsh_node *loop) {
    DLSH_FREED char *seen = calloc((size_t)p->n + 1, 1);
    long tested = test->shape[0] == p->n ? 2 : 0, both = 0; /* rows of the last pass may be unknown */
    for (long k = 0; k < test->nseen; k++) tested += dlsh_has_row(p, test->seen[k]);
    DLSH_EACH_ROW_WHILE (seen &&tested > 1, r, e, DL_DID_FORWARD) {
        const int before = r->what == test->what && r->at < test->at && dlsh_is_training_pass(e, r);
        for (long j = 0; before && j < r->nseen && dlsh_runs_within(r->file, r->line, loop); j++) {
            const dlsh_pool_row *at = dlsh_row_of(p, r->seen[j]);
            if (at && !seen[at - p->row]) seen[at - p->row] = 1, both++;
        }
    }
    return both;
}

/* Does the loop give the net's name another net in each round? That may lie where the former one was. */
static int is_made_in(const dlsh_examination *e, const void *net, const char *file, const dlsh_node *loop) {
    const char *name = NULL;
    if (!dlsh_live_net(e, net, &name) || !name) return 0;
    const dlsh_definition d = dlsh_define(dlsh_text_root(file), name, loop->span.end);
    return d.value && d.at > loop->span.start && (d.value->kind == DLSH_N_CALL || d.value->kind == DLSH_N_NET);
}

static void tell(dlsh_examination *e, const dl_journal_row *test, const dl_journal_row *pass, const dlsh_node *loop,
                 const dlsh_pool *train, const dlsh_pool *apart, long both) {
    const char *name = NULL;
    dlsh_live_net(e, test->what, &name);
    const dlsh_node *made = name ? dlsh_definition_of(test->file, name, loop->span.start, NULL) : NULL;
    if (name && !made) made = dlsh_net_of(test->file, name);
    dlsh_found(e, test->file, (made ? made : loop)->span.line,
               "make the net and its optimizer within the loop, anew for each part",
               "one net goes through all rounds of the loop at line %d: what a round tests was trained on in earlier "
               "ones\n"
               "at least %ld of %ld samples of %s, which line %d evaluates and which the last round keeps apart of %s, "
               "were in batches of line %d; the loss goes on where it was and does not begin anew",
               loop->span.line, both, apart->n, apart->name, test->line, train->name, pass->line);
    dlsh_take_back(e, "the data", "are in the training data");
}

/* Does a place evaluate the same samples in each round, as those of a validation? */
static int is_always_same(const dl_journal_row *r) { return r->looked > 2 && r->alike == r->looked - 1; }

/* Was the loop seen to train on rows of a part? */
static int is_trained_on(const dlsh_examination *e, const dlsh_pool *p, const void *net, const dlsh_node *loop) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        for (long j = 0; r->what == net && j < r->nseen && dlsh_is_training_pass(e, r); j++)
            if (dlsh_has_row(p, r->seen[j]) && dlsh_runs_within(r->file, r->line, loop)) return 1;
    return 0;
}

void dlsh_find_kept_net(dlsh_examination *e, const dlsh_pools *all, const void *net, long width) {
    DLSH_EACH_NODE (t)
        DLSH_EACH_ROW_WHILE (dlsh_is_loop(t.n), test, e, DL_DID_FORWARD) {
            const dl_journal_row *pass = NULL;
            DLSH_SCOPED(parts_free) parts p = {.n = 0};
            if (test->what != net || !dlsh_is_evaluation_pass(e, test) || is_always_same(test) ||
                strcmp(test->file, t.file) != 0 || !dlsh_runs_within(t.file, test->line, t.n) ||
                is_made_in(e, net, t.file, t.n))
                continue;
            DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
                if (dlsh_runs_within(r->file, r->line, t.n) && r->at < test->at && goes_on(r)) pass = r;
            if (pass) find_parts(e, all, t.file, t.n, width, &p);
            for (int i = 0; i < p.n; i++)
                for (int k = 0; k < p.n; k++) {
                    const dlsh_pool *train = &p.at[i].rows, *apart = &p.at[k].rows;
                    if (train->n < apart->n || i == k || !is_disjoint(apart, train)) continue;
                    if (!is_trained_on(e, train, net, t.n)) continue;
                    const long both = trained_of(e, apart, test, t.n);
                    if (both < LEAST || 20 * both < apart->n) continue;
                    tell(e, test, pass, t.n, train, apart, both);
                    return;
                }
        }
}
