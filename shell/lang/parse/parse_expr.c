/* Expressions: one precedence table (DLSH_OPS), one loop. */
#include <limits.h>
#include <string.h>

#include "lang/parse/parser.h"

enum { PREC_COND = 1, PREC_OR = 2, PREC_AND = 3, PREC_COMPARE = 7, PREC_ORDER = 8, PREC_POW = 13 };

static const struct {
    dlsh_tok tok;
    dlsh_op op;
} binary[] = {
#define OP(id, text, prec, name) {DLSH_T_##id, DLSH_OP_##id},
    DLSH_BINARY_OPS(OP)
#undef OP
};

static dlsh_op prefix_op(dlsh_tok t) {
    return t == DLSH_T_SUB      ? DLSH_OP_NEG
           : t == DLSH_T_NOT    ? DLSH_OP_NOT
           : t == DLSH_T_BITNOT ? DLSH_OP_BITNOT
                                : DLSH_OP_NONE;
}

static int binary_prec(dlsh_tok t, dlsh_op *op) {
    *op = DLSH_OP_NONE;
    if (t == DLSH_T_OR) return PREC_OR;
    if (t == DLSH_T_AND) return PREC_AND;
    for (size_t i = 0; i < DLSH_COUNT(binary); i++)
        if (binary[i].tok == t) return dlsh_op_prec(*op = binary[i].op);
    return 0;
}

/* ---------------------------------------------------------------- operands */

/* 2^63, which is an integer only after a minus: -2^63 is the least one. */
static int at_least_int(const dlsh_parser *p) { return dlsh_p_is(p, DLSH_T_INT) && p->tok.num.i == LONG_MIN; }

static dlsh_node *literal(dlsh_parser *p, dlsh_kind kind) {
    if (at_least_int(p)) return dlsh_p_fail(p, p->tok.span, DLSH_TOO_LARGE_HINT, DLSH_TOO_LARGE);
    dlsh_node *n = dlsh_p_node(p, kind, p->tok.span);
    if (kind == DLSH_N_BOOL)
        n->num.i = p->tok.kind == DLSH_T_TRUE;
    else if (kind == DLSH_N_FLOAT || kind == DLSH_N_IMAG)
        n->num.f = p->tok.num.f;
    else
        n->num.i = kind == DLSH_N_STR ? p->tok.len : p->tok.num.i;
    if (kind == DLSH_N_STR) n->text = p->tok.text;
    dlsh_p_advance(p);
    return n;
}

dlsh_node *dlsh_p_inner(dlsh_parser *p) {
    int mode = p->arg_mode;
    p->arg_mode = 0;
    dlsh_node *n = dlsh_p_expr(p);
    p->arg_mode = mode;
    return n;
}

/* The hint where Python's `yes if test else no` or a comprehension continues within brackets; NULL. */
static const char *inside_hint(const dlsh_parser *p) {
    return dlsh_p_is(p, DLSH_T_IF)    ? "a choice inside an expression is written: test ? yes : no"
           : dlsh_p_is(p, DLSH_T_FOR) ? "a comprehension makes a list or a record: [f(x) for x in xs]"
                                      : NULL;
}

static dlsh_node *parenthesis(dlsh_parser *p) {
    dlsh_span start = p->tok.span;
    dlsh_p_open(p);
    dlsh_node *n = dlsh_p_inner(p);
    if (dlsh_p_is(p, DLSH_T_COMMA)) return dlsh_p_unexpected(p, "')'", "several values are a list: [a, b]");
    if (inside_hint(p)) return dlsh_p_unexpected(p, "')'", inside_hint(p));
    dlsh_p_close(p, DLSH_T_RPAREN, "to close '('");
    n->flags |= DLSH_PAREN;
    n->span = (dlsh_span){start.line, start.col, start.start, p->last.end};
    return n;
}

static int begins_operand(const dlsh_parser *p) {
    dlsh_tok k = p->tok.kind;
    return k == DLSH_T_NAME || k == DLSH_T_INT || k == DLSH_T_FLOAT || k == DLSH_T_IMAG || k == DLSH_T_STR;
}

/* *xs among arguments and items, **r among arguments. */
static dlsh_node *spread(dlsh_parser *p, dlsh_op op) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_SPREAD, p->tok.span);
    n->op = (unsigned char)op;
    dlsh_p_advance(p);
    dlsh_p_push(p, dlsh_p_inner(p));
    return dlsh_p_finish(p, n, base);
}

/* The comprehension of the one value above `base` in brackets, of which n is the literal without it. */
static dlsh_node *comprehended(dlsh_parser *p, dlsh_node *n, int base, dlsh_tok closing) {
    dlsh_node *value = p->stack[base];
    p->nstack = base;
    dlsh_node *all = closing == DLSH_T_RBRACE ? dlsh_p_record_comprehension(p, value) : dlsh_p_comprehension(p, value);
    dlsh_p_close(p, closing, "to close the comprehension");
    all->span = n->span;
    all->span.end = p->last.end;
    return all;
}

static dlsh_node *list(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_LIST, p->tok.span);
    dlsh_p_open(p);
    while (!dlsh_p_is(p, DLSH_T_RBRACKET)) {
        dlsh_p_push(p, dlsh_p_is(p, DLSH_T_MUL) ? spread(p, DLSH_OP_MUL) : dlsh_p_inner(p));
        if (p->nstack == base + 1 && dlsh_p_is(p, DLSH_T_FOR)) return comprehended(p, n, base, DLSH_T_RBRACKET);
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    if (inside_hint(p)) return dlsh_p_unexpected(p, "',' or ']'", inside_hint(p));
    if (!dlsh_p_is(p, DLSH_T_RBRACKET))
        return dlsh_p_unexpected(p, "',' or ']' in the list",
                                 dlsh_p_is(p, DLSH_T_SEMI) ? "rows are lists in a list: [[1, 2], [3, 4]]"
                                 : begins_operand(p)       ? "commas stand between items: [1, 2]"
                                                           : NULL);
    dlsh_p_close(p, DLSH_T_RBRACKET, "to close '['");
    return dlsh_p_finish(p, n, base);
}

/* (expr): expr; the key is the second kid. */
static dlsh_node *computed_field(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_KWARG, p->tok.span), *key = parenthesis(p);
    n->text = "";
    if (!dlsh_p_is(p, DLSH_T_COLON))
        return dlsh_p_unexpected(p, "':' after the key", "a computed key stands in parentheses: {(name + \".w\"): 1}");
    dlsh_p_advance(p);
    dlsh_p_push(p, dlsh_p_inner(p));
    dlsh_p_push(p, key);
    return dlsh_p_finish(p, n, base);
}

/* One field of a record: a name, a keyword, a string or a computed key, `:`, an expression. */
static dlsh_node *record_field(dlsh_parser *p) {
    if (dlsh_p_is(p, DLSH_T_LPAREN)) return computed_field(p);
    int base = p->nstack, word = p->tok.kind == DLSH_T_NAME || dlsh_is_keyword(p->tok.kind);
    if (!word && !dlsh_p_is(p, DLSH_T_STR)) {
        int number = dlsh_p_is(p, DLSH_T_INT) || dlsh_p_is(p, DLSH_T_FLOAT);
        return dlsh_p_unexpected(p, "a key in the record",
                                 number ? "keys are names or strings, {\"1\": 2}; lists are written [1, 2]" : NULL);
    }
    if (!word && (int)strlen(p->tok.text) != p->tok.len)
        return dlsh_p_fail(p, p->tok.span, NULL, "a key cannot hold the character \\0");
    dlsh_node *n = dlsh_p_name(p, DLSH_N_KWARG);
    int computed = dlsh_p_is(p, DLSH_T_DOT) || dlsh_p_is(p, DLSH_T_LPAREN) || dlsh_p_is(p, DLSH_T_LBRACKET) ||
                   dlsh_p_is(p, DLSH_T_ADD);
    if (!dlsh_p_is(p, DLSH_T_COLON))
        return dlsh_p_unexpected(
            p, "':' after the key",
            computed ? "a computed key stands in parentheses: {(name + \".w\"): 1}"
                     : "a record is written {a: 1, \"b c\": 2}, a list [1, 2]; blocks belong to if, for, fn");
    dlsh_p_advance(p);
    dlsh_p_push(p, dlsh_p_inner(p));
    return dlsh_p_finish(p, n, base);
}

/* { [key: expr | **r {, key: expr | **r} [,]] } */
static dlsh_node *record(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_RECORD, p->tok.span);
    dlsh_p_open(p);
    while (!dlsh_p_is(p, DLSH_T_RBRACE)) {
        dlsh_p_push(p, dlsh_p_is(p, DLSH_T_POW) ? spread(p, DLSH_OP_POW) : record_field(p));
        if (p->nstack == base + 1 && p->stack[base]->kind == DLSH_N_KWARG && dlsh_p_is(p, DLSH_T_FOR))
            return comprehended(p, n, base, DLSH_T_RBRACE);
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    if (!dlsh_p_is(p, DLSH_T_RBRACE))
        return dlsh_p_unexpected(p, "',' or '}' in the record",
                                 begins_operand(p) ? "commas stand between fields: {a: 1, b: 2}" : inside_hint(p));
    dlsh_p_close(p, DLSH_T_RBRACE, "to close '{'");
    return dlsh_p_finish(p, n, base);
}

int dlsh_p_at_record(const dlsh_parser *p) {
    dlsh_parser ahead = *p;
    if (!dlsh_p_is(p, DLSH_T_LBRACE)) return 0;
    dlsh_p_open(&ahead);
    if (dlsh_p_is(&ahead, DLSH_T_RBRACE) || dlsh_p_is(&ahead, DLSH_T_END) || dlsh_p_is(&ahead, DLSH_T_POW) ||
        dlsh_p_is(&ahead, DLSH_T_LPAREN))
        return 1;
    int key = ahead.tok.kind == DLSH_T_NAME || ahead.tok.kind == DLSH_T_STR || dlsh_is_keyword(ahead.tok.kind);
    dlsh_tok behind = dlsh_p_peek(&ahead).kind;
    return key && (behind == DLSH_T_COLON || behind == DLSH_T_END);
}

static dlsh_node *operand(dlsh_parser *p) {
    switch (p->tok.kind) {
    case DLSH_T_IN:
        if (!p->in_shape) return dlsh_p_unexpected(p, "an expression", NULL);
        return dlsh_p_name(p, DLSH_N_NAME);
    case DLSH_T_NAME: {
        if (dlsh_p_at_net(p)) return dlsh_p_net(p);
        dlsh_node *n = dlsh_p_name(p, DLSH_N_NAME);
        if (n && dlsh_p_is(p, DLSH_T_STR) && p->tok.adjacent && n->text[0] == 'f' && !n->text[1])
            return dlsh_p_fail(p, n->span, "use format(\"%.3f of %d\", x, n)", "there are no f-strings");
        return n;
    }
    case DLSH_T_INT: return literal(p, DLSH_N_INT);
    case DLSH_T_FLOAT: return literal(p, DLSH_N_FLOAT);
    case DLSH_T_IMAG: return literal(p, DLSH_N_IMAG);
    case DLSH_T_STR: return literal(p, DLSH_N_STR);
    case DLSH_T_TRUE:
    case DLSH_T_FALSE: return literal(p, DLSH_N_BOOL);
    case DLSH_T_NONE: return literal(p, DLSH_N_NONE);
    case DLSH_T_LPAREN: return parenthesis(p);
    case DLSH_T_LBRACKET: return list(p);
    case DLSH_T_FN: return dlsh_p_fn(p, 0);
    case DLSH_T_LBRACE:
        if (!p->arg_mode) return record(p);
        return dlsh_p_unexpected(p, "an argument", "a record as a bare argument stands in parentheses: ({a: 1})");
    case DLSH_T_IF: return dlsh_p_unexpected(p, "an expression", inside_hint(p));
    default: return dlsh_p_unexpected(p, "an expression", dlsh_p_prefix_hint(p->unit->text, &p->tok));
    }
}

/* ---------------------------------------------------------------- calls, indices, fields */

/* One argument of a call: expr, NAME = expr, *expr or **expr. */
static dlsh_node *call_argument(dlsh_parser *p, int *named) {
    if (dlsh_p_is(p, DLSH_T_NAME) && dlsh_p_peek(p).kind == DLSH_T_SET) {
        int base = p->nstack;
        dlsh_node *k = dlsh_p_name(p, DLSH_N_KWARG);
        dlsh_p_advance(p);
        dlsh_p_push(p, dlsh_p_inner(p));
        *named = 1;
        return dlsh_p_finish(p, k, base);
    }
    if (dlsh_p_is(p, DLSH_T_POW)) {
        *named = 1;
        return spread(p, DLSH_OP_POW);
    }
    dlsh_node *v = dlsh_p_is(p, DLSH_T_MUL) ? spread(p, DLSH_OP_MUL) : dlsh_p_inner(p);
    if (v && *named) return dlsh_p_fail(p, v->span, NULL, "a positional argument cannot follow a named one");
    return v;
}

static dlsh_node *call(dlsh_parser *p, dlsh_node *callee) {
    int base = p->nstack, named = 0;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_CALL, callee->span);
    dlsh_p_push(p, callee);
    dlsh_p_open(p);
    while (!dlsh_p_is(p, DLSH_T_RPAREN)) {
        dlsh_node *a = call_argument(p, &named);
        if (a->kind == DLSH_N_SPREAD) n->op = DLSH_OP_MUL;
        if (p->nstack == base + 1 && dlsh_p_is(p, DLSH_T_FOR) && a->kind != DLSH_N_SPREAD && !named)
            a = dlsh_p_comprehension(p, a); /* f(x for x in xs), as f([x for x in xs]) */
        dlsh_p_push(p, a);
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    if (!dlsh_p_is(p, DLSH_T_RPAREN)) {
        const dlsh_node *last = p->nstack > base + 1 ? p->stack[p->nstack - 1] : NULL;
        const char *hint = last && last->kind == DLSH_N_NAME ? dlsh_p_word_hint(last->text) : NULL;
        if (!hint) hint = begins_operand(p) ? "commas stand between arguments: f(a, b)" : inside_hint(p);
        return dlsh_p_unexpected(p, "',' or ')' in the arguments", hint);
    }
    dlsh_p_close(p, DLSH_T_RPAREN, "to close the arguments");
    return dlsh_p_finish(p, n, base);
}

/* expr, from:to:step with any part missing, or `...`. */
static dlsh_node *subscript(dlsh_parser *p) {
    dlsh_span start = p->tok.span;
    if (dlsh_p_is(p, DLSH_T_ELLIPSIS)) {
        dlsh_p_advance(p);
        return dlsh_p_node(p, DLSH_N_ELLIPSIS, start);
    }
    dlsh_node *part[3] = {NULL, NULL, NULL};
    if (!dlsh_p_is(p, DLSH_T_COLON)) part[0] = dlsh_p_inner(p);
    if (!dlsh_p_is(p, DLSH_T_COLON)) return part[0];
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_SLICE, start);
    for (int i = 1; i < 3 && dlsh_p_accept(p, DLSH_T_COLON); i++)
        if (!dlsh_p_is(p, DLSH_T_COLON) && !dlsh_p_is(p, DLSH_T_COMMA) && !dlsh_p_is(p, DLSH_T_RBRACKET))
            part[i] = dlsh_p_inner(p);
    for (int i = 0; i < 3; i++) dlsh_p_push(p, part[i]);
    return dlsh_p_finish(p, n, base);
}

static dlsh_node *index_of(dlsh_parser *p, dlsh_node *object) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_INDEX, object->span);
    dlsh_p_push(p, object);
    dlsh_p_open(p);
    if (dlsh_p_is(p, DLSH_T_RBRACKET)) return dlsh_p_unexpected(p, "an index", "the whole of it is x[:]");
    while (!dlsh_p_is(p, DLSH_T_RBRACKET)) {
        dlsh_p_push(p, subscript(p));
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    dlsh_p_close(p, DLSH_T_RBRACKET, "to close the index");
    return dlsh_p_finish(p, n, base);
}

static dlsh_node *field(dlsh_parser *p, dlsh_node *object) {
    int base = p->nstack;
    dlsh_p_advance(p);
    /* after a dot keywords are names too */
    if (!dlsh_p_is(p, DLSH_T_NAME) && !dlsh_is_keyword(p->tok.kind))
        return dlsh_p_unexpected(p, "a field after '.'", NULL);
    dlsh_node *n = dlsh_p_name(p, DLSH_N_FIELD);
    dlsh_p_push(p, object);
    n->span.line = object->span.line;
    n->span.col = object->span.col;
    n->span.start = object->span.start;
    return dlsh_p_finish(p, n, base);
}

static dlsh_node *postfix_of(dlsh_parser *p, dlsh_node *n) {
    while (p->tok.adjacent || !p->arg_mode) {
        int same_line = p->tok.adjacent || p->tok.span.line == p->last.line;
        if (dlsh_p_is(p, DLSH_T_LPAREN) && same_line)
            n = call(p, n);
        else if (dlsh_p_is(p, DLSH_T_LBRACKET) && same_line)
            n = index_of(p, n);
        else if (dlsh_p_is(p, DLSH_T_DOT))
            n = field(p, n);
        else
            break;
    }
    return n;
}

/* An operand with calls, indices, fields. */
static dlsh_node *postfix(dlsh_parser *p) { return postfix_of(p, operand(p)); }

/* ---------------------------------------------------------------- operators */

static dlsh_node *operators(dlsh_parser *p, int min);

/* The operator before an operand; with the operand where both together are the least integer. */
static dlsh_node *prefix(dlsh_parser *p, dlsh_op op) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_UNARY, p->tok.span);
    n->op = (unsigned char)op;
    dlsh_p_advance(p);
    if (op != DLSH_OP_NEG || !at_least_int(p) || dlsh_p_peek(p).kind == DLSH_T_POW) return n;
    n->kind = DLSH_N_INT;
    n->op = 0;
    n->num.i = LONG_MIN;
    dlsh_p_advance(p);
    return dlsh_p_finish(p, n, base);
}

static dlsh_node *unary(dlsh_parser *p) {
    dlsh_op op = prefix_op(p->tok.kind);
    if (!op) return postfix(p);
    int base = p->nstack;
    dlsh_node *n = prefix(p, op);
    if (n->kind == DLSH_N_INT) return n;
    dlsh_p_enter(p);
    dlsh_p_skip_newlines(p);
    dlsh_node *x = p->arg_mode ? postfix(p) : operators(p, PREC_POW);
    dlsh_p_leave(p);
    dlsh_p_push(p, x);
    return dlsh_p_finish(p, n, base);
}

static dlsh_node *combine(dlsh_parser *p, dlsh_kind kind, dlsh_op op, dlsh_node *l, dlsh_node *r) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, kind, l->span);
    n->op = (unsigned char)op;
    dlsh_p_push(p, l);
    dlsh_p_push(p, r);
    return dlsh_p_finish(p, n, base);
}

/* All binary operators of precedence `min` and above. */
static dlsh_node *operators(dlsh_parser *p, int min) {
    dlsh_node *left = unary(p);
    dlsh_op op, next;
    for (int prec; (prec = binary_prec(p->tok.kind, &op)) >= min && prec;) {
        dlsh_kind kind = prec == PREC_OR ? DLSH_N_OR : prec == PREC_AND ? DLSH_N_AND : DLSH_N_BINARY;
        dlsh_p_advance(p);
        dlsh_p_skip_newlines(p);
        dlsh_p_enter(p);
        dlsh_node *right = operators(p, prec == PREC_POW ? prec : prec + 1); /* ** binds to the right */
        dlsh_p_leave(p);
        left = combine(p, kind, op, left, right);
        if ((prec == PREC_COMPARE || prec == PREC_ORDER) && binary_prec(p->tok.kind, &next) == prec)
            dlsh_p_fail(p, p->tok.span, "write a < b && b < c", "comparisons do not chain");
    }
    return left;
}

dlsh_node *dlsh_p_expr(dlsh_parser *p) {
    dlsh_p_enter(p);
    int base = p->nstack;
    dlsh_node *n = operators(p, PREC_OR);
    if (dlsh_p_accept(p, DLSH_T_QUESTION)) {
        dlsh_p_push(p, n);
        n = dlsh_p_node(p, DLSH_N_COND, n->span);
        dlsh_p_skip_newlines(p);
        dlsh_p_push(p, dlsh_p_expr(p));
        dlsh_p_expect(p, DLSH_T_COLON, "in test ? yes : no");
        dlsh_p_skip_newlines(p);
        dlsh_p_push(p, dlsh_p_expr(p));
        n = dlsh_p_finish(p, n, base);
    }
    dlsh_p_leave(p);
    return n;
}

dlsh_node *dlsh_p_argument(dlsh_parser *p) {
    int mode = p->arg_mode, base = p->nstack;
    p->arg_mode = 1;
    dlsh_node *n;
    dlsh_op op = prefix_op(p->tok.kind);
    if (op == DLSH_OP_NEG || op == DLSH_OP_NOT) {
        n = prefix(p, op);
        if (n->kind == DLSH_N_UNARY) {
            dlsh_p_push(p, postfix(p));
            n = dlsh_p_finish(p, n, base);
        }
    } else
        n = postfix(p);
    p->arg_mode = mode;
    return n;
}

dlsh_node *dlsh_p_record(dlsh_parser *p) { return postfix_of(p, record(p)); }

dlsh_node *dlsh_p_expr_list(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *first = dlsh_p_expr(p);
    if (!dlsh_p_is(p, DLSH_T_COMMA)) return first;
    dlsh_node *t = dlsh_p_node(p, DLSH_N_TUPLE, first->span);
    dlsh_p_push(p, first);
    while (dlsh_p_accept(p, DLSH_T_COMMA)) {
        dlsh_p_skip_newlines(p);
        dlsh_p_push(p, dlsh_p_expr(p));
    }
    return dlsh_p_finish(p, t, base);
}

/* ---------------------------------------------------------------- functions */

void dlsh_p_params(dlsh_parser *p, int base) {
    int defaults = 0, rest = 0;
    dlsh_p_open(p);
    while (!dlsh_p_is(p, DLSH_T_RPAREN)) {
        dlsh_op op = dlsh_p_is(p, DLSH_T_MUL) ? DLSH_OP_MUL : dlsh_p_is(p, DLSH_T_POW) ? DLSH_OP_POW : DLSH_OP_NONE;
        if (rest && (rest == DLSH_OP_POW || op != DLSH_OP_POW))
            dlsh_p_unexpected(
                p, rest == DLSH_OP_POW ? "')'" : "** or ')'",
                "*rest and **named, in this order, are the last parameters: fn f(a, b=1, *rest, **named) { }");
        if (op) dlsh_p_advance(p);
        rest = op ? (int)op : rest;
        if (!dlsh_p_is(p, DLSH_T_NAME)) dlsh_p_unexpected(p, "a parameter name", NULL);
        int at = p->nstack;
        dlsh_node *param = dlsh_p_name(p, DLSH_N_PARAM);
        param->op = (unsigned char)op;
        if (at - base == DLSH_MAX_ARGS)
            dlsh_p_fail(p, param->span, "pass a list or a record", "a function with more than %d parameters",
                        DLSH_MAX_ARGS);
        if (dlsh_p_is(p, DLSH_T_NAME) || dlsh_p_is(p, DLSH_T_COLON))
            dlsh_p_unexpected(p, "',' or ')' after a parameter", "parameters have no types: fn f(a, b=1) { }");
        if (!op && dlsh_p_accept(p, DLSH_T_SET)) {
            dlsh_p_push(p, dlsh_p_inner(p));
            defaults = 1;
        } else if (defaults && !op)
            dlsh_p_fail(p, param->span, NULL, "parameter '%s' without a default follows one that has one", param->text);
        for (int i = base; i < at; i++)
            if (!strcmp(p->stack[i]->text, param->text))
                dlsh_p_fail(p, param->span, NULL, "parameter '%s' occurs twice", param->text);
        dlsh_p_push(p, dlsh_p_finish(p, param, at));
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    dlsh_p_close(p, DLSH_T_RPAREN, "after the parameters");
}

dlsh_node *dlsh_p_fn(dlsh_parser *p, int statement) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_FN, p->tok.span);
    dlsh_p_advance(p);
    if (statement) n->text = dlsh_p_text(p);
    if (!dlsh_p_is(p, DLSH_T_LPAREN)) return dlsh_p_unexpected(p, "'(' after fn", "fn name(a, b=1) { return a * b }");
    return dlsh_p_fn_rest(p, n, base);
}

dlsh_node *dlsh_p_fn_rest(dlsh_parser *p, dlsh_node *n, int base) {
    int mode = p->arg_mode, loops = p->loops, head = p->head;
    dlsh_p_enter(p);
    dlsh_p_params(p, base);
    p->arg_mode = p->loops = p->head = 0;
    p->fns++;
    dlsh_p_push(p, dlsh_p_block(p, "the parameters"));
    p->fns--;
    p->arg_mode = mode;
    p->loops = loops;
    p->head = head;
    dlsh_p_leave(p);
    return dlsh_p_finish(p, n, base);
}
