/* net NAME { layers }, extern "library" prototypes, and blocks of C. */
#include <string.h>

#include "lang/parse/parser.h"

static dlsh_node *layers(dlsh_parser *p);

/* The shortcut of a residual: `shortcut { ... }` behind its closing brace, or on a line of its own. */
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
    int mark = p->nstack;
    if (!dlsh_p_is(p, DLSH_T_NAME))
        return dlsh_p_unexpected(p, "a layer", "a layer a line, or a chain: conv 16 k=3 -> relu");
    dlsh_node *n = dlsh_p_name(p, DLSH_N_LAYER), *kid;
    if (!n) return NULL;
    if (dlsh_p_accept(p, DLSH_T_COLON)) {
        n->label = n->text;
        if (!dlsh_p_is(p, DLSH_T_NAME)) return dlsh_p_unexpected(p, "a layer after its name", NULL);
        n->text = dlsh_unit_text(p->unit, p->tok.text, (size_t)p->tok.len);
        dlsh_p_advance(p);
    }
    if (dlsh_p_is(p, DLSH_T_LPAREN) && p->tok.touch)
        return dlsh_p_unexpected(p, "arguments", "layers take them bare: conv 16 k=3 pad=1");
    while (!dlsh_p_at_statement_end(p) && !dlsh_p_is(p, DLSH_T_ARROW) && !dlsh_p_is(p, DLSH_T_LBRACE)) {
        if (dlsh_p_is(p, DLSH_T_COMMA))
            return dlsh_p_unexpected(p, "another argument", "arguments are separated by spaces");
        kid = dlsh_p_at_option(p) ? dlsh_p_option(p, DLSH_OPT_VALUE) : dlsh_p_argument(p);
        if (!kid || !dlsh_p_push(p, kid)) return NULL;
    }
    if (dlsh_p_is(p, DLSH_T_LBRACE)) {
        if (!(kid = layers(p)) || !dlsh_p_push(p, kid)) return NULL;
        kid = n->text && !strcmp(n->text, "residual") ? shortcut(p) : NULL;
        if (p->err->code || (kid && !dlsh_p_push(p, kid))) return NULL;
    }
    return dlsh_p_finish(p, n, mark);
}

/* '{' chains '}', one a line or separated by `;`; all of them make one chain. */
static dlsh_node *layers(dlsh_parser *p) {
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_LAYERS, p->tok.span);
    if (!n || !dlsh_p_enter(p)) return NULL;
    dlsh_p_advance(p);
    for (;;) {
        while (dlsh_p_is(p, DLSH_T_NEWLINE) || dlsh_p_is(p, DLSH_T_SEMI)) dlsh_p_advance(p);
        if (dlsh_p_is(p, DLSH_T_RBRACE)) break;
        if (dlsh_p_is(p, DLSH_T_END)) return dlsh_p_unexpected(p, "'}' to close the layers", NULL);
        for (;;) {
            dlsh_node *l = layer(p);
            if (!l || !dlsh_p_push(p, l)) return NULL;
            if (!dlsh_p_accept(p, DLSH_T_ARROW)) break;
            dlsh_p_skip_newlines(p);
        }
        if (!dlsh_p_at_statement_end(p)) return dlsh_p_unexpected(p, "'->' or the end of the line after a layer", NULL);
    }
    dlsh_p_advance(p);
    dlsh_p_leave(p);
    return dlsh_p_finish(p, n, mark);
}

dlsh_node *dlsh_p_net(dlsh_parser *p) {
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_NET, p->tok.span), *body;
    if (!n) return NULL;
    dlsh_p_advance(p);
    n->text = dlsh_unit_text(p->unit, p->tok.text, (size_t)p->tok.len);
    dlsh_p_advance(p);
    if (dlsh_p_is(p, DLSH_T_LPAREN) && !dlsh_p_params(p, n, mark)) return NULL;
    if (!dlsh_p_is(p, DLSH_T_LBRACE))
        return dlsh_p_unexpected(p, "'{' after the net's name", "net m { linear 64 -> relu -> linear 10 }");
    if (!(body = layers(p)) || !dlsh_p_push(p, body)) return NULL;
    return dlsh_p_finish(p, n, mark);
}

/* Options between the word and the C text; 0 after an error. */
static int options(dlsh_parser *p) {
    while (dlsh_p_at_option(p)) {
        dlsh_node *o = dlsh_p_option(p, DLSH_OPT_VALUE);
        if (!o || !dlsh_p_push(p, o)) return 0;
    }
    return 1;
}

/* Takes the C text that begins at byte `from`. */
static dlsh_node *c_text(dlsh_parser *p, dlsh_node *n, int to_semicolon, int mark) {
    dlsh_token t = dlsh_lex_c(&p->lexer, to_semicolon);
    p->tok = t;
    if (t.kind != DLSH_T_STR)
        return dlsh_p_unexpected(p, to_semicolon ? "a C prototype" : "'}' to close the C text", NULL);
    n->label = t.text;
    n->num.i = t.span.start;
    dlsh_p_advance(p);
    return dlsh_p_finish(p, n, mark);
}

dlsh_node *dlsh_p_extern(dlsh_parser *p) {
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_EXTERN, p->tok.span);
    if (!n) return NULL;
    dlsh_p_advance(p);
    n->text = p->tok.text;
    dlsh_p_advance(p);
    if (!options(p)) return NULL;
    if (dlsh_p_at_statement_end(p))
        return dlsh_p_unexpected(p, "a C prototype after the library",
                                 "extern \"libm.so.6\" double hypot(double x, double y);");
    if (dlsh_p_is(p, DLSH_T_LBRACE)) return c_text(p, n, 0, mark);
    dlsh_lex_back(&p->lexer, &p->tok);
    return c_text(p, n, 1, mark);
}

dlsh_node *dlsh_p_cblock(dlsh_parser *p) {
    int mark = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_CBLOCK, p->tok.span);
    if (!n) return NULL;
    n->text = dlsh_p_word(p, "C") ? "C" : "CUDA";
    dlsh_p_advance(p);
    if (!options(p)) return NULL;
    if (!dlsh_p_is(p, DLSH_T_LBRACE))
        return dlsh_p_unexpected(p, "'{' before the C text", "C { double sq(double x) { return x * x; } }");
    return c_text(p, n, 0, mark);
}
