/* Command statements, parsed as their entry in the command table says. */
#include <stdio.h>
#include <string.h>

#include "lang/parse/parser.h"
#include "lang/session.h"

/* ---------------------------------------------------------------- the row */

const dlsh_param *dlsh_command_param(const dlsh_command *c, int n) {
    if (!c->params) return NULL;
    for (int i = 0; c->params[i].name; i++)
        if (i == n || c->params[i].flags & DLSH_VARIADIC) return &c->params[i];
    return NULL;
}

const dlsh_option *dlsh_command_option(const dlsh_command *c, const char *name, size_t len) {
    for (const dlsh_option *o = c->options; o && o->name; o++)
        if (strlen(o->name) == len && !memcmp(o->name, name, len)) return o;
    return NULL;
}

const char *dlsh_command_nearest(const dlsh_command *c, const char *name) {
    const char *names[64];
    int n = 0;
    for (const dlsh_option *o = c->options; o && o->name && n < 64; o++) names[n++] = o->name;
    for (const dlsh_param *q = c->params; q && q->name && n < 64; q++) names[n++] = q->name;
    return dlsh_nearest(name, names, n);
}

/* ---------------------------------------------------------------- options and words */

int dlsh_p_at_option(const dlsh_parser *p) {
    if (!dlsh_p_is(p, DLSH_T_NAME)) return 0;
    dlsh_token eq = dlsh_p_peek(p);
    return eq.kind == DLSH_T_SET && eq.adjacent;
}

static dlsh_node *word_value(dlsh_parser *p, const char *what) {
    dlsh_lex_back(&p->lexer, &p->tok);
    dlsh_token t = dlsh_lex_word(&p->lexer);
    p->tok = t;
    if (t.kind == DLSH_T_LPAREN) return dlsh_p_argument(p);
    if (t.kind != DLSH_T_STR) return dlsh_p_unexpected(p, what, NULL);
    if (!t.quoted && t.text[0] == 'f' && (t.text[1] == '"' || t.text[1] == '\''))
        return dlsh_p_fail(p, t.span, "an expression in parentheses may stand for a word: (format(\"%d.png\", i))",
                           "there are no f-strings");
    dlsh_node *n = dlsh_p_node(p, DLSH_N_STR, t.span);
    n->text = t.text;
    n->num.i = t.len;
    if (!t.quoted) n->flags |= DLSH_WORD;
    dlsh_p_advance(p);
    return n;
}

dlsh_node *dlsh_p_option(dlsh_parser *p, dlsh_optkind kind) {
    int base = p->nstack;
    dlsh_node *o = dlsh_p_name(p, DLSH_N_OPTION);
    dlsh_p_advance(p); /* = */
    if (!p->tok.adjacent || dlsh_p_at_statement_end(p))
        return dlsh_p_unexpected(p, "a value right after '='", "options are written name=value, without spaces");
    int word = kind == DLSH_OPT_WORD && !dlsh_p_is(p, DLSH_T_LBRACKET);
    dlsh_p_push(p, dlsh_p_is(p, DLSH_T_LBRACE) ? dlsh_p_record(p)
                   : word                      ? word_value(p, "a word")
                                               : dlsh_p_argument(p));
    return dlsh_p_finish(p, o, base);
}

static dlsh_node *unknown_option(dlsh_parser *p, const dlsh_command *cmd) {
    char name[64], hint[160] = "";
    snprintf(name, sizeof name, "%.*s", p->tok.len, p->tok.text);
    const char *nearest = dlsh_command_nearest(cmd, name);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s=?", nearest);
    else if (!cmd->options || !cmd->options->name)
        snprintf(hint, sizeof hint, "%s takes no options: %s", cmd->name, cmd->usage ? cmd->usage : cmd->name);
    else
        snprintf(hint, sizeof hint, "help %s lists the options", cmd->name);
    return dlsh_p_fail(p, p->tok.span, hint, "%s has no option '%s'", cmd->name, name);
}

/* name=value, or the bare name of a boolean option; NULL without an error when neither stands here. */
static dlsh_node *option_here(dlsh_parser *p, const dlsh_command *cmd) {
    if (!dlsh_p_is(p, DLSH_T_NAME)) return NULL;
    const dlsh_option *o = dlsh_command_option(cmd, p->tok.text, (size_t)p->tok.len);
    if (dlsh_p_at_option(p)) {
        if (!o && !(cmd->flags & DLSH_OPEN_OPTIONS)) return unknown_option(p, cmd);
        return dlsh_p_option(p, o ? o->kind : DLSH_OPT_VALUE);
    }
    dlsh_token after = dlsh_p_peek(p);
    int alone = !after.adjacent || after.kind == DLSH_T_NEWLINE || after.kind == DLSH_T_SEMI ||
                after.kind == DLSH_T_END || after.kind == DLSH_T_RBRACE;
    if (o && alone && after.kind == DLSH_T_SET)
        return dlsh_p_fail(p, after.span, "options are written name=value, without spaces",
                           "a space before '=' in an option");
    return o && o->kind == DLSH_OPT_BOOL && alone ? dlsh_p_name(p, DLSH_N_OPTION) : NULL;
}

/* ---------------------------------------------------------------- arguments */

static dlsh_node *subcommand(dlsh_parser *p, const dlsh_command *cmd) {
    const char *names[64];
    int n = 0;
    char word[64], hint[200] = "";
    dlsh_lex_back(&p->lexer, &p->tok);
    dlsh_token t = dlsh_lex_word(&p->lexer);
    p->tok = t;
    if (t.kind == DLSH_T_STR) {
        for (const dlsh_command *s = cmd->subs; s && s->name && n < 64; s++) {
            if ((int)strlen(s->name) == t.len && !memcmp(s->name, t.text, (size_t)t.len)) return dlsh_p_command(p, s);
            names[n++] = s->name;
        }
        snprintf(word, sizeof word, "%.*s", t.len, t.text);
        const char *nearest = dlsh_nearest(word, names, n);
        if (nearest) snprintf(hint, sizeof hint, "did you mean %s %s?", cmd->name, nearest);
        for (int i = 0; !nearest && i < n; i++) {
            size_t used = strlen(hint);
            snprintf(hint + used, sizeof hint - used, "%s%s", i ? ", " : "one of: ", names[i]);
        }
        return dlsh_p_fail(p, t.span, hint, "%s has no subcommand '%s'", cmd->name, word);
    }
    return dlsh_p_unexpected(p, "a subcommand", cmd->usage);
}

/* A block in which the row's own commands are known, too. */
static dlsh_node *block_of(dlsh_parser *p, const dlsh_command *cmd, const char *after) {
    const dlsh_command *words = p->words;
    int loops = p->loops;
    if (cmd->subs) p->words = cmd->subs, p->loops = 0;
    dlsh_node *n = dlsh_p_block(p, after);
    p->words = words;
    p->loops = loops;
    return n;
}

/* The parameter that the argument here is for: before a block, missing optional ones are passed over. */
static const dlsh_param *param_here(dlsh_parser *p, const dlsh_command *cmd, int *nargs) {
    const dlsh_param *param = dlsh_command_param(cmd, *nargs), *block = param;
    if (!dlsh_p_is(p, DLSH_T_LBRACE) || !param || !(param->flags & DLSH_OPTIONAL)) return param;
    while (block->name && block->kind != DLSH_ARG_BLOCK) block++;
    if (!block->name) return param;
    *nargs = (int)(block - cmd->params);
    return block;
}

/* What is written, unparsed, up to the end of the statement or to an option. */
static dlsh_node *text_value(dlsh_parser *p, const dlsh_command *cmd) {
    dlsh_node *n = dlsh_p_node(p, DLSH_N_STR, p->tok.span);
    int start = p->tok.span.start, open = 0, length;
    do {
        dlsh_tok k = p->tok.kind;
        open += (k == DLSH_T_LPAREN || k == DLSH_T_LBRACKET || k == DLSH_T_LBRACE) -
                (k == DLSH_T_RPAREN || k == DLSH_T_RBRACKET || (k == DLSH_T_RBRACE && open));
        dlsh_p_advance(p);
    } while (!(open <= 0 && dlsh_p_at_statement_end(p)) && !dlsh_p_is(p, DLSH_T_END) &&
             !(dlsh_p_at_option(p) && dlsh_command_option(cmd, p->tok.text, (size_t)p->tok.len)));
    length = p->last.end - start;
    n->text = dlsh_unit_text(p->unit, p->unit->text + start, (size_t)length);
    n->num.i = length;
    n->span.end = start + length;
    return n;
}

static dlsh_node *read_argument(dlsh_parser *p, const dlsh_command *cmd, const dlsh_param *param) {
    char wanted[96], after[80];
    snprintf(wanted, sizeof wanted, "%s of %s", param->name, cmd->name);
    snprintf(after, sizeof after, "%s", cmd->name);
    switch (param->kind) {
    case DLSH_ARG_SYNTAX:
    case DLSH_ARG_EXPR: return dlsh_p_argument(p);
    case DLSH_ARG_REST: return dlsh_p_inner(p);
    case DLSH_ARG_WORD: return word_value(p, wanted);
    case DLSH_ARG_STATEMENT: return dlsh_p_statement(p);
    case DLSH_ARG_TEXT: return text_value(p, cmd);
    case DLSH_ARG_BLOCK: return block_of(p, cmd, after);
    case DLSH_ARG_SUBCOMMAND: break;
    }
    return subcommand(p, cmd);
}

/* Of a command's word with nothing after it, or an operator: it may be meant as a variable. */
#define MEANT_AS_VARIABLE "%s begins a command; a variable of that name stands in parentheses: (%s)"

static dlsh_node *missing(dlsh_parser *p, const dlsh_command *cmd, const dlsh_param *param, int bare) {
    char wanted[128], hint[240];
    snprintf(wanted, sizeof wanted, "%s after %s", param->name, cmd->name);
    int used = snprintf(hint, sizeof hint, "usage: %s", cmd->usage ? cmd->usage : cmd->name);
    if (bare && used < (int)sizeof hint)
        snprintf(hint + used, sizeof hint - (size_t)used, "; " MEANT_AS_VARIABLE, cmd->name, cmd->name);
    return dlsh_p_unexpected(p, wanted, hint);
}

int dlsh_p_is_operator(dlsh_tok k) {
    return k == DLSH_T_POW || k == DLSH_T_FLOORDIV || (k >= DLSH_T_EQ && k <= DLSH_T_OR) ||
           (k >= DLSH_T_LT && k <= DLSH_T_MATMUL) || (k >= DLSH_T_BITAND && k <= DLSH_T_QUESTION);
}

static dlsh_node *too_many(dlsh_parser *p, const dlsh_command *cmd, int bare) {
    char wanted[96], hint[200];
    snprintf(wanted, sizeof wanted, "the end of the %s statement", cmd->name);
    if (bare && dlsh_p_is_operator(p->tok.kind))
        snprintf(hint, sizeof hint, MEANT_AS_VARIABLE, cmd->name, cmd->name);
    else if (dlsh_p_is_operator(p->tok.kind) && cmd->params && cmd->params->kind == DLSH_ARG_EXPR)
        snprintf(hint, sizeof hint, "an argument with operators stands in parentheses: %s (x * 2)", cmd->name);
    else
        snprintf(hint, sizeof hint, "usage: %s", cmd->usage ? cmd->usage : cmd->name);
    return dlsh_p_unexpected(p, wanted, hint);
}

/* The word that names the command is the next token. */
dlsh_node *dlsh_p_command(dlsh_parser *p, const dlsh_command *cmd) {
    int base = p->nstack, nargs = 0;
    dlsh_node *n = dlsh_p_node(p, DLSH_N_COMMAND, p->tok.span);
    n->num.cmd = cmd;
    dlsh_p_advance(p);
    for (;;) {
        const dlsh_param *param = param_here(p, cmd, &nargs);
        int unread = param && (param->kind == DLSH_ARG_STATEMENT || param->kind == DLSH_ARG_REST);
        dlsh_node *o = unread && !dlsh_p_at_option(p) ? NULL : option_here(p, cmd);
        if (o) {
            dlsh_p_push(p, o);
            continue;
        }
        if (dlsh_p_at_statement_end(p)) {
            if (param && !(param->flags & (DLSH_OPTIONAL | DLSH_VARIADIC)))
                return missing(p, cmd, param, p->nstack == base);
            break;
        }
        dlsh_tok k = p->tok.kind;
        int begins = k == DLSH_T_SUB || k == DLSH_T_NOT || !dlsh_p_is_operator(k); /* what an argument may begin with */
        if (!param || (param->kind == DLSH_ARG_EXPR && !begins)) return too_many(p, cmd, p->nstack == base);
        if (nargs == DLSH_MAX_ARGS)
            return dlsh_p_fail(p, p->tok.span, "give it a list", "%s with more than %d arguments", cmd->name,
                               DLSH_MAX_ARGS);
        if (param->kind == DLSH_ARG_SUBCOMMAND) {
            dlsh_p_push(p, subcommand(p, cmd));
            break;
        }
        dlsh_node *arg = dlsh_p_node(p, DLSH_N_ARG, p->tok.span);
        int at = p->nstack;
        arg->num.i = param - cmd->params;
        dlsh_p_push(p, read_argument(p, cmd, param));
        dlsh_p_push(p, dlsh_p_finish(p, arg, at));
        nargs++;
        if (param->kind == DLSH_ARG_REST && dlsh_command_param(cmd, nargs) && dlsh_p_accept(p, DLSH_T_COMMA)) continue;
        if (param->kind == DLSH_ARG_REST || param->kind == DLSH_ARG_STATEMENT || param->kind == DLSH_ARG_BLOCK) break;
    }
    return dlsh_p_finish(p, n, base);
}
