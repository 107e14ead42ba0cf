/* Lists that are filled from the last item of a sequence to the first, as returns are added up, and that are never
 * turned back before they meet results in the order of the sequence; returns that are added up from the first on. */
#include <limits.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

/* Does an expression turn the order of items round: x[::-1], reversed(x), x.flip(0), range(n - 1, -1, -1)? */
static int turns(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *step =
        n->kind == DLSH_N_INDEX && n->nkids > 1 && n->kids[1]->kind == DLSH_N_SLICE ? n->kids[1]->kids[2] : NULL;
    if (dlsh_is_call_of(n, "range") && n->nkids == 4) step = n->kids[3];
    if (step) return dlsh_number_of(e, file, step) < 0;
    return dlsh_is_call_of(n, "reversed|flip|flipud");
}

static int has_turn(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n)
        if (turns(e, file, t.n)) return 1;
    return 0;
}

/* A list, or a tensor, and the loop that puts into it what it carries on from item to item. */
typedef struct filling {
    const dlsh_examination *e;
    const dlsh_node *loop, *put, *value; /* put: the statement or call that does so */
    const char *list;
    const dlsh_node *beside; /* where it meets results in the other order */
    int forwards;            /* the loop does not turn: what is before is added up */
} filling;

/* Does what a loop appends change with itself in each pass: g = r + gamma * g? */
static int is_carried(const dlsh_node *loop, const dlsh_node *value) {
    DLSH_EACH_BELOW_IF (t, dlsh_body_of(loop), t.n->kind != DLSH_N_FN) {
        const dlsh_node *to = t.n->kind == DLSH_N_ASSIGN && t.n->nkids == 2 ? t.n->kids[0] : NULL;
        if (to && to->kind == DLSH_N_NAME && (t.n->op || dlsh_mentions(t.n->kids[1], to->text)) &&
            dlsh_mentions(value, to->text))
            return value->kind == DLSH_N_NAME || value->kind == DLSH_N_BINARY || value->kind == DLSH_N_CALL;
    }
    return 0;
}

/* The loop's own sum, g = item + gamma * g, that it appends after each item; NULL: it appends another value. */
static const dlsh_node *sum_before(const dlsh_node *loop, const dlsh_node *value) {
    DLSH_EACH_BELOW_IF (t, dlsh_body_of(loop), t.n->kind != DLSH_N_FN && t.n->kind != DLSH_N_FOR) {
        const dlsh_node *n = t.n, *by = n->kind == DLSH_N_ASSIGN && n->nkids == 2 ? n->kids[1] : NULL;
        if (!by || value->kind != DLSH_N_NAME || !dlsh_names(n->kids[0], value->text) ||
            n->span.start > value->span.start)
            continue;
        if (n->op ? n->op != DLSH_OP_ADD
                  : by->kind != DLSH_N_BINARY || by->op != DLSH_OP_ADD || !dlsh_mentions(by, value->text))
            continue;
        for (int k = 0; k + 2 < loop->nkids; k++) /* an item, or xs[t], but not xs[n - 1 - t] */
            DLSH_EACH_BELOW_IF (i, by, i.n->kind != DLSH_N_INDEX || i.n->kids[i.n->nkids - 1]->kind == DLSH_N_NAME)
                if (i.n->kind == DLSH_N_NAME && dlsh_mentions(loop->kids[k], i.n->text)) return n;
    }
    return NULL;
}

static dlsh_property takes_log(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    return dlsh_is_call_of(at->n, "log|log_softmax|log_prob|logsigmoid|cross_entropy|nll_loss") ? DLSH_HAS_FIRST
                                                                                                : DLSH_MAY_HAVE;
}

static dlsh_property is_filled(void *ctx, const dlsh_step *at) {
    const filling *f = ctx;
    if (at->n == f->value) return DLSH_HAS_FIRST;
    if (at->n->kind != DLSH_N_INDEX) return DLSH_MAY_HAVE;
    return dlsh_origin_at(at, at->n->kids[0], is_filled, ctx) ? DLSH_HAS_FIRST : DLSH_HAS_NOT; /* not by its places */
}

static int comes_from_list(filling *f, const dlsh_step *at, const dlsh_node *n) {
    return dlsh_origin_at(at, n, is_filled, f) != NULL;
}

static dlsh_property turns_it(void *ctx, const dlsh_step *at) {
    const filling *f = ctx;
    return turns(f->e, at->file, at->n) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Something else turns on the way, or takes one item. */
static dlsh_property is_turned(void *ctx, const dlsh_step *at) {
    filling *f = ctx;
    const dlsh_node *n = at->n, *seq = f->loop->kids[f->loop->nkids - 2];
    if (n->span.start >= seq->span.start && n->span.end <= seq->span.end) return DLSH_HAS_NOT;
    int item = n->kind == DLSH_N_INDEX && n->nkids == 2 && dlsh_names(n->kids[0], f->list);
    if (f->forwards && n->kind == DLSH_N_BINARY && n->op == DLSH_OP_SUB) /* all - those before: those after */
        item |= comes_from_list(f, at, n->kids[1]) && !comes_from_list(f, at, n->kids[0]);
    return item || turns(f->e, at->file, n) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

static dlsh_property is_result(void *ctx, const dlsh_step *at) {
    const filling *f = ctx;
    const dlsh_node *by = at->n->kind == DLSH_N_CALL ? at->n->kids[0] : NULL;
    return by && dlsh_object_of(f->e, at->file, by, &dlsh_net_class) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* log_prob * g, of which one side has the order of the list and the other one is a net's result. */
static dlsh_property meets(void *ctx, const dlsh_step *at) {
    filling *f = ctx;
    const dlsh_node *n = at->n;
    const int loss = n->kind == DLSH_N_CALL && n->nkids > 2 && dlsh_speaks_of(n->kids[0]->text, "loss");
    const int pair = n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_MUL || n->op == DLSH_OP_SUB);
    for (int k = 0; (loss || pair) && k < 2; k++) {
        const dlsh_node *own = n->kids[loss + k], *other = n->kids[loss + 1 - k];
        if (!comes_from_list(f, at, own) || comes_from_list(f, at, other) || !dlsh_origin_at(at, other, is_result, f))
            continue;
        if (f->forwards && (n->op != DLSH_OP_MUL || !dlsh_origin_at(at, other, takes_log, f))) continue;
        return f->beside = n, DLSH_HAS_FIRST;
    }
    return DLSH_MAY_HAVE;
}

/* Is the list turned in place, L.reverse()? */
static int is_reversed(const char *file, const char *list) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file))
        if (dlsh_is_method(t.n, "reverse") && dlsh_names(t.n->kids[0]->kids[0], list)) return 1;
    return 0;
}

static void look_at_filling(dlsh_examination *e, const char *file, filling *f) {
    const dlsh_node *seq = f->loop->kids[f->loop->nkids - 2];
    if (f->forwards && (dlsh_origin(file, seq, turns_it, f) || (seq->text && is_reversed(file, seq->text)))) return;
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_node *s = strcmp(r->file, file) != 0 ? NULL : dlsh_statement_at(file, r->line);
        if (!s || dlsh_origin(file, s, is_turned, f) || !dlsh_origin(file, s, meets, f)) continue;
        if (f->forwards) {
            dlsh_found(
                e, file, f->loop->span.line,
                "go from the last reward to the first, rewards[::-1], and turn the list back behind the loop",
                "%s is added up from the first item on: each action is credited with what came before it, not with "
                "what followed\n"
                "the loop of line %d goes forwards and keeps its sum so far; line %d multiplies logarithms of "
                "probabilities by it",
                f->list, f->loop->span.line, f->beside->span.line);
            return;
        }
        dlsh_found(
            e, file, f->put->span.line, "turn it back: a list[::-1] behind the loop, or insert(0, ...) in it",
            "%s is filled from the last item to the first and never turned back: its items belong to other times "
            "than what they meet\n"
            "the loop of line %d goes backwards and appends what it carries on; line %d takes the first of it "
            "with the first of a net's results",
            f->list, f->loop->span.line, f->beside->span.line);
        return;
    }
}

/* ---------------------------------------------------------------- sums by cumsum */

/* Sums along places from the first one on, and where they meet logarithms of a net's probabilities. */
typedef struct summing {
    filling f;
    const dlsh_node *sum;
} summing;

/* The last of all, x[:, -1:]: what is left when those before are taken away is what is to come. */
static int is_last(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *at = n->kind == DLSH_N_INDEX ? n->kids[n->nkids - 1] : NULL;
    if (at && at->kind == DLSH_N_SLICE) at = at->kids[0];
    return at && dlsh_number_of(e, file, at) < 0;
}

static dlsh_property is_sum_of_past(void *ctx, const dlsh_step *at) {
    summing *s = ctx;
    const dlsh_node *n = at->n;
    const int compares = dlsh_is_comparison(n);
    if (compares || turns(s->f.e, at->file, n) || is_last(s->f.e, at->file, n)) return DLSH_HAS_NOT;
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_SUB && dlsh_origin_at(at, n->kids[1], is_sum_of_past, s) &&
        !dlsh_origin_at(at, n->kids[0], is_sum_of_past, s))
        return DLSH_HAS_NOT;
    if (!dlsh_is_call_of(n, "cumsum")) return DLSH_MAY_HAVE;
    const dlsh_node *of = n->kids[0]->kind == DLSH_N_FIELD ? n->kids[0]->kids[0] : n->nkids > 1 ? n->kids[1] : NULL;
    if (!of || dlsh_origin_at(at, of, turns_it, &s->f)) return DLSH_HAS_NOT;
    return s->sum = n, DLSH_HAS_FIRST;
}

/* What was drawn by probabilities, as actions are: multinomial(p, n), rand(n) < p. */
static dlsh_property is_drawn(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    const int compares = dlsh_is_comparison(n);
    for (int k = 0; compares && k < 2; k++)
        if (dlsh_is_call_of(n->kids[k], "rand|rand_like")) return DLSH_HAS_FIRST;
    return dlsh_is_call_of(n, "multinomial|bernoulli|sample") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

static dlsh_property meets_log(void *ctx, const dlsh_step *at) {
    summing *s = ctx;
    const dlsh_node *n = at->n;
    for (int k = 0; n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL && k < 2; k++) {
        const dlsh_node *own = n->kids[k], *other = n->kids[!k];
        if (!dlsh_origin_at(at, own, is_sum_of_past, s) || dlsh_origin_at(at, own, takes_log, &s->f)) continue;
        if (dlsh_origin_at(at, other, takes_log, &s->f) && dlsh_origin_at(at, other, is_result, &s->f) &&
            dlsh_origin_at(at, other, is_drawn, NULL))
            return s->f.beside = n, DLSH_HAS_FIRST;
    }
    return DLSH_MAY_HAVE;
}

static void find_sums_of_past(dlsh_examination *e) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD) {
        const dlsh_node *back = r->file ? dlsh_statement_at(r->file, r->line) : NULL;
        summing s = {.f = {.e = e}};
        if (!back || !dlsh_origin(r->file, back, meets_log, &s)) continue;
        dlsh_found(e, r->file, s.sum->span.line, "add up from the last one on: rewards.flip([1]).cumsum(1).flip([1])",
                   "rewards are added up from the first one on: each action is credited with what came before it, not "
                   "with what followed\n"
                   "cumsum is the sum so far; line %d multiplies logarithms of probabilities by it",
                   s.f.beside->span.line);
    }
}

/* ---------------------------------------------------------------- all */

/* L.append(v), or of a loop that does not turn G[:, t] = v; NULL: it puts nothing. */
static const dlsh_node *value_put(const dlsh_node *n, const dlsh_node *loop, int turned, const char **list) {
    if (dlsh_is_method(n, "append") && n->nkids == 2 && n->kids[0]->kids[0]->kind == DLSH_N_NAME)
        return *list = n->kids[0]->kids[0]->text, n->kids[1];
    const dlsh_node *to = n->kind == DLSH_N_ASSIGN && n->nkids == 2 && !n->op && !turned ? n->kids[0] : NULL;
    if (!to || to->kind != DLSH_N_INDEX || to->kids[0]->kind != DLSH_N_NAME) return NULL;
    for (int k = 1; k < to->nkids; k++)
        if (to->kids[k]->kind == DLSH_N_NAME && dlsh_is_item_of(loop, to->kids[k]->text))
            return *list = to->kids[0]->text, n->kids[1];
    return NULL;
}

void dlsh_find_not_turned_back(dlsh_examination *e) {
    DLSH_EACH_NODE (t) {
        const dlsh_node *loop = t.n->kind == DLSH_N_FOR ? t.n : NULL;
        if (!loop) continue;
        const int turned = has_turn(e, t.file, loop->kids[loop->nkids - 2]);
        DLSH_EACH_BELOW (k, dlsh_body_of(loop)) {
            filling f = {.e = e, .loop = loop, .put = k.n, .forwards = !turned};
            if (!(f.value = value_put(k.n, loop, turned, &f.list))) continue;
            const int fills = turned ? is_carried(loop, f.value) : sum_before(loop, f.value) != NULL;
            if (fills && !is_reversed(t.file, f.list)) look_at_filling(e, t.file, &f);
        }
    }
    find_sums_of_past(e);
}
