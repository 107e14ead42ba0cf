/* A rate that is made of itself by a factor of all rounds so far, lr = lr * gamma ** epoch: it falls with the square of
 * their number. */
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/syntax.h"

enum { AROUND = 128 };

/* Is a name counted up by a loop around a place, or around the calls that lead there? */
static dlsh_property is_counter(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const dlsh_node *root = dlsh_text_root(at->file);
    if (dlsh_is_comparison(at->n) || at->n->kind == DLSH_N_COND || at->n->kind == DLSH_N_INDEX)
        return DLSH_HAS_NOT; /* of some rounds, or written out for each */
    const int name = at->n->kind == DLSH_N_NAME;
    if (!name && at->n->kind != DLSH_N_FIELD) return DLSH_MAY_HAVE;
    const dlsh_definition d = name ? dlsh_define(root, at->n->text, at->n->span.start) : (dlsh_definition){.param = 1};
    if (d.each && d.value && (d.item <= 0 || dlsh_is_call_of(d.value, "zip")))
        return dlsh_is_call_of(d.value, "range|enumerate|progress|arange") ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
    DLSH_EACH_BELOW (t, root)
        if (t.n->kind == DLSH_N_ASSIGN && t.n->op == DLSH_OP_ADD && dlsh_same_text(at->file, t.n->kids[0], at->n) &&
            t.n->kids[1]->kind == DLSH_N_INT)
            return DLSH_HAS_FIRST;
    return d.param || d.value ? DLSH_MAY_HAVE : DLSH_HAS_NOT;
}

static int counts(const char *file, const dlsh_node *n) { return dlsh_origin(file, n, is_counter, NULL) != NULL; }

/* Does a quotient have the counter on both sides? Then it leads from one round to the next. */
static int leads_on(const char *file, const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_BINARY && t.n->op == DLSH_OP_DIV && counts(file, t.n->kids[0]) &&
            counts(file, t.n->kids[1]))
            return 1;
    return 0;
}

static dlsh_property is_of_groups(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    return at->n->kind == DLSH_N_FIELD && !strcmp(at->n->text, "param_groups") ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* An optimizer, or a group of one. */
static int is_group(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    return dlsh_object_of(e, file, n, &dlsh_optimizer_class) || dlsh_origin(file, n, is_of_groups, NULL);
}

/* opt.lr, g.lr, g["lr"] */
static int is_rate_of_optimizer(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *key = n->kind == DLSH_N_INDEX && n->nkids == 2 && n->kids[1]->kind == DLSH_N_STR ? n->kids[1]
                           : n->kind == DLSH_N_FIELD                                                  ? n
                                                                                                      : NULL;
    return key && !strcmp(key->text, "lr") && is_group(e, file, n->kids[0]);
}

typedef struct rate {
    const dlsh_examination *e;
    const dlsh_node *to, *call; /* what it is given to; the call that runs the function in which the product stands */
    int self, factors[2];       /* the product has it; has factors, and divisors, that are made of the counter */
    const dlsh_node *found;
} rate;

/* What a name stands for in the function that the call runs. */
static const dlsh_node *given(const rate *r, const char *file, const dlsh_node *n) {
    const dlsh_node *fn = r->call ? dlsh_function_called(file, r->call) : NULL;
    for (int k = 0; fn && n->kind == DLSH_N_NAME && k + 1 < fn->nkids; k++)
        if (fn->kids[k]->kind == DLSH_N_PARAM && !strcmp(fn->kids[k]->text, n->text)) {
            const dlsh_node *argument = dlsh_argument_of(r->call, k, n->text);
            return argument ? argument : n;
        }
    return n;
}

/* The factors of a product: what is given its value, and numbers that are made of the counter. */
static void see_factors(rate *r, const char *file, const dlsh_node *n, int divides) {
    const dlsh_node *as = given(r, file, n), *fn = dlsh_function_called(file, n);
    const dlsh_node *back = fn && !r->call ? dlsh_last_return(fn) : NULL;
    const int product = n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV);
    for (int k = 0; product && k < 2; k++) see_factors(r, file, n->kids[k], divides != (k && n->op == DLSH_OP_DIV));
    if (product) return;
    if (dlsh_is_call_of(n, "max|maximum|float") && n->nkids > 1) return see_factors(r, file, n->kids[1], divides);
    if (dlsh_same_text(file, as, r->to) ||
        (is_rate_of_optimizer(r->e, file, as) && is_rate_of_optimizer(r->e, file, r->to))) {
        r->self = 1;
    } else if (back && back->nkids) {
        r->call = n;
        see_factors(r, file, back->kids[0], divides);
        r->call = NULL;
    } else if (counts(file, as)) {
        if (leads_on(file, as)) r->factors[0] = r->factors[1] = 1;
        r->factors[divides] = 1;
    }
}

/* Is it given another value before, in the same round? Then it is made anew each time. */
static int is_made_anew(const char *file, const dlsh_node *n, const dlsh_node *to) {
    const dlsh_node *around[AROUND], *block = NULL, *root = dlsh_text_root(file);
    const int depth = dlsh_nodes_around(root, n->span.start, around, AROUND);
    for (int i = 0; i < depth; i++)
        if (dlsh_is_loop(around[i]) || around[i]->kind == DLSH_N_FN) block = around[i];
    DLSH_EACH_BELOW_IF (t, block, t.n == block || t.n->kind != DLSH_N_FN)
        if (t.n->kind == DLSH_N_ASSIGN && !t.n->op && t.n->span.end <= n->span.start && t.n->nkids == 2 &&
            dlsh_same_text(file, t.n->kids[0], to))
            return 1;
    return !block;
}

/* The assignment around a place; NULL: there is none. */
static const dlsh_node *assignment_around(const char *file, int place) {
    const dlsh_node *around[AROUND], *root = dlsh_text_root(file);
    for (int i = dlsh_nodes_around(root, place, around, AROUND) - 1; i >= 0; i--)
        if (around[i]->kind == DLSH_N_ASSIGN) return around[i];
    return NULL;
}

static int compounds(rate *r, const char *file, const dlsh_node *n) {
    const int times = n->op == DLSH_OP_MUL || n->op == DLSH_OP_DIV;
    if (n->nkids != 2 || (n->op && !times)) return 0;
    *r = (rate){.e = r->e, .to = n->kids[0], .self = times};
    see_factors(r, file, n->kids[1], n->op == DLSH_OP_DIV);
    return r->self && r->factors[0] != r->factors[1] && !is_made_anew(file, n, r->to);
}

static dlsh_property is_compounded(void *ctx, const dlsh_step *at) {
    rate *r = ctx;
    const dlsh_node *n = assignment_around(at->file, at->n->span.start);
    if (!n || !compounds(r, at->file, n)) return DLSH_MAY_HAVE;
    return r->found = n, DLSH_HAS_FIRST;
}

int dlsh_find_compounded_rate(dlsh_examination *e, const char *file, int line) {
    rate r = {.e = e};
    const dlsh_node *s = dlsh_statement_at(file, line);
    const dlsh_node *value = s && s->kind == DLSH_N_ASSIGN ? s->kids[s->nkids - 1] : s;
    if (value) dlsh_origin(file, value, is_compounded, &r);
    return r.found &&
           dlsh_found(e, file, r.found->span.line,
                      "make it of the rate at first: lr = first * gamma ** epoch; or of itself by the same factor each "
                      "time: lr = lr * gamma",
                      "the decay compounds: the rate is multiplied by a factor of all rounds so far, and had those "
                      "before in it already\n"
                      "after n rounds the exponents add up to n * (n + 1) / 2; line %d sets the rate",
                      line) != NULL;
}
