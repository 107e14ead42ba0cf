/* What nets were evaluated with, beside what they were trained on: samples that both have, and labels of the same ones.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/data/pools.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

enum { LEAST_KNOWN = 8 };

/* The only variable with a whole number for each row of x; NULL: there is none, or several. */
static dl_tensor *targets_beside(const dlsh_examination *e, const dl_tensor *x, dlsh_samples *s, const char *file) {
    dl_tensor *found = NULL;
    DLSH_EACH_HOLDER (h, &e->holders) {
        dl_tensor *t = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        if (!t || dl_ndim(t) != 1 || dl_shape(t)[0] != dl_shape(x)[0] || dl_dtype_of(t) != DL_I64) continue;
        if (found) return NULL;
        const dlsh_node *made = dlsh_definition_of(file, h->name, h->place, NULL);
        found = t, s->target_file = file, s->target_line = made ? made->span.line : s->line;
        snprintf(s->target, sizeof s->target, "%s", h->name);
    }
    return found;
}

/* Was what ran at a place given none of these rows as they are? 0 where not all rows are known. */
static int is_elsewhere(const dlsh_samples *s, const dl_tensor *x, const dl_journal_row *r) {
    DLSH_FREED unsigned long *h = dl_shape(x)[0] == s->n && r->nrows ? dlsh_sorted_rows(s) : NULL;
    if (!h) return 0;
    for (long i = 0; i < r->nrows; i++)
        if (dlsh_is_among(h, s->n, r->rows[i])) return 0;
    return 1;
}

/* Are the rows of a pass known, and none of them among the samples? */
static int has_none_of(const dlsh_samples *s, const dl_journal_row *r) {
    DLSH_FREED unsigned long *h = r->nrows > 7 ? dlsh_sorted_rows(s) : NULL;
    for (long i = 0; h && i < r->nrows; i++)
        if (dlsh_is_among(h, s->n, r->rows[i])) return 0;
    return h != NULL;
}

/* How many rows of a part the table has, as far as both are looked at. */
static long rows_in(const dlsh_samples *table, const dlsh_samples *part) {
    DLSH_FREED unsigned long *h = dlsh_sorted_rows(table), *g = dlsh_sorted_rows(part);
    long n = 0;
    for (long i = 0; h && g && i < part->n; i++) n += dlsh_is_among(h, table->n, g[i]);
    return n;
}

/* Samples that were kept apart in a variable, whose name batches are given in the loop before anything reads it. */
static void find_overwritten(dlsh_examination *e, const dl_journal_row *back, const dl_journal_row *test,
                             const dlsh_traced *x) {
    const dlsh_node *root = dlsh_text_root(test->file);
    int places[DLSH_LEVELS];
    const int behind = root && !strcmp(test->file, back->file) && test->at >= back->till;
    if (!behind || !dlsh_places_of(back->file, back->line, places)) return;
    const dlsh_definition batch = dlsh_define(root, x->name, places[0]), d = dlsh_define(root, x->name, batch.at);
    if (!batch.value || batch.param || !d.value || d.each || d.param || dlsh_mentions(batch.value, x->name)) return;
    if (!d.value->nkids || dlsh_is_call_of(d.value, "zeros|ones|full|empty|tensor|zeros_like")) return; /* no samples */
    const int line = batch.value->span.line, made = d.value->span.line;
    if (dlsh_is_before_loop(back->file, line, back->line) || !dlsh_is_before_loop(back->file, made, back->line)) return;
    if (dlsh_reads_behind(root, x->name, d.value->span.end) > dlsh_reads_behind(root, x->name, batch.at)) return;
    dlsh_found(e, back->file, line, "another name for the batches of the loop",
               "%s is overwritten by batches of the training: what is evaluated is the last one of these\n"
               "line %d gives it other samples, which nothing reads; line %d evaluates what was trained on",
               x->name, made, test->line);
}

/* Are most rows of a part in the table, as far as all rows of that are known? The name may stand for another one by
 * now, x, test = split(x). */
static int is_part(const dlsh_samples *table, const dlsh_samples *part) {
    return table->total > table->n || 2 * rows_in(table, part) >= part->n;
}

/* Had passes that trained the net of an evaluation many rows of the table, and none of those of a part? Or is the part
 * by now another one than what that evaluated, as in a loop over parts? */
static int is_never_trained(const dlsh_examination *e, const dlsh_samples *table, const dlsh_samples *part,
                            const dl_journal_row *r) {
    long known;
    DLSH_FREED unsigned long *h = part->elsewhere ? dlsh_sorted_rows(table) : NULL;
    for (long k = 0; h && k < r->nrows; k++)
        if (dlsh_is_among(h, table->n, r->rows[k])) return 1;
    return table->n && is_part(table, part) && !dlsh_rows_passed(e, part, r->what, 1, &known) &&
           dlsh_rows_passed(e, table, r->what, 1, &known) * part->n > LEAST_KNOWN * table->n;
}

/* Has a part that a round of the loop takes to train on as many rows as a part that is evaluated, and none of it? */
static int is_apart_from(const dlsh_traced *used, const dl_journal_row *back, const dlsh_samples *test) {
    int apart = 0;
    for (int i = 0; i < used->nway && !apart; i++) {
        if (dlsh_is_before_loop(back->file, used->way_line[i], back->line)) continue;
        DLSH_SCOPED(dlsh_samples_free) dlsh_samples s = {0};
        if (!dlsh_samples_set(&s, used->way[i], NULL) || s.width != test->width || s.n < test->n || s.n < s.total)
            continue;
        DLSH_FREED unsigned long *h = dlsh_sorted_rows(&s), *g = dlsh_sorted_rows(test);
        long k = 0;
        while (h && g && k < test->n && !dlsh_is_among(h, s.n, g[k])) k++;
        apart = k == test->n;
    }
    return apart;
}

/* Was the net of a pass trained at other places than these, and not at one of them, as a copy for another task? */
static int is_of_other_training(const dlsh_examination *e, const dl_journal_row *pass, const int *lines, int n) {
    int elsewhere = 0;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        int here = 0;
        if (r->what != pass->what || !dlsh_is_training_pass(e, r)) continue;
        for (int k = 0; k < n; k++) here |= lines[k] == r->line;
        if (here) return 0;
        elsewhere = 1;
    }
    return elsewhere;
}

/* What a pass without a backward one took, compared with what was trained on; last: its rows are those of the row. */
static void compare_evaluated(dlsh_examination *e, const dlsh_training *t, const dl_journal_row *r,
                              const dlsh_traced *some, int last) {
    dl_tensor *x = some->tensor;
    if (some->role != DLSH_ROLE_INPUT || some->guessed || !x || dl_ndim(x) < 2) return;
    if (x == t->used->tensor) find_overwritten(e, t->back, r, some);
    if (x == t->used->tensor) return;
    DLSH_SCOPED(dlsh_samples_free) dlsh_samples test = {.file = r->file};
    test.line = some->name_line ? some->name_line : r->line;
    snprintf(test.name, sizeof test.name, "%s", some->name);
    dl_tensor *y = t->train->y ? targets_beside(e, x, &test, r->file) : NULL;
    if (!dlsh_samples_set(&test, x, y)) return;
    if (!last && rows_in(t->own, &test) == test.n) return; /* the training's own samples beside others */
    test.elsewhere = last && is_elsewhere(&test, x, r);
    test.left_out = last && *some->picks && !test.elsewhere && has_none_of(t->own, r);
    const int of_it = some->whole == t->table, may = of_it || !t->slice; /* be other rows of the table */
    const int others = may && is_never_trained(e, t->own, &test, r);
    if (!others && !(of_it && is_apart_from(t->used, t->back, &test))) dlsh_compare_splits(e, t->own, &test);
    dlsh_compare_labels(e, t->train, &test);
}

/* What all calls of a function but the last give the parameter that a net takes there. */
static void compare_calls(dlsh_examination *e, const dlsh_training *t, const dl_journal_row *r) {
    const dlsh_node *net = dlsh_call_of_net_at(e, r->file, r->line), *root = dlsh_text_root(r->file);
    const dlsh_node *x = net && net->nkids > 1 ? net->kids[1] : NULL, *around[DLSH_AROUND];
    while (x && x->kind == DLSH_N_INDEX) x = x->kids[0];
    int depth = x && x->kind == DLSH_N_NAME ? dlsh_functions_around(root, x->span.start, around) : 0, place = 0;
    while (depth && !around[depth - 1]->text) depth--; /* of a comprehension */
    const dlsh_node *fn = depth ? around[depth - 1] : NULL;
    while (fn && place < fn->nkids &&
           !(fn->kids[place]->kind == DLSH_N_PARAM && !strcmp(fn->kids[place]->text, x->text)))
        place++;
    const dlsh_node *last = fn && place < fn->nkids ? dlsh_last_call(root, fn) : NULL;
    DLSH_EACH_BELOW (c, last ? root : NULL) {
        dlsh_traced some[DLSH_TRACED];
        const int other = c.n->kind == DLSH_N_CALL && c.n != last && dlsh_names(c.n->kids[0], fn->text);
        const dlsh_node *given = other ? dlsh_argument_of(c.n, place, x->text) : NULL;
        const int named = given && (given->kind == DLSH_N_NAME || given->kind == DLSH_N_FIELD);
        const int n = named ? dlsh_trace_value(e, r->file, given, some) : 0;
        for (int k = 0; k < n; k++) {
            some[k].role = DLSH_ROLE_INPUT, some[k].guessed = 0;
            compare_evaluated(e, t, r, &some[k], 0);
        }
    }
}

void dlsh_compare_evaluations(dlsh_examination *e, const dlsh_training *t, const int *lines, int nlines) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        dlsh_traced some[DLSH_TRACED];
        int here = 0;
        for (int k = 0; k < nlines; k++) here |= lines[k] == r->line;
        const int other =
            here || dlsh_is_trained(e, r) || !dlsh_training_began(e, r) || is_of_other_training(e, r, lines, nlines);
        const int n = other ? 0 : dlsh_trace(e, r->file, r->line, some);
        for (int k = 0; k < n; k++) compare_evaluated(e, t, r, &some[k], 1);
        if (!other) compare_calls(e, t, r);
    }
}
