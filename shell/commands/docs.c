/* The reference pages of the manual, written from the tables that help reads. */
#include <string.h>

#include "commands/families.h"
#include "commands/help.h"
#include "commands/settings.h"

/* Text in a cell of a Markdown table: a bar would end it. */
static void put_cell(dlsh_buf *b, const char *s) {
    for (; *s; s++) {
        if (*s == '|') dlsh_buf_puts(b, "\\");
        dlsh_buf_add(b, *s == '\n' ? " " : s, 1);
    }
}

static void put_param_rows(dlsh_buf *b, const dlsh_command *row) {
    if (!(row->params && row->params->name) && !(row->options && row->options->name)) return;
    dlsh_buf_puts(b, "\n| argument | default | meaning |\n|---|---|---|\n");
    for (const dlsh_param *p = row->params; p && p->name; p++) {
        const char *flag = p->flags & DLSH_VARIADIC ? "any number" : p->flags & DLSH_OPTIONAL ? "may be left out" : "";
        dlsh_buf_printf(b, "| %s | %s | ", p->name, flag);
        put_cell(b, p->doc ? p->doc : "");
        if (p->want) {
            dlsh_buf_puts(b, " (");
            put_cell(b, p->want);
            dlsh_buf_puts(b, ")");
        }
        dlsh_buf_puts(b, " |\n");
    }
    for (const dlsh_option *o = row->options; o && o->name; o++) {
        dlsh_buf_printf(b, "| `%s=` | %s | ", o->name, o->dflt && *o->dflt ? o->dflt : "");
        put_cell(b, o->doc ? o->doc : "");
        dlsh_buf_puts(b, " |\n");
    }
}

static void put_row(dlsh_buf *b, const dlsh_command *row, const char *level) {
    dlsh_buf_printf(b, "\n%s `%s`\n\n%s\n", level, row->usage ? row->usage : row->name, row->doc ? row->doc : "");
    put_param_rows(b, row);
    if (row->examples) dlsh_buf_printf(b, "\n```text\n%s\n```\n", row->examples);
    for (const dlsh_command *sub = row->subs; sub && sub->name; sub++) put_row(b, sub, "####");
}

static void put_class(dlsh_buf *b, const dlsh_class *cls) {
    dlsh_buf_printf(b, "\n### %s\n\n%s\n\n| | |\n|---|---|\n", cls->name, cls->doc ? cls->doc : "");
    for (const dlsh_field *f = cls->fields; f && f->name; f++) {
        dlsh_buf_printf(b, "| `.%s` | ", f->name);
        put_cell(b, f->doc ? f->doc : "");
        dlsh_buf_puts(b, " |\n");
    }
    for (const dlsh_command *m = cls->methods; m && m->name; m++) put_row(b, m, "####");
}

static void put_table(dlsh_buf *b, const char *name, const dlsh_command *rows) {
    dlsh_buf_printf(b, "\n## %s\n", name);
    for (const dlsh_command *r = rows; r->name; r++)
        if (!(r->flags & DLSH_HIDDEN)) put_row(b, r, "###");
}

/* Rows that are in no family: the language's own functions. */
static int in_family(const dlsh_command *row) {
    static const dlsh_command *const families[] = {
#define FAMILY(name) name##_commands,
#include "commands/families.def"
#undef FAMILY
    };
    for (size_t i = 0; i < DLSH_COUNT(families); i++)
        for (const dlsh_command *r = families[i]; r->name; r++)
            if (r == row) return 1;
    return 0;
}

dl_status dlsh_docs_commands(dlsh_session *s, dlsh_buf *out) {
    dlsh_buf_puts(
        out,
        "# Commands and functions\n\nThis page is made from the command table; `help NAME` prints the same. A command "
        "that is also a function is called\nwith parentheses, `r = eval(t)`. Ops are on [a page of their "
        "own](ops.md).\n");
#define FAMILY(name) put_table(out, #name, name##_commands);
#include "commands/families.def"
#undef FAMILY
    dlsh_buf_puts(out, "\n## types\n\nFields and methods of what commands make.\n");
    for (int i = 0; dlsh_types[i]; i++) put_class(out, dlsh_types[i]);
    dlsh_buf_puts(out, "\n## functions of the language\n");
    for (int i = 0; i < dlsh_command_count(s); i++) {
        const dlsh_command *row = dlsh_command_at(s, i);
        if (!in_family(row) && !(row->flags & DLSH_HIDDEN)) put_row(out, row, "###");
    }
    return out->failed ? DL_ERR_MEMORY : DL_OK;
}

dl_status dlsh_docs_settings(dlsh_buf *out) {
    dlsh_buf_puts(
        out,
        "# Settings\n\n`set NAME VALUE` changes one, `set NAME` prints it, `set` lists all. This page is made from the "
        "table of settings.\n\n| setting | values | default | meaning |\n|---|---|---|---|\n");
    for (const dlsh_setting *row = dlsh_settings(); row->name; row++) {
        dlsh_buf_printf(out, "| `%s` | ", row->name);
        put_cell(out, row->values);
        dlsh_buf_printf(out, " | %s | ", row->dflt);
        put_cell(out, row->doc);
        dlsh_buf_puts(out, " |\n");
    }
    return out->failed ? DL_ERR_MEMORY : DL_OK;
}
