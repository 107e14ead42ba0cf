/* The texts of lessons, and their parts. */
#include <stdlib.h>
#include <string.h>

#include "lang/json.h"

#include "debug/learn/learn.h"

static const char *const lessons[] = {
#include "lesson-1.dlsh.inc"
    ,
#include "lesson-2.dlsh.inc"
    ,
#include "lesson-3.dlsh.inc"
    ,
#include "lesson-4.dlsh.inc"
    ,
#include "lesson-5.dlsh.inc"
    ,
#include "lesson-6.dlsh.inc"
    ,
#include "lesson-7.dlsh.inc"
    ,
#include "lesson-8.dlsh.inc"
    ,
#include "lesson-9.dlsh.inc"
    ,
#include "lesson-10.dlsh.inc"
};

const char *dlsh_lesson_text(long number) {
    return number >= 1 && number <= (long)(DLSH_COUNT(lessons)) ? lessons[number - 1] : NULL;
}

int dlsh_lesson_next(const char *text, size_t *at, int *line, dlsh_lesson_part *out) {
    const char *p = text + *at;
    for (; *p == '\n'; p++) ++*line;
    *out = (dlsh_lesson_part){.text = p, .prose = *p == '#', .line = *line};
    const char *end = p;
    while (*p && (*p == '\n' || (*p == '#') == out->prose)) {
        int blank = *p == '\n';
        if (blank && out->prose) break;
        p += strcspn(p, "\n");
        if (!blank) end = p;
        if (*p) p++, ++*line;
    }
    out->n = (size_t)(end - out->text);
    *at = (size_t)(p - text);
    return out->n > 0;
}

void dlsh_lesson_prose(const dlsh_lesson_part *p, dlsh_buf *out) {
    int joined = 0; /* the line before is one that this one may continue */
    for (const char *l = p->text, *end = p->text + p->n; l < end;) {
        size_t n = strcspn(l, "\n"), skip = n > 1 && l[1] == ' ' ? 2 : 1;
        if (l + n > end) n = (size_t)(end - l);
        int formula = n > skip && l[skip] == ' ', blank = n <= skip;
        int heading = l == p->text && !strncmp(l, "# Lesson", 8);
        if (l > p->text) dlsh_buf_puts(out, joined && !formula && !blank ? " " : "\n");
        if (heading) dlsh_buf_puts(out, "# ");
        if (n > skip) dlsh_buf_add(out, l + skip, n - skip);
        joined = !formula && !blank && !heading;
        l += n + (l[n] == '\n');
    }
}

void dlsh_lesson_title(const char *text, dlsh_buf *out) {
    const char *p = text + strspn(text, "# ");
    dlsh_buf_add(out, p, strcspn(p, "\n"));
}

/* ---------------------------------------------------------------- files */

static json_t *cell_of(const dlsh_lesson_part *p, int number) {
    DLSH_SCOPED_BUF text = {0};
    if (p->prose)
        dlsh_lesson_prose(p, &text);
    else
        dlsh_buf_add(&text, p->text, p->n);
    json_t *cell = json_pack("{s:s, s:o, s:{}, s:s%}", "cell_type", p->prose ? "markdown" : "code", "id",
                             json_sprintf("c%d", number), "metadata", "source", dlsh_buf_text(&text), text.n);
    if (cell && !p->prose) {
        json_object_set_new(cell, "outputs", json_array());
        json_object_set_new(cell, "execution_count", json_null());
    }
    return cell;
}

static dl_status write_notebook(const char *text, const char *path) {
    json_t *cells = json_array();
    dlsh_lesson_part p;
    size_t at = 0;
    int line = 1, failed = !cells;
    for (int i = 0; !failed && dlsh_lesson_next(text, &at, &line, &p); i++)
        failed = json_array_append_new(cells, cell_of(&p, i));
    DLSH_ENDED(json_decref)
    json_t *all = json_pack("{s:o, s:{s:{s:s, s:s, s:s}, s:{s:s}}, s:i, s:i}", "cells", cells, "metadata", "kernelspec",
                            "display_name", "dlsh", "language", "dlsh", "name", "dlsh", "language_info", "name", "dlsh",
                            "nbformat", 4, "nbformat_minor", 5);
    DLSH_FREED char *json = all && !failed ? json_dumps(all, JSON_INDENT(1)) : NULL;
    if (!json) return dlsh_no_memory("a notebook");
    DLSH_SCOPED_BUF out = {0};
    dlsh_buf_puts(&out, json);
    dlsh_buf_puts(&out, "\n");
    return dlsh_buf_write(&out, path);
}

dl_status dlsh_lesson_write(const char *text, const char *path) {
    const char *dot = strrchr(path, '.');
    if (dot && !strcmp(dot, ".ipynb")) return write_notebook(text, path);
    if (!dot || strcmp(dot, ".dlsh") != 0)
        return dlsh_fail(DL_ERR_VALUE, "lesson 1 out=\"lesson.ipynb\", or a name that ends in .dlsh",
                         "a lesson is written as a notebook or as a script, not as '%s'", path);
    DLSH_SCOPED_BUF out = {0};
    dlsh_buf_puts(&out, text);
    return dlsh_buf_write(&out, path);
}
