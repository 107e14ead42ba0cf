/* Pages of the manual as HTML and Markdown. A line at the left margin is a heading where a page or a part of it begins,
 * or a label when it ends in a colon; after a heading it is code, when it looks like code, or prose. One that is
 * indented by two belongs to a paragraph, or is a definition: a name, two blanks, what it means. What is indented
 * further continues with the definition above, or is code. */
#define _GNU_SOURCE /* memmem */
#include "view/rich/manual.h"

#include <string.h>

enum { NOTHING, HEADING, LABEL, PARAGRAPH, DEFINITION, CODE, KINDS };

/* What stands around a block, around each of its lines, and between the two parts of a definition. */
typedef struct form {
    void (*text)(dlsh_buf *b, const char *s, size_t n);
    struct {
        const char *open, *close, *line, *end;
    } at[KINDS];
    const char *means;
} form;

static void put_markdown(dlsh_buf *b, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) dlsh_buf_printf(b, strchr("\\`*_<>[]|#", s[i]) ? "\\%c" : "%c", s[i]);
}

static const form html = {
    dlsh_html_escape,
    {[HEADING] = {"", "", "<h4 style=\"margin:.8em 0 .3em\"><code>", "</code></h4>\n"},
     [LABEL] = {"", "", "<p style=\"margin:.5em 0 .2em\"><b>", "</b></p>\n"},
     [PARAGRAPH] = {"<p style=\"margin:.3em 0\">", "</p>\n", "", " "},
     [DEFINITION] = {"<table>\n", "</table>\n",
                     "<tr style=\"background:none\"><td style=\"text-align:left;vertical-align:top\"><code>",
                     "</td></tr>\n"},
     [CODE] = {"<pre style=\"margin:.2em 1em\">", "</pre>\n", "", "\n"}},
    "</code></td><td style=\"text-align:left\">"};

static const form markdown = {put_markdown,
                              {[HEADING] = {"", "", "#### ", "\n\n"},
                               [LABEL] = {"", "", "**", "**\n\n"},
                               [PARAGRAPH] = {"", "\n\n", "", " "},
                               [DEFINITION] = {"", "\n", "- **", "\n"},
                               [CODE] = {"```\n", "```\n\n", "", "\n"}},
                              "**: "};

typedef struct writer {
    const form *f;
    dlsh_buf *out;
    int kind;    /* of the block that is open */
    int defines; /* a line of definitions is open, for what continues with it */
    int body;    /* a heading stands above, without an empty line between */
} writer;

static void end_definition(writer *w) {
    if (w->defines) dlsh_buf_puts(w->out, w->f->at[DEFINITION].end);
    w->defines = 0;
}

static void enter(writer *w, int kind) {
    end_definition(w);
    if (kind == w->kind) return;
    if (w->kind) dlsh_buf_puts(w->out, w->f->at[w->kind].close);
    if (kind) dlsh_buf_puts(w->out, w->f->at[kind].open);
    w->kind = kind;
}

/* Code stands as it is, in Markdown too. */
static void put_line(writer *w, int kind, const char *s, size_t n) {
    enter(w, kind);
    dlsh_buf_puts(w->out, w->f->at[kind].line);
    if (kind == CODE && w->f == &markdown)
        dlsh_buf_add(w->out, s, n);
    else
        w->f->text(w->out, s, n);
    dlsh_buf_puts(w->out, w->f->at[kind].end);
}

static void put_definition(writer *w, const char *s, size_t name, size_t n) {
    size_t from = name;
    while (from < n && s[from] == ' ') from++;
    enter(w, DEFINITION);
    dlsh_buf_puts(w->out, w->f->at[DEFINITION].line);
    w->f->text(w->out, s, name);
    dlsh_buf_puts(w->out, w->f->means);
    w->f->text(w->out, s + from, n - from);
    w->defines = 1;
}

/* Examples beside each other, and the lines that open and close a block. */
static int is_code(const char *s, size_t n) { return memmem(s, n, "   ", 3) || *s == '}' || s[n - 1] == '{'; }

/* A line at the left margin. */
static void read_margin(writer *w, const char *s, size_t n) {
    if (s[n - 1] == ':')
        put_line(w, LABEL, s, n - 1);
    else if (w->body || w->kind == CODE)
        put_line(w, is_code(s, n) ? CODE : PARAGRAPH, s, n);
    else
        put_line(w, HEADING, s, n);
    w->body = 1;
}

static void read_line(writer *w, const char *line, size_t n) {
    size_t indent = 0;
    while (indent < n && line[indent] == ' ') indent++;
    const char *s = line + indent, *gap = n > indent ? memmem(s, n - indent, "  ", 2) : NULL;
    size_t len = n - indent;
    if (!len)
        enter(w, NOTHING), w->body = 0;
    else if (!indent)
        read_margin(w, s, len);
    else if (indent > 2 && w->defines) {
        dlsh_buf_puts(w->out, " ");
        w->f->text(w->out, s, len);
    } else if (indent > 2)
        put_line(w, CODE, line + (indent < 4 ? indent : 4), n - (indent < 4 ? indent : 4));
    else if (gap)
        put_definition(w, s, (size_t)(gap - s), len);
    else
        put_line(w, PARAGRAPH, s, len);
}

static void put_page(const form *f, dlsh_buf *out, const char *page, size_t n) {
    writer w = {.f = f, .out = out};
    for (const char *s = page, *end = page + n; s < end;) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        size_t len = (size_t)((stop ? stop : end) - s);
        read_line(&w, s, len);
        s += len + (stop != NULL);
    }
    enter(&w, NOTHING);
}

void dlsh_manual_html(dlsh_buf *out, const char *page, size_t n) { put_page(&html, out, page, n); }
void dlsh_manual_markdown(dlsh_buf *out, const char *page, size_t n) { put_page(&markdown, out, page, n); }
