/* Where an infinity comes from: the oldest op of a history whose operands explain one, as the logarithm of 0. Many
 * kernels make infinities without a flag of the arithmetic unit, so that nobody looks at them as they are made. */
#include "autograd/nonfinite.h"
#include "autograd/tape.h"
#include "core/list.h"
#include "core/scope.h"
#include "ops/formulas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

/* The nodes of a history, as far as they fit. */
typedef struct history {
    const dl_node **node;
    long n, cap;
    dl_addresses known;
} history;

static dl_status add(history *h, const dl_node *n) {
    const long known = h->known.n;
    if (!n || known == MOST) return DL_OK;
    DL_TRY(DL_LIST_ROOM(h->node, h->n, h->cap));
    if (dl_addresses_add(&h->known, n) == known) h->node[h->n++] = n;
    return DL_OK;
}

static dl_status collect(history *h, const dl_node *from) {
    DL_TRY(add(h, from));
    for (long i = 0; i < h->n; i++) {
        const dl_node *n = h->node[i];
        for (int k = 0; k < n->nin; k++) DL_TRY(add(h, n->edge[k].node));
    }
    return DL_OK;
}

static int by_age(const void *a, const void *b) {
    const dl_node *x = *(const dl_node *const *)a, *y = *(const dl_node *const *)b;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* What a node saved of an input, or of its result (0). */
static dl_tensor *saved(const dl_node *n, int which) {
    for (int i = 0; i < n->nsaved; i++)
        if (n->saved[i].out == which) return n->saved[i].t;
    return NULL;
}

/* Is there an element by which the op explains an infinity? The first one's number, or -1; e->count: how many. */
static long explained(dl_nan_event *e, const dl_tensor *a, const dl_tensor *b) {
    DL_FREED double *x = malloc((size_t)a->numel * sizeof *x), *y = b ? malloc((size_t)b->numel * sizeof *y) : NULL;
    if (!x || (b && !y) || dl_read_f64(a, x) || (b && dl_read_f64(b, y))) return dl_error_clear(), -1;
    long first = -1;
    dl_nan_event other = *e;
    e->count = 0;
    for (long i = 0; i < a->numel; i++) {
        const double second = !b ? NAN : b->numel == a->numel ? y[i] : b->numel == 1 ? y[0] : NAN;
        *other.reason = 0;
        if (!isfinite(x[i]) || !dl_nonfinite_explain(first < 0 ? e : &other, x[i], second)) continue;
        if (first < 0) first = i;
        e->count++;
    }
    return first;
}

/* exp and its kin keep their result alone. */
static int overflowed(const dl_node *n, dl_nan_event *e) {
    const dl_tensor *y = strcmp(n->op->name, "exp") != 0 ? NULL : saved(n, 0);
    if (!y || !dl_nonfinite_has(y)) return 0;
    snprintf(e->reason, sizeof e->reason, "the result is beyond the largest number of its type");
    snprintf(e->remedy, sizeof e->remedy,
             "subtract the maximum first, as softmax and logsumexp do, or clamp the argument");
    e->numel = y->numel, e->ndim = y->ndim;
    return 1;
}

static void set_at(dl_nan_event *e, const dl_tensor *t, long i) {
    e->ndim = t->ndim, e->numel = t->numel;
    for (int d = t->ndim - 1; d >= 0; d--) e->at[d] = i % t->shape[d], i /= t->shape[d];
}

static int makes_infinity(const dl_node *n, dl_nan_event *e) {
    dl_tensor *a = saved(n, -1), *b = saved(n, -2);
    *e = (dl_nan_event){.value = INFINITY, .count = 1};
    snprintf(e->op, sizeof e->op, "%s", n->op->name);
    if (overflowed(n, e)) return 1;
    if (!a || !a->numel || !dl_in_host_memory(a) || (b && !dl_in_host_memory(b)) || dl_formula_of(n->op) < 0) return 0;
    const long i = explained(e, a, b);
    if (i < 0) return 0;
    set_at(e, a, i);
    dl_nonfinite_operands(e, (dl_tensor *[]){a, b}, b ? 2 : 1);
    return 1;
}

int dl_nan_origin(const dl_tensor *t, dl_nan_event *out) {
    DL_SCOPED_ERROR;
    history h = {0};
    int found = 0;
    if (t && t->node && collect(&h, t->node) == DL_OK) qsort(h.node, (size_t)h.n, sizeof *h.node, by_age);
    for (long i = 0; i < h.n && !found; i++) {
        const dl_node *n = h.node[i];
        if (!(found = makes_infinity(n, out))) continue;
        snprintf(out->file, sizeof out->file, "%s", n->src.file);
        snprintf(out->seen_file, sizeof out->seen_file, "%s", n->src.file);
        out->line = out->seen_line = n->src.line;
        if (!n->layer) continue;
        snprintf(out->layer, sizeof out->layer, "%s", n->layer->path);
        snprintf(out->layer_file, sizeof out->layer_file, "%s", n->layer->src.file);
        out->layer_line = n->layer->src.line;
    }
    free(h.node);
    dl_addresses_free(&h.known);
    return found;
}
