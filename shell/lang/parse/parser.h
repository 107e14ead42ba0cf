/* Inside the parser: its state and the functions its files share. An error leaves the parser at once, by longjmp to
 * dlsh_parse: nodes live in the unit's arena, so that nothing is to be released on the way. */
#pragma once

#include <setjmp.h>

#include "lang/parse/lexer.h"
#include "lang/parse/parse.h"

typedef struct dlsh_parser {
    dlsh_unit *unit;
    dlsh_lexer lexer;
    dlsh_token tok;                   /* the next one */
    dlsh_span last;                   /* span of the one before */
    int brackets;                     /* open ( and [ in this block: newlines are dropped inside */
    int depth;                        /* of recursion */
    int loops, fns;                   /* what encloses the statement */
    const struct dlsh_command *words; /* commands of the block alone: a debugger's; NULL: none */
    int in_shape;                     /* `in` is a number: the last size of a net's input */
    int head;                         /* in the head of if, while or for, whose { begins the block */
    int arg_mode;                     /* a ( [ . continues an operand only when it touches */
    dlsh_command_lookup *find;
    void *ctx;
    dlsh_syntax_error *err;
    jmp_buf *on_error;
    dlsh_node **stack; /* kids of the nodes that are not finished */
    int nstack, capstack;
} dlsh_parser;

enum { DLSH_MAX_NESTING = 200 };

/* tokens */
void dlsh_p_advance(dlsh_parser *p);
/* The token after the next. */
dlsh_token dlsh_p_peek(const dlsh_parser *p);
static inline int dlsh_p_is(const dlsh_parser *p, dlsh_tok kind) { return p->tok.kind == kind; }
int dlsh_p_accept(dlsh_parser *p, dlsh_tok kind);
/* Consumes the token or fails: "expected X <where>, got Y". */
void dlsh_p_expect(dlsh_parser *p, dlsh_tok kind, const char *where);
void dlsh_p_skip_newlines(dlsh_parser *p);
/* Opens and closes ( and [, inside which newlines do not count; the closing one is checked. */
void dlsh_p_open(dlsh_parser *p);
void dlsh_p_close(dlsh_parser *p, dlsh_tok kind, const char *where);
/* Is this the name token `word`? */
int dlsh_p_word(const dlsh_parser *p, const char *word);

/* errors: they do not return; the result is for `return dlsh_p_fail(...)` */
void *dlsh_p_fail(dlsh_parser *p, dlsh_span at, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), noreturn));
/* The next token is not what may stand here. */
void *dlsh_p_unexpected(dlsh_parser *p, const char *wanted, const char *hint) __attribute__((noreturn));
void dlsh_p_enter(dlsh_parser *p); /* one level of nesting more; fails beyond DLSH_MAX_NESTING */
void dlsh_p_leave(dlsh_parser *p);

/* nodes */
dlsh_node *dlsh_p_node(dlsh_parser *p, dlsh_kind kind, dlsh_span start);
const char *dlsh_p_text(dlsh_parser *p);                /* consumes a token; a copy of its text, of the unit */
dlsh_node *dlsh_p_name(dlsh_parser *p, dlsh_kind kind); /* the same as the text of a new node */
void dlsh_p_push(dlsh_parser *p, dlsh_node *kid);
/* Moves the kids above `base`, an earlier p->nstack, into the node and ends its span at the last token. */
dlsh_node *dlsh_p_finish(dlsh_parser *p, dlsh_node *node, int base);

/* grammar */
dlsh_node *dlsh_p_expr(dlsh_parser *p);
dlsh_node *dlsh_p_inner(dlsh_parser *p);  /* a full expression, also in argument mode: within brackets */
dlsh_node *dlsh_p_record(dlsh_parser *p); /* a record literal, the next token being its '{' */
/* `for` is the next token: the list of a value for each item, or the record of a field (KWARG) for each. */
dlsh_node *dlsh_p_comprehension(dlsh_parser *p, dlsh_node *value);
dlsh_node *dlsh_p_record_comprehension(dlsh_parser *p, dlsh_node *field);
void dlsh_p_for_names(dlsh_parser *p);        /* the names of a for and `in`; the names are pushed */
int dlsh_p_at_record(const dlsh_parser *p);   /* does a record literal begin here, rather than a block? */
dlsh_node *dlsh_p_argument(dlsh_parser *p);   /* *expr*: postfix with an optional - or !, in argument mode */
void dlsh_p_params(dlsh_parser *p, int base); /* ( PARAM, ... ), pushed */
dlsh_node *dlsh_p_fn(dlsh_parser *p, int statement);
dlsh_node *dlsh_p_block(dlsh_parser *p, const char *after);
dlsh_node *dlsh_p_statement(dlsh_parser *p);
dlsh_node *dlsh_p_expr_list(dlsh_parser *p); /* one expression, or a TUPLE */
dlsh_node *dlsh_p_command(dlsh_parser *p, const dlsh_command *cmd);
dlsh_node *dlsh_p_net(dlsh_parser *p);
/* Does `net` begin a net as a value here? Before a `{`, or a `(` that does not touch it. */
int dlsh_p_at_net(const dlsh_parser *p);
/* Parameters and body of the function n, whose kids begin at `base`. */
dlsh_node *dlsh_p_fn_rest(dlsh_parser *p, dlsh_node *n, int base);
dlsh_node *dlsh_p_extern(dlsh_parser *p);
dlsh_node *dlsh_p_cblock(dlsh_parser *p);
/* name=value without a space, when one stands here; *out NULL when not. kind decides how the value is read. */
int dlsh_p_at_option(const dlsh_parser *p);
dlsh_node *dlsh_p_option(dlsh_parser *p, dlsh_optkind kind);
/* Does the statement end here? */
int dlsh_p_at_statement_end(const dlsh_parser *p);

/* Habits of other languages: what to write instead of a word, or of a word used as an operator; NULL. */
const char *dlsh_p_word_hint(const char *word);
const char *dlsh_p_operator_hint(const dlsh_token *t);
/* The same for a sign that is none here, in pieces around the byte `at` of a text: `:=`, `x++`; NULL. */
const char *dlsh_p_sign_hint(const char *text, size_t len, size_t at);
/* The same for a sign that stands where an expression should begin. */
const char *dlsh_p_prefix_hint(const char *text, const dlsh_token *t);
/* A sign between two operands. */
int dlsh_p_is_operator(dlsh_tok k);
