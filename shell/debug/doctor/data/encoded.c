/* Figures of groups, as the mean target of each shop, that inputs are made of and that are taken over all rows of the
 * targets, while training takes a part of these. */
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

typedef struct encoding {
    const dlsh_examination *e;
    const char *target;    /* the variable that has all rows of the targets */
    const dlsh_node *call; /* the outermost one that leads there; NULL: none */
} encoding;

/* Some of the rows, not all in another order. */
static dlsh_property is_part(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n;
    const int logic = n->kind == DLSH_N_BINARY && (n->op < DLSH_OP_EQ || n->op > DLSH_OP_GE);
    return n->kind == DLSH_N_INDEX || logic || dlsh_is_call_of(n, "nonzero|where|sample|multinomial|split|chunk")
               ? DLSH_HAS_FIRST
               : DLSH_MAY_HAVE;
}

/* x of x.float() */
static const dlsh_node *without_casts(const dlsh_node *n) {
    while (n && n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_FIELD && n->nkids == 1) n = n->kids[0]->kids[0];
    return n;
}

/* On the way from all rows of the target, by any name, with casts, in any order, or those of each group in turn. */
static dlsh_property is_all_of_it(void *ctx, const dlsh_step *at) {
    const encoding *c = ctx;
    const dlsh_node *n = at->n, *rows = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[1] : NULL;
    if (n->kind == DLSH_N_NAME && at->call && dlsh_define(dlsh_text_root(at->file), n->text, n->span.start).param)
        return DLSH_MAY_HAVE;
    if (n->kind == DLSH_N_NAME) return dlsh_names(n, c->target) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
    if (rows && rows->kind != DLSH_N_SLICE && rows->kind != DLSH_N_INT && !dlsh_origin_at(at, rows, is_part, ctx))
        return DLSH_MAY_HAVE;
    return without_casts(n) != n ? DLSH_MAY_HAVE : DLSH_HAS_NOT;
}

static int is_whole_target(encoding *c, const dlsh_step *at, const dlsh_node *n) {
    if (n->kind == DLSH_N_KWARG) n = n->kids[0];
    return dlsh_origin_at(at, n, is_all_of_it, c) != NULL;
}

/* totals.index_add(0, shop, y), y[shop == k].mean(), onehot.T @ y */
static dlsh_property is_of_groups(void *ctx, const dlsh_step *at) {
    static const char adding[] =
        "index_add|index_add_|scatter_add|scatter_add_|scatter_reduce|scatter_reduce_|bincount|"
        "index_reduce|index_reduce_|index_put_";
    encoding *c = ctx;
    const dlsh_node *n = at->n, *by = n->kind == DLSH_N_CALL ? n->kids[0] : NULL;
    const dlsh_node *of = by && by->kind == DLSH_N_FIELD ? without_casts(by->kids[0]) : NULL;
    int found = 0;
    for (int i = 1; dlsh_is_call_of(n, adding) && i < n->nkids; i++) found |= is_whole_target(c, at, n->kids[i]);
    if (of && of->kind == DLSH_N_INDEX && dlsh_is_call_of(n, "mean|sum|median")) found |= is_whole_target(c, at, of);
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_MATMUL) found |= is_whole_target(c, at, n->kids[1]);
    if (dlsh_is_call_of(dlsh_call_that_adds(at), adding)) found |= is_whole_target(c, at, n);
    if (found) c->call = dlsh_outer_call(at);
    return found ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

/* Rows that are picked once, not for each batch. */
static dlsh_property is_picked(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n, *rows = n->kind == DLSH_N_INDEX && n->nkids > 1 ? n->kids[1] : NULL;
    const dlsh_node *block = rows ? dlsh_block_around(dlsh_text_root(at->file), n->span.start) : NULL;
    const int slice = rows && rows->kind == DLSH_N_SLICE;
    if (!rows || (block && dlsh_is_loop(block)) || rows->kind == DLSH_N_INT) return DLSH_MAY_HAVE;
    return (slice && (rows->kids[0] || rows->kids[1])) || rows->kind == DLSH_N_NAME || rows->kind == DLSH_N_INDEX
               ? DLSH_HAS_FIRST
               : DLSH_MAY_HAVE;
}

void dlsh_find_encoded(dlsh_examination *e, const char *file, const dlsh_traced *all, int n, const dlsh_samples *s) {
    const dlsh_traced *target = NULL;
    for (int i = 0; i < n && !target; i++)
        if (all[i].role == DLSH_ROLE_TARGET) target = &all[i];
    const dlsh_node *y = target ? dlsh_part_of_data(e, s, DLSH_ROLE_TARGET) : NULL;
    const dlsh_node *x = y ? dlsh_part_of_data(e, s, DLSH_ROLE_INPUT) : NULL;
    encoding c = {e, target ? target->base : NULL, NULL};
    if (dlsh_was_found(e, e->check, "columns are chosen")) return;
    const dlsh_node *by = x && x != y ? dlsh_origin(file, x, is_of_groups, &c) : NULL;
    if (!by || (!dlsh_origin(file, y, is_picked, NULL) && !dlsh_leaves_rows_out(e, s))) return;
    dlsh_found(
        e, file, c.call ? c.call->span.line : by->span.line,
        "take the figures over the training rows alone: they are looked up for the others",
        "the target leaks into the input: figures of groups are taken over all rows of %s, those of the test, too\n"
        "line %d adds up %s for each group, and inputs are made of it; the training has a part of its rows alone",
        target->base, by->span.line, target->base);
}
