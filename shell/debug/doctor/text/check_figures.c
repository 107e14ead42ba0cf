/* Figures of a training or an evaluation that are computed over batches: one that is overwritten in place of added up,
 * one that goes on over all epochs, one of the last batch alone, counts divided by batches, results beside labels in
 * another order, scores compared as if they were probabilities. */
#include <limits.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/checks.h"
#include "debug/doctor/passes/passes.h"
#include "debug/doctor/text/reads.h"

enum { DEEPEST = 8 };

static int is_zero(const dlsh_node *n) {
    return n && ((n->kind == DLSH_N_INT && !n->num.i) || (n->kind == DLSH_N_FLOAT && n->num.f == 0));
}

static int is_empty_list(const dlsh_node *n) { return n && n->kind == DLSH_N_LIST && !n->nkids; }

/* What an assignment gives a name by itself, of several the one at its place; NULL: nothing. */
static const dlsh_node *given_to(const dlsh_node *n, const char *name) {
    if (n->kind != DLSH_N_ASSIGN || n->op) return NULL;
    const dlsh_node *value = n->kids[n->nkids - 1], *targets = n->nkids == 2 ? n->kids[0] : n;
    const int count = n->nkids == 2 ? (dlsh_holds_targets(targets) ? targets->nkids : 0) : n->nkids - 1;
    if (n->nkids == 2 && dlsh_names(n->kids[0], name)) return value;
    for (int i = 0; i < count; i++)
        if (dlsh_names(targets->kids[i], name))
            return value->kind == DLSH_N_TUPLE && i < value->nkids ? value->kids[i] : value;
    return NULL;
}

/* The last value that a name is given before a loop; NULL: it is not known, or items of something. */
static const dlsh_node *value_before(const char *file, const char *name, const dlsh_node *loop) {
    const dlsh_definition d = dlsh_define(dlsh_text_root(file), name, loop->span.start);
    return d.param || d.each ? NULL : d.value;
}

/* name / ..., anywhere behind a place: the division. */
static const dlsh_node *division_of(const dlsh_node *n, const char *name, int behind, int till) {
    DLSH_EACH_BELOW_IF (t, n, t.n->span.end > behind && t.n->span.start < till)
        if (t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_DIV && t.n->span.start >= behind &&
            dlsh_mentions(t.n->kids[0], name))
            return t.n;
    return NULL;
}

static int is_number_of(const dlsh_node *n) {
    return dlsh_is_method(n, "item") || dlsh_is_method(n, "sum") || dlsh_is_method(n, "mean") ||
           (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_NAME && !dlsh_names(n->kids[0], "len")) ||
           n->kind == DLSH_N_BINARY;
}

/* ---------------------------------------------------------------- overwritten in place of added up */

typedef struct looking {
    dlsh_examination *e;
    const char *file;
    const dlsh_node *loop, *scope;
} looking;

static void look_at_overwritten(const looking *s, const dlsh_node *n) {
    for (int i = 0; i + 1 < n->nkids; i++) {
        const char *name = n->kids[i]->kind == DLSH_N_NAME ? n->kids[i]->text : NULL;
        const dlsh_node *value = name ? given_to(n, name) : NULL;
        if (!value || dlsh_mentions(value, name) || dlsh_reads(dlsh_body_of(s->loop), name)) continue;
        const dlsh_node *first = value_before(s->file, name, s->loop);
        const int number = is_zero(first) && is_number_of(value), list = is_empty_list(first);
        if (!number && !(list && value->kind == DLSH_N_LIST)) continue;
        const dlsh_node *use = number ? division_of(s->scope, name, s->loop->span.end, s->scope->span.end) : NULL;
        if (!use && !(list && dlsh_reads_behind(s->scope, name, s->loop->span.end))) continue;
        dlsh_finding *f = dlsh_find_at(s->e, s->file, n->span.line, number ? "add it up: +=" : "append to it");
        if (!f) return;
        dlsh_cause(f, "%s is overwritten by each batch, not added up: what is left is that of the last batch alone",
                   name);
        if (use)
            dlsh_evidence(f, "it begins with 0, the loop of line %d sets it anew each time, and line %d divides it",
                          s->loop->span.line, use->span.line);
        else
            dlsh_evidence(f, "it begins empty, and the loop of line %d sets it anew each time", s->loop->span.line);
    }
}

static void each_assignment(const looking *s, const dlsh_node *n, void (*look)(const looking *, const dlsh_node *)) {
    if (!n || n->kind == DLSH_N_FN) return;
    if (n->kind == DLSH_N_ASSIGN) look(s, n);
    for (int i = 0; i < n->nkids; i++)
        if (n->kids[i] && !(dlsh_is_loop(n->kids[i]) && look == look_at_overwritten))
            each_assignment(s, n->kids[i], look);
}

/* ---------------------------------------------------------------- over all epochs */

/* Is a name added to, or given its value, in a tree? */
static int changes(const dlsh_node *n, const char *name, int adds) {
    DLSH_EACH_BELOW_IF (t, n, t.n->kind != DLSH_N_FN) {
        if (t.n->kind == DLSH_N_ASSIGN && dlsh_assigns(t.n, name) && !t.n->op != !!adds) return 1;
        if (t.n->kind == DLSH_N_FOR && !adds && dlsh_assigns(t.n, name)) return 1;
    }
    return 0;
}

/* The innermost loop around a place, within a tree; NULL: none. */
static const dlsh_node *loop_within(const dlsh_node *n, int place) {
    const dlsh_node *found = NULL;
    DLSH_EACH_BELOW_IF (t, n, place >= t.n->span.start && place <= t.n->span.end)
        if (dlsh_is_loop(t.n)) found = t.n;
    return found;
}

static dlsh_property is_item_of(void *loop, const dlsh_step *at) {
    return at->n->kind == DLSH_N_NAME && dlsh_is_item_of(loop, at->n->text) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Does a loop go over a loader, whose samples are the same ones in each pass of the loop around it? */
static int is_over_same(const looking *s, const dlsh_node *inner) {
    dlsh_dealt d;
    const dlsh_node *body = dlsh_body_of(inner);
    const int line = body->nkids ? body->kids[0]->span.line : body->span.line;
    return inner->kind == DLSH_N_FOR && dlsh_loader_around(s->e, s->file, line, &d) &&
           !dlsh_origin(s->file, inner->kids[inner->nkids - 2], is_item_of, (void *)s->loop);
}

/* Does a tree hold a name that the loop counts with, or that grows in it without end? hits / seen, of which neither is
 * ever set back, is a mean of all so far: of the same samples again and again none is meant. */
static int grows(const looking *s, const dlsh_node *n, const dlsh_node *inner) {
    const dlsh_node *body = dlsh_body_of(s->loop);
    DLSH_EACH_BELOW (t, n) {
        if (t.n->kind != DLSH_N_NAME) continue;
        if (dlsh_assigns(s->loop, t.n->text)) return 1;
        if (!changes(body, t.n->text, 1) || changes(body, t.n->text, 0)) continue;
        if (!changes(inner, t.n->text, 1) || !is_over_same(s, inner)) return 1;
    }
    return 0;
}

/* Is a name in a tree added to in a loop's body, and never set back there? */
static int is_added_up(const dlsh_node *n, const dlsh_node *body) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_NAME && changes(body, t.n->text, 1) && !changes(body, t.n->text, 0)) return 1;
    return 0;
}

/* total += ..., in a loop within the loop s->loop, before which alone it is set to 0. */
static void look_at_kept(const looking *s, const dlsh_node *n) {
    const char *name = n->op == DLSH_OP_ADD && n->kids[0]->kind == DLSH_N_NAME ? n->kids[0]->text : NULL;
    const dlsh_node *body = dlsh_body_of(s->loop), *inner = name ? loop_within(body, n->span.start) : NULL;
    if (!inner || changes(body, name, 0)) return;
    const dlsh_node *first = value_before(s->file, name, s->loop);
    const dlsh_node *use = is_zero(first) ? division_of(body, name, inner->span.end, s->loop->span.end) : NULL;
    if (!use || grows(s, use->kids[1], inner)) return;
    dlsh_found(s->e, s->file, first->span.line, "set it to 0 at the start of each epoch",
               "%s goes on over all epochs: it is never set back to 0, and each epoch's figure has those before in it\n"
               "it is set to 0 before the loop of line %d alone; line %d adds to it, and line %d divides it by what "
               "%s",
               name, s->loop->span.line, n->span.line, use->span.line,
               is_added_up(use->kids[1], body) ? "has grown with it" : "one epoch has");
}

/* Is no part of a list taken in a tree, scores[-50:], and is it never emptied? */
static int is_read_whole(const dlsh_node *n, const char *list) {
    DLSH_EACH_BELOW (t, n)
        if ((t.n->kind == DLSH_N_INDEX && dlsh_names(t.n->kids[0], list)) ||
            (dlsh_is_method(t.n, "clear") && dlsh_names(t.n->kids[0]->kids[0], list)))
            return 0;
    return 1;
}

/* scores.append(...) in an evaluation, of a list that is made empty before the loop s->loop alone. */
static void look_at_kept_list(const looking *s, const dlsh_node *n) {
    const dlsh_node *of = dlsh_is_method(n, "append") ? n->kids[0]->kids[0] : NULL, *body = dlsh_body_of(s->loop);
    const dlsh_node *inner = of && of->kind == DLSH_N_NAME ? loop_within(body, n->span.start) : NULL;
    if (!inner || inner == s->loop || dlsh_trains(dlsh_body_of(inner)) || !is_over_same(s, inner)) return;
    const dlsh_node *first = changes(body, of->text, 0) ? NULL : value_before(s->file, of->text, s->loop);
    const dlsh_node *use = division_of(body, of->text, inner->span.end, s->loop->span.end);
    if (!use || !is_empty_list(first) || !dlsh_mentions(use->kids[1], of->text) || !is_read_whole(body, of->text))
        return;
    dlsh_found(
        s->e, s->file, first->span.line, "make it empty at the start of each epoch",
        "%s goes on over all epochs: it is never made empty again, and each epoch's figure has those before in it\n"
        "it is made empty before the loop of line %d alone; line %d adds to it, and line %d takes its mean",
        of->text, s->loop->span.line, n->span.line, use->span.line);
}

/* A field or item of a record or list, hits of tally.hits and tally[0], as a key; NULL: it is none. */
static const dlsh_node *part_of_holder(const dlsh_node *n) {
    if (n->kind == DLSH_N_FIELD) return n->kids[0]->kind == DLSH_N_NAME ? n : NULL;
    const int item = n->kind == DLSH_N_INDEX && n->nkids == 2 && n->kids[0]->kind == DLSH_N_NAME;
    return item && (n->kids[1]->kind == DLSH_N_INT || n->kids[1]->kind == DLSH_N_STR) ? n : NULL;
}

/* Is a holder, or one of its parts, given a value, or is it handed to something that may do so? */
static int is_set_back(const char *file, const dlsh_node *n, const dlsh_node *part, const dlsh_node *made) {
    const char *name = part->kids[0]->text;
    if (!n) return 0;
    if (n->kind == DLSH_N_ASSIGN && !n->op)
        for (int i = 0; i + 1 < n->nkids; i++) {
            if (dlsh_is_listed(n->kids[i], name) && n->kids[n->nkids - 1] != made) return 1;
            if (part_of_holder(n->kids[i]) && dlsh_names(n->kids[i]->kids[0], name)) return 1;
        }
    for (int i = 1; n->kind == DLSH_N_CALL && i < n->nkids; i++)
        if (dlsh_names(n->kids[i], name)) return 1;
    if (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD && dlsh_names(n->kids[0]->kids[0], name)) return 1;
    for (int i = 0; i < n->nkids; i++)
        if (is_set_back(file, n->kids[i], part, made)) return 1;
    return 0;
}

/* PART / ..., anywhere. */
static const dlsh_node *division_of_part(const char *file, const dlsh_node *n, const dlsh_node *part) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_DIV && dlsh_same_text(file, t.n->kids[0], part))
            return t.n;
    return NULL;
}

/* The loops around a place and the calls that lead to it; *outer: where the outermost one begins. */
static int loops_around(const char *file, int place, int *outer) {
    int places[DLSH_LEVELS], count = 0;
    const dlsh_node *within[128], *root = dlsh_text_root(file);
    const int n = dlsh_places_from(file, place, places);
    for (int i = n - 1; i >= 0; i--) {
        const int depth = dlsh_nodes_around(root, places[i], within, 128);
        int from = 0;
        for (int k = 0; k < depth; k++)
            if (within[k]->kind == DLSH_N_FN) from = k; /* its loops alone run here */
        for (int k = from; k < depth; k++)
            if (dlsh_is_loop(within[k]) && !count++) *outer = within[k]->span.start;
    }
    return count;
}

/* tally.hits += ... of a record that is made before all loops and never set back, divided in the outermost one. */
static void look_at_counter(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *part = n->op == DLSH_OP_ADD ? part_of_holder(n->kids[0]) : NULL, *root = dlsh_text_root(file);
    const dlsh_definition d = part ? dlsh_define(root, part->kids[0]->text, INT_MAX) : (dlsh_definition){0};
    int outer = -1, same = -1, own;
    if (!d.value || d.param || d.each || is_set_back(file, root, part, d.value)) return;
    const dlsh_node *use = division_of_part(file, root, part);
    const int within = use ? loops_around(file, use->span.start, &outer) : 0;
    if (!within || loops_around(file, n->span.start, &same) <= within || same != outer || d.at >= outer) return;
    if (loops_around(file, d.at, &own)) return; /* in a function that a loop calls: made anew each time */
    dlsh_found(e, file, d.value->span.line, "set it to 0 at the start of each round",
               "%s goes on over all epochs: it is never set back to 0, and each figure has those before in it\n"
               "this line alone makes it, before all loops; line %d adds to it in a loop, and line %d divides it in "
               "each round of the outer one",
               part->kids[0]->text, n->span.line, use->span.line);
}

/* ---------------------------------------------------------------- counts over batches */

/* (...).sum().item(): a count, of a comparison. */
static int is_count(const dlsh_node *n) {
    if (dlsh_is_method(n, "item") || dlsh_is_method(n, "float") || dlsh_is_method(n, "int"))
        return is_count(n->kids[0]->kids[0]);
    if (!dlsh_is_method(n, "sum")) return 0;
    const dlsh_node *of = n->kids[0]->kids[0];
    while (of->kind == DLSH_N_CALL && of->kids[0]->kind == DLSH_N_FIELD) of = of->kids[0]->kids[0];
    return dlsh_is_comparison(of);
}

/* hits += (...).sum() in a loop over batches, then hits / len(batches). */
static void look_at_count(const looking *s, const dlsh_node *n) {
    const char *name = n->op == DLSH_OP_ADD && n->kids[0]->kind == DLSH_N_NAME ? n->kids[0]->text : NULL;
    const dlsh_node *seq = s->loop->kids[s->loop->nkids - 2];
    if (!name || seq->kind != DLSH_N_NAME || !is_count(n->kids[n->nkids - 1])) return;
    const dlsh_node *use = division_of(s->scope, name, s->loop->span.end, s->scope->span.end);
    const dlsh_node *by = use ? use->kids[1] : NULL;
    if (!by || by->kind != DLSH_N_CALL || by->nkids != 2 || !dlsh_names(by->kids[0], "len") ||
        !dlsh_names(by->kids[1], seq->text))
        return;
    dlsh_found(s->e, s->file, use->span.line, "divide by the number of samples",
               "a count of samples is divided by the number of batches: it is no share\n"
               "line %d adds up the samples for which the comparison holds; len(%s) counts batches",
               n->span.line, seq->text);
}

/* ---------------------------------------------------------------- of the last batch alone */

static const dlsh_node *metric_with(const dlsh_node *n, const char *name, int behind) {
    const dlsh_node *found = NULL;
    if (!n || n->span.end <= behind || n->kind == DLSH_N_FN) return NULL;
    for (int i = 0; i < n->nkids && !found; i++) found = metric_with(n->kids[i], name, behind);
    if (found || n->span.start < behind) return found;
    const char *by = n->kind == DLSH_N_CALL ? n->kids[0]->text : NULL;
    const int metric =
        (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_EQ) || dlsh_speaks_of(by, "_score|accuracy|loss|entropy");
    return metric && dlsh_mentions(n, name) ? n : NULL;
}

static int is_set_again(const dlsh_node *n, const char *name, int behind, int till) {
    DLSH_EACH_BELOW_IF (t, n, t.n->span.end > behind && t.n->span.start < till)
        if (t.n->span.start >= behind && (given_to(t.n, name) || (t.n->kind == DLSH_N_FOR && dlsh_assigns(t.n, name))))
            return 1;
    return 0;
}

/* for x, y in batches { out = m(x) }; accuracy(y, out): the names of the loop are those of its last pass. */
static void look_at_last(const looking *s) {
    const dlsh_node *loop = s->loop, *body = dlsh_body_of(loop);
    if (loop->kind != DLSH_N_FOR || loop->nkids < 3 || dlsh_trains(body)) return;
    const dlsh_node *t = loop->nkids == 3 && dlsh_holds_targets(loop->kids[0]) ? loop->kids[0] : loop;
    const int count = t == loop ? loop->nkids - 2 : t->nkids;
    for (int i = 1; i < count; i++) {
        const char *name = t->kids[i]->kind == DLSH_N_NAME ? t->kids[i]->text : NULL;
        const dlsh_node *use = name ? metric_with(s->scope, name, loop->span.end) : NULL;
        if (!use || is_set_again(s->scope, name, loop->span.end, use->span.start + 1)) continue;
        dlsh_found(s->e, s->file, use->span.line, "add up in the loop, or keep all results of it",
                   "the figure is that of the last batch alone: %s is what the loop left\n"
                   "the loop of line %d is over; the batches before its last one do not count here",
                   name, loop->span.line);
        return;
    }
}

/* ---------------------------------------------------------------- results and labels in two orders */

/* name.append(...), anywhere in a tree. */
static int appends(const dlsh_node *n, const char *name) {
    DLSH_EACH_BELOW (t, n)
        if (dlsh_is_method(t.n, "append") && dlsh_names(t.n->kids[0]->kids[0], name)) return 1;
    return 0;
}

/* The last loop of a tree before a place in which a list of that name grows; NULL: none. */
static const dlsh_node *loop_that_fills(const dlsh_node *n, const char *name, int before) {
    const dlsh_node *found = NULL;
    DLSH_EACH_BELOW_IF (t, n, t.n->span.start < before)
        if (t.n->kind == DLSH_N_FOR && t.n->span.end <= before && appends(dlsh_body_of(t.n), name)) found = t.n;
    return found;
}

/* The loop, or comprehension, whose results an expression has in their order; NULL: it is not known. */
static const dlsh_node *collected_by(const char *file, const dlsh_node *n, int depth) {
    if (!n || depth > DEEPEST) return NULL;
    if (n->kind == DLSH_N_COMPREHENSION) return n;
    if (n->kind == DLSH_N_INDEX || n->kind == DLSH_N_FIELD) return collected_by(file, n->kids[0], depth + 1);
    if (n->kind == DLSH_N_CALL) {
        const dlsh_node *by = n->kids[0];
        return collected_by(file, by->kind == DLSH_N_FIELD ? by->kids[0] : n->nkids > 1 ? n->kids[1] : NULL, depth + 1);
    }
    const dlsh_node *made = dlsh_defined(file, n);
    if (!made || made->span.start >= n->span.start) return NULL;
    return is_empty_list(made) ? loop_that_fills(dlsh_text_root(file), n->text, n->span.start)
                               : collected_by(file, made, depth + 1);
}

/* The labels of data in their own order: d.test.y, or a variable that no loop fills. */
static int is_in_own_order(const dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *loop) {
    const dlsh_value *v = dlsh_value_of(e, file, n);
    if (n->span.start >= loop->span.start && n->span.end <= loop->span.end) return 0;
    if (n->kind == DLSH_N_FIELD && !strcmp(n->text, "y")) return 1;
    return n->kind == DLSH_N_NAME && v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) &&
           !collected_by(file, n, 0) && !dlsh_assigns(loop, n->text);
}

/* accuracy_score(d.test.y, cat(said, 0)), where a loop over a loader that shuffles made what was said. */
static void look_at_order(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const int compares = n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_EQ || n->op == DLSH_OP_SUB);
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    const int metric =
        by && by->text && n->nkids > 2 && dlsh_speaks_of(by->text, "_score|accuracy|loss|entropy|error|confusion");
    if (!compares && !metric) return;
    const dlsh_node *side[] = {n->kids[metric], n->kids[metric + 1]};
    for (int i = 0, line; i < 2; i++) {
        const dlsh_node *loop = collected_by(file, side[i], 0);
        if (!loop || !dlsh_is_shuffled(file, loop->kids[loop->nkids - 1 - (loop->kind == DLSH_N_FOR)], &line)) continue;
        if (!is_in_own_order(e, file, side[1 - i], loop)) continue;
        dlsh_found(e, file, line,
                   "no shuffle where results are kept, or keep the labels of the "
                   "batches beside them",
                   "results are kept in the order of a loader that shuffles, and compared with labels in their own "
                   "order: the figure is one of chance\n"
                   "line %d compares both; the loop of line %d goes over the samples in another order each time",
                   n->span.line, loop->span.line);
        return;
    }
}

/* ---------------------------------------------------------------- scores and probabilities */

/* Does the loss take scores, and give them to a sigmoid itself? Numbers from 0 to 1 are the result of another one. */
static int takes_scores(const dlsh_examination *e) {
    dlsh_node_walk w = {0};
    const dl_journal_node *n = dlsh_node_next(e, "logit_loss", &w);
    return n && (n->in[0].low < 0 || n->in[0].high > 1);
}

/* Does the loss take what a net gives as probabilities? */
static int takes_probabilities(const dlsh_examination *e) {
    dlsh_node_walk w = {0};
    const dl_journal_node *n = dlsh_node_next(e, "probability_loss", &w);
    return n && n->in[0].low >= 0 && n->in[0].high <= 1;
}

static const char keeping[] = "squeeze|flatten|reshape|view|detach|item|float|unsqueeze|cpu|numpy";

/* 1: the scores of a net as they are, 2: given to a sigmoid; 0: not known. */
static int kind_of_scores(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth) {
    while (n && n->kind == DLSH_N_INDEX) n = n->kids[0];
    if (!n || depth > DEEPEST) return 0;
    const dlsh_node *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    if (by && by->text && !strcmp(by->text, "sigmoid")) return 2;
    if (by && by->kind == DLSH_N_FIELD && dlsh_is_word(keeping, by->text))
        return kind_of_scores(e, file, by->kids[0], depth + 1);
    if (by && by->kind == DLSH_N_NAME) {
        const dlsh_value *v = dlsh_value_of(e, file, by);
        return v && dlsh_unwrap(*v, &dlsh_net_class) ? 1 : 0;
    }
    const dlsh_node *made = dlsh_defined(file, n);
    return made && made->span.start < n->span.start ? kind_of_scores(e, file, made, depth + 1) : 0;
}

static void look_at_threshold(dlsh_examination *e, const char *file, const dlsh_node *n) {
    if (n->op != DLSH_OP_GT && n->op != DLSH_OP_GE) return;
    const int half = n->kids[1]->kind == DLSH_N_FLOAT && n->kids[1]->num.f == 0.5, none = is_zero(n->kids[1]);
    const int scores = (half || none) && takes_scores(e), shares = none && !scores && takes_probabilities(e);
    if (!scores && !shares) return;
    const int kind = kind_of_scores(e, file, n->kids[0], 0);
    if (kind != (half || shares ? 1 : 2)) return;
    dlsh_finding *f = dlsh_find_at(e, file, n->span.line, half ? "> 0, or sigmoid(...) > 0.5" : "> 0.5");
    if (half)
        dlsh_cause(f, "scores are compared with 0.5 as if they were probabilities: at a score of 0 both are as likely");
    else
        dlsh_cause(f, "probabilities are compared with 0: they are all above it, whatever the net says");
    if (shares)
        dlsh_evidence(f, "the loss takes what the net gives as probabilities, binary_cross_entropy");
    else
        dlsh_evidence(f, "the loss takes scores of any size, binary_cross_entropy_with_logits; here stands %s",
                      half ? "no sigmoid" : "a sigmoid");
}

/* ---------------------------------------------------------------- the check */

static void see(dlsh_examination *e, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    looking s = {e, file, n, dlsh_scope_of(within, depth)};
    if (n->kind == DLSH_N_BINARY && n->nkids == 2) look_at_threshold(e, file, n);
    if (n->kind == DLSH_N_ASSIGN) look_at_counter(e, file, n);
    if (n->kind == DLSH_N_BINARY || n->kind == DLSH_N_CALL) look_at_order(e, file, n);
    if (!dlsh_is_loop(n) || !s.scope) return;
    each_assignment(&s, dlsh_body_of(n), look_at_overwritten);
    each_assignment(&s, dlsh_body_of(n), look_at_kept);
    DLSH_EACH_BELOW_IF (t, dlsh_body_of(n), t.n->kind != DLSH_N_FN) look_at_kept_list(&s, t.n);
    if (n->kind == DLSH_N_FOR) each_assignment(&s, dlsh_body_of(n), look_at_count);
    look_at_last(&s);
}

dl_status dlsh_check_figures(dlsh_examination *e) {
    long i = 0;
    if (!dlsh_row_next(e, DL_DID_BACKWARD, &i)) return DL_OK;
    DLSH_EACH_NODE (t) see(e, t.file, t.n, t.within, t.depth);
    dlsh_find_wrong_counts(e);
    dlsh_find_mixed_scales(e);
    dlsh_find_brought_back(e);
    dlsh_find_choices_for_scores(e);
    dlsh_find_counted_padding(e);
    dlsh_find_items_for_ranks(e);
    return DL_OK;
}
