/* Columns that are chosen by what they tell of the targets, over all rows of these, while training takes a part of the
 * rows: the others, which are to test what was learned, had their say. */
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

typedef struct choice {
    const dlsh_examination *e;
    const char *target;        /* the variable that has all rows of the targets */
    const dlsh_node *use, *by; /* what takes the columns; where they are chosen */
    dlsh_course table;         /* what they are taken of: it may be made with the target, as data of a test are */
} choice;

static int is_param(const dlsh_step *at) {
    return at->call && dlsh_define(dlsh_text_root(at->file), at->n->text, at->n->span.start).param;
}

/* Is it a variable that the table is, or is made of? */
static int is_of_table(const choice *c, const dlsh_step *at) {
    for (int i = 0; at->n->kind == DLSH_N_NAME && !is_param(at) && i < c->table.n; i++)
        if (c->table.at[i].n->kind == DLSH_N_NAME && dlsh_names(at->n, c->table.at[i].n->text)) return 1;
    return 0;
}

/* The target's name, at the end of a way through parameters. */
static dlsh_property is_target(const choice *c, const dlsh_step *at) {
    if (dlsh_names(at->n, c->target) && !is_param(at)) return DLSH_HAS_FIRST;
    return is_of_table(c, at) ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* Has it a row for each one of the target? */
static dlsh_property keeps_rows(void *ctx, const dlsh_step *at) {
    static const char mixing[] = "argsort|topk|sort|mean|sum|std|var|max|min|argmax|argmin|amax|median|mv|mm|matmul|"
                                 "sorted|corrcoef|bincount|nonzero";
    const int mixes = dlsh_is_call_of(at->n, mixing) || (at->n->kind == DLSH_N_BINARY && at->n->op == DLSH_OP_MATMUL);
    return mixes ? DLSH_HAS_NOT : is_target(ctx, at);
}

/* On the way of a computation that takes all rows of the target: y, x[y == 1], but not y[:80], x[train & (y == 1)]. */
static dlsh_property reads_all(void *ctx, const dlsh_step *at) {
    const dlsh_node *n = at->n, *rows = n->kind == DLSH_N_INDEX && n->nkids == 2 ? n->kids[1] : NULL;
    const int slice = rows && rows->kind == DLSH_N_SLICE;
    if (n->kind == DLSH_N_BINARY && n->op == DLSH_OP_BITAND) return DLSH_HAS_NOT;
    if (dlsh_is_comparison(n) && /* on no way of values */
        dlsh_origin_at(at, n->kids[0], reads_all, ctx))
        return DLSH_HAS_FIRST;
    if (!rows || (slice && !rows->kids[0] && !rows->kids[1])) return is_target(ctx, at);
    if (!slice && dlsh_origin_at(at, rows, reads_all, ctx)) return DLSH_HAS_FIRST;
    return dlsh_origin_at(at, n->kids[0], keeps_rows, ctx) ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* x[:, chosen], x.index_select(1, chosen), of columns that all rows of the target were used to choose. */
static dlsh_property is_chosen(void *ctx, const dlsh_step *at) {
    choice *c = ctx;
    const dlsh_node *n = at->n, *columns = NULL;
    const int all = n->kind == DLSH_N_INDEX && n->nkids == 3 &&
                    (n->kids[1]->kind == DLSH_N_ELLIPSIS ||
                     (n->kids[1]->kind == DLSH_N_SLICE && !n->kids[1]->kids[0] && !n->kids[1]->kids[1]));
    if (all) columns = n->kids[2];
    if (dlsh_is_call_of(n, "index_select")) columns = n->kids[n->nkids - 1];
    if (!columns || columns->kind == DLSH_N_SLICE || columns->kind == DLSH_N_INT) return DLSH_MAY_HAVE;
    dlsh_course_of(at->file, n->kids[0], &c->table);
    if (!dlsh_origin_at(at, columns, reads_all, c)) return DLSH_MAY_HAVE;
    const dlsh_node *made = dlsh_defined(at->file, columns);
    return c->by = made ? made : n, c->use = n, DLSH_HAS_FIRST;
}

static long rows_of(const dlsh_examination *e, const char *file, const dlsh_node *n) {
    while (n && n->kind == DLSH_N_INDEX) n = n->kids[0];
    const dlsh_value *v = dlsh_value_of(e, file, n);
    return v && v->type == DLSH_TENSOR && dl_ndim(v->as.tensor) > 1 ? dl_shape(v->as.tensor)[0] : 0;
}

/* Does an index take a part of the rows? */
static int takes_part(const dlsh_node *n) {
    const dlsh_node *rows = n->kind == DLSH_N_INDEX && n->nkids > 1 ? n->kids[1] : NULL;
    if (!rows || rows->kind == DLSH_N_INT || rows->kind == DLSH_N_ELLIPSIS || rows->kind == DLSH_N_NONE) return 0;
    return rows->kind != DLSH_N_SLICE || rows->kids[0] || rows->kids[1];
}

/* Are rows of what has so many shared out: in one place before all loops, or in two ways? */
static int is_shared_out(const dlsh_examination *e, const char *file, long rows) {
    const dlsh_node *first = NULL;
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        if (dlsh_is_call_of(t.n, "random_split|train_test_split|kfold")) return 1;
        if (!takes_part(t.n) || rows_of(e, file, t.n) != rows) continue;
        if (!dlsh_tree_in_loop(&t) || (first && !dlsh_same_text(file, first->kids[1], t.n->kids[1]))) return 1;
        if (!first) first = t.n;
    }
    return 0;
}

void dlsh_find_chosen_columns(dlsh_examination *e, const char *file, const dlsh_node *use, const dlsh_traced *all,
                              int n) {
    for (int i = 0; use && i < n; i++) {
        static choice c;
        c.e = e, c.target = all[i].base;
        const dl_tensor *y = all[i].whole;
        if (all[i].role != DLSH_ROLE_TARGET || !y || dl_ndim(y) < 1) continue;
        if (!dlsh_origin(file, use, is_chosen, &c)) continue;
        const dlsh_node *of = c.use->kids[0]->kind == DLSH_N_FIELD ? c.use->kids[0]->kids[0] : c.use->kids[0];
        const long rows = rows_of(e, file, of);
        if (!rows || rows > dl_shape(y)[0] || (rows == dl_shape(y)[0] && !is_shared_out(e, file, rows))) continue;
        dlsh_found(e, file, c.by->span.line, "share the rows out first, and choose columns by the training rows alone",
                   "the target leaks into the input: columns are chosen over all rows of %s, those of the test, too\n"
                   "line %d takes the columns, which %ld targets had a say in; the training has a part of these rows, "
                   "and the figure of the others is too good",
                   c.target, c.use->span.line, dl_shape(y)[0]);
        return;
    }
}
