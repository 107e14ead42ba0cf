/* The highest, or lowest, of what a net says of all samples of a batch, without dim=, where that of each sample is
 * meant, as in the targets of Q-learning: r + gamma * q(next).max(). */
#include <limits.h>
#include <math.h>

#include "commands/nets/nets.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/text/reads.h"

enum { DEEPEST = 12, UNKNOWN = -1 };

static const char casts[] =
    "detach|float|double|long|to|clone|contiguous|relu|clamp|clamp_min|tanh|cpu|flip|masked_fill";

static const dlsh_node *receiver_of(const dlsh_node *call) {
    return call->kids[0]->kind == DLSH_N_FIELD ? call->kids[0]->kids[0] : call->nkids > 1 ? call->kids[1] : NULL;
}

static int rank_of(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth);

/* x[i], x[:, 0], x[mask]: numbers take a dimension each away, and tensors put theirs in place of one. */
static int rank_of_index(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth) {
    int rank = rank_of(e, file, n->kids[0], depth), picked = UNKNOWN;
    for (int i = 1; rank != UNKNOWN && i < n->nkids; i++) {
        const dlsh_node *at = n->kids[i];
        if (!at || at->kind == DLSH_N_SLICE) continue;
        if (at->kind == DLSH_N_STR || at->kind == DLSH_N_LIST) return UNKNOWN;
        const dlsh_value *v = dlsh_value_of(e, file, at);
        if (v && v->type == DLSH_TENSOR && dl_dtype_of(v->as.tensor) == DL_BOOL) return UNKNOWN;
        const int own = rank_of(e, file, at, depth);
        if (own == UNKNOWN) return UNKNOWN;
        rank--;
        if (own > picked && own) picked = own;
    }
    return rank == UNKNOWN || rank < 0 ? UNKNOWN : rank + (picked > 0 ? picked : 0);
}

/* What a net gave at a line: its dimensions. */
static int rank_of_result(const dlsh_examination *e, const char *file, const dlsh_node *call) {
    const dlsh_value *v = dlsh_value_of(e, file, call->kids[0]);
    const void *net = v ? dlsh_unwrap(*v, &dlsh_net_class) : NULL;
    DLSH_EACH_ROW (r, e, DL_DID_FORWARD)
        if ((net ? r->what == net : r->line == call->span.line && !strcmp(r->file, file)) && r->nrows > 1)
            return r->ndim;
    return UNKNOWN;
}

static int rank_of_call(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth) {
    const dlsh_node *fn = dlsh_function_called(file, n), *back = fn ? dlsh_last_return(fn) : NULL;
    const dlsh_node *of = receiver_of(n);
    const int method = n->kids[0]->kind == DLSH_N_FIELD;
    if (dlsh_is_call_of(n, "item|len|float|int") && !(method && !dlsh_is_call_of(n, "item"))) return 0;
    const dlsh_value *v = dlsh_value_of(e, file, n->kids[0]);
    if (v && dlsh_unwrap(*v, &dlsh_net_class)) return rank_of_result(e, file, n);
    if (fn) return back && back->nkids ? rank_of(e, file, back->kids[0], depth) : rank_of_result(e, file, n);
    if (!of || !dlsh_is_call_of(n, casts)) return UNKNOWN;
    return rank_of(e, file, of, depth);
}

/* The dimensions that a value has; UNKNOWN: it cannot be told. */
static int rank_of(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth) {
    if (!n || depth > DEEPEST) return UNKNOWN;
    const dlsh_value *v = dlsh_value_of(e, file, n);
    if (v && v->type == DLSH_TENSOR) return dl_ndim(v->as.tensor);
    if ((v && dlsh_is_number(*v)) || n->kind == DLSH_N_INT || n->kind == DLSH_N_FLOAT) return 0;
    if (n->kind == DLSH_N_INDEX) return rank_of_index(e, file, n, depth + 1);
    if (n->kind == DLSH_N_CALL) return rank_of_call(e, file, n, depth + 1);
    if (n->kind == DLSH_N_UNARY) return rank_of(e, file, n->kids[0], depth + 1);
    if (n->kind == DLSH_N_BINARY) {
        const int a = rank_of(e, file, n->kids[0], depth + 1), b = rank_of(e, file, n->kids[1], depth + 1);
        return a == UNKNOWN || b == UNKNOWN ? UNKNOWN : a > b ? a : b;
    }
    const dlsh_node *made = n->kind == DLSH_N_NAME ? dlsh_defined(file, n) : NULL;
    return made && made != n ? rank_of(e, file, made, depth + 1) : UNKNOWN;
}

/* Does it come from a net, or from a parameter? */
static dlsh_property is_learned(void *ctx, const dlsh_step *at) {
    const dlsh_examination *e = ctx;
    const dlsh_value *v = dlsh_value_of(e, at->file, at->n);
    const int parameter = v && v->type == DLSH_TENSOR && dl_requires_grad(v->as.tensor);
    const dlsh_value *by = at->n->kind == DLSH_N_CALL ? dlsh_value_of(e, at->file, at->n->kids[0]) : NULL;
    return parameter || (by && dlsh_unwrap(*by, &dlsh_net_class)) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* x.max(), max(x), without a dimension, of results [samples, values]. */
static int is_of_all(const dlsh_examination *e, const char *file, const dlsh_node *n, const char *names) {
    if (!dlsh_is_call_of(n, names) || n->nkids != (n->kids[0]->kind == DLSH_N_FIELD ? 1 : 2)) return 0;
    const dlsh_node *of = receiver_of(n);
    return of && rank_of(e, file, of, 0) == 2 && dlsh_origin(file, of, is_learned, (void *)e);
}

/* ... with a factor, or through a name; NULL: it is none. */
static const dlsh_node *best_of_all(const dlsh_examination *e, const char *file, const dlsh_node *n, int depth) {
    const dlsh_node *found = NULL;
    if (!n || depth > DEEPEST) return NULL;
    if (is_of_all(e, file, n, "max|amax|min|amin")) return n;
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MUL)
        for (int k = 0; k < 2 && !found; k++) found = best_of_all(e, file, n->kids[k], depth + 1);
    if (n->kind == DLSH_N_CALL && dlsh_is_call_of(n, "item|detach|float"))
        return best_of_all(e, file, receiver_of(n), depth + 1);
    const dlsh_node *made = n->kind == DLSH_N_NAME || n->kind == DLSH_N_CALL ? dlsh_made(file, n) : NULL;
    return found || !made || made == n ? found : best_of_all(e, file, made, depth + 1);
}

/* Is a value, or what is computed at its line, a part of a loss? */
static int is_in_training(const dlsh_examination *e, const char *file, int line) {
    DLSH_EACH_ROW (r, e, DL_DID_BACKWARD)
        if (!strcmp(r->file, file) && (r->line == line || dlsh_comes_from(e, file, r->line, line))) return 1;
    return 0;
}

static void tell(dlsh_examination *e, const char *file, const dlsh_node *best, int use) {
    const dlsh_node *of = receiver_of(best);
    const char *by = best->kids[0]->text;
    dlsh_found(
        e, file, best->span.line,
        dlsh_kept(e, "one for each sample: .%s(dim=1)%s", by, dlsh_is_word("max|min", by) ? ".values" : ""),
        "%s runs over the whole batch: it gives one number for all samples, dim= is missing\n"
        "what it is of has a row of values for each sample, %d dimensions; line %d puts the one number beside what "
        "each sample has",
        by, rank_of(e, file, of, 0), use);
}

void dlsh_find_whole_batch(dlsh_examination *e) {
    DLSH_EACH_NODE (t) {
        const int sum = t.n->kind == DLSH_N_BINARY && (t.n->op == DLSH_OP_ADD || t.n->op == DLSH_OP_SUB);
        for (int k = 0; sum && k < 2; k++) {
            const dlsh_node *best = best_of_all(e, t.file, t.n->kids[k], 0);
            if (best && rank_of(e, t.file, t.n->kids[!k], 0) == 1 && is_in_training(e, t.file, t.n->span.line))
                tell(e, t.file, best, t.n->span.line);
        }
    }
}
