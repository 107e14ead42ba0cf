/* Rows that a text has several times: copies, and rows that are drawn with replacement; where the parts of data have
 * them in common. */
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

/* x[rare], x[y == 1]: rows by a variable or condition; not a column, nor a slice, which may leave the others out. */
static int picks_by_rows(const dlsh_node *n) {
    static const int kinds[] = {DLSH_N_NAME, DLSH_N_CALL, DLSH_N_BINARY};
    for (size_t i = 0; n->nkids == 2 && i < DLSH_COUNT(kinds); i++)
        if ((int)n->kids[1]->kind == kinds[i]) return 1;
    return 0;
}

/* The rows of an item of a list, but for noise: where they were made, which is not in the loop. */
static dlsh_property makes_rows(void *ctx, const dlsh_step *s) {
    static const char keeping[] = "to|clone|contiguous|float|long|detach|double";
    const dlsh_node *loop = ctx, *by = s->n->kind == DLSH_N_CALL ? s->n->kids[0] : NULL;
    const int within = loop && s->n->span.start >= loop->span.start && s->n->span.end <= loop->span.end;
    if (by && by->text && strstr(by->text, "_like")) return DLSH_HAS_NOT;
    if (by && by->kind == DLSH_N_FIELD && dlsh_is_word(keeping, by->text)) return DLSH_MAY_HAVE;
    if (loop && s->n->kind == DLSH_N_NAME && dlsh_is_item_of(loop, s->n->text)) return DLSH_HAS_NOT;
    if (s->n->kind == DLSH_N_INDEX && picks_by_rows(s->n)) return DLSH_MAY_HAVE; /* some of the rows once more */
    if (by || s->n->kind == DLSH_N_INDEX || s->n->kind == DLSH_N_COMPREHENSION)
        return within ? DLSH_HAS_NOT : DLSH_HAS_FIRST;
    return s->n->kind == DLSH_N_NAME || s->n->kind == DLSH_N_BINARY || s->n->kind == DLSH_N_PARAM ? DLSH_MAY_HAVE
                                                                                                  : DLSH_HAS_NOT;
}

/* Is the same put into a list in each round of a loop? rows.append(x + noise) */
static int adds_again(const char *file, const dlsh_node *n, const char *list, const dlsh_node *loop) {
    if (dlsh_is_loop(n)) loop = n;
    if (loop && dlsh_is_method(n, "append") && dlsh_names(n->kids[0]->kids[0], list) && n->nkids > 1)
        return dlsh_origin(file, n->kids[1], makes_rows, (void *)loop) != NULL;
    for (int i = 0; i < n->nkids; i++)
        if (n->kids[i] && adds_again(file, n->kids[i], list, loop)) return 1;
    return 0;
}

/* Has a list the rows of one and the same table several times? [x, x + noise], [x + noise for i in range(6)] */
static int has_rows_again(const char *file, const dlsh_node *list) {
    enum { ITEMS = 16 };
    const dlsh_node *of[ITEMS];
    const dlsh_node *back = list->kind == DLSH_N_COMPREHENSION ? dlsh_last_return(list->kids[0]) : NULL;
    if (back && back->nkids) return dlsh_origin(file, back->kids[0], makes_rows, (void *)list) != NULL;
    if (list->kind == DLSH_N_BINARY && list->op == DLSH_OP_ADD) /* [x] + [x + noise for k in range(5)] */
        return has_rows_again(file, list->kids[0]) || has_rows_again(file, list->kids[1]);
    for (int k = 0; list->kind == DLSH_N_BINARY && list->op == DLSH_OP_MUL && k < 2; k++) /* [rare] * 5 */
        if (list->kids[k]->kind == DLSH_N_LIST && list->kids[k]->nkids)
            return dlsh_origin(file, list->kids[k]->kids[0], makes_rows, NULL) != NULL;
    if (list->kind == DLSH_N_NAME) return adds_again(file, dlsh_text_root(file), list->text, NULL);
    for (int i = 0; list->kind == DLSH_N_LIST && i < list->nkids && i < ITEMS; i++) {
        const dlsh_node *spread = list->kids[i]->kind == DLSH_N_SPREAD ? list->kids[i]->kids[0] : NULL;
        if (spread && has_rows_again(file, spread)) return 1; /* [x, *[rare for k in range(7)]] */
        of[i] = dlsh_origin(file, list->kids[i], makes_rows, NULL);
        for (int k = 0; k < i; k++)
            if (of[i] && of[k] == of[i]) return 1;
    }
    return 0;
}

/* rare[randint(0, len(rare), [800])]: some of the rows several times. */
static int picks_with_replacement(const char *file, const dlsh_node *n) {
    const dlsh_node *by = n->kind == DLSH_N_INDEX && n->nkids == 2 ? dlsh_made(file, n->kids[1]) : NULL;
    const dlsh_node *end = dlsh_is_call_of(by, "randint") && by->nkids > 2 ? by->kids[2] : NULL;
    if (end && end->kind == DLSH_N_INDEX) end = end->kids[0]; /* x.shape[0] */
    return end && (dlsh_is_call_of(end, "len|size") || (end->kind == DLSH_N_FIELD && !strcmp(end->text, "shape")));
}

/* Does an expression, or a function that it calls, repeat rows? */
static int repeats_rows(const char *file, const dlsh_node *n, int depth) {
    static const char repeating[] = "repeat|repeat_interleave|tile";
    const char *by = n && n->kind == DLSH_N_CALL ? n->kids[0]->text : NULL;
    if (!n || depth > 2) return 0;
    if (dlsh_is_call_of(n, repeating) || picks_with_replacement(file, n)) return 1;
    if (dlsh_is_call_of(n, "cat|concat|vstack") && n->nkids > 1 && has_rows_again(file, n->kids[1])) return 1;
    const dlsh_node *fn = by && n->kids[0]->kind == DLSH_N_NAME ? dlsh_function_of(file, by) : NULL;
    if (fn && repeats_rows(file, fn->kids[fn->nkids - 1], depth + 1)) return 1;
    for (int i = 0; i < n->nkids; i++)
        if (repeats_rows(file, n->kids[i], depth)) return 1;
    return 0;
}

/* Of the way to the test part: what the training part came from, too. */
typedef struct sharing {
    dlsh_course train;
} sharing;

/* Is it before the split, and repeats rows? A function that makes the rows, too, has the place within. */
static dlsh_property repeats(void *ctx, const dlsh_step *s) {
    const sharing *w = ctx;
    const int own = s->n->kind == DLSH_N_CALL && s->n->kids[0]->kind == DLSH_N_NAME && s->n->nkids == 1;
    if (s->n->kind == DLSH_N_NAME || own || (w->train.n && !dlsh_is_on(&w->train, s))) return DLSH_MAY_HAVE;
    return repeats_rows(s->file, s->n, 0) ? DLSH_HAS_FIRST : DLSH_MAY_HAVE;
}

static const dlsh_node *value_at(const char *file, int line) {
    const dlsh_node *n = file ? dlsh_statement_at(file, line) : NULL;
    return n && n->kind == DLSH_N_ASSIGN ? n->kids[n->nkids - 1] : n;
}

static dlsh_property makes_set(DLSH_UNUSED void *ctx, const dlsh_step *at) {
    const int field = at->n->kind == DLSH_N_FIELD || at->n->kind == DLSH_N_NAME;
    return dlsh_is_call_of(at->n, "dataset") ? DLSH_HAS_FIRST : field ? DLSH_MAY_HAVE : DLSH_HAS_NOT;
}

/* A field of what a data set is made of, as dataset({x: ..., y: ..., test_x: ...}); NULL: it has none. */
static const dlsh_node *part_of_record(const char *file, const dlsh_node *data, dlsh_role role) {
    const char *key = role == DLSH_ROLE_TARGET ? "y" : role == DLSH_ROLE_INPUT ? "x" : "test_x";
    const dlsh_node *all = data->nkids == 2 ? dlsh_made(file, data->kids[1]) : NULL;
    return dlsh_value_of_key(all, key);
}

const dlsh_node *dlsh_part_of_data(const dlsh_examination *e, const dlsh_samples *s, dlsh_role role) {
    const dlsh_node *data = e->trainer && s->file ? dlsh_trainer_option(e, s->file, 1, "data") : NULL;
    if (!data) data = value_at(s->file, role == DLSH_ROLE_TARGET ? s->target_line : s->line);
    const dlsh_node *made = data ? dlsh_origin(s->file, data, makes_set, NULL) : NULL;
    if (made) data = made; /* as of d.train.x */
    if (!data || data->kind != DLSH_N_CALL || !dlsh_names(data->kids[0], "dataset")) return data;
    const dlsh_node *part = part_of_record(s->file, data, role);
    if (part) return part;
    if (role == DLSH_ROLE_TARGET) return dlsh_argument_of(data, 1, "y");
    const dlsh_node *x = role == DLSH_ROLE_INPUT ? dlsh_argument_of(data, 0, "x") : dlsh_argument_of(data, 2, "test_x");
    return x ? x : dlsh_argument_of(data, 1, "test"); /* dataset(train, test) */
}

int dlsh_line_of_shared(const dlsh_examination *e, const dlsh_samples *train, const dlsh_samples *test, int *copied) {
    sharing w = {.train = {.n = 0}};
    const dlsh_node *a = dlsh_part_of_data(e, train, DLSH_ROLE_INPUT);
    const dlsh_node *b = dlsh_part_of_data(e, test, DLSH_ROLE_ANY);
    if (a && b && a != b) dlsh_course_of(test->file, a, &w.train);
    const dlsh_node *by = b ? dlsh_origin(test->file, b, repeats, &w) : NULL;
    const dlsh_node *own = by ? NULL : dlsh_apart(test->file, b, a);
    *copied = by != NULL;
    return by ? by->span.line : own ? own->span.line : test->line;
}
