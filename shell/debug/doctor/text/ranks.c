/* What a sort gives, which item stands at each place, taken for the places of the items: a list of sorted items that is
 * read at an item's number and not searched for it, and one argsort where two give ranks. */
#include <limits.h>

#include "debug/doctor/text/reads.h"

static const char casts[] = "float|double|int|long|to|squeeze|unsqueeze|reshape|view|flatten|item|tolist|list|tensor|"
                            "cat|stack|clone|detach|cpu|numpy|contiguous|append|expand";

/* Does a value go on with the same numbers through it? */
static int passes_on(const dlsh_step *at) {
    const dlsh_node *n = at->n;
    if (n->kind == DLSH_N_BINARY && (n->op == DLSH_OP_ADD || n->op == DLSH_OP_SUB))
        return n->kids[0]->kind == DLSH_N_INT || n->kids[1]->kind == DLSH_N_INT || n->kids[1]->kind == DLSH_N_FLOAT;
    if (n->kind == DLSH_N_CALL) return dlsh_is_call_of(n, casts) || dlsh_function_called(at->file, n) != NULL;
    return n->kind != DLSH_N_BINARY && n->kind != DLSH_N_UNARY && n->kind != DLSH_N_INDEX;
}

static const dlsh_node *operand_of(const dlsh_node *call) {
    return call->kids[0]->kind == DLSH_N_FIELD ? call->kids[0]->kids[0] : call->nkids > 1 ? call->kids[1] : NULL;
}

/* ---------------------------------------------------------------- items in order */

static dlsh_property is_permutation(void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    if (dlsh_is_call_of(n, "argsort|randperm")) return DLSH_HAS_FIRST;
    if (dlsh_is_call_of(n, "sort|topk") && (at->item == 1 || dlsh_is_word("indices", at->field))) return DLSH_HAS_FIRST;
    (void)ctx;
    return passes_on(at) || n->kind == DLSH_N_INDEX ? DLSH_MAY_HAVE : DLSH_HAS_NOT;
}

/* The call that puts in order what is no order itself, as that of an order gives places. */
static dlsh_property is_order(void *ctx, const dlsh_step *at) {
    const dlsh_property has = is_permutation(ctx, at);
    if (has != DLSH_HAS_FIRST) return has;
    const dlsh_node *of = dlsh_is_call_of(at->n, "randperm") ? NULL : operand_of(at->n);
    return of && !dlsh_origin_at(at, of, is_permutation, ctx) ? DLSH_HAS_FIRST : DLSH_HAS_NOT;
}

/* A number that counts places, 0, i of range(n), arange(n); other places of a list, as of those that a mask keeps. */
static dlsh_property counts(void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    const dlsh_value *v = dlsh_value_of(ctx, at->file, n);
    if (v && v->type == DLSH_TENSOR && dl_dtype_of(v->as.tensor) == DL_BOOL) return DLSH_HAS_FIRST;
    if (dlsh_is_comparison(n) || is_permutation(NULL, at) == DLSH_HAS_FIRST) return DLSH_HAS_FIRST;
    if (n->kind == DLSH_N_INT || n->kind == DLSH_N_BINARY || n->kind == DLSH_N_UNARY) return DLSH_HAS_FIRST;
    if (dlsh_is_call_of(n, "arange|range|len|linspace|enumerate")) return DLSH_HAS_FIRST;
    if (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD) /* its arguments are no places */
        return passes_on(at) && dlsh_origin_at(at, n->kids[0]->kids[0], counts, ctx) ? DLSH_HAS : DLSH_HAS_NOT;
    return passes_on(at) && !dlsh_is_call_of(n, "tensor|stack|cat") ? DLSH_MAY_HAVE : DLSH_HAS_NOT;
}

/* ---------------------------------------------------------------- what is read */

typedef struct reading {
    const dlsh_examination *e;
    const dlsh_node *sort, *read; /* the call that puts in order; what reads it at an item; NULL: it is taken whole */
} reading;

/* Where a list is read in an expression, list.gather(1, at), list[i, at]; *at: NULL: at places that are counted. */
static const dlsh_node *list_read(const reading *r, const dlsh_step *s, const dlsh_node **at) {
    const dlsh_node *n = s->n, *list = NULL;
    *at = NULL;
    if (n->kind == DLSH_N_INDEX) {
        const dlsh_node *last = n->kids[n->nkids - 1];
        const dlsh_value *v = dlsh_value_of(r->e, s->file, n->kids[0]);
        const int rows = v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) >= n->nkids;
        list = n->kids[0];
        if (last->kind != DLSH_N_SLICE && last->kind != DLSH_N_NONE && last->kind != DLSH_N_STR && !rows) *at = last;
    } else if (dlsh_is_call_of(n, "gather|take_along_dim|index_select|take")) {
        const int method = n->kids[0]->kind == DLSH_N_FIELD, first = !dlsh_is_call_of(n, "gather|index_select");
        list = operand_of(n), *at = dlsh_argument_of(n, !method + !first, first ? "indices" : "index");
    }
    if (*at && dlsh_origin_at(s, *at, counts, (void *)r->e)) *at = NULL;
    return list;
}

static dlsh_property is_read(void *ctx, const dlsh_step *s) {
    reading *r = ctx;
    const dlsh_node *at, *list = list_read(r, s, &at);
    if (list && at && (r->sort = dlsh_origin_at(s, list, is_order, NULL))) return r->read = s->n, DLSH_HAS_FIRST;
    if (list) return !at && dlsh_origin_at(s, list, is_read, r) ? DLSH_HAS : DLSH_HAS_NOT;
    return passes_on(s) ? DLSH_MAY_HAVE : DLSH_HAS_NOT;
}

static dlsh_property is_whole(void *ctx, const dlsh_step *s) {
    const int part = s->n->kind == DLSH_N_INDEX && !dlsh_is_call_of(s->n->kids[0], "sort|topk");
    return part ? DLSH_HAS_NOT : is_order(ctx, s);
}

/* ---------------------------------------------------------------- what counts with it */

/* Places as a quantity: 1 / rank, rank < 5, rank.mean(). NULL: it is none. */
static const dlsh_node *quantity_in(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_DIV) return n->kids[1];
    if (dlsh_is_call_of(n, "mean|median|log|log2|reciprocal|sum|std|var")) return operand_of(n);
    if (!dlsh_is_comparison(n) || n->op == DLSH_OP_EQ || n->op == DLSH_OP_NE) return NULL;
    for (int k = 0; k < 2; k++)
        if (dlsh_number_of(e, file, n->kids[k]) >= 0 && n->kids[1 - k]->kind != DLSH_N_INT) return n->kids[1 - k];
    return NULL;
}

/* order.gather(1, item) + 1 as the item's rank. */
static int look_at_read(dlsh_examination *e, const char *file, const dlsh_node *n) {
    reading r = {.e = e};
    const dlsh_node *of = quantity_in(e, file, n);
    if (!of || !dlsh_origin(file, of, is_read, &r) || !r.read) return 0;
    dlsh_found(e, file, r.read->span.line,
               "the place of each item: argsort(argsort(scores, descending=true)), or search the list for it, "
               "(order == item).nonzero()",
               "the list of sorted items is read at the number of an item, not searched for it: what comes out is "
               "another item, not a rank\n"
               "%s at line %d tells which item stands at each place, and line %d counts with what was read as if it "
               "were the place of the item",
               r.sort->kids[0]->text, r.sort->span.line, n->span.line);
    return 1;
}

/* argsort(x).float().mean(), argsort(x) - argsort(y): as of a correlation of ranks. */
static void look_at_whole(dlsh_examination *e, const char *file, const dlsh_node *n) {
    const dlsh_node *of[2] = {NULL, NULL}, *sort = NULL;
    if (dlsh_is_call_of(n, "mean|std|var|corrcoef|cosine_similarity|pearson_corrcoef")) of[0] = of[1] = operand_of(n);
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_SUB) of[0] = n->kids[0], of[1] = n->kids[1];
    for (int k = 0; k < 2; k++)
        if (!of[k] || !(sort = dlsh_origin(file, of[k], is_whole, NULL))) return;
    dlsh_found(
        e, file, sort->span.line, "argsort twice gives ranks: argsort(argsort(x))",
        "the numbers of sorted items are taken for ranks: one argsort tells which item stands at each place, not "
        "which place an item has\n"
        "line %d counts with them as with quantities",
        n->span.line);
}

void dlsh_find_items_for_ranks(dlsh_examination *e) {
    DLSH_EACH_NODE (t)
        if (!look_at_read(e, t.file, t.n)) look_at_whole(e, t.file, t.n);
}
