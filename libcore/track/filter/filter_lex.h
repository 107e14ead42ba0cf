/* Tokens of the filter language. */
#pragma once

#include "track/ring.h"

typedef enum dl_filter_token_kind {
    DL_FT_END,
    DL_FT_WORD,   /* a name, number or date without quotes */
    DL_FT_STRING, /* in quotes */
    DL_FT_COMPARE,
    DL_FT_OPEN,
    DL_FT_CLOSE,
    DL_FT_COMMA,
    DL_FT_AND,
    DL_FT_OR,
    DL_FT_NOT,
    DL_FT_BAD, /* no token: an unclosed quote, a character without meaning */
} dl_filter_token_kind;

/* How an operator compares. */
typedef enum dl_filter_how { DL_FH_ORDER, DL_FH_EQUAL, DL_FH_PART, DL_FH_LIKE, DL_FH_PATTERN, DL_FH_IN } dl_filter_how;

typedef struct dl_filter_token {
    dl_filter_token_kind kind;
    dl_filter_how how; /* of DL_FT_COMPARE, and its SQL; `negated` asks for the opposite */
    const char *sql;
    int negated;
    int at, n;       /* bytes in the text */
    const char *why; /* of DL_FT_BAD: what is wrong; NULL: not known here */
    char text[DL_RING_KEY_MAX + 1];
} dl_filter_token;

/* Reads the token at `*at`, and moves `*at` past it. */
void dl_filter_next(const char *text, int *at, dl_filter_token *t);
