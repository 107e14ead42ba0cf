/* The magics of Jupyter that are known here, rewritten as text of the language, line by line:
 *
 *     %%c [OPTIONS]      the whole cell is C      becomes   C [OPTIONS] { ... }
 *     %%time             tells how long the cell took
 *     %time STATEMENT    becomes   time STATEMENT
 *     NAME?  ?NAME       becomes   help NAME */
#include <stdlib.h>
#include <string.h>

#include "front/question.h"
#include "jupyter/kernel.h"
#include "front/scan.h"

/* Does the line begin with this word, whole? */
static int begins(const char *line, size_t n, const char *word) {
    size_t len = strlen(word);
    return n >= len && !memcmp(line, word, len) && (n == len || strchr(" \t\r\n", line[len]));
}

/* The first line that is not empty begins here. */
static size_t first_line(const char *s, size_t n) {
    size_t i = 0;
    while (i < n && strchr(" \t\r\n", s[i])) i++;
    return i;
}

int jup_cell_is_c(const char *code, size_t len) {
    size_t at = first_line(code, len);
    return begins(code + at, len - at, "%%c");
}

int jup_cell_timed(const char *code, size_t len) {
    size_t at = first_line(code, len);
    return begins(code + at, len - at, "%%time");
}

/* C OPTIONS {, in the columns of %%c OPTIONS. */
static void put_c(dlsh_buf *b, const char *code, size_t len, size_t at) {
    const char *newline = memchr(code + at, '\n', len - at);
    size_t end = newline ? (size_t)(newline - code) : len;
    dlsh_buf_add(b, code, at);
    dlsh_buf_puts(b, "C ");
    dlsh_buf_add(b, code + at + 3, end - at - 3);
    dlsh_buf_puts(b, " {");
    dlsh_buf_add(b, code + end, len - end);
    dlsh_buf_puts(b, "\n}");
}

/* The % of %time becomes a blank, so that columns in messages stay right. */
static void put_line(dlsh_buf *b, const char *line, size_t n) {
    size_t in = dlsh_blanks(line, n), at = b->n;
    int timed = begins(line + in, n - in, "%time");
    dlsh_cursor c = timed ? dlsh_scan(dlsh_buf_text(b), at) : (dlsh_cursor){.open = 1};
    dlsh_put_line(b, line, n);
    if (!c.open && !c.quote && timed && !b->failed) b->s[at + in] = ' ';
}

static void put_lines(dlsh_buf *b, const char *code, size_t len, size_t from) {
    for (size_t i = from; i < len;) {
        const char *newline = memchr(code + i, '\n', len - i);
        size_t end = newline ? (size_t)(newline - code) + 1 : len;
        put_line(b, code + i, end - i);
        i = end;
    }
}

char *jup_cell_text(const char *code, size_t len, size_t *out_len) {
    DLSH_SCOPED_BUF b = {0};
    size_t at = first_line(code, len);
    if (jup_cell_is_c(code, len)) {
        put_c(&b, code, len, at);
    } else if (begins(code + at, len - at, "%%time")) {
        dlsh_buf_add(&b, code, at);
        dlsh_buf_puts(&b, "      ");
        put_lines(&b, code, len, at + 6);
    } else {
        put_lines(&b, code, len, 0);
    }
    char *text = b.failed ? NULL : malloc(b.n + 1);
    if (text) memcpy(text, dlsh_buf_text(&b), b.n + 1); /* there may be NULs inside */
    *out_len = b.n;
    return text;
}
