/* Tokens. The parser reads them one at a time, because words of commands end by other rules than tokens of expressions.
 */
#pragma once

#include "lang/parse/ast.h"

/* Token kinds: TOK(NAME, "text as written, or as named in messages"). Punctuation first, longest first where one begins
 * another; then keywords; then the rest. */
#define DLSH_PUNCTUATION(TOK)                                                                                          \
    TOK(ELLIPSIS, "...")                                                                                               \
    TOK(ADDSET, "+=")                                                                                                  \
    TOK(SUBSET, "-=")                                                                                                  \
    TOK(MULSET, "*=")                                                                                                  \
    TOK(DIVSET, "/=")                                                                                                  \
    TOK(FLOORDIVSET, "//=")                                                                                            \
    TOK(MODSET, "%=")                                                                                                  \
    TOK(POWSET, "**=")                                                                                                 \
    TOK(POW, "**")                                                                                                     \
    TOK(FLOORDIV, "//")                                                                                                \
    TOK(EQ, "==")                                                                                                      \
    TOK(NE, "!=")                                                                                                      \
    TOK(LE, "<=")                                                                                                      \
    TOK(GE, ">=")                                                                                                      \
    TOK(SHL, "<<")                                                                                                     \
    TOK(SHR, ">>")                                                                                                     \
    TOK(AND, "&&")                                                                                                     \
    TOK(OR, "||")                                                                                                      \
    TOK(ARROW, "->")                                                                                                   \
    TOK(SET, "=")                                                                                                      \
    TOK(LT, "<")                                                                                                       \
    TOK(GT, ">")                                                                                                       \
    TOK(ADD, "+")                                                                                                      \
    TOK(SUB, "-")                                                                                                      \
    TOK(MUL, "*")                                                                                                      \
    TOK(DIV, "/")                                                                                                      \
    TOK(MOD, "%")                                                                                                      \
    TOK(MATMUL, "@")                                                                                                   \
    TOK(NOT, "!")                                                                                                      \
    TOK(BITNOT, "~")                                                                                                   \
    TOK(BITAND, "&")                                                                                                   \
    TOK(BITOR, "|")                                                                                                    \
    TOK(BITXOR, "^")                                                                                                   \
    TOK(QUESTION, "?")                                                                                                 \
    TOK(COLON, ":")                                                                                                    \
    TOK(COMMA, ",")                                                                                                    \
    TOK(DOT, ".")                                                                                                      \
    TOK(SEMI, ";")                                                                                                     \
    TOK(LPAREN, "(")                                                                                                   \
    TOK(RPAREN, ")")                                                                                                   \
    TOK(LBRACKET, "[")                                                                                                 \
    TOK(RBRACKET, "]")                                                                                                 \
    TOK(LBRACE, "{")                                                                                                   \
    TOK(RBRACE, "}")

#define DLSH_KEYWORDS(TOK)                                                                                             \
    TOK(IF, "if")                                                                                                      \
    TOK(ELSE, "else")                                                                                                  \
    TOK(WHILE, "while")                                                                                                \
    TOK(FOR, "for")                                                                                                    \
    TOK(IN, "in")                                                                                                      \
    TOK(FN, "fn")                                                                                                      \
    TOK(RETURN, "return")                                                                                              \
    TOK(BREAK, "break")                                                                                                \
    TOK(CONTINUE, "continue")                                                                                          \
    TOK(TRY, "try")                                                                                                    \
    TOK(CATCH, "catch")                                                                                                \
    TOK(TRUE, "true")                                                                                                  \
    TOK(FALSE, "false")                                                                                                \
    TOK(NONE, "none")

#define DLSH_OTHER_TOKENS(TOK)                                                                                         \
    TOK(NAME, "a name")                                                                                                \
    TOK(INT, "a number")                                                                                               \
    TOK(FLOAT, "a number")                                                                                             \
    TOK(IMAG, "a number")                                                                                              \
    TOK(STR, "a string")                                                                                               \
    TOK(NEWLINE, "the end of the line")                                                                                \
    TOK(END, "the end of the input")                                                                                   \
    TOK(BAD, "an error")

/* Said of an integer above 2^63 by the lexer, of 2^63 without a minus before it by the parser. */
#define DLSH_TOO_LARGE "this integer does not fit in 64 bits"
#define DLSH_TOO_LARGE_HINT "write it as a float: 1e20"

typedef enum dlsh_tok {
#define TOK(id, text) DLSH_T_##id,
    DLSH_PUNCTUATION(TOK) DLSH_KEYWORDS(TOK) DLSH_OTHER_TOKENS(TOK)
#undef TOK
        DLSH_NTOKS
} dlsh_tok;

static inline int dlsh_is_keyword(dlsh_tok kind) { return kind >= DLSH_T_IF && kind <= DLSH_T_NONE; }

typedef struct dlsh_token {
    dlsh_tok kind;
    int adjacent; /* no white space between it and the token before */
    dlsh_span span;
    const char *text; /* STR: contents with escapes resolved; of the unit */
    int len;
    int quoted; /* STR as a word of a command: it was written in quotes */
    union {
        long i;
        double f;
    } num;
    const char *message, *hint; /* BAD */
    int open;                   /* BAD: more text may complete it */
} dlsh_token;

/* The reading position; the parser goes back to a copy of it. */
typedef struct dlsh_lexer {
    dlsh_unit *unit;
    int pos, line, line_start;
    int prev_end;        /* where the token before ended; -1 at the start */
    int prev_is_operand; /* a `.` with a digit after it then is a field, not a number */
} dlsh_lexer;

void dlsh_lexer_init(dlsh_lexer *lx, dlsh_unit *unit);
/* The next token. Newlines are tokens; the parser drops them inside brackets. */
dlsh_token dlsh_lex(dlsh_lexer *lx);
/* Goes back to the start of a token read before. */
void dlsh_lex_back(dlsh_lexer *lx, const dlsh_token *to);
/* Reads a command's word: a STR up to white space, `;` or a bracket, or a quoted string. NEWLINE, SEMI, END, or the
 * bracket itself when no word stands here. */
dlsh_token dlsh_lex_word(dlsh_lexer *lx);
/* Reads C text after the current position up to the brace that closes it (C's comments and strings skipped over), or,
 * with to_semicolon, up to `;` or a newline outside parentheses. The closing character is consumed, not included. STR
 * or BAD (an END inside counts as the end of the input). */
dlsh_token dlsh_lex_c(dlsh_lexer *lx, int to_semicolon);
/* Where byte `at` of `text` is written in the string whose quote stands at byte `open` of the source; -1 when that
 * string is another text. */
int dlsh_string_byte(const dlsh_unit *unit, int open, const char *text, int at);
const char *dlsh_tok_text(dlsh_tok kind);

/* Could the text be written as a name, or a keyword? */
int dlsh_is_name(const char *s);
