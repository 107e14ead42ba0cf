/* net NAME { layers }, extern "library" prototypes, and blocks of C. */
#include <string.h>

#include "lang/parse/parser.h"

static dlsh_node *layers(dlsh_parser *p);

/* The shortcut of a residual: `shortcut { ... }` after its closing brace, or on a line of its own; NULL: none. */
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
        if (p->nstack > base && dlsh_p_is_operator(p->tok.kind) && !dlsh_p_is(p, DLSH_T_SUB))
            return dlsh_p_unexpected(p, "another argument or the end of the layer",
                                     "an argument with operators stands in parentheses: linear (2 * c)");
        int tie = dlsh_p_word(p, "tie"); /* names a parameter of the net, which is not a variable */
        dlsh_p_push(p,
                    dlsh_p_at_option(p) ? dlsh_p_option(p, tie ? DLSH_OPT_WORD : DLSH_OPT_VALUE) : dlsh_p_argument(p));
    }
    if (dlsh_p_is(p, DLSH_T_LBRACE)) {
        dlsh_p_push(p, layers(p));
        dlsh_node *other = !strcmp(n->text, "residual") ? shortcut(p) : NULL;
        if (other) dlsh_p_push(p, other);
    }
    return dlsh_p_finish(p, n, base);
}

/* The shape of a tensor of the net: a function from `in` to its sizes. */
static dlsh_node *shape(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *fn = dlsh_p_node(p, DLSH_N_FN, p->tok.span), *in = dlsh_p_node(p, DLSH_N_PARAM, p->tok.span);
    dlsh_node *block = dlsh_p_node(p, DLSH_N_BLOCK, p->tok.span), *back = dlsh_p_node(p, DLSH_N_RETURN, p->tok.span);
    in->text = "in";
    dlsh_p_push(p, in);
    int inner = p->nstack;
    p->in_shape++;
    dlsh_p_push(p, dlsh_p_argument(p));
    p->in_shape--;
    dlsh_p_push(p, dlsh_p_finish(p, back, inner));
    dlsh_p_push(p, dlsh_p_finish(p, block, inner));
    return dlsh_p_finish(p, fn, base);
}

static int at_tensor(const dlsh_parser *p) {
    return (dlsh_p_word(p, "param") || dlsh_p_word(p, "buffer")) && dlsh_p_peek(p).kind == DLSH_T_NAME;
}

/* tensor := ('param' | 'buffer') NAME shape {option} */
static dlsh_node *tensor(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_name(p, DLSH_N_TENSOR);
    n->label = dlsh_p_text(p);
    if (dlsh_p_at_statement_end(p) || dlsh_p_at_option(p))
        return dlsh_p_unexpected(p, "the shape of the tensor", "param w [in, 8]; a number has the shape []");
    dlsh_p_push(p, shape(p));
    while (!dlsh_p_at_statement_end(p)) {
        if (!dlsh_p_at_option(p))
            return dlsh_p_unexpected(p, "an option or the end of the line", "param w [in, 8] init=\"normal\"");
        dlsh_p_push(p, dlsh_p_option(p, DLSH_OPT_VALUE));
    }
    return dlsh_p_finish(p, n, base);
}

static int at_function(const dlsh_parser *p) {
    dlsh_token after = dlsh_p_peek(p);
    return dlsh_p_is(p, DLSH_T_FN) || (dlsh_p_word(p, "forward") && after.kind == DLSH_T_LPAREN && after.adjacent);
}

/* function := ('forward' | 'fn' NAME) parameters block */
static dlsh_node *function(dlsh_parser *p) {
    int base = p->nstack;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_FN, p->tok.span);
    dlsh_p_accept(p, DLSH_T_FN);
    if (!dlsh_p_is(p, DLSH_T_NAME))
        return dlsh_p_unexpected(p, "the name of a method", "fn encode(x) { return relu(enc(x)) }");
    n->text = n->label = dlsh_p_text(p);
    return dlsh_p_fn_rest(p, n, base);
}

/* What stands for PyTorch's way to write a method. */
static const char *method_hint(const dlsh_parser *p) {
    return dlsh_p_word(p, "def") && dlsh_p_peek(p).kind == DLSH_T_NAME ? "a method is written fn encode(x) { ... }"
                                                                       : NULL;
}

/* chain := layer {'->' layer} */
static void chain(dlsh_parser *p) {
    for (unsigned short chained = 0;; chained = DLSH_CHAINED) {
        dlsh_node *l = layer(p);
        l->flags |= chained;
        dlsh_p_push(p, l);
        if (!dlsh_p_accept(p, DLSH_T_ARROW)) return;
        dlsh_p_skip_newlines(p);
    }
}

/* '{' chains '}', one a line or separated by `;`; all of them make one chain. */
static dlsh_node *layers(dlsh_parser *p) {
    int base = p->nstack, functions = 0;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_LAYERS, p->tok.span);
    dlsh_p_enter(p);
    dlsh_p_advance(p);
    for (;;) {
        while (dlsh_p_is(p, DLSH_T_NEWLINE) || dlsh_p_is(p, DLSH_T_SEMI)) dlsh_p_advance(p);
        if (dlsh_p_is(p, DLSH_T_RBRACE)) break;
        if (dlsh_p_is(p, DLSH_T_END)) return dlsh_p_unexpected(p, "'}' to close the layers", NULL);
        int at_fn = at_function(p);
        if (method_hint(p)) return dlsh_p_unexpected(p, "a layer or a function", method_hint(p));
        if (functions && !at_fn)
            return dlsh_p_unexpected(p, "'}' or another function",
                                     "forward and methods stand behind the layers of a net");
        functions |= at_fn;
        if (at_fn)
            dlsh_p_push(p, function(p));
        else if (at_tensor(p))
            dlsh_p_push(p, tensor(p));
        else
            chain(p);
        if (!dlsh_p_at_statement_end(p))
            return dlsh_p_unexpected(p, at_fn ? "the end of the line" : "'->' or the end of the line after a layer",
                                     NULL);
    }
    dlsh_p_advance(p);
    dlsh_p_leave(p);
    return dlsh_p_finish(p, n, base);
}

int dlsh_p_at_net(const dlsh_parser *p) {
    if (!dlsh_p_word(p, "net") || (p->head && !p->brackets)) return 0;
    dlsh_token after = dlsh_p_peek(p);
    return after.kind == DLSH_T_LBRACE || (after.kind == DLSH_T_LPAREN && !after.adjacent);
}

/* The body of a net stands in a context of its own. */
dlsh_node *dlsh_p_net(dlsh_parser *p) {
    int base = p->nstack, brackets = p->brackets, mode = p->arg_mode;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_NET, p->tok.span);
    dlsh_p_advance(p);
    if (dlsh_p_is(p, DLSH_T_NAME)) n->text = dlsh_p_text(p);
    if (dlsh_p_is(p, DLSH_T_LPAREN)) n->op = DLSH_OP_MUL, dlsh_p_params(p, base);
    if (!dlsh_p_is(p, DLSH_T_LBRACE))
        return dlsh_p_unexpected(p, "'{' after the net's name", "net m { linear 64 -> relu -> linear 10 }");
    p->brackets = p->arg_mode = 0;
    dlsh_p_push(p, layers(p));
    p->brackets = brackets, p->arg_mode = mode;
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
