/* Statements. */
#include <stdio.h>
#include <string.h>

#include "lang/parse/parser.h"
#include "lang/session.h"

int dlsh_p_at_statement_end(const dlsh_parser *p) {
    dlsh_tok k = p->tok.kind;
    return k == DLSH_T_NEWLINE || k == DLSH_T_SEMI || k == DLSH_T_RBRACE || k == DLSH_T_END;
}

/* ---------------------------------------------------------------- ends */

static const char *first_word(const dlsh_node *n) {
    while (n && n->kind != DLSH_N_NAME && n->nkids && n->kids[0] && !(n->flags & DLSH_PAREN)) n = n->kids[0];
    return n && n->kind == DLSH_N_NAME ? n->text : NULL;
}

static int is_literal(dlsh_tok k) {
    return k == DLSH_T_NAME || k == DLSH_T_INT || k == DLSH_T_FLOAT || k == DLSH_T_IMAG || k == DLSH_T_STR;
}

/* The hint for `foo bar`, no command, or `r = step t`, a command written where a function is called. */
static const char *bare_call(dlsh_parser *p, const dlsh_node *stmt, char *hint, size_t room) {
    const dlsh_node *last = stmt->kids[stmt->nkids - 1];
    if (last->kind != DLSH_N_NAME || (!is_literal(p->tok.kind) && !dlsh_p_is(p, DLSH_T_LBRACE))) return NULL;
    const dlsh_command *cmd = p->find ? p->find(p->ctx, last->text, strlen(last->text)) : NULL;
    if (dlsh_p_is(p, DLSH_T_LBRACE)) {
        if (!cmd || !cmd->params || cmd->params->kind != DLSH_ARG_BLOCK) return NULL;
        snprintf(hint, room, "%.60s has no value: assign within it, %.60s { x = ... }", cmd->name, cmd->name);
        return hint;
    }
    if (!cmd) p->err->command = last->text;
    if (!cmd)
        snprintf(hint, room, "'%.60s' is not a command: help lists those there are", last->text);
    else if (cmd->flags & DLSH_FUNCTION)
        snprintf(hint, room, "as a value it is called with parentheses: %.60s(...)", cmd->name);
    else
        snprintf(hint, room, "the command %.60s has no result", cmd->name);
    return hint;
}

/* The hint for `a = b = 3`. */
static const char *chained(const dlsh_parser *p, const dlsh_node *stmt, char *hint, size_t room) {
    const dlsh_node *to = stmt->kids[0], *from = stmt->kids[stmt->nkids - 1];
    int n = to->span.end - to->span.start, m = from->span.end - from->span.start;
    const char *text = p->unit->text;
    if (n > 40 || m > 40) return "one assignment a statement";
    snprintf(hint, room, "one assignment a statement: %.*s = ...; %.*s = %.*s", m, text + from->span.start, n,
             text + to->span.start, m, text + from->span.start);
    return hint;
}

/* Behind a name, ':' and the name of a layer. */
static int names_layer(const dlsh_parser *p) {
    char word[64];
    dlsh_token next = dlsh_p_peek(p);
    int n = next.span.end - next.span.start;
    if (next.kind != DLSH_T_NAME || n >= (int)sizeof word) return 0;
    memcpy(word, p->unit->text + next.span.start, (size_t)n);
    word[n] = 0;
    return dl_layer_kind(word) != NULL;
}

/* The error for text after a whole statement. */
static dlsh_node *trailing(dlsh_parser *p, const dlsh_node *stmt) {
    char text[200];
    int plain = stmt->kind == DLSH_N_EXPR || stmt->kind == DLSH_N_ASSIGN;
    const char *hint = NULL;
    dlsh_tok k = p->tok.kind;
    if (plain && k != DLSH_T_ARROW) hint = dlsh_p_word_hint(first_word(stmt->kids[stmt->nkids - 1]));
    const dlsh_node *tail = stmt->nkids ? stmt->kids[stmt->nkids - 1] : NULL;
    if (!hint && k == DLSH_T_COLON && plain && tail->kind == DLSH_N_INT) hint = "a range is written range(1, 10)";
    if (!hint && k == DLSH_T_COLON && plain && tail->kind == DLSH_N_NAME)
        hint = names_layer(p) ? "a layer gets a name inside a net: net m { body: linear 10 -> relu }"
                              : "variables have no declared types: x = 3; a record is written {x: 3}";
    if (!hint && k == DLSH_T_COLON) hint = "blocks stand in braces: if x > 0 { ... }";
    if (!hint && k == DLSH_T_LBRACE && tail && first_word(tail) && !strcmp(first_word(tail), "net"))
        hint = "a net is a statement: net m { linear 10 }";
    if (!hint && k == DLSH_T_STR && tail && tail->kind == DLSH_N_STR) hint = "strings are joined by +";
    if (!hint && k == DLSH_T_IF) hint = "a choice inside an expression is written: test ? yes : no";
    if (!hint && k == DLSH_T_SET && stmt->kind == DLSH_N_ASSIGN) hint = chained(p, stmt, text, sizeof text);
    if (!hint) hint = dlsh_comment_habit(p->unit->text, (size_t)p->tok.span.start);
    if (!hint && plain) hint = bare_call(p, stmt, text, sizeof text);
    if (!hint && is_literal(k)) hint = "statements on one line are separated by ;";
    return dlsh_p_unexpected(p, "the end of the statement", hint);
}

static dlsh_node *end_statement(dlsh_parser *p, dlsh_node *s) {
    if (!dlsh_p_at_statement_end(p)) return trailing(p, s);
    if (dlsh_p_is(p, DLSH_T_SEMI)) {
        s->flags |= DLSH_SILENT;
        dlsh_p_advance(p);
    } else if (dlsh_p_is(p, DLSH_T_NEWLINE))
        dlsh_p_advance(p);
    return s;
}

/* ---------------------------------------------------------------- blocks and control flow */

static int word_before(const dlsh_parser *p, const char *word) {
    size_t n = strlen(word);
    return (size_t)(p->last.end - p->last.start) == n && !strncmp(p->unit->text + p->last.start, word, n);
}

dlsh_node *dlsh_p_block(dlsh_parser *p, const char *after) {
    int base = p->nstack, brackets = p->brackets, mode = p->arg_mode;
    char wanted[96];
    if (!dlsh_p_is(p, DLSH_T_LBRACE)) {
        snprintf(wanted, sizeof wanted, "'{' after %s", after);
        const char *hint = word_before(p, "not") ? dlsh_p_word_hint("not") : NULL;
        if (!strcmp(after, "the parameters"))
            hint = "functions are written: fn name(a, b=1) { return a * b }";
        else if (!hint && !dlsh_p_is(p, DLSH_T_SET))
            hint = "blocks stand in braces: if x > 0 { ... }";
        return dlsh_p_unexpected(p, wanted, hint);
    }
    dlsh_node *b = dlsh_p_node(p, DLSH_N_BLOCK, p->tok.span);
    dlsh_p_enter(p);
    p->brackets = p->arg_mode = 0;
    dlsh_p_advance(p);
    for (;;) {
        while (dlsh_p_is(p, DLSH_T_NEWLINE) || dlsh_p_is(p, DLSH_T_SEMI)) dlsh_p_advance(p);
        if (dlsh_p_is(p, DLSH_T_RBRACE)) break;
        if (dlsh_p_is(p, DLSH_T_END)) return dlsh_p_unexpected(p, "'}' to close the block", NULL);
        dlsh_p_push(p, dlsh_p_statement(p));
    }
    p->brackets = brackets;
    p->arg_mode = mode;
    dlsh_p_advance(p);
    dlsh_p_leave(p);
    return dlsh_p_finish(p, b, base);
}

/* An expression before the block of an if, while or for. */
static dlsh_node *head(dlsh_parser *p) {
    p->head++;
    dlsh_node *n = dlsh_p_expr(p);
    p->head--;
    return n;
}

static dlsh_node *if_statement(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_IF, p->tok.span), *otherwise = NULL;
    dlsh_p_enter(p);
    dlsh_p_advance(p);
    dlsh_p_push(p, head(p));
    dlsh_p_push(p, dlsh_p_block(p, "the condition"));
    if (dlsh_p_word(p, "elif")) return dlsh_p_unexpected(p, "else", "write else if");
    if (dlsh_p_accept(p, DLSH_T_ELSE)) otherwise = dlsh_p_is(p, DLSH_T_IF) ? if_statement(p) : dlsh_p_block(p, "else");
    dlsh_p_push(p, otherwise);
    dlsh_p_leave(p);
    return dlsh_p_finish(p, n, base);
}

static dlsh_node *loop_body(dlsh_parser *p, const char *after) {
    p->loops++;
    dlsh_node *b = dlsh_p_block(p, after);
    p->loops--;
    return b;
}

static dlsh_node *while_statement(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_WHILE, p->tok.span);
    dlsh_p_advance(p);
    dlsh_p_push(p, head(p));
    dlsh_p_push(p, loop_body(p, "the condition"));
    return dlsh_p_finish(p, n, base);
}

static dlsh_node *target(dlsh_parser *p);

/* One of several targets, which begin at `base` of the stack: `*rest`, or what `one` reads. */
static dlsh_node *unpacked(dlsh_parser *p, int base, dlsh_node *(*one)(dlsh_parser *p)) {
    if (!dlsh_p_is(p, DLSH_T_MUL)) return one(p);
    for (int i = base; i < p->nstack; i++)
        if (p->stack[i]->kind == DLSH_N_SPREAD)
            return dlsh_p_fail(p, p->tok.span, NULL, "one name alone takes the rest: there are two with *");
    int at = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_SPREAD, p->tok.span);
    n->op = DLSH_OP_MUL;
    dlsh_p_advance(p);
    dlsh_p_push(p, one(p));
    return dlsh_p_finish(p, n, at);
}

/* ( target {, target} [,] ): its value is unpacked again; (target) is the target. */
static dlsh_node *target_group(dlsh_parser *p) {
    int base = p->nstack, commas = 0;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_TUPLE, p->tok.span), *one;
    dlsh_p_enter(p);
    dlsh_p_open(p);
    do dlsh_p_push(p, one = unpacked(p, base, target));
    while (dlsh_p_accept(p, DLSH_T_COMMA) && ++commas && !dlsh_p_is(p, DLSH_T_RPAREN));
    dlsh_p_close(p, DLSH_T_RPAREN, "to close the names");
    dlsh_p_leave(p);
    if (commas || one->kind == DLSH_N_SPREAD) return dlsh_p_finish(p, n, base);
    p->nstack = base;
    return one;
}

/* `(name,` begins a statement that is not an expression. */
static int at_target_group(const dlsh_parser *p) {
    dlsh_parser ahead = *p;
    if (!dlsh_p_is(p, DLSH_T_LPAREN)) return 0;
    while (dlsh_p_is(&ahead, DLSH_T_LPAREN)) dlsh_p_open(&ahead);
    return ahead.tok.kind == DLSH_T_NAME && dlsh_p_peek(&ahead).kind == DLSH_T_COMMA;
}

static dlsh_node *for_target(dlsh_parser *p) {
    int first = word_before(p, "for");
    if (first ? at_target_group(p) : dlsh_p_is(p, DLSH_T_LPAREN)) return target_group(p);
    if (dlsh_p_is(p, DLSH_T_NAME)) return dlsh_p_name(p, DLSH_N_NAME);
    return dlsh_p_unexpected(p, "a name after for",
                             dlsh_p_is(p, DLSH_T_LPAREN) ? "loops are written: for i in range(10) { ... }" : NULL);
}

void dlsh_p_for_names(dlsh_parser *p) {
    int base = p->nstack;
    do dlsh_p_push(p, unpacked(p, base, for_target));
    while (dlsh_p_accept(p, DLSH_T_COMMA));
    if (p->nstack == base + 1 && p->stack[base]->kind == DLSH_N_SPREAD)
        dlsh_p_fail(p, p->stack[base]->span, NULL, "* takes what other names leave: for first, *rest in xs");
    if (!dlsh_p_is(p, DLSH_T_IN))
        dlsh_p_unexpected(p, "'in' after the names of for", "loops are written: for i in range(10) { ... }");
    dlsh_p_advance(p);
}

static dlsh_node *for_statement(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_FOR, p->tok.span);
    dlsh_p_advance(p);
    dlsh_p_for_names(p);
    dlsh_p_push(p, head(p));
    dlsh_p_push(p, loop_body(p, "the sequence"));
    return dlsh_p_finish(p, n, base);
}

static dlsh_node *try_statement(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_TRY, p->tok.span);
    dlsh_p_advance(p);
    dlsh_p_push(p, dlsh_p_block(p, "try"));
    if (!dlsh_p_is(p, DLSH_T_CATCH))
        return dlsh_p_unexpected(p, "'catch' on the line of the closing '}'",
                                 "try { ... } catch e { print(e.message) }");
    dlsh_p_advance(p);
    if (dlsh_p_is(p, DLSH_T_LPAREN)) return dlsh_p_unexpected(p, "a name or '{' after catch", "write catch e { ... }");
    dlsh_p_push(p, dlsh_p_is(p, DLSH_T_NAME) ? dlsh_p_name(p, DLSH_N_NAME) : NULL);
    dlsh_p_push(p, dlsh_p_block(p, "catch"));
    return dlsh_p_finish(p, n, base);
}

/* ---------------------------------------------------------------- simple statements */

static dlsh_node *return_statement(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_RETURN, p->tok.span);
    if (!p->fns) return dlsh_p_fail(p, p->tok.span, "exit N ends a script", "return outside a function");
    dlsh_p_advance(p);
    if (!dlsh_p_at_statement_end(p)) dlsh_p_push(p, dlsh_p_expr_list(p));
    return end_statement(p, dlsh_p_finish(p, n, base));
}

static dlsh_node *jump(dlsh_parser *p, dlsh_kind kind) {
    if (!p->loops)
        return dlsh_p_fail(p, p->tok.span, kind == DLSH_N_BREAK ? "of a debugger: dbg { break CONDITION }" : NULL,
                           "%s outside a loop", dlsh_kind_name(kind));
    dlsh_node *n = dlsh_p_node(p, kind, p->tok.span);
    dlsh_p_advance(p);
    return end_statement(p, n);
}

static int is_assignment(dlsh_tok k) { return k == DLSH_T_SET || (k >= DLSH_T_ADDSET && k <= DLSH_T_POWSET); }

static dlsh_op assignment_op(dlsh_tok k) {
    static const unsigned char ops[] = {[DLSH_T_ADDSET] = DLSH_OP_ADD,           [DLSH_T_SUBSET] = DLSH_OP_SUB,
                                        [DLSH_T_MULSET] = DLSH_OP_MUL,           [DLSH_T_DIVSET] = DLSH_OP_DIV,
                                        [DLSH_T_FLOORDIVSET] = DLSH_OP_FLOORDIV, [DLSH_T_MODSET] = DLSH_OP_MOD,
                                        [DLSH_T_POWSET] = DLSH_OP_POW,           [DLSH_T_SET] = DLSH_OP_NONE};
    return (dlsh_op)ops[k];
}

static dlsh_node *check_target(dlsh_parser *p, dlsh_node *t) {
    if ((t->kind == DLSH_N_NAME || t->kind == DLSH_N_FIELD || t->kind == DLSH_N_INDEX) && !(t->flags & DLSH_PAREN))
        return t;
    dlsh_p_fail(
        p, t->span,
        t->kind == DLSH_N_LIST                                       ? "names on the left stand bare: a, b = 1, 2"
        : t->kind == DLSH_N_INT && p->unit->text[t->span.end] == ',' ? "numbers are written without separators: 1000"
        : t->kind == DLSH_N_CALL ? "an element is set by x[index] = value; a function is written fn f(x) { ... }"
                                 : "a name, x.field or x[index] stands left of =; == compares",
        "this cannot be assigned to");
}

static dlsh_node *target(dlsh_parser *p) {
    return dlsh_p_is(p, DLSH_T_LPAREN) ? target_group(p) : check_target(p, dlsh_p_expr(p));
}

/* Does an assignment sign follow in this statement, outside brackets? */
static int assigns(const dlsh_parser *p) {
    dlsh_parser ahead = *p;
    for (int depth = 0; !dlsh_p_is(&ahead, DLSH_T_END) && (depth || !dlsh_p_at_statement_end(&ahead));) {
        dlsh_tok k = ahead.tok.kind;
        if (!depth && is_assignment(k)) return 1;
        int step = (k == DLSH_T_LPAREN || k == DLSH_T_LBRACKET || k == DLSH_T_LBRACE) -
                   (k == DLSH_T_RPAREN || k == DLSH_T_RBRACKET || k == DLSH_T_RBRACE);
        depth += step;
        ahead.brackets += step;
        dlsh_p_advance(&ahead);
        if (k == DLSH_T_COMMA) dlsh_p_skip_newlines(&ahead);
    }
    return 0;
}

static dlsh_node *expression(dlsh_parser *p, dlsh_node *value) {
    int base = p->nstack;
    dlsh_node *e = dlsh_p_node(p, DLSH_N_EXPR, value->span);
    dlsh_p_push(p, value);
    return end_statement(p, dlsh_p_finish(p, e, base));
}

/* `a, b` shows a list. */
static dlsh_node *values(dlsh_parser *p, dlsh_node *first) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_LIST, first->span);
    dlsh_p_push(p, first);
    while (dlsh_p_accept(p, DLSH_T_COMMA)) {
        dlsh_p_skip_newlines(p);
        dlsh_p_push(p, dlsh_p_expr(p));
    }
    return expression(p, dlsh_p_finish(p, n, base));
}

/* The targets after the first, in a TUPLE where a comma or a group leaves one alone to be unpacked. */
static int more_targets(dlsh_parser *p, int base) {
    int commas = 0;
    while (dlsh_p_accept(p, DLSH_T_COMMA)) {
        commas++;
        dlsh_p_skip_newlines(p);
        if (is_assignment(p->tok.kind)) break;
        dlsh_p_push(p, unpacked(p, base, target));
    }
    dlsh_node *only = p->nstack == base + 1 ? p->stack[base] : NULL;
    if (only && !commas && only->kind == DLSH_N_SPREAD)
        dlsh_p_fail(p, only->span, "what a pointer points to is p[0]; a list of all is [*xs]",
                    "* takes what other names leave: first, *rest = xs");
    if (only && commas) dlsh_p_push(p, dlsh_p_finish(p, dlsh_p_node(p, DLSH_N_TUPLE, only->span), base));
    return commas || p->stack[base]->kind == DLSH_N_TUPLE;
}

/* targets assign expr, or an expression. */
static dlsh_node *assignment_or_expr(dlsh_parser *p) {
    int base = p->nstack, group = at_target_group(p) || (dlsh_p_is(p, DLSH_T_MUL) && assigns(p));
    dlsh_node *first = group ? unpacked(p, base, target) : dlsh_p_expr(p);
    if (!group && !dlsh_p_is(p, DLSH_T_COMMA) && !is_assignment(p->tok.kind)) return expression(p, first);
    int thousands = first->kind == DLSH_N_INT && strspn(p->unit->text + first->span.end, ",0123456789") >= 4;
    if (!group && dlsh_p_is(p, DLSH_T_COMMA) && !thousands && !assigns(p)) return values(p, first);
    dlsh_node *n = dlsh_p_node(p, DLSH_N_ASSIGN, first->span);
    dlsh_p_push(p, group ? first : check_target(p, first));
    int several = more_targets(p, base);
    if (!is_assignment(p->tok.kind))
        return dlsh_p_unexpected(p, "'=' after the names", "several values print as a list: [a, b]");
    n->op = (unsigned char)assignment_op(p->tok.kind);
    if (n->op && several)
        return dlsh_p_fail(p, p->tok.span, NULL, "%s= takes one name on its left", dlsh_op_text(n->op));
    dlsh_p_advance(p);
    dlsh_p_skip_newlines(p);
    dlsh_p_push(p, n->op ? dlsh_p_expr(p) : dlsh_p_expr_list(p));
    return end_statement(p, dlsh_p_finish(p, n, base));
}

/* ---------------------------------------------------------------- which statement */

/* The command of the block around whose name is the next token; NULL. */
static const dlsh_command *word_of_block(const dlsh_parser *p) {
    for (const dlsh_command *c = p->words; c && c->name; c++)
        if ((int)strlen(c->name) == p->tok.len && !memcmp(c->name, p->tok.text, (size_t)p->tok.len)) return c;
    return NULL;
}

/* Does the word, standing first, start a command? Not when it is assigned, called, or indexed. */
static const dlsh_command *command_here(const dlsh_parser *p, const dlsh_token *after) {
    if (is_assignment(after->kind) || after->kind == DLSH_T_COMMA) return NULL;
    if (after->adjacent &&
        (after->kind == DLSH_T_LPAREN || after->kind == DLSH_T_LBRACKET || after->kind == DLSH_T_DOT))
        return NULL;
    const dlsh_command *own = word_of_block(p);
    return own ? own : p->find ? p->find(p->ctx, p->tok.text, (size_t)p->tok.len) : NULL;
}

static dlsh_node *command_statement(dlsh_parser *p, const dlsh_command *cmd) {
    dlsh_node *n = dlsh_p_command(p, cmd);
    const dlsh_node *tail = n->nkids ? n->kids[n->nkids - 1] : NULL;
    int kind = tail && tail->kind == DLSH_N_ARG ? (int)n->num.cmd->params[tail->num.i].kind : -1;
    if (kind == DLSH_ARG_STATEMENT || kind == DLSH_ARG_BLOCK) return n; /* its argument has ended the statement */
    return end_statement(p, n);
}

/* break and continue: of a loop, else commands of the block that they stand in. */
static dlsh_node *break_or_continue(dlsh_parser *p, dlsh_kind kind) {
    const dlsh_command *own = p->loops ? NULL : word_of_block(p);
    return own ? command_statement(p, own) : jump(p, kind);
}

static dlsh_node *word_statement(dlsh_parser *p) {
    dlsh_token after = dlsh_p_peek(p);
    const dlsh_command *cmd;
    if (dlsh_p_word(p, "net") && after.kind == DLSH_T_NAME) return dlsh_p_net(p);
    if (dlsh_p_word(p, "extern") && after.kind == DLSH_T_STR) return dlsh_p_extern(p);
    if ((dlsh_p_word(p, "C") || dlsh_p_word(p, "CUDA")) && (after.kind == DLSH_T_LBRACE || after.kind == DLSH_T_NAME))
        return dlsh_p_cblock(p);
    if ((cmd = command_here(p, &after))) return command_statement(p, cmd);
    return assignment_or_expr(p);
}

static dlsh_node *statement(dlsh_parser *p) {
    switch (p->tok.kind) {
    case DLSH_T_IF: return if_statement(p);
    case DLSH_T_WHILE: return while_statement(p);
    case DLSH_T_FOR: return for_statement(p);
    case DLSH_T_TRY: return try_statement(p);
    case DLSH_T_RETURN: return return_statement(p);
    case DLSH_T_BREAK: return break_or_continue(p, DLSH_N_BREAK);
    case DLSH_T_CONTINUE: return break_or_continue(p, DLSH_N_CONTINUE);
    case DLSH_T_FN: return dlsh_p_peek(p).kind == DLSH_T_NAME ? dlsh_p_fn(p, 1) : assignment_or_expr(p);
    case DLSH_T_NAME: return word_statement(p);
    case DLSH_T_ELSE:
        return dlsh_p_unexpected(p, "a statement", "else stands on the line of the closing '}': } else {");
    case DLSH_T_CATCH:
        return dlsh_p_unexpected(p, "a statement", "catch stands on the line of the closing '}': } catch e {");
    case DLSH_T_RBRACE: return dlsh_p_unexpected(p, "a statement", "this brace closes nothing");
    case DLSH_T_LBRACE:
        if (dlsh_p_at_record(p)) return assignment_or_expr(p);
        return dlsh_p_unexpected(p, "a statement",
                                 "a block belongs to if, while, for, fn or a command such as no_grad; a record is "
                                 "written {a: 1}, a list [1, 2]");
    case DLSH_T_ARROW: return dlsh_p_unexpected(p, "a statement", "end the line before with ->");
    case DLSH_T_MOD:
        return dlsh_p_unexpected(p, "a statement",
                                 "in notebooks there are %time, %%time and %%c; help lists the commands");
    default: return assignment_or_expr(p);
    }
}

dlsh_node *dlsh_p_statement(dlsh_parser *p) {
    dlsh_p_enter(p);
    dlsh_node *n = statement(p);
    dlsh_p_leave(p);
    return n;
}
