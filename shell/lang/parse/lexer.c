/* The lexer: bytes to tokens. */
#include "lang/parse/lexer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const texts[] = {
#define TOK(id, text) text,
    DLSH_PUNCTUATION(TOK) DLSH_KEYWORDS(TOK) DLSH_OTHER_TOKENS(TOK)
#undef TOK
};

const char *dlsh_tok_text(dlsh_tok kind) { return texts[kind]; }

static int is_name_start(int c) { return isalpha(c) || c == '_'; }
static int is_name(int c) { return isalnum(c) || c == '_'; }

int dlsh_is_name(const char *s) {
    if (!is_name_start((unsigned char)*s)) return 0;
    while (is_name((unsigned char)*s)) s++;
    return !*s;
}

static dlsh_tok keyword(const char *s, size_t n) {
    for (int k = DLSH_T_IF; k <= DLSH_T_NONE; k++)
        if (!strncmp(texts[k], s, n) && !texts[k][n]) return (dlsh_tok)k;
    return DLSH_T_NAME;
}

void dlsh_lexer_init(dlsh_lexer *lx, dlsh_unit *unit) {
    *lx = (dlsh_lexer){.unit = unit, .line = 1, .prev_end = -1};
    if (!strncmp(unit->text, "\xEF\xBB\xBF", 3)) lx->pos = lx->line_start = 3;
    if (!strncmp(unit->text + lx->pos, "#!", 2)) return; /* a comment like any other */
}

void dlsh_lex_back(dlsh_lexer *lx, const dlsh_token *to) {
    lx->pos = to->span.start;
    lx->line = to->span.line;
    lx->line_start = to->span.start - (to->span.col - 1);
    lx->prev_end = to->adjacent ? to->span.start : -1;
    lx->prev_is_operand = 0;
}

static const char *at(const dlsh_lexer *lx) { return lx->unit->text + lx->pos; }
static int at_end(const dlsh_lexer *lx) { return lx->pos >= (int)lx->unit->len; }

static dlsh_token start(const dlsh_lexer *lx) {
    return (dlsh_token){.kind = DLSH_T_END,
                        .adjacent = lx->prev_end == lx->pos,
                        .span = {lx->line, lx->pos - lx->line_start + 1, lx->pos, lx->pos}};
}

static dlsh_token finish(dlsh_lexer *lx, dlsh_token t, dlsh_tok kind) {
    t.kind = kind;
    t.span.end = lx->pos;
    lx->prev_end = lx->pos;
    lx->prev_is_operand = kind == DLSH_T_NAME || kind == DLSH_T_INT || kind == DLSH_T_FLOAT || kind == DLSH_T_IMAG ||
                          kind == DLSH_T_STR || kind == DLSH_T_RPAREN || kind == DLSH_T_RBRACKET;
    return t;
}

static dlsh_token bad(dlsh_lexer *lx, dlsh_token t, const char *message, const char *hint) {
    t.message = message;
    t.hint = hint;
    return finish(lx, t, DLSH_T_BAD);
}

static void newline(dlsh_lexer *lx) {
    lx->pos++;
    lx->line++;
    lx->line_start = lx->pos;
}

/* White space and comments up to the end of the line; `\` before a newline joins lines. */
static void skip_space(dlsh_lexer *lx) {
    for (;;) {
        const char *p = at(lx);
        if (*p == ' ' || *p == '\t' || *p == '\r')
            lx->pos++;
        else if (*p == '\\' && (p[1] == '\n' || (p[1] == '\r' && p[2] == '\n'))) {
            lx->pos += p[1] == '\r' ? 2 : 1;
            newline(lx);
        } else if (*p == '#')
            while (!at_end(lx) && *at(lx) != '\n') lx->pos++;
        else
            return;
    }
}

/* ---------------------------------------------------------------- numbers */

/* The token of an integer that strtoul has read; of 2^63 the parser knows whether a minus stands before it. */
static dlsh_token whole(dlsh_lexer *lx, dlsh_token t, unsigned long v) {
    if (errno || v > 1UL << 63) return bad(lx, t, DLSH_TOO_LARGE, DLSH_TOO_LARGE_HINT);
    t.num.i = (long)v;
    return finish(lx, t, DLSH_T_INT);
}

static dlsh_token lex_radix(dlsh_lexer *lx, dlsh_token t, int base) {
    char *end;
    lx->pos += 2;
    errno = 0;
    unsigned long v = strtoul(at(lx), &end, base);
    int digits = (int)(end - at(lx));
    if (!digits || !isxdigit((unsigned char)*at(lx))) return bad(lx, t, "digits are missing after the prefix", NULL);
    lx->pos += digits;
    if (is_name((unsigned char)*at(lx))) return bad(lx, t, "this is not a number", NULL);
    return whole(lx, t, v);
}

static void skip_digits(dlsh_lexer *lx) {
    while (isdigit((unsigned char)*at(lx))) lx->pos++;
}

static dlsh_token lex_number(dlsh_lexer *lx, dlsh_token t) {
    const char *p = at(lx);
    if (*p == '0' && (p[1] == 'x' || p[1] == 'X')) return lex_radix(lx, t, 16);
    if (*p == '0' && (p[1] == 'b' || p[1] == 'B')) return lex_radix(lx, t, 2);
    int point = 0, exponent = 0;
    skip_digits(lx);
    if (*at(lx) == '.' && at(lx)[1] != '.' && !is_name_start((unsigned char)at(lx)[1])) {
        point = 1;
        lx->pos++;
        skip_digits(lx);
    } else if (*at(lx) == '.' && (at(lx)[1] == 'e' || at(lx)[1] == 'E') &&
               (isdigit((unsigned char)at(lx)[2]) || at(lx)[2] == '-' || at(lx)[2] == '+')) {
        point = 1;
        lx->pos++;
    }
    if (*at(lx) == 'e' || *at(lx) == 'E') {
        int sign = at(lx)[1] == '-' || at(lx)[1] == '+';
        if (isdigit((unsigned char)at(lx)[1 + sign])) {
            exponent = 1;
            lx->pos += 1 + sign;
            skip_digits(lx);
        }
    }
    if ((*at(lx) == 'i' || *at(lx) == 'j') && !is_name((unsigned char)at(lx)[1])) {
        t.num.f = strtod(p, NULL);
        lx->pos++;
        return finish(lx, t, DLSH_T_IMAG);
    }
    if (is_name((unsigned char)*at(lx))) {
        char first = *at(lx);
        int suffix = strchr("fFlLuU", first) && !is_name((unsigned char)at(lx)[1]);
        while (is_name((unsigned char)*at(lx))) lx->pos++;
        return bad(lx, t, "letters touch this number",
                   suffix         ? "numbers have no suffixes here: 1.0 is a float, 1 an integer"
                   : first == '_' ? "numbers are written without separators: 1000000"
                   : first == 'o' ? "there are hexadecimal numbers, 0x1F, and binary ones, 0b101"
                   : first == 'e' ? "an exponent has digits: 1e-3"
                                  : "names cannot begin with a digit");
    }
    errno = 0;
    if (point || exponent) {
        t.num.f = strtod(p, NULL);
        return finish(lx, t, DLSH_T_FLOAT);
    }
    if (*p == '0' && lx->pos - t.span.start > 1)
        return bad(lx, t, "an integer cannot begin with 0", "write 0x1F for hexadecimal; leading zeros are dropped");
    return whole(lx, t, strtoul(p, NULL, 10));
}

/* ---------------------------------------------------------------- strings */

static int hex_digits(const char *p, int max, unsigned *out) {
    int n = 0;
    unsigned v = 0;
    for (; n < max && isxdigit((unsigned char)p[n]); n++)
        v = v * 16 + (unsigned)(isdigit((unsigned char)p[n]) ? p[n] - '0' : tolower((unsigned char)p[n]) - 'a' + 10);
    *out = v;
    return n;
}

static int put_utf8(char *out, unsigned c) {
    if (c < 0x80) return out[0] = (char)c, 1;
    if (c < 0x800) return out[0] = (char)(0xC0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000)
        return out[0] = (char)(0xE0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)), out[2] = (char)(0x80 | (c & 63)),
               3;
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* Writes the escape at p (after the backslash) to out; returns the bytes read, 0 when it is not an escape. */
static int escape(const char *p, char *out, int *nout) {
    static const char from[] = "ntr0abfve\\'\"", to[] = "\n\t\r\0\a\b\f\v\033\\'\"";
    unsigned v;
    *nout = 1;
    if (*p >= '0' && *p <= '7') {
        int n = 0, o = 0;
        while (n < 3 && p[n] >= '0' && p[n] <= '7') o = o * 8 + (p[n++] - '0');
        *out = (char)o;
        return n;
    }
    if (*p == 'x') {
        int n = hex_digits(p + 1, 2, &v);
        *out = (char)v;
        return n ? n + 1 : 0;
    }
    if (*p == 'u' || *p == 'U') {
        int want = *p == 'u' ? 4 : 8;
        if (hex_digits(p + 1, want, &v) != want || v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) return 0;
        *nout = put_utf8(out, v);
        return want + 1;
    }
    const char *e = *p ? strchr(from, *p) : NULL;
    if (!e) return 0;
    *out = to[e - from];
    return 1;
}

/* Is the string at p one of several lines, in three quotes? */
static int is_long(const char *p) { return p[0] == p[1] && p[0] == p[2]; }

/* Does a string that began with `open` end at p? */
static int closes(const char *p, const char *open) { return *p == *open && (!is_long(open) || is_long(p)); }

/* Bytes of the string from `open` to its end, or to where it is cut off: an upper bound of what it holds. */
static size_t string_room(const dlsh_lexer *lx, const char *open) {
    const char *end = lx->unit->text + lx->unit->len, *p = open + (is_long(open) ? 3 : 1);
    while (p < end && !closes(p, open) && (*p != '\n' || is_long(open)))
        p += *p == '\\' && p + 1 < end && p[1] != '\n' ? 2 : 1;
    return (size_t)(p - open) + 4;
}

static dlsh_token not_closed(dlsh_lexer *lx, dlsh_token t, int several_lines) {
    t.open = several_lines;
    if (several_lines)
        return bad(lx, t, "this string is not closed", "a string of several lines stands in \"\"\" ... \"\"\"");
    return bad(lx, t, "this string is not closed on its line",
               lx->unit->text[t.span.start] == '\'' && t.adjacent
                   ? "a transposed matrix is x.T; strings stand in \" or '"
                   : "a newline inside a string is written \\n; one of several lines stands in \"\"\" ... \"\"\"");
}

static dlsh_token lex_string(dlsh_lexer *lx, dlsh_token t) {
    const char *open = at(lx);
    const int several_lines = is_long(open);
    char *out = dlsh_unit_alloc(lx->unit, string_room(lx, open));
    if (!out) return bad(lx, t, "no memory for this string", NULL);
    lx->pos += several_lines ? 3 : 1;
    while (!at_end(lx) && !closes(at(lx), open) && (*at(lx) != '\n' || several_lines)) {
        const int joined = several_lines && *at(lx) == '\\' && at(lx)[1] == '\n'; /* the newline does not count */
        if (joined) lx->pos++;
        if (*at(lx) != '\\') {
            if (!joined) out[t.len++] = *at(lx);
            if (*at(lx) == '\n')
                newline(lx);
            else
                lx->pos++;
            continue;
        }
        int nout, used = escape(at(lx) + 1, out + t.len, &nout);
        if (!used) {
            dlsh_token e = start(lx);
            lx->pos += at_end(lx) || at(lx)[1] == '\n' || !at(lx)[1] ? 1 : 2;
            return bad(lx, e, "unknown escape in a string", "a backslash itself is written \\\\");
        }
        t.len += nout;
        lx->pos += 1 + used;
    }
    if (at_end(lx) || *at(lx) == '\n') return not_closed(lx, t, several_lines);
    lx->pos += several_lines ? 3 : 1;
    t.text = out;
    return finish(lx, t, DLSH_T_STR);
}

int dlsh_string_byte(const dlsh_unit *unit, int open, const char *text, int at) {
    const char *from = unit->text + open, *end = unit->text + unit->len, *p = from + (is_long(from) ? 3 : 1);
    int n = 0, found = -1, size = (int)strlen(text);
    while (p < end && !closes(p, from)) {
        char out[4] = {*p};
        int nout = 1, used = *p == '\\' ? escape(p + 1, out, &nout) + 1 : 1;
        if (n + nout > size || memcmp(out, text + n, (size_t)nout)) return -1;
        if (at >= n && at < n + nout) found = (int)(p - unit->text);
        n += nout;
        p += used;
    }
    if (p >= end || n != size) return -1;
    return at == n ? (int)(p - unit->text) : found;
}

/* ---------------------------------------------------------------- the rest */

static dlsh_token lex_unknown(dlsh_lexer *lx, dlsh_token t) {
    unsigned char c = (unsigned char)*at(lx);
    int n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    const char *what = "this character has no meaning here", *hint = NULL;
    if (!strncmp(at(lx), "\xE2\x80", 2)) hint = "typographic quotes and dashes are not the plain ones: \" ' -";
    if (!strncmp(at(lx), "\xC2\xA0", 2)) hint = "it is a non-breaking space; use a plain one";
    if (c == '`') hint = "strings stand in \" or '";
    if (c == '$') hint = "names have no $; C text goes into C { }";
    if (c == '\\') hint = "a backslash joins lines only as the last character of a line";
    while (n-- > 0 && !at_end(lx)) lx->pos++;
    return bad(lx, t, what, hint);
}

dlsh_token dlsh_lex(dlsh_lexer *lx) {
    skip_space(lx);
    dlsh_token t = start(lx);
    if (at_end(lx)) return finish(lx, t, DLSH_T_END);
    unsigned char c = (unsigned char)*at(lx);
    if (c == '\n') {
        newline(lx);
        t = finish(lx, t, DLSH_T_NEWLINE);
        t.span.end = t.span.start;
        return t;
    }
    if (is_name_start(c)) {
        while (is_name((unsigned char)*at(lx))) lx->pos++;
        t.text = lx->unit->text + t.span.start;
        t.len = lx->pos - t.span.start;
        return finish(lx, t, keyword(t.text, (size_t)t.len));
    }
    if (isdigit(c) || (c == '.' && isdigit((unsigned char)at(lx)[1]) && !(t.adjacent && lx->prev_is_operand)))
        return lex_number(lx, t);
    if (c == '"' || c == '\'') return lex_string(lx, t);
    for (int k = 0; k < DLSH_T_IF; k++) {
        size_t n = strlen(texts[k]);
        if (!strncmp(at(lx), texts[k], n)) {
            lx->pos += (int)n;
            return finish(lx, t, (dlsh_tok)k);
        }
    }
    return lex_unknown(lx, t);
}

/* A word goes on through a bracket that touches it, up to its end on the same line: min(val/loss). */
static int bracket_in_word(const dlsh_lexer *lx) {
    const char *p = lx->unit->text + lx->pos, *end = lx->unit->text + lx->unit->len;
    if (p >= end || *p != '(') return 0;
    for (const char *q = p + 1; q < end && !strchr("\n;([]{}", *q); q++)
        if (*q == ')') return (int)(q - p) + 1;
    return 0;
}

dlsh_token dlsh_lex_word(dlsh_lexer *lx) {
    skip_space(lx);
    char c = *at(lx);
    if (at_end(lx) || strchr("\n;()[]{}", c)) return dlsh_lex(lx);
    if (c == '"' || c == '\'') {
        dlsh_token t = dlsh_lex(lx);
        t.quoted = 1;
        return t;
    }
    dlsh_token t = start(lx);
    for (int n = 1; n; lx->pos += n) {
        int ends = at_end(lx) || !*at(lx) || isspace((unsigned char)*at(lx)) || strchr(";()[]{}", *at(lx));
        n = !ends ? 1 : lx->pos > t.span.start ? bracket_in_word(lx) : 0;
    }
    if (lx->pos == t.span.start) return lex_unknown(lx, t);
    t.len = lx->pos - t.span.start;
    t.text = dlsh_unit_text(lx->unit, lx->unit->text + t.span.start, (size_t)t.len);
    if (!t.text) return bad(lx, t, "no memory for this word", NULL);
    return finish(lx, t, DLSH_T_STR);
}

/* Skips one comment or literal of C at the position; 0 when there is none, -1 when it does not end. */
static int skip_c_literal(dlsh_lexer *lx) {
    const char *p = at(lx), *end = lx->unit->text + lx->unit->len, *q = p + 1;
    if (p[0] == '/' && p[1] == '/')
        while (q < end && *q != '\n') q++;
    else if (p[0] == '/' && p[1] == '*') {
        for (q = p + 2; q < end && !(q[0] == '*' && q[1] == '/'); q++) {}
        if (q >= end) return -1;
        q += 2;
    } else if (*p == '"' || *p == '\'') {
        for (; q < end && *q != *p && *q != '\n'; q++)
            if (*q == '\\' && q + 1 < end) q++;
        if (q >= end) return -1;
        q++;
    } else
        return 0;
    while (lx->pos < (int)(q - lx->unit->text))
        if (*at(lx) == '\n')
            newline(lx);
        else
            lx->pos++;
    return 1;
}

/* At the end of a line: whether the next one begins with another <header.h>, as no statement does. */
static int goes_on(const dlsh_lexer *lx) {
    const char *p = lx->unit->text + lx->pos, *end = lx->unit->text + lx->unit->len;
    while (p < end && isspace((unsigned char)*p)) p++;
    return p < end && *p == '<';
}

dlsh_token dlsh_lex_c(dlsh_lexer *lx, int to_semicolon) {
    dlsh_token t = start(lx);
    for (int braces = 0, parens = 0; !at_end(lx);) {
        int skipped = skip_c_literal(lx);
        if (skipped < 0) break;
        if (skipped) continue;
        char c = *at(lx);
        int ends = to_semicolon ? (c == ';' || (c == '\n' && !goes_on(lx))) && !parens && !braces : c == '}' && !braces;
        if (ends) {
            t.len = lx->pos - t.span.start;
            t.text = dlsh_unit_text(lx->unit, lx->unit->text + t.span.start, (size_t)t.len);
            if (c == '\n')
                newline(lx);
            else
                lx->pos++;
            return t.text ? finish(lx, t, DLSH_T_STR) : bad(lx, t, "no memory for this text", NULL);
        }
        braces += (c == '{') - (c == '}');
        parens += (c == '(') - (c == ')');
        if (c == '\n')
            newline(lx);
        else
            lx->pos++;
    }
    while (!at_end(lx))
        if (*at(lx) == '\n')
            newline(lx);
        else
            lx->pos++;
    if (to_semicolon) {
        t.len = lx->pos - t.span.start;
        t.text = dlsh_unit_text(lx->unit, lx->unit->text + t.span.start, (size_t)t.len);
        if (t.text && t.len) return finish(lx, t, DLSH_T_STR);
    }
    t = start(lx);
    return finish(lx, t, DLSH_T_END);
}
