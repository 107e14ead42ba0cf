/* Shares that are divided by another number of samples than was counted: hits of the test split over the size of the
 * training split. */
#include <math.h>
#include <string.h>

#include "commands/data/data.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/text/reads.h"

enum { DEEPEST = 64 };

/* x.shape[0], len(x): x. */
static const dlsh_node *sized_by(const dlsh_node *n) {
    if (!n) return NULL;
    if (n->kind == DLSH_N_CALL && n->nkids == 2 && dlsh_names(n->kids[0], "len")) return n->kids[1];
    const dlsh_node *shape = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[0] : NULL;
    const int first = shape && n->kids[1]->kind == DLSH_N_INT && !n->kids[1]->num.i;
    return first && shape->kind == DLSH_N_FIELD && !strcmp(shape->text, "shape") ? shape->kids[0] : NULL;
}

/* How many samples an expression has; -1: it is not known. */
static long samples_in(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    dlsh_dealt d = {0};
    const dlsh_value *v = dlsh_value_of(e, file, n);
    if (v && v->type == DLSH_TENSOR) return dl_ndim(v->as.tensor) ? dl_shape(v->as.tensor)[0] : -1;
    if (v && v->type == DLSH_LIST) return v->as.list->n;
    const dlsh_node *base = n;
    while (base->kind == DLSH_N_FIELD && (!strcmp(base->text, "x") || !strcmp(base->text, "y"))) base = base->kids[0];
    if (base == n && base->kind != DLSH_N_FIELD && !(v && dlsh_unwrap(*v, &dlsh_split_class))) return -1;
    return dlsh_data_named(e, file, base, &d) ? dl_dataset_len(d.data, d.split) : -1;
}

/* Is a name added to in a tree? */
static int is_counted_in(const dlsh_node *n, const char *name) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_ASSIGN && t.n->op && dlsh_names(t.n->kids[0], name)) return 1;
    return 0;
}

/* name += len(y), in a loop over another loader: the samples of that; -1: it is none. */
static long counted_in_loop(const dlsh_examination *e, const char *file, const dlsh_node *n, const char *name) {
    dlsh_dealt d;
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_ASSIGN && t.n->op == DLSH_OP_ADD && dlsh_names(t.n->kids[0], name) &&
            sized_by(t.n->kids[1]) && dlsh_loader_around(e, file, t.n->span.line, &d))
            return dl_dataset_len(d.data, d.split);
    return -1;
}

/* The number that something is divided by; -1: it is not known. */
static long divisor_of(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *loop) {
    const dlsh_node *sized = sized_by(n);
    if (sized) return samples_in(e, file, sized);
    if (n->kind == DLSH_N_INT) return n->num.i;
    if (n->kind != DLSH_N_NAME || (loop && is_counted_in(loop, n->text))) return -1;
    const long counted = counted_in_loop(e, file, dlsh_text_root(file), n->text);
    if (counted > 0 || is_counted_in(dlsh_text_root(file), n->text)) return counted;
    const dlsh_node *made = dlsh_defined(file, n), *of = sized_by(made);
    if (of) return samples_in(e, file, of);
    const double v = dlsh_number_of(e, file, n);
    return v > 0 && v == floor(v) ? (long)v : -1;
}

long dlsh_divisor_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    return divisor_of(e, file, n, NULL);
}

/* ---------------------------------------------------------------- what was counted */

/* (a == b).sum().item(): the comparison; NULL: it is no count. */
static const dlsh_node *comparison_of(const dlsh_node *n) {
    static const char keeping[] = "item|float|int|long|sum|tolist";
    int sums = 0;
    while (n && n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD && dlsh_is_word(keeping, n->kids[0]->text))
        sums |= !strcmp(n->kids[0]->text, "sum"), n = n->kids[0]->kids[0];
    const int count = n && n->kind == DLSH_N_CALL && dlsh_names(n->kids[0], "sum") && n->nkids == 2;
    if (count) sums = 1, n = n->kids[1];
    return sums && dlsh_is_comparison(n) ? n : NULL;
}

/* loss.item() * len(y): a sum over samples. */
static int is_weighted(const dlsh_node *n) {
    return n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL && (sized_by(n->kids[0]) || sized_by(n->kids[1]));
}

/* name += ..., the last one before a place: the statement. */
static const dlsh_node *counter_of(const dlsh_node *n, const char *name, int before) {
    const dlsh_node *found = NULL;
    DLSH_EACH_BELOW_IF (t, n, t.n->span.start < before)
        if (t.n->kind == DLSH_N_ASSIGN && t.n->op == DLSH_OP_ADD && dlsh_names(t.n->kids[0], name)) found = t.n;
    return found;
}

static int loops_around(const dlsh_node *root, int place, const dlsh_node **innermost) {
    const dlsh_node *around[DEEPEST];
    const int depth = dlsh_nodes_around(root, place, around, DEEPEST);
    int loops = 0;
    for (int i = 0; i < depth; i++)
        if (dlsh_is_loop(around[i])) loops++, *innermost = around[i];
    return loops;
}

/* The rows that a loop takes in pieces, randperm(n).split(k), range(0, n, k); -1: it is no such loop. */
static long rows_in_pieces(const dlsh_examination *e, const char *file, const dlsh_node *loop) {
    const dlsh_node *seq = loop->kind == DLSH_N_FOR && loop->nkids > 2 ? loop->kids[loop->nkids - 2] : NULL;
    if (dlsh_is_call_of(seq, "split") && seq->kids[0]->kind == DLSH_N_FIELD) {
        const dlsh_node *of = seq->kids[0]->kids[0];
        return dlsh_is_call_of(of, "randperm|arange") && of->nkids == 2 ? dlsh_divisor_of(e, file, of->kids[1]) : -1;
    }
    const int pieces = dlsh_is_call_of(seq, "range") && seq->nkids == 4 && seq->kids[1]->kind == DLSH_N_INT &&
                       !seq->kids[1]->num.i && dlsh_number_of(e, file, seq->kids[3]) > 1;
    return pieces ? dlsh_divisor_of(e, file, seq->kids[2]) : -1;
}

/* exact: all samples are known to be counted; else a last batch may be left out. */
static void tell(dlsh_examination *e, const char *file, const dlsh_node *use, long counted, long by, int line,
                 int exact) {
    if (by < 1 || counted < 1 || (!exact && 4 * by > 3 * counted && 3 * by < 4 * counted)) return;
    if (50 * by > 49 * counted && 49 * by < 50 * counted) return;
    dlsh_found(e, file, use->span.line, "divide by the number of samples that were counted",
               "a figure of %ld samples is divided by %ld: it is %.3g times %s than it is\n"
               "line %d counts over %ld samples, the divisor at line %d is the size of something else",
               counted, by, by > counted ? (double)by / (double)counted : (double)counted / (double)by,
               by > counted ? "smaller" : "larger", line, counted, use->span.line);
}

/* hits / n, where hits was added up in a loop over a loader. */
static void look_at_counter(dlsh_examination *e, const char *file, const dlsh_node *use, const dlsh_node *scope) {
    const dlsh_node *root = dlsh_text_root(file), *loop = NULL, *other = NULL;
    const dlsh_node *n = counter_of(scope, use->kids[0]->text, use->span.start);
    if (!n || (!comparison_of(n->kids[1]) && !is_weighted(n->kids[1]))) return;
    const dlsh_node *zero = dlsh_definition_of(file, use->kids[0]->text, n->span.start, NULL);
    const int inner = loops_around(root, n->span.start, &loop);
    if (!zero || !loop || loops_around(root, zero->span.start, &other) != inner - 1) return; /* over several epochs */
    dlsh_dealt d;
    if (use->span.start < loop->span.end) return;
    const long rows = comparison_of(n->kids[1]) ? rows_in_pieces(e, file, loop) : -1;
    if (rows < 1 && !dlsh_loader_around(e, file, n->span.line, &d)) return;
    tell(e, file, use, rows > 0 ? rows : dl_dataset_len(d.data, d.split), divisor_of(e, file, use->kids[1], loop),
         n->span.line, rows > 0);
}

/* Rows of a class among data that no net computed, y == 0: their share is a ratio of classes, as for repeating rows. */
static int counts_class(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    for (int k = 0; k < 2; k++)
        if (isfinite(dlsh_number_of(e, file, n->kids[k]))) return !dlsh_uses_net(e, file, n->kids[!k]);
    return 0;
}

/* (a == b).sum() / n, of whole tables. */
static void look_at_sum(dlsh_examination *e, const char *file, const dlsh_node *use) {
    const dlsh_node *sum = use->kids[0], *loop = NULL;
    if (sum->kind == DLSH_N_NAME) sum = dlsh_defined(file, sum);
    const dlsh_node *compared = sum ? comparison_of(sum) : NULL;
    if (!compared || loops_around(dlsh_text_root(file), compared->span.start, &loop)) return;
    if (counts_class(e, file, compared)) return;
    long counted = -1;
    for (int k = 0; k < 2 && counted < 0; k++) counted = samples_in(e, file, compared->kids[k]);
    tell(e, file, use, counted, divisor_of(e, file, use->kids[1], NULL), compared->span.line, 0);
}

static int see(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    if (n->kind != DLSH_N_BINARY || n->op != DLSH_OP_DIV) return 0;
    const dlsh_node *scope = dlsh_scope_of(within, depth);
    if (n->kids[0]->kind == DLSH_N_NAME && scope) look_at_counter(ctx, file, n, scope);
    look_at_sum(ctx, file, n);
    return 0;
}

void dlsh_find_wrong_counts(dlsh_examination *e) { dlsh_each_within(see, e); }
