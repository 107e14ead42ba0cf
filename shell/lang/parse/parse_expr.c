/* Expressions: one precedence table (DLSH_OPS), one loop. */
#include <string.h>

#include "lang/parse/parser.h"

enum { PREC_COND = 1, PREC_OR = 2, PREC_AND = 3, PREC_COMPARE = 7, PREC_ORDER = 8, PREC_POW = 13 };

static const struct {
    dlsh_tok tok;
    dlsh_op op;
} binary[] = {
    {DLSH_T_BITOR, DLSH_OP_BITOR},   {DLSH_T_BITXOR, DLSH_OP_BITXOR}, {DLSH_T_BITAND, DLSH_OP_BITAND},
    {DLSH_T_EQ, DLSH_OP_EQ},         {DLSH_T_NE, DLSH_OP_NE},         {DLSH_T_LT, DLSH_OP_LT},
    {DLSH_T_LE, DLSH_OP_LE},         {DLSH_T_GT, DLSH_OP_GT},         {DLSH_T_GE, DLSH_OP_GE},
    {DLSH_T_IN, DLSH_OP_IN},         {DLSH_T_SHL, DLSH_OP_SHL},       {DLSH_T_SHR, DLSH_OP_SHR},
    {DLSH_T_ADD, DLSH_OP_ADD},       {DLSH_T_SUB, DLSH_OP_SUB},       {DLSH_T_MUL, DLSH_OP_MUL},
    {DLSH_T_DIV, DLSH_OP_DIV},       {DLSH_T_MOD, DLSH_OP_MOD},       {DLSH_T_FLOORDIV, DLSH_OP_FLOORDIV},
    {DLSH_T_MATMUL, DLSH_OP_MATMUL}, {DLSH_T_POW, DLSH_OP_POW},
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
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (binary[i].tok == t) return dlsh_op_prec(*op = binary[i].op);
    return 0;
}

/* ---------------------------------------------------------------- operands */

static dlsh_node *literal(dlsh_parser *p, dlsh_kind kind) {
    dlsh_node *n = dlsh_p_node(p, kind, p->tok.span);
    if (!n) return NULL;
    if (kind == DLSH_N_BOOL)
        n->num.i = p->tok.kind == DLSH_T_TRUE;
    else if (kind == DLSH_N_FLOAT)
        n->num.f = p->tok.num.f;
    else
        n->num.i = kind == DLSH_N_STR ? p->tok.len : p->tok.num.i;
    if (kind == DLSH_N_STR) n->text = p->tok.text;
    dlsh_p_advance(p);
    return n;
}

/* The full expression inside brackets, whatever the mode outside. */
static dlsh_node *inner(dlsh_parser *p) {
    int mode = p->arg_mode;
    p->arg_mode = 0;
    dlsh_node *n = dlsh_p_expr(p);
    p->arg_mode = mode;
    return n;
}

static dlsh_node *parenthesis(dlsh_parser *p) {
    dlsh_span start = p->tok.span;
    dlsh_p_open(p);
    dlsh_node *n = inner(p);
    if (!n) return NULL;
    if (dlsh_p_is(p, DLSH_T_COMMA)) return dlsh_p_unexpected(p, "')'", "several values are a list: [a, b]");
    if (!dlsh_p_close(p, DLSH_T_RPAREN, "to close '('")) return NULL;
    n->flags |= DLSH_PAREN;
    n->span = (dlsh_span){start.line, start.col, start.start, p->last.end};
    return n;
}

static int begins_operand(const dlsh_parser *p) {
    dlsh_tok k = p->tok.kind;
    return k == DLSH_T_NAME || k == DLSH_T_INT || k == DLSH_T_FLOAT || k == DLSH_T_STR;
}

static dlsh_node *list(dlsh_parser *p) {
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_LIST, p->tok.span);
    if (!n) return NULL;
    dlsh_p_open(p);
    while (!dlsh_p_is(p, DLSH_T_RBRACKET)) {
        dlsh_node *item = inner(p);
        if (!item || !dlsh_p_push(p, item)) return NULL;
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    if (dlsh_p_is(p, DLSH_T_FOR))
        return dlsh_p_unexpected(p, "',' or ']'",
                                 "there are no comprehensions: use map(fn (x) { return ... }, xs) or a loop");
    if (!dlsh_p_is(p, DLSH_T_RBRACKET))
        return dlsh_p_unexpected(p, "',' or ']' in the list",
                                 dlsh_p_is(p, DLSH_T_SEMI) ? "rows are lists in a list: [[1, 2], [3, 4]]"
                                 : begins_operand(p)       ? "commas stand between items: [1, 2]"
                                                           : NULL);
    if (!dlsh_p_close(p, DLSH_T_RBRACKET, "to close '['")) return NULL;
    return dlsh_p_finish(p, n, mark);
}

/* One field of a record: a name, a keyword or a string, `:`, an expression. */
static dlsh_node *record_field(dlsh_parser *p) {
    int mark = p->nstack, word = p->tok.kind == DLSH_T_NAME || dlsh_is_keyword(p->tok.kind);
    if (!word && !dlsh_p_is(p, DLSH_T_STR)) {
        int number = dlsh_p_is(p, DLSH_T_INT) || dlsh_p_is(p, DLSH_T_FLOAT);
        return dlsh_p_unexpected(p, "a key in the record",
                                 number ? "keys are names or strings, {\"1\": 2}; lists are written [1, 2]" : NULL);
    }
    if (!word && (int)strlen(p->tok.text) != p->tok.len)
        return dlsh_p_fail(p, p->tok.span, NULL, "a key cannot hold the character \\0");
    dlsh_node *n = dlsh_p_name(p, DLSH_N_KWARG), *value;
    if (!n) return NULL;
    if (!dlsh_p_is(p, DLSH_T_COLON))
        return dlsh_p_unexpected(p, "':' after the key",
                                 "a record is written {a: 1, \"b c\": 2}, a list [1, 2]; blocks belong to if, for, fn");
    dlsh_p_advance(p);
    if (!(value = inner(p)) || !dlsh_p_push(p, value)) return NULL;
    return dlsh_p_finish(p, n, mark);
}

/* { [key: expr {, key: expr} [,]] } */
static dlsh_node *record(dlsh_parser *p) {
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_RECORD, p->tok.span);
    if (!n) return NULL;
    dlsh_p_open(p);
    while (!dlsh_p_is(p, DLSH_T_RBRACE)) {
        dlsh_node *field = record_field(p);
        if (!field || !dlsh_p_push(p, field)) return NULL;
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    if (!dlsh_p_is(p, DLSH_T_RBRACE))
        return dlsh_p_unexpected(p, "',' or '}' in the record",
                                 dlsh_p_is(p, DLSH_T_FOR)
                                     ? "there are no comprehensions: fill it in a loop, r[key] = value"
                                 : begins_operand(p) ? "commas stand between fields: {a: 1, b: 2}"
                                                     : NULL);
    if (!dlsh_p_close(p, DLSH_T_RBRACE, "to close '{'")) return NULL;
    return dlsh_p_finish(p, n, mark);
}

int dlsh_p_at_record(const dlsh_parser *p) {
    dlsh_parser ahead = *p;
    if (!dlsh_p_is(p, DLSH_T_LBRACE)) return 0;
    dlsh_p_open(&ahead);
    if (dlsh_p_is(&ahead, DLSH_T_RBRACE) || dlsh_p_is(&ahead, DLSH_T_END)) return 1;
    int key = ahead.tok.kind == DLSH_T_NAME || ahead.tok.kind == DLSH_T_STR || dlsh_is_keyword(ahead.tok.kind);
    dlsh_tok behind = dlsh_p_peek(&ahead).kind;
    return key && (behind == DLSH_T_COLON || behind == DLSH_T_END);
}

static dlsh_node *operand(dlsh_parser *p) {
    switch (p->tok.kind) {
    case DLSH_T_NAME: {
        dlsh_node *n = dlsh_p_name(p, DLSH_N_NAME);
        if (n && dlsh_p_is(p, DLSH_T_STR) && p->tok.touch && n->text[0] == 'f' && !n->text[1])
            return dlsh_p_fail(p, n->span, "use format(\"%.3f of %d\", x, n)", "there are no f-strings");
        return n;
    }
    case DLSH_T_INT: return literal(p, DLSH_N_INT);
    case DLSH_T_FLOAT: return literal(p, DLSH_N_FLOAT);
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
    case DLSH_T_IF:
        return dlsh_p_unexpected(p, "an expression", "a choice inside an expression is written: test ? yes : no");
    default: return dlsh_p_unexpected(p, "an expression", dlsh_p_prefix_hint(p->unit->text, &p->tok));
    }
}

/* ---------------------------------------------------------------- calls, indices, fields */

/* One argument of a call: expr, or NAME = expr. */
static dlsh_node *call_argument(dlsh_parser *p, int *named) {
    if (dlsh_p_is(p, DLSH_T_NAME) && dlsh_p_peek(p).kind == DLSH_T_SET) {
        int mark = p->nstack;
        dlsh_node *k = dlsh_p_name(p, DLSH_N_KWARG);
        if (!k) return NULL;
        dlsh_p_advance(p);
        dlsh_node *v = inner(p);
        if (!v || !dlsh_p_push(p, v)) return NULL;
        *named = 1;
        return dlsh_p_finish(p, k, mark);
    }
    dlsh_node *v = inner(p);
    if (v && *named) return dlsh_p_fail(p, v->span, NULL, "a positional argument cannot follow a named one");
    return v;
}

static dlsh_node *call(dlsh_parser *p, dlsh_node *callee) {
    int mark = p->nstack, named = 0;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_CALL, callee->span);
    if (!n || !dlsh_p_push(p, callee)) return NULL;
    dlsh_p_open(p);
    while (!dlsh_p_is(p, DLSH_T_RPAREN)) {
        dlsh_node *a = call_argument(p, &named);
        if (!a || !dlsh_p_push(p, a)) return NULL;
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    if (!dlsh_p_is(p, DLSH_T_RPAREN)) {
        const dlsh_node *last = p->nstack > mark + 1 ? p->stack[p->nstack - 1] : NULL;
        const char *hint = last && last->kind == DLSH_N_NAME ? dlsh_p_word_hint(last->text) : NULL;
        if (!hint && begins_operand(p)) hint = "commas stand between arguments: f(a, b)";
        return dlsh_p_unexpected(p, "',' or ')' in the arguments", hint);
    }
    if (!dlsh_p_close(p, DLSH_T_RPAREN, "to close the arguments")) return NULL;
    return dlsh_p_finish(p, n, mark);
}

/* expr, from:to:step with any part missing, or `...`. */
static dlsh_node *subscript(dlsh_parser *p) {
    dlsh_span start = p->tok.span;
    if (dlsh_p_is(p, DLSH_T_ELLIPSIS)) {
        dlsh_p_advance(p);
        return dlsh_p_node(p, DLSH_N_ELLIPSIS, start);
    }
    dlsh_node *part[3] = {NULL, NULL, NULL};
    if (!dlsh_p_is(p, DLSH_T_COLON) && !(part[0] = inner(p))) return NULL;
    if (!dlsh_p_is(p, DLSH_T_COLON)) return part[0];
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_SLICE, start);
    for (int i = 1; n && i < 3 && dlsh_p_accept(p, DLSH_T_COLON); i++)
        if (!dlsh_p_is(p, DLSH_T_COLON) && !dlsh_p_is(p, DLSH_T_COMMA) && !dlsh_p_is(p, DLSH_T_RBRACKET) &&
            !(part[i] = inner(p)))
            return NULL;
    for (int i = 0; i < 3; i++)
        if (!dlsh_p_push(p, part[i])) return NULL;
    return n ? dlsh_p_finish(p, n, mark) : NULL;
}

static dlsh_node *index_of(dlsh_parser *p, dlsh_node *object) {
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_INDEX, object->span);
    if (!n || !dlsh_p_push(p, object)) return NULL;
    dlsh_p_open(p);
    if (dlsh_p_is(p, DLSH_T_RBRACKET)) return dlsh_p_unexpected(p, "an index", "the whole of it is x[:]");
    while (!dlsh_p_is(p, DLSH_T_RBRACKET)) {
        dlsh_node *s = subscript(p);
        if (!s || !dlsh_p_push(p, s)) return NULL;
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    if (!dlsh_p_close(p, DLSH_T_RBRACKET, "to close the index")) return NULL;
    return dlsh_p_finish(p, n, mark);
}

static dlsh_node *field(dlsh_parser *p, dlsh_node *object) {
    int mark = p->nstack;
    dlsh_p_advance(p);
    /* after a dot keywords are names too */
    if (!dlsh_p_is(p, DLSH_T_NAME) && !dlsh_is_keyword(p->tok.kind))
        return dlsh_p_unexpected(p, "a field after '.'", NULL);
    dlsh_node *n = dlsh_p_name(p, DLSH_N_FIELD);
    if (!n || !dlsh_p_push(p, object)) return NULL;
    n->span.line = object->span.line;
    n->span.col = object->span.col;
    n->span.start = object->span.start;
    return dlsh_p_finish(p, n, mark);
}

static dlsh_node *postfix_of(dlsh_parser *p, dlsh_node *n) {
    while (n && (p->tok.touch || !p->arg_mode)) {
        int same_line = p->tok.touch || p->tok.span.line == p->last.line;
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

static dlsh_node *unary(dlsh_parser *p) {
    dlsh_op op = prefix_op(p->tok.kind);
    if (!op) return postfix(p);
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_UNARY, p->tok.span);
    if (!n || !dlsh_p_enter(p)) return NULL;
    n->op = (unsigned char)op;
    dlsh_p_advance(p);
    dlsh_p_skip_newlines(p);
    dlsh_node *x = p->arg_mode ? postfix(p) : operators(p, PREC_POW);
    dlsh_p_leave(p);
    if (!x || !dlsh_p_push(p, x)) return NULL;
    return dlsh_p_finish(p, n, mark);
}

static dlsh_node *combine(dlsh_parser *p, dlsh_kind kind, dlsh_op op, dlsh_node *l, dlsh_node *r) {
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, kind, l->span);
    if (!n || !dlsh_p_push(p, l) || !dlsh_p_push(p, r)) return NULL;
    n->op = (unsigned char)op;
    return dlsh_p_finish(p, n, mark);
}

static dlsh_node *chained(dlsh_parser *p) {
    return dlsh_p_fail(p, p->tok.span, "write a < b && b < c", "comparisons do not chain");
}

/* All binary operators of precedence `min` and above. */
static dlsh_node *operators(dlsh_parser *p, int min) {
    dlsh_node *left = unary(p);
    dlsh_op op, next;
    for (int prec; left && (prec = binary_prec(p->tok.kind, &op)) >= min && prec;) {
        dlsh_kind kind = prec == PREC_OR ? DLSH_N_OR : prec == PREC_AND ? DLSH_N_AND : DLSH_N_BINARY;
        dlsh_p_advance(p);
        dlsh_p_skip_newlines(p);
        if (!dlsh_p_enter(p)) return NULL;
        dlsh_node *right = operators(p, prec == PREC_POW ? prec : prec + 1); /* ** binds to the right */
        dlsh_p_leave(p);
        if (!right) return NULL;
        left = combine(p, kind, op, left, right);
        if (left && (prec == PREC_COMPARE || prec == PREC_ORDER) && binary_prec(p->tok.kind, &next) == prec)
            return chained(p);
    }
    return left;
}

dlsh_node *dlsh_p_expr(dlsh_parser *p) {
    if (!dlsh_p_enter(p)) return NULL;
    int mark = p->nstack;
    dlsh_node *n = operators(p, PREC_OR);
    if (n && dlsh_p_is(p, DLSH_T_QUESTION)) {
        dlsh_node *test = n, *yes, *no;
        dlsh_p_advance(p);
        dlsh_p_skip_newlines(p);
        if (!(yes = dlsh_p_expr(p))) return NULL;
        if (!dlsh_p_expect(p, DLSH_T_COLON, "in test ? yes : no")) return NULL;
        dlsh_p_skip_newlines(p);
        if (!(no = dlsh_p_expr(p))) return NULL;
        n = dlsh_p_node(p, DLSH_N_COND, test->span);
        if (!n || !dlsh_p_push(p, test) || !dlsh_p_push(p, yes) || !dlsh_p_push(p, no)) return NULL;
        n = dlsh_p_finish(p, n, mark);
    }
    dlsh_p_leave(p);
    return n;
}

dlsh_node *dlsh_p_argument(dlsh_parser *p) {
    int mode = p->arg_mode, mark = p->nstack;
    p->arg_mode = 1;
    dlsh_node *n;
    dlsh_op op = prefix_op(p->tok.kind);
    if (op == DLSH_OP_NEG || op == DLSH_OP_NOT) {
        n = dlsh_p_node(p, DLSH_N_UNARY, p->tok.span);
        dlsh_p_advance(p);
        dlsh_node *x = n ? postfix(p) : NULL;
        if (x && dlsh_p_push(p, x)) {
            n->op = (unsigned char)op;
            n = dlsh_p_finish(p, n, mark);
        } else
            n = NULL;
    } else
        n = postfix(p);
    p->arg_mode = mode;
    return n;
}

dlsh_node *dlsh_p_record(dlsh_parser *p) { return postfix_of(p, record(p)); }

dlsh_node *dlsh_p_expr_list(dlsh_parser *p) {
    int mark = p->nstack;
    dlsh_node *first = dlsh_p_expr(p);
    if (!first || !dlsh_p_is(p, DLSH_T_COMMA)) return first;
    dlsh_node *t = dlsh_p_node(p, DLSH_N_TUPLE, first->span);
    if (!t || !dlsh_p_push(p, first)) return NULL;
    while (dlsh_p_accept(p, DLSH_T_COMMA)) {
        dlsh_p_skip_newlines(p);
        dlsh_node *e = dlsh_p_expr(p);
        if (!e || !dlsh_p_push(p, e)) return NULL;
    }
    return dlsh_p_finish(p, t, mark);
}

/* ---------------------------------------------------------------- functions */

dlsh_node *dlsh_p_params(dlsh_parser *p, dlsh_node *owner, int mark) {
    int defaults = 0;
    dlsh_p_open(p);
    while (!dlsh_p_is(p, DLSH_T_RPAREN)) {
        if (!dlsh_p_is(p, DLSH_T_NAME)) return dlsh_p_unexpected(p, "a parameter name", NULL);
        int at = p->nstack;
        dlsh_node *param = dlsh_p_name(p, DLSH_N_PARAM), *value = NULL;
        if (!param) return NULL;
        if (at - mark == DLSH_MAX_ARGS)
            return dlsh_p_fail(p, param->span, "pass a list or a record", "a function with more than %d parameters",
                               DLSH_MAX_ARGS);
        if (dlsh_p_is(p, DLSH_T_NAME) || dlsh_p_is(p, DLSH_T_COLON))
            return dlsh_p_unexpected(p, "',' or ')' after a parameter", "parameters have no types: fn f(a, b=1) { }");
        if (dlsh_p_accept(p, DLSH_T_SET)) {
            if (!(value = inner(p))) return NULL;
            defaults = 1;
        } else if (defaults)
            return dlsh_p_fail(p, param->span, NULL, "parameter '%s' without a default follows one that has one",
                               param->text);
        for (int i = mark; i < at; i++)
            if (!strcmp(p->stack[i]->text, param->text))
                return dlsh_p_fail(p, param->span, NULL, "parameter '%s' occurs twice", param->text);
        if (value && !dlsh_p_push(p, value)) return NULL;
        if (!dlsh_p_finish(p, param, at) || !dlsh_p_push(p, param)) return NULL;
        if (!dlsh_p_accept(p, DLSH_T_COMMA)) break;
    }
    return dlsh_p_close(p, DLSH_T_RPAREN, "after the parameters") ? owner : NULL;
}

dlsh_node *dlsh_p_fn(dlsh_parser *p, int statement) {
    int mark = p->nstack, mode = p->arg_mode, loops = p->loops;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_FN, p->tok.span);
    if (!n || !dlsh_p_enter(p)) return NULL;
    dlsh_p_advance(p);
    if (statement) {
        n->text = dlsh_unit_text(p->unit, p->tok.text, (size_t)p->tok.len);
        dlsh_p_advance(p);
    }
    if (!dlsh_p_is(p, DLSH_T_LPAREN)) return dlsh_p_unexpected(p, "'(' after fn", "fn name(a, b=1) { return a * b }");
    if (!dlsh_p_params(p, n, mark)) return NULL;
    p->arg_mode = p->loops = 0;
    p->fns++;
    dlsh_node *body = dlsh_p_block(p, "the parameters");
    p->fns--;
    p->arg_mode = mode;
    p->loops = loops;
    dlsh_p_leave(p);
    if (!body || !dlsh_p_push(p, body)) return NULL;
    return dlsh_p_finish(p, n, mark);
}
