/* What losses compare results with: two targets for the same scores, rows of several classes, the result of the same
 * net, the input with its noise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/samples.h"
#include "debug/doctor/texts.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

enum { DEEPEST = 10, LEAVES = 64, MOST_TARGETS = 1 << 16 };

/* ---------------------------------------------------------------- places */

/* Is it a call of the function in which a statement stands? */
static dlsh_property runs(void *statement, const dlsh_step *at) {
    const dlsh_node *n = statement, *fn = dlsh_function_called(at->file, at->n);
    return fn && n->span.start > fn->span.start && n->span.start < fn->span.end ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* ... and in the function where the walk began, though others may be called between? */
static dlsh_property leads_to(void *statement, const dlsh_step *at) {
    if (at->call || at->n->kind != DLSH_N_CALL) return DLSH_MAY_HAVE;
    return dlsh_origin_at(at, at->n, runs, statement) ? DLSH_HAS : DLSH_MAY_HAVE;
}

int dlsh_line_of_part(const dlsh_examination *e, const dl_journal_row *r, const dl_journal_node *n) {
    const int given = dlsh_line_of_trainer_loss(e, r->file);
    const dlsh_node *back = dlsh_statement_at(r->file, r->line), *part = dlsh_statement_at(n->file, n->line);
    if (given) return given;
    const dlsh_node *by =
        back && part && !strcmp(n->file, r->file) ? dlsh_origin(r->file, back, leads_to, (void *)part) : NULL;
    return by ? by->span.line : n->line;
}

/* ---------------------------------------------------------------- two targets for the same scores */

static int is_one_number(const dl_journal_value *v) {
    return v->there && v->constant && v->n && v->low == v->high && !v->nans;
}

static int is_same(const dl_journal_value *a, const dl_journal_value *b) {
    return a->n > 1 && a->n == b->n && a->hash == b->hash && a->mean == b->mean && a->std == b->std && a->std > 0;
}

static void look_at_contradiction(dlsh_examination *e, const dl_journal_row *r, const dl_journal_node *a,
                                  const dl_journal_node *b) {
    static const char losses[] = "logit_loss|probability_loss";
    if (!dlsh_op_is(a, losses) || !dlsh_op_is(b, losses) || !is_same(&a->in[0], &b->in[0])) return;
    if (!is_one_number(&a->in[1]) || !is_one_number(&b->in[1]) || a->in[1].low == b->in[1].low) return;
    dlsh_found(e, r->file, dlsh_line_of_part(e, r, a),
               "of a discriminator: real samples for one of them, made ones, fake.detach(), for the other",
               "the same scores are to be %.4g and %.4g at once: the net is given the same samples for both\n"
               "two parts of the loss have equal scores, element by element; the best that can be said is between "
               "both, and the loss stays at 2 ln 2 = 1.386 or so (now %.4g)",
               b->in[1].low, a->in[1].low, r->last);
}

/* Of nets that play against each other: one run twice on the same samples in a pass. */
static void look_at_twice(dlsh_examination *e, const dl_journal_row *r, const dl_journal_node *a,
                          const dl_journal_node *b) {
    const dl_journal_value *w = dlsh_node_weight(a, NULL), *v = dlsh_node_weight(b, NULL);
    if (!w || !v || w->leaf != v->leaf || !is_same(&a->in[0], &b->in[0])) return;
    dlsh_found(e, r->file, dlsh_line_of_part(e, r, a), "real samples for one, made ones for the other",
               "a net is run twice on the same samples in one loss: both its parts see the same\n"
               "the inputs of %s (lines %d and %d) are equal, element by element",
               a->op, b->line, a->line);
}

static int draws(dlsh_pass p) {
    for (long k = 0; k < p.n; k++)
        if (dlsh_op_is(&p.at[k], "dropout|alpha_dropout|rrelu")) return 1;
    return 0;
}

static void look_at_pairs(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    for (long k = 0; k < p.n; k++)
        for (long i = k + 1; i < p.n && dlsh_op_is(&p.at[k], "logit_loss|probability_loss"); i++)
            look_at_contradiction(e, r, &p.at[k], &p.at[i]);
    if (e->bad || draws(p) || !dlsh_has_rivals(e)) return;
    for (long k = 0; k < p.n; k++)
        for (long i = k + 1; i < p.n && dlsh_op_is(&p.at[k], "linear|matmul|conv2d"); i++)
            look_at_twice(e, r, &p.at[k], &p.at[i]);
}

/* ---------------------------------------------------------------- several classes of one sample */

/* Rows of 0 and 1 with more than one 1 on average; *share: how many. */
static int has_several(const dl_journal_value *y, double *share) {
    if (!y->there || !y->constant || y->ndim != 2 || y->n < 8 || y->low != 0 || y->high != 1) return 0;
    const int bits = fabs(y->mean * y->mean + y->std * y->std - y->mean) < 1e-6;
    *share = y->mean * (double)y->shape[1];
    return bits && y->shape[1] > 2 && *share > 1.1;
}

static void look_at_several(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n) {
    double share = 0;
    const dl_journal_node *by = NULL;
    const int whole = dlsh_op_is(n, "cross_entropy") && has_several(&n->in[1], &share);
    for (int k = 0; k < 2 && !whole && dlsh_op_is(n, "mul|probability_loss|divergence"); k++)
        if (has_several(&n->in[1 - k], &share) && dlsh_op_is(dlsh_pass_source(p, n, k), "log_softmax|softmax|log"))
            by = dlsh_pass_source(p, n, k);
    if (dlsh_op_is(by, "log")) by = dlsh_pass_source(p, by, 0);
    if (!whole && !dlsh_op_is(by, "log_softmax|softmax")) return;
    dlsh_found(e, n->file, dlsh_line_of_part(e, r, n),
               "binary_cross_entropy_with_logits, an answer of its own for each label",
               "samples have several labels, but softmax and cross_entropy let labels compete: one alone can be sure, "
               "and the level of scores is left open\n"
               "the targets are rows of 0 and 1 with %.3g labels of %ld on average; their sum is not 1",
               share, n->in[0].ndim > 1 ? n->in[0].shape[1] : 0);
}

/* ---------------------------------------------------------------- the result of the same net as a target */

typedef struct way {
    const void *leaf[LEAVES]; /* weights on the way to an operand */
    unsigned long input;      /* hash of the first input; 0: none */
    int n;
    const dl_journal_node *best; /* the largest of several values is taken, as of actions; NULL: none is */
} way;

static void walk_back(dlsh_pass p, const dl_journal_node *n, way *w, int depth) {
    if (!n || depth > 60 || w->n == LEAVES) return;
    const dl_journal_value *v = dlsh_node_weight(n, NULL);
    if (v) {
        for (int i = 0; i < w->n; i++)
            if (w->leaf[i] == v->leaf) return;
        w->leaf[w->n++] = v->leaf;
    }
    if (dlsh_op_is(n, "amax|max") && depth < DEEPEST) w->best = n;
    for (int k = 0; k < n->nin && k < 8; k++) {
        if (v && n->in[k].constant && n->in[k].n && !w->input) w->input = n->in[k].hash;
        if (n->in[k].there && n->in[k].from) walk_back(p, dlsh_pass_node(p, n->in[k].from), w, depth + 1);
    }
}

static int has_all(const way *a, const way *b) {
    int found = 0;
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < a->n; k++) found += a->leaf[k] == b->leaf[i];
    return b->n && found == b->n;
}

/* A distance of two results, or their similarity: mul, then a sum over a dimension. */
static int is_comparison(dlsh_pass p, const dl_journal_node *n) {
    if (n->in[0].constant || n->in[1].constant || !n->in[0].from || !n->in[1].from) return 0;
    if (n->in[0].from == n->in[1].from || n->out.ndim < 1) return 0;
    if (dlsh_op_is(n, "sub|huber_difference")) return 1;
    const dl_journal_node *u = dlsh_op_is(n, "mul") ? dlsh_pass_user(p, n) : NULL;
    return dlsh_op_is(u, "sum") && n->out.ndim == 2 && u->out.ndim == 1;
}

/* Does a node take a distance of two results away, as margin - far and near - far do? It keeps them apart. */
static int takes_distance_away(dlsh_pass p, const dl_journal_node *n) {
    const int turns =
        dlsh_op_is(n, "neg") || (dlsh_op_is(n, "mul") && dlsh_is_number_in(&n->in[1]) && n->in[1].low < 0);
    const dl_journal_node *of = turns                  ? dlsh_pass_source(p, n, 0)
                                : dlsh_op_is(n, "sub") ? dlsh_pass_source(p, n, 1)
                                                       : NULL;
    DLSH_FREED char *on = of && n->out.ndim < 2 ? dlsh_sources_of(p, of, NULL) : NULL;
    for (long k = 0; on && k < p.n; k++)
        if (on[k] && !dlsh_op_is(&p.at[k], "mul") && is_comparison(p, &p.at[k])) return 1;
    return 0;
}

/* Is anything in the loss that keeps results apart, or that comes from data? */
static int has_other_terms(dlsh_pass p) {
    static const char ops[] = "cross_entropy|logit_loss|probability_loss|nll_picked|logsumexp|log_softmax|softmax|var|"
                              "std|log|divergence|log_divergence|exp|where_margin|inverse|det";
    DLSH_EACH_OP (n, p) {
        if (dlsh_op_is(n, ops)) return 1;
        if (dlsh_op_is(n, "sub|huber_difference") && n->in[0].constant != n->in[1].constant && n->out.ndim) return 1;
        if (dlsh_op_is(n, "relu|clamp|maximum") && n->out.ndim < 2 && !*n->layer && !strstr(n->attrs, "1e-")) return 1;
        if (takes_distance_away(p, n)) return 1;
    }
    return 0;
}

/* What to detach of similarity(p, z): the side that goes through fewer ops, as there is no predictor in it. */
static const char *remedy_of_same_net(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n,
                                      const dlsh_node *call) {
    const dlsh_unit *u = call ? dlsh_text_of(n->file) : NULL;
    long ops[2] = {0};
    for (int k = 0; k < 2; k++) {
        DLSH_FREED char *way = dlsh_sources_of(p, dlsh_pass_node(p, n->in[k].from), NULL);
        for (long i = 0; way && i < p.n; i++) ops[k] += way[i];
    }
    const dlsh_node *a = u && call->nkids > 2 ? call->kids[1] : NULL, *b = a ? call->kids[2] : NULL;
    const int first = ops[0] < ops[1];
    if (!a || a->kind != DLSH_N_NAME || b->kind != DLSH_N_NAME)
        return "detach() one of the two, that without the predictor where there is one";
    return dlsh_kept(e, "detach() one of the two, that without the predictor where there is one: %s(%s%s, %s%s)",
                     call->kids[0]->text, a->text, first ? ".detach()" : "", b->text, first ? "" : ".detach()");
}

static void tell_same_net(dlsh_examination *e, const dl_journal_row *r, const dl_journal_node *n,
                          const dl_journal_node *best) {
    const int bootstraps = best != NULL;
    const dlsh_node *call = dlsh_call_on_line(n->file, n->line, "similarity|distance|loss");
    dlsh_finding *f = dlsh_find_at(e, n->file, best ? best->line : n->line,
                                   bootstraps ? "no_grad { ... } around the target, or detach() it"
                                              : remedy_of_same_net(e, dlsh_pass_of(r, 1), n, call));
    if (bootstraps)
        dlsh_cause(f, "the target is made by the net itself and gets gradients: the net moves its targets to its "
                      "results, too");
    else
        dlsh_cause(f, "both sides of the comparison get gradients: the net makes all results alike, whatever goes in");
    dlsh_evidence(f, "both operands of %s lead back to the same weights%s; the loss (line %d) went from %.4g to %.4g",
                  call ? call->kids[0]->text : n->op, bootstraps ? "" : ", and nothing in the loss keeps samples apart",
                  dlsh_line_of_part(e, r, n), r->first, r->last);
}

/* Did distances come to 0, or similarities become large? What falls below 0 is another part than a distance. */
static int comes_together(const dl_journal_node *n, const dl_journal_row *r) {
    const int similar = dlsh_op_is(n, "mul");
    return (similar && r->last < -0.5) || (r->last < 0.5 * r->first && (similar || r->last >= 0));
}

static void look_at_same_net(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    const int other = has_other_terms(p);
    for (long k = 0; k < p.n && !e->bad; k++) {
        const dl_journal_node *n = &p.at[k];
        way a = {.n = 0}, b = {.n = 0};
        if (!is_comparison(p, n)) continue;
        walk_back(p, dlsh_pass_source(p, n, 0), &a, 0);
        walk_back(p, dlsh_pass_source(p, n, 1), &b, 0);
        const int shared = has_all(&a, &b) || has_all(&b, &a);
        if (!shared || !a.input || !b.input || a.input == b.input) continue;
        if (!a.best != !b.best && !dlsh_op_is(n, "mul"))
            tell_same_net(e, r, n, a.best ? a.best : b.best);
        else if (!other && !a.best && r->count > 8 && comes_together(n, r))
            tell_same_net(e, r, n, NULL);
    }
}

/* ---------------------------------------------------------------- the result of another net as a target */

/* How many of the weights on a way are trained. */
static int count_trained(const dlsh_examination *e, const way *w) {
    char name[120];
    int n = 0;
    for (int i = 0; i < w->n; i++) {
        const dl_tensor *t = dlsh_live_leaf(e, w->leaf[i], name, sizeof name);
        n += t && dlsh_is_being_trained(e, t);
    }
    return n;
}

/* Is a side of a comparison what a net gives, with no data added on the way, nor brought to a scale of its own? */
static int is_plain_result(dlsh_pass p, const dl_journal_node *n) {
    for (int i = 0; n && i < DEEPEST && !dlsh_node_weight(n, NULL); i++) {
        DLSH_EACH_OPERAND (v, n)
            if (v->there && v->constant && v->ndim && v->std > 0) return 0;
        if (dlsh_op_is(n, "batch_norm|layer_norm|instance_norm")) return 0;
        n = dlsh_pass_source(p, n, 0);
    }
    return n && dlsh_node_weight(n, NULL);
}

/* The ways to both sides of a comparison, as far as it is one of results of different nets; 0: it is not. */
static int are_of_two_nets(dlsh_pass p, const dl_journal_node *n, way side[2]) {
    if (!is_comparison(p, n)) return 0;
    for (int k = 0; k < 2; k++) {
        const dl_journal_node *of = dlsh_pass_source(p, n, k);
        walk_back(p, of, &side[k], 0);
        if (!side[k].n || !side[k].input || side[k].best || !is_plain_result(p, of)) return 0;
    }
    return !has_all(&side[0], &side[1]) && !has_all(&side[1], &side[0]);
}

/* A target that another net gives and that the optimizer has, too: both sides agree on a constant. */
static void find_trained_target(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    if (r->count < 9 || has_other_terms(p)) return;
    DLSH_EACH_OP (n, p) {
        way side[2] = {{.n = 0}, {.n = 0}};
        if (e->bad || !comes_together(n, r) || !are_of_two_nets(p, n, side)) continue;
        const way *t = &side[side[0].n >= side[1].n]; /* that without a predictor */
        if (count_trained(e, &side[0]) < side[0].n || count_trained(e, &side[1]) < side[1].n) continue;
        char name[120] = "";
        dl_optimizer *o = NULL, *at;
        DLSH_EACH_ROW (step, e, DL_DID_STEP)
            if (step->till > r->at && (at = dlsh_live_optimizer(e, step->what, NULL)) &&
                dlsh_optimizer_has(at, t->leaf[0]))
                o = at;
        dlsh_live_leaf(e, t->leaf[0], name, sizeof name);
        const dl_source made = o ? dlsh_optimizer_place(e, o) : (dl_source){n->file, n->line};
        const int list = o ? dlsh_line_of_list(e, &made) : 0;
        dlsh_found(e, made.file, list ? list : made.line,
                   "leave the net that gives the target out of the optimizer: keep it as it is, or as an average of "
                   "the other one; detach() the target",
                   "the net that gives the target is trained, too, %.*s: both sides agree on a constant, whatever goes "
                   "in\n"
                   "%s, ... is %s, and gets gradients as a target (line %d); nothing in the loss keeps results apart; "
                   "it went from %.4g to %.4g",
                   (int)strcspn(name, "."), name, name,
                   o ? dlsh_kept(e, "among the parameters of %s", dl_optimizer_text(o)) : "updated by the script",
                   dlsh_line_of_part(e, r, n), r->first, r->last);
    }
}

/* Does the way to a node go through a leaf? */
static int goes_through(dlsh_pass p, const dl_journal_node *n, const void *leaf) {
    DLSH_FREED char *on = dlsh_sources_of(p, n, NULL);
    for (long k = 0; on && k < p.n; k++)
        if (on[k] && dlsh_pass_has((dlsh_pass){&p.at[k], 1}, leaf)) return 1;
    return 0;
}

/* Is a parameter, which nothing trains, a part of the target alone that a trained net learns from? Then it is well that
 * it stays. */
int dlsh_is_of_fixed_target(const dlsh_examination *e, const void *leaf) {
    int found = 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        const int plain = dlsh_pass_has(p, leaf) && !has_other_terms(p);
        DLSH_EACH_OP (n, p) {
            const int loss = n->in[1].from && dlsh_op_is(n, "cross_entropy|divergence|log_divergence");
            way side[2] = {{.n = 0}, {.n = 0}};
            if (!loss && (!plain || !are_of_two_nets(p, n, side))) continue;
            for (int k = 0; loss && k < 2; k++) walk_back(p, dlsh_pass_source(p, n, k), &side[k], 0);
            for (int k = loss; k < 2; k++)
                found |= !count_trained(e, &side[k]) && count_trained(e, &side[!k]) > 0 &&
                         goes_through(p, dlsh_pass_source(p, n, k), leaf) &&
                         !goes_through(p, dlsh_pass_source(p, n, !k), leaf);
        }
        if (dlsh_pass_has(p, leaf) && !found) return 0;
    }
    return found;
}

/* ---------------------------------------------------------------- the input with its noise */

static const char casts[] = "to|clone|contiguous|reshape|view|float|detach|squeeze|unsqueeze|flatten|double";

static const dlsh_node *bare(const dlsh_node *n) {
    while (n && n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD && dlsh_is_word(casts, n->kids[0]->text))
        n = n->kids[0]->kids[0];
    return n;
}

/* Calls that draw random numbers, in a tree. */
static int is_random(const dlsh_node *n) {
    static const char drawing[] = "rand|randn|rand_like|randn_like|bernoulli|normal|dropout|uniform|randint_like";
    DLSH_EACH_BELOW (t, n)
        if (dlsh_is_call_of(t.n, drawing)) return 1;
    return 0;
}

static int is_data(const dlsh_node *n) {
    n = bare(n);
    return n && (n->kind == DLSH_N_NAME || n->kind == DLSH_N_INDEX || n->kind == DLSH_N_FIELD);
}

/* The data that a value is a spoiled form of: x + 0.5 * randn_like(x), x * (rand(...) > 0.2), corrupt(x), dropout(x);
 * NULL: it is none. */
static const dlsh_node *clean_of(const char *file, const dlsh_node *made) {
    made = bare(made);
    if (!made || !is_data(made->kind == DLSH_N_BINARY ? made->kids[0] : made)) {
        const int call = made && made->kind == DLSH_N_CALL && made->nkids > 1 && made->kids[0]->kind == DLSH_N_NAME;
        const dlsh_node *fn = call ? dlsh_function_of(file, made->kids[0]->text) : NULL;
        const char *by = call ? made->kids[0]->text : "";
        const int spoils = fn ? is_random(fn) : dlsh_is_word("dropout|where|masked_fill", by);
        if (!spoils || (!fn && strcmp(by, "dropout") != 0 && !is_random(made))) return NULL;
        for (int i = 1; i < made->nkids; i++)
            if (is_data(made->kids[i]) && made->kids[i]->kind != DLSH_N_KWARG && !is_random(made->kids[i]))
                return made->kids[i];
        return NULL;
    }
    if (made->kind != DLSH_N_BINARY || (made->op != DLSH_OP_ADD && made->op != DLSH_OP_MUL)) return NULL;
    return is_random(made->kids[1]) ? bare(made->kids[0]) : NULL;
}

/* Is it written as what is looked for, and the same value? */
static dlsh_property is_same_value(void *ctx, const dlsh_step *at) {
    const dlsh_node *n = ctx, *a = at->n, *b = n;
    if (at->n == n || at->n->kind != n->kind || !dlsh_same_text(at->file, at->n, n)) return DLSH_MAY_HAVE;
    while (a->kind == DLSH_N_INDEX) a = a->kids[0], b = b->kids[0];
    return dlsh_made(at->file, a) == dlsh_made(at->file, b) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Of rows of a table that was made before: are the clean ones a table of the same form, which is used elsewhere, too,
 * as for the error that counts? Else the noise is a part of the data. */
static int has_clean_table(const dlsh_examination *e, const char *file, const dlsh_node *spoiled,
                           const dlsh_node *clean) {
    const dlsh_value *a = dlsh_value_of(e, file, spoiled), *b = dlsh_value_of(e, file, clean);
    if (!a || !b || a->type != DLSH_TENSOR || b->type != DLSH_TENSOR || clean->kind != DLSH_N_NAME) return 0;
    const dl_tensor *x = a->as.tensor, *y = b->as.tensor;
    return dl_ndim(x) == dl_ndim(y) && !memcmp(dl_shape(x), dl_shape(y), (size_t)dl_ndim(x) * sizeof(long)) &&
           dlsh_mentions(dlsh_text_root(file), clean->text) > 2;
}

/* The two sides of a comparison, as of an error; 0: it is none. */
static int sides_of(const dlsh_node *n, const dlsh_node *side[2]) {
    const int call = n->kind == DLSH_N_CALL && n->nkids > 2 && n->kids[2]->kind != DLSH_N_KWARG &&
                     dlsh_speaks_of(n->kids[0]->text, "loss|error|entropy|_score|cdist|similarity");
    if (!call && (n->kind != DLSH_N_BINARY || n->op != DLSH_OP_SUB)) return 0;
    side[0] = n->kids[call], side[1] = n->kids[call + 1];
    return 1;
}

/* Are results of a net compared with that value anywhere, as for the error that counts? Then the net is to give it. */
static int is_wanted(const dlsh_examination *e, const char *file, const dlsh_node *value) {
    const dlsh_node *made = dlsh_made(file, value), *side[2];
    DLSH_EACH_BELOW (t, made ? dlsh_text_root(file) : NULL)
        for (int k = 0; sides_of(t.n, side) && k < 2; k++)
            if (dlsh_made(file, bare(side[!k])) == made && dlsh_uses_net(e, file, side[k])) return 1;
    return 0;
}

/* dataset(noisy, noisy), where results are compared with the clean ones elsewhere. */
static void look_at_set(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *x = dlsh_is_call_of(n, "dataset") ? dlsh_argument_of(n, 0, "x") : NULL;
    const dlsh_node *y = x ? dlsh_argument_of(n, 1, "y") : NULL;
    const dlsh_node *made = y && dlsh_same_text(file, x, y) ? dlsh_made(file, bare(y)) : NULL;
    const dlsh_node *clean = made ? clean_of(file, made) : NULL;
    if (!clean || !is_wanted(e, file, clean)) return;
    dlsh_found(e, file, y->span.line, "the clean samples as the target, the spoiled ones go in",
               "the target is the spoiled input itself: the net learns to keep the noise, not to take it away\n"
               "the data set has the same for its inputs and its targets; line %d makes it of %s with random numbers, "
               "and results are compared with what that was before",
               made->span.line, clean->text ? clean->text : "clean data");
}

static void look_at_spoiled(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *out,
                            const dlsh_node *target) {
    target = bare(target);
    const dlsh_node *table = target->kind == DLSH_N_INDEX && target->nkids == 2 ? target->kids[0] : NULL;
    const dlsh_node *name = table ? table : target;
    const int field = name->kind == DLSH_N_FIELD;
    if (!field && (name->kind != DLSH_N_NAME || dlsh_uses_net(e, file, name))) return; /* as of what actions brought */
    if (!dlsh_uses_net(e, file, out) || !dlsh_origin(file, out, is_same_value, (void *)target)) return;
    const dlsh_node *made = field ? dlsh_made(file, name) : dlsh_definition_of(file, name->text, n->span.start, NULL);
    const dlsh_node *clean = made ? clean_of(file, made) : NULL;
    if (!clean || made->span.start >= n->span.start) return;
    /* noise that was drawn once may be a part of the data */
    const int each_time = !table && dlsh_runs_in_loop(file, made->span.line, n->span.line);
    if (field ? !is_wanted(e, file, clean) : !each_time && !has_clean_table(e, file, name, clean)) return;
    dlsh_found(e, file, n->span.line, "the clean samples as the target, the spoiled ones go in",
               "the target is the spoiled input itself: the net learns to keep the noise, not to take it away\n"
               "%s goes in and is the target, too; line %d makes it of %s with random numbers",
               name->text, made->span.line, clean->text ? clean->text : "clean data");
}

/* Noise that is written into the target itself: noisy = x; noisy += randn_like(x), where x is the target. */
static void look_at_noise_within(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *target) {
    dl_source maker, writer;
    target = bare(target);
    while (target->kind == DLSH_N_INDEX) target = target->kids[0];
    const dlsh_value *v = target->kind == DLSH_N_NAME ? dlsh_value_of(e, file, target) : NULL;
    dl_tensor *t = v && v->type == DLSH_TENSOR && !dl_requires_grad(v->as.tensor) ? v->as.tensor : NULL;
    if (!t || !dlsh_uses_net(e, file, n)) return;
    dlsh_tensor_places(t, &maker, &writer);
    const dlsh_node *by = writer.file && writer.line != maker.line ? dlsh_statement_at(writer.file, writer.line) : NULL;
    const dlsh_node *to = by && by->kind == DLSH_N_ASSIGN && by->op ? by->kids[0] : NULL;
    if (!to || to->kind != DLSH_N_NAME || !is_random(by)) return;
    dlsh_found(e, writer.file, writer.line,
               "a new tensor for what goes in, x + noise or x.clone(): then the target stays clean",
               "random numbers are written into %s itself, which is the target of the loss\n"
               "line %d compares with it; a name that is given a tensor stands for the same one, and += changes it",
               target->text, n->span.line);
}

static void see_loss(dlsh_examination *e, const char *file, const dlsh_node *n) {
    look_at_set(e, file, n);
    const char *by = n->kind == DLSH_N_CALL ? n->kids[0]->text : NULL;
    if (by && n->nkids > 2 && (strstr(by, "loss") || strstr(by, "entropy")) && n->kids[2]->kind != DLSH_N_KWARG)
        look_at_spoiled(e, file, n, n->kids[1], n->kids[2]), look_at_noise_within(e, file, n, n->kids[2]);
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_SUB) {
        for (int k = 0; k < 2; k++) {
            look_at_spoiled(e, file, n, n->kids[k], n->kids[!k]);
            if (dlsh_uses_net(e, file, n->kids[k])) look_at_noise_within(e, file, n, n->kids[!k]);
        }
    }
}

/* ---------------------------------------------------------------- rows of targets that are all alike */

static int rows_alike(const dl_tensor *y, double *v) {
    const long n = dl_shape(y)[0], k = dl_shape(y)[1];
    int varied = 0;
    if (dl_read_f64(y, v)) return dl_error_clear(), 0;
    for (long i = 0; i < n * k; i++) {
        if (v[i] != v[i % k]) return 0;
        varied |= v[i] != v[0];
    }
    return varied;
}

/* A table [n, k, width] that tells nothing of the targets [n, k]; NULL: there is none, or another one does tell. */
static const char *unrelated_table(const dlsh_examination *e, const dl_tensor *y, double *v) {
    const char *found = NULL;
    DLSH_EACH_HOLDER (h, &e->holders) {
        dl_tensor *x = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        if (!x || dl_ndim(x) != 3 || !dl_dtype_is_float(dl_dtype_of(x)) || dl_requires_grad(x)) continue;
        if (dl_shape(x)[0] != dl_shape(y)[0] || dl_shape(x)[1] != dl_shape(y)[1]) continue;
        DLSH_FREED double *u = malloc((size_t)dl_numel(x) * sizeof *u);
        if (!u || dl_read_f64(x, u)) return dl_error_clear(), NULL;
        if (!dlsh_are_unrelated(u, v, dl_numel(y), dl_shape(x)[2])) return NULL;
        found = h->name;
    }
    return found;
}

/* Targets of several things each that are the same for all samples, and that what goes in tells nothing of. */
static void find_same_rows(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        const dl_tensor *y = h->value.type == DLSH_TENSOR ? h->value.as.tensor : NULL;
        if (!y || dl_requires_grad(y) || dl_ndim(y) != 2 || dl_shape(y)[0] < 8 || dl_shape(y)[1] < 2 ||
            dl_numel(y) > MOST_TARGETS)
            continue;
        DLSH_FREED double *v = malloc((size_t)dl_numel(y) * sizeof *v);
        const char *x = v && rows_alike(y, v) ? unrelated_table(e, y, v) : NULL;
        if (!x) continue;
        const char *file = h->file ? h->file : p.at->file;
        const dlsh_node *made = dlsh_definition_of(file, h->name, h->place, NULL);
        dlsh_found(e, file, dlsh_line_of_making(file, made, made ? made->span.line : 0),
                   "what puts labels in order takes their inputs along: x = x.gather(1, order)",
                   "labels do not belong to their inputs: %s is the same for all samples, and %s tells nothing of it\n"
                   "each of %ld rows holds the same %ld numbers; an input and the one most like it have unrelated "
                   "ones; the loss went from %.4g to %.4g",
                   h->name, x, dl_shape(y)[0], dl_shape(y)[1], r->first, r->last);
        return;
    }
}

/* ---------------------------------------------------------------- the check */

dl_status dlsh_check_targets(dlsh_examination *e) {
    long seen = 0;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        if (!p.n) continue;
        look_at_pairs(e, r, p);
        for (long k = 0; k < p.n; k++) look_at_several(e, r, p, &p.at[k]);
        look_at_same_net(e, r, p);
        find_same_rows(e, r, p);
        dlsh_find_shared_target(e, p);
        seen++;
    }
    if (seen)
        DLSH_EACH_NODE (t) see_loss(e, t.file, t.n);
    if (seen) dlsh_find_whole_batch(e);
    if (!e->bad) dlsh_find_changed_teacher(e);
    DLSH_EACH_ROW_WHILE (!e->bad, r, e, DL_DID_BACKWARD)
        if (dlsh_pass_of(r, 1).n) find_trained_target(e, r, dlsh_pass_of(r, 1));
    return DL_OK;
}
