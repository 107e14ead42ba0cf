/* Comprehensions: `[f(x) for x in xs if test]`. What stands before `for` becomes the body of a function of an item, so
 * that the names after `for` are its own. */
#include <string.h>

#include "lang/parse/parser.h"

/* A name that no program can write. */
#define ITEM "an item"

static dlsh_node *named(dlsh_parser *p, dlsh_kind kind, dlsh_span at, const char *text) {
    dlsh_node *n = dlsh_p_node(p, kind, at);
    n->text = text;
    return n;
}

/* A node of these kids where `at` stands. */
static dlsh_node *of(dlsh_parser *p, dlsh_kind kind, dlsh_span at, int count, dlsh_node *const *kids) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, kind, at);
    for (int i = 0; i < count; i++) dlsh_p_push(p, kids[i]);
    dlsh_p_finish(p, n, base);
    n->span = at;
    return n;
}

static dlsh_node *block_of(dlsh_parser *p, dlsh_node *statement) {
    return of(p, DLSH_N_BLOCK, statement->span, 1, &statement);
}

/* `names = item`, of the names above `base` of the stack. */
static dlsh_node *unpacking(dlsh_parser *p, int base) {
    dlsh_node *n = dlsh_p_node(p, DLSH_N_ASSIGN, p->stack[base]->span);
    dlsh_p_push(p, named(p, DLSH_N_NAME, n->span, ITEM));
    return dlsh_p_finish(p, n, base);
}

/* for NAMES in EXPR { if EXPR } [another for], of the value of each item. */
static dlsh_node *clause(dlsh_parser *p, dlsh_node *value) {
    int base = p->nstack, lists = 0;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_COMPREHENSION, p->tok.span);
    dlsh_p_enter(p);
    dlsh_p_advance(p);
    dlsh_p_for_names(p);
    int single = p->nstack == base + 1 && p->stack[base]->kind == DLSH_N_NAME;
    dlsh_node *names = single ? p->stack[base] : unpacking(p, base);
    p->nstack = base;
    dlsh_node *over = dlsh_p_inner(p);
    int tests = p->nstack;
    while (dlsh_p_accept(p, DLSH_T_IF)) dlsh_p_push(p, dlsh_p_inner(p));
    if (dlsh_p_is(p, DLSH_T_FOR)) {
        value = clause(p, value);
        lists = 1;
    }
    dlsh_node *body = of(p, DLSH_N_RETURN, value->span, 1, &value);
    for (int i = p->nstack; i-- > tests;)
        body = of(p, DLSH_N_IF, body->span, 3, (dlsh_node *[]){p->stack[i], block_of(p, body), NULL});
    p->nstack = base;
    dlsh_node *steps[2] = {names, body}, *fn[2];
    fn[0] = named(p, DLSH_N_PARAM, n->span, single ? names->text : ITEM);
    fn[1] = of(p, DLSH_N_BLOCK, value->span, 2 - single, steps + single);
    dlsh_p_push(p, of(p, DLSH_N_FN, value->span, 2, fn));
    dlsh_p_push(p, over);
    n->num.i = (single ? 0 : DLSH_COMP_PAIRS) | (lists ? DLSH_COMP_JOINED : 0);
    dlsh_p_leave(p);
    return dlsh_p_finish(p, n, base);
}

dlsh_node *dlsh_p_comprehension(dlsh_parser *p, dlsh_node *value) {
    dlsh_node *n = clause(p, value);
    if (dlsh_p_is(p, DLSH_T_COMMA))
        return dlsh_p_unexpected(p, "the end of the comprehension",
                                 "several values an item are a list: [[a, b] for ...]");
    return n;
}

static dlsh_node *record_of(dlsh_parser *p, dlsh_node *pair) {
    dlsh_node *n = dlsh_p_comprehension(p, pair);
    n->num.i |= DLSH_COMP_RECORD;
    return n;
}

dlsh_node *dlsh_p_record_comprehension(dlsh_parser *p, dlsh_node *field) {
    if (field->nkids > 1)
        return record_of(p, of(p, DLSH_N_LIST, field->span, 2, (dlsh_node *[]){field->kids[1], field->kids[0]}));
    int base = p->nstack, text = p->unit->text[field->span.start] == '"' || p->unit->text[field->span.start] == '\'';
    dlsh_node *key = named(p, text ? DLSH_N_STR : DLSH_N_NAME, field->span, field->text);
    key->span.end = field->kids[0]->span.start;
    if (text) key->num.i = (long)strlen(field->text);
    dlsh_node *pair = of(p, DLSH_N_LIST, field->span, 2, (dlsh_node *[]){key, field->kids[0]});
    p->nstack = base;
    return record_of(p, pair);
}
