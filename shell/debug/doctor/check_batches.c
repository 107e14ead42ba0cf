/* The batches that nets were given: the same one at each step, random numbers that begin anew, and evaluations of what
 * was trained on, or of what was prepared in another way. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/data/pools.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"
#include "view/elements.h"

/* ---------------------------------------------------------------- random numbers that begin anew */

static void find_reseeded(dlsh_examination *e, const dl_journal_row *r) {
    if (r->reseeded < 3) return;
    dlsh_found(e, r->seeded.file, r->seeded.line, "set the seed once, before the loop",
               "the seed is set again and again in the loop: the same random numbers come in each time\n"
               "before %ld of %ld steps (line %d) random numbers went back to where they had been at a step before: "
               "dropout, noise and the order of samples repeat",
               r->reseeded, r->count, r->line);
}

/* ---------------------------------------------------------------- places of the text */

/* Of a line; 0: of any. */
static const dlsh_node *net_called(const dlsh_examination *e, const char *file, const dlsh_node *n, int line) {
    DLSH_EACH_BELOW (t, n) {
        const int call = t.n->kind == DLSH_N_CALL && t.n->nkids > 1 && (!line || t.n->span.line == line);
        const dlsh_value *v = call ? dlsh_value_of(e, file, t.n->kids[0]) : NULL;
        if (v && dlsh_unwrap(*v, &dlsh_net_class)) return t.n;
    }
    return NULL;
}

const dlsh_node *dlsh_call_of_net_at(const dlsh_examination *e, const char *file, int line) {
    return net_called(e, file, dlsh_text_root(file), line);
}

const dlsh_node *dlsh_call_of_net(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    return net_called(e, file, n, 0);
}

/* The line of dataset(x, y, x, y), which has the samples of training for its test split; 0: it has others. */
static int line_of_twice(const dlsh_examination *e, const char *file) {
    const dlsh_node *made = e->trainer ? dlsh_trainer_option(e, file, 1, "data") : NULL;
    const dlsh_node *x = made ? dlsh_argument_of(made, 0, "x") : NULL;
    const dlsh_node *test = made ? dlsh_argument_of(made, 2, "test_x") : NULL;
    return x && test && x->kind == DLSH_N_NAME && dlsh_names(test, x->text) ? made->span.line : 0;
}

/* Where the input of a net's pass was made: the data of a trainer, the loader of the loop, the nearest definition of
 * the variable, or what the function returns that made it. */
int dlsh_line_of_input(const dlsh_examination *e, const dl_journal_row *r) {
    dlsh_dealt l;
    if (e->trainer && r->what == dl_trainer_model(e->trainer)) {
        const dlsh_node *made = dlsh_trainer_option(e, r->file, 1, "data");
        const int part = made ? dlsh_test_line(r->file, made) : 0;
        const dlsh_node *test = made && !part ? dlsh_argument_of(made, 2, "test_x") : NULL;
        const dlsh_node *own = test && test->kind == DLSH_N_NAME ? dlsh_defined(r->file, test) : test;
        if (own && !(r->grad && dlsh_is_trained(e, r))) return own->span.line;
        if (made) return part ? part : made->span.line;
    }
    if (dlsh_loader_around(e, r->file, r->line, &l)) return l.line;
    const dlsh_node *call = dlsh_call_of_net_at(e, r->file, r->line);
    return dlsh_line_of_making(r->file, call ? call->kids[1] : NULL, r->line);
}

/* ---------------------------------------------------------------- the same batch at each step */

/* A pool that has more samples than the batch, which are like it. */
static const dlsh_pool *larger(const dlsh_pools *all, const dl_journal_row *r) {
    for (int i = 0; i < all->n; i++)
        if (all->at[i].n > r->shape[0] && dlsh_rows_in(&all->at[i], r) == r->nrows) return &all->at[i];
    return NULL;
}

int dlsh_is_in_pass(dlsh_pass p, const dl_journal_row *r) {
    for (long k = 0; k < p.n; k++)
        if (p.at[k].line == r->line && !strcmp(p.at[k].file, r->file)) return 1;
    return 0;
}

/* The targets of the loss in a pass; NULL: not known. */
static const dl_journal_value *targets_in(dlsh_pass p) {
    for (long k = 0; k < p.n; k++)
        if (dlsh_op_is(&p.at[k], "cross_entropy|nll_picked|logit_loss|probability_loss|sub") &&
            p.at[k].in[1].constant && p.at[k].in[1].ndim && p.at[k].in[1].n > 3)
            return &p.at[k].in[1];
    return NULL;
}

/* The input stays, and its targets do not: it is not the input of the loop. */
static int find_stale_input(dlsh_examination *e, const dl_journal_row *r) {
    DLSH_EACH_ROW (b, e, DL_DID_BACKWARD) {
        if (b->since || !dlsh_is_in_pass(dlsh_pass_of(b, 1), r)) continue; /* the first ones are of another training */
        const dl_journal_value *first = targets_in(dlsh_pass_of(b, 0)), *last = targets_in(dlsh_pass_of(b, 1));
        if (!first || !last || first == last || first->hash == last->hash) continue;
        dlsh_found(
            e, r->file, r->line, "the samples that the targets belong to, those of this pass",
            "the net is given the same input at each step, while the targets change: they do not belong together\n"
            "%ld passes had the same elements; the targets of the loss, line %d, differ from pass to pass",
            r->count, b->line);
        return 1;
    }
    return 0;
}

/* Was each of its passes given the same elements? */
static int is_always_same(const dl_journal_row *r) {
    long equal = 1; /* batches of rows that are all equal may well be of other samples */
    while (equal < r->nrows && r->rows[equal] == r->rows[0]) equal++;
    if (equal > 1 && equal == r->nrows) return 0;
    return r->count >= 8 && r->looked >= 4 && r->alike >= r->looked - 1;
}

/* Is the net trained elsewhere, with other samples? */
static int has_other_training(const dlsh_examination *e, const dl_journal_row *r) {
    DLSH_EACH_ROW (other, e, DL_DID_FORWARD)
        if (other != r && other->what == r->what && other->grad && other->x.hash != r->x.hash &&
            dlsh_is_trained(e, other) && (other->line != r->line || strcmp(other->file, r->file) != 0))
            return 1;
    return 0;
}

/* Is the batch taken anew in each pass, and not once before the loop, to learn it by heart? */
static int is_taken_in_loop(const dlsh_examination *e, const dl_journal_row *r) {
    dlsh_dealt l;
    return dlsh_loader_around(e, r->file, r->line, &l) ||
           !dlsh_is_before_loop(r->file, dlsh_line_of_input(e, r), r->line);
}

static void find_same_batch(dlsh_examination *e, const dlsh_pools *all, const dl_journal_row *r) {
    if (!is_always_same(r) || r->nrows < 2 || !r->grad) return;
    if (dlsh_is_trained(e, r) && !dlsh_was_found(e, e->check, "the seed") && find_stale_input(e, r)) return;
    const dlsh_pool *from = larger(all, r);
    const int anew = is_taken_in_loop(e, r);
    if (from && 2 * r->shape[0] >= from->n) return; /* all but what is kept apart */
    if (!from || !dlsh_is_trained(e, r) || dlsh_was_found(e, e->check, "the seed")) return;
    if (!anew && has_other_training(e, r)) return;
    if (dlsh_was_found(e, "the data", "fractions")) return; /* so that batches are all alike */
    dlsh_finding *f =
        dlsh_found(e, r->file, dlsh_line_of_input(e, r),
                   anew ? "go over all batches: for x, y in loader(d.train, ...), or for i in randperm(n).split(32)"
                        : "none, if one batch is to be learned by heart; else take the next batch",
                   "each step is given the same batch: the other samples are never trained on\n"
                   "%ld passes (line %d) had the same %ld of %ld samples of %s%s",
                   r->count, r->line, r->shape[0], from->n, from->name,
                   anew ? "; the batch is taken in the loop, each time the same one" : "; it is taken before the loop");
    if (!anew) dlsh_only_note(e, f);
}

/* ---------------------------------------------------------------- labels of other samples */

int dlsh_is_training_pass(const dlsh_examination *e, const dl_journal_row *r) {
    return r->grad && dlsh_is_trained(e, r);
}

/* How many of the targets of a pass differ from the labels of the samples that it had; -1: they are something else, as
 * of other classes or of another order of them. */
static int mismatches(const dlsh_pool *p, const dl_journal_row *r, const dl_journal_value *given, const double *label) {
    double mine[16];
    int differ = 0, odd = 0, pairs = 0;
    for (long i = 0; i < r->nrows; i++) {
        const dlsh_pool_row *at = dlsh_row_of(p, r->rows[i]);
        const int twice =
            at && ((at > p->row && at[-1].hash == at->hash) || (at + 1 < p->row + p->n && at[1].hash == at->hash));
        if (!at || twice) return -1;
        mine[i] = label[at->at];
        differ += mine[i] != given->few[i];
    }
    for (long i = 0; i < r->nrows; i++) {
        int known = 0, same = 0;
        for (long k = 0; k < p->n && !known; k++) known = label[k] == given->few[i];
        if (!known) return -1;
        for (long k = 0; k < i && !same; k++) {
            pairs += mine[k] == mine[i];
            same = mine[k] == mine[i] && given->few[k] != given->few[i];
        }
        odd += same;
    }
    if (differ && !pairs) return -1; /* numbers of rows, as of an order */
    return odd < 2 ? 0 : differ;     /* each class has another number, always the same */
}

/* Did another net run at the same place later, before the last of these backward passes, as in a loop over nets? */
static int is_of_former(const dlsh_examination *e, const dl_journal_row *r, const dl_journal_row *back) {
    DLSH_EACH_ROW (other, e, DL_DID_FORWARD)
        if (other->what != r->what && other->line == r->line && other->till > r->till && other->till < back->till &&
            !strcmp(other->file, r->file))
            return 1;
    return 0;
}

/* The targets of the pass that had this input: an operand of a loss with a number for each sample. */
const dl_journal_value *dlsh_targets_of(const dlsh_examination *e, const dl_journal_row *r, const dl_journal_row **pass,
                                        const dl_journal_node **loss) {
    DLSH_EACH_ROW (b, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(b, 1);
        if (b->count - b->since != r->count - r->since || !dlsh_is_in_pass(p, r) || is_of_former(e, r, b))
            continue; /* other passes were looked at */
        for (long k = 0; k < p.n; k++)
            for (int j = 1; j < p.at[k].nin && j < 3; j++) {
                const dl_journal_value *v = &p.at[k].in[j];
                if (!v->there || !v->constant || v->nfew != r->nrows || v->shape[0] != r->x.shape[0]) continue;
                if (!dlsh_op_is(&p.at[k], "cross_entropy|nll_picked|logit_loss|probability_loss")) continue;
                *pass = b, *loss = &p.at[k];
                return v;
            }
    }
    return NULL;
}

#define LOSSES "loss|entropy|nll|kl_div"
int dlsh_line_of_target(const dl_journal_node *loss) {
    const dlsh_node *n = dlsh_call_on_line(loss->file, loss->line, LOSSES);
    return dlsh_line_of_making(loss->file, n ? dlsh_argument_of(n, 1, "target") : NULL, loss->line);
}

int dlsh_labels_belong(const dlsh_examination *e, dl_tensor *x, dl_tensor *y) {
    const dl_journal_row *r, *pass;
    const dl_journal_node *loss;
    const long n = x && dl_ndim(x) ? dl_shape(x)[0] : 0;
    DLSH_FREED double *label = n && n <= DLSH_LABELS && dl_numel(y) == n ? malloc((size_t)n * sizeof *label) : NULL;
    dlsh_pool p = {.tensor = x, .n = n};
    int alike = 0;
    if (!label || n < 4 || dl_read_f64(y, label) || !dlsh_pool_fill(&p, dl_numel(x) / n)) return dl_error_clear(), 0;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_FORWARD, &i)) && alike >= 0;) {
        if (r->nrows < 8 || dlsh_rows_in(&p, r) < r->nrows || !dlsh_is_training_pass(e, r)) continue;
        const dl_journal_value *given = dlsh_targets_of(e, r, &pass, &loss);
        int same = 0;
        for (long k = 0; given && k < r->nrows; k++) same += label[dlsh_row_of(&p, r->rows[k])->at] == given->few[k];
        if (given) alike = same == r->nrows ? 1 : -1;
    }
    free(p.row);
    return alike > 0;
}

/* Are labels others than 0 and 1? Then a loss of yes and no has other targets, as whether a pair is of one class. */
static int has_more_classes(const dl_tensor *labels) {
    dlsh_stats s;
    if (dlsh_stats_of(labels, &s)) return dl_error_clear(), 0;
    return s.max > 1;
}

/* The fewest targets of a training pass that differ from labels of a pool with all of its samples; -1: not known. */
static int fewest_mismatches(const dlsh_examination *e, const dlsh_pool *p, const dl_journal_row *r,
                             const dl_journal_row **pass, const dl_journal_node **loss) {
    const int can = dlsh_is_training_pass(e, r) && r->nrows > 7 && dlsh_rows_in(p, r) == r->nrows;
    const dl_journal_value *given = can ? dlsh_targets_of(e, r, pass, loss) : NULL;
    int best = -1;
    dl_tensor *y;
    for (int number = 0; given && (y = dlsh_labels_of(e, p, number)); number++) {
        DLSH_OWNED dl_tensor *mine = y;
        DLSH_FREED double *label = malloc(((size_t)p->n + 1) * sizeof *label);
        const int binary = dlsh_op_is(*loss, "logit_loss|probability_loss");
        const int whole = !dl_dtype_is_float(dl_dtype_of(mine)) || binary;
        const int meant = whole && !(binary && has_more_classes(mine)) && dl_numel(mine) == p->n;
        const int wrong = label && meant && !dl_read_f64(mine, label) ? mismatches(p, r, given, label) : -1;
        if (wrong >= 0 && (best < 0 || wrong < best)) best = wrong;
    }
    return best;
}

/* Are the labels of a pool those of the training of another net? */
static int are_of_other_training(const dlsh_examination *e, const dlsh_pool *p, const dl_journal_row *r) {
    const dl_journal_row *pass;
    const dl_journal_node *loss;
    DLSH_EACH_ROW (other, e, DL_DID_FORWARD)
        if (other->what != r->what && !fewest_mismatches(e, p, other, &pass, &loss)) return 1;
    return 0;
}

static void find_other_labels(dlsh_examination *e, const dlsh_pools *all, const dl_journal_row *r) {
    const dl_journal_row *pass = NULL;
    const dl_journal_node *loss = NULL;
    int best = -1;
    const dlsh_pool *of = NULL;
    for (int k = 0; k < all->n && best; k++) {
        const int wrong = fewest_mismatches(e, &all->at[k], r, &pass, &loss);
        if (wrong >= 0 && (best < 0 || wrong < best)) best = wrong, of = &all->at[k];
    }
    if (best < 0 || 4 * best < r->nrows || dlsh_was_found(e, "the data", "labels do not belong")) return;
    if (are_of_other_training(e, of, r)) return;
    const dlsh_node *net = dlsh_call_of_net_at(e, r->file, r->line);
    const dlsh_node *by = dlsh_call_on_line(loss->file, loss->line, LOSSES);
    const int line = dlsh_line_of_two_draws(loss->file, net && net->nkids > 1 ? net->kids[1] : NULL,
                                            by ? dlsh_argument_of(by, 1, "target") : NULL, dlsh_line_of_target(loss));
    dlsh_found(e, loss->file, line, "take rows of inputs and targets alike",
               "labels do not belong to their inputs\n"
               "of %ld samples of %s that were looked at in the last pass (line %d) %d had another sample's label",
               r->nrows, of->name, r->line, best);
}

/* ---------------------------------------------------------------- evaluations */

static int is_evaluation(const dlsh_examination *e, const dl_journal_row *r) {
    int began = 0;
    DLSH_EACH_ROW (b, e, DL_DID_BACKWARD) began |= r->till > b->at;
    return began && !(r->grad && dlsh_is_trained(e, r));
}

/* Did it run when all training was over? */
static int is_behind_training(const dlsh_examination *e, const dl_journal_row *r) {
    const dl_journal_row *b;
    int over = 0;
    for (long i = 0; (b = dlsh_row_next(e, DL_DID_BACKWARD, &i)); over = 1)
        if (r->at < b->till) return 0;
    return over && !dlsh_is_trained(e, r);
}

int dlsh_is_evaluation_pass(const dlsh_examination *e, const dl_journal_row *r) {
    return is_evaluation(e, r) || is_behind_training(e, r);
}

/* What an expression picks from, without fields, indices and methods; of a loader its data. */
static const dlsh_node *picked_from(const dlsh_node *n) {
    while (n && n->kind != DLSH_N_NAME) {
        const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
        if (by && dlsh_names(by, "loader"))
            n = n->nkids > 1 ? n->kids[1] : NULL;
        else if (by)
            n = by->kind == DLSH_N_FIELD ? by->kids[0] : NULL;
        else
            n = n->kind == DLSH_N_FIELD || n->kind == DLSH_N_INDEX ? n->kids[0] : NULL;
    }
    return n;
}

/* What eval(t, split=part) in a statement has for its split; NULL: it has none. */
static const dlsh_node *split_of(const dlsh_node *n) {
    const dlsh_node *found = n && dlsh_is_call_of(n, "eval|evaluate") ? dlsh_argument_of(n, INT_MAX, "split") : NULL;
    for (int i = 0; n && i < n->nkids && !found; i++) found = split_of(n->kids[i]);
    return found;
}

/* Where the data of a net's pass are chosen: the call that gives them to the function around; 0: they are none of its
 * arguments. */
static int line_of_argument(const dlsh_examination *e, const dl_journal_row *r) {
    const dlsh_node *root = dlsh_text_root(r->file), *s = dlsh_statement_at(r->file, r->line);
    const dlsh_node *call = dlsh_call_of_net(e, r->file, s), *split = split_of(s);
    if (split && split->kind != DLSH_N_NAME) return split->span.line;
    if (split) {
        const dlsh_definition d = dlsh_define(root, split->text, split->span.start);
        return d.value ? d.value->span.line : split->span.line;
    }
    const dlsh_node *x = call ? picked_from(call->kids[1]) : NULL;
    int line = 0;
    for (int i = 0; root && x && i < 6; i++) {
        const dlsh_definition d = dlsh_define(root, x->text, x->span.start);
        if (!d.value || (!d.param && !d.each)) break;
        if (d.param) line = d.value->span.line;
        x = picked_from(d.value);
    }
    return line;
}

static long place_of(const dlsh_pool *p, const dl_journal_row *r, long i) {
    const dlsh_pool_row *at = dlsh_row_of(p, r->rows[i]);
    return at ? at->at : -1;
}

/* Are the evaluated rows a part of the table that stands together, with rows between its ends that were trained on? */
static int is_around_training(const dlsh_examination *e, const dlsh_pool *p, const dl_journal_row *test) {
    const long first = place_of(p, test, 0), last = place_of(p, test, test->nrows - 1);
    if (last - first + 1 != test->shape[0]) return 0;
    for (long i = 1; i < test->nrows; i++)
        if (place_of(p, test, i) <= place_of(p, test, i - 1)) return 0;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        for (long k = 0; r->what == test->what && k < r->nseen && dlsh_is_training_pass(e, r); k++) {
            const dlsh_pool_row *at = dlsh_row_of(p, r->seen[k]);
            if (at && at->at >= first && at->at <= last) return 1;
        }
    return 0;
}

/* Could the net have been given it in place of the table? Not what goes along with that, as a mask of its places. */
static int is_like(const dlsh_pool *p, const dlsh_pool *table) {
    if (!p->tensor || !table->tensor) return 1;
    dlsh_stats a, b;
    if (dl_dtype_of(p->tensor) != dl_dtype_of(table->tensor)) return 0;
    if (dlsh_stats_of(p->tensor, &a) || dlsh_stats_of(table->tensor, &b)) return dl_error_clear(), 0;
    return fabs(a.mean - b.mean) <= b.std && a.std < 2 * b.std && b.std < 2 * a.std;
}

/* Was the row of that hash looked at in a pass that trained the net? */
static int was_seen(const dlsh_examination *e, const void *net, unsigned long hash) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        for (long k = 0; r->what == net && dlsh_is_training_pass(e, r) && k < r->nseen; k++)
            if (r->seen[k] == hash) return 1;
    return 0;
}

/* The share of a pool's rows that were looked at in passes that trained the net. */
static double share_seen(const dlsh_examination *e, const void *net, const dlsh_pool *p) {
    long n = 0;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        for (long k = 0; r->what == net && dlsh_is_training_pass(e, r) && k < r->nseen; k++)
            n += dlsh_has_row(p, r->seen[k]);
    return (double)n / (double)p->n;
}

/* Is an evaluation of samples that the net was trained on? Of some of these it is known; where as many are known that
 * a few of the evaluated ones would be among them, their absence says no. */
static int is_of_training(const dlsh_examination *e, const dlsh_pools *all, const dl_journal_row *r) {
    int known = 0;
    for (long i = 0; i < r->nrows; i++) known += (!i || r->rows[i] != r->rows[0]) && was_seen(e, r->what, r->rows[i]);
    if (known > 1 && 4 * known >= r->nrows) return 1;
    for (int k = 0; k < all->n; k++)
        if (all->at[k].trained && dlsh_rows_in(&all->at[k], r) == r->nrows)
            return known || ((double)r->nrows * share_seen(e, r->what, &all->at[k]) < 3 &&
                             (all->at[k].data || is_around_training(e, &all->at[k], r)));
    return 0;
}

/* Had a pass that was looked at rows that were kept apart? Several calls of one function are one place. */
static int has_held(const dlsh_pools *all, const dl_journal_row *r) {
    long n = 0;
    for (int k = 0; k < all->n; k++)
        for (long i = 0; i < r->nseen && all->at[k].held; i++) n += dlsh_has_row(&all->at[k], r->seen[i]);
    return n > 1;
}

/* Are rows of each pass known, of those that were not looked at, too? */
static int are_all_known(const dl_journal_row *r) {
    return r->count == r->looked || ((!r->grad || !r->training) && r->nseen < DL_JOURNAL_SEEN);
}

enum { FEWEST_APART = 16 };

static dlsh_property is_named(void *name, const dlsh_step *at) {
    return dlsh_names(at->n, name) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* May it be a part that was kept apart of what is trained on? Sequences of words may be targets, with as many rows;
 * what nets gave is none, nor what the samples of the training were made of. */
static int is_apart(const dlsh_examination *e, const char *file, const dlsh_pool *p, const dlsh_pool *trained) {
    if (!p->held || !trained->trained || p->n < FEWEST_APART) return 0;
    const dlsh_node *made = p->tensor ? dlsh_definition_of(file, p->name, INT_MAX, NULL) : NULL;
    const dlsh_node *own = made && trained->tensor ? dlsh_definition_of(file, trained->name, INT_MAX, NULL) : NULL;
    if (made && dlsh_call_of_net(e, file, made)) return 0;
    if (own && dlsh_origin(file, own, is_named, (void *)p->name)) return 0;
    if (!p->tensor || !trained->tensor) return 1;
    const int words = !dl_dtype_is_float(dl_dtype_of(p->tensor));
    return (!words || p->n != trained->n) && is_like(p, trained);
}

/* Is it the evaluation that a trainer makes itself as it trains? */
static int runs_beside_training(const dlsh_examination *e, const dl_journal_row *r) {
    DLSH_EACH_ROW (b, e, DL_DID_BACKWARD)
        if (b->line == r->line && !strcmp(b->file, r->file)) return e->trainer != NULL;
    return 0;
}

/* All that a net was evaluated with are samples that it was trained on, although others were kept apart. */
static void find_seen(dlsh_examination *e, dlsh_pools *all, const void *net) {
    const dl_journal_row *seen = NULL;
    const dlsh_pool *apart = NULL;
    int others = 0, own = 0; /* own: of the trainer, which no figure of the text shows */
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (r->what != net || r->nrows < 2 || !dlsh_is_evaluation_pass(e, r)) continue;
        if (dlsh_gives_targets(e, r)) continue;
        if (r->x.n && r->x.low == r->x.high) continue; /* rows are all alike, whoever's they are */
        if (!has_held(all, r) && are_all_known(r) && is_of_training(e, all, r))
            seen = r;
        else if (runs_beside_training(e, r))
            own++;
        else
            others++;
    }
    for (int k = 0; seen && k < all->n && !apart; k++)
        for (int i = 0; i < all->n && !apart; i++)
            if (is_apart(e, seen->file, &all->at[k], &all->at[i])) apart = &all->at[k];
    if (!seen || others || !apart || dlsh_was_found(e, e->check, "the same batch")) return; /* to be learned by heart */
    const int claimed = dlsh_claims_test(seen->file, own);
    if (own && !claimed) return;
    if (dlsh_was_found(e, "the data", "scaled by its own")) return;
    const int twice = line_of_twice(e, seen->file);
    int line = twice ? twice : dlsh_line_of_input(e, seen);
    DLSH_EACH_ROW_WHILE (!twice, r, e, DL_DID_FORWARD)
        if (r->what == net && dlsh_is_training_pass(e, r) && dlsh_line_of_input(e, r) == line)
            line = seen->line; /* of both */
    const int chosen = twice ? 0 : line_of_argument(e, seen);
    dlsh_finding *f =
        dlsh_found(e, seen->file, chosen ? chosen : line, "evaluate with samples that were kept apart",
                   "the net is evaluated with the samples that it was trained on\n"
                   "all evaluations, as at line %d, are of training samples; the %ld of %s were never used",
                   seen->line, apart->n, apart->name);
    const dlsh_node *split = split_of(dlsh_statement_at(seen->file, seen->line));
    dl_trainer_state st = {0};
    if (e->trainer) dl_trainer_get(e->trainer, &st);
    const int meant = split && split->kind == DLSH_N_STR && st.batches == 1; /* one batch is to be learned by heart */
    if (meant || !claimed) dlsh_only_note(e, f);
}

/* Has the pool the samples of all passes that trained the net? */
static int has_trained(const dlsh_examination *e, const dlsh_pool *p, const void *net) {
    int any = 0;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (r->what != net || r->nrows < 2 || !dlsh_is_training_pass(e, r)) continue;
        if (dlsh_rows_in(p, r) < r->nrows) return 0;
        any = 1;
    }
    return any;
}

/* Was another net trained on samples of a pool, as the one that is given the other half of pairs? */
static int has_trained_another(const dlsh_examination *e, const dlsh_pool *p, const void *net) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (r->what != net && r->nrows > 1 && dlsh_is_training_pass(e, r) && dlsh_rows_in(p, r) == r->nrows) return 1;
    return 0;
}

/* The smallest pools that a net was trained on, and those that have none of these samples. */
static void mark_pools(const dlsh_examination *e, dlsh_pools *all, const void *net) {
    const dlsh_pool *least = NULL;
    for (int k = 0; k < all->n; k++) {
        const dlsh_pool *p = &all->at[k];
        if (has_trained(e, p, net) && (!least || p->n < least->n)) least = p;
    }
    for (int k = 0; least && k < all->n; k++) {
        dlsh_pool *p = &all->at[k];
        p->trained = p == least;
        p->held = !p->trained && !has_trained_another(e, p, net);
        for (long i = 0; i < p->n && p->held; i++) p->held = !dlsh_has_row(least, p->row[i].hash);
    }
}

/* ---------------------------------------------------------------- inputs that were prepared in another way */

static int has_scale(const dl_journal_row *r) {
    return r->x.n >= 64 && r->ndim > 1 && r->shape[0] >= 8 && r->x.std > 0 && isfinite(r->x.mean);
}

/* Whole numbers, such as those of words, have no scale. */
static int differs(const dl_journal_value *a, const dl_journal_value *b) {
    const double ratio = b->std / a->std, shift = fabs(b->mean - a->mean) / a->std;
    const int many = a->n >= 256 && b->n >= 256;
    return ratio > (many ? 2.2 : 4) || ratio < (many ? 1 / 2.2 : 0.25) || shift > (many ? 1.5 : 3);
}

static dlsh_property is_grid(void *ctx, const dlsh_step *at) {
    (void)ctx;
    return dlsh_is_call_of(at->n, "linspace|meshgrid|cartesian_prod") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Points that are drawn where they are used, or laid out, as those of a grid. */
static int is_made_up(const char *file, const dlsh_node *x) {
    return dlsh_mentions(x, "rand") || dlsh_mentions(x, "randn") || dlsh_origin(file, x, is_grid, NULL);
}

/* Is a net asked on a line for such points, and not for samples? */
static int asks_for_points(const dlsh_examination *e, const dl_journal_row *r, const dlsh_node *n) {
    const dlsh_node *call = n ? net_called(e, r->file, n, r->line) : NULL;
    if (call && is_made_up(r->file, call->kids[1])) return 1;
    for (int i = 0; call && i < n->nkids; i++)
        if (asks_for_points(e, r, n->kids[i])) return 1;
    return 0;
}

/* Are both rows of one table as it is? Then they were prepared alike, and what they are makes them differ. */
static int are_of_one_table(const dlsh_pools *all, const dl_journal_row *a, const dl_journal_row *b) {
    for (int k = 0; k < all->n; k++)
        if (dlsh_rows_in(&all->at[k], a) == a->nrows && dlsh_rows_in(&all->at[k], b) == b->nrows) return 1;
    return 0;
}

/* What a pass is given in the text: an argument of the net, or of the trainer's data set; NULL: not known. */
static const dlsh_node *given_to(const dlsh_examination *e, const dl_journal_row *r, int training) {
    const dlsh_node *call = dlsh_call_of_net_at(e, r->file, r->line);
    const dlsh_node *data = call ? NULL : dlsh_trainer_option(e, r->file, 1, "data");
    if (call) return call->kids[1];
    return data ? dlsh_argument_of(data, training ? 0 : 2, training ? "x" : "test_x") : NULL;
}

static void find_other_scale(dlsh_examination *e, const dlsh_pools *all, const dl_journal_row *test) {
    const dl_journal_row *train = NULL;
    if (!has_scale(test) || !dlsh_is_evaluation_pass(e, test)) return;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (r->what != test->what || !has_scale(r) || !dlsh_is_training_pass(e, r)) continue;
        if (!differs(&r->x, &test->x) || are_of_one_table(all, r, test)) return;
        if (!train || r->count > train->count) train = r;
    }
    if (!train || asks_for_points(e, test, dlsh_text_root(test->file)) ||
        dlsh_was_found(e, "the data", "as those of training") || dlsh_was_found(e, "the data", "written in place") ||
        dlsh_was_found(e, "training and evaluation mode", "averages of batchnorm")) /* so that layers differ */
        return;
    const int line = dlsh_line_of_input(e, test), own = dlsh_line_of_input(e, train);
    if (dlsh_is_scaled_alike(test->file, own, line)) return;
    const dlsh_node *a = dlsh_call_of_net_at(e, train->file, train->line);
    const dlsh_node *b = dlsh_call_of_net_at(e, test->file, test->line);
    const dlsh_node *of_train, *of_test, *by = NULL;
    const int known = !strcmp(train->file, test->file);
    dlsh_scaled_alone(test->file, known ? given_to(e, train, 1) : NULL, given_to(e, test, 0), &of_train, &of_test);
    const int plain =
        of_train && !of_test ? line_of_argument(e, test) : 0; /* the evaluated ones are given as they are */
    if (of_train && !of_test)
        by = plain ? NULL : given_to(e, test, 0);
    else if (own == line)
        by = a && b ? dlsh_apart(test->file, b->kids[1], a->kids[1]) : of_test;
    dlsh_finding *f =
        dlsh_found(e, test->file,
                   plain ? plain
                   : by  ? by->span.line /* by one function: where it is given something else */
                         : line,
                   "prepare both alike, with the figures of the training samples: (x - mean_train) / std_train",
                   "what the net is evaluated with is not scaled as what it was trained on\n"
                   "samples that are evaluated have mean %.4g and deviation %.4g (line %d), those that are trained on "
                   "mean %.4g and deviation %.4g (line %d)%s",
                   test->x.mean, test->x.std, test->line, train->x.mean, train->x.std, train->line,
                   of_train && !of_test ? dlsh_kept(e, ": line %d scales those alone", of_train->span.line) : "");
    if (!f) return;
    f->effect = dlsh_was_found(e, "gradients are zeroed", "");
}

/* Was a variable that holds samples of evaluations scaled by itself, and one of training by itself, too? */
static void find_own_figures(dlsh_examination *e, const dlsh_pools *all, const void *net) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (r->what != net || r->nrows < 2 || !dlsh_is_evaluation_pass(e, r)) continue;
        for (int k = 0; k < all->n; k++)
            for (int j = 0; j < all->n; j++) {
                const dlsh_pool *train = &all->at[k], *test = &all->at[j];
                if (!train->tensor || !test->tensor || dlsh_rows_in(test, r) < r->nrows || !has_trained(e, train, net))
                    continue;
                const dlsh_node *a = dlsh_definition_of(r->file, train->name, INT_MAX, NULL);
                const dlsh_node *b = dlsh_definition_of(r->file, test->name, INT_MAX, NULL);
                const dlsh_share one = {a, train->tensor, train->name}, other = {b, test->tensor, test->name};
                if (a && b && !has_trained(e, test, net) && dlsh_compare_figures(e, r->file, &one, &other)) return;
            }
    }
}

static dlsh_share part_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_value *v = n->kind == DLSH_N_NAME ? dlsh_value_of(e, file, n) : NULL;
    return (dlsh_share){n, v && v->type == DLSH_TENSOR ? v->as.tensor : NULL, v ? n->text : ""};
}

/* dataset(x, y, test_x, test_y): inputs and targets. */
static void find_own_figures_of_data(dlsh_examination *e) {
    static const char *const names[] = {"x", "y", "test_x", "test_y"};
    const char *file = e->trainer ? dlsh_optimizer_source(dl_trainer_optimizer(e->trainer)).file : NULL;
    const dlsh_node *made = file ? dlsh_trainer_option(e, file, 1, "data") : NULL;
    for (int i = 0; made && i < 2; i++) {
        const dlsh_node *a = dlsh_argument_of(made, i, names[i]), *b = dlsh_argument_of(made, i + 2, names[i + 2]);
        if (!a || !b) continue;
        const dlsh_share train = part_of(e, file, a), test = part_of(e, file, b);
        dlsh_compare_figures(e, file, &train, &test);
    }
}

/* ---------------------------------------------------------------- the check */

static void examine_net(dlsh_examination *e, const dl_journal_row *first) {
    const dl_journal_row *r;
    dlsh_pools all = {.n = 0};
    long width = 0;
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_FORWARD, &i)) && !width;)
        if (r->what == first->what && r->nrows > 1 && r->grad) width = r->x.ndim ? 1 : 0;
    if (!width) return;
    for (int d = 1; d < first->x.ndim; d++) width *= first->x.shape[d];
    dlsh_pools_find(e, &all, width);
    mark_pools(e, &all, first->what);
    for (long i = 0; (r = dlsh_row_next(e, DL_DID_FORWARD, &i));)
        if (r->what == first->what)
            find_other_scale(e, &all, r), find_same_batch(e, &all, r), find_other_labels(e, &all, r);
    find_seen(e, &all, first->what);
    dlsh_find_wrong_claim(e, &all);
    find_own_figures(e, &all, first->what);
    dlsh_find_shared(e, &all, first->what);
    dlsh_find_kept_net(e, &all, first->what, width);
    dlsh_pools_free(&all);
}

/* The pass of a training that is given the same samples at each step; NULL: there is none. */
const dl_journal_row *dlsh_same_batch(const dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (dlsh_is_training_pass(e, r) && is_always_same(r)) return r;
    return NULL;
}

static void tell_passed(dlsh_examination *e) {
    const dl_journal_row *same = dlsh_same_batch(e);
    long seen = 0, rows = 0, known = 0, places = 0, unknown = 0, lines = 0;
    int line = 0, own = 0, anew = 0;
    char rest[160] = "no evaluation of a net as a whole was seen";
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        if (dlsh_is_training_pass(e, r)) seen += r->looked, places++;
        if (dlsh_is_training_pass(e, r) || !dlsh_is_evaluation_pass(e, r)) continue;
        const long had = known;
        for (long k = 0; k < r->nrows; k++) rows++, known += was_seen(e, r->what, r->rows[k]);
        if (r->nrows && r->line != line) lines++, line = r->line;
        if (r->nrows) anew |= 4 * (r->nrows - known + had) >= r->nrows;
        if (4 * (known - had) >= r->nrows && r->nrows) own = line; /* a few may be equal by chance */
        unknown += !r->nrows;
    }
    if (own)
        snprintf(rest, sizeof rest,
                 "of %ld evaluated samples looked at %ld are of the training, as line %d has them; %s", rows, known,
                 own, anew ? "the others are not" : "no evaluation of new ones was seen");
    else if (rows)
        snprintf(rest, sizeof rest, "%ld of %ld evaluated samples (line %d%s) were seen in the training", known, rows,
                 line, lines > 1 ? " and others" : "");
    else if (unknown)
        snprintf(rest, sizeof rest, "of evaluations the samples are not known");
    if (own && !anew && seen > 1 && !same)
        dlsh_unchecked(e, "%s", rest);
    else if (same)
        dlsh_passed(e, "each step%s has the same %ld samples (line %d); %s",
                    places > 1 ? " of one of the trainings" : "", same->shape[0], same->line, rest);
    else if (seen > 1)
        dlsh_passed(e, "the samples change from step to step, in %ld steps that were looked at; %s", seen, rest);
    else
        dlsh_unchecked(e, "the samples of each step are not known; random numbers go on from step to step");
}

dl_status dlsh_check_batches(dlsh_examination *e) {
    const dl_journal_row *before;
    long steps = 0;
    DLSH_EACH_ROW (r, e, DL_DID_STEP) find_reseeded(e, r), steps += r->count;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        int known = 0;
        for (long k = 0; (before = dlsh_row_next(e, DL_DID_FORWARD, &k)) && before != r;)
            known |= before->what == r->what;
        if (!known && r->nrows > 1 && dlsh_live_net(e, r->what, NULL)) examine_net(e, r);
        DLSH_TRY(dlsh_check_interrupt());
    }
    find_own_figures_of_data(e);
    for (int i = 0; dlsh_was_found(e, e->check, "training has no sample of") && i < e->nfindings; i++)
        e->findings[i].effect |= strstr(e->findings[i].cause, "not scaled as what") != NULL;
    if (steps) tell_passed(e);
    return DL_OK;
}
