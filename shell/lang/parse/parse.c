/* The basis of the parser: tokens, errors, nodes; dlsh_parse. */
#include "lang/parse/parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/session.h"

/* ---------------------------------------------------------------- tokens */

static dlsh_token next(const dlsh_parser *p, dlsh_lexer *lx) {
    dlsh_token t = dlsh_lex(lx);
    int adjacent = t.adjacent;
    while (t.kind == DLSH_T_NEWLINE && p->brackets) {
        t = dlsh_lex(lx);
        adjacent = 0;
    }
    t.adjacent = adjacent;
    return t;
}

void dlsh_p_advance(dlsh_parser *p) {
    p->last = p->tok.span;
    p->tok = next(p, &p->lexer);
}

dlsh_token dlsh_p_peek(const dlsh_parser *p) {
    dlsh_lexer ahead = p->lexer;
    return next(p, &ahead);
}

int dlsh_p_accept(dlsh_parser *p, dlsh_tok kind) {
    if (p->tok.kind != kind) return 0;
    dlsh_p_advance(p);
    return 1;
}

void dlsh_p_expect(dlsh_parser *p, dlsh_tok kind, const char *where) {
    char wanted[96];
    if (dlsh_p_accept(p, kind)) return;
    snprintf(wanted, sizeof wanted, kind >= DLSH_T_NAME ? "%s %s" : "'%s' %s", dlsh_tok_text(kind), where);
    dlsh_p_unexpected(p, wanted, NULL);
}

void dlsh_p_skip_newlines(dlsh_parser *p) {
    while (p->tok.kind == DLSH_T_NEWLINE) {
        dlsh_span last = p->last;
        dlsh_p_advance(p);
        p->last = last;
    }
}

void dlsh_p_open(dlsh_parser *p) {
    p->brackets++;
    dlsh_p_advance(p);
}

void dlsh_p_close(dlsh_parser *p, dlsh_tok kind, const char *where) {
    p->brackets--;
    dlsh_p_expect(p, kind, where);
}

int dlsh_p_word(const dlsh_parser *p, const char *word) {
    return p->tok.kind == DLSH_T_NAME && (int)strlen(word) == p->tok.len &&
           !memcmp(p->tok.text, word, (size_t)p->tok.len);
}

/* ---------------------------------------------------------------- errors */

void *dlsh_p_fail(dlsh_parser *p, dlsh_span at, const char *hint, const char *fmt, ...) {
    DLSH_FORMATTED(fmt, vsnprintf(p->err->message, sizeof p->err->message, fmt, ap));
    snprintf(p->err->hint, sizeof p->err->hint, "%s", hint ? hint : "");
    p->err->code = DL_ERR_SYNTAX;
    p->err->span = at;
    longjmp(*p->on_error, 1);
}

/* Leaves the parser with a failure that the record holds: memory, or a tree too deep. */
static void __attribute__((noreturn)) fail_recorded(dlsh_parser *p) {
    dl_error e = {.code = DL_ERR_INTERNAL};
    dl_error_take(&e);
    snprintf(p->err->message, sizeof p->err->message, "%.255s", e.message);
    snprintf(p->err->hint, sizeof p->err->hint, "%.255s", e.hint);
    p->err->code = e.code;
    p->err->span = p->tok.span;
    longjmp(*p->on_error, 1);
}

/* What the next token is called in messages: `'x'`, `the end of the line`. */
static const char *describe(const dlsh_parser *p, char *buf, size_t n) {
    const dlsh_token *t = &p->tok;
    int len = t->span.end - t->span.start;
    if (t->kind == DLSH_T_NEWLINE || t->kind == DLSH_T_END) return dlsh_tok_text(t->kind);
    if (t->kind == DLSH_T_STR && !t->quoted && len > 24) return "a string";
    snprintf(buf, n, "'%.*s%s'", len > 40 ? 40 : len, p->unit->text + t->span.start, len > 40 ? "..." : "");
    return buf;
}

void *dlsh_p_unexpected(dlsh_parser *p, const char *wanted, const char *hint) {
    char got[64];
    p->err->at_end = p->tok.kind == DLSH_T_END || p->tok.open;
    if (p->tok.kind == DLSH_T_BAD) dlsh_p_fail(p, p->tok.span, p->tok.hint, "%s", p->tok.message);
    const char *sign = dlsh_p_sign_hint(p->unit->text, p->unit->len, (size_t)p->tok.span.start);
    if (sign) hint = sign;
    const char *operator= dlsh_p_operator_hint(&p->tok);
    if (operator) hint = operator;
    if (!hint) hint = dlsh_comment_habit(p->unit->text, (size_t)p->tok.span.start);
    if (!hint && p->tok.kind == DLSH_T_SET) hint = "= assigns, == compares";
    if (!hint && p->tok.kind == DLSH_T_ARROW && p->tok.adjacent) hint = "a field is written p.x";
    if (!hint && p->tok.kind == DLSH_T_ARROW) hint = "-> goes between layers, inside net NAME { }";
    dlsh_p_fail(p, p->tok.span, hint, "expected %s, got %s", wanted, describe(p, got, sizeof got));
}

void dlsh_p_enter(dlsh_parser *p) {
    if (++p->depth > DLSH_MAX_NESTING)
        dlsh_p_fail(p, p->tok.span, "give the inner parts names", "this is nested too deeply (more than %d levels)",
                    DLSH_MAX_NESTING);
}

void dlsh_p_leave(dlsh_parser *p) { p->depth--; }

/* ---------------------------------------------------------------- nodes */

dlsh_node *dlsh_p_node(dlsh_parser *p, dlsh_kind kind, dlsh_span start) {
    dlsh_node *n = dlsh_node_new(p->unit, kind, start);
    if (!n) fail_recorded(p);
    return n;
}

const char *dlsh_p_text(dlsh_parser *p) {
    const char *text = dlsh_unit_text(p->unit, p->tok.text, (size_t)p->tok.len);
    if (!text) fail_recorded(p);
    dlsh_p_advance(p);
    return text;
}

dlsh_node *dlsh_p_name(dlsh_parser *p, dlsh_kind kind) {
    dlsh_node *n = dlsh_p_node(p, kind, p->tok.span);
    n->text = dlsh_p_text(p);
    return n;
}

void dlsh_p_push(dlsh_parser *p, dlsh_node *kid) {
    dlsh_node **more = dlsh_grow(p->stack, p->nstack, &p->capstack, sizeof *more);
    if (!more) fail_recorded(p);
    p->stack = more;
    p->stack[p->nstack++] = kid;
}

dlsh_node *dlsh_p_finish(dlsh_parser *p, dlsh_node *node, int base) {
    int n = p->nstack - base;
    p->nstack = base;
    if (n && dlsh_node_kids(p->unit, node, p->stack + base, n) != DL_OK) fail_recorded(p);
    node->span.end = p->last.end > node->span.end ? p->last.end : node->span.end;
    return node;
}

/* ---------------------------------------------------------------- the whole text */

static void parse_text(dlsh_parser *p) {
    jmp_buf on_error;
    p->on_error = &on_error;
    if (setjmp(on_error)) return;
    dlsh_node *root = dlsh_p_node(p, DLSH_N_BLOCK, p->tok.span);
    for (;;) {
        while (dlsh_p_is(p, DLSH_T_NEWLINE) || dlsh_p_is(p, DLSH_T_SEMI)) dlsh_p_advance(p);
        if (dlsh_p_is(p, DLSH_T_END)) break;
        dlsh_p_push(p, dlsh_p_statement(p));
    }
    p->unit->root = dlsh_p_finish(p, root, 0);
}

dl_status dlsh_parse(dlsh_unit *unit, dlsh_command_lookup *find, void *ctx, dlsh_syntax_error *err) {
    *err = (dlsh_syntax_error){.code = DL_OK};
    dlsh_parser p = {.unit = unit, .last = {1, 1, 0, 0}, .find = find, .ctx = ctx, .err = err};
    dlsh_lexer_init(&p.lexer, unit);
    p.tok = dlsh_lex(&p.lexer);
    parse_text(&p);
    free(p.stack);
    return err->code;
}
