/* Probabilities that add up to 1 over another dimension than that along which the loss picks the one of the target. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/passes/passes.h"

enum { DEEPEST = 16 };

/* What becomes of probabilities on the way to the loss. */
typedef enum picked { OTHERWISE = -1, NOT, ALONG } picked;

typedef struct picking {
    dlsh_pass p;
    const dl_journal_node *by; /* what picks along another dimension, and of how many */
    long of;
} picking;

/* The number of a dimension in attributes, dim=1, dim=[1], counted from the front; -1: there is none, or several. */
static int dim_in(const dl_journal_node *n) {
    const char *at = strstr(n->attrs, "dim=");
    if (!at) return -1;
    at += strlen("dim=");
    char *end;
    const int d = (int)strtol(at + (*at == '['), &end, 10);
    return *at == '[' && *end == ',' ? -1 : d < 0 ? d + n->in[0].ndim : d;
}

/* The dimension of a view that holds dimension a of what it is of, alone or with others; -1: it is not known. */
static int dim_behind(const dl_journal_node *view, int a) {
    const dl_journal_value *x = &view->in[0], *y = &view->out;
    if (dlsh_op_is(view, "permute")) {
        const char *at = strstr(view->attrs, "dims=[");
        at = at ? at + strlen("dims=[") : NULL;
        for (int d = 0; at && d < y->ndim; d++, at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
            const int from = atoi(at);
            if ((from < 0 ? from + x->ndim : from) == a) return d;
        }
        return -1;
    }
    double behind = 1, size = 1;
    for (int d = a + 1; d < x->ndim; d++) behind *= (double)x->shape[d];
    for (int d = y->ndim - 1; d >= 0; d--) {
        if (behind >= size && behind < size * (double)y->shape[d]) return d;
        size *= (double)y->shape[d];
    }
    return -1;
}

/* Of rows of shares, as one-hot ones: do they add up to 1 over a dimension? */
static int adds_up_over(const dl_journal_value *y, int d) { return fabs(y->mean * (double)y->shape[d] - 1) < 1e-4; }

/* Shares of classes that a node multiplies by, in all elements; NULL: there are none. */
static const dl_journal_value *shares_of(const dl_journal_node *n, const dl_journal_value *x) {
    for (int k = 0; k < 2 && dlsh_op_is(n, "mul|divergence|log_divergence"); k++) {
        const dl_journal_value *y = &n->in[k];
        const int all = y->there && y->constant && y->ndim == x->ndim && (double)y->n == dlsh_elements_in(x);
        if (all && y->low >= 0 && y->high <= 1 && y->std > 0) return y;
    }
    return NULL;
}

static picked take(picking *k, const dl_journal_node *by, long of) {
    if (!k->by) k->by = by, k->of = of;
    return OTHERWISE;
}

/* x[arange(n), y]: elements of what was made flat, one of so many of a dimension. */
static picked picked_flat(picking *k, const dl_journal_node *flat, const dl_journal_node *by, int a) {
    const dl_journal_value *x = &flat->in[0];
    const double share = by ? dlsh_elements_in(x) / dlsh_elements_in(&by->out) : 0;
    if (!dlsh_op_is(by, "index_select") || share == (double)x->shape[a]) return ALONG;
    for (int d = 0; d < x->ndim; d++)
        if (share == (double)x->shape[d] && share > 1) return take(k, by, x->shape[d]);
    return ALONG; /* not known */
}

static picked follow(picking *k, const dl_journal_node *n, int a, int depth);

/* What a node does with probabilities along dimension a of its operand x; ALONG also where it is not known. */
static picked picked_by(picking *k, const dl_journal_node *u, const dl_journal_value *x, int a, int depth) {
    static const char kept[] = "neg|log|exp|add|sub|mul|div|clamp|maximum|where|masked_fill|to|clone|pow|square|slice";
    const int d = dim_in(u);
    const dl_journal_value *y = shares_of(u, x);
    if (dlsh_op_is(u, "gather") && d >= 0 && d != a && u->out.shape[d] == 1)
        return follow(k, u, a, depth) == ALONG ? ALONG : take(k, u, x->shape[d]); /* a place first, then its class */
    if (dlsh_op_is(u, "gather")) return d == a ? ALONG : follow(k, u, a, depth);
    if (dlsh_op_is(u, "nll_picked")) return a == 1 || x->ndim < 2 ? ALONG : take(k, u, x->shape[1]);
    for (int b = 0; y && !adds_up_over(y, a) && b < x->ndim; b++)
        if (adds_up_over(y, b)) return take(k, u, x->shape[b]);
    if (y) return adds_up_over(y, a) ? ALONG : follow(k, u, a, depth);
    if (dlsh_op_is(u, "reshape") && u->out.ndim == 1) return picked_flat(k, u, dlsh_pass_user(k->p, u), a);
    if (dlsh_op_is(u, "reshape|permute")) return a = dim_behind(u, a), a < 0 ? ALONG : follow(k, u, a, depth);
    if (dlsh_op_is(u, "select")) return d == a || d < 0 ? ALONG : follow(k, u, a - (d < a), depth);
    if (dlsh_op_is(u, "sum|mean")) {
        const int keeps = u->out.ndim == x->ndim;
        return !u->out.ndim || d == a || d < 0 ? NOT : follow(k, u, a - (!keeps && d < a), depth);
    }
    return dlsh_op_is(u, kept) && u->out.ndim == x->ndim ? follow(k, u, a, depth) : ALONG;
}

/* ... and all that uses the result of a node. */
static picked follow(picking *k, const dl_journal_node *n, int a, int depth) {
    picked found = NOT;
    if (depth > DEEPEST) return ALONG;
    DLSH_EACH_OP (u, k->p)
        DLSH_EACH_OPERAND (v, u) {
            if (!v->there || v->from != n->seq) continue;
            const picked own = picked_by(k, u, v, a, depth + 1);
            if (own == ALONG) return ALONG;
            if (own == OTHERWISE) found = OTHERWISE;
        }
    return found;
}

/* The dimension over which a node makes probabilities, or their logarithms; -1: it makes none. */
static int dim_of_probabilities(dlsh_pass p, const dl_journal_node *n) {
    if (dlsh_op_is(n, "softmax|log_softmax")) return dim_in(n);
    const dl_journal_node *by = dlsh_op_is(n, "sub|div") ? dlsh_pass_source(p, n, 1) : NULL;
    const int logs = dlsh_op_is(n, "sub");
    if (!logs && dlsh_op_is(by, "add|clamp|maximum")) by = dlsh_pass_source(p, by, 0); /* + 1e-9 */
    if (!dlsh_op_is(by, logs ? "logsumexp" : "sum") || by->out.ndim != n->out.ndim) return -1;
    const dl_journal_node *of = dlsh_pass_source(p, n, 0);
    if (of != dlsh_pass_source(p, by, 0) || (!logs && !dlsh_op_is(of, "exp"))) return -1;
    return dim_in(by);
}

int dlsh_is_picked_along(dlsh_pass p, const dl_journal_node *n) {
    picking k = {.p = p};
    const int a = dim_of_probabilities(p, n);
    return a >= 0 && a < n->out.ndim && follow(&k, n, a, 0) == ALONG;
}

void dlsh_find_other_dimension(dlsh_examination *e, const dl_journal_row *r, dlsh_pass p, const dl_journal_node *n) {
    picking k = {.p = p};
    const int a = dim_of_probabilities(p, n);
    if (a < 0 || n->out.ndim < 2 || a >= n->out.ndim || follow(&k, n, a, 0) != OTHERWISE) return;
    int classes = n->out.ndim - 1;
    while (classes > 0 && n->out.shape[classes] != k.of) classes--;
    char shape[80];
    dlsh_found(e, dlsh_node_file(n), dlsh_node_line(n),
               dlsh_kept(e, "over the classes: dim=%d, or dim=%d", classes, classes - n->out.ndim),
               "probabilities add up to 1 over dimension %d, %s, but the loss picks the one of the target along "
               "another one, of %ld classes\n"
               "%s of [%s] runs over dimension %d; %s at line %d takes one of each %ld along the dimension of the "
               "classes: these do not compete, and the %ld of dimension %d share one probability; the loss went from "
               "%.4g to %.4g",
               a, a ? "the places" : "the samples", k.of, dlsh_op_is(n, "sub|div") ? "a normalisation by hand" : n->op,
               dlsh_shape_text(n->out.ndim, n->out.shape, shape, sizeof shape), a, k.by->op, k.by->line, k.of,
               n->out.shape[a], a, r->first, r->last);
}
