/* Shares that are divided by another number of samples than was counted: hits of the test split over the size of the
 * training split. */
#include <limits.h>
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

/* The name that a field belongs to, or itself; of sum(list) that list; NULL: it is something else. */
static const dlsh_node *name_of(const dlsh_node *n) {
    if (n->kind == DLSH_N_CALL && n->nkids == 2 && dlsh_names(n->kids[0], "sum")) n = n->kids[1];
    while (n->kind == DLSH_N_FIELD) n = n->kids[0];
    return n->kind == DLSH_N_NAME ? n : NULL;
}

/* Does a node add to a counter, hits += v, or to a list, counts.append(v)? v is its second part. */
static int adds_to(const char *file, const dlsh_node *n, const dlsh_node *what) {
    if (n->kind == DLSH_N_ASSIGN && n->op == DLSH_OP_ADD) return dlsh_same_text(file, n->kids[0], what);
    return dlsh_is_method(n, "append") && n->nkids == 2 && dlsh_same_text(file, n->kids[0]->kids[0], what);
}

/* The last one before a place that adds to a figure, sum(counts) too. */
static const dlsh_node *counter_of(const char *file, const dlsh_node *n, const dlsh_node *what, int before) {
    const dlsh_node *found = NULL;
    if (what->kind == DLSH_N_CALL) what = what->kids[1];
    DLSH_EACH_BELOW_IF (t, n, t.n->span.start < before)
        if (adds_to(file, t.n, what)) found = t.n;
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

/* Rows that a loop takes in pieces of one size, but for the last one; rows -1: it does not. */
typedef struct pieces {
    long rows, size;
    const dlsh_node *of; /* what the loop goes over */
} pieces;

static long number_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const double v = n ? dlsh_number_of(e, file, n) : NAN;
    return v >= 0 && v == floor(v) && v < 1e9 ? (long)v : -1;
}

/* loader(d.test, batch=64): all samples, the last batch may be smaller. */
static pieces pieces_of_loader(const dlsh_examination *e, const char *file, const dlsh_node *seq) {
    dlsh_dealt d = {0};
    const dlsh_node *made = dlsh_made(file, seq), *data = dlsh_is_call_of(made, "loader") ? made->kids[1] : NULL;
    const dlsh_node *size = data ? dlsh_argument_of(made, 1, "batch") : NULL;
    if (!size || dlsh_argument_of(made, INT_MAX - 1, "drop_last") || !dlsh_data_named(e, file, data, &d))
        return (pieces){.rows = -1};
    return (pieces){dl_dataset_len(d.data, d.split), number_of(e, file, size), seq};
}

/* randperm(n).split(k), x.split(k), zip(x.split(k), y.split(k)), range(a, b, k), loader(d, batch=k). */
static pieces pieces_of(const dlsh_examination *e, const char *file, const dlsh_node *loop) {
    const dlsh_node *given = loop->kind == DLSH_N_FOR && loop->nkids > 2 ? loop->kids[loop->nkids - 2] : NULL;
    const dlsh_node *seq = given && given->kind == DLSH_N_NAME ? dlsh_made(file, given) : given;
    while (seq && dlsh_is_call_of(seq, "enumerate|zip") && seq->nkids > 1) given = seq = seq->kids[1];
    if (!seq) return (pieces){.rows = -1};
    if (dlsh_is_call_of(seq, "split") && seq->kids[0]->kind == DLSH_N_FIELD && seq->nkids > 1) {
        const dlsh_node *of = seq->kids[0]->kids[0];
        const int order = dlsh_is_call_of(of, "randperm|arange") && of->nkids == 2;
        return (pieces){order ? dlsh_divisor_of(e, file, of->kids[1]) : samples_in(e, file, of),
                        number_of(e, file, seq->kids[1]), given};
    }
    if (!dlsh_is_call_of(seq, "range") || seq->nkids != 4) return pieces_of_loader(e, file, given);
    const long from = number_of(e, file, seq->kids[1]), to = dlsh_divisor_of(e, file, seq->kids[2]),
               size = number_of(e, file, seq->kids[3]);
    return (pieces){from >= 0 && to > from && size > 1 ? to - from : -1, size, given};
}

/* Does an expression count the pieces of a loop: batches where the loop adds 1 to it, len(...) of what it goes over, i
 * + 1 of an enumeration? */
static int counts_pieces(const char *file, const dlsh_node *n, const dlsh_node *loop, const pieces *p) {
    const int length = n->kind == DLSH_N_CALL && n->nkids == 2 && dlsh_names(n->kids[0], "len");
    DLSH_EACH_BELOW (t, length || name_of(n) ? dlsh_body_of(loop) : NULL)
        if (adds_to(file, t.n, length ? n->kids[1] : n) &&
            (length || (t.n->kids[1]->kind == DLSH_N_INT && t.n->kids[1]->num.i == 1)))
            return 1;
    if (length)
        return dlsh_same_text(file, n->kids[1], p->of) ||
               (p->of->kind == DLSH_N_NAME ? dlsh_made(file, n->kids[1]) == dlsh_made(file, p->of)
                                           : n->kids[1]->kind == DLSH_N_NAME && dlsh_made(file, n->kids[1]) == p->of);
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_ADD && n->kids[0]->kind == DLSH_N_NAME)
        return dlsh_is_call_of(loop->kids[loop->nkids - 2], "enumerate") &&
               dlsh_names(loop->kids[0], n->kids[0]->text) && n->kids[1]->kind == DLSH_N_INT && n->kids[1]->num.i == 1;
    return 0;
}

/* The samples that all pieces would have, were the last one as large as the others, where an expression counts these:
 * batches * 64, seen where the loop adds 64 to it; -1: it is something else. */
static long whole_pieces(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *loop,
                         const pieces *p) {
    const long all = p->rows > 0 && p->size > 1 ? (p->rows + p->size - 1) / p->size * p->size : -1;
    if (n->kind == DLSH_N_CALL && n->nkids == 2 && dlsh_is_call_of(n, "float|int")) n = n->kids[1];
    for (int k = 0; n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL && k < 2; k++)
        if (counts_pieces(file, n->kids[k], loop, p) && number_of(e, file, n->kids[!k]) == p->size) return all;
    const dlsh_node *made = n->kind == DLSH_N_NAME && !is_counted_in(loop, n->text) ? dlsh_defined(file, n) : NULL;
    if (made && made->kind == DLSH_N_BINARY && made->span.start > loop->span.end)
        return whole_pieces(e, file, made, loop, p);
    DLSH_EACH_BELOW (t, name_of(n) ? dlsh_body_of(loop) : NULL)
        if (adds_to(file, t.n, n) && number_of(e, file, t.n->kids[1]) == p->size) return all;
    return -1;
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

/* The last batch is smaller than the others, and counts as one of them. */
static void tell_whole(dlsh_examination *e, const char *file, const dlsh_node *use, long by, const pieces *p,
                       int line) {
    if (p->rows < 1 || 100 * by < 101 * p->rows) return;
    dlsh_found(
        e, file, use->span.line, "divide by the number of samples that were counted, as total += len(y)",
        "a figure of %ld samples is divided by %ld, as if each batch had %ld: it is %.3g times smaller than it is\n"
        "line %d counts batch by batch, and the last one has %ld samples alone",
        p->rows, by, p->size, (double)by / (double)p->rows, line, p->size - (by - p->rows));
}

/* hits / n, where hits was added up in a loop over a loader; then: what it is divided by, too, hits / batches / 64. */
static void look_at_counter(dlsh_examination *e, const char *file, const dlsh_node *use, const dlsh_node *then,
                            const dlsh_node *scope) {
    const dlsh_node *root = dlsh_text_root(file), *loop = NULL, *other = NULL, *by = use->kids[1];
    const dlsh_node *n = counter_of(file, scope, use->kids[0], use->span.start), *value = n ? n->kids[1] : NULL;
    const dlsh_node *each = value && value->kind == DLSH_N_BINARY && value->op == DLSH_OP_DIV ? value->kids[1] : NULL;
    if (each) value = value->kids[0]; /* a share of each batch */
    if (!n || (!comparison_of(value) && (each || !is_weighted(value)))) return;
    const dlsh_node *zero = dlsh_definition_of(file, name_of(use->kids[0])->text, n->span.start, NULL);
    const int inner = loops_around(root, n->span.start, &loop);
    if (!zero || !loop || loops_around(root, zero->span.start, &other) != inner - 1) return; /* over several epochs */
    dlsh_dealt d;
    if (use->span.start < loop->span.end) return;
    const pieces p = comparison_of(value) ? pieces_of(e, file, loop) : (pieces){.rows = -1};
    long whole = p.rows > 0 && !each && !then ? whole_pieces(e, file, by, loop, &p) : -1;
    for (int k = 0; p.rows > 0 && !each != !then && k < 2; k++) { /* one counts pieces, the other one is their size */
        const dlsh_node *a = each ? each : then;
        if (number_of(e, file, k ? by : a) == p.size && counts_pieces(file, k ? a : by, loop, &p))
            whole = (p.rows + p.size - 1) / p.size * p.size;
    }
    if (whole > 0) return tell_whole(e, file, each ? each : use, whole, &p, n->span.line);
    if (each || then || use->kids[0]->kind != DLSH_N_NAME ||
        (p.rows < 1 && !dlsh_loader_around(e, file, n->span.line, &d)))
        return;
    const int known = p.rows > 0 && !dlsh_loader_around(e, file, n->span.line, &d);
    tell(e, file, use, known ? p.rows : dl_dataset_len(d.data, d.split), divisor_of(e, file, use->kids[1], loop),
         n->span.line, known);
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
    const dlsh_node *of = n->kids[0], *outer = depth ? within[depth - 1] : NULL;
    const int again = outer && outer->kind == DLSH_N_BINARY && outer->op == DLSH_OP_DIV && outer->kids[0] == n;
    if (name_of(of) && scope) look_at_counter(ctx, file, n, again ? outer->kids[1] : NULL, scope);
    look_at_sum(ctx, file, n);
    return 0;
}

void dlsh_find_wrong_counts(dlsh_examination *e) { dlsh_each_within(see, e); }
