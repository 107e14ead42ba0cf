/* The scanner of the filter language. */
#include "track/filter/filter_lex.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Longer ones first. */
static const struct {
    const char *text;
    dl_filter_token_kind kind;
    dl_filter_how how;
    const char *sql;
    int negated;
} symbols[] = {
    {"!~~", DL_FT_COMPARE, DL_FH_PATTERN, "", 1}, {"~~", DL_FT_COMPARE, DL_FH_PATTERN, "", 0},
    {"!~", DL_FT_COMPARE, DL_FH_PART, "", 1},     {"~", DL_FT_COMPARE, DL_FH_PART, "", 0},
    {"==", DL_FT_COMPARE, DL_FH_EQUAL, "=", 0},   {"!=", DL_FT_COMPARE, DL_FH_EQUAL, "!=", 1},
    {"<>", DL_FT_COMPARE, DL_FH_EQUAL, "!=", 1},  {"<=", DL_FT_COMPARE, DL_FH_ORDER, "<=", 0},
    {">=", DL_FT_COMPARE, DL_FH_ORDER, ">=", 0},  {"<", DL_FT_COMPARE, DL_FH_ORDER, "<", 0},
    {">", DL_FT_COMPARE, DL_FH_ORDER, ">", 0},    {"=", DL_FT_COMPARE, DL_FH_EQUAL, "=", 0},
    {"&&", DL_FT_AND, DL_FH_EQUAL, "", 0},        {"||", DL_FT_OR, DL_FH_EQUAL, "", 0},
    {"!", DL_FT_NOT, DL_FH_EQUAL, "", 0},         {"(", DL_FT_OPEN, DL_FH_EQUAL, "", 0},
    {")", DL_FT_CLOSE, DL_FH_EQUAL, "", 0},       {",", DL_FT_COMMA, DL_FH_EQUAL, "", 0},
};

static const struct {
    const char *text;
    dl_filter_token_kind kind;
    dl_filter_how how;
    const char *sql;
} keywords[] = {
    {"and", DL_FT_AND, DL_FH_EQUAL, ""},     {"or", DL_FT_OR, DL_FH_EQUAL, ""},
    {"not", DL_FT_NOT, DL_FH_EQUAL, ""},     {"in", DL_FT_COMPARE, DL_FH_IN, ""},
    {"like", DL_FT_COMPARE, DL_FH_LIKE, ""}, {"is", DL_FT_COMPARE, DL_FH_EQUAL, "="},
};

/* Bytes of UTF-8 belong to words. */
static int is_word(char c) {
    return isalnum((unsigned char)c) || (unsigned char)c >= 128 || (c && strchr("_./-+:@%*", c));
}

static void read_string(const char *text, dl_filter_token *t) {
    int n = 0;
    const char *p = text + t->at, quote = *p++;
    for (; *p && *p != quote && n < DL_RING_KEY_MAX; p++) t->text[n++] = *p;
    t->text[n] = 0;
    t->kind = *p == quote ? DL_FT_STRING : DL_FT_BAD;
    t->why = *p ? "the text in quotes is too long" : "a closing quote is missing";
    t->n = (int)(p - text) - t->at + (*p == quote);
}

static void read_word(const char *text, dl_filter_token *t) {
    for (t->n = 0; is_word(text[t->at + t->n]) && t->n < DL_RING_KEY_MAX; t->n++) t->text[t->n] = text[t->at + t->n];
    t->text[t->n] = 0;
    t->kind = DL_FT_WORD;
    for (unsigned i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (!strcasecmp(keywords[i].text, t->text))
            t->kind = keywords[i].kind, t->how = keywords[i].how, t->sql = keywords[i].sql;
}

void dl_filter_next(const char *text, int *at, dl_filter_token *t) {
    while (isspace((unsigned char)text[*at])) (*at)++;
    t->at = *at;
    t->n = 1;
    t->negated = 0;
    t->why = NULL;
    t->text[0] = 0;
    const char *p = text + *at;
    t->kind = *p ? DL_FT_BAD : DL_FT_END;
    for (unsigned i = 0; t->kind == DL_FT_BAD && i < sizeof symbols / sizeof *symbols; i++)
        if (!strncmp(p, symbols[i].text, strlen(symbols[i].text))) {
            t->kind = symbols[i].kind, t->how = symbols[i].how;
            t->sql = symbols[i].sql, t->negated = symbols[i].negated;
            t->n = (int)strlen(symbols[i].text);
            strcpy(t->text, symbols[i].text);
        }
    if (t->kind == DL_FT_BAD && (*p == '"' || *p == '\''))
        read_string(text, t);
    else if (t->kind == DL_FT_BAD && is_word(*p))
        read_word(text, t);
    *at += *p ? t->n : 0;
}
