/* A single pass over the text that keeps a stack of brackets. */
#include "front/scan.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 64 };

typedef struct level {
    char open;
    size_t at, statement;
    int net;
} level;

typedef struct scanner {
    level stack[DEEPEST];
    int depth;
    dlsh_cursor c;
} scanner;

/* Does the statement that begins here begin with the word `net`? */
static int begins_net(const char *text, size_t from, size_t to) {
    while (from < to && isspace((unsigned char)text[from])) from++;
    return to - from > 4 && !memcmp(text + from, "net ", 4);
}

static void open_bracket(scanner *s, const char *text, size_t i) {
    if (s->depth == DEEPEST) return;
    int net = s->c.net || (text[i] == '{' && begins_net(text, s->c.statement, i));
    s->stack[s->depth++] = (level){text[i], i, s->c.statement, s->c.net};
    s->c.net = net;
    if (text[i] == '{') s->c.statement = i + 1;
}

static void close_bracket(scanner *s, size_t i, char c) {
    if (!s->depth) return;
    level *l = &s->stack[--s->depth];
    s->c.net = l->net;
    s->c.statement = c == '}' ? i + 1 : l->statement;
}

static size_t skip_string(const char *text, size_t len, size_t i, scanner *s) {
    char quote = text[i];
    const size_t width = i + 2 < len && text[i + 1] == quote && text[i + 2] == quote ? 3 : 1;
    s->c.quote = quote;
    s->c.string = i + width;
    for (i += width; i < len; i++) {
        if (text[i] == '\\') {
            i++;
        } else if (text[i] == quote && (width == 1 || (i + 2 < len && text[i + 1] == quote && text[i + 2] == quote))) {
            s->c.quote = 0;
            return i + width - 1;
        }
    }
    return len;
}

dlsh_cursor dlsh_scan(const char *text, size_t len) {
    scanner s = {.depth = 0};
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        int inside = s.depth && s.stack[s.depth - 1].open != '{';
        if (c == '"' || c == '\'') {
            i = skip_string(text, len, i, &s);
        } else if (c == '#') {
            while (i < len && text[i] != '\n') i++;
            s.c.comment = i == len;
            i--; /* the newline ends the statement */
            if (s.c.comment) break;
        } else if (strchr("([{", c)) {
            open_bracket(&s, text, i);
        } else if (strchr(")]}", c)) {
            close_bracket(&s, i, c);
        } else if (c == ';' || (c == '\n' && !inside)) {
            s.c.statement = i + 1;
        }
    }
    for (int i = 0; i < s.depth; i++) s.c.blocks += s.stack[i].open == '{';
    if (s.depth && s.stack[s.depth - 1].open != '{') {
        s.c.open = s.stack[s.depth - 1].open;
        s.c.bracket = s.stack[s.depth - 1].at;
    }
    return s.c;
}
