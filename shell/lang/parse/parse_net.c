/* net NAME { layers }, extern "library" prototypes, and blocks of C. */
#include <string.h>

#include "lang/parse/parser.h"

static dlsh_node *layers(dlsh_parser *p);

/* The shortcut of a residual: `shortcut { ... }` behind its closing brace, or on a line of its own; NULL: none. */
static dlsh_node *shortcut(dlsh_parser *p) {
    dlsh_parser saved = *p;
    dlsh_p_skip_newlines(p);
    if (dlsh_p_word(p, "shortcut") && dlsh_p_peek(p).kind == DLSH_T_LBRACE) {
        dlsh_p_advance(p);
        return layers(p);
    }
    p->tok = saved.tok;
    p->last = saved.last;
    p->lexer = saved.lexer;
    return NULL;
}

/* layer := [NAME ':'] NAME {argument} [ '{' layers... '}' ] */
static dlsh_node *layer(dlsh_parser *p) {
    int base = p->nstack;
    if (!dlsh_p_is(p, DLSH_T_NAME))
        return dlsh_p_unexpected(p, "a layer", "a layer a line, or a chain: conv 16 k=3 -> relu");
    dlsh_node *n = dlsh_p_name(p, DLSH_N_LAYER);
    if (dlsh_p_accept(p, DLSH_T_COLON)) {
        n->label = n->text;
        if (!dlsh_p_is(p, DLSH_T_NAME)) return dlsh_p_unexpected(p, "a layer after its name", NULL);
        n->text = dlsh_p_text(p);
    }
    if (dlsh_p_is(p, DLSH_T_LPAREN) && p->tok.adjacent)
        return dlsh_p_unexpected(p, "arguments", "layers take them bare: conv 16 k=3 pad=1");
    while (!dlsh_p_at_statement_end(p) && !dlsh_p_is(p, DLSH_T_ARROW) && !dlsh_p_is(p, DLSH_T_LBRACE)) {
        if (dlsh_p_is(p, DLSH_T_COMMA))
            return dlsh_p_unexpected(p, "another argument", "arguments are separated by spaces");
        dlsh_p_push(p, dlsh_p_at_option(p) ? dlsh_p_option(p, DLSH_OPT_VALUE) : dlsh_p_argument(p));
    }
    if (dlsh_p_is(p, DLSH_T_LBRACE)) {
        dlsh_p_push(p, layers(p));
        dlsh_node *other = !strcmp(n->text, "residual") ? shortcut(p) : NULL;
        if (other) dlsh_p_push(p, other);
    }
    return dlsh_p_finish(p, n, base);
}

/* '{' chains '}', one a line or separated by `;`; all of them make one chain. */
static dlsh_node *layers(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_LAYERS, p->tok.span);
    dlsh_p_enter(p);
    dlsh_p_advance(p);
    for (;;) {
        while (dlsh_p_is(p, DLSH_T_NEWLINE) || dlsh_p_is(p, DLSH_T_SEMI)) dlsh_p_advance(p);
        if (dlsh_p_is(p, DLSH_T_RBRACE)) break;
        if (dlsh_p_is(p, DLSH_T_END)) return dlsh_p_unexpected(p, "'}' to close the layers", NULL);
        for (;;) {
            dlsh_p_push(p, layer(p));
            if (!dlsh_p_accept(p, DLSH_T_ARROW)) break;
            dlsh_p_skip_newlines(p);
        }
        if (!dlsh_p_at_statement_end(p)) return dlsh_p_unexpected(p, "'->' or the end of the line after a layer", NULL);
    }
    dlsh_p_advance(p);
    dlsh_p_leave(p);
    return dlsh_p_finish(p, n, base);
}

dlsh_node *dlsh_p_net(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_NET, p->tok.span);
    dlsh_p_advance(p);
    n->text = dlsh_p_text(p);
    if (dlsh_p_is(p, DLSH_T_LPAREN)) dlsh_p_params(p, base);
    if (!dlsh_p_is(p, DLSH_T_LBRACE))
        return dlsh_p_unexpected(p, "'{' after the net's name", "net m { linear 64 -> relu -> linear 10 }");
    dlsh_p_push(p, layers(p));
    return dlsh_p_finish(p, n, base);
}

/* Options between the word and the C text. */
static void options(dlsh_parser *p) {
    while (dlsh_p_at_option(p)) dlsh_p_push(p, dlsh_p_option(p, DLSH_OPT_VALUE));
}

/* Reads the C text that follows, and finishes the node. */
static dlsh_node *c_text(dlsh_parser *p, dlsh_node *n, int to_semicolon, int base) {
    dlsh_token t = dlsh_lex_c(&p->lexer, to_semicolon);
    p->tok = t;
    if (t.kind != DLSH_T_STR)
        return dlsh_p_unexpected(p, to_semicolon ? "a C prototype" : "'}' to close the C text", NULL);
    n->label = t.text;
    n->num.i = t.span.start;
    dlsh_p_advance(p);
    return dlsh_p_finish(p, n, base);
}

dlsh_node *dlsh_p_extern(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_EXTERN, p->tok.span);
    dlsh_p_advance(p);
    n->text = p->tok.text;
    dlsh_p_advance(p);
    options(p);
    if (dlsh_p_at_statement_end(p))
        return dlsh_p_unexpected(p, "a C prototype after the library",
                                 "extern \"libm.so.6\" double hypot(double x, double y);");
    if (dlsh_p_is(p, DLSH_T_LBRACE)) return c_text(p, n, 0, base);
    dlsh_lex_back(&p->lexer, &p->tok);
    return c_text(p, n, 1, base);
}

dlsh_node *dlsh_p_cblock(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_CBLOCK, p->tok.span);
    n->text = dlsh_p_word(p, "C") ? "C" : "CUDA";
    dlsh_p_advance(p);
    options(p);
    if (!dlsh_p_is(p, DLSH_T_LBRACE))
        return dlsh_p_unexpected(p, "'{' before the C text", "C { double sq(double x) { return x * x; } }");
    return c_text(p, n, 0, base);
}
