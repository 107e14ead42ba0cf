/* Lines NAME? and ?NAME, as IPython has them: `help NAME`, at the prompt and in notebooks. */
#include <ctype.h>
#include <string.h>

#include "front/question.h"
#include "front/scan.h"

size_t dlsh_blanks(const char *s, size_t n) {
    size_t i = 0;
    while (i < n && (s[i] == ' ' || s[i] == '\t')) i++;
    return i;
}

/* The name that a line NAME? or ?NAME asks about, also NAME??; returns its length, 0 when the line is none. */
static size_t question_name(const char *line, size_t n, const char **name) {
    size_t in = dlsh_blanks(line, n), before, letters, after;
    while (n > in && strchr(" \t\r\n", line[n - 1])) n--;
    for (before = in; before < n && line[before] == '?';) before++;
    for (before += before > in ? dlsh_blanks(line + before, n - before) : 0, letters = before;
         letters < n && (isalnum((unsigned char)line[letters]) || strchr("_.", line[letters]));)
        letters++;
    after = letters + dlsh_blanks(line + letters, n - letters);
    if (after == n || line[after] != '?') after = letters;
    while (after < n && line[after] == '?') after++;
    *name = line + before;
    int leads = before > in, follows = after > letters;
    return after == n && leads != follows ? letters - before : 0;
}

void dlsh_put_line(dlsh_buf *b, const char *line, size_t n) {
    const char *name;
    size_t asked = question_name(line, n, &name);
    dlsh_cursor c = asked ? dlsh_scan(dlsh_buf_text(b), b->n) : (dlsh_cursor){.open = 1};
    if (!c.open && !c.quote && asked)
        dlsh_buf_printf(b, "help %.*s%s", (int)asked, name, line[n - 1] == '\n' ? "\n" : "");
    else
        dlsh_buf_add(b, line, n);
}
