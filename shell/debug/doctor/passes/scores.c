/* Scores in metrics, which are not on the tape: compared with labels as they are, with classes picked along another
 * dimension than the loss has them, or chosen to be 0 or 1 where their order counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trace.h"

/* ---------------------------------------------------------------- scores beside labels */

/* The call of a net whose scores, or probabilities made of them, an expression is, one or some of each row; NULL: it is
 * none, as where the best class was picked. */
static const dlsh_node *raw_scores(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    static const char keeping[] = "sigmoid|softmax|exp|squeeze|flatten|view|reshape|detach|cpu|max|amax";
    int places = 0; /* an item other than the first is taken: of max() the places */
    for (int i = 0; n && i < 10; i++) {
        const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
        if (by && dlsh_object_of(e, file, by, &dlsh_net_class)) return n;
        if (places && by && by->text && !strcmp(by->text, "max")) return NULL;
        if (n->kind == DLSH_N_INDEX && n->nkids == 2 && n->kids[1]->kind != DLSH_N_SLICE)
            places = !(n->kids[1]->kind == DLSH_N_INT && !n->kids[1]->num.i);
        if (n->kind == DLSH_N_INDEX || (n->kind == DLSH_N_FIELD && !strcmp(n->text, "values"))) {
            n = n->kids[0];
        } else if (n->kind == DLSH_N_NAME) {
            const dlsh_node *root = dlsh_text_root(file);
            const dlsh_definition d = root ? dlsh_define(root, n->text, n->span.start) : (dlsh_definition){0};
            n = d.value && !d.each && !d.param && d.item <= 0 ? d.value : NULL;
        } else {
            if (!by || !by->text || !dlsh_is_word(keeping, by->text)) return NULL;
            n = by->kind == DLSH_N_FIELD ? by->kids[0] : n->nkids > 1 ? n->kids[1] : NULL;
        }
    }
    return NULL;
}

/* Does a loss compare scores with classes? */
static int has_classes(const dlsh_examination *e) {
    return dlsh_node_next(e, "cross_entropy|nll_picked|logit_loss|probability_loss", &(dlsh_node_walk){0}) != NULL;
}

/* m(x).max(dim=1).values == y: numbers of any size against classes. */
static void find_equal_scores(dlsh_examination *e) {
    DLSH_EACH_NODE (t)
        for (int i = 0; t.n->kind == DLSH_N_BINARY && (t.n->op == DLSH_OP_EQ || t.n->op == DLSH_OP_NE) && i < 2; i++) {
            const dlsh_node *other = t.n->kids[1 - i], *call = raw_scores(e, t.file, t.n->kids[i]);
            if (!call || !isnan(dlsh_number_of(e, t.file, other)) || dlsh_uses_net(e, t.file, other)) continue;
            dlsh_found(
                e, t.file, t.n->span.line, "pick the class first: argmax(dim=1), or > 0.5, or > 0",
                "scores of a net are compared with labels by ==: they are hardly ever equal, whatever it learned\n"
                "what stands beside == is what the net gives at line %d, or the largest of it, not its place",
                call->span.line);
        }
}

/* ---------------------------------------------------------------- the dimension of classes */

/* Which dimension of its operand a view gives on as dimension `dim` of its result; -1: it is not known. */
static int dim_before(const dl_journal_node *n, int dim) {
    const dl_journal_value *x = &n->in[0], *y = &n->out;
    if (dlsh_op_is(n, "permute")) {
        const char *at = strstr(n->attrs, "dims=[");
        for (at = at ? at + strlen("dims=[") : NULL; at && dim; dim--)
            at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
        return at ? atoi(at) : -1;
    }
    if (!dlsh_op_is(n, "reshape|view")) return dlsh_op_is(n, "log_softmax|mul|div|to|clone") ? dim : -1;
    long behind = 1, after = 1;
    for (int d = dim + 1; d < y->ndim; d++) behind *= y->shape[d];
    for (int d = x->ndim - 1; d >= 0; after *= x->shape[d--])
        if (after == behind && x->shape[d] == y->shape[dim]) return d;
    return -1;
}

/* Is the statement that ran a node in a net? */
static int is_in_net(const dl_journal_node *n) {
    enum { DEEPEST = 32 };
    const dlsh_node *around[DEEPEST], *at = dlsh_statement_at(n->file, n->line);
    const int depth = at ? dlsh_nodes_around(dlsh_text_root(n->file), at->span.start, around, DEEPEST) : 0;
    for (int i = 0; i < depth; i++)
        if (around[i]->kind == DLSH_N_NET) return 1;
    return *n->layer != 0;
}

/* What a loss of classes is given of a net's result: through views, as of the places of sequences. */
typedef struct scores {
    const dl_journal_value *result; /* of the net */
    const dl_journal_node *loss;
    int dim; /* of that result, which has the classes; -1: it is not known */
} scores;

static scores scores_in(dlsh_pass p, dl_module *m, long k) {
    int dim = 1;
    const int is_loss = dlsh_op_is(&p.at[k], "cross_entropy|nll_picked") && p.at[k].in[0].ndim > 1;
    const dl_journal_node *loss = is_loss ? &p.at[k] : NULL, *n = loss;
    const dl_journal_value *v = loss ? &loss->in[0] : NULL, *w = NULL;
    for (n = v ? dlsh_pass_node(p, v->from) : NULL; n && dim >= 0 && !is_in_net(n); n = dlsh_pass_node(p, v->from))
        dim = dim_before(n, dim), v = &n->in[0];
    for (long i = n ? n - p.at : p.n; i < p.n && !w; i++) w = dlsh_node_weight(&p.at[i], NULL);
    return w && dim >= 0 && dlsh_net_has(m, w->leaf) ? (scores){v, loss, dim} : (scores){NULL, NULL, -1};
}

/* Of the last passes; of several losses one that has the classes along `over`, as of pairs, told both ways. */
static scores scores_of(const dlsh_examination *e, dl_module *m, double over) {
    scores s = {NULL, NULL, -1};
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        for (long k = 0; k < p.n; k++) {
            const scores own = scores_in(p, m, k);
            const double dim = own.dim >= 0 && over < 0 ? over + own.result->ndim : over;
            if (own.dim >= 0 && (s.dim < 0 || own.dim == dim)) s = own;
        }
    }
    return s;
}

/* The call of a net whose result an expression is, as it stands but for ops that keep its form; NULL: it is none. */
static const dlsh_node *scores_made_by(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    static const char keeping[] = "detach|float|cpu|softmax|log_softmax|exp|contiguous|to|clone";
    for (int i = 0; n && i < 6; i++) {
        if (n->kind == DLSH_N_NAME) n = dlsh_defined(file, n);
        if (!n || n->kind != DLSH_N_CALL) return NULL;
        if (dlsh_object_of(e, file, n->kids[0], &dlsh_net_class)) return n;
        const dlsh_node *by = n->kids[0];
        if (!by->text || !dlsh_is_word(keeping, by->text)) return NULL;
        n = by->kind == DLSH_N_FIELD ? by->kids[0] : n->nkids > 1 ? n->kids[1] : NULL;
    }
    return NULL;
}

static void tell_best_sample(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *call) {
    dlsh_traced used[DLSH_TRACED];
    if (dlsh_trace_value(e, file, call, used) > 0 && used[0].tensor && dl_ndim(used[0].tensor) < 2) return;
    dlsh_found(e, file, n->span.line, "dim=1: one class for each sample",
               "argmax runs over dimension 0, the samples: it gives the best sample of each class\n"
               "what a net gives has samples as dimension 0 and classes as dimension 1");
}

/* Classes are picked, or probabilities made, along another dimension than that of the loss: of what is not on the tape,
 * as an accuracy, too. */
static int see_pick(void *ctx, const char *file, const dlsh_node *n) {
    static const char picking[] = "argmax|softmax|log_softmax|max|topk";
    dlsh_examination *e = ctx;
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    const int method = by && by->kind == DLSH_N_FIELD;
    if (!dlsh_is_call_of(n, picking)) return 0;
    const dlsh_node *of = method ? by->kids[0] : n->nkids > 1 ? n->kids[1] : NULL;
    const dlsh_node *dim = dlsh_argument_of(n, (method ? 0 : 1) + !strcmp(by->text, "topk"), "dim");
    const dlsh_node *call = of && dim ? scores_made_by(e, file, of) : NULL;
    double over = call ? dlsh_number_of(e, file, dim) : NAN;
    if (isnan(over)) return 0;
    const scores s = scores_of(e, dlsh_object_of(e, file, call->kids[0], &dlsh_net_class), over);
    if (s.dim >= 0 && over < 0) over += s.result->ndim;
    const int best = over == 0 && !strcmp(by->text, "argmax");
    if (s.dim < 0 ? !best : over == s.dim) return 0;
    if (s.dim <= 1 && best) return tell_best_sample(e, file, n, call), 0;
    for (int i = 0; i < e->nfindings; i++)
        if (e->findings[i].line == n->span.line && !strcmp(e->findings[i].file, file)) return 0; /* told of the loss */
    char shape[80];
    dlsh_found(e, file, n->span.line, "the dimension that the loss takes for the classes",
               "%s runs over dimension %.0f of the scores, but the classes of the loss are dimension %d\n"
               "the net gives [%s], whose %ld classes the loss of line %d has along dimension %d",
               by->text, over, s.dim, dlsh_shape_text(s.result->ndim, s.result->shape, shape, sizeof shape),
               s.result->shape[s.dim], s.loss->line, s.dim);
    return 0;
}

/* ---------------------------------------------------------------- choices in place of scores */

/* A choice, as it is but for its form: of numbers that are weighed or added up something is left. */
static dlsh_property is_choice(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    static const char choosing[] = "argmax|argmin|round|sign|heaviside|gt|ge|lt|le|eq|step";
    static const char keeping[] = "float|to|int|long|double|bool|squeeze|flatten|view|reshape|detach|cpu|cat|concat|"
                                  "clone|tensor|stack|unsqueeze|append";
    const dlsh_node *n = at->n;
    if (n->kind == DLSH_N_BINARY) return dlsh_is_comparison(n) ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
    if (n->kind != DLSH_N_CALL || dlsh_function_called(at->file, n) || dlsh_is_call_of(n, keeping))
        return DLSH_MAY_HAVE;
    const int written = dlsh_is_call_of(n, "where") && n->nkids == 4 && !n->kids[2]->nkids && !n->kids[3]->nkids;
    return written || dlsh_is_call_of(n, choosing) ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
}

/* roc_auc_score(y, p > 0.5): a figure that goes by the order of scores, of which the choice leaves two values. */
void dlsh_find_choices_for_scores(dlsh_examination *e) {
    static const char ranking[] = "roc_auc_score|average_precision_score|roc_curve|precision_recall_curve|log_loss|"
                                  "brier_score_loss";
    DLSH_EACH_NODE (t) {
        const dlsh_node *given = dlsh_is_call_of(t.n, ranking) ? dlsh_argument_of(t.n, 1, "y_score") : NULL;
        const dlsh_node *choice = given ? dlsh_origin(t.file, given, is_choice, NULL) : NULL;
        if (!choice || !dlsh_uses_net(e, t.file, choice)) continue;
        dlsh_found(e, t.file, t.n->span.line, "the scores or probabilities themselves: roc_auc_score(y, p)",
                   "%s is given classes that were chosen already, not scores: it goes by the order of scores, of which "
                   "the choice leaves nothing but two values\n"
                   "line %d makes the choice; other scores with the same choices would have the same figure",
                   t.n->kids[0]->text, choice->span.line);
    }
}

void dlsh_find_wrong_scores(dlsh_examination *e) {
    if (has_classes(e)) find_equal_scores(e);
    dlsh_each_node(see_pick, e);
}
