/* The lexer of C text. */
#include "ffi/cparse/clex.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void dlsh_clex_begin(dlsh_clexer *lx, const char *text, size_t len) {
    *lx = (dlsh_clexer){text, text, text + len, text, 1};
}

static void newline(dlsh_clexer *lx) {
    lx->line++;
    lx->line_start = lx->at;
}

/* Skips white space, continued lines and comments; 0: a comment does not end. */
static int skip_space(dlsh_clexer *lx) {
    while (lx->at < lx->end) {
        char c = *lx->at, d = lx->at + 1 < lx->end ? lx->at[1] : 0;
        if (c == '\n') {
            lx->at++;
            newline(lx);
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || (c == '\\' && d == '\n')) {
            lx->at++;
        } else if (c == '/' && d == '/') {
            while (lx->at < lx->end && *lx->at != '\n') lx->at++;
        } else if (c == '/' && d == '*') {
            dlsh_clexer start = *lx;
            for (lx->at += 2; lx->at + 1 < lx->end && (lx->at[0] != '*' || lx->at[1] != '/');)
                if (*lx->at++ == '\n') newline(lx);
            if (lx->at + 1 >= lx->end) {
                *lx = start;
                return 0;
            }
            lx->at += 2;
        } else {
            break;
        }
    }
    return 1;
}

static int first_on_line(const dlsh_clexer *lx) {
    for (const char *s = lx->line_start; s < lx->at; s++)
        if (*s != ' ' && *s != '\t') return 0;
    return 1;
}

/* Reads the rest of the line, including continued lines. */
static void lex_directive(dlsh_clexer *lx, dlsh_ctok *t) {
    t->kind = DLSH_CT_DIRECTIVE;
    t->text = ++lx->at;
    for (; lx->at < lx->end && *lx->at != '\n'; lx->at++)
        if (*lx->at == '\\' && lx->at + 1 < lx->end && lx->at[1] == '\n') {
            lx->at++;
            lx->line++;
            lx->line_start = lx->at + 1;
        }
    t->len = (size_t)(lx->at - t->text);
}

static void lex_quoted(dlsh_clexer *lx, dlsh_ctok *t) {
    char quote = *lx->at++;
    while (lx->at < lx->end && *lx->at != quote && *lx->at != '\n')
        lx->at += *lx->at == '\\' && lx->at + 1 < lx->end ? 2 : 1;
    if (lx->at > lx->end) lx->at = lx->end;
    t->kind = quote == '"' ? DLSH_CT_STRING : DLSH_CT_CHAR;
    if (lx->at >= lx->end || *lx->at != quote)
        t->kind = DLSH_CT_BAD;
    else
        lx->at++;
}

static void lex_number(dlsh_clexer *lx, dlsh_ctok *t) {
    t->kind = DLSH_CT_NUMBER;
    for (lx->at++; lx->at < lx->end; lx->at++) {
        char c = *lx->at, before = lx->at[-1];
        int sign = (c == '+' || c == '-') && strchr("eEpP", before) &&
                   !(t->text[0] == '0' && (t->text[1] | 32) == 'x' && (before | 32) == 'e');
        if (!isalnum((unsigned char)c) && c != '.' && c != '_' && !sign) break;
    }
}

static void lex_punct(dlsh_clexer *lx, dlsh_ctok *t) {
    static const struct {
        char s[4];
        int op;
    } longer[] = {{"...", DLSH_CP_ELLIPSIS}, {"<<", DLSH_CP_SHL}, {">>", DLSH_CP_SHR},
                  {"==", DLSH_CP_EQ},        {"!=", DLSH_CP_NE},  {"<=", DLSH_CP_LE},
                  {">=", DLSH_CP_GE},        {"&&", DLSH_CP_AND}, {"||", DLSH_CP_OR}};
    t->kind = DLSH_CT_PUNCT;
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        size_t n = strlen(longer[i].s);
        if ((size_t)(lx->end - lx->at) >= n && !memcmp(lx->at, longer[i].s, n)) {
            t->op = longer[i].op;
            lx->at += n;
            return;
        }
    }
    t->op = (unsigned char)*lx->at++;
    if (!strchr("()[]{};,*:=&|^~!<>+-/%?.#", t->op)) t->kind = DLSH_CT_BAD;
}

dlsh_ctok dlsh_clex_next(dlsh_clexer *lx) {
    int whole = skip_space(lx);
    dlsh_ctok t = {.text = lx->at,
                   .line = lx->line,
                   .col = (int)(lx->at - lx->line_start) + 1,
                   .offset = (int)(lx->at - lx->begin)};
    if (lx->at >= lx->end) return t;
    unsigned char c = (unsigned char)*lx->at;
    if (!whole) {
        t.kind = DLSH_CT_BAD;
        t.len = 2;
        lx->at = lx->end;
        return t;
    }
    if (c == '#' && first_on_line(lx)) {
        lex_directive(lx, &t);
        return t;
    }
    if (isalpha(c) || c == '_' || c == '$') {
        t.kind = DLSH_CT_IDENT;
        while (lx->at < lx->end && (isalnum((unsigned char)*lx->at) || *lx->at == '_' || *lx->at == '$')) lx->at++;
        if (lx->at < lx->end && *lx->at == '\'' && lx->at - t.text == 1 && strchr("LuU", c)) lex_quoted(lx, &t);
    } else if (isdigit(c) || (c == '.' && lx->at + 1 < lx->end && isdigit((unsigned char)lx->at[1])))
        lex_number(lx, &t);
    else if (c == '"' || c == '\'')
        lex_quoted(lx, &t);
    else
        lex_punct(lx, &t);
    t.len = (size_t)(lx->at - t.text);
    return t;
}

int dlsh_clex_is(const dlsh_ctok *t, const char *word) {
    return t->kind == DLSH_CT_IDENT && !strncmp(t->text, word, t->len) && !word[t->len];
}

int dlsh_clex_among(const dlsh_ctok *t, const char *const *words) {
    while (*words && !dlsh_clex_is(t, *words)) words++;
    return *words != NULL;
}

size_t dlsh_clex_string(const dlsh_ctok *t, char *dst) {
    static const char from[] = "ntrabfv0", to[] = "\n\t\r\a\b\f\v\0";
    const char *s = t->text, *end = t->text + t->len - 1;
    size_t n = 0;
    while (*s != '"' && *s != '\'') s++;
    for (s++; s < end; s++) {
        if (*s != '\\' || s + 1 >= end) {
            dst[n++] = *s;
            continue;
        }
        s++;
        const char *known = strchr(from, *s);
        if (*s == 'x' || (*s >= '0' && *s <= '7')) {
            int base = *s == 'x' ? 16 : 8, v = 0;
            for (s += base == 16; s < end; s++) {
                int d = isdigit((unsigned char)*s) ? *s - '0' : isxdigit((unsigned char)*s) ? (*s | 32) - 'a' + 10 : 99;
                if (d >= base) break;
                v = (v * base + d) & 255;
            }
            dst[n++] = (char)v;
            s--;
        } else {
            dst[n++] = known ? to[known - from] : *s;
        }
    }
    return n;
}

int dlsh_clex_number(const dlsh_ctok *t, long *i, double *f) {
    char text[64], *end;
    if (t->kind == DLSH_CT_CHAR) {
        if (t->len >= sizeof text || dlsh_clex_string(t, text) < 1) return 0;
        *i = text[0];
        return 1;
    }
    if (t->kind != DLSH_CT_NUMBER || t->len >= sizeof text) return 0;
    memcpy(text, t->text, t->len);
    text[t->len] = 0;
    int hex = text[0] == '0' && (text[1] | 32) == 'x';
    if (strpbrk(text, hex ? ".pP" : ".eE")) {
        *f = strtod(text, &end);
        return end > text && strspn(end, "fFlLdD") == strlen(end) ? 2 : 0;
    }
    errno = 0;
    if (!hex && text[0] == '0' && (text[1] | 32) == 'b')
        *i = (long)strtoul(text + 2, &end, 2);
    else
        *i = (long)strtoul(text, &end, 0);
    return !errno && end > text && strspn(end, "uUlL") == strlen(end);
}
