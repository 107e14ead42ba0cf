/* Modes: which forward pass ran in the wrong one, and who switched it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/trial.h"
#include "debug/doctor/texts.h"
#include "view/elements.h"

/* Are all parameters of a layer frozen, or with optimizers that took no step in the course of passes? Then figures that
 * it has learned are kept on purpose. */
static int stays(const dlsh_examination *e, const dl_module *m, const dl_journal_row *pass) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors((dl_module *)m, 1);
    long known = 0;
    int trained = !l || !l->n;
    for (long i = 0; l && i < l->n; i++) {
        const dl_tensor *t = l->entries[i].tensor;
        if (!dl_requires_grad(t)) continue;
        known = 0;
        DLSH_EACH_ROW (r, e, DL_DID_STEP) {
            const dl_optimizer *o =
                r->till > pass->at && r->at < pass->till ? dlsh_live_optimizer(e, r->what, NULL) : NULL;
            known += o != NULL, trained |= o && dlsh_optimizer_has(o, t);
        }
        trained |= !known;
    }
    return !trained;
}

/* A layer that works differently in training and in evaluation, of those that are in that mode now; -1: in any; but: a
 * batch norm that stays as it is in the course of these passes is left out. NULL: none. */
static const char *differs(const dlsh_examination *e, dl_module *m, int mode, const dl_journal_row *but) {
    const char *kind = dl_module_kind(m);
    const int as_net = mode < 0 || mode == dl_module_training(m), norm = strstr(kind, "batchnorm") != NULL;
    if (strstr(kind, "dropout") || norm) return as_net && !(but && norm && stays(e, m, but)) ? kind : NULL;
    const char *found = NULL;
    for (int i = 0; !found && i < dl_module_count(m); i++) found = differs(e, dl_module_at(m, i), mode, but);
    return found;
}

/* Parts that were in the other mode than their net, as a frozen body, are left out. */
static const char *differs_in(const dlsh_examination *e, dl_module *m, const dl_journal_row *pass) {
    return differs(e, m, pass->without ? dl_module_training(m) : -1, pass->training || !pass->grad ? NULL : pass);
}

/* Is what is computed at the line of a pass a part of a loss, as what a teacher says is? */
static int feeds_loss(const dlsh_examination *e, const dl_journal_row *at) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (!strcmp(r->file, at->file) && dlsh_comes_from(e, r->file, r->line, at->line)) return 1;
    return 0;
}

/* Did a backward pass, as far as it was looked at, go through what was computed at the line, or begin there? */
static int goes_back(const dlsh_examination *e, const dl_journal_row *at) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        if (r->line == at->line && !strcmp(r->file, at->file)) return 1;
        for (int last = 0; last < 2; last++) {
            dlsh_pass p = dlsh_pass_of(r, last);
            for (long k = 0; k < p.n; k++)
                if (p.at[k].line == at->line && !strcmp(p.at[k].file, at->file)) return 1;
        }
    }
    return 0;
}

int dlsh_is_trained(const dlsh_examination *e, const dl_journal_row *at) {
    return goes_back(e, at) || feeds_loss(e, at);
}

int dlsh_gives_targets(const dlsh_examination *e, const dl_journal_row *at) {
    return !at->grad && feeds_loss(e, at) && !goes_back(e, at);
}

int dlsh_targets_move(const dlsh_examination *e, const dl_journal_row *pass) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (2 * r->count >= pass->count && r->till > pass->at && !goes_back(e, r) &&
            dlsh_comes_from(e, pass->file, pass->line, r->line) && !strcmp(r->file, pass->file))
            return 1;
    return 0;
}

/* The last switch of the net to that mode before the pass; NULL: nobody did. */
static const dl_journal_row *switched(const dlsh_examination *e, const dl_journal_row *pass, int training) {
    const dl_journal_row *found = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_MODE)
        if (r->what == pass->what && r->training == training && r->at < pass->till && (!found || r->till > found->till))
            found = r;
    return found;
}

static int are_of_one_function(const dl_journal_row *a, const dl_journal_row *b) {
    const dlsh_node *of_a[DLSH_AROUND], *of_b[DLSH_AROUND];
    const dlsh_node *root = dlsh_text_root(a->file), *at = dlsh_statement_at(a->file, a->line);
    const dlsh_node *other = dlsh_statement_at(b->file, b->line);
    if (!root || !at || !other || strcmp(a->file, b->file) != 0) return 0;
    int n = dlsh_functions_around(root, at->span.start, of_a), k = dlsh_functions_around(root, other->span.start, of_b);
    while (n && !of_a[n - 1]->text) n--; /* of a comprehension */
    while (k && !of_b[k - 1]->text) k--;
    return n && k && of_a[n - 1] == of_b[k - 1];
}

/* Was anything trained before? */
static int comes_after_training(const dlsh_examination *e, const dl_journal_row *row) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (r->at < row->at) return 1;
    return 0;
}

/* The switch to training mode that is made for passes, by the function that runs them or behind the training: the last
 * one before the last of them, without a backward pass between both; NULL: there is none. */
static const dl_journal_row *switched_for(const dlsh_examination *e, const dl_journal_row *pass) {
    const dl_journal_row *found = NULL;
    DLSH_EACH_ROW (r, e, DL_DID_MODE)
        if (r->what == pass->what && r->till < pass->till && (!found || r->till > found->till)) found = r;
    DLSH_EACH_ROW_WHILE (found, r, e, DL_DID_BACKWARD)
        if (r->till > found->till && r->till < pass->till) return NULL;
    return found && found->training && (are_of_one_function(found, pass) || comes_after_training(e, found)) ? found
                                                                                                            : NULL;
}

/* Was the net trained in training mode before, elsewhere? Then what batch norms have learned may be kept on purpose. */
static int was_trained_before(const dlsh_examination *e, const dl_journal_row *pass) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (r->what == pass->what && r->training && r->till < pass->at && r->line != pass->line &&
            dlsh_is_trained(e, r))
            return 1;
    return 0;
}

/* Is a part of a net frozen, so that another part is trained behind features that are to stay as they are? */
static int is_partly_frozen(dl_module *m) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++)
        if (!dl_requires_grad(l->entries[i].tensor)) return 1;
    return 0;
}

static void trained_in_evaluation(dlsh_examination *e, const dl_journal_row *r, dl_module *m, const char *name,
                                  const char *kind) {
    const dl_journal_row *by = switched(e, r, 0);
    dlsh_finding *f = dlsh_find_at(e, by ? by->file : r->file, by ? by->line : r->line,
                                   dlsh_kept(e, "%s.train() before training goes on", name));
    dlsh_cause(f, "%s is trained in evaluation mode: %s does not work", name, kind);
    if (by)
        dlsh_evidence(f, "line %d switched to it, and %ld forward passes at line %d ran so, with a backward pass",
                      by->line, r->count, r->line);
    else
        dlsh_evidence(f, "%ld forward passes at line %d ran so, with a backward pass", r->count, r->line);
    const int probe = by && dlsh_is_before_loop(by->file, by->line, r->line) && is_partly_frozen(m);
    if (probe || (strstr(kind, "batchnorm") && was_trained_before(e, r))) dlsh_only_note(e, f);
}

/* Did training go on between the first such pass and the last one? */
static int trains_between(const dlsh_examination *e, const dl_journal_row *pass) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if ((r->at > pass->at && r->at < pass->till) || (r->till > pass->at && r->till < pass->till)) return 1;
    return 0;
}

/* Had the passes each of their samples, as far as rows are noted, three times or more? */
static int has_rows_again(const dl_journal_row *r) {
    enum { ROWS_OF_PASS = 64, ROWS_OF_OTHERS = 4 };
    const long n = r->ndim ? r->shape[0] : 0, often = n < ROWS_OF_PASS ? n : ROWS_OF_PASS;
    const int all = !r->training || !r->grad; /* else those of passes looked at alone */
    const long noted = r->looked * often + all * (r->count - r->looked) * (n < ROWS_OF_OTHERS ? n : ROWS_OF_OTHERS);
    return r->nseen && r->nseen < DL_JOURNAL_SEEN && noted >= 3 * r->nseen;
}

/* Is the call of the net an item of a list that takes no part in it, [m(x) for k in range(50)]? */
static int is_listed_as_is(const dlsh_examination *e, const dl_journal_row *r) {
    enum { DEEPEST = 64 };
    const dlsh_node *call = dlsh_call_of_net_at(e, r->file, r->line), *around[DEEPEST];
    const int depth = call ? dlsh_nodes_around(dlsh_text_root(r->file), call->span.start, around, DEEPEST) : 0;
    for (int i = depth - 1; i >= 0; i--)
        if (around[i]->kind == DLSH_N_COMPREHENSION) return !dlsh_mentions(call, around[i]->kids[0]->kids[0]->text);
    return 0;
}

/* Is the spread of several passes over the same samples asked for, with units that are dropped? */
static int is_repeated(const dlsh_examination *e, const dl_journal_row *r) {
    const int same = r->looked > 2 && 2 * r->alike >= r->looked, meant = switched(e, r, 1) || is_listed_as_is(e, r);
    return r->count >= 5 && (same || has_rows_again(r)) && meant && !trains_between(e, r);
}

int dlsh_asks_for_spread(const dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (!r->grad && is_listed_as_is(e, r) && is_repeated(e, r)) return 1;
    return 0;
}

/* Did the same switch to training mode come before passes whose spread is asked for? Then it is meant. */
static int is_beside_repeated(const dlsh_examination *e, const dl_journal_row *r) {
    const dl_journal_row *by = switched(e, r, 1);
    DLSH_EACH_ROW_WHILE (by, other, e, DL_DID_FORWARD)
        if (other->what == r->what && other->training && !other->grad && by->till < other->at && by->till < r->at &&
            switched(e, other, 1) == by && is_repeated(e, other))
            return 1;
    return 0;
}

/* Is the pass there for the averages of batch norm alone, so that nobody gets its result? Then nothing is evaluated. */
static int is_for_averages(const dlsh_examination *e, const dl_journal_row *r) {
    DLSH_EACH_BELOW (t, r->grad ? NULL : dlsh_text_root(r->file))
        if (t.n->kind == DLSH_N_EXPR && t.n->span.line == r->line && dlsh_call_of_net(e, r->file, t.n) == t.n->kids[0])
            return 1;
    return 0;
}

/* Is the net trained at a later time than these passes began, so that it is to go back to training mode? */
static int is_trained_after(const dlsh_examination *e, const dl_journal_row *pass) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (r->what == pass->what && r->till > pass->at && r->grad && dlsh_is_trained(e, r)) return 1;
    return 0;
}

/* Does the net stay as it is in the loop of passes whose results a loss is given, as a teacher that was trained before?
 */
static int is_fixed(const dlsh_examination *e, const dl_journal_row *pass, dl_module *m) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 1);
    for (long i = 0; l && i < l->n; i++) {
        const dl_source writer = dlsh_writer_of(l->entries[i].tensor);
        if (writer.file && !strcmp(writer.file, pass->file) && dlsh_runs_in_loop(pass->file, writer.line, pass->line))
            return 0;
        DLSH_EACH_ROW (step, e, DL_DID_STEP) {
            const dl_optimizer *o = step->till > pass->at ? dlsh_live_optimizer(e, step->what, NULL) : NULL;
            if (o && dlsh_optimizer_has(o, l->entries[i].tensor)) return 0;
        }
    }
    return l && l->n && pass->count > 4;
}

/* Does any training run within a node of the text? */
static int trains_within(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (!strcmp(r->file, file) && dlsh_runs_within(file, r->line, n)) return 1;
    return 0;
}

/* Where the evaluation begins that a pass in a loop is of: the function around it, or else the outermost loop or
 * no_grad, in which nothing is trained. NULL: the pass is all of it. */
static const dlsh_node *evaluation_around(const dlsh_examination *e, const dl_journal_row *pass) {
    enum { DEEPEST = 64 };
    const dlsh_node *around[DEEPEST], *at = dlsh_statement_at(pass->file, pass->line), *found = NULL;
    int depth = at ? dlsh_nodes_around(dlsh_text_root(pass->file), at->span.start, around, DEEPEST) : 0;
    while (depth > 1 && !dlsh_is_loop(around[depth - 1])) depth--; /* in a loop */
    for (int i = 1; i < depth; i++) {
        const dlsh_node *n = around[i];
        const int fn = n->kind == DLSH_N_FN && n->text, no_grad = dlsh_is_within(around + i, 1, "no_grad");
        if (n->kind == DLSH_N_NET) return NULL;
        if ((!fn && (found || !(dlsh_is_loop(n) || no_grad))) || trains_within(e, pass->file, n)) continue;
        found = n;
    }
    DLSH_EACH_BELOW_IF (t, found, found && !dlsh_is_loop(t.n) && t.n->kind != DLSH_N_FN)
        if (t.n->kind == DLSH_N_BLOCK && t.n->nkids == 1 && dlsh_is_loop(t.n->kids[0])) return t.n->kids[0];
    return found;
}

/* The last call of a function in a tree, in a line before another one; NULL: there is none. */
static const dlsh_node *last_call_before(const dlsh_node *n, const char *function, int line) {
    const dlsh_node *found = NULL;
    for (int i = n->nkids - 1; function && i >= 0 && !found; i--)
        found = n->kids[i] ? last_call_before(n->kids[i], function, line) : NULL;
    if (found || !function) return found;
    return n->kind == DLSH_N_CALL && n->span.line < line && dlsh_names(n->kids[0], function) ? n : NULL;
}

/* The statement in the same evaluation that switches to training mode, as by a function that it calls; 0: none does. */
static int line_of_switch(const dl_journal_row *by, const dlsh_node *around, const dl_journal_row *pass) {
    int places[DLSH_LEVELS];
    const dlsh_node *root = by ? dlsh_text_root(by->file) : NULL,
                    *s = root ? dlsh_statement_at(by->file, by->line) : NULL;
    const dlsh_node *of[DLSH_AROUND], *call;
    const int depth = s ? dlsh_functions_around(root, s->span.start, of) : 0;
    if (depth && around && (call = last_call_before(around, of[depth - 1]->text, pass->line))) return call->span.line;
    const int n = by && around ? dlsh_places_of(by->file, by->line, places) : 0;
    for (int i = 0; i < n; i++)
        if (places[i] > around->span.start && places[i] < around->span.end)
            return dlsh_line_of_place(by->file, places[i]);
    return 0;
}

/* targets: what it gives goes into the loss of another net. */
static void evaluated_in_training(dlsh_examination *e, const dl_journal_row *r, const char *name, const char *kind,
                                  int targets) {
    const dl_journal_row *by = switched(e, r, 1);
    char told[80];
    snprintf(told, sizeof told, "%.40s makes targets", name);
    if (dlsh_was_found(e, e->check, told)) return; /* one eval() mends both */
    if (is_for_averages(e, r) || (!targets && is_repeated(e, r)) ||
        (!targets && strstr(kind, "dropout") && is_beside_repeated(e, r)))
        return;
    const dl_journal_row *own = targets ? NULL : switched_for(e, r);
    const dlsh_node *of = targets || own ? NULL : evaluation_around(e, r);
    const int switches = line_of_switch(by, of, r), whole = of && of->kind == DLSH_N_FN && !switches;
    const char *begin = whole ? "as it begins" : "before it";
    if (own) by = own;
    dlsh_finding *f = dlsh_find_at(e, own ? own->file : r->file,
                                   own        ? own->line
                                   : switches ? switches
                                   : of       ? of->span.line
                                              : r->line,
                                   own || switches          ? dlsh_kept(e, "%s.eval() here", name)
                                   : is_trained_after(e, r) ? dlsh_kept(e, "%s.eval() %s, %s.train() %s", name, begin,
                                                                        name, whole ? "when it is over" : "after it")
                                   : targets ? dlsh_kept(e, "%s.eval() before the loop: it is trained no more", name)
                                             : dlsh_kept(e, "%s.eval() %s", name, begin));
    dlsh_cause(f, "%s %s in training mode: %s", name, targets ? "makes targets" : "is evaluated",
               strstr(kind, "dropout") ? "dropout drops units"
                                       : "batchnorm takes the figures of the batch, and its averages change");
    if (by)
        dlsh_evidence(f, "the forward pass at %s:%d has no backward pass; %s:%d switched to training mode", r->file,
                      r->line, by->file, by->line);
    else
        dlsh_evidence(f, "the forward pass at %s:%d has no backward pass, and no statement before it calls %s.eval()",
                      r->file, r->line, name);
}

int dlsh_training_began(const dlsh_examination *e, const dl_journal_row *pass) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (pass->till > r->at) return 1;
    return 0;
}

static int is_evaluated(const dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if (!r->training && r->what == e->net) return 1;
    return e->trainer != NULL;
}

/* Are all elements of a buffer of a layer that number? */
static int is_all(dl_module *m, const char *name, double value) {
    dl_module_list *l = dl_module_tensors(m, 3);
    int all = 0;
    for (long i = 0; l && i < l->n; i++) {
        dlsh_stats s;
        if (!l->entries[i].buffer || strcmp(l->entries[i].path, name) != 0) continue;
        all = !dlsh_stats_of(l->entries[i].tensor, &s) && s.n && s.min == value && s.max == value;
    }
    dl_module_list_free(l);
    return all;
}

/* The momentum of a batch norm. */
static double momentum_of(const dl_module *m) {
    static const char option[] = "momentum=";
    char *text = dl_module_text(m);
    const char *at = text ? strstr(text, option) : NULL;
    const double momentum = at ? strtod(at + sizeof option - 1, NULL) : 0.1;
    dl_text_free(text);
    return momentum;
}

/* Averages that have hardly left what they began with, or that are those of the last batch alone. */
static void look_at_momentum(dlsh_examination *e, dl_module *m, long passes) {
    const double momentum = momentum_of(m), left = pow(1 - momentum, (double)passes);
    const dl_source at = dlsh_module_source(m);
    if (passes < 20 || !(left > 0.2 || momentum >= 0.9)) return;
    static const char remedy[] = "momentum=0.1, the share of the new batch";
    if (left > 0.2)
        dlsh_found(e, at.file, at.line, remedy,
                   "the averages of batchnorm lag behind: momentum=%.4g is too small, evaluation takes other figures "
                   "than training\n"
                   "momentum is the share that a batch adds; after %ld passes in training mode the means and variances "
                   "still are, by %.0f %%, the 0 and 1 that they began with",
                   momentum, passes, 100 * left);
    else
        dlsh_found(e, at.file, at.line, remedy,
                   "the averages of batchnorm are those of the last batch: momentum=%.4g is too large\n"
                   "momentum is the share that a batch adds: %.2g of the former average is left after one more",
                   momentum, 1 - momentum);
}

/* Batch norms whose averages are as they began, after passes in training mode: evaluation has no use for them. */
static void find_stale_averages(dlsh_examination *e, dl_module *m, long passes) {
    for (int i = 0; i < dl_module_count(m); i++) find_stale_averages(e, dl_module_at(m, i), passes);
    if (!strstr(dl_module_kind(m), "batchnorm")) return;
    if (!is_all(m, "running_mean", 0) || !is_all(m, "running_var", 1)) {
        look_at_momentum(e, m, passes);
        return;
    }
    dl_source at = dlsh_module_source(m);
    dlsh_found(e, at.file, at.line, "momentum=0.1; or let the layer train",
               "the averages of batchnorm never change: in evaluation it does not normalise\n"
               "after %ld passes in training mode their means are 0 and their variances 1, as they began",
               passes);
}

static void look_at_averages(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        dl_module *m = r->training && r->grad && r->count > 2 ? dlsh_live_net(e, r->what, NULL) : NULL;
        if (m && dlsh_is_trained(e, r)) find_stale_averages(e, m, r->count);
    }
}

/* A net with dropout or batch norm that is trained no more, and makes the targets of another one in training mode. */
static void find_noisy_targets(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        const char *name = "the net";
        dl_module *m = r->training && !r->grad && dlsh_training_began(e, r) ? dlsh_live_net(e, r->what, &name) : NULL;
        const char *kind = m ? differs_in(e, m, r) : NULL;
        if (kind && feeds_loss(e, r) && is_fixed(e, r, m)) evaluated_in_training(e, r, name, kind, 1);
    }
}

dl_status dlsh_check_modes(dlsh_examination *e) {
    long passes = 0;
    find_noisy_targets(e);
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD) {
        const char *name = "the net";
        dl_module *m = dlsh_live_net(e, r->what, &name);
        const char *kind = m ? differs_in(e, m, r) : NULL;
        if (!kind) continue;
        int trained = dlsh_is_trained(e, r);
        const int frozen = r->empty && r->empty >= r->looked; /* a body that is meant to stay as it is */
        if (!r->training && r->grad && !frozen && goes_back(e, r))
            trained_in_evaluation(e, r, m, name, kind);
        else if (r->training && !(r->grad ? trained : feeds_loss(e, r)) && dlsh_training_began(e, r))
            evaluated_in_training(e, r, name, kind, 0);
        passes++;
    }
    if (!e->bad) look_at_averages(e);
    if (is_evaluated(e)) DLSH_TRY(dlsh_look_at_evaluation(e));
    dlsh_find_own_dropout(e);
    dlsh_find_wrong_averages(e);
    if (passes) dlsh_passed(e, "%ld places run nets with dropout or batchnorm, each in the mode it needs", passes);
    return DL_OK;
}
