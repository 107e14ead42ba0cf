/* Where gradients stop on their way from the loss, and margins that are driven the wrong way. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "debug/detached.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/text/reads.h"
#include "debug/doctor/texts.h"
#include "debug/doctor/trace.h"

/* ---------------------------------------------------------------- where gradients stop */

/* Why an op passes nothing on. */
static const struct {
    const char *ops, *why, *remedy;
} stops[] = {
    {"round|floor|ceil|trunc|sign|heaviside", "its slope is 0 everywhere",
     "leave it out of the loss, or let the gradient pass: x + (round(x) - x).detach()"},
    {"clamp|hardtanh|hardsigmoid|relu6", "all elements lie beyond its limits, where its slope is 0",
     "leave it out of the loss, or scale what goes in: limits belong to what is shown, not to what is trained"},
    {"softmax|log_softmax|cross_entropy", "its result is the same whatever goes in",
     "look at the dimension that it runs along, and at how many classes there are"},
    {"sigmoid|tanh|softsign", "all elements lie so far out that its slope is 0", "scale what goes in"},
    {"dropout", "all elements are set to 0", "p from 0.1 to 0.5"},
    {"where|mul", "what it multiplies or chooses by leaves nothing", "look at the mask or the factor"},
};

/* Does a gradient come in, and none go on to an operand that needs one? */
static int is_stop(const dl_journal_node *n) {
    int wanted = 0;
    for (int k = 0; k < n->nin && k < 8; k++) {
        if (!n->in[k].there || n->in[k].constant) continue;
        if (n->in[k].gradient != 0) return 0;
        wanted++;
    }
    return wanted && n->out.gradient > 0;
}

/* The gradient of a function of the script's own, of which figures of the ops within it tell nothing. */
static int is_of_own_function(const dlsh_examination *e, const dl_journal_node *n) {
    return dlsh_script_line_with(e, n->file, "autograd_function") > 0;
}

/* x * 0, which takes x away on purpose. */
static int is_times_zero(const dl_journal_node *n) {
    for (int k = 0; k < 2 && dlsh_op_is(n, "mul"); k++)
        if (dlsh_is_number_in(&n->in[k]) && n->in[k].low == 0) return 1;
    return 0;
}

static void look_at_stop(dlsh_examination *e, const dl_journal_row *r, const dl_journal_node *n) {
    char what[300];
    int summed;
    if (dlsh_weighs_across(dlsh_pass_of(r, 1), n, &summed) > 0) {
        dlsh_find_weights_of_sum(e, dlsh_pass_of(r, 1), n, 0);
        return;
    }
    const dl_journal_node *by[2];
    const dl_journal_value *zeros[2];
    if (dlsh_has_two_zeros(dlsh_pass_of(r, 1), n, by, zeros)) return; /* told with the initial weights */
    for (size_t i = 0; i < DLSH_COUNT(stops); i++) {
        if (!dlsh_op_is(n, stops[i].ops) || is_of_own_function(e, n) ||
            dlsh_was_found(e, "what the loss is given", "of size 1") || is_times_zero(n) ||
            (dlsh_op_is(n, "where|clamp") && n->out.dead > 0.95 && dlsh_is_relu(dlsh_pass_of(r, 1), n)) ||
            (dlsh_op_is(n, "clamp") && dlsh_was_found(e, "sign and floor of the loss", "")))
            continue;
        dlsh_finding *f = dlsh_find_at(e, dlsh_node_file(n), dlsh_node_line(n), stops[i].remedy);
        if (!f) return;
        if (dlsh_op_is(n, "clamp") && dlsh_settled_lower(r, 0.5) &&
            dlsh_came_near(dlsh_pass_of(r, 0), dlsh_pass_of(r, 1)))
            dlsh_only_note(e, f);                                 /* as a deviation at the least that is allowed */
        f->effect = strstr(stops[i].ops, "sigmoid|tanh") != NULL; /* as of inputs that are not scaled */
        dlsh_cause(f, "no gradient gets through %s: %s", dlsh_node_text(n, what, sizeof what), stops[i].why);
        dlsh_evidence(f,
                      "what comes in from the loss has size %.3g, what goes on is 0; the loss is %.4g, at first %.4g",
                      n->out.gradient, r->last, r->first);
        return;
    }
}

/* Does the same op of the layer, or of the line, let a gradient through elsewhere, as at later times of a recurrence?
 */
static int passes_elsewhere(dlsh_pass p, const dl_journal_node *n) {
    DLSH_EACH_OP (m, p) {
        if (m == n || strcmp(m->op, n->op) != 0 || m->line != n->line || strcmp(m->layer, n->layer) != 0) continue;
        for (int j = 0; j < m->nin && j < 8; j++)
            if (m->in[j].there && !m->in[j].constant && m->in[j].gradient > 0) return 1;
    }
    return 0;
}

/* Of a layer, or a factor as that of a state, which is 0 at the first time. */
static int is_repeated(const dl_journal_node *n) { return *n->layer || dlsh_op_is(n, "mul|where"); }

/* A softmax that let gradients through at first is at its optimum when they are 0. */
static int has_converged(dlsh_pass first, dlsh_pass last, long k) {
    return dlsh_op_is(&last.at[k], "softmax|log_softmax|cross_entropy") && first.n == last.n && !is_stop(&first.at[k]);
}

/* At a loss of 0 there is nothing to pass on, and NaN has a cause of its own. */
static void find_stops(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 1), first = dlsh_pass_of(r, 0);
        for (long k = 0; k < p.n && fabs(r->last) >= 1e-6; k++)
            if (!has_converged(first, p, k) && is_stop(&p.at[k]) &&
                !(is_repeated(&p.at[k]) && passes_elsewhere(p, &p.at[k])))
                look_at_stop(e, r, &p.at[k]);
    }
}

/* ---------------------------------------------------------------- gradients as a part of the loss */

/* Does the line call grad() for a result without history? */
static int takes_plain_gradient(const dlsh_examination *e, const char *file, int line, const char *text, int n) {
    static const char call[] = "grad(";
    int found = 0;
    for (int i = 0; !found && i + (int)sizeof call - 1 <= n && text[i] != '#'; i++) {
        const int inner = i && (strchr("_.", text[i - 1]) || islower((unsigned char)text[i - 1]));
        found = !inner && !strncmp(text + i, call, sizeof call - 1);
    }
    return found && !dlsh_script_has(e, file, line, "create_graph");
}

/* A penalty on gradients whose own gradient was not asked for is a number like any other. */
static void find_plain_penalty(dlsh_examination *e, const dl_journal_row *r) {
    int n;
    const char *text;
    for (int line = 1; (text = dlsh_script_line(e, r->file, line, &n)); line++) {
        if (line == r->line) continue; /* the pass itself, as of a training that takes gradients as values */
        if (!takes_plain_gradient(e, r->file, line, text, n) || !dlsh_is_part_of(e, r->file, r->line, line)) continue;
        dlsh_found(
            e, r->file, line, "grad(..., create_graph=true)",
            "the loss has a part that is made of a gradient without history: it trains nothing\n"
            "grad() at this line is called without create_graph, and what becomes of it goes into the loss of line %d",
            r->line);
    }
}

/* ---------------------------------------------------------------- parts of the loss that are cut off */

enum { NONE, TENSOR, NUMBER };

/* What is added to the loss without a history: a tensor that is another one at each pass, or a number, whose value is
 * not known. */
static int adds_loose_part(dlsh_pass first, dlsh_pass last) {
    const dl_journal_node *n = last.n ? last.at : NULL;
    for (int i = 0; n && i < 8; i++) {
        for (int k = 0; dlsh_op_is(n, "add|sub") && k < 2; k++) {
            const dl_journal_node *then = first.n == last.n ? &first.at[n - last.at] : NULL;
            const dl_journal_value *v = &n->in[k], *w = then ? &then->in[k] : NULL;
            if (v->there && v->constant && !v->ndim && !(v->n && w && w->n && v->low == w->low))
                return v->n ? TENSOR : NUMBER;
        }
        const dl_journal_node *a = dlsh_pass_source(last, n, 0);
        n = dlsh_op_is(n, "add|sub|mul|div|mean|sum|neg") ? a ? a : dlsh_pass_source(last, n, 1) : NULL;
    }
    return NONE;
}

/* Is it a factor of something else than a number, as an advantage is? */
static int is_factor(const dlsh_examination *e, const char *file, const dlsh_node *cut) {
    const dlsh_node *around[64];
    const int depth = dlsh_nodes_around(dlsh_text_root(file), cut->span.start, around, 64);
    for (int i = 0; i < depth; i++) {
        const dlsh_node *n = around[i];
        if (n->kind != DLSH_N_BINARY || n->op != DLSH_OP_MUL) continue;
        const dlsh_node *other = n->kids[cut->span.start < n->kids[1]->span.start];
        const dlsh_value *v = dlsh_value_of(e, file, other);
        if (other->kind != DLSH_N_INT && other->kind != DLSH_N_FLOAT && !(v && dlsh_is_number(*v))) return 1;
    }
    return 0;
}

static void find_loose_part(dlsh_examination *e, const dl_journal_row *r) {
    const int loose = adds_loose_part(dlsh_pass_of(r, 0), dlsh_pass_of(r, 1));
    const dlsh_node *by = loose ? dlsh_cut_at(e, r->file, r->line) : NULL;
    const int made = by && (loose == TENSOR || dlsh_script_has(e, r->file, by->span.line, "item("));
    const int cut = made && !is_factor(e, r->file, by) ? by->span.line : 0;
    if (cut)
        dlsh_found(e, r->file, cut,
                   "leave out what cuts it off: take probabilities themselves, not what they are "
                   "compared with; for numbers to be shown use another variable",
                   "a part of the loss has no history: it trains nothing, only the other parts do\n"
                   "what is computed from the net at this line has no gradient, as of comparisons, round, argmax and "
                   "item(); it is added to the loss of line %d",
                   r->line);
}

/* Is what an operand holds also computed with a history in the pass? */
static int has_twin(dlsh_pass p, const dl_journal_value *v) {
    for (long k = 0; v->n > 15 && k < p.n; k++)
        for (int j = 0; j < p.at[k].nin && j < 8; j++) {
            const dl_journal_value *w = &p.at[k].in[j];
            if (w->there && !w->constant && w->from && w->n == v->n && w->hash == v->hash) return 1;
        }
    return 0;
}

/* Losses of a pass with targets that are given. */
static int count_targets(dlsh_pass p) {
    int count = 0;
    for (long k = 0; k < p.n; k++) {
        const int pairs = dlsh_op_is(&p.at[k], "cross_entropy|logit_loss|probability_loss|huber_difference|sub|"
                                               "square_difference|nll_picked");
        count += pairs && p.at[k].in[1].there && p.at[k].in[1].constant && p.at[k].in[1].ndim;
    }
    return count;
}

/* A head that is given what others are given with a history, while the loss stays large: what it is trained for is not
 * learned by the layers before it. */
static void find_cut_head(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p) {
    if (r->count < 30 || count_targets(p) < 2 || dlsh_settled_lower(r, 0.5)) return;
    DLSH_EACH_OP (n, p) {
        if (!dlsh_node_weight(n, NULL) || !n->in[0].constant || !has_twin(p, &n->in[0])) continue;
        const int line = dlsh_speaks_of(n->layer, "probe|monitor|aux") ? 0 : dlsh_cut_line(e, n->file, n->line);
        if (line)
            dlsh_found(e, n->file, line, "hand the result itself over, with its history",
                       "%s learns from what others train: this line cuts its history off\n"
                       "the same numbers go on to other layers with their history; what %s is trained for gives the "
                       "layers before no gradient, and the loss went from %.4g to %.4g alone",
                       *n->layer ? n->layer : n->op, *n->layer ? n->layer : n->op, r->first, r->last);
    }
}

/* ---------------------------------------------------------------- margins */

/* Labels of -1 and 1, by which a score is multiplied. */
static int is_signs(const dl_journal_value *v) {
    return v->there && v->constant && v->n > 3 && !v->zeros && v->low == -1 && v->high == 1 &&
           fabs(v->mean * v->mean + v->std * v->std - 1) < 1e-6;
}

static int sign_of_number(const dl_journal_value *v) {
    return !v->constant || !v->n || v->low * v->high <= 0 ? 0 : v->low > 0 ? 1 : -1;
}

/* 1: a result rises with its operand that is node `from`, -1: it falls, 0: not known. */
static int direction(dlsh_pass p, const dl_journal_node *n, const dl_journal_node *from) {
    const int second = dlsh_pass_source(p, n, 0) != from;
    if (dlsh_op_is(n, "relu|softplus|exp|mean|sum|add|clamp|log|sqrt|log1p|sigmoid|logsigmoid|minimum|maximum"))
        return 1;
    if (dlsh_op_is(n, "neg")) return -1;
    if (dlsh_op_is(n, "sub")) return second ? -1 : 1;
    if (dlsh_op_is(n, "mul") || (dlsh_op_is(n, "div") && !second)) return sign_of_number(&n->in[!second]);
    return 0;
}

/* Does the statement turn the labels before it multiplies by them, -y * s? */
static int turns_factor(const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_MUL)
            for (int k = 0; k < 2; k++)
                if (t.n->kids[k]->kind == DLSH_N_UNARY && t.n->kids[k]->op == DLSH_OP_NEG) return 1;
    return 0;
}

static void look_at_margin(dlsh_examination *e, dlsh_pass p, const dl_journal_node *n) {
    const int k = is_signs(&n->in[0]) ? 1 : 0;
    const dl_journal_node *at = n, *user;
    int rises = 1, bends = 0;
    if (!dlsh_op_is(n, "mul") || !is_signs(&n->in[1 - k]) || n->in[k].constant) return;
    if (dlsh_script_has(e, n->file, n->line, "_loss(")) return; /* the library's, which have the right sign */
    const dlsh_node *text = dlsh_statement_at(n->file, n->line);
    if (text && turns_factor(text)) rises = -1;
    while (rises && (user = dlsh_pass_user(p, at))) {
        rises *= direction(p, user, at);
        bends |= dlsh_op_is(user, "relu|softplus|exp|clamp|logsigmoid|log|log1p");
        at = user;
    }
    if (rises > 0 && bends)
        dlsh_found(e, n->file, n->line, "the other sign: relu(1 - y * s), softplus(-y * s)",
                   "the loss has the wrong sign: it falls when scores go away from their labels\n"
                   "scores times labels of -1 and 1 are to be made large; here the loss rises with them");
}

/* ---------------------------------------------------------------- distances */

/* The size of a distance; NaN: the node is none, or it is not known. */
static double distance(dlsh_pass p, const dl_journal_node *n) {
    for (int i = 0; n && i < 6; i++) {
        if (dlsh_op_is(n, "sqrt|norm|root_square_sum") && n->out.n) return n->out.mean;
        const dl_journal_value *d = &n->in[0];
        if (dlsh_op_is(n, "square_sum|square|pow|norm") && d->n) return sqrt(d->mean * d->mean + d->std * d->std);
        if (!dlsh_op_is(n, "where|sum|mean|add|clamp|sqrt|maximum")) return NAN;
        int k = 0; /* the operand with a history */
        while (k < n->nin && k < 8 && !n->in[k].from) k++;
        n = k < 8 && k < n->nin ? dlsh_pass_source(p, n, k) : NULL;
    }
    return NAN;
}

/* Adds up the distances that a sum takes with each sign, and numbers. */
static void split_terms(dlsh_pass p, const dl_journal_node *n, int sign, double near[2], int count[2], int depth) {
    const double d = depth ? distance(p, n) : NAN;
    if (!n || depth > 5) return;
    if (!isnan(d)) {
        near[sign < 0] += d, count[sign < 0]++;
        return;
    }
    if (!dlsh_op_is(n, "add|sub")) return;
    split_terms(p, dlsh_pass_source(p, n, 0), sign, near, count, depth + 1);
    split_terms(p, dlsh_pass_source(p, n, 1), dlsh_op_is(n, "sub") ? -sign : sign, near, count, depth + 1);
}

/* a - b of two parameters, of which the call gives what is far for the near one, or the other way round, as their names
 * say: the line of the call. 0: it is none. */
static int line_of_swapped_call(const char *file, const dlsh_node *n) {
    static const char *const says[] = {"near|pos|small|same|like|close|pull|inner",
                                       "far|neg|large|big|other|diff|apart|push"};
    const dlsh_node *root = dlsh_text_root(file);
    DLSH_EACH_BELOW (t, root ? n : NULL) {
        const dlsh_node *a = t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_SUB ? t.n->kids[0] : NULL;
        if (!a || a->kind != DLSH_N_NAME) continue;
        const dlsh_definition d = dlsh_define(root, a->text, t.n->span.start);
        for (int k = 0; k < 2 && d.param && d.value && d.value->kind == DLSH_N_NAME; k++)
            if (dlsh_speaks_of(a->text, says[k]) && dlsh_speaks_of(d.value->text, says[!k])) return d.value->span.line;
    }
    return 0;
}

/* Are all expressions on the way to a value written alike on the way to another one? Names do not count. */
static int is_made_within(const char *file, const dlsh_course *a, const dlsh_course *b) {
    for (int i = 0; i < a->n; i++) {
        int found = a->at[i].n->kind == DLSH_N_NAME || a->at[i].n->kind == DLSH_N_TUPLE;
        for (int k = 0; k < b->n && !found; k++) found = dlsh_same_text(file, a->at[i].n, b->at[k].n);
        if (!found) return 0;
    }
    return 1;
}

/* triplet_margin_loss(net(a), net(b), net(c)): is c made as the anchor is, but b otherwise? */
static int is_negative_alike(const dlsh_examination *e, const char *file, const dlsh_node *call) {
    static const char *const names[] = {"anchor", "positive", "negative"};
    static dlsh_course way[3];
    for (int k = 0; k < 3; k++) {
        const dlsh_node *n = dlsh_argument_of(call, k, names[k]);
        const dlsh_node *made = n && n->kind == DLSH_N_NAME ? dlsh_made(file, n) : n;
        while (made && made->kind == DLSH_N_CALL && made->nkids > 1 &&
               (dlsh_object_of(e, file, made->kids[0], &dlsh_net_class) || dlsh_is_call_of(made, "normalize")))
            n = made = made->kids[1];
        if (!n) return 0;
        dlsh_course_of(file, n, &way[k]);
        if (!way[k].n) return 0;
    }
    return is_made_within(file, &way[0], &way[2]) && is_made_within(file, &way[2], &way[0]) &&
           !is_made_within(file, &way[0], &way[1]);
}

/* The call of a triplet loss in a statement; NULL: it has none. */
static const dlsh_node *triplet_in(const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n)
        if (dlsh_is_call_of(t.n, "triplet_margin_loss|triplet_margin_with_distance_loss") && t.n->nkids > 3) return t.n;
    return NULL;
}

/* A margin between two distances of which, before any training, that which is to be small is the larger one: by far, or
 * where the text makes what is to be far as it makes the anchor. */
static void look_at_distances(dlsh_examination *e, dlsh_pass first, const dl_journal_node *n) {
    double size[2] = {0, 0};
    int count[2] = {0, 0};
    if (!dlsh_op_is(n, "relu|clamp|softplus")) return;
    split_terms(first, dlsh_pass_source(first, n, 0), 1, size, count, 0);
    if (count[0] != 1 || count[1] != 1 || !(size[0] > 0.95 * size[1])) return;
    const dlsh_node *s = dlsh_statement_at(n->file, n->line);
    const dlsh_node *triplet = size[0] > 1.2 * size[1] ? NULL : triplet_in(s);
    if (!(size[0] > 1.2 * size[1]) && !(triplet && is_negative_alike(e, n->file, triplet))) return;
    const int call = line_of_swapped_call(n->file, s);
    dlsh_found(e, n->file, call ? call : n->line, "the distance to what is alike first: anchor, positive, negative",
               "positive and negative samples are swapped: what is alike is driven apart\n"
               "the distance that the loss makes small is %.3g at first, the one that it makes large %.3g%s",
               size[0], size[1],
               triplet ? "; what the text makes as it makes the anchor is given as the negative" : "");
}

/* ---------------------------------------------------------------- two nets against each other */

/* The first layer of the net that gives a loss its scores, of one parameter where `leaf` names it. */
static const dl_journal_node *first_layer(dlsh_pass p, const dl_journal_node *loss, const void *leaf) {
    const dl_journal_node *n = dlsh_pass_source(p, loss, 0), *found = NULL;
    for (int i = 0; n && i < 40; i++) {
        const dl_journal_value *w = dlsh_node_weight(n, NULL);
        if (w && (!leaf || w->leaf == leaf)) found = n;
        n = dlsh_pass_source(p, n, 0);
    }
    return found;
}

static int is_judgement(const dl_journal_node *n) {
    const dl_journal_value *y = &n->in[1];
    return dlsh_op_is(n, "logit_loss|probability_loss") && y->there && y->constant && y->n && y->low == y->high;
}

static double apart(const dl_journal_value *a, const dl_journal_value *b) {
    return fabs(a->mean - b->mean) + fabs(a->std - b->std);
}

/* The generator's loss g, in pass q, beside a pass p in which the other net judges data of both kinds. */
static void look_at_rivals(dlsh_examination *e, dlsh_pass p, const dl_journal_row *r, const dl_journal_node *g) {
    const dlsh_pass q = dlsh_pass_of(r, 0);
    const dl_journal_node *nearest = NULL, *farther = NULL;
    double near = INFINITY;
    for (long k = 0; k < p.n; k++) {
        const dl_journal_node *d = is_judgement(&p.at[k]) ? first_layer(p, &p.at[k], NULL) : NULL;
        const dl_journal_value *w = d && d->in[0].constant && d->in[0].n ? dlsh_node_weight(d, NULL) : NULL;
        const dl_journal_node *own = w ? first_layer(q, g, w->leaf) : NULL;
        if (!own || own->in[0].constant || !own->in[0].n) continue;
        const double far = apart(&own->in[0], &d->in[0]);
        if (far < near)
            farther = nearest, nearest = &p.at[k], near = far;
        else
            farther = &p.at[k];
    }
    if (!nearest || !farther || nearest->in[1].low == farther->in[1].low || g->in[1].low != nearest->in[1].low) return;
    dlsh_found(e, g->file, dlsh_line_of_part(e, r, g), "the target that real samples have in the other net's loss",
               "the generator is trained to be found out: its target is that of made samples\n"
               "the other net learns %.3g for what is made and %.3g for real samples; here the target is %.3g",
               nearest->in[1].low, farther->in[1].low, g->in[1].low);
}

static void find_rivals(dlsh_examination *e) {
    DLSH_EACH_ROW (a, e, DL_DID_BACKWARD)
        DLSH_EACH_ROW (b, e, DL_DID_BACKWARD) {
            const dlsh_pass p = dlsh_pass_of(a, 0), q = dlsh_pass_of(b, 0);
            for (long j = 0; a != b && j < q.n; j++)
                if (is_judgement(&q.at[j])) look_at_rivals(e, p, b, &q.at[j]);
        }
}

/* Do names of a statement say that its numbers are to be small? */
static int has_costs(const dlsh_examination *e, const dl_journal_node *n) {
    dlsh_traced used[DLSH_TRACED];
    static const char words[] = "cost|regret|penal|err|loss|delay|price";
    const int k = dlsh_trace(e, n->file, n->line, used);
    for (int i = 0; i < k; i++)
        if (dlsh_speaks_of(used[i].name, words) || dlsh_speaks_of(used[i].base, words)) return 1;
    return 0;
}

/* Logarithms of probabilities times numbers, as of a policy that is paid for its actions, that are made small. */
static void look_at_policy(dlsh_examination *e, dlsh_pass p) {
    const dl_journal_node *n = p.n ? p.at : NULL;
    int sign = 1;
    for (int i = 0; n && i < 10; i++) {
        const int k = n->in[0].constant ? 0 : 1;
        const dl_journal_value *v = &n->in[k];
        if (dlsh_op_is(n, "mul") && v->there && v->constant && v->ndim && v->n > 3 && v->low < v->high && v->high > 0) {
            const dl_journal_node *from = dlsh_pass_source(p, n, 1 - k);
            while (dlsh_op_is(from, "gather|index|index_select|select|sum|neg")) {
                if (dlsh_op_is(from, "neg")) sign = -sign;
                from = dlsh_pass_source(p, from, 0);
            }
            if (!(sign > 0 && dlsh_op_is(from, "log_softmax|log"))) return;
            dlsh_finding *f =
                dlsh_found(e, n->file, n->line, "a minus before it, unless the numbers are costs",
                           "the loss has the wrong sign for a policy: what is rewarded becomes less likely\n"
                           "logarithms of probabilities times numbers, here from %.3g to %.3g, are made small",
                           v->low, v->high);
            if (!f) return;
            if (has_costs(e, n)) dlsh_only_note(e, f);
            return;
        }
        if (dlsh_op_is(n, "neg")) sign = -sign;
        const int c = n->in[1].there && n->in[1].constant;
        if (dlsh_op_is(n, "mul|div") && c && n->in[1].n && n->in[1].high < 0) sign = -sign;
        n = dlsh_op_is(n, "mean|sum|neg|mul|div|add|sub") ? dlsh_pass_source(p, n, 0) : NULL;
    }
}

/* ---------------------------------------------------------------- what was expected, and what came */

/* 1: numbers for each sample rise with the targets that a prediction is trained for, -1: they fall, 0: not known. */
static int follows(const dl_journal_value *v, const dl_journal_value *target) {
    double sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
    const double n = (double)v->nfew;
    if (v->nfew < 8 || v->nfew != target->nfew || v->shape[0] != target->shape[0]) return 0;
    for (long i = 0; i < v->nfew; i++) {
        const double x = v->few[i], y = target->few[i];
        sx += x, sy += y, xx += x * x, yy += y * y, xy += x * y;
    }
    const double r = (xy - sx * sy / n) / sqrt((xx - sx * sx / n) * (yy - sy * sy / n));
    return r > 0.6 ? 1 : r < -0.6 ? -1 : 0;
}

/* ... with the targets of a node: of an error that is squared, or of a loss of both. *at: where it is taken. */
static int rises_with(dlsh_pass p, const dl_journal_node *n, const dl_journal_value *v, const dl_journal_node **at) {
    if (dlsh_op_is(n, "huber_difference|square_difference") && n->in[1].constant) return *at = n, follows(v, &n->in[1]);
    const dl_journal_node *error = dlsh_op_is(n, "pow|square|square_sum|abs") ? dlsh_pass_source(p, n, 0) : NULL;
    if (!dlsh_op_is(error, "sub") || error->in[0].constant == error->in[1].constant) return 0;
    *at = error;
    return error->in[0].constant ? follows(v, &n->in[0]) : -follows(v, &n->in[0]);
}

/* In any pass that ran as often: actor and critic may have a loss each. */
static int rises_with_targets(const dlsh_examination *e, const dl_journal_row *of, const dl_journal_value *v,
                              const dl_journal_node **at) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_pass p = dlsh_pass_of(r, 1);
        for (long k = 0; r->count == of->count && r->since == of->since && k < p.n; k++) {
            const int rises = rises_with(p, &p.at[k], v, at);
            if (rises) return rises;
        }
    }
    return 0;
}

/* Does a name that a statement reads speak of one of the words? Names of calls do not count. */
static int speaks_of(const dlsh_node *n, const char *words) {
    if (!n) return 0;
    if (n->kind == DLSH_N_NAME && dlsh_speaks_of(n->text, words)) return 1;
    const int called = n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_NAME;
    for (int i = n->kind == DLSH_N_ASSIGN ? n->nkids - 1 : called; i < n->nkids; i++)
        if (speaks_of(n->kids[i], words)) return 1;
    return 0;
}

/* 1: numbers are what came minus one number that was expected, -1: the other way round, beside the logarithm of a
 * probability; 0: neither. */
static int rises_by_text(const dlsh_examination *e, const dl_journal_value *v, const dl_journal_node *of) {
    const dlsh_node *s = v->made.file ? dlsh_statement_at(v->made.file, v->made.line) : NULL;
    const dlsh_node *n = s && s->kind == DLSH_N_ASSIGN ? s->kids[s->nkids - 1] : NULL;
    if (!of || !(strstr(of->op, "log") || dlsh_op_is(of, "gather|nll_picked|select|sum"))) return 0;
    if (!n || n->kind != DLSH_N_BINARY || n->op != DLSH_OP_SUB) return 0;
    const dlsh_value *a = dlsh_value_of(e, v->made.file, n->kids[0]), *b = dlsh_value_of(e, v->made.file, n->kids[1]);
    if (!a || !b || dlsh_is_number(*a) == dlsh_is_number(*b)) return 0;
    return dlsh_is_number(*a) ? -1 : 1;
}

/* Numbers that a part of the loss is multiplied by, as those of an advantage, and that fall where more comes than was
 * predicted, while they make the part large that they stand beside. */
static void look_at_advantage(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n) {
    static const char costs[] = "cost|regret|penal|delay|price|loss|fee|waste";
    const int k = n->in[0].constant ? 0 : 1;
    const dl_journal_value *v = &n->in[k];
    const dl_journal_node *critic = NULL, *at = n, *user;
    if (!dlsh_op_is(n, "mul") || n->in[1 - k].constant || !v->constant || !v->ndim || v->n < 4 || !(v->std > 0)) return;
    const int told = rises_with_targets(e, r, v, &critic);
    const int rises = told ? told : rises_by_text(e, v, dlsh_pass_source(p, n, 1 - k));
    int loss = 1;
    while (rises && loss && (user = dlsh_pass_user(p, at))) loss *= direction(p, user, at), at = user;
    if (!rises || rises * loss <= 0 || (told && dlsh_pass_source(p, n, 1 - k) == critic)) return;
    const dl_source made = v->made.file ? v->made : (dl_source){n->file, n->line};
    const dl_source by = told ? (dl_source){critic->file, critic->line} : made;
    if (speaks_of(dlsh_statement_at(by.file, by.line), costs)) return; /* which are to be small */
    dlsh_found(e, made.file, made.line, "what came minus what was expected, reward - value, in -(log_prob * advantage)",
               "the advantage has the wrong sign: what brings more than was expected becomes less likely\n"
               "the numbers that line %d multiplies by %s with %s, line %d, and the loss %s with that product",
               n->line, rises < 0 ? "fall" : "rise", told ? "the targets of the prediction" : "what came", by.line,
               loss < 0 ? "falls" : "rises");
}

/* ---------------------------------------------------------------- gradients of what is detached */

typedef struct detached {
    dlsh_examination *e;
    const char *file;
} detached;

static void see_detached(void *ctx, const dlsh_detached *d) {
    const detached *at = ctx;
    dlsh_found(at->e, at->file, d->line, "leave detach() out where the gradient is asked for",
               "%s gets no gradient: %s\n"
               "line %d reads %s.grad, which is none",
               d->name, d->itself ? "it was detached" : "it goes into the loss through detach() alone",
               d->use->span.line, d->name);
}

static void find_detached(dlsh_examination *e) {
    const dlsh_unit *u;
    for (int i = 0; (u = dlsh_text_at(i)); i++) dlsh_each_detached(u, see_detached, &(detached){e, u->name});
}

/* Did a leaf of a pass get a gradient that is not 0, or one that is not known? */
static int arrives(dlsh_pass p) {
    int any = 0;
    DLSH_EACH_OP (m, p)
        DLSH_EACH_OPERAND (v, m) {
            if (!v->leaf) continue;
            if (v->gradient != 0) return 1;
            any = 1;
        }
    return !any;
}

/* Is there an op whose units are all dead, or whose numbers are not finite? No gradient gets through it. */
static int is_stopped(dlsh_pass p) {
    for (long k = 0; k < p.n; k++)
        if (p.at[k].out.dead >= 1 || p.at[k].out.nans) return 1;
    return 0;
}

dl_status dlsh_check_flow(dlsh_examination *e) {
    long passes = 0, ops = 0, lost = 0;
    find_detached(e);
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) look_at_policy(e, dlsh_pass_of(r, 1)), look_at_policy(e, dlsh_pass_of(r, 0));
    if (!dlsh_was_found(e, e->check, "the wrong sign")) find_stops(e); /* what is rewarded is gone by then */
    find_rivals(e);
    dlsh_find_ranking_sign(e);
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        dlsh_pass p = dlsh_pass_of(r, 1);
        for (long k = 0; k < p.n; k++) look_at_margin(e, p, &p.at[k]);
        const dlsh_pass first = dlsh_pass_of(r, 0);
        for (long k = 0; k < p.n && !e->bad; k++) look_at_advantage(e, r, p, &p.at[k]);
        for (long k = 0; k < first.n; k++) look_at_distances(e, first, &first.at[k]);
        if (p.n) find_plain_penalty(e, r), find_loose_part(e, r), find_cut_head(e, r, p);
        if (p.n && !e->bad) dlsh_find_codes_cut_off(e, p);
        passes += p.n > 0;
        if (!arrives(p) || is_stopped(p)) lost++;
        for (long k = 0; k < p.n; k++) ops += p.at[k].out.gradient > 0;
    }
    if (passes && !lost)
        dlsh_passed(e, "each of %ld op%s that got one passed one on, in the last pass of each loss", ops,
                    ops == 1 ? "" : "s");
    return DL_OK;
}
