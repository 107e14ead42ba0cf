/* Losses by pairs of scores, logsigmoid(a - b): one of samples that were observed is to be higher than one of samples
 * that were drawn at random. */

#include "debug/doctor/passes/passes.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trace.h"

/* The terms of a difference, by their sign in it: [0] taken away, [1] added. */
typedef struct terms {
    const dlsh_node *of[2];
    int n;
} terms;

static void add_terms(const dlsh_node *n, int added, terms *out) {
    const int sum = n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_ADD || n->op == DLSH_OP_SUB);
    if (n->kind == DLSH_N_INT || n->kind == DLSH_N_FLOAT) return; /* a margin */
    if (n->kind == DLSH_N_UNARY && n->op == DLSH_OP_NEG) return add_terms(n->kids[0], !added, out);
    if (!sum) {
        out->of[added] = n, out->n++;
        return;
    }
    add_terms(n->kids[0], added, out);
    add_terms(n->kids[1], n->op == DLSH_OP_SUB ? !added : added, out);
}

typedef struct scoring {
    const dlsh_examination *e;
    const dlsh_node *call; /* of a net, which gives the score */
} scoring;

static dlsh_property is_score(void *ctx, const dlsh_step *at) {
    scoring *s = ctx;
    const dlsh_node *by = at->n->kind == DLSH_N_CALL ? at->n->kids[0] : NULL;
    if (!by || !dlsh_object_of(s->e, at->file, by, &dlsh_net_class)) return DLSH_MAY_HAVE;
    return s->call = at->n, DLSH_HAS_FIRST;
}

/* Numbers that were drawn, not rows that were picked by such. */
static dlsh_property is_drawn(void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    (void)ctx;
    if (dlsh_is_call_of(n, "randint|rand|randn|randperm|multinomial")) return DLSH_HAS_FIRST;
    return n->kind == DLSH_N_INDEX || dlsh_is_call_of(n, "nonzero|where|argsort|topk") ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* Is a score one of samples that were drawn (1), or of data alone (0)? -1: it is no net's score. */
static int is_of_draws(const dlsh_examination *e, const char *file, const dlsh_node *term) {
    scoring s = {e, NULL};
    int drawn = 0;
    dlsh_origin(file, term, is_score, &s);
    if (!s.call) return -1;
    for (int i = 1; i < s.call->nkids; i++) drawn |= dlsh_origin(file, s.call->kids[i], is_drawn, NULL) != NULL;
    return drawn;
}

void dlsh_find_ranking_sign(dlsh_examination *e) {
    DLSH_EACH_NODE (t) {
        const int rises = dlsh_is_call_of(t.n, "logsigmoid"), falls = dlsh_is_call_of(t.n, "softplus|relu");
        terms d = {.n = 0};
        if ((!rises && !falls) || t.n->nkids < 2 || !dlsh_has_history_at(e, t.file, t.n->span.line)) continue;
        add_terms(t.n->kids[1], 1, &d);
        const dlsh_node *high = d.of[rises], *low = d.of[!rises]; /* the loss makes one high, the other low */
        if (d.n != 2 || !high || !low) continue;
        if (is_of_draws(e, t.file, high) != 1 || is_of_draws(e, t.file, low) != 0) continue;
        dlsh_found(
            e, t.file, t.n->span.line, "the score of what was observed is to be higher: exchange both",
            "the loss has the wrong sign: scores of samples drawn at random are made higher than those of the data\n"
            "%s is given the difference of two scores of one net; the one that it makes higher is of random samples",
            t.n->kids[0]->text);
    }
}
