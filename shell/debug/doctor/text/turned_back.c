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

/* A list, and the loop that appends to it what it carries on from item to item. */
typedef struct filling {
    const dlsh_examination *e;
    const dlsh_node *loop, *append;
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
    if (at->n == f->append->kids[1]) return DLSH_HAS_FIRST;
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
                "the loop of line %d goes forwards and appends its sum so far; line %d multiplies logarithms of "
                "probabilities by it",
                f->list, f->loop->span.line, f->beside->span.line);
            return;
        }
        dlsh_found(
            e, file, f->append->span.line, "turn it back: a list[::-1] behind the loop, or insert(0, ...) in it",
            "%s is filled from the last item to the first and never turned back: its items belong to other times "
            "than what they meet\n"
            "the loop of line %d goes backwards and appends what it carries on; line %d takes the first of it "
            "with the first of a net's results",
            f->list, f->loop->span.line, f->beside->span.line);
        return;
    }
}

void dlsh_find_not_turned_back(dlsh_examination *e) {
    DLSH_EACH_NODE (t) {
        const dlsh_node *loop = t.n->kind == DLSH_N_FOR ? t.n : NULL;
        if (!loop) continue;
        const int turned = has_turn(e, t.file, loop->kids[loop->nkids - 2]);
        DLSH_EACH_BELOW (k, dlsh_body_of(loop)) {
            if (!dlsh_is_method(k.n, "append") || k.n->nkids != 2 || k.n->kids[0]->kids[0]->kind != DLSH_N_NAME)
                continue;
            filling f = {e, loop, k.n, k.n->kids[0]->kids[0]->text, NULL, !turned};
            const int fills = turned ? is_carried(loop, k.n->kids[1]) : sum_before(loop, k.n->kids[1]) != NULL;
            if (fills && !is_reversed(t.file, f.list)) look_at_filling(e, t.file, &f);
        }
    }
}
