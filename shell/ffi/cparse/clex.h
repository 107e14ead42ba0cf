/* Tokens of C text. */
#pragma once

#include <stddef.h>

typedef enum dlsh_ctok_kind {
    DLSH_CT_END,
    DLSH_CT_IDENT,
    DLSH_CT_NUMBER,
    DLSH_CT_CHAR,      /* with its quotes */
    DLSH_CT_STRING,    /* with its quotes */
    DLSH_CT_PUNCT,     /* op: the character, or DLSH_CP_... */
    DLSH_CT_DIRECTIVE, /* a line beginning with #, without the # */
    DLSH_CT_BAD,
} dlsh_ctok_kind;

enum {
    DLSH_CP_ELLIPSIS = 256,
    DLSH_CP_SHL,
    DLSH_CP_SHR,
    DLSH_CP_EQ,
    DLSH_CP_NE,
    DLSH_CP_LE,
    DLSH_CP_GE,
    DLSH_CP_AND,
    DLSH_CP_OR
};

typedef struct dlsh_ctok {
    dlsh_ctok_kind kind;
    int op;
    const char *text;
    size_t len;
    int line, col, offset;
} dlsh_ctok;

typedef struct dlsh_clexer {
    const char *begin, *at, *end, *line_start;
    int line;
} dlsh_clexer;

void dlsh_clex_begin(dlsh_clexer *lx, const char *text, size_t len);
/* Comments are skipped; an unterminated comment, string or a stray character is BAD. */
dlsh_ctok dlsh_clex_next(dlsh_clexer *lx);
/* Is the token this word, one of these (up to a NULL), this operator? */
int dlsh_clex_is(const dlsh_ctok *t, const char *word);
int dlsh_clex_among(const dlsh_ctok *t, const char *const *words);
static inline int dlsh_clex_is_op(const dlsh_ctok *t, int op) { return t->kind == DLSH_CT_PUNCT && t->op == op; }
/* The number of a NUMBER or CHAR token: 1 integer in *i, 2 floating in *f, 0 neither. */
int dlsh_clex_number(const dlsh_ctok *t, long *i, double *f);
/* The characters of a STRING or CHAR token with escapes resolved, into dst of at least t->len bytes; their number. */
size_t dlsh_clex_string(const dlsh_ctok *t, char *dst);
